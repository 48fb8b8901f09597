"""A draft runs on the input from which it was drafted, whatever its format and the content of its columns."""

from __future__ import annotations

import datetime
import decimal
import gzip
import json
import tomllib

import numpy as np
import pytest
from cli_tools import privol_cli, run_json
from hypothesis import given, settings
from hypothesis import strategies as st
from stream_files import fails, save, together, write

from privol.errors import StreamError
from privol.streams import Schema, draft_schema, open_stream

pa = pytest.importorskip("pyarrow")

TYPED = ("d.parquet", "d.arrow", "d.arrows", "d.feather", "frame")
FORMATS = ("d.csv", "semicolons.csv", "d.jsonl", "dicts", *TYPED)
N = 60


def given_as(folder, name, columns):
    """Return a table, lists of cells by name, as an input of a format."""
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if name == "dicts":
        return rows
    if name.endswith(".jsonl"):
        return write(folder, name, "".join(json.dumps(row, default=str) + "\n" for row in rows))
    if name.endswith(".csv"):
        sep = ";" if name.startswith("semi") else ","
        lines = [columns, *(row.values() for row in rows)]
        return write(folder, name, "".join(sep.join(map(as_text, line)) + "\n" for line in lines))
    table = pa.table({key: pa.array(cells) for key, cells in columns.items()})
    return table if name == "frame" else save(folder, table, name)


def as_text(cell):
    text = "" if cell is None else str(cell)
    return '"' + text.replace('"', '""') + '"' if set(text) & set(',;"') or not text else text


def runs(data, **options):
    """Draft, read all rows by the draft, and return both; the rows are finite and not all equal."""
    found = tomllib.loads(draft_schema(data, **options))
    stream = open_stream(data, schema=found, count_cells=True)
    X, y = together(stream)
    assert np.isfinite(X).all()
    assert np.isfinite(y).all()
    for name, counts in stream.cells.items():
        assert set(counts) == {"missing"}, f"the draft knows the cells of {name}"
    return found, X


def repeated(*cells):
    return [cells[i % len(cells)] for i in range(N)]


DAY = datetime.date(2024, 2, 29)
# Columns of cells that every format represents alike, and their expected draft: a key of the table.
COLUMNS = {
    "integers": (list(range(7, 7 + 13)) * 4 + [None] * 8, "range"),
    "doubles": ([i / 7 for i in range(N)], "range"),
    "numbers as text": ([f"{i / 8 - 3}" for i in range(N)], "range"),
    "with a marker": (repeated("1.5", "NA", "-2", "4.25"), "range"),
    "exponents": (repeated("1e5", "+2.5e-3", ".5", "7."), "range"),
    "a few as text": (repeated("1", "2", "10"), "levels"),
    "bools": (repeated(True, False), "levels"),
    "bools and nothing": (repeated(True, None, False), "levels"),
    "dates": (repeated(DAY), ""),
    "nothing": ([None] * N, "drop"),
    "blanks": (repeated("  ", ""), "drop"),
    "texts": (repeated("a", 'b "c"', "NA", "d,e", "f;g"), "levels"),
    "only a marker": (repeated("NA"), ""),
    "question marks": (repeated("?", "a", "b"), "levels"),
    "many texts": ([f"t{i % 55}" for i in range(N)], "hash"),
    "running": ([f"t{i}" for i in range(N)], "drop"),
    "one": (repeated(3.5), "range"),
    "large": (repeated(1e300, -1e300, 0.5), "range"),
    "tiny": (repeated(5e-324, 0.0), "range"),
    "long ids": (repeated(2**60 + 1, 2**60 + 3), ""),
    "(missing)": (repeated("(missing)", "(unknown)"), ""),
    "": (repeated("x", "y"), "levels"),
    " blank ": (repeated("x", "y"), "levels"),
    'q"u.o\\t\u00e9': (repeated("x", "y"), "levels"),
}
TARGETS = {
    "two": repeated("no", "yes"),
    "three": repeated("a", "b", "NA"),
    "alike": repeated("1", "1.0", "x"),
    "one": repeated("only"),
    "bools": repeated(True, False),
    "digits": repeated("0", "1"),
    "integers": repeated(1, 2),
    "real": [i / 7 for i in range(N)],
    "real as text": [str(i / 7) for i in range(N)],
}


@pytest.mark.parametrize("name", FORMATS)
def test_each_column_in_each_format(tmp_path, name):
    for column, (cells, expected) in COLUMNS.items():
        data = given_as(tmp_path, name, {column: cells, "x": repeated(0.5, 1.5), "y": repeated("no", "yes")})
        found, _ = runs(data)
        key = next(key for key in found["columns"] if key.strip() == column.strip())
        assert expected in ("", *found["columns"][key]), (column, found["columns"][key])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", FORMATS)
def test_each_target_in_each_format(tmp_path, name, target):
    data = given_as(tmp_path, name, {"x": repeated("1.5", "NA", "2"), "k": repeated("a", "b"), "y": TARGETS[target]})
    runs(data)


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(FORMATS),
    st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=6, unique=True),
    st.sampled_from(sorted(TARGETS)),
)
def test_columns_together(tmp_path_factory, name, columns, target):
    table = {column: COLUMNS[column][0] for column in columns}
    data = given_as(tmp_path_factory.mktemp("d"), name, {**table, "x": repeated(0.5, 1.5), "y": TARGETS[target]})
    runs(data)


@pytest.mark.parametrize("name", ["d.jsonl", "dicts", *TYPED])
def test_columns_without_possible_features_are_dropped(tmp_path, name):
    columns = {"l": repeated([1, 2], None), "o": repeated({"a": 1}), "x": repeated(1.5, 2.5), "y": repeated(0, 1)}
    found, _ = runs(given_as(tmp_path, name, columns))
    assert found["columns"]["l"] == found["columns"]["o"] == {"drop": True}
    rows = [{"mixed": cell, "x": i / 2, "y": i % 2} for i, cell in enumerate([1, "a", [1], {}, None])]
    path = write(tmp_path, "m.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert runs(path)[0]["columns"]["mixed"] == {"drop": True}


@pytest.mark.parametrize("name", TYPED)
def test_types_of_typed_tables(tmp_path, name):
    moment = datetime.datetime(2024, 1, 1)
    columns = {
        "price": pa.array(repeated(decimal.Decimal("1.25"), decimal.Decimal("2.50"))),
        "whole": pa.array(repeated(decimal.Decimal(1), decimal.Decimal(2))),
        "half": pa.array(repeated(np.float16(1.5), np.float16(2.5))),
        "large": pa.array(repeated("1.5", "2"), pa.large_string()),
        "coded": pa.array(repeated("1.5", "NA", "2")).dictionary_encode(),
        "moment": pa.array(repeated(moment)),
        "span": pa.array(repeated(datetime.timedelta(1))),
        "bytes": pa.array(repeated(b"a")),
        "nulls": pa.nulls(N),
        "nan": pa.array(repeated(float("nan"), 1.5, 2.5)),
        "infinite": pa.array(repeated(float("inf"), 1.5, 2.5)),
        "y": pa.array(repeated(decimal.Decimal(0), decimal.Decimal(3))),
    }
    if name == "d.feather":
        columns["large"] = columns["large"].cast(pa.string())
    table = pa.table(columns)
    found, _ = runs(table if name == "frame" else save(tmp_path, table, name))
    kinds = {key: next(iter(found["columns"][key])) for key in found["columns"]}
    assert [key for key, kind in kinds.items() if kind == "drop"] == ["moment", "span", "bytes", "nulls", "infinite"]
    assert {kinds[key] for key in ("price", "whole", "half", "large", "coded", "nan")} == {"range"}


def test_decimals_of_dict_rows():
    rows = [{"price": decimal.Decimal(i) / 4, "y": i % 2} for i in range(N)]
    _, X = runs(rows)
    assert X[0, 0] == -1.0


@pytest.mark.parametrize("header", [True, False])
def test_a_decimal_comma_is_seen_and_declared(tmp_path, header):
    lines = ["height;kind;y"] * header + [f"{170 + i / 4:.2f};{i % 3};{i % 2}".replace(".", ",") for i in range(N)]
    path = write(tmp_path, "d.csv", "\n".join(lines) + "\n")
    found, X = runs(path)
    assert found["file"] == {"format": "csv", "header": header, "sep": ";", "decimal": ","}
    assert list(found["columns"]["height" if header else "0"]) == ["range"]
    expected, _ = runs(write(tmp_path, "e.csv", path.read_text().replace(",", ".")))
    assert found["columns"] == expected["columns"]
    assert np.ptp(X[:, 0]) > 1


def test_labels_and_levels_with_a_decimal_comma(tmp_path):
    lines = ["a;k;y", *(f"{i / 4:.2f};{i % 3}.0;{i % 2}.0".replace(".", ",") for i in range(N))]
    found, X = runs(write(tmp_path, "d.csv", "\n".join(lines) + "\n"))
    assert found["columns"]["k"] == {"levels": [0, 1, 2]}
    assert X[:, 1:4].sum() == N
    assert found["target"]["positive"] == [1]


def test_commas_that_are_not_decimal_marks(tmp_path):
    def decimal_of(text, name="d.csv"):
        return tomllib.loads(draft_schema(write(tmp_path, name, text)))["file"].get("decimal")

    assert decimal_of("a;b;y\n" + "1,5;2.5;0\n1,7;3.5;1\n" * 30) is None, "points in another column"
    assert decimal_of("a;b;y\n" + "1,5;x;0\n1,7,1;y;1\n" * 30) is None, "two commas"
    assert decimal_of("a,b,y\n" + '"1,5",1,0\n"1,7",2,1\n' * 30) is None, "the separator"
    rows = '{"a": "1,500", "y": 0}\n{"a": "2,700", "y": 1}\n' * 30
    assert decimal_of(rows, "d.jsonl") is None, "thousands, perhaps"
    assert decimal_of(rows.replace("00", ""), "d.jsonl") == ","
    for text in ("a;b;y\n" + "1,5;2.5;0\n1,7;3.5;1\n" * 30, "a,b,y\n" + '"1,5",1,0\n"1,7",2,1\n' * 30):
        runs(write(tmp_path, "d.csv", text))


def test_codes_are_not_taken_for_numbers(tmp_path):
    columns = {"zip": repeated("01234", "98765"), "long": repeated("12345678901234567", "2"), "y": repeated(0, 1)}
    found, _ = runs(given_as(tmp_path, "d.parquet", columns))
    assert found["columns"]["zip"] == {"levels": ["01234", "98765"]}
    assert list(found["columns"]["long"]) == ["levels"]


def test_a_missing_marker_in_one_column_is_not_a_level_in_another(tmp_path):
    columns = {"n": repeated("1.5", "2.5", "-"), "k": repeated("a", "-"), "m": repeated("-"), "y": repeated("-x", "x")}
    found, X = runs(given_as(tmp_path, "d.csv", columns))
    assert found["file"]["missing"] == ["-"]
    assert found["columns"]["k"] == {"levels": ["a"]}
    assert found["columns"]["m"] == {"drop": True}
    assert X.shape[1] == 2 + 3


def test_the_draft_states_that_missing_targets_are_refused(tmp_path):
    path = given_as(tmp_path, "d.csv", {"x": repeated(1.5, 2.5), "y": repeated("no", "yes", None)})
    text = draft_schema(path)
    assert "# 20 of these rows have no target" in text
    stream = open_stream(path, schema=tomllib.loads(text))
    fails(lambda: together(stream), "row 3", "leave rows without a target", row=3)


def test_a_table_without_features(tmp_path):
    path = given_as(tmp_path, "d.parquet", {"d": repeated(DAY), "y": repeated(0, 1)})
    with pytest.raises(StreamError, match="no column, besides the target"):
        draft_schema(path)


def test_half_of_a_surrogate_pair_is_an_error_with_its_row(tmp_path):
    path = write(tmp_path, "d.jsonl", '{"a": "x", "y": 0}\n{"a": "\\ud800", "y": 1}\n')
    fails(lambda: draft_schema(path), "row 2", "'a'", "surrogate", row=2)


@pytest.mark.parametrize("name", ["d.jsonl", "d.parquet", "semicolons.csv"])
def test_on_the_command_line(here, name):
    columns = {"a": [f"{i / 8}" for i in range(N)], "b": repeated("1.5", "NA"), "y": repeated("no", "yes")}
    if name.endswith("csv"):
        columns = {key: [cell.replace(".", ",") for cell in cells] for key, cells in columns.items()}
    given_as(here, name, columns)
    result = privol_cli("info", name)
    write(here, "s.toml", result.stdout)
    assert run_json("run", name, "--schema", "s.toml", "--no-diagnostics")["rows"] == N


def test_records_of_names_with_blanks(tmp_path):
    found, _ = runs(given_as(tmp_path, "d.parquet", {" a ": repeated("x", "y"), "y": repeated(0, 1)}))
    path = given_as(tmp_path, "d.parquet", {" a ": repeated("x", "y"), "y": repeated(0, 1)})
    stream = open_stream(path, schema=found)
    again = Schema.from_record(stream.schema.to_record())
    np.testing.assert_array_equal(together(open_stream(path, schema=again))[0], together(stream)[0])


def test_a_file_damaged_after_its_first_rows_gives_no_draft(tmp_path):
    rows = "".join(f"{i},{i * i % 977},{i % 2}\n" for i in range(3000))
    whole = gzip.compress(f"a,b,c\n{rows}".encode())
    path = tmp_path / "cut.csv.gz"
    path.write_bytes(whole)
    assert "first 3,000 rows" in draft_schema(path)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StreamError, match=r"cut\.csv\.gz.*(?:truncated|damaged|ends)"):
        draft_schema(path)
