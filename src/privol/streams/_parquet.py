"""Parquet and Arrow IPC (Feather version 2) files by pyarrow: only the wanted columns, batch by batch."""

from __future__ import annotations

import io
import os
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ..errors import StreamError
from ._arrow import TypedColumns, arrow, batch_rows, cut, plainly
from ._base import Progress
from ._columns import Kind
from ._files import LineFile, file_size
from ._libsvm import looks_like_libsvm

__all__ = ["IPC_FILE", "IPC_STREAM", "PARQUET", "IpcFileColumns", "IpcStreamColumns", "ParquetColumns"]

# The first bytes of the formats, and of what else may have their names.
PARQUET, IPC_FILE, IPC_STREAM = b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"
_OTHERS = {
    PARQUET: 'a Parquet file (format="parquet")',
    IPC_FILE: 'an Arrow file (format="arrow")',
    b"\x93NUMPY": 'an array (format="npy")',
    b"PK\x03\x04": 'a zip archive or .npz (format="npz")',
}
# So many bytes tell what a file looks like.
_LOOK = 4096
# Each column is read through a buffer of its own. Without one a whole column of a row group is held in memory.
BUFFER_BYTES = 1 << 16


def _unreadable(file: LineFile, what: str, err: BaseException) -> StreamError:
    """Return the error for a file that its library does not read: another one, where it looks like that, or damaged."""
    start = file.head(lambda text: len(text) >= _LOOK)[0][:_LOOK] if file.repeatable else b""
    told = next((shown for magic, shown in _OTHERS.items() if start.startswith(magic)), None) or _text(start)
    if told is None or what.split()[0] in told:
        return StreamError(f"{file.name}: is not a readable {what}: {plainly(err)}")
    return StreamError(f"{file.name}: is not a{'n' * (what[0] in 'AEIOU')} {what}; it looks like {told}")


def _text(start: bytes) -> str | None:
    """Say what a file is by its look if it begins with text."""
    try:
        # the last character may be cut
        text = start.decode("utf-8" if len(start) < _LOOK else "latin-1").lstrip("\ufeff")
    except UnicodeDecodeError:
        return None
    if not text.strip() or any(c < " " and c not in "\t\r\n" for c in text):
        return None
    if text.lstrip().startswith("{"):
        return 'JSON lines (format="jsonl")'
    return 'libsvm text (format="libsvm")' if looks_like_libsvm(start) else 'text, perhaps CSV (format="csv")'


class _FileColumns(TypedColumns):
    """A file of typed columns that is opened anew for every pass."""

    what: str

    def __init__(self, path: Path) -> None:
        self._arrow = arrow(f"{self.what} files")
        file_size(path)
        self._path = path
        self.name = path.name
        self._state = self._status()
        with ExitStack() as stack:
            super().__init__(path.name, self._guarded(lambda: self._look(stack)))

    @abstractmethod
    def _look(self, stack: ExitStack) -> Any:
        """Return the schema, and note what else the file says of itself."""

    def _status(self) -> tuple[int, ...]:
        try:
            status = os.stat(self._path)
        except OSError as err:
            raise StreamError(f"{self.name}: cannot be read: {err.strerror or err}") from err
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns

    def _same(self, row: int) -> None:
        """Raise StreamError if the file is no longer what it was when it was opened."""
        if self._status() != self._state:
            raise StreamError(f"{self.name}, from row {row}: the file has changed since it was opened", row=row)

    def _guarded(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except (self._arrow.ArrowException, OSError, EOFError) as err:
            raise _unreadable(LineFile(self._path), f"{self.what} file", err) from err

    def _each(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield what is in a file that may be damaged or change."""
        row = 1
        while True:
            try:
                batch = next(batches, None)
            except (self._arrow.ArrowException, OSError, EOFError) as err:
                self._same(row)
                raise self.damaged(err, row) from err
            if batch is None:
                self._same(row)
                return
            row += batch.num_rows
            yield batch


class ParquetColumns(_FileColumns):
    """A Parquet file; page checksums are verified where it has any."""

    what = "Parquet"

    def _open(self, stack: ExitStack, text: list[str]) -> Any:
        import pyarrow.parquet

        return stack.enter_context(
            pyarrow.parquet.ParquetFile(
                self._path,
                read_dictionary=text,
                pre_buffer=False,
                buffer_size=BUFFER_BYTES,
                page_checksum_verification=True,
            )
        )

    def _look(self, stack: ExitStack) -> Any:
        file = self._open(stack, [])
        self.n_rows = int(file.metadata.num_rows)
        if not self.n_rows:
            raise StreamError(f"{self.name}: no rows, at least one is needed")
        return file.schema_arrow

    def count(self) -> int:
        return self.n_rows or 0

    def typed(self, kinds: Mapping[str, Kind], limit: int, progress: Progress) -> Iterator[Any]:
        self._same(1)
        rows, total = 0, self.n_rows or 0
        with ExitStack() as stack:
            # Strings come with the dictionary that the file has for them.
            text = [name for name, kind in kinds.items() if kind == "text" and _is_text(self._arrow, self._types[name])]
            file = self._guarded(lambda: self._open(stack, text))
            for batch in self._each(file.iter_batches(batch_rows(len(kinds)), columns=list(kinds), use_threads=True)):
                rows += batch.num_rows
                progress(min(rows / total, 1.0))
                yield batch
        if rows != total:
            raise StreamError(f"{self.name}: found {rows} rows, the file says that it has {total}", row=rows + 1)


def _is_text(pa: Any, kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


class IpcFileColumns(_FileColumns):
    """An Arrow IPC file (Feather version 2), one of its batches in memory at a time."""

    what = "Arrow"

    def _open(self, stack: ExitStack, wanted: list[int] | None) -> Any:
        import pyarrow.ipc

        file = stack.enter_context(self._arrow.OSFile(str(self._path)))
        options = pyarrow.ipc.IpcReadOptions(included_fields=wanted)
        return pyarrow.ipc.open_file(file, options=options)

    def _look(self, stack: ExitStack) -> Any:
        reader = self._open(stack, None)
        self._positions = {name: i for i, name in enumerate(reader.schema.names)}
        return reader.schema

    def count(self) -> int:
        if self.n_rows is None:
            first: dict[str, Kind] = {self.names[0]: "number"}
            self.n_rows = sum(batch.num_rows for batch in self.typed(first, 0, lambda _: None))
        return self.n_rows

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
    """Return a batch whose buffers cannot lead out of themselves: the format's reader believes all that it reads."""
    batch.validate(full=True)
    return batch


class _Chunks(io.RawIOBase):
    """The bytes of a file that may be compressed or standard input."""

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

    def __init__(self, file: LineFile) -> None:
        self._arrow = arrow("Arrow streams")
        self._file = file
        self.name = file.name
        self.repeatable, self.sized, self.ahead = file.repeatable, file.sized, file.ahead
        self.merge = not file.live  # a batch is handed on when it has come
        self._first: tuple[_Chunks, Any] | None = self._open()
        super().__init__(file.name, self._first[1].schema)
        if self.repeatable:
            self._first[0].close()
            self._first = None

    def _open(self) -> tuple[_Chunks, Any]:
        import pyarrow.ipc

        source = _Chunks(self._file, lambda: self._rows)
        self._rows = 0
        try:
            return source, pyarrow.ipc.open_stream(io.BufferedReader(source, 1 << 16))
        except (self._arrow.ArrowException, OSError, EOFError) as err:
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
                except (self._arrow.ArrowException, OSError, EOFError) as err:
                    raise self.damaged(err, self._rows + 1) from err
                self._rows += batch.num_rows
                progress(source.fraction)
                yield from cut(batch, len(kinds))
        finally:
            source.close()
