"""Attacks on kept runs that once succeeded, or nearly: they would reveal a difference of rows, or spend for nothing."""

from __future__ import annotations

import math
import os

import pytest
from conformance import N, Stream, X, Y, fingerprint, make
from forged import change_ledger

from privol.errors import StateError
from privol.evaluate import PrivateMetrics, progressive
from privol.ledger import Account, Ledger
from privol.losses import Custom
from privol.state import State, load_model

pytestmark = pytest.mark.process

posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks of POSIX systems")
METRICS = PrivateMetrics(mu=1.0, window_rows=100)


def entries(path):
    return [(e.learner, e.last_row, e.releases, e.open) for e in Ledger.read(path).entries()]


def watched(run, stream, found, private=METRICS, learner=None, **words):
    """A run with private metrics that is kept on the disk."""
    learner = State(run).learner() if learner is None else learner
    return progressive(learner, stream, private=private, on_window=found.append, checkpoint=State(run), **words)


@pytest.fixture
def cut(tmp_path):
    """A run that was interrupted after row 350, and its three visible windows."""
    run, seen = tmp_path / "run", []
    stream, learner = Stream(size=50, stop=351, error=KeyboardInterrupt()), make("PIGD", random_state=None)
    with pytest.raises(KeyboardInterrupt):
        watched(run, stream, seen, learner=learner)
    assert [w.last_row for w in seen] == [100, 200, 300]
    return run, seen


@pytest.mark.parametrize("stop", [None, 251], ids=["until refused", "interrupted before"])
def test_windows_of_other_rows_are_not_shown(cut, stop):
    """Their noise was published with the first ones, so the difference would be exact."""
    run, seen = cut
    targets, found = Y.copy(), []
    targets[149] = 1 - targets[149]
    error = StateError if stop is None else KeyboardInterrupt
    with pytest.raises(error):
        watched(run, Stream(size=50, targets=targets, stop=stop, error=KeyboardInterrupt()), found)
    assert found == seen
    found.clear()
    watched(run, Stream(size=30), found)
    assert found[:3] == seen
    assert len(found) == 6


@pytest.mark.parametrize("other", [{"window_rows": 119}, {"loss_bound": 0.7}, {"delay": 20}], ids=str)
def test_windows_are_recomputed_identically(cut, other):
    run, seen = cut
    settings, found = {"window_rows": 100, **other}, []
    delay = settings.pop("delay", 0)
    with pytest.raises(StateError, match="other settings"):
        watched(run, Stream(), found, PrivateMetrics(mu=1.0, **settings), delay=delay)
    assert found == []
    watched(run, Stream(), found)
    assert found[:3] == seen


def loss_of(weight):
    return Custom(
        value=lambda p, y: weight * math.log1p(math.exp(-p * y)) if p * y > -700 else -weight * p * y,
        gradient=lambda p, y: -weight * y / (1 + math.exp(min(p * y, 700.0))),
        lipschitz=1.0,
        smoothness=0.25,
        name="mine",
    )


def test_a_resumed_run_needs_the_same_custom_loss(tmp_path):
    """Only its name is stored: another body leads to another state, which is detected."""
    run, found, private = tmp_path / "run", [], PrivateMetrics(mu=1.0, window_rows=100, loss_bound=2.0)
    with pytest.raises(OSError, match="gone"):
        watched(run, Stream(stop=350), found, private, make("NOGD", loss=loss_of(1.0), random_state=None))
    seen = found.copy()
    assert len(seen) == 3
    found.clear()
    with pytest.raises(StateError, match="another state"):
        watched(run, Stream(), found, private, State(run).learner(loss=loss_of(0.9)))
    assert found == seen
    watched(run, Stream(), [], private, State(run).learner(loss=loss_of(1.0)))


def dies_when_the_account_is_to_close(run, name, **words):
    pid = os.fork()
    if pid == 0:
        Account.close = lambda self: os._exit(9)
        make(name, random_state=None, **words).fit_stream(Stream(), checkpoint=State(run, every=500))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    assert (run / "secret" / "model.json").exists()


@posix
def test_a_sealed_model_that_was_not_paid_for_is_not_shown(tmp_path):
    dies_when_the_account_is_to_close(tmp_path / "ended", "PIGD last")
    State(tmp_path / "ended").end()
    assert not (tmp_path / "ended" / "model.json").exists()
    assert entries(tmp_path / "ended" / "ledger.jsonl") == [("PIGD", 512, 0, False)]
    dies_when_the_account_is_to_close(tmp_path / "other", "PIGD", release=[550, 590], horizon=N)
    other = State(tmp_path / "other")
    other.learner().fit_stream(Stream(rows=X[:520], targets=Y[:520]), checkpoint=other)
    assert not (tmp_path / "other" / "model.json").exists()  # its first release would have been at row 550
    assert entries(tmp_path / "other" / "ledger.jsonl") == [("PIGD", 520, 0, False)]


def test_windows_are_in_the_journal_before_they_are_seen(tmp_path, monkeypatch):
    run, seen = tmp_path / "run", []
    commit = Account.commit

    def failing(self, *given, **facts):
        if "windows" in facts:
            raise OSError("No space left on device")
        return commit(self, *given, **facts)

    monkeypatch.setattr(Account, "commit", failing)
    with pytest.raises(OSError, match="No space"):
        watched(run, Stream(stop=350), seen, learner=make("PIGD", random_state=None))
    assert seen == []
    monkeypatch.undo()
    with pytest.raises(OSError, match="gone"):
        watched(run, Stream(stop=450), seen)
    assert [w.last_row for w in seen] == [100, 200, 300, 400]
    State(run).end()
    assert entries(run / "ledger.jsonl") == [("PrivateMetrics", 448, 4, False), ("PIGD", 448, 8, False)]
    assert Ledger.read(run / "ledger.jsonl").entries()[0].mu_squared == 1.0


def test_a_copy_of_an_account_is_not_the_account(tmp_path):
    run = tmp_path / "run"
    with pytest.raises(OSError, match="gone"):
        make("PIGD", random_state=None).fit_stream(Stream(stop=150), checkpoint=State(run, every=10))
    ledger = Ledger(epsilon=4.0, delta=1e-6, journal=tmp_path / "all.jsonl")
    ledger.include(Ledger.read(run / "ledger.jsonl"))
    before = sorted(path.name for path in (run / "secret").iterdir())
    for reopened in (False, True):
        if reopened:
            ledger.close()
            ledger = Ledger(epsilon=4.0, delta=1e-6, journal=tmp_path / "all.jsonl")
        with pytest.raises(StateError, match="not with one that includes it"):
            State(run).learner(ledger=ledger).fit_stream(Stream(), checkpoint=State(run))
        assert ledger.entries()[0].open
    assert sorted(path.name for path in (run / "secret").iterdir()) == before
    State(run).learner().fit_stream(Stream(), checkpoint=State(run))


def test_accounts_opened_by_others_are_not_refunded(tmp_path):
    """A run without checkpoints died with released models, in the journal of the directory."""
    run = tmp_path / "run"
    run.mkdir()
    ledger = Ledger(journal=run / "ledger.jsonl")
    learner = make("PIGD", ledger=ledger, horizon=N)
    learner.partial_fit(X[:300], Y[:300], classes=[0, 1])
    assert learner.n_releases_ == 6
    ledger.close()
    (run / ".notes.tmp").write_text("mine")
    with pytest.raises(OSError, match="gone"):
        make("PIGD").fit_stream(Stream(stop=1), checkpoint=State(run))
    assert entries(run / "ledger.jsonl")[0][3]
    assert Ledger.read(run / "ledger.jsonl").entries()[0].mu_squared >= learner.guarantee_.mu**2
    assert (run / ".notes.tmp").read_text() == "mine"


def test_failures_before_the_first_row_reserve_nothing(tmp_path):
    ledger = Ledger(epsilon=4.0, delta=1e-6, journal=tmp_path / "all.jsonl")
    private = PrivateMetrics(mu=0.3, window_rows=100)
    for _ in range(3):
        with pytest.raises(OSError, match="gone"):
            watched(tmp_path / "run", Stream(stop=1), [], private, make("PIGD", ledger=ledger))
    watched(tmp_path / "run", Stream(), [], private, make("PIGD", ledger=ledger))
    assert [account.closed for account in ledger.accounts] == [True] * 2  # the metrics' is taken again each time
    assert sum(entry.releases > 0 for entry in ledger.entries()) == 2


def test_commits_of_others_leave_a_journal_in_order(tmp_path):
    run, ledger = tmp_path / "run", Ledger(journal=tmp_path / "all.jsonl")

    def meddling(learner, stream):
        learner.ledger_.accounts[0].commit()

    with pytest.raises(OSError, match="gone"):
        make("PIGD", ledger=ledger).fit_stream(
            Stream(size=30, stop=500), checkpoint=State(run, every=40), progress=meddling
        )
    ledger.close()
    ledger = Ledger(journal=tmp_path / "all.jsonl")
    learner = State(run).learner(ledger=ledger)
    learner.random_state = 3
    learner.fit_stream(Stream(), checkpoint=State(run))
    assert fingerprint(learner) == fingerprint(make("PIGD").fit_stream(Stream()))


def test_commits_of_others_hide_no_windows(cut):
    run, seen = cut
    found = []

    def meddling(learner, stream):
        for account in learner.ledger_.accounts:
            account.commit()

    stream = Stream(size=50, stop=451, error=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        watched(run, stream, found, progress=meddling)
    assert found[:3] == seen
    assert len(found) == 4
    watched(run, Stream(), [], progress=meddling)


def test_a_closed_account_ends_the_learning():
    learner = make("PIGD", horizon=N).partial_fit(X[:100], Y[:100], classes=[0, 1])
    learner.ledger_.accounts[0].close()
    for learn in (lambda: learner.partial_fit(X[:10], Y[:10]), lambda: learner.learn_one(X[0], Y[0])):
        with pytest.raises(StateError, match="account is closed"):
            learn()
    assert learner.n_rows_ == 100


@posix
def test_a_forked_child_ends_nothing_of_its_parent(tmp_path):
    """Also without a noise source, whose own refusal of forks would stop it."""
    run = tmp_path / "run"
    status = []

    def fork(learner, stream):
        if learner._run.state.n_rows < 300 or status:
            return
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                learner.close()
            except StateError:
                code = 3
            finally:
                os._exit(code)
        status.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

    make("PIGD", epsilon=float("inf")).fit_stream(Stream(), checkpoint=State(run, every=40), progress=fork)
    assert status == [3]
    assert load_model(run).n_rows_ == N


def test_unwritable_values_are_refused_before_reservation(tmp_path):
    ledger = Ledger(epsilon=4.0, delta=1e-6, journal=tmp_path / "all.jsonl")
    with pytest.raises(TypeError):
        make("PIGD", ledger=ledger).fit_stream(Stream(), checkpoint=State(tmp_path / "run", context={"a": object()}))
    assert ledger.accounts == ()
    make("PIGD", ledger=ledger, release=range(100, 601, 100)).fit_stream(Stream(), checkpoint=State(tmp_path / "run"))


def test_a_journal_names_no_file_elsewhere(tmp_path):
    """A checkpoint that is older than the newest is removed, whatever its name is."""
    run, other = tmp_path / "run", tmp_path / "precious"
    with pytest.raises(KeyboardInterrupt):
        make("PIGD", random_state=None).fit_stream(
            Stream(size=50, stop=351, error=KeyboardInterrupt()), checkpoint=State(run, every=100)
        )
    (newest,) = (run / "secret").glob("checkpoint-*.bin")
    newest.rename(other)

    def rename(entries):
        entries[-1]["facts"]["checkpoint"] = "../../precious"
        return entries

    change_ledger(run, rename)
    with pytest.raises(StateError, match=r"garbles what a checkpoint is known by: .*precious"):
        State(run).learner().fit_stream(Stream(size=50), checkpoint=State(run, every=100))
    assert other.exists()
