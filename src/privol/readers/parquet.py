"""Parquet and Arrow IPC (Feather version 2) files by pyarrow: only the wanted columns, batch by batch."""

from __future__ import annotations

import io
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from ..errors import StreamError
from .arrow import TypedColumns, batch_rows, cut
from .base import Facts, Progress, arrow, plainly
from .columns import Columns, Kind
from .files import LineFile
from .formats import by_look, by_start
from .places import Place

__all__ = ["IpcFileColumns", "IpcStreamColumns", "ParquetColumns", "arrow_columns"]

# The first bytes of the Arrow format that is read from any position.
IPC_FILE = b"ARROW1"
# This many bytes show what a file looks like.
_LOOK = 4096
# Each column is read through a buffer of its own; without one, a whole column of a row group is in memory. The buffer
# is larger where each filling is a request.
BUFFER_BYTES = {False: 1 << 16, True: 1 << 20}

# A column whose text cells take at most this many bytes each is dictionary-coded throughout and has few distinct texts.
CODED_BYTES = 2.0

# Batches of fewer rows cost more than they save.
FEWEST_ROWS = 1 << 14


def _unreadable(file: LineFile, what: str, err: BaseException) -> StreamError:
    """Return the error for a file that its library cannot read: damaged, or of the format that it looks like."""
    start = file.head(lambda text: len(text) >= _LOOK)[0][:_LOOK] if file.facts.repeatable else b""
    told = by_start(start) or (by_look(start) if _is_text(start) else None)
    if told is None or what.split()[0] == told.title:
        return StreamError(f"{file.name}: is not a readable {what}: {plainly(err)}")
    looks = f'it looks like {told.look} (format="{told.name}")'
    return StreamError(f"{file.name}: is not a{'n' * (what[0] in 'AEIOU')} {what}; {looks}")


def _is_text(start: bytes) -> bool:
    try:
        # the last character may be cut off
        text = start.decode("utf-8" if len(start) < _LOOK else "latin-1").lstrip("\ufeff")
    except UnicodeDecodeError:
        return False
    return bool(text.strip()) and all(c >= " " or c in "\t\r\n" for c in text)


def arrow_columns(file: LineFile) -> Columns:
    """Return the columns of an Arrow file, which is read from any position, or of an Arrow stream, which is not."""
    if not file.head(lambda text: len(text) >= 8)[0].startswith(IPC_FILE):
        return IpcStreamColumns(file)
    return IpcFileColumns(file.seekable("an Arrow file", "Arrow file"))


class _FileColumns(TypedColumns):
    """A file of typed columns that is opened again for every pass."""

    what: str

    def __init__(self, place: Place) -> None:
        self._arrow = arrow(f"{self.what} files")
        self._place = place
        self.facts = Facts(name=place.name)
        self._state = place.file()
        with ExitStack() as stack:
            schema = self._guarded(lambda: self._look(stack))
        super().__init__(self.facts, schema)

    @abstractmethod
    def _look(self, stack: ExitStack) -> Any:
        """Return the schema, and note what else the file says about itself."""

    def _same(self, row: int) -> None:
        """Raise StreamError if the file is no longer what it was when it was opened."""
        if self._place.state() != self._state:
            raise StreamError(f"{self.name}, from row {row}: the file has changed since it was opened", row=row)

    def _guarded(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except (self._arrow.ArrowException, OSError, EOFError, UnicodeDecodeError) as err:
            told = self._place.told(err)
            raise _unreadable(LineFile(self._place), f"{self.what} file", told) from told

    def _each(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield the batches of a file that may be damaged or change."""
        row = 1
        while True:
            try:
                batch = next(batches, None)
            except (self._arrow.ArrowException, OSError, EOFError, UnicodeDecodeError) as err:
                self._same(row)
                told = self._place.told(err)
                raise self.damaged(told, row) from told
            if batch is None:
                self._same(row)
                return
            row += batch.num_rows
            yield batch


class ParquetColumns(_FileColumns):
    """A Parquet file; page checksums are verified where it has any.

    A pyarrow.dataset would decode whole row groups: 218 MiB instead of 91 for one of 1,000,000 rows of 27 doubles, in
    twice the time, and its errors would name no row.
    """

    what, format = "Parquet", "parquet"

    def _open(self, stack: ExitStack, text: list[str]) -> Any:
        import pyarrow.parquet

        return stack.enter_context(
            pyarrow.parquet.ParquetFile(
                stack.enter_context(self._place.native()),
                read_dictionary=text,
                pre_buffer=False,
                buffer_size=BUFFER_BYTES[self._place.far],
                page_checksum_verification=True,
            )
        )

    def _look(self, stack: ExitStack) -> Any:
        file = self._open(stack, [])
        self.facts = replace(self.facts, n_rows=int(file.metadata.num_rows))
        if not self.facts.n_rows:
            raise StreamError(f"{self.name}: no rows, at least one is needed")
        self._coded: set[str] | None = None
        return file.schema_arrow

    def count(self) -> int:
        return self.facts.n_rows or 0

    def typed(self, kinds: Mapping[str, Kind], limit: int, progress: Progress) -> Iterator[Any]:
        self._same(1)
        rows, total = 0, self.facts.n_rows or 0
        with ExitStack() as stack:
            # Strings come with the dictionary that the file has for them.
            strings = (self._arrow.string(), self._arrow.large_string())
            text = [name for name, kind in kinds.items() if kind == "text" and self._types[name] in strings]
            cells = [name for name, kind in kinds.items() if kind == "cells" and self._types[name] in strings]
            if cells and self._coded is None:
                self._coded = self._guarded(lambda: _coded(self._open(stack, []), cells))
            text += [name for name in cells if name in (self._coded or ())]
            file = self._guarded(lambda: self._open(stack, text))
            # cutting a batch would build its dictionaries again
            at_once = min(batch_rows(len(kinds)), max(limit, FEWEST_ROWS))
            for batch in self._each(file.iter_batches(at_once, columns=list(kinds), use_threads=True)):
                rows += batch.num_rows
                progress(min(rows / total, 1.0))
                yield batch
        if rows != total:
            raise StreamError(f"{self.name}: found {rows} rows, the file says that it has {total}", row=rows + 1)


def _coded(file: Any, names: Sequence[str]) -> set[str]:
    """Return the columns whose cells take few bytes, as only columns coded by a dictionary of few texts do."""
    metadata, sizes = file.metadata, dict.fromkeys(names, 0)
    at = {metadata.schema.column(j).path: j for j in range(metadata.num_columns)}
    for i in range(metadata.num_row_groups):
        # a reader raises an error where what the file says of a column is damaged; group.column would end the process
        next(file.iter_batches(1, row_groups=[i], columns=names), None)
        group = metadata.row_group(i)
        for name in names:
            sizes[name] += group.column(at[name]).total_uncompressed_size
    return {name for name, size in sizes.items() if size <= CODED_BYTES * metadata.num_rows}


class IpcFileColumns(_FileColumns):
    """An Arrow IPC file (Feather version 2), one of its batches in memory at a time."""

    what, format = "Arrow", "arrow"

    def _open(self, stack: ExitStack, wanted: list[int] | None) -> Any:
        import pyarrow.ipc

        file = stack.enter_context(self._place.native())
        options = pyarrow.ipc.IpcReadOptions(included_fields=wanted)
        return pyarrow.ipc.open_file(file, options=options)

    def _look(self, stack: ExitStack) -> Any:
        reader = self._open(stack, None)
        self._positions = {name: i for i, name in enumerate(reader.schema.names)}
        return reader.schema

    def count(self) -> int:
        first: dict[str, Kind] = {self.names[0]: "number"}
        return sum(batch.num_rows for batch in self.typed(first, 0, lambda _: None))

    def typed(self, kinds: Mapping[str, Kind], limit: int, progress: Progress) -> Iterator[Any]:
        self._same(1)
        with ExitStack() as stack:
            wanted = sorted(self._positions[name] for name in kinds)
            reader = self._guarded(lambda: self._open(stack, wanted))
            batches = reader.num_record_batches
            for i, batch in enumerate(self._each(_valid(reader.get_batch(i)) for i in range(batches))):
                progress((i + 1) / batches)
                yield from cut(batch, len(kinds))


def _valid(batch: Any) -> Any:
    """Return a batch after checking that its buffers stay within bounds: the reader trusts all that it reads."""
    batch.validate(full=True)
    return batch


class _Chunks(io.RawIOBase):
    """The bytes of a file, which may be compressed, or of standard input."""

    def __init__(self, file: LineFile, rows: Callable[[], int]) -> None:
        self._chunks = file.chunks(rows, end=len)
        self._left = memoryview(b"")
        self.fraction = 0.0
        self.waiting: Callable[[], None] = lambda: None

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        while not self._left:
            found = next(self._chunks, None)
            if found is None:
                return 0
            chunk, self.fraction = found
            self._left = memoryview(chunk)
            if not chunk:
                self.waiting()
        n = min(len(into), len(self._left))
        into[:n] = self._left[:n]
        self._left = self._left[n:]
        return n

    def close(self) -> None:
        self._chunks.close()  # type: ignore[attr-defined]
        super().close()


class IpcStreamColumns(TypedColumns):
    """A stream of Arrow IPC messages, from a file or from standard input."""

    format = "arrow"

    def __init__(self, file: LineFile) -> None:
        self._arrow = arrow("Arrow streams")
        self._file = file
        self.facts = replace(file.facts, merge=not file.live)  # a batch is passed on as soon as it has come
        self._first: tuple[_Chunks, Any] | None = self._open()
        super().__init__(self.facts, self._first[1].schema)
        if file.facts.repeatable:
            self._first[0].close()
            self._first = None

    def _open(self) -> tuple[_Chunks, Any]:
        import pyarrow.ipc

        source = _Chunks(self._file, lambda: self._rows)
        self._rows = 0
        try:
            return source, pyarrow.ipc.open_stream(io.BufferedReader(source, 1 << 16))
        except (self._arrow.ArrowException, OSError, EOFError, UnicodeDecodeError) as err:
            raise _unreadable(self._file, "Arrow stream or file", err) from err

    def count(self) -> int:
        first: dict[str, Kind] = {self.names[0]: "number"}
        return sum(batch.num_rows for batch in self.typed(first, 0, lambda _: None))

    def typed(self, kinds: Mapping[str, Kind], limit: int, progress: Progress) -> Iterator[Any]:
        source, reader = self._first or self._open()
        self._first = None
        source.waiting = lambda: progress(source.fraction)
        try:
            while True:
                try:
                    batch = _valid(reader.read_next_batch().select(list(kinds)))
                except StopIteration:
                    return
                except (self._arrow.ArrowException, OSError, EOFError, UnicodeDecodeError) as err:
                    raise self.damaged(err, self._rows + 1) from err
                self._rows += batch.num_rows
                progress(source.fraction)
                yield from cut(batch, len(kinds))
        finally:
            source.close()
