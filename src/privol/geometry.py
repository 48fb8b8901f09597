"""Convex sets in which models live: nearest points, norm bounds, diameters, the first iterate.

All sets are public. :meth:`ConvexSet.project` returns a point that lies in the set up to a relative error of
:data:`FEASIBLE_RTOL`; boxes are met exactly, as are the signs and zeros of the simplex.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._rounding import outward
from ._validate import integer, number
from .errors import InvalidParameter

__all__ = ["FEASIBLE_RTOL", "Box", "ConvexSet", "L1Ball", "L2Ball", "Simplex", "WholeSpace"]

FloatArray: TypeAlias = NDArray[np.float64]

#: How far a projected point may lie outside, relative to the set's size: the worst error of two pairwise sums.
FEASIBLE_RTOL = 2.0**-46

# Sizes whose squares neither overflow nor underflow. The points to project may be any finite doubles.
_SMALLEST, _LARGEST = 1e-150, 1e150


def _scaled(x: FloatArray) -> tuple[FloatArray, int]:
    """Return ``x / 2^k`` with its largest entry in [0.5, 1), and ``k`` (0 for the zero vector)."""
    exponent = math.frexp(float(np.max(np.abs(x))))[1]
    return np.ldexp(x, -exponent), exponent


def _norm(x: FloatArray) -> float:
    """Return ``||x||_2`` to within a few ulp at every scale; infinite if it exceeds all doubles."""
    scaled, exponent = _scaled(x)
    try:
        return math.ldexp(math.sqrt(float(np.sum(np.square(scaled)))), exponent)
    except OverflowError:
        return math.inf


def _above(x: float) -> float:
    """Return a number above ``x``, by more than the error of the formulas here; 0 for 0."""
    return outward(x) if x > 0.0 else 0.0


def _fill(descending: FloatArray, total: float) -> float:
    """Return ``tau > 0`` with ``sum(max(tau - gap, 0)) = total``; gaps are distances from the largest entry.

    Working with gaps avoids cancellation in every sum, however large the entries are compared with ``total``.
    """
    # An entry ``total`` below the largest one becomes 0; the cut keeps the sums finite.
    gaps = np.minimum(descending[0] - descending, 2.0 * total)
    count = np.arange(1, gaps.size + 1)
    active = int(np.count_nonzero(count * gaps < total + np.cumsum(gaps)))
    return (total + float(np.sum(gaps[:active]))) / active


def _onto_simplex(x: FloatArray, total: float) -> FloatArray:
    """Return the point of ``{p >= 0, sum p = total}`` nearest to ``x`` (sorting, O(d log d))."""
    with np.errstate(over="ignore"):  # a gap may overflow: it is beyond the cut
        descending = np.sort(x)[::-1]
        tau = _fill(descending, total)
        p = np.maximum(tau - (descending[0] - x), 0.0)
    # The d roundings of p add up; one common factor puts the sum back. Its own error is within FEASIBLE_RTOL.
    nearest: FloatArray = p * (total / float(np.sum(p)))
    return nearest


@dataclass(frozen=True)
class ConvexSet(ABC):
    """A closed convex set of R^d.

    Attributes
    ----------
    code : int
        The set's number in the compiled kernels.
    """

    code: int = field(init=False, repr=False, default=-1)

    def check_dimension(self, dim: int) -> None:
        """Raise :class:`~privol.errors.InvalidParameter` unless the set has points of dimension ``dim``."""
        integer(dim=dim, at_least=1)

    def project(self, x: ArrayLike) -> FloatArray:
        """Return the point of the set nearest to ``x``.

        Parameters
        ----------
        x : array_like of shape (d,)
            Any finite vector.

        Returns
        -------
        ndarray of shape (d,)
            A new float64 array, in the set up to a relative error of :data:`FEASIBLE_RTOL`.

        Raises
        ------
        InvalidParameter
            If ``x`` is not a finite vector of a dimension that the set admits.
        """
        return self._project(self._vector(x))

    def contains(self, x: ArrayLike, rtol: float = FEASIBLE_RTOL) -> bool:
        """Return whether ``x`` of shape (d,) lies in the set up to ``rtol`` times the set's size."""
        rtol = number(rtol=rtol, at_least=0)
        return self._contains(self._vector(x), rtol)

    def start(self, dim: int) -> FloatArray:
        """Return the first iterate, which depends on no data: the point of the set nearest to 0."""
        self.check_dimension(dim)
        return self._project(np.zeros(dim))

    @abstractmethod
    def norm_bound(self, dim: int) -> float:
        """Return the supremum of ``||x||_2`` over the set in dimension ``dim``, rounded up."""

    @abstractmethod
    def diameter(self, dim: int) -> float:
        """Return the supremum of ``||x - x'||_2`` over the set in dimension ``dim``, rounded up."""

    @abstractmethod
    def _project(self, x: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _contains(self, x: FloatArray, rtol: float) -> bool: ...

    def _vector(self, x: ArrayLike) -> FloatArray:
        vector = np.array(x, dtype=np.float64)
        if vector.ndim != 1 or not np.all(np.isfinite(vector)):
            raise InvalidParameter(f"x must be a vector of finite numbers, found {x!r}")
        self.check_dimension(vector.size)
        return vector


@dataclass(frozen=True)
class L2Ball(ConvexSet):
    """Vectors with ``||x||_2 <= radius``.

    Parameters
    ----------
    radius : float, default=1.0
        From 1e-150 to 1e150.
    """

    code: int = field(init=False, repr=False, default=0)
    radius: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", number(radius=self.radius, at_least=_SMALLEST, at_most=_LARGEST))

    def norm_bound(self, dim: int) -> float:
        self.check_dimension(dim)
        return self.radius

    def diameter(self, dim: int) -> float:
        self.check_dimension(dim)
        return 2.0 * self.radius

    def _project(self, x: FloatArray) -> FloatArray:
        length = _norm(x)
        if length <= self.radius:
            return x
        scaled, _ = _scaled(x)  # so that the quotient is an ordinary number whatever the length
        return scaled * (self.radius / _norm(scaled))

    def _contains(self, x: FloatArray, rtol: float) -> bool:
        return _norm(x) <= self.radius * (1.0 + rtol)


@dataclass(frozen=True)
class L1Ball(ConvexSet):
    """Vectors with ``||x||_1 <= radius``.

    Parameters
    ----------
    radius : float, default=1.0
        From 1e-150 to 1e150.
    """

    code: int = field(init=False, repr=False, default=1)
    radius: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", number(radius=self.radius, at_least=_SMALLEST, at_most=_LARGEST))

    def norm_bound(self, dim: int) -> float:
        self.check_dimension(dim)
        return self.radius  # at a vertex

    def diameter(self, dim: int) -> float:
        self.check_dimension(dim)
        return 2.0 * self.radius  # between opposite vertices

    def _project(self, x: FloatArray) -> FloatArray:
        size = np.abs(x)
        if float(np.max(size)) <= self.radius and float(np.sum(size)) <= self.radius:
            return x
        return np.copysign(_onto_simplex(size, self.radius), x) + 0.0  # no negative zeros

    def _contains(self, x: FloatArray, rtol: float) -> bool:
        size = np.abs(x)
        bound = self.radius * (1.0 + rtol)
        return float(np.max(size)) <= bound and float(np.sum(size)) <= bound


@dataclass(frozen=True, eq=False)
class Box(ConvexSet):
    """Vectors with ``low <= x <= high``, coordinate by coordinate.

    Parameters
    ----------
    low, high : float or array_like of shape (d,)
        ``low <= high``, both at most 1e150 in absolute value. A scalar holds for every coordinate; two scalars
        make a box of any dimension. Stored as a float or as a read-only array.
    """

    code: int = field(init=False, repr=False, default=2)
    low: float | FloatArray = -1.0
    high: float | FloatArray = 1.0

    def __post_init__(self) -> None:
        for name, value in (("low", self.low), ("high", self.high)):
            object.__setattr__(self, name, self._side(name, value))
        low, high = np.asarray(self.low), np.asarray(self.high)
        if low.ndim and high.ndim and low.shape != high.shape:
            raise InvalidParameter(f"low and high must have one length, found {low.size} and {high.size}")
        if np.any(low > high):
            raise InvalidParameter("low must be at most high in every coordinate")

    @staticmethod
    def _side(name: str, value: ArrayLike) -> float | FloatArray:
        if np.ndim(value) == 0:
            return number(**{name: value}, at_least=-_LARGEST, at_most=_LARGEST)  # type: ignore[arg-type]
        try:
            side = np.array(value, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidParameter(f"{name} must be a number or a vector, found {value!r}") from None
        if side.ndim != 1 or side.size == 0 or not np.all(np.abs(side) <= _LARGEST):
            raise InvalidParameter(f"{name} must be a vector of numbers of at most {_LARGEST:g} in size")
        side.flags.writeable = False
        return side

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Box):
            return NotImplemented
        return np.array_equal(self.low, other.low) and np.array_equal(self.high, other.high)

    def __hash__(self) -> int:
        return hash((Box, np.ravel(self.low).tobytes(), np.ravel(self.high).tobytes()))

    def check_dimension(self, dim: int) -> None:
        """Raise :class:`~privol.errors.InvalidParameter` unless the set has points of dimension ``dim``."""
        super().check_dimension(dim)
        for side in (self.low, self.high):
            if isinstance(side, np.ndarray) and side.size != dim:
                raise InvalidParameter(f"the box has {side.size} coordinates, the model has {dim}")

    def bounds(self, dim: int) -> tuple[FloatArray, FloatArray]:
        """Return ``low`` and ``high`` as new arrays of shape (dim,)."""
        self.check_dimension(dim)
        return np.full(dim, self.low), np.full(dim, self.high)

    def norm_bound(self, dim: int) -> float:
        low, high = self.bounds(dim)
        return _above(_norm(np.maximum(np.abs(low), np.abs(high))))

    def diameter(self, dim: int) -> float:
        low, high = self.bounds(dim)
        return _above(_norm(high - low))

    def _project(self, x: FloatArray) -> FloatArray:
        return np.minimum(np.maximum(x, self.low), self.high)

    def _contains(self, x: FloatArray, rtol: float) -> bool:
        low, high = self.bounds(x.size)
        slack = rtol * np.maximum(np.abs(low), np.abs(high))
        return bool(np.all(x >= low - slack) and np.all(x <= high + slack))


@dataclass(frozen=True)
class Simplex(ConvexSet):
    """Vectors with entries of at least 0 that sum to ``total``.

    Parameters
    ----------
    total : float, default=1.0
        From 1e-150 to 1e150.
    """

    code: int = field(init=False, repr=False, default=3)
    total: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", number(total=self.total, at_least=_SMALLEST, at_most=_LARGEST))

    def norm_bound(self, dim: int) -> float:
        self.check_dimension(dim)
        return self.total  # at a vertex

    def diameter(self, dim: int) -> float:
        self.check_dimension(dim)
        return 0.0 if dim == 1 else _above(math.sqrt(2.0) * self.total)  # between two vertices

    def _project(self, x: FloatArray) -> FloatArray:
        return _onto_simplex(x, self.total)

    def _contains(self, x: FloatArray, rtol: float) -> bool:
        slack = rtol * self.total
        if float(np.min(x)) < -slack or float(np.max(x)) > self.total + slack:
            return False
        return abs(float(np.sum(x)) - self.total) <= slack


@dataclass(frozen=True)
class WholeSpace(ConvexSet):
    """All vectors, for learners that need no bound on their models; the other learners refuse it."""

    code: int = field(init=False, repr=False, default=4)

    def norm_bound(self, dim: int) -> float:
        self.check_dimension(dim)
        return math.inf

    def diameter(self, dim: int) -> float:
        self.check_dimension(dim)
        return math.inf

    def _project(self, x: FloatArray) -> FloatArray:
        return x

    def _contains(self, x: FloatArray, rtol: float) -> bool:
        return True
