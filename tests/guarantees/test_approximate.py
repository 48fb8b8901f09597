"""Runs that are proved at one (epsilon, delta) alone: no figure without their slack, wherever one is requested."""

from __future__ import annotations

import functools
import json
import math
import os
import sys
from fractions import Fraction
from pathlib import Path

import mpmath as mp
import pytest
import warm
from cli_tools import privol_cli
from hypothesis import given, settings
from hypothesis import strategies as st

from privol.errors import BudgetExceeded, InvalidParameter, StateError
from privol.guarantees import (
    Bound,
    Guarantee,
    approximate_delta,
    approximate_epsilon,
    compose_gdp,
    gdp_delta,
    gdp_epsilon,
    gdp_mu,
    gdp_mu_of_pure,
    group_slack,
    pure_epsilon,
    weaknesses,
)
from privol.ledger import Ledger

pytestmark = pytest.mark.process

HERE = str(Path(__file__).parent)  # for processes that import this file
SLACK = 1e-6


def plan(kind="approximate", parameter=0.5, **words):
    values = {"adjacency": "replace", "horizon": 100, "releases": 1, "delta": SLACK, "arithmetic": "a"}
    if kind == "approximate":
        values["slack"] = words.get("delta", SLACK)
    return Guarantee(kind=kind, parameter=parameter, bit_source="b", **(values | words))


def held(*runs, **limit):
    ledger = Ledger(**limit)
    for kind, parameter, *slack in runs:
        words = {"delta": slack[0], "slack": slack[0]} if slack else {}
        ledger.open(learner=kind, guarantee=plan(kind, parameter, **words))
    return ledger


def released(account, releases=1, square=None):
    account.attach(lambda: (7, releases, account.reserved_mu_squared if square is None else square))
    account.close()


def exact_delta(epsilon, runs, mu=0.0):
    """For randomised responses that reveal everything with probability slack, and a Gaussian: in 40 digits, by sums."""
    with mp.workdps(40):
        losses, known = {mp.mpf(0): mp.mpf(1)}, mp.mpf(1)
        for parameter, slack in runs:
            e, spread = mp.mpf(parameter), {}
            known *= 1 - mp.mpf(slack)
            for loss, chance in losses.items():
                for end, p in ((loss + e, 1 / (1 + mp.exp(-e))), (loss - e, 1 / (1 + mp.exp(e)))):
                    spread[end] = spread.get(end, 0) + chance * p
            losses = spread
        total, m = mp.mpf(0), mp.mpf(mu)
        for loss, chance in losses.items():
            rest = epsilon - loss
            if mu:
                total += chance * (mp.ncdf(m / 2 - rest / m) - mp.exp(rest) * mp.ncdf(-m / 2 - rest / m))
            else:
                total += chance * max(0, 1 - mp.exp(rest))
        return 1 - known + known * total


# -- one mechanism --


@settings(max_examples=200, deadline=None)
@given(st.floats(0, 20), st.floats(1e-12, 0.5), st.floats(0, 20))
def test_delta_is_that_of_the_worst_mechanism_rounded_up(parameter, slack, epsilon):
    found, exact = approximate_delta(epsilon, parameter, slack), exact_delta(epsilon, [(parameter, slack)])
    assert exact <= found <= 1.0
    assert found <= float(exact) * (1 + 1e-12) + slack * float(exact)  # including that both may happen at once
    if epsilon >= parameter:
        assert found == slack


@settings(max_examples=200, deadline=None)
@given(st.floats(0, 20), st.floats(1e-12, 0.5), st.floats(0, 0.5))
def test_epsilon_is_where_the_delta_is(parameter, slack, more):
    delta = min(slack + more, 0.999)
    found = approximate_epsilon(parameter, slack, delta)
    assert exact_delta(found, [(parameter, slack)]) <= delta
    assert found <= parameter
    assert approximate_epsilon(parameter, slack, slack) == parameter
    assert approximate_epsilon(parameter, slack, math.nextafter(slack, 0.0)) == math.inf
    assert approximate_epsilon(parameter, 0.0, delta) == pure_epsilon(parameter, delta)


@settings(max_examples=200, deadline=None)
@given(st.floats(0, 30), st.floats(0, 0.1), st.integers(1, 40))
def test_slack_of_several_rows(parameter, slack, rows):
    found = group_slack(parameter, slack, rows)
    with mp.workdps(40):
        exact = mp.mpf(slack) * mp.fsum(mp.exp(mp.mpf(parameter) * i) for i in range(rows))
    if exact > 1 or exact == 0:
        assert found == min(exact, 1)
    elif parameter * rows < 700.0:
        assert exact <= found <= float(exact) * (1 + 1e-9) + 1e-300
    else:
        assert found == 1.0
    assert group_slack(math.inf, 1e-9, 2) == 1.0


def test_a_chain_of_rows_attains_the_slack_of_several():
    """Distributions that attain every step of group privacy: each row moves its full slack to where it shows."""
    epsilon, slack, rows = 0.7, 0.01, 4
    seen = [0.0]
    for _ in range(rows):
        seen.append(math.exp(epsilon) * seen[-1] + slack)
    assert group_slack(epsilon, slack, rows) == pytest.approx(seen[-1], rel=1e-11)
    assert group_slack(epsilon, slack, rows) >= seen[-1]


def test_figures_of_the_record():
    g = plan(delta=1e-5, slack=1e-6)
    assert g.mu == g.rho == math.inf
    assert g.epsilon(1e-6) == 0.5
    assert g.epsilon(9e-7) == g.epsilon(0.0) == math.inf
    assert g.epsilon() == pure_epsilon(0.5, 1e-5 - 1e-6) < 0.5
    assert g.delta_at(0.5) == g.delta_at(3.0) == 1e-6
    assert g.delta_at(0.4) > 0.02
    assert g.bound == Bound(gdp_mu_of_pure(0.5), 0.5, 1e-6)
    assert (g.user_bound, g.user_mu, g.user_epsilon(0.5), g.shuffled_epsilon()) == (None, None, None, None)


def test_figures_of_the_record_for_users():
    g = plan(rows_per_user=3, user="id")
    slack = group_slack(0.5, SLACK, 3)
    assert g.user_mu == math.inf
    assert g.user_epsilon() == math.inf  # at the delta for rows nothing is proved
    assert g.user_epsilon(slack) == 1.5
    assert g.user_bound == Bound(gdp_mu_of_pure(1.5), 1.5, slack)
    assert slack >= SLACK * (1 + math.exp(0.5) + math.exp(1.0))
    hopeless = plan(parameter=20.0, rows_per_user=3)
    assert hopeless.user_bound.slack == 1.0
    assert hopeless.user_epsilon(0.999) == math.inf
    assert "nothing is guaranteed for several rows of one user either" in hopeless.sentence()
    assert "epsilon infinity at delta 1 for one user" in hopeless.summary()


@pytest.mark.parametrize(
    "words",
    [{"slack": 0.0}, {"slack": 1.0, "delta": 0.5}, {"slack": -1e-9}, {"slack": math.nan}, {"slack": True},
     {"slack": 1e-5, "delta": 1e-6}, {"releases": 2}, {"released": "reports"}, {"released": "sums"},
     {"released": "metrics"}, {"released": "metrics_beyond_models"}, {"kind": "pure", "slack": 1e-6},
     {"kind": "gdp", "slack": 1e-6}, {"kind": "none", "parameter": math.inf, "slack": 1e-6}, {"parameter": math.inf}],
)  # fmt: skip
def test_inconsistent_records_are_refused(words):
    with pytest.raises(InvalidParameter):
        plan(**words)


def test_sentences_of_the_record():
    said = plan().sentence()
    assert said.startswith("Differential privacy with (epsilon, delta) = (0.5, 1e-6). It is proved at this one delta")
    assert "Gaussian, zero-concentrated or Renyi differential privacy does not follow" in said
    assert "-GDP" not in said
    assert "(0.5, 1e-6), which implies (0.5, 1e-5)" in plan(delta=1e-5, slack=1e-6).sentence()
    said = plan(adjacency="zero_out").sentence()
    assert "covered by (epsilon, delta) = (1, 2.649e-6), by group privacy)" in said
    said = plan(rows_per_user=2, user="id").sentence()
    assert "is covered by (epsilon, delta) = (1, 2.649e-6), by group privacy" in said
    line = plan(rows_per_user=2, user="id").summary()
    assert line == (
        "differential privacy with epsilon 0.5 at delta 1e-6 for one row (proved at delta 1e-6 alone, which "
        "implies no GDP); epsilon 1 at delta 2.649e-6 for one user (column 'id', at most 2 rows)"
    )
    assert plan(private=False).sentence().startswith("NOT PRIVATE")


def test_weaknesses():
    assert weaknesses(plan()) == []
    assert "delta is not below one over" in weaknesses(plan(), rows=2_000_000)[0]
    assert "epsilon is 12" in weaknesses(plan(parameter=12.0))[0]
    found = weaknesses(plan(parameter=3.0, rows_per_user=4))
    assert found[0].startswith("delta for users is 0.0085")
    assert "epsilon for users is 12" in found[1]


def test_records_are_kept_and_older_releases_refuse_them():
    g = plan(rows_per_user=2)
    record = json.loads(g.to_json())
    assert Guarantee.from_json(g.to_json()) == g
    # the requirement of an earlier release: a kind that it knows, and no unknown field
    assert record["kind"] not in ("gdp", "pure", "none")
    assert "slack" in record
    assert "slack" not in plan("pure").to_record()
    for change in ({"slack": 0.0}, {"kind": "pure"}, {"kind": "gdp"}):
        with pytest.raises(InvalidParameter):
            Guarantee.from_record(record | change)
    del record["slack"]
    with pytest.raises(InvalidParameter, match="slack must be above 0"):
        Guarantee.from_record(record)


# -- several --


RUNS = st.lists(
    st.one_of(
        st.tuples(st.just("gdp"), st.floats(0.01, 1.0)),
        st.tuples(st.just("pure"), st.floats(0.01, 1.0)),
        st.tuples(st.just("approximate"), st.floats(0.01, 1.0), st.sampled_from([1e-9, 1e-6, 0.01])),
    ),
    min_size=1, max_size=5,
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(RUNS, st.floats(0.0, 4.0))
def test_no_composition_is_below_that_of_the_worst_mechanisms(runs, epsilon):
    spent = held(*runs).committed
    mu = compose_gdp([run[1] for run in runs if run[0] == "gdp"])
    exact = exact_delta(epsilon, [(run[1], run[2] if run[2:] else 0.0) for run in runs if run[0] != "gdp"], mu)
    found = spent.delta_at(epsilon)
    assert exact <= found * (1 + 1e-12) + 1e-300
    slacks = [Fraction(run[2]) for run in runs if run[2:]]
    assert Fraction(spent.slack) >= sum(slacks)
    if slacks:
        assert spent.mu == spent.rho == spent.pure_epsilon == math.inf
        assert spent.epsilon(math.nextafter(spent.slack, 0.0)) == math.inf
        assert min(spent.slack, 1.0) <= spent.delta_at(1e6) <= spent.slack * (1 + 1e-12)
    if found < 1.0:
        assert spent.epsilon(max(found, 1e-300)) <= epsilon * (1 + 1e-9) + 1e-9
    # the same runs without slack, at the rest of delta
    bare = held(*[("pure" if run[2:] else run[0], run[1]) for run in runs]).committed
    if spent.slack < 0.5:
        assert spent.epsilon(spent.slack + 0.25) >= bare.epsilon(0.25 * (1 + 1e-12))
        assert spent.epsilon(spent.slack + 0.25) == pytest.approx(bare.epsilon(0.25), rel=1e-9, abs=1e-12)


def test_epsilons_and_slacks_add_up():
    held_ = held(("approximate", 0.5, 1e-6), ("approximate", 0.25, 2e-6), ("pure", 0.25)).committed
    assert held_.slack == 1e-6 + 2e-6
    assert held_.epsilon(held_.slack) == 1.0
    assert held_.epsilon(2.9e-6) == math.inf
    mixed = held(("approximate", 0.5, 1e-6), ("gdp", 0.1)).committed
    assert mixed.epsilon(1e-6) == math.inf  # the Gaussian one needs some delta too
    assert mixed.epsilon(2e-6) == gdp_epsilon(math.nextafter(mixed.bound.mu, 0), 1e-6) or (
        mixed.epsilon(2e-6) == pytest.approx(gdp_epsilon(math.hypot(gdp_mu_of_pure(0.5), 0.1), 1e-6), rel=1e-9)
    )


@pytest.mark.parametrize(("mu", "runs", "delta"), [
    (0.0, [(0.3, 1e-6)] * 8, 5e-5), (0.5, [(0.75, 1e-7), (0.25, 2e-7), (0.75, 0.0)], 1e-6), (0.0, [(1.0, 1e-4)], 1e-3),
])  # fmt: skip
def test_the_same_as_the_accounting_library(mu, runs, delta):
    """For runs fixed beforehand: its own discretisations, whose infinite losses are the slacks."""
    pytest.importorskip("dp_accounting")
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    step, whole = 2.0**-13, None
    for epsilon, slack in runs:
        one = pld.from_privacy_parameters(common.DifferentialPrivacyParameters(epsilon, slack), step)
        whole = one if whole is None else whole.compose(one)
    if mu:
        whole = whole.compose(pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=step))
    ledger = held(*[("approximate", *run) if run[1] else ("pure", run[0]) for run in runs], *[("gdp", mu)] * bool(mu))
    found, theirs = ledger.committed.epsilon_if_fixed(delta), whole.get_epsilon_for_delta(delta)
    assert found == pytest.approx(theirs, rel=2e-3)
    assert exact_delta(found, runs, mu) <= delta
    assert found <= ledger.committed.epsilon(delta)
    assert ledger.committed.epsilon_if_fixed(1e-7) == math.inf


def test_sentences_of_several():
    ledger = held(("approximate", 0.5, 1e-6), ("approximate", 0.25, 2e-6))
    said = ledger.sentence()
    assert said.startswith("Differential privacy with (epsilon, delta) = (0.75, 3e-6), of which a delta of 3e-6")
    assert "nothing is promised), and beside it 0.698-GDP, for one row" in said
    assert "approximate: 0.6239 by its pure epsilon of 0.5 beside a slack of 1e-6" in said
    assert "squares add up, and so do pure epsilons, and so do slacks" in said
    mixed = held(("approximate", 0.5, 1e-6), ("gdp", 0.1))
    said, figure = mixed.sentence(), mixed.committed.epsilon(2e-6)
    assert ", 2e-6), of which a delta of 1e-6 is slack" in said
    assert "nothing is promised), all else from 0.6319-GDP, for one row" in said
    assert figure <= float(said.split("(epsilon, delta) = (")[1].split(",")[0]) <= figure * 1.001
    assert "(epsilon, delta) = (infinity, 5e-7)" in mixed.sentence(5e-7)
    assert held(("approximate", 0.5), ("none", math.inf)).sentence().startswith("NO PRIVACY")
    users = Ledger()
    for parameter in (0.5, 0.25):
        users.open(learner="E", guarantee=plan(parameter=parameter, rows_per_user=2, user="id"))
    slack = group_slack(0.5, SLACK, 2) + group_slack(0.25, SLACK, 2)
    said = users.sentence().split("that are learnt: ")[1]
    assert "(epsilon, delta) = (1.5, 4.93" in said
    assert slack <= float(said.split("(1.5, ")[1].split(")")[0]) <= slack * 1.001


# -- the filter --


def test_a_limit_sets_slack_aside_before_the_first_run():
    plain = Ledger(epsilon=1.0, delta=1e-6)
    with pytest.raises(BudgetExceeded, match=r"slack of 0 is set aside for such runs \(Ledger\(slack=\)\)"):
        plain.open(learner="E", guarantee=plan(parameter=0.1, delta=1e-9))
    ledger = Ledger(epsilon=1.0, delta=1e-6, slack=5e-7)
    assert ledger.mu == gdp_mu(1.0, 1e-6 - 5e-7) < plain.mu
    assert (ledger.slack, ledger.remaining_slack, plain.remaining_slack) == (5e-7, 5e-7, 0.0)
    ledger.open(learner="E", guarantee=plan(parameter=0.5, delta=3e-7))
    assert ledger.remaining_slack == 5e-7 - 3e-7
    assert ledger.remaining_pure == 0.5
    with pytest.raises(BudgetExceeded, match=r"asks for a delta of 3e-7 of its own.*3e-7 is spent"):
        ledger.open(learner="E", guarantee=plan(parameter=0.1, delta=3e-7))
    with pytest.raises(BudgetExceeded, match=r"asks for a pure epsilon of 0\.6"):
        ledger.open(learner="E", guarantee=plan(parameter=0.6, delta=1e-7))
    ledger.open(learner="E", guarantee=plan(parameter=0.5, delta=ledger.remaining_slack))
    assert ledger.committed.epsilon() == 1.0
    with pytest.raises(BudgetExceeded):
        ledger.open(learner="E", guarantee=plan("gdp", 0.01))


def test_gaussian_runs_have_what_the_slack_leaves_of_delta():
    limit = {"epsilon": 1.0, "delta": 1e-6, "slack": 5e-7}
    rest = gdp_mu(1.0, 1e-6 - 5e-7)
    held(("gdp", rest), **limit)
    for mu in (rest * (1.0 + 1e-9), gdp_mu(1.0, 1e-6)):  # with the full delta the second would fit
        with pytest.raises(BudgetExceeded):
            held(("gdp", mu), **limit)


def test_all_of_delta_may_be_slack():
    ledger = Ledger(epsilon=1.0, delta=1e-6, slack=1e-6)
    assert ledger.mu == ledger.remaining == 0.0
    ledger.open(learner="E", guarantee=plan(parameter=1.0))
    with pytest.raises(BudgetExceeded):
        Ledger(epsilon=1.0, delta=1e-6, slack=1e-6).open(learner="E", guarantee=plan("gdp", 1e-6))
    for words in ({"slack": 2e-6}, {"slack": -1e-9}, {"slack": math.nan}):
        with pytest.raises(InvalidParameter):
            Ledger(epsilon=1.0, delta=1e-6, **words)
    with pytest.raises(InvalidParameter, match="without a limit"):
        Ledger(slack=1e-9)


@pytest.mark.parametrize(
    ("releases", "square", "spent"),
    [(0, 0.0, False), (1, 0.0, True), (0, math.inf, True), (1, math.inf, True), (0, 1e-9, True)],
)
def test_a_run_with_slack_is_spent_whole_or_not_at_all(releases, square, spent):
    ledger = Ledger(epsilon=1.0, delta=1e-6, slack=1e-6)
    account = ledger.open(learner="E", guarantee=plan())
    assert account.reserved_mu_squared == account.reserved_pure_epsilon == math.inf
    released(account, releases, square)
    entry = account.entry()
    assert (entry.mu_squared, entry.slack) == ((math.inf, SLACK) if spent else (0.0, 0.0))
    assert ledger.spent.slack == ledger.committed.slack == entry.slack
    assert ledger.remaining_slack == (0.0 if spent else SLACK)
    (record,) = ledger.to_records()
    assert record["mu_squared"] == ("inf" if spent else 0.0)
    assert record.get("slack", 0.0) == entry.slack
    silent = Ledger()
    silent.open(learner="E", guarantee=plan()).close()  # nobody states the spending
    assert silent.spent.slack == SLACK


def worst_delta(admits, epsilon, choices, depth):
    """Largest delta over all adaptive choices of randomised responses that reveal everything with probability slack."""

    @functools.cache
    def value(loss, runs):
        best = max(0.0, -math.expm1(epsilon - loss)) if loss > epsilon else 0.0
        for run in choices if len(runs) < depth else ():
            more = tuple(sorted([*runs, run]))
            if admits(more):
                p = 1.0 / (1.0 + math.exp(-run[1]))
                ends = (round(loss + run[1], 9), round(loss - run[1], 9))
                on = p * value(ends[0], more) + (1.0 - p) * value(ends[1], more)
                best = max(best, run[2] + (1.0 - run[2]) * on)
        return best

    return value(0.0, ())


def test_no_adaptive_choice_of_runs_beats_the_limit():
    """Every strategy, by dynamic programming, which refutes a rule that takes the slack from the rest of delta.

    An adversary who knows that the other runs will not need this rest would spend it a second time.
    """
    epsilon, delta, aside = 0.5, 0.03, 0.01
    choices = (("gdp", 0.2, 0.0), ("pure", 0.1, 0.0), ("approximate", 0.05, 0.01), ("approximate", 0.05, 0.03))

    @functools.cache
    def ours(runs):
        free, ledger = Ledger(), Ledger(epsilon=epsilon, delta=delta, slack=aside)
        for kind, strength, slack in runs:
            if kind == "approximate":
                free.open(learner="E", guarantee=plan(kind, strength, delta=slack))
            else:
                parameter = gdp_mu_of_pure(strength) if kind == "gdp" else strength
                free.open(learner="E", guarantee=plan(kind, parameter))
        *known, last = free.accounts
        ledger._accounts.extend(known)
        try:
            ledger._admit(last)
        except BudgetExceeded:
            return False
        return True

    @functools.cache
    def at_once(runs):
        slack = sum(run[2] for run in runs)
        squares = gdp_delta(epsilon, compose_gdp([gdp_mu_of_pure(run[1]) for run in runs])) + slack <= delta
        return squares or (
            slack <= delta and all(run[0] != "gdp" for run in runs) and sum(run[1] for run in runs) <= epsilon
        )

    found = worst_delta(ours, epsilon, choices, 7)
    assert 0.3 * delta < found <= delta
    assert worst_delta(at_once, epsilon, choices, 7) > delta


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_held_budget_stays_within_the_limit(data):
    slack = data.draw(st.sampled_from([0.0, 1e-4, 1e-3]))
    ledger = Ledger(epsilon=1.0, delta=1e-3, slack=slack)
    for _ in range(data.draw(st.integers(1, 10))):
        kind = data.draw(st.sampled_from(["pure", "approximate", "approximate", "gdp"]))
        parameter = data.draw(st.sampled_from([0.01, 0.1, 0.3, ledger.remaining_pure or 0.2]))
        words = {"delta": data.draw(st.sampled_from([1e-5, 1e-4, 1e-3]))} if kind == "approximate" else {}
        try:
            account = ledger.open(learner="E", guarantee=plan(kind, parameter, **words))
        except BudgetExceeded:
            continue
        act = data.draw(st.sampled_from(["leave", "release", "nothing"]))
        if act != "leave":
            released(account, int(act == "release"), account.reserved_mu_squared if act == "release" else 0.0)
        assert ledger.committed.slack <= slack
        assert ledger.committed.epsilon() <= 1.0 + 1e-12


# -- the journal --


def journaled(path, **words):
    return Ledger(journal=path, **({"epsilon": 1.0, "delta": 1e-6, "slack": 8e-7} | words))


@pytest.fixture
def path(tmp_path):
    """Of runs that released models, that released nothing, and that are open, one with a commit."""
    ledger = journaled(tmp_path / "budget.jsonl")
    for releases in (1, 0):
        released(ledger.open(learner=f"closed {releases}", guarantee=plan(parameter=0.1, delta=2e-7)), releases,
                 math.inf if releases else 0.0)  # fmt: skip
    ledger.open(learner="open", guarantee=plan(parameter=0.1, delta=2e-7))
    account = ledger.open(learner="committed", guarantee=plan(parameter=0.1, delta=2e-7))
    account.attach(lambda: (7, 1, math.inf))
    account.commit()
    ledger.close()
    return tmp_path / "budget.jsonl"


def test_a_journal_keeps_the_slack(path):
    for ledger in (Ledger.read(path), journaled(path)):
        assert [entry.slack for entry in ledger.entries()] == [2e-7, 0.0, 2e-7, 2e-7]
        assert ledger.committed.slack == pytest.approx(6e-7)
        assert (ledger.slack, ledger.mu) == (8e-7, gdp_mu(1.0, 1e-6 - 8e-7))
        assert ledger.remaining_slack == pytest.approx(2e-7)
        assert ledger.accounts[0].guarantee == plan(parameter=0.1, delta=2e-7)
        ledger.close()
    first, second, *_ = path.read_text().splitlines()
    assert (json.loads(first)["version"], json.loads(first)["slack"]) == (2, 8e-7)
    assert json.loads(second)["guarantee"]["kind"] == "approximate"


def test_an_older_journal_is_read_and_continued(tmp_path):
    """Without slack the first line is that of version 1; with slack no reader of version 1 accepts it."""
    path = tmp_path / "old.jsonl"
    with_limit = {"epsilon": 1.0, "delta": 1e-6, "journal": path}
    ledger = Ledger(**with_limit)
    ledger.open(learner="E", guarantee=plan("pure", 0.1))
    ledger.close()
    first = json.loads(path.read_text().splitlines()[0])
    assert first["version"] == 1
    assert "slack" not in first
    for slack in (1e-7, 1e-6):
        with pytest.raises(StateError, match=f"has slack 0.0, and {slack!r} is asked for"):
            Ledger(**with_limit, slack=slack)
    again = Ledger(**with_limit)
    with pytest.raises(BudgetExceeded):
        again.open(learner="E", guarantee=plan(parameter=0.1, delta=1e-9))
    again.close()
    assert Ledger.read(path).slack == 0.0


@pytest.mark.parametrize("words", [{"slack": 0.0}, {"slack": 7e-7}, {"slack": 1e-6}])
def test_the_slack_of_a_limit_stays_what_it_was(path, words):
    with pytest.raises(StateError, match="has slack 8e-07"):
        journaled(path, **words)


def test_a_truncated_journal_reads_as_an_earlier_state(path):
    content, before = path.read_bytes(), 0.0
    for size in range(content.index(b"\n") + 1, len(content) + 1):
        copy = path.with_name("copy.jsonl")
        if size % 7 and content[size - 1 : size] != b"\n":  # the end of every line, and some positions within lines
            continue
        copy.write_bytes(content[:size])
        ledger = Ledger.read(copy)
        # apart from what a closed run gave back, nothing is missing
        now = sum(entry.slack for entry in ledger.entries())
        assert ledger.committed.slack >= now
        assert ledger.committed.slack == pytest.approx(
            sum(2e-7 for account in ledger.accounts if not (account.closed and account.learner == "closed 0"))
        )
        before = max(before, now)
    assert before == pytest.approx(6e-7)


def test_no_altered_byte_drops_the_slack(path):
    content = path.read_bytes()
    lines = content.split(b"\n")
    for word in (b'"slack"', b'"approximate"', b"2e-07", b"8e-07", b'"version": 2', b'"inf"'):
        at = content.index(word) + len(word) - 2
        for byte in b"19e }":
            if content[at] == byte:
                continue
            copy = path.with_name("copy.jsonl")
            copy.write_bytes(content[:at] + bytes([byte]) + content[at + 1 :])
            with pytest.raises(StateError):
                Ledger.read(copy)
    assert len(lines) > 6


def test_a_process_that_dies_keeps_the_slack_reserved(tmp_path):
    path = tmp_path / "budget.jsonl"
    script = (
        "import os, sys; sys.path[:0] = sys.argv[2:]; import test_approximate as t;"
        "l = t.journaled(sys.argv[1]); l.open(learner='A', guarantee=t.plan(parameter=0.2, delta=6e-7)); os._exit(9)"
    )
    done = warm.run([sys.executable, "-c", script, os.fspath(path), HERE, *sys.path], timeout=120)
    assert done.returncode == 9
    ledger = journaled(path)
    assert ledger.remaining_slack == pytest.approx(2e-7)
    with pytest.raises(BudgetExceeded):
        ledger.open(learner="B", guarantee=plan(parameter=0.1, delta=3e-7))


def test_runs_of_another_ledger_count_with_their_slack(path):
    other = Ledger.read(path)
    for ledger in (Ledger(), Ledger(epsilon=1.0, delta=1e-6), Ledger(epsilon=1.0, delta=1e-6, slack=1e-6)):
        ledger.include(other)
        ledger.include(other)
        assert ledger.committed.slack == pytest.approx(6e-7)
    # what was spent is never refused, but a limit without room for it has nothing left
    ledger = Ledger(epsilon=1.0, delta=1e-6)
    ledger.include(other)
    assert ledger.remaining_slack == ledger.remaining == ledger.remaining_pure == 0.0
    for guarantee in (plan("pure", 0.01), plan("gdp", 1e-3), plan(parameter=0.01, delta=1e-9)):
        with pytest.raises(BudgetExceeded, match=r"hold 6.*e-7 of delta, and the ledger sets a slack of 0"):
            ledger.open(learner="E", guarantee=guarantee)


def test_the_command_counts_the_slack(path, tmp_path):
    more = tmp_path / "more.jsonl"
    ledger = Ledger(journal=more)
    released(ledger.open(learner="G", guarantee=plan("gdp", 0.1, delta=1e-7)), square=0.01)
    released(ledger.open(learner="O", guarantee=plan(parameter=0.3, delta=5e-7)), square=math.inf)
    ledger.close()
    result = privol_cli("account", str(path), str(more), "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    together = found["together"]
    assert found["delta"] > 1.1e-6  # none of the runs' own deltas would suffice
    assert together["slack"] == pytest.approx(1.1e-6)
    assert together["mu"] == together["rho"] == together["pure_epsilon"] == "inf"
    mu = math.sqrt(0.01 + 3 * gdp_mu_of_pure(0.1) ** 2 + gdp_mu_of_pure(0.3) ** 2)
    assert together["epsilon"] >= gdp_epsilon(mu * (1 - 1e-9), found["delta"] - 1.1e-6) * (1 - 1e-9)
    assert together["epsilon"] < 5.0
    assert found["journals"][0]["limit"]["slack"] == 8e-7
    assert found["journals"][0]["remaining"]["slack"] == pytest.approx(2e-7)
    assert found["journals"][0]["runs"][0]["spent"]["slack"] == 2e-7
    text = " ".join(privol_cli("account", str(path), str(more)).stdout.split())
    assert "a slack of 8e-7 for runs that are proved at one delta alone" in text
    assert "is slack (with a probability of up to that much nothing is promised)" in text
    short = json.loads(privol_cli("account", str(path), "--delta", "5e-7", "--json").stdout)
    assert short["together"]["epsilon"] == "inf"
