"""Rows as dicts: the same learner as with arrays, bit for bit, and errors that name the offending entry."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest

import privol
from privol.errors import BudgetExceeded, InvalidParameter, InvalidRow, StateError
from privol.state import load_model, save_model

NAMES = ["wind", "age", "height"]
RNG = np.random.default_rng(12)
X = RNG.normal(size=(30, 3))
LABELS = np.where(X[:, 0] > 0, "yes", "no").tolist()
TARGETS = X[:, 1].tolist()
DICTS = [dict(zip(NAMES[::-1], x[::-1].tolist(), strict=True)) for x in X]
KINDS = ["AdaptiveFTRL", "DPFTRL", "LDPSGD", "NOGD", "PIGD", "PQFTL"]


def begun(name="NOGD", names=None, **words):
    settings = {"horizon": 100, "x_bound": 1.5, "epsilon": 5.0, "random_state": 4, "release": 1, **words}
    learner = getattr(privol, name)(**settings)
    if name != "PQFTL":
        learner.declare_classes(["no", "yes"])
    return learner if names is None else learner.declare_features(names)


@pytest.mark.parametrize("name", KINDS)
def test_the_same_bits_as_arrays(name):
    """Declared names fix the order of the weights, whatever the order in a dict; all number types are numbers."""
    named, plain = begun(name, NAMES), begun(name)
    targets = TARGETS if name == "PQFTL" else LABELS
    for k, (row, x, y) in enumerate(zip(DICTS, X, targets, strict=True)):
        if k % 5 == 4:
            row, x = {**row, "age": 1}, np.array([x[0], 1.0, x[2]])
        if k % 5 == 3:
            row, x = {**row, "wind": np.float32(0.1), "age": "0.5"}, [float(np.float32(0.1)), 0.5, x[2]]
        named.learn_one(row, y)
        plain.learn_one(x, y)
        np.testing.assert_array_equal(named.coef_, plain.coef_)
        assert named.predict_one(DICTS[0]) == plain.predict_one(X[0])
        assert type(named.predict_one(row)) is type(plain.predict_one(x))
    assert named.feature_names_in_.tolist() == NAMES
    assert named.guarantee_.conditions == plain.guarantee_.conditions
    if name in ("DPFTRL", "NOGD"):
        shares = named.predict_proba_one(DICTS[3])
        assert list(shares) == ["no", "yes"]
        np.testing.assert_allclose(list(shares.values()), plain.predict_proba(X[3:4])[0], rtol=1e-12)
        assert plain.predict_proba_one(X[3]) == shares


def test_a_first_row_gives_the_names():
    """Sorted, so that their order in the row reveals nothing; the guarantee states their source."""
    named, plain = begun(), begun()
    for row, x, y in zip(DICTS, X[:, np.argsort(NAMES)], LABELS, strict=True):
        named.learn_one(row, y)
        plain.learn_one(x, y)
    np.testing.assert_array_equal(named.coef_, plain.coef_)
    assert named.feature_names_in_.tolist() == sorted(NAMES)
    assert any("names of the features, which were found" in words for words in named.guarantee_.conditions)


def test_column_names_of_a_frame_are_used():
    learner = begun().partial_fit(pd.DataFrame(X[:20], columns=NAMES), LABELS[:20])
    plain = begun().partial_fit(X[:20], LABELS[:20])
    for learnt, row in ((learner, DICTS[20]), (plain, X[20])):
        learnt.learn_one(row, LABELS[20])
    np.testing.assert_array_equal(learner.coef_, plain.coef_)
    assert learner.predict_one(DICTS[3]) == plain.predict_one(X[3])
    with pytest.raises(InvalidParameter, match=r"\['a', 'b', 'c'\], as were declared, found \['wind'"):
        begun(names=["a", "b", "c"]).partial_fit(pd.DataFrame(X, columns=NAMES), LABELS)


BAD = [
    ({"wind": 1.0, "age": 2.0}, r"row 3 lacks 'height': allowed are the 3 names"),
    ({**DICTS[0], "extra": 1.0}, r"row 3 has 'extra': allowed are the 3 names"),
    ({"wind": 1.0, "age": 2.0, "Height": 3.0}, r"row 3 lacks 'height' and has 'Height'"),
    ({"wind": 1.0, "age": 2.0, "height": "tall"}, r"row 3, feature 'height': found 'tall'"),
    ({"wind": 1.0, "age": float("nan"), "height": 0.0}, r"row 3, feature 'age': found NaN"),
    ({"wind": 1.0, "age": 10**400, "height": 0.0}, r"row 3, feature 'age': found infinity"),
    ({}, r"row 3 lacks 'wind'"),
]


@pytest.mark.parametrize("name", ["DPFTRL", "PQFTL"])
@pytest.mark.parametrize(("row", "words"), BAD)
def test_a_bad_row_is_named_and_nothing_is_learnt(name, row, words):
    targets = TARGETS if name == "PQFTL" else LABELS
    learner, other = begun(name, NAMES), begun(name, NAMES)
    for learnt in (learner, other):
        for k in range(2):
            learnt.learn_one(DICTS[k], targets[k])
    spent = learner.ledger_.spent.mu
    with pytest.raises(InvalidRow, match=words):
        learner.learn_one(row, targets[2])
    with pytest.raises(InvalidParameter, match=r"x (lacks|has) '|x, feature 'height': found 'tall'|x must be finite"):
        learner.predict_one(row)
    assert learner.n_rows_ == 2
    assert learner.ledger_.spent.mu == spent
    for learnt in (learner, other):
        learnt.learn_one(DICTS[2], targets[2])
    np.testing.assert_array_equal(learner.coef_, other.coef_)


@pytest.mark.parametrize(("row", "words"), BAD)
def test_a_bad_row_is_a_null_row_where_that_is_declared(row, words):
    learner = begun(names=NAMES, on_invalid="zero").learn_one(DICTS[0], "no").learn_one(DICTS[1], "no")
    learner.learn_one(row, "yes")
    assert (learner.n_rows_, learner.n_null_rows_) == (3, 1)


def test_a_bad_first_row():
    learner = begun(names=NAMES)
    with pytest.raises(InvalidRow, match="row 1 lacks 'height'"):
        learner.learn_one({"wind": 1.0, "age": 2.0}, "yes")
    with pytest.raises(InvalidParameter, match=r"must be texts, at least one, found \[1\]"):
        begun().learn_one({1: 2.0}, "yes")
    assert not learner.__sklearn_is_fitted__()
    learner.learn_one(DICTS[0], "yes")
    with pytest.raises(InvalidParameter, match="the features have no names"):
        begun().learn_one(X[0], "yes").learn_one(DICTS[0], "yes")
    for names in ([], ["a", "a"], ["a", 1]):
        with pytest.raises(InvalidParameter, match="different texts"):
            begun(names=names)


def test_names_of_a_row_that_begins_no_run_are_forgotten():
    """No guarantee says that they are public; those of an earlier frame stay."""
    learner = privol.DPFTRL(horizon=50, random_state=1).declare_classes([0, 1])
    with pytest.raises(InvalidRow, match="label"):
        learner.learn_one({"secret": 1.0, "b": 2.0}, 7)
    assert not hasattr(learner, "feature_names_in_")
    assert b"secret" not in pickle.dumps(learner)
    learner.learn_one({"a": 0.1, "b": 0.2}, 1)
    with pytest.raises(InvalidRow, match="label"):
        learner.learn_one({"a": 0.1, "b": 0.2}, 7)
    assert learner.feature_names_in_.tolist() == ["a", "b"]


def test_the_horizon_holds_for_dicts():
    learner = begun(horizon=1).learn_one(DICTS[0], "yes")
    with pytest.raises(BudgetExceeded):
        learner.learn_one(DICTS[1], "yes")
    learner.close()
    with pytest.raises(StateError):
        learner.learn_one(DICTS[1], "yes")
    assert learner.predict_one(DICTS[1]) in ("yes", "no")


def test_users_count_with_dicts():
    named, plain = (begun(rows_per_user=1, names=names, on_invalid="zero") for names in (NAMES, None))
    for k in range(6):
        named.learn_one(DICTS[k], LABELS[k], user=k % 4)
        plain.learn_one(X[k], LABELS[k], user=k % 4)
    assert named.n_null_rows_ == plain.n_null_rows_ == 2
    np.testing.assert_array_equal(named.coef_, plain.coef_)


def test_names_are_kept(tmp_path):
    learner = begun(names=NAMES)
    for row, y in zip(DICTS, LABELS, strict=True):
        learner.learn_one(row, y)
    learner.close()
    save_model(learner, tmp_path)
    for copy in (pickle.loads(pickle.dumps(learner)), load_model(tmp_path)):
        assert copy.feature_names_in_.tolist() == NAMES
        assert [copy.predict_one(row) for row in DICTS] == [learner.predict_one(x) for x in X]
        with pytest.raises(InvalidParameter, match="x has 'extra'"):
            copy.predict_one({**DICTS[0], "extra": 0.0})
