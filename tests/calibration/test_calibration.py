"""Noise scales and sensitivities against the specification's figures and against sums computed here."""

from __future__ import annotations

import math
import tracemalloc
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from privol import PGIGA, PIGD
from privol.calibration import ReleaseSchedule
from privol.errors import InvalidParameter
from privol.geometry import Box, L1Ball, L2Ball, Simplex
from privol.guarantees import gdp_delta, gdp_epsilon, gdp_mu
from privol.losses import Custom, SmoothHinge, get_loss

MU_ONE = {"epsilon": 1.0, "delta": 0.1269367375066439}  # delta(1; 1): the budget of 1-GDP


def published(cls=PIGD, *, horizon, release="all", **parameters):
    learner = cls(calibration="published", fit_intercept=False, **parameters)
    return learner, learner.calibrate(1, horizon, release)


def strength(learner):
    """The source's L: Lipschitz constant of a row's regularised loss over the ball."""
    return get_loss(learner.loss).gradient_bound(learner.x_bound, learner.radius) + learner.l2 * learner.radius


# ---- the source's own noise ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("horizon", "epsilon", "delta", "ratio"),
    [
        (1000, 0.1, 1e-6, 1734.129865308236),
        (1000, 0.001, 1e-6, 17339.90075014779),
        (522911, 1.0, 0.01, 7017.226920688709),
        (522911, 20.0, 0.01, 1569.229857332305),
    ],
)
@pytest.mark.parametrize("cls", [PIGD, PGIGA])
def test_published_noise(cls, horizon, epsilon, delta, ratio):
    learner, plan = published(cls, horizon=horizon, release="last", epsilon=epsilon, delta=delta, l2=0.3, radius=2.0)
    factor = plan.schedule.gain / (2 * strength(learner))
    assert factor == pytest.approx(ratio, rel=1e-9)
    for row in (1, 17, horizon - 1):
        assert plan.std(row) == pytest.approx(plan.schedule.gain / row, rel=1e-15)
    assert plan.claim.epsilon == 3 * epsilon
    assert plan.claim.delta == 2 * delta
    assert plan.releases.last_row == horizon - 1


@pytest.mark.parametrize(
    ("horizon", "epsilon", "delta", "mu"),
    [
        (1000, 0.1, 1e-6, 0.01822640961952418),
        (522911, 1.0, 0.01, 0.1030499897224436),
        (522911, 20.0, 0.01, 0.4608153220372320),
    ],
)
def test_published_noise_with_the_sensitivity_of_the_source(horizon, epsilon, delta, mu):
    learner, plan = published(horizon=horizon, release="last", epsilon=epsilon, delta=delta)
    believed = math.sqrt(horizon - 1) * 2 * strength(learner) / plan.schedule.gain
    assert believed == pytest.approx(mu, rel=1e-9)


def test_the_source_claims_too_much_at_small_epsilon():
    learner, plan = published(horizon=1000, release="last", epsilon=0.001, delta=1e-6)
    believed = math.sqrt(999) * 2 * strength(learner) / plan.schedule.gain
    assert gdp_delta(0.003, believed) == pytest.approx(3.8051510e-5, rel=1e-6)


@pytest.mark.parametrize(
    ("l2", "epsilon", "true", "digits"),
    [
        (1.0, 1.0, 0.135, 3),
        (0.1, 1.0, 1.62, 2),
        (0.01, 1.0, 24.24, 2),
        (0.001, 1.0, 904, 0),
        (0.1, 0.1, 0.466, 3),
        (0.01, 0.1, 5.89, 2),
    ],
)
def test_published_pigd_has_the_proved_epsilon(l2, epsilon, true, digits):
    """The 1-d instance: gradients +-1, a regulariser half as steep at the boundary, so L = 1.5."""
    learner, plan = published(horizon=1000, epsilon=epsilon, delta=1e-6, loss="hinge", l2=l2, radius=0.5 / l2)
    assert strength(learner) == pytest.approx(1.5, rel=1e-12)
    assert plan.diameter == pytest.approx(2.0, rel=1e-9)
    assert gdp_epsilon(plan.mu, 2e-6) == pytest.approx(true, abs=0.6 * 10.0**-digits)
    sentence = learner.guarantee_of(plan, private=True, bit_source="x").sentence()
    assert "claims" in sentence
    assert ("more than was claimed" in sentence) == (true > 3 * epsilon)


def brute_published_gradient(plan, l2):
    """Worst row's path: 2 D / (alpha tau) at once, 2 D (tau - 1) / (alpha t (t - 1)) later, against noise gain / t."""
    rows = np.concatenate(list(plan.releases.chunks())).astype(float)
    rows = rows[rows >= plan.schedule.first]
    worst = 0.0
    for tau in range(plan.schedule.first, int(rows[-1]) + 1):
        t = rows[rows >= tau]
        s = np.where(t == tau, 2 * plan.diameter / (l2 * tau), 2 * plan.diameter * (tau - 1) / (l2 * t * (t - 1)))
        worst = max(worst, float(np.sum((s * t / plan.schedule.gain) ** 2)))
    return math.sqrt(worst)


@pytest.mark.parametrize("release", ["all", 7, [50, 51, 300], [2, 3], "last"])
def test_published_pgiga_has_the_proved_epsilon(release):
    l2 = 0.5
    _, plan = published(PGIGA, horizon=400, release=release, l2=l2, epsilon=1.0, delta=1e-5)
    assert plan.schedule.first == math.ceil(2 * (0.75 / 0.5) ** 2)
    rows = np.concatenate(list(plan.releases.chunks()))
    if rows.max() < plan.schedule.first:
        assert plan.mu == 0.0  # nothing depends on data yet
        return
    brute = brute_published_gradient(plan, l2)
    assert brute <= plan.mu <= brute * (1 + 1e-6)


def test_published_pgiga_path_factor():
    """Changes decay along the path, so mu is half of the sum of their initial sizes."""
    horizon = 10_001
    loss = SmoothHinge(width=1e6)  # almost no curvature: the burn-in is 3 rows
    _, plan = published(PGIGA, horizon=horizon, loss=loss, l2=1.0, epsilon=1.0, delta=1e-5)
    naive = math.sqrt(horizon - 1) * 2 * plan.diameter / plan.schedule.gain
    assert plan.mu / naive == pytest.approx(0.5001, abs=1e-4)


# ---- the proven noise ----------------------------------------------------------------------------


@pytest.mark.parametrize(("releases", "factor"), [(10, 13.35960767310321), (999, 133.5292619848020)])
def test_tight_noise_in_the_paper_shape(releases, factor):
    """Step offset near 0, so that sensitivities are D / (alpha t) as in the source."""
    learner = PIGD(
        loss="hinge",
        fit_intercept=False,
        epsilon=1.0,
        delta=1e-6,
        noise_shape="paper",
        step_offset=1e-4,
        l2=1.0,
        radius=1e4,
    )
    plan = learner.calibrate(1, 999, list(range(1000 - releases, 1000)))
    # below: the step offset; above: the charge for rounding, large here because the first step is
    assert factor * (1 - 1e-4) <= plan.schedule.gain / plan.diameter <= factor * (1 + 1e-3)


@pytest.mark.parametrize(
    ("shape", "total", "squares"),
    [("paper", 3822.8, 164455), ("lipschitz", 1582.5, 344.4), ("smooth", 2098.0, 122.99)],
)
def test_noise_shapes(shape, total, squares):
    learner = PIGD(loss="hinge", fit_intercept=False, x_bound=0.5, l2=1.0, radius=1.0, noise_shape=shape, **MU_ONE)
    plan = learner.calibrate(1, 100_000, "all")
    assert plan.mu == pytest.approx(1.0, abs=1e-9)
    assert plan.diameter == pytest.approx(1.0, rel=1e-9)
    _, std = plan.schedule.arrays(1, 1, 100_000)
    # the specification's figures to their digits, plus the charge for rounding at a horizon of 10^5
    assert total * (1 - 4e-5) <= np.sum(std) <= total * (1 + 3e-4)
    assert squares * (1 - 4e-5) <= np.sum(std**2) <= squares * (1 + 6e-4)


def test_each_noise_shape_optimises_its_objective():
    sums = {}
    for shape in ("paper", "lipschitz", "smooth"):
        _, std = PIGD(noise_shape=shape, **MU_ONE).calibrate(2, 5000, "all").schedule.arrays(1, 1, 5000)
        sums[shape] = float(np.sum(std)), float(np.sum(std**2))
    assert sums["lipschitz"][0] == min(a for a, _ in sums.values())
    assert sums["smooth"][1] == min(b for _, b in sums.values())


CONFIGURATIONS = [
    (PIGD, {}, "all"),
    (PIGD, {"noise_shape": "smooth", "l2": 1e-4}, 3),
    (PIGD, {"noise_shape": "paper", "radius": 30.0, "l2": 3.0}, [1, 5, 6, 250]),
    (PIGD, {"loss": "hinge", "adjacency": "zero_out"}, "last"),
    (PIGD, {"loss": "squared", "y_bound": 5.0, "l2_schedule": "inverse_sqrt"}, "all"),
    (PIGD, {"loss": "huber", "domain": L1Ball(3.0), "step_offset": 0.5}, 10),
    (PGIGA, {}, "all"),
    (PGIGA, {"loss": "squared", "domain": Box(-2.0, 1.0), "noise_shape": "smooth"}, 7),
    (PGIGA, {"loss": "logistic", "domain": Simplex(2.0), "l2_schedule": "inverse_sqrt", "l2": 0.7}, 7),
    (PGIGA, {"loss": "smooth_hinge", "step_offset": 1e4, "adjacency": "zero_out"}, 100),
]


@pytest.mark.parametrize(("cls", "parameters", "release"), CONFIGURATIONS)
def test_mu_of_the_schedule(cls, parameters, release):
    """Summed exactly: the noise's mu never exceeds the guarantee's, and is hardly smaller."""
    learner = cls(epsilon=0.7, delta=1e-5, **parameters)
    horizon, dim = 300, 4
    plan = learner.calibrate(dim, horizon, release)
    rows = np.concatenate(list(plan.releases.chunks()))
    squares = sum((Fraction(plan.sensitivity(int(t))) / Fraction(plan.std(int(t)))) ** 2 for t in rows)
    assert squares <= Fraction(plan.mu) ** 2
    assert math.sqrt(squares) >= plan.mu * (1 - 1e-9)
    assert gdp_delta(0.7, math.sqrt(squares)) <= 1e-5
    assert learner.guarantee_of(plan, private=True, bit_source="x").mu == plan.mu == gdp_mu(0.7, 1e-5)
    # the sensitivities themselves: D / A_t, not less, plus a little for rounding, at most the set's diameter
    loss, domain = get_loss(learner.loss), learner._domain()
    row_bound = math.sqrt(learner.x_bound**2 + 1)
    everywhere = cls is PIGD and not plan.constrained
    diameter = loss.gradient_diameter(
        row_bound, domain.norm_bound(dim + 1), learner.y_bound, learner.adjacency, everywhere=everywhere
    )
    assert plan.constrained <= isinstance(domain, L2Ball)
    start = learner.step_offset
    if start is None:
        start = 1.0 if cls is PIGD else loss.curvature * row_bound**2 / 2 / learner.l2
    cap = domain.diameter(dim + 1)
    for t in (1, 2, 3, 99, horizon):
        weight = learner.l2 * (start + (2 * math.sqrt(t) if learner.l2_schedule == "inverse_sqrt" else t))
        bound = diameter / weight
        assert plan.sensitivity(t) >= min(bound * (1 - 1e-11), cap)
        assert plan.sensitivity(t) <= min(bound * (1 + 1e-6), cap * (1 + 1e-11))
        assert plan.schedule.weight(t) == pytest.approx(weight, rel=1e-11)


def test_gradient_diameters_of_the_specification():
    def diameter(**parameters):
        return PIGD(**parameters).calibrate(2, 10).diameter

    assert diameter(fit_intercept=False) == pytest.approx(1.099095477064337, rel=1e-11)
    assert diameter(fit_intercept=False, radius=5.0) == pytest.approx(1.617278089061212, rel=1e-11)
    assert diameter(fit_intercept=False, loss="squared") == pytest.approx(2.598076211353316, rel=1e-11)
    assert diameter(fit_intercept=False, loss="squared", radius=5.0) == pytest.approx(6.46090815, rel=1e-8)
    # the intercept's constant counts: rows of norm up to sqrt(2)
    with_intercept = get_loss("logistic").gradient_diameter(math.sqrt(2), 1.0)
    assert diameter() == pytest.approx(with_intercept, rel=1e-11)
    assert diameter(loss="hinge", x_bound=3.0) == pytest.approx(2 * math.sqrt(10), rel=1e-11)
    assert diameter(fit_intercept=False, adjacency="zero_out") == pytest.approx(1 / (1 + math.exp(-1)), rel=1e-11)


def test_the_last_release_is_one_gaussian_mechanism():
    """1 / mu(1, 1e-6) from the specification, computed again for a run that ends early."""
    plan = PIGD(epsilon=1.0, delta=1e-6).calibrate(5, 10_000)
    for row, std in ((10_000, plan.std(10_000)), (1, plan.last_std(1)), (137, plan.last_std(137))):
        assert std / plan.sensitivity(row) == pytest.approx(4.224678889326835, rel=1e-10)
        assert plan.sensitivity(row) / std <= mpmath.mpf("0.2367043806634357") * (1 + mpmath.mpf("1e-15"))


def test_noise_follows_the_budget_and_the_bounds():
    base = PIGD().calibrate(3, 1000).std(1000)
    assert PIGD(epsilon=0.1).calibrate(3, 1000).std(1000) / base == pytest.approx(36.30469042619578 / 4.224678889326835)
    assert PIGD(x_bound=2.0).calibrate(3, 1000).std(1000) > base
    assert PIGD(radius=2.0).calibrate(3, 1000).std(1000) > base
    assert PIGD(l2=0.001).calibrate(3, 1000).std(1000) > 5 * base
    assert PIGD(adjacency="zero_out").calibrate(3, 1000).std(1000) < base
    assert PIGD().calibrate(3, 1000, "all").std(1000) > 5 * base
    assert PIGD(epsilon=math.inf).calibrate(3, 1000).std(1000) == 0.0
    assert PIGD(epsilon=math.inf).calibrate(3, 1000).mu == math.inf


def test_sensitivity_is_capped_by_the_set():
    """Plus the rounding of both ends: a computed iterate may lie slightly outside."""
    plan = PIGD(l2=1e-6, radius=0.5).calibrate(3, 100)
    assert 1.0 < plan.sensitivity(1) == plan.sensitivity(100) <= 1 + 1e-11


# ---- cost ----------------------------------------------------------------------------------------


def test_releases_at_every_row_calibrate_in_flat_memory():
    peaks = []
    for horizon in (200_000, 1_000_000):
        tracemalloc.start()
        plan = PIGD().calibrate(10, horizon, "all")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert plan.releases.count == horizon
    assert peaks[1] < 8e6
    assert peaks[1] < 1.2 * peaks[0]


def test_horizon_of_any_size_for_a_single_release():
    plan = PIGD().calibrate(10, 1 << 40)
    assert 0 < plan.std(1 << 40) < math.inf
    assert plan.sensitivity(1 << 40) > PIGD().calibrate(10, 1 << 40).diameter / (0.01 * 2**40)


# ---- release schedules ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("release", "rows"),
    [
        ("all", range(1, 11)),
        ("last", [10]),
        (3, [3, 6, 9]),
        (10, [10]),
        ([2, 9], [2, 9]),
        (np.array([1, 10]), [1, 10]),
        ((4,), [4]),
    ],
)
def test_release_rows(release, rows):
    schedule = ReleaseSchedule.of(release, 10)
    assert [int(t) for part in schedule.chunks() for t in part] == list(rows)
    assert schedule.count == len(list(rows))
    assert schedule.only_last == (release in ("last",) if isinstance(release, str) else False) or release == 10


@pytest.mark.parametrize("release", [[], [0], [3, 3], [5, 4], [11], [1.5], 0, -1, 11, 2.0, "every", True, None, {3}])
def test_release_refuses(release):
    with pytest.raises(InvalidParameter, match="release"):
        ReleaseSchedule.of(release, 10)


# ---- refusals ------------------------------------------------------------------------------------

KINK = Custom(
    value=lambda p, y: abs(p - y),
    gradient=lambda p, y: float(np.sign(p - y)),
    lipschitz=1.0,
    smoothness=math.inf,
    kind="regression",
)


@pytest.mark.parametrize(
    ("cls", "parameters", "match"),
    [
        (PGIGA, {"loss": "hinge"}, "kink"),
        (PGIGA, {"loss": "absolute"}, "kink"),
        (PGIGA, {"loss": KINK}, "kink"),
        (PIGD, {"loss": "squared", "domain": Box()}, "grows without bound"),
        (PIGD, {"loss": "squared", "domain": L1Ball()}, "grows without bound"),
        (PIGD, {"loss": "squared", "domain": Simplex()}, "grows without bound"),
        (PIGD, {"calibration": "published", "delta": 0.2707}, "delta"),
        (PIGD, {"calibration": "published", "l2_schedule": "inverse_sqrt"}, "l2_schedule"),
        (PIGD, {"calibration": "published", "step_offset": 1.0}, "step_offset"),
        (PIGD, {"calibration": "published", "adjacency": "zero_out"}, "adjacency"),
        (PIGD, {"calibration": "published", "domain": Box()}, "domain"),
        (PIGD, {"calibration": "published", "noise_shape": "smooth"}, "noise_shape"),
        (PGIGA, {"step_offset": 0.49 * 0.25 * 2 / 0.01}, "step_offset"),
        (PIGD, {"step_offset": 0.0}, "step_offset"),
        (PIGD, {"step_offset": math.nan}, "step_offset"),
        (PIGD, {"l2": 0.0}, "l2"),
        (PIGD, {"l2": -1.0}, "l2"),
        (PIGD, {"l2": math.inf}, "l2"),
        (PIGD, {"epsilon": 0.0}, "epsilon"),
        (PIGD, {"epsilon": math.nan}, "epsilon"),
        (PIGD, {"epsilon": "1"}, "epsilon"),
        (PIGD, {"delta": 0.0}, "delta"),
        (PIGD, {"delta": 1.0}, "delta"),
        (PIGD, {"radius": 0.0}, "radius"),
        (PIGD, {"radius": math.inf}, "radius"),
        (PIGD, {"radius": True}, "radius"),
        (PIGD, {"domain": "ball"}, "domain"),
        (PIGD, {"domain": Box([0.0], [1.0])}, "coordinates"),
        (PIGD, {"x_bound": 0.0}, "x_bound"),
        (PIGD, {"x_bound": 1e51}, "x_bound"),
        (PIGD, {"y_bound": -1.0}, "y_bound"),
        (PIGD, {"adjacency": "add"}, "adjacency"),
        (PIGD, {"noise_shape": "flat"}, "noise_shape"),
        (PIGD, {"calibration": "loose"}, "calibration"),
        (PIGD, {"l2_schedule": "sqrt"}, "l2_schedule"),
        (PIGD, {"loss": "cubic"}, "loss"),
        (PIGD, {"loss": None}, "loss"),
    ],
)
def test_refusals(cls, parameters, match):
    with pytest.raises(InvalidParameter, match=match):
        cls(**parameters).calibrate(3, 100)


@pytest.mark.parametrize(("n_features", "horizon"), [(0, 10), (3, 0), (3, 2.5), (3, (1 << 52) + 1)])
def test_sizes_out_of_range(n_features, horizon):
    with pytest.raises(InvalidParameter):
        PIGD().calibrate(n_features, horizon)


def test_least_step_offset_is_accepted_and_named():
    with pytest.raises(InvalidParameter, match=r"at least 25\.?0*\d* "):
        PGIGA(step_offset=24.9).calibrate(3, 100)
    assert PGIGA(step_offset=25.001).calibrate(3, 100).schedule.weight(0) == pytest.approx(0.25001)


def test_published_needs_two_rows():
    with pytest.raises(InvalidParameter, match="horizon"):
        PIGD(calibration="published").calibrate(3, 1)
