"""Directories and patterns of parts: one stream, and errors that name the part and the row in it."""

from __future__ import annotations

import gzip
import json
import os
import shutil

import numpy as np
import pytest
import scipy.sparse as sp
from stream_files import as_csv, drain, fails, together, write

from privol.streams import open_stream

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

SIZES = (40, 25, 35)


@pytest.fixture
def parts(tmp_path):
    """A function that writes the same three parts in a format, each with another order of columns."""
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(sum(SIZES), 3)).round(6), rng.integers(0, 2, sum(SIZES)).astype(float)
    cuts = np.cumsum((0, *SIZES))

    def make(format, names=("part-1", "part-2", "part-3")):
        folder = tmp_path / format
        folder.mkdir()
        for i, name in enumerate(names):
            rows, targets = X[cuts[i] : cuts[i + 1]], y[cuts[i] : cuts[i + 1]]
            table = {"a": rows[:, 0], "b": rows[:, 1], "t": targets, "c": rows[:, 2]}
            order = [("a", "b", "t", "c"), ("t", "c", "b", "a"), ("c", "a", "t", "b")][i]
            if format == "csv":
                values = zip(*(table[k] for k in order), strict=True)
                text = "\n".join([",".join(order), *(",".join(repr(float(v)) for v in row) for row in values)])
                write(folder, f"{name}.csv", text)
            elif format == "jsonl":
                lines = [{k: float(table[k][j]) for k in order} for j in range(len(rows))]
                write(folder, f"{name}.jsonl", "\n".join(map(json.dumps, lines)))
            elif format == "parquet":
                pq.write_table(pa.table({k: table[k] for k in order}), folder / f"{name}.parquet")
            elif format == "npy":
                np.save(folder / f"{name}.npy", np.column_stack([rows, targets]))
            elif format == "npz":
                np.savez(folder / f"{name}.npz", X=rows, y=targets)
            elif format == "bare":
                write(folder, f"{name}.csv", as_csv(rows, targets))
        return folder, X, y

    return make


@pytest.mark.parametrize("read_ahead", [True, False])
@pytest.mark.parametrize("format", ["csv", "jsonl", "parquet", "npy", "npz", "bare"])
def test_parts_are_one_stream(parts, format, read_ahead):
    folder, X, y = parts(format)
    write(folder, ".hidden", "x")
    write(folder, "_SUCCESS", "")
    named = format in ("csv", "jsonl", "parquet")
    options = {"target": "t"} if named else {}
    for data in (
        folder,
        str(folder),
        str(folder / "part-*"),
        str(folder / "part-[123].*"),
        str(folder.parent / "**/part-*"),
    ):
        stream = open_stream(data, classes=(0, 1), block_rows=33, read_ahead=read_ahead, **options)
        assert stream.feature_names == (("a", "b", "c") if named else None)
        assert stream.n_rows == (100 if format in ("parquet", "npy", "npz") else None)
        fractions = []
        for _ in range(2):
            fractions = [stream.fraction_read for _ in stream]
        assert fractions == sorted(fractions)
        assert 0 <= fractions[0] < 0.7 < fractions[-1] <= 1
        got = together(stream)
        np.testing.assert_array_equal(got[0], X)
        np.testing.assert_array_equal(got[1], y)
        assert stream.fraction_read == 1.0
        assert stream.count_rows() == 100


def test_parts_are_in_the_order_of_their_names(tmp_path):
    for name in ("b", "a", "c"):
        write(tmp_path, f"{name}.csv", f"{ord(name)},1\n")
    assert together(open_stream(tmp_path))[0].ravel().tolist() == [97, 98, 99]


def test_libsvm_parts_have_the_widest_width_and_one_base(tmp_path):
    one, zero = tmp_path / "one", tmp_path / "zero"
    for folder in (one, zero):
        folder.mkdir()
    write(one, "1.svm", "1 1:5\n-1 2:6\n")
    write(one, "2.svm.gz", "1 4:7\n")
    write(one, "3.svm", "-1 3:8\n")
    stream = open_stream(one, classes=(-1, 1), block_rows=3)
    X, y = together(stream)
    assert X.tolist() == [[5, 0, 0, 0], [0, 6, 0, 0], [0, 0, 0, 7], [0, 0, 8, 0]]
    assert y.tolist() == [1, 0, 1, 0]
    assert stream.n_rows == 4
    fails(drain(one, n_features=3), "2.svm.gz, row 1 (row 3 of all)", "index 4", row=3)
    write(zero, "1.svm", "1 1:5\n-1 2:6\n")
    write(zero, "2.svm", "1 0:7\n")
    for options in ({}, {"n_features": 3}, {"zero_based": True}):
        assert together(open_stream(zero, **options))[0].tolist() == [[0, 5, 0], [0, 0, 6], [7, 0, 0]]


def test_a_column_missing_in_a_later_part(parts, tmp_path):
    for format in ("csv", "jsonl", "parquet"):
        folder, *_ = parts(format)
        rows = {"a": [1.0], "t": [1.0], "c": [2.0]}
        path = folder / f"part-9.{format}"

        def save(rows, path=path, format=format):
            if format == "csv":
                write(path.parent, path.name, ",".join(rows) + "\n" + ",".join(str(v[0]) for v in rows.values()))
            elif format == "jsonl":
                write(path.parent, path.name, json.dumps({k: v[0] for k, v in rows.items()}))
            else:
                pq.write_table(pa.table(rows), path)

        save(rows)
        fails(lambda folder=folder: open_stream(folder, target="t"), path.name, "no column 'b'", "part-1")
        save({**rows, "b": [1.0], "z": [1.0]})
        fails(lambda folder=folder: open_stream(folder, target="t"), path.name, "a column 'z'", "part-1")
    folder, *_ = parts("bare")
    write(folder, "part-9.csv", "1,2,3\n")
    fails(lambda: open_stream(folder), "part-9.csv", "3 columns", "4 as in part-1.csv")
    write(folder, "part-9.csv", "a,b,c,t\n1,2,3,1\n")
    fails(lambda: open_stream(folder), "part-9.csv", "part-1.csv has none", "header=")
    folder, *_ = parts("npy")
    np.save(folder / "part-9.npy", np.ones((2, 3)))
    fails(lambda: open_stream(folder), "part-9.npy", "2 features", "3 as in part-1.npy")
    folder, *_ = parts("npz")
    np.savez(folder / "part-9.npz", y=[1.0], **sp_parts(sp.csr_array(np.ones((1, 3)))))
    fails(lambda: open_stream(folder), "both dense or both sparse")


def sp_parts(X):
    return {"format": b"csr", "shape": X.shape, "data": X.data, "indices": X.indices, "indptr": X.indptr}


def test_a_type_that_differs_in_a_later_part(parts):
    folder, *_ = parts("parquet")
    pq.write_table(pa.table({"a": ["x"], "b": [1.0], "c": [1], "t": [1]}), folder / "part-9.parquet")
    fails(lambda: open_stream(folder, target="t"), "part-9.parquet", "column 'a'", "string")


@pytest.mark.parametrize("block_rows", [1, 1000])
def test_errors_name_the_part_and_the_row_in_it(parts, block_rows):
    folder, *_ = parts("csv")
    for bad, words in (
        ("1,oops,2,3", ["part-2.csv, row 26 (row 66 of all)", "column 'c'", "'oops'"]),  # by the parser
        ("7,1,2,3", ["part-2.csv, column 't', row 26 (row 66 of all)", "7"]),  # by the labels
        ("7,1,2", ["part-2.csv, row 26 (row 66 of all)", "3 field(s)"]),
    ):
        text = (folder / "part-2.csv").read_text()
        write(folder, "part-2.csv", text + "\n" + bad)
        fails(drain(folder, target="t", classes=(0, 1), block_rows=block_rows), *words, row=66)
        write(folder, "part-2.csv", text)
    # a thousand rows in all: the row number in the whole is easy to read
    write(folder, "part-0.csv", "a,b,t,c\n" + "1,2,1,3\n" * 2000)
    write(folder, "part-3.csv", "a,b,t,c\n1,2,1,x")
    fails(drain(folder, target="t"), "part-3.csv, row 1 (row 2,066 of all)", row=2066)
    # in the first part both are the same
    write(folder, "part-0.csv", "a,b,t,c\n1,2,1,3\n1,2,5,3\n")
    message = fails(drain(folder, target="t", classes=(0, 1)), "part-0.csv, column 't', row 2: found", row=2)
    assert "of all" not in message


def test_errors_of_a_schema_name_the_part(parts):
    folder, *_ = parts("parquet")
    pq.write_table(pa.table({"a": [1.0, None], "b": [1.0] * 2, "c": [1] * 2, "t": [1] * 2}), folder / "part-9.parquet")
    schema = {"columns": {"a": {}, "b": {}, "c": {}}, "target": {"column": "t"}}
    fails(drain(folder, schema=schema), "part-9.parquet, row 2 (row 102 of all), column 'a'", row=102)


def test_errors_of_row_parts(parts):
    folder, *_ = parts("npy")
    table = np.load(folder / "part-3.npy")
    table[4, -1] = 7
    np.save(folder / "part-3.npy", table)
    fails(drain(folder, classes=(0, 1)), "part-3.npy, column 3, row 5 (row 70 of all)", row=70)


def test_a_damaged_part(parts):
    folder, *_ = parts("csv")
    path = folder / "part-2.csv"
    data = gzip.compress(path.read_bytes())
    path.unlink()
    (folder / "part-2.csv.gz").write_bytes(data[: len(data) // 2])
    message = fails_somewhere(drain(folder, target="t", block_rows=5))
    assert "part-2.csv.gz, row" in message
    assert "of all" in message


def fails_somewhere(call):
    with pytest.raises(ValueError, match="cut short") as found:
        call()
    assert 40 < found.value.row < 65
    return str(found.value)


def test_invalid_directories_of_parts_are_refused(tmp_path):
    fails(lambda: open_stream(tmp_path), "no files", "at least one")
    write(tmp_path, ".x.csv", "1,2\n")
    fails(lambda: open_stream(tmp_path), "no files")
    fails(lambda: open_stream(str(tmp_path / "*.csv")), "*.csv", "no file has such a name")
    write(tmp_path, "a.csv", "1,2\n")
    np.save(tmp_path / "b.npy", np.ones((2, 2)))
    fails(lambda: open_stream(tmp_path), "a.csv is read as csv", "b.npy as npy")
    (tmp_path / "b.npy").unlink()
    (tmp_path / "empty.csv").write_bytes(b"")
    fails(lambda: open_stream(tmp_path), "empty.csv", "empty")
    (tmp_path / "empty.csv").unlink()
    (tmp_path / "more").mkdir()
    fails(lambda: open_stream(tmp_path), "the directory 'more'", "pattern")
    write(tmp_path / "more", "b.csv", "3,4\n")
    assert together(open_stream(str(tmp_path / "**" / "*.csv")))[1].tolist() == [2, 4]
    # a file with such a name takes precedence
    write(tmp_path, "a[1].csv", "9,9\n")
    assert together(open_stream(str(tmp_path / "a[1].csv")))[1].tolist() == [9]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_part(tmp_path):
    write(tmp_path, "a.csv", "1,2\n")
    write(tmp_path, "b.csv", "1,2\n").chmod(0)
    fails(lambda: open_stream(tmp_path), "b.csv", "cannot be read")


def test_a_part_that_vanishes(parts):
    folder, *_ = parts("parquet")
    stream = open_stream(folder, target="t")
    (folder / "part-3.parquet").unlink()
    fails(lambda: together(stream), "part-3.parquet", row=None)
    shutil.rmtree(folder)
    fails(lambda: open_stream(folder), "parquet", "No such file")
