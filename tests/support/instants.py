"""Processes that end at a chosen moment, and what the journal of their ledger counts of what had left them by then.

A scenario is a function of a :class:`World`. It reports to the world, with its cost, everything that leaves it, at the
moment when it does. :func:`struck` runs it in a forked child that is killed, interrupted or made to fail at one of its
moments: after each write, sync and renaming of a file, and after each thing that left. What had left is then compared
with what readers of the journal count, at once and after another process has settled the account as low as possible.
"""

from __future__ import annotations

import errno
import gc
import json
import math
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from privol.errors import StateError
from privol.ledger import Account, Ledger

__all__ = ["KILLED", "MUTANTS", "World", "kills", "opened", "strikes", "struck", "violations"]

LIMIT = {"epsilon": 50.0, "delta": 1e-6}
KILLED = 9
#: A kill; an interrupt; an error in the receiver of a release; a disk that is full from then on, or for a moment.
#: "watch" strikes nothing, and keeps what a kill would leave of the journals at every moment.
HOWS = ("kill", "interrupt", "error", "full", "short", "watch")
CALLS = ("write", "fsync", "replace")


class World:
    """The environment of a scenario: a folder, a ledger with a journal there, and a connection to the parent.

    Parameters
    ----------
    folder : Path
    wire : int
        File descriptor.
    how : str
        One of :data:`HOWS`.
    at : int
        The moment, from 1.
    """

    def __init__(self, folder: Path, wire: int, how: str, at: int) -> None:
        self.folder, self._wire, self._how, self._at = folder, wire, how, at
        self._count = 0
        self._full = False
        self._lock = threading.RLock()
        self._write = os.write
        self._ledgers: list[Ledger] = []
        self._looks: list[Callable[[], object]] = []
        self._files: dict[Path, tuple[str, Callable[[Path], float], str]] = {}
        self._copied: object = None
        self._struck = False
        self._real = {name: getattr(os, name) for name in CALLS}
        for name, real in self._real.items():
            setattr(os, name, self._hooked(name, real))
        self._say("begins")

    # ---- reports of scenarios ---------------------------------------------------------------------------------

    def ledger(self, name: str = "ledger.jsonl") -> Ledger:
        """A ledger of this process, closed at its end if the process gets there."""
        ledger = Ledger(journal=self.folder / name, **LIMIT)
        self._ledgers.append(ledger)
        return ledger

    def leaves(self, learner: str, square: float, journal: str = "ledger.jsonl") -> None:
        """Something leaves, after which that learner has spent this much in all (``mu^2``)."""
        self._say("left", journal, learner, square)
        self._instant("left")

    def looks(self, look: Callable[[], object]) -> None:
        """``look`` reports what is visible when the scenario has ended, however it did."""
        self._looks.append(look)

    def shown(self, path: Path, learner: str, cost: Callable[[Path], float], journal: str = "ledger.jsonl") -> None:
        """A file leaves as soon as it exists, with the cost found in it."""
        self._files[path] = learner, cost, journal

    # ---- instants ---------------------------------------------------------------------------------------------

    def _say(self, *words: Any) -> None:
        self._write(self._wire, json.dumps(words).encode() + b"\n")

    def _hooked(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            if name == "write":
                self._room()
            # a process that ends loses nothing that it wrote: only the machine may, and no machine fails here
            found = None if name == "fsync" else real(*given)
            self._instant(name, os.path.relpath(given[1], self.folder) if name == "replace" else "")
            return found

        return call

    def _room(self) -> None:
        with self._lock:
            here = self._how in ("full", "short") and self._count + 1 == self._at
            self._full |= here and self._how == "full"
            if here:
                self._count += 1
            if here or self._full:
                raise OSError(errno.ENOSPC, "No space left on device")

    def _instant(self, kind: str, of: str = "") -> None:
        with self._lock:
            for path in [path for path in self._files if path.exists()]:
                learner, cost, journal = self._files.pop(path)
                self._say("left", journal, learner, cost(path))
                self._copied = None
            self._count += 1
            self._say("instant", kind, of)
            if self._how == "watch":
                self._copy(f"{self._count}", kind)
            if self._count != self._at or self._struck:
                return
            self._struck = True
        if self._how == "kill":
            os._exit(KILLED)
        if self._how == "error" and kind == "left":
            raise RuntimeError("whoever was handed it has failed")
        if self._how == "interrupt":
            if threading.current_thread() is threading.main_thread():
                raise KeyboardInterrupt
            import _thread

            _thread.interrupt_main()

    # ---- its life ---------------------------------------------------------------------------------------------

    def live(self, scenario: Callable[[World], object]) -> None:
        """Run the scenario, then see what it shows, and close its ledgers; the journal is copied after each step."""
        try:
            scenario(self)
        except BaseException as error:
            self._say("error", repr(error)[:300])
        self._look("failed")
        for ledger in self._ledgers:
            try:
                ledger.close()
            except BaseException as error:
                self._say("error", repr(error)[:300])
        self._look("closed")
        for name, real in self._real.items():
            setattr(os, name, real)

    def _look(self, name: str) -> None:
        for look in self._looks:
            try:
                look()
            except BaseException:  # for example from a learner that has nothing to show
                continue
        self._copied = None
        self._copy(name, "left")

    def _copy(self, name: str, kind: str) -> None:
        """Copy the journals if they or what left have changed."""
        found = [path for path in self.folder.glob("**/*.jsonl") if "aside" not in path.parts]
        sizes = [path.stat().st_size for path in found]
        if kind != "left" and sizes == self._copied:
            return
        self._copied = sizes
        for journal in found:
            copy = self.folder / "aside" / name / journal.relative_to(self.folder)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(journal, copy)
        self._say("aside", name)


@dataclass
class Found:
    """The reports of a child, and how it ended.

    Attributes
    ----------
    code : int
        The child's exit code.
    instants : list of str
        Their kinds.
    left : dict
        ``{(journal, learner): mu^2}`` of everything that had left at the end.
    asides : list of (str, dict)
        Names of copies of the journals, and what had left when they were made.
    renamed : dict of str to int
        The last moment at which a file was put in that place.
    errors : list of str
        Those that ended the scenario, or the closing of its ledgers.
    """

    folder: Path
    code: int
    instants: list[str] = field(default_factory=list)
    left: dict[tuple[str, str], float] = field(default_factory=dict)
    asides: list[tuple[str, dict[tuple[str, str], float]]] = field(default_factory=list)
    renamed: dict[str, int] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)

    def hear(self, word: str, *rest: Any) -> None:
        if word == "instant":
            self.instants.append(rest[0])
            if rest[1]:
                self.renamed[rest[1]] = len(self.instants)
        elif word == "left":
            self.left[rest[0], rest[1]] = max(self.left.get((rest[0], rest[1]), 0.0), rest[2])
        elif word == "aside":
            self.asides.append((rest[0], dict(self.left)))
        else:
            self.errors.append(rest[0])


def struck(
    scenario: Callable[[World], object],
    folder: Path,
    *strikes: tuple[str, int],
    mutant: Callable[[], object] | None = None,
) -> list[Found]:
    """Run a scenario in a child, once for each strike, in separate folders. A kill must be the last strike.

    Parameters
    ----------
    scenario : callable
    folder : Path
        The folder of one strike; for several strikes it contains numbered folders, from 0.
    *strikes : (str, int)
        One of :data:`HOWS`, and the moment.
    mutant : callable, optional
        Called first in the child.
    """
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            gc.disable()  # which would copy all pages
            os.close(ours)
            with open(os.devnull, "r+") as nothing:
                os.dup2(nothing.fileno(), 1)
                os.dup2(nothing.fileno(), 2)
                sys.stdout = sys.stderr = nothing
                if mutant is not None:
                    mutant()
                for k, (how, at) in enumerate(strikes):
                    World(_folder_of(folder, k, len(strikes)), theirs, how, at).live(scenario)
            code = 0
        finally:
            os._exit(code)
    os.close(theirs)
    with open(ours, "rb") as wire:
        said = [json.loads(line) for line in wire]
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    found = []
    for word, *rest in said:
        if word == "begins":
            found.append(Found(_folder_of(folder, len(found), len(strikes)), code))
        else:
            found[-1].hear(word, *rest)
    return found


def _folder_of(folder: Path, k: int, n: int) -> Path:
    found = folder if n == 1 else folder / f"{k}"
    found.mkdir(exist_ok=True)
    return found


def strikes(found: Found, most: int) -> list[tuple[str, int]]:
    """Moments at which an exception may strike an undisturbed run: a number of each kind, evenly spread."""
    at = {kind: [k for k, word in enumerate(found.instants, start=1) if word == kind] for kind in {*CALLS, "left"}}
    return [
        *(("error", k) for k in _spread(at["left"], most)),
        *(("interrupt", k) for k in _spread(sorted(at["write"] + at["replace"] + at["left"]), most)),
        *((("full", "short")[n % 2], k) for n, k in enumerate(_spread(at["write"], most))),
    ]


def kills(found: Found, kind: str, most: int) -> list[int]:
    """A number of moments of a kind, evenly spread, and the last of them."""
    return _spread([k for k, word in enumerate(found.instants, start=1) if word == kind], most)


def _spread(instants: list[int], most: int) -> list[int]:
    """A number of them, the last among them."""
    n = len(instants)
    return [instants[(k + 1) * n // most - 1] for k in range(most)] if n > most else instants


# ---- what readers count -----------------------------------------------------------------------------------------


def violations(found: Found, known: set[object] | None = None) -> Iterator[str]:
    """What left and is not counted by a reader of the journal, or by one who settles the accounts left open.

    ``known``: journals with the same content, of which as much had left; they are skipped.
    """
    for name, left in [*((f"aside/{name}", left) for name, left in found.asides), ("", found.left)]:
        for (journal, learner), square in left.items():
            path = found.folder / name / journal
            said = (_said(path), learner, square)
            if known is not None and said in known:
                continue
            for way, count in WAYS.items():
                try:
                    counted = count(path, learner)
                except (StateError, OSError) as error:
                    yield f"{name}, {way}: {square:.6g} of {learner} left, and {error!r}"
                    continue
                if not counted >= square * (1.0 - 1e-12):
                    yield f"{name}, {way}: {square:.6g} of {learner} left, counted {counted:.6g}"
            if known is not None:
                known.add(said)


def _said(path: Path) -> object:
    """The content of a journal without names and checksums; the text itself if it cannot be read."""
    try:
        records = [json.loads(line) for line in path.read_bytes().splitlines()]
        names: dict[str, int] = {}
        return json.dumps(
            [
                (r["kind"], names.setdefault(r.get("plan_id", ""), len(names)), r.get("rows"), r.get("releases"),
                 r.get("mu_squared"), r.get("facts", {}).get("kept"), "facts" in r)
                for r in records
            ]
        )  # fmt: skip
    except (OSError, ValueError):
        return object()


def _counted(ledger: Ledger, learner: str) -> float:
    return sum(entry.mu_squared for entry in ledger.entries() if entry.learner == learner)


def read(path: Path, learner: str) -> float:
    """As counted by a reader of the journal."""
    return _counted(Ledger.read(path), learner)


def include(path: Path, learner: str) -> float:
    """As counted by a reader of another ledger that includes it."""
    other = _beside(path, "other")
    with closing(Ledger(journal=other)) as ledger:
        ledger.include(Ledger.read(path))
    return read(other, learner)


def _settled(settle: Callable[[Account], object]) -> Callable[[Path, str], float]:
    def count(path: Path, learner: str) -> float:
        copy = _beside(path, "copy")
        shutil.copyfile(path, copy)
        with opened(copy) as ledger:
            for account in ledger.accounts:
                if not account.closed:
                    settle(account)
        return read(copy, learner)

    return count


def _attach(account: Account) -> None:
    account.attach(lambda: (0, 0, 0.0))
    account.commit((0, 0, 0.0))


def _attach_and_close(account: Account) -> None:
    account.attach(lambda: (0, 0, 0.0))
    account.close()


WAYS: dict[str, Callable[[Path, str], float]] = {
    "read": read,
    "include": include,
    "reopened": _settled(lambda account: None),
    "close_at": _settled(lambda account: account.close_at(0, 0, 0.0)),
    "attached": _settled(_attach),
    "attached and closed": _settled(_attach_and_close),
}


def opened(path: Path) -> closing[Ledger]:
    """The ledger of an existing journal, closed at the end."""
    found = Ledger.read(path)
    return closing(Ledger(journal=path, adjacency=found.adjacency, epsilon=found.epsilon, delta=found.delta))


def _beside(path: Path, name: str) -> Path:
    found = path.with_name(f"{name}.{path.name}")
    found.unlink(missing_ok=True)
    return found


# ---- ledgers that charge too late, in a child --------------------------------------------------------------------


def _late(records: float) -> Callable[[], None]:
    """A record is written only when further ones are due, or the journal is closed: what it covers has left by then."""

    def mutant() -> None:
        due: dict[int, list[Any]] = {}
        keep, close = Ledger._keep, Ledger.close

        def later(self: Ledger, record: Any) -> None:
            waiting = due.setdefault(id(self), [])
            waiting.append(record)
            if len(waiting) > records:
                keep(self, waiting.pop(0))

        def at_last(self: Ledger) -> None:
            for record in due.pop(id(self), []):
                keep(self, record)
            close(self)

        Ledger._keep, Ledger.close = later, at_last  # type: ignore[method-assign]

    return mutant


def _unspent() -> None:
    """The reports of counters are ignored."""
    attach = Account.attach

    def deaf(self: Account, counters: Any, revoke: Any = None) -> None:
        attach(self, lambda: (counters()[0], 0, 0.0), revoke)

    Account.attach = deaf  # type: ignore[method-assign]


MUTANTS: dict[str, Callable[[], object]] = {"late": _late(math.inf), "by one": _late(1), "unspent": _unspent}
