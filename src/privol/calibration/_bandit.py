"""Descent on loss values alone: the number in a report, the distance between the queried points, the steps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._rounding import UP
from .._validate import choice, integer, number
from ..errors import InvalidParameter
from ..geometry import Box, ConvexSet, L1Ball, L2Ball
from ..guarantees import Claim
from ..losses import Loss
from ._iterates import ReleaseSchedule
from ._participation import factor_of_reports
from ._problem import Problem
from ._reports import ReportNoise

__all__ = ["BanditCalibration", "bounds_of_values", "calibrate_bandit", "inner_radius", "published_values"]

_SMALL, _LARGE = 1e-30, 1e30


@dataclass(frozen=True)
class BanditCalibration:
    """Everything that the reports and the steps of a run on values depend on; all of it public.

    Attributes
    ----------
    problem : Problem
    releases : ReleaseSchedule
        Which points are counted as released and averaged. All points are public, so it costs nothing.
    report : ReportNoise
        What a device makes of its number: a value less the middle of its interval, or half the difference of two by
        their distance. ``whole``: of the estimate of the gradient.
    pair : bool
        Two values a round, at both sides of the point; else one.
    low, high : float
        Values are clipped to this interval.
    inner : float
        A ball of this radius around 0 is in the set; infinite: points may leave the set.
    norm : float
        Of the set's points, at most.
    slope : float
        Lipschitz constant of the losses.
    distance, most : float
        Round t asks at ``distance t^(-1/4)`` from its point, of a pair at ``distance t^(-1/2)``, ``fixed`` at
        ``distance``, and at most at ``most``.
    length : float
        The step: ``length t^(-3/4)``, of a pair ``length t^(-1/2)``, ``fixed`` ``length``.
    fixed : bool
        By the horizon; else by the round.
    row_bound : float
        L2 bound of a row with the intercept's constant.
    whole : bool
        Reports are of all coordinates of ``dim / distance`` times the value along the direction, as published.
    """

    problem: Problem
    releases: ReleaseSchedule
    report: ReportNoise
    pair: bool
    low: float
    high: float
    inner: float
    norm: float
    slope: float
    distance: float
    most: float
    length: float
    fixed: bool
    row_bound: float
    whole: bool = False

    @property
    def dim(self) -> int:
        """Coordinates of the model."""
        return self.problem.dim

    @property
    def mu(self) -> float:
        """Parameter of Gaussian differential privacy of the whole transcript (infinite without noise)."""
        return self.report.mu

    @property
    def claim(self) -> Claim | None:
        """None: no source's claim is restated."""

    @property
    def epochs(self) -> None:
        """None: a run ends at its horizon."""

    @property
    def gradient_bound(self) -> float:
        """L2 norm that the losses' gradients are supposed not to exceed."""
        return self.slope

    def user_factor(self, rows_per_user: int, user_separation: int) -> float:
        """Cost of all rows of a user, as a multiple of the cost of one: see :class:`RunPlan`."""
        pure = math.isfinite(self.report.epsilon)
        return factor_of_reports(pure=pure, rows_per_user=rows_per_user, user_separation=user_separation)

    def convexity(self, row: int) -> float:
        """0: there is no regulariser."""
        return 0.0

    def distance_at(self, step: int) -> float:
        """Distance from the point at which round ``step``, numbered from 1, takes its values."""
        power = 0.0 if self.fixed else 0.5 if self.pair else 0.25
        return float(min(self.distance * step**-power, self.most))

    def step_length(self, step: int) -> float:
        """Factor from the sum of estimates to the point of round ``step``, numbered from 1."""
        power = 0.0 if self.fixed else 0.5 if self.pair else 0.75
        return float(self.length * step**-power)

    def _scale(self, row: int) -> float:
        if self.whole:
            return 1.0
        return self.dim if self.pair else self.dim / self.distance_at(row)

    def sensitivity(self, row: int) -> float:
        """Change of the un-noised point after ``row`` by the report that came last."""
        return self.report.sensitivity * self._scale(row) * self.step_length(row + 1)

    def std(self, row: int) -> float:
        """Standard deviation per coordinate of all noise in the point after ``row``, had nothing been projected."""
        each = self.report.deviation * self._scale(row)
        if not self.whole:
            each /= math.sqrt(self.dim)  # along a random direction
        return each * self.step_length(row + 1) * math.sqrt(row)

    def last_std(self, row: int) -> float:
        """``std(row)``: a run that ends early has the same noise."""
        return self.std(row)

    def regret_bound(self, rows: int) -> float:
        """Bound of the expected regret of the first rows against any fixed point of the set.

        The losses at the points that were asked for (of a pair the mean of both), summed, minus those of the fixed
        point.
        """
        rows = integer(rows=rows, at_least=1)
        away = self.slope * (1.0 if math.isinf(self.inner) else 1.0 + self.norm / self.inner)
        energy = self.report.power * (1.0 if self.whole else self.dim**2)
        last = self.step_length(rows)
        if self.fixed:
            share = 1.0 if self.pair or self.whole else 1.0 / self.distance_at(1) ** 2
            return self.norm**2 / (2.0 * last) + rows * (last * energy * share / 2.0 + away * self.distance_at(1))
        t = np.arange(1, min(rows, 1 << 20) + 1, dtype=np.float64)
        far = np.minimum(self.distance * t ** (-0.5 if self.pair else -0.25), self.most)
        eta = self.length * t ** (-0.5 if self.pair else -0.75)
        terms = eta * energy * (1.0 if self.pair else far**-2.0) / 2.0 + away * far
        total = self.norm**2 / (2.0 * last) + float(terms.sum())
        if rows > t.size:  # the terms decrease, so their integral bounds the rest
            power = 0.5 if self.pair else 0.25
            rest = (rows ** (1.0 - power) - t.size ** (1.0 - power)) / (1.0 - power)
            total += float(terms[-1]) * t.size**power * rest
        return total


def inner_radius(domain: ConvexSet, dim: int) -> float:
    """Radius of the largest ball around 0 within a set.

    Raises
    ------
    InvalidParameter
        If 0 is not inside of the set.
    """
    radius = 0.0
    if isinstance(domain, L2Ball):
        radius = domain.radius
    elif isinstance(domain, L1Ball):
        radius = domain.radius / math.sqrt(dim)
    elif isinstance(domain, Box):
        low, high = domain.bounds(dim)
        radius = float(min(np.min(-low), np.min(high)))
    if not radius >= _SMALL:
        raise InvalidParameter(f"values are taken around the points of a set that has 0 inside: found {domain!r}")
    return radius


def bounds_of_values(loss: Loss, *, most: float, y_bound: float) -> tuple[float, float]:
    """Smallest interval from 0 that holds the (convex) losses of predictions of at most that magnitude."""
    ends = (-1.0, 1.0) if loss.kind == "classification" else (-y_bound, y_bound)
    found = [float(loss.value(p, y)) for p in (-most, most) for y in ends]
    return 0.0, max(found) * UP


def published_values(
    problem: Problem, interval: tuple[float, float], slope: float
) -> tuple[float, tuple[float, float], float]:
    """Return the distance, the interval and the bound of the estimates of Algorithm 2 as published.

    The paper's distance is of order ``T^(-1/4)``, here in units of the largest norm B of the set:
    ``B T^(-1/4)``. Its bound of estimates is ``dim (F / distance + L)``, for losses within F over the set:
    those that are so far outside of it are within ``F + L distance``, and are clipped to that.

    Parameters
    ----------
    problem : Problem
    interval : (float, float)
        Of the losses over the set.
    slope : float
        L, Lipschitz constant of the losses.
    """
    norm = number(norm_of_domain=problem.domain.norm_bound(problem.dim), at_least=_SMALL, at_most=_LARGE)
    distance = norm * problem.horizon**-0.25
    low, high = interval
    wide = (low - slope * distance, high + slope * distance)
    return distance, wide, problem.dim * (max(abs(low), abs(high)) / distance + slope) * UP


def calibrate_bandit(
    problem: Problem,
    report: ReportNoise,
    *,
    row_bound: float,
    release: Any,
    interval: tuple[float, float],
    slope: float,
    pair: bool,
    shrink: bool,
    step: str,
    published: float | None = None,
) -> BanditCalibration:
    """Choose distances and steps of a run on values, as the bound of the regret is least.

    Parameters
    ----------
    problem : Problem
    report : ReportNoise
        Of one number, or as ``published`` of the whole estimate.
    row_bound : float
        L2 bound of a row with the intercept's constant.
    release
        As of the learners.
    interval : (float, float)
        That values are clipped to.
    slope : float
        Lipschitz constant of the losses.
    pair, shrink : bool
        Two values a round; draw the points to 0 so that none that is asked for leaves the set.
    step : {"anytime", "horizon"}
    published : float, optional
        The distance of Algorithm 2 as published, whose reports are of the whole estimate.

    Raises
    ------
    InvalidParameter
        If a parameter is out of its range; the message says which and why.
    """
    step = choice(("anytime", "horizon"), step=step)
    domain, dim, horizon = problem.domain, problem.dim, problem.horizon
    slope = number(slope=slope, at_least=_SMALL, at_most=_LARGE)
    norm = number(norm_of_domain=domain.norm_bound(dim), at_least=_SMALL, at_most=_LARGE)
    inner = inner_radius(domain, dim) if shrink else math.inf
    away = slope * (1.0 + norm / inner)
    most = inner / 2.0
    energy = dim * math.sqrt(report.power)  # root of an estimate's mean square, times the distance
    fixed = step == "horizon"
    if published is not None:
        distance = published
        length = norm / math.sqrt(report.power * horizon)
    elif pair:
        distance = norm * slope / away * (1.0 / math.sqrt(horizon) if fixed else 0.5)
        length = norm / energy / math.sqrt(horizon if fixed else 2.0)
    elif fixed:
        distance = min(most, math.sqrt(norm * energy / away) * horizon**-0.25)
        length = norm * distance / (energy * math.sqrt(horizon))
    else:
        distance = math.sqrt(math.sqrt(3.0) / 2.0 * energy * norm / away)
        length = norm * distance * math.sqrt(0.75) / energy
    distance = number(distance_of_values=distance, at_least=_SMALL, at_most=_LARGE)
    return BanditCalibration(
        problem=problem,
        releases=ReleaseSchedule.of(release, horizon),
        report=report,
        pair=pair,
        low=interval[0],
        high=interval[1],
        inner=inner,
        norm=norm,
        slope=slope,
        distance=distance,
        most=most,
        length=length,
        fixed=fixed,
        row_bound=row_bound,
        whole=published is not None,
    )
