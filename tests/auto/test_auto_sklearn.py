"""scikit-learn's own conformance checks on the estimators of tables, and its tools around them."""

from __future__ import annotations

import copy
import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
from auto_tools import labels_of, table
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from privol import PrivateClassifier, PrivateRegressor, default_learner
from privol.errors import BudgetExceeded, StateError
from privol.guarantees import compose_gdp, gdp_mu
from privol.ledger import Ledger

HORIZON = "it calls partial_fit without a horizon, which the budget is to last for; with one it passes, below"
FEW = "its rows are sorted, or so few, that those which are to show the labels hold one of them only"
REASONS = {
    "check_fit_score_takes_y": "it calls partial_fit after fit; fit has ended its run and settled its budget, and more "
    "rows would silently be paid for again",
    "check_estimators_partial_fit_n_features": HORIZON,
    "check_n_features_in_after_fitting": HORIZON,
    "check_positive_only_tag_during_fit": FEW,
}
OF_CLASSES = {
    "check_classifier_data_not_an_array": FEW,
    "check_classifiers_classes": FEW,
}


def expected_failures(model):
    """Checks that contradict what these estimators must do, or give them too little; each with its reason."""
    return REASONS | OF_CLASSES if is_classifier(model) else REASONS


@parametrize_with_checks(
    [PrivateClassifier(epsilon=math.inf), PrivateRegressor(epsilon=math.inf)], expected_failed_checks=expected_failures
)
def test_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("name", [name for name, reason in REASONS.items() if reason == HORIZON])
@pytest.mark.parametrize("kind", [PrivateClassifier, PrivateRegressor])
def test_checks_of_partial_fit(kind, name):
    getattr(estimator_checks, name)(kind.__name__, kind(epsilon=1e6, horizon=2000, random_state=0))


def test_kinds():
    assert is_classifier(PrivateClassifier())
    assert is_regressor(PrivateRegressor())


def test_every_fit_of_a_cross_validation_pays():
    X, ledger = table(4000), Ledger()
    y = labels_of(X)
    scores = cross_val_score(make_pipeline(PrivateClassifier(epsilon=20.0, random_state=0, ledger=ledger)), X, y, cv=3)
    assert scores.mean() > 0.8
    learner = default_learner("logistic").__name__
    assert [entry.learner for entry in ledger.entries()] == ["PrivateEncoder", learner] * 3
    one = [account.guarantee.mu for account in ledger.accounts]
    # the phases of a fit share its budget, and fits add up
    assert ledger.spent.mu == pytest.approx(compose_gdp([max(one[i : i + 2]) for i in (0, 2, 4)]), rel=1e-9)


def test_a_limit_admits_exactly_its_budget():
    X = table(6000)
    y, ledger = labels_of(X), Ledger(epsilon=3.0, delta=1e-6)
    model = PrivateClassifier(epsilon=3.0, ledger=ledger, random_state=0).fit(X, y)
    assert ledger.spent.epsilon(1e-6) <= 3.0
    assert model.guarantee_.epsilon() <= 3.0
    before = ledger.accounts
    with pytest.raises(BudgetExceeded, match="encoding and the model together"):
        clone(model).fit(X, y)
    assert ledger.accounts == before  # refused before the encoding was paid for


@pytest.mark.parametrize("reuse", [None, True])
def test_costs_add_up_if_rows_both_teach_and_are_learnt(reuse):
    X = table(500)
    y, ledger = labels_of(X), Ledger(epsilon=4.0, delta=1e-6)
    model = PrivateClassifier(epsilon=4.0, reuse_rows=reuse, ledger=ledger, random_state=0).fit(X, y)
    taught, learnt = ledger.accounts
    assert model.encoder_.reused_
    assert model.n_rows_ == model.learner_.n_rows_ == 500
    assert taught.group != learnt.group
    assert taught.guarantee.mu == pytest.approx(gdp_mu(4.0, 1e-6) / 2, rel=1e-3)  # a quarter of the square
    assert model.guarantee_.mu == pytest.approx(ledger.spent.mu, rel=1e-9)
    assert model.guarantee_.mu >= compose_gdp([taught.guarantee.mu, learnt.guarantee.mu]) * (1 - 1e-12)
    assert ledger.spent.epsilon(1e-6) <= 4.0


def test_both_phases_cost_the_larger_of_the_two():
    X = table(6000)
    model = PrivateClassifier(epsilon=2.0, random_state=0).fit(X, labels_of(X))
    taught, learnt = model.ledger_.accounts
    rows = model.encoder_.plan_.rows
    assert (taught.rows, learnt.rows) == ((1, rows), (rows + 1, 6000))
    assert taught.group == learnt.group
    assert model.learner_.n_rows_ == 6000 - rows
    assert model.guarantee_.mu == max(taught.guarantee.mu, learnt.guarantee.mu)
    assert model.guarantee_.horizon == model.n_rows_ == 6000
    sentence = model.guarantee_.sentence()
    assert "NOT PRIVATE" in sentence
    named = f"row 1 to {rows:,} taught the schema by histograms, under the Gaussian mechanism with mu = "
    assert f"{named}{taught.guarantee.mu:.6g}, and the model learnt row {rows + 1:,} and later ones alone" in sentence
    assert "a row is in one part only" in sentence
    assert "another account" not in sentence
    again = model.fit(X, labels_of(X))  # pays again, from the same ledger
    assert len(again.ledger_.accounts) == 4
    assert again.ledger_.spent.mu > 1.4 * again.guarantee_.mu


def test_parameters_that_change_within_a_run_change_nothing():
    """An encoding with noise for "zero_out" would be stated for "replace", which needs a factor of sqrt(2) more."""
    X = table(1500)
    y, words = labels_of(X), {"epsilon": 30.0, "horizon": 1500, "random_state": 0}
    models = [PrivateClassifier(**words, adjacency="zero_out") for _ in range(2)]
    for model in models:
        model.partial_fit(X[:50], y[:50])
    models[1].set_params(adjacency="replace", epsilon=90.0, release="last", random_state=5)
    for model in models:
        model.partial_fit(X[50:], y[50:])
    one, other = models
    assert one.guarantee_ == other.guarantee_
    assert other.guarantee_.adjacency == "zero_out"
    assert [len(model.ledger_.accounts) for model in models] == [2, 2]
    assert np.array_equal(one.predict_proba(X), other.predict_proba(X))


def test_pickles_leave_the_ledger_behind():
    X, ledger = table(3000), Ledger()
    y = labels_of(X)
    live = PrivateClassifier(epsilon=20.0, horizon=3000, ledger=ledger, random_state=0)
    live.partial_fit(X[:2500], y[:2500])
    other = pickle.loads(pickle.dumps(live))
    assert np.array_equal(other.predict_proba(X), live.predict_proba(X))
    assert other.guarantee_ == live.guarantee_
    assert other.n_rows_ == 2500
    with pytest.raises(NotFittedError):
        other.ledger_  # noqa: B018
    for act in (other.fit, other.partial_fit):
        with pytest.raises(StateError):
            act(X[2500:], y[2500:])
    assert clone(live).ledger is ledger
    twin = copy.deepcopy(live)
    assert twin.ledger is ledger
    with pytest.raises(StateError, match="shows what a run has released"):
        twin.partial_fit(X[2500:], y[2500:])
    live.partial_fit(X[2500:], y[2500:])  # continues
    assert live.n_rows_ == 3000
    assert len(ledger.accounts) == 2


@pytest.mark.parametrize("dearer", ["encoding", "model"])
def test_both_phases_together_cost_the_more_expensive_one(dearer):
    X = table(3000)
    model = PrivateClassifier(epsilon=20.0, random_state=0).fit(X, labels_of(X))
    taught, learnt = model.encoder_.guarantee_, model.learner_.guarantee_
    if dearer == "encoding":
        taught = replace(taught, parameter=2.0 * learnt.mu)
    model.encoder_.guarantee_ = replace(taught, private=dearer == "model")
    assert model.guarantee_.mu == max(taught.mu, learnt.mu)
    assert not model.guarantee_.private  # one of the two had a seed
