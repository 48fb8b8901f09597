"""Private prefix sums in use: their noise, the effect of one row, horizons, leaves, matrices."""

from __future__ import annotations

import copy
import math
import os
import pickle
import threading

import numpy as np
import pytest
from ciphers import watch
from patience import WAIT
from prefix_tools import begin, parameters
from scipy import sparse, stats

from privol._core._prefix_plan import PrefixPlan
from privol.calibration import calibrate_sums
from privol.errors import BudgetExceeded, InvalidParameter, InvalidRow, SourceFailure, StateError
from privol.factorizations import BLT, Banded, Smooth, factorization
from privol.guarantees import gdp_mu
from privol.ledger import Ledger
from privol.prefix import DESIGNS, PrefixSum, SymmetricSum, plan_of, svec, unsvec

pytestmark = pytest.mark.process

EDGES = (1, 2, 7, 8, 17)


def data(n, dim=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, dim)) * 1.2 / math.sqrt(dim)


def exact(X, bound=1.0):
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    return np.cumsum(X * np.minimum(1.0, bound / np.maximum(norms, 1e-300)), axis=0)


# ---- noise -------------------------------------------------------------------------------------------------------

# A sample variance of n Gaussians is off by more than 5.5 of its standard deviations sqrt(2 / n) with probability below
# 5e-8 (chi-square of 40,000 is that close to a Gaussian); about 400 are tested below: 2e-5 in all, 1e-7 each.
COPIES = 40_000
SIGMAS = 5.5


def off(values, std):
    """Deviation of the sample variance from std^2, in its standard deviations; the mean is known to be 0."""
    return abs(float(np.mean((values / std) ** 2)) - 1.0) / math.sqrt(2.0 / values.size)


@pytest.mark.parametrize("horizon", EDGES)
@pytest.mark.parametrize("design", DESIGNS)
def test_variance_of_every_prefix_sum(design, horizon):
    """Coordinates are independent copies. A scale of 2/3, or of 0.97, would be detected."""
    sums = PrefixSum(dim=COPIES, horizon=horizon, design=design, random_state=1)
    found = sums.add_block(np.zeros((horizon, COPIES)))
    for t in range(horizon):
        std = sums.std(t + 1)
        assert off(found[t], std) < SIGMAS, f"prefix sum {t + 1}"
        assert off(found[t] * 2 / 3, std) > 50
        assert off(found[t] * 0.97, std) > SIGMAS
        assert abs(found[t].mean()) < 5.5 * std / math.sqrt(COPIES)
    assert sums.std() == sums.std(horizon)


def test_standard_deviations_of_the_specification():
    """Section 12: Delta = 1, epsilon = 1, delta = 1e-6; tree and Honaker at t = 7 and 8."""
    for design, horizon, t, expected in (
        ("tree", 7, 7, 12.67403666798051),
        ("tree", 8, 7, 14.63471696395547),
        ("tree", 8, 8, 8.449357778653671),
        ("honaker", 7, 7, 10.94696207527406),
        ("honaker", 8, 7, 12.64046300193620),
        ("honaker", 8, 8, 6.170538469067144),
    ):
        sums = PrefixSum(dim=1, horizon=horizon, design=design, adjacency="zero_out")
        assert sums.std(t) == pytest.approx(expected, rel=1e-9)
        twice = PrefixSum(dim=1, horizon=horizon, design=design)
        assert twice.std(t) == pytest.approx(2 * expected, rel=1e-9)


@pytest.mark.parametrize("design", DESIGNS)
def test_sums_are_near_the_exact_ones(design):
    X = data(60)
    sums = PrefixSum(dim=3, horizon=60, design=design, epsilon=8.0, random_state=3)
    found = sums.add_block(X)
    stds = np.array([sums.std(t) for t in range(1, 61)])
    assert (abs(found - exact(X)) < 6 * stds[:, None]).all()
    none = PrefixSum(dim=3, horizon=60, design=design, epsilon=math.inf)
    np.testing.assert_allclose(none.add_block(X), exact(X), rtol=1e-12, atol=1e-12)
    assert none.std() == 0.0
    assert none.guarantee_.kind == "none"
    assert none.ledger_.spent.mu == math.inf


# ---- the effect of one row ---------------------------------------------------------------------------------------

STREAMS = 300_000


def released(design, horizon, rows, std_of, seed):
    """Prefix sums of independent copies of a stream of numbers, shape (horizon, copies)."""
    extra, _ = parameters(design, horizon)
    chosen = Banded(horizon, 3) if design == "banded" else factorization(design, horizon)
    if isinstance(chosen, Banded):
        extra = {"coefficients": chosen.coefficients()}
    if isinstance(chosen, BLT):
        extra = {"theta": chosen.theta, "omega": chosen.omega}
    if isinstance(chosen, Smooth):
        extra = {"ones": chosen.shape[1]}
    found = calibrate_sums(factorization=chosen, dim=1, bound=1.0, epsilon=4.0, delta=1e-5)
    plan = PrefixPlan(
        design=design, width=STREAMS, horizon=horizon, bound=math.sqrt(STREAMS), std=found.sigma * std_of, **extra
    )
    return begin(plan, key=bytes([seed] * 32)).add_block(np.multiply.outer(rows, np.ones(STREAMS)))


def largest_mu(design, horizon, std_of=1.0):
    """Lower bound on mu by the best linear statistic of all prefix sums, learnt on one half and tested on the other.

    The first row is 1 or -1, which moves all sums; later rows are the same. Confidence: 1 - 3e-7 (5 standard errors of
    a difference of two means; the variance's own error is covered by a factor of 1.01).
    """
    rows = np.full(horizon, 0.3)

    def with_first(first, seed):
        return released(design, horizon, np.append(first, rows[1:]), std_of, seed)

    one, other, fresh = with_first(1.0, 3), with_first(-1.0, 3), (with_first(1.0, 4), with_first(-1.0, 5))
    shift = one.mean(axis=1) - other.mean(axis=1)
    weights = np.linalg.solve(np.cov(one), shift)
    a, b = (weights @ half for half in fresh)
    deviation = math.sqrt((a.var() + b.var()) / 2) * 1.01
    return (a.mean() - b.mean()) / deviation - 5.0 * math.sqrt(2.0 / STREAMS)


@pytest.mark.parametrize(
    ("design", "near"),
    # Prefix sums alone reveal less of these two designs than the noisy nodes do, all of which count as released.
    [("tree", 0.97), ("sqrt", 0.97), ("blt", 0.97), ("banded", 0.97), ("independent", 0.97), ("honaker", 0.6),
     ("smooth", 0.6)],
)  # fmt: skip
def test_the_best_distinguisher_finds_what_is_claimed_and_no_more(design, near):
    claim = gdp_mu(4.0, 1e-5)
    for horizon in (4, 7):
        found = largest_mu(design, horizon)
        assert near * claim < found <= claim
    if near > 0.9:
        assert largest_mu(design, 7, 2 / 3) > 1.2 * claim, "too little noise is not seen"


def test_the_gram_moves_no_further_than_charged():
    """Spec 7: sqrt(2) R^2, attained at right angles; the noise is that of this sensitivity."""
    rng = np.random.default_rng(0)
    V = rng.normal(size=(2000, 4))
    V /= np.linalg.norm(V, axis=1, keepdims=True)
    M = svec(np.einsum("ni,nj->nij", V, V))
    assert np.linalg.norm(M[:1000] - M[1000:], axis=1).max() < math.sqrt(2)
    assert np.linalg.norm(svec(np.diag([1.0, 0, 0, 0]) - np.diag([0, 1.0, 0, 0]))) == pytest.approx(math.sqrt(2))
    np.testing.assert_allclose(np.linalg.norm(M, axis=1), 1.0)
    ball = SymmetricSum(dim=4, horizon=8, bound=1.0)
    for design in DESIGNS:
        for adjacency, factor in (("replace", math.sqrt(2)), ("zero_out", 1.0)):
            gram = SymmetricSum(dim=4, horizon=8, gram=True, bound=3.0, design=design, adjacency=adjacency)
            plain = PrefixSum(dim=10, horizon=8, bound=1.0, design=design, adjacency="zero_out")
            assert gram.std(5) == pytest.approx(9 * factor * plain.std(5), rel=1e-6)
            assert gram.std(5) > 9 * factor * plain.std(5) * (1 - 1e-12)
    assert ball.std(3) == pytest.approx(PrefixSum(dim=10, horizon=8).std(3), rel=1e-12)


# ---- horizons and leaves -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("leaf", [1, 3])
@pytest.mark.parametrize("design", DESIGNS)
def test_an_unknown_horizon_is_supported(design, leaf):
    """Epochs of 2, 4, 8, ... leaves: any cut and any checkpoint give the same bits, and the noise adds up."""
    own = {"design": design} | ({"bandwidth": 5} if design == "banded" else {})
    n, make = 41, {"dim": 3, "horizon": None, "first_epoch": 2, "leaf": leaf, "random_state": 5, **own}
    X, whole = data(n), PrefixSum(**make)
    found = whole.add_block(X)
    one = PrefixSum(**make)
    np.testing.assert_array_equal([one.add(row) for row in X], found)
    for cut in (0, 1, 2 * leaf, 6 * leaf, 20, 40):
        saved, again = PrefixSum(**make), PrefixSum(**{**make, "random_state": 6})
        saved.add_block(X[:cut])
        again.restore(saved.secret_state())
        np.testing.assert_array_equal(again.add_block(X[cut:]), found[cut:])
        assert (again.n_rows_, again.n_releases_) == (n, n // leaf)
    np.testing.assert_array_equal(PrefixSum(**make).add_block(X, every=False), found[-1])
    none = PrefixSum(**{**make, "epsilon": math.inf})
    np.testing.assert_allclose(none.add_block(X)[leaf - 1 :: leaf], exact(X)[leaf - 1 :: leaf], rtol=1e-12, atol=1e-12)
    parts = [PrefixSum(**{**make, "horizon": leaf * k}) for k in (2, 4, 8)]
    assert whole.std(10) == pytest.approx(math.hypot(parts[0].std(2), parts[1].std(4), parts[2].std(4)))
    assert f"epochs of {2 * leaf} rows, twice as many and so on " in whole.guarantee_.sentence()
    assert whole.guarantee_.mu == parts[0].guarantee_.mu
    copies = PrefixSum(dim=COPIES, horizon=None, first_epoch=2, random_state=1, **own)
    noise = copies.add_block(np.zeros((9, COPIES)))
    assert max(off(noise[t], copies.std(t + 1)) for t in range(9)) < SIGMAS


@pytest.mark.parametrize("design", DESIGNS)
def test_leaves_of_several_rows(design):
    X = data(11)
    sums = PrefixSum(dim=3, horizon=11, leaf=4, design=design, epsilon=6.0, random_state=2)
    found = sums.add_block(X)
    assert not found[:3].any()
    for i in (4, 5, 6, 8, 9, 10):
        np.testing.assert_array_equal(found[i], found[i - i % 4 - 1])
    assert sums.n_releases_ == 2
    assert np.all(abs(found[7] - exact(X)[7]) < 6 * sums.std(2))
    assert sums.std(3) == pytest.approx(PrefixSum(dim=3, horizon=3, design=design, epsilon=6.0).std(3), rel=1e-9)
    sums.close()
    assert sums.n_releases_ == 3
    assert np.all(abs(sums.prefix_ - exact(X)[10]) < 6 * sums.std(3))
    assert abs(sums.prefix_ - found[10]).max() > 0
    sums.close()
    with pytest.raises(StateError, match="closed"):
        sums.add(X[0])


def test_published_noise_states_what_it_proves():
    sums = PrefixSum(dim=2, horizon=1024, design="tree", calibration="published")
    assert sums.std(1) == pytest.approx(27.50980806329146, rel=1e-9)
    assert sums.guarantee_.claim.epsilon == 1.0
    assert sums.guarantee_.mu == pytest.approx(2 * math.sqrt(11) / 27.50980806329146, rel=1e-9)
    for wrong in ({"design": "blt"}, {"horizon": None}, {"leaf": 2}, {"adjacency": "zero_out"}):
        with pytest.raises(InvalidParameter, match="published"):
            PrefixSum(**{"dim": 2, "horizon": 64, "design": "tree", "calibration": "published", **wrong})


# ---- matrices ----------------------------------------------------------------------------------------------------


def test_svec_and_back():
    M = np.random.default_rng(0).normal(size=(5, 4, 4))
    M = M + M.transpose(0, 2, 1)
    np.testing.assert_allclose(unsvec(svec(M)), M, rtol=1e-15)
    np.testing.assert_allclose(np.linalg.norm(svec(M), axis=1), np.linalg.norm(M, axis=(1, 2)))


def test_noise_of_a_matrix():
    """Symmetric; off the diagonal, 1 / sqrt(2) of the standard deviation on it."""
    dim, horizon = 400, 3
    sums = SymmetricSum(dim=dim, horizon=horizon, design="tree", random_state=1)
    for t, M in enumerate(sums.add_block(np.zeros((horizon, dim, dim)))):
        np.testing.assert_array_equal(M, M.T)
        assert off(np.diag(M), sums.std(t + 1)) < SIGMAS
        assert off(M[np.triu_indices(dim, 1)], sums.std(t + 1) / math.sqrt(2)) < SIGMAS


@pytest.mark.parametrize("design", DESIGNS)
def test_sums_of_matrices(design):
    V = data(20, 4)
    make = {"dim": 4, "horizon": 20, "epsilon": 5.0, "design": design, "random_state": 7}
    gram = SymmetricSum(**make, gram=True)
    found = gram.add_block(V)
    clipped = V / np.maximum(1.0, np.linalg.norm(V, axis=1, keepdims=True))
    outer = np.einsum("ni,nj->nij", clipped, clipped)
    np.testing.assert_allclose(
        SymmetricSum(**{**make, "epsilon": math.inf}, gram=True).add_block(V), np.cumsum(outer, 0), atol=1e-12
    )
    assert (abs(found - np.cumsum(outer, 0)) < 6 * np.array([gram.std(t) for t in range(1, 21)])[:, None, None]).all()
    one = SymmetricSum(**make, gram=True)
    np.testing.assert_array_equal([one.add(v) for v in V], found)
    np.testing.assert_array_equal(one.prefix_, found[-1])
    ball = SymmetricSum(**make)
    lower = outer + np.tril(np.ones((4, 4)), -1)  # only the upper triangle is read
    np.testing.assert_array_equal(ball.add_block(lower), SymmetricSum(**make).add_block(outer))


# ---- refusals ----------------------------------------------------------------------------------------------------


def test_rows_that_cannot_be_learnt():
    sums, X = PrefixSum(dim=3, horizon=10, random_state=0), data(10)
    sums.add_block(X[:4])
    before = sums.prefix_
    bad = X[4:8].copy()
    bad[2, 1] = np.nan
    with pytest.raises(InvalidRow, match="row 7, feature 1: found NaN") as caught:
        sums.add_block(bad)
    assert (caught.value.row, caught.value.column) == (7, 1)
    with pytest.raises(InvalidRow, match="row 5, feature 1: found infinity"):
        sums.add([0.0, math.inf, 0.0])
    with pytest.raises(BudgetExceeded, match="the next 7 rows would exceed the horizon: 4 of 10 are used; nothing"):
        sums.add_block(np.zeros((7, 3)))
    with pytest.raises(InvalidRow, match="row 5, feature 0: found 'a', allowed are real numbers"):
        sums.add_block([["a", "b", "c"]])
    with pytest.raises(InvalidRow, match="row 6: found 2 values, allowed are 3 numbers"):
        sums.add_block([[1, 2, 3], [1, 2]])
    for wrong in (np.zeros(3), np.zeros((2, 4)), np.zeros((1, 2, 3)), np.zeros((1, 3), dtype=complex)):
        with pytest.raises(InvalidParameter, match="rows must"):
            sums.add_block(wrong)
    with pytest.raises(InvalidParameter, match="a row must have 3 values"):
        sums.add(np.zeros(4))
    assert sums.n_rows_ == sums.n_releases_ == 4
    np.testing.assert_array_equal(sums.prefix_, before)
    sums.add_block(sparse.csr_matrix(X[4:]))
    np.testing.assert_array_equal(sums.prefix_, PrefixSum(dim=3, horizon=10, random_state=0).add_block(X)[-1])
    null = PrefixSum(dim=3, horizon=10, random_state=0, on_invalid="zero")
    zeros = X.copy()
    zeros[5] = 0.0
    expected = null.add_block(np.where(np.arange(10)[:, None] == 5, np.nan, X))
    np.testing.assert_array_equal(PrefixSum(dim=3, horizon=10, random_state=0).add_block(zeros), expected)
    M = np.zeros((2, 3, 3))
    M[1, 0, 2] = np.inf
    with pytest.raises(InvalidRow, match=r"row 2, entry \(0, 2\): found infinity"):
        SymmetricSum(dim=3, horizon=2).add_block(M)
    with pytest.raises(InvalidParameter, match=r"shape \(n, 3, 3\)"):
        SymmetricSum(dim=3, horizon=2).add_block(np.zeros((2, 3, 2)))


@pytest.mark.parametrize(
    "wrong",
    [
        {"dim": 0}, {"horizon": 0}, {"horizon": 1.5}, {"bound": 0.0}, {"bound": math.nan}, {"epsilon": 0.0},
        {"delta": 1.0}, {"design": "forest"}, {"adjacency": "add"}, {"leaf": 0}, {"buffers": 0},
        {"objective": "median"}, {"theta": (0.5,)}, {"first_epoch": 0}, {"calibration": "loose"}, {"ledger": 3},
        {"on_invalid": "skip"}, {"random_state": "seed"}, {"design": "sqrt", "horizon": 1 << 26},
    ],
    ids=str,
)  # fmt: skip
def test_bad_parameters(wrong):
    with pytest.raises(InvalidParameter, match=next(iter(wrong))):
        PrefixSum(**{"dim": 2, "horizon": 10, **wrong})


def test_sums_that_would_overflow_are_refused_in_advance():
    for design in ("tree", "honaker", "smooth"):
        with pytest.raises(InvalidParameter, match="64-bit integers"):
            PrefixSum(dim=1, horizon=1 << 48, design=design, epsilon=1e9)
    largest = PrefixSum(dim=1, horizon=1 << 48, design="tree", epsilon=1.0, delta=1e-20, random_state=0)
    assert abs(largest.add_block(np.ones((100, 1)))[-1] - 100) < 6 * largest.std()


# ---- ledger, copies, state -----------------------------------------------------------------------------------------


def test_the_ledger_is_charged_once():
    ledger = Ledger(epsilon=1.0, delta=1e-6)
    sums = PrefixSum(dim=2, horizon=50, epsilon=0.6, delta=1e-6, ledger=ledger)
    assert ledger.spent.mu == 0.0
    with pytest.raises(BudgetExceeded, match="PrefixSum asks for mu"):
        PrefixSum(dim=2, horizon=50, epsilon=0.9, delta=1e-6, ledger=ledger)
    sums.add(np.zeros(2))
    spent = ledger.spent.mu
    assert spent == pytest.approx(sums.guarantee_.mu)  # by the first one, all of it
    sums.add_block(np.zeros((49, 2)))
    assert ledger.spent.mu == spent
    assert ledger.entries()[0].releases == 50
    sums.close()
    unused = PrefixSum(dim=2, horizon=50, epsilon=0.6, delta=1e-6, ledger=ledger)
    unused.close()
    assert ledger.entries()[1].mu_squared == 0.0
    sentence = sums.guarantee_.sentence()
    for words in ("at most 50 private prefix sums", "out of 50 rows", "the exact sums", "delta) = (0.6, 1e-6)"):
        assert words in sentence
    with pytest.raises(InvalidParameter, match="adjacency"):
        PrefixSum(dim=2, horizon=5, adjacency="zero_out", ledger=ledger)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_copies_forks_and_states():
    sums = PrefixSum(dim=2, horizon=20, random_state=4)
    X = data(20, 2)
    found = sums.add_block(X[:7])
    for action in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(StateError, match="a live prefix sum cannot be"):
            action(sums)
    if hasattr(os, "fork"):
        child = os.fork()
        if child == 0:
            refused = 0
            for action in (lambda: sums.add(X[7]), lambda: sums.add_block(X[7:]), sums.secret_state, sums.close):
                try:
                    action()
                except SourceFailure:
                    refused += 1
                except BaseException:
                    pass
            os._exit(refused)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
    arrays = sums.secret_state()
    again = PrefixSum(dim=2, horizon=20, random_state=9)
    again.restore(arrays)
    np.testing.assert_array_equal(again.prefix_, found[-1])
    np.testing.assert_array_equal(again.add_block(X[7:]), sums.add_block(X[7:]))
    with pytest.raises(StateError, match="only a fresh"):
        again.restore(arrays)
    with pytest.raises(StateError, match="random_state must be None"):
        PrefixSum(dim=2, horizon=20).restore(arrays)
    for other in ({"horizon": 21}, {"dim": 3}, {"epsilon": 2.0}, {"design": "tree"}, {"bound": 2.0}):
        with pytest.raises(StateError, match="another plan"):
            PrefixSum(**{"dim": 2, "horizon": 20, "random_state": 4, **other}).restore(arrays)
    secret = PrefixSum(dim=2, horizon=20)
    secret.add_block(X[:3])
    fresh = PrefixSum(dim=2, horizon=20)
    fresh.restore(secret.secret_state())
    np.testing.assert_array_equal(fresh.add_block(X[3:]), secret.add_block(X[3:]))
    assert fresh.guarantee_.private
    assert fresh.guarantee_.bit_source == secret.guarantee_.bit_source


@pytest.mark.parametrize("horizon", [240, None])
def test_threads_share_one_run(horizon):
    """Rows from several threads: together they are those of one thread, each at its own position."""
    make = {"dim": 3, "horizon": horizon, "first_epoch": 4, "design": "honaker", "random_state": 8}
    sums, seen, errors = PrefixSum(**make), [], []

    def work(k):
        try:
            for _ in range(10):
                seen.extend(sums.add_block(np.zeros((1 + k, 3))) if k else [sums.add(np.zeros(3))])
                assert sums.ledger_.spent.releases >= len(seen) // 8
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in (0, 1, 2, 3, 4, 5, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
        assert not thread.is_alive(), "deadlock"
    assert not errors
    expected = PrefixSum(**make).add_block(np.zeros((240, 3)))
    assert sums.n_rows_ == len(seen) == 240
    np.testing.assert_array_equal(np.sort(seen, axis=0), np.sort(expected, axis=0))


def test_plans_of_calibrations():
    found = calibrate_sums(factorization=factorization("smooth", 5), dim=3, bound=2.0, epsilon=1.0, delta=1e-6, leaf=4)
    plan = plan_of(found, horizon=18)
    assert (plan.steps, plan.dim, plan.std, plan.grid) == (5, 3, found.sigma, found.grid)
    with pytest.raises(InvalidParameter, match="5 leaves of 4 rows, found 21"):
        plan_of(found, horizon=21)


def test_noise_of_two_sums_is_independent():
    """Correlation of 20,000 pairs beyond 5.5 standard errors: below 4e-8."""
    a, b = (PrefixSum(dim=20_000, horizon=1).add_block(np.zeros((1, 20_000)))[0] for _ in range(2))
    assert abs(stats.pearsonr(a, b).statistic) < 5.5 / math.sqrt(20_000)


@pytest.mark.parametrize("horizon", [None, 21])
def test_an_interrupted_close_ends_the_run(horizon, monkeypatch):
    """The last leaf is completed as it is: no row may follow, in this epoch or in another."""
    sums = PrefixSum(dim=3, horizon=horizon, first_epoch=2, leaf=3, random_state=4)
    whole = PrefixSum(dim=3, horizon=horizon, first_epoch=2, leaf=3, random_state=4)
    X = data(13)
    for each in (sums, whole):
        each.add_block(X)
    whole.close()
    with monkeypatch.context() as patch:
        watched = watch(patch)
        again = sums.secret_state()
        sums = PrefixSum(dim=3, horizon=horizon, first_epoch=2, leaf=3, random_state=4)
        sums.restore(again)
        left = iter(range(1))

        def fail(real, given, out):
            if next(left, None) is not None:
                raise KeyboardInterrupt
            return real.update_into(given, out)

        watched.fail = fail
        with pytest.raises(KeyboardInterrupt):
            sums.close()
    assert (sums.n_rows_, sums.n_releases_) == (13, 5)
    assert sums.std() == whole.std() == whole.std(5)
    np.testing.assert_array_equal(sums.prefix_, whole.prefix_)
    for add in (sums.add, lambda row: sums.add_block(row[None])):
        with pytest.raises(StateError, match="no row follows"):
            add(X[0])
    sums.close()
    assert sums.std() == whole.std()
