"""DPFTRL with a score for each class: twin, effect of one row, noise, forms of rows, the estimator."""

from __future__ import annotations

import itertools
import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
from alpha import rate
from class_tools import LABELS, check_classes
from leader_tools import encoder, released
from scipy import sparse
from scipy.stats import chi2
from twins_classes import class_twin_of

from privol import DPFTRL, NOGD, PGIGA, PIGD, PQFTL, plan
from privol._core import _noise
from privol._core._learner_run import Progress
from privol.errors import BudgetExceeded, InvalidParameter, InvalidRow, StateError
from privol.factorizations import DESIGNS
from privol.geometry import Box, L1Ball, L2Ball
from privol.losses import Custom, class_losses, class_slope_bound, get_loss
from privol.noise import make_source
from privol.state import load_model, save_model

pytestmark = pytest.mark.statistical

D, N = 3, 40
LOSSES = ["softmax", "logistic", "hinge", "smooth_hinge"]


def data(n=N, classes=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D))
    y = (X @ rng.normal(size=(D, classes)) + rng.normal(size=(n, classes))).argmax(axis=1)
    y[:classes] = np.arange(classes)
    return X, np.array(LABELS[:classes] if classes <= 4 else [f"c{k:02}" for k in range(classes)])[y], y


# ---- the twin ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [None, {"ash": 2.0, "cedar": 0.25}])
@pytest.mark.parametrize(("radius", "intercept"), [(0.3, True), (40.0, True), (40.0, False)])
@pytest.mark.parametrize("loss", LOSSES)
def test_twin(loss, radius, intercept, weights):
    learner = DPFTRL(
        loss=loss,
        epsilon=60.0,
        delta=1e-3,
        horizon=N,
        radius=radius,
        fit_intercept=intercept,
        x_bound=0.9,
        class_weight=weights,
        l2=0.1,
        random_state=5,
    )
    twin = check_classes(learner, *data())
    assert twin.outputs == 4
    coef = twin.released[-1].reshape(4, -1)
    assert np.array_equal(learner.coef_, coef[:, :D])
    assert np.array_equal(learner.intercept_, coef[:, D] if intercept else np.zeros(4))


@pytest.mark.parametrize("classes", [2, 3, 11])
def test_any_number_of_classes(classes):
    learner = DPFTRL(loss="softmax", epsilon=50.0, horizon=N, radius=9.0, random_state=1, regularization=3.0)
    assert check_classes(learner, *data(classes=classes)).outputs == classes


@pytest.mark.parametrize("weights", [{"ash": 3.0}, {"birch": 0.5, "ash": 0.125}])
@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_weights_of_two_classes(loss, weights):
    """The released numbers are those of a single score."""
    learner = DPFTRL(loss=loss, epsilon=50.0, horizon=N, radius=9.0, class_weight=weights, random_state=1)
    assert check_classes(learner, *data(classes=2)).outputs == 1
    one = DPFTRL(loss=loss, epsilon=50.0, radius=9.0).calibrate(D, N)
    most = 3.0 if "birch" not in weights else 0.5
    assert learner._run.plan.bound == pytest.approx(most * one.bound, rel=1e-12)
    assert learner._run.plan.sums.sensitivity == pytest.approx(most * one.sums.sensitivity, rel=1e-12)


@pytest.mark.parametrize("batch", [1, 7])
@pytest.mark.parametrize("design", DESIGNS)
def test_designs_and_leaves(design, batch):
    learner = DPFTRL(
        loss="softmax",
        epsilon=9.0,
        horizon=N,
        design=design,
        batch=batch,
        random_state=1,
        adjacency="zero_out",
        gradient_bound=0.5,
        radius=4.0,
        release=3,
    )
    check_classes(learner, *data(seed=3))


def test_null_rows():
    X, labels, _ = data(seed=8)
    X[3, 1] = np.nan
    labels = labels.astype(object)
    labels[9] = "larch"
    learner = DPFTRL(loss="softmax", epsilon=30.0, horizon=N, batch=3, on_invalid="zero", random_state=4, radius=9.0)
    learner.declare_classes(LABELS)
    clean = DPFTRL(loss="softmax", epsilon=30.0, horizon=N, batch=3, on_invalid="zero", random_state=4, radius=9.0)
    learner.partial_fit(X, labels)
    assert learner._run.state.raw_counts()["null_rows"] == 2
    zeroed = np.array(labels, dtype=object)
    zeroed[[3, 9]] = None
    again = clean.partial_fit(X, zeroed, classes=LABELS)
    assert np.array_equal(learner.coef_, again.coef_)


def test_a_loss_of_the_users_own():
    X, labels, _ = data(seed=2)
    logistic = get_loss("logistic")
    custom = Custom(
        value=lambda p, y: float(logistic.value(p, y)),
        gradient=lambda p, y: float(logistic.gradient(p, y)),
        lipschitz=1.0,
        smoothness=0.25,
        name="mine",
    )
    made = [
        DPFTRL(loss=loss, epsilon=20.0, regularization=3.0, gradient_bound=3.0, random_state=3).fit(X, labels)
        for loss in (custom, "logistic")
    ]
    assert np.array_equal(made[0].coef_, made[1].coef_)
    assert "vouches" in made[0].guarantee_.sentence()
    left = math.inf

    def failing(p, target):
        nonlocal left
        left -= 1
        if left == 0:
            raise RuntimeError("no more")
        return float(logistic.gradient(p, target))

    custom = Custom(value=lambda p, y: float(logistic.value(p, y)), gradient=failing, lipschitz=1.0, smoothness=0.25,
                    name="mine")  # fmt: skip
    learner = DPFTRL(loss=custom, epsilon=5.0, horizon=N, random_state=2).partial_fit(X[:9], labels[:9], classes=LABELS)
    before = learner._run.state.secret_arrays()
    left = 4 * 12 + 2  # in the middle of a row
    with pytest.raises(RuntimeError, match="no more"):
        learner.partial_fit(X[9:], labels[9:])
    after = learner._run.state.secret_arrays()
    assert all(np.array_equal(before[name], after[name]) for name in before)


# ---- the effect of one row ----------------------------------------------------------------------------------


def changes(learner, point, rows, classes=3):
    """What rows add to the sums at the only point that the set allows: one vector per row."""
    learner.set_params(domain=Box(point - 1e-12, point + 1e-12))
    state, _, _ = learner._open_run(2, len(rows), "all", np.arange(classes))
    found = []
    for row, own in rows:
        state.learn(row[None], np.array([float(own)]))
        found.append(state._secret_gradient())
    return np.array(found)


@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
@pytest.mark.parametrize("weights", [None, {0: 0.5, 1: 3.0}])
@pytest.mark.parametrize(
    ("loss", "radius", "within"),
    [("softmax", 300.0, 0.98), ("softmax", 1e-6, 0.98), ("softmax", 2.0, 0.7), ("logistic", 300.0, 0.97),
     ("logistic", 1e-6, 0.98), ("hinge", 2.0, 0.98), ("smooth_hinge", 1.5, 0.7)],
)  # fmt: skip
def test_a_row_changes_the_sums_by_no_more_than_the_sensitivity(loss, radius, within, weights, adjacency):
    """All pairs of many rows at the worst points known; small and large sets nearly attain the limits."""
    words = {"loss": loss, "fit_intercept": False, "adjacency": adjacency, "epsilon": math.inf, "regularization": 1.0,
             "class_weight": weights, "x_bound": 2.0}  # fmt: skip
    plan_ = DPFTRL(domain=L2Ball(radius), **words).calibrate(2, 10, n_classes=3)
    angles = [*np.linspace(0, 2 * np.pi, 24, endpoint=False), 0.5 * np.pi - 0.1, 0.5 * np.pi + 0.1, 1.5 * np.pi + 0.1]
    rows = [(s * np.array([math.cos(a), math.sin(a)]), k) for a in angles for s in (1.0, 2.0, 50.0) for k in range(3)]
    u = np.array([1.0, 0.0])
    steep = [sign * (np.ones(3) - 2 * np.eye(3)[k]) for k in range(3) for sign in (1.0, -1.0)]
    steep += [np.eye(3)[j] - np.eye(3)[k] for j, k in itertools.permutations(range(3), 2)]
    worst = longest = 0.0
    for direction in steep:
        point = radius * np.outer(direction / np.linalg.norm(direction), u).ravel()
        found = changes(DPFTRL(**words), point, rows)
        longest = max(longest, float(np.linalg.norm(found, axis=1).max()))
        far = np.linalg.norm(found[:, None] - found[None], axis=2) if adjacency == "replace" else longest
        worst = max(worst, float(np.max(far)))
    assert longest <= plan_.bound * (1 + 1e-12)
    assert worst <= plan_.sums.sensitivity
    assert worst >= within * plan_.sums.sensitivity


def test_gradients_are_scaled_to_their_bound():
    rng = np.random.default_rng(0)
    rows = [(3 * rng.normal(size=2), k % 3) for k in range(60)]
    learner = DPFTRL(loss="softmax", epsilon=math.inf, gradient_bound=0.4, fit_intercept=False, regularization=1.0)
    point = rng.normal(size=6)
    free = changes(DPFTRL(loss="softmax", epsilon=math.inf, fit_intercept=False, regularization=1.0), point, rows)
    found = changes(learner, point, rows)
    norms = np.linalg.norm(free, axis=1)
    np.testing.assert_allclose(found, free * np.minimum(1.0, 0.4 / norms)[:, None], rtol=1e-10)
    assert norms.min() < 0.4 < norms.max()
    assert learner.calibrate(2, 9, n_classes=3).sums.sensitivity == pytest.approx(0.8, rel=1e-9)


@pytest.mark.parametrize("loss", ["softmax", "logistic"])
def test_the_calibration_is_that_of_the_bound(loss):
    """One vector of all coordinates: dim, sensitivity, noise."""
    made = DPFTRL(loss=loss, radius=3.0, x_bound=2.0, class_weight={"a": 4.0}).calibrate(10, 1000, n_classes=7)
    row = math.sqrt(5.0)
    assert made.bound == pytest.approx(4 * row * class_slope_bound(get_loss(loss), 7, 3 * row), rel=1e-6)
    assert made.sums.sensitivity == pytest.approx(2 * made.bound, rel=1e-9)
    assert made.sums.dim == 77
    one = DPFTRL(loss=loss, radius=3.0, x_bound=2.0).calibrate(10, 1000, n_classes=7)
    assert made.sums.sigma == pytest.approx(4 * one.sums.sigma, rel=1e-9)
    shy = DPFTRL(loss=loss, radius=3.0, x_bound=2.0, class_weight=dict.fromkeys(range(7), 0.5))
    assert shy.calibrate(10, 1000, n_classes=7).sums.sigma == pytest.approx(0.5 * one.sums.sigma, rel=1e-9)
    some = DPFTRL(loss=loss, radius=3.0, x_bound=2.0, class_weight=dict.fromkeys(range(6), 0.5))
    # a label without an explicit weight has weight 1
    assert some.calibrate(10, 1000, n_classes=7).sums.sigma == one.sums.sigma


# ---- the noise ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("design", ["blt", "independent"])
def test_the_scale_of_the_noise(design):
    """The chi-square of 6,000 coordinates of the matrix; two thirds of the noise is rejected."""
    rows, width, classes = 400, 5, 3
    learner = DPFTRL(loss="softmax", radius=1e9, fit_intercept=False, design=design, regularization=1.0)
    found_plan = learner.calibrate(width, rows, n_classes=classes)
    assert found_plan.sums.charged >= 2 * math.sqrt(2.0) * found_plan.sums.factorization.column_norm * (1 - 1e-9)
    limit = rate("classes.scale") / 4
    for factor, good in ((1.0, True), (2 / 3, False)):
        sums = replace(found_plan.sums, sigma=found_plan.sums.sigma * factor)
        noisy = replace(found_plan, epochs=replace(found_plan.epochs, sums=(sums,)))
        state = learner.build(noisy, make_source(8), np.arange(classes))
        encode = encoder(found_plan.sums.factorization)
        found = released(state, found_plan, np.zeros((rows, width)), np.zeros(rows), encode) / found_plan.sums.sigma
        square, n = float(np.sum(found**2)), found.size
        assert n == 6000
        assert (chi2.ppf(limit, n) <= square <= chi2.ppf(1 - limit, n)) == good


# ---- in whatever form rows arrive -----------------------------------------------------------------------------


def fingerprint(learner):
    arrays = learner._run.state.secret_arrays()
    return {name: value.tobytes() for name, value in arrays.items()}, learner._run.state.counters()


def make(**more):
    return DPFTRL(**{"epsilon": 6.0, "horizon": 200, "batch": 3, "random_state": 3, "radius": 2.0} | more)


def single_rows(n=199):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 13)) * (rng.random((n, 13)) < 0.6)
    return X.astype(np.float32).astype(np.float64), rng.integers(5, size=n)


@pytest.mark.parametrize(
    "more", [{"loss": "softmax"}, {"loss": "logistic", "domain": L1Ball(0.4)}, {"loss": "softmax", "design": "tree"}],
    ids=str,
)  # fmt: skip
def test_the_same_bits(more):
    """Chunks, layouts, element types and instruction levels."""
    X, y = single_rows()
    wide = np.empty((len(X), 26))
    wide[:, ::2] = X
    expected = fingerprint(make(**more).partial_fit(X, y, classes=range(5)))
    before = _noise.instruction_set()
    try:
        for level in _noise.instruction_sets():
            _noise.use_instruction_set(level)
            for block in (X, X.astype(np.float32), wide[:, ::2], sparse.csr_matrix(X)):
                assert fingerprint(make(**more).partial_fit(block, y, classes=range(5))) == expected
    finally:
        _noise.use_instruction_set(before)
    for cuts in ([0, 1, 2, 100, 199], [0, 3, 6, 77, 78, 199]):
        learner = make(**more)
        for start, stop in itertools.pairwise(cuts):
            learner.partial_fit(X[start:stop], y[start:stop], classes=range(5))
        assert fingerprint(learner) == expected
    learner = make(**more).declare_classes(range(5))
    for row, target in zip(X, y, strict=True):
        learner.learn_one(row, target)
    assert fingerprint(learner) == expected


@pytest.mark.parametrize("at", [1, 50, 198])
@pytest.mark.parametrize("design", ["blt", "smooth"])
def test_saved_and_restored_anywhere(design, at):
    X, y = single_rows()
    words = {"design": design, "loss": "softmax", "class_weight": {3: 2.0}}
    whole = make(**words).partial_fit(X, y, classes=range(5))
    first = make(**words).partial_fit(X[:at], y[:at], classes=range(5))
    state, _, _ = make(**words)._open_run(13, 200, "all", np.arange(5))
    state.restore(first._run.state.secret_arrays())
    state.learn(X[at:], y[at:].astype(float))
    found, expected = state.secret_arrays(), whole._run.state.secret_arrays()
    assert all(np.array_equal(found[name], expected[name]) for name in expected)
    other, _, _ = make(**words)._open_run(13, 200, "all", np.arange(4))
    with pytest.raises(StateError, match="has shape"):
        other.restore(first._run.state.secret_arrays())


@pytest.mark.parametrize("weights", [None, {0: 3.0, 2: 0.5}])
@pytest.mark.parametrize("loss", ["softmax", "logistic", "hinge"])
def test_progress(loss, weights):
    """Scores and weighted losses of the released model on each row before it is learnt; dense and CSR."""
    X, y = single_rows()
    X[7, 2] = np.nan
    for rows in (X, sparse.csr_matrix(X)):
        state, _, _ = make(loss=loss, class_weight=weights)._open_run(13, 200, "all", np.arange(5))
        assert state.outputs == 5
        models = []
        for i in range(len(X)):
            models.append(state.released_model().reshape(5, -1))
            one = Progress(1, 5)
            state.learn(rows[i : i + 1], y[i : i + 1].astype(float), progress=one)
            scaled = X[i] * math.nan if i == 7 else X[i] * min(1.0, 1.0 / np.linalg.norm(X[i]))
            scores = models[-1] @ np.append(scaled, 1.0)
            weight = 1.0 if weights is None else weights.get(int(y[i]), 1.0)
            expected = math.nan if i == 7 else weight * class_losses(get_loss(loss), scores[None], y[i : i + 1])[0]
            np.testing.assert_allclose(one.scores[0], scores, rtol=1e-12, atol=1e-13)
            np.testing.assert_allclose(one.losses[0], expected, rtol=1e-12)
        with pytest.raises(InvalidParameter, match="1 scores of a row, the run has 5"):
            state.evaluate(rows, y.astype(float), Progress(len(X)))


# ---- the estimator ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def easy():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(20_000, D)) / 3
    index = (X @ rng.normal(size=(D, 4)) * 5 + rng.gumbel(size=(20_000, 4)) * 0.1).argmax(axis=1)
    return X, np.array(LABELS)[index]


@pytest.mark.parametrize("loss", LOSSES)
def test_it_learns_four_classes(loss, easy):
    X, y = easy
    learner = DPFTRL(loss=loss, epsilon=4.0, radius=10.0, random_state=0).fit(X, y)
    assert learner.score(X, y) > 0.7  # the majority class has 0.4 of the rows
    assert learner.classes_.tolist() == LABELS
    assert learner.coef_.shape == learner.average_coef_.shape == (4, D)
    assert learner.intercept_.shape == learner.average_intercept_.shape == (4,)
    scores = learner.decision_function(X)
    assert scores.shape == (20_000, 4)
    lengths = np.maximum(1.0, np.linalg.norm(X, axis=1))
    np.testing.assert_allclose(scores, X @ learner.coef_.T / lengths[:, None] + learner.intercept_)
    predicted = learner.predict(X)
    assert np.array_equal(predicted, np.array(LABELS)[scores.argmax(axis=1)])
    assert [learner.predict_one(x) for x in X[:20]] == predicted[:20].tolist()
    if loss in ("softmax", "logistic"):
        p = learner.predict_proba(X)
        np.testing.assert_allclose(p.sum(axis=1), 1.0)
        assert np.array_equal(p.argmax(axis=1), scores.argmax(axis=1))
        weights = np.exp(scores) if loss == "softmax" else 1 / (1 + np.exp(-scores))
        np.testing.assert_allclose(p, weights / weights.sum(axis=1, keepdims=True))
        assert np.mean(-np.log(p[np.arange(len(y)), np.searchsorted(LABELS, y)])) < 1.1  # ln 4 = 1.39
    else:
        assert not hasattr(learner, "predict_proba")


def test_softmax_of_two_classes(easy):
    X, y = easy[0], np.where(easy[1] == "oak", "yes", "no")
    learner = DPFTRL(loss="softmax", epsilon=9.0, radius=10.0, random_state=0).fit(X, y)
    assert learner.coef_.shape == (2, D)
    assert learner.decision_function(X).shape == (20_000,)
    assert np.array_equal(learner.predict(X) == "yes", learner.decision_function(X) > 0)
    np.testing.assert_allclose(learner.predict_proba(X)[:, 1], 1 / (1 + np.exp(-learner.decision_function(X))))
    one = DPFTRL(loss="logistic", epsilon=9.0, radius=10.0, random_state=0).fit(X, y)
    assert abs(learner.score(X, y) - one.score(X, y)) < 0.05


def test_weights_move_the_model(easy):
    X, y = easy
    shares = [
        np.mean(DPFTRL(loss="softmax", epsilon=math.inf, class_weight=w, radius=9.0).fit(X, y).predict(X) == "ash")
        for w in (None, {"ash": 10.0}, {"ash": 0.1})
    ]
    assert shares[2] < 0.8 * shares[0] < 0.6 * shares[1]


def test_files_and_pickles(easy, tmp_path):
    X, y = easy[0][:500], easy[1][:500]
    learner = DPFTRL(loss="softmax", random_state=0, class_weight={"oak": 2.0}, horizon=600, release=250)
    learner.partial_fit(X, y, classes=LABELS)
    save_model(learner, tmp_path / "run")
    loaded, copied = load_model(tmp_path / "run"), pickle.loads(pickle.dumps(learner))
    for other in (loaded, copied):
        assert other.class_weight == {"oak": 2.0}
        assert np.array_equal(other.coef_, learner.coef_)
        assert np.array_equal(other.predict(X), learner.predict(X))
        assert np.array_equal(other.predict_proba(X), learner.predict_proba(X))
        assert other.classes_.tolist() == LABELS
    releases = []
    stream = _Stream(X, np.searchsorted(LABELS, y))
    DPFTRL(loss="softmax", random_state=0, release=250).fit_stream(stream, on_release=releases.append)
    assert [(r.row, r.coef.shape, r.intercept.shape) for r in releases] == [(250, (4, D), (4,)), (500, (4, D), (4,))]


class _Stream:
    classes = tuple(LABELS)

    def __init__(self, X, y):
        self.X, self.y, self.n_rows, self.first_row = X, np.asarray(y, dtype=float), len(X), 1

    def __iter__(self):
        yield self


def test_streams_give_indices(easy):
    X, y = easy[0][:300], np.searchsorted(LABELS, easy[1][:300])
    one = DPFTRL(loss="softmax", random_state=0).fit_stream(_Stream(X, y))
    two = DPFTRL(loss="softmax", random_state=0).fit(X, easy[1][:300])
    assert np.array_equal(one.coef_, two.coef_)
    for bad in (4.0, -1.0, 0.5, np.nan):
        wrong = y.astype(float)
        wrong[5] = bad
        with pytest.raises(InvalidRow, match=r"row 6, target: found .* allowed are 0 to 3"):
            DPFTRL(loss="softmax").fit_stream(_Stream(X, wrong))
        lenient = DPFTRL(loss="softmax", on_invalid="zero", random_state=0, release=300, horizon=301)
        lenient.fit_stream(_Stream(X, wrong))
        assert lenient.n_rows_ == 300


def test_gradients_given_by_tell_are_learnt():
    learner = DPFTRL(loss="softmax", epsilon=20.0, horizon=N, gradient_bound=0.5, random_state=2, radius=3.0)
    with pytest.raises(InvalidParameter, match="declare_classes"):
        learner.ask(D)
    learner.declare_classes(LABELS)
    assert learner.ask(D).shape == (4, D + 1)
    run = learner._run
    twin = class_twin_of(learner, run.plan, bytes(run.state.secret_arrays()["key"]), D + 1, LABELS)
    rng = np.random.default_rng(1)
    for _ in range(N):
        gradient = learner.ask() - rng.normal(size=(4, D + 1))
        learner.tell(gradient=gradient)
        twin.tell(gradient.ravel())
        assert np.array_equal(learner.ask().ravel(), twin.x)
    with pytest.raises(BudgetExceeded):
        learner.tell(gradient=gradient)
    for bad in (np.zeros(4 * (D + 1)), np.zeros((3, D + 1)), np.zeros((4, D)), np.zeros((4, D + 1, 1))):
        learner = DPFTRL(loss="softmax", horizon=N, gradient_bound=0.5, random_state=2).declare_classes(LABELS)
        learner.ask(D)
        with pytest.raises(InvalidParameter, match="gradient must have"):
            learner.tell(gradient=bad)
        assert learner.n_rows_ == 0


def test_refused():
    X, labels, _ = data()
    for kind in (PIGD, PGIGA, NOGD):
        words = {} if kind is NOGD else {"release": "last"}
        with pytest.raises(InvalidParameter, match="single score"):
            kind(loss="softmax", **words).fit(X, labels == "oak")
        with pytest.raises(InvalidParameter, match="Only binary classification is supported"):
            kind(**words).fit(X, labels)
        with pytest.raises(InvalidParameter, match="two different labels"):
            kind(horizon=5, **words).declare_classes(LABELS)
    with pytest.raises(InvalidParameter):
        PQFTL(loss="softmax").fit(X, labels)
    with pytest.raises(InvalidParameter, match="single score"):
        plan("nogd", loss="softmax", n_features=3, horizon=10)
    for bad, match in (
        ("balanced", "computed from the rows"),
        ([1.0, 2.0], "must map"),
        ({"ash": 0.0}, "'ash'"),
        ({"ash": math.inf}, "'ash'"),
        ({"larch": 1.0}, "larch"),
        (dict.fromkeys([*LABELS, "larch"], 1.0), "found 5 for 4"),
        ({"ash": "much"}, "'ash'"),
    ):
        learner = DPFTRL(class_weight=bad)
        with pytest.raises(InvalidParameter, match=match):
            learner.fit(X, labels)
        assert "_run" not in vars(learner)
    with pytest.raises(InvalidParameter, match="is for classes"):
        DPFTRL(loss="squared", class_weight={1: 2.0}).fit(X, X[:, 0])
    with pytest.raises(InvalidParameter, match="n_classes"):
        DPFTRL(loss="softmax").calibrate(3, 10, n_classes=1)
    with pytest.raises(InvalidRow, match=r"'larch'.*, allowed are"):
        DPFTRL(horizon=5).partial_fit(X[:1], ["larch"], classes=LABELS)
    with pytest.raises(InvalidParameter, match="different labels"):
        DPFTRL(horizon=5).declare_classes(["a", "a"])
    with pytest.raises(InvalidParameter, match="one class"):
        DPFTRL(loss="softmax").fit(X, np.zeros(N))
    free = DPFTRL(epsilon=math.inf)
    found = free.calibrate(3, 10)
    with pytest.raises(InvalidParameter, match="do not share"):
        free.build(replace(found, problem=replace(found.problem, outputs=3)), None)


def test_fit_looks_for_labels_only_where_none_are_declared():
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(60, 3)), rng.integers(0, 2, 60)
    found = DPFTRL().fit(x, y).guarantee_.conditions
    assert any("which fit found in the rows" in condition for condition in found)
    learner = DPFTRL(loss="softmax").declare_classes([0, 1, 2]).fit(x, y)
    assert learner.classes_.tolist() == [0, 1, 2]
    assert learner.coef_.shape == (3, 3)
    assert not any("found in the rows" in condition for condition in learner.guarantee_.conditions)
    with pytest.raises(ValueError, match="row 1, target"):
        DPFTRL().declare_classes([5, 6]).fit(x, y)
