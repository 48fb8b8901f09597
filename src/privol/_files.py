"""Files that survive a crash: written completely or not at all, and lines that are appended durably.

Every write that a guarantee rests on goes through this module, and each of its steps goes through :mod:`os`, where
tests simulate failures of the machine.
"""

from __future__ import annotations

import errno
import io
import os
import sys
import weakref
from contextlib import suppress
from pathlib import Path

from .errors import StateError

try:
    import fcntl
except ImportError:  # Windows has no such locks, and refuses to rename open files
    fcntl = None  # type: ignore[assignment]

if sys.platform == "win32":
    import msvcrt

__all__ = ["AppendOnly", "LockFile", "sync_folder", "write_atomically"]

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


#: Files that are locked by whoever has them open.
_held: weakref.WeakSet[io.FileIO] = weakref.WeakSet()


def _let_go() -> None:
    """A child would keep what it inherits locked for as long as it lives, though its parent had released it."""
    for file in list(_held):
        with suppress(OSError):
            file.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


def _open_held(path: AnyPath, more: int = 0) -> io.FileIO:
    """Open a file that is to be locked; it is closed with the last reference to it, so that no lock is left behind."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0) | more
    file = io.FileIO(os.open(path, flags, 0o666), "r+")
    _held.add(file)
    return file


class LockFile:
    """An empty file that one holder at a time has locked, in this process or another, until release or its own end.

    The lock is the operating system's, taken by one call: libraries guard theirs by conditions of :mod:`threading`,
    which Ctrl-C can leave taken for other threads. A forked child has no share in it.

    Parameters
    ----------
    path : path
        Made if it does not exist; its folder must.

    Raises
    ------
    BlockingIOError
        If another holder has it.
    OSError
        If the file cannot be made.
    """

    def __init__(self, path: AnyPath) -> None:
        for _ in range(100):
            self._file = _open_held(path, getattr(os, "O_NOFOLLOW", 0))
            try:
                if sys.platform == "win32":
                    try:
                        msvcrt.locking(self._file.fileno(), msvcrt.LK_NBLCK, 1)
                    except PermissionError as error:
                        raise BlockingIOError(error.errno, error.strerror, os.fspath(path)) from None
                elif fcntl is not None:
                    fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(self._file.fileno()).st_nlink:  # else the last holder has removed it meanwhile
                    return
            except BaseException:
                self._file.close()
                raise
            self._file.close()
        raise BlockingIOError(errno.EAGAIN, "is removed again and again", os.fspath(path))

    def release(self) -> None:
        """Leave the file to others; releasing it again does nothing."""
        self._file.close()


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
            self._file = _open_held(self._path)
            try:
                self._take()
            except BaseException:
                self._file.close()
                raise
        except OSError as error:
            raise _named(error, self._path) from error

    def begin(self, size: int) -> None:
        """State how much of the file is valid; the rest, which a crash cut short, is removed."""
        try:
            self._size = size
            if os.fstat(self._file.fileno()).st_size != size:
                self._cut()
            elif size:  # a process that was killed may have written the last piece and not synced it
                os.fsync(self._file.fileno())
            sync_folder(self._path.parent)
        except OSError as error:
            raise _named(error, self._path) from error
        self._broken = False

    def _take(self) -> None:
        """Refuse a file that is open elsewhere under another name, through a link or a mount."""
        if os.fstat(self._file.fileno()).st_nlink > 1:
            raise StateError(f"{self._path}: has several names (hard links), by which others may write to it too")
        if fcntl is not None:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StateError(f"{self._path}: is open elsewhere, under this or another name") from None

    def _cut(self) -> None:
        os.ftruncate(self._file.fileno(), self._size)
        os.fsync(self._file.fileno())

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
            os.lseek(self._file.fileno(), self._size, os.SEEK_SET)
            _write_all(self._file.fileno(), piece)
            os.fsync(self._file.fileno())
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
        self._broken = True
        self._file.close()
