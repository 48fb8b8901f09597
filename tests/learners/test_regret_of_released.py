"""Regret bounds of released models that lag behind a secret run: by hand, above real runs, and close to them.

The page is docs/proofs/regret.md.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from privol import PGIGA, PIGD, POL, PQFTL
from privol.calibration import _played
from privol.errors import InvalidParameter
from privol.reproduce.regret import Ridge, released_models

N = 400
ABSOLUTE = {"loss": "absolute", "delta": 1e-6, "l2": 0.5, "radius": 1.0, "fit_intercept": False}


def by_hand(rows, learnt, moved, off, slope, width):
    """Row by row: the model that is played, and its largest possible distance from the secret model."""
    total = 0.0
    for t in range(1, rows + 1):
        known = learnt(t)
        apart = (off(known) if known else 0.0) + sum(moved(i) for i in range(known + 1, t))
        total += slope(t) * min(width, apart)
    return total


@pytest.mark.parametrize("schedule", ["constant", "inverse_sqrt"])
@pytest.mark.parametrize("release", ["all", 7, [3, 4, 60], "last"])
@pytest.mark.parametrize("kind", [PIGD, PGIGA])
def test_the_bound_for_iterates_by_hand(kind, release, schedule, monkeypatch):
    monkeypatch.setattr(_played, "_CHUNK", 16)
    rows, radius = 80, 2.0
    learner = kind(epsilon=30.0, l2=0.3, l2_schedule=schedule, radius=radius, release=release, fit_intercept=False)
    plan = learner.calibrate(3, rows)
    listed = [row for chunk in plan.releases.chunks() for row in chunk]

    def weight(t):
        return plan.schedule.weight(t)

    def slope(t):
        return 1.0 / (1.0 + math.exp(-radius)) + (weight(t) - weight(t - 1)) * radius

    exact = weight(0) * radius**2 / 2 + sum(slope(t) ** 2 / (2 * weight(t)) for t in range(1, rows + 1))
    late = by_hand(
        rows,
        learnt=lambda t: max([row for row in listed if row < t], default=0),
        moved=lambda t: slope(t) / weight(t),
        off=lambda row: math.sqrt(8 / math.pi) * plan.std(row),  # the mean length of three normal numbers
        slope=slope,
        width=2 * radius,
    )
    assert learner.regret_bound(rows, 3) == pytest.approx(exact + late, rel=1e-9)
    assert plan.regret_bound(40) < plan.regret_bound(80)


@pytest.mark.parametrize(("batch", "release"), [(1, "all"), (1, 9), (4, 6)])
def test_the_bound_for_least_squares_by_hand(batch, release, monkeypatch):
    monkeypatch.setattr(_played, "_CHUNK", 16)
    rows, y_bound, l2 = 70, 3.0, 0.4
    learner = PQFTL(epsilon=2.0, l2=l2, radius=0.5, y_bound=y_bound, batch=batch, release=release, fit_intercept=False)
    plan = learner.calibrate(2, rows)
    ball = min(1 / l2, 0.5 / math.sqrt(l2), 0.5 / y_bound)
    slope = 1 + ball * (1 + l2)

    def off(learnt):
        noise = plan.sums.std(learnt // batch) * (math.sqrt(8 / math.pi) * ball + math.sqrt(math.pi / 2))
        return (noise + plan.shift(0, learnt // batch) * ball) / (l2 * learnt)

    step = 1 if release == "all" else release
    late = by_hand(
        rows,
        learnt=lambda t: (t - 1) // step * step // batch * batch,
        moved=lambda t: slope / (l2 * t),
        off=off,
        slope=lambda t: slope,
        width=2 * ball,
    )
    exact = slope**2 / (2 * l2) * (1 + math.log(rows))
    assert learner.regret_bound(rows, 2) == pytest.approx(y_bound**2 * (exact + late), rel=1e-9)


def test_runs_of_implicit_steps_stay_below_and_not_far_below():
    """Targets 0 of the absolute loss: the models lose by noise alone, in proportion to its length."""
    X, y = np.ones((N, 1)), np.zeros(N)
    for epsilon in (5.0, 20.0, 100.0):
        regrets = []
        for key in range(5):
            learner = PIGD(epsilon=epsilon, release="all", random_state=key, **ABSOLUTE)
            models = released_models(learner, X, y)[:, 0]
            regrets.append(float(np.sum(np.abs(models) + 0.25 * models**2)))
        bound = learner.regret_bound(N)
        assert max(regrets) < bound < 2.5 * np.mean(regrets)


def test_runs_of_least_squares_stay_below_and_within_a_factor():
    """Random signs as targets: the bound treats the quadratic loss over a distance as linear."""
    game = Ridge(np.ones((N, 1)), np.random.default_rng(0).choice([-1.0, 1.0], N), 1.0)
    for epsilon in (1.0, 10.0):
        regrets = []
        for key in range(5):
            words = {"noise_shift": 0.0, "release": "all", "fit_intercept": False, "random_state": key}
            learner = PQFTL(epsilon=epsilon, l2=1.0, **words)
            regrets.append(N * game.regret(released_models(learner, game.X, game.y)))
        bound = learner.regret_bound(N)
        assert max(regrets) < bound < 30 * np.mean(regrets)


@pytest.mark.parametrize(("weights", "delta", "factor"), [("linear", 1e-6, 3), ("uniform", 0.0, 4), ("last", 1e-6, 20)])
def test_excess_risks_stay_below_and_within_a_factor(weights, delta, factor):
    words = {**ABSOLUTE, "l2": 0.3, "delta": delta, "weights": weights}
    risks = []
    for key in range(40):
        learner = POL(epsilon=2.0, random_state=key, **words).fit(np.ones((N, 1)), np.zeros(N))
        risks.append(abs(learner.coef_[0]) + 0.15 * learner.coef_[0] ** 2)
    bound = learner.regret_bound(N)
    assert np.mean(risks) < bound < factor * np.mean(risks)
    plan = learner.calibrate(1, N)
    slope = 1.0 + 0.3
    exact = {
        "linear": 2 * slope**2 / (0.3 * (N + 1)),
        "uniform": (0.3 + sum(slope**2 / (0.3 * (t + 1)) for t in range(1, N + 1))) / (2 * N),
        "last": slope**2 / (0.3 * math.sqrt(N + 1)),
    }[weights]
    assert bound == pytest.approx(exact + slope * plan.scale * (1.0 if delta == 0.0 else math.sqrt(2 / math.pi)))


def test_refusals():
    refused = [
        (PIGD(), "release must be given"),
        (PGIGA(release="all", calibration="published", l2=1.0, epsilon=1.0), "published steps along gradients"),
        (PQFTL(discount=0.99), "sums that forget"),
        (PQFTL(window=8, batch=2), "sums that forget"),
        (PQFTL(renewal="repeat"), "nor for renewal"),
        (PQFTL(calibration="published"), "published models"),
    ]
    for learner, match in refused:
        with pytest.raises(InvalidParameter, match=match):
            learner.regret_bound(N, 2)
    with pytest.raises(InvalidParameter, match="n_features must be given"):
        POL().regret_bound(N)
    with pytest.raises(InvalidParameter, match="rows"):
        PQFTL().calibrate(2, N).regret_bound(N + 1)
