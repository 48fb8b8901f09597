"""Streams: every format gives the same rows, and every failure is an error that names its row."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file
from stream_files import PACK, as_csv, drain, fails, together, write

from privol.encoding.ranges import Ranges
from privol.errors import InvalidParameter, StreamError
from privol.readers import files as text_files
from privol.streams import open_stream

pytestmark = pytest.mark.slow

pytest.importorskip("pyarrow")


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
    dump_svmlight_file(X, 2 * y - 1, str(tmp_path / "raw"), zero_based=zero_based)  # six decimals preserve it
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


def test_a_generator_is_not_read_ahead(table):
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


@settings(max_examples=8, deadline=None)
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
        patch.setattr(text_files, "CHUNK_BYTES", chunk)  # chunks far smaller than a block, and far larger
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


def test_a_header_read_as_data_is_a_bad_row(tmp_path):
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
        {"classes": ("a", "b", "a")},
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
        {"read_ahead": None},
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


def test_no_row_within_its_ranges_is_longer_than_their_bound():
    for n in range(1, 400):
        bound = Ranges([(0, 1)] * n, n, None).row_bound
        assert Fraction(bound) ** 2 >= n >= Fraction(math.nextafter(bound, 0.0)) ** 2 * (1 - Fraction(1, 1 << 50))


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
        assert open_stream(path, ranges=ranges).row_bound is None
    bounded = open_stream(path, ranges=[(0, 2)] * 3).row_bound
    assert 3**0.5 <= bounded <= 3**0.5 * (1 + 1e-15)
    fails(lambda: open_stream(path, ranges={"t": (0, 1)}), "'t'", "a, b, c")
    fails(lambda: open_stream(path, ranges=tmp_path / "none.json"), "none.json")
    (tmp_path / "bad.json").write_text("[1")
    fails(lambda: open_stream(path, ranges=tmp_path / "bad.json"), "not JSON")
    for content, words in (
        ("[1, 2]", "must hold"),
        ('{"a": [0, 1' + 400 * "0" + "]}", "feature 'a' must be finite low < high"),  # an integer beyond the doubles
        ('{"a": 3}', "feature 'a' must be finite low < high"),
        ('{"a": "12"}', "feature 'a' must be finite low < high, found '12'"),  # two digits are no pair
        ('{"a": [false, true]}', "feature 'a' must be finite low < high"),
        ('{"a": ["0", "1"]}', "feature 'a' must be finite low < high"),
    ):
        (tmp_path / "bad.json").write_text(content)
        with pytest.raises((StreamError, InvalidParameter), match=words):
            open_stream(path, ranges=tmp_path / "bad.json")


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
