"""Scales, factors and bounds in exact arithmetic, over so many budgets that rounding to nearest would be detected.

The proofs need ``sensitivity <= mu scale`` for the numbers as computed. Each figure is compared with the exact one, so
a missing outward factor is detected, and so are missing charges that matter only in rows of very many columns.
"""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from problems import calibrated

from privol import LDPSGD, PGIGA, PIGD, BanditMIOGD
from privol.calibration import _iterates as iterates
from privol.calibration import (
    betting_of,
    bounds_of_values,
    calibrate_average,
    calibrate_gradients,
    calibrate_iterates,
    calibrate_network,
    calibrate_objective,
    calibrate_output,
    calibrate_report,
    calibrate_wrapped,
    experts_of,
)
from privol.calibration._caps import cap_of
from privol.calibration._offline import ball_of
from privol.calibration._problem import Budget
from privol.calibration._reports import gaussian_leakage_std
from privol.calibration._sums import _recursion
from privol.factorizations import SquareRoot
from privol.geometry import L2Ball
from privol.losses import Hinge, Logistic, Squared

UNIT = Fraction(1, 1 << 53)
WIDE = (1 << 20) + 16
BOUNDS = {"x_bound": 1.0, "y_bound": 1.0}
BUDGETS = np.random.default_rng(5).uniform(0.05, 8.0, size=40).tolist()


def lanes(n):
    """Roundings of a sum over columns: docs/proofs/iterates.md, section 4."""
    return Fraction(n, 8) + 8


def covers(scale, budget, sensitivity):
    """Whether noise of a scale keeps a budget, exactly."""
    return Fraction(scale) * Fraction(budget) >= Fraction(sensitivity)


# ---- noise by the budget ------------------------------------------------------------------------------------------


def test_noise_of_reports_covers_their_sensitivity():
    for epsilon in BUDGETS:
        gaussian = calibrate_report("gaussian", dim=3, epsilon=epsilon, delta=1e-6)
        assert covers(gaussian.scale, gaussian.mu, gaussian.sensitivity)
        stated = calibrate_report("gaussian", dim=3, sigma=epsilon)
        assert covers(epsilon, stated.mu, stated.sensitivity)
        assert covers(calibrate_report("l2laplace", dim=3, epsilon=epsilon).scale, epsilon, gaussian.sensitivity)
        laplace = calibrate_report("laplace", dim=3, epsilon=epsilon)
        assert (Fraction(laplace.scale) * Fraction(epsilon)) ** 2 >= 3 * Fraction(laplace.sensitivity) ** 2


@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
def test_reports_of_wide_vectors_pay_for_their_clip(adjacency):
    """The proof's ``(d + 64)`` units, which are far above every margin with this many coordinates."""
    words = {"dim": WIDE, "bound": 1.5, "adjacency": adjacency}
    longest = Fraction(3, 2) * (1 + (WIDE + 64) * UNIT)
    plan = calibrate_report("gaussian", mu=1.0, **words)
    assert Fraction(plan.sensitivity) >= longest * (2 if adjacency == "replace" else 1)
    leaky = calibrate_report("gaussian", leakage=0.5, **words)
    with mpmath.workprec(120):
        wanted = mpmath.mpf(longest.numerator) / longest.denominator
        wanted /= mpmath.sqrt(WIDE * mpmath.expm1(mpmath.mpf(1) / WIDE))
        assert leaky.scale >= wanted


def test_noise_for_a_leakage_is_rounded_up():
    with mpmath.workprec(120):
        for leakage in BUDGETS:
            exact = 1 / mpmath.sqrt(5 * mpmath.expm1(2 * mpmath.mpf(leakage) / 5))
            assert exact <= gaussian_leakage_std(leakage, dim=5) <= exact * (1 + 1e-12)


def test_thresholds_of_caps_are_rounded_down():
    with mpmath.workprec(200):
        for epsilon in [*BUDGETS, *(np.array(BUDGETS) * 1e-3).tolist()]:
            cap = cap_of(epsilon, 2, half=True)
            assert mpmath.log(mpmath.mpf(2**64) / (2**64 - cap.threshold)) <= epsilon
            coin = cap_of(epsilon, 1, half=True)
            assert mpmath.log(mpmath.mpf(2**63 + coin.threshold) / (2**63 - coin.threshold)) <= epsilon


def test_noise_of_iterates_covers_their_sensitivity():
    """One release, or a few: the sum of their squared costs is at most the budget's."""
    for epsilon in BUDGETS:
        last = PIGD(epsilon=epsilon, delta=1e-6).calibrate(3, 50, "last")
        assert covers(last.std(50), last.mu, last.sensitivity(50))
        assert covers(last.last_std(31), last.mu, last.sensitivity(31))
        few = PGIGA(epsilon=epsilon, delta=1e-6, noise_shape="paper").calibrate(3, 40, 10)
        square = sum((Fraction(few.sensitivity(t)) / Fraction(few.std(t))) ** 2 for t in (10, 20, 30, 40))
        assert square <= Fraction(few.mu) ** 2


@pytest.mark.parametrize("shape", ["lipschitz", "smooth", "paper"])
def test_noise_of_declared_sensitivities_covers_them(shape):
    releases = iterates.ReleaseSchedule.of(2, 10)
    for epsilon in BUDGETS:
        budget = Budget(epsilon=epsilon, delta=1e-6)
        plan = calibrate_wrapped(budget, releases, lambda t: 1.0 / t, dim=3, radius=5.0, noise_shape=shape)
        pairs = zip(plan.sensitivities.tolist(), plan.stds.tolist(), strict=True)
        assert sum((Fraction(s) / Fraction(std)) ** 2 for s, std in pairs) <= Fraction(plan.mu) ** 2


def test_projecting_declared_iterates_is_charged():
    """Both runs are scaled into the ball: two lanes of rounding each, far above every margin for wide iterates."""
    releases = iterates.ReleaseSchedule.of("last", 10)
    plan = calibrate_wrapped(Budget(epsilon=1.0, delta=1e-6), releases, lambda t: 1e-9, dim=WIDE, radius=5.0)
    assert Fraction(float(plan.sensitivities[0])) >= Fraction(1e-9) + 2 * 5 * 2 * (lanes(WIDE) + 8) * UNIT


OFFLINE = {"loss": Logistic(), "dim": 3, "intercept": False, "n": 100, "adjacency": "replace", "l2": 0.1, **BOUNDS}


def test_noise_of_minimisers_covers_their_sensitivity():
    for epsilon in BUDGETS:
        plan = calibrate_output(epsilon=epsilon, delta=1e-6, **OFFLINE)
        assert covers(plan.scale, plan.mu, plan.sensitivity)
        pure = calibrate_output(epsilon=epsilon, delta=0.0, **OFFLINE)
        assert covers(pure.scale, epsilon, pure.sensitivity)
        noisy = calibrate_objective(epsilon=epsilon, delta=0.0, **OFFLINE)
        assert covers(noisy.final_scale, noisy.epsilon_final, 2 * Fraction(noisy.error))
        assert Fraction(noisy.epsilon_objective) + Fraction(noisy.epsilon_final) <= Fraction(epsilon) * (1 + UNIT)


def test_noise_of_averages_covers_their_sensitivity():
    words = {"loss": Hinge(), "domain": L2Ball(1.0), "dim": 2, "horizon": 50, "l2": 0.1}
    for epsilon in BUDGETS:
        plan = calibrated(calibrate_average, epsilon=epsilon, delta=1e-6, **words)
        assert covers(plan.scale, plan.mu, plan.sensitivity)
        assert covers(plan.scale_after(31), plan.mu, plan.sensitivity_after(31))


@pytest.mark.parametrize("randomizer", ["gaussian", "l2laplace"])
def test_all_uses_of_a_row_stay_within_the_budget(randomizer):
    words = {"domain": L2Ball(1.0), "dim": 2, "gradient_bound": 1.0, "nodes": 2, "batch": 1, "release": "all"}
    for uses, epsilon in zip(range(2, 42), BUDGETS, strict=True):
        plan = calibrated(
            calibrate_network, randomizer=randomizer, horizon=30 * uses, epochs=uses, epsilon=epsilon, delta=1e-6,
            **words,
        )  # fmt: skip
        if randomizer == "gaussian":
            cost = Fraction(plan.report.sensitivity) / Fraction(plan.report.scale)
            assert uses * cost**2 <= Fraction(plan.mu) ** 2
        else:
            assert covers(plan.report.scale, epsilon, uses * Fraction(plan.report.sensitivity))


# ---- users --------------------------------------------------------------------------------------------------------


def test_pure_reports_of_a_users_rows_cost_their_number():
    for kind, words in ((LDPSGD, {"randomizer": "privunit"}), (BanditMIOGD, {"randomizer": "laplace"})):
        plan = kind(epsilon=1.0, **words).calibrate(3, 100)
        assert (plan.user_factor(4, 1), plan.user_factor(9, 7)) == (4.0, 9.0)
    gaussian = LDPSGD(randomizer="gaussian", epsilon=1.0, delta=1e-6).calibrate(3, 100)
    assert gaussian.user_factor(9, 7) == 3.0


# ---- wide rows, points far away -----------------------------------------------------------------------------------

WORST = {"domain": L2Ball(1e3), "dim": WIDE, "horizon": 10, "epsilon": 1.0, "delta": 1e-6, "loss": Squared()}


def test_gradients_are_bounded_where_points_are_as_computed():
    """A point is projected and predicted with rounding that matters here: docs/proofs/gradients.md, section 4."""
    loss, radius = Squared(), 1000
    plan = calibrated(calibrate_gradients, release="all", l2=0.0, **WORST)
    point = radius * (1 + 2 * (lanes(WIDE) + 16 * Fraction(math.sqrt(WIDE)) + 24) * UNIT)
    exact = Fraction(loss.gradient_diameter(1.0, float(point), 1.0, "replace"))
    exact *= 1 + 4 * (lanes(WIDE) + 8) * UNIT  # rows are scaled, and gradients quadratic in them
    exact += 4 * lanes(WIDE) * UNIT * point  # slopes are taken at predictions as computed
    exact += 2 * (lanes(WIDE) + 32) * UNIT * Fraction(plan.bound)  # slope, factor and product round, in both runs
    assert exact <= Fraction(plan.sum_sensitivity) <= exact * (1 + Fraction(1, 10**10))


@pytest.mark.parametrize(("weights", "offset"), [("constant", 1e4), ("inverse_sqrt", 1.0)])
def test_constrained_steps_are_charged_for_rounding_of_the_iterate(weights, offset):
    """E_t of docs/proofs/iterates.md, section 4, in exact arithmetic, for a loss whose slope moves with the iterate."""
    t, radius, l2, dim = 3000, 5, 1e-3, 6
    plan = calibrated(
        calibrate_iterates,
        update="implicit", release="last", l2=l2, l2_schedule=weights, step_offset=offset,
        **WORST | {"domain": L2Ball(5.0), "dim": dim, "horizon": t},
    )  # fmt: skip
    assert plan.constrained
    weight = [Fraction(plan.schedule.weight(i)) for i in range(t + 1)]
    gradient, refresh = Fraction(radius + 1), 64
    drift, fixed = refresh * (4 * lanes(dim) + 12), Fraction(3, 2) * refresh + 6 * lanes(dim) + 40
    total = fixed * radius * sum(weight[1:]) + (drift + lanes(dim) + 32) * weight[1] / weight[0] * gradient * t
    total += drift * radius * 2 * refresh * weight[2 * refresh]
    # the slope is taken at an iterate that has all these errors: curvature 1, rows of norm 1
    total += fixed * radius * t + drift * (2 * refresh * radius + gradient * sum(1 / a for a in weight[:-1]))
    assert Fraction(plan.schedule.rounding(t)) * weight[t] >= 2 * total * UNIT


def test_rounding_may_put_iterates_outside_their_ball():
    """Gradients are bounded over the ball that contains computed iterates, and so is the diameter of the set."""
    plan = calibrated(calibrate_iterates, update="implicit", release="last", l2=1.0, **WORST)
    refresh = 64 * -(-WIDE // 1024)
    outside = (Fraction(3, 2) * refresh + refresh * (4 * lanes(WIDE) + 12) + 6 * lanes(WIDE) + 40) * UNIT
    ball = float(1000 * (1 + outside))
    assert plan.diameter >= Squared().gradient_diameter(1.0, ball, 1.0, "replace")
    assert plan.law.cap >= 2 * ball


def test_published_gradient_steps_are_charged_for_their_roundings():
    words = {"update": "gradient", "l2": 1.0, "release": "all", "calibration": "published", "loss": Logistic()}
    plan = calibrated(calibrate_iterates, **WORST | {"horizon": 30, "domain": L2Ball(1.0)} | words)
    rows = [t for t in range(1, 30) if t >= plan.schedule.first]
    gain = plan.schedule.gain
    later = [sum(1.0 / (s - 1.0) ** 2 for s in rows if s > t) for t in rows]
    path = max(math.sqrt(1.0 + (t - 1.0) ** 2 * rest) for t, rest in zip(rows, later, strict=True))
    extra = math.sqrt(sum((plan.schedule.rounding(t) * t / gain) ** 2 for t in rows))
    path *= 2.0 * plan.diameter / gain  # l2 is 1
    assert extra > 1e-7 * path  # above the margin
    assert plan.mu >= path + extra


def test_the_published_schedule_ends_before_its_last_row():
    plan = PIGD(calibration="published", epsilon=1.0, delta=1e-6).calibrate(3, 50, [7, 50])
    assert plan.releases.rows.tolist() == [7]


@pytest.mark.parametrize(("decay", "each"), [(1.0, 4), (0.999, 5)])
def test_products_of_the_square_root_are_charged_for_every_rounding(decay, each):
    """docs/proofs/recursions.md, section 3: rounding of each coefficient, of each product and of their sum."""
    for steps in (1, 10, 1000):
        design = SquareRoot(steps, decay=decay)
        coefficients = sum(map(Fraction, design.coefficients().tolist()))
        assert _recursion(design)[1] >= ((each + 1) * steps + 1) * UNIT * coefficients


# ---- many releases ------------------------------------------------------------------------------------------------


def fastest(every, horizon, gain=1.0):
    """Terms that grow as fast as possible: rounding that grows with the rows, noise that falls with them."""
    unit = iterates.Schedule(
        kind=0, a0=1e9, l2=1e-3, first=1, diameter=0.0, rounding=(0.0, 1.0, 0.0), cap=math.inf, shape=0, gain=gain
    )
    return unit, iterates.ReleaseSchedule.of(every, horizon)


def test_groups_of_an_octave_are_charged_for_their_growth(monkeypatch):
    """Counting each group as its first term alone would be too little, by 4 / 2^20 of it, the span of a group here."""
    unit, releases = fastest(2, 1 << 23)
    exact = iterates._weighted_sum(unit, releases)
    monkeypatch.setattr(iterates, "_TERMS", 1 << 20)
    assert exact <= iterates._weighted_sum(unit, releases) <= exact * (1.0 + 4e-5)


# ---- regret -------------------------------------------------------------------------------------------------------


def test_bets_count_the_noise_of_the_zero_vector():
    """For caps, shorter vectors have more noise, and a gradient may be zero."""
    report = calibrate_report("privunit", dim=5, epsilon=2.0)
    betting = betting_of(report, theta=0.25, proxy="hoeffding", calibration="tight")
    assert betting.second_moment == report.scale**2 > report.variance(report.bound)


def test_the_interval_of_values_holds_every_loss():
    for loss, ends in ((Logistic(), (-1.0, 1.0)), (Squared(), (-2.0, 0.3, 2.0))):
        low, high = bounds_of_values(loss, most=3.0, y_bound=2.0)
        values = [float(loss.value(p, y)) for p in np.linspace(-3.0, 3.0, 41) for y in ends]
        assert low <= min(values)
        assert max(values) <= high <= max(values) * (1 + 1e-11)


def test_rates_of_experts_minimise_their_bounds():
    """``log(1 / prior) / speed + 2 speed``, for experts whose weight at the start is below 1 / e."""
    report = calibrate_report("gaussian", dim=5, epsilon=2.0, delta=1e-6)
    betting = betting_of(report, theta=0.25, proxy="numerical", calibration="tight")
    experts = experts_of(betting, smallest=0.01, largest=1000.0)
    for log_prior, speed in zip(experts.log_prior, experts.speeds, strict=True):
        assert log_prior < -1.0

        def bound(rate, size=-log_prior):
            return size / rate + 2.0 * rate

        assert bound(speed) <= min(bound(0.99 * speed), bound(1.01 * speed))


def test_the_ball_of_several_outputs_holds_all_their_minimisers():
    assert ball_of(0.5, 3.0, 4) == 0.5
    for outputs in range(1, 200):
        assert Fraction(ball_of(None, 3.0, outputs)) ** 2 >= 9 * outputs
