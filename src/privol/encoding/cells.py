"""How many cells of a table a schema has no place for, which shows whether it is the right schema. Not private."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, SupportsInt

from ..readers.base import Piece, Progress
from ..readers.columns import Columns
from .rows import ColumnSource

if TYPE_CHECKING:
    from .encode import SchemaEncoder

__all__ = ["CellCounts", "CountedSource"]

KINDS = ("unknown", "missing", "clipped")


class CellCounts:
    """Cells of one iteration that a schema does not take as they are, counted by column.

    Every row of the input that brings features counts, even one that a cap drops or that never gets its label: the
    question is whether the schema fits the data. A row that only brings a label does not count.

    Attributes
    ----------
    rows : int
        How many rows were counted.
    """

    def __init__(self) -> None:
        self.rows = 0
        self._found: dict[str, dict[str, int]] = {}

    def add(self, name: str, kind: str, n: SupportsInt) -> None:
        """Add n cells of a column to those of a kind."""
        self._found.setdefault(name, dict.fromkeys(KINDS, 0))[kind] += int(n)

    def found(self, names: Iterable[str]) -> dict[str, dict[str, int]]:
        """Return the counts that are not 0, by column in the given order of names, then by kind."""
        found = {name: {kind: n for kind, n in self._found.get(name, {}).items() if n} for name in names}
        return {name: counts for name, counts in found.items() if counts}


class CountedSource(ColumnSource):
    """Rows that a schema makes of columns, with the counts of :class:`CellCounts`.

    Attributes
    ----------
    cells : dict or None
        Column to kind ("unknown", "missing", "clipped") to number, for the latest iteration that came to its end; None
        before one has.
    cell_rows : int or None
        How many rows were counted.
    """

    def __init__(self, columns: Columns, encoder: SchemaEncoder) -> None:
        super().__init__(columns, encoder)
        self._schema_encoder = encoder

    def pieces(self, limit: int, progress: Progress) -> Iterator[Piece]:
        # Of this iteration alone, and set at its end: a thread that reads ahead is further on than the learner.
        counts = CellCounts()
        yield from self._encoded(partial(self._schema_encoder.encode, counts=counts), limit, progress)
        self.cells, self.cell_rows = counts.found(self._schema_encoder.kinds), counts.rows
