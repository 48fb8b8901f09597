"""Rows in the form a caller has them: columns of a frame, an array or dicts, with a target beside them."""

from __future__ import annotations

import math
import numbers
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date, time
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import column_or_1d

from .._values import NUMBERS, PLAIN, column_of, real, shown, single, targets_of
from ..encoding.labels import label_key, label_text
from ..encoding.learning import MISSING_TEXTS
from ..errors import InvalidParameter, InvalidRow
from ..readers.base import Progress, arrow
from ..readers.columns import Batch, Columns, ColumnsAround, Kind, blanked
from ..readers.frames import ArrayColumns, DictColumns, FrameColumns, is_frame

__all__ = [
    "Blanked",
    "LabelType",
    "Labelled",
    "columns_of",
    "dict_columns",
    "read_labels",
    "read_numbers",
    "target_name",
    "unreadable",
    "without",
]

FloatArray = NDArray[np.float64]
_OWN_HASH = PLAIN | {str}
_READABLE = str | bool | np.bool_ | numbers.Real | Decimal | date | time | None


# ---- features ------------------------------------------------------------------------------------------


def columns_of(X: Any, names: Sequence[str] | None = None) -> Columns:
    """Return the columns of a frame or of a 2-d array; ``names`` are the names to use.

    Raises
    ------
    StreamError, InvalidParameter
        If it cannot be read as columns.
    """
    if is_frame(X):
        return FrameColumns(X, names, held=True)  # the number of a row decides whether it teaches or is learnt
    return ArrayColumns(X, names)


def dict_columns(rows: Sequence[Any], names: Sequence[str]) -> Columns:
    """Return dicts as columns with these names; an absent key is a missing cell."""
    template = dict.fromkeys(names)
    return DictColumns(template, iter(()), rows)


def unreadable(X: Any, names: Collection[str] = ()) -> NDArray[np.bool_]:
    """Return which rows of an array, a pandas frame or a list of dicts cannot be read.

    Such a row has a cell that is not a number, text, date or time, or is not a dict of columns with these ``names``.
    """
    if isinstance(X, list):
        return np.fromiter((not _is_row(row, names) for row in X), dtype=bool, count=len(X))
    found = np.zeros(len(X), dtype=bool)
    columns: list[Any] = []
    if isinstance(X, np.ndarray):
        columns = [X[:, j] for j in range(X.shape[1])] if X.dtype == object else []
    elif hasattr(X, "iloc"):
        columns = [X.iloc[:, j] for j, dtype in enumerate(X.dtypes) if dtype == "object"]
    for column in columns:
        found |= np.fromiter((not _readable(cell) for cell in column.tolist()), dtype=bool, count=len(found))
    return found


def _is_row(row: Any, names: Collection[str]) -> bool:
    return isinstance(row, Mapping) and all(key in names and _readable(cell) for key, cell in row.items())


def _readable(cell: Any) -> bool:
    if isinstance(cell, str):
        try:
            str.encode(cell)
        except UnicodeEncodeError:
            return False
        return True
    if isinstance(cell, np.timedelta64):  # NumPy counts it among the integers
        return False
    if isinstance(cell, numbers.Integral):
        return abs(int(cell)) < 10**400
    return isinstance(cell, _READABLE) or type(cell).__name__ in ("NAType", "NaTType")


def without(X: Any, rows: NDArray[np.bool_]) -> Any:
    """Return an array, a pandas frame or dicts without the untyped cells of these rows, which may be unreadable.

    Typed columns keep their type and all their cells; :class:`Blanked` leaves out those of these rows.
    """
    if isinstance(X, list):
        return [{} if gone else row for row, gone in zip(X, rows.tolist(), strict=True)]
    if isinstance(X, np.ndarray):
        X = X.copy()
        X[rows] = None
        return X
    kept = X.copy(deep=False)
    for j, dtype in enumerate(X.dtypes):
        if dtype == "object":
            kept.isetitem(j, X.iloc[:, j].mask(rows))
    return kept


def target_name(names: Sequence[str]) -> str:
    """Return a name that no column has."""
    name = "target"
    while name in names:
        name += "_"
    return name


def count_of(X: Any) -> int:
    """Return the number of rows of an array, a frame or a sequence."""
    shape = getattr(X, "shape", None)
    if not hasattr(X, "__len__") and not shape:
        raise InvalidParameter(f"X must have a length, found a {type(X).__name__}")
    return int(shape[0]) if shape else len(X)


class Blanked(ColumnsAround):
    """Columns in which some rows have no cells; the others are read as if those rows did not exist.

    Parameters
    ----------
    columns : Columns
    rows : ndarray of bool, shape (n,)
    """

    def __init__(self, columns: Columns, rows: NDArray[np.bool_]) -> None:
        super().__init__(columns)
        self._rows = rows

    def batches(self, kinds: Mapping[str, Kind], limit: int, progress: Progress) -> Iterator[Batch]:
        pa = arrow("null rows")
        row = 0
        for batch in self._columns.batches(kinds, limit, progress):
            gone = self._rows[row : row + batch.num_rows]
            row += batch.num_rows
            if gone.any():
                columns = [blanked(column, gone) for column in batch.columns]
                batch = pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
            yield batch


class Labelled(ColumnsAround):
    """Columns with a target beside them.

    Parameters
    ----------
    columns : Columns
        Their length must be known.
    name : str
        The name of the target, which no column has.
    target : pyarrow array
        Numbers, or a dictionary of strings with int32 indices; null where missing.
    as_text : bool
        Whether the target is text in the input itself.
    """

    def __init__(self, columns: Columns, name: str, target: Any, as_text: bool) -> None:
        super().__init__(columns)
        self._name, self._target, self._as_text = name, target, as_text
        self.names = (*columns.names, name)

    def check(self, kinds: Mapping[str, Kind]) -> None:
        self._columns.check(self._own(kinds))

    def only_text(self, name: str) -> bool:
        return self._as_text if name == self._name else self._columns.only_text(name)

    def floats(self, name: str) -> bool:
        return name != self._name and self._columns.floats(name)

    def batches(self, kinds: Mapping[str, Kind], limit: int, progress: Progress) -> Iterator[Batch]:
        pa = arrow("frames")
        target = self._cells(kinds.get(self._name))
        row = 0
        for batch in self._columns.batches(self._own(kinds), limit, progress):
            columns = dict(zip(batch.schema.names, batch.columns, strict=True))
            if target is not None:
                columns[self._name] = target.slice(row, batch.num_rows)
            row += batch.num_rows
            yield pa.RecordBatch.from_arrays([columns[name] for name in kinds], names=list(kinds))

    def target_batch(self, kind: Kind) -> Batch:
        """Return only the targets, as values of the given kind."""
        return arrow("targets").RecordBatch.from_arrays([self._cells(kind)], names=[self._name])

    def _cells(self, kind: Kind | None) -> Any:
        """The target as the given kind: numbers become the shortest texts that read back as the same numbers."""
        pa = arrow("frames")
        target = self._target
        if kind == "text" and pa.types.is_floating(target.type):
            texts = [None if x is None else repr(x) for x in target.to_pylist()]
            return pa.array(texts, pa.string()).dictionary_encode()
        return None if kind is None else target

    def _own(self, kinds: Mapping[str, Kind]) -> dict[str, Kind]:
        return {name: kind for name, kind in kinds.items() if name != self._name}

    def sample(self, rows: int) -> Any:
        return self._columns.sample(rows).append_column(self._name, [self._target.slice(0, rows)])


# ---- targets -------------------------------------------------------------------------------------------


def read_numbers(y: Any, refuse: bool, learnt: int) -> Any:
    """Return real targets as a pyarrow array of doubles, null for each that is not finite.

    Parameters
    ----------
    y : array-like of shape (n,)
    refuse : bool
        Whether a target that is not finite is an error.
    learnt : int
        Number of rows before these, for the message.

    Raises
    ------
    InvalidRow
        The message names the row.
    """
    given = column_or_1d(column_of(y), warn=True)
    found = targets_of(given)
    bad = np.flatnonzero(~np.isfinite(found))
    if bad.size and refuse:
        raise _bad_target(given[bad[0]], "finite numbers (NaN and infinity are not)", learnt + int(bad[0]) + 1)
    return arrow("targets").array(found, mask=~np.isfinite(found))


class LabelType:
    """The type of the labels, as far as the blocks so far have shown it: public, as the types of columns are.

    Attributes
    ----------
    kind : {"truth values", "numbers", "text", "any"} or None
        "any": there is no declared type, and no label is refused. Each label is then read by itself, and the form in
        which labels are shown follows from those learnt: the first label must not decide how others are read.
    dtype : dtype
        Type of the labels that are shown.
    """

    def __init__(self) -> None:
        self.kind: str | None = None
        self.dtype: np.dtype[Any] = np.dtype(object)

    @classmethod
    def of(cls, texts: Sequence[Any]) -> LabelType:
        """Return the label type for a file: whole numbers if all labels are, otherwise text."""
        told, keys = cls(), [label_key(text) for text in texts]
        whole = all(isinstance(key, float) and key.is_integer() and abs(key) < 2**53 for key in keys)
        told.kind, told.dtype = ("numbers", np.dtype(np.int64)) if whole else ("text", np.dtype(str))
        return told

    def see(self, labels: NDArray[Any], refuse: bool) -> None:
        """Take the type from the first block with labels: the declared one, or, if others are refused, its first."""
        if self.kind is not None:
            return
        if labels.dtype.kind != "O":
            self.kind = {"b": "truth values", "U": "text"}.get(labels.dtype.kind, "numbers")
            self.dtype = np.dtype(str) if self.kind == "text" else labels.dtype
            return
        if not refuse:
            self.kind = "any"
            return
        self.kind = next((kind for kind in map(kind_of, map(single, labels.tolist())) if kind is not None), None)
        # by the kind alone: 1 and 1.0 are one label, whichever comes first
        shown_as: dict[str | None, type] = {"truth values": bool, "numbers": np.int64}
        self.dtype = np.dtype(shown_as.get(self.kind, object))

    def shown(self, texts: Sequence[str]) -> NDArray[Any]:
        """Return labels that were learnt as texts in the form in which they were given."""
        if self.kind == "any":
            return LabelType.of(texts).shown(texts)
        if self.kind in (None, "text"):
            return np.array(texts, dtype=object if self.dtype.kind == "O" else None)
        numbers_ = np.array([float(text) for text in texts])
        return numbers_.astype(self.dtype)


def kind_of(cell: Any) -> str | None:
    """Return the kind of a label; None if it is missing or not a label."""
    if isinstance(cell, bool | np.bool_):
        return "truth values"
    if isinstance(cell, str):
        return "text" if _readable(cell) else None
    return "numbers" if isinstance(cell, numbers.Real) and not math.isnan(real(cell)) else None


def read_labels(
    y: Any,
    told: LabelType,
    declared: Sequence[Any] | None,
    *,
    refuse: bool,
    learnt: int,
    missing: Collection[str] = MISSING_TEXTS,
) -> Any:
    """Return labels as a dictionary of texts, null for each that is missing or not a label.

    Parameters
    ----------
    y : array-like of shape (n,)
    told : LabelType
        Type of the labels so far.
    declared : sequence of labels, optional
        Any other value is not a label. Default: labels are learnt.
    refuse : bool
        Whether a value that is missing or not a label is an error.
    learnt : int
        Number of rows before these, for the message.
    missing : collection of str
        Texts that stand for a missing label.

    Raises
    ------
    InvalidRow
        The message names the row.
    """
    pa = arrow("labels")
    given = column_or_1d(column_of(y), warn=True)
    if given.dtype.kind not in NUMBERS + "UO":
        raise InvalidParameter(f"y must hold labels (text, numbers, truth values), found dtype {given.dtype}")
    told.see(given, refuse)
    cells, rows = _distinct(given)
    known = None if declared is None else {label_key(label) for label in declared}
    texts, wrong = [], np.zeros(len(cells), dtype=bool)
    reasons: dict[int, str] = {}
    for i, cell in enumerate(cells):
        text, why = _label(cell, told, known, declared, missing)
        texts.append(text)
        if why is not None:
            wrong[i], reasons[i] = True, why
    if refuse and wrong.any():
        bad = np.flatnonzero(wrong[rows])
        if bad.size:
            at = int(bad[0])
            raise _bad_target(cells[rows[at]], reasons[int(rows[at])], learnt + at + 1)
    return pa.DictionaryArray.from_arrays(pa.array(rows.astype(np.int32)), pa.array(texts, pa.string()))


def _distinct(given: NDArray[Any]) -> tuple[list[Any], NDArray[Any]]:
    """Return the distinct targets, each read by itself, and which of them each row has."""
    if given.dtype.kind != "O":
        values, rows = np.unique(given, return_inverse=True)
        return values.tolist(), rows
    found: dict[Any, int] = {}
    cells: list[Any] = []
    rows = np.empty(len(given), dtype=np.int64)
    for i, cell in enumerate(map(single, given.tolist())):
        # an object of the caller's own type may equal anything, or have no hash
        key = (type(cell), cell if type(cell) in _OWN_HASH else id(cell))
        rows[i] = found.setdefault(key, len(cells))
        if rows[i] == len(cells):
            cells.append(cell)
    return cells, rows


def _label(
    cell: Any, told: LabelType, known: set[Any] | None, declared: Sequence[Any] | None, missing: Collection[str]
) -> tuple[str | None, str | None]:
    """Return the text of a label, None if it counts as missing, and the reason if it would be refused."""
    kind = kind_of(cell)
    if kind is None:
        return None, "labels"
    if known is not None:
        if label_key(cell) not in known:
            return None, f"the labels {list(declared or ())}"
        return _text(cell), None
    if kind != told.kind and told.kind != "any":
        return None, f"labels of one kind, which are {told.kind} so far"
    text = _text(cell)
    if kind == "numbers" and not (real(cell).is_integer() and abs(real(cell)) < 2**53):
        return (
            None,
            "whole numbers below 2^53 in size. Unknown label type: continuous; PrivateRegressor has real targets",
        )
    if kind != "text":
        return text, None
    if text.strip() in ("", *missing):
        return None, "labels, and this text stands for a missing one (classes= declares it)"
    if label_text(text) != text:
        return (
            text,
            f"labels that are their own text, and this one is read as {label_text(text)!r} (classes= declares it)",
        )
    return text, None


def _text(cell: Any) -> str:
    if isinstance(cell, str):
        return str.__str__(cell)
    if isinstance(cell, bool | np.bool_):
        return "true" if cell else "false"
    return str(int(cell)) if isinstance(cell, numbers.Integral) else repr(float(cell))


def _bad_target(cell: Any, allowed: str, row: int) -> InvalidRow:
    plain = shown(single(cell)) if not isinstance(cell, float) else repr(cell)
    return InvalidRow(f"row {row}, target: found {plain}, allowed are {allowed}; nothing was learnt", row=row)
