"""Streams that fall silent: what was learnt is kept by time, while the learner waits for the next rows."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

import numpy as np
import pytest
import warm
from conformance import LEARNERS, N, Stream, fingerprint, make
from patience import WAIT

from privol import PIGD, open_stream
from privol.errors import StreamError
from privol.state import State
from privol.state._checkpoints import Checkpoints
from privol.state._silence import Watch, blocks_of


def kept_rows(folder):
    """How many rows the journal says are kept."""
    journal = folder / "ledger.jsonl"
    lines = journal.read_text().split("\n")[:-1] if journal.exists() else []  # without one that is being written
    found = [json.loads(line) for line in lines]
    return max((entry["rows"] for entry in found if "rows" in entry), default=0)


def wait_until(holds):
    end = time.monotonic() + WAIT
    while not holds():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.01)


class Silent(Stream):
    """Says nothing after each block, until ``silence(rows)`` returns, which gets the rows so far."""

    def __init__(self, size, silence):
        super().__init__(size)
        self._silence = silence

    def __iter__(self):
        rows = 0
        for block in super().__iter__():
            yield block
            rows += len(block.y)
            self._silence(rows)


@pytest.mark.parametrize("name", LEARNERS)
def test_what_was_learnt_is_kept_before_other_rows_come(name, tmp_path):
    """After each of three blocks; with the same bits as a run without a directory."""
    run = tmp_path / "run"
    found = make(name).fit_stream(
        Silent(N // 3, lambda rows: wait_until(lambda: kept_rows(run) == rows)),
        checkpoint=State(run, every=10 * N, seconds=0.05),
    )
    assert fingerprint(found) == fingerprint(make(name).fit_stream(Stream()))


def test_a_run_that_is_killed_in_silence_goes_on_from_there(tmp_path):
    """By kill -9, with its rows in a pipe whose other end stays open."""
    program = """
        import sys
        from privol import PIGD, open_stream
        from privol.state import State

        stream = open_stream("-", format="csv", target=-1, classes=(0, 1), header=False)
        learner = PIGD(epsilon=1.0, delta=1e-6, x_bound=2.0, random_state=3, release=500, horizon=1000)
        learner.fit_stream(stream, checkpoint=State(sys.argv[1], seconds=0.1))
        print(learner.coef_.tobytes().hex())
    """
    program, run = textwrap.dedent(program), tmp_path / "run"
    rng = np.random.default_rng(2)
    rows = [f"{a:.4f},{b:.4f},{int(a > b)}\n" for a, b in rng.random((1000, 2))]
    with warm.Popen([sys.executable, "-c", program, str(run)], stdin=subprocess.PIPE, text=True) as process:
        process.stdin.write("".join(rows[:700]))
        process.stdin.flush()
        try:
            wait_until(lambda: process.poll() is not None or kept_rows(run) == 700)
        finally:
            process.kill()
    assert process.returncode == -signal.SIGKILL
    assert State(run).next_row() == 701

    def end(folder):
        command = [sys.executable, "-c", program, str(folder)]
        with warm.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            printed, _ = process.communicate("".join(rows))
        assert process.returncode == 0
        return printed

    assert end(run) == end(tmp_path / "whole") != ""


def test_rows_of_a_queue_are_kept_as_they_come(tmp_path):
    """Dicts of other threads, one by one; an error ends the run, and another process goes on behind it."""
    schema = {
        "columns": {"age": {"range": [0, 100]}, "ward": {"levels": ["a", "b"]}},
        "target": {"column": "ill", "negative": 0, "positive": 1},
    }
    rows = [{"age": i * 31 % 97, "ward": "ab"[i % 2], "ill": int(i * 31 % 97 > 50)} for i in range(120)]

    def learn(waiting, state):
        learner = PIGD(epsilon=4.0, delta=1e-6, horizon=120, x_bound=2.0, release=30, random_state=4)
        stream = open_stream(iter(waiting.get, None), schema=schema, block_rows=1)
        return learner.fit_stream(stream, checkpoint=state)

    def given(*ones):
        waiting = SimpleQueue()
        for one in ones:
            waiting.put(one)
        return waiting

    whole = learn(given(*rows, None), State(tmp_path / "whole"))
    run, waiting = tmp_path / "run", given(*rows[:70])
    with ThreadPoolExecutor(1) as pool:
        learning = pool.submit(learn, waiting, State(run, seconds=0.05))
        wait_until(lambda: learning.done() or kept_rows(run) == 70)
        assert State(run).next_row() == 71
        waiting.put({**rows[70], "ill": "?"})
        waiting.put(None)
        with pytest.raises(StreamError, match="column 'ill', row 71"):
            learning.result(WAIT)
    again = learn(given(*rows[State(run).next_row() - 1 :], None), State(run, rest=True))
    assert fingerprint(again) == fingerprint(whole)


def test_nothing_is_written_where_no_rows_came(tmp_path, monkeypatch):
    """The checkpoint of a block is written once, however long the silence."""
    run, written = tmp_path / "run", []
    write = Checkpoints.write
    monkeypatch.setattr(Checkpoints, "write", lambda self, *given: written.append(given[0]) or write(self, *given))

    def silence(rows):
        wait_until(lambda: kept_rows(run) == rows)
        time.sleep(0.5)  # ten times as long as it takes

    make("PIGD").fit_stream(Silent(N // 3, silence), checkpoint=State(run, every=10 * N, seconds=0.05))
    assert len(written) == len(set(written))


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_the_wait_ends_while_the_run_is_being_kept(error, tmp_path, monkeypatch):
    """The two do not keep it at the same time, and what was learnt is kept."""
    run, begun, inside = tmp_path / "run", threading.Event(), []
    commit = State.commit

    def slow(self, of):
        assert not inside
        inside.append(1)
        begun.set()
        time.sleep(0.3)
        commit(self, of)
        inside.clear()

    def silence(rows):
        if rows == 2 * (N // 3):
            begun.clear()
            assert begun.wait(WAIT)
            raise error

    monkeypatch.setattr(State, "commit", slow)
    with pytest.raises(error):
        make("PIGD").fit_stream(Silent(N // 3, silence), checkpoint=State(run, every=10 * N, seconds=0.05))
    assert kept_rows(run) == 2 * (N // 3)
    again = make("PIGD").fit_stream(Stream(), checkpoint=State(run))
    assert fingerprint(again) == fingerprint(make("PIGD").fit_stream(Stream()))


def test_a_full_disk_is_said_when_rows_come_again(tmp_path, monkeypatch):
    run, tried = tmp_path / "run", threading.Event()
    write = Checkpoints.write

    def full(self, name, *given):
        if threading.get_ident() != me and kept_rows(run) == 0 and name != "checkpoint-000000000000000.bin":
            tried.set()
            raise OSError(errno.ENOSPC, "no space left on device")
        return write(self, name, *given)

    me = threading.get_ident()
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "write", full)
        with pytest.raises(OSError, match="no space"):
            make("PIGD").fit_stream(
                Silent(N // 3, lambda rows: tried.wait(WAIT)), checkpoint=State(run, every=10 * N, seconds=0.05)
            )
    assert tried.is_set()
    again = make("PIGD").fit_stream(Stream(), checkpoint=State(run))
    assert fingerprint(again) == fingerprint(make("PIGD").fit_stream(Stream()))


def test_runs_kept_by_rows_alone_have_no_such_thread(tmp_path):
    state, threads = State(tmp_path / "run", seconds=float("inf")), []
    make("PIGD").fit_stream(Silent(N // 3, lambda rows: threads.append(state._watch)), checkpoint=state)
    assert threads == [None] * 3


# ---- the thread itself -------------------------------------------------------------------------------------


def test_it_looks_only_while_the_learner_waits():
    looked = threading.Event()
    watch = Watch(lambda: looked.set() or 0.0, 0.0)
    time.sleep(0.3)
    assert not looked.is_set()
    assert watch.during(lambda: looked.wait(WAIT))
    looked.clear()
    time.sleep(0.3)
    assert not looked.is_set()
    watch.stop()
    watch.stop()  # again, as after an interrupt


def test_its_errors_reach_the_learner_and_end_it():
    tried = threading.Event()

    def look():
        tried.set()
        raise OSError("no room")

    watch = Watch(look, 0.0)
    with pytest.raises(OSError, match="no room"):
        watch.during(lambda: tried.wait(WAIT) and time.sleep(0.2))
    watch.stop()


def test_every_block_comes_once_and_errors_pass():
    watch = Watch(lambda: 60.0, 60.0)
    assert list(blocks_of(iter("abc"), lambda: watch)) == list(blocks_of("abc", lambda: None)) == ["a", "b", "c"]

    def broken():
        yield 1
        raise OSError("the pipe broke")

    blocks = blocks_of(broken(), lambda: watch)
    assert next(blocks) == 1
    with pytest.raises(OSError, match="pipe broke"):
        next(blocks)
    watch.stop()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes of POSIX")
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_forked_child_has_none_and_does_not_wait_for_it():
    looking = threading.Event()

    def look():
        looking.set()
        time.sleep(0.5)
        return 60.0

    watch = Watch(look, 0.0)

    def fork():
        looking.wait(WAIT)
        return os.fork()  # while the thread has the turn

    child = watch.during(fork)
    if child == 0:
        watch.stop()
        os._exit(watch.during(lambda: 7))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    watch.stop()
