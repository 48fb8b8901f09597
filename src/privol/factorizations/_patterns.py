"""The joint effect of several rows of one user, in any positions of the stream.

A user has at most ``rows`` rows, any two of them at least ``separation`` apart. Their leaves change by a vector of norm
1 for every row, so what is perturbed changes by a sum of columns of C, one for every row. No column has a negative
entry, hence the sum is longest where all rows move the same way, and what is left is where they stand: early and close
for Toeplitz designs, and for designs of intervals the places that are in most nodes together. The proofs, and which of
the figures are exact, are in ``docs/proofs/participation.md``.

Sources: Choquette-Choo et al. 2023 (rows that take part several times), Kalinin and Lampert 2024, Theorem 2 (the
earliest and closest rows are the worst for Toeplitz matrices that do not increase).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from .._validate import integer
from ._banded import Banded
from ._blt import BLT, product_at_lag, products_of_columns
from ._designs import MAX_STEPS, Factorization, Smooth, Tree
from ._intervals import squares_in_intervals
from ._lags import ProductAtLag, least_loss
from ._toeplitz import Independent, SquareRoot

__all__ = ["MOST_TOGETHER", "best_of_parts", "group_squares", "rows_that_fit", "user_norm"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
T = TypeVar("T", np.int64, np.float64)

MOST_TOGETHER = 1024
"""Rows of a user that are looked at together. More are split into groups of this size, whose changes at most add up."""

# Sums of at most 2 * 1024 positive terms one after the other, exponents of up to 745 that are off by two units, and
# coefficients of the square root that are off by 5 * 4096 units, twice: below 5e-12 relative. Or sums of 2**16 products
# of coefficients of a band, which are what they are: below 8e-12.
_OUT = 1.0 + 1e-11
_SINGLE = 1 << 12  # coefficients of the square root that are multiplied and added up one by one
_RATIO = 1.002  # of the ends of the blocks beyond, each of which is bounded by a chord

#: From lags and from numbers of rows of C that are left: the inner products of columns at lag 0, and the sum of those
#: at the lags of all rows before.
_Products = Callable[[IntArray, IntArray], tuple[FloatArray, FloatArray]]


def rows_that_fit(steps: int, separation: int, leaf: int = 1) -> int:
    """Return how many rows of one user fit into ``steps`` leaves."""
    return -(-steps * leaf // separation)


def group_squares(factorization: Factorization, rows: int, *, separation: int = 1, leaf: int = 1) -> FloatArray:
    """Bound the squared norm of the change of ``C w`` by 0, 1, 2, ... rows of a user, wherever they stand.

    Parameters
    ----------
    factorization : Factorization
    rows : int
        Rows of the user, 1 to 1024; rows that do not fit are ignored.
    separation : int, default=1
        Any two of these rows are at least this many rows apart; 1 means any positions.
    leaf : int, default=1
        Rows of the stream that are added up to one step.

    Returns
    -------
    ndarray of shape (K + 1,), float64
        For rows that change by vectors of norm 1, K being the smaller of ``rows`` and what fits. Never falling, and
        rounded up. Exact, but for 1e-6 relative at most, for Toeplitz designs where one of ``separation`` and
        ``leaf`` is a multiple of the other, and for designs of intervals where ``separation``, in lowest terms with
        ``leaf``, is at most 256 and K is small. Else an upper bound, on small runs by 0.4 % at most.

    Notes
    -----
    Cost O(K) for ``"blt"``, 10,000 K for ``"sqrt"`` and O(K bandwidth) for ``"banded"``; for designs of intervals
    O(K^2) times at most the squared logarithm of the steps, and as much more as makes the bound exact or takes some
    tenths of a second.
    """
    rows = integer(rows=rows, at_least=1, at_most=MOST_TOGETHER)
    separation = integer(separation=separation, at_least=1, at_most=MAX_STEPS)
    leaf = integer(leaf=leaf, at_least=1, at_most=1 << 32)
    rows = min(rows, rows_that_fit(factorization.steps, separation, leaf))
    return _squares(factorization, rows, separation, leaf)


def user_norm(factorization: Factorization, rows: int, *, separation: int = 1, leaf: int = 1) -> float:
    """Bound the norm of the change of ``C w`` by all rows of a user, of which there may be any number.

    The parameters are those of :func:`group_squares`, ``rows`` up to 2**31 - 1.
    """
    rows = integer(rows=rows, at_least=1, at_most=(1 << 31) - 1)
    rows = min(rows, rows_that_fit(factorization.steps, integer(separation=separation, at_least=1), leaf))
    groups, rest = divmod(rows, MOST_TOGETHER)
    squares = group_squares(factorization, min(rows, MOST_TOGETHER), separation=separation, leaf=leaf)
    return (groups * math.sqrt(squares[-1]) + math.sqrt(squares[rest])) * _OUT if groups else math.sqrt(squares[-1])


@functools.lru_cache(maxsize=256)
def _squares(factorization: Factorization, rows: int, separation: int, leaf: int) -> FloatArray:
    found: NDArray[Any]
    if isinstance(factorization, Banded) and factorization.bandwidth == 1:
        factorization = Independent(factorization.steps)
    if isinstance(factorization, (Tree, Smooth)):
        found = squares_in_intervals(factorization, rows, separation, leaf)
    elif isinstance(factorization, Independent):
        full, rest = np.divmod(np.arange(rows + 1), _in_a_leaf(separation, leaf))
        found = full * _in_a_leaf(separation, leaf) ** 2 + rest**2
        if separation < leaf and leaf % separation:  # leaves side by side are not all as full
            found = np.minimum(found, squares_in_intervals(factorization, rows, separation, leaf))
    else:
        assert isinstance(factorization, (BLT, SquareRoot, Banded))
        if isinstance(factorization, BLT):
            products = _of_blt(factorization)
        else:
            products = _of_root(factorization) if isinstance(factorization, SquareRoot) else _of_band(factorization)
        found = _of_toeplitz(*products, factorization.steps, rows, separation, leaf)
    made: FloatArray = np.maximum.accumulate(found.astype(np.float64) * _OUT)
    made.flags.writeable = False
    return made


def _in_a_leaf(separation: int, leaf: int) -> int:
    """Rows of a user in one leaf, at most."""
    return -(-leaf // separation)


# --- Toeplitz ---------------------------------------------------------------------------------------------------


def _of_toeplitz(
    products: _Products, product: ProductAtLag, steps: int, rows: int, separation: int, leaf: int
) -> FloatArray:
    """The least of the proved bounds: rows as early and close as their distance allows, leaves as full as possible."""
    ranks = np.arange(rows, dtype=np.int64)
    bounds = []
    if separation >= leaf or leaf % separation:
        lags = _floor_of(ranks, separation, leaf)
        alone, before = products(lags, steps - lags)
        nearest = np.append(0.0, np.cumsum(alone + 2.0 * before))
        if separation % leaf:  # not all are as close as that at once
            common = math.gcd(separation, leaf)
            loss = least_loss(product, steps, rows, separation // common, leaf // common)
            nearest = (nearest - np.append(0.0, 2.0 * loss)) * _OUT  # the loss has its own rounding
        bounds.append(nearest)
    if separation < leaf:
        most = _in_a_leaf(separation, leaf)
        full, rest = np.divmod(np.arange(rows + 1), most)
        leaves = np.arange(int(full[-1]) + 1, dtype=np.int64)
        if rest[-1] == 0:
            leaves = leaves[:-1]
        alone, before = (np.append(found, 0.0) for found in products(leaves, steps - leaves))
        total = np.append(0.0, np.cumsum(alone + 2.0 * before))
        bounds.append(most**2 * total[full] + 2.0 * most * rest * before[full] + rest**2 * alone[full])
    least: FloatArray = functools.reduce(np.minimum, bounds)
    return least


def _floor_of(ranks: IntArray, separation: int, leaf: int) -> IntArray:
    """Whole leaves between a row and the first, at least, without the products leaving 64 bits."""
    return np.array([int(rank) * separation // leaf for rank in ranks], dtype=np.int64)


def _of_blt(factorization: BLT) -> tuple[_Products, ProductAtLag]:
    rates, weights = (np.array(numbers) for numbers in factorization.recursion)
    numbers = np.log(rates), weights
    return functools.partial(products_of_columns, *numbers), functools.partial(product_at_lag, *numbers)


def _of_root(factorization: SquareRoot) -> tuple[_Products, ProductAtLag]:
    decay, steps = factorization.decay, factorization.steps
    exact = SquareRoot(_SINGLE, decay=decay).coefficients()
    ends = [*range(min(_SINGLE, steps) + 1)]
    while ends[-1] < steps:
        ends.append(min(max(ends[-1] + 1, int(ends[-1] * _RATIO)), steps))
    edges = np.array(ends, dtype=np.int64)
    first, last = edges[:-1], edges[1:] - 1

    def coefficients(k: IntArray) -> FloatArray:
        """At least coefficient k: below the least of those that are computed one by one, Watson's bound."""
        beyond: FloatArray = np.exp(math.log(decay) * k) / np.sqrt(math.pi * (k + 0.25))
        return np.where(k < _SINGLE, exact[np.minimum(k, _SINGLE - 1)], beyond)

    at_first, at_last = coefficients(first), coefficients(last)

    def sums(lag: int, left: IntArray) -> FloatArray:
        """Sum of coefficient k times coefficient ``k + lag`` over ``0 <= k < left``."""
        low = at_first * coefficients(first + lag)
        totals = np.append(0.0, np.cumsum(0.5 * (edges[1:] - first) * (low + at_last * coefficients(last + lag))))
        block = np.searchsorted(edges, left, side="right") - 1  # edges[block] <= left
        begun = left - edges[block]
        end = np.maximum(left - 1, 0)
        value = coefficients(end) * coefficients(end + lag)
        found: FloatArray = totals[block] + 0.5 * begun * (low[np.minimum(block, len(low) - 1)] + value)
        return found

    def products(lags: IntArray, left: IntArray) -> tuple[FloatArray, FloatArray]:
        alone, before = sums(0, left), np.zeros(len(lags))
        for i in range(1, len(lags)):
            before[i:] += sums(int(lags[i]), left[i:])
        return alone, before

    return products, sums


def _of_band(factorization: Banded) -> tuple[_Products, ProductAtLag]:
    series = factorization.coefficients()
    band = len(series)

    def sums(lag: int, left: IntArray) -> FloatArray:
        """Sum of coefficient k times coefficient ``k + lag`` over ``0 <= k < left``: none, of columns so far apart."""
        if lag >= band:
            return np.zeros(len(left))
        totals = np.append(0.0, np.cumsum(series[: band - lag] * series[lag:]))
        found: FloatArray = totals[np.minimum(left, band - lag)]
        return found

    def products(lags: IntArray, left: IntArray) -> tuple[FloatArray, FloatArray]:
        alone, before = sums(0, left), np.zeros(len(lags))
        for i in range(1, int(np.searchsorted(lags, band))):
            before[i:] += sums(int(lags[i]), left[i:])
        return alone, before

    return products, sums


# --- Parts ------------------------------------------------------------------------------------------------------


def best_of_parts(left: NDArray[T], right: NDArray[T], most: int) -> NDArray[T]:
    """Return the largest sum for c rows in two parts, by c: ``max_a left[a] + right[c - a]``, for c up to ``most``.

    Parameters
    ----------
    left, right : ndarray
        Of 0, 1, ... rows in each: never falling, 0 for none.
    most : int
    """
    shorter, longer = (left, right) if len(left) <= len(right) else (right, left)
    found = np.zeros(min(len(left) + len(right) - 2, most) + 1, dtype=left.dtype)
    for a, value in enumerate(shorter[: len(found)]):
        part = longer[: len(found) - a] + value
        np.maximum(found[a : a + len(part)], part, out=found[a : a + len(part)])
    best: NDArray[T] = np.maximum.accumulate(found)
    return best
