"""CSV: a kernel reads plain lines, pyarrow all others; a second, slow pass over a bad chunk locates the error."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from ..errors import StreamError
from .base import Progress, Targets
from .columns import Columns, Kind
from .csv_text import (
    SEPARATORS,
    TOLD_FROM,
    CsvOptions,
    Dialect,
    default_separator,
    looks_like_header,
    present,
    separator_is_settled,
    told_separator,
)
from .files import Lines, shown
from .plain_csv import PlainCsv
from .written import Written

__all__ = ["CsvColumns", "CsvOptions", "arrow_reader", "pyarrow_csv"]

# Small parse blocks keep the transposition to rows in the cache and keep all threads busy.
PARSE_BYTES = 1 << 20
# One thread parses this many bytes faster than several that share them.
ALONE_BYTES = 1 << 15
# What counts as an empty cell: only blanks (written out, because pyarrow compares whole cells).
BLANKS = [" " * n for n in range(9)] + ["\t"]
_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def pyarrow_csv() -> tuple[Any, Any]:
    """Return the modules (pyarrow, pyarrow.csv), or say how to install them."""
    try:
        import pyarrow
        import pyarrow.csv
    except ImportError as err:
        raise StreamError("reading CSV files needs pyarrow: pip install 'privol[files]'") from err
    return pyarrow, pyarrow.csv


def arrow_reader(pyarrow: Any, text: bytes) -> Any:
    """Return a reader of a copy of the text that Arrow owns.

    Arrow's threads may release what they read a moment after the parser has returned. Once the interpreter has begun to
    exit they can no longer release a Python object's memory: trying aborts the process.
    """
    buffer = pyarrow.allocate_buffer(len(text))
    memoryview(buffer).cast("B")[:] = text
    return pyarrow.BufferReader(buffer)


class CsvColumns(Columns):
    """A CSV file with or without a header line; see :func:`privol.open_stream`.

    Parameters
    ----------
    file : Lines
    options : CsvOptions
    target, labels
        The target as in :func:`privol.open_stream` and the declared labels: they only help to tell a header from a
        first row.
    optional : tuple of str
        The ones of ``options.names`` that a file may lack.

    Attributes
    ----------
    sep : str
        What separates the columns.
    """

    format = "csv"

    def __init__(
        self,
        file: Lines,
        options: CsvOptions,
        *,
        target: Any,
        labels: Targets | None,
        optional: tuple[str, ...] = (),
    ) -> None:
        self._pyarrow, self._csv = pyarrow_csv()
        import pyarrow.compute

        self._compute = pyarrow.compute
        self.facts = file.facts
        self._file = file
        self._options = options
        self._optional = optional
        self._encoding = options.encoding
        # Blanks around a marker do not matter. A few are written out here; the careful look finds more of them.
        self._nulls = BLANKS + [f"{a}{m}{b}" for m in options.missing if m for a in ("", " ", "  ") for b in ("", " ")]
        self._written = Written(options.missing, options.decimal)
        first, second = self._head(target, labels)
        self._width = max(len(first), len(second or b""))
        self._plain = PlainCsv(self.names, self.sep, self._written)

    def _head(self, target: Any, labels: Targets | None) -> tuple[bytes, bytes | None]:
        """Look at the first lines: separator, header, names; note where the rows begin."""
        options, live = self._options, self._file.live
        needed = 1 if options.header is False or options.names is not None else 2
        # Where a record ends depends on quoted line breaks, and those on what may precede a quote.
        rough = Dialect(options.sep or "".join(SEPARATORS), options.comment, options.newlines_in_values)

        def enough(text: bytes) -> bool:
            whole = text.removeprefix(_BOM)
            whole = whole[: rough.end(whole)]
            wanted = TOLD_FROM if len(text) < PARSE_BYTES else 2
            n = sum(1 for _ in islice(rough.records(whole), wanted))
            # As few lines as possible: on a live input the first rows wait for them.
            return n == wanted or (n >= needed and separator_is_settled(whole, options, self._file.stem))

        text, everything = self._file.head(enough)
        # the result must not depend on how much of a live input has come
        looked_at = text[: max((stop for _, stop in islice(rough.records(text), 2)), default=0)] if live else text
        if text.startswith(_UTF16) or b"\0" in looked_at[: 1 << 16]:
            raise StreamError(
                f"{self.name}: is not text in UTF-8 (binary or UTF-16; convert it to UTF-8 first, if it is text)"
            )
        self._start = len(_BOM) if text.startswith(_BOM) else 0
        text = text[self._start :]
        whole = text[: rough.end(text)]
        if everything and len(list(islice(rough.records(whole), 2))) < 2:
            # the last line, if it has no end, may still be being written: it counts only where there is no other
            whole = text
        by_name, told = told_separator(whole, options, self._file.stem)
        sep = options.sep or by_name or told or default_separator(options)
        self._told = told if told != sep else None
        self.sep = sep
        self._dialect = Dialect(sep, options.comment, options.newlines_in_values)
        records = [(record, end + self._start) for record, end in islice(self._dialect.records(whole), 2)]
        if not records:
            raise StreamError(f"{self.name}: the file is empty")
        first, second = records[0][0], records[1][0] if len(records) == 2 else None
        cells = self._decoded(first)
        if len(cells) == 1 and told is not None and told != sep:
            raise StreamError(f"{self.name}: only one column is separated by {sep!r}{self._suggestion()}")
        header = options.header
        # A header holds no numbers, and a decimal comma may not have been stated.
        decimals = options.decimal if sep == "," else ".,"
        if header is None:
            header = options.names is None and looks_like_header(
                cells, None if second is None else self._decoded(second), target, labels, decimals
            )
        # A target asked for by a name in the first line shows that this line holds names.
        stated = isinstance(target, str) and target.strip() in (cell.strip() for cell in cells)
        told_header = options.header is None and options.names is None and not stated
        told_sep = options.sep is None and by_name is None
        self.facts = replace(self.facts, inferred=("separator",) * told_sep + ("header",) * told_header)
        if header:
            self._check_header(first, second)
        self._skip = records[0][1] if header else self._start
        self._set_names(cells, header)
        return first, second

    def _suggestion(self) -> str:
        return "" if self._told is None else f"; columns may be separated by {self._told!r}: sep={self._told!r}"

    def _decoded(self, record: bytes) -> list[str]:
        return [cell.decode(self._encoding, "replace") for cell in self._dialect.cells(record)[0]]

    def _check_header(self, first: bytes, second: bytes | None) -> None:
        cells, closed = self._dialect.cells(first)
        if not closed:
            raise StreamError(f"{self.name}: the header line has a quote that is not closed")
        for j, cell in enumerate(cells):
            try:
                cell.decode(self._encoding)
            except UnicodeDecodeError:
                raise StreamError(f"{self.name}, header, column {j}: {self._not_text(cell)}") from None
        if second is None:
            raise StreamError(f"{self.name}: only a header line and no rows, at least one is needed")

    def _set_names(self, cells: list[str], header: bool) -> None:
        if self._options.names is not None:
            self.named, self.names = True, present(self._options.names, self._optional, len(cells))
            if len(cells) != len(self.names):
                raise StreamError(
                    f"{self.name}: names under [file] gives {len(self._options.names)} column(s), the first row has "
                    f"{len(cells)}" + self._suggestion()
                )
            return
        self.named = header
        self.names = tuple(cell.strip() for cell in cells) if header else tuple(map(str, range(len(cells))))
        if len(set(self.names)) != len(cells):
            twice = next(n for n in self.names if self.names.count(n) > 1)
            at = " and ".join(str(j) for j, n in enumerate(self.names) if n == twice)
            what = f"are named {shown(twice)}" if twice else "have no name"
            raise StreamError(f"{self.name}: two columns ({at}) {what}, names must differ")

    def only_text(self, name: str) -> bool:
        return True

    def batches(self, kinds: Mapping[str, Kind], limit: int, progress: Progress) -> Iterator[Any]:
        row, before = 1, 0.0

        def done() -> int:
            return row - 1

        for text, fraction in self._texts(done, kinds):
            if not text:
                yield None
                progress(before)
                continue
            for batch, share in self._parse(text, kinds, row):
                row += batch.num_rows
                yield batch
                del batch  # frees its memory while the next one is parsed
                progress(before + (fraction - before) * share)
            before = fraction

    def _texts(self, rows_done: Callable[[], int], kinds: Mapping[str, Kind]) -> Iterator[tuple[bytes, float]]:
        """Yield UTF-8 chunks of whole records without header and comments, at least one record each; b"" at a pause."""
        skip = self._skip
        within = " (a quote that is not closed?)" if self._options.newlines_in_values else ""
        mark = self._start

        def end(text: bytes) -> int:
            # a quote after the byte-order mark opens a cell, as one after a line end does
            return self._dialect.end(b"\n" * mark + text[mark:] if mark else text)

        for chunk, fraction in self._file.chunks(rows_done, end, within):
            if not chunk:
                yield chunk, fraction
                continue
            start, mark = min(skip, len(chunk)), 0
            skip -= start
            text = chunk[start:] if start else chunk
            if self._encoding != "utf-8":
                text = self._reencoded(text, kinds, rows_done() + 1)
            text = self._dialect.uncommented(text)
            # pyarrow refuses text without rows
            if text[:256].strip(b"\r\n") or text.strip(b"\r\n"):
                yield text, fraction

    def _reencoded(self, chunk: bytes, kinds: Mapping[str, Kind], first_row: int) -> bytes:
        try:
            return chunk.decode(self._encoding).encode()
        except UnicodeDecodeError:
            raise self._located(chunk, kinds, first_row, "", self._encoding) from None

    def count(self) -> int:
        rows = 0

        def done() -> int:
            return rows

        for text, _ in self._texts(done, {}):
            rows += self._dialect.count(text)
        return rows

    def sample(self, rows: int) -> Any:
        def enough(text: bytes) -> bool:
            end = self._dialect.end(text)
            return sum(1 for _ in islice(self._dialect.records(text[self._skip : end]), rows)) == rows

        text, everything = self._file.head(enough)
        end = len(text) if everything else self._dialect.end(text)
        text = text[self._skip : end]
        ends = [stop for _, stop in islice(self._dialect.records(text), rows)]
        text = text[: ends[-1]] if ends else b""
        if self._encoding != "utf-8":
            text = self._reencoded(text, {}, 1)
        text = self._dialect.uncommented(text)
        arrow = self._pyarrow
        if not text.strip(b"\r\n"):
            return arrow.table({name: arrow.nulls(0) for name in self.names})
        table = self._strings(text, dict.fromkeys(self.names, "text"), 1)
        return arrow.table({name: self._typed(table.column(name).combine_chunks()) for name in self.names})

    def _typed(self, cells: Any) -> Any:
        """Return a column of strings as the type it shows: int64, double, string, or null if all cells are missing."""
        arrow = self._pyarrow
        trimmed = self._written.present(cells)
        if trimmed.null_count == len(trimmed):
            return arrow.nulls(len(trimmed))
        try:
            return trimmed.cast(arrow.int64())
        except arrow.ArrowInvalid:
            pass
        try:
            return self._written.numbers(cells)
        except arrow.ArrowInvalid:
            return self._compute.if_else(trimmed.is_valid(), cells, None)

    def _parse(self, text: bytes, kinds: Mapping[str, Kind], first_row: int) -> Iterator[tuple[Any, float]]:
        """Yield the rows of a text as batches, each with the share of the text read; raise for the first bad row."""
        texts = [(j, name) for j, (name, kind) in enumerate(kinds.items()) if kind == "text"]
        row, start = first_row, 0
        for batch, start in self._plain.batches(text, kinds):
            for j, name in texts:
                batch = batch.set_column(j, name, self._nulled(batch.column(j).dictionary_encode()))
            row += batch.num_rows
            yield batch, start / len(text)
            del batch
        rest = text[start:] if start else text
        # pyarrow refuses text without rows
        if not rest.strip(b"\r\n"):
            return
        table = self._parsed(rest, kinds, row)
        done, n = 0, table.num_rows
        batches = deque(table.to_batches())
        del table  # frees a batch that is used up while the next text is parsed
        while batches:
            done += batches[0].num_rows
            if batches[0].num_rows:
                yield batches.popleft(), (start + (len(text) - start) * done / n) / len(text)
            else:
                del batches[0]

    def _parsed(self, text: bytes, kinds: Mapping[str, Kind], first_row: int) -> Any:
        """Return the rows of any text as a table, or raise the error for its first bad row."""
        arrow = self._pyarrow
        types = {"number": arrow.float64(), "text": arrow.dictionary(arrow.int32(), arrow.string())}
        types["cells"] = arrow.string()
        if self._dialect.unclosed(text):
            raise self._located(text, kinds, first_row, "")
        try:
            table = self._read(
                text,
                {name: types[kind] for name, kind in kinds.items()},
                null_values=self._nulls,
                strings_can_be_null=True,
                decimal_point=self._options.decimal,
            )
        except arrow.ArrowInvalid:
            # A line longer than a parser's block and blanks around a marker are not faults.
            table = self._strings(text, kinds, first_row)
            try:
                columns = {
                    name: self._written.numbers(table.column(name)) if kind == "number" else table.column(name)
                    for name, kind in kinds.items()
                }
            except arrow.ArrowInvalid as err:
                raise self._located(text, kinds, first_row, str(err)) from None
            table = arrow.table(columns)
        for j, (name, kind) in enumerate(kinds.items()):
            if kind == "text":
                table = table.set_column(j, name, self._without_missing(table.column(j)))
        return table

    def _read(self, text: bytes, types: Mapping[str, Any], *, whole: bool = False, **convert: Any) -> Any:
        # pyarrow reads lines of any length only in one block, and counts rows in its messages only without threads.
        if text.startswith(_BOM):
            # the file's own mark is gone by now: this one is a character of a cell, which pyarrow would drop
            text = b"\n" + text
        # pyarrow drops the LF of a quoted CR LF that lies across two blocks.
        one = whole or self._options.newlines_in_values
        block = len(text) + 1 if one else max(PARSE_BYTES, 4 * self._width)
        threads = not whole and len(text) > ALONE_BYTES
        return self._csv.read_csv(
            arrow_reader(self._pyarrow, text),
            read_options=self._csv.ReadOptions(column_names=self.names, block_size=block, use_threads=threads),
            parse_options=self._csv.ParseOptions(
                delimiter=self.sep, newlines_in_values=self._options.newlines_in_values
            ),
            convert_options=self._csv.ConvertOptions(include_columns=list(types), column_types=types, **convert),
        )

    def _strings(self, text: bytes, kinds: Mapping[str, Kind], first_row: int) -> Any:
        """Return the wanted columns as strings: what fails here has nothing to do with numbers or markers."""
        arrow = self._pyarrow
        try:
            return self._read(text, dict.fromkeys(kinds, arrow.string()), whole=True, strings_can_be_null=False)
        except arrow.ArrowInvalid as err:
            raise self._located(text, kinds, first_row, str(err)) from None

    def _without_missing(self, column: Any) -> Any:
        """Return a column of text as a dictionary, null where a cell counts as missing."""
        if not self._pyarrow.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        return self._pyarrow.chunked_array([self._nulled(chunk) for chunk in column.chunks], type=column.type)

    def _nulled(self, chunk: Any) -> Any:
        present = self._written.present(chunk.dictionary)
        if not present.null_count:
            return chunk
        missing = self._compute.take(present.is_null(), chunk.indices)
        indices = self._compute.if_else(missing, None, chunk.indices)
        return self._pyarrow.DictionaryArray.from_arrays(indices, chunk.dictionary)

    def _located(
        self, text: bytes, kinds: Mapping[str, Kind], first_row: int, message: str, encoding: str = "utf-8"
    ) -> StreamError:
        """Return the error for the first bad row of a text that cannot be read as wanted."""
        row = first_row - 1
        for record, _ in self._dialect.records(text):
            row += 1
            cells, closed = self._dialect.cells(record)
            if not closed:
                what = "a quoted cell has no closing quote"
                if not self._options.newlines_in_values:
                    what += " on its line; if it holds a line break: newlines_in_values = true under [file] of a schema"
                return StreamError(f"{self.name}, row {row}, column {len(cells) - 1}: {what}", row=row)
            if len(cells) != len(self.names):
                what = f"found {len(cells)} field(s), allowed are {len(self.names)}{self._suggestion()}"
                return StreamError(f"{self.name}, row {row}: {what}", row=row)
            for name, raw in zip(self.names, cells, strict=True):
                if name not in kinds and encoding == "utf-8":
                    continue
                try:
                    cell = raw.decode(encoding)
                except UnicodeDecodeError:
                    return self.bad_cell(row, name, self._not_text(raw))
                if kinds.get(name) == "number" and not self._is_number(cell):
                    return self.bad_cell(row, name, self._written.refusal(cell))
        # Our parser is the more lenient one here: only pyarrow reports what is left, and its words may quote whole
        # rows.
        number = re.search(r"Row #(\d+)", message)
        told = first_row + int(number.group(1)) - 1 if number else None
        where = f"row {told}" if told else f"after row {first_row - 1}"
        return StreamError(f"{self.name}, {where}: it cannot be parsed", row=told)

    def _is_number(self, cell: str) -> bool:
        try:
            self._written.number(cell)
        except ValueError:
            pass
        else:
            return True
        try:
            self._written.numbers(self._pyarrow.array([cell]))
        except self._pyarrow.ArrowInvalid:
            return False
        return True

    def _not_text(self, raw: bytes) -> str:
        """Return the message that a cell is not text in the declared encoding; it names one that may fit."""
        what = f"found {shown(raw.decode(self._encoding, 'replace'))}, allowed is text in {self._encoding.upper()}"
        # latin-1 has control characters where cp1252 has the euro, letters and quotes; elsewhere they agree
        fits = "cp1252"
        try:
            raw.decode(fits)
        except UnicodeDecodeError:
            return what
        return what if self._encoding == fits else f'{what} (perhaps encoding="{fits}"?)'
