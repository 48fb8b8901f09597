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
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._rounding import ceil_double, outward
from .._validate import choice, number
from ..errors import InvalidParameter

__all__ = ["Loss"]

FloatArray: TypeAlias = NDArray[np.float64]
Kind: TypeAlias = Literal["classification", "regression"]


def _ceil(exact: Fraction) -> float:
    """Return the smallest double that is at least ``exact``."""
    found = ceil_double(exact)
    if math.isinf(found):
        raise InvalidParameter("the bounds are so large that the loss's constants are not finite doubles")
    return found


def _product(a: float, b: float) -> float:
    """Return ``a * b`` rounded up (``a``, ``b`` at least 0, possibly infinite; 0 times infinity is 0)."""
    if a == 0.0 or b == 0.0:
        return 0.0
    return math.inf if math.isinf(a) or math.isinf(b) else _ceil(Fraction(a) * Fraction(b))


def _sum(a: float, b: float) -> float:
    """Return ``a + b`` rounded up (``a``, ``b`` at least 0, possibly infinite)."""
    return math.inf if math.isinf(a) or math.isinf(b) else _ceil(Fraction(a) + Fraction(b))


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
        return min(2.0 * cap, outward(2.0 * math.sqrt((1.0 - c) * (1.0 + c)) * cap))
    return outward(2.0 * math.sqrt((1.0 - c) * (1.0 + c)) * (b + a * c) * scale)


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
        The loss's number in the compiled kernels; -1 for the user's own, which they call, below it for none.
    width : float
        Half width of the smoothed hinge's quadratic part, threshold of the Huber loss, 0 for the others.
    curvature : float
        Supremum of the second derivative in the prediction, infinite for losses with a kink.
    joint : bool
        Whether it is a loss of several scores at once, one for each class.
    vouched : str or None
        What the user vouched for and privol cannot prove, ``None`` for the built-in losses.
    log_odds : bool
        Whether predictions are log-odds of the classes, and the loss the negative logarithm of the true class's
        probability. For a single score that is ``|phi''| = |phi'| (1 - |phi'|)``.
    one_sided : bool
        Whether ``phi'`` has the same sign at all predictions, for each ``y``.
    quadratic : bool
        Whether it is ``(y - p)^2 / 2``, so that moments of the rows say all of it.
    piecewise : bool
        Whether the second derivative jumps, or nothing is known of it: solvers then take their steps more exactly.
    smooth_name : str
        The smooth loss to take instead of one with a kink; empty where there is none.
    ERROR : float
        What the gradient is off by as computed, over ``curvature (1 + |prediction| + |y|)`` and its own bound, beyond a
        few roundings of itself.
    """

    name: str = field(init=False, repr=False, default="")
    kind: Kind = field(init=False, repr=False, default="classification")
    code: int = field(init=False, repr=False, default=-2)
    width: float = field(init=False, repr=False, default=0.0)
    curvature: float = field(init=False, repr=False, default=math.inf)
    joint: bool = field(init=False, repr=False, default=False)

    log_odds: ClassVar[bool] = False
    one_sided: ClassVar[bool] = False
    quadratic: ClassVar[bool] = False
    piecewise: ClassVar[bool] = True
    smooth_name: ClassVar[str] = ""
    ERROR: ClassVar[float] = 0.0

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

    def second_derivative(self, prediction: ArrayLike, y: ArrayLike) -> Any:
        """Return the second derivative of ``phi`` in the prediction, elementwise with broadcasting (float64).

        Where it jumps, the value outside of the bend. For solvers and audits, on which no guarantee rests.

        Raises
        ------
        InvalidParameter
            If the loss has a kink or is of several scores.
        """
        raise InvalidParameter(f"the {self.name} loss has no second derivative: it has a kink or is of several scores")

    def pull(self, prediction_bound: float, y_bound: float = 1.0) -> float:
        """Return a bound of ``-phi'(p, y) p`` over the ranges, to about a rounding: how a row draws ``p`` outwards.

        Parameters
        ----------
        prediction_bound, y_bound : float
            As of :meth:`lipschitz`; finite.

        Notes
        -----
        Always at most ``lipschitz(prediction_bound) prediction_bound``, which is what is returned where nothing better
        is known; the supremum for the smooth built-in losses.
        """
        return self.lipschitz(prediction_bound, y_bound) * prediction_bound

    def bounded(self, prediction_bound: float, y_bound: float) -> Loss:
        """Return a loss whose slope is bounded over all predictions, and which is this one up to ``prediction_bound``.

        Raises
        ------
        InvalidParameter
            If none is known.
        """
        self.lipschitz(math.inf, y_bound)
        return self

    @property
    def steep(self) -> bool:
        """Whether the slope grows without bound with the prediction."""
        return math.isinf(self._slope(math.inf, 1.0))

    def stand_ins(self) -> tuple[tuple[Loss, float], ...]:
        """Losses and factors that approach this one, each better: smooth ones for a loss with a kink, else itself.

        At every prediction the slope of a stand-in, times its factor, is a subgradient of this loss at some prediction.
        """
        return ((self, 1.0),)

    def line(self, slope: FloatArray, y: FloatArray) -> FloatArray | None:
        """Return the values at 0 of the highest lines with these slopes that nowhere exceed the loss.

        The slopes are those of :meth:`stand_ins`, possibly times positive weights, which the values then have too.
        ``None`` where the only such line that is known is the tangent at the prediction itself.
        """
        return None

    def to_record(self) -> dict[str, Any]:
        """Return the loss as JSON values, from which :func:`privol.losses.from_record` rebuilds it."""
        return {"name": self.name, **({"width": self.width} if self.width > 0.0 else {})}

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
        crude = self.gradient_bound(x_bound, radius, y_bound)  # refuses losses without a finite bound
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
    """Return the parameter as a number of at least 0, infinity included."""
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
