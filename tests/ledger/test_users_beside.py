"""Two runs of one stream whose unit is a user: the later figure covers both, while the later run is fully reserved."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

import privol
from privol.errors import BudgetExceeded, InvalidParameter
from privol.guarantees import gdp_mu, square_up
from privol.ledger import Ledger

USERS = {"rows_per_user": 4, "user_separation": 10}


def promise(mu, rows=100, **changes):
    found = privol.NOGD(epsilon=1.0, delta=1e-6, **USERS)._promise(3, rows, 2)
    return replace(found, parameter=mu, **changes)


def spend(account, mu, rows=100):
    account.attach(lambda: (rows, 1, square_up(mu)))
    account.close()


def both(mu_first=0.6, mu_whole=0.8, **limit):
    ledger = Ledger(**limit)
    first = ledger.open(learner="Encoder", guarantee=promise(mu_first))
    spend(first, mu_first)
    return ledger, first, ledger.open(learner="Model", guarantee=promise(mu_whole), beside=first, first_row=101)


def test_the_later_figure_covers_both():
    """Open, or closed with everything spent: its own figure. A limit of that figure admits it, and nothing more."""
    limit = {"epsilon": privol.guarantees.gdp_epsilon(0.8, 1e-6), "delta": 1e-6}
    ledger, _, model = both(**limit)
    assert ledger.committed.mu == pytest.approx(0.8)
    spend(model, 0.8)
    assert ledger.spent.mu == ledger.committed.mu == pytest.approx(0.8)
    assert "Encoder and Model (of a user, the rows of both)" in ledger.sentence()
    assert ledger.spent.releases == 2
    with pytest.raises(BudgetExceeded):
        ledger.open(learner="More", guarantee=promise(0.1))


@pytest.mark.parametrize(("spent", "whole"), [(0.3, math.hypot(0.6, 0.3)), (0.7, 0.8), (0.0, 0.6)])
def test_a_run_that_ended_early_adds_up(spent, whole):
    """Never more than it reserved, and never less than the encoding."""
    ledger, _, model = both(epsilon=8.0, delta=1e-6)
    model.attach(lambda: (100, 1, square_up(spent)) if spent else (0, 0, 0.0))
    model.close()
    assert ledger.spent.mu == pytest.approx(whole)
    assert ledger.committed.mu == pytest.approx(whole)
    assert ledger.remaining == pytest.approx(math.sqrt(gdp_mu(8.0, 1e-6) ** 2 - whole**2))  # the rest of the limit


def test_a_later_figure_too_small_for_both_is_refused():
    """The first run's spending is never forgotten."""
    ledger, _, model = both(0.6, 0.5)
    assert ledger.committed.mu == pytest.approx(0.6)
    spend(model, 0.5)
    assert ledger.spent.mu == pytest.approx(0.6)
    limited = Ledger(epsilon=privol.guarantees.gdp_epsilon(0.6, 1e-6), delta=1e-6)
    first = limited.open(learner="Encoder", guarantee=promise(0.6))
    limited.open(learner="Model", guarantee=promise(0.5), beside=first, first_row=101)
    assert limited.remaining == pytest.approx(0.0, abs=1e-4)


def test_a_third_run_is_refused_beside_them_and_adds_up():
    """A user's rows may be in all three, and its figure covers two parts only."""
    ledger, first, _ = both()
    with pytest.raises(InvalidParameter, match="beside is for one run whose unit is a user"):
        ledger.open(learner="Other", guarantee=promise(0.3), beside=first, first_row=201)
    ledger.open(learner="Other", guarantee=promise(0.3))
    assert ledger.committed.mu == pytest.approx(math.hypot(0.8, 0.3))


def test_other_users_are_refused():
    ledger = Ledger()
    first = ledger.open(learner="Encoder", guarantee=promise(0.6))
    with pytest.raises(InvalidParameter, match="user_separation must be the same"):
        ledger.open(learner="Model", guarantee=promise(0.8, user_separation=9), beside=first, first_row=101)
    with pytest.raises(InvalidParameter, match="rows_per_user and user must be the same"):
        ledger.open(learner="Model", guarantee=promise(0.8, user="who"), beside=first, first_row=101)
    with pytest.raises(InvalidParameter, match="beside is for runs of one unit"):
        ledger.open(learner="Model", guarantee=promise(0.8).row, beside=first, first_row=101)


def test_a_journal_keeps_it(tmp_path):
    """So does a ledger that includes it."""
    ledger, _, model = both(journal=tmp_path / "j")
    spend(model, 0.8)
    ledger.close()
    found = Ledger.read(tmp_path / "j")
    assert found.spent.mu == pytest.approx(0.8)
    whole = Ledger(epsilon=5.0, delta=1e-6)
    whole.include(found)
    assert whole.spent.mu == pytest.approx(0.8)
    assert whole.remaining == pytest.approx(math.sqrt(gdp_mu(5.0, 1e-6) ** 2 - 0.64))
