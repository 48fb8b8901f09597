"""Kept runs of capped streams that resume with the rows after the learnt ones, from files and pipes."""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import warm
from conformance import fingerprint

import privol
from privol.distributed import DealtRows, InterleavedRows, Ranks
from privol.errors import StateError, StreamError
from privol.evaluate import progressive
from privol.ledger import Ledger
from privol.readers.base import SEEN
from privol.state import State, load_model
from privol.streams import open_stream

pa = pytest.importorskip("pyarrow")
pytestmark = pytest.mark.process

HERE = str(Path(__file__).parent)
N, MOST, APART = 600, 3, 25


def table(seed=0):
    rng = np.random.default_rng(seed)
    who = [f"person {i}" for i in rng.integers(0, 90, N)]
    return pa.table({"x": rng.normal(size=N), "who": who, "y": rng.integers(0, 2, N).astype(str)})


TABLE = table()


def schema(surplus, **more):
    user = {"column": "who", "max_rows": MOST, "separation": APART, "surplus": surplus}
    target = {"column": "y", "negative": ["0"], "positive": ["1"]}
    return {"columns": {"x": {"range": [-3, 3]}}, "target": target, "user": user, **more}


def stream(surplus, *, block=50, rows=TABLE, pipe=False, stop=None):
    """The table, or a pipe of its rows; ``stop``: the pipe breaks before that row."""

    def lines():
        for i, row in enumerate(rows.to_pylist(), 1):
            if i == stop:
                raise OSError("gone")
            yield row

    return open_stream(lines() if pipe else rows, schema=schema(surplus), block_rows=block)


def learner(surplus, release="all"):
    null = "zero" if surplus == "null" else "raise"
    words = {"rows_per_user": MOST, "user_separation": APART, "on_invalid": null}
    return privol.DPFTRL(horizon=N, random_state=3, release=release, **words)


def begun(run, surplus, stop, every=40):
    with pytest.raises(OSError, match="gone"):
        learner(surplus).fit_stream(stream(surplus, pipe=True, block=7, stop=stop), checkpoint=State(run, every=every))


@pytest.mark.parametrize("surplus", ["drop", "null"])
@pytest.mark.parametrize("pipe", [False, True])
def test_the_same_bits_from_any_row_on(surplus, pipe, tmp_path):
    """Two thirds of the rows are surplus: without the users of earlier rows, other rows would be learnt."""
    whole = learner(surplus).fit_stream(stream(surplus))
    run = tmp_path / "run"
    begun(run, surplus, 8)
    for k, stop in enumerate((60, 61, 211, 390)):  # each time only the remaining rows
        state = State(run, every=30 + k, rest=True)
        first = state.next_row()
        assert 0 < first <= stop
        rest = TABLE.slice(first - 1)
        with pytest.raises(OSError, match="gone"):
            learner(surplus).fit_stream(
                stream(surplus, rows=rest, block=11 + k, pipe=True, stop=stop - first + 1), checkpoint=state
            )
    state = State(run, rest=True)
    rows = TABLE.slice(state.next_row() - 1) if pipe else TABLE
    last = learner(surplus).fit_stream(stream(surplus, rows=rows, pipe=pipe), checkpoint=state)
    assert fingerprint(last) == fingerprint(whole) == fingerprint(load_model(run))
    assert last.guarantee_ == whole.guarantee_
    (one,), (other,) = last.ledger_.entries(), whole.ledger_.entries()
    assert (one.last_row, one.releases, one.mu_squared) == (
        other.last_row,
        other.releases,
        pytest.approx(other.mu_squared),
    )
    assert sorted(p.name for p in run.iterdir()) == [".ledger.jsonl.lock", "ledger.jsonl", "model.json", "model.npz"]


def test_earlier_rows_are_not_read_again(tmp_path, monkeypatch):
    """They are neither encoded nor hashed, and the table is restored."""
    from privol._core import _seen
    from privol.encoding.encode import SchemaEncoder
    from privol.streams import _users

    run, encoded, hashed = tmp_path / "run", [], []
    begun(run, "null", 500)
    encode, real = SchemaEncoder.encode, _seen.UserTable

    class Noted(real):
        def keep(self, codes, *texts, **words):
            hashed.append(len(codes))
            return real.keep(self, codes, *texts, **words)

    monkeypatch.setattr(SchemaEncoder, "encode", lambda *a, **k: encoded.append(a[1].num_rows) or encode(*a, **k))
    monkeypatch.setattr(_users, "UserTable", Noted)
    state = State(run, rest=True)
    rest = N - state.next_row() + 1
    learner("null").fit_stream(stream("null"), checkpoint=state)
    assert sum(encoded) == sum(hashed) == rest < 110


def test_resent_rows_do_not_give_a_user_more_rows(tmp_path):
    """A pipe that repeats rows: users who have reached their cap get null rows, with the same noise."""
    run = tmp_path / "run"
    begun(run, "null", 301)
    again = TABLE.slice(0, 300)  # by mistake: rows 1 to 300 instead of 301 to 600
    state = State(run, rest=True)
    learnt = TABLE.slice(0, state.next_row() - 1)
    last = learner("null").fit_stream(stream("null", rows=again, pipe=True), checkpoint=state)
    twice = pa.concat_tables([learnt, again])
    one = learner("null").fit_stream(stream("null", rows=twice))
    assert fingerprint(last) == fingerprint(one)


def test_kept_files_name_no_user_and_are_private_to_the_owner(tmp_path):
    run = tmp_path / "run"
    begun(run, "drop", 400)
    log = run / "secret" / "seen.log"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    found = np.fromfile(log, SEEN)
    facts = Ledger.read(run / "ledger.jsonl").accounts[0].commits[-1]
    assert len(found) == facts["rows"]
    assert (np.diff(found["row"]) > 0).all()
    assert State(run).next_row() == found["row"][-1] + 1
    for path in (log, run / "ledger.jsonl", run / "secret" / "run.json"):
        assert b"person" not in path.read_bytes()
    # with another key users have other hashes, and the journal has neither these nor the number of null rows
    other = tmp_path / "other"
    begun(other, "drop", 400)
    theirs = np.fromfile(other / "secret" / "seen.log", SEEN)
    assert np.array_equal(theirs["row"], found["row"])
    assert not np.isin(theirs["user"], found["user"]).any()
    assert set(facts["facts"]) == {"checkpoint", "state", "digest", "seen"}


def test_runs_that_cannot_resume_without_earlier_rows_are_refused(tmp_path):
    run = tmp_path / "run"
    begun(run, "drop", 400)

    def goes_on(*, at=run, rest=True, rows=TABLE, pipe=False, **words):
        return learner("drop").fit_stream(
            stream("drop", rows=rows, pipe=pipe), checkpoint=State(at, rest=rest), **words
        )

    # evaluated
    with pytest.raises(StateError, match="a run that is evaluated can be resumed only with all of its rows"):
        progressive(learner("drop"), stream("drop"), checkpoint=State(run, rest=True))
    # the users of the rows are damaged, or missing
    log = run / "secret" / "seen.log"
    content = log.read_bytes()
    for damage in (content[:-1], bytes([content[0] ^ 1]) + content[1:], b""):
        log.write_bytes(damage)
        with pytest.raises(StateError, match="whose rows the run has learnt was not kept, or is damaged"):
            goes_on()
    # once resumed in this way, always in this way
    log.write_bytes(content)
    first = State(run).next_row()
    rest = TABLE.slice(first - 1)
    half = stream("drop", rows=rest, pipe=True, stop=100, block=10)
    with pytest.raises(OSError, match="gone"):
        learner("drop").fit_stream(half, checkpoint=State(run, rest=True))
    with pytest.raises(StateError, match=r"it can be resumed only so, by State\(..., rest=True\)"):
        goes_on(rest=False)
    # a file that is shorter than the learnt part
    with pytest.raises(StreamError, match="has no more rows than those that the run has learnt"):
        goes_on(rows=TABLE.slice(0, 200))
    # an older checkpoint
    older = tmp_path / "older"
    shutil.copytree(run, older)
    keep = sorted((older / "secret").glob("checkpoint-*"))[-1]
    keep.unlink()
    with pytest.raises(StateError, match="no checkpoint that the ledger knows of"):
        goes_on(at=older)
    ended = State(run).end()
    assert ended.n_rows_ > 0


def test_rows_that_wait_for_their_label_are_read_again(tmp_path):
    run = tmp_path / "run"
    rows = pa.table({"x": [1.0, 2.0, 3.0], "who": ["a", "b", "c"], "y": ["0", "1", "1"], "k": ["1", "2", "3"]})
    late = schema("null", delay={"key": "k", "window": 5})

    def delayed(stop=None):
        def lines():
            for i, row in enumerate(rows.to_pylist(), 1):
                if i == stop:
                    raise OSError("gone")
                yield row

        return open_stream(lines(), schema=late, block_rows=1)

    with pytest.raises(OSError, match="gone"):
        learner("null").fit_stream(delayed(stop=3), checkpoint=State(run, every=1))
    with pytest.raises(StreamError, match=r"give a stream with \[delay\] from its beginning"):
        learner("null").fit_stream(delayed(), checkpoint=State(run, rest=True))
    assert learner("null").fit_stream(delayed(), checkpoint=State(run)).n_rows_ == 3


def test_a_lost_log_is_rebuilt_if_all_rows_come_again(tmp_path):
    run = tmp_path / "run"
    begun(run, "drop", 300)
    (run / "secret" / "seen.log").unlink()
    with pytest.raises(OSError, match="gone"):
        learner("drop").fit_stream(stream("drop", pipe=True, stop=500, block=9), checkpoint=State(run, every=20))
    state = State(run, rest=True)
    assert state.next_row() > 400
    whole = learner("drop").fit_stream(stream("drop"))
    assert fingerprint(learner("drop").fit_stream(stream("drop"), checkpoint=state)) == fingerprint(whole)


RELEASE = 60
SCRIPT = """
import os, sys
sys.path[:0] = sys.argv[2:]
import test_kept_users as t
t.killed_runs(sys.argv[1])
"""


def killed_runs(folder):
    """Runs in forked children, each killed at another system call that writes, then resumed through a pipe."""
    folder = Path(folder)
    real = {call: getattr(os, call) for call in ("open", "write", "fsync", "replace", "unlink", "mkdir")}
    leave = os._exit

    def child(run, left, out):
        count = 0

        def counting(call):
            def counted(*given, **named):
                nonlocal count
                count += 1
                if count == left:
                    if call == "write":  # a partial write
                        real[call](given[0], bytes(given[1])[: len(given[1]) // 2])
                    os.kill(os.getpid(), 9)
                return real[call](*given, **named)

            return counted

        pid = os.fork()
        if pid:
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        status = 1
        try:
            with open(out, "w", buffering=1) as file:
                rest = (run / "secret" / "run.json").exists()
                state = State(run, every=100, rest=rest)
                rows = TABLE.slice(state.next_row() - 1) if rest else TABLE
                if left:
                    for call in real:
                        setattr(os, call, counting(call))
                made = learner("drop", RELEASE).fit_stream(
                    stream("drop", rows=rows, pipe=True, block=20),
                    checkpoint=state,
                    on_release=lambda r: print(r.row, r.coef.tobytes().hex(), file=file),
                )
                print("rows", made.n_rows_, file=file)
            status = 0
        except StateError as error:
            status = 3 if "finished" in str(error) else 1
            print(error, file=sys.stderr)
        finally:
            leave(status)

    left = 3
    while True:
        run = folder / f"run{left}"
        killed = child(run, left, folder / f"{left}a.txt")
        again = child(run, 0, folder / f"{left}b.txt") if killed else 0
        print(left, killed, again, flush=True)
        if not killed:
            return
        left += 1 + left // 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.slow
def test_killed_with_the_table(tmp_path):
    """kill -9 at system calls that write, then the rows after the learnt ones: the releases of an undisturbed run."""
    whole = {}
    made = learner("drop", RELEASE).fit_stream(
        stream("drop"), on_release=lambda r: whole.__setitem__(str(r.row), r.coef.tobytes().hex())
    )
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), HERE, *sys.path]
    done = warm.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    lines = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    assert len(lines) > 9
    for left, killed, again in lines[:-1]:
        assert (killed, again in (0, 3)) == (-9, True), done.stderr
        texts = [(tmp_path / f"{left}{part}.txt").read_text() for part in "ab"]
        released = dict(line.split() for text in texts for line in text.splitlines())
        released.pop("rows", None)
        assert released.items() <= whole.items()
        assert fingerprint(load_model(tmp_path / f"run{left}")) == fingerprint(made)
    assert json.loads((tmp_path / f"run{lines[0][0]}" / "model.json").read_text())["n_rows"] == made.n_rows_


def test_after_a_learnt_encoding_all_rows_are_read_again(tmp_path):
    """The cap then counts rows that teach too, and their users are not kept: a pipe of the rest would forget them."""
    run, n = tmp_path / "run", 3000
    rng = np.random.default_rng(1)
    who = rng.integers(0, 700, n).astype(str)
    rows = pa.table({"x": rng.normal(size=n), "who": who, "y": rng.integers(0, 2, n).astype(str)})
    user = {"column": "who", "max_rows": MOST, "separation": 5}
    words = {"rows_per_user": MOST, "user_separation": 5, "horizon": n, "epsilon": 50.0, "random_state": 1}
    made = {"declared": {"user": user}, "classes": ["0", "1"], **words}

    def stops(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        privol.PrivateClassifier(**made).fit_stream(
            rows, target="y", checkpoint=State(run), progress=stops, block_rows=500
        )
    with pytest.raises(StateError, match="was not kept"):
        State(run).next_row()
    with pytest.raises(StateError, match="whose rows the run has learnt was not kept"):
        privol.PrivateClassifier(**made).fit_stream(rows, target="y", checkpoint=State(run, rest=True))
    whole = privol.PrivateClassifier(**made).fit_stream(rows, target="y")
    last = privol.PrivateClassifier(**made).fit_stream(rows, target="y", checkpoint=State(run))
    assert fingerprint(last.learner_) == fingerprint(whole.learner_)


def with_user(rows, row, name, *, number=1):
    """The rows, with another user from one row on, for a given number of rows."""
    who = rows["who"].to_pylist()
    who[row - 1 : row - 1 + number] = [name] * number
    return rows.set_column(rows.schema.names.index("who"), "who", pa.array(who))


def learnt_rows(run, surplus):
    """The rows of the input that a kept run has learnt, other than as null rows."""
    found = np.fromfile(run / "secret" / "seen.log", SEEN)
    return found["row"][found["user"].any(axis=1)]


@pytest.mark.parametrize("surplus", ["drop", "null"])
def test_other_users_are_refused(surplus, tmp_path):
    """Features and targets are unchanged, but the users changed, so a user could have more rows."""
    run = tmp_path / "run"
    begun(run, surplus, 400, every=60)
    at = {c["rows"] for c in Ledger.read(run / "ledger.jsonl").accounts[0].commits}
    rows = learnt_rows(run, surplus)
    for k in (0, len(rows) // 2, len(rows) - 1):
        other = with_user(TABLE, int(rows[k]), "nobody else")
        kept = int(rows[k]) if surplus == "null" else k + 1
        last = min(n for n in at if n >= kept)
        first = max(n for n in at if n < kept) + 1
        for block in (13, 1000):
            with pytest.raises(StateError, match=f"rows {first} to {last} of the stream are not those .* same users"):
                learner(surplus).fit_stream(stream(surplus, rows=other, block=block), checkpoint=State(run))
    surplus_rows = sorted({*range(1, int(rows[-1]))} - {*rows.tolist()})
    who = TABLE["who"].to_pylist()
    # the user of a surplus row does not matter as long as the row is surplus
    third = {name for name in who if sum(who[r - 1] == name for r in rows) == MOST}
    late = next(r for r in surplus_rows if r > 300)
    full = next(name for name in sorted(third) if max(r for r in rows if who[r - 1] == name) < late)
    last = learner(surplus).fit_stream(stream(surplus, rows=with_user(TABLE, late, full)), checkpoint=State(run))
    assert last.n_rows_ > 0


def test_a_run_kept_without_users_resumes(tmp_path, monkeypatch):
    """As one of a release that recorded no users; from there on, all of them are recorded."""
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(State, "named", lambda self, seen: self._leave_place())
        begun(run, "null", 300)
    begun(run, "null", 500)
    other = with_user(TABLE, int(learnt_rows(run, "null")[0]), "nobody else")
    with pytest.raises(StateError, match=r"rows 1 to [34][0-9]{2} of the stream are not those"):
        learner("null").fit_stream(stream("null", rows=other), checkpoint=State(run))
    learner("null").fit_stream(stream("null"), checkpoint=State(run))


@pytest.mark.parametrize("surplus", ["drop", "null"])
def test_after_a_learnt_encoding_other_users_are_refused(surplus, tmp_path):
    """Both the users of the rows that taught and those of the learnt rows."""
    n, most = 1500, 2
    rng = np.random.default_rng(1)
    rows = pa.table(
        {
            "x": rng.normal(size=n),
            "who": (np.arange(n) // 3).astype(str),  # the third row of each is surplus
            "y": rng.integers(0, 2, n).astype(str),
        }
    )
    user = {"column": "who", "max_rows": most, "surplus": surplus}
    target = {"column": "y", "negative": ["0"], "positive": ["1"], "rest": "null"}
    words = {"rows_per_user": most, "horizon": n, "epsilon": 50.0, "random_state": 1}
    made = {"declared": {"user": user, "target": target}, **words}
    made |= {"on_invalid": "zero"} if surplus == "null" else {}

    def stops(learner, _):
        if learner.n_rows_ > 300:
            raise KeyboardInterrupt

    def fitted(rows, **more):
        state = State(tmp_path / "run", every=50)
        return privol.PrivateClassifier(**made).fit_stream(rows, checkpoint=state, block_rows=64, **more)

    with pytest.raises(KeyboardInterrupt):
        fitted(rows, progress=stops)
    taught = json.loads((tmp_path / "run" / "encoding.json").read_text())["encoding"]["schema"]["learnt"]["rows"]
    assert taught > 10
    with pytest.raises(StateError, match=r"the first rows of the stream taught the encoding .* other users'"):
        fitted(with_user(rows, 1, "nobody else", number=3))
    learnt = taught + 10 if surplus == "null" else (taught + 10) * 3 // 2
    learnt -= learnt % 3 - 1  # the first row of its user
    with pytest.raises(StateError, match="of the stream are not those that the run has learnt, or not of the same"):
        fitted(with_user(rows, learnt, "nobody else", number=3))
    assert not (tmp_path / "run" / "secret" / "seen.log").exists()
    whole = privol.PrivateClassifier(**made).fit_stream(rows)
    assert fingerprint(fitted(rows).learner_) == fingerprint(whole.learner_)


# ---- of ranks ------------------------------------------------------------------------------------------------------


class Wire:
    """MPI with a single rank."""

    def Iallgather(self, mine, found):
        found[0] = mine

    def Iallgatherv(self, mine, found):
        found[0][:] = mine

    def Ibarrier(self):
        return None

    def Iprobe(self, tag, status):
        return False


def one_rank():
    found = object.__new__(Ranks)
    request = SimpleNamespace(Testall=lambda requests: True)
    found.__dict__.update(
        _mpi=SimpleNamespace(Request=request, Status=object), _timeout=9.0, _comm=Wire(), rank=0, size=1,
        messages=0, bytes=0, _said=None, _heard=None, _failure=None, _under_way=None,
    )  # fmt: skip
    return found


def learnt_by_a_rank(rows, run, stop=None, *, dealt=True, block=50):
    """Three nodes on one rank, from one stream or from one each; interrupted after a given number of blocks."""
    ranks, blocks = one_rank(), []

    def opened(rows):
        found = open_stream(rows, schema=schema("null"), block_rows=block)
        found.count_rows()
        return found

    def progress(*_):
        blocks.append(1)
        if len(blocks) == stop:
            raise OSError("gone")

    network = privol.DOLA(nodes=3, epsilon=4.0, random_state=3, on_invalid="zero")
    streams = [opened(rows.take(np.arange(node, N, 3))) for node in range(3)]
    given = DealtRows(opened(rows), ranks, 3) if dealt else InterleavedRows(streams, rounds=block // 3)
    return network.fit_ranks(given, ranks, progress=progress, checkpoint=State(run, every=60))


@pytest.mark.parametrize("dealt", [True, False])
def test_ranks_compare_the_users_of_their_rows(dealt, tmp_path):
    run = tmp_path / "run"
    with pytest.raises(OSError, match="gone"):
        learnt_by_a_rank(TABLE, run, 8, dealt=dealt)
    other = with_user(TABLE, 1, "nobody else")
    with pytest.raises(StateError, match=r"rows 1 to [0-9]+ of the stream are not those .* same users"):
        learnt_by_a_rank(other, run, dealt=dealt)
    whole = learnt_by_a_rank(TABLE, tmp_path / "whole", dealt=dealt)
    last = learnt_by_a_rank(TABLE, run, dealt=dealt, block=70)
    assert fingerprint(last) == fingerprint(whole)
