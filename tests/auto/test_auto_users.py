"""Users passed to partial_fit of the estimators: the cap over both phases, and the guarantee."""

from __future__ import annotations

import numpy as np
import pytest

from privol import PrivateClassifier, PrivateRegressor
from privol.errors import InvalidParameter, InvalidRow

pytest.importorskip("pyarrow")
N, MOST, APART = 1500, 3, 40
WORDS = {"horizon": N, "epsilon": 50.0, "random_state": 5, "rows_per_user": MOST, "user_separation": APART}


def rows():
    rng = np.random.default_rng(2)
    X = np.empty((N, 3), dtype=object)
    X[:, 0], X[:, 1] = rng.normal(size=N), rng.integers(0, 9, N)
    X[:, 2] = rng.choice(["clerk", "nurse", "smith"], N)
    y = np.where(X[:, 0].astype(float) + rng.normal(size=N) > 0, "yes", "no").astype(object)
    return X, y, rng.integers(0, 400, N)


X, Y, USERS = rows()


def surplus_rows():
    """Implemented from the wording of the rule."""
    counted: dict[int, list[int]] = {}
    found = []
    for t, user in enumerate(USERS.tolist()):
        mine = counted.setdefault(user, [])
        if len(mine) >= MOST or (mine and t - mine[-1] < APART):
            found.append(t)
        else:
            mine.append(t)
    return found


SURPLUS = surplus_rows()


def learnt(blocks, *, rows=X, targets=Y, users=USERS, dicts=False, **more):
    made = PrivateClassifier(classes=["no", "yes"], on_invalid="zero", **WORDS, **more)
    for start in range(0, N, blocks):
        part = slice(start, start + blocks)
        block = [dict(zip(("x0", "x1", "x2"), row, strict=True)) for row in rows[part]] if dicts else rows[part]
        made.partial_fit(block, targets[part], users=None if users is None else users[part])
    return made


def test_surplus_rows_are_null_rows_of_both_phases():
    assert 100 < len(SURPLUS) < N - 400
    made = learnt(N)
    assert made.encoder_.plan_.rows > SURPLUS[0]  # one that would have taught
    bits = made.learner_.coef_.tobytes(), made.guarantee_
    # nothing in them is read, in any division: other contents, of another type, change nothing
    other, targets = X.copy(), Y.copy()
    other[SURPLUS], targets[SURPLUS] = "something else", "neither"
    cut = learnt(211, rows=other, targets=targets)
    assert (cut.learner_.coef_.tobytes(), cut.guarantee_) == bits
    made = learnt(N // 2, rows=other, targets=targets, dicts=True)
    assert made.learner_.coef_.tobytes() == bits[0]
    # and they are rows without cells and target
    blank, missing = X.copy(), Y.copy()
    blank[SURPLUS], missing[SURPLUS] = None, None
    by_hand = learnt(N, rows=blank, targets=missing, users=None)
    assert by_hand.learner_.coef_.tobytes() == bits[0]
    found, unchecked = cut.guarantee_, by_hand.guarantee_
    assert found.parameter == unchecked.parameter
    assert (found.unit, found.rows_per_user, found.user_separation) == ("user", MOST, APART)
    assert not found.users_fixed
    assert "counts the rows of every user" in found.sentence()
    assert "nobody checks" not in found.sentence()
    assert "nobody checks" in unchecked.sentence()
    assert all("nobody checks" not in account.guarantee.sentence() for account in cut.ledger_.accounts)


def test_a_block_with_a_surplus_row_is_refused_and_does_not_count():
    made = PrivateClassifier(classes=["no", "yes"], **WORDS)
    first = SURPLUS[0]
    made.partial_fit(X[:first], Y[:first], users=USERS[:first])
    part = slice(first - 1, first + 1)  # the previous row again, and one that is too near
    with pytest.raises(InvalidRow, match=f"row {first + 1}: its user has|row {first + 2}: its user has"):
        made.partial_fit(X[part], Y[part], users=[10_000, USERS[first]])
    fine = np.setdiff1d(np.arange(first, first + 30), SURPLUS)[:2]
    bad = Y[fine].copy()
    bad[1] = None
    with pytest.raises(InvalidRow, match="row"):  # for another reason: its users keep the rows that they had
        made.partial_fit(X[fine], bad, users=[10_000, 10_001])
    made.partial_fit(X[fine], Y[fine], users=[10_000, 10_001])
    made.learn_one(X[0].tolist(), Y[0], user=10_002)
    assert made.n_rows_ == first + 3
    for call in (lambda: made.partial_fit(X[fine], Y[fine]), lambda: made.learn_one(X[0].tolist(), Y[0])):
        with pytest.raises(InvalidParameter, match="with every block of a run or with none"):
            call()


def test_users_need_a_budget_for_them():
    made = PrivateRegressor(horizon=N)
    with pytest.raises(InvalidParameter, match="rows_per_user must be the most rows of each"):
        made.partial_fit(X[:, :2].astype(float), np.zeros(N), users=USERS)


def test_a_parameter_that_changes_in_a_run_does_not_change_the_cap():
    made = PrivateClassifier(classes=["no", "yes"], on_invalid="zero", **WORDS)
    made.partial_fit(X[:1000], Y[:1000], users=USERS[:1000])
    whole = learnt(N)
    made.set_params(on_invalid="raise", rows_per_user=900, user_separation=1)
    made.partial_fit(X[1000:], Y[1000:], users=USERS[1000:])
    assert made.learner_.coef_.tobytes() == whole.learner_.coef_.tobytes()


@pytest.mark.parametrize("reuse", [False, True])
def test_fit_counts_users_in_both_phases(reuse):
    """As partial_fit; if rows are reused, surplus rows are rows without cells."""
    words = {**WORDS, "classes": ["no", "yes"], "on_invalid": "zero", "reuse_rows": reuse}
    made = PrivateClassifier(**words).fit(X, Y, users=USERS)
    blank, missing = X.copy(), Y.copy()
    blank[SURPLUS], missing[SURPLUS] = None, None
    by_hand = PrivateClassifier(**words).fit(blank, missing)
    assert made.learner_.coef_.tobytes() == by_hand.learner_.coef_.tobytes()
    if not reuse:
        assert made.learner_.coef_.tobytes() == learnt(N).close().learner_.coef_.tobytes()
    assert made.guarantee_.parameter == by_hand.guarantee_.parameter
    assert (made.guarantee_.unit, made.guarantee_.users_fixed) == ("user", False)
    assert all("nobody checks" not in account.guarantee.sentence() for account in made.ledger_.accounts)
    assert "nobody checks" in by_hand.guarantee_.sentence()
    refusing = PrivateClassifier(**{**words, "on_invalid": "raise"})
    with pytest.raises(InvalidRow, match=f"row {SURPLUS[0] + 1}: its user has"):
        refusing.fit(X, Y, users=USERS)
    assert not hasattr(refusing, "learner_")
