"""The ideal noise of a word and of the digits after it, from the definitions, with several hundred bits.

The twin uses nothing of privol except the layout of the words: sign, then 63 binary digits of p = P(|Z'| > |Z|), the
next 128 digits at level 1, and so on; a vector's words are those of its Gaussian coordinates, then those of its factor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import mpmath
import numpy as np

MP = mpmath.MPContext()
MP.prec = 520
LEVELS = 3
MASK = (1 << 63) - 1
HAIR = MP.mpf(2) ** -400  # more than the digits after the third level can move a sum (except for words of zeros)

Extra = Callable[[int, int], tuple[int, int]]  # (coordinate or word, level) -> two words


def tail(word: int, extra: Callable[[int], tuple[int, int]]) -> Any:
    """P, by the digits of the word and of three levels."""
    digits, bits = word & MASK, 63
    for level in range(1, LEVELS + 1):
        a, b = extra(level)
        digits, bits = (digits << 128) | (a << 64) | b, bits + 128
    return (2 * MP.mpf(digits) + 1) / MP.mpf(2) ** (bits + 1)


def gaussian(p: Any) -> Any:
    return MP.sqrt(2) * MP.erfinv(1 - p)


def minus_log(p: Any) -> Any:
    return -MP.log(p)


SIZES = {"gaussian": gaussian, "laplace": minus_log, "exponential": minus_log}
TAILS = {
    "gaussian": lambda z: MP.erfc(z / MP.sqrt(2)),
    "laplace": lambda z: MP.exp(-z),
    "exponential": lambda z: MP.exp(-z),
}


def ideal(word: int, extra: Callable[[int], tuple[int, int]], law: str) -> Any:
    """Z."""
    z = SIZES[law](tail(word, extra))
    return -z if word >> 63 and law != "exponential" else z


def ideal_values(words: Sequence[int], extra: Extra, law: str) -> list[Any]:
    """Z of each word; the first is that of coordinate 0."""
    return [ideal(word, partial(extra, j), law) for j, word in enumerate(words)]


def words_of_vector(kind: str, dim: int) -> int:
    return dim if kind == "sphere" else dim + (dim + 1) // 2 + (dim % 2 == 0)


def ideal_vector(kind: str, dim: int, words: Sequence[int], extra: Extra) -> list[Any]:
    """Z / norm(Z), or sqrt(2 G) Z with G ~ Gamma((dim + 1) / 2), a sum of exponentials and half a square."""
    z = ideal_values(words[:dim], extra, "gaussian")
    if kind == "sphere":
        norm = MP.sqrt(sum(v * v for v in z))
        return [v / norm for v in z]
    whole = dim + (dim + 1) // 2
    twice = 2 * sum(ideal(words[i], partial(extra, i), "exponential") for i in range(dim, whole))
    twice += sum(ideal(words[i], partial(extra, i), "gaussian") ** 2 for i in range(whole, whole + (dim % 2 == 0)))
    return [MP.sqrt(twice) * v for v in z]


def nearest(x: float, scale: float, z: Any, step: float) -> float:
    """The multiple of step nearest to the real number x + scale z."""
    place = (MP.mpf(float(x)) + MP.mpf(scale) * z) / MP.mpf(step)
    assert abs(abs(place - MP.floor(place)) - MP.mpf("0.5")) > HAIR, "the digits read here do not decide"
    return float(MP.nint(place)) * step


def nearest_all(x: Any, scale: float, ideals: Sequence[Any], step: float) -> np.ndarray:
    return np.array([nearest(a, scale, z, step) for a, z in zip(np.ravel(x).tolist(), ideals, strict=True)])


class AtRow:
    """The words of one address row of a source, and the digits after them."""

    def __init__(self, source: Any, stream: int, row: int) -> None:
        self.source, self.at = source, {"stream": stream, "row": row}

    def words(self, n: int) -> list[int]:
        pairs = [self.source.words(level=0, block=j, **self.at) for j in range((n + 1) // 2)]
        return [word for pair in pairs for word in pair][:n]

    def __call__(self, coordinate: int, level: int) -> tuple[int, int]:
        return self.source.words(level=level, block=coordinate, **self.at)


class Chosen:
    """Digits after given words: those set for a word, otherwise zeros for some levels, then those of a generator."""

    def __init__(self, seed: int, zeros: int = 0) -> None:
        self.seed, self.zeros = seed, zeros
        self.known: dict[tuple[int, int], tuple[int, int]] = {}
        self.asked: set[tuple[int, int]] = set()

    def __call__(self, coordinate: int, level: int) -> tuple[int, int]:
        self.asked.add((coordinate, level))
        if (coordinate, level) not in self.known:
            rng = np.random.default_rng((self.seed, coordinate, level))
            a, b = rng.integers(0, 1 << 64, 2, dtype=np.uint64).tolist()
            self.known[coordinate, level] = (0, 0) if level <= self.zeros else (a, b)
        return self.known[coordinate, level]

    def set(self, coordinate: int, p: Any, levels: int) -> int:
        """Set the first digits of a coordinate to those of p, up to a level; return its word without the sign."""
        digits = int(MP.floor(p * MP.mpf(2) ** (63 + 128 * levels)))
        for level in range(levels, 0, -1):
            pair = digits & ((1 << 128) - 1)
            self.known[coordinate, level] = (pair >> 64, pair & ((1 << 64) - 1))
            digits >>= 128
        return digits


def to_boundary(x: float, scale: float, z: Any, step: float, places: int) -> float:
    """A double near x whose sum with scale z is as close to the midpoint of two lattice points as doubles allow."""
    target = (MP.floor(MP.mpf(x) / step) + places + MP.mpf("0.5")) * step
    return float(target - MP.mpf(scale) * z)
