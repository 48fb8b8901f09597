"""The cosine basis of columns of numbers: the discrete cosine transform (II) over the knots, smooth functions first."""

from __future__ import annotations

import itertools
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

__all__ = ["at_knots", "largest_square", "usual_square"]

# Values are multiples of this: the last bits of a cosine differ between machines.
_GRID = 2.0**40
# Interpolating rounds: a square may be larger than computed by no more than this share.
_ROUNDING = Fraction(1, 2**40)


@lru_cache
def at_knots(n_knots: int) -> npt.NDArray[np.float64]:
    """Return the values of the functions at the knots, shape (n_knots, n_knots - 1); between knots they are linear.

    Function k (from 1) is ``sqrt(2 / (n_knots k)) cos(pi k (j + 1/2) / n_knots)`` at knot j (from 0). The functions are
    orthogonal and add up to 0 over the knots; the squares of their norms fall as 1, 1/2, 1/3, ...
    """
    k, j = np.arange(1, n_knots), np.arange(n_knots)[:, None]
    values = np.sqrt(2.0 / (n_knots * k)) * np.cos(np.pi * k * (j + 0.5) / n_knots)
    found: npt.NDArray[np.float64] = np.rint(values * _GRID) / _GRID
    found.flags.writeable = False
    return found


@lru_cache
def largest_square(n_knots: int) -> Fraction:
    """Return the largest sum of squares of the functions: a convex function between knots is largest at one."""
    return max(_products(n_knots)[0]) * (1 + _ROUNDING)


@lru_cache
def usual_square(n_knots: int) -> Fraction:
    """Return the mean of the sum of squares over numbers that are anywhere between two knots."""
    own, next_to = _products(n_knots)
    return sum((*own[:-1], *own[1:], *next_to), Fraction(0)) / (3 * (n_knots - 1))


def _products(n_knots: int) -> tuple[list[Fraction], list[Fraction]]:
    """Return the inner products of the functions at each knot, and at each knot and the next one, exactly."""
    rows = [[Fraction(value) for value in row] for row in at_knots(n_knots).tolist()]
    own = [sum((a * a for a in row), Fraction(0)) for row in rows]
    beside = [
        sum((a * b for a, b in zip(row, after, strict=True)), Fraction(0)) for row, after in itertools.pairwise(rows)
    ]
    return own, beside
