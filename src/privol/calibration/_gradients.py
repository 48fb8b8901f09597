"""Noisy gradient descent: every row enters one step, so a run of any length is one Gaussian mechanism.

What the kernel's arithmetic adds is charged as derived in ``docs/proofs/gradients.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from .._rounding import UP, gradients_excess
from .._validate import integer
from ..errors import InvalidParameter
from ..guarantees import Claim
from ._iterates import ReleaseSchedule
from ._participation import factor_of_steps
from ._points import check_steps, gradients_at_points
from ._problem import Budget, Problem

__all__ = ["GradientCalibration", "calibrate_gradients"]


@dataclass(frozen=True)
class GradientCalibration:
    """Everything that the noise of a run of noisy gradient descent depends on; all of it public.

    Attributes
    ----------
    problem : Problem
    releases : ReleaseSchedule
        Which points are counted as released and averaged. All points are public, so it costs nothing.
    mu : float
        Parameter of Gaussian differential privacy of the whole transcript (infinite without noise).
    claim : None
        No source's claim is restated.
    batch : int
        Rows of a step; the last step may have fewer.
    gradient_bound : float or None
        The caller's own bound, to which the noise is scaled: told gradients need it. None: noise for the loss's own.
    bound : float
        L2 norm that gradients of single rows are scaled to where they exceed it.
    sum_sensitivity : float
        L2 norm of the change of a step's sum of gradients when one row changes, all rounding charged.
    sigma : float
        Standard deviation of the noise per coordinate of a step's sum of gradients; 0 without noise.
    row_bound : float
        L2 bound of a row with the intercept's constant.
    l2 : float
        Step j has length ``1 / (l2 j)``.
    length : float
        Step j has length ``length / sqrt(j)`` where ``l2`` is 0.
    factor : float
        What the budget covers, as a multiple of the cost of one row.
    """

    problem: Problem
    releases: ReleaseSchedule
    mu: float
    claim: Claim | None
    batch: int
    gradient_bound: float | None
    bound: float
    sum_sensitivity: float
    sigma: float
    row_bound: float
    l2: float
    length: float
    factor: float = 1.0

    @property
    def epochs(self) -> None:
        """None: a run ends at its horizon."""

    def step_length(self, step: int) -> float:
        """Length of a step, numbered from 1, along the mean of its gradients."""
        return 1.0 / (self.l2 * step) if self.l2 > 0.0 else self.length / math.sqrt(step)

    def _steps(self, row: int) -> int:
        return -(-row // self.batch) if row >= self.releases.horizon else row // self.batch

    def regret_bound(self, rows: int) -> float:
        """Bound of the expected regret of the first rows against any fixed point of the set.

        The losses of the points that the gradients are taken at, summed over the rows, less those of the fixed point,
        whatever the convex losses are, if their gradients are within ``bound``; with ``l2`` above 0 of the regularised
        losses (``docs/proofs/gradients.md``, section 5).

        Raises
        ------
        InvalidParameter
            If the set has no bound.
        """
        rows = integer(rows=rows, at_least=1, at_most=self.releases.horizon)
        domain, dim = self.problem.domain, self.problem.dim
        reach = domain.diameter(dim)
        if math.isinf(reach):
            raise InvalidParameter("no bound of the regret is proved for a set without a bound")
        steps, rest = divmod(rows, self.batch)
        slope = self.bound + (self.l2 * domain.norm_bound(dim) if self.l2 else 0.0)
        square = slope**2 + dim * (self.sigma / self.batch) ** 2
        whole = 1.5 * reach * math.sqrt(square * steps)
        if self.l2 and steps:
            whole = square * (1.0 + math.log(steps)) / (2.0 * self.l2)
        return self.batch * whole + rest * slope * reach

    def user_factor(self, rows_per_user: int, user_separation: int) -> float:
        """Cost of all rows of a user, as a multiple of the cost of one: see :class:`RunPlan`."""
        return factor_of_steps(
            batch=self.batch,
            rows_per_user=rows_per_user,
            user_separation=user_separation,
            horizon=self.releases.horizon,
        )

    def convexity(self, row: int) -> float:
        """Mean strong convexity of the rows up to ``row``."""
        return self.l2

    def sensitivity(self, row: int) -> float:
        """Change of the un-noised point after ``row`` by one row of the step that made it, before projection."""
        steps = self._steps(row)
        return self.step_length(steps) * self.sum_sensitivity / self.batch if steps else 0.0

    def std(self, row: int) -> float:
        """Standard deviation per coordinate of all noise in the point after ``row``, had nothing been projected.

        A bound: projections shorten what earlier steps brought.
        """
        steps = self._steps(row)
        if not steps:
            return 0.0
        noise = self.sigma / self.batch
        if self.l2 > 0.0:
            return noise / (self.l2 * math.sqrt(steps))
        return noise * self.length * math.sqrt(math.log(steps) + 1.0)  # sum of 1 / j

    def last_std(self, row: int) -> float:
        """``std(row)``: a run that ends early has the same noise."""
        return self.std(row)


def calibrate_gradients(
    problem: Problem,
    budget: Budget,
    *,
    release: Any,
    l2: float,
    batch: int = 1,
    gradient_bound: float | None = None,
) -> GradientCalibration:
    """Calibrate NOGD.

    ``release``, ``l2``, ``batch`` and ``gradient_bound`` are the learner's parameters.

    Returns
    -------
    GradientCalibration

    Raises
    ------
    InvalidParameter
        If a parameter is out of its range; the message says which and why.
    """
    l2, batch = check_steps(l2, batch)
    gradients = gradients_at_points(problem, gradient_bound)
    bound, dim = gradients.bound, problem.dim
    sensitivity = (gradients.change + gradients_excess(dim, batch) * bound) * UP
    mu, sigma = budget.mu, 0.0
    factor = factor_of_steps(
        batch=batch,
        rows_per_user=problem.rows_per_user,
        user_separation=problem.user_separation,
        horizon=problem.horizon,
    )
    if not budget.noiseless:
        sigma = factor * sensitivity / mu * UP
        if not 1e-140 < sigma < 1e140 or (l2 > 0.0 and not sigma / l2 < 1e140):
            raise InvalidParameter(
                f"the noise of a gradient would have standard deviation {sigma:g}: epsilon, l2 and the bounds are too "
                "far apart for double precision"
            )
    return GradientCalibration(
        problem=problem,
        releases=ReleaseSchedule.of(release, problem.horizon),
        mu=mu,
        claim=None,
        batch=batch,
        gradient_bound=gradient_bound,
        bound=bound,
        sum_sensitivity=sensitivity,
        sigma=sigma,
        row_bound=gradients.row_bound,
        l2=l2,
        length=problem.domain.diameter(dim) / math.hypot(bound, math.sqrt(dim) * sigma / batch),
        factor=factor,
    )
