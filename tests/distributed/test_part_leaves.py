"""PQFTL over parts of the rows: the bits of one run on the rows in that order, whichever worker sums which leaves."""

from __future__ import annotations

import numpy as np
import pytest
from part_rows import LEAVES, SIZES, Stream, leaf_learner, leaves_alone, parts_of, rows_of, shown

from privol import PQFTL
from privol._core._least_squares import leaf_moments, moments_size
from privol.distributed import LocalCrew
from privol.errors import BudgetExceeded, InvalidParameter, InvalidRow, PartFailure
from privol.learners import _part_sums, least_squares
from privol.ledger import Ledger

every = pytest.mark.parametrize("name", LEAVES)


def in_order(leaf, at_once=1 << 30):
    """Numbers of the rows in the order of learning: a few leaves of every part in turn, then the rest of each part."""
    starts = np.cumsum([0, *SIZES[:-1]])
    turns, rest = [], []
    for first in range(0, max(SIZES), leaf * at_once):
        for start, size in zip(starts, SIZES, strict=True):
            whole = size // leaf * leaf
            turns += range(start + min(first, whole), start + min(first + leaf * at_once, whole))
    for start, size in zip(starts, SIZES, strict=True):
        rest += range(start + size // leaf * leaf, start + size)
    assert sorted(turns + rest) == list(range(sum(SIZES)))
    return np.array(turns + rest)


@every
def test_the_bits_of_one_run_on_the_rows_in_that_order(name):
    learner = leaf_learner(name).fit_parts(parts_of("real"), LocalCrew(3))
    assert shown(learner) == leaves_alone()[name]
    X, y, _ = rows_of("real")
    order = in_order(learner._run.plan.batch)
    whole = leaf_learner(name).fit(X[order], y[order])
    assert shown(whole) == leaves_alone()[name]
    assert whole._diagnostics() == learner._diagnostics()
    assert whole.ledger_.spent == learner.ledger_.spent


def test_parts_are_learnt_in_turn(monkeypatch):
    """The sums of a few leaves are sent at once; how many depends on public numbers alone."""
    monkeypatch.setattr(least_squares, "_AT_ONCE", 4 * moments_size(6))
    learner = leaf_learner("batch").fit_parts(parts_of("real"), LocalCrew(2))
    X, y, _ = rows_of("real")
    order = in_order(7, 4)
    assert not np.array_equal(order, in_order(7))
    assert shown(leaf_learner("batch").fit(X[order], y[order])) == shown(learner)


def test_null_rows_anywhere_in_a_leaf():
    X, y, _ = rows_of("real")
    y = y.copy()
    bad = [0, 5, 6, 7, 14, 15, 16, 17, 18, 19, 20, 300, 301, 600]  # first and last rows of leaves, and a whole leaf
    y[bad] = np.nan
    starts = np.cumsum([0, *SIZES])

    class Part:
        def __init__(self, k):
            self.name, self.k = f"part {k}", k

        def open(self):
            rows = slice(starts[self.k], starts[self.k + 1])
            return Stream(X[rows], y[rows], None)

    learner = leaf_learner("batch", on_invalid="zero").fit_parts([Part(k) for k in range(5)], LocalCrew())
    order = in_order(7)
    whole = leaf_learner("batch", on_invalid="zero").fit(X[order], y[order])
    assert shown(whole) == shown(learner)
    assert learner._diagnostics() == whole._diagnostics()
    assert learner._diagnostics()["null_rows"] == len(bad)


def test_sums_of_leaves_against_numpy():
    X, y, _ = rows_of("real")
    sums, clipped, null = leaf_moments(
        X, y, leaf=50, dim=6, intercept=True, x_bound=1.2, y_bound=0.5, row_unit=0.6, target_unit=2.0
    )
    assert sums.shape == (sum(SIZES) // 50, moments_size(6))
    rows = X * np.minimum(1.0, 1.2 / np.linalg.norm(X, axis=1))[:, None]
    V = 0.6 * np.c_[rows, np.ones(len(y))]
    t = 2.0 * np.clip(y, -0.5, 0.5)
    upper = np.triu_indices(6)
    for k, one in enumerate(sums):
        v, c = V[50 * k : 50 * k + 50], t[50 * k : 50 * k + 50]
        gram = (v.T @ v)[upper] * np.where(upper[0] == upper[1], 1.0, np.sqrt(2.0))
        np.testing.assert_allclose(one, np.r_[gram, c @ v], atol=1e-12)
    assert (clipped, null) == (int((np.linalg.norm(X[: 50 * len(sums)], axis=1) > 1.2).sum()), 0)


def test_refusals_before_anything_is_spent():
    ledger = Ledger(epsilon=3.0, delta=1e-5)
    for words, found in (
        ({"design": "tree"}, "design must be one of blt, sqrt, banded, independent"),
        ({"renewal": "constant"}, "renewal must be 'none'"),
        ({"calibration": "published"}, "calibration must be 'tight'"),
        ({"rows_per_user": 2, "user_separation": 5}, "user_separation must be 1 for parts"),
    ):
        with pytest.raises(InvalidParameter, match=found):
            PQFTL(ledger=ledger, **words).fit_parts(parts_of("real"), LocalCrew())
    learner = leaf_learner("batch", ledger=ledger)
    with pytest.raises(InvalidRow, match="part 'real-2': row 3, feature 1"):
        learner.fit_parts(parts_of("real", {2: "nan"}), LocalCrew())
    with pytest.raises(BudgetExceeded, match="1114 rows would exceed the horizon"):
        leaf_learner("batch", ledger=ledger, horizon=1113).fit_parts(parts_of("real"), LocalCrew())
    assert ledger.committed.mu == 0
    assert "workers" in learner.fit_parts(parts_of("real"), LocalCrew()).guarantee_.sentence()


def test_a_leaf_sum_is_learnt_only_at_the_end_of_a_leaf():
    X, y, _ = rows_of("real")
    learner = leaf_learner("batch", horizon=100).partial_fit(X[:3], y[:3])
    state = learner._run.state
    with pytest.raises(InvalidParameter, match="a leaf has 27 sums of 7 rows, and begins where one has ended"):
        state.learn_leaf(np.zeros(27), 7)
    learner.partial_fit(X[3:7], y[3:7])
    for wrong, rows in ((np.zeros(26), 7), (np.zeros(27), 6)):
        with pytest.raises(InvalidParameter, match="a leaf has 27 sums"):
            state.learn_leaf(wrong, rows)
    for size in (7.001 * np.sqrt(2.0), -np.inf, np.nan):
        with pytest.raises(InvalidParameter, match=r"the sum of the moments of 7 rows must be finite and no longer"):
            state.learn_leaf(np.r_[0.0, size, np.zeros(25)], 7)
    state.learn_leaf(np.r_[0.0, 7.0 * np.sqrt(2.0), np.zeros(25)], 7)
    assert learner.n_rows_ == 14
    tree = leaf_learner("batch", design="tree", horizon=100).partial_fit(X[:7], y[:7])
    with pytest.raises(InvalidParameter, match="added up in doubles"):
        tree._run.state.learn_leaf(np.zeros(27), 7)


def test_a_part_that_has_changed_ends_the_call(monkeypatch, tmp_path):
    """Moved rows would be learnt twice: a worker that takes over reads the part as it is now."""
    monkeypatch.setattr(least_squares, "_AT_ONCE", 4 * moments_size(6))
    sums = _part_sums.HeldLeaves.leaves

    class Forgetful(LocalCrew):
        def session(self, reading, parts):
            self.now = super().session(reading, parts)
            return self.now

    crew, asked = Forgetful(), []

    def leaves(held, first, n, words):
        asked.append(first)
        if first and len(set(asked)) == 2:  # the second question: the next worker has to read the part again
            crew.now._held[-1]._holder = None
        return sums(held, first, n, words)

    monkeypatch.setattr(_part_sums.HeldLeaves, "leaves", leaves)
    last = len(SIZES) - 1
    assert shown(leaf_learner("batch").fit_parts(parts_of("real"), crew))
    asked.clear()
    learner = leaf_learner("batch")
    with pytest.raises(PartFailure, match=rf"part 'real-{last}': another worker has read other rows"):
        learner.fit_parts(parts_of("real", {last: "moves"}, tmp_path), crew)
    assert asked


def test_sums_that_no_rows_have_end_the_run(monkeypatch):
    real = _part_sums.HeldLeaves.leaves

    def leaves(held, first, n, words):
        sums, *counts = real(held, first, n, words)
        if len(sums) > 10 and held.about()["name"] == "real-2":
            sums[9, 3] = np.nan
        return sums, *counts

    monkeypatch.setattr(_part_sums.HeldLeaves, "leaves", leaves)
    learner = leaf_learner("batch")
    with pytest.raises(PartFailure, match="part 'real-2': the sum of the moments of 7 rows must be finite"):
        learner.fit_parts(parts_of("real"), LocalCrew())
    assert learner.n_rows_ == (300 // 7 + 9) * 7
