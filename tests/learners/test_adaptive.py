"""AdaptiveFTRL: its NumPy twin, what it chooses from public numbers, and that nothing else needs to be chosen."""

from __future__ import annotations

import functools
import math
import operator

import numpy as np
import pytest
from class_tools import check_classes
from leader_tools import check
from learner_tools import data
from scipy import sparse
from sklearn.metrics import roc_auc_score

from privol import DPFTRL, AdaptiveFTRL, losses
from privol.calibration import LARGEST_SCORE
from privol.errors import InvalidParameter
from privol.factorizations._blt import _ordered_product

WORDS = {"epsilon": 9.0, "delta": 1e-3, "random_state": 5}


# ---- the twin ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("loss", ["logistic", "hinge", "smooth_hinge", "squared", "absolute", "huber"])
def test_twin(loss, intercept):
    X, y = data(loss)
    check(AdaptiveFTRL(loss=loss, horizon=len(X), fit_intercept=intercept, x_bound=0.9, y_bound=0.8, **WORDS), X, y)


@pytest.mark.parametrize("epsilon", [0.01, 500.0, math.inf])
def test_twin_of_steps_of_several_rows(epsilon):
    """Where some features are within the noise, and where none is; the last step has fewer rows."""
    X, y = data("logistic", n=299, seed=2)
    learner = AdaptiveFTRL(**WORDS | {"epsilon": epsilon, "adjacency": "zero_out", "horizon": 5299})
    if math.isinf(epsilon):
        learner.partial_fit(X, y, classes=[-1.0, 1.0])
        assert learner.calibrate(3, 5299).tuning.threshold == (0.0,) * len(learner.calibrate(3, 5299).tuning.until)
        assert np.isfinite(learner.coef_).all()
        return
    twin = check(learner, X, y, null=())
    assert len(twin.sums.leaves) == 299 // 5
    assert (epsilon > 1.0) == bool(twin.x.all())


@pytest.mark.parametrize("weights", [None, {"ash": 2.0, "cedar": 0.25}])
@pytest.mark.parametrize("loss", ["softmax", "hinge"])
def test_twin_of_classes(loss, weights):
    """The scores of a feature are shrunk together."""
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(60, 3)) / 2, rng.integers(0, 3, 60)
    labels = np.array(["ash", "birch", "cedar"])[y]
    learner = AdaptiveFTRL(loss=loss, horizon=60, class_weight=weights, **WORDS | {"epsilon": 60.0})
    twin = check_classes(learner, X, labels, y)
    zeros = (twin.x.reshape(3, -1) == 0.0).sum(axis=0)
    assert set(zeros.tolist()) <= {0, 3}


@pytest.mark.parametrize("outputs", [1, 3])
def test_twin_of_drifts(outputs):
    """The released model is the slow average, lies between both, and beyond them, as the concept reverses."""
    n = 400
    X, y = turned(n, outputs)
    words = WORDS | {"epsilon": 60.0, "horizon": n, "release": [100, 210, 230, 250, n]}
    if outputs == 1:
        twin = check(AdaptiveFTRL(**words), X, np.where(y > 0, 1.0, -1.0), null=())
    else:
        twin = check_classes(AdaptiveFTRL(loss="softmax", **words), X, np.array(["ash", "birch", "cedar"])[y], y)
    ways = np.array(twin.ways)
    assert not ways[:64].any()  # both averages are that of the last ninth
    assert min((ways == 0.0)[72:].sum(), ((ways > 0.0) & (ways < 1.0)).sum(), (ways > 1.0).sum()) > 5
    assert ways[n // 2 :].max() > ways[n // 2 - 50 : n // 2].max()


def turned(n, outputs):
    """A concept that reverses in the middle."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(n, 4)) / 2
    y = (X[:, :outputs] + rng.normal(size=(n, outputs)) / 4).argmax(axis=1) if outputs > 1 else 1 * (X[:, 0] > 0)
    return X, np.where(np.arange(n) < n // 2, y, max(outputs, 2) - 1 - y)


def test_a_run_within_a_drift_resumes_unchanged():
    """Restored where the two averages differ, and cut into blocks anywhere."""
    n = 400
    X, y = turned(n, 1)
    words = WORDS | {"epsilon": 60.0, "horizon": n, "release": 3}
    whole = AdaptiveFTRL(**words).partial_fit(X, y, classes=[0, 1])
    expected = {name: value.tobytes() for name, value in whole._run.state.secret_arrays().items()}
    for cut in (90, 205, 241):
        first = AdaptiveFTRL(**words).partial_fit(X[:cut], y[:cut], classes=[0, 1])
        fresh, _, _ = AdaptiveFTRL(**words)._open_run(4, n, None, np.array([0, 1]))
        fresh.restore(first._run.state.secret_arrays())
        fresh.learn(X[cut:], 2.0 * y[cut:] - 1.0)
        first.partial_fit(X[cut:], y[cut:])
        for state in (first._run.state, fresh):
            assert {name: value.tobytes() for name, value in state.secret_arrays().items()} == expected


def test_the_released_model_stays_in_the_ball():
    """The points reach its boundary, and the slow average is far behind: twice the way would leave the ball."""
    learner = AdaptiveFTRL(horizon=600, gradient_bound=1.0, epsilon=math.inf, fit_intercept=False)
    learner.declare_classes([0, 1])
    radius, norms = learner.calibrate(2, 600).problem.domain.radius, []
    for row in range(600):
        learner.ask(2)
        learner.tell(gradient=[-0.6, 0.8] if row >= 550 else [0.0, 0.0])
        norms.append(np.linalg.norm(learner.coef_))
    assert not norms[549]
    assert max(norms) == pytest.approx(radius, rel=1e-12)
    assert learner._run.state.secret_arrays()["slow"] @ [0.6, -0.8] < 0.6 * radius


# ---- what one row can change ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "labels", "weights"),
    [
        ("logistic", (0, 1), None), ("logistic", (0, 1), {0: 5.0, 1: 0.2}), ("hinge", (0, 1, 2), None),
        ("softmax", (0, 1, 2), {0: 5.0, 2: 0.2}), ("squared", (-1e9, 1e9), None), ("huber", (-1e9, 1e9), None),
        (losses.Custom(value=lambda p, y: 7 * abs(p - y), gradient=lambda p, y: 7 * float(np.sign(p - y)),
                       lipschitz=7.0, smoothness=math.inf, kind="regression"), (-1e9, 1e9), None),
    ],
)  # fmt: skip
def test_no_gradient_is_longer_than_its_cut(loss, labels, weights):
    """The longest attain it: two of them are as far apart as is charged, and a null row is at 0."""
    words = {"class_weight": weights, "fit_intercept": False, "x_bound": 1.5, "on_invalid": "zero", "horizon": 50}
    learner = AdaptiveFTRL(loss=loss, **WORDS | words)
    if labels[0] == 0:
        learner.declare_classes(labels)
    rng = np.random.default_rng(3)
    longest = 0.0
    for i in range(40):
        row = rng.normal(size=4) * 10.0 ** rng.integers(-2, 3)
        learner.learn_one(row if i % 5 else row * math.nan, labels[i % len(labels)])
        state, plan = learner._run.state, learner._run.plan
        longest = max(longest, np.linalg.norm(state._secret_gradient()))
        assert longest <= plan.bound * (1 + 1e-14)
    assert longest == pytest.approx(plan.bound, rel=1e-12)
    assert plan.sums.sensitivity == pytest.approx(2 * plan.bound, rel=1e-9)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])  # dense rows are written where the sums are
def test_a_null_row_is_a_gradient_of_zeros(kind):
    """It does not repeat the row before it: the release is as if a gradient of zeros had been given."""
    words = WORDS | {"epsilon": math.inf, "gradient_bound": 0.5, "horizon": 4, "on_invalid": "zero"}
    learners = AdaptiveFTRL(**words), AdaptiveFTRL(**words)
    for learner in learners:
        learner.partial_fit(kind([[0.6, 0.0]]), [1], classes=[0, 1])
    learners[0].partial_fit(kind([[math.nan, 0.0]]), [1])
    learners[1].ask()
    learners[1].tell(gradient=[0.0, 0.0, 0.0])
    assert learners[0].ask().any()
    assert np.array_equal(learners[0].ask(), learners[1].ask())


def test_the_first_row_pays_for_all():
    learner = AdaptiveFTRL(**WORDS, horizon=40)
    X, y = data("logistic", n=3)
    learner.partial_fit(X[:1], y[:1], classes=[-1.0, 1.0])
    assert learner.close().ledger_.spent.mu == pytest.approx(learner.guarantee_.mu, rel=1e-9)


# ---- its choices -------------------------------------------------------------------------------------------


def test_noise_is_a_share_of_that_of_the_longest_gradients():
    """A half, or a quarter for squared loss; for any loss a half without noise."""
    for words, longest, cut in (
        ({"loss": "hinge"}, 1.0, 0.5),
        ({"loss": "softmax"}, math.sqrt(2.0), 0.5),
        ({"loss": "hinge", "class_weight": {1: 3.0}}, 3.0, 0.5),
        ({"loss": "squared", "y_bound": 2.0}, 4.0, 0.25),
        ({"loss": "absolute", "y_bound": 2.0}, 1.0, 0.5),
    ):
        learner = AdaptiveFTRL(x_bound=2.0, fit_intercept=False, **words)
        plan = learner.calibrate(5, 10_000)
        assert plan.bound == pytest.approx(cut * longest * 2.0, rel=1e-9), words
        exact = AdaptiveFTRL(x_bound=2.0, fit_intercept=False, epsilon=math.inf, **words).calibrate(5, 10_000)
        assert exact.bound == pytest.approx(0.5 * longest * 2.0, rel=1e-9), words
        other = {name: value for name, value in words.items() if name != "y_bound"}
        for adjacency in ("replace", "zero_out"):
            shared = {"x_bound": 2.0, "fit_intercept": False, "adjacency": adjacency}
            plan = AdaptiveFTRL(**shared, **words).calibrate(5, 10_000)
            assert plan.bound == pytest.approx(cut * longest * 2.0, rel=1e-9), words
            for share in (0.5, 1.0):
                same = DPFTRL(**shared, **other, batch=10, gradient_bound=share * longest * 2.0).calibrate(5, 10_000)
                assert plan.sums.sigma == pytest.approx(cut / share * same.sums.sigma, rel=1e-9)
                assert plan.mu == pytest.approx(same.mu, rel=1e-9)


def lag_by_definition(sums, step):
    """Squares of the difference between the two averages, for sums with unit noise and for a walk of unit steps."""
    weights = np.zeros((2, step))
    for s in range(1, step + 1):
        for own, slowest in zip(weights, (8.0, 64.0), strict=True):
            counts = max(9.0 / (8.0 + s), 1.0 / slowest)
            own *= 1.0 - counts
            own[s - 1] = counts
    apart = weights[0] - weights[1]
    # noise drawn before a step is in all later sums
    walk = np.sum(np.cumsum(apart[::-1]) ** 2)
    return sums.average_norm(apart, step) ** 2, walk


def test_strong_convexity_and_thresholds_follow_the_noise():
    for n_rows, epsilon, batch in ((500, 1.0, 1), (50_000, 1.0, 50), (10**7, 1.0, 100), (50_000, math.inf, 50)):
        learner = AdaptiveFTRL(loss="softmax", x_bound=3.0, epsilon=epsilon)
        plan = learner.calibrate(20, n_rows, n_classes=4)
        tuning, longest = plan.tuning, math.hypot(3.0, 1.0)
        assert plan.batch == batch
        assert tuning.until[-1] == plan.sums.factorization.steps == -(-n_rows // batch)
        assert len(tuning.until) < 300
        stds = np.maximum.accumulate([plan.sums.std(step) for step in tuning.until])
        floor = batch * plan.bound * longest / 4.0
        np.testing.assert_allclose(tuning.held, np.maximum(floor, stds * longest / 1.25), rtol=1e-9)
        np.testing.assert_allclose(tuning.threshold, 4 * stds**2, rtol=1e-9)
        for step in (3, 200, 700, 5000):
            if step > tuning.until[-1] or tuning.until[tuning.part(step)] > 5000:
                continue
            at = tuning.until[tuning.part(step)]
            noise, walk = lag_by_definition(plan.sums.factorization, at)
            assert tuning.lag[tuning.part(step)] == pytest.approx(plan.sums.sigma**2 * noise, rel=1e-5, abs=1e-12)
            found = tuning.walk[tuning.part(step)]
            assert found == pytest.approx(0.35 * batch * plan.bound**2 * walk, rel=1e-5, abs=1e-12)
        assert plan.std(n_rows) == pytest.approx(stds[-1] / tuning.held[-1])
        for step in (1, 2, 17, tuning.until[-1]):
            part = tuning.part(step)
            assert tuning.until[part] >= step > ([0, *tuning.until])[part]


def test_processors_agree_on_what_tunes_it():
    """The figures have ten digits, and the sums before them an order: BLAS and exponentials differ in the sixteenth."""
    plan = AdaptiveFTRL(horizon=3000).calibrate(5, 3000)
    figures = [*plan.tuning.held, *plan.tuning.threshold, *plan.tuning.lag, *plan.tuning.walk]
    assert len(figures) > 300
    assert [float(f"{figure:.10g}") for figure in figures] == figures
    assert plan.regularization == plan.tuning.held[-1]
    rng = np.random.default_rng(4)
    left, right = rng.normal(size=(2, 6, 6))
    expected = [[functools.reduce(operator.add, (left[i, k] * right[k, j] for k in range(6))) for j in range(6)]
                for i in range(6)]  # fmt: skip
    assert _ordered_product(left, right).tolist() == expected


def test_parameters():
    for words, said in (
        ({"x_bound": 0.0}, "x_bound"),
        ({"gradient_bound": -1.0}, "gradient_bound"),
        ({"class_weight": {0: 0.0}}, "class_weight"),
        ({"epsilon": 0.0}, "epsilon"),
    ):
        with pytest.raises(InvalidParameter, match=said):
            AdaptiveFTRL(**words).calibrate(3, 100)
    assert not {"radius", "batch", "regularization", "l2"} & set(AdaptiveFTRL().get_params())


def test_gradients_given_by_tell_are_learnt():
    learner = AdaptiveFTRL(loss=losses.Logistic(), horizon=50, gradient_bound=1.0, epsilon=math.inf)
    learner.declare_classes([0, 1])
    for _ in range(50):
        learner.ask(2)
        learner.tell(gradient=[-30.0, 0.0, 40.0])  # scaled to length 1
    assert learner.coef_[0, 0] > 0.0
    assert learner.intercept_[0] == pytest.approx(-4.0 / 3.0 * learner.coef_[0, 0])
    with pytest.raises(InvalidParameter, match="gradient_bound must be given"):
        AdaptiveFTRL(horizon=5).declare_classes([0, 1]).tell(gradient=[1.0])


# ---- that nothing else need be chosen --------------------------------------------------------------------------


def stream(n, seed, features=40, informative=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, features))
    score = 1.5 * X[:, :informative].sum(axis=1) + rng.logistic(size=n)
    return X / np.sqrt(features), np.where(score > 0, 1, 0)


def progressive(learner, X, y, size=500):
    scores = []
    for start in range(0, len(X), size):
        block = X[start : start + size]
        scores.append(learner.decision_function(block) if start else np.zeros(len(block)))
        learner.partial_fit(block, y[start : start + size], classes=[0, 1])
    return np.concatenate(scores)


@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_no_setting_needs_to_be_chosen(epsilon):
    """Most features carry no information, and contribute noise alone to the model."""
    n = 20_000
    X, y = stream(n, 1)
    words = {"epsilon": epsilon, "horizon": n, "x_bound": 1.2, "random_state": 1}
    found = {}
    for kind in (AdaptiveFTRL, DPFTRL):
        learner = kind(**words)
        found[kind] = roc_auc_score(y[n // 2 :], progressive(learner, X, y)[n // 2 :])
        coef = np.abs(learner.coef_[0])
        found[kind, "share"] = coef[:4].sum() / coef.sum()
    assert found[AdaptiveFTRL] > found[DPFTRL] + 0.03
    assert found[AdaptiveFTRL, "share"] > found[DPFTRL, "share"] + 0.1


@pytest.mark.parametrize("epsilon", [1.0, math.inf])
def test_the_released_model_follows_a_drift(epsilon):
    """The last ninth of 60,000 rows is 6,667, and 64 steps are 3,840; in a drift fewer count."""
    X, y = stream(60_000, 2, features=4, informative=2)
    X[30_000:] *= -1.0
    learner = AdaptiveFTRL(epsilon=epsilon, horizon=60_000, x_bound=1.5, random_state=2)
    scores = progressive(learner, X, y)
    assert roc_auc_score(y[25_000:30_000], scores[25_000:30_000]) > 0.86
    assert roc_auc_score(y[32_000:35_000], scores[32_000:35_000]) > 0.8  # the slow average gives 0.24 and 0.35
    assert roc_auc_score(y[55_000:], scores[55_000:]) > 0.85


@pytest.mark.parametrize("intercept", [True, False])
def test_the_ball_bounds_scores_by_the_largest(intercept):
    """Of any row within its bound, the intercept's constant counted; of a logistic loss the unit is 1."""
    made = AdaptiveFTRL(x_bound=0.5, fit_intercept=intercept)
    longest = math.hypot(0.5, intercept)
    radius = made.calibrate(3, 1000).problem.domain.radius
    assert radius * longest == pytest.approx(LARGEST_SCORE, rel=1e-9)
