"""A plain NumPy twin of DPFTRL and AdaptiveFTRL on the twins of the prefix sums, with the same noise words.

Releases lie on a grid, so the sums of the twin and of the kernel are the same numbers although their gradients may
differ in the last place; from there on the twin rounds as the kernel does, except for projections onto sets other than
the ball.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from twins import REGRESSION, nearest, slope_at
from twins_prefix import EpochsTwin, Twin

from privol import geometry
from privol.factorizations import BLT, Banded, Smooth, SquareRoot
from privol.losses import get_loss


def lanes(x):
    """Sum of squares in the kernels' order."""
    at = [0.0] * 8
    for j, v in enumerate(x):
        at[j % 8] += v * v
    return ((at[0] + at[4]) + (at[2] + at[6])) + ((at[1] + at[5]) + (at[3] + at[7]))


@dataclass
class LeaderTwin:
    """One run: ``x`` is the point, ``released`` what the schedule counts."""

    loss: str
    width: float
    domain: geometry.ConvexSet
    intercept: bool
    x_bound: float
    y_bound: float
    l2: float
    weight: Callable[[int], float]  # around the starting point, by epoch
    bound: float
    batch: int
    horizon: int
    releases: Released
    sums: Twin | EpochsTwin
    start: np.ndarray
    tuning: object = None
    outputs: int = 1
    t: int = 0
    released: list = field(default_factory=list)
    ways: list = field(default_factory=list)

    def __post_init__(self):
        self.x = self.quick = self.slow = self.shown = self.start

    def gradient(self, row, y):
        row = np.asarray(row, dtype=float)
        length = math.hypot(*row)
        v = row * (self.x_bound / length) if length > self.x_bound else row
        v = np.append(v, 1.0) if self.intercept else v
        y = min(max(float(y), -self.y_bound), self.y_bound) if self.loss in REGRESSION else y
        return slope_at(self.loss, self.width, float(v @ self.x), y) * v

    def learn(self, row, y):
        """One row; None: the null row."""
        self.tell(np.zeros(len(self.x)) if row is None else self.gradient(row, y))

    def tell(self, gradient):
        self.t += 1
        norm = math.hypot(*gradient)
        before = len(self.sums.leaves)
        self.sums.add(gradient * (self.bound / norm) if norm > self.bound else gradient)
        if self.t == self.horizon:
            self.sums.end_leaf()
        if len(self.sums.leaves) > before:
            self.follow()
        if self.t in self.releases:
            self.released.append(self.x if self.tuning is None else self.shown)

    def follow(self):
        if self.tuning is not None:
            self.follow_tuned()
            return
        epochs = isinstance(self.sums, EpochsTwin)
        weight, mass = self.weight(self.sums.epoch if epochs else 0), self.t if epochs else self.sums.mass
        x = (weight * self.start - self.sums.prefix) * (1.0 / (weight + self.l2 * mass))
        if isinstance(self.domain, geometry.L2Ball):
            square, r = lanes(x), self.domain.radius
            self.x = x * (r / math.sqrt(square)) if square > r * r else x
        else:
            self.x = nearest(self.domain, x)

    def follow_tuned(self):
        """By features: James and Stein's estimate of the sums, over the strong convexity."""
        step, sums = len(self.sums.leaves), self.sums.prefix.reshape(self.outputs, -1)
        part = next(k for k, until in enumerate(self.tuning.until) if until >= step)
        threshold, square = self.tuning.threshold[part], np.zeros(sums.shape[1])
        for s in sums:
            square = square + s * s
        kept = np.array([1.0 - threshold / q if q > threshold else 0.0 for q in square])
        x = (sums * -(kept * (1.0 / self.tuning.held[part]))).ravel()
        self.x = self.within(x)
        noise = 0.0
        for k in kept[kept > 0.0]:
            noise += 1.0 + (self.outputs - 1) * (k * k)
        self.show(step, part, noise)

    def within(self, x):
        square, r = lanes(x), self.domain.radius
        return x * (r / math.sqrt(square)) if square > r * r else x

    def show(self, step, part, noise):
        """The slow average, and the way beyond it that neither noise nor single rows explain, by the quick average."""
        tuning, least = self.tuning, (self.tuning.power + 1.0) / (self.tuning.power + step)
        self.quick = self.quick + max(least, 1.0 / tuning.quickest) * (self.x - self.quick)
        self.slow = self.slow + max(least, 1.0 / tuning.slowest) * (self.x - self.slow)
        apart, held = self.quick - self.slow, tuning.held[part]
        square, lag, way = lanes(apart) * (held * held), tuning.lag[part] * noise, 0.0
        for expected in (lag, tuning.sure * lag + tuning.walk[part]):
            way += 1.0 - expected / square if square > expected else 0.0
        self.ways.append(way)
        self.shown = self.within(self.slow + way * apart)

    def end(self):
        """A run that ends before its only release is due."""
        self.sums.end_leaf()
        self.follow()
        self.released.append(self.x if self.tuning is None else self.shown)


def default_regularization(learner, plan, dim, domain, epoch=0):
    """Section 8.2, with leaves of several rows: the minimiser of ``k r^2 / 2 + n (batch G^2 + G sqrt(d) s) / k``.

    With renewal n counts all rows to the end of the epoch, and s^2 is the sum of the variances of all epochs; for sums
    that forget, n is the weight of all rows.
    """
    g, lengths = plan.bound, [plan.epochs.rows[min(k, len(plan.epochs.rows) - 1)] for k in range(epoch + 1)]
    s = math.hypot(*(plan.epochs.of(k).sigma * plan.epochs.of(k).factorization.row_norm(-(-n // learner.batch))
                     for k, n in enumerate(lengths)))  # fmt: skip
    n = sum(lengths)
    if learner.window is not None or learner.discount < 1.0:
        leaves = [min(learner.batch, n - first) for first in range(0, n, learner.batch)][::-1]
        if learner.window is not None:
            leaves = leaves[: learner.window // learner.batch]
        n = sum(size * learner.discount ** (learner.batch * age) for age, size in enumerate(leaves))
    reach = domain.radius if isinstance(domain, geometry.L2Ball) else None
    return reach and math.sqrt(2 * n * (learner.batch * g**2 + g * math.sqrt(dim) * s)) / reach


def leader_twin_of(learner, plan, key, dim):
    """The twin of a learner's run: everything from its parameters but the public noise scales, grids and weights."""
    loss = get_loss(learner.loss)
    domain = plan.problem.domain

    def sums(epoch, first_step):
        found, numbers = plan.epochs.of(epoch), {}
        design = found.factorization
        if isinstance(design, Smooth):
            numbers["length"], numbers["ones"] = design.shape
        elif isinstance(design, BLT):
            numbers["theta"], numbers["omega"] = design.recursion
        elif isinstance(design, SquareRoot):
            numbers["coefficients"], numbers["decoder"] = design.coefficients(), design.decoder()
        elif isinstance(design, Banded):
            numbers["coefficients"] = design.coefficients()
        if design.window is None or design.window < design.steps:
            numbers["discount"], numbers["window"] = design.discount, design.window
        return Twin(
            learner.design, dim=dim, leaf=plan.batch, bound=math.inf, std=found.sigma, grid=found.grid, key=key,
            first_step=first_step, **numbers,
        )  # fmt: skip

    def length(epoch):
        return learner.horizon << epoch if learner.renewal == "double" else learner.horizon

    def weight(epoch):
        found = plan.regularization_in(epoch)
        if plan.tuning is not None:
            return found
        if learner.regularization is None and learner.domain is None:
            expected = default_regularization(learner, plan, dim, domain, epoch)
            assert math.isclose(found, expected, rel_tol=1e-12)
        elif learner.regularization is not None:
            assert found == learner.regularization
        return found

    return LeaderTwin(
        loss=loss.name,
        width=loss.width,
        domain=domain,
        intercept=learner.fit_intercept,
        x_bound=learner.x_bound,
        y_bound=learner.y_bound,
        l2=learner.l2,
        weight=weight,
        bound=plan.bound,
        batch=plan.batch,
        horizon=plan.releases.horizon,
        releases=Released(plan.releases),
        sums=sums(0, 0) if learner.renewal == "none" else EpochsTwin(length, sums),
        start=np.asarray(domain.start(dim), dtype=float),
        tuning=plan.tuning,
    )


class Released:
    """The rows of a schedule, of which there may be very many."""

    def __init__(self, schedule):
        self.schedule = schedule

    def __contains__(self, row):
        if row > self.schedule.last_row:
            return False
        return row % self.schedule.every == 0 if self.schedule.every else row in self.schedule.rows
