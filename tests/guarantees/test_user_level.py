"""Guarantees for all rows of one user: releases that follow from them, and the sentence of a whole ledger."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privol
from privol.encoding.schema_parts import MOST_HIDDEN_USERS
from privol.errors import BudgetExceeded, InvalidParameter, StateError
from privol.guarantees import (
    Guarantee,
    compose_gdp,
    format_up,
    gdp_epsilon,
    group_mu,
    left_of_delta,
    weaknesses,
)
from privol.ledger import Ledger


def make(**changes):
    values = {"kind": "gdp", "parameter": 0.2, "adjacency": "replace", "horizon": 100, "releases": 5, "delta": 1e-6,
              "arithmetic": "exact", "bit_source": "AES"}  # fmt: skip
    return Guarantee(**{**values, **changes})


# ---- the record ----------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(st.floats(0, 1e308), st.integers(1, 2**70))
def test_group_privacy_is_rounded_up_and_not_more(mu, rows):
    found = group_mu(mu, rows)
    exact = rows * Fraction(mu)
    if math.isinf(found):
        assert exact > Fraction(1.7e308)
    else:
        assert Fraction(found) >= exact
        assert found == 0.0 or Fraction(math.nextafter(found, 0.0)) < exact


def test_figures_for_users():
    g = make(rows_per_user=3)
    assert g.user_mu == group_mu(0.2, 3) >= 0.6
    assert g.user_epsilon() == gdp_epsilon(g.user_mu, 1e-6) > g.epsilon()
    assert g.user_epsilon(1e-3) == gdp_epsilon(g.user_mu, 1e-3)
    assert (make().user_mu, make().user_epsilon()) == (None, None)
    assert make(rows_per_user=1).user_mu == 0.2
    assert make(kind="none", parameter=math.inf, rows_per_user=2).user_mu == math.inf


def test_sentence_for_users():
    g = make(rows_per_user=3)
    said = g.sentence()
    assert "of one user at most 3 rows are learnt, and replacing what they hold, all of them together" in said
    assert f"{format_up(g.user_mu)}-GDP, (epsilon, delta) = ({format_up(g.user_epsilon())}, 1e-6)" in said
    assert "held fixed and is not hidden" in said
    assert "several rows of one person" not in said
    assert "several rows of one person are not protected as one" in make().sentence()
    assert "of one user at most 1 row is learnt" in make(rows_per_user=1).sentence()
    assert "replacing them by null rows" in make(rows_per_user=2, adjacency="zero_out").sentence()
    nothing = make(kind="none", parameter=math.inf, rows_per_user=2).sentence()
    assert "nothing is guaranteed for several rows of one user either" in nothing
    assert "GDP" not in nothing


def test_sentence_says_what_is_released():
    metrics = make(released="metrics").sentence()
    assert (
        "Released: the noisy totals (of correct predictions or absolute errors, and of losses) of at most 5 windows"
        in metrics
    )
    assert "of the model out of" not in metrics
    models = "with the models that are evaluated, whether these are published or not,"
    assert f"at most 1 window of rows, {models} out of 100 rows" in make(released="metrics", releases=1).sentence()
    assert "Released: at most 5 releases of the model out of 100 rows" in make().sentence()
    assert Guarantee.from_json(make(released="metrics", rows_per_user=7).to_json()) == make(
        released="metrics", rows_per_user=7
    )


# ---- the conditions of a stream ------------------------------------------------------------------------------


@pytest.fixture
def stream():
    rng = np.random.default_rng(1)
    return privol.open_stream((rng.normal(size=(50, 2)), np.arange(50) % 2), classes=(0, 1))


def test_learners_take_it_from_the_stream(stream):
    plain = privol.PIGD(random_state=1).fit_stream(stream)
    stream.rows_per_user = 4
    stream.conditions = ("a", "b")
    learner = privol.PIGD(random_state=1).fit_stream(stream)
    g = learner.guarantee_
    assert (g.rows_per_user, g.conditions[-2:]) == (4, ("a", "b"))
    assert replace(g, rows_per_user=None, conditions=g.conditions[:-2]) == plain.guarantee_
    assert learner.ledger_.accounts[0].guarantee == g
    assert np.array_equal(learner.coef_, plain.coef_)
    stream.rows_per_user = 0
    with pytest.raises(InvalidParameter, match="rows_per_user"):
        privol.PIGD().fit_stream(stream)


def test_streams_need_not_state_anything_about_users():
    class Bare:
        n_rows, classes = 3, (0, 1)

        def __iter__(self):
            yield privol.streams.Block(np.eye(3), np.array([0.0, 1.0, 1.0]), 1)

    assert privol.PIGD().fit_stream(Bare()).guarantee_.rows_per_user is None


# ---- all runs of a ledger ------------------------------------------------------------------------------------


def spend(ledger, name, guarantee, part=1.0):
    account = ledger.open(learner=name, guarantee=guarantee)
    account.attach(lambda: (1, 1, part * account.reserved_mu_squared))
    return account


def test_a_ledger_says_what_all_runs_guarantee():
    ledger = Ledger(epsilon=4.0, delta=1e-5)
    assert ledger.sentence() == "Nothing was released and nothing is reserved."
    spend(ledger, "A", make(parameter=0.3)).close()
    open_run = spend(ledger, "B", make(parameter=0.4), part=0.25)
    said = ledger.sentence()
    mu = compose_gdp([0.3, 0.4])
    assert said.startswith(
        f"Differential privacy with (epsilon, delta) = ({format_up(gdp_epsilon(mu, 1e-5))}, 1e-5), from "
    )
    assert "in all 2 runs" in said
    assert said.endswith("several rows of one person are not protected as one.")
    open_run.close()  # a quarter of its mu^2 was spent
    mu = compose_gdp([0.3, 0.2])
    assert f"({format_up(gdp_epsilon(mu, 1e-3))}, 0.001)" in ledger.sentence(1e-3)
    with pytest.raises(InvalidParameter, match="delta"):
        ledger.sentence(1.0)


def test_a_ledger_without_a_limit_takes_delta_from_its_runs():
    ledger = Ledger()
    spend(ledger, "A", make(delta=1e-7)).close()
    spend(ledger, "B", make(delta=1e-5)).close()
    assert f"({format_up(gdp_epsilon(compose_gdp([0.2, 0.2]), 1e-5))}, 1e-5)" in ledger.sentence()


def test_a_ledger_composes_what_its_runs_promise_users():
    ledger = Ledger()
    spend(ledger, "A", make(rows_per_user=2)).close()
    spend(ledger, "B", make(parameter=0.1, rows_per_user=3)).close()
    mu = compose_gdp([group_mu(0.2, 2), group_mu(0.1, 3)])
    said = ledger.sentence()
    assert "all rows of one user that are learnt: 0.5" in said
    assert f"({format_up(gdp_epsilon(mu, 1e-6) * (1 - 1e-6))[:4]}" in said
    spend(ledger, "C", make(parameter=0.1)).close()  # its kind has no user figure
    assert "several rows of one person are not protected as one" in ledger.sentence()


def test_a_ledger_says_first_that_there_is_no_privacy():
    ledger = Ledger()
    spend(ledger, "A", make())
    spend(ledger, "B", make(private=False))
    assert ledger.sentence().startswith("NOT PRIVATE: ")
    spend(ledger, "C", make(kind="none", parameter=math.inf))
    assert ledger.sentence().startswith("NO PRIVACY: of 3 runs together")
    assert "C: infinity" in ledger.sentence()


def test_a_capped_run_does_not_continue_without_its_cap(stream):
    stream.rows_per_user, stream.user = 2, "patient"
    learner = privol.PIGD(horizon=200)

    class Broken:
        n_rows, classes, rows_per_user, user = 200, (0, 1), 2, "patient"

        def __iter__(self):
            yield from stream
            raise RuntimeError("the file is gone")

    with pytest.raises(RuntimeError):
        learner.fit_stream(Broken())
    assert learner.n_rows_ == 50
    for attempt in (lambda: learner.partial_fit(np.ones((1, 2)), [1]), lambda: learner.learn_one([1.0, 1.0], 1)):
        with pytest.raises(StateError, match="fit_stream"):
            attempt()
    assert learner.n_rows_ == 50
    assert learner.close().n_releases_ == 1
    assert "one user (column 'patient')" in learner.guarantee_.sentence()


def test_caps_of_different_columns_say_nothing_together(stream):
    ledger = Ledger(epsilon=3, delta=1e-6)
    stream.rows_per_user = 1
    for user in ("patient", "patient", "visit"):
        stream.user = user
        privol.PIGD(epsilon=0.5, ledger=ledger).fit_stream(stream)
        same = user == "patient"
        assert ("column 'patient'" in ledger.sentence()) == same
        assert ("by different columns" in ledger.sentence()) != same
    with pytest.raises(InvalidParameter, match="user"):
        make(user="patient")


# ---- what the calibration proves for users, and a budget for them --------------------------------------------


def test_a_factor_below_their_number_is_what_users_cost():
    g = make(parameter=0.25, rows_per_user=3, user_separation=50, user_factor=2.5, user="id")
    assert g.user_mu == 0.625 == g.user_bound.mu
    assert g.user_epsilon() == gdp_epsilon(0.625, 1e-6)
    assert g.row is g
    said = g.sentence()
    assert "of one user (column 'id') at most 3 rows are learnt, any two of them 50 rows apart or more, and" in said
    assert "0.625-GDP" in said
    assert "2.5 times the mu of one row; which rows are whose" in said
    assert "group privacy" not in said
    assert make(rows_per_user=3, user_factor=2.0 + 2**-51).user_mu > 0.4  # rounded up
    assert Guarantee.from_json(g.to_json()) == g


def test_a_guarantee_for_users_leads_with_their_figure():
    g = make(parameter=0.25, unit="user", rows_per_user=3, user_separation=50, user_factor=2.5, user="id")
    assert (g.mu, g.user_mu, g.user_bound) == (0.25, 0.25, g.bound)
    assert g.user_epsilon() == g.epsilon() == gdp_epsilon(0.25, 1e-6)
    row = g.row
    assert (row.unit, row.user_mu) == ("row", pytest.approx(0.25))
    assert row.mu == 0.1
    assert g.summary() == (
        f"differential privacy with epsilon {format_up(g.epsilon())} at delta 1e-6 for one user (column 'id', at most "
        f"3 rows, any two of them 50 rows apart or more) (0.25-GDP); epsilon {format_up(row.epsilon())} for one row"
    )
    said = g.sentence()
    assert said.startswith("Differential privacy for all rows of one user (column 'id') with")
    assert 'Adjacency "replace": replace all rows of one user, where they are, by any other admissible rows' in said
    assert f"one row alone is covered by 0.1-GDP, (epsilon, delta) = ({format_up(row.epsilon())}, 1e-6)" in said
    null = make(unit="user", rows_per_user=3, adjacency="zero_out").sentence()
    assert "replace all rows of one user by null rows, which contribute nothing (to replace them by other rows" in null
    pure = make(kind="pure", parameter=0.9, unit="user", rows_per_user=3)
    assert pure.row.parameter == pytest.approx(0.3)
    assert "epsilon 0.9 (delta 0) for one user (at most 3 rows)" in pure.summary()
    point = make(kind="approximate", parameter=0.9, slack=1e-6, releases=1, unit="user", rows_per_user=3)
    assert (point.user_bound, point.user_epsilon(1e-6), point.user_epsilon(1e-7)) == (point.bound, 0.9, math.inf)
    assert point.row.parameter == pytest.approx(0.3)
    assert Guarantee.from_json(g.to_json()) == g
    (weak,) = weaknesses(make(unit="user", rows_per_user=3, parameter=5.0, user_factor=1.5))
    assert "epsilon for users is" in weak
    nothing = make(kind="none", parameter=math.inf, unit="user", rows_per_user=3)
    assert nothing.row.mu == math.inf
    assert "nothing is guaranteed" in nothing.sentence()


@pytest.mark.parametrize(
    "wrong",
    [{"unit": "user"}, {"user_separation": 5}, {"rows_per_user": 2, "user_separation": 0}, {"user_factor": 1.0},
     {"rows_per_user": 2, "user_factor": 2.1}, {"rows_per_user": 2, "user_factor": 0.9}, {"unit": "person"},
     {"rows_per_user": 2, "user_factor": 1.5, "kind": "pure"}],
    ids=str,
)  # fmt: skip
def test_unfounded_statements_about_users_are_refused(wrong):
    with pytest.raises(InvalidParameter):
        make(**wrong)


def test_a_ledger_of_budgets_for_users_speaks_of_users_and_of_rows():
    ledger = Ledger(epsilon=4.0, delta=1e-5)
    users = {"unit": "user", "rows_per_user": 4, "user": "id"}
    spend(ledger, "A", make(parameter=0.3, user_factor=2.0, **users)).close()
    spend(ledger, "B", make(parameter=0.4, user_separation=9, **users), part=0.25).close()
    together, row = compose_gdp([0.3, 0.2]), compose_gdp([0.15, 0.05])
    assert ledger.spent.mu == pytest.approx(together)
    said = ledger.sentence()
    assert "-GDP, for all rows of one user (column 'id'), as many and as far apart as each run says" in said
    assert f"one row alone: {row:.3f}"[:-1] in said
    spend(ledger, "C", make(parameter=0.1, rows_per_user=2, user="id", user_factor=1.5)).close()
    of_users = compose_gdp([together, 0.15])
    said = ledger.sentence()
    assert "for one row (adjacency" in said
    assert f"all rows of one user (column 'id') that are learnt: {of_users:.3f}"[:-1] in said


# ---- two users with one keyed hash ----------------------------------------------------------------------------------

ETA = 2.0**-72


def hidden(kind="gdp", unit="user", **more):
    words = {"kind": kind, "unit": unit, "releases": 1, "rows_per_user": 4, "users_fixed": False}
    return make(**words | more)


def test_the_hash_of_users_is_charged_to_delta():
    """No admissible stream has so many users that two of them share a hash with a larger probability."""
    users = MOST_HIDDEN_USERS + 2
    assert Fraction(users * (users - 1) // 2 + 1, 2**128) <= Fraction(ETA)
    found, fixed = hidden(), hidden(users_fixed=True)
    assert (found.collision, fixed.collision, found.row.epsilon()) == (ETA, 0.0, fixed.row.epsilon())
    for delta in (1e-6, 3 * ETA):
        assert found.epsilon(delta) == gdp_epsilon(0.2, left_of_delta(delta, ETA)) >= fixed.epsilon(delta)
    assert found.epsilon(3 * ETA) > fixed.epsilon(3 * ETA)
    assert found.epsilon(ETA) == found.epsilon(ETA / 2) == math.inf
    assert found.delta_at(20.0) >= ETA > fixed.delta_at(20.0)
    assert (found.mu, found.rho) == (fixed.mu, fixed.rho)
    assert "at most 2.118e-22 that two users have one keyed hash" in found.sentence()
    assert "keyed hash" not in fixed.sentence()
    # a row's budget with a figure for users
    row, plain = (hidden(unit="row", users_fixed=fixed) for fixed in (False, True))
    assert row.epsilon(3 * ETA) == plain.epsilon(3 * ETA)
    assert row.delta_at(20.0) == plain.delta_at(20.0)
    assert row.user_epsilon(3 * ETA) > plain.user_epsilon(3 * ETA)
    assert row.user_epsilon(ETA) == math.inf
    for kind, more in (("pure", {}), ("approximate", {"slack": 1e-7})):
        other = hidden(kind, **more)
        assert other.epsilon(more.get("slack", ETA)) == (math.inf if more else 0.2)
        assert other.epsilon() == pytest.approx(0.2, rel=1e-4)
        assert other.delta_at(1.0) >= more.get("slack", 0.0) + ETA
        assert other.bound.delta_at(1.0) >= more.get("slack", 0.0) + ETA
    assert hidden("pure").epsilon(0.0) == math.inf
    for delta in (ETA, 1e-30):
        with pytest.raises(
            InvalidParameter, match=r"delta must be above 2\.12e-22 where surplus rows of users are null rows"
        ):
            hidden(delta=delta)
        hidden(delta=delta, users_fixed=True)


def test_a_ledger_adds_up_what_the_hash_of_users_is_charged():
    """For each run that released something; for rows nothing, since users do not matter to them."""
    ledger = Ledger()
    for spent in (0.04, 0.01, 0.0):
        account = ledger.open(learner="one", guarantee=hidden())
        account.close_at(10, 1 if spent else 0, spent)
    spent = ledger.spent
    assert spent.bound.collision == 2 * ETA
    assert spent.delta_at(30.0) >= 2 * ETA
    assert spent.epsilon(2 * ETA) == math.inf > spent.epsilon(3 * ETA)
    assert spent.epsilon(3 * ETA) == gdp_epsilon(spent.mu, left_of_delta(3 * ETA, 2 * ETA))
    assert spent.mu == pytest.approx(math.sqrt(0.05))
    assert "a delta of 4.236e-22 of it is that two users may have one keyed hash" in ledger.sentence()
    rows = Ledger()
    rows.open(learner="one", guarantee=hidden(unit="row")).close_at(10, 1, 0.04)
    assert rows.spent.bound.collision == 0.0


@pytest.mark.parametrize("fixed", [(True, False), (False, True), (False, False), (True, True)])
def test_runs_on_different_rows_have_a_table_of_users_each(fixed):
    """Whichever part is the most expensive, the charge covers collisions in any of them."""
    ledger = Ledger()
    words = {"unit": "row", "horizon": 10}
    first = ledger.open(learner="A", guarantee=hidden(parameter=0.3, users_fixed=fixed[0], **words))
    ledger.open(learner="B", guarantee=hidden(users_fixed=fixed[1], **words), beside=first, first_row=11)
    (share,) = ledger._held()
    assert share.user_bound.collision == fixed.count(False) * ETA


def test_a_limit_has_no_room_for_many_collisions():
    """Collisions add at most a share of 2^-36 to its delta, and a run beyond it is refused before it begins."""
    ledger = Ledger(epsilon=8.0, delta=2.5 * ETA * 2.0**36)
    for _ in range(2):
        ledger.open(learner="one", guarantee=hidden())
    with pytest.raises(BudgetExceeded, match=r"^one: two users with one keyed hash would cost a delta of 6\.35e-22"):
        ledger.open(learner="one", guarantee=hidden())
    ledger.open(learner="one", guarantee=hidden(users_fixed=True))
    assert len(ledger.accounts) == 3


@pytest.mark.parametrize("kind", ["pure", "approximate"])
@pytest.mark.parametrize("unit", ["user", "row"])
def test_what_is_proved_at_one_epsilon_has_the_hash_in_its_delta_too(kind, unit):
    """No figure for a user is stated at a smaller delta, and none is judged by a delta that it does not have."""
    slack = 1e-7 if kind == "approximate" else 0.0
    found, fixed = (hidden(kind, unit, slack=slack, users_fixed=fixed) for fixed in (False, True))
    least = found.user_bound.beside
    assert least >= fixed.user_bound.beside + ETA
    said, plain = found.sentence(), fixed.sentence()
    if kind == "pure":
        assert ("Pure differential privacy" in said) == (unit == "row")
        assert "Pure differential privacy" in plain
        assert f"(epsilon, delta) = ({format_up(found.user_bound.pure)}, 2.118e-22)" in said
        assert "2.118e-22" not in plain
        assert found.user_epsilon(ETA) == found.user_bound.pure
    assert f"at delta {format_up(least)}" in found.summary()
    assert found.user_epsilon(least) <= found.user_bound.pure
    assert found.user_epsilon(0.999 * least) == math.inf
    assert weaknesses(found, rows=100) == weaknesses(fixed, rows=100)


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_fits_that_count_users_keep_their_budget(rows, delta):
    """Also what is proved at one delta alone, of which collisions take a part."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-0.5, 0.5, (60, 2)), rng.integers(0, 2, 60)
    for kind in (privol.OutputPerturbation, privol.ObjectivePerturbation):
        words = {"epsilon": 2.0, "delta": delta, "rows_per_user": rows, "on_invalid": "zero", "random_state": 1}
        made = kind(**words).fit(X, y, users=np.arange(60) % 20)
        promise = made.guarantee_
        assert promise.epsilon(delta or ETA) <= 2.0
        assert promise.delta_at(2.0) <= (delta or ETA)
        assert made.ledger_.spent.epsilon(delta or ETA) <= 2.0
        assert "infinity" not in made.ledger_.sentence()
