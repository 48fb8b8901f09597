"""Worst neighbouring rows of the learners that see reports alone, and runs on them.

Report t depends on row t alone, and the point at which the row's gradient is taken is public. So a run is as many
experiments as it has rows: the pair of experiment t consists of two streams that differ in row t alone, and everything
that depends on row t follows from report t. The noises of the reports are independent. The reports are recovered from
the values that the compiled run computes from them, which are all that it keeps: points, sums, directions.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._validate import integer
from ..calibration import BanditCalibration, LocalCalibration, ReportNoise, calibrate_report
from ..errors import InvalidParameter
from ..geometry import WholeSpace
from ..guarantees import gdp_epsilon
from ..learners import BANCO, LDPSGD, LEARNERS, TABLE, AgnosticBANCO, BanditMIOGD, OnlineLearner
from ..noise import make_source
from ..randomizers import compiled
from ._bounds import FloatArray
from ._cases import Case, built, title_of

__all__ = ["DIMS", "FAR_TARGETS", "REPORTERS", "ReportCase", "log_ratio", "reporting", "scaled"]

_ROWS, _UNCAPPED_ROWS = 1024, 64  # of a run; for coin betting whose magnitude may grow without limit
FAR_TARGETS = 1e9  # targets that no prediction approaches
# Where the likelihood ratio is often near its maximum: for (L2-)Laplace noise this is in the plane.
DIMS = {"gaussian": 8, "privunit": 8, "duchi": 8, "laplace": 2, "l2laplace": 2}

#: Learners of reports that can be audited, by name.
REPORTERS: dict[str, type[Any]] = {entry.name: LEARNERS[entry.name] for entry in TABLE if entry.group == "devices"}
# The slope of the absolute loss is 1 at every point, with the sign of the target.
_ABSOLUTE = {"loss": "absolute", "y_bound": FAR_TARGETS, "fit_intercept": False}
_WORST: dict[type[Any], dict[str, Any]] = {
    LDPSGD: {**_ABSOLUTE, "domain": WholeSpace(), "step_size": 1.0},  # without projection, the points show the reports
    BANCO: {**_ABSOLUTE, "magnitude_cap": 1.0},
    AgnosticBANCO: {**_ABSOLUTE, "magnitude_cap": 1.0},
    # predictions are within 1/4: values of the target 1 are above the interval, those of 0 below
    BanditMIOGD: {"loss": "absolute", "fit_intercept": False, "radius": 0.25, "value_bounds": (0.3, 0.6)},
}
# Values are given: the two ends of an interval around 0 are as far apart as the bound of the estimates allows.
_WHOLE = {"loss": "absolute", "fit_intercept": False, "value_bounds": (-1.0, 1.0), "step": "horizon"}
# With other parameters than those above the rows are not known to be the worst.
_OF_ROWS = {
    "loss", "x_bound", "y_bound", "radius", "domain", "gradient_bound", "value_bounds", "fit_intercept", "shrink",
    "step_size", "wealth", "magnitude_cap", "smallest_radius", "largest_radius",
}  # fmt: skip


def reporting(name: str, parameters: dict[str, Any]) -> tuple[OnlineLearner, bool]:
    """A learner of reports with the given parameters, and whether its worst rows are known for them."""
    kind = REPORTERS[name]
    words = dict(_WORST.get(kind, _ABSOLUTE))
    if parameters.get("values") == 2:
        del words["value_bounds"]  # for one value
    whole = kind is BanditMIOGD and parameters.get("calibration") == "published"
    if whole:
        words = dict(_WHOLE)
    return built(kind, {**words, **parameters}, parameters), not (whole or parameters.keys() & _OF_ROWS)


class ReportCase(Case):
    """The compiled run of a learner that sees reports alone.

    Parameters
    ----------
    learner : OnlineLearner
        Its parameters are what is audited; nothing is spent or changed in it.
    by_rows : bool
        Learn rows whose gradients (values) are the longest, longer ones being scaled; else be given such gradients.
    noise : float
        Factor of the noise, for audits that are to find something. Of randomizers whose noise has no scale: that of
        ``epsilon / noise``.
    random_state : optional
        Of the noise.
    """

    def __init__(self, learner: OnlineLearner, *, by_rows: bool, noise: float, random_state: Any) -> None:
        words = {**learner.get_params(deep=False), "ledger": None, "on_invalid": "zero", "random_state": random_state}
        self._kind: type[Any] = type(learner)
        self._words, self._by_rows = words, by_rows
        self.title, self.adjacency = title_of(self._kind.__name__, words), words["adjacency"]
        intercept = bool(words["fit_intercept"])
        made: Any = self._kind(**words)
        self._learner = made
        noted = self._learner.calibrate(1, 1, "last")
        self._bandit = isinstance(noted, BanditCalibration)
        features = 1 if self._bandit else max(1, DIMS[noted.report.name] - intercept)
        horizon = _ROWS if words["horizon"] is None else integer(horizon=words["horizon"], at_least=1)
        if math.isinf(noted.mu):
            raise InvalidParameter("epsilon must be finite: without noise there is no claim to audit")
        self.width = min(horizon, _ROWS)
        coin = None if self._bandit else noted.coin
        if coin is not None and math.isinf(coin.cap):
            self.width = min(self.width, _UNCAPPED_ROWS)

        plan = self._learner.calibrate(features, horizon, [horizon])
        self._plan: LocalCalibration | BanditCalibration = plan
        self._features = features
        report: ReportNoise = plan.report
        self.size = report.dim
        self._claim(report)
        self._audited = scaled(report, noise)
        without = replace(report, kind="plain", scale=0.0, deviation=0.0, cap=None)
        self._noisy, self._silent = (replace(plan, report=one) for one in (self._audited, without))
        self._lessons = [self._lesson(world) for world in (0, 1)]

        self._grid = compiled(self._audited).granularity
        # A projection hides a part of a report, depending on earlier ones: a run is then one experiment.
        self._shown = self._bandit or plan.update != "greedy" or math.isinf(plan.reach)
        self.gaussian = self._shown and report.kind == "gaussian"
        if not self._shown:
            self.width = 1
            return
        twins = [self.twin(world) for world in (0, 1)]
        if any(np.ptp(twin, axis=0).max() > 1e-6 * report.bound for twin in twins):
            self.width, twins = 1, [twin[:1] for twin in twins]
        self._vectors = [twin.mean(axis=0) for twin in twins]
        self.weights = self._vectors[1] - self._vectors[0]
        if self.gaussian:
            self.attainable = float(np.linalg.norm(self.weights)) / self._audited.scale

    def _claim(self, report: ReportNoise) -> None:
        pure = math.isfinite(report.epsilon)
        given = self._words["epsilon"]
        if pure:
            self.claimed(None, report.mu, report.epsilon, 0.0)
            self.mu = None  # only epsilon is claimed
        else:
            delta = float(self._words["delta"])
            self.claimed(None, report.mu, gdp_epsilon(report.mu, delta) if given is None else float(given), delta)

    # ---- the rows ------------------------------------------------------------------------------------------

    def _lesson(self, world: int) -> Any:
        """The content of every row of a stream: (row, target), or the given gradient or values."""
        null = world == 1 and self.adjacency == "zero_out"
        sign = 1.0 - 2.0 * world
        unit = self._unit()
        if not self._by_rows:
            if null:
                return None
            if not self._bandit:
                return 2.0 * self._plan.report.bound * sign * unit
            assert isinstance(self._plan, BanditCalibration)
            ends = np.array([self._plan.high + 1.0, self._plan.low - 1.0])[:: int(sign)]
            return ends.copy() if self._plan.pair else ends[:1].copy()
        row = 2.0 * float(self._words["x_bound"]) * unit
        if null:
            return row, math.nan
        if self._bandit and not getattr(self._plan, "pair", False):
            return row, 1.0 - world  # the value is the target's distance from a prediction near 0
        return row, -sign * float(self._words["y_bound"])

    def _unit(self) -> FloatArray:
        """Direction of the two vectors.

        Laplace noise protects the L1 norm, which is largest along the diagonal. The report of a zero vector, which lies
        around the first axis, is easiest to distinguish from those around another axis.
        """
        dim = self._features if self._by_rows or self._bandit else self.size
        if self._plan.report.kind == "laplace":
            return np.full(dim, 1.0 / math.sqrt(dim))
        return np.asarray(np.eye(dim)[-1])

    # ---- runs ----------------------------------------------------------------------------------------------

    def run(self, world: int) -> FloatArray:
        """See :meth:`Case.run`."""
        return self._series(self._opened(noisy=True), world, noisy=True)

    def twin(self, world: int) -> FloatArray:
        """See :meth:`Case.twin`."""
        return self._series(self._opened(noisy=False), world, noisy=False)

    def _opened(self, *, noisy: bool) -> Any:
        """A new run of the calibration."""
        if noisy:
            return self._learner.build(self._noisy, make_source(self._words["random_state"]))
        return self._learner.build(self._silent, None)

    def _series(self, state: Any, world: int, *, noisy: bool) -> FloatArray:
        lesson, plan = self._lessons[world], self._plan
        # Except the noise key, the memory of such a run is computed from reports, so an observer of them has it.
        read = state.point if not self._bandit and plan.update == "greedy" else state.secret_arrays  # type: ignore[union-attr]
        asked, seen = [], [read()]
        if self._by_rows:
            state.declare_targets(None, math.inf, True)  # the lesson may be the null row
        for _ in range(self.width):
            if self._bandit:
                asked.append(state.point().reshape(-1))
            if self._by_rows:
                state.learn_one(*lesson)
            else:
                state.tell(lesson)
            seen.append(read())
        if isinstance(plan, BanditCalibration):
            found = self._values(plan, np.array(asked), seen)
        elif plan.update == "greedy":
            found = _greedy(plan, np.array(seen))
        else:
            sums = np.array([one["sum"] for one in seen])
            coin = np.array([one["coin"] for one in seen])
            found = sums[:-1] - sums[1:] if plan.update == "lazy" else _coin(plan, sums, coin)
        # Rounding depends on earlier values: a statistic without ties would distinguish streams by it.
        if self._audited.kind == "sign" and noisy:
            found = np.copysign(self._audited.scale, found)
        elif self._shown and noisy:
            found = np.round(found / self._grid) * self._grid
        return found

    def _values(self, plan: BanditCalibration, asked: FloatArray, seen: list[dict[str, NDArray[Any]]]) -> FloatArray:
        """Reports from the sum of estimates: a report is the change of the sum along the round's direction.

        The rest of a whole estimate is noise, because the direction is public.
        """
        sums, points = (np.array([one[name] for one in seen]) for name in ("sum", "point"))
        rounds = range(1, len(asked) + 1)
        far = np.array([plan.distance_at(t) for t in rounds])[:, None]
        keep = 1.0 - far / plan.inner
        first = asked[:, : plan.dim]
        directions = first - (asked[:, plan.dim :] if plan.pair else keep * points[:-1])
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        scale = keep * (1.0 if plan.whole else plan.dim if plan.pair else plan.dim / far)
        found = ((sums[:-1] - sums[1:]) * directions).sum(axis=1, keepdims=True) / scale
        # half a difference changes its sign with the direction, if the loss is a row's
        return np.asarray(found * np.sign(directions[:, :1]) if plan.pair and self._by_rows else found)

    # ---- what is known -------------------------------------------------------------------------------------

    def ratio(self, series: FloatArray) -> FloatArray:
        """See :meth:`Case.ratio`."""
        return log_ratio(self._audited, series, *self._vectors)


def log_ratio(report: ReportNoise, series: FloatArray, zero: FloatArray, one: FloatArray) -> FloatArray:
    """Log likelihood ratio of reports of two vectors; for two points and Gaussian noise up to a factor."""
    if report.kind == "cap":
        return np.asarray(np.log(_accepted(report, series, one)) - np.log(_accepted(report, series, zero)))
    if report.kind in ("laplace", "l2_laplace"):
        order = 1 if report.kind == "laplace" else 2
        away = [np.linalg.norm(series - vector, ord=order, axis=1) for vector in (zero, one)]
        return np.asarray((away[0] - away[1]) / report.scale)
    return np.asarray(series @ (one - zero))


def scaled(report: ReportNoise, factor: float) -> ReportNoise:
    """A randomizer with its noise times a factor."""
    if factor == 1.0:
        return report
    if report.cap is None:
        return replace(report, scale=report.scale * factor, deviation=report.deviation * factor)
    return calibrate_report(
        report.name, dim=report.dim, bound=report.bound, adjacency=report.adjacency, epsilon=report.epsilon / factor
    )


def _greedy(plan: LocalCalibration, points: FloatArray) -> FloatArray:
    """Reports from points that were not projected."""
    found, squares = [], 0.0
    for t in range(1, len(points)):
        adaptive = plan.pace == "adaptive"
        length = plan.length / math.sqrt(plan.base + squares) if adaptive else plan.step_length(t)
        keep = (t - 1.0) / t if plan.pace == "inverse" else 1.0
        found.append((keep * points[t - 1] - points[t]) / length)
        squares += float(found[-1] @ found[-1])
    return np.array(found)


def _coin(plan: LocalCalibration, directions: FloatArray, coin: FloatArray) -> FloatArray:
    """Reports from the directions, although these are projected: their gains give the lengths before projection."""
    squares, gains = coin[1:, :1], np.diff(coin[:, 1:2], axis=0)
    if not squares[-1] > 0.0:
        return np.zeros_like(directions[1:])  # null rows without noise
    step = plan.length / np.sqrt(squares)
    before = directions[:-1]
    square = (before**2).sum(axis=1, keepdims=True) + 2.0 * step * gains + step**2 * np.diff(coin[:, :1], axis=0)
    norms = np.linalg.norm(directions[1:], axis=1, keepdims=True)
    after = directions[1:] * (np.sqrt(np.maximum(square, 0.0)) / np.where(norms > 0.0, norms, 1.0))
    return np.asarray((before - after) / step)


def _accepted(report: ReportNoise, series: FloatArray, vector: FloatArray) -> FloatArray:
    """Probability of accepting a trial at each report, for one vector; the density is proportional to it."""
    assert report.cap is not None
    norm = float(np.linalg.norm(vector))
    threshold = report.cap.threshold / 2.0**64
    own = 0.5 * threshold * (1.0 - min(norm / report.bound, 1.0))
    unit = vector / norm if norm > 0.0 else np.eye(report.dim)[0]
    cosine = series @ unit / np.linalg.norm(series, axis=1)
    outside = (2**64 - report.cap.threshold) / 2.0**64
    other = outside + own
    return np.where(cosine >= report.cap.gamma, 1.0 - own, np.where(cosine <= -report.cap.gamma, other, outside))
