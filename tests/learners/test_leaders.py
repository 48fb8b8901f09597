"""DPFTRL: its NumPy twin, forms of rows, restoring, the life of a run."""

from __future__ import annotations

import itertools
import math
import pickle

import numpy as np
import pytest
from leader_tools import begin, check, fingerprint, single_rows
from learner_tools import average_of, close, data, model_of
from scipy import sparse
from twins_leaders import leader_twin_of

from privol import DPFTRL
from privol._core import _noise
from privol.errors import BudgetExceeded, InvalidParameter, InvalidRow, StateError
from privol.factorizations import DESIGNS
from privol.geometry import Box, L1Ball, Simplex
from privol.losses import Custom, Huber
from privol.state import load_model, save_model

D, N = 3, 40
LOSSES = ["logistic", "hinge", "smooth_hinge", "squared", "absolute", "huber"]


# ---- the twin ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(("radius", "l2"), [(0.3, 0.0), (40.0, 0.0), (0.3, 0.5), (40.0, 0.5)])
@pytest.mark.parametrize("loss", LOSSES)
def test_twin(loss, radius, l2, intercept):
    X, y = data(loss)
    learner = DPFTRL(
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


@pytest.mark.parametrize("batch", [1, 2, 7, N, 1000])
@pytest.mark.parametrize("design", DESIGNS)
def test_designs_and_leaves(design, batch):
    """The horizon ends a partial leaf."""
    X, y = data("logistic", seed=3)
    learner = DPFTRL(
        epsilon=9.0,
        horizon=N,
        design=design,
        batch=batch,
        regularization=2.0,
        random_state=1,
        radius=2.0,
        adjacency="zero_out",
    )
    twin = check(learner, X, y)
    assert len(twin.sums.leaves) == -(-N // batch)


@pytest.mark.parametrize("objective", ["max", "mean"])
@pytest.mark.parametrize("buffers", [1, 2, 6])
def test_buffers(buffers, objective):
    X, y = data("hinge", seed=4)
    learner = DPFTRL(loss="hinge", horizon=N, buffers=buffers, objective=objective, random_state=1)
    check(learner, X, y)
    assert len(learner._run.plan.sums.factorization.theta) <= buffers


@pytest.mark.parametrize("domain", [L1Ball(0.2), Box(-0.1, 0.15), Box(0.1, 0.3), Simplex(0.7)], ids=str)
@pytest.mark.parametrize("loss", ["logistic", "squared", "absolute"])
def test_other_sets(loss, domain):
    """Sets without the point 0 have another starting point, around which the objective is centred."""
    X, y = data(loss, seed=2)
    learner = DPFTRL(
        loss=loss,
        epsilon=300.0,
        horizon=N,
        domain=domain,
        l2=0.1,
        release=[1, 2, 7, N],
        random_state=7,
        regularization=50.0,
    )
    check(learner, X, y, same=close)


@pytest.mark.parametrize("release", [None, "last", 3, [5, 7, 8]])
@pytest.mark.parametrize("batch", [1, 4])
def test_the_schedule_does_not_change_the_points(batch, release):
    """Gradients are taken at the current point, whether or not it counts as released."""
    X, y = data("logistic", seed=3)
    learner = DPFTRL(epsilon=9.0, horizon=N, batch=batch, release=release, random_state=1, radius=2.0)
    check(learner, X, y)
    every = DPFTRL(epsilon=9.0, horizon=N, batch=batch, random_state=1, radius=2.0)
    assert np.array_equal(learner.ask(), every.partial_fit(X, y, classes=[-1.0, 1.0]).ask())


def test_null_rows_and_bounds_of_gradients():
    X, y = data("squared", seed=8)
    X[3, 1], X[10, 0], y[20] = np.nan, np.inf, np.nan
    learner = DPFTRL(
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


@pytest.mark.parametrize("design", DESIGNS)
def test_no_noise(design):
    X, y = data("huber", seed=8)
    learner = DPFTRL(loss="huber", epsilon=math.inf, horizon=N, batch=3, radius=9.0, design=design)
    check(learner, X, y, same=close)
    assert learner.guarantee_.kind == "none"


def test_without_noise_the_gradients_add_up():
    """The sums of B C w are those of w, whatever the design."""
    X, y = data("hinge", n=100, seed=9)
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    for design in DESIGNS:
        learner = DPFTRL(
            loss="hinge",
            epsilon=math.inf,
            horizon=100,
            radius=1e9,
            design=design,
            regularization=1e6,
            fit_intercept=False,
        )
        learner.partial_fit(X, y, classes=[-1.0, 1.0])  # points stay close to 0, where every slope is -y
        np.testing.assert_allclose(learner.ask() * 1e6, y @ X, rtol=1e-9)


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
    made = [
        DPFTRL(loss=loss, epsilon=math.inf, batch=2, regularization=3.0, gradient_bound=3.0).fit(X, y)
        for loss in (custom, "huber")
    ]
    assert np.array_equal(made[0].coef_, made[1].coef_)
    assert "vouches" in DPFTRL(loss=custom, epsilon=1.0).fit(X, y).guarantee_.sentence()


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
    learner = DPFTRL(loss=custom, epsilon=5.0, horizon=N, batch=4, random_state=2, release=6)
    learner.partial_fit(X[:10], y[:10])
    before = learner._run.state.secret_arrays()
    left = 17
    with pytest.raises(RuntimeError, match="no more"):
        learner.partial_fit(X[10:], y[10:])
    after = learner._run.state.secret_arrays()
    assert all(np.array_equal(before[name], after[name]) for name in before)
    learner.partial_fit(X[10:], y[10:])
    whole = DPFTRL(loss="absolute", epsilon=5.0, horizon=N, batch=4, random_state=2, release=6).partial_fit(X, y)
    assert np.array_equal(learner.coef_, whole.coef_)


# ---- in whatever form rows arrive -----------------------------------------------------------------------------


def make(**more):
    return DPFTRL(**{"epsilon": 6.0, "horizon": 200, "batch": 3, "random_state": 3, "radius": 0.5} | more)


@pytest.mark.parametrize(
    "more",
    [{}, {"l2": 0.3, "domain": L1Ball(0.4), "batch": 1}, {"batch": 50, "release": 7},
     *({"design": design} for design in DESIGNS if design != "blt")],
    ids=str,
)  # fmt: skip
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


def test_square_root_sums_of_many_rows():
    """From 1024 steps on, earlier blocks enter through Fourier transforms, also after a restart."""
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(5000, 2)), rng.choice([-1.0, 1.0], size=5000)

    def fresh():
        words = {"horizon": 5000, "regularization": 1e6, "radius": 1e9, "fit_intercept": False}
        return DPFTRL(loss="hinge", design="sqrt", random_state=1, **words)

    whole = fresh().partial_fit(X, y, classes=[-1.0, 1.0])
    first = fresh().partial_fit(X[:3000], y[:3000], classes=[-1.0, 1.0])
    state, plan, _ = fresh()._open_run(2, 5000, "all")
    state.restore(first._run.state.secret_arrays())
    state.learn(X[3000:], y[3000:])
    assert np.array_equal(state.point(), whole.ask())
    rows = X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    noise = -1e6 * state.point() - rows.T @ -y  # points stay close to 0, where every slope is -y
    assert np.all(np.abs(noise) < 6 * plan.sums.std(5000))
    assert np.any(np.abs(noise) > 0.01 * plan.sums.std(5000))


@pytest.mark.parametrize("at", [1, 2, 3, 50, 148, 198])
@pytest.mark.parametrize("design", DESIGNS)
def test_saved_and_restored_anywhere(design, at):
    X, y = single_rows()
    whole = make(design=design).partial_fit(X, y, classes=[-1, 1])
    first = make(design=design).partial_fit(X[:at], y[:at], classes=[-1, 1])
    arrays = first._run.state.secret_arrays()
    second = make(design=design)
    state, _, _ = second._open_run(13, 200, "all")
    state.restore(arrays)
    state.learn(X[at:], y[at:])
    found = state.secret_arrays()
    expected = whole._run.state.secret_arrays()
    assert all(np.array_equal(found[name], expected[name]) for name in expected)
    with pytest.raises(StateError, match="fresh"):
        state.restore(arrays)
    fresh, _, _ = second._open_run(13, 200, "all")
    for name in ("point", "sums", "sums_counts"):
        with pytest.raises(StateError, match=f"{name} has shape"):
            fresh.restore({**arrays, name: np.zeros(3)})
    assert fresh.n_rows == 0


# ---- ask and tell ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("design", ["blt", "tree"])
def test_gradients_given_by_tell_are_learnt(design, batch):
    """A quadratic of the caller's own, with some gradients beyond the bound."""
    learner = DPFTRL(
        epsilon=20.0, horizon=N, gradient_bound=0.5, batch=batch, random_state=2, l2=0.2, radius=3.0, design=design
    )
    point = learner.ask(D)
    assert point.shape == (D + 1,)
    assert not point.any()
    run = learner._run
    twin = leader_twin_of(learner, run.plan, bytes(run.state.secret_arrays()["key"]), D + 1)
    rng = np.random.default_rng(1)
    for _ in range(N):
        gradient = learner.ask() - rng.normal(size=D + 1)
        assert learner.tell(gradient=gradient) is learner
        twin.tell(gradient)
        assert np.array_equal(learner.ask(), twin.x)
    with pytest.raises(BudgetExceeded):
        learner.tell(gradient=gradient)
    assert learner.n_rows_ == learner.n_releases_ == N
    assert run.plan.sums.sensitivity == pytest.approx(1.0, rel=1e-9)
    with pytest.raises(StateError, match="without labels"):
        learner.predict(np.ones((1, D)))


def test_rows_and_told_gradients_in_one_run():
    X, y = data("logistic")
    one, two = (
        DPFTRL(horizon=N, gradient_bound=5.0, random_state=2, fit_intercept=False).declare_classes([-1.0, 1.0])
        for _ in range(2)
    )
    assert np.array_equal(one.ask(D), two.ask(D))
    for i in range(N):
        one.learn_one(X[i], y[i])
        v = X[i] * min(1.0, 1.0 / np.linalg.norm(X[i]))
        two.tell(gradient=-y[i] * v / (1.0 + np.exp(y[i] * (v @ two.ask()))))
        assert np.array_equal(two.ask(), one.ask())


def test_bad_gradients():
    learner = DPFTRL(horizon=5, gradient_bound=1.0, random_state=0)
    with pytest.raises(StateError, match="comes before"):
        learner.tell(gradient=[1.0, 2.0])
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
        DPFTRL(horizon=5).tell(gradient=[1.0])
    lenient = DPFTRL(horizon=5, gradient_bound=1.0, on_invalid="zero", random_state=0)
    lenient.ask(1)
    lenient.tell(gradient=[math.nan, 1.0])
    assert lenient._run.state.raw_counts()["null_rows"] == 1
    lenient.close()
    with pytest.raises(StateError, match="closed"):
        lenient.tell(gradient=[0.0, 1.0])


# ---- the life of a run ------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 4, 30])
@pytest.mark.parametrize("design", DESIGNS)
def test_close_before_the_horizon_ends_the_leaf_and_shows_the_last_point(design, batch):
    X, y = data("logistic")
    learner = DPFTRL(horizon=N, release="last", batch=batch, design=design, random_state=3)
    twin = begin(learner, X, y)
    learner.partial_fit(X[1:9], y[1:9])
    for i in range(1, 9):
        twin.learn(X[i], y[i])
    assert learner.n_releases_ == 0
    plan = learner._run.plan
    learner.close()
    twin.end()
    assert learner.n_releases_ == 1
    assert np.array_equal(model_of(learner), twin.x)
    assert np.array_equal(average_of(learner), twin.x)
    assert plan.last_std(9) == pytest.approx(
        plan.sums.sigma * plan.sums.factorization.row_norm(-(-9 // batch)) / plan.regularization
    )


def test_exports(tmp_path):
    X, y = data("logistic")
    learner = DPFTRL(batch=3, l2=0.2, gradient_bound=0.7, design="honaker", regularization=2.5, random_state=3)
    learner.fit(X, y)
    save_model(learner, tmp_path / "model")
    for other in (pickle.loads(pickle.dumps(learner)), load_model(tmp_path / "model")):
        assert isinstance(other, DPFTRL)
        assert np.array_equal(model_of(other), model_of(learner))
        assert np.array_equal(other.predict(X), learner.predict(X))
        assert other.guarantee_ == learner.guarantee_
        assert (other.batch, other.design, other.regularization, other.l2) == (3, "honaker", 2.5, 0.2)
    assert "all points of the run are public" in learner.guarantee_.sentence()


def test_closed_runs_hold_no_secret():
    X, y = data("logistic")
    learner = DPFTRL(horizon=N, batch=30, random_state=3).partial_fit(X[:9], y[:9], classes=[-1.0, 1.0])
    assert learner._run.state._secret_gradient().any()
    learner.close()
    assert not learner._run.state._secret_gradient().any()
    with pytest.raises(StateError, match="closed"):
        learner._run.state.secret_arrays()


def test_one_row_and_two():
    X, y = data("logistic", n=2)
    for n, design in itertools.product((1, 2), DESIGNS):
        learner = DPFTRL(horizon=n, design=design, random_state=3)
        check(learner, X[:n], y[:n])


@pytest.mark.parametrize(
    ("more", "match"),
    [({"l2": -1.0}, "l2"), ({"l2": 1e-40}, "l2 must be 0 or"), ({"batch": 0}, "batch"), ({"batch": 1 << 21}, "batch"),
     ({"batch": 1.5}, "batch"), ({"gradient_bound": 0.0}, "gradient_bound"), ({"gradient_bound": math.nan}, "gradient"),
     ({"regularization": 0.0}, "regularization must be"), ({"regularization": -1.0}, "regularization"),
     ({"regularization": 1e-31, "l2": 1.0}, "regularization must be"), ({"design": "oak"}, "design"),
     ({"buffers": 0}, "buffers"), ({"buffers": 9}, "buffers"), ({"objective": "median"}, "objective"),
     ({"epsilon": -1.0}, "epsilon"), ({"delta": 1.0}, "delta"), ({"x_bound": 0.0}, "x_bound"),
     ({"domain": 3}, "domain"), ({"adjacency": "both"}, "adjacency"), ({"release": 0}, "release"),
     ({"on_invalid": "drop"}, "on_invalid"), ({"loss": "log"}, "loss"),
     ({"epsilon": 1e-150, "delta": 1e-300, "regularization": 1.0}, "too far apart"),
      ({"design": "sqrt", "horizon": 1 << 27}, "design='blt'")],
)  # fmt: skip
def test_bad_parameters(more, match):
    X, y = data("logistic")
    learner = DPFTRL(**more)
    with pytest.raises(InvalidParameter, match=match):
        learner.fit(X, y)
    assert "_run" not in vars(learner)


def test_without_a_centre_of_its_own():
    """regularization = 0: follow the leader on the strongly convex losses."""
    X, y = data("logistic")
    check(DPFTRL(horizon=N, l2=0.5, regularization=0.0, radius=30.0, epsilon=50.0, random_state=2), X, y)


def test_bad_rows_change_nothing():
    X, y = data("logistic")
    learner = DPFTRL(horizon=N, random_state=3).partial_fit(X[:9], y[:9], classes=[-1.0, 1.0])
    before = fingerprint(learner)
    X[20, 1] = np.nan
    with pytest.raises(InvalidRow, match="row 21"):
        learner.partial_fit(X[9:], y[9:])
    with pytest.raises(BudgetExceeded):
        learner.partial_fit(X[:9].repeat(9, axis=0), y[:9].repeat(9))
    assert fingerprint(learner) == before
