"""One budget for many learners: grid search, pickles and copies share a ledger or are refused, never duplicate it."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from joblib import Parallel, delayed, parallel_backend
from sklearn.model_selection import GridSearchCV, cross_val_score

from privol import DPFTRL
from privol.errors import BudgetExceeded, StateError
from privol.ledger import Ledger, LostLedger

X = np.random.default_rng(2).uniform(-0.5, 0.5, size=(60, 3))
Y = (X[:, 0] > 0).astype(int)
GRID = {"l2": [0.0, 0.1]}


def learner(ledger, epsilon=0.1):
    return DPFTRL(epsilon=epsilon, delta=1e-6, ledger=ledger)


def search(ledger, **words):
    return GridSearchCV(learner(ledger), GRID, cv=2, error_score="raise", **words)


def ledger_of(tmp_path, kind):
    return Ledger(epsilon=1.0, delta=1e-6, journal=tmp_path / "budget.jsonl" if kind == "journal" else None)


@pytest.mark.parametrize("kind", ["memory", "journal"])
def test_every_fit_of_a_grid_search_pays(tmp_path, kind):
    ledger = ledger_of(tmp_path, kind)
    found = search(ledger).fit(X, Y)
    assert found.best_estimator_.ledger is ledger
    assert len(ledger.accounts) == 2 * 2 + 1
    assert ledger.spent.mu == pytest.approx(np.sqrt(5) * ledger.accounts[0].guarantee.mu, rel=1e-6)
    if kind == "journal":
        ledger.close()
        assert Ledger.read(tmp_path / "budget.jsonl").spent == ledger.spent


def test_a_grid_search_ends_where_the_budget_does():
    ledger = Ledger(epsilon=0.2, delta=1e-6)
    with pytest.raises(BudgetExceeded):
        search(ledger).fit(X, Y)
    assert len(ledger.accounts) == 3
    assert ledger.spent.epsilon() <= 0.2


@pytest.mark.parametrize("kind", ["memory", "journal"])
def test_processes_of_a_grid_search_are_refused(tmp_path, kind):
    """A worker would get a copy of the budget, so nothing is sent and nothing is spent."""
    ledger = ledger_of(tmp_path, kind)
    with parallel_backend("loky"), pytest.raises((StateError, pickle.PicklingError)):
        search(ledger, n_jobs=2).fit(X, Y)
    assert ledger.accounts == ()


def test_threads_of_a_grid_search_share():
    ledger = Ledger(epsilon=1.0, delta=1e-6)
    with parallel_backend("threading"):
        search(ledger, n_jobs=2).fit(X, Y)
    assert len(ledger.accounts) == 5
    with parallel_backend("threading"):
        cross_val_score(learner(ledger), X, Y, cv=2, n_jobs=2, error_score="raise")
    assert len(ledger.accounts) == 7
    assert len({account.plan_id for account in ledger.accounts}) == 7


def test_a_budget_raced_for_by_threads_is_spent_once():
    ledger = Ledger(epsilon=0.2, delta=1e-6)

    def fit(_):
        try:
            learner(ledger).fit(X, Y)
        except BudgetExceeded:
            return 0
        return 1

    assert sum(Parallel(n_jobs=4, backend="threading")(delayed(fit)(k) for k in range(12))) == 3
    assert ledger.spent.epsilon() <= 0.2


def test_a_fitted_learner_leaves_its_ledger_behind_in_a_pickle():
    ledger = Ledger(epsilon=1.0, delta=1e-6)
    fitted = learner(ledger).fit(X, Y)
    other = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(other.predict(X), fitted.predict(X))
    with pytest.raises(StateError):
        other.fit(X, Y)
    assert copy.deepcopy(fitted).ledger is ledger
    assert not isinstance(fitted.ledger, LostLedger)
    assert len(ledger.accounts) == 1
