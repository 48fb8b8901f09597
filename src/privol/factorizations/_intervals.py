"""Where the rows of a user are in most nodes together: designs of intervals.

Blocks of leaves are put together from the bottom up, by the number of the user's rows in a block and the rows that are
free at both of its ends, which is all that the block beside it asks for (``docs/proofs/participation.md``, section 5).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._designs import Honaker, Smooth, Tree
from ._toeplitz import Independent

__all__ = ["squares_in_intervals"]

Table = NDArray[np.int32]

_NONE = -(1 << 29)  # no such rows; two of these and all squares, 1024**2 in each of 64 heights, fit into 32 bits
_FINEST = 256  # numbers of free rows that are distinguished
_WORK = 200_000_000  # comparisons, more or less: some tenths of a second


@dataclass(frozen=True)
class _Block:
    """A number of leaves with their largest sums of squares, ``table[c, i, j]``.

    Of c rows of a user, with i units at least before the first of them and j units at least behind the last one.
    """

    leaves: int
    table: Table


class _Blocks:
    """Blocks of leaves, and what the rows of a user move in them.

    Parameters
    ----------
    rows, separation, leaf : int
    unit : int
        Rows that free ones are counted by, rounded down: with 1 all is exact.
    """

    def __init__(self, rows: int, separation: int, leaf: int, unit: int) -> None:
        self._rows, self._separation, self._leaf, self._unit = rows, separation, leaf, unit
        self._apart = max(1, separation // unit)
        self._free = unit * np.arange(self._apart)
        self.pairs = 0  # of numbers of rows that were examined

    def single(self) -> _Block:
        """One leaf, itself not counted."""
        return self._possible(1, np.zeros((self._most(1) + 1, self._apart, self._apart), dtype=np.int32))

    def counted(self, block: _Block) -> _Block:
        """The block as a node of its own: with the square of its rows."""
        own = np.arange(len(block.table), dtype=np.int32) ** 2
        return _Block(block.leaves, block.table + own[:, None, None])

    def join(self, left: _Block | None, right: _Block) -> _Block:
        """Two blocks side by side: any division of the rows, the last on the left and the first on the right apart."""
        if left is None:
            return right
        leaves = left.leaves + right.leaves
        most = self._most(leaves)
        one, two = left.table[: most + 1], right.table[: most + 1]
        found = np.full((most + 1, self._apart, self._apart), _NONE, dtype=np.int32)
        found[0] = 0
        np.maximum(found[1 : len(two)], two[1:, self._beyond(left), :], out=found[1 : len(two)])
        np.maximum(found[1 : len(one)], one[1:, :, self._beyond(right)], out=found[1 : len(one)])
        opposite = np.ascontiguousarray(two[:, ::-1, :])  # by what is free on the left
        for a in range(1, len(one)):
            others = min(len(two) - 1, most - a)
            if others < 1:
                break
            self.pairs += others
            both = found[a + 1 : a + others + 1]
            for free in range(self._apart):
                np.maximum(both, one[a, None, :, free, None] + opposite[1 : others + 1, free, None, :], out=both)
        return self._possible(leaves, found)

    def _most(self, leaves: int) -> int:
        """Rows in consecutive leaves, at most."""
        return min(self._rows, -(-leaves * self._leaf // self._separation))

    def _beyond(self, other: _Block) -> NDArray[np.int64]:
        """Units that are to be free in a block, of 0, 1, ... at an end at which there is an empty one too."""
        units = -(-other.leaves * self._leaf // self._unit)
        return np.maximum(np.arange(self._apart) - min(units, self._apart), 0)

    def _possible(self, leaves: int, table: Table) -> _Block:
        """Without rows that do not fit."""
        between = (np.arange(1, len(table)) - 1) * self._separation
        taken = between[:, None, None] + 1 + self._free[:, None] + self._free
        table[1:][taken > min(leaves * self._leaf, 1 << 62)] = _NONE
        return _Block(leaves, table)


def squares_in_intervals(
    design: Tree | Smooth | Independent, rows: int, separation: int, leaf: int
) -> NDArray[np.int64]:
    """Bound the sum over all nodes of the squared number of a user's rows in each, for 0 to ``rows`` rows.

    Parameters
    ----------
    design : Tree, Smooth or Independent
        Of the last the nodes are the leaves.
    rows : int
        No more than fit.
    separation, leaf : int
        The smallest distance of two rows, in rows; the rows of a leaf.

    Returns
    -------
    ndarray of shape (rows + 1,), int64
        Never falling. Exact where ``separation``, in lowest terms with ``leaf``, is at most 256 and the rows are few.
        Else a bound, for which distances are counted in units, rounded down.
    """
    common = math.gcd(separation, leaf)  # rows of one such unit are never distinguished
    separation, leaf = separation // common, leaf // common
    coarse, work = _look(design, _Blocks(rows, separation, leaf, separation))
    finest = max(1, min(_FINEST, int((_WORK / max(work, 1)) ** (1 / 3))))
    unit = _unit(separation, leaf, finest, words=isinstance(design, Smooth))
    if separation // unit <= 1:
        return coarse
    return _look(design, _Blocks(rows, separation, leaf, unit))[0]


def _unit(separation: int, leaf: int, finest: int, *, words: bool) -> int:
    """Rows of the least unit that cuts a separation into at most ``finest`` parts; for trees it divides every block."""
    unit = max(1, -(-separation // finest))
    if words or leaf > unit:
        return unit
    unit = leaf
    while separation // unit > finest:
        unit *= 2
    return unit


def _look(design: Tree | Smooth | Independent, blocks: _Blocks) -> tuple[NDArray[np.int64], int]:
    """The largest sums, and what was compared for them."""
    if isinstance(design, Smooth):
        whole = _of_words(design, blocks)
    else:
        whole = _of_tree(design, blocks) if isinstance(design, Tree) else _of_leaves(design, blocks)
    return np.maximum.accumulate(whole.table[:, 0, 0].astype(np.int64)), blocks.pairs


def _of_tree(design: Tree, blocks: _Blocks) -> _Block:
    """In the tree, left halves and the blocks of the steps' bits are nodes; in Honaker's design every half is."""
    every = isinstance(design, Honaker)
    within = [blocks.single()]  # of 2**j leaves, itself not counted
    for _ in range(design.steps.bit_length() - 1):
        half = blocks.counted(within[-1])
        within.append(blocks.join(half, half if every else within[-1]))
    return _side_by_side(design.steps, [blocks.counted(block) for block in within], blocks)


def _of_leaves(design: Independent, blocks: _Blocks) -> _Block:
    """Every leaf is a node, and nothing else."""
    within = [blocks.counted(blocks.single())]
    for _ in range(design.steps.bit_length() - 1):
        within.append(blocks.join(within[-1], within[-1]))
    return _side_by_side(design.steps, within, blocks)


def _side_by_side(steps: int, parts: list[_Block], blocks: _Blocks) -> _Block:
    """All steps, of blocks of ``2**j`` leaves: those of the bits of their number, from the largest."""
    found: _Block | None = None
    for height in reversed(range(steps.bit_length())):
        if steps >> height & 1:
            found = blocks.join(found, parts[height])
    assert found is not None
    return found


def _of_words(design: Smooth, blocks: _Blocks) -> _Block:
    """Among words of p bits with k ones, those that begin with 0 are a node, if others begin with 1."""

    @functools.cache
    def within(p: int, k: int) -> _Block:
        if k in (0, p):
            return blocks.single()
        return blocks.join(blocks.counted(within(p - 1, k)), within(p - 1, k - 1))

    def first(p: int, k: int, leaves: int) -> _Block:
        """For the first words only: a node that does not end among them does not exist."""
        if leaves >= math.comb(p, k):
            return within(p, k)
        zeros = math.comb(p - 1, k)
        if leaves < zeros:
            return first(p - 1, k, leaves)
        node = blocks.counted(within(p - 1, k))
        return blocks.join(node, first(p - 1, k - 1, leaves - zeros)) if leaves > zeros else node

    return first(*design.shape, design.steps)
