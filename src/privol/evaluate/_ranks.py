"""Area under the ROC curve in flat memory: scores counted by class in fine bins. Not private."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ScoreHistogram"]

FloatArray = NDArray[np.float64]

# A bin is a sign and the leading bits of a magnitude: its exponent, from 2^-20 to 2^11, and 10 bits of its mantissa. So
# a bin is at most a thousandth of its scores wide, wherever they lie, and the map is monotone. Smaller magnitudes share
# the first bin of their sign, larger ones the last.
_MANTISSA_BITS = 10
_OCTAVES = 32
_HALF = _OCTAVES << _MANTISSA_BITS
_FIRST = (1023 - 20) << _MANTISSA_BITS


class ScoreHistogram:
    """Scores of two classes in 65,537 bins.

    Pairs of a positive and a negative row in different bins are in the right order. Pairs in one bin are counted as
    ties, one half, where the truth is 0, 1/2 or 1; so the area is wrong by at most half their share, which
    :meth:`area` returns. The bin of the score 0 holds nothing else: its pairs are ties indeed.
    """

    def __init__(self) -> None:
        self.counts: NDArray[np.int64] = np.zeros((2, 2 * _HALF + 1), dtype=np.int64)

    def add(self, scores: FloatArray, positive: NDArray[np.bool_]) -> None:
        """Count finite or infinite scores (not NaN), each of the positive or the negative class."""
        bits = np.ascontiguousarray(np.abs(scores)).view(np.int64) >> (52 - _MANTISSA_BITS)
        magnitude = np.clip(bits - (_FIRST - 1), 1, _HALF)
        bins = _HALF + np.sign(scores).astype(np.int64) * magnitude
        np.add.at(self.counts.reshape(-1), bins + positive * self.counts.shape[1], 1)

    def merge(self, other: ScoreHistogram) -> None:
        """Add the counts of another histogram, and empty that one."""
        self.counts += other.counts
        other.counts[:] = 0

    def area(self) -> tuple[float, float] | None:
        """Return the area under the ROC curve and a bound of its error; ``None`` without rows of both classes."""
        used = np.flatnonzero(self.counts.any(axis=0))
        negative, positive = self.counts[:, used].astype(np.float64)
        pairs = float(negative.sum()) * float(positive.sum())
        if pairs == 0.0:
            return None
        below = np.cumsum(negative) - negative
        same: Any = negative * positive
        area = float(np.sum(positive * below) + 0.5 * np.sum(same)) / pairs
        return min(area, 1.0), 0.5 * float(np.sum(same[used != _HALF])) / pairs
