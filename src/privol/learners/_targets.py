"""Targets as the kernels read them: -1 and +1 or a class's index by label, or real numbers within their bound."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets

from ..errors import InvalidParameter, InvalidRow

__all__ = ["MOST_CLASSES", "Targets", "declared_labels", "labels_in"]

FloatArray = NDArray[np.float64]

#: Classes that a learner of several scores takes.
MOST_CLASSES = 1 << 16


def labels_in(y: NDArray[Any], refuse: bool, most: int = 2) -> NDArray[Any]:
    """Return the labels that occur in ``y``, ascending, at most ``most``; a NaN is no label: refused, or left out."""
    if y.dtype.kind == "f" and np.isnan(y).any():
        if refuse:
            row = int(np.flatnonzero(np.isnan(y))[0]) + 1
            allowed = "two labels" if most == 2 else "labels"
            raise InvalidRow(f"row {row}, target: found NaN, allowed are {allowed}; nothing was learnt", row=row)
        y = y[~np.isnan(y)]
    check_classification_targets(y)
    labels: NDArray[Any] = np.unique(y)
    if len(labels) == 1:
        raise InvalidParameter(f"y must hold two classes, found one class: {labels[0]!r}")
    if len(labels) > most:
        # scikit-learn's conformance checks look for this sentence
        only = "Only binary classification is supported" if most == 2 else f"At most {most} classes are supported"
        raise InvalidParameter(f"{only}. Found {len(labels)} classes in y")
    return labels


def declared_labels(classes: Any, *, most: int = 2, ordered: bool = False) -> NDArray[Any]:
    """Return declared labels, at most ``most``: ascending, or in the given order (of two: negative, positive)."""
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
    """The target side of one run.

    Attributes
    ----------
    classes : ndarray of shape (K,) or None
        The labels, of two the negative one first; None for regression.
    y_bound : float
        Real targets beyond it are clipped to it.
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
        """Return codes of labels or the clipped real targets, shape (n,); ``learnt`` rows came before, for errors."""
        return self._numbers(y, learnt) if self.classes is None else self._coded(np.asarray(y), learnt)

    def encode_indices(self, y: Any, learnt: int) -> FloatArray:
        """Return the codes of indices into the classes, as streams give them."""
        assert self.classes is not None
        try:
            indices = np.array(y, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidParameter(f"a stream's y must hold indices into its classes: {error}") from None
        last = len(self.classes) - 1
        bad = np.flatnonzero(~((indices >= 0.0) & (indices <= last) & (indices == np.floor(indices))))  # NaN included
        if bad.size:
            if self.refuse:
                row, every = learnt + int(bad[0]) + 1, "0 and 1" if last == 1 else f"0 to {last}"
                raise InvalidRow(
                    f"row {row}, target: found {indices[bad[0]]}, allowed are {every}, the indices of the classes "
                    f"{self._shown()}; nothing of its block was learnt",
                    row=row,
                )
            indices[bad] = np.nan
        return indices if self.indexed else 2.0 * indices - 1.0

    def encode_one(self, y: Any, learnt: int) -> float:
        """``encode`` for one target, without the cost of arrays."""
        if self._codes is None:
            try:
                target = float(y)
            except (TypeError, ValueError):
                raise InvalidParameter(f"y must be a number for this loss, found {y!r}") from None
            if math.isfinite(target):
                return min(max(target, -self.y_bound), self.y_bound)
            return float(self._numbers([target], learnt)[0])
        try:
            code = self._codes.get(y)
        except TypeError:  # not hashable, so not a label
            code = None
        return self._unknown(y, learnt + 1) if code is None else code

    @cached_property
    def _codes(self) -> dict[Any, float] | None:
        if self.classes is None:
            return None
        return {label: self._code(k) for k, label in enumerate(self.classes.tolist())}

    def _code(self, index: int) -> float:
        return float(index) if self.indexed else 2.0 * index - 1.0

    def _coded(self, y: NDArray[Any], learnt: int) -> FloatArray:
        assert self.classes is not None
        targets = np.full(y.shape, np.nan)
        for k, label in enumerate(self.classes):
            targets[y == label] = self._code(k)
        unknown = np.flatnonzero(np.isnan(targets))
        if unknown.size:
            self._unknown(y[unknown[0]], learnt + int(unknown[0]) + 1)
        return targets

    def _numbers(self, y: Any, learnt: int) -> FloatArray:
        try:
            targets = np.asarray(y, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidParameter(f"y must hold numbers for this loss: {error}") from None
        bad = np.flatnonzero(~np.isfinite(targets))
        if bad.size and self.refuse:
            row = learnt + int(bad[0]) + 1
            raise InvalidRow(
                f"row {row}, target: found {targets[bad[0]]}, allowed are finite numbers (NaN and infinity are not); "
                "nothing of its block was learnt",
                row=row,
            )
        targets = np.clip(targets, -self.y_bound, self.y_bound)
        targets[bad] = np.nan
        return np.ascontiguousarray(targets)

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
