"""Public ranges of numbers: one map to a public interval for all rows, independent of the data."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from ..errors import InvalidParameter, StreamError
from ..readers.files import listed
from .schema_parts import NumberColumn

__all__ = ["Ranges", "Scale"]

FloatArray = npt.NDArray[np.float64]


class Scale:
    """Maps columns of numbers from their ranges to a public interval, and clips them there.

    NaN and infinities stay as they are: clipping them would hide a row that the learner must refuse.
    """

    def __init__(self, columns: Sequence[NumberColumn]) -> None:
        self._columns = columns
        linear = [c.range if c.scaling == "linear" else None for c in columns]
        # Middle and half width are halved first, as high - low may overflow.
        self._middle = np.array([0.0 if r is None else r[0] / 2 + r[1] / 2 for r in linear])
        self._half = np.array([1.0 if r is None else r[1] / 2 - r[0] / 2 for r in linear])
        self._limit = np.array([np.inf if r is None else 1.0 for r in linear])
        self._any = any(c.range is not None for c in columns)
        self._low = np.array([-np.inf if c.range is None else c.range[0] for c in columns])
        self._high = np.array([np.inf if c.range is None else c.range[1] for c in columns])

    def linear(self, j: int) -> tuple[float, float, float]:
        """Return what is subtracted from a column, what the rest is divided by, and what the result is clipped to."""
        return float(self._middle[j]), float(self._half[j]), float(self._limit[j])

    def beyond(self, numbers: FloatArray, spared: Any = None) -> npt.NDArray[np.int64]:
        """Return how many finite numbers of each column lie beyond its range, without those of spared rows."""
        outside = (numbers < self._low) | (numbers > self._high)
        if spared is not None:
            outside[spared] = False
        if outside.any():
            outside &= np.isfinite(numbers)
        counts: npt.NDArray[np.int64] = np.count_nonzero(outside, axis=0)
        return counts

    def apply(self, numbers: npt.NDArray[Any], out: FloatArray) -> FloatArray:
        """Scale an array of shape (n, columns) into ``out``, which may be the same array, and return that."""
        if not self._any:
            if out is not numbers:
                out[...] = numbers
            return out
        with np.errstate(over="ignore", invalid="ignore"):
            # One test for infinities: a sum that contains one is not finite.
            infinite = None if np.isfinite(numbers.sum()) else np.isinf(numbers)
            kept = None if infinite is None or not infinite.any() else numbers[infinite]
            np.subtract(numbers, self._middle, out=out, dtype=np.float64)
            out /= self._half
            np.clip(out, -self._limit, self._limit, out=out)
            for j, column in enumerate(self._columns):
                if column.range is not None and column.scaling == "log":
                    low, high = column.range
                    share = np.log1p(np.clip(out[:, j], low, high) - low) / np.log1p(high - low)
                    out[:, j] = np.clip(2 * share - 1, -1, 1)
                if column.range is not None and column.onto != (-1.0, 1.0):
                    first, last = column.onto
                    moved = (first / 2 + last / 2) + out[:, j] * (last / 2 - first / 2)
                    out[:, j] = np.clip(moved, first, last)
            if kept is not None:
                out[infinite] = kept
        return out


class Ranges(Scale):
    """Maps each feature that has a public (low, high) pair to [-1, 1], and clips it there.

    Parameters
    ----------
    given : sequence of pairs (None for no range), mapping name or index -> pair, or path of a JSON file
    n_features : int
    names : tuple of str or None
        Feature names; without them a mapping uses 0-based feature numbers.
    """

    def __init__(self, given: Any, n_features: int, names: tuple[str, ...] | None) -> None:
        if isinstance(given, (str, os.PathLike)):
            given = _load(given)
        pairs: dict[int, Any] = {}
        if isinstance(given, Mapping):
            for key, pair in given.items():
                pairs[_feature(key, n_features, names)] = pair
        elif isinstance(given, Iterable):
            listed = list(given)
            if len(listed) != n_features:
                raise InvalidParameter(f"ranges must hold {n_features} pairs, one per feature, found {len(listed)}")
            pairs = dict(enumerate(listed))
        else:
            raise InvalidParameter(f"ranges must be pairs, a mapping or a path, found {given!r}")
        named = {feature: names[feature] if names else feature for feature in pairs}
        found = {feature: _pair(pair, named[feature]) for feature, pair in pairs.items() if pair is not None}
        super().__init__([NumberColumn(found.get(feature)) for feature in range(n_features)])
        #: The largest norm that a finite row can have, None if a feature has no range. It is rounded upwards once, even
        #: if the root is exact: the noise of runs depends on it.
        self.row_bound = math.nextafter(math.sqrt(n_features), math.inf) if len(found) == n_features else None

    def rows(self, X: Any, source: str, first_row: int) -> FloatArray:
        """Return a new float64 array, shape of X, with the ranged features in [-1, 1].

        float32 rows become float64, so that the same values give the same result in either type.
        """
        if sp.issparse(X):
            raise StreamError(
                f"{source}, row {first_row}: ranges need dense rows, found sparse ones "
                "(shifting a feature would fill its zeros)",
                row=first_row,
            )
        return self.apply(X, np.empty(X.shape))


def _load(path: str | os.PathLike[str]) -> Any:
    name = Path(path).name or os.fspath(path)
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as err:
        raise StreamError(f"ranges: {name} cannot be read: {err.strerror or err}") from err
    except (ValueError, RecursionError) as err:
        raise StreamError(f"ranges: {name} is not JSON: {err}") from err
    if not isinstance(found, dict):
        raise StreamError(f'ranges: {name} must hold {{"column": [low, high], ...}}')
    return found


def _feature(key: Any, n_features: int, names: tuple[str, ...] | None) -> int:
    if isinstance(key, str):
        if names is not None and key.strip() in names:
            return names.index(key.strip())
        if names is not None or not key.strip().isdecimal():
            allowed = listed(names) if names else f"feature numbers 0 to {n_features - 1} (there is no header)"
            raise StreamError(f"ranges: no feature {key!r}, allowed are {allowed}")
        key = int(key) if len(key.strip()) < 20 else -1  # no number of a feature; Python may refuse to read it
    if isinstance(key, bool) or not isinstance(key, (int, np.integer)) or not 0 <= key < n_features:
        raise StreamError(f"ranges: no feature {key!r}, allowed are 0 to {n_features - 1}")
    return int(key)


def _pair(pair: Any, feature: str | int) -> tuple[float, float]:
    try:
        low, high = (math.nan if isinstance(v, (str, bytes, bool)) else float(v) for v in pair)  # "12" is no pair
    except (TypeError, ValueError, OverflowError):  # the last: an integer beyond the doubles
        low = high = math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InvalidParameter(f"ranges of feature {feature!r} must be finite low < high, found {pair!r}")
    return low, high
