"""A run in progress, and everything that a refused block must not change."""

from __future__ import annotations

import numpy as np

from privol import PIGD

D, N = 3, 40


def data(n=N, seed=0, regression=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D)) / 2
    signal = X @ [1.0, -1.0, 0.5]
    return X, (signal if regression else np.where(signal > 0, "yes", "no"))


def started(regression=False, rows=10, **parameters):
    """A learner in the middle of a run, after some releases."""
    X, y = data(regression=regression)
    given = {"loss": "squared" if regression else "logistic", "epsilon": 2.0, "horizon": 30, "release": 4, **parameters}
    classes = None if regression else ["no", "yes"]
    return PIGD(**given).partial_fit(X[:rows], y[:rows], classes=classes)


def everything(learner):
    """Everything that a refused block must not change, noise included."""
    state = learner._run.state
    arrays = state.secret_arrays()
    return (
        {name: array.tobytes() for name, array in arrays.items()},
        learner.coef_.tobytes(),
        learner.average_coef_.tobytes(),
        np.asarray(learner.intercept_).tobytes(),
        learner.n_rows_,
        learner.n_releases_,
        learner.ledger_.spent.mu,
        len(learner.ledger_.accounts),
        learner.guarantee_,
        state.raw_counts(),
    )
