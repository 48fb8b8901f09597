"""Files that change while they are read, zst, and standard input."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
import warm
from patience import WAIT
from stream_files import drain, fails, together, write

from privol.errors import StreamError
from privol.readers import files as text_files
from privol.readers.csv import CsvColumns, CsvOptions
from privol.readers.files import LineFile
from privol.streams import open_stream

pytestmark = pytest.mark.process

pyarrow = pytest.importorskip("pyarrow")


def zst(data):
    return pyarrow.compress(data, codec="zstd", asbytes=True)


def append(path, text):
    with open(path, "ab") as f:
        f.write(text)


def rows_of(stream):
    return together(stream)[1].tolist()


# --- files that change -----------------------------------------------------------------------


def test_rows_appended_after_opening_are_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "CHUNK_BYTES", 8)
    path = write(tmp_path, "d.csv", "1,1\n1,2\n1,3\n")
    stream = open_stream(path)
    append(path, b"1,4\n1,5")
    assert stream.count_rows() == 3
    append(path, b"6\n")
    assert rows_of(stream) == [1, 2, 3]
    blocks = iter(open_stream(path, block_rows=1, read_ahead=False))
    next(blocks)
    append(path, b"1,7\n")
    assert sum(1 for _ in blocks) == 4


@pytest.mark.parametrize("chunk", [1, 5, 1 << 20])
def test_a_last_line_that_was_being_written_is_left_out_of_every_pass(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(text_files, "CHUNK_BYTES", chunk)
    path = write(tmp_path, "d.csv", "1,1\n1,2\n1,34")
    stream = open_stream(path)
    append(path, b"56\n1,7\n")
    assert stream.count_rows() == 2
    assert rows_of(stream) == [1, 2]
    # the part of the line that is there decides, not the later line
    path.write_bytes(b"1,1\n1,2\n1,3")
    stream = open_stream(path)
    append(path, b"\n1,4\n")
    assert stream.count_rows() == 3
    assert rows_of(stream) == [1, 2, 3]


def test_an_unterminated_last_line_is_a_row_and_must_not_grow_later(tmp_path):
    path = write(tmp_path, "d.csv", "1,1\n1,2\n1,34")
    stream = open_stream(path)
    assert stream.count_rows() == 3
    assert rows_of(stream) == [1, 2, 34]
    append(path, b"56\n")
    fails(lambda: rows_of(stream), "d.csv", "still being written", "open the file again", row=1)


def test_an_open_quote_makes_a_last_line_unfinished(tmp_path):
    path = write(tmp_path, "d.csv", '1,"1"\n1,"2')
    with pytest.raises(StreamError, match="no closing quote"):
        rows_of(open_stream(path))
    path.write_bytes(b'1,"1"\n1,"2\n')
    file = LineFile(path)
    columns = CsvColumns(file, CsvOptions(newlines_in_values=True), target=False, labels=None)
    append(path, b'3"\n')
    for _ in range(2):
        got = [b.to_pydict() for b in columns.batches({"0": "number", "1": "text"}, 9, lambda _: None)]
        assert got == [{"0": [1], "1": ["1"]}]
    assert columns.count() == 1


@pytest.mark.parametrize("name", ["d.csv", "d.csv.gz", "d.svm", "d.jsonl"])
def test_a_file_that_shrinks_is_replaced_or_overwritten(tmp_path, monkeypatch, name):
    monkeypatch.setattr(text_files, "CHUNK_BYTES", 50)
    line = {"d.svm": "1 1:2\n", "d.jsonl": '{"a":1,"b":2}\n'}.get(name, "1,2\n")
    path = write(tmp_path, name, line * 100)
    before = path.read_bytes()
    options = {"n_features": 1, "read_ahead": False}

    stream = open_stream(path, **options)
    os.replace(write(tmp_path, "other", before), path)
    fails(lambda: rows_of(stream), name, "replaced", row=None)

    stream = open_stream(path, **options)
    os.truncate(path, len(before) - 3)
    fails(lambda: rows_of(stream), name, "shrunk", row=None)

    path.write_bytes(before)
    stream = open_stream(path, **options)
    os.utime(path, ns=(1, 1))
    fails(lambda: rows_of(stream), name, "has changed", row=None)


def test_a_file_that_shrinks_during_a_pass_hands_out_no_cut_row(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "CHUNK_BYTES", 16)
    path = write(tmp_path, "d.csv", "1,2345\n" * 3000)
    got = []

    def learn():
        for block in open_stream(path, block_rows=10, read_ahead=False):
            got.extend(block.y.tolist())
            if len(got) == 10:
                os.truncate(path, 14_000 - 3)

    with pytest.raises(StreamError, match=r"d\.csv, row .*has shrunk from 21000 to 13997 bytes"):
        learn()
    assert set(got) == {2345}


def test_a_packed_file_that_grows_is_an_error(tmp_path):
    path = write(tmp_path, "d.csv.gz", "1,2\n" * 10)
    stream = open_stream(path)
    append(path, gzip.compress(b"1,2\n"))
    fails(lambda: rows_of(stream), "d.csv.gz", "has changed", row=None)


# --- zst -------------------------------------------------------------------------------------


def test_zst(tmp_path, monkeypatch):
    rows = b"".join(b"%d,%d\n" % (i, i) for i in range(30_000))
    path = write(tmp_path, "d.csv.zst", zst(rows[:1000]) + b"\x50\x2a\x4d\x18\x01\0\0\0x" + zst(rows[1000:]))
    stream = open_stream(path, header=False, block_rows=1000)
    assert rows_of(stream) == list(range(30_000))
    assert stream.count_rows() == 30_000
    assert stream.fraction_read == 1.0
    assert rows_of(open_stream(write(tmp_path, "plain.csv", zst(rows)), header=False))[-1] == 29_999
    skipping = b"\x50\x2a\x4d\x18\x01\0\0\0x" + zst(rows)
    assert rows_of(open_stream(write(tmp_path, "d.csv.zstd", skipping), header=False))[-1] == 29_999
    fails(lambda: open_stream(write(tmp_path, "no.csv.zst", b"1,2\n")), "is not zst data")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    fails(lambda: open_stream(path), "pip install 'privol[files]'")


def test_zst_cut_short_or_damaged(tmp_path):
    rows = b"".join(b"1,%d\n" % (i * 7919 % 10_007) for i in range(300_000))
    packed = zst(rows)
    got = []

    def learn(path):
        got.clear()
        for block in open_stream(path, header=False, block_rows=100):
            got.extend(block.y.tolist())

    with pytest.raises(StreamError, match="zst data are damaged or cut short") as found:
        learn(write(tmp_path, "d.csv.zst", packed[:-100]))
    assert 100_000 < len(got) < found.value.row <= len(got) + 100
    assert got == [i * 7919 % 10_007 for i in range(len(got))]
    with pytest.raises(StreamError):
        learn(write(tmp_path, "x.csv.zst", packed[:1000] + b"\xff" * 100 + packed[1100:]))


# --- standard input --------------------------------------------------------------------------


def given(monkeypatch, data):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress, zst])
@pytest.mark.parametrize(
    ("text", "options"),
    [
        (b"a,b,t\n1,2,3\n4,5,6\n", {}),
        (b'{"a":1,"b":2,"t":3}\n{"a":4,"b":5,"t":6}\n', {}),
        (b"3 1:1 2:2\n6 1:4 2:5\n", {"n_features": 2}),
        (b"a\tb\tt\r\n1\t2\t3\r\n4\t5\t6", {"sep": "\t"}),
    ],
)
def test_standard_input(monkeypatch, text, options, pack):
    monkeypatch.setattr(text_files, "CHUNK_BYTES", 7)
    given(monkeypatch, pack(text))
    stream = open_stream("-", **options)
    assert stream.source == "standard input"
    assert not stream.repeatable
    assert stream.fraction_read is None
    fails(stream.count_rows, "standard input", "only once")
    X, y = together(stream)
    assert (X.tolist(), y.tolist()) == ([[1, 2], [4, 5]], [3, 6])
    fails(lambda: iter(stream), "only once")


def test_standard_input_that_cannot_be_used(monkeypatch):
    given(monkeypatch, b"")
    fails(lambda: open_stream("-"), "standard input", "empty")
    given(monkeypatch, b"1 1:2\n")
    fails(lambda: open_stream("-"), "n_features=")
    given(monkeypatch, gzip.compress(b"1,2\n" * 100)[:-9])
    fails(drain("-"), "standard input", "cut short", row=101)
    given(monkeypatch, b"1,2\n" * 99 + b"1,x\n")
    fails(drain("-"), "standard input, row 100", "'x'", row=100)
    monkeypatch.setattr(sys, "stdin", None)
    fails(lambda: open_stream("-"), "closed")


@pytest.mark.parametrize(
    ("text", "lacking"),
    [
        ("1,u,k,2,yes\n", ()),
        ("1,u,k,2\n", ("t",)),
        ("1,2\n", ("t", "u", "k")),
    ],
)
def test_rows_to_predict_may_lack_their_target_without_a_header(monkeypatch, tmp_path, text, lacking):
    """Standard input cannot be inspected before the names are chosen."""
    schema = {
        "file": {"format": "csv", "sep": ",", "names": ["a", "u", "k", "b", "t"]},
        "target": {"column": "t", "positive": ["yes"], "negative": ["no"]},
        "user": {"column": "u", "max_rows": 1},
        "delay": {"key": "k", "window": 1},
        "columns": {"a": {}, "b": {}},
    }
    given(monkeypatch, text.encode() * 3)
    X, y = together(open_stream("-", schema=schema, target=False))
    assert (X.tolist(), y) == ([[1, 2]] * 3, None)
    path = write(tmp_path, "d.csv", text)
    assert together(open_stream(path, schema=schema, target=False))[0].tolist() == [[1, 2]]
    if lacking:
        fails(lambda: open_stream(path, schema=schema), "names under [file] gives 5")
        given(monkeypatch, b"1,2,3\n")
        piped = lambda: open_stream("-", schema=schema, target=False)  # noqa: E731
        fails(piped, "names under [file] gives 5", "the first row has 3")


def test_a_libsvm_pipe_is_searched_for_an_index_0_without_losing_rows(monkeypatch):
    given(monkeypatch, b"1 0:5 1:2\n2 1:3\n")
    X, y = together(open_stream("-", n_features=2))
    assert (X.tolist(), y.tolist()) == ([[5, 2], [0, 3]], [1, 2])


_READ = """
import sys
from privol.streams import open_stream
print("ready", flush=True)
for block in open_stream("-", header=False):
    pass
"""


@pytest.mark.parametrize("text", [b"", b"1,2\n" * 100])
def test_an_interrupt_gets_through_to_a_reader_that_waits(text):
    reader = warm.Popen(
        [sys.executable, "-c", _READ], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        reader.stdin.write(text)
        reader.stdin.flush()
        assert reader.stdout.readline() == b"ready\n"
        time.sleep(0.5)  # so that it waits for more; an earlier interrupt would also end it
        reader.send_signal(signal.SIGINT)
        killer = threading.Timer(WAIT, reader.kill)
        killer.start()
        errors = reader.stderr.read()
        code = reader.wait()
        killer.cancel()
        assert b"KeyboardInterrupt" in errors
        assert code in (130, -signal.SIGINT)
    finally:
        reader.kill()
        for pipe in (reader.stdin, reader.stdout, reader.stderr):
            pipe.close()
