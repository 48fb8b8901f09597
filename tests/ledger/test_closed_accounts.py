"""A closed account pays for nothing: an open run on it releases nothing more, and its spending remains recorded."""

from __future__ import annotations

import math
import threading
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest
from conformance import LEARNERS, OFFLINE, N, Stream, X, Y, fingerprint, make, rows_for

from privol import DPFTRL, MIOGD, NOGD, PIGD, OutputPerturbation
from privol.errors import StateError
from privol.evaluate import PrivateMetrics, progressive
from privol.guarantees import Guarantee, square_up
from privol.ledger import Ledger
from privol.losses import Custom
from privol.prefix import PrefixSum, SymmetricSum
from privol.rounds import Collector
from privol.state import State
from privol.tuning import PrivateSelection

CLOSED = "the run's account is closed: what it released from here on would count nowhere"


def open_run(name, rows=60, **words):
    """A run that has learnt some rows with ``partial_fit``, and its account."""
    learner = make(name, **{"horizon": N, **words})
    if learner.get_params().get("release", 0) is None and name.startswith(("PIGD", "PGIGA")):
        learner.set_params(release="last")
    learner.partial_fit(X[:rows], Y[:rows], classes=[0, 1])
    return learner, learner.ledger_.accounts[-1]


def what_was_said(account):
    entry = account.entry()
    return entry.last_row, entry.releases, entry.mu_squared, entry.pure_epsilon, entry.open


@contextmanager
def refused_or_nothing_due():
    found = None
    try:
        yield
    except StateError as error:
        found = str(error)
    assert found in (None, CLOSED)


# ---- learners ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LEARNERS)
def test_no_learner_releases_on_a_closed_account(name):
    """No method continues the run; the model stays, and so do the account's figures."""
    learner, account = open_run(name)
    account.close()
    said, seen = what_was_said(account), fingerprint(learner)
    state = learner._run.state
    tries = [
        lambda: learner.partial_fit(X[60:], Y[60:]),
        lambda: learner.learn_one(X[60], Y[60]),
        lambda: state.learn(X[60:], np.where(Y[60:] > 0, 1.0, -1.0)),
        lambda: state.learn_one(X[60], 1.0),
    ]
    if hasattr(learner, "tell"):
        tries.append(learner.ask)
    if hasattr(state, "tell"):
        shape = learner._run.plan.dim if name == "BanditMIOGD" else state.released_model().shape
        values = {"BanditMIOGD": 2, "BanditMIOGD published": 1}
        tries.append(lambda: state.tell(np.zeros(values.get(name, shape))))
    if hasattr(state, "receive"):
        tries.append(lambda: state.receive(np.zeros(1 if name == "BanditMIOGD" else len(state.released_model()))))
    if hasattr(state, "release_last"):
        words = (1.0, 1.0) if name.startswith(("PIGD", "PGIGA")) else ()
        tries.append(lambda: state.release_last(*words))
    for attempt in tries:
        with pytest.raises(StateError, match=CLOSED):
            attempt()
    with refused_or_nothing_due():
        learner.close()
    learner.close()  # a second call does nothing
    assert fingerprint(learner) == seen
    assert what_was_said(account) == said


def test_the_last_model_is_not_released_on_a_closed_account():
    """Fifty runs under one ledger of epsilon 1, none of which would be counted: together mu 1.674."""
    ledger = Ledger(epsilon=1.0, delta=1e-6)
    for _ in range(3):
        learner = PIGD(release="last", epsilon=1.0, horizon=100, ledger=ledger)
        learner.partial_fit(X[:50], Y[:50], classes=[0, 1])
        ledger.accounts[-1].close()
        with pytest.raises(StateError, match=CLOSED):
            learner.close()
        assert learner.n_releases_ == 0
        assert not learner.coef_.any()
        learner.close()
    assert ledger.spent.mu == 0.0


@pytest.mark.parametrize("block", [64, N])
def test_a_progress_callback_closes_the_account(block):
    ledger = Ledger(epsilon=1.0, delta=1e-6)
    learner = PIGD(release=5, epsilon=1.0, ledger=ledger)
    counts = []

    def progress(learner, stream):
        ledger.accounts[-1].close()
        counts.append((learner.n_rows_, learner.n_releases_))

    if block < N:
        with pytest.raises(StateError, match=CLOSED):
            learner.fit_stream(Stream(block), progress=progress)
    else:
        learner.fit_stream(Stream(block), progress=progress)  # nothing is due any more
    entry = ledger.accounts[-1].entry()
    assert counts == [(block, block // 5)] == [(entry.last_row, entry.releases)]
    assert learner.n_releases_ == entry.releases


def test_a_release_callback_closes_the_account():
    learner, found = NOGD(random_state=1), []

    def on_release(release):
        found.append(release.row)
        if release.row == 7:
            learner.ledger_.accounts[-1].close()

    with pytest.raises(StateError, match=CLOSED):
        learner.fit_stream(Stream(), on_release=on_release)
    assert found == list(range(1, 8))
    assert learner.n_releases_ == learner.ledger_.accounts[-1].entry().releases == 7


def test_an_observed_run_ends_with_its_account():
    ledger = Ledger()
    learner = NOGD(random_state=1, ledger=ledger)
    with pytest.raises(StateError, match=CLOSED):
        progressive(learner, Stream(), progress=lambda *_: ledger.accounts[0].close())
    assert learner.n_rows_ == ledger.accounts[0].entry().last_row == 64


def test_a_collector_takes_no_report_on_a_closed_account():
    learner = MIOGD(leakage=0.5, horizon=20, random_state=1).declare_classes([0, 1])
    collector = Collector(learner, 4)
    learner.ledger_.accounts[-1].close()
    with pytest.raises(StateError, match=CLOSED):
        collector.ask()
    with pytest.raises(StateError, match=CLOSED):
        learner.tell(report=np.zeros(5))


def test_a_loss_cannot_close_the_account_of_the_row_that_it_is_asked_for():
    """The run's thread is within a row: the account stays open with its full reservation, and the run continues."""
    refused = []

    def close(p, y):
        if armed:
            try:
                learner.ledger_.accounts[-1].close()
            except StateError as error:
                refused.append(str(error))
        return float(np.tanh(p - y))

    armed = False
    loss = Custom(value=lambda p, y: np.log(np.cosh(p - y)), gradient=close, lipschitz=1.0, smoothness=1.0)
    learner = NOGD(loss=loss, horizon=100, random_state=1)
    learner.partial_fit(X[:10], Y[:10], classes=[0, 1])
    armed = True
    learner.partial_fit(X[10:12], Y[10:12])
    armed = False
    account = learner.ledger_.accounts[-1]
    assert len(refused) >= 2
    assert "busy in this thread" in refused[0]
    assert not account.closed
    assert account.entry().last_row == 12
    learner.partial_fit(X[12:20], Y[12:20]).close()
    assert account.entry().last_row == 20


@pytest.mark.parametrize("name", ["PIGD", "DPFTRL blt", "DOLA", "PQFTL"])
def test_another_thread_closes_while_rows_are_learnt(name):
    """The account states what was released: nothing more is released once it is closed."""
    rows = np.tile(X, (40, 1))
    labels = np.tile(Y, 40)
    for k in range(8):
        learner = make(name, horizon=len(rows), release=1)
        learner.partial_fit(rows[:7], labels[:7], classes=[0, 1])
        account, begun = learner.ledger_.accounts[-1], threading.Event()

        def close(account=account, begun=begun, wait=k * 1e-3):
            begun.wait()
            threading.Event().wait(wait)
            account.close()

        thread = threading.Thread(target=close)
        thread.start()
        begun.set()
        with refused_or_nothing_due():
            for start in range(7, len(rows), 500):
                learner.partial_fit(rows[start : start + 500], labels[start : start + 500])
        thread.join()
        assert (account.entry().last_row, account.entry().releases) == (learner.n_rows_, learner.n_releases_)


def test_an_account_closed_before_its_run_begins():
    """If the account is closed between the reservation and the first row, the run does not begin."""
    ledger = Ledger()

    class Hasty(NOGD):
        def _open_run(self, *words, **more):
            made = super()._open_run(*words, **more)
            opened = Ledger.open

            def open_and_close(self, **words):
                account = opened(self, **words)
                account.close()
                return account

            ledger.open = open_and_close.__get__(ledger)
            return made

    with pytest.raises(StateError, match="is closed"):
        Hasty(ledger=ledger, horizon=10).partial_fit(X[:5], Y[:5], classes=[0, 1])
    assert ledger.accounts[0].entry().mu_squared == ledger.accounts[0].reserved_mu_squared


def test_a_kept_run_ends_with_its_account(tmp_path):
    learner = make("PIGD")
    with pytest.raises(StateError, match="account"):
        learner.fit_stream(
            Stream(),
            checkpoint=State(tmp_path / "run", every=40),
            progress=lambda learner, _: learner.ledger_.accounts[0].close(),
        )
    entry = Ledger.read(tmp_path / "run" / "ledger.jsonl").accounts[0].entry()
    assert not entry.open
    assert learner.n_rows_ <= entry.last_row <= 80
    assert learner.n_releases_ <= entry.releases


# ---- the figures of a live run ----------------------------------------------------------------------------------


def test_only_a_live_run_states_what_it_has_spent():
    ledger = Ledger(epsilon=1.0, delta=1e-6)
    learner = PIGD(release=5, epsilon=1.0, horizon=N, ledger=ledger)
    learner.partial_fit(X[:100], Y[:100], classes=[0, 1])
    (account,) = ledger.accounts
    with pytest.raises(StateError, match="of a run that is live"):
        account.close_at(0, 0, 0.0)
    assert not account.closed
    learner.partial_fit(X[100:], Y[100:]).close()
    assert account.entry().releases == N // 5
    with pytest.raises(StateError, match="is closed"):
        account.close_at(0, 0, 0.0)
    assert account.entry().releases == N // 5


def test_abandoning_a_live_run_ends_it():
    """``leave`` is for runs kept on the disk: for another run, the spending is fully known by then."""
    ledger = Ledger()
    learner = PIGD(release=5, horizon=N, ledger=ledger)
    learner.partial_fit(X[:100], Y[:100], classes=[0, 1])
    (account,) = ledger.accounts
    account.leave()
    with pytest.raises(StateError, match="another"):
        learner.partial_fit(X[100:], Y[100:])
    account.close_at(0, 0, 0.0)
    assert (account.entry().last_row, account.entry().releases) == (100, 20)
    assert account.entry().mu_squared > 0.0


def test_another_ledger_does_not_close_a_live_run():
    """Included runs come back from a ledger that takes them for finished."""
    ledger, other = Ledger(), Ledger()
    learner = PIGD(release=5, horizon=N, ledger=ledger)
    learner.partial_fit(X[:100], Y[:100], classes=[0, 1])
    other.include(ledger)
    with pytest.raises(StateError, match="another ledger"):
        other.accounts[0].close_at(0, 0, 0.0)
    with pytest.raises(StateError, match="another ledger"):
        other.accounts[0].attach(lambda: (0, 0, 0.0))
    other.accounts[0].close()
    assert other.accounts[0].entry().mu_squared == other.accounts[0].reserved_mu_squared
    ledger.include(other)
    assert not ledger.accounts[0].closed
    learner.partial_fit(X[100:], Y[100:]).close()
    assert ledger.accounts[0].entry().releases == N // 5


def test_a_closed_ledger_ends_its_runs(tmp_path):
    """Its journal may belong to another process from then on, which settles accounts without an owner."""
    path = tmp_path / "budget.jsonl"
    ledger = Ledger(journal=path)
    learner = PIGD(release="last", horizon=N, ledger=ledger)
    learner.partial_fit(X[:100], Y[:100], classes=[0, 1])
    sums = PrefixSum(dim=4, horizon=N, ledger=ledger)
    ledger.close()
    for attempt in (
        lambda: learner.partial_fit(X[100:], Y[100:]),
        lambda: learner.learn_one(X[100], 1),
        learner.close,
        lambda: sums.add(X[0]),
        lambda: ledger.accounts[0].commit(),
    ):
        with pytest.raises(StateError, match=r"the ledger of .* is closed"):
            attempt()
    assert learner.n_releases_ == 0
    again = Ledger(journal=path)
    assert again.committed.mu >= learner.guarantee_.mu
    again.close()


@pytest.mark.parametrize("settle", ["close_at", "attach"])
@pytest.mark.parametrize("committed", [False, True])
def test_what_a_run_spent_before_its_ledger_closed_is_not_given_back(tmp_path, settle, committed):
    """The full reservation of a run that never committed is spent, because it cannot be told from a crashed one."""
    path = tmp_path / "budget.jsonl"
    ledger = Ledger(journal=path)
    learner = PIGD(release=5, horizon=N, ledger=ledger)
    learner.partial_fit(X[:100], Y[:100], classes=[0, 1])
    if committed:
        ledger.accounts[0].commit()
        learner.partial_fit(X[100:], Y[100:])
    (entry,) = ledger.entries()
    ledger.close()
    again = Ledger(journal=path)
    (account,) = again.accounts
    whole = account.reserved_mu_squared
    assert committed or account.entry().mu_squared == whole
    if settle == "attach":
        account.attach(lambda: (0, 0, 0.0))
        account.close()
    else:
        account.close_at(0, 0, 0.0)
    found = account.entry()
    spent = entry.mu_squared if committed else whole
    assert (found.last_row, found.releases, found.mu_squared) == (entry.last_row, entry.releases, spent)
    again.close()
    assert Ledger.read(path).entries()[0].mu_squared == spent > 0.0


def test_a_run_that_cannot_say_what_it_spent_has_spent_all(tmp_path):
    path, said = tmp_path / "budget.jsonl", [(0, 0, 0.0)]
    ledger = Ledger(journal=path)
    account = ledger.open(learner="A", guarantee=gaussian(0.1))
    account.attach(lambda: said[0])
    said[0] = (0, 0, math.nan)
    ledger.close()
    again = Ledger(journal=path)
    again.accounts[0].close_at(0, 0, 0.0)
    assert again.accounts[0].entry().mu_squared == account.reserved_mu_squared
    again.close()


# ---- prefix sums, metrics, offline learners ----------------------------------------------------------------


@pytest.mark.parametrize("kind", [PrefixSum, partial(SymmetricSum, gram=True)])
@pytest.mark.parametrize("leaf", [1, 7])
def test_prefix_sums_end_with_their_account(kind, leaf):
    ledger = Ledger(epsilon=1.0, delta=1e-6)
    for rows in (0, 10):
        sums = kind(horizon=100, leaf=leaf, epsilon=0.25, dim=4, ledger=ledger)
        if rows:
            sums.add_block(X[:rows])
        account = ledger.accounts[-1]
        account.close()
        said, seen = what_was_said(account), np.array(sums.prefix_)
        assert (said[2] > 0.0) == (rows >= leaf)
        for attempt in (
            lambda sums=sums: sums.add(X[0]),
            lambda sums=sums: sums.add_block(X[:9]),
            lambda sums=sums: sums.restore({}),
        ):
            with pytest.raises(StateError, match=CLOSED):
                attempt()
        with pytest.raises(StateError, match="no secret state"):
            sums.secret_state()
        if rows % leaf:  # a partial leaf is not released
            with pytest.raises(StateError, match=CLOSED):
                sums.close()
        sums.close()
        assert sums.n_releases_ == rows // leaf
        np.testing.assert_array_equal(seen, sums.prefix_)
        assert what_was_said(account) == said


def test_a_restored_prefix_sum_pays_from_its_account():
    one = PrefixSum(dim=4, horizon=100, random_state=1)
    one.add_block(X[:10])
    other = PrefixSum(dim=4, horizon=100, random_state=1)
    other.restore(one.secret_state())
    other.ledger_.accounts[0].close()
    with pytest.raises(StateError, match=CLOSED):
        other.add(X[10])


def test_private_metrics_end_with_their_account():
    ledger, windows = Ledger(), []

    def on_window(window):
        windows.append(window)
        if len(windows) == 2:
            next(a for a in ledger.accounts if a.learner == "PrivateMetrics").close()

    with pytest.raises(StateError, match=CLOSED):
        progressive(
            NOGD(ledger=ledger, random_state=1),
            Stream(),
            private=PrivateMetrics(mu=0.3, windows=10),
            metrics=(),
            on_window=on_window,
        )
    assert len(windows) == 2
    (account,) = [a for a in ledger.accounts if a.learner == "PrivateMetrics"]
    assert account.entry().mu_squared == account.reserved_mu_squared


def test_private_metrics_release_nothing_unpaid():
    ledger, windows = Ledger(), []
    with pytest.raises(StateError, match=CLOSED):
        progressive(
            NOGD(ledger=ledger, random_state=1),
            Stream(10),
            private=PrivateMetrics(mu=0.3, windows=10),
            metrics=(),
            on_window=windows.append,
            progress=lambda *_: next(a for a in ledger.accounts if a.learner == "PrivateMetrics").close(),
        )
    (account,) = [a for a in ledger.accounts if a.learner == "PrivateMetrics"]
    assert (account.entry().mu_squared > 0.0) == bool(windows)
    assert not windows


@pytest.mark.parametrize("epsilon", [1.0, math.inf])
@pytest.mark.parametrize("name", OFFLINE)
def test_a_fit_whose_account_is_closed_meanwhile_releases_nothing(name, epsilon, monkeypatch):
    ledger = Ledger()
    learner = make(name, ledger=ledger, epsilon=epsilon)
    find = type(learner)._find

    def closing(self, *words):
        found = find(self, *words)
        thread = threading.Thread(target=ledger.accounts[-1].close)
        thread.start()
        thread.join()
        return found

    monkeypatch.setattr(type(learner), "_find", closing)
    with pytest.raises(StateError, match=CLOSED):
        learner.fit(*rows_for(name))
    assert not hasattr(learner, "coef_")
    (entry,) = ledger.entries()
    if epsilon == 1.0:
        assert entry.mu_squared == ledger.accounts[0].reserved_mu_squared


def test_a_selection_whose_account_is_closed_meanwhile_releases_nothing(monkeypatch):
    ledger = Ledger()
    candidates = [OutputPerturbation(delta=0.0, l2=l2) for l2 in (0.1, 1.0)]
    selection = PrivateSelection(candidates, epsilon=8.0, ledger=ledger, random_state=1)
    best = PrivateSelection._best

    def closing(self, *words):
        ledger.accounts[0].close()
        return best(self, *words)

    monkeypatch.setattr(PrivateSelection, "_best", closing)
    with pytest.raises(StateError, match=CLOSED):
        selection.fit(X, Y)
    assert not hasattr(selection, "best_estimator_")
    assert ledger.accounts[0].entry().mu_squared == ledger.accounts[0].reserved_mu_squared


# ---- the account itself --------------------------------------------------------------------------------------------


def gaussian(mu):
    said = {"adjacency": "replace", "horizon": 100, "releases": 10, "delta": 1e-6}
    return Guarantee(kind="gdp", parameter=mu, arithmetic="lattice", bit_source="test", **said)


def test_closing_settles_at_the_final_counters_of_the_run():
    """The figures are read after the run has ended, not before: spending during the end is counted."""
    account = Ledger().open(learner="A", guarantee=gaussian(0.1))
    now = [5, 1, 0.001]
    ended = []

    def end(words):
        ended.append(words)
        now[:] = [8, 2, 0.003]

    account.attach(lambda: tuple(now), end)
    assert account.entry().releases == 1
    account.close()
    assert ended == [CLOSED]
    assert (account.entry().last_row, account.entry().releases) == (8, 2)
    account.close()
    assert len(ended) == 1


def test_a_run_that_cannot_end_keeps_its_account_open():
    account = Ledger().open(learner="A", guarantee=gaussian(0.1))
    busy = [True]

    def end(words):
        if busy:
            raise StateError("busy")

    account.attach(lambda: (5, 1, 0.001), end)
    with pytest.raises(StateError, match="busy"):
        account.close()
    assert not account.closed
    account.ask()
    busy.clear()
    account.close()
    assert account.entry().mu_squared == pytest.approx(0.001)
    with pytest.raises(StateError, match=CLOSED):
        account.ask()


def test_ask_is_refused_once_the_account_is_closed():
    ledger = Ledger()
    account = ledger.open(learner="A", guarantee=gaussian(0.1))
    spent = [0, 0, 0.0]
    account.attach(lambda: tuple(spent))
    released, refused = [], []

    def release():
        for _ in range(1_000_000):  # enough for the account to be closed in between
            spent[:] = [spent[0] + 1, spent[1] + 1, min(0.0001 * (spent[1] + 1), square_up(0.1))]
            account.ask()
            released.append(spent[1])

    def run():
        try:
            release()
        except StateError as error:
            refused.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    threading.Event().wait(0.01)
    account.close()
    thread.join()
    assert refused == [CLOSED]
    assert account.entry().releases >= len(released)


def test_the_horizon_does_not_bypass_a_closed_account():
    """A run that ends by itself pays for its last release and then settles, as before."""
    for release in ("last", "all"):
        learner = PIGD(release=release, horizon=50, random_state=1).partial_fit(X[:20], Y[:20], classes=[0, 1])
        learner.close()
        entry = learner.ledger_.accounts[0].entry()
        assert entry.releases == learner.n_releases_ == (1 if release == "last" else 20)
        assert entry.mu_squared > 0.0
    with pytest.raises(StateError, match="the run is closed"):
        learner.partial_fit(X[20:], Y[20:])
    assert DPFTRL(random_state=1).fit(X, Y).ledger_.accounts[0].closed
