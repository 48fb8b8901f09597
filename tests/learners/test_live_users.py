"""Users given to partial_fit and learn_one: the cap against plain Python, in any cut, and the guarantee."""

from __future__ import annotations

import itertools
import math
import threading
from decimal import Decimal

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import privol
from privol.encoding.ids import id_text
from privol.errors import InvalidParameter, InvalidRow, StateError

WORDS = {"horizon": 60, "epsilon": 4.0, "delta": 1e-6, "random_state": 3}
KINDS = [privol.NOGD, privol.DPFTRL, privol.AdaptiveFTRL, privol.PQFTL, privol.PIGD]


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(-0.5, 0.5, (n, 3)), rng.integers(0, 2, n)


def null_rows(users, k, b):
    """Rows beyond the cap, or too close to the last learnt row of their user, by the definition of the rule."""
    learnt: dict[object, list[int]] = {}
    found = []
    for t, user in enumerate(users):
        mine = learnt.setdefault(user, [])
        if len(mine) >= k or (mine and t - mine[-1] < b):
            found.append(t)
        else:
            mine.append(t)
    return found


def made(kind, k, b, on_invalid="zero", **more):
    words = {**WORDS, "rows_per_user": k, "user_separation": b, "on_invalid": on_invalid, **more}
    return kind(**words, release=10) if kind is privol.PIGD else kind(**words)


def released(learner):
    return learner.close().coef_.tobytes()


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.sampled_from("abcd"), min_size=2, max_size=40),
    st.integers(1, 3),
    st.integers(1, 9),
    st.sets(st.integers(1, 39)),
)
def test_surplus_rows_are_null_rows_in_any_cut(users, k, b, cuts):
    """The model is that of the same rows with null rows in their places."""
    X, y = rows(len(users))
    surplus = null_rows(users, k, b)
    learner = made(privol.NOGD, k, b)
    bounds = [0, *sorted(cut for cut in cuts if cut < len(users)), len(users)]
    for start, stop in itertools.pairwise(bounds):
        part = slice(start, stop)
        if stop - start == 1:
            learner.declare_classes([0, 1]).learn_one(X[start], y[start], user=users[start])
        else:
            learner.partial_fit(X[part], y[part], classes=[0, 1], users=users[part])
    assert (learner.n_rows_, learner.n_null_rows_) == (len(users), len(surplus))
    by_hand = X.copy()
    by_hand[surplus] = np.nan
    other = made(privol.NOGD, k, b).partial_fit(by_hand, y, classes=[0, 1])
    assert released(learner) == released(other)


@pytest.mark.parametrize("kind", KINDS)
def test_every_learner_with_a_budget_for_users_counts_and_says_so(kind):
    X, y = rows(40)
    users = np.arange(40) % 5
    regression = {"loss": "squared"} if kind is privol.PQFTL else {}
    classes = {} if regression else {"classes": [0, 1]}
    learner = made(kind, 2, 10, **regression).partial_fit(X[:30], y[:30], users=users[:30], **classes)
    learner.partial_fit(sp.csr_array(X[30:]), y[30:], users=users[30:])
    assert learner.n_null_rows_ == len(null_rows(users.tolist(), 2, 10)) == 30
    promise = learner.guarantee_
    assert (promise.unit, promise.rows_per_user, promise.user_separation) == ("user", 2, 10)
    assert (promise.users_fixed, promise.user) == (False, None)
    said = promise.sentence()
    assert "counts the rows of every user" in said
    assert "nobody checks" not in said
    unchecked = made(kind, 2, 10, **regression).partial_fit(X, y, **classes)
    assert "nobody checks it" in unchecked.guarantee_.sentence()
    assert unchecked.n_null_rows_ == 0
    # the figure is the same: the guarantees differ in who enforces the cap
    assert promise.parameter == unchecked.guarantee_.parameter


def test_surplus_rows_are_refused_with_their_block():
    X, y = rows(6)
    learner = made(privol.DPFTRL, 2, 3, on_invalid="raise").partial_fit(X[:3], y[:3], [0, 1], users=["a", "b", 7])
    for users, row in ((["c", 7, "d"], 5), (["a", "d", "a"], 6), (["c", None, "d"], 5), (["c", "d", 7.0], None)):
        if row is None:
            learner.partial_fit(X[3:], y[3:], users=users)
            continue
        with pytest.raises(InvalidRow, match=f"row {row}: .*nothing of its block was learnt") as found:
            learner.partial_fit(X[3:], y[3:], users=users)
        assert found.value.row == row
        assert learner.n_rows_ == 3
    assert learner.n_rows_ == 6
    assert "a block with one that is beyond the cap" in learner.guarantee_.sentence()
    with pytest.raises(InvalidRow, match="row 7: its user has 2 rows already, or one less than 3 rows ago"):
        learner.learn_one(X[0], y[0], user="7 ")


def test_a_second_pass_is_a_user_with_two_rows():
    """Two passes in the same order: the two copies of a row are a whole pass apart, and the figure uses this."""
    X, y = rows(40)
    whose, words = np.arange(40), {"rows_per_user": 2, "user_separation": 40, "on_invalid": "raise"}
    twice = privol.DPFTRL(epsilon=1.0, delta=1e-6, random_state=0, **words)
    twice.fit(np.vstack([X, X]), np.tile(y, 2), users=np.tile(whose, 2))
    assert twice.n_rows_ == 80
    assert twice.guarantee_.unit == "user"
    assert twice.guarantee_.epsilon() <= 1.0
    assert math.sqrt(2.0) <= twice.guarantee_.user_factor < 2.0  # less than the cost of any two rows
    assert "nobody checks" not in twice.guarantee_.sentence()
    for again, row in ((whose[::-1], 41), (np.concatenate([whose[1:], whose[:1]]), 41)):  # in another order
        other = privol.DPFTRL(epsilon=1.0, delta=1e-6, random_state=0, **words)
        with pytest.raises(InvalidRow, match=f"row {row}: its user has 2 rows already, or one less than 40 rows ago"):
            other.fit(np.vstack([X, X[again]]), np.concatenate([y, y[again]]), users=np.concatenate([whose, again]))
    third = privol.DPFTRL(epsilon=1.0, delta=1e-6, random_state=0, **words)
    with pytest.raises(InvalidRow, match="row 81: its user has 2 rows already"):
        third.fit(np.vstack([X, X, X]), np.tile(y, 3), users=np.tile(whose, 3))


def test_rows_that_were_not_learnt_do_not_count():
    """A loss fails on the fourth row: the block is undone, and its users have as many rows as before."""
    X, y = rows(6)
    fails = [False]

    def slope(prediction, y):
        if fails[0] and y > 0.9:
            raise ArithmeticError("the loss failed")
        return y

    loss = privol.losses.Custom(
        value=lambda p, y: p * y, gradient=slope, lipschitz=1.0, smoothness=0.0, kind="regression"
    )
    y = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    learner = made(privol.NOGD, 1, 1, loss=loss)
    learner.partial_fit(X[:2], y[:2], users=["a", "b"])
    fails[0] = True
    with pytest.raises(ArithmeticError):
        learner.partial_fit(X[2:], y[2:], users=["c", "d", "e", "f"])
    learnt = learner.n_rows_
    fails[0] = False
    rest = ["c", "d", "e", "f"][learnt - 2 :]
    learner.partial_fit(X[learnt:], y[learnt:], users=rest)
    assert (learner.n_rows_, learner.n_null_rows_) == (6, 0)
    fails[0] = True
    with pytest.raises(ArithmeticError):
        learner.learn_one(X[0], 1.0, user="g")
    fails[0] = False
    learner.learn_one(X[0], 1.0, user="g").learn_one(X[0], 1.0, user="g")
    assert (learner.n_rows_, learner.n_null_rows_) == (8, 1)


def test_a_second_thread_waits():
    """Rows are learnt in the order of counting: otherwise two rows of a user could be too close, or be taken back."""
    X, y = rows(21)
    begun, done, learnt = threading.Event(), threading.Event(), []

    class Watched(privol.NOGD):
        def _learn(self, run, X, *more):
            if threading.current_thread() is not threading.main_thread():
                begun.set()
                done.wait(0.2)
            learnt.append(len(X))
            super()._learn(run, X, *more)

    learner = made(Watched, 2, 10).partial_fit(X[:1], y[:1], classes=[0, 1], users=["z"])
    words = {"users": ["u", *range(9)]}  # nine rows later the same user returns
    other = threading.Thread(target=learner.partial_fit, args=(X[1:11], y[1:11]), kwargs=words)
    other.start()
    assert begun.wait(10)
    learner.partial_fit(X[11:20], y[11:20], users=[*range(20, 28), "u"])
    done.set()
    other.join()
    assert learnt == [1, 10, 9]
    assert (learner.n_rows_, learner.n_null_rows_) == (20, 0)


def test_what_is_refused():
    X, y = rows(4)
    users = list("abcd")
    with pytest.raises(InvalidParameter, match="rows_per_user must be the most rows of each"):
        privol.DPFTRL(**WORDS).partial_fit(X, y, [0, 1], users=users)
    with pytest.raises(InvalidParameter, match="rows_per_user must be the most rows of each"):
        privol.MIOGD(horizon=9).partial_fit(X, y, [0, 1], users=users)
    told = made(privol.DPFTRL, 2, 1, gradient_bound=1.0)
    with pytest.raises(InvalidParameter, match=r"users must have shape \(4,\)"):
        told.partial_fit(X, y, [0, 1], users=users[:3])
    told.partial_fit(X, y, [0, 1], users=users)
    for call in (lambda: told.partial_fit(X, y), lambda: told.learn_one(X[0], y[0])):
        with pytest.raises(InvalidParameter, match="with every block of a run or with none"):
            call()
    with pytest.raises(StateError, match="takes rows alone"):
        told.tell(gradient=np.zeros(4))
    silent = made(privol.DPFTRL, 2, 1).partial_fit(X, y, [0, 1])
    with pytest.raises(InvalidParameter, match="with every block of a run or with none"):
        silent.partial_fit(X, y, users=users)
    assert (told.n_rows_, silent.n_rows_) == (4, 4)


def test_users_are_told_apart_as_in_a_column():
    same = [1, 1.0, "1", " 1.0 ", "1e0", "+1", np.int8(1), np.float32(1)]
    assert {id_text(value) for value in same} == {"1"}
    assert len({id_text(value) for value in (7, "007", "7.5", "a", "A", 2**53, 2**53 + 1)}) == 7
    nans = float("nan"), np.float32("nan"), Decimal("nan")
    assert [id_text(value) for value in (None, "", "  ", *nans, b"a", True, [1])] == [None] * 9


@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_counts_as_its_blocks_do(kind):
    X, y = rows(60)
    users = np.random.default_rng(4).integers(0, 12, 60)
    regression = {"loss": "squared"} if kind is privol.PQFTL else {}
    learner = made(kind, 2, 7, **regression).fit(X, y, users=users)
    surplus = null_rows(users.tolist(), 2, 7)
    assert (learner.n_rows_, learner.n_null_rows_) == (60, len(surplus))
    by_hand = X.copy()
    by_hand[surplus] = np.nan
    other = made(kind, 2, 7, **regression).fit(by_hand, y)
    assert learner.coef_.tobytes() == other.coef_.tobytes()
    promise = learner.guarantee_
    assert (promise.unit, promise.users_fixed, promise.parameter) == ("user", False, other.guarantee_.parameter)
    assert "counts the rows of every user" in promise.sentence()
    assert "nobody checks" in other.guarantee_.sentence()
    assert "nobody checks" not in promise.sentence()
    # another fit starts a new count, and a refused call costs nothing
    assert learner.fit(X, y, users=users).n_null_rows_ == len(surplus)
    refusing = made(kind, 2, 7, on_invalid="raise", **regression)
    with pytest.raises(InvalidRow, match=f"row {surplus[0] + 1}: its user has"):
        refusing.fit(X, y, users=users)
    with pytest.raises(InvalidParameter, match="users must have shape"):
        refusing.fit(X, y, users=users[1:])
    assert not hasattr(refusing, "ledger_") or refusing.ledger_.spent.mu == 0.0


OFFLINE = [privol.POL, privol.OutputPerturbation, privol.ObjectivePerturbation]


@pytest.mark.parametrize("kind", OFFLINE)
def test_a_fit_of_all_rows_at_once_counts_users(kind):
    X, y = rows(200)
    users = np.arange(200) % 80
    words = {"epsilon": 4.0, "delta": 1e-6, "random_state": 3, "rows_per_user": 2}
    learner = kind(on_invalid="zero", **words).fit(X, y, users=users)
    by_hand = X.copy()
    by_hand[160:] = np.nan  # the third rows of 40 users
    other = kind(on_invalid="zero", **words).fit(by_hand, y)
    assert learner.coef_.tobytes() == other.coef_.tobytes()
    assert learner.n_null_rows_ == other.n_null_rows_ > 0
    promise = learner.guarantee_
    assert (promise.unit, promise.rows_per_user, promise.users_fixed) == ("user", 2, False)
    assert promise.parameter == other.guarantee_.parameter
    assert "nobody checks" in other.guarantee_.sentence()
    assert "nobody checks" not in promise.sentence()
    with pytest.raises(InvalidRow, match="row 161: its user has 2 rows already"):
        kind(**words).fit(X, y, users=users)
    with pytest.raises(InvalidParameter, match="rows_per_user must be the most rows of each"):
        kind(**{**words, "rows_per_user": None}).fit(X, y, users=users)
