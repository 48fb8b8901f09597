"""A run beside the same learner without noise and beside the best fixed model. Not private."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from .._core._iterate import Progress
from .._validate import integer
from ..geometry import L2Ball
from ..learners import OnlineLearner
from ..losses import get_loss
from ._hindsight import BestFixed, Objective, best_in_hindsight
from ._scores import NOTICE, Curve, Score
from ._tape import PASS_ROWS, Tape

__all__ = ["Comparison", "Progressive", "RunFigures", "compare", "progressive"]


@dataclass(frozen=True)
class Progressive:
    """A run evaluated while it learnt. Not private.

    Attributes
    ----------
    score : Score
        Of the released model on each row before that row was learnt.
    curve : Curve
    seconds : float
        Wall time of reading, evaluating and learning.
    """

    score: Score
    curve: Curve
    seconds: float


def progressive(
    learner: OnlineLearner,
    stream: Any,
    *,
    progress: Callable[[Any, Any], object] | None = None,
    points: int = 200,
) -> Progressive:
    """Let a learner learn a whole stream, and evaluate its released models on each row before it is learnt.

    Parameters
    ----------
    learner : OnlineLearner
        Starts a new run, as ``fit_stream`` does, with its budget and its ledger.
    stream : Stream or Tape
        The curve has a point at the end of each block.
    progress : callable, optional
        As in ``fit_stream``.
    points : int, default=200
        Largest number of points of the curve.

    Returns
    -------
    Progressive
        Not private. The learner itself is what ``fit_stream`` would have made of it.
    """
    points = integer(points=points, at_least=2)
    sums = Progress()
    trace: list[tuple[int, float, float, float]] = []

    def observe(at: Any, source: Any) -> None:
        if sums.rows > (trace[-1][0] if trace else 0):
            trace.append((sums.rows, sums.loss, float(sums.correct), sums.absolute_error))
        if progress is not None:
            progress(at, source)

    start = time.perf_counter()
    learner.fit_stream(stream, progress=observe, diagnostics=sums)
    seconds = time.perf_counter() - start
    keep = np.unique(np.linspace(0, len(trace) - 1, min(points, len(trace))).round().astype(int))
    columns = np.array([trace[i] for i in keep], dtype=np.float64).reshape(-1, 4)
    classification = get_loss(learner.loss).kind == "classification"
    score = Score.of(classification, (sums.rows, sums.loss, sums.correct, sums.absolute_error, sums.squared_error))
    curve = Curve(columns[:, 0].astype(np.int64), columns[:, 1], columns[:, 2], columns[:, 3])
    return Progressive(score, curve, seconds)


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

    def to_record(self, classification: bool) -> dict[str, Any]:
        """Return the figures as JSON values."""
        rows = max(self.progressive.score.rows, 1)
        return {
            "progressive": self.progressive.score.to_record(),
            "final_model": self.final.to_record(),
            "regret": self.regret,
            "regret_per_row": self.regret / rows,
            "releases": self.releases,
            "curve": self.progressive.curve.to_record(classification),
        }


@dataclass(frozen=True)
class Comparison:
    """A run beside the same learner without noise and the best fixed model. Not private.

    Attributes
    ----------
    run : RunFigures
        The run itself.
    noiseless : RunFigures
        The same learner with ``epsilon=inf`` and the same releases: the difference is the price of the noise.
    every_row : RunFigures or None
        Without noise, a release after every row: the further difference is the price of releasing seldom. ``None``
        where the run itself released every row.
    best : BestFixed
    rows_scaled : int
        Rows longer than ``x_bound``, scaled to it.
    rows_null : int
        Rows learnt as the null row.
    classification : bool
    """

    run: RunFigures
    noiseless: RunFigures
    every_row: RunFigures | None
    best: BestFixed
    rows_scaled: int
    rows_null: int
    classification: bool
    majority: float | None

    def to_record(self) -> dict[str, Any]:
        """Return all figures as JSON values, marked as not private."""
        runs = {"run": self.run, "noiseless": self.noiseless, "noiseless_every_row": self.every_row}
        return {
            "private": False,
            "notice": NOTICE,
            "classification": self.classification,
            **{name: None if r is None else r.to_record(self.classification) for name, r in runs.items()},
            "best_fixed": self.best.to_record(),
            "majority_accuracy": self.majority,
            "price_of_noise": self.run.regret - self.noiseless.regret,
            "rows_scaled_to_x_bound": self.rows_scaled,
            "null_rows": self.rows_null,
        }


def compare(
    learner: Any,
    stream: Any,
    *,
    progress: Callable[[Any, Any], object] | None = None,
    points: int = 200,
    stage: Callable[[str], object] | None = None,
) -> Comparison:
    """Let a learner learn a stream as one new run, then put it beside what no privacy would have given.

    Parameters
    ----------
    learner : OnlineLearner
        Afterwards fitted, as by ``fit_stream``: budget, ledger and noise are those of that run alone.
    stream : Stream
        Read once; its raw rows are kept on a :class:`Tape` until the comparison is done.
    progress : callable, optional
        As in ``fit_stream``, for the run itself.
    points : int, default=200
        Points of the curves.
    stage : callable, optional
        Called with a word before each comparator.

    Returns
    -------
    Comparison
        Not private.
    """
    horizon = learner.horizon if learner.horizon is not None else stream.n_rows
    cut = PASS_ROWS if horizon is None else min(max(horizon // points, 1), PASS_ROWS)
    say = stage if stage is not None else (lambda _: None)
    with Tape(stream, cut=cut) as tape:
        own = progressive(learner, tape, progress=progress, points=points)
        run = learner._run
        say("best fixed model")
        settings = {
            "loss": learner.loss,
            "domain": learner.domain,
            "radius": learner.radius,
            "x_bound": learner.x_bound,
            "y_bound": learner.y_bound,
            "fit_intercept": learner.fit_intercept,
        }
        best = best_in_hindsight(tape, **settings)
        domain = learner.domain if learner.domain is not None else L2Ball(learner.radius)
        f = Objective(
            tape, get_loss(learner.loss), domain, learner.x_bound, learner.y_bound, bool(learner.fit_intercept)
        )

        def figures(at: Any, found: Progressive) -> RunFigures:
            regret = (found.score.loss - best.score.loss) * found.score.rows
            return RunFigures(found, f.score(at._public("model")), regret, at.n_releases_)

        def without_noise(release: Any) -> RunFigures:
            free = clone(learner).set_params(
                epsilon=math.inf, ledger=None, random_state=None, release=release, horizon=run.guarantee.horizon
            )
            if learner.__dict__.get("_declared") is not None:
                free.declare_classes(learner._declared)
            return figures(free, progressive(free, tape, points=points))

        say("without noise")
        every = run.plan.releases.every
        release = learner._default_release(whole=True)
        noiseless = without_noise(release)
        every_row = None if every == 1 else without_noise("all")
        counts = run.state._diagnostics()
        return Comparison(
            run=figures(learner, own),
            noiseless=noiseless,
            every_row=every_row,
            best=best,
            rows_scaled=counts["clipped_rows"],
            rows_null=counts["null_rows"],
            classification=f.loss.kind == "classification",
            majority=_majority(f) if f.loss.kind == "classification" else None,
        )


def _majority(f: Objective) -> float:
    n, positive = 0, 0
    for _, _, y in f.rows():
        n += len(y)
        positive += int(np.sum(y > 0))
    return max(positive, n - positive) / n
