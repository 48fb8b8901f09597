"""The guarantee of the best of a random number of runs: closed forms, rounded towards the larger loss.

Proofs: docs/proofs/selection.md.
"""

from __future__ import annotations

import math

from scipy.special import log_ndtr, ndtri

from .._validate import integer, number
from ._arithmetic import gdp_epsilon

__all__ = ["selection_epsilon", "selection_mu"]

# Covers the few units that SciPy's functions may be off by, many times over.
_MARGIN = 1e-12


def selection_epsilon(mu: float, delta: float, m: int) -> float:
    """Epsilon at delta of the best of K runs of a ``mu``-GDP mechanism, P(K = k) in proportion to ``(1 - 1/m)^k / k``.

    Parameters
    ----------
    mu : float
        Of one run, its score included; at least 0.
    delta : float
        Above 0 and below 1.
    m : int
        At least 2; the mean of K is ``(m - 1) / ln m``.

    Returns
    -------
    float
        ``gdp_epsilon(mu, delta / mean) + ln(m Phi(Phi^-1(1/m) + mu))``, rounded up.

    Notes
    -----
    As Papernot and Steinke 2022, Theorem 2 with eta = 0, but by the exact curve in place of Renyi divergences.
    """
    mu = number(mu=mu, at_least=0.0, infinite=True)
    delta = number(delta=delta, above=0.0, below=1.0)
    m = integer(m=m, at_least=2)
    if mu == 0.0 or math.isinf(mu):
        return mu
    mean = (m - 1) / math.log(m)
    one = gdp_epsilon(mu, delta / mean * (1.0 - _MARGIN))
    start = float(ndtri(1.0 / m))
    point = start + _MARGIN * (1.0 + abs(start)) + mu
    more = max(math.log(m) + float(log_ndtr(point)), 0.0)
    return (one + more + _MARGIN * (1.0 + math.log(m))) * (1.0 + _MARGIN)


def selection_mu(epsilon: float, delta: float, m: int) -> float:
    """Largest ``mu`` of one run with which the best of K is within (epsilon, delta): see :func:`selection_epsilon`.

    Returns
    -------
    float
        Rounded down; 0 where none is found above 1e-9 of epsilon.
    """
    epsilon = number(epsilon=epsilon, above=0.0)
    low, high = 0.0, math.sqrt(2.0 * epsilon) + epsilon + 1.0
    while selection_epsilon(high, delta, m) <= epsilon:
        high *= 2.0
    while high - low > 1e-9 * high and high > 1e-9 * epsilon:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if selection_epsilon(middle, delta, m) <= epsilon else (low, middle)
    return low
