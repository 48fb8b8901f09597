"""Ledgers, journals and runs that cannot be what they say are refused, and a journal is free again afterwards."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

import pytest

from privol.errors import BudgetExceeded, InvalidParameter, StateError
from privol.guarantees import Guarantee
from privol.ledger import Ledger


def plan(parameter: float = 0.1, **changes: Any) -> Guarantee:
    values: dict[str, Any] = {
        "kind": "gdp",
        "parameter": parameter,
        "adjacency": "replace",
        "horizon": 1000,
        "releases": 1,
        "delta": 1e-6,
        "arithmetic": "lattice",
        "bit_source": "test",
    }
    return Guarantee(**(values | changes))


def approximate(slack: float) -> Guarantee:
    return plan(kind="approximate", slack=slack, delta=1e-5)


def test_slack_is_a_part_of_a_limits_delta():
    with pytest.raises(InvalidParameter, match="slack is a part of delta and must be at most 1e-06"):
        Ledger(epsilon=1.0, delta=1e-6, slack=1e-5)
    with pytest.raises(InvalidParameter, match="slack must be 0 without a limit"):
        Ledger(slack=1e-5)


def test_runs_with_slack_use_up_what_is_set_aside():
    ledger = Ledger(epsilon=5.0, delta=1e-4, slack=1e-6)
    ledger.open(learner="first", guarantee=approximate(6e-7))
    with pytest.raises(BudgetExceeded, match=r"asks for a delta of 6e-7 of its own.*6e-7 is spent or reserved"):
        ledger.open(learner="second", guarantee=approximate(6e-7))
    ledger.open(learner="third", guarantee=approximate(3e-7))


def test_included_runs_with_more_slack_leave_nothing():
    other, ledger = Ledger(), Ledger(epsilon=5.0, delta=1e-4, slack=1e-6)
    other.open(learner="elsewhere", guarantee=approximate(5e-6))
    ledger.include(other)
    assert ledger.remaining_pure == 0.0
    assert ledger.remaining == 0.0
    with pytest.raises(BudgetExceeded, match="asks for more than is left, which is nothing"):
        ledger.open(learner="here", guarantee=approximate(1e-7))


def test_ledgers_of_other_relations_are_not_included():
    with pytest.raises(InvalidParameter, match="guarantees for different relations do not compose"):
        Ledger().include(Ledger(adjacency="zero_out"))


def test_a_limit_stays_what_it_was_and_the_journal_is_free_again(tmp_path):
    path = tmp_path / "ledger.jsonl"
    Ledger(epsilon=1.0, delta=1e-6, journal=path).close()
    with pytest.raises(StateError, match=r"has epsilon 1.0, and 2.0 is asked for"):
        Ledger(epsilon=2.0, delta=1e-6, journal=path)
    Ledger(epsilon=1.0, delta=1e-6, journal=path).close()  # the refusal let go of it


def test_an_empty_journal_is_none(tmp_path):
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(b"")
    with pytest.raises(StateError, match="is empty"):
        Ledger.read(path)


def test_a_first_record_of_no_format_is_no_journal(tmp_path):
    record = {"kind": "ledger", "number": 1}
    digest = hashlib.sha256(f"\n{json.dumps(record, sort_keys=True)}".encode()).hexdigest()
    path = tmp_path / "ledger.jsonl"
    path.write_text(json.dumps({**record, "sha256": digest}) + "\n")
    with pytest.raises(StateError, match="is not a journal of format"):
        Ledger.read(path)


def test_a_closed_ledger_takes_no_counters(tmp_path):
    ledger = Ledger(journal=tmp_path / "ledger.jsonl")
    account = ledger.open(learner="one", guarantee=plan())
    ledger.close()
    with pytest.raises(StateError, match="closed"):
        account.attach(lambda: (0, 0, 0.0))


def test_rows_before_those_of_the_run_beside_are_refused():
    ledger = Ledger()
    first = ledger.open(learner="first", guarantee=plan())
    last = ledger.open(learner="last", guarantee=plan(), beside=first, first_row=5000)
    with pytest.raises(InvalidParameter, match="first_row must be beyond the rows of last, which end at 5,999"):
        ledger.open(learner="between", guarantee=plan(), beside=last, first_row=2000)


def test_figures_of_runs_that_paid_nothing():
    ledger = Ledger()
    ledger.open(learner="free", guarantee=plan(0.0))
    assert ledger.spent.epsilon(1e-6) == 0.0


def test_a_delta_that_the_slack_exceeds_states_no_fixed_figure():
    ledger = Ledger()
    ledger.open(learner="one", guarantee=approximate(5e-6))
    assert ledger.committed.epsilon_if_fixed(1e-7) == ledger.committed.epsilon(1e-7) == math.inf
