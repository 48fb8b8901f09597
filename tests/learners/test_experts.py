"""MultiscaleSGD: the learner against a plain twin, its averages, its bound, and runs without noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq

from privol import BANCO, LDPSGD, MIOGD, AgnosticBANCO, MultiscaleSGD
from privol.calibration import Betting, experts_of, experts_regret
from privol.errors import InvalidParameter

N, D = 60, 3
RNG = np.random.default_rng(7)
X = RNG.normal(size=(N, D)) / 3
Y = np.clip(X @ [1.0, -2.0, 0.5], -1, 1)
WORDS = {"loss": "absolute", "epsilon": 6.0, "horizon": N, "random_state": 4}
OTHER = {"smallest_radius": 0.1, "largest_radius": 7.0, "radii_per_decade": 5, "prior_decay": 1.0,
         "direction_step": 0.7, "theta": 0.9}  # fmt: skip
RANDOMIZERS = ["privunit", "duchi", "l2laplace", "laplace", "gaussian"]


class Twin:
    """Experts as in the proof: the losses of each in its own units, weights by a root of their sum."""

    def __init__(self, plan, dim):
        self.experts, self.step = plan.experts, plan.length
        self.q, self.squares, self.travelled = np.zeros(dim), 0.0, 0.0
        self.losses = np.zeros(len(plan.experts.radii))

    def rates(self):
        e = self.experts
        speed = np.array(e.speeds) / math.sqrt(e.drift * (1.0 + self.travelled))
        return np.minimum(speed, e.rate) / e.radii

    def weights(self):
        e, rates = self.experts, self.rates()

        def sum_at(level):
            return float(np.exp(np.minimum(e.log_prior - rates * (self.losses - level), 700.0)).sum())

        ends = [float(np.min(self.losses - np.array(e.log_prior) / rates))]
        ends.insert(0, ends[0] - 1.0)
        while sum_at(ends[0]) > 1.0:
            ends[0] = 2.0 * ends[0] - ends[1]
        level = brentq(lambda at: sum_at(at) - 1.0, *ends, xtol=1e-300, rtol=1e-15, maxiter=1000)
        found = np.exp(e.log_prior - rates * (self.losses - level))
        return found / found.sum()

    def receive(self, report):
        e, square = self.experts, self.q @ self.q
        radii = np.array(e.radii)
        self.losses += radii * (report @ self.q) + self.rates() * radii**2 * square * e.drift
        self.travelled += square
        self.squares += report @ report
        self.q = self.q - self.step * report / math.sqrt(self.squares)
        self.q /= max(1.0, float(np.linalg.norm(self.q)))
        return float(self.weights() @ radii) * self.q


@pytest.mark.parametrize("randomizer", RANDOMIZERS)
@pytest.mark.parametrize("words", [{}, OTHER], ids=["default", "other"])
def test_twin(randomizer, words):
    learner = MultiscaleSGD(randomizer=randomizer, **WORDS, **words)
    device = learner.device(D, random_state=4)
    learner.partial_fit(X[:1], Y[:1])
    twin, plan, x = Twin(learner._run.plan, D + 1), learner._run.plan, np.zeros(D + 1)
    points = []
    for i in range(N):
        if i:
            learner.learn_one(X[i], Y[i])
        row = np.append(X[i], 1.0)
        gradient = np.sign(row @ x - Y[i]) * row  # the absolute loss has slope 0 at its corner
        x = twin.receive(device.privatize(gradient[None])[0])
        points.append(x)
        np.testing.assert_allclose(learner.ask(), x, rtol=1e-9, atol=1e-12)
    assert plan.experts.radii[0] == pytest.approx(learner.smallest_radius / plan.gradient_bound)
    assert plan.experts.radii[-1] >= learner.largest_radius / plan.gradient_bound * (1 - 1e-9)
    k = np.arange(1.0, N + 1)
    mean = (k * (k + 1)) @ np.array(points) / (k * (k + 1)).sum()
    found = np.append(learner.average_coef_, learner.average_intercept_)
    np.testing.assert_allclose(found, mean, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("averaging", ["uniform", "linear", "quadratic"])
@pytest.mark.parametrize("release", [1, 7, "last"])
@pytest.mark.parametrize("kind", [MIOGD, LDPSGD, BANCO, MultiscaleSGD])
def test_averages_count_releases_as_they_say(kind, release, averaging):
    words = {"epsilon": 4.0, "release": release, "averaging": averaging, "random_state": 1}
    learner = kind(horizon=2 * N, **words).declare_classes([0, 1])
    y, models = (Y > 0).astype(int), []
    for i in range(N):
        before = 0 if i == 0 else learner.n_releases_
        learner.partial_fit(X[i : i + 1], y[i : i + 1])
        if learner.n_releases_ > before:
            models.append(np.append(learner.coef_, learner.intercept_))
    if not models:  # "last": the run ends before its horizon
        learner.close()
        models.append(np.append(learner.coef_, learner.intercept_))
    k = np.arange(1.0, len(models) + 1)
    weights = {"uniform": 0 * k + 1, "linear": k, "quadratic": k * (k + 1)}[averaging]
    found = np.append(learner.average_coef_, learner.average_intercept_)
    np.testing.assert_allclose(found, weights @ np.array(models) / weights.sum(), rtol=1e-12, atol=1e-15)


def test_rows_and_targets_in_other_units_make_models_in_other_units():
    """Bit for bit: scaling by a power of two loses nothing."""
    one = MultiscaleSGD(fit_intercept=False, randomizer="l2laplace", x_bound=1.0, **WORDS).fit(X, Y)
    two = MultiscaleSGD(fit_intercept=False, randomizer="l2laplace", x_bound=4.0, **WORDS).fit(4.0 * X, Y)
    np.testing.assert_array_equal(two.average_coef_ * 4.0, one.average_coef_)


@pytest.mark.parametrize("size", [0.05, 1.0, 30.0])
def test_without_noise_the_bound_holds_against_an_adversary(size):
    """Linear losses with full slope, always against the point that the learner plays, or towards one model."""
    rows = 3000
    learner = MultiscaleSGD(loss="absolute", epsilon=math.inf, horizon=rows, gradient_bound=1.0, fit_intercept=False,
                            random_state=0)  # fmt: skip
    bound = learner.regret_bound(size, rows, D)
    for steady in (0.0, 0.6, 1.0):
        play, total, summed = MultiscaleSGD(**learner.get_params()), 0.0, np.zeros(D)
        goal = -size * np.array([0.6, 0.0, 0.8])
        for t in range(rows):
            point = play.ask(n_features=D) if t == 0 else play.ask()
            against = np.array([0.6, 0.0, 0.8]) if t % 10 < 10 * steady else np.sign(point[0] or 1.0) * np.eye(D)[0]
            total += against @ point
            summed += against
            play.tell(gradient=against)
        assert total - summed @ goal <= bound
        assert total + size * np.linalg.norm(summed) <= bound  # against the best model of that size


def test_with_noise_the_mean_regret_is_below_the_bound():
    rows, size = 2000, 2.0
    regrets = []
    for key in range(12):
        learner = MultiscaleSGD(loss="absolute", epsilon=6.0, horizon=rows, gradient_bound=1.0, fit_intercept=False,
                                randomizer="l2laplace", random_state=key)  # fmt: skip
        total = 0.0
        for t in range(rows):  # the loss |w_1 - size|, which only the best model avoids
            away = (learner.ask(n_features=2) if t == 0 else learner.ask())[0] - size
            total += abs(away)
            learner.tell(gradient=np.array([math.copysign(1.0, away), 0.0]))
        regrets.append(total)
    bound = learner.regret_bound(size, rows, 2)
    assert 0.02 * bound < np.mean(regrets) < 0.5 * bound


def test_the_bound():
    betting = Betting(a=0.1, proxy=40.0, lipschitz=2.0, second_moment=400.0)
    experts = experts_of(betting, smallest=1e-3, largest=1e3)
    assert len(experts.radii) == 13
    assert experts.radii[0] == pytest.approx(5e-4)
    assert experts.radii[-1] == pytest.approx(500.0)
    assert np.exp(experts.log_prior).sum() == pytest.approx(1.0)
    sizes = np.concatenate([[0.0], np.geomspace(1e-5, 499.0, 60)])
    bounds = [experts_regret(betting, experts, float(u), 1000, step=math.sqrt(2)) for u in sizes]
    assert np.all(np.diff(bounds) >= 0)
    assert bounds[0] == bounds[1] > 0  # nothing is smaller than the smallest radius
    assert experts_regret(betting, experts, 501.0, 1000, step=1.0) == math.inf
    # at a radius: by hand, with all rates as the number of rows allows
    rows, k = 10**6, 8
    spread = math.sqrt((20.0 + 4.0) * rows)
    slow = np.array(experts.radii) * np.maximum(10.0, spread / np.array(experts.speeds))
    own = slow[k] * (-experts.log_prior[k] - 1.0) + np.exp(experts.log_prior) @ slow
    own += 2.0 * experts.speeds[k] * experts.radii[k] * spread
    own += 2.0 * math.sqrt(2.0) * experts.radii[k] * math.sqrt(rows * 404.0)
    assert experts_regret(betting, experts, experts.radii[k], rows, step=math.sqrt(2)) == pytest.approx(own)


@pytest.mark.parametrize(("words", "said"), [
    ({"smallest_radius": 0.0}, "smallest_radius must be"),
    ({"largest_radius": 1e-4}, "largest_radius must be"),
    ({"radii_per_decade": 11}, "allowed are at most 64"),
    ({"prior_decay": -0.1}, "prior_decay must be"),
    ({"averaging": "half"}, "averaging must be"),
    ({"direction_step": 0.0}, "direction_step must be"),
    ({"proxy": "guess"}, "proxy must be"),
])  # fmt: skip
def test_parameters_out_of_range(words, said):
    with pytest.raises(InvalidParameter, match=said):
        MultiscaleSGD(**WORDS, **words).fit(X, Y)


@pytest.mark.parametrize("learner", [BANCO, AgnosticBANCO, MultiscaleSGD, LDPSGD, MIOGD])
def test_reports_are_of_gradients_of_their_whole_length(learner):
    """Of a logistic loss, whose slope is below 1 on a set; half of it would cut most gradients."""
    words = {"leakage": 0.5, "epsilon": None} if learner is MIOGD else {}
    plan = learner(x_bound=0.5, **words).calibrate(3, 100)
    row = math.hypot(0.5, 1.0)
    slope = 1.0 / (1.0 + math.exp(-row)) if learner in (LDPSGD, MIOGD) else 1.0  # the largest score in the unit ball
    assert plan.report.bound == pytest.approx(slope * row, rel=1e-9)
    assert plan.gradient_bound == plan.report.bound
