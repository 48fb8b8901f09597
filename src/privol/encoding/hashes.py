"""Hashes of texts, which decide the bucket of a category: the same on every machine and in every version."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import murmurhash3_32

__all__ = ["HASH_SEED", "hash_of", "hashes_of"]

WordArray = npt.NDArray[np.uint32]

HASH_SEED = 0
"""Seed of the murmurhash3 (32 bits, x86) of the UTF-8 text, modulo the number of buckets."""

# Longer texts are hashed one by one: hashing all at once takes as many steps as the longest has words.
_SHORT = 64
_FIRST, _SECOND = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)


def hash_of(text: str) -> int:
    """Return the 32-bit hash of a text without surrounding blanks."""
    return int(murmurhash3_32(text.encode(), seed=HASH_SEED, positive=True))


def hashes_of(texts: Any) -> WordArray:
    """Return the :func:`hash_of` of each string of an array; the strings have no surrounding blanks.

    Parameters
    ----------
    texts : pyarrow.StringArray, length n
        For a null the result is arbitrary.
    """
    _, offsets, content = texts.buffers()
    if content is None or not len(texts):
        return np.zeros(len(texts), dtype=np.uint32)
    ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    starts, sizes = ends[:-1].astype(np.int64) - ends[0], np.diff(ends)
    # words are read from where they begin, so a few bytes after the last text are needed
    data = np.append(np.frombuffer(content, np.uint8)[ends[0] : ends[-1]], np.zeros(4, dtype=np.uint8))
    found = np.full(len(texts), HASH_SEED, dtype=np.uint32)
    order = np.argsort(-sizes, kind="stable")  # texts that have a further word come first
    order = order[np.searchsorted(-sizes[order], -_SHORT) :]
    begin, size = starts[order], sizes[order]
    state, words = found[order], size // 4
    for k in range(int(words.max(initial=0))):
        n = int(np.searchsorted(-words, -k))  # these have more than k words
        state[:n] ^= _mixed(_word(data, begin[:n] + 4 * k))
        state[:n] = _turned(state[:n], 13) * np.uint32(5) + np.uint32(0xE6546B64)
    left = (size % 4).astype(np.uint32)
    # the last word has the bytes that are left; with none it is 0, which mixes to 0
    state ^= _mixed(_word(data, begin + 4 * words) & ((np.uint32(1) << (np.uint32(8) * left)) - np.uint32(1)))
    state ^= size.astype(np.uint32)
    state ^= state >> np.uint32(16)
    state *= np.uint32(0x85EBCA6B)
    state ^= state >> np.uint32(13)
    state *= np.uint32(0xC2B2AE35)
    state ^= state >> np.uint32(16)
    found[order] = state
    for i in np.flatnonzero(sizes > _SHORT).tolist():
        found[i] = murmurhash3_32(data[starts[i] : starts[i] + sizes[i]].tobytes(), seed=HASH_SEED, positive=True)
    return found


def _word(data: npt.NDArray[np.uint8], at: npt.NDArray[Any]) -> WordArray:
    """Return the four bytes at each place as a little-endian number."""
    word: WordArray = data[at].astype(np.uint32)
    for k in range(1, 4):
        word |= data[at + k].astype(np.uint32) << np.uint32(8 * k)
    return word


def _turned(words: WordArray, bits: int) -> WordArray:
    turned: WordArray = (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))
    return turned


def _mixed(words: WordArray) -> WordArray:
    return _turned(words * _FIRST, 15) * _SECOND
