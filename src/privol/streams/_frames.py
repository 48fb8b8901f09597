"""Frames of other libraries through Arrow's C interface, and rows that are dicts."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import chain, islice
from typing import Any

import numpy as np
from sklearn.feature_extraction import FeatureHasher

from ..errors import InvalidParameter, StreamError
from ._arrays import target_vector
from ._arrow import EXACT, TypedColumns, arrow, batch_rows, cut, plainly
from ._base import Piece, Progress, Source
from ._columns import Columns, ColumnSource, Kind, PlainEncoder
from ._files import shown
from ._labels import Labels
from ._written import Written

__all__ = ["DictColumns", "FrameColumns", "FrameSource", "HashedSource", "is_frame"]

# Dicts made to rows at once.
DICT_ROWS = 8192
_HALF = "found half of a surrogate pair, allowed is text"


def is_frame(data: Any) -> bool:
    """Whether an object is a table of named columns that Arrow can read: of pandas, polars, pyarrow, duckdb, ..."""
    return hasattr(data, "__arrow_c_stream__") or _is_pandas(data)


def _is_pandas(data: Any) -> bool:
    # By name: pandas is no dependency, and older ones do not know Arrow's interface.
    return type(data).__module__.split(".")[0] == "pandas" and hasattr(data, "columns")


class FrameColumns(TypedColumns):
    """A frame, or a reader of one.

    What has a length is a frame and can be read again; anything else is a reader and can be read once.

    Parameters
    ----------
    data : object with ``__arrow_c_stream__``, or pandas.DataFrame
    """

    def __init__(self, data: Any) -> None:
        pa = self._arrow = arrow("frames")
        name = f"{type(data).__module__.split('.')[0]} {type(data).__name__}"
        self.name = name
        if _is_pandas(data):
            data = self._from_pandas(data)
        self.repeatable = self.sized = self.ahead = hasattr(data, "__len__")
        self.n_rows = len(data) if self.sized else None
        if self.n_rows == 0:
            raise StreamError(f"{name}: no rows, at least one is needed")
        self._open: Callable[[], Any] = lambda: pa.RecordBatchReader.from_stream(data)
        try:
            reader = self._open()
        except (pa.ArrowException, TypeError, ValueError) as err:
            raise StreamError(f"{name}: cannot be read as Arrow data: {plainly(err)}") from err
        super().__init__(name, reader.schema)
        if self.sized:
            del reader
        else:
            self._open = lambda: reader

    def _from_pandas(self, frame: Any) -> Any:
        """Return the frame as a table: once for all passes, because columns of objects are converted."""
        pa = self._arrow
        try:
            table = pa.Table.from_pandas(frame, preserve_index=False)
        except (pa.ArrowException, TypeError, ValueError) as err:
            # pyarrow says which column it was, in a second message
            raise StreamError(f"{self.name}: {'; '.join(str(part) for part in err.args)[:300]}") from err
        # One cell decides whether objects are integers or doubles, and hence how all of them read as text.
        kinds = (field.type for dtype, field in zip(frame.dtypes, table.schema, strict=True) if dtype == "object")
        if not all(pa.types.is_string(kind) or pa.types.is_large_string(kind) for kind in kinds):
            self.inferred = ("types of the columns of objects",)
        return table

    def typed(self, kinds: Mapping[str, Kind], limit: int, progress: Progress) -> Iterator[Any]:
        row = 1
        reader = self._open()
        while True:
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                return
            except (self._arrow.ArrowException, OSError) as err:
                raise self.damaged(err, row) from err
            row += batch.num_rows
            if self.n_rows:
                progress(min((row - 1) / self.n_rows, 1.0))
            yield from cut(batch.select(list(kinds)), len(kinds))

    def count(self) -> int:
        return self.n_rows or 0


class FrameSource(ColumnSource):
    """(X, y) of a frame of features and a sequence of targets."""

    def __init__(self, frame: Any, y: Any, labels: Labels) -> None:
        columns = FrameColumns(frame)
        if columns.n_rows is None:
            raise InvalidParameter(f"X of (X, y) must have a length, found a reader ({columns.name})")
        super().__init__(columns, PlainEncoder(columns, False, labels))
        self._labels = labels
        self._y = target_vector(y, columns.n_rows, columns.name)

    def pieces(self, limit: int, progress: Progress) -> Iterator[Piece]:
        start = 0
        for X, *_ in super().pieces(limit, progress):
            stop = start + X.shape[0]
            y = None
            if self._y is not None:
                y = self._labels.encode(self._y[start:stop], start + 1, f"{self.name}, target")
            yield Piece(X, y)
            start = stop


class _Rows:
    """An iterable whose first element has been looked at; a sequence can be read again."""

    def __init__(self, first: Any, rest: Iterator[Any], rows: Iterable[Any]) -> None:
        self.n_rows = len(rows) if isinstance(rows, Sequence) else None
        self._again = rows if isinstance(rows, Sequence) else None
        self._once = chain([first], rest)

    def chunks(self, size: int) -> Iterator[list[Any]]:
        rows = self._once if self._again is None else iter(self._again)
        while chunk := list(islice(rows, size)):
            yield chunk


def _not_allowed(name: str, row: int, what: str) -> StreamError:
    return StreamError(f"{name}, row {row}: {what}", row=row)


class HashedSource(Source):
    """Pairs (dict of features, target), the features hashed to columns by scikit-learn's FeatureHasher.

    A text value makes the feature "key=value" with the value 1, a number the feature "key" with its value, each with
    a sign that depends on the feature. None is a missing value, NaN.
    """

    sparse = True
    ahead = False

    def __init__(self, first: Any, rest: Iterator[Any], pairs: Iterable[Any], labels: Labels, n_features: int) -> None:
        self.name = "dict rows"
        self.n_features = n_features
        self._rows = _Rows(first, rest, pairs)
        self._labels = labels
        self.n_rows = self._rows.n_rows
        self.repeatable = self.sized = self.n_rows is not None
        self._hasher = FeatureHasher(n_features=n_features, input_type="dict", dtype=np.float64, alternate_sign=True)
        self._targets = isinstance(first, tuple) and first[1] is not None

    def pieces(self, limit: int, progress: Progress) -> Iterator[Piece]:
        row = 1
        for pairs in self._rows.chunks(min(limit, DICT_ROWS)):
            features = [self._features(pair, row + i) for i, pair in enumerate(pairs)]
            try:
                X = self._hasher.transform(features)
            except UnicodeEncodeError:
                at = next(i for i, found in enumerate(features) if not all(map(_is_text, _texts_of(found))))
                raise _not_allowed(self.name, row + at, f"in a key or its value {_HALF}") from None
            y = None
            if self._targets:
                cells = np.empty(len(pairs), dtype=object)
                cells[:] = [pair[1] for pair in pairs]
                y = self._labels.encode(cells, row, f"{self.name}, target")
            row += len(pairs)
            if self.n_rows:
                progress((row - 1) / self.n_rows)
            yield Piece(X, y)

    def _features(self, pair: Any, row: int) -> dict[str, Any]:
        if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], Mapping)):
            what = f"found an element of type {type(pair).__name__}, allowed is (dict, y)"
            raise _not_allowed(self.name, row, what)
        if pair[1] is not None and not self._targets:
            raise _not_allowed(self.name, row, "y must be None in all rows or in none")
        found: dict[str, Any] = {}
        for key, value in pair[0].items():
            if not isinstance(key, str):
                if isinstance(key, bool) or not isinstance(key, numbers.Integral):
                    what = f"found a key of type {type(key).__name__}, allowed are strings and integers"
                    raise _not_allowed(self.name, row, what)
                key = str(key)
            if value is None:
                value = math.nan
            elif isinstance(value, (bool, np.bool_)):
                value = float(value)
            elif not isinstance(value, (str, numbers.Real)):
                what = f"key {shown(key)}: found a value of type {type(value).__name__}, allowed are numbers and text"
                raise _not_allowed(self.name, row, what)
            found[key] = value
        return found


def _texts_of(features: Mapping[str, Any]) -> list[str]:
    return [*features, *(value for value in features.values() if isinstance(value, str))]


class DictColumns(Columns):
    """Dicts whose keys are the columns, for a schema.

    The columns are the keys of the first row. A key that is missing, or whose value is None or blank, is a missing
    cell; a key that the first row does not have is an error. As text, values read as in :class:`TypedColumns`.
    """

    ahead = False
    inferred = ("columns",)

    def __init__(self, first: Mapping[Any, Any], rest: Iterator[Any], rows: Iterable[Any]) -> None:
        self._arrow = arrow("dict rows with a schema")
        self.name = "dict rows"
        self._rows = _Rows(first, rest, rows)
        self.n_rows = self._rows.n_rows
        self.repeatable = self.sized = self.n_rows is not None
        wrong = next((key for key in first if not isinstance(key, str)), None)
        if wrong is not None:
            raise StreamError(f"{self.name}, row 1: found the key {wrong!r}, with a schema keys are strings", row=1)
        self.names = tuple(first)
        if not self.names:
            raise StreamError(f"{self.name}, row 1: no keys, at least one is needed", row=1)
        if not all(map(_is_text, first)):
            raise StreamError(f"{self.name}, row 1: in a key {_HALF}", row=1)
        self._known = frozenset(first)

    def _checked(self, rows: list[Any], first_row: int) -> list[Mapping[str, Any]]:
        for i, row in enumerate(rows):
            if not isinstance(row, Mapping):
                found = type(row).__name__
                raise _not_allowed(self.name, first_row + i, f"found an element of type {found}, allowed is a dict")
            if not row.keys() <= self._known:
                key = next(key for key in row if key not in self._known)
                what = f"found the key {shown(str(key))}, allowed are those of row 1"
                raise _not_allowed(self.name, first_row + i, what)
        return rows

    def batches(self, kinds: Mapping[str, Kind], limit: int, progress: Progress) -> Iterator[Any]:
        pa = self._arrow
        row = 1
        for rows in self._rows.chunks(min(limit, DICT_ROWS, batch_rows(len(kinds)))):
            self._checked(rows, row)
            columns = []
            for name, kind in kinds.items():
                cells = [r.get(name) for r in rows]
                if kind == "number":
                    column = pa.array([self._number(c, name, row + i) for i, c in enumerate(cells)], pa.float64())
                else:
                    texts = [self._text(c, name, row + i) for i, c in enumerate(cells)]
                    column = self._strings(texts, name, row).dictionary_encode()
                columns.append(column)
            row += len(rows)
            if self.n_rows:
                progress((row - 1) / self.n_rows)
            yield pa.RecordBatch.from_arrays(columns, names=list(kinds))

    def _number(self, cell: Any, name: str, row: int) -> float | None:
        if cell is None:
            return None
        if isinstance(cell, str):
            written = self.written or Written()
            try:
                return written.number(cell)
            except ValueError:
                raise self.bad_cell(row, name, written.refusal(cell)) from None
        if isinstance(cell, numbers.Integral) and abs(int(cell)) > EXACT:
            what = f"found {cell}, allowed are integers up to 2^53, which a double holds exactly"
            raise self.bad_cell(row, name, what)
        if isinstance(cell, (numbers.Real, np.bool_, Decimal)):
            return float(cell)
        raise self.bad_cell(row, name, f"found {_described(cell)}, allowed is a number")

    def _text(self, cell: Any, name: str, row: int) -> str | None:
        if cell is None or isinstance(cell, str):
            return cell
        if isinstance(cell, (bool, np.bool_)):
            return "true" if cell else "false"
        if isinstance(cell, numbers.Integral):
            return str(int(cell))
        if isinstance(cell, numbers.Real):
            return None if math.isnan(cell) else repr(float(cell))
        raise self.bad_cell(row, name, f"found {_described(cell)}, allowed is text or a number")

    def _strings(self, texts: list[str | None], name: str, first_row: int) -> Any:
        try:
            return self._arrow.array(texts, self._arrow.string())
        except UnicodeEncodeError:
            at = next(i for i, text in enumerate(texts) if text is not None and not _is_text(text))
            raise self.bad_cell(first_row + at, name, _HALF) from None

    def count(self) -> int:
        return self.n_rows or 0

    def sample(self, rows: int) -> Any:
        found = self._checked(next(self._rows.chunks(rows)), 1)
        columns = {}
        for name in self.names:
            cells = [row.get(name) for row in found]
            try:
                columns[name] = self._arrow.array(cells)
            except (self._arrow.ArrowException, OverflowError, UnicodeEncodeError):
                columns[name] = self._strings([self._text(c, name, 1 + i) for i, c in enumerate(cells)], name, 1)
        return self._arrow.table(columns)


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _described(cell: Any) -> str:
    return shown(cell) if isinstance(cell, str) else f"a value of type {type(cell).__name__}"
