"""DPFTRL and PQFTL on sums that forget: twins, forms of rows, runs without a last row, drift."""

from __future__ import annotations

import math
import pickle
import warnings

import numpy as np
import pytest
from cli_tools import privol_cli
from leader_tools import check, fingerprint, single_rows
from learner_tools import data, model_of
from least_squares_tools import moments, rows
from prefix_tools import workload
from scipy import sparse
from twins_leaders import leader_twin_of

import privol
from privol import DPFTRL, PQFTL
from privol._core._least_squares import solve_ridge
from privol._core._noise import instruction_sets, use_instruction_set
from privol._core._prefix import PrefixRun
from privol.calibration import MOST_ROWS
from privol.errors import BudgetExceeded, InvalidParameter
from privol.factorizations import DRIFT_DESIGNS
from privol.guarantees import gdp_mu
from privol.noise import STREAM_RELEASES, decide_lattice_point, make_source
from privol.prefix import plan_of

N = 40
WORDS = [
    {"discount": 0.9}, {"window": 12}, {"discount": 0.97, "batch": 3}, {"window": 12, "batch": 4},
    {"window": 120, "batch": 3},
]  # fmt: skip


# ---- DPFTRL ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("l2", [0.0, 0.3])
@pytest.mark.parametrize("words", WORDS, ids=str)
@pytest.mark.parametrize("design", DRIFT_DESIGNS)
def test_twin(design, words, l2):
    """Every bit of every point, and the weights of the rows; the default regularization depends on these weights."""
    for loss in ("logistic", "squared"):
        X, y = data(loss)
        learner = DPFTRL(
            loss=loss, epsilon=20.0, delta=1e-3, horizon=N, radius=2.0, l2=l2, design=design, random_state=5, **words
        )
        twin = check(learner, X, y)
        assert twin.sums.mass == pytest.approx(twin.sums.weight, rel=1e-12)
        plan = learner._run.plan
        assert plan.sums.weight(N) == pytest.approx(twin.sums.weight, rel=1e-12)
        step = -(-N // learner.batch)
        divisor = plan.regularization + l2 * twin.sums.weight
        assert plan.std(N) == pytest.approx(plan.sums.sigma * plan.sums.factorization.row_norm(step) / divisor)


def test_without_noise_gradients_are_forgotten():
    X, y = data("hinge", n=100, seed=9)
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    for words in ({"discount": 0.9}, {"window": 7}, {"window": 200}):
        for design in DRIFT_DESIGNS:
            learner = DPFTRL(
                loss="hinge",
                epsilon=math.inf,
                horizon=100,
                radius=1e9,
                design=design,
                regularization=1e6,
                fit_intercept=False,
                **words,
            )
            learner.partial_fit(X, y, classes=[-1.0, 1.0])  # points stay close to 0, where every slope is -y
            exact = workload(100, **words)[-1] @ (y[:, None] * X)
            np.testing.assert_allclose(learner.ask() * 1e6, exact, rtol=1e-9, atol=1e-9)


def make(**more):
    return DPFTRL(**{"epsilon": 6.0, "random_state": 3, "radius": 0.5, "l2": 0.1} | more)


@pytest.mark.parametrize(
    "more", [{"discount": 0.95}, {"window": 30, "batch": 3}, {"window": 1}, {"discount": 0.99, "horizon": 200,
                                                                           "design": "sqrt"}], ids=str)  # fmt: skip
def test_the_same_bits_however_rows_arrive(more):
    """Chunks, layouts, instruction levels, single rows, restarts; without a last row where none is given."""
    X, y = single_rows()
    expected = fingerprint(make(**more).partial_fit(X, y, classes=[-1, 1]))
    try:
        for level in instruction_sets():
            use_instruction_set(level)
            for block in (X, X.astype(np.float32), sparse.csr_matrix(X)):
                assert fingerprint(make(**more).partial_fit(block, y, classes=[-1, 1])) == expected
    finally:
        use_instruction_set(None)
    learner = make(**more).declare_classes([-1, 1])
    for row, target in zip(X, y, strict=True):
        learner.learn_one(row, target)
    assert fingerprint(learner) == expected
    for at in (1, 2, 50, 148, 198):
        first = make(**more).partial_fit(X[:at], y[:at], classes=[-1, 1])
        state, _, _ = first._open_run(13, more.get("horizon", MOST_ROWS), "all")
        state.restore(first._run.state.secret_arrays())
        state.learn(X[at:], y[at:])
        found = state.secret_arrays()
        assert {name: value.tobytes() for name, value in found.items()} == expected[0]


def test_gradients_given_by_tell_are_learnt():
    learner = make(discount=0.8, gradient_bound=0.5, batch=3, horizon=N)
    learner.ask(3)
    run, rng = learner._run, np.random.default_rng(1)
    twin = leader_twin_of(learner, run.plan, bytes(run.state.secret_arrays()["key"]), 4)
    for _ in range(N):
        gradient = learner.ask() - rng.normal(size=4)
        learner.tell(gradient=gradient)
        twin.tell(gradient)
        assert np.array_equal(learner.ask(), twin.x)


@pytest.mark.parametrize("words", [{"discount": 0.9}, {"window": 10}], ids=str)
def test_a_run_without_a_last_row(words):
    X, y = data("logistic")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learner = DPFTRL(**words).partial_fit(X, y, classes=[-1.0, 1.0])
    assert learner.guarantee_.horizon == MOST_ROWS
    assert learner.guarantee_.mu == gdp_mu(1.0, 1e-6)
    assert learner.ledger_.spent.mu == pytest.approx(learner.guarantee_.mu)
    sentence = learner.guarantee_.sentence()
    assert "the run has no last row: it is one mechanism of up to 281,474,976,710,656 rows" in sentence
    assert "delta is not below" not in sentence
    finite = DPFTRL(horizon=2000, **words).calibrate(3, 2000)
    plan = learner._run.plan
    assert plan.sums.std(1000) == pytest.approx(finite.sums.std(1000), rel=1e-4)
    assert plan.regularization == pytest.approx(finite.regularization, rel=1e-4)
    for learner in (DPFTRL(**words, release="last", batch=5, random_state=1), PQFTL(**words, batch=5, random_state=1)):
        classes = {"classes": [-1.0, 1.0]} if isinstance(learner, DPFTRL) else {}
        learner.partial_fit(X[:23], y[:23], **classes)
        before = learner.n_releases_
        learner.close()
        assert learner.n_releases_ == before + 1
        assert model_of(learner).any()
        other = pickle.loads(pickle.dumps(learner))
        assert np.array_equal(model_of(other), model_of(learner))
        assert (other.discount, other.window) == (words.get("discount", 1.0), words.get("window"))


class Unsized:
    """A stream of unknown length."""

    n_rows, classes = None, (-1.0, 1.0)

    def __init__(self, X, y):
        self.blocks = [(X[:15], y[:15]), (X[15:], y[15:])]

    def __iter__(self):
        class Block:
            pass

        first = 1
        for X, y in self.blocks:
            block = Block()
            block.X, block.y, block.first_row = X, (y > 0).astype(np.int64), first
            first += len(X)
            yield block


def test_streams_that_do_not_know_their_length():
    X, y = data("logistic")
    found = DPFTRL(discount=0.9, random_state=2).fit_stream(Unsized(X, y))
    again = DPFTRL(discount=0.9, random_state=2).partial_fit(X, y, classes=[-1.0, 1.0]).close()
    assert np.array_equal(found.coef_, again.coef_)
    with pytest.raises(InvalidParameter, match="horizon must be given"):
        DPFTRL(random_state=2).fit_stream(Unsized(X, y))
    with pytest.raises(InvalidParameter, match="horizon must be given"):
        DPFTRL(random_state=2).partial_fit(X, y, classes=[-1.0, 1.0])
    with pytest.raises(BudgetExceeded):  # a horizon that is given holds
        DPFTRL(discount=0.9, horizon=30).partial_fit(X, y, classes=[-1.0, 1.0])
    assert DPFTRL(discount=0.9).fit(X, y).guarantee_.horizon == N  # fit knows the number of rows


@pytest.mark.parametrize(
    ("more", "match"),
    [({"discount": 0.0}, "discount"), ({"discount": 1.5}, "discount"), ({"window": 0}, "window"),
     ({"window": 10, "batch": 3}, "multiple of the 3 rows"), ({"window": 10, "discount": 0.9}, "two ways to forget"),
     ({"discount": 0.9, "design": "tree"}, "adds up intervals"), ({"window": 5, "design": "honaker"}, "adds up"),
     ({"discount": 1e-3, "batch": 50}, "forgets all"),
     ({"discount": 0.9, "renewal": "double"}, "renewal must be 'none'")],
)  # fmt: skip
def test_refusals(more, match):
    X, y = data("squared")
    for kind in (DPFTRL, PQFTL):
        with pytest.raises(InvalidParameter, match=match):
            kind(loss="squared", **more).fit(X, y)
    endless = DPFTRL(loss="squared", discount=0.9, design="sqrt")
    with pytest.raises(InvalidParameter, match="keeps every row"):
        endless.partial_fit(X, y)


def test_plans_and_the_command_line_know_them():
    plan = privol.plan("dpftrl", n_features=5, horizon=100_000, discount=0.999)
    wider = privol.plan("dpftrl", n_features=5, horizon=100_000)
    assert plan.parameters["discount"] == 0.999
    assert plan.guarantee.mu == wider.guarantee.mu
    for words in (("--discount", "0.999"), ("--window", "1000")):
        found = privol_cli("plan", "--n-features", 5, "--horizon", 10_000, *words)
        assert found.exit_code == 0, found.output


# ---- PQFTL -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", WORDS, ids=str)
@pytest.mark.parametrize("design", DRIFT_DESIGNS)
def test_sums_and_models_are_those_of_a_private_prefix_sum(design, words):
    """With the same key: every sum and every model; the weight of the rows sets the shift and the last eigenvalues."""
    X, y = rows(N)
    X /= 1.0 + np.maximum(0.0, np.linalg.norm(X, axis=1, keepdims=True))
    y = np.clip(y, -0.9, 0.9)
    words = {"fit_intercept": False, "l2": 0.01, "release": 1, "epsilon": 0.5, **words}
    learner = PQFTL(horizon=N, random_state=7, design=design, **words)
    plan = learner.calibrate(4, N)
    batch = plan.batch
    twin = PrefixRun(
        plan_of(plan.sums, horizon=N),
        horizon=N,
        source=make_source(7),
        stream=STREAM_RELEASES,
        decide=decide_lattice_point,
    )
    expected = twin.add_block(moments(X, y * plan.target_unit, plan.row_unit))
    weights = workload(N, words.get("discount", 1.0), words.get("window"))
    indefinite = 0
    for t in range(1, N + 1):
        learner.partial_fit(X[t - 1 : t], y[t - 1 : t])
        sums = learner._run.state.released_sums()
        np.testing.assert_array_equal(sums, expected[t - 1])
        step = t // batch
        if step == 0:
            continue
        leaves = [batch * words.get("discount", 1.0) ** (batch * k) for k in range(step)]
        weight = sum(leaves[: words.get("window", 10**9) // batch])
        assert plan.sums.weight(step * batch) == pytest.approx(weight, rel=1e-12)
        if batch == 1:
            assert weight == pytest.approx(weights[t - 1].sum(), rel=1e-12)
        shift = weight * plan.l2 + plan.shift(0, step)
        model, eigen = solve_ridge(sums, 4, most=weight, shift=shift, radius=plan.ball)
        indefinite += eigen
        model *= plan.row_unit / plan.target_unit
        np.testing.assert_allclose(learner.coef_, model / max(1.0, np.linalg.norm(model)), rtol=1e-9, atol=1e-12)
    assert indefinite == learner._run.state.n_indefinite


def test_without_noise_it_is_weighted_ridge_regression():
    X, y = rows(N)
    V, c = X * np.minimum(1.0, 1.0 / np.maximum(np.linalg.norm(X, axis=1), 1e-300))[:, None], np.clip(y, -1.0, 1.0)
    for words in ({"discount": 0.9}, {"window": 12}):
        w = workload(N, **words)[-1]
        learner = PQFTL(horizon=N, epsilon=math.inf, l2=0.01, radius=50.0, fit_intercept=False, release=1, **words)
        learner.partial_fit(X, y)
        model = np.linalg.solve((V.T * w) @ V + w.sum() * 0.01 * np.eye(4), (V.T * w) @ c)
        np.testing.assert_allclose(learner.coef_, model, rtol=1e-10)
        assert math.isclose(learner._run.plan.sums.weight(N), w.sum(), rel_tol=1e-12)


def test_a_restored_run_goes_on_as_if_it_had_not_stopped():
    X, y = rows()
    for words in ({"discount": 0.9, "batch": 2}, {"window": 8, "batch": 2}):
        learner = PQFTL(random_state=7, release=5, **words)
        whole = learner.partial_fit(X, y)._run.state
        for at in (1, 5, 30, 59):
            first = PQFTL(random_state=7, release=5, **words).partial_fit(X[:at], y[:at])
            fresh, _, _ = first._open_run(4, MOST_ROWS, None)
            fresh.restore(first._run.state.secret_arrays())
            fresh.learn(X[at:], y[at:])
            np.testing.assert_array_equal(fresh.released_model(), whole.released_model())
            np.testing.assert_array_equal(fresh.released_sums(), whole.released_sums())


# ---- drift -------------------------------------------------------------------------------------------------------


def turning(n, seed):
    """Labels by a direction that turns once: what was right in the first half is wrong in the second."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    w = np.where(np.arange(n)[:, None] < n // 2, [[1.0, 0.0, 0.0]], [[-1.0, 0.0, 0.0]])
    return X, np.where((X * w).sum(axis=1) > 0, 1.0, -1.0)


def test_forgetting_follows_a_stream_that_turns():
    """At epsilon 1, 3,000 rows after the turn: sums that forget have adapted, the sum of all rows has not."""
    X, y = turning(20_000, 1)
    last, seen = slice(10_000, None), slice(13_000)
    scores = [
        DPFTRL(radius=5.0, horizon=20_000, random_state=1, **more)
        .partial_fit(X[seen], y[seen], classes=[-1.0, 1.0])
        .score(X[last], y[last])
        for more in ({}, {"discount": 0.9995}, {"window": 3000})
    ]
    assert scores[0] < 0.3
    assert min(scores[1:]) > 0.85
    targets = 0.8 * X[:, 0] * np.where(np.arange(20_000) < 10_000, 1.0, -1.0)
    fits = [
        PQFTL(l2=1e-3, fit_intercept=False, random_state=1, **more).fit(X, targets).score(X[last], targets[last])
        for more in ({}, {"discount": 0.999}, {"window": 3000})
    ]
    assert fits[0] < 0.3
    assert min(fits[1:]) > 0.8
