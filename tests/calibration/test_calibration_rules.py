"""Defaults of the offline learners: computed from public numbers, such that noise moves a score by a unit."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest

from privol import POL, ObjectivePerturbation, OutputPerturbation
from privol.calibration import calibrate_output, minimiser_bound
from privol.losses import Huber, Squared, get_loss

KINDS = [OutputPerturbation, ObjectivePerturbation, POL]
BOUND = math.sqrt(10.0)  # of rows of norm 3 with the constant


def score_std(plan, dim):
    """For the score of a row of the largest norm, before the losses' own curvature damps it."""
    scale = plan.scale / plan.l2_sum if hasattr(plan, "final_scale") else plan.scale
    return BOUND * scale * (math.sqrt(dim + 1.0) if plan.law == "l2_laplace" else 1.0)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("epsilon", [0.1, 4.0])
@pytest.mark.parametrize("n", [3_000, 3_000_000])
@pytest.mark.parametrize("kind", KINDS)
def test_noise_moves_a_score_by_a_unit_or_a_third(kind, n, epsilon, delta):
    """Within what the closed formula omits: the certificate, the determinant's share, the minimisers' bound."""
    plan = kind(epsilon=epsilon, delta=delta, x_bound=3.0).calibrate(19, n)
    whole = 1.0 if kind is ObjectivePerturbation else 1.0 / 3.0
    low = 0.45 if kind is OutputPerturbation else 0.7 if kind is ObjectivePerturbation else 0.5
    high = 1.7 if kind is ObjectivePerturbation and n * epsilon < 1e5 else 1.2
    assert low * whole <= score_std(plan, 20) <= high * whole
    assert plan.derived == ("l2", "radius")
    assert float(f"{plan.l2:.3g}") == plan.l2


@pytest.mark.parametrize("kind", KINDS)
def test_given_values_are_used_unchanged(kind):
    plan = kind(l2=0.0123, radius=0.7).calibrate(3, 500)
    assert (plan.l2, plan.ball, plan.derived) == (0.0123, 0.7, ())
    assert kind(l2=0.0123).calibrate(3, 500).derived == ("radius",)
    assert kind(radius=0.7).calibrate(3, 500).derived == ("l2",)


@pytest.mark.parametrize("kind", KINDS)
def test_defaults_use_only_public_numbers(kind):
    """And each of them matters, as it does for the noise."""
    asked = set(inspect.signature(kind.calibrate).parameters)
    assert asked == {"self", "n_features", "n_rows", "n_classes"}
    base = kind(loss="huber").calibrate(9, 10_000).l2
    assert kind(loss="huber").calibrate(9, 20_000).l2 == pytest.approx(base / 2, rel=0.01)
    assert kind(loss="huber", adjacency="zero_out").calibrate(9, 10_000).l2 == pytest.approx(base / 2, rel=0.01)
    assert kind(loss="huber", y_bound=2.0).calibrate(9, 10_000).l2 == pytest.approx(base / 2, rel=0.01)
    assert kind(loss="huber", epsilon=2.0).calibrate(9, 10_000).l2 < base
    assert kind(loss="huber", x_bound=2.0).calibrate(9, 10_000).l2 == pytest.approx(base * 5.0 / 2.0, rel=0.01)
    if kind is not POL:
        one = kind(delta=0.0).calibrate(9, 10_000).l2
        assert kind(delta=0.0).calibrate(9, 10_000, 4).l2 == pytest.approx(2 * math.sqrt(41 / 11) * one, rel=0.01)


@pytest.mark.parametrize("kind", KINDS)
def test_without_noise_the_regulariser_has_the_weight_of_a_row(kind):
    plan = kind(epsilon=math.inf, x_bound=3.0, fit_intercept=False).calibrate(4, 1_000)
    assert plan.l2 == pytest.approx(0.25 * 9.0 / 1_000, rel=0.01)
    assert plan.scale == 0.0


def test_the_squared_loss_has_a_slope_of_its_models():
    """The result is consistent: noise for the slope that minimisers under that l2 can have moves a score by a ninth."""
    plan = OutputPerturbation(loss="squared", x_bound=3.0).calibrate(19, 50_000)
    assert 0.5 / 9 < score_std(plan, 20) < 1.01 / 9
    ball = minimiser_bound(Squared(), plan.row_bound, 1.0, plan.l2)
    assert plan.minimiser_bound == pytest.approx(ball, rel=1e-12)
    assert plan.ball == pytest.approx(ball, rel=1e-9)
    plan = ObjectivePerturbation(loss="squared", x_bound=3.0, y_bound=5.0).calibrate(19, 50_000)
    assert plan.loss == Huber(plan.loss.width)
    assert plan.loss.width == pytest.approx(5.0, rel=1e-9)
    plan = POL(loss="squared", x_bound=3.0, y_bound=5.0).calibrate(19, 50_000)
    assert plan.ball == pytest.approx(2 * 5.0 / BOUND)


@pytest.mark.parametrize("loss", ["logistic", "hinge", "absolute"])
def test_the_ball_of_an_average_holds_every_minimiser(loss):
    """For identical rows, which move a minimiser farthest; by a grid."""
    plan = POL(loss=loss, fit_intercept=False).calibrate(1, 2_000)
    w = np.linspace(0.0, 2 * plan.ball, 20_001)
    value = get_loss(loss).value(w, np.ones_like(w)) + 0.5 * plan.l2 * w * w
    assert w[np.argmin(value)] <= plan.ball * (1 + 1e-3)


def test_a_ball_is_a_projection_of_the_release_alone():
    """The same noise, inside and outside: the vector is scaled, and its norm is the ball's radius."""
    X, y = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 2

    def model(**words):
        learner = OutputPerturbation(l2=0.01, random_state=3, **words).fit(X, y)
        return np.append(learner.coef_, learner.intercept_)

    free, own = model(radius=1e9), model()
    ball = OutputPerturbation(l2=0.01).calibrate(3, 60).ball
    assert np.linalg.norm(free) > 2 * ball
    np.testing.assert_allclose(own, free * (ball / np.linalg.norm(free)), rtol=1e-5)
    assert calibrate_output(
        loss=get_loss("logistic"), dim=4, intercept=True, n=60, epsilon=math.inf, delta=0.0, adjacency="replace",
        x_bound=1.0, y_bound=1.0,
    ).ball is None  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_the_guarantee_says_what_was_computed(kind):
    X, y = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 2
    learner = kind().declare_classes([0, 1]).fit(X, y)
    assert f"l2 = {learner.calibrate(3, 60).l2:.6g}" in learner.guarantee_.sentence()
    assert "radius = " in learner.guarantee_.sentence()
    assert "l2 = " not in kind(l2=1.0).declare_classes([0, 1]).fit(X, y).guarantee_.sentence()
