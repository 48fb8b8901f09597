"""Typed columns of Arrow: which types can be numbers or text, and the conversion of their batches."""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..errors import StreamError
from .base import BLOCK_BYTES, Facts, Progress, arrow, plainly
from .columns import Columns, Kind

__all__ = ["TypedColumns", "batch_rows", "cut", "is_moment", "written_out"]

# Rows decoded at once: few enough that they are still in a near cache when columns become rows.
BATCH_ROWS = 1 << 16

# Above this, doubles do not hold every integer.
EXACT = 2**53
_INDEX = re.compile(r"__index_level_\d+__")
_ALLOWED = {
    "number": "integers, floats, booleans, decimals",
    "text": "strings, integers, floats, booleans, decimals, dates, times",
    "cells": "strings, integers, floats, booleans, decimals, dates, times",
}


def batch_rows(columns: int) -> int:
    """Return how many rows of ``columns`` columns a batch may have in memory."""
    return max(1, min(BATCH_ROWS, BLOCK_BYTES // (8 * max(columns, 1))))


def cut(batch: Any, columns: int) -> Iterator[Any]:
    """Yield an input's batch in pieces of the wanted size, without a copy."""
    step = batch_rows(columns)
    for start in range(0, batch.num_rows, step):
        yield batch.slice(start, step)


class TypedColumns(Columns):
    """Columns whose types are known in advance: what Parquet, Arrow IPC and frames have in common.

    Read as numbers, true and false are 1 and 0, and a decimal is the nearest double. An integer that no double holds is
    an error; so is text, unless :attr:`written` says how to read it. Read as text, an integer is its digits, another
    number is the shortest form that reads back as the same number, true and false are these words, and NaN is a missing
    cell. A date or time is in ISO 8601 with a blank in place of the T, and in UTC with a Z if it has a zone. A
    dictionary column counts as the values it holds. The index of a pandas frame is not a column.

    Parameters
    ----------
    facts : Facts
    schema : pyarrow.Schema
        The input's own schema.
    """

    def __init__(self, facts: Facts, schema: Any) -> None:
        self.facts, name = facts, facts.name
        names = [column for column in schema.names if column not in _index_columns(schema)]
        if not names:
            raise StreamError(f"{name}: no columns, at least one is needed")
        twice = next((column for column in names if names.count(column) > 1), None) if _repeats(names) else None
        if twice is not None:
            raise StreamError(f"{name}: two columns are named {twice!r}, names must differ")
        self.names = tuple(names)
        self._types = {column: schema.field(column).type for column in names}

    def check(self, kinds: Mapping[str, Kind]) -> None:
        """Raise StreamError for the first wanted column whose type can never be of its kind."""
        for name, kind in kinds.items():
            if not (_possible(self._types[name], kind) or (self.written is not None and _is_text(self._types[name]))):
                a = "a number" if kind == "number" else "text"
                hint = f" ({self.hints[name]})" if name in self.hints else ""
                raise StreamError(
                    f"{self.name}, column {self.column(name)}: found the type {self._types[name]}, allowed for {a} are "
                    f"{_ALLOWED[kind]}, and dictionaries of these; convert or drop the column{hint}"
                )

    def only_text(self, name: str) -> bool:
        return _is_text(self._types[name])

    def floats(self, name: str) -> bool:
        return bool(arrow("typed columns").types.is_floating(self._types[name]))

    @abstractmethod
    def typed(self, kinds: Mapping[str, Kind], limit: int, progress: Progress) -> Iterator[Any]:
        """Yield record batches that hold at least the columns of ``kinds``, with the input's own types."""

    def batches(self, kinds: Mapping[str, Kind], limit: int, progress: Progress) -> Iterator[Any]:
        return self.converted(self.typed(kinds, limit, progress), kinds)

    def converted(self, batches: Iterator[Any], kinds: Mapping[str, Kind], before: int = 0) -> Iterator[Any]:
        """Yield batches of the input's own types as those of these kinds; ``before``: rows that come before them."""
        pa = arrow("typed columns")
        names, row = list(kinds), before + 1
        for batch in batches:
            columns = [self._converted(batch.column(name), name, kind, row) for name, kind in kinds.items()]
            row += batch.num_rows
            yield pa.RecordBatch.from_arrays(columns, names=names)

    def _converted(self, column: Any, name: str, kind: Kind, row: int) -> Any:
        pa = arrow("typed columns")
        if kind == "cells" and pa.types.is_floating(column.type):
            return self._number(column, name, row)
        if kind == "cells" and is_moment(column.type):
            return column
        if kind == "cells" and column.type == pa.string():
            try:
                column.validate(full=True)
            except pa.ArrowInvalid:
                pass  # located below
            else:
                return column
        return self._number(column, name, row) if kind == "number" else self._text(column, name, row)

    def _number(self, column: Any, name: str, row: int) -> Any:
        pa = arrow("typed columns")
        types, double = pa.types, pa.float64()
        kind = column.type
        if kind == double:
            return column
        if types.is_dictionary(kind):
            return self._number(column.dictionary_decode(), name, row)
        if _is_text(kind):
            return self._written_number(column.cast(pa.string()), name, row)
        if types.is_decimal(kind):
            # from its digits: correctly rounded, as the same number in a text file is
            return column.cast(pa.string()).cast(double)
        try:
            return column.cast(double)
        except pa.ArrowInvalid:
            for i, value in enumerate(column.to_pylist()):
                if value is not None and abs(value) > EXACT:
                    raise self.bad_cell(
                        row + i, name, f"found {value}, allowed are integers up to 2^53, which a double holds exactly"
                    ) from None
            raise

    def _written_number(self, column: Any, name: str, row: int) -> Any:
        pa = arrow("typed columns")
        assert self.written is not None
        try:
            return self.written.numbers(column)
        except pa.ArrowInvalid:
            found = []
            for i, text in enumerate(column.to_pylist()):
                try:
                    found.append(None if text is None else self.written.number(text))
                except ValueError:
                    raise self.bad_cell(row + i, name, self.written.refusal(text)) from None
            return pa.array(found, pa.float64())

    def _text(self, column: Any, name: str, row: int) -> Any:
        pa = arrow("typed columns")
        types = pa.types
        if types.is_dictionary(column.type):
            if column.dictionary.null_count:
                return self._text(column.dictionary_decode(), name, row)
        else:
            column = (column.cast(pa.string()) if types.is_null(column.type) else column).dictionary_encode()
        values, indices = column.dictionary, column.indices
        if types.is_floating(values.type):
            numbers = values.cast(pa.float64()).to_pylist()
            values = pa.array([repr(x) if x == x else None for x in numbers], pa.string())
            if values.null_count:
                column = pa.DictionaryArray.from_arrays(indices, values).dictionary_decode().dictionary_encode()
                values, indices = column.dictionary, column.indices
        try:
            if not types.is_string(values.type):
                values = written_out(values)
            values.validate(full=True)
        except (pa.ArrowInvalid, UnicodeDecodeError):  # or of Arrow's own error, which quotes the bytes
            raise self._not_text(column, name, row) from None
        if indices.type != pa.int32():
            indices = indices.cast(pa.int32())
        return pa.DictionaryArray.from_arrays(indices, values)

    def _not_text(self, column: Any, name: str, row: int) -> StreamError:
        pa = arrow("typed columns")
        good = []
        for value in column.dictionary.cast(pa.binary()).to_pylist():
            try:
                value.decode("utf-8")
                good.append(True)
            except UnicodeDecodeError:
                good.append(False)
        at = next((i for i, code in enumerate(column.indices.to_pylist()) if code is not None and not good[code]), 0)
        return self.bad_cell(row + at, name, "found bytes that are not UTF-8, allowed is text in UTF-8")

    def sample(self, rows: int) -> Any:
        pa = arrow("typed columns")
        batches, held = [], 0
        # Columns of any type: they are displayed, not converted.
        for batch in self.typed(dict.fromkeys(self.names, "number"), rows, lambda _: None):
            batches.append(batch.select(list(self.names)))
            held += batch.num_rows
            if held >= rows:
                break
        if not batches:
            return pa.schema(list(self._types.items())).empty_table()
        return pa.Table.from_batches(batches).slice(0, rows)

    def damaged(self, err: BaseException, row: int) -> StreamError:
        """Return the error for what the library reports about the input at a row."""
        return StreamError(
            f"{self.name}, from row {row}: cannot be read, the data are damaged: {plainly(err)}", row=row
        )


def _repeats(names: Sequence[str]) -> bool:
    return len(set(names)) != len(names)


def _index_columns(schema: Any) -> set[str]:
    """Return the columns that hold the index of the pandas frame from which a table was made."""
    found = {name for name in schema.names if _INDEX.fullmatch(name)}
    try:
        listed = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))["index_columns"]
        return found | {name for name in listed if isinstance(name, str)}
    except (ValueError, KeyError, TypeError, RecursionError):
        return found


def _possible(kind: Any, wanted: Kind) -> bool:
    types = arrow("typed columns").types
    if types.is_dictionary(kind):
        return _possible(kind.value_type, wanted)
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_null(kind):
        return True
    if wanted == "number":
        return bool(types.is_decimal(kind))
    written = types.is_decimal(kind) or types.is_date(kind) or types.is_timestamp(kind) or types.is_time(kind)
    return written or _is_text(kind)


def is_moment(kind: Any) -> bool:
    """Return whether cells of a type are dates, or dates with a time."""
    types = arrow("typed columns").types
    return bool(types.is_date32(kind) or types.is_timestamp(kind))


def written_out(values: Any) -> Any:
    """Return an array of any of the types that may be text as strings."""
    pa = arrow("typed columns")
    if not pa.types.is_timestamp(values.type) or values.type.tz is None:
        return values.cast(pa.string())
    import pyarrow.compute as pc

    # in UTC: for any other zone Arrow needs a database of zones
    return pc.binary_join_element_wise(values.cast(pa.timestamp(values.type.unit)).cast(pa.string()), "Z", "")


def _is_text(kind: Any) -> bool:
    types = arrow("typed columns").types
    if types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))
