"""Blocks of encoded rows: encoded in place, while a thread reads the next rows. The cut never matters."""

from __future__ import annotations

import gc
import threading
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from stream_files import fails

from privol import _threads, open_stream
from privol.encoding import rows
from privol.encoding.encode import SchemaEncoder
from privol.encoding.rest import RestOfColumns
from privol.encoding.rows import ColumnSource
from privol.encoding.schema import Schema
from privol.encoding.schema_parts import User
from privol.errors import StreamError
from privol.readers.base import PAUSE, Facts
from privol.readers.columns import Columns
from privol.streams._capped import CappedColumns

NAMES = "age", "ward", "seen", "y"
SCHEMA = {
    "columns": {
        "age": {"shape": "cosine", "knots": [0, 20, 50, 90], "missing": "indicator", "means": [0.1, 0.0, -0.2, 0.3]},
        "ward": {"hash": 64, "kept": [1, 2, 3, 40], "rest": 3, "means": [0.1, 0.2, 0.0, 0.1, 0.2, 0.2, 0.2, 0.0]},
        "seen": {
            "knots": [date(1990, 1, 1), date(2020, 1, 1)],
            "cycles": ["day", "year"],
            "shape": "cosine",
            "timestamp": True,
        },
    },
    "target": {"column": "y", "negative": "no", "positive": "yes"},
}


def cells(n, seed=0):
    rng = np.random.default_rng(seed)
    moments = rng.integers(600_000_000, 1_600_000_000, n).astype("datetime64[s]")
    return pa.table(
        {
            "age": pa.array([None if x > 95 else str(round(x, 1)) for x in rng.uniform(0, 100, n)], pa.string()),
            "ward": pa.array([f"ward {k}" for k in rng.integers(0, 30, n)]),
            "seen": pa.array([str(x) for x in np.where(rng.random(n) < 0.5, moments.astype("datetime64[D]"), moments)]),
            "y": pa.array(np.where(rng.random(n) < 0.4, "yes", "no")).dictionary_encode(),
        }
    )


class Cut(Columns):
    """A table in batches of given lengths, repeatedly; records how many were made, and in which threads."""

    def __init__(self, table, lengths, pauses=(), **facts):
        self.facts = Facts(name="cut", **facts)
        self.names = tuple(table.schema.names)
        self._table, self._lengths, self._pauses = table, lengths, pauses
        self.made, self.closed, self.threads = 0, 0, set()

    def only_text(self, name):
        return True

    def batches(self, kinds, limit, progress):
        row = i = 0
        try:
            while row < len(self._table):
                n = self._lengths[i % len(self._lengths)]
                part = self._table.select(list(kinds)).slice(row, n).combine_chunks()
                self.made += 1
                self.threads.add(threading.current_thread().name)
                columns = [column.combine_chunks() for column in part.columns]
                yield pa.RecordBatch.from_arrays(columns, names=list(kinds))
                row, i = row + n, i + 1
                progress(min(row / len(self._table), 1.0))
                if i in self._pauses:
                    yield None
        finally:
            self.closed += 1

    def sample(self, rows):
        return self._table.slice(0, rows)

    def count(self):
        return len(self._table)


def source_of(columns, schema=SCHEMA):
    return ColumnSource(columns, SchemaEncoder(Schema.load(schema), columns))


def readers():
    return [thread for thread in threading.enumerate() if thread.name == "privol-read-ahead"]


def whole(pieces):
    found = [piece for piece in pieces if piece is not PAUSE]
    return np.concatenate([piece.X for piece in found]), np.concatenate([piece.y for piece in found])


@pytest.fixture
def small(monkeypatch):
    """Makes blocks of a few rows count as large ones."""
    monkeypatch.setattr(rows, "LARGE", 8)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("ahead", [True, False])
def test_rows_do_not_depend_on_blocks_batches_or_threads(small, monkeypatch, threads, ahead):
    monkeypatch.setattr(_threads, "_ENOUGH", 0)
    monkeypatch.setattr(_threads, "_limit", threads)
    monkeypatch.setattr("privol.encoding.encode.NEAR_CELLS", 200)
    table = cells(300)
    X, y = whole(source_of(Cut(table, [300], ahead=False)).pieces(1, lambda _: None))
    one_by_one = whole(source_of(Cut(table, [1], ahead=False)).pieces(1, lambda _: None))
    assert (one_by_one[0].tobytes(), one_by_one[1].tobytes()) == (X.tobytes(), y.tobytes())
    for lengths in ([1, 7, 64], [100], [33, 1, 90], [301]):
        for limit in (8, 50, 299, 300, 1000):
            columns = Cut(table, lengths, ahead=ahead)
            pieces = list(source_of(columns).pieces(limit, lambda _: None))
            assert [len(piece.X) for piece in pieces] == [limit] * (300 // limit) + [300 % limit] * (300 % limit > 0)
            found = whole(pieces)
            assert (found[0].tobytes(), found[1].tobytes()) == (X.tobytes(), y.tobytes())
            assert columns.threads == {"privol-read-ahead" if ahead else "MainThread"}
            assert columns.closed == 1
    assert not readers()


def test_blocks_have_their_own_memory(small):
    """No block is part of a larger one, and each remains valid as long as it is held."""
    pieces, copies = [], []
    for piece in source_of(Cut(cells(100), [30])).pieces(25, lambda _: None):
        pieces.append(piece)
        copies.append(piece.X.copy())
    assert all(piece.X.base is None and piece.X.flags.c_contiguous for piece in pieces)
    for piece, copy in zip(pieces, copies, strict=True):
        np.testing.assert_array_equal(piece.X, copy)


def test_available_rows_are_handed_out_at_a_pause(small):
    table = cells(50)
    pieces = list(source_of(Cut(table, [10], pauses=(2, 3), repeatable=False)).pieces(16, lambda _: None))
    assert [len(piece.X) if piece is not PAUSE else None for piece in pieces] == [16, 4, None, 10, None, 16, 4]


@pytest.mark.parametrize("ahead", [True, False])
def test_an_error_comes_after_the_preceding_blocks(small, ahead):
    """Whichever batch it is in, its row number and words are those of the row."""
    schema = {**SCHEMA, "columns": {**SCHEMA["columns"], "ward": {"levels": ["a", "b"], "unknown": "refuse"}}}
    table = cells(100).set_column(1, "ward", pa.array(["a"] * 61 + ["no such"] + ["b"] * 38))
    for lengths in ([100], [7], [60, 3]):
        columns = Cut(table, lengths, ahead=ahead)
        seen = []

        def learn(columns=columns, seen=seen):
            for piece in source_of(columns, schema).pieces(20, lambda _: None):
                seen.append(len(piece.X))

        fails(learn, "row 62", "'ward'", "no such", row=62)
        assert seen == [20, 20, 20]
        gc.collect()
        assert columns.closed == 1
        assert not readers()


def test_progress_is_that_of_the_batches_before(small):
    """It is the same with a thread ahead: what was consumed before the batch, and everything at the end."""
    told = []
    for ahead in (True, False):
        told.append([])
        pieces = source_of(Cut(cells(100), [25], ahead=ahead)).pieces(50, told[-1].append)
        assert [(len(piece.X), told[-1][-1]) for piece in pieces] == [(50, 0.25), (50, 0.75)]
        assert told[-1][-1] == 1.0


def test_at_most_one_block_of_rows_waits(small):
    columns = Cut(cells(4000), [10])
    pieces = source_of(columns).pieces(40, lambda _: None)
    next(pieces)
    # 4 are in the block, at most 4 wait, one is being made
    for _ in range(200):
        if columns.made >= 8:
            break
        threading.Event().wait(0.01)
    threading.Event().wait(0.05)
    assert 4 < columns.made <= 9
    pieces.close()
    assert not readers()
    assert columns.closed == 1


def test_an_input_that_was_stopped_has_not_ended(small, monkeypatch):
    """Its last rows must not look like those of a complete input."""

    class Stopped(rows.ReadAhead):
        taken = 0

        def __next__(self):
            self.taken += 1
            if self.taken == 3:
                self.close()
            return super().__next__()

    monkeypatch.setattr(rows, "ReadAhead", Stopped)
    pieces = source_of(Cut(cells(100), [10])).pieces(15, lambda _: None)
    assert len(next(pieces).X) == 15
    with pytest.raises(StreamError, match="was stopped"):
        next(pieces)


def test_short_inputs_and_caller_inputs_use_no_thread(small):
    for facts in ({"n_rows": 100}, {"ahead": False}, {"repeatable": False}):
        columns = Cut(cells(100), [10], **facts)
        assert len(whole(source_of(columns).pieces(100, lambda _: None))[1]) == 100
        assert columns.threads == {"MainThread"}


def test_capped_rows_are_read_when_they_are_asked_for():
    """Users and row positions are those of the latest batch."""
    columns = Cut(cells(10), [5])
    assert RestOfColumns(columns, 3).ahead
    assert not RestOfColumns(CappedColumns(columns, User("ward", 3), frozenset()), 3).ahead


@pytest.mark.parametrize("read_ahead", [True, False])
def test_a_stream_reads_in_threads_if_it_may(tmp_path, read_ahead):
    table = cells(6000)
    path = tmp_path / "rows.csv"
    pa.csv.write_csv(table.set_column(3, "y", table["y"].cast(pa.string())), path)
    blocks = iter(open_stream(path, schema=SCHEMA, block_rows=5000, read_ahead=read_ahead))
    assert [len(block.y) for block in blocks] == [5000, 1000]
    blocks = iter(open_stream(path, schema=SCHEMA, block_rows=4096, read_ahead=read_ahead))
    next(blocks)
    assert len(readers()) <= 2 * read_ahead
    blocks.close()
    assert not readers()


def test_targets_beside_a_frame_of_several_batches_are_those_of_its_rows():
    x = np.arange(7.0)
    frame = pa.concat_tables([pa.table({"x": x[:3]}), pa.table({"x": x[3:]})])
    blocks = list(open_stream((frame, 10 * x), block_rows=2))
    assert np.concatenate([block.y for block in blocks]).tolist() == (10 * x).tolist()
