"""The designs on intervals, and the least error of any factorization."""

from __future__ import annotations

import functools
import itertools
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._rounding import UP
from .._validate import integer

__all__ = ["MAX_STEPS", "Factorization", "Honaker", "Smooth", "Tree", "error_bound"]

MAX_STEPS = 2**48


@dataclass(frozen=True)
class Factorization(ABC):
    """One design for ``steps`` rows: public numbers, immutable.

    Attributes
    ----------
    steps : int
        Rows after which a prefix sum is used; 1 to 2**48.
    """

    design: ClassVar[str]
    steps: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", integer(steps=self.steps, at_least=1, at_most=MAX_STEPS))

    @property
    def discount(self) -> float:
        """Factor of a row's weight in the sum at every step."""
        return 1.0

    @property
    def window(self) -> int | None:
        """Steps after which a row leaves the sum; None: it never does."""
        return None

    def weight(self, step: int) -> float:
        """Sum of the weights of all rows in the sum after ``step``."""
        return float(self._step(step))

    @property
    @abstractmethod
    def column_norm(self) -> float:
        """Largest L2 norm of a column of C, rounded up: what one row of norm 1 can move."""

    @abstractmethod
    def row_norm(self, step: int) -> float:
        """L2 norm of row ``step`` of B: standard deviation of the prefix after ``step`` rows, in units of sigma.

        Parameters
        ----------
        step : int
            1 to ``steps``.
        """

    @abstractmethod
    def mean_error(self) -> float:
        """Root of the mean over the steps of the variance per coordinate, in units of ``sensitivity / mu``."""

    @abstractmethod
    def max_error(self) -> float:
        """Largest standard deviation per coordinate over the steps, in units of ``sensitivity / mu``."""

    @abstractmethod
    def draws(self, step: int) -> int:
        """Noise vectors drawn at ``step``."""

    @property
    @abstractmethod
    def memory(self) -> int:
        """Most vectors of the row's shape that are kept from one step to the next, apart from the prefix itself."""

    def _step(self, step: int) -> int:
        return integer(step=step, at_least=1, at_most=self.steps)


@dataclass(frozen=True)
class Tree(Factorization):
    """The binary tree: a prefix adds one noisy node for every set bit of its length.

    A node covers ``2**j`` rows and is used only if it ends at an odd multiple of its size; the first row lies in one
    such node of every height up to ``log2(steps)``, and no row in more.
    """

    design = "tree"

    @property
    def column_norm(self) -> float:
        """Root of the number of heights, ``floor(log2(steps)) + 1``: nodes ending beyond the last step do not exist."""
        return math.sqrt(self.steps.bit_length()) * UP

    def row_norm(self, step: int) -> float:
        """Root of the number of set bits of ``step``."""
        return math.sqrt(self._variance(self._step(step)))

    def mean_error(self) -> float:
        """See :meth:`Factorization.mean_error`; cost O(log steps)."""
        total = math.fsum(self._node_variance(j) * _with_bit(self.steps, j) for j in range(self.steps.bit_length()))
        return math.sqrt(self.steps.bit_length() * total / self.steps)

    def max_error(self) -> float:
        """See :meth:`Factorization.max_error`; cost O(log**2 steps)."""
        # The worst prefix is the last one, or one in which a bit is cleared to set all lower bits.
        worst = [self.steps, *((self.steps >> j ^ 1) << j | (1 << j) - 1 for j in _bits(self.steps))]
        return math.sqrt(self.steps.bit_length() * max(self._variance(t) for t in worst))

    def draws(self, step: int) -> int:
        """One: the node that ends at ``step`` and at no larger node's end."""
        self._step(step)
        return 1

    @property
    def memory(self) -> int:
        """One node sum and its noise for every height."""
        return 2 * self.steps.bit_length()

    def _variance(self, step: int) -> float:
        return math.fsum(self._node_variance(j) for j in _bits(step))

    def _node_variance(self, height: int) -> float:
        return 1.0


@dataclass(frozen=True)
class Honaker(Tree):
    """The binary tree whose nodes are estimated from all noisy nodes below them (best linear unbiased)."""

    design = "honaker"

    def row_norm(self, step: int) -> float:
        """Root of the sum over the set bits j of ``step`` of ``2**j / (2**(j+1) - 1)``."""
        return super().row_norm(step)

    def draws(self, step: int) -> int:
        """One for every node that ends at ``step``."""
        return (self._step(step) & -step).bit_length()

    def _node_variance(self, height: int) -> float:
        return 1.0 / (2.0 - 0.5**height)


@dataclass(frozen=True)
class Smooth(Factorization):
    """The smooth binary tree: prefixes sit at words of ``height`` bits of which ``ones`` are set.

    The prefix after t rows is read at the word of rank t in increasing order, record i sits at rank i - 1, and every
    set bit stands for the node of all words with the same bits before it and 0 there: a prefix adds ``ones`` nodes.
    ``(height, ones)`` is the pair with ``binomial(height, ones) > steps`` of least error (smallest height first).
    """

    design = "smooth"

    @property
    def shape(self) -> tuple[int, int]:
        """``(height, ones)``."""
        return _best_shape(self.steps)

    def word(self, rank: int) -> int:
        """The word of the given rank, 0 to ``steps``, as an integer whose most significant bit comes first."""
        rank = integer(rank=rank, at_least=0, at_most=self.steps)
        height, ones = self.shape
        word = 0
        for position in reversed(range(height)):
            below = math.comb(position, ones)  # words that have a 0 here
            if rank >= below:
                rank -= below
                word |= 1 << position
                ones -= 1
        return word

    @property
    def column_norm(self) -> float:
        """``sqrt(height - ones)``: the first record lies in one node for every 0 of its word."""
        height, ones = self.shape
        return math.sqrt(height - ones) * UP

    def row_norm(self, step: int) -> float:
        """``sqrt(ones)``, the same at every step."""
        self._step(step)
        return math.sqrt(self.shape[1])

    def mean_error(self) -> float:
        """See :meth:`Factorization.mean_error`: the same as the largest."""
        return self.max_error()

    def max_error(self) -> float:
        """See :meth:`Factorization.max_error`."""
        height, ones = self.shape
        return math.sqrt(ones * (height - ones))

    def draws(self, step: int) -> int:
        """The set bits from the first one that differs from the previous word; at the first step all."""
        word = self.word(self._step(step))
        if step == 1:
            return self.shape[1]
        return (word & (1 << (word ^ self.word(step - 1)).bit_length()) - 1).bit_count()

    @property
    def memory(self) -> int:
        """The noise of the current word's nodes, and the sums of the nodes under way."""
        return 2 * self.shape[1]


def error_bound(steps: int) -> float:
    """Least mean (hence least largest) error of any factorisation, in units of ``sensitivity / mu``; cost O(steps).

    Parameters
    ----------
    steps : int
        1 to 2**32.

    Returns
    -------
    float
        Sum of the singular values of A divided by ``steps``.
    """
    steps = integer(steps=steps, at_least=1, at_most=2**32)
    parts = []
    for start in range(0, steps, 1 << 20):
        j = np.arange(start, min(start + (1 << 20), steps))
        parts.append(float(np.sum(0.5 / np.sin((2 * j + 1) * (math.pi / (4 * steps + 2))))))
    return math.fsum(parts) / steps


@functools.lru_cache(maxsize=256)
def _best_shape(steps: int) -> tuple[int, int]:
    """Height and ones of the words with the least error of which there are more than ``steps``."""
    best, found = math.inf, (0, 0)
    for height in itertools.count(2):
        if height - 1 >= best:
            return found
        for ones in range(1, height // 2 + 1):
            if ones * (height - ones) < best and math.comb(height, ones) > steps:
                best, found = ones * (height - ones), (height, ones)
    raise AssertionError


def _bits(number: int) -> list[int]:
    return [j for j in range(number.bit_length()) if number >> j & 1]


def _with_bit(last: int, bit: int) -> int:
    """How many of the numbers 1 to ``last`` have the bit set."""
    whole, rest = divmod(last + 1, 2 << bit)
    return (whole << bit) + max(0, rest - (1 << bit))
