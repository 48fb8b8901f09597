"""Counts of the cells that a schema does not use unchanged: exact, for whole iterations, for any cut."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from cli_tools import privol_cli, run_json
from stream_files import save, write

from privol import open_stream
from privol.encoding.cells import CellCounts
from privol.encoding.encode import SchemaEncoder
from privol.errors import InvalidParameter

N = 1000
SCHEMA = {
    "file": {"missing": ["n/a"]},
    "target": {"column": "y", "range": [0, 100]},
    "columns": {
        "age": {"range": [0, 50], "missing": "indicator"},
        "size": {"range": [1, 2], "scaling": "log", "missing": 1.5},
        "free": {"missing": "nan"},
        "ward": {"levels": ["a", "b"], "unknown": "zero", "missing": "zero"},
        "code": {"hash": 4},
        "fine": {"range": [0, 1]},
        "gone": {"drop": True},
    },
}


def cells_of(row):
    """Return a row of text that contains every kind of cell."""
    return {
        "age": ["-1", "0", "50", "50.5", "", "n/a", "7"][row % 7],
        "size": ["1", "3", "", "2", "0.5"][row % 5],
        "free": ["1e9", "", "3"][row % 3],
        "ward": ["a", "b", "c", "", " n/a ", " a "][row % 6],
        "code": ["x", "", "y", "n/a"][row % 4],
        "fine": ["0", "1"][row % 2],
        "gone": "z",
        "y": ["0", "100", "101", "-5"][row % 4],
    }


def by_hand(rows):
    found = {name: Counter() for name in (*SCHEMA["columns"], "y")}
    for row in rows:
        for name, cell in row.items():
            cell = cell.strip()
            if name == "gone":
                continue
            if cell in ("", "n/a"):
                found[name]["missing"] += 1
            elif name == "ward":
                found[name]["unknown"] += cell not in ("a", "b")
            elif name in ("age", "size", "y"):
                low, high = {"age": (0, 50), "size": (1, 2), "y": (0, 100)}[name]
                found[name]["clipped"] += not low <= float(cell) <= high
    kept = {name: {kind: n for kind, n in counts.items() if n} for name, counts in found.items()}
    return {name: counts for name, counts in kept.items() if counts}


ROWS = [cells_of(i) for i in range(N)]
EXPECTED = by_hand(ROWS)


def table_of(rows=ROWS):
    names = list(rows[0])
    return "\n".join([",".join(names), *(",".join(row.values()) for row in rows)]) + "\n"


def drained(stream):
    for _ in stream:
        pass
    return stream


def test_the_expected_counts_are_correct():
    assert set(EXPECTED) == {"age", "size", "free", "ward", "code", "y"}
    assert set(EXPECTED["age"]) == {"missing", "clipped"}
    assert set(EXPECTED["ward"]) == {"missing", "unknown"}


@pytest.mark.parametrize("read_ahead", [True, False])
@pytest.mark.parametrize("block_rows", [1, 7, 65536])
def test_counts_are_exact_whatever_the_cut(tmp_path, block_rows, read_ahead):
    path = write(tmp_path, "d.csv", table_of())
    stream = open_stream(path, schema=SCHEMA, block_rows=block_rows, read_ahead=read_ahead, count_cells=True)
    assert stream.cells is None
    for _ in range(2):  # each iteration starts a new count
        drained(stream)
        assert stream.cells == EXPECTED
        assert stream.cell_rows == N
    blocks = iter(stream)
    next(blocks)
    assert stream.cells is None, "of a part of the rows there is no count, however far a thread has read"
    assert stream.cell_rows is None
    for _ in blocks:
        pass
    assert stream.cells == EXPECTED


@pytest.mark.parametrize("name", ["d.jsonl", "d.parquet", "d.arrow", "dicts", "frame"])
def test_counts_are_the_same_in_every_format(tmp_path, name):
    pa = pytest.importorskip("pyarrow")
    data = {
        "d.jsonl": lambda: write(tmp_path, name, "".join(json.dumps(row) + "\n" for row in ROWS)),
        "dicts": lambda: ROWS,
        "frame": lambda: pa.Table.from_pylist(ROWS),
    }.get(name, lambda: save(tmp_path, pa.Table.from_pylist(ROWS), name))()
    assert drained(open_stream(data, schema=SCHEMA, count_cells=True)).cells == EXPECTED


def test_cells_are_counted_only_on_request(tmp_path, monkeypatch):
    path = write(tmp_path, "d.csv", table_of())
    monkeypatch.setattr(SchemaEncoder, "_count", lambda *_: pytest.fail("counted unasked"))
    stream = drained(open_stream(path, schema=SCHEMA))
    assert stream.cells is None
    assert stream.cell_rows is None
    with pytest.raises(InvalidParameter, match="needs a schema"):
        open_stream(path, count_cells=True)
    with pytest.raises(InvalidParameter, match="count_cells must be True or False"):
        open_stream(path, schema=SCHEMA, count_cells=1)


def test_columns_without_counts_are_not_listed():
    rows = [{"x": 1.0, "y": 0.5}]
    parts = {"columns": {"x": {"range": [0, 1]}}, "target": {"column": "y"}}
    stream = drained(open_stream(rows, schema=parts, count_cells=True))
    assert stream.cells == {}
    assert stream.cell_rows == 1


@pytest.mark.parametrize("shape", ["cosine", "spline", "linear"])
def test_times_beyond_the_knots_are_not_counted(shape):
    """All later rows lie beyond the times that taught a column; non-times and missing cells are still counted."""
    both = {"shape": shape, "missing": "zero"}
    at = {"knots": [1.577e9, 1.580e9, 1.583e9], "timestamp": True, "cycles": ["week"], **both}
    numbers = {"knots": [0.0, 1.0, 2.0], **both}
    cells = ["2019-05-05", "2020-02-02", "2024-01-01", "", "soon"]
    rows = [{"at": cell, "x": x} for cell, x in zip(cells, ["-1", "1", "9", "", "soon"], strict=True)]
    schema = {"columns": {"at": at, "x": numbers}}
    stream = drained(open_stream(rows, schema=schema, target=False, count_cells=True))
    assert stream.cells == {"at": {"missing": 1, "unknown": 1}, "x": {"missing": 1, "unknown": 1, "clipped": 2}}


def test_infinite_cells_are_not_clipped():
    rows = [{"x": x} for x in (float("inf"), float("-inf"), 2.0)]
    stream = drained(open_stream(rows, schema={"columns": {"x": {"range": [0, 1]}}}, target=False, count_cells=True))
    assert stream.cells == {"x": {"clipped": 1}}


def test_dropped_rows_count_and_rows_that_only_bring_labels_do_not():
    parts = {
        "columns": {"x": {"range": [5, 9], "missing": "zero"}, "k": {"levels": ["a"], "missing": "zero"}},
        "target": {"column": "y", "negative": [0], "positive": [1]},
        "user": {"column": "u", "max_rows": 1},
        "delay": {"key": "id", "window": 2},
    }

    def row(key, x=None, k=None, y=None, u="u"):
        return {"id": key, "x": x, "k": k, "y": y, "u": u}

    rows = [
        row("1", 4, "a"),  # learnt with its label
        row("1", y=1),  # a label alone: no cell of it is missing, and its x is not clipped
        row("2", None, "b", 0),  # dropped by the cap
        row("3", 9, "b"),  # never gets its label
        row("4", y=1),  # a label without a row
    ]
    stream = drained(open_stream(rows, schema=parts, count_cells=True))
    assert stream.counts == {"waited_too_long": 0, "unmatched_labels": 1, "still_waiting": 1, "over_user_cap": 1}
    assert stream.cells == {"x": {"missing": 1, "clipped": 1}, "k": {"unknown": 2}}
    assert stream.cell_rows == 3


# --- the command line ----------------------------------------------------------------------------


TOML = """
[target]
column = "y"
negative = ["no"]
positive = ["yes"]
[columns.a]
range = [0, 1]
[columns.b]
levels = ["x"]
missing = "zero"
[columns.good]
range = [0, 1]
"""


@pytest.fixture
def table(here):
    rows = [
        f"{99 if i % 10 else 0.5},{('z' if i % 4 == 0 else 'x') if i % 3 else ''},0.5,{['no', 'yes'][i % 2]}"
        for i in range(200)
    ]
    write(here, "d.csv", "\n".join(["a,b,good,y", *rows]) + "\n")
    write(here, "s.toml", TOML)


@pytest.mark.slow
def test_a_run_shows_them_among_the_diagnostics(here, table):
    expected = {"a": {"clipped": 180}, "b": {"unknown": 33, "missing": 67}}
    record = run_json("run", "d.csv", "--schema", "s.toml", "--out", "one")
    assert record["diagnostics"]["cells"] == {"rows": 200, "columns": expected}
    assert json.loads((here / "one" / "run.json").read_text())["diagnostics"]["cells"]["columns"] == expected
    doubts = [words for words in record["warnings"] if "cells" in words]
    assert len(doubts) == 1
    assert doubts[0].startswith("NOT PRIVATE")
    assert "'a' (180 clipped)" in doubts[0]
    assert "'b'" not in doubts[0], "half of its cells are fine"
    text = privol_cli("run", "d.csv", "--schema", "s.toml", "--verbose").stdout
    shown = " ".join(text.split())
    assert "of 200 in each column: a 180 clipped; b 33 unknown, 67 missing." in shown
    assert "good" not in shown


def test_a_run_without_diagnostics_does_not_count(table):
    record = run_json("run", "d.csv", "--schema", "s.toml", "--no-diagnostics")
    assert record["diagnostics"] is None
    assert not [words for words in record["warnings"] if "cells" in words]
    assert "clipped" not in privol_cli("run", "d.csv", "--schema", "s.toml", "--no-diagnostics", "--verbose").stdout


@pytest.mark.slow
def test_a_schema_that_fits_gives_no_note(here, table):
    write(here, "s.toml", TOML.replace('levels = ["x"]\nmissing = "zero"', "drop = true").replace("[0, 1]", "[0, 100]"))
    assert run_json("run", "d.csv", "--schema", "s.toml")["diagnostics"]["cells"] is None
    assert "Cells" not in privol_cli("run", "d.csv", "--schema", "s.toml").stdout


def test_counts_of_several_batches_add_up():
    counts = CellCounts()
    for n in (2, 3):
        counts.add("a", "missing", n)
    counts.add("b", "clipped", 0)
    assert counts.found(["b", "a"]) == {"a": {"missing": 5}}
