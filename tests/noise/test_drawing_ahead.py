"""Samplers draw words ahead of their use: calls of any sizes give the same values, and no word is used twice.

The page is docs/proofs/bits.md.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading

import numpy as np
import pytest
import warm
from ciphers import FAILURES, watch
from hypothesis import given
from hypothesis import strategies as st
from patience import WAIT
from sampler_tools import INTEGERS, LAWS, SEED, VECTORS, half_way, integers, make
from twins_noise import AtRow, ideal_vector, to_boundary

from privol._core._discrete import IntegerSampler
from privol._core._sampler import LatticeSampler
from privol._core._vectors import VectorSampler
from privol.errors import SourceFailure, StateError
from privol.noise import (
    STREAM_INTEGERS,
    STREAM_SAMPLES,
    DiscreteGaussian,
    Gaussian,
    L2Laplace,
    _lattice,
    decide_mixture_point,
    make_source,
)

pytestmark = pytest.mark.process

ROW = 4096


def values(n, law="gaussian", x=None):
    """The first n values of the seed's noise in one call, added to x."""
    noise = LAWS[law](scale=1.0, random_state=SEED)
    return noise.sample(n) if x is None else noise.add(x)


def blocks(watched):
    """Level-0 addresses in the order of encryption, as numbers of the first value of each."""
    for _, address in watched.addresses:
        assert address[:4] == STREAM_SAMPLES.to_bytes(2, "little") + b"\0\0"
    return [2 * int.from_bytes(a[4:8], "little") + ROW * int.from_bytes(a[8:], "little") for _, a in watched.addresses]


# ---- chunks ------------------------------------------------------------------------------------------------------

edges = st.sampled_from([0, 1, 2, 3, 63, 64, 65, 127, 129, 1000, 4031, 4032, 4095, 4096, 4097, 8191, 8192, 9000])
calls = st.lists(st.tuples(st.booleans(), edges | st.integers(0, 300) | st.integers(0, 9000)), max_size=25)


@pytest.mark.parametrize("law", LAWS)
@given(calls=calls)
def test_calls_of_any_sizes_give_the_same_values(law, calls):
    """Samples and sums, through refills and across rows, equal those of one call."""
    noise, total = LAWS[law](scale=1.0, random_state=SEED), sum(size for _, size in calls)
    x, found, drawn = np.linspace(-30, 1e5, total), [], 0
    for added, size in calls:
        part = slice(drawn, drawn + size)
        if not added:
            x[part] = 0.0
        found.append(noise.add(x[part]) if added else noise.sample(size))
        drawn += size
        row, coordinate = noise._place
        assert ROW * row + coordinate == drawn
    np.testing.assert_array_equal(np.concatenate([np.empty(0), *found]), values(total, law, x))


def test_every_block_is_encrypted_once_and_few_at_first(monkeypatch):
    watched = watch(monkeypatch)
    noise = Gaussian(scale=1.0)
    encrypted = []
    for _ in range(3 * ROW):
        noise.sample(1)
        encrypted.append(2 * len(watched.addresses))
    assert blocks(watched) == list(range(0, 3 * ROW, 2))
    assert encrypted[0] == 64
    assert all(words <= max(64, 3 * drawn) for drawn, words in enumerate(encrypted, 1))
    assert len(watched.outputs) <= 7 + 2  # doubling within the first row, then a row at a time
    noise.sample((5, 1001))
    noise.add(np.zeros(ROW + 1))
    assert len(set(blocks(watched))) == len(watched.addresses)


# ---- words are wiped ---------------------------------------------------------------------------------------------


def memory(watched, first, last):
    """The words now in memory that the cipher wrote from one of its calls to another."""
    return np.frombuffer(b"".join(watched.output(k) for k in range(first, last)), np.uint64)


def test_used_words_are_wiped_and_the_others_wait(monkeypatch):
    watched = watch(monkeypatch)
    noise = Gaussian(scale=1.0, random_state=SEED)
    for size in (1, 5, 58, 1, 100, 800, 3000):
        noise.sample(size)
        _, at = noise._place
        words = memory(watched, 0, len(watched.outputs))
        assert len(words) >= at
        assert not words[:at].any()
        assert words[at:].all()
    noise.add(np.zeros(300))  # continues into the next row
    head, tail = len(watched.outputs) - 1, noise._place[1]
    assert noise._place[0] == 1
    words = memory(watched, head, head + 1)
    assert not words[:tail].any()
    assert words[tail:].all()


def test_words_of_whole_rows_are_wiped(monkeypatch):
    """Observed in the last resort for a coordinate of the second row, while the call still owns the memory."""
    seen = []

    def decide(word, extra, *arguments, **named):
        seen.append([any(watched.output(k)) for k in range(2)])
        return 0.0

    twin, x = make_source(SEED), np.zeros(2 * ROW)
    x[ROW : ROW + 5] = half_way(twin, ROW)
    monkeypatch.setattr(_lattice, "decide_lattice_point", decide)
    watched = watch(monkeypatch)
    Gaussian(scale=1.0, random_state=SEED).add(x)
    assert [length for _, length in watched.outputs[:2]] == [8 * ROW] * 2
    assert seen
    assert not np.any(seen)


# ---- what fails --------------------------------------------------------------------------------------------------


def interrupts(real, data, out):
    real.update_into(data, out)
    raise KeyboardInterrupt


def fails_at(k, how):
    """A cipher that fails at its k-th call from now."""
    count = iter(range(k + 1))

    def fail(real, data, out):
        return how(real, data, out) if next(count, None) == k else real.update_into(data, out)

    return fail


@pytest.mark.parametrize("how", [*FAILURES, interrupts], ids=lambda how: how.__name__)
@pytest.mark.parametrize(
    ("before", "size", "k", "after"),
    [
        ([], 9, 0, 1),  # the first words; the rest of the row is dropped
        ([10], 100, 0, 1),  # a refill, with words left from before
        ([1], 5000, 0, 1),
        ([ROW], 5, 0, 2),  # the first words of the second row
        ([], 5000, 1, 2),
        ([ROW], 2 * ROW, 0, 3),  # whole rows: all rows of the call count as used
        ([ROW - 7], 2 * ROW + 7, 2, 3),
    ],
)
def test_no_word_serves_twice_after_a_failure(how, before, size, k, after, monkeypatch):
    expected = values(5 * ROW)
    watched = watch(monkeypatch)
    noise = Gaussian(scale=1.0, random_state=SEED)
    for drawn in before:
        noise.sample(drawn)
    watched.fail = fails_at(k, how)
    with pytest.raises((SourceFailure, RuntimeError, KeyboardInterrupt)):
        noise.sample(size)
    if after < 3:  # the memory is the sampler's, not the call's
        assert not memory(watched, 0, len(watched.outputs)).any()
    watched.fail = None
    for start in (0, 70):
        np.testing.assert_array_equal(noise.sample(70), expected[after * ROW + start :][:70])
    assert len(set(blocks(watched))) == len(watched.addresses)


def test_an_interrupt_while_digits_are_read_uses_the_words_up(monkeypatch):
    def decide(*arguments, **named):
        raise KeyboardInterrupt

    twin = make_source(SEED)
    real, expected = _lattice.decide_lattice_point, values(2 * ROW)
    watched = watch(monkeypatch)
    for start in (0, 100, ROW - 2):  # the last one crosses the end of a row
        watched.outputs.clear()
        noise = Gaussian(scale=1.0, random_state=SEED)
        noise.sample(start)
        monkeypatch.setattr(_lattice, "decide_lattice_point", decide)
        with pytest.raises(KeyboardInterrupt):
            noise.add(half_way(twin, start))
        monkeypatch.setattr(_lattice, "decide_lattice_point", real)
        used = 3 if start == ROW - 2 else start + 5  # of the row in memory
        assert not memory(watched, 0, len(watched.outputs))[:used].any()
        np.testing.assert_array_equal(noise.sample(50), expected[start + 5 :][:50])


def test_reentrant_drawing_is_refused(monkeypatch):
    """A finaliser that the garbage collector runs in the cipher might do this: neither deadlock nor the same words."""
    watched = watch(monkeypatch)
    noise, drawn, expected = Gaussian(scale=1.0, random_state=SEED), [], values(600)

    def again(real, data, out):
        with pytest.raises(StateError, match="busy"):
            noise.sample(1)
        drawn.append(True)
        return real.update_into(data, out)

    watched.fail = again
    np.testing.assert_array_equal(noise.sample(500), expected[:500])
    assert drawn
    watched.fail = None
    np.testing.assert_array_equal(noise.sample(100), expected[500:])


@pytest.mark.parametrize("kind", [Gaussian, DiscreteGaussian])
def test_the_garbage_collector_may_draw_anywhere(kind):
    """In a child, because a lock that waits for its own thread waits for ever, and no signal ends that."""
    code = f"""
import faulthandler, gc
import numpy as np
from privol.errors import StateError
from privol.noise import {kind.__name__}
faulthandler.dump_traceback_later(60, exit=True)

class Drawing:
    def __init__(self):
        self.cycle = self

    def __del__(self):
        try:
            values.append(noise.sample(size))
        except StateError:
            refused.append(True)

for size in (10, {ROW}, {3 * ROW}):
    noise, values, refused = {kind.__name__}(scale=100.0, random_state={SEED}), [], []
    for threshold in range(1, 60):
        gc.collect()
        gc.disable()
        Drawing()
        gc.set_threshold(threshold)
        gc.enable()
        values.append(noise.sample(20 * {ROW}))
        gc.disable()
    gc.collect()
    found = np.concatenate(values)
    everything = {kind.__name__}(scale=100.0, random_state={SEED}).sample(len(found))
    print(np.array_equal(np.sort(found), np.sort(everything)), len(values) + len(refused))
"""
    result = warm.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=WAIT)
    assert (result.stdout, result.stderr) == ("True 118\n" * 3, "")


def test_a_sampler_is_started_once():
    with pytest.raises(StateError, match="never started"):
        Gaussian.__new__(Gaussian).sample(3)
    noise = Gaussian(scale=1.0)
    with pytest.raises(StateError, match="twice"):
        noise.__init__(scale=1.0)
    with pytest.raises(SourceFailure, match="stream 65536"):
        LatticeSampler(make_source(None), law="gaussian", scale=1.0, stream=1 << 16)


# ---- vectors -----------------------------------------------------------------------------------------------------


def vectors(n, dim, kind="l2_laplace", x=None):
    """The first n vectors of the seed's noise, added to x, in one call that is too long for words drawn ahead."""
    noise, found = VECTORS[kind](scale=1.0, dim=dim, random_state=SEED), np.empty((n, dim))
    x = np.zeros((n, dim)) if x is None else x
    noise.source.add_mixture(
        x, 1.0, noise.granularity, kind=kind, bound=1e9, stream=STREAM_SAMPLES, row=0, decide=decide_mixture_point,
        out=found,
    )  # fmt: skip
    return found


@pytest.mark.parametrize(("kind", "dim"), [("l2_laplace", 1), *((k, d) for k in VECTORS for d in (2, 3, 54, 3000))])
@given(calls=st.lists(st.tuples(st.booleans(), st.sampled_from([0, 1, 2, 5, 50, 300])), max_size=12))
def test_calls_for_any_numbers_of_vectors_give_the_same(kind, dim, calls):
    calls = [(added, min(size, 1 + 6000 // dim)) for added, size in calls]
    noise, total = VECTORS[kind](scale=1.0, dim=dim, random_state=SEED), sum(size for _, size in calls)
    x, found, drawn = np.linspace(-30, 1e5, total * dim).reshape(total, dim), [], 0
    for added, size in calls:
        part = slice(drawn, drawn + size)
        if not added:
            x[part] = 0.0
        found.append(noise.add(x[part]) if added else noise.sample(size))
        drawn += size
        assert noise._place == drawn
    np.testing.assert_array_equal(np.concatenate([np.empty((0, dim)), *found]), vectors(total, dim, kind, x))


def rows_of(watched):
    return [int.from_bytes(a[8:], "little") for _, a in watched.addresses]


@pytest.mark.parametrize("dim", [1, 10, 54])
def test_words_of_vectors_are_drawn_once_and_wiped(dim, monkeypatch):
    watched = watch(monkeypatch)
    noise = L2Laplace(scale=1.0, dim=dim)
    pairs = (dim + (dim + 1) // 2 + (dim % 2 == 0) + 1) // 2  # pairs of words per vector
    assert not watched.addresses
    for drawn in range(1, 300):
        noise.sample(())
        rows = rows_of(watched)
        assert len(rows) <= max(pairs, 32, 4 * drawn * pairs)
        words = memory(watched, len(watched.outputs) - 1, len(watched.outputs)).reshape(-1, 2 * pairs)
        used = drawn - rows[-1] - 1 + len(words)  # of the vectors in memory
        assert not words[:used].any()
        assert words[used:].all()
    noise.sample(5000)  # the remaining words, then the call's own
    noise.sample(3)
    assert len(set(watched.addresses)) == len(watched.addresses)
    assert rows_of(watched)[::pairs][: noise._place] == list(range(noise._place))


@pytest.mark.parametrize("how", [*FAILURES, interrupts], ids=lambda how: how.__name__)
@pytest.mark.parametrize(("before", "size"), [(0, 1), (1, 1), (3, 30), (3, 5000)])
def test_no_vector_serves_twice_after_a_failure(how, before, size, monkeypatch):
    """The rows whose encryption failed count as used, and so do those of the call."""
    expected = vectors(12_000, 20)
    watched = watch(monkeypatch)
    noise = L2Laplace(scale=1.0, dim=20, random_state=SEED)
    noise.sample(before)
    noise.sample(3)  # some remaining words, or none
    watched.fail = fails_at(0, how)
    with pytest.raises((SourceFailure, RuntimeError, KeyboardInterrupt)):  # once the remaining words are used
        any(noise.sample(size) is None for _ in range(100))
    if size < 5000:  # the memory is the sampler's, not the call's
        assert not any(watched.output())
    watched.fail = None
    at = noise._place
    assert at >= before + 3 + size
    np.testing.assert_array_equal(np.concatenate([noise.sample(1), noise.sample(60)]), expected[at : at + 61])
    assert len(set(watched.addresses)) == len(watched.addresses)


def test_an_interrupt_while_digits_of_vectors_are_read(monkeypatch):
    def decide(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("privol.noise._vectors.decide_mixture_point", decide)
    expected = vectors(400, 3)
    watched = watch(monkeypatch)
    noise = L2Laplace(scale=1.0, dim=3, random_state=SEED)
    x = np.zeros((2, 3))
    at = AtRow(make_source(SEED), STREAM_SAMPLES, 1)
    for j, z in enumerate(ideal_vector("l2_laplace", 3, at.words(5), at)):
        x[1, j] = to_boundary(5.0, 1.0, z, noise.granularity, j)
    watched.outputs.clear()
    with pytest.raises(KeyboardInterrupt):
        noise.add(x)
    assert not memory(watched, 0, 1)[: 2 * 6].any()
    np.testing.assert_array_equal(noise.sample(100), expected[2:102])


def test_vectors_end_with_their_rows():
    last, expected = (1 << 64) - 300, np.empty((300, 3))
    make_source(SEED).add_mixture(
        None, 1.0, 2.0**-9, kind="l2_laplace", bound=0.0, stream=STREAM_SAMPLES, row=last, decide=decide_mixture_point,
        out=expected,
    )  # fmt: skip
    for sizes in ((300,), (1, 299), (10, 200, 90), [1] * 300):
        noise, found = L2Laplace.__new__(L2Laplace), np.empty((0, 3))
        VectorSampler.__init__(
            noise, make_source(SEED), kind="l2_laplace", scale=1.0, step=2.0**-9, dim=3, stream=STREAM_SAMPLES, row=last
        )
        for size in sizes:
            with pytest.raises(SourceFailure, match="used up"):
                noise.sample(301 - len(found))
            found = np.concatenate([found, noise.sample(size)])
        np.testing.assert_array_equal(found, expected)
        for size in (1, 10_000):
            with pytest.raises(SourceFailure, match="used up"):
                noise.sample(size)
        assert noise._place == 1 << 64


# ---- integers ----------------------------------------------------------------------------------------------------

MANY = 1 << 16  # values of an address row


def whole_rows(name, rows):
    """Values from one kernel call per row, with all words fetched again."""
    noise, found = integers(name), np.zeros((rows, MANY), np.int64)
    for row in range(rows):
        noise._law.add(found[row], noise.source, stream=STREAM_INTEGERS, row=row, decide=noise._decide)
    return found.ravel()


@pytest.fixture(scope="module", params=INTEGERS)
def drawn_whole(request):
    return request.param, whole_rows(request.param, 5)


sizes = st.sampled_from([0, 1, 2, 7, 31, 33, 100, 4000, MANY - 1, MANY, MANY + 1])


@given(calls=st.lists(st.tuples(st.booleans(), sizes), max_size=12))
def test_calls_for_any_numbers_of_integers_give_the_same(drawn_whole, calls):
    name, expected = drawn_whole
    noise, drawn = integers(name), 0
    for added, size in calls:
        if drawn + size > len(expected):
            break
        x = np.arange(size) - 50
        found = noise.add(x) - x if added else noise.sample(size)
        np.testing.assert_array_equal(found, expected[drawn : drawn + size])
        drawn += size
        row, count = noise._place
        assert MANY * row + count == drawn


@pytest.mark.parametrize("name", INTEGERS)
def test_words_of_integers_are_drawn_once_and_wiped(name, monkeypatch):
    """Used words are zeros; the others wait, and move to the front when more are fetched."""
    twin, drawn = make_source(SEED), 0
    pairs = [twin.words(stream=STREAM_INTEGERS, level=0, block=j, row=0) for j in range(12_000)]
    words = np.array(pairs, dtype=np.uint64).ravel()
    watched = watch(monkeypatch)
    noise = integers(name)
    for size in (1, 5, 10, 100, 1000, 3000, 3):
        noise.sample(size)
        drawn += size
        used = noise._law.add_scripted(np.zeros(drawn, np.int64), words, noise._decide, capacity=1 << 20)
        fetched = 2 * len(watched.addresses)
        assert used <= fetched <= 64 + 4 * used
        start, (at, length) = watched.outputs[0][0], watched.outputs[-1]
        stop = max(where + size for where, size in watched.outputs)
        held = np.frombuffer(ctypes.string_at(start, stop - start), np.uint64).copy()
        end = (at + length - start) // 8
        left = held[end - (fetched - used) : end]
        np.testing.assert_array_equal(left, words[used:fetched])
        left[:] = 0
        assert not held.any()
    noise.sample(3 * MANY)
    assert len(set(watched.addresses)) == len(watched.addresses)


@pytest.mark.parametrize("how", [*FAILURES, interrupts], ids=lambda how: how.__name__)
@pytest.mark.parametrize(
    ("before", "size", "k", "row"), [(0, 1, 0, 1), (9, 900, 0, 1), (MANY - 5, 6, 0, 2), (MANY, 2 * MANY, 1, 3)]
)
def test_no_integer_serves_twice_after_a_failure(how, before, size, k, row, drawn_whole, monkeypatch):
    """The row in which the cipher failed counts as used, and so do those of the call."""
    name, expected = drawn_whole
    watched = watch(monkeypatch)
    noise = integers(name)
    noise.sample(before)
    watched.fail = fails_at(k, how)
    with pytest.raises((SourceFailure, RuntimeError, KeyboardInterrupt)):
        noise.sample(size)
    watched.fail = None
    np.testing.assert_array_equal(noise.sample(70), expected[MANY * row :][:70])
    assert len(set(watched.addresses)) == len(watched.addresses)


def test_integers_end_with_their_rows():
    noise, law = DiscreteGaussian.__new__(DiscreteGaussian), integers("gaussian 5")._law
    IntegerSampler.__init__(noise, make_source(SEED), law, stream=STREAM_INTEGERS, row=(1 << 64) - 1)
    noise.sample(6)
    with pytest.raises(SourceFailure, match="used up"):
        noise.sample(MANY - 5)
    noise.sample(MANY - 6)
    for size in (1, MANY, 3 * MANY):
        with pytest.raises(SourceFailure, match="used up"):
            noise.sample(size)


# ---- forks and threads -------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("name", [*LAWS, *VECTORS, *INTEGERS])
def test_words_left_over_are_not_used_in_a_forked_child(name):
    noise, expected = make(name), make(name).sample(100)
    np.testing.assert_array_equal(noise.sample(3), expected[:3])  # memory holds words for more values
    zeros = np.zeros_like(expected)
    child = os.fork()
    if child == 0:
        refused = 0
        for action in (noise.sample, lambda size: noise.add(zeros[:size])):
            for size in (0, 1, 5, 50):
                try:
                    action(size)
                except SourceFailure as error:
                    refused += "forked" in str(error)
                except BaseException:
                    pass
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 8
    np.testing.assert_array_equal(noise.sample(97), expected[3:])


@pytest.mark.parametrize("name", ["gaussian", "l2_laplace", "laplace 900"])
def test_threads_share_the_values_of_one(name):
    """Simultaneous calls of all sizes: together what one call draws, so nothing is repeated or skipped."""
    noise, drawn, errors, calls = make(name), [], [], 60 if name in VECTORS else 240
    sizes = (1, 1, 2, 3, 50, 1, 700, 4096, 7, 9001, 1, 2048)
    zeros = np.zeros_like(make(name).sample(9001))

    def work(k):
        try:
            for i in range(calls):
                size = sizes[(i + k) % len(sizes)]
                drawn.append(noise.sample(size) if (i + k) % 3 else noise.add(zeros[:size]))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
        assert not thread.is_alive(), "deadlock"
    assert not errors
    found = np.concatenate(drawn)
    assert len(found) == 4 * calls // 12 * sum(sizes)
    expected = make(name).sample(len(found))
    if name in VECTORS:  # each vector counts as one
        found, expected = (np.ascontiguousarray(v).view([("", float)] * 3).ravel() for v in (found, expected))
    np.testing.assert_array_equal(np.sort(found), np.sort(expected))
