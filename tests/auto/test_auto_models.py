"""PrivateClassifier and PrivateRegressor: the model of privol run, for any blocks and any kind of rows."""

from __future__ import annotations

import functools
import math

import numpy as np
import pandas
import polars
import pyarrow
import pytest
import scipy.sparse as sp
from auto_tools import labels_of, numbers_of, table
from cli_tools import privol_cli
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from privol import PrivateClassifier, PrivateRegressor
from privol.errors import BudgetExceeded, InvalidParameter, InvalidRow, StateError, StreamError
from privol.ledger import Ledger
from privol.state import load_model
from privol.streams import Schema

N = 1500
X = table(N)
CASES = {PrivateClassifier: labels_of(X), PrivateRegressor: numbers_of(X)}
BUDGET = {"epsilon": 30.0, "random_state": 0}


def model_of(estimator):
    """Everything that determines an estimator's predictions."""
    learner = estimator.learner_
    return estimator.schema_, learner.coef_.tolist(), np.asarray(learner.intercept_).tolist(), estimator.guarantee_


def whole(kind, rows=X, y=None, **words):
    return kind(**{**BUDGET, "reuse_rows": False, **words}).fit(rows, CASES[kind] if y is None else y)


@functools.cache
def fitted(kind):
    """One that several tests look at, and none changes."""
    return whole(kind)


# ---- one model, however it is learnt -----------------------------------------------------------------------


@pytest.mark.process
@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("epsilon", [30.0, 1.5])  # the first rows teach, or all do
def test_the_model_is_that_of_privol_run(kind, epsilon, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X.assign(goal=CASES[kind]).to_csv("rows.csv", index=False)
    loss = "squared" if kind is PrivateRegressor else "logistic"
    words = ("--epsilon", epsilon, "--seed", "0", "--loss", loss, "--out", "R", "--quiet", "--no-diagnostics")
    assert privol_cli("run", "rows.csv", "--target", "goal", *words).exit_code == 0
    ran = load_model("R")
    model = kind(epsilon=epsilon, random_state=0).fit(pandas.read_csv("rows.csv")[list(X)], CASES[kind])
    assert model.encoder_.reused_ == (epsilon == 1.5)
    assert np.array_equal(model.learner_.coef_, ran.coef_)
    assert np.array_equal(model.learner_.intercept_, ran.intercept_)
    assert model.learner_.guarantee_.mu == ran.guarantee_.mu
    of_file = kind(epsilon=epsilon, random_state=0).fit_stream("rows.csv", target="goal")
    assert np.array_equal(of_file.predict(X), model.predict(X))
    assert of_file.guarantee_.mu == model.guarantee_.mu
    assert of_file.feature_names_in_.tolist() == list(X)


@pytest.mark.parametrize("kind", CASES)
@given(cuts=st.sets(st.integers(1, N - 1), max_size=6), ones=st.integers(0, N - 40))
@settings(max_examples=5, deadline=None, derandomize=True)
def test_blocks_change_nothing(kind, cuts, ones):
    """Even if a phase of the encoding, or the encoding itself, ends within a block; some rows come one by one."""
    y = CASES[kind]
    model = kind(**BUDGET, horizon=N)
    for start, stop in zip([0, *sorted(cuts)], [*sorted(cuts), N], strict=True):
        at = start
        while at < stop:
            if ones <= at < ones + 20:
                model.learn_one(X.iloc[at].to_dict(), y[at])
                at += 1
                continue
            end = min(stop, ones) if at < ones else stop
            model.partial_fit(X[at:end], y[at:end])
            at = end
    assert model.n_rows_ == N
    assert model_of(model.close()) == model_of(fitted(kind))


@pytest.mark.parametrize("kind", CASES)
def test_kinds_of_rows_change_nothing(kind):
    y = CASES[kind]
    expected = model_of(fitted(kind))
    for rows in (polars.from_pandas(X), pyarrow.table(dict(X)), X.astype(object)):
        assert model_of(whole(kind, rows)) == expected
    for targets in (pandas.Series(y, index=range(7, N + 7)), polars.Series(y), pyarrow.array(y), y.tolist()):
        assert model_of(whole(kind, X, targets)) == expected
    cells = whole(kind, X.to_numpy(dtype=object))
    assert cells.learner_.coef_.tolist() == expected[1]
    assert [name for name, _ in cells.schema_.columns] == ["x0", "x1", "x2"]
    assert np.array_equal(cells.predict(X.to_numpy(dtype=object)), fitted(kind).predict(X))


def test_rows_are_predicted_by_themselves():
    model, one = fitted(PrivateClassifier), X.iloc[5].to_dict()
    shares = model.predict_proba(X)
    # NumPy sums a single row in another order
    assert np.allclose(model.predict_proba(X[5:6])[0], shares[5], rtol=1e-12)
    assert model.predict_proba_one(one) == pytest.approx(dict(zip(["ill", "well"], shares[5].tolist(), strict=True)))
    assert model.predict_one(one) == model.predict(X)[5]
    assert isinstance(model.predict_one(one), str)
    del one["town"]  # a missing cell
    assert model.predict_proba_one(one) == model.predict_proba_one({**one, "town": None})
    with pytest.raises(StreamError, match="'city'"):
        model.predict_one({"city": "Oslo"})
    expected = fitted(PrivateRegressor).predict(X)[5]
    assert fitted(PrivateRegressor).predict_one(X.iloc[5].to_dict()) == pytest.approx(expected, rel=1e-12)


def test_what_is_learnt():
    assert fitted(PrivateClassifier).score(X, CASES[PrivateClassifier]) > 0.8
    assert np.array_equal(
        fitted(PrivateClassifier).decision_function(X) > 0, fitted(PrivateClassifier).predict(X) == "well"
    )
    regressor = fitted(PrivateRegressor)
    assert regressor.score(X, CASES[PrivateRegressor]) > 0.8  # in the units of the target
    assert not regressor.encoder_.reused_
    low, high = regressor.schema_.target.range
    assert low < np.quantile(CASES[PrivateRegressor], 0.25)
    assert high > np.quantile(CASES[PrivateRegressor], 0.75)


def test_more_than_two_classes():
    y = np.array(["c", "a", "b"])[np.digitize(numbers_of(X), [100.0, 140.0])]
    model = whole(PrivateClassifier, X, y, epsilon=100.0)
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.decision_function(X).shape == model.predict_proba(X).shape == (N, 3)
    assert np.array_equal(model.classes_[model.predict_proba(X).argmax(axis=1)], model.predict(X))
    assert model.score(X, y) > 0.7


# ---- labels ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "labels",
    [
        np.array([0, 1]),
        np.array([10, 9]),
        np.array([-1.0, 1.0], dtype=np.float32),
        np.array([False, True]),
        np.array(["no", "yes"]),
        np.array(["Z", "a"], dtype=object),
        np.array([True, False], dtype=object),
    ],
    ids=repr,
)
def test_predicted_labels_have_their_original_type(labels):
    y = labels[(CASES[PrivateClassifier] == "ill").astype(int)]
    for words in ({}, {"classes": labels.tolist()}):
        model = whole(PrivateClassifier, X, y, **words)
        assert model.classes_.tolist() == sorted(labels.tolist())
        assert {type(label) for label in model.classes_.tolist()} == {type(labels.tolist()[0])}
        assert (model.predict(X) == y).mean() > 0.8
        assert np.array_equal(model.decision_function(X) > 0, model.predict(X) == model.classes_[1])
        assert (model.encoder_.plan_.labels == 0) == bool(words)  # no row is spent on declared labels


def test_labels_of_a_file(tmp_path):
    """Whole numbers are shown as such; the texts 10 and 9 are in numerical order where they are learnt."""
    file = tmp_path / "rows.csv"
    for labels, kind in ((["10", "9"], int), (["9", "x"], str)):
        y = np.array(labels)[(CASES[PrivateClassifier] == "ill").astype(int)]
        X.assign(y=y).to_csv(file, index=False)
        model = PrivateClassifier(**BUDGET, reuse_rows=False).fit_stream(file)
        assert model.classes_.tolist() == sorted(map(kind, labels))
        assert (model.predict(X).astype(str) == y).mean() > 0.8
        assert model_of(model)[1] == model_of(whole(PrivateClassifier, X, y.astype(int) if kind is int else y))[1]


@pytest.mark.parametrize(
    ("label", "says"),
    [
        (None, "row 8, target"),
        (math.nan, "row 8, target"),
        ("?", "stands for a missing one"),
        ("1.0", "is read as '1'"),
        (1, "which are text so far"),
        (b"ill", "allowed are labels"),
    ],
)
def test_a_bad_label_is_refused_before_anything_is_spent(label, says):
    y = CASES[PrivateClassifier].astype(object)
    y[7] = label
    model = PrivateClassifier(**BUDGET)
    with pytest.raises(InvalidRow, match=says):
        model.fit(X, y)
    assert model._ledger().accounts == ()
    without = y.copy()
    without[7] = None
    lenient = {"on_invalid": "zero", "reuse_rows": False}
    if label != "1.0":  # a label, though a rare one
        expected = model_of(whole(PrivateClassifier, X, without, **lenient))
        assert model_of(whole(PrivateClassifier, X, y, **lenient)) == expected


def test_undeclared_labels_are_refused_or_make_null_rows(tmp_path):
    y = CASES[PrivateClassifier].copy().astype(object)
    y[[3, N - 3]] = "dead"
    with pytest.raises(InvalidRow, match=r"row 4, target: found 'dead', allowed are the labels \['ill', 'well'\]"):
        whole(PrivateClassifier, X, y, classes=["ill", "well"])
    lenient = whole(PrivateClassifier, X, y, classes=["ill", "well"], on_invalid="zero")
    file = tmp_path / "rows.csv"
    X.assign(y=y).to_csv(file, index=False)
    words = {**BUDGET, "reuse_rows": False, "classes": ["well", "ill"]}
    assert model_of(PrivateClassifier(**words, on_invalid="zero").fit_stream(file))[1] == model_of(lenient)[1]
    with pytest.raises(StreamError, match="'dead'"):
        PrivateClassifier(**words).fit_stream(file)


# ---- what is refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"adjacency": "add"}, "adjacency"),
        ({"on_invalid": "drop"}, "on_invalid"),
        ({"reuse_rows": 1}, "reuse_rows"),
        ({"release": 0}, "release"),
        ({"drop": ["size"]}, "'size'"),
        ({"crosses": [("age", "size")]}, "size"),
        ({"ledger": "mine"}, "ledger"),
        ({"horizon": N - 1}, "exceed the horizon"),
        ({"horizon": 10**9}, "fewer than"),
        ({"classes": ["ill"]}, "classes"),
        ({"classes": ["ill", 1]}, "one kind"),
        ({"declared": {"target": {"column": "y", "classes": ["ill", "well"]}}}, "target"),
    ],
    ids=str,
)
def test_parameters_are_refused_before_anything_is_spent(words, says):
    model = PrivateClassifier(**{**BUDGET, **words})
    with pytest.raises((InvalidParameter, BudgetExceeded, StreamError), match=says):
        model.fit(X, CASES[PrivateClassifier])
    assert "_own_ledger" not in vars(model) or model._own_ledger.accounts == ()


def test_unsupported_inputs_and_missing_horizons_are_refused():
    y, model = CASES[PrivateClassifier], PrivateClassifier(**BUDGET)
    with pytest.raises(InvalidParameter, match="sparse"):
        model.fit(sp.eye(N, format="csr"), y)
    with pytest.raises(InvalidParameter, match="horizon must be given"):
        model.partial_fit(X, y)
    with pytest.raises(InvalidParameter, match="reads rows twice"):
        PrivateClassifier(**BUDGET, horizon=N, reuse_rows=True).partial_fit(X, y)
    with pytest.raises(InvalidParameter, match="schema is not for fit_stream"):
        model.fit_stream(X, schema=Schema())
    with pytest.raises(NotFittedError, match="call fit first"):
        model.predict(X)
    assert model._ledger().accounts == ()


@pytest.mark.parametrize("at", [10, N - 10])  # among the rows that teach, or among those that are learnt
def test_a_block_with_a_bad_row_is_refused_whole(at):
    y, odd = CASES[PrivateClassifier], X.astype(object)
    odd.iat[at, 1] = {"a": 1}
    model = PrivateClassifier(**BUDGET, horizon=N)
    bad = y.astype(object)
    bad[at] = None
    with pytest.raises(StreamError, match=f"row {at + 1}, column 'town'"):
        model.partial_fit(odd, y)
    assert model._ledger().accounts == ()
    model.partial_fit(X[: at - 5], y[: at - 5])
    with pytest.raises(InvalidRow, match=f"row {at + 1},"):
        model.partial_fit(X[at - 5 :], bad[at - 5 :])
    with pytest.raises(StreamError, match="row 6, column 'town'"):  # of the block
        model.partial_fit(odd[at - 5 :], y[at - 5 :])
    assert model.n_rows_ == at - 5
    with pytest.raises(BudgetExceeded, match="exceed the horizon"):
        model.partial_fit(X, y)
    model.partial_fit(X[at - 5 :], y[at - 5 :]).close()
    assert model_of(model) == model_of(fitted(PrivateClassifier))
    with pytest.raises(StateError, match="closed"):
        model.partial_fit(X, y)


def test_rows_that_cannot_be_read_are_null_rows():
    y, odd, empty = CASES[PrivateClassifier].astype(object), X.astype(object), X.astype(object)
    empty.iloc[[10, N - 10]], odd.iat[10, 1], odd.iat[N - 10, 0] = None, [1, 2], "\ud800"
    gone = y.copy()
    gone[[10, N - 10]] = None
    words = {"on_invalid": "zero"}
    expected = model_of(whole(PrivateClassifier, empty, gone, **words))
    assert model_of(whole(PrivateClassifier, odd, y, **words)) == expected
    cells = whole(PrivateClassifier, odd.to_numpy(dtype=object), y, **words)
    assert cells.learner_.coef_.tolist() == expected[1]


def test_targets_that_are_not_numbers_are_refused():
    y = CASES[PrivateRegressor].astype(object)
    for odd in (math.inf, math.nan, None, "many"):
        y[20] = odd
        with pytest.raises(InvalidRow, match=r"row 21, target: found .* finite numbers"):
            whole(PrivateRegressor, X, y)
    assert whole(PrivateRegressor, X, y, on_invalid="zero").n_rows_ == N


# ---- what is declared --------------------------------------------------------------------------------------


def test_a_declared_range_costs_no_row():
    model = whole(PrivateRegressor, target_range=(0.0, 240.0))
    assert not model.encoder_.plan_.target
    assert model.encoder_.plan_.rows < fitted(PrivateRegressor).encoder_.plan_.rows
    assert model.score(X, CASES[PrivateRegressor]) > 0.8
    for pair in ((1.0, 1.0), (0.0, math.nan), 3.0, (1.0, 2.0, 3.0)):
        with pytest.raises(InvalidParameter, match="target_range"):
            whole(PrivateRegressor, target_range=pair)


@pytest.mark.parametrize("missing", ["refuse", "nan"])
def test_a_declared_column_refuses_undeclared_cells(missing):
    declared = {"columns": {"age": {"range": [0, 100], "missing": missing}}}
    y, full = CASES[PrivateClassifier], X.assign(age=X["age"].fillna(50.0))
    at = N - 10
    hole = full.copy()
    hole.loc[at, "age"] = np.nan
    model = PrivateClassifier(**BUDGET, declared=declared, reuse_rows=False)
    with pytest.raises((StreamError, InvalidRow), match=f"row {at + 1}"):
        model.fit(hole, y)
    assert model._ledger().accounts == ()
    model.fit(full, y)
    assert model.schema_.columns[0][1].range == (0.0, 100.0)
    assert model.encoder_.plan_.columns == 2


def test_methods_before_the_first_model_raise():
    y = CASES[PrivateClassifier]
    model = PrivateClassifier(**BUDGET, horizon=N).partial_fit(X[:5], y[:5])
    with pytest.raises(NotFittedError, match=rf"the first {model.encoder_.plan_.rows} rows teach .* and 5 have come"):
        model.predict(X)
    assert model.n_rows_ == 5
    assert model.guarantee_ == model.encoder_.guarantee_
    assert [entry.learner for entry in model.ledger_.entries()] == ["PrivateEncoder"]
    model.partial_fit(X[5:20], y[5:20], classes=None)
    with pytest.raises(InvalidParameter, match="classes must stay learnt"):
        model.partial_fit(X[20:30], y[20:30], classes=["ill", "well"])


def test_labels_passed_to_partial_fit_are_used():
    y = CASES[PrivateClassifier]
    model = PrivateClassifier(**BUDGET, horizon=N)
    for start in (0, 700):
        model.partial_fit(X[start : start + 700], y[start : start + 700], classes=["well", "ill"])
    model.partial_fit(X[1400:], y[1400:]).close()
    assert model_of(model) == model_of(whole(PrivateClassifier, classes=["ill", "well"]))


def test_an_encoding_lost_in_noise_is_paid_for_and_ends_the_run():
    ledger = Ledger()
    model = PrivateClassifier(epsilon=0.01, horizon=N, ledger=ledger, random_state=0)
    with pytest.raises(StreamError):
        model.partial_fit(X, CASES[PrivateClassifier])
    assert [entry.open for entry in ledger.entries()] == [False]
    assert ledger.spent.mu == pytest.approx(ledger.accounts[0].guarantee.mu, rel=1e-9)
    with pytest.raises(StateError):
        model.partial_fit(X, CASES[PrivateClassifier])
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_an_interrupt_ends_the_run(monkeypatch):
    """The caller cannot know which rows of the block were counted, and would pass some of them twice."""
    model = PrivateClassifier(**BUDGET, horizon=N, reuse_rows=False)
    model.partial_fit(X[:1000], CASES[PrivateClassifier][:1000])
    before = model.learner_.n_rows_

    def interrupted(learner, rows, y):
        raise KeyboardInterrupt

    with monkeypatch.context() as m:
        m.setattr("privol.auto.course.learn_rows", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(X[1000:1200], CASES[PrivateClassifier][1000:1200])
    with pytest.raises(StateError, match="the run is closed"):
        model.partial_fit(X[1000:1200], CASES[PrivateClassifier][1000:1200])
    assert model.learner_.n_rows_ == before
    assert not any(entry.open for entry in model.ledger_.entries())
