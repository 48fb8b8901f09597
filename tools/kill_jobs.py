"""The jobs of the kill campaign, what an observer saw of them, and what must hold whatever was killed.

A :class:`Job` learns in a forked child, and continues from what another child left. It shows each model to an observer,
who records it permanently (:class:`World`) outside of the run's directory. :class:`Case` is one directory with its
history: attempts, and the checks after each.
"""

from __future__ import annotations

import faulthandler
import hashlib
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self

import numpy as np

from privol.errors import StateError
from privol.ledger import Ledger
from privol.state import State, load_model

__all__ = [
    "DONE",
    "FEATURES",
    "FINISHED",
    "OTHER_ROWS",
    "REFUSED",
    "STRUCK",
    "TROUBLE",
    "Case",
    "Job",
    "Look",
    "Rows",
    "World",
    "commit_of",
    "folder_in_memory",
    "sha",
]

# How a child ends.
DONE, FINISHED, OTHER_ROWS, REFUSED, TROUBLE, STRUCK, WRONG = 0, 3, 4, 5, 6, 130, 1
FEATURES = 5
BLOCK = 20  # rows of a block of a run that nothing interrupts: never more than one release

Look = Callable[[Any], None]


def sha(*arrays: Any) -> str:
    return hashlib.sha256(b"|".join(np.asarray(a, dtype=np.float64).tobytes() for a in arrays)).hexdigest()[:24]


class Rows:
    """Synthetic rows, in blocks; ``changed``: the number of a row that differs from before; ``real``: with targets."""

    def __init__(self, n: int, block: int, changed: int | None = None, real: bool = False) -> None:
        rng = np.random.default_rng(7)
        self.n_rows, self._block = n, block
        self._X = rng.normal(size=(n, FEATURES)) / 3
        score = self._X @ [1.0, -2.0, 0.5, 0.0, 1.0]
        self._y = np.clip(score, -1.0, 1.0) if real else (score > 0).astype(np.float64)
        self.classes = None if real else (0, 1)
        if changed is not None:
            self._X[changed] = -self._X[changed]

    def __iter__(self) -> Iterator[Any]:
        for start in range(0, self.n_rows, self._block):
            part = slice(start, start + self._block)
            yield type("Block", (), {"X": self._X[part], "y": self._y[part], "first_row": start + 1})()


class World:
    """What an observer saw, in order: lines that are on the disk before anything else happens."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._pid = os.getpid()

    def publish(self, kind: str, rows: int, releases: int, value: str) -> None:
        from kill_layers import REAL

        # what a forked child of the learning process shows is written elsewhere
        path = self.path if os.getpid() == self._pid else f"{self.path}.forked"
        descriptor = REAL["open"](path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        REAL["write"](descriptor, f"{kind} {rows} {releases} {value}\n".encode())
        REAL["fsync"](descriptor)
        os.close(descriptor)

    def read(self) -> list[tuple[str, int, int, str]]:
        if not self.path.exists():
            return []
        lines = self.path.read_bytes().split(b"\n")[:-1]  # nobody read a truncated line
        return [(k, int(r), int(n), v) for k, r, n, v in (line.decode().split() for line in lines)]


@dataclass(frozen=True)
class Reference:
    """An uninterrupted run: its releases by row, and by number of releases what it shows and has spent."""

    released: dict[int, str]
    shown: dict[int, str]
    spent: dict[int, float]
    end: str


def nothing(learner: Any) -> None:
    """Do nothing after a block."""


@dataclass(frozen=True)
class Job:
    """A learner and its rows; ``watched``: every release is delivered, or else the learner is inspected at every block.

    ``every``: rows between two checkpoints. ``shared``: the ledger is a shared one, with its own journal.
    """

    name: str
    kind: Callable[..., Any]
    words: dict[str, Any]
    rows: int
    every: int
    watched: bool = True
    shared: bool = False
    seed: int | None = 3
    binds_all = False  # a run resumes only if the rows that it has not learnt yet are the same, too

    def make(self, ledger: Ledger | None = None) -> Any:
        return self.kind(**{"epsilon": 2.0, "random_state": self.seed, "ledger": ledger, **self.words})

    def with_words(self, **words: Any) -> Self:
        return replace(self, words={**self.words, **words})

    def resized(self, rows: int, every: int) -> Job:
        """The same kind of run with a fifth as many releases."""
        less = self.with_words(release=max(1, 4 * self.words["release"] * rows // self.rows))
        return replace(less, rows=rows, every=every)

    # What follows differs between kinds of runs. It works in the child, the reference in the parent.

    def shown(self, learner: Any) -> str:
        """What somebody who looks at the learner sees of its models."""
        return sha(learner.coef_, learner.intercept_, learner.average_coef_)

    def fit(self, learner: Any, block: int, changed: int | None, look: Look, **how: Any) -> None:
        """Learn all rows, and look at the learner after every block; ``how``: ``checkpoint`` and ``on_release``."""
        real = learner.loss == "squared"
        learner.fit_stream(Rows(self.rows, block, changed, real), progress=lambda found, _: look(found), **how)

    def state(self, directory: Path) -> State:
        return State(directory, every=self.every)

    def look(self, learner: Any) -> tuple[int, int, str]:
        """Rows, releases, and what is seen: of a copy, as a thread that keeps the run may show the next model."""
        return self.seen(pickle.loads(pickle.dumps(learner)))

    def seen(self, learner: Any) -> tuple[int, int, str]:
        return learner.n_rows_, learner.n_releases_, self.shown(learner)

    def learnt(self, entries: list[Any]) -> int:
        """Rows of the stream that the ledger's accounts have read."""
        return entries[-1].rows if entries else 0

    def has_models(self, learner: Any) -> bool:
        return "_run" in vars(learner) or hasattr(learner, "_export")

    @property
    def left(self) -> set[str]:
        """The files that a finished run leaves."""
        return {".ledger.jsonl.lock", "ledger.jsonl", "model.json", "model.npz"}

    def end_of(self, case: Path) -> str:
        """The files of the finished run."""
        return self.shown(load_model(case / "run"))

    @cached_property
    def reference(self) -> Reference:
        learner = self.make()
        found = Reference({}, {}, {}, "")

        def look(learner: Any) -> None:
            if self.has_models(learner):
                _, releases, value = self.look(learner)
                found.shown[releases] = value
                if releases:
                    found.spent.setdefault(releases, learner.ledger_.entries()[-1].mu_squared)

        def see(release: Any) -> None:
            found.released[release.row] = sha(release.coef, release.intercept)
            look(learner)

        self.fit(learner, BLOCK, None, look, **({"on_release": see} if self.watched else {}))
        look(learner)
        found.shown.setdefault(0, self.shown_first)
        return replace(found, end=self.shown(learner))

    @cached_property
    def shown_first(self) -> str:
        """What the learner shows before a release."""
        learner = self.make().set_params(horizon=self.rows, release="last")
        classes = None if learner.loss == "squared" else [0, 1]
        return self.shown(learner.partial_fit(np.zeros((1, FEATURES)), [0], classes=classes))

    def journal(self, case: Path) -> Path:
        return case / "budget.jsonl" if self.shared else case / "run" / "ledger.jsonl"

    def learn(
        self, case: Path, world: World, *, block: int, changed: int | None, work: Callable[..., None] = nothing
    ) -> None:
        """Begin or resume; ``work`` is called after every block with the learner."""
        ledger = Ledger(epsilon=1000.0, delta=1e-6, journal=self.journal(case)) if self.shared else None
        learner = self.make(ledger)

        def look(learner: Any) -> None:
            if not self.watched and self.has_models(learner):
                world.publish("shown", *self.look(learner))
            work(learner)

        def see(release: Any) -> None:
            world.publish("release", release.row, 0, sha(release.coef, release.intercept))

        how = {"on_release": see} if self.watched else {}
        try:
            self.fit(learner, block, changed, look, checkpoint=self.state(case / "run"), **how)
        except BaseException:
            if self.has_models(learner):  # what is visible after an interrupt
                world.publish("shown", *self.look(learner))
            raise
        world.publish("shown", *self.look(learner))


@dataclass
class Case:
    """A directory of a job, what the world saw of it, and the faults found."""

    job: Job
    folder: Path
    violations: list[str] = field(default_factory=list)
    attempts: int = 0
    _known: dict[str, tuple[int, int, float, bool]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.root.mkdir(parents=True)

    @property
    def root(self) -> Path:
        """The folder of the run: all that a machine could lose."""
        return self.folder / "case"

    @property
    def world(self) -> World:
        return World(self.folder / "world.txt")

    @property
    def struck(self) -> str:
        """What the layer says that it struck."""
        path = self.folder / "struck"
        return path.read_text() if path.exists() else ""

    @property
    def trouble(self) -> str:
        """The last error of the machine."""
        path = self.folder / "error.txt"
        return path.read_text() if path.exists() else ""

    def start(
        self,
        *,
        block: int = 400,
        changed: int | None = None,
        world: World | None = None,
        arm: Callable[[Path, Path], None] | None = None,
        work: Callable[..., None] = nothing,
    ) -> int:
        """Let a child learn; ``arm`` prepares its machine. Return its number."""
        self.attempts += 1
        sys.stdout.flush()
        sys.stderr.flush()
        held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        child = os.fork()
        if child:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
            return child
        status = STRUCK
        try:  # whatever strikes, only this child ends here
            os.dup2(os.open(self.folder / "stderr.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 2)
            faulthandler.enable(2)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(STRUCK))
            if arm is not None:
                arm(self.root, self.folder / "struck")
            learn = partial(self.job.learn, self.root, World((world or self.world).path), block=block, changed=changed)
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
            status = self._status(partial(learn, work=work))
        finally:
            os._exit(status)

    def _status(self, learn: Callable[[], None]) -> int:
        try:
            learn()
        except StateError as error:
            text = str(error)
            return FINISHED if "is finished" in text else OTHER_ROWS if "are not those that" in text else REFUSED
        except OSError as error:
            (self.folder / "error.txt").write_text(f"{error!r}\n")
            return TROUBLE
        except (KeyboardInterrupt, SystemExit):
            return STRUCK
        except BaseException:
            (self.folder / "error.txt").write_text(traceback.format_exc())
            return WRONG
        return DONE

    def wait(self, child: int) -> int:
        """Return how a child ended: its status, or the negative number of a signal."""
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status == WRONG:
            self.wrong("an error that says nothing: " + (self.folder / "error.txt").read_text().splitlines()[-1])
        if status in (-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS):
            self.wrong("it crashed: " + (self.folder / "stderr.txt").read_text())
        return status

    def attempt(self, **words: Any) -> int:
        return self.wait(self.start(**words))

    def wrong(self, what: str) -> None:
        self.violations.append(f"{self.job.name}{' (shared)' if self.job.shared else ''}: {what}")

    # ---- what must hold ---------------------------------------------------------------------------------------

    def entries(self) -> list[Any]:
        """The journal's entries; empty if there is no journal, or its first record is incomplete."""
        try:
            return Ledger.read(self.job.journal(self.root)).entries()
        except FileNotFoundError:
            return []
        except StateError as error:
            if "no whole record" not in str(error) and "is empty" not in str(error):
                self.wrong(f"the journal cannot be read: {error}")
            return []

    def check_world(self, seen: list[tuple[str, int, int, str]]) -> None:
        """One value for each result, whatever was killed: that of an uninterrupted run."""
        if self.job.seed is None:
            found: dict[tuple[str, int], str] = {}
            for kind, rows, releases, value in seen:
                if found.setdefault((kind, rows if kind == "release" else releases), value) != value:
                    self.wrong(f"two results of {kind} {rows}: noise was drawn twice")
            return
        known, others = self.job.reference, dict[int, str]()
        for kind, rows, releases, value in seen:
            wanted = known.released.get(rows) if kind == "release" else known.shown.get(releases)
            if wanted is None and kind == "shown" and self.job.binds_all:  # between two steps: one value at least
                wanted = others.setdefault(releases, value)
            if value != wanted:
                self.wrong(f"{kind} of row {rows} ({releases}) has other bits than the run that nothing interrupts")

    def check(self, *, journal: bool = True) -> None:
        """Check that the ledger covers what the world saw, and that nothing in it ever goes back."""
        seen = self.world.read()
        self.check_world(seen)
        if not journal:
            return
        entries = self.entries()
        last = entries[-1] if entries else None
        rows = max((row for _, row, _, _ in seen), default=0)
        releases = max(len({row for kind, row, _, _ in seen if kind == "release"}), *(n for _, _, n, _ in seen), 0)
        if (rows, releases) > (0, 0) and last is None:
            self.wrong(f"the ledger has lost its entry: {rows} rows and {releases} releases were seen")
        if last is not None:
            if (last.rows, last.releases) < (rows, releases) or last.releases < releases:
                self.wrong(f"the ledger knows of {last.rows}, {last.releases}; seen were {rows}, {releases}")
            if self.job.seed is not None and last.mu_squared < self.job.reference.spent.get(releases, 0.0):
                self.wrong(f"the ledger has mu^2 {last.mu_squared} for {releases} releases")
        self.check_ledger(entries)

    def check_ledger(self, entries: list[Any]) -> None:
        """Check that no entry of the ledger goes back."""
        now = {e.plan_id: (e.rows, e.releases, e.mu_squared, e.open) for e in entries}
        for plan_id, (row, number, square, open_) in self._known.items():
            after = now.get(plan_id)
            if row == number == 0 and open_:
                # the whole reservation of a run that had committed nothing counts, until its spending is known
                square = 0.0
            if after is None or after[0] < row or after[1] < number or after[2] < square or (after[3] and not open_):
                self.wrong(f"an entry of the ledger went back: {(row, number, square, open_)} to {after}")
        self._known = now

    def check_end(self) -> None:
        """Check a finished run: the same bits, and nothing secret is left."""
        self.check()
        try:
            if self.job.end_of(self.root) != self.job.reference.end and self.job.seed is not None:
                self.wrong("the model has other bits than that of the run that nothing interrupts")
        except (StateError, OSError) as error:
            self.wrong(f"a finished run has no model: {error}")
        if any(entry.open for entry in self.entries()[-1:]):
            self.wrong("the account of a finished run is open")
        left = {path.name for path in (self.root / "run").iterdir()} - self.job.left
        if left:
            self.wrong(f"the directory of a finished run holds {sorted(left)}")

    def finish(self, **words: Any) -> int:
        """Continue to the end, without failures."""
        status = self.attempt(**words)
        if status == REFUSED and self.job.shared and not self.entries():  # a journal that was torn when it was made
            self.job.journal(self.root).unlink()
            status = self.attempt(**words)
        if status in (DONE, FINISHED):
            self.check_end()
        else:
            self.wrong(f"a run that was struck does not go on: status {status}")
        return status


def commit_of() -> str:
    command = ["git", "log", "-1", "--format=%h", "--", "src"]
    found = subprocess.run(command, cwd=Path(__file__).parent.parent, capture_output=True, text=True, check=False)
    return found.stdout.strip()


def folder_in_memory() -> tempfile.TemporaryDirectory[str]:
    """A kill loses nothing that the system has, and kill_layers simulates a loss of power."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    return tempfile.TemporaryDirectory(dir=base, prefix="privol-kills-")
