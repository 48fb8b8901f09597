"""Learners that see only reports: each row is in one report, so a run of any length is one local randomizer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from .._validate import choice, integer, number
from .._vocabulary import STEPS
from ..errors import InvalidParameter
from ..geometry import ConvexSet
from ..guarantees import Claim
from ..losses import Loss
from ._betting import BETTING_CALIBRATIONS, Betting, proxy_betting, published_betting
from ._experts import Experts
from ._iterates import ReleaseSchedule
from ._participation import factor_of_reports
from ._problem import Problem
from ._reports import ReportNoise

__all__ = ["Coin", "GradientTerms", "LocalCalibration", "betting_of", "bound_of_gradients", "calibrate_steps"]

_SMALL, _LARGE = 1e-30, 1e30


@dataclass(frozen=True)
class Coin:
    """The parameters of the reports for coin betting.

    Attributes
    ----------
    bets : float
        Bets are from minus to plus this share of what a gradient of length 1 wins.
    drift : float
        Y grows by ``drift ||q||^2`` a report; where ``counted``, by ``drift``.
    observed : float
        Y grows by ``observed <report, q>^2`` instead, where this is above 0.
    counted : bool
    wealth : float
        At the start.
    cap : float
        Of the magnitude; infinite: none.
    """

    bets: float
    drift: float
    observed: float = 0.0
    counted: bool = False
    wealth: float = 1.0
    cap: float = math.inf


@dataclass(frozen=True)
class GradientTerms:
    """How the gradient of a row is computed: what a device must know in addition to the report.

    Attributes
    ----------
    loss : Loss
    intercept : bool
        The last coordinate of the point multiplies the constant 1.
    x_bound, y_bound : float
        Of a row's L2 norm, and of a real target's magnitude.
    """

    loss: Loss
    intercept: bool
    x_bound: float
    y_bound: float


@dataclass(frozen=True)
class LocalCalibration:
    """Everything that the reports and the steps of a run depend on; all of it public.

    Attributes
    ----------
    problem : Problem
    releases : ReleaseSchedule
        Which points are counted as released and averaged. All points are public, so it costs nothing.
    report : ReportNoise
        What a gradient becomes on its user's device.
    gradient_bound : float
        L2 norm that gradients are scaled to where they exceed it.
    row_bound : float
        L2 bound of a row with the intercept's constant.
    update : {"greedy", "lazy", "coin", "experts"}
    pace : {"constant", "root", "inverse", "adaptive"}
        Of the steps: ``length``, ``length / sqrt(t)``, ``length / t``, ``length / sqrt(base + squared norms so far)``.
    length, base : float
    l2 : float
        Strong convexity that the regulariser gives.
    reach : float
        What the length of the steps is in proportion to: how far two points of the set can be from each other, or one
        from the first; infinite where all models are allowed.
    norm : float
        Of the set's points, at most.
    coin : Coin or None
    experts : Experts or None
    claim : Claim or None
        What the source of a published calibration says.
    """

    problem: Problem
    releases: ReleaseSchedule
    report: ReportNoise
    gradient_bound: float
    row_bound: float
    update: str
    pace: str
    length: float
    base: float = 0.0
    l2: float = 0.0
    reach: float = math.inf
    norm: float = math.inf
    coin: Coin | None = None
    experts: Experts | None = None
    claim: Claim | None = None

    @property
    def mu(self) -> float:
        """Parameter of Gaussian differential privacy of the whole transcript (infinite without noise)."""
        return self.report.mu

    @property
    def epochs(self) -> None:
        """None: a run ends at its horizon."""

    @property
    def gradients(self) -> GradientTerms:
        """What a device must know in addition to the report."""
        problem = self.problem
        return GradientTerms(problem.loss, problem.intercept, problem.x_bound, problem.y_bound)

    @property
    def power(self) -> float:
        """Bound of the mean squared norm of a report."""
        return self.report.power

    def step_length(self, step: int) -> float:
        """Length of step ``step``, numbered from 1; for "adaptive" the largest possible one."""
        scale = {"constant": 1.0, "root": math.sqrt(step), "inverse": step, "adaptive": math.sqrt(self.base or 1.0)}
        return self.length / scale[self.pace]

    @property
    def _scaled_by_reports(self) -> bool:
        return self.coin is not None or self.experts is not None

    def user_factor(self, rows_per_user: int, user_separation: int) -> float:
        """Cost of all rows of a user, as a multiple of the cost of one: see :class:`RunPlan`."""
        pure = math.isfinite(self.report.epsilon)
        return factor_of_reports(pure=pure, rows_per_user=rows_per_user, user_separation=user_separation)

    def convexity(self, row: int) -> float:
        """Mean strong convexity of the rows up to ``row``."""
        return self.l2

    def sensitivity(self, row: int) -> float:
        """Change of the un-noised point after ``row`` by the gradient that came last.

        Of "coin" and "experts", whose scale the reports themselves set: of that gradient.
        """
        return self.report.sensitivity * (1.0 if self._scaled_by_reports else self.step_length(row))

    def std(self, row: int) -> float:
        """Standard deviation per coordinate of all noise in the point after ``row``, had nothing been projected.

        Of "coin" and "experts": of one report.
        """
        noise = self.report.deviation
        if self._scaled_by_reports:
            return noise
        if self.update == "lazy":
            return noise * self.step_length(row + 1) * math.sqrt(row)
        if self.pace == "inverse":
            return noise * self.length / math.sqrt(row)
        if self.pace == "root":
            return noise * self.length * math.sqrt(math.log(row) + 1.0)  # sum of 1 / j
        return noise * self.step_length(row) * math.sqrt(row)

    def last_std(self, row: int) -> float:
        """``std(row)``: a run that ends early has the same noise."""
        return self.std(row)

    def regret_bound(self, rows: int) -> float:
        """Bound of the expected regret of the first rows against any fixed point of the set.

        The losses of the points that the gradients are taken at, summed over the rows, minus those of the fixed point,
        whatever the convex losses are, if all their gradients are within ``gradient_bound``. Of lazy steps it is that
        of following the regularised leader; of greedy ones of projected descent.

        Raises
        ------
        InvalidParameter
            Where nothing is proved: adaptive steps, a set without a bound; coin betting and experts have their own.
        """
        rows = integer(rows=rows, at_least=1)
        if self._scaled_by_reports or self.pace == "adaptive" or math.isinf(self.reach):
            raise InvalidParameter("no bound of the regret is proved for these steps over this set")
        if self.pace == "inverse":
            slope = self.gradient_bound + self.l2 * self.norm
            noise = self.power - self.gradient_bound**2
            return (slope**2 + noise) * (1.0 + math.log(rows)) / (2.0 * self.l2)
        last = self.step_length(rows)
        lengths = rows * last if self.pace == "constant" else self.length * (2.0 * math.sqrt(rows) - 1.0)
        return self.reach**2 / (2.0 * last) + self.power * lengths / 2.0


def betting_of(report: ReportNoise, *, theta: float, proxy: str, calibration: str) -> Betting:
    """The facts about reports that coin betting needs.

    Parameters
    ----------
    report : ReportNoise
    theta, proxy
        As of :meth:`ReportNoise.proxy`.
    calibration : {"tight", "published"}
        "published": the source's constants, which are of L2-Laplace noise.

    Raises
    ------
    InvalidParameter
        If the source has no constants for this noise.
    """
    if choice(BETTING_CALIBRATIONS, calibration=calibration) == "published":
        if report.name != "l2laplace":
            raise InvalidParameter(f'calibration="published" needs randomizer="l2laplace", found {report.name!r}')
        return published_betting(dim=report.dim, epsilon=report.epsilon, lipschitz=report.bound)
    found = report.proxy(proxy, theta=theta)
    return proxy_betting(
        proxy=found.constant,
        lipschitz=report.bound,
        second_moment=report.variance(0.0),
        largest=1.0 / found.b if found.b > 0.0 else math.inf,
    )


def bound_of_gradients(problem: Problem, gradient_bound: float | None) -> tuple[float, float]:
    """Return the bound that gradients are scaled to, and that of rows with their constant.

    Raises
    ------
    InvalidParameter
        If a parameter is out of its range, or the loss has no bound of its own over the set and none is given.
    """
    domain, row_bound = problem.domain, problem.row_bound
    if gradient_bound is not None:
        return number(gradient_bound=gradient_bound, at_least=_SMALL, at_most=_LARGE), row_bound
    try:
        bound = problem.loss.gradient_bound(row_bound, domain.norm_bound(problem.dim), problem.y_bound)
    except InvalidParameter as error:
        raise InvalidParameter(f"gradient_bound must be given over {domain!r}: {error}") from error
    return number(gradient_bound=bound, at_least=_SMALL, at_most=_LARGE), row_bound


def reach_of(domain: ConvexSet, dim: int, step: str) -> float:
    """The distance that the length of a step is in proportion to.

    From the first point to any other where the steps are of one length or the update is lazy from 0; else between any
    two points.
    """
    diameter = domain.diameter(dim)
    if step == "lazy":
        return domain.norm_bound(dim)
    first = float((domain.start(dim) ** 2).sum()) ** 0.5
    return min(diameter, domain.norm_bound(dim) + first) if step == "horizon" else diameter


def calibrate_steps(
    problem: Problem,
    report: ReportNoise,
    *,
    row_bound: float,
    release: Any,
    step: str,
    lazy: bool,
    l2: float = 0.0,
    step_size: float | None = None,
) -> LocalCalibration:
    """Choose the steps of a run of gradient descent on reports.

    Parameters
    ----------
    problem : Problem
    report : ReportNoise
    row_bound : float
        L2 bound of a row with the intercept's constant.
    release, l2
        As of the learners.
    step : {"anytime", "horizon", "adaptive"}
        ``c / sqrt(t)``, ``c / sqrt(horizon)``, or by the squared norms of the reports so far. With ``l2 > 0`` the step
        is ``1 / (l2 t)``.
    lazy : bool
        Project the sum of all reports, not the last point.
    step_size : float, optional
        c. Default: what the regret bound is least for.

    Raises
    ------
    InvalidParameter
        If a parameter is out of its range; the message says which and why.
    """
    step = choice(STEPS, step=step)
    domain, dim, horizon = problem.domain, problem.dim, problem.horizon
    l2 = number(l2=l2, at_least=0.0, at_most=_LARGE)
    if 0.0 < l2 < _SMALL:
        raise InvalidParameter(f"l2 must be 0 or at least {_SMALL:g}, found {l2:g}")
    reach = reach_of(domain, dim, "lazy" if lazy else step)
    if l2 > 0.0:
        if step_size is not None:
            raise InvalidParameter("step_size must be None where l2 is above 0: steps are 1 / (l2 t)")
        pace, length = "inverse", 1.0 / l2
    else:
        if step_size is not None:
            length = number(step_size=step_size, above=0.0, at_most=_LARGE)
        elif math.isinf(reach):
            raise InvalidParameter(f"step_size must be given: {domain!r} has no size that a step could be measured by")
        elif step == "horizon":
            length = reach / math.sqrt(report.power)
        else:  # adaptive steps have the root of the sum of squares itself in the denominator
            length = reach / math.sqrt(2.0 * (1.0 if step == "adaptive" else report.power))
        pace = {"horizon": "constant", "adaptive": "adaptive", "anytime": "root"}[step]
        if step == "horizon":
            length /= math.sqrt(horizon)
    return LocalCalibration(
        problem=problem,
        releases=ReleaseSchedule.of(release, horizon),
        report=report,
        gradient_bound=report.bound,
        row_bound=row_bound,
        update="lazy" if lazy else "greedy",
        pace=pace,
        length=length,
        base=report.power if pace == "adaptive" else 0.0,
        l2=l2,
        reach=reach,
        norm=domain.norm_bound(dim),
    )
