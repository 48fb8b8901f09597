"""What every stream is: a source of pieces, regrouped into numbered blocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from ..errors import StreamError
from ._ranges import Ranges

__all__ = ["Block", "Piece", "Progress", "Source", "Stream"]

FloatArray = npt.NDArray[np.float64]
# A 2-d array of float32 or float64, or a scipy CSR matrix or array.
Rows = Any
Piece = tuple[Rows, FloatArray | None]
Progress = Callable[[float], None]

# Dense blocks stay below this many bytes whatever the number of columns, so that
# a wide file read with the default block_rows is as flat in memory as a narrow one.
BLOCK_BYTES = 1 << 27


@dataclass(frozen=True, slots=True)
class Block:
    """Some consecutive rows of a stream.

    Attributes
    ----------
    X : ndarray or scipy CSR, shape (n, n_features)
        float64, C-contiguous (float32 where the input is a float32 array), or CSR
        with float32/float64 data and int32/int64 indices, not necessarily in
        canonical format. It may be a read-only view of the caller's own array:
        do not write into it.
    y : ndarray of float64, shape (n,), or None
        For classification the index (0.0 or 1.0) into :attr:`Stream.classes`, for
        regression the target itself, None for a stream without a target.
    first_row : int
        1-based number of the block's first row, counted over the whole stream.
    """

    X: Rows
    y: FloatArray | None
    first_row: int


class Source(ABC):
    """A kind of input: yields checked pieces of any number of rows, in order.

    A new format is one subclass. ``merge`` says whether small pieces may be joined
    into full blocks (files) or must be passed on at once (live generators).
    """

    name: str
    n_features: int
    n_rows: int | None = None
    feature_names: tuple[str, ...] | None = None
    repeatable: bool = True
    merge: bool = True
    sparse: bool = False
    sized: bool = True

    @abstractmethod
    def pieces(self, limit: int, progress: Progress) -> Iterator[Piece]:
        """Yield (X, y) pieces; ``limit`` is the wanted number of rows of a block.

        ``progress`` is called with the fraction of the input consumed.
        """

    def count(self) -> int:
        """Return the number of rows that :meth:`pieces` yields, by reading them."""
        return sum(int(X.shape[0]) for X, _ in self.pieces(65536, lambda _: None))


class Stream:
    """Rows of a file, array or generator, iterated as :class:`Block` objects.

    Made by :func:`privol.open_stream`. Each iteration starts anew at row 1 where
    ``repeatable`` is true; a generator can be iterated once. Closing the iterator
    (or dropping it) closes the file.

    Attributes
    ----------
    n_features : int
        Columns of every block's X.
    n_rows : int or None
        Number of rows where it is known without reading the data; see also :meth:`count_rows`.
    classes : tuple or None
        (negative, positive) labels; ``y`` holds 0.0 and 1.0. None for regression.
    feature_names : tuple of str or None
        Names of the columns of X, where the input has a header.
    source : str
        Name of the input for display: a file's name (without its folder) or the kind of input.
    repeatable : bool
        Whether the stream can be iterated more than once.
    """

    def __init__(self, source: Source, *, classes: tuple[Any, ...] | None, ranges: Ranges | None, block_rows: int):
        self._source = source
        self._ranges = ranges
        self._started = False
        self._fraction = 0.0
        if not source.sparse and source.merge:
            block_rows = max(1, min(block_rows, BLOCK_BYTES // (8 * source.n_features)))
        self._block_rows = block_rows
        self.n_features = source.n_features
        self.n_rows = source.n_rows
        self.classes = classes
        self.feature_names = source.feature_names
        self.source = source.name
        self.repeatable = source.repeatable

    def __repr__(self) -> str:
        rows = "unknown" if self.n_rows is None else f"{self.n_rows:,}"
        return f"<Stream {self.source}: {rows} rows, {self.n_features} features, classes {self.classes}>"

    @property
    def fraction_read(self) -> float | None:
        """Fraction (0 to 1) of the input consumed by the latest iteration, None if it cannot be known.

        For files it is counted in bytes, compressed bytes for compressed files.
        """
        return self._fraction if self._source.sized else None

    def count_rows(self) -> int:
        """Return the number of rows, reading the whole input once if ``n_rows`` is None.

        The count of a private data set is treated as public everywhere in privol
        (it is the horizon). Files are counted at the speed of decompression.

        Raises
        ------
        StreamError
            If the stream is not repeatable, so that counting would use it up, or damaged.
        """
        if self.n_rows is None:
            if not self.repeatable:
                raise StreamError(f"{self.source}: the rows of a stream that can be read only once cannot be counted")
            self.n_rows = self._source.count()
        return self.n_rows

    def __iter__(self) -> Iterator[Block]:
        if self._started and not self.repeatable:
            raise StreamError(f"{self.source}: this stream can be iterated only once, open a new one")
        self._started = True
        return self._blocks()

    def _blocks(self) -> Iterator[Block]:
        def progress(fraction: float) -> None:
            self._fraction = fraction

        progress(0.0)
        row = 1
        for X, y in _regroup(self._source.pieces(self._block_rows, progress), self._block_rows, self._source.merge):
            if self._ranges is not None:
                X = self._ranges.apply(X, self.source, row)
            yield Block(X, y, row)
            row += X.shape[0]
        progress(1.0)
        if row == 1:
            raise StreamError(f"{self.source}: no rows, at least one is needed")


def _regroup(pieces: Iterator[Piece], limit: int, merge: bool) -> Iterator[Piece]:
    """Cut and, if ``merge``, join pieces to blocks of exactly ``limit`` rows (the last may be shorter)."""
    pending = _Pending(limit)
    for X, y in pieces:
        n, start = X.shape[0], 0
        while start < n:
            # A whole block inside one piece passes without a copy.
            if pending.rows == 0 and (n - start >= limit or not merge):
                stop = min(start + limit, n)
                whole = start == 0 and stop == n
                yield (X, y) if whole else (X[start:stop], None if y is None else y[start:stop])
            else:
                stop = min(start + limit - pending.rows, n)
                pending.add(X[start:stop], None if y is None else y[start:stop])
                if pending.rows == limit:
                    yield pending.take()
            start = stop
    if pending.rows:
        yield pending.take()


class _Pending:
    """Rows waiting for their block to fill; dense rows go straight to their final place."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._dense: npt.NDArray[Any] | None = None
        self._sparse: list[Any] = []
        self._y: list[FloatArray] = []
        self.rows = 0

    def add(self, X: Rows, y: FloatArray | None) -> None:
        if sp.issparse(X):
            self._sparse.append(X)
        else:
            if self._dense is None:
                self._dense = np.empty((self._limit, X.shape[1]), dtype=X.dtype)
            self._dense[self.rows : self.rows + X.shape[0]] = X
        if y is not None:
            self._y.append(y)
        self.rows += X.shape[0]

    def take(self) -> Piece:
        X: Rows
        if self._dense is None:
            X = self._sparse[0] if len(self._sparse) == 1 else sp.vstack(self._sparse, format="csr")
        else:
            # A short last block is copied, so that it does not keep a full one alive.
            X = self._dense if self.rows == self._limit else self._dense[: self.rows].copy()
        y = np.concatenate(self._y) if self._y else None
        self._dense, self._sparse, self._y, self.rows = None, [], [], 0
        return X, y
