"""Runs whose encoded rows come as they are known, and not from a stream that is there at once: :mod:`privol.auto`."""

from __future__ import annotations

from typing import Any

from .._live_users import LiveUsers, live_users
from ..errors import StateError
from ._base import OnlineLearner
from ._model import is_classifier
from ._run_protocols import RowStream, Run
from ._targets import declared_labels

__all__ = ["LiveUsers", "begin_rows", "learn_rows", "live_users"]


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
