"""Sparse rows in the estimators: learnt as from a stream, however they are cut into blocks."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from privol import PrivateClassifier, PrivateRegressor
from privol.errors import InvalidParameter, InvalidRow, StreamError

N, FEATURES = 1500, 300
WORDS = np.minimum(np.random.default_rng(0).zipf(1.5, size=(N, 8)), FEATURES) - 1
X = sp.csr_array((np.ones(8 * N), (np.arange(N).repeat(8), WORDS.ravel())), shape=(N, FEATURES))
X.data[:] = 1.0
Y = np.where((WORDS == 1).any(axis=1), "yes", "no")
BUDGET = {"epsilon": 30.0, "random_state": 0, "reuse_rows": False}
LABELS = {"classes": ["no", "yes"]}


def model_of(estimator):
    learner = estimator.learner_
    return estimator.schema_, learner.coef_.tolist(), np.asarray(learner.intercept_).tolist(), estimator.guarantee_


FITTED = PrivateClassifier(**BUDGET, **LABELS).fit(X, Y)


def test_a_stream_teaches_the_same_encoding(tmp_path):
    assert (FITTED.predict(X) == Y).mean() > 0.8 > (Y == "no").mean()
    assert FITTED.n_features_in_ == FEATURES
    assert FITTED.classes_.tolist() == ["no", "yes"]
    assert model_of(PrivateClassifier(**BUDGET, **LABELS).fit_stream((X, Y))) == model_of(FITTED)
    lines = [
        f"{int(y == 'yes')} " + " ".join(f"{j + 1}:{row[j]:g}" for j in np.flatnonzero(row))
        for y, row in zip(Y, X.toarray(), strict=True)
    ]
    (tmp_path / "rows.svm").write_text("\n".join(lines) + "\n")
    model = PrivateClassifier(**BUDGET, classes=[0, 1]).fit_stream(tmp_path / "rows.svm", n_features=FEATURES)
    assert np.array_equal(model.decision_function(X), FITTED.decision_function(X))


def test_all_rows_may_teach():
    words = {**BUDGET, "reuse_rows": True, **LABELS}
    model = PrivateClassifier(**words).fit(X, Y)
    assert model.encoder_.reused_
    assert model_of(model) == model_of(PrivateClassifier(**words).fit_stream((X, Y)))


@pytest.mark.parametrize("step", [97, 700])
def test_blocks_change_nothing(step):
    model = PrivateClassifier(**BUDGET, horizon=N)
    for start in range(0, N, step):
        model.partial_fit(X[start : start + step], Y[start : start + step], classes=["yes", "no"])
    assert model_of(model.close()) == model_of(FITTED)


@pytest.mark.parametrize("form", [sp.csc_array, sp.coo_array, sp.csr_matrix, lambda x: sp.csr_array(x.astype("f4"))])
def test_layouts_change_nothing(form):
    assert model_of(PrivateClassifier(**BUDGET, **LABELS).fit(form(X), Y)) == model_of(FITTED)


def test_what_is_refused_before_anything_is_spent():
    model, bad = PrivateClassifier(**BUDGET, **LABELS), X.copy()
    bad.data[5] = np.nan
    others = np.where(np.arange(N) == 1400, "maybe", Y)
    with pytest.raises(InvalidRow, match="row 1"):
        model.fit(bad, Y)
    with pytest.raises(InvalidRow, match=r"row 1401.*'maybe'"):
        model.fit(X, others)
    with pytest.raises(InvalidParameter, match=r"sparse.*classes= says"):
        PrivateClassifier(**BUDGET).fit(X, Y)
    with pytest.raises(InvalidParameter, match=r"sparse.*PrivateRegressor takes columns"):
        PrivateRegressor(**BUDGET).fit(X, np.arange(N))
    with pytest.raises(InvalidParameter, match="drop applies to columns"):
        PrivateClassifier(**BUDGET, **LABELS, drop=["x0"]).fit(X, Y)
    with pytest.raises(ValueError, match="inconsistent numbers"):
        model.fit(X, Y[:-1])
    assert model._ledger().accounts == ()
    zero = PrivateClassifier(**BUDGET, **LABELS, on_invalid="zero").fit(bad, others)  # two null rows
    assert np.isfinite(zero.learner_.coef_).all()


def test_contradictory_arguments_are_refused():
    with pytest.raises(StreamError, match="dense rows"):
        FITTED.predict(X.toarray())
    model = PrivateClassifier(**BUDGET, **LABELS, horizon=N).partial_fit(X[:100], Y[:100])
    with pytest.raises(InvalidParameter, match="must be sparse"):
        model.partial_fit(X[100:200].toarray(), Y[100:200])
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[100:200, :7], Y[100:200])
    table = PrivateClassifier(**BUDGET, horizon=100).partial_fit(np.ones((5, FEATURES)), Y[:5])
    with pytest.raises(InvalidParameter, match="learnt of columns"):
        table.partial_fit(X[:5], Y[:5])


def test_the_sentence_says_which_rows_paid_for_what():
    first = FITTED.encoder_.plan_.rows
    mechanism = "the schema by votes of rows for their features, under the Gaussian mechanism"
    mu = f"{FITTED.encoder_.plan_.mu:.6g}"
    assert (
        f"row 1 to {first:,} taught {mechanism} with mu = {mu}, and the model learnt row {first + 1:,} and later ones "
        "alone: a row is in one part only, so together they cost as much as the more expensive of them (parallel "
        "composition)"
    ) in FITTED.guarantee_.sentence()
    taught = FITTED.encoder_.guarantee_.sentence()
    assert "by 1 phase of votes for their features under the Gaussian mechanism" in taught
    again = PrivateClassifier(**{**BUDGET, "reuse_rows": True}, **LABELS).fit(X, Y)
    assert "the schema was learnt from the same rows by votes of rows for their features" in again.guarantee_.sentence()
