"""Files that survive a crash: written completely or not at all, and lines that are appended durably.

Every write that a guarantee rests on goes through this module, and each of its steps goes through :mod:`os`, where
tests simulate failures of the machine.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from .errors import StateError

try:
    import fcntl
except ImportError:  # Windows has no such locks, and refuses to rename open files
    fcntl = None  # type: ignore[assignment]

__all__ = ["AppendOnly", "sync_folder", "write_atomically"]

AnyPath = str | os.PathLike[str]


def _named(error: OSError, path: AnyPath) -> OSError:
    """Return the same error with the path that the caller knows."""
    return OSError(error.errno, error.strerror, os.fspath(path))


def _write_all(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def sync_folder(folder: AnyPath) -> None:
    """Make names in a folder survive a crash: they belong to the folder, not to the files."""
    if os.name != "posix":  # elsewhere a folder cannot be opened, and names are stored with the files
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomically(path: AnyPath, content: bytes, *, mode: int = 0o666) -> None:
    """Write a file whole or not at all, and for good: a draft beside it is synced to the disk and renamed.

    Parameters
    ----------
    path : path
        Replaced where it exists.
    content : bytes
    mode : int
        Permissions of a new file, less the process's mask; ``0o600`` for secrets.

    Raises
    ------
    OSError
        About ``path``, which is then as it was before.
    """
    folder, name = os.path.split(path)
    draft = os.path.join(folder, f".{name}.{os.urandom(16).hex()}.tmp")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
        try:
            _write_all(descriptor, content)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(draft, path)
        sync_folder(folder or os.curdir)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(draft)
        if isinstance(error, OSError):
            raise _named(error, path) from error
        raise


class AppendOnly:
    """A file that only grows, by whole pieces: a piece is on the disk when :meth:`append` returns, or not at all.

    It is made if it does not exist. Nobody else can have it open meanwhile, by whatever name. First :meth:`begin`.

    Parameters
    ----------
    path : path
    """

    def __init__(self, path: AnyPath) -> None:
        self._path = Path(path)
        self._size = 0
        self._broken = True
        try:
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
            self._descriptor = os.open(self._path, flags, 0o666)
            try:
                self._take()
            except BaseException:
                os.close(self._descriptor)
                raise
        except OSError as error:
            raise _named(error, self._path) from error

    def begin(self, size: int) -> None:
        """State how much of the file is valid; the rest, which a crash cut short, is removed."""
        try:
            self._size = size
            if os.fstat(self._descriptor).st_size != size:
                self._cut()
            sync_folder(self._path.parent)
        except OSError as error:
            raise _named(error, self._path) from error
        self._broken = False

    def _take(self) -> None:
        """Refuse a file that is open elsewhere under another name, through a link or a mount."""
        if os.fstat(self._descriptor).st_nlink > 1:
            raise StateError(f"{self._path}: has several names (hard links), by which others may write to it too")
        if fcntl is not None:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StateError(f"{self._path}: is open elsewhere, under this or another name") from None

    def _cut(self) -> None:
        os.ftruncate(self._descriptor, self._size)
        os.fsync(self._descriptor)

    def append(self, piece: bytes) -> None:
        """Add a piece for good.

        Raises
        ------
        OSError
            If it cannot be written: the file is then as it was before.
        StateError
            If the file could not be brought back to what it was when an earlier piece failed.
        """
        if self._broken:
            raise StateError(f"{self._path}: an earlier write failed and could not be undone; nothing more is written")
        self._broken = True  # until it is complete or undone
        try:
            os.lseek(self._descriptor, self._size, os.SEEK_SET)
            _write_all(self._descriptor, piece)
            os.fsync(self._descriptor)
        except BaseException as error:
            with suppress(OSError):
                self._cut()
                self._broken = False
            if isinstance(error, OSError):
                raise _named(error, self._path) from error
            raise
        self._size += len(piece)
        self._broken = False

    def close(self) -> None:
        """Close the file; closing it again does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            self._broken = True
