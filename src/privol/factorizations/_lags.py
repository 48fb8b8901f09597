"""How far from each other rows of a user are in steps that are neither a multiple nor a part of their distance.

Rows a distance d apart are in steps at least ``floor(d / leaf)`` apart, but not all of them can be that near at once:
where one row gains on the steps another one loses. Which of them do is looked for here
(``docs/proofs/participation.md``, section 4).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["ProductAtLag", "least_loss"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

#: From a lag and from numbers of rows of C that are left: the inner products of two columns.
ProductAtLag = Callable[[int, IntArray], FloatArray]

_TOGETHER = 9  # consecutive rows whose distances are exact
_EXCESS = 3  # steps beyond the smallest distance that are distinguished


def least_loss(product: ProductAtLag, steps: int, rows: int, separation: int, leaf: int) -> FloatArray:
    """Return by how much the products of 1, 2, ... ``rows`` rows fall short of those at the least of distances.

    Parameters
    ----------
    product : callable
        Falls with the lag and grows with the rows that are left, or bounds what does.
    steps, rows : int
        No more rows than fit.
    separation, leaf : int
        Without a common divisor, and neither of them 1.

    Returns
    -------
    ndarray of shape (rows,), float64
        The least sum over pairs of rows, wherever they stand: of a product at ``floor(d / leaf)`` steps less that at
        the steps between them. Pairs of rows with eight or more between them lose nothing.
    """
    nearest = [k * separation // leaf for k in range(rows + _TOGETHER)]
    first = np.array(nearest[:rows], dtype=np.int64)  # steps that the rows may be in
    losses = np.zeros((rows, _TOGETHER, _EXCESS + 1))
    for between in range(1, min(_TOGETHER, rows)):
        best = product(nearest[between], steps - first[between:])
        for excess in range(1, _EXCESS + 1):
            lag = nearest[between] + excess
            left = steps - np.maximum(first[between:], first[:-between] + lag)
            found = product(lag, np.maximum(left, 1))
            losses[between:, between, excess] = best - np.where(left > 0, found, 0.0)
    before, after, excesses = _ways(rows, separation, leaf, nearest)
    least = np.full(len(excesses), np.inf)
    least[0] = 0.0
    found = np.zeros(rows)
    ranks = np.arange(_TOGETHER)
    for j in range(1, rows):
        reached = np.full(len(excesses), np.inf)
        np.minimum.at(reached, after, least[before])
        least = reached + losses[j][ranks, excesses].sum(axis=1)
        found[j] = least.min()
    return found


def _ways(rows: int, separation: int, leaf: int, nearest: list[int]) -> tuple[IntArray, IntArray, IntArray]:
    """Where a row may be after the one before it: from which state to which, and the excess of each state.

    A state is the row's place in its step and the steps from the last rows to it. The next row is as near as the
    distance allows, or at the beginning of the step behind that: other places are never worse for anybody.
    """
    whole, rest = divmod(separation, leaf)
    states: dict[tuple[int, tuple[int, ...]], int] = {(0, ()): 0}
    known, row_of = list(states), [0]
    ways: list[tuple[int, int]] = []
    k = 0
    while k < len(known):
        place, lags = known[k]
        if row_of[k] < rows - 1:
            over, next_place = divmod(place + rest, leaf)
            for lag, start in {(whole + over, next_place), (whole + over + 1, 0)}:
                state = (start, (lag, *lags)[: _TOGETHER - 1])
                if state not in states:
                    states[state] = len(known)
                    known.append(state)
                    row_of.append(row_of[k] + 1)
                ways.append((k, states[state]))
        k += 1
    excesses = np.zeros((len(known), _TOGETHER), dtype=np.int64)
    for k, (_, lags) in enumerate(known):
        for between, steps in enumerate(np.cumsum(np.array(lags, dtype=np.int64)), 1):
            excesses[k, between] = min(int(steps) - nearest[between], _EXCESS)
    pairs = np.array(ways, dtype=np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1], excesses
