"""Losses of a real target; :mod:`privol.losses._loss` has the proofs of their constants."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from .._rounding import UP
from .._validate import number
from ._loss import FloatArray, Kind, Loss, _capped_width, _pair, _sum

__all__ = ["Absolute", "Huber", "Squared"]


def _pull_of_error(prediction_bound: float, y_bound: float, cap: float) -> float:
    """Largest ``m min(cap, y_bound - m)`` over m up to the bound: at the kink, or past it at half of ``y_bound``."""
    m = min(prediction_bound, max(y_bound - cap, 0.5 * y_bound))
    return m * min(cap, y_bound - m)


@dataclass(frozen=True)
class Squared(Loss):
    """Half the squared error, ``(y - p)^2 / 2``."""

    name: str = field(init=False, repr=False, default="squared")
    kind: Kind = field(init=False, repr=False, default="regression")
    code: int = field(init=False, repr=False, default=3)
    curvature: float = field(init=False, repr=False, default=1.0)
    quadratic: ClassVar[bool] = True

    def value(self, prediction: ArrayLike, y: ArrayLike) -> Any:
        p, y = _pair(prediction, y)
        return 0.5 * np.square(p - y)

    def gradient(self, prediction: ArrayLike, y: ArrayLike) -> Any:
        p, y = _pair(prediction, y)
        return p - y

    def second_derivative(self, prediction: ArrayLike, y: ArrayLike) -> Any:
        p, y = _pair(prediction, y)
        return np.ones(np.broadcast_shapes(p.shape, y.shape))

    def pull(self, prediction_bound: float, y_bound: float = 1.0) -> float:
        """See :meth:`Loss.pull`: ``m (y_bound - m)``, largest at half the bound."""
        return _pull_of_error(prediction_bound, y_bound, math.inf)

    def bounded(self, prediction_bound: float, y_bound: float) -> Loss:
        """See :meth:`Loss.bounded`: Huber's, with a threshold that no error exceeds within the bounds."""
        return Huber(width=(prediction_bound + y_bound) * UP)

    def _slope(self, prediction_bound: float, y_bound: float) -> float:
        return _sum(prediction_bound, y_bound)

    def _width(self, rho: float, y_bound: float) -> float:
        return _capped_width(rho, y_bound, math.inf)


@dataclass(frozen=True)
class Absolute(Loss):
    """Absolute error ``|y - p|``; targets on both sides of a prediction attain its gradient diameter ``2 x_bound``."""

    name: str = field(init=False, repr=False, default="absolute")
    kind: Kind = field(init=False, repr=False, default="regression")
    code: int = field(init=False, repr=False, default=4)
    smooth_name: ClassVar[str] = "huber"

    def value(self, prediction: ArrayLike, y: ArrayLike) -> Any:
        p, y = _pair(prediction, y)
        return np.abs(p - y)

    def gradient(self, prediction: ArrayLike, y: ArrayLike) -> Any:
        p, y = _pair(prediction, y)
        return np.sign(p - y)

    def stand_ins(self) -> tuple[tuple[Loss, float], ...]:
        return tuple((Huber(width=k), 1.0 / k) for k in (1.0, 0.2, 0.04, 8e-3, 1.6e-3, 2e-4))

    def line(self, slope: FloatArray, y: FloatArray) -> FloatArray | None:
        """See :meth:`Loss.line`: through the corner at the target, where the loss is 0."""
        return -(slope * y)

    def _slope(self, prediction_bound: float, y_bound: float) -> float:
        return 1.0


@dataclass(frozen=True)
class Huber(Loss):
    """Huber's loss of the error ``e = p - y``: ``e^2 / 2`` for ``|e| <= k``, else ``k (|e| - k / 2)``.

    Parameters
    ----------
    width : float, default=1.0
        Threshold ``k`` in the target's units, above 0; also the bound of the derivative.
    """

    name: str = field(init=False, repr=False, default="huber")
    kind: Kind = field(init=False, repr=False, default="regression")
    code: int = field(init=False, repr=False, default=5)
    width: float = 1.0
    curvature: float = field(init=False, repr=False, default=1.0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", number(width=self.width, above=0))

    def value(self, prediction: ArrayLike, y: ArrayLike) -> Any:
        p, y = _pair(prediction, y)
        error = np.abs(p - y)
        inside = np.minimum(error, self.width)
        return inside * (error - 0.5 * inside)

    def gradient(self, prediction: ArrayLike, y: ArrayLike) -> Any:
        p, y = _pair(prediction, y)
        return np.clip(p - y, -self.width, self.width)

    def second_derivative(self, prediction: ArrayLike, y: ArrayLike) -> Any:
        p, y = _pair(prediction, y)
        return (np.abs(p - y) < self.width).astype(np.float64)

    def pull(self, prediction_bound: float, y_bound: float = 1.0) -> float:
        """See :meth:`Loss.pull`: ``m min(width, y_bound - m)``, largest at its kink or past it at half the bound."""
        return _pull_of_error(prediction_bound, y_bound, self.width)

    def _slope(self, prediction_bound: float, y_bound: float) -> float:
        return min(self.width, _sum(prediction_bound, y_bound))

    def _width(self, rho: float, y_bound: float) -> float:
        return _capped_width(rho, y_bound, self.width)
