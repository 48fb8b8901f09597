"""Plans that no noise in double precision can keep, and parameters that no proof covers, are refused by name."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from privol._rounding import sqrt_up
from privol.calibration import (
    Budget,
    Problem,
    ReleaseSchedule,
    calibrate_average,
    calibrate_gradients,
    calibrate_iterates,
    calibrate_least_squares,
    calibrate_network,
    calibrate_report,
    calibrate_steps,
    calibrate_sums,
    calibrate_wrapped,
    gaussian_leakage,
    gaussian_leakage_std,
    mechanism_record,
    minimiser_bound,
    mu_with_taught,
    sample_size,
)
from privol.errors import InvalidParameter
from privol.factorizations import factorization
from privol.geometry import L2Ball
from privol.losses import get_loss

BUDGET = Budget(epsilon=1.0, delta=1e-6)
PUBLISHED = replace(BUDGET, calibration="published")


def problem(**changes: Any) -> Problem:
    values: dict[str, Any] = {
        "loss": get_loss("logistic"),
        "domain": L2Ball(1.0),
        "dim": 3,
        "intercept": False,
        "x_bound": 1.0,
        "y_bound": 1.0,
        "adjacency": "replace",
        "horizon": 100,
    }
    return Problem(**(values | changes))


def iterates(of: Problem, budget: Budget = BUDGET, **words: Any) -> Any:
    return calibrate_iterates(of, budget, **({"update": "implicit", "release": "last", "l2": 0.1} | words))


def network(of: Problem, budget: Budget = BUDGET, **words: Any) -> Any:
    given = {"randomizer": "gaussian", "gradient_bound": 1.0, "nodes": 2, "batch": 1, "release": "last"}
    return calibrate_network(of, budget, **(given | words))


def squares(of: Problem, budget: Budget = BUDGET, **words: Any) -> Any:
    given = {"release": "last", "l2": 0.1, "noise_shift": 0.0, "batch": 1, "design": "blt", "buffers": 4}
    return calibrate_least_squares(of, budget, **(given | {"objective": "max"} | words))


def test_noise_that_is_no_normal_double_is_refused():
    tiny = Budget(epsilon=1e-200, delta=1e-200)
    with pytest.raises(InvalidParameter, match="a gradient would have standard deviation"):
        calibrate_gradients(problem(), tiny, release="last", l2=0.0)
    with pytest.raises(InvalidParameter, match="the noise after row 100 would have standard deviation"):
        iterates(problem(), Budget(epsilon=1e-300, delta=1e-300))
    with pytest.raises(InvalidParameter, match="too far apart for double precision"):
        minimiser_bound(get_loss("squared"), 1e140, 1e140, 1e-30)
    small = problem(loss=get_loss("squared"), domain=L2Ball(1e-120))
    with pytest.raises(InvalidParameter, match="l2, radius, x_bound and y_bound are too far apart"):
        squares(small)
    with pytest.raises(InvalidParameter, match="bound and std are too far apart"):
        gaussian_leakage(1e-100, bound=1e100, dim=3)
    with pytest.raises(InvalidParameter, match="leakage must be above 1e-250"):
        gaussian_leakage_std(1e-300, bound=1.0, dim=3)
    with pytest.raises(InvalidParameter, match="the noise would have the scale"):
        calibrate_report("gaussian", dim=3, bound=1e100, sigma=1e300)
    with pytest.raises(InvalidParameter, match="steps and bounds are too far apart"):
        network(problem(domain=L2Ball(1e80)), noise_position="output", l2=1e25)
    with pytest.raises(InvalidParameter, match="parameters are too far apart"):
        sample_size(error=1e-160, norm_bound=1.0, lipschitz=1.0, dim=3, epsilon=1.0, delta=1e-6, failure=0.1)
    with pytest.raises(InvalidParameter, match="parameters are too far apart"):
        sample_size(
            error=1e-200, norm_bound=1.0, lipschitz=1.0, dim=3, epsilon=1e-200, delta=1e-6, failure=0.1,
            calibration="published",
        )  # fmt: skip


def test_an_endless_privunit_is_refused():
    with pytest.raises(InvalidParameter, match=r"epsilon is too large for privunit in 1000 dimensions.*trials"):
        calibrate_report("privunit", dim=1000, epsilon=400.0)


def test_the_budget_of_a_report_is_stated_in_one_way():
    for words, message in (
        ({}, "takes one of epsilon, mu, leakage, sigma, found none"),
        ({"mu": 1.0, "sigma": 1.0}, "found mu, sigma"),
        ({"epsilon": 1.0}, "delta goes with the epsilon of gaussian"),
        ({"mu": 1.0, "delta": 1e-6}, "delta goes with the epsilon of gaussian"),
    ):
        with pytest.raises(InvalidParameter, match=message):
            calibrate_report("gaussian", dim=2, **words)
    with pytest.raises(InvalidParameter, match="laplace takes one of epsilon, found mu"):
        calibrate_report("laplace", dim=2, mu=1.0)


def test_no_regret_is_stated_where_none_is_proved():
    with pytest.raises(InvalidParameter, match="step_offset but 1"):
        calibrate_average(problem(), BUDGET, l2=0.1, step_offset=7.0).regret_bound()


def test_published_calibrations_refuse_what_their_sources_do_not_have():
    several = problem(rows_per_user=2)
    with pytest.raises(InvalidParameter, match="for one row, found rows_per_user=2"):
        calibrate_average(several, PUBLISHED, l2=0.1, weights="uniform")
    with pytest.raises(InvalidParameter, match="fixes batch, design as the source does"):
        squares(problem(loss=get_loss("squared")), PUBLISHED, batch=2, design="sqrt")
    with pytest.raises(InvalidParameter, match="needs epochs=1"):
        network(problem(horizon=200), PUBLISHED, epochs=2)


def test_small_regularisers_and_too_many_messages_are_refused():
    report = calibrate_report("privunit", dim=3, epsilon=1.0)
    with pytest.raises(InvalidParameter, match="l2 must be 0 or at least 1e-30, found 1e-40"):
        calibrate_steps(problem(), report, row_bound=1.0, release="last", l2=1e-40, step="anytime", lazy=False)
    with pytest.raises(InvalidParameter, match="l2 must be 0 or at least 1e-30, found 1e-40"):
        network(problem(), l2=1e-40)
    with pytest.raises(InvalidParameter, match=r"messages of 2 nodes, more than"):
        network(problem(horizon=1 << 62))


def test_what_would_not_fit_into_memory_is_refused():
    with pytest.raises(InvalidParameter, match=r"a least-squares model has at most [0-9]+ coordinates"):
        squares(problem(loss=get_loss("squared"), dim=100_000))
    sliding = factorization("independent", steps=1 << 40, window=1 << 39)
    with pytest.raises(InvalidParameter, match="sliding sums keep a window's noisy increments"):
        calibrate_sums(factorization=sliding, epsilon=1.0, delta=1e-6, dim=1 << 10, bound=1.0)
    many = ReleaseSchedule.of(1, 1 << 40)
    with pytest.raises(InvalidParameter, match="release must plan at most"):
        calibrate_wrapped(BUDGET, many, lambda row: 1.0, dim=2, radius=1.0)


def test_a_run_without_noise_adds_none_if_it_ends_early():
    assert iterates(problem(), Budget(epsilon=math.inf, delta=1e-6)).last_std(7) == 0.0


def test_what_was_taught_without_noise_stays_without_a_bound():
    assert mu_with_taught([0.0, 1.0], math.inf, float, 3) == math.inf


def test_weights_of_an_average_are_those_of_its_name():
    for weights, expected in (("linear", [1.0, 5.0]), ("uniform", [1.0, 1.0])):
        plan = calibrate_average(problem(), BUDGET, l2=0.1, weights=weights)
        assert [plan.weight(1), plan.weight(5)] == expected


@pytest.mark.parametrize("rows", [1 << 12, 1 << 16])
def test_users_with_very_many_rows_cost_at_most_their_number(rows):
    plan = calibrate_average(problem(horizon=1 << 17), BUDGET, l2=0.1)
    found = plan.user_factor(rows, 1)
    assert plan.user_factor(rows - 1, 1) <= found <= rows
    assert np.isfinite(found)


def test_noise_of_shrinking_steps_falls_with_the_root_of_the_row():
    report = calibrate_report("privunit", dim=3, epsilon=1.0)
    plan = calibrate_steps(problem(), report, row_bound=1.0, release="last", l2=0.1, step="anytime", lazy=False)
    assert plan.std(16) == plan.last_std(16) == pytest.approx(report.deviation * 10.0 / 4.0)
    nodes = network(problem(), l2=0.1)
    assert nodes.std(32) == nodes.last_std(32) == pytest.approx(nodes.gradient_noise(1) / math.sqrt(2.0) * 10.0 / 4.0)
    assert nodes.user_factor(3, 1) == 3.0


def test_a_network_has_a_record_for_its_checker():
    found = mechanism_record(network(problem()))
    assert found is not None
    assert (found["kind"], found["nodes"]) == ("messages", 2)


def test_a_root_is_never_below_and_hardly_above():
    assert sqrt_up(Fraction(2)) ** 2 >= 2
    for x in (Fraction(1, 3), Fraction(4), Fraction(10) ** 300, Fraction(1, 10**300)):
        found = sqrt_up(x)
        assert Fraction(found) ** 2 >= x > Fraction(math.nextafter(found, 0.0)) ** 2
    assert sqrt_up(Fraction(10) ** 700) == math.inf


@pytest.mark.parametrize("design", ["sqrt", "smooth", "banded", "tree", "independent"])
def test_records_have_what_a_design_is_made_of(design):
    found = mechanism_record(squares(problem(loss=get_loss("squared")), design=design))
    assert found is not None
    own = found["noise"]["design"]
    assert own["name"] == design
    assert set(own) - {"name", "steps"} == {
        "sqrt": {"decay"},
        "smooth": {"height", "ones"},
        "banded": {"decay", "bandwidth"},
    }.get(design, set())
