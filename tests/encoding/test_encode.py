"""Rows from columns: every policy, each row by itself, equal values dense and CSR, targets."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from schema_tables import TableColumns, encoded, pa, whole

from privol.encoding import encode, texts
from privol.encoding.encode import HASH_SEED, SchemaEncoder
from privol.encoding.ranges import Ranges
from privol.encoding.rows import ColumnSource
from privol.encoding.schema import Schema
from privol.errors import StreamError

NAN = math.nan


def one(column, cells, **parts):
    """Feature names and rows of a table of one column."""
    encoder, X, _ = encoded({"a": cells}, {"columns": {"a": column}, **parts})
    return list(encoder.feature_names), X.tolist()


def refuses(table, parts, *words, row, **options):
    with pytest.raises(StreamError) as found:
        encoded(table, parts, **options)
    for word in words:
        assert word in str(found.value), found.value
    assert found.value.row == row, found.value
    return str(found.value)


# --- numbers -------------------------------------------------------------------------------------


def test_numbers():
    cells = [0, 5, 10, -3, 1e300]
    assert one({}, cells) == (["a"], [[0], [5], [10], [-3], [1e300]])
    assert one({"range": [0, 10]}, cells) == (["a"], [[-1], [0], [1], [-1], [1]])
    assert one({"range": [0, 10], "onto": [0, 1]}, cells)[1] == [[0], [0.5], [1], [0], [1]]
    assert one({"range": [0, 10], "onto": [-4, -2]}, cells)[1] == [[-4], [-3], [-2], [-4], [-2]]


def test_logarithm():
    cells = [2, 3, 5, 12, 0, 99]
    _, rows = one({"range": [2, 12], "scaling": "log", "onto": [0, 1]}, cells)
    expected = [math.log1p(min(max(x, 2), 12) - 2) / math.log1p(10) for x in cells]
    np.testing.assert_allclose(np.ravel(rows), expected, rtol=1e-15, atol=1e-15)
    _, rows = one({"range": [2, 12], "scaling": "log"}, cells)
    np.testing.assert_allclose(np.ravel(rows), [2 * t - 1 for t in expected], rtol=1e-14)


def test_ranges_that_would_overflow():
    assert one({"range": [-1.7e308, 1.7e308]}, [-1.7e308, 0, 1.7e308])[1] == [[-1], [0], [1]]


def test_the_same_as_public_ranges():
    """A model learnt with ranges alone reads the same numbers through a schema."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 3)) * 7
    pairs = [(-3.3, 4.1), (0.0, 0.7), (-20.0, 20.0)]
    table = {str(j): X[:, j].tolist() for j in range(3)}
    _, ours, _ = encoded(table, {"columns": {str(j): {"range": list(p)} for j, p in enumerate(pairs)}})
    low, high = np.transpose(pairs)
    expected = np.clip((X - (low / 2 + high / 2)) / (high / 2 - low / 2), -1, 1)
    np.testing.assert_array_equal(ours, expected)
    np.testing.assert_array_equal(Ranges(pairs, 3, None).rows(X, "x", 1), expected)


@pytest.mark.parametrize("single", [False, True])
def test_public_ranges_keep_values_that_the_learner_must_judge(single):
    """Non-finite numbers and features without a range stay, and so do the caller's rows; float32 counts as float64."""
    X = np.array([[np.nan, 5.0, -0.1], [np.inf, -np.inf, 7.25], [0.3, 2.0, 1e30]], dtype="f" if single else "d")
    X.flags.writeable = False
    ranges = Ranges({0: (0, 1), 1: (-1, 3)}, 3, None)
    wide = X.astype(np.float64)
    expected = np.column_stack((2 * (wide[:, 0] - 0.5), np.clip((wide[:, 1] - 1) / 2, -1, 1), wide[:, 2]))
    expected[1, :2] = wide[1, :2]
    np.testing.assert_array_equal(ranges.rows(X, "x", 1), expected)
    assert ranges.row_bound is None
    assert Ranges([(0, 1)] * 4, 4, None).row_bound == math.nextafter(2.0, 3.0)
    np.testing.assert_array_equal(Ranges([None] * 3, 3, None).rows(X, "x", 1), wide)


def test_infinities_are_left_to_the_learner():
    _, rows = one({"range": [0, 10], "onto": [0, 1]}, [math.inf, 5, -math.inf])
    assert rows == [[math.inf], [0.5], [-math.inf]]
    _, rows = one({"range": [0, 10], "scaling": "log"}, [math.inf, 10])
    assert rows == [[math.inf], [1]]


@pytest.mark.parametrize("cell", [None, NAN])
def test_missing_numbers(cell):
    cells = [0, cell, 10]
    refuses(
        {"a": cells}, {"columns": {"a": {}}}, "row 2", "column 'a'", "nothing", "missing = under [columns.a]", row=2
    )
    scaled = {"range": [0, 10]}
    assert one({**scaled, "missing": "zero"}, cells) == (["a"], [[-1], [0], [1]])
    assert one({"missing": "zero"}, cells)[1] == [[0], [0], [10]]
    names, rows = one({**scaled, "missing": "indicator"}, cells)
    assert (names, rows) == (["a", "a=missing"], [[-1, 0], [0, 1], [1, 0]])
    assert one({**scaled, "missing": 5}, cells)[1] == [[-1], [0], [1]]
    assert one({**scaled, "missing": 10.0}, cells)[1] == [[-1], [1], [1]]
    _, rows = one({**scaled, "missing": "nan"}, cells)
    assert rows[0] == [-1]
    assert math.isnan(rows[1][0])


@pytest.mark.parametrize("cells", [[0, -999, 10], [0.0, -999.0, 10.0], ["0", "-999", "10"]], ids=str)
def test_numbers_that_stand_for_a_missing_one(cells):
    """Compared by value where cells are numbers themselves, and never learnt as numbers."""
    file = {"missing": ["?", "-999"]}
    assert one({"range": [0, 10], "missing": "zero"}, cells, file=file)[1] == [[-1], [0], [1]]
    refuses({"a": cells}, {"columns": {"a": {}}, "file": file}, "row 2", "nothing", row=2)
    target = {"columns": {"a": {}}, "target": {"column": "y"}, "file": file}
    refuses({"a": [1.0] * 3, "y": cells}, target, "column 'y'", "row 2", "found nothing", row=2)


def test_a_missing_number_and_an_infinite_one():
    table = {"a": [None, math.inf, -math.inf, 1], "b": [1, 1, None, 1]}
    _, X, _ = encoded(table, {"columns": {c: {"range": [0, 2], "missing": "zero"} for c in "ab"}})
    assert X.tolist() == [[0, 0], [math.inf, 0], [-math.inf, 0], [0, 0]]


# --- text ----------------------------------------------------------------------------------------


def test_levels():
    cells = ["x", " y ", "z", None, "?", "", "  "]
    names, rows = one({"levels": ["y", "x"]}, cells, file={"missing": ["?"]})
    assert names == ["a=y", "a=x", "a=(unknown)", "a=(missing)"]
    assert [row.index(1) for row in rows] == [1, 0, 2, 3, 3, 3, 3]
    assert all(sum(row) == 1 for row in rows)
    names, rows = one({"levels": ["y", "x"], "unknown": "zero", "missing": "zero"}, cells, file={"missing": ["?"]})
    assert (names, rows) == (["a=y", "a=x"], [[0, 1], [1, 0], *[[0, 0]] * 5])


def test_levels_that_are_refused():
    parts = {"columns": {"a": {"levels": ["x", "{y}"], "unknown": "refuse", "missing": "refuse"}}}
    refuses({"a": ["x", "{y}", "{z}"]}, parts, "row 3", "column 'a'", "'{z}'", "'x', '{y}'", row=3)
    refuses({"a": ["x", None]}, parts, "row 2", "found nothing", row=2)
    refuses({"a": ["x"] * 9 + [" "]}, parts, "row 10", row=10, cut=4)


def test_groups():
    names, rows = one({"levels": {"10th": "school", "PhD": "uni", "9th": "school"}}, ["9th", "10th", "PhD", "MSc"])
    assert names == ["a=school", "a=uni", "a=(unknown)", "a=(missing)"]
    assert [row.index(1) for row in rows] == [0, 0, 1, 2]


def test_levels_that_are_numbers_are_compared_by_value():
    names, rows = one({"levels": [1, 2.5, "x"], "missing": "zero"}, ["1", "1.0", "+1e0", "2.50", "x", "1_0", "nan"])
    assert names == ["a=1", "a=2.5", "a=x", "a=(unknown)"]
    assert [row.index(1) for row in rows] == [0, 0, 0, 1, 2, 3, 3]
    # texts are not: 250.1 and 250.10 are two codes
    _, rows = one({"levels": ["250.1"], "missing": "zero"}, ["250.1", "250.10"])
    assert rows == [[1, 0], [0, 1]]


def test_hashing_is_the_published_function():
    assert HASH_SEED == 0
    # murmurhash3 x86 32 bit, seed 0: the value of "abc"
    published = 0xB3DD93FA
    names, rows = one({"hash": 1000}, ["abc", " abc", "h\u00e9", None])
    assert names[:2] == ["a#0", "a#1"]
    assert names[-2:] == ["a#999", "a=(missing)"]
    assert rows[0].index(1) == rows[1].index(1) == published % 1000
    assert rows[3].index(1) == 1000
    assert all(sum(row) == 1 for row in rows)
    _, rows = one({"hash": 4, "missing": "zero"}, [None, "q"])
    assert (sum(rows[0]), sum(rows[1])) == (0, 1)
    refuses({"a": ["q", None]}, {"columns": {"a": {"hash": 4, "missing": "refuse"}}}, "found nothing", row=2)


def test_the_first_refused_row_is_named_whatever_its_column():
    parts = {"columns": {"n": {}, "t": {"levels": ["x"], "unknown": "refuse"}}}
    assert "'t'" in refuses({"n": [1, 1, None], "t": ["x", "z", "x"]}, parts, row=2)
    assert "'n'" in refuses({"n": [1, None, 1], "t": ["x", "x", "z"]}, parts, row=2)


# --- row by row ----------------------------------------------------------------------------------

PARTS = {
    "file": {"missing": ["?"]},
    "columns": {
        "n": {"range": [-2, 2], "missing": "indicator"},
        "t": {"levels": ["x", "y", 3]},
        "m": {"range": [0, 9], "scaling": "log", "missing": "zero"},
        "h": {"hash": 7, "missing": "zero"},
        "p": {"missing": 2.5},
    },
}
NUMBERS = st.one_of(st.none(), st.floats(-1e6, 1e6))
TEXTS = st.one_of(
    st.none(), st.sampled_from(["x", "y", " x", "3", "3.0", "?", "", "z", "\u00e9"]), st.text("abc", max_size=3)
)
ROWS = st.lists(st.tuples(NUMBERS, TEXTS, NUMBERS, TEXTS, NUMBERS), min_size=1, max_size=12)


def by_hand(row):
    """The row of PARTS from its definition, in plain Python, without the hashed text."""
    n, t, m, _, p = row
    out = [0.0 if n is None else min(max(n / 2, -1.0), 1.0), float(n is None)]
    text = (t or "").strip()
    place = 4 if text in ("", "?") else {"x": 0, "y": 1, "3": 2, "3.0": 2}.get(text, 3)
    out += [float(place == i) for i in range(5)]
    out.append(0.0 if m is None else 2 * math.log1p(min(max(m, 0), 9)) / math.log(10) - 1)
    return out, 2.5 if p is None else p, 0 if (row[3] or "").strip() in ("", "?") else 1


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(ROWS, st.integers(1, 5), st.sampled_from([0.0, 1.0]))
def test_every_row_is_encoded_by_itself(rows, cut, share):
    """Alone, among others, in any cut, dense and CSR: the same bits, which are those of the definition."""
    before = encode.SPARSE_SHARE
    encode.SPARSE_SHARE = share
    try:
        table = {name: [row[i] for row in rows] for i, name in enumerate("ntmhp")}
        encoder, X, _ = encoded(table, PARTS, cut=cut)
        assert encoder.sparse == (share == 1.0)
        encode.SPARSE_SHARE = 0.0
        for x, row in zip(X, rows, strict=True):
            _, alone, _ = encoded({name: [cell] for name, cell in zip("ntmhp", row, strict=True)}, PARTS)
            # -0.0 and 0.0 are one value, and CSR keeps only 0.0
            assert (alone[0] + 0.0).tobytes() == (x + 0.0).tobytes()
            start, p, hashed = by_hand(row)
            np.testing.assert_allclose(x[:8], start, rtol=1e-14, atol=1e-15)
            assert x[8:15].sum() == hashed
            assert set(x[8:15]) <= {0.0, 1.0}
            assert x[15] == p
    finally:
        encode.SPARSE_SHARE = before


def test_the_dictionary_of_a_batch_does_not_matter():
    """The same texts coded in another order, with unused texts, or with repeated ones."""
    columns = TableColumns({"a": ["x"]})
    encoder = SchemaEncoder(Schema.load({"columns": {"a": {"levels": ["x", "y"]}}}), columns)

    def rows(codes, texts):
        array = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(texts))
        return encoder.encode(pa.RecordBatch.from_arrays([array], ["a"]), 1).X.tolist()

    expected = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1]]
    assert rows([0, 1, None], ["x", "y"]) == expected
    assert rows([2, 1, None], ["z", "y", "x"]) == expected
    assert rows([2, 0, 1], ["y", None, "x"]) == expected
    many = [f"other {i}" for i in range(5000)]
    assert rows([5001, 5000, None], [*many, "y", "x"]) == expected


def test_texts_that_are_remembered_are_bounded(monkeypatch):
    monkeypatch.setattr(texts, "_KNOWN_TEXTS", 8)
    cells = [f"t{i % 30}" for i in range(100)]
    encoder, X, _ = encoded({"a": cells}, {"columns": {"a": {"hash": 9}}}, cut=10)
    assert len(encoder._texts[0]._known) <= 8
    monkeypatch.undo()
    np.testing.assert_array_equal(X, encoded({"a": cells}, {"columns": {"a": {"hash": 9}}})[1])


def test_order_of_features_is_the_schema_s_not_the_file_s():
    parts = {"columns": {"b": {"levels": ["x"]}, "a": {}}}
    first, X, _ = encoded({"a": [1], "b": ["x"]}, parts)
    second, Z, _ = encoded({"b": ["x"], "a": [1]}, parts)
    assert first.feature_names == second.feature_names == ("b=x", "b=(unknown)", "b=(missing)", "a")
    assert X.tolist() == Z.tolist() == [[1, 0, 0, 1]]


def test_csr_rows():
    columns = TableColumns({"n": [1, None, 3], "h": ["p", "q", None]})
    parts = {"columns": {"n": {"range": [0, 4], "missing": "indicator"}, "h": {"hash": 500, "missing": "zero"}}}
    encoder = SchemaEncoder(Schema.load(parts), columns)
    assert encoder.sparse
    source = ColumnSource(columns, encoder)
    assert source.sparse
    (piece,) = source.pieces(10, lambda _: None)
    assert sp.issparse(piece.X)
    assert piece.X.format == "csr"
    assert piece.X.indices.dtype == np.int32
    assert piece.X.has_canonical_format
    assert piece.X.shape == (3, 502)
    assert piece.X.toarray()[:, :2].tolist() == [[-0.5, 0], [0, 1], [0.5, 0]]


# --- the table and the schema --------------------------------------------------------------------


def test_columns_that_do_not_fit():
    table = {"age": [1], "extra": [2], "y": [0]}
    with pytest.raises(StreamError, match=r"no column 'agee' \(columns.agee of schema\) \(did you mean 'age'\?\)"):
        encoded(table, {"columns": {"agee": {}}})
    with pytest.raises(StreamError, match=r"'extra', 'y'; name them there, or .* others"):
        encoded(table, {"columns": {"age": {}}})
    with pytest.raises(StreamError, match=r"no column 'z' \(target.column of schema\)"):
        encoded(table, {"columns": {"age": {}}, "target": {"column": "z"}, "others": "drop"})
    with pytest.raises(StreamError, match=r"allowed are columns 0 to 2"):
        encoded(table, {"columns": {"age": {}}, "target": {"column": 7}, "others": "drop"})
    with pytest.raises(StreamError, match=r"columns\.y is the column of target\.column"):
        encoded(table, {"columns": {"y": {}}, "target": {"column": -1}, "others": "drop"})
    with pytest.raises(StreamError, match="two features are named 'a=x=y'"):
        encoded({"a": [1], "a=x": [1]}, {"columns": {"a": {"levels": ["x=y"]}, "a=x": {"levels": ["y"]}}})


def test_others():
    table = {"a": [1], "b": [2], "c": [3], "y": [0]}
    encoder, X, y = encoded(table, {"columns": {"b": {}}, "target": {"column": "y"}, "others": "drop"})
    assert (encoder.feature_names, X.tolist(), y.tolist()) == (("b",), [[2]], [0])
    parts = {"columns": {"c": {}, "b": {"drop": True}}, "target": {"column": -1}, "others": "number"}
    encoder, X, y = encoded(table, parts)
    assert (encoder.feature_names, X.tolist()) == (("c", "a"), [[3, 1]])
    # decisions made from this file are written out, so that another file is read in the same way
    record = Schema.from_record(encoder.schema.to_record())
    again, Z, none = encoded({"z": [9], "a": [1], "c": [3]}, record, target=False)
    assert (again.feature_names, Z.tolist(), none) == (("c", "a"), [[3, 1]], None)


def test_a_dropped_column_is_not_read_and_may_be_absent():
    columns = TableColumns({"a": [1], "secret": ["no number"]})
    parts = {"columns": {"a": {}, "secret": {"drop": True}, "gone": {"drop": True}}}
    assert whole(ColumnSource(columns, SchemaEncoder(Schema.load(parts), columns)))[0].tolist() == [[1]]
    assert columns.asked == [("a",)]


def test_unnamed_columns():
    parts = {"columns": {"0": {}, "2": {"levels": ["x"]}}, "target": {"column": 1}}
    encoder, X, y = encoded({"0": [1], "1": [5], "2": ["x"]}, parts, named=False)
    assert encoder.feature_names == ("0", "2=x", "2=(unknown)", "2=(missing)")
    assert (X.tolist(), y.tolist()) == ([[1, 1, 0, 0]], [5])
    assert encoder.schema.target.column == "1"


def test_features_alone():
    parts = {
        "columns": {"a": {}},
        "target": {"column": "y", "negative": ["n"], "positive": ["p"]},
        "user": {"column": "u", "max_rows": 1},
        "delay": {"key": "k", "window": 3},
    }
    encoder, X, y = encoded({"a": [1, 2]}, parts, target=False)
    assert (X.tolist(), y, encoder.classes) == ([[1], [2]], None, ("n", "p"))
    # their columns are ignored if they are present, whatever they hold
    _, X, y = encoded({"y": ["?"], "a": [1], "u": [None], "k": [None]}, parts, target=False)
    assert (X.tolist(), y) == ([[1]], None)


# --- targets -------------------------------------------------------------------------------------


def targets(cells, target, **parts):
    table = {"a": [1.0] * len(cells), "y": cells}
    return encoded(table, {"columns": {"a": {}}, "target": {"column": "y", **target}, **parts})


def test_groups_of_labels():
    both = {"negative": ["<=50K", "<=50K."], "positive": [">50K", ">50K."]}
    encoder, _, y = targets([" <=50K", ">50K.", "<=50K.", ">50K"], both)
    assert encoder.classes == ("<=50K", ">50K")
    assert y.tolist() == [0, 1, 0, 1]
    encoder, _, y = targets(["1", "2.0", "7", "+2"], {"positive": [2], "rest": "negative"})
    assert (encoder.classes, y.tolist()) == (("not 2", 2), [0, 1, 0, 1])
    encoder, _, y = targets(["1", "2", "7"], {"negative": [1], "positive": [2], "rest": "negative"})
    assert (encoder.classes, y.tolist()) == ((1, 2), [0, 1, 0])


def test_labels_that_are_refused():
    both = {"negative": ["n"], "positive": ["p"]}
    table = {"a": [1.0] * 3, "y": ["n", "p", "q"]}
    parts = {"columns": {"a": {}}, "target": {"column": "y", **both}}
    refuses(table, parts, "column 'y'", "row 3", "found 'q'", "'n', 'p'", row=3, cut=2)
    for missing in (None, "", "?"):
        refuses({"a": [1.0], "y": [missing]}, {**parts, "file": {"missing": ["?"]}}, "found nothing", row=1)
    with_rest = {"columns": {"a": {}}, "target": {"column": "y", "positive": ["p"], "rest": "negative"}}
    refuses({"a": [1.0], "y": [None]}, with_rest, "found nothing", row=1)


def test_real_targets():
    assert targets([1.5, -2], {})[2].tolist() == [1.5, -2]
    encoder, _, y = targets([0, 5, 10, 15, -1], {"range": [0, 10]})
    assert y.tolist() == [-1, 0, 1, 1, -1]
    assert encoder.classes is None
    assert encoder.schema.unscale(y).tolist() == [0, 5, 10, 10, 0]
    refuses({"a": [1, 1], "y": [0, None]}, {"columns": {"a": {}}, "target": {"column": "y"}}, "'y'", "row 2", row=2)


def test_no_target():
    encoder, _, y = encoded({"a": [1]}, {"columns": {"a": {}}})
    assert (y, encoder.classes) == (None, None)
