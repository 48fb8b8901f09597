"""How a kept run ends: its last model and its description wait beside the secrets until its account is closed."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from .._files import write_atomically
from ..errors import StateError
from ..learners.keeping import Export, Run
from ..ledger import Account, Ledger
from ._checkpoints import DESCRIBED, Checkpoints
from ._joined import Joined
from ._models import RECORD, read_record, write_export
from ._together import Alone, close_as_left

if TYPE_CHECKING:
    from ..learners import OnlineLearner

__all__ = ["Ends", "Finished"]


class Finished(StateError):
    """The run has ended: there is nothing to resume."""


class Ends(ABC):
    """The end of a run, as :class:`State` knows it."""

    directory: Path
    _files: Checkpoints
    _inputs: dict[str, Any] | None
    _digest: Any
    _caught_up: int
    _company: Alone
    _joined: Joined
    _describe: Callable[[], tuple[dict[str, Any], int]] | None = None
    _sealed: tuple[Run, Export]  # the end of the run, until the account is closed

    @abstractmethod
    def _refuse(self, what: str) -> NoReturn:
        """Raise StateError about the directory."""

    @abstractmethod
    def _release(self) -> None:
        """Release the directory."""

    @abstractmethod
    def open(self, learner: OnlineLearner, *, replay: bool = False) -> None:
        """Take the directory."""

    @abstractmethod
    def leave(self, learner: OnlineLearner, run: Run | None) -> None:
        """Release the directory for another process."""

    @abstractmethod
    def learner(self, *, ledger: Ledger | None = None) -> OnlineLearner:
        """A learner with the parameters of the run."""

    def described_by(self, describe: Callable[[], tuple[dict[str, Any], int]]) -> None:
        """Let a run be described before its account is closed: ``run.json`` then comes out together with its model.

        Parameters
        ----------
        describe : callable
            Returns JSON values and the mode of their file. It is called once, when the last release is made, and sees
            the learner as it will be when the run has ended.
        """
        self._describe = describe

    def seal(self, learner: OnlineLearner, run: Run) -> None:
        """The last release is made: write the model next to the secrets, where it is not visible.

        It comes out when the ledger has closed the account, which nothing undoes: a run of which the last model can be
        seen never goes on, with more rows or with others.
        """
        if self._digest.rows < self._caught_up:
            self._refuse(
                f"the stream has {self._digest.rows} rows, and the run that is kept here has learnt {self._caught_up}"
            )
        self._sealed = (run, export := run.export())
        self._files.clear_model()
        if export.n_releases:
            write_export(learner, export, self._files.folder, self._inputs)
        if self._describe is not None:
            before, run.handed = run.handed, export  # only the description sees it: nothing is paid for yet
            try:
                record, mode = self._describe()
            finally:
                run.handed = before
            text = json.dumps(record, indent=1, allow_nan=False).encode() + b"\n"
            write_atomically(self._files.folder / DESCRIBED, text, mode=mode)
        self._company.meet()  # no run ends before all have their model

    def settled(self) -> None:
        """Show the model and remove all secrets: the account is closed."""
        run, export = self._sealed
        self._files.show_model(run.account)
        run.handed = export
        self._wipe()

    def finish(self) -> bool:
        """Show all of a run that has ended, if its process was killed before it had; False if it has not ended.

        Nothing is learnt, released or spent: its account is closed, and its model and description are complete.

        Raises
        ------
        StateError
            If it is damaged, or another process has the directory.
        """
        plan, journal = self._files.read_plan(), self.directory / "ledger.jsonl"
        if plan is None or not journal.exists():
            return False
        found = Ledger.read(journal)
        of = [account for account in found.accounts if account.plan_id == plan["plan_id"]]
        if not any(account.closed and account.commits for account in of):
            return False
        limit: dict[str, Any] = {"epsilon": found.epsilon, "delta": found.delta, "slack": found.slack}
        with closing(Ledger(adjacency=found.adjacency, journal=journal, **limit)) as ledger:
            learner = self.learner(ledger=ledger)
            try:
                self.open(learner)
            except Finished:
                return True
            self.leave(learner, None)
        return False

    def _wipe(self) -> None:
        self._files.hide_release()
        self._company.leave()
        self._files.clear(taught=True)
        if not self._joined.open:  # otherwise leave() releases the directory
            self._release()

    def _end_as_others(self, account: Account) -> None:
        """Close the account of a rank that was killed where its run ended: another rank's run has.

        None ends before all have sealed their last model, so it is here, and all that it needs was sent.
        """
        if not account.closed:
            if not (self._files.folder / RECORD).exists():
                self._refuse("the run has ended on another rank, and its last model is not here")
            record = read_record(self._files.folder)
            close_as_left(account, self._files.folder, rows=record["n_rows"], releases=record["n_releases"])

    def _finished(self, account: Account | None, ledger: Ledger) -> NoReturn:
        """Report that the run has ended; if a crash came before, first show its model or remove its secrets."""
        self._files.show_model(account)
        for other in self._joined.known(ledger):  # of which nothing more can be released: the models are over
            entry = other.entry()  # all that it reserved, unless the journal knows better
            other.close_at(entry.rows, entry.releases, entry.mu_squared)
        self._wipe()
        raise Finished(
            f"{self.directory}: the run in this directory is finished: privol.state.load_model() reads its model"
        )
