"""The learners against their NumPy twin: same rows, same noise words, same models to 1e-12."""

from __future__ import annotations

import math

import numpy as np
import pytest
from learner_tools import average_of, close, data, model_of
from scipy import sparse
from twins import twin_of

from privol import PGIGA, PIGD
from privol.geometry import Box, L1Ball, L2Ball, Simplex
from privol.losses import Custom, Huber, SmoothHinge, get_loss

D, N = 3, 40
SMOOTH = ("logistic", "smooth_hinge", "squared", "huber")


def start(learner, X, y, loss=None):
    """Learn the first row, so that the run and its key exist; returns the run's twin after the same row."""
    known = [-1.0, 1.0] if get_loss(learner.loss).kind == "classification" else None
    learner.partial_fit(X[:1], y[:1], classes=known)
    run = learner._run
    key = bytes(run.state.secret_arrays()["key"])
    twin = twin_of(learner, run.plan, key, X.shape[1] + learner.fit_intercept, loss)
    twin.learn(X[0], y[0])
    return run, twin


def check(learner, X, y, active=None, loss=None):
    """Compare row by row: secret iterate, released iterate, average, number of releases."""
    run, twin = start(learner, X, y, loss)
    on_sphere = 0
    for i in range(len(X)):
        if i:
            learner.learn_one(X[i], y[i])
            twin.learn(X[i], y[i])
        assert close(run.state._secret_iterate(), twin.x), f"secret iterate after row {i + 1}"
        assert learner.n_releases_ == len(twin.released)
        if twin.released and twin.released[-1][0] == i + 1:
            assert close(model_of(learner), twin.released[-1][1]), f"release after row {i + 1}"
        on_sphere += not isinstance(learner.domain, L2Ball | None) or np.linalg.norm(twin.x) > 0.999999 * learner.radius
    if twin.released:
        assert close(average_of(learner), np.mean([point for _, point in twin.released], axis=0))
    if active is not None:
        assert (on_sphere > 0) == active, "the case does not test what it says"
    return twin


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(("radius", "l2", "active"), [(0.3, 0.05, True), (60.0, 0.5, False)])
@pytest.mark.parametrize("loss", ["logistic", "hinge", "smooth_hinge", "squared", "absolute", "huber"])
def test_pigd_on_the_ball(loss, radius, l2, active, intercept):
    X, y = data(loss)
    learner = PIGD(
        loss=loss,
        epsilon=30.0,
        delta=1e-3,
        horizon=N,
        release="all",
        radius=radius,
        l2=l2,
        fit_intercept=intercept,
        x_bound=0.9,
        y_bound=0.8,
        random_state=5,
    )
    check(learner, X, y, active)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(("radius", "l2", "active"), [(0.05, 0.05, True), (60.0, 0.5, False)])
@pytest.mark.parametrize("loss", SMOOTH)
def test_pgiga_on_the_ball(loss, radius, l2, active, intercept):
    X, y = data(loss, seed=1)
    learner = PGIGA(
        loss=loss,
        epsilon=30.0,
        delta=1e-3,
        horizon=N,
        release=3,
        radius=radius,
        l2=l2,
        fit_intercept=intercept,
        x_bound=1.1,
        y_bound=0.8,
        random_state=6,
    )
    check(learner, X, y, active)


@pytest.mark.parametrize("domain", [L1Ball(0.2), Box(-0.1, 0.15), Simplex(0.7)], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize(
    ("cls", "loss"),
    [
        (PIGD, "logistic"),
        (PIGD, "hinge"),
        (PIGD, "absolute"),
        (PIGD, "huber"),
        (PIGD, "smooth_hinge"),
        (PGIGA, "logistic"),
        (PGIGA, "squared"),
        (PGIGA, "huber"),
        (PGIGA, "smooth_hinge"),
    ],
)
@pytest.mark.parametrize("intercept", [True, False])
def test_other_sets(cls, loss, domain, intercept):
    X, y = data(loss, seed=2)
    learner = cls(
        loss=loss,
        epsilon=30.0,
        delta=1e-3,
        horizon=N,
        release=[1, 2, 7, 30, N],
        domain=domain,
        l2=0.1,
        fit_intercept=intercept,
        random_state=7,
    )
    check(learner, X, y)


def test_a_box_with_different_sides():
    X, y = data("logistic", seed=3)
    domain = Box([-0.3, 0.0, 0.05, -0.01], [0.1, 0.2, 0.06, 0.01])
    check(PIGD(epsilon=20.0, horizon=N, release="all", domain=domain, random_state=1), X, y)


@pytest.mark.parametrize("cls", [PIGD, PGIGA])
@pytest.mark.parametrize("shape", ["lipschitz", "smooth", "paper"])
@pytest.mark.parametrize("offset", [None, 400.0])
def test_inverse_sqrt_schedule_and_step_offset(cls, shape, offset):
    X, y = data("logistic", seed=4)
    for schedule in ("inverse_sqrt", "constant"):
        learner = cls(
            epsilon=5.0,
            horizon=N,
            release=2,
            l2=0.02,
            l2_schedule=schedule,
            step_offset=offset,
            noise_shape=shape,
            radius=2.0,
            random_state=2,
        )
        check(learner, X, y)


def test_published_pigd_releases_rows_before_the_last():
    X, y = data("logistic", seed=5)
    twin = check(PIGD(calibration="published", horizon=N, release="all", l2=1.0, random_state=3), X, y)
    assert [row for row, _ in twin.released] == list(range(1, N))


def test_published_pgiga_ignores_rows_before_its_first():
    X, y = data("logistic", seed=6, n=60)
    learner = PGIGA(
        calibration="published", horizon=60, release="all", l2=0.15, x_bound=0.5, random_state=4, radius=5.0
    )
    twin = check(learner, X, y)
    assert 10 < twin.first < 45, "the case does not test what it says"
    assert twin.released[twin.first - 3][1].any(), "rows before the first step are released too, as noise"


def test_zero_out():
    X, y = data("logistic", seed=7)
    check(PIGD(adjacency="zero_out", epsilon=8.0, horizon=N, release=1, random_state=4), X, y)


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_null_rows_only_shrink(loss):
    X, y = data(loss, seed=8)
    X[3, 1], X[10, 0], X[11, 2] = np.nan, np.inf, 1e200
    null = {3, 10, 11}
    if loss == "squared":
        y[20] = np.nan
        null.add(20)
    learner = PIGD(loss=loss, epsilon=30.0, horizon=N, release=2, on_invalid="zero", random_state=4, radius=9.0)
    run, twin = start(learner, X, y)
    for i in range(1, N):
        learner.learn_one(X[i], y[i])
        twin.learn(None if i in null else X[i], y[i])
        assert close(run.state._secret_iterate(), twin.x)
        if i % 2:
            assert close(model_of(learner), twin.released[-1][1])
    assert run.state.raw_counts()["null_rows"] == len(null)


def test_a_label_outside_the_set_is_a_null_row_if_requested():
    X, y = data("logistic", seed=8)
    y[4] = 7.0
    learner = PIGD(epsilon=30.0, horizon=N, release="all", on_invalid="zero", random_state=4)
    run, twin = start(learner, X, y)
    learner.partial_fit(X[1:], y[1:])
    for i in range(1, N):
        twin.learn(None if i == 4 else X[i], y[i])
    assert close(run.state._secret_iterate(), twin.x)
    assert close(model_of(learner), twin.released[-1][1])


@pytest.mark.parametrize(("release", "count"), [(None, 1), ("last", 1), (16, 2), ([5, 39], 2), ("all", N)])
def test_fit_releases_what_the_schedule_says(release, count):
    X, y = data("logistic", seed=9)
    learner = PIGD(epsilon=4.0, release=release, random_state=9, radius=0.4)
    plan = learner.calibrate(D, N)
    learner.fit(sparse.csr_array(X), y)
    twin = twin_of(learner, plan, learner_key(9), D + 1)
    for row, target in zip(X, y, strict=True):
        twin.learn(row, target)
    assert learner.n_releases_ == len(twin.released) == count
    assert close(model_of(learner), twin.released[-1][1])
    assert close(average_of(learner), np.mean([p for _, p in twin.released], axis=0))


def learner_key(seed):
    words = np.random.PCG64(seed).random_raw(8) & np.uint64(0xFFFFFFFF)
    return words.astype("<u4").tobytes()


@pytest.mark.parametrize("rows", [1, 7, N - 1])
@pytest.mark.parametrize("shape", ["lipschitz", "paper"])
def test_close_before_the_horizon_releases_with_noise_for_the_true_last_row(rows, shape):
    X, y = data("logistic", seed=10)
    learner = PIGD(epsilon=2.0, horizon=N, release="last", noise_shape=shape, random_state=11, l2=0.1, radius=50.0)
    learner.partial_fit(X[:rows], y[:rows], classes=[-1.0, 1.0])
    run = learner._run
    twin = twin_of(learner, run.plan, learner_key(11), D + 1)
    for row, target in zip(X[:rows], y[:rows], strict=True):
        twin.learn(row, target)
    assert not twin.released
    assert learner.n_releases_ == 0
    learner.close()
    std = run.plan.sensitivity(rows) / run.plan.mu  # one Gaussian release of this sensitivity
    twin.release(std * (1 + 1e-12))
    assert learner.n_releases_ == 1
    assert close(model_of(learner), twin.released[-1][1])
    assert learner.ledger_.spent.mu <= learner.guarantee_.mu * (1 + 1e-9)
    assert learner.ledger_.spent.mu >= learner.guarantee_.mu * (1 - 1e-9)


def test_close_early_releases_nothing_more_where_the_schedule_had_other_rows():
    X, y = data("logistic", seed=10)
    learner = PIGD(epsilon=2.0, horizon=N, release=16, random_state=11)
    learner.partial_fit(X[:20], y[:20], classes=[-1.0, 1.0])
    before = model_of(learner)
    learner.close()
    assert learner.n_releases_ == 1
    np.testing.assert_array_equal(model_of(learner), before)


def test_many_rows_do_not_drift_from_the_twin():
    """Past several recomputations of the norm, in a dimension with partial lanes."""
    X, y = data("logistic", n=300, d=11, seed=12, size=3.0)
    for radius in (0.2, 40.0):
        learner = PIGD(epsilon=3.0, horizon=300, release=50, random_state=1, l2=0.003, radius=radius)
        check(learner, X, y)


# ---- a user's own loss equals the built-in one of the same function ---------------------------------


def logistic_value(p, y):
    return float(np.logaddexp(0.0, -y * p))


def logistic_gradient(p, y):
    return float(-y / (1.0 + math.exp(y * p)))


CUSTOM = {
    "logistic": {"value": logistic_value, "gradient": logistic_gradient, "lipschitz": 1.0, "smoothness": 0.25},
    "hinge": {
        "value": lambda p, y: max(0.0, 1 - y * p),
        "gradient": lambda p, y: -y if y * p < 1 else 0.0,
        "lipschitz": 1.0,
        "smoothness": math.inf,
    },
    "absolute": {
        "value": lambda p, y: abs(p - y),
        "gradient": lambda p, y: float(np.sign(p - y)),
        "lipschitz": 1.0,
        "smoothness": math.inf,
        "kind": "regression",
    },
    "huber": {
        "value": lambda p, y: float(Huber().value(p, y)),
        "gradient": lambda p, y: min(max(p - y, -1.0), 1.0),
        "lipschitz": 1.0,
        "smoothness": 1.0,
        "kind": "regression",
    },
    "smooth_hinge": {
        "value": lambda p, y: float(SmoothHinge().value(p, y)),
        "gradient": lambda p, y: float(SmoothHinge().gradient(p, y)),
        "lipschitz": 1.0,
        "smoothness": 1.0,
    },
}


SMOOTH_CUSTOM = [(PGIGA, name) for name in CUSTOM if CUSTOM[name]["smoothness"] < math.inf]


@pytest.mark.parametrize(("radius", "active"), [(0.1, True), (50.0, False)])
@pytest.mark.parametrize(("cls", "name"), [(PIGD, name) for name in CUSTOM] + SMOOTH_CUSTOM)
def test_custom_losses(cls, name, radius, active):
    """A custom loss steps as the built-in of the same function; its noise is at least that of the built-in."""
    X, y = data(name, seed=13)
    learner = cls(
        loss=Custom(**CUSTOM[name], name="mine"),
        epsilon=30.0,
        delta=1e-3,
        horizon=N,
        release=4,
        radius=radius,
        l2=0.3,
        random_state=8,
    )
    check(learner, X, y, active, loss=name)
    assert "vouches" in learner.guarantee_.sentence()
    built_in = cls(loss=name, epsilon=30.0, delta=1e-3, radius=radius, l2=0.3).calibrate(D, N, 4)
    assert learner._run.plan.std(4) >= built_in.std(4) * (1 - 1e-9)


def test_the_ball_is_met_exactly_where_that_makes_the_noise_smaller():
    """The tests above cover both ways to stay in the ball: the exact constrained step, and prox then projection."""
    constrained = {
        loss: PIGD(loss=loss, radius=0.3, y_bound=0.8).calibrate(D, N).constrained
        for loss in ("logistic", "hinge", "squared", "absolute", "huber")
    }
    assert constrained == {"logistic": True, "hinge": False, "squared": True, "absolute": False, "huber": True}
