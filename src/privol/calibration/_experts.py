"""Magnitudes as experts: radii of many scales, each with its own rate, and the resulting regret.

``docs/proofs/experts.md`` has the proof. The assumptions on the noise are those of coin betting.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .._validate import integer, number
from ..errors import InvalidParameter
from ._betting import Betting

__all__ = ["MOST_EXPERTS", "Experts", "experts_of", "experts_regret"]

MOST_EXPERTS = 64

# The rate that minimises the bound, which is ln(1 / prior) / rate + 2 rate, times a common factor.
_BALANCE = math.sqrt(0.5)


@dataclass(frozen=True)
class Experts:
    """The parameters of the reports for the aggregation of magnitudes.

    Attributes
    ----------
    radii : tuple of float
        Ascending: expert k proposes the point ``radii[k] q``, q the direction.
    log_prior : tuple of float
        Logarithms of the weights at the start, which sum to 1.
    speeds : tuple of float
        The rate of expert k is ``min(rate, speeds[k] / sqrt(drift (1 + |q_1|^2 + |q_2|^2 + ...)))`` over its radius.
    rate : float
        No rate is larger.
    drift : float
        Half the noise's sub-Gaussian proxy and the square of the gradients' bound.
    """

    radii: tuple[float, ...]
    log_prior: tuple[float, ...]
    speeds: tuple[float, ...]
    rate: float
    drift: float


def experts_of(
    betting: Betting, *, smallest: float, largest: float, per_decade: int = 2, prior_decay: float = 0.15
) -> Experts:
    """Choose the experts for reports with the given noise.

    Parameters
    ----------
    betting : Betting
        Of the noise; its largest bet bounds the rates.
    smallest, largest : float
        Radii, in units of 1 over the gradients' bound: the first, and a lower bound of the last.
    per_decade : int
        Radii to a factor of 10.
    prior_decay : float
        Weights at the start are in proportion to ``radius ** -prior_decay``.

    Raises
    ------
    InvalidParameter
        If a parameter is out of its range, or there are more than :data:`MOST_EXPERTS`.
    """
    smallest = number(smallest_radius=smallest, at_least=1e-30, at_most=1e30)
    largest = number(largest_radius=largest, at_least=smallest, at_most=1e30)
    per_decade = integer(radii_per_decade=per_decade, at_least=1, at_most=MOST_EXPERTS)
    decay = number(prior_decay=prior_decay, at_least=0.0, at_most=2.0)
    count = 1 + math.ceil(per_decade * math.log10(largest / smallest) - 1e-9)
    if count > MOST_EXPERTS:
        raise InvalidParameter(
            f"radii from {smallest:g} to {largest:g}, {per_decade} to a decade, are {count}, allowed are at most "
            f"{MOST_EXPERTS}"
        )
    relative = [10.0 ** (k / per_decade) for k in range(count)]
    total = math.fsum(r**-decay for r in relative)
    log_prior = tuple(-decay * math.log(r) - math.log(total) for r in relative)
    return Experts(
        radii=tuple(smallest / betting.lipschitz * r for r in relative),
        log_prior=log_prior,
        speeds=tuple(_BALANCE * math.sqrt(max(1.0, -each)) for each in log_prior),
        rate=betting.a,
        drift=betting.step,
    )


def experts_regret(betting: Betting, experts: Experts, u_norm: float, rows: int, *, step: float) -> float:
    """Bound of the expected regret against every u of one norm: ``E sum <g_t, w_t - u>`` over the rows.

    Parameters
    ----------
    betting, experts
        Of the run.
    u_norm : float
        Norm of the comparator, at least 0.
    rows : int
        T, at least 1.
    step : float
        Of the direction.

    Returns
    -------
    float
        Infinite beyond the largest radius, where nothing is proved.
    """
    u_norm = number(at_least=0.0, u_norm=u_norm)
    rows = integer(at_least=1, rows=rows)
    radii = experts.radii
    if u_norm > radii[-1]:
        return math.inf
    spread = math.sqrt(experts.drift * rows)
    slow = [
        radius * max(1.0 / experts.rate, spread / speed) for radius, speed in zip(radii, experts.speeds, strict=True)
    ]  # reciprocals of the last rates
    prior = math.fsum(math.exp(log) * each for log, each in zip(experts.log_prior, slow, strict=True))
    against = [
        prior + each * (-log - 1.0) + 2.0 * speed * radius * spread
        for each, log, speed, radius in zip(slow, experts.log_prior, experts.speeds, radii, strict=True)
    ]
    energy = rows * (betting.lipschitz**2 + betting.second_moment)
    length = max(u_norm, radii[0])
    direction = (2.0 / step + step) * length * math.sqrt(energy)
    above = next(k for k, radius in enumerate(radii) if radius >= length)
    if above == 0:
        return against[0] + direction
    share = (length - radii[above - 1]) / (radii[above] - radii[above - 1])
    return (1.0 - share) * against[above - 1] + share * against[above] + direction
