"""Targets as the kernels read them: labels become -1 and +1 or class indices, real numbers stay within their bound."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets

from .._values import NUMBERS, PLAIN, column_of, number_of, real, shown, single, targets_of
from ..errors import InvalidParameter, InvalidRow

__all__ = ["MOST_CLASSES", "Targets", "declared_labels", "labels_in"]

FloatArray = NDArray[np.float64]

#: The most classes that a learner of several scores takes.
MOST_CLASSES = 1 << 16


def labels_in(y: NDArray[Any], refuse: bool, most: int = 2) -> NDArray[Any]:
    """Return the labels that occur in ``y``, ascending, at most ``most``; a NaN is refused or left out."""
    if y.dtype.kind == "O":
        y = _labels_among(y, refuse, most)
    if y.dtype.kind == "f" and np.isnan(y).any():
        if refuse:
            row = int(np.flatnonzero(np.isnan(y))[0]) + 1
            raise _no_label("NaN", row, most)
        y = y[~np.isnan(y)]
    check_classification_targets(y)
    labels: NDArray[Any] = np.unique(y)
    if len(labels) <= 1:
        found = f"one class: {labels[0]!r}" if len(labels) else "none"
        raise InvalidParameter(f"y must hold two classes, found {found}")
    if len(labels) > most:
        # scikit-learn's conformance checks look for this sentence
        only = "Only binary classification is supported" if most == 2 else f"At most {most} classes are supported"
        raise InvalidParameter(f"{only}. Found {len(labels)} classes in y")
    return labels


def _no_label(found: str, row: int, most: int) -> InvalidRow:
    allowed = "two labels" if most == 2 else "labels"
    return InvalidRow(f"row {row}, target: found {found}, allowed are {allowed}; nothing was learnt", row=row)


def _kind(label: Any) -> str | None:
    """Return the kind of a label; None if it is not one. Integers beyond 64 bits can be declared, not found."""
    if not issubclass(type(label), str | bytes | numbers.Real):
        return None
    if isinstance(label, str | bytes):
        return "text" if isinstance(label, str) else "bytes"
    if isinstance(label, numbers.Integral):
        return "numbers" if -(2**63) <= int(label) < 2**64 else None
    return None if not isinstance(label, numbers.Real) or math.isnan(real(label)) else "numbers"


def _labels_among(cells: NDArray[Any], refuse: bool, most: int) -> NDArray[Any]:
    """The labels among targets of any type, as an array of the one type that labels must have."""
    labels, kinds = [], {}
    for i, cell in enumerate(map(single, cells)):
        kind = _kind(cell)
        if kind is not None:
            labels.append(cell)
            kinds[kind] = cell
        elif refuse:
            raise _no_label("NaN" if math.isnan(real(cell)) and _missing(cell) else shown(cell), i + 1, most)
    if len(kinds) > 1:
        found = " and ".join(f"{kind} such as {shown(label)}" for kind, label in kinds.items())
        raise InvalidParameter(f"y must hold labels of one kind, found {found}; declare_classes() says which there are")
    return np.asarray(labels)


def _missing(cell: Any) -> bool:
    """Whether a target is a mark for a missing one."""
    try:
        return math.isnan(number_of(cell))
    except Exception:
        return False


def declared_labels(classes: Any, *, most: int = 2, ordered: bool = False) -> NDArray[Any]:
    """Return declared labels, at most ``most``: ascending, or in the given order (two: negative, positive)."""
    listed = classes.tolist() if isinstance(classes, np.ndarray) and classes.dtype.kind in "Of" else classes
    checked = listed if isinstance(listed, list | tuple) and not ordered else ()
    kinds = {_kind(label) for label in checked}
    if None in kinds and not all(_kind(label) or isinstance(label, numbers.Integral) for label in checked):
        raise InvalidParameter(f"classes must be numbers or text, found {classes!r}")
    if len(kinds - {None}) > 1:
        raise InvalidParameter(f"classes must be of one kind, numbers or text, found both: {classes!r}")
    labels: NDArray[Any] = np.asarray(classes)
    distinct = np.unique(labels) if labels.ndim == 1 else labels
    if ordered and labels.ndim == 1 and len(distinct) < len(labels):
        distinct = np.empty(0)
    if distinct.ndim != 1 or not 2 <= len(distinct) <= most:
        wanted = "two different labels" if most == 2 else f"2 to {most:,} different labels"
        raise InvalidParameter(f"classes must be {wanted}, found {classes!r}")
    return labels if ordered else distinct


@dataclass(frozen=True)
class Targets:
    """The targets of one run.

    Attributes
    ----------
    classes : ndarray of shape (K,) or None
        The labels, with the negative one of two first; None for regression.
    y_bound : float
        Bound to which real targets are clipped.
    refuse : bool
        Raise on a label outside the set or a target that is not finite; otherwise such rows are marked NaN, to be
        learnt as null rows.
    indexed : bool
        Labels become their indices, for losses of several scores; otherwise the two labels become -1 and +1.
    """

    classes: NDArray[Any] | None
    y_bound: float
    refuse: bool
    indexed: bool = False

    def encode(self, y: Any, learnt: int) -> FloatArray:
        """Return codes of labels, or clipped real targets, shape (n,); ``learnt`` rows came before, for error messages.

        Values of a declared type are taken as they are; otherwise each target is read by itself.
        """
        y = column_of(y)
        return self._numbers(y, learnt) if self.classes is None else self._coded(np.asarray(y), learnt)

    def encode_indices(self, y: Any, learnt: int) -> FloatArray:
        """Return the codes of indices into the classes, as streams give them."""
        assert self.classes is not None
        given, indices = np.asarray(column_of(y)), targets_of(y)
        last = len(self.classes) - 1
        bad = np.flatnonzero(~((indices >= 0.0) & (indices <= last) & (indices == np.floor(indices))))  # including NaN
        if bad.size:
            if self.refuse:
                row, every = learnt + int(bad[0]) + 1, "0 and 1" if last == 1 else f"0 to {last}"
                raise InvalidRow(
                    f"row {row}, target: found {self._found(given, bad[0])}, allowed are {every}, the indices of the "
                    f"classes {self._shown()}; nothing of its block was learnt",
                    row=row,
                )
            indices[bad] = np.nan
        return indices if self.indexed else 2.0 * indices - 1.0

    def encode_one(self, y: Any, learnt: int) -> float:
        """``encode`` for one target, without the cost of arrays."""
        codes = self.codes
        if codes is None:
            target = real(y)
            if math.isfinite(target):
                return min(max(target, -self.y_bound), self.y_bound)
            return float(self._numbers(np.fromiter([[y]], dtype=object), learnt)[0])
        try:
            code = codes.get(y)
        except Exception:  # not hashable, so not a label
            code = None
        return self._unknown(y, learnt + 1) if code is None else code

    @cached_property
    def codes(self) -> dict[Any, float] | None:
        """The kernels' codes of the labels; None for real targets."""
        if self.classes is None:
            return None
        # NumPy scalars too: those of dates equal nothing else
        labels = [(label, k) for listed in (self.classes, self.classes.tolist()) for k, label in enumerate(listed)]
        return {label: self._code(k) for label, k in labels}

    def _code(self, index: int) -> float:
        return float(index) if self.indexed else 2.0 * index - 1.0

    def _coded(self, y: NDArray[Any], learnt: int) -> FloatArray:
        assert self.classes is not None
        if y.dtype.kind == "O":
            targets = self._looked_up(y.tolist())
        else:
            # label numbers first, 0 for none: writing through a mask takes three times as long
            at = np.zeros(y.shape, np.min_scalar_type(len(self.classes)))
            for k, label in enumerate(self.classes):
                np.maximum(at, np.multiply(_equal(y, label), k + 1, dtype=at.dtype), out=at)
            targets = np.array([math.nan, *(self._code(k) for k in range(len(self.classes)))]).take(at)
        unknown = np.flatnonzero(np.isnan(targets))
        if unknown.size:
            self._unknown(y[unknown[0]], learnt + int(unknown[0]) + 1)
        return targets

    def _looked_up(self, labels: list[Any]) -> FloatArray:
        """The codes of labels, each by itself; NaN for those that are not declared."""
        codes = self.codes
        assert codes is not None
        if (PLAIN | {str, bytes}).issuperset(map(type, labels)):
            return np.array([codes.get(label, math.nan) for label in labels], dtype=np.float64)
        unchecked = replace(self, refuse=False)
        return np.array([unchecked.encode_one(single(label), 0) for label in labels], dtype=np.float64)

    def _numbers(self, y: Any, learnt: int) -> FloatArray:
        given = np.asarray(y)
        if given.dtype.kind not in NUMBERS + "OUST":
            raise InvalidParameter(f"y must hold numbers for this loss, found dtype {given.dtype}")
        targets = targets_of(given)
        bad = np.flatnonzero(~np.isfinite(targets))
        if bad.size and self.refuse:
            row = learnt + int(bad[0]) + 1
            raise InvalidRow(
                f"row {row}, target: found {self._found(given, bad[0])}, allowed are finite numbers (NaN and infinity "
                "are not); nothing of its block was learnt",
                row=row,
            )
        targets = np.clip(targets, -self.y_bound, self.y_bound)
        targets[bad] = np.nan
        return np.ascontiguousarray(targets)

    @staticmethod
    def _found(given: NDArray[Any], at: Any) -> str:
        return str(given[at]) if given.dtype.kind in NUMBERS else shown(single(given[at]))

    def _shown(self) -> str:
        assert self.classes is not None
        labels = self.classes.tolist()
        return str(labels) if len(labels) <= 20 else f"{str(labels[:20])[:-1]}, ...] ({len(labels):,} labels)"

    def _unknown(self, label: Any, row: int) -> float:
        if self.refuse:
            raise InvalidRow(
                f"row {row}, target: found label {label!r}, allowed are {self._shown()}; "
                "nothing of its block was learnt",
                row=row,
            )
        return math.nan


def _equal(y: NDArray[Any], label: Any) -> Any:
    """Which targets of a declared type equal a label: exactly, even where doubles do not hold integers of that size."""
    if y.dtype.kind not in NUMBERS:
        return y == label
    plain = label.item() if isinstance(label, np.generic) else label
    if not isinstance(plain, int | float):
        return np.zeros(y.shape, dtype=bool)
    try:
        if y.dtype.kind == "f":
            return (y == y.dtype.type(plain)) & (float(y.dtype.type(plain)) == plain)
        return (y == int(plain)) & (int(plain) == plain)
    except (OverflowError, ValueError):  # the label is not of that type
        return np.zeros(y.shape, dtype=bool)
