"""Centred features: the means of a learnt column's features, and the norms that remain after subtracting them.

Means are computed from the noisy histograms that taught the column, so they cost nothing. Subtracting them removes the
part of the gradient that is common to all rows; the intercept then carries what that part contributed.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..readers.written import Written
from .crosses import width_of
from .knots import KnotsColumn
from .lines import Cells
from .schema_parts import Drop, Hashed, Knots, NumberColumn

if TYPE_CHECKING:
    from .schema import Schema

__all__ = ["MOST_DENSE_FEATURES", "means_of_hashed", "means_of_knots", "without_means_if_wide"]

FloatArray = npt.NDArray[np.float64]

#: Centred rows are dense: with more features than this they stay uncentred, most of them 0.
MOST_DENSE_FEATURES = 1024
_DIGITS = 4  # more would be noise
_LARGEST = Fraction(sys.float_info.max)  # a rounder number above it would be no double


def means_of_hashed(column: Hashed, counts: FloatArray, rows: int, missing: float) -> tuple[float, ...]:
    """Return the means of the features of a column of categories.

    Parameters
    ----------
    column : Hashed
    counts : ndarray of shape (buckets,)
        Rows of each bucket, with noise.
    rows : int
        The number of rows counted.
    missing : float
        Share of the rows without a cell, 0 to 1.
    """
    shares = np.clip(counts / rows, 0.0, 1.0)
    own = shares[list(column.kept)]
    usual = 0.0 if column.reference is None else float(shares[column.reference])
    others = max(1.0 - missing - usual - float(own.sum()), 0.0)
    return _rounded([*own, *[others / max(column.rest, 1)] * column.rest], missing, column.missing)


def means_of_knots(
    column: Knots, cells: Cells, counts: FloatArray, missing: float, beyond: tuple[float, float]
) -> tuple[float, ...]:
    """Return the means of the features of a column of numbers or times; those of cycles are assumed to be 0.

    Parameters
    ----------
    column : Knots
    cells, counts : Cells, ndarray of shape (m,)
        Where its numbers are, and noisy counts of them that are at least 0.
    missing : float
        Share of the rows without a number, 0 to 1.
    beyond : (float, float)
        Noisy counts of the rows below the first cell and above the last; for ``shape="apart"`` only these matter.
    """
    there = 1.0 - missing
    if column.shape == "apart":
        below, above = (max(count, 0.0) for count in beyond)
        apart = max(there - column.share, 0.0)
        total = below + above
        found = [apart * below / total, apart * above / total] if total > 0.0 else [apart / 2.0] * 2
        return _rounded(found, missing, column.missing)
    plain = KnotsColumn("", replace(column, timestamp=False, cycles=(), missing="zero"), 0, 0, Written(()))
    inside = plain.written_out(
        np.arange(len(cells), dtype=np.int32), _likely(cells, column.timestamp), np.zeros(len(cells), dtype=bool)
    )
    shares = counts / max(float(counts.sum()), 1e-300)
    sums = np.zeros(len(plain.feature_names))
    np.add.at(sums, inside.places, inside.weights * shares[:, None])
    return _rounded([*(there * sums), *[0.0] * (2 * len(column.cycles))], missing, column.missing)


def _likely(cells: Cells, timestamp: bool) -> FloatArray:
    """Return a likely number in each cell: the roundest, as columns of few values have; for times the middle."""
    if timestamp:
        return cells.low / 2.0 + cells.high / 2.0
    return np.array([_roundest(low, high) for low, high in zip(cells.low.tolist(), cells.high.tolist(), strict=True)])


def _roundest(low: float, high: float) -> float:
    """Return the number from low to below high with the fewest decimal digits."""
    if low == high or low <= 0.0 < high:
        return low if low == high else 0.0
    last = math.floor(math.log10(max(abs(low), abs(high))))
    for exponent in range(last, last - 17, -1):
        step = Fraction(10) ** exponent
        below = math.floor(Fraction(low) / step)  # perhaps low itself, if it is a decimal
        for found in (below * step, (below + 1) * step):
            if abs(found) <= _LARGEST and found <= high and low <= float(found) < high:
                return float(found)
    return low


def _rounded(means: Sequence[float], missing: float, policy: str) -> tuple[float, ...]:
    found = [*means, missing] if policy == "indicator" else means
    return tuple(round(float(mean), _DIGITS) + 0.0 for mean in found)


def without_means_if_wide(schema: Schema) -> Schema:
    """Return a schema whose rows stay sparse, if centring would make rows of very many features dense."""
    columns = dict(schema.columns)
    width = sum(map(_features_of, columns.values()))
    width += sum((width_of(columns[left]) or 0) * (width_of(columns[right]) or 0) for left, right in schema.crosses)
    if width <= MOST_DENSE_FEATURES:
        return schema
    plain = tuple(
        (name, replace(column, means=()) if isinstance(column, Hashed | Knots) else column)
        for name, column in schema.columns
    )
    return replace(schema, columns=plain)


def _features_of(column: Any) -> int:
    if isinstance(column, Hashed | Knots):
        return column.n_features
    if isinstance(column, NumberColumn):
        return 1 + (column.missing == "indicator")
    return 0 if isinstance(column, Drop) else width_of(column) or 0
