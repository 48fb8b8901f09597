"""Local randomizers: from a budget to the noise of a report, its variance, and the facts that coin betting needs.

Of a row only its report is sent, so the report's guarantee is the run's. Proofs: docs/proofs/reports.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from .._rounding import UNIT
from .._validate import choice, integer, number
from .._vocabulary import PROXIES, RANDOMIZERS
from ..errors import InvalidParameter
from ..guarantees import ADJACENCIES, gdp_mu, gdp_mu_of_pure
from ._caps import Cap, cap_of, proxy_of_cap

__all__ = [
    "RANDOMIZERS",
    "Proxy",
    "ReportNoise",
    "calibrate_report",
    "gaussian_leakage",
    "gaussian_leakage_std",
]


# Outwards by 900 units, a tenth of _rounding.UP: these figures round a dozen times, and the noise of every report ever
# drawn depends on the factor.
_UP = 1.0 + 1e-13
_TINY_NORM, _LARGE_NORM = 1e-100, 1e100
_LEAST_EPSILON, _LEAST_SCALE, _LARGEST_SCALE = 1e-9, 1e-140, 1e140
# the root of exp(-x - x^2) = 1 - x, rounded down: larger bets have no bound
_LARGEST_BET = 0.6838026237520206
_ARITHMETIC = {
    "gaussian": "the real-valued sum of the clipped vector, in double precision, and Gaussian noise",
    "laplace": "the real-valued sum of the clipped vector, in double precision, and Laplace noise",
    "l2_laplace": "the real-valued sum of the clipped vector, in double precision, and L2-Laplace noise",
    "cap": "a real vector that is uniform on a sphere, accepted with a probability that depends on its side of a cap, "
    "which is decided for the real vector, and scaled",
    "sign": "one of two numbers, by a coin of 64 bits",
    "plain": "double precision, no noise",
}
_ROUNDING = (
    ", correctly rounded to a power-of-two grid between 2^-11 and 2^-10 of the noise's scale (error bounds of the "
    "evaluation verified numerically; what they leave open is re-evaluated with more random bits in multiple precision)"
)


class Proxy(NamedTuple):
    """The facts about a report's unbiased noise xi for coin betting.

    Attributes
    ----------
    constant : float
        For unit vectors a: ``E exp(beta <xi, a>) <= exp(beta^2 constant / 2)`` for ``|beta| <= 1 / b``.
    b : float
        0: for all beta.
    proved : bool
        False: found numerically, with a margin of 1 %. What is derived from it is then no theorem; privacy has nothing
        to do with it.
    """

    constant: float
    b: float
    proved: bool


def clip_excess(dim: int) -> float:
    """Bound, relative to the bound of the norm, of how far a vector exceeds it that was scaled in double precision.

    The norm's square rounds by at most ``(dim + 2) 2^-53``, in any order of the sum; 50 more roundings of coordinates
    and factors are allowed for.
    """
    return (dim + 64) * UNIT * (1.0 + 1e-6)


def gaussian_leakage(std: float, *, bound: float = 1.0, dim: int) -> float:
    """Bound, in nats, of what a vector with Gaussian noise tells of the vector, on average and whatever its law.

    The capacity ``dim / 2 log(1 + bound^2 / (dim std^2))`` of the channel with that power, rounded up.

    Parameters
    ----------
    std : float
        Standard deviation of a coordinate, above 0.
    bound : float, default=1.0
        L2 norm of the vector, at most.
    dim : int
        At least 1.

    References
    ----------
    Zhang and Venkitasubramaniam: Mutual information private online gradient descent. Cover and Thomas: Elements of
    information theory, chapter 9.
    """
    std, bound = number(std=std, above=0.0), number(bound=bound, above=0.0)
    dim = integer(dim=dim, at_least=1)
    ratio = bound / std
    if ratio > 1e150 or ratio < 1e-150:
        raise InvalidParameter(f"bound and std are too far apart for double precision: {bound:g} and {std:g}")
    return 0.5 * dim * math.log1p(ratio * ratio / dim) * _UP


def gaussian_leakage_std(leakage: float, *, bound: float = 1.0, dim: int) -> float:
    """Standard deviation of the noise whose :func:`gaussian_leakage` is ``leakage``, rounded up.

    ``bound / sqrt(dim (exp(2 leakage / dim) - 1))``.

    Parameters
    ----------
    leakage : float
        In nats (1 bit is log 2 = 0.693 nats), above 0.
    bound, dim
        As there.
    """
    leakage, bound = number(leakage=leakage, above=0.0), number(bound=bound, above=0.0)
    dim = integer(dim=dim, at_least=1)
    if not 1e-250 < leakage < 300.0 * dim:
        raise InvalidParameter(f"leakage must be above 1e-250 and below {300 * dim} nats, found {leakage:g}")
    return bound / math.sqrt(dim * math.expm1(2.0 * leakage / dim)) * _UP


@dataclass(frozen=True)
class ReportNoise:
    """Everything that a report depends on but for the vector and the random bits; all of it public.

    Attributes
    ----------
    name : str
        One of :data:`RANDOMIZERS`.
    kind : {"plain", "gaussian", "laplace", "l2_laplace", "cap", "sign"}
        The law of the draw; "plain": no noise. "sign" is what caps are in one dimension.
    dim : int
    bound : float
        L2 norm that vectors are scaled to where they exceed it.
    adjacency : {"replace", "zero_out"}
    scale : float
        Of the noise: the Gaussian's standard deviation per coordinate, the others' scale; of "cap" and "sign" the
        length of the report. 0: no noise.
    sensitivity : float
        L2 distance of two admissible vectors, or of one from 0, the rounding of the clip charged.
    deviation : float
        Standard deviation of a coordinate of the noise, at most (of caps the root mean square over the coordinates).
    mu : float
        Parameter of Gaussian differential privacy, infinite without noise.
    epsilon : float
        Parameter of pure differential privacy, infinite where there is none.
    leakage : float or None
        Of Gaussian noise: bound of the mutual information of vector and report, in nats.
    cap : Cap or None
        Of "cap" and "sign".
    """

    name: str
    kind: str
    dim: int
    bound: float
    adjacency: str
    scale: float
    sensitivity: float
    deviation: float
    mu: float
    epsilon: float
    leakage: float | None = None
    cap: Cap | None = None

    def variance(self, norm: float) -> float:
        """Return ``E ||report - v||^2`` for a vector v of that L2 norm, from 0 to the bound.

        Without the rounding to the grid, which adds less than 1e-6 of it.
        """
        norm = number(norm=norm, at_least=0.0, at_most=self.bound)
        if self.cap is not None:
            return (self.scale - norm) * (self.scale + norm)
        if self.kind == "l2_laplace":
            return self.dim * (self.dim + 1.0) * self.scale * self.scale
        return (2.0 if self.kind == "laplace" else 1.0) * self.dim * self.scale * self.scale

    @property
    def power(self) -> float:
        """Bound of ``E ||report||^2`` over all vectors, without the rounding to the grid."""
        return self.scale * self.scale if self.cap is not None else self.bound * self.bound + self.variance(0.0)

    @property
    def arithmetic(self) -> str:
        """How reports are computed, for the guarantee."""
        return _ARITHMETIC[self.kind] + ("" if self.kind in ("plain", "sign") else _ROUNDING)

    @property
    def numbers(self) -> dict[str, Any]:
        """The numbers of the compiled plan, by name."""
        found: dict[str, Any] = {"kind": self.kind, "dim": self.dim, "bound": self.bound, "scale": self.scale}
        if self.cap is not None:
            found["threshold"] = self.cap.threshold
            if self.kind == "cap":
                found |= {"gamma": self.cap.gamma, "trials": self.cap.trials}
        return found

    def proxy(self, method: str = "numerical", *, theta: float = 0.25) -> Proxy:
        """Return what coin betting must know of the noise.

        Parameters
        ----------
        method : {"numerical", "hoeffding"}
            Of caps: the least constant, found numerically, or the square of the length, which is proved. The others
            have exact ones.
        theta : float, default=0.25
            Above 0, at most 0.99. Of Laplace noise, whose moments are infinite from ``beta = 1 / scale`` on: the bets
            go up to this fraction of it, or to 0.6838 / bound where that is less.
        """
        method, theta = choice(PROXIES, method=method), number(theta=theta, above=0.0, at_most=0.99)
        if self.cap is not None:
            crude = self.scale * self.scale
            if method == "hoeffding" or self.kind == "sign":  # two points: attained by the zero vector
                return Proxy(crude, 0.0, True)
            constant = proxy_of_cap(self.dim, self.cap) * crude
            return Proxy(constant, 0.0, False) if constant < crude else Proxy(crude, 0.0, True)
        if self.kind in ("gaussian", "plain"):
            return Proxy(self.scale * self.scale, 0.0, True)
        largest = min(_LARGEST_BET / self.bound, theta / self.scale)
        v = (largest * self.scale) ** 2
        rest = self.dim + 1.0 if self.kind == "l2_laplace" else 2.0  # for a coordinate: the worst direction of both
        return Proxy(rest * self.scale * self.scale * (-math.log1p(-v) / v) * _UP, 1.0 / largest, True)


def calibrate_report(
    name: str,
    *,
    dim: int,
    bound: float = 1.0,
    adjacency: str = "replace",
    epsilon: float | None = None,
    delta: float | None = None,
    mu: float | None = None,
    leakage: float | None = None,
    sigma: float | None = None,
) -> ReportNoise:
    """Calibrate a local randomizer of vectors.

    Parameters
    ----------
    name : {"privunit", "duchi", "l2laplace", "laplace", "gaussian"}
    dim : int
        At least 1.
    bound : float, default=1.0
        L2 norm that vectors are scaled to where they exceed it: from 1e-100 to 1e100.
    adjacency : {"replace", "zero_out"}
        A vector is replaced by any other, or by the zero vector. The caps' epsilon is that of both.
    epsilon : float
        Above 1e-9; infinite: no noise. Caps also have a largest one, which the message tells.
    delta : float
        With the epsilon of "gaussian", in (0, 1).
    mu, leakage, sigma : float
        Instead of epsilon, for "gaussian" alone: parameter of Gaussian differential privacy; bound of the mutual
        information in nats; standard deviation per coordinate.

    Raises
    ------
    InvalidParameter
        If a parameter is out of its range, missing or too many; the message says which.
    """
    name = choice(RANDOMIZERS, name=name)
    dim = integer(dim=dim, at_least=1, at_most=1 << 31)
    bound = number(bound=bound, at_least=_TINY_NORM, at_most=_LARGE_NORM)
    adjacency = choice(ADJACENCIES, adjacency=adjacency)
    longest = bound * (1.0 + clip_excess(dim)) * _UP
    given = {"epsilon": epsilon, "mu": mu, "leakage": leakage, "sigma": sigma}
    given = {word: value for word, value in given.items() if value is not None}
    allowed = ("epsilon", "mu", "leakage", "sigma") if name == "gaussian" else ("epsilon",)
    if len(given) != 1 or not given.keys() <= set(allowed):
        raise InvalidParameter(f"{name} takes one of {', '.join(allowed)}, found {', '.join(given) or 'none'}")
    if (delta is None) == (name == "gaussian" and epsilon is not None):
        raise InvalidParameter(f"delta goes with the epsilon of gaussian, found {delta!r} for {name} with {given!r}")
    words: dict[str, Any] = {"name": name, "dim": dim, "bound": bound, "adjacency": adjacency}
    words["sensitivity"] = sensitivity = (2.0 if adjacency == "replace" else 1.0) * longest
    if epsilon is not None:
        epsilon = number(epsilon=epsilon, at_least=_LEAST_EPSILON, infinite=True)
        if math.isinf(epsilon):
            return ReportNoise(kind="plain", scale=0.0, deviation=0.0, mu=math.inf, epsilon=math.inf, **words)
    if name == "gaussian":
        if epsilon is not None and delta is not None:
            mu = gdp_mu(epsilon, number(delta=delta, above=0.0, below=1.0))
        if mu is not None:
            mu = number(mu=mu, above=0.0)
            sigma = sensitivity / mu * _UP
        elif leakage is not None:
            sigma = gaussian_leakage_std(leakage, bound=longest, dim=dim)
        assert sigma is not None
        sigma = _checked_scale(number(sigma=sigma, above=0.0))
        return ReportNoise(
            kind="gaussian",
            scale=sigma,
            deviation=sigma,
            mu=sensitivity / sigma * _UP if mu is None else mu,
            epsilon=math.inf,
            leakage=gaussian_leakage(sigma, bound=longest, dim=dim) if leakage is None else leakage,
            **words,
        )
    assert epsilon is not None
    words |= {"epsilon": epsilon, "mu": gdp_mu_of_pure(epsilon)}
    if name in ("privunit", "duchi"):
        cap = cap_of(epsilon, dim, half=name == "duchi")
        scale = _checked_scale(cap.length * bound)
        kind = "sign" if dim == 1 else "cap"
        return ReportNoise(kind=kind, scale=scale, deviation=scale / math.sqrt(dim), cap=cap, **words)
    if name == "laplace":  # the L1 norm of a vector is at most the root of dim times its L2 norm
        scale = _checked_scale(math.sqrt(dim) * sensitivity / epsilon * _UP)
        return ReportNoise(kind="laplace", scale=scale, deviation=math.sqrt(2.0) * scale, **words)
    scale = _checked_scale(sensitivity / epsilon * _UP)
    return ReportNoise(kind="l2_laplace", scale=scale, deviation=math.sqrt(dim + 1.0) * scale, **words)


def _checked_scale(scale: float) -> float:
    if not _LEAST_SCALE < scale < _LARGEST_SCALE:
        raise InvalidParameter(
            f"the noise would have the scale {scale:g}: budget and bound are too far apart for double precision"
        )
    return scale
