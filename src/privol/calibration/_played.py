"""Expected loss of a learner's models above that of the same learner without noise: docs/proofs/regret.md.

Each row is predicted with the model released last. That model lags behind the secret one by the rows since then, and
differs from it by noise; each distance costs at most a row's slope times the distance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from ..errors import InvalidParameter

__all__ = ["behind", "chunks_of_rows", "mean_length", "unproved"]

FloatArray = NDArray[np.float64]
Rows = NDArray[np.int64]

_CHUNK = 1 << 16


def mean_length(dim: int) -> float:
    """Mean L2 norm of ``dim`` independent standard normal variables: at most the root of ``dim``."""
    return math.sqrt(2.0) * math.exp(float(gammaln(0.5 * (dim + 1)) - gammaln(0.5 * dim)))


def unproved(why: str) -> InvalidParameter:
    """Return the error for a bound that is not proved."""
    return InvalidParameter(f"no bound of the regret is proved {why}")


def chunks_of_rows(rows: int) -> Iterator[Rows]:
    """Yield the row numbers from 1, in pieces of bounded size."""
    for start in range(1, rows + 1, _CHUNK):
        yield np.arange(start, min(start + _CHUNK, rows + 1), dtype=np.int64)


def behind(
    rows: int,
    *,
    learnt: Callable[[Rows], Rows],
    moved: Callable[[Rows], FloatArray],
    off: Callable[[Rows], FloatArray],
    slope: Callable[[Rows], FloatArray],
    width: float,
) -> float:
    """Bound of what rows lose by models that are old and noisy.

    Parameters
    ----------
    rows : int
    learnt : callable
        Of rows: how many rows the model has learnt that each is played with, fewer than its own number; not falling.
    moved : callable
        Of rows: how far the secret model moves by each, at most.
    off : callable
        Of numbers of rows learnt, ascending and above 0: how far noise puts the model off, in the mean.
    slope : callable
        Of rows: bound of the gradient of each.
    width : float
        Diameter of the set, which no two models are further apart than.

    Returns
    -------
    float

    Notes
    -----
    Cost O(rows), memory flat.
    """
    total, before = 0.0, 0.0  # distance moved by the secret model before the chunk
    earlier = 0.0  # distance moved up to the model for the previous chunk's last row; later rows have at least that
    for chunk in chunks_of_rows(rows):
        start = int(chunk[0])
        way = before + np.concatenate([[0.0], np.cumsum(moved(chunk))])  # entry k: before row start + k
        known = learnt(chunk)
        within = known - start + 1
        of_known = np.where(within >= 0, way[np.maximum(within, 0)], earlier)
        distinct, where = np.unique(known, return_inverse=True)
        noise = np.zeros(len(distinct))
        positive = distinct > 0
        if positive.any():
            noise[positive] = off(distinct[positive])
        apart = np.minimum(width, noise[where] + (way[:-1] - of_known))
        total += float(np.sum(slope(chunk) * apart))
        before, earlier = float(way[-1]), float(of_known[-1])
    return total
