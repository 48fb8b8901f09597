"""Runs on different rows of one stream cost together what the dearest of them costs; all others add up."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from privol.errors import BudgetExceeded, InvalidParameter
from privol.guarantees import Guarantee, gdp_mu
from privol.ledger import Ledger


def promise(mu=0.1, rows=100, kind="gdp", **words):
    return Guarantee(
        kind=kind, parameter=mu, adjacency="replace", horizon=rows, releases=10, delta=1e-6, arithmetic="a",
        bit_source="b", **words,
    )  # fmt: skip


def spend(account, share=1.0, releases=1):
    square = account.reserved_mu_squared * share
    account.attach(lambda: (5, releases, square))
    account.close()


def test_the_dearest_counts():
    ledger = Ledger()
    first = ledger.open(learner="Encoder", guarantee=promise(0.3))
    second = ledger.open(learner="Model", guarantee=promise(0.4), beside=first.plan_id, first_row=101)
    assert ledger.committed.mu == pytest.approx(0.4, rel=1e-9)
    spend(first)
    assert ledger.spent.mu == pytest.approx(0.3, rel=1e-9)
    spend(second, share=0.25)
    assert ledger.spent.mu == ledger.committed.mu == pytest.approx(0.3, rel=1e-6)
    other = ledger.open(learner="Other", guarantee=promise(0.4))
    spend(other)
    assert ledger.spent.mu == pytest.approx(0.5, rel=1e-6)
    assert ledger.spent.releases == 3
    said = "2 runs together (mu by run: Encoder or Model (no row in two of them): 0.3, Other: 0.4; squares add up)"
    assert said in ledger.sentence()


def test_a_chain_is_one_group():
    ledger = Ledger()
    last = None
    for part in range(3):
        words = {} if last is None else {"beside": last.plan_id, "first_row": 100 * part + 1}
        last = ledger.open(learner=f"part {part}", guarantee=promise(0.2), **words)
    assert len({account.group for account in ledger.accounts}) == 1
    assert ledger.committed.mu == pytest.approx(0.2, rel=1e-9)


def test_a_limit_admits_a_group_as_one():
    mu = gdp_mu(1.0, 1e-6) * (1 - 1e-9)
    ledger = Ledger(epsilon=1.0, delta=1e-6)
    first = ledger.open(learner="Encoder", guarantee=promise(mu))
    with pytest.raises(BudgetExceeded):
        ledger.open(learner="Model", guarantee=promise(mu))
    second = ledger.open(learner="Model", guarantee=promise(mu), beside=first.plan_id, first_row=101)
    assert ledger.remaining < 1e-3
    with pytest.raises(BudgetExceeded):
        ledger.open(learner="More", guarantee=promise(0.01))
    spend(first)
    spend(second)
    assert ledger.spent.epsilon() <= 1.0 + 1e-8


def test_what_cannot_be_beside():
    ledger, other = Ledger(), Ledger()
    first = ledger.open(learner="Encoder", guarantee=promise())
    elsewhere = other.open(learner="Encoder", guarantee=promise())
    pure = ledger.open(learner="Pure", guarantee=promise(kind="pure"))
    n = len(ledger.accounts)
    for words, said in (
        ({"beside": elsewhere.plan_id, "first_row": 101}, "of this ledger"),
        ({"beside": pure.plan_id, "first_row": 101}, "of kind 'pure'"),
        ({"beside": first.plan_id, "first_row": 100}, "beyond the rows of Encoder, 1 to 100"),
        ({"beside": first.plan_id, "first_row": 1}, "beyond the rows"),
        ({"beside": first.plan_id, "first_row": 0}, "first_row"),
        ({"first_row": 7}, "first_row is for a run beside another"),
    ):
        with pytest.raises(InvalidParameter, match=said):
            ledger.open(learner="Model", guarantee=promise(), **words)
    with pytest.raises(InvalidParameter, match="of kind 'pure'"):
        ledger.open(learner="Model", guarantee=promise(kind="pure"), beside=first.plan_id, first_row=101)
    ledger.open(learner="Model", guarantee=promise(rows=50), beside=first.plan_id, first_row=201)
    with pytest.raises(InvalidParameter, match="beyond the rows of Model, 201 to 250"):
        ledger.open(learner="Model", guarantee=promise(rows=101), beside=first.plan_id, first_row=101)
    assert len(ledger.accounts) == n + 1


def test_a_group_outlives_the_process(tmp_path):
    path = tmp_path / "budget.jsonl"
    ledger = Ledger(journal=path)
    first = ledger.open(learner="Encoder", guarantee=promise(0.3))
    spend(first)
    ledger.open(learner="Model", guarantee=promise(0.4), beside=first.plan_id, first_row=101)
    ledger.close()
    for found in (Ledger.read(path), Ledger(journal=path)):
        assert found.committed.mu == found.spent.mu == pytest.approx(0.4, rel=1e-9)  # nobody can say what it spent
        whole = Ledger()
        whole.include(found)
        assert whole.committed.mu == pytest.approx(0.4, rel=1e-9)
        spend(whole.open(learner="Other", guarantee=promise(0.3)))
        assert whole.committed.mu == pytest.approx(0.5, rel=1e-9)
        found.close()


def test_who_does_not_know_groups_adds_up(tmp_path):
    """A reader that ignores what the journal says of places states more, never less."""
    path = tmp_path / "budget.jsonl"
    ledger = Ledger(journal=path)
    first = ledger.open(learner="Encoder", guarantee=promise(0.3))
    ledger.open(learner="Model", guarantee=promise(0.4), beside=first.plan_id, first_row=101)
    ledger.close()
    facts = [json.loads(line).get("facts") for line in path.read_text().splitlines()]
    assert facts[2] == {"beside": first.plan_id, "first_row": 101}
    alone = Ledger()
    for account in Ledger.read(path).accounts:
        alone.open(learner=account.learner, guarantee=account.guarantee)
    assert alone.committed.mu == pytest.approx(0.5, rel=1e-9)


def test_without_noise_and_with_a_known_seed():
    ledger = Ledger()
    first = ledger.open(learner="Encoder", guarantee=promise(math.inf, kind="none"))
    second = ledger.open(learner="Model", guarantee=promise(0.1), beside=first.plan_id, first_row=101)
    spend(first)
    spend(second)
    assert ledger.spent.mu == math.inf
    assert not ledger.spent.private
    ledger = Ledger()
    first = ledger.open(learner="Encoder", guarantee=promise(0.1, private=False))
    second = ledger.open(learner="Model", guarantee=promise(0.2), beside=first.plan_id, first_row=101)
    spend(first)
    spend(second)
    assert ledger.spent.mu == pytest.approx(0.2, rel=1e-9)
    assert not ledger.spent.private


def test_users_of_a_group():
    """k rows of a user are in the parts together: k times the dearest; unknown where one part does not know."""
    capped = replace(promise(0.1), rows_per_user=3, user="who")
    for other, known in ((replace(promise(0.05), rows_per_user=3, user="who"), True), (promise(0.05), False)):
        ledger = Ledger()
        first = ledger.open(learner="Encoder", guarantee=other)
        ledger.open(learner="Model", guarantee=capped, beside=first.plan_id, first_row=101)
        (share,) = ledger._held()
        bound = share.user_bound
        assert (bound is not None) is known
        if bound is not None:
            assert bound.mu == pytest.approx(0.3, rel=1e-9)
