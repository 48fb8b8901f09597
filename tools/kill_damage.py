"""Damage to the files of a run that was struck, and children of a process that learns."""

from __future__ import annotations

import multiprocessing
import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from kill_jobs import DONE, FEATURES, FINISHED, OTHER_ROWS, REFUSED, Case, Rows

from privol.errors import StateError
from privol.ledger import Ledger
from privol.state import State

__all__ = ["Forking", "check", "damages"]

Damage = Callable[[Path], None]


# ---- files --------------------------------------------------------------------------------------------------------


def damages(root: Path, older: Path, regions: int, rng: np.random.Generator) -> Iterator[tuple[str, Damage]]:
    """Name and do every kind of damage to every file: by region, as a whole, and by an older version."""
    for path in sorted(p for p in root.rglob("*") if p.is_file() and not p.name.endswith("lock")):
        name, content = path.relative_to(root), path.read_bytes()
        for k in range(regions):
            at = min(len(content) - 1, (len(content) * k + int(rng.integers(len(content)))) // regions)
            bit = 1 << int(rng.integers(8))
            yield f"{name}: bit of byte {at}", partial(_flip, name, at, bit)
            yield f"{name}: cut at byte {at}", partial(_put, name, content[:at])
            yield f"{name}: zeros from byte {at}", partial(_put, name, content[:at] + bytes(len(content) - at))
            zeros = bytes(min(32, len(content) - at))
            yield f"{name}: 32 zeros at {at}", partial(_put, name, content[:at] + zeros + content[at + len(zeros) :])
        yield f"{name}: more at the end", partial(_put, name, content + b"x" * 40)
        yield f"{name}: twice", partial(_put, name, content + content)
        yield f"{name}: empty", partial(_put, name, b"")
        yield f"{name}: missing", partial(_drop, name)
        before = older / name
        if before.exists() and before.read_bytes() != content:
            yield f"{name}: as it was before", partial(_put, name, before.read_bytes())
    secret = Path("run", "secret")
    if (older / secret).exists():
        for checkpoint in sorted((older / secret).glob("checkpoint-*")):
            if not (root / secret / checkpoint.name).exists():
                yield f"{checkpoint.name}: back again", partial(_back, older, secret, checkpoint.name)
        yield "secret: as it was before", partial(_back, older, secret, None)


def _put(name: Path, content: bytes, root: Path) -> None:
    (root / name).write_bytes(content)


def _flip(name: Path, at: int, bit: int, root: Path) -> None:
    content = bytearray((root / name).read_bytes())
    content[at] ^= bit
    (root / name).write_bytes(content)


def _drop(name: Path, root: Path) -> None:
    (root / name).unlink()


def _back(older: Path, folder: Path, name: str | None, root: Path) -> None:
    """The earlier secrets: one checkpoint in place of the newer ones, or the whole folder."""
    if name is None:
        shutil.rmtree(root / folder)
        shutil.copytree(older / folder, root / folder)
        return
    for path in (root / folder).glob("checkpoint-*"):
        path.unlink()
    shutil.copy(older / folder / name, root / folder / name)


def check(case: Case, status: int) -> None:
    """A damaged run: refused with a message, or resumed to the same bits; the ledger covers what was seen."""
    if status in (DONE, FINISHED):
        case.check_end()
    elif status not in (REFUSED, OTHER_ROWS):
        case.wrong(f"a damaged run ends with status {status}")
    case.check_world(case.world.read())
    try:
        ledger = Ledger.read(case.job.journal(case.root))
    except (StateError, FileNotFoundError):
        return  # nothing can be spent by it
    seen = case.world.read()
    releases = max((n for _, _, n, _ in seen), default=0)
    releases = max(releases, len({row for kind, row, _, _ in seen if kind == "release"}))
    held = sum(a.reserved_mu_squared if a.entry().open else a.entry().mu_squared for a in ledger.accounts)
    if held < case.job.reference.spent.get(releases, 0.0) and status in (DONE, FINISHED):
        case.wrong(f"the ledger holds mu^2 {held} for {releases} releases")


# ---- children of a process that learns -------------------------------------------------------------------------------


class Forking:
    """Called after every block: forks, lets the child try everything, and lets another child continue with the stream.

    Parameters
    ----------
    folder : Path
            Where the children write their results.
    every : int
        Blocks between two forks.
    """

    def __init__(self, folder: Path, every: int) -> None:
        self._folder, self._every = folder, every
        self._blocks = 0

    def __call__(self, learner: Any) -> None:
        self._blocks += 1
        if self._blocks % self._every:
            return
        child = os.fork()
        if child == 0:
            self._try(learner)
            os._exit(0)
        os.waitpid(child, 0)
        process = multiprocessing.get_context("fork").Process(target=self._try, args=(learner,))
        process.start()
        process.join()
        child = os.fork()
        if child:  # the child returns to the stream, and continues like its parent
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            self._tell("going on", status != DONE, f"status {status}")

    def _tell(self, what: str, well: bool, words: str) -> None:
        with open(self._folder / "forks.txt", "a", encoding="utf-8") as file:
            file.write(f"{int(well)} {what}: {words}\n")

    def _try(self, learner: Any) -> None:
        run, ledger = learner._run, learner.ledger_
        directory = run.keeper.directory
        row = np.full((1, FEATURES), 0.1)
        must_fail: dict[str, Callable[[], Any]] = {
            "partial_fit": lambda: learner.partial_fit(row, [1]),
            "learn_one": lambda: learner.learn_one(row[0], 1),
            "the run's own state": lambda: run.state.learn(row, np.ones(1)),
            "its secret state": run.state.secret_arrays,
            "close": learner.close,
            "a run on the ledger": lambda: ledger.open(learner="X", guarantee=learner.guarantee_),
            "another ledger": lambda: Ledger(journal=ledger.journal, adjacency=ledger.adjacency),
            "another run": lambda: learner.fit(np.tile(row, (4, 1)), [0, 1, 0, 1]),
            "the directory": lambda: type(learner)(random_state=3).fit_stream(
                Rows(100, 10), checkpoint=State(directory)
            ),
        }
        for what, action in must_fail.items():
            try:
                action()
            except Exception as error:
                self._tell(what, True, type(error).__name__)
            else:
                self._tell(what, False, "nothing was said")
        ledger.accounts[-1].commit(of="a child")  # says nothing, and writes nothing
        ledger.close()

    def check(self, case: Case) -> int:
        """Check what the children could do; return how many things they tried."""
        path = self._folder / "forks.txt"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        for line in lines:
            if line[0] == "0":
                case.wrong(f"a forked child: {line[2:]}")
        forked = Path(f"{case.world.path}.forked")
        if forked.exists():
            seen = [line.split() for line in forked.read_text().splitlines()]
            if any(words[0] == "release" for words in seen):
                case.wrong("a forked child released something")
            known = case.job.reference.shown
            if any(known.get(int(words[2])) != words[3] for words in seen):
                case.wrong("a forked child shows what its parent has not")
        return len(lines)
