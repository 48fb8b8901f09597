"""Streams: every format gives the same rows, every stumble is an error that names its row."""

from __future__ import annotations

import bz2
import gc
import gzip
import json
import lzma
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from privol.errors import InvalidParameter, StreamError
from privol.streams import Block, _files, _libsvm, open_stream

pytest.importorskip("pyarrow")

PACK = {"": lambda b: b, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


def together(stream):
    """All blocks as one (X, y), with the row numbers checked on the way."""
    X, y, row = [], [], 1
    for block in stream:
        assert isinstance(block, Block)
        assert block.first_row == row
        n = block.X.shape[0]
        assert n > 0
        assert block.X.shape == (n, stream.n_features)
        if sp.issparse(block.X):
            assert block.X.format == "csr"
            assert block.X.indices.dtype in (np.int32, np.int64)
            assert block.X.dtype in (np.float32, np.float64)
        else:
            assert block.X.flags.c_contiguous
            assert block.X.dtype in (np.float32, np.float64)
        if block.y is not None:
            assert block.y.dtype == np.float64
            assert block.y.shape == (n,)
        X.append(block.X.toarray() if sp.issparse(block.X) else block.X)
        y.append(block.y)
        row += n
    return np.vstack(X), None if y[0] is None else np.concatenate(y)


def write(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    data = text.encode() if isinstance(text, str) else text
    path.write_bytes(PACK.get(path.suffix, PACK[""])(data))
    return path


def fails(call, *words, row=None):
    with pytest.raises(StreamError) as found:
        call()
    message = str(found.value)
    for word in words:
        assert str(word) in message, message
    assert found.value.row == row, message
    return message


def drain(path, **options):
    return lambda: together(open_stream(path, **options))


@pytest.fixture
def table():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(500, 3)).round(6)
    return X, (rng.random(500) < 0.4).astype(float)


def as_csv(X, y, header=None, labels=None, sep=",", end="\n"):
    lines = [sep.join(header)] if header else []
    for x, t in zip(X, y, strict=True):
        lines.append(sep.join([*(repr(float(v)) for v in x), labels[int(t)] if labels else repr(float(t))]))
    return end.join(lines) + end


@pytest.fixture
def data_folder():
    folder = os.environ.get("PRIVOL_DATA")
    if not folder:
        pytest.skip("PRIVOL_DATA does not name the folder of the real data sets")
    return Path(folder)


# --- the same rows from every format -------------------------------------------------


@pytest.mark.parametrize("packed", PACK)
def test_csv_plain_and_packed(tmp_path, table, packed):
    X, y = table
    path = write(tmp_path, "d.csv" + packed, as_csv(X, y, ["a", "b", "c", "t"], ["no", "yes"]))
    stream = open_stream(path, target="t", classes=("no", "yes"), block_rows=64)
    assert stream.feature_names == ("a", "b", "c")
    assert stream.classes == ("no", "yes")
    assert stream.n_rows is None
    assert stream.source == path.name
    assert stream.repeatable
    assert stream.fraction_read == 0.0
    for _ in range(2):
        got = together(stream)
        np.testing.assert_array_equal(got[0], X)
        np.testing.assert_array_equal(got[1], y)
        assert stream.fraction_read == 1.0
    assert stream.count_rows() == stream.n_rows == 500


@pytest.mark.parametrize("packed", PACK)
@pytest.mark.parametrize("zero_based", [False, True])
@pytest.mark.parametrize("declared", [None, 3])
def test_libsvm_plain_and_packed(tmp_path, table, packed, zero_based, declared):
    X, y = table
    X = np.where(np.abs(X) < 0.3, 0, X)
    dump_svmlight_file(X, 2 * y - 1, str(tmp_path / "raw"), zero_based=zero_based)  # six decimals survive it
    path = write(tmp_path, "d.svm" + packed, (tmp_path / "raw").read_bytes())
    stream = open_stream(path, classes=(-1, 1), n_features=declared, block_rows=64)
    got = together(stream)
    np.testing.assert_array_equal(got[0], X)
    np.testing.assert_array_equal(got[1], y)
    assert stream.n_rows == (None if declared else 500)
    assert stream.count_rows() == 500


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["f8", "f4", ">f8", "i4", "u1", "f2"])
@pytest.mark.parametrize("target", [None, 0, -2, False])
def test_npy(tmp_path, order, dtype, target):
    table = np.asarray(np.arange(40).reshape(10, 4) % 7, dtype=dtype, order=order)
    np.save(tmp_path / "d.npy", table)
    for data in (tmp_path / "d.npy", table):
        stream = open_stream(data, target=target, block_rows=3)
        X, y = together(stream)
        t = 3 if target is None else target
        if target is False:
            assert y is None
            np.testing.assert_array_equal(X, table)
        else:
            np.testing.assert_array_equal(y, table[:, t])
            np.testing.assert_array_equal(X, np.delete(table, t, axis=1))
        assert X.dtype == (np.float32 if dtype == "f4" else np.float64)
        assert stream.n_rows == 10
        assert stream.fraction_read == 1.0


def test_npz(tmp_path, table):
    X, y = table
    np.savez(tmp_path / "dense.npz", X=X, y=np.where(y == 1, "yes", "no"))
    got = together(open_stream(tmp_path / "dense.npz", positive="yes"))
    np.testing.assert_array_equal(got[0], X)
    np.testing.assert_array_equal(got[1], y)
    sp.save_npz(tmp_path / "sparse.npz", sp.csc_array(X))
    fails(lambda: open_stream(tmp_path / "sparse.npz"), "no array 'y'")
    with np.load(tmp_path / "sparse.npz") as parts:
        np.savez(tmp_path / "both.npz", y=y, **parts)
    got = together(open_stream(tmp_path / "both.npz", classes=(0, 1), block_rows=7))
    np.testing.assert_array_equal(got[0], X)
    np.savez(tmp_path / "other.npz", A=X)
    fails(lambda: open_stream(tmp_path / "other.npz"), "['A']", "'X' and 'y'")


def test_arrays_are_not_copied_where_it_is_not_needed(table):
    X, y = table
    for block in open_stream((X, y), block_rows=100):
        assert np.shares_memory(block.X, X)
    wide = np.asfortranarray(X.astype(np.float32))
    got = together(open_stream((wide, y), block_rows=99))[0]
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, wide)
    assert together(open_stream((X.tolist(), None)))[1] is None
    assert together(open_stream((X[::2], y[::2, None]), block_rows=10))[1].shape == (250,)


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_matrix, sp.coo_array])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i8"])
def test_sparse_arrays_stay_csr(table, kind, dtype):
    X, y = table
    X = np.trunc(X).astype(dtype)
    stream = open_stream((kind(X), y), block_rows=33)
    assert next(iter(stream)).X.dtype == (np.float32 if dtype == "f4" else np.float64)
    np.testing.assert_array_equal(together(stream)[0], X)


def test_blocks_from_a_generator_and_from_a_list(table):
    X, y = table
    cuts = [(X[:7], y[:7]), (X[7:7], y[7:7]), (X[7:300], y[7:300]), (X[300:], y[300:])]
    live = open_stream((b for b in cuts), block_rows=100)
    assert not live.repeatable
    assert live.n_rows is None
    assert live.fraction_read is None
    assert live.n_features == 3
    fails(live.count_rows, "only once")
    sizes = [block.X.shape[0] for block in live]
    assert sizes == [7, 100, 100, 93, 100, 100]  # split, never joined: a live row is not held back
    fails(lambda: iter(live), "only once")
    listed = open_stream(cuts)
    assert listed.repeatable
    assert listed.n_rows == 500
    for _ in range(2):
        np.testing.assert_array_equal(together(listed)[0], X)
    assert listed.fraction_read == 1.0


def test_a_generator_is_read_one_block_ahead_of_nothing(table):
    taken = []

    def blocks():
        for i in range(5):
            taken.append(i)
            yield table[0], table[1]

    stream = open_stream(blocks())
    assert taken == [0]
    rows = iter(stream)
    next(rows)
    assert taken == [0]
    next(rows)
    assert taken == [0, 1]


# --- any block size gives the same rows ------------------------------------------------


@settings(max_examples=15, deadline=None)
@given(
    block_rows=st.integers(1, 400),
    other=st.integers(1, 400),
    chunk=st.sampled_from([300, 5000, 1 << 20]),
    end=st.sampled_from(["\n", "\r\n"]),
    closed=st.booleans(),
)
def test_block_rows_never_change_the_rows(tmp_path_factory, block_rows, other, chunk, end, closed):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 4)), rng.integers(0, 2, 300).astype(float)
    folder = tmp_path_factory.mktemp("blocks")
    text = as_csv(X, y, end=end)
    write(folder, "d.csv", text if closed else text[: -len(end)])
    pairs = (" ".join(f"{j}:{float(v)!r}" for j, v in enumerate(x, 1)) for x in X)
    write(folder, "d.svm", "".join(f"{t:g} {x}{end}" for t, x in zip(y, pairs, strict=True)))
    np.save(folder / "d.npy", np.column_stack([X, y]))
    blocks = [(X[i : i + 37], y[i : i + 37]) for i in range(0, 300, 37)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_files, "CHUNK_BYTES", chunk)  # chunks far smaller than a block, and far larger
        for data in (
            folder / "d.csv",
            folder / "d.svm",
            folder / "d.npy",
            (X, y),
            (sp.csr_array(X), y),
            blocks,
        ):
            for rows in (block_rows, other):
                stream = open_stream(data, classes=(0, 1), block_rows=rows)
                got = together(stream)
                np.testing.assert_array_equal(got[0], X)
                np.testing.assert_array_equal(got[1], y)
                assert stream.count_rows() == 300
                if data is not blocks:
                    sizes = [b.X.shape[0] for b in stream]
                    assert sizes[:-1] == [rows] * (len(sizes) - 1)


def test_wide_dense_files_get_smaller_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("privol.streams._base.BLOCK_BYTES", 8 * 3 * 10)
    path = write(tmp_path, "d.csv", "1,2,3,0\n" * 25)
    assert [b.X.shape[0] for b in open_stream(path)] == [10, 10, 5]


# --- CSV: header, target, cells ---------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "options", "names", "rows"),
    [
        ("1,2,0\n3,4,1\n", {}, None, 2),
        ("a,b,t\n3,4,1\n", {}, ("a", "b"), 1),
        (" a , b ,t\n3,4,1\n", {"target": "t"}, ("a", "b"), 1),
        (",a,t\n0,4,1\n", {}, ("", "a"), 1),
        ("1,2,yes\n3,4,no\n", {"positive": "yes"}, None, 2),
        ("1,2,t\n3,4,1\n", {}, ("1", "2"), 1),  # numbered columns, target named
        ("1,2,3\n3,4,1\n", {"header": True}, ("1", "2"), 1),
        ("1,2,3\n3,4,1\n", {"target": "3"}, ("1", "2"), 1),
        ("3,4,1\n", {}, None, 1),
        ("t,a\n1,2\n", {"target": 0}, ("a",), 1),
        ("a;b\n1;2\n", {"sep": ";"}, ("a",), 1),
        ('"a,x","b"\r\n"1","2"\r\n', {}, ("a,x",), 1),
        ("\ufeffa,b\n1,2\n", {}, ("a",), 1),
        ("\n\na,b\n\n1,2\n\n\n3,4\n\n", {}, ("a",), 2),
        ("1,2\r3,4\r", {}, None, 2),
    ],
)
def test_header(tmp_path, text, options, names, rows):
    stream = open_stream(write(tmp_path, "d.csv", text), **options)
    assert stream.feature_names == names
    assert len(together(stream)[0]) == rows
    assert stream.count_rows() == rows


def test_header_that_is_forced_off_is_a_bad_row(tmp_path):
    path = write(tmp_path, "d.csv", "a,b\n1,2\n")
    fails(drain(path, header=False), "row 1", "column 0", "'a'", "number", row=1)


def test_target_column(tmp_path):
    path = write(tmp_path, "d.csv", "a,t,c\n1,2,3\n4,5,6\n")
    for target in ("t", 1, -2, np.int64(1)):
        stream = open_stream(path, target=target)
        X, y = together(stream)
        assert stream.feature_names == ("a", "c")
        assert y.tolist() == [2, 5]
        assert X.tolist() == [[1, 3], [4, 6]]
    X, y = together(open_stream(path, target=False))
    assert y is None
    assert X.shape == (2, 3)
    fails(lambda: open_stream(path, target="z"), "'z'", "0 to 2", "a, t, c")
    fails(lambda: open_stream(path, target=3), "0 to 2", "a, t, c")
    fails(lambda: open_stream(write(tmp_path, "n.csv", "1,2\n"), target="z"), "no header", "0 to 1")
    fails(lambda: open_stream(write(tmp_path, "o.csv", "1\n2\n")), "only one column")
    fails(lambda: open_stream(write(tmp_path, "t.csv", "a,a,b\n1,2,3\n")), "'a'", "differ")


def test_missing_cells_and_nonfinite_values_are_left_to_the_learner(tmp_path):
    path = write(tmp_path, "d.csv", '1,,0\n ,2,1\nnan,inf,\n-Inf," 7 ",0\n')
    X, y = together(open_stream(path, header=False))
    np.testing.assert_array_equal(X, [[1, np.nan], [np.nan, 2], [np.nan, np.inf], [-np.inf, 7]])
    np.testing.assert_array_equal(y, [0, 1, np.nan, 0])


# --- labels -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csv", "text", "object", "number"])
def test_classes_and_positive(tmp_path, kind):
    labels = ["1", "2", "3", "2"]
    X = np.ones((4, 1))

    def opened(**options):
        if kind == "csv":
            return open_stream(write(tmp_path, "d.csv", "".join(f"1, {v} \n" for v in labels)), **options)
        y = {"text": np.array(labels), "object": np.array(labels, object), "number": np.array([1, 2, 3, 2])}[kind]
        return open_stream((X, y), **options)

    for two in (2, "2", 2.0, " 2 "):
        stream = opened(positive=two)
        assert together(stream)[1].tolist() == [0, 1, 0, 1]
    assert opened(positive=" 2 ").classes == ("not 2", "2")
    stream = opened(classes=range(1, 4), positive=3)
    assert together(stream)[1].tolist() == [0, 0, 1, 0]
    assert stream.classes == ("not 3", 3)
    stream = opened(classes=(1, 2))
    assert stream.classes == (1, 2)
    fails(lambda: together(stream), "row 3", "found", "3", "one of 1, 2", row=3)
    assert together(opened())[1].tolist() == [1, 2, 3, 2]


def test_nothing_of_a_block_with_a_bad_label_is_handed_out():
    y = np.array(["a"] * 10 + ["c"])
    stream = open_stream((np.ones((11, 2)), y), classes=("a", "b"), block_rows=4)
    seen = []

    def learn():
        seen.extend(block.X.shape[0] for block in stream)

    fails(learn, "row 11", "found 'c', allowed is one of 'a', 'b'", row=11)
    assert seen == [4, 4]


def test_missing_labels_are_never_the_rest(tmp_path):
    fails(drain(write(tmp_path, "d.csv", "1,a\n1,\n"), positive="a", header=False), "row 2", "nothing", row=2)
    fails(drain((np.ones((2, 1)), [1.0, np.nan]), positive=1), "row 2", row=2)
    fails(drain((np.ones((2, 1)), ["a", None]), positive="a"), "row 2", row=2)


@pytest.mark.parametrize(
    "options",
    [
        {"classes": ("a",)},
        {"classes": ("a", "b", "c")},
        {"classes": ("1", 1)},
        {"classes": "ab"},
        {"classes": ("a", "")},
        {"classes": ("a", "b"), "positive": "c"},
        {"positive": ""},
        {"positive": float("nan")},
        {"block_rows": 0},
        {"block_rows": 2.5},
        {"n_features": 0},
        {"format": "csv"},
        {"sep": ",,"},
        {"header": 1},
        {"target": 0},
        {"ranges": [(0, 1)]},
        {"ranges": [(0, 1), (1, 1)]},
        {"ranges": [(0, 1), (0, np.inf)]},
        {"ranges": 3},
    ],
)
def test_wrong_parameters(options):
    with pytest.raises(InvalidParameter):
        open_stream((np.ones((2, 2)), [0, 1]), **options)


# --- ranges -----------------------------------------------------------------------------


def test_ranges(tmp_path):
    path = write(tmp_path, "d.csv", "a,b,c,t\n0,5,-1e308,1\n10,5,1e308,1\n99,5,0,0\n-99,,nan,0\ninf,5,-inf,0\n")
    public = {"a": [0, 10], "c": [-1e308, 1e308]}
    (tmp_path / "r.json").write_text(json.dumps(public))
    expected = [[-1, 5, -1], [1, 5, 1], [1, 5, 0], [-1, np.nan, np.nan], [np.inf, 5, -np.inf]]
    for ranges in (
        public,
        tmp_path / "r.json",
        [(0, 10), None, (-1e308, 1e308)],
        {0: (0, 10), 2: public["c"]},
    ):
        np.testing.assert_array_equal(together(open_stream(path, ranges=ranges, block_rows=2))[0], expected)
    fails(lambda: open_stream(path, ranges={"t": (0, 1)}), "'t'", "a, b, c")
    fails(lambda: open_stream(path, ranges=tmp_path / "none.json"), "none.json")
    (tmp_path / "bad.json").write_text("[1")
    fails(lambda: open_stream(path, ranges=tmp_path / "bad.json"), "not JSON")


def test_ranges_leave_the_callers_array_alone_and_give_one_result_for_both_widths():
    X = np.arange(12.0).reshape(4, 3)
    kept = X.copy()
    wide = together(open_stream((X, None), ranges=[(0, 7)] * 3))[0]
    np.testing.assert_array_equal(X, kept)
    narrow = together(open_stream((X.astype(np.float32), None), ranges=[(0, 7)] * 3))[0]
    assert narrow.dtype == np.float64
    np.testing.assert_array_equal(wide, narrow)
    np.testing.assert_allclose(wide, np.clip(2 * X / 7 - 1, -1, 1), rtol=0, atol=1e-15)


def test_ranges_refuse_sparse_rows():
    X = sp.csr_array(np.eye(3))
    fails(lambda: open_stream((X, [1, 2, 3]), ranges=[(0, 1)] * 3), "sparse")
    mixed = [(np.eye(3), [1, 2, 3]), (X, [1, 2, 3])]
    fails(drain(mixed, ranges=[(0, 1)] * 3), "sparse", "row 4", row=4)


# --- what cannot be read ------------------------------------------------------------------


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
    # A gzip file without the suffix is still a gzip file.
    path = tmp_path / "plain.csv"
    path.write_bytes(gzip.compress(b"1,2\n3,4\n"))
    assert together(open_stream(path))[1].tolist() == [2, 4]


def test_format_is_seen_in_the_text(tmp_path):
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
    monkeypatch.setattr(_files, "CHUNK_BYTES", 200_000)  # the bad row lies in the eighth chunk
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
    # Whether indices count from 0 is decided by the first chunk, the bad row lies in a later one.
    monkeypatch.setattr(_files, "CHUNK_BYTES", 100_000)
    rows, at = (160_000, DEEP) if fast else (16_000, 15_000)  # the slow reader needs fewer rows
    if not fast:
        monkeypatch.setattr(_libsvm.LibsvmSource, "_parse_fast", lambda self, chunk: None)
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
    X, y = rng.normal(size=(60_000, 3)), np.ones(60_000)
    path = write(tmp_path, "d.csv" + packed, as_csv(X, y))
    path.write_bytes(path.read_bytes()[:-3000])
    rows = []

    def learn():
        for block in open_stream(path, block_rows=1000):
            np.testing.assert_array_equal(block.X, X[block.first_row - 1 :][:1000])
            rows.append(block.X.shape[0])

    with pytest.raises(StreamError, match="cut short") as found:
        learn()
    # What precedes the damage is read, and the error says where that ends.
    assert sum(rows) <= found.value.row - 1 < sum(rows) + 1000
    assert sum(rows) > 10_000


def test_a_file_with_a_wrong_checksum(tmp_path):
    path = write(tmp_path, "d.csv.gz", "1,2\n" * 1000)
    data = bytearray(path.read_bytes())
    data[-6] ^= 1
    path.write_bytes(bytes(data))
    fails(drain(path), "damaged", "row 1001", row=1001)


def test_a_line_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(_files, "LINE_BYTES", 10_000)
    monkeypatch.setattr(_files, "CHUNK_BYTES", 1000)
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


# --- libsvm: the two readers agree ---------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.floats(allow_nan=False),
            st.dictionaries(st.integers(1, 50), st.floats(allow_nan=False), max_size=6),
            st.sampled_from(["\n", "\r\n", " \n", "\n\n", " # c\n"]),
            st.sampled_from([" ", "\t", "  "]),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_libsvm_fast_reader_equals_sklearn(tmp_path_factory, rows):
    text = ""
    for label, pairs, end, gap in rows:
        text += gap.join([repr(label), *(f"{i}:{pairs[i]!r}" for i in sorted(pairs))]) + end
    path = write(tmp_path_factory.mktemp("svm"), "d.svm", text)
    X, y = load_svmlight_file(str(path), n_features=50, zero_based=False)
    stream = open_stream(path, n_features=50, zero_based=False)
    got = together(stream)
    np.testing.assert_array_equal(got[0], X.toarray())
    np.testing.assert_array_equal(got[1], y)
    assert stream.count_rows() == len(rows)


def test_libsvm_fast_reader_is_used(tmp_path, monkeypatch):
    def refuse(*args):
        raise AssertionError("the slow reader was called")

    monkeypatch.setattr(_libsvm.LibsvmSource, "_parse", refuse)
    path = write(tmp_path, "d.svm", "1 1:2 2:4\n-1\n1\t2:3 \r\n")
    assert together(open_stream(path))[0].tolist() == [[2, 4], [0, 0], [0, 3]]


def test_libsvm_minus_one_as_an_index_is_no_new_row(tmp_path):
    path = write(tmp_path, "d.svm", "1 1:2\n1 -1:2 1:3\n")
    fails(drain(path, n_features=2), "row 2", "-1", row=2)


# --- resources -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["d.csv", "d.csv.gz", "d.csv.bz2", "d.csv.xz", "d.svm"])
def test_files_are_closed(tmp_path, monkeypatch, name):
    monkeypatch.setattr(_files, "CHUNK_BYTES", 1000)
    text = "1 1:2\n" * 3000 if name == "d.svm" else "1,2\n" * 3000
    path = write(tmp_path, name, text)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        rows = iter(open_stream(path, block_rows=10))
        next(rows)
        if os.path.isdir("/proc/self/fd"):
            assert str(path) in _open_files()
        rows.close()
        if os.path.isdir("/proc/self/fd"):
            assert str(path) not in _open_files()
        del rows
        gc.collect()


def _open_files():
    found = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            found.append(os.path.realpath(os.readlink(f"/proc/self/fd/{fd}")))
        except OSError:
            continue
    return found


_PEAK = """
import sys
from privol.streams import open_stream
rows = sum(block.X.shape[0] for block in open_stream(sys.argv[1], block_rows=4096))
with open("/proc/self/status") as status:
    peak = next(line for line in status if line.startswith("VmHWM:"))
print(rows, int(peak.split()[1]) * 1024)
"""


# The kernel's high-water mark of the reader's own memory: getrusage would count the
# parent's, which a child inherits before it starts its program.
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="the peak is read from /proc")
@pytest.mark.parametrize("kind", ["csv", "csv.gz", "npy"])
def test_memory_is_flat(tmp_path, kind):
    """Three times the rows may not cost a third of what the additional rows weigh as an array.

    The files are larger than a few chunks, so that reading one whole (as text,
    columns or rows) fails; 40 columns make 320 bytes a row.
    """
    peaks = []
    for rows in (120_000, 360_000):
        if kind == "npy":
            path = tmp_path / f"{rows}.npy"
            np.save(path, np.zeros((rows, 41)))
        else:
            path = write(tmp_path, f"{rows}.{kind}", ("123456.5," * 40 + "1\n") * rows)
        done = subprocess.run([sys.executable, "-c", _PEAK, str(path)], capture_output=True, text=True, check=True)
        read, peak = map(int, done.stdout.split())
        assert read == rows
        peaks.append(peak)
    assert peaks[1] - peaks[0] < 240_000 * 320 / 3


# --- real files -------------------------------------------------------------------------------


def test_covtype(data_folder):
    stream = open_stream(data_folder / "covtype.data.gz", classes=range(1, 8), positive=2)
    rows = positives = 0
    fractions = []
    for block in stream:
        assert not np.isnan(block.X).any()
        rows += len(block.y)
        positives += int(block.y.sum())
        fractions.append(stream.fraction_read)
    assert (rows, positives, stream.n_features, stream.feature_names) == (581_012, 283_301, 54, None)
    assert fractions == sorted(fractions)
    assert 0 < fractions[0] < 0.5
    assert stream.fraction_read == 1.0
    assert stream.count_rows() == rows


def test_rcv1(data_folder):
    path = data_folder / "rcv1_subsets.binary.bz2"
    stream = open_stream(path, classes=(-1, 1), n_features=47_236, block_rows=5000)
    X = sp.vstack([b.X for b in stream])
    y = np.concatenate([b.y for b in stream])
    with bz2.open(path) as f:
        expected, labels = load_svmlight_file(f, n_features=47_236)
    assert X.shape == (23_749, 47_236)
    assert X.nnz == 1_783_774
    assert y.sum() == 11_829
    assert (expected != X).nnz == 0
    np.testing.assert_array_equal(2 * y - 1, labels)


def test_casp(data_folder):
    stream = open_stream(data_folder / "CASP.csv.gz", target="RMSD")
    X, y = together(stream)
    assert stream.feature_names == tuple(f"F{i}" for i in range(1, 10))
    assert stream.classes is None
    assert X.shape == (45_730, 9)
    assert round(float(y.mean()), 3) == 7.749
    assert y.max() == 20.999


def test_files_with_categories_say_where(data_folder):
    fails(drain(data_folder / "adult.data.gz", positive=">50K"), "row 1", "column 1", "State-gov", row=1)
    fails(
        drain(data_folder / "diabetic_data.csv.gz", target="readmitted", positive="<30"),
        "row 1",
        "column 'race'",
        row=1,
    )
