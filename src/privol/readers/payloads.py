"""What messages hold: rows as JSON lines, CSV lines or Arrow IPC streams, or as texts by the names of fields."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..errors import InvalidParameter, StreamError
from .arrow import TypedColumns, cut
from .base import Facts, Progress, arrow, plainly
from .columns import Columns, Kind
from .csv import CsvColumns, CsvOptions
from .files import LINE_BYTES, line_end, listed, shown
from .formats import by_start
from .json import JsonColumns

__all__ = ["Payload", "Payloads", "payloads_of"]

Payload = bytes | Mapping[bytes, bytes]


class _Text:
    """Lines in memory, read as those of a file are."""

    live = True
    stem = ""

    def __init__(self, facts: Facts, text: bytes) -> None:
        self.facts = facts
        self.text = text

    @property
    def name(self) -> str:
        return self.facts.name

    def head(self, enough: Callable[[bytes], bool]) -> tuple[bytes, bool]:
        del enough
        return self.text, True

    def chunks(
        self, rows_done: Callable[[], int], end: Callable[[bytes], int] = line_end, within: str = ""
    ) -> Iterator[tuple[bytes, float]]:
        yield self.text, 0.0


class Payloads(ABC):
    """The rows of some messages at a time, as columns.

    Attributes
    ----------
    columns : Columns
        The columns of the messages that were put in last.
    """

    columns: Columns

    @abstractmethod
    def put(self, payloads: Sequence[Payload]) -> list[int]:
        """Let :attr:`columns` be those of some messages, and return how many rows each of them has.

        Raises
        ------
        StreamError
            If one cannot be read, and it is the only one; with several they are put in one by one.
        """


class _Lines(Payloads):
    """Lines of text."""

    _text: _Text

    def put(self, payloads: Sequence[Payload]) -> list[int]:
        found, sizes = [], []
        for payload in payloads:
            lines = self._lines(payload)
            found += lines
            sizes.append(len(lines))
        self._text.text = b"\n".join([*found, b""])
        return sizes

    def _lines(self, payload: Payload) -> list[bytes]:
        """Return the lines of a message, at least one."""
        assert isinstance(payload, bytes)
        if len(payload) > LINE_BYTES:
            raise self._bad(f"has {len(payload):,} bytes, allowed are {LINE_BYTES >> 20} MiB")
        lines = [line for line in payload.split(b"\n") if line.strip()]
        if not lines:
            raise self._bad("is empty, at least one row is needed")
        return lines

    def _bad(self, what: str) -> StreamError:
        return StreamError(f"{self._text.name}, row 1: {what}", row=1)


class _Json(_Lines):
    """JSON: an object a line."""

    def __init__(self, facts: Facts, first: bytes, names: Sequence[str] | None) -> None:
        if names is None:
            # fields have names and no order: whoever goes on may see another first message
            names = sorted(JsonColumns(_Text(facts, first)).names)
        self._text = _Text(facts, json.dumps(dict.fromkeys(names)).encode())
        self.columns = JsonColumns(self._text)
        self.columns.facts = facts


class _Csv(_Lines):
    """CSV without a header: a row a line."""

    def __init__(self, facts: Facts, options: CsvOptions) -> None:
        assert options.names is not None
        if options.newlines_in_values:
            raise InvalidParameter("newlines_in_values is for files: a row of a message is one line")
        if options.header:
            raise InvalidParameter("header is for files: messages of CSV are rows alone, their names are stated")
        options = replace(options, header=False, sep=options.sep or ",")
        sep = str(options.sep)
        self._text = _Text(facts, sep.join("0" for _ in options.names or ()).encode() + b"\n")
        self.columns = CsvColumns(self._text, options, target=None, labels=None)
        self.columns.facts = facts

    def _lines(self, payload: Payload) -> list[bytes]:
        lines = super()._lines(payload)
        if any(b"\r" in line.removesuffix(b"\r") for line in lines):
            raise self._bad("found a CR within a line, allowed are line ends LF and CR LF")
        return lines


class _Fields(_Csv):
    """Texts by the names of fields, as one row."""

    def __init__(self, facts: Facts, options: CsvOptions) -> None:
        super().__init__(facts, replace(options, sep=",", encoding="utf-8"))
        self._names = [name.encode() for name in options.names or ()]
        self._known = frozenset(self._names)

    def _lines(self, payload: Payload) -> list[bytes]:
        assert not isinstance(payload, bytes)
        cells = []
        for name in payload:
            if name not in self._known:
                names = [each.decode() for each in self._names]
                raise self._bad(f"found the field {shown(name.decode(errors='replace'))}, allowed are {listed(names)}")
        for name in self._names:
            cell = payload.get(name, b"")
            if b"\n" in cell or b"\r" in cell:
                raise self._bad(f"the field {shown(name.decode())} holds a line break, allowed is text of one line")
            cells.append(b'"' + cell.replace(b'"', b'""') + b'"')
        return [b",".join(cells)]


class _ArrowColumns(TypedColumns):
    """The record batches of some Arrow messages."""

    format = "arrow"
    found: Sequence[Any] = ()

    def typed(self, kinds: Mapping[str, Kind], limit: int, progress: Progress) -> Iterator[Any]:
        for batch in self.found:
            yield from cut(batch, len(kinds))

    def count(self) -> int:
        return sum(batch.num_rows for batch in self.found)


class _Arrow(Payloads):
    """Arrow IPC: each message is a whole stream with its schema."""

    def __init__(self, facts: Facts, first: bytes) -> None:
        self._facts, self._arrow = facts, arrow("Arrow messages")
        self._schema = self._read(first)[0].schema
        self.columns = self._columns = _ArrowColumns(facts, self._schema)

    def _read(self, payload: bytes) -> list[Any]:
        import pyarrow.ipc

        try:
            with pyarrow.ipc.open_stream(payload) as reader:
                _ = reader.schema.names  # an error where one is no text
                found = list(reader)
            for batch in found:
                batch.validate(full=True)  # the reader trusts all that it reads
        except (self._arrow.ArrowException, OSError, EOFError, UnicodeDecodeError) as err:
            raise self._bad(f"is no whole Arrow IPC stream: {plainly(err)}") from None
        found = [batch for batch in found if batch.num_rows]
        if not found:
            raise self._bad("holds no rows, at least one is needed")
        return found

    def put(self, payloads: Sequence[Payload]) -> list[int]:
        batches, sizes = [], []
        for payload in payloads:
            assert isinstance(payload, bytes)
            found = self._read(payload)
            batches += [self._fitting(batch) for batch in found]
            sizes.append(sum(batch.num_rows for batch in found))
        self._columns.found = batches
        return sizes

    def _fitting(self, batch: Any) -> Any:
        """Return a batch with the columns of the first message, in their order."""
        names, known = batch.schema.names, self._schema.names
        if sorted(names) != sorted(known):
            other = next((n for n in names if n not in known), None)
            what = f"no column {next((n for n in known if n not in names), None)!r}"
            raise self._bad(what if other is None else f"found the column {other!r}, allowed are {listed(known)}")
        for field in self._schema:
            if (kind := batch.schema.field(field.name).type) != field.type:
                raise self._bad(f"column {field.name!r}: found the type {kind}, and in the first message {field.type}")
        return batch.select(known)

    def _bad(self, what: str) -> StreamError:
        return StreamError(f"{self._facts.name}, row 1: {what}", row=1)


def payloads_of(
    format: str | None, first: Payload | None, facts: Facts, options: CsvOptions
) -> tuple[str, Payloads, Facts]:
    """Return the format of messages, what reads them, and the facts with what was inferred.

    Parameters
    ----------
    format : {"csv", "jsonl", "arrow"} or None
        As stated; None: told by the first bytes, or fields.
    first : bytes, mapping or None
        A message, by which names and types are known that are not stated.
    facts : Facts
    options : CsvOptions
        Its ``names`` are those of all columns, if they are stated.

    Raises
    ------
    StreamError, InvalidParameter
        If the message cannot be read, or something about it has to be stated.
    """
    name, names = facts.name, options.names
    if isinstance(first, Mapping):
        if format is not None:
            raise InvalidParameter(
                f"format is for messages in one field, found format={format!r} with entries whose fields are the "
                "columns: field=NAME in the URL says which field holds the message"
            )
        if names is None:
            facts = replace(facts, inferred=("columns",))
            try:
                options = replace(options, names=tuple(sorted(each.decode() for each in first)))
            except UnicodeDecodeError:
                raise StreamError(f"{name}: the name of a field is not text in UTF-8") from None
        return "fields", _Fields(facts, options), facts
    inferred: tuple[str, ...] = ()
    if format is None:
        told = by_start(first or b"")
        if told is not None:
            format = told.name
        elif (first or b"").lstrip()[:1] == b"{":
            format = "jsonl"
        else:
            raise InvalidParameter(
                f"{name}: the messages do not begin as JSON objects or Arrow IPC streams: format='csv' says that "
                "they are lines of CSV, columns= names them"
            )
        inferred = ("format",)
    if format not in ("csv", "jsonl", "arrow"):
        raise InvalidParameter(f"{name}: found format={format!r}, allowed for messages are csv, jsonl, arrow")
    if format == "csv":
        if names is None:
            raise InvalidParameter(
                f"{name}: messages of CSV have no header: columns=, or a schema under [file], names all of "
                "them in their order"
            )
        return format, _Csv(facts, options), facts
    if first is None and (names is None or format == "arrow"):
        raise StreamError(f"{name}: no message, at least one is needed to know their columns")
    if names is None and format == "jsonl":
        inferred = (*inferred, "columns")
    facts = replace(facts, inferred=inferred)
    return format, (_Arrow(facts, first or b"") if format == "arrow" else _Json(facts, first or b"", names)), facts
