"""Columns of numbers as functions, and kept buckets: by their definition, each row by itself, in any form."""

from __future__ import annotations

import bisect
import json
import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from schema_tables import TableColumns, encoded, pa
from sklearn.utils import murmurhash3_32
from stream_files import save, together, write

from privol import open_stream
from privol.encoding import cosines, encode
from privol.encoding.encode import SchemaEncoder
from privol.encoding.rows import ColumnSource
from privol.encoding.schema import Schema
from privol.encoding.schema_parts import Hashed, Knots
from privol.errors import InvalidParameter
from privol.readers.written import Written, is_number

MISSING = ["?", "-9", "7.5"]
KNOTS = [17, 27, 34, 64]
NONE = float("nan")


def one(column, cells, **parts):
    """Feature names and rows of a table of one column."""
    encoder, X, _ = encoded({"a": cells}, {"columns": {"a": column}, **parts})
    return list(encoder.feature_names), X.tolist()


def number_of(text, decimal="."):
    """The number of a cell by its definition, in plain Python: None if it is missing, NaN if it is not a number."""
    text = (text or "").strip()
    if text in ("", *MISSING):
        return None
    if not is_number(text, decimal):
        return NONE
    value = float(text.replace(decimal, "."))
    marked = value == -9.0 or (value == 7.5 and decimal == ".")
    return None if math.isnan(value) or marked else value


def by_hand(text, knots, shape, missing, decimal="."):
    """The features of a cell by their definition, in fractions."""
    n = {"spline": len(knots), "linear": 1, "apart": 2}.get(shape, len(knots) - 1)
    row = [Fraction(0)] * (n + (missing == "indicator"))
    value = number_of(text, decimal)
    if value is None or math.isnan(value):
        if missing == "indicator":
            row[-1] = Fraction(1)
        return row
    if shape == "apart":
        row[0], row[1] = Fraction(value < knots[0]), Fraction(value > knots[-1])
        return row
    x = Fraction(min(max(value, knots[0]), knots[-1]))
    at = [Fraction(knot) for knot in knots]
    if shape == "linear":
        row[0] = 2 * (x - at[0]) / (at[-1] - at[0]) - 1
        return row
    left = min(bisect.bisect_right(at, x) - 1, len(knots) - 2)
    if shape == "bins":
        row[left] = Fraction(1)
        return row
    part = (x - at[left]) / (at[left + 1] - at[left])
    if shape == "cosine":
        for k in range(1, n + 1):
            ends = [math.cos(math.pi * k * (j + 0.5) / len(knots)) for j in (left, left + 1)]
            mixed = float(1 - part) * ends[0] + float(part) * ends[1]
            row[k - 1] = Fraction(math.sqrt(2 / (len(knots) * k)) * mixed)
        return row
    row[left], row[left + 1] = 1 - part, part
    return row


# --- definition ---------------------------------------------------------------------------------


def test_hat_functions_add_up_to_one():
    names, rows = one({"knots": KNOTS}, ["17", "22", "27", "34", "49", "64", "3", "1e9", None, "x"])
    assert names == ["a~17", "a~27", "a~34", "a~64", "a=missing"]
    assert rows == [
        [1, 0, 0, 0, 0],
        [0.5, 0.5, 0, 0, 0],
        [0, 1, 0, 0, 0],
        [0, 0, 1, 0, 0],
        [0, 0, 0.5, 0.5, 0],
        [0, 0, 0, 1, 0],
        [1, 0, 0, 0, 0],
        [0, 0, 0, 1, 0],
        [0, 0, 0, 0, 1],
        [0, 0, 0, 0, 1],
    ]


def test_a_line_between_the_outer_knots():
    names, rows = one({"knots": [0, 1, 10], "shape": "linear"}, ["0", "5", "10", "-4", "inf", ""])
    assert (names, rows) == (["a", "a=missing"], [[-1, 0], [0, 0], [1, 0], [-1, 0], [1, 0], [0, 1]])
    assert one({"knots": [0, 10], "shape": "linear", "missing": "zero"}, ["?x", "7.5"]) == (["a"], [[0], [0.5]])


def test_one_indicator_an_interval():
    names, rows = one(
        {"knots": KNOTS, "shape": "bins", "missing": "zero"}, ["16", "17", "26.9", "27", "63", "64", "65"]
    )
    assert names == ["a[17,27)", "a[27,34)", "a[34,64]"]
    assert [row.index(1) for row in rows] == [0, 0, 0, 1, 2, 2, 2]
    assert {sum(row) for row in rows} == {1}


def test_names_tell_close_and_large_knots_apart():
    names, _ = one({"knots": [1.6e9, 1.6e9 + 1, 17.000000001e9]}, ["1"])
    assert names[:3] == ["a~1600000000", "a~1600000001", "a~17000000001"]


def test_columns_of_one_usual_number():
    """The usual numbers may be a single one, or all between two: which cells differ, and on which side."""
    names, rows = one({"knots": [0, 0], "shape": "apart"}, ["0", "-0.0", "5e-324", "-1", "1e999", "x", None])
    assert names == ["a<0", "a>0", "a=missing"]
    assert rows == [[0, 0, 0], [0, 0, 0], [0, 1, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1]]
    column = {"knots": [1, 3], "shape": "apart", "missing": "zero", "share": 0.75}
    assert one(column, ["0.9", "1", "3", "3.1", ""]) == (["a<1", "a>3"], [[1, 0], [0, 0], [0, 0], [0, 1], [0, 0]])
    assert Schema.load({"columns": {"a": column}}).usual_norm == 0.5
    always = {"knots": [0, 0], "shape": "apart", "share": 1.0}
    assert Schema.load({"columns": {"a": always}}).usual_norm == 1 / 16  # no row bound is 0


@pytest.mark.parametrize("shape", ["cosine", "spline", "linear", "bins", "apart"])
def test_nothing_is_refused(shape):
    """Nor does any cell become a wrong number or a non-finite one."""
    knots = [KNOTS[0], KNOTS[-1]] if shape == "apart" else KNOTS
    cells = [
        *("1e400", "-1e400", "inf", "-Infinity", "nan", "-NaN", "nan(1)", "1_0", "0x1p3", "1,5", "--1", "1e", "\u0663"),
        *(" 20 ", "+20", ".5", "5.", ".", "true", "2020-01-01", "\x00", "e5", "1 2", "?", " -9.0", "", None),
    ]
    _, rows = one({"knots": knots, "shape": shape}, cells, file={"missing": MISSING})
    assert np.isfinite(rows).all()
    expected = [by_hand(cell, knots, shape, "indicator") for cell in cells]
    atol = 2.0**-39 if shape == "cosine" else 1e-15  # cosines are multiples of 2^-40
    np.testing.assert_allclose(rows, np.array(expected, dtype=float), atol=atol)


def test_knots_at_the_ends_of_what_doubles_hold():
    tiny, huge = 5e-324, 1.7e308
    cells = ["-1e309", "-1.7e308", "0", "5e-324", "1e-323", "8.5e307", "1.7e308", "1e309"]
    for knots in ([-huge, 0.0, huge], [-huge, huge], [0.0, tiny, 2 * tiny, huge], [-tiny, tiny], [0.0, tiny]):
        for shape in ("cosine", "spline", "linear", "bins"):
            _, rows = one({"knots": knots, "shape": shape}, cells)
            expected = [by_hand(cell, knots, shape, "indicator") for cell in cells]
            np.testing.assert_allclose(rows, np.array(expected, dtype=float), atol=2e-12)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=6, unique=True).map(sorted),
    st.lists(st.floats(), min_size=1, max_size=8),
    st.sampled_from(["cosine", "spline", "linear", "bins"]),
)
@example([0.0, 1.0], [1e-20, 1 - 1e-16, 1 / 3], "spline")
@example([0.0, 1.0, 2.0, 4.0, 8.0, 16.0], [0.0, 1e-20, 16.0], "cosine")
def test_no_row_is_longer_than_the_bound(knots, cells, shape):
    """Exactly: not up to the rounding of a sum of squares."""
    knots = [abs(knot) if knot == 0 else knot for knot in knots]
    encoder, X, _ = encoded({"a": [repr(x) for x in cells]}, {"columns": {"a": {"knots": knots, "shape": shape}}})
    largest = encoder.schema.columns[0][1].largest_square
    assert largest == 1
    assert encoder.schema.row_bound == 1.0
    if shape == "cosine":
        largest = cosines.largest_square(len(knots))
        assert largest < 0.73  # only the row of a missing cell is longer than a spline's
    numbers = [row[:-1] for row in X.tolist() if not row[-1]]
    for row in numbers:
        assert sum(Fraction(x) ** 2 for x in row) <= largest
    for row in X.tolist():
        if shape == "spline":
            assert sum(map(Fraction, row)) == 1


def test_row_bound_counts_columns():
    columns = {"a": {"knots": [0, 1]}, "b": {"knots": [0, 9], "shape": "linear"}, "c": {"hash": 8, "kept": [1]}}
    columns |= {"d": {"range": [0, 1]}}
    assert Schema.load({"columns": columns}).row_bound == 2.0


def test_usual_norm_is_that_of_numbers_between_knots():
    columns = {"a": {"knots": [0, 1, 5]}, "b": {"knots": [0, 9], "shape": "linear"}}
    columns |= {"c": {"hash": 8, "kept": [1]}, "d": {"range": [-1, 1]}, "e": {"knots": [0, 1, 2], "shape": "bins"}}
    rng = np.random.default_rng(0)
    near = rng.integers(0, 2, 4000)
    cells = {"a": np.where(near, rng.uniform(1, 5, 4000), rng.uniform(0, 1, 4000)), "b": rng.uniform(0, 9, 4000)}
    cells |= {"c": rng.integers(0, 99, 4000), "d": near * 2 - 1, "e": rng.uniform(0, 2, 4000)}
    encoder, X, _ = encoded({name: [str(x) for x in column] for name, column in cells.items()}, {"columns": columns})
    squares = (X**2).sum(axis=1)
    assert encoder.schema.usual_norm == pytest.approx(np.sqrt(2 / 3 + 1 / 3 + 1 + 1 + 1))
    assert squares.mean() == pytest.approx(
        4.0 - np.mean(X @ [name.startswith("c") for name in encoder.feature_names] == 0), abs=0.05
    )
    assert Schema.load({"columns": {"a": {}}}).usual_norm is None


@pytest.mark.parametrize(
    ("column", "constant"),
    [
        ({"knots": [0, 1, 5]}, True),
        ({"knots": [0, 1, 5], "shape": "bins"}, True),
        ({"knots": [0, 1, 5], "shape": "linear"}, False),
        ({"knots": [0, 1, 5], "shape": "cosine"}, False),
        ({"knots": [0, 1], "shape": "apart"}, False),
        ({"hash": 4, "reference": 1, "rest": 2}, False),
        ({"hash": 4, "kept": [0], "reference": 1, "rest": 2}, False),
        ({"hash": 4}, True),
        ({"hash": 4, "kept": [1]}, False),
        ({"hash": 4, "kept": [1], "rest": 2}, True),
        ({"levels": ["1", "2"]}, True),
        ({"levels": ["1", "2"], "unknown": "zero"}, False),
        ({"range": [0, 1]}, False),
    ],
)
def test_features_that_add_up_to_a_constant(column, constant):
    encoder, X, _ = encoded({"a": ["0", "0.5", "1", "2", "5", "7"]}, {"columns": {"a": column}})
    assert encoder.schema.has_constant == constant
    assert (np.ptp(X.sum(axis=1)) == 0.0) == constant


# --- the meaning of a text ------------------------------------------------------------------------

SHAPED = st.from_regex(r"\s?[+-]?[0-9]{0,3}[.,]?[0-9]{0,3}([eE][+-]?[0-9]{0,3})?\s?", fullmatch=True)
WORDS = st.sampled_from(
    [
        "7.5",
        "7,5",
        "75e-1",
        "inf",
        "-INF",
        "Infinity",
        "nan",
        "+NaN",
        "nan(x)",
        "?",
        "-9",
        "-9.0",
        "-90e-1",
        "",
        "1e400",
    ]
)
CELLS = st.one_of(st.none(), SHAPED, WORDS, st.floats().map(repr), st.integers().map(str), st.text(max_size=3))


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.lists(CELLS, max_size=6), st.sampled_from([".", ","]), st.booleans())
@example(["+1", "1e400", "nan", "nan(x)"], ".", False)
@example(["1.5", "1,5"], ",", True)
@example(["7.5", "7.50", "7,5"], ",", True)
@example(["7.5", "x"], ",", True)
@example(["2020-01-01", "5", "x", "-"], ".", False)
@example(["1.5", "1,5"], ",", False)
def test_a_text_is_read_by_itself(cells, decimal, pointed):
    """The same number whatever else is in the array, and the one that is_number and Python give."""
    written = Written(MISSING, decimal)
    values, strange = written.values(pa.array(cells, pa.string()), pointed=pointed)
    for cell, value, odd in zip(cells, values, strange, strict=True):
        expected = number_of(cell, decimal)
        if pointed and decimal != "." and expected is not None and math.isnan(expected):
            expected = 7.5 if is_number(cell.strip()) and float(cell.strip()) == 7.5 else number_of(cell)
        assert odd == (expected is not None and math.isnan(expected)), cell
        assert value == expected or (math.isnan(value) and (expected is None or math.isnan(expected))), cell
        alone, _ = written.values(pa.array([cell], pa.string()), pointed=pointed)
        assert alone.tobytes() == np.array([value]).tobytes() or math.isnan(alone[0]) == math.isnan(value) is True


def test_numbers_that_arrow_cannot_read_are_read_one_by_one(monkeypatch):
    """As in versions of Arrow that do not accept a leading sign: the values stay the same."""
    texts = pa.array(["+1", "2", "x", None, "?"])
    expected = Written(MISSING).values(texts)
    monkeypatch.setattr("privol.readers.written._read", lambda *_, **__: None)
    found = Written(MISSING).values(texts)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])
    assert found[1].tolist() == [False, False, True, False, False]


# --- row by row ----------------------------------------------------------------------------------

PARTS = {
    "file": {"missing": MISSING},
    "columns": {
        "s": {"knots": [-1, 0, 0.5, 3]},
        "z": {"knots": [0, 10], "missing": "zero"},
        "l": {"knots": [-2, 1, 2], "shape": "linear"},
        "b": {"knots": [0, 1, 2], "shape": "bins"},
        "c": {"knots": [-1, 0, 1, 4], "shape": "cosine"},
        "a": {"knots": [0, 1], "shape": "apart"},
        "h": {"hash": 13, "kept": [4, 11, 2], "rest": 3},
        "k": {"hash": 5, "kept": [0, 3], "missing": "zero"},
        "n": {"range": [-2, 2], "missing": "indicator"},
    },
}
TEXTS = st.one_of(st.none(), st.sampled_from(["?", " ", "x", "y"]), st.text("abcdef", max_size=3))
SMALL = st.one_of(CELLS, st.floats(-4, 4).map(repr))
ROWS = st.lists(
    st.tuples(SMALL, SMALL, SMALL, SMALL, SMALL, SMALL, TEXTS, TEXTS, st.floats(-4, 4)), min_size=1, max_size=10
)


def hashed_by_hand(text, buckets, kept, rest):
    """The position of the feature of a cell, or None."""
    text = (text or "").strip()
    if text in ("", *MISSING):
        return len(kept) + rest
    found = murmurhash3_32(text.encode(), seed=0, positive=True)
    if found % buckets in kept:
        return kept.index(found % buckets)
    return len(kept) + found % rest if rest else None


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(ROWS, st.integers(1, 5), st.sampled_from([0.0, 1.0]))
def test_every_row_is_encoded_by_itself(rows, cut, share):
    """Alone, among others, in any cut, dense and CSR: the same bits, which are those of the definition."""
    before = encode.SPARSE_SHARE
    encode.SPARSE_SHARE = share
    try:
        names = list(PARTS["columns"])
        encoder, X, _ = encoded({name: [row[i] for row in rows] for i, name in enumerate(names)}, PARTS, cut=cut)
        assert encoder.sparse == (share == 1.0)
        encode.SPARSE_SHARE = 0.0
        for x, row in zip(X, rows, strict=True):
            _, alone, _ = encoded({name: [cell] for name, cell in zip(names, row, strict=True)}, PARTS)
            # -0.0 and 0.0 are one value, and CSR keeps only 0.0
            assert (alone[0] + 0.0).tobytes() == (x + 0.0).tobytes()
            expected = []
            for name, cell in zip("szlbca", row, strict=False):
                column = PARTS["columns"][name]
                expected += by_hand(
                    cell, column["knots"], column.get("shape", "spline"), column.get("missing", "indicator")
                )
            first = len(expected)
            np.testing.assert_allclose(x[:first], np.array(expected, dtype=float), atol=2e-12)
            places = hashed_by_hand(row[6], 13, [4, 11, 2], 3), hashed_by_hand(row[7], 5, [0, 3], 0)
            assert x[first : first + 7].tolist() == [float(places[0] == i) for i in range(7)]
            # the last position is that of a missing cell, which has no feature here
            assert x[first + 7 : first + 9].tolist() == [float(places[1] == i) for i in range(2)]
    finally:
        encode.SPARSE_SHARE = before


def test_csr_rows_are_canonical():
    """Indices ascend within each row, also where a cell is missing."""
    columns = TableColumns({"a": ["1", None, "9", "x"], "b": [None, "3", "5", ""], "h": ["p", None, "q", "r"]})
    knots = {"a": {"knots": [0, 1, 2]}, "b": {"knots": [1, 4, 9], "missing": "zero"}}
    parts = {"columns": {**knots, "h": {"hash": 500, "kept": list(range(3, 200)), "rest": 2}}}
    encoder = SchemaEncoder(Schema.load(parts), columns)
    assert encoder.sparse
    (piece,) = ColumnSource(columns, encoder).pieces(10, lambda _: None)
    assert piece.X.has_canonical_format
    assert (np.diff(piece.X.indices.reshape(4, -1)) > 0).all()


def test_the_dictionary_of_a_batch_does_not_matter():
    columns = TableColumns({"a": ["1"]})
    encoder = SchemaEncoder(Schema.load({"columns": {"a": {"knots": [0, 4]}}}), columns)

    def rows(codes, texts):
        array = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(texts, pa.string()))
        return encoder.encode(pa.RecordBatch.from_arrays([array], ["a"]), 1).X.tolist()

    expected = [[0.75, 0.25, 0], [0, 1, 0], [0, 0, 1]]
    assert rows([0, 1, None], ["1", "5"]) == expected
    assert rows([2, 1, None], ["z", "5", "1"]) == expected
    assert rows([2, 0, 1], ["5", None, "1.0"]) == expected
    many = [f"{i}" for i in range(6, 5000)]
    assert rows([len(many), 0, None], [*many, "1"]) == expected


# --- inputs --------------------------------------------------------------------------------------

TABLE = {
    "whole": [3, None, -5, 2**60],
    "real": [0.5, math.nan, math.inf, -1e300],
    "text": ["1.25", "x", None, " +7 "],
    "flag": [True, False, None, True],
}
KINDS = {"whole": pa.int64(), "real": pa.float64(), "text": pa.string(), "flag": pa.bool_()}
FOUR = {"columns": {name: {"knots": [0, 1, 4]} for name in TABLE}}


def read(path, schema=FOUR, **options):
    return together(open_stream(path, schema=schema, target=False, **options))[0]


def test_inputs_of_all_kinds_agree(tmp_path):
    table = pa.table({name: pa.array(cells, KINDS[name]) for name, cells in TABLE.items()})
    texts = {
        name: ["" if c is None or c != c else str(c).lower() if c in (True, False) else str(c) for c in cells]
        for name, cells in TABLE.items()
    }
    lines = [",".join(TABLE), *(",".join(row) for row in zip(*texts.values(), strict=True))]
    found = read(write(tmp_path, "d.csv", "\n".join(lines) + "\n"))
    assert found.shape == (4, 16)
    assert found[:, 3::4].tolist() == [[0, 0, 0, 1], [1, 1, 1, 1], [0, 0, 1, 1], [0, 0, 0, 1]]
    rows = "".join(json.dumps(row) + "\n" for row in table.to_pylist())
    others = [read(write(tmp_path, "d.jsonl", rows))]
    others += [read(save(tmp_path, table, name)) for name in ("d.parquet", "d.arrow", "d.arrows")]
    others += [read(table), read(table.to_pandas())]
    coded = pa.table({name: table.column(name).dictionary_encode() for name in ("whole", "text")})
    part = {"columns": {name: {"knots": [0, 1, 4]} for name in ("whole", "text")}}
    np.testing.assert_array_equal(read(coded, part), found[:, [0, 1, 2, 3, 8, 9, 10, 11]])
    for other in others:
        np.testing.assert_array_equal(other, found)


def test_decimals_and_times_are_their_text(tmp_path):
    """In typed columns, in objects of pandas and in dicts: decimals are numbers, dates and times are not."""
    berlin = timezone(timedelta(hours=1))
    cells = {
        "d": [Decimal("0.50"), None, Decimal("-2"), Decimal("3.5")],
        "day": [date(2024, 1, 31), date(1, 1, 1), None, date(2024, 1, 31)],
        "at": [datetime(2024, 1, 31, 12), None, datetime(1969, 12, 31, 23, 59, 59), datetime(2024, 1, 31, 12)],
        "zone": [datetime(2024, 1, 31, 0, 30, tzinfo=berlin), None, None, datetime(2024, 1, 30, 23, 30, tzinfo=UTC)],
    }
    table = pa.table({name: pa.array(column) for name, column in cells.items()})
    knots = {name: {"knots": [0, 4]} for name in cells}
    levels = {"day": {"levels": ["2024-01-31"]}, "zone": {"levels": ["2024-01-30 23:30:00.000000Z", "x"]}}
    found = read(table, {"columns": knots})
    assert found[:, :3].tolist() == [[0.875, 0.125, 0], [0, 0, 1], [1, 0, 0], [0.125, 0.875, 0]]
    assert found[:, 3:].tolist() == [[0, 0, 1] * 3] * 4
    by_level = read(table, {"columns": levels, "others": "drop"})
    assert by_level.tolist() == [
        [1, 0, 0, 1, 0, 0, 0],
        [0, 1, 0, 0, 0, 0, 1],
        [0, 0, 1, 0, 0, 0, 1],
        [1, 0, 0, 1, 0, 0, 0],
    ]
    rows = [dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True)]
    for other in (save(tmp_path, table), save(tmp_path, table, "d.arrow"), table.to_pandas(), rows):
        np.testing.assert_array_equal(read(other, {"columns": knots}), found)
    stream = open_stream(table, schema={"columns": knots}, target=False, count_cells=True)
    together(stream)
    assert stream.cells["at"] == {"unknown": 3, "missing": 1}


def test_the_decimal_mark_is_that_of_text(tmp_path):
    """A cell that is a number itself has a point, whatever mark the schema declares."""
    schema = {"file": {"decimal": ","}, "columns": {"r": {"knots": [0, 2]}, "t": {"knots": [0, 2]}}}
    table = pa.table({"r": [0.5, 1.5], "t": ["0,5", "1.5"]})
    expected = [[0.75, 0.25, 0, 0.75, 0.25, 0], [0.25, 0.75, 0, 0, 0, 1]]
    for name in ("d.parquet", "d.arrow"):
        assert read(save(tmp_path, table, name), schema).tolist() == expected
    text = "r;t\n0,5;0,5\n1,5;1.5\n"
    assert read(write(tmp_path, "d.csv", text), {**schema, "file": {"decimal": ",", "sep": ";"}}).tolist() == expected
    lines = '{"r": 0.5, "t": "0,5"}\n{"r": 1.5, "t": "1,5"}\n'
    found = read(write(tmp_path, "d.jsonl", lines), schema)
    np.testing.assert_array_equal(found[:, :3], found[:, 3:])
    np.testing.assert_array_equal(found[:, :3], np.array(expected)[:, :3])


@pytest.mark.parametrize("shape", ["spline", "cosine"])
def test_cells_are_counted(tmp_path, shape):
    cells = ["1", "-1", "5", "inf", "?", "", "x", "nan", "y", "0", "4"]
    path = write(tmp_path, "d.csv", "a,c\n" + "".join(f"{cell},{'pq'[i % 2]}\n" for i, cell in enumerate(cells)))
    kept = murmurhash3_32(b"p", seed=0, positive=True) % 64
    columns = {"a": {"knots": [0, 4], "shape": shape}, "c": {"hash": 64, "kept": [kept]}}
    schema = {"file": {"missing": ["?"]}, "columns": columns}
    stream = open_stream(path, schema=schema, target=False, count_cells=True)
    together(stream)
    assert stream.cells == {"a": {"unknown": 2, "missing": 3, "clipped": 3}, "c": {"unknown": 5}}


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_row_that_only_brings_a_label(share, monkeypatch):
    """It has no values, not even the indicator of a missing cell; the learnt row is that of the features."""
    monkeypatch.setattr(encode, "SPARSE_SHARE", share)
    parts = {
        "columns": {"a": {"knots": [0, 4]}, "b": {"knots": [0, 4], "shape": "bins"}},
        "target": {"column": "y"},
        "delay": {"key": "k", "window": 5},
    }
    columns = TableColumns({"a": ["1", None], "b": [None, ""], "y": [None, 3.0], "k": ["i", "i"]})
    encoder = SchemaEncoder(Schema.load(parts), columns)
    (piece,) = ColumnSource(columns, encoder).pieces(10, lambda _: None)
    X = piece.X.toarray() if share else piece.X
    assert X.tolist() == [[0.75, 0.25, 0, 0, 1], [0, 0, 0, 0, 0]]
    assert piece.bare.tolist() == [False, True]


# --- schemas -------------------------------------------------------------------------------------


def test_records_round_trip():
    columns = (
        ("a", Knots((17.0, 27.5))),
        ("b", Knots((0.0, 1e300), "bins", "zero")),
        ("c", Hashed(64, "zero", (9, 3), 2)),
        ("d", Hashed(64, "zero", (), 2, 5, 0.25)),
        ("e", Knots((0.0, 0.0), "apart", share=0.97)),
    )
    schema = Schema(columns=columns)
    record = json.loads(json.dumps(schema.to_record(), sort_keys=True, allow_nan=False))
    assert Schema.from_record(record) == schema
    assert record["columns"][0] == {"name": "a", "knots": [17.0, 27.5]}
    assert record["columns"][2] == {"name": "c", "hash": 64, "missing": "zero", "kept": [9, 3], "rest": 2}
    assert record["columns"][3] == {
        "name": "d", "hash": 64, "missing": "zero", "rest": 2, "reference": 5, "share": 0.25
    }  # fmt: skip
    assert Schema.load({"columns": {"c": {"hash": 64, "kept": [9]}}}).columns[0][1] == Hashed(64, kept=(9,))


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("knots = 3", "knots", "a list of at least two numbers"),
        ("knots = [3]", "knots", "a list of at least two numbers"),
        ("knots = [3, 3]", "knots", "must ascend, found [3.0, 3.0]"),
        ("knots = [0.0, -0.0]", "knots", "must ascend"),
        ("knots = [0, 2, 1]", "knots", "must ascend"),
        ("knots = [0, inf]", "knots", "finite"),
        ("knots = [nan, 1]", "knots", "finite"),
        ("knots = ['0', '1']", "knots", "number"),
        ("knots = [false, true]", "knots", "number"),
        ("knots = [0, 1]\nshape = 'cubic'", "shape", "'spline', 'linear', 'bins', 'apart'"),
        ("knots = [0, 0]\nshape = 'cosine'", "knots", "must ascend"),
        ("knots = [0, 1, 2]\nshape = 'apart'", "knots", "must be low and high"),
        ("knots = [1, 0]\nshape = 'apart'", "knots", "must ascend"),
        ("knots = [0, 1]\nshare = 0.5", "share", 'is for shape = "apart"'),
        ("knots = [0, 1]\nshape = 'apart'\nshare = 1.5", "share", "at most 1"),
        ("hash = 8\nkept = [3]\nshare = 0.5", "share", "is for reference"),
        ("hash = 8\nkept = [3]\nreference = 3", "kept", "the bucket 3, which is the reference"),
        ("hash = 8\nreference = 8", "reference", "at most 7"),
        ("hash = 8\nreference = 3\nmissing = 'zero'", "", "has no feature"),
        ("knots = [0, 1]\nmissing = 'refuse'", "missing", "'indicator', 'zero'"),
        (
            "knots = [0, 1]\nonto = [0, 1]",
            "onto",
            "no meaning for a column with knots, allowed are knots, shape, timestamp, cycles, share, means, missing",
        ),
        ("shape = 'bins'", "shape", "no meaning for a column of numbers"),
        ("knot = [0, 1]", "knot", "did you mean 'knots'"),
        (
            "knots = [0, 1]\nrange = [0, 1]",
            "",
            "one of drop, range, levels, hash, knots, found range and knots",
        ),
        ("hash = 8\nkept = 3", "kept", "a list of buckets"),
        ("hash = 8\nkept = []", "kept", "a list of buckets"),
        ("hash = 8\nkept = [8]", "kept", "at most 7"),
        ("hash = 8\nkept = [-1]", "kept", "at least 0"),
        ("hash = 8\nkept = [1.0]", "kept", "an integer"),
        ("hash = 8\nkept = [true]", "kept", "an integer"),
        ("hash = 8\nkept = [3, 1, 3]", "kept", "holds the bucket 3 twice"),
        ("hash = 8\nkept = [3]\nrest = -1", "rest", "at least 0"),
        ("hash = 8\nkept = [3]\nrest = 16777217", "rest", "at most 16777216"),
        ("hash = 8\nrest = 2", "rest", "neither kept nor reference is given"),
        ("levels = ['x']\nkept = [3]", "kept", "no meaning for a column with levels"),
    ],
)
def test_errors_name_the_place(tmp_path, text, place, words):
    path = write(tmp_path, "adult.toml", f"[columns.a]\n{text}\n")
    with pytest.raises(InvalidParameter) as found:
        Schema.load(path)
    assert str(found.value).startswith(f"adult.toml: columns.a{'.' if place else ''}{place} "), found.value
    assert words in str(found.value), found.value


def test_doubles_are_encoded_as_their_texts():
    """A typed column is read without its texts and gives the same rows: out-of-range, missing or marked cells."""
    cells = np.array([0.5, 999.0, math.inf, -math.inf, math.nan, -0.0, 5e-324, 1e308, 2.0, 0.1 + 0.2])
    for shape, missing in (("spline", "indicator"), ("linear", "zero"), ("bins", "indicator"), ("cosine", "indicator")):
        column = {"knots": [-1.0, 0.0, 0.1, 3.0], "shape": shape, "missing": missing}
        schema = Schema.load({"columns": {"x": column}, "file": {"missing": ["999", "?"]}})
        for dtype in (np.float64, np.float32):
            with np.errstate(over="ignore"):
                typed = cells.astype(dtype)
            found = [
                open_stream(
                    pa.table({"x": pa.array(kind)}) if kind.dtype != object else [{"x": cell} for cell in kind],
                    schema=schema,
                    target=False,
                    count_cells=True,
                )
                for kind in (typed, typed.astype(object))
            ]
            rows = [np.concatenate([block.X for block in stream]) for stream in found]
            assert np.array_equal(*rows)
            assert found[0].cells == found[1].cells
