"""Area under the ROC curve in flat memory: scores are counted by class in fine bins. Not private."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["RecentScores", "ScoreHistogram"]

FloatArray = NDArray[np.float64]

# A bin is a sign and the leading bits of a magnitude: its exponent, from 2^-20 to 2^11, and 10 bits of its mantissa. So
# a bin's width is at most a thousandth of its scores, wherever they lie, and the map is monotone. Smaller magnitudes
# share the first bin of their sign, larger ones the last.
_MANTISSA_BITS = 10
_OCTAVES = 32
_HALF = _OCTAVES << _MANTISSA_BITS
_FIRST = (1023 - 20) << _MANTISSA_BITS
_BINS = 2 * _HALF + 1


class ScoreHistogram:
    """Scores of two classes in 65,537 bins.

    Pairs of a positive and a negative row in different bins are in the right order. Pairs in one bin are counted as
    ties, one half, where the truth is 0, 1/2 or 1; so the area is wrong by at most half their share, which
    :meth:`area` returns. The bin of the score 0 holds nothing else: its pairs are ties indeed.
    """

    def __init__(self) -> None:
        self.counts: NDArray[np.int64] = np.zeros((2, _BINS), dtype=np.int64)

    def add(self, scores: FloatArray, positive: NDArray[np.bool_]) -> None:
        """Count finite or infinite scores (not NaN), each of the positive or the negative class."""
        self.count(_bins_of(scores) + positive * _BINS)

    def count(self, places: NDArray[np.int64]) -> None:
        """Count rows, given their places in :attr:`counts` by class and bin."""
        np.add.at(self.counts.reshape(-1), places, 1)

    def area(self) -> tuple[float, float] | None:
        """Return the area under the ROC curve and a bound of its error; ``None`` without rows of both classes."""
        used = np.flatnonzero(self.counts[0] | self.counts[1])
        return _area(self.counts[:, used], used)


class RecentScores:
    """Scores since the last point of a curve: they are few, so their places in a histogram are stored."""

    def __init__(self) -> None:
        self._places: list[NDArray[np.int64]] = []

    def add(self, scores: FloatArray, positive: NDArray[np.bool_]) -> None:
        """As :meth:`ScoreHistogram.add`."""
        self._places.append(_bins_of(scores) + positive * _BINS)

    def hand_to(self, histogram: ScoreHistogram) -> tuple[float, float] | None:
        """Count all of them in a histogram, forget them, and return :meth:`ScoreHistogram.area` for them alone."""
        places = np.concatenate([np.empty(0, dtype=np.int64), *self._places])
        self._places = []
        histogram.count(places)
        used, own = np.unique(places % _BINS, return_inverse=True)
        counts = np.bincount(own + (places >= _BINS) * len(used), minlength=2 * len(used))
        return _area(counts.reshape(2, -1), used)


def _bins_of(scores: FloatArray) -> NDArray[np.int64]:
    bits = np.ascontiguousarray(np.abs(scores)).view(np.int64) >> (52 - _MANTISSA_BITS)
    magnitude = np.clip(bits - (_FIRST - 1), 1, _HALF)
    bins: NDArray[np.int64] = _HALF + np.sign(scores).astype(np.int64) * magnitude
    return bins


def _area(counts: NDArray[np.int64], bins: NDArray[np.int64]) -> tuple[float, float] | None:
    """Area and bound from the counts of both classes in the bins that are not empty, in order."""
    negative, positive = counts.astype(np.float64)
    pairs = float(negative.sum()) * float(positive.sum())
    if pairs == 0.0:
        return None
    below = np.cumsum(negative) - negative
    same: Any = negative * positive
    area = float(np.sum(positive * below) + 0.5 * np.sum(same)) / pairs
    return min(area, 1.0), 0.5 * float(np.sum(same[bins != _HALF])) / pairs
