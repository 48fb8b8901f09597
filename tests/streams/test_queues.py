"""Rows that other threads put into a queue."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from queue import Queue, SimpleQueue

import numpy as np
import pytest
from patience import WAIT

from privol import open_stream
from privol.encoding import PrivateEncoder
from privol.encoding.labels import Labels
from privol.errors import InvalidParameter, StreamError
from privol.readers.base import PAUSE
from privol.readers.frames import DICT_ROWS, DictColumns
from privol.readers.open import Options, open_reader
from privol.readers.queues import QueueRows

SCHEMA = {
    "columns": {"age": {"range": [0, 100]}, "ward": {"levels": ["a", "b"]}},
    "target": {"column": "ill", "negative": 0, "positive": 1},
}
ROWS = [{"age": i * 31 % 97, "ward": "ab"[i % 2], "ill": int(i * 31 % 97 > 50)} for i in range(3000)]
PAIRS = [({"age": row["age"], "ward": row["ward"]}, row["ill"]) for row in ROWS]


def given(rows, kind=SimpleQueue):
    found = kind()
    for row in rows:
        found.put(row)
    return found


def table(stream):
    blocks = list(stream)
    return np.vstack([b.X if isinstance(b.X, np.ndarray) else b.X.toarray() for b in blocks]), np.concatenate(
        [b.y for b in blocks]
    )


@pytest.mark.parametrize("kind", [SimpleQueue, Queue, multiprocessing.Queue])
def test_a_queue_brings_the_rows_of_a_list(kind):
    words = {"schema": SCHEMA, "block_rows": 700}
    X, y = table(open_stream(ROWS, **words))
    found = table(open_stream(given([*ROWS, None, {"after": "the end"}], kind), **words))
    assert np.array_equal(found[0], X)
    assert np.array_equal(found[1], y)


def test_pairs_and_blocks_come_through_queues():
    X, y = table(open_stream(PAIRS, classes=(0, 1), hash_features=16))
    found = table(open_stream(given([*PAIRS, None]), classes=(0, 1), hash_features=16))
    assert np.array_equal(found[0], X)
    assert np.array_equal(found[1], y)
    blocks = [(X[i : i + 500], y[i : i + 500]) for i in range(0, len(X), 500)]
    assert np.array_equal(table(open_stream(given([*blocks, None]), classes=(0, 1)))[0], X)


def test_dicts_with_a_named_target_need_no_schema():
    rows = [{"a": i / 8, "y": i % 3 % 2, "b": -i} for i in range(50)]
    stream = open_stream(given([*rows, {"y": 1, "a": 1.0}, None]), target="y", classes=(0, 1))
    assert stream.feature_names == ("a", "b")
    X, y = table(stream)
    assert np.array_equal(X[:50], [[row["a"], row["b"]] for row in rows])
    assert np.array_equal(X[50], [1.0, np.nan], equal_nan=True)
    assert y.tolist() == [row["y"] for row in rows] + [1]
    with pytest.raises(InvalidParameter, match="or target= which says which key is the target"):
        open_stream(given(rows))


def test_no_row_waits_for_others():
    """One at a time: each is a block before the next one comes. Those that wait together are one block."""
    rows = given(ROWS[:1])
    blocks = iter(open_stream(rows, schema=SCHEMA))
    with ThreadPoolExecutor(1) as pool:
        for n in (1, 1, 1, 7):
            found = pool.submit(next, blocks).result(WAIT)
            assert len(found.y) == n
            for row in ROWS[: 7 if found.first_row == 3 else 1]:
                rows.put(row)
        rows.put(None)


def test_a_pause_is_said_before_the_queue_is_waited_for():
    """Otherwise rows that have come would wait in a block that is not full."""
    rows = QueueRows(given([*ROWS[:3], None]))
    kinds = {"age": "number", "ward": "text"}
    first, pause = DictColumns(next(rows), rows, rows).batches(kinds, 65536, lambda _: None)
    assert (first.num_rows, pause) == (3, None)
    pairs = QueueRows(given([*PAIRS[:3], None]))
    source = open_reader(pairs, Options(labels=Labels((0, 1), None)))
    first, pause = source.pieces(65536, lambda _: None)
    assert (first.X.shape[0], pause) == (3, PAUSE)


@pytest.mark.parametrize("queued", [True, False])
def test_rows_that_teach_do_not_wait_for_others(queued):
    """The rows behind those that teach come when they are there, whether a queue or the caller's own iterator has them.

    Each row is asked for only when all before it have been passed on, which an iterator can tell.
    """
    encoder = PrivateEncoder(epsilon=8.0, n_rows=3000, random_state=0)
    passed, early = [0], []

    def own():
        for i, row in enumerate(ROWS):
            early.append(i - passed[0])
            yield row

    rows = own()
    data = given(ROWS[:1]) if queued else rows
    feeder = threading.Thread(target=lambda: [data.put(row) for row in [*ROWS[1:], None]] if queued else None)
    feeder.start()
    stream = open_stream(data, target="ill", schema=encoder, block_rows=1)
    taught = encoder.plan_.rows
    passed[0] = taught
    for block in stream:
        assert len(block.y) == 1
        passed[0] += 1
    feeder.join()
    assert passed[0] == 3000
    assert queued or max(early[taught + 1 :]) == 0
    again = table(open_stream(ROWS, schema=encoder.schema_, first_row=taught + 1))
    assert len(again[1]) == 3000 - taught


def test_an_exception_in_the_queue_comes_behind_the_rows_before_it():
    rows = QueueRows(given([1, 2, ValueError("no more"), 3]))
    assert next(rows) == 1
    assert rows.ready(9) == [2]
    assert rows.ready(9) == []
    for _ in range(2):
        with pytest.raises(ValueError, match="no more"):
            next(rows)
    for n in (5, DICT_ROWS, 2 * DICT_ROWS):  # which fill no block
        stream = open_stream(given([*islice(cycle(ROWS), n), OSError("the meter is gone")]), schema=SCHEMA)
        seen = []
        with pytest.raises(OSError, match="the meter is gone"):
            seen.extend(len(block.y) for block in stream)
        assert sum(seen) == n


def test_bad_rows_of_a_queue_are_named():
    with pytest.raises(StreamError, match="row 2: found an element of type int, allowed is a dict"):
        list(open_stream(given([ROWS[0], 7, None]), schema=SCHEMA))
    with pytest.raises(StreamError, match="no rows, at least one is needed"):
        open_stream(given([None]), schema=SCHEMA)
    with pytest.raises(InvalidParameter, match="a queue of asyncio"):
        open_stream(asyncio.Queue(), schema=SCHEMA)
