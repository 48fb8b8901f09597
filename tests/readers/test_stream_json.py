"""JSON lines: two parsers that agree, missing cells, and errors that name row and key."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from stream_files import drain, fails, together, write

from privol.readers import files as text_files
from privol.readers import json as json_reader
from privol.readers.files import LineFile
from privol.readers.json import JsonColumns
from privol.streams import open_stream

pytest.importorskip("pyarrow")


def opened(folder, text, name="d.jsonl"):
    return JsonColumns(LineFile(write(folder, name, text)))


def read(columns, **kinds):
    rows = []
    for batch in columns.batches(kinds, 1000, lambda _: None):
        assert batch.schema.names == list(kinds)
        rows += zip(*(column.to_pylist() for column in batch.columns), strict=True)
    assert columns.count() == len(rows)
    return rows


@pytest.fixture(params=["both", "slow"])
def parsers(request, monkeypatch):
    """Run every test with both parsers, and with the json module alone."""
    if request.param == "slow":
        monkeypatch.setattr(JsonColumns, "_parse_fast", lambda *args: None)


@pytest.mark.parametrize("packed", ["", ".gz", ".bz2", ".xz"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_rows(tmp_path, parsers, packed, end):
    text = end.join(['{"a": 1, "t": "x"}', "", '{"t": null, "a": 2.5}', "{}", ' {"b": true, "t": "\\u00e9"} '])
    columns = opened(tmp_path, text, "d.jsonl" + packed)
    assert columns.names == ("a", "t", "b")
    assert columns.named
    rows = read(columns, t="text", b="number", a="number")
    assert rows == [("x", None, 1), (None, None, 2.5), (None, None, None), ("é", 1, None)]
    for batch in columns.batches({"t": "text"}, 10, lambda _: None):
        assert str(batch.schema.field("t").type) == "dictionary<values=string, indices=int32, ordered=0>"


def test_numbers_and_words(tmp_path, parsers):
    numbers = ["true", "0", "-1e400", "12345678901234567890123", "9" * 5000, "NaN"]
    texts = ["1.50", "7", "false", '"x"', "-0", "null"]
    pairs = zip(numbers, texts, strict=True)
    columns = opened(tmp_path, "".join(f'{{"a":{a},"b":{b}}}\n' for a, b in pairs))
    values = [row[0] for row in read(columns, a="number")]
    assert values[:5] == [1, 0, -math.inf, 12345678901234567890123.0, math.inf]
    assert math.isnan(values[5])
    assert [row[0] for row in read(columns, b="text")] == ["1.5", "7", "false", "x", "0", None]


def test_the_fast_parser_reads_plain_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "CHUNK_BYTES", 200)
    text = "".join(json.dumps({"n": i / 8, "flag": i % 3 == 0, "id": i, "t": "[0-10)"}) + "\n" for i in range(200))
    columns = opened(tmp_path, text)
    monkeypatch.setattr(JsonColumns, "_parse", lambda *args: pytest.fail("the slow parser was called"))
    rows = read(columns, n="number", flag="number", id="text", t="text")
    assert rows == [(i / 8, float(i % 3 == 0), str(i), "[0-10)") for i in range(200)]


@pytest.mark.parametrize(
    "bad",
    [
        "null",
        '{"a":1} null {"a":2}',
        '{"a":1}{"a":2}',
        '{"a":' + "[" * 3000 + "]" * 3000 + "}",
        '{"u":' + '{"u":' * 100_000 + "1" + "}" * 100_001,
        '{"a":Inf}',
        '{"a":-NaN}',
    ],
)
def test_dangerous_chunks_never_reach_the_fast_parser(tmp_path, monkeypatch, bad):
    monkeypatch.setattr(json_reader, "HEAD_LINES", 2)
    columns = opened(tmp_path, '{"a":1,"u":1}\n' * 3 + bad + "\n")
    fails(lambda: read(columns, a="number"), "row 4", row=4)


def test_an_object_on_two_lines_beside_two_on_one_is_refused(tmp_path):
    # three lines and three objects: counting them is not enough
    text = '{"a":0}\n' * 1000 + '{"a":1}{"a":2}\n{"a":\n3}\n'
    columns = opened(tmp_path, text)
    fails(lambda: read(columns, a="number"), "row 1001", "not JSON", row=1001)


@pytest.mark.parametrize("fill", [3, 1200])
@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ('{"a": "x"}', ["column 'a'", "text, 'x'", "number"]),
        ('{"a": "' + "y" * 90 + '"}', ["column 'a'", "'" + "y" * 40 + "'..."]),
        ('{"a": [1]}', ["column 'a'", "an array", "number"]),
        ('{"t": {"u": 1}}', ["column 't'", "an object", "text"]),
        ('{"a": 1, "a": 2}', ["'a'", "twice"]),
        ('{"a": 1,}', ["not JSON", "position 8"]),
        ("{'a': 1}", ["not JSON"]),
        ("[1, 2]", ["an array", "an object"]),
        ("null", ["null", "an object"]),
        ("3", ["a number", "an object"]),
        ('{"t": "\\ud800"}', ["column 't'", "surrogate"]),
        ('{"t": "\xff"}', ["0xff", "UTF-8"]),
    ],
)
def test_bad_rows(tmp_path, monkeypatch, parsers, bad, words, fill):
    monkeypatch.setattr(text_files, "CHUNK_BYTES", 4000)
    text = '{"a": 1.5, "t": "x"}\n' * fill + "\n" + bad + "\n" + '{"a": 1}\n'

    def all_of_it():
        read(opened(tmp_path, text.encode("latin-1")), a="number", t="text")

    message = fails(all_of_it, f"row {fill + 1}", *words, row=fill + 1)
    assert len(message) < 200


def test_a_new_key_after_the_first_lines(tmp_path, parsers):
    text = '{"a": 1}\n' * json_reader.HEAD_LINES + '{"a": 2, "late": 3}\n'
    columns = opened(tmp_path, text)
    assert columns.names == ("a",)
    fails(lambda: read(columns, a="number"), "row 1001", "'late'", "row 1001", row=1001)
    # a requested key is known
    assert read(columns, late="number")[-2:] == [(None,), (3,)]
    assert opened(tmp_path, '{"a": 1}\n' * (json_reader.HEAD_LINES - 1) + '{"b": 2}\n').names == ("a", "b")


def test_columns_that_are_not_wanted_may_hold_anything(tmp_path, parsers):
    columns = opened(tmp_path, '{"u": {"v": [1]}, "a": 1}\n{"u": 3, "a": 2}\n{"u": ["x"], "a": 3}\n')
    assert read(columns, a="number") == [(1,), (2,), (3,)]


@pytest.mark.parametrize("chunk", [1, 40, 1 << 20])
def test_chunks_and_blocks_never_change_the_rows(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(text_files, "CHUNK_BYTES", chunk)
    monkeypatch.setattr(json_reader, "_BLOCK_BYTES", 64)
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(60, 2)), rng.integers(0, 2, 60)
    rows = [{"a": float(u), "b": float(v), "y": "ab"[t]} for (u, v), t in zip(X, y, strict=True)]
    path = write(tmp_path, "d.jsonl", "\ufeff" + "\n".join(map(json.dumps, rows)))
    stream = open_stream(path, target="y", classes=("a", "b"), block_rows=7)
    got = together(stream)
    np.testing.assert_array_equal(got[0], X)
    np.testing.assert_array_equal(got[1], y)
    assert stream.feature_names == ("a", "b")
    assert stream.count_rows() == 60
    fails(drain(path, target="y"), "row 1", "column 'y'", "classes=", row=1)


def test_files_that_are_not_json_lines_are_refused(tmp_path):
    fails(lambda: opened(tmp_path, "[\n" + '{"a": 1}\n]\n'), "row 1", "not JSON", row=1)
    fails(lambda: opened(tmp_path, '{\n "a": 1\n}\n'), "row 1", "one object a line", row=1)
    fails(lambda: opened(tmp_path, "\n \n"), "no rows")
    fails(lambda: opened(tmp_path, "{}\n{}\n"), "no keys")
    fails(lambda: opened(tmp_path, '{"a": 1}\n'.encode("utf-16")), "UTF-8")


def test_sample(tmp_path):
    text = '{"i":1,"d":1,"t":"a","m":1,"b":true,"l":[1],"z":null}\n{"d":2.5,"m":"x","l":{"k":1},"b":0}\n{"i":"late"}\n'
    table = opened(tmp_path, text).sample(2)
    kinds = {field.name: str(field.type) for field in table.schema}
    assert list(kinds) == list("idtmblz")
    assert list(kinds.values()) == ["int64", "double", "string", "string", "double", "list<item: null>", "null"]
    assert table.num_rows == 2
