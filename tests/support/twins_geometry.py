"""Plain NumPy versions of the projections, and exact ones in rational arithmetic, for comparison in tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np


def project_l2(x, radius):
    """Nearest point with ``||x||_2 <= radius``."""
    length = math.hypot(*x)
    return np.array(x, dtype=float) if length <= radius else np.asarray(x) * (radius / length)


def project_box(x, low, high):
    """Nearest point with ``low <= x <= high``."""
    return np.clip(x, low, high)


def project_simplex(x, total):
    """Nearest point with entries of at least 0 that sum to ``total`` (textbook sort and threshold)."""
    x = np.asarray(x, dtype=float)
    descending = np.sort(x)[::-1]
    excess = np.cumsum(descending) - total
    count = np.arange(1, x.size + 1)
    last = np.flatnonzero(descending * count > excess)[-1]
    return np.maximum(x - excess[last] / count[last], 0.0)


def project_l1(x, radius):
    """Nearest point with ``||x||_1 <= radius``."""
    x = np.asarray(x, dtype=float)
    return x.copy() if np.abs(x).sum() <= radius else np.sign(x) * project_simplex(np.abs(x), radius)


def exact_simplex(x: Sequence[float], total: float) -> np.ndarray:
    """Return the correctly rounded nearest point of the simplex, by exact rational arithmetic."""
    values = [Fraction(v) for v in x]
    running = Fraction(0)
    for count, value in enumerate(sorted(values, reverse=True), start=1):
        running += value
        threshold = (running - Fraction(total)) / count
        if value <= threshold:  # this entry is not in the support: the previous threshold was right
            break
        theta = threshold
    return np.array([float(max(v - theta, Fraction(0))) for v in values])


def exact_l1(x: Sequence[float], radius: float) -> np.ndarray:
    """Return the correctly rounded nearest point of the L1 ball, by exact rational arithmetic."""
    if sum(abs(Fraction(v)) for v in x) <= Fraction(radius):
        return np.array(x, dtype=float)
    return np.copysign(exact_simplex(np.abs(x).tolist(), radius), x) + 0.0
