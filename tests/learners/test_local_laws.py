"""What is proved of learners on reports, measured: leakage, regret, invariances, the benefit of noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from alpha import rate
from scipy.stats import binom, chi2

from privol import BANCO, LDPSGD, MIOGD, AgnosticBANCO, BanditMIOGD, MultiscaleSGD
from privol.errors import InvalidParameter
from privol.guarantees import Guarantee
from privol.losses import Custom, get_loss
from privol.randomizers import gaussian_leakage

pytestmark = pytest.mark.statistical

ONES = {"gradient_bound": 1.0, "fit_intercept": False}


def told(learner, gradients, n_features=None):
    """Points at which the gradients were taken, one after another."""
    first = learner.ask(gradients.shape[1] if n_features is None else n_features)
    return np.array([first, *(learner.tell(gradient=gradient).ask() for gradient in gradients)])


# ---- what a report reveals ----------------------------------------------------------------------------------------


def entropy(counts):
    p = counts[counts > 0] / counts.sum()
    return float(-np.sum(p * np.log(p)))


@pytest.mark.parametrize("leakage", [0.05, 0.5])
def test_binned_information_is_below_the_leakage(leakage):
    """For two equally likely gradients, -1 and 1: the plug-in estimate, biased upwards, less its possible error.

    The estimate's mean exceeds the information of the binned report by at most (bins - 1)(2 - 1) / (2 n) to first
    order, doubled here; one of the n reports moves it by at most 2 log(n) / n, so it is within ``slack`` (McDiarmid) of
    its mean. Noise of 2/3 of the scale reveals more than the bound.
    """
    n, bins = 400_000, 30
    slack = 2 * math.log(n) * math.sqrt(math.log(1 / rate("local.leakage", 4)) / (2 * n)) + (bins - 1) / n
    rng = np.random.default_rng(1)
    bits = rng.integers(2, size=n)

    def estimate(device, size):
        reports = device.privatize((2.0 * bits - 1.0).reshape(n, 1) * size).ravel() / size
        edges = np.quantile(reports, np.linspace(0, 1, bins + 1)[1:-1])
        joint = np.bincount(np.searchsorted(edges, reports) * 2 + bits, minlength=2 * bins)
        return entropy(joint.reshape(bins, 2).sum(0)) + entropy(joint.reshape(bins, 2).sum(1)) - entropy(joint)

    words = {"leakage": leakage, "gradient_bound": 1.0, "fit_intercept": False}
    found = estimate(MIOGD(**words).device(1, random_state=2), 1.0)
    assert leakage * 0.7 < found <= leakage + slack
    plan = MIOGD(**words).calibrate(1, 10)
    less = MIOGD(sigma=plan.report.scale * 2 / 3, gradient_bound=1.0, fit_intercept=False)
    if leakage > 0.1:  # where two thirds of the noise reveal more than the possible error of the estimate
        assert estimate(less.device(1, random_state=2), 1.0) > leakage + slack


def test_the_guarantee_of_miogd():
    for dim, leakage, mu, epsilon in ((10, 0.01, 0.282984, 1.06137304496), (10, 0.1, 0.898918, 3.87082978634),
                                      (1, 0.346573590279973, 2.0, 9.99725614643),
                                      (10, 1.0, 2.975922, 16.502549525)):  # fmt: skip
        plan = MIOGD(leakage=leakage, delta=1e-5, **ONES).calibrate(dim, 100)
        found: Guarantee = MIOGD(leakage=leakage, delta=1e-5, **ONES).guarantee_of(plan, private=True, bit_source="x")
        assert found.leakage >= leakage * (1 - 1e-12)
        assert found.leakage == pytest.approx(leakage, rel=1e-10)
        assert found.mu == pytest.approx(mu, rel=1e-5)
        assert found.epsilon(1e-5) == pytest.approx(epsilon, rel=1e-8)
        assert gaussian_leakage(plan.report.scale, dim=dim) == pytest.approx(leakage, rel=1e-10)
        again = Guarantee.from_json(found.to_json())
        assert again == found
        assert "nats" in again.sentence()
    with pytest.raises(InvalidParameter, match="leakage"):
        Guarantee(kind="gdp", parameter=1.0, adjacency="replace", horizon=1, releases=1, delta=0.1, arithmetic="a",
                  bit_source="b", leakage=1.0)  # fmt: skip


@pytest.mark.parametrize("make", [
    lambda: MIOGD(epsilon=1.0, **ONES), lambda: LDPSGD(**ONES), lambda: BANCO(randomizer="laplace", **ONES),
    lambda: LDPSGD(randomizer="gaussian", **ONES),
], ids=["miogd", "privunit", "laplace", "gaussian"])  # fmt: skip
def test_the_sentence_states_the_gain_of_a_secret_order(make):
    learner = make()
    found = learner.guarantee_of(learner.calibrate(2, 50_000), private=True, bit_source="x")
    local, central = found.epsilon(), found.shuffled_epsilon()
    assert 0.0 < central < 0.2 * local
    first, second = found.sentence().split("\n")
    assert "trusted shuffler puts 50000 users" in second
    assert "trusted shuffler" not in first
    few = learner.guarantee_of(learner.calibrate(2, 1), private=True, bit_source="x")
    assert few.shuffled_epsilon() >= few.epsilon()
    assert "shuffler" not in few.sentence()
    assert found.shuffled_epsilon(1e-9) > central


# ---- the noise in the run --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [{"leakage": 0.2}, {"sigma": 1.7}, {"epsilon": 2.0}], ids=str)
def test_the_scale_of_the_noise_in_the_points(words):
    """Of theta after n null rows; two thirds of the noise is rejected."""
    dim, n, runs = 40, 50, 40
    learner = MIOGD(radius=1e9, step="horizon", horizon=n, random_state=9, **words, **ONES)
    plan = learner.calibrate(dim, n)
    total = 0.0
    for seed in range(runs):
        learner = MIOGD(radius=1e9, step="horizon", horizon=n, random_state=seed, **words, **ONES)
        points = told(learner, np.zeros((n, dim)))
        total += float(np.sum((points[-1] / plan.step_length(1)) ** 2))
    scaled = total / (n * plan.report.scale**2)
    low, high = chi2.ppf([rate("local.scale", 6), 1 - rate("local.scale", 6)], dim * runs)
    assert low < scaled < high
    assert not low < scaled * 4 / 9 < high


def test_one_row_moves_one_report():
    """Neighbouring runs differ in one report: others have the same noise and, for equal inputs, equal points."""
    rng = np.random.default_rng(2)
    gradients = rng.normal(size=(30, 3)) * 0.3
    other = gradients.copy()
    other[11] *= -1.0
    for make in (lambda: MIOGD(leakage=0.5, horizon=30, random_state=1, **ONES),
                 lambda: BANCO(randomizer="l2laplace", epsilon=4.0, horizon=30, random_state=1, **ONES)):  # fmt: skip
        one, two = (told(make(), given) for given in (gradients, other))
        assert np.array_equal(one[:12], two[:12])
        assert not np.array_equal(one[12], two[12])


# ---- regret ----------------------------------------------------------------------------------------------------------


def sequences(n, dim):
    """Linear losses that an adversary may choose without access to the noise: gradients of norm 1."""
    rng = np.random.default_rng(4)
    walk = np.cumsum(rng.normal(size=(n, dim)), axis=0)
    signs = np.where(np.arange(n) % 2, 1.0, -1.0)[:, None] * np.eye(dim)[0]
    yield "constant", np.tile(-np.eye(dim)[0], (n, 1))
    yield "alternating", signs
    yield "halves", np.where(np.arange(n)[:, None] < n // 2, 1.0, -1.0) * np.eye(dim)[-1]
    yield "random", walk / np.linalg.norm(walk, axis=1, keepdims=True)


@pytest.mark.parametrize("make", [
    lambda n: MIOGD(leakage=0.3, horizon=n, **ONES), lambda n: MIOGD(leakage=0.3, horizon=n, step="horizon", **ONES),
    lambda n: MIOGD(leakage=0.3, horizon=n, lazy=False, **ONES), lambda n: LDPSGD(epsilon=2.0, horizon=n, **ONES),
    lambda n: LDPSGD(epsilon=2.0, horizon=n, randomizer="l2laplace", step="horizon", **ONES),
], ids=["anytime", "horizon", "greedy", "privunit", "l2laplace"])  # fmt: skip
def test_regret_is_below_the_bound(make):
    """Mean over runs; steps without noise that are ten times too large exceed it on one of the sequences."""
    n, dim, runs = 400, 3, 20
    for name, gradients in sequences(n, dim):
        best = float(np.linalg.norm(gradients.sum(axis=0)))  # for the unit ball: -<u, sum> at most
        total = 0.0
        for seed in range(runs):
            learner = make(n).set_params(random_state=seed)
            points = told(learner, gradients)[:-1]
            total += float(np.sum(points * gradients)) + best
        assert total / runs <= make(n).regret_bound(n, dim), name
    gradients = dict(sequences(n, dim))["alternating"]
    wild = told(LDPSGD(epsilon=math.inf, step_size=100.0, horizon=n, **ONES), gradients)[:-1]
    assert float(np.sum(wild * gradients)) > MIOGD(leakage=math.inf, **ONES).regret_bound(n, dim)


def test_regret_of_bets_is_below_the_bound():
    """Against models of every size: for one size the mean loss over runs, less the certificate."""
    n, dim, runs = 600, 2, 20
    gradients = np.tile(-np.eye(dim)[0], (n, 1))
    for learner in (BANCO(epsilon=8.0, proxy="hoeffding", horizon=n, **ONES),
                    AgnosticBANCO(epsilon=8.0, horizon=n, **ONES),
                    MultiscaleSGD(epsilon=8.0, proxy="hoeffding", horizon=n, **ONES)):  # fmt: skip
        lost = []
        for seed in range(runs):
            points = told(learner.set_params(random_state=seed), gradients)[:-1]
            lost.append(float(np.sum(points * gradients)))
            learner.__dict__.pop("_run", None)
        for size in (0.0, 0.1, 1.0, 10.0):
            assert np.mean(lost) + size * n <= learner.regret_bound(size, n, dim)


def test_a_bandit_learner_approaches_the_minimum():
    """A black box gives values at requested points: they approach the minimiser, faster with two values per round."""
    centre = np.array([0.5, -0.3])

    def distance(n, values):
        learner = BanditMIOGD(leakage=2.0, horizon=n, value_bounds=(0.0, 2.0), values=values, random_state=1, **ONES)
        point = learner.ask(2)
        for _ in range(n):
            value = np.linalg.norm(np.atleast_2d(point) - centre, axis=1)
            point = learner.tell(value=value).ask()
        return float(np.linalg.norm(np.ravel(learner.average_coef_) - centre))

    one, two = distance(30_000, 1), distance(30_000, 2)
    assert two < 0.1
    assert two < one < 0.6 * float(np.linalg.norm(centre))


# ---- invariances of coin betting -----------------------------------------------------------------------------------


def played(make, reports):
    learner = make()
    return np.array([learner.ask(reports.shape[1]), *(learner.tell(report=report).ask() for report in reports)])


@pytest.mark.parametrize("make", [
    lambda bound=1.0: BANCO(randomizer="l2laplace", epsilon=6.0, horizon=80, random_state=0, fit_intercept=False,
                            gradient_bound=bound),
    lambda bound=1.0: AgnosticBANCO(epsilon=6.0, horizon=80, random_state=0, fit_intercept=False, gradient_bound=bound),
    lambda bound=1.0: MultiscaleSGD(randomizer="l2laplace", epsilon=6.0, horizon=80, random_state=0,
                                    fit_intercept=False, gradient_bound=bound),
], ids=["banco", "agnostic", "multiscale"])  # fmt: skip
def test_scale_rotation_permutation_and_sign(make):
    """Reports in other units, directions and orders give points in other units, directions and orders."""
    rng = np.random.default_rng(7)
    reports = rng.normal(size=(80, 4)) + np.array([0.5, 0.0, 0.0, -0.2])
    points = played(make, reports)
    assert np.linalg.norm(points[-1]) > 1e-3
    rotation, _ = np.linalg.qr(rng.normal(size=(4, 4)))
    assert played(make, reports @ rotation) == pytest.approx(points @ rotation, rel=1e-9, abs=1e-12)
    order = [2, 0, 3, 1]
    assert played(make, reports[:, order]) == pytest.approx(points[:, order], rel=1e-9, abs=1e-12)
    assert np.array_equal(played(make, -reports), -points)
    scaled = played(lambda: make(8.0), 8.0 * reports)  # gradients eight times as long: models an eighth as large
    assert scaled * 8.0 == pytest.approx(points, rel=1e-9, abs=1e-12)


def test_zero_gradients_at_first():
    """Without noise nothing is known until a gradient is not zero."""
    gradients = np.vstack([np.zeros((4, 2)), np.tile([0.6, 0.8], (6, 1))])
    points = told(BANCO(epsilon=math.inf, horizon=10, **ONES), gradients)
    assert not points[:6].any()
    assert points[6].any()
    assert float(points[-1] @ [0.6, 0.8]) < 0.0


def test_gradients_beyond_the_bound_are_scaled_and_counted():
    rng = np.random.default_rng(1)
    long = rng.normal(size=(20, 3)) * 10
    short = long / np.linalg.norm(long, axis=1, keepdims=True)
    one, two = (BANCO(epsilon=6.0, horizon=20, random_state=3, **ONES) for _ in range(2))
    assert told(one, long) == pytest.approx(told(two, short), rel=1e-6)
    assert one._run.state.raw_counts()["clipped_rows"] == 20
    assert two._run.state.raw_counts()["clipped_rows"] == 0


def test_millions_of_rows_do_not_overflow():
    """Equal gradients without noise give the largest possible magnitude."""
    X, y = np.ones((1 << 16, 1)), np.full(1 << 16, 1.0)
    learner = BANCO(loss="absolute", epsilon=1.0, randomizer="l2laplace", y_bound=1e30, wealth=1e20, horizon=10**7,
                    random_state=1, release=1 << 16, fit_intercept=False)  # fmt: skip
    y[:] = 1e30  # never reached
    for _ in range(10**7 >> 16):
        learner.partial_fit(X, y)
    rest = 10**7 % (1 << 16)
    learner.partial_fit(X[:rest], y[:rest])
    assert learner.n_rows_ == 10**7
    point = learner.coef_
    assert np.isfinite(point).all()
    assert point[0] > 1e3


def custom_linear():
    return Custom(value=lambda p, y: -y * p, gradient=lambda p, y: -y, lipschitz=1.0, smoothness=0.0,
                  kind="regression", name="linear")  # fmt: skip


def test_models_are_held_before_scores_leave_the_finite_numbers():
    """A rule of the reports alone, not an error: the block that ended the run would reveal facts on its rows."""
    learner = AgnosticBANCO(epsilon=8.0, horizon=10**4, wealth=1e30, growth=0.51, random_state=0, **ONES)
    learner.ask(2)
    for _ in range(4000):
        learner.tell(report=[-1e3, -1e3])
    assert np.array_equal(np.abs(learner.ask()), learner.ask())
    assert 1e149 < learner.ask()[0] <= 1e150
    for x in ([1e30, 1e30], [1e30, -1e30]):
        for loss in ("logistic", "squared", "huber", "absolute"):
            for y, value in ((1.0, 0.0), (-1.0, 0.0)):
                assert np.isfinite(get_loss(loss).gradient(float(np.dot(learner.ask(), x)), y + value))


@pytest.mark.parametrize("loss", ["logistic", "squared", "smooth_hinge", "huber", "absolute", "custom"])
def test_every_row_gives_a_report_at_every_point(loss):
    rows = np.array([[100.0] * 16, [100.0, -100.0] * 8, [0.0] * 16])
    given = custom_linear() if loss == "custom" else loss
    learner = BANCO(loss=given, epsilon=8.0, randomizer="l2laplace", horizon=10**5, x_bound=1e3, wealth=1e30,
                    gradient_bound=1.0, fit_intercept=False, random_state=0)  # fmt: skip
    if get_loss(given).kind == "classification":
        learner.declare_classes([-1.0, 1.0])
    learner.ask(16)
    for _ in range(5000):
        learner.tell(report=[-1e3 * (1 - 2 * (j % 2)) for j in range(16)])
    assert np.abs(learner.ask()).max() > 1e149
    for k, row in enumerate(rows):
        learner._run.state.learn(row[None], np.ones(1))
        assert learner.n_rows_ == 5001 + k


@pytest.mark.parametrize("low", [1e16, 1e9, 1e6, -3.0])
@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
def test_values_far_from_zero_stay_within_the_bound(low, adjacency):
    """The midpoint of an interval is rounded: the randomized value is within the bound to which the noise is scaled."""
    high = max(low + 2.0, np.nextafter(low, math.inf))
    found = []
    for value in (low, high, (low + high) / 2):
        learner = BanditMIOGD(epsilon=math.inf, value_bounds=(low, high), gradient_bound=1.0, adjacency=adjacency,
                              horizon=3, shrink=False, fit_intercept=False, random_state=0)  # fmt: skip
        plan = learner.calibrate(2, 3)
        point = learner.ask(2)
        found.append(learner.tell(value=value)._run.state.released_model())
        step = plan.step_length(2) * plan.dim / plan.distance_at(1)
        assert np.linalg.norm(found[-1]) <= min(1.0, step * plan.report.bound * (1 + 1e-12))
    assert point.shape == (2,)


def test_the_coins_of_caps():
    """PrivUnit's coins in a run: for rows of one direction, the share of reports in its half-space is p."""
    n = 20_000
    device = LDPSGD(epsilon=1.0, horizon=n, **ONES).device(3, random_state=4)
    reports = device.privatize(np.tile([1.0, 0.0, 0.0], (n, 1)))[:, 0]
    inside = int(np.sum(reports >= 0.24491866240370913 * 4.08298816507))
    p = 0.622459331202
    low, high = binom.ppf([rate("local.caps", 2), 1 - rate("local.caps", 2)], n, p)
    assert low <= inside <= high
