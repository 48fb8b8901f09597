"""Gaussian noise in the objective: its distribution, that of the release, and the guarantee."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from alpha import rate
from objective_tools import exact_delta
from offline_tools import FAR, fitted, gradient, problem, released, scale_is, seen, signs, vector
from scipy import stats

from privol import ObjectivePerturbation
from privol.calibration import calibrate_objective
from privol.errors import BudgetExceeded, InvalidParameter, PrivacyWarning, SolverFailure
from privol.guarantees import Guarantee, gdp_delta
from privol.learners import offline
from privol.ledger import Ledger
from privol.losses import Huber, Logistic
from privol.noise import make_source
from privol.noise.bits import STREAM_OBJECTIVE
from privol.tuning import PrivateSelection

pytestmark = pytest.mark.statistical

X, Y = problem(60, 3, 21)
FITS = 150


# ---- distributions --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outputs", [1, 3])
def test_the_gaussian_linear_term_has_the_law_of_its_calibration(outputs):
    """Recovered from outside too: independent Gaussians of one scale."""
    X, y = problem(25, 2, 8, outputs)
    S, labels, alpha = seen(X), range(max(2, outputs)), rate("offline.gaussian", 4)
    words = {"delta": 1e-6, "radius": FAR}
    plan = ObjectivePerturbation(**words).calibrate(2, 25, max(2, outputs))
    found = []
    for k in range(FITS):
        w = released(fitted(ObjectivePerturbation, X, y, random_state=k, labels=labels, **words))
        parts = zip(signs(y, outputs), w.reshape(outputs, 3), strict=True)
        found.append([-gradient(plan.loss, S, t, plan.l2_sum, 0.0, v) for t, v in parts])
    b = np.array(found).reshape(FITS, plan.dim) / plan.scale
    known = vector(make_source(0), plan.dim, plan.scale, plan.step, STREAM_OBJECTIVE, "gaussian")
    assert np.linalg.norm(b[0] - known / plan.scale) < 1e-3  # the final noise is negligible
    total, law = float(np.sum(b**2)), stats.chi2(b.size)
    assert scale_is(total, law, alpha)
    for wrong in (2 / 3, 3 / 2):
        assert not scale_is(total * wrong**2, law, alpha)
        assert law.cdf(law.isf(alpha / 2) / wrong**2) - law.cdf(law.ppf(alpha / 2) / wrong**2) < 1e-6
    assert stats.kstest(b.ravel(), "norm").pvalue > alpha


def test_models_have_the_density_of_the_proof():
    """One logistic row in one dimension: the noise's density at the b that the model implies, times curvature."""
    words = {"epsilon": 40.0, "delta": 1e-3, "l2": 0.05, "radius": FAR, "fit_intercept": False}
    fits = [fitted(ObjectivePerturbation, [[1.0]], [1], labels=[0, 1], **words, random_state=k) for k in range(FITS)]
    models, plan = np.concatenate([released(each) for each in fits]), ObjectivePerturbation(**words).calibrate(1, 1)
    reach = (1.0 + 12 * plan.scale) / plan.l2_sum
    w = np.linspace(-reach, reach, 40_001)

    def law(shift, curve):
        p = 1.0 / (1.0 + np.exp(w))
        density = np.exp(-((plan.l2_sum * w - shift * p) ** 2) / (2 * plan.scale**2))
        sums = np.cumsum(density * (plan.l2_sum + curve * p * (1 - p)))
        return lambda x: np.interp(x, w, sums / sums[-1])

    assert stats.kstest(models, law(1.0, 1.0)).pvalue > rate("offline.gaussian", 4)
    for shift, curve in ((0.0, 1.0), (1.0, 0.0), (0.0, 0.0)):  # without one of the two terms, or the row
        assert stats.kstest(models, law(shift, curve)).pvalue < 1e-9


@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
def test_the_drawn_noise_is_sufficient_and_two_thirds_of_it_is_not(adjacency, monkeypatch):
    """By integration over the model, with the scale and Lambda that a fit passes to its noise and its solver."""
    drawn = []
    linear_term = offline._linear_term

    def watched(source, plan):
        drawn.append(plan)
        return linear_term(source, plan)

    monkeypatch.setattr(offline, "_linear_term", watched)
    loss, n = Huber(1.0), 1000
    rows, targets = np.zeros((n, 1)), np.zeros(n)
    rows[0, 0], targets[0] = 1.0, 1e4
    learner = ObjectivePerturbation(
        loss=loss, delta=1e-6, l2=1.0, fit_intercept=False, y_bound=1e4, adjacency=adjacency, random_state=0
    ).fit(rows, targets)
    (plan,) = drawn
    g = learner.guarantee_
    assert plan.epsilon_objective + plan.epsilon_final <= g.parameter * (1 + 1e-15)
    assert plan.delta_objective + plan.delta_final <= g.slack * (1 + 1e-15)
    pair = ((1.0, 1e4), (1.0, -1e4) if adjacency == "replace" else None)
    shift = 2.0 if adjacency == "replace" else 1.0
    for part, least in ((1.0, 0.3), (2 / 3, 30.0)):
        found, mass = exact_delta(plan.epsilon_objective, part * plan.scale, plan.l2_sum, loss, *pair, 0.0)
        assert mass == pytest.approx(1.0, abs=1e-6)
        assert found == pytest.approx(gdp_delta(plan.epsilon_objective, shift / (part * plan.scale)), rel=1e-3)
        assert found > least * plan.delta_objective
        assert found <= plan.delta_objective or part < 1
    # with the final noise: for the sum of both, at the whole epsilon
    spread = math.hypot(plan.scale / plan.l2_sum, plan.final_scale)
    assert gdp_delta(g.parameter, (shift / plan.l2_sum + 2 * plan.error) / spread) <= g.slack


# ---- the guarantee ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outputs", [1, 3])
def test_gaussian_noise_in_the_objective_is_never_called_pure(outputs):
    """It proves an epsilon with one delta: neither an epsilon alone nor a curve may follow from it."""
    y, ledger = problem(60, 3, 21, outputs)[1], Ledger(epsilon=1.0, delta=1e-6, slack=1e-6)
    learner = ObjectivePerturbation(delta=1e-6, adjacency="replace", ledger=ledger).fit(X, y)
    g = learner.guarantee_
    assert (g.kind, g.parameter, g.slack, g.delta, g.releases) == ("approximate", 1.0, 1e-6, 1e-6, 1)
    assert g.mu == g.rho == g.epsilon(9e-7) == math.inf
    assert g.epsilon() == 1.0
    assert Guarantee.from_json(g.to_json()) == g
    for spent in (ledger.spent, ledger.committed):
        assert spent.mu == spent.rho == spent.pure_epsilon == spent.epsilon(9e-7) == math.inf
        assert (spent.slack, spent.epsilon()) == (1e-6, 1.0)
    (entry,) = ledger.entries()
    assert (entry.mu_squared, entry.pure_epsilon, entry.slack) == (math.inf, math.inf, 1e-6)
    with pytest.raises(BudgetExceeded):
        learner.fit(X, y)
    assert "(epsilon, delta) = (1, 1e-6). It is proved at this one delta" in g.sentence()
    assert "the Gaussian variable" in g.sentence()
    assert "slack" in ledger.sentence()
    assert any("rows" in said for said in g.conditions)
    with pytest.warns(PrivacyWarning, match="delta is not below"):
        found = ObjectivePerturbation(delta=0.1).fit(X, y).guarantee_
    assert any("delta is not below one over" in said for said in found.conditions)
    assert not any("delta is not below one over" in said for said in g.conditions)


def test_gaussian_noise_in_the_objective_needs_a_limit_with_slack():
    for limit in ({"slack": 0.0}, {"slack": 9e-7}):
        ledger = Ledger(epsilon=10.0, delta=1e-5, **limit)
        with pytest.raises(BudgetExceeded, match="slack"):
            ObjectivePerturbation(delta=1e-6, ledger=ledger).fit(X, Y)
        assert ledger.accounts == ()
    ledger = Ledger(epsilon=2.0, delta=1e-5, slack=2e-6)
    for _ in range(2):
        ObjectivePerturbation(delta=1e-6, ledger=ledger).fit(X, Y)
    assert ledger.spent.epsilon() == pytest.approx(2.0)
    assert (ledger.remaining_slack, ledger.remaining_pure) == (0.0, pytest.approx(0.0))


def test_a_gaussian_term_that_fails_is_paid_for_whole():
    ledger = Ledger(epsilon=1.0, delta=1e-6, slack=1e-6)
    with pytest.raises(SolverFailure):
        ObjectivePerturbation(delta=1e-6, ledger=ledger, max_iter=1).fit(X, Y)
    assert (ledger.spent.slack, ledger.spent.epsilon(), ledger.spent.releases) == (1e-6, 1.0, 0)


def test_gaussian_noise_in_the_objective_is_refused_where_nothing_is_proved():
    for words, message in (
        ({"calibration": "published"}, "delta=0"), ({"calibration": "jmlr"}, "delta=0"),
        ({"min_l2": "full"}, "delta=0"), ({"delta": 1.0}, "delta"), ({"delta": -1e-9}, "delta"),
    ):  # fmt: skip
        with pytest.raises(InvalidParameter, match=message):
            ObjectivePerturbation(**{"delta": 1e-6, **words}).fit(X, Y)
    plan = calibrate_objective(
        loss=Logistic(), dim=4, intercept=True, n=60, l2=0.1, epsilon=1.0, delta=1e-6, adjacency="replace", x_bound=1.0,
        y_bound=1.0,
    )  # fmt: skip
    with pytest.raises(InvalidParameter, match="no guarantee"):
        ObjectivePerturbation().guarantee_of(replace(plan, delta=0.0), 60)
    assert ObjectivePerturbation().guarantee_of(plan, 60).slack == 1e-6  # from the plan, whatever the learner says


def test_private_selection_refuses_such_candidates():
    """Its proof covers candidates with pure differential privacy."""
    ledger = Ledger()
    with pytest.raises(InvalidParameter, match="of kind 'approximate'"):
        PrivateSelection([ObjectivePerturbation(), ObjectivePerturbation(delta=1e-6)], ledger=ledger).fit(X, Y)
    assert ledger.accounts == ()
