"""Typed tables, frames and dict rows: the same blocks from every format, and errors that name the row."""

from __future__ import annotations

import decimal
import gzip
import io
import json
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction import FeatureHasher
from stream_files import as_csv, drain, fails, save, together, write

from privol.errors import InvalidParameter
from privol.readers import arrow as arrow_reader
from privol.readers import parquet as parquet_reader
from privol.readers.frames import DictColumns
from privol.streams import _base, draft_schema, open_stream

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("pyarrow.feather")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")


def columns(X, y, labels=None):
    named = {f"x{j}": X[:, j] for j in range(X.shape[1])}
    return pa.table({**named, "t": y if labels is None else [labels[int(v)] for v in y]})


# ---- one table, every format ------------------------------------------------------------------


@settings(max_examples=8, deadline=None)
@given(
    block_rows=st.integers(1, 150),
    batch=st.integers(1, 130),
    group=st.integers(1, 130),
    read_ahead=st.booleans(),
    words=st.booleans(),
)
def test_every_format_gives_the_same_blocks(tmp_path_factory, block_rows, batch, group, read_ahead, words):
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(120, 3)), rng.integers(0, 2, 120).astype(float)
    X[5, 1] = np.nan
    labels = ["no", "yes"] if words else None
    table = columns(X, y, labels)
    folder = tmp_path_factory.mktemp("same")
    rows = [[float(v) for v in x] for x in X]
    holes = pa.table({name: pa.array(table[name].to_numpy(), from_pandas=True) for name in ("x0", "x1", "x2")})
    holes = holes.append_column("t", table["t"])
    names = ["x0", "x1", "x2", "t"]
    csv = as_csv(X, y, names, labels).replace("nan", "")
    targets = table["t"].to_pylist()
    lines = [dict(zip(names, [*x, t], strict=True)) for x, t in zip(rows, targets, strict=True)]
    text = "".join(json.dumps({k: None if v != v else v for k, v in line.items()}) + "\n" for line in lines)
    inputs = [
        write(folder, "d.csv", csv),
        write(folder, "d.jsonl", text),
        save(folder, holes, "d.parquet", row_group_size=group),
        save(folder, holes, "d.arrow", max_chunksize=group),
        save(folder, holes, "d.arrows", max_chunksize=group),
        save(folder, holes, "d.feather", chunksize=group),
        holes.to_pandas(),
        pl.from_arrow(holes),
        holes,
    ]
    options = {"positive": "yes"} if words else {"classes": (0, 1)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrow_reader, "BATCH_ROWS", batch)
        for data in inputs:
            stream = open_stream(data, block_rows=block_rows, read_ahead=read_ahead, **options)
            assert stream.feature_names == ("x0", "x1", "x2")
            for _ in range(2):
                blocks = list(stream)
                assert [len(b.y) for b in blocks[:-1]] == [block_rows] * (len(blocks) - 1)
                np.testing.assert_array_equal(np.vstack([b.X for b in blocks]), X)
                np.testing.assert_array_equal(np.concatenate([b.y for b in blocks]), y)
                assert stream.fraction_read == 1.0
            assert stream.count_rows() == 120


def kinds_of_columns():
    return {
        "i8": pa.array([1, -2, None], pa.int8()),
        "u64": pa.array([2**53, 0, None], pa.uint64()),
        "f16": pa.array([0.5, None, 2], pa.float16()),
        "f32": pa.array([0.1, None, 2], pa.float32()),
        "flag": pa.array([True, False, None]),
        "dec": pa.array([decimal.Decimal("0.10"), decimal.Decimal("123456789012345.67"), None]),
        "coded": pa.DictionaryArray.from_arrays(pa.array([1, None, 0], pa.int8()), pa.array([7, 8], pa.int64())),
        "hole": pa.DictionaryArray.from_arrays(pa.array([1, None, 0]), pa.array([None, 0.25])),
        "none": pa.nulls(3),
        "t": pa.array([1, 2, 3]),
    }


@pytest.mark.parametrize("name", ["d.parquet", "d.arrow", "d.arrows", None])
def test_types_that_are_numbers(tmp_path, name):
    made = kinds_of_columns()
    if name == "d.parquet":
        made.pop("hole")  # its writer does not support this
    table = pa.table(made)
    nan = np.nan
    expected = {
        "i8": [1, -2, nan],
        "u64": [2.0**53, 0, nan],
        "f16": [0.5, nan, 2],
        "f32": [float(np.float32(0.1)), nan, 2],
        "flag": [1, 0, nan],
        "dec": [0.1, 123456789012345.67, nan],
        "coded": [8, nan, 7],
        "hole": [0.25, nan, nan],
        "none": [nan, nan, nan],
    }
    stream = open_stream(table if name is None else save(tmp_path, table, name))
    X, y = together(stream)
    for j, feature in enumerate(stream.feature_names):
        np.testing.assert_array_equal(X[:, j], expected[feature], err_msg=feature)
    assert y.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("target", "options"),
    [
        (pa.array([False, True, True]), {"classes": (False, True)}),
        (pa.array([0.0, 1.0, 1.0], pa.float32()), {"classes": (0, 1)}),
        (pa.array([-1, 1, 1], pa.int8()), {"classes": (-1, 1)}),
        (pa.array(["a", " b", "b "], pa.large_string()), {"positive": "b"}),
        (pa.array(["a", "b", "b"], pa.string_view()), {"classes": ("a", "b")}),
        (pa.array(["a", "b", "b"]).dictionary_encode(), {"classes": ("a", "b")}),
        (pa.DictionaryArray.from_arrays(pa.array([1, 0, 0], pa.uint16()), pa.array([5, 4])), {"classes": (4, 5)}),
    ],
)
@pytest.mark.parametrize("name", ["d.parquet", "d.arrows", None])
def test_types_that_are_labels(tmp_path, target, options, name):
    table = pa.table({"x": [1.0, 2.0, 3.0], "t": target})
    got = together(open_stream(table if name is None else save(tmp_path, table, name), **options))[1]
    assert got.tolist() == [0, 1, 1]


def test_missing_labels_of_a_typed_column_are_never_the_rest(tmp_path):
    for values in ([1.0, None, 2.0], [1.0, float("nan"), 2.0], ["a", None, "b"]):
        table = pa.table({"x": [1.0, 2.0, 3.0], "t": values})
        for data in (table, save(tmp_path, table)):
            fails(drain(data, positive=values[0]), "row 2", "nothing", row=2)


def test_only_wanted_columns_are_checked_and_read(tmp_path):
    table = pa.table({"x": [1.0, 2.0], "when": pa.array([1, 2], pa.timestamp("s")), "l": [[1], [2]], "t": [0, 1]})
    for data in (save(tmp_path, table), save(tmp_path, table, "d.arrow"), table):
        fails(lambda data=data: open_stream(data), "column 'when'", "timestamp[", "decimals", "dictionaries")
        schema = {"columns": {"x": {}, "when": {"drop": True}, "l": {"drop": True}}, "target": {"column": "t"}}
        X, y = together(open_stream(data, schema=schema))
        assert X.tolist() == [[1], [2]]
        assert y.tolist() == [0, 1]
    table = pa.table({"x": [1.0, 2.0], "t": pa.array([b"a", b"b"])})
    fails(lambda: open_stream(table, positive="a"), "column 't'", "binary", "strings")
    fails(lambda: open_stream(pa.table({"s": ["a"], "t": [1]})), "column 's'", "string", "integers")


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64()])
def test_integers_that_no_double_holds(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(arrow_reader, "BATCH_ROWS", 3)
    values = pa.array([0] * 7 + [2**53 + 1, 5], kind)
    table = pa.table({"x": values, "t": [1.0] * 9})
    for data in (table, save(tmp_path, table), save(tmp_path, table, "d.arrow")):
        fails(drain(data), "row 8", "column 'x'", 2**53 + 1, "2^53", row=8)
    # as text they are exact
    schema = {"columns": {"x": {"hash": 4}}, "target": {"column": "t"}}
    assert together(open_stream(table, schema=schema))[0].shape[0] == 9


# ---- unreadable data ----------------------------------------------------------------------------


def test_damaged_tables(tmp_path, monkeypatch):
    monkeypatch.setattr(arrow_reader, "BATCH_ROWS", 500)
    rng = np.random.default_rng(1)
    table = columns(rng.normal(size=(4000, 3)), np.ones(4000))
    for name in ("d.parquet", "d.arrow", "d.arrows"):
        path = save(
            tmp_path, table, name, **({"row_group_size": 1000} if name == "d.parquet" else {"max_chunksize": 500})
        )
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        if name == "d.arrows":
            with pytest.raises(ValueError, match=r"d\.arrows, from row \d+: .*damaged") as found:
                together(open_stream(path))
            assert 1000 < found.value.row <= 2500
        else:
            fails(lambda path=path: open_stream(path), name, "not a readable")
        path.write_bytes(b"PAR1" if name == "d.parquet" else b"ARROW1\0\0" if name == "d.arrow" else b"\xff" * 9)
        fails(lambda path=path: open_stream(path), name, "not a readable")
    write(tmp_path, "text.parquet", "a,b\n1,2\n")
    fails(lambda: open_stream(tmp_path / "text.parquet"), "text.parquet", "not a Parquet file", "CSV")
    write(tmp_path, "old.feather", b"FEA1" + b"\0" * 40)
    fails(lambda: open_stream(tmp_path / "old.feather"), "version 1")
    (tmp_path / "p.parquet.gz").write_bytes(gzip.compress(b"PAR1" + b"\0" * 99))
    fails(lambda: open_stream(tmp_path / "p.parquet.gz"), "unpack it first")


@pytest.mark.parametrize("checksum", [True, False])
def test_a_damaged_page_under_a_sound_footer(tmp_path, monkeypatch, checksum):
    """With a checksum any flipped bit is found; without one, only damage to the page's structure, here its header."""
    monkeypatch.setattr(arrow_reader, "BATCH_ROWS", 1000)
    rng = np.random.default_rng(1)
    X = rng.normal(size=(9000, 2))
    path = tmp_path / "d.parquet"
    options = {"write_page_checksum": checksum, "use_dictionary": False, "compression": "none"}
    pq.write_table(columns(X, np.ones(9000)), path, row_group_size=3000, **options)
    place = pq.read_metadata(path).row_group(1).column(1)
    data = bytearray(path.read_bytes())
    at = place.data_page_offset + (place.total_compressed_size // 2 if checksum else 0)
    data[at : at + 40] = bytes(b ^ 0x55 for b in data[at : at + 40])
    path.write_bytes(bytes(data))
    seen = []

    def learn():
        for block in open_stream(path, block_rows=1000):
            np.testing.assert_array_equal(block.X, X[len(seen) * 1000 :][:1000])
            seen.append(block)

    fails(learn, "d.parquet", "from row 3001", "damaged", row=3001)
    assert len(seen) == 3


def test_invalid_utf8_in_a_string_column(tmp_path):
    raw = pa.array([b"a", b"b", b"\xff\xfe", b"a"])
    table = pa.table({"x": [1.0] * 4, "t": pa.Array.from_buffers(pa.string(), 4, raw.buffers())})
    for data in (save(tmp_path, table), table):
        fails(drain(data, positive="a"), "row 3", "column 't'", "UTF-8", row=3)
    fails(drain(save(tmp_path, table, "d.arrow"), positive="a"), "UTF8", row=1)


def test_names_and_sizes(tmp_path):
    twice = pa.Table.from_arrays([pa.array([1.0])] * 3, names=["a", "b", "a"])
    for data in (twice, save(tmp_path, twice), save(tmp_path, twice, "d.arrow")):
        fails(lambda data=data: open_stream(data), "two columns", "'a'", "differ")
    empty = pa.table({"a": pa.array([], pa.float64()), "t": pa.array([], pa.float64())})
    for data in (empty, save(tmp_path, empty), save(tmp_path, empty, "d.arrow")):
        fails(drain(data), "no rows")
    dotted = pa.table({"a": [1.0], "a.b": [2.0], "a.b.c": [3.0], "t": [4.0]})
    X, y = together(open_stream(save(tmp_path, dotted), target="a"))
    assert X.tolist() == [[2, 3, 4]]
    assert y.tolist() == [1]


def test_a_table_that_changes_while_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(arrow_reader, "BATCH_ROWS", 10)
    table = columns(np.ones((100, 2)), np.ones(100))
    for name in ("d.parquet", "d.arrow"):
        path = save(tmp_path, table, name)
        stream = open_stream(path, block_rows=10, read_ahead=False)
        rows = iter(stream)
        next(rows)
        save(tmp_path, table.slice(0, 50), name)
        with pytest.raises(ValueError, match="has changed"):
            list(rows)
        with pytest.raises(ValueError, match="has changed"):
            list(stream)


def test_wide_tables_are_decoded_in_smaller_batches(tmp_path, monkeypatch):
    monkeypatch.setattr(arrow_reader, "BLOCK_BYTES", 8 * 4 * 10)
    monkeypatch.setattr(_base, "BLOCK_BYTES", 8 * 3 * 10)
    path = save(tmp_path, columns(np.ones((25, 3)), np.ones(25)))
    sizes = [len(batch) for batch in open_stream(path)._source._columns.batches({"t": "number"}, 9, lambda _: None)]
    assert sum(sizes) == 25
    wanted = dict.fromkeys(["x0", "x1", "x2", "t"], "number")
    assert max(len(b) for b in open_stream(path)._source._columns.batches(wanted, 9, lambda _: None)) == 10
    assert [len(b.y) for b in open_stream(path)] == [10, 10, 5]


def test_parquet_comes_in_batches_of_the_wanted_size(tmp_path, monkeypatch):
    """Their dictionaries need not be rebuilt for a part of them; but very small batches are avoided."""
    monkeypatch.setattr(parquet_reader, "FEWEST_ROWS", 4)
    path = save(tmp_path, columns(np.ones((25, 3)), np.ones(25)))
    for limit, most in ((2, 4), (7, 7), (100, 25)):
        batches = open_stream(path)._source._columns.batches({"t": "number"}, limit, lambda _: None)
        assert max(batch.num_rows for batch in batches) == most


# ---- frames -------------------------------------------------------------------------------------


def test_frames_and_readers():
    frame = pd.DataFrame({"a": [1.0, 2], "t": [0, 1]}, index=pd.Index([7, 8], name="id"))
    for data in (frame, frame.rename_axis(index=None), pl.from_pandas(frame), pa.Table.from_pandas(frame)):
        stream = open_stream(data, classes=(0, 1))
        assert stream.feature_names == ("a",)
        assert stream.n_rows == 2
        for _ in range(2):
            X, y = together(stream)
            assert X.tolist() == [[1], [2]]
            assert y.tolist() == [0, 1]
    reader = pa.table({"a": [1.0, 2], "t": [0, 1]}).to_reader()
    stream = open_stream(reader, classes=(0, 1))
    assert not stream.repeatable
    assert stream.n_rows is None
    assert together(stream)[0].tolist() == [[1], [2]]
    fails(lambda: iter(stream), "only once")


def test_a_pandas_frame_without_arrows_interface(monkeypatch):
    frame = pd.DataFrame({"a": [1.0, None], "t": ["no", "yes"]}, index=[4, 5])
    monkeypatch.delattr(pd.DataFrame, "__arrow_c_stream__")
    X, y = together(open_stream(frame, positive="yes"))
    np.testing.assert_array_equal(X, [[1], [np.nan]])
    assert y.tolist() == [0, 1]


def test_frames_that_cannot_be_read():
    fails(drain(pd.DataFrame({"a": [1, "x", {}], "t": [1, 2, 3]})), "row 2, column 'a'", "'x'", "a number", row=2)
    fails(lambda: open_stream(pd.DataFrame({"a": [1], "t": [pd.Timestamp(0)]})), "column 't'", "timestamp")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fails(lambda: open_stream(pd.DataFrame([[1, 2]], columns=["a", "a"])), "uplicate")
    fails(lambda: open_stream(pd.DataFrame({"a": [], "t": []})), "no rows")
    for options in ({"format": "csv"}, {"header": True}, {"hash_features": 8}, {"sep": ";"}):
        with pytest.raises(InvalidParameter):
            open_stream(pd.DataFrame({"a": [1], "t": [1]}), **options)


@pytest.mark.parametrize("kind", ["series", "polars", "list", "array", "column", "none"])
def test_a_frame_and_its_targets(kind):
    X = pd.DataFrame({"a": [1.0, 2, 3], "b": [True, False, True]}, index=[5, 6, 7])
    y = {
        "series": pd.Series(["u", "v", "u"]),
        "polars": pl.Series(["u", "v", "u"]),
        "list": ["u", "v", "u"],
        "array": pa.chunked_array([["u"], ["v", "u"]]),
        "column": pd.DataFrame({"t": ["u", "v", "u"]}),
        "none": None,
    }[kind]
    for frame in (X, pl.from_pandas(X)):
        stream = open_stream((frame, y), positive="v", block_rows=2)
        assert stream.feature_names == ("a", "b")
        rows, targets = together(stream)
        assert rows.tolist() == [[1, 1], [2, 0], [3, 1]]
        assert targets is None if kind == "none" else targets.tolist() == [0, 1, 0]
    if kind == "series":
        fails(lambda: open_stream((X, y[:2])), "(2,)", "(3,)", row=1)
        missing = pd.Series([1, None, 2], dtype="Int64")
        fails(drain((X, missing), positive=1), "row 2", "nothing", row=2)
        fails(lambda: open_stream((X.assign(c=["p", "q", "r"]), y)), "column 'c'")


# ---- dict rows ----------------------------------------------------------------------------------


def dict_rows(n):
    rng = np.random.default_rng(2)
    for i in range(n):
        row = {"city": f"c{rng.integers(5)}", "age": float(rng.normal()), 3: int(rng.integers(1, 4)), "ok": bool(i % 2)}
        yield row, ("yes" if i % 3 else "no")


@pytest.mark.parametrize("block_rows", [1, 7, 100])
def test_dict_rows_are_hashed_as_scikit_learn_does(block_rows):
    pairs = list(dict_rows(30))
    plain = [{str(k): float(v) if isinstance(v, bool) else v for k, v in row.items()} for row, _ in pairs]
    expected = FeatureHasher(64).transform(plain).toarray()
    for data in (pairs, iter(pairs)):
        stream = open_stream(data, classes=("no", "yes"), hash_features=64, block_rows=block_rows)
        assert stream.n_features == 64
        assert stream.repeatable == (stream.n_rows == 30) == isinstance(data, list)
        blocks = list(stream)
        assert all(sp.issparse(b.X) for b in blocks)
        assert [len(b.y) for b in blocks[:-1]] == [block_rows] * (len(blocks) - 1)
        np.testing.assert_array_equal(np.vstack([b.X.toarray() for b in blocks]), expected)
        assert np.concatenate([b.y for b in blocks]).tolist() == [float(t == "yes") for _, t in pairs]
    assert open_stream(pairs, positive="yes").n_features == 2**18


def test_dict_rows_that_cannot_be_hashed():
    good = ({"a": 1.0}, 1)
    for bad, words in (
        (({"a": [1]}, 1), ["'a'", "list", "numbers and text"]),
        (({"a": {}}, 1), ["'a'", "dict"]),
        (({("a",): 1}, 1), ["key", "tuple"]),
        (([1.0], 1), ["(dict, y)"]),
        ({"a": 1}, ["dict", "(dict, y)"]),
        (({"a": 1}, None), ["nothing"]),
    ):
        fails(drain(iter([good, good, bad]), positive=1, hash_features=8), "row 3", *words, row=3)
    X = together(
        open_stream([({"a": None}, 1), ({"a": float("nan"), "b": np.inf}, 0)], classes=(0, 1), hash_features=4)
    )[0]
    assert np.isnan(X[0]).sum() == 1
    assert np.isinf(X[1]).sum() == 1
    assert together(open_stream([({"a": 1}, None)], hash_features=4))[1] is None
    with pytest.raises(InvalidParameter, match="schema"):
        open_stream([{"a": 1, "t": 2}])
    for value in (0, 2**31, 1.5):
        with pytest.raises(InvalidParameter, match="hash_features"):
            open_stream([good], hash_features=value)
    for data in ((np.ones((2, 2)), [1, 2]), np.ones((2, 2)), [(np.ones((2, 2)), [1, 2])]):
        with pytest.raises(InvalidParameter, match="hash_features is for"):
            open_stream(data, hash_features=8)
    with pytest.raises(InvalidParameter, match="target is for columns"):
        open_stream([good], target="a")
    with pytest.raises(InvalidParameter, match="schema is for"):
        open_stream([good], schema={"columns": {"a": {}}})


SCHEMA = {
    "columns": {"age": {"range": [0, 100]}, "city": {"levels": ["Oslo", "Bergen"]}},
    "target": {"column": "t", "negative": ["no"], "positive": ["yes"]},
}


def test_plain_dicts_with_a_schema(tmp_path):
    rows = [
        {"t": "yes", "age": 50, "city": "Oslo"},
        {"t": "no", "age": "100", "city": None},
        {"t": "no", "age": np.float32(0), "city": " Bergen "},
        {"t": "yes", "age": True},
    ]
    listed, once = open_stream(rows, schema=SCHEMA), open_stream(iter(rows), schema=SCHEMA)
    table = pa.table({"t": ["yes", "no", "no", "yes"], "age": [50, 100, 0, 1], "city": ["Oslo", None, "Bergen", None]})
    typed = open_stream(save(tmp_path, table), schema=SCHEMA)
    assert listed.classes == typed.classes == ("no", "yes")
    assert listed.schema == typed.schema
    assert listed.row_bound == typed.row_bound is not None
    for stream in (listed, once):
        X, y = together(stream)
        np.testing.assert_array_equal(X, together(typed)[0])
        assert y.tolist() == [1, 0, 0, 1]
    features = open_stream([{"city": "Oslo", "age": 3}], schema=SCHEMA, target=False)
    assert together(features)[1] is None
    for bad, words in (
        ({"age": "x"}, ["column 'age'", "'x'", "number"]),
        ({"age": [1]}, ["column 'age'", "list"]),
        ({"age": 2**60}, ["column 'age'", "2^53"]),
        ({"city": {}}, ["column 'city'", "dict"]),
        ({"town": "x"}, ["'town'", "'age', 'city'"]),
    ):
        fails(drain(iter([*rows, {**rows[0], **bad}]), schema=SCHEMA), "row 5", *words, row=5)


def test_options_excluded_by_a_schema_are_refused():
    data = [{"t": "yes", "age": 50, "city": "Oslo"}]
    for name, value in (
        ("target", "t"),
        ("classes", (0, 1)),
        ("positive", 1),
        ("ranges", {"age": (0, 1)}),
        ("header", True),
        ("sep", ";"),
        ("encoding", "latin-1"),
    ):
        with pytest.raises(InvalidParameter, match=f"{name} and schema"):
            open_stream(data, schema=SCHEMA, **{name: value})
    for data in ((np.ones((2, 2)), [0, 1]), np.ones((2, 2)), [(np.ones((1, 1)), [1])]):
        with pytest.raises(InvalidParameter, match="schema is for"):
            open_stream(data, schema=SCHEMA)


# ---- standard input -----------------------------------------------------------------------------


def test_standard_input(tmp_path, monkeypatch):
    table = columns(np.arange(3000.0).reshape(1000, 3), np.ones(1000))

    def piped(data):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        return open_stream("-")

    sent = save(tmp_path, table, "d.arrows", max_chunksize=300).read_bytes()
    for data in (sent, gzip.compress(sent)):
        stream = piped(data)
        assert not stream.repeatable
        assert stream.source == "standard input"
        assert stream.fraction_read is None
        assert together(stream)[0].ravel().tolist() == list(range(3000))
        fails(lambda stream=stream: iter(stream), "only once")
    fails(lambda: together(piped(sent[: len(sent) // 2])), "standard input, from row 301", "damaged", row=301)
    fails(lambda: piped(save(tmp_path, table).read_bytes()), "parquet", "pipe", "any place")
    fails(lambda: piped(save(tmp_path, table, "d.arrow").read_bytes()), "Arrow file", "pipe", "any place")


def test_half_of_a_surrogate_pair_names_the_row():
    schema = {"columns": {"a": {"hash": 8}}}
    rows = [{"a": "x"}, {"a": None}, {"a": "y\ud800"}]
    fails(drain(rows, schema=schema), "row 3", "column 'a'", "surrogate", row=3)
    columns = DictColumns(rows[0], iter(rows[1:]), rows)
    fails(lambda: draft_schema(columns, target=False), "row 3", "surrogate", row=3)
    fails(lambda: open_stream([{"a\ud800": 1.0}], schema={"others": "number"}), "row 1", "surrogate", row=1)
    for features in ({"a": "\ud800"}, {"\ud800": 1}):
        pairs = [({"a": 1}, 0.0), (features, 1.0)]
        fails(drain(pairs, hash_features=8), "row 2", "surrogate", row=2)
