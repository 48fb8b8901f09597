"""The ledger: reserve in full, spend on demand, refuse what exceeds the limit, exist once."""

from __future__ import annotations

import copy
import errno
import gc
import json
import math
import os
import pickle
import sys
import textwrap
import threading
import weakref
from typing import Any

import numpy as np
import pytest
import warm
from hypothesis import given, settings
from hypothesis import strategies as st
from patience import WAIT
from sklearn.base import BaseEstimator, clone

from privol.errors import BudgetExceeded, InvalidParameter, StateError
from privol.guarantees import Guarantee, compose_gdp, gdp_delta, gdp_epsilon, gdp_mu
from privol.ledger import Account, Ledger


def plan(mu: float = 0.1, **changes: Any) -> Guarantee:
    values: dict[str, Any] = {
        "kind": "gdp" if math.isfinite(mu) else "none",
        "parameter": mu,
        "adjacency": "replace",
        "horizon": 1000,
        "releases": 100,
        "delta": 1e-6,
        "arithmetic": "lattice",
        "bit_source": "test",
    }
    return Guarantee(**(values | changes))


class Run:
    """A learner's counters, which spend evenly."""

    def __init__(self, account: Account, releases: int = 100) -> None:
        self.rows = self.releases = 0
        self.mu_squared = 0.0
        self.step = account.guarantee.mu**2 / releases
        account.attach(lambda: (self.rows, self.releases, self.mu_squared))

    def learn(self, releases: int) -> None:
        for _ in range(releases):
            self.rows += 10
            self.releases += 1
            self.mu_squared += self.step


# -- the journal --


def test_a_ledger_without_a_limit_records_what_was_really_spent():
    ledger = Ledger()
    assert (ledger.epsilon, ledger.delta, ledger.mu, ledger.remaining) == (None, None, None, None)
    assert ledger.spent.mu == 0
    assert ledger.spent.epsilon(1e-6) == 0
    account = ledger.open(learner="PIGD", guarantee=plan(0.5))
    run = Run(account)
    assert ledger.spent.mu == 0  # a reservation is not spending
    run.learn(25)
    (entry,) = ledger.entries()
    assert (entry.plan_id, entry.learner, entry.first_row) == (account.plan_id, "PIGD", 1)
    assert (entry.last_row, entry.releases, entry.open, entry.private) == (250, 25, True, True)
    # Never less than the counter, and within its stated slack.
    assert run.mu_squared <= entry.mu_squared <= run.mu_squared * (1 + 2e-9)
    assert ledger.spent.mu == pytest.approx(0.25, rel=1e-8)
    run.learn(75)
    assert ledger.spent.mu == 0.5  # capped by the reservation: the slack does not push it over
    account.close()
    assert not ledger.entries()[0].open
    assert ledger.accounts == (account,)
    assert len({ledger.open(learner="a", guarantee=plan()).plan_id for _ in range(50)}) == 50


def test_spent_composes_and_converts():
    ledger = Ledger(epsilon=3, delta=1e-5, adjacency="zero_out")
    for mu in (0.3, 0.4):
        account = ledger.open(learner="PIGD", guarantee=plan(mu, adjacency="zero_out"))
        Run(account).learn(100)
        account.close()
    spent = ledger.spent
    assert spent.mu == pytest.approx(0.5, rel=1e-12)
    assert spent.mu >= compose_gdp([0.3, 0.4])
    assert (spent.releases, spent.adjacency, spent.delta, spent.private) == (200, "zero_out", 1e-5, True)
    assert spent.epsilon() == gdp_epsilon(spent.mu, 1e-5)
    assert spent.epsilon(1e-3) == gdp_epsilon(spent.mu, 1e-3)
    assert spent.delta_at(1) == gdp_delta(1, spent.mu)
    assert spent.rho == pytest.approx(0.125)
    with pytest.raises(InvalidParameter, match="delta must be given"):
        _ = Ledger().spent.epsilon()


def test_a_row_costs_the_ledger_nothing():
    calls = 0

    def counters() -> tuple[int, int, float]:
        nonlocal calls
        calls += 1
        return 5, 1, 0.001

    ledger = Ledger(epsilon=1, delta=1e-6)
    account = ledger.open(learner="PIGD", guarantee=plan(0.1))
    account.attach(counters)
    before = calls
    ledger.open(learner="other", guarantee=plan(0.1))
    _ = ledger.remaining
    assert calls == before  # decisions rest on reservations alone
    ledger.entries()
    assert calls == before + 1


# -- the limit --


def test_the_whole_plan_is_reserved_at_open():
    ledger = Ledger(epsilon=1, delta=1e-6)
    assert ledger.mu == gdp_mu(1, 1e-6) == ledger.remaining
    first = ledger.open(learner="PIGD", guarantee=plan(0.2))
    assert first.reserved_mu_squared == pytest.approx(0.04)
    assert ledger.remaining == pytest.approx(math.sqrt(ledger.mu**2 - 0.04), rel=1e-12)
    assert ledger.spent.mu == 0
    # Reserved, not spent: a filter that counted only spending would admit this one.
    with pytest.raises(BudgetExceeded):
        ledger.open(learner="PGIGA", guarantee=plan(0.2))
    assert ledger.accounts == (first,)
    ledger.open(learner="PGIGA", guarantee=plan(ledger.remaining))
    assert ledger.remaining < 1e-6


def test_the_refusal_says_what_is_asked_spent_and_left():
    ledger = Ledger(epsilon=1, delta=1e-6)
    ledger.open(learner="PIGD", guarantee=plan(0.2))
    with pytest.raises(BudgetExceeded) as caught:
        ledger.open(learner="PGIGA", guarantee=plan(0.21))
    message = str(caught.value)
    assert message.startswith("PGIGA asks for mu = 0.21 (epsilon = 0.87")
    assert "limit mu = 0.236704 (epsilon = 1, delta = 1e-06)" in message
    assert "mu = 0.2 is spent or reserved by 1 earlier runs" in message
    left = message.split("and mu = ")[1]
    assert float(left.split()[0]) <= ledger.remaining
    # Requesting the printed epsilon succeeds.
    epsilon = float(left.split("epsilon = ")[1].split(")")[0])
    assert epsilon > 0.4
    ledger.open(learner="PGIGA", guarantee=plan(gdp_mu(epsilon, 1e-6)))


@pytest.mark.parametrize(("epsilon", "delta"), [(1, 1e-6), (0.1, 1e-9), (8, 1e-5), (1e-4, 1e-6), (0, 0.1)])
def test_a_plan_of_exactly_the_limit_fits_once(epsilon, delta):
    ledger = Ledger(epsilon=epsilon, delta=delta)
    account = ledger.open(learner="PIGD", guarantee=plan(gdp_mu(epsilon, delta)))
    assert ledger.remaining == 0
    with pytest.raises(BudgetExceeded):
        ledger.open(learner="PIGD", guarantee=plan(1e-3 * gdp_mu(epsilon, delta)))
    ledger.open(learner="nothing", guarantee=plan(0.0, releases=0))
    Run(account).learn(100)
    assert ledger.spent.epsilon() <= epsilon


@pytest.mark.parametrize("k", [2, 3, 7, 10, 1000])
def test_equal_shares_of_the_limit_all_fit_and_no_more(k):
    """Rounding must not refuse the last share, nor admit one more."""
    ledger = Ledger(epsilon=1, delta=1e-6)
    share = plan(gdp_mu(1, 1e-6) / math.sqrt(k))
    for _ in range(k):
        ledger.open(learner="PIGD", guarantee=share)
    with pytest.raises(BudgetExceeded):
        ledger.open(learner="PIGD", guarantee=share)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 0.3), st.integers(0, 100), st.booleans()), max_size=12))
def test_the_limit_holds_whatever_is_opened_and_closed(steps):
    ledger = Ledger(epsilon=1, delta=1e-6)
    for mu, releases, close in steps:
        try:
            account = ledger.open(learner="PIGD", guarantee=plan(mu))
        except BudgetExceeded:
            assert math.hypot(ledger.remaining, 1e-12) < mu  # only a run that does not fit is refused
            continue
        Run(account).learn(releases)
        if close:
            account.close()
    assert gdp_delta(1, ledger.spent.mu) <= 1e-6
    committed = [a.entry().mu_squared if a.closed else a.reserved_mu_squared for a in ledger.accounts]
    assert math.fsum(committed) <= gdp_mu(1, 1e-6) ** 2 * (1 + 3e-12)


def test_closing_frees_the_unspent_part_only():
    ledger = Ledger(epsilon=1, delta=1e-6)
    account = ledger.open(learner="PIGD", guarantee=plan(0.23))
    Run(account).learn(25)
    with pytest.raises(BudgetExceeded):
        ledger.open(learner="PIGD", guarantee=plan(0.2))
    account.close()
    assert account.closed
    assert ledger.remaining == pytest.approx(math.sqrt(ledger.mu**2 - 0.23**2 / 4), rel=1e-8)
    assert ledger.remaining < math.sqrt(ledger.mu**2 - 0.23**2 / 4)
    account.close()  # a second time: nothing more is freed
    with pytest.raises(BudgetExceeded):
        ledger.open(learner="PIGD", guarantee=plan(0.22))
    ledger.open(learner="PIGD", guarantee=plan(0.2))


def test_a_limit_cannot_be_moved():
    ledger = Ledger(epsilon=1, delta=1e-6)
    for name in ("epsilon", "delta", "mu", "adjacency", "remaining", "spent", "accounts"):
        with pytest.raises(AttributeError):
            setattr(ledger, name, 5)
    assert repr(ledger) == "<Ledger (epsilon=1, delta=1e-06, adjacency='replace') of 0 accounts>"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"epsilon": 1}, "together"),
        ({"delta": 1e-6}, "together"),
        ({"epsilon": -1, "delta": 1e-6}, "epsilon must be"),
        ({"epsilon": 1, "delta": 0}, "delta must be"),
        ({"epsilon": 1, "delta": 1}, "delta must be"),
        ({"epsilon": math.inf, "delta": 1e-6}, "epsilon must be"),
        ({"adjacency": "add_remove"}, "adjacency must be"),
    ],
)
def test_limits_out_of_range_are_refused(arguments, words):
    with pytest.raises(InvalidParameter, match=words):
        Ledger(**arguments)


def test_open_checks_what_it_is_given():
    ledger = Ledger()
    with pytest.raises(InvalidParameter, match="adjacency must be the ledger's, 'replace', found 'zero_out'"):
        ledger.open(learner="PIGD", guarantee=plan(adjacency="zero_out"))
    with pytest.raises(InvalidParameter, match="guarantee must be"):
        ledger.open(learner="PIGD", guarantee=0.1)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="learner must be"):
        ledger.open(learner="", guarantee=plan())
    assert ledger.accounts == ()


# -- runs without privacy --


def test_a_run_without_noise_is_recorded_without_a_limit_and_refused_with_one():
    ledger = Ledger()
    account = ledger.open(learner="PIGD", guarantee=plan(math.inf))
    rows = [0, 0]
    account.attach(lambda: (rows[0], rows[1], 0.0))
    assert ledger.spent.mu == 0
    assert ledger.spent.private
    rows[:] = [10, 1]
    assert ledger.spent.mu == math.inf
    assert ledger.spent.epsilon(1e-6) == math.inf
    assert ledger.spent.delta_at(3) == 1
    assert not ledger.spent.private
    account.close()
    assert json.loads(json.dumps(ledger.to_records(), allow_nan=False))[0]["mu_squared"] == "inf"
    with pytest.raises(BudgetExceeded, match="epsilon = infinity"):
        Ledger(epsilon=1000, delta=0.5).open(learner="PIGD", guarantee=plan(math.inf))


def test_a_seeded_run_is_recorded_as_not_private():
    ledger = Ledger(epsilon=1, delta=1e-6)
    account = ledger.open(learner="PIGD", guarantee=plan(0.1, private=False))
    run = Run(account)
    assert ledger.spent.private  # nothing was released yet
    run.learn(1)
    assert not ledger.entries()[0].private
    assert not ledger.spent.private


# -- counters --


@pytest.mark.parametrize("worse", [(9, 5, 0.005), (10, 4, 0.005), (10, 5, 0.0049)])
@pytest.mark.parametrize("how", ["entries", "close"])
def test_counters_never_go_backwards(worse, how):
    ledger = Ledger(epsilon=1, delta=1e-6)
    account = ledger.open(learner="PIGD", guarantee=plan(0.1))
    now = [(10, 5, 0.005)]
    account.attach(lambda: now[0])
    ledger.entries()
    now[0] = worse
    with pytest.raises(StateError, match="backwards"):
        account.close() if how == "close" else ledger.entries()
    if how == "close":
        # It is closed, and because the spending is unknown, all of it counts as spent.
        assert account.closed
        assert ledger.entries()[0].mu_squared == account.reserved_mu_squared


@pytest.mark.parametrize(
    "bad", [None, (1, 2), (1.5, 0, 0.0), (-1, 0, 0.0), (1, True, 0.0), (1, 1, math.nan), (1, 1, -0.1), (1, 1, math.inf)]
)
def test_counters_that_are_not_valid_are_refused(bad):
    account = Ledger().open(learner="PIGD", guarantee=plan(0.1))
    with pytest.raises(StateError, match="not valid"):
        account.attach(lambda: bad)
    with pytest.raises(StateError, match="not valid"):
        account.close()
    assert account.entry().mu_squared == account.reserved_mu_squared


def test_more_than_the_reservation_is_an_error():
    ledger = Ledger()
    account = ledger.open(learner="PIGD", guarantee=plan(0.1))
    spent = [0.01 * (1 + 1e-12)]  # a sum of many rounded terms can have this value
    account.attach(lambda: (1, 1, spent[0]))
    assert ledger.entries()[0].mu_squared == account.reserved_mu_squared
    spent[0] = 0.011
    with pytest.raises(StateError, match="more than its reservation"):
        ledger.entries()


def test_numpy_counters_are_accepted_and_stored_as_plain_numbers():
    account = Ledger().open(learner="PIGD", guarantee=plan(0.1))
    account.attach(lambda: (np.int64(3), np.int32(2), np.float64(0.001)))  # type: ignore[arg-type,return-value]
    json.dumps(account._ledger.to_records())
    assert account.entry().last_row == 3


def test_counters_that_fail_at_close_cost_the_reservation():
    ledger = Ledger(epsilon=1, delta=1e-6)
    account = ledger.open(learner="PIGD", guarantee=plan(0.2))
    fail = [False]

    def counters() -> tuple[int, int, float]:
        if fail[0]:
            raise OSError("gone")
        return 7, 1, 1e-4

    account.attach(counters)
    fail[0] = True
    with pytest.raises(OSError, match="gone"):
        account.close()
    assert account.closed
    assert (account.entry().last_row, account.entry().mu_squared) == (7, account.reserved_mu_squared)
    with pytest.raises(BudgetExceeded):
        ledger.open(learner="PIGD", guarantee=plan(0.2))


def test_an_account_closed_without_counters_counts_as_spent():
    ledger = Ledger(epsilon=1, delta=1e-6)
    account = ledger.open(learner="PIGD", guarantee=plan(0.2))
    account.close()
    assert ledger.spent.mu == pytest.approx(0.2, rel=1e-15)
    assert account.entry().releases == 0


def test_attach_once_and_not_after_close():
    account = Ledger().open(learner="PIGD", guarantee=plan())
    with pytest.raises(InvalidParameter, match="callable"):
        account.attach((0, 0, 0.0))  # type: ignore[arg-type]
    Run(account)
    with pytest.raises(StateError, match="already"):
        Run(account)
    account.close()
    with pytest.raises(StateError, match="closed"):
        Run(account)


def test_a_closed_account_holds_no_reference_to_the_learner():
    class Learner:
        def counters(self) -> tuple[int, int, float]:
            return 3, 1, 0.001

    ledger = Ledger()
    account = ledger.open(learner="PIGD", guarantee=plan(0.1))
    learner = Learner()
    gone = weakref.ref(learner)
    account.attach(learner.counters)
    account.close()
    del learner
    gc.collect()
    assert gone() is None
    assert ledger.entries()[0].last_row == 3


# -- threads --


@pytest.fixture
def _eager_switching():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("_eager_switching")
def test_threads_racing_for_the_last_of_a_budget():
    """Sixteen threads, room for three: exactly three succeed, in each of many rounds."""
    for _ in range(30):
        ledger = Ledger(epsilon=1, delta=1e-6)
        share = plan(gdp_mu(1, 1e-6) / math.sqrt(3))
        start = threading.Barrier(16)
        outcomes: list[str] = []

        def race(ledger=ledger, share=share, start=start, outcomes=outcomes) -> None:
            start.wait()
            try:
                ledger.open(learner="PIGD", guarantee=share)
                outcomes.append("won")
            except BudgetExceeded:
                outcomes.append("lost")

        threads = [threading.Thread(target=race) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes) == ["lost"] * 13 + ["won"] * 3
        assert len(ledger.accounts) == 3


def test_a_slow_reader_neither_fails_nor_takes_newer_counts_back():
    ledger = Ledger()
    account = ledger.open(learner="PIGD", guarantee=plan(1.0))
    main, asked, go = threading.get_ident(), threading.Event(), threading.Event()
    seen: list[int] = []

    def counters() -> tuple[int, int, float]:
        if threading.get_ident() == main:
            return 10, 10, 0.1
        asked.set()
        go.wait(WAIT)
        return 5, 5, 0.05  # correct when it was requested

    account._counters = counters  # attached without the first reading
    reader = threading.Thread(target=lambda: seen.append(ledger.entries()[0].last_row))
    reader.start()
    assert asked.wait(WAIT)
    assert ledger.entries()[0].last_row == 10
    go.set()
    reader.join(WAIT)
    assert seen == [10]
    assert account.entry().mu_squared >= 0.1


def test_no_deadlock_with_a_lock_that_the_learner_holds():
    """A reader asks the learner (ledger, then learner) while the learner closes its run (learner, then ledger)."""
    ledger = Ledger()
    account = ledger.open(learner="PIGD", guarantee=plan(0.1))
    lock = threading.RLock()
    asked, go = threading.Event(), threading.Event()
    main = threading.get_ident()

    def counters() -> tuple[int, int, float]:
        if threading.get_ident() != main:
            asked.set()
            go.wait(WAIT)
        with lock:
            return 1, 1, 0.001

    account.attach(counters)
    reader = threading.Thread(target=ledger.entries, daemon=True)
    with lock:
        reader.start()
        assert asked.wait(WAIT)
        go.set()
        closer = threading.Thread(target=ledger.open, kwargs={"learner": "x", "guarantee": plan()}, daemon=True)
        closer.start()
        closer.join(WAIT)
        assert not closer.is_alive()
        account.close()
    reader.join(WAIT)
    assert not reader.is_alive()
    assert account.closed


# -- one ledger, not two --


class Estimator(BaseEstimator):
    def __init__(self, ledger: Ledger | None = None, epsilon: float = 1.0) -> None:
        self.ledger = ledger
        self.epsilon = epsilon


def test_copies_and_clones_share_the_ledger():
    ledger = Ledger(epsilon=1, delta=1e-6)
    account = ledger.open(learner="PIGD", guarantee=plan())
    assert copy.copy(ledger) is ledger
    assert copy.deepcopy(ledger) is ledger
    assert copy.deepcopy({"a": [ledger]})["a"][0] is ledger
    assert copy.deepcopy(account) is account
    assert clone(clone(Estimator(ledger=ledger)).set_params(epsilon=2)).ledger is ledger


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickling_is_refused(protocol):
    ledger = Ledger()
    for thing in (ledger, ledger.open(learner="PIGD", guarantee=plan()), Estimator(ledger)):
        with pytest.raises(StateError, match="cannot be pickled"):
            pickle.dumps(thing, protocol=protocol)


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_child_is_refused_even_if_a_lock_was_held_at_the_fork():
    script = """
        import os, sys, threading
        from privol.errors import StateError
        from privol.guarantees import Guarantee
        from privol.ledger import Ledger

        plan = Guarantee(kind="gdp", parameter=0.01, adjacency="replace", horizon=10, releases=1, delta=1e-6,
                         arithmetic="a", bit_source="b")
        ledger = Ledger(epsilon=1, delta=1e-6)
        free = Ledger()
        account = ledger.open(learner="parent", guarantee=plan)
        held, done = threading.Event(), threading.Event()

        def hold():
            with ledger._lock:
                held.set()
                done.wait()

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()
        pid = os.fork()
        if pid == 0:
            refused = 0
            for each in (ledger, free):
                try:
                    each.open(learner="child", guarantee=plan)
                except StateError as error:
                    refused += "forked child" in str(error)
            try:
                account.attach(lambda: (0, 0, 0.0))
            except StateError:
                refused += 1
            read = len(ledger.entries()) == 1 and ledger.spent.mu == 0   # the state at the fork
            Ledger(epsilon=1, delta=1e-6).open(learner="own", guarantee=plan)
            os._exit(0 if refused == 3 and read else 1)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        done.set()
        thread.join()
        ledger.open(learner="parent", guarantee=plan)
        sys.exit(status)
    """
    result = warm.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        timeout=WAIT,
    )
    assert result.returncode == 0, result.stderr


# -- records --


def test_records_are_json_lines_with_the_guarantee_in_them(tmp_path):
    ledger = Ledger(epsilon=1, delta=1e-6)
    for name in ("PIGD", "PGIGA"):
        account = ledger.open(learner=name, guarantee=plan(0.1))
        Run(account).learn(10)
    account.close()
    path = tmp_path / "ledger.jsonl"
    path.write_text("old")
    ledger.write_jsonl(path)
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert lines == ledger.to_records()
    assert [(line["learner"], line["open"]) for line in lines] == [("PIGD", True), ("PGIGA", False)]
    assert ((first := lines[0])["format"], first["version"]) == ("privol.ledger-entry", 1)
    assert (first["first_row"], first["last_row"], first["releases"], first["private"]) == (1, 100, 10, True)
    assert first["mu_squared"] == pytest.approx(0.001)
    assert first["reserved_mu_squared"] == pytest.approx(0.01)
    assert Guarantee.from_record(first["guarantee"]) == plan(0.1)
    assert os.listdir(tmp_path) == ["ledger.jsonl"]


def test_a_failed_write_leaves_what_was_there(tmp_path, monkeypatch):
    ledger = Ledger()
    ledger.open(learner="PIGD", guarantee=plan())
    path = tmp_path / "ledger.jsonl"
    path.write_text("old")

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        ledger.write_jsonl(path)
    assert os.listdir(tmp_path) == ["ledger.jsonl"]
    assert path.read_text() == "old"
