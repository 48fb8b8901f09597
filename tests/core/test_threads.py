"""Several threads: encoded rows and models do not depend on their number."""

from __future__ import annotations

import os
import threading

import numpy as np
import pyarrow
import pytest
import scipy.sparse as sp

from privol import _threads, open_stream
from privol._threads import each
from privol.encoding import PrivateEncoder
from privol.encoding.columns_to_rows import table_of


@pytest.fixture
def threads(monkeypatch):
    """Set the number of threads, for work of any size."""
    monkeypatch.setattr(_threads, "_ENOUGH", 0)
    return lambda n: monkeypatch.setattr(_threads, "_limit", n)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_results_are_in_the_order_of_the_items(threads, n):
    threads(n)
    lock = threading.Barrier(n)

    def work(item):
        if item < n:
            lock.wait(10)  # this many run at the same time, or the test fails
        return item * item

    assert each(work, list(range(50)), cells=1) == [i * i for i in range(50)]
    assert each(work, [], cells=1) == []


def test_small_jobs_run_in_the_caller(monkeypatch):
    monkeypatch.setattr(_threads, "_limit", 4)
    here = threading.get_ident()
    assert each(lambda _: threading.get_ident(), range(9), cells=_threads._ENOUGH - 1) == [here] * 9


def test_the_first_failing_item_is_reported(threads):
    threads(3)
    lock = threading.Barrier(3)

    def work(item):
        lock.wait(10)
        raise ValueError(item)

    with pytest.raises(ValueError, match=r"^0$"):
        each(work, [0, 1, 2], cells=1)
    assert each(str, [0, 1, 2], cells=1) == ["0", "1", "2"]


def test_work_within_work_waits_for_nobody(threads):
    threads(8)
    found = each(lambda i: sum(each(lambda j: i * j, range(20), cells=1)), range(40), cells=1)
    assert found == [190 * i for i in range(40)]


def test_work_has_the_context_of_its_caller(threads):
    threads(2)
    lock = threading.Barrier(2)

    def work(_):
        lock.wait(10)
        return np.geterr()["divide"]

    with np.errstate(divide="raise"):
        assert each(work, [0, 1], cells=1) == ["raise"] * 2


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_has_threads_of_its_own(threads):
    threads(3)
    each(str, range(9), cells=1)
    pid = os.fork()
    if not pid:  # pragma: no cover
        lock, failed = threading.Barrier(3), 1
        try:
            failed = each(lambda _: lock.wait(10) >= 0, range(3), cells=1) != [True] * 3
        finally:
            os._exit(failed)
    assert os.waitpid(pid, 0)[1] == 0


def test_there_are_at_most_as_many_threads_as_in_arrow():
    before = pyarrow.cpu_count()
    try:
        pyarrow.set_cpu_count(1)
        assert _threads.threads() == 1
    finally:
        pyarrow.set_cpu_count(before)


@pytest.mark.parametrize("rows", [0, 1, 7, 1000])
def test_columns_become_rows(threads, rows):
    threads(3)
    columns = [np.random.default_rng(k).normal(size=rows) for k in range(5)]
    found = np.full((rows, 6), -7.0)
    table_of(columns, found[:, 1:])
    np.testing.assert_array_equal(found[:, 0], -7.0)
    np.testing.assert_array_equal(found[:, 1:], np.stack(columns, axis=1))


def table(n=4000):
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=n)
    return pyarrow.table(
        {
            "number": pyarrow.array(numbers, mask=rng.random(n) < 0.1),
            "text": [f"{x:.3f}" if x > -2 else "?" for x in rng.normal(size=n)],
            "kind": rng.choice(["red", "green", "blue"], n),
            "name": [f"n{k}" for k in (400 * rng.random(n) ** 3).astype(int)],
            "seen": pyarrow.array(rng.integers(10**9, 2 * 10**9, n).astype("datetime64[s]")),
            "outcome": np.where(numbers + rng.normal(size=n) > 0, "yes", "no"),
        }
    )


def bits(rows):
    parts = (rows.data, rows.indices, rows.indptr) if sp.issparse(rows) else (np.ascontiguousarray(rows),)
    return [part.tobytes() for part in parts]


@pytest.mark.parametrize("words", [{}, {"numeric": "spline"}, {"crosses": [("kind", "name"), ("number", "seen")]}])
def test_any_number_of_threads_gives_the_same_bits(threads, monkeypatch, words):
    """Both releases and encoded rows have the same bits, dense or sparse; rows are written a few at a time."""
    monkeypatch.setattr("privol.encoding.encode.NEAR_CELLS", 1 << 12)
    found = []
    for n in (1, 2, 5):
        threads(n)
        encoder = PrivateEncoder(epsilon=8.0, random_state=1, **words)
        stream = open_stream(table(), target="outcome", schema=encoder)
        found.append((repr(stream.schema), [bits(block.X) + bits(block.y) for block in stream]))
    assert found[1] == found[0]
    assert found[2] == found[0]
