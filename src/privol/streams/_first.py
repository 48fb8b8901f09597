"""The first rows of an input: later ones are neither encoded nor, if possible, read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ..readers.base import PAUSE, Facts, Piece, Progress, Source
from ..readers.columns import Batch, Columns, ColumnsAround, Kind

__all__ = ["FirstOfColumns", "FirstOfRows"]


class FirstOfColumns(ColumnsAround):
    """Columns without the rows after a given number.

    Parameters
    ----------
    columns : Columns
    rows : int
        At least 1.
    """

    def __init__(self, columns: Columns, rows: int) -> None:
        super().__init__(columns)
        self._input, self._rows = columns, rows
        self.facts = _shortened(columns.facts, rows)

    def batches(self, kinds: Mapping[str, Kind], limit: int, progress: Progress) -> Iterator[Batch]:
        left = self._rows
        for batch in self._input.batches(kinds, min(limit, left), progress):
            if batch is not None:
                batch = batch.slice(0, left)
                left -= batch.num_rows
            yield batch
            if not left:
                return

    def sample(self, rows: int) -> Any:
        return self._input.sample(min(rows, self._rows))

    def count(self) -> int:
        return min(self._input.count(), self._rows)


class FirstOfRows(Source):
    """A source without its later rows; parameters as for :class:`FirstOfColumns`."""

    def __init__(self, source: Source, rows: int) -> None:
        self._source = source
        self._rows = rows
        self.n_features = source.n_features
        self.feature_names = source.feature_names
        self.sparse = source.sparse
        self.facts = _shortened(source.facts, rows)

    def pieces(self, limit: int, progress: Progress) -> Iterator[Piece]:
        left = self._rows
        for piece in self._source.pieces(min(limit, left), progress):
            if piece is not PAUSE:
                piece = Piece(piece.X[:left], None if piece.y is None else piece.y[:left])
                left -= piece.X.shape[0]
            yield piece
            if not left:
                return

    def count(self) -> int:
        return min(self._source.count(), self._rows)


def _shortened(facts: Facts, rows: int) -> Facts:
    return facts if facts.n_rows is None else replace(facts, n_rows=min(facts.n_rows, rows))
