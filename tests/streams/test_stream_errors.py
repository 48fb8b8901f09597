"""Unreadable streams: every failure is an error that names its row."""

from __future__ import annotations

import gzip
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from stream_files import as_csv, drain, fails, together, write

from privol.errors import StreamError
from privol.readers import files as text_files
from privol.readers import libsvm
from privol.streams import open_stream

pytestmark = pytest.mark.slow

pytest.importorskip("pyarrow")


# --- unreadable data ---------------------------------------------------------------------


def test_no_such_file_directory_and_empty(tmp_path):
    fails(lambda: open_stream(tmp_path / "none.csv"), "none.csv", "No such file")
    fails(lambda: open_stream(tmp_path), "directory")
    for name in ("e.csv", "e.svm", "e.npy", "e.npz", "e"):
        (tmp_path / name).write_bytes(b"")
        fails(lambda name=name: open_stream(tmp_path / name), "empty")
    fails(lambda: open_stream(write(tmp_path, "e.csv.gz", "")), "empty")
    fails(lambda: open_stream(write(tmp_path, "b.csv", "\n\n")), "empty")
    fails(lambda: open_stream(write(tmp_path, "h.csv", "a,b,t\n")), "header", "no rows")
    fails(lambda: open_stream(write(tmp_path, "h2.csv", "a,b,t\n\n\n"), target="t"), "header", "no rows")
    fails(lambda: open_stream(write(tmp_path, "c.svm", "# nothing\n")), "no rows")
    fails(drain(write(tmp_path, "c.svm", "# nothing\n"), n_features=3), "no rows")
    np.save(tmp_path / "z.npy", np.ones((0, 3)))
    fails(lambda: open_stream(tmp_path / "z.npy"), "no rows")
    fails(lambda: open_stream((np.ones((0, 3)), [])), "no rows")
    fails(lambda: open_stream([]), "no block")
    fails(lambda: open_stream(iter([])), "no block")
    fails(drain(iter([(np.ones((0, 3)), [])])), "no rows")


def test_wrong_kinds_of_files(tmp_path):
    fails(lambda: open_stream(write(tmp_path, "u.csv", "a,b\n1,2\n".encode("utf-16"))), "UTF-8")
    (tmp_path / "n.csv.gz").write_bytes(b"1,2\n")
    fails(lambda: open_stream(tmp_path / "n.csv.gz"), "is not gz data")
    fails(lambda: open_stream(write(tmp_path, "t.npy", "1,2\n")), "not a readable .npy")
    fails(lambda: open_stream(write(tmp_path, "t.npz", "1,2\n")), "not a readable .npz")
    np.save(tmp_path / "o.npy", np.array([[{}]], dtype=object), allow_pickle=True)
    fails(lambda: open_stream(tmp_path / "o.npy"), "not a readable .npy")
    np.save(tmp_path / "one.npy", np.ones(3))
    fails(lambda: open_stream(tmp_path / "one.npy"), "1 dimension")
    np.save(tmp_path / "ok.npy", np.ones((4, 3)))
    write(tmp_path, "cut.npy", (tmp_path / "ok.npy").read_bytes()[:-8])
    fails(lambda: open_stream(tmp_path / "cut.npy"), "not a readable .npy")
    np.save(tmp_path / "head.npy", np.ones((40, 4)))
    head = (tmp_path / "head.npy").read_bytes()
    for found, put in ((b")", b"("), (b"40", b"9" * 40)):  # NumPy's tokenizer fails, and its map of the file
        (tmp_path / "head.npy").write_bytes(head.replace(found, put, 1)[: len(head)])
        fails(lambda: open_stream(tmp_path / "head.npy"), "not a readable .npy")
    # A gzip file without the suffix is still a gzip file.
    path = tmp_path / "plain.csv"
    path.write_bytes(gzip.compress(b"1,2\n3,4\n"))
    assert together(open_stream(path))[1].tolist() == [2, 4]


def test_the_format_is_recognised_from_the_text(tmp_path):
    for name, text, columns in (
        ("a.txt", "1 1:2 4:1\n-1 2:1\n", 4),
        ("b.txt", "1,2,3\n", 2),
        ("c", "+1 qid:3 1:2\n", 1),
        ("e.data", "1,2,3\n", 2),
    ):
        assert open_stream(write(tmp_path, name, text)).n_features == columns
    assert open_stream(write(tmp_path, "f.csv", "1 1:2 4:1\n"), format="libsvm").n_features == 4


DEEP = 150_000


def _deep(folder, bad, at=DEEP, row="0.5,1.5,1\n", rows=160_000, name="d.csv", header="a,b,t\n"):
    return write(folder, name, header + row * (at - 1) + bad + row * (rows - at))


@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ("0.5,oops,1\n", ["column 'b'", "'oops'", "number"]),
        ("0.5,1.5\n", ["2 field(s)", "3"]),
        ("0.5,1.5,2,1\n", ["4 field(s)", "3"]),
        ("0.5,1.5,7\n", ["column 't'", "'7'", "0, 1"]),
        ("0.5,1.5,\n", ["column 't'", "nothing", "0, 1"]),
        ("0.5,\xff,1\n", ["column 'b'", "UTF-8"]),
    ],
)
def test_row_number_deep_in_a_csv(tmp_path, monkeypatch, bad, words, packed):
    monkeypatch.setattr(text_files, "CHUNK_BYTES", 200_000)  # the bad row lies in the eighth chunk
    text = ("a,b,t\n" + "\n" * 5 + "0.5,1.5,1\n" * (DEEP - 1) + bad + "0.5,1.5,1\n" * 10_000).encode("latin-1")
    path = write(tmp_path, "d.csv" + packed, text)
    fails(drain(path, classes=(0, 1), block_rows=1000), f"row {DEEP}", *words, row=DEEP)


def test_row_number_deep_in_a_csv_with_one_large_chunk(tmp_path):
    fails(drain(_deep(tmp_path, "x,1,1\n")), f"row {DEEP}", "column 'a'", row=DEEP)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ("1 1:x\n", ["'1:x'"]),
        ("1 1\n", ["'1'", "index:value"]),
        ("1 2:1 1:1\n", ["index 1 after 2"]),
        ("1 2:1 2:1\n", ["index 2 after 2"]),
        ("1 1:1 9:1\n", ["index 9", "1 to 3"]),
        ("1 0:1\n", ["index 0", "1 to 3", "zero_based"]),
        ("1 -1:1\n", ["index -1", "1 to 3"]),
        ("a 1:1\n", ["label", "'a'"]),
        ("7 1:1\n", ["label", "7", "0, 1"]),
    ],
)
@pytest.mark.parametrize("fast", [True, False])
def test_row_number_deep_in_a_libsvm_file(tmp_path, monkeypatch, bad, words, fast):
    # The first bytes decide whether indices count from 0; the bad row is in a later chunk.
    monkeypatch.setattr(text_files, "CHUNK_BYTES", 100_000)
    monkeypatch.setattr(libsvm, "HEAD_BYTES", 100_000)
    rows, at = (160_000, DEEP) if fast else (16_000, 15_000)  # the slow reader needs fewer rows
    if not fast:
        monkeypatch.setattr(libsvm.LibsvmSource, "_parse_fast", lambda self, chunk: None)
    path = _deep(tmp_path, bad, at, "1 1:0.5 3:2\n", rows, "d.svm", "# made up\n\n")
    fails(drain(path, classes=(0, 1), n_features=3), f"row {at}", *words, row=at)


def test_row_number_deep_in_arrays_and_blocks(tmp_path):
    X, y = np.ones((DEEP + 10, 2)), np.zeros(DEEP + 10)
    y[DEEP - 1] = 5
    np.save(tmp_path / "d.npy", np.column_stack([X, y]))
    np.savez(tmp_path / "d.npz", X=X, y=y)
    blocks = [(X[i : i + 1000], y[i : i + 1000]) for i in range(0, len(y), 1000)]
    for data in (tmp_path / "d.npy", tmp_path / "d.npz", (X, y), (sp.csr_array(X), y), blocks, iter(blocks)):
        fails(drain(data, classes=(0, 1)), f"row {DEEP}", "5", row=DEEP)
    cells = np.ones((30, 2), dtype=object)
    cells[17, 1] = "x"
    fails(drain((cells, None), block_rows=4), "row 18", "column 1", "'x'", row=18)


def test_blocks_are_checked_against_the_first():
    def blocks(*shapes):
        return ((np.ones(s), np.zeros(s[0])) for s in shapes)

    fails(drain(blocks((4, 3), (2, 3), (5, 2))), "row 7", "2 features", "3", row=7)
    fails(drain(iter([(np.ones((4, 3)), np.zeros(3))])), "(3,)", "(4,)", row=1)
    fails(drain(iter([(np.ones((4, 3)), np.zeros(4)), np.ones((4, 3))])), "row 5", "(X, y)", row=5)
    fails(drain(iter([(np.ones((4, 3)), np.zeros(4)), (np.ones(3), 1)])), "row 5", "1 dimension", row=5)
    fails(drain(iter([(np.ones((4, 3)), np.zeros(4)), (np.ones((1, 3)), None)])), "row 5", "None", row=5)
    fails(lambda: open_stream((np.ones((2, 3)), [1, 2]), n_features=4), "3 features", "n_features=4")
    fails(lambda: open_stream((np.ones((2, 3)), [1, 2, 3])), "(3,)", row=1)
    fails(lambda: open_stream((np.ones((2, 3), dtype=complex), None)).__iter__().__next__(), "complex")


@pytest.mark.parametrize("packed", [".gz", ".bz2", ".xz"])
def test_a_file_cut_short(tmp_path, packed):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(30_000, 3)), np.ones(30_000)
    path = write(tmp_path, "d.csv" + packed, as_csv(X, y))
    path.write_bytes(path.read_bytes()[:-3000])
    rows = []

    def learn():
        for block in open_stream(path, block_rows=1000):
            np.testing.assert_array_equal(block.X, X[block.first_row - 1 :][:1000])
            rows.append(block.X.shape[0])

    with pytest.raises(StreamError, match="cut short") as found:
        learn()
    # The rows before the damage are read, and the error says where they end.
    assert sum(rows) <= found.value.row - 1 < sum(rows) + 1000
    assert sum(rows) > 10_000


def test_a_file_with_a_wrong_checksum(tmp_path):
    path = write(tmp_path, "d.csv.gz", "1,2\n" * 1000)
    data = bytearray(path.read_bytes())
    data[-6] ^= 1
    path.write_bytes(bytes(data))
    fails(drain(path), "damaged", "row 1001", row=1001)


def test_a_line_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "LINE_BYTES", 10_000)
    monkeypatch.setattr(text_files, "CHUNK_BYTES", 1000)
    path = write(tmp_path, "d.csv", "1,2\n" * 100 + "1" * 50_000 + ",2\n")
    fails(drain(path), "row 101", "longer than", row=101)


def test_a_line_longer_than_the_parsers_block_is_read(tmp_path):
    path = write(tmp_path, "d.csv", "1,2\n" + "0" * 3_000_000 + "1,2\n")
    assert together(open_stream(path))[0].tolist() == [[1], [1]]


def test_missing_pyarrow(tmp_path, monkeypatch):
    csv_path = write(tmp_path, "d.csv", "1,2\n")
    svm_path = write(tmp_path, "d.svm", "1 1:2 2:4\n-1 2:3\n")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    fails(lambda: open_stream(csv_path), "pip install 'privol[files]'")
    X, y = together(open_stream(svm_path))
    assert X.tolist() == [[2, 4], [0, 3]]
    assert y.tolist() == [1, -1]


def test_an_unclosed_quote_is_reported_without_quoting_rows(tmp_path):
    rows = [f"{i},0.5,1" for i in range(300)]
    rows[50] = '0,"open,1'
    path = write(tmp_path, "quote.csv", "a,b,t\n" + "\n".join(rows) + "\n")
    stream = open_stream(path, classes=(0, 1))
    with pytest.raises(StreamError, match="quote") as found:
        together(stream)
    assert "0.5" not in str(found.value)
    long = write(tmp_path, "long.csv", "a,t\n" + "0.5,1\n" * 5000 + '"' + "x" * 200_000 + "\n")
    with pytest.raises(StreamError, match="row 5001, column 0: a quoted cell has no closing quote"):
        together(open_stream(long, classes=(0, 1), header=True))
