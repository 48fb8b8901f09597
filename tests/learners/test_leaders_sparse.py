"""Sparse rows in steps of several rows: they are added at their entries, with the bits of dense rows."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import sparse

from privol import DPFTRL, AdaptiveFTRL

N, D = 60, 11


def rows(classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows with few entries, among them -0 and explicit zeros, one null row and one row that is clipped."""
    rng = np.random.default_rng(classes)
    X = np.where(rng.random((N, D)) < 0.2, rng.normal(size=(N, D)), 0.0)
    X[3], X[5], X[7, :2] = 0.0, 40.0, -0.0
    X[9, 4] = math.nan  # a null row
    return X, rng.integers(0, classes, N)


def stored(X: np.ndarray) -> sparse.csr_matrix:
    """The rows with some zeros as explicit entries."""
    places = (X != 0.0) | (np.arange(X.size).reshape(X.shape) % 7 == 0)
    pointers = np.concatenate([[0], np.cumsum(places.sum(axis=1))])
    return sparse.csr_matrix((X[places], np.nonzero(places)[1], pointers), shape=X.shape)


def released(learner, X, y, cuts) -> list[np.ndarray]:
    """All released models and the state of the run, cut into blocks."""
    found = []
    for start, stop in itertools.pairwise([0, *cuts, N]):
        learner.partial_fit(X[start:stop], y[start:stop], classes=np.unique(y))
        state = learner._run.state
        found += [
            learner.coef_.copy(),
            learner.intercept_.copy(),
            *(np.array(v) for v in state.secret_arrays().values()),
        ]
    return found


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    "settings",
    [
        {"design": "blt"}, {"design": "blt", "batch": 7, "discount": 0.9}, {"design": "sqrt", "batch": 7},
        {"design": "independent", "window": 14}, {"design": "tree"}, {"batch": 1}, {"fit_intercept": False},
        {"horizon": 20, "renewal": "double"}, {"class_weight": "weights"}, {"l2": 0.3, "release": 13},
    ],
    ids=lambda settings: " ".join(f"{name}={value}" for name, value in settings.items()),
)  # fmt: skip
def test_bits_of_dense_rows(settings, classes) -> None:
    X, y = rows(classes)
    if "class_weight" in settings:
        settings = {**settings, "class_weight": {k: 1.0 + k for k in range(classes)}}
    given = {"epsilon": 5.0, "horizon": N, "batch": 7, "on_invalid": "zero", "random_state": 3} | settings
    dense = released(DPFTRL(**given), X, y, [1, 2, 16, 30])
    assert all(map(np.array_equal, dense, released(DPFTRL(**given), stored(X), y, [1, 2, 16, 30])))
    assert any(np.any(model) for model in dense)


def test_bits_of_dense_rows_where_the_leader_tunes_itself() -> None:
    X, y = rows(2)
    given = {"epsilon": 0.3, "horizon": 7000, "on_invalid": "zero", "random_state": 3}
    assert AdaptiveFTRL(**given).calibrate(D, 7000).batch == 7
    dense = released(AdaptiveFTRL(**given), X, y, [5, 31])
    assert all(map(np.array_equal, dense, released(AdaptiveFTRL(**given), stored(X), y, [5, 31])))
