"""Regret bounds of learners with a trusted curator: the theorems' closed forms, real runs, and refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from privol import DPFTRL, NOGD, AdaptiveFTRL
from privol.errors import InvalidParameter
from privol.evaluate import best_in_hindsight
from privol.streams import open_stream

N, RADIUS = 600, 2.0
WORDS = {"epsilon": 2.0, "delta": 1e-6, "radius": RADIUS, "fit_intercept": False}


@pytest.mark.parametrize("batch", [1, 20])
@pytest.mark.parametrize("design", ["blt", "sqrt", "independent"])
def test_both_terms_of_the_bound_are_equal_at_the_default_weight(design, batch):
    learner = DPFTRL(design=design, batch=batch, **WORDS)
    plan = learner.calibrate(3, N)
    assert plan.regret_bound(N) == pytest.approx(plan.regularization * RADIUS**2)
    steps = N // batch
    moved = batch * plan.bound + math.sqrt(3) * plan.sums.std(steps)
    assert plan.regret_bound(N) == pytest.approx(RADIUS * math.sqrt(2.0 * steps * batch * plan.bound * moved))
    assert learner.regret_bound(N, 3) == plan.regret_bound(N)
    # one more row is one more step, with no less noise
    more = learner.calibrate(3, 10 * N)
    assert more.regret_bound(N + 1) > more.regret_bound(N) > more.regret_bound(1) > more.regularization * RADIUS**2 / 2


@pytest.mark.parametrize("batch", [1, 20])
def test_the_bound_of_projected_descent(batch):
    plan = NOGD(batch=batch, **WORDS).calibrate(3, N)
    power = plan.bound**2 + 3 * (plan.sigma / batch) ** 2
    assert plan.regret_bound(N) == pytest.approx(batch * 1.5 * 2 * RADIUS * math.sqrt(power * N / batch))
    assert plan.regret_bound(7 * batch - 1) <= plan.regret_bound(7 * batch) + batch * plan.bound * 2 * RADIUS
    convex = NOGD(batch=batch, l2=0.1, **WORDS).calibrate(3, N)
    power = (convex.bound + 0.1 * RADIUS) ** 2 + 3 * (convex.sigma / batch) ** 2
    assert convex.regret_bound(N) == pytest.approx(batch * power * (1.0 + math.log(N / batch)) / 0.2)
    assert NOGD(**WORDS).regret_bound(N, 3) == NOGD(**WORDS).calibrate(3, N).regret_bound(N)


@pytest.mark.parametrize("kind", [DPFTRL, NOGD])
def test_runs_stay_below(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 2))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = (X @ [1.0, -1.0] + rng.logistic(size=N) > 0).astype(int)
    best = best_in_hindsight(open_stream((X, y), classes=(0, 1)), loss="logistic", radius=RADIUS, fit_intercept=False)
    regrets = []
    for key in range(5):
        learner = kind(random_state=key, horizon=N, **WORDS)
        loss = 0.0
        for x, label in zip(X, y, strict=True):
            score = float(x @ learner.coef_.ravel()) if learner.__sklearn_is_fitted__() else 0.0
            loss += np.logaddexp(0.0, -score if label else score)
            learner.partial_fit(x[None], [label], classes=[0, 1])
        regrets.append(loss - N * best.score.loss)
    assert 0.0 < np.mean(regrets) < learner.regret_bound(N)
    assert np.mean(regrets) > learner.regret_bound(N) / 100.0  # the noise, which the bound covers, dominates


def test_refusals():
    for learner in (
        DPFTRL(design="tree", **WORDS),
        DPFTRL(l2=0.1, **WORDS),
        DPFTRL(discount=0.99, **WORDS),
        DPFTRL(renewal="double", **WORDS),
        AdaptiveFTRL(epsilon=1.0),
    ):
        with pytest.raises(InvalidParameter, match="no bound of the regret is proved for these settings"):
            learner.regret_bound(N, 3)
    with pytest.raises(InvalidParameter, match="n_features must be given"):
        NOGD(**WORDS).regret_bound(N)
    with pytest.raises(InvalidParameter, match="rows"):
        NOGD(**WORDS).calibrate(3, N).regret_bound(N + 1)
