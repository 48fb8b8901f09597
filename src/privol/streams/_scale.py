"""Numbers of public ranges to a public interval: the same map for every row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ._schema_parts import NumberColumn

__all__ = ["Scale"]

FloatArray = npt.NDArray[np.float64]


class Scale:
    """Maps columns of numbers from their ranges, in place; NaN and infinities stay for the learner to judge."""

    def __init__(self, columns: Sequence[NumberColumn]) -> None:
        self._columns = columns
        linear = [c.range if c.scaling == "linear" else None for c in columns]
        # The middle and half width are halved first: high - low may overflow.
        self._middle = np.array([0.0 if r is None else r[0] / 2 + r[1] / 2 for r in linear])
        self._half = np.array([1.0 if r is None else r[1] / 2 - r[0] / 2 for r in linear])
        self._limit = np.array([np.inf if r is None else 1.0 for r in linear])
        self._any = any(c.range is not None for c in columns)
        self._low = np.array([-np.inf if c.range is None else c.range[0] for c in columns])
        self._high = np.array([np.inf if c.range is None else c.range[1] for c in columns])

    def beyond(self, numbers: FloatArray, spared: Any = None) -> npt.NDArray[np.int64]:
        """Return how many finite numbers of each column lie beyond its range, but for those of spared rows."""
        outside = (numbers < self._low) | (numbers > self._high)
        if spared is not None:
            outside[spared] = False
        if outside.any():
            outside &= np.isfinite(numbers)
        counts: npt.NDArray[np.int64] = np.count_nonzero(outside, axis=0)
        return counts

    def apply(self, numbers: FloatArray) -> None:
        """Scale an array of shape (n, columns)."""
        if not self._any:
            return
        with np.errstate(over="ignore", invalid="ignore"):
            # One look for infinities: their sum with anything is none that is finite.
            infinite = None if np.isfinite(numbers.sum()) else np.isinf(numbers)
            kept = None if infinite is None or not infinite.any() else numbers[infinite]
            numbers -= self._middle
            numbers /= self._half
            np.clip(numbers, -self._limit, self._limit, out=numbers)
            for j, column in enumerate(self._columns):
                if column.range is not None and column.scaling == "log":
                    low, high = column.range
                    share = np.log1p(np.clip(numbers[:, j], low, high) - low) / np.log1p(high - low)
                    numbers[:, j] = np.clip(2 * share - 1, -1, 1)
                if column.range is not None and column.onto != (-1.0, 1.0):
                    first, last = column.onto
                    moved = (first / 2 + last / 2) + numbers[:, j] * (last / 2 - first / 2)
                    numbers[:, j] = np.clip(moved, first, last)
            if kept is not None:
                numbers[infinite] = kept
