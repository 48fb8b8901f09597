"""Public ranges of the features: an affine map to [-1, 1] that looks at no data."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from ..errors import InvalidParameter, StreamError
from ._files import listed

__all__ = ["Ranges"]


class Ranges:
    """Maps each feature that has a public (low, high) pair to [-1, 1] and clips it there.

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
        # The middle and half width are halved first: high - low may overflow.
        self._middle = np.zeros(n_features)
        self._half = np.ones(n_features)
        self._ranged = np.zeros(n_features, dtype=bool)
        for feature, pair in pairs.items():
            if pair is None:
                continue
            low, high = _pair(pair, names[feature] if names else feature)
            self._middle[feature] = low / 2 + high / 2
            self._half[feature] = high / 2 - low / 2
            self._ranged[feature] = True
        self._limit = np.where(self._ranged, 1.0, np.inf)
        #: The largest norm that a finite row can have, None where a feature has no range; one rounding, upwards.
        self.row_bound = math.nextafter(math.sqrt(n_features), math.inf) if self._ranged.all() else None

    def apply(self, X: Any, source: str, first_row: int) -> npt.NDArray[np.float64]:
        """Return a new float64 array, shape of X, with the ranged features in [-1, 1].

        NaN and infinities are kept as they are: clipping would hide a row that
        the learner must refuse. float32 rows become float64, so that the same
        values give the same result in either type.
        """
        if sp.issparse(X):
            raise StreamError(
                f"{source}, row {first_row}: ranges need dense rows, found sparse ones "
                "(shifting a feature would fill its zeros)",
                row=first_row,
            )
        with np.errstate(over="ignore", invalid="ignore"):
            out: npt.NDArray[np.float64] = np.subtract(X, self._middle, dtype=np.float64)
            out /= self._half
            np.clip(out, -self._limit, self._limit, out=out)
        infinite = np.isinf(X)
        if infinite.any():
            out[infinite] = X[infinite]
        return out


def _load(path: str | os.PathLike[str]) -> Any:
    name = Path(path).name or os.fspath(path)
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as err:
        raise StreamError(f"ranges: {name} cannot be read: {err.strerror or err}") from err
    except ValueError as err:
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
        key = int(key)
    if isinstance(key, bool) or not isinstance(key, (int, np.integer)) or not 0 <= key < n_features:
        raise StreamError(f"ranges: no feature {key!r}, allowed are 0 to {n_features - 1}")
    return int(key)


def _pair(pair: Any, feature: str | int) -> tuple[float, float]:
    try:
        low, high = (float(v) for v in pair)
    except (TypeError, ValueError):
        low = high = math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InvalidParameter(f"ranges of feature {feature!r} must be finite low < high, found {pair!r}")
    return low, high
