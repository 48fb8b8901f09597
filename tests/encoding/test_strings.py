"""All texts as one histogram: which texts pass without occurring, and how often."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pyarrow
import pytest
from scipy import stats

from privol.encoding import strings
from privol.encoding.strings import LONGEST, SPURIOUS, absent_texts, thresholds
from privol.noise import granularity

SCALE = 5.97


def threshold(text, scale):
    return thresholds(pyarrow.array(["1", text, "\n"]), scale)[1]


@pytest.fixture
def loose(monkeypatch):
    """Thresholds that many texts pass: 200 expected for each length and alphabet."""
    monkeypatch.setattr(strings, "SPURIOUS", 200.0 * 2 * LONGEST)
    strings._least.cache_clear()
    strings._threshold.cache_clear()
    strings._law.cache_clear()
    yield
    strings._least.cache_clear()
    strings._threshold.cache_clear()
    strings._law.cache_clear()


@pytest.mark.parametrize("text", ["1", "no", ">50K", "Iris-versicolor", "x" * LONGEST, "é", "\x00", "naïve"])
def test_noise_alone_passes_as_rarely_as_stated(text):
    """Summed over all texts: at most the stated number, and lower by no more than a step of the grid."""
    size = len(text.encode())
    printable = all(32 <= ord(c) < 127 for c in text)
    texts = 95.0**size if printable else 256.0**size - 95.0**size
    share = SPURIOUS / (2 * LONGEST * texts)
    found = stats.norm.logsf(threshold(text, SCALE) / SCALE)
    assert found <= np.log(share)
    assert found > np.log(share) - 0.05
    steps = threshold(text, SCALE) / granularity(SCALE)
    assert steps % 1.0 == 0.5  # half-way between two points of the noise's grid


def test_texts_that_are_not_counted():
    assert np.isnan(threshold("", SCALE))
    assert np.isnan(threshold("x" * (LONGEST + 1), SCALE))
    assert np.isnan(threshold("é" * 33, SCALE))
    assert threshold("é" * 32, SCALE) > threshold("x" * LONGEST, SCALE)


def test_the_law_of_how_many_pass():
    """Exact against SciPy's binomial distribution, where SciPy can evaluate it."""
    for alphabet, size in ((95, 95), (95, 90), (256, 161)):
        q = stats.norm.sf(strings._threshold(alphabet, 1, SCALE) / SCALE)
        expected = stats.binom.sf(range(3), size, q)
        found = [1.0 - bound / 2**128 for bound in strings._law(alphabet, 1, size, SCALE)[:3]]
        assert found[0] == pytest.approx(expected[0], rel=1e-8)
        assert found[1] == pytest.approx(expected[1], rel=1e-2, abs=1e-15)


def test_hardly_any_text_passes_that_does_not_occur():
    bits = random.Random(1)
    assert all(not absent_texts(pyarrow.array(["yes", "no"]), SCALE, lambda: bits.getrandbits(128)) for _ in range(20))


def test_texts_that_pass_are_uniform_and_do_not_occur(monkeypatch):
    """Texts of one character: each equally often, and as often as noise alone exceeds the threshold."""
    monkeypatch.setattr(strings, "LONGEST", 1)
    monkeypatch.setattr(strings, "_threshold", lambda alphabet, length, scale: 2.5 * scale)
    strings._law.cache_clear()
    bits, found, runs = random.Random(2), [], 3000
    present = pyarrow.array(["a", "b", "é"])
    for _ in range(runs):
        passed = absent_texts(present, 1.0, lambda: bits.getrandbits(128))
        assert not set(passed) & {"a", "b", "é"}
        assert len(set(passed)) == len(passed)
        found.append(passed)
    strings._law.cache_clear()
    printable = [text for text in itertools.chain(*found) if len(text) == 1 and 32 <= ord(text) < 127]
    q = stats.norm.sf(2.5)
    expected = 93 * q * runs  # at most 7 a run: 93 q is 0.6
    assert abs(len(printable) - expected) < 5 * np.sqrt(expected)
    counts = np.array([printable.count(chr(c)) for c in range(32, 127) if chr(c) not in "ab"])
    assert stats.chisquare(counts).pvalue > 1e-6
    others = sum(map(len, found)) - len(printable)
    assert abs(others - 161 * q * runs) < 5 * np.sqrt(161 * q * runs)
