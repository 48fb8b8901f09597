"""The arithmetic of privacy budgets: pure functions of public numbers, every result rounded towards more noise.

Sources: Balle and Wang 2018 (the exact curve of the Gaussian mechanism), Dong, Roth and Su 2022 (Gaussian
differential privacy and its composition), Canonne, Kamath and Steinke 2020 (from zero-concentrated to
approximate differential privacy).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, log_ndtr

from .._rounding import UNIT, ceil_double, sqrt_up, square_up, sum_up
from .._validate import number
from ..errors import InvalidParameter

__all__ = [
    "BudgetSplit",
    "compose_gdp",
    "gdp_delta",
    "gdp_epsilon",
    "gdp_mu",
    "group_mu",
    "split_budget",
    "square_up",
    "sum_up",
    "zcdp_epsilon",
    "zcdp_rho_of_gdp",
]

_SQRT2 = math.sqrt(2.0)
_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)


@functools.cache
def _gauss_legendre() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Nodes and weights on [0, 1]; 64 of them integrate exp(-90 t) and exp(-45 t^2) to full precision."""
    nodes, weights = np.polynomial.legendre.leggauss(64)
    return (nodes + 1.0) / 2.0, weights / 2.0


def _log_delta(epsilon: float, mu: float) -> float:
    """Logarithm of the curve at finite ``epsilon >= 0``, ``mu > 0``, rounded up by a bound of its error.

    With ``a = mu/2 - epsilon/mu`` and ``y = mu/2 + epsilon/mu`` the curve is ``Phi(a) - e^epsilon Phi(-y)``,
    and ``e^epsilon phi(y) = phi(a)`` takes the large exponentials out of it: ``delta = phi(a) (M(-a) -
    M(y))`` with Mills' ratio M. Subtracting loses digits only where the two terms are close (a small mu);
    there the same quantity is summed from its positive integrand ``phi(t - a) (1 - e^(-mu t))``, ``t > 0``. A
    difference of two ``log_ndtr`` values would lose about ``epsilon / mu^2`` units in the last place, more
    than a margin of 1e-12 in mu covers.
    """
    a = mu / 2.0 - epsilon / mu
    y = mu / 2.0 + epsilon / mu
    if math.isinf(a * a):
        return -math.inf if a < 0.0 else 0.0
    value = math.nan
    second = 0.5 * float(erfcx(y / _SQRT2))
    if a <= 0.0:
        first = 0.5 * float(erfcx(-a / _SQRT2))
        if second <= 0.5 * first:
            value = math.log(first - second) - a * a / 2.0
    else:
        log_first = float(log_ndtr(a))
        ratio = math.exp(-a * a / 2.0 - log_first) * second
        if ratio <= 0.5:
            value = log_first + math.log1p(-ratio)
    if math.isnan(value):
        nodes, weights = _gauss_legendre()
        root = math.sqrt(a * a + 90.0)
        length = a + root if a > 0.0 else 90.0 / (root - a)  # beyond it the integrand has fallen by e^-45
        t = length * nodes
        growth = -np.expm1(-mu * t) / mu if mu > 1e-100 else t  # the limit, for products that would be subnormal
        total = length * float(np.sum(weights * np.exp(t * (a - t / 2.0)) * growth))
        if total <= 0.0:
            return -a * a / 2.0  # it underflows only if this plain bound is already far below any delta
        value = math.log(total) + math.log(mu) - a * a / 2.0 - _LOG_SQRT_2PI
    # The rounding of a moves the value by at most (|a| + 1) y units, the rest of the evaluation by a few.
    slack = UNIT * (16.0 + 4.0 * abs(value)) + 8.0 * UNIT * (abs(a) + 1.0) * (y + 1.0)
    return min(value + slack, 0.0)


def _delta(epsilon: float, mu: float) -> float:
    if mu == 0.0:
        return 0.0
    if math.isinf(mu):
        return 1.0
    delta = math.exp(_log_delta(epsilon, mu))
    # Subnormal numbers are too coarse for the error bound, so the next one is taken.
    return delta if delta > 1e-300 else math.nextafter(delta, 1.0)


def gdp_delta(epsilon: float, mu: float) -> float:
    """Smallest delta at which ``mu``-GDP implies ``(epsilon, delta)``-differential privacy.

    Parameters
    ----------
    epsilon, mu : float
        At least 0; epsilon finite, ``mu = inf`` (no privacy) gives 1.

    Returns
    -------
    float
        ``Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)``, within [0, 1] and rounded up; 0 only
        for ``mu = 0``, the smallest positive double where the value underflows.

    Notes
    -----
    Balle and Wang 2018, Theorem 8. Accurate in relative terms for every argument, the far tail included.
    """
    return _delta(number(epsilon=epsilon, at_least=0.0), number(mu=mu, at_least=0.0, infinite=True))


def gdp_epsilon(mu: float, delta: float) -> float:
    """Smallest epsilon at which ``mu``-GDP implies ``(epsilon, delta)``-differential privacy.

    Parameters
    ----------
    mu, delta : float
        ``mu`` at least 0 (``inf`` gives ``inf``), ``delta`` above 0 and below 1.

    Returns
    -------
    float
        Rounded up; 0 where ``delta`` is at least ``2 Phi(mu/2) - 1``.
    """
    mu = number(mu=mu, at_least=0.0, infinite=True)
    delta = number(delta=delta, above=0.0, below=1.0)
    if mu == 0.0:
        return 0.0
    return math.inf if math.isinf(mu) else _epsilon(mu, delta)


@functools.lru_cache(maxsize=1 << 12)  # every run and every report needs the same few again and again
def _epsilon(mu: float, delta: float) -> float:
    if _delta(0.0, mu) <= delta:
        return 0.0
    low, high = 0.0, mu * (mu / 2.0 + math.sqrt(-2.0 * math.log(delta)))
    while math.isfinite(high) and _delta(high, mu) > delta:
        low, high = high, 2.0 * high
    if math.isinf(high):
        return math.inf
    while high - low > 1e-15 * high and high - low > 1e-17 * mu:
        middle = low + (high - low) / 2.0
        if not low < middle < high:
            break
        if _delta(middle, mu) <= delta:
            high = middle
        else:
            low = middle
    return high


def gdp_mu(epsilon: float, delta: float) -> float:
    """Largest ``mu`` whose guarantee is within ``(epsilon, delta)``: the analytic calibration of Gaussian
    noise.

    Parameters
    ----------
    epsilon, delta : float
        ``epsilon`` at least 0 and finite, ``delta`` above 0 (Gaussian noise cannot give 0) and below 1.

    Returns
    -------
    float
        The root of the increasing function ``mu -> gdp_delta(epsilon, mu)``, bisected to a relative 1e-14 and
        then multiplied by ``1 - 1e-12`` (less budget, more noise). Noise of standard deviation ``sensitivity
        / mu`` meets the budget.

    Notes
    -----
    Balle and Wang 2018. The classical ``sqrt(2 ln(1.25/delta))/epsilon`` is both larger and wrong for epsilon
    above 1.
    """
    return _mu(number(epsilon=epsilon, at_least=0.0), number(delta=delta, above=0.0, below=1.0))


@functools.lru_cache(maxsize=1 << 12)
def _mu(epsilon: float, delta: float) -> float:
    # Two lower bounds of the root: delta <= mu/sqrt(2 pi), and delta <= exp(-a^2/2) where a < 0.
    tail = math.sqrt(-2.0 * math.log(delta))
    low = max(delta * math.sqrt(2.0 * math.pi), 2.0 * epsilon / (math.hypot(tail, math.sqrt(2.0 * epsilon)) + tail))
    while _delta(epsilon, low) > delta:
        low /= 2.0
    high = 2.0 * low
    while _delta(epsilon, high) <= delta:
        low, high = high, 2.0 * high
    while high > low * (1.0 + 1e-14):
        middle = low * math.sqrt(high / low)
        if not low < middle < high:
            break
        if _delta(epsilon, middle) <= delta:
            low = middle
        else:
            high = middle
    return low * (1.0 - 1e-12)


def compose_gdp(mus: Iterable[float]) -> float:
    """Compose mechanisms that are ``mu_i``-GDP, each of which may be chosen from the earlier outputs.

    Parameters
    ----------
    mus : iterable of float
        Each at least 0, ``inf`` allowed; anything else raises :class:`~privol.errors.InvalidParameter`.

    Returns
    -------
    float
        ``sqrt(sum mu_i^2)``, exact and then rounded up to a double; 0 for none.

    Notes
    -----
    Dong, Roth and Su 2022, Corollary 3.3. Where the ``mu_i`` are themselves chosen from outputs, a bound
    fixed in advance on the sum of squares is what is guaranteed; that is what :class:`privol.ledger.Ledger`
    enforces.
    """
    total = Fraction(0)
    infinite = False
    for entry in mus:
        mu = number(mu=entry, at_least=0.0, infinite=True)
        if math.isinf(mu):
            infinite = True
        else:
            total += Fraction(mu) ** 2
    return math.inf if infinite else sqrt_up(total)


def group_mu(mu: float, rows: int) -> float:
    """Return ``rows * mu``, rounded up: what covers ``rows`` (at least 1) changed rows where ``mu`` covers one."""
    if math.isinf(mu):
        return mu
    return ceil_double(rows * Fraction(mu))


def times_up(mu: float, factor: float) -> float:
    """Return ``factor * mu``, rounded up; ``factor`` is at least 0, and either may be infinite."""
    infinite = math.isinf(mu) or factor == math.inf  # an integer may be beyond the doubles
    return math.inf if infinite else ceil_double(Fraction(factor) * Fraction(mu))


class BudgetSplit(NamedTuple):
    """Two parts of a budget that together stay within it.

    Attributes
    ----------
    epsilon : float
        Epsilon of the greater part, at the delta of the whole.
    mu : float
        Mu of the share that was split off.
    """

    epsilon: float
    mu: float


def split_budget(epsilon: float, delta: float, share: float) -> BudgetSplit:
    """Split a share off a budget: ``share`` of its ``mu^2``, because squares of mu add up.

    Parameters
    ----------
    epsilon : float
        Of the whole, above 0; ``inf`` (no privacy) leaves both parts infinite.
    delta : float
        Of the whole and of the greater part, above 0 and below 1.
    share : float
        Between 1e-6 and 1 - 1e-6.

    Returns
    -------
    BudgetSplit
        ``epsilon``: the budget of a learner; ``gdp_mu`` of it is at most ``mu sqrt(1 - share)``. ``mu``: at most
        ``mu sqrt(share)``. So both fit into a :class:`~privol.ledger.Ledger` limited to the whole.

    Raises
    ------
    InvalidParameter
        If a parameter is out of its range, or the greater part is so small that its epsilon at ``delta`` is 0.
    """
    epsilon = number(epsilon=epsilon, above=0.0, infinite=True)
    delta = number(delta=delta, above=0.0, below=1.0)
    share = number(share=share, at_least=1e-6, at_most=1.0 - 1e-6)
    if math.isinf(epsilon):
        return BudgetSplit(math.inf, math.inf)
    mu = gdp_mu(epsilon, delta)
    most = mu * math.sqrt(1.0 - share)
    rest = epsilon_within(most, delta)
    left = Fraction(mu) ** 2 - Fraction(gdp_mu(rest, delta)) ** 2 if rest > 0.0 else Fraction(0)
    if left <= 0:
        raise InvalidParameter(
            f"share must leave an epsilon above 0 at delta = {delta!r}: {share!r} of epsilon = {epsilon!r} does not"
        )
    # The two roundings of the square root's argument, and its own, are together below 1e-14.
    return BudgetSplit(rest, min(mu * math.sqrt(share), math.sqrt(left)) * (1.0 - 1e-14))


def epsilon_within(mu: float, delta: float) -> float:
    """Return the largest epsilon, up to rounding, whose :func:`gdp_mu` is at most ``mu``; 0 if there is none."""
    found = gdp_epsilon(mu, delta)
    while 0.0 < found < math.inf and gdp_mu(found, delta) > mu:
        found *= 1.0 - 1e-12
    return found


def zcdp_rho_of_gdp(mu: float) -> float:
    """Parameter ``rho = mu^2 / 2``, in nats and rounded up, of the zCDP that ``mu``-GDP implies."""
    square = square_up(number(mu=mu, at_least=0.0, infinite=True))
    # Halving is exact except for the smallest subnormals, where the larger neighbour is kept.
    return square / 2.0 if square / 2.0 * 2.0 == square else square


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Epsilon at which ``rho``-zCDP implies ``(epsilon, delta)``-differential privacy.

    Parameters
    ----------
    rho, delta : float
        ``rho`` at least 0 (``inf`` gives ``inf``), ``delta`` above 0 and below 1.

    Returns
    -------
    float
        Minimum over ``alpha > 1`` of ``alpha rho + ln(1 - 1/alpha) - (ln delta + ln alpha)/(alpha - 1)``,
        rounded up, at least 0.

    Notes
    -----
    Canonne, Kamath and Steinke 2020, Corollary 13; never above the classical ``rho + 2 sqrt(rho
    ln(1/delta))``. A mechanism that is known to be ``mu``-GDP has the smaller :func:`gdp_epsilon`.
    """
    rho = number(rho=rho, at_least=0.0, infinite=True)
    delta = number(delta=delta, above=0.0, below=1.0)
    if rho == 0.0 or math.isinf(rho):
        return rho
    log_inverse = -math.log(delta)
    # With u = alpha - 1 the derivative vanishes where rho u^2 + ln(1 + u) = ln(1/delta): an increasing
    # function. The bound holds at every alpha, so an inexact root costs tightness only.
    high = min(math.sqrt(log_inverse / rho), math.expm1(min(log_inverse, 700.0)))
    low = high
    while low > 0.0 and rho * low * low + math.log1p(low) > log_inverse:
        low /= 4.0
    for _ in range(80):
        middle = math.sqrt(low) * math.sqrt(high)
        if not low < middle < high:
            break
        if rho * middle * middle + math.log1p(middle) > log_inverse:
            high = middle
        else:
            low = middle
    u = high
    terms = (rho, rho * u, -math.log1p(1.0 / u), (log_inverse - math.log1p(u)) / u)
    magnitude = math.fsum(abs(term) for term in terms) + (log_inverse + math.log1p(u)) / u
    epsilon = math.fsum(terms) + 8.0 * UNIT * magnitude
    return max(epsilon, 0.0)
