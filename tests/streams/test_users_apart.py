"""Separated rows of a user, and surplus rows that are dropped or null: against plain Python, in any cut."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schema_tables import TableColumns, pa, whole

import privol
from privol.encoding.schema import Schema
from privol.errors import InvalidParameter
from privol.guarantees import Guarantee
from privol.streams import open_stream
from privol.streams._encoded import schema_source

pytestmark = pytest.mark.slow


def capped(users, k, *, cut=1000, **more):
    table = {"row": list(range(len(users))), "who": users, "y": [0.0] * len(users)}
    user = {"column": "who", "max_rows": k, **more}
    schema = Schema.load({"columns": {"row": {}}, "target": {"column": "y"}, "user": user})
    columns = TableColumns(table, cut=cut)
    return columns, schema_source(schema, columns)[0]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=60),
    st.integers(1, 5),
    st.integers(2, 20),
    st.integers(1, 13),
)
def test_rows_of_a_user_are_kept_apart(users, k, apart, cut):
    """By the definition, row by row; the distance counts kept rows, and cuts change nothing."""
    seen, last, kept, near = Counter(), {}, [], 0
    for i, user in enumerate(users):
        if seen[user] >= k:
            continue
        if user in last and len(kept) - last[user] < apart:
            near += 1
            continue
        seen[user] += 1
        last[user] = len(kept)
        kept.append(i)
    _, source = capped(users, k, cut=cut, separation=apart)
    assert (source.facts.rows_per_user, source.facts.user_separation) == (k, apart)
    for _ in range(2):  # and again from the start
        assert whole(source)[0][:, 0].tolist() == kept
        assert source.counts == {"over_user_cap": len(users) - len(kept) - near, "too_near": near}
    assert source.count() == len(kept)
    learnt = [users[i] for i in kept]
    places = [[t for t, user in enumerate(learnt) if user == who] for who in set(learnt)]
    assert all(b - a >= apart for places_of in places for a, b in itertools.pairwise(places_of))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=60),
    st.integers(1, 5),
    st.integers(1, 20),
    st.integers(1, 13),
)
def test_surplus_rows_that_are_null_keep_their_place(users, k, apart, cut):
    """By the definition: the fate of a row depends on the positions of its own user's rows alone."""
    learnt = []
    for who in set(users):
        places, last = [i for i, user in enumerate(users) if user == who], -apart
        for i in places:
            if i - last >= apart and sum(users[j] == who for j in learnt) < k:
                learnt.append(i)
                last = i
    _, source = capped(users, k, cut=cut, separation=apart, surplus="null")
    facts = source.facts
    assert (facts.rows_per_user, facts.user_separation, facts.users_fixed) == (k, apart, False)
    X, y = whole(source)
    assert X[:, 0].tolist() == list(range(len(users)))
    assert np.flatnonzero(~np.isnan(y)).tolist() == sorted(learnt)
    assert source.count() == len(users)
    assert sum(source.counts.values()) == len(users) - len(learnt)
    # another user's rows in place of one's: nothing changes for the others
    _, other = capped([user if user != "a" else "somebody" for user in users], k, separation=apart, surplus="null")
    assert np.array_equal(whole(other)[1], y, equal_nan=True)


def test_null_rows_need_learners_that_take_them():
    rng = np.random.default_rng(0)
    table = {"x": rng.normal(size=60).tolist(), "who": list("abc") * 20, "y": ["1", "0"] * 30}
    user = {"column": "who", "max_rows": 2, "separation": 6, "surplus": "null"}
    target = {"column": "y", "negative": ["0"], "positive": ["1"]}
    schema = Schema.load({"columns": {"x": {"range": [-3, 3]}}, "target": target, "user": user})
    stream = open_stream(pa.table(table), schema=schema)
    for kind in (privol.DPFTRL, privol.OutputPerturbation):
        with pytest.raises(InvalidParameter, match="on_invalid must be 'zero'"):
            kind().fit_stream(stream)
    learner = privol.DPFTRL(on_invalid="zero", rows_per_user=2, user_separation=6).fit_stream(stream)
    promise = learner.guarantee_
    assert (promise.users_fixed, promise.horizon, learner.n_rows_) == (False, 60, 60)
    assert "whose rows they are may change with them, to somebody's who has no others" in promise.sentence()
    assert "held fixed" not in promise.sentence()
    assert "who is the same in both or has no other rows in either" in promise.sentence()
    assert Guarantee.from_json(promise.to_json()) == promise
    with pytest.raises(InvalidParameter, match="surplus must be"):
        Schema.load({"columns": {"x": {}}, "target": target, "user": {**user, "surplus": "keep"}})


def test_many_users_are_kept_apart():
    """More than the first table, which grows: each of 5,000 users returns after 5,000 rows, or too early."""
    users = [str(i) for i in range(5000)] * 2
    _, source = capped(users, 3, separation=5000)
    assert len(whole(source)[0]) == 10_000
    _, source = capped(users, 3, separation=5001)
    assert len(whole(source)[0]) == 5000
    assert source.counts == {"over_user_cap": 0, "too_near": 5000}


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 4)), min_size=1, max_size=40),
    st.integers(1, 3),
    st.integers(1, 8),
    st.integers(1, 6),
    st.integers(1, 13),
)
def test_surplus_rows_are_null_where_labels_come_later(rows, k, apart, window, cut):
    """First the labels are joined; then the fate of a row depends on its own user's joined rows alone."""
    events, joined = [], []  # (key, feature, label, user): the label of row i arrives after row i + later
    for i, (user, later) in enumerate(rows):
        events.append((i, (f"k{i}", float(i), None, user)))
        events.append((i + later, (f"k{i}", None, 0.5 + i, None)))
    events = [event for _, event in sorted(events, key=lambda found: found[0])]
    waiting: dict[str, int] = {}
    for key, _, label, _ in events:  # at most `window` wait
        if label is not None:
            if key in waiting:
                joined.append(waiting.pop(key))
            continue
        if len(waiting) == window:
            waiting.pop(next(iter(waiting)))
        waiting[key] = int(key[1:])
    learnt: dict[str, list[int]] = {}
    expected = []
    for place, row in enumerate(joined):
        mine = learnt.setdefault(rows[row][0], [])
        kept = len(mine) < k and (not mine or place - mine[-1] >= apart)
        if kept:
            mine.append(place)
        expected.append(0.5 + row if kept else np.nan)

    def read(name):
        names = [None if user is None else name.get(user, user) for *_, user in events]
        table = {"k": [e[0] for e in events], "f": [e[1] for e in events], "y": [e[2] for e in events], "who": names}
        schema = {
            "columns": {"f": {}},
            "target": {"column": "y"},
            "user": {"column": "who", "max_rows": k, "separation": apart, "surplus": "null"},
            "delay": {"key": "k", "window": window},
        }
        source = schema_source(Schema.load(schema), TableColumns(table, cut=cut))[0]
        assert (source.facts.users_fixed, source.facts.n_rows) == (False, None)
        assert len(source.facts.conditions) == 2
        assert source.count() == len(joined)
        return whole(source)

    X, y = read({})
    assert X[:, 0].tolist() == [float(row) for row in joined]
    assert np.array_equal([] if y is None else y, expected, equal_nan=True)
    _, other = read({"a": "somebody"})
    assert np.array_equal([] if other is None else other, expected, equal_nan=True)
