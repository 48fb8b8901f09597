"""Objective perturbation: the specification's figures, and exact densities of the releases.

The density is explicit, so log-ratios are computed for data sets that are constructed to be bad, and the curve
delta(epsilon) by integration. The claims are those of docs/proofs/offline.md.
"""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from objective_tools import exact_delta

from privol.calibration import calibrate_objective
from privol.calibration._objective import (
    Law,
    _law,
    gaussian_cost,
    gaussian_scale,
    gaussian_shifts,
    jmlr_share,
    pure_cost,
    pure_share,
)
from privol.calibration._offline import Rows
from privol.errors import InvalidParameter
from privol.guarantees import gdp_delta, gdp_mu
from privol.losses import Custom, Huber, Logistic, SmoothHinge, Squared

pytestmark = pytest.mark.slow

UNIT = Law(slope=1.0, curve=1.0, outputs=1, replace=True, logistic=True, signed=True)
ROWS = {"dim": 10, "intercept": False, "n": 1000, "l2": 0.01, "adjacency": "replace", "x_bound": 1.0, "y_bound": 1.0}
PURE = {"epsilon": 1.0, "delta": 0.0}
GAUSSIAN = {"epsilon": 1.0, "delta": 1e-6}


def test_figures_of_a_row_are_rounded_up():
    """The slope of the linear term's change and the curvature, against exact products."""
    for x_bound in np.linspace(0.1, 9.0, 40).tolist():
        rows = Rows(3, 1, 100, x_bound, 1.0, True)
        for loss, lipschitz in ((SmoothHinge(0.3), 0.7), (Huber(0.9), 0.9)):
            law = _law(loss, rows, lipschitz)
            assert Fraction(law.slope) >= Fraction(x_bound) * Fraction(lipschitz)
            assert Fraction(law.curve) >= Fraction(x_bound) ** 2 * Fraction(loss.curvature)


def sigmoid(x):
    x = np.asarray(x, dtype=float)
    tail = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, tail) / (1.0 + tail)


# ---- the specification's figures -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "l2_sum", "beta"),
    [(1.0, 0.5, 0.3786658303685247), (1.0, 1.0, 0.4728217895494937), (1.0, 2.0, 0.5), (0.1, 5.0, 0.03317743551106341),
     (0.1, 20.0, 0.05), (0.1, 140.0, 0.05)],
)  # fmt: skip
def test_rate_of_the_linear_term(epsilon, l2_sum, beta):
    share, same = pure_share(UNIT, epsilon, l2_sum, "quarter")
    assert beta * (1 - 1e-12) < share < beta * (1 + 1e-14)  # the figure's own last digit
    assert same == l2_sum


@pytest.mark.parametrize(
    ("epsilon", "n", "l2", "left", "extra"),
    [(1.0, 1000, 0.01, 0.9506147748192570, 0.0), (0.1, 14000, 0.01, 0.09643175641299720, 0.0),
     (0.05, 1000, 0.001, 0.025, 0.01887526041598850), (0.5, 100, 0.001, 0.25, 0.01777603488750460)],
)  # fmt: skip
def test_rate_of_jmlr(epsilon, n, l2, left, extra):
    share, l2_sum = jmlr_share(UNIT, epsilon, n * l2)
    assert share == pytest.approx(left, rel=1e-12)
    assert l2_sum / n - l2 == pytest.approx(extra, rel=1e-10, abs=1e-15)
    assert pure_cost(UNIT, share / 2, l2_sum) <= epsilon  # it is correct, with more noise than needed


@pytest.mark.parametrize(
    ("epsilon", "l2_sum", "replace", "zero_out"),
    [(1.0, 10.0, 8.647681660609323, 4.323840830304509), (1.0, 140.0, 8.463367796473067, 4.231683898236397),
     (0.1, 140.0, 73.84030904875608, 36.92015452256969)],
)  # fmt: skip
def test_gaussian_linear_term(epsilon, l2_sum, replace, zero_out):
    for law, sigma in ((UNIT, replace), (UNIT._replace(replace=False), zero_out)):
        found, same = gaussian_scale(law, epsilon, 1e-6, l2_sum)
        assert sigma < found < sigma * (1 + 1e-11)
        assert same == l2_sum


# ---- objective perturbation: densities ------------------------------------------------------------


def plane(signed, margin, R=1.0, far=1e5):
    """A row (times its label) of norm R in the plane with that margin at the model (far, 0)."""
    along = margin / far
    return np.array([along, signed * math.sqrt(R * R - along * along)])


def log_ratio(beta, l2_sum, row, other, w, gradient, hessian):
    """ln p(w) / p'(w) of neighbours with `row` and `other` (signed rows of logistic losses, or None: the null row).

    The density is that of b at the b that leads to w, exp(-beta |b|), times the determinant. `gradient` and `hessian`
    are those of all other rows.
    """
    found = []
    for s in (row, other):
        g, h = gradient + l2_sum * w, hessian + l2_sum * np.eye(len(w))
        if s is not None:
            p = float(sigmoid(-(s @ w)))
            g, h = g - p * s, h + p * (1 - p) * np.outer(s, s)
        found.append((g, float(np.linalg.slogdet(h)[1])))
    (g, a), (other_g, b) = found
    longer = float((g - other_g) @ (g + other_g)) / (np.linalg.norm(g) + np.linalg.norm(other_g))
    return -beta * longer + a - b


def worst_in_the_plane(beta, l2_sum, *, R=1.0, replace=True):
    """The largest log-ratio over the rows that attain the bound: in the plane, with very many rows behind the model.

    They make |b| so large, and so directed along the last two rows, that its length changes by the whole change of the
    gradients; yet they hardly curve the objective, and the model is so large that the rows' margins are free.
    """
    w, many, behind = np.array([1e5, 0.0]), 1e9, -45.0
    base = plane(-1.0, behind, R)
    p = float(sigmoid(behind))  # 1 - p of them
    gradient, hessian = -many * base * float(sigmoid(-behind)), many * p * (1 - p) * np.outer(base, base)
    other = plane(-1.0, behind, R) if replace else None
    margins = np.linspace(-12.0, 3.0, 601)
    return max(log_ratio(beta, l2_sum, plane(1.0, m, R), other, w, gradient, hessian) for m in margins)


BUDGETS = [
    (0.1, 1.0), (0.1, 5.0), (0.1, 19.0), (0.1, 21.0), (1.0, 0.5), (1.0, 1.5), (1.0, 2.5), (3.0, 0.1), (3.0, 10.0),
]  # fmt: skip


@pytest.mark.parametrize(("epsilon", "l2_sum"), BUDGETS)
@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("R", [1.0, 7.0])
def test_pure_noise_is_sufficient_and_tight(epsilon, l2_sum, replace, R):
    law = UNIT._replace(slope=R, curve=R * R, replace=replace)
    share, larger = pure_share(law, epsilon, l2_sum * R * R, "quarter")
    assert share >= (epsilon / 4 if replace else epsilon / 2) * (1 - 1e-12)
    worst = worst_in_the_plane(share / R, larger, R=R, replace=replace)
    assert 0.998 * epsilon < worst <= epsilon
    assert worst_in_the_plane(1.5 * share / R, larger, R=R, replace=replace) > epsilon  # two thirds of the noise


@pytest.mark.parametrize(("epsilon", "l2_sum"), BUDGETS)
def test_published_noise_holds_only_where_it_is_proved(epsilon, l2_sum):
    worst = worst_in_the_plane(epsilon / 2, l2_sum)
    cost = pure_cost(UNIT, epsilon / 2, l2_sum)
    assert 0.998 * cost < worst <= cost  # so the calibration reports exactly what the noise gives
    if l2_sum * epsilon >= 2.0:
        assert cost == pytest.approx(epsilon, rel=1e-12)
    else:
        assert cost > epsilon * (1 + 1e-5)
        if l2_sum * epsilon < 1.9:
            assert worst > epsilon
    words = {**ROWS, "n": 1, "l2": l2_sum, "epsilon": epsilon, "delta": 0.0}
    plan = calibrate_objective(loss=Logistic(), calibration="published", **words)
    assert plan.scale == pytest.approx(2 / epsilon, rel=1e-11)
    assert plan.epsilon_objective == pytest.approx(cost, rel=1e-10)
    assert plan.epsilon == pytest.approx(plan.epsilon_objective + 0.01 * epsilon, rel=1e-12)
    assert plan.epsilon > epsilon
    assert plan.claim.epsilon == epsilon
    assert plan.claim.delta == 0.0
    assert plan.l2_extra == 0.0


@pytest.mark.parametrize(
    ("R", "l2_sum", "epsilon", "realised"),
    [(10.0, 10.0, 1.0, 1.675), (10.0, 1.0, 3.0, 3.633), (100.0, 10.0, 5.0, 7.49)],
)
def test_the_determinant_may_grow_with_the_norm_rather_than_its_square(R, l2_sum, epsilon, realised):
    """The formula of an existing package, ln(1 + c R / Lambda) twice, and this one's."""
    left = epsilon - 2 * math.log1p(0.25 * R / l2_sum)
    larger = l2_sum
    if left <= 0:
        larger, left = 0.25 * R / math.expm1(epsilon / 4), epsilon / 2
    worst = worst_in_the_plane(left / (2 * R), larger, R=R)
    assert worst > epsilon
    assert worst == pytest.approx(realised, rel=2e-3)
    words = {**ROWS, "n": 1, "l2": l2_sum, "x_bound": R}
    plan = calibrate_objective(loss=Logistic(), epsilon=epsilon, delta=0.0, **words)
    assert worst_in_the_plane(1 / plan.scale, plan.l2_sum, R=R) <= plan.epsilon_objective


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("replace", [True, False])
def test_no_random_rows_exceed_epsilon(dim, replace):
    rng = np.random.default_rng(dim)
    largest = 0.0
    for epsilon, l2_sum in BUDGETS:
        share, larger = pure_share(UNIT._replace(replace=replace), epsilon, l2_sum, "quarter")
        for _ in range(150):
            s, t = rng.normal(size=(2, dim))
            s, t = s / np.linalg.norm(s), t / np.linalg.norm(t) * rng.choice([1.0, rng.uniform()])
            w = rng.normal(size=dim) * rng.choice([0.0, 0.5, 3.0, 30.0])
            gradient = rng.normal(size=dim) * rng.choice([0.0, 1.0, 100.0])
            v = rng.normal(size=dim) * rng.choice([0.0, 1.0, 10.0])
            other = t if replace else None
            worst = log_ratio(share, larger, s, other, w, gradient, np.outer(v, v))
            if not replace:
                worst = max(worst, log_ratio(share, larger, None, s, w, gradient, np.outer(v, v)))
            largest = max(largest, worst / epsilon)
            assert worst <= epsilon
    assert largest > 0.6


@pytest.mark.parametrize("loss", [Huber(1.0), Huber(0.3), SmoothHinge(0.2)], ids=["huber", "narrow", "smooth hinge"])
@pytest.mark.parametrize("replace", [True, False])
def test_losses_with_one_continuous_derivative(loss, replace):
    """In one dimension: a slope just below the largest, still curved, against the largest one of the other sign."""
    slope = loss.lipschitz(math.inf)
    if isinstance(loss, Huber):
        kink, targets = slope, (0.0, 1e9)
    else:
        kink, targets = -(1.0 - loss.width), (-1.0, 1.0)
    for epsilon, l2_sum in ((0.1, 5.0), (1.0, 0.5), (3.0, 10.0)):
        share, larger = pure_share(law_of(loss, replace=replace, lipschitz=slope), epsilon, l2_sum, "quarter")
        found = []
        for w in kink + np.array([-0.3, -0.1, -1e-9, 1e-9, 0.1]) * slope:
            logs = []
            for y in targets:
                if y == targets[1] and not replace:
                    g, h = 0.0, 0.0
                else:
                    g = float(loss.gradient(w, y))
                    h = float(loss.gradient(w + 1e-12, y) - loss.gradient(w - 1e-12, y)) / 2e-12
                b = -(larger * w + g - 1e6)  # the other rows keep it away from 0
                logs.append(-share / slope * abs(b) + math.log(larger + h))
            found.append(abs(logs[0] - logs[1]))
        assert 0.99 * epsilon < max(found) < epsilon * (1 + 1e-6)


@pytest.mark.parametrize("outputs", [1, 2, 3, 10])
@pytest.mark.parametrize("replace", [True, False])
def test_several_outputs(outputs, replace):
    """All outputs as in the worst case of one, which rows of one class against the rest can produce: only signs."""
    for epsilon, l2_sum in ((1.0, 0.5), (1.0, 30.0), (0.1, 5.0)):
        law = UNIT._replace(outputs=outputs, replace=replace)
        share, larger = pure_share(law, epsilon, l2_sum, "quarter")
        # b's blocks are alike up to signs: norms are sqrt(k) times one's, log-determinants k times
        worst = outputs * worst_in_the_plane(share / math.sqrt(outputs), larger, replace=replace)
        assert 0.998 * epsilon < worst <= epsilon
        full, most = pure_share(law, epsilon, 1e-3, "full")
        assert full == pytest.approx(epsilon / ((2 if replace else 1) * math.sqrt(outputs)), rel=1e-12)
        assert most == pytest.approx((2 if replace else 1) * outputs / epsilon, rel=1e-11)
        assert outputs * worst_in_the_plane(full / math.sqrt(outputs), most, replace=replace) <= epsilon


@pytest.mark.parametrize("change", [{}, {"replace": False}, {"outputs": 5}], ids=["one", "null row", "several"])
def test_the_bound_is_the_maximum(change):
    """Against a fine grid over lengths of all outputs' gradients, equal and not."""
    law = UNIT._replace(**change)
    rng = np.random.default_rng(0)
    k, a = law.outputs, 1.0 if law.replace else 0.0
    p = np.linspace(0.0, 1.0, 20001)
    for _ in range(60):
        t, ratio = 10.0 ** rng.uniform(-4, 2), 10.0 ** rng.uniform(-6, 6)
        cost = pure_cost(law, t, 1.0 / ratio)
        grid = float(np.max(t * math.sqrt(k) * (a + p) + k * np.log1p(ratio * p * (1 - p))))
        assert grid <= cost
        # the cell that contains the maximum; the grid has its ends
        assert cost <= grid + (t * math.sqrt(k) + k * min(ratio, 2e4)) * 1e-4 * (1 + 1e-9) + 1e-12
        mixed = rng.uniform(size=(2000, k)) ** rng.choice([0.2, 1.0, 5.0])
        norms = np.linalg.norm(mixed, axis=1) + a * math.sqrt(k)
        assert np.max(t * norms + np.log1p(ratio * mixed * (1 - mixed)).sum(axis=1)) <= cost


# ---- objective perturbation with Gaussian noise ----------------------------------------------------


def law_of(loss, *, replace, lipschitz=1.0):
    logistic = isinstance(loss, Logistic)
    signed = isinstance(loss, Logistic | SmoothHinge)
    return Law(lipschitz, 1.0 if logistic else loss.curvature, 1, replace, logistic, signed)


@pytest.mark.parametrize("loss", [Logistic(), SmoothHinge(), Huber(1.0)], ids=lambda loss: loss.name)
@pytest.mark.parametrize("replace", [True, False])
def test_gaussian_noise_is_enough(loss, replace):
    law = law_of(loss, replace=replace)
    regression = loss.kind == "regression"
    closest = 0.0
    for epsilon, delta, l2_sum in ((1.0, 1e-2, 1.0), (0.5, 1e-3, 5.0), (2.0, 1e-5, 20.0)):
        sigma, larger = gaussian_scale(law, epsilon, delta, l2_sum)
        for one, two in (((1.0, 1.0), (1.0, -1.0)), ((1.0, 1.0), (0.3, 1.0)), ((1.0, 40.0), (1.0, -40.0))):
            if not regression:
                one, two = (one[0], math.copysign(1.0, one[1])), (two[0], math.copysign(1.0, two[1]))
            for pair in ((one, two), (two, one)) if replace else ((one, None), (None, one)):
                for pull in (0.0, 6.0):
                    found, mass = exact_delta(epsilon, sigma, larger, loss, *pair, pull)
                    assert mass == pytest.approx(1.0, abs=1e-4)  # so the density is correct, including kinks of phi'
                    assert found <= delta
                    closest = max(closest, found / delta)
    if regression or not replace:  # slopes of both signs, or no second row: one dimension has the longest shift
        assert closest > 0.25


@pytest.mark.parametrize("replace", [True, False])
def test_two_thirds_of_gaussian_noise_are_not_enough(replace):
    """For linear losses the minimiser is a Gaussian, moved by 2 R L (R L): delta of the Gaussian mechanism."""
    epsilon, delta, l2_sum = 1.0, 1e-6, 1000.0
    shift = 2.0 if replace else 1.0
    sigma, _ = gaussian_scale(law_of(Huber(1.0), replace=replace), epsilon, delta, l2_sum)
    pair = ((1.0, 1e4), (1.0, -1e4) if replace else None)  # targets out of reach, on both sides
    for part, least in ((1.0, 0.3), (2 / 3, 30.0)):
        found, mass = exact_delta(epsilon, part * sigma, l2_sum, Huber(1.0), *pair, 0.0)
        assert mass == pytest.approx(1.0, abs=1e-6)
        assert found == pytest.approx(gdp_delta(epsilon, shift / (part * sigma)), rel=1e-3)
        assert found > least * delta
        assert found <= delta or part < 1
    # the logistic loss needs two dimensions: opposite rows, both far on the wrong side of a model that is pulled there
    sigma, _ = gaussian_scale(law_of(Logistic(), replace=replace), epsilon, delta, l2_sum)
    far = np.array([1e5, 0.0])
    rows = [plane(1.0, -45.0), plane(-1.0, -45.0) if replace else None]
    for part, least in ((1.0, 0.3), (2 / 3, 30.0)):
        reach = (9 * part * sigma + 2) / l2_sum
        grid = np.linspace(-reach, reach, 401)
        u = np.stack(np.meshgrid(grid, grid), axis=-1)
        densities = []
        for s in rows:
            g, h = l2_sum * u, np.full(u.shape[:2], l2_sum**2)
            if s is not None:
                p = sigmoid(-(far @ s + u @ s))
                g, h = g - p[..., None] * s, h + l2_sum * p * (1 - p) * (s @ s)
            log = -(g * g).sum(axis=-1) / (2 * (part * sigma) ** 2) - math.log(2 * math.pi * (part * sigma) ** 2)
            densities.append(np.exp(log) * h * (grid[1] - grid[0]) ** 2)
        assert densities[0].sum() == pytest.approx(1.0, abs=1e-6)
        found = float(np.maximum(densities[0] - math.exp(epsilon) * densities[1], 0.0).sum())
        assert found > least * delta
        assert found <= delta or part < 1


def test_shifts_of_several_outputs():
    """The vertices of the box of slopes, enumerated."""
    for k in (1, 2, 3):
        for replace in (True, False):
            ((found,),) = (gaussian_shifts(UNIT._replace(outputs=k, replace=replace)),)
            counted: dict[float, int] = {}
            for code in range(4**k if replace else 2**k):
                one = [(code >> j) & 1 for j in range(k)]
                two = [(code >> (k + j)) & 1 for j in range(k)] if replace else [0] * k
                square = sum((a + b) ** 2 for a, b in zip(one, two, strict=True))  # opposite rows: the longest
                if square:
                    counted[square] = counted.get(square, 0) + 1
            merged: dict[int, float] = {}
            for shift, number in found:
                merged[round(shift * shift)] = merged.get(round(shift * shift), 0.0) + number
            assert merged == counted
    # with k = 1 the specification's bound; slopes of both signs: at least the sum over the longest diagonal's ends
    unit = 0.2
    assert gaussian_cost(gaussian_shifts(UNIT), 1.0, unit) == pytest.approx(
        gdp_delta(1.0, 2 * unit) + 2 * gdp_delta(1.0, unit), rel=1e-10
    )
    both = gaussian_cost(gaussian_shifts(UNIT._replace(signed=False)), 1.0, unit)
    assert 2 * gdp_delta(1.0, 2 * unit) <= both < 2.5 * gdp_delta(1.0, 2 * unit)
    rng = np.random.default_rng(2)
    for _ in range(200):
        s, t = rng.normal(size=(2, 2))
        s, t = s / np.linalg.norm(s), t / np.linalg.norm(t) * rng.uniform()
        ends = [float(np.linalg.norm(a * s + b * t)) for a in (-1, 1) for b in (-1, 1)]
        assert sum(gdp_delta(1.0, unit * end) for end in ends) <= both
    # the smaller epsilon, the more the shorter diagonal counts: orthogonal rows have four ends alike
    square = gaussian_cost(gaussian_shifts(UNIT._replace(signed=False)), 0.01, unit)
    assert 2 * gdp_delta(0.01, 2 * unit) < 4 * gdp_delta(0.01, math.sqrt(2.0) * unit) <= square


@pytest.mark.parametrize("outputs", [1, 2, 3, 10])
@pytest.mark.parametrize("replace", [True, False])
def test_gaussian_noise_pays_for_the_determinant_of_every_output(outputs, replace):
    """Its cost is subtracted from epsilon before the noise is chosen, in exact arithmetic, and no more."""
    law = Law(1.0, 1.0, outputs, replace, True, True)
    for epsilon, delta, l2_sum in ((1.0, 1e-6, 3.0), (0.3, 1e-2, 1e4), (5.0, 1e-8, 0.01)):
        sigma, larger = gaussian_scale(law, epsilon, delta, l2_sum)
        with mpmath.workdps(40):
            left = mpmath.mpf(epsilon) - outputs * mpmath.log(1 + mpmath.mpf(1) / 4 / mpmath.mpf(larger))
            assert left >= 0.5 * epsilon * (1 - 1e-9)
            down = float(left) * (1.0 - 2.0**-52)
            assert down <= left
        assert gaussian_cost(gaussian_shifts(law), down, 1.0 / sigma) <= delta
        assert gaussian_cost(gaussian_shifts(law), down, 1.0 / (sigma * (1 - 1e-5))) > delta


# ---- the whole calibration ------------------------------------------------------------------------


def test_the_budget_is_split_and_errors_are_charged():
    for law in (PURE, GAUSSIAN):
        for outputs in (1, 4):
            plan = calibrate_objective(loss=Logistic(), outputs=outputs, gradient_norm=1e-5, **law, **ROWS)
            assert plan.epsilon_objective + plan.epsilon_final <= plan.epsilon * (1 + 1e-15)
            assert plan.delta_objective + plan.delta_final <= plan.delta * (1 + 1e-15)
            assert plan.epsilon_final == pytest.approx(0.01)
            assert math.frexp(plan.step)[0] == 0.5
            error = math.sqrt(outputs) * (1e-5 + plan.step * math.sqrt(10) / 2) / plan.l2_sum
            assert plan.error == pytest.approx(error, rel=1e-11)
            budget = gdp_mu(plan.epsilon_final, plan.delta_final) if law["delta"] else plan.epsilon_final
            assert plan.final_scale == pytest.approx(2 * error / budget, rel=1e-10)
            assert plan.dim == 10 * outputs


@pytest.mark.parametrize("law", [PURE, GAUSSIAN, {"epsilon": 0.1, "delta": 0.0}, {"epsilon": 0.1, "delta": 1e-8}])
def test_the_final_noise_is_small(law):
    """Relative to the effect of b on the model: on the grid of a release, b's rounding alone would cost more than b."""
    for n, dim in ((100, 2), (14_000, 10), (500_000, 55)):
        plan = calibrate_objective(loss=Logistic(), **law, **{**ROWS, "n": n, "dim": dim})
        norms = (1.0, 1.0) if law["delta"] else (math.sqrt(dim + 1.0), math.sqrt(dim + 1.0))
        b, e = plan.scale * norms[0] / plan.l2_sum, plan.final_scale * norms[1]
        assert e < 1e-3 * b
        coarse = plan.step * 2.0**20
        budget = gdp_mu(plan.epsilon_final, plan.delta_final) if law["delta"] else plan.epsilon_final
        assert coarse * math.sqrt(dim) / plan.l2_sum / budget * norms[1] > 0.09 * b


def test_small_regularization_is_increased():
    words = {**PURE, **ROWS}
    enough = calibrate_objective(loss=Logistic(), **words)
    assert enough.l2_extra == 0.0
    assert enough.l2_sum == 10.0
    assert enough.scale == pytest.approx(2 / 0.99, rel=1e-10)
    small = {**words, "l2": 1e-6}
    quarter = calibrate_objective(loss=Logistic(), **small)
    assert quarter.scale == pytest.approx(4 / 0.99, rel=1e-10)
    assert quarter.l2_extra == pytest.approx(quarter.l2_sum - 1e-3)
    assert pure_cost(UNIT, 0.99 / 4, quarter.l2_sum * 0.999) > 0.99  # the least that suffices
    full = calibrate_objective(loss=Logistic(), min_l2="full", **small)
    assert full.scale == pytest.approx(2 / 0.99, rel=1e-10)
    assert full.l2_sum == pytest.approx(2 / 0.99, rel=1e-10)
    other = calibrate_objective(loss=SmoothHinge(), **small)  # curvature 1
    assert other.l2_sum == pytest.approx(1 / math.expm1(0.99 / 2), rel=1e-10)
    assert other.scale == pytest.approx(4 / 0.99, rel=1e-10)
    for loss, law in ((SmoothHinge(), PURE), (Logistic(), GAUSSIAN)):
        with pytest.raises(InvalidParameter, match="min_l2='full'"):
            calibrate_objective(loss=loss, min_l2="full", **{**small, **law})
    gaussian = calibrate_objective(loss=Logistic(), **{**small, **GAUSSIAN})
    assert gaussian.l2_sum == pytest.approx(0.25 / math.expm1(0.99 / 2), rel=1e-10)
    assert gaussian.scale > 2 / gdp_mu(0.99 / 2, 1e-6)
    jmlr = calibrate_objective(loss=Logistic(), calibration="jmlr", **small)
    assert jmlr.scale == pytest.approx(4 / 0.99, rel=1e-10)
    assert jmlr.l2_sum == pytest.approx(0.25 / math.expm1(0.99 / 4), rel=1e-10)
    assert jmlr.l2_sum > quarter.l2_sum


def test_losses_of_other_slopes():
    """A loss times c has c times the noise at c times the regularization."""
    words = {**PURE, **ROWS}
    one = calibrate_objective(loss=Huber(1.0), **words)
    three = calibrate_objective(loss=Huber(3.0), **words)
    assert three.scale == pytest.approx(3 * one.scale, rel=1e-11)
    assert one.scale == pytest.approx(2 / (0.99 - math.log1p(0.1)), rel=1e-10)
    squared = calibrate_objective(loss=Squared(), radius=2.0, **{**words, "y_bound": 4.0})
    assert squared.loss == Huber(squared.loss.width)
    assert 6.0 < squared.loss.width < 6.0 * (1 + 1e-11)
    assert squared.scale == pytest.approx(6 * one.scale, rel=1e-10)
    m, y = np.linspace(-2, 2, 9)[:, None], np.linspace(-4, 4, 9)
    np.testing.assert_array_equal(squared.loss.value(m, y), Squared().value(m, y))
    without = calibrate_objective(loss=Squared(), **{**words, "y_bound": 4.0})  # a radius: errors up to y_bound
    assert without.loss == Huber(without.loss.width)
    assert 4.0 < without.loss.width < 4.0 * (1 + 1e-11)
    own = Custom(
        value=lambda p, y: float(np.logaddexp(0.0, -y * p)), gradient=lambda p, y: -y * float(sigmoid(-y * p)),
        lipschitz=1.0, smoothness=0.25,
    )  # fmt: skip
    vouched = calibrate_objective(loss=own, **words)
    assert vouched.scale == pytest.approx(2 / (0.99 - math.log1p(0.025)), rel=1e-10)
    several = calibrate_objective(loss=own, outputs=3, **words)
    assert several.scale == pytest.approx(2 * math.sqrt(3) / (0.99 - 3 * math.log1p(0.025)), rel=1e-10)
    with pytest.raises(InvalidParameter, match="do not change their sign"):
        calibrate_objective(loss=own, outputs=3, **{**words, **GAUSSIAN})
    none = calibrate_objective(loss=Logistic(), epsilon=math.inf, delta=0.0, **ROWS)
    assert (none.law, none.scale, none.final_scale, none.l2_extra) == ("none", 0.0, 0.0, 0.0)


def test_several_outputs_cost_more_than_their_root():
    for law in (PURE, GAUSSIAN):
        one = calibrate_objective(loss=Logistic(), **law, **{**ROWS, "n": 10**6})
        ten = calibrate_objective(loss=Logistic(), outputs=10, **law, **{**ROWS, "n": 10**6})
        assert math.sqrt(10) * one.scale * (1 - 1e-9) < ten.scale < 1.25 * math.sqrt(10) * one.scale
