"""Plans of offline learners: the noise of the single release, the computed figures, and suggestions."""

from __future__ import annotations

import json
import math

import pytest

import privol
from privol.errors import InvalidParameter
from privol.learners import OFFLINE_LEARNERS

each = pytest.mark.parametrize("name", OFFLINE_LEARNERS)


@each
def test_a_plan_is_that_of_the_learners_calibration(name):
    words = {"epsilon": 0.5, "x_bound": 2.0}
    plan, made = privol.plan(name, n_features=9, horizon=5_000, **words), OFFLINE_LEARNERS[name](**words)
    found = made.calibrate(9, 5_000)
    assert plan.derived == {"l2": found.l2, "radius": found.ball}
    (row,) = plan.rows
    inside = name == "objective-perturbation"
    scale = found.scale / found.l2_sum + found.final_scale if inside else found.scale
    assert row.std == scale
    assert row.score_std == pytest.approx(scale * math.sqrt(5.0))
    assert row.largest_score == pytest.approx(found.ball * math.sqrt(5.0))
    assert (plan.guarantee.kind, plan.guarantee.private) == ("approximate" if inside else "gdp", True)
    assert plan.guarantee.epsilon(1e-6) == pytest.approx(0.5, rel=1e-6)
    record = json.loads(plan.to_json())
    assert record["derived"] == plan.derived
    assert f"l2 = {found.l2:.6g}" in plan.text()
    assert privol.plan(name, n_features=9, horizon=5_000, l2=0.1, radius=1.0).derived == {}


@each
def test_if_noise_hides_the_model_remedies_are_stated(name):
    plan = privol.plan(name, n_features=20, horizon=300, epsilon=0.1)
    assert plan.verdict.startswith("NOISE: ")
    assert "beat a constant" in plan.verdict
    rows = {remedy.parameter: remedy.value for remedy in plan.remedies}["horizon"]
    assert privol.plan(name, n_features=20, horizon=rows, epsilon=0.1).verdict.startswith("SIGNAL: ")
    assert privol.plan(name, n_features=20, horizon=300, epsilon=math.inf).verdict.startswith("no noise")
    with pytest.raises(InvalidParameter, match="no parameter release"):
        privol.plan(name, n_features=20, horizon=300, release="last")
    with pytest.raises(InvalidParameter, match="horizon"):
        privol.plan(name, n_features=20, horizon=0)
