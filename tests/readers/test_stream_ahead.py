"""The thread that reads ahead: the same blocks and errors as without it, and no thread left behind."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from functools import partial

import numpy as np
import pytest
import warm
from patience import WAIT
from stream_files import drain, fails, together, write

from privol.errors import StreamError
from privol.readers import ahead
from privol.readers.ahead import ReadAhead
from privol.readers.base import Facts, Piece, Source
from privol.streams import open_stream
from privol.streams._base import Stream

pytestmark = pytest.mark.process


def threads():
    return [t for t in threading.enumerate() if t.name == "privol-read-ahead"]


def until(condition):
    end = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.001)


@pytest.fixture(autouse=True)
def nothing_left(monkeypatch):
    """Closing an iterator also waits for its thread, however slow the machine is."""
    monkeypatch.setattr(ahead, "PATIENCE", WAIT)
    assert not threads()
    yield
    assert not threads()


class Rows(Source):
    """Pieces of one row each, which record that and in which thread they were made, and when the source was closed."""

    facts = Facts(name="rows")
    n_features = 1

    def __init__(self, n, fail_at=None, error=StreamError):
        self.n, self.fail_at, self.error = n, fail_at, error
        self.made, self.closed, self.threads = 0, 0, set()

    def pieces(self, limit, progress):
        self.counts = {"dropped": 0}
        try:
            for i in range(self.n):
                self.threads.add(threading.current_thread().name)
                if i == self.fail_at:
                    raise self.error(f"row {i + 1} is bad")
                self.counts["dropped"] = 10 * (i + 1)
                self.made = i + 1
                progress((i + 1) / self.n)
                yield Piece(np.full((1, 1), float(i)), None)
        finally:
            self.closed += 1


def stream_of(source, block_rows=1, read_ahead=True):
    return Stream(source, classes=None, ranges=None, block_rows=block_rows, read_ahead=read_ahead)


@pytest.mark.parametrize("read_ahead", [True, False])
def test_blocks_counts_and_fractions_are_those_of_what_was_handed_out(read_ahead):
    source = Rows(20)
    stream = stream_of(source, read_ahead=read_ahead)
    for _ in range(2):
        for i, block in enumerate(stream):
            if read_ahead:  # let the thread run as far ahead as it may
                until(lambda i=i: source.made == min(i + 2 + ahead.DEPTH, 20))
            assert block.X.tolist() == [[i]]
            assert block.first_row == i + 1
            assert stream.fraction_read == (i + 1) / 20
            assert stream.counts == {"dropped": 10 * (i + 1)}
        assert stream.fraction_read == 1.0
    assert source.closed == 2
    assert source.threads == {"privol-read-ahead" if read_ahead else "MainThread"}


def test_reading_ahead_is_bounded_and_starts_with_the_first_block():
    source = Rows(100)
    blocks = iter(stream_of(source))
    assert not threads()
    assert source.made == 0
    next(blocks)
    until(lambda: source.made == 2 + ahead.DEPTH)
    time.sleep(0.05)
    assert source.made == 2 + ahead.DEPTH
    blocks.close()
    assert source.closed == 1


@pytest.mark.parametrize("error", [StreamError, MemoryError, KeyError])
def test_errors_appear_at_their_block(error):
    for block_rows, good in ((1, 7), (3, 6)):
        source = Rows(20, fail_at=7, error=error)
        seen = []

        def learn(source=source, block_rows=block_rows, seen=seen):
            for block in stream_of(source, block_rows):
                seen.extend(block.X[:, 0])

        with pytest.raises(error, match="row 8 is bad"):
            learn()
        assert seen == list(range(good))
        assert not threads()
        assert source.closed == 1


@pytest.mark.parametrize("end", ["close", "drop", "cycle", "error", "break"])
def test_the_thread_ends_with_its_consumer(end):
    source = Rows(10_000)
    blocks = iter(stream_of(source))
    next(blocks)
    assert len(threads()) == 1
    if end == "close":
        blocks.close()
    elif end == "drop":
        del blocks
    elif end == "cycle":
        ring = [blocks]
        ring.append(ring)
        del blocks, ring
        gc.collect()
    elif end == "error":

        def fail(blocks):
            for _ in blocks:
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail(blocks)
        del blocks
    else:
        for _ in blocks:
            break
        del blocks
    gc.collect()
    assert not threads()
    assert source.closed == 1
    assert source.made < 100


def test_closing_interrupts_a_long_block():
    """One block of all rows: the thread must check between pieces, not between blocks."""

    class Slow(Rows):
        def pieces(self, limit, progress):
            for piece in super().pieces(limit, progress):
                if self.made > 1:
                    time.sleep(0.01)
                yield piece

    source = Slow(10**9)
    blocks = ReadAhead(partial(stream_of(source, 10**9)._steps, source, 0))
    waiting = threading.Thread(target=lambda: next(blocks, None))
    waiting.start()
    until(lambda: source.made > 3)
    blocks.close()
    waiting.join(WAIT)
    assert not waiting.is_alive()
    assert source.closed == 1


def test_an_interrupt_while_waiting_reaches_the_consumer(monkeypatch):
    """The signal comes while the thread is busy with the second piece, for which the consumer waits."""
    stopping, stop = threading.Event(), ahead._Shelf.stop
    monkeypatch.setattr(ahead._Shelf, "stop", lambda shelf: (stopping.set(), stop(shelf)))

    class Stuck(Rows):
        def pieces(self, limit, progress):
            for piece in super().pieces(limit, progress):
                yield piece
                if not stopping.is_set():  # one signal: another might come while the first is handled
                    os.kill(os.getpid(), signal.SIGINT)
                    until(stopping.is_set)

    source = Stuck(10)
    with pytest.raises(KeyboardInterrupt):
        for _ in stream_of(source):
            pass
    gc.collect()
    assert not threads()
    assert source.made < 10


def test_an_iterator_in_a_forked_child_refuses(tmp_path):
    path = write(tmp_path, "d.csv", "1,2\n" * 1000)
    for read_ahead in (True, False):
        stream = open_stream(path, block_rows=10, read_ahead=read_ahead)
        blocks = iter(stream)
        next(blocks)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                next(blocks)
            except StreamError as err:
                fresh = together(open_stream(path, block_rows=10, read_ahead=False))[0].shape == (1000, 1)
                code = 0 if "forked" in str(err) and fresh else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert sum(len(block.y) for block in blocks) == 990


def run(code, *words, signal_after=None):
    done = warm.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    if signal_after is not None:
        assert done.stdout.readline().strip() == signal_after
        done.send_signal(signal.SIGINT)
    out, err = done.communicate(timeout=WAIT)
    return done.returncode, out, err


def test_the_interpreter_exits_with_an_iterator_still_open(tmp_path):
    path = write(tmp_path, "d.csv", "1,2\n" * 100_000)
    code = """
        import sys
        from privol.readers import ahead
        from privol.streams import open_stream
        ahead.PATIENCE = float(sys.argv[2])
        blocks = iter(open_stream(sys.argv[1], block_rows=100))
        next(blocks)
        print("ready")
    """
    returned, out, err = run(code, path, WAIT)
    assert (returned, out, err) == (0, "ready\n", "")


def test_an_interrupt_leaves_no_thread_behind(tmp_path):
    path = write(tmp_path, "d.csv", "1,2\n" * 100_000)
    code = """
        import sys, threading, time
        from privol.readers import ahead
        from privol.streams import open_stream
        ahead.PATIENCE = float(sys.argv[2])

        def learn():
            for i, block in enumerate(open_stream(sys.argv[1], block_rows=100)):
                if i == 3:
                    print("ready", flush=True)
                    time.sleep(60)

        try:
            learn()
        except KeyboardInterrupt:
            pass
        # those that encode columns wait for the next block, of whatever stream
        print([t.name for t in threading.enumerate() if not t.name.startswith("privol-threads")])
    """
    returned, out, err = run(code, path, WAIT, signal_after="ready")
    assert (returned, out, err) == (0, "['MainThread']\n", "")


def test_handed_out_blocks_are_never_written_to(tmp_path):
    rng = np.random.default_rng(0)
    table = rng.normal(size=(1000, 3))
    np.save(tmp_path / "d.npy", table)
    write(tmp_path, "d.csv", "\n".join(",".join(repr(float(v)) for v in row) for row in table))
    for name in ("d.npy", "d.csv"):
        for ranges in (None, [(-9, 9)] * 2):
            kept, copies = [], []
            for block in open_stream(tmp_path / name, block_rows=30, ranges=ranges):
                kept.append(block)
                copies.append((block.X.copy(), block.y.copy()))
            for block, (X, y) in zip(kept, copies, strict=True):
                np.testing.assert_array_equal(block.X, X)
                np.testing.assert_array_equal(block.y, y)


def test_only_files_are_read_in_a_thread(tmp_path, table):
    X, y = table
    used = []

    def blocks():
        for i in range(5):
            used.append(threading.current_thread().name)
            yield X[i : i + 10], y[i : i + 10]

    def rows():
        for i in range(5):
            used.append(threading.current_thread().name)
            yield {"a": i}, 1.0

    for data in (blocks(), rows()):
        together(open_stream(data))
    assert set(used) == {"MainThread"}
    for data in ((X, y), X, [(X, y)]):
        next(iter(open_stream(data)))
        assert not threads()
    np.save(tmp_path / "d.npy", X)
    blocks = iter(open_stream(tmp_path / "d.npy", block_rows=10))
    next(blocks)
    assert len(threads()) == 1
    blocks.close()
    blocks = iter(open_stream(tmp_path / "d.npy", block_rows=10, read_ahead=False))
    next(blocks)
    assert not threads()


def test_errors_of_a_file_are_the_same_with_and_without(tmp_path):
    path = write(tmp_path, "d.csv", "1,2\n" * 5000 + "x,2\n" + "1,2\n" * 100)
    messages = {
        fails(drain(path, header=False, read_ahead=r, block_rows=7), "row 5001", row=5001) for r in (True, False)
    }
    assert len(messages) == 1


def test_an_interrupt_is_heard_where_its_handler_restarts_what_it_interrupts():
    """As the one that polars installs does: it does not wake a thread that waits for a lock."""
    code = """
        import signal, time
        from privol.readers.ahead import ReadAhead
        signal.siginterrupt(signal.SIGINT, False)

        def silent(alive):
            time.sleep(0.5)  # until it is waited for
            print("ready", flush=True)
            while True:
                alive()
                time.sleep(0.01)
                yield from ()

        try:
            next(ReadAhead(silent))
        except KeyboardInterrupt:
            print("heard")
    """
    assert run(code, signal_after="ready") == (0, "heard\n", "")
