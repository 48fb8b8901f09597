"""Rows made of columns: by an encoder, of which the plain one takes every column for a number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from typing import Any, Protocol

import numpy as np

from ..errors import StreamError
from ..readers.base import PAUSE, Piece, Progress, Source
from ..readers.columns import Batch, Columns, Kind, resolve_column
from ..readers.frames import FramePair
from .cores import table_of
from .labels import Labels
from .rest import RestOfColumns

__all__ = ["ColumnSource", "Encoder", "FrameSource", "PlainEncoder"]


class Encoder(Protocol):
    """What makes rows of record batches; see :class:`PlainEncoder`."""

    kinds: Mapping[str, Kind]
    n_features: int
    feature_names: tuple[str, ...] | None
    sparse: bool

    def encode(self, batch: Batch, first_row: int) -> Piece:
        """Return the rows of a batch whose first row has the given 1-based number."""


class ColumnSource(Source):
    """Rows made of columns."""

    def __init__(self, columns: Columns, encoder: Encoder) -> None:
        columns.check(encoder.kinds)
        self._columns = columns
        self._encoder = encoder
        self.facts = columns.facts
        self.n_features = encoder.n_features
        self.feature_names = encoder.feature_names
        self.sparse = encoder.sparse

    def pieces(self, limit: int, progress: Progress) -> Iterator[Piece]:
        yield from self._encoded(self._encoder.encode, limit, progress)

    def _encoded(self, encode: Callable[[Batch, int], Piece], limit: int, progress: Progress) -> Iterator[Piece]:
        row = self._columns.first_row
        for batch in self._columns.batches(self._encoder.kinds, limit, progress):
            if batch is None:
                yield PAUSE
                continue
            if not batch.num_rows:
                continue
            try:
                piece = encode(batch, row)
            except StreamError as err:
                raise self._columns.located(err) from err.__cause__
            row += batch.num_rows
            del batch  # its memory is free while the piece is learnt
            yield piece
            del piece

    def count(self) -> int:
        return self._columns.count()

    def after(self, rows: int, what: str) -> ColumnSource | None:
        """Return the rows after the first ones, which are not encoded; None where that cannot be.

        ``what`` says in messages what the first ones are.
        """
        rest = copy(self)
        rest._columns = RestOfColumns(self._columns, rows, what=what)
        return rest


class PlainEncoder:
    """Every column a number and a feature, but for the target.

    Parameters
    ----------
    columns : Columns
    target : str, int, None or False
        As in :func:`privol.open_stream`.
    labels : Labels
    """

    sparse = False

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

    def encode(self, batch: Batch, first_row: int) -> Piece:
        y = None
        if self._target is not None:
            y = self._labels.encode_column(batch.column(self._target), first_row, self._where)
        X = np.empty((batch.num_rows, self.n_features))
        table_of([batch.column(name).to_numpy(zero_copy_only=False) for name in self._features], X)
        return Piece(X, y)


class FrameSource(ColumnSource):
    """(X, y) of a frame of features and a sequence of targets."""

    def __init__(self, pair: FramePair, labels: Labels) -> None:
        super().__init__(pair.columns, PlainEncoder(pair.columns, False, labels))
        self._labels = labels
        self._y = pair.y

    def after(self, rows: int, what: str) -> None:
        """Targets are not among the columns: nothing is left out of these."""

    def pieces(self, limit: int, progress: Progress) -> Iterator[Piece]:
        start = 0
        for X, *_ in super().pieces(limit, progress):
            stop = start + X.shape[0]
            y = None
            if self._y is not None:
                y = self._labels.encode(self._y[start:stop], start + 1, f"{self.name}, target")
            yield Piece(X, y)
            start = stop
