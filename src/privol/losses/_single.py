r"""Convex losses of a linear prediction, with the constants that privacy and step sizes need.

A row ``(v, y)`` turns into the loss ``phi(v . x, y)`` of the model ``x`` and hence into the gradient
``phi'(v . x, y) v``. Everything that calibration asks about a loss is a bound over *public* ranges:
``||v||_2 <= x_bound``, ``||x||_2 <= radius`` and ``|y| <= y_bound`` (labels are -1 or +1). The value and
gradient methods are NumPy references; the learners run compiled kernels chosen by :attr:`Loss.code`.

Why the gradient diameters are what they are
--------------------------------------------
Let ``x_bound`` be 1 (else scale), ``rho = x_bound * radius``, ``e = x / ||x||``. For the built-in losses the rows
``(v, y)`` and ``(-v, -y)`` have the same gradient, so all gradients at ``x`` are vectors ``m s`` (or all are ``-m s``)
with ``||s|| <= 1`` and ``0 <= m <= w(s . e)`` for one nondecreasing profile ``w``:

* logistic: ``w(t) = sigma(rho t)``, and ``m = w(s . e)``;
* squared, Huber, smoothed hinge: ``w(t) = min(cap, offset + slope t)``, never below 0.

*Claim.* The diameter of this body of revolution is that of its widest circle, ``2 sqrt(1 - c^2) w(c)``, where
``c`` in [0, 1) maximises ``sqrt(1 - c^2) w(c)``, because the body lies in the ball with that circle as equator.

*Proof.* Growing the part of ``s`` across the axis at fixed ``t = s . e`` and ``m`` only leads away from the ball's
centre ``c w(c) e``, so let ``||s|| = 1``. With ``k^2 = 1 - 2 c^2 >= 0`` (below) the origin is in the ball, so only the
far end ``m = w(t)`` matters. It is in the ball if and only if ``w(t) / w(c) <= Y(t) = t c + sqrt(t^2 c^2 + k^2)``;
``Y(c) = 1``. As ``(ln Y)' = c / sqrt(t^2 c^2 + k^2)``, it is enough that ``M(t) = (ln w)'(t) sqrt(t^2 c^2 + k^2)``
never increases and is ``c`` at ``t = c``; the latter is stationarity, ``(ln w)'(c) = c / (1 - c^2)``. The former:

* logistic: ``(ln w)' = rho sigma(-rho t)`` and ``c^2 / (1 - c^2) = rho c sigma(-rho c) <= max u sigma(-u) < 0.2785``,
  so ``c < 0.467``. ``M'`` has the sign of ``t c^2 / (t^2 c^2 + k^2) - rho sigma(rho t)``: negative for ``t <= 0``;
  for ``t > 0`` the first term is at most ``c^2 / (1 - c^2) <= rho c / 2 < rho / 2 <= rho sigma(rho t)``.
* offset + slope t (offset at least 0): stationarity reads ``2 slope c^2 + offset c = slope``, so ``c^2 <= 1/2``,
  ``slope k^2 = offset c``, and ``M'`` has the sign of ``t c^2 offset - slope k^2 = offset c (t c - 1) <= 0``.
* a cap below ``offset + slope c`` moves the maximum to the kink ``c = (cap - offset) / slope`` (to 0 if
  ``offset >= cap``). For ``t >= c``, ``w(t) / w(c) = 1 = Y(c) <= Y(t)``; for ``t < c`` as before, now with
  ``M(c) >= c`` and ``slope k^2 >= offset c``.

Two opposite points of the equator are attained in dimensions of at least 2, so the bound is tight there; in dimension
1 it is an upper bound. It increases with ``rho``, hence it is the supremum over the whole ball of models.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar, Literal, NoReturn, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._validate import choice, number
from ..errors import InvalidParameter

__all__ = ["BUILT_IN", "Absolute", "Custom", "Hinge", "Huber", "Logistic", "Loss", "SmoothHinge", "Squared"]

FloatArray: TypeAlias = NDArray[np.float64]
Kind: TypeAlias = Literal["classification", "regression"]
ScalarLoss: TypeAlias = Callable[[float, float], float]

#: Names of the built-in losses, the last of them of several scores.
BUILT_IN = ("logistic", "hinge", "smooth_hinge", "squared", "absolute", "huber", "softmax")


def _ceil(exact: Fraction) -> float:
    """Return the smallest double that is at least ``exact``."""
    try:
        nearest = float(exact)
    except OverflowError:
        nearest = math.inf
    if math.isinf(nearest):
        raise InvalidParameter("the bounds are so large that the loss's constants are not finite doubles")
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def _product(a: float, b: float) -> float:
    """Return ``a * b`` rounded up (``a``, ``b`` at least 0, possibly infinite; 0 times infinity is 0)."""
    if a == 0.0 or b == 0.0:
        return 0.0
    return math.inf if math.isinf(a) or math.isinf(b) else _ceil(Fraction(a) * Fraction(b))


def _sum(a: float, b: float) -> float:
    """Return ``a + b`` rounded up (``a``, ``b`` at least 0, possibly infinite)."""
    return math.inf if math.isinf(a) or math.isinf(b) else _ceil(Fraction(a) + Fraction(b))


def _above(x: float) -> float:
    """Return a number above ``x`` by more than the rounding errors of the formulas here (a relative 1e-12)."""
    return math.nextafter(x * (1.0 + 1e-12), math.inf)


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
    return min(2.0, _above(2.0 * math.sqrt((1.0 - high) * (1.0 + high)) * _sigmoid(rho * high)))


def _capped_width(slope: float, offset: float, cap: float) -> float:
    """Return ``2 max_c sqrt(1 - c^2) min(cap, offset + slope c)``, rounded up.

    ``slope`` and ``cap`` may be infinite, not both. The module's docstring has the proof.
    """
    if offset >= cap or math.isinf(slope):
        return 2.0 * cap
    if slope == 0.0:
        return 2.0 * offset
    scale = max(slope, offset)  # no square below can overflow
    a, b = slope / scale, offset / scale
    c = 2.0 * a / (b + math.sqrt(b * b + 8.0 * a * a))
    kink = (cap - offset) / slope  # the subtraction is exact where it cancels
    if kink <= c:
        c = max(0.0, kink)
        return min(2.0 * cap, _above(2.0 * math.sqrt((1.0 - c) * (1.0 + c)) * cap))
    return _above(2.0 * math.sqrt((1.0 - c) * (1.0 + c)) * (b + a * c) * scale)


@dataclass(frozen=True)
class Loss(ABC):
    """A loss ``phi(prediction, y)``, convex in the prediction.

    Attributes
    ----------
    name : str
        The word by which learners accept the loss.
    kind : {"classification", "regression"}
        Classification: ``y`` is -1 or +1. Regression: ``y`` is any real number within the public ``y_bound``.
    code : int
        The loss's number in the compiled kernels.
    width : float
        Half width of the smoothed hinge's quadratic part, threshold of the Huber loss, 0 for the others.
    curvature : float
        Supremum of the second derivative in the prediction, infinite for losses with a kink.
    joint : bool
        Whether it is a loss of several scores at once, one for each class.
    vouched : str or None
        What the user vouched for and privol cannot prove, ``None`` for the built-in losses.
    """

    name: str = field(init=False, repr=False, default="")
    kind: Kind = field(init=False, repr=False, default="classification")
    code: int = field(init=False, repr=False, default=-1)
    width: float = field(init=False, repr=False, default=0.0)
    curvature: float = field(init=False, repr=False, default=math.inf)
    joint: bool = field(init=False, repr=False, default=False)

    @abstractmethod
    def value(self, prediction: ArrayLike, y: ArrayLike) -> Any:
        """Return ``phi(prediction, y)``, elementwise with broadcasting (float64)."""

    @abstractmethod
    def gradient(self, prediction: ArrayLike, y: ArrayLike) -> Any:
        """Return the derivative of ``phi`` in the prediction, elementwise with broadcasting (float64).

        At a kink: 0, which is a subgradient of every loss here.
        """

    @abstractmethod
    def _slope(self, prediction_bound: float, y_bound: float) -> float:
        """Return ``sup |phi'|`` over the ranges, rounded up; may be infinite."""

    def _width(self, rho: float, y_bound: float) -> float:
        """Return the gradient diameter for rows of norm at most 1, models of norm at most ``rho``, rounded up."""
        return 2.0 * self._slope(rho, y_bound)

    @property
    def vouched(self) -> str | None:
        """What the user vouched for, to be repeated in the guarantee."""
        return None

    def lipschitz(self, prediction_bound: float, y_bound: float = 1.0) -> float:
        """Return the supremum of ``|phi'|`` over ``|prediction| <= prediction_bound``, ``|y| <= y_bound``, rounded up.

        Parameters
        ----------
        prediction_bound : float
            At least 0; infinite for all predictions.
        y_bound : float, default=1.0
            At least 0, in the target's units; without effect for classification.

        Raises
        ------
        InvalidParameter
            If a bound is out of range or the supremum is not finite.
        """
        prediction_bound = _extended(prediction_bound=prediction_bound)
        y_bound = number(y_bound=y_bound, at_least=0)
        return self._finite(self._slope(prediction_bound, y_bound))

    def gradient_bound(self, x_bound: float, radius: float, y_bound: float = 1.0) -> float:
        """Return the supremum ``G`` of the L2 norm of a row's gradient, without the regulariser, rounded up.

        Parameters
        ----------
        x_bound : float
            Public bound on a row's L2 norm, at least 0 (the intercept's constant included).
        radius : float
            Bound on the model's L2 norm, at least 0; infinite for all models.
        y_bound : float, default=1.0
            Public bound on ``|y|``; without effect for classification.

        Raises
        ------
        InvalidParameter
            If a bound is out of range or the supremum is not finite (squared loss over all models).
        """
        x_bound, radius, y_bound = _bounds(x_bound, radius, y_bound)
        slope = self._finite(self._slope(_product(x_bound, radius), y_bound))
        return _product(x_bound, slope)

    def gradient_diameter(
        self,
        x_bound: float,
        radius: float,
        y_bound: float = 1.0,
        adjacency: str = "replace",
        everywhere: bool = False,
    ) -> float:
        """Return a bound ``D`` of the distance between the gradients of two neighbouring rows at one model.

        Parameters
        ----------
        x_bound : float
            Public bound on a row's L2 norm, at least 0 (the intercept's constant included).
        radius : float
            Bound on the model's L2 norm, at least 0.
        y_bound : float, default=1.0
            Public bound on ``|y|``; without effect for classification.
        adjacency : {"replace", "zero_out"}
            ``"replace"``: any row for any other. ``"zero_out"``: a row for the null row, whose gradient is 0.
        everywhere : bool, default=False
            Bound over all models in R^d; ``radius`` is then ignored.

        Returns
        -------
        float
            Rounded up. For ``"replace"``: tight in dimensions of at least 2 for the built-in losses (to a factor
            1 + 1e-11), twice :meth:`gradient_bound` for a custom loss. For ``"zero_out"``: :meth:`gradient_bound`.

        Raises
        ------
        InvalidParameter
            If a bound is out of range or no finite bound exists (squared loss over all models).
        """
        if everywhere:
            radius = math.inf
        x_bound, radius, y_bound = _bounds(x_bound, radius, y_bound)
        crude = self.gradient_bound(x_bound, radius, y_bound)  # refuses what has no finite bound
        if choice(("replace", "zero_out"), adjacency=adjacency) == "zero_out":
            return crude
        tight = _product(x_bound, self._width(_product(x_bound, radius), y_bound))
        return min(tight, _product(2.0, crude))

    def _finite(self, slope: float) -> float:
        if math.isinf(slope):
            raise InvalidParameter(
                f"the gradient of the {self.name} loss grows without bound with the model, so no constant holds "
                "over all models; bound the model by a radius, or use the 'huber' or 'absolute' loss"
            )
        return slope


def _extended(**named: Any) -> float:
    """Return the parameter as a number of at least 0, infinity admitted."""
    (value,) = named.values()
    return math.inf if isinstance(value, float) and value == math.inf else number(**named, at_least=0)


def _bounds(x_bound: float, radius: float, y_bound: float) -> tuple[float, float, float]:
    return (
        number(x_bound=x_bound, at_least=0),
        _extended(radius=radius),
        number(y_bound=y_bound, at_least=0),
    )


def _pair(prediction: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
    return np.asarray(prediction, dtype=np.float64), np.asarray(y, dtype=np.float64)


@dataclass(frozen=True)
class Logistic(Loss):
    """Logistic loss ``ln(1 + exp(-y p))``; its model gives probabilities."""

    name: str = field(init=False, repr=False, default="logistic")
    code: int = field(init=False, repr=False, default=0)
    curvature: float = field(init=False, repr=False, default=0.25)

    def value(self, prediction: ArrayLike, y: ArrayLike) -> Any:
        p, y = _pair(prediction, y)
        return np.logaddexp(0.0, -y * p)

    def gradient(self, prediction: ArrayLike, y: ArrayLike) -> Any:
        p, y = _pair(prediction, y)
        m = y * p
        tail = np.exp(-np.abs(m))  # never overflows, and sigma(-m) keeps its relative precision for large m
        return -y * np.where(m >= 0.0, tail, 1.0) / (1.0 + tail)

    def _slope(self, prediction_bound: float, y_bound: float) -> float:
        return min(1.0, _above(_sigmoid(prediction_bound)))

    def _width(self, rho: float, y_bound: float) -> float:
        return _logistic_width(rho)


@dataclass(frozen=True)
class Hinge(Loss):
    """Hinge loss ``max(0, 1 - y p)``; its gradient diameter ``2 x_bound`` is attained at the zero model."""

    name: str = field(init=False, repr=False, default="hinge")
    code: int = field(init=False, repr=False, default=1)

    def value(self, prediction: ArrayLike, y: ArrayLike) -> Any:
        p, y = _pair(prediction, y)
        return np.maximum(0.0, 1.0 - y * p)

    def gradient(self, prediction: ArrayLike, y: ArrayLike) -> Any:
        p, y = _pair(prediction, y)
        return np.where(y * p < 1.0, -y, 0.0)

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

    def _slope(self, prediction_bound: float, y_bound: float) -> float:
        h = Fraction(self.width)
        if prediction_bound >= 2.0 * self.width:
            return 1.0
        return min(1.0, _ceil((1 + h + Fraction(prediction_bound)) / (2 * h)))

    def _width(self, rho: float, y_bound: float) -> float:
        # |phi'| = min(1, (1 + h + rho t) / (2 h)): the profile with everything times 2 h.
        h = self.width
        return min(2.0, _above(_capped_width(rho, _sum(1.0, h), 2.0 * h) / (2.0 * h)))


@dataclass(frozen=True)
class Squared(Loss):
    """Half the squared error, ``(y - p)^2 / 2``."""

    name: str = field(init=False, repr=False, default="squared")
    kind: Kind = field(init=False, repr=False, default="regression")
    code: int = field(init=False, repr=False, default=3)
    curvature: float = field(init=False, repr=False, default=1.0)

    def value(self, prediction: ArrayLike, y: ArrayLike) -> Any:
        p, y = _pair(prediction, y)
        return 0.5 * np.square(p - y)

    def gradient(self, prediction: ArrayLike, y: ArrayLike) -> Any:
        p, y = _pair(prediction, y)
        return p - y

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

    def value(self, prediction: ArrayLike, y: ArrayLike) -> Any:
        p, y = _pair(prediction, y)
        return np.abs(p - y)

    def gradient(self, prediction: ArrayLike, y: ArrayLike) -> Any:
        p, y = _pair(prediction, y)
        return np.sign(p - y)

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

    def _slope(self, prediction_bound: float, y_bound: float) -> float:
        return min(self.width, _sum(prediction_bound, y_bound))

    def _width(self, rho: float, y_bound: float) -> float:
        return _capped_width(rho, y_bound, self.width)


@dataclass(frozen=True, init=False)
class Custom(Loss):
    """A convex loss of the user's own, ``phi(prediction, y)``, given by two functions of two floats.

    Privacy then rests on what the user vouches for (:attr:`vouched`), and the guarantee says so. The constructor
    refuses losses that contradict it on a public grid of predictions and targets; passing the check proves nothing.

    Parameters
    ----------
    value : callable
        ``value(prediction, y) -> float``, convex in the prediction.
    gradient : callable
        ``gradient(prediction, y) -> float``, the derivative (or a subgradient) in the prediction. It must be a
        function of its two arguments only.
    lipschitz : float
        Bound of ``|gradient|`` over all predictions and admissible ``y``; finite, above 0.
    smoothness : float
        Bound of the second derivative in the prediction, at least 0; infinite for losses with a kink. Offline learners
        ask for a finite one, and for a gradient that is computed to some hundred roundings (:attr:`vouched`).
    kind : {"classification", "regression"}, default="classification"
        Whether ``y`` is -1 or +1, or a real number.
    name : str, default="custom"
        How guarantees and reports call the loss.

    Raises
    ------
    InvalidParameter
        If a parameter is out of range, or the functions raise, are not finite, not convex, not consistent with
        each other, or exceed ``lipschitz`` or ``smoothness`` on the grid; the message names the point.
    """

    code: int = field(init=False, repr=False, default=6)
    value_function: ScalarLoss
    gradient_function: ScalarLoss
    lipschitz_constant: float

    #: What the gradient is off by, as computed, over ``lipschitz + smoothness (1 + |prediction| + |y|)``.
    ERROR: ClassVar[float] = 2.0**-46

    # Dyadic, so that differences are exact; each point's close partner makes the check of the derivative sharp.
    _COARSE: ClassVar[tuple[float, ...]] = (-32.0, -16.0, -8.0, *(k / 4 for k in range(-16, 17)), 8.0, 16.0, 32.0)
    _GRID: ClassVar[tuple[float, ...]] = tuple(q for p in _COARSE for q in (p, p + 1 / 256))

    def __init__(
        self,
        *,
        value: ScalarLoss,
        gradient: ScalarLoss,
        lipschitz: float,
        smoothness: float,
        kind: str = "classification",
        name: str = "custom",
    ) -> None:
        for word, function in (("value", value), ("gradient", gradient)):
            if not callable(function):
                raise InvalidParameter(f"{word} must be a function of (prediction, y), found {function!r}")
        if not isinstance(name, str) or not name or name in BUILT_IN:
            raise InvalidParameter(f"name must be a word that is not a built-in loss, found {name!r}")
        vars(self).update(
            name=name,
            kind=choice(("classification", "regression"), kind=kind),
            curvature=_extended(smoothness=smoothness),
            value_function=value,
            gradient_function=gradient,
            lipschitz_constant=number(lipschitz=lipschitz, above=0),
        )
        for y in (-1.0, 1.0) if self.kind == "classification" else (-1.0, -0.5, 0.0, 0.5, 1.0):
            self._spot_check(y)

    @property
    def vouched(self) -> str:
        """What the user vouched for, to be repeated in the guarantee."""
        smooth = ""
        if not math.isinf(self.curvature):
            smooth = (
                f" and returned by its function to within 2^{math.log2(self.ERROR):.0f} ({self.lipschitz_constant!r} + "
                f"{self.curvature!r} (1 + |prediction| + |target|)), that its second derivative is at most "
                f"{self.curvature!r}"
            )
        return (
            f"the user vouches that the loss {self.name!r} is convex in the prediction, that its derivative there "
            f"is at most {self.lipschitz_constant!r} in absolute value{smooth}, for every prediction and admissible "
            "target, and that it is a function of the prediction and the target only, which it neither stores, shows "
            "nor raises (it is called with predictions of the un-noised model)"
        )

    def value(self, prediction: ArrayLike, y: ArrayLike) -> Any:
        return self._apply(self.value_function, prediction, y)

    def gradient(self, prediction: ArrayLike, y: ArrayLike) -> Any:
        return self._apply(self.gradient_function, prediction, y)

    @staticmethod
    def _apply(function: ScalarLoss, prediction: ArrayLike, y: ArrayLike) -> Any:
        p, y = np.broadcast_arrays(*_pair(prediction, y))
        flat = [float(function(a, b)) for a, b in zip(p.ravel().tolist(), y.ravel().tolist(), strict=True)]
        return np.array(flat, dtype=np.float64).reshape(p.shape)[()]

    def _slope(self, prediction_bound: float, y_bound: float) -> float:
        return self.lipschitz_constant

    def _spot_check(self, y: float) -> None:
        bound, tolerance = self.lipschitz_constant, 1e-9
        values = [self._call("value", self.value_function, p, y) for p in self._GRID]
        slopes = [self._call("gradient", self.gradient_function, p, y) for p in self._GRID]
        for p, slope in zip(self._GRID, slopes, strict=True):
            if abs(slope) > bound * (1.0 + tolerance):
                self._refuse(f"has lipschitz {bound:g}, but its gradient is {slope:g} at prediction {p:g}, y {y:g}")
        for (p, q), (a, b), (f, g) in zip(pairwise(self._GRID), pairwise(slopes), pairwise(values), strict=True):
            where = f"between the predictions {p:.8g} and {q:.8g} at y {y:g}"
            if b - a < -tolerance * bound:
                self._refuse(f"is not convex: its gradient falls from {a:g} to {b:g} {where}")
            if b - a > self.curvature * (q - p) + tolerance * bound:
                self._refuse(f"has smoothness {self.curvature:g}, but its gradient rises from {a:g} to {b:g} {where}")
            # A convex function's rise over [p, q] lies between its end slopes times q - p, kinks or not.
            slack = tolerance * (abs(f) + abs(g) + bound * (q - p))
            if not a * (q - p) - slack <= g - f <= b * (q - p) + slack:
                self._refuse(
                    f"has a gradient that is not the derivative of its value: the value rises by {g - f:g} {where}, "
                    f"the gradients there are {a:g} and {b:g}"
                )

    def _call(self, word: str, function: ScalarLoss, p: float, y: float) -> float:
        where = f"at prediction {p:.8g}, y {y:g}"
        try:
            result = float(function(p, y))
        except Exception as error:
            raise InvalidParameter(f"{word} of the loss {self.name!r} raises {error!r} {where}") from error
        if not math.isfinite(result):
            self._refuse(f"has the {word} {result} {where}")
        return result

    def _refuse(self, reason: str) -> NoReturn:
        raise InvalidParameter(f"the loss {self.name!r} {reason}")
