"""Lower bounds on privacy parameters from samples of a statistic under two neighbouring streams.

Thresholds are chosen on one half of the samples and judged on the other, so that the choice costs no confidence. Every
bound holds with the stated confidence on its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta, chi2, norm, t

__all__ = ["Bounds", "FloatArray", "bounds", "fit_direction", "gaussian_mu_lower", "rate_bounds"]

FloatArray = NDArray[np.float64]

_RANKS = 100  # thresholds tried between the samples, and as many in either tail
_DOWN = 1.0 - 1e-12


@dataclass(frozen=True)
class Bounds:
    """Distribution-free lower bounds; 0 where the samples prove nothing."""

    epsilon: float
    mu: float


def rate_bounds(count: NDArray[np.int64], n: int, risk: float) -> tuple[FloatArray, FloatArray]:
    """Clopper and Pearson's bounds on the probability of an event that was seen ``count`` times in ``n``.

    Parameters
    ----------
    count : ndarray of int
    n : int
    risk : float
        Each of the two bounds fails with at most this probability.
    """
    k = np.asarray(count, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        low = np.where(k > 0, beta.ppf(risk, k, n - k + 1), 0.0)
        high = np.where(k < n, beta.isf(risk, k + 1, n - k), 1.0)
    return np.asarray(low), np.asarray(high)


def _by_threshold(
    thresholds: FloatArray, first: FloatArray, second: FloatArray, delta: float, risk: float
) -> FloatArray:
    """Lower bounds at every threshold, shape (3, thresholds): epsilon above it, epsilon below it, mu."""
    n, m = len(first), len(second)
    above = [len(x) - np.searchsorted(np.sort(x), thresholds, side="right") for x in (first, second)]
    found = []
    for (one, size), (other, other_size) in (
        ((above[1], m), (above[0], n)),  # the event is more likely on the second stream
        ((n - above[0], n), (m - above[1], m)),
    ):
        low, high = rate_bounds(one, size, risk)[0], rate_bounds(other, other_size, risk)[1]
        with np.errstate(divide="ignore"):
            found.append(np.log(np.maximum(low - delta, 0.0)) - np.log(high))
    false, missed = rate_bounds(above[0], n, risk)[1], rate_bounds(m - above[1], m, risk)[1]
    found.append(norm.isf(false) - norm.ppf(missed))  # infinities of the same sign, where the event never occurred: NaN
    return np.asarray(np.nan_to_num(np.array(found), nan=-np.inf, posinf=-np.inf, neginf=-np.inf))


def _thresholds(first: FloatArray, second: FloatArray) -> FloatArray:
    pooled = np.sort(np.concatenate([first, second]))
    n = len(pooled)
    tail = np.geomspace(1, n / 2, _RANKS)
    ranks = np.concatenate([tail, n - 1 - tail, np.linspace(0, n - 1, _RANKS)])
    return np.asarray(pooled[np.unique(np.clip(ranks, 0, n - 1).astype(np.int64))])


def bounds(
    train: tuple[FloatArray, FloatArray], test: tuple[FloatArray, FloatArray], *, delta: float, confidence: float
) -> Bounds:
    """Lower bounds on epsilon at ``delta`` and on mu of Gaussian differential privacy.

    Parameters
    ----------
    train, test : pair of ndarray
        Samples of the statistic on the first and on the second stream; it is larger on the second.
    delta : float
        At least 0, below 1.
    confidence : float
        Of each of the two bounds.

    Notes
    -----
    With S the event that the statistic is above a threshold: ``epsilon >= ln((P1(S) - delta) / P0(S))``, and the same
    for its complement with the streams exchanged; ``mu >= Phi^-1(1 - P0(S)) - Phi^-1(1 - P1(S))``. Both rates are
    replaced by Clopper-Pearson bounds, each of which fails with at most ``(1 - confidence) / 2``.
    """
    risk = (1.0 - confidence) / 2
    thresholds = _thresholds(*train)
    # Smaller risks, because otherwise the largest of many bounds may be a lucky one, far out in a tail. A bound on
    # epsilon needs the tail; for a bound on the mu of a Gaussian the middle is best.
    tried = _by_threshold(thresholds, *train, delta, risk / 100)
    tried[2] = _by_threshold(thresholds, *train, delta, max(risk**3, 1e-60))[2]
    above, below, gdp = (thresholds[int(np.argmax(values))] for values in tried)
    best_above = bool(np.max(tried[0]) >= np.max(tried[1]))
    judged = _by_threshold(np.array([above, below, gdp]), *test, delta, risk)
    epsilon = judged[0, 0] if best_above else judged[1, 1]
    return Bounds(max(0.0, float(epsilon) * _DOWN), max(0.0, float(judged[2, 2]) * _DOWN))


def gaussian_mu_lower(first: FloatArray, second: FloatArray, *, confidence: float) -> float:
    """Lower bound on ``|mean difference| / std`` of two samples, **assumed** Gaussian with one standard deviation.

    Notes
    -----
    Student's bound on the difference of means and the chi-square bound on the deviation, each with half of the risk.
    """
    n, m = len(first), len(second)
    freedom, risk = n + m - 2, (1.0 - confidence) / 2
    gap = float(second.mean() - first.mean())
    square = float(((first - first.mean()) ** 2).sum() + ((second - second.mean()) ** 2).sum())
    if square == 0.0:
        return math.inf if gap > 0.0 else 0.0
    pooled = math.sqrt(square / freedom)
    low = gap - float(t.isf(risk, freedom)) * pooled * math.sqrt(1 / n + 1 / m)
    most = math.sqrt(square / float(chi2.ppf(risk, freedom)))
    return max(0.0, low / most * _DOWN)


def fit_direction(first: FloatArray, second: FloatArray) -> FloatArray:
    """Weights of the linear statistic that tells two samples of vectors apart best (Fisher's), larger on the second.

    Parameters
    ----------
    first, second : ndarray of shape (n, size)
    """
    gap = second.mean(axis=0) - first.mean(axis=0)
    centred = np.concatenate([first - first.mean(axis=0), second - second.mean(axis=0)])
    scale = np.sqrt((centred**2).mean(axis=0))
    # a value that does not vary gets the largest weight, but a finite one
    floor = 1e-9 * max(float(scale.max()), float(np.abs(gap).max()))
    scale = np.maximum(scale, floor) if floor > 0.0 else np.ones_like(scale)
    centred = centred / scale
    covariance = centred.T @ centred / len(centred) + 1e-9 * np.eye(len(gap))
    return np.asarray(np.linalg.solve(covariance, gap / scale) / scale)
