"""The values that Python's containers hold, each read by itself: no value changes how another is read.

NumPy finds one type for all values of a container: a single text beside numbers turns all of them into texts, and one
NaN beside integers turns all of them into doubles, which cannot hold every integer above 2^53. Replacing one row would
so move the rows around it. Here a value is what it is alone. A value that is not a number, or an element that is not a
row, concerns that row only. Arrays of a declared numeric type are taken as they are, at no cost per row. A masked value
is missing.
"""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .errors import InvalidCell, InvalidParameter, InvalidRow

__all__ = [
    "NUMBERS",
    "PLAIN",
    "Unread",
    "array_of",
    "block_of",
    "cells_of",
    "column_of",
    "frame_of_numbers",
    "labels_of",
    "listed",
    "number_of",
    "numbers_of",
    "real",
    "reals",
    "refusal",
    "row_of",
    "shown",
    "single",
    "single_row",
    "table_of",
    "targets_of",
    "unmasked",
]

FloatArray = NDArray[np.float64]

#: Kinds of NumPy's numeric types.
NUMBERS = "biuf"
_MOST_LABELS = 1 << 26  # bytes of all labels of a model
#: Types of labels.
_LABELS = re.compile(r"[<>=|]?(?:[biuf][1248]|[US]\d{1,9}|O)")
_CELLS = "OUST"  # kinds of types whose values are read one by one

# For these types NumPy's conversion to doubles treats each value alone, and each is its own hash.
PLAIN = frozenset(
    {
        bool, int, float, type(None), np.bool_, np.float16, np.float32, np.float64, np.int8, np.int16, np.int32,
        np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
    }
)  # fmt: skip


class Unread(NamedTuple):
    """The first row that holds anything but real numbers, or has another length."""

    row: int  # from 0
    column: int | None  # None: the whole row
    what: str  # what was found, and what is allowed


def shown(value: Any) -> str:
    """Return what a message shows of a value of any type."""
    try:
        text = repr(value)
    except Exception:
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."


def number_of(value: Any) -> float:
    """Return the real number that a value is or that its text states; NaN for a missing or masked value.

    Raises
    ------
    Exception
        Whatever a value that is not a real number raises: TypeError, ValueError, or an error of its own conversion.
    """
    if value is None:
        return math.nan
    if isinstance(value, np.ndarray):
        if isinstance(value, np.ma.MaskedArray) and value.ndim == 0 and np.ma.is_masked(value):
            return math.nan
        if value.ndim:
            raise TypeError("float() argument must be a string or a real number, not an array")
        value = value.item()
    if isinstance(value, complex | np.complexfloating):  # NumPy's conversion to float drops the imaginary part
        raise TypeError("float() argument must be a string or a real number, not a complex one")
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def real(value: Any) -> float:
    """Return the real number that a value is, NaN if it is not one."""
    if type(value) is float:
        return value
    try:
        return number_of(value)
    except Exception:
        return math.nan


def reals(values: Sequence[Any]) -> FloatArray:
    """Return the real numbers that values are, shape (n,), NaN for each that is not one."""
    if PLAIN.issuperset(map(type, values)):
        try:
            return np.array(values, dtype=np.float64)
        except OverflowError:  # an integer too large for a double
            pass
    return np.fromiter(map(real, values), dtype=np.float64, count=len(values))


def listed(values: Any) -> list[Any] | tuple[Any, ...] | None:
    """Return the values of a list, tuple or other sequence without an element type; None for anything else.

    A deque, such as one that keeps the last rows of a stream, is such a sequence. Text and buffers are not.
    """
    if isinstance(values, list | tuple):
        return values
    if not isinstance(values, Sequence) or isinstance(values, str | bytes | bytearray | memoryview | array):
        return None
    return None if hasattr(values, "__array__") else list(values)


def single(value: Any) -> Any:
    """Return the value itself, or the only element of a list, tuple or array: targets often come as a column."""
    kind = type(value)
    if kind is list or kind is tuple:
        return value[0] if len(value) == 1 else value
    if not issubclass(kind, np.ndarray) or value.size != 1:
        return value
    return None if np.ma.is_masked(value) else value.item()


def unmasked(values: Any) -> Any:
    """Return a masked array as an array with NaN or None in place of masked entries; anything else unchanged."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    if not np.ma.is_masked(values) or values.dtype.kind not in NUMBERS + _CELLS:
        return np.asarray(values)
    kept: type = object if values.dtype.kind in _CELLS else np.float64
    filled: NDArray[Any] = np.asarray(values.data).astype(np.float32 if values.dtype == np.float32 else kept)
    filled[np.ma.getmaskarray(values)] = None if kept is object else np.nan
    return filled


# ---- rows --------------------------------------------------------------------------------------


def _cells(row: Any) -> Sequence[Any] | NDArray[Any] | None:
    """The values of one row; None if it is not a row."""
    if type(row) is list or type(row) is tuple:
        return row
    try:
        if isinstance(row, np.ndarray):
            return unmasked(row) if row.ndim == 1 else None
        if isinstance(row, Sequence):
            return None if isinstance(row, str | bytes | bytearray) else list(row)
        if hasattr(row, "__array__"):
            found: NDArray[Any] = np.asarray(row)
            return found if found.ndim == 1 else None
    except Exception:  # a type of the caller's own, which may raise on any access
        pass
    return None


def _wanted(row: Any, cells: Any, width: int) -> str:
    found = shown(row) if cells is None else f"{len(cells)} values"
    return f"found {found}, allowed are {width} numbers"


def table_of(rows: Sequence[Any], width: int | None = None) -> tuple[NDArray[Any], dict[int, str]] | None:
    """Return the values of rows as a 2-d array, of numbers or of objects that are still to be read.

    Parameters
    ----------
    rows : list or tuple
        The elements may be lists, tuples, arrays, or anything else.
    width : int, optional
        Public number of values of a row. Default: the length that more than half of the rows have, which is taken as
        public. Whoever learns the rows says so in the guarantee, because one row decides it where barely more than half
        of the rows have that length.

    Returns
    -------
    values : ndarray of shape (n, width)
        Of float64 or object; elements that are not rows, or have another length, hold None.
    odd : dict
        What was found in those rows, by row number from 0.

    Returns None if there is no width and no element is a row: the elements have another shape.

    Raises
    ------
    InvalidParameter
        If no length is that of more than half of the rows.
    """
    cells = [_cells(row) for row in rows]
    if width is None:
        lengths = Counter(len(row) for row in cells if row is not None)
        if not lengths:
            return None
        (width, most), *others = lengths.most_common()
        if 2 * most <= len(rows):
            found = ", ".join(str(length) for length in sorted([width, *(length for length, _ in others)])[:5])
            raise InvalidParameter(
                "rows must have one number of values, which is public, or more than half of them if it was not "
                f"declared, found rows of {found} values"
                + (" and values that are no rows" if sum(lengths.values()) < len(rows) else "")
            )
    if all(row is not None and len(row) == width for row in cells) and all(map(_is_plain, cells)):
        try:
            return np.array(cells, dtype=np.float64).reshape(len(cells), width), {}
        except OverflowError:
            pass
    table = np.empty((len(cells), width), dtype=object)
    odd: dict[int, str] = {}
    for i, row in enumerate(cells):
        if row is None or len(row) != width:
            odd[i] = _wanted(rows[i], row, width)
        else:
            table[i] = np.fromiter(row.tolist() if isinstance(row, np.ndarray) else row, dtype=object, count=width)
    return table, odd


def cells_of(X: Any) -> Any:
    """Return the rows of a list as an array of objects, shape (n, width), in which each cell keeps its own type.

    NumPy would find one type for all cells of a list, so that a fraction in one row would turn the ``1`` of another
    into ``1.0``. A masked array becomes an array of objects too, whether or not anything in it is masked: otherwise one
    masked cell would turn all cells into doubles, and True into 1.0. Anything else comes back unchanged; so does a list
    whose elements are not rows of one length, which the caller's own check reports.
    """
    if isinstance(X, np.ma.MaskedArray) and X.dtype.kind in NUMBERS + _CELLS + "M":
        # times become Python's, which have microseconds
        plain = X.data.astype("M8[us]") if X.dtype.kind == "M" else X.data
        found: NDArray[Any] = np.asarray(plain).astype(object)
        found[np.ma.getmaskarray(X)] = None
        return found
    rows = listed(X)
    if rows is None:
        return X
    cells = [row for row in map(_cells, rows) if row is not None]
    widths = {len(row) for row in cells}
    width = max(widths, default=0)
    if len(cells) < len(rows) or len(widths) != 1 or not width:
        return X
    table: NDArray[Any] = np.empty((len(cells), width), dtype=object)
    for i, row in enumerate(cells):
        table[i] = np.fromiter(row.tolist() if isinstance(row, np.ndarray) else row, dtype=object, count=width)
    return table


def _is_plain(row: Any) -> bool:
    return row.dtype.type in PLAIN if isinstance(row, np.ndarray) else PLAIN.issuperset(map(type, row))


def numbers_of(X: Any, width: int | None = None) -> tuple[Any, Unread | None]:
    """Return rows as numbers, if they come in something without a declared numeric type: lists, objects, texts.

    Parameters
    ----------
    X : array-like
    width : int, optional
        Public number of values of a row; see :func:`table_of`.

    Returns
    -------
    Float64 with NaN for what is not a number. Arrays of numbers, matrices and frames, and whatever does not have the
    shape of rows, come back as given.
    unread : Unread or None
    """
    X = unmasked(X)
    odd: dict[int, str] = {}
    rows = listed(X)
    if rows is not None:
        found = table_of(rows, width)
        if found is None:
            return X, None
        X, odd = found
    if not isinstance(X, np.ndarray) or X.ndim != 2 or X.dtype.kind not in _CELLS:
        return X, None
    values = reals(X.ravel().tolist()).reshape(X.shape)
    unread = Unread(min(odd), None, odd[min(odd)]) if odd else None
    for i, j in np.argwhere(np.isnan(values)).tolist():
        if unread is not None and i >= unread.row:
            break
        words = _why(X[i, j])
        if words is not None:
            return values, Unread(i, j, words)
    return values, unread


def row_of(x: Any, width: int) -> tuple[FloatArray, Unread | None]:
    """Return one row as doubles, shape (width,): all NaN if it is not a row or has another length."""
    cells = _cells(x)
    if cells is None or len(cells) != width:
        return np.full(width, np.nan), Unread(0, None, _wanted(x, cells, width))
    if isinstance(cells, np.ndarray) and cells.dtype.kind in NUMBERS:
        return cells.astype(np.float64), None
    listed = list(cells.tolist() if isinstance(cells, np.ndarray) else cells)
    values = reals(listed)
    for j in np.flatnonzero(np.isnan(values)).tolist():
        words = _why(listed[j])
        if words is not None:
            return values, Unread(0, j, words)
    return values, None


def single_row(x: Any, width: int, *, learnt: int, refuse: bool) -> FloatArray:
    """Return one row as doubles; an array of numbers has a declared shape, which is checked elsewhere.

    Raises
    ------
    InvalidRow
        If it cannot be read and ``refuse`` is true; otherwise the result is all NaN. ``learnt`` counts the rows before
        it.
    """
    if isinstance(x, np.ndarray) and x.dtype.kind in NUMBERS:
        return np.asarray(unmasked(x), dtype=np.float64)
    row, unread = row_of(x, width)
    if unread is not None and refuse:
        raise refusal(unread, learnt)
    return row


def _why(value: Any) -> str | None:
    """The words of a message for a value that is not a number; None if it is a number or missing."""
    try:
        number_of(value)
    except Exception as error:
        reason = str(error) if isinstance(error, TypeError | ValueError) else type(error).__name__
        return f"found {shown(value)}, allowed are real numbers ({reason[:120]})"
    return None


def refusal(unread: Unread, learnt: int) -> InvalidRow:
    """Return the error about a row of a block, before which ``learnt`` rows were learnt."""
    place = "" if unread.column is None else f", feature {unread.column}"
    row = learnt + unread.row + 1
    return InvalidCell(
        f"row {row}{place}: {unread.what}; nothing of its block was learnt", row=row, column=unread.column
    )


def array_of(values: Any) -> FloatArray:
    """Return the numbers of an array-like of any shape, NaN for each value that is not a number."""
    if isinstance(values, np.ndarray) and values.dtype.kind in NUMBERS:
        return np.asarray(unmasked(values), dtype=np.float64)
    given: NDArray[Any] = np.array(unmasked(values), dtype=object)
    return reals(given.ravel().tolist()).reshape(given.shape)


# ---- columns -----------------------------------------------------------------------------------


def labels_of(values: Any, kind: Any) -> NDArray[Any]:
    """Return the labels of a record in the type that they had, by its name in NumPy.

    Raises
    ------
    ValueError, TypeError
        If it is no type of labels, or a value is none. NumPy would parse more than these, and fail in other ways.
    """
    if not _LABELS.fullmatch(kind):
        raise ValueError(f"labels of type {kind!r}")
    if not all(isinstance(value, str | int | float | bool) for value in values):
        raise ValueError("labels that are no texts, numbers or booleans")
    if len(values) * np.dtype(kind).itemsize > _MOST_LABELS:  # a few letters may state gigabytes
        raise ValueError(f"{len(values)} labels of type {kind!r}")
    return np.array(values, dtype=np.dtype(kind))


def column_of(y: Any) -> Any:
    """Return targets: an array of a declared type unchanged, anything else as an array of objects, one for each target.

    What has no length, or has two or more dimensions, comes back unchanged.
    """
    if isinstance(y, np.ndarray):
        return unmasked(y)
    values = listed(y)
    if values is None:
        values = _of_library(y)
    return y if values is None else np.fromiter(values, dtype=object, count=len(values))


def targets_of(y: Any) -> FloatArray:
    """Return targets as doubles, NaN for what is not a number; those of a declared numeric type unchanged."""
    given: NDArray[Any] = np.asarray(column_of(y))
    if given.dtype.kind in NUMBERS:
        return given.astype(np.float64)
    return reals(list(map(single, given.tolist())))


def block_of(block: Any) -> tuple[Any, Any]:
    """Return rows and targets of a block of a caller's own stream as numbers; targets of None stay None."""
    return numbers_of(block.X)[0], None if block.y is None else targets_of(block.y)


def _of_library(y: Any) -> list[Any] | None:
    """The values of a library's column; None if NumPy reads them as they are, or if it is not a column."""
    if len(getattr(y, "shape", ())) == 2:  # a frame of one column
        if y.shape[1] != 1:
            return None
        for name, key in (("to_series", 0), ("column", 0)):
            if callable(getattr(y, name, None)):
                y = getattr(y, name)(key)
                break
        else:
            if not hasattr(y, "iloc"):
                return None
            y = y.iloc[:, 0]
    declared = getattr(y, "dtype", None)
    if isinstance(declared, np.dtype) and declared.kind != "O":
        return None
    for name in ("to_pylist", "to_list", "tolist"):  # of pyarrow; of polars and pandas; of others
        if callable(getattr(y, name, None)):
            found = getattr(y, name)()
            return found if isinstance(found, list) else None
    return None


def frame_of_numbers(X: Any) -> Any:
    """Return a frame with its columns of objects or texts as doubles, NaN for what is not a number.

    It may be a frame of pandas, polars or pyarrow, recognised by its methods; anything else comes back unchanged.
    """
    if hasattr(X, "isetitem"):  # pandas
        found = X
        for j, dtype in enumerate(X.dtypes):
            if getattr(dtype, "kind", "O") in _CELLS:
                found = X.copy(deep=False) if found is X else found
                found.isetitem(j, reals(X.iloc[:, j].tolist()))
        return found
    if hasattr(X, "get_columns"):  # polars
        kept = [column for column in X.get_columns() if not _declares_numbers(column)]
        return X.with_columns([type(c)(c.name, reals(c.to_list())) for c in kept]) if kept else X
    if hasattr(X, "set_column") and hasattr(X, "schema"):  # pyarrow
        for j, field in enumerate(X.schema):
            if str(field.type) in ("string", "large_string", "string_view", "null"):
                X = X.set_column(j, field.name, [reals(X.column(j).to_pylist())])
        return X
    return X


def _declares_numbers(column: Any) -> bool:
    return bool(column.dtype.is_numeric()) or str(column.dtype) == "Boolean"
