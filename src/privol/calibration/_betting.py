"""Coin betting on noisy gradients: the largest bets, the effect of the noise's variance proxy, and the regret.

Specification sections 5.4 to 5.6 and 7; ``docs/proofs/betting.md`` has the proofs. The learner sees reports
``ghat = -g + xi`` of gradients with ``|g| <= lipschitz``. All noise here is symmetric or has mean zero given the past.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .._core import coin
from .._validate import integer, number
from ..errors import InvalidParameter

__all__ = [
    "BETTING_CALIBRATIONS",
    "LARGEST_BET",
    "Betting",
    "agnostic_bet",
    "agnostic_regret",
    "betting_regret",
    "conjugate",
    "proxy_betting",
    "published_betting",
]

BETTING_CALIBRATIONS = ("tight", "published")

# exp(x - x^2) <= 1 + x holds for x >= -k1 = -0.683802623752020681...; this is below it by more than the rounding of
# a division by the bound of the gradients.
LARGEST_BET = 0.68380262375202

_UP = 1.0 + 2.0**-48  # more than the rounding of a second moment


@dataclass(frozen=True)
class Betting:
    """The facts about its reports that a coin-betting learner needs; all public.

    Attributes
    ----------
    a : float
        Largest betting fraction, in units of 1 / gradient.
    proxy : float
        sigma^2 with ``E exp(beta <xi, q>) <= exp(beta^2 sigma^2 |q|^2 / 2)`` for ``|beta| <= a``, ``|q| <= 1``.
    lipschitz : float
        Bound of a gradient's L2 norm.
    second_moment : float
        ``E |xi|^2``, or a bound of it.
    calibration : str
        ``"tight"``, or ``"published"`` for the constants of the source, which are valid and loose.
    """

    a: float
    proxy: float
    lipschitz: float
    second_moment: float
    calibration: str = "tight"

    def __post_init__(self) -> None:
        number(above=0.0, a=self.a)
        number(at_least=0.0, proxy=self.proxy)
        number(above=0.0, lipschitz=self.lipschitz)
        number(at_least=0.0, second_moment=self.second_moment)

    @property
    def step(self) -> float:
        """The addition of one report to y, for a direction of norm 1."""
        return 0.5 * self.proxy + self.lipschitz * self.lipschitz


def proxy_betting(*, proxy: float, lipschitz: float, second_moment: float, largest: float = math.inf) -> Betting:
    """Noise with a sub-Gaussian proxy for ``|beta| <= largest``: bounded randomizers and the Gaussian have no limit.

    Parameters
    ----------
    proxy, lipschitz, second_moment : float
        As in :class:`Betting`.
    largest : float, default inf
        1 / b of the source.
    """
    lipschitz = number(above=0.0, lipschitz=lipschitz)
    largest = number(above=0.0, infinite=True, largest=largest)
    return Betting(min(LARGEST_BET / lipschitz, largest), proxy, lipschitz, second_moment)


def published_betting(*, dim: int, epsilon: float, lipschitz: float) -> Betting:
    """The source's constants for noise with density proportional to ``exp(-kappa |xi|)``.

    With ``kappa = epsilon / (2 lipschitz)``: bets up to ``kappa / 2``, and the proxy ``18 dim^2 lipschitz^2 /
    epsilon^2``, which is 2 times the least one at dim 1, 3900 times at dim 1000.

    Parameters
    ----------
    dim : int
    epsilon : float
        Of pure local differential privacy.
    lipschitz : float
    """
    dim = integer(at_least=1, dim=dim)
    epsilon = number(above=0.0, epsilon=epsilon)
    lipschitz = number(above=0.0, lipschitz=lipschitz)
    kappa = epsilon / (2.0 * lipschitz)
    scale, root = 1.0 / kappa, dim * lipschitz / epsilon
    second_moment = dim * (dim + 1.0) * scale * scale * _UP
    a = min(LARGEST_BET / lipschitz, kappa / 2.0)
    return Betting(a, 18.0 * root * root, lipschitz, second_moment, "published")


def agnostic_bet(k: float = 1.0) -> float:
    """Largest betting fraction, by unit of 1 / gradient, of the rule that adds ``k s^2`` to y for an outcome s.

    ``(sqrt(2 k) - 1) / (2 k)`` for 1/2 < k <= 2: then ``(1 - 2 k mu)^2 <= 2 k`` and ``exp(mu - k mu^2) <= 1 + mu`` for
    every ``|mu|`` up to it, which is all that the proof needs of noise that is symmetric given the past.
    """
    k = number(above=0.5, at_most=2.0, k=k)
    root = math.sqrt(2.0 * k)
    return (k - 0.5) / (k * (root + 1.0)) * (1.0 - 2.0**-50)  # the same without cancellation, below it


def conjugate(u: float, y: float, a: float) -> tuple[float, float]:
    """``F*(u) = sup over X of u X - psi(X, y, a)`` and the X that attains it, where ``magnitude(X, y, a) = u``.

    Parameters
    ----------
    u : float
        At least 0.
    y, a : float
        As in :func:`privol._core.coin.magnitude`.

    Returns
    -------
    value, at : float
        The value's relative error is below 1e-12: next to the maximum it hardly depends on X. Infinite where it is
        above the largest double.
    """
    u = number(at_least=0.0, u=u)
    y = number(at_least=0.0, y=y)
    a = number(above=0.0, a=a)
    if u == 0.0:
        return -math.exp(coin.log_potential(0.0, y, a)), 0.0
    target = math.log(u)
    low, high = -1100.0, 1023.0  # log2 of X
    while high - low > 2.0**-42:
        middle = 0.5 * (low + high)
        if coin.log_magnitude(2.0**middle, y, a) < target:
            low = middle
        else:
            high = middle
    at = 2.0**high
    log_potential = coin.log_potential(at, y, a)
    if math.isinf(u * at) or log_potential > 709.0:
        return math.inf, at
    return u * at - math.exp(log_potential), at


def _total(u_norm: float, wealth: float, y: float, a: float, energy: float, step: float) -> float:
    """Regret of the bets against ``|u|`` from the initial wealth, and of the direction against ``u / |u|``."""
    value, _ = conjugate(u_norm / wealth, y, a)
    return wealth * (1.0 + value) + (2.0 / step + step) * u_norm * math.sqrt(energy)


def betting_regret(betting: Betting, u_norm: float, rows: int, *, wealth: float = 1.0, step: float = 1.0) -> float:
    """Bound of the expected regret against every u of one norm: ``E sum <g_t, w_t - u>`` over the rows.

    ``wealth (1 + F*(|u| / wealth)) + 3 |u| sqrt(rows (lipschitz^2 + E |xi|^2))``, F* at
    ``y = rows (proxy / 2 + lipschitz^2)``. It is an expectation: the potential has heavy tails.

    Parameters
    ----------
    betting : Betting
    u_norm : float
        Norm of the comparator, at least 0.
    rows : int
        T, at least 1.
    wealth : float, default 1
        What the bettor starts with: the regret at u = 0 is at most this.
    step : float, default 1
        Of the direction, ``step / sqrt(sum |ghat|^2)``; the factor 3 is ``2 / step + step``, least at sqrt(2).
    """
    u_norm = number(at_least=0.0, u_norm=u_norm)
    rows = integer(at_least=1, rows=rows)
    wealth = number(above=0.0, wealth=wealth)
    step = number(above=0.0, step=step)
    energy = rows * (betting.lipschitz**2 + betting.second_moment)
    return _total(u_norm, wealth, rows * betting.step, betting.a, energy, step)


def agnostic_regret(
    u_norm: float,
    rows: int,
    *,
    lipschitz: float,
    variance: float,
    second_moment: float,
    k: float = 1.0,
    wealth: float = 1.0,
    step: float = 1.0,
) -> float:
    """The bound of :func:`betting_regret` for the rule that adds ``k s^2`` to y and does not know the noise.

    The final y is random; F* is concave in it, so F* at its mean, at most ``k rows (lipschitz^2 + variance)``, bounds
    the mean of F* (Jensen). The noise has to be symmetric given the past.

    Parameters
    ----------
    u_norm, rows, wealth, step
        As in :func:`betting_regret`.
    lipschitz : float
    variance : float
        Largest variance of the noise in one direction.
    second_moment : float
        ``E |xi|^2``.
    k : float, default 1
        As in :func:`agnostic_bet`.
    """
    u_norm = number(at_least=0.0, u_norm=u_norm)
    rows = integer(at_least=1, rows=rows)
    lipschitz = number(above=0.0, lipschitz=lipschitz)
    variance = number(at_least=0.0, variance=variance)
    second_moment = number(at_least=0.0, second_moment=second_moment)
    wealth = number(above=0.0, wealth=wealth)
    step = number(above=0.0, step=step)
    if second_moment < variance:
        raise InvalidParameter(
            f"second_moment must be at least variance, its part in one direction, found {second_moment} and {variance}"
        )
    y = k * rows * (lipschitz**2 + variance)
    return _total(u_norm, wealth, y, agnostic_bet(k) / lipschitz, rows * (lipschitz**2 + second_moment), step)
