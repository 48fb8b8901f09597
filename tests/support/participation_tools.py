"""Rows of a user in a small run: the matrix of what is perturbed, and the worst pattern, by exhaustive search."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privol.factorizations import BLT, Banded, Factorization, Honaker, Independent, Smooth, SquareRoot, Tree

Matrix = NDArray[np.float64]


def strategy(design: Factorization) -> Matrix:
    """C by its definition: a row for every perturbed value, a column for every step."""
    n = design.steps
    if isinstance(design, Tree):
        heights = [(t, range(((t & -t).bit_length()) if isinstance(design, Honaker) else 0)) for t in range(1, n + 1)]
        nodes = [(t - 2**h, t) for t, hs in heights for h in (hs or [(t & -t).bit_length() - 1])]
        return np.array([[float(first <= i < end) for i in range(n)] for first, end in nodes])
    if isinstance(design, Smooth):
        words = [design.word(rank) for rank in range(n + 1)]
        used = {(w >> place + 1, place) for w in words[1:] for place in range(design.shape[0]) if w >> place & 1}
        return np.array([[float(w >> place == top << 1) for w in words[:n]] for top, place in sorted(used)])
    if isinstance(design, SquareRoot):
        first = design.coefficients()
    elif isinstance(design, Banded):
        first = np.append(design.coefficients(), np.zeros(n - design.bandwidth))
    elif isinstance(design, Independent):
        first = np.eye(1, n)[0]
    else:
        assert isinstance(design, BLT)
        theta, omega = (np.array(numbers) for numbers in design.recursion)
        first = np.array([1.0, *(float(np.sum(omega * theta ** (k - 1))) for k in range(1, n))])
    found = np.zeros((n, n))
    for i in range(n):
        found[i:, i] = first[: n - i]
    return found


def worst_squares(c: Matrix, rows: int, separation: int, leaf: int) -> tuple[Matrix, list[tuple[int, ...]]]:
    """Largest squared norm of a sum of columns for 0, 1, ... rows at a given distance, and their positions (from 0).

    All rows move in the same direction, which is worst where no entry is negative.
    """
    gram, total = c.T @ c, c.shape[1] * leaf
    best, places = np.zeros(rows + 1), [()] * (rows + 1)

    def look(first: int, chosen: tuple[int, ...], square: float) -> None:
        if square > best[len(chosen)]:
            best[len(chosen)], places[len(chosen)] = square, chosen
        if len(chosen) == rows:
            return
        for row in range(first, total):
            step = row // leaf
            more = gram[step, step] + 2.0 * sum(gram[step, other // leaf] for other in chosen)
            look(row + separation, (*chosen, row), square + more)

    look(0, (), 0.0)
    return best, places
