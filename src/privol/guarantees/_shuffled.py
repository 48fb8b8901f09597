"""The central guarantee of local reports if a trusted shuffler decides, in secret, who answers when.

Sources: Feldman, McMillan and Talwar 2021 (*Hiding among the clones*), with the mass of clones that their theorem has,
``e^-epsilon0``, and deltas of local reports newly accounted for. Proofs: docs/proofs/shuffling.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from .._validate import choice, integer, number
from ._arithmetic import gdp_delta, gdp_epsilon
from ._pure import pure_delta, pure_epsilon

if TYPE_CHECKING:
    FloatArray = NDArray[np.float64]

__all__ = ["shuffled_delta", "shuffled_epsilon", "shuffled_epsilon_of_gdp"]

_ADJACENCIES = ("replace", "zero_out")
# More users count as this many: SciPy's binomial distributions have been checked up to here.
_MOST = 10**9
# Relative error of every binomial probability and sum: thirty times what was found against mpmath at 10^9 users.
_RELATIVE = 1e-9
# Numbers of clones at which divergences are computed, in standard deviations from their mean.
_GRID = np.concatenate([np.linspace(-38.0, -12.0, 130, endpoint=False), np.linspace(-12.0, 12.0, 1201)])
# For a local epsilon; beyond it only one user in 10^130 is hidden.
_LARGEST = 300.0
# The parts of delta that may be spent on reports that reveal their user, and on clones that fail.
_SPENT = (0.02, 0.1, 0.4)
_GAIN = 1e-3
# A candidate epsilon is sought below this share of the best one so far: a small one leaves more of delta to clones.
_REACH = (0.02, 0.2, 0.6, 1.0, 1.0, 1.0, 1.0)


class _Crowd:
    """How many of ``others`` users send what this user might have sent: each does with probability ``clone``.

    ``starts`` are numbers of clones, 0 first; ``chances``, rounded up, are the probabilities between consecutive
    starts.
    """

    def __init__(self, others: int, clone: float) -> None:
        from scipy.stats import binom  # takes longer to import than the rest here, and is rarely needed

        self._binomial = binom
        mean = others * clone
        deviation = math.sqrt(mean * max(1.0 - clone, 0.0))
        starts = np.concatenate([[0.0], np.floor(mean + deviation * _GRID), np.floor(mean) + np.arange(12)])
        self.starts = np.unique(np.clip(starts, 0.0, float(others)))
        below = np.concatenate([[0.0], binom.cdf(self.starts[1:] - 1.0, others, clone), [1.0]])
        above = np.concatenate([[1.0], binom.sf(self.starts[1:] - 1.0, others, clone), [0.0]])
        # on each side of the median from its own tail, with little cancellation, plus what the difference lost
        lower = np.diff(below) + _RELATIVE * (below[1:] + below[:-1])
        upper = -np.diff(above) + _RELATIVE * (above[1:] + above[:-1])
        self.chances: FloatArray = np.where(below[1:] < 0.5, lower, upper)

    def delta(self, epsilon: float, parameter: float, tilt: float) -> float:
        """Bound of the divergence at ``epsilon`` of the pair of distributions with randomised response.

        ``tilt`` is the logarithm of the odds that a clone gives this user's likelier answer.
        """
        if epsilon >= parameter:
            return 0.0
        rest = math.expm1(epsilon)
        lead = -math.expm1(epsilon - parameter) / (1.0 + math.exp(-parameter))
        odds = -math.expm1(-epsilon - parameter) * math.exp(epsilon + tilt) / -math.expm1(epsilon - parameter)
        share = odds / (1.0 + odds) if odds < 1.0 else 1.0 / (1.0 + 1.0 / odds)
        threshold = (self.starts + 1.0) * share
        likelier = float(expit(tilt))

        def beyond(least: FloatArray) -> FloatArray:
            first = lead * self._binomial.pmf(least - 1.0, self.starts, likelier)
            second = rest * self._binomial.sf(least - 1.0, self.starts, likelier)
            found: FloatArray = first * (1.0 + _RELATIVE) - second * (1.0 - _RELATIVE)
            return found

        # the least count above the threshold; both candidates if rounding may have moved one across
        least = np.floor(threshold * (1.0 - 1e-12)) + 1.0
        other = np.floor(threshold * (1.0 + 1e-12)) + 1.0
        found = beyond(least)
        if (least != other).any():
            found = np.maximum(found, beyond(other))
        # with any number of clones, even none, it is at most the local report itself
        found = np.clip(found, 0.0, lead * (1.0 + _RELATIVE))
        # 1e-300 covers products and sums that underflowed
        return min(float(np.sum(self.chances * found)) * (1.0 + _RELATIVE) + 1e-300, 1.0)


def _tilts(adjacency: str, parameter: float) -> tuple[float, ...]:
    """Tilts of the clones' answers: even ones, or those of a null report, from either side."""
    return (0.0,) if adjacency == "replace" else (-parameter, parameter)


def _users(n: int) -> int:
    return min(integer(n=n, at_least=1), _MOST)


def _clone(epsilon: float, known: float = 0.0) -> float:
    """``e^-epsilon (1 - known)``, rounded down."""
    return math.exp(-epsilon) * (1.0 - known) * (1.0 - 2.0**-48)


def _least(delta: Callable[[float], float], target: float, high: float, width: float = 1e-9) -> float:
    """Epsilon up to ``high`` (relative ``width``, rounded up) at which the decreasing ``delta`` meets the target."""
    low = 0.0
    if delta(low) <= target:
        return low
    while high - low > width * high:
        middle = low + (high - low) / 2.0
        if not low < middle < high:
            break
        if delta(middle) <= target:
            high = middle
        else:
            low = middle
    return high


def shuffled_delta(epsilon0: float, n: int, epsilon: float, *, adjacency: str = "replace") -> float:
    """Delta at which reports of ``n`` users in a secret random order are ``(epsilon, delta)``-differentially private.

    Parameters
    ----------
    epsilon0 : float
        Epsilon of each report's pure local differential privacy, at least 0; ``inf`` (no privacy) gives 1.
    n : int
        Users in random order, at least 1, one report each. More than 10^9 count as 10^9.
    epsilon : float
        At least 0 and finite.
    adjacency : {"replace", "zero_out"}
        The adjacency of ``epsilon0`` and of the result. A result for ``"replace"`` covers ``"zero_out"``.

    Returns
    -------
    float
        Rounded up, at most that of a single report, ``pure_delta(epsilon, epsilon0)``.

    Notes
    -----
    Feldman, McMillan and Talwar 2021, section 3; docs/proofs/shuffling.md. Reports may depend on all earlier ones, but
    neither the randomizer nor the learner's view may depend on whose turn it is.
    """
    epsilon0 = number(epsilon0=epsilon0, at_least=0.0, infinite=True)
    n = _users(n)
    epsilon = number(epsilon=epsilon, at_least=0.0)
    choice(_ADJACENCIES, adjacency=adjacency)
    local = pure_delta(epsilon, epsilon0)
    if local == 0.0 or n == 1 or epsilon0 > _LARGEST:
        return local
    crowd = _Crowd(n - 1, _clone(epsilon0))
    return min(local, max(crowd.delta(epsilon, epsilon0, tilt) for tilt in _tilts(adjacency, epsilon0)))


def shuffled_epsilon(epsilon0: float, n: int, delta: float, *, adjacency: str = "replace") -> float:
    """Epsilon at which reports of ``n`` users in a secret random order are ``(epsilon, delta)``-differentially private.

    Parameters
    ----------
    epsilon0 : float
        Epsilon of each report's pure local differential privacy, at least 0; ``inf`` (no privacy) gives ``inf``.
    n : int
        Users in random order, at least 1, one report each. More than 10^9 count as 10^9.
    delta : float
        At least 0, below 1; 0 gives ``epsilon0``.
    adjacency : {"replace", "zero_out"}
        The adjacency of ``epsilon0`` and of the result. A result for ``"replace"`` covers ``"zero_out"``.

    Returns
    -------
    float
        Rounded up, at most that of a single report, ``pure_epsilon(epsilon0, delta)``.

    Notes
    -----
    As :func:`shuffled_delta`. Small results are of the order of
    ``tanh(epsilon0 / 2) sqrt(e^epsilon0 log(1/delta) / n)``.
    """
    epsilon0 = number(epsilon0=epsilon0, at_least=0.0, infinite=True)
    n = _users(n)
    delta = number(delta=delta, at_least=0.0, below=1.0)
    choice(_ADJACENCIES, adjacency=adjacency)
    local = pure_epsilon(epsilon0, delta)
    if local == 0.0 or delta == 0.0 or n == 1 or epsilon0 > _LARGEST:
        return local
    crowd, tilts = _Crowd(n - 1, _clone(epsilon0)), _tilts(adjacency, epsilon0)
    return _least(lambda epsilon: max(crowd.delta(epsilon, epsilon0, tilt) for tilt in tilts), delta, local)


def shuffled_epsilon_of_gdp(mu: float, n: int, delta: float, *, adjacency: str = "replace") -> float:
    """Epsilon at ``delta`` of ``mu``-GDP reports, such as Gaussian ones, of ``n`` users in a secret random order.

    Parameters
    ----------
    mu : float
        Mu of each report's local Gaussian differential privacy, at least 0; ``inf`` (no privacy) gives ``inf``.
    n : int
        Users in random order, at least 1, one report each. More than 10^9 count as 10^9.
    delta : float
        Above 0, below 1.
    adjacency : {"replace", "zero_out"}
        The adjacency of ``mu`` and of the result. A result for ``"replace"`` covers ``"zero_out"``.

    Returns
    -------
    float
        Rounded up, at most that of a single report, ``gdp_epsilon(mu, delta)``.

    Notes
    -----
    Two points of the curve of ``mu``-GDP are used: one bounds how well the report of the user in question distinguishes
    two rows, one how often others send the same; both are chosen from a grid. docs/proofs/shuffling.md, section 5.
    """
    mu = number(mu=mu, at_least=0.0, infinite=True)
    n = _users(n)
    delta = number(delta=delta, above=0.0, below=1.0)
    choice(_ADJACENCIES, adjacency=adjacency)
    best = gdp_epsilon(mu, delta)
    if best == 0.0 or math.isinf(best) or n == 1:
        return best
    for reach in _REACH:
        before = best
        for own, others in product(_SPENT, _SPENT):
            best = min(best, _gaussian_point(mu, n, delta, own * delta, others * delta, reach * best, adjacency))
        if reach == 1.0 and best == before:
            break
    return best


def _gaussian_point(mu: float, n: int, delta: float, own: float, others: float, most: float, adjacency: str) -> float:
    """Epsilon below ``most`` if two points of the curve, at these parts of delta, give one; else ``inf``."""
    parameter = gdp_epsilon(mu, own)
    if not 0.0 < parameter <= _LARGEST or most > _LARGEST:
        return math.inf
    # missing clones count 1 + e^epsilon times, for the largest epsilon considered
    weight = (1.0 + math.exp(most)) * (n - 1)
    bound = _clones_at(mu, others / weight)
    if bound > _LARGEST:
        return math.inf
    known = gdp_delta(parameter, mu)
    spent = (known + weight * math.exp(-bound) * gdp_delta(bound, mu)) * (1.0 + _RELATIVE)
    crowd, tilts = _Crowd(n - 1, _clone(bound, known)), _tilts(adjacency, parameter)

    def total(epsilon: float) -> float:
        return (spent + max(crowd.delta(epsilon, parameter, tilt) for tilt in tilts)) * (1.0 + _RELATIVE)

    least = most * (1.0 - _GAIN)  # a smaller gain does not justify its bisection
    return _least(total, delta, least, _GAIN / 10.0) if total(least) <= delta else math.inf


def _clones_at(mu: float, target: float) -> float:
    """Epsilon, to a thousandth, at which ``e^-epsilon`` times the delta of ``mu``-GDP has fallen to the target."""
    low, high = 0.0, 1.0
    while high <= _LARGEST and gdp_delta(high, mu) * math.exp(-high) > target:
        low, high = high, 2.0 * high
    while high - low > 1e-3 * high:
        middle = low + (high - low) / 2.0
        if gdp_delta(middle, mu) * math.exp(-middle) > target:
            low = middle
        else:
            high = middle
    return high
