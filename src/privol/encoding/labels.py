"""The declared label set, and the conversion of what a file holds to the indices 0.0, 1.0, ..."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Sequence
from copy import copy
from typing import Any

import numpy as np
import numpy.typing as npt

from .._values import number_of, shown, single
from ..errors import InvalidParameter, StreamError
from .told import positions

__all__ = ["Labels", "coded", "label_key", "label_text"]

FloatArray = npt.NDArray[np.float64]
Key = float | str | None


def _plain(label: Any) -> Any:
    """Return the label as a plain Python object, strings without surrounding blanks."""
    if isinstance(label, bytes):
        label = label.decode("utf-8", "replace")
    if isinstance(label, np.generic):
        label = label.item()
    return label.strip() if isinstance(label, str) else label


def label_key(label: Any) -> Key:
    """The key for comparing labels: 1, 1.0, True, "1", " +1.0" and "true" are one label; None is a missing one."""
    if type(label) is str:  # first, because asking whether it is a number takes longer than all the rest
        label = label.strip()
        return _text_key(label) if label else None
    label = _plain(label)
    if isinstance(label, numbers.Real):
        x = number_of(label)
        return x if np.isfinite(x) else (None if np.isnan(x) else str(x))
    return None if label is None or label == "" else _text_key(str(label))


def label_text(text: str) -> str:
    """Return the text that a label is learnt as: 1 for each of "1", "1.0", "+1" and "true"."""
    key = label_key(text)
    if isinstance(key, float):
        return str(int(key)) if key.is_integer() and abs(key) < 2**53 else repr(key)
    return text if key is None else str(key)


def _text_key(text: str) -> Key:
    try:
        x = float(text)
    except ValueError:
        known = text.lower()  # so that a label True is found in a file
        return float(known == "true") if known in ("true", "false") else text
    return x if math.isfinite(x) and "_" not in text else text


def coded(column: Any) -> tuple[npt.NDArray[np.int32], list[str | None]]:
    """Return (indices, texts) of a dictionary-coded pyarrow column; the last text is None, for missing cells."""
    return positions(column), [*column.dictionary.to_pylist(), None]


class Labels:
    """Encodes targets: labels become the index in ``classes``, numbers stay as they are.

    Parameters
    ----------
    classes : sequence of labels or None
        The declared public label set: (negative, positive), or more than two classes.
    positive : label or None
        The label that is positive against all the rest (of ``classes``, if given).
    """

    def __init__(self, classes: Iterable[Any] | None, positive: Any) -> None:
        self.classes: tuple[Any, ...] | None = None
        self._codes: dict[Key, float] = {}
        self._rest = np.nan
        self._lenient = False
        self._groups: dict[str, Any] = {}
        self._allowed = "a number"
        if classes is None and positive is None:
            return
        declared = self._declared(classes)
        if positive is None:
            if len(declared) < 2:
                raise InvalidParameter(f"classes must be at least two labels (negative, positive), found {declared!r}")
            self.classes = declared
            self._groups = {"negative": declared[:1], "positive": declared[1:]}
            if len(declared) > 2:
                self._groups = {"classes": tuple((label,) for label in declared)}
        else:
            label, key = _plain(positive), label_key(positive)
            if key is None:
                raise InvalidParameter(f"positive must be a label, found {positive!r}")
            others = tuple(c for c in declared if label_key(c) != key)
            if declared and (len(others) == len(declared) or not others):
                raise InvalidParameter(f"positive must be one of classes {declared!r}, found {positive!r}")
            self.classes = (others[0] if len(others) == 1 else f"not {label}", label)
            self._codes = {label_key(c): 0.0 for c in others}
            self._codes[key] = 1.0
            self._groups = {"negative": others, "positive": (label,), "rest": "refuse" if declared else "negative"}
            if not declared:
                self._rest = 0.0
        if not self._codes:
            self._codes = {label_key(c): float(i) for i, c in enumerate(self.classes)}
        self._allowed = "a label" if not np.isnan(self._rest) else "one of " + ", ".join(repr(c) for c in declared)

    @classmethod
    def of_groups(cls, negative: Sequence[Any], positive: Sequence[Any], rest: bool) -> Labels:
        """Return the encoder of two groups of labels; the first label of each is the one shown.

        Parameters
        ----------
        negative, positive : sequence of labels
            All different, and none missing; ``positive`` is not empty.
        rest : bool
            Whether every other label is negative; needed if ``negative`` is empty.
        """
        labels = cls(None, None)
        declared = (*map(_plain, negative), *map(_plain, positive))
        labels.classes = (
            _plain(negative[0]) if negative else f"not {_plain(positive[0])}",
            _plain(positive[0]),
        )
        labels._codes = {label_key(label): 0.0 for label in negative} | {label_key(label): 1.0 for label in positive}
        if rest:
            labels._rest = 0.0
        labels._allowed = "a label" if rest else "one of " + ", ".join(map(repr, declared))
        return labels

    @classmethod
    def of_classes(cls, groups: Sequence[Sequence[Any]]) -> Labels:
        """Return the encoder of groups of distinct labels, each a class; the first label of each group is shown."""
        labels = cls(None, None)
        labels.classes = tuple(_plain(group[0]) for group in groups)
        labels._codes = {label_key(label): float(k) for k, group in enumerate(groups) for label in group}
        labels._allowed = "one of " + ", ".join(repr(_plain(label)) for group in groups for label in group)
        return labels

    def lenient(self) -> Labels:
        """Return the same encoder, but with NaN for an undeclared or missing label instead of an error."""
        found = copy(self)
        found._lenient = True
        return found

    def groups(self) -> dict[str, Any]:
        """Return a schema's description of these labels: the fields of its target except for the column."""
        return dict(self._groups)

    @staticmethod
    def _declared(classes: Iterable[Any] | None) -> tuple[Any, ...]:
        if classes is None:
            return ()
        if isinstance(classes, (str, bytes)) or not isinstance(classes, Iterable):
            raise InvalidParameter(f"classes must be labels (negative, positive), or more, found {classes!r}")
        declared = tuple(_plain(c) for c in classes)
        keys = [label_key(c) for c in declared]
        if None in keys or len(set(keys)) != len(keys):
            raise InvalidParameter(f"classes must be different labels, none of them missing, found {declared!r}")
        return declared

    @property
    def numeric(self) -> bool:
        """Whether the target is a number that is kept as it is (regression)."""
        return self.classes is None

    def knows(self, label: Any) -> bool:
        """Whether the label is one of those named by ``classes`` or ``positive``."""
        return label_key(label) in self._codes

    def _code(self, label: Any) -> float:
        try:
            key = label_key(single(label))
        except Exception:  # a value of the caller's own type, which may raise on any access
            return np.nan
        return np.nan if key is None else self._codes.get(key, self._rest)

    def encode(self, values: npt.NDArray[Any], first_row: int, where: str) -> FloatArray:
        """Return the targets as float64, shape (n,); ``where`` names stream and column in messages."""
        if values.dtype.kind in "biuf":
            y = values.astype(np.float64)
            if self.numeric:
                return y
            if self.classes is not None and self._rest == 0.0 and all(isinstance(key, str) for key in self._codes):
                # decided by the type, whatever the rows hold; otherwise every row would be one of the rest
                raise StreamError(f"{where}: the labels are numbers, so {self.classes[1]!r} cannot occur")
            codes = np.where(np.isnan(y), np.nan, self._rest)
            for key, code in self._codes.items():
                if not isinstance(key, str):
                    codes[y == key] = code
            # An infinity cannot be one of our labels but may still belong to "the rest".
            return self._checked(codes, values, first_row, where)
        if values.dtype.kind not in "OUST":
            raise StreamError(f"{where}: the target has the type {values.dtype}, numbers or strings are allowed")
        if self.numeric:
            return self._floats(values, first_row, where)
        if values.dtype.kind == "O":
            codes = np.array([self._code(v) for v in values], dtype=np.float64)
        else:
            distinct, inverse = np.unique(values, return_inverse=True)
            codes = np.array([self._code(v) for v in distinct], dtype=np.float64)[inverse]
        return self._checked(codes, values, first_row, where)

    def encode_column(self, column: Any, first_row: int, where: str) -> FloatArray:
        """Return the targets of a pyarrow column: numbers where :attr:`numeric`, else dictionary-coded text."""
        if self.numeric:
            return self.encode(column.to_numpy(zero_copy_only=False), first_row, where)
        return self.encode_coded(*coded(column), first_row, where)

    def encode_coded(
        self,
        indices: npt.NDArray[Any],
        labels: list[str | None],
        first_row: int,
        where: str,
        optional: bool = False,
        remedies: tuple[str, str] = ("", ""),
    ) -> FloatArray:
        """Return the targets of a dictionary-coded column: row i has the label ``labels[indices[i]]``.

        A missing label is NaN if the labels are ``optional``; otherwise it is an error, as an undeclared label is. The
        messages of both end with ``remedies``.
        """
        table = np.array([self._code(v) for v in labels], dtype=np.float64)
        wrong = np.isnan(table) & (not self._lenient)
        if optional:
            wrong &= np.array([label_key(v) is not None for v in labels], dtype=bool)
        codes: FloatArray = table[indices]
        if wrong.any():
            bad = wrong[indices]
            if bad.any():
                at = int(np.argmax(bad))
                self._refuse(labels[indices[at]], first_row + at, where, remedies)
        return codes

    def _checked(self, codes: FloatArray, values: npt.NDArray[Any], first_row: int, where: str) -> FloatArray:
        bad = np.isnan(codes)
        if bad.any():
            at = int(np.argmax(bad))
            self._refuse(values[at], first_row + at, where)
        return codes

    def _refuse(self, found: Any, row: int, where: str, remedies: tuple[str, str] = ("", "")) -> None:
        try:
            missing, words = label_key(found) is None, shown(_plain(found))
        except Exception:
            missing, words = False, shown(found)
        words = "nothing" if missing else words
        hint = remedies[0 if missing else 1]
        raise StreamError(f"{where}, row {row}: found {words}, allowed is {self._allowed}{hint}", row=row)

    @staticmethod
    def _floats(values: npt.NDArray[Any], first_row: int, where: str) -> FloatArray:
        y = np.empty(len(values), dtype=np.float64)
        for i, value in enumerate(values):
            try:
                value = _plain(single(value))
                y[i] = np.nan if isinstance(value, str) and value == "" else number_of(value)
            except Exception:
                raise StreamError(
                    f"{where}, row {first_row + i}: found {shown(value)}, allowed is a number "
                    "(declare labels with classes= or positive=)",
                    row=first_row + i,
                ) from None
        return y
