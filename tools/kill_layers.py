"""Layers over the system calls that write: they end the process at one of them, lose unsynced data, or fail.

A layer replaces functions of :mod:`os` in this process, for all its threads, until the process ends. Only calls on
files below ``root`` count; files that an observer writes elsewhere are unaffected.
"""

from __future__ import annotations

import errno
import os
import signal
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["CALLS", "Counting", "Ending", "Failing", "FailingLosing", "Layer", "Losing", "Short", "take_away_sync"]

CALLS = ("open", "write", "fsync", "replace", "rename", "unlink", "mkdir", "rmdir", "ftruncate")
REAL: dict[str, Callable[..., Any]] = {name: getattr(os, name) for name in CALLS}
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Layer:
    """Counts the calls, and lets :meth:`at` act on each; ``struck``: a file that records what was struck."""

    def __init__(self, root: Path, struck: Path) -> None:
        self.root = os.path.realpath(root)
        self.count = 0
        self._lock = threading.RLock()
        self._struck = REAL["open"](struck, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)

    def install(self) -> None:
        for name in CALLS:
            setattr(os, name, self._around(name))

    def tell(self, words: str) -> None:
        REAL["write"](self._struck, words.encode())

    def _around(self, name: str) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            if not self._is_ours(name, given):
                return REAL[name](*given, **named)
            with self._lock:  # one call at a time, from whatever thread
                self.count += 1
                return self.at(name, given, named)

        return call

    def _is_ours(self, name: str, given: tuple[Any, ...]) -> bool:
        what = given[0]
        if name == "open" and not given[1] & _WRITES:
            return False
        path = os.readlink(f"/proc/self/fd/{what}") if isinstance(what, int) else os.path.abspath(os.fsdecode(what))
        return path == self.root or path.startswith(self.root + os.sep)

    def at(self, name: str, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        return REAL[name](*given, **named)


class Counting(Layer):
    """Only counts; call :meth:`tell` at the end."""


class Ending(Layer):
    """Ends the process at call number ``last``: before it, or when a share (``cut``) of a write has reached the file.

    A share of 0 means one byte, of 1 all of them.
    """

    def __init__(self, root: Path, struck: Path, last: int, cut: float | None = None) -> None:
        super().__init__(root, struck)
        self._last, self._cut = last, cut

    def at(self, name: str, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if self.count == self._last:
            self.tell(name)
            if self._cut is not None and name == "write":
                content = bytes(given[1])
                REAL["write"](given[0], content[: max(1, int(self._cut * len(content)))])
            self.end()
        return REAL[name](*given, **named)

    def end(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class Losing(Ending):
    """Ends the process like a machine that loses power: unsynced data are lost.

    ``fsync`` of a file preserves its contents, ``fsync`` of its folder the names, and nothing else is preserved. The
    file system may keep more than it must. ``kept``: what it keeps in addition.

    - ``"nothing"``;
    - ``"names"``: all names, made or removed; contents only as they were synced (a renamed file is empty);
    - ``"contents"``: of all files, under the names that were synced;
    - ``"half"``: half of a file's growth since it was synced, the rest of it as zeros; all names.
    """

    def __init__(self, root: Path, struck: Path, last: int, kept: str) -> None:
        super().__init__(root, struck, last)
        self._kept = kept
        self._contents: dict[int, bytes] = {}  # by inode: what is permanently on the disk
        self._names: dict[int, dict[str, int]] = {}  # folder -> name -> inode
        self._folders: set[int] = set()
        self._held: dict[int, int] = {}  # kept open, so that no inode is reused for a second file
        for folder, _, _ in os.walk(self.root):  # what exists when the process begins was written long ago
            self._sync(folder)
            for entry in os.scandir(folder):
                if entry.is_file(follow_symlinks=False):
                    self._sync(entry.path)

    def _hold(self, path: str) -> int:
        """Hold the inode, which from now on keeps its number."""
        found = os.stat(path)
        if found.st_ino not in self._held:
            self._held[found.st_ino] = REAL["open"](path, os.O_RDONLY)
            if stat.S_ISDIR(found.st_mode):
                self._folders.add(found.st_ino)
        return found.st_ino

    def _sync(self, path: str) -> None:
        inode = self._hold(path)
        if inode in self._folders:
            self._names[inode] = {name: self._hold(f"{path}/{name}") for name in os.listdir(path)}
        else:
            self._contents[inode] = self._read(inode)

    def _read(self, inode: int) -> bytes:
        return os.pread(self._held[inode], os.fstat(self._held[inode]).st_size, 0)

    def at(self, name: str, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        result = super().at(name, given, named)
        if name == "fsync":
            self._sync(f"/proc/self/fd/{given[0]}")
        elif name in ("open", "mkdir"):
            self._hold(given[0])
        return result

    def end(self) -> None:
        names = self._names
        if self._kept in ("names", "half"):
            folders = [folder for folder, _, _ in os.walk(self.root)]
            names = {self._hold(f): {n: self._hold(f"{f}/{n}") for n in os.listdir(f)} for f in folders}
        root = self._hold(self.root)
        for entry in os.scandir(self.root):
            _remove(entry.path)
        self._write(self.root, root, names)
        super().end()

    def _content(self, inode: int) -> bytes:
        synced = self._contents.get(inode, b"")
        grown = self._read(inode)
        if self._kept == "contents":
            return grown
        if self._kept == "half" and len(grown) > len(synced):
            half = (len(grown) - len(synced)) // 2
            return grown[: len(synced) + half] + bytes(len(grown) - len(synced) - half)
        return synced

    def _write(self, path: str, folder: int, names: dict[int, dict[str, int]]) -> None:
        for name, inode in names.get(folder, {}).items():
            target = f"{path}/{name}"
            if inode in self._folders:
                REAL["mkdir"](target, 0o700)
                self._write(target, inode, names)
            else:
                Path(target).write_bytes(self._content(inode))


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        for entry in os.scandir(path):
            _remove(entry.path)
        REAL["rmdir"](path)
    else:
        REAL["unlink"](path)


class Failing(Layer):
    """Call number ``first`` of ``name`` fails, or (``last=None``) that one and all later ones; a write is torn."""

    def __init__(
        self, root: Path, struck: Path, name: str, first: int, number: int = errno.ENOSPC, once: bool = False
    ) -> None:
        super().__init__(root, struck)
        self._name, self._first, self._number, self._once = name, first, number, once
        self._seen = 0

    def at(self, name: str, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if name == self._name:
            self._seen += 1
            if self._seen == self._first or (self._seen > self._first and not self._once):
                self.tell(name)
                if name == "write" and self._seen == self._first and len(given[1]) > 1:
                    return REAL[name](given[0], bytes(given[1])[: len(given[1]) // 2])  # the next one finds no room
                raise OSError(self._number, os.strerror(self._number))
        return REAL[name](*given, **named)


class FailingLosing(Losing):
    """Call number ``first`` of ``name`` fails, the process goes on, and loses power at its end."""

    def __init__(self, root: Path, struck: Path, kept: str, name: str, first: int, number: int) -> None:
        super().__init__(root, struck, 0, kept)
        self._name, self._first, self._number = name, first, number
        self._seen = 0

    def at(self, name: str, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if name == self._name:
            self._seen += 1
            if self._seen == self._first:
                self.tell(name)
                raise OSError(self._number, os.strerror(self._number))
        return super().at(name, given, named)

    def end_if_failed(self) -> None:
        if self._seen >= self._first:
            self.end()


class Short(Layer):
    """Writes take at most a given number of bytes."""

    def __init__(self, root: Path, struck: Path, most: int) -> None:
        super().__init__(root, struck)
        self._most = most

    def at(self, name: str, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if name == "write":
            return REAL[name](given[0], bytes(given[1])[: self._most])
        return REAL[name](*given, **named)


def take_away_sync(what: str) -> None:
    """Make a mutant of this process: without the sync of ``"files"``, ``"folders"`` or ``"journal"``.

    ``"ledger"``: what a run commits to its ledger is not written at all.
    """
    from privol import _files, ledger

    real = os.fsync

    def only_of(folders: bool) -> Callable[..., None]:
        def fsync(descriptor: int) -> None:
            if stat.S_ISDIR(os.fstat(descriptor).st_mode) == folders:
                real(descriptor)

        return fsync

    def append(self: Any, piece: bytes) -> None:
        setattr(os, "fsync", lambda _: None)  # noqa: B010
        try:
            whole(self, piece)
        finally:
            setattr(os, "fsync", real)  # noqa: B010

    if what == "ledger":
        setattr(ledger.Account, "commit", lambda self, *given, **facts: None)  # noqa: B010
    elif what == "journal":
        whole = _files.AppendOnly.append
        setattr(_files.AppendOnly, "append", append)  # noqa: B010
    else:
        setattr(os, "fsync", only_of(what == "files"))  # noqa: B010
