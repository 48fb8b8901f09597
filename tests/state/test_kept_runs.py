"""Runs that outlive their process: the same bits after any interruption, and nothing visible before it is on disk."""

from __future__ import annotations

import copy
import errno
import gc
import json
import math
import os
import pickle
import shutil
import stat
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import warm
from conformance import LEARNERS, D, N, Stream, X, Y, fingerprint, make, releases_of
from scipy import sparse

from privol.errors import InvalidParameter, StateError
from privol.ledger import Ledger
from privol.ledger._journal import Journal
from privol.state import State, load_model
from privol.state._checkpoints import Checkpoints, noise_digest
from privol.state._digest import RowDigest

pytestmark = pytest.mark.process

HERE = str(Path(__file__).parent)  # for processes that import this file


@pytest.mark.parametrize("name", LEARNERS)
def test_an_interrupted_run_reaches_the_same_bits(name, tmp_path):
    whole = make(name).fit_stream(Stream())
    run = tmp_path / "run"
    for k, stop in enumerate((1, 100, 101, 350, 599)):
        learner = make(name)
        error = KeyboardInterrupt() if k % 2 else OSError("gone")
        with pytest.raises(type(error)):
            learner.fit_stream(Stream(size=17 + 30 * k, stop=stop, error=error), checkpoint=State(run, every=40))
    learner = State(run).learner()
    learner.random_state = 3
    learner.fit_stream(Stream(size=91), checkpoint=State(run))
    assert fingerprint(learner) == fingerprint(whole)
    assert fingerprint(load_model(run)) == fingerprint(whole)
    assert learner.guarantee_ == whole.guarantee_
    ours, theirs = learner.ledger_.entries(), whole.ledger_.entries()
    assert [(e.last_row, e.releases, e.mu_squared, e.open) for e in ours] == [
        (e.last_row, e.releases, pytest.approx(e.mu_squared), e.open) for e in theirs
    ]
    assert sorted(p.name for p in run.iterdir()) == [".ledger.jsonl.lock", "ledger.jsonl", "model.json", "model.npz"]
    with pytest.raises(StateError, match="finished"):
        make(name).fit_stream(Stream(), checkpoint=State(run))


@pytest.mark.parametrize("seconds", [10.0, math.inf])
def test_slow_rows_are_kept_after_a_time_limit(tmp_path, monkeypatch, seconds):
    """A block of ten rows every four seconds, the first after four: every third one is kept."""
    now, blocks = [0.0], []
    monkeypatch.setattr("privol.state._together.time.monotonic", lambda: now[0])

    class Slow(Stream):
        def __iter__(self):
            for block in super().__iter__():
                now[0] += 4.0
                blocks.append(block)
                if len(blocks) == 9:
                    raise OSError("the pipe broke")
                yield block

    state = State(tmp_path / "run", seconds=seconds)
    with pytest.raises(OSError, match="broke"):
        make("DPFTRL blt").fit_stream(Slow(10), checkpoint=state)
    lines = (tmp_path / "run" / "ledger.jsonl").read_text().splitlines()
    rows = sorted({entry["rows"] for entry in map(json.loads, lines) if "rows" in entry})
    assert rows == ([0, 40, 70, 80] if seconds == 10.0 else [0, 80])
    again = make("DPFTRL blt").fit_stream(Stream(10), checkpoint=State(tmp_path / "run"))
    assert fingerprint(again) == fingerprint(make("DPFTRL blt").fit_stream(Stream(10)))


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan, "1"])
def test_seconds_are_checked(tmp_path, seconds):
    with pytest.raises(InvalidParameter, match="seconds must be a number above 0"):
        State(tmp_path / "run", seconds=seconds)


@pytest.mark.parametrize("name", ["PIGD", "DPFTRL blt", "PQFTL"])
def test_everything_visible_is_on_the_disk(name, tmp_path, monkeypatch):
    """Whenever something is released, the disk has it: a copy of the directory resumes to the same end."""
    run, seen = tmp_path / "run", []
    whole = releases_of(make(name), Stream())

    def look(learner, stream):
        seen.append((learner.n_rows_, fingerprint(learner)))
        kept = json.loads((run / "ledger.jsonl").read_text().splitlines()[-1])
        assert (kept["rows"], kept["releases"]) == (learner.n_rows_, learner.n_releases_)
        files = Checkpoints(run)
        arrays = files.read(kept["facts"], bytes.fromhex(files.read_plan()["digest_key"]))
        assert arrays["counts"][0] == learner.n_rows_
        np.testing.assert_array_equal(arrays["released"], np.append(learner.coef_, learner.intercept_))

    learner = make(name)
    found = releases_of(learner, Stream(size=64), checkpoint=State(run, every=100), progress=look)
    assert found == whole
    assert len(seen) == math.ceil(N / 64)
    plain = make(name)
    states = {}
    plain.fit_stream(Stream(size=2), progress=lambda it, _: states.__setitem__(it.n_rows_, fingerprint(it)))
    assert all(states[rows] == now for rows, now in seen if rows)


def test_rows_that_changed_are_refused(tmp_path):
    run = tmp_path / "run"
    for change in ("row", "target", "order", "short"):
        shutil.rmtree(run, ignore_errors=True)
        with pytest.raises(OSError, match="gone"):
            make("PIGD").fit_stream(Stream(stop=400), checkpoint=State(run, every=50))
        rows, targets = X.copy(), Y.copy()
        if change == "row":
            rows[120, 2] = np.nextafter(rows[120, 2], 1)
        elif change == "target":
            targets[5] = 1 - targets[5]
        elif change == "order":
            rows[[7, 8]] = rows[[8, 7]]
        else:
            rows, targets = rows[:200], targets[:200]
        learner = make("PIGD")
        before = (run / "ledger.jsonl").read_bytes()
        with pytest.raises(StateError, match="first 384 rows" if change != "short" else "has 200 rows"):
            learner.fit_stream(Stream(rows=rows, targets=targets), checkpoint=State(run, every=50))
        assert (run / "ledger.jsonl").read_bytes() == before
        make("PIGD").fit_stream(Stream(size=10), checkpoint=State(run))
        assert fingerprint(load_model(run)) == fingerprint(make("PIGD").fit_stream(Stream()))


def test_rows_are_identified_by_their_values(tmp_path):
    """Dense or sparse, float32 or float64: another layout of the same numbers counts as other rows."""
    layouts = [X.astype(np.float32), sparse.csr_matrix(X), X]
    for k, rows in enumerate(layouts):
        run = tmp_path / str(k)
        with pytest.raises(OSError, match="gone"):
            make("DPFTRL tree").fit_stream(Stream(rows=rows, stop=333), checkpoint=State(run, every=50))
        with pytest.raises(StateError, match="not those that the run has learnt"):
            make("DPFTRL tree").fit_stream(Stream(rows=layouts[k - 1]), checkpoint=State(run, every=50))
        make("DPFTRL tree").fit_stream(Stream(rows=rows, size=11), checkpoint=State(run, every=50))
        assert fingerprint(load_model(run)) == fingerprint(make("DPFTRL tree").fit_stream(Stream(rows=rows)))


def test_the_digest_knows_where_sparse_rows_end():
    """The same values in the same positions, cut into other rows."""

    def digest(*ends):
        found = RowDigest(bytes(range(32)))
        found.update(sparse.csr_matrix((np.ones(3), np.arange(3), [0, *ends, 3]), shape=(3, 3)), np.zeros(3))
        return found.hexdigest()

    assert len({digest(1, 2), digest(0, 3), digest(2, 2)}) == 3


def test_an_older_checkpoint_refunds_nothing(tmp_path):
    run = tmp_path / "run"
    with pytest.raises(OSError, match="gone"):
        make("PIGD").fit_stream(Stream(size=20, stop=200), checkpoint=State(run, every=20))
    older = next((run / "secret").glob("checkpoint-*"))
    content = older.read_bytes()
    with pytest.raises(OSError, match="gone"):
        make("PIGD").fit_stream(Stream(size=20, stop=500), checkpoint=State(run, every=20))
    for path in (run / "secret").glob("checkpoint-*"):
        path.write_bytes(path.read_bytes()[:-50])
    learner = make("PIGD")
    with pytest.raises(StateError, match="no checkpoint"):
        learner.fit_stream(Stream(), checkpoint=State(run))
    older.write_bytes(content)
    spent = Ledger.read(run / "ledger.jsonl").entries()[0].mu_squared
    # rows after the checkpoint that differ from the learnt ones: nothing of them is released
    changed = X.copy()
    changed[300] = 0.0
    for rows, error in ((changed, StateError), (X, OSError)):
        learner, found = make("PIGD"), []
        with pytest.raises(error):
            learner.fit_stream(
                Stream(size=20, rows=rows, stop=None if error is StateError else 420),
                checkpoint=State(run, every=20),
                on_release=found.append,
            )
        assert found == []
        assert learner.n_rows_ == 200
        assert Ledger.read(run / "ledger.jsonl").entries()[0].mu_squared == spent
    learner = make("PIGD")
    found = releases_of(learner, Stream(), checkpoint=State(run))
    assert found == [r for r in releases_of(make("PIGD"), Stream()) if r[0] >= 500]
    assert fingerprint(learner) == fingerprint(make("PIGD").fit_stream(Stream()))


def test_other_parameters_are_refused(tmp_path):
    run = tmp_path / "run"
    with pytest.raises(OSError, match="gone"):
        make("PIGD").fit_stream(Stream(stop=400), checkpoint=State(run))
    with pytest.raises(StateError, match=r"epsilon.*learner\(\)"):
        make("PIGD", epsilon=3.0).fit_stream(Stream(), checkpoint=State(run))
    with pytest.raises(StateError, match="other parameters"):
        make("PGIGA").fit_stream(Stream(), checkpoint=State(run))
    longer = Stream()
    longer.n_rows = N + 1
    with pytest.raises(StateError, match="horizon"):
        make("PIGD").fit_stream(longer, checkpoint=State(run))
    with pytest.raises(StateError, match="n_features"):
        make("PIGD").fit_stream(Stream(rows=X[:, :3]), checkpoint=State(run))
    with pytest.raises(StateError, match="ledger"):
        make("PIGD", ledger=Ledger()).fit_stream(Stream(), checkpoint=State(tmp_path / "other"))
    make("PIGD").fit_stream(Stream(), checkpoint=State(run))


def test_secrets_are_for_their_owner_and_end_with_the_run(tmp_path):
    run, modes = tmp_path / "run", []

    def look(learner, stream):
        folder = run / "secret"
        modes.append(
            (stat.S_IMODE(folder.stat().st_mode), {stat.S_IMODE(p.stat().st_mode) for p in folder.glob("*.bin")})
        )

    before = os.umask(0)
    try:
        make("DPFTRL blt", random_state=None).fit_stream(Stream(), checkpoint=State(run, every=100), progress=look)
    finally:
        os.umask(before)
    if os.name == "posix":
        assert set(map(str, modes)) == {str((0o700, {0o600}))}
    assert not (run / "secret").exists()


def test_a_shared_ledger_with_a_journal(tmp_path):
    run, journal = tmp_path / "run", tmp_path / "budget.jsonl"
    for stop in (300, None):
        ledger = Ledger(epsilon=2.5, delta=1e-6, journal=journal)
        learner = make("PIGD", ledger=ledger)
        if stop is None:
            learner.fit_stream(Stream(), checkpoint=State(run))
        else:
            with pytest.raises(OSError, match="gone"):
                learner.fit_stream(Stream(stop=stop), checkpoint=State(run))
        assert len(ledger.accounts) == 1
        ledger.close()
    assert fingerprint(learner) == fingerprint(make("PIGD").fit_stream(Stream()))
    assert [e.open for e in Ledger.read(journal).entries()] == [False]
    assert not (run / "ledger.jsonl").exists()


# ---- failures of the machine --------------------------------------------------------------------------------------

SCRIPT = """
import os, sys
sys.path[:0] = sys.argv[4:]
import test_kept_runs as t
t.killed_runs(*sys.argv[1:4])
"""


def killed_runs(name, folder, apart):
    """In a separate process: runs in forked children, each killed at another system call that writes, then resumed."""
    real = {call: getattr(os, call) for call in ("open", "write", "fsync", "replace", "unlink", "mkdir")}
    exit_now = os._exit

    changed = X.copy()
    changed[-1] = -changed[-1]

    def child(run, left, out, rows=X):
        count = 0

        def counting(call):
            def counted(*given, **named):
                nonlocal count
                count += 1
                if count == left:
                    if call == "write":  # a partial write
                        real[call](given[0], bytes(given[1])[: len(given[1]) // 2])
                    exit_now(9)
                return real[call](*given, **named)

            return counted

        pid = os.fork()
        if pid:
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        status = 1
        try:
            with open(out, "w", buffering=1) as file:
                for call in real:
                    setattr(os, call, counting(call))
                stream, state = Stream(size=150, rows=rows), State(run, every=100)
                make(name).fit_stream(
                    stream, checkpoint=state, on_release=lambda r: print(r.row, r.coef.tobytes().hex(), file=file)
                )
                print("calls", count, file=file)
            status = 0
        except StateError as error:
            status = 3 if "finished" in str(error) else 4 if "not those that the run has learnt" in str(error) else 1
        finally:
            exit_now(status)

    folder = Path(folder)
    # initialisation that is slow only once
    make(name).fit_stream(Stream(size=150), checkpoint=State(folder / "first", every=100))
    gc.freeze()  # children that do not touch inherited memory start sooner
    assert child(folder / "whole", 0, folder / "whole.txt") == 0
    calls = int((folder / "whole.txt").read_text().split()[-1])
    for left in range(1, calls, int(apart)):
        run, other = folder / f"run{left}", folder / f"other{left}"
        killed = child(run, left, folder / f"{left}a.txt")
        if run.exists():
            shutil.copytree(run, other)
        try:
            entries = Ledger.read(run / "ledger.jsonl").entries()
        except (OSError, StateError):  # it was being created
            entries = []
        rows, releases = (entries[-1].last_row, entries[-1].releases) if entries else (0, 0)
        print(left, killed, rows, releases, child(run, 0, folder / f"{left}b.txt"), end=" ")
        # a copy of it resumed with another last row: never after its model could be seen
        seen = (other / "model.json").exists()
        print(int(seen), child(other, 0, folder / f"{left}c.txt", changed), flush=True)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.parametrize("apart", [2, 5])  # every one so far apart; tools/kill_campaign.py covers the others
@pytest.mark.parametrize("name", ["PIGD"])
def test_killed_at_every_write(name, apart, tmp_path):
    """Killed at system calls that write, then resumed: no release changes, and no entry is lost."""
    whole = {row: coef.hex() for row, coef, _ in releases_of(make(name), Stream(size=50))}
    model = fingerprint(make(name).fit_stream(Stream()))
    command = [sys.executable, "-c", SCRIPT, name, str(tmp_path), str(apart), HERE, *sys.path]
    done = warm.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    lines = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    assert len(lines) > 50 // apart
    assert {line[-1] for line in lines} == {0, 3, 4}
    for left, killed, rows, releases, again, seen, other in lines:
        published, more, changed = (
            dict(line.split() for line in (tmp_path / f"{left}{part}.txt").read_text().splitlines()) for part in "abc"
        )
        assert all(changed[row] == coef for row, coef in published.items() if row in changed)
        if seen:
            assert other == 3
        if other == 3:
            assert fingerprint(load_model(tmp_path / f"other{left}")) == model
        assert killed == 9
        assert max(map(int, published), default=0) <= rows
        assert len(published) <= releases
        assert again in (0, 3)  # resumed, or already finished
        more.pop("calls", None)
        assert {int(row): coef for row, coef in (published | more).items()}.items() <= whole.items()
        assert fingerprint(load_model(tmp_path / f"run{left}")) == model
        left_over = {path.name for path in (tmp_path / f"run{left}").iterdir()}
        assert left_over == {".ledger.jsonl.lock", "ledger.jsonl", "model.json", "model.npz"}


def test_a_full_disk_ends_the_call_and_the_run_can_be_resumed(tmp_path, monkeypatch):
    run, calls, real = tmp_path / "run", [0], os.write

    def full(descriptor, content):
        calls[0] += 1
        if calls[0] > 14:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, content)

    learner, found = make("DPFTRL blt"), []
    with monkeypatch.context() as m:
        m.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space left"):
            learner.fit_stream(Stream(size=50), checkpoint=State(run, every=50), on_release=found.append)
    entry = Ledger.read(run / "ledger.jsonl").entries()[0]
    assert (entry.last_row, entry.releases) == (learner.n_rows_, learner.n_releases_) == (len(found), len(found))
    assert 0 < len(found) < N
    learner.fit_stream(Stream(size=50), checkpoint=State(run, every=50))
    assert fingerprint(learner) == fingerprint(make("DPFTRL blt").fit_stream(Stream()))


def test_one_process_at_a_time(tmp_path):
    run = tmp_path / "run"

    def another(learner, stream):
        script = "import sys; sys.path[:0] = sys.argv[2:]; import test_kept_runs as t;" + (
            "t.make('PIGD').fit_stream(t.Stream(), checkpoint=t.State(sys.argv[1]))"
        )
        done = warm.run(
            [sys.executable, "-c", script, run, HERE, *sys.path], capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 1
        assert "another process is learning here" in done.stderr
        with pytest.raises(StateError, match=r"another process|in use"):
            make("PIGD").fit_stream(Stream(), checkpoint=State(run))
        raise OSError("seen")

    with pytest.raises(OSError, match="seen"):
        make("PIGD").fit_stream(Stream(), checkpoint=State(run), progress=another)
    make("PIGD").fit_stream(Stream(), checkpoint=State(run))


@pytest.mark.parametrize("name", ["PIGD", "NOGD", "DPFTRL blt", "PQFTL"])
def test_nothing_else_learns_or_shows_a_kept_run(name, tmp_path):
    tried = []

    def look(learner, stream):
        calls = [lambda: learner.partial_fit(X[:1], Y[:1]), lambda: learner.learn_one(X[0], Y[0])]
        for copied in (copy.deepcopy(learner), copy.copy(learner), pickle.loads(pickle.dumps(learner))):
            assert fingerprint(copied) == fingerprint(learner)
            assert copied.n_rows_ == learner.n_rows_ < max(64, learner._run.state.n_rows)
        if hasattr(learner, "ask"):
            calls += [learner.ask, lambda: learner.tell(gradient=np.zeros(D + 1))]
        if hasattr(learner, "moments"):
            calls.append(learner.moments)
        for call in calls:
            with pytest.raises(StateError, match="kept"):
                call()
            tried.append(call)

    words = {"gradient_bound": 1.0} if name in ("NOGD", "DPFTRL blt") else {}
    make(name, **words).fit_stream(Stream(), checkpoint=State(tmp_path / "run", every=1000), progress=look)
    assert len(tried) > 10


def test_damaged_plans_are_refused(tmp_path):
    run = tmp_path / "run"
    with pytest.raises(OSError, match="gone"):
        make("PIGD").fit_stream(Stream(stop=400), checkpoint=State(run))
    plan = run / "secret" / "run.json"
    content = plan.read_bytes()
    for damaged in (content[:-30], content.replace(b'"horizon": 600', b'"horizon": 601'), b"[]"):
        plan.write_bytes(damaged)
        with pytest.raises(StateError, match=r"run\.json"):
            make("PIGD").fit_stream(Stream(), checkpoint=State(run))
    with pytest.raises(StateError, match="no run"):
        State(Path(tmp_path / "empty")).learner()
    plan.write_bytes(content)
    make("PIGD").fit_stream(Stream(), checkpoint=State(run))


def struck_by(monkeypatch, owner, name, error):
    """Let the first call raise an error before it has done anything."""
    real = getattr(owner, name)

    def call(*given, **named):
        monkeypatch.setattr(owner, name, real)
        raise error

    monkeypatch.setattr(owner, name, call)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left")], ids=["int", "full"])
@pytest.mark.parametrize("what", ["seal", "close", "settled"])
def test_an_interrupted_end_shows_only_one_model(what, error, tmp_path, monkeypatch):
    """The last release is made: either it is visible and nothing continues, or it is not and other rows may follow."""
    run, learner = tmp_path / "run", make("PIGD last")
    owner, name = {"seal": (State, "seal"), "close": (Journal, "append"), "settled": (State, "settled")}[what]

    def arm(learner, stream):
        if learner._run.state.n_rows == N:
            struck_by(monkeypatch, owner, name, error)

    with pytest.raises(type(error)):
        learner.fit_stream(Stream(), checkpoint=State(run, every=1000), progress=arm)
    assert learner.n_releases_ == 0
    entry = Ledger.read(run / "ledger.jsonl").entries()[0]
    other = X.copy()
    other[-1] = 0.0
    if what == "settled":
        assert not entry.open
        with pytest.raises(StateError, match="finished"):
            make("PIGD last").fit_stream(Stream(rows=other), checkpoint=State(run))
        assert fingerprint(load_model(run)) == fingerprint(make("PIGD last").fit_stream(Stream()))
    else:
        assert entry.open
        assert not (run / "model.json").exists()
        learner.fit_stream(Stream(rows=other), checkpoint=State(run))
        assert fingerprint(learner) == fingerprint(make("PIGD last").fit_stream(Stream(rows=other)))


def test_a_shared_ledger_continues_in_the_same_process(tmp_path):
    ledger = Ledger(epsilon=2.5, delta=1e-6, journal=tmp_path / "budget.jsonl")
    learner = make("PIGD", ledger=ledger)
    for stop in (200, 400):
        with pytest.raises(OSError, match="gone"):
            learner.fit_stream(Stream(stop=stop), checkpoint=State(tmp_path / "run", every=50))
    learner.fit_stream(Stream(), checkpoint=State(tmp_path / "run", every=50))
    assert fingerprint(learner) == fingerprint(make("PIGD").fit_stream(Stream()))
    assert len(ledger.accounts) == 1


@pytest.mark.parametrize("name", LEARNERS)
def test_other_noise_or_another_version_is_not_resumed(name, tmp_path, monkeypatch):
    run = tmp_path / "run"
    with pytest.raises(OSError, match="gone"):
        make(name).fit_stream(Stream(stop=400), checkpoint=State(run, every=50))
    module = sys.modules["privol.state._kept_run"]
    with monkeypatch.context() as m:
        m.setattr(module, "__version__", "99.0")
        with pytest.raises(StateError, match="begun by privol"):
            make(name).fit_stream(Stream(), checkpoint=State(run))
    plan = json.loads((run / "secret" / "run.json").read_text())
    calibration = make(name).calibrate(D, plan["horizon"], plan["release"])
    assert noise_digest(calibration) == plan["noise"]
    if name.startswith("PIGD"):
        other = replace(calibration, schedule=calibration.schedule.with_gain(calibration.schedule.gain * (1 + 1e-15)))
    elif name == "NOGD":
        other = replace(calibration, sigma=calibration.sigma * (1 + 1e-15))
    elif name.startswith(("AdaptiveFTRL", "DPFTRL", "PQFTL")):
        sums = tuple(replace(found, sigma=found.sigma * (1 + 1e-15)) for found in calibration.epochs.sums)
        other = replace(calibration, sums=sums[0], epochs=replace(calibration.epochs, sums=sums))
    elif name != "PGIGA":
        found = calibration.report
        other = replace(calibration, report=replace(found, deviation=found.deviation * (1 + 1e-15)))
    else:
        other = replace(calibration, schedule=calibration.schedule.with_gain(calibration.schedule.gain * 0.5))
    assert noise_digest(other) != plan["noise"]
    learner = make(name)
    opened = type(learner)._open_run

    def with_other_noise(*given, **words):
        state, _, guarantee = opened(*given, **words)
        return state, other, guarantee

    with monkeypatch.context() as m:  # the guarantee is the same
        m.setattr(type(learner), "_open_run", with_other_noise)
        with pytest.raises(StateError, match="other noise"):
            learner.fit_stream(Stream(), checkpoint=State(run))


def test_the_journal_reveals_nothing_about_rows(tmp_path):
    """It may be published with the model: its digests are keyed, and the key stays with the run."""
    for run in (tmp_path / "one", tmp_path / "other"):  # the same rows and states, another key
        with pytest.raises(OSError, match="gone"):
            make("PIGD", random_state=3).fit_stream(Stream(stop=400), checkpoint=State(run, every=50))
    one, other = ([json.loads(line) for line in (run / "ledger.jsonl").read_text().splitlines() if "digest" in line]
                  for run in (tmp_path / "one", tmp_path / "other"))  # fmt: skip
    found = [record["facts"][name] for record in [*one, *other] for name in ("digest", "state")]
    assert len(one) == len(other) > 3
    assert all(set(record["facts"]) == {"checkpoint", "state", "digest"} for record in [*one, *other])
    assert len(set(found)) == len(found)
    # what can be computed from the rows and the program without the key
    for key in (bytes(32), *({bytes.fromhex(record["sha256"]) for record in [*one, *other]})):
        digest = RowDigest(key)
        digest.update(X[:384], 2.0 * Y[:384] - 1.0)
        assert digest.hexdigest() not in found
    plan = json.loads((tmp_path / "one" / "secret" / "run.json").read_text())
    digest = RowDigest(bytes.fromhex(plan["digest_key"]))
    digest.update(X[:384], 2.0 * Y[:384] - 1.0)
    assert digest.hexdigest() in found
    assert plan["digest_key"] not in (tmp_path / "one" / "ledger.jsonl").read_text()
    assert "digest_key" not in State(tmp_path / "one").read()


@pytest.mark.parametrize("name", LEARNERS)
def test_an_ended_run_shows_its_last_visible_model(name, tmp_path):
    """Averages too, whose releases do not all count equally."""
    learner = make(name)
    with pytest.raises(OSError, match="gone"):
        learner.fit_stream(Stream(stop=400), checkpoint=State(tmp_path / "run", every=50))
    ended = State(tmp_path / "run").end()
    if learner.n_releases_:
        assert fingerprint(ended) == fingerprint(learner) == fingerprint(load_model(tmp_path / "run"))
    else:
        assert not (tmp_path / "run" / "model.json").exists()
