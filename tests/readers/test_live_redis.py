"""Redis Streams as input: entries and messages of every format, what is trimmed, and what cannot be read."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from brokers import PASSWORD, ROWS, SCHEMA, Redis, as_json

from privol import open_stream
from privol.errors import InvalidParameter, SourceAway, StreamError
from privol.readers import message_columns

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the server is that of a Linux distribution"),
]
TOWNS = {
    "columns": {"x": {"range": [-1, 1]}, "town": {"levels": ["town 0", "town 1", "town 2"]}},
    "target": {"column": "y", "negative": 0, "positive": 1},
}


@pytest.fixture(scope="module")
def server() -> Iterator[Redis]:
    server = Redis()
    yield server
    server.close()


@pytest.fixture(autouse=True)
def empty(server: Redis) -> None:
    server.client.flushall()


def together(stream: Any) -> tuple[Any, Any]:
    blocks = list(stream)
    return np.vstack([block.X for block in blocks]), np.concatenate([block.y for block in blocks])


def arrow_message(rows: list[Any]) -> bytes:
    batch, sink = pa.RecordBatch.from_pylist(rows), io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def lines(rows: list[Any]) -> bytes:
    return "\n".join(f"{row['y']},{row['x']!r},{row['town']}" for row in rows).encode()


@pytest.mark.parametrize("form", ["fields", "json", "json lines", "csv", "arrow"])
def test_the_rows_are_those_of_a_frame(server, form):
    thirds = [ROWS[i : i + 3] for i in range(0, len(ROWS), 3)]
    how: dict[str, Any] = {}
    schema = TOWNS
    if form == "fields":
        server.add("visits", ROWS)
    elif form == "json":
        server.add("visits", as_json(ROWS), "m")
    elif form == "json lines":
        server.add("visits", [b"\n".join(as_json(three)) for three in thirds], "m")
    elif form == "csv":
        server.add("visits", [lines(three) for three in thirds], "m")
        schema = {**TOWNS, "file": {"format": "csv", "names": ["y", "x", "town"]}}
    else:
        server.add("visits", [arrow_message(three) for three in thirds], "m")
    more = {} if form == "fields" else {"field": "m"}
    stream = open_stream(server.url(rows=len(ROWS), **more), schema=schema, block_rows=64, **how)
    assert (stream.n_rows, stream.count_rows(), stream.source) == (500, 500, "visits (Redis)")
    X, y = together(stream)
    wanted = together(open_stream(pa.Table.from_pylist(ROWS), schema=TOWNS))
    assert np.array_equal(X, wanted[0])
    assert np.array_equal(y, wanted[1])
    again = together(stream)  # its entries are still there
    assert np.array_equal(again[0], X)


def test_columns_without_a_schema_are_those_of_the_first_message_by_name(server):
    server.add("visits", as_json([{"y": i % 2, "b": i, "a": -i} for i in range(5)]), "m")
    stream = open_stream(server.url(rows=5, field="m"), target="y", positive=1)
    assert stream.feature_names == ("a", "b")
    assert stream.conditions == (
        "the format and the columns, inferred from the data, are the same in neighbouring streams and are not hidden",
    )
    assert together(stream)[0].tolist() == [[-i, i] for i in range(5)]
    with pytest.raises(InvalidParameter, match=r"target= is needed: the columns of its messages have names and no ord"):
        open_stream(server.url(rows=5, field="m"))
    stated = open_stream(server.url(rows=5, field="m"), target="y", positive=1, columns=["b", "y", "a"], format="jsonl")
    assert stated.feature_names == ("b", "a")
    assert stated.conditions == ()


def test_rows_ends_a_stream_in_the_middle_of_a_message(server):
    server.add("visits", [b"\n".join(as_json(ROWS[i : i + 4])) for i in range(0, 20, 4)], "m")
    X, _ = together(open_stream(server.url(rows=10, field="m"), schema=SCHEMA, block_rows=3))
    assert len(X) == 10
    assert np.array_equal(X, together(open_stream(pa.Table.from_pylist(ROWS[:10]), schema=SCHEMA))[0])


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (b'{"x": 0.5, "town": "a", "y"', r"entry 7-1: is not JSON"),
        (b'{"x": 0.5, "town": "a", "y": 1}\n{"x": 0.5', r"entry 7-1, row 2 of it: is not JSON"),
        (b"[1, 2]", r"entry 7-1: found an array, allowed is an object"),
        (b'{"x": "much", "town": "a", "y": 1}', r"entry 7-1, column 'x': found 'much', allowed is a number"),
        (b'{"x": 0.5, "z": 1, "y": 1}', r"entry 7-1: found the key 'z', allowed are those"),
        (b" \n", r"entry 7-1: is empty, at least one row is needed"),
        (None, r"entry 7-1: has no content"),
        (b'{"x": 0.5, "town": "a", "y": 3}', r"row 4 \(entry 7-1\).*'?3'?"),
        (b"\xff{}", r"entry 7-1: found the byte 0xff"),
    ],
)
def test_a_message_that_cannot_be_read_ends_the_run_or_is_set_aside(server, tmp_path, message, says):
    good = as_json(ROWS[:3])
    for i, content in enumerate(good):
        server.client.xadd("visits", {"m": content}, id=f"{i + 1}-0")
    server.client.xadd("visits", {"m": message} if message is not None else {"other": "field"}, id="7-1")
    server.client.xadd("visits", {"m": as_json(ROWS[3:4])[0]}, id="8-0")
    found: list[Any] = []
    with pytest.raises(StreamError, match=says):
        found.extend(open_stream(server.url(rows=4, field="m"), schema=SCHEMA))
    if "row 4 " not in says:  # what comes before it is passed on
        assert sum(len(block.X) for block in found) == 3
    aside = tmp_path / "aside"
    stream = open_stream(server.url(rows=4, field="m", quarantine=aside), schema=SCHEMA)
    X, _ = together(stream)
    assert stream.set_aside == 1
    assert open_stream(server.url(rows=4, field="m"), schema=SCHEMA).set_aside is None
    assert np.array_equal(X, together(open_stream(pa.Table.from_pylist(ROWS[:4]), schema=SCHEMA))[0])
    assert any("set aside as unreadable is the same in neighbouring streams" in words for words in stream.conditions)
    assert sorted(path.name for path in aside.iterdir()) == ["entry-7-1.message", "entry-7-1.reason"]
    assert (aside / "entry-7-1.message").read_bytes() == (message or b"")
    assert (aside / "entry-7-1.message").stat().st_mode & 0o777 == 0o600
    assert "entry 7-1" in (aside / "entry-7-1.reason").read_text()


def test_fields_that_are_not_rows(server, tmp_path):
    server.add("visits", [*ROWS[:2], {"x": "1\n2", "town": "a", "y": 1}, {"x": 1, "nonsense": 1}, *ROWS[2:4]])
    with pytest.raises(StreamError, match="the field 'x' holds a line break"):
        together(open_stream(server.url(rows=4), schema=SCHEMA))
    X, _ = together(open_stream(server.url(rows=4, quarantine=tmp_path / "aside"), schema=SCHEMA))
    assert np.array_equal(X, together(open_stream(pa.Table.from_pylist(ROWS[:4]), schema=SCHEMA))[0])
    said = "".join(path.read_text() for path in (tmp_path / "aside").glob("*.reason"))
    assert "found the field 'nonsense', allowed are town, x, y" in said


def test_arrow_messages_of_other_columns_or_half_of_one(server):
    whole = arrow_message(ROWS[:3])
    for bad, says in (
        (arrow_message([{"x": 1.0, "town": "a", "z": 1}]), "found the column 'z', allowed are x, town, y"),
        (arrow_message([{"x": 1, "town": "a", "y": 1}]), "column 'x': found the type int64, and in the first message"),
        (whole[: len(whole) // 2], "is no whole Arrow IPC stream"),
        (whole.replace(b"town", b"t\xefwn"), "is no whole Arrow IPC stream"),
    ):
        server.client.delete("visits")
        server.add("visits", [whole, bad], "m")
        with pytest.raises(StreamError, match=says):
            together(open_stream(server.url(rows=6, field="m"), schema=TOWNS))


def test_entries_that_are_trimmed_before_they_are_read_are_an_error(server):
    ids = server.add("visits", ROWS)
    reading = open_stream(server.url(), schema=SCHEMA, block_rows=100, read_ahead=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(message_columns, "MOST", 100)
        blocks = iter(reading)
        next(blocks)
        server.client.xtrim("visits", minid=ids[100], approximate=False)  # read: they are not missed
        next(blocks)
        server.client.xtrim("visits", minid=ids[250], approximate=False)
        with pytest.raises(StreamError, match=rf"50 entries behind {ids[199]} were trimmed or deleted .* {ids[250]}"):
            next(blocks)


def test_how_many_entries_wait_behind_those_that_were_read(server, monkeypatch):
    monkeypatch.setattr(message_columns, "MOST", 100)
    server.add("visits", ROWS[:400])
    stream = open_stream(server.url(), schema=SCHEMA, block_rows=100, read_ahead=False)
    assert (stream.lag, stream.away) == (None, False)
    blocks = iter(stream)
    assert [(len(next(blocks).X), stream.lag) for _ in range(3)] == [(100, 300), (100, 200), (100, 100)]
    server.add("visits", ROWS[400:])
    assert [(len(next(blocks).X), stream.lag) for _ in range(2)] == [(100, 100), (100, 0)]
    feed = stream._source._columns._feed
    feed.lag = None
    assert (feed.read(100, 0.0), feed.lag) == ([], 0)
    assert open_stream(pa.Table.from_pylist(ROWS), schema=SCHEMA).lag is None


def test_an_entry_that_is_deleted_before_it_is_read_is_an_error(server):
    ids = server.add("visits", ROWS[:20])
    server.client.xdel("visits", ids[12])  # before the run: none of its rows
    stream = open_stream(server.url(rows=19), schema=SCHEMA)
    assert sum(len(block.X) for block in stream) == 19
    feed = open_stream(server.url(), schema=SCHEMA)._source._columns._feed
    assert len(feed.read(5, 0.0)) == 5
    server.client.xdel("visits", ids[7])  # another one is the last that was deleted
    with pytest.raises(
        StreamError, match=r"1 entries behind \S+ were trimmed or deleted before they were read, the fir"
    ):
        feed.read(100, 0.0)
    server.client.xdel("visits", ids[15])
    with pytest.raises(StreamError, match=rf"entry {ids[15]} was deleted before it was read: the run does not go on"):
        list(stream)


def test_a_row_that_no_learner_takes_is_set_aside(server, tmp_path):
    good, aside = as_json([{"a": i / 10, "y": i % 2} for i in range(6)]), tmp_path / "aside"
    bad = [b'{"a": NaN, "y": 1}', b'{"y": 1}', b'{"a": 1e999, "y": 0}', b'{"a": 2, "y": 7}']
    server.add("visits", [*good[:3], *bad, *good[3:]], "m")
    stream = open_stream(server.url(rows=6, field="m", quarantine=aside), target="y", classes=(0, 1))
    assert together(stream)[0].ravel().tolist() == [i / 10 for i in range(6)]
    assert len(list(aside.glob("*.message"))) == 4
    wide = {"columns": {"a": {}, "w": {"levels": [f"{i}" for i in range(3000)]}}, "target": {"column": "y"}}
    rows = [*as_json([{"a": i, "w": f"{i}", "y": i} for i in range(3)]), b'{"a": 1e200, "w": "1", "y": 0}']
    server.add("wide", [*rows, b'{"a": 1, "w": "1", "y": -1e200}', b'{"a": 5, "w": "2", "y": 3}'], "m")
    found = open_stream(server.url("wide", rows=4, field="m", quarantine=aside), schema=wide)
    blocks = list(found)
    assert sp.issparse(blocks[0].X)
    assert np.concatenate([block.y for block in blocks]).tolist() == [0, 1, 2, 3]
    assert "a number is missing or not finite" in "".join(path.read_text() for path in aside.glob("*.reason"))


def test_whose_rows_are_counted_changes_nothing_of_what_is_set_aside(server, tmp_path):
    capped = {**SCHEMA, "user": {"column": "town", "max_rows": 12}}
    bad = [b'{"x": 0.5, "town": "town 1", "y": 7}'] * 5
    server.add("visits", [*as_json(ROWS[:10]), *bad, *as_json(ROWS[10:40])], "m")
    server.add("good", as_json(ROWS[:40]), "m")
    stream = open_stream(server.url(rows=40, field="m", quarantine=tmp_path / "aside"), schema=capped)
    wanted = together(open_stream(server.url("good", rows=40, field="m"), schema=capped))
    assert stream.count_rows() == len(wanted[0]) == 36
    assert np.array_equal(together(stream)[0], wanted[0])


def test_a_first_message_of_no_format_is_set_aside_too(server, tmp_path):
    server.add("visits", [b"[", *as_json(ROWS[:3])], "m")
    with pytest.raises(InvalidParameter, match="the messages do not begin as JSON objects or Arrow"):
        open_stream(server.url(rows=3, field="m"), schema=SCHEMA)
    stream = open_stream(server.url(rows=3, field="m", quarantine=tmp_path / "aside"), schema=SCHEMA)
    assert sum(len(block.X) for block in stream) == 3
    assert [path.read_bytes() for path in (tmp_path / "aside").glob("*.message")] == [b"["]


def test_messages_of_one_name_do_not_replace_each_other(server, tmp_path):
    for name, content in (("one", b"{"), ("two", b"[")):
        server.client.xadd(name, {"m": content}, id="1-1")
        server.client.xadd(name, {"m": as_json(ROWS)[0]}, id="1-2")
        for _ in range(2):  # one that comes again has its file already
            list(open_stream(server.url(name, rows=1, field="m", quarantine=tmp_path / "aside"), schema=SCHEMA))
    kept = sorted((tmp_path / "aside").glob("*.message"))
    assert [path.read_bytes() for path in kept] == [b"[", b"{"]
    assert kept[1].name == "entry-1-1.message"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("", "needs stream=NAME"),
        ("stream=visits&order=id", "has the option 'order', allowed are stream, group, field"),
        ("stream=visits&rows=0", "rows in the URL must be a whole number of at least 1, found '0'"),
        ("stream=visits&rows=many", "found 'many'"),
        ("stream=visits&rows=5&quarantine=/no/such/folder", "quarantine=/no/such/folder: cannot be made"),
        ("stream=visits&rows=5&quarantine=", "quarantine in the URL must name a folder, found nothing"),
        ("stream=none&rows=5", "none .Redis.: cannot be read: there is no such stream"),
        ("stream=text&rows=5", "WRONGTYPE"),
        ("stream=visits&rows=5&field=m", "the messages do not begin as JSON objects or Arrow"),
    ],
)
def test_urls_that_are_refused(server, options, says):
    server.client.set("text", "text")
    server.add("visits", [b"1,2,3"] * 5, "m")
    with pytest.raises((InvalidParameter, StreamError), match=says):
        open_stream(f"{server.url().partition('?')[0]}?{options}", schema=SCHEMA)


def test_options_that_are_refused(server):
    server.add("visits", ROWS[:5])
    for names in (None, ["x", "town", "y"]):
        with pytest.raises(InvalidParameter, match="format is for messages in one field"):
            open_stream(server.url(rows=5), target="y", positive=1, format="csv", columns=names)
    server.add("lines", [b"1,2"] * 5, "m")
    with pytest.raises(InvalidParameter, match=r"messages of CSV have no header: columns="):
        open_stream(server.url("lines", rows=2, field="m"), target=0, format="csv")
    with pytest.raises(InvalidParameter, match=r"found format='npy', allowed for messages are csv, jsonl, arrow"):
        open_stream(server.url("lines", rows=2, field="m"), target=0, format="npy")
    with pytest.raises(StreamError, match=r"has no end, so its rows cannot be counted: 'rows=N' in the URL ends it"):
        open_stream(server.url(), schema=SCHEMA).count_rows()


def test_no_message_has_the_password(server):
    server.add("visits", ROWS[:5])
    wrong = server.url(rows=5).replace(PASSWORD, f"{PASSWORD}wrong")
    nowhere = server.url(rows=5).replace(str(server.port), "9")
    for url, away in ((wrong, False), (nowhere, True)):
        with pytest.raises(StreamError, match="cannot be read") as caught:
            open_stream(url, schema=SCHEMA)
        assert isinstance(caught.value, SourceAway) == away
        assert PASSWORD not in str(caught.value)
        assert caught.value.__cause__ is None
