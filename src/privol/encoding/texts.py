"""Columns of text: the feature of each cell, by its level or its hash."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core._text import SHARED, Buckets
from ..readers.written import Written
from .hashes import HASH_SEED, hash_of
from .labels import coded
from .refusals import Refusals
from .schema_parts import MISSING, UNKNOWN, Hashed, Levels
from .told import Told, compact

__all__ = ["BARE", "HASH_SEED", "TextColumn", "hash_of"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int32]

# Places of cells without a feature.
ZERO_MISSING, ZERO_UNKNOWN, REFERENCE, NO_MISSING, NO_UNKNOWN, BARE = -1, -2, -3, -4, -5, -6
# Hashes of earlier texts, so that a text of many batches is hashed once; the limit bounds memory, not correctness.
_KNOWN_TEXTS = 1 << 16
# From this many texts on, all are hashed at once, which has a fixed cost.
_MANY = 256


class TextColumn:
    """Where the cells of a column of text belong: a feature, or none for one of four reasons."""

    #: As in :class:`~privol.encoding.knots.KnotsColumn`.
    work = 1

    def __init__(self, name: str, column: Levels | Hashed, feature: int, entry: int, written: Written) -> None:
        self.name = name
        self.means = column.means if isinstance(column, Hashed) else ()
        self.feature = feature
        self.entry = entry
        self._written = written
        self._buckets = column.buckets if isinstance(column, Hashed) else 0
        self._texts: dict[str, int] = {}
        self._values: dict[float, int] = {}
        self._known: dict[str, int] = {}
        names: list[str]
        self._kept: dict[int, int] = {}
        self._others, self._shared = 0, 0
        if isinstance(column, Hashed):
            own = range(column.buckets) if column.all_own else column.kept
            names = [f"{name}#{bucket}" for bucket in own]
            if not column.all_own:
                self._kept = {bucket: feature + i for i, bucket in enumerate(column.kept)}
                self._others = feature + len(names)
                self._shared = column.rest
                names += [f"{name}#other{i}" for i in range(column.rest)]
                if column.reference is not None:
                    self._kept[column.reference] = REFERENCE
            self.unknown = NO_UNKNOWN if column.all_own or column.rest else ZERO_UNKNOWN
        else:
            at = {level: feature + i for i, level in enumerate(column.levels)}
            for cell, level in column.cells:
                if isinstance(cell, str):
                    self._texts[cell] = at[level]
                else:
                    self._values[float(cell)] = at[level]
            names = [f"{name}={level}" for level in column.levels]
            self.unknown = {"refuse": NO_UNKNOWN, "zero": ZERO_UNKNOWN}.get(column.unknown, feature + len(names))
            if column.unknown == "indicator":
                names.append(f"{name}={UNKNOWN}")
        self.missing = {"refuse": NO_MISSING, "zero": ZERO_MISSING}.get(column.missing, feature + len(names))
        if column.missing == "indicator":
            names.append(f"{name}={MISSING}")
        self.feature_names = self.crossed_names = names
        self.crossed_entries = 1
        cells = () if isinstance(column, Hashed) else [repr(str(cell)) for cell, _ in column.cells]
        self._allowed = ", ".join(cells[:10]) + (", ..." if len(cells) > 10 else "")

    def places(self, column: Any) -> IntArray:
        """Return the feature of each cell of a dictionary-coded column."""
        if self._buckets and (not hasattr(column, "dictionary") or len(compact(column).dictionary) >= _MANY):
            told = Told(column, self._written, hashes=True)
            places = self._many(told)
            return places[:-1] if told.each else places[told.indices]
        indices, texts = coded(compact(column))
        table = np.fromiter(map(self.place_of, texts), dtype=np.int32, count=len(texts))
        found: IntArray = table[indices]
        return found

    def crossed(self, places: IntArray) -> tuple[IntArray, FloatArray]:
        """Return what the column contributes to a cross, for cells with these features."""
        own: IntArray = np.maximum(places, np.int32(self.feature)) - np.int32(self.feature)
        return own[:, None], (places >= 0).astype(np.float64)[:, None]

    def check(self, places: IntArray, column: Any, refusals: Refusals, schema: str) -> None:
        """Note the rows whose cell the schema refuses; ``schema`` is its name."""
        if places.min(initial=0) > NO_MISSING:
            return
        what = "a text" if self._buckets else f"one of {self._allowed}"
        says = f'under [columns.{self.name}] of {schema} says so; "indicator" and "zero" take it'
        refusals.add(places == NO_MISSING, self.name, f'found nothing, allowed is {what} (missing = "refuse" {says})')
        mark = "; what stands for a missing cell belongs to missing under [file]"
        hint = f'allowed is {what} (unknown = "refuse" {says}{mark})'
        refusals.add(places == NO_UNKNOWN, self.name, f", {hint}", column)

    def place_of(self, text: str | None) -> int:
        """Return the feature of one cell (None: a missing cell); a cell without a feature has a negative place."""
        if text is None:
            return self.missing
        place = self._known.get(text)
        if place is None:
            place = self._look_up(text.strip())
            if len(self._known) >= _KNOWN_TEXTS:
                self._known.clear()
            self._known[text] = place
        return place

    def _look_up(self, text: str) -> int:
        if text in self._written.missing:
            return self.missing
        if self._buckets:
            return self._hashed(hash_of(text))
        place = self._texts.get(text)
        if place is None and self._values and "_" not in text:
            try:
                value = float(self._written.pointed(text) or "")
            except ValueError:
                return self.unknown
            if value in self._written.missing_numbers:
                return self.missing
            place = self._values.get(value)
        return self.unknown if place is None else place

    def _many(self, told: Told) -> IntArray:
        """Return :meth:`place_of` each text, and of a null after them."""
        assert told.hashes is not None
        return self._table.places(told.cells, told.hashes)

    @cached_property
    def _table(self) -> Buckets:
        """Where hashes belong. It takes four bytes a bucket, so it is made only when it is asked for."""
        if not self._kept:  # each bucket has its own feature: all such columns share one table
            return Buckets(None, self.feature, self._buckets, self.missing)
        own = np.full(self._buckets, SHARED, dtype=np.int32)
        own[list(self._kept)] = list(self._kept.values())
        return Buckets(own, self._others if self._shared else self.unknown, self._shared, self.missing)

    def _hashed(self, found: int) -> int:
        bucket = found % self._buckets
        if not self._kept:
            return self.feature + bucket
        place = self._kept.get(bucket)
        if place is not None:
            return place
        return self._others + found % self._shared if self._shared else self.unknown
