"""The users of the rows that a kept run has learnt, as keyed hashes, on the disk with its checkpoints."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .._files import AppendOnly
from ..readers.base import SEEN

__all__ = ["KnownUsers", "SeenLog"]

NAME = "seen.log"
#: Rows read at once.
_CHUNK = 1 << 18

SeenArray = NDArray[np.void]


class SeenLog:
    """A file of one entry for each learnt row, which only grows: 24 bytes a row, null rows too.

    If a stream cannot resume by it, there is no file, but still a digest.

    Entries of a block are on the disk before its checkpoint is, and the ledger's journal has a keyed digest of all of
    them: what a crash leaves beyond that is cut off.

    Parameters
    ----------
    folder : Path
        That of the run's secrets.
    key : bytes
        Of the digest.
    """

    def __init__(self, folder: Path, key: bytes) -> None:
        self._path = folder / NAME
        self._key = key
        self._file: AppendOnly | None = None
        self._waiting: list[SeenArray] = []
        self._first = 0  # rows before those that wait
        self.rows = 0
        self.on_disk = True
        self._digest = hashlib.blake2b(digest_size=32, key=key)

    def begin(self, rows: int, digest: str | None) -> bool:
        """Drop entries after this many rows; drop all entries if the rest does not match the digest."""
        if digest is not None and self._path.exists() and rows * SEEN.itemsize <= self._path.stat().st_size:
            self.rows = rows
            for found in self.read():
                self._digest.update(found.data)
        whole = self.rows == rows and (not rows or self._digest.hexdigest() == digest)
        if not whole:
            self.rows = 0
            self._digest = hashlib.blake2b(digest_size=32, key=self._key)
        return whole

    def read(self) -> Iterator[SeenArray]:
        """The entries of the rows that were kept."""
        with open(self._path, "rb") as file:
            left = self.rows
            while left:
                found = np.fromfile(file, SEEN, min(left, _CHUNK))
                if not len(found):
                    return
                left -= len(found)
                yield found

    def add(self, seen: SeenArray) -> None:
        """Note the next rows of the stream, except those that were kept before."""
        known = 0 if self._waiting else min(len(seen), max(0, self.rows - self._first))
        self._first += known
        if known < len(seen):
            self._waiting.append(seen[known:])

    def go_on(self, rows: int) -> None:
        """State that the stream continues after this many rows."""
        self._first = rows

    def taken(self, rows: int) -> SeenArray:
        """Remove and return the entries of noted rows up to this one, except those that were kept before."""
        noted = np.concatenate(self._waiting) if self._waiting else np.empty(0, SEEN)
        used = rows - self._first
        if used <= 0:
            return noted[:0]
        new, rest = noted[max(0, self.rows - self._first) : used], noted[used:]
        self._first, self._waiting = rows, [rest] if len(rest) else []
        return new

    def keep(self, new: SeenArray) -> str:
        """Write entries, and return the digest of all entries."""
        if self._file is None and self.on_disk:
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
            self._file = AppendOnly(self._path)
            self._file.begin(self.rows * SEEN.itemsize)
        if len(new):
            if self._file is not None:
                self._file.append(new.tobytes())
            self._digest.update(new.tobytes())
            self.rows += len(new)
        return self._digest.copy().hexdigest()

    def close(self) -> None:
        """Release the file for others."""
        if self._file is not None:
            self._file.close()

    @staticmethod
    def place(folder: Path, rows: int) -> int | None:
        """Position of that row in the input; None if it is not known."""
        try:
            found = np.fromfile(folder / NAME, SEEN, 1, offset=(rows - 1) * SEEN.itemsize)
        except OSError:
            return None
        return int(found["row"][0]) if len(found) else None


class KnownUsers:
    """Compares whose rows come with those that a run has learnt, by the digests that the journal has.

    Parameters
    ----------
    key : bytes
        Of the digests.
    known : mapping of int to str
        Number of rows -> digest of whose they are.
    """

    def __init__(self, key: bytes, known: Mapping[int, str]) -> None:
        self._left = {rows: digest for rows, digest in sorted(known.items()) if rows}
        self._rows = self._last = 0  # rows that came, and of these the last that had the right user
        self._digest = hashlib.blake2b(digest_size=32, key=key)

    def __bool__(self) -> bool:
        """Whether rows are left to be compared."""
        return bool(self._left)

    def unlike(self, seen: SeenArray) -> tuple[int, int] | None:
        """Take the next rows; return the first and last of them whose users differ from before, or None."""
        stop = self._rows + len(seen)
        for rows in [rows for rows in self._left if rows <= stop]:
            new = rows - self._rows
            self._digest.update(seen[:new].tobytes())
            self._rows, seen = rows, seen[new:]
            if self._digest.hexdigest() != self._left.pop(rows):
                return self._last + 1, rows
            self._last = rows
        if self._left:
            self._digest.update(seen.tobytes())
        self._rows = stop
        return None
