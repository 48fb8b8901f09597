"""A user's own convex loss."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar, NoReturn, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from .._validate import choice, number
from .._vocabulary import LOSSES
from ..errors import InvalidParameter
from ._loss import Loss, _extended, _pair

__all__ = ["Custom"]

ScalarLoss: TypeAlias = Callable[[float, float], float]


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

    code: int = field(init=False, repr=False, default=-1)
    value_function: ScalarLoss
    gradient_function: ScalarLoss
    lipschitz_constant: float

    #: The error of the computed gradient, over ``lipschitz + smoothness (1 + |prediction| + |y|)``.
    ERROR: ClassVar[float] = 2.0**-46
    #: The step of the difference quotient for the second derivative.
    STEP: ClassVar[float] = 2.0**-20

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
        if not isinstance(name, str) or not name or name in LOSSES:
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

    def second_derivative(self, prediction: ArrayLike, y: ArrayLike) -> Any:
        """See :meth:`Loss.second_derivative`: a difference quotient, within the bound that the user vouched for."""
        if math.isinf(self.curvature):
            return super().second_derivative(prediction, y)
        p, y = _pair(prediction, y)
        rise = np.asarray(self.gradient(p + self.STEP, y)) - np.asarray(self.gradient(p, y))
        return np.clip(rise / self.STEP, 0.0, self.curvature)

    def to_record(self) -> dict[str, Any]:
        """See :meth:`Loss.to_record`; it does not contain the functions."""
        return {"name": self.name, "custom": True}

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
            # A convex function's increase over [p, q] lies between its end slopes times q - p, kinks or not.
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
