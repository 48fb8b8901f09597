"""Sensitivities of the iterate-perturbing learners as the kernels compute them, and the resulting noise.

Specification: stability lemma, exact Gaussian composition, analytic calibration; rounding of the kernels charged as
derived in ``docs/proofs/iterates.md``. ``"published"`` is Algorithms 2 and 3 of Jain, Kothari & Thakurta (2012).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core._schedule import Schedule
from .._rounding import UNIT, UP, lanes, scaled_excess, vector_norm
from .._validate import choice, integer, number
from .._vocabulary import CALIBRATIONS, L2_SCHEDULES, NOISE_SHAPES
from ..errors import InvalidParameter
from ..geometry import ConvexSet, L2Ball
from ..guarantees import Claim
from ..losses import Loss
from ._participation import check_user
from ._played import behind, chunks_of_rows, mean_length, unproved
from ._problem import Budget, Problem

__all__ = [
    "CALIBRATIONS",
    "L2_SCHEDULES",
    "NOISE_SHAPES",
    "IterateCalibration",
    "ReleaseSchedule",
    "calibrate_iterates",
]


_CHUNK = 1 << 16
_SMALL, _LARGE = 1e-30, 1e30
_TERMS = 1 << 28  # releases that are added one by one
_PARTS = 1 << 18  # parts of an octave of later releases
_MOST_PUBLISHED = 1 << 27
_WITHIN_PART = (1.0 + 1.0 / _PARTS) ** 6 * UP
_SHAPE_CODES = {"paper": 0, "lipschitz": 1, "smooth": 2}


@dataclass(frozen=True)
class ReleaseSchedule:
    """Rows after which a model is released: public, fixed before the run, by row number.

    Attributes
    ----------
    every : int
        The number of rows between two releases; 0 if ``rows`` lists them.
    rows : ndarray of int64
        Ascending row numbers, 1-based; empty where ``every`` is set.
    horizon : int
    last_row : int
        No release after this row.
    """

    every: int
    rows: NDArray[np.int64]
    horizon: int
    last_row: int

    @classmethod
    def of(cls, release: Any, horizon: int, last_row: int | None = None) -> ReleaseSchedule:
        """Resolve the ``release`` parameter of a learner.

        Parameters
        ----------
        release : {"all", "last"}, int or sequence of int
            All rows, row ``last_row``, every k-th row, or the listed rows.
        horizon : int
        last_row : int, optional
            Default: the horizon.
        """
        last = horizon if last_row is None else last_row
        none = np.empty(0, dtype=np.int64)
        if isinstance(release, str):
            if choice(("all", "last"), release=release) == "all":
                return cls(1, none, horizon, last)
            return cls(0, np.array([last], dtype=np.int64), horizon, last)
        if isinstance(release, (Sequence, np.ndarray)):
            listed = np.asarray(release)
            if listed.ndim != 1 or listed.size == 0 or listed.dtype.kind not in "iu":
                raise InvalidParameter(f"release must list at least one row number, found {release!r}")
            rows = listed.astype(np.int64)
            if np.any(np.diff(rows) <= 0) or rows[0] < 1 or rows[-1] > horizon:
                raise InvalidParameter(f"release must list ascending row numbers between 1 and the horizon {horizon}")
            return cls(0, rows[rows <= last], horizon, last)
        every = integer(release=release, at_least=1)
        if every > last:
            raise InvalidParameter(f"release={every} would release nothing within {last} rows")
        return cls(every, none, horizon, last)

    @property
    def count(self) -> int:
        """Number of releases."""
        return self.last_row // self.every if self.every else len(self.rows)

    def latest(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the last release at or before each of these rows, 0 if there is none."""
        if self.every:
            return np.minimum(rows, self.last_row) // self.every * self.every
        return np.concatenate([[0], self.rows])[np.searchsorted(self.rows, rows, side="right")]

    @property
    def only_last(self) -> bool:
        """Whether the only release is that of the last row."""
        return not self.every and len(self.rows) == 1 and int(self.rows[0]) == self.last_row

    def chunks(self, most: int | None = None) -> Iterator[NDArray[np.int64]]:
        """Yield the release rows in ascending order, in pieces of bounded size: all, or the first ``most``."""
        count = self.count if most is None else min(self.count, most)
        for start in range(0, count, _CHUNK):
            stop = min(start + _CHUNK, count)
            yield (np.arange(start + 1, stop + 1) * self.every) if self.every else self.rows[start:stop]


@dataclass(frozen=True)
class StepLaw:
    """The numbers of a schedule, by which steps and noise follow from the row number; all of it public.

    Attributes
    ----------
    update : {"implicit", "gradient"}
    l2 : float
    l2_schedule : {"constant", "inverse_sqrt"}
    first_weight : float
        A_0.
    noise_shape : {"paper", "lipschitz", "smooth"}
    diameter : float
        Gradient diameter D, of all rows that the budget covers.
    rounding : tuple of three floats
        (e0, e1, e2) of E_t = e0 + e1 t + e2 sum of A_i up to t, likewise.
    cap : float
        Diameter of the feasible set, likewise.
    """

    update: str
    l2: float
    l2_schedule: str
    first_weight: float
    noise_shape: str
    diameter: float
    rounding: tuple[float, float, float]
    cap: float


@dataclass(frozen=True)
class IterateCalibration:
    """Everything that the noise of an iterate-perturbing run depends on; all of it public.

    Attributes
    ----------
    problem : Problem
    schedule : Schedule
        Step weights, sensitivities (of what the budget covers: a row, or all rows of a user) and noise scales by row
        number.
    releases : ReleaseSchedule
    mu : float
        Parameter of Gaussian differential privacy that the noise gives (infinite without noise).
    claim : Claim or None
        The source's claim, for ``"published"``.
    diameter : float
        Gradient diameter D of neighbouring rows.
    row_bound : float
        L2 bound of a row with the intercept's constant.
    constrained : bool
        Whether an implicit step is constrained to the L2 ball exactly, which bounds the gradient by the ball; else it
        is prox, then project.
    refresh : int
        Rows between recomputations of the iterate's norm.
    law : StepLaw
        What ``schedule`` was made of.
    factor : float
        What the budget covers, as a multiple of the cost of one row.
    """

    problem: Problem
    schedule: Schedule
    releases: ReleaseSchedule
    mu: float
    claim: Claim | None
    diameter: float
    row_bound: float
    constrained: bool
    refresh: int
    law: StepLaw
    factor: float = 1.0

    @property
    def epochs(self) -> None:
        """None: a run ends at its horizon."""

    def sensitivity(self, row: int) -> float:
        """Largest change of the iterate after ``row`` rows when one of them changes."""
        return float(self.schedule.sensitivity(row))

    def std(self, row: int) -> float:
        """Standard deviation per coordinate of the noise of the release after ``row``."""
        return float(self.schedule.std(row))

    def user_factor(self, rows_per_user: int, user_separation: int) -> float:
        """Cost of all rows of a user, as a multiple of the cost of one: see :class:`RunPlan`.

        Cost O(releases), as that of the calibration.
        """
        rows, apart = check_user(rows_per_user, user_separation)
        if (rows, apart) == (self.problem.rows_per_user, self.problem.user_separation):
            return self.factor
        return float(rows) if self.claim is not None else _user_factor(self.schedule, self.releases, rows, apart)

    def convexity(self, row: int) -> float:
        """Mean strong convexity of the rows up to ``row``."""
        return float((self.schedule.weight(row) - self.schedule.weight(0)) / row)

    def regret_bound(self, rows: int) -> float:
        """Bound of the expected regret of the first rows against any fixed point of the set.

        The regularised losses of the rows, each at the model that was released last, summed, less those of the fixed
        point, whatever the rows are within their bounds (``docs/proofs/regret.md``, section 2). Cost O(rows).

        Raises
        ------
        InvalidParameter
            If the set has no bound, or the steps are the published ones along gradients.
        """
        problem, schedule = self.problem, self.schedule
        rows = integer(rows=rows, at_least=1, at_most=problem.horizon)
        domain, dim = problem.domain, problem.dim
        norm, width = domain.norm_bound(dim), domain.diameter(dim)
        if math.isinf(width):
            raise unproved("for a set without a bound")
        if schedule.first > 1:
            raise unproved("for the published steps along gradients")
        reach = min(width, norm + vector_norm(domain.start(dim)))
        gradient = problem.loss.gradient_bound(self.row_bound, norm, problem.y_bound)

        def weights(after: NDArray[np.int64]) -> NDArray[np.float64]:
            return np.array([schedule.weight(int(t)) for t in after])

        def slope(of: NDArray[np.int64]) -> NDArray[np.float64]:
            return gradient + norm * (weights(of) - weights(of - 1))

        def off(after: NDArray[np.int64]) -> NDArray[np.float64]:
            return mean_length(dim) * schedule.at(after)[1]

        exact = schedule.weight(0) * reach**2 / 2.0
        exact += math.fsum(float(np.sum(slope(t) ** 2 / (2.0 * weights(t)))) for t in chunks_of_rows(rows))
        return exact + behind(
            rows,
            learnt=lambda of: self.releases.latest(of - 1),
            moved=lambda of: slope(of) / weights(of),
            off=off,
            slope=slope,
            width=width,
        )

    def last_std(self, row: int) -> float:
        """Standard deviation for a run whose single release comes after ``row`` instead of at the horizon."""
        if math.isinf(self.mu):
            return 0.0
        return self.sensitivity(row) / self.mu * UP


def calibrate_iterates(
    problem: Problem,
    budget: Budget,
    *,
    update: str,
    release: Any,
    l2: float,
    l2_schedule: str = "constant",
    step_offset: float | None = None,
    noise_shape: str = "lipschitz",
) -> IterateCalibration:
    """Calibrate PIGD (``update="implicit"``) or PGIGA (``"gradient"``); the others are parameters of the learners.

    Returns
    -------
    IterateCalibration

    Raises
    ------
    InvalidParameter
        If the loss, the set or the parameters admit no guarantee; the message says which and why.

    Notes
    -----
    Cost O(releases) up to 2**28 of them, and hardly more beyond (a list: O(its length)); memory flat. ``"published"``
    PGIGA takes memory and time O(releases), and up to 2**27.
    """
    # Within these ranges no square in the kernels leaves the normal doubles.
    l2 = number(l2=l2, at_least=_SMALL, at_most=_LARGE)
    loss, domain, dim, horizon = problem.loss, problem.domain, problem.dim, problem.horizon
    y_bound, adjacency = problem.y_bound, problem.adjacency
    number(norm_of_domain=domain.norm_bound(dim), at_least=_SMALL, at_most=_LARGE)
    row_bound = problem.row_bound
    radius = domain.norm_bound(dim)
    published = budget.published
    if update == "gradient" and math.isinf(loss.curvature):
        raise InvalidParameter(
            f"loss={loss.name!r} has a kink: a gradient step is not a contraction there and has no sensitivity bound. "
            "Use PIGD, or a smooth loss ('smooth_hinge' for 'hinge', 'huber' for 'absolute')"
        )
    rounding = _Rounding.of(dim, isinstance(domain, L2Ball))
    # Rows are scaled, and gradient steps taken, in floating point: norms may exceed their bounds by a few roundings.
    slack = 1.0 + 2 * scaled_excess(dim)  # no diameter grows faster than the square of the row's norm
    bounds = (row_bound, radius * (1.0 + rounding.norm), y_bound)
    constrained = update == "implicit" and isinstance(domain, L2Ball) and _constraint_pays(loss, bounds, adjacency)
    # prox, then project: the gradient may be taken anywhere in R^d
    everywhere = update == "implicit" and not constrained
    diameter = slack * loss.gradient_diameter(*bounds, adjacency, everywhere=everywhere)
    gradient = slack * loss.gradient_bound(row_bound, math.inf if everywhere else bounds[1], y_bound)
    smoothness = loss.curvature * row_bound * row_bound * slack
    cap = domain.diameter(dim) * (1.0 + rounding.norm)

    if published:
        _refuse_unpublished(l2_schedule, step_offset, noise_shape, adjacency, domain)
        kind, a0, first = (2, 0.0, _burn_in(smoothness, l2, horizon)) if update == "gradient" else (0, l2, 1)
        last_row = horizon - 1
    else:
        kind, first, last_row = L2_SCHEDULES.index(l2_schedule), 1, horizon
        a0 = _start_weight(update, l2, smoothness, step_offset)
    rounded = rounding.coefficients(kind, a0, l2, radius, gradient, smoothness if constrained else 0.0, horizon)
    if published and horizon < 2:
        raise InvalidParameter("calibration='published' releases after rows 1 to horizon - 1: horizon must exceed 1")
    releases = ReleaseSchedule.of(release, horizon, last_row)

    def schedule_of(together: float) -> Schedule:
        return Schedule(
            kind=kind,
            a0=a0,
            l2=l2,
            first=first,
            diameter=together * diameter,
            rounding=(together * rounded[0], together * rounded[1], together * rounded[2]),
            cap=together * cap,
            shape=_SHAPE_CODES["paper" if published else noise_shape],
            gain=0.0,
        )

    together, schedule = 1.0, schedule_of(1.0)
    if problem.rows_per_user > 1:
        rows, apart = problem.rows_per_user, problem.user_separation
        if published:
            raise InvalidParameter(
                f"rows_per_user must be None or 1 with calibration='published', found {rows}: its noise is the "
                "source's, and so is the claim, which is for one row"
            )
        together = _user_factor(schedule, releases, rows, apart)
        schedule = schedule_of(together)
    claim = None
    if budget.noiseless:
        mu = math.inf
    elif published:
        strength = gradient + l2 * radius  # Lipschitz constant of a row's regularised loss, the source's L (or G)
        gain = _published_gain(2.0 * strength, horizon, budget.epsilon, budget.delta)
        schedule = schedule.with_gain(gain)
        mu = _published_mu(schedule, releases, kind, together * diameter / l2, gain)
        theorem = "Theorem 3" if update == "implicit" else "Theorem 5"
        source = f"Jain, Kothari and Thakurta 2012, {theorem}"
        claim = Claim(epsilon=3 * budget.epsilon, delta=2 * budget.delta, source=source)
    else:
        mu = budget.mu
        total = _weighted_sum(schedule.with_gain(1.0), releases)
        schedule = schedule.with_gain(math.sqrt(total) / mu * UP)
    if not math.isinf(mu):
        _check_noise(schedule, releases)
    law = StepLaw(
        update=update,
        l2=l2,
        l2_schedule=l2_schedule,
        first_weight=a0,
        noise_shape="paper" if published else noise_shape,
        diameter=together * diameter,
        rounding=(together * rounded[0], together * rounded[1], together * rounded[2]),
        cap=together * cap,
    )
    return IterateCalibration(
        problem, schedule, releases, mu, claim, diameter, row_bound, constrained, rounding.refresh, law, together
    )


def _refuse_unpublished(
    l2_schedule: str, step_offset: float | None, noise_shape: str, adjacency: str, domain: ConvexSet
) -> None:
    wrong = [
        name
        for name, found, allowed in (
            ("l2_schedule", l2_schedule, "constant"),
            ("step_offset", step_offset, None),
            ("adjacency", adjacency, "replace"),
        )
        if found != allowed
    ]
    if not isinstance(domain, L2Ball):
        wrong.append("domain")
    # "lipschitz" is the parameter's default and means the source's shape here
    if noise_shape not in ("paper", "lipschitz"):
        wrong.append("noise_shape")
    if wrong:
        raise InvalidParameter(
            f"calibration='published' fixes {', '.join(wrong)} as the source does; leave it at its default"
        )


def _burn_in(smoothness: float, l2: float, horizon: int) -> int:
    """First row that moves the iterate in Algorithm 3: ``2 kappa^2``, rounded up."""
    rows = 2 * ((smoothness + l2) / l2) ** 2
    if rows >= horizon:
        raise InvalidParameter(
            f"calibration='published' learns nothing before row {rows:.4g} here (2 (smoothness / l2 + 1)^2), beyond "
            f"the horizon of {horizon}: increase l2 or the horizon"
        )
    return math.ceil(rows)


def _start_weight(update: str, l2: float, smoothness: float, step_offset: float | None) -> float:
    """A_0: l2 for the implicit step; the gradient step is a contraction once A_0 >= smoothness / 2."""
    least = 0.0 if update == "implicit" else smoothness / 2
    if step_offset is None:
        return l2 if least == 0.0 else least * UP
    a0 = l2 * number(step_offset=step_offset, at_least=_SMALL, at_most=_LARGE)
    if a0 < least:
        raise InvalidParameter(
            f"step_offset must be at least {least / l2:.6g} here (smoothness / (2 l2)), found {step_offset:g}: "
            "a longer gradient step is not a contraction"
        )
    return a0


def _check_noise(schedule: Schedule, releases: ReleaseSchedule) -> None:
    """Refuse a plan whose noise is not a normal double; noise is monotone in the row, so its two ends decide."""
    if not releases.count:
        return
    first = releases.every or int(releases.rows[0])
    last = releases.every * releases.count if releases.every else int(releases.rows[-1])
    for row in (first, last):
        if not 1e-280 < schedule.std(row) < 1e280:
            raise InvalidParameter(
                f"the noise after row {row} would have standard deviation {schedule.std(row):g}: epsilon, l2 and the "
                "bounds are too far apart for double precision"
            )


def _constraint_pays(loss: Loss, bounds: tuple[float, float, float], adjacency: str) -> bool:
    """Whether the exact constrained step has a smaller gradient diameter than prox, then project.

    Otherwise prox, then project is used: it is simpler, and well conditioned even for losses with kinks.
    """
    try:
        everywhere = loss.gradient_diameter(*bounds, adjacency, everywhere=True)
    except InvalidParameter:  # no bound over all models: squared loss
        return True
    return loss.gradient_diameter(*bounds, adjacency) < everywhere


@dataclass(frozen=True)
class _Rounding:
    """The additions of the kernels' rounding, derived operation by operation in docs/proofs/iterates.md."""

    ball: bool
    lanes: float  # roundings of a sum over columns in eight lanes
    refresh: int  # rows between recomputations of the norm: at most 16 flops a row
    drift: float  # norm error per row and per unit of step length, times refresh
    sets: float  # roundings of a projection by threshold

    @classmethod
    def of(cls, dim: int, ball: bool) -> _Rounding:
        columns, refresh = lanes(dim), 64 * max(1, -(-dim // 1024))
        return cls(ball, columns, refresh, refresh * (4 * columns + 12), 16.0 * math.sqrt(dim) + 16.0)

    @property
    def norm(self) -> float:
        """Relative excess of an iterate's norm over the radius."""
        if self.ball:
            return 1.01 * UNIT * (1.5 * self.refresh + self.drift + 6 * self.lanes + 40)
        return 1.01 * UNIT * self.sets

    def coefficients(
        self, kind: int, a0: float, l2: float, radius: float, gradient: float, smoothness: float, horizon: int
    ) -> tuple[float, float, float]:
        """(e0, e1, e2) of E_t = e0 + e1 t + e2 sum A_i; ``smoothness`` of the loss counts in the constrained step."""
        n, scale = float(horizon), 2 * UNIT * 1.01
        if kind == 2:  # steps 2 / (l2 t)
            ratio, inverse = 1.0, 2 / l2 * (1 + math.log(n + 1))
        else:
            ratio = (a0 + (1 if kind == 0 else 2) * l2) / a0  # largest A_t / A_{t-1}, at t = 1
            inverse = 1 / a0 + (math.log((a0 + l2 * n) / a0) if kind == 0 else math.sqrt(n)) / l2  # >= sum 1 / A_{t-1}
        if not self.ball:
            fixed, step = 2 * self.lanes + 20 + self.sets, self.lanes + 36 + self.sets
            return 0.0, scale * step * ratio * gradient, scale * fixed * radius
        fixed, step = 1.5 * self.refresh + 6 * self.lanes + 40, self.drift + self.lanes + 32
        early = a0 + 2 * l2 * (2 * self.refresh)  # >= A_t for the rows whose window reaches the first steps
        e0 = self.drift * radius * 2 * self.refresh * early
        e0 += smoothness * self.drift * (2 * self.refresh * radius + gradient * inverse)
        e1 = step * ratio * gradient + smoothness * fixed * radius
        return scale * e0, scale * e1, scale * fixed * radius


def _user_factor(schedule: Schedule, releases: ReleaseSchedule, rows: int, apart: int) -> float:
    """Cost of all rows of a user: before a release there are at most as many of them as fit, docs/proofs.

    It is the root of their mean squared number, weighted by what one row costs at that release.
    """
    if rows == 1 or releases.count == 0:
        return float(rows)
    unit = schedule.with_gain(1.0)
    found = _weighted_sum(unit, releases, rows=rows, apart=apart) / _weighted_sum(unit, releases)
    return max(1.0, min(float(rows), math.sqrt(found) * UP))


def _weighted_sum(unit: Schedule, releases: ReleaseSchedule, *, rows: int = 1, apart: int = 1) -> float:
    """Upper bound of the sum over the releases of (s_t / w_t)^2, with w_t the noise scale at gain 1.

    With ``rows`` each term is multiplied by the squared number of a user's rows up to then, ``apart`` rows apart.

    Terms are computed one by one, except in a schedule of every k rows beyond the first ``_TERMS``: there the terms of
    a 2^18th part of an octave are grouped, and each counts as the first of its group. All the octaves that can exist
    cost no more than the first terms, and the noise exceeds that of the exact sum by at most 2e-5.

    A group's terms are at most its first, at release a, times (b / a)^6, where b is its last release. The sensitivity
    is min(c, (D + E_t) / A_t). A_t does not decrease; E_t = e0 + e1 t + e2 sum A_i grows at most as t^2, because A_t
    grows at most as t. So s_b <= s_a (b / a)^2. A term is s^(2/3), s or (s t)^2, depending on the noise shape; the last
    grows fastest.
    """
    parts = []
    for after in releases.chunks(_TERMS if releases.every else None):
        if releases.every:
            sensitivity, weight = unit.arrays(int(after[0]), releases.every, len(after))
        else:
            sensitivity, weight = unit.at(np.ascontiguousarray(after))
        parts.append(float(np.sum((_most(after, rows, apart) * sensitivity / weight) ** 2)))
    first = _TERMS  # releases that are summed one by one
    while releases.every and first < releases.count:
        length = first // _PARTS
        n = min(_PARTS, -(-(releases.count - first) // length))
        sensitivity, weight = unit.arrays((first + 1) * releases.every, length * releases.every, n)
        ends = (first + length * np.arange(1, n + 1, dtype=np.int64)) * releases.every  # last releases of the groups
        many = _most(ends, rows, apart)
        parts.append(float(np.sum((many * sensitivity / weight) ** 2)) * length * _WITHIN_PART)
        first += n * length
    return math.fsum(parts) * UP


def _most(after: NDArray[np.int64], rows: int, apart: int) -> NDArray[np.int64]:
    """Largest number of a user's rows up to each of these rows."""
    return np.minimum((after - 1) // apart + 1, rows)


def _published_gain(rate: float, horizon: int, epsilon: float, delta: float) -> float:
    """Beta of Algorithm 1 for sensitivity ``rate / t``: as printed, with its own epsilon and delta."""
    if delta >= 2 * math.exp(-2):
        raise InvalidParameter(f"calibration='published' needs delta below 2 exp(-2) = 0.2707, found {delta:g}")
    power = math.sqrt(0.5 * horizon * math.log(2 / delta))  # T^(1/2 + c)
    step = math.sqrt(epsilon) / power
    return rate * math.sqrt(2 * (math.log(horizon / delta) + step)) / step


def _published_mu(schedule: Schedule, releases: ReleaseSchedule, kind: int, ratio: float, gain: float) -> float:
    """Mu that is proved for the published noise; rounded up."""
    if kind == 0:
        return math.sqrt(_weighted_sum(schedule, releases)) * UP
    # Published gradient steps: a change at row tau decays as 2 D (tau - 1) / (alpha t (t - 1)), so the worst tau
    # counts. It is a release row, because the cost grows with tau between two releases. Rows before the first step do
    # not count.
    if releases.count > _MOST_PUBLISHED:
        raise InvalidParameter(
            f"release must plan at most {_MOST_PUBLISHED} models for PGIGA with calibration='published', whose cost is "
            f"added up one by one: found {releases.count}"
        )
    rows = np.concatenate([r.astype(np.float64) for r in releases.chunks()] or [np.empty(0)])
    rows = rows[rows >= schedule.first]
    if rows.size == 0:
        return 0.0
    inverse = 1.0 / (rows - 1.0) ** 2
    later = np.concatenate([np.cumsum(inverse[::-1])[::-1][1:], [0.0]])
    path = 2.0 * ratio / gain * math.sqrt(float(np.max(1.0 + (rows - 1.0) ** 2 * later)))
    extra = np.array([schedule.rounding(int(t)) * t for t in rows]) / gain
    return (path + math.sqrt(float(np.sum(extra * extra)))) * (1.0 + 1e-9)
