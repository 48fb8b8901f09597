"""The cosine basis of columns of numbers: the discrete cosine transform (II) over the knots, smooth functions first."""

from __future__ import annotations

import itertools
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

__all__ = ["at_knots", "largest_square", "usual_square"]

# Values are rounded to multiples of this: the last bits of a cosine differ between machines.
_GRID = 2.0**40
# Interpolation rounds: a square may exceed the computed one by at most this share.
_ROUNDING = Fraction(1, 2**40)


@lru_cache
def at_knots(n_knots: int) -> npt.NDArray[np.float64]:
    """Return the values of the functions at the knots, shape (n_knots, n_knots - 1); they are linear between knots.

    Function k (from 1) is ``sqrt(2 / (n_knots k)) cos(pi k (j + 1/2) / n_knots)`` at knot j (from 0). The functions are
    orthogonal, each sums to 0 over the knots, and the squares of their norms fall as 1, 1/2, 1/3, ...
    """
    k, j = np.arange(1, n_knots), np.arange(n_knots)[:, None]
    values = np.sqrt(2.0 / (n_knots * k)) * np.cos(np.pi * k * (j + 0.5) / n_knots)
    found: npt.NDArray[np.float64] = np.rint(values * _GRID) / _GRID
    found.flags.writeable = False
    return found


@lru_cache
def largest_square(n_knots: int) -> Fraction:
    """Return the largest sum of squares of the functions. It is convex between knots, so it is largest at a knot."""
    return max(_products(n_knots)[0]) * (1 + _ROUNDING)


@lru_cache
def usual_square(n_knots: int) -> Fraction:
    """Return the sum of squares, averaged over numbers that are uniform between two knots."""
    own, next_to = _products(n_knots)
    return sum((*own[:-1], *own[1:], *next_to), Fraction(0)) / (3 * (n_knots - 1))


def _products(n_knots: int) -> tuple[list[Fraction], list[Fraction]]:
    """Return the inner products of the functions with themselves at each knot, and with those at the next, exactly."""
    rows = [[Fraction(value) for value in row] for row in at_knots(n_knots).tolist()]
    own = [sum((a * a for a in row), Fraction(0)) for row in rows]
    beside = [
        sum((a * b for a, b in zip(row, after, strict=True)), Fraction(0)) for row, after in itertools.pairwise(rows)
    ]
    return own, beside
