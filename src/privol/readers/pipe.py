"""Inputs that are read once and may pause: standard input, pipes, sockets, the caller's file objects."""

from __future__ import annotations

import io
import os
import select
import stat
import sys
from typing import Any, BinaryIO, cast

from ..errors import InvalidParameter, StreamError

__all__ = ["BEAT", "PAUSE", "PORTION", "Input", "is_file_object"]

# An input that gives nothing for this many seconds pauses, and what it has given is passed on. A busy producer refills
# its pipe within microseconds, unless it has to wait for the processor.
PAUSE = 0.01
# What a slow input that never pauses gives is passed on after this many seconds.
PORTION = 0.1
# How often a thread that waits for more input checks whether anybody still waits for it.
BEAT = 0.2
# A pipe holds 64 KiB, at most 1 MiB.
READ_BYTES = 1 << 18


class Input:
    """Standard input or a file object, read without a buffer where it is a file of the operating system.

    Parameters
    ----------
    file : binary file object or None
        None is standard input.

    Attributes
    ----------
    name : str
    live : bool
        Whether it may pause, because it is not a regular file.
    known : bool
        Whether it can be known that nothing has come.
    ahead : bool
        Whether another thread may read it: it is not the caller's own code.
    """

    def __init__(self, file: BinaryIO | None) -> None:
        self.name = "standard input" if file is None else _name(file)
        self._file = self._standard_input() if file is None else file
        self._descriptor = _descriptor(self._file)
        self.live = self._descriptor is None or not stat.S_ISREG(os.fstat(self._descriptor).st_mode)
        self._poll: Any = None
        # Windows has no poll and no way to wait for a pipe
        if self.live and self._descriptor is not None and hasattr(select, "poll"):
            self._poll = select.poll()
            self._poll.register(self._descriptor, select.POLLIN)
        self.known = self._poll is not None
        self.ahead = file is None or self._descriptor is not None

    def _standard_input(self) -> BinaryIO:
        if sys.stdin is None:
            raise StreamError(f"{self.name}: is closed")
        try:
            # Opened separately, without a buffer whose lock a waiting thread could hold when the interpreter exits.
            return cast(BinaryIO, open(sys.stdin.fileno(), "rb", buffering=0, closefd=False))
        except (OSError, ValueError):
            # not a file of the operating system but an object that a program has put there
            return sys.stdin.buffer

    def read1(self, size: int, /) -> bytes:
        """Wait for input and return it, at most ``size`` bytes; return nothing at the end."""
        if isinstance(self._file, io.FileIO):
            read: Any = self._file.read
            size = min(size, READ_BYTES) if self.live else size
        else:
            read = getattr(self._file, "read1", self._file.read)
        while True:
            try:
                piece = read(size)
            except BlockingIOError:
                piece = None
            # None: the pipe is set to non-blocking
            if piece is not None or self._poll is None:
                return piece or b""
            self._poll.poll()

    def silent(self, seconds: float) -> bool:
        """Whether nothing comes within ``seconds``, or it cannot be known whether anything does."""
        return self._poll is None or not self._poll.poll(1000 * seconds)


def _descriptor(file: Any) -> int | None:
    """Return the descriptor of a file if all its bytes come from there when they are asked for; else None.

    Objects that unpack or decrypt may hold bytes when their descriptor has none. So may a buffered reader, but only
    before it is first asked for more than its buffer holds: then it empties the buffer and reads past it from then on.
    """
    raw = file.raw if type(file) is io.BufferedReader else file
    return raw.fileno() if type(raw) is io.FileIO else None


def _name(file: BinaryIO) -> str:
    name = getattr(file, "name", None)
    return os.path.basename(name) or "file object" if isinstance(name, str) else "file object"


def is_file_object(data: Any) -> bool:
    """Whether data are an open binary file; raise InvalidParameter for an open text file."""
    if isinstance(data, io.TextIOBase):
        raise InvalidParameter("a file object must give bytes: open it with mode 'rb', or give its .buffer")
    return callable(getattr(data, "read", None))
