"""The histograms that the phases of an encoding count in a column, one cell per row, and their decisions.

Exact counts are kept here and handed only to the mechanism of :mod:`privol.encoding.learning`; ``decide`` receives the
counts with their noise.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core._text import count_into
from ..readers.written import Written
from .label_counts import label_texts
from .lines import Cells, dyadic_cells
from .phases import BUCKETS
from .told import Told

__all__ = [
    "AT_KNOWN",
    "AT_MISSING",
    "AT_TEXTS",
    "BELIEVED_KIND",
    "Buckets",
    "Kinds",
    "Line",
    "TargetKinds",
    "Values",
    "null_rows",
]

FloatArray = npt.NDArray[np.float64]

#: How many standard deviations of the noise make a kind believed.
BELIEVED_KIND = 3.0
_BELIEVED_END, _BELIEVED_TAIL = 2.5, 2.0
#: Cells of a histogram of kinds.
AT_MISSING, AT_KNOWN, AT_TEXTS, AT_TIMES, AT_NUMBERS = range(5)
# Where times are looked for: cells of two years, from 1902 to 2174.
_TIME_CELLS = Cells(np.linspace(-(2.0**31), 3 * 2.0**31, 129)[:-1], np.linspace(-(2.0**31), 3 * 2.0**31, 129)[1:])


class Values:
    """The values of one column of a batch, and how many rows have them, by distinct text.

    ``pointed`` is as for :meth:`privol.readers.written.Written.values`.
    """

    def __init__(self, column: Any, written: Written, pointed: bool, hashes: bool = False) -> None:
        self._told = Told(column, written, pointed=pointed, hashes=hashes)
        self._weights = self._told.weights[:-1]

    def known(self, labels: Collection[str]) -> npt.NDArray[np.bool_]:
        """Which distinct texts are among these labels."""
        import pyarrow
        import pyarrow.compute as pc

        found = pc.is_in(label_texts(self._told), value_set=pyarrow.array(sorted(labels), "string"))
        known: npt.NDArray[np.bool_] = found.to_numpy(zero_copy_only=False)
        return known

    @property
    def numbers(self) -> npt.NDArray[np.bool_]:
        """Which distinct texts hold a number that is not missing."""
        found: npt.NDArray[np.bool_] = self._told.numbers & ~np.isnan(self._told.values)
        return found

    @property
    def times(self) -> npt.NDArray[np.bool_]:
        """Which distinct texts are times."""
        return self._told.times

    @property
    def missing(self) -> npt.NDArray[np.bool_]:
        """Which distinct texts count as missing."""
        return self._told.missing[:-1]

    def there(self) -> int:
        """Return how many rows have a value."""
        return self.count(~self.missing)

    def count(self, which: npt.NDArray[np.bool_]) -> int:
        """Return how many rows have one of the chosen distinct texts."""
        return int(self._weights[which].sum())

    def absent(self) -> int:
        """Return how many rows have no value."""
        return int(self._told.weights[self._told.missing].sum())

    def present(self) -> npt.NDArray[np.bool_]:
        """Return whether each row has a value."""
        found: npt.NDArray[np.bool_] = ~self._told.missing[self._told.indices]
        return found

    def add_to(self, cells: Cells, which: npt.NDArray[np.bool_], counts: FloatArray) -> None:
        """Add the rows of the chosen distinct texts, which are numbers or times, to the counts of cells."""
        values = np.where(which, self._told.values, np.nan)
        count_into(values, self._weights, cells.low, cells.high, counts)

    def whole(self) -> npt.NDArray[np.bool_]:
        """Which distinct texts are whole numbers."""
        found: npt.NDArray[np.bool_] = self.numbers & (np.floor(self._told.values) == self._told.values)
        return found

    def buckets(self) -> FloatArray:
        """Return how many rows fall into each hash bucket."""
        assert self._told.hashes is not None
        some = ~self.missing
        at = (self._told.hashes[some] % BUCKETS).astype(np.int64)
        return np.bincount(at, weights=self._weights[some], minlength=BUCKETS).astype(np.float64)


def null_rows(columns: Collection[Values]) -> int:
    """Return how many rows have no value in any of these columns."""
    if not all(found.absent() for found in columns):
        return 0
    return int(np.count_nonzero(~np.any([found.present() for found in columns], axis=0)))


class Kinds:
    """Phase "kinds" of one column: whether its cells are numbers or texts, and on which scale."""

    def __init__(self, labels: Sequence[str] = ()) -> None:
        self.cells, self.believed = dyadic_cells()
        self._labels = frozenset(labels)
        # missing, labels found, other texts, times, numbers by exponent
        self.counts = np.zeros(AT_NUMBERS + len(self.cells))

    def add(self, values: Values, null: int) -> None:
        """Count the rows of a batch, ``null`` of which are null rows."""
        self.counts[AT_MISSING] += values.absent() - null
        numbers, others = values.numbers, ~values.missing
        if self._labels:
            known = values.known(self._labels)
            self.counts[AT_KNOWN] += values.count(known)
            numbers, others = numbers & ~known, others & ~known
        others &= ~numbers
        times = others & values.times
        self.counts[AT_TIMES] += values.count(times)
        self.counts[AT_TEXTS] += values.count(others & ~times)
        self._add_numbers(values, numbers)

    def _add_numbers(self, values: Values, numbers: npt.NDArray[np.bool_]) -> None:
        values.add_to(self.cells, numbers, self.counts[AT_NUMBERS:])

    def numbers(self, noisy: FloatArray, std: float) -> FloatArray:
        """Return the believed counts of the cells for numbers."""
        return np.where(noisy[AT_NUMBERS:] > self.believed * std, noisy[AT_NUMBERS:], 0.0)

    def decide(self, noisy: FloatArray, std: float) -> tuple[str, Cells | None, FloatArray]:
        """Return "number", "time", "text" or "nothing", and the cells for numbers or times with their counts."""
        counts = self.numbers(noisy, std)
        texts, numbers = float(noisy[AT_TEXTS]), float(counts.sum())
        times = float(noisy[AT_TIMES])
        if times > max(numbers, texts, BELIEVED_KIND * std):
            return "time", _TIME_CELLS, np.ones(len(_TIME_CELLS))
        if texts > max(numbers, BELIEVED_KIND * std):
            return "text", None, counts
        if numbers <= 0.0:
            return "nothing", None, counts
        ends = np.flatnonzero(counts)
        first, last = int(ends[0]), int(ends[-1])
        return "number", self.cells.between(first, last), counts[first : last + 1]


class TargetKinds(Kinds):
    """Phase "kinds" of a target that may be a label: it separates fractions from whole numbers.

    Whole numbers that are not among the labels found have cells of their own, so each row still adds one to one cell.
    """

    def __init__(self, labels: Sequence[str]) -> None:
        super().__init__(labels)
        self.counts = np.zeros(AT_NUMBERS + 2 * len(self.cells))

    def _add_numbers(self, values: Values, numbers: npt.NDArray[np.bool_]) -> None:
        whole, cut = values.whole(), AT_NUMBERS + len(self.cells)
        values.add_to(self.cells, numbers & ~whole, self.counts[AT_NUMBERS:cut])
        values.add_to(self.cells, numbers & whole, self.counts[cut:])

    def parts(self, noisy: FloatArray, std: float) -> tuple[FloatArray, FloatArray]:
        """Return the believed counts of the cells, for fractions and for whole numbers."""
        fractions, whole = (np.where(part > self.believed * std, part, 0.0) for part in np.split(noisy[AT_NUMBERS:], 2))
        return fractions, whole

    def numbers(self, noisy: FloatArray, std: float) -> FloatArray:
        fractions, whole = self.parts(noisy, std)
        return fractions + whole


def _first_believed(noisy: FloatArray, std: float) -> int:
    """Return the first cell that exceeds noise, alone or with all before it; the number of cells if none does."""
    together = std * np.sqrt(np.arange(1, len(noisy) + 1))
    found = np.flatnonzero((noisy > _BELIEVED_END * std) | (np.cumsum(noisy) > _BELIEVED_TAIL * together))
    return int(found[0]) if len(found) else len(noisy)


class Line:
    """Phases "coarse" and "fine" of a column of numbers, or of times."""

    def __init__(self, cells: Cells, times: bool) -> None:
        self.cells = cells
        self.counts = np.zeros(len(cells))
        self._times = times

    def add(self, values: Values) -> None:
        values.add_to(self.cells, values.times if self._times else values.numbers, self.counts)

    def decide(self, noisy: FloatArray, std: float) -> tuple[Cells, FloatArray, tuple[float, float]]:
        """Return the cells between the outermost believed ones, their counts, and the counts below and above them."""
        first, last = _first_believed(noisy, std), len(noisy) - 1 - _first_believed(noisy[::-1], std)
        if first > last:  # too few rows for any: keep the cells as they are
            return self.cells, np.ones(len(self.cells)), (0.0, 0.0)
        beyond = float(noisy[:first].sum()), float(noisy[last + 1 :].sum())
        return self.cells.between(first, last), np.maximum(noisy[first : last + 1], 0.0), beyond


class Buckets:
    """Phases "coarse" and "fine" of a column of categories: its hash buckets."""

    def __init__(self) -> None:
        self.counts = np.zeros(BUCKETS)

    def add(self, values: Values) -> None:
        self.counts += values.buckets()
