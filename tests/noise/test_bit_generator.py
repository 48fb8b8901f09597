"""NumPy on privol's bits: a real bit generator whose failures raise exceptions or end the process, never give words."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
from ciphers import watch

from privol._core._bitgen import KeyedBitGenerator, Keystream
from privol.errors import InvalidParameter, SourceFailure, StateError
from privol.noise import STREAM_GENERATOR, BitGenerator, Source, make_source

pytestmark = pytest.mark.process

ROW = 8192  # words drawn at a time


def words(seed, n):
    """The first words of a seed's stream, address by address."""
    source = make_source(seed)
    pairs = (
        source.words(stream=STREAM_GENERATOR, level=0, block=k % (ROW // 2), row=k // (ROW // 2)) for k in range(n // 2)
    )
    return np.array([word for pair in pairs for word in pair], dtype=np.uint64)


def test_words_are_those_of_the_addresses():
    expected = words(3, 2 * ROW + 100)
    np.testing.assert_array_equal(BitGenerator(3).random_raw(len(expected)), expected)
    bits = BitGenerator(3)
    parts = [bits.random_raw(n) for n in (1, 5, 8000, 500, 7978)]
    np.testing.assert_array_equal(np.concatenate(parts), expected)


def test_values_are_those_of_the_words():
    """The other two functions of the interface: doubles from the upper 53 bits, 32-bit words in stream order."""
    expected = words(3, 2 * ROW)
    np.testing.assert_array_equal(np.random.Generator(BitGenerator(3)).random(2 * ROW), (expected >> 11) * 2.0**-53)
    halves = np.random.Generator(BitGenerator(3)).integers(0, 1 << 32, 4 * ROW, dtype=np.uint32)
    np.testing.assert_array_equal(halves, expected.astype("<u8").view("<u4"))
    bits = BitGenerator(3)
    interface = bits.ctypes
    assert interface.next_uint64(interface.state_address) == expected[0]  # without the lock, as in Numba


def test_numpy_accepts_the_bit_generator():
    bits = BitGenerator()
    assert isinstance(bits, np.random.BitGenerator)
    assert np.random.default_rng(bits).bit_generator is bits
    rng = np.random.Generator(bits)
    assert sorted(rng.permutation(1000)) == list(range(1000))
    assert rng.normal(size=(2, 3)).shape == (2, 3)
    assert len(rng.bytes(33)) == 33
    assert np.random.RandomState(bits).randint(5) in range(5)
    assert bits.private
    assert "operating system" in bits.description
    assert "seed" in repr(BitGenerator(1))
    assert not BitGenerator(1).private


def test_seeds():
    for seed in (3, np.random.PCG64(3), np.random.default_rng(3)):
        assert BitGenerator(seed).random_raw() == BitGenerator(3).random_raw()
    assert BitGenerator(3).random_raw() != BitGenerator(4).random_raw()
    assert len({int(BitGenerator().random_raw()) for _ in range(20)}) == 20
    with pytest.raises(InvalidParameter, match="random_state"):
        BitGenerator("seed")


def test_children_have_streams_of_their_own():
    for parent in (BitGenerator(), BitGenerator(3)):
        rng = np.random.Generator(parent)
        rngs = [rng, *rng.spawn(3), *rng.spawn(3)]
        rngs += rngs[1].spawn(2)
        assert len({rng.bytes(32) for rng in rngs}) == len(rngs)
        assert all(rng.bit_generator.private is parent.private for rng in rngs)
        assert all(type(child) is BitGenerator for child in parent.spawn(2))
    first, second = (BitGenerator(3).spawn(2) for _ in range(2))
    assert [int(bits.random_raw()) for bits in first] == [int(bits.random_raw()) for bits in second]
    assert BitGenerator().spawn(0) == []
    with pytest.raises(InvalidParameter, match="n_children"):
        BitGenerator().spawn(-1)


def test_the_stream_cannot_be_rewound():
    """No state, no jumps, no second start: nothing leads back to words drawn before. For copies see test_no_repeats."""
    bits = BitGenerator(3)
    with pytest.raises(StateError, match="secret"):
        _ = bits.state
    for state in ({}, np.random.PCG64(3).state):
        with pytest.raises(StateError, match="set back"):
            bits.state = state
        with pytest.raises(StateError):
            bits.__setstate__(state)
    for method in ("jumped", "advance"):
        assert not hasattr(bits, method)
    with pytest.raises(StateError, match="twice"):
        bits.__init__(3)
    with pytest.raises(StateError, match="twice"):
        bits.lock.__init__(make_source(3), 0, 0)
    with pytest.raises(AttributeError):
        bits.lock = threading.RLock()
    with pytest.raises(NotImplementedError):
        bits.seed_seq.generate_state(4)  # no seed that could make a twin


def test_core_parameters():
    source = Source(bytes(32), private=False, description="test")
    for stream, row in ((1 << 16, 0), (-1, 0), (0, -1), (0, 1 << 64)):
        with pytest.raises((SourceFailure, OverflowError)):
            Keystream(source, stream, row)
    one, two = (KeyedBitGenerator(source, stream=stream) for stream in (7, 8))
    assert one.random_raw() != two.random_raw()


def test_a_numpy_with_other_bit_generators_is_refused(monkeypatch):
    monkeypatch.setattr("privol.noise._generator.fits_numpy", lambda: False)
    with pytest.raises(SourceFailure, match="install it again"):
        BitGenerator()


# ---- the lock ---------------------------------------------------------------------------------------------


def test_the_lock_is_reentrant():
    bits = BitGenerator()
    with bits.lock, bits.lock:
        bits.random_raw(3)
        assert bits.lock.acquire(False)
        bits.lock.release()
        taken = []
        thread = threading.Thread(target=lambda: taken.append(bits.lock.acquire(False)))
        thread.start()
        thread.join()
        assert taken == [False]
    with pytest.raises(RuntimeError):
        bits.lock.release()


def test_the_lock_is_released_after_a_refusal(monkeypatch):
    watched = watch(monkeypatch)
    bits = BitGenerator(3)
    watched.fail = lambda real, data, out: 0
    with pytest.raises(SourceFailure, match="cipher"):
        bits.random_raw()
    watched.fail = None
    drawn = []
    thread = threading.Thread(target=lambda: drawn.append(bits.random_raw()))
    thread.start()
    thread.join(20)
    assert drawn


def test_drawing_while_words_are_drawn_is_refused(monkeypatch):
    """A finalizer that the garbage collector runs meanwhile might do this: the lock admits the same thread again."""
    watched = watch(monkeypatch)
    rng, refused = np.random.Generator(BitGenerator(3)), []

    def reentrant(real, data, out):
        try:
            rng.random()
        except StateError as error:
            refused.append(str(error))
        return real.update_into(data, out)

    watched.fail = reentrant
    assert rng.random() == float(words(3, 2)[0] >> np.uint64(11)) * 2.0**-53
    assert len(refused) == 1
    assert "busy" in refused[0]


# ---- where no exception can be raised, the process ends ------------------------------------------------------


def outcome(code):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONFAULTHANDLER": "0"}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120, env=environment,
        check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def test_a_cipher_that_fails_within_a_call_ends_the_process():
    status, out, err = outcome("""
        import resource, numpy as np
        from privol._core import _noise
        from privol.noise import BitGenerator
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        real, calls = _noise.Cipher, []
        class Cipher:
            def __init__(self, *args):
                self.real = real(*args).encryptor()
            def encryptor(self):
                return self
            def update_into(self, data, out):
                calls.append(1)
                if len(calls) == 2:
                    raise RuntimeError("the cipher is broken")
                return self.real.update_into(data, out)
        _noise.Cipher = Cipher
        rng = np.random.Generator(BitGenerator())
        print(len(rng.random(8192)), flush=True)
        try:
            print(rng.random(8192), flush=True)   # at the lock: an exception
        except RuntimeError as error:
            print(error, flush=True)
        calls.clear()
        print(rng.random(8193))                   # within the call
    """)
    assert (status, out) == (-signal.SIGABRT, "8192\nthe cipher is broken\n")
    assert "no random words for NumPy" in err
    assert "the cipher is broken" in err


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_that_takes_no_lock_is_ended():
    status, out, err = outcome("""
        import os, resource
        from privol.noise import BitGenerator
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        bits = BitGenerator()
        next_word, state = bits.ctypes.next_uint64, bits.ctypes.state_address
        next_word(state)                       # the rest of the block is in memory, and in the child's
        child = os.fork()
        if child == 0:
            print(next_word(state), flush=True)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        next_word(state)                       # the parent goes on
    """)
    assert (status, out) == (0, f"{-signal.SIGABRT}\n")
    assert "forked" in err
