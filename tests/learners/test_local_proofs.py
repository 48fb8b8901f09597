"""docs/proofs/local.md: transcripts of untrusted learners, nats, and the sums of regret bounds."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from counterexamples_others import told_by_reports
from scipy import integrate, stats

from privol import LDPSGD, MIOGD, BanditMIOGD
from privol.calibration import calibrate_report
from privol.geometry import Box, L1Ball, Simplex
from privol.guarantees import gdp_delta

pytestmark = pytest.mark.slow

# ---- section 2 -----------------------------------------------------------------------------------------------------


def steered(history):
    """The next request of a malicious learner: gradients of one sign or the other, by all reports so far."""
    return 1.0 if sum(history) * (-1) ** len(history) >= 0.0 else -1.0


def chance(plus, v):
    """Probability that the two-point randomizer sends +, at v in the unit interval: exact for its threshold."""
    threshold = plus.cap.threshold
    return 0.5 + math.copysign(int(abs(v) * threshold), v) / 2.0**64


def ratio_of_transcripts(noise, rounds, repeated):
    """Largest ratio of the probabilities of a transcript, for the signs of the row of round 1 (repeated: and 3)."""
    worst = 0.0
    for transcript in itertools.product((1.0, -1.0), repeat=rounds):
        probability = []
        for changed in (1.0, -1.0):
            total = 1.0
            for t, sent in enumerate(transcript):
                row = changed if t == 0 or (repeated and t == 2) else 0.5
                plus = chance(noise, row * steered(transcript[:t]))
                total *= plus if sent > 0.0 else 1.0 - plus
            probability.append(total)
        worst = max(worst, probability[0] / probability[1])
    return worst


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_one_row_one_report(epsilon):
    noise = calibrate_report("privunit", dim=1, epsilon=epsilon)
    assert math.exp(epsilon) * (1.0 - 1e-9) < ratio_of_transcripts(noise, 6, False) <= math.exp(epsilon) * (1.0 + 1e-12)
    assert ratio_of_transcripts(noise, 6, True) > math.exp(1.9 * epsilon)


def test_gaussian_transcripts():
    """Two rounds, the second request steered by the first report: delta of the pair by quadrature."""
    mu, sigma, epsilon = 1.0, 2.0, 0.7  # rows -1 and 1
    z = np.linspace(-14.0, 14.0, 1401)
    asked = np.where(z > 0.3, 1.0, -1.0)[:, None]

    def delta(repeated):
        first, second = (
            stats.norm.pdf(z, row, sigma)[:, None] * stats.norm.pdf(z, asked * (row if repeated else 0.5), sigma)
            for row in (1.0, -1.0)
        )
        return integrate.trapezoid(integrate.trapezoid(np.maximum(first - math.exp(epsilon) * second, 0.0), z), z)

    assert delta(False) == pytest.approx(gdp_delta(epsilon, mu), abs=1e-4)
    assert delta(True) > gdp_delta(epsilon, mu) * 1.3


# ---- section 3 -----------------------------------------------------------------------------------------------------


def test_independence_is_needed():
    noise = calibrate_report("gaussian", dim=1, sigma=1.0)
    assert told_by_reports(1) <= noise.leakage == pytest.approx(0.5 * math.log(2.0))
    assert noise.leakage < told_by_reports(4) < 4.0 * noise.leakage  # four rows that are copies of one


@pytest.mark.parametrize("ask", [lambda z: 1.0, lambda z: 1.0 if z > 0 else 0.25, lambda z: math.tanh(3.0 * z)])
def test_a_question_cannot_raise_the_leakage(ask):
    """A fair bit, sent in round 2 at a point that depends on the report of an independent row in round 1."""
    noise = calibrate_report("gaussian", dim=1, sigma=1.0)
    z, weights = np.polynomial.hermite_e.hermegauss(40)
    told = sum(w * told_by_reports(max(ask(x + 1.0) ** 2, 1e-12)) for x, w in zip(z, weights, strict=True))
    assert told / math.sqrt(2.0 * math.pi) <= noise.leakage


def test_the_excess_of_the_clip_is_in_the_leakage():
    for dim in (1, 54, 1000):
        noise = calibrate_report("gaussian", dim=dim, sigma=1.0)
        assert noise.leakage > 0.5 * dim * math.log1p((1.0 + 2.0**-53 * (dim / 2 + 6)) ** 2 / dim)
        by_nats = calibrate_report("gaussian", dim=dim, leakage=0.1)
        assert 0.5 * dim * math.log1p(1.0 / (dim * by_nats.scale**2)) < 0.1
        assert noise.leakage <= noise.mu**2 / 8.0


# ---- sections 5 and 6 ----------------------------------------------------------------------------------------------


def regret_on_a_path(slopes, steps, lazy):
    """For linear losses on [-1, 1], against the better of its ends; no noise."""
    w, total, regret = 0.0, 0.0, {-1.0: 0.0, 1.0: 0.0}
    for t, g in enumerate(slopes, 1):
        for u in regret:
            regret[u] += g * (w - u)
        total += g
        w = min(max(-steps(t + 1) * total if lazy else w - steps(t) * g, -1.0), 1.0)
    return max(regret.values())


@pytest.mark.parametrize(
    ("lazy", "step"), [(True, "anytime"), (True, "horizon"), (False, "anytime"), (False, "horizon")]
)
def test_no_path_exceeds_the_bound(lazy, step):
    """Every path of slopes -1, 0 and 1 over nine rows, and one that is bad for decreasing greedy steps."""
    learner = MIOGD(leakage=math.inf, step=step, lazy=lazy, gradient_bound=1.0, fit_intercept=False)
    plan = learner.calibrate(1, 9)
    bound, worst = plan.regret_bound(9), 0.0
    for slopes in itertools.product((-1.0, 0.0, 1.0), repeat=9):
        worst = max(worst, regret_on_a_path(slopes, plan.step_length, lazy))
    assert 0.4 * bound < worst <= bound * (1.0 + 1e-12)  # attained by equal steps
    plan, slopes = learner.calibrate(1, 2000), [-1.0] * 2 + [0.0] * 1874 + [1.0] * 124
    assert regret_on_a_path(slopes, plan.step_length, lazy) <= plan.regret_bound(2000)


def test_the_bound_with_a_regulariser():
    """|w - v| + l2 w^2 / 2, worst of the paths with a target at either end; and its proof's sum."""
    learner = LDPSGD(epsilon=math.inf, l2=0.5, gradient_bound=1.0, fit_intercept=False)
    plan, worst = learner.calibrate(1, 9), -math.inf
    for slopes in itertools.product((-1.0, 1.0), repeat=9):
        w, losses, ends = 0.0, 0.0, np.linspace(-1.0, 1.0, 201)
        best = np.zeros(201)
        for t, g in enumerate(slopes, 1):
            losses += g * w + 0.25 * w * w
            best += g * ends + 0.25 * ends * ends
            w = min(max(w - (g + 0.5 * w) / (0.5 * t), -1.0), 1.0)
        worst = max(worst, losses - float(best.min()))
    assert 0.2 * plan.regret_bound(9) < worst <= plan.regret_bound(9)
    for randomizer in ("privunit", "l2laplace"):  # E |z + l2 w|^2 at the worst gradient and point
        plan = LDPSGD(epsilon=1.0, randomizer=randomizer, l2=0.5, gradient_bound=1.0).calibrate(3, 1)
        report = plan.report
        worst = max(report.variance(r) + r * r + 2 * 0.5 * r * 1.0 + 0.25 for r in np.linspace(0.0, 1.0, 11))
        assert plan.regret_bound(1) == pytest.approx(worst / (2 * 0.5))


@pytest.mark.parametrize("domain", [Simplex(), Box(0.5, 2.0), L1Ball(3.0)])
def test_step_lengths_follow_from_the_set(domain):
    words = {"domain": domain, "leakage": math.inf, "gradient_bound": 1.0, "fit_intercept": False}
    first = float(np.linalg.norm(domain.start(4)))
    lazy, root, equal = (
        MIOGD(lazy=lazy, step=step, **words).calibrate(4, 10).reach
        for lazy, step in ((True, "anytime"), (False, "anytime"), (False, "horizon"))
    )
    assert lazy == domain.norm_bound(4)
    assert root == domain.diameter(4)
    assert equal == min(domain.diameter(4), domain.norm_bound(4) + first)


@pytest.mark.parametrize("pair", [False, True])
@pytest.mark.parametrize("dim", [2, 300])
def test_the_remainder_of_the_sum_is_bounded(pair, dim):
    """Rows beyond 2^20, where the cap of the distance applies at first (dim 2) or throughout (dim 300)."""
    learner = BanditMIOGD(
        leakage=0.01, values=2 if pair else 1, value_bounds=(0.0, 2.0), gradient_bound=1.0, fit_intercept=False
    )
    rows = 3 << 20
    plan = learner.calibrate(dim, rows)
    t = np.arange(1, rows + 1, dtype=float)
    far = np.minimum(plan.distance * t ** (-0.5 if pair else -0.25), plan.most)
    assert pair or (far[-1] == plan.most) == (dim == 300)
    length = plan.length * t ** (-0.5 if pair else -0.75)
    energy = (dim**2 * plan.report.power) * (1.0 if pair else far**-2.0)
    terms = length * energy / 2.0 + 2.0 * far
    scaled = terms * t ** (0.5 if pair else 0.25)
    assert np.all(np.diff(scaled) <= 1e-12 * scaled[1:])
    exact = plan.norm**2 / (2.0 * length[-1]) + float(terms.sum())
    assert exact <= plan.regret_bound(rows) * (1.0 + 1e-12) <= exact * 1.5


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_smoothing_costs_no_more_than_the_distance(dim):
    """The norm at 0 (attained), and a kink next to the point: both errors of section 6, over 10^5 directions."""
    rng = np.random.default_rng(4)
    e = rng.standard_normal((100_000, dim))
    e /= np.linalg.norm(e, axis=1, keepdims=True)
    ball = e * rng.random((100_000, 1)) ** (1.0 / dim)
    for w, f in (
        (np.zeros(dim), lambda x: np.linalg.norm(x, axis=-1)),
        (np.full(dim, 0.02), lambda x: np.abs(x[..., 0])),
    ):
        outer, inner = float(f(w + 0.1 * e).mean()), float(f(w + 0.1 * ball).mean())
        # six standard deviations of a mean of numbers in [0, 0.2]: 0.002
        assert outer - inner <= 0.1 / (dim + 1) + 0.002
        assert inner - float(f(w)) <= 0.1 * dim / (dim + 1) + 0.002
    assert float(np.linalg.norm(0.1 * e, axis=1).mean()) == pytest.approx(0.1)


@pytest.mark.parametrize("domain", [L1Ball(2.0), Box(-0.3, 1.0)])
@pytest.mark.parametrize("values", [1, 2])
def test_points_stay_in_the_set(domain, values):
    words = {"value_bounds": (-9.0, 9.0), "gradient_bound": 2.0, "fit_intercept": False, "random_state": 1}
    learner = BanditMIOGD(epsilon=math.inf, domain=domain, values=values, horizon=200, **words)
    asked = learner.ask(n_features=3)
    for _ in range(200):
        for x in asked.reshape(values, 3):
            assert domain.contains(x, rtol=1e-13)
        told = -asked.reshape(values, 3).sum(axis=1)
        asked = learner.tell(value=told if values == 2 else float(told[0])).ask()


# ---- section 7 -----------------------------------------------------------------------------------------------------


def test_released_points_are_those_after_the_rows():
    learner = MIOGD(leakage=math.inf, horizon=5, gradient_bound=1.0, fit_intercept=False)
    points = [learner.ask(n_features=2)]
    for g in np.random.default_rng(3).normal(size=(5, 2)):
        points.append(learner.tell(gradient=g).ask() if len(points) < 5 else learner.tell(gradient=g).coef_.ravel())
        assert np.array_equal(learner.coef_.ravel(), points[-1])
    assert np.allclose(learner.average_coef_.ravel(), np.mean(points[1:], axis=0), rtol=1e-14)
    assert not points[0].any()
