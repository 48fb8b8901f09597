"""One row never changes how a stream reads another: it is an error in that row, or has no effect on other rows."""

from __future__ import annotations

import json
import math
from functools import partial

import numpy as np
import pytest
from hostile import ANY, BIG, COLUMNS, ODD_ROWS, PLACES, ROWS, SIDES, TABLES, N, changed, objects, pandas, same
from hypothesis import given, settings
from hypothesis import strategies as st

from privol import NOGD, open_stream
from privol.errors import InvalidRow, StreamError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def encoded(stream):
    blocks = list(stream)
    parts = [block.X.toarray() if hasattr(block.X, "toarray") else block.X for block in blocks]
    return np.concatenate(parts).astype(np.float64), np.concatenate([block.y for block in blocks])


def alone(make, rows, y, at):
    """Check that changing one row changes that row of the stream alone, or fails with an error that names it."""
    found = attempt(make, rows, y)
    if isinstance(found, StreamError):
        assert found.row == at + 1, found
    else:
        same(found, encoded(make(ROWS, SIDES)), at)


def attempt(make, rows, y):
    """The rows that a stream gives, or its error."""
    try:
        return encoded(make(rows, y))
    except StreamError as error:
        return error


SCHEMA = {"target": {"column": "t", "classes": [0, 1]}, "columns": {"a": {"missing": "nan"},
          "b": {"hash": 64}}}  # fmt: skip


def records(rows, y):
    return [{"a": row[0], "b": row[1], "t": label} for row, label in zip(rows, y, strict=True)]


def whole_frame(rows, y):
    return pandas.DataFrame({"a": objects([row[0] for row in rows]), "b": objects([row[1] for row in rows]),
                             "t": objects(y)})  # fmt: skip


STREAMS = {
    **{name: lambda rows, y, made=made: open_stream((made(rows), y), classes=(0, 1)) for name, made in TABLES.items()
       if name != "tuples"},
    "real targets": lambda rows, y: open_stream((rows, y)),
    "series": lambda rows, y: open_stream((rows, COLUMNS["series"](y)), positive=1),
    "blocks": lambda rows, y: open_stream([(rows[:3], y[:3]), (rows[3:], y[3:])], classes=(0, 1)),
    "dict pairs": lambda rows, y: open_stream(
        [({"a": row[0], "b": row[1]}, label) for row, label in zip(rows, y, strict=True)], classes=(0, 1),
        hash_features=32),
    "dicts": lambda rows, y: open_stream(records(rows, y), schema=SCHEMA),
    "whole frame": lambda rows, y: open_stream(whole_frame(rows, y), target="t", classes=(0, 1)),
    "frame by schema": lambda rows, y: open_stream(whole_frame(rows, y), schema=SCHEMA),
}  # fmt: skip


@pytest.mark.parametrize("name", STREAMS)
@settings(max_examples=40)
@given(at=PLACES, j=st.integers(0, 2), value=ANY)
def test_a_value_in_a_stream(name, at, j, value):
    rows, y = ROWS, changed(SIDES, at, value)
    if j < 2:
        rows, y = changed(ROWS, at, changed(ROWS[at], j, value)), SIDES
    alone(STREAMS[name], rows, y, at)


@settings(max_examples=20)
@given(at=PLACES, row=ODD_ROWS)
def test_a_row_of_another_shape_in_a_stream(at, row):
    alone(STREAMS["lists"], changed(ROWS, at, row), SIDES, at)


TEXTS = st.one_of(
    st.sampled_from(["?", "", "nan", "inf", "1e400", str(BIG + 1), "true", "1j", "[1]", "None", "1_0", "0x1", " 1 "]),
    st.text(alphabet="ab?1.e-+_ ", max_size=5),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("files")


@pytest.mark.parametrize("kind", ["csv", "csv by schema", "parts", "libsvm"])
@settings(max_examples=30)
@given(at=PLACES, j=st.integers(0, 2), text=TEXTS)
def test_a_text_in_a_file(folder, kind, at, j, text):
    def opened(rows, y):
        lines = [f"{row[0]},{row[1]},{label}\n" for row, label in zip(rows, y, strict=True)]
        if kind == "libsvm":
            lines = [f"{label} 1:{row[0]} 2:{row[1]}\n" for row, label in zip(rows, y, strict=True)]
            (folder / "a.svm").write_text("".join(lines))
            return open_stream(folder / "a.svm", classes=(0, 1), n_features=2, zero_based=False)
        (folder / "parts").mkdir(exist_ok=True)
        for name, part in (("a.csv", lines), ("parts/1.csv", lines[:4]), ("parts/2.csv", lines[4:])):
            (folder / name).write_text("a,b,t\n" + "".join(part))
        path = folder / ("parts" if kind == "parts" else "a.csv")
        if kind == "csv by schema":
            return open_stream(path, schema={**SCHEMA, "file": {"header": True, "sep": ","}})
        return open_stream(path, classes=(0, 1), header=True, sep=",")

    rows, y = ROWS, changed(SIDES, at, text)
    if j < 2:
        rows, y = changed(ROWS, at, changed(ROWS[at], j, text)), SIDES
    alone(opened, rows, y, at)


@pytest.mark.parametrize("schema", [False, True])
@settings(max_examples=30)
@given(
    at=PLACES,
    j=st.integers(0, 2),
    value=st.sampled_from(["?", "1", None, True, [1], [], {"a": 1}, 10**400, BIG + 1, 1.5, math.nan, math.inf, -0.0]),
)
def test_a_value_in_json(folder, schema, at, j, value):
    def opened(rows, y):
        (folder / "a.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records(rows, y)))
        return open_stream(folder / "a.jsonl", **({"schema": SCHEMA} if schema else {"classes": (0, 1)}))

    rows, y = ROWS, changed(SIDES, at, value)
    if j < 2:
        rows, y = changed(ROWS, at, changed(ROWS[at], j, value)), SIDES
    alone(opened, rows, y, at)


@settings(max_examples=30)
@given(at=PLACES, value=st.sampled_from([None, BIG + 1, -BIG - 1, BIG, -1, 7]))
def test_a_value_in_typed_columns(folder, at, value):
    """Integer columns in which one value is missing or not a double."""

    def opened(options, rows, y):
        pq.write_table(pa.table({"a": [row[0] for row in rows], "t": y}), folder / "a.parquet")
        return open_stream(folder / "a.parquet", target="t", **options)

    wholes = [[side + k, 0] for k, side in enumerate(SIDES)]
    plain = [[0, 0], *wholes[1:]]
    for options in ({"classes": (0, 1)}, {}):
        make = partial(opened, options)
        expected = encoded(make(plain, SIDES))
        for rows, y in ((changed(plain, at, [value, 0]), SIDES), (plain, changed(SIDES, at, value))):
            found = attempt(make, rows, y)
            if isinstance(found, StreamError):
                assert found.row == at + 1, found
            else:
                same(found, expected, at)


def test_masked_arrays_in_streams(folder):
    masked = np.ma.array(ROWS, mask=np.zeros((N, 2), dtype=bool))
    masked[2, 1] = np.ma.masked
    rows = np.where(masked.mask, np.nan, ROWS)
    for X, expected in ((masked, rows), (masked.astype(np.float32), rows)):
        found, _ = encoded(open_stream((X, SIDES), classes=(0, 1)))
        np.testing.assert_array_equal(found, expected)
    table = np.ma.column_stack([masked, SIDES])
    table.mask[2, 1] = True
    np.testing.assert_array_equal(encoded(open_stream(table))[0], rows)
    with pytest.raises(StreamError, match="row 2: found nothing"):
        encoded(open_stream((ROWS, np.ma.array(SIDES, mask=np.arange(N) == 1)), classes=(0, 1)))
    table.mask[4, 2] = True
    assert math.isnan(encoded(open_stream(table))[1][4])


def test_an_integer_too_large_for_a_double_affects_only_its_row():
    huge = np.array([1, 10**400, 3], dtype=object)
    with pytest.raises(StreamError, match="row 2, column 'a': found 11805") as caught:
        encoded(open_stream(pandas.DataFrame({"a": np.array([1, 2**70, 3], dtype=object), "t": [0.0, 1.0, 2.0]})))
    assert caught.value.row == 2
    assert math.isinf(encoded(open_stream((np.eye(3), huge)))[1][1])
    with pytest.raises(InvalidRow, match="row 2, target: found 100"):
        NOGD(loss="squared").fit(np.eye(3), huge)
    with pytest.raises(InvalidRow, match="row 2, feature 0: found infinity"):
        NOGD(loss="squared").fit(huge[:, None], [0.0, 0.5, 1.0])
