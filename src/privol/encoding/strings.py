"""A histogram over all texts: finds the frequent ones without a list of candidates and without a delta.

Counting the labels that occur and releasing those above a threshold needs a delta, because a label that only one row
has may pass. Here the histogram is over *all* texts up to a length, whether they occur or not. The mechanism adds
Gaussian noise to every one of these counts and releases the texts whose noisy count exceeds their threshold. That is
post-processing of the Gaussian mechanism, so its mu is the whole price. Texts that do not occur have only noise; as
many of them are drawn as would have passed. Hardly ever is there one, because longer texts, of which there are more,
have higher thresholds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import mpmath
import numpy as np
import numpy.typing as npt

from ..noise import granularity

__all__ = ["LONGEST", "absent_texts", "label_deviations", "thresholds"]

IntArray = npt.NDArray[np.int64]

#: Texts with more UTF-8 bytes are outside the histogram.
LONGEST = 64
#: Expected number of texts that pass without occurring, over all lengths together.
SPURIOUS = 1e-6
_DIGITS = 60
_PRINTABLE = 95  # characters of ASCII from the blank to the tilde
_BITS = 256


def _kinds(texts: Any) -> tuple[IntArray, IntArray]:
    """Return the kind of each text, twice its length in bytes plus 1 if all are printable, and the texts of each kind.

    Texts outside the histogram count as one byte too long.
    """
    import pyarrow

    texts = texts.cast(pyarrow.large_string())
    _, offsets, content = texts.buffers()
    if not len(texts) or content is None:
        each = np.ones(len(texts), dtype=np.int64)
        return each, np.bincount(each, minlength=2 * LONGEST + 4)
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    data = np.frombuffer(content, np.uint8)[ends[0] : ends[-1]]
    strange = np.flatnonzero((data - np.uint8(32)) >= _PRINTABLE)  # hardly ever any
    each = 2 * np.minimum(np.diff(ends), LONGEST + 1) + 1
    # an empty text begins where the next one does but has no byte: the last text that begins there has it
    each[np.unique(np.searchsorted(ends, strange + ends[0], side="right") - 1)] -= 1
    return each, np.bincount(each, minlength=2 * LONGEST + 4)


def _alphabet(text: bytes) -> int:
    return _PRINTABLE if all(32 <= byte < 127 for byte in text) else _BITS


def _size(alphabet: int, length: int) -> int:
    """How many texts there are: over the printable characters, or with at least one other byte."""
    printable: int = _PRINTABLE**length
    return printable if alphabet == _PRINTABLE else int(_BITS**length) - printable


@cache
def _least(alphabet: int, length: int) -> float:
    """Standard deviations that noise alone exceeds for the expected number of texts of that length."""
    with mpmath.workdps(_DIGITS):
        share = mpmath.log(mpmath.mpf(SPURIOUS) / (2 * LONGEST * _size(alphabet, length)))
        start = mpmath.sqrt(-2 * share)
        return float(mpmath.findroot(lambda z: mpmath.log(mpmath.erfc(z / mpmath.sqrt(2)) / 2) - share, start))


@cache
def _threshold(alphabet: int, length: int, scale: float) -> float:
    """The same threshold as a count.

    It is half-way between two points of the noise's lattice: a rounded sum is above it exactly if the ideal sum is.
    """
    step = granularity(scale)
    return (math.ceil(_least(alphabet, length) * scale / step) + 0.5) * step


def label_deviations(length: int) -> float:
    """Return how many standard deviations of the noise a text of ``length`` printable characters must exceed."""
    return _least(_PRINTABLE, length)


def thresholds(texts: Any, scale: float) -> npt.NDArray[np.float64]:
    """Return what the noisy counts of texts must exceed, for noise of deviation ``scale``; NaN: a text has no count.

    Parameters
    ----------
    texts : pyarrow.StringArray or pyarrow.LargeStringArray, without nulls
    scale : float
    """
    each, counts = _kinds(texts)
    least = np.full(len(counts), np.nan)
    for kind in np.flatnonzero(counts).tolist():
        if 0 < kind // 2 <= LONGEST:
            least[kind] = _threshold(_PRINTABLE if kind % 2 else _BITS, kind // 2, scale)
    found: npt.NDArray[np.float64] = least[each]
    return found


def absent_texts(present: Any, scale: float, draw: Callable[[], int]) -> list[str]:
    """Return the texts that pass although they do not occur.

    Parameters
    ----------
    present : pyarrow.StringArray or pyarrow.LargeStringArray, without nulls
        The texts that occur, each once; these have noise of their own.
    scale : float
        Standard deviation of the noise.
    draw : callable
        Returns 128 independent uniform bits a call, from the noise source.

    Notes
    -----
    Of the ``N`` texts of a length that do not occur, the number that passes is binomial, with the probability ``q``
    that noise alone is above the threshold; each text is equally likely. The distribution is evaluated in 60 digits
    from 128 bits, and cut off at 8 texts, which changes it by less than 1e-60.
    """
    counts = _kinds(present)[1].tolist()
    taken: set[bytes] = set()
    found: list[str] = []
    for alphabet in (_PRINTABLE, _BITS):
        for length in range(1, LONGEST + 1):
            size = _size(alphabet, length) - counts[2 * length + (alphabet == _PRINTABLE)]
            passed = _passed(alphabet, length, size, scale, draw)
            if passed and not taken:  # hardly ever
                taken.update(text.encode() for text in present.to_pylist())
            found.extend(_one(alphabet, length, taken, draw) for _ in range(passed))
    return found


@cache
def _law(alphabet: int, length: int, size: int, scale: float) -> tuple[int, ...]:
    """Cumulative probabilities that 0 to 7 texts pass, in units of 2^-128, rounded down."""
    with mpmath.workdps(_DIGITS):
        q = mpmath.erfc(mpmath.mpf(_threshold(alphabet, length, scale)) / (scale * mpmath.sqrt(2))) / 2
        none = mpmath.exp(size * mpmath.log1p(-q))
        total, term, found = mpmath.mpf(0), none, []
        for k in range(8):
            total += term
            found.append(int(mpmath.floor(total * 2**128)))
            term = term * (size - k) / (k + 1) * q / (1 - q)
        return tuple(found)


def _passed(alphabet: int, length: int, size: int, scale: float, draw: Callable[[], int]) -> int:
    if size <= 0:
        return 0
    u = draw()
    return sum(u >= bound for bound in _law(alphabet, length, size, scale))


def _one(alphabet: int, length: int, taken: set[bytes], draw: Callable[[], int]) -> str:
    """Draw a text that does not occur, uniformly; bytes that are not UTF-8 are escaped."""
    while True:
        bits = 0
        for _ in range((length * 8) // 64 + 2):  # 64 bits more than needed: the remainder is uniform up to 2^-64
            bits = (bits << 128) | draw()
        digits = []
        for _ in range(length):
            bits, digit = divmod(bits, alphabet)
            digits.append(digit)
        text = bytes(digit + 32 if alphabet == _PRINTABLE else digit for digit in digits)
        if text not in taken and _alphabet(text) == alphabet:
            taken.add(text)
            return text.decode("utf-8", "backslashreplace")
