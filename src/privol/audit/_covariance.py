"""The view of an observer of private running sums: the covariance of their noise, by design."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from ..factorizations import BLT, Banded, Factorization, Honaker, Smooth, SquareRoot, Tree
from ._bounds import FloatArray

__all__ = ["noise_covariance"]


def noise_covariance(chosen: Factorization) -> FloatArray:
    """``B B^T``: covariance of the noise of all prefix sums, in units of sigma squared, shape (steps, steps)."""
    n = chosen.steps
    rows: Sequence[Mapping[Hashable, float]]
    if isinstance(chosen, Tree):  # Honaker's is a tree
        rows = _intervals(chosen)
    elif isinstance(chosen, Smooth):
        words = [f"{chosen.word(step):b}" for step in range(1, n + 1)]
        height = chosen.shape[0]
        words = [word.zfill(height) for word in words]
        rows = [{word[:place]: 1.0 for place in range(height) if word[place] == "1"} for word in words]
    else:
        series = _series(chosen)
        encode = np.array([[series[i - j] if i >= j else 0.0 for j in range(n)] for i in range(n)])
        decode = np.cumsum(np.linalg.inv(encode), axis=0)
        return np.asarray(decode @ decode.T)
    drawn = {node: k for k, node in enumerate(dict.fromkeys(node for row in rows for node in row))}
    decode = np.zeros((n, len(drawn)))
    for t, row in enumerate(rows):
        for node, weight in row.items():
            decode[t, drawn[node]] = weight
    return np.asarray(decode @ decode.T)


def _series(chosen: Factorization) -> FloatArray:
    """First column of the Toeplitz matrix C."""
    if isinstance(chosen, SquareRoot):
        return np.asarray(chosen.coefficients())
    if isinstance(chosen, BLT):
        theta, omega = np.array(chosen.theta), np.array(chosen.omega)
        return np.array([1.0, *(float(omega @ theta**k) for k in range(chosen.steps - 1))])
    if isinstance(chosen, Banded):
        return np.append(chosen.coefficients(), np.zeros(chosen.steps - chosen.bandwidth))
    return np.asarray(np.eye(chosen.steps)[0])


def _intervals(chosen: Tree) -> list[dict[Hashable, float]]:
    """Weights of the nodes (height, end) in every prefix sum."""
    estimates: dict[tuple[int, int], dict[Hashable, float]] = {}
    rows = []
    for step in range(1, chosen.steps + 1):
        for j in range((step & -step).bit_length()):
            own: dict[Hashable, float] = {(j, step): 1.0}
            if j and isinstance(chosen, Honaker):
                share = 2**j / (2 * 2**j - 1)
                own = {(j, step): share}
                for end in (step - 2 ** (j - 1), step):
                    for node, weight in estimates[j - 1, end].items():
                        own[node] = own.get(node, 0.0) + (1.0 - share) * weight
            estimates[j, step] = own
        row: dict[Hashable, float] = {}
        end = step
        while end:
            row |= estimates[(end & -end).bit_length() - 1, end]  # disjoint intervals: no node twice
            end &= end - 1
        rows.append(row)
    return rows
