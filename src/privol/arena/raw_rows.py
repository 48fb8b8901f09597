"""A stream's rows as non-private entrants read them: with scales and levels of all rows, in hindsight."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .specs import Prepared

__all__ = ["Rows"]

FloatArray = NDArray[np.float64]

_MOST_LEVELS = 2000  # a column with more distinct texts holds names
_MOST_CODES = 254  # of a category, for trees
_DENSE = 300  # up to this many features, rows are dense


@dataclass(frozen=True)
class _Column:
    """Cells as numbers (NaN: missing) or as level numbers by frequency (-1: not in the stream)."""

    name: str
    number: bool
    learnt: Any
    held: Any
    levels: tuple[str, ...] = ()


class Rows:
    """Cells of a prepared stream, and what rivals that may use all rows make of them.

    Parameters
    ----------
    prepared : Prepared

    Attributes
    ----------
    y, held_y : ndarray of float64
        Indices of the classes, or real targets.
    """

    def __init__(self, prepared: Prepared) -> None:
        self.prepared = prepared
        names, self._cells = _read(prepared.path)
        _, self._held = _read(prepared.held_path)
        self._at = names.index(prepared.target)
        self._names = names
        self.y, self.held_y = (self._targets(cells) for cells in (self._cells, self._held))

    def _targets(self, cells: list[tuple[str, ...]]) -> FloatArray:
        found = cells[self._at]
        if self.prepared.regression:
            return np.array(found, dtype=np.float64)
        number = {label: k for k, label in enumerate(self.prepared.classes)}
        return np.array([number[label] for label in found], dtype=np.float64)

    @cached_property
    def columns(self) -> list[_Column]:
        """All columns except the target."""
        found = []
        for j, name in enumerate(self._names):
            if j == self._at:
                continue
            numbers, held = _numbers(self._cells[j]), _numbers(self._held[j])
            distinct = len(set(self._cells[j]))
            if np.mean(~np.isnan(numbers)) > 0.5 and distinct > 2:
                found.append(_Column(name, True, numbers, held))
                continue
            texts, codes, counts = np.unique(np.array(self._cells[j]), return_inverse=True, return_counts=True)
            rank = np.empty(len(texts), dtype=np.int64)
            rank[np.argsort(-counts, kind="stable")] = np.arange(len(texts))
            number = dict(zip(texts.tolist(), rank.tolist(), strict=True))
            known = np.array([number.get(cell, -1) for cell in self._held[j]])
            levels = tuple(sorted(number, key=lambda text: number[text]))
            found.append(_Column(name, False, rank[codes], known, levels))
        return found

    @cached_property
    def encoded(self) -> tuple[Any, Any]:
        """Standardised numbers, one feature for each level, and a constant: for the stream and held-out rows."""
        parts: list[list[Any]] = [[], []]
        for column in self.columns:
            if column.number:
                mean, std = np.nanmean(column.learnt), np.nanstd(column.learnt) or 1.0
                for part, x in zip(parts, (column.learnt, column.held), strict=True):
                    part.append(sp.csr_array(np.nan_to_num((x - mean) / std)[:, None]))
            elif len(column.levels) <= _MOST_LEVELS:
                for part, codes in zip(parts, (column.learnt, column.held), strict=True):
                    row = np.flatnonzero(codes >= 0)
                    shape = (len(codes), len(column.levels))
                    part.append(sp.csr_array((np.ones(len(row)), (row, codes[row])), shape=shape))
        for part, n in zip(parts, (self.prepared.rows, self.prepared.held), strict=True):
            part.append(sp.csr_array(np.ones((n, 1))))
        learnt, held = (sp.hstack(part, format="csr") for part in parts)
        return (learnt.toarray(), held.toarray()) if learnt.shape[1] <= _DENSE else (learnt, held)

    @cached_property
    def coded(self) -> tuple[FloatArray, FloatArray, list[bool]]:
        """Numbers and level numbers (rare levels: NaN) of stream and held-out rows, and which are levels."""
        parts: list[list[Any]] = [[], []]
        for column in self.columns:
            for part, x in zip(parts, (column.learnt, column.held), strict=True):
                known = x if column.number else np.where((x >= 0) & (x < _MOST_CODES), x, np.nan)
                part.append(np.asarray(known, dtype=np.float64))
        return np.column_stack(parts[0]), np.column_stack(parts[1]), [not column.number for column in self.columns]

    def dictionaries(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Rows as dicts by column name, with numbers (0 if missing) and texts."""
        both = []
        for which, cells in (("learnt", self._cells), ("held", self._held)):
            values: list[list[Any]] = []
            for column in self.columns:
                texts = list(cells[self._names.index(column.name)])
                values.append(np.nan_to_num(getattr(column, which)).tolist() if column.number else texts)
            names = [column.name for column in self.columns]
            both.append([dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)])
        return both[0], both[1]


def _read(path: str) -> tuple[list[str], list[tuple[str, ...]]]:
    """Return the names and the cells of each column."""
    with open(path, encoding="utf-8", newline="") as file:
        reader = csv.reader(file)
        names = next(reader)
        return names, list(zip(*reader, strict=True))


def _numbers(cells: tuple[str, ...]) -> FloatArray:
    try:
        found = np.array(cells, dtype=np.float64)
    except ValueError:
        found = np.array([_number(cell) for cell in cells])
    return np.where(np.isfinite(found), found, np.nan)


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return float("nan")
