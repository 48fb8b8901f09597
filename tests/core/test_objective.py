"""Objectives of offline learners: values, certificates and their minimisers."""

from __future__ import annotations

import copy
import math
import pickle
import signal
import time
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from objective_tools import kernel_square, layouts, scaled
from scipy import sparse
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression, Ridge

from privol._core._newton import MOST_DENSE, Minimiser, minimise
from privol._core._objective import Objective
from privol.errors import InvalidParameter, InvalidRow, SolverFailure, StateError
from privol.losses import Absolute, Custom, Hinge, Huber, Logistic, SmoothHinge, Softmax, Squared

LOSSES = [Logistic(), SmoothHinge(), SmoothHinge(width=1e-3), Squared(), Huber(), Huber(width=0.01)]
NAMES = [f"{loss.name}-{loss.width:g}" for loss in LOSSES]
U = 2.0**-53
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=NAMES)


def problem(loss, n=300, d=7, seed=0, scale=1.0):
    """Rows in single precision, with some zeros, and targets."""
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)).astype(np.float32).astype(np.float64)
    score = X @ rng.normal(size=d)
    y = np.where(score + rng.normal(size=n) > 0, 1.0, -1.0)
    return scale * X, y if loss.kind == "classification" else score + rng.normal(size=n)


# ---- against other implementations ---------------------------------------------------------------------


@every_loss
@pytest.mark.parametrize("intercept", [False, True])
def test_values_and_derivatives_against_numpy(loss, intercept):
    X, y = problem(loss)
    rng = np.random.default_rng(1)
    dim = 7 + intercept
    b, w, v = rng.normal(size=dim), 0.3 * rng.normal(size=dim), rng.normal(size=dim)
    o = Objective(X, y, loss=loss, l2_sum=2.5, linear=b, intercept=intercept, x_bound=2.0)
    S = scaled(X, 2.0, intercept)
    value, gradient = o.value_gradient(w)
    p = S @ w
    assert value == pytest.approx(loss.value(p, y).sum() + 1.25 * w @ w + b @ w, rel=1e-13)
    np.testing.assert_allclose(gradient, S.T @ loss.gradient(p, y) + 2.5 * w + b, atol=1e-10)
    if loss.name == "logistic":
        curve = 1 / (2 + 2 * np.cosh(p))
    elif loss.name == "smooth_hinge":
        curve = (np.abs(1 - y * p) <= loss.width) / (2 * loss.width)
    else:
        curve = (np.abs(p - y) <= (loss.width or math.inf)) * 1.0
    H = (S.T * curve) @ S + 2.5 * np.eye(dim)
    np.testing.assert_allclose(o.hessian(w), H, rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(o.hessian_product(w, v), H @ v, rtol=1e-11, atol=1e-9)
    assert (o.n, o.dim, o.n_null) == (300, dim, 0)
    assert o.n_clipped == np.count_nonzero(np.linalg.norm(X, axis=1) > 2.0) > 0


def test_values_in_the_tails():
    """The sum of many logarithms is computed as the logarithm of a product: no factor may overflow, no tail be lost."""
    for size in (1e-3, 30.0, 800.0, 1e5):
        X = size * np.ones((1000, 1))
        for y in (1.0, -1.0):
            o = Objective(X, np.full(1000, y), loss=Logistic(), l2_sum=1e-9, x_bound=1e6)
            value, gradient = o.value_gradient([1.0])
            assert value == pytest.approx(1000 * np.logaddexp(0, -y * size), rel=1e-13, abs=1e-9)
            exact = -1000 * y * size / (1 + mpmath.exp(mpmath.mpf(y * size))) + mpmath.mpf(1e-9)
            assert gradient[0] == pytest.approx(float(exact), rel=1e-13)


@pytest.mark.parametrize("method", ["cholesky", "cg"])
def test_minimisers_against_scikit_learn(method):
    X, y = problem(Logistic(), n=500)
    o = Objective(X, y, loss=Logistic(), l2_sum=0.7, x_bound=100.0)
    found = minimise(o, gradient_norm=1e-9, method=method)
    theirs = LogisticRegression(C=1 / 0.7, fit_intercept=False, tol=1e-12, solver="newton-cholesky").fit(X, y)
    np.testing.assert_allclose(found.point, theirs.coef_[0], rtol=1e-8, atol=1e-9)
    X, t = problem(Squared(), n=500)
    o = Objective(X, t, loss=Squared(), l2_sum=0.7, x_bound=100.0)
    found = minimise(o, gradient_norm=1e-8, method=method)
    theirs = Ridge(alpha=0.7, fit_intercept=False, solver="cholesky").fit(X, t)
    np.testing.assert_allclose(found.point, theirs.coef_, rtol=1e-8, atol=1e-9)


@every_loss
def test_minimisers_against_scipy(loss):
    X, y = problem(loss)
    b = np.random.default_rng(2).normal(size=8)
    o = Objective(X, y, loss=loss, l2_sum=3.0, linear=b, intercept=True, x_bound=2.0)
    for method in ("cholesky", "cg"):
        found = minimise(o, gradient_norm=1e-8, method=method)
        options = {"maxiter": 2000, "ftol": 0}
        other = minimize(o.value_gradient, np.zeros(8), jac=True, method="L-BFGS-B", options=options)
        assert o.value_gradient(found.point)[0] <= other.fun + 1e-10
        # strong convexity: half of l2_sum |w - w*|^2 is at most the excess of the value over the minimum
        assert np.linalg.norm(found.point - other.x) <= np.linalg.norm(other.jac) / 3.0 + 1e-6
        assert found.gradient_norm == o.gradient_norm_bound(found.point) <= 1e-8


# ---- the certificate ---------------------------------------------------------------------------------------


def exact_gradient_norm(X, y, loss, o, w, x_bound, intercept, b):
    """In multiple precision, for the real function: factors are the doubles that the kernel computes."""
    with mpmath.workdps(60):
        w = [mpmath.mpf(v) for v in w.tolist()]
        d = X.shape[1]
        total = [mpmath.mpf(o.l2_sum) * v + mpmath.mpf(c) for v, c in zip(w, b.tolist(), strict=True)]
        for row, target in zip(X, y.tolist(), strict=True):
            if math.isnan(target):
                continue
            square = kernel_square(row)
            f = mpmath.mpf(x_bound / math.sqrt(square) if square > x_bound * x_bound else 1.0)
            s = [f * mpmath.mpf(v) for v in row.tolist()] + [mpmath.mpf(1)] * intercept
            p = mpmath.fdot(s, w)
            if loss.name == "logistic":
                g = -target / (1 + mpmath.exp(target * p))
            elif loss.name == "smooth_hinge":
                h = mpmath.mpf(loss.width)
                g = -target * min(max((1 + h - target * p) / (2 * h), 0), 1)
            else:
                g = p - mpmath.mpf(target)
                if loss.name == "huber":
                    g = min(max(g, -mpmath.mpf(loss.width)), mpmath.mpf(loss.width))
            for j, v in enumerate(s):
                total[j] += g * v
        assert len(w) == d + intercept
        return mpmath.sqrt(mpmath.fdot(total, total))


@every_loss
@pytest.mark.parametrize("case", ["anywhere", "minimiser", "far", "tiny rows", "long rows"])
def test_the_certificate_holds_and_is_tight(loss, case):
    scale = {"tiny rows": 1e-5, "long rows": 1e140}.get(case, 1.0)
    x_bound = {"tiny rows": 1e-6, "long rows": 1e3}.get(case, 2.0)
    X, y = problem(loss, n=270, d=11, scale=scale)
    y[[3, 100]] = np.nan
    b = np.random.default_rng(3).normal(size=12)
    o = Objective(X, y, loss=loss, l2_sum=0.5, linear=b, intercept=True, x_bound=x_bound)
    if case == "minimiser":
        w = minimise(o, gradient_norm=1e-9).point
    else:
        w = np.random.default_rng(4).normal(size=12) * (1e4 if case == "far" else 0.5)
    bound, allowance = o.certificate(w)
    exact = exact_gradient_norm(X, y, loss, o, w, x_bound, 1, b)
    assert bound >= exact
    assert bound == o.gradient_norm_bound(w)
    # 264 roundings of a block's sum, 8 of a slope, 2 lanes of a prediction; of l2_sum w and b only the last
    norms = np.linalg.norm(scaled(X, x_bound, True), axis=1)
    norms[[3, 100]] = 0.0
    p = scaled(X, x_bound, True) @ w
    slopes = np.abs(loss.gradient(p, np.nan_to_num(y, nan=1.0)))
    curve = min(loss.curvature, 1e300)
    errors = curve * 10 * U * (norms * np.linalg.norm(w) + np.abs(p))
    if loss.name != "squared":
        errors = np.minimum(errors, 1.0)
    most = 1.4 * ((264 * U * slopes + 8 * U * np.maximum(slopes, loss.name == "smooth_hinge") + errors) @ norms)
    assert allowance <= most + 3 * U * bound + 1e-150
    assert bound <= float(exact) + 2 * allowance + 40 * U * bound  # rounding of the norm itself: two lanes and eight


@pytest.mark.parametrize("error", [1.0, -1.0])
def test_the_allowance_covers_rounding_errors_that_add_up(error):
    """Equal rows whose slopes round the same way: the computed gradient is off by the sum of n roundings."""
    n = 40_000
    X = np.full((n, 1), 0.1)
    o = Objective(X, np.ones(n), loss=Logistic(), l2_sum=1e-3)
    w = np.array([error * 0.3])
    with mpmath.workdps(60):
        x, v = mpmath.mpf(0.1), mpmath.mpf(w[0])
        exact = n * (-x / (1 + mpmath.exp(x * v))) + mpmath.mpf(1e-3) * v
    _, gradient = o.value_gradient(w)
    bound, allowance = o.certificate(w)
    wrong = abs(mpmath.mpf(gradient[0]) - exact)
    assert 0 < wrong <= allowance
    assert allowance <= 300 * U * abs(exact)
    assert bound >= abs(exact)


def test_the_allowance_covers_predictions_whose_terms_are_lost():
    """Large products that cancel, then small ones, each below half a unit of its lane: none of them enters the sum."""
    d, large, small = 8 * 4096, 1.5 * 2.0**20, 2.0**-17
    x, w = np.full(d, small), np.full(d, -small)
    x[:8], w[:8] = 1.0, np.repeat([large, -large], 4)
    o = Objective(x[None], np.ones(1), loss=Logistic(), l2_sum=1e-30, x_bound=10.0)
    _, gradient = o.value_gradient(w)
    assert gradient[0] == pytest.approx(-0.5, abs=1e-15)  # as if the prediction were 0
    bound, _ = o.certificate(w)
    with mpmath.workdps(60):
        lost = (d - 8) * mpmath.mpf(small) ** 2
        exact = mpmath.sqrt(8 + lost) / (1 + mpmath.exp(-lost))
    assert bound >= exact > float(np.linalg.norm(gradient)) * (1 + 1e-7)


def test_the_norm_of_a_gradient_covers_the_squares_that_are_lost():
    """Each below half a unit of its lane's sum. The gradient is that of the linear term: nothing else rounds."""
    d = (1 << 20) + 16
    b = np.full(d, 2.0**-28)
    b[:16] = 0.25
    o = Objective(np.zeros((1, d)), np.ones(1), loss=Logistic(), l2_sum=1e-3, linear=b, x_bound=1.0)
    bound, allowance = o.certificate(np.zeros(d))
    assert allowance < 1e-14
    assert Fraction(bound) ** 2 >= 1 + Fraction(d - 16, 1 << 56)


def test_the_product_of_the_regulariser_keeps_what_its_rounding_loses():
    """At a point where the linear term cancels the rounded product, the gradient is what that rounding has lost."""
    for w in (0.7, 1.1, 3.3, 1e5 / 3):
        o = Objective(
            np.zeros((1, 1)), np.ones(1), loss=Logistic(), l2_sum=0.1, linear=np.array([-0.1 * w]), x_bound=1.0
        )
        bound, _ = o.certificate(np.array([w]))
        exact = abs(Fraction(0.1) * Fraction(w) - Fraction(0.1 * w))
        assert 0 < exact <= Fraction(bound) <= exact * 2


def test_the_gradient_is_as_small_as_requested_at_many_rows():
    """1e-9 R n leaves room for the allowance, which hardly grows with n."""
    rng = np.random.default_rng(0)
    n = 200_000
    X = rng.normal(size=(n, 3))
    o = Objective(X, np.where(X[:, 0] + rng.normal(size=n) > 0, 1, -1), loss=Logistic(), l2_sum=1e-4 * n, x_bound=1.0)
    _, allowance = o.certificate(minimise(o, gradient_norm=1e-9 * n).point)
    assert allowance <= 1e-12 * n
    assert minimise(o, gradient_norm=1e-11 * n).gradient_norm <= 1e-11 * n


# ---- bits -----------------------------------------------------------------------------------------------


@every_loss
@pytest.mark.parametrize("method", ["cholesky", "cg"])
def test_the_same_bits_whatever_the_layout_and_the_level(loss, method):
    X, y = problem(loss, n=600, d=19)
    X[:, 5:] *= np.random.default_rng(8).random((600, 14)) < 0.2  # sparse rows, so that CSR has its own code path
    y[7] = np.nan
    w = np.random.default_rng(5).normal(size=20)
    seen = set()
    for rows in layouts(X):
        o = Objective(rows, y, loss=loss, l2_sum=1.0, linear=w / 3, intercept=True, x_bound=1.5)
        level = 0
        while True:
            try:
                at = o.with_changes(level=level)
            except InvalidParameter:
                break
            value, gradient = at.value_gradient(w)
            found = minimise(at, gradient_norm=1e-8, method=method)
            numbers = [[value], gradient, at.certificate(w), at.hessian(w).ravel(), at.hessian_product(w, w)]
            seen.add(np.concatenate([*numbers, found.point]).tobytes())
            level += 1
        assert level >= 1
    assert len(seen) == 1


def test_null_rows_do_not_change_the_objective():
    X, y = problem(Logistic())
    w = np.random.default_rng(0).normal(size=7)
    kept = np.delete(np.arange(300), [0, 150, 299])
    X[150, 3], y[[0, 299]] = np.inf, np.nan
    o = Objective(X, y, loss=Logistic(), l2_sum=1.0, x_bound=2.0, refuse=False)
    other = Objective(X[kept], y[kept], loss=Logistic(), l2_sum=1.0, x_bound=2.0)
    assert (o.n, o.n_null, o.n_clipped) == (300, 3, other.n_clipped)
    assert o.certificate(w) == other.certificate(w)
    np.testing.assert_array_equal(minimise(o, gradient_norm=1e-8).point, minimise(other, gradient_norm=1e-8).point)


def test_changes_share_the_rows():
    X, y = problem(Logistic())
    o = Objective(X, y, loss=Logistic(), l2_sum=1.0, linear=np.ones(7))
    y[5] = np.nan
    other = o.with_changes(targets=-y, l2_sum=4.0, linear=np.zeros(7))
    plain = Objective(X, -y, loss=Logistic(), l2_sum=4.0)
    w = np.linspace(-1, 1, 7)
    assert other.certificate(w) == plain.certificate(w)
    assert (other.l2_sum, o.l2_sum, other.n_null, o.n_null) == (4.0, 1.0, 1, 0)
    np.testing.assert_array_equal(o.linear, np.ones(7))
    assert plain.linear is None


# ---- hard cases -------------------------------------------------------------------------------------------


def hard(name):
    rng = np.random.default_rng(0)
    X, direction = rng.normal(size=(300, 5)), rng.normal(size=5)
    noisy, separable = np.sign(X @ direction + rng.normal(size=300)), np.sign(X @ direction)
    return {
        "noisy": (X, noisy),
        "separable": (X, separable),
        "one class": (X, np.ones(300)),
        "one row": (X[:1], separable[:1]),
        "zero rows": (np.zeros((50, 3)), separable[:50]),
        "equal columns": (np.c_[X, X, 1e-8 * X[:, :1]], noisy),
        "one column": (X[:, :1], noisy),
        "more columns than rows": (rng.normal(size=(30, 100)), separable[:30]),
        "no columns": (np.zeros((20, 0)), separable[:20]),
        "null rows": (X, np.full(300, np.nan)),
    }[name]


@pytest.mark.parametrize("method", ["cholesky", "cg"])
@pytest.mark.parametrize("name", ["noisy", "separable", "one class", "one row", "zero rows", "equal columns",
                                  "one column", "more columns than rows", "no columns", "null rows"])  # fmt: skip
def test_hard_cases(name, method):
    X, y = hard(name)
    n = len(X)
    for loss in LOSSES:
        targets = y if loss.kind == "classification" else y + 0.3 * X.sum(axis=1)
        # beyond this, conjugate gradients lose the little conditioning there is
        for l2 in (*((1e-12,) if method == "cholesky" else ()), 1e-8, 1e-4, 1.0, 1e4, 1e12):
            for x_bound in (1e-6, 1.0, 1e6):
                o = Objective(X, targets, loss=loss, l2_sum=n * l2, intercept=True, x_bound=x_bound)
                asked = 1e-9 * n * math.hypot(x_bound, 1.0)
                found = minimise(o, gradient_norm=asked, method=method)
                assert found.gradient_norm == o.gradient_norm_bound(found.point) <= asked
                assert found.iterations <= 120


@pytest.mark.parametrize("loss", LOSSES, ids=NAMES)
@pytest.mark.parametrize("size", [1.0, 1e3, 1e6])
def test_a_linear_term_longer_than_all_gradients(loss, size):
    """With the noise of objective perturbation, the minimiser is where the rows hardly matter."""
    X, y = problem(loss)
    b = size * 300 * np.random.default_rng(1).normal(size=8)
    o = Objective(X, y, loss=loss, l2_sum=300.0, linear=b, intercept=True)
    asked = 3e-5 if loss.name == "squared" else 3e-6  # the slopes of squared loss are as large as the predictions
    found = minimise(o, gradient_norm=asked)
    assert np.linalg.norm(300.0 * found.point + b) <= 300 * math.sqrt(2) * max(np.abs(y).max() + 1.5 * size * 8, 1.0)
    assert found.gradient_norm <= asked


@pytest.mark.parametrize("loss", [Logistic(), SmoothHinge(), Huber()], ids=lambda loss: loss.name)
def test_many_columns(loss):
    rng = np.random.default_rng(0)
    X = sparse.random(400, MOST_DENSE + 88, density=0.01, format="csr", random_state=0)
    y = np.sign(X @ rng.normal(size=X.shape[1]) + 0.1 * rng.normal(size=400))
    o = Objective(X, y, loss=loss, l2_sum=400 * 1e-5, intercept=True)
    found = minimise(o, gradient_norm=4e-7)
    assert found.gradient_norm <= 4e-7
    other = minimise(o, gradient_norm=4e-7, method="cholesky")
    assert np.linalg.norm(found.point - other.point) <= (found.gradient_norm + other.gradient_norm) / o.l2_sum


@every_loss
@pytest.mark.parametrize("case", ["sample of zeros", "rare column", "sorted"])
def test_a_part_of_the_rows_that_misleads(loss, case):
    """The first Hessians use every 4th to 64th row; what they miss must not spoil the result."""
    X, y = problem(loss, n=20_000, d=4)
    if case == "sample of zeros":
        X[::4] = 0.0
    elif case == "rare column":
        X[:, 3] = 0.0
        X[[1, 5, 77], 3] = 2.0
    else:
        order = np.argsort(X @ np.arange(4))
        X, y = X[order], y[order]
    o = Objective(X, y, loss=loss, l2_sum=2e-3, intercept=True, x_bound=3.0)
    assert minimise(o, gradient_norm=1e-9 * 20_000).iterations <= 60


def test_a_path_is_cheaper_from_the_previous_point():
    X, y = problem(Logistic(), n=2000)
    o = Objective(X, y, loss=Logistic(), l2_sum=2000.0)
    point, warm, cold = None, 0, 0
    for l2 in 2000 * np.logspace(0, -6, 13):
        o = o.with_changes(l2_sum=l2)
        found = minimise(o, start=point, gradient_norm=2e-6)
        cold += minimise(o, gradient_norm=2e-6).iterations
        warm, point = warm + found.iterations, found.point
    assert warm < cold
    assert minimise(o, start=point, gradient_norm=2e-6).iterations == 0


# ---- refusals ---------------------------------------------------------------------------------------------


def test_a_failure_is_raised_and_says_what_was_reached():
    X, y = problem(Logistic())
    o = Objective(X, y, loss=Logistic(), l2_sum=1e-3, x_bound=10.0)
    for asked, most in ((1e-9, 2), (1e-16, 200)):
        with pytest.raises(SolverFailure, match=r"after \d+ iterations, asked for was .* for rounding") as failure:
            minimise(o, gradient_norm=asked, max_iterations=most)
        assert failure.value.asked == asked < failure.value.reached < math.inf
        assert failure.value.iterations <= most
    # the smallest norm that rounding allows is reached, and the failing one is close to it
    assert failure.value.reached < 1e-10


def test_points_beyond_the_finite_numbers_are_not_certified():
    X, y = problem(Squared())
    o = Objective(X, y, loss=Squared(), l2_sum=1e150, x_bound=2.0)
    assert o.certificate(np.full(7, 1e300)) == (math.inf, math.inf)


ROWS, TARGETS = np.ones((4, 2)), np.array([1.0, -1.0, 1.0, -1.0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loss": Hinge()}, "kink.*'smooth_hinge'"),
        ({"loss": Absolute()}, "kink.*'huber'"),
        ({"loss": Custom(value=lambda p, y: 0.0, gradient=lambda p, y: 0.0, lipschitz=1, smoothness=math.inf)}, "kink"),
        ({"loss": Softmax()}, "one score"),
        ({"l2_sum": 0.0}, "l2_sum must be"),
        ({"l2_sum": math.nan}, "l2_sum must be"),
        ({"x_bound": 0.0}, "x_bound must be"),
        ({"x_bound": math.nan}, "x_bound must be"),
        ({"y_bound": math.nan}, "y_bound must be"),
        ({"linear": [1.0]}, "linear must have shape"),
        ({"linear": [1.0, math.nan]}, "linear must have"),
        ({"linear": [1.0, math.inf]}, "linear must have"),
    ],
)
def test_parameters_are_checked(changes, message):
    with pytest.raises(InvalidParameter, match=message):
        Objective(ROWS, TARGETS, **{"loss": Logistic(), "l2_sum": 1.0, **changes})


def test_rows_and_targets_are_checked():
    for bad in (0.0, 2.0, math.inf):
        with pytest.raises(InvalidRow, match="row 2, target") as error:
            Objective(ROWS, [1.0, bad, 1.0, 1.0], loss=Logistic(), l2_sum=1.0)
        assert error.value.row == 2
    with pytest.raises(InvalidRow, match="target"):
        Objective(ROWS, [1.0, math.inf, 1.0, 1.0], loss=Squared(), l2_sum=1.0)
    clipped = Objective(ROWS, [1.0, math.inf, 1.0, -9.0], loss=Squared(), l2_sum=1.0, y_bound=2.0)
    same = Objective(ROWS, [1.0, 2.0, 1.0, -2.0], loss=Squared(), l2_sum=1.0)
    assert clipped.certificate([1.0, 2.0]) == same.certificate([1.0, 2.0])
    for bad in (math.nan, math.inf, 1e200):
        X = ROWS.copy()
        X[2, 1] = bad
        with pytest.raises(InvalidRow, match="row 3, feature 1"):
            Objective(X, TARGETS, loss=Logistic(), l2_sum=1.0)
        Objective(X, [1.0, 1.0, math.nan, 1.0], loss=Logistic(), l2_sum=1.0)  # also in a null row
    for wrong in (np.ones(3), np.ones((4, 1))):
        with pytest.raises(InvalidParameter, match="one value per row"):
            Objective(ROWS, wrong, loss=Logistic(), l2_sum=1.0)
    with pytest.raises(InvalidParameter, match="1 to"):
        Objective(np.ones((4, 0)), TARGETS, loss=Logistic(), l2_sum=1.0)


def test_points_are_checked():
    o = Objective(ROWS, TARGETS, loss=Logistic(), l2_sum=1.0)
    for call in (o.value_gradient, o.gradient_norm_bound, o.certificate, o.hessian, lambda w: o.hessian_product(w, w),
                 lambda w: minimise(o, start=w, gradient_norm=1e-9)):  # fmt: skip
        with pytest.raises(InvalidParameter, match="must have shape"):
            call(np.zeros(3))
        with pytest.raises(InvalidParameter, match="must be finite"):
            call([0.0, math.nan])
    for norm in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(InvalidParameter, match="gradient_norm"):
            minimise(o, gradient_norm=norm)
    with pytest.raises(InvalidParameter, match="max_iterations"):
        minimise(o, gradient_norm=1.0, max_iterations=0)
    with pytest.raises(InvalidParameter, match="method"):
        minimise(o, gradient_norm=1.0, method="lbfgs")


def test_targets_and_vectors_are_copied_and_the_rows_stay_alive():
    X, y = problem(Logistic())
    b = np.ones(7)
    o = Objective(X.copy(), y, loss=Logistic(), l2_sum=1.0, linear=b)
    before = minimise(o, gradient_norm=1e-8)
    y[:], b[:] = np.nan, 7.0
    np.testing.assert_array_equal(minimise(o, gradient_norm=1e-8).point, before.point)
    assert isinstance(before, Minimiser)
    with pytest.raises(AttributeError):
        before.gradient_norm = 0.0
    with pytest.raises(StateError, match="secret"):
        pickle.dumps(o)
    with pytest.raises(StateError, match="secret"):
        copy.copy(o)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timer here")
def test_an_interrupt_takes_effect_between_passes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100_000, 30))
    o = Objective(X, np.sign(rng.normal(size=100_000)), loss=SmoothHinge(width=1e-3), l2_sum=1e-6)

    def stop(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        start = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            minimise(o, gradient_norm=1e-9, method="cg")
        assert time.monotonic() - start < 30
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
