"""Targets as the kernels read them: -1 and +1 by label, or real numbers within their bound."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets

from ..errors import InvalidParameter, InvalidRow

__all__ = ["Targets", "labels_in", "two_labels"]

FloatArray = NDArray[np.float64]


def labels_in(y: NDArray[Any], refuse: bool) -> NDArray[Any]:
    """Return the two labels that occur in ``y``, ascending; a NaN is no label: refused with its row, or left out."""
    if y.dtype.kind == "f" and np.isnan(y).any():
        if refuse:
            row = int(np.flatnonzero(np.isnan(y))[0]) + 1
            raise InvalidRow(f"row {row}, target: found NaN, allowed are two labels; nothing was learnt", row=row)
        y = y[~np.isnan(y)]
    check_classification_targets(y)
    labels: NDArray[Any] = np.unique(y)
    if len(labels) == 1:
        raise InvalidParameter(f"y must hold two classes, found one class: {labels[0]!r}")
    if len(labels) > 2:
        # scikit-learn's conformance checks look for this sentence
        raise InvalidParameter(f"Only binary classification is supported. Found {len(labels)} classes in y")
    return labels


def two_labels(classes: Any, *, ordered: bool = False) -> NDArray[Any]:
    """Return declared labels as an array of two: ascending, or in the given order (negative, positive)."""
    labels: NDArray[Any] = np.asarray(classes) if ordered else np.unique(np.asarray(classes))
    if labels.shape != (2,) or labels[0] == labels[1]:
        raise InvalidParameter(f"classes must be two different labels, found {classes!r}")
    return labels


@dataclass(frozen=True)
class Targets:
    """The target side of one run.

    Attributes
    ----------
    classes : ndarray of shape (2,) or None
        Negative and positive label; None for regression.
    y_bound : float
        Real targets beyond it are clipped to it.
    refuse : bool
        Raise on a label outside the set or a target that is not finite; otherwise such rows are marked NaN, to be
        learnt as null rows.
    """

    classes: NDArray[Any] | None
    y_bound: float
    refuse: bool

    def encode(self, y: Any, learnt: int) -> FloatArray:
        """Return -1/+1 or the clipped real targets, shape (n,); ``learnt`` rows came before, for the error's row."""
        return self._numbers(y, learnt) if self.classes is None else self._signs(np.asarray(y), learnt)

    def encode_indices(self, y: Any, learnt: int) -> FloatArray:
        """Return -1/+1 from indices into the classes, as streams give them."""
        assert self.classes is not None
        try:
            indices = np.asarray(y, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidParameter(f"a stream's y must hold indices into its classes: {error}") from None
        encoded: FloatArray = 2.0 * indices - 1.0
        bad = np.flatnonzero(np.abs(encoded) != 1.0)  # NaN included
        if bad.size:
            if self.refuse:
                row = learnt + int(bad[0]) + 1
                raise InvalidRow(
                    f"row {row}, target: found {indices[bad[0]]}, allowed are 0 and 1, the indices of the classes "
                    f"{self.classes.tolist()}; nothing of its block was learnt",
                    row=row,
                )
            encoded[bad] = np.nan
        return encoded

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
            sign = self._codes.get(y)
        except TypeError:  # not hashable, so not a label
            sign = None
        return self._unknown(y, learnt + 1) if sign is None else sign

    @cached_property
    def _codes(self) -> dict[Any, float] | None:
        return None if self.classes is None else dict(zip(self.classes.tolist(), (-1.0, 1.0), strict=True))

    def _signs(self, y: NDArray[Any], learnt: int) -> FloatArray:
        assert self.classes is not None
        positive, negative = y == self.classes[1], y == self.classes[0]
        targets: FloatArray = np.where(positive, 1.0, -1.0)
        unknown = np.flatnonzero(~(positive | negative))
        if unknown.size:
            self._unknown(y[unknown[0]], learnt + int(unknown[0]) + 1)
            targets[unknown] = np.nan
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

    def _unknown(self, label: Any, row: int) -> float:
        if self.refuse:
            assert self.classes is not None
            raise InvalidRow(
                f"row {row}, target: found label {label!r}, allowed are {self.classes.tolist()}; "
                "nothing of its block was learnt",
                row=row,
            )
        return math.nan
