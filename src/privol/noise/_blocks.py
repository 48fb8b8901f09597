"""Cumulative probabilities of the blocks of integers, to any number of bits: integer arithmetic with proved bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

__all__ = ["BlockWeights"]


@dataclass(frozen=True)
class BlockWeights:
    """Blocks j = 0, 1, ... with a probability in proportion to their weights.

    docs/proofs/discrete.md derives the error bounds that the comments state.

    Parameters
    ----------
    first : Fraction
        The weight of block j is ``exp(-first j**2)`` where `square`, else ``exp(-first j)``.
    square : bool
    lone_zero : bool
        Block 0 is the integer 0 alone, which has one sign where the others have two, and so half the weight.
    """

    first: Fraction
    square: bool
    lone_zero: bool

    def limits(self, bits: int) -> Iterator[int]:
        """Yield ``floor(2**bits P(block <= j))`` for j = 0, 1, ...; not to be read beyond a ``2**bits - 1``."""
        guard = 96
        sums, low, high = self._sums(bits + guard)
        j = 0
        while True:
            least = (sums[j] << bits) // high
            most = min(((sums[j] + 3 * (j + 1) ** 3) << bits) // low, (1 << bits) - 1)  # a probability is below 1
            if least == most:
                yield least
                j += 1
            elif guard < 1 << 16:
                guard *= 2
                sums, low, high = self._sums(bits + guard)
            else:
                raise ArithmeticError(f"the probability of the blocks up to {j} is too near a number of {bits} bits")

    def decide(self, prefix: int, extra: Callable[[int], tuple[int, int]]) -> int:
        """Return the block of a uniform number whose first 63 binary digits do not decide it.

        Parameters
        ----------
        prefix : int
            The first 63 digits.
        extra : callable
            ``extra(level)``, level = 1, 2, ...: the next 128 digits as two words.

        Returns
        -------
        int
            The block in which every number with the digits read so far lies.
        """
        bits, level = 63, 0
        while True:
            level += 1
            a, b = extra(level)
            prefix, bits = (prefix << 128) | (a << 64) | b, bits + 128
            for block, limit in enumerate(self.limits(bits)):
                if prefix < limit:
                    return block
                if prefix == limit:
                    break

    def _sums(self, p: int) -> tuple[list[int], int, int]:
        """Partial sums of the weights and bounds of the whole sum, in units of 2**-p.

        Each partial sum is at most the true one, and below it by at most ``3 (j + 1)**3``.
        """
        ratio = _exp_below(self.first, p)
        step = _exp_below(2 * self.first, p) if self.square else 1 << p
        term, total = 1 << p, 0
        if self.lone_zero:
            total -= 1 << (p - 1)
        sums = []
        while term:
            total += term
            sums.append(total)
            term = (term * ratio) >> p
            ratio = (ratio * step) >> p
        n = len(sums)
        # the first omitted weight is at most 3 n^2 units, and each later one at most exp(-first) of the previous one
        rest = 3 * n**2 * (2 + int(1 / self.first))
        return sums, total, total + 3 * n**3 + rest


def _exp_below(x: Fraction, p: int) -> int:
    """Return an integer E with ``E <= 2**p exp(-x) < E + 2``, for x > 0."""
    if x >= p:
        return 0
    n, d = x.numerator, x.denominator
    q = p + 64
    term, total, i = 1 << q, 0, 0
    while term:
        total += term
        i += 1
        term = term * n // (d * i)
    return max((1 << (p + q)) // total - 1, 0)
