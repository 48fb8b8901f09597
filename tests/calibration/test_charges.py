"""Charges for rounding, against exact arithmetic: on the worst rows if these can be constructed, otherwise as proved.

Numbers are chosen so that the charge is far above the margin that every figure has anyway: wide rows, long streams,
distant points. A charge that is omitted, or made once where two runs round, is too small here.
"""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from problems import calibrated

from privol import NOGD, PIGD
from privol._core._rows import squared_norms
from privol._core._schedule import Schedule
from privol.calibration import (
    calibrate_average,
    calibrate_gradients,
    calibrate_iterates,
    calibrate_leaders,
    calibrate_network,
    calibrate_objective,
    calibrate_output,
    calibrate_sums,
)
from privol.calibration._sums import _recursion
from privol.factorizations import BLT, factorization
from privol.geometry import L1Ball, L2Ball
from privol.losses import Hinge, Logistic, Softmax
from privol.prefix import PrefixSum

UNIT = Fraction(1, 1 << 53)
WIDE = (1 << 20) + 16
BUDGET = {"epsilon": 1.0, "delta": 1e-6, "adjacency": "replace"}
BOUNDS = {"x_bound": 1.0, "y_bound": 1.0}
OFFLINE = {"loss": Logistic(), "intercept": False, "n": 1000, "l2": 0.1, **BUDGET, **BOUNDS}
STEPS = {"intercept": False, "l2_schedule": "constant", "step_offset": None, "noise_shape": "lipschitz",
         "calibration": "tight", **BUDGET, **BOUNDS}  # fmt: skip


def lanes(n):
    """Rounding of a sum over columns: docs/proofs/iterates.md, section 4."""
    return Fraction(n, 8) + 8


# ---- rows, points and gradients -----------------------------------------------------------------------------------


def test_rows_may_be_longer_than_their_computed_norms():
    """Squares that are lost one by one, each half a unit of its lane's sum: the row seems to be within its bound."""
    row = np.full(WIDE, 2.0**-28)
    row[:16] = 0.25
    assert squared_norms(row[None])[0] == 1.0
    square = 1 + Fraction(WIDE - 16, 1 << 56)
    assert Fraction(calibrate_output(dim=WIDE, **OFFLINE).row_bound) ** 2 >= square
    assert Fraction(calibrate_objective(dim=WIDE, **OFFLINE).row_bound) ** 2 >= square
    ball = {"loss": Hinge(), "domain": L2Ball(1.0), "dim": WIDE, "horizon": 10, "release": "last", "l2": 1.0}
    steps = calibrated(calibrate_iterates, update="implicit", **ball, **STEPS)
    assert Fraction(steps.diameter) ** 2 >= 4 * square  # opposite rows, slopes of 1
    sums = calibrate_sums(factorization=factorization("blt", 4), dim=WIDE, bound=1.0, **BUDGET)
    assert Fraction(sums.sensitivity) ** 2 >= 4 * square


def test_points_that_are_scaled_to_the_radius_move_apart():
    """Two nearly equal points: in one all squares are rounded up by a unit, in the other they are lost."""
    dim, radius = (1 << 17) + 16, 1.0 - 2.0**-10
    ends = []
    for nudge in (1.0 + 2.0**-40, 1.0 - 2.0**-40):
        point = np.full(dim, 2.0**-28 * nudge)
        point[:16] = 0.25
        norm = math.sqrt(squared_norms(point[None])[0])
        assert norm > radius
        ends += [point, point * (radius / norm)]
    apart = float(np.linalg.norm(ends[1] - ends[3]) - np.linalg.norm(ends[0] - ends[2]))
    assert apart > 1e-12
    words = {**OFFLINE, "n": 1 << 50, "l2": 1.0, "gradient_norm": 1e-9}  # almost no sensitivity except for the scaling
    bare, scaled = (calibrate_output(dim=dim, radius=r, **words).sensitivity for r in (None, radius))
    assert scaled - bare >= apart


@pytest.mark.parametrize("dim", [3, 4096])
def test_slopes_are_taken_at_predictions_as_computed(dim):
    """docs/proofs/gradients.md, section 4: predictions err by 2 lanes units, slopes by the curvature times that."""
    radius, loss = 1e6, Logistic()
    plan = calibrated(
        calibrate_gradients,
        loss=loss, domain=L2Ball(radius), dim=dim, horizon=10, release="all", l2=0.0, intercept=False, **BUDGET,
        **BOUNDS,
    )  # fmt: skip
    exact = Fraction(loss.gradient_diameter(1.0, radius, 1.0, "replace"))
    exact += 2 * Fraction(loss.curvature) * 2 * lanes(dim) * UNIT * int(radius)
    assert exact <= Fraction(plan.sum_sensitivity) <= exact * (1 + Fraction(1, 10**11))


def test_gradients_of_many_classes_are_charged_for_every_product():
    """docs/proofs/classes.md: four more roundings for every further class, here more than any margin."""
    outputs, dim = 1 << 14, 1 << 15
    plan = calibrated(
        calibrate_leaders,
        loss=Softmax(), domain=L2Ball(1.0), dim=dim, horizon=4, design="blt", l2=0.0, batch=1, outputs=outputs,
        release="all", gradient_bound=1.0, intercept=False, regularization=1.0, **BUDGET, **BOUNDS,
    )  # fmt: skip
    limit = 4 * (Fraction(dim, 8) + 16)
    assert Fraction(plan.sums.sensitivity) >= 2 * (1 + (limit + 40 + 4 * (outputs - 1)) * UNIT)


# ---- sums ---------------------------------------------------------------------------------------------------------


def test_rounding_in_a_batch_separates_two_runs():
    """One gradient differs by 2. With one sum above 2^9 and the other below, the same terms round differently."""
    sums = [1.0, -1.0]
    unit = 2.0**-43  # the unit of doubles from 2^9 on
    added = [1.0] * 511
    # slightly more than halfway to the next double: rounded up in the coarse binade, hardly at all in the fine one
    for _ in range(256):
        added += [0.25 + unit / 2 + unit / 8, -(0.25 + unit / 2 - unit / 8)]
    batch = 1 + len(added)
    for v in added:
        sums = [s + v for s in sums]
    apart = Fraction(sums[0]) - Fraction(sums[1])
    assert apart > 2 + Fraction(1, 1 << 36)
    plan = calibrated(
        calibrate_network,
        randomizer="gaussian", domain=L2Ball(1.0), dim=1, gradient_bound=1.0, nodes=1, batch=batch,
        horizon=batch, release="all", **BUDGET,
    )  # fmt: skip
    assert Fraction(plan.report.sensitivity) >= apart


def test_rounding_persists_in_buffers():
    """A buffer with slow decay, over many steps, in exact arithmetic: far more than the rounding of one sum."""
    steps, theta, omega = 20_000, 1.0 - 2.0**-17, 0.5
    error = _recursion(BLT(steps, theta=(theta,), omega=(omega,)))[1]
    buffer, worst = 0.0, 0.0
    with mpmath.workprec(150):
        exact = mpmath.mpf(0)
        for k in range(steps):
            row = 1.0 - 2.0**-20 * (k % 7)
            if k % 1000 == 999:
                worst = max(worst, float(abs(mpmath.mpf(row + omega * buffer) - (row + omega * exact))))
            buffer, exact = theta * buffer + row, theta * exact + row
    reach = 1.0 / (1.0 - theta)
    gain = 1.0 + omega * min(reach, steps - 1.0)
    assert worst > 2 * 2 * gain * 2.0**-53  # two roundings of the sum, in both runs
    assert worst <= error


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("a0", [0.0, 3.0])
def test_the_computed_sum_of_step_weights_is_an_upper_bound(kind, a0):
    """What the rounding after row t is proportional to, if weights grow like t or like its root."""
    words = {"first": 1, "diameter": 0.0, "cap": math.inf, "shape": 1, "gain": 0.0}
    schedule = Schedule(kind=kind, a0=a0, l2=0.7, rounding=(0.0, 0.0, 1.0), **words)
    total = 0.0
    for t in range(1, 400):
        total += schedule.weight(t)
        found = schedule.rounding(t) * schedule.weight(t)
        assert total * (1 - 1e-12) <= found <= total * (1.0 + (3.0 / t if kind else 1e-12))


# ---- iterates and their averages ----------------------------------------------------------------------------------


@pytest.mark.parametrize("ball", [True, False])
def test_rounding_is_charged_for_both_runs_of_iterates(ball):
    """E_t of docs/proofs/iterates.md, section 4, in exact arithmetic: twice the sum of the errors of all updates."""
    dim, t, radius, l2 = 6, 3000, 5.0, 0.01
    found = calibrated(
        calibrate_iterates,
        update="implicit", loss=Hinge(), domain=L2Ball(radius) if ball else L1Ball(radius), dim=dim, horizon=t,
        release="last", l2=l2, **STEPS,
    )  # fmt: skip
    weights = [Fraction(l2) * (1 + i) for i in range(t + 1)]
    if ball:
        refresh, r = 64, Fraction(radius)
        drift = refresh * (12 + 4 * lanes(dim))
        total = (Fraction(3, 2) * refresh + 6 * lanes(dim) + 40) * r * sum(weights[1:])
        total += (drift + lanes(dim) + 32) * weights[1] / weights[0] * t  # rows of norm 1, slopes of 1
        total += drift * r * 2 * refresh * weights[4 * refresh]
    else:
        sets = 16 * Fraction(math.sqrt(dim)) + 16
        total = (2 * lanes(dim) + 20 + sets) * Fraction(radius) * sum(weights[1:])
        total += (lanes(dim) + 36 + sets) * weights[1] / weights[0] * t
    charged = Fraction(found.schedule.rounding(t)) * Fraction(found.schedule.weight(t))
    assert 2 * total * UNIT <= charged * (1 + Fraction(1, 10**9)) <= 2 * total * UNIT * Fraction(102, 100)


@pytest.mark.parametrize("features", [3, 1100])
def test_norms_are_recomputed_as_often_as_charged(features):
    """The drift of an iterate's norm grows with the rows since it was recomputed (docs/proofs/iterates.md)."""
    rows = np.random.default_rng(2).normal(size=(300, features)) / math.sqrt(features)
    learner = PIGD(epsilon=math.inf, horizon=300, release="last", radius=0.1).declare_classes([0, 1])
    refresh, scales = learner.calibrate(features, 300).refresh, []
    for row in rows:
        learner.partial_fit(row[None], [1])
        scales.append(float(learner._run.state.secret_arrays()["scale_norm"][0]))
    assert refresh == (64 if features < 1024 else 128)
    summed = {t for t in range(1, 301) if scales[t - 1] == 1.0}
    assert summed >= set(range(refresh, 301, refresh))
    assert len(summed) < 10  # elsewhere a factor may be 1 by chance


def test_the_spent_budget_is_exact_to_the_last_digit():
    """For many releases, none of which costs a round number."""
    n = 20_000
    learner = PIGD(horizon=n, release="all", random_state=0, fit_intercept=False, noise_shape="smooth")
    learner.partial_fit(np.zeros((n, 1)), np.zeros(n), classes=[0, 1])
    plan = learner._run.plan
    costs = (plan.sensitivity(t) / plan.std(t) for t in range(1, n + 1))
    exact = sum(Fraction(cost * cost) for cost in costs)
    total, rest = (Fraction(part) for part in learner._run.state.secret_arrays()["spent"].tolist())
    unit = Fraction(math.ulp(float(exact)))
    assert abs(total - exact) <= unit
    assert abs(total - rest - exact) <= unit / 1000  # the next release continues from this


def average_of(horizon, l2, radius, weights, **users):
    return calibrated(
        calibrate_average,
        loss=Hinge(), domain=L2Ball(radius), dim=1, intercept=False, horizon=horizon, l2=l2, weights=weights, **BUDGET,
        **BOUNDS, **users,
    )  # fmt: skip


def test_rounding_of_a_running_sum_separates_two_runs():
    """Adjacent points, each halfway between two doubles of the sum: one run rounds up, the other down."""
    horizon = 4096
    up = down = 8.0
    ideal = Fraction(0)
    for _ in range(horizon):
        half = math.ulp(up) / 2
        points = 0.75 + half + 2.0**-53, 0.75 + half - 2.0**-53
        ideal += Fraction(points[0]) - Fraction(points[1])
        up, down = up + points[0], down + points[1] if math.ulp(down) == 2 * half else down + 0.75
    apart = float((Fraction(up) - Fraction(down) - ideal) / horizon)
    assert apart > 0.3 * horizon * 2.0**-53
    plan = average_of(horizon, 1e6, 1.0, "uniform")
    each, _ = plan.schedule.arrays(1, 1, horizon - 1)
    mean = float(np.sum(each)) / horizon  # of the changes of iterates, the first of which is 0
    assert plan.sensitivity - mean >= max(apart, 2.0 * (horizon + 2) * 2.0**-53)


@pytest.mark.parametrize("weights", ["uniform", "linear"])
def test_the_factor_of_users_is_no_more_than_their_rows_move(weights):
    """What one row costs is a user's cost divided by it: a factor that is too large would call a row too cheap."""
    row = average_of(1000, 0.1, 1.0, weights)
    for rows in (2, 3, 5, 17, 90):
        plan = average_of(1000, 0.1, 1.0, weights, rows_per_user=rows)
        assert Fraction(plan.factor) * Fraction(row.sensitivity) <= Fraction(plan.sensitivity)
        assert plan.factor > 1.0


@pytest.mark.parametrize("weights", ["uniform", "linear"])
def test_iterates_of_a_narrow_set_round_too(weights):
    """docs/proofs/offline.md, section 3: the effect of a row, and E_T for all E_t, with overshooting first steps.

    Exactly summed. In some order a sum of as many terms errs by a unit for each: it is charged, beyond any margin.
    """
    horizon, l2, radius = 1 << 16, 1e-4, 1.0
    plan = average_of(horizon, l2, radius, weights)
    schedule, steps = plan.schedule, np.arange(1.0, horizon)
    weight = l2 + l2 * steps  # after row t
    width, rounding = schedule.sensitivity(1), schedule.rounding(horizon) * schedule.weight(horizon)
    assert width * weight[0] < plan.iterates.diameter  # narrow
    share = (steps + 1.0 if weights == "linear" else np.ones(horizon - 1)) / weight
    moves = np.minimum(plan.iterates.diameter, width * weight)
    worst = int(np.argmax(moves * np.cumsum(share[::-1])[::-1]))
    later, whole = (math.fsum(share[at:].tolist()) for at in (worst, 0))
    total = horizon * (horizon + 1) // 2 if weights == "linear" else horizon
    bound = Fraction(float(moves[worst])) * Fraction(later) / total
    extra = Fraction(rounding) * Fraction(whole) / total
    assert extra > bound / 10**9
    charged = (bound + extra) * (1 + horizon * UNIT) + 2 * (horizon + 2) * UNIT * int(radius)
    assert charged <= Fraction(plan.sensitivity) <= charged * (1 + Fraction(1, 10**9))


# ---- bounds to the last digit ---------------------------------------------------------------------------------------

OVER = 1.0 + 4e-10  # beyond a bound of 1 by more than a few roundings


def test_rows_just_beyond_their_bound_are_scaled():
    def after(x):
        learner = PIGD(loss="hinge", epsilon=math.inf, l2=1.0, horizon=1, release="all", fit_intercept=False)
        return float(learner.partial_fit(np.array([[x]]), [1], classes=[0, 1]).coef_.item())

    assert after(1.0) != 0.0
    assert abs(after(OVER) / after(1.0) - 1.0) < 1e-14


def test_given_gradients_just_beyond_their_bound_are_scaled():
    def after(x):
        learner = NOGD(epsilon=math.inf, horizon=1, fit_intercept=False, gradient_bound=1.0, l2=1.0, radius=100.0)
        learner.declare_classes([0, 1]).ask(n_features=1)
        learner.tell(gradient=np.array([x]))
        return float(learner.coef_.item())

    assert abs(after(1.0)) == pytest.approx(1.0)  # a step that the set does not shorten
    for beyond in (OVER, 1.0 + 4e-5):
        assert abs(after(beyond) / after(1.0) - 1.0) < 1e-14


@pytest.mark.parametrize("design", ["tree", "blt"])
def test_summed_rows_just_beyond_their_bound_are_scaled(design):
    sums = PrefixSum(dim=1, horizon=1, epsilon=math.inf, delta=1e-6, design=design)
    assert 1.0 - 1e-12 < float(sums.add(np.array([OVER])).item()) < 1.0 + 1e-14
