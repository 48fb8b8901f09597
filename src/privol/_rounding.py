"""The effect of floating point on the figures of privacy: the unit, the outward factor, and bounds.

Two kinds of rounding are charged. *Public figures* (a sensitivity, a scale) are computed here in Python, once; each is
multiplied by :data:`UP` at the end, or is exact and then rounded up (:func:`ceil_double`, :func:`sum_up`). *What the
kernels compute from a row* differs from the exact function, and differs between two streams; the functions below bound
this in multiples of :data:`UNIT`, and the proofs of the mechanisms (``docs/proofs``) say which of them applies.

Margins of other sizes are deliberate, and their comments say why.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "UNIT",
    "UP",
    "bound_of_rows",
    "ceil_double",
    "gradients_excess",
    "lanes",
    "outward",
    "scaled_excess",
    "sqrt_up",
    "square_up",
    "sum_excess",
    "sum_up",
    "up_to_digits",
    "vector_excess",
    "vector_norm",
]

#: Unit roundoff: ``fl(a op b) = (a op b) (1 + e)`` with ``|e| <= UNIT / (1 + UNIT)``, for ``+ - * /`` and roots of
#: normal doubles. Any k of them in a row are within ``k UNIT`` (Jeannerod and Rump 2018), with no term of higher order.
UNIT = 2.0**-53

#: The outward factor: 9,007 units. A closed formula of public numbers has fewer than a hundred operations, in which
#: ``exp``, ``log`` and the like are within four units each, so a positive figure times this is above its exact value.
UP = 1.0 + 1e-12


def outward(x: float) -> float:
    """Return a number above ``x >= 0`` by more than a closed formula's rounding: the double after ``x UP``."""
    return math.nextafter(x * UP, math.inf)


def up_to_digits(x: float, digits: int) -> float:
    """Return a positive number rounded up to ``digits`` significant decimal digits."""
    unit = 10.0 ** (math.floor(math.log10(x)) - digits + 1)
    return float(f"{math.ceil(x / unit) * unit:.{digits}g}")


def vector_norm(x: NDArray[np.float64]) -> float:
    """Return the L2 norm of a vector, infinite where a square overflows, by NumPy's sums: BLAS adds up in any order."""
    with np.errstate(over="ignore"):
        return math.sqrt(float(np.sum(x * x)))


# --- What a kernel computes of a row ------------------------------------------------------------------------------


def lanes(n: int) -> float:
    """Roundings of a sum of ``n`` products in eight lanes, with four operations around it; in units.

    Each lane adds at most ``n / 8`` terms, three additions join the lanes, one rounding is of the product itself.
    """
    return n / 8 + 8


def bound_of_rows(x_bound: float, intercept: bool) -> float:
    """Largest L2 norm of a row with the intercept's constant 1: exact without an intercept, rounded up with it."""
    return math.sqrt(x_bound * x_bound + 1.0) * UP if intercept else x_bound


def scaled_excess(n: int) -> float:
    """How far ``n`` coordinates that a computed factor scaled to a bound exceed it, in norm and relative to it.

    The squared norm is off by :func:`lanes` units, its root by half of that, and root, quotient and product round once
    each: ``lanes / 2 + 3``. Charged are ``2 (lanes + 8)``. What is at most quadratic in the norm is off by twice that.
    """
    return 2 * (lanes(n) + 8) * UNIT


def vector_excess(n: int) -> float:
    """How far apart rounding brings two streams' vectors of ``n`` coordinates, relative to the bound of their norms.

    Slope (28 at most), factor and product round a vector, and the limit of its norm :func:`lanes` units: ``lanes + 32``
    in each of the two.
    """
    return 2 * (lanes(n) + 32) * UNIT


def gradients_excess(n: int, batch: int) -> float:
    """How far apart rounding brings two streams' sums of ``batch`` gradients, relative to the bound of one.

    The sums differ in one gradient (:func:`vector_excess`). Partial sum i is at most i bounds long and errs by ``i (1 +
    2**-20)`` units: by ``batch (batch + 1) / 2`` in each stream; 1.01 covers the rest, for batches of up to 2**20.
    """
    return vector_excess(n) + 1.01 * batch * (batch + 1) * UNIT


def sum_excess(terms: int) -> float:
    """How far a sum of vectors as computed is from the real one, relative to the number of them times their bound.

    ``terms - 1`` additions, each rounded by a unit of a partial sum, none of which is longer than all of them.
    """
    return (terms - 1) * UNIT


# --- Exact, then rounded up ---------------------------------------------------------------------------------------


def ceil_double(exact: Fraction) -> float:
    """Smallest double that is at least ``exact`` (which is at least 0); infinite above all doubles."""
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def square_up(x: float) -> float:
    """Smallest double that is at least ``x * x`` (``x >= 0``)."""
    return math.inf if math.isinf(x) else ceil_double(Fraction(x) ** 2)


def sum_up(terms: list[float]) -> float:
    """Smallest double that is at least the sum of nonnegative numbers; ``inf`` is allowed."""
    try:
        total = math.fsum(terms)
        if math.isinf(total) or math.fsum([*terms, -total]) <= 0.0:
            return total
    except OverflowError:
        return math.inf
    return math.nextafter(total, math.inf)


def sqrt_up(x: Fraction) -> float:
    """Smallest double whose square is at least ``x`` (``x >= 0``)."""
    # Scaled by a power of four, so that squares outside the range of doubles still have a root within it.
    shift = 600 if 0 < x < Fraction(2) ** -900 else -600 if x > 2**900 else 0
    try:
        root = math.ldexp(math.sqrt(x * Fraction(4) ** shift), -shift)
    except OverflowError:
        return math.inf
    while math.isfinite(root) and Fraction(root) ** 2 < x:
        root = math.nextafter(root, math.inf)
    if math.isinf(root):
        return root
    while root > 0.0 and Fraction(math.nextafter(root, 0.0)) ** 2 >= x:
        root = math.nextafter(root, 0.0)
    return root
