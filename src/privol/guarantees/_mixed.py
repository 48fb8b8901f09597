"""Composition of Gaussian and pure differential privacy by privacy loss distributions, for runs fixed in advance.

Source: Zhu, Dong and Wang 2022 (pairs of distributions that dominate mechanisms compose, however mechanisms depend on
earlier results); Koskela, Jälkö and Honkela 2020 (losses as numbers on a grid, convolved by Fourier transforms).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr

from .._rounding import UNIT, vector_norm
from .._validate import number
from ..errors import StateError
from ._arithmetic import compose_gdp, gdp_epsilon, sum_up, zcdp_epsilon, zcdp_rho_of_gdp
from ._pure import gdp_mu_of_pure, pure_epsilon, zcdp_rho_of_pure

if TYPE_CHECKING:
    FloatArray = NDArray[np.float64]

__all__ = ["compose_fixed", "compose_pure"]

_POINTS = 2.0**18  # approximate number of grid points
_COARSEST = 32.0  # steps of the grid: smaller losses join the Gaussian ones, whose rounding does not add up
_GROUPS = 32  # groups of pure runs that are kept apart
# Added to delta for rounding in probabilities and sums; a hundred times what is needed.
_RELATIVE = 1e-9
# Error of a Fourier transform of length n, relative, in the Euclidean norm, per log2(n) (Higham 2002, Theorem 24.2).
_FOURIER = 7.0 * UNIT


def compose_pure(epsilons: Iterable[float]) -> float:
    """Compose mechanisms of pure differential privacy, each of which may be chosen from the earlier outputs.

    Parameters
    ----------
    epsilons : iterable of float
        Each at least 0, ``inf`` allowed.

    Returns
    -------
    float
        Their sum, exact and then rounded up to a double; 0 for none.
    """
    return sum_up([number(epsilon=epsilon, at_least=0.0, infinite=True) for epsilon in epsilons])


def compose_fixed(mu: float, epsilons: Iterable[float], delta: float) -> float:
    """Epsilon at ``delta`` of a ``mu``-GDP mechanism together with pure ones whose parameters were fixed beforehand.

    Parameters
    ----------
    mu : float
        Composition of the Gaussian ones, at least 0; ``inf`` gives ``inf``.
    epsilons : iterable of float
        Of the pure ones, each at least 0; ``inf`` gives ``inf``.
    delta : float
        Above 0, below 1.

    Returns
    -------
    float
        An upper bound; exact (rounded up) where there is one kind with a closed form.

    Raises
    ------
    StateError
        If it takes privacy loss distributions and dp-accounting is not installed.

    Notes
    -----
    It holds for any order, and for mechanisms that are chosen from earlier outputs, as long as ``mu`` and ``epsilons``
    are not. Losses are rounded up to a grid, tails that are cut off count as infinite losses, and what the Fourier
    transforms may have rounded away is charged to ``delta``. At a delta below about 1e-10 that leaves nothing, and the
    best closed form is what is returned.
    """
    mu = number(mu=mu, at_least=0.0, infinite=True)
    delta = number(delta=delta, above=0.0, below=1.0)
    total = compose_pure(epsilons := list(epsilons))
    if math.isinf(mu) or math.isinf(total):
        return math.inf
    pure = sorted(epsilon for epsilon in epsilons if epsilon > 0.0)
    if not pure:
        return gdp_epsilon(mu, delta)
    if mu == 0.0 and len(pure) == 1:
        return pure_epsilon(total, delta)
    rho = sum_up([zcdp_rho_of_gdp(mu), *map(zcdp_rho_of_pure, pure)])
    best = min(
        gdp_epsilon(compose_gdp([mu, *map(gdp_mu_of_pure, pure)]), delta),
        zcdp_epsilon(rho, delta),
        pure_epsilon(total, delta) if mu == 0.0 else sum_up([gdp_epsilon(mu, delta), total]),
    )
    return _by_distributions(mu, pure, delta, best)


def _by_distributions(mu: float, pure: list[float], delta: float, best: float) -> float:
    """Epsilon by privacy loss distributions, or ``best`` if they prove no less."""
    try:
        from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
    except ModuleNotFoundError as error:
        raise StateError(
            "composing runs of different kinds tightly needs dp-accounting: pip install 'privol[accounting]'"
        ) from error

    groups = _grouped(pure)
    width = 20.0 * mu + sum(2.0 * epsilon * (most - least) for epsilon, (_, least, most) in groups.items())
    step = _step(width / _POINTS, max(groups, key=lambda epsilon: epsilon * groups[epsilon][0]))
    small = {epsilon: count for epsilon, (count, _, _) in groups.items() if epsilon < _COARSEST * step}
    mu = compose_gdp([mu, *(gdp_mu_of_pure(epsilon) for epsilon, count in small.items() for _ in range(count))])
    parts = [_gaussian(mu, step)] if mu > 0.0 else []
    parts += [_responses(epsilon, *found, step) for epsilon, found in groups.items() if epsilon not in small]
    composed: Any = None
    slack, norm, points = 0.0, 0.0, 1
    for least, probabilities, beyond in parts:
        made = PrivacyLossDistribution.create_from_rounded_probability(
            dict(enumerate(probabilities.tolist(), start=least)), beyond, step
        )
        own = vector_norm(probabilities)
        points += len(probabilities)
        if composed is None:
            composed, norm = made, own
            continue
        composed = composed.compose(made)
        # errors of entries add up; in the worst case, with equal signs, by a factor of the root of their number
        slack += math.sqrt(points) * _FOURIER * math.log2(2 * points) * (own + norm + min(own, norm))
        norm = min(norm, own)
    target = delta * (1.0 - _RELATIVE) - slack

    def within(epsilon: float) -> bool:
        return float(composed.get_delta_for_epsilon(epsilon)) <= target

    if not within(best):
        return best
    low, high = 0.0, best
    if within(low):
        return low
    while high - low > 1e-3 * step:
        middle = low + (high - low) / 2.0
        if not low < middle < high:
            break
        low, high = (low, middle) if within(middle) else (middle, high)
    return high


def _step(least: float, epsilon: float) -> float:
    """A grid step of at least ``least`` that divides ``epsilon``, if that is larger."""
    if epsilon <= least:
        return least
    parts = math.floor(epsilon / least)
    step = epsilon / parts
    return step if Fraction(step) * parts >= Fraction(epsilon) else math.nextafter(step, math.inf)


def _grouped(pure: list[float]) -> dict[float, tuple[int, int, int]]:
    """Epsilons rounded up to a few: how many runs have each, and between which counts of the larger loss they lie."""
    counts = Counter(pure)
    if len(counts) > _GROUPS:
        values = np.array(sorted(counts))
        shares = np.cumsum([counts[value] * value for value in values.tolist()])
        cuts = np.searchsorted(shares, shares[-1] * np.arange(1, _GROUPS + 1) / _GROUPS)
        tops = values[np.unique(np.minimum(cuts, len(values) - 1))].tolist()
        merged: Counter[float] = Counter()
        for value, count in counts.items():
            merged[tops[int(np.searchsorted(tops, value))]] += count
        counts = merged
    groups = {}
    for epsilon, count in counts.items():
        p = float(expit(epsilon))
        # by Bernstein's inequality, less than 1e-20 lies beyond
        spread = 10.0 * math.sqrt(count * p * float(expit(-epsilon))) + 40.0
        groups[epsilon] = (count, max(0, math.floor(count * p - spread)), min(count, math.ceil(count * p + spread)))
    return groups


def _gaussian(mu: float, step: float) -> tuple[int, FloatArray, float]:
    """Losses of ``mu``-GDP (normal), rounded up to the grid: the least, the probabilities, and the mass beyond."""
    mean = mu * mu / 2.0
    least, most = math.floor((mean - 10.0 * mu) / step), math.ceil((mean + 10.0 * mu) / step)
    edges = (np.arange(least, most + 1) * step - mean) / mu
    below = np.minimum(edges, 0.0)
    above = np.maximum(edges, 0.0)
    # on each side of the mean from its own tail, without cancellation
    probabilities = np.diff(ndtr(below)) - np.diff(ndtr(-above))
    return least, np.concatenate([ndtr(edges[:1]), probabilities]), float(ndtr(-edges[-1]))


def _responses(epsilon: float, count: int, least: int, most: int, step: float) -> tuple[int, FloatArray, float]:
    """Losses of ``count`` randomised responses, each ``epsilon`` (rounded up to the grid) or its negative."""
    from scipy.stats import binom  # takes longer to import than the rest here, and is rarely needed

    steps = math.ceil(Fraction(epsilon) / Fraction(step))
    p = float(expit(steps * step))
    larger = np.arange(least, most + 1)
    chances = binom.pmf(larger, count, p)
    if least > 0:
        chances[0] += binom.cdf(least - 1, count, p)  # a smaller loss counts as this one
    probabilities = np.zeros(2 * steps * (most - least) + 1)
    probabilities[:: 2 * steps] = chances
    return (2 * least - count) * steps, probabilities, float(binom.sf(most, count, p))
