"""Online least squares: the moments of all rows so far as one private prefix sum, and the shift for their noise.

Rows and targets are scaled to unit bounds, and the moments of a row are one vector of L2 norm up to sqrt(2): the matrix
``v v^T`` with off-diagonal entries times sqrt(2), so that its norm is that of the matrix, and ``y v``. Replacing a row
moves it by at most ``3 / sqrt(2)``, leaving it out by sqrt(2) (docs/proofs/least_squares.md): less than treating the
two parts separately. ``"published"`` is Algorithm 4 of Jain, Kothari & Thakurta (2012), as printed.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core._least_squares import moments_size
from .._rounding import UNIT, UP
from .._validate import integer, number
from ..errors import InvalidParameter
from ..factorizations import Design, Factorization, forgets
from ..guarantees import Claim
from ._epochs import Epochs, make_epochs
from ._iterates import ReleaseSchedule
from ._played import behind, mean_length, unproved
from ._problem import Budget, Problem
from ._sums import PrintedNoise, SumCalibration

__all__ = ["LeastSquaresCalibration", "calibrate_least_squares"]

_SMALL, _LARGE = 1e-30, 1e30
_MOST_BATCH = 1 << 20
_MOST_COORDINATES = 16384  # limited by the kernel, whose LAPACK has 32-bit sizes


@dataclass(frozen=True)
class LeastSquaresCalibration:
    """Everything that the noise and the models of PQFTL depend on; all of it public.

    Attributes
    ----------
    problem : Problem
    sums : SumCalibration
        Of the moments, in unit bounds; with renewal those of the first epoch.
    epochs : Epochs
        All mechanisms of the run.
    releases : ReleaseSchedule
        Rows after which a model is solved; the moments are released at every step whatever it says.
    batch : int
        Rows of a step; the last step may have fewer.
    row_bound : float
        L2 bound of a row with the intercept's constant.
    row_unit, target_unit : float
        What scaled rows (with the intercept's constant) and clipped targets are multiplied with.
    l2 : float
        Strong convexity of a row's loss in unit bounds.
    ball : float
        Radius of the models in unit bounds.
    shifts : ndarray of shape (epochs, n), float64
        What is added to the matrix for the noise of an epoch: entry k from step ``2**k`` to ``2**(k + 1) - 1``. The
        last ones are those of all epochs that follow. See :meth:`shift`.
    ended : ndarray of shape (epochs,), float64
        Squares of the shifts for the noise that the epochs before leave behind.
    more : float
        What every epoch from the last of these on adds to that.
    as_printed : bool
        Whether the moments are all entries of the matrix, and models what Algorithm 4 prints.
    """

    problem: Problem
    sums: SumCalibration
    epochs: Epochs
    releases: ReleaseSchedule
    batch: int
    row_bound: float
    row_unit: float
    target_unit: float
    l2: float
    ball: float
    shifts: NDArray[np.float64]
    ended: NDArray[np.float64]
    more: float
    as_printed: bool = False

    @property
    def mu(self) -> float:
        """Parameter of Gaussian differential privacy of the whole run (infinite without noise)."""
        return self.epochs.mu

    @property
    def claim(self) -> Claim | None:
        """The source's claim, for ``"published"``."""
        return self.sums.claim

    def shift(self, epoch: int, step: int) -> float:
        """The shift of the matrix for its noise after a step of an epoch; the squares of all epochs add up."""
        last = self.epochs.last
        now = float(self.shifts[min(epoch, last), step.bit_length() - 1]) if step else 0.0
        if epoch == 0:
            return now
        before = float(self.ended[min(epoch, last)])
        if epoch > last:
            before += (epoch - last) * self.more
        return math.sqrt(before + now * now)

    def _scale(self, row: int, epoch: int, step: int) -> float:
        """Factor from the sums to the model, for rows that fill their bound evenly in all directions."""
        dim = self.problem.dim
        before = self.epochs.start(epoch)
        rows = before + self.epochs.of(epoch).weight(min(step * self.batch, row - before))
        return self.row_unit / self.target_unit / (rows / dim + rows * self.l2 + self.shift(epoch, step))

    def user_factor(self, rows_per_user: int, user_separation: int) -> float:
        """Cost of all rows of a user, as a multiple of the cost of one: see :class:`RunPlan`."""
        return self.epochs.user_factor(rows_per_user, user_separation)

    def convexity(self, row: int) -> float:
        """Mean strong convexity of the rows up to ``row``."""
        return self.l2 / self.row_unit**2

    def sensitivity(self, row: int) -> float:
        """Approximate change of the model, before noise, by one row, for rows that fill their bound evenly."""
        epoch, step = self.epochs.step(row)
        return self.epochs.of(epoch).sensitivity * self._scale(row, epoch, step) if epoch + step else 0.0

    def std(self, row: int) -> float:
        """Approximate standard deviation per coordinate of the model's noise, for rows that fill their bound evenly."""
        return self._std(row, *self.epochs.step(row))

    def regret_bound(self, rows: int) -> float:
        """Bound of the expected regret of the first rows against any fixed point of the ball.

        The regularised losses of the rows, each at the model that was released last, summed, less those of the fixed
        point, whatever the rows are within their bounds (``docs/proofs/regret.md``, section 3). Cost O(rows).

        Raises
        ------
        InvalidParameter
            Where nothing is proved: sums that forget, renewal, the published models.
        """
        rows = integer(rows=rows, at_least=1, at_most=self.problem.horizon)
        design = self.sums.factorization
        if design.discount < 1.0 or design.window is not None or self.epochs.renewal != "none":
            raise unproved("for sums that forget, nor for renewal")
        if self.as_printed:
            raise unproved("for the published models: the matrix that is inverted may be singular")
        dim, l2 = self.problem.dim, self.l2
        gradient = 1.0 + self.ball * (1.0 + l2)
        of_matrix, of_vector = mean_length(dim * (dim + 1) // 2), mean_length(dim)

        def off(learnt: NDArray[np.int64]) -> NDArray[np.float64]:
            steps = [int(row) // self.batch for row in learnt]
            noise = np.array([self.sums.std(step) for step in steps]) * (of_matrix * self.ball + of_vector)
            apart = (noise + self.ball * np.array([self.shift(0, step) for step in steps])) / (l2 * learnt)
            return np.asarray(apart, dtype=np.float64)

        total = gradient**2 / (2.0 * l2) * _harmonic(rows) + behind(
            rows,
            learnt=lambda of: self.releases.latest(of - 1) // self.batch * self.batch,
            moved=lambda of: np.asarray(gradient / (l2 * of), dtype=np.float64),
            off=off,
            slope=lambda of: np.full(len(of), gradient),
            width=2.0 * self.ball,
        )
        return total / self.target_unit**2

    def last_std(self, row: int) -> float:
        """Standard deviation for a run that ends there: its last step may have fewer rows."""
        return self._std(row, *self.epochs.step(row, ended=True))

    def _std(self, row: int, epoch: int, step: int) -> float:
        return self.epochs.std(epoch, step) * self._scale(row, epoch, step) if epoch + step else 0.0


def calibrate_least_squares(
    problem: Problem,
    budget: Budget,
    *,
    release: Any,
    batch: int | None,
    design: str,
    buffers: int,
    bandwidth: int | None = None,
    objective: str,
    l2: float,
    noise_shift: float,
    discount: float = 1.0,
    window: int | None = None,
    renewal: str = "none",
) -> LeastSquaresCalibration:
    """Calibrate PQFTL, whose parameters the others are.

    Returns
    -------
    LeastSquaresCalibration

    Raises
    ------
    InvalidParameter
        If a parameter is out of its range, or the noise would not fit.
    """
    l2 = number(l2=l2, at_least=_SMALL, at_most=_LARGE)
    y_bound, dim = problem.y_bound, problem.dim
    radius = problem.domain.norm_bound(dim)
    noise_shift = number(noise_shift=noise_shift, at_least=0.0, at_most=1e6)
    if batch is None:
        batch = 1 if budget.published else _rows_of_step(problem, release, discount, window, renewal)
    batch = integer(batch=batch, at_least=1, at_most=_MOST_BATCH)
    # enlarged even without an intercept: rows are multiplied by the rounded 1 / row_bound
    row_bound = problem.row_bound * (1.0 if problem.intercept else UP)
    if dim > _MOST_COORDINATES:
        raise InvalidParameter(f"a least-squares model has at most {_MOST_COORDINATES} coordinates, found {dim}")

    published = budget.published
    if published:
        _refuse_unpublished(problem, batch, design, discount, window, renewal, noise_shift)
        design, noise_shift = "tree", 0.0
        unit, target_unit = max(row_bound, y_bound), 1.0  # the first is the source's R, for rows and targets
        rows, targets = row_bound / unit * UP, y_bound
    else:
        unit, target_unit = row_bound, 1.0 / y_bound
        rows = targets = 1.0
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
        dim=moments_size(dim, published),
        bound=rows * math.hypot(rows, targets) * UP,
        adjacency=problem.adjacency,
        sensitivity=_joint_sensitivity(rows, targets, replace=problem.replaces) * UP,
        # docs/proofs/least_squares.md, section 3: without the intercept, the charge for scaling and UP cover it
        rounding=(2 if published else 1) * (dim + 128) * UNIT,
        printed=PrintedNoise(bound=1.0, parts=2, theorem="Theorem 7"),
    )
    unit_l2 = l2 / (unit * unit)
    # The model of exact sums lies within the first two; docs/proofs/least_squares.md, section 4.
    ball = min(1.0 / unit_l2, 0.5 / math.sqrt(unit_l2), radius * row_bound / y_bound)
    if not (1e-100 < unit_l2 < 1e100 and 1e-100 < ball < 1e100):
        raise InvalidParameter("l2, radius, x_bound and y_bound are too far apart for double precision")
    in_noise = math.sqrt(2.0 * dim)
    shifts = np.zeros((epochs.last + 1, epochs.sums[-1].factorization.steps.bit_length()))
    for found, row in zip(epochs.sums, shifts, strict=True):
        chosen = found.factorization
        known = chosen.steps.bit_length()
        row[:known] = [noise_shift * found.sigma * in_noise * _largest_norm(chosen, k) for k in range(known)]
    return LeastSquaresCalibration(
        problem=problem,
        sums=epochs.sums[0],
        epochs=epochs,
        releases=ReleaseSchedule.of(release, epochs.horizon),
        batch=batch,
        row_bound=row_bound,
        row_unit=1.0 / unit,
        target_unit=target_unit,
        l2=unit_l2,
        ball=ball,
        shifts=shifts,
        ended=(noise_shift * in_noise) ** 2 * np.array(epochs.variances()),
        more=(noise_shift * in_noise) ** 2 * epochs.end_variance(epochs.last),
        as_printed=published,
    )


def _harmonic(n: int) -> float:
    """Upper bound of ``1 + 1/2 + ... + 1/n``."""
    return 1.0 + math.log(n)


def _joint_sensitivity(rows: float, targets: float, *, replace: bool) -> float:
    """Largest change of (v v^T, y v) by one row, for ``||v|| <= rows`` and ``|y| <= targets``.

    docs/proofs/least_squares.md, section 2.
    """
    if not replace:
        return rows * math.hypot(rows, targets)
    ratio = (targets / rows) ** 2
    return rows * (rows * (2.0 + ratio) / math.sqrt(2.0) if ratio <= 2.0 else 2.0 * targets)


def _refuse_unpublished(
    problem: Problem,
    batch: int,
    design: str,
    discount: float,
    window: int | None,
    renewal: str,
    noise_shift: float,
) -> None:
    wrong = [
        name
        for name, found, allowed in (
            ("batch", batch, (1,)),
            ("design", design, ("blt", "tree")),  # "blt" is the parameter's default and means the source's tree here
            ("discount", discount, (1.0,)),
            ("window", window, (None,)),
            ("renewal", renewal, ("none",)),
            ("noise_shift", noise_shift, (0.0, 2.0)),  # the parameter's default; the source has no shift
            ("rows_per_user", problem.rows_per_user, (1,)),
        )
        if found not in allowed
    ]
    if wrong:
        raise InvalidParameter(
            f"calibration='published' fixes {', '.join(wrong)} as the source does; leave it at its default"
        )


def _rows_of_step(problem: Problem, release: Any, discount: float, window: int | None, renewal: str) -> int:
    """The default rows of a step: those between two models, if no sum is used before."""
    if not isinstance(release, Integral) or forgets(discount, None) or problem.rows_per_user > 1:
        return 1
    whole = [integer(release=release, at_least=1)]  # the numbers that steps must divide
    if window is not None:
        whole.append(integer(window=window, at_least=1))
    if renewal != "none":
        whole.append(problem.horizon)
    rows = math.gcd(*whole)
    return rows if rows <= _MOST_BATCH else 1


@functools.lru_cache(maxsize=4096)
def _largest_norm(chosen: Factorization, k: int) -> float:
    """Largest standard deviation of the prefixes of steps ``2**k`` to ``2**(k + 1) - 1``, in units of sigma."""
    last = min((2 << k) - 1, chosen.steps)
    # The last one or, if variance follows the set bits, one in which a bit is cleared to set all lower ones.
    worst = [last, *((last >> j ^ 1) << j | (1 << j) - 1 for j in range(k) if last >> j & 1)]
    return max(chosen.row_norm(step) for step in worst)
