"""Frames of other libraries through Arrow's C interface, and rows that are dicts."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import chain, islice
from typing import Any

import numpy as np
import numpy.typing as npt

from .._values import number_of, real
from .._values import shown as shown_value
from ..errors import InvalidParameter, StreamError
from .arrays import target_vector
from .arrow import EXACT, TypedColumns, batch_rows, cut
from .base import PAUSE, Facts, Piece, Progress, Reader, Source, Targets, arrow, plainly
from .columns import Columns, Kind
from .files import shown
from .queues import QueueRows
from .written import Written

__all__ = [
    "ArrayColumns",
    "DictColumns",
    "FrameColumns",
    "FramePair",
    "HashedSource",
    "is_frame",
    "text_of_cell",
]

# Dicts turned into rows at once.
DICT_ROWS = 8192
_DOUBLES = frozenset({float, type(None)})  # of cells that need no text
_NAMED = 8  # keys that a message names
_HALF = "found half of a surrogate pair, allowed is text"


def is_frame(data: Any) -> bool:
    """Whether an object is a table of named columns that Arrow can read: of pandas, polars, pyarrow, duckdb, ..."""
    return hasattr(data, "__arrow_c_stream__") or _is_pandas(data)


def _is_pandas(data: Any) -> bool:
    # By name: pandas is no dependency, and older ones do not know Arrow's interface.
    return type(data).__module__.split(".")[0] == "pandas" and hasattr(data, "columns")


class FrameColumns(TypedColumns):
    """A frame, or a reader of one.

    An object with a length is a frame and can be read again; any other is a reader and can be read once.

    Parameters
    ----------
    data : object with ``__arrow_c_stream__``, or pandas.DataFrame
    names : sequence of str, optional
        Names for the columns, whatever the frame calls them.
    held : bool
        Whether the frame is asked for its rows only once: another time it might return others, or another order.
    """

    def __init__(self, data: Any, names: Sequence[str] | None = None, *, held: bool = False) -> None:
        pa = self._arrow = arrow("frames")
        name = f"{type(data).__module__.split('.')[0]} {type(data).__name__}"
        self._cells: dict[str, list[Any]] = {}
        if _is_pandas(data):
            if names is not None:
                data = data.set_axis(list(names), axis=1)
            data, self._cells = _from_pandas(pa, data, name)
        elif names is not None or held:
            data = _reader(pa, data, name).read_all()
            data = data if names is None else data.rename_columns(list(names))
        again = hasattr(data, "__len__")
        n_rows = len(data) if again else None
        if n_rows == 0:
            raise StreamError(f"{name}: no rows, at least one is needed")
        self._open: Callable[[], Any] = lambda: pa.RecordBatchReader.from_stream(data)
        reader = _reader(pa, data, name)
        facts = Facts(name=name, n_rows=n_rows, repeatable=again, sized=again, ahead=again)
        super().__init__(facts, reader.schema)
        if again:
            del reader
        else:
            self._open = lambda: reader

    @property
    def loose(self) -> bool:
        """Whether there are columns of objects, in which any cell may be one that is not allowed."""
        return bool(self._cells)

    def _converted(self, column: Any, name: str, kind: Kind, row: int) -> Any:
        if name not in self._cells:
            return super()._converted(column, name, kind, row)
        pa, cells = self._arrow, self._cells[name][row - 1 : row - 1 + len(column)]
        if kind == "number":
            return pa.array([_number(self, c, name, row + i, self.written) for i, c in enumerate(cells)], pa.float64())
        texts = [_text(self, c, name, row + i) for i, c in enumerate(cells)]
        return _strings(self, texts, name, row).dictionary_encode()

    def sample(self, rows: int) -> Any:
        table = super().sample(rows)
        for name, cells in self._cells.items():
            table = table.set_column(self.names.index(name), name, _shown_cells(self, cells[: len(table)], name))
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
            if self.facts.n_rows:
                progress(min((row - 1) / self.facts.n_rows, 1.0))
            yield from cut(batch.select(list(kinds)), len(kinds))

    def count(self) -> int:
        return self.facts.n_rows or 0


class ArrayColumns(FrameColumns):
    """The columns of a 2-d array; each cell of an array of objects is read by itself.

    Parameters
    ----------
    X : ndarray of shape (n, columns)
        Of numbers, text or objects.
    names : sequence of str, optional
        Default: x0, x1, ...
    """

    def __init__(self, X: npt.NDArray[Any], names: Sequence[str] | None = None) -> None:
        pa = arrow("arrays as columns")
        objects = X.dtype == object
        names = [f"x{j}" for j in range(X.shape[1])] if names is None else names
        columns = {name: pa.nulls(len(X)) if objects else X[:, j] for j, name in enumerate(names)}
        super().__init__(pa.table(columns))
        self.facts = replace(self.facts, name="array")
        if objects:
            self._cells = {name: [_present(cell) for cell in X[:, j].tolist()] for j, name in enumerate(names)}


class FramePair(Reader):
    """(X, y) of a frame of features and a sequence of targets."""

    def __init__(self, frame: Any, y: Any) -> None:
        self.columns = FrameColumns(frame)
        self.facts = self.columns.facts
        if self.facts.n_rows is None:
            raise InvalidParameter(f"X of (X, y) must have a length, found a reader ({self.name})")
        self.y = target_vector(y, self.facts.n_rows, self.name)

    def count(self) -> int:
        return self.columns.count()


def _reader(pa: Any, data: Any, name: str) -> Any:
    try:
        return pa.RecordBatchReader.from_stream(data)
    except (pa.ArrowException, TypeError, ValueError) as err:
        raise StreamError(f"{name}: cannot be read as Arrow data: {plainly(err)}") from err


def _from_pandas(pa: Any, frame: Any, name: str) -> tuple[Any, dict[str, list[Any]]]:
    """Return a frame as a table, once for all passes, and the cells of its object columns.

    Object columns have no type, and one type would have to be inferred from all cells at once. They are nulls in the
    table, and each of their cells is read by itself when it is asked for.
    """
    kept, cells = frame, {}
    for j, dtype in enumerate(frame.dtypes):
        if dtype == "object":
            kept = frame.copy(deep=False) if kept is frame else kept
            cells[str(frame.columns[j])] = [_present(cell) for cell in frame.iloc[:, j].tolist()]
            kept.isetitem(j, [None] * len(frame))
    try:
        return pa.Table.from_pandas(kept, preserve_index=False), cells
    except (pa.ArrowException, TypeError, ValueError) as err:
        # pyarrow names the column in a second message
        raise StreamError(f"{name}: {'; '.join(str(part) for part in err.args)[:300]}") from err


class _Rows:
    """An iterable whose first element has been inspected. A sequence can be read again.

    Rows of a queue are passed on as they come: one is waited for, and those behind it are taken that are there.
    """

    def __init__(self, first: Any, rest: Iterator[Any], rows: Iterable[Any]) -> None:
        self.n_rows = len(rows) if isinstance(rows, Sequence) else None
        self._again = rows if isinstance(rows, Sequence) else None
        self._once = rest if first is None else chain([first], rest)
        self._queue = rest if isinstance(rest, QueueRows) else None

    def facts(self, *inferred: str) -> Facts:
        again = self.n_rows is not None
        return Facts(
            name="dict rows",
            n_rows=self.n_rows,
            repeatable=again,
            sized=again,
            ahead=False,
            inferred=inferred,
            conditions=() if self._queue is None else self._queue.conditions,
        )

    def chunks(self, size: int) -> Iterator[list[Any]]:
        """Yield the rows, at most so many at once; none where the input pauses."""
        rows = self._once if self._again is None else iter(self._again)
        if self._queue is None:
            while chunk := list(islice(rows, size)):
                yield chunk
            return
        while True:
            try:
                row = next(rows)
            except StopIteration:
                return
            except BaseException:
                yield []  # the rows before it do not wait for others
                raise
            more = self._queue.ready(size - 1)
            yield [row, *more]
            if len(more) < size - 1:
                yield []


def _not_allowed(name: str, row: int, what: str) -> StreamError:
    return StreamError(f"{name}, row {row}: {what}", row=row)


class HashedSource(Source):
    """Pairs (dict of features, target), the features hashed to columns by scikit-learn's FeatureHasher.

    A text value becomes the feature "key=value" with the value 1, a number the feature "key" with that value, each with
    a sign that depends on the feature. None is a missing value and reads as NaN.
    """

    sparse = True

    def __init__(self, first: Any, rest: Iterator[Any], pairs: Iterable[Any], labels: Targets, n_features: int) -> None:
        self.n_features = n_features
        from sklearn.feature_extraction import FeatureHasher  # loads most of SciPy, which no other rows need

        self._rows = _Rows(first, rest, pairs)
        self._labels = labels
        self.facts = self._rows.facts()
        self._hasher = FeatureHasher(n_features=n_features, input_type="dict", dtype=np.float64, alternate_sign=True)
        self._unsorted = _unsorted(self._hasher)
        self._targets = isinstance(first, tuple) and first[1] is not None

    def pieces(self, limit: int, progress: Progress) -> Iterator[Piece]:
        row = 1
        for pairs in self._rows.chunks(min(limit, DICT_ROWS)):
            if not pairs:
                yield PAUSE
                continue
            features = [self._features(pair, row + i) for i, pair in enumerate(pairs)]
            try:
                X = self._hasher.transform([*features, self._unsorted])[:-1]
            except UnicodeEncodeError:
                at = next(i for i, found in enumerate(features) if not all(map(_is_text, _texts_of(found))))
                raise _not_allowed(self.name, row + at, f"in a key or its value {_HALF}") from None
            y = None
            if self._targets:
                cells = np.fromiter((pair[1] for pair in pairs), dtype=object, count=len(pairs))
                y = self._labels.encode(cells, row, f"{self.name}, target")
            row += len(pairs)
            if self.facts.n_rows:
                progress((row - 1) / self.facts.n_rows)
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
            found[key] = value if isinstance(value, str) else real(value)
        return found


def _unsorted(hasher: Any) -> dict[str, float]:
    """Return a row whose features are not in the order of their places, if there are at least two places.

    The hasher sorts all rows of a call, or none if all are in order already. Where three features of a row share a
    place, sorting can change the order in which they are added, and so their sum. With this row it always sorts.
    """
    keys = [str(i) for i in range(64)]
    places = hasher.transform([{key: 1.0} for key in keys]).indices
    return {keys[int(places.argmax())]: 1.0, keys[int(places.argmin())]: 1.0}


def _texts_of(features: Mapping[str, Any]) -> list[str]:
    return [*features, *(value for value in features.values() if isinstance(value, str))]


class DictColumns(Columns):
    """Dicts whose keys are the columns, for a schema.

    The columns are the keys of the first row, or ``names``. A key that is missing, or whose value is None or blank, is
    a missing cell; a key that is none of them is an error. Read as text, values are as in :class:`TypedColumns`.
    """

    def __init__(
        self,
        first: Mapping[Any, Any] | None,
        rest: Iterator[Any],
        rows: Iterable[Any],
        names: Sequence[str] | None = None,
    ) -> None:
        self._arrow = arrow("dict rows with a schema")
        self._rows = _Rows(first, rest, rows)
        self.facts = self._rows.facts("columns")
        first = first or dict.fromkeys(names or ())
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
                allowed = ", ".join(map(repr, self.names[:_NAMED])) + (", ..." if len(self.names) > _NAMED else "")
                what = f"found the key {shown(str(key))}, allowed are {allowed}"
                raise _not_allowed(self.name, first_row + i, what)
        return rows

    def batches(self, kinds: Mapping[str, Kind], limit: int, progress: Progress) -> Iterator[Any]:
        pa = self._arrow
        # if the decimal mark is not a point, the text of a missing cell may not be a number of a numeric column
        by_value = self.written is None or self.written.decimal == "."
        row = 1
        for rows in self._rows.chunks(min(limit, DICT_ROWS, batch_rows(len(kinds)))):
            if not rows:
                yield None
                continue
            self._checked(rows, row)
            columns = []
            for name, kind in kinds.items():
                cells = [r.get(name) for r in rows]
                doubles = _DOUBLES.issuperset(map(type, cells))
                if doubles and (kind == "number" or (kind == "cells" and by_value)):
                    column = pa.array(cells, pa.float64())
                elif kind == "number":
                    written = self.written or Written()
                    found = [_number(self, c, name, row + i, written) for i, c in enumerate(cells)]
                    column = pa.array(found, pa.float64())
                else:
                    texts = [_text(self, c, name, row + i) for i, c in enumerate(cells)]
                    column = _strings(self, texts, name, row).dictionary_encode()
                columns.append(column)
            row += len(rows)
            if self.facts.n_rows:
                progress((row - 1) / self.facts.n_rows)
            yield pa.RecordBatch.from_arrays(columns, names=list(kinds))

    def count(self) -> int:
        return self.facts.n_rows or 0

    def sample(self, rows: int) -> Any:
        found = self._checked(next(self._rows.chunks(rows)), 1)
        columns = {name: _shown_cells(self, [row.get(name) for row in found], name) for name in self.names}
        return self._arrow.table(columns)


# ---- cells that are Python objects, each read by itself ---------------------------------------------


def _present(cell: Any) -> Any:
    """Return the cell, or None for the marks of a missing value in pandas."""
    return None if type(cell).__name__ in ("NAType", "NaTType") else cell


def _number(columns: Columns, cell: Any, name: str, row: int, written: Written | None) -> float | None:
    if cell is None or type(cell) is float:
        return cell
    if isinstance(cell, str) and written is not None:
        try:
            return written.number(cell)
        except ValueError:
            raise columns.bad_cell(row, name, written.refusal(cell)) from None
    if isinstance(cell, numbers.Integral) and abs(int(cell)) > EXACT:
        what = f"found {shown_value(cell)}, allowed are integers up to 2^53, which a double holds exactly"
        raise columns.bad_cell(row, name, what)
    if isinstance(cell, (numbers.Real, np.bool_, Decimal)):
        try:
            return number_of(cell)
        except Exception:  # a signalling NaN, a type of the caller's own
            pass
    raise columns.bad_cell(row, name, f"found {_described(cell)}, allowed is a number")


def _text(columns: Columns, cell: Any, name: str, row: int) -> str | None:
    if cell is None or isinstance(cell, str):
        return cell
    try:
        return text_of_cell(cell)
    except TypeError:
        what = f"found {_described(cell)}, allowed is text, a number, a date or a time"
        raise columns.bad_cell(row, name, what) from None


def text_of_cell(cell: Any) -> str | None:
    """Return the text of a cell of any type; None where it is missing.

    Raises
    ------
    TypeError
        If it is neither text nor a number, a date or a time.
    """
    if type(cell) is float:  # first, because asking what else it is takes longer than all the rest
        return None if math.isnan(cell) else repr(cell)
    if cell is None or isinstance(cell, str):
        return cell
    if isinstance(cell, (bool, np.bool_)):
        return "true" if cell else "false"
    if isinstance(cell, numbers.Integral) and abs(int(cell)) < 10**400:
        return str(int(cell))
    if isinstance(cell, numbers.Real) and not isinstance(cell, numbers.Integral):
        number = real(cell)
        return None if math.isnan(number) else repr(number)
    if isinstance(cell, Decimal):
        return None if cell.is_nan() else str(cell)
    if isinstance(cell, (date, time)):
        return _time_text(cell)
    raise TypeError(f"found {_described(cell)}, allowed is text, a number, a date or a time")


def _time_text(cell: date | time) -> str | None:
    """Return a date or time as typed columns write it; None for the mark of a missing one in pandas."""
    if _present(cell) is None:
        return None
    if not isinstance(cell, datetime):
        return cell.isoformat()
    if cell.tzinfo is None:
        return cell.isoformat(" ")
    try:
        return cell.astimezone(UTC).replace(tzinfo=None).isoformat(" ") + "Z"
    except OverflowError:  # in UTC it lies before the first year or after the last
        return cell.isoformat(" ")


def _strings(columns: Columns, texts: list[str | None], name: str, first_row: int) -> Any:
    pa = arrow("columns of objects")
    try:
        return pa.array(texts, pa.string())
    except UnicodeEncodeError:
        at = next(i for i, text in enumerate(texts) if text is not None and not _is_text(text))
        raise columns.bad_cell(first_row + at, name, _HALF) from None


def _shown_cells(columns: Columns, cells: list[Any], name: str) -> Any:
    """Return the first cells of a column as an array of the type they show."""
    pa = arrow("columns of objects")
    try:
        return pa.array(cells)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        return _strings(columns, [_text(columns, cell, name, 1 + i) for i, cell in enumerate(cells)], name, 1)


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _described(cell: Any) -> str:
    return shown(cell) if isinstance(cell, str) else f"a value of type {type(cell).__name__}"
