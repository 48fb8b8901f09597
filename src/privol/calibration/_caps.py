"""PrivUnit and its relatives: uniform directions on the sphere, reweighted on a cap, and their constants.

Epsilon is exact whatever is computed here, except for `threshold`, which is rounded towards more privacy: the mass of
the cap determines only the length of the report, and so its bias.

Sources: Duchi, Jordan and Wainwright 2018 (half spaces); Bhowmick, Duchi, Freudiger, Kapoor and Rogers 2018 (PrivUnit);
Asi, Feldman and Talwar 2022 (its optimality, PrivUnitG).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.special import betainc, gammaln, logsumexp, ndtri_exp

from .._validate import integer, number
from ..errors import InvalidParameter

__all__ = ["Cap", "GaussianCap", "cap_of", "gaussian_cap_of", "proxy_of_cap"]

_BITS = 192
_MOST_DIM = 1 << 20
_MOST_TRIALS = 1 << 16  # expected for a report: 2^24 in a row are rejected with probability below e^-255
_MARGIN = 1.0 - 2.0**-48  # more than the rounding of expm1 and tanh


@dataclass(frozen=True)
class Cap:
    """The law of a direction, for vectors of the largest norm.

    Attributes
    ----------
    epsilon : float
        What it is calibrated for.
    gamma : float
        A direction x is in the cap of u where ``<x, u> >= gamma``.
    mass : float
        Of the cap, in the uniform law.
    probability : float
        Of the cap, in this law.
    threshold : int
        A trial outside of the cap is rejected with probability ``threshold / 2**64``. In one dimension: the coin for
        ``+`` is within ``threshold / 2**64`` of one half.
    length : float
        Of the report, for vectors of norm 1: the inverse of the mean of ``<x, u>``.
    expected_trials : float
    trials : int
        That are drawn at a time.
    """

    epsilon: float
    gamma: float
    mass: float
    probability: float
    threshold: int
    length: float
    expected_trials: float
    trials: int


@functools.lru_cache(maxsize=256)
def cap_of(epsilon: float, dim: int, *, half: bool) -> Cap:
    """Calibrate the direction: the cap of least variance, or (``half``) the half space.

    The best gamma is the one root of ``gamma = m(gamma)``, m the mean of ``<x, u>``.
    """
    epsilon = number(epsilon=epsilon, above=0.0)
    dim = integer(dim=dim, at_least=1, at_most=_MOST_DIM)
    if dim == 1:
        threshold = int(math.tanh(epsilon / 2.0) * _MARGIN * 2.0**63)
        share = threshold / 2.0**63
        return Cap(epsilon, 0.0, 0.5, 0.5 + share / 2.0, threshold, 1.0 / share, 1.0, 1)
    threshold = int(-math.expm1(-epsilon) * _MARGIN * 2.0**64)
    odds = float(Fraction(threshold, 2**64 - threshold))  # e^epsilon - 1, of the threshold
    gamma = 0.0
    if not half:
        from scipy.optimize import brentq  # takes longer to import than the rest here, and is rarely needed

        gamma = float(brentq(lambda g: g - _rough_mean(g, dim, odds), 0.0, 1.0 - 1e-16, xtol=1e-300, rtol=1e-15))
        for _ in range(2):  # the mean is flat there, so each round gains as many digits again
            gamma = min(max(_mean(gamma, dim, odds)[0], 0.0), math.nextafter(1.0, 0.0))
    mean, mass = _mean(gamma, dim, odds)
    accepted = 1.0 - threshold / 2.0**64 * (1.0 - mass)
    if not accepted * _MOST_TRIALS > 1.0:
        raise InvalidParameter(
            f"epsilon is too large for privunit in {dim} dimensions, found {epsilon:g}: a report would take "
            f"{1.0 / accepted:.3g} trials, at most {_MOST_TRIALS} are allowed; gaussian and l2laplace suit it"
        )
    rejected = -math.log1p(-accepted)  # of the logarithm of the probability
    trials = math.ceil(min(math.log(16.0) / rejected, 5.0 / math.sqrt(accepted)))
    return Cap(epsilon, gamma, mass, mass / accepted, threshold, 1.0 / mean, 1.0 / accepted, max(trials, 1))


def _rough_mean(gamma: float, dim: int, odds: float) -> float:
    half = (dim - 1) / 2.0
    mass = float(betainc(half, half, (1.0 - gamma) / 2.0))
    log_area = gammaln(dim / 2.0) - gammaln(half) - 0.5 * math.log(math.pi)
    area = math.exp(log_area + half * math.log1p(-gamma * gamma)) / (dim - 1)
    return odds * area / (1.0 + odds * mass)


def _mean(gamma: float, dim: int, odds: float) -> tuple[float, float]:
    """Mean of ``<x, u>``, and the mass of the cap.

    With F(d) the mass between the caps of u and -u, and A(d) the integral of ``<x, u>`` over the cap:
    ``F(d + 2) = F(d) + 2 gamma A(d)`` and ``A(d + 2) = A(d) (1 - gamma^2) d / (d + 1)``, by parts. Integers of 2^-192.
    """
    one, g = 1 << _BITS, Fraction(gamma)
    thin = int((1 - g * g) * one)
    exact = int(g * one)
    d = 2 + dim % 2
    if d == 2:
        # F(2) = 2 asin(gamma) / pi, in double precision: its rounding is that of the result
        between = int(Fraction(2.0 * math.asin(gamma) / math.pi) * one)
        area = math.isqrt(thin << _BITS) * one // _pi()
    else:
        between, area = exact, thin // 4
    while d < dim:
        between += 2 * (exact * area >> _BITS)
        area = (area * thin >> _BITS) * d // (d + 1)
        d += 2
    mass = float(Fraction(one - between, 2 * one))
    return odds * float(Fraction(area, one)) / (1.0 + odds * mass), mass


@functools.cache
def _pi() -> int:
    """pi in units of 2^-192, by Machin's formula."""
    one = 1 << (_BITS + 32)

    def arctan_inverse(n: int) -> int:
        term, total, k = one // n, 0, 1
        while term:
            total += (term // k) if k % 4 == 1 else -(term // k)
            term, k = term // (n * n), k + 2
        return total

    return 4 * (4 * arctan_inverse(5) - arctan_inverse(239)) >> 32


@functools.lru_cache(maxsize=256)
def proxy_of_cap(dim: int, cap: Cap) -> float:
    """Sub-Gaussian constant of the direction along any unit vector, in units of the squared length, times 1.01.

    The largest of ``1 / (dim - 1)``, for what is orthogonal to u (uniform on a sphere, given the rest), and of
    ``2 log E exp(t (s a - E s a)) / t^2`` over a grid of t and of the mean of the sign s, a = <x, u>. Numerical.
    """
    nodes, weights = np.polynomial.legendre.leggauss(400)
    reach = min(math.pi / 2.0, 14.0 / math.sqrt(dim))  # in angles: beyond it the probability is below e^-90
    edge = math.asin(cap.gamma)
    angles, logs = [], []
    for low, high, log_weight in ((-reach, edge, 0.0), (edge, max(reach, edge + reach), None)):
        high = min(high, math.pi / 2.0)
        angle = low + (high - low) * (nodes + 1.0) / 2.0
        log_density = (dim - 2) * np.log(np.cos(angle)) + (math.log1p(_odds(cap)) if log_weight is None else 0.0)
        angles.append(np.sin(angle))
        logs.append(log_density + np.log(weights * (high - low)))
    a, log_law = np.concatenate(angles), np.concatenate(logs)
    log_law -= logsumexp(log_law)
    mean = float(np.sum(np.exp(log_law) * a))
    second = float(np.sum(np.exp(log_law) * a * a))
    best = second  # the variance of the zero vector, in the limit t = 0
    t = np.geomspace(0.03, 60.0, 120) * min(math.sqrt(dim), 1.0 / math.sqrt(second) * 4.0)
    up = logsumexp(log_law[None, :] + t[:, None] * a[None, :], axis=1)
    down = logsumexp(log_law[None, :] - t[:, None] * a[None, :], axis=1)
    for r in np.linspace(0.0, 1.0, 41):
        for first, other, sign in ((up, down, 1.0), (down, up, -1.0)):
            with np.errstate(divide="ignore"):
                logs_of = np.logaddexp(first + np.log((1.0 + r) / 2.0), other + np.log((1.0 - r) / 2.0))
            best = max(best, float(np.max(2.0 * (logs_of - sign * t * r * mean) / t**2)))
    return max(best, 1.0 / (dim - 1)) * 1.01


def _odds(cap: Cap) -> float:
    return float(Fraction(cap.threshold, 2**64 - cap.threshold))


@dataclass(frozen=True)
class GaussianCap:
    """PrivUnitG: Gaussian vectors instead of uniform directions. For analysis.

    Attributes
    ----------
    epsilon : float
    gamma : float
        The border, in units of the mean length of x.
    probability : float
        Of its far side.
    length : float
        What x is multiplied with.
    power : float
        Mean squared norm of the result.
    """

    epsilon: float
    gamma: float
    probability: float
    length: float
    power: float


@functools.lru_cache(maxsize=256)
def gaussian_cap_of(epsilon: float, dim: int) -> GaussianCap:
    """The member of least variance, found by one-dimensional minimisation."""

    def member(log_odds: float) -> GaussianCap:
        # p q / ((1 - p) (1 - q)) = e^epsilon
        p = 1.0 / (1.0 + math.exp(-log_odds))
        z = -float(ndtri_exp(-np.logaddexp(0.0, epsilon - log_odds)))  # of 1 - q
        log_other = -float(np.logaddexp(0.0, epsilon - log_odds))
        q = -math.expm1(log_other)
        height = math.exp(-z * z / 2.0) / math.sqrt(2.0 * math.pi)
        slope = height * (p * math.exp(-log_other) - (1.0 - p) / q)
        mean = slope / math.sqrt(dim)
        return GaussianCap(epsilon, z / math.sqrt(dim), p, 1.0 / mean, (1.0 + z * slope / dim) / (mean * mean))

    from scipy.optimize import minimize_scalar  # imported here as brentq is above

    found = minimize_scalar(
        lambda x: math.log(member(x).power), bounds=(0.0, epsilon + 20.0), method="bounded", options={"xatol": 1e-9}
    )
    return member(float(found.x))
