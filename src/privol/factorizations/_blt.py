"""Buffered linear Toeplitz factorisations: norms for any parameters, and their optimisation."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._roots import falling_root
from .._rounding import UP
from .._validate import choice, integer, number
from .._vocabulary import OBJECTIVES
from ..errors import InvalidParameter
from ._designs import MAX_STEPS
from ._toeplitz import Toeplitz

__all__ = ["BLT", "OBJECTIVES", "improvements", "optimise_blt", "products_of_columns"]


_Sums = Callable[[NDArray[Any], float], NDArray[Any]]

_SMALLEST = 1e-250
_CLOSEST = 1e-9  # least difference of two decay rates, and of one from 1
_STARTS = ((1.0, 0.2), (0.8, 0.1), (0.9, 0.02), (0.6, 0.05))


@dataclass(frozen=True)
class BLT(Toeplitz):
    """A Toeplitz matrix C with coefficients 1 and ``sum_j omega_j theta_j**(k-1)``: one buffer for every theta.

    Parameters
    ----------
    steps : int
    theta : sequence of float
        Decay rates, within (0, 1), falling, no two (and none and 1) closer than 1e-9. None at all gives the identity.
    omega : sequence of float
        Weights, above 0, with ``sum(omega / theta) <= 1``: then the inverse of C has coefficients of one sign.
    decay, window : optional
        Of discounted or sliding sums: C has ``decay * theta`` and ``decay * omega`` instead, see :class:`Toeplitz`.

    Notes
    -----
    Norms and errors hold for all such parameters: poor ones cost accuracy, never privacy.
    """

    design = "blt"
    theta: tuple[float, ...]
    omega: tuple[float, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.theta, str) or isinstance(self.omega, str) or len(self.theta) != len(self.omega):
            raise InvalidParameter("theta and omega must be sequences of the same length")
        theta = tuple(number(theta=t, above=0.0, below=1.0) for t in self.theta)
        omega = tuple(number(omega=w, above=0.0, at_most=1.0) for w in self.omega)
        for larger, smaller in itertools.pairwise((1.0, *theta)):
            if not larger - smaller >= _CLOSEST:
                raise InvalidParameter(
                    f"theta must fall from below 1 in steps of at least {_CLOSEST:g}, found {smaller!r} "
                    f"after {larger!r}"
                )
        if (load := math.fsum(w / t for w, t in zip(omega, theta, strict=True))) > 1.0:
            raise InvalidParameter(f"omega is too large: the sum of omega / theta must not exceed 1, found {load:.6g}")
        object.__setattr__(self, "theta", theta)
        object.__setattr__(self, "omega", omega)
        if min((x for numbers in self.recursion for x in numbers), default=1.0) < _SMALLEST:
            raise InvalidParameter(f"theta and omega must be at least {_SMALLEST:g} after decay={self.decay:g}")

    @property
    def column_norm(self) -> float:
        """Norm of C's first column, which holds all coefficients; cost O(buffers**2)."""
        return math.sqrt(self._square) * UP

    @property
    def recursion(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Decay rates and weights of C's buffers: ``theta`` and ``omega`` times ``decay``, rounded."""
        return tuple(self.decay * t for t in self.theta), tuple(self.decay * w for w in self.omega)

    @property
    def memory(self) -> int:
        """One secret and one public buffer for every theta; for sliding sums also a window's noisy increments."""
        return 2 * len(self.theta) + self._kept

    @functools.cached_property
    def _square(self) -> float:
        # Terms are positive, and each is accurate to a few units in the last place: so is theta's logarithm near 1.
        rates, weights = self.recursion
        log, weight = np.log(np.array(rates)), np.array(weights)
        return 1.0 + float(np.sum(np.outer(weight, weight) * _geometric(np.add.outer(log, log), self.steps - 1)))

    @functools.cached_property
    def _inverse(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """1 - rate (discount apart) and weight of the exponentials that B's coefficients sum; the first rate is 1."""
        gap, weight = 1.0 - np.array(self.theta), np.array(self.omega)
        count = len(gap)
        offset = np.empty(count)  # of the j-th root of sum omega / (y - gap) = 1 above gap j
        for j in range(count):
            others = [i for i in range(count) if i not in (j, j + 1)]
            if j + 1 < count:
                width, right = gap[j + 1] - gap[j], weight[j + 1]
            else:
                width, right = self.theta[j], 0.0

            def secular(
                d: float,
                j: int = j,
                width: float = width,
                right: float = right,
                others: list[int] = others,
            ) -> float:
                rest = sum(weight[i] / (d + (gap[j] - gap[i])) for i in others) - 1.0
                if right == 0.0:
                    return float(d * rest + weight[j])
                return float(d * (width - d) * rest + weight[j] * (width - d) - right * d)

            # At the far end of the last interval sum(omega / theta) <= 1 holds, possibly up to a rounding.
            offset[j] = width if secular(width) > 0.0 else falling_root(secular, width)
        inverse_gap = gap + offset
        # the differences gap_i - inverse_gap_j, computed without cancellation
        across = gap[:, None] - gap[None, :] - offset[None, :]
        within = inverse_gap[:, None] - inverse_gap[None, :] + np.eye(count)
        inverse_weight = np.prod(across, axis=0) / np.prod(within, axis=0)
        if self.window is None:
            first = np.prod(gap / inverse_gap)
        else:  # the rate of running sums is 1; those of C and of its inverse are multiplied by decay
            lost = 1.0 - self.decay
            gap, inverse_gap = lost + self.decay * gap, lost + self.decay * inverse_gap
            inverse_weight, first = self.decay * inverse_weight, np.prod(gap / inverse_gap)
        return np.append(0.0, inverse_gap), np.append(first, -inverse_weight / inverse_gap)

    @functools.cached_property
    def _exponentials(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Logarithms of the rates, and weights, of the exponentials that B's coefficients sum, up to a window."""
        gap, weight = self._inverse
        with np.errstate(divide="ignore"):
            log = np.log1p(-gap)  # minus infinity for a rate of 0
        return log if self.window is not None else log + math.log(self.decay), weight

    @functools.cached_property
    def _beyond(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Rates and weights for the coefficients from ``window`` on: differences in which the rate 1 has cancelled."""
        log, weight = self._exponentials
        return log[1:], weight[1:] * np.expm1(self._kept * log[1:])

    def average_norm(self, weights: ArrayLike, step: int) -> float:
        """Standard deviation of a weighted sum of noisy prefixes, in units of sigma: their noise is correlated.

        Parameters
        ----------
        weights : array-like of shape (n,)
            Of the prefixes after the last n steps up to ``step``, in their order.
        step : int
            At least n, at most ``steps``.

        Raises
        ------
        InvalidParameter
            If there are more weights than steps, or sums slide.

        Notes
        -----
        Cost O(n buffers), whatever the number of steps: the noise drawn before reaches all n prefixes by the same few
        decaying sums.
        """
        step, sizes = self._step(step), np.asarray(weights, dtype=np.float64)
        if self._kept or len(sizes) > step:
            raise InvalidParameter(f"weights must be of at most {step} running sums, found {len(sizes)} of {self}")
        log, size = self._exponentials
        rates, reached, total = np.exp(log), np.zeros(len(log)), 0.0
        for weight in sizes[::-1]:
            reached = reached * rates + weight
            total += float(np.sum(size * reached)) ** 2
        left = size * reached * rates
        total += float(np.sum(np.outer(left, left) * _geometric(np.add.outer(log, log), step - len(sizes))))
        return math.sqrt(total)

    def lag_norms(self, quick: ArrayLike, slow: ArrayLike) -> NDArray[np.float64]:
        """Standard deviations of the difference between two running averages of noisy prefixes, in units of sigma.

        Parameters
        ----------
        quick, slow : array-like of shape (n,)
            What each of the first n prefixes counts in either average as it comes, in [0, 1]; the mean so far counts
            the rest.

        Returns
        -------
        ndarray of shape (n,)
            After each of the steps.

        Raises
        ------
        InvalidParameter
            If there are more prefixes than steps, or sums slide.

        Notes
        -----
        By the covariance of the sums that noise decays in, of one average and of the difference, from step to step:
        cost O(n buffers**3).
        """
        one, other = np.asarray(quick, dtype=np.float64), np.asarray(slow, dtype=np.float64)
        if self._kept or one.shape != other.shape or not len(one) <= self.steps:
            raise InvalidParameter(f"averages must be of at most {self.steps} running sums of {self}")
        log, size = self._exponentials
        rates, n = np.exp(log), len(log)
        move, reach = np.zeros((n + 2, n + 2)), np.ones(n + 2)
        move[:n, :n] = np.diag(rates)
        covariance, found = np.zeros((n + 2, n + 2)), np.zeros(len(one))
        for step, (a, b) in enumerate(zip(one.tolist(), other.tolist(), strict=True)):
            # mean += a (S - mean); lag = (1 - b) lag + (a - b) (S - mean), S the sum over the decayed noise
            move[n, :n], move[n, n], reach[n] = a * size * rates, 1.0 - a, a * size.sum()
            move[n + 1, :n], move[n + 1, n], reach[n + 1] = (a - b) * size * rates, b - a, (a - b) * size.sum()
            move[n + 1, n + 1] = 1.0 - b
            covariance = _ordered_product(move, _ordered_product(covariance, move.T)) + np.outer(reach, reach)
            found[step] = math.sqrt(max(covariance[n + 1, n + 1], 0.0))
        return found

    def _row_square(self, step: int) -> float:
        within = min(step, self._kept or step)
        found = self._total(_geometric, self._exponentials, within)
        return found if within == step else found + self._total(_geometric, self._beyond, step - within)

    def _mean_row_square(self) -> float:
        n, w = self.steps, self._kept
        if not w:
            return self._total(_average_geometric, self._exponentials, n)
        # coefficient k is in n - k rows
        full = (n - w) * self._total(_geometric, self._exponentials, w)
        begun = w * self._total(_average_geometric, self._exponentials, w)
        return (full + begun + (n - w) * self._total(_average_geometric, self._beyond, n - w)) / n

    @staticmethod
    def _total(sums: _Sums, terms: tuple[NDArray[np.float64], NDArray[np.float64]], count: int) -> float:
        """A sum of squares of sums of exponentials."""
        log, weight = terms
        return float(np.sum(np.outer(weight, weight) * sums(np.add.outer(log, log), count)))


def _ordered_product(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """A product of small matrices whose sums are added in order: BLAS adds in another order on each processor."""
    found: NDArray[np.float64] = np.add.reduce(left.T[:, :, np.newaxis] * right[:, np.newaxis, :], axis=0)
    return found


def products_of_columns(
    log: NDArray[Any], weight: NDArray[Any], lags: NDArray[np.int64], left: NDArray[np.int64]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return inner products of the columns of a BLT's C that several rows of a user are in; real or complex.

    Parameters
    ----------
    log, weight : ndarray of shape (buffers,)
        Logarithms of the decay rates of C, and its weights.
    lags : ndarray of shape (rows,)
        0, and from each later row to the first one, in steps: never falling.
    left : ndarray of shape (rows,)
        Rows of C from the one of that row on, at least 1.

    Returns
    -------
    alone, before : ndarray of shape (rows,)
        Of the column of row j with itself, and the sum of those with columns that are lags 1 to j before it.
    """
    # Coefficient l is 1 or a sum of exponentials, and the sum over earlier rows one over their lags.
    powers = np.exp(np.outer(log, lags))
    coefficients = np.where(
        lags == 0, 1.0, np.sum(weight[:, None] * np.exp(np.outer(log, np.maximum(lags - 1, 0))), axis=0)
    )
    earlier = np.append(0.0 * powers[:, :1], np.cumsum(powers[:, 1:], axis=1), axis=1)  # only positive terms
    alone, before = np.ones(len(lags)), np.append(0.0, np.cumsum(coefficients[1:]))
    for p in range(len(log)):
        for q in range(len(log)):
            rate = log[p] + log[q]
            both = weight[p] * weight[q] * (np.expm1((left - 1) * rate) / np.expm1(rate))
            alone = alone + both
            before = before + both * earlier[q]
    return alone, before


def product_at_lag(
    log: NDArray[np.float64], weight: NDArray[np.float64], lag: int, left: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the inner products of two columns of a BLT's C, ``lag`` steps from each other.

    Parameters
    ----------
    log, weight : ndarray of shape (buffers,)
        As for :func:`products_of_columns`.
    lag : int
        At least 0.
    left : ndarray of shape (rows,)
        Rows of C from the one of the later column on, at least 1.
    """
    powers = np.exp(log * lag)
    first = float(np.sum(weight * np.exp(log * (lag - 1)))) if lag else 1.0
    found = np.full(len(left), first)
    for p in range(len(log)):
        for q in range(len(log)):
            rate = log[p] + log[q]
            found += weight[p] * weight[q] * powers[q] * (np.expm1((left - 1) * rate) / np.expm1(rate))
    return found


def optimise_blt(
    steps: int, buffers: int, objective: str = "max", *, rows_per_user: int = 1, user_separation: int = 1
) -> BLT:
    """Find the parameters of a BLT of least error.

    Parameters
    ----------
    steps : int
        2 to 2**48.
    buffers : int
        1 to 8. No more are taken than lower the error by 1e-7 relative each.
    objective : {"max", "mean"}
        Error to minimise.
    rows_per_user, user_separation : int, default=1
        For noise that covers this many rows of a user, 1 to 1024, any two at least this many steps apart.

    Returns
    -------
    BLT

    Notes
    -----
    BFGS over the logarithms of the gaps between the interlacing rates of C and its inverse, from a few fixed starts,
    with derivatives by complex steps. Seconds for 8 buffers; the result's last digits depend on the machine.
    """
    steps = integer(steps=steps, at_least=2, at_most=MAX_STEPS)
    buffers = integer(buffers=buffers, at_least=1, at_most=8)
    choice(OBJECTIVES, objective=objective)
    rows = integer(rows_per_user=rows_per_user, at_least=1, at_most=1024)
    apart = integer(user_separation=user_separation, at_least=1, at_most=MAX_STEPS)
    found = list(improvements(steps, buffers, objective, _places(steps, rows, apart)))
    if not found:
        raise InvalidParameter(f"no buffer lowers the error over steps={steps}: use design='independent'")
    return found[-1]


_Places = tuple[NDArray[np.int64], NDArray[np.int64]]


def _places(steps: int, rows: int, apart: int) -> _Places:
    """Steps before the worst positions of a user's rows, for those that fit, and the rows of C from there on."""
    lags = np.array([j * apart for j in range(min(rows, -(-steps // apart)))], dtype=np.int64)
    return lags, steps - lags


def _user_square(log: NDArray[Any], weight: NDArray[Any], places: _Places) -> Any:
    """Squared change by all rows of a user, in the worst pattern."""
    alone, before = products_of_columns(log, weight, *places)
    return np.sum(alone) + 2.0 * np.sum(before)


def improvements(steps: int, buffers: int, objective: str, places: _Places | None = None) -> Iterator[BLT]:
    """Yield the best BLT of 1, 2, ... buffers for as long as one more lowers the error by 1e-7 relative.

    ``places``: of the rows of a user that the noise is to cover; None: of one row.
    """
    places = _places(steps, 1, 1) if places is None else places
    least = math.inf
    for count in range(1, buffers + 1):
        best: BLT | None = None
        error = least * (1.0 - 1e-7) if count > 1 else least
        for start in _STARTS:
            gap, _, weight, _ = _interlaced(_descend(steps, count, objective, start, places))
            try:
                made = BLT(steps, tuple((1.0 - gap).tolist()), tuple(weight.tolist()))
            except InvalidParameter:  # rates have merged, or one is 1: fewer buffers are as good
                continue
            # results of the search at points where rates nearly merge may be rounding
            value = made.max_error() if objective == "max" else made.mean_error()
            if len(places[0]) > 1:
                rates, weights = (np.array(numbers) for numbers in made.recursion)
                value *= math.sqrt(float(_user_square(np.log(rates), weights, places))) / made.column_norm
            if value < error:
                best, error = made, value
        if best is None:
            return
        yield best
        least = error


def _geometric(log: NDArray[Any], count: float) -> NDArray[Any]:
    """Sum of ``exp(log k)`` over ``0 <= k < count``, for ``log <= 0``."""
    with np.errstate(invalid="ignore", divide="ignore"):
        found = np.expm1(count * log) / np.expm1(log)
    return np.where(log == 0.0, count, found) if count else np.zeros_like(log)


def _average_geometric(log: NDArray[Any], count: float) -> NDArray[Any]:
    """Sum of ``(1 - k / count) exp(log k)`` over ``0 <= k < count``."""
    y, n = -log, float(count)
    with np.errstate(invalid="ignore", divide="ignore"):
        gap = -np.expm1(-y)
        found = (1.0 - np.exp(-y) * -np.expm1(-n * y) / (n * gap)) / gap
        series = (n + 1) / 2 - y * (n * n - 1) / 6 + y * y * n * (n * n - 1) / 24
        average: NDArray[Any] = np.where(n * np.real(y) < 1e-4, series, found)
    return average


def _interlaced(point: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """1 - theta, 1 - (rates of the inverse), omega and the inverse's weights, from unconstrained numbers."""
    value = np.exp(-np.cumsum(np.exp(point[::-1]))[::-1])
    gap, inverse_gap = value[0::2], value[1::2]
    eye = np.eye(len(gap))
    weight = np.prod(inverse_gap[None, :] - gap[:, None], axis=1) / np.prod(gap[None, :] - gap[:, None] + eye, axis=1)
    inverse_weight = np.prod(gap[None, :] - inverse_gap[:, None], axis=1) / np.prod(
        inverse_gap[None, :] - inverse_gap[:, None] + eye, axis=1
    )
    return gap, inverse_gap, weight, inverse_weight


def _logarithm(point: NDArray[Any], steps: int, objective: str, places: _Places) -> Any:
    """Logarithm of the squared error of the BLT at an unconstrained point, real or complex."""
    gap, inverse_gap, weight, inverse_weight = _interlaced(point)
    log, rates = np.log1p(-gap), np.log1p(-np.append(0.0, inverse_gap))
    size = np.append(np.prod(gap / inverse_gap), -inverse_weight / inverse_gap)
    sums = _geometric if objective == "max" else _average_geometric
    column = _user_square(log, weight, places)
    return np.log(column) + np.log(np.sum(np.outer(size, size) * sums(np.add.outer(rates, rates), steps)))


def _descend(
    steps: int, buffers: int, objective: str, start: tuple[float, float], places: _Places
) -> NDArray[np.float64]:
    def function(point: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        with np.errstate(all="ignore"):  # a wild trial point has a value that is not finite, and so is rejected
            value = float(np.real(_logarithm(point, steps, objective, places)))
            tilted = [_logarithm(point + 1e-30j * e, steps, objective, places) for e in np.eye(len(point))]
        if not math.isfinite(value):
            return 1e10, np.zeros_like(point)
        return value, np.imag(np.array(tilted)) / 1e-30

    from scipy.optimize import minimize  # takes longer to import than the rest here, and is rarely needed

    log_gap = np.linspace(max(math.log(steps), 1.0) * start[0], start[1], 2 * buffers)
    initial = np.log(np.append(log_gap[:-1] - log_gap[1:], log_gap[-1]))
    found = minimize(function, initial, jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 2000})
    point: NDArray[np.float64] = found.x
    return point
