"""Shared code of the tests of schemas: a table in memory as columns, and reading a whole source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from privol.encoding.encode import SchemaEncoder
from privol.encoding.rows import ColumnSource
from privol.encoding.schema import Schema
from privol.readers.base import Facts
from privol.readers.columns import Columns

# Streams with a schema need it, so all files that import this one are skipped without it.
pa = pytest.importorskip("pyarrow")


class TableColumns(Columns):
    """Lists of cells by column name, delivered in batches of ``cut`` rows."""

    def __init__(self, table: dict[str, list[Any]], *, cut: int = 1000, named: bool = True) -> None:
        self.facts = Facts(name="table")
        self.names = tuple(table)
        self.named = named
        self.cut = cut
        self._table = table
        self.asked: list[tuple[str, ...]] = []

    def batches(self, kinds: Any, limit: int, progress: Any) -> Iterator[Any]:
        self.asked.append(tuple(kinds))
        arrays = {}
        for name, kind in kinds.items():
            cells = self._table[name]
            if kind == "number":
                arrays[name] = pa.array([None if c is None else float(c) for c in cells], pa.float64())
            else:
                arrays[name] = pa.array([None if c is None else str(c) for c in cells], pa.string())
        for start in range(0, self.count(), self.cut):
            part = {
                name: a[start : start + self.cut] if kinds[name] == "number" else _coded(a[start : start + self.cut])
                for name, a in arrays.items()
            }
            yield pa.RecordBatch.from_pydict(part)
            progress(min(1.0, (start + self.cut) / self.count()))

    def count(self) -> int:
        return len(next(iter(self._table.values())))

    def sample(self, rows: int) -> Any:
        return pa.table({name: pa.array(cells[:rows]) for name, cells in self._table.items()})


def _coded(array: Any) -> Any:
    return array.dictionary_encode()


def encoded(table: dict[str, list[Any]], parts: dict[str, Any] | Schema, *, target: bool = True, **options: Any):
    """Return the encoder, the dense rows and the targets of a table."""
    columns = TableColumns(table, **options)
    encoder = SchemaEncoder(Schema.load(parts), columns, target=target)
    X, y = whole(ColumnSource(columns, encoder))
    return encoder, X, y


def whole(source: Any, limit: int = 1000):
    """Return all rows (dense) and targets of a source."""
    pieces = list(source.pieces(limit, lambda _: None))
    X = [dense(piece.X) for piece in pieces]
    y = None if not pieces or pieces[0].y is None else np.concatenate([piece.y for piece in pieces])
    return (np.vstack(X) if X else np.empty((0, source.n_features))), y


def dense(X: Any) -> np.ndarray[Any, Any]:
    return X.toarray() if sp.issparse(X) else X
