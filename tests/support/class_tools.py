"""Labels of more than two classes, and DPFTRL on them row by row against its twin, for several test files."""

from __future__ import annotations

import numpy as np
import pytest
from twins_classes import class_twin_of

LABELS = ["ash", "birch", "cedar", "oak"]


def check_classes(learner, X, labels, y, null=()):
    """Compare row by row with the twin, bit for bit."""
    classes = np.unique(labels)
    learner.declare_classes(classes)
    width = X.shape[1] + learner.fit_intercept
    learner.ask(X.shape[1])
    run = learner._run
    twin = class_twin_of(learner, run.plan, bytes(run.state.secret_arrays()["key"]), width, classes.tolist())
    codes = 2.0 * y - 1.0 if twin.outputs == 1 else y
    shape = (twin.outputs, width) if twin.outputs > 1 else (width,)
    for i in range(len(X)):
        learner.learn_one(X[i], labels[i])
        twin.learn(None if i in null else X[i], codes[i])
        assert learner.ask().shape == shape
        assert np.array_equal(learner.ask().ravel(), twin.x), f"point after row {i + 1}"
        assert learner.n_releases_ == len(twin.released)
        if twin.released:
            assert np.array_equal(learner._run.state.released_model(), twin.released[-1]), f"model after row {i + 1}"
    assert learner.ledger_.spent.mu == pytest.approx(learner.guarantee_.mu, rel=1e-9)
    return twin
