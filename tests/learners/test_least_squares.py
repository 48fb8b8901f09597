"""PQFTL: the sums that it perturbs, the models that it solves, the effect of one row.

The page is docs/proofs/least_squares.md.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from alpha import rate
from least_squares_tools import N, moments, rows
from scipy import sparse
from scipy.stats import chi2, norm

from privol import PQFTL
from privol._core._least_squares import moments_size, solve_ridge
from privol._core._noise import instruction_sets, use_instruction_set
from privol._core._prefix import PrefixRun
from privol.calibration._least_squares import _largest_norm
from privol.errors import BudgetExceeded, InvalidParameter, InvalidRow, StateError
from privol.factorizations import factorization
from privol.guarantees import gdp_mu
from privol.noise import STREAM_RELEASES, decide_lattice_point, make_source
from privol.prefix import plan_of

pytestmark = pytest.mark.statistical

DESIGNS = ("tree", "honaker", "smooth", "sqrt", "blt", "banded", "independent")


def learnt(X, y, **given):
    words = {"horizon": N, "random_state": 7, "fit_intercept": False, "l2": 0.01, "release": 1, **given}
    return PQFTL(**words).partial_fit(X, y)


def band(values, std, freedom, alpha):
    """Whether a sum of squares agrees with the standard deviation, and whether it agrees with 2/3 of it as well."""
    low, high = chi2.ppf(alpha / 2, freedom), chi2.isf(alpha / 2, freedom)
    return low < values / std**2 < high, low < values / (2 / 3 * std) ** 2 < high


@pytest.mark.parametrize("design", DESIGNS)
def test_the_shift_of_an_octave_is_for_its_noisiest_step(design):
    for steps in (1, 2, 3, 37, 64, 100):
        made = factorization(design, steps)
        for k in range(steps.bit_length()):
            octave = range(1 << k, min(2 << k, steps + 1))
            assert _largest_norm(made, k) == max(made.row_norm(step) for step in octave)


# ---- the run -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 7])
@pytest.mark.parametrize("design", DESIGNS)
def test_sums_and_models_are_those_of_a_private_prefix_sum(design, batch):
    """With the same key: every sum and every model, bit for bit."""
    X, y = rows()
    X /= 1.0 + np.maximum(0.0, np.linalg.norm(X, axis=1, keepdims=True))  # within the bound: nothing is scaled
    y = np.clip(y, -0.9, 0.9)
    learner = PQFTL(
        horizon=N, random_state=7, fit_intercept=False, l2=0.01, release=1, design=design, batch=batch, epsilon=5.0
    )
    plan = learner.calibrate(4, N)
    twin = PrefixRun(
        plan_of(plan.sums, horizon=N),
        horizon=N,
        source=make_source(7),
        stream=STREAM_RELEASES,
        decide=decide_lattice_point,
    )
    expected = twin.add_block(moments(X, y * plan.target_unit, plan.row_unit))
    for t in range(1, N + 1):
        learner.partial_fit(X[t - 1 : t], y[t - 1 : t])
        sums = learner._run.state.released_sums()
        np.testing.assert_array_equal(sums, expected[t - 1])
        step = t // batch
        if step == 0:
            np.testing.assert_array_equal(learner.coef_, 0.0)
            continue
        shift = step * batch * plan.l2 + plan.shifts[0, step.bit_length() - 1]
        model, _ = solve_ridge(sums, 4, most=float(step * batch), shift=shift, radius=plan.ball)
        model *= plan.row_unit / plan.target_unit
        np.testing.assert_allclose(learner.coef_, model / max(1.0, np.linalg.norm(model)), rtol=1e-14, atol=0.0)


@pytest.mark.parametrize("intercept", [False, True])
def test_without_noise_it_is_ridge_regression(intercept):
    X, y = rows()
    radius, l2, x_bound, y_bound = 50.0, 0.3, 0.8, 1.7
    learner = learnt(
        X, y, epsilon=math.inf, fit_intercept=intercept, radius=radius, l2=l2, x_bound=x_bound, y_bound=y_bound
    )
    V = X * np.minimum(1.0, x_bound / np.maximum(np.linalg.norm(X, axis=1), 1e-300))[:, None]
    V = np.column_stack([V, np.ones(N)]) if intercept else V
    c = np.clip(y, -y_bound, y_bound)
    model = np.linalg.solve(V.T @ V + N * l2 * np.eye(V.shape[1]), V.T @ c)
    np.testing.assert_allclose(learner.coef_, model[:4], rtol=1e-11)
    assert learner.intercept_ == pytest.approx(model[4] if intercept else 0.0, rel=1e-11)
    gram, cross = learner.moments()
    np.testing.assert_allclose(gram, V.T @ V, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(cross, V.T @ c, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("design", DESIGNS)
def test_chunks_layouts_and_levels_give_the_same_bits(design):
    X, y = rows()
    X = X.astype(np.float32)
    words = {"design": design, "fit_intercept": True, "batch": 3, "release": 4}
    expected = learnt(X, y, **words)
    model = np.append(expected.coef_, expected.intercept_)
    average, sums = expected.average_coef_, expected._run.state.released_sums()
    others = []
    for level in instruction_sets():
        use_instruction_set(level)
        try:
            others += [learnt(rows_, y, **words) for rows_ in (X, X.astype(float), sparse.csr_array(X))]
        finally:
            use_instruction_set(None)
    cut = PQFTL(horizon=N, random_state=7, l2=0.01, **words)
    for start, stop in ((0, 1), (1, 2), (2, 30), (30, 31), (31, 50), (50, N)):
        cut.partial_fit(X[start:stop], y[start:stop])
    one = PQFTL(horizon=N, random_state=7, l2=0.01, **words).partial_fit(X[:1], y[:1])
    for x, target in zip(X[1:], y[1:], strict=True):
        one.learn_one(x, target)
    for other in (*others, cut, one):
        np.testing.assert_array_equal(np.append(other.coef_, other.intercept_), model)
        np.testing.assert_array_equal(other.average_coef_, average)
        np.testing.assert_array_equal(other._run.state.released_sums(), sums)


@pytest.mark.parametrize(("batch", "places"), [(4, (1, 4, 30, 59)), (23, (1, 20, 44))])
@pytest.mark.parametrize("design", DESIGNS)
def test_a_restored_run_goes_on_as_if_it_had_not_stopped(design, batch, places):
    X, y = rows()
    words = {"design": design, "batch": batch, "release": 5, "horizon": N}
    expected = learnt(X, y, **words)
    for at in places:
        first = learnt(X[:at], y[:at], **words)
        fresh, _, _ = first._open_run(4, N, None)
        fresh.restore(first._run.state.secret_arrays())
        fresh.learn(X[at:], y[at:])
        np.testing.assert_array_equal(fresh.released_model(), expected._run.state.released_model())
        np.testing.assert_array_equal(fresh.released_sums(), expected._run.state.released_sums())
        assert fresh.counters() == expected._run.state.counters()


def test_the_last_model_is_of_all_rows():
    """Also when a batch has only begun, and no release was planned there."""
    X, y = rows(17)
    fitted = PQFTL(epsilon=math.inf, batch=5, release=7, l2=0.01, fit_intercept=False, radius=50.0).fit(X, y)
    scale = np.minimum(1.0, 1.0 / np.maximum(np.linalg.norm(X, axis=1), 1e-300))[:, None]
    V, c = X * scale, np.clip(y, -1.0, 1.0)
    np.testing.assert_allclose(fitted.coef_, np.linalg.solve(V.T @ V + 17 * 0.01 * np.eye(4), V.T @ c), rtol=1e-10)
    assert fitted.n_rows_ == 17


@pytest.mark.parametrize(
    ("words", "batch"),
    [({}, 5), ({"release": 6}, 6), ({"release": 6, "window": 10}, 2), ({"release": 6, "renewal": "repeat"}, 2),
     ({"release": 6, "discount": 0.9}, 1), ({"release": 6, "rows_per_user": 2}, 1), ({"release": [6, 12]}, 1),
     ({"release": "all"}, 1), ({"release": "last"}, 1), ({"release": 6, "batch": 3}, 3)],
)  # fmt: skip
def test_steps_go_from_model_to_model(words, batch):
    """Defaults have the same bits as their explicit values, and less noise than steps of one row."""
    X, y = rows(40)
    own, stated = (PQFTL(horizon=40, l2=0.01, random_state=7, **{**more, **words}) for more in ({}, {"batch": batch}))
    plan, single = own.calibrate(4, 40), PQFTL(l2=0.01, **{**words, "batch": 1}).calibrate(4, 40)
    assert plan.batch == batch
    assert plan.sums.sigma < single.sums.sigma if batch > 1 else plan.sums.sigma == single.sums.sigma
    for learner in (own, stated):
        learner.partial_fit(X, y)
    np.testing.assert_array_equal(own.average_coef_, stated.average_coef_)
    np.testing.assert_array_equal(own.moments()[0], stated.moments()[0])


# ---- the guarantee -----------------------------------------------------------------------------------------------


def pairs(d):
    """The pair of rows that attains 3 / sqrt(2): at an angle of 60 degrees, the targets opposed."""
    v, w = np.zeros(d), np.zeros(d)
    v[0] = 1.0
    w[0], w[1] = 0.5, math.sqrt(0.75)
    return (v, 1.0), (w, -1.0)


def test_one_row_moves_the_moments_by_what_is_charged_and_no_more():
    rng = np.random.default_rng(3)
    (v, c), (w, e) = pairs(3)
    worst = moments(np.array([v, w]), [c, e])
    assert np.linalg.norm(worst[0] - worst[1]) == pytest.approx(3 / math.sqrt(2), rel=1e-15)
    replace = PQFTL(l2=0.1).calibrate(2, 10).sums.sensitivity
    leave_out = PQFTL(l2=0.1, adjacency="zero_out").calibrate(2, 10).sums.sensitivity
    for d in (2, 3, 6):
        X = rng.normal(size=(20_000, d))
        X[: len(X) // 2, 2:] = 0.0  # most of the largest changes lie in a plane
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        X[::7] *= rng.uniform(size=(len(X[::7]), 1))
        found = moments(X, np.sign(rng.normal(size=len(X))))
        apart = np.linalg.norm(found[1:] - found[:-1], axis=1)
        assert apart.max() <= replace
        assert apart.max() > 0.98 * replace or d == 6
        assert np.linalg.norm(found, axis=1).max() <= leave_out <= math.sqrt(2) * (1 + 1e-9)
    assert 3 / math.sqrt(2) <= replace <= 3 / math.sqrt(2) * (1 + 1e-9)


@pytest.mark.parametrize(("adjacency", "epsilon"), [("replace", 1.0), ("zero_out", 3.0)])
def test_the_best_distinguisher_sees_mu_and_no_more(adjacency, epsilon):
    """For the first released sum and the worst pair of rows: its mean moves by mu standard deviations."""
    n, d = 3000, 2
    (v, c), (w, e) = pairs(d)
    words = {"epsilon": epsilon, "adjacency": adjacency, "design": "independent", "fit_intercept": False, "l2": 0.01}
    mu = gdp_mu(epsilon, 1e-6)
    found = np.empty((2, n))
    first, second = moments(np.array([v, w]), [c, e])
    second = second if adjacency == "replace" else np.zeros_like(second)
    axis = (first - second) / np.linalg.norm(first - second)
    for k in range(n):
        for side, (x, target) in enumerate(((v, c), (w, e))):
            run = PQFTL(horizon=2, random_state=2 * k + side, release="last", **words)._open_run(d, 2, None)[0]
            if side == 0 or adjacency == "replace":
                run.learn_one(x, target)
            else:
                run.learn_one(np.zeros(d), 0.0)
            found[side, k] = axis @ run.released_sums()
    std = PQFTL(**words).calibrate(d, 2).sums.sigma
    squares = sum(np.sum((side - side.mean()) ** 2) for side in found)
    assert band(squares, std, 2 * n - 2, rate("least_squares.scale", 4)) == (True, False)
    seen = (found[0].mean() - found[1].mean()) / std
    assert abs(seen - mu) < norm.isf(rate("least_squares.mean", 4)) * math.sqrt(2.0 / n)


def test_noise_is_of_the_whole_run_and_symmetric():
    """With null rows alone the sums are noise, with one variance for all entries of the vector."""
    d, n = 20, 40
    X, y = np.full((n, d), np.nan), np.zeros(n)
    run = PQFTL(horizon=n, random_state=5, fit_intercept=False, l2=0.1, on_invalid="zero", release="last")
    run.partial_fit(X, y)
    sums, plan = run._run.state.released_sums(), run._run.plan
    assert band(np.sum(sums**2), plan.sums.std(n), len(sums), rate("least_squares.scale", 2)) == (True, False)
    gram, cross = run.moments()
    np.testing.assert_array_equal(gram, gram.T)
    assert len(sums) == moments_size(d)
    assert cross.shape == (d,)
    assert run._run.state.raw_counts()["null_rows"] == n


def test_the_whole_budget_is_spent_with_the_first_row():
    X, y = rows()
    learner = PQFTL(horizon=N, epsilon=2.0, release="last").partial_fit(X[:1], y[:1])
    assert learner._run.state.spent >= gdp_mu(2.0, 1e-6) ** 2
    assert learner.guarantee_.epsilon(1e-6) == pytest.approx(2.0)
    assert "running sum of moments" in learner.guarantee_.sentence()


# ---- the solver --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 9, 54])
def test_models_are_the_minimisers_in_the_ball(d):
    rng = np.random.default_rng(d)
    indefinite = 0
    for noise in (0.0, 3.0, 100.0):
        for radius in (1e3, 0.05):
            n = 40
            X, y = rng.normal(size=(n, d)) / math.sqrt(d), rng.normal(size=n)
            given = moments(X, y).sum(axis=0) + noise * rng.normal(size=moments_size(d))
            x, eigen = solve_ridge(given, d, most=float(n), shift=0.7, radius=radius)
            indefinite += eigen
            gram, upper = np.zeros((d, d)), np.triu_indices(d)
            gram[upper] = given[:-d] * np.where(upper[0] == upper[1], 1.0, math.sqrt(0.5))
            gram = np.triu(gram) + np.triu(gram, 1).T
            value, vectors = np.linalg.eigh(gram)
            assert eigen == (value[0] + 0.7 <= 0.0)
            value = np.clip(value, 0.0, n) if eigen else value
            c = vectors.T @ given[-d:]
            nu = 0.0
            if np.linalg.norm(c / (value + 0.7)) > radius:
                low, high = 0.0, 1e9
                for _ in range(200):
                    nu = (low + high) / 2
                    low, high = (nu, high) if np.linalg.norm(c / (value + 0.7 + nu)) > radius else (low, nu)
            np.testing.assert_allclose(x, vectors @ (c / (value + 0.7 + nu)), rtol=1e-6, atol=1e-9 * radius)
    assert indefinite > 0


# ---- use ---------------------------------------------------------------------------------------------------------


def test_it_learns_under_noise():
    """Ten thousand rows of five features at epsilon 1; the zero model has an R squared of 0."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(10_000, 5))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = X @ np.array([0.5, -0.3, 0.2, 0.0, 0.4])
    assert PQFTL(l2=1e-4, fit_intercept=False, random_state=1).fit(X, y).score(X, y) > 0.9


def test_bad_input_changes_nothing():
    X, y = rows()
    learner = PQFTL(horizon=N, release=1).partial_fit(X[:10], y[:10])
    before = learner._run.state.released_sums()
    broken = X[10:14].copy()
    broken[2, 1] = np.nan
    with pytest.raises(InvalidRow, match="row 13"):
        learner.partial_fit(broken, y[10:14])
    with pytest.raises(InvalidParameter, match="4 features"):
        learner.learn_one(np.zeros(3), 0.0)
    with pytest.raises(BudgetExceeded, match="10 of 60"):
        learner.partial_fit(np.tile(X, (2, 1)), np.tile(y, 2))
    np.testing.assert_array_equal(learner._run.state.released_sums(), before)
    for words, match in (
        ({"loss": "logistic"}, "squared"),
        ({"l2": 0.0}, "l2"),
        ({"batch": 0}, "batch"),
        ({"design": "wood"}, "design"),
        ({"noise_shift": -1.0}, "noise_shift"),
    ):
        with pytest.raises(InvalidParameter, match=match):
            PQFTL(**words).fit(X, np.where(y > 0, 1, -1) if "loss" in words else y)
    with pytest.raises(InvalidParameter, match="16384"):
        PQFTL().calibrate(20_000, 10)
    learner.close()
    with pytest.raises(StateError, match="still learns"):
        learner.moments()


# ---- the noise and the models as printed -----------------------------------------------------------------------------

PRINTED = {"calibration": "published", "delta": 1e-6, "x_bound": 2.0, "y_bound": 5.0, "radius": 1e9}


def test_the_printed_noise_is_that_of_algorithms_4_and_5():
    """The source's R = 5 for rows and targets: noise for R^2 in V and for R in u, with half the budget each."""
    n = 100
    plan = PQFTL(epsilon=1.0, fit_intercept=False, **PRINTED).calibrate(2, n)
    for unit, bound in ((plan.row_unit**2, 25.0), (plan.row_unit * plan.target_unit, 5.0)):
        literal = math.sqrt(bound**2 / 0.5 * math.log(n) ** 2 * math.log(math.log(n) / 0.5e-6))
        assert plan.sums.sigma / unit == pytest.approx(literal, rel=1e-12)
    assert (plan.claim.epsilon, plan.claim.delta) == (1.0, 1e-6)
    assert plan.claim.source.endswith("Theorem 7")
    # all entries are perturbed, each by its own noise
    learner = PQFTL(epsilon=1.0, fit_intercept=False, horizon=n, random_state=3, release=n, **PRINTED)
    learner.partial_fit(np.zeros((64, 20)), np.zeros(64))
    gram, cross = learner.moments()
    upper, lower = gram[np.triu_indices(20, 1)], gram.T[np.triu_indices(20, 1)]
    assert abs(np.corrcoef(upper, lower)[0, 1]) < norm.isf(rate("least_squares.printed", 2) / 2) / math.sqrt(len(upper))
    spread = np.concatenate([gram.ravel() / 25.0, cross / 5.0])
    fits, wrong = band(np.sum(spread**2), plan.sums.sigma, spread.size, rate("least_squares.printed", 2))
    assert fits
    assert not wrong


def test_the_printed_models_are_solved_from_what_was_released_whatever_it_is():
    X, y = rows(d=3)
    learner = learnt(X, y, **{**PRINTED, "release": "all"}, epsilon=2.0)
    seen = learner.coef_.copy()
    gram, cross = learner.moments()
    assert np.any(gram != gram.T)
    np.testing.assert_allclose(seen, np.linalg.solve(gram + N * 0.01 * np.eye(3), cross), rtol=1e-9)
    assert np.linalg.norm(seen) < 1e9
    exact = learnt(X, y, **PRINTED, epsilon=math.inf)
    x = X * np.minimum(1.0, 2.0 / np.linalg.norm(X, axis=1).clip(1e-9))[:, None]
    np.testing.assert_allclose(exact.coef_, np.linalg.solve(x.T @ x + N * 0.01 * np.eye(3), x.T @ y), rtol=1e-9)


@pytest.mark.parametrize(("x_bound", "y_bound"), [(1.0, 1.0), (2.0, 5.0), (3.0, 3.0), (3.0, 0.5), (0.1, 0.1)])
def test_what_the_printed_noise_proves_is_attained(x_bound, y_bound):
    """Pairs of rows of all lengths and angles, with targets of both signs: the worst moves the moments as charged."""
    words = {**PRINTED, "x_bound": x_bound, "y_bound": y_bound}
    plan = PQFTL(epsilon=1.0, fit_intercept=False, **words).calibrate(2, 64)
    found = 0.0
    angles, lengths = np.linspace(0.0, math.pi / 2, 181), (0.0, 0.3, 0.5, 0.7, 0.9, 1.0)
    for long in lengths:
        v = plan.row_unit * x_bound * long * np.array([1.0, 0.0])
        for short in lengths:
            for angle in angles:
                w = plan.row_unit * x_bound * short * np.array([math.cos(angle), math.sin(angle)])
                change = np.append(np.outer(v, v) - np.outer(w, w), plan.target_unit * y_bound * (v + w))
                found = max(found, float(np.linalg.norm(change)))
    assert 0.999 * plan.sums.sensitivity < found < plan.sums.sensitivity
    # seven nodes of a tree over 64 rows contain a row
    assert plan.mu == pytest.approx(math.sqrt(7) * plan.sums.sensitivity / plan.sums.sigma, rel=1e-9)


def test_what_the_source_fixes_is_refused():
    wrong = {"batch": 2, "design": "sqrt", "discount": 0.9, "window": 5, "renewal": "repeat", "rows_per_user": 2,
             "noise_shift": 1.0, "adjacency": "zero_out"}  # fmt: skip
    for name, value in wrong.items():
        with pytest.raises(InvalidParameter, match=f"calibration='published' fixes {name} as the source does"):
            PQFTL(calibration="published", **{name: value}).calibrate(2, 20)
    with pytest.raises(InvalidParameter, match="no noise at all for a horizon of 1"):
        PQFTL(calibration="published").calibrate(2, 1)
