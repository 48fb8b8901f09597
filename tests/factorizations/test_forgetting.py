"""Discounted and sliding sums: closed forms against dense matrices, kernels against their twin, noise, guarantees."""

from __future__ import annotations

import itertools
import math
import warnings
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from alpha import rate
from prefix_tools import KEY, begin, data, toeplitz, workload
from scipy import sparse
from scipy.stats import chi2
from twins_prefix import Twin

from privol._core._noise import instruction_sets, use_instruction_set
from privol._core._prefix_plan import PrefixPlan
from privol.calibration import MOST_ROWS, calibrate_sums
from privol.errors import BudgetExceeded, InvalidParameter, StateError
from privol.factorizations import (
    BLT,
    DESIGNS,
    DRIFT_DESIGNS,
    OBJECTIVES,
    Banded,
    Independent,
    SquareRoot,
    Toeplitz,
    factorization,
    step_workload,
)
from privol.factorizations._choose import _stored
from privol.guarantees import gdp_delta, gdp_mu
from privol.prefix import PrefixSum, SymmetricSum, plan_of

pytestmark = pytest.mark.statistical

WORKLOADS = [
    {"discount": 0.9}, {"discount": 0.3}, {"discount": 0.9999}, {"discount": 1.0 - 1e-12}, {"window": 1}, {"window": 2},
    {"window": 7}, {"window": 20}, {"window": 100},
]  # fmt: skip
SHORT = [{"discount": 0.9}, {"window": 1}, {"window": 6}, {"window": 60}]


# ---- dense matrices ----------------------------------------------------------------------------------------------


def encoder(f):
    n = f.steps
    if isinstance(f, SquareRoot):
        return toeplitz([math.comb(2 * k, k) / 4**k * f.decay**k for k in range(n)])
    if isinstance(f, Banded):
        return toeplitz([math.comb(2 * k, k) / 4**k * f.decay**k if k < f.bandwidth else 0.0 for k in range(n)])
    if isinstance(f, Independent):
        return np.eye(n)
    assert isinstance(f, BLT)
    terms = list(zip(f.theta, f.omega, strict=True))
    return toeplitz([1.0, *(f.decay**k * sum(w * t ** (k - 1) for t, w in terms) for k in range(1, n))])


OWN = [
    lambda n, d: BLT(n, (0.5,), (0.25,), decay=d.get("discount", 0.8), window=d.get("window")),
    lambda n, d: BLT(n, (0.5, 0.25), (0.25, 0.125), decay=d.get("discount", 1.0), window=d.get("window")),
    lambda n, d: BLT(n, (1 - 2e-9, 1 - 4e-9), (1e-9, 1e-9), decay=d.get("discount", 0.999), window=d.get("window")),
    lambda n, d: BLT(n, (), (), decay=d.get("discount", 0.5), window=d.get("window")),
    lambda n, d: SquareRoot(n, decay=d.get("discount", 0.7), window=d.get("window")),
    lambda n, d: Banded(n, 3, decay=d.get("discount", 0.7), window=d.get("window")),
    lambda n, d: Banded(n, 2, decay=d.get("discount", 1.0), window=d.get("window")),
]


@pytest.mark.parametrize("words", WORKLOADS, ids=str)
@pytest.mark.parametrize(
    "make",
    [*(lambda n, d, k=k, o=o: factorization(k, n, objective=o, **d) for k in DRIFT_DESIGNS for o in OBJECTIVES), *OWN],
)
def test_closed_forms_agree_with_dense_matrices(make, words):
    for n in (1, 2, 3, 7, 8, 20, 21, 40):
        compare(make(n, words), n, words)


def compare(f, n, words):
    c, a = encoder(f), workload(n, **words)
    b = np.linalg.solve(c.T, a.T).T
    column, rows = np.linalg.norm(c[:, 0]), np.linalg.norm(b, axis=1)
    assert column * (1 - 1e-14) <= f.column_norm <= column * (1 + 2e-11)
    np.testing.assert_allclose([f.row_norm(t) for t in range(1, n + 1)], rows, rtol=1e-10)
    assert f.max_error() == pytest.approx(column * rows.max(), rel=1e-10)
    assert f.mean_error() == pytest.approx(column * math.sqrt((rows**2).mean()), rel=1e-10)
    np.testing.assert_allclose([f.weight(t) for t in range(1, n + 1)], a.sum(axis=1), rtol=1e-10)
    if isinstance(f, Banded):
        np.testing.assert_array_equal(f.coefficients(), SquareRoot(f.bandwidth, decay=f.decay).coefficients())
    if isinstance(f, SquareRoot):
        np.testing.assert_allclose(f.decoder(), b[:, 0], rtol=1e-10, atol=1e-13)
        np.testing.assert_allclose(f.coefficients(), c[:, 0], rtol=1e-13)
    singular = np.linalg.svd(a, compute_uv=False).sum() / n  # no factorisation has a smaller mean error
    assert f.mean_error() >= singular * (1 - 1e-12)


@pytest.mark.parametrize(
    ("words", "near"),
    [({"discount": 0.9}, 1.003), ({"discount": 0.99}, 1.02), ({"window": 1}, 1.001), ({"window": 10}, 1.1),
     ({"window": 100}, 1.12)],
)  # fmt: skip
def test_errors_are_near_the_least_possible(words, near):
    n = 300
    least = np.linalg.svd(workload(n, **words), compute_uv=False).sum() / n
    for objective in OBJECTIVES:
        assert factorization("blt", n, objective=objective, **words).mean_error() < near * least
    assert factorization("independent", n, **words).mean_error() > near * least or words.get("window") == 1


@pytest.mark.parametrize("words", [{"discount": 0.999}, {"window": 50}], ids=str)
def test_the_chosen_parameters_are_the_best_stored_ones(words):
    for objective in OBJECTIVES:
        f = factorization("blt", 5000, buffers=3, objective=objective, **words)
        assert isinstance(f, BLT)
        assert len(f.theta) <= 3
        for entries in _stored()[objective].values():
            for decay in (words["discount"],) if "discount" in words else (1.0, 1 / (1 + 1 / 50), 1 / (1 + 4 / 50)):
                other = BLT(5000, *entries[2], decay=decay, window=words.get("window"))
                if objective == "max":
                    assert f.max_error() <= other.max_error()
                else:
                    assert f.mean_error() <= other.mean_error()


@pytest.mark.parametrize("n", [2, 1000, 2**14 + 1, 2**30, 2**48])
@pytest.mark.parametrize("decay", [0.5, 0.99, 0.999999, 1.0 - 2.0**-40])
def test_column_norms_are_rounded_up(n, decay):
    """For exactly the doubles that the kernel has: against 40 digits."""
    rates = factorization("blt", n, discount=decay)
    assert isinstance(rates, BLT)
    with mp.workdps(40):
        theta, omega = ([mp.mpf(x) for x in numbers] for numbers in rates.recursion)
        pairs = list(itertools.product(zip(theta, omega, strict=True), repeat=2))
        exact = mp.sqrt(1 + sum(u * v * (1 - (s * t) ** (n - 1)) / (1 - s * t) for (s, u), (t, v) in pairs))
        assert 0 <= mp.mpf(rates.column_norm) / exact - 1 < 3e-12
        if n > 2**30:
            return
        # the series of the square root: its generating function where n is beyond all terms, else term by term
        q = mp.mpf(decay) ** 2
        if mp.mpf(n) * mp.log(q) < -120:
            exact = mp.sqrt(2 * mp.ellipk(q) / mp.pi)
        elif n <= 2**15:
            term, exact = mp.mpf(1), mp.mpf(0)
            for k in range(n):
                exact += term
                term *= q * (mp.mpf(2 * k + 1) / (2 * k + 2)) ** 2
            exact = mp.sqrt(exact)
        else:
            return
        assert 0 <= mp.mpf(SquareRoot(n, decay=decay).column_norm) / exact - 1 < 6e-11


def test_without_forgetting_nothing_changes():
    for design in DESIGNS:
        f = factorization(design, 100, discount=1.0)
        assert f == factorization(design, 100)
        assert (f.discount, f.window, f.weight(7)) == (1.0, None, 7.0)
    longer = factorization("blt", 100, window=100)
    assert longer.max_error() == pytest.approx(factorization("blt", 100).max_error(), rel=0.02)
    assert isinstance(longer, Toeplitz)
    assert longer.memory == 8


def test_noise_has_a_bound():
    """2**48 steps cost a small multiple of 1 / (1 - discount) or of the window."""
    for words in ({"discount": 0.999}, {"window": 1000}):
        found = [factorization("blt", n, **words).max_error() for n in (2**17, 2**30, 2**48)]
        assert found[0] == pytest.approx(found[1], rel=1e-3)
        assert found[1] == pytest.approx(found[2], rel=1e-9)
        assert factorization("independent", 2**48, **words).max_error() > 5 * found[2]


def test_refusals():
    for design in ("tree", "honaker", "smooth"):
        for words in ({"discount": 0.5}, {"window": 3}):
            with pytest.raises(InvalidParameter, match=r"adds up intervals.*sqrt, blt, banded, independent"):
                factorization(design, 10, **words)
    for words, message in (
        ({"discount": 0.0}, "discount"),
        ({"discount": 1.1}, "discount"),
        ({"discount": 1e-101}, "decay"),
        ({"discount": math.nan}, "discount"),
        ({"window": 0}, "window"),
        ({"window": 2.5}, "window"),
        ({"window": 3, "discount": 0.5}, "two ways to forget"),
        ({"window": 3, "theta": (0.5,), "omega": (0.1,)}, "theta and omega"),
        ({"discount": 1e-100, "theta": (1e-200,), "omega": (1e-201,)}, "theta and omega must be at least"),
    ):
        with pytest.raises(InvalidParameter, match=message):
            factorization("blt", 10, **words)
    with pytest.raises(InvalidParameter, match="'sqrt' has sliding sums of at most"):
        factorization("sqrt", 2**25, window=5)
    with pytest.raises(InvalidParameter, match="multiple of the 3 rows of a step, found 10"):
        step_workload(1.0, 10, 3)
    with pytest.raises(InvalidParameter, match="forgets all before a step of 1000 rows"):
        step_workload(0.5, None, 1000)
    assert step_workload(0.5, None, 10) == (2.0**-10, None)
    assert step_workload(0.99, None, 77)[0] == pytest.approx(0.99**77, rel=1e-14)
    assert step_workload(1.0, 12, 4) == (1.0, 3)
    with pytest.raises(InvalidParameter, match="discount"):
        PrefixPlan(design="blt", width=1, horizon=9, bound=1.0, std=1.0, theta=(0.5,), omega=(0.1,), discount=0.0)
    with pytest.raises(InvalidParameter, match="window"):
        PrefixPlan(design="independent", width=1, horizon=9, bound=1.0, std=1.0, window=3, discount=0.5)
    with pytest.raises(InvalidParameter, match="no window"):
        PrefixPlan(design="tree", width=1, horizon=9, bound=1.0, std=1.0, window=3)
    with pytest.raises(InvalidParameter, match="above 67108864 values"):
        PrefixPlan(design="independent", width=1 << 20, horizon=99, bound=1.0, std=1.0, window=65)
    with pytest.raises(InvalidParameter, match="above 67108864 values"):
        PrefixPlan(design="banded", width=1 << 20, horizon=99, bound=1.0, std=1.0, coefficients=(1.0,), window=65)
    with pytest.raises(InvalidParameter, match="decoder"):
        PrefixPlan(design="sqrt", width=1, horizon=9, bound=1.0, std=1.0, coefficients=(1.0,) * 9, decoder=(1.0,))


# ---- what is charged ---------------------------------------------------------------------------------------------


def calibrated(f, **words):
    return calibrate_sums(factorization=f, **{"dim": 3, "bound": 1.0, "epsilon": 1.0, "delta": 1e-6, **words})


@pytest.mark.parametrize("words", SHORT, ids=str)
@pytest.mark.parametrize("design", DRIFT_DESIGNS)
def test_the_budget_holds_and_two_thirds_of_the_noise_would_break_it(design, words):
    f = factorization(design, 1000, **words)
    found = calibrated(f)
    least = np.linalg.norm(encoder(f)[:, 0]) * 2
    assert least <= found.charged <= least * (1 + 1e-8)
    assert gdp_delta(1.0, found.charged / found.sigma) <= 1e-6
    assert gdp_delta(1.0, least / (found.sigma * 2 / 3)) > 1e-5


class Recorded(Twin):
    """A twin that records what its draws perturb, and releases nothing."""

    def __init__(self, *args, **words):
        super().__init__(*args, **words)
        self.perturbed = []

    def draw(self, t, k, x, whole=None):
        self.perturbed.append(np.array(x))
        return np.zeros(self.dim)


def numbers_of(f):
    found = {"discount": f.discount, "window": f.window if f.window is not None and f.window < f.steps else None}
    if isinstance(f, BLT):
        found["theta"], found["omega"] = f.recursion
    elif isinstance(f, SquareRoot):
        found["coefficients"], found["decoder"] = f.coefficients(), f.decoder()
    elif isinstance(f, Banded):
        found["coefficients"] = f.coefficients()
    return found


@pytest.mark.parametrize("words", [{"discount": 0.8}, {"window": 3}, {"window": 12}], ids=str)
@pytest.mark.parametrize("design", DRIFT_DESIGNS)
def test_perturbed_values_move_by_at_most_the_charge(design, words):
    """Two streams that differ in one row, at any position; rows of a leaf have equal weight."""
    n, leaf, rng = 13, 2, np.random.default_rng(3)
    f = factorization(design, 7, **words)
    found = calibrated(f, dim=2, leaf=leaf)
    worst = 0.0
    for tau in range(n):
        rows = rng.normal(size=(n, 2))
        rows[tau] /= np.linalg.norm(rows[tau])
        everything = []
        for sign in (1.0, -1.0):
            sums = Recorded(design, dim=2, leaf=leaf, bound=1.0, std=1.0, grid=0.0, key=None, **numbers_of(f))
            for i, row in enumerate(rows):
                sums.add(sign * row if i == tau else row)
            sums.end_leaf()
            everything.append(np.concatenate(sums.perturbed))
        worst = max(worst, float(np.linalg.norm(everything[0] - everything[1])))
    assert 0.999 * found.charged <= worst <= found.charged


@pytest.mark.parametrize("design", ["blt", "sqrt"])
def test_rounding_of_the_recursion_is_within_its_charge(design):
    """The doubles that meet the noise against exact fractions, for a decay that is not a short fraction."""
    n, decay = 300, 0.9993
    f = BLT(n, (0.9999, 0.9), (0.02, 0.2), decay=decay) if design == "blt" else SquareRoot(n, decay=decay)
    found = calibrated(f, dim=1)
    each = (found.charged - f.column_norm * found.sensitivity) / (2 * math.sqrt(n))
    twin = Recorded(design, dim=1, leaf=1, bound=1.0, std=1.0, grid=0.0, key=None, **numbers_of(f))
    rows = [1.0 - 2.0**-20 * (k % 7) / 3 for k in range(n)]
    for w in rows:
        twin.add(np.array([w]))
    worst, buffers = 0.0, [Fraction(0)] * 2
    for k, w in enumerate(rows):
        if isinstance(f, BLT):
            theta, omega = ([Fraction(x) for x in numbers] for numbers in f.recursion)
            exact = Fraction(w) + sum(o * b for o, b in zip(omega, buffers, strict=True))
            buffers = [t * b + Fraction(w) for t, b in zip(theta, buffers, strict=True)]
        elif k in (50, 120, n - 1):
            exact = sum(
                Fraction(math.comb(2 * i, i), 4**i) * Fraction(decay) ** i * Fraction(rows[k - i]) for i in range(k + 1)
            )
        else:
            continue
        worst = max(worst, abs(float(Fraction(float(twin.perturbed[k][0])) - exact)))
    assert 0.0 < worst <= each < 1e-9


def test_rounding_over_all_steps_is_little_or_refused():
    """A run without a last row pays for the rounding of 2**48 steps: below 0.1 % where 10,000 rows count."""
    for words, most in (({"discount": 0.999}, 1e-4), ({"discount": 0.9999}, 1e-3), ({"window": 10_000}, 1e-3)):
        f = factorization("blt", MOST_ROWS, **words)
        found = calibrated(f)
        assert 0 < found.charged / (f.column_norm * found.sensitivity) - 1 < most
    with pytest.raises(InvalidParameter, match=r"rounding of .* steps would add 47% to the noise: give a horizon"):
        calibrated(factorization("blt", MOST_ROWS, discount=1 - 1e-6))
    discount, window = step_workload(1 - 1e-6, None, 100)
    calibrated(factorization("blt", MOST_ROWS // 100, discount=discount, window=window), leaf=100)
    with pytest.raises(InvalidParameter, match=r"at most 67,108,864 for them, found 1,000,000 \* 100: use discount"):
        calibrated(factorization("blt", 2**30, window=10**6), dim=100)


# ---- kernels -----------------------------------------------------------------------------------------------------


def plan_and_twin(design, horizon, words, *, leaf=1, gram=False, epsilon=2.0, width=3):
    f = factorization(design, -(-horizon // leaf), **words)
    dim, bound = (width * (width + 1) // 2, 0.81) if gram else (width, 0.9)
    found = calibrate_sums(factorization=f, dim=dim, bound=bound, epsilon=epsilon, delta=1e-6, leaf=leaf)
    plan = plan_of(found, horizon=horizon, width=width, bound=0.9, gram=gram)
    twin = Twin(design, dim=dim, leaf=leaf, bound=0.9, std=plan.std, grid=plan.grid, key=KEY if plan.std else b"",
                gram=gram, **numbers_of(f))  # fmt: skip
    return plan, twin


@pytest.mark.parametrize("gram", [False, True])
@pytest.mark.parametrize("leaf", [1, 3])
@pytest.mark.parametrize("epsilon", [2.0, math.inf])
@pytest.mark.parametrize("words", SHORT, ids=str)
@pytest.mark.parametrize("design", DRIFT_DESIGNS)
def test_every_bit_is_the_twins(design, words, epsilon, leaf, gram):
    for horizon in (1, 2, 7, 20, 50):
        plan, twin = plan_and_twin(design, horizon, words, leaf=leaf, gram=gram, epsilon=epsilon)
        run, X = begin(plan), data(horizon)
        found = run.add_block(X)
        for i, row in enumerate(X):
            np.testing.assert_array_equal(found[i], twin.add(row), err_msg=f"row {i + 1} of {horizon}")
        assert run.weight == pytest.approx(twin.weight, rel=1e-14, abs=0)
        run.finish()
        twin.end_leaf()
        np.testing.assert_array_equal(run.prefix(), twin.prefix)
        assert run.weight == twin.mass
        assert len(set(twin.used)) == len(twin.used)


@pytest.mark.parametrize("words", SHORT, ids=str)
@pytest.mark.parametrize("design", DRIFT_DESIGNS)
def test_cuts_levels_and_restarts_change_nothing(design, words):
    n = 40
    plan, _ = plan_and_twin(design, n, words, leaf=2, width=5)
    X = data(n, 5).astype(np.float32).astype(np.float64)
    whole = begin(plan).add_block(X)
    try:
        for level in instruction_sets():
            use_instruction_set(level)
            np.testing.assert_array_equal(begin(plan).add_block(X), whole)
    finally:
        use_instruction_set(None)
    one, at = begin(plan), 0
    for i, size in enumerate((0, 1, 2, 9, 5, 23)):
        block = X[at : at + size]
        found = one.add_block((block, block.astype(np.float32), sparse.csr_matrix(block))[i % 3])
        np.testing.assert_array_equal(found, whole[at : at + size])
        at += size
    run = begin(plan)
    for i in range(n):
        again = begin(plan)
        again.restore(run.secret_arrays())
        assert again.weight == run.weight
        np.testing.assert_array_equal(again.add_block(X[i:]), whole[i:])
        run.add_one(X[i])
    arrays = begin(plan).secret_arrays()
    other, _ = plan_and_twin(design, n, {"discount": 0.8}, leaf=2, width=5)
    with pytest.raises(StateError, match="another plan"):
        begin(other).restore(arrays)


def test_sums_that_forget_have_a_single_plan():
    words = {"design": "independent", "width": 3, "horizon": 5, "bound": 1.0, "std": 1.0}
    for first, second in (({}, {"discount": 0.5}), ({"window": 2}, {}), ({"discount": 0.5}, {"discount": 0.5})):
        with pytest.raises(InvalidParameter, match="of one plan"):
            PrefixPlan(**words, **first).followed_by(PrefixPlan(**words, **second))


@pytest.mark.parametrize("words", [{"discount": 0.97}, {"window": 20}], ids=str)
def test_blocks_of_the_square_root(words):
    """The share of earlier blocks by Fourier transform, with the series of C inside and of B outside."""
    n, X = 75, data(75, 20)
    f = factorization("sqrt", n, **words)
    given = {"coefficients": f.coefficients(), "decoder": f.decoder(), "discount": f.discount, "window": f.window or 0}
    plans = [PrefixPlan(design="sqrt", width=20, horizon=n, bound=1.0, std=2.0, block=b, **given) for b in (0, 8, 16)]
    whole = begin(plans[0]).add_block(X)
    for plan in plans[1:]:
        np.testing.assert_allclose(begin(plan).add_block(X), whole, rtol=0, atol=1e-11)


# ---- prefix sums in use ------------------------------------------------------------------------------------------


def forgetful(X, discount=1.0, window=None):
    return workload(len(X), discount, window) @ X


@pytest.mark.parametrize("words", SHORT, ids=str)
@pytest.mark.parametrize("design", DRIFT_DESIGNS)
def test_sums_are_near_the_exact_ones_with_the_stated_noise(design, words):
    """Chi-square of 5,000 coordinates at a few steps; two thirds of the noise is rejected at each."""
    n, dim = 50, 5000
    X = data(n, dim) * 0.5
    none = PrefixSum(dim=dim, horizon=n, design=design, epsilon=math.inf, **words).add_block(X)
    np.testing.assert_allclose(none, forgetful(X, **words), rtol=0, atol=1e-12)
    sums = PrefixSum(dim=dim, horizon=n, design=design, random_state=1, **words)
    found, limit = sums.add_block(X) - forgetful(X, **words), rate("forgetting.scale") / 72
    for t in (1, 2, 6, 7, 30, 50):
        square = float(np.sum((found[t - 1] / sums.std(t)) ** 2))
        assert chi2.ppf(limit, dim) < square < chi2.isf(limit, dim)
        assert square * 4 / 9 < chi2.ppf(limit, dim)
    assert sums.weight_ == pytest.approx(workload(n, **words)[-1].sum(), rel=1e-12)


@pytest.mark.parametrize("words", [{"discount": 0.95}, {"window": 12}], ids=str)
@pytest.mark.parametrize("design", ["blt", "banded", "independent"])
def test_a_run_without_a_last_row_is_one_mechanism(design, words):
    make = {"dim": 3, "horizon": None, "design": design, "random_state": 5, "leaf": 3, **words}
    X = data(100)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no warning about delta and 2**48 rows
        whole = PrefixSum(**{**make, "random_state": None})
    sentence = whole.guarantee_.sentence()
    assert "the run has no last row: it is one mechanism of up to 281,474,976,710,656 rows" in sentence
    assert "epochs" not in sentence
    assert "delta is not below" not in sentence
    assert whole.guarantee_.horizon == MOST_ROWS
    assert whole.guarantee_.mu == gdp_mu(1.0, 1e-6)
    whole = PrefixSum(**make)
    found = whole.add_block(X)
    finite = PrefixSum(**{**make, "horizon": 10_000})
    assert whole.std(33) == pytest.approx(finite.std(33), rel=1e-3)
    assert whole.std(MOST_ROWS // 3) == pytest.approx(whole.std(1000), rel=1e-3)
    saved, again = PrefixSum(**make), PrefixSum(**{**make, "random_state": 6})
    saved.add_block(X[:50])
    again.restore(saved.secret_state())
    np.testing.assert_array_equal(again.add_block(X[50:]), found[50:])
    whole.close()
    assert whole.n_releases_ == 34
    leaves = [X[3 * k : 3 * k + 3] / np.maximum(1.0, np.linalg.norm(X[3 * k : 3 * k + 3], axis=1, keepdims=True))
              for k in range(34)]  # fmt: skip
    exact = forgetful(np.array([leaf.sum(axis=0) for leaf in leaves]), *step_workload(
        words.get("discount", 1.0), words.get("window"), 3))[-1]  # fmt: skip
    assert np.all(abs(whole.prefix_ - exact) < 6 * whole.std(34))
    with pytest.raises(BudgetExceeded):
        PrefixSum(**{**make, "horizon": 99}).add_block(X)


@pytest.mark.parametrize("design", DESIGNS)
def test_without_forgetting_each_row_has_weight_1(design):
    """Across epochs too, and in a leaf that close() ends."""
    sums = PrefixSum(dim=3, horizon=None, first_epoch=2, leaf=3, design=design, random_state=1)
    for row in data(50):
        sums.add(row)
        assert sums.weight_ == sums.n_rows_ // 3 * 3
    sums.close()
    assert sums.weight_ == 50


def test_matrices_and_refusals():
    V = data(30, 4)
    clipped = V / np.maximum(1.0, np.linalg.norm(V, axis=1, keepdims=True))
    outer = np.einsum("ni,nj->nij", clipped, clipped)
    for words in SHORT:
        found = SymmetricSum(dim=4, horizon=30, gram=True, epsilon=math.inf, **words).add_block(V)
        np.testing.assert_allclose(found, np.einsum("ts,sij->tij", workload(30, **words), outer), atol=1e-12)
    for words, message in (
        ({"discount": 0.9, "design": "tree"}, "adds up intervals"),
        ({"window": 5, "design": "smooth"}, "adds up intervals"),
        ({"discount": 0.0}, "discount"),
        ({"discount": 0.5, "window": 4}, "two ways to forget"),
        ({"window": 5, "leaf": 2}, "multiple of the 2 rows"),
        ({"discount": 1 - 1e-7, "horizon": None}, "rounding of"),
        ({"design": "sqrt", "discount": 0.9, "horizon": None}, "keeps every row"),
        ({"design": "banded", "dim": 1025, "horizon": 1 << 16, "bandwidth": 1 << 16}, r"found 65,536 \* 1,025: lower"),
        ({"bandwidth": 3}, "bandwidth is for design='banded', found bandwidth=3 with design='blt'"),
        ({"discount": 0.9, "design": "tree", "calibration": "published"}, "adds up intervals"),
    ):
        with pytest.raises(InvalidParameter, match=message):
            PrefixSum(**{"dim": 2, "horizon": 40, **words})
