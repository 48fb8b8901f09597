"""Inputs of named, typed columns, and the way from their columns to rows.

Sources are of two families. Sources of rows (arrays, libsvm) hand out (X, y) themselves. Sources of columns (CSV,
JSON lines, Parquet, Arrow, frames) only know how to hand out the columns that are asked for, as numbers or as text;
an :class:`Encoder` says which those are and makes rows of them. A new format of columns is one subclass of
:class:`Columns`, and schemas work with it at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Literal, Protocol

import numpy as np

from ..errors import InvalidParameter, StreamError
from ._base import PAUSE, Piece, Progress, Source
from ._files import listed
from ._labels import Labels
from ._written import Written

__all__ = ["ColumnSource", "Columns", "Encoder", "Kind", "PlainEncoder", "resolve_column"]

Kind = Literal["number", "text"]
# Columns become rows in portions of so many cells, which stay in the cache: 20 % faster than all at once.
CACHE_CELLS = 1 << 19
# A pyarrow.RecordBatch; pyarrow is optional and has no type stubs.
Batch = Any


class Columns(ABC):
    """A kind of input with named columns.

    Attributes
    ----------
    name : str
        For messages.
    names : tuple of str
        All columns in order; "0", "1", ... where the input has no names of its own.
    named : bool
        Whether the input has names of its own.
    ahead : bool
        Whether a thread may read ahead of the consumer (not where that runs the caller's code).
    hints : mapping from name to str
        What an encoder wants said in errors about a cell of a column.
    written : Written or None
        How an encoder wants cells of text read that stand in columns of numbers; None: they are errors. A file that is
        text itself (CSV) states that by its own options.
    inferred : tuple of str
        What was told from the contents and not stated; "columns" stands for their names and order.
    """

    name: str
    names: tuple[str, ...]
    named: bool = True
    n_rows: int | None = None
    repeatable: bool = True
    merge: bool = True
    sized: bool = True
    ahead: bool = True
    hints: Mapping[str, str] = MappingProxyType({})
    written: Written | None = None
    inferred: tuple[str, ...] = ()

    def check(self, kinds: Mapping[str, Kind]) -> None:  # noqa: B027 (most formats know no types beforehand)
        """Raise StreamError if a wanted column cannot be of the wanted kind, where that is known beforehand."""

    @abstractmethod
    def batches(self, kinds: Mapping[str, Kind], limit: int, progress: Progress) -> Iterator[Batch]:
        """Yield record batches with exactly the columns of ``kinds``, in that order.

        "number" gives float64, "text" a dictionary of strings with int32 indices; null is a missing cell.
        A cell that is not of its kind raises StreamError with its 1-based row, column, what was found and what is
        allowed, before its batch is handed out. ``limit`` is the wanted number of rows of a batch; ``progress`` is
        called with the fraction of the input consumed. None in place of a batch says that the input pauses.
        """

    @abstractmethod
    def count(self) -> int:
        """Return the number of rows, by reading them if need be."""

    @abstractmethod
    def sample(self, rows: int) -> Any:
        """Return up to ``rows`` first rows as a pyarrow.Table of the types that the input itself has or shows."""

    def located(self, error: StreamError) -> StreamError:
        """Return an error about a row of the latest batch in the words of the input: which of its files it is in."""
        return error

    def column(self, name: str) -> str:
        """Return how messages call a column."""
        return repr(name) if self.named else name

    def bad_cell(self, row: int, name: str, what: str) -> StreamError:
        """Return the error about a cell; ``what`` says what was found and what is allowed."""
        hint = f" ({self.hints[name]})" if name in self.hints else ""
        return StreamError(f"{self.name}, row {row}, column {self.column(name)}: {what}{hint}", row=row)


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
        self.name = columns.name
        self.n_rows = columns.n_rows
        self.n_features = encoder.n_features
        self.feature_names = encoder.feature_names
        self.repeatable = columns.repeatable
        self.merge = columns.merge
        self.sized = columns.sized
        self.ahead = columns.ahead
        self.sparse = encoder.sparse
        self.inferred = columns.inferred

    def pieces(self, limit: int, progress: Progress) -> Iterator[Piece]:
        yield from self._encoded(self._encoder.encode, limit, progress)

    def _encoded(self, encode: Callable[[Batch, int], Piece], limit: int, progress: Progress) -> Iterator[Piece]:
        row = 1
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
        columns = batch.select(self._features)
        X = np.empty((batch.num_rows, self.n_features))
        step = max(1, CACHE_CELLS // self.n_features)
        for start in range(0, batch.num_rows, step):
            part = columns.slice(start, step)
            X[start : start + step] = part.to_tensor(null_to_nan=True, row_major=True).to_numpy()
        return Piece(X, y)


def resolve_column(target: Any, names: tuple[str, ...] | None, n_columns: int, source: str) -> int | None:
    """Return the 0-based column of the target; None where ``target=False`` says that there is none."""
    if target is False:
        return None
    if target is None:
        return n_columns - 1
    columns = f"columns 0 to {n_columns - 1}" + (f" or {listed(names)}" if names else "")
    if isinstance(target, str):
        if names is None:
            raise StreamError(f"{source}: no column named {target!r} (there is no header), allowed are {columns}")
        if target.strip() not in names:
            raise StreamError(f"{source}: no column named {target!r}, allowed are {columns}")
        return names.index(target.strip())
    if isinstance(target, bool) or not isinstance(target, (int, np.integer)):
        raise InvalidParameter(f"target must be a column name, an index, None or False, found {target!r}")
    if not -n_columns <= target < n_columns:
        raise StreamError(f"{source}: no column {target}, allowed are {columns}")
    return int(target) % n_columns
