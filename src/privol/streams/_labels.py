"""The declared label set, and the way from what a file holds to 0.0 and 1.0."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InvalidParameter, StreamError

__all__ = ["Labels"]

FloatArray = npt.NDArray[np.float64]
Key = float | str | None


def _plain(label: Any) -> Any:
    """Return the label as a plain Python object, strings without surrounding blanks."""
    if isinstance(label, bytes):
        label = label.decode("utf-8", "replace")
    if isinstance(label, np.generic):
        label = label.item()
    return label.strip() if isinstance(label, str) else label


def _key(label: Any) -> Key:
    """What labels are compared by: 1, 1.0, True, "1" and " +1.0" are one label; None is a missing one."""
    label = _plain(label)
    if isinstance(label, numbers.Real):
        x = float(label)
        return x if np.isfinite(x) else (None if np.isnan(x) else str(x))
    if label is None or label == "":
        return None
    text = str(label)
    try:
        x = float(text)
    except ValueError:
        return text
    return x if np.isfinite(x) and "_" not in text else text


class Labels:
    """Encodes targets: labels to the index in ``classes``, or numbers as they are.

    Parameters
    ----------
    classes : sequence of labels or None
        The declared public label set: (negative, positive); with ``positive`` it may hold more labels.
    positive : label or None
        That label against all the rest (of ``classes`` if given).
    """

    def __init__(self, classes: Iterable[Any] | None, positive: Any) -> None:
        self.classes: tuple[Any, ...] | None = None
        self._codes: dict[Key, float] = {}
        self._rest = np.nan
        self._allowed = "a number"
        if classes is None and positive is None:
            return
        declared = self._declared(classes)
        if positive is None:
            if len(declared) != 2:
                raise InvalidParameter(
                    f"classes must be (negative, positive), or more labels with positive=, found {declared!r}"
                )
            self.classes = declared
        else:
            label, key = _plain(positive), _key(positive)
            if key is None:
                raise InvalidParameter(f"positive must be a label, found {positive!r}")
            others = tuple(c for c in declared if _key(c) != key)
            if declared and (len(others) == len(declared) or not others):
                raise InvalidParameter(f"positive must be one of classes {declared!r}, found {positive!r}")
            self.classes = (others[0] if len(others) == 1 else f"not {label}", label)
            self._codes = {_key(c): 0.0 for c in others}
            self._codes[key] = 1.0
            if not declared:
                self._rest = 0.0
        if not self._codes:
            self._codes = {_key(c): float(i) for i, c in enumerate(self.classes)}
        self._allowed = "a label" if not np.isnan(self._rest) else "one of " + ", ".join(repr(c) for c in declared)

    @staticmethod
    def _declared(classes: Iterable[Any] | None) -> tuple[Any, ...]:
        if classes is None:
            return ()
        if isinstance(classes, (str, bytes)) or not isinstance(classes, Iterable):
            raise InvalidParameter(f"classes must be two labels (negative, positive), found {classes!r}")
        declared = tuple(_plain(c) for c in classes)
        keys = [_key(c) for c in declared]
        if None in keys or len(set(keys)) != len(keys):
            raise InvalidParameter(f"classes must be different labels, none of them missing, found {declared!r}")
        return declared

    @property
    def numeric(self) -> bool:
        """Whether the target is a number to be kept (regression)."""
        return self.classes is None

    def knows(self, label: Any) -> bool:
        """Whether the label is one of those named by ``classes`` or ``positive``."""
        return _key(label) in self._codes

    def _code(self, label: Any) -> float:
        key = _key(label)
        return np.nan if key is None else self._codes.get(key, self._rest)

    def encode(self, values: npt.NDArray[Any], first_row: int, where: str) -> FloatArray:
        """Return the targets as float64, shape (n,); ``where`` names stream and column in messages."""
        if values.dtype.kind in "biuf":
            y = values.astype(np.float64)
            if self.numeric:
                return y
            codes = np.where(np.isnan(y), np.nan, self._rest)
            for key, code in self._codes.items():
                if not isinstance(key, str):
                    codes[y == key] = code
            # Infinities can be no label of ours but still belong to "the rest".
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

    def encode_coded(self, indices: npt.NDArray[Any], labels: list[str], first_row: int, where: str) -> FloatArray:
        """Return the targets of a dictionary-coded column: row i has the label ``labels[indices[i]]``."""
        table = np.array([self._code(v) for v in labels], dtype=np.float64)
        codes: FloatArray = table[indices]
        bad = np.isnan(codes)
        if bad.any():
            at = int(np.argmax(bad))
            self._refuse(labels[indices[at]], first_row + at, where)
        return codes

    def _checked(self, codes: FloatArray, values: npt.NDArray[Any], first_row: int, where: str) -> FloatArray:
        bad = np.isnan(codes)
        if bad.any():
            at = int(np.argmax(bad))
            self._refuse(values[at], first_row + at, where)
        return codes

    def _refuse(self, found: Any, row: int, where: str) -> None:
        shown = "nothing" if _key(found) is None else repr(_plain(found))
        raise StreamError(f"{where}, row {row}: found {shown}, allowed is {self._allowed}", row=row)

    @staticmethod
    def _floats(values: npt.NDArray[Any], first_row: int, where: str) -> FloatArray:
        y = np.empty(len(values), dtype=np.float64)
        for i, value in enumerate(values):
            value = _plain(value)
            try:
                y[i] = np.nan if value is None or value == "" else float(value)
            except (TypeError, ValueError):
                raise StreamError(
                    f"{where}, row {first_row + i}: found {value!r}, allowed is a number "
                    "(declare labels with classes= or positive=)",
                    row=first_row + i,
                ) from None
        return y
