"""Facts inferred from the contents, where one row decides for all others, are conditions; stated facts are not."""

from __future__ import annotations

import io
import json
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from stream_files import together, write

from privol.streams import open_stream

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

CSV = "a;b;t\n1;2;3\n4;5;6\n"
LIBSVM = "1 1:2 2:3\n-1 1:4\n"
JSON = '{"a": 1, "b": 2, "t": 3}\n{"a": 4, "b": 5, "t": 6}\n'
FEATURES = {"a": {}, "b": {}}
SCHEMA = {"columns": FEATURES, "target": {"column": "t"}}


def told(stream):
    """The inferred facts, as the conditions list them; empty if there are none."""
    if not stream.conditions:
        return []
    (sentence,) = stream.conditions
    listed, _, rest = sentence.partition(", inferred from the data, ")
    be = "are" if " and " in listed or listed.endswith("s") else "is"
    assert rest == f"{be} the same in neighbouring streams and {be} not hidden"
    return [what.removeprefix("the ") for what in listed.replace(" and ", ", ").split(", ")]


@pytest.mark.parametrize(
    ("name", "text", "options", "expected"),
    [
        ("d.csv", CSV, {}, ["separator", "header"]),
        ("d.csv", CSV, {"header": True}, ["separator"]),
        ("d.csv", CSV, {"sep": ";"}, ["header"]),
        ("d.csv", CSV, {"target": "t"}, ["separator"]),
        ("d.csv", CSV, {"target": " t", "sep": ";"}, []),
        ("d.csv", CSV, {"target": 0, "sep": ";"}, ["header"]),
        ("d.csv", CSV, {"header": True, "sep": ";"}, []),
        ("d.csv", "1;2;3\n", {"header": False, "sep": ";"}, []),
        ("d.tsv", CSV.replace(";", "\t"), {"header": True}, []),
        ("d", CSV, {"header": True, "sep": ";"}, ["format"]),
        ("d", CSV, {}, ["format", "separator", "header"]),
        ("d", CSV, {"header": True, "sep": ";", "format": "csv"}, []),
        ("d.csv", CSV, {"schema": SCHEMA}, ["separator"]),
        ("d.csv", CSV, {"schema": {**SCHEMA, "target": {"column": -1}}}, ["separator", "header"]),
        ("d.csv", CSV, {"schema": {**SCHEMA, "file": {"sep": ";", "header": True}}}, []),
        ("d.csv", "1;2;3\n", {"schema": {**SCHEMA, "file": {"sep": ";", "names": ["a", "b", "t"]}}}, []),
        ("d", CSV, {"schema": {**SCHEMA, "file": {"sep": ";", "header": True, "format": "csv"}}}, []),
        ("d.svm", LIBSVM, {}, ["index base", "number of features"]),
        ("d.svm", LIBSVM, {"n_features": 2}, ["index base"]),
        ("d.svm", LIBSVM, {"zero_based": False}, ["number of features"]),
        ("d.svm", LIBSVM, {"n_features": 2, "zero_based": False}, []),
        ("d", LIBSVM, {"n_features": 2, "zero_based": False}, ["format"]),
        ("d.jsonl", JSON, {}, ["columns"]),
        ("d", JSON, {}, ["format", "columns"]),
        ("d.jsonl", JSON, {"schema": SCHEMA}, []),
        ("d.jsonl", JSON, {"schema": {**SCHEMA, "columns": {"a": {}}, "others": "drop"}}, []),
        ("d.jsonl", JSON, {"schema": {**SCHEMA, "others": "number"}}, ["columns"]),
        ("d.jsonl", JSON, {"schema": {**SCHEMA, "target": {"column": -1}}}, ["columns"]),
    ],
)
def test_files(tmp_path, monkeypatch, name, text, options, expected):
    path = write(tmp_path, name, text)
    assert told(open_stream(path, **options)) == expected
    # a directory of such files: a fact from one part is enough
    folder = tmp_path / "parts"
    folder.mkdir()
    write(folder, f"1{name}", text)
    write(folder, f"2{name}", text)
    assert told(open_stream(folder, **options)) == expected
    if "." in name or (name == "d" and text is LIBSVM and "n_features" not in options):
        return
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert told(open_stream("-", **options)) == expected


def test_one_row_of_libsvm_changes_the_others(tmp_path):
    """The reason for the condition; if everything is stated, the other rows stay as they are."""
    one, other = (write(tmp_path, name, LIBSVM + row) for name, row in (("1.svm", "1 1:1\n"), ("0.svm", "1 0:1 9:1\n")))
    (X, _), (Z, _) = (together(open_stream(path)) for path in (one, other))
    assert (X.shape[1], Z.shape[1]) == (2, 10)
    assert X[:2].tolist() != Z[:2, :2].tolist()
    assert all(told(open_stream(path)) == ["index base", "number of features"] for path in (one, other))
    (X, _), (Z, _) = (together(open_stream(path, n_features=10, zero_based=True)) for path in (one, other))
    assert X[:2].tolist() == Z[:2].tolist()


def test_parts_of_libsvm_that_must_agree(tmp_path):
    """Parts are opened again with the common width and base, which are still inferred facts."""
    write(tmp_path, "1.svm", LIBSVM)
    write(tmp_path, "2.svm", "1 0:1 9:1\n")
    assert told(open_stream(tmp_path)) == ["index base", "number of features"]
    assert told(open_stream(tmp_path, zero_based=True)) == ["number of features"]
    assert told(open_stream(tmp_path, n_features=10)) == ["index base"]


def test_nothing_is_inferred_from_typed_inputs(tmp_path):
    table = pa.table({"a": [1.0, 2.0], "b": [1, 2], "t": [0, 1]})
    pq.write_table(table, tmp_path / "d")
    np.save(tmp_path / "d.npy", np.eye(3))
    block = (np.eye(2), [1.0, 2.0])
    for data in (tmp_path / "d", tmp_path / "d.npy", table, np.eye(3), [block], iter([block])):
        assert open_stream(data).conditions == ()
    assert open_stream((sp.csr_array(np.eye(3)), [1, 2, 3])).conditions == ()
    assert open_stream([({"a": 1}, 1.0)]).conditions == ()
    assert open_stream(tmp_path / "d", schema={**SCHEMA, "others": "number"}).conditions == ()


def test_dicts():
    rows = [json.loads(line) for line in JSON.splitlines()]
    assert told(open_stream(rows, schema=SCHEMA)) == []
    assert told(open_stream(rows, schema={"target": {"column": "t"}, "others": "number"})) == ["columns"]


def test_objects_of_pandas():
    """One cell says nothing of the others: no integer reads as a double because another cell is one."""
    pandas = pytest.importorskip("pandas")
    schema = {"columns": {"a": {"hash": 1000}}}
    frames = [pandas.DataFrame({"a": np.array([1, last], dtype=object)}) for last in (2, 2.5)]
    streams = [open_stream(frame, schema=schema) for frame in frames]
    first = [together(stream)[0][0].tolist() for stream in streams]
    assert first[0] == first[1]
    assert all(told(stream) == [] for stream in streams)
    for typed in (np.array(["x", "y"], dtype=object), [1, 2], pandas.Categorical(["x", "y"])):
        assert told(open_stream(pandas.DataFrame({"a": typed}), schema=schema)) == []


def test_conditions_of_a_schema_come_first(tmp_path):
    """Cap and delay pass on the inferred facts of their source."""
    path = write(tmp_path, "d.csv", "a;b;t;u;k\n1;2;3;x;y\n")
    parts = {**SCHEMA, "user": {"column": "u", "max_rows": 1}, "delay": {"key": "k", "window": 2}}
    stream = open_stream(path, schema=parts)
    assert len(stream.conditions) == 3
    assert stream.conditions[-1].startswith("the separator, inferred from the data, is the same")
    assert (stream.user, stream.rows_per_user) == ("u", 1)
    stated = open_stream(path, schema={**parts, "file": {"sep": ";", "header": True}})
    assert stated.conditions == stream.conditions[:-1]
    features = open_stream(path, schema=parts, target=False)
    assert (features.user, features.rows_per_user) == (None, None)
    by_place = open_stream(path, schema={**parts, "user": {"column": -2, "max_rows": 1}})
    assert by_place.user == "u"
