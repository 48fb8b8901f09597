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
        negative, positive = self.counts
        return _area(negative, positive, int(negative[_HALF]) * int(positive[_HALF]))


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
        if not len(places):
            return None
        positive = places >= _BINS
        keys = np.sort(2 * (places - positive * _BINS) + positive)  # by bins, then by classes
        bins = keys >> 1
        ends = np.append(np.flatnonzero(bins[1:] != bins[:-1]), len(bins) - 1)  # the last row of each bin
        rows = np.diff(ends, prepend=-1)
        of_positive = np.diff(np.cumsum(keys & 1)[ends], prepend=0)
        of_negative = rows - of_positive
        zero = int((of_negative * of_positive)[bins[ends] == _HALF].sum())
        return _area(of_negative, of_positive, zero)


def _bins_of(scores: FloatArray) -> NDArray[np.int64]:
    bits = np.ascontiguousarray(np.abs(scores)).view(np.int64) >> (52 - _MANTISSA_BITS)
    magnitude = np.clip(bits - (_FIRST - 1), 1, _HALF)
    bins: NDArray[np.int64] = _HALF + np.sign(scores).astype(np.int64) * magnitude
    return bins


def _area(negative: NDArray[Any], positive: NDArray[Any], zero: int) -> tuple[float, float] | None:
    """Area and bound from the counts of both classes in ascending bins; ``zero``: pairs in the bin of the score 0."""
    below: NDArray[Any] = np.cumsum(negative)  # and in the bin itself
    pairs = int(below[-1]) * int(positive.sum())
    if pairs == 0:
        return None
    if pairs >= 2**62:  # integers, which are faster, would overflow
        negative, positive, below = (counts.astype(np.float64) for counts in (negative, positive, below))
    # for integers einsum is faster than @
    same, ordered = (float(np.einsum("i,i", positive, counts)) for counts in (negative, below))
    return min((ordered - 0.5 * same) / pairs, 1.0), 0.5 * (same - zero) / pairs
