"""Samplers of every kind from one seed, and values whose noisy sums need many digits."""

from __future__ import annotations

import numpy as np

from privol._core._noise import values_of_words
from privol.noise import (
    STREAM_SAMPLES,
    DiscreteGaussian,
    DiscreteLaplace,
    Exponential,
    Gaussian,
    L2Laplace,
    Laplace,
    Sphere,
    granularity,
)

LAWS = {"gaussian": Gaussian, "laplace": Laplace, "exponential": Exponential}
VECTORS = {"l2_laplace": L2Laplace, "sphere": Sphere}
SEED = 12
INTEGERS = {"gaussian 5": (DiscreteGaussian, 5), "laplace 900": (DiscreteLaplace, 900)}


def integers(name):
    cls, scale = INTEGERS[name]
    return cls(scale=scale, random_state=SEED)


def make(name):
    if name in INTEGERS:
        return integers(name)
    if name in LAWS:
        return LAWS[name](scale=1.0, random_state=SEED)
    return VECTORS[name](scale=1.0, dim=3, random_state=SEED)


def half_way(source, number):
    """Five values that a key's noise, from a given number on, takes too close to a midpoint for doubles."""
    words = []
    for n in range(number, number + 5):
        row, coordinate = divmod(n, 4096)
        words.append(source.words(stream=STREAM_SAMPLES, level=0, block=coordinate // 2, row=row)[coordinate % 2])
    z, _ = values_of_words(np.array(words, dtype=np.uint64))
    return 0.5 * granularity(1.0) - z
