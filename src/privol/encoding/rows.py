"""Makes rows of columns with an encoder; the plain encoder takes every column for a number."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from copy import copy
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from ..errors import StreamError
from ..readers.ahead import ReadAhead
from ..readers.base import BLOCK_BYTES, PAUSE, FloatArray, Piece, Progress, Source
from ..readers.columns import Batch, Columns, Kind, resolve_column
from ..readers.frames import FramePair
from .columns_to_rows import table_of
from .labels import Labels
from .rest import RestOfColumns

__all__ = ["ColumnSource", "Encoder", "FrameSource", "PlainEncoder"]

Encode = Callable[[Batch, int, FloatArray | None], Piece]

# A batch gives several smaller blocks, which are cut from it without a copy.
LARGE = 1 << 12
# Learners refuse larger numbers as not finite.
_LARGEST = 1e150


class Encoder(Protocol):
    """Makes rows of record batches; see :class:`PlainEncoder`."""

    kinds: Mapping[str, Kind]
    n_features: int
    feature_names: tuple[str, ...] | None
    sparse: bool
    rows_alone: bool

    def encode(self, batch: Batch, first_row: int, into: FloatArray | None = None) -> Piece:
        """Return the rows of a batch whose first row has the given 1-based number.

        Dense rows that are ``rows_alone``, without users and keys, are written to ``into`` if it is given.
        """


class ColumnSource(Source):
    """Rows made of columns."""

    def __init__(self, columns: Columns, encoder: Encoder) -> None:
        columns.check(encoder.kinds)
        columns.accepts = (*columns.accepts, (encoder.kinds, partial(_accepted, encoder, columns.name)))
        self._columns = columns
        self._encoder = encoder
        self.facts = columns.facts
        self.n_features = encoder.n_features
        self.feature_names = encoder.feature_names
        self.sparse = encoder.sparse

    def pieces(self, limit: int, progress: Progress) -> Iterator[Piece]:
        yield from self._encoded(self._encoder.encode, limit, progress)

    def _encoded(self, encode: Encode, limit: int, progress: Progress) -> Iterator[Piece]:
        with closing(self._batches(limit, progress)) as batches:
            if limit < LARGE or self.sparse or not (self.facts.merge and self._encoder.rows_alone):
                yield from self._by_batch(encode, batches)
            else:
                most = max(BLOCK_BYTES // (8 * self.n_features), 1)
                yield from self._by_block(encode, batches, min(limit, most))

    def _by_batch(self, encode: Encode, batches: Iterator[Batch]) -> Iterator[Piece]:
        row = self._columns.first_row
        for batch in batches:
            if batch is None:
                yield PAUSE
                continue
            if not batch.num_rows:
                continue
            piece = self._piece(encode, batch, row)
            row += batch.num_rows
            del batch  # frees its memory while the piece is learnt
            yield piece
            del piece

    def _by_block(self, encode: Encode, batches: Iterator[Batch], limit: int) -> Iterator[Piece]:
        """Yield pieces of ``limit`` rows, fewer before a pause and at the end, each encoded in place."""
        row = self._columns.first_row
        block = _Block(limit, self.n_features)
        for batch in batches:
            if batch is None:
                if block.rows:
                    yield block.take()
                yield PAUSE
                continue
            start = 0
            while start < batch.num_rows:
                part = batch.slice(start, block.left)
                block.add(self._piece(encode, part, row, block.room(part.num_rows)))
                start, row = start + part.num_rows, row + part.num_rows
                del part
                if not block.left:
                    yield block.take()
            del batch
        if block.rows:
            yield block.take()

    def _piece(self, encode: Encode, batch: Batch, row: int, into: FloatArray | None = None) -> Piece:
        try:
            return encode(batch, row, into)
        except StreamError as err:
            raise self._columns.located(err) from err.__cause__

    def _batches(self, limit: int, progress: Progress) -> Generator[Batch]:
        """Yield the batches; where allowed, and if there are several, a thread reads the next ones meanwhile."""
        columns, kinds = self._columns, self._encoder.kinds
        n_rows = columns.facts.n_rows
        if not columns.ahead or (n_rows is not None and n_rows <= limit):
            yield from columns.batches(kinds, limit, progress)
            return
        # up to a block's number of rows may wait
        ahead = ReadAhead(partial(_told_batches, columns, kinds, limit), limit, lambda told: told.size)
        with closing(ahead) as found:
            for told in found:
                progress(told.fraction)
                if told.end:
                    return
                yield told.batch
                del told
        raise StreamError(f"{columns.name}: reading was stopped, the interpreter exits")

    def count(self) -> int:
        return self._columns.count()

    def brings_rest(self) -> None:
        if not isinstance(self._columns, RestOfColumns):
            super().brings_rest()
        else:
            self._columns.brings_rest()

    def after(self, rows: int, what: str) -> ColumnSource | None:
        """Return the rows after the first ones without encoding those; None if that is impossible.

        Messages call the first ones ``what``.
        """
        rest = copy(self)
        rest._columns = RestOfColumns(self._columns, rows, what=what)
        return rest


def _accepted(encoder: Encoder, name: str, batch: Batch, first_row: int) -> None:
    """Raise StreamError for a row that the encoder refuses, or else learners would.

    A row without a target is a null row, whatever else it holds.
    """
    X, y, *_ = encoder.encode(batch, first_row)
    # what a schema makes NaN of it has asked for
    nan = isinstance(encoder, PlainEncoder)
    unusable = _unusable(X.data if sp.issparse(X) else X, nan)
    rows: npt.NDArray[np.bool_] = np.zeros(X.shape[0], dtype=bool)
    if sp.issparse(X):
        rows[np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))[unusable]] = True
    else:
        rows |= unusable.any(axis=1)
    if y is not None:
        rows = (rows & ~np.isnan(y)) | _unusable(y, nan=False)
    if rows.any():
        row = first_row + int(np.argmax(rows))
        raise StreamError(
            f"{name}, row {row}: a number is missing or not finite, allowed are those up to {_LARGEST:g} in magnitude",
            row=row,
        )


def _unusable(numbers: FloatArray, nan: bool) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = ~(np.abs(numbers) <= _LARGEST)
    return found if nan else found & ~np.isnan(numbers)


class _Told(NamedTuple):
    """A batch, and the fraction of the input consumed before it."""

    batch: Batch
    fraction: float
    end: bool = False

    @property
    def size(self) -> int:
        return 1 if self.batch is None else int(self.batch.num_rows) + 1


def _told_batches(
    columns: Columns, kinds: Mapping[str, Kind], limit: int, alive: Callable[[], None]
) -> Iterator[_Told]:
    """Yield the batches of columns and then an end; this runs in a thread of its own."""
    fraction = 0.0

    def progress(now: float) -> None:
        nonlocal fraction
        fraction = now
        alive()

    for batch in columns.batches(kinds, limit, progress):
        yield _Told(batch, fraction)
        del batch
    yield _Told(None, fraction, end=True)


class _Block:
    """Dense rows that are encoded where they stay, until the block is full.

    Parameters
    ----------
    limit : int
        Rows.
    width : int
        Features.
    """

    def __init__(self, limit: int, width: int) -> None:
        self._limit, self._width = limit, width
        self._begin()

    def _begin(self) -> None:
        self._X: FloatArray | None = None
        self._y: list[FloatArray] = []
        self.rows = 0

    @property
    def left(self) -> int:
        """How many rows are still missing."""
        return self._limit - self.rows

    def room(self, rows: int) -> FloatArray:
        """Return the place of the next rows."""
        if self._X is None:
            self._X = np.empty((self._limit, self._width))
        return self._X[self.rows : self.rows + rows]

    def add(self, piece: Piece) -> None:
        """Count rows that were written to their place."""
        self.rows += len(piece.X)
        if piece.y is not None:
            self._y.append(piece.y)

    def take(self) -> Piece:
        """Return all rows, and begin a new block."""
        assert self._X is not None
        # A short block is copied, so that it does not keep a full one in memory.
        X = self._X if not self.left else self._X[: self.rows].copy()
        found = Piece(X, np.concatenate(self._y) if self._y else None)
        self._begin()
        return found


class PlainEncoder:
    """Takes every column but the target as a number and a feature.

    Parameters
    ----------
    columns : Columns
    target : str, int, None or False
        As in :func:`privol.open_stream`.
    labels : Labels
    """

    sparse = False
    rows_alone = True

    def __init__(self, columns: Columns, target: Any, labels: Labels) -> None:
        self._labels = labels
        at = resolve_column(target, columns.names if columns.named else None, len(columns.names), columns.name)
        self._target = None if at is None else columns.names[at]
        self._where = f"{columns.name}, column {'' if at is None else columns.column(columns.names[at])}"
        self._features = [name for name in columns.names if name != self._target]
        self.n_features = len(self._features)
        if not self.n_features:
            raise StreamError(f"{columns.name}: only one column, the target, and no feature")
        self.feature_names = tuple(self._features) if columns.named else None
        kinds: dict[str, Kind] = dict.fromkeys(columns.names, "number")
        hints = dict.fromkeys(self._features, "columns of text need a schema")
        if self._target is not None and labels.numeric:
            hints[self._target] = "declare labels with classes= or positive="
        elif self._target is not None:
            kinds[self._target] = "text"
        self.kinds: Mapping[str, Kind] = kinds
        columns.hints = hints

    def encode(self, batch: Batch, first_row: int, into: FloatArray | None = None) -> Piece:
        y = None
        if self._target is not None:
            y = self._labels.encode_column(batch.column(self._target), first_row, self._where)
        X = np.empty((batch.num_rows, self.n_features)) if into is None else into
        table_of([batch.column(name).to_numpy(zero_copy_only=False) for name in self._features], X)
        return Piece(X, y)


class FrameSource(ColumnSource):
    """(X, y) of a frame of features and a sequence of targets."""

    def __init__(self, pair: FramePair, labels: Labels) -> None:
        super().__init__(pair.columns, PlainEncoder(pair.columns, False, labels))
        self._labels = labels
        self._y = pair.y

    def after(self, rows: int, what: str) -> None:
        """Return None: the targets are not among the columns, so no rows can be left out."""

    def pieces(self, limit: int, progress: Progress) -> Iterator[Piece]:
        start = 0
        for X, *_ in super().pieces(limit, progress):
            stop = start + X.shape[0]
            y = None
            if self._y is not None:
                y = self._labels.encode(self._y[start:stop], start + 1, f"{self.name}, target")
            yield Piece(X, y)
            start = stop
