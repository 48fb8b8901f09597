"""The journal of a ledger survives crashes, is never altered unnoticed, and never states less than was spent."""

from __future__ import annotations

import errno
import gc
import json
import math
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import warm
from hypothesis import given, settings
from hypothesis import strategies as st

from privol._files import AppendOnly
from privol.errors import BudgetExceeded, InvalidParameter, StateError
from privol.guarantees import Guarantee
from privol.ledger import Ledger
from privol.ledger._journal import _line

pytestmark = pytest.mark.process

HERE = str(Path(__file__).parent)  # for processes that import this file


def plan(mu=0.1, adjacency="replace", **words):
    return Guarantee(
        kind="gdp", parameter=mu, adjacency=adjacency, horizon=100, releases=10, delta=1e-6, arithmetic="a",
        bit_source="b", private=True, **words,
    )  # fmt: skip


def journaled(path, **words):
    return Ledger(journal=path, **({"epsilon": 1.0, "delta": 1e-6} | words))


def figures(ledger):
    return [(e.plan_id, e.learner, e.last_row, e.releases, e.mu_squared, e.open) for e in ledger.entries()]


def rewrite(path, content):
    """As a new file: file systems flush a file that is emptied and filled again."""
    path.unlink()
    path.write_bytes(content)


@pytest.fixture
def path(tmp_path):
    """A journal of four runs: closed, closed without counters, open and committed, open."""
    path = tmp_path / "budget.jsonl"
    ledger = journaled(path)
    now = [10, 1, 0.001]
    for learner, counted, closed in (("A", True, True), ("B", False, True), ("C", True, False), ("D", True, False)):
        account = ledger.open(learner=learner, guarantee=plan(0.05, conditions=("text with \n a newline, ü",)))
        if counted:
            account.attach(lambda: tuple(now))
        if closed:
            account.close()
        elif learner == "C":
            account.commit(checkpoint="c-1")
            now[:] = [20, 2, 0.0015]
            account.commit()
    ledger.close()
    return path


def test_a_ledger_outlives_its_process(path):
    ledger = journaled(path)
    found = {e.learner: e for e in ledger.entries()}
    assert (found["A"].mu_squared, found["A"].open) == (pytest.approx(0.001), False)
    assert found["B"].mu_squared == pytest.approx(0.0025)  # all that is not known to be unspent
    assert (found["C"].last_row, found["C"].releases, found["C"].open) == (20, 2, True)
    assert (found["D"].last_row, found["D"].mu_squared) == (20, ledger.accounts[3].reserved_mu_squared)
    committed = 0.001 + 0.0025 + 2 * 0.0025  # open runs with their full reservation
    assert ledger.remaining == pytest.approx(math.sqrt(ledger.mu**2 - committed))
    assert ledger.accounts[0].guarantee == plan(0.05, conditions=("text with \n a newline, ü",))
    ledger.close()
    assert figures(Ledger.read(path)) == figures(journaled(path))


def test_a_resumed_run_never_refunds_what_was_spent(path):
    ledger = journaled(path)
    account = next(a for a in ledger.accounts if a.learner == "C")
    now = [5, 1, 0.0001]  # from an old checkpoint
    account.attach(lambda: tuple(now))
    assert account.entry().mu_squared == pytest.approx(0.0015)
    assert account.entry().last_row == 20
    now[:] = [30, 3, 0.002]
    account.commit()
    account.close()
    ledger.close()
    last = next(e for e in Ledger.read(path).entries() if e.learner == "C")
    assert (last.last_row, last.releases, last.open) == (30, 3, False)
    assert last.mu_squared == pytest.approx(0.002)


def test_counted_spending_is_committed_later(tmp_path):
    """By a thread during learning: what was counted then, and never less than is written."""
    path = tmp_path / "budget.jsonl"
    ledger = journaled(path)
    account = ledger.open(learner="A", guarantee=plan(0.1))
    assert account.counts() == (0, 0, 0.0)
    now = [10, 1, 0.002]
    account.attach(lambda: tuple(now))
    then = account.counts()
    now[:] = [20, 2, 0.004]
    account.commit(then, rows="ten")
    assert [commit["rows"] for commit in account.commits] == [10]
    assert account.entry().last_row == 20  # live
    account.commit()
    account.commit(then)  # another thread was faster
    written = [(commit["rows"], commit["releases"]) for commit in account.commits]
    assert written == [(10, 1), (20, 2), (20, 2)]
    assert account.commits[-1]["mu_squared"] == pytest.approx(0.004, rel=1e-8)
    assert account.commits[-1]["mu_squared"] >= 0.004
    for bad, what in (((10, 1, 0.011), "its reservation"), ((-1, 1, 0.0), "not valid"), ((1, 1), "not valid")):
        with pytest.raises(StateError, match=what):
            account.commit(bad)
    account.leave()  # nobody counts any more
    assert account.counts()[:2] == (20, 2)
    assert len(account.commits) == 3
    ledger.close()
    (entry,) = Ledger.read(path).entries()
    assert (entry.last_row, entry.releases) == (20, 2)
    assert entry.mu_squared >= 0.004


def test_decreasing_counts_are_refused(tmp_path):
    ledger = journaled(tmp_path / "budget.jsonl")
    account = ledger.open(learner="A", guarantee=plan(0.1))
    account.attach(lambda: (50, 5, 0.005))
    account.commit((20, 2, 0.002))
    with pytest.raises(StateError, match="went backwards"):
        account.commit((19, 2, 0.002))
    account.commit((20, 3, 0.003))
    account.leave()
    account.attach(lambda: (5, 1, 0.001))  # for a run that resumes
    account.commit((5, 1, 0.001))
    assert account.commits[-1]["releases"] == 3


def test_without_counters_all_counts_as_spent(tmp_path):
    path = tmp_path / "budget.jsonl"
    ledger = journaled(path)
    ledger.open(learner="A", guarantee=plan(0.1)).attach(lambda: (5, 1, 0.001))
    ledger.close()
    ledger = journaled(path)
    account = ledger.accounts[0]
    assert account.counts() == (5, 1, account.reserved_mu_squared)  # it never committed its spending
    account.commit(account.counts())
    assert account.entry().mu_squared == account.reserved_mu_squared


def test_a_newer_copy_that_is_included_is_not_overtaken(tmp_path):
    """A journal from a backup that a newer one has updated never states less again."""
    path, newer = tmp_path / "budget.jsonl", tmp_path / "newer.jsonl"
    ledger = journaled(path)
    account = ledger.open(learner="A", guarantee=plan(0.1))
    now = [10, 1, 0.001]
    account.attach(lambda: tuple(now))
    account.commit()
    older = path.read_bytes()
    now[:] = [40, 4, 0.004]
    account.commit()
    ledger.close()
    newer.write_bytes(path.read_bytes())
    rewrite(path, older)
    ledger = journaled(path)
    account = ledger.accounts[0]
    now[:] = [12, 2, 0.002]
    account.attach(lambda: tuple(now))
    ledger.include(Ledger.read(newer))
    account.commit(account.counts())
    ledger.close()
    again = journaled(path)  # in order
    assert again.accounts[0].commits[-1]["rows"] == 40
    assert again.accounts[0].entry().last_row == 40
    again.close()


def test_a_process_that_dies_keeps_its_reservation(tmp_path):
    path = tmp_path / "budget.jsonl"
    script = (
        "import os, sys; sys.path[:0] = sys.argv[2:]; import test_journal as t;"
        "l = t.journaled(sys.argv[1]); l.open(learner='A', guarantee=t.plan(0.2)); os._exit(9)"
    )
    done = warm.run([sys.executable, "-c", script, str(path), HERE, *sys.path], timeout=120)
    assert done.returncode == 9
    ledger = journaled(path)
    assert ledger.remaining == pytest.approx(math.sqrt(ledger.mu**2 - 0.04))
    with pytest.raises(BudgetExceeded):
        ledger.open(learner="B", guarantee=plan(ledger.mu))


def test_a_truncated_journal_reads_as_an_earlier_state(path, monkeypatch):
    """Wherever a crash cuts the file, whole records remain, and the next writer continues after them.

    Every byte near the ends of records, and every third within them.
    """
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # thousands of syncs, whose data nobody would miss
    content = path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(content) if byte == 10]
    whole = [json.loads(line) for line in content.splitlines()]
    near = {end + k for end in ends for k in range(-5, 6)}
    for size in range(ends[0], len(content)):
        if size % 3 and size not in near:
            continue
        rewrite(path, content[:size])
        kept = sum(end <= size + 1 for end in ends)  # a record without its newline is whole
        ledger = journaled(path)
        ledger.open(learner="E", guarantee=plan(0.01))
        ledger.close()
        lines = [json.loads(line) for line in path.read_bytes().splitlines()]
        assert lines[:kept] == whole[:kept]
        assert len(lines) == kept + 1
    for size in range(1, ends[0] - 1, 7):  # within the first record: nothing was reserved yet
        rewrite(path, content[:size])
        with pytest.raises(StateError, match="no whole record"):
            Ledger.read(path)
        for rest in (b"", bytes(1), bytes(ends[0] - size)):  # the disk may have zeros for what was not written
            rewrite(path, content[:size] + rest)
            journaled(path).close()
            assert path.read_bytes() == content[: ends[0]]
    for notes in (b"somebody's notes", bytes(ends[0] + 1)):  # longer than the first record: no crash left this
        path.write_bytes(notes)
        with pytest.raises(StateError, match="no whole record"):
            journaled(path)
        assert path.read_bytes() == notes


def test_blocks_of_zeros_at_the_end_were_never_written(path):
    content = path.read_bytes()
    cut = content[:-1].rindex(b"\n") + 1
    for tail in (bytes(600), content[cut : cut + 50] + bytes(80) + b"}\n", bytes(80) + content[-40:]):
        path.write_bytes(content[:cut] + tail)
        assert [entry.last_row for entry in Ledger.read(path).entries()] == [10, 0, 20, 0]
    path.write_bytes(content[:100] + bytes(80) + content[180:])
    with pytest.raises(StateError, match="line 1"):
        Ledger.read(path)


def test_no_altered_byte_is_read_as_another_figure(path):
    content, whole = path.read_bytes(), figures(Ledger.read(path))
    refused = 0
    for i in range(len(content)):
        rewrite(path, content[:i] + bytes([content[i] ^ 1]) + content[i + 1 :])
        try:
            found = figures(Ledger.read(path))
        except StateError:
            refused += 1
            continue
        # the same number in other digits, or the last record looks truncated: an open run that was never used
        assert found in (whole, whole[:-1])
    assert refused > 0.8 * len(content)


def test_a_missing_or_repeated_line_is_refused(path):
    lines = path.read_bytes().splitlines(keepends=True)
    for k in range(len(lines) - 1):
        path.write_bytes(b"".join(lines[:k] + lines[k + 1 :]))
        with pytest.raises(StateError):
            Ledger.read(path)
        path.write_bytes(b"".join(lines[: k + 1] + lines[k:]))
        with pytest.raises(StateError):
            Ledger.read(path)


def test_a_line_of_another_journal_or_with_another_number_is_refused(path, tmp_path):
    """Every checksum is that of its own line: only the one before it, and the number, say that it does not belong."""
    other = tmp_path / "other.jsonl"
    ledger = journaled(other, epsilon=2.0)
    for learner in "EFGH":
        ledger.open(learner=learner, guarantee=plan(0.05)).close()
    ledger.close()
    lines, others = (each.read_bytes().splitlines(keepends=True) for each in (path, other))
    assert lines[0] != others[0]
    for k in range(1, min(len(lines), len(others))):
        path.write_bytes(b"".join([*lines[:k], others[k], *lines[k + 1 :]]))
        with pytest.raises(StateError, match=f"line {k + 1} was altered"):
            Ledger.read(path)
    records = [json.loads(line) for line in lines]
    for wrong in (None, *range(1, len(lines))):
        forged, digest = [], ""
        for k, record in enumerate(records):
            rest = {name: value for name, value in record.items() if name not in ("number", "sha256")}
            line, digest = _line(k + 1 + (k == wrong), digest, rest)
            forged.append(line)
        path.write_bytes(b"".join(forged))
        if wrong is None:
            assert len(Ledger.read(path).accounts) == 4
            continue
        with pytest.raises(StateError, match=f"line {wrong + 1} was altered"):
            Ledger.read(path)


def test_one_writer_at_a_time(path):
    ledger = journaled(path)
    with pytest.raises(StateError, match="open, here or in another process"):
        journaled(path)
    script = (
        "import sys; sys.path[:0] = sys.argv[2:]; import test_journal as t;\n"
        "try: t.journaled(sys.argv[1])\n"
        "except t.StateError as e: print(e); sys.exit(3)"
    )
    done = warm.run([sys.executable, "-c", script, str(path), HERE, *sys.path], capture_output=True, timeout=120)
    assert (done.returncode, b"one at a time" in done.stdout) == (3, True)
    assert len(Ledger.read(path).accounts) == 4  # reading is free
    ledger.close()
    journaled(path).close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_writes_nothing(path):
    ledger = journaled(path)
    before = path.read_bytes()
    child = os.fork()
    if child == 0:
        ledger.accounts[2].close()
        ledger.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert path.read_bytes() == before
    with pytest.raises(StateError):
        journaled(path)  # the parent still holds it
    ledger.open(learner="E", guarantee=plan(0.01))
    ledger.close()


@pytest.mark.parametrize(
    ("words", "match"),
    [({"epsilon": 2.0}, "epsilon 1.0"), ({"delta": 1e-7}, "delta"), ({"adjacency": "zero_out"}, "adj")],
)
def test_a_limit_stays_what_it_was(path, words, match):
    with pytest.raises(StateError, match=match):
        journaled(path, **words)
    journaled(path).close()  # the refused one released it


def test_other_formats_and_versions_are_refused(path):
    lines = path.read_text().splitlines(keepends=True)
    from privol.ledger import _journal

    for change, match in (({"format": "other"}, "format"), ({"version": 2}, "version 2")):
        first = {k: v for k, v in {**json.loads(lines[0]), **change}.items() if k != "sha256"}
        first["sha256"] = _journal._digest("", first)
        path.write_text(json.dumps(first) + "\n")
        with pytest.raises(StateError, match=match):
            Ledger.read(path)
    path.write_text("")
    with pytest.raises(StateError, match="empty"):
        Ledger.read(path)


@pytest.mark.parametrize("short", [0, 7])
def test_a_full_disk_reserves_nothing(path, short, monkeypatch):
    ledger = journaled(path)
    before, left, write = path.read_bytes(), ledger.remaining, os.write

    def full(descriptor, content):
        if short and not monkeypatch.struck:
            monkeypatch.struck = True
            return write(descriptor, content[:short])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.struck = False
    with monkeypatch.context() as m:
        m.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space left") as caught:
            ledger.open(learner="E", guarantee=plan(0.01))
    assert caught.value.filename == str(path)
    assert (path.read_bytes(), ledger.remaining, len(ledger.accounts)) == (before, left, 4)
    ledger.open(learner="E", guarantee=plan(0.01))  # space is available again
    ledger.close()
    assert len(Ledger.read(path).accounts) == 5


def test_a_write_that_cannot_be_undone_ends_the_journal(path, monkeypatch):
    ledger = journaled(path)

    def fail(*_):
        raise OSError(errno.EIO, "I/O error")

    with monkeypatch.context() as m:
        m.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="I/O"):
            ledger.open(learner="E", guarantee=plan(0.01))
    with pytest.raises(StateError, match="nothing more is written"):
        ledger.open(learner="E", guarantee=plan(0.01))
    ledger.close()
    assert len(Ledger.read(path).accounts) in (4, 5)


# ---- several ledgers ---------------------------------------------------------------------------------------------


def test_including_another_ledger(path, tmp_path):
    other, mine = Ledger.read(path), Ledger(journal=tmp_path / "mine.jsonl")
    with pytest.raises(StateError):
        other.open(learner="E", guarantee=plan(0.01))
    mine.include(other)
    mine.include(other)  # a second time: nothing new
    # the spending of open runs since then is unknown here
    reserved = [account.reserved_mu_squared for account in other.accounts]
    expected = [(*f[:4], square if f[5] else f[4], f[5]) for f, square in zip(figures(other), reserved, strict=True)]
    assert figures(mine) == expected != figures(other)
    ledger = journaled(path)
    ledger.accounts[2].attach(lambda: (100, 10, 0.0025))
    ledger.accounts[2].close()
    ledger.close()
    mine.include(Ledger.read(path))
    assert figures(mine) == figures(Ledger.read(path))
    mine.close()
    assert figures(Ledger.read(tmp_path / "mine.jsonl")) == figures(mine)
    with pytest.raises(InvalidParameter, match="adjacency"):
        Ledger(adjacency="zero_out").include(other)


def test_an_older_copy_refunds_nothing(path, tmp_path):
    older = Ledger.read(path)
    ledger = journaled(path)
    ledger.accounts[2].attach(lambda: (50, 5, 0.002))
    ledger.accounts[2].commit()
    ledger.close()
    mine = Ledger(journal=tmp_path / "mine.jsonl")
    mine.include(Ledger.read(path))
    newest = figures(mine)
    mine.include(older)
    assert figures(mine) == newest
    mine.close()
    assert figures(Ledger.read(tmp_path / "mine.jsonl")) == newest


def test_spending_elsewhere_is_never_refused(tmp_path):
    other = Ledger()
    other.open(learner="A", guarantee=plan(3.0))
    mine = Ledger(epsilon=1.0, delta=1e-6)
    mine.include(other)
    assert mine.remaining == 0.0
    with pytest.raises(BudgetExceeded):
        mine.open(learner="B", guarantee=plan(1e-3))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_journal_and_a_memory_agree(tmp_path_factory, data):
    """Whatever happens to runs, and wherever the ledger is closed and opened again: the same figures."""
    path = tmp_path_factory.mktemp("j") / "j.jsonl"
    kept, plain = journaled(path), Ledger(epsilon=1.0, delta=1e-6)
    counters: list[list] = []
    for _ in range(data.draw(st.integers(1, 25))):
        act = data.draw(st.sampled_from(["open", "spend", "close", "commit", "restart"]))
        if act == "open":
            mu = data.draw(st.sampled_from([0.01, 0.1]))
            try:
                a = kept.open(learner="A", guarantee=plan(mu))
            except BudgetExceeded:
                continue
            b = plain.open(learner="A", guarantee=plan(mu))
            now = [0, 0, 0.0, mu * mu]
            for account in (a, b):
                account.attach(lambda now=now: tuple(now[:3]))
            counters.append(now)
        elif act == "restart":
            for account in kept.accounts:
                if not account.closed:
                    account.commit()
            kept.close()
            kept = journaled(path)
            for account, now in zip(kept.accounts, counters, strict=True):
                if not account.closed:
                    account.attach(lambda now=now: tuple(now[:3]))
        elif counters:
            k = data.draw(st.integers(0, len(counters) - 1))
            now = counters[k]
            if act == "spend":
                now[0], now[1] = now[0] + 5, now[1] + 1
                now[2] = min(now[2] + 0.3 * now[3], now[3])
            elif act == "close":
                kept.accounts[k].close()
                plain.accounts[k].close()
            elif not kept.accounts[k].closed:
                kept.accounts[k].commit()
        assert [f[1:] for f in figures(kept)] == [f[1:] for f in figures(plain)]
        assert kept.remaining == plain.remaining
    kept.close()


def test_an_account_whose_end_cannot_be_written_stays_reserved(path, monkeypatch):
    ledger = journaled(path)
    account = ledger.open(learner="E", guarantee=plan(0.1))
    account.attach(lambda: (1, 1, 0.0001))
    left = ledger.remaining

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as m:
        m.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space"):
            account.close()
    assert not account.closed
    assert ledger.remaining == left
    account.close()
    assert account.closed
    assert ledger.remaining > left
    ledger.close()
    assert figures(Ledger.read(path)) == figures(ledger)


def test_an_interrupt_within_a_record_does_not_damage_the_journal(path, monkeypatch):
    ledger = journaled(path)
    append = AppendOnly.append

    def struck(self, piece):
        append(self, piece)
        raise KeyboardInterrupt

    with monkeypatch.context() as m:
        m.setattr(AppendOnly, "append", struck)
        with pytest.raises(KeyboardInterrupt):
            ledger.open(learner="E", guarantee=plan(0.01))
    with pytest.raises(StateError, match="open the journal again"):
        ledger.open(learner="F", guarantee=plan(0.01))
    ledger.close()
    assert [e.learner for e in journaled(path).entries()] == ["A", "B", "C", "D", "E"]


# ---- other names ------------------------------------------------------------------------------------------------


@pytest.mark.skipif(os.name != "posix", reason="links of POSIX systems")
def test_a_journal_with_several_names_is_one_journal(tmp_path):
    """Two ledgers under two names would spend the same limit twice, and overwrite each other's lines."""
    one, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    first = Ledger(epsilon=1.0, delta=1e-6, journal=one)
    os.symlink(one, other)
    with pytest.raises(StateError, match="under this or another name"):
        Ledger(epsilon=1.0, delta=1e-6, journal=other)
    first.close()
    Ledger(epsilon=1.0, delta=1e-6, journal=other).close()
    other.unlink()
    os.link(one, other)
    for name in (one, other):
        before = one.read_bytes()
        with pytest.raises(StateError, match="several names"):
            Ledger(epsilon=1.0, delta=1e-6, journal=name)
        assert one.read_bytes() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks of POSIX systems")
def test_the_end_of_a_child_unlocks_nothing(tmp_path):
    ledger = Ledger(journal=tmp_path / "budget.jsonl")
    script = "import sys; from privol.ledger import Ledger; Ledger(journal=sys.argv[1])"
    pid = os.fork()
    if pid == 0:
        del ledger
        gc.collect()
        os._exit(0)
    os.waitpid(pid, 0)
    other = warm.run([sys.executable, "-c", script, tmp_path / "budget.jsonl"], capture_output=True, text=True)
    assert (other.returncode, "one at a time" in other.stderr) == (1, True)
    ledger.close()
    assert warm.run([sys.executable, "-c", script, tmp_path / "budget.jsonl"]).returncode == 0


def test_unwritten_spending_counts_as_spent(tmp_path):
    """A process died with released models and no checkpoint of their cost: the full reservation is spent."""
    path = tmp_path / "budget.jsonl"
    ledger = journaled(path)
    account = ledger.open(learner="PIGD", guarantee=plan(0.1))
    account.attach(lambda: (50, 3, 0.002))
    assert ledger.spent.mu == pytest.approx(math.sqrt(0.002))
    ledger.close()
    for found in (Ledger.read(path), journaled(path)):
        (entry,) = found.entries()
        assert (entry.open, entry.mu_squared) == (True, found.accounts[0].reserved_mu_squared)
        assert found.spent.mu >= 0.1
        other = Ledger(journal=tmp_path / f"other{found.journal is None}.jsonl")
        other.include(found)
        assert other.spent.mu >= 0.1
        other.close()
        assert Ledger.read(tmp_path / f"other{found.journal is None}.jsonl").spent.mu >= 0.1
    (again,) = found.accounts
    again.attach(lambda: (60, 4, 0.003))  # that run was not kept: these counters cannot know its spending
    assert again.entry().mu_squared == again.reserved_mu_squared
    again.commit(again.counts())
    found.close()
    (again,) = Ledger.read(path).accounts  # as after another crash
    assert again.commits[-1]["mu_squared"] == again.reserved_mu_squared


def test_releases_without_noise_count_as_spent():
    """Messages of a run without noise come before its first release, if that is its last row's."""
    account = Ledger().open(learner="DOLA", guarantee=replace(plan(), kind="none", parameter=math.inf))
    account.attach(lambda: (10, 0, math.inf))
    assert account.entry().mu_squared == math.inf
