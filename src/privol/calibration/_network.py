"""Nodes that learn together: every row is in one message of one node, so a run of any length is one randomizer.

The charge for the kernel's rounding is derived in ``docs/proofs/network.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._rounding import UNIT, UP, gradients_excess, lanes
from .._validate import choice, integer, number
from .._vocabulary import NOISE_POSITIONS, REGULARIZERS, THRESHOLDS
from ..errors import InvalidParameter
from ..geometry import L2Ball
from ..guarantees import Claim, gdp_mu_of_pure
from ._iterates import ReleaseSchedule
from ._local import bound_of_gradients
from ._participation import check_user
from ._problem import Budget, Problem
from ._reports import RANDOMIZERS, ReportNoise, calibrate_report

__all__ = ["NOISE_POSITIONS", "REGULARIZERS", "THRESHOLDS", "NetworkCalibration", "calibrate_network"]


_SOURCE = "Li et al. 2018"
_SMALL, _LARGE = 1e-30, 1e30
_MOST_BATCH = 1 << 20
_MOST_NODES = 1 << 20
_MOST_MESSAGES = (1 << 40) - 1  # address rows of noise


@dataclass(frozen=True)
class NetworkCalibration:
    """Everything that the messages and the steps of a run depend on; all of it public.

    Attributes
    ----------
    problem : Problem
    releases, round_releases : ReleaseSchedule
        After which rows, or rounds, models are counted as released and averaged; the horizon ends a last round that is
        not full. All messages are public, so it costs nothing.
    report : ReportNoise
        What randomizes: the sum of the gradients of a node's batch, or what ``position`` says. Its ``bound`` is what
        the noise is scaled to; the vectors may be longer: ``magnitude``.
    magnitude : float
        Largest L2 norm of the randomized vector.
    position : {"gradient", "scaled_gradient", "output"}
        What is randomized: the sum of gradients; that over the length of the round's step, so that the noise is in
        proportion to it; the projected step over its length, times ``batch``.
    mu, epsilon : float
        Of the whole run: Gaussian differential privacy, infinite without noise; pure differential privacy, infinite
        where there is none.
    nodes, batch, rounds, horizon, uses : int
        ``horizon`` counts rows, every use of a row as one; a row is used ``uses`` times at most.
    gradient_bound : float
        L2 norm that the gradient of a row is scaled to where it exceeds it.
    row_bound : float
        L2 bound of a row with the intercept's constant.
    pace : {"root", "inverse"}
        The step of round t has ``length / sqrt(t)``, or ``length / t`` where ``l2`` is above 0.
    length, l2 : float
    implicit : bool
        The regulariser's gradient is taken at the new point.
    diameter, norm : float
        Of the feasible set: distance of two of its points, norm of one, at most; infinite where all are feasible.
    threshold : {"none", "noise", "rda", "published"}
    l1 : float
    claim : Claim or None
        What the source of a published calibration says.
    """

    problem: Problem
    releases: ReleaseSchedule
    round_releases: ReleaseSchedule
    report: ReportNoise
    magnitude: float
    position: str
    mu: float
    epsilon: float
    nodes: int
    batch: int
    rounds: int
    horizon: int
    uses: int
    gradient_bound: float
    row_bound: float
    pace: str
    length: float
    l2: float = 0.0
    implicit: bool = False
    diameter: float = math.inf
    norm: float = math.inf
    threshold: str = "none"
    l1: float = 0.0
    claim: Claim | None = None

    def step_length(self, round_: int) -> float:
        """Length of the step of a round, numbered from 1, along the mean of a batch's gradients."""
        return self.length / (round_ if self.pace == "inverse" else math.sqrt(round_))

    def gradient_noise(self, round_: int) -> float:
        """Standard deviation per coordinate of the noise in a round, as noise of the mean of a batch's gradients."""
        unit = self.step_length(round_) if self.position == "scaled_gradient" else 1.0
        return self.report.deviation * unit / self.batch

    @property
    def epochs(self) -> None:
        """None: a run ends at its horizon."""

    def _round(self, row: int) -> int:
        return min(-(-row // (self.nodes * self.batch)), self.rounds)

    def user_factor(self, rows_per_user: int, user_separation: int) -> float:
        """Cost of all rows of a user, as a multiple of the cost of one: their number, wherever they are."""
        return float(check_user(rows_per_user, user_separation)[0])

    def convexity(self, row: int) -> float:
        """Mean strong convexity of the rows up to ``row``."""
        return self.l2

    def sensitivity(self, row: int) -> float:
        """Change of the nodes' mean after the round of ``row`` by one of its rows, without noise and projection."""
        unit = self.step_length(self._round(row)) if self.position == "scaled_gradient" else 1.0
        return self.step_length(self._round(row)) * self.report.sensitivity * unit / (self.batch * self.nodes)

    def std(self, row: int) -> float:
        """Standard deviation per coordinate of all noise in the nodes' mean after ``row``, had nothing been projected.

        A bound: projections shorten what earlier rounds brought.
        """
        t = self._round(row)
        noise = self.gradient_noise(1 if self.position == "scaled_gradient" else t) / math.sqrt(self.nodes)
        if self.pace == "inverse":
            return noise * self.length / math.sqrt(t)
        return noise * self.length * math.sqrt(math.log(t) + 1.0)

    def last_std(self, row: int) -> float:
        """``std(row)``: a run that ends early has the same noise."""
        return self.std(row)

    @property
    def power(self) -> float:
        """Bound of the mean squared norm of a noisy mean gradient, without the regulariser."""
        return _power(self.report, self.gradient_bound, self.batch)

    def regret_bound(self, rounds: int) -> float:
        """Bound of the expected regret of all nodes together after ``rounds`` rounds, against any fixed feasible point.

        The losses (means of a batch) that nodes pay at their own points, summed over nodes and rounds, minus those of
        the fixed point. It does not depend on who hears whom.

        Raises
        ------
        InvalidParameter
            Where nothing is proved: a set without a bound, thresholds, noise after the projection, an implicit
            regulariser, noise in proportion to steps.
        """
        rounds = integer(rounds=rounds, at_least=1)
        if self.position != "gradient" or self.implicit or self.threshold != "none" or math.isinf(self.diameter):
            raise InvalidParameter("no bound of the regret is proved for these steps over this set")
        noise = self.power - self.gradient_bound**2
        square = (self.gradient_bound + self.l2 * self.norm) ** 2 + noise
        if self.pace == "inverse":
            return self.nodes * square * self.length * (1.0 + math.log(rounds)) / 2.0
        lengths = self.length * (2.0 * math.sqrt(rounds) - 1.0)
        return self.nodes * (self.diameter**2 / (2.0 * self.step_length(rounds)) + square * lengths / 2.0)


def calibrate_network(
    problem: Problem,
    budget: Budget,
    *,
    randomizer: str,
    gradient_bound: float | None,
    nodes: int,
    batch: int,
    release: Any,
    epochs: int = 1,
    l2: float = 0.0,
    step_size: float | None = None,
    noise_position: str = "gradient",
    regularizer: str = "explicit",
    threshold: str = "none",
    l1: float | None = None,
    reach: float | None = None,
) -> NetworkCalibration:
    """Calibrate DOLA and SparseDOLA.

    The others are parameters of the learners, but for ``nodes``, their number.

    Parameters
    ----------
    reach : float, optional
        Distance that steps are measured by; default: the diameter of the set.

    Raises
    ------
    InvalidParameter
        If a parameter is out of its range; the message says which and why.
    """
    randomizer = choice(RANDOMIZERS, randomizer=randomizer)
    position = choice(NOISE_POSITIONS, noise_position=noise_position)
    implicit = choice(REGULARIZERS, regularizer=regularizer) == "implicit"
    domain, dim = problem.domain, problem.dim
    nodes = integer(nodes=nodes, at_least=1, at_most=_MOST_NODES)
    batch = integer(batch=batch, at_least=1, at_most=_MOST_BATCH)
    epochs = integer(epochs=epochs, at_least=1, at_most=1 << 20)
    horizon = problem.horizon
    longest, row_bound = bound_of_gradients(problem, gradient_bound)
    if epochs > 1 and horizon < epochs * nodes * batch:  # the following holds for one use in a message
        raise InvalidParameter(
            f"{epochs} epochs of {horizon / epochs:g} rows would have a row twice in one message: a round takes "
            f"{nodes * batch} rows"
        )
    rounds = -(-horizon // (nodes * batch))
    if rounds * nodes > _MOST_MESSAGES:
        raise InvalidParameter(f"{horizon} rows are {rounds} messages of {nodes} nodes, more than {_MOST_MESSAGES:,}")
    l2 = number(l2=l2, at_least=0.0, at_most=_LARGE)
    if 0.0 < l2 < _SMALL:
        raise InvalidParameter(f"l2 must be 0 or at least {_SMALL:g}, found {l2:g}")
    if randomizer in ("privunit", "duchi") and (batch > 1 or position == "output"):
        raise InvalidParameter(
            f"randomizer={randomizer!r} randomizes single gradients: batch must be 1 and noise_position 'gradient'"
        )
    if position == "output" and not isinstance(domain, L2Ball):
        raise InvalidParameter("noise_position='output' needs the L2 ball: give radius, not domain")
    if budget.published:
        _check_published(randomizer, position, batch, epochs)

    bound = longest
    if batch > 1:  # a sum: single gradients may exceed the bound, and adding them rounds
        bound = longest + gradients_excess(dim, batch) * longest
    report = _report_of(problem, budget, randomizer, bound, epochs)
    if step_size is not None and l2 > 0.0:
        raise InvalidParameter("step_size must be None where l2 is above 0: steps are 1 / (l2 t)")
    distance = domain.diameter(dim) if reach is None else reach
    if l2 > 0.0:
        pace, length = "inverse", 1.0 / l2
    elif step_size is not None:
        pace, length = "root", number(step_size=step_size, above=0.0, at_most=_LARGE)
    elif math.isinf(distance):
        raise InvalidParameter(f"step_size must be given: {domain!r} has no size that a step could be measured by")
    else:
        pace, length = "root", distance / math.sqrt(2.0 * _power(report, longest, batch))
    last = length / (rounds if pace == "inverse" else math.sqrt(rounds))

    kind, magnitude, claim = position, 1.01 * batch * longest, None
    if position == "output":
        # the randomized vector is the step's end over its length, so it includes the rounding of the whole point
        radius = domain.norm_bound(dim)
        rounding = ((lanes(dim) + 22) * radius * batch / last + 7 * batch * longest) * UNIT
        bound = (bound + 2.0 * rounding) * UP
        report = _report_of(problem, budget, randomizer, bound, epochs)
        magnitude = 1.01 * radius * batch / last
    if budget.published:
        report, kind, claim = _published(report, budget, rounds, position, last)
        if kind == "scaled_gradient":
            magnitude /= last
    if not (magnitude < 1e100 and report.scale < 1e100):
        raise InvalidParameter("steps and bounds are too far apart for double precision")
    schedule = ReleaseSchedule.of(release, rounds)
    mu, pure = report.mu, report.epsilon
    if epochs > 1 and not budget.noiseless:
        gaussian = randomizer == "gaussian"
        mu, pure = (budget.mu, math.inf) if gaussian else (gdp_mu_of_pure(budget.epsilon), budget.epsilon)
    return NetworkCalibration(
        problem=problem,
        releases=_in_rows(schedule, nodes * batch, horizon),
        round_releases=schedule,
        report=report,
        magnitude=magnitude,
        position=kind,
        mu=mu,
        epsilon=pure,
        nodes=nodes,
        batch=batch,
        rounds=rounds,
        horizon=horizon,
        uses=epochs,
        gradient_bound=longest,
        row_bound=row_bound,
        pace=pace,
        length=length,
        l2=l2,
        implicit=implicit,
        diameter=domain.diameter(dim),
        norm=domain.norm_bound(dim),
        threshold=threshold,
        l1=_threshold_factor(threshold, l1, dim),
        claim=claim,
    )


def _report_of(problem: Problem, budget: Budget, randomizer: str, bound: float, epochs: int) -> ReportNoise:
    """The randomizer of one message such that one for each epoch keeps the budget; their squared mu add up."""
    epsilon: float | None = budget.epsilon
    delta = mu = None
    if randomizer != "gaussian":
        epsilon = budget.epsilon if epochs == 1 else budget.epsilon / epochs / UP
    elif epochs == 1 or budget.noiseless:
        delta = budget.delta
    else:
        epsilon, mu = None, budget.mu / math.sqrt(epochs) / UP
    return calibrate_report(
        randomizer,
        dim=problem.dim,
        bound=bound,
        adjacency=problem.adjacency,
        epsilon=epsilon,
        delta=delta,
        mu=mu,
    )


def _in_rows(schedule: ReleaseSchedule, size: int, horizon: int) -> ReleaseSchedule:
    """Return a schedule in rounds as one in rows: each round becomes the row that ends it."""
    rows = np.minimum(schedule.rows * size, horizon)
    last = min(schedule.last_row * size, horizon)
    return ReleaseSchedule(min(schedule.every * size, horizon), rows, horizon, last)


def _power(report: ReportNoise, gradient_bound: float, batch: int) -> float:
    """Bound of the mean squared norm of a noisy mean of gradients."""
    if report.cap is not None:
        return report.power
    return gradient_bound**2 + report.variance(0.0) / batch**2


def _threshold_factor(threshold: str, l1: float | None, dim: int) -> float:
    """The factor of the threshold: the standard deviation of noise, or the step length."""
    if threshold == "noise":
        return math.sqrt(2.0 * math.log(max(dim, 2))) if l1 is None else number(l1=l1, at_least=0.0, at_most=_LARGE)
    if threshold == "none":
        return 0.0
    if l1 is None:
        raise InvalidParameter(f"l1 must be given for threshold={threshold!r}: how far a step shrinks a coordinate")
    return number(l1=l1, at_least=0.0, at_most=_LARGE)


def _check_published(randomizer: str, position: str, batch: int, epochs: int) -> None:
    if epochs > 1:
        raise InvalidParameter("calibration='published' needs epochs=1")
    if (randomizer, position) not in (("laplace", "output"), ("gaussian", "gradient")):
        raise InvalidParameter(
            "calibration='published' needs randomizer='laplace' with noise_position='output' (Algorithms 1 and 4), or "
            f"of 'gaussian' with 'gradient' (Algorithm 2), found {randomizer!r} with {position!r}"
        )
    if randomizer == "gaussian" and batch > 1:
        raise InvalidParameter("calibration='published' with gaussian noise needs batch=1")


def _published(
    report: ReportNoise, budget: Budget, rounds: int, position: str, last: float
) -> tuple[ReportNoise, str, Claim | None]:
    """The source's noise, what is proved for it, what it is added to, and what the source claims."""
    epsilon, delta = budget.epsilon, budget.delta
    if budget.noiseless:
        return report, position, None
    # the noise of Lemma 2, which is correct; Theorem 3 claims the budget for every round separately
    if position == "output":
        return report, position, Claim(epsilon=epsilon * rounds, delta=0.0, source=f"{_SOURCE}, Theorems 3 and 4")
    # J_t is proportional to the step length, so the last round has the least noise
    factor = math.log(rounds / delta) * math.log(1.0 / delta)
    scale = 2.0 * math.sqrt(report.dim) * report.bound * math.sqrt(rounds * factor) / epsilon
    sensitivity = report.sensitivity / last * (1.0 + 4.0 * UNIT)
    made = replace(
        report, scale=scale, deviation=scale, sensitivity=sensitivity, mu=sensitivity / scale * UP, leakage=None
    )
    return made, "scaled_gradient", Claim(epsilon=epsilon, delta=delta, source=f"{_SOURCE}, Theorem 6")
