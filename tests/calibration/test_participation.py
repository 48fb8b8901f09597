"""How a budget for all rows of a user changes the noise: the factor, epochs, and every central calibration."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from participation_tools import strategy, worst_squares

import privol
from privol.calibration import Budget, make_epochs
from privol.calibration._participation import budget_of_rows, factor_of_reports, factor_of_steps, factor_of_sums
from privol.errors import InvalidParameter
from privol.factorizations import DESIGNS, MOST_TOGETHER, Design, factorization
from privol.guarantees import gdp_mu, group_slack

BUDGET = Budget(epsilon=1.0, delta=1e-6)


def factor(design, rows, separation, *, leaf=1, renewed=False):
    known = {"leaf": leaf, "renewed": renewed, "rows_per_user": rows, "user_separation": separation}
    return factor_of_sums(design if isinstance(design, list) else [design], **known)


@pytest.mark.parametrize("design", DESIGNS)
def test_noise_covers_all_rows_of_a_user_and_is_no_larger_than_that(design):
    """Sigma against the worst pattern, found by examining all, in steps of one row and of two."""
    for leaf, separation in ((1, 4), (2, 4), (2, 1)):
        made = Design(name=design, leaf=leaf, rows_per_user=3, user_separation=separation)
        epochs = make_epochs("none", BUDGET, rows=12 * leaf, design=made, dim=2, bound=1.0, adjacency="replace")
        found = epochs.sums[0]
        truth, _ = worst_squares(strategy(found.factorization), 3, separation, leaf)
        needed = 2.0 * math.sqrt(truth[3]) / gdp_mu(1.0, 1e-6)
        loose = 1.2 if design == "smooth" else 1.001
        assert needed <= found.sigma <= loose * needed
        assert (found.mu, found.factor) == (gdp_mu(1.0, 1e-6), epochs.user_factor(3, separation))
        row = Design(name=design, leaf=leaf)
        one = make_epochs("none", BUDGET, rows=12 * leaf, design=row, dim=2, bound=1.0, adjacency="replace").sums[0]
        assert one.factor == 1.0


def test_the_factor_is_1_for_one_row_and_at_most_the_number_of_rows():
    for design in DESIGNS:
        made = factorization(design, 100)
        assert factor(made, 1, 1) == factor(made, 1, 50) == 1.0
        assert 1.0 < factor(made, 5, 20) <= factor(made, 5, 2) <= factor(made, 5, 1) <= 5.0
        assert factor(made, 5, 100) == pytest.approx(1.0)
        assert factor(made, 5, 1, leaf=5) == pytest.approx(5.0)  # all in one step
    assert factor(made, 3 * MOST_TOGETHER, 1) <= 3 * MOST_TOGETHER
    together = factorization("independent", 10)
    assert factor(together, MOST_TOGETHER + 5, 1, leaf=2 * MOST_TOGETHER) == MOST_TOGETHER + 5  # all in one step


@pytest.mark.parametrize("design", ["blt", "tree", "sqrt"])
def test_rows_in_several_epochs_are_charged_for_the_worst_division(design):
    """Against all divisions of the rows; squared effects of epochs add up."""
    designs, rows, separation = [factorization(design, n) for n in (4, 8)], 5, 3
    squares = [worst_squares(strategy(d), rows, separation, 1)[0] / d.column_norm**2 for d in designs]
    squares = [np.maximum.accumulate(np.minimum(s, 1e9)) for s in squares]
    fits = [-(-d.steps // separation) for d in designs]
    truth = 0.0
    for first, *others in itertools.product(range(rows + 1), repeat=4):  # three epochs like the last one suffice
        if first + sum(others) <= rows and first <= fits[0] and max(others) <= fits[1]:
            truth = max(truth, squares[0][first] + sum(squares[1][other] for other in others))
    found = factor(designs, rows, separation, renewed=True) ** 2
    assert truth <= found <= (1.22 if design == "tree" else 1.0001) * truth
    # rows without a minimum distance cost most in one epoch, distant ones in one each
    assert factor([factorization("blt", 1000)], 4, 1, renewed=True) > 3.6
    assert factor([factorization("blt", 1000)], 4, 1000, renewed=True) == pytest.approx(2.0)


def test_epochs_of_a_renewed_run_are_charged_together():
    """Four rows that are an epoch apart are one in each of four epochs, and their squares add up."""
    far = Design(name="blt", rows_per_user=4, user_separation=8)
    for renewal, rows, charged in (("none", 8, 1.0), ("repeat", 8, 2.0)):
        made = make_epochs(renewal, BUDGET, rows=rows, design=far, dim=2, bound=1.0, adjacency="replace")
        assert made.sums[-1].factor == pytest.approx(charged, rel=1e-9)
        assert made.sums[-1].factor >= charged


def test_steps_with_independent_noise():
    for batch, rows, separation, square in (
        (1, 4, 1, 4),
        (10, 4, 10, 4),
        (10, 4, 1, 16),
        (10, 25, 1, 225),
        (10, 5, 4, 13),
    ):
        found = factor_of_steps(batch=batch, rows_per_user=rows, user_separation=separation)
        assert found == pytest.approx(math.sqrt(square), rel=1e-9)
        assert found**2 >= square * (1.0 - 1e-15)
    for steps, short in ((1, 0), (2, 0), (2, 1), (3, 0), (3, 2), (5, 0)):
        for batch, rows, separation in itertools.product((1, 3, 4, 6), (1, 2, 3, 5), (1, 2, 3, 4, 5)):
            truth, horizon = 0, steps * batch - min(short, batch - 1)
            for places in itertools.combinations(range(horizon), min(rows, -(-horizon // separation))):
                if all(b - a >= separation for a, b in itertools.pairwise(places)):
                    truth = max(truth, sum(n * n for n in Counter(place // batch for place in places).values()))
            words = {"batch": batch, "rows_per_user": rows, "user_separation": separation}
            found = factor_of_steps(**words, horizon=horizon)
            if horizon == steps * batch:
                assert found == pytest.approx(math.sqrt(truth), rel=1e-9), (horizon, batch, rows, separation)
            assert found <= factor_of_steps(**words)
            assert found**2 >= truth * (1.0 - 1e-15)
    assert factor_of_reports(pure=True, rows_per_user=9, user_separation=5) == 9.0
    assert factor_of_reports(pure=False, rows_per_user=9, user_separation=1) == 3.0


def test_the_parts_of_a_budget_are_the_largest_doubles_that_add_up_to_no_more():
    """Epsilon in exact arithmetic; a slack so small that its last digit is worth a part in ten thousand."""
    for epsilon, rows in itertools.product((0.001, 0.1, 1.0, 9.7, 50.0, 650.0), (2, 3, 7, 50, 1000, 2**31 - 1)):
        row, slack = budget_of_rows(epsilon, 0.0, rows, curve=False)
        assert Fraction(row) * rows <= Fraction(epsilon) < Fraction(math.nextafter(row, math.inf)) * rows
        assert slack == 0.0
        for delta in (1e-6, *(k * 1e-31 for k in range(2, 12))):
            if delta < 1e-20 and (epsilon, rows) != (650.0, 2**31 - 1):
                continue
            row, slack = budget_of_rows(epsilon, delta, rows, curve=False)
            assert slack > 0.0
            assert group_slack(row, slack, rows) <= delta


CENTRAL = [
    (privol.DPFTRL, {}), (privol.DPFTRL, {"design": "tree", "batch": 10}), (privol.AdaptiveFTRL, {}), (privol.NOGD, {}),
    (privol.NOGD, {"batch": 10}), (privol.PQFTL, {}), (privol.PIGD, {}), (privol.PGIGA, {"release": 100}),
    (privol.DPFTRL, {"renewal": "double"}), (privol.PQFTL, {"renewal": "repeat"}), (privol.DPFTRL, {"discount": 0.99}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "words"), CENTRAL, ids=lambda x: getattr(x, "__name__", str(x)))
def test_every_central_learner_takes_a_users_budget(kind, words):
    """For the same budget, a user needs as much more noise as the factor says, and one row needs the same."""
    if "renewal" in words or "discount" in words:
        words = {**words, "design": "tree" if "renewal" in words else "independent"}  # the same C for both budgets

    def noise(**users):
        plan = kind(**words, **users).calibrate(3, 1000)
        return plan.last_std(1000), plan

    if kind in (privol.DPFTRL, privol.PQFTL) and "design" not in words:
        words = {**words, "design": "sqrt"}
    one, row = noise()
    same, _ = noise(rows_per_user=1, user_separation=3)
    users, plan = noise(rows_per_user=4, user_separation=250)
    assert same == one
    assert plan.mu == row.mu == gdp_mu(1.0, 1e-6)
    if kind not in (privol.DPFTRL, privol.NOGD, privol.AdaptiveFTRL) or "regularization" in words:
        exact = kind is not privol.PQFTL  # its models shrink with the noise
        assert users == pytest.approx(row.user_factor(4, 250) * one, rel=1e-9) if exact else users > one
    else:
        scale = plan.sigma / row.sigma if kind is privol.NOGD else plan.sums.sigma / row.sums.sigma
        assert scale <= row.user_factor(4, 250) * (1.0 + 1e-9)
        if kind is not privol.AdaptiveFTRL:  # another BLT is chosen
            assert scale == pytest.approx(row.user_factor(4, 250), rel=1e-9)
    assert 1.0 < row.user_factor(4, 250) <= row.user_factor(4, 1) <= 4.0


def test_parameters_of_users_are_checked():
    for words, message in (
        ({"rows_per_user": 0}, "rows_per_user"), ({"rows_per_user": 2.5}, "rows_per_user"),
        ({"rows_per_user": 2, "user_separation": 0}, "user_separation"), ({"user_separation": 2}, "rows_per_user"),
    ):  # fmt: skip
        with pytest.raises(InvalidParameter, match=message):
            privol.DPFTRL(**words).calibrate(3, 1000)


@pytest.mark.parametrize("release", ["all", 5, [3, 20, 40], "last"], ids=str)
@pytest.mark.parametrize("kind", [privol.PIGD, privol.PGIGA], ids=lambda kind: kind.__name__)
def test_iterates_are_moved_by_the_rows_before_them(kind, release):
    """Against all patterns of three rows: what all releases reveal of them, with noise for a budget for them."""
    rows, apart, n, words = 3, 8, 40, {"release": release}
    plan = kind(**words, rows_per_user=rows, user_separation=apart).calibrate(3, n)
    one = kind(**words).calibrate(3, n)
    after = np.concatenate(list(plan.releases.chunks()))
    moved = np.array([one.sensitivity(int(t)) for t in after]) / [plan.std(int(t)) for t in after]
    worst = 0.0
    for places in itertools.combinations(range(1, n + 1), rows):
        if min(np.diff(places)) >= apart:
            before = np.sum(np.array(places)[:, None] <= after, axis=0)
            worst = max(worst, float(np.linalg.norm(before * moved)))
    assert worst <= plan.mu
    assert worst >= 0.999999 * plan.mu
    assert plan.factor == plan.user_factor(rows, apart)
    assert plan.factor == pytest.approx(one.user_factor(rows, apart), rel=1e-9)
    assert float(np.linalg.norm(moved)) <= plan.mu / plan.factor * (1 + 1e-9)
    assert one.user_factor(rows, 1) <= rows
    assert release != "last" or plan.factor == rows


def test_iterates_of_neighbours_are_as_far_apart_as_is_charged():
    """Noise-free runs on streams whose users' rows differ as far as possible, at margins that keep every slope."""
    n, places = 60, [0, 10, 20, 30]
    words = {"loss": "hinge", "l2": 3.0, "radius": 50.0, "fit_intercept": False, "release": "all", "horizon": n}
    plan = privol.PIGD(**words, rows_per_user=4, user_separation=10).calibrate(1, n)
    X, shown = np.ones((n, 1)), []
    for sign in (1.0, -1.0):
        X[places] = sign
        made = privol.PIGD(**words, epsilon=math.inf)
        shown.append([float(made.partial_fit(X[[t]], [1], classes=[0, 1]).coef_[0, 0]) for t in range(n)])
    apart = np.abs(np.array(shown[0]) - np.array(shown[1]))
    moved = float(np.linalg.norm(apart / [plan.std(t) for t in range(1, n + 1)]))
    assert plan.mu * 0.99 <= moved <= plan.mu
