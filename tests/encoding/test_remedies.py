"""Messages name the remedy: the key of the schema that decides, the intended word, the true format of a file."""

from __future__ import annotations

import json

import numpy as np
import pytest
from stream_files import drain, fails, save, together, write

from privol.encoding.schema_reader import nearest
from privol.errors import InvalidParameter
from privol.streams import Schema, open_stream

pa = pytest.importorskip("pyarrow")

FORMATS = ("d.csv", "d.jsonl", "d.parquet", "d.arrows", "frame", "dicts")


def given_as(folder, name, rows):
    if name == "dicts":
        return rows
    if name == "frame":
        return pa.Table.from_pylist(rows)
    if name == "d.jsonl":
        return write(folder, name, "".join(json.dumps(row) + "\n" for row in rows))
    if name == "d.csv":
        lines = [list(rows[0]), *(row.values() for row in rows)]
        texts = [["" if cell is None else str(cell) for cell in line] for line in lines]
        return write(folder, name, "".join(";".join(line) + "\n" for line in texts))
    return save(folder, pa.Table.from_pylist(rows), name)


# ---- what [file] says of cells applies to every format ------------------------------------------

PARTS = {
    "file": {"missing": ["n/a", "-9"], "decimal": ","},
    "columns": {
        "a": {"range": [0, 10], "missing": "indicator"},
        "n": {"missing": 5},
        "k": {"levels": ["x", 3], "missing": "indicator"},
        "free": {"missing": "zero"},
    },
    "target": {"column": "y", "range": [0, 2]},
}
ROWS = [
    {"a": "2,5", "n": 1, "k": "x", "free": "1", "y": "0,5"},
    {"a": " n/a ", "n": -9, "k": "n/a", "free": " +2,5e1", "y": "1"},
    {"a": None, "n": 2, "k": " -9", "free": "", "y": "2,0"},
    {"a": "-9", "n": 3, "k": "3,0", "free": "-9", "y": " 0 "},
]


@pytest.mark.parametrize("name", FORMATS)
def test_missing_cells_and_decimals_are_alike_in_every_format(tmp_path, name):
    X, y = together(open_stream(given_as(tmp_path, name, ROWS), schema=PARTS))
    np.testing.assert_array_equal(
        X,
        [
            [-0.5, 0, 1, 1, 0, 0, 0, 1],
            [0, 1, 5, 0, 0, 0, 1, 25],
            [0, 1, 2, 0, 0, 0, 1, 0],
            [0, 1, 3, 0, 1, 0, 0, 0],
        ],
    )
    assert y.tolist() == [-0.5, 0, 1, -1]


@pytest.mark.parametrize("name", FORMATS)
def test_text_that_is_not_a_number_is_named(tmp_path, name):
    rows = [{"a": "1,5", "y": "0"}, {"a": "NA", "y": "1"}]
    parts = {"file": {"decimal": ","}, "columns": {"a": {}}, "target": {"column": "y"}}
    data = given_as(tmp_path, name, rows)
    fails(drain(data, schema=parts), "row 2", "'a'", "found 'NA'", "a number", "missing under [file]", row=2)
    del parts["file"]
    fails(drain(data, schema=parts), "row 1", "found '1,5'", 'decimal = "," under [file]', row=1)


def test_numbers_that_mark_missing_cells_are_compared_by_value():
    rows = [{"a": -999, "k": -999.0, "y": 0}, {"a": np.float32(1), "k": 2, "y": 1}]
    parts = {
        "file": {"missing": ["-999"]},
        "columns": {"a": {"missing": "zero"}, "k": {"levels": [2], "missing": "indicator"}},
        "target": {"column": "y", "negative": 0, "positive": 1},
    }
    assert together(open_stream(rows, schema=parts))[0].tolist() == [[0, 0, 0, 1], [1, 1, 0, 0]]
    fails(drain([*rows, {"a": 1, "k": 2, "y": -999}], schema=parts), "row 3", "found nothing", row=3)


def test_without_a_schema_text_is_not_a_number(tmp_path):
    rows = [{"a": "1", "y": 1}] * 3
    fails(drain(given_as(tmp_path, "d.parquet", rows)), "found the type string", "schema", row=None)
    fails(drain(given_as(tmp_path, "d.jsonl", rows)), "row 1", "found text, '1'", "schema", row=1)


def test_a_column_of_text_of_later_json_lines(tmp_path):
    """The fast parser learns from earlier lines what a column holds; text and numbers may alternate."""
    cells = [*(["1.5"] * 3000), *([2.5] * 3000), *(["3.5", 4.5] * 1500), "NA"]
    path = write(tmp_path, "d.jsonl", "".join(json.dumps({"a": cell, "y": 0}) + "\n" for cell in cells))
    parts = {"file": {"missing": ["NA"]}, "columns": {"a": {"missing": 9}}, "target": {"column": "y"}}
    X, _ = together(open_stream(path, schema=parts))
    assert X[:, 0].tolist() == [*map(float, cells[:-1]), 9.0]


# ---- refusals -----------------------------------------------------------------------------------


def refused(columns, row, *words, **parts):
    target = {"target": {"column": "y", "negative": ["no"], "positive": ["yes"]}}
    rows = [{"x": 1, "k": "a", "y": "yes", "u": "u", "id": "1"}, row]
    return fails(drain(rows, schema={"columns": columns, **target, **parts}), "row 2", *words, row=2)


def test_every_refusal_names_its_remedy():
    fine = {"x": 2, "k": "a", "y": "no", "u": "u", "id": "2"}
    x, k = {"x": {}, "k": {"drop": True}}, {"k": {"levels": ["a", "b"], "unknown": "refuse", "missing": "refuse"}}
    rest = {"u": {"drop": True}, "id": {"drop": True}}
    x |= rest
    k |= {"x": {"drop": True}, **rest}
    refused(x, {**fine, "x": None}, "found nothing", "missing = under [columns.x] of schema", '"indicator", "zero"')
    message = refused(k, {**fine, "k": None}, "one of 'a', 'b' (", 'missing = "refuse" under [columns.k]', "indicator")
    assert "unknown" not in message
    message = refused(k, {**fine, "k": "c{}"}, "'c{}'", "one of 'a', 'b' (", 'unknown = "refuse" under [columns.k]')
    assert "missing under [file]" in message
    long = refused(k, {**fine, "k": "c" * 1000}, "found 'ccc")
    assert len(long) < 400
    refused(x, {**fine, "y": None}, "found nothing", "'no', 'yes'", "[delay]", "leave rows")
    refused(x, {**fine, "y": "maybe"}, "found 'maybe'", "negative, positive and rest under [target]")
    real = {"target": {"column": "y"}}
    rows = [{"x": 1, "y": 1.0}, {"x": 1, "y": None}, {"x": 1, "y": "high"}]
    fails(drain(rows[:2], schema={"columns": {"x": {}}, **real}), "found nothing", "[delay]", row=2)
    fails(drain(rows[::2], schema={"columns": {"x": {}}, **real}), "found 'high'", "negative and positive", row=2)
    del x["u"]
    refused(x, {**fine, "u": None}, "'u'", "every row needs one", "[user]", user={"column": "u", "max_rows": 1})


def test_cells_of_groups_are_named_as_they_may_be_written():
    columns = {"k": {"levels": {"ICU": "intensive", "IMC": "intensive"}, "unknown": "refuse"}}
    read = drain([{"k": "ICU"}, {"k": "intensive"}], schema={"columns": columns}, target=False)
    fails(read, "found 'intensive', allowed is one of 'ICU', 'IMC' (", row=2)


# ---- intended words ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "allowed", "meant"),
    [
        ("agee", ["age", "wage"], "age"),
        ("Zip Code", ["zip_code", "zip"], "zip_code"),
        ("AGE", ["age"], "age"),
        ("rnage", ["range", "onto"], "range"),
        ("x11", ["x12", "x1", "x21"], None),
        ("X11", ["x12", "x11"], "x11"),
        ("sex", ["age", "set"], None),
        ("weight", ["height"], None),
        ("", ["a"], None),
        ("!", ["?"], None),
    ],
)
def test_only_similar_words_are_suggested(word, allowed, meant):
    assert nearest(word, allowed) == ("" if meant is None else f" (did you mean {meant!r}?)")


def test_words_already_in_use_are_not_suggested():
    one = {"columns": {"age": {}}}
    assert "did you mean" in fails(drain([{"ages": 1}], schema=one, target=False), "no column 'age'")
    both = {"columns": {"age": {}, "ages": {}}}
    assert "did you mean" not in fails(drain([{"ages": 1}], schema=both, target=False), "no column 'age'")
    target = {"columns": {"outcomes": {"drop": True}, "x": {}}, "target": {"column": "outcome"}}
    assert "did you mean" not in fails(drain([{"outcomes": 1, "x": 1}], schema=target), "no column 'outcome'")
    with pytest.raises(InvalidParameter, match="allowed are") as found:
        Schema.load({"columns": {"a": {"range": [0, 1], "ranges": [0, 1]}}})
    assert "did you mean" not in str(found.value)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"columns": {"a": {"others": "drop"}}}, "top of the schema, above the first table"),
        ({"file": {"derived_from_data": True}}, "top of the schema, above the first table"),
        ({"sep": ";"}, r"it belongs under \[file\]"),
        ({"columns": {"a": {"decimal": ","}}}, r"it belongs under \[file\]"),
        ({"missing": ["?"]}, r"it belongs under \[file\] or \[columns.NAME\]"),
        ({"target": {"column": "y", "missing": "zero"}}, r"it belongs under \[file\] or \[columns.NAME\]"),
    ],
)
def test_an_error_about_a_misplaced_key_names_the_right_place(parts, words):
    with pytest.raises(InvalidParameter, match=words) as found:
        Schema.load({"columns": {"a": {}}, **parts})
    assert "did you mean" not in str(found.value)


def test_messages_list_only_a_few_names(tmp_path):
    header = ",".join(f"x{j}" for j in range(500))
    path = write(tmp_path, "d.csv", f"{header}\n{','.join('1' * 500)}\n")
    message = fails(lambda: open_stream(path, target="y"), "no column named 'y'", "x19 and 480 more")
    assert len(message) < 300


# ---- arguments ----------------------------------------------------------------------------------


def test_target_false_is_suggested_only_if_it_works():
    for data in ((np.ones((2, 2)), [0, 1]), [(np.ones((2, 2)), [0, 1])], [({"a": 1}, 1)]):
        for target in (False, "y"):
            with pytest.raises(InvalidParameter, match=r"has its own y.*leave target out"):
                open_stream(data, target=target)
    for target in (0, "x"):
        with pytest.raises(InvalidParameter, match="target and schema exclude each other"):
            open_stream([{"x": 1}], schema={"columns": {"x": {}}}, target=target)


# ---- files whose names mislead ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "looks"),
    [
        ("a,b\n1,2\n", 'text, perhaps CSV (format="csv")'),
        ('{"a": 1}\n', 'JSON lines (format="jsonl")'),
        ("1 3:0.5 7:1\n", 'libsvm text (format="libsvm")'),
        ("caf\u00e9;b\n1;2\n" * 2000, "text, perhaps CSV"),
    ],
)
@pytest.mark.parametrize(("name", "what"), [("d.parquet", "a Parquet file"), ("d.arrow", "an Arrow stream or file")])
def test_text_with_the_name_of_a_table(tmp_path, name, what, text, looks):
    path = write(tmp_path, name, text)
    fails(lambda: open_stream(path), f"{name}: is not {what}; it looks like {looks}")
    other = write(tmp_path, "d.txt", text)
    fails(lambda: open_stream(other, format=name[2:]), f"is not {what}; it looks like {looks}")


def test_tables_of_other_kinds(tmp_path):
    np.save(tmp_path / "d.npy", np.ones(3))
    looks = 'not a Parquet file; it looks like an array (format="npy")'
    fails(lambda: open_stream(tmp_path / "d.npy", format="parquet"), looks)
    path = save(tmp_path, pa.table({"a": [1]}), "d.arrow")
    fails(lambda: open_stream(path, format="parquet"), "looks like an Arrow file")
    cut = write(tmp_path, "cut.parquet", save(tmp_path, pa.table({"a": [1]})).read_bytes()[:-9])
    assert "looks like" not in fails(lambda: open_stream(cut), "not a readable Parquet file")
    noise = write(tmp_path, "noise.parquet", bytes(range(256)) * 20)
    assert "looks like" not in fails(lambda: open_stream(noise), "not a readable Parquet file")
