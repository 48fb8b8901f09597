"""JSON lines: pyarrow parses chunks of plain objects, and the json module parses all others."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from ..errors import StreamError
from .base import Progress
from .columns import Columns, Kind
from .csv import ALONE_BYTES, arrow_reader
from .files import Lines, shown

__all__ = ["HEAD_LINES", "JsonColumns"]

# How many first lines the columns are taken from.
HEAD_LINES = 1000
_BOM = b"\xef\xbb\xbf"
# pyarrow's parser accepts several objects on a line, or one object on several lines, as rows, and may crash on a bare
# null or on deep nesting. So it is given only flat objects, each on a line of its own: only the next line follows a
# "}", every line begins with "{", and no value is an object or an array. A string may look like a breach of these rules
# without being one; then the json module decides.
_NESTED = re.compile(rb":\s*[\[{]")
_CLOSED = re.compile(rb"\}(?![ \t]*(?:\r?\n|\Z))")
_OPENED = re.compile(rb"\n(?!\s*(?:\{|\Z))")
# The beginning of what may be a blank line.
_BLANK = re.compile(rb"\n\s")
_BLOCK_BYTES = 1 << 20

Cells = dict[str, list[Any]]


class _Twice(ValueError):
    """A key that occurs twice in one object; the message is the key."""


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        raise _Twice(next(key for key in keys if keys.count(key) > 1))
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_members)


def _integer(digits: str) -> float:
    try:
        return int(digits)
    except ValueError:
        # Python refuses to convert thousands of digits to an integer, but a number may still be infinite
        return float(digits)


_LENIENT = json.JSONDecoder(object_pairs_hook=_members, parse_int=_integer)
_KINDS = {bool: "true or false", int: "a number", float: "a number", str: "text", list: "an array", dict: "an object"}


def _decoded(line: str) -> Any:
    try:
        return _DECODER.decode(line)
    except (_Twice, json.JSONDecodeError):
        raise
    except ValueError:
        return _LENIENT.decode(line)


def _named(value: Any) -> str:
    """Return what a message calls a value."""
    if isinstance(value, str):
        return f"text, {shown(value)}"
    return "null" if value is None else _KINDS[type(value)]


class JsonColumns(Columns):
    """A file of JSON lines: one object a line; its keys are the columns.

    The columns are the keys of the first ``HEAD_LINES`` lines, in order of first appearance. A live input has those of
    its first line alone, so that no row waits for others. A key that is missing or null is a missing cell. Read as
    numbers, true and false are 1 and 0. Read as text, an integer is its digits, another number is the shortest form
    that reads back as the same number, and true and false are these words. NaN and Infinity, which strict JSON does not
    know, are numbers here; text is a number only where :attr:`written` says how to read it. A column that nobody asks
    for may hold anything.

    Parameters
    ----------
    file : Lines
    """

    format = "jsonl"

    def __init__(self, file: Lines) -> None:
        try:
            import pyarrow
            import pyarrow.compute
            import pyarrow.json
        except ImportError as err:
            raise StreamError("reading JSON lines needs pyarrow: pip install 'privol[files]'") from err
        self._pyarrow, self._json, self._compute = pyarrow, pyarrow.json, pyarrow.compute
        self.facts = replace(file.facts, inferred=("columns",))
        self._file = file
        objects = self._first(1 if file.live else HEAD_LINES)
        if not objects:
            raise StreamError(f"{self.name}: no rows, at least one is needed")
        self.names = tuple(dict.fromkeys(key for row in objects for key in row))
        if not self.names:
            raise StreamError(f"{self.name}: the first {len(objects)} row(s) have no keys, at least one is needed")
        self._known = frozenset(self.names)
        self._seen = {name: {type(row[name]) for row in objects if row.get(name) is not None} for name in self.names}

    def _first(self, lines: int) -> list[dict[str, Any]]:
        """Return the objects of the first lines."""

        def enough(text: bytes) -> bool:
            return len(text) >= lines and sum(1 for line in text.split(b"\n")[:-1] if line.strip()) >= lines

        text, everything = self._file.head(enough)
        if text.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise StreamError(f"{self.name}: is not text in UTF-8, convert it first")
        *whole, last = text.removeprefix(_BOM).split(b"\n")
        found = [line for line in whole if line.strip()][:lines]
        objects = [self._object(line, row) for row, line in enumerate(found, 1)]
        if everything and last.strip() and len(objects) < lines:
            try:
                objects.append(self._object(last, len(objects) + 1))
            except StreamError:
                # it may still be being written; if not, reading it will tell
                if not objects:
                    raise
        return objects

    def _objects(self, text: bytes, first_row: int) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the row numbers and objects of a text, parsed by the json module."""
        row = first_row - 1
        for line in text.split(b"\n"):
            if not line.strip():
                continue
            row += 1
            yield row, self._object(line, row)

    def _object(self, line: bytes, row: int) -> dict[str, Any]:
        what = None
        try:
            found = _decoded(line.decode())
        except _Twice as err:
            what = f"found the key {shown(str(err))} twice, allowed is once"
        except UnicodeDecodeError as err:
            what = f"found the byte 0x{line[err.start]:02x} at position {err.start}, allowed is text in UTF-8"
        except json.JSONDecodeError as err:
            what = f"is not JSON: {err.msg} at position {err.pos}; one object a line is needed"
        except RecursionError:
            what = "is nested too deeply"
        else:
            if isinstance(found, dict):
                return found
            what = f"found {_named(found)}, allowed is an object ({{...}}), one a line"
        raise StreamError(f"{self.name}, row {row}: {what}", row=row)

    def batches(self, kinds: Mapping[str, Kind], limit: int, progress: Progress) -> Iterator[Any]:
        row = 1
        # The type given to pyarrow for each column. A column of mixed types is left to the json module.
        written = {
            name: _form(self._seen.get(name, set()), kind, float if kind == "number" else str)
            for name, kind in kinds.items()
        }

        def done() -> int:
            return row - 1

        for text, fraction in self._texts(done):
            if not text:
                yield None
                progress(fraction)
                continue
            table = self._parse_fast(text, kinds, written)
            if table is None:
                table = self._parse(text, kinds, row, written)
            for batch in table.to_batches():
                if batch.num_rows:
                    yield batch
                    row += batch.num_rows
            progress(fraction)

    def _texts(self, rows_done: Callable[[], int]) -> Iterator[tuple[bytes, float]]:
        first = True
        for text, fraction in self._file.chunks(rows_done):
            if not text:
                yield text, fraction
                continue
            if first and text.startswith(_BOM):
                text = text[len(_BOM) :]
            first = False
            if text[:256].strip() or text.strip():
                yield text, fraction

    def _parse_fast(self, text: bytes, kinds: Mapping[str, Kind], written: Mapping[str, type | None]) -> Any:
        """Return the rows of a text of flat objects, parsed by pyarrow; None where it may read anything differently."""
        if (
            None in written.values()
            or not text.startswith(b"{")
            or b"Inf" in text
            or b"-NaN" in text
            or _NESTED.search(text)
            or _CLOSED.search(text)
            or _OPENED.search(text)
            or not _is_utf8(text)
        ):
            return None
        arrow = self._pyarrow
        types = {float: arrow.float64(), bool: arrow.bool_(), int: arrow.int64(), str: arrow.string()}
        try:
            table = self._json.read_json(
                arrow_reader(arrow, text),
                read_options=self._json.ReadOptions(block_size=_BLOCK_BYTES, use_threads=len(text) > ALONE_BYTES),
                parse_options=self._json.ParseOptions(
                    explicit_schema=arrow.schema([(name, types[form]) for name, form in written.items() if form]),
                    unexpected_field_behavior="infer",
                ),
            )
        except (arrow.ArrowInvalid, arrow.ArrowNotImplementedError):
            return None
        known = set(table.column_names)
        if table.num_rows != _lines(text) or not known <= self._known | kinds.keys():
            return None
        columns = {}
        for name, kind in kinds.items():
            column = table.column(name)
            if kind == "number" and written[name] is str:
                if self.written is None:
                    return None
                try:
                    columns[name] = self.written.numbers(column)
                except arrow.ArrowInvalid:
                    return None  # the careful look finds the row
            elif kind == "number":
                columns[name] = column.cast(arrow.float64())
            else:
                columns[name] = column.cast(arrow.string()).dictionary_encode()
        return arrow.table(columns)

    def _parse(self, text: bytes, kinds: Mapping[str, Kind], first_row: int, written: dict[str, type | None]) -> Any:
        """Return the rows of a text, parsed by the json module, and note in ``written`` what the columns hold."""
        cells: Cells = {name: [] for name in kinds}
        seen: dict[str, set[type]] = {name: set() for name in kinds}
        allowed = self._known | kinds.keys()
        for row, found in self._objects(text, first_row):
            for key in found:
                if key not in allowed:
                    what = f"found the key {shown(key)}, which no row before row {HEAD_LINES + 1} has"
                    if self._file.live:
                        what = f"found the key {shown(key)}, allowed are those of the first row (null "
                        what += f"where there is nothing; only those of a file are inferred from {HEAD_LINES} rows)"
                    raise StreamError(f"{self.name}, row {row}: {what}", row=row)
            for name, kind in kinds.items():
                value = found.get(name)
                cells[name].append(value if value is None else self._cell(value, kind, row, name))
                if value is not None:
                    seen[name].add(type(value))
        arrow = self._pyarrow
        columns = {}
        for name, kind in kinds.items():
            written[name] = _form(seen[name], kind, written[name])
            if kind == "number":
                columns[name] = arrow.array(cells[name], arrow.float64())
            else:
                columns[name] = arrow.array(cells[name], arrow.string()).dictionary_encode()
        return arrow.table(columns)

    def _cell(self, value: Any, kind: Kind, row: int, name: str) -> float | str | None:
        if kind == "number" and isinstance(value, str) and self.written is not None:
            try:
                return self.written.number(value)
            except ValueError:
                raise self.bad_cell(row, name, self.written.refusal(value)) from None
        if isinstance(value, (list, dict)) or (kind == "number" and isinstance(value, str)):
            allowed = "a number" if kind == "number" else "text, a number, true or false"
            raise self.bad_cell(row, name, f"found {_named(value)}, allowed is {allowed}")
        if kind == "number":
            try:
                return float(value)
            except OverflowError:
                return math.inf if value > 0 else -math.inf
        if isinstance(value, str):
            try:
                value.encode()
            except UnicodeEncodeError:
                raise self.bad_cell(row, name, "found half of a surrogate pair, allowed is text") from None
            return value
        return json.dumps(value)

    def count(self) -> int:
        rows = 0

        def done() -> int:
            return rows

        for text, _ in self._texts(done):
            rows += _lines(text)
        return rows

    def sample(self, rows: int) -> Any:
        columns: Cells = {name: [] for name in self.names}
        for found in self._first(rows):
            for name, column in columns.items():
                column.append(found.get(name))
        return self._pyarrow.table({name: self._typed(column, name) for name, column in columns.items()})

    def _typed(self, values: list[Any], name: str) -> Any:
        """Return values as an array of the type they show: mixtures are strings, or nested if any value is."""
        arrow = self._pyarrow
        try:
            return arrow.array(values)
        except (arrow.ArrowInvalid, arrow.ArrowTypeError, OverflowError, UnicodeEncodeError):
            pass
        if {type(value) for value in values} <= {bool, int, float, type(None)}:
            return arrow.array([value if value is None else self._cell(value, "number", 0, "") for value in values])
        if any(isinstance(value, (list, dict)) for value in values):
            return arrow.nulls(len(values), arrow.list_(arrow.null()))
        texts = [None if value is None else self._cell(value, "text", row, name) for row, value in enumerate(values, 1)]
        return arrow.array(texts, arrow.string())


def _lines(text: bytes) -> int:
    """Return the number of lines that are not blank."""
    if text[:1].isspace() or _BLANK.search(text):
        return sum(1 for line in text.split(b"\n") if line.strip())
    return text.count(b"\n") + (bool(text) and not text.endswith(b"\n"))


def _is_utf8(text: bytes) -> bool:
    try:
        return text.isascii() or bool(text.decode())
    except UnicodeDecodeError:
        return False


def _form(seen: set[type], kind: Kind, before: type | None) -> type | None:
    """Return the type that pyarrow may use for a column next time, given the types of its latest values."""
    if not seen:
        return before
    if seen == {bool}:
        return bool
    if kind == "number" and seen != {str}:
        return float if not seen & {bool, str} else None
    return next(iter(seen)) if seen in ({str}, {int}) else None
