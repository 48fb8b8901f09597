"""Averages of the secret iterates of implicit steps over all rows: one release, whose sensitivity is averaged.

Proofs, rounding included: ``docs/proofs/offline.md`` and ``iterates.md``. ``"published"`` is Algorithm 6 of Jain,
Kothari and Thakurta (2012).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .._core._schedule import Schedule
from .._rounding import UNIT, UP, bound_of_rows, vector_norm
from .._validate import choice, integer, number
from .._vocabulary import AVERAGE_WEIGHTS, CALIBRATIONS
from ..errors import InvalidParameter
from ..geometry import L2Ball
from ..guarantees import Claim, gdp_mu, gdp_mu_of_pure
from ..losses import Loss, loss_at_zero
from ._iterates import IterateCalibration, calibrate_iterates
from ._offline import check_l2, check_scale, minimiser_bound
from ._participation import check_user
from ._played import chunks_of_rows, mean_length, unproved
from ._problem import Budget, Problem
from ._rules import ON_MODEL, noise_of_unit, rule_l2, unit_of

__all__ = ["AVERAGE_WEIGHTS", "AverageCalibration", "average_rule", "calibrate_average", "sample_size"]


FloatArray = NDArray[np.float64]

_CHUNK = 1 << 16
_LOOKED_UP = 1 << 10  # the most rows of a user behind a learnt encoding
_SMALL, _LARGE = 1e-30, 1e30


@dataclass(frozen=True)
class AverageCalibration:
    """Everything that the noise of a released average depends on; all of it public.

    The iterate number t, from 1, is the point before row t: the first depends on no row. "linear" and "uniform" are
    averages of the iterates 1 to T with the weights t and 1, of T rows; "last" is the point after row T.

    Attributes
    ----------
    weights : {"linear", "uniform", "last"}
    iterates : IterateCalibration
        Steps and sensitivities of the iterates, none of which is released: it has no noise.
    horizon : int
        T, if the run does not end earlier.
    l2 : float
        Strong convexity of every row's loss, given or by the rule of ``docs/offline.md``.
    ball : float
        Norm bound of the set, onto which what is released is projected.
    derived : tuple of str
        Which of ``l2`` and the radius come from public numbers by rule, because none was given.
    law : {"l2_laplace", "gaussian", "none"}
        Density proportional to ``exp(-||e|| / scale)``, independent Gaussians, or no noise (infinite epsilon).
    scale : float
        Of the noise at the horizon: the Gaussian's standard deviation per coordinate. 0 without noise, and where the
        average depends on no row.
    sensitivity : float
        L2 norm of the change of the average at the horizon when one row changes, all rounding charged.
    epsilon : float
        Of pure differential privacy, as proved; infinite for Gaussian noise and without noise.
    mu : float
        Parameter of Gaussian differential privacy, as proved; infinite without noise.
    claim : Claim or None
        The source's, for ``"published"``.
    rows_per_user : int
        Rows that ``sensitivity``, ``epsilon`` and ``mu`` are of together: those of a user.
    factor : float
        ``sensitivity`` in multiples of one row's, rounded down.
    """

    weights: str
    iterates: IterateCalibration
    horizon: int
    l2: float
    ball: float
    derived: tuple[str, ...]
    law: str
    scale: float
    sensitivity: float
    epsilon: float
    mu: float
    claim: Claim | None
    _radius: float
    rows_per_user: int = 1
    factor: float = 1.0

    @property
    def schedule(self) -> Schedule:
        """Step weights and sensitivities of the iterates by row number."""
        return self.iterates.schedule

    def weight(self, t: int) -> float:
        """Weight of the iterate t among the averaged ones, before they are divided by its sum."""
        return float(t) if self.weights == "linear" else 1.0

    def regret_bound(self) -> float:
        """Bound of the released model's expected excess risk, for rows that are drawn independently from one law.

        Its mean regularised loss over new rows less that of the best point of the set; the mean is over the rows and
        the noise (``docs/proofs/regret.md``, section 4).

        Raises
        ------
        InvalidParameter
            If the set has no bound, or ``A_0`` is not ``l2``.
        """
        problem, rows, l2 = self.iterates.problem, self.horizon, self.l2
        domain, dim = problem.domain, problem.dim
        norm, width = domain.norm_bound(dim), domain.diameter(dim)
        if math.isinf(width):
            raise unproved("for a set without a bound")
        if self.schedule.weight(0) != l2:
            raise unproved("for a step_offset but 1")
        slope = problem.loss.gradient_bound(self.iterates.row_bound, norm, problem.y_bound) + l2 * norm
        square = slope**2 / l2
        if self.weights == "linear":
            exact = 2.0 * square / (rows + 1.0)
        elif self.weights == "last":
            exact = square / math.sqrt(rows + 1.0)
        else:
            reach = min(width, norm + vector_norm(domain.start(dim)))
            inverse = math.fsum(float(np.sum(1.0 / (t + 1.0))) for t in chunks_of_rows(rows))
            exact = (l2 * reach**2 + square * inverse) / (2.0 * rows)
        length = dim if self.law == "l2_laplace" else mean_length(dim)
        return min(exact, slope * width) + slope * min(width, length * self.scale)

    @functools.cached_property
    def _together(self) -> FloatArray:
        """Sensitivities to a change of 1, 2, ... rows."""
        return _sensitivities(self.iterates, self.weights, self.horizon, self._radius, _LOOKED_UP)

    def user_factor(self, rows_per_user: int, user_separation: int) -> float:
        """Cost of all rows of a user, as a multiple of the cost of one, wherever they are; rounded up."""
        rows, _ = check_user(rows_per_user, user_separation)
        known = self._together
        if not known[0] > 0.0:
            return float(rows)
        if rows > _LOOKED_UP:
            moved = _sensitivity(self.iterates, self.weights, self.horizon, self._radius, rows)
        else:
            moved = float(known[min(rows, len(known)) - 1])
        return min(float(rows), max(moved / float(known[0]) * UP, 1.0))

    def sensitivity_after(self, rows: int) -> float:
        """Sensitivity of the average if the run ends after ``rows`` rows, which is public. O(rows)."""
        return _sensitivity(self.iterates, self.weights, rows, self._radius, self.rows_per_user)

    def scale_after(self, rows: int) -> float:
        """Scale of the noise with the same guarantee if the run ends after ``rows`` rows. O(rows)."""
        rows = integer(rows=rows, at_least=1, at_most=self.horizon)
        if self.law == "none" or rows == self.horizon:
            return self.scale
        if self.claim is not None:
            raise InvalidParameter("calibration='published' needs the whole horizon: its noise is for no other end")
        sensitivity = self.sensitivity_after(rows)
        scale = sensitivity / (self.epsilon if self.law == "l2_laplace" else self.mu) * UP
        check_scale(self.law if sensitivity > 0.0 else "none", scale)
        return scale


def calibrate_average(
    problem: Problem,
    budget: Budget,
    *,
    l2: float,
    weights: str = "linear",
    step_offset: float | None = None,
    derived: tuple[str, ...] = (),
) -> AverageCalibration:
    """Calibrate POL: implicit steps (PIGD's) over all rows, and one release of their average.

    Parameters
    ----------
    problem : Problem
        With ``rows_per_user`` the budget is for all rows of a user, wherever they stand.
    budget : Budget
        ``delta = 0``: L2-Laplace noise, which is pure; else Gaussian noise. ``calibration="published"``: the uniform
        average with the noise of Algorithm 6, its ``||x*||`` the radius and its alpha ``l2``; for one row.
    l2, step_offset
        As of PIGD.
    weights : {"linear", "uniform", "last"}, default="linear"
    derived : tuple of str
        Which parameters are those of :func:`average_rule`.

    Returns
    -------
    AverageCalibration

    Raises
    ------
    InvalidParameter
        If the loss, the set or the parameters admit no guarantee; the message says which and why.

    Notes
    -----
    Cost O(horizon), memory flat.
    """
    domain, horizon, epsilon, delta = problem.domain, problem.horizon, budget.epsilon, budget.delta
    choice(AVERAGE_WEIGHTS, weights=weights)
    if budget.published and (
        weights != "uniform"
        or delta == 0.0
        or not problem.replaces
        or step_offset is not None
        or not isinstance(domain, L2Ball)
        or horizon < 2
    ):
        raise InvalidParameter(
            "calibration='published' needs weights='uniform' on an L2 ball, with delta above 0, adjacency='replace', "
            "no step_offset and at least two rows, as the source has it"
        )
    together = problem.rows_per_user
    if together > 1 and budget.published:
        raise InvalidParameter(f"calibration='published' is for one row, found rows_per_user={together}")
    iterates = calibrate_iterates(
        replace(problem, rows_per_user=1, user_separation=1),
        Budget(epsilon=math.inf, delta=0.5),  # the iterates have no noise
        update="implicit",
        release="last",
        l2=l2,
        step_offset=step_offset,
    )
    radius = domain.norm_bound(problem.dim)
    sensitivity = _sensitivity(iterates, weights, horizon, radius, together)
    row = sensitivity if together == 1 else _sensitivity(iterates, weights, horizon, radius, 1)
    factor = _times(sensitivity, row, together)
    claim = None
    if budget.noiseless:
        law, scale, mu = "none", 0.0, math.inf
    elif budget.published:
        lipschitz = problem.loss.gradient_bound(iterates.row_bound, radius, problem.y_bound)
        law, scale = "gaussian", published_scale(lipschitz + l2 * radius, horizon, epsilon, delta)
        claim = Claim(epsilon=epsilon, delta=delta, source="Jain, Kothari and Thakurta 2012, Theorem 10")
        mu, epsilon = sensitivity / scale * UP, math.inf
    elif delta == 0.0:
        law, scale, mu = "l2_laplace", sensitivity / epsilon * UP, gdp_mu_of_pure(epsilon)
    else:
        mu = budget.mu
        law, scale, epsilon = "gaussian", sensitivity / mu * UP, math.inf
    check_scale(law if sensitivity > 0.0 else "none", scale)
    return AverageCalibration(
        weights=weights,
        iterates=replace(iterates, mu=mu),
        horizon=horizon,
        l2=l2,
        ball=radius,
        derived=derived,
        law=law,
        scale=scale,
        sensitivity=sensitivity,
        epsilon=epsilon,
        mu=mu,
        claim=claim,
        _radius=radius,
        rows_per_user=together,
        factor=factor,
    )


def average_rule(
    *,
    loss: Loss,
    dim: int,
    intercept: bool,
    n: int,
    x_bound: float,
    y_bound: float,
    adjacency: str,
    budget: Budget,
    weights: str,
    l2: float | None,
    norm_bound: float | None,
) -> tuple[float, float]:
    """Return l2 and the radius of the ball of models for POL, where they were not given: of public numbers alone.

    Parameters
    ----------
    loss : Loss
    dim, intercept, n, x_bound, y_bound, adjacency
        As of :class:`Problem`; ``n`` rows.
    budget : Budget
    weights : {"linear", "uniform", "last"}
        The average's sensitivity is about 2, ``ln n`` or 1 times that of the last point.
    l2 : float or None
        None: the l2 with which noise moves the score of a row of the largest norm by a third of a unit.
    norm_bound : float or None
        Of the set that was given. None: the radius is that of a ball that holds every minimiser; of a loss whose slope
        grows with the model ``2 y_bound`` over the norm of a row, as its noise does, too.
    """
    dim, n = integer(dim=dim, at_least=1), integer(n=n, at_least=1)
    x_bound = number(x_bound=x_bound, at_least=_SMALL, at_most=_LARGE)
    y_bound = number(y_bound=y_bound, at_least=_SMALL, at_most=_LARGE)
    row_bound = bound_of_rows(x_bound, intercept)
    reach = norm_bound
    if reach is None and loss.steep:
        reach = 2.0 * y_bound / row_bound
    if l2 is None:
        slope = loss.lipschitz(math.inf if reach is None else row_bound * reach, y_bound)
        of_average = {"linear": 2.0, "uniform": max(math.log(n), 1.0), "last": 1.0}[weights]
        l2 = rule_l2(
            slope=lambda _: slope,
            unit=unit_of(loss, y_bound),
            row_bound=row_bound,
            n=n,
            noise=of_average * noise_of_unit(budget.epsilon, budget.delta, dim, 1),
            multiple=ON_MODEL,
            adjacency=adjacency,
        )
    if reach is None:
        l2 = check_l2(l2)
        reach = minimiser_bound(loss, row_bound, y_bound, l2)
        at_zero = loss_at_zero(loss, 2, y_bound)
        if at_zero > 0.0:  # a minimiser's regulariser is at most the zero model's loss if losses are not negative
            reach = min(reach, math.sqrt(2.0 * at_zero / l2))
    return l2, reach


def _sensitivity(iterates: IterateCalibration, weights: str, rows: int, radius: float, together: int) -> float:
    """Sensitivity of the average after ``rows`` rows if ``together`` of them change, wherever they are."""
    return float(_sensitivities(iterates, weights, rows, radius, together)[-1])


def _sensitivities(iterates: IterateCalibration, weights: str, rows: int, radius: float, most: int) -> FloatArray:
    """Sensitivities of the average after ``rows`` rows if 1, 2, ... of them change, wherever they are; rounded up.

    They are those of the iterates, averaged, plus rounding. There are ``most`` of them, but at most one for each row.
    """
    schedule = iterates.schedule
    number = np.arange(1.0, min(most, rows) + 1)
    if weights == "last":
        return number * schedule.sensitivity(rows) * UP
    if rows == 1:
        return np.zeros(1)  # the first iterate depends on no row
    # The iterate t + 1 is the point after row t. Without rounding, a change of row s moves it by at most min(D, width
    # A_s) / A_t, and row 1 moves all the most unless the set is too narrow for that.
    width, first, step = schedule.sensitivity(1), schedule.weight(0), iterates.convexity(rows)
    narrow = width * schedule.weight(1) < iterates.diameter and schedule.rounding(rows) < width
    largest, later, total = 0.0, 0.0, 0.0
    begin = np.zeros(len(number))  # what the first iterates add, before which fewer rows may have changed
    for stop in range(rows, 1, -_CHUNK):
        start = max(1, stop - _CHUNK)
        each, _ = schedule.arrays(start, 1, stop - start)
        share = np.arange(start + 1.0, stop + 1.0) if weights == "linear" else np.ones(stop - start)
        total += float(np.sum(each * share))
        if start <= len(begin):
            some = min(stop - start, len(begin) - start + 1)
            begin[start - 1 : start - 1 + some] = (each * share)[:some]
        if narrow:
            weight = first + step * np.arange(float(start), float(stop))
            suffix = np.cumsum((share / weight)[::-1])[::-1] + later
            largest = max(largest, float(np.max(np.minimum(iterates.diameter, width * weight) * suffix)))
            later = float(suffix[0])
    # Up to row t at most t rows have changed, so m of them move the points by the sums from row 1, 2, ..., m on.
    moved = np.cumsum(total - np.append(0.0, np.cumsum(begin)[:-1]))
    if narrow:
        rounding = schedule.rounding(rows) * schedule.weight(rows)  # for all rows, because it grows with them
        total = min(total, largest + rounding * later)
    moved = np.minimum(number * total, moved)
    whole = 0.5 * rows * (rows + 1.0) if weights == "linear" else float(rows)
    # a chunk's sum has a relative error below 2^-36 in any order, and the sum over chunks that counted here; what is
    # subtracted from the total for m rows, and their sum, have fewer than 64 m roundings
    moved *= 1.0 + 2.0**-34 + (rows / _CHUNK + 1.0) * 4 * UNIT + 64 * (number - 1.0) * UNIT
    return np.asarray((moved / whole + 2.02 * (rows + 24) * UNIT * radius) * UP)  # both runs round


def _times(sensitivity: float, row: float, together: int) -> float:
    """The effect of all rows of a user over that of one, rounded down; their number if the two are equal."""
    if not row < sensitivity:
        return 1.0
    factor = sensitivity / row
    return float(together) if factor * UP >= together else max(math.nextafter(factor, 0.0), 1.0)


def published_scale(lipschitz: float, horizon: int, epsilon: float, delta: float) -> float:
    """Beta of Algorithm 6, as printed; ``lipschitz`` is that of a row's regularised loss."""
    root = math.sqrt(math.log(1.0 / delta) + epsilon)
    return 2.0 * math.sqrt(2.0) * lipschitz * math.log(horizon) / (horizon * epsilon) * root


def sample_size(
    *,
    error: float,
    norm_bound: float,
    lipschitz: float,
    dim: int,
    epsilon: float,
    delta: float,
    failure: float,
    constant: float = 1.0,
    calibration: str = "tight",
) -> int:
    """Return the rows that Theorem 12 of Jain, Kothari and Thakurta asks for, up to its unspecified constant.

    An order of magnitude to plan with, no guarantee: the source's constant is not stated, and one of 1 need not do.

    Parameters
    ----------
    error : float
        The expected loss above that of the best model, at most; above 0. ``l2`` is then ``error / norm_bound^2``.
    norm_bound : float
        L2 norm of the best model, at most.
    lipschitz : float
        Bound of the gradient of one row's loss.
    dim : int
    epsilon, delta : float
        ``delta`` above 0.
    failure : float
        Probability with which the error may be exceeded, in (0, 1).
    constant : float, default=1.0
    calibration : {"tight", "published"}, default="tight"
        ``"published"``: as printed. ``"tight"``: with the noise that is proved, of the uniform average.

    Returns
    -------
    int

    Notes
    -----
    The theorem asks for at least ``constant`` times the larger of ``sqrt(d) L L' sqrt(ln(1/failure) ln(1/delta)) /
    (error epsilon)`` and ``(L' norm_bound)^2 ln T ln(ln T / failure) / error^2``, with ``L' = L + error /
    norm_bound``. The second is that of learning without noise, and stands. The first is what noise costs, and does not:
    the noise of Theorem 10 lacks a factor ``1 / l2 = norm_bound^2 / error`` (and the last step of the proof drops ``ln
    T``). With the noise that is proved it is ``sqrt(d) L D norm_bound^2 ln T sqrt(ln(1/failure)) / (error^2 mu)``, D =
    2 L, mu of the analytic calibration: it grows with ``1 / error^2``, not ``1 / error``.
    """
    error = number(error=error, above=0.0)
    norm_bound = number(norm_bound=norm_bound, above=0.0)
    lipschitz = number(lipschitz=lipschitz, above=0.0)
    dim = integer(dim=dim, at_least=1)
    epsilon = number(epsilon=epsilon, above=0.0)
    delta = number(delta=delta, above=0.0, below=1.0)
    failure = number(failure=failure, above=0.0, below=1.0)
    constant = number(constant=constant, above=0.0)
    published = choice(CALIBRATIONS, calibration=calibration) == "published"
    slope = lipschitz + error / norm_bound
    tail = math.sqrt(math.log(1.0 / failure))
    if published:
        noise = math.sqrt(dim) * lipschitz * slope * tail * math.sqrt(math.log(1.0 / delta)) / error / epsilon
    else:
        ratio = lipschitz * norm_bound / error
        noise = math.sqrt(dim) * 2.0 * ratio * ratio * tail / gdp_mu(epsilon, delta)

    def needed(rows: float) -> float:
        log, gap = math.log(rows), slope * norm_bound / error  # a power beyond the doubles would be Python's error
        learning = gap * gap * log * math.log(max(log / failure, 1.0))
        return constant * max(noise if published else noise * log, learning)

    rows = 3.0
    while rows < needed(rows):
        rows *= 2.0
        if rows > 2.0**1000:
            raise InvalidParameter("the parameters are too far apart for double precision")
    low, high = max(rows / 2.0, 2.0), rows
    while high - low > 1.0 and high > low * (1.0 + 1e-15):
        middle = math.floor(low + 0.5 * (high - low))
        low, high = (low, middle) if middle >= needed(middle) else (middle, high)
    return math.ceil(high)
