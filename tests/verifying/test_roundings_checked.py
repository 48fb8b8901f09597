"""Runs too long for a test, where rounding is a share of the noise: the check charges what the plans charge.

Small runs do not test these charges, which are far below what a test of the noise can detect.
"""

from __future__ import annotations

import math

import pytest

from privol.calibration import (
    Budget,
    Problem,
    calibrate_average,
    calibrate_gradients,
    calibrate_iterates,
    calibrate_least_squares,
    calibrate_network,
    mechanism_record,
    offline_record,
)
from privol.geometry import L1Ball, L2Ball, Simplex
from privol.losses import get_loss
from privol.verifying.mechanisms import mechanism_of, upper

BUDGET, BALL = Budget(epsilon=1.0, delta=1e-9), L2Ball(5.0)


def problem(loss="logistic", horizon=10**8, dim=54, domain=BALL, adjacency="replace"):
    return Problem(
        loss=get_loss(loss), domain=domain, dim=dim, intercept=False, x_bound=1.0, y_bound=1.0,
        adjacency=adjacency, horizon=horizon,
    )  # fmt: skip


def iterates(loss, update, schedule, l2, domain=BALL, dim=54):
    given = problem(loss, domain=domain, dim=dim)
    plan = calibrate_iterates(given, BUDGET, update=update, release="last", l2=l2, l2_schedule=schedule)
    found = mechanism_record(plan)
    rows, start = plan.releases.last_row, plan.law.first_weight
    grown = 2.0 * l2 * math.sqrt(rows) if schedule == "inverse_sqrt" else l2 * rows
    return plan.mu, found, plan.std(rows) * plan.mu * (start + grown) / plan.diameter


def moments(design, adjacency):
    given = problem("squared", horizon=1 << 26, dim=20, adjacency=adjacency)
    plan = calibrate_least_squares(
        given, BUDGET, release="last", batch=1, design=design, buffers=4, objective="max", l2=0.01, noise_shift=2.0
    )
    found = mechanism_record(plan)
    one = 3.0 / math.sqrt(2.0) if adjacency == "replace" else math.sqrt(2.0)
    return plan.mu, found, plan.sums.charged / (one * plan.sums.factorization.column_norm)


def steps(adjacency):
    plan = calibrate_gradients(problem(adjacency=adjacency), BUDGET, release="last", l2=0.0, batch=1 << 20)
    width = plan.bound * (2.0 if adjacency == "replace" else 1.0)
    return plan.mu, mechanism_record(plan), plan.sigma * plan.mu / width


def messages(position, batch, l2):
    plan = calibrate_network(
        problem(), BUDGET, randomizer="gaussian", gradient_bound=1.0, nodes=4, batch=batch, release="last",
        noise_position=position, l2=l2,
    )  # fmt: skip
    return plan.mu, mechanism_record(plan), plan.report.scale * plan.mu / 2.0


def average(weights):
    given = problem(horizon=200_000, dim=100_000)
    plan = calibrate_average(given, BUDGET, l2=10.0, weights=weights)
    words = {"loss": given.loss, "rows": given.horizon, "dim": given.dim, "intercept": False}
    found = offline_record(plan, **words, x_bound=1.0, y_bound=1.0, adjacency="replace")
    return plan.mu, found, None


#: For each the least excess of the noise over its value without any rounding, where it is known.
CASES = {
    "implicit steps": (1.1, lambda: iterates("logistic", "implicit", "constant", 0.01)),
    "implicit steps of a hinge": (1.1, lambda: iterates("hinge", "implicit", "constant", 0.01)),
    "gradient steps": (1.1, lambda: iterates("logistic", "gradient", "constant", 0.01)),
    "steps whose regulariser falls": (1.0000001, lambda: iterates("logistic", "implicit", "inverse_sqrt", 1.0)),
    "implicit steps in an L1 ball": (1.1, lambda: iterates("logistic", "implicit", "constant", 1.0, L1Ball(5.0), 5400)),
    "gradient steps in a simplex": (1.1, lambda: iterates("logistic", "gradient", "constant", 1.0, Simplex(5.0), 5400)),
    "moments by a BLT": (1.05, lambda: moments("blt", "replace")),
    "moments that leave": (1.05, lambda: moments("blt", "zero_out")),
    "moments by a tree": (1.0, lambda: moments("tree", "replace")),
    "gradients of large steps": (1.00005, lambda: steps("zero_out")),
    "messages of large steps": (1.00005, lambda: messages("gradient", 1 << 20, 0.0)),
    "messages after short steps": (1.001, lambda: messages("output", 1, 1e6)),
    "averages": (None, lambda: average("linear")),
    "uniform averages": (None, lambda: average("uniform")),
    "last points": (None, lambda: average("last")),
}


@pytest.mark.parametrize("name", CASES)
def test_roundings_are_charged(name):
    least, make = CASES[name]
    mu, record, share = make()
    if least is not None:
        assert share >= least
    assert upper(mechanism_of(record).price(1, 1)) <= mu
    noise = record["noise"]
    for key in ("sigma", "scale", "gain", "first_std", "last_std"):
        if key in noise:
            noise[key] *= 1 - 1e-6
    assert upper(mechanism_of(record).price(1, 1)) > mu
