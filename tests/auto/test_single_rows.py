"""Single dicts are learnt and predicted as blocks of them, and mostly without making a block."""

from __future__ import annotations

import pickle
import random
from datetime import date

import numpy as np
import pytest

from privol import PrivateClassifier, PrivateRegressor
from privol.errors import BudgetExceeded, InvalidRow, StateError, StreamError
from privol.ledger import Ledger

HORIZON, EPSILON = 1500, 50.0
TOWNS = "Oslo", "Bergen", "Zürich"
DECLARED = {"columns": {"size": {"range": [-4.0, 4.0], "missing": "indicator"}, "town": {"levels": list(TOWNS)}}}


def rows(n, seed=0, *, odd=True):
    rng = random.Random(seed)
    for k in range(n):
        age, size, town = rng.gauss(50, 10), rng.gauss(0, 1), rng.choice(TOWNS)
        row = {"age": age, "size": size, "town": town, "count": rng.randrange(9), "when": f"2021-0{1 + k % 9}-11"}
        if odd and k % 7 == 3:
            row["age"] = rng.choice([None, "12.5", "old", float("nan"), True, 44])
        if odd and k % 11 == 5:
            del row["town"]
        yield row, age / 10 + size + (town == "Oslo") + rng.gauss(0, 0.3)


def cut(y, labels):
    return labels[min(int(max(y - 3, 0) / 3 * len(labels)), len(labels) - 1)]


CASES = {
    "text": (PrivateClassifier, {}, lambda y: cut(y, ["low", "high"])),
    "declared labels": (PrivateClassifier, {"classes": [1, 0]}, lambda y: cut(y, [0, 1])),
    "three": (PrivateClassifier, {"classes": ["a", "b", "c"]}, lambda y: cut(y, ["a", "b", "c"])),
    "truth": (PrivateClassifier, {"classes": [False, True], "declared": DECLARED}, lambda y: y > 5),
    "null rows": (PrivateClassifier, {"on_invalid": "zero"}, lambda y: cut(y, ["low", "high", None])),
    "crossed": (PrivateClassifier, {"crosses": [("age", "size")], "drop": ["when"]}, lambda y: cut(y, ["low", "high"])),
    "real": (PrivateRegressor, {}, float),
    "real, declared": (PrivateRegressor, {"target_range": (2.0, 8.0), "declared": DECLARED}, float),
}


def made(case, **words):
    kind, settings, label = CASES[case]
    table = [(x, label(y)) for x, y in rows(HORIZON)]
    return kind(epsilon=EPSILON, horizon=HORIZON, random_state=3, **{**settings, **words}), table


def count_blocks(model, monkeypatch):
    """How often a row was handled as a block, and how many blocks had more than one row."""
    alone, together = [], []
    own = model._partial_fit

    def counted(X, *rest, **words):
        (alone if len(X) == 1 else together).append(len(X))
        return own(X, *rest, **words)

    monkeypatch.setattr(model, "_partial_fit", counted)
    return alone, together


def check_same(model, other, table):
    assert model.n_rows_ == other.n_rows_
    assert model.n_releases_ == other.n_releases_
    assert model.schema_ == other.schema_
    np.testing.assert_array_equal(model.learner_.coef_, other.learner_.coef_)
    assert model.guarantee_ == other.guarantee_
    assert [entry.rows for entry in model.ledger_.accounts] == [entry.rows for entry in other.ledger_.accounts]
    x = [row for row, _ in table[:50]]
    np.testing.assert_array_equal(model.predict(x), other.predict(x))


@pytest.mark.parametrize("case", CASES)
def test_the_same_bits_as_blocks(case, monkeypatch):
    one, table = made(case)
    two, _ = made(case)
    alone, together = count_blocks(one, monkeypatch)
    for k, (x, y) in enumerate(table):
        assert one.learn_one(x, y) is one
        assert one.n_rows_ == k + 1
    for start in range(0, HORIZON, 499):
        block = table[start : start + 499]
        two.partial_fit([x for x, _ in block], [y for _, y in block])
    check_same(one, two, table)
    assert sum(together) > one._course.teaches - 20
    assert len(alone) < 20, alone
    with pytest.raises(BudgetExceeded, match=f"{HORIZON} of {HORIZON} are used"):
        one.learn_one(*table[0])
    check_same(one.close(), two.close(), table)


@pytest.mark.parametrize("case", ["text", "three", "real", "real, declared", "crossed"])
def test_predictions_of_single_rows(case):
    model, table = made(case)
    model.partial_fit([x for x, _ in table], [y for _, y in table])
    X = [x for x, _ in table[:60]] + [{}, {"age": 1.0}, {"when": date(2020, 1, 1)}]
    model.predict_one(X[0])
    for again in (model, pickle.loads(pickle.dumps(model))):
        found, blocks = [again.predict_one(x) for x in X], again.predict(X)
        if case.startswith("real"):
            np.testing.assert_allclose(found, blocks, rtol=1e-12)
            continue
        assert found == blocks.tolist()
        shares = np.array([list(again.predict_proba_one(x).values()) for x in X])
        np.testing.assert_allclose(shares, again.predict_proba(X), rtol=1e-10)
        assert list(again.predict_proba_one(X[0])) == again.classes_.tolist()
    with pytest.raises(StreamError, match="'else'"):
        model.predict_one({"else": 1.0})
    with pytest.raises(StreamError, match="column 'age'"):
        model.predict_one({"age": [1.0]})


def spoilt(model, x, y):
    """Rows that are refused, and what their errors name."""
    yield {**x, "age": [1.0]}, y, StreamError, "column 'age'"
    yield {**x, "age": object()}, y, StreamError, "column 'age'"
    yield {**x, "town": "\ud800"}, y, (StreamError, UnicodeEncodeError), "town|surrogate"
    yield {**x, "else": 1.0}, y, StreamError, "'else'"
    yield x, None, InvalidRow, "target"
    yield x, 1 + 2j if isinstance(model, PrivateClassifier) else float("inf"), InvalidRow, "target"
    if model.declared is not None:
        yield {**x, "size": "large"}, y, StreamError, "column 'size'"
        yield {**x, "size": 2**60}, y, StreamError, "column 'size'"


@pytest.mark.parametrize("case", ["text", "declared labels", "truth", "real, declared"])
def test_what_is_refused_is_not_learnt(case):
    """At any point of a run, its result is as if nobody had tried."""
    model, table = made(case)
    plain, _ = made(case)
    for k, (x, y) in enumerate(table):
        if k in (1, 2, 300, HORIZON - 2):
            spent = model.ledger_.spent if k else 0.0
            for bad, target, error, words in spoilt(model, x, y):
                with pytest.raises(error, match=words):
                    model.learn_one(bad, target)
                assert model.n_rows_ == k
                assert model.ledger_.spent == spent
        model.learn_one(x, y)
        plain.learn_one(x, y)
    check_same(model, plain, table)


def test_unreadable_rows_are_null_rows():
    one, table = made("null rows")
    two, _ = made("null rows")
    rng = random.Random(5)
    bad = [{"age": [1]}, {"else": 1}, {"when": object()}, {"town": "\ud800"}, {"count": 10**500}]
    table = [({**x, **rng.choice(bad)}, y) if k % 13 == 4 else (x, y) for k, (x, y) in enumerate(table)]
    for x, y in table:
        one.learn_one(x, y)
    two.partial_fit([x for x, _ in table], [y for _, y in table])
    check_same(one, two, [row for row in table if set(row[0]) <= set(table[0][0])][:50])


def test_dicts_and_blocks_may_alternate():
    one, table = made("text")
    two, _ = made("text")
    start = 0
    while start < HORIZON:
        for x, y in table[start : start + 37]:
            one.learn_one(x, y)
        block = table[start + 37 : start + 60]
        if block:
            one.partial_fit([x for x, _ in block], [y for _, y in block])
        start += 60
    two.partial_fit([x for x, _ in table], [y for _, y in table])
    check_same(one, two, table)


def test_rows_that_wait_are_counted():
    ledger = Ledger()
    model, table = made("text", ledger=ledger)
    for k, (x, y) in enumerate(table[:9]):
        model.learn_one(x, y)
        assert ledger.accounts[0].counts()[0] == k + 1
    assert model._waiting() > 0
    x = dict(table[9][0])
    model.learn_one(x, table[9][1])
    x["age"] = [1.0]  # the caller owns the dict
    x.clear()
    assert model.n_rows_ == 10
    model.close()
    assert ledger.accounts[0].counts()[0] == 10
    with pytest.raises(StateError, match="closed"):
        model.learn_one(*table[10])


def test_changed_parameters_affect_only_later_rows():
    """A label that was once accepted is remembered, if labels are."""
    model, table = made("null rows")
    for x, y in table[:20]:
        model.learn_one(x, y)
    waited = model._waiting()
    assert waited
    model.on_invalid = "raise"
    assert (model._waiting(), model.n_rows_) == (0, 20)
    with pytest.raises(InvalidRow, match="target"):
        model.learn_one(table[0][0], None)
    with pytest.raises(StreamError, match="column 'age'"):
        model.learn_one({"age": [1.0]}, "low")
    assert model.n_rows_ == 20


def test_equal_labels_of_different_types_are_different_labels():
    """1, 1.0 and True are equal, but their texts differ; NumPy's values behave as those that they equal."""
    one, table = made("declared labels")
    two, _ = made("declared labels")
    shapes = [int, float, np.int64, np.float64, bool]
    table = [(x, shapes[k % 5](y)) for k, (x, y) in enumerate(table)]
    for x, y in table:
        one.learn_one(x, y)
    targets = np.empty(len(table), dtype=object)
    targets[:] = [y for _, y in table]
    two.partial_fit([x for x, _ in table], targets)
    check_same(one, two, table)
    with pytest.raises(InvalidRow, match="target"):
        one.learn_one(table[0][0], "yes")


def test_rows_with_users_are_handled_as_blocks():
    model, table = made("text", rows_per_user=5)
    two, _ = made("text", rows_per_user=5)
    X, y, users = [x for x, _ in table], [y for _, y in table], [k // 5 for k in range(HORIZON)]
    model.partial_fit(X[:-50], y[:-50], users=users[:-50])
    for k in range(HORIZON - 50, HORIZON):
        model.learn_one(*table[k], user=k // 5)
    two.partial_fit(X, y, users=users)
    check_same(model, two, table)
    with pytest.raises(InvalidRow, match="user"):
        made("text", rows_per_user=1)[0].learn_one(*table[0], user=1).learn_one(*table[1], user=1)
