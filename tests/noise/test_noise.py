"""The noise: its distribution, its exactness on the lattice, and no two holders ever draw the same."""

from __future__ import annotations

import copy
import inspect
import math
import os
import pickle
import sys
import threading

import mpmath
import numpy as np
import pytest
from alpha import BUDGET, RATES, rate
from battery import right_scale, unrelated
from mpmath.libmp import libelefun
from patience import WAIT
from scipy.special import ndtri
from scipy.stats import norm
from sklearn.base import clone

from privol import PGIGA, PIGD
from privol._core._noise import lattice_step, round_with_words, values_of_words
from privol.errors import InvalidParameter, SourceFailure, StateError
from privol.noise import Gaussian, Source, decide_lattice_point, make_source

pytestmark = [pytest.mark.process, pytest.mark.statistical]

KEY = bytes(range(32))
MASK = (1 << 63) - 1


def test_false_positive_rates_add_up_to_little():
    assert sum(RATES.values()) <= BUDGET


# ---- released iterates ---------------------------------------------------------------------------------


def noise_of_releases(cls, rows, d, **parameters):
    """Released minus secret iterate over the public std, for rows of zeros: the secret iterate does not move."""
    learner = cls(
        loss="logistic",
        epsilon=1.0,
        horizon=rows,
        release="all",
        fit_intercept=False,
        radius=1e9,
        random_state=11,
        **parameters,
    )
    learner.declare_classes([0, 1])
    row = np.zeros(d)
    learner.learn_one(row, 0)
    last = learner._run.plan.releases.last_row
    out = np.empty((last, d))
    for t in range(last):
        if t:
            learner.learn_one(row, t % 2)
        assert not learner._run.state._secret_iterate().any()
        std = learner._run.plan.std(t + 1)
        lattice = learner.coef_[0] / lattice_step(std)
        np.testing.assert_array_equal(lattice, np.round(lattice))
        out[t] = learner.coef_[0] / std
    return out


@pytest.mark.parametrize("parameters", [{}, {"noise_shape": "paper"}, {"calibration": "published", "l2": 1e-9}])
def test_released_iterates(parameters):
    z = noise_of_releases(PIGD, 200, 501, **parameters)
    alpha = rate("noise.released_scale", 3)
    assert right_scale(z.ravel(), "gaussian", alpha)
    for factor in (2 / 3, 3 / 2, 1.02):
        assert not right_scale(z.ravel() * factor, "gaussian", alpha)
    p, alpha = norm.cdf(z), rate("noise.rows", 9)
    for lag in (1, 2, 130):  # 130 releases are drawn at a time
        assert unrelated(p[:-lag].ravel(), p[lag:].ravel(), alpha)
    assert not unrelated(p[:-1].ravel(), p[:-1].ravel(), alpha)


# ---- exactness ------------------------------------------------------------------------------------------


def exact_gaussian(tail):
    """The normal quantile at 1 - tail, 60 digits."""
    with mpmath.workdps(90):
        return mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * tail)


def words_at_segment_ends():
    """For all 32 octaves and 16 segments: the first and the last word, with the unread low bits all 0 and all 1."""
    words = []
    for octave in range(32):
        for segment in range(16):
            width = 1 << (47 - octave)
            start = (16 + segment) * width
            for a in (start, start + width // 2, start + width - 1):
                words += [a << 11, (a << 11) | 0x7FF]
    words = np.array(words, dtype=np.uint64)
    return np.concatenate([words, words | np.uint64(1 << 63)])


def test_error_bounds_of_the_fast_path():
    rng = np.random.default_rng(3)
    random = rng.integers(0, 1 << 64, 1_000_000, dtype=np.uint64)
    tail = rng.integers(0, 1 << 63, 200_000, dtype=np.uint64) >> rng.integers(1, 32, 200_000).astype(np.uint64)
    words = np.concatenate([words_at_segment_ends(), random, tail, tail | np.uint64(1 << 63)])
    z, error = values_of_words(words)
    prefix = (words & np.uint64(MASK)).astype(np.float64)
    sign = np.where(words >> np.uint64(63), -1.0, 1.0)
    inside = np.isfinite(error)
    assert inside[: len(words_at_segment_ends())].all()
    worst = np.zeros(len(words))
    for end in (0.0, 1.0):  # both ends of the interval that the word leaves open
        exact = -ndtri(np.minimum((prefix + end) * 2.0**-64, 0.5)) * sign
        worst[inside] = np.maximum(worst[inside], np.abs(z - exact)[inside])
    assert np.all(worst[inside] <= error[inside] + 2e-15)
    assert np.max(worst[inside] / error[inside]) > 0.3, "the bound is not about this error"
    assert np.all((np.signbit(z) == np.signbit(sign))[np.abs(z) > error])


def test_error_bounds_against_multiple_precision():
    words = words_at_segment_ends()[::23]
    z, error = values_of_words(words)
    for word, value, bound in zip(words.tolist(), z, error, strict=True):
        for end in (0, 1):
            exact = exact_gaussian(mpmath.mpf((word & MASK) + end) / 2**64) * (-1 if word >> 63 else 1)
            assert abs(value - exact) <= bound


def test_words_beyond_the_table_are_never_decided_fast():
    words = np.array([0, 1, 2047, 2048, (1 << 31) - 1, 1 << 63, (1 << 63) | 5000], dtype=np.uint64)
    z, error = values_of_words(words)
    assert np.isinf(z).all()
    assert np.isinf(error).all()
    _, undecided = round_with_words(np.zeros(7), 1.0, words, lambda *a: 0.0, lambda c, level: (1, 1))
    assert undecided == 7


class Extra:
    """Words for re-evaluation, recorded."""

    def __init__(self, seed, zeros=0):
        self.rng, self.zeros, self.asked = np.random.default_rng(seed), zeros, {}

    def __call__(self, coordinate, level):
        if (coordinate, level) not in self.asked:
            pair = self.rng.integers(0, 1 << 64, 2, dtype=np.uint64).tolist()
            self.asked[coordinate, level] = (0, 0) if level <= self.zeros else tuple(pair)
        return self.asked[coordinate, level]


def expected_points(x, scale, words, extra):
    """Nearest lattice integers with Z from the word and 384 more bits."""
    h, out = lattice_step(scale), []
    for j, word in enumerate(words.tolist()):
        prefix, bits = word & MASK, 63
        for level in (1, 2, 3):
            a, b = extra(j, level)
            prefix, bits = (prefix << 128) | (a << 64) | b, bits + 128
        with mpmath.workdps(160):
            z = mpmath.sqrt(2) * mpmath.erfinv(1 - (2 * mpmath.mpf(prefix) + 1) / mpmath.mpf(2) ** (bits + 1))
            value = (mpmath.mpf(float(x[j])) + mpmath.mpf(scale) * (-z if word >> 63 else z)) / mpmath.mpf(h)
            assert abs(abs(value - mpmath.floor(value)) - mpmath.mpf("0.5")) > mpmath.mpf(10) ** -90
            out.append(float(mpmath.nint(value)) * h)
    return np.array(out)


@pytest.mark.parametrize("scale", [1.0, 1.9999, 0.37, 1e-12, 3e9])
@pytest.mark.parametrize("distance", [1e-12, 1e-13, 0.0])
def test_undecided_coordinates_are_rounded_correctly(scale, distance):
    """x puts the sum very close to a half-integer; the fast path must not guess, and the slow one must be right."""
    rng = np.random.default_rng(8)
    words = rng.integers(0, 1 << 64, 40, dtype=np.uint64)
    h = lattice_step(scale)
    z = -ndtri(((words & np.uint64(MASK)).astype(float) + 0.5) * 2.0**-64) * np.where(words >> np.uint64(63), -1, 1)
    side = np.where(np.arange(40) % 2, 1.0, -1.0) * distance
    x = (np.round(rng.normal(size=40) * 3000) + 0.5 + side) * h - scale * z
    extra = Extra(1)
    found, undecided = round_with_words(x, scale, words, decide_lattice_point, extra)
    assert undecided == 40
    np.testing.assert_array_equal(found, expected_points(x, scale, words, extra))


@pytest.mark.parametrize("magnitude", [0.0, 1.0, 1e3, 1e9, 1e12, 2.0**48 * 2.0**-10])
def test_ordinary_coordinates_are_rounded_correctly(magnitude):
    rng = np.random.default_rng(9)
    words = rng.integers(0, 1 << 64, 60, dtype=np.uint64)
    x = rng.choice([-1.0, 1.0], 60) * magnitude * rng.random(60)
    extra = Extra(2)
    found, undecided = round_with_words(x, 1.3, words, decide_lattice_point, extra)
    np.testing.assert_array_equal(found, expected_points(x, 1.3, words, extra))
    assert not np.signbit(found[found == 0]).any()
    if magnitude <= 1e3:
        assert undecided <= 2


def test_deep_tail_words_take_more_bits():
    """A = 0 and neighbours: 63 bits leave an interval of many lattice points for Z, so extra words decide."""
    prefixes = [1, 2, 3, 100, 2047, 2048, 1 << 20, (1 << 31) - 1]
    words = np.array(prefixes + [p | 1 << 63 for p in prefixes], dtype=np.uint64)
    x = np.linspace(-5, 5, len(words))
    for seed in range(3):
        extra = Extra(seed)
        found, undecided = round_with_words(x, 1.0, words, decide_lattice_point, extra)
        assert undecided == len(words)
        assert (0, 1) in extra.asked
        np.testing.assert_array_equal(found, expected_points(x, 1.0, words, extra))
        assert np.all(np.abs(found - x) > 5.5)


def test_a_word_of_zeros_reads_on_until_something_is_not_zero():
    extra = Extra(4, zeros=1)
    words = np.array([0, 1 << 63], dtype=np.uint64)
    found, _ = round_with_words(np.zeros(2), 1.0, words, decide_lattice_point, extra)
    assert (0, 2) in extra.asked
    np.testing.assert_array_equal(found, expected_points(np.zeros(2), 1.0, words, extra))
    assert found[0] > 15
    assert found[1] < -15


# ---- addresses -----------------------------------------------------------------------------------------------


def test_words_are_the_cipher_of_their_address():
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    source = Source(KEY, private=False, description="test")
    encryptor = Cipher(algorithms.AES(KEY), modes.ECB()).encryptor()
    for stream, level, block, row in [(0, 0, 0, 1), (0, 0, 1, 1), (1, 2, 3, 4), (0, 0, (1 << 32) - 1, (1 << 63) + 7)]:
        address = stream.to_bytes(2, "little") + level.to_bytes(2, "little") + block.to_bytes(4, "little")
        plain = encryptor.update(address + row.to_bytes(8, "little"))
        expected = (int.from_bytes(plain[:8], "little"), int.from_bytes(plain[8:], "little"))
        assert source.words(stream=stream, level=level, block=block, row=row) == expected


def test_no_two_addresses_share_words():
    source = Source(KEY, private=False, description="test")
    seen = {
        word
        for stream in (0, 1)
        for level in (0, 1, 2)
        for block in range(20)
        for row in range(1, 30)
        for word in source.words(stream=stream, level=level, block=block, row=row)
    }
    assert len(seen) == 2 * 2 * 3 * 20 * 29


def test_bits_are_balanced():
    source = Source(KEY, private=False, description="test")
    n = 4000
    words = np.array([source.words(stream=0, level=0, block=j, row=3) for j in range(n // 2)], dtype=np.uint64).ravel()
    counts = np.array([int(np.sum((words >> np.uint64(b)) & np.uint64(1))) for b in range(64)])
    bound = norm.isf(rate("noise.words") / 2 / 64) * math.sqrt(n) / 2
    assert np.all(np.abs(counts - n / 2) <= bound)


def test_keys():
    """A seed always gives the same key; entropy and a generator never give a key twice."""

    def key(state):
        learner = PIGD(horizon=9, release="all", random_state=state).partial_fit([[0.0]], [1], classes=[0, 1])
        return bytes(learner._run.state.secret_arrays()["key"])

    assert key(3) == key(3) == key(np.random.PCG64(3))
    assert key(3) != key(4)
    rng = np.random.default_rng(1)
    assert len({key(rng), key(rng), key(rng)}) == 3
    assert len({key(None), key(None), key(None)}) == 3
    for state in (np.random.MT19937(1), np.random.RandomState(1), np.random.SeedSequence(5), np.int64(7)):
        assert len(set(key(state))) > 8
        assert key(state)[:16] != key(state)[16:]  # all of it is drawn
    for bad in (-1, 1.5, "seed", True, [1]):
        with pytest.raises(InvalidParameter, match="random_state"):
            make_source(bad)
    assert make_source(None).private
    assert not make_source(3).private


# ---- never two identical streams -------------------------------------------------------------------------------


def running(**parameters):
    learner = PIGD(epsilon=1.0, horizon=1000, release="all", **parameters)
    return learner.partial_fit(np.ones((3, 2)), [0, 1, 0], classes=[0, 1])


@pytest.mark.parametrize("action", [pickle.dumps, copy.copy, copy.deepcopy])
def test_sources_and_runs_cannot_be_copied(action):
    learner = running()
    for holder in (make_source(None), make_source(3), learner._run.state, Gaussian(scale=1.0)):
        with pytest.raises((StateError, TypeError)):
            action(holder)


def test_learners_never_share_noise():
    one, two = running(), running()
    third = clone(one).partial_fit(np.ones((3, 2)), [0, 1, 0], classes=[0, 1])
    keys = {bytes(learner._run.state.secret_arrays()["key"]) for learner in (one, two, third)}
    assert len(keys) == 3
    assert len({learner.coef_.tobytes() for learner in (one, two, third)}) == 3
    for copied in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        with pytest.raises(StateError, match="copy of what another has released"):
            copied.partial_fit(np.ones((3, 2)), [0, 1, 0], classes=[0, 1])
        assert copied.fit(np.ones((4, 2)), [0, 1, 0, 1]).coef_.tobytes() != one.coef_.tobytes()  # a run of its own
    # two runs of one learner
    before = one.fit(np.ones((4, 2)), [0, 1, 0, 1]).coef_
    assert not np.array_equal(one.fit(np.ones((4, 2)), [0, 1, 0, 1]).coef_, before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("release", ["all", "last"])
def test_a_forked_child_cannot_use_the_noise(release):
    learner = PIGD(epsilon=1.0, horizon=1000, release=release)
    learner.partial_fit(np.ones((3, 2)), [0, 1, 0], classes=[0, 1])
    noise, source = Gaussian(scale=1.0), make_source(None)
    actions = [
        lambda: learner.learn_one(np.ones(2), 1),
        lambda: learner.partial_fit(np.ones((2, 2)), [0, 1]),
        lambda: noise.sample(3),
        lambda: source.words(stream=0, level=0, block=0, row=1),
        *([lambda: learner.close()] if release == "last" else []),
    ]
    child = os.fork()
    if child == 0:
        refused = 0
        for action in actions:
            try:
                action()
            except SourceFailure:
                refused += 1
            except BaseException:
                pass
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == len(actions)
    learner.learn_one(np.ones(2), 1)  # the parent continues
    assert learner.n_rows_ == 4


@pytest.mark.parametrize("cls", [PIGD, PGIGA])
def test_threads_on_one_learner(cls):
    """Calls are serialised: all rows are learnt, each release is made once, and no words are drawn for another row."""
    n = 400
    learner = cls(epsilon=1.0, horizon=2 * n + 3, release="all", random_state=1, radius=5.0)
    learner.partial_fit(np.ones((3, 2)), [0, 1, 0], classes=[0, 1])
    errors = []

    def work(block):
        try:
            for _i in range(0, n, block):
                if block == 1:
                    learner.learn_one(np.ones(2), 1)
                else:
                    learner.partial_fit(np.ones((block, 2)), [1] * block)
                _ = learner.coef_, learner.average_coef_, learner.ledger_.spent
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(block,)) for block in (1, 8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
        assert not thread.is_alive(), "deadlock"
    assert not errors
    assert learner.n_rows_ == learner.n_releases_ == 2 * n + 3
    # all rows were equal, so the order does not matter: one thread gives the same run
    alone = cls(epsilon=1.0, horizon=2 * n + 3, release="all", random_state=1, radius=5.0)
    alone.partial_fit(np.ones((2 * n + 3, 2)), [0, 1, 0] + [1] * (2 * n), classes=[0, 1])
    np.testing.assert_array_equal(learner.coef_, alone.coef_)
    np.testing.assert_array_equal(learner.average_coef_, alone.average_coef_)
    assert learner._run.state.spent == alone._run.state.spent


# ---- constants that mpmath caches, which other users of mpmath may disturb -----------------------------

REMEMBERED = [getattr(libelefun, name).__closure__[0].cell_contents for name in ("ln2_fixed", "pi_fixed", "e_fixed")]


@pytest.fixture
def forget():
    """Constants as they are when mpmath has just been imported."""

    def forget():
        for constant in REMEMBERED:
            constant.memo_prec = -1

    forget()
    yield forget
    forget()


def one_decision(law):
    return decide_lattice_point(0x0123456789ABCDEF, lambda level: (level, 5), 0.3, 1.0, 2.0**-10, law=law)


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_decisions_may_interrupt_each_other(law, forget):
    """A finaliser might run between the two reads, of precision and of value, of the constant that is read k-th."""
    right, source = one_decision(law), inspect.getsourcelines(libelefun.constant_memo)
    line = source[1] + next(i for i, text in enumerate(source[0]) if "f.memo_val >> (memo_prec" in text)
    reads, come = 0, 0

    def local(frame, event, argument):
        nonlocal reads
        if event == "line" and frame.f_lineno == line:
            reads += 1
            if reads == come:
                sys.settrace(None)
                decide_lattice_point(0, lambda k: (0, 0) if k < 4 else (1 << 63, 5), 0.3, 1.0, 2.0**-10)
        return local

    def trace(frame, event, argument):
        return local if frame.f_code.co_filename == libelefun.__file__ and frame.f_code.co_name == "g" else None

    for come in (1, 2, 3, 4, 5, 7, 9):
        forget()
        reads, before = 0, sys.gettrace()
        sys.settrace(trace)
        try:
            found = one_decision(law)
        finally:
            sys.settrace(before)
        assert reads >= min(come, 4)
        assert found == right


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize("bits", [-200, -1, 1, 11, 300])
def test_wrong_constants_are_detected(law, bits, forget):
    """Two threads that cache a constant at once may combine the value of one with the precision of the other."""
    right = one_decision(law)
    for constant in REMEMBERED:
        constant.memo_val = constant.memo_val << bits if bits > 0 else constant.memo_val >> -bits
    assert one_decision(law) == right
