"""The integer samplers in rational arithmetic and mpmath: slow, plain, and sharing nothing with the package."""

from __future__ import annotations

from bisect import bisect_left
from fractions import Fraction
from functools import cache

import mpmath

DIGITS = 120


@cache  # the distribution of a scale, whose sums are computed once for all tests
class Law:
    """exp(-k^2 / (2 s^2)) or exp(-|k| / s), cut into the blocks that docs/proofs/discrete.md describes."""

    def __init__(self, scale, *, square):
        self.scale, self.square = Fraction(scale), square
        self.cumulative, self.limits = cache(self._cumulative), cache(self._limits)
        self.width = 1
        while self.width * 32 <= self.scale:
            self.width *= 2

    def exponent(self, k):
        return (k / self.scale) ** 2 / 2 if self.square else abs(k) / self.scale

    def _cumulative(self, digits=DIGITS):
        """P(block <= j) for j = 0, 1, ... until nothing remains at the given number of digits."""
        with mpmath.workdps(digits):
            weights = []
            while not weights or weights[-1] > mpmath.mpf(10) ** -digits:
                x = self.exponent(len(weights) * self.width)
                weights.append(mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator))
            if self.width == 1:
                weights[0] /= 2
            total, sums = mpmath.fsum(weights), []
            for weight in weights:
                sums.append((sums[-1] if sums else 0) + weight / total)
            return sums

    def _limits(self, bits=63):
        with mpmath.workdps(DIGITS):
            # at the end the sum may be 1 to all digits; the probability is below 1
            return [min(int(mpmath.floor(mpmath.ldexp(p, bits))), 2**bits - 1) for p in self.cumulative()]

    def draw(self, words, n, decide):
        """n values from words in order, and how many words they used."""
        values, reader = [], Reader(words)
        while len(values) < n:
            position = reader.used
            word = reader.word()
            negative, prefix = word & 1, word >> 1
            block = bisect_left(self.limits(), prefix)
            if self.limits()[block] == prefix:
                block = decide(prefix, position)
            k, kept = block * self.width, True
            if self.width > 1:
                second = reader.word()
                k += second % self.width
                kept = reader.exponential(self.exponent(k) - self.exponent(block * self.width), second >> 40)
            if kept and not (k == 0 and negative and self.width > 1):
                values.append(-k if negative else k)
        return values, reader.used


class Reader:
    def __init__(self, words):
        self.words, self.used = words, 0

    def word(self):
        self.used += 1
        return int(self.words[self.used - 1])

    def below(self, x, digits=0, count=0):
        """Whether a uniform number that starts with these digits is below x."""
        while True:
            if digits + 1 <= x * 2**count:
                return True
            if digits >= x * 2**count:
                return False
            digits, count = digits << 64 | self.word(), count + 64

    def bernoulli_exp(self, x, *start):
        k = 1
        while self.below(x, *(start if k == 1 else ())) and self.below(Fraction(1, k)):
            k += 1
        return k % 2 == 1

    def exponential(self, x, lead):
        """Accept with probability exp(-x); `lead`: the first 24 digits of the number compared with x's last part."""
        if x <= Fraction(lead, 1 << 24):
            return True
        while x > 1:
            if not self.bernoulli_exp(Fraction(1)):
                return False
            x -= 1
        return self.bernoulli_exp(x, lead, 24)
