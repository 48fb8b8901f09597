"""Pure differential privacy in the other currencies: closed forms, every result rounded towards the larger loss.

A mechanism is ``epsilon``-DP exactly if no test tells two neighbouring inputs apart better than one bit of randomised
response with ``p = e^epsilon / (1 + e^epsilon)``: that pair of distributions dominates every other (Wasserman and Zhou
2010; Kairouz, Oh and Viswanath 2015), so each figure here is that of this pair. Proofs: docs/guarantee.md.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import erf, erfinv, log_ndtr, ndtri_exp

from .._rounding import UNIT
from .._validate import number

__all__ = ["gdp_mu_of_pure", "pure_delta", "pure_epsilon", "pure_within_gdp", "zcdp_rho_of_pure"]

_SQRT8 = 2.0 * math.sqrt(2.0)
# Covers the errors of SciPy's inverse functions, a few units in either direction, many times over.
_MARGIN = 1e-12


def gdp_mu_of_pure(epsilon: float) -> float:
    """Smallest ``mu`` such that ``epsilon``-differential privacy implies ``mu``-GDP.

    Parameters
    ----------
    epsilon : float
        At least 0; ``inf`` (no privacy) gives ``inf``.

    Returns
    -------
    float
        ``-2 Phi^-1(1 / (1 + e^epsilon))``, multiplied by ``1 + 1e-12``.

    Notes
    -----
    About ``1.2533 epsilon`` for a small epsilon and ``sqrt(8 epsilon)`` for a large one.
    """
    epsilon = number(epsilon=epsilon, at_least=0.0, infinite=True)
    if epsilon == 0.0 or math.isinf(epsilon):
        return epsilon
    if epsilon < 1e-7:
        mu = epsilon * math.sqrt(math.pi / 2.0)  # it exceeds the exact value by less than a relative 1e-15
    elif epsilon < 1.0:
        # Phi(mu/2) - 1/2 = tanh(epsilon/2) / 2: nothing cancels
        mu = _SQRT8 * float(erfinv(math.tanh(epsilon / 2.0)))
    else:
        mu = -2.0 * float(ndtri_exp(-np.logaddexp(0.0, epsilon)))
    return math.nextafter(mu * (1.0 + _MARGIN), math.inf)


def pure_within_gdp(mu: float) -> float:
    """Largest ``epsilon`` such that ``epsilon``-differential privacy is within ``mu``-GDP, rounded down.

    Parameters
    ----------
    mu : float
        At least 0; ``inf`` gives ``inf``.
    """
    mu = number(mu=mu, at_least=0.0, infinite=True)
    if mu == 0.0 or math.isinf(mu):
        return mu
    small = mu < 1.0
    epsilon = 2.0 * math.atanh(erf(mu / _SQRT8)) if small else float(log_ndtr(mu / 2.0) - log_ndtr(-mu / 2.0))
    epsilon = min(epsilon, 1.7e308)
    while gdp_mu_of_pure(epsilon) > mu:
        epsilon = math.nextafter(epsilon * (1.0 - _MARGIN), 0.0)
    return epsilon


def zcdp_rho_of_pure(epsilon: float) -> float:
    """Smallest ``rho``, in nats, such that ``epsilon``-differential privacy implies ``rho``-zCDP, rounded up.

    Parameters
    ----------
    epsilon : float
        At least 0; ``inf`` gives ``inf``.

    Returns
    -------
    float
        ``epsilon tanh(epsilon / 2)``: below the ``epsilon^2 / 2`` of Bun and Steinke 2016.
    """
    epsilon = number(epsilon=epsilon, at_least=0.0, infinite=True)
    if epsilon == 0.0 or math.isinf(epsilon):
        return epsilon
    rho = epsilon * math.tanh(epsilon / 2.0) * (1.0 + 8.0 * UNIT)
    return min(math.nextafter(rho, math.inf), epsilon)


def pure_delta(epsilon: float, parameter: float) -> float:
    """Smallest delta at which ``parameter``-differential privacy implies ``(epsilon, delta)``.

    Parameters
    ----------
    epsilon, parameter : float
        At least 0; epsilon finite, ``parameter = inf`` (no privacy) gives 1.

    Returns
    -------
    float
        ``(e^parameter - e^epsilon) / (1 + e^parameter)``, rounded up; 0 where epsilon is at least the parameter.
    """
    epsilon = number(epsilon=epsilon, at_least=0.0)
    parameter = number(parameter=parameter, at_least=0.0, infinite=True)
    if epsilon >= parameter:
        return 0.0
    delta = -math.expm1(epsilon - parameter) / (1.0 + math.exp(-parameter))
    return min(math.nextafter(delta * (1.0 + 8.0 * UNIT), math.inf), 1.0)


def pure_epsilon(parameter: float, delta: float) -> float:
    """Smallest epsilon at which ``parameter``-differential privacy implies ``(epsilon, delta)``.

    Parameters
    ----------
    parameter, delta : float
        ``parameter`` at least 0 (``inf`` gives ``inf``), ``delta`` at least 0 and below 1.

    Returns
    -------
    float
        ``log(e^parameter - delta (1 + e^parameter))``, rounded up, at most the parameter; 0 where ``delta`` is at
        least ``tanh(parameter / 2)``.
    """
    parameter = number(parameter=parameter, at_least=0.0, infinite=True)
    delta = number(delta=delta, at_least=0.0, below=1.0)
    if delta == 0.0 or math.isinf(parameter):
        return parameter
    if pure_delta(0.0, parameter) <= delta:
        return 0.0
    if parameter < 1.0:
        growth = math.expm1(parameter)
        lost = delta * (2.0 + growth)
        value = math.log1p(growth - lost) if growth > lost else 0.0
        slack = 8.0 * UNIT * (growth + lost + value)
    else:
        # e^(value - parameter), of a value of at least 0; 1 - delta is exact wherever this is small
        least = math.exp(-parameter)
        lost = delta * least
        share = max((1.0 - delta) - lost, least)
        value = parameter + math.log(share)
        slack = 8.0 * UNIT * (parameter + abs(value) + ((1.0 - delta) + lost) / share)
    return min(math.nextafter(max(value, 0.0) + slack, math.inf), parameter)
