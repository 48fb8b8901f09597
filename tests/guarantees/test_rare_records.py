"""Records of guarantees that nothing makes, and figures at the ends of their ranges."""

from __future__ import annotations

import math
from typing import Any

import pytest

from privol.errors import InvalidParameter
from privol.guarantees import Bound, Guarantee, group_slack, weaknesses, zcdp_rho_of_pure


def record(**changes: Any) -> Guarantee:
    values: dict[str, Any] = {
        "kind": "gdp",
        "parameter": 0.1,
        "adjacency": "replace",
        "horizon": 1000,
        "releases": 1,
        "delta": 1e-6,
        "arithmetic": "lattice",
        "bit_source": "test",
    }
    return Guarantee(**(values | changes))


def test_records_that_contradict_themselves_are_refused():
    approximate = {"kind": "approximate", "slack": 1e-7}
    for words, message in (
        ({"leakage": 0.5}, "leakage must be None but for reports with noise"),
        ({"leakage": 0.5, "released": "reports", "kind": "none", "parameter": math.inf}, "leakage must be None"),
        ({"users_fixed": 1}, "users_fixed must be True or False"),
        (approximate | {"delta": 1e-8}, "delta must be at least the slack"),
        (approximate | {"released": "reports"}, "for a single release of a model"),
        (approximate | {"releases": 2}, "for a single release of a model"),
    ):
        with pytest.raises(InvalidParameter, match=message):
            record(**words)
    assert record(**approximate).slack == 1e-7


def test_a_group_beyond_the_doubles_is_promised_nothing():
    assert group_slack(10.0, 1e-9, 100) == 1.0
    assert group_slack(10.0, 1e-9, 2) < 1e-4


def test_a_delta_below_what_is_beside_allows_no_epsilon():
    bound = Bound(mu=0.5, pure=math.inf, slack=1e-5)
    assert bound.epsilon(1e-6) == math.inf
    assert bound.epsilon(1e-4) < 10.0


def test_ends_of_the_pure_scale():
    assert zcdp_rho_of_pure(0.0) == 0.0
    assert zcdp_rho_of_pure(math.inf) == math.inf


def test_a_group_whose_delta_is_large_is_a_weakness():
    found = weaknesses(record(kind="approximate", parameter=1.0, slack=1e-9, delta=1e-6, rows_per_user=18))
    assert any(words.startswith("delta for users is") for words in found)


def test_rows_of_a_user_at_a_point():
    text = record(kind="approximate", parameter=1.0, slack=1e-9, delta=1e-6, adjacency="zero_out").sentence()
    assert "by group privacy" in text


def test_no_shuffled_figure_for_more_rows_than_are_computed():
    assert record(kind="pure", released="reports", parameter=1.0, releases=1000).shuffled_epsilon() is not None
    assert record(kind="pure", released="reports", parameter=1.0, horizon=1 << 60).shuffled_epsilon() is None
