"""Schemas: what they accept and refuse, records, drafts, and the schemas of the examples."""

from __future__ import annotations

import dataclasses
import gzip
import json
import math
import tomllib
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from places import ROOT
from schema_tables import TableColumns, dense, whole

from privol.data import covtype_ranges
from privol.encoding.schema import Schema
from privol.encoding.schema_parts import Hashed, Levels, NumberColumn, User
from privol.errors import InvalidParameter, StreamError
from privol.readers.csv import CsvColumns, CsvOptions
from privol.readers.files import LineFile
from privol.streams import draft_schema, open_stream
from privol.streams._encoded import schema_source

EXAMPLES = ROOT / "src" / "privol" / "data"

FULL = """
others = "drop"
[file]
format = "csv"
header = true
sep = ";"
comment = "#"
missing = ["?", " NA"]
encoding = "latin-1"
decimal = ","
newlines_in_values = true
[target]
column = "y"
negative = ["no", 0]
positive = ["yes", 1]
rest = "negative"
[user]
column = "who"
max_rows = 3
[delay]
key = "id"
window = 10
[columns.age]
range = [0, 120]
missing = 40
[columns.income]
range = [0, 1e6]
onto = [0, 2]
scaling = "log"
missing = "indicator"
[columns.free]
missing = "nan"
[columns.zone]
levels = [3, "b", 1.5]
unknown = "zero"
missing = "refuse"
[columns.school.levels]
"10th" = "school"
"9th" = "school"
PhD = "university"
[columns.code]
hash = 16
missing = "zero"
[columns.note]
drop = true
"""


def load(text: str, path: Path | None = None) -> Schema:
    return Schema.load(tomllib.loads(text))


def test_everything_is_read():
    schema = load(FULL)
    columns = dict(schema.columns)
    assert list(columns) == ["age", "income", "free", "zone", "school", "code", "note"]
    assert columns["age"] == NumberColumn(range=(0.0, 120.0), missing=40.0)
    assert columns["income"] == NumberColumn((0.0, 1e6), (0.0, 2.0), "log", "indicator")
    assert columns["zone"] == Levels(((3, "3"), ("b", "b"), (1.5, "1.5")), "refuse", "zero")
    assert columns["school"].levels == ("school", "university")
    assert columns["code"] == Hashed(16, "zero")
    assert schema.file["sep"] == ";"
    assert schema.missing_cells == {"?", "NA"}
    assert schema.classes == ("no", "yes")
    assert (schema.user.column, schema.user.max_rows, schema.delay.key, schema.delay.window) == ("who", 3, "id", 10)
    assert load("[columns.a]\n[user]\ncolumn = 'u'\n").user == User("u", 1)
    assert schema.conditions == ()
    CsvOptions(**{key: value for key, value in schema.file.items() if key != "format"})


def test_a_schema_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        load(FULL).others = "number"


def test_a_record_round_trips():
    schema = load(FULL)
    # some writers sort keys: the order of columns and of groups must survive that
    record = json.loads(json.dumps(schema.to_record(), sort_keys=True, allow_nan=False))
    back = Schema.from_record(record)
    assert back == schema
    assert [name for name, _ in back.columns] == [name for name, _ in schema.columns]
    assert Schema.load(record) == schema
    assert Schema.load(schema) is schema
    assert load(FULL.replace("window = 10", "window = 11")) != schema


@pytest.mark.parametrize("change", [{"version": 2}, {"format": "other"}, {"columns": {}}, {"columns": [{"hash": 2}]}])
def test_a_strange_record_is_refused(change):
    with pytest.raises(InvalidParameter):
        Schema.from_record({**load(FULL).to_record(), **change})


def test_a_repeated_column_in_a_record_is_refused():
    record = load(FULL).to_record()
    record["columns"].append(record["columns"][0])
    with pytest.raises(InvalidParameter, match="same name"):
        Schema.from_record(record)


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("[colums.a]\n", "colums", "did you mean 'columns'"),
        ("[columns.a]\nrnage = [0, 1]", "columns.a.rnage", "did you mean 'range'"),
        ("[columns.a]\nrnage = [0, 1]", "columns.a.rnage", "allowed are drop, range"),
        ("[columns.a]\n[file]\nseperator = ';'", "file.seperator", "allowed are format"),
        ("[columns]\na = 3", "columns.a", "must be a table"),
        ("columns = 3", "columns", "must be a table"),
        ("[columns.a]\nrange = [1, 1]", "columns.a.range", "low < high"),
        ("[columns.a]\nrange = [2, 1]", "columns.a.range", "low < high"),
        ("[columns.a]\nrange = [0, inf]", "columns.a.range", "finite"),
        ("[columns.a]\nrange = [nan, 1]", "columns.a.range", "finite"),
        ("[columns.a]\nrange = 3", "columns.a.range", "two numbers"),
        ("[columns.a]\nrange = ['0', '1']", "columns.a.range", "two numbers"),
        ("[columns.a]\nrange = [false, true]", "columns.a.range", "two numbers"),
        ("[columns.a]\nrange = [0, 1]\nonto = [1, 0]", "columns.a.onto", "low < high"),
        ("[columns.a]\nonto = [0, 1]", "columns.a.onto", "needs a range"),
        ("[columns.a]\nscaling = 'log'", "columns.a.scaling", "needs a range"),
        ("[columns.a]\nrange = [0, 1]\nscaling = 'cubic'", "columns.a.scaling", "'linear', 'log'"),
        ("[columns.a]\nrange = [-1.7e308, 1.7e308]\nscaling = 'log'", "columns.a.range", "too wide"),
        ("[columns.a]\nmissing = 'mean'", "columns.a.missing", "or a number"),
        ("[columns.a]\nmissing = true", "columns.a.missing", "or a number"),
        ("[columns.a]\nmissing = inf", "columns.a.missing", "finite"),
        ("[columns.a]\nrange = [0, 1]\nmissing = 2", "columns.a.missing", "within the range"),
        ("[columns.a]\nunknown = 'zero'", "columns.a.unknown", "no meaning for a column of numbers"),
        ("[columns.a]\ndrop = true\nrange = [0, 1]", "columns.a", "drop and range"),
        ("[columns.a]\ndrop = false", "columns.a.drop", "must be true"),
        ("[columns.a]\ndrop = true\nmissing = 'zero'", "columns.a.missing", "no meaning"),
        ("[columns.a]\nlevels = []", "columns.a.levels", "not be empty"),
        ("[columns.a]\nlevels = 'x'", "columns.a.levels", "a list of levels"),
        ("[columns.a]\nlevels = ['x', ' x']", "columns.a.levels", "'x' twice"),
        ("[columns.a]\nlevels = [1, 1.0]", "columns.a.levels", "twice"),
        ("[columns.a]\nlevels = [1, '1']", "columns.a.levels", "twice"),
        ("[columns.a]\nlevels = ['1.0', 1]", "columns.a.levels", "twice"),
        ("[columns.a]\nlevels = ['']", "columns.a.levels", "non-empty"),
        ("[columns.a]\nlevels = [true]", "columns.a.levels", "quote it"),
        ("[columns.a]\nlevels = ['(missing)']", "columns.a.levels", "name of another"),
        ("[columns.a]\nlevels = ['x']\nmissing = 'nan'", "columns.a.missing", "'refuse', 'zero', 'indicator'"),
        ("[columns.a]\nlevels = ['x']\nmissing = 3", "columns.a.missing", "'refuse', 'zero', 'indicator'"),
        ("[columns.a]\nhash = 1", "columns.a.hash", "at least 2"),
        ("[columns.a]\nhash = 16777217", "columns.a.hash", "at most 16777216"),
        ("[columns.a]\nhash = 8.0", "columns.a.hash", "an integer"),
        ("[columns.a]\nhash = true", "columns.a.hash", "an integer"),
        ("[columns.a]\nhash = 8\nunknown = 'zero'", "columns.a.unknown", "no meaning"),
        ("[columns.a]\n[target]", "target.column", "name of a column"),
        ("[columns.a]\n[target]\ncolumn = true", "target.column", "name of a column"),
        ("[columns.a]\n[target]\ncolumn = 'a'", "columns.a", "column of target.column"),
        ("[columns.0]\n[target]\ncolumn = 0", "columns.0", "column of target.column"),
        ("[columns.a]\n[columns.y]\ndrop = true\n[target]\ncolumn = 'y'", "columns.y", "column of target.column"),
        ("[columns.a]\n[target]\ncolumn = 'y'\npositive = ['x']", "target", "needs negative labels"),
        ("[columns.a]\n[target]\ncolumn = 'y'\nnegative = ['x']", "target", "no positive"),
        ("[columns.a]\n[target]\ncolumn = 'y'\nnegative = [0]\npositive = ['0.0']", "target", "twice"),
        ("[columns.a]\n[target]\ncolumn = 'y'\npositive = []", "target.positive", "a label or a list"),
        ("[columns.a]\n[target]\ncolumn = 'y'\nrest = 'negative'", "target.rest", "is for labels"),
        (
            "[columns.a]\n[target]\ncolumn = 'y'\nnegative = 0\npositive = 1\nrange = [0, 1]",
            "target.range",
            "real numbers",
        ),
        (
            "[columns.a]\n[target]\ncolumn = 'y'\nclasses = ['b', 'c']\nrest = 'negative'",
            "target.rest",
            "target.classes exclude each other",
        ),
        ("[columns.a]\n[target]\ncolumn = 'y'\nclasses = ['b', []]", "target.classes", "a label or a list"),
        ("[columns.' a']\n[columns.'a ']", "columns.a", "stands there twice"),
        ("[columns.a]\n[learnt]\nrows = 5\nmu = 1\nadjacency = 'replace'\nprivate = 1", "learnt.private", "true"),
        (
            "[columns.a]\nknots = [0, 9]\nshape = 'apart'\ncycles = ['day']\ntimestamp = true",
            "columns.a.cycles",
            'no meaning with shape = "apart"',
        ),
        ("[columns.a]\n[user]\ncolumn = 'u'\nmax_rows = 0", "user.max_rows", "at least 1"),
        ("[columns.a]\n[user]\ncolumn = 'a'\nmax_rows = 1", "columns.a", "column of user.column"),
        ("[columns.a]\n[target]\ncolumn = 'y'\n[user]\ncolumn = 'y'\nmax_rows = 1", "user.column", "another column"),
        ("[columns.a]\n[delay]\nkey = 'k'\nwindow = 5", "delay", "needs a [target]"),
        ("[columns.a]\n[target]\ncolumn = 'y'\n[delay]\nkey = 'k'\nwindow = 0", "delay.window", "at least 1"),
        ("[columns.a]\n[target]\ncolumn = 'y'\n[delay]\nkey = 'k'", "delay.window", "must be given"),
        ("", "columns", "at least one is needed"),
        ("[columns.a]\ndrop = true", "columns", "at least one is needed"),
        ("others = 'keep'\n[columns.a]", "others", "'refuse', 'drop', 'number'"),
        ("derived_from_data = 'yes'\n[columns.a]", "derived_from_data", "true or false"),
        ("[columns.a]\n[file]\nformat = 'xls'", "file.format", "'csv'"),
        ("[columns.a]\n[file]\nheader = 1", "file.header", "true or false"),
        ("[columns.a]\n[file]\nnames = ['a', 'a']", "file.names", "different"),
        ("[columns.a]\n[file]\nnames = 'a'", "file.names", "list of texts"),
        ("[columns.a]\n[file]\nnames = ['a']\nheader = true", "file.names", "without a header"),
        ("[columns.ab]\n[file]\nnames = ['abc', 'y']", "columns.ab", "did you mean 'abc'"),
        ("[columns.a]\n[target]\ncolumn = 2\n[file]\nnames = ['a', 'y']", "target.column", "from -2 to 1"),
        ("[columns.a]\n[target]\ncolumn = -2\n[file]\nnames = ['a', 'y']", "columns.a", "column of target.column"),
        ("[columns.a]\n[file]\nsep = '||'", "file.sep", "one ASCII character"),
        ("[columns.a]\n[file]\nmissing = [1]", "file.missing", "list of texts"),
        ("[columns.a]\n[file]\ncomment = ''", "file.comment", "a text"),
        ("[columns.a]\n[file]\nencoding = 'utf-88'", "file.encoding", "encoding"),
        ("[columns.a]\n[file]\ndecimal = ';'", "file.decimal", "','"),
    ],
)
def test_errors_name_the_place(tmp_path, text, place, words):
    path = tmp_path / "adult.toml"
    path.write_text(text)
    with pytest.raises(InvalidParameter) as found:
        Schema.load(path)
    assert str(found.value).startswith(f"adult.toml: {place} "), found.value
    assert words in str(found.value), found.value


def test_files_that_are_not_schemas_are_refused(tmp_path):
    path = tmp_path / "s.toml"
    with pytest.raises(StreamError, match=r"s\.toml cannot be read"):
        Schema.load(path)
    path.write_text("[columns.a\n")
    with pytest.raises(StreamError, match=r"s\.toml is not TOML"):
        Schema.load(path)
    path.write_bytes(b"[columns.\xe9]\n")
    with pytest.raises(StreamError, match="not text in UTF-8"):
        Schema.load(path)
    path.write_bytes(b"\xef\xbb\xbf[columns.a]\n")
    assert Schema.load(path).columns == (("a", NumberColumn()),)
    with pytest.raises(InvalidParameter, match="found int"):
        Schema.load(3)  # type: ignore[arg-type]


def test_row_bound():
    def bound(**columns):
        return Schema.load({"columns": columns}).row_bound

    assert bound(a={"range": [5, 6]}) == 1.0
    assert bound(a={}, b={"hash": 4}) is None
    assert bound(a={"range": [0, 1], "onto": [-3, 2]}, b={"drop": True}) == 3.0
    assert bound(a={"range": [0, 1], "onto": [0, 0.5]}) == 0.5
    # for a missing cell the indicator is 1
    assert bound(a={"range": [0, 1], "onto": [0, 0.5], "missing": "indicator"}) == 1.0
    # the smallest double that is no less, in whichever direction the root of n is rounded
    for n in range(1, 30):
        root = bound(**{f"c{i}": {"levels": ["x"]} if i % 2 else {"hash": 4} for i in range(n)})
        assert Fraction(math.nextafter(root, 0)) ** 2 < n <= Fraction(root) ** 2
    assert Schema.load({"columns": {"a": {"range": [0, 1]}}, "others": "number"}).row_bound is None


def test_unscale():
    schema = Schema.load({"target": {"column": "y", "range": [-2, 8]}, "columns": {"a": {}}})
    np.testing.assert_allclose(schema.unscale([-1, 0, 0.5, 1, 2]), [-2, 3, 5.5, 8, 13])
    plain = Schema.load({"target": {"column": "y"}, "columns": {"a": {}}})
    given = np.array([1.0, 2.0])
    assert plain.unscale(given).tolist() == [1, 2]
    assert plain.unscale(given) is not given
    with pytest.raises(InvalidParameter, match="real target"):
        load(FULL).unscale([0.0])


# --- drafts --------------------------------------------------------------------------------------

DRAFTED = {
    "id": [f"row{i}" for i in range(400)],
    "patient_nbr": [f"p{i % 150}" for i in range(400)],
    "height": [150.5 + i % 40 for i in range(400)],
    "share": [i % 59 / 100 for i in range(400)],
    "flag": [i % 2 for i in range(400)],
    "kind": [i % 5 for i in range(400)],
    "city": [["Rome", 'a "quoted"\tone', "\x7f?"][i % 3] for i in range(400)],
    "street.name": [f"street {i % 90}" for i in range(400)],
    "gap": ["?" if i % 7 == 0 else str(i % 83 - 41) for i in range(400)],
    "mixed": ["?" if i % 7 == 0 else "ab"[i % 2] for i in range(400)],
    "empty": [None] * 400,
    "outcome": [["no", "yes"][i % 2] for i in range(400)],
}


def test_draft():
    columns = TableColumns(DRAFTED)
    text = draft_schema(columns)
    assert text.startswith("# DRAFT OF A SCHEMA, DERIVED FROM THE DATA")
    found = tomllib.loads(text)
    schema = Schema.load(found)
    assert schema.derived_from_data
    assert "WARNING" in schema.conditions[0]
    assert Schema.from_record(schema.to_record()).conditions == schema.conditions
    assert load(text.replace("derived_from_data = true", "")).conditions == ()
    assert found["target"] == {"column": "outcome", "negative": ["no"], "positive": ["yes"]}
    expected = {
        "id": {"drop": True},
        "patient_nbr": {"drop": True},
        "height": {"range": [150, 190]},
        "share": {"range": [0, 0.6]},
        "flag": {"range": [0, 1], "onto": [0, 1]},
        "kind": {"levels": [0, 1, 2, 3, 4]},
        "city": {"levels": ["Rome", 'a "quoted"\tone', "\x7f?"]},
        "street.name": {"hash": 128},
        "gap": {"range": [-50, 50], "missing": "indicator"},
        "mixed": {"levels": ["a", "b"]},
        "empty": {"drop": True},
    }
    for name, column in expected.items():
        ours = found["columns"][name]
        if "levels" in column:
            ours, column = {"levels": sorted(ours["levels"])}, {"levels": sorted(column["levels"])}
        assert ours == column, name
    assert '# column = "patient_nbr"' in text
    assert '# column = "kind"' not in text


def test_draft_looks_at_the_first_rows_only():
    columns = TableColumns({"a": [1.5] * 10 + [1e9], "y": [0.5, *range(10)]})
    assert tomllib.loads(draft_schema(columns, rows=10))["columns"]["a"]["range"][1] < 10


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        ([0, 1] * 30, {"negative": [0], "positive": [1]}),
        (["a", "b", "c"] * 20, {"positive": ["c"], "rest": "negative"}),
        (["a"] * 60, {"positive": ["a"], "rest": "negative"}),
        ([i / 7 for i in range(60)], {"range": [0, 9]}),
        ([1e300, -1e300] * 30, {"negative": [-1e300], "positive": [1e300]}),
    ],
)
def test_draft_of_targets(y, expected):
    found = tomllib.loads(draft_schema(TableColumns({"y": y, "a": [i % 30 for i in range(60)]}), target="y"))
    assert found["target"] == {"column": "y", **expected}
    Schema.load(found)


def test_draft_of_a_table_of_running_numbers_still_loads():
    text = draft_schema(TableColumns({"a": list(range(100)), "y": [0, 1] * 50}))
    assert tomllib.loads(text)["columns"]["a"] == {"range": [0, 100]}
    no_target = tomllib.loads(draft_schema(TableColumns({"a": list(range(100)), "y": [0, 1] * 50}), target=False))
    assert "target" not in no_target
    assert set(no_target["columns"]) == {"a", "y"}


def test_draft_of_a_file(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("caf\u00e9;1,5;x\nth\u00e9;?;y\n".encode("latin-1") * 30)
    text = draft_schema(path, sep=";", encoding="latin-1", header=False)
    found = tomllib.loads(text)
    assert found["file"] == {
        "format": "csv",
        "header": False,
        "sep": ";",
        "encoding": "latin-1",
        "decimal": ",",
        "missing": ["?"],
    }
    assert found["columns"]["0"] == {"levels": ["caf\u00e9", "th\u00e9"]}
    stream = open_stream(path, schema=Schema.load(found))
    assert "WARNING" in stream.conditions[0]
    assert sum(block.X.shape[0] for block in stream) == 60
    with pytest.raises(InvalidParameter, match="no columns"):
        draft_schema(np.ones((3, 2)))


def test_a_draft_states_how_the_file_was_read(tmp_path):
    """So that the draft's file is read in the same way whatever its first rows are."""

    def file_of(data, **options):
        return tomllib.loads(draft_schema(data, **options)).get("file")

    path = tmp_path / "t.csv"
    path.write_text("a|b|t\n" + "1|2|3\n4|5|7\n" * 30)
    expected = {"format": "csv", "header": True, "sep": "|"}
    assert file_of(path) == expected
    assert not [c for c in open_stream(path, schema=tomllib.loads(draft_schema(path))).conditions if "told" in c]
    tabs = tmp_path / "t.tsv"
    tabs.write_text("1\t2\n3\t4\n" * 30)
    assert file_of(tabs) == {"format": "csv", "header": False, "sep": "\t"}
    folder = tmp_path / "parts"
    folder.mkdir()
    for name in ("1", "2"):
        (folder / name).write_text(path.read_text())
    assert file_of(folder) == expected
    (folder / "2").write_text(path.read_text().replace("|", ","))
    assert file_of(folder) == {"format": "csv", "header": True}
    lines = tmp_path / "t"
    lines.write_text('{"a": 1.5, "t": 2}\n' * 3)
    assert file_of(lines) == {"format": "jsonl"}
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"a": [1.5, 2.5], "t": [1, 2]})
    assert file_of(table) is None
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(table, tmp_path / "p")
    assert file_of(tmp_path / "p") == {"format": "parquet"}


def test_draft_of_decimal_commas(tmp_path):
    path = tmp_path / "rows.csv"
    rows = [f"{i % 40 + 0.5};{i % 20},25;{i % 2};{i % 7},{i % 3}" for i in range(80)]
    path.write_text("\n".join(["a;b;y;pair", *(row.partition(";")[2] for row in rows)]).replace("a;", "", 1) + "\n")
    found = tomllib.loads(draft_schema(path, target="y"))
    assert found["file"]["decimal"] == ","
    assert found["columns"]["b"] == {"range": [0, 20]}
    (block,) = open_stream(path, schema={**found, "derived_from_data": False})
    assert block.X[1].tolist() == pytest.approx([1.25 / 10 - 1, 1.1 / 3.5 - 1], rel=1e-12)
    # where other numbers have points, cells with commas are text
    path.write_text("\n".join(["a;b;y;pair", *rows]) + "\n")
    found = tomllib.loads(draft_schema(path, target="y"))
    assert "decimal" not in found["file"]
    assert "levels" in found["columns"]["b"]
    # and so they are where a comma separates the columns, or where not every cell is such a number
    path.write_text("a,b,y\n" + "".join(f'{i % 40},"{i % 20},25",{i % 2}\n' for i in range(80)))
    assert "levels" in tomllib.loads(draft_schema(path, target="y"))["columns"]["b"]
    path.write_text("a;b;y\n" + "".join(f"{i % 40};{i % 20},25;{i % 2}\n" for i in range(80)) + "1;1,2,3;0\n")
    assert "levels" in tomllib.loads(draft_schema(path, target="y"))["columns"]["b"]


def test_draft_without_rows_is_refused():
    with pytest.raises(StreamError, match="no rows"):
        draft_schema(TableColumns({"a": [], "y": []}))


# --- examples ------------------------------------------------------------------------------------

ADULT = """|1x3 Cross validator
25, Private, 226802, 11th, 7, Never-married, Machine-op-inspct, Own-child, Black, Male, 0, 0, 40, United-States, <=50K.
52, ?, 209642, HS-grad, 9, Married-civ-spouse, ?, Husband, White, Male, 99999, 0, 45, United-States, >50K

17, Private, 1, Doctorate, 16, Widowed, Sales, Wife, Other, Female, 0, 0, 99, Atlantis, >50K.
"""
DRUGS = "No," * 17 + "Up," + "No," * 5
DIABETIC = f"""\
1,7,Caucasian,Female,[0-10),?,6,25,1,1,?,Pediatrics,41,0,1,0,0,0,250.83,?,?,1,None,None,{DRUGS}No,No,NO
2,7,?,Male,[10-20),?,1,1,7,3,?,?,59,0,18,0,0,0,276,250.01,255,9,>200,None,{DRUGS}Ch,Yes,<30
3,8,Asian,Male,[90-100),?,8,30,26,14,MC,?,59,0,18,0,0,0,V57,250.01,255,9,>200,>8,{DRUGS}Ch,Yes,<30
"""
DIABETIC_HEAD = (
    "encounter_id,patient_nbr,race,gender,age,weight,admission_type_id,discharge_disposition_id,admission_source_id,"
    "time_in_hospital,payer_code,medical_specialty,num_lab_procedures,num_procedures,num_medications,number_outpatient,"
    "number_emergency,number_inpatient,diag_1,diag_2,diag_3,number_diagnoses,max_glu_serum,A1Cresult,"
)


def example(name: str, path: Path):
    schema = Schema.load(EXAMPLES / f"{name}.toml")
    options = CsvOptions(**{key: value for key, value in schema.file.items() if key != "format"})
    return schema_source(schema, CsvColumns(LineFile(path), options, target=None, labels=None))


def row_of(encoder, x):
    return {name: value for name, value in zip(encoder.feature_names, x, strict=True) if value}


def test_example_adult(tmp_path):
    path = tmp_path / "adult.test"
    path.write_text(ADULT)
    source, encoder = example("adult", path)
    X, y = whole(source)
    assert y.tolist() == [0, 1, 1]
    assert encoder.classes == ("<=50K", ">50K")
    first, second, third = (row_of(encoder, x) for x in X)
    assert first["workclass=Private"] == first["education=11th"] == first["sex=Male"] == 1
    assert first["age"] == pytest.approx((25 - 53.5) / 36.5)
    assert first["capital-gain"] == -1
    assert second["workclass=(missing)"] == second["occupation=(missing)"] == second["capital-gain"] == 1
    assert third["native-country=(unknown)"] == third["education-num"] == third["hours-per-week"] == 1
    assert all(len(row) == 13 for row in (first, second, third))
    assert np.linalg.norm(X, axis=1).max() <= encoder.schema.row_bound == pytest.approx(13**0.5)


def test_example_diabetic_data(tmp_path):
    path = tmp_path / "diabetic_data.csv"
    names = [name for name, _ in Schema.load(EXAMPLES / "diabetic_data.toml").columns]
    drugs = names[names.index("metformin") : names.index("change")]
    text = DIABETIC_HEAD + ",".join([*drugs, "change,diabetesMed,readmitted"]) + "\n" + DIABETIC
    path.write_text(text.replace("\n", "\r\n"), newline="")
    source, encoder = example("diabetic_data", path)
    X, y = whole(source)
    # the second row belongs to the same patient
    assert y.tolist() == [0, 1]
    assert source.counts == {"over_user_cap": 1}
    assert source.facts.rows_per_user == 1
    assert source.count() == 2
    assert encoder.classes == (">30", "<30")
    first, second = (row_of(encoder, x) for x in X)
    assert first["max_glu_serum=None"] == first["insulin=Up"] == first["payer_code=(missing)"] == 1
    assert first["admission_type_id=6"] == first["diag_2=(missing)"] == 1
    assert "race=(missing)" not in first
    assert second["time_in_hospital"] == second["A1Cresult=>8"] == second["admission_source_id=26"] == 1


def test_example_covtype(tmp_path):
    path = tmp_path / "covtype.data.gz"
    cells = [2596, 51, 3, 258, 0, 510, 221, 232, 148, 6279, 1, *[0] * 43]
    path.write_bytes(gzip.compress("".join(",".join(map(str, [*cells, k])) + "\n" for k in (5, 2)).encode()))
    source, encoder = example("covtype", path)
    X, y = whole(source)
    assert y.tolist() == [0, 1]
    assert X.shape == (2, 54)
    assert X[0, 10:].tolist() == cells[10:]
    assert X[0, 0] == pytest.approx((2596 - 2900) / 1100)
    ranges = {name: c.range for name, c in encoder.schema.columns if name in covtype_ranges()}
    assert ranges == covtype_ranges()


@pytest.mark.parametrize(
    ("name", "file", "rows", "positives", "features"),
    [
        ("adult", "adult.data.gz", 32_561, 7_841, 120),
        ("adult", "adult.test.gz", 16_281, 3_846, 120),
        ("diabetic_data", "diabetic_data.csv.gz", 71_518, 6_293, 1_146),
        ("covtype", "covtype.data.gz", 581_012, 283_301, 54),
    ],
)
def test_real_files(data_folder, name, file, rows, positives, features):
    source, encoder = example(name, data_folder / file)
    read, ones, largest = 0, 0.0, 0.0
    for X, y, *_ in source.pieces(65536, lambda _: None):
        squares = X.multiply(X).sum(axis=1) if encoder.sparse else np.einsum("ij,ij->i", X, X)
        read, ones, largest = read + X.shape[0], ones + y.sum(), max(largest, squares.max())
    assert (read, ones, encoder.n_features) == (rows, positives, features)
    assert largest <= encoder.schema.row_bound**2
    if name == "diabetic_data":
        assert source.counts == {"over_user_cap": 101_766 - 71_518}
        assert source.count() == 71_518


def test_the_worked_example_of_the_documentation(tmp_path):
    text = (ROOT / "docs" / "schemas.md").read_text(encoding="utf-8")
    rows, toml = (text.split(f"```{kind}\n")[1].split("```")[0] for kind in ("", "toml"))
    path, schema = tmp_path / "visits.csv", tmp_path / "s.toml"
    path.write_text(rows)
    schema.write_text(toml)
    with pytest.raises(StreamError, match="column 'result', row 3: found nothing"):
        list(open_stream(path, schema=schema))
    path.write_text(rows.replace("n/a", "worse"))
    stream = open_stream(path, schema=schema)
    (block,) = stream
    first = dict(zip(stream.feature_names, dense(block.X)[0], strict=True))
    assert first["age"] == pytest.approx(-0.018, abs=5e-4)
    assert first["cost"] == pytest.approx(0.23, abs=5e-3)
    assert first["ward=surgery"] == 1
    assert stream.feature_names[:9] == (
        *("age", "age=missing", "ward=surgery", "ward=medicine", "ward=intensive", "ward=(unknown)", "ward=(missing)"),
        *("cost", "icd#0"),
    )
    assert (stream.n_features, stream.feature_names[-1]) == (8 + 64 + 1, "icd=(missing)")
    assert stream.row_bound == 2
    assert (block.y.tolist(), stream.counts, stream.rows_per_user) == ([1, 0], {"over_user_cap": 1}, 1)


def test_labels_may_be_truth_values():
    """As those of Python objects are: what is learnt of them is written, and read again."""
    made = Schema.load(
        {"columns": {"a": {"range": [0, 9]}}, "target": {"column": "y", "negative": False, "positive": True}}
    )
    assert Schema.from_record(made.to_record()) == made
    assert Schema.load(tomllib.loads(made.to_toml())) == made
    rows = [{"a": 1, "y": label} for label in (True, 1, "true", "1.0", False, 0)]
    assert [block.y.tolist() for block in open_stream(rows, schema=made)] == [[1, 1, 1, 1, 0, 0]]
