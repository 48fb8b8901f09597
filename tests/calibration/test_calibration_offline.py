"""Averages and output perturbation: the specification's figures, and neighbours that attain the sensitivities.

The claims are those of docs/proofs/offline.md; objective perturbation is in test_calibration_objective.py.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from problems import calibrated

from privol import PIGD
from privol.calibration import (
    calibrate_average,
    calibrate_objective,
    calibrate_output,
    minimiser_bound,
    sample_size,
)
from privol.calibration._averages import published_scale
from privol.errors import InvalidParameter
from privol.geometry import L2Ball
from privol.guarantees import gdp_mu
from privol.losses import Absolute, Custom, Hinge, Huber, Logistic, SmoothHinge, Softmax, Squared

ROWS = {"dim": 10, "intercept": False, "n": 1000, "l2": 0.01, "adjacency": "replace", "x_bound": 1.0, "y_bound": 1.0}
PURE = {"epsilon": 1.0, "delta": 0.0}
GAUSSIAN = {"epsilon": 1.0, "delta": 1e-6}


def sigmoid(x):
    x = np.asarray(x, dtype=float)
    tail = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, tail) / (1.0 + tail)


# ---- the specification's figures -----------------------------------------------------------------


def test_output_perturbation_of_the_slides():
    plan = calibrate_output(loss=Logistic(), calibration="published", **PURE, **ROWS)
    assert plan.law == "l2_laplace"
    assert plan.scale == pytest.approx(0.2, rel=1e-15)
    assert plan.scale * plan.dim == pytest.approx(2.0)  # mean of the radius
    assert plan.claim.epsilon == 1.0
    assert plan.claim.delta == 0.0
    of_constant = calibrate_output(loss=Logistic(), calibration="published", **PURE, **{**ROWS, "intercept": True})
    assert of_constant.scale == pytest.approx(0.2 * math.sqrt(2.0), rel=1e-15)  # rows have the constant's coordinate
    diameter = Logistic().gradient_diameter(1.0, plan.minimiser_bound)
    assert plan.epsilon == pytest.approx(diameter / 2, rel=2e-4)  # the lemma is correct, and 2R is crude
    tight = calibrate_output(loss=Logistic(), **PURE, **ROWS)
    assert tight.scale == pytest.approx(plan.scale * plan.epsilon, rel=1e-11)
    assert tight.epsilon == 1.0
    assert tight.claim is None


def test_average_of_the_specification():
    plan = calibrated(
        calibrate_average,
        loss=Hinge(), domain=L2Ball(50.0), dim=3, intercept=False, horizon=1000, l2=0.1, adjacency="replace",
        x_bound=1.0, y_bound=1.0, weights="uniform", **GAUSSIAN,
    )  # fmt: skip
    assert 0.1297094172110069 < plan.sensitivity < 0.1297094172110069 * (1 + 1e-7)
    assert plan.scale == pytest.approx(plan.sensitivity * 4.224678889326835, rel=1e-11)


@pytest.mark.parametrize(("together", "horizon"), [(2, 1000), (4, 3), (32, 1000)])
def test_all_rows_of_a_user_in_an_average(together, horizon):
    """Up to row t there are at most t of them: closed forms, because the set does not cut anything off."""
    words = {
        "loss": Hinge(), "domain": L2Ball(50.0), "dim": 3, "intercept": False, "horizon": horizon, "l2": 0.1,
        "adjacency": "replace", "x_bound": 1.0, "y_bound": 1.0, **GAUSSIAN,
    }  # fmt: skip
    t = np.arange(1.0, horizon)
    for weights, share in (("uniform", np.ones(horizon)), ("linear", np.arange(1.0, horizon + 1)), ("last", None)):
        row = calibrated(calibrate_average, weights=weights, **words)
        plan = calibrated(calibrate_average, weights=weights, rows_per_user=together, **words)
        # D = 2, A_t = l2 (t + 1) after row t
        expected = min(together, horizon) * 2.0 / (0.1 * (horizon + 1))
        if share is not None:
            expected = np.dot(np.minimum(t, together) * 2.0 / (0.1 * (t + 1)), share[1:]) / share.sum()
        assert plan.sensitivity == pytest.approx(expected, rel=1e-6)
        assert expected <= plan.sensitivity <= together * row.sensitivity * (1 + 1e-9)
        assert (plan.mu, plan.rows_per_user, row.factor) == (row.mu, together, 1.0)
        assert plan.scale * plan.mu >= plan.sensitivity
        # the figure of a row is its effect over the noise, rounded up
        assert plan.mu / plan.factor >= row.sensitivity / plan.scale * (1 - 1e-15)
        assert plan.factor == pytest.approx(plan.sensitivity / row.sensitivity, rel=1e-10)
        shorter = plan.sensitivity_after(horizon - 1)
        assert shorter <= together * row.sensitivity_after(horizon - 1) * (1 + 1e-9)


@pytest.mark.parametrize(("error", "radius", "short"), [(0.1, 1.0, 8.535), (0.01, 1.0, 92.96), (0.1, 10.0, 929.6)])
def test_published_average_is_short_of_noise(error, radius, short):
    alpha, horizon = error / radius**2, 1000
    words = {
        "loss": Hinge(), "dim": 3, "intercept": False, "horizon": horizon, "l2": alpha, "adjacency": "replace",
        "x_bound": 1.0, "y_bound": 1.0, "weights": "uniform", **GAUSSIAN,
    }  # fmt: skip
    plan = calibrated(calibrate_average, domain=L2Ball(radius), calibration="published", **words)
    root = math.sqrt(math.log(1e6) + 1.0)
    beta = 2 * math.sqrt(2) * (1 + alpha * radius) * math.log(horizon) / horizon * root
    assert plan.scale == pytest.approx(beta, rel=1e-12)
    assert published_scale(1 + alpha * radius, horizon, 1.0, 1e-6) == pytest.approx(beta, rel=1e-14)
    assert plan.mu == pytest.approx(plan.sensitivity / plan.scale, rel=1e-11)
    assert (plan.claim.epsilon, plan.claim.delta) == (1.0, 1e-6)
    # the specification's figure, for which the iterates may leave the ball
    claimed = 2 * (1 + alpha * radius) * math.log(horizon) / horizon
    wide = calibrated(calibrate_average, domain=L2Ball(1e6), **words)
    assert wide.sensitivity / claimed == pytest.approx(short, rel=2e-3)
    # in the ball: rows without a gradient except row s, the first that can move a point across the ball
    s = math.ceil(1 / (alpha * radius)) - 1
    moved = sum(2 / (alpha * (t + 1)) for t in range(s, horizon)) / horizon
    assert moved < plan.sensitivity < moved * (1 + 1e-6)
    assert plan.sensitivity < 0.72 * wide.sensitivity
    assert plan.mu > 4 * gdp_mu(1.0, 1e-6)


def test_sample_size():
    words = {"norm_bound": 2.0, "lipschitz": 1.5, "dim": 20, "epsilon": 0.5, "delta": 1e-6, "failure": 0.05}

    def terms(rows, error, published):
        slope = 1.5 + error / 2
        tail = math.sqrt(math.log(20))
        noise = math.sqrt(20) * 1.5 * slope * tail * math.sqrt(math.log(1e6)) / (error * 0.5)
        if not published:
            noise = math.sqrt(20) * 1.5 * 3 * 4 * math.log(rows) * tail / (error**2 * gdp_mu(0.5, 1e-6))
        return noise, (slope * 2 / error) ** 2 * math.log(rows) * math.log(math.log(rows) / 0.05)

    for error in (0.5, 0.1):
        for published in (True, False):
            rows = sample_size(error=error, calibration="published" if published else "tight", **words)
            assert rows >= max(terms(rows, error, published)) * (1 - 1e-12)
            assert rows - 1 < max(terms(rows - 1, error, published)) * (1 + 1e-12)
    # the cost of noise grows with 1 / error^2, not 1 / error
    private = [sample_size(error=error, **{**words, "epsilon": 1e-3}) for error in (0.1, 0.01)]
    claimed = [sample_size(error=error, **{**words, "epsilon": 1e-6}, calibration="published") for error in (0.1, 0.01)]
    assert private[1] / private[0] > 100
    assert claimed[1] / claimed[0] == pytest.approx(10, rel=0.05)
    assert sample_size(error=0.1, constant=2.0, **words) > 1.9 * sample_size(error=0.1, **words)


# ---- averages: a pair of runs that attains the sensitivity ----------------------------------------


@pytest.mark.parametrize("offset", [None, 3.0])
@pytest.mark.parametrize("weights", ["linear", "uniform", "last"])
def test_a_run_attains_the_averages_sensitivity(weights, offset):
    """Targets out of reach make the absolute loss linear. Uses the compiled steps, not noisy releases."""
    n, words = 120, {"l2": 0.5, "x_bound": 1.0, "y_bound": 1e3}
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 2))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    ends = []
    for sign in (1.0, -1.0):
        y = np.full(n, 1e3)
        y[0] *= sign
        learner = PIGD(
            loss="absolute", epsilon=math.inf, horizon=n, radius=50.0, release="all", fit_intercept=False,
            step_offset=offset, random_state=1, **words,
        )  # fmt: skip
        points = [np.zeros(2)]
        for i in range(n):
            learner.partial_fit(X[i : i + 1], y[i : i + 1])
            points.append(np.array(learner.coef_).ravel())
        iterates = np.array(points)
        if weights == "last":
            ends.append(iterates[-1])
        else:
            share = np.arange(1.0, n + 1) if weights == "linear" else np.ones(n)
            ends.append(share @ iterates[:n] / share.sum())
    plan = calibrated(
        calibrate_average,
        loss=Absolute(), domain=L2Ball(50.0), dim=2,
        intercept=False, horizon=n, adjacency="replace", weights=weights, step_offset=offset, **words, **GAUSSIAN,
    )  # fmt: skip
    moved = float(np.linalg.norm(ends[0] - ends[1]))
    assert plan.sensitivity * (1 - 1e-6) < moved <= plan.sensitivity
    assert plan.sensitivity_after(n) == plan.sensitivity
    assert plan.scale_after(n) == plan.scale


def test_averages_are_refused():
    words = {
        "loss": Hinge(), "domain": L2Ball(1.0), "dim": 3, "intercept": False, "horizon": 10, "l2": 0.1,
        "adjacency": "replace", "x_bound": 1.0, "y_bound": 1.0,
    }  # fmt: skip
    with pytest.raises(InvalidParameter, match="needs weights='uniform'"):
        calibrated(calibrate_average, calibration="published", **words, **GAUSSIAN)
    with pytest.raises(InvalidParameter, match="weights must be one of"):
        calibrated(calibrate_average, weights="all", **words, **GAUSSIAN)
    plan = calibrated(calibrate_average, weights="uniform", calibration="published", **words, **GAUSSIAN)
    with pytest.raises(InvalidParameter, match="whole horizon"):
        plan.scale_after(5)
    pure = calibrated(calibrate_average, **words, **PURE)
    assert pure.law == "l2_laplace"
    assert pure.scale == pytest.approx(pure.sensitivity, rel=1e-11)
    assert pure.scale_after(5) == pytest.approx(pure.sensitivity_after(5), rel=1e-11)
    single = calibrated(calibrate_average, **{**words, "horizon": 1}, **PURE)
    assert single.sensitivity == 0.0
    assert single.scale == 0.0
    none = calibrated(calibrate_average, **words, epsilon=math.inf, delta=0.0)
    assert (none.law, none.scale, none.mu) == ("none", 0.0, math.inf)


# ---- output perturbation -------------------------------------------------------------------------


def minimise(loss, rows, targets, l2_sum):
    """The minimiser by Newton's method with halved steps; for few rows."""
    w = np.zeros(rows.shape[1])

    def value(w):
        return float(np.sum(loss.value(rows @ w, targets))) + 0.5 * l2_sum * float(w @ w)

    for _ in range(200):
        m = rows @ w
        gradient = rows.T @ loss.gradient(m, targets) + l2_sum * w
        if np.linalg.norm(gradient) < 1e-12 * (1 + l2_sum):
            break
        curve = (loss.gradient(m + 1e-7, targets) - loss.gradient(m - 1e-7, targets)) / 2e-7
        step = np.linalg.solve((rows.T * curve) @ rows + l2_sum * np.eye(len(w)), gradient)
        length = 1.0
        while value(w - length * step) > value(w) - 1e-4 * length * float(gradient @ step) and length > 1e-9:
            length /= 2
        w = w - length * step
    return w


LOSSES = [Logistic(), SmoothHinge(), SmoothHinge(0.2), SmoothHinge(3.0), Squared(), Huber(0.7), Huber(5.0)]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: f"{loss.name}-{loss.width:g}")
@pytest.mark.parametrize("l2", [0.003, 0.1, 2.0, 50.0])
def test_minimisers_reach_their_bound_and_no_further(loss, l2):
    R, Y = 1.5, 2.0
    bound = minimiser_bound(loss, R, Y, l2)
    y = Y if loss.kind == "regression" else 1.0
    # equal rows; shorter ones if the full length is beyond the largest pull
    lengths = np.linspace(0.001, 1.0, 4000) * R
    low, high = np.zeros(4000), np.full(4000, 2 * bound)
    for _ in range(60):
        middle = (low + high) / 2
        beyond = l2 * middle + loss.gradient(lengths * middle, y) * lengths > 0
        low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
    assert bound * 0.999 < high.max() <= bound * (1 + 1e-12)
    rng = np.random.default_rng(int(l2 * 1000))
    for _ in range(3):
        n = 4
        rows = rng.normal(size=(n, 2))
        rows *= (R * rng.uniform(0, 1, n) ** 0.3 / np.linalg.norm(rows, axis=1))[:, None]
        targets = rng.uniform(-Y, Y, n) if loss.kind == "regression" else rng.choice([-1.0, 1.0], n)
        assert np.linalg.norm(minimise(loss, rows, targets, n * l2)) <= bound * (1 + 1e-9)


def test_minimisers_of_a_custom_loss_are_bounded_by_its_slope():
    loss = Custom(
        value=lambda p, y: math.hypot(1.0, p - y), gradient=lambda p, y: (p - y) / math.hypot(1.0, p - y),
        lipschitz=1.0, smoothness=1.0, kind="regression",
    )  # fmt: skip
    assert minimiser_bound(loss, 2.0, 1.0, 0.1) == pytest.approx(20.0, rel=1e-9)


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
def test_neighbours_attain_the_sensitivity(dim, adjacency):
    """Huber's loss far from its targets is linear, and the squared loss nearly so if l2 is large."""
    rng = np.random.default_rng(5)
    n = 3
    rows = rng.normal(size=(n, dim))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    for loss, l2, y_bound, least in ((Huber(0.5), 0.4, 50.0, 0.9999), (Squared(), 3000.0, 2.0, 0.999)):
        words = {**ROWS, "dim": dim, "n": n, "l2": l2, "y_bound": y_bound, "adjacency": adjacency}
        plan = calibrate_output(loss=loss, **PURE, **words)
        targets = np.full(n, y_bound)
        one = minimise(loss, rows, targets, plan.l2_sum)
        if adjacency == "replace":
            targets[0] = -y_bound
            other = minimise(loss, rows, targets, plan.l2_sum)
        else:
            other = minimise(loss, rows[1:], targets[1:], plan.l2_sum)
        moved = float(np.linalg.norm(one - other))
        assert least * plan.sensitivity < moved <= plan.sensitivity
        assert moved > 1.4 * plan.sensitivity * 2 / 3  # two thirds of the noise would not suffice


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: f"{loss.name}-{loss.width:g}")
def test_no_neighbours_exceed_the_sensitivity(loss):
    rng = np.random.default_rng(11)
    closest = 0.0
    for l2 in (0.05, 1.0, 20.0):
        plan = calibrate_output(loss=loss, **PURE, **{**ROWS, "dim": 2, "n": 2, "l2": l2, "y_bound": 1.5})
        for _ in range(8):
            rows = rng.normal(size=(3, 2))
            rows /= np.linalg.norm(rows, axis=1, keepdims=True)
            rows[2] = -rows[1] + rng.normal(size=2) * rng.choice([0.0, 0.3])
            rows[2] /= np.linalg.norm(rows[2])
            targets = rng.choice([-1.5, 1.5], 3) if loss.kind == "regression" else rng.choice([-1.0, 1.0], 3)
            ends = [minimise(loss, rows[kept], targets[kept], plan.l2_sum) for kept in ([0, 1], [0, 2])]
            moved = float(np.linalg.norm(ends[0] - ends[1]))
            closest = max(closest, moved / plan.sensitivity)
            assert moved <= plan.sensitivity
    assert closest > 0.6


def test_outputs_solver_and_radius_are_charged():
    plan = calibrate_output(loss=Logistic(), **GAUSSIAN, **ROWS)
    assert plan.scale == pytest.approx(plan.sensitivity / gdp_mu(**GAUSSIAN), rel=1e-11)
    assert plan.sensitivity == pytest.approx((plan.diameter + 2 * plan.gradient_norm) / 10, rel=1e-11)
    assert 2 * plan.gradient_norm < 1e-4 * plan.diameter
    seven = calibrate_output(loss=Logistic(), outputs=7, **GAUSSIAN, **ROWS)
    assert seven.sensitivity == pytest.approx(math.sqrt(7) * plan.sensitivity, rel=1e-12)
    assert seven.dim == 70
    rough = calibrate_output(loss=Logistic(), gradient_norm=0.5, **GAUSSIAN, **ROWS)
    assert rough.sensitivity == pytest.approx((plan.diameter + 1.0) / 10, rel=1e-11)
    for n in (10, 10**5, 10**9):
        each = calibrate_output(loss=Logistic(), **PURE, **{**ROWS, "n": n, "dim": 54})
        assert 2 * each.gradient_norm < (1e-4 if n < 10**7 else 0.1) * each.diameter
    near = calibrate_output(loss=Logistic(), radius=0.01, **PURE, **ROWS)
    assert 0.02 <= near.sensitivity < 0.02 * (1 + 1e-12)
    far = calibrate_output(loss=Logistic(), radius=1e3, **PURE, **ROWS)
    assert far.sensitivity == pytest.approx(plan.sensitivity, rel=1e-9)
    none = calibrate_output(loss=Logistic(), epsilon=math.inf, delta=0.0, **ROWS)
    assert (none.law, none.scale, none.mu) == ("none", 0.0, math.inf)
    half = calibrate_output(loss=Logistic(), **PURE, **{**ROWS, "adjacency": "zero_out"})
    assert half.diameter == pytest.approx(float(sigmoid(half.minimiser_bound)), rel=1e-9)
    wide = calibrate_output(loss=Logistic(), **PURE, **{**ROWS, "intercept": True})
    assert wide.row_bound == pytest.approx(math.sqrt(2), rel=1e-11)
    assert wide.row_bound > math.sqrt(2)


@pytest.mark.parametrize("make", [calibrate_output, calibrate_objective])
def test_what_has_no_guarantee_is_refused(make):
    words = {**ROWS, **PURE}
    for loss, why in ((Hinge(), "has a kink"), (Absolute(), "has a kink"), (Softmax(), "several scores")):
        with pytest.raises(InvalidParameter, match=why):
            make(loss=loss, **words)
    for bad in ({"l2": 0.0}, {"n": 0}, {"delta": 1.0}, {"epsilon": 0.0}, {"outputs": 0}, {"adjacency": "add"}):
        with pytest.raises(InvalidParameter, match=next(iter(bad))):
            make(loss=Logistic(), **{**words, **bad})
    with pytest.raises(InvalidParameter, match="has one output"):
        make(loss=Huber(), outputs=2, **words)
    with pytest.raises(InvalidParameter, match="calibration"):
        make(loss=Logistic(), calibration="best", **words)
    with pytest.raises(InvalidParameter, match="calibration='published' needs"):
        make(loss=Logistic(), calibration="published", **{**words, "delta": 1e-6})
    with pytest.raises(InvalidParameter, match="too far apart"):
        make(loss=Logistic(), **{**words, "epsilon": 1e-150})
