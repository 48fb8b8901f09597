"""A run compared with the same learner without noise and with the best fixed model. Not private."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ..geometry import L2Ball, WholeSpace
from ..learners.views import Keeper, export_of, fresh_copy, raw_counts, release_of_stream
from ._alarm import DriftAlarm
from ._hindsight import BestFixed, Objective, best_in_hindsight
from ._private import MetricsResult, MetricsWindow, PrivateMetrics
from ._progressive import Progressive, progressive
from ._scores import NOTICE, Score, Task
from ._tape import PASS_ROWS, Tape

__all__ = [
    "Comparison", "RunFigures", "TargetSums", "compare", "in_target_units", "range_of_targets",
]  # fmt: skip


@dataclass(frozen=True)
class RunFigures:
    """A run's progressive performance, its final model's performance on the stream, and its regret. Not private.

    Attributes
    ----------
    progressive : Progressive
    final : Score
        Of the last released model as a fixed model on all rows of the stream it was learnt from.
    regret : float
        Sum of the progressive losses minus that of the best fixed model.
    releases : int
    """

    progressive: Progressive
    final: Score
    regret: float
    releases: int

    def to_record(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        rows = max(self.progressive.score.rows, 1)
        return {
            "progressive": self.progressive.score.to_record(),
            "final_model": self.final.to_record(),
            "regret": self.regret,
            "regret_per_row": self.regret / rows,
            "releases": self.releases,
            "curve": self.progressive.curve.to_record(),
        }


@dataclass(frozen=True)
class Comparison:
    """A run, the same learner without noise, and the best fixed model. Not private, except :attr:`private`.

    Attributes
    ----------
    run : RunFigures
        The run itself.
    noiseless : RunFigures
        The same learner with ``epsilon=inf`` and the same releases: the difference is the price of the noise.
    every_row : RunFigures or None
        Without noise, a release after every row: the further difference is the price of releasing seldom. ``None``
        if the run itself released every row.
    best : BestFixed
    rows_scaled : int
        Rows longer than ``x_bound``, scaled to it.
    rows_null : int
        Rows learnt as the null row.
    targets_clipped : int or None
        Real targets beyond ``y_bound``, clipped to it; None for classification.
    classification : bool
    majority : float or None
        Share of the majority class.
    deviation : float or None
        Deviation of real targets, as learnt, from their mean: the error of the best constant. None for classification.
    target_range : pair of float or None
        The range from which targets were mapped to -1 ... 1; figures are also given in these units.
    omitted : tuple of str
        Metrics that need two classes with a single score, and so are missing.
    private : MetricsResult or None
        The run's privately released metrics, which are not part of :meth:`to_record`.
    """

    run: RunFigures
    noiseless: RunFigures
    every_row: RunFigures | None
    best: BestFixed
    rows_scaled: int
    rows_null: int
    targets_clipped: int | None
    classification: bool
    majority: float | None
    deviation: float | None = None
    target_range: tuple[float, float] | None = None
    omitted: tuple[str, ...] = ()
    private: MetricsResult | None = None

    def to_record(self) -> dict[str, Any]:
        """Return all figures as JSON values, marked as not private."""
        runs = {"run": self.run, "noiseless": self.noiseless, "noiseless_every_row": self.every_row}
        records = {name: None if r is None else r.to_record() for name, r in runs.items()}
        best = self.best.to_record()
        scores = [record[when] for record in records.values() if record for when in ("progressive", "final_model")]
        for score in (*scores, best):
            if self.deviation:
                score["r_squared"] = 1.0 - (score["root_mean_squared_error"] / self.deviation) ** 2
            if self.target_range is not None:
                score["in_target_units"] = in_target_units(score, self.target_range)
        return {
            "private": False,
            "notice": NOTICE,
            "classification": self.classification,
            "delay": self.run.progressive.delay,
            **records,
            "best_fixed": best,
            "majority_accuracy": self.majority,
            "deviation_of_targets": self.deviation,
            "target_range": None if self.target_range is None else list(self.target_range),
            "omitted_metrics": list(self.omitted),
            "price_of_noise": self.run.regret - self.noiseless.regret,
            "rows_scaled_to_x_bound": self.rows_scaled,
            "null_rows": self.rows_null,
            "targets_clipped_to_y_bound": self.targets_clipped,
        }


#: The largest norm of the fixed models that a learner without a feasible set is compared with.
FARTHEST = 100.0
#: How far the mean loss of the best fixed model may be from the optimum; the model states its own bound.
_TOLERANCE = 1e-4


def compare(
    learner: Any,
    stream: Any,
    *,
    delay: int = 0,
    private: PrivateMetrics | None = None,
    progress: Callable[[Any, Any], object] | None = None,
    on_window: Callable[[MetricsWindow], object] | None = None,
    alarm: DriftAlarm | None = None,
    points: int = 200,
    stage: Callable[[str], object] | None = None,
    checkpoint: Keeper | None = None,
) -> Comparison:
    """Let a learner learn a stream as one new run, then compare it with learners without privacy.

    The best fixed model is that of the learner's feasible set; for learners without one, of norm at most 100. Its mean
    loss is within 1e-4 of the least one; ``best.gap`` bounds the difference.

    Parameters
    ----------
    learner : OnlineLearner
        Afterwards fitted, as by ``fit_stream``: budget, ledger and noise are those of that run alone.
    stream : Stream
        Read once; its raw rows are kept on a :class:`Tape` until the comparison is done.
    delay, private, on_window, alarm
        As in :func:`progressive`; the private metrics are of the run itself. The comparators have the same delay.
    progress : callable, optional
        As in ``fit_stream``, for the run itself.
    points : int, default=200
        Largest number of points of the curves.
    stage : callable, optional
        Called with a word before each comparator.
    checkpoint : privol.state.State, optional
        As in :func:`progressive`, for the run itself.

    Returns
    -------
    Comparison
        Not private, except its ``private`` part.
    """
    say = stage if stage is not None else (lambda _: None)
    with Tape(stream) as tape:
        own = progressive(
            learner,
            tape,
            delay=delay,
            private=private,
            progress=progress,
            on_window=on_window,
            alarm=alarm,
            points=points,
            checkpoint=checkpoint,
        )
        say("best fixed model")
        plan = learner.plan_
        domain = plan.problem.domain
        if isinstance(domain, WholeSpace):
            domain = L2Ball(FARTHEST)
        settings = {
            "loss": learner.loss,
            "domain": domain,
            "x_bound": learner.x_bound,
            "y_bound": learner.y_bound,
            "fit_intercept": learner.fit_intercept,
            "class_weight": getattr(learner, "class_weight", None),
        }
        best = best_in_hindsight(tape, **settings, tolerance=_TOLERANCE)
        task = Task.of(learner, tape.classes)
        f = Objective(tape, task, domain, learner.x_bound, learner.y_bound, bool(learner.fit_intercept))

        def without_noise(release: Any) -> tuple[Any, Progressive]:
            words = {"ledger": None, "random_state": None, "release": release, "horizon": plan.problem.horizon}
            for name in {"leakage", "sigma", "mu"} & learner.get_params(deep=False).keys():  # in place of epsilon
                words[name] = None
            free = fresh_copy(learner).set_params(epsilon=math.inf, **words)
            return free, progressive(free, tape, delay=delay, points=points)

        say("without noise")
        every = plan.releases.every
        release = release_of_stream(learner)
        runs = [(learner, own), without_noise(release)]
        if every != 1:
            runs.append(without_noise("all"))
        targets = TargetSums(task)
        with threadpool_limits(limits=1, user_api="blas"):  # as in best_in_hindsight
            finals = f.scores([export_of(at).model for at, _ in runs], targets.add)

        def figures(at: Any, found: Progressive, final: Score) -> RunFigures:
            regret = (found.score.loss - best.score.loss) * found.score.rows
            return RunFigures(found, final, regret, at.n_releases_)

        shown = [figures(at, found, final) for (at, found), final in zip(runs, finals, strict=True)]
        counts = raw_counts(learner)
        return Comparison(
            run=shown[0],
            noiseless=shown[1],
            every_row=shown[2] if every != 1 else None,
            best=best,
            rows_scaled=counts["clipped_rows"],
            rows_null=counts["null_rows"],
            targets_clipped=None if task.classification else _clipped(tape, learner.y_bound),
            classification=task.classification,
            majority=targets.majority,
            deviation=targets.deviation,
            target_range=None if task.classification else range_of_targets(stream),
            omitted=task.omitted,
            private=own.private,
        )


def range_of_targets(stream: Any) -> tuple[float, float] | None:
    """The range that a stream's targets were mapped to [-1, 1] from; None if they are as read."""
    target = getattr(getattr(stream, "schema", None), "target", None)
    return None if target is None else target.range


def in_target_units(score: Mapping[str, float], span: tuple[float, float]) -> dict[str, float]:
    """Return errors of targets that were mapped to -1 ... 1 from a range as they are in the targets' own units.

    Parameters
    ----------
    score : mapping
        With ``mean_absolute_error`` and ``root_mean_squared_error``, or one of them.
    span : pair of float
        The range.
    """
    half = span[1] / 2 - span[0] / 2
    names = ("mean_absolute_error", "root_mean_squared_error")
    return {name: half * score[name] for name in names if name in score}


class TargetSums:
    """The loss of the best constant on targets that arrive block by block; the task uses one of the two.

    Parameters
    ----------
    task : Task
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self._counts = np.zeros(max(task.outputs, 2), dtype=np.int64)
        self._rows, self._mean, self._squares = 0, 0.0, 0.0

    def add(self, y: NDArray[np.float64]) -> None:
        """Add targets in the form that an :class:`Objective` has."""
        if self._task.classification:
            classes = (y if self._task.outputs > 1 else y > 0).astype(np.int64)
            self._counts += np.bincount(classes, minlength=len(self._counts))
        elif len(y):  # from means of blocks, without cancellation
            n, own, more = self._rows, float(np.mean(y)), len(y)
            apart = own - self._mean
            self._squares += float(np.sum((y - own) ** 2)) + apart**2 * n * more / (n + more)
            self._mean += apart * more / (n + more)
            self._rows += more

    @property
    def majority(self) -> float | None:
        """Share of the majority class."""
        return float(self._counts.max() / self._counts.sum()) if self._task.classification else None

    @property
    def deviation(self) -> float | None:
        """Root mean square of real targets about their mean."""
        return None if self._task.classification else math.sqrt(self._squares / max(self._rows, 1))


def _clipped(tape: Tape, bound: float) -> int:
    return sum(int(np.sum(np.abs(block.y) > bound)) for block in tape.replay(PASS_ROWS) if block.y is not None)
