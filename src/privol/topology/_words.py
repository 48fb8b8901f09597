"""Public random words: a function of a public seed, a purpose and a number; the same everywhere."""

from __future__ import annotations

from enum import IntEnum
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from .._validate import integer

__all__ = ["MAX_ROUND", "Purpose", "Words", "below", "checked_seed", "public_words", "threshold"]

Words = NDArray[np.uint64]

MAX_ROUND = 2**63 - 1
_WORD = 2**64


class Purpose(IntEnum):
    """The highest word of the counter: the purpose of a block. Never renumber: graphs and rounds would change."""

    ERDOS_RENYI = 1
    GEOMETRIC = 2
    SMALL_WORLD = 3
    SUBGRAPH = 16
    NEIGHBORS = 17
    MATCHING = 18
    GOSSIP = 19
    FAILURES = 20


def checked_seed(seed: int) -> int:
    """Return the seed, 0 to 2**128 - 1."""
    return integer(seed=seed, at_least=0, at_most=2**128 - 1)


def public_words(seed: int, purpose: int, number: int, count: int, item: int = 0) -> Words:
    """Return 64-bit words of Philox 4x64-10 (Salmon et al. 2011), key ``seed``, counter (0, item, number, purpose).

    NumPy promises the raw stream of its bit generators for ever, unlike what its ``Generator`` makes of it: only raw
    words are used, compared and sorted as integers.
    """
    counter = item << 64 | number << 128 | purpose << 192  # a list of large integers would become doubles
    return np.asarray(np.random.Philox(key=seed, counter=counter).random_raw(count), dtype=np.uint64)


def threshold(probability: float) -> int:
    """Return ``probability * 2**64``, correctly rounded (half to even): a word is below it with that probability."""
    return round(Fraction(probability) * _WORD)


def below(words: Words, limit: int) -> NDArray[np.bool_]:
    """Return which words are below a limit of 0 to 2**64, the latter included."""
    if limit >= _WORD:
        return np.ones(words.shape, dtype=np.bool_)
    return np.asarray(words < np.uint64(limit))
