"""CSV: chunks of lines parsed by pyarrow, errors located by a second, slow look at the bad chunk."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..errors import InvalidParameter, StreamError
from ._base import Piece, Progress, Source
from ._files import LINE_BYTES, LineFile
from ._labels import Labels

__all__ = ["CsvSource", "resolve_target"]

# Small parse blocks keep the transposition to rows in the cache and feed all threads.
PARSE_BYTES = 1 << 20
# What counts as an empty cell: blanks only (written out, pyarrow compares whole cells).
BLANKS = [" " * n for n in range(9)] + ["\t"]
_BOM = b"\xef\xbb\xbf"


def pyarrow_csv() -> tuple[Any, Any]:
    """Return the modules (pyarrow, pyarrow.csv), or say how to install them."""
    try:
        import pyarrow
        import pyarrow.csv
    except ImportError as err:
        raise StreamError("reading CSV files needs pyarrow: pip install 'privol[files]'") from err
    return pyarrow, pyarrow.csv


def resolve_target(target: Any, names: tuple[str, ...] | None, n_columns: int, source: str) -> int | None:
    """Return the 0-based column of the target; None where ``target=False`` says that there is none."""
    if target is False:
        return None
    if target is None:
        return n_columns - 1
    columns = f"columns 0 to {n_columns - 1}" + (f" or {', '.join(names)}" if names else "")
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


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


class CsvSource(Source):
    """A CSV file with or without a header line; see :func:`privol.open_stream`."""

    def __init__(self, file: LineFile, labels: Labels, target: Any, header: bool | None, sep: str) -> None:
        self._pyarrow, self._csv = pyarrow_csv()
        self.name = file.name
        self._file = file
        self._labels = labels
        self._sep = sep
        first, second = self._head()
        n_columns = len(first)
        if header is None:
            header = _looks_like_header(first, second, target, labels)
        self._names = tuple(cell.strip() for cell in first) if header else None
        if header and second is None:
            raise StreamError(f"{self.name}: only a header line and no rows, at least one is needed")
        if self._names is not None and len(set(self._names)) != n_columns:
            twice = next(n for n in self._names if self._names.count(n) > 1)
            raise StreamError(f"{self.name}: two columns are named {twice!r}, names must differ")
        if not header:
            self._skip = self._start
        self._target = resolve_target(target, self._names, n_columns, self.name)
        self._columns = [str(j) for j in range(n_columns)]
        self._features = [c for j, c in enumerate(self._columns) if j != self._target]
        self.n_features = len(self._features)
        if not self.n_features:
            raise StreamError(
                f"{self.name}: only one column, the target, and no feature (columns are separated by {sep!r})"
            )
        if self._names is not None:
            self.feature_names = tuple(self._names[int(c)] for c in self._features)
        self._width = max(len(sep.join(first)), len(sep.join(second or ())))

    def _head(self) -> tuple[list[str], list[str] | None]:
        """Return the fields of the first two non-empty lines and note where they end."""

        def two_lines(text: bytes) -> bool:
            return sum(1 for line in text.splitlines()[:-1] if line) >= 2

        text, everything = self._file.head(two_lines)
        if text.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in text[: 1 << 16]:
            raise StreamError(f"{self.name}: is not text in UTF-8 (binary or UTF-16)")
        self._start = len(_BOM) if text.startswith(_BOM) else 0
        lines: list[tuple[bytes, int]] = []
        end = self._start
        for line in text[self._start :].splitlines(keepends=True):
            end += len(line)
            if line.strip(b"\r\n"):
                lines.append((line, end))
            if len(lines) == 2:
                break
        if not lines:
            raise StreamError(f"{self.name}: the file is empty")
        if not everything and len(lines[0][0]) >= LINE_BYTES:
            raise StreamError(f"{self.name}, row 1: the line is longer than {LINE_BYTES >> 20} MiB", row=1)
        self._skip = lines[0][1]
        fields = []
        for line, _ in lines:
            try:
                text_line = line.decode("utf-8").rstrip("\r\n")
                # Without quotes there is no need for a reader that refuses long fields.
                if '"' in text_line:
                    fields.append(next(csv.reader([text_line], delimiter=self._sep)))
                else:
                    fields.append(text_line.split(self._sep))
            except UnicodeDecodeError as err:
                raise StreamError(f"{self.name}: the first lines are not text in UTF-8: {err}") from err
            except csv.Error as err:
                raise StreamError(f"{self.name}: the first lines are not CSV: {err}") from err
        return fields[0], fields[1] if len(fields) == 2 else None

    def _column_name(self, j: int) -> str:
        return repr(self._names[j]) if self._names is not None else str(j)

    def pieces(self, limit: int, progress: Progress) -> Iterator[Piece]:
        row, skip, before = 1, self._skip, 0.0

        def done() -> int:
            return row - 1

        for chunk, fraction in self._file.chunks(done):
            start = min(skip, len(chunk))
            skip -= start
            # pyarrow refuses text without any row.
            if not chunk[start : start + 256].strip() and not chunk[start:].strip():
                continue
            table = self._parse(memoryview(chunk)[start:], row)
            first = row
            for batch in table.to_batches():
                n = batch.num_rows
                if not n:
                    continue
                y = None if self._target is None else self._encode(batch.column(self._target), row)
                tensor = batch.select(self._features).to_tensor(null_to_nan=True, row_major=True)
                row += n
                yield tensor.to_numpy(), y
                progress(before + (fraction - before) * (row - first) / table.num_rows)
            before = fraction

    def _encode(self, column: Any, row: int) -> Any:
        where = f"{self.name}, column {self._column_name(self._target or 0)}"
        if self._labels.numeric:
            return self._labels.encode(column.to_numpy(zero_copy_only=False), row, where)
        labels = column.dictionary.to_pylist()
        return self._labels.encode_coded(column.indices.to_numpy(), labels, row, where)

    def _parse(self, chunk: memoryview, first_row: int) -> Any:
        number, text = (
            self._pyarrow.float64(),
            self._pyarrow.dictionary(self._pyarrow.int32(), self._pyarrow.string()),
        )
        types = dict.fromkeys(self._columns, number)
        if self._target is not None and not self._labels.numeric:
            types[self._columns[self._target]] = text

        def read(block_size: int, use_threads: bool) -> Any:
            return self._csv.read_csv(
                self._pyarrow.BufferReader(self._pyarrow.py_buffer(chunk)),
                read_options=self._csv.ReadOptions(
                    column_names=self._columns, block_size=block_size, use_threads=use_threads
                ),
                parse_options=self._csv.ParseOptions(delimiter=self._sep),
                convert_options=self._csv.ConvertOptions(column_types=types, null_values=BLANKS),
            )

        try:
            return read(max(PARSE_BYTES, 4 * self._width), True)
        except self._pyarrow.ArrowInvalid:
            # Again in one block: a line longer than a block is no fault, and only
            # without threads does the message count rows.
            try:
                return read(len(chunk) + 1, False)
            except self._pyarrow.ArrowInvalid as err:
                raise self._located(bytes(chunk), first_row, str(err)) from None

    def _located(self, chunk: bytes, first_row: int, message: str) -> StreamError:
        """Return the error for the first bad row of a chunk that pyarrow refuses."""
        number = re.search(r"Row #(\d+)", message)
        told = first_row + int(number.group(1)) - 1 if number else None
        row = first_row - 1
        try:
            for fields in csv.reader(io.StringIO(chunk.decode("utf-8", "replace"), newline=""), delimiter=self._sep):
                if not fields:
                    continue
                row += 1
                if len(fields) != len(self._columns):
                    what = f"found {len(fields)} field(s), allowed are {len(self._columns)}"
                    return StreamError(f"{self.name}, row {row}: {what}", row=row)
                for j, cell in enumerate(fields):
                    if "\ufffd" in cell:
                        return self._bad_cell(row, j, f"found {cell!r}, allowed is text in UTF-8")
                    is_label = j == self._target and not self._labels.numeric
                    if not (is_label or not cell.strip() or _is_number(cell)):
                        return self._bad_cell(row, j, f"found {cell!r}, allowed is a number")
        except csv.Error:
            pass
        # Ours is the more lenient parser here: what is left is told by pyarrow alone, whose words may quote whole rows.
        where = f"row {told}" if told else f"after row {first_row - 1}"
        counts = re.search(r"Expected \d+ columns, got \d+", message)
        what = counts.group(0) if counts else "it cannot be parsed"
        hint = " (a quote that is not closed?)" if b'"' in chunk else ""
        return StreamError(f"{self.name}, {where}: {what}{hint}", row=told)

    def _bad_cell(self, row: int, j: int, what: str) -> StreamError:
        hint = " (declare labels with classes= or positive=)" if j == self._target else ""
        return StreamError(f"{self.name}, row {row}, column {self._column_name(j)}: {what}{hint}", row=row)

    def count(self) -> int:
        rows, skip = 0, self._skip

        def done() -> int:
            return rows

        for chunk, _ in self._file.chunks(done):
            start = min(skip, len(chunk))
            skip -= start
            text = chunk[start:]
            # Lines are rows unless quotes may hide line ends, or lines are blank or end in a bare CR.
            if b'"' in text or b"\n\n" in text or b"\n\r" in text or text.startswith((b"\r", b"\n")) or _bare_cr(text):
                parsed = csv.reader(io.StringIO(text.decode("utf-8", "replace"), newline=""), delimiter=self._sep)
                try:
                    rows += sum(1 for fields in parsed if fields)
                except csv.Error:
                    raise StreamError(
                        f"{self.name}, after row {rows}: it cannot be parsed (a quote that is not closed?)"
                    ) from None
            else:
                rows += text.count(b"\n") + (not text.endswith(b"\n") and bool(text))
        return rows


def _bare_cr(text: bytes) -> bool:
    return b"\r" in text and text.count(b"\r") != text.count(b"\r\n")


def _looks_like_header(first: list[str], second: list[str] | None, target: Any, labels: Labels) -> bool:
    """Whether the first line names the columns.

    It does if the target is asked for by a name that stands there; if no feature
    cell is a number (a file of numbers cannot begin so); or if only the target's
    cell is text while the second line has a number there. Else it is the first row.
    """
    cells = [cell.strip() for cell in first]
    if isinstance(target, str) and target.strip() in cells:
        return True
    column = None if target is False or isinstance(target, str) else -1 if target is None else target
    if isinstance(column, bool) or not (column is None or -len(cells) <= column < len(cells)):
        column = None
    features = cells if column is None else [c for j, c in enumerate(cells) if j != column % len(cells)]
    if any(features) and not any(_is_number(c) for c in features):
        return True
    if column is None or _is_number(cells[column]) or not cells[column] or labels.knows(cells[column]):
        return False
    return second is not None and len(second) == len(first) and _is_number(second[column].strip() or "x")
