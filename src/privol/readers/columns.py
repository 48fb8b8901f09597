"""Inputs of named, typed columns.

There are two families of readers. Readers of rows (arrays, libsvm) yield (X, y) themselves. Readers of columns (CSV,
JSON lines, Parquet, Arrow, frames) yield only the columns that are asked for, as numbers or as text; an encoder says
which columns it needs and makes rows of them. A new format of columns is one subclass of :class:`Columns`, and schemas
work with it at once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..errors import InvalidParameter, StreamError
from .base import Progress, Reader, arrow
from .files import listed
from .written import Written

__all__ = ["Batch", "Columns", "ColumnsAround", "Kind", "blanked", "resolve_column"]

Kind = Literal["number", "text", "cells"]
# A pyarrow.RecordBatch; pyarrow is optional and has no type stubs.
Batch = Any


class Columns(Reader):
    """A kind of input with named columns.

    Attributes
    ----------
    format : str or None
        Set for a file.
    names : tuple of str
        All columns in order; "0", "1", ... where the input has no names.
    first_row : int
        Number of its first row, for messages.
    named : bool
        Whether the input has names of its own.
    hints : mapping from name to str
        What an encoder wants to be said in errors about a cell of a column.
    written : Written or None
        How an encoder wants text in columns of numbers to be read; None: text there is an error. A file that is itself
        text (CSV) has its own options for that.
    accepts : tuple of (kinds, callable)
        For each encoder of these columns those that it asks for, and what takes a batch with them and the number of its
        first row: it raises StreamError for a row that cannot be learnt. An input that sets such rows aside asks it
        beforehand.
    """

    format: str | None = None
    first_row: int = 1
    names: tuple[str, ...]
    named: bool = True
    hints: Mapping[str, str] = MappingProxyType({})
    written: Written | None = None
    accepts: tuple[tuple[Mapping[str, Kind], Callable[[Batch, int], object]], ...] = ()

    @property
    def ahead(self) -> bool:
        """Whether a thread may read batches while earlier ones are used.

        It may not where the input answers questions about its latest batch, nor where it may be silent for long, as
        nothing could end that thread.
        """
        return self.facts.ahead and self.facts.repeatable

    def check(self, kinds: Mapping[str, Kind]) -> None:
        """Raise StreamError if a wanted column cannot be of the wanted kind, where that is known in advance."""

    def only_text(self, name: str) -> bool:
        """Return whether the input certainly holds the cells of a column as text.

        Numbers in such a column are written as :attr:`written` says; cells that are themselves numbers always have a
        decimal point.
        """
        return False

    def floats(self, name: str) -> bool:
        """Return whether the input certainly holds the cells of a column as doubles or floats.

        Reading them as numbers costs nothing, and their texts read back as the same numbers.
        """
        return False

    @abstractmethod
    def batches(self, kinds: Mapping[str, Kind], limit: int, progress: Progress) -> Iterator[Batch]:
        """Yield record batches with exactly the columns of ``kinds``, in that order.

        "number" gives float64; "text" gives a dictionary of strings with int32 indices; null is a missing cell. "cells"
        gives strings, such a dictionary, float64, date32 or timestamps, whichever costs least, for an encoder that
        looks at each cell itself: a missing cell is null, NaN or one of the texts that stand for it.

        A cell that is
        not of its kind raises StreamError with its 1-based row, its column, what was found and what is allowed, before
        its batch is yielded. ``limit`` is the number of rows wanted in a batch; ``progress`` is called with the
        fraction of the input consumed. None in place of a batch says that the input pauses.
        """

    def batches_after(
        self, rows: int, kinds: Mapping[str, Kind], limit: int, progress: Progress, what: str
    ) -> Iterator[Batch]:
        """Yield what :meth:`batches` does without the first rows, which messages call ``what``.

        They are read and left out, where an input cannot begin behind them.
        """
        left = rows
        for batch in self.batches(kinds, limit, progress):
            if batch is not None and left:
                skipped = min(left, batch.num_rows)
                left -= skipped
                batch = batch.slice(skipped)
                if not batch.num_rows:
                    continue
            yield batch
        if left:
            raise StreamError(f"{self.name}: has no more rows than {what} ({rows:,})")

    @abstractmethod
    def sample(self, rows: int) -> Any:
        """Return the first rows, at most ``rows``, as a pyarrow.Table of the types that the input has or shows."""

    def located(self, error: StreamError) -> StreamError:
        """Return an error about a row of the latest batch in the input's own terms: it names the file among several."""
        return error

    def column(self, name: str) -> str:
        """Return what messages call a column."""
        return repr(name) if self.named else name

    def bad_cell(self, row: int, name: str, what: str) -> StreamError:
        """Return the error about a cell; ``what`` says what was found and what is allowed."""
        hint = f" ({self.hints[name]})" if name in self.hints else ""
        return StreamError(f"{self.name}, row {row}, column {self.column(name)}: {what}{hint}", row=row)


class ColumnsAround(Columns):
    """Columns that read as another reader's do, except for what a subclass changes."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self.names, self.first_row = columns.names, columns.first_row
        self.named, self.format, self.facts = columns.named, columns.format, columns.facts

    @property
    def hints(self) -> Mapping[str, str]:
        """The hints of the columns inside."""
        return self._columns.hints

    @hints.setter
    def hints(self, hints: Mapping[str, str]) -> None:
        self._columns.hints = hints

    @property
    def written(self) -> Any:
        """How the columns inside read numbers in text."""
        return self._columns.written

    @written.setter
    def written(self, written: Any) -> None:
        self._columns.written = written

    @property
    def accepts(self) -> Any:
        """What an encoder of the columns inside takes."""
        return self._columns.accepts

    @accepts.setter
    def accepts(self, accepts: Any) -> None:
        self._columns.accepts = accepts

    @property
    def ahead(self) -> bool:
        return self._columns.ahead

    @property
    def loose(self) -> bool:
        """Whether reading may find a cell that is not allowed, whichever columns are asked for."""
        found: bool = getattr(self._columns, "loose", True)
        return found

    def check(self, kinds: Mapping[str, Kind]) -> None:
        self._columns.check(kinds)

    def only_text(self, name: str) -> bool:
        return self._columns.only_text(name)

    def floats(self, name: str) -> bool:
        return self._columns.floats(name)

    def sample(self, rows: int) -> Any:
        return self._columns.sample(rows)

    def count(self) -> int:
        return self._columns.count()

    def located(self, error: StreamError) -> StreamError:
        return self._columns.located(error)

    def column(self, name: str) -> str:
        return self._columns.column(name)

    def bad_cell(self, row: int, name: str, what: str) -> StreamError:
        return self._columns.bad_cell(row, name, what)


def blanked(column: Any, rows: npt.NDArray[np.bool_]) -> Any:
    """Return a column, or targets, with the values of some rows missing and all others unchanged."""
    pa = arrow("null rows")
    if pa.types.is_dictionary(column.type):
        return pa.DictionaryArray.from_arrays(blanked(column.indices, rows), column.dictionary)
    if pa.types.is_string(column.type) or pa.types.is_temporal(column.type):
        import pyarrow.compute as pc

        return pc.if_else(pa.array(rows), None, column)
    return pa.array(np.asarray(column.fill_null(0)), column.type, mask=rows | np.asarray(column.is_null()))


def resolve_column(target: Any, names: tuple[str, ...] | None, n_columns: int, source: str) -> int | None:
    """Return the 0-based column of the target; None where ``target=False`` says that there is none."""
    if target is False:
        return None
    if target is None:
        return n_columns - 1
    columns = f"columns 0 to {n_columns - 1}" + (f" or {listed(names)}" if names else "")
    if isinstance(target, str):
        if names is None:
            raise StreamError(f"{source}: no column named {target!r} (there is no header), allowed are {columns}")
        if target.strip() not in names:
            raise StreamError(f"{source}: no column named {target!r}, allowed are {columns}")
        return names.index(target.strip())
    if isinstance(target, bool) or not isinstance(target, (int, np.integer)):
        raise InvalidParameter(f"target must be a column name, an index, None or False, found {target!r}")
    if not -n_columns <= target < n_columns:
        raise StreamError(f"{source}: no column {target}, allowed are {columns}")
    return int(target) % n_columns
