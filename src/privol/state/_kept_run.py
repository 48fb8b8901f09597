"""Runs that outlive their process: every change by a block is on the disk before any of it is released."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from .._core._noise import Source
from .._files import LockFile, sync_folder
from .._validate import integer, number
from ..errors import InvalidParameter, StateError
from ..guarantees import Guarantee
from ..learners import LEARNERS, OnlineLearner, keeping
from ..learners.keeping import Run, Targets
from ..learners.views import adjacency_of, ledger_of
from ..ledger import Account, Counts, Ledger
from ..losses import Loss
from ..noise.bits import new_key
from ._beside import Beside, Job
from ._checkpoints import Arrays, Checkpoints, check_facts, noise_digest
from ._digest import PartsDigest, RowDigest
from ._endings import Ends
from ._joined import Joined
from ._models import (
    GARBLED,
    RECORD,
    classes_of,
    describe_classes,
    describe_parameters,
    exported,
    name_of,
    parameters_of,
    write_export,
)  # fmt: skip
from ._place import GoesOn
from ._silence import Watch, blocks_of
from ._taught import KnowsTaught
from ._together import Alone, close_as_left, company_of, has_sent
from ._unbegun import Unbegun, as_begun

__all__ = ["State"]

LEDGER = "ledger.jsonl"
#: Entries of a plan that only this module uses.
_SECRET = ("format", "version", "release", "noise", "digest_key")
#: Blocks of fewer bytes are hashed before they are learnt: starting a thread would take longer.
_SMALL = 1 << 20


class State(KnowsTaught, GoesOn, Ends):
    """The directory of a run that outlives its process: **secret** while the run lasts.

    ``learner.fit_stream(stream, checkpoint=State("RUN"))`` begins a run, or resumes the one that is there: the
    same lines after a crash reach the same released values, bit for bit, as a run without interruptions. The releases
    of a block, its spending and the secret state (noise key included, mode 0600) reach the disk before any of it can be
    seen: until then every attribute of the learner shows the last checkpoint.

    Parameters
    ----------
    directory : path
        Made if it does not exist; its parent must. Holds ``ledger.jsonl``, the journal unless the learner has one,
        the folder ``secret`` until the run ends, and then ``model.npz`` and ``model.json``, the released model.
    every : int, default=65536
        Rows after which a checkpoint is written, at least 1. A crash loses the work of at most twice as many, and no
        result. With ``fit_ranks``: rows of the network; each rank has its own directory.
    seconds : float, default=10.0
        Seconds after which one is written too, if rows have come. inf, and ``fit_ranks``: by rows alone.
    inputs : dict, optional
        Public JSON values: how rows become features, as in :func:`save_model`; the same whenever the run is resumed.
    context : dict, optional
        JSON values for resuming the run, such as the command that began it: :meth:`read` returns them.
    rest : bool, optional
        Resume with the rows after the learnt ones, and compare none: a stream that can be read again is read from
        there; another has only these rows, from :meth:`next_row` on, also where only an encoding was learnt. The users
        seen are recorded on the disk, so that a cap on rows per user holds. Not for runs that are evaluated, learn rows
        several times, or have ``[delay]``; afterwards the run can be resumed only so. Of a database the keys of earlier
        rows are compared, but not their other columns. None (default): for databases, unless one of these forbids it.
    show_releases : bool, default=False
        Whether the folder ``released`` has the model that was released last while the run lasts, as :func:`save_model`
        writes it, so that others can use it (``privol serve``). It is replaced after every block of the stream in which
        a model was released, which is kept first, and removed when the run ends.

    Notes
    -----
    The stream must be read from its beginning once more: rows that the run has learnt already are compared with a
    digest and skipped. Other rows are refused, because their noise may have been published with the old rows. For the
    same reason never resume from a directory that was copied or restored from a copy: two runs with one noise key show
    the difference of their rows. With an older checkpoint the run resumes there; spent budget stays spent.

    If the run is observed (:func:`privol.evaluate.progressive`), all rows are learnt again, with the same noise.
    When the stream ends, the ledger closes the run's account permanently, and only then the last model is shown. An
    error of the stream or an interrupt ends ``fit_stream`` with what was learnt kept and shown; the same call resumes
    the run. One process at a time may have a directory. Checkpoints are written in a thread beside the learning.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        every: int = 65536,
        seconds: float = 10.0,
        inputs: dict[str, Any] | None = None,
        context: dict[str, Any] | None = None,
        rest: bool | None = None,
        show_releases: bool = False,
    ) -> None:
        self.directory = Path(directory)
        self._rest = rest
        self._shows = show_releases
        self._every = integer(every=every, at_least=1)
        self._seconds = number(seconds=seconds, above=0.0, infinite=True)
        self._inputs: dict[str, Any] | None = json.loads(json.dumps(inputs))  # as they will be read again
        self._context = context
        self._files = Checkpoints(self.directory)
        self._lock: LockFile | None = None
        self._reset()

    def _reset(self) -> None:
        self._beside: Beside | None = None
        self._watch: Watch | None = None  # keeps the run by time while the learner waits
        self._ledger: Ledger | None = None  # this run's own, not the learner's
        self._learner: OnlineLearner | None = None
        self._run: Run | None = None
        self._replay = False
        self._digest: RowDigest | PartsDigest
        self._key = b""  # for all digests
        self._longer: Any = None  # of the rows that are being learnt: a digest, or what will be one
        self._resume: tuple[Account, Arrays, int] | None = None  # account, kept arrays, and number of rows
        self._known: dict[int, tuple[str, str]] = {}  # rows -> digests of rows and state, from the journal
        self._kept = -1  # rows of the last checkpoint
        self._company = Alone(self._every, self._seconds)  # the processes that keep the same run
        self._ending = False
        self._shown = -1  # number of releases of the model that is shown
        self._caught_up = 0  # number of rows that the journal knows
        self._verified = 0  # number of rows that this process has verified to be the run's
        self._joined = Joined(self._files.folder)
        self._unbegun = Unbegun()
        self._begin_going()

    def __repr__(self) -> str:
        return f"<State of {self.directory}>"

    def _refuse(self, what: str) -> NoReturn:
        raise StateError(f"{self.directory}: {what}")

    # ---- what the directory holds --------------------------------------------------------------------------

    def read(self) -> dict[str, Any] | None:
        """Return the public facts with which the existing run began; None if there is none to resume.

        Returns
        -------
        dict or None
            ``learner`` (its name), ``parameters``, ``n_features``, ``classes``, ``horizon``, ``inputs``, ``context``,
            ``first_row``, ``plan_id``, ``privol`` (the version), as JSON values: public.

        Raises
        ------
        StateError
            If it is damaged, or of another format or version.
        """
        plan = self._files.read_plan()
        return None if plan is None else {name: value for name, value in plan.items() if name not in _SECRET}

    def learner(self, *, loss: Loss | None = None, ledger: Ledger | None = None) -> OnlineLearner:
        """Return a learner with the parameters of the existing run, to resume it by ``fit_stream``.

        Parameters
        ----------
        loss : Loss, optional
            The object itself, if the run has a custom loss.
        ledger : Ledger, optional
            The ledger of the run, if it is not the directory's own.

        Raises
        ------
        StateError
            If there is no run to resume.
        """
        plan = self._files.read_plan()
        if plan is None:
            self._refuse("there is no run to resume here")
        try:
            made = LEARNERS[plan["learner"]](**parameters_of(plan["parameters"], loss))
        except InvalidParameter:
            raise
        except GARBLED as error:
            raise self._files.garbled(repr(error)) from error
        made.ledger = ledger
        return made

    def end(self, *, loss: Loss | None = None, ledger: Ledger | None = None) -> OnlineLearner:
        """End the existing run, without its rows and without another release.

        Its unspent budget is freed (for ranks none, once a message has left), its secrets are removed, and
        ``model.npz`` and ``model.json`` hold its released model, if there is one. It may have been begun by another
        version of privol, if this one reads its format.

        Parameters
        ----------
        loss, ledger
            As in :meth:`learner`.

        Returns
        -------
        OnlineLearner
            As :meth:`learner` returns it; it shows the released model, if there is one.

        Raises
        ------
        StateError
            If there is no run to end.
        """
        learner = self.learner(loss=loss, ledger=ledger)
        self.open(learner)
        try:
            if self._resume is None:
                self._refuse("there is no run to resume here")
            account, arrays, _ = self._resume
            averaging, classes = keeping.averaging_of(learner), classes_of(self._plan["classes"])
            export = exported(arrays, averaging, account.guarantee, classes)
            learner.n_features_in_ = self._plan["n_features"]
            if export.n_releases:
                write_export(learner, export, self._files.folder, self._inputs)
                keeping.show_export(learner, export)
            for other in self._joined.known(ledger_of(learner)):
                entry = other.entry()  # only what the journal records was released
                other.close_at(entry.rows, entry.releases, entry.mu_squared)
            close_as_left(account, self._files.folder)
            self._files.show_model(account)
            self._wipe()
        finally:
            self.leave(learner, None)
        return learner

    # ---- the course of a run: what fit_stream calls ---------------------------------------------------------

    def open(self, learner: OnlineLearner, *, replay: bool = False) -> None:
        """Take the directory and check for a run to continue: from what was kept or, with ``replay``, from row 1."""
        if self._lock is not None:
            if self._learner is learner and replay == self._replay and not self._attended:
                return  # opened before fit_stream, for a release beside the models
            self._refuse("is in use by another call")
        try:
            self.directory.mkdir(exist_ok=True)
            self._files.folder.mkdir(mode=0o700, exist_ok=True)
            sync_folder(self.directory.absolute().parent)
            sync_folder(self.directory)
            lock = LockFile(self._files.folder / "lock")
        except BlockingIOError:
            self._refuse("another process is learning here: one at a time")
        except FileNotFoundError:
            if not self.directory.parent.is_dir():
                raise
            self._refuse("another process has just ended the run that was kept here")
        self._lock = lock
        try:
            self._reset()
            self._learner, self._replay, self._beside = learner, replay, Beside()
            self._files.clear_drafts()
            self._open(learner)
        except BaseException:
            self._release()
            raise

    def _open(self, learner: OnlineLearner) -> None:
        if learner.ledger is None:
            path = self.directory / LEDGER
            self._ledger = Ledger(adjacency=adjacency_of(learner), journal=path)
            keeping.pay_from(learner, self._ledger)
        elif getattr(learner.ledger, "journal", None) is None:
            self._refuse("a run that outlives its process needs a ledger that does: Ledger(journal=...), or none")
        self.check_promise(ledger := ledger_of(learner))
        self._company = company_of(learner, self._every, self._seconds)
        self._files.kept = self._company.kept
        plan = self._files.read_plan()
        if plan is None:
            if self._company.ended((self.directory / RECORD).exists()):
                if not (self.directory / RECORD).exists():
                    self._refuse("the run has ended on other ranks, and nothing of it is here")
                self._finished(None, ledger)
            self._company.common([])
            self._clear(ledger)
            return
        account = next((a for a in ledger.accounts if a.plan_id == plan["plan_id"]), None)
        if account is None or account.facts.get("included"):
            self._refuse(
                f"the ledger {ledger.journal} has no account of the run that is kept here: it can be resumed only with "
                "the ledger that it was begun with, not with one that includes it"
            )
        commits = [commit for commit in account.commits if "digest" in commit["facts"]]
        if self._company.ended(account.closed and bool(commits)):
            self._end_as_others(account)
            self._finished(account, ledger)
        self._check_plan(learner, plan)
        self._key = bytes.fromhex(plan["digest_key"])
        self._digest = RowDigest(self._key)
        if not commits:  # it ended before its first row
            self._company.common([], planned=not has_sent(self._files.folder))
            self._clear(ledger, account)
            return
        self._files.clear_model()
        for commit in commits:
            check_facts(self.directory, commit["facts"])
            self._known[commit["rows"]] = (commit["facts"]["digest"], commit["facts"]["state"])
        self._caught_up = commits[-1]["rows"]
        known = {commit["rows"]: commit["facts"] for commit in commits}
        found = {rows: self._files.read(facts, self._key) for rows, facts in known.items()}
        whole = {rows: arrays for rows, arrays in found.items() if arrays is not None}
        if (rows := self._company.common(list(whole))) is None:
            self._refuse("no checkpoint that the ledger knows of is here and whole: the run cannot go on")
        self._resume = (account, whole[rows], rows)
        self._plan, self._kept, self._inputs = plan, rows, plan["inputs"]
        self._find_place(rows, known, ledger)
        self._files.keep_only(known[rows]["checkpoint"])

    def _check_plan(self, learner: OnlineLearner, plan: dict[str, Any]) -> None:
        found, asked = plan["parameters"], describe_parameters(learner)
        if plan["learner"] != name_of(learner) or found != asked:
            names = [n for n in sorted({*found, *asked}) if found.get(n) != asked.get(n)] or ["the learner"]
            self._refuse(
                f"the run in this directory has other parameters ({', '.join(names)}): State({str(self.directory)!r})."
                "learner() has those it was begun with"
            )
        if self._inputs is not None and self._inputs != plan["inputs"]:
            names = [n for n in sorted({*self._inputs, *(plan["inputs"] or ())})
                     if self._inputs.get(n) != (plan["inputs"] or {}).get(n)]  # fmt: skip
            self._refuse(f"the run that is kept here has other inputs ({', '.join(names)})")

    def _clear(self, ledger: Ledger, *mine: Account) -> None:
        """Clean up if no run is to be continued: remove what a crash left of a run that had not begun.

        What it reserved is kept for the run that begins now, if that is the same, and is otherwise given back.
        """
        begun = self._joined.known(ledger)
        if self._ledger is ledger:  # all its kept runs are in this directory
            begun += [a for a in ledger.accounts if a.facts.get("kept") and not a.closed and a not in (*begun, *mine)]
        self._unbegun.know(begun, *mine)
        self._files.clear_model()
        self._files.clear()

    def begin(
        self, learner: OnlineLearner, n_features: int, horizon: int, release: Any, targets: Targets, stream: Any
    ) -> Run:
        """Begin a run, or resume the kept one, when its first block has come."""
        if self._resume is not None:
            plan, labels = self._plan, describe_classes(targets.classes)
            for name, found in (("n_features", n_features), ("horizon", horizon), ("classes", labels)):
                if plan[name] != found:
                    self._refuse(f"the run that is kept here has {name} {plan[name]!r}, found {found!r}")
            kept = self._restored(learner, targets, stream)
            run = keeping.adopt_run(learner, kept, stream)
            run.keeper, self._run = self, run
            self._company.watch(self._files.folder)
            self._watch_silence()
            return run
        values: dict[str, Any] = {
            "learner": name_of(learner),
            "parameters": describe_parameters(learner),
            "n_features": int(n_features),
            "classes": describe_classes(targets.classes),
            "horizon": int(horizon),
            "release": release if isinstance(release, str) else np.asarray(release).tolist(),
            "privol": __version__,
            "inputs": self._inputs,
            "context": self._context,
            "first_row": int(getattr(stream, "first_row", 1)),
        }
        json.dumps(values, allow_nan=False)  # values that cannot be written are refused before anything is reserved
        run = keeping.begin_run(learner, n_features, horizon, release, targets, stream, self._unbegun.take)
        self._unbegun.close()
        self._key = self._key or new_key()
        self._digest = self._fresh()
        secret = {"plan_id": run.account.plan_id, "noise": noise_digest(run.plan), "digest_key": self._key.hex()}
        self._plan = self._files.write_plan(values | secret)
        run.keeper, self._run = self, run
        self._company.watch(self._files.folder)
        self.commit(run)
        self.wait()
        self._watch_silence()
        return run

    def _watch_silence(self) -> None:
        if math.isfinite(self._company.seconds):
            self._watch = Watch(self._look, self._company.left())

    def _look(self) -> float:
        """Keep the run if it is due by time; called while the learner waits for rows."""
        run = self._run
        if run is not None and self._has_more(run) and self._company.due(self._digest.rows, self._kept):
            self.commit(run)
        return self._company.left()

    def _has_more(self, run: Run) -> bool:
        """Whether a run can go on after rows that the journal does not know."""
        going = not (self._ending or run.closed or run.state.ended)
        return going and self._digest.rows == run.state.n_rows > self._caught_up

    def between(self, blocks: Iterable[Any]) -> Iterator[Any]:
        """Yield the blocks of the stream; what is due by time is kept while the next one is waited for."""
        return blocks_of(blocks, lambda: self._watch)

    def _restored(self, learner: OnlineLearner, targets: Targets, stream: Any) -> Run:
        """The kept run, restored."""
        assert self._resume is not None
        account, arrays, _ = self._resume
        plan, kept = self._plan, account.guarantee
        if plan["privol"] != __version__:
            version = plan["privol"]
            self._refuse(f"the run that is kept here was begun by privol {version}, and can be resumed only with it")

        def fresh() -> Any:
            source = None
            if arrays["key"].size:
                source = Source(bytes(arrays["key"]), private=kept.private, description=kept.bit_source)
            return keeping.build_run(
                learner, plan["n_features"], plan["horizon"], plan["release"], targets.classes, source
            )

        state, calibration, guarantee = fresh()
        promised = keeping.promised_by(stream, guarantee, calibration)
        if not as_begun(promised, kept) or plan["noise"] != noise_digest(calibration):
            self._refuse(
                "the run that is kept here has another guarantee or other noise: it can be resumed only as it was begun"
            )
        state.restore(arrays)
        run = Run(state, calibration, kept, account, targets, plan["horizon"])
        run.handed = run.export()
        if self._replay:
            state.close()
            run.state = fresh()[0]
        return run

    def beside(self, name: str, guarantee: Guarantee, key: bytes, settings: Any) -> tuple[Account, bytes]:
        """Open an account for what is released beside the models, or resume it: by the key that is returned.

        ``settings``: JSON values of all that the noise of that key is for, but the rows and the learner's parameters.
        """
        assert self._learner is not None
        ledger = ledger_of(self._learner)
        if self._resume is None:
            return self._joined.begin(ledger, name, guarantee, key, settings, self._unbegun), key
        return self._joined.go_on(ledger, name, guarantee, settings)

    def learning(self, X: Any, targets: NDArray[np.float64]) -> None:
        """Hash rows that are about to be learnt, in parallel with learning."""
        know = partial(self._digest.followed_by, X, targets)
        small = X.data.nbytes < _SMALL
        self._longer = know() if small or self._beside is None else self._beside.call(know)

    def learnt(self, run: Run, *, released: bool) -> bool:
        """Record that those rows were learnt; return whether their releases may leave."""
        longer, self._longer = self._longer, None
        assert longer is not None
        self._digest = longer.result() if isinstance(longer, Job) else longer
        rows = self._digest.rows
        self._passed(rows)
        if rows <= self._caught_up:  # repeated: from an older checkpoint, or for an observer
            self._compare()
            self._compare_state(run)
            if rows == self._caught_up:
                self.commit(run)
                self.wait()
                self._verified = rows
            return rows == self._caught_up
        shows = self._shows and run.state.n_releases > max(self._shown, 0)
        if released or shows or self._pressed or self._company.due(rows, self._kept):
            self.commit(run)
        if released or shows:
            self.wait()
        return released

    def commit(self, run: Run) -> None:
        """Begin to keep a run: checkpoint, then ledger entry; then it may be seen. Raises OSError on failure."""
        assert self._beside is not None
        rows = run.state.n_rows
        if rows == self._kept and run.handed is not None:
            return
        self.wait()
        self._company.meet()
        # only what the next row changes: the thread that writes does the rest during learning
        arrays, counts = run.state.secret_arrays(), run.account.counts()
        self._beside.write(partial(self._write, run, arrays, counts, self._digest, *self._place_until(rows)))
        self._kept = rows

    def _write(
        self, run: Run, arrays: Arrays, counts: Counts, digest: RowDigest | PartsDigest, seen: Any, where: Any
    ) -> None:
        """Write in this order, in a thread beside the learning."""
        export = exported(arrays, run.state.averaging, run.guarantee, run.targets.classes)
        name = f"checkpoint-{export.n_rows:015d}.bin"
        facts = self._keep_place(seen) | self._files.write(name, arrays, self._key, where)
        run.account.commit(counts, **facts, digest=digest.hexdigest())
        run.handed = export
        self._verified = export.n_rows
        if self._shows and export.n_releases > max(self._shown, 0):  # the journal has paid for it by now
            assert self._learner is not None
            self._files.show_release(self._learner, export, self._inputs)
            self._shown = export.n_releases
        self._files.keep_only(facts["checkpoint"])
        self._settle(where)

    def wait(self) -> None:
        """Wait until the disk has what was to be kept.

        Raises
        ------
        OSError
            If it cannot be written: what was kept before stands.
        """
        if self._beside is not None:
            if not self._beside.mine:
                self._refuse("a forked child cannot resume a run that its parent keeps")
            try:
                self._beside.wait()
            except Exception:
                self._kept = -1  # that state was not kept: the next one will be, whatever its rows
                raise

    def ends(self) -> None:
        """Prepare for the last release: a run can continue only from what was kept before."""
        run, live = self._run, self._positions is not None and self._positions.live
        if live and run is not None and self._digest.rows == run.state.n_rows > self._caught_up:
            self.commit(run)  # all rows of a run are acknowledged when it ends
        self.wait()
        if live and run is not None and self._kept == run.state.n_rows:
            self._settle(self._where, last=True)
        self._ending = True

    def leave(self, learner: OnlineLearner, run: Run | None) -> None:
        """After an error or interrupt: keep what was learnt, show what was kept, release the directory."""
        if self._beside is not None and not self._beside.mine:
            return  # all of it belongs to the parent process
        try:
            if run is not None:
                self._keep(run)
                if run.handed is None:
                    keeping.drop_run(learner)
        finally:
            # a release beside the models holds the journal until it has written what it shows, and leaves then
            if run is None or not self._joined.open:
                self._joined.leave()
                self._release()

    def _keep(self, run: Run) -> None:
        """Keep a run as it is, if it can be continued, and end it here."""
        try:
            self._stop_watch()
            with suppress(Exception):
                self.wait()
            with suppress(Exception):
                if self._company.alone and self._has_more(run):
                    self.commit(run)
                    self.wait()
        finally:
            run.closed = True
            run.state.close()
            if run.handed is None:  # nothing was ever kept, so nothing was seen
                with suppress(Exception):
                    if self._files.read_plan() is None:  # otherwise the run that resumes takes it
                        run.account.close()
            run.account.leave()

    def _stop_watch(self) -> None:
        if self._watch is not None:
            self._watch.stop()

    def _release(self) -> None:
        """Release the directory for others, even after an interrupt."""
        beside, ledger, lock = self._beside, self._ledger, self._lock
        with suppress(Exception):  # if it fails, they stay reserved
            self._unbegun.close()  # of a call that ends before its run began
        self._company.leave()
        self._leave_place()
        try:
            try:
                self._stop_watch()
            finally:
                if beside is not None:
                    beside.stop()
        finally:
            try:
                if ledger is not None:
                    ledger.close()
            finally:
                if lock is not None:
                    self._files.leave_nothing()
                    lock.release()
                self._beside = self._ledger = self._lock = self._learner = self._run = None
                self._positions = None  # and with the stream its connection ends, once nobody else has it
