"""Arrays of unknown length: in memory while they are short, then in an unnamed file."""

from __future__ import annotations

import tempfile
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import StateError

__all__ = ["Room", "Spool"]


class Room:
    """Bytes of memory that several spools share."""

    def __init__(self, size: int) -> None:
        self.left = size


class Spool:
    """A growing array of one type and one dimension.

    Values stay in memory as long as the room lasts; then all of them move to a temporary file without a name, which
    belongs to the user alone and vanishes with the object.

    Parameters
    ----------
    dtype : dtype
    room : Room
    """

    def __init__(self, dtype: np.dtype[Any], room: Room) -> None:
        self.dtype = dtype
        self._room = room
        self._pieces: list[NDArray[Any]] = []
        self._ends: list[int] = []  # of the pieces, in values
        self._file: IO[bytes] | None = None

    def append(self, values: NDArray[Any]) -> None:
        """Add values at the end, flattened, as they are now."""
        flat = np.ascontiguousarray(values, dtype=self.dtype).reshape(-1)
        if self._file is None and flat.nbytes <= self._room.left:
            self._room.left -= flat.nbytes
            piece = flat.copy() if np.shares_memory(flat, values) else flat
            piece.flags.writeable = False
            self._pieces.append(piece)
            self._ends.append((self._ends[-1] if self._ends else 0) + len(piece))
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 (close() ends it)
            for piece in self._pieces:
                self._file.write(piece.data)
            self._forget()
        self._file.write(flat.data)

    def read(self, start: int, count: int) -> NDArray[Any]:
        """Return ``count`` values from this one on; they cannot be written to.

        Raises
        ------
        StateError
            If the file is shorter than what was written.
        """
        if self._file is None:
            return self._held(start, start + count)
        # Read, not mapped: mapped pages would count as the process's memory, as many as there are rows.
        values = np.empty(count, dtype=self.dtype)
        self._file.seek(start * values.itemsize)
        if self._file.readinto(values.view(np.uint8)) != values.nbytes:  # type: ignore[attr-defined]
            raise StateError("the temporary file of the tape is cut short")
        values.flags.writeable = False
        return values

    def _held(self, start: int, stop: int) -> NDArray[Any]:
        at = int(np.searchsorted(self._ends, start, side="right"))
        found, end = [], start
        while end < stop:
            begin = self._ends[at] - len(self._pieces[at])
            found.append(self._pieces[at][end - begin : stop - begin])
            end, at = self._ends[at], at + 1
        if len(found) == 1:
            return found[0]
        values = np.concatenate(found) if found else np.empty(0, dtype=self.dtype)
        values.flags.writeable = False
        return values

    def close(self) -> None:
        """Drop all values."""
        if self._file is not None:
            self._file.close()
        self._forget()

    def _forget(self) -> None:
        self._room.left += sum(piece.nbytes for piece in self._pieces)
        self._pieces, self._ends = [], []
