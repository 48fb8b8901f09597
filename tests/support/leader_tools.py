"""DPFTRL row by row against its twin, and the code that the tests of its noise and of its epochs share with that."""

from __future__ import annotations

import numpy as np
import pytest
from learner_tools import average_of, model_of
from twins_leaders import leader_twin_of

from privol.factorizations import Banded, Independent, SquareRoot
from privol.losses import get_loss


def labels_of(learner):
    return [-1.0, 1.0] if get_loss(learner.loss).kind == "classification" else None


def begin(learner, X, y, null=()):
    """Learn the first row; returns the twin after it."""
    learner.partial_fit(X[:1], y[:1], classes=labels_of(learner))
    run = learner._run
    key = bytes(run.state.secret_arrays()["key"])
    twin = leader_twin_of(learner, run.plan, key, X.shape[1] + learner.fit_intercept)
    twin.learn(None if 0 in null else X[0], y[0])
    return twin


def check(learner, X, y, null=(), same=np.array_equal):
    """Compare row by row with the twin: points, releases, counters; bit for bit where ``same`` is array_equal."""
    twin = begin(learner, X, y, null)
    total = np.zeros(len(twin.x))
    for i in range(len(X)):
        if i:
            learner.learn_one(X[i], y[i])
            twin.learn(None if i in null else X[i], y[i])
        assert same(learner.ask(), twin.x), f"point after row {i + 1}"
        assert learner.n_releases_ == len(twin.released)
        if twin.released:
            assert same(model_of(learner), twin.released[-1])
    for point in twin.released:
        total = total + point
    assert same(average_of(learner), total / len(twin.released))
    assert learner.ledger_.spent.mu == pytest.approx(learner.guarantee_.mu, rel=1e-9)
    return twin


def fingerprint(learner):
    arrays = learner._run.state.secret_arrays()
    return {name: value.tobytes() for name, value in arrays.items()}, learner._run.state.counters()


def single_rows(n=199):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 13)) * (rng.random((n, 13)) < 0.6)
    return X.astype(np.float32).astype(np.float64), np.where(X[:, 0] > 0, 1.0, -1.0)


def encoder(factorization):
    """C as a dense matrix, for designs in which it has an inverse."""
    n = factorization.steps
    if isinstance(factorization, SquareRoot):
        series = factorization.coefficients()
    elif isinstance(factorization, Banded):
        series = np.append(factorization.coefficients(), np.zeros(n - factorization.bandwidth))
    elif isinstance(factorization, Independent):
        series = np.eye(n)[0]
    else:
        theta, omega = np.array(factorization.theta), np.array(factorization.omega)
        series = np.array([1.0, *(float(omega @ theta**k) for k in range(n - 1))])
    return np.array([[series[i - j] if i >= j else 0.0 for j in range(n)] for i in range(n)])


def released(state, plan, rows, targets, encode):
    """What a run perturbed, regenerated from its public points: C times the increments of the private sums."""
    points = [state.point()]
    for row, target in zip(rows, targets, strict=True):
        state.learn(row[None], np.array([target]))
        points.append(state.point())
    sums = -plan.regularization * np.array(points)
    return encode @ np.diff(sums, axis=0)
