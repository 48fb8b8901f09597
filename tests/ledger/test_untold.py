"""What a process released but recorded nowhere before it died counts as spent."""

from __future__ import annotations

import contextlib

import pytest

from privol.errors import StateError
from privol.guarantees import Guarantee
from privol.ledger import Ledger
from privol.ledger._journal import FORMAT, Journal

LIMIT = {"epsilon": 1.0, "delta": 1e-6, "slack": 5e-7}
PROMISES = {
    "gdp": {"horizon": 100, "releases": 10},
    "pure": {"horizon": 100, "releases": 10},
    "approximate": {"horizon": 1, "releases": 1, "slack": 1e-7},
}


def promise(kind):
    return Guarantee(
        kind=kind, parameter=0.1, adjacency="replace", delta=1e-6, arithmetic="a", bit_source="b", **PROMISES[kind]
    )


@pytest.fixture
def crashed(tmp_path):
    """The journal of a process that died with two runs open, one of them kept on the disk."""

    def journal(kind):
        ledger = Ledger(journal=tmp_path / "budget.jsonl", **LIMIT)
        for facts in ({}, {"kept": True}):
            ledger.open(learner="PIGD", guarantee=promise(kind), facts=facts)
        path = tmp_path / "crashed.jsonl"
        path.write_bytes(ledger.journal.read_bytes())
        ledger.close()
        return path

    return journal


@pytest.mark.parametrize("kind", PROMISES)
@pytest.mark.parametrize("how", ["attach", "commit", "close_at", "close"])
def test_a_run_that_never_committed_refunds_nothing(crashed, kind, how):
    path = crashed(kind)
    ledger = Ledger(journal=path, **LIMIT)
    lost, kept = ledger.accounts
    whole = lost.reserved_mu_squared
    if how in ("attach", "commit"):
        lost.attach(lambda: (0, 0, 0.0))
    if how == "commit":
        lost.commit((0, 0, 0.0))
    elif how == "close_at":
        lost.close_at(0, 0, 0.0)
    else:
        lost.close()
    kept.close_at(0, 0, 0.0)  # a run that is kept releases nothing before it is committed
    ledger.close()
    lost, kept = Ledger.read(path).accounts
    assert lost.closed is (how != "commit")
    assert lost.entry().mu_squared == whole > 0.0
    assert (kept.closed, kept.entry().mu_squared) == (True, 0.0)
    again = Ledger(journal=path, **LIMIT)
    assert again.spent.delta_at(0.05) == pytest.approx(promise(kind).bound.delta_at(0.05), rel=1e-9)
    again.close()


def test_a_commit_does_not_end_what_a_run_may_spend(tmp_path):
    """A run that commits now and then and keeps releasing is killed: the rest of the reservation is unknown."""
    path, crashed = tmp_path / "budget.jsonl", tmp_path / "crashed.jsonl"
    ledger = Ledger(journal=path, **LIMIT)
    account = ledger.open(learner="PIGD", guarantee=promise("gdp"))
    now = [10, 1, 0.001]
    account.attach(lambda: tuple(now))
    account.commit()
    now[:] = [20, 2, 0.002]  # the journal does not record this
    spent, whole = account.entry().mu_squared, account.reserved_mu_squared
    crashed.write_bytes(path.read_bytes())
    for settle in ("read", "close_at", "attach"):
        found = Ledger.read(crashed) if settle == "read" else Ledger(journal=crashed, **LIMIT)
        (again,) = found.accounts
        if settle == "close_at":
            again.close_at(0, 0, 0.0)
        elif settle == "attach":
            again.attach(lambda: (0, 0, 0.0))
            again.close()
        assert again.entry().mu_squared == whole > spent
        found.close()
        crashed.write_bytes(path.read_bytes())
    ledger.close()  # this records it
    assert Ledger.read(path).entries()[0].mu_squared == spent


def test_another_ledgers_knowledge_does_not_release_a_run(tmp_path):
    path, older, crashed = (tmp_path / name for name in ("budget.jsonl", "older.jsonl", "crashed.jsonl"))
    ledger = Ledger(journal=path, **LIMIT)
    account = ledger.open(learner="PIGD", guarantee=promise("gdp"))
    account.attach(lambda: (10, 1, 0.001))
    account.commit()
    older.write_bytes(path.read_bytes())
    ledger.include(Ledger.read(older))
    crashed.write_bytes(path.read_bytes())
    assert Ledger.read(crashed).entries()[0].mu_squared == account.reserved_mu_squared
    ledger.close()
    ledger.close()  # which is harmless
    assert Ledger.read(path).entries()[0].mu_squared == account.entry().mu_squared


@pytest.mark.parametrize("again", ["let go", "killed"])
def test_a_process_that_resumes_an_abandoned_run_may_be_killed(tmp_path, again):
    path = tmp_path / "budget.jsonl"
    ledger = Ledger(journal=path, **LIMIT)
    account = ledger.open(learner="PIGD", guarantee=promise("gdp"))
    account.attach(lambda: (10, 1, 0.001))
    account.commit()
    ledger.close()
    ledger = Ledger(journal=path, **LIMIT)
    (account,) = ledger.accounts
    first = account.entry().mu_squared
    assert 0.001 <= first < account.reserved_mu_squared
    account.attach(lambda: (20, 2, 0.002))
    if again == "let go":
        ledger.close()
    (entry,) = Ledger.read(path).entries()
    assert entry.mu_squared == (pytest.approx(0.002) if again == "let go" else account.reserved_mu_squared)
    ledger.close()


def test_a_kept_run_resumes_at_its_last_commit(tmp_path):
    path, older = tmp_path / "budget.jsonl", tmp_path / "older.jsonl"
    with contextlib.closing(Ledger(journal=path, **LIMIT)) as ledger:
        account = ledger.open(learner="PIGD", guarantee=promise("gdp"), facts={"kept": True})
        account.attach(lambda: (10, 1, 0.001))
        account.commit(checkpoint="first")
        older.write_bytes(path.read_bytes())
        ledger.include(Ledger.read(older))
    for _ in range(2):
        with contextlib.closing(Ledger(journal=path, **LIMIT)) as ledger:
            (account,) = ledger.accounts
            account.attach(lambda: (10, 1, 0.001))
            assert account.commits[-1]["facts"] == {"checkpoint": "first"}
            assert 0.001 <= account.entry().mu_squared < 0.0011


@pytest.mark.parametrize("then", ["close", "let go"])
def test_an_interrupt_while_the_end_is_written_damages_nothing(tmp_path, monkeypatch, then):
    """The record is on the disk but unknown to the ledger: its next record would be out of order."""
    path, keep = tmp_path / "budget.jsonl", Ledger._keep
    ledger = Ledger(journal=path, **LIMIT)
    account = ledger.open(learner="PIGD", guarantee=promise("gdp"))
    account.attach(lambda: (10, 1, 0.001))

    def struck(self, record):
        keep(self, record)
        raise KeyboardInterrupt

    with monkeypatch.context() as m:
        m.setattr(Ledger, "_keep", struck)
        with pytest.raises(KeyboardInterrupt):
            account.close()
    before = path.read_bytes()
    if then == "close":
        account.close()
    ledger.close()
    assert path.read_bytes() == before
    (entry,) = Ledger.read(path).entries()
    assert not entry.open
    assert entry.mu_squared == pytest.approx(0.001)


def test_an_interrupt_while_a_run_is_included_damages_nothing(tmp_path, monkeypatch):
    other, path, keep = Ledger(), tmp_path / "budget.jsonl", Ledger._keep
    other.open(learner="PIGD", guarantee=promise("gdp"))
    ledger = Ledger(journal=path, **LIMIT)

    def struck(self, record):
        keep(self, record)
        raise KeyboardInterrupt

    with monkeypatch.context() as m:
        m.setattr(Ledger, "_keep", struck)
        with pytest.raises(KeyboardInterrupt):
            ledger.include(other)
    ledger.include(other)
    ledger.close()
    (entry,) = Ledger.read(path).entries()
    assert entry.mu_squared == other.accounts[0].reserved_mu_squared


def test_a_closed_account_is_never_rewritten(tmp_path):
    journal = Journal(tmp_path / "budget.jsonl", {"format": FORMAT, "version": 1, "kind": "ledger"})
    ended = {"kind": "closed", "plan_id": "a", "rows": 10, "releases": 1, "mu_squared": 0.5}
    for record in ({"kind": "open", "plan_id": "a", "rows": 0, "releases": 0, "mu_squared": 0.0}, ended):
        journal.append(record)
    before = journal.path.read_bytes()
    journal.append(ended)
    journal.append({**ended, "kind": "spent", "mu_squared": 0.25})
    assert journal.path.read_bytes() == before
    for more in ({"mu_squared": "inf"}, {"rows": 11}, {"kind": "spent", "releases": 2}, {"kind": "open"}):
        with pytest.raises(StateError, match="says otherwise of the account a"):
            journal.append({**ended, **more})
    journal.close()
    assert journal.path.read_bytes() == before
