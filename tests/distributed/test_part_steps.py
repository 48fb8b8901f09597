"""DPFTRL over parts of the rows: workers sum the gradients of a step, in an order that public numbers determine."""

from __future__ import annotations

import dataclasses
import json
from fractions import Fraction

import numpy as np
import pytest
from mpi_jobs import codes, tasks, texts
from part_rows import FEW_STEPS, SIZES, STEPS, Stream, leaves_alone, parts_of, rows_of, shown, step_learner
from scipy import sparse

from privol import DPFTRL, AdaptiveFTRL
from privol._core._leader import GradientSums
from privol.distributed import LocalCrew
from privol.errors import InvalidParameter, InvalidRow, PartFailure
from privol.learners import _part_sums
from privol.learners._part_runs import shares_of_steps
from privol.ledger import Ledger

every = pytest.mark.parametrize("name", STEPS)
FIRST = np.cumsum([0, *SIZES[:-1]])


@dataclasses.dataclass(frozen=True)
class Held:
    """A part whose rows are in this process."""

    name: str
    X: object
    y: object
    classes: object

    def open(self):
        return Stream(self.X, self.y, self.classes)


def exact_rows(loss):
    """Rows in whole multiples of 2^-9, no longer than 1: sums of their gradients are exact in any order."""
    rng = np.random.default_rng(11)
    X = np.round(rng.uniform(-0.5, 0.5, size=(sum(SIZES), 4)) * 512) / 512
    X[rng.random(len(X)) < 0.2, 2] = 0.0
    score = X @ [1.0, -2.0, 0.5, 0.0] + rng.normal(size=len(X)) / 4
    if loss == "hinge":
        return X, (score > 0).astype(float), ("no", "yes")
    return X, np.clip(score, -1.0, 1.0), None


def in_steps(batch):
    """Numbers of the rows in the order of learning."""
    return np.concatenate(
        [np.arange(start + first, start + first + n)
         for shares in shares_of_steps(SIZES, batch)
         for start, (first, n) in zip(FIRST, shares, strict=True)]
    )  # fmt: skip


@pytest.fixture(scope="module")
def alone():
    found = {}
    for name in STEPS:
        learner, kind = step_learner(name)
        found[name] = shown(learner.fit_parts(parts_of(kind), LocalCrew()))
    return found


# ---- which rows are a step --------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [SIZES, (5,), (1, 1, 1), (0, 7, 0, 300), (1000, 1), (64, 64)])
@pytest.mark.parametrize("batch", [1, 3, 64, 5000])
def test_every_row_is_in_one_step_and_each_has_its_share(sizes, batch):
    taken = [0] * len(sizes)
    steps = list(shares_of_steps(sizes, batch))
    for k, shares in enumerate(steps):
        assert [first for first, _ in shares] == taken
        left = [n - t for n, t in zip(sizes, taken, strict=True)]
        rows = sum(n for _, n in shares)
        assert rows == min(batch, sum(left))
        assert rows == batch or k == len(steps) - 1
        for (_, n), of in zip(shares, left, strict=True):
            assert abs(n - Fraction(rows * of, sum(left))) < 1
        taken = [t + n for t, (_, n) in zip(taken, shares, strict=True)]
    assert tuple(taken) == tuple(sizes)


# ---- the result -------------------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("threads", [2, 4])
def test_the_same_bits_in_any_number_of_threads(name, threads, alone):
    learner, kind = step_learner(name)
    assert shown(learner.fit_parts(parts_of(kind), LocalCrew(threads))) == alone[name]


@pytest.mark.parametrize("loss", ["hinge", "absolute"])
@pytest.mark.parametrize(
    "words",
    [{}, {"release": 100}, {"release": "last"}, {"horizon": 1500}, {"horizon": 1500, "release": "last"}],
    ids=["all", "some", "last", "longer", "longer last"],
)
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_the_bits_of_one_run_on_the_rows_in_that_order(loss, words, layout):
    """Where sums are exact, so that their order does not matter: last step, counts and ledger included."""
    X, y, classes = exact_rows(loss)
    X[5], y[70] = np.nan, np.nan  # null rows
    given = {"loss": loss, "batch": 64, "x_bound": 4.0, "random_state": 3, "on_invalid": "zero", "epsilon": 20.0}
    given |= words
    parts = [
        Held(str(k), layout(X[a : a + n]), y[a : a + n], classes)
        for k, (a, n) in enumerate(zip(FIRST, SIZES, strict=True))
    ]
    there = DPFTRL(**given).fit_parts(parts, LocalCrew(2))
    order = in_steps(64)
    assert not np.array_equal(order, np.arange(len(order)))
    labels = y[order]
    if classes is not None:
        there_classes = np.array([*classes, "none"])
        labels = there_classes[np.where(np.isnan(labels), 2, labels).astype(int)]
    here = DPFTRL(**given)
    if classes is not None:
        here.declare_classes(classes)
    here.fit(layout(X[order]), labels)
    assert shown(here) == shown(there)
    assert np.linalg.norm(here.coef_) > 0.1
    assert here._diagnostics() == there._diagnostics() == {"clipped_rows": 0, "null_rows": 2}
    assert here.ledger_.spent == there.ledger_.spent


@pytest.mark.parametrize("kind", ["two", "wide"])
def test_one_part_is_the_same_as_a_fit(kind):
    X, y, classes = rows_of(kind)
    words = {"batch": 80, "x_bound": 1.2, "random_state": 5}
    there = DPFTRL(**words).fit_parts([Held("all", X, y, classes)], LocalCrew())
    here = DPFTRL(**words).fit(X, np.asarray(classes)[y.astype(int)])
    assert shown(here) == shown(there)
    assert here._diagnostics() == there._diagnostics()


def test_adaptive_steps_are_its_own():
    rng = np.random.default_rng(3)
    X = rng.uniform(-0.5, 0.5, size=(70_000, 3))
    y = (X @ [1.0, -1.0, 0.5] > 0).astype(float)
    there = [
        AdaptiveFTRL(random_state=1).fit_parts(
            [Held("a", X[:n], y[:n], (0, 1)), Held("b", X[n:], y[n:], (0, 1))], LocalCrew(2)
        )
        for n in (70_000 - 1, 30_000)
    ]
    assert there[0].plan_.batch >= 64
    assert there[0].score(X, y) > 0.9
    assert shown(there[0]) != shown(there[1])  # other parts, another order
    with pytest.raises(InvalidParameter, match=r"at least 64 .*: the steps of this AdaptiveFTRL have 1 row"):
        AdaptiveFTRL().fit_parts(parts_of("two"), LocalCrew())


def test_sums_of_gradients_against_numpy():
    X, y, _ = rows_of("real")
    problem = DPFTRL(loss="squared", x_bound=1.2, y_bound=0.5).calibrate(5, 10).problem
    point = np.linspace(-0.4, 0.6, 6)
    bound = 0.7
    found, clipped, null = GradientSums(problem, bound).of(X, np.where(np.arange(len(y)) == 4, np.nan, y), point)
    rows = np.c_[X * np.minimum(1.0, 1.2 / np.linalg.norm(X, axis=1))[:, None], np.ones(len(X))]
    each = ((rows @ point) - np.clip(y, -0.5, 0.5))[:, None] * rows
    length = np.linalg.norm(each, axis=1)
    assert 0.1 < (length > bound).mean() < 0.9
    each *= np.minimum(1.0, bound / length)[:, None]
    each[4] = 0.0
    np.testing.assert_allclose(found, each.sum(axis=0), rtol=1e-12)
    assert null == 1
    assert clipped == int((np.delete(np.linalg.norm(X, axis=1), 4) > 1.2).sum())
    with pytest.raises(InvalidParameter, match=r"rows must be 3 times 5 at 6 coordinates, found 3 times 4 at 6"):
        GradientSums(problem, bound).of(X[:3, :4], y[:3], point)
    assert GradientSums(problem, bound).of(X[:0], y[:0], point)[1:] == (0, 0)


# ---- what is refused --------------------------------------------------------------------------------------------


def test_refusals_before_anything_is_spent():
    ledger = Ledger(epsilon=3.0, delta=1e-5)
    for words, found in (
        ({"batch": 63}, "batch must be at least 64 for parts"),
        ({"design": "tree"}, "design must be one of blt, sqrt, banded, independent"),
        ({"renewal": "double"}, "renewal must be 'none'"),
        ({"rows_per_user": 2, "user_separation": 5}, "user_separation must be 1 for parts"),
    ):
        with pytest.raises(InvalidParameter, match=found):
            DPFTRL(**{"ledger": ledger, "batch": 64, **words}).fit_parts(parts_of("two"), LocalCrew())
    learner = DPFTRL(batch=64, ledger=ledger)
    with pytest.raises(InvalidRow, match="part 'two-2': row 3, feature 1"):
        learner.fit_parts(parts_of("two", {2: "nan"}), LocalCrew())
    assert ledger.committed.mu == 0
    assert "workers" in learner.fit_parts(parts_of("two"), LocalCrew()).guarantee_.sentence()


@pytest.mark.parametrize("wrong", [np.nan, 1e9, 70.0])
def test_a_sum_that_no_rows_have_ends_the_run(wrong, monkeypatch):
    real = _part_sums.HeldSteps.gradients

    def sends(held, steps, point, shares):
        answer = real(held, steps, point, shares)
        if held._about["name"] == "two-2" and shares["two-2"][0] > 100:
            answer[0][1] = wrong
        return answer

    monkeypatch.setattr(_part_sums.HeldSteps, "gradients", sends)
    learner = DPFTRL(batch=64, x_bound=1.0)
    with pytest.raises(
        PartFailure, match=r"part 'two-2': a worker has sent what is no sum of (29|30) gradients of nor"
    ):
        learner.fit_parts(parts_of("two"), LocalCrew())
    assert 0 < learner.n_rows_ < sum(SIZES)
    with pytest.raises(Exception, match="closed"):
        learner.partial_fit(np.zeros((1, 5)), ["no"])


def test_a_step_is_learnt_where_one_has_ended():
    X, y, _ = rows_of("real")
    learner = DPFTRL(loss="squared", batch=7, horizon=17, random_state=1).partial_fit(X[:3], y[:3])
    state, bound = learner._run.state, learner.plan_.bound
    with pytest.raises(InvalidParameter, match="a step has 6 sums of 7 rows, and begins where one has ended"):
        state.learn_step(np.zeros(6), 7)
    learner.partial_fit(X[3:7], y[3:7])
    for wrong, rows in ((np.zeros(5), 7), (np.zeros(6), 6), (np.zeros(6), 8)):
        with pytest.raises(InvalidParameter, match="a step has 6 sums"):
            state.learn_step(wrong, rows)
    for size in (7.001 * bound, np.inf, np.nan):  # without the check, the noise of NaN would never be found
        with pytest.raises(InvalidParameter, match=r"the sum of 7 gradients .* must be finite and no longer"):
            state.learn_step(np.array([0.0, size, 0.0, 0.0, 0.0, 0.0]), 7)
    state.learn_step(np.array([0.0, 7.0 * bound, 0.0, 0.0, 0.0, 0.0]), 7)
    assert learner.n_rows_ == 14
    state.learn_step(np.zeros(6), 3)  # the horizon ends the last step
    assert (learner.n_rows_, learner.n_releases_) == (17, 17)
    tree = DPFTRL(loss="squared", batch=7, design="tree", horizon=100).partial_fit(X[:7], y[:7])
    with pytest.raises(InvalidParameter, match="added up in doubles"):
        tree._run.state.learn_step(np.zeros(6), 7)


# ---- ranks ------------------------------------------------------------------------------------------------------


@pytest.mark.mpi
def test_the_same_bits_on_any_number_of_ranks(tmp_path):
    """Also for a run whose curator failed, and which all ranks resumed."""
    alone = {}
    for name, batch in (*((name, 300) for name in FEW_STEPS), ("logistic", 256)):
        learner, kind = step_learner(name, batch=batch)
        alone[name] = shown(learner.fit_parts(parts_of(kind), LocalCrew()))
    kept = alone.pop("logistic")
    todo = [(count, tmp_path / f"leaves-{count}", "parts-leaves") for count in (1, 2, 4)]
    tasks(*todo, (2, tmp_path / "kept", "parts-kept"))
    for count in (1, 2, 4):
        folder = tmp_path / f"leaves-{count}"
        assert codes(folder) == [0] * count, texts(folder, "traceback")
        for rank in range(count):
            assert json.loads((folder / f"leaves-{rank}.json").read_text()) == leaves_alone()
            assert json.loads((folder / f"steps-{rank}.json").read_text()) == alone
    folder = tmp_path / "kept"
    assert codes(folder) == [0, 0], texts(folder, "traceback")
    assert texts(folder, "failed").split() == ["OSError", "RankFailure"]
    for rank in (0, 1):
        assert json.loads((folder / f"kept-{rank}.json").read_text()) == kept
