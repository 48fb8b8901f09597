"""Learns a schema from the first rows of a table, under a guarantee: histograms with Gaussian noise.

:mod:`privol.encoding.phases` decides which rows teach, and how much noise there is. All code here that looks at cells
counts them into histograms of which each row moves one cell; everything else is computed from these counts with their
noise. So the result may be shown: the schema, and why a column was left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from .._threads import each
from ..errors import StreamError
from ..noise import STREAM_ENCODING, Source, decide_lattice_point
from ..readers.columns import Batch
from ..readers.written import Written
from .histograms import (
    AT_KNOWN,
    AT_MISSING,
    AT_TEXTS,
    BELIEVED_KIND,
    Buckets,
    Kinds,
    Line,
    TargetKinds,
    Values,
    null_rows,
)
from .label_counts import LabelCounts
from .labels import label_key
from .lines import Cells, knots_of, refined
from .means import means_of_hashed, means_of_knots
from .phases import BUCKETS, EncodingPlan, least_count
from .schema_parts import Column, Drop, Hashed, Knots, Target
from .strings import absent_texts, thresholds
from .told import Told

__all__ = ["BUCKETS", "MISSING_TEXTS", "REST", "EncodingRun", "Found"]

FloatArray = npt.NDArray[np.float64]

#: Cells that count as missing unless something else is stated.
MISSING_TEXTS = ("?", "NA", "N/A", "n/a", "na", "NaN", "nan", "NULL", "null", "#N/A")
#: Buckets that all other values of a column share.
REST = 16
#: Knots of a column of numbers.
KNOTS = 6

_CELL = 5.0  # the expected count of a cell, in standard deviations of the noise
_CELLS = 4, 64
# A numeric target consists of labels if the labels found cover this share of the rows and are at most this many; or if
# most rows have one of them or another whole number below _FEW, and hardly any a larger one; but not if fractions that
# are no label are frequent.
_COVERED = (0.8, 10), (0.97, 20)
_FEW, _SEEN, _OTHERS = 16.0, 0.75, 0.05
# Of four thousand cells of pure noise, one is believed in 200 columns, and in 8,000 columns one holds this many
# standard deviations: the total of the believed cells must exceed that. A higher threshold would take real targets of
# few rows, nearly all of them alike, for labels.
_BEYOND_NOISE = 5.0
_CYCLES = ("day", "week", "year")


@dataclass(frozen=True)
class CountedPhase:
    """The releases of a phase, in the form that its guarantee needs. Public.

    Attributes
    ----------
    name : str
    rows : int
    histograms : int
        Histograms, in each of which a row counts at most once.
    std : float
        Standard deviation of the noise of each count.
    """

    name: str
    rows: int
    histograms: int
    std: float


@dataclass
class Found:
    """What was learnt, all of it under the plan's guarantee. Public.

    Attributes
    ----------
    columns : dict of str to Column
        In the order of the table; a column that carries no information is dropped.
    target : Target or None
    dropped : dict of str to str
        Why a column was left out.
    labelled : float or None
        If labels were learnt: the approximate share of the later rows with a target that have one of them.
    counted : list of CountedPhase
        The phases that have ended.
    """

    columns: dict[str, Column] = field(default_factory=dict)
    target: Target | None = None
    dropped: dict[str, str] = field(default_factory=dict)
    labelled: float | None = None
    counted: list[CountedPhase] = field(default_factory=list)


# ---- the run -------------------------------------------------------------------------------------------


class EncodingRun:
    """Takes the first rows of a table, phase by phase, and returns what they taught.

    Parameters
    ----------
    names : sequence of str
        The columns to learn; public.
    target : str or None
        Column of the target to learn; None: it is declared, or there is none.
    plan : EncodingPlan
    source : Source or None
        Of the noise; None if the plan has none.
    written : Written
        How numbers are written, and which cells are missing.
    shape : {"cosine", "spline", "linear", "bins"}
        What columns of numbers become.
    regression : bool, optional
        Whether the target is a real number. Default: it is where no labels are frequent.
    only_text : collection of str
        Columns whose cells are certainly text in the input itself.
    null_rows : bool
        Whether rows may be null rows. These are counted nowhere. To tell whether the target consists of labels, the
        rows that have a target are then counted too, so each row counts once more.
    """

    def __init__(
        self,
        names: Sequence[str],
        target: str | None,
        plan: EncodingPlan,
        source: Source | None,
        written: Written,
        *,
        shape: str = "cosine",
        regression: bool | None = None,
        only_text: Collection[str] = (),
        null_rows: bool = False,
    ) -> None:
        self._names, self._target, self._plan, self._source, self._written = names, target, plan, source, written
        self._shape, self._regression, self._only_text = shape, regression, only_text
        self._counts_targets = null_rows and target is not None and regression is not True
        self._with_target = np.zeros(1)
        self.found = Found()
        self._labels: tuple[str, ...] = ()
        self._texts = LabelCounts()
        self._counted: dict[str, Any] = {}
        self._buckets: dict[str, tuple[FloatArray, float]] = {}  # noisy counts so far, and the variance of their noise
        self._lines: dict[str, tuple[Cells, FloatArray]] = {}
        self._missing: dict[str, str] = {}
        self._absent: dict[str, float] = {}  # shares of the rows, where they exceed the noise
        self._beyond: dict[str, tuple[float, float]] = {}  # rows below and above the cells of a line
        self._times: set[str] = set()
        self._phases = plan.phases
        self._at, self._rows = 0, 0
        self._begin()

    @property
    def done(self) -> bool:
        """Whether all rows of the plan have been taken."""
        return self._at == len(self._phases)

    def take(self, batch: Batch) -> int:
        """Count the next rows and return how many of them the encoding took: not all, if it is done before."""
        start = 0
        while start < batch.num_rows and not self.done:
            name, rows = self._phases[self._at]
            part = batch.slice(start, rows - self._rows)
            self._count(name, part)
            self._rows += part.num_rows
            start += part.num_rows
            if self._rows == rows:
                self._release(name)
                self._at, self._rows = self._at + 1, 0
                self._begin()
        return start

    # ---- a phase ---------------------------------------------------------------------------------------

    def _begin(self) -> None:
        name = "" if self.done else self._phases[self._at][0]
        if name == "kinds":
            self._counted = {column: Kinds() for column in self._names}
            if self._target is not None:
                # a target that is known to be real need not be told from labels
                self._counted[self._target] = Kinds() if self._regression is True else TargetKinds(self._labels)
        elif name in ("coarse", "fine"):
            lines: dict[str, Any] = {
                column: Line(cells, column in self._times) for column, (cells, _) in self._lines.items()
            }
            self._counted = lines | {column: Buckets() for column in self._buckets}

    def _values(self, batch: Batch, column: str) -> Values:
        hashes = isinstance(self._counted.get(column), Buckets)
        return Values(batch.column(column), self._written, column not in self._only_text, hashes)

    def _count(self, phase: str, batch: Batch) -> None:
        if phase == "labels":
            column = str(self._target)
            self._texts.add(Told(batch.column(column), self._written, pointed=column not in self._only_text))
            return
        names = list(self._counted)
        cells = batch.num_rows * len(names)
        if phase != "kinds":
            each(lambda column: self._counted[column].add(self._values(batch, column)), names, cells=cells)
            return
        values = dict(zip(names, each(lambda column: self._values(batch, column), names, cells=cells), strict=True))
        # the null row, of which nothing is known, counts nowhere: adjacency "zero_out" rests on it
        null = null_rows(values.values())
        if self._counts_targets:
            self._with_target += values[str(self._target)].there()
        each(lambda column: self._counted[column].add(values[column], null), names, cells=cells)

    def _release(self, phase: str) -> None:
        """Add the noise of a phase to its counts, and decide from these alone."""
        number = self._at + 1
        if phase == "labels":
            self._find_labels(number)
            return
        targets = [self._with_target] if phase == "kinds" and self._counts_targets else []
        histograms = max(len(self._counted) + len(targets), 1)
        std = self._plan.noise(histograms)
        self.found.counted.append(CountedPhase(phase, self._rows, histograms, std))
        parts: dict[str, FloatArray] = {}
        if self._counted:  # otherwise nothing exceeded the noise before
            exact = [counted.counts for counted in self._counted.values()] + targets
            noisy = self._noisy(np.concatenate(exact), std, number)
            found = np.split(noisy, np.cumsum([len(c) for c in exact])[:-1])
            parts = dict(zip(self._counted, found, strict=False))
            if targets:
                self._with_target = found[-1]
        if phase == "kinds":
            self._decide_kinds(parts, std)
        else:
            self._decide_cells(phase, parts, std)
        self._counted = {}
        if phase == "fine":
            self._conclude()

    def _noisy(self, counts: FloatArray, std: float, number: int) -> FloatArray:
        if self._source is None or std == 0.0 or not len(counts):  # there may be no labels
            return counts.astype(np.float64)
        words: dict[str, Any] = {"stream": STREAM_ENCODING, "row": number, "decide": decide_lattice_point}
        return self._source.add(
            np.ascontiguousarray(counts, dtype=np.float64), std, bound=float(max(self._plan.rows, 1)), **words
        )

    def _find_labels(self, number: int) -> None:
        std = self._plan.noise(1)
        self.found.counted.append(CountedPhase("labels", self._rows, 1, std))
        import pyarrow

        texts, rows = self._texts.sorted()
        least = thresholds(texts, std) if std > 0.0 else np.zeros(len(texts))
        counted = ~np.isnan(least)
        present, least = texts.filter(pyarrow.array(counted)), least[counted]
        noisy = self._noisy(rows[counted].astype(np.float64), std, number)
        found = present.filter(pyarrow.array(noisy > least)).to_pylist()
        if std > 0.0 and self._source is not None:
            found += absent_texts(present, std, self._draws())
        self._labels = tuple(sorted(found, key=_order))
        self._texts.clear()

    def _draws(self) -> Callable[[], int]:
        """Return 128 fresh bits a call, from addresses that no count uses."""
        assert self._source is not None
        source, block = self._source, 0

        def draw() -> int:
            nonlocal block
            block += 1
            high, low = source.words(stream=STREAM_ENCODING, level=0, block=block, row=len(self._phases) + 1)
            return (high << 64) | low

        return draw

    def _decide_kinds(self, parts: Mapping[str, FloatArray], std: float) -> None:
        for column, noisy in parts.items():
            kind, cells, counts = self._counted[column].decide(noisy, std)
            # texts beside numbers, and numbers in cells that are not believed, count as missing too
            others = noisy[AT_MISSING] + (noisy[AT_TEXTS] if kind in ("number", "time") else 0.0)
            seen = others > BELIEVED_KIND * std
            self._missing[column] = "indicator" if seen else "zero"
            self._absent[column] = min(float(others) / self._plan.kinds, 1.0) if seen else 0.0
            if column == self._target:
                self._decide_target(noisy, kind, cells, counts, std)
            elif kind == "text":
                self._buckets[column] = np.zeros(BUCKETS), 0.0
            elif kind == "time":
                assert cells is not None
                self._times.add(column)
                self._lines[column] = cells, counts
            elif cells is not None:
                self._refine(column, cells, counts, self._plan.coarse, std)
            else:
                self.found.dropped[column] = "nothing in it stood out of the noise"

    def _decide_target(self, noisy: FloatArray, kind: str, cells: Cells | None, counts: FloatArray, std: float) -> None:
        if self._regression is None and kind in ("number", "nothing") and not self._of_labels(noisy, std):
            cells, counts = self._numbers_and_labels(noisy, std)
        elif self._regression is not True:
            if len(self._labels) >= 2:
                self.found.target = _labelled(str(self._target), self._labels)
                self.found.labelled = min(max(float(noisy[AT_KNOWN]), 0.0) / max(self._targets(noisy), 1.0), 1.0)
                return
            what = "no label"
            more = "; numbers as a target have no thousands separators, and decimal=',' declares a decimal comma"
            if self._regression is False:
                more = "; for a target that is a real number take PrivateRegressor, or --loss squared" + more
            if self._labels:
                what, more = f"only the label {self._labels[0]!r}", ""
                if self._regression is None and len(self._label_values()):
                    more = "; of a target that is a real number say so, by regression=True or --loss squared"
            raise StreamError(
                f"column {self._target!r}: {what} was frequent enough to be seen through the noise of its "
                f"{self._plan.labels:,} rows; declare the labels by classes, or give more rows or a larger epsilon"
                f"{more}"
            )
        if cells is None:
            raise StreamError(
                f"column {self._target!r}: no numbers were frequent enough to be seen through the noise of "
                f"{self._plan.kinds:,} rows; declare its labels by classes, or its range by a schema, or give "
                "more rows or a larger epsilon"
            )
        self._refine(str(self._target), cells, counts, self._plan.coarse, std)

    def _of_labels(self, noisy: FloatArray, std: float) -> bool:
        """Whether a numeric target consists of labels, some of them perhaps not found; uses released values only.

        A real target has fractions, or whole numbers of many sizes. Labels are few: nearly all rows have one of those
        found, or whole numbers so small that there can be only a few.
        """
        counted: TargetKinds = self._counted[str(self._target)]
        fractions, whole = counted.parts(noisy, std)
        known = max(float(noisy[AT_KNOWN]), 0.0)
        rows = self._targets(noisy)
        others = max(_OTHERS * rows, _BEYOND_NOISE * std)
        if fractions.sum() > others:
            return False
        values = self._label_values()
        if any(known >= share * rows and len(values) <= most for share, most in _COVERED):
            return True
        few = np.maximum(np.abs(counted.cells.low), np.abs(counted.cells.high)) <= _FEW
        small = bool(((np.abs(values) < _FEW) & (np.floor(values) == values)).all())
        return bool(small and known + whole[few].sum() >= _SEEN * rows and whole[~few].sum() <= others)

    def _targets(self, noisy: FloatArray) -> float:
        """Return the noisy number of rows with a target; the sum of the believed counts would miss rare sizes."""
        if self._counts_targets:
            return float(self._with_target[0])
        return self._plan.kinds - max(float(noisy[AT_MISSING]), 0.0)

    def _label_values(self) -> FloatArray:
        """Return the labels found that are numbers."""
        return np.array([key for key in map(label_key, self._labels) if isinstance(key, float)])

    def _numbers_and_labels(self, noisy: FloatArray, std: float) -> tuple[Cells | None, FloatArray]:
        """Return the cells of a real target with their counts; numbers that were found as labels are targets too."""
        counted: TargetKinds = self._counted[str(self._target)]
        counts, values = counted.numbers(noisy, std), self._label_values()
        if len(values) and noisy[AT_KNOWN] > BELIEVED_KIND * std:
            counts += counted.cells.counts(values) * float(noisy[AT_KNOWN]) / len(values)
        ends = np.flatnonzero(counts)
        if not len(ends):
            return None, counts
        first, last = int(ends[0]), int(ends[-1])
        return counted.cells.between(first, last), counts[first : last + 1]

    def _refine(self, column: str, cells: Cells, counts: FloatArray, rows: int, std: float) -> None:
        least, most = _CELLS
        n_cells = most if std == 0.0 else int(min(max(rows / (_CELL * std), least), most))
        self._lines[column] = refined(cells, counts, n_cells), counts

    def _decide_cells(self, phase: str, parts: Mapping[str, FloatArray], std: float) -> None:
        for column, noisy in parts.items():
            if column in self._buckets:
                before, variance = self._buckets[column]
                self._buckets[column] = before + noisy, variance + std * std
                continue
            cells, counts, self._beyond[column] = self._counted[column].decide(noisy, std)
            if phase == "coarse":
                self._refine(column, cells, counts, self._plan.fine, std)
            else:
                self._lines[column] = cells, counts

    def _conclude(self) -> None:
        """Decide what the columns are."""
        rows = self._plan.coarse + self._plan.fine
        for column in self._names:
            if column in self._buckets:
                counts, variance = self._buckets[column]
                kept = np.flatnonzero(counts > least_count(rows, math.sqrt(variance)))
                if not len(kept):
                    self.found.dropped[column] = (
                        "no value is frequent: names, row numbers, or a notation that is not read?"
                    )
                else:
                    most = kept[counts[kept].argmax()]
                    own = tuple(int(bucket) for bucket in kept if bucket != most)
                    usual: dict[str, Any] = {"reference": int(most), "share": _share(counts[most], rows)}
                    hashed = Hashed(BUCKETS, self._missing[column], own, REST, **usual)
                    means = means_of_hashed(hashed, counts, rows, self._absent[column])
                    self.found.columns[column] = replace(hashed, means=means)
            elif column in self._lines:
                cells, counts = self._lines[column]
                knots = knots_of(cells, counts, KNOTS)
                points = tuple(float(knot) for knot in knots)
                missing, times = self._missing[column], column in self._times
                if len(points) < 2:  # nearly all rows have the same number
                    share = _share(counts.sum(), self._plan.fine)
                    line = Knots(points * 2, "apart", missing, times, share=share)
                else:
                    line = Knots(points, self._shape, missing, times, _CYCLES if times else ())
                means = means_of_knots(line, cells, counts, self._absent[column], self._beyond[column])
                self.found.columns[column] = replace(line, means=means)
            if column in self.found.dropped:
                self.found.columns[column] = Drop()
        if self._target is not None and self._target in self._lines:
            cells, _ = self._lines[self._target]
            low, high = float(cells.low[0]), float(cells.high[-1])
            if low == high:
                raise StreamError(f"column {self._target!r}: nearly all rows have the same target")
            self.found.target = Target(self._target, range=(low, high), rest="null")
        if not any(not isinstance(column, Drop) for column in self.found.columns.values()):
            raise StreamError(
                f"no column stood out of the noise of the {rows:,} rows that were to teach the encoding: more rows or "
                "a larger epsilon are needed, or a schema that declares what is public of the columns"
            )


def _share(count: float, rows: int) -> float:
    """The share of the rows that a noisy count estimates, in hundredths."""
    return round(min(max(float(count) / rows, 0.0), 1.0), 2)


def _order(label: str) -> tuple[int, float, str]:
    key = label_key(label)
    return (0, key, "") if isinstance(key, float) else (1, 0.0, label)


def _labelled(column: str, labels: Sequence[str]) -> Target:
    """The target with these labels in order, the second of two being positive; any other label makes a null row."""
    if len(labels) == 2:
        return Target(column, negative=(labels[0],), positive=(labels[1],), rest="null")
    return Target(column, classes=tuple((label,) for label in labels), rest="null")
