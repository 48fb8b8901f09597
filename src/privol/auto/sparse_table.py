"""Sparse rows of numbered features, with labels beside them, in the form that a run of both phases takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core._rows import squared_norms
from .._sparse import sound_rows
from ..encoding.frequent import frequent_rows
from ..encoding.labels import Labels, label_key
from ..encoding.schema import Schema
from ..readers.arrays import ArraySource
from ..readers.base import Piece, Progress
from ..readers.columns import Kind
from .course import Course

__all__ = ["SparseCourse", "SparseRows", "codes_of"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class _SparseBatch:
    """Consecutive rows and the indices of their labels, NaN for a label that is not declared."""

    X: Any
    y: FloatArray

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    def slice(self, start: int, length: int | None = None) -> _SparseBatch:
        """Return at most ``length`` rows from ``start`` on."""
        stop = None if length is None else start + length
        return _SparseBatch(self.X[start:stop], self.y[start:stop])


class SparseRows:
    """Rows of a matrix, all of which are read when the object is made.

    Parameters
    ----------
    X : sparse matrix of shape (n, n_features)
    y : ndarray of shape (n,)
        Indices of labels.
    classes : tuple
        The labels.
    refuse : bool
        Whether a row with a number that is not finite is an error; otherwise it is a null row.
    learnt : int
        Number of rows before these, for the message.

    Raises
    ------
    InvalidRow, InvalidParameter
        If a row, or the matrix, cannot be read.
    """

    name, names = "X", ()
    #: Nothing can be refused any more while it is learnt.
    loose = False

    def __init__(self, X: Any, y: FloatArray, classes: tuple[Any, ...], *, refuse: bool, learnt: int) -> None:
        self.source = ArraySource(sound_rows(X, null=not refuse), None, Labels(None, None), "X")
        self.classes = classes
        self._batch = _SparseBatch(next(iter(self.source.pieces(X.shape[0], lambda _: None))).X, y)
        if refuse:
            squared_norms(self._batch.X, learnt=learnt, refuse=True)

    def count(self) -> int:
        """Number of rows."""
        return self._batch.num_rows

    def without(self, rows: int) -> SparseRows:
        """Return all but the first ``rows`` rows."""
        rest = copy(self)
        rest._batch = self._batch.slice(rows)
        return rest

    def batches(self, kinds: Mapping[str, Kind], limit: int, progress: Progress) -> Iterator[_SparseBatch]:
        """Yield the rows in order, at most ``limit`` at once."""
        for start in range(0, self.count(), limit):
            yield self._batch.slice(start, limit)


class _FrequentCoder:
    """Makes rows of frequent features from sparse rows.

    Parameters
    ----------
    schema : Schema
        It states which features are frequent.
    classes : tuple
        The declared labels.
    """

    kinds: Mapping[str, Kind] = {}

    def __init__(self, schema: Schema, classes: tuple[Any, ...]) -> None:
        assert schema.rows is not None
        self.schema, self.classes, self._part = schema, classes, schema.rows
        self.n_features = self._part.n_features

    def encode(self, batch: _SparseBatch, first_row: int) -> Piece:
        """Return the rows of a batch."""
        return Piece(frequent_rows(batch.X, self._part), batch.y)


class SparseCourse(Course):
    """One run of both phases on sparse rows."""

    def _coder(self, columns: Any) -> Any:
        return _FrequentCoder(self.encoder.schema_, columns.classes)

    def _teach(self, batch: Any) -> int:
        return self._lesson.take(batch.X)

    def _rest(self, columns: Any) -> Any:
        return columns if self.encoder.reused_ else columns.without(self.encoder.plan_.rows)

    def read_as(self, columns: Any) -> None:
        """Do nothing: sparse rows have no cells to be read."""


def codes_of(labels: Any, classes: tuple[Any, ...]) -> FloatArray:
    """Return the index of each label of a dictionary among the declared ones, NaN for any other."""
    known = {label_key(label): float(code) for code, label in enumerate(classes)}
    table = np.array([known.get(label_key(text), np.nan) for text in labels.dictionary.to_pylist()] + [np.nan])
    codes: FloatArray = table[np.asarray(labels.indices.fill_null(len(table) - 1))]
    return codes
