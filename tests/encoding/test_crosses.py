"""Crosses of columns: the products of both columns' features, row by row, and no row longer than the bound."""

from __future__ import annotations

import json
import math
import tomllib
from fractions import Fraction

import numpy as np
import pandas
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from schema_tables import TableColumns, encoded, pa
from sklearn.base import clone

from privol import open_stream
from privol.encoding import PrivateEncoder, encode
from privol.encoding.crosses import MOST_FEATURES
from privol.encoding.encode import SchemaEncoder
from privol.encoding.schema import Schema
from privol.encoding.toml import toml_number
from privol.errors import InvalidParameter, StreamError

COLUMNS = {
    "s": {"knots": [0, 1, 5]},
    "z": {"knots": [-2, 0.1, 0.7], "missing": "zero"},
    "b": {"knots": [0, 2, 4], "shape": "bins"},
    "t": {"knots": [0, 1e9, 2e9], "timestamp": True, "cycles": ["day", "week"]},
    "l": {"levels": ["x", "y"]},
    "m": {"levels": ["x", "y"], "unknown": "zero", "missing": "zero"},
    "h": {"hash": 5},
    "k": {"hash": 8, "kept": [1, 6], "rest": 2},
    "o": {"hash": 8, "kept": [1, 6], "missing": "zero"},
}
NUMBERS = st.one_of(st.floats(-1, 6).map(repr), st.sampled_from(["0", "1", "5", "2", "1e-300", "inf", "", "no", None]))
TEXTS = st.sampled_from(["x", "y", "z", "a", "b", "c", "", None])
CELLS = {
    **dict.fromkeys("szb", NUMBERS),
    "t": st.one_of(st.datetimes().map(str), st.sampled_from(["", "1998-03-04", "soon", None])),
    **dict.fromkeys("lmhko", TEXTS),
}
ROWS = st.lists(st.tuples(*CELLS.values()), min_size=1, max_size=6)
PAIRS = [(a, b) for i, a in enumerate(COLUMNS) for b in list(COLUMNS)[i + 1 :]]


def schema(pairs, columns=COLUMNS, **parts):
    return {"columns": columns, "cross": [{"columns": list(pair)} for pair in pairs], **parts}


def table(rows):
    return {name: [row[i] for row in rows] for i, name in enumerate(COLUMNS)}


def by_hand(X, names, pair):
    """The names and values of a cross, from the features of both columns as they appear in rows."""
    # cosines and sines of cycles are not part of it
    sides = [[i for i, n in enumerate(names) if n[0] == name and n[1:5] not in (":cos", ":sin")] for name in pair]
    products = X[:, sides[0]][:, :, None] * X[:, sides[1]][:, None, :]
    return [f"{names[i]}*{names[j]}" for i in sides[0] for j in sides[1]], products.reshape(len(X), -1)


@pytest.fixture(params=[0.0, 1.0], ids=["dense", "csr"])
def share(request, monkeypatch):
    monkeypatch.setattr(encode, "SPARSE_SHARE", request.param)
    return request.param


# --- definition ---------------------------------------------------------------------------------


def test_features_and_their_names(share):
    columns = {"age": {"knots": [20, 40, 60]}, "town": {"levels": ["Oslo", "Bergen"], "missing": "zero"}}
    cells = {"age": ["30", "60", "", "25"], "town": ["Oslo", "Bergen", "Oslo", None]}
    encoder, X, _ = encoded(cells, schema([("age", "town")], columns))
    assert encoder.sparse == (share == 1.0)
    ages, towns = ["age~20", "age~40", "age~60", "age=missing"], ["town=Oslo", "town=Bergen", "town=(unknown)"]
    assert list(encoder.feature_names[:7]) == [*ages, *towns]
    found = [dict(zip(encoder.feature_names[7:], row, strict=True)) for row in X[:, 7:].tolist()]
    assert list(found[0]) == [f"{a}*{b}" for a in ages for b in towns]
    assert [{name: x for name, x in row.items() if x} for row in found] == [
        {"age~20*town=Oslo": 0.5, "age~40*town=Oslo": 0.5},
        {"age~60*town=Bergen": 1.0},
        {"age=missing*town=Oslo": 1.0},
        {},
    ]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(ROWS, st.integers(1, 6), st.lists(st.sampled_from(PAIRS), min_size=1, max_size=4, unique=True), st.booleans())
def test_crossed_features_are_products_of_both_columns(rows, cut, pairs, sparse):
    """The same bits as the outer products in plain NumPy, in any cut, dense and CSR, and row by row."""
    before = encode.SPARSE_SHARE
    encode.SPARSE_SHARE = float(sparse)
    try:
        encoder, X, _ = encoded(table(rows), schema(pairs), cut=cut)
        plain, P, _ = encoded(table(rows), {"columns": COLUMNS}, cut=cut)
        alone = [encoded(table([row]), schema(pairs))[1][0] for row in rows]
    finally:
        encode.SPARSE_SHARE = before
    assert encoder.sparse == sparse
    names, expected = list(plain.feature_names), [P]
    for pair in pairs:
        crossed, values = by_hand(P, plain.feature_names, pair)
        names += crossed
        expected.append(values)
    assert list(encoder.feature_names) == names
    assert np.array_equal(X, np.hstack(expected))
    assert np.array_equal(X, alone)


def test_csr_rows_are_canonical(monkeypatch):
    """Indices ascend within each row, also where a cell is missing."""
    monkeypatch.setattr(encode, "SPARSE_SHARE", 1.0)
    cells = {name: [None, "", "1", "x", "2001-02-03"] for name in COLUMNS}
    encoder = SchemaEncoder(Schema.load(schema(PAIRS)), TableColumns(cells))
    coded = {name: pa.array(column, pa.string()).dictionary_encode() for name, column in cells.items()}
    found = encoder.encode(pa.RecordBatch.from_pydict(coded), 1).X
    for i in range(5):
        assert np.all(np.diff(found.indices[found.indptr[i] : found.indptr[i + 1]]) > 0)
    assert found.has_canonical_format


def test_a_row_that_only_brings_a_label_has_no_products():
    columns = {"a": {"knots": [0, 1]}, "b": {"levels": ["x"]}}
    late = {"target": {"column": "y", "negative": ["0"], "positive": ["1"]}, "delay": {"key": "k", "window": 5}}
    encoder = SchemaEncoder(Schema.load(schema([("a", "b")], columns, **late)), TableColumns({n: [] for n in "abyk"}))
    cells = {"a": ["0.5", None], "b": ["x", None], "y": [None, "1"], "k": ["p", "p"]}
    batch = pa.RecordBatch.from_pydict({n: pa.array(c, pa.string()).dictionary_encode() for n, c in cells.items()})
    piece = encoder.encode(batch, 1)
    assert piece.bare.tolist() == [False, True]
    assert piece.X[0].tolist()[-9:] == [0.5, 0, 0, 0.5, 0, 0, 0, 0, 0]
    assert not piece.X[1].any()


# --- the norm of a row ---------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.floats(-1e300, 1e300, width=64), min_size=2, max_size=4, unique=True).map(sorted),
    st.lists(st.floats(-1, 2), min_size=2, max_size=3, unique=True).map(sorted),
    st.data(),
)
def test_no_cross_adds_more_than_1_to_the_squared_norm(left, right, data):
    """Exactly: not up to the rounding of products and squares."""
    near = st.sampled_from([math.nextafter(k, way) for k in (*left, *right) for way in (-math.inf, math.inf)])
    cells = [
        data.draw(st.lists(st.one_of(st.floats(knots[0], knots[-1]), near), min_size=4, max_size=4))
        for knots in (left, right)
    ]
    columns = {name: {"knots": [k or 0.0 for k in knots]} for name, knots in (("a", left), ("b", right))}
    texts = {"a": [repr(x) for x in cells[0]], "b": [repr(x) for x in cells[1]]}
    encoder, X, _ = encoded(texts, schema([("a", "b")], columns))
    first = len(encoder.feature_names) - (len(left) + 1) * (len(right) + 1)
    for row in X.tolist():
        assert min(row) >= 0
        assert sum(Fraction(x) ** 2 for x in row[first:]) <= 1
        assert math.sqrt(sum(Fraction(x) ** 2 for x in row)) <= encoder.schema.row_bound


def test_the_norm_of_a_cross_is_at_most_1_beside_a_knot():
    """Where the shares are 1 - 2^-53 and 2^-53, the rounding of products is as large as the distance to 1."""
    knots = {"knots": [0, 1]}
    cells = [repr(x) for k in range(1, 40) for x in (k * 2.0**-53, 1 - k * 2.0**-53)]
    texts = {"a": [a for a in cells for _ in cells], "b": cells * len(cells)}
    _, X, _ = encoded(texts, schema([("a", "b")], {"a": knots, "b": knots}), cut=10**6)
    for row in np.unique(X[:, 6:], axis=0).tolist():
        assert sum(Fraction(x) ** 2 for x in row) <= 1


@settings(max_examples=100, deadline=None)
@given(ROWS, st.lists(st.sampled_from(PAIRS), min_size=1, max_size=5, unique=True))
def test_rows_are_within_the_bound(rows, pairs):
    encoder, X, _ = encoded(table(rows), schema(pairs))
    bound = Fraction(encoder.schema.row_bound) ** 2
    assert all(sum(Fraction(x) ** 2 for x in row) <= bound for row in X.tolist())


def test_the_bound_is_attained():
    columns = {"a": {"knots": [0, 1]}, "b": {"hash": 4}, "c": {"levels": ["x"]}}
    pairs = [("a", "b"), ("a", "c"), ("b", "c")]
    encoder, X, _ = encoded({"a": ["1"], "b": ["q"], "c": ["x"]}, schema(pairs, columns))
    assert np.linalg.norm(X[0]) == pytest.approx(math.sqrt(6), rel=1e-15)
    assert encoder.schema.row_bound == pytest.approx(math.sqrt(6), rel=1e-15)
    assert Schema.load(schema(pairs, {**columns, "d": {}})).row_bound is None


def test_the_usual_norm_is_that_of_numbers_between_knots():
    columns = {"a": {"knots": [0, 1, 2]}, "b": {"knots": [0, 1]}, "c": {"levels": ["x"]}}
    columns["t"] = {"knots": [0, 1e6], "timestamp": True, "cycles": ["day"]}
    pairs = [("a", "b"), ("a", "c"), ("t", "c")]
    grid = [repr((i + 0.5) / 100) for i in range(100)]
    cells = {"a": [repr(float(x) * 2) for x in grid for _ in grid], "b": grid * 100, "c": ["x"] * 10_000}
    cells["t"] = [str(pandas.Timestamp(float(x) * 1e6, unit="s").floor("s")) for x in grid for _ in grid]
    encoder, X, _ = encoded(cells, schema(pairs, columns), cut=10**6)
    squares = Fraction(2, 3) * 2 + 1 + Fraction(5, 3) + Fraction(4, 9) + 2 * Fraction(2, 3)
    assert Fraction(encoder.schema.usual_norm) ** 2 >= squares
    assert encoder.schema.usual_norm == pytest.approx(math.sqrt(squares), rel=1e-15)
    assert (X**2).sum(axis=1).mean() == pytest.approx(float(squares), rel=1e-3)


# --- where they are declared ---------------------------------------------------------------------

TOML = """
[target]
column = "y"
negative = ["0"]
positive = ["1"]

[[cross]]
columns = ["age", "home town"]

[[cross]]
columns = [" age ", "code"]

[columns.age]
knots = [17, 64]
[columns."home town".levels]
Oslo = "Norway"
Bergen = "Norway"
Turku = "Finland"
[columns.code]
hash = 16
"""


def test_a_schema_is_written_and_read_again(tmp_path):
    (tmp_path / "s.toml").write_text(TOML)
    found = Schema.load(tmp_path / "s.toml")
    assert found.crosses == (("age", "home town"), ("age", "code"))
    assert Schema.load(tomllib.loads(found.to_toml())) == found
    assert found.to_toml().count("[[cross]]") == 2
    assert Schema.from_record(json.loads(json.dumps(found.to_record()))) == found
    without = Schema.load(tomllib.loads(TOML.replace('[[cross]]\ncolumns = [" age ", "code"]', "")))
    assert without != found
    assert without.row_bound < found.row_bound
    assert "cross" not in Schema.load({"columns": {"a": {}}}).to_record()


def test_columns_with_blanks_around_their_names():
    columns = {"a": {"knots": [0, 1]}, "b": {"levels": ["x"]}}
    encoder, X, _ = encoded({" a": ["1"], "b ": ["x"]}, schema([("a", "b")], columns))
    assert encoder.schema.crosses == ((" a", "b "),)
    assert X[0].tolist()[-9:] == [0, 0, 0, 1, 0, 0, 0, 0, 0]


PLAIN = {
    "age": {"knots": [1, 2]},
    "town": {"levels": ["x"]},
    "line": {"knots": [1, 2], "shape": "linear"},
    "number": {"range": [0, 1]},
    "gone": {"drop": True},
    "wide": {"hash": 2000},
}
LATE = {"target": {"column": "y"}, "user": {"column": "who", "max_rows": 1}, "delay": {"key": "id", "window": 1}}


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        (
            [("age", "towns")],
            "the cross of 'age' and 'towns': no column 'towns' (did you mean 'town'?), there are 'age'",
        ),
        ([("age", "age")], "the cross of 'age' and 'age' is of one column, needed are two"),
        ([("age", "town"), ("town", "age")], "the cross of 'town' and 'age' is declared twice"),
        ([("age", "y")], "'y' is the column of target and has no features"),
        ([("who", "age")], "'who' is the column of user and has no features"),
        ([("id", "age")], "'id' is the column of delay.key and has no features"),
        ([("age", "line")], "'line' has shape = \"linear\", allowed are columns with levels, hash, or knots (shape = "),
        ([("number", "town")], "'number' is a number as it stands, allowed are columns with levels, hash, or knots"),
        ([("gone", "town")], "'gone' is dropped, allowed are"),
        ([("age", "wide")], "found 3 times 2,001 features, 6,003 in all, allowed are at most 4,096"),
    ],
)
def test_refused_pairs(pairs, said):
    with pytest.raises(InvalidParameter) as error:
        Schema.load(schema(pairs, PLAIN, **LATE))
    assert said in str(error.value)
    assert str(error.value).startswith("schema: the cross of")


@pytest.mark.parametrize(
    ("cross", "said"),
    [
        ({"columns": ["age", "town"]}, "schema: cross must be tables in a list, [[cross]] above columns ="),
        ([["age", "town"]], "schema: cross must be tables in a list"),
        ([{"columns": "age,town"}], "schema: cross.columns must be a list of two names of columns, found 'age,town'"),
        ([{"columns": ["age", "town", "wide"]}], "must be a list of two names"),
        ([{"columns": [0, 1]}], "must be a list of two names"),
        ([{"colums": ["age", "town"]}], "cross.colums is not a key of a schema (did you mean 'columns'?)"),
        ([{}], "found None"),
    ],
)
def test_refused_tables(cross, said):
    with pytest.raises(InvalidParameter) as error:
        Schema.load({"columns": PLAIN, "cross": cross})
    assert said in str(error.value)


def test_rows_of_numbered_features_have_none():
    with pytest.raises(InvalidParameter, match="rows is for sparse rows, which have no columns, and cross applies to"):
        Schema.load({"rows": {"features": 9, "kept": [1]}, "cross": [{"columns": ["a", "b"]}]})


def test_as_many_features_as_are_allowed():
    columns = {"a": {"hash": 63}, "b": {"hash": 64, "missing": "zero"}}
    encoder, X, _ = encoded({"a": ["q"], "b": ["r"]}, schema([("a", "b")], columns))
    assert len(encoder.feature_names) - 128 == MOST_FEATURES
    assert encoder.sparse
    assert X[0].sum() == 3


# --- of a learnt encoding ------------------------------------------------------------------------


def frame(n=6000, seed=0):
    rng = np.random.default_rng(seed)
    towns, codes = ["Oslo", "Bergen", "Narvik"], [f"c{i}" for i in range(60)]
    return pandas.DataFrame(
        {
            "age": rng.uniform(18, 90, n).round(1),
            "town": rng.choice(towns, n, p=[0.5, 0.3, 0.2]),
            "seen": pandas.date_range("2020-01-01", periods=n, freq="37min"),
            "same": "x",
            "code": rng.choice(codes, n),
            "also": rng.choice(codes, n),
            "y": rng.choice(["no", "yes"], n),
        }
    )


def learn(crosses, target="y", data=None, **words):
    encoder = PrivateEncoder(**{"epsilon": 8.0, "random_state": 1, **words}, crosses=crosses)
    stream = open_stream(frame() if data is None else data, target=target, schema=encoder)
    return encoder, stream


def test_crosses_need_no_further_learning():
    encoder, stream = learn([("age", "town"), ("seen", "town")])
    plain, other = learn([])
    assert encoder.schema_.crosses == (("age", "town"), ("seen", "town"))
    assert encoder.uncrossed_ == {}
    assert encoder.schema_.columns == plain.schema_.columns
    assert (encoder.plan_, encoder.guarantee_) == (plain.plan_, plain.guarantee_)
    assert encoder.ledger_.spent == plain.ledger_.spent
    blocks = [(a.X, b.X) for a, b in zip(stream, other, strict=True)]
    a, b = (np.vstack([x.toarray() if sp.issparse(x) else x for x in xs]) for xs in zip(*blocks, strict=True))
    assert np.array_equal(a[:, : b.shape[1]], b)
    assert stream.feature_names[b.shape[1]].startswith("age~")
    assert "*town#" in stream.feature_names[b.shape[1]]


def test_what_cannot_be_crossed_is_left_out():
    pairs = [("same", "town"), ("code", "town"), ("age", "town")]
    found, _ = learn(pairs, declared={"columns": {"code": {"hash": 300}}})
    assert dict(found.schema_.columns)["same"].kept == ()  # it has one value: the others share features
    assert found.schema_.crosses == (("same", "town"), ("age", "town"))
    assert found.uncrossed_ == {
        "code*town": "found 301 times 18 features, 5,418 in all, allowed are at most 4,096",
    }
    linear, _ = learn([*pairs, ("code", "also")], numeric="linear")
    assert linear.schema_.crosses == (("same", "town"), ("code", "town"), ("code", "also"))
    assert linear.uncrossed_["age*town"].startswith("'age' has shape = \"linear\", allowed are columns with levels")


@pytest.mark.parametrize(
    ("crosses", "words", "said"),
    [
        ([("age", "towns")], {}, "the cross of 'age' and 'towns': no column 'towns' (did you mean 'town'?)"),
        ([("age", "y")], {}, "'y' is the target and has no features"),
        ([("age", "age")], {}, "is of one column"),
        ([("age", "town"), ["town", "age"]], {}, "is declared twice"),
        ([("age", "town")], {"drop": ["town"]}, "'town' is dropped, allowed are columns with"),
        ([("age", "town")], {"declared": {"columns": {"age": {"range": [0, 99]}}}}, "'age' is a number as it stands"),
        (("age", "town"), {}, "crosses must be pairs of names of columns, found 'age'"),
        ("age,town", {}, "crosses must be pairs of names of columns, found 'age,town'"),
        ([("age", 3)], {}, "crosses must be pairs of names of columns, found ('age', 3)"),
    ],
)
def test_refused_before_anything_is_paid(crosses, words, said):
    encoder = PrivateEncoder(crosses=crosses, **words)
    with pytest.raises(InvalidParameter) as error:
        open_stream(frame(), target="y", schema=encoder)
    assert said in str(error.value)
    assert not hasattr(encoder, "account_")


def test_declared_columns_are_crossed_too():
    declared = {"columns": {"town": {"levels": ["Oslo", "Bergen"]}, "code": {"hash": 8}}}
    declared["cross"] = [{"columns": ["town", "code"]}]
    encoder, _ = learn([("age", "town")], declared=declared)
    assert encoder.schema_.crosses == (("town", "code"), ("age", "town"))
    with pytest.raises(InvalidParameter, match="the cross of 'code' and 'town' is declared twice"):
        learn([("code", "town")], declared=declared)


def test_sparse_rows_have_no_columns_to_cross():
    rows = sp.csr_array(np.eye(50))
    with pytest.raises(InvalidParameter, match="crosses applies to columns, and sparse rows have none"):
        PrivateEncoder(crosses=[("a", "b")]).fit(rows)


def test_as_a_transformer():
    data = frame().drop(columns="y")
    encoder = clone(PrivateEncoder(epsilon=8.0, random_state=0, crosses=[("age", "town")])).fit(data)
    X, names = encoder.transform(data[:7]), encoder.get_feature_names_out()
    assert X.shape == (7, len(names))
    other = PrivateEncoder(epsilon=8.0, random_state=0, crosses=[("x0", "x1")]).fit(data[["age", "town"]].to_numpy())
    assert other.schema_.crosses == (("x0", "x1"),)
    mine = other.get_feature_names_out(["age", "town"])
    for found, column in ((mine, other.schema_.columns[0][1]), (names, dict(encoder.schema_.columns)["age"])):
        assert column.shape == "cosine"
        hats = [f"age~{toml_number(knot)}" for knot in column.knots]  # the features of a column in the cosine basis
        towns = [name for name in found if name.startswith("town#") and "*" not in name]
        assert [name for name in found if "*" in name] == [f"{a}*{b}" for a in hats for b in towns]


def test_a_cross_whose_feature_name_is_a_column_is_refused():
    columns = {"a": {"levels": ["x"]}, "b": {"levels": ["y"]}, "a=x*b": {"levels": ["y"]}}
    with pytest.raises(StreamError, match=r"two features are named 'a=x\*b=y', rename a column"):
        encoded({name: [] for name in columns}, schema([("a", "b")], columns))
