"""The origin of the random bits: sources of addressed cryptographic words."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .._core._noise import Source
from .._validate import integer
from ..errors import InvalidParameter, SourceFailure

__all__ = [
    "KEY_BYTES",
    "STREAM_ENCODING",
    "STREAM_GENERATOR",
    "STREAM_INTEGERS",
    "STREAM_METRICS",
    "STREAM_OBJECTIVE",
    "STREAM_RELEASES",
    "STREAM_REPORTS",
    "STREAM_SAMPLES",
    "Source",
    "make_source",
]

#: Bytes of a key: that of AES-256.
KEY_BYTES = 32

#: Noise streams: the first part of an address, so that two uses of a key never share words.
STREAM_RELEASES = 0
STREAM_SAMPLES = 1
STREAM_METRICS = 2
STREAM_GENERATOR = 3
STREAM_INTEGERS = 4
STREAM_REPORTS = 5
STREAM_OBJECTIVE = 6
STREAM_ENCODING = 7

_SOURCE_BITS = "AES-256 in counter mode (OpenSSL), key from the operating system's entropy"
_SEEDED_BITS = "AES-256 in counter mode (OpenSSL), key derived from a known seed"

RandomState = None | int | np.random.SeedSequence | np.random.BitGenerator | np.random.Generator


def make_source(random_state: Any = None) -> Source:
    """Return a new noise source.

    Parameters
    ----------
    random_state : None, int, SeedSequence, BitGenerator, Generator or RandomState
        ``None``: a fresh key from the operating system, which nobody sees. Anything else: the key is drawn from that
        generator (an int seeds PCG64), so the noise is reproducible and **not private**.

    Returns
    -------
    Source
        Cannot be copied or pickled, and refuses in a forked child process.

    Raises
    ------
    SourceFailure
        If the operating system gives no entropy.
    """
    return source_of(new_key(random_state), private=random_state is None)


def source_of(key: bytes, *, private: bool) -> Source:
    """Return the source of a key from :func:`new_key`: two sources of one key draw the same noise."""
    return Source(key, private=private, description=_SOURCE_BITS if private else _SEEDED_BITS)


def new_key(random_state: Any = None) -> bytes:
    """Draw the bytes from which :func:`make_source` makes a source: SECRET, to be kept or used, never shown."""
    if random_state is None:
        try:
            return os.urandom(KEY_BYTES)
        except (OSError, NotImplementedError) as error:
            raise SourceFailure(f"the operating system gives no entropy for a noise key: {error}") from error
    bits: Any
    if isinstance(random_state, np.random.Generator):
        bits = random_state.bit_generator
    elif isinstance(random_state, np.random.RandomState):
        bits = random_state._bit_generator
    elif isinstance(random_state, np.random.BitGenerator):
        bits = random_state
    elif isinstance(random_state, np.random.SeedSequence):
        bits = np.random.PCG64(random_state)
    elif isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool):
        bits = np.random.PCG64(integer(random_state=random_state, at_least=0))
    else:
        raise InvalidParameter(
            "random_state must be None, an integer of at least 0, a SeedSequence, a BitGenerator or a Generator, "
            f"found {random_state!r}"
        )
    # 32 bits per word for any word size of the generator: every BitGenerator fills at least the low half
    words = np.asarray(bits.random_raw(KEY_BYTES // 4), dtype=np.uint64) & np.uint64(0xFFFFFFFF)
    return words.astype("<u4").tobytes()
