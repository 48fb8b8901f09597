"""Files as chunks of whole lines: plain or compressed, in flat memory, with errors that name the row."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from ..errors import StreamError

__all__ = ["LINE_BYTES", "LineFile", "file_size"]

# Read at once. Large enough for the parser's own threads to have work, small
# enough that a chunk and its parsed columns stay far below a typical memory.
CHUNK_BYTES = 8 << 20
# A line longer than this is a file of another kind, or an attack on memory.
LINE_BYTES = 64 << 20

_MAGIC = {"gz": b"\x1f\x8b", "bz2": b"BZh", "xz": b"\xfd7zXZ\x00"}
_DAMAGED = (EOFError, OSError, zlib.error, lzma.LZMAError)


class _Reader(Protocol):
    def read1(self, size: int, /) -> bytes: ...


def file_size(path: Path) -> int:
    """Return the size in bytes of a regular, non-empty, readable file, or raise StreamError."""
    try:
        status = path.stat()
    except OSError as err:
        raise StreamError(f"{path.name}: cannot be read: {err.strerror or err}") from err
    if stat.S_ISDIR(status.st_mode):
        raise StreamError(f"{path.name}: is a directory, a file is needed")
    if not stat.S_ISREG(status.st_mode):
        raise StreamError(f"{path.name}: is not a regular file")
    if status.st_size == 0:
        raise StreamError(f"{path.name}: the file is empty")
    return status.st_size


class LineFile:
    """A text file, plain or compressed (recognised by its first bytes, not by its name).

    Attributes
    ----------
    name : str
        The file's name without its folder.
    stem : str
        The name without the suffix of the compression.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self.name = self._path.name
        self._size = file_size(self._path)
        try:
            with open(self._path, "rb") as f:
                start = f.read(8)
        except OSError as err:
            raise StreamError(f"{self.name}: cannot be read: {err.strerror or err}") from err
        self._codec = next((c for c, magic in _MAGIC.items() if start.startswith(magic)), None)
        suffix = self._path.suffix.lower().lstrip(".")
        if suffix in _MAGIC and suffix != self._codec:
            raise StreamError(f"{self.name}: is not {suffix} data, though its name says so")
        self.stem = self._path.stem if suffix in _MAGIC else self.name

    @property
    def compressed(self) -> bool:
        """Whether the bytes on disk are gz, bz2 or xz."""
        return self._codec is not None

    def _open(self, stack: ExitStack) -> tuple[BinaryIO, _Reader]:
        try:
            raw = stack.enter_context(self._path.open("rb"))
        except OSError as err:
            raise StreamError(f"{self.name}: cannot be read: {err.strerror or err}") from err
        if self._codec == "gz":
            return raw, cast(_Reader, stack.enter_context(gzip.GzipFile(fileobj=raw, mode="rb")))
        if self._codec == "bz2":
            return raw, stack.enter_context(bz2.BZ2File(raw, "rb"))
        if self._codec == "xz":
            return raw, stack.enter_context(lzma.LZMAFile(raw, "rb"))
        return raw, raw

    def _damaged(self, err: BaseException, row: int) -> StreamError:
        kind = f"the {self._codec} data are damaged or cut short" if self._codec else "cannot be read"
        return StreamError(f"{self.name}, row {row}: {kind}: {err}", row=row)

    def head(self, enough: Callable[[bytes], bool]) -> tuple[bytes, bool]:
        """Return the first bytes, until ``enough`` of them are there, and whether they are all."""
        found = b""
        with ExitStack() as stack:
            _, reader = self._open(stack)
            while not enough(found) and len(found) <= LINE_BYTES:
                try:
                    piece = reader.read1(max(1 << 16, len(found)))
                except _DAMAGED as err:
                    raise self._damaged(err, 1) from err
                if not piece:
                    return found, True
                found += piece
        return found, False

    def chunks(self, rows_done: Callable[[], int]) -> Iterator[tuple[bytes, float]]:
        """Yield chunks of whole lines and the fraction of the file's bytes consumed.

        The last line may lack its line end. ``rows_done`` tells how many data rows
        the consumer has taken from the chunks so far; damage is reported at the
        next row, after everything that could be recovered has been yielded.
        """
        with ExitStack() as stack:
            raw, reader = self._open(stack)
            tail = b""
            failure: BaseException | None = None
            ended = False
            while not ended:
                pieces, held = [tail], 0
                while held < CHUNK_BYTES:
                    try:
                        # read1, not read: it hands out all that precedes the damage.
                        piece = reader.read1(CHUNK_BYTES)
                    except _DAMAGED as err:
                        failure, ended = err, True
                        break
                    if not piece:
                        ended = True
                        break
                    pieces.append(piece)
                    held += len(piece)
                text = b"".join(pieces)
                cut = len(text) if ended and failure is None else text.rfind(b"\n") + 1
                tail = text[cut:]
                if len(tail) > LINE_BYTES:
                    row = rows_done() + 1
                    raise StreamError(
                        f"{self.name}, row {row}: the line is longer than {LINE_BYTES >> 20} MiB", row=row
                    )
                if cut:
                    # The position is that of the decompressor, at most one buffer ahead.
                    yield (text if cut == len(text) else text[:cut]), min(raw.tell() / self._size, 1.0)
            if failure is not None:
                raise self._damaged(failure, rows_done() + 1) from failure
