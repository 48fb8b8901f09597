"""Columns of numbers as functions of them: between knots, for cells of any text."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..readers.written import Written
from .cells import CellCounts
from .labels import coded
from .schema_parts import MISSING, Knots
from .texts import compact

__all__ = ["KnotsColumn", "Points", "numbers_in"]

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


class Points(NamedTuple):
    """The entries of a column in some rows."""

    places: npt.NDArray[np.int32]  # (n, entries): features, ascending in a row
    weights: FloatArray  # (n, entries): their values
    missing: BoolArray
    unknown: BoolArray  # texts that are no number
    clipped: BoolArray


def _distinct_numbers(texts: Any, written: Written) -> FloatArray:
    """The numbers of an array of strings, NaN for what is none."""
    import pyarrow

    try:
        found = written.numbers(texts).to_numpy(zero_copy_only=False)
        return np.asarray(found, dtype=np.float64)
    except pyarrow.ArrowInvalid:  # a text that is no number, or one that Arrow reads otherwise: each by itself
        return np.fromiter((_number(text, written) for text in texts.to_pylist()), np.float64, len(texts))


def _number(text: str | None, written: Written) -> float:
    try:
        found = None if text is None else written.number(text)
    except ValueError:
        return np.nan
    return np.nan if found is None else found


def numbers_in(column: Any, written: Written) -> FloatArray:
    """Return the numbers of a dictionary-coded column of texts, shape (n,), NaN for each cell that is none."""
    indices, _ = coded(column)
    return np.append(_distinct_numbers(column.dictionary, written), np.nan)[indices]


class KnotsColumn:
    """Where the cells of a column with knots belong. Each cell by itself; none is refused."""

    def __init__(self, name: str, column: Knots, feature: int, entry: int, written: Written) -> None:
        self.name = name
        self.feature = feature
        self.entry = entry
        self.entries = 2 if column.shape == "spline" else 1
        self._written = written
        self._shape = column.shape
        self._knots = np.array(column.knots)
        shown = [f"{knot:.6g}" for knot in column.knots]
        names = {
            "spline": [f"{name}~{knot}" for knot in shown],
            "linear": [name],
            "bins": [f"{name}[{low},{high})" for low, high in itertools.pairwise(shown)],
        }[column.shape]
        self._flag = feature + len(names) if column.missing == "indicator" else None
        if self._flag is not None:
            names.append(f"{name}={MISSING}")
        self.feature_names = names

    def points(self, column: Any) -> Points:
        """Return the entries of the cells of a dictionary-coded column."""
        column = compact(column)
        indices, texts = coded(column)
        values = np.append(_distinct_numbers(column.dictionary, self._written), np.nan)
        none = np.isnan(values)
        places, weights = self._of(np.where(none, self._knots[0], values))
        weights[none] = 0.0
        if self._flag is not None:
            places[none, -1] = self._flag
            weights[none, -1] = 1.0
        unknown = none & np.fromiter(map(self._is_text, texts), bool, len(texts))
        clipped = (values < self._knots[0]) | (values > self._knots[-1])
        return Points(places[indices], weights[indices], none[indices], unknown[indices], clipped[indices])

    def _is_text(self, text: str | None) -> bool:
        """Whether a cell that is no number is not missing either."""
        return text is not None and text.strip() not in self._written.missing and text.strip().lower() != "nan"

    def count(self, counts: CellCounts, found: Points, spared: BoolArray | None) -> None:
        """Add the cells that are not taken as they are."""
        for kind, cells in (
            ("missing", found.missing & ~found.unknown), ("unknown", found.unknown), ("clipped", found.clipped),
        ):  # fmt: skip
            counts.add(self.name, kind, np.count_nonzero(cells if spared is None else cells & ~spared))

    def _of(self, values: FloatArray) -> tuple[npt.NDArray[np.int32], FloatArray]:
        knots, last = self._knots, len(self._knots) - 1
        values = np.clip(values, knots[0], knots[-1])
        if self._shape == "linear":
            # halves: the difference of two doubles may be none
            part = (values / 2 - knots[0] / 2) / (knots[-1] / 2 - knots[0] / 2)
            places = np.full((len(values), 1), self.feature, dtype=np.int32)
            return places, np.clip(2.0 * part - 1.0, -1.0, 1.0)[:, None]
        left = np.clip(np.searchsorted(knots, values, side="right") - 1, 0, last - 1)
        places = (self.feature + left).astype(np.int32)[:, None]
        if self._shape == "bins":
            return places, np.ones((len(values), 1))
        low, high = knots[left] / 2, knots[left + 1] / 2
        part = np.clip((values / 2 - low) / (high - low), 0.0, 1.0)
        return np.concatenate([places, places + 1], axis=1), np.stack([1.0 - part, part], axis=1)
