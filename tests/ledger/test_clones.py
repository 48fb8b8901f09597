"""Fitting clones of one learner without a shared ledger gives one warning; fitting one learner gives none."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import privol
from privol.errors import UnsharedLedgerWarning
from privol.evaluate import compare
from privol.ledger import Ledger, _clones

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 3)) / 3
Y = (X[:, 0] > 0).astype(int)
WORDS = {"epsilon": 1.0, "delta": 1e-6, "radius": 2.0}


@pytest.fixture(autouse=True)
def untold(monkeypatch):
    monkeypatch.setattr(_clones, "_told", False)


def told(call):
    """How often a call warns about clones."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return sum(issubclass(one.category, UnsharedLedgerWarning) for one in caught)


def search(learner, **words):
    return GridSearchCV(learner, {"x_bound": [1.0, 2.0]}, cv=2, **words).fit(X, Y)


@pytest.mark.parametrize("learner", [privol.NOGD, privol.DPFTRL, privol.OutputPerturbation, privol.PrivateClassifier])
def test_cross_validation_warns_once(learner):
    words, times = WORDS, 1
    if learner is privol.PrivateClassifier:  # of 400 rows too few would teach: now and then no column would stand out
        words, times = {"epsilon": 50.0, "delta": 1e-6}, 5
    words = {name: value for name, value in words.items() if name in learner().get_params()}
    made, many, labels = learner(**words), np.tile(X, (times, 1)), np.tile(Y, times)
    assert told(lambda: cross_val_score(made, many, labels, cv=2, error_score="raise")) == 1
    assert told(lambda: cross_val_score(made, many, labels, cv=2, error_score="raise")) == 0


def test_a_grid_search_of_a_pipeline_warns():
    assert told(lambda: search(privol.NOGD(**WORDS))) == 1


def test_a_pipeline_warns():
    line = make_pipeline(FunctionTransformer(), privol.NOGD(**WORDS))
    assert told(lambda: cross_val_score(line, X, Y, cv=2)) == 1


def test_a_shared_ledger_counts_all():
    ledger = Ledger(epsilon=20.0, delta=1e-6)
    assert told(lambda: search(privol.NOGD(ledger=ledger, **WORDS), error_score="raise")) == 0
    assert len(ledger.entries()) == 5


def test_single_fits_give_no_warning():
    made = privol.NOGD(**WORDS)

    def again():
        made.fit(X, Y)
        made.fit(X, Y)  # the same ledger adds up both

    assert told(again) == 0
    assert told(lambda: clone(privol.NOGD(**WORDS)).fit(X, Y)) == 0
    assert told(lambda: make_pipeline(FunctionTransformer(), privol.NOGD(**WORDS)).fit(X, Y)) == 0
    assert told(lambda: [privol.NOGD(**WORDS).fit(X, Y) for _ in range(3)]) == 0
    stream = privol.open_stream((X, Y), classes=(0, 1))
    assert told(lambda: compare(privol.DPFTRL(**WORDS), stream)) == 0


def test_fits_without_cost_give_no_warning():
    assert told(lambda: search(privol.NOGD(**{**WORDS, "epsilon": math.inf}))) == 0
    assert told(lambda: search(privol.NOGD(random_state=1, **WORDS))) == 0


def test_a_fit_that_is_refused_has_not_spent():
    made = privol.NOGD(**WORDS)
    broken = X.copy()
    broken[3] = np.nan

    def fits():
        with pytest.raises(privol.errors.InvalidRow):
            clone(made).fit(broken, Y)
        clone(made).fit(X, Y)

    assert told(fits) == 0
