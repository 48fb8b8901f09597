"""The table of users against plain Python: the rule for any cut, rows taken back, rows restored, bound, memory."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privol._core._seen import UserTable, user_digest
from privol.errors import InvalidParameter, StateError

KEY = bytes(range(16))


def coded(users):
    """Texts in the form that the table takes, one per row."""
    texts = [user.encode() for user in users]
    offsets = np.cumsum([0, *map(len, texts)]).astype(np.int64)
    return np.arange(len(users), dtype=np.int32), offsets, np.frombuffer(b"".join(texts) or b"\0", np.uint8)


def by_hand(users, k, b, every):
    """Which rows are kept, their numbers, and how many were too close, by the definition of the rule."""
    rows, kept, numbers, near, number = {}, [], [], 0, 0
    for user in users:
        mine = rows.setdefault(user, [])
        within = len(mine) < k
        keep = within and (not mine or number - mine[-1] >= b)
        near += within and not keep
        if keep:
            mine.append(number)
            numbers.append(number)
        kept.append(keep)
        number += keep or every
    return kept, numbers, near


USERS = st.lists(st.sampled_from(["a", "b", "c", "", "a longer name", "7"]), max_size=50)


@settings(max_examples=200, deadline=None)
@given(USERS, st.integers(1, 4), st.integers(1, 9), st.booleans(), st.lists(st.integers(0, 50), max_size=4), st.data())
def test_the_rule_in_any_cut_and_from_any_row_on(users, k, b, every, cuts, data):
    expected, numbers, near = by_hand(users, k, b, every)
    table = UserTable(k, b, every=every)
    bounds = [0, *sorted(min(cut, len(users)) for cut in cuts), len(users)]
    found = []
    for start, stop in itertools.pairwise(bounds):
        part = coded(users[start:stop])
        first = table.keep(*part, undoable=True)[0].tolist()
        learnt = data.draw(st.integers(0, stop - start))  # the other rows are taken back, twice, and given once more
        table.undo(learnt)
        table.keep(*coded(users[start + learnt : stop]), undoable=True)
        table.undo(0)
        found += [*first[:learnt], *table.keep(*coded(users[start + learnt : stop]))[0].tolist()]
    assert found == expected
    assert (table.near, len(table)) == (near, len(set(users)))
    # resumed from what was kept before any row
    r = data.draw(st.integers(0, len(users)))
    before, numbers, _ = by_hand(users[:r], k, b, every)
    other = UserTable(k, b, every=every, key=KEY)
    names = [user for user, keep in zip(users, before, strict=False) if keep]
    known = np.array([user_digest(KEY, name.encode()) for name in names], np.uint64).reshape(-1, 2)
    other.enter(known, np.array(numbers, np.int64))
    other.go_on(r if every else len(names))
    assert other.keep(*coded(users[r:]))[0].tolist() == expected[r:]


def test_digests_are_of_the_rows_that_are_kept():
    table = UserTable(1, key=KEY)
    keep, digests = table.keep(*coded(["a", "b", "a"]), undoable=True)
    assert keep.tolist() == [True, True, False]
    assert [tuple(row) for row in digests.tolist()] == [user_digest(KEY, b"a"), user_digest(KEY, b"b"), (0, 0)]
    # and reveal nothing without the key
    assert user_digest(bytes(16), b"a") != user_digest(KEY, b"a")
    one, other = (UserTable(1).keep(*coded(["a"]), undoable=True)[1].tolist() for _ in range(2))
    assert one != other


def test_users_are_told_apart_by_all_of_their_hash():
    UserTable(1).enter(np.array([[1, 2], [1, 3], [2, 2]], np.uint64), np.arange(3))


def test_the_limit_of_users_is_checked_before_rows_are_kept():
    table = UserTable(2, 3, max_users=3)
    assert table.keep(*coded("abc"), undoable=True)[0].all()
    for _ in range(2):
        with pytest.raises(OverflowError) as found:
            table.keep(*coded("aaadd"), undoable=True)
        assert found.value.args == (3,)
        assert (len(table), table.number) == (3, 3)
    assert table.keep(*coded("a"))[0].all()
    with pytest.raises(StateError, match="more than 3 users"):
        table.enter(np.array([[5, 5]], np.uint64), np.array([9]))


def test_taking_back_a_row_restores_the_previous_one():
    table = UserTable(3, 4, every=True)
    assert table.keep(*coded("xaxxya"), undoable=True)[0].tolist() == [True, True, False, False, True, True]
    table.undo(4)
    assert table.keep(*coded("aa"))[0].tolist() == [False, True]


def test_users_that_were_taken_back_make_room():
    table = UserTable(1, max_users=2)
    table.keep(*coded("ab"), undoable=True)
    table.undo(1)
    assert table.keep(*coded("ca"))[0].tolist() == [True, False]


def test_rows_that_may_not_have_been_kept_are_refused():
    digests, numbers = np.array([[1, 2], [1, 2]], np.uint64), np.array([0, 4])
    UserTable(2, 4).enter(digests, numbers)
    for table in (UserTable(1, 4), UserTable(2, 5)):
        with pytest.raises(StateError, match="row 4 is said to be kept"):
            table.enter(digests, numbers)


@pytest.mark.parametrize(("place", "value"), [(4, -(2**63)), (4, -1), (4, 2**48), (5, -1), (5, 2**63 - 1)])
def test_numbers_of_rows_that_no_table_has_are_refused(place, value):
    table = UserTable(2, 8, key=KEY)
    table.keep(*coded("ab"))
    arrays = table.secret_arrays()
    UserTable(2, 8).restore(arrays)
    arrays["counts"][place] = value
    with pytest.raises(StateError, match="damaged"):
        UserTable(2, 8).restore(arrays)
    digests = np.array([[1, 2]], np.uint64)
    if place == 4:
        with pytest.raises(StateError, match="numbered from 0"):
            UserTable(2, 8).enter(digests, np.array([value]))
        with pytest.raises(InvalidParameter, match="number must be"):
            UserTable(2, 8).go_on(value)


def test_bad_input_is_refused():
    codes, offsets, data = coded(["a", "b"])
    for bad in ((codes, offsets[::-1].copy(), data), (codes, offsets + 5, data), (codes + 1, offsets, data)):
        with pytest.raises(InvalidParameter):
            UserTable(1).keep(*bad)
    for words in ({"max_rows": 0}, {"separation": 0}, {"max_users": 0}, {"key": b"short"}, {"max_rows": 1 << 31}):
        with pytest.raises(InvalidParameter, match="must"):
            UserTable(**{"max_rows": 1, **words})
    with pytest.raises(StateError):
        pickle.dumps(UserTable(1))
    with pytest.raises(StateError):
        UserTable(1).undo(0)


@pytest.mark.parametrize(("separation", "least", "most"), [(1, 21, 24), (1000, 28, 33)])
def test_bytes_of_a_user(separation, least, most):
    """As the class documents, for any number of users from a few thousand on."""
    table = UserTable(200, separation)
    for start in range(0, 100_000, 10_000):
        table.keep(*coded([str(i) for i in range(start, start + 10_000)]))
        assert least * len(table) <= table.nbytes <= most * len(table)


@pytest.mark.slow
def test_two_million_users_in_flat_memory():
    """66 MB of entries, and as much again while they are moved; all other memory is that of a block."""
    import tracemalloc

    table = UserTable(3, 500)
    tracemalloc.start()
    try:
        for start in range(0, 2_000_000, 50_000):
            names = np.arange(start, start + 50_000).view(np.uint8)  # eight bytes each
            offsets = np.arange(0, 400_001, 8)
            assert table.keep(np.arange(50_000, dtype=np.int32), offsets, names)[0].all()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(table) == 2_000_000
    assert table.nbytes <= 33 * 2_000_000
    assert peak <= 2 * table.nbytes + 5_000_000
