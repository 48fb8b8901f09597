"""Rows that can be read again, in flat memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._sparse import sound_rows
from .._validate import integer
from .._values import block_of
from ..errors import InvalidParameter, StateError
from ..streams import Block
from ._spool import Room, Spool

__all__ = ["PASS_ROWS", "Tape"]

#: Default rows of a block.
PASS_ROWS = 16384
_MEMORY = 128 << 20  # bytes of rows that need no file


class Tape:
    """A stream that can be read again: the first pass records its rows, beyond 128 MiB in an unnamed temporary file.

    The file holds **raw rows**. It has no name in the file system, belongs to the user alone and vanishes with the
    object. Memory stays flat. Rows come out in blocks of at most ``cut`` rows; those that come again cannot be written
    to.

    Parameters
    ----------
    stream : Stream
        Anything that ``fit_stream`` reads.
    cut : int, optional
        Largest number of rows of a block. Default: 16,384.

    Notes
    -----
    Memory, then disk: 8 bytes a value (4 for float32 rows), about 12 a non-zero for CSR rows.
    """

    def __init__(self, stream: Any, *, cut: int | None = None) -> None:
        self._stream = stream
        self._cut = PASS_ROWS if cut is None else integer(cut=cut, at_least=1)
        self._parts: dict[str, Spool] = {}
        self._room = Room(_MEMORY)
        self._n_features = 0
        self._rows = 0
        self._sparse = False
        self._targets = True
        self._complete = False
        self.n_rows: int | None = getattr(stream, "n_rows", None)
        self.classes: tuple[Any, ...] | None = getattr(stream, "classes", None)
        self.rows_per_user: int | None = getattr(stream, "rows_per_user", None)
        self.user_separation: int = getattr(stream, "user_separation", 1)
        self.users_fixed: bool = getattr(stream, "users_fixed", True)
        self.beside, self.first_row = getattr(stream, "beside", None), getattr(stream, "first_row", 1)
        self.schema = getattr(stream, "schema", None)
        self.user: str | None = getattr(stream, "user", None)
        self.conditions: tuple[str, ...] = tuple(getattr(stream, "conditions", ()))
        self.go_on, self.positions = getattr(stream, "go_on", None), getattr(stream, "positions", None)

    @property
    def complete(self) -> bool:
        """Whether the first pass has come to the end."""
        return self._complete

    def __enter__(self) -> Tape:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop the recorded rows."""
        for part in self._parts.values():
            part.close()
        self._parts.clear()
        self._complete = False

    def __iter__(self) -> Iterator[Block]:
        if self._complete:
            return self.replay(self._cut)
        if self._parts:
            raise StateError("the first pass over the tape did not come to the end, and its rows cannot be read again")
        return self._record()

    def _record(self) -> Iterator[Block]:
        row = 1
        for block in self._stream:
            rows, y = block_of(block)
            X: Any = sound_rows(rows)
            X = X if sparse.issparse(X) else np.ascontiguousarray(X)
            self._sparse, self._n_features = sparse.issparse(X), X.shape[1]
            self._targets = block.y is not None
            if self._sparse:
                lengths = np.diff(X.indptr).astype(np.int64)
                parts = {"data": X.data, "indices": X.indices.astype(np.int64), "lengths": lengths}
            else:
                parts = {"data": X}
            if y is not None:
                parts["y"] = y
            for name, values in parts.items():
                self._append(name, values)
            seen = getattr(block, "seen", None)
            for start in range(0, X.shape[0], self._cut):
                part = slice(start, start + self._cut)
                whose = None if seen is None else seen[part]
                yield Block(X[part], None if y is None else y[part], row + start, whose)
            row += X.shape[0]
        self._rows = self.n_rows = row - 1
        self._complete = True

    def _append(self, name: str, values: NDArray[Any]) -> None:
        if name not in self._parts:
            self._parts[name] = Spool(values.dtype, self._room)
        spool = self._parts[name]
        # float32 blocks after float64 ones widen exactly; the other way round the tape would have to be rewritten
        if not np.can_cast(values.dtype, spool.dtype, "safe"):
            raise InvalidParameter(f"blocks of type {values.dtype} follow blocks of type {spool.dtype}")
        spool.append(values)

    def replay(self, cut: int, every: int = 1) -> Iterator[Block]:
        """Yield the recorded rows in blocks of at most ``cut`` rows; for dense rows only one block in ``every``."""
        if not self._complete:
            raise StateError("the tape is not complete: read the stream to its end first")
        width, begin = self._n_features, 0
        for start in range(0, self._rows, cut if self._sparse else cut * every):
            n = min(cut, self._rows - start)
            X: Any
            if self._sparse:
                pointers = np.concatenate([[0], np.cumsum(self._parts["lengths"].read(start, n))])
                size = int(pointers[-1])
                data, indices = (self._parts[name].read(begin, size) for name in ("data", "indices"))
                X = sparse.csr_array((data, indices, pointers), shape=(n, width))
                begin += size
            else:
                X = self._parts["data"].read(start * width, n * width).reshape(n, width)
            yield Block(X, self._parts["y"].read(start, n) if self._targets else None, start + 1)
