"""Following the regularised leader on private sums of gradients: a run is one private prefix sum.

The charge for the kernel's rounding is derived in ``docs/proofs/leaders.md``, for several classes in
``docs/proofs/classes.md``.
"""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._rounding import UNIT, UP, vector_norm
from .._validate import integer, number
from ..errors import InvalidParameter
from ..factorizations import BLT, Design, Toeplitz
from ..guarantees import Claim
from ._epochs import Epochs, make_epochs
from ._iterates import ReleaseSchedule
from ._points import check_steps, gradients_at_points
from ._problem import Budget, Problem
from ._sums import SumCalibration

__all__ = ["LeaderCalibration", "Tuning", "calibrate_leaders"]

_SMALL = 1e-30


@dataclass(frozen=True)
class Tuning:
    """How a leader follows, by step; public.

    Attributes
    ----------
    until : tuple of int
        The last step of each part of the run, ascending; the last one is that of the run.
    held : tuple of float
        Strong convexity in each part, nowhere less than before.
    threshold : tuple of float
        The square that the noise of a feature's sums, over all scores, is expected to have: what does not exceed it
        counts as noise.
    lag, walk : tuple of float
        What the square of the difference between the quick and the slow average of the points, times ``held**2``, is
        expected to be without a drift: the noise of one coordinate, and at most as much again of single rows.
    power, quickest, slowest : float
        The point after step s counts ``(power + 1) / (power + s)`` in an average, at least ``1 / quickest`` in the
        quick one, ``1 / slowest`` in the slow one.
    sure : float
        What is beyond that many times the noise, and beyond ``walk``, counts as a drift.
    """

    until: tuple[int, ...]
    held: tuple[float, ...]
    threshold: tuple[float, ...]
    lag: tuple[float, ...]
    walk: tuple[float, ...]
    power: float
    quickest: float
    slowest: float
    sure: float

    def part(self, step: int) -> int:
        """Return the part that a step belongs to."""
        return min(bisect.bisect_left(self.until, step), len(self.until) - 1)

    def weights(self, step: int) -> NDArray[np.float64]:
        """Return the weights that the last points up to a step have in the slow average, in their order.

        All points, or as many as count: those before have less than 1e-12 together.
        """
        first = max(step - int(30.0 * self.slowest), 0)
        counts = average_counts(np.arange(first + 1, step + 1), self.power, self.slowest)
        kept = np.append(np.cumprod((1.0 - counts)[:0:-1])[::-1], 1.0)
        found: NDArray[np.float64] = counts * kept
        return found


def average_counts(steps: NDArray[np.int64], power: float, slowest: float) -> NDArray[np.float64]:
    """Return the weights of the points after these steps in an average, as they come: see :class:`Tuning`."""
    found: NDArray[np.float64] = np.maximum((power + 1.0) / (power + steps), 1.0 / slowest)
    return found


@dataclass(frozen=True)
class LeaderCalibration:
    """Everything that the noise of a regularised leader on private sums depends on; all of it public.

    Attributes
    ----------
    problem : Problem
    releases : ReleaseSchedule
        Which points are counted as released and averaged. All points are public, so it costs nothing.
    sums : SumCalibration
        Of the gradients' running sums: the noise, and what one row changes. Its ``mu`` is that of the whole transcript.
        With renewal it is that of the first epoch.
    epochs : Epochs
        All mechanisms of the run.
    batch : int
        Rows of a step; the last step may have fewer.
    gradient_bound : float or None
        The caller's own bound, to which the noise is scaled: told gradients need it. None: noise for the loss's own.
    bound : float
        L2 norm that gradients of single rows are scaled to where they exceed it.
    row_bound : float
        L2 bound of a row with the intercept's constant.
    regularization : float
        Strong convexity of the objective at the beginning, around the starting point.
    l2 : float
        Strong convexity that every row adds, around 0, with the weight that it has in the sum.
    reach : float
        Above 0: the regularization of later epochs is chosen anew for this distance from the starting point
        (:meth:`regularization_in`). 0: it is kept.
    tuning : Tuning or None
        Of a leader that tunes itself.
    """

    problem: Problem
    releases: ReleaseSchedule
    sums: SumCalibration
    epochs: Epochs
    batch: int
    gradient_bound: float | None
    bound: float
    row_bound: float
    regularization: float
    l2: float
    reach: float = 0.0
    tuning: Tuning | None = None

    @property
    def mu(self) -> float:
        """Parameter of Gaussian differential privacy of the whole transcript (infinite without noise)."""
        return self.epochs.mu

    @property
    def claim(self) -> Claim | None:
        """None: no source's claim is restated."""
        return self.sums.claim

    def regularization_in(self, epoch: int) -> float:
        """Strong convexity around the starting point in an epoch; by default it is for all rows to the epoch's end."""
        if epoch == 0 or self.reach == 0.0:
            return self.regularization
        rows, variance = self.epochs.start(epoch + 1), self.epochs.variance_before(epoch + 1)
        return _default_weight(float(rows), self.bound, self.batch, math.sqrt(self.sums.dim * variance), self.reach)

    def _point(self, row: int, epoch: int, step: int) -> float:
        """The divisor of a sum after a step."""
        if self.tuning is not None:
            return self.tuning.held[self.tuning.part(self.epochs.first_step(epoch) + step)]
        before = self.epochs.start(epoch)
        learnt = before + self.epochs.of(epoch).weight(min(step * self.batch, row - before))
        return self.regularization_in(epoch) + self.l2 * learnt

    def regret_bound(self, rows: int) -> float:
        """Bound of the expected regret of the first rows against any fixed point of the set.

        The losses of the points that the gradients are taken at, summed over the rows, less those of the fixed point,
        whatever the convex losses are, if their gradients are within ``bound`` (``docs/proofs/leaders.md``, section 5).

        Raises
        ------
        InvalidParameter
            Where nothing is proved: a leader that tunes itself, renewal, sums that forget, ``l2`` above 0, a set
            without a bound, designs whose noise does not grow with the steps ("tree", "honaker", "smooth").
        """
        rows = integer(rows=rows, at_least=1, at_most=self.epochs.horizon)
        design, domain, dim = self.sums.factorization, self.problem.domain, self.problem.dim
        reach = min(domain.diameter(dim), domain.norm_bound(dim) + vector_norm(domain.start(dim)))
        plain = isinstance(design, Toeplitz) and design.discount == 1.0 and design.window is None
        if not plain or self.tuning is not None or self.epochs.renewal != "none" or self.l2 or math.isinf(reach):
            raise InvalidParameter("no bound of the regret is proved for these settings")
        steps, most = -(-rows // self.batch), self.batch * self.bound
        moved = most + math.sqrt(dim) * self.sums.std(steps)
        return self.regularization * reach**2 / 2.0 + steps * most * moved / self.regularization

    def user_factor(self, rows_per_user: int, user_separation: int) -> float:
        """Cost of all rows of a user, as a multiple of the cost of one: see :class:`RunPlan`."""
        return self.epochs.user_factor(rows_per_user, user_separation)

    def convexity(self, row: int) -> float:
        """Mean strong convexity of the rows up to ``row``."""
        return self.l2

    def sensitivity(self, row: int) -> float:
        """Change of the un-noised point after ``row`` by one row's gradient, before projection."""
        epoch, step = self.epochs.step(row)
        return self.epochs.of(epoch).sensitivity / self._point(row, epoch, step) if epoch + step else 0.0

    def std(self, row: int) -> float:
        """Standard deviation per coordinate of the noise in the point after ``row``, before projection."""
        return self._std(row, *self.epochs.step(row))

    def last_std(self, row: int) -> float:
        """Standard deviation for a run that ends there: its last step may have fewer rows."""
        return self._std(row, *self.epochs.step(row, ended=True))

    def shown_std(self, row: int, *, ended: bool = False) -> float:
        """Standard deviation per coordinate of the noise in the model that is shown after ``row``, before projection.

        Of a leader that tunes itself it is that of the slow average of points, of sums whose noise is correlated: all
        of that is counted, but not that sums which hardly stand out of their noise are shortened, nor that the
        gradients of later points answer to the noise of earlier ones. While a drift is followed, what is shown has up
        to 1.7 times as much. Of others, and in later epochs, whose sums have the noise of those before throughout, it
        is :meth:`std`.

        Parameters
        ----------
        row : int
        ended : bool
            In a run that ends there, whose last step may have fewer rows.

        Notes
        -----
        Cost O(1) in the number of rows.
        """
        epoch, step = self.epochs.step(row, ended=ended)
        sums = self.sums.factorization
        if self.tuning is None or not isinstance(sums, BLT) or not step or epoch:
            return self._std(row, epoch, step)
        weights = self.tuning.weights(step)
        parts = np.searchsorted(self.tuning.until, np.arange(step - len(weights) + 1, step + 1))
        return self.sums.sigma * sums.average_norm(weights / np.array(self.tuning.held)[parts], step)

    def _std(self, row: int, epoch: int, step: int) -> float:
        return self.epochs.std(epoch, step) / self._point(row, epoch, step) if epoch + step else 0.0


def _default_weight(rows: float, bound: float, batch: int, noise: float, reach: float) -> float:
    """The minimiser of the regret bound after ``rows`` rows; ``noise`` is the norm of the last sum's noise."""
    return math.sqrt(2.0 * rows * bound * (batch * bound + noise)) / reach


def calibrate_leaders(
    problem: Problem,
    budget: Budget,
    *,
    release: Any,
    l2: float,
    regularization: float | None = None,
    design: str = "blt",
    buffers: int = 4,
    bandwidth: int | None = None,
    objective: str = "max",
    batch: int = 1,
    discount: float = 1.0,
    window: int | None = None,
    gradient_bound: float | None = None,
    renewal: str = "none",
) -> LeaderCalibration:
    """Calibrate DPFTRL, whose parameters the others are.

    Returns
    -------
    LeaderCalibration

    Raises
    ------
    InvalidParameter
        If a parameter is out of its range; the message says which and why.
    """
    l2, batch = check_steps(l2, batch)
    gradients = gradients_at_points(problem, gradient_bound)
    bound, domain, dim = gradients.bound, problem.domain, problem.dim
    epochs = make_epochs(
        renewal,
        budget,
        rows=problem.horizon,
        design=Design(
            name=design,
            leaf=batch,
            discount=discount,
            window=window,
            buffers=buffers,
            bandwidth=bandwidth,
            objective=objective,
            rows_per_user=problem.rows_per_user,
            user_separation=problem.user_separation,
        ),
        dim=dim,
        bound=bound,
        adjacency=problem.adjacency,
        sensitivity=gradients.change * UP,
        # rounding of the slopes and of their products with weight and row
        rounding=(40 + 4 * (problem.outputs - 1)) * UNIT,
    )
    sums, reach = epochs.sums[0], 0.0
    if regularization is None:
        start = vector_norm(domain.start(dim))
        reach = min(domain.diameter(dim), gradients.radius + start)
        noise = math.sqrt(dim) * sums.std(sums.factorization.steps)
        regularization = _default_weight(sums.weight(problem.horizon), bound, batch, noise, reach)
    else:
        regularization = number(regularization=regularization, at_least=0.0, at_most=1e100)
    if not regularization >= _SMALL and not (l2 > 0.0 and regularization == 0.0):
        raise InvalidParameter(
            f"regularization must be at least {_SMALL:g}, or 0 where l2 is above 0, found {regularization:g} with l2 = "
            f"{l2:g}: without either the point has no bound of its own"
        )
    if not sums.std(sums.factorization.steps) < 1e140 * (regularization + l2):
        raise InvalidParameter(
            "the noise of a point would be beyond 1e140: epsilon, l2, regularization and the bounds are too far apart "
            "for double precision"
        )
    return LeaderCalibration(
        problem=problem,
        releases=ReleaseSchedule.of(release, epochs.horizon),
        sums=sums,
        epochs=epochs,
        batch=batch,
        gradient_bound=gradient_bound,
        bound=bound,
        row_bound=gradients.row_bound,
        regularization=regularization,
        l2=l2,
        reach=reach,
    )
