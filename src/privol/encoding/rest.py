"""The rows of an input after those that taught its encoding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ..errors import StreamError
from ..readers.base import Piece, Progress, Source
from ..readers.columns import Batch, Columns, ColumnsAround, Kind

__all__ = ["RestOfColumns", "RestOfRows", "after"]


#: What messages call the first rows by default.
TAUGHT = "those that taught its encoding"


class RestOfColumns(ColumnsAround):
    """Columns without their first rows.

    The first iteration continues the one that has read these rows, if there is one: an input that can be read once is
    so read once. A later iteration reads from the beginning and skips them.

    Parameters
    ----------
    columns : Columns
    skip : int
        How many rows are left out.
    going : iterator of batches, optional
        The rest of an iteration after these rows.
    n_rows : int, optional
        The number of all rows, if they were counted.
    what : str
        What messages call the first rows.
    """

    def __init__(
        self,
        columns: Columns,
        skip: int,
        going: Iterator[Batch] | None = None,
        n_rows: int | None = None,
        what: str = TAUGHT,
    ) -> None:
        super().__init__(columns)
        self._skip = skip
        self._what = what
        self._going = going
        known = columns.facts.n_rows if n_rows is None else n_rows
        self.first_row = columns.first_row + skip
        left = None if known is None else max(known - skip, 0)
        self.facts = replace(columns.facts, n_rows=left, first_row=self.first_row)

    def batches(self, kinds: Mapping[str, Kind], limit: int, progress: Progress) -> Iterator[Batch]:
        going, self._going = self._going, None
        if going is not None:
            for batch in going:
                yield None if batch is None else batch.select(list(kinds))
            return
        yield from self._columns.batches_after(self._skip, kinds, limit, progress, self._what)

    def batches_after(
        self, rows: int, kinds: Mapping[str, Kind], limit: int, progress: Progress, what: str
    ) -> Iterator[Batch]:
        if self._going is not None:
            return super().batches_after(rows, kinds, limit, progress, what)
        return self._columns.batches_after(self._skip + rows, kinds, limit, progress, f"those before and {what}")

    def brings_rest(self) -> None:
        """Take the rows of the input for those behind the first ones, which it does not have."""
        self._skip = 0

    def sample(self, rows: int) -> Any:
        return self._columns.sample(self._skip + rows).slice(self._skip)

    def count(self) -> int:
        return max(self._columns.count() - self._skip, 0)


class RestOfRows(Source):
    """The rows of a source without its first ones; parameters as for :class:`RestOfColumns`."""

    def __init__(
        self,
        source: Source,
        skip: int,
        going: Iterator[Piece] | None = None,
        n_rows: int | None = None,
        what: str = TAUGHT,
    ) -> None:
        self._source = source
        self._skip = skip
        self._what = what
        self._going = going
        self.n_features = source.n_features
        self.feature_names = source.feature_names
        self.sparse = source.sparse
        known = source.facts.n_rows if n_rows is None else n_rows
        left = None if known is None else max(known - skip, 0)
        self.facts = replace(source.facts, n_rows=left, first_row=source.facts.first_row + skip)

    def pieces(self, limit: int, progress: Progress) -> Iterator[Piece]:
        going, self._going = self._going, None
        if going is not None:
            yield from going
            return
        left = self._skip
        for piece in self._source.pieces(limit, progress):
            n = piece.X.shape[0]
            skipped = min(left, n)
            left -= skipped
            if skipped < n or not n:
                yield after(piece, skipped)
        if left:
            raise StreamError(f"{self.name}: has no more rows than {self._what} ({self._skip:,})")

    def brings_rest(self) -> None:
        self._skip = 0

    def count(self) -> int:
        return max(self._source.count() - self._skip, 0)


def after(piece: Piece, rows: int) -> Piece:
    """Return a piece of features and targets without its first rows."""
    return piece if not rows else Piece(piece.X[rows:], None if piece.y is None else piece.y[rows:])
