"""Plans with more releases than can be summed one by one: the cost is bounded from above, and tightly."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from privol import PGIGA, PIGD
from privol.calibration import _iterates as iterates
from privol.errors import InvalidParameter

PARTS = 1 << 7


def plans(shape, schedule, every):
    words = {"noise_shape": shape, "l2_schedule": schedule, "epsilon": 1.0}
    return [kind(**words).calibrate(5, 60_007, every) for kind in (PIGD, PGIGA)]


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("schedule", ["constant", "inverse_sqrt"])
@pytest.mark.parametrize("shape", ["lipschitz", "smooth", "paper"])
def test_groups_of_releases_cost_at_least_their_sum(shape, schedule, every, monkeypatch):
    """Against the sum of all terms, with early octaves and few groups: never below, and hardly above."""
    for plan in plans(shape, schedule, every):
        exact = iterates._weighted_sum(plan.schedule, plan.releases)
        monkeypatch.setattr(iterates, "_TERMS", 1 << 8)
        monkeypatch.setattr(iterates, "_PARTS", PARTS)
        monkeypatch.setattr(iterates, "_WITHIN_PART", (1.0 + 1.0 / PARTS) ** 6)
        bound = iterates._weighted_sum(plan.schedule, plan.releases)
        monkeypatch.undo()
        assert exact < bound < exact * (1.0 + 9.0 / PARTS)


@pytest.mark.parametrize("shape", ["lipschitz", "smooth", "paper"])
def test_every_term_is_within_its_part(shape):
    """The inequality that the bound rests on, with rounding that grows as fast as it may: row by row."""
    unit = iterates.Schedule(
        kind=0, a0=0.1, l2=0.1, first=1, diameter=1.0, rounding=(1.0, 10.0, 100.0), cap=1e9,
        shape=iterates._SHAPE_CODES[shape], gain=1.0,
    )  # fmt: skip
    rows = np.arange(1 << 10, 1 << 12, dtype=np.int64)
    sensitivity, weight = unit.at(rows)
    terms = (sensitivity / weight) ** 2
    for length in (8, 100, 1000):
        starts = np.arange(0, len(rows) - length, length)
        for start in starts:
            part = terms[start : start + length]
            ratio = float(rows[start + length - 1] / rows[start])
            assert part.max() <= part[0] * ratio**6 * (1.0 + 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("horizon", [400_000_000, 1 << 52])
def test_a_plan_of_any_length_is_calibrated(horizon):
    """All releases of a run of 2^52 rows: the bound is just above the sum of the terms, found by an integral."""
    plan = PIGD(epsilon=1.0, noise_shape="smooth", fit_intercept=False).calibrate(5, horizon, "all")
    unit = plan.schedule.with_gain(1.0)
    # for this shape a term is s_t, convex and decreasing: between two integrals of (D + E_t) / A_t
    edges = np.unique(np.geomspace(1, horizon, 40_000).astype(np.int64))
    sensitivity, _ = unit.at(edges)
    middle, _ = unit.at((edges[1:] + edges[:-1]) // 2)
    widths = np.diff(edges)
    total = float(np.sum(widths * (sensitivity[1:] + 4 * middle + sensitivity[:-1]) / 6)) + sensitivity[0] / 2
    gain = math.sqrt(total) / plan.mu
    assert gain * (1.0 - 1e-2) < plan.schedule.gain < gain * (1.0 + 1e-2)
    assert plan.schedule.gain >= math.sqrt(float(np.sum(widths * sensitivity[1:]))) / plan.mu


def test_a_list_of_release_rows_costs_the_exact_sum():
    """When all are read at once, each row has the figures that it has by itself, bit by bit."""
    plan = PIGD().calibrate(5, 10_000, [3, 5, 700, 10_000])
    sensitivity, std = plan.schedule.at(plan.releases.rows)
    assert sensitivity.tolist() == [plan.sensitivity(row) for row in plan.releases.rows.tolist()]
    assert std.tolist() == [plan.std(row) for row in plan.releases.rows.tolist()]
    square = sum(Fraction(s) ** 2 / Fraction(w) ** 2 for s, w in zip(sensitivity.tolist(), std.tolist(), strict=True))
    assert Fraction(plan.mu) ** 2 * (1 - Fraction(1, 10**11)) <= square <= Fraction(plan.mu) ** 2


def test_published_steps_refuse_more_releases_than_can_be_listed():
    with pytest.raises(InvalidParameter, match="at most 134217728 models for PGIGA"):
        PGIGA(calibration="published", l2=1.0).calibrate(5, 1 << 40, "all")
