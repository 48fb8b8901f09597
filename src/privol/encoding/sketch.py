"""A public random sketch of sparse rows: many features share few places, each with a sign, by hashing its number.

This is the count sketch of Charikar, Chen and Farach-Colton (2002) with one row of counters; Weinberger et al. (2009),
"Feature hashing for large scale multitask learning", equation 1, use it for the same purpose. The hash is the same on
every machine and in every version, so a row's sketch is a function of that row alone and costs nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import murmurhash3_32

from .hashes import HASH_SEED

__all__ = ["OF_KEPT", "OF_SKETCH", "places_of", "sketched"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

#: Norms of the kept features and of the sketch: four fifths and one fifth of a row's square, rounded down.
OF_KEPT, OF_SKETCH = 0.8944271909999159, 0.4472135954999579


def places_of(features: npt.NDArray[Any], width: int) -> tuple[IntArray, FloatArray]:
    """Return the place of each feature in a sketch, and its sign.

    Parameters
    ----------
    features : ndarray of int, shape (n,)
        Numbers from 0 to 2^31 - 1.
    width : int
        From 1 to 2^30.

    Notes
    -----
    The number is hashed by murmurhash3 (32 bits, x86, seed 0), as four bytes, lowest first. The lowest bit of the hash
    is the sign (1: plus), and the other bits modulo the width are the place.
    """
    words = murmurhash3_32(features.astype(np.int32), seed=HASH_SEED, positive=True)
    return (words >> np.uint32(1)).astype(np.int64) % width, np.where(words & np.uint32(1), 1.0, -1.0)


def sketched(
    data: npt.NDArray[Any], features: npt.NDArray[Any], rows: IntArray, n: int, width: int
) -> tuple[FloatArray, IntArray, IntArray]:
    """Return the entries of the sketch of each row: values, places and rows; no value is 0.

    Parameters
    ----------
    data : ndarray, shape (m,)
        Finite.
    features, rows : ndarray of int, shape (m,)
        Rows ascend, and features ascend within each row: features that share a place are added in their order, whatever
        other rows there are.
    n, width : int
        Rows and places.

    Notes
    -----
    Values are in units of the largest value of their row, so no sum overflows.
    """
    places, signs = places_of(features, width)
    values = data.astype(np.float64)
    largest = np.zeros(n)
    np.maximum.at(largest, rows, np.abs(values))
    values *= signs
    values /= np.where(largest > 0.0, largest, 1.0)[rows]
    cells, which = np.unique(rows * width + places, return_inverse=True)
    sums = np.zeros(len(cells))
    np.add.at(sums, which, values)  # one by one, in order
    there = sums != 0.0
    cells = cells[there]
    return sums[there], cells % width, cells // width
