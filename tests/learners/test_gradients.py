"""NOGD: its NumPy twin, forms of rows, restoring, its noise, and the effect of one row."""

from __future__ import annotations

import itertools
import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
from alpha import rate
from learner_tools import average_of, close, data, model_of
from scipy import sparse
from scipy.stats import chi2
from twins_gradients import gradient_twin_of

import privol
from privol import DPFTRL, NOGD
from privol._core import _noise
from privol.errors import BudgetExceeded, InvalidParameter, InvalidRow, StateError
from privol.geometry import Box, L1Ball, Simplex
from privol.guarantees import gdp_mu
from privol.losses import Custom, Huber, get_loss
from privol.noise import STREAM_RELEASES, decide_lattice_point, make_source
from privol.state import load_model, save_model

pytestmark = pytest.mark.statistical

D, N = 3, 40
LOSSES = ["logistic", "hinge", "smooth_hinge", "squared", "absolute", "huber"]


def labels_of(learner):
    return [-1.0, 1.0] if get_loss(learner.loss).kind == "classification" else None


def check(learner, X, y, null=()):
    """Compare row by row with the twin, and in one block: points, releases, counters."""
    learner.partial_fit(X[:1], y[:1], classes=labels_of(learner))
    run = learner._run
    key = bytes(run.state.secret_arrays()["key"])
    twin = gradient_twin_of(learner, run.plan, key, X.shape[1] + learner.fit_intercept)
    for i in range(len(X)):
        if i:
            learner.learn_one(X[i], y[i])
        twin.learn(None if i in null else X[i], y[i])
        assert close(learner.ask(), twin.x), f"point after row {i + 1}"
        assert learner.n_releases_ == len(twin.released)
        if twin.released:
            assert close(model_of(learner), twin.released[-1])
    assert close(average_of(learner), np.mean(twin.released, axis=0))
    assert learner.ledger_.spent.mu == pytest.approx(learner.guarantee_.mu, rel=1e-9)
    return twin


# ---- the twin ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(("radius", "l2"), [(0.3, 0.0), (40.0, 0.0), (0.3, 0.5), (40.0, 0.5)])
@pytest.mark.parametrize("loss", LOSSES)
def test_twin(loss, radius, l2, intercept):
    X, y = data(loss)
    learner = NOGD(
        loss=loss,
        epsilon=30.0,
        delta=1e-3,
        horizon=N,
        radius=radius,
        l2=l2,
        fit_intercept=intercept,
        x_bound=0.9,
        y_bound=0.8,
        random_state=5,
    )
    check(learner, X, y)


@pytest.mark.parametrize("domain", [L1Ball(0.2), Box(-0.1, 0.15), Simplex(0.7)], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("loss", ["logistic", "squared", "absolute"])
def test_other_sets(loss, domain):
    X, y = data(loss, seed=2)
    check(NOGD(loss=loss, epsilon=300.0, horizon=N, domain=domain, l2=0.1, release=[1, 2, 7, N], random_state=7), X, y)


@pytest.mark.parametrize("batch", [2, 7, N, 1000])
@pytest.mark.parametrize("release", [None, "last", 3, [5, 7, 8]])
def test_steps_of_several_rows(batch, release):
    """The horizon ends a partial step; releases between two steps repeat the point."""
    X, y = data("logistic", seed=3)
    twin = check(NOGD(epsilon=9.0, horizon=N, batch=batch, release=release, random_state=1, radius=2.0), X, y)
    assert twin.steps == -(-N // batch)


def test_null_rows_and_bounds_of_gradients():
    X, y = data("squared", seed=8)
    X[3, 1], X[10, 0], y[20] = np.nan, np.inf, np.nan
    learner = NOGD(
        loss="squared",
        epsilon=30.0,
        horizon=N,
        batch=3,
        on_invalid="zero",
        gradient_bound=0.2,
        random_state=4,
        radius=9.0,
        y_bound=5.0,
    )
    check(learner, X, y, null={3, 10, 20})
    assert learner._run.state.raw_counts()["null_rows"] == 3


def test_no_noise():
    X, y = data("huber", seed=8)
    learner = NOGD(loss="huber", epsilon=math.inf, horizon=N, batch=3, radius=9.0)
    check(learner, X, y)
    assert learner.guarantee_.kind == "none"


def test_a_custom_loss_steps_as_the_built_in_of_the_same_function():
    X, y = data("huber", seed=8)
    custom = Custom(
        value=lambda p, y: float(Huber().value(p, y)),
        gradient=lambda p, y: min(max(p - y, -1.0), 1.0),
        lipschitz=1.0,
        smoothness=1.0,
        kind="regression",
        name="mine",
    )
    made = [NOGD(loss=loss, epsilon=math.inf, batch=2).fit(X, y) for loss in (custom, "huber")]
    assert np.array_equal(made[0].coef_, made[1].coef_)
    assert "vouches" in NOGD(loss=custom, epsilon=1.0).fit(X, y).guarantee_.sentence()


def test_a_failing_loss_undoes_the_block():
    X, y = data("absolute", seed=8)
    left = math.inf

    def gradient(p, target):
        nonlocal left
        left -= 1
        if left == 0:
            raise RuntimeError("no more")
        return float(np.sign(p - target))

    custom = Custom(
        value=lambda p, y: abs(p - y),
        gradient=gradient,
        lipschitz=1.0,
        smoothness=math.inf,
        kind="regression",
        name="mine",
    )
    learner = NOGD(loss=custom, epsilon=5.0, horizon=N, batch=4, random_state=2, release=6)
    learner.partial_fit(X[:10], y[:10])
    before = learner._run.state.secret_arrays()
    left = 17
    with pytest.raises(RuntimeError, match="no more"):
        learner.partial_fit(X[10:], y[10:])
    after = learner._run.state.secret_arrays()
    assert all(np.array_equal(before[name], after[name]) for name in before)
    learner.partial_fit(X[10:], y[10:])
    whole = NOGD(loss="absolute", epsilon=5.0, horizon=N, batch=4, random_state=2, release=6).partial_fit(X, y)
    assert np.array_equal(learner.coef_, whole.coef_)


# ---- in whatever form rows arrive -----------------------------------------------------------------------------


def fingerprint(learner):
    arrays = learner._run.state.secret_arrays()
    return {name: value.tobytes() for name, value in arrays.items()}, learner._run.state.counters()


def make(**more):
    return NOGD(**{"epsilon": 6.0, "delta": 1e-4, "horizon": 200, "batch": 3, "random_state": 3, "radius": 0.5} | more)


def single_rows(n=199):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 13)) * (rng.random((n, 13)) < 0.6)
    return X.astype(np.float32).astype(np.float64), np.where(X[:, 0] > 0, 1.0, -1.0)


@pytest.mark.parametrize("more", [{}, {"l2": 0.3, "domain": L1Ball(0.4)}, {"batch": 50, "release": 7}], ids=str)
def test_the_same_bits(more):
    """Chunks, layouts, element types and instruction levels."""
    X, y = single_rows()
    wide = np.empty((len(X), 26))
    wide[:, ::2] = X
    expected = fingerprint(make(**more).partial_fit(X, y, classes=[-1, 1]))
    assert expected[1][2] > 0
    before = _noise.instruction_set()
    try:
        for level in _noise.instruction_sets():
            _noise.use_instruction_set(level)
            for block in (X, X.astype(np.float32), wide[:, ::2], sparse.csr_matrix(X)):
                assert fingerprint(make(**more).partial_fit(block, y, classes=[-1, 1])) == expected
    finally:
        _noise.use_instruction_set(before)
    for cuts in ([0, 1, 2, 100, 199], [0, 3, 6, 77, 78, 199], [*range(200)]):
        learner = make(**more)
        for start, stop in itertools.pairwise(cuts):
            learner.partial_fit(X[start:stop], y[start:stop], classes=[-1, 1])
        assert fingerprint(learner) == expected
    learner = make(**more).declare_classes([-1, 1])
    for row, target in zip(X, y, strict=True):
        learner.learn_one(row, target)
    assert fingerprint(learner) == expected


@pytest.mark.parametrize("at", [1, 2, 3, 50, 148, 198])
def test_saved_and_restored_anywhere(at):
    X, y = single_rows()
    whole = make().partial_fit(X, y, classes=[-1, 1])
    first = make().partial_fit(X[:at], y[:at], classes=[-1, 1])
    arrays = first._run.state.secret_arrays()
    second = make()
    state, _, _ = second._open_run(13, 200, "all")
    state.restore(arrays)
    state.learn(X[at:], y[at:])
    found = state.secret_arrays()
    expected = whole._run.state.secret_arrays()
    assert all(np.array_equal(found[name], expected[name]) for name in expected)
    with pytest.raises(StateError, match="fresh"):
        state.restore(arrays)
    fresh, _, _ = second._open_run(13, 200, "all")
    with pytest.raises(StateError, match="sum has shape"):
        fresh.restore({**arrays, "sum": np.zeros(3)})
    assert fresh.n_rows == 0


def test_what_is_released_is_regenerated():
    """The noise of every step, from the key and the row that ended the step."""
    X, y = data("logistic", n=30)
    learner = NOGD(epsilon=2.0, horizon=30, batch=4, random_state=6, radius=1e6, l2=1.0)
    learner.partial_fit(X[:3], y[:3], classes=[-1.0, 1.0])
    total = learner._run.state._secret_sum()
    assert not learner.ask().any()
    rows = np.append(X[3] / max(1.0, np.linalg.norm(X[3])), 1.0)
    total = total - y[3] * 0.5 * rows  # the logistic slope at the origin
    learner.learn_one(X[3], y[3])
    sigma = learner._run.plan.sigma
    noisy = make_source(6).add(total, sigma, stream=STREAM_RELEASES, row=4, decide=decide_lattice_point)
    np.testing.assert_allclose(learner.ask(), -noisy / 4, rtol=1e-12)


# ---- ask and tell ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 4])
def test_gradients_given_by_tell_are_learnt(batch):
    """A quadratic of the caller's own, with some gradients beyond the bound."""
    learner = NOGD(epsilon=20.0, horizon=N, gradient_bound=0.5, batch=batch, random_state=2, l2=0.2, radius=3.0)
    point = learner.ask(D)
    assert point.shape == (D + 1,)
    assert not point.any()
    run = learner._run
    twin = gradient_twin_of(learner, run.plan, bytes(run.state.secret_arrays()["key"]), D + 1)
    rng = np.random.default_rng(1)
    for _ in range(N):
        gradient = learner.ask() - rng.normal(size=D + 1)
        assert learner.tell(gradient=gradient) is learner
        twin.tell(gradient)
        assert close(learner.ask(), twin.x)
    with pytest.raises(BudgetExceeded):
        learner.tell(gradient=gradient)
    assert learner.n_rows_ == learner.n_releases_ == N
    assert run.plan.sum_sensitivity == pytest.approx(1.0, rel=1e-9)
    with pytest.raises(StateError, match="without labels"):
        learner.predict(np.ones((1, D)))
    with pytest.raises(StateError, match="without labels"):
        learner.learn_one(np.ones(D), 1.0)
    with pytest.raises(StateError, match="without labels"):
        learner.partial_fit(np.ones((1, D)), [1.0], classes=[-1.0, 1.0])


def test_rows_and_told_gradients_in_one_run():
    X, y = data("logistic")
    one, two = (
        NOGD(horizon=N, gradient_bound=5.0, random_state=2, fit_intercept=False).declare_classes([-1.0, 1.0])
        for _ in range(2)
    )
    assert np.array_equal(one.ask(D), two.ask(D))
    for i in range(N):
        one.learn_one(X[i], y[i])
        v = X[i] * min(1.0, 1.0 / np.linalg.norm(X[i]))
        two.tell(gradient=-y[i] * v / (1.0 + np.exp(y[i] * (v @ two.ask()))))
        assert close(two.ask(), one.ask())


def test_bad_gradients():
    learner = NOGD(horizon=5, gradient_bound=1.0, random_state=0)
    with pytest.raises(StateError, match="comes before"):
        learner.tell(gradient=[1.0, 2.0])
    with pytest.raises(InvalidParameter, match="n_features"):
        learner.ask()
    learner.ask(1)
    for bad, match in (
        ([1.0], "shape"),
        ([[1.0, 2.0]], "one dimension"),
        ([1.0, math.nan], "coordinate 1"),
        ([math.inf, 0.0], "coordinate 0"),
        ([1e200, 0.0], "coordinate 0"),
    ):
        with pytest.raises(InvalidParameter, match=match):
            learner.tell(gradient=bad)
    assert learner.n_rows_ == 0
    assert learner.ledger_.spent.mu == 0.0
    with pytest.raises(InvalidParameter, match="gradient_bound must be given"):
        NOGD(horizon=5).tell(gradient=[1.0])
    lenient = NOGD(horizon=5, gradient_bound=1.0, on_invalid="zero", random_state=0)
    lenient.ask(1)
    lenient.tell(gradient=[math.nan, 1.0])
    assert lenient._run.state.raw_counts()["null_rows"] == 1
    assert lenient.n_rows_ == 1
    lenient.close()
    with pytest.raises(StateError, match="closed"):
        lenient.tell(gradient=[0.0, 1.0])


# ---- the life of a run ------------------------------------------------------------------------------------


def test_close_before_the_horizon_shows_the_last_point():
    X, y = data("logistic")
    learner = NOGD(horizon=N, release="last", random_state=3).partial_fit(X[:9], y[:9], classes=[-1.0, 1.0])
    assert learner.n_releases_ == 0
    point = learner.ask()
    learner.close()
    assert learner.n_releases_ == 1
    assert np.array_equal(model_of(learner), point)
    assert np.array_equal(average_of(learner), point)


def test_exports(tmp_path):
    X, y = data("logistic")
    learner = NOGD(batch=3, l2=0.2, gradient_bound=0.7, random_state=3).fit(X, y)
    save_model(learner, tmp_path / "model")
    for other in (pickle.loads(pickle.dumps(learner)), load_model(tmp_path / "model")):
        assert isinstance(other, NOGD)
        assert np.array_equal(model_of(other), model_of(learner))
        assert np.array_equal(other.predict(X), learner.predict(X))
        assert other.guarantee_ == learner.guarantee_
        assert (other.batch, other.l2, other.gradient_bound) == (3, 0.2, 0.7)
    assert "all points of the run are public" in learner.guarantee_.sentence()


def test_closed_runs_hold_no_secret():
    X, y = data("logistic")
    learner = NOGD(horizon=N, batch=30, random_state=3).partial_fit(X[:9], y[:9], classes=[-1.0, 1.0])
    assert learner._run.state._secret_sum().any()
    learner.close()
    assert not learner._run.state._secret_sum().any()
    with pytest.raises(StateError, match="closed"):
        learner._run.state.secret_arrays()


@pytest.mark.parametrize(
    ("more", "match"),
    [({"l2": -1.0}, "l2"), ({"l2": 1e-40}, "l2 must be 0 or"), ({"batch": 0}, "batch"), ({"batch": 1 << 21}, "batch"),
     ({"batch": 1.5}, "batch"), ({"gradient_bound": 0.0}, "gradient_bound"), ({"gradient_bound": math.nan}, "gradient"),
     ({"epsilon": -1.0}, "epsilon"), ({"delta": 1.0}, "delta"), ({"x_bound": 0.0}, "x_bound"),
     ({"domain": 3}, "domain"), ({"adjacency": "both"}, "adjacency"), ({"release": 0}, "release"),
     ({"on_invalid": "drop"}, "on_invalid"), ({"epsilon": 1e-150, "delta": 1e-300}, "too far apart|epsilon"),
     ({"loss": "log"}, "loss")],
)  # fmt: skip
def test_bad_parameters(more, match):
    X, y = data("logistic")
    learner = NOGD(**more)
    with pytest.raises(InvalidParameter, match=match):
        learner.fit(X, y)
    assert "_run" not in vars(learner)


def test_bad_rows_change_nothing():
    X, y = data("logistic")
    learner = NOGD(horizon=N, random_state=3).partial_fit(X[:9], y[:9], classes=[-1.0, 1.0])
    before = fingerprint(learner)
    X[20, 1] = np.nan
    with pytest.raises(InvalidRow, match="row 21"):
        learner.partial_fit(X[9:], y[9:])
    with pytest.raises(BudgetExceeded):
        learner.partial_fit(X[:9].repeat(9, axis=0), y[:9].repeat(9))
    assert fingerprint(learner) == before


# ---- sensitivity ------------------------------------------------------------------------------------------


def sums(learner, X, y, null=None):
    """The sum of the first step's gradients, before its noise, at the point reached by earlier steps."""
    state, plan, _ = learner._open_run(X.shape[1], 10 * len(X), "all")
    state.learn(X, np.where(np.arange(len(y)) == null, np.nan, y))
    return state._secret_sum(), plan


@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
@pytest.mark.parametrize(
    ("more", "least"),
    [({"loss": "logistic"}, 0.49), ({"loss": "hinge"}, 0.999), ({"loss": "absolute"}, 0.999),
     ({"loss": "squared", "y_bound": 2.0, "radius": 0.1}, 0.9), ({"loss": Huber(width=0.5)}, 0.999),
     ({"loss": "squared", "gradient_bound": 0.3}, 0.999), ({"loss": "hinge", "x_bound": 0.2}, 0.999)],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("batch", [2, 50])
def test_sensitivity_by_brute_force(more, least, adjacency, batch):
    """Pairs of rows on a grid of directions and targets: never over the bound, and close to it where it is attained.

    The sums are taken at the starting point, where the logistic slope is half its bound.
    """
    learner = NOGD(**{"epsilon": math.inf, "fit_intercept": False, "batch": batch, "adjacency": adjacency} | more)
    x_bound, y_bound = learner.x_bound, learner.y_bound
    targets = [-1.0, 1.0] if labels_of(learner) else [-y_bound, 0.0, 0.3 * y_bound, y_bound]
    angles = np.linspace(0, 2 * np.pi, 12, endpoint=False)
    candidates = [
        (size * x_bound * np.array([np.cos(a), np.sin(a)]), t) for a in angles for size in (0.4, 1.0, 30.0)
        for t in targets
    ]  # fmt: skip
    rng = np.random.default_rng(0)
    rest = rng.normal(size=(batch - 2, 2)) * 3
    rest_y = rng.choice(targets, size=batch - 2)

    def total(row, target, null=None):
        return sums(learner, np.vstack([rest, row]), np.append(rest_y, target), null)

    found = np.array([total(row, target)[0] for row, target in candidates])
    nothing, plan = total(*candidates[0], null=batch - 2)
    if adjacency == "replace":
        distances = np.linalg.norm(found[:, None] - found[None, :], axis=2)
    else:
        distances = np.linalg.norm(found - nothing, axis=1)
    assert distances.max() <= plan.sum_sensitivity
    assert distances.max() >= least * plan.sum_sensitivity


def test_the_sensitivity_of_a_step_does_not_grow_with_its_rows():
    one, many = (NOGD(batch=batch).calibrate(54, 10**6) for batch in (1, 10**5))
    assert one.sum_sensitivity < many.sum_sensitivity <= one.sum_sensitivity * (1 + 1e-5)
    assert one.sigma == pytest.approx(one.sum_sensitivity / gdp_mu(1.0, 1e-6), rel=1e-9)
    assert NOGD().calibrate(54, 10).sigma == one.sigma, "no factor of the horizon"


# ---- the noise itself ---------------------------------------------------------------------------------------


def noises(factor=1.0, rows=4000, dim=5):
    """The perturbations of the steps of one run, in units of the calibrated sigma."""
    learner = NOGD(epsilon=1.0, horizon=rows, l2=1.0, radius=1e9, fit_intercept=False, random_state=8)
    plan = learner.calibrate(dim, rows)
    state = learner.build(replace(plan, sigma=plan.sigma * factor), make_source(8))
    found, before, zero = [], state.point(), np.zeros((1, dim))
    for j in range(1, rows + 1):
        state.learn(zero, np.ones(1))  # a row whose gradient is 0
        after = state.point()
        found.append((j - 1) * before - j * after)
        before = after
    return np.array(found) / plan.sigma


def test_the_scale_of_the_noise():
    """The chi-square of 20,000 coordinates; two thirds of the noise is rejected."""
    limit = rate("gradients.scale") / 2
    for factor, good in ((1.0, True), (2 / 3, False)):
        found = noises(factor)
        square, n = float(np.sum(found**2)), found.size
        assert (chi2.ppf(limit, n) <= square <= chi2.ppf(1 - limit, n)) == good


@pytest.mark.parametrize(("l2", "least"), [(0.5, 1.0), (0.0, 0.9)])
def test_plans_say_how_noisy_the_points_are(l2, least):
    """The noise in the point after 100 rows, 4 per step, of 3,000 coordinates without projection."""
    words = {"l2": l2, "batch": 4, "radius": 1e6, "fit_intercept": False, "epsilon": 2.0}
    found = privol.plan("nogd", n_features=3000, horizon=100, **words).rows[-1]
    learner = NOGD(horizon=100, random_state=5, **words)
    plan = learner.calibrate(3000, 100)
    shorter = 1.0 if l2 else 1e-3  # by default the first step's noise is as long as the set is wide
    state = learner.build(replace(plan, length=plan.length * shorter), make_source(5))
    state.learn(np.zeros((100, 3000)), np.ones(100))
    ratio = float(np.sum(state.point() ** 2)) / (found.std * shorter) ** 2
    limit = rate("gradients.plan") / 2
    assert least * chi2.ppf(limit, 3000) <= ratio <= chi2.ppf(1 - limit, 3000)
    assert found.std == plan.std(100) > plan.std(3) == 0.0
    assert found.sensitivity == plan.step_length(25) * plan.sum_sensitivity / 4


@pytest.mark.parametrize("learner", [NOGD, DPFTRL])
@pytest.mark.parametrize("length", [1e-170, 1.4e-162, 2e-162, 1e-155, 1e-150, 1e-140, 1e-100])
def test_no_row_is_too_short_for_the_bound(learner, length):
    """Where a row's squared norm underflows, no slope makes its gradient longer than the bound."""
    steep = Custom(value=lambda p, y: 1e200 * p, gradient=lambda p, y: 1e200, lipschitz=1e200, smoothness=0.0)
    words = {"loss": steep, "gradient_bound": 1.0, "fit_intercept": False, "epsilon": 1.0, "horizon": 1}
    run = learner(random_state=1, **words).partial_fit([[length, 0.0]], [1], classes=[-1, 1])._run
    none = learner(random_state=1, on_invalid="zero", **words).partial_fit([[np.nan, 0.0]], [1], classes=[-1, 1])._run
    step = run.plan.step_length(1) if learner is NOGD else 1.0 / run.plan.regularization
    assert np.linalg.norm(run.state.point() - none.state.point()) <= step * (1.0 + 1e-9)
