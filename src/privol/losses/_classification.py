"""Losses of two classes, with a single score; :mod:`privol.losses._loss` has the proofs of their constants."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from .._rounding import outward
from .._validate import number
from ._loss import FloatArray, Loss, _capped_width, _ceil, _pair, _sum

__all__ = ["Hinge", "Logistic", "SmoothHinge"]

_LAMBERT = 0.2784645427610739  # sup of m sigmoid(-m), rounded up; at 1 more


def _sigmoid(u: float) -> float:
    return 1.0 / (1.0 + math.exp(-u)) if u >= 0.0 else math.exp(u) / (1.0 + math.exp(u))


def _logistic_width(rho: float) -> float:
    """Return ``2 max_c sqrt(1 - c^2) sigma(rho c)``, rounded up; the module's docstring has the proof."""
    if math.isinf(rho):
        return 2.0
    low, high = 0.0, 0.5  # the root is below 0.467
    # Taking its upper end only errs upwards in sigma(rho c), and by less than 2^-64 in the square root.
    for _ in range(64):
        c = 0.5 * (low + high)
        if rho * (1.0 - c) * (1.0 + c) * _sigmoid(-rho * c) > c:
            low = c
        else:
            high = c
    return min(2.0, outward(2.0 * math.sqrt((1.0 - high) * (1.0 + high)) * _sigmoid(rho * high)))


@dataclass(frozen=True)
class Logistic(Loss):
    """Logistic loss ``ln(1 + exp(-y p))``; its model gives probabilities."""

    name: str = field(init=False, repr=False, default="logistic")
    code: int = field(init=False, repr=False, default=0)
    curvature: float = field(init=False, repr=False, default=0.25)
    log_odds: ClassVar[bool] = True
    one_sided: ClassVar[bool] = True
    piecewise: ClassVar[bool] = False

    def value(self, prediction: ArrayLike, y: ArrayLike) -> Any:
        p, y = _pair(prediction, y)
        return np.logaddexp(0.0, -y * p)

    def gradient(self, prediction: ArrayLike, y: ArrayLike) -> Any:
        p, y = _pair(prediction, y)
        m = y * p
        tail = np.exp(-np.abs(m))  # never overflows, and sigma(-m) keeps its relative precision for large m
        return -y * np.where(m >= 0.0, tail, 1.0) / (1.0 + tail)

    def second_derivative(self, prediction: ArrayLike, y: ArrayLike) -> Any:
        size = np.abs(self.gradient(prediction, y))
        return size * (1.0 - size)

    def pull(self, prediction_bound: float, y_bound: float = 1.0) -> float:
        """See :meth:`Loss.pull`: ``m / (1 + exp(m))`` of the margin m, largest where ``m - 1 = exp(-m)``."""
        if prediction_bound >= 1.0 + _LAMBERT:
            return _LAMBERT
        return prediction_bound / (1.0 + math.exp(prediction_bound))

    def _slope(self, prediction_bound: float, y_bound: float) -> float:
        return min(1.0, outward(_sigmoid(prediction_bound)))

    def _width(self, rho: float, y_bound: float) -> float:
        return _logistic_width(rho)


@dataclass(frozen=True)
class Hinge(Loss):
    """Hinge loss ``max(0, 1 - y p)``; its gradient diameter ``2 x_bound`` is attained at the zero model."""

    name: str = field(init=False, repr=False, default="hinge")
    code: int = field(init=False, repr=False, default=1)
    one_sided: ClassVar[bool] = True
    smooth_name: ClassVar[str] = "smooth_hinge"

    def value(self, prediction: ArrayLike, y: ArrayLike) -> Any:
        p, y = _pair(prediction, y)
        return np.maximum(0.0, 1.0 - y * p)

    def gradient(self, prediction: ArrayLike, y: ArrayLike) -> Any:
        p, y = _pair(prediction, y)
        return np.where(y * p < 1.0, -y, 0.0)

    def stand_ins(self) -> tuple[tuple[Loss, float], ...]:
        return tuple((SmoothHinge(width=h), 1.0) for h in (0.5, 0.1, 0.02, 4e-3, 8e-4, 1e-4))

    def line(self, slope: FloatArray, y: FloatArray) -> FloatArray | None:
        """See :meth:`Loss.line`: with slope ``-y t``, t from 0 to 1, through the corner, where ``y p = 1``."""
        return np.abs(slope)

    def _slope(self, prediction_bound: float, y_bound: float) -> float:
        return 1.0


@dataclass(frozen=True)
class SmoothHinge(Loss):
    """Huberised hinge: the hinge with its corner rounded over ``1 - h <= y p <= 1 + h``.

    With ``m = y p``: 0 for ``m > 1 + h``, ``1 - m`` for ``m < 1 - h``, ``(1 + h - m)^2 / (4 h)`` between.

    Parameters
    ----------
    width : float, default=0.5
        Half width ``h`` of the quadratic part, from 1e-6 (narrower is the hinge in double precision) to 1e6.
    """

    name: str = field(init=False, repr=False, default="smooth_hinge")
    code: int = field(init=False, repr=False, default=2)
    width: float = 0.5
    one_sided: ClassVar[bool] = True

    def __post_init__(self) -> None:
        width = number(width=self.width, at_least=1e-6, at_most=1e6)
        object.__setattr__(self, "width", width)
        object.__setattr__(self, "curvature", _ceil(1 / (2 * Fraction(width))))

    def value(self, prediction: ArrayLike, y: ArrayLike) -> Any:
        p, y = _pair(prediction, y)
        m, h = y * p, self.width
        inside = np.clip(1.0 + h - m, 0.0, 2.0 * h)
        return inside * inside / (4.0 * h) + np.maximum(0.0, 1.0 - h - m)

    def gradient(self, prediction: ArrayLike, y: ArrayLike) -> Any:
        p, y = _pair(prediction, y)
        return -y * (np.clip(1.0 + self.width - y * p, 0.0, 2.0 * self.width) / (2.0 * self.width))

    def second_derivative(self, prediction: ArrayLike, y: ArrayLike) -> Any:
        p, y = _pair(prediction, y)
        return (np.abs(1.0 - y * p) < self.width) / (2.0 * self.width)

    def pull(self, prediction_bound: float, y_bound: float = 1.0) -> float:
        """See :meth:`Loss.pull`: ``m min(1, (1 + h - m) / (2 h))``, largest at the kink or at ``(1 + h) / 2``."""
        h = self.width
        m = min(prediction_bound, max(1.0 - h, 0.5 * (1.0 + h)))
        return m * min(1.0, (1.0 + h - m) / (2.0 * h))

    def _slope(self, prediction_bound: float, y_bound: float) -> float:
        h = Fraction(self.width)
        if prediction_bound >= 2.0 * self.width:
            return 1.0
        return min(1.0, _ceil((1 + h + Fraction(prediction_bound)) / (2 * h)))

    def _width(self, rho: float, y_bound: float) -> float:
        # |phi'| = min(1, (1 + h + rho t) / (2 h)): the profile with everything times 2 h.
        h = self.width
        return min(2.0, outward(_capped_width(rho, _sum(1.0, h), 2.0 * h) / (2.0 * h)))
