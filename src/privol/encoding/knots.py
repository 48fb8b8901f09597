"""Columns of numbers become functions between knots, for cells of any text."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core._text import (
    MISSING,
    NUMBER,
    STATE_CLIPPED,
    STATE_MISSING,
    STATE_SPARED,
    STATE_UNKNOWN,
    TIME,
    DenseRows,
    Hats,
)
from ..readers.written import Written
from . import cosines
from .cells import CellCounts
from .schema_parts import Knots
from .times import CYCLES, TURN, cycle_values, time_text
from .told import Told
from .toml import toml_number

__all__ = ["Entries", "KnotsColumn", "numbers_in"]

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int32]

# What a cell is, if not a number between the outer knots.
_MISSING, _UNKNOWN, _CLIPPED, _SPARED = STATE_MISSING, STATE_UNKNOWN, STATE_CLIPPED, STATE_SPARED


def numbers_in(column: Any, written: Written, *, pointed: bool = False) -> FloatArray:
    """Return the numbers of a column of texts, shape (n,), NaN for each cell that is not a number.

    ``pointed`` is as for :meth:`privol.readers.written.Written.values`.
    """
    told = Told(column, written, pointed=pointed)
    found: FloatArray = np.append(np.where(told.numbers, told.values, np.nan), np.nan)[told.indices]
    return found


class Points:
    """The entries of a column's cells in several rows, stored by distinct cell.

    Parameters
    ----------
    cells : ndarray of int32, shape (n,)
        The distinct cell of each row.
    places : ndarray of int32, shape (distinct + 1, entries)
        Features, ascending. The last row of this array is for rows that are spared.
    weights : ndarray of float64, of the same shape
        The values of these features.
    states : ndarray of uint8, shape (distinct + 1,)
    hats : (places, weights), optional
        The entries of the hat functions of the same rows, if the column has other functions.
    """

    def __init__(
        self,
        cells: IntArray,
        places: IntArray,
        weights: FloatArray,
        states: npt.NDArray[np.uint8],
        hats: tuple[IntArray, FloatArray] | None = None,
    ) -> None:
        self._cells, self._places, self._weights, self._states = cells, places, weights, states
        self._hats = hats

    @property
    def places(self) -> IntArray:
        """The features of each row, shape (n, entries)."""
        return np.take(self._places, self._cells, axis=0)

    @property
    def weights(self) -> FloatArray:
        """The values of these features, shape (n, entries)."""
        return np.take(self._weights, self._cells, axis=0)

    @property
    def missing(self) -> BoolArray:
        """Which rows have no number, shape (n,)."""
        found: BoolArray = ((self._states & (_MISSING | _UNKNOWN)) != 0)[self._cells]
        return found

    def leading(self, entries: int, first: int, flag: int | None, flagged: int) -> tuple[IntArray, FloatArray]:
        """Return the first entries of each row, shape (n, entries), with features counted from ``first``.

        They are those of hat functions or indicators. In a row that has the feature ``flag`` the last entry is
        ``flagged``.
        """
        places, weights = (self._places, self._weights) if self._hats is None else self._hats
        places, weights = places[:, :entries] - np.int32(first), weights[:, :entries].copy()
        if flag is not None:
            missing = self._places[:, -1] == flag
            places[missing, -1], weights[missing, -1] = flagged, 1.0
        return np.take(places, self._cells, axis=0), np.take(weights, self._cells, axis=0)

    def spare(self, rows: BoolArray) -> None:
        """Leave these rows without any value, and out of the counts."""
        if rows.any():
            self._cells = np.where(rows, np.int32(len(self._states) - 1), self._cells)

    def add(self, rows: DenseRows) -> None:
        """Add the entries to dense rows."""
        rows.entries(np.ascontiguousarray(self._places), np.ascontiguousarray(self._weights), self._cells)

    def count(self, name: str, counts: CellCounts, *, later: bool = False) -> None:
        """Count the cells that are not taken as they are; ``later``: cells beyond the knots are not counted."""
        if not (self._states[:-1] & (_MISSING | _UNKNOWN | _CLIPPED)).any():
            return
        _count(self._states[self._cells], name, counts, later)


class CosinePoints:
    """Points of a column in the cosine basis, for dense rows: values are computed when they are written.

    Parameters
    ----------
    column : KnotsColumn
    cells : ndarray of int32, shape (n,), or None
        The distinct cell of each row; None where each row has its own.
    values : ndarray of float64, shape (distinct,)
    Values of the distinct cells.
        What each distinct cell is; None where all are numbers, or missing and NaN.
    What each distinct cell is; None where all are numbers, or missing and NaN.
        The state that a cell must have for its value to count, NUMBER or TIME.
    """

    def __init__(
        self,
        column: KnotsColumn,
        cells: IntArray | None,
        values: FloatArray,
        said: npt.NDArray[np.uint8] | None,
        right: int,
    ) -> None:
        self._column, self._cells = column, cells
        # two more: a null cell, and a row that is spared
        self._left, self._share, self._states = column.hats.between(values, said, right)
        self._values = values
        self._in_cycles: list[FloatArray] = []
        if column.cycles:
            seconds = np.full(len(values) + 2, np.nan)
            np.copyto(seconds[:-2], values, where=self._left[:-2] >= 0)
            self._in_cycles = cycle_values(seconds, *column.cycles)

    @property
    def _numbers(self) -> FloatArray:
        """The number of each distinct cell, NaN where it has none."""
        return np.where(self._left[:-2] >= 0, self._values, np.nan)

    def _of_rows(self, found: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return found[:-2] if self._cells is None else found[self._cells]

    @property
    def missing(self) -> BoolArray:
        """Which rows have no number, shape (n,)."""
        found: BoolArray = self._of_rows((self._states & (_MISSING | _UNKNOWN)) != 0)
        return found

    def written_out(self) -> Points:
        """Return places and values of all entries."""
        cells = np.arange(len(self._values), dtype=np.int32) if self._cells is None else self._cells
        return self._column.written_out(cells, self._numbers, (self._states[:-2] & _UNKNOWN) != 0)

    @property
    def places(self) -> IntArray:
        """The features of each row, shape (n, entries)."""
        return self.written_out().places

    @property
    def weights(self) -> FloatArray:
        """The values of these features, shape (n, entries)."""
        return self.written_out().weights

    def leading(self, entries: int, first: int, flag: int | None, flagged: int) -> tuple[IntArray, FloatArray]:
        """Return what :meth:`Points.leading` does."""
        return self.written_out().leading(entries, first, flag, flagged)

    def spare(self, rows: BoolArray) -> None:
        """Leave these rows without any value, and out of the counts."""
        if rows.any():
            cells = np.arange(len(rows), dtype=np.int32) if self._cells is None else self._cells
            self._cells = np.where(rows, np.int32(len(self._states) - 1), cells)

    def add(self, rows: DenseRows) -> None:
        """Add the values to dense rows."""
        column = self._column
        rows.functions(column.feature, column.hats, self._left, self._share, self._cells)
        for k, values in enumerate(self._in_cycles):
            rows.numbers(column.first_cycle + k, values, self._cells)
        if column.flag is not None:
            rows.flag(column.flag, self._states, _MISSING | _UNKNOWN, self._cells)

    def count(self, name: str, counts: CellCounts, *, later: bool = False) -> None:
        """Count the cells that are not taken as they are; ``later``: cells beyond the knots are not counted."""
        _count(self._of_rows(self._states), name, counts, later)


def _count(states: npt.NDArray[np.uint8], name: str, counts: CellCounts, later: bool) -> None:
    for kind, state in (("missing", _MISSING), ("unknown", _UNKNOWN), ("clipped", 0 if later else _CLIPPED)):
        counts.add(name, kind, np.count_nonzero(states & state))


Entries = Points | CosinePoints


class KnotsColumn:
    """Where the cells of a column with knots belong: each cell by itself, and none is refused.

    Parameters
    ----------
    name : str
    column : Knots
    feature, entry : int
        The column's first feature, and its first entry in a CSR row.
    written : Written
    pointed : bool
        Whether cells may be numbers themselves, whose text has a point whatever the decimal mark is.
    """

    def __init__(
        self, name: str, column: Knots, feature: int, entry: int, written: Written, *, pointed: bool = False
    ) -> None:
        self.name = name
        self.means = column.means
        self.feature = feature
        self.entry = entry
        self.entries = {"cosine": len(column.knots) - 1, "spline": 2}.get(column.shape, 1) + 2 * len(column.cycles)
        self._written = written
        self._pointed = pointed
        self._shape = column.shape
        #: Whether the cells are times, which are expected beyond the knots because time goes on.
        self.times = column.timestamp
        self.cycles = column.cycles
        # Up to its scale, a line is a spline between two knots.
        knots = np.array(column.knots, dtype=np.float64)
        self._knots = knots if column.shape != "linear" else knots[[0, -1]]
        with np.errstate(over="ignore"):
            widths = np.diff(self._knots)
        # If the difference of two doubles is not a double, the difference of their halves is used.
        self._factors = np.where(np.isinf(widths), 0.5, 1.0)
        self._halved = bool(np.isinf(widths).any())
        self._lows = self._knots[:-1] * self._factors
        self._widths = self._knots[1:] * self._factors - self._lows
        shown = [(time_text(knot) if column.timestamp else None) or toml_number(knot) for knot in column.knots]
        self._functions_at = cosines.at_knots(len(column.knots)) if column.shape == "cosine" else None
        if self._functions_at is not None:
            self.hats = Hats(self._knots, self._factors, self._lows, self._widths, self._functions_at)
        hats = [f"{name}~{knot}" for knot in shown]
        names = {
            "cosine": [f"{name}~cos{k}" for k in range(1, len(shown))],
            "spline": hats,
            "linear": [name],
            "apart": [f"{name}<{shown[0]}", f"{name}>{shown[-1]}"],
            "bins": [f"{name}[{low},{high})" for low, high in itertools.pairwise(shown)],
        }[column.shape]
        if column.shape == "bins":
            names[-1] = f"{names[-1][:-1]}]"  # the last knot belongs to the last interval
        self.first_cycle = feature + len(names)
        self.crossed_names = hats if column.shape == "cosine" else list(names)
        self._crossed = len(self.crossed_names)
        self.crossed_entries = 2 if column.shape in ("cosine", "spline") else 1
        names += [f"{name}:{part}({cycle})" for cycle in column.cycles for part in ("cos", "sin")]
        self.flag = feature + len(names) if column.missing == "indicator" else None
        if self.flag is not None:
            names.append(f"{name}=missing")
            self.crossed_names.append(names[-1])
        self.feature_names = names
        #: Roughly how long its cells take, relative to other columns.
        self.work = 1 + 2 * len(column.cycles)

    def one_row(self) -> dict[str, Any]:
        """Return how single numbers become features, as arguments of :meth:`privol._core._one_row.RowCode.knots`."""
        return {
            "shape": self._shape,
            "knots": self._knots,
            "factors": self._factors,
            "lows": self._lows,
            "widths": self._widths,
            "functions": self._functions_at,
            "flag": self.flag,
            "crossed_flag": -1 if self.flag is None else self._crossed,
            "cycles": [CYCLES[cycle] for cycle in self.cycles],
            "turn": TURN,
            "times": self.times,
        }

    def points(self, column: Any, *, dense: bool = False) -> Entries:
        """Return the entries of a column's cells, of any type of "cells"; ``dense``: for dense rows."""
        cells, said, right = None, None, TIME if self.times else NUMBER
        if column.type == "double" and not self.times:
            values: FloatArray = column.to_numpy(zero_copy_only=False)
            if self._written.missing_numbers:
                values = np.where(np.isin(values, list(self._written.missing_numbers)), np.nan, values)
        else:
            told = Told(column, self._written, pointed=self._pointed)
            values, said = told.values, told.cells
            cells = None if told.each else told.indices
        if dense and self._functions_at is not None:
            return CosinePoints(self, cells, values, said, right)
        rows = np.arange(len(values), dtype=np.int32) if cells is None else cells
        if said is None:
            return self.written_out(rows, values, np.zeros(len(values), dtype=bool))
        return self.written_out(rows, np.where(said == right, values, np.nan), (said != right) & (said != MISSING))

    def written_out(self, cells: IntArray, values: FloatArray, strange: npt.NDArray[np.bool_]) -> Points:
        """Return the entries of rows from distinct cells; ``strange`` marks cells neither missing nor a number."""
        # two more: a null cell, and a row that is spared
        values = np.append(values, [np.nan, np.nan])
        none = np.flatnonzero(np.isnan(values))
        values[none] = self._knots[0]
        within = np.clip(values, self._knots[0], self._knots[-1])
        states = np.where((within == values) | (self._shape == "apart"), np.uint8(0), np.uint8(_CLIPPED))
        states[none] = _MISSING
        states[:-2][strange] = _UNKNOWN
        states[-1] = _SPARED
        hats = None
        if self._shape == "apart":
            places, weights = self._beyond(values)
        else:
            places, weights = self._of(within)
        if self._functions_at is not None:
            hats = places, weights
            places, weights = self._cosines(places, weights)
        if self.cycles:
            values[none] = 0.0
            places, weights = self._with_cycles(values, places, weights)
        weights[none] = 0.0
        if self.flag is not None and len(none):
            places = np.array(places)
            places[none[:-1], -1] = self.flag
            weights[none[:-1], -1] = 1.0
        if hats is not None:
            hats[1][none] = 0.0
        return Points(cells, places, weights, states, hats)

    def crossed(self, found: Entries) -> tuple[IntArray, FloatArray]:
        """Return what the column contributes to a cross: functions between knots and the indicator, without cycles."""
        return found.leading(self.crossed_entries, self.feature, self.flag, self._crossed)

    def _of(self, values: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return the features of numbers between the outer knots, and their values."""
        left = np.searchsorted(self._knots[1:-1], values, side="right").astype(np.int32)
        places = (self.feature + left)[:, None]
        if self._shape == "bins":
            return places, np.ones((len(values), 1))
        if self._halved:
            values = values * self._factors[left]
        shares = np.empty((len(values), 2))
        np.divide(values - self._lows[left], self._widths[left], out=shares[:, 1])
        np.subtract(1.0, shares[:, 1], out=shares[:, 0])
        # Exactly the rest, so that the two add up to 1 and their squares to at most 1.
        np.subtract(1.0, shares[:, 0], out=shares[:, 1])
        if self._shape == "linear":
            return places, (shares[:, 1] - shares[:, 0])[:, None]
        return np.concatenate([places, places + 1], axis=1), shares

    def _cosines(self, places: IntArray, shares: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return features and values in the cosine basis from those of the hat functions."""
        functions = self._functions_at
        assert functions is not None
        left, share = places[:, 0] - self.feature, np.ascontiguousarray(shares[:, 1])
        found = np.empty((functions.shape[1], len(places)))
        term = np.empty(len(places))
        # The values at knots are multiples of 2^-40 below 2, so their differences are exact.
        for values, steps, out in zip(functions[:-1].T, np.diff(functions, axis=0).T, found, strict=True):
            np.take(values, left, out=out, mode="clip")
            np.take(steps, left, out=term, mode="clip")
            term *= share
            out += term
        own = np.arange(self.feature, self.feature + len(found), dtype=np.int32)
        return np.broadcast_to(own, (len(places), len(own))), found.T

    def _beyond(self, values: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return the indicators of numbers below the first knot or above the last."""
        above = values > self._knots[-1]
        weights = (above | (values < self._knots[0])).astype(np.float64)
        return (self.feature + above.astype(np.int32))[:, None], weights[:, None]

    def _with_cycles(self, seconds: FloatArray, places: IntArray, weights: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return features and values, with the features of each time's position in each cycle added."""
        found = cycle_values(seconds, *self.cycles)
        last = np.arange(self.first_cycle, self.first_cycle + len(found), dtype=np.int32)
        return (
            np.concatenate([places, np.broadcast_to(last, (len(places), len(found)))], axis=1),
            np.concatenate([weights, np.stack(found, axis=1)], axis=1),
        )
