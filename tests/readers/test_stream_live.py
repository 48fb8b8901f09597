"""Pipes that pause: rows are delivered on arrival, equal for any cut into pieces, and nothing hangs."""

from __future__ import annotations

import contextlib
import gc
import gzip
import io
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pyarrow as pa
import pytest
import warm
from stream_files import as_csv, fails, together, write

from privol import PIGD
from privol.errors import InvalidParameter
from privol.readers import csv_text
from privol.readers import files as text_files
from privol.readers import pipe as pipes
from privol.streams import open_stream
from privol.streams._base import Stream

pytestmark = pytest.mark.process

WAIT = 60  # seconds after which a test gives up; never a measure of speed
posix = pytest.mark.skipif(os.name != "posix", reason="asks a pipe whether it has more")

BARE = {"target": {"column": "t"}, "columns": {"a": {}}}
SCHEMA = {
    "file": {"format": "csv", "header": True},
    "target": {"column": "t", "positive": ["yes"], "negative": ["no"]},
    "user": {"column": "u", "max_rows": 3},
    "columns": {"a": {}, "k": {"drop": True}},
}
JOINED = {**SCHEMA, "delay": {"key": "k", "window": 5}, "columns": {"a": {"missing": "zero"}}}


def csv_row(i):
    return f"{i}.5,{-i},{i % 3}\n"


def json_row(i):
    return json.dumps({"a": i + 0.5, "b": -i, "t": i % 3}) + "\n"


def libsvm_row(i):
    return f"{i % 3} 1:{i}.5 2:{-i}\n"


FORMATS = {
    "csv": (csv_row, {}),
    "csv with a header": (csv_row, {}),
    "jsonl": (json_row, {}),
    "libsvm": (libsvm_row, {"n_features": 2}),
}


def text_of(kind, first, last):
    header = "a,b,t\n" if kind == "csv with a header" and first == 0 else ""
    return header + "".join(FORMATS[kind][0](i) for i in range(first, last))


class Script(io.RawIOBase):
    """A file object that is not a file of the operating system: one piece per read."""

    def __init__(self, pieces):
        self.pieces = [piece for piece in pieces if piece]

    def readable(self):
        return True

    def read(self, size=-1):
        if not self.pieces:
            return b""
        piece = self.pieces.pop(0)
        if 0 <= size < len(piece):
            self.pieces.insert(0, piece[size:])
            piece = piece[:size]
        return piece


@contextlib.contextmanager
def pipe():
    """A pipe whose writer closes it when the test has waited too long."""
    reader, writer = os.pipe()
    file = open(reader, "rb", buffering=0)  # noqa: SIM115 (closed below)
    closed = []

    def close():
        if not closed:
            closed.append(True)
            os.close(writer)

    def give_up():
        late.append(True)
        close()

    late = []
    timer = threading.Timer(WAIT, give_up)
    timer.start()
    try:
        yield file, lambda text: os.write(writer, text.encode() if isinstance(text, str) else text), close
    finally:
        timer.cancel()
        close()
        file.close()
    assert not late, "waited in vain"


def take(blocks, n):
    """Take blocks until at least n rows are there."""
    rows = 0
    while rows < n:
        rows += next(blocks).X.shape[0]
    return rows


# ---- rows on arrival ----------------------------------------------------------------------------------------


@posix
@pytest.mark.parametrize("read_ahead", [True, False])
@pytest.mark.parametrize("kind", FORMATS)
def test_rows_are_handed_out_as_they_arrive(kind, read_ahead):
    with pipe() as (file, send, close):
        send(text_of(kind, 0, 10))
        stream = open_stream(file, read_ahead=read_ahead, **FORMATS[kind][1])
        assert not stream.repeatable
        assert stream.fraction_read is None
        blocks = iter(stream)
        assert take(blocks, 10) == 10
        for first, last in ((10, 11), (11, 14), (14, 40)):
            send(text_of(kind, first, last))
            assert take(blocks, last - first) == last - first
        half = text_of(kind, 40, 42)
        send(half[:-4])
        assert take(blocks, 1) == 1
        send(half[-4:-1])  # the last line has no end
        close()
        assert take(blocks, 1) == 1
        assert next(blocks, None) is None


@posix
@pytest.mark.parametrize(
    ("text", "rows", "options"),
    [
        ("1,2\n", 1, {"header": False}),
        ("1\n", 1, {"header": False, "target": False}),
        ("1,2\n3,4\n", 2, {}),
        ("\ufeffa,t\r\n1,2\r\n", 1, {}),
        ("a;b,t\n1,3\n", 1, {}),  # the second line shows that it is the comma
        ("1;2\n", 1, {"header": False, "sep": ";"}),
        ("a;t\n1,5;2\n", 1, {"schema": {**BARE, "file": {"sep": ";", "decimal": ","}}}),
        ('{"a":1,"t":2}\n', 1, {}),
        ("1 1:2\n", 1, {"n_features": 3}),
        ("# nothing\n\n1 0:2\n", 1, {"n_features": 3}),
        ("1 1:2\n", 1, {"n_features": 3, "zero_based": False, "format": "libsvm"}),
        ("1|2\n" * 20, 20, {}),
    ],
)
def test_opening_waits_for_the_first_lines_alone(text, rows, options):
    with pipe() as (file, send, _):
        send(text)
        blocks = iter(open_stream(file, **options))
        assert take(blocks, rows) == rows
        blocks.close()


@posix
def test_an_unsettled_separator_is_waited_for():
    """Two lines suggest semicolons, twenty show otherwise: as in a file."""
    text = "1;2,3\n4;5,6\n" + "7;8;9,1\n" * 18
    with pipe() as (file, send, _):
        send(text[:12])
        threading.Timer(0.1, send, [text[12:]]).start()
        with pytest.raises(Exception, match="'1;2'"):
            together(open_stream(file, header=False))


def test_more_lines_do_not_change_a_settled_separator():
    rng = np.random.default_rng(0)
    settled = 0
    for _ in range(3000):
        lines = ["".join(rng.choice(list('a1.5;,|\t"'), size=rng.integers(1, 8))) + "\n" for _ in range(5)]
        for decimal, stated in ((".", None), (",", None), (".", ";")):
            options = csv_text.CsvOptions(decimal=decimal, sep=stated)

            def chosen(n, options=options, lines=lines):
                text = "".join(lines[:n]).encode()
                _, told = csv_text.told_separator(text, options, "")
                sep = options.sep or told or csv_text.default_separator(options)
                alone = len(csv_text.Dialect(sep, None, False).cells(lines[0].encode())[0]) == 1
                return sep, alone and told not in (None, sep)

            n = next(
                (n for n in (1, 2, 3, 4) if csv_text.separator_is_settled("".join(lines[:n]).encode(), options, "")),
                None,
            )
            if n is not None:
                settled += 1
                assert chosen(n) == chosen(5), lines
    assert settled > 3000


@posix
@pytest.mark.parametrize("schema", [SCHEMA, JOINED])
def test_rows_that_wait_for_their_block_are_handed_out_before_the_pause(monkeypatch, schema):
    """A chunk is full, the next line unfinished, or all later rows are dropped: the rows before do not wait."""
    monkeypatch.setattr(text_files, "CHUNK_BYTES", 16)
    with pipe() as (file, send, close):
        send("a,u,k,t\n" + "".join(f"{i},ann,{i},yes\n" for i in range(5)) + "7,b")
        stream = open_stream(file, schema=schema, read_ahead=False)
        blocks = iter(stream)
        assert take(blocks, 3) == 3  # two more are over the cap
        send("ob,x,no\n")
        assert take(blocks, 1) == 1
        assert stream.counts["over_user_cap"] == 2
        close()
        assert next(blocks, None) is None


def test_rows_are_handed_out_before_a_read_that_may_wait(monkeypatch):
    """It is unknown whether such an object has more data: each read may wait."""
    monkeypatch.setattr(text_files, "CHUNK_BYTES", 16)
    rows, known = [], []

    class Asking(Script):
        def read(self, size=-1):
            known.append(len(rows))
            return super().read(size)

    stream = open_stream(Asking([b"1,2\n3,4\n5,6\n7,8\n", b"1,2\n3,4\n5,6\n7,8\n", b"9,9\n"]), header=False)
    for block in stream:
        rows.extend(block.y)
    assert len(rows) == 9
    assert known[-3:] == [4, 8, 9]


@posix
def test_a_line_that_ends_in_a_bare_cr_is_whole_when_the_next_begins():
    with pipe() as (file, send, close):
        send("1,2\r3,4\r")
        blocks = iter(open_stream(file, header=False))
        assert take(blocks, 1) == 1
        send("5")
        assert take(blocks, 1) == 1
        send(",6\r")
        close()
        assert take(blocks, 1) == 1


@posix
def test_arrow_streams_give_batch_after_batch():
    batch = pa.record_batch({"a": [1.0, 2.0], "t": [3.0, 4.0]})
    sink, sent, blocks = io.BytesIO(), 0, None
    with pipe() as (file, send, close):
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            for _ in range(3):
                writer.write_batch(batch)
                send(sink.getvalue()[sent:])
                sent = sink.tell()
                blocks = blocks or iter(open_stream(file))
                assert take(blocks, 2) == 2
        close()
        assert next(blocks, None) is None


# ---- the same rows ------------------------------------------------------------------------------------------

LEVELS = {"name": {"levels": ["ü", "-"]}, "b": {}}
BROKEN = {"newlines_in_values": True}
ROWS = [
    ("a.csv", "\ufeffname,b,t\r\nü,1,2\r\n\r\n-,4.25,-5\r\nü,8,9", {"schema": {**BARE, "columns": LEVELS}}),
    (
        "b.csv",
        'a,t\n"x\n""y"" é\r\n",1\n"p,q",2\nr,3\n',
        {"schema": {**BARE, "columns": {"a": {"hash": 1000}}, "file": BROKEN}},
    ),
    (
        "c.csv",
        "# 1;2\n1;2\n# 5\n3;4\n7;8\n",
        {"schema": {**BARE, "file": {"header": False, "names": ["a", "t"], "comment": "#", "sep": ";"}}},
    ),
    ("d.csv", "1,2\r3,4\r5,6", {"header": False}),
    ("e.jsonl", '\ufeff{"a": 1, "t": 2.5}\n\n{"a": null, "t": 3}\r\n {"t": 4, "a": 1e3}', {}),
    ("f.svm", "1 1:2 2:3\r\n# ü\n\n-1 2:0.1 # é\n1 1:7", {"n_features": 2}),
]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize(("name", "text", "options"), ROWS)
def test_pieces_end_anywhere(tmp_path, monkeypatch, name, text, options, pack):
    data = text.encode()
    X, y = together(open_stream(write(tmp_path, name, data), **options))
    assert len(y) == 3
    data = pack(data)
    scripts = [[data[:i], data[i:]] for i in range(1, len(data))]
    scripts += [[data[i : i + n] for i in range(0, len(data), n)] for n in (1, 2, 3)]
    for script in scripts:
        for chunk in (8 << 20, 5):
            monkeypatch.setattr(text_files, "CHUNK_BYTES", chunk)
            file = Script(script)
            file.name = name
            found = together(open_stream(file, **options))
            assert np.array_equal(found[0], X, equal_nan=True), script
            assert np.array_equal(found[1], y), script


@posix
@pytest.mark.parametrize("buffering", [0, -1])
def test_bytes_that_come_one_by_one_through_a_pipe(monkeypatch, tmp_path, buffering):
    monkeypatch.setattr(pipes, "PAUSE", 0)
    monkeypatch.setattr(text_files, "PAUSE", 0)
    for name, text, options in ROWS[2:]:
        X, y = together(open_stream(write(tmp_path, name, text), **options))
        with pipe() as (file, send, close):

            def feed(text=text, send=send, close=close):
                for byte in text.encode():
                    send(bytes([byte]))
                close()

            producer = threading.Thread(target=feed)
            producer.start()
            source = file if buffering == 0 else io.BufferedReader(file)
            found = together(open_stream(source, **options))
            producer.join()
        assert np.array_equal(found[0], X, equal_nan=True)
        assert np.array_equal(found[1], y)


def test_a_pipe_that_never_pauses_fills_its_blocks(monkeypatch):
    monkeypatch.setattr(pipes.Input, "silent", lambda self, seconds: False)
    monkeypatch.setattr(text_files, "PORTION", 1e9)
    text = as_csv(np.arange(1000.0).reshape(500, 2), np.arange(500.0)).encode()
    file = Script([text[i : i + 100] for i in range(0, len(text), 100)])
    assert [len(block.y) for block in open_stream(file, block_rows=60)] == [60] * 8 + [20]


def test_a_pipe_that_pauses_after_each_read_gives_short_blocks(monkeypatch):
    text = as_csv(np.arange(1000.0).reshape(500, 2), np.arange(500.0)).encode()
    lines = text.splitlines(keepends=True)
    file = Script([b"".join(lines[i : i + 100]) for i in range(0, 500, 100)])
    assert [len(block.y) for block in open_stream(file, block_rows=60)] == [60, 40] * 5


def test_a_growing_record_is_not_searched_at_every_read(monkeypatch):
    looked = []
    end = csv_text.Dialect.end
    monkeypatch.setattr(csv_text.Dialect, "end", lambda self, text: looked.append(len(text)) or end(self, text))
    cell = b"x\n" * 500
    pieces = [b'a,t\nu,1\n"', *[cell] * 1000, b'",2\nv,3\n']
    schema = {
        "file": {"newlines_in_values": True, "header": True, "sep": ","},
        "target": {"column": "t"},
        "columns": {"a": {"hash": 10}},
    }
    assert together(open_stream(Script(pieces), schema=schema))[1].tolist() == [1, 2, 3]
    assert sum(looked) < 20 * len(cell) * 1000


def test_a_line_without_an_end_through_a_pipe(monkeypatch):
    monkeypatch.setattr(text_files, "LINE_BYTES", 1 << 20)
    monkeypatch.setattr(text_files, "CHUNK_BYTES", 1 << 18)
    stream = open_stream(Script([b"1,2\n3,4\n", *[b"5" * 1000] * 2000]), header=False)
    fails(lambda: together(stream), "row 3", "longer than 1 MiB", row=3)


def test_a_line_without_an_end_that_pauses_all_the_time(monkeypatch):
    looks = itertools.count()
    made = pipes.Input.__init__
    monkeypatch.setattr(pipes.Input, "__init__", lambda self, file: made(self, file) or setattr(self, "known", True))
    monkeypatch.setattr(pipes.Input, "silent", lambda self, seconds: next(looks) % 2 == 0)
    monkeypatch.setattr(text_files, "LINE_BYTES", 1 << 20)
    monkeypatch.setattr(text_files, "CHUNK_BYTES", 1 << 18)
    script = Script([b"1,2\n3,4\n", *[b"5" * 1000] * 2000])
    fails(lambda: together(open_stream(script, header=False)), "row 3", "longer than 1 MiB", row=3)
    assert len(script.pieces) > 600


@pytest.mark.parametrize("read_ahead", [True, False])
def test_an_error_comes_after_the_preceding_rows(read_ahead):
    seen = []

    def learn():
        for block in open_stream(Script([b"1,2\n3,4\n", b"5,6\n7,x\n"]), header=False, read_ahead=read_ahead):
            seen.extend(block.y)

    fails(learn, "row 4", "'x'", row=4)
    assert seen == [2, 4]


def test_keys_of_a_live_input_are_those_of_its_first_row():
    text = b'{"a": 1, "t": 2}\n{"a": 1, "b": 3, "t": 2}\n'
    for pieces in ([text], [text[:20], text[20:]]):
        fails(lambda pieces=pieces: together(open_stream(Script(pieces))), "row 2", "'b'", "the first row", row=2)


# ---- file objects -------------------------------------------------------------------------------------------


def test_file_objects(tmp_path):
    path = write(tmp_path, "d.csv.gz", "a,t\n1,2\n3,4\n")
    with open(path, "rb") as file:
        stream = open_stream(file)
        assert (stream.source, stream.repeatable) == ("d.csv.gz", False)
        assert together(stream)[1].tolist() == [2, 4]
    with gzip.open(path) as file:
        assert file.readline() == b"a,t\n"
        assert together(open_stream(file, header=False))[1].tolist() == [2, 4]
    with open(write(tmp_path, "d.tsv", "1\t2\n3\t4\n"), "rb") as file:
        assert file.readline() == b"1\t2\n"  # the rest is in its buffer
        assert together(open_stream(file, header=False))[1].tolist() == [4]
    with open(path.with_suffix(""), "w") as file, pytest.raises(InvalidParameter, match="'rb'"):
        open_stream(file)
    fails(lambda: open_stream(io.BytesIO()), "file object", "empty")
    fails(lambda: open_stream(io.BytesIO(b"PAR1" + bytes(8))), "parquet", "pipe")


@posix
def test_sockets():
    ours, theirs = socket.socketpair()
    with ours, theirs, theirs.makefile("rb") as file:
        ours.sendall(b"1,2\n3,4\n")
        blocks = iter(open_stream(file, header=False))
        assert take(blocks, 2) == 2
        ours.sendall(b"5,6\n")
        assert take(blocks, 1) == 1
        ours.shutdown(socket.SHUT_WR)
        assert next(blocks, None) is None


# ---- processes ----------------------------------------------------------------------------------------------


def start(code, *words):
    return warm.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


@contextlib.contextmanager
def watched(process):
    killer = threading.Timer(WAIT, process.kill)
    killer.start()
    try:
        yield process
    finally:
        killer.cancel()
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            stream.close()


def send(process, text):
    process.stdin.write(text.encode())
    process.stdin.flush()


LEARN = """
import sys
from privol import PIGD
from privol.streams import open_stream
options = {"n_features": 2} if sys.argv[1] == "libsvm" else {}
learner = PIGD(epsilon=1.0, delta=1e-3, horizon=37, release=5, radius=1.0, loss="squared", random_state=3)
done = 0
def tell(learner, stream):
    global done
    if learner.n_rows_ != done:
        done = learner.n_rows_
        print(done, learner.n_releases_, flush=True)
learner.fit_stream(open_stream("-", **options), progress=tell)
print(learner.coef_.tobytes().hex(), learner.n_releases_)
"""


@posix
@pytest.mark.parametrize("kind", ["csv", "jsonl"])  # in every format, rows are delivered on arrival
def test_rows_of_a_slow_producer_are_learnt_when_they_come(tmp_path, kind):
    """The producer waits until the consumer confirms that it has learnt the rows and made its releases."""
    path = write(tmp_path, {"jsonl": "d.jsonl", "libsvm": "d.svm"}.get(kind, "d.csv"), text_of(kind, 0, 37))
    whole = PIGD(epsilon=1.0, delta=1e-3, horizon=37, release=5, radius=1.0, loss="squared", random_state=3)
    whole.fit_stream(open_stream(path, **FORMATS[kind][1]))
    with watched(start(LEARN, kind)) as process:
        first = 0
        for last in (10, 11, 20, 35, 37):
            send(process, text_of(kind, first, last))
            rows = 0
            while rows < last:
                rows, releases = map(int, process.stdout.readline().split())
            assert (rows, releases) == (last, last // 5)
            first = last
        process.stdin.close()
        coef, releases = process.stdout.read().decode().split()
        assert process.wait() == 0
        assert (bytes.fromhex(coef), int(releases)) == (whole.coef_.tobytes(), whole.n_releases_)


@posix
@pytest.mark.parametrize("read_ahead", [True, False])
@pytest.mark.parametrize("how", ["break", "error", "close", "drop"])
def test_leaving_a_silent_pipe_leaves_no_thread_behind(how, read_ahead):
    def learn(stream):
        for block in stream:
            assert len(block.y) == 2
            if how == "break":
                break
            raise ZeroDivisionError

    with pipe() as (file, send, _):
        send("1,2\n3,4\n5,")
        stream = open_stream(file, header=False, read_ahead=read_ahead)
        if how in ("close", "drop"):
            blocks = iter(stream)
            assert take(blocks, 2) == 2
            if how == "close":
                blocks.close()
            del blocks
        else:
            with contextlib.suppress(ZeroDivisionError):
                learn(stream)
        gc.collect()
        assert [thread.name for thread in threading.enumerate() if thread.name == "privol-read-ahead"] == []


LEAVE = """
import sys, threading
from privol.streams import open_stream
how, ahead = sys.argv[1:]
stream = open_stream("-", header=False, read_ahead=ahead == "ahead")
blocks = iter(stream)
n = len(next(blocks).y)
try:
    print("rows", n, flush=True)
    if how == "exit":
        sys.exit(7)
    next(blocks)
except KeyboardInterrupt:
    del blocks
    print("interrupted", [t.name for t in threading.enumerate()], flush=True)
"""


@posix
@pytest.mark.parametrize(
    ("how", "ahead", "pack"),
    [
        ("exit", "ahead", bytes),
        ("exit", "ahead", gzip.compress),  # its thread waits in a read that cannot be ended, and is left behind
        ("interrupt", "ahead", bytes),
        ("interrupt", "here", bytes),
    ],
)
def test_leaving_a_silent_pipe_does_not_hang(how, ahead, pack):
    """The producer has stalled and keeps its pipe open: this process must end."""
    with watched(start(LEAVE, how, ahead)) as process:
        process.stdin.write(pack(b"1,2\n3,4\n5,6"[: None if pack is bytes else 8]))
        process.stdin.flush()
        assert process.stdout.readline() == b"rows 2\n"
        if how == "interrupt":
            process.send_signal(signal.SIGINT)
        out, err = process.stdout.read(), process.stderr.read()
        assert process.wait() == (7 if how == "exit" else 0), err
        assert (out, err) == (b"interrupted ['MainThread']\n" if how == "interrupt" else b"", b"")


@posix
def test_a_stalled_producer_costs_hardly_any_polling(monkeypatch):
    """While it waits it polls a few times a second, not continuously."""
    looks = []
    silent = pipes.Input.silent
    monkeypatch.setattr(pipes.Input, "silent", lambda self, seconds: looks.append(seconds) or silent(self, seconds))
    with pipe() as (file, send, close):
        send("1,2\n3,4\n")
        stream = open_stream(file, header=False, read_ahead=False)
        assert isinstance(stream, Stream)
        blocks = iter(stream)
        assert take(blocks, 2) == 2
        del looks[:]
        threading.Timer(0.5, close).start()
        assert next(blocks, None) is None
        assert set(looks) == {pipes.BEAT}
