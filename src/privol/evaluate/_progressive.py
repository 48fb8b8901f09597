"""Predict, then learn: evaluates a run with the models that it releases while it learns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from .._validate import integer, number
from ..errors import InvalidParameter
from ..learners import OnlineLearner
from ..learners.views import Keeper, horizon_of, ledger_of, most_rows, refuses_rows
from ._alarm import DriftAlarm
from ._private import MetricsResult, MetricsWindow, PrivateMetrics, Windows
from ._scores import Curve, Score, Task
from ._watch import Ahead, Sink, Tally, Watch

__all__ = ["Progressive", "progressive"]


@dataclass(frozen=True)
class Progressive:
    """A run evaluated while it learnt. Not private, except :attr:`private`.

    Attributes
    ----------
    score : Score
        Of the model released when a row arrived, on that row.
    curve : Curve
    seconds : float
        Wall time of reading, evaluating and learning.
    delay : int
        Rows between the arrival of a row and that of its label.
    private : MetricsResult or None
        The privately released metrics, which may be published under their own guarantee.
    """

    score: Score
    curve: Curve
    seconds: float
    delay: int = 0
    private: MetricsResult | None = None


def progressive(
    learner: OnlineLearner,
    stream: Any,
    *,
    delay: int = 0,
    metrics: Iterable[str] | None = None,
    private: PrivateMetrics | None = None,
    progress: Callable[[Any, Any], object] | None = None,
    on_window: Callable[[MetricsWindow], object] | None = None,
    alarm: DriftAlarm | None = None,
    points: int = 200,
    checkpoint: Keeper | None = None,
) -> Progressive:
    """Let a learner learn a whole stream, and evaluate its released models on each row before it is learnt.

    Parameters
    ----------
    learner : OnlineLearner
        Starts a new run, as ``fit_stream`` does, with its budget and its ledger.
    stream : Stream or Tape
    delay : int, default=0
        The label of row t arrives with row t + delay, just before that row is predicted; so row t is predicted with the
        model released after the rows up to t - delay. 0 and 1 are the same: each row is learnt before the next arrives.
        The rows are learnt in the same order for every delay, so the released models are the same. Waiting rows are
        kept in memory.
    metrics : iterable of str, optional
        Of ``"accuracy"``, ``"log_loss"`` (logistic loss and softmax only), ``"auc"`` (of a single score only), or of
        ``"mean_absolute_error"``, ``"root_mean_squared_error"``: those to compute besides the mean loss. Default: all
        that apply.
    private : PrivateMetrics, optional
        Releases noisy metrics as well. Their budget is reserved in the learner's ledger before the run's, and comes on
        top of the learner's own ``epsilon``: see :func:`privol.guarantees.split_budget`.
    progress : callable, optional
        As in ``fit_stream``.
    on_window : callable, optional
        Called with every window of the private metrics when it is released.
    alarm : DriftAlarm, optional
        Watches these windows, each after ``on_window`` was called with it. A new one for each run.
    points : int, default=200
        Largest number of points of the curve: every ``horizon / points`` rows, whatever the blocks.
    checkpoint : privol.state.State, optional
        As in ``fit_stream``. A run that is resumed learns all of its rows once more, with the same noise, so that
        all are evaluated; ``on_window`` is then called when the run ends, or is kept.

    Returns
    -------
    Progressive
        Not private, except its ``private`` part. The learner itself is as after ``fit_stream``.
    """
    points = integer(points=points, at_least=2)
    delay = integer(delay=delay, at_least=0)
    task = Task.of(learner, getattr(stream, "classes", None))
    wanted = task.metrics(metrics)
    horizon = horizon_of(learner, stream)
    renewed = most_rows(learner, horizon) > horizon
    tally = Tally(task, wanted, -(-max(horizon, (stream.n_rows or 0) if renewed else 0) // points))
    sinks: list[Sink] = [tally]
    ahead = Ahead(stream, delay - 1, not refuses_rows(learner)) if delay > 1 else None
    if private is not None:
        if not isinstance(private, PrivateMetrics):
            raise InvalidParameter(f"private must be a PrivateMetrics or None, found {private!r}")
        if renewed:
            raise InvalidParameter("private metrics need a run that ends at its horizon: renewal='none'")

    if alarm is not None and not isinstance(alarm, DriftAlarm):
        raise InvalidParameter(f"alarm must be a DriftAlarm or None, found {alarm!r}")
    if alarm is not None and private is None:
        raise InvalidParameter("alarm watches private metrics: private must be given")

    def see(window: MetricsWindow) -> None:
        if on_window is not None:
            on_window(window)
        if alarm is not None and watching:
            alarm.take(window)

    def report(at: Any, _: Any) -> None:
        if progress is not None:
            progress(at, stream)

    windows, released, opened, watching = None, None, False, False
    start = time.perf_counter()
    try:
        if private is not None:
            if checkpoint is not None:
                checkpoint.open(learner, replay=True)
                opened = True
            windows = Windows(
                private,
                task=task,
                y_bound=number(y_bound=learner.y_bound, above=0),
                horizon=horizon,
                delta=number(delta=learner.delta, above=0, below=1),
                ledger=ledger_of(learner),
                stream=stream,
                rows_per_user=getattr(learner, "rows_per_user", None),
                user_separation=getattr(learner, "user_separation", 1),
                on_window=see,
                keeper=checkpoint,
                delay=delay,
            )
            sinks.append(windows)
            if alarm is not None:
                alarm.begin(**windows.facts)
                watching = True
        learner.fit_stream(
            stream if ahead is None else ahead,
            progress=report,
            observer=Watch(sinks, ahead),
            checkpoint=checkpoint,
        )
        if windows is not None:
            released = windows.finish(learner.guarantee_, delay)
    except BaseException:
        if windows is not None and checkpoint is not None:
            windows.leave(checkpoint.verified)
        raise
    finally:
        if windows is not None:
            windows.close()
        if checkpoint is not None and opened:
            checkpoint.leave(learner, None)
    seconds = time.perf_counter() - start
    score, curve = tally.result()
    return Progressive(score, curve, seconds, delay, released)
