"""The compiled losses, implicit steps, projections and row operations at extreme values."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import brentq
from twins_geometry import exact_l1, exact_simplex, project_box, project_l2

from privol import PIGD
from privol._core._geometry import project
from privol._core._losses import implicit_slope, loss_values
from privol._core._rows import squared_norms
from privol.errors import InvalidRow
from privol.geometry import FEASIBLE_RTOL, Box, L1Ball, L2Ball, Simplex
from privol.losses import Absolute, Custom, Hinge, Huber, Logistic, SmoothHinge, Squared

LOSSES = [
    Logistic(),
    Hinge(),
    SmoothHinge(),
    SmoothHinge(width=1e-3),
    SmoothHinge(width=7.0),
    Squared(),
    Absolute(),
    Huber(),
    Huber(width=1e-3),
    Huber(width=50.0),
]
NAMES = [f"{loss.name}-{loss.width:g}" for loss in LOSSES]
SMOOTH = [loss for loss in LOSSES if loss.curvature < math.inf]


def targets_of(loss):
    return (-1.0, 1.0) if loss.kind == "classification" else (-3.0, 0.0, 0.7, 1e3)


# ---- values and slopes -----------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES, ids=NAMES)
def test_values_and_slopes(loss):
    p = np.array([1e-300, 0.3, 1.0, 5.0, 36.7, 700.0, 800.0])
    p = np.concatenate([[0.0, 1e150], p, -p])
    for y in targets_of(loss):
        ys = np.full_like(p, y)
        value, slope = loss_values(loss, p, ys)
        # a narrow bend magnifies the rounding of the margin
        rtol = 4e-15 + (4e-16 / loss.width if loss.name == "smooth_hinge" else 0.0)
        with np.errstate(over="ignore"):
            np.testing.assert_allclose(value, loss.value(p, ys), rtol=rtol, atol=1e-300)
        np.testing.assert_allclose(slope, loss.gradient(p, ys), rtol=rtol, atol=1e-300)


def test_logistic_tails_against_multiple_precision():
    p = np.array([-40.0, -10.0, -1e-9, 0.1, 3.0, 40.0, 300.0, 700.0])
    _, slope = loss_values(Logistic(), p, np.ones_like(p))
    for x, found in zip(p, slope, strict=True):
        exact = -1 / (1 + mpmath.exp(mpmath.mpf(x)))
        assert abs(found - exact) <= 4e-16 * abs(exact)


# ---- the implicit step -------------------------------------------------------------------------------


def residual_slope(loss, k, b, c, y):
    """The slope at the root of ``k m + c slope(m) = b`` in multiple precision, by bisection on the exact loss."""
    with mpmath.workdps(60):
        k, b, c, y = (mpmath.mpf(v) for v in (k, b, c, y))
        if c == 0:
            return mpmath.mpf(0)
        w = mpmath.mpf(loss.width)

        def clip(x, low, high):
            return max(low, min(high, x))

        if loss.name == "hinge":
            return -y * clip((k - y * b) / c, mpmath.mpf(0), mpmath.mpf(1))
        if loss.name == "smooth_hinge":
            return -y * clip(((1 + w) * k - y * b) / (2 * w * k + c), mpmath.mpf(0), mpmath.mpf(1))
        if loss.name == "squared":
            return (b - k * y) / (k + c)
        if loss.name == "absolute":
            return clip((b - k * y) / c, mpmath.mpf(-1), mpmath.mpf(1))
        if loss.name == "huber":
            return clip((b - k * y) / (k + c), -w, w)
        low, high = (b - c) / k, (b + c) / k
        for _ in range(2200):
            m = (low + high) / 2
            if k * m - c * y / (1 + mpmath.exp(y * m)) > b:
                high = m
            else:
                low = m
            if high - low <= mpmath.mpf(10) ** -50 * max(1, abs(low)):
                break
        return -y / (1 + mpmath.exp(y * (low + high) / 2))


STEPS = [
    (1.0, 0.0, 1.0),
    (1.0, 0.3, 0.0),
    (2.0, -5.0, 0.5),
    (1.0, 3.0, 1e-12),
    (1e3, 1.0, 1e-6),
    (1e12, 1e11, 1.0),
    (1.0, 0.5, 1e12),
    (1.0, -30.0, 1e12),
    (1.0, 1e10, 1e12),
    (1.0, 0.0, 1e200),
    (1.0, 1e150, 1e200),
    (1e-3, 700.0, 1e5),
    (1.0, 1.0, 1e-300),
    (1e-100, 1e-101, 1e-100),
    (0.01, -2.0, 3.0),
    (5.0, 4.0, 40.0),
]


@pytest.mark.parametrize("loss", LOSSES, ids=NAMES)
@pytest.mark.parametrize(("k", "b", "c"), STEPS)
def test_implicit_step(loss, k, b, c):
    for y in targets_of(loss):
        for sign in (1.0, -1.0):
            found = implicit_slope(loss, k, sign * b, c, y)
            if c == 0.0:
                assert found == 0.0 or loss.name in ("squared", "huber", "smooth_hinge")
                continue
            exact = residual_slope(loss, k, sign * b, c, y)
            # the root's slope may cancel: the step c g / k counts, relative to the larger of the two predictions
            scale = float(mpmath.mpf(k) * max(abs(y), 1) + abs(b)) / c
            unit = 1e-14 + (4e-16 / loss.width if loss.name == "smooth_hinge" else 0.0)
            tolerance = unit * min(max(abs(float(exact)), scale), 1 + abs(y) + loss.width) + 1e-300
            assert abs(found - float(exact)) <= max(tolerance, unit * abs(float(exact)))


def test_implicit_step_never_overshoots():
    """Slopes stay in their range whatever the step."""
    rng = np.random.default_rng(0)
    for loss in LOSSES:
        bound = {"squared": math.inf, "huber": loss.width}.get(loss.name, 1.0)
        for _ in range(300):
            k, c = 10.0 ** rng.uniform(-8, 8), 10.0 ** rng.uniform(-12, 100)
            b, y = rng.normal() * 10.0 ** rng.uniform(-5, 8), rng.choice(targets_of(loss))
            g = implicit_slope(loss, k, b, c, y)
            assert abs(g) <= bound
            if loss.kind == "classification":
                assert g * y <= 0


@pytest.mark.parametrize("c", [1e-3, 1.0, 1e4, 1e12, 1e100])
def test_custom_implicit_step_equals_the_built_in(c):
    custom = {
        "logistic": Custom(
            value=lambda p, y: float(np.logaddexp(0, -y * p)),
            lipschitz=1.0,
            smoothness=0.25,
            gradient=lambda p, y: -y / (1 + math.exp(y * p)) if y * p < 700 else 0.0,
            name="mine",
        ),
        "hinge": Custom(
            value=lambda p, y: max(0.0, 1 - y * p),
            gradient=lambda p, y: -y if y * p < 1 else 0.0,
            lipschitz=1.0,
            smoothness=math.inf,
            name="mine",
        ),
    }
    for name, built_in in (("logistic", Logistic()), ("hinge", Hinge())):
        for k in (0.1, 1.0, 30.0):
            for b in (-4.0, 0.0, 0.9, 7.0):
                for y in (-1.0, 1.0):
                    ours = implicit_slope(custom[name], k, b, c, y)
                    theirs = implicit_slope(built_in, k, b, c, y)
                    # near the flat end slope = (b - k m) / c loses digits where k m is close to b
                    assert abs(ours - theirs) <= 1e-12 * max(abs(theirs), (abs(b) + k) / c)


def test_custom_slope_is_clamped_to_what_the_user_declared():
    liar = Custom(
        value=lambda p, y: 0.5 * p * p if abs(p) < 100 else 1e6 * p * p,
        lipschitz=40.0,
        smoothness=1.0,
        gradient=lambda p, y: p if abs(p) < 100 else 2e6 * p,
        kind="regression",
        name="liar",
    )
    _, slope = loss_values(liar, np.array([3.0, 500.0, -500.0]), np.zeros(3))
    np.testing.assert_array_equal(slope, [3.0, 40.0, -40.0])
    assert abs(implicit_slope(liar, 1e-6, 1.0, 1e-3, 0.0)) <= 40.0


# ---- projections ---------------------------------------------------------------------------------------

VECTORS = [
    [0.0, 0.0, 0.0],
    [0.2, -0.1, 0.05],
    [3.0, 4.0, -12.0],
    [1e150, 0.0],
    [0.0, -1e150, 1.0],
    [1e150, 1e150, -1e150],
    [1e16, 1e16 + 2, 1.0],
    [1e-200, -3e-200, 5e-201],
    [1.0, 1.0, 1.0, 1.0],
    [0.3],
    [-7.0],
    [1e100, 1e-100, 1e50],
    [1 / 3] * 7,
    list(np.linspace(-1, 1, 37)),
    [0.7, 0.7 + 1e-16, -0.4, 0.0],
]


@pytest.mark.parametrize("size", [1.0, 0.37, 1e-20, 1e20])
@pytest.mark.parametrize("x", VECTORS, ids=lambda x: f"{x[0]:.3g}x{len(x)}")
def test_projections_onto_simplex_and_l1_ball(x, size):
    """Against rational arithmetic: nothing is lost where the point is far outside."""
    tolerance = 8 * len(x) * 2.0**-53 * size
    for domain, exact in ((Simplex(size), exact_simplex(x, size)), (L1Ball(size), exact_l1(x, size))):
        found = project(domain, x)
        scale = np.maximum(tolerance, 4e-16 * np.abs(exact))
        assert np.all(np.abs(found - exact) <= scale), (domain, found, exact)
        assert domain.contains(found, rtol=len(x) * 2.0**-50)


@pytest.mark.parametrize("x", VECTORS, ids=lambda x: f"{x[0]:.3g}x{len(x)}")
def test_projections_onto_l2_ball_and_box(x):
    for radius in (1.0, 1e-20, 1e20):
        found = project(L2Ball(radius), x)
        np.testing.assert_allclose(found, project_l2(x, radius), rtol=1e-15, atol=1e-300)
        assert L2Ball(radius).contains(found, rtol=FEASIBLE_RTOL)
    low, high = np.linspace(-1, 0, len(x)), np.linspace(0, 2, len(x))
    np.testing.assert_array_equal(project(Box(low, high), x), project_box(x, low, high))


def test_projections_of_random_points():
    rng = np.random.default_rng(4)
    for _ in range(200):
        d = int(rng.integers(1, 40))
        x = rng.normal(size=d) * 10.0 ** rng.uniform(-3, 12)
        size = 10.0 ** rng.uniform(-3, 3)
        for domain in (Simplex(size), L1Ball(size), L2Ball(size), Box(-size, size / 2)):
            found = project(domain, x)
            np.testing.assert_allclose(found, domain.project(x), rtol=1e-12, atol=1e-13 * size)
            np.testing.assert_allclose(project(domain, found), found, rtol=1e-12, atol=1e-13 * size)


# ---- rows ----------------------------------------------------------------------------------------------

BAD = [math.nan, math.inf, -math.inf, 1e200, -1.1e150]


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("form", [np.asarray, np.asfortranarray, sparse.csr_array, lambda X: X[:, ::-1]])
def test_norms_of_unusable_rows(bad, form):
    X = np.arange(1.0, 13.0).reshape(4, 3)
    X[2, 1] = bad
    rows = form(X)
    norms = squared_norms(rows)
    np.testing.assert_array_equal(norms[[0, 1, 3]], (X[[0, 1, 3]] ** 2).sum(axis=1))
    assert norms[2] == -1.0
    with pytest.raises(InvalidRow, match=r"row 13, feature 1: found") as caught:
        squared_norms(rows, learnt=10, refuse=True)
    assert caught.value.row == 13
    assert caught.value.column == 1


def test_large_rows_are_usable_up_to_their_bound():
    X = np.array([[1e150, 0.0], [1e150, 1e150], [5e-324, 0.0]])
    norms = squared_norms(X)
    assert norms[0] == pytest.approx(1e300)
    assert norms[1] == pytest.approx(2e300)
    assert norms[2] == 0.0


def test_norms_against_exact_sums():
    rng = np.random.default_rng(1)
    for d in (1, 2, 7, 8, 9, 54, 1000):
        X = rng.normal(size=(5, d))
        np.testing.assert_allclose(squared_norms(X), [math.fsum(v * v for v in row) for row in X], rtol=1e-14)
    assert squared_norms(np.empty((0, 3))).shape == (0,)
    assert squared_norms(np.empty((2, 0))).tolist() == [0.0, 0.0]


def csr(indptr, indices, shape=(2, 3)):
    out = sparse.csr_array(shape)
    out.indptr, out.indices = np.array(indptr, dtype=np.int32), np.array(indices, dtype=np.int32)
    out.data = np.ones(len(indices))
    return out


@pytest.mark.parametrize(
    ("indptr", "indices", "row", "match"),
    [
        ([0, 1, 2], [0, 3], 2, "column index outside"),
        ([0, 1, 2], [-1, 0], 1, "column index outside"),
        ([0, 2, 1], [0, 1], 2, "row pointers"),
        ([0, 1, 9], [0, 1], 2, "row pointers"),
        ([-1, 1, 2], [0, 1], 1, "row pointers"),
        ([0, 1], [0], 1, "row pointers"),
    ],
)
def test_broken_csr_is_refused(indptr, indices, row, match):
    with pytest.raises(InvalidRow, match=match) as caught:
        squared_norms(csr(indptr, indices))
    assert caught.value.row == row


def test_one_dimension_is_refused():
    with pytest.raises(ValueError, match="two dimensions"):
        squared_norms(np.ones(3))


# ---- huge steps through the whole loop -------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["logistic", "hinge", "smooth_hinge", "squared", "absolute", "huber"])
def test_huge_steps_land_on_the_prox(loss):
    """``eta ||v||^2`` of 1e12: the first step of a weakly regularised learner on long rows."""
    learner = PIGD(loss=loss, epsilon=math.inf, l2=1e-6, x_bound=1e3, radius=1e30, fit_intercept=False)
    state, _, _ = learner._open_run(1, 1, "last")
    v, y = 1e3, 1.0
    state.learn(np.array([[v]]), np.array([y]))
    found = float(state._secret_iterate()[0])
    if loss == "logistic":
        exact = brentq(lambda x: 2e-6 * x - v / (1 + math.exp(min(v * x, 700))), 0, 1e9, xtol=1e-300, rtol=1e-15)
    else:
        widths = {"hinge": 1.0, "smooth_hinge": 1.5, "squared": 1.0, "absolute": 1.0, "huber": 1.0}
        exact = widths[loss] / v  # the loss is almost exactly at its minimum, or at its kink
    assert found == pytest.approx(exact, rel=1e-9 if loss == "logistic" else 1e-6)
