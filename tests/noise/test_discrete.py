"""Integer noise: exact distributions, exact words, no repeats."""

from __future__ import annotations

import copy
import itertools
import math
import os
import pickle
import threading
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from alpha import rate
from scipy.stats import binomtest, chi2, norm
from twins_discrete import Law, Reader

from privol._core._discrete import MAX_BLOCK, IntegerLaw
from privol.errors import InvalidParameter, SourceFailure, StateError
from privol.noise import STREAM_INTEGERS, DiscreteGaussian, DiscreteLaplace, Gaussian
from privol.noise._blocks import BlockWeights, _exp_below
from privol.noise._discrete import _law

pytestmark = [pytest.mark.process, pytest.mark.statistical]

LAWS = {True: DiscreteGaussian, False: DiscreteLaplace}
TOP = (1 << 63) - 1
SCALES = [
    Fraction(1, 1 << 40), 0.01, 0.3, 1, Fraction(7, 2), 5, 15.99, 31.999, 32, 33.3, Fraction(1000, 7), 2**20 + 1,
    Fraction(2**53 - 1, 2**48 - 1), Fraction(2**53 - 1, 2**13), 2**40,
]  # fmt: skip


def every(*scales):
    return pytest.mark.parametrize(
        ("scale", "square"), [(s, q) for s in scales for q in (True, False)],
        ids=[f"{LAWS[q].__name__}-{float(s):g}" for s in scales for q in (True, False)],
    )  # fmt: skip


def fail(prefix, position):
    raise AssertionError("random words decide their block")


# ---- exactness: bit for bit the results of rational arithmetic ---------------------------------------


def scripted(noise, words, n, decide=fail, capacity=1 << 20):
    out = np.zeros(n, np.int64)
    used = noise._law.add_scripted(out, np.asarray(words, dtype=np.uint64), decide, capacity=capacity)
    return out.tolist(), used


@every(*SCALES)
def test_random_words(scale, square):
    words = np.random.default_rng(7).integers(0, 1 << 64, 6000, dtype=np.uint64)
    noise, law = LAWS[square](scale=scale), Law(scale, square=square)
    assert scripted(noise, words, 2000) == law.draw(words, 2000, fail)


def digits_of(x, count):
    """The first binary digits of x in [0, 1], as one integer."""
    return min(math.floor(x * 2**count), 2**count - 1)


def slices(digits, length):
    """The first 24 of a given number of digits, then words."""
    return digits >> (length - 24), [digits >> shift & (2**64 - 1) for shift in range(length - 88, -1, -64)]


@every(32, 33.3, Fraction(1000, 7), Fraction(2**53 - 1, 2**48 - 1), Fraction(2**53 - 1, 2**13), 2**40)
def test_coins_that_are_undecided_for_long(scale, square):
    """Words that agree with the digits of the exact probability up to the last of 24, 88 or 152, and then differ."""
    noise, law = LAWS[square](scale=scale), Law(scale, square=square)
    rng = np.random.default_rng(11)
    longest = 0
    for block, change, length in itertools.product((0, 1, 5, 17, 60), (-1, 0, 1), (24, 88, 152)):
        offset = int(rng.integers(1, law.width)) if block % 2 else law.width - 1
        x = law.exponent(block * law.width + offset) - law.exponent(block * law.width)
        digits = digits_of(x, length) + change
        assert 0 < x < 1
        assert 0 <= digits < 2**length
        lead, more = slices(digits, length)
        words = [([-1, *law.limits()][block] + 1) << 1, lead << 40 | offset, *more]
        # tosses 2, 3 and 4, each with its factor 1 / k, agree for many digits as well
        for k in (2, 3, 4):
            words += [digits_of(x, 64), int(rng.integers(1 << 40)), digits_of(Fraction(1, k), 64), 1 << 62]
        words += rng.integers(0, 1 << 64, 100, dtype=np.uint64).tolist()

        def decide(prefix, position):
            return position % 9

        found = scripted(noise, words, 3, decide)
        assert found == law.draw(words, 3, decide)
        for capacity in (2, 3, 7):
            assert scripted(noise, words, 3, decide, capacity=capacity) == found
        longest = max(longest, found[1])
    assert longest >= 10


@pytest.mark.parametrize("square", [True, False])
def test_blocks_far_in_the_tail(square):
    """Up to the last block that the kernel accepts: no product overflows, and exponents above 1 count in full."""
    for scale in (32, Fraction(2**53 - 1, 2**48 - 1), Fraction(2**53 - 1, 2**13)):
        noise, law = LAWS[square](scale=scale), Law(scale, square=square)
        rng = np.random.default_rng(5)
        words = rng.integers(0, 1 << 64, 40_000, dtype=np.uint64)
        words[::2][rng.random(20_000) < 0.4] |= np.uint64(2**64 - 2)  # prefixes of ones
        blocks = [0, 3, 500, 2000, 8000, MAX_BLOCK]

        def decide(prefix, position, blocks=blocks):
            assert prefix == TOP
            return blocks[position % 6]

        found = scripted(noise, words, 3000, decide)
        assert found == law.draw(words, 3000, decide)
        assert max(map(abs, found[0])) >= 500 * law.width
        with pytest.raises(SourceFailure, match="block 8193"):
            scripted(noise, words, 3000, lambda prefix, position: MAX_BLOCK + 1)


@every(0.01, 1, 31.999, 33.3, 2**40)
def test_words_are_those_of_the_addresses(scale, square):
    """A row has 65,536 values and uses its words in the order of its blocks: any value can be regenerated."""
    noise, law = LAWS[square](scale=scale, random_state=3), Law(scale, square=square)
    n = 65_536 + 700
    values = [noise.sample(300), noise.sample((2, 350)), noise.sample(n)]
    assert [v.shape for v in values] == [(300,), (2, 350), (n,)]
    drawn = np.concatenate([v.ravel() for v in values])
    for row, part in enumerate([drawn[:5000], drawn[65_536:]]):
        pairs = [noise.source.words(stream=STREAM_INTEGERS, level=0, block=j, row=row) for j in range(len(part) + 500)]
        assert part.tolist() == law.draw([word for pair in pairs for word in pair], len(part), fail)[0]


# ---- the table and the last resort ----------------------------------------------------------------------


def test_limits_that_their_bounds_leave_open_take_more_bits():
    """Sums known to few digits at first: a limit is what both ends of its enclosure say, and no end alone."""

    class Rough(BlockWeights):
        def _sums(self, p):
            sums, low, high = super()._sums(p)
            return (sums, low, high + (high >> 20)) if p < 200 else (sums, low, high)

    for square in (False, True):
        exact, rough = (kind(Fraction(1, 7), square, True).limits(63) for kind in (BlockWeights, Rough))
        for expected, found in itertools.islice(zip(exact, rough, strict=True), 8):
            assert found == expected


@every(*SCALES)
def test_limits(scale, square):
    """Every entry of the table against mpmath; cases that it decides need no exponential."""
    law = Law(scale, square=square)
    weights = LAWS[square](scale=scale)._weights
    for bits in (1, 191, 63):
        found = list(itertools.takewhile((2**bits - 1).__gt__, weights.limits(bits)))
        assert found == law.limits(bits)[: len(found)]
        assert law.limits(bits)[len(found)] == 2**bits - 1
    noise = LAWS[square](scale=scale)
    recorded = []

    class Recorded(IntegerLaw):
        def __init__(self, limits, sure, **rest):
            recorded.append((limits, sure))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("privol.noise._discrete.IntegerLaw", Recorded)
        _law.__wrapped__(noise.scale, square)  # beyond the number of tables that are kept
    ((limits, sure),) = recorded
    assert limits == [*found, TOP]
    for block, least in enumerate(sure):
        start = block * law.width
        largest = law.exponent(start + law.width - 1) - law.exponent(start)
        assert least == min(math.ceil(largest * 2**24), 2**24)


def test_exponentials_are_enclosed():
    for x in (Fraction(1, 10**9), Fraction(1, 3), Fraction(1), Fraction(99, 7), Fraction(150), Fraction(10**30, 7)):
        for p in (20, 63, 159, 400):
            below = _exp_below(x, p)
            with mpmath.workdps(200):
                exact = mpmath.ldexp(mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator), p)
                assert below <= exact < below + 2


@every(Fraction(1, 1 << 40), 0.3, 5, 100, 2**40)
def test_sums_are_enclosed(scale, square):
    law = Law(scale, square=square)
    weights = LAWS[square](scale=scale)._weights
    for p in (100, 200):
        sums, low, high = weights._sums(p)
        with mpmath.workdps(DIGITS := 120):
            cumulative = law.cumulative(DIGITS)
            whole = mpmath.ldexp(mpmath.mpf(1) / 2 if law.width == 1 else 1, p) / cumulative[0]
            assert low <= whole <= high
            for j in range(0, len(sums), 7):
                exact = cumulative[min(j, len(cumulative) - 1)] * whole
                assert sums[j] <= exact + mpmath.mpf(10) ** -40
                assert exact <= sums[j] + 3 * (j + 1) ** 3 + mpmath.mpf(10) ** -40


@every(Fraction(1, 1 << 40), 0.3, 1, 5, 31.999, 100, 2**40)
def test_undecided_blocks_are_resolved_with_more_bits(scale, square):
    """Words equal to an entry of the table, up to 191 and 319 digits, then on either side of it."""
    law = Law(scale, square=square)
    weights = LAWS[square](scale=scale)._weights
    blocks = [0, 1, 2, 7] if scale >= 1 else [0]
    for block, bits, change in itertools.product(blocks, (191, 319), (-1, 1)):
        exact = law.limits(bits)[block]
        if exact >= 2**bits - 1:
            continue
        digits = exact + change
        prefix = digits >> (bits - 63)
        assert prefix == law.limits()[block]
        asked = []

        def extra(level, digits=digits, bits=bits, asked=asked):
            asked.append(level)
            part = digits >> (bits - 63 - 128 * level) & (2**128 - 1)
            return part >> 64, part & (2**64 - 1)

        assert weights.decide(prefix, extra) == block + (change > 0)
        assert asked == list(range(1, (bits - 63) // 128 + 1))


def test_the_tail_goes_on():
    """One word of ones after another: each level lies further out, as its probability requires."""
    noise = DiscreteLaplace(scale=1)
    for levels in range(1, 5):

        def extra(level, levels=levels):
            return (2**64 - 1, 2**64 - 1) if level < levels else (2**64 - 1, 0)

        block = noise._weights.decide(TOP, extra)
        # P(block > j) = 2 exp(-j - 1) / (1 + e^-1)
        tail = 2.0 ** -(63 + 128 * (levels - 1) + 64) * (1 - 2.0**-64)
        assert block == math.floor(-math.log(tail * (1 + math.exp(-1)) / 2))


def test_undecided_blocks_read_their_own_words(monkeypatch):
    """A word that decides nothing requests further words of its own address, which determine the value."""
    asked = []

    def decide(self, prefix, extra):
        asked.append((prefix, extra(1), extra(2)))
        return 3

    noise = DiscreteGaussian(scale=5, random_state=9)
    law = IntegerLaw([TOP] * 2, [0] * 2, shift=0, square=True, numerator=5, denominator=1)
    words = [w for j in range(8) for w in noise.source.words(stream=STREAM_INTEGERS, level=0, block=j, row=0)]
    limits = [*sorted([words[2] >> 1, words[5] >> 1]), TOP]
    law = IntegerLaw(limits, [0] * 3, shift=0, square=True, numerator=5, denominator=1)
    monkeypatch.setattr(noise, "_law", law)
    monkeypatch.setattr(BlockWeights, "decide", decide)
    values = noise.sample(8)
    expected = [(words[i] >> 1, *(noise.source.words(stream=STREAM_INTEGERS, level=k, block=i, row=0) for k in (1, 2)))
                for i in (2, 5)]  # fmt: skip
    assert asked == expected
    assert [abs(int(values[i])) for i in (2, 5)] == [3, 3]


# ---- the distribution -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cls", "scale", "zero", "variance"),
    [
        (DiscreteLaplace, 1, 0.46211715726001, 1.84134718841558),
        (DiscreteLaplace, Fraction(7, 2), 0.141893193766933, 24.3340114080544),
        (DiscreteLaplace, Fraction(3, 5), 0.68226179023817, 0.574157352128945),
        (DiscreteGaussian, 1, 0.39894227826686171, 0.99999978876772808),
        (DiscreteGaussian, 2, 0.19947114020071634, 4.0),
        (DiscreteGaussian, 5, 0.079788456080286536, 25.0),
    ],
)
def test_oracles(cls, scale, zero, variance):
    """Probability of zero and variance, from the table, to 14 digits."""
    limits = itertools.takewhile(lambda limit: limit < TOP, cls(scale=scale)._weights.limits(63))
    p = np.diff([0, *limits, TOP]) / 2.0**63
    assert abs(p[0] - zero) <= 1e-14
    assert abs(p @ np.arange(len(p)) ** 2 - variance) <= 1e-13 * variance * 10


def probabilities(scale, square, cells=64):
    """Borders (integers k: the cell ends with k) and probabilities of roughly equally likely cells of all integers."""
    s = float(scale)
    if not square:
        q = math.exp(-1 / s)

        def cdf(k):
            return np.where(k < 0, np.exp((k + (k >= 0)) / s) / (1 + q), 1 - np.exp(-(k + 1) / s) / (1 + q))

        reach = 40 * s
    elif s > 1000:  # sums of a smooth function over half-integers: the difference is below 10^-6 of a cell's share

        def cdf(k):
            return norm.cdf((k + 0.5) / s)

        reach = 9 * s
    else:
        support = np.arange(-math.ceil(12 * s) - 2, math.ceil(12 * s) + 3)
        mass = np.exp(-(support**2) / (2 * s * s))
        summed = np.cumsum(mass) / np.sum(mass)

        def cdf(k):
            return summed[np.asarray(k - support[0], dtype=np.int64)]

        reach = 9 * s
    low, high = -math.ceil(reach) - 1, math.ceil(reach) + 1
    borders = []
    for target in np.arange(1, cells) / cells:
        a, b = low, high
        while a < b:
            middle = (a + b) // 2
            a, b = (a, middle) if cdf(np.float64(middle)) >= target else (middle + 1, b)
        borders.append(a)
    borders = np.unique(borders).astype(np.float64)
    p = np.diff(cdf(borders), prepend=0.0, append=1.0)
    keep = np.flatnonzero(p[:-1] * 60_000 >= 20)
    return borders[keep], np.diff(cdf(borders[keep]), prepend=0.0, append=1.0)


STATISTICAL = [1, Fraction(7, 2), 5, 20.1, Fraction(1000, 7), 2**39]


def right_cells(sample, scale, square):
    borders, p = probabilities(scale, square)
    counts = np.bincount(np.searchsorted(borders, sample), minlength=len(p))
    expected = p * sample.size
    assert expected.min() >= 20
    statistic = float(np.sum((counts - expected) ** 2 / expected))
    return statistic <= chi2.isf(rate("integers.cells") / (2 * len(STATISTICAL)), len(p) - 1)


def variance_and_kurtosis(scale, square):
    s = float(scale)
    if s > 1000:
        return (s * s, 3.0) if square else (2 * s * s, 6.0)
    k = np.arange(-math.ceil(60 * s), math.ceil(60 * s) + 1)
    p = np.exp(-(k**2) / (2 * s * s) if square else -np.abs(k) / s)
    p /= p.sum()
    variance = float(p @ k**2)
    return variance, float(p @ k.astype(float) ** 4) / variance**2


def right_scale(sample, scale, square):
    variance, kurtosis = variance_and_kurtosis(scale, square)
    z = (float(np.mean(sample.astype(float) ** 2)) / variance - 1) * math.sqrt(sample.size / (kurtosis - 1))
    return abs(z) <= norm.isf(rate("integers.scale") / (4 * len(STATISTICAL)))


def right_sign(sample):
    negative, other = int(np.sum(sample < 0)), int(np.sum(sample != 0))
    return binomtest(negative, other, 0.5).pvalue > rate("integers.sign") / (2 * len(STATISTICAL))


def right_zero(sample, scale, square):
    p = float(Law(scale, square=square).cumulative(20)[0])
    return binomtest(int(np.sum(sample == 0)), sample.size, p).pvalue > rate("integers.zero") / 6


@every(*STATISTICAL)
def test_law(scale, square):
    sample = LAWS[square](scale=scale, random_state=2024).sample(2_000_000)
    rng = np.random.default_rng(1)
    assert right_scale(sample, scale, square)
    assert right_cells(sample, scale, square)
    assert right_sign(sample)
    # the same code with a scale that is 1 % off, then larger errors
    for factor in (Fraction(101, 100), Fraction(99, 100)):
        other = (Fraction(scale) * factor).limit_denominator(10**6)
        wrong = LAWS[square](scale=other, random_state=5).sample(2_000_000)
        assert not right_scale(wrong, scale, square)
        assert not right_cells(wrong, scale, square)
    biased = np.where((sample < 0) & (rng.random(sample.size) < 0.02), -sample, sample)
    assert not right_sign(biased)
    if scale <= 5:
        assert right_zero(sample, scale, square)
        # zero counted twice, with both signs, as if -0 were another value
        p = float(Law(scale, square=square).cumulative(20)[0])
        twice = np.where(rng.random(sample.size) < p / (1 + p), 0, sample)
        assert not right_zero(twice, scale, square)
        assert not right_cells(twice, scale, square)
        # magnitudes in proportion to exp(...) with a random sign, zero never halved
        assert not right_zero(np.where(sample == 0, rng.integers(0, 2, sample.size), sample), scale, square)


@pytest.mark.parametrize("scale", [20.1, 100])
def test_values_of_a_call_are_independent(scale):
    sample = DiscreteLaplace(scale=scale, random_state=8).sample(1_000_000).astype(float)

    def right(a, b):
        def z(u, v):
            u, v = u - u.mean(), v - v.mean()
            return abs(float(np.mean(u * v) / (u.std() * v.std()))) * math.sqrt(u.size)

        return max(z(a, b), z(np.abs(a), np.abs(b))) <= norm.isf(rate("integers.neighbours") / (4 * 8))

    for lag in (1, 2, 8192, 65_536):
        assert right(sample[:-lag], sample[lag:])
    assert not right(sample[1:], sample[1:] + 50 * sample[:-1])
    assert not right(sample[1:], np.abs(sample[1:]) * np.sign(sample[:-1]))


@pytest.mark.parametrize("block", [85, 170, 400, 511, 1300])
def test_coin(block):
    """The share of accepted proposals is exp(-x), for exponents x from 1/6 to 2.5 (1/3: 0.716531310574)."""
    noise, trials = DiscreteGaussian(scale=32), 40_000
    x = Fraction(4 * block + 1, 2048)  # for the second integer of a block of two
    rng = np.random.default_rng(block)
    heads = 0
    for _ in range(trials):
        words = rng.integers(0, 1 << 64, 40, dtype=np.uint64)
        words[0], words[1] = 2**64 - 1, words[1] | np.uint64(1)
        (value,), _used = scripted(noise, words, 1, lambda prefix, position: block)
        heads += value == -(2 * block + 1)

    def right(p):
        return binomtest(heads, trials, p).pvalue > rate("integers.coin") / 5

    assert right(math.exp(-x))
    assert not right(math.exp(-x) + 0.02)
    assert not right(math.exp(-x) - 0.02)
    assert not right(max(0.0, float(1 - x)))  # the first toss alone


def test_the_twin_of_the_coin():
    """The twin's own coin, in all outcomes with one word per toss: the probability that it stops at an odd toss."""
    rng = np.random.default_rng(3)
    reader = Reader(rng.integers(0, 1 << 64, 80_000, dtype=np.uint64))
    heads = sum(reader.bernoulli_exp(Fraction(1, 3)) for _ in range(20_000))
    assert binomtest(heads, 20_000, 0.716531310574).pvalue > rate("integers.twin")


@pytest.mark.parametrize("cls", [DiscreteGaussian, DiscreteLaplace])
def test_extreme_scales(cls):
    assert not cls(scale=Fraction(1, 1 << 40)).sample(100_000).any()
    assert not cls(scale=2.0**-40).sample(100_000).any()
    assert not cls(scale=0.01, random_state=1).sample(1_000_000).any()  # P(k != 0) below 10^-43
    large = cls(scale=2**40, random_state=1).sample(100_000)
    assert 2**40 < np.abs(large).max() < 40 * 2**40
    assert len(np.unique(large % 4096)) == 4096
    assert len(np.unique(large)) > 99_990


# ---- adding, parameters, holders -----------------------------------------------------------------------


@pytest.mark.parametrize("cls", [DiscreteGaussian, DiscreteLaplace])
def test_adding(cls):
    def noise():
        return cls(scale=40, random_state=4)

    plain = noise().sample((3, 5))
    assert plain.dtype == np.int64
    x = np.arange(15, dtype=np.int32).reshape(3, 5)
    np.testing.assert_array_equal(noise().add(x), x + plain)
    np.testing.assert_array_equal(x, np.arange(15).reshape(3, 5))
    for strange in (np.asfortranarray(x), x.astype(np.uint64), x.astype(np.int64)[::1], x.tolist(), x.astype(">i8")):
        found = noise().add(strange)
        assert found.dtype == np.int64
        np.testing.assert_array_equal(found, x + plain)
    kept = x.astype(np.int64)
    noise().add(kept)
    np.testing.assert_array_equal(kept, x)
    every_other = np.arange(30).reshape(3, 10)[:, ::2]
    np.testing.assert_array_equal(noise().add(every_other), every_other + plain)
    assert noise().add(5).shape == ()
    assert noise().add([]).shape == noise().sample(0).shape == (0,)
    ends = np.array([2**62, -(2**62)])
    assert np.abs(noise().add(ends) - ends).max() < 4000
    np.testing.assert_array_equal(noise().sample(70_000)[:100], noise().sample(100))


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ([2**62 + 1], "2\\*\\*62"), ([0, -(2**62) - 1], "2\\*\\*62"), (np.array([2**63], np.uint64), "2\\*\\*62"),
        ([2**64], "dtype object"), ([1.0], "dtype float64"), ([True], "dtype bool"), (["1"], "dtype"),
        (np.ma.array([1, 2], mask=[False, True]), "no masked values, found 1"),
    ],
)  # fmt: skip
def test_invalid_inputs_of_add_are_refused(x, message):
    noise = DiscreteLaplace(scale=3, random_state=2)
    with pytest.raises(InvalidParameter, match=message):
        noise.add(x)
    # nothing was drawn
    np.testing.assert_array_equal(noise.sample(9), DiscreteLaplace(scale=3, random_state=2).sample(9))


@pytest.mark.parametrize("cls", [DiscreteGaussian, DiscreteLaplace])
def test_scales(cls):
    assert cls(scale=0.1).scale == Fraction(0.1) != Fraction(1, 10)
    assert cls(scale=Fraction(1, 10)).scale == Fraction(1, 10)
    assert cls(scale=np.int32(7)).scale == 7
    assert cls(scale=np.float32(0.1)).scale == Fraction(float(np.float32(0.1)))
    for scale in (math.nextafter(2.0**40, 0), math.nextafter(2.0**-40, 1), 1e-11, 16.1, 1 / 3, Fraction(2**53, 3**30)):
        assert cls(scale=scale).scale == Fraction(scale)
    refused = [0, -1, 0.0, math.nan, math.inf, -math.inf, 2**40 + 1, math.nextafter(2.0**40, math.inf),
               math.nextafter(2.0**-40, 0), Fraction(2**53 + 1, 2**20), True, "1", None, 1j, [1]]  # fmt: skip
    for scale in refused:
        with pytest.raises(InvalidParameter, match="scale must be"):
            cls(scale=scale)
    with pytest.raises(TypeError):
        cls(3)
    with pytest.raises(InvalidParameter, match="random_state"):
        cls(scale=1, random_state="seed")


def test_kernel_refuses_laws_that_it_cannot_hold():
    good = {"shift": 1, "square": True, "numerator": 32, "denominator": 1}
    IntegerLaw([5, TOP], [1, 1], **good)
    for limits, sure, change in [
        ([], [], {}), ([5], [1], {}), ([5, 4, TOP], [1] * 3, {}), ([TOP], [1, 1], {}), ([TOP], [1], {"shift": 2}),
        ([TOP], [1], {"shift": 37, "numerator": 2**53}), ([TOP], [1], {"numerator": 2**53 + 1}),
        ([TOP] * (MAX_BLOCK + 1), [1] * (MAX_BLOCK + 1), {}), ([TOP], [1], {"denominator": 0}),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=r"law|limits|scale|sixteenth"):
            IntegerLaw(limits, sure, **{**good, **change})


@pytest.mark.parametrize("action", [pickle.dumps, copy.copy, copy.deepcopy])
@pytest.mark.parametrize("cls", [DiscreteGaussian, DiscreteLaplace])
def test_holders_cannot_be_copied(cls, action):
    with pytest.raises(StateError, match=r"noise cannot be (copied|pickled)"):
        action(cls(scale=1))


@pytest.mark.parametrize("cls", [DiscreteGaussian, DiscreteLaplace])
def test_holders_never_share_noise(cls):
    one, two = cls(scale=1000), cls(scale=1000)
    drawn = [noise.sample(50).tolist() for noise in (one, two, one)]
    assert len(set(map(tuple, drawn))) == 3
    assert one.source.private
    assert not cls(scale=1, random_state=0).source.private


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_cannot_draw():
    holders = [DiscreteGaussian(scale=3), DiscreteLaplace(scale=100)]
    child = os.fork()
    if child == 0:
        refused = 0
        for holder in holders:
            for action in (lambda h=holder: h.sample(3), lambda h=holder: h.add([1])):
                try:
                    action()
                except SourceFailure:
                    refused += 1
                except BaseException:
                    pass
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
    assert holders[0].sample(3).shape == (3,)


@pytest.mark.parametrize("cls", [DiscreteGaussian, DiscreteLaplace, Gaussian])
def test_threads(cls):
    """Simultaneous calls draw different rows: together exactly what one thread draws in as many calls."""
    calls, n = 60, 3000
    noise, alone = (cls(scale=50, random_state=6) for _ in range(2))
    drawn = []

    def work():
        drawn.extend([tuple(noise.sample(n)) for _ in range(calls)])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(drawn) == sorted(tuple(alone.sample(n)) for _ in range(4 * calls))
