"""Verdicts on samples of noise: whether a sample passes; for the right distribution they err with probability alpha.

Borders of cells lie between lattice points, so the probabilities of the rounded values are those of the ideal ones.
Dependence is tested on probabilities, P(value below), which are bounded and have known variances.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

Values = NDArray[np.float64]
LAWS: dict[str, Any] = {"gaussian": stats.norm, "laplace": stats.laplace, "exponential": stats.expon}


def within(z: float, alpha: float) -> bool:
    """Two-sided test of a standard normal statistic."""
    return bool(abs(z) <= stats.norm.isf(alpha / 2))


def between(p: float, alpha: float) -> bool:
    """Two-sided test of a statistic's own probability."""
    return alpha / 2 <= p <= 1 - alpha / 2


def right_scale(sample: Values, law: str, alpha: float) -> bool:
    """For normals by the sum of squares, for the other distributions by the sum of magnitudes."""
    if law == "gaussian":
        return between(stats.chi2.cdf(float(np.sum(sample**2)), sample.size), alpha)
    return between(stats.gamma.cdf(float(np.sum(np.abs(sample))), sample.size), alpha)


def right_mean(sample: Values, law: str, alpha: float) -> bool:
    off = float(np.mean(sample)) - float(LAWS[law].mean())
    return within(off * math.sqrt(sample.size / float(LAWS[law].var())), alpha)


def chi_square(sample: Values, borders: Values, survival: Values, alpha: float) -> bool:
    """Counts between ascending borders whose survival probabilities are given."""
    counts = np.bincount(np.searchsorted(borders, sample), minlength=len(borders) + 1)
    expected = -np.diff(survival, prepend=1.0, append=0.0) * sample.size
    assert expected.min() >= 20
    return bool(np.sum((counts - expected) ** 2 / expected) <= stats.chi2.isf(alpha, len(borders)))


def between_points(quantiles: Values, h: float) -> Values:
    return np.unique(np.round(quantiles / h) + 0.5) * h


def right_cells(sample: Values, h: float, law: Any, alpha: float, cells: int = 64) -> bool:
    """Chi-square over roughly the given number of cells of equal probability, for a distribution of scipy.stats."""
    borders = between_points(law.ppf(np.arange(1, cells) / cells), h)
    return chi_square(sample, borders, law.sf(borders), alpha)


def right_tail(sizes: Values, h: float, law: str, limit: float, alpha: float, cells: int = 16) -> bool:
    """Magnitudes of values whose tail probability P is uniform below the limit."""
    sides = 1 if law == "exponential" else 2
    borders = between_points(LAWS[law].isf(limit * np.arange(cells - 1, 0, -1) / cells / sides), h)
    return chi_square(sizes, borders, LAWS[law].sf(borders) * sides / limit, alpha)


def unrelated(p: Values, q: Values, alpha: float) -> bool:
    """Probabilities of independent values: neither they nor their distances from the middle are correlated."""
    root = math.sqrt(p.size)
    a, b, c, d = p - 0.5, q - 0.5, np.abs(p - 0.5) - 0.25, np.abs(q - 0.5) - 0.25
    straight, folded = float(np.mean(a * b)) * 12 * root, float(np.mean(c * d)) * 48 * root
    mixed = [float(np.mean(a * d)) * 24 * root, float(np.mean(c * b)) * 24 * root]
    return all(within(z, alpha / 4) for z in (straight, folded, *mixed))


# ---- vectors ----------------------------------------------------------------------------------------------


def directions(vectors: Values) -> tuple[Values, Values]:
    """Norms and unit vectors of the vectors that are not zero."""
    norms = np.linalg.norm(vectors, axis=1)
    kept = norms > 0
    return norms[kept], vectors[kept] / norms[kept, None]


def right_directions(unit: Values, alpha: float) -> bool:
    """Uniform on the sphere: first moments (Rayleigh), second moments (Bingham), distribution of a coordinate."""
    n, dim = unit.shape
    rayleigh = n * dim * float(np.sum(np.mean(unit, axis=0) ** 2))
    if dim == 1:
        return bool(rayleigh <= stats.chi2.isf(alpha, 1))
    second = unit.T @ unit / n
    bingham = n * dim * (dim + 2) / 2 * (float(np.sum(second**2)) - 1 / dim)
    borders = (np.arange(32) + 0.5) / 32  # not on the axes, where the lattice puts some values
    return bool(
        rayleigh <= stats.chi2.isf(alpha / 3, dim)
        and bingham <= stats.chi2.isf(alpha / 3, (dim - 1) * (dim + 2) / 2)
        and chi_square(coordinate_probability(unit), borders, 1 - borders, alpha / 3)
    )


def coordinate_probability(unit: Values, j: int = 0) -> Values:
    """P(below) of a coordinate u of uniform directions: (1 + u) / 2 has a beta distribution."""
    half = (unit.shape[1] - 1) / 2
    return np.asarray(special.betainc(half, half, (1 + unit[:, j]) / 2))
