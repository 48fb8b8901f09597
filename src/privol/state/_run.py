"""Runs that outlive their process: what a block changes is on the disk before anything of it is handed out."""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from .. import __version__
from .._core._noise import Source
from .._files import sync_folder, write_atomically
from .._validate import integer
from ..errors import StateError
from ..learners import LEARNERS, OnlineLearner
from ..learners._model import Export
from ..learners._runs import Run, promised_by
from ..learners._targets import Targets
from ..ledger import Account, Ledger
from ..losses import Loss
from ._digest import RowDigest
from ._models import (
    ARRAYS,
    RECORD,
    describe_classes,
    describe_parameters,
    digest_of,
    name_of,
    parameters_of,
    write_export,
)

__all__ = ["State"]

FORMAT, VERSION = "privol.state", 1
LEDGER, FOLDER, PLAN = "ledger.jsonl", "secret", "run.json"

Arrays = dict[str, NDArray[Any]]


def _noise_of(calibration: Any) -> str:
    """A digest of a calibration's noise and sensitivities, in every digit: of rows 1, 2, 4, ... and the last."""
    last = calibration.releases.last_row
    rows = sorted({last, calibration.releases.horizon, *(1 << k for k in range(last.bit_length()))})
    numbers = [(f(row).hex()) for f in (calibration.std, calibration.sensitivity) for row in rows if row <= last]
    return digest_of({"mu": calibration.mu.hex(), "numbers": numbers})


class State:
    """The directory of a run that outlives its process: **secret** while the run lasts.

    ``learner.fit_stream(stream, checkpoint=State("RUN"))`` begins a run, or goes on with the one that is there: the
    same lines after a crash reach the same released values, bit for bit, as a run that nothing interrupts. What a
    block releases, what it spends and the secret state (noise key included, mode 0600) reach the disk before any of it
    can be seen: until then every attribute of the learner shows what was kept last.

    Parameters
    ----------
    directory : path
        Made if it does not exist; its parent must. It holds ``ledger.jsonl``, the journal of the run's ledger unless
        the learner has one, and the folder ``secret``, which is removed when the run ends; then also ``model.npz`` and
        ``model.json``, the released model.
    every : int, default=65536
        Rows after which the state is kept, at least 1. A crash loses the work of at most so many rows, no result: they
        are learnt again with the same noise.

    Notes
    -----
    The stream must be read from its beginning once more: rows that the run has learnt already are compared with a
    digest and skipped. Other rows are refused, because the noise that they would be given may have been published with
    the old ones. For the same reason a directory must never be copied, or put back from a copy, to go on from: two runs
    with one noise key show the difference of their rows. An older checkpoint that is put into a directory resumes the
    model, whose rows are then learnt again; what was spent stays spent.

    When the stream ends, the ledger closes the run's account for good, and only then the model is shown: there is no
    going on from a run whose last model can be seen.

    An error of the stream or an interrupt ends ``fit_stream`` with what was learnt kept and the learner showing it; the
    run goes on by the same call. One process at a time may have a directory.
    """

    def __init__(self, directory: str | os.PathLike[str], *, every: int = 65536) -> None:
        self.directory = Path(directory)
        self._every = integer(every=every, at_least=1)
        self._folder = self.directory / FOLDER
        self._lock: FileLock | None = None
        self._ledger: Ledger | None = None  # its own, not the learner's
        self._reset()

    def _reset(self) -> None:
        self._digest = RowDigest()
        self._resume: tuple[Account, Arrays, int] | None = None  # the account, what was kept, and its rows
        self._known: dict[int, str] = {}  # rows -> digest, as the journal has them
        self._kept = -1  # rows of the last checkpoint
        self._file = ""
        self._ending = False
        self._sealed: tuple[Run, Export] | None = None  # the run's end, until the account is closed
        self._caught_up = 0  # rows that the journal knows of

    def __repr__(self) -> str:
        return f"<State of {self.directory}>"

    def _refuse(self, what: str) -> NoReturn:
        raise StateError(f"{self.directory}: {what}")

    # ---- what is there ------------------------------------------------------------------------------------

    def _read_plan(self) -> dict[str, Any] | None:
        path = self._folder / PLAN
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            self._refuse(f"{FOLDER}/{PLAN} cannot be read: {error}")
        if not isinstance(record, dict) or record.get("format") != FORMAT:
            self._refuse(f"{FOLDER}/{PLAN} is not of format {FORMAT!r}")
        if record.get("version") != VERSION:
            self._refuse(f"has version {record.get('version')!r}; this release of privol reads version {VERSION}")
        if record.pop("sha256", None) != digest_of(record):
            self._refuse(f"{FOLDER}/{PLAN} was altered (its checksum does not match)")
        return record

    def learner(self, *, loss: Loss | None = None, ledger: Ledger | None = None) -> OnlineLearner:
        """Return a learner with the parameters of the run that is there, to go on with it by ``fit_stream``.

        Parameters
        ----------
        loss : Loss, optional
            The object itself, where the run has a custom loss.
        ledger : Ledger, optional
            The ledger of the run, where it is not the directory's own.

        Raises
        ------
        StateError
            If there is no run to go on with.
        """
        plan = self._read_plan()
        if plan is None:
            self._refuse("no run to go on with is here")
        made = LEARNERS[plan["learner"]](**parameters_of(plan["parameters"], loss))
        made.ledger = ledger
        return made

    # ---- the life of a run: what fit_stream calls -----------------------------------------------------------

    def open(self, learner: OnlineLearner) -> None:
        """Take the directory, and see whether a run is to go on."""
        if self._lock is not None:
            self._refuse("is in use by another call of fit_stream")
        try:
            self.directory.mkdir(exist_ok=True)
            self._folder.mkdir(mode=0o700, exist_ok=True)
            lock = FileLock(str(self._folder / "lock"), timeout=0, thread_local=False)
            lock.acquire()
        except Timeout:
            self._refuse("another process is learning here: one at a time")
        self._lock = lock
        self._reset()
        try:
            for folder in (self.directory, self._folder):  # of files that a crash kept from being finished
                for draft in folder.glob(".*.tmp"):
                    draft.unlink()
            self._open(learner)
        except BaseException:
            self._release()
            raise

    def _open(self, learner: OnlineLearner) -> None:
        if learner.ledger is None:
            path = self.directory / LEDGER
            self._ledger = Ledger(adjacency=learner._adjacency(), journal=path)
            learner._own_ledger = self._ledger
        elif getattr(learner.ledger, "journal", None) is None:
            self._refuse("a run that outlives its process needs a ledger that does: Ledger(journal=...), or none")
        ledger = learner._ledger()
        plan = self._read_plan()
        if plan is None:
            if (self.directory / RECORD).exists():
                self._finished()
            self._clear()
            return
        account = next((a for a in ledger.accounts if a.plan_id == plan["plan_id"]), None)
        if account is None:
            self._refuse(f"the ledger {ledger.journal} knows nothing of the run that is kept here")
        if account.closed:
            self._finished()
        found, asked = plan["parameters"], describe_parameters(learner)
        if plan["learner"] != name_of(learner) or found != asked:
            names = [n for n in sorted({*found, *asked}) if found.get(n) != asked.get(n)] or ["the learner"]
            self._refuse(
                f"the run that is kept here has other parameters ({', '.join(names)}): State({str(self.directory)!r})."
                "learner() has those it was begun with"
            )
        if not account.commits:  # it ended before its first row
            account.attach(lambda: (0, 0, 0.0))
            account.close()
            self._clear()
            return
        for commit in account.commits:
            self._known[commit["rows"]] = commit["facts"]["digest"]
        self._caught_up = account.commits[-1]["rows"]
        for commit in reversed(account.commits):
            arrays = self._read(commit["facts"])
            if arrays is not None:
                self._resume = (account, arrays, commit["rows"])
                self._plan, self._file, self._kept = plan, commit["facts"]["checkpoint"], commit["rows"]
                return
        self._refuse("no checkpoint that the ledger knows of is here and whole: the run cannot go on")

    def _clear(self) -> None:
        """Nothing is to go on: what a crash left of a run that had not begun is removed."""
        for path in self._folder.glob("checkpoint-*"):
            path.unlink()

    def _read(self, facts: dict[str, Any]) -> Arrays | None:
        """The checkpoint of a commit; None if it is not there, or damaged."""
        try:
            content = (self._folder / facts["checkpoint"]).read_bytes()
            if hashlib.sha256(content).hexdigest() != facts["sha256"]:
                return None
            with np.load(io.BytesIO(content), allow_pickle=False) as file:
                return {name: file[name] for name in file.files}
        except (OSError, ValueError, zipfile.BadZipFile):
            return None

    def begin(
        self, learner: OnlineLearner, n_features: int, horizon: int, release: Any, targets: Targets, stream: Any
    ) -> Run:
        """Begin a run, or go on with the one that is there: with its first block at hand."""
        if self._resume is not None:
            return self._go_on(learner, n_features, horizon, targets, stream)
        run = learner._start(n_features, horizon, release, targets, stream)
        plan: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "learner": name_of(learner),
            "parameters": describe_parameters(learner),
            "n_features": n_features,
            "classes": describe_classes(targets.classes),
            "horizon": horizon,
            "release": release.tolist() if isinstance(release, np.ndarray) else release,
            "plan_id": run.account.plan_id,
            "privol": __version__,
            "noise": _noise_of(run.plan),
        }
        plan["sha256"] = digest_of(plan)
        self._plan = plan
        write_atomically(self._folder / PLAN, json.dumps(plan, indent=1, allow_nan=False).encode(), mode=0o600)
        run.keeper = self
        self.commit(run)
        return run

    def _go_on(self, learner: OnlineLearner, n_features: int, horizon: int, targets: Targets, stream: Any) -> Run:
        assert self._resume is not None
        account, arrays, _ = self._resume
        plan, labels = self._plan, targets.classes
        for name, found in (("n_features", n_features), ("horizon", horizon), ("classes", describe_classes(labels))):
            if plan[name] != found:
                self._refuse(f"the run that is kept here has {name} {plan[name]!r}, found {found!r}")
        source = None
        if arrays["key"].size:
            kept = account.guarantee
            source = Source(bytes(arrays["key"]), private=kept.private, description=kept.bit_source)
        state, calibration, guarantee = learner._open_labelled(n_features, horizon, plan["release"], labels, source)
        guarantee = promised_by(stream, guarantee)
        if plan["privol"] != __version__:
            self._refuse(f"the run that is kept here was begun by privol {plan['privol']}, and goes on only with it")
        if guarantee != account.guarantee or plan["noise"] != _noise_of(calibration):
            self._refuse(
                "the run that is kept here has another guarantee or other noise: it goes on only as it was begun"
            )
        state._restore(arrays)
        account.attach(learner._counters(state, guarantee))
        run = learner._adopt(Run(state, calibration, guarantee, account, targets, horizon), stream)
        run.keeper = self
        run.handed = run.export()
        return run

    def skip(self, X: Any, targets: NDArray[np.float64]) -> int:
        """How many rows of a block the run has learnt already: they must be the same."""
        if self._resume is None or self._digest.rows >= self._resume[2]:
            return 0
        rows = self._resume[2]
        n = min(X.shape[0], rows - self._digest.rows)
        self._digest.update(X[:n], targets[:n])
        if self._digest.rows == rows:
            self._compare()
        return int(n)

    def _compare(self) -> None:
        known = self._known.get(self._digest.rows)
        if known is not None and known != self._digest.hexdigest():
            self._refuse(
                f"the first {self._digest.rows} rows of the stream are not those that the run has learnt: it goes on "
                "only with the same rows, because noise that was published with them would show the difference"
            )

    def room(self) -> int:
        """Rows that may be learnt before the state is to be kept, or compared."""
        rows = self._digest.rows
        return min((known for known in self._known if known > rows), default=self._kept + self._every) - rows

    def learnt(self, run: Run, X: Any, targets: NDArray[np.float64], *, released: bool) -> bool:
        """Rows have been learnt. Returns whether what they released may be handed out."""
        self._digest.update(X, targets)
        rows = self._digest.rows
        if rows <= self._caught_up:  # once more: an older checkpoint was there
            self._compare()
            if rows == self._caught_up:
                self.commit(run)
            return rows == self._caught_up
        if released or rows - self._kept >= self._every:
            self.commit(run)
            return True
        return False

    def commit(self, run: Run) -> None:
        """Keep the state of a run: first the checkpoint, then what the ledger says of it; then it may be seen.

        Raises
        ------
        OSError
            If it cannot be written: what was kept before stands.
        """
        if run.state.n_rows == self._kept and run.handed is not None:
            return
        buffer = io.BytesIO()
        arrays: dict[str, Any] = run.state._secret_arrays()
        np.savez(buffer, **arrays)
        content = buffer.getvalue()
        name = f"checkpoint-{run.state.n_rows:015d}.npz"
        write_atomically(self._folder / name, content, mode=0o600)
        sha256 = hashlib.sha256(content).hexdigest()
        run.account.commit(checkpoint=name, sha256=sha256, digest=self._digest.hexdigest())
        before, self._file, self._kept = self._file, name, run.state.n_rows
        run.handed = run.export()
        if before and before != name:
            with suppress(OSError):
                (self._folder / before).unlink()

    def ends(self) -> None:
        """The last release is about to be made: what was kept before is all that a run may go on from."""
        self._ending = True

    def seal(self, learner: OnlineLearner, run: Run) -> None:
        """The last release is made: write the model beside the secrets, where it is shown to nobody.

        It comes out when the ledger has closed the account, which nothing undoes: a run of which the last model can be
        seen never goes on, with more rows or with others.
        """
        if self._resume is not None and self._digest.rows < max(self._caught_up, self._resume[2]):
            self._refuse(
                f"the stream has {self._digest.rows} rows, and the run that is kept here has learnt {self._caught_up}"
            )
        self._sealed = (run, run.export())
        if self._sealed[1].n_releases:
            write_export(learner, self._sealed[1], self._folder)

    def settled(self) -> None:
        """The account is closed: the model comes out, and nothing secret is needed any more."""
        for name in (ARRAYS, RECORD):  # the record last: it says that the model is whole
            if (self._folder / name).exists():
                os.replace(self._folder / name, self.directory / name)
        sync_folder(self.directory)
        if self._sealed is not None:
            run, export = self._sealed
            run.handed = export
        for path in sorted(self._folder.glob("checkpoint-*")):
            path.unlink()
        (self._folder / PLAN).unlink(missing_ok=True)
        self._release()
        with suppress(OSError):
            (self._folder / "lock").unlink(missing_ok=True)
            self._folder.rmdir()
            sync_folder(self.directory)

    def _finished(self) -> NoReturn:
        """The run has ended; a crash may have come before all of its secrets were removed."""
        self.settled()
        self._refuse("the run that was kept here is finished: privol.state.load_model() reads its model")

    def leave(self, learner: OnlineLearner, run: Run | None) -> None:
        """An error or an interrupt ends the call: keep what was learnt, show what was kept, let go."""
        if run is not None:
            with suppress(Exception):  # of the error that is being raised: what was kept before stands
                going = not (self._ending or run.closed or run.state.ended)
                if going and self._digest.rows == run.state.n_rows > self._caught_up:
                    self.commit(run)
            learner.__dict__.pop("_run", None)
            if run.handed is not None:
                learner._export = run.handed
            run.state.close()
            run.account.leave()
        self._release()

    def _release(self) -> None:
        if self._ledger is not None:
            self._ledger.close()
            self._ledger = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None
