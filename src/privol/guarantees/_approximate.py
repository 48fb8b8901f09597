"""(epsilon, delta)-differential privacy that is proved at one point: a pure part, and a slack.

For any two neighbouring inputs such a mechanism has the distributions ``(1 - delta) P + delta R`` and ``(1 - delta) Q +
delta R'``, with P and Q within ``e^epsilon`` of each other: with probability delta, the slack, it may reveal
everything, and otherwise it is as good as a pure mechanism (Kairouz, Oh and Viswanath 2015; Murtagh and Vadhan 2016).
So epsilons compose as for pure mechanisms, and slacks add up. Proofs: docs/guarantee.md.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

from .._rounding import UP
from .._validate import integer, number
from ._arithmetic import gdp_delta, gdp_epsilon, group_mu, sum_up
from ._pure import pure_delta, pure_epsilon

__all__ = ["Bound", "approximate_delta", "approximate_epsilon", "group_slack", "left_of_delta"]


def left_of_delta(delta: float, slack: float) -> float | None:
    """``delta - slack``, rounded down: what is left of delta; ``None`` where it does not cover the slack.

    Parameters
    ----------
    delta, slack : float
        At least 0.
    """
    rest = Fraction(delta) - Fraction(slack)
    if rest < 0:
        return None
    left = float(rest)
    return left if Fraction(left) <= rest else math.nextafter(left, 0.0)


def approximate_epsilon(parameter: float, slack: float, delta: float) -> float:
    """Epsilon at ``delta`` of a mechanism that is ``(parameter, slack)``-differentially private, rounded up.

    Parameters
    ----------
    parameter, slack : float
        ``parameter`` at least 0 (``inf`` gives ``inf``), ``slack`` at least 0 and at most 1.
    delta : float
        At least 0, below 1.

    Returns
    -------
    float
        :func:`pure_epsilon` of the parameter at ``delta - slack``: the parameter where the two are equal, ``inf`` where
        delta is less.
    """
    delta = number(delta=delta, at_least=0.0, below=1.0)
    rest = left_of_delta(delta, number(slack=slack, at_least=0.0, at_most=1.0))
    return math.inf if rest is None else pure_epsilon(parameter, rest)


def approximate_delta(epsilon: float, parameter: float, slack: float) -> float:
    """Delta at ``epsilon`` of a mechanism that is ``(parameter, slack)``-differentially private, rounded up.

    Parameters
    ----------
    epsilon, parameter, slack : float
        Each at least 0; epsilon finite, ``parameter = inf`` (no privacy) gives 1.

    Returns
    -------
    float
        The slack and :func:`pure_delta` of the parameter, at most 1; the slack for every epsilon from the parameter on.
    """
    slack = number(slack=slack, at_least=0.0, at_most=1.0)
    return min(sum_up([slack, pure_delta(epsilon, parameter)]), 1.0)


def group_slack(parameter: float, slack: float, rows: int) -> float:
    """Slack that covers ``rows`` changed rows where ``(parameter, slack)`` covers one, at ``rows * parameter``.

    Parameters
    ----------
    parameter, slack : float
        ``parameter`` at least 0 (``inf`` gives 1 but for ``slack = 0``), ``slack`` from 0 to 1.
    rows : int
        At least 1.

    Returns
    -------
    float
        ``slack (1 + e^parameter + ... + e^((rows - 1) parameter))``, rounded up, at most 1, where nothing is promised.

    Notes
    -----
    ``P_0(S) <= e^epsilon P_1(S) + delta <= e^epsilon (e^epsilon P_2(S) + delta) + delta <= ...``
    """
    parameter = number(parameter=parameter, at_least=0.0, infinite=True)
    slack, rows = number(slack=slack, at_least=0.0, at_most=1.0), integer(rows=rows, at_least=1)
    if rows == 1 or slack == 0.0:
        return slack
    whole = group_mu(parameter, rows)
    if whole > 700.0:
        return 1.0
    times = math.expm1(whole) / math.expm1(parameter) if parameter > 1e-300 else float(rows)
    return min(math.nextafter(slack * times * UP, math.inf), 1.0)


class Bound(NamedTuple):
    """The joint guarantee of mechanisms, in the three figures on which all composition is based.

    Attributes
    ----------
    mu, pure : float
        Gaussian differential privacy, and the epsilon of pure differential privacy (``inf`` where there is none), each
        of all but the slack. Neither holds without the slack.
    slack : float
        Probability with which nothing is promised; 0 unless one of them is proved at one (epsilon, delta) alone.
    collision : float
        Probability that two users were taken for one, with which the figures for all rows of a user do not hold.
    """

    mu: float
    pure: float
    slack: float = 0.0
    collision: float = 0.0

    @property
    def beside(self) -> float:
        """The part of a delta that belongs neither to mu nor to the pure epsilon, rounded up."""
        return sum_up([self.slack, self.collision]) if self.collision > 0.0 else self.slack

    def epsilon(self, delta: float) -> float:
        """Epsilon at ``delta`` (above 0, below 1), rounded up; ``inf`` where delta does not cover :attr:`beside`."""
        rest = left_of_delta(number(delta=delta, above=0.0, below=1.0), self.beside)
        if rest is None:
            return math.inf
        return min(gdp_epsilon(self.mu, rest), self.pure) if rest > 0.0 else self.pure

    def delta_at(self, epsilon: float) -> float:
        """Delta at ``epsilon`` (at least 0), rounded up; no less than :attr:`beside`."""
        rest = 0.0 if epsilon >= self.pure else gdp_delta(epsilon, self.mu)
        return min(sum_up([self.slack, self.collision, rest]), 1.0)
