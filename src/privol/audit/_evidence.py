"""Evidence against a claim that is valid at any time: the wealth of bets that a true claim makes unfavourable."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from ._events import FRACTIONS, Point

__all__ = ["Evidence"]

_SLACK = 1e-6  # in the logarithm, for rounding


@dataclass(frozen=True)
class _Stage:
    """Pairs of runs, one on each table: how often the event occurred only on the more likely one, and so on."""

    likely_alone: int
    rare_alone: int
    both: int
    neither: int
    epsilon: float  # of the point at which the bets were made


@dataclass
class Evidence:
    """A wealth of 1 that is staked on events; a true claim multiplies it by 1 at most, on average.

    Notes
    -----
    Let a and b say whether an event S, fixed before the runs, happens in a run on either table. The claim says
    ``E[a - e^epsilon b - delta] <= 0``. So ``1 + stake (a - e^epsilon b - delta)`` with
    ``0 <= stake <= 1 / (e^epsilon + delta)`` is at least 0 and has a mean of at most 1: the product over runs is a
    supermartingale, whatever of the past has chosen S, the pair of tables and the number of runs. By Ville's
    inequality it ever reaches ``1 / error`` with a probability of at most ``error``. The wealth is the mean over
    several shares of the largest stake, and over the stages from which on bets are made (weights ``1 / (k (k + 1))``):
    a mean of such products is one.
    """

    stages: list[_Stage] = field(default_factory=list)

    def add(self, likely: NDArray[np.bool_], rare: NDArray[np.bool_], point: Point) -> None:
        """Count pairs of runs: whether the event occurred on the table where it is more likely, and on the other."""
        a, b = likely, rare
        both = int((a & b).sum())
        self.stages.append(_Stage(int(a.sum()) - both, int(b.sum()) - both, both, int((~(a | b)).sum()), point.epsilon))

    def log_wealth(self, point_of: Callable[[float], Point]) -> float:
        """Natural logarithm of the evidence.

        Parameters
        ----------
        point_of : callable
            Of the epsilon of a stage's bets: the inequality of the claim against which they are counted.
        """
        if not self.stages:
            return 0.0
        gained = []
        for stage in self.stages:
            point = point_of(stage.epsilon)
            # the probability that the claim allows, rounded up
            odds, delta = math.exp(min(point.epsilon, 700.0)) * (1 + 1e-14), point.delta
            most = (odds + delta) * (1 + 1e-15)
            gained.append(
                stage.likely_alone * np.log1p(FRACTIONS * (1 - delta) / most)
                + stage.rare_alone * np.log1p(-FRACTIONS)
                + stage.both * np.log1p(FRACTIONS * (1 - most) / most)
                + stage.neither * np.log1p(-FRACTIONS * delta / most)
            )
        # from stage k to the last one, for each share
        from_stage = np.cumsum(np.array(gained)[::-1], axis=0)[::-1]
        k = np.arange(1, len(gained) + 1)
        logs = logsumexp(from_stage, axis=1) - math.log(len(FRACTIONS)) - np.log(k * (k + 1.0))
        unused = -math.log(len(gained) + 1.0)
        return float(logsumexp(np.append(logs, unused))) - _SLACK
