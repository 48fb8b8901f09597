"""The bit source: every address is used once, missing words raise, used words are overwritten.

The page is docs/proofs/bits.md.
"""

from __future__ import annotations

import math
import os

import numpy as np
import pyarrow
import pytest
from ciphers import FAILURES, breaks, watch
from sampler_tools import half_way

import privol.noise
from privol import PGIGA, PIGD, ObjectivePerturbation, open_stream
from privol._core import _noise
from privol._core._bitgen import KeyedBitGenerator
from privol._core._noise import values_of_words
from privol._core._sampler import LatticeSampler
from privol.encoding import PrivateEncoder
from privol.errors import InvalidParameter, SourceFailure, StateError
from privol.evaluate import PrivateMetrics, progressive
from privol.evaluate._private import noise_std
from privol.ledger import Ledger
from privol.noise import (
    STREAM_GENERATOR,
    STREAM_METRICS,
    STREAM_RELEASES,
    STREAM_SAMPLES,
    BitGenerator,
    DiscreteGaussian,
    Gaussian,
    Source,
    decide_lattice_point,
    granularity,
    make_source,
)
from privol.randomizers import PrivUnit

KEY = bytes(range(32))
STREAMS = {name: getattr(privol.noise, name) for name in privol.noise.__all__ if name.startswith("STREAM_")}


def source_of(key=KEY):
    return Source(key, private=False, description="test")


def rows_of(n, d=3):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n, d))
    return X, (X[:, 0] > 0).astype(int)


def running(rows=20, d=3, **parameters):
    """A learner in the middle of its run."""
    X, y = rows_of(rows, d)
    learner = PIGD(**{"epsilon": 1.0, "horizon": 1000, "release": "all", "random_state": 5} | parameters)
    return learner.partial_fit(X, y, classes=[0, 1])


# ---- no address is used twice -------------------------------------------------------------------------


def test_streams_are_distinct_and_fit_their_field():
    uses = ("RELEASES", "SAMPLES", "METRICS", "GENERATOR", "INTEGERS", "REPORTS")
    assert {f"STREAM_{use}" for use in uses} <= set(STREAMS)
    assert len(set(STREAMS.values())) == len(STREAMS)
    assert all(0 <= stream <= 0xFFFF for stream in STREAMS.values())


def test_all_users_of_one_key_use_different_addresses(monkeypatch):
    """Learners, metrics, samples, reports, NumPy's bits from one seed, hence one key; last resorts included."""

    def decide(word, extra, *arguments, **named):
        drawn = {extra(1), extra(2)}
        assert len(drawn) == 2
        return decide_lattice_point(word, extra, *arguments, **named)

    for module in ("learners._frame", "noise._lattice"):
        monkeypatch.setattr(f"privol.{module}.decide_lattice_point", decide)
    twin = make_source(5)
    watched = watch(monkeypatch)
    X, y = rows_of(900, 41)
    learner = PIGD(epsilon=1e24, horizon=900, release=90, random_state=5, l2=1e3)  # noise so fine that digits run out
    progressive(learner, open_stream((X, y), classes=(0, 1)), private=PrivateMetrics(mu=1.0, windows=5, random_state=5))
    noise = Gaussian(scale=1.0, random_state=5)
    number = 0
    for size in (1, 2, 5000, 4096, 10_000):
        noise.sample(size)
        noise.add(half_way(twin, number + size))
        number += size + 5
    np.random.Generator(BitGenerator(5)).normal(size=20_000)
    integers = DiscreteGaussian(scale=50, random_state=5)
    for size in (1, 70_000):
        integers.sample(size)
    device = PrivUnit(dim=3, epsilon=2.0, random_state=5)
    for size in (1, 1, 4000, 7):
        device.privatize(np.ones((size, 3)))
    ObjectivePerturbation(delta=0.0, random_state=5).fit(
        X, y
    )  # the random term, and the release of row 1, which PIGD does not have
    named = pyarrow.table({"a": X[:, 0], "b": X[:, 1], "y": np.where(y > 0, "yes", "no")})
    open_stream(named, target="y", schema=PrivateEncoder(epsilon=30.0, random_state=5))
    assert len({key for key, _ in watched.addresses}) == 1
    seen = [address for _, address in watched.addresses]
    assert {int.from_bytes(a[:2], "little") for a in seen} == set(STREAMS.values())
    for stream in (STREAM_RELEASES, STREAM_SAMPLES):
        assert any(a[:4] == stream.to_bytes(2, "little") + b"\2\0" for a in seen), "no coordinate was undecided"
    assert len(set(seen)) == len(seen)


def test_coordinates_of_a_wide_row_share_no_words(monkeypatch):
    """Block numbers have 32 bits: blocks 2^16 apart and coordinates 2^17 apart have different words."""
    watched = watch(monkeypatch)
    d = (1 << 17) + 6
    found = source_of().add(np.zeros(d), 1.0, stream=STREAM_RELEASES, row=7, decide=decide_lattice_point)
    seen = np.frombuffer(b"".join(address for _, address in watched.addresses if address[2:4] == b"\0\0"), np.uint64)
    np.testing.assert_array_equal(np.unique(seen[0::2] >> np.uint64(32)), np.arange((d + 1) // 2))
    words = [source_of().words(stream=STREAM_RELEASES, level=0, block=(1 << 16) + k, row=7) for k in range(3)]
    z, _ = values_of_words(np.array(words, dtype=np.uint64).ravel())
    np.testing.assert_allclose(found[1 << 17 :], z, atol=granularity(1.0))
    assert not np.array_equal(found[:6], found[1 << 17 :])


def test_an_early_last_release_takes_the_place_of_the_planned_one(monkeypatch):
    watched = watch(monkeypatch)
    learner = running(rows=20, release="last")
    assert not watched.addresses
    learner.close()
    assert {int.from_bytes(a[8:], "little") for _, a in watched.addresses} == {20}
    live = running(rows=20, release="all")
    with pytest.raises(StateError, match="released nothing"):  # the noise of row 20 at another scale would cancel
        live._run.state.release_last(1.0, 1.0)


# ---- the noise of a row from the key and its number alone ---------------------------------------------


@pytest.mark.parametrize("cls", [PIGD, PGIGA])
@pytest.mark.parametrize("release", [[2, 3, 40, 77], 11, "all"])
def test_releases_are_regenerated(cls, release):
    """Any release, in any order, from the key, the row's number and the un-noised iterate."""
    X, y = rows_of(80, 6)
    learner = cls(epsilon=1.0, horizon=80, release=release, random_state=5, radius=1e9)  # nothing is projected
    learner.declare_classes([0, 1])
    found, key = {}, b""
    for t in range(1, 81):
        before = learner.n_releases_ if t > 1 else 0
        learner.learn_one(X[t - 1], y[t - 1])
        if t < 80:
            key = learner._run.state.secret_arrays()["key"].tobytes()
        if learner.n_releases_ > before:
            state = learner._run.state
            found[t] = state._secret_iterate(), learner._run.plan.std(t), state.released_model()
    assert len(found) >= 4
    for t in reversed(found):
        iterate, std, released = found[t]
        again = source_of(key).add(iterate, std, stream=STREAM_RELEASES, row=t, decide=decide_lattice_point)
        np.testing.assert_array_equal(again, released)
        other = source_of(key).add(iterate, std, stream=STREAM_RELEASES, row=t + 1, decide=decide_lattice_point)
        assert not np.array_equal(other, released)


def test_an_early_last_release_is_regenerated():
    learner = running(rows=20, release="last", radius=1e9)
    state, plan = learner._run.state, learner._run.plan
    iterate, key = state._secret_iterate(), state.secret_arrays()["key"].tobytes()
    again = source_of(key).add(iterate, plan.last_std(20), stream=STREAM_RELEASES, row=20, decide=decide_lattice_point)
    np.testing.assert_array_equal(learner.close()._run.state.released_model(), again)


def test_samples_are_regenerated():
    """Value number n uses row n // 4096 and coordinate n % 4096, however many values each call took."""
    noise = Gaussian(scale=3.0, random_state=6)
    x = np.linspace(-9, 9, 10_000)
    x[:5] = 0
    found = np.concatenate([noise.sample(5), noise.add(x[5:70]), noise.add(x[70:])])
    for row in (2, 0, 1):
        part = slice(4096 * row, 4096 * (row + 1))
        again = make_source(6).add(x[part], 3.0, stream=STREAM_SAMPLES, row=row, decide=decide_lattice_point)
        np.testing.assert_array_equal(again, found[part])


def test_metrics_are_regenerated():
    X, y = rows_of(700)

    def windows(mu):
        learner = PIGD(epsilon=1.0, horizon=700, release=10, random_state=1)
        private = PrivateMetrics(mu=mu, windows=7, random_state=2)
        found = progressive(learner, open_stream((X, y), classes=(0, 1)), private=private)
        return np.array([[w.first, w.loss] for w in found.private.windows])

    exact, noisy, std = windows(math.inf), windows(1.0), noise_std(1.0, "replace")
    for row in (7, 2, 5):
        again = make_source(2).add(exact[row - 1], std, stream=STREAM_METRICS, row=row, decide=decide_lattice_point)
        np.testing.assert_array_equal(again, noisy[row - 1])


# ---- fails closed: nothing wraps around ---------------------------------------------------------------


@pytest.mark.parametrize(
    "address",
    [{"stream": 1 << 16}, {"stream": 1 << 32}, {"stream": -1}, {"level": 1 << 16}, {"level": -1}, {"block": 1 << 32},
     {"block": -1}, {"row": 1 << 64}, {"row": -1}],
    ids=str,
)  # fmt: skip
def test_addresses_beyond_their_fields_are_refused(address, monkeypatch):
    watched = watch(monkeypatch)
    with pytest.raises((SourceFailure, OverflowError)):
        source_of().words(**{"stream": 0, "level": 0, "block": 0, "row": 0} | address)
    assert not watched.addresses


def test_the_last_addresses_are_used_and_nothing_after_them():
    last = {"stream": 0xFFFF, "level": 0xFFFF, "block": 0xFFFFFFFF, "row": 0xFFFFFFFFFFFFFFFF}
    first = dict.fromkeys(last, 0)
    assert len({source_of().words(**words) for words in (first, last)}) == 2
    x = np.zeros(3)
    for wrong in ({"stream": 1 << 16}, {"row": 1 << 64}):
        with pytest.raises((SourceFailure, OverflowError)):
            source_of().add(x, 1.0, **{"stream": 0, "row": 0} | wrong, decide=decide_lattice_point)


def test_an_undecided_coordinate_never_returns_to_level_0():
    asked = []

    def greedy(word, extra, x, scale, step):
        for level in (1, 0xFFFF, 0x10000):
            asked.append(level)
            extra(level)
        return 0.0

    x = np.full(1, 2.0**60 * granularity(1.0))
    with pytest.raises(SourceFailure, match="level 65536"):
        source_of().add(x, 1.0, stream=0, row=0, decide=greedy)
    assert asked == [1, 0xFFFF, 0x10000]


def test_samples_end_with_their_rows():
    last, zeros = (1 << 64) - 1, np.zeros(4096)
    expected = np.concatenate(
        [
            make_source(1).add(zeros, 1.0, stream=STREAM_SAMPLES, row=row, decide=decide_lattice_point)
            for row in (last - 1, last)
        ]
    )
    for sizes in ((8192,), (4096, 4096), (1, 8191), (4097, 4095), (5, 4000, 4187)):
        noise = Gaussian.__new__(Gaussian)
        LatticeSampler.__init__(noise, make_source(1), law="gaussian", scale=1.0, stream=STREAM_SAMPLES, row=last - 1)
        found = []
        for size in sizes:
            with pytest.raises(SourceFailure, match="used up"):
                noise.sample(8193 - sum(map(len, found)))
            found.append(noise.sample(size))
        np.testing.assert_array_equal(np.concatenate(found), expected)
        for size in (1, 4096, 10_000):
            with pytest.raises(SourceFailure, match="used up"):
                noise.sample(size)
        assert noise.sample(0).size == 0


def test_the_bit_generator_ends_with_its_rows():
    last = (1 << 64) - 2
    bits = KeyedBitGenerator(source_of(), stream=STREAM_GENERATOR, row=last)
    words = bits.random_raw(8192)
    assert tuple(words[:2].tolist()) == source_of().words(stream=STREAM_GENERATOR, level=0, block=0, row=last)
    for _ in range(2):
        with pytest.raises(SourceFailure, match="used up"):
            bits.random_raw(1)


def test_wide_rows_are_refused_before_the_budget_is_touched(monkeypatch):
    learner = PIGD(horizon=10)
    with pytest.raises(InvalidParameter, match="n_features"):
        learner.calibrate(n_features=1 << 32, horizon=10)  # one coordinate too many with the intercept
    assert PIGD(fit_intercept=False).calibrate(n_features=1 << 32, horizon=10).mu > 0
    monkeypatch.setattr("privol.learners._frame.STREAM_RELEASES", 1 << 16)
    ledger = Ledger()
    with pytest.raises(SourceFailure, match="stream 65536"):
        running(ledger=ledger)
    assert not ledger.accounts


# ---- fails closed: no entropy, a broken cipher --------------------------------------------------------


@pytest.mark.parametrize("error", [OSError("no device"), NotImplementedError("no source")])
def test_without_entropy_no_run_begins(error, monkeypatch, system_keys):
    def urandom(n):
        raise error

    ledger = Ledger()
    learner = PIGD(horizon=10, release="all", ledger=ledger)
    monkeypatch.setattr(os, "urandom", urandom)
    for action in (make_source, lambda: Gaussian(scale=1.0), BitGenerator, lambda: learner.fit(*rows_of(9))):
        with pytest.raises(SourceFailure, match="no entropy"):
            action()
    assert not ledger.accounts
    assert "_run" not in vars(learner)


def test_a_short_key_is_refused(monkeypatch, system_keys):
    monkeypatch.setattr(os, "urandom", lambda n: b"x" * (n - 1))
    for action in (make_source, lambda: Gaussian(scale=1.0), BitGenerator):
        with pytest.raises(ValueError, match="key must have 32 bytes, found 31"):
            action()


def test_a_source_is_keyed_once():
    source = source_of()
    with pytest.raises(StateError, match="twice"):
        source.__init__(KEY, private=False, description="test")
    with pytest.raises(SourceFailure, match="closed"):
        Source.__new__(Source).words(stream=0, level=0, block=0, row=0)


@pytest.mark.parametrize("failure", FAILURES)
def test_a_broken_cipher_gives_no_noise(failure, monkeypatch):
    watched = watch(monkeypatch)
    source, noise, bits = source_of(), Gaussian(scale=1.0, random_state=3), BitGenerator(3)
    draw = np.random.Generator(bits).random
    watched.fail = failure
    for action in (lambda: source.words(stream=0, level=0, block=0, row=0), lambda: noise.sample(9), draw):
        for _ in range(2):
            with pytest.raises((SourceFailure, RuntimeError), match=r"cipher"):
                action()
    watched.fail = None
    whole = Gaussian(scale=1.0, random_state=3).sample(3 * 4096)
    np.testing.assert_array_equal(noise.sample(5), whole[2 * 4096 :][:5])  # rows 0 and 1 count as used
    assert bits.random_raw() == source_words(3, STREAM_GENERATOR, row=2)


def source_words(seed, stream, row):
    return make_source(seed).words(stream=stream, level=0, block=0, row=row)[0]


@pytest.mark.parametrize("failure", FAILURES)
def test_a_cipher_that_breaks_in_a_run_stops_the_releases(failure, monkeypatch):
    """Rows so wide that words are drawn for only two releases at a time."""
    watched = watch(monkeypatch)
    X, y = rows_of(12, 4000)
    learner = running(rows=3, d=4000)
    drawn = learner.coef_.copy()
    watched.fail = failure
    for _ in range(2):
        with pytest.raises((SourceFailure, RuntimeError), match="cipher"):
            learner.partial_fit(X[3:], y[3:])  # the fourth release already has its words
    assert learner.n_releases_ == 4
    assert not np.array_equal(learner.coef_, drawn)
    assert not any(watched.output())  # what the cipher wrote before it failed
    watched.fail = None
    learnt = learner.n_rows_
    learner.partial_fit(X[learnt:], y[learnt:])
    undisturbed = PIGD(epsilon=1.0, horizon=1000, release="all", random_state=5)
    undisturbed.partial_fit(X, y, classes=[0, 1])
    np.testing.assert_array_equal(learner.average_coef_, undisturbed.average_coef_)


def test_a_cipher_that_breaks_at_the_last_release(monkeypatch):
    watched = watch(monkeypatch)
    learner = running(rows=20, release="last")
    watched.fail = breaks
    for _ in range(2):
        with pytest.raises(RuntimeError, match="broken"):
            learner.close()
        assert learner.n_releases_ == 0
    watched.fail = None
    np.testing.assert_array_equal(learner.close().coef_, running(rows=20, release="last").close().coef_)


# ---- used bytes are overwritten -----------------------------------------------------------------------


@pytest.fixture
def arrays(monkeypatch):
    """All arrays that the module of noise sources makes, kept alive."""
    made = []

    class Numpy:
        def __getattr__(self, name):
            return getattr(np, name)

        def empty(self, *args):
            made.append(np.empty(*args))
            return made[-1]

    monkeypatch.setattr(_noise, "np", Numpy())
    return made


def words_in(arrays):
    return [array for array in arrays if array.dtype == np.uint8][1::2]  # addresses, words, ...


@pytest.mark.parametrize("where", ["decide", "cipher", "extra"])
def test_words_are_overwritten_when_an_exception_ends_the_call(where, arrays, monkeypatch):
    watched = watch(monkeypatch)
    source, seen = source_of(), []

    def decide(word, extra, x, scale, step):
        seen.append(words_in(arrays)[0].any())
        watched.fail = breaks if where == "extra" else None
        extra(1)
        raise KeyboardInterrupt

    def half(real, data, out):
        real.update_into(data, out)
        seen.append(words_in(arrays)[0].any())
        raise RuntimeError("the cipher is broken")

    if where == "cipher":
        watched.fail = half
    x = np.full(50, 2.0**60 * granularity(1.0))
    with pytest.raises((RuntimeError, KeyboardInterrupt)):
        source.add(x, 1.0, stream=0, row=0, decide=decide)
    assert seen == [True]
    (words,) = words_in(arrays)
    assert not words.any()


def test_words_of_releases_are_overwritten(monkeypatch):
    """Words are drawn ahead: those of past releases are zero, the others remain, and none remain after the end."""
    watched = watch(monkeypatch)
    learner = running(rows=20, d=6, fit_intercept=False)
    assert len(watched.outputs) == 1
    words = np.frombuffer(watched.output(), np.uint64).reshape(-1, 6)
    assert len(words) == 1000
    assert not words[:20].any()
    assert words[20:].all()
    learner.close()
    assert not any(watched.output())


def test_words_of_a_release_that_fails_are_overwritten_at_the_end(monkeypatch):
    def decide(*args):
        raise KeyboardInterrupt

    watched = watch(monkeypatch)
    monkeypatch.setattr("privol.learners._frame.decide_lattice_point", decide)
    learner = PIGD(epsilon=1e24, horizon=1000, release=100, random_state=5, l2=1e3)  # so fine that digits run out
    with pytest.raises(KeyboardInterrupt):
        learner.partial_fit(*rows_of(100), classes=[0, 1])
    assert learner.n_releases_ == 0
    assert any(watched.output())  # the release is due, and will use these words
    learner._run.state.close()
    assert not any(watched.output())


def test_words_of_the_bit_generator_are_overwritten(monkeypatch):
    watched = watch(monkeypatch)
    bits = BitGenerator(1)
    bits.random_raw(8192 + 100)
    words = np.frombuffer(watched.output(), np.uint64)
    assert not words[:100].any()
    assert words[100:].all()
    watched.fail = breaks
    bits.random_raw(8192 - 100)
    with pytest.raises(RuntimeError, match="broken"):
        bits.random_raw()
    assert not any(watched.output())
