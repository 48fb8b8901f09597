"""Probabilities of a released model with clipped gradients, from public numbers, so at no cost."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..calibration import LARGEST_SCORE
from ..encoding.schema import Schema
from ..learners import DPFTRL, LedgeredModel
from ..losses import class_probabilities, class_slope_bound, get_loss

__all__ = ["cut_of", "of_scores", "probabilities"]

FloatArray = NDArray[np.float64]

_HALF = 0.5 * (1.0 - 1e-9)  # below it even the gradients of undecided rows would be clipped


def cut_of(learner: LedgeredModel, schema: Schema | None, n_features: int, n_classes: int) -> float:
    """Return the norm of a gradient in the scores to which those of usual rows are cut; infinite where none is.

    Parameters
    ----------
    learner : LedgeredModel
    schema : Schema or None
        The schema of its rows, which gives their usual norm. Without one this is unknown, and none counts as clipped.
    n_features : int
        Of the encoded rows.
    n_classes : int
        2 also for regression.

    Notes
    -----
    A gradient is cut by its length, that is a row's times that in its scores. One number is taken for all rows, so that
    rows keep the order of their scores. Probabilities are left as they are where classes have weights, where each of
    several classes is against the rest, and where gradients are cut below half of the longest. Cost: that of a
    calibration.
    """
    loss = get_loss(learner.loss)
    if not isinstance(learner, DPFTRL) or schema is None or not loss.log_odds or learner.class_weight is not None:
        return math.inf
    plan = learner.calibrate(n_features, learner.horizon or 1000, n_classes=n_classes)
    problem = plan.problem
    usual = problem.x_bound if schema.usual_norm is None else min(schema.usual_norm, problem.x_bound)
    found = plan.bound / math.hypot(usual, float(problem.intercept))
    uncut = plan.tuning is None and plan.gradient_bound is None
    if uncut or (problem.outputs > 1 and not loss.joint):
        return math.inf
    longest = class_slope_bound(loss, problem.outputs, LARGEST_SCORE) if loss.joint else 1.0
    return found if _HALF * longest <= found < longest else math.inf


def probabilities(learner: Any, X: Any, cut: float) -> FloatArray:
    """Return the probabilities of the classes of encoded rows, shape (n, n_classes).

    Parameters
    ----------
    learner : LedgeredModel
        With ``predict_proba``.
    X : array-like or sparse matrix of shape (n, n_features)
    cut : float
        Of :func:`cut_of`. Infinite: ``predict_proba`` of the learner.
    """
    if math.isinf(cut):
        shares: FloatArray = learner.predict_proba(X)
        return shares
    return of_scores(learner, np.asarray(learner.decision_function(X), dtype=np.float64), cut)


def of_scores(learner: Any, scores: FloatArray, cut: float) -> FloatArray:
    """Return what :func:`probabilities` returns for rows with these scores, shape (n,) or (n, n_classes)."""
    loss = get_loss(learner.loss)
    if math.isfinite(cut) and loss.joint and scores.ndim == 2 and scores.shape[1] == 2:
        scores = scores[:, 1] - scores[:, 0]
    if loss.joint and scores.ndim == 1:  # the difference of two scores
        scores = np.column_stack([np.zeros(len(scores)), scores])
    return class_probabilities(loss, scores, cut)
