"""Prefix sums that count the rows of users: the cap by its definition, the guarantee, and resuming a run."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from privol.errors import BudgetExceeded, InvalidParameter, InvalidRow, StateError
from privol.guarantees import COLLISION, gdp_mu
from privol.prefix import PrefixSum, SymmetricSum

WORDS = {"horizon": 60, "epsilon": 2.0, "delta": 1e-6, "random_state": 5, "rows_per_user": 3, "user_separation": 4}


def surplus_rows(users: np.ndarray, k: int, b: int) -> np.ndarray:
    """Rows beyond the cap, or too close to the last counted row of their user, by the definition of the rule."""
    learnt: dict[int, list[int]] = {}
    found = np.zeros(len(users), dtype=bool)
    for t, user in enumerate(users.tolist()):
        mine = learnt.setdefault(user, [])
        found[t] = len(mine) >= k or (bool(mine) and t - mine[-1] < b)
        if not found[t]:
            mine.append(t)
    return found


def counted(**more):
    return PrefixSum(dim=2, **{**WORDS, "count_users": True, "on_invalid": "zero", **more})


@pytest.fixture
def rows():
    rng = np.random.default_rng(1)
    return rng.uniform(-0.7, 0.7, (60, 2)), rng.integers(0, 9, 60)


LAYOUTS = {"dense": np.asarray, "csr": sp.csr_array, "32": lambda X: X.astype(np.float32)}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("leaf", [1, 4])
def test_surplus_rows_are_zeros_in_any_cut(rows, layout, leaf):
    X, users = rows
    surplus = surplus_rows(users, 3, 4)
    assert 10 < surplus.sum() < 50
    by_hand = layout(np.where(surplus[:, None], 0.0, X))
    expected = PrefixSum(dim=2, **WORDS, leaf=leaf).add_block(by_hand)
    given = layout(X)
    before = given.copy()
    assert np.array_equal(counted(leaf=leaf).add_block(given, users=users), expected)
    assert abs(given - before).max() == 0.0  # the caller's rows do not change
    cut = counted(leaf=leaf)
    parts = [cut.add_block(given[:7], users=users[:7])]
    parts += [cut.add(X[t].astype(given.dtype), user=int(users[t]))[None] for t in range(7, 20)]
    parts.append(cut.add_block(given[20:], users=[f" {user} " for user in users[20:]]))
    assert np.array_equal(np.concatenate(parts), expected)


@pytest.mark.parametrize("gram", [True, False])
def test_sums_of_matrices_count_users_too(rows, gram):
    X, users = rows
    kept = np.where(surplus_rows(users, 3, 4)[:, None], 0.0, X)
    given, by_hand = (X, kept) if gram else (X[:, :, None] * X[:, None, :], kept[:, :, None] * kept[:, None, :])
    words = {**WORDS, "dim": 2, "gram": gram}
    sums = SymmetricSum(**words, count_users=True, on_invalid="zero")
    expected = SymmetricSum(**words).add_block(by_hand)
    assert np.array_equal(sums.add_block(given[:59], users=users[:59]), expected[:59])
    assert np.array_equal(sums.add(given[59], user=users[59]), expected[59])


def test_the_guarantee_states_who_counts_users(rows):
    X, users = rows
    sums, unchecked = counted(), PrefixSum(dim=2, **WORDS)
    said = sums.guarantee_.sentence()
    assert "counts the rows of every user" in said
    assert "nobody checks" not in said
    assert "nobody checks it" in unchecked.guarantee_.sentence()
    assert sums.guarantee_.collision == COLLISION > unchecked.guarantee_.collision == 0.0
    assert sums.guarantee_.mu == unchecked.guarantee_.mu
    tight = counted(epsilon=1.0, delta=2 * COLLISION).guarantee_.mu  # half of it is left for the noise
    assert tight == pytest.approx(gdp_mu(1.0, COLLISION), rel=1e-9)
    assert tight < gdp_mu(1.0, 2 * COLLISION) * 0.999
    sums.add_block(X, users=users)
    spent = sums.ledger_.spent
    assert (spent.mu, spent.collision) == (sums.guarantee_.mu, COLLISION)
    with pytest.raises(InvalidParameter, match="count_users=True"):
        unchecked.add_block(X, users=users)
    with pytest.raises(InvalidParameter, match="count_users=True"):
        unchecked.add(X[0], user=3)
    fresh = counted()
    with pytest.raises(InvalidParameter, match="found none"):
        fresh.add(X[0])
    with pytest.raises(InvalidParameter, match=r"shape \(60,\)"):
        fresh.add_block(X, users=users[:59])
    assert fresh.n_rows_ == 0
    with pytest.raises(InvalidParameter, match="rows_per_user"):
        PrefixSum(dim=2, horizon=5, count_users=True)
    with pytest.raises(InvalidParameter, match="count_users must be True or False"):
        counted(count_users=1)
    with pytest.raises(InvalidParameter, match="delta"):
        counted(delta=COLLISION / 2)


def test_rows_that_are_refused_do_not_count(rows):
    X, _ = rows
    sums = counted(on_invalid="raise", horizon=8)
    sums.add_block(X[:3], users=["a", "b", "c"])
    with pytest.raises(InvalidRow, match="row 5: its user has 3 rows already, or one less than 4 rows ago") as found:
        sums.add_block(X[3:6], users=["d", "b", "e"])
    assert found.value.row == 5
    with pytest.raises(InvalidRow, match=r"row 4: .* for its user"):
        sums.add_block(X[3:6], users=[None, "b", "e"])
    with pytest.raises(BudgetExceeded):
        sums.add_block(X[3:9], users=list("defgha"))
    with pytest.raises(InvalidRow, match="feature 1"):
        sums.add_block([[0.0, np.nan]], users=["d"])
    assert sums.n_rows_ == 3
    sums.add_block(X[3:6], users=["d", "a", "b"])  # none of the earlier rows had counted
    assert sums.n_rows_ == 6


def test_a_restored_run_remembers_its_users(rows):
    X, users = rows
    expected = counted().add_block(X, users=users)
    first = counted()
    first.add_block(X[:25], users=users[:25])
    state = first.secret_state()
    second = counted(random_state=6)
    second.restore(state)
    assert np.array_equal(second.add_block(X[25:], users=users[25:]), expected[25:])
    plain = PrefixSum(dim=2, **WORDS)
    plain.add_block(X[:25])
    with pytest.raises(StateError, match="did not count users"):
        counted().restore(plain.secret_state())
    with pytest.raises(StateError, match="counts users"):
        PrefixSum(dim=2, **WORDS).restore(state)
    with pytest.raises(StateError):
        counted(user_separation=5).restore(state)
    for damaged in (state["users_entries"][:-1], np.ones_like(state["users_entries"]), state["users_entries"][:0]):
        with pytest.raises(StateError, match="damaged"):
            counted().restore({**state, "users_entries": damaged})
