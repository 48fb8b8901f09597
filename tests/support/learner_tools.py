"""Rows, and the visible state of a learner, for the tests that compare learners with their twins."""

from __future__ import annotations

import math

import numpy as np
from twins import REGRESSION

from privol.losses import get_loss

D, N = 3, 40


def data(loss, n=N, d=D, seed=0, size=1.6):
    """Rows of which about half are longer than 1, and targets of which some are beyond 1."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * size / math.sqrt(d)
    signal = X @ np.linspace(1, -1, d) + 0.4 * rng.normal(size=n)
    return X, (signal if get_loss(loss).name in REGRESSION else np.where(signal > 0, 1.0, -1.0))


def close(ours, theirs):
    scale = max(float(np.linalg.norm(theirs)), 1e-3)
    return float(np.linalg.norm(np.asarray(ours) - theirs)) <= 1e-12 * scale


def model_of(learner):
    coef = np.ravel(learner.coef_)
    return np.append(coef, learner.intercept_) if learner.fit_intercept else coef


def average_of(learner):
    coef = np.ravel(learner.average_coef_)
    return np.append(coef, learner.average_intercept_) if learner.fit_intercept else coef
