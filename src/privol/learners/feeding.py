"""Runs whose encoded rows arrive over time, not from a stream that exists at once: for :mod:`privol.auto`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._live_users import LiveUsers, live_users
from ..errors import StateError
from ._base import OnlineLearner
from ._model import is_classifier
from ._run_protocols import RowStream, Run
from ._targets import declared_labels

__all__ = ["LiveUsers", "RowFeed", "begin_rows", "learn_rows", "live_users", "score_one"]


def begin_rows(learner: OnlineLearner, n_features: int, stream: RowStream) -> None:
    """Begin a run as ``fit_stream`` does, before a row is there: parameters first, then the whole budget's reservation.

    Parameters
    ----------
    learner : OnlineLearner
    n_features : int
    stream : RowStream
        What is promised of the rows; it is not iterated.

    Raises
    ------
    InvalidParameter, BudgetExceeded
        As ``fit_stream``.
    """
    horizon, classes = learner._stream_horizon(stream), None
    if is_classifier(learner):
        classes = declared_labels(stream.classes, most=learner._most_classes(), ordered=True)
    learner._start(n_features, horizon, learner._default_release(whole=True), learner._targets(classes), stream)
    learner.n_features_in_ = n_features


def learn_rows(learner: OnlineLearner, X: Any, y: Any) -> None:
    """Learn the next rows of the run that :func:`begin_rows` began.

    Parameters
    ----------
    X : ndarray or CSR array of shape (n, n_features)
    y : ndarray of shape (n,)
        Indices into the classes of the stream, or real targets; what is neither makes a null row where the learner
        takes it.

    Raises
    ------
    InvalidRow, BudgetExceeded, StateError
        Before anything of them is learnt.
    """
    run: Run | None = vars(learner).get("_run")
    if run is None or run.closed:
        raise StateError("the run is closed; fit() or a new learner starts another, which pays again")
    run.account.ask()
    learnt, targets = run.state.n_rows, run.targets
    rows = learner._numbers(X, learnt)
    codes = (targets.encode if targets.classes is None else targets.encode_indices)(y, learnt)
    learner._check_rows(rows, targets, learnt)
    learner._check_horizon(rows.shape[0], learnt, run.guarantee.horizon)
    learner._learn(run, rows, codes)


class RowFeed:
    """Single rows for the run that :func:`begin_rows` began: the same results as :func:`learn_rows`.

    Parameters
    ----------
    learner : OnlineLearner

    Attributes
    ----------
    learn : callable
        Learns a row of shape (n_features,), given its code; raises BudgetExceeded or StateError before anything of it
        is learnt.
    """

    def __init__(self, learner: OnlineLearner) -> None:
        run: Run = vars(learner)["_run"]
        self._targets, self._bound = run.targets, run.targets.y_bound
        self.learn = run.state.learn_one  # a method of Python would double the cost of the call

    def code_of(self, index: float) -> float:
        """Return the run's code of a class, given its index."""
        return float(self._targets.encode_indices(np.array([index]), 0)[0])

    def clipped(self, y: float) -> float:
        """Return the run's code of a real target: its clipped value."""
        return min(max(y, -self._bound), self._bound)


def score_one(learner: Any, x: NDArray[np.float64]) -> Any:
    """Return the score of a row of shape (n_features,) by the last released model, or shape (n_classes,) of several.

    As ``predict_one`` has it: up to rounding what ``decision_function`` says.
    """
    run = getattr(learner, "_run", None)
    found = None
    if type(run) is Run and run.handed is None and not run.unlabelled:
        found = run.state.score_one(x, learner.x_bound)
    return learner._score_one(x) if found is None else found
