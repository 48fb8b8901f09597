"""Runs on different rows of one stream together cost as much as the most expensive one; all others add up."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privol
from privol.errors import BudgetExceeded, InvalidParameter
from privol.guarantees import Guarantee, gdp_epsilon, gdp_mu
from privol.ledger import Account, Ledger
from privol.state import State


def promise(mu=0.1, rows=100, kind="gdp", **words):
    return Guarantee(
        kind=kind, parameter=mu, adjacency="replace", horizon=rows, releases=10, delta=1e-6, arithmetic="a",
        bit_source="b", **words,
    )  # fmt: skip


def spend(account, share=1.0, releases=1):
    square = account.reserved_mu_squared * share
    rows = min(5, account.guarantee.horizon)
    account.attach(lambda: (rows, releases, square))
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
    said = "all 2 runs (mu by run: Encoder or Model (no row in two of them): 0.3, Other: 0.4; squares add up)"
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


def test_runs_that_cannot_stand_beside_others_are_refused():
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
        assert found.committed.mu == found.spent.mu == pytest.approx(0.4, rel=1e-9)  # its spending is unknown
        whole = Ledger()
        whole.include(found)
        assert whole.committed.mu == pytest.approx(0.4, rel=1e-9)
        spend(whole.open(learner="Other", guarantee=promise(0.3)))
        assert whole.committed.mu == pytest.approx(0.5, rel=1e-9)
        found.close()


def test_a_reader_without_groups_adds_the_costs_up(tmp_path):
    """A reader that ignores the journal's row positions states more, never less."""
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
    """k rows of a user are in the parts together: k times the most expensive part; unknown if one part's is."""
    capped = replace(promise(0.1), rows_per_user=3, user="who")
    for other, known in ((replace(promise(0.05), rows_per_user=3, user="who"), True), (promise(0.05), False)):
        ledger = Ledger()
        first = ledger.open(learner="Encoder", guarantee=other)
        ledger.open(learner="Model", guarantee=capped, beside=first.plan_id, first_row=101)
        (share,) = ledger._held()
        bound = share.user_bound
        assert (bound is not None) is known
        assert ("all rows of one user (column 'who') that are learnt: 0.3" in ledger.sentence()) is known
        if bound is not None:
            assert bound.mu == pytest.approx(0.3, rel=1e-9)


def test_caps_of_one_stream_are_the_same():
    capped = promise(0.1, rows_per_user=3, user="who")
    for other in ({"rows_per_user": 4, "user": "who"}, {"rows_per_user": 3, "user": "whose"}, {"rows_per_user": 3}):
        ledger = Ledger()
        first = ledger.open(learner="Encoder", guarantee=capped)
        with pytest.raises(InvalidParameter, match="rows_per_user and user must be the same for all parts"):
            ledger.open(learner="Model", guarantee=promise(0.1, **other), beside=first, first_row=101)
        assert len(ledger.accounts) == 1


def test_users_of_several_groups_and_runs():
    """k rows of a user, in any parts: k times the most expensive part; runs that share rows add up their squares."""
    ledger = Ledger()
    who = {"rows_per_user": 4, "user": "who"}
    first = ledger.open(learner="Encoder", guarantee=promise(0.2, **who))
    for mu in (0.3, 0.4):
        ledger.open(learner="Model", guarantee=promise(mu, **who), beside=first, first_row=101)
    bounds = [share.user_bound for share in ledger._held()]
    assert math.hypot(*(bound.mu for bound in bounds if bound is not None)) == pytest.approx(4 * 0.5, rel=1e-9)
    assert len(bounds) == 2
    # at worst all 4 rows are in one part: with j in the first and 4 - j in the second the squares of the costs add up
    assert max(math.hypot(j * 0.2, (4 - j) * 0.5) for j in range(5)) == pytest.approx(2.0)
    ledger.open(learner="Other", guarantee=promise(1.0, **who))
    assert re.search(r"all rows of one user \(column 'who'\) that are learnt: 4\.4\d+-GDP", ledger.sentence())


RUNS = st.lists(
    st.tuples(
        st.integers(0, 2),  # the number of the stream
        st.integers(1, 60),  # first row
        st.integers(1, 30),  # rows
        st.floats(0.01, 2.0),  # mu
        st.sampled_from(["open", "spent", "whole", "nothing"]),
    ),
    min_size=1,
    max_size=10,
)


@settings(max_examples=200, deadline=None)
@given(RUNS)
def test_every_row_pays_for_what_learnt_it(runs):
    """Against the definition: the most expensive row of each stream; streams add up."""
    ledger, firsts, kept = Ledger(), {}, {}
    for stream, first_row, rows, mu, what in runs:
        place = {"beside": firsts[stream], "first_row": first_row} if stream in firsts else {}
        try:
            account = ledger.open(learner="a", guarantee=promise(mu, rows=rows), **place)
        except InvalidParameter:
            low, high = account_range(place, rows)
            assert any(a <= high and low <= b and a != low for a, b, _ in kept[stream]) or low <= kept[stream][0][1]
            continue
        firsts.setdefault(stream, account)
        if what != "open":
            spend(account, share={"spent": 0.5, "whole": 1.0, "nothing": 0.0}[what], releases=int(what != "nothing"))
        low, high = account_range(place, rows)
        spent = {"spent": 0.5, "nothing": 0.0}.get(what, 1.0) * mu**2
        kept.setdefault(stream, []).append((low, high, spent))
    total = sum(
        max(sum(square for a, b, square in held if a <= row <= b) for row in range(1, 100)) for held in kept.values()
    )
    assert ledger.committed.mu == pytest.approx(math.sqrt(total), rel=1e-8)
    assert ledger.committed.mu >= math.sqrt(total) * (1 - 1e-15)
    assert sum(ledger._squares()) == pytest.approx(total, rel=1e-8)
    again = Ledger()
    again.include(ledger)
    assert again.committed == ledger.committed


def account_range(place, rows):
    first = place.get("first_row", 1)
    return first, first + rows - 1


def test_a_chain_costs_its_dearest_part():
    ledger = Ledger(epsilon=1.0, delta=1e-6)
    scale = ledger.open(learner="Scale", guarantee=promise(0.05, rows=10))
    knots = ledger.open(learner="Knots", guarantee=promise(0.2, rows=30), beside=scale, first_row=11)
    model = ledger.open(learner="Model", guarantee=promise(0.1, rows=60), beside=knots.plan_id, first_row=41)
    assert [account.group for account in (scale, knots, model)] == [scale.plan_id] * 3
    assert [account.rows for account in (scale, knots, model)] == [(1, 10), (11, 40), (41, 100)]
    assert (ledger.committed.mu, ledger.spent.mu) == (0.2, 0.0)
    assert ledger.committed.epsilon() == gdp_epsilon(0.2, 1e-6)
    assert ledger.remaining == pytest.approx(math.sqrt(gdp_mu(1.0, 1e-6) ** 2 - 0.04), rel=1e-12)
    spend(knots, share=0.0, releases=0)  # closed before it released anything
    assert ledger.committed.mu == 0.1
    spend(scale)
    assert (ledger.committed.mu, ledger.spent.mu) == (0.1, 0.05)
    spend(model, share=0.01)
    assert ledger.committed.mu == ledger.spent.mu == 0.05
    assert ledger.remaining == pytest.approx(math.sqrt(gdp_mu(1.0, 1e-6) ** 2 - 0.0025), rel=1e-12)
    assert "Scale or Model (no row in two of them): 0.05" in ledger.sentence()  # Knots released nothing


def test_a_limit_is_used_up_by_groups_to_the_last():
    """Groups add up as runs do, in cases where the root of the sum of all squares would exceed the limit."""
    mu = gdp_mu(1.0, 1e-6)
    ledger = Ledger(epsilon=1.0, delta=1e-6)
    for share in (0.6, 0.8):
        first = ledger.open(learner="Encoder", guarantee=promise(share * mu * (1 - 1e-9)))
        for row in (101, 201):
            ledger.open(learner="Model", guarantee=promise(share * mu * (1 - 1e-9)), beside=first, first_row=row)
    assert ledger.committed.epsilon() <= 1.0
    assert math.hypot(*(account.guarantee.mu for account in ledger.accounts)) > 1.7 * mu
    said = r"Model asks for .* by 6 earlier runs, and mu = 0\.1893\d+ \(.*\) is left, .* only the most expensive$"
    with pytest.raises(BudgetExceeded, match=said):
        ledger.open(learner="Model", guarantee=promise(0.81 * mu), beside=first, first_row=301)
    ledger.open(learner="Model", guarantee=promise(0.79 * mu), beside=first, first_row=301)
    with pytest.raises(BudgetExceeded):
        ledger.open(learner="Model", guarantee=promise(0.01 * mu), beside=first, first_row=101)  # the same rows again


def test_a_run_on_the_same_rows_again_adds_up():
    ledger = Ledger()
    first = ledger.open(learner="Encoder", guarantee=promise(0.45))
    for mu in (0.3, 0.4):
        spend(ledger.open(learner="Model", guarantee=promise(mu), beside=first, first_row=101))
    assert ledger.committed.mu == pytest.approx(0.5, rel=1e-9)
    assert ledger.spent.mu == pytest.approx(0.5, rel=1e-9)
    assert ledger.spent.releases == 2
    with pytest.raises(InvalidParameter, match="beyond the rows of Model"):  # neither the same rows nor others
        ledger.open(learner="Model", guarantee=promise(0.1), beside=first, first_row=102)
    with pytest.raises(InvalidParameter, match="beyond the rows of Model, 101 to 200"):
        ledger.open(learner="Model", guarantee=promise(0.1), beside=ledger.accounts[1], first_row=101)


def test_rows_beyond_the_horizon_are_rows_too():
    """A run that has learnt more rows than it declared shares them with the next part."""
    ledger = Ledger()
    first = ledger.open(learner="Encoder", guarantee=promise(0.3))
    ledger.open(learner="Model", guarantee=promise(0.4), beside=first, first_row=101)
    first.attach(lambda: (101, 1, 0.09))
    first.close()
    assert ledger.committed.mu == pytest.approx(0.5, rel=1e-9)


def test_accounts_of_other_ledgers():
    ledger, other = Ledger(), Ledger()
    theirs = other.open(learner="Encoder", guarantee=promise(0.3))
    for beside in (theirs, theirs.plan_id, "nothing", 7):
        with pytest.raises(InvalidParameter, match="beside must be an account of this ledger"):
            ledger.open(learner="Model", guarantee=promise(0.4), beside=beside, first_row=101)
    assert ledger.accounts == ()
    ledger.include(other)
    spend(ledger.open(learner="Model", guarantee=promise(0.4), beside=theirs, first_row=101))
    assert ledger.committed.mu == pytest.approx(0.4, rel=1e-9)
    other.include(ledger)  # they form one group there too
    assert other.committed.mu == pytest.approx(0.4, rel=1e-9)


def test_ledgers_that_disagree_about_rows_add_up():
    """Each knows one of two runs on overlapping rows after the same encoding: including both adds them up."""
    one = Ledger()
    first = one.open(learner="Encoder", guarantee=promise(0.3))
    spend(first)
    two = Ledger()
    two.include(one)
    spend(one.open(learner="One", guarantee=promise(0.3), beside=first, first_row=101))
    spend(two.open(learner="Two", guarantee=promise(0.4), beside=first, first_row=151))
    assert one.committed.mu == pytest.approx(0.3, rel=1e-9)
    assert two.committed.mu == pytest.approx(0.4, rel=1e-9)
    for ledger, other in ((one, two), (two, one)):
        ledger.include(other)
        ledger.include(other)
        assert len(ledger.accounts) == 3
        assert ledger.committed.mu == ledger.spent.mu == pytest.approx(0.5, rel=1e-9)


@pytest.mark.parametrize("kind", ["pure", "approximate"])
def test_kinds_that_add_up_are_never_grouped(kind):
    """Not even if a journal groups them."""
    ledger = Ledger()
    words = {"kind": kind, "slack": 1e-7, "releases": 1} if kind == "approximate" else {"kind": kind}
    first = ledger.open(learner="Encoder", guarantee=promise(0.3))
    other = replace(promise(0.2), **words)
    with pytest.raises(InvalidParameter, match=f"Model is of kind '{kind}', and adds up"):
        ledger.open(learner="Model", guarantee=other, beside=first, first_row=101)
    ledger._accounts.append(Account(ledger, "Model", other, facts={"beside": first.plan_id, "first_row": 101}))
    assert len(ledger._held()) == 2
    apart = Ledger()
    for account in ledger.accounts:
        apart.open(learner=account.learner, guarantee=account.guarantee)
    assert ledger.committed == apart.committed
    assert ledger.committed.bound.mu > math.hypot(0.3, 0.2)


def test_a_forged_place_is_refused():
    ledger = Ledger()
    first = ledger.open(learner="Encoder", guarantee=promise(0.3))
    for facts in ({"beside": first.plan_id, "first_row": 101}, {"first_row": 101}, {"included": True}):
        with pytest.raises(InvalidParameter, match="facts must not have"):
            ledger.open(learner="Model", guarantee=promise(0.4), facts=facts)
    account = ledger.open(learner="Model", guarantee=promise(), facts={"kept": True}, beside=first, first_row=101)
    assert account.facts == {"kept": True, "beside": first.plan_id, "first_row": 101}


def test_groups_survive_a_crash_at_any_moment(tmp_path):
    """The journal of a chain, cut after each of its lines: open runs count in full, and a group counts once."""
    path = tmp_path / "budget.jsonl"
    ledger = Ledger(epsilon=2.0, delta=1e-6, journal=path)
    first = ledger.open(learner="Encoder", guarantee=promise(0.3))
    first.attach(lambda: (100, 1, 0.09))
    first.commit()
    first.close()
    model = ledger.open(learner="Model", guarantee=promise(0.4), beside=first, first_row=101)
    model.attach(lambda: (30, 2, 0.04))
    model.commit()
    last = ledger.open(learner="Later", guarantee=promise(0.1), beside=model, first_row=201)
    model.close()
    last.close()
    ledger.close()
    lines = path.read_bytes().splitlines(keepends=True)
    expected = [0.0, 0.3, 0.3, 0.3, 0.4, 0.4, 0.4, 0.3, 0.3]
    assert len(lines) == len(expected)
    for count, mu in enumerate(expected, start=1):
        cut = tmp_path / f"{count}.jsonl"
        cut.write_bytes(b"".join(lines[:count]) + b'{"number": ')
        found = Ledger.read(cut)
        assert found.committed.mu == pytest.approx(mu, rel=1e-8)
        again = Ledger(epsilon=2.0, delta=1e-6, journal=cut)
        assert again.committed.mu == found.committed.mu
        assert again.remaining == found.remaining
        for account in again.accounts:  # the run continues, or another one starts on the same rows
            if account.learner == "Model" and not account.closed:
                account.attach(lambda: (100, 4, 0.16))
                account.close()
                assert again.spent.mu == pytest.approx(0.4, rel=1e-8)
        again.close()


def test_records_say_which_rows_of_the_stream(tmp_path):
    ledger = Ledger()
    first = ledger.open(learner="Encoder", guarantee=promise(0.3))
    model = ledger.open(learner="Model", guarantee=promise(0.4, rows=900), beside=first, first_row=101)
    assert [(entry.first_row, entry.last_row, entry.rows) for entry in ledger.entries()] == [(1, 0, 0), (101, 0, 0)]
    first.attach(lambda: (100, 1, 0.09))
    model.attach(lambda: (250, 3, 0.04))
    assert model.counts() == (250, 3, 0.04)
    model.commit()
    assert model.commits[0]["rows"] == 250
    entries = ledger.entries()
    assert [(e.first_row, e.last_row, e.rows) for e in entries] == [(1, 100, 100), (101, 350, 250)]
    assert [entry.beside for entry in entries] == [None, first.plan_id]
    one, two = ledger.to_records()
    assert "beside" not in one
    assert (two["beside"], two["first_row"], two["last_row"]) == (first.plan_id, 101, 350)
    ledger.write_jsonl(tmp_path / "records.jsonl")
    assert [json.loads(line) for line in (tmp_path / "records.jsonl").read_text().splitlines()] == [one, two]
    model.leave()
    model.close_at(*model.counts())  # as when the account is settled for a run that is gone
    assert model.entry().rows == 250


class After:
    """200 rows of a stream, after the 100 rows that an account has paid for."""

    first_row = 101

    def __init__(self, beside, ends_after=None):
        x = np.random.default_rng(3).uniform(-0.5, 0.5, size=(200, 3))
        self._rows = privol.open_stream((x, (x[:, 0] > 0).astype(int)), classes=[0, 1], block_rows=50)
        self.n_rows, self.classes, self.beside, self._ends_after = 200, (0, 1), beside.plan_id, ends_after

    def __iter__(self):
        for count, block in enumerate(self._rows):
            if count == self._ends_after:
                raise RuntimeError("the machine is gone")
            yield block


def test_learners_of_the_rows_that_follow():
    ledger = Ledger()
    encoder = ledger.open(learner="Encoder", guarantee=promise(0.2))
    spend(encoder)
    for _ in range(2):
        privol.DPFTRL(epsilon=1.0, delta=1e-6, ledger=ledger).fit_stream(After(encoder))
    _, one, two = ledger.entries()
    assert (one.first_row, one.last_row, two.first_row, two.last_row) == (101, 300, 101, 300)
    mu = gdp_mu(1.0, 1e-6)
    assert ledger.spent.mu == pytest.approx(math.sqrt(2) * mu, rel=1e-6)  # both fits, and no more for the encoder
    privol.DPFTRL(epsilon=1.0, delta=1e-6, ledger=(own := Ledger())).fit_stream(After(encoder))
    assert own.spent.mu == pytest.approx(mu, rel=1e-6)
    own.include(ledger)  # which does not say that these are other rows
    assert own.spent.mu == pytest.approx(math.sqrt(3) * mu, rel=1e-6)


def test_learners_that_cannot_stand_beside_add_up():
    """A pure one, and one whose rows a later part of the stream may share."""
    ledger = Ledger()
    encoder = ledger.open(learner="Encoder", guarantee=promise(0.3))
    spend(encoder)
    model = privol.OutputPerturbation(delta=0.0, epsilon=0.2, l2=0.1, ledger=ledger).fit_stream(After(encoder))
    pure = model.guarantee_.mu
    assert ledger.spent.mu == pytest.approx(math.hypot(0.3, pure), rel=1e-6)
    spend(ledger.open(learner="Later", guarantee=promise(0.3), beside=encoder, first_row=201))
    privol.DPFTRL(epsilon=1.0, delta=1e-6, ledger=ledger).fit_stream(After(encoder))
    assert ledger.spent.mu == pytest.approx(math.hypot(0.3, pure, gdp_mu(1.0, 1e-6)), rel=1e-6)


def test_a_kept_run_resumes_beside_another(tmp_path):
    ledger = Ledger(epsilon=1.0, delta=1e-6, journal=tmp_path / "budget.jsonl")
    encoder = ledger.open(learner="Encoder", guarantee=promise(gdp_mu(1.0, 1e-6) * (1 - 1e-9)))
    spend(encoder)
    words = {"epsilon": 1.0, "delta": 1e-6, "release": 50}
    learner = privol.DPFTRL(ledger=ledger, **words)
    with pytest.raises(RuntimeError, match="the machine is gone"):
        learner.fit_stream(After(encoder, ends_after=2), checkpoint=State(tmp_path / "RUN", every=1))
    ledger.close()
    found = Ledger.read(tmp_path / "budget.jsonl")
    assert [account.facts.get("beside") for account in found.accounts] == [None, encoder.plan_id]
    assert found.committed.epsilon() <= 1.0
    ledger = Ledger(epsilon=1.0, delta=1e-6, journal=tmp_path / "budget.jsonl")
    learner = privol.DPFTRL(ledger=ledger, **words)
    learner.fit_stream(After(encoder), checkpoint=State(tmp_path / "RUN", every=1))
    assert learner.n_rows_ == 200
    assert [(entry.first_row, entry.last_row, entry.open) for entry in ledger.entries()] == [
        (1, 5, False), (101, 300, False),
    ]  # fmt: skip
    assert ledger.spent.epsilon() <= 1.0
    ledger.close()
