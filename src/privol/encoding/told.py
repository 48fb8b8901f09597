"""The meaning of cells in a text column: one pass over the texts separates numbers, times and missing cells."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core._text import MISSING, NUMBER, OPEN, TEXT, TIME, Form
from ..readers.arrow import is_moment, written_out
from ..readers.written import Written
from .hashes import hashes_of
from .times import seconds_held, seconds_in

__all__ = ["Told", "compact", "form_of", "positions"]

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int32]
HashArray = npt.NDArray[np.uint32]


def compact(column: Any) -> Any:
    """Return a dictionary-coded column of text whose dictionary is no longer than the column.

    Batches may share a dictionary of all texts of an input, of which each batch has only some.
    """
    if not hasattr(column, "dictionary"):
        return column.dictionary_encode()
    return column if len(column.dictionary) <= max(len(column), 64) else column.dictionary_decode().dictionary_encode()


def positions(column: Any) -> IntArray:
    """Return the indices of a dictionary-coded pyarrow column; a missing cell has the size of its dictionary."""
    indices = column.indices.fill_null(len(column.dictionary)) if column.indices.null_count else column.indices
    found: IntArray = indices.to_numpy()
    return found


@lru_cache(maxsize=64)
def form_of(missing: frozenset[str], decimal: str, pointed: bool) -> Form:
    """Return how cells of text are written; ``pointed`` is as for :class:`Told`."""
    marks = decimal + "." if pointed and decimal != "." else decimal
    return Form([text.encode() for text in sorted(missing)], marks.encode())


@lru_cache(maxsize=64)
def _moments_among(texts: frozenset[str]) -> tuple[float, ...]:
    """Return the times among these texts."""
    import pyarrow

    seconds, _ = seconds_in(pyarrow.array(sorted(texts), pyarrow.string()), Written())
    return tuple(seconds[~np.isnan(seconds)].tolist())


class Told:
    """The texts of a column and their meanings: each text of a dictionary once, strings one by one.

    Parameters
    ----------
    column : pyarrow.Array of length n
        Of strings, or a dictionary of them, of doubles, dates or timestamps. A double stands for the shortest text that
        reads back as it, with a decimal point; NaN is null. A date or time stands for its text in ISO 8601 with a blank
        in place of the T, in UTC with a Z if it has a zone.
    written : Written
    pointed : bool
        As for :meth:`privol.readers.written.Written.values`.
    hashes : bool
        Whether the texts are hashed as well.

    Attributes
    ----------
    values : ndarray of float64, shape (texts,)
        Numbers, and times as seconds since 1970; NaN for all others and for numbers that count as missing.
    cells : ndarray of uint8, shape (texts,)
        MISSING, NUMBER, TIME or TEXT.
    hashes : ndarray of uint32, shape (texts,), or None
        :func:`~privol.encoding.hashes.hash_of` each text that is not missing.
    each : bool
        Whether each row has a text of its own, in the order of the rows.
    doubles : ndarray of float64, shape (texts,), or None
        The cells, if they are doubles.
    """

    hashes: HashArray | None
    doubles: FloatArray | None

    def __init__(self, column: Any, written: Written, *, pointed: bool = False, hashes: bool = False) -> None:
        self._moments = is_moment(column.type) and not hashes
        if is_moment(column.type) and hashes:
            column = written_out(column)
        self.each = not hasattr(column, "dictionary")
        self.doubles = None if column.type != "double" else np.asarray(column.to_numpy(zero_copy_only=False))
        self._column = column if self.each else compact(column)
        self._texts = column if self.each else self._column.dictionary
        self._written = written
        if self.doubles is not None:
            self._of_doubles(written, hashes)
            return
        if self._moments:
            self._of_moments(written)
            return
        form = form_of(written.missing, written.decimal, pointed)
        _, offsets, content = self._texts.buffers()
        ends = np.zeros(1, np.int32)
        if len(self._texts):
            ends = np.frombuffer(offsets, np.int32)[self._texts.offset : self._texts.offset + len(self._texts) + 1]
        data = np.empty(0, np.uint8) if content is None else np.frombuffer(content, np.uint8)
        self.values, self.cells, self.hashes, left = form.look(ends, data, hashes=hashes)
        for marker in written.missing_numbers:
            self.values[(self.cells == NUMBER) & (self.values == marker)] = np.nan
        if self._texts.null_count:
            null = self._texts.is_null().to_numpy(zero_copy_only=False)
            self.values[null], self.cells[null] = np.nan, MISSING
        if left:
            self._settle(written, pointed)

    def _of_doubles(self, written: Written, hashes: bool) -> None:
        """Find the meanings of doubles, as their texts would give them."""
        self.values = np.array(self.doubles)
        self.cells = np.where(np.isnan(self.values), MISSING, NUMBER).astype(np.uint8)
        # by value if the decimal mark is a point, and by text in any case
        plain = Written(written.missing).missing_numbers
        for at in np.flatnonzero(np.isin(self.values, (*plain, *written.missing_numbers))).tolist():
            x = float(self.values[at])
            if repr(x) in written.missing:
                self.cells[at] = MISSING
            if repr(x) in written.missing or x in written.missing_numbers:
                self.values[at] = np.nan
        self.hashes = hashes_of(self._written_out()) if hashes else None

    def _of_moments(self, written: Written) -> None:
        """Find the meanings of dates and times, as their texts would give them."""
        import pyarrow

        self.values, self.hashes = seconds_held(self._texts), None
        none = np.isnan(self.values)
        self.cells = np.where(none, np.uint8(TEXT), np.uint8(TIME))
        # only a few texts are needed: those that count as missing
        for marker in _moments_among(written.missing):
            none |= self.values == marker
        doubtful = np.flatnonzero(none)
        if len(doubtful):
            texts = written_out(self._texts.take(pyarrow.array(doubtful)))
            missing = doubtful[written.present(texts).is_null().to_numpy(zero_copy_only=False)]
            self.values[missing], self.cells[missing] = np.nan, MISSING

    def _written_out(self) -> Any:
        """Return the texts, including those of doubles and moments."""
        import pyarrow

        if self._moments:
            return written_out(self._texts)
        if self.doubles is None:
            return self._texts
        return pyarrow.array([repr(x) if x == x else None for x in self.doubles.tolist()], pyarrow.string())

    def _settle(self, written: Written, pointed: bool) -> None:
        """Have slower readers decide what one look cannot."""
        import pyarrow

        at = np.flatnonzero(self.cells == OPEN)
        texts = self._texts.take(pyarrow.array(at))
        present = written.present(texts)
        numbers, strange = written.values(texts, pointed=pointed)
        seconds, _ = seconds_in(texts, written)
        said = np.where(strange, np.where(np.isnan(seconds), TEXT, TIME), NUMBER)
        valid = present.is_valid().to_numpy(zero_copy_only=False)
        self.cells[at] = np.where(valid, said, MISSING)
        self.values[at] = np.where(strange, seconds, numbers)
        if self.hashes is not None:
            self.hashes[at] = hashes_of(present)

    @property
    def present(self) -> Any:
        """The texts without surrounding blanks, null where they count as missing: an array of strings."""
        return self._written.present(self._written_out())

    @cached_property
    def indices(self) -> IntArray:
        """The text of each row, shape (n,); for a null cell the number of texts."""
        return np.arange(len(self._texts), dtype=np.int32) if self.each else positions(self._column)

    @cached_property
    def weights(self) -> npt.NDArray[np.int64]:
        """How many rows have each text, shape (texts + 1,); the last entry counts null cells."""
        if self.each:
            found = np.ones(len(self._texts) + 1, dtype=np.int64)
            found[-1] = 0
            return found
        return np.bincount(self.indices, minlength=len(self._texts) + 1)

    @property
    def missing(self) -> BoolArray:
        """Which texts count as missing, shape (texts + 1,); the last entry, for null cells, is true."""
        found: BoolArray = np.append(self.cells == MISSING, True)
        return found

    @property
    def plain(self) -> BoolArray:
        """Which texts are finite numbers as Python reads them and not missing, shape (texts,); ``values`` has them."""
        if self.doubles is None and self._written.decimal != ".":
            return np.zeros(len(self.values), dtype=bool)
        found: BoolArray = (self.cells == NUMBER) & np.isfinite(self.values)
        return found

    @property
    def times(self) -> BoolArray:
        """Which texts are times, shape (texts,)."""
        found: BoolArray = self.cells == TIME
        return found

    @property
    def numbers(self) -> BoolArray:
        """Which texts are numbers, shape (texts,), including infinities, NaN and numbers that count as missing."""
        found: BoolArray = self.cells == NUMBER
        return found
