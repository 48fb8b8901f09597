"""Files as chunks of whole lines: plain or compressed, in flat memory, with errors that name the row."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

from ..errors import StreamError
from .base import Facts
from .formats import PACKED
from .pipe import BEAT, PAUSE, PORTION, Input
from .places import LocalFile, Place

__all__ = ["LINE_BYTES", "LineFile", "Lines", "line_end", "shown"]

# Bytes read at once: enough to keep the parser's threads busy, few enough that a chunk and its parsed columns need far
# less than a typical machine's memory.
CHUNK_BYTES = 8 << 20
_FIRST_BYTES = 1 << 20
# A line longer than this is a file of another kind, or an attack on memory.
LINE_BYTES = 64 << 20
# What precedes the damage in a zst frame is lost from here on, so such a file is read in small pieces.
_ZST_BYTES = 1 << 18
# An unfinished record longer than this is searched again only when it has grown by a quarter.
_LOOKED_THROUGH = 1 << 16

_MAGIC = {"gz": b"\x1f\x8b", "bz2": b"BZh", "xz": b"\xfd7zXZ\x00", "zst": b"\x28\xb5\x2f\xfd"}
_DAMAGED = (EOFError, OSError, zlib.error, lzma.LZMAError)


class _Reader(Protocol):
    def read1(self, size: int, /) -> bytes: ...


def shown(cell: str) -> str:
    """Return what a message quotes of a cell: at most its first 40 characters."""
    return repr(cell) if len(cell) <= 40 else repr(cell[:40]) + "..."


def listed(names: Sequence[str]) -> str:
    """Return the allowed names as a message lists them: the first twenty."""
    return ", ".join(names[:20]) + (f" and {len(names) - 20:,} more" if len(names) > 20 else "")


def line_end(text: bytes) -> int:
    """Return where the last whole line of a text ends."""
    return text.rfind(b"\n") + 1


def _stem(name: str) -> str:
    path = Path(name)
    return path.stem if path.suffix.lower() in PACKED else name


def _codec(start: bytes) -> str | None:
    # A zst file may begin with a frame to be skipped (pzstd writes one): x2A 4D 18 with any low half of x.
    if start[1:4] == b"\x2a\x4d\x18" and start[0] >> 4 == 5:
        return "zst"
    return next((codec for codec, magic in _MAGIC.items() if start.startswith(magic)), None)


class _Bytes(io.RawIOBase):
    """The part of a raw file up to a limit, after bytes that were read earlier."""

    def __init__(self, raw: BinaryIO, limit: int | None, start: bytes = b"") -> None:
        self._raw = cast(_Reader, raw)
        self._limit = limit
        self._start = start
        self._at = 0

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1, /) -> bytes:
        if size < 0:
            size = CHUNK_BYTES
        if self._limit is not None:
            size = min(size, self._limit - self._at)
        if self._start:
            piece, self._start = self._start[:size], self._start[size:]
        else:
            piece = self._raw.read1(size) if size else b""
        self._at += len(piece)
        return piece

    read1 = read


class _Zst:
    """The bytes of a zst file, through pyarrow's codec."""

    def __init__(self, raw: _Bytes, name: str) -> None:
        try:
            import pyarrow
        except ImportError as err:
            raise StreamError(f"{name}: reading zst needs pyarrow: pip install 'privol[files]'") from err
        self._stream = pyarrow.CompressedInputStream(pyarrow.PythonFile(raw, "r"), "zstd")

    def read1(self, size: int, /) -> bytes:
        return cast(bytes, self._stream.read(min(size, _ZST_BYTES)))

    def __enter__(self) -> _Zst:
        return self

    def __exit__(self, *args: Any) -> None:
        self._stream.close()


class Lines(Protocol):
    """What readers of text need of their input: see :class:`LineFile`."""

    facts: Facts
    stem: str
    live: bool

    def head(self, enough: Callable[[bytes], bool]) -> tuple[bytes, bool]: ...

    def chunks(
        self, rows_done: Callable[[], int], end: Callable[[bytes], int] = line_end, within: str = ""
    ) -> Iterator[tuple[bytes, float]]: ...


class _End:
    """Whether a pass over a file has reached its end, and which failure ended it."""

    reached = False
    failure: BaseException | None = None


class LineFile:
    """A text file, standard input or a file object, plain or compressed (told by its first bytes, not its name).

    The text is that of the moment of opening. What is appended to a plain file later is not read; if the last line had
    no end at opening and turns out to have been incomplete, every pass leaves it out. A file that has shrunk, was
    replaced or overwritten, or is compressed and has changed in any way is an error.

    Anything that is not a regular file is live: see :meth:`chunks`.

    Parameters
    ----------
    source : path, Place or binary file object
        "-" is standard input. It can be read only once, as a file object can.

    Attributes
    ----------
    facts : Facts
        Its name, and whether it can be read again.
    stem : str
        The name without the suffix of the compression.
    live : bool
        Whether it is not a regular file, so that it may pause.
    """

    def __init__(self, source: str | os.PathLike[str] | Place | BinaryIO) -> None:
        if isinstance(source, (str, os.PathLike)) and os.fspath(source) != "-":
            source = LocalFile(Path(source))
        self.live = False
        # For an input that is read once: what has been read of it, whether that is all, and whether it was passed on.
        self._held = b""
        self._end = _End()
        self._taken = False
        # How many bytes the unfinished last line has, once that is known.
        self._unfinished: int | None = None
        if not isinstance(source, Place):
            self._input = Input(None if isinstance(source, (str, os.PathLike)) else source)
            self.facts = Facts(name=self._input.name, repeatable=False, sized=False, ahead=self._input.ahead)
            self.stem = _stem(self.name)
            self.live = self._input.live
            self._size = 0
            start = self._first_bytes()
            if not start:
                raise StreamError(f"{self.name}: is empty")
            self._codec = _codec(start)
            self._text: _Reader = self._input
            if self._codec is None:
                self._held = start
            else:
                self._end.reached = False  # that of the text is the decompressor's
                # the end of the process closes it: it is not ours
                self._text = self._unpacked(ExitStack(), _Bytes(cast(Any, self._input), None, start))
            return
        self._place = source
        self._state = source.file()
        self._size = self._state.size
        self.facts = Facts(name=self._place.name)
        try:
            with self._place.open() as f:
                start = f.read(8)
        except OSError as err:
            raise self._place.unreadable(err) from err
        self._codec = _codec(start)
        suffix = self._place.suffix
        if PACKED.get(suffix, self._codec) != self._codec:
            raise StreamError(f"{self.name}: is not {suffix[1:]} data, though its name says so")
        self.stem = _stem(self.name)

    @property
    def name(self) -> str:
        """The name of the file in messages: without the folder."""
        return self.facts.name

    @property
    def compressed(self) -> bool:
        """Whether the bytes on disk are gz, bz2, xz or zst."""
        return self._codec is not None

    @property
    def size(self) -> int:
        """Bytes of a file on disk when it was opened."""
        return self._size

    def seekable(self, what: str, packed: str) -> Place:
        """Return the place of a file whose bytes can be read from any position; otherwise raise StreamError.

        ``what`` names the file's format in the message, ``packed`` names it for a compressed file.
        """
        if not self.facts.repeatable:
            raise StreamError(
                f"{self.name}: {what} cannot be read from a pipe, because it must be read from any place; store it as "
                "a file, or send CSV, JSON lines or an Arrow stream"
            )
        if self.compressed:
            raise StreamError(f"{self.name}: a compressed {packed} cannot be read from any place, unpack it first")
        return self._place

    def _first_bytes(self) -> bytes:
        """Return enough bytes to recognise a compression: none of its marks contains a line end."""
        start = b""
        while len(start) < 8 and b"\n" not in start and not self._end.reached:
            try:
                piece = self._input.read1(CHUNK_BYTES)
            except OSError as err:
                raise StreamError(f"{self.name}: cannot be read: {err.strerror or err}") from err
            start += piece
            self._end.reached = not piece
        return start

    def _unpacked(self, stack: ExitStack, raw: _Bytes) -> _Reader:
        if self._codec == "gz":
            return cast(_Reader, stack.enter_context(gzip.GzipFile(fileobj=cast(Any, raw), mode="rb")))
        if self._codec == "bz2":
            return stack.enter_context(bz2.BZ2File(cast(Any, raw), "rb"))
        if self._codec == "xz":
            return stack.enter_context(lzma.LZMAFile(cast(Any, raw), "rb"))
        if self._codec == "zst":
            return stack.enter_context(_Zst(raw, self.name))
        return raw

    def _open(self, stack: ExitStack) -> tuple[BinaryIO, _Bytes, _Reader]:
        try:
            raw = stack.enter_context(self._place.open())
        except OSError as err:
            raise self._place.unreadable(err) from err
        self._same(raw, None)
        limited = _Bytes(raw, self._size - (self._unfinished or 0))
        return raw, limited, self._unpacked(stack, limited)

    def _same(self, raw: BinaryIO, row: int | None) -> None:
        """Raise StreamError unless an open file is the one that was opened first; a plain one may have grown."""
        now, then = self._place.state_of(raw), self._state
        what = None
        if now.identity != then.identity:
            what = "was replaced by another file"
        elif now.size < self._size:
            what = f"has shrunk from {self._size} to {now.size} bytes"
        elif now.changed != then.changed and (self.compressed or now.size == self._size):
            what = "has changed"
        if what is not None:
            at = "" if row is None else f", row {row}"
            raise StreamError(f"{self.name}{at}: the file {what} since it was opened", row=row)

    def _damaged(self, err: BaseException, row: int) -> StreamError:
        kind = f"the {self._codec} data are damaged or cut short" if self._codec else "cannot be read"
        return StreamError(f"{self.name}, row {row}: {kind}: {err}", row=row)

    def _long(self, row: int, within: str) -> StreamError:
        text = f"{self.name}, row {row}: the line is longer than {LINE_BYTES >> 20} MiB{within}"
        return StreamError(text, row=row)

    def head(self, enough: Callable[[bytes], bool]) -> tuple[bytes, bool]:
        """Return the first bytes, until ``enough`` accepts them, and whether they are the whole file.

        There may be fewer where the file is damaged (:meth:`chunks` says in which row) or where ``LINE_BYTES`` are
        reached.
        """
        if self.facts.repeatable:
            with ExitStack() as stack:
                return self._head(self._open(stack)[2], b"", _End(), enough)
        if self._taken:
            raise self._once()
        self._held, everything = self._head(self._text, self._held, self._end, enough)
        return self._held, everything

    def _head(self, reader: _Reader, found: bytes, end: _End, enough: Callable[[bytes], bool]) -> tuple[bytes, bool]:
        while not end.reached and not enough(found) and len(found) <= LINE_BYTES:
            try:
                piece = reader.read1(max(1 << 16, len(found)))
            except _DAMAGED as err:
                end.reached, end.failure = True, err
                break
            found += piece
            end.reached = not piece
        if end.failure is not None and not found:
            raise self._damaged(end.failure, 1) from end.failure
        if len(found) > LINE_BYTES and b"\n" not in found and b"\r" not in found:
            raise self._long(1, "")
        return found, end.reached and end.failure is None

    def chunks(
        self, rows_done: Callable[[], int], end: Callable[[bytes], int] = line_end, within: str = ""
    ) -> Iterator[tuple[bytes, float]]:
        """Yield chunks of whole lines and the fraction of the file's bytes consumed.

        The last line may lack its line end. ``rows_done`` tells how many data rows the consumer has taken from the
        chunks so far; damage is reported at the next row, after everything that could be recovered has been yielded.
        ``end`` returns where the last whole line of a text ends, given a text that begins with a whole line. ``within``
        is added to the message about a line without an end.

        A chunk has 1 MiB at first, then twice the size of the one before, up to 8 MiB. A live input yields the whole
        lines that have come when nothing more has come for ``PAUSE`` seconds, at the latest after ``PORTION`` seconds.
        An empty text follows: whatever waits for more rows must be passed on now. Where it can be known that nothing
        has come, the empty text comes again every ``BEAT`` seconds, so that the consumer can stop waiting. Lines of a
        compressed input come when the decompressor yields them, possibly together with later lines. Where a pipe cannot
        be asked whether it has more (Windows, objects that are no files of the operating system), each read is
        a chunk of its own.
        """

        def long() -> StreamError:
            return self._long(rows_done() + 1, within)

        if not self.facts.repeatable:
            if self._taken:
                raise self._once()
            self._taken = True
            held, self._held = self._held, b""
            for text in (self._live_pieces if self.live else self._pieces)(self._text, held, self._end, end, long):
                yield text, 0.0
            if self._end.failure is not None:
                raise self._damaged(self._end.failure, rows_done() + 1) from self._end.failure
            return
        state = _End()
        with ExitStack() as stack:
            raw, limited, reader = self._open(stack)
            for text in self._pieces(reader, b"", state, end, long):
                if state.reached:
                    self._same(raw, rows_done() + 1)
                    if not self.compressed and limited.tell() == self._size:
                        text = self._finished(raw, text, end, rows_done)
                if text:
                    # The position is that of the decompressor, at most one buffer ahead.
                    yield text, min(limited.tell() / self._size, 1.0)
            self._same(raw, rows_done() + 1)
            if state.failure is not None:
                raise self._damaged(state.failure, rows_done() + 1) from state.failure

    @staticmethod
    def _pieces(
        reader: _Reader, tail: bytes, state: _End, end: Callable[[bytes], int], long: Callable[[], StreamError]
    ) -> Iterator[bytes]:
        """Yield whole lines; ``state`` is updated before the last of them."""
        # The first chunks are small, so that a reader of only the first rows need not wait for more to be parsed.
        size = min(_FIRST_BYTES, CHUNK_BYTES)
        while True:
            pieces, held = [tail], 0
            while held < size and not state.reached:
                try:
                    # read1, not read: it returns everything that precedes the damage.
                    piece = reader.read1(size)
                except _DAMAGED as err:
                    state.reached, state.failure = True, err
                    break
                pieces.append(piece)
                held += len(piece)
                state.reached = not piece
            text = b"".join(pieces)
            cut = len(text) if state.reached and state.failure is None else end(text)
            tail = text[cut:]
            if len(tail) > LINE_BYTES:
                raise long()
            if cut:
                yield text if cut == len(text) else text[:cut]
            if state.reached:
                return
            size = min(2 * size, CHUNK_BYTES)

    def _live_pieces(
        self, reader: _Reader, tail: bytes, state: _End, end: Callable[[bytes], int], long: Callable[[], StreamError]
    ) -> Iterator[bytes]:
        """Yield lines as :meth:`_pieces` does, but as they come, with empty texts where the input pauses."""
        pipe = self._input
        # A decompressor may hold text when its input has nothing, so it must be asked.
        beats = pipe.known and reader is pipe
        held = bytearray(tail)
        # Whether a line may be complete, how many bytes were searched without finding one, and whether all lines were
        # passed on.
        fresh, without, flushed = True, 0, True
        while True:
            n, since = 0, time.monotonic()
            while n < CHUNK_BYTES and not state.reached:
                due = fresh and (len(held) <= _LOOKED_THROUGH or 4 * len(held) >= 5 * without)
                if (due or beats or not flushed) and (
                    pipe.silent(PAUSE if due or not flushed else BEAT) or (due and time.monotonic() - since >= PORTION)
                ):
                    if due:
                        text = bytes(held)
                        cut = end(text)
                        fresh, without = False, 0 if cut else len(text)
                        if cut:
                            held, n = held[cut:], 0
                            yield text[:cut]
                    yield b""
                    flushed = True
                    if beats:
                        continue
                try:
                    piece = reader.read1(CHUNK_BYTES)
                except _DAMAGED as err:
                    state.reached, state.failure = True, err
                    break
                if not n:
                    since = time.monotonic()
                # A CR at the very end may have been half of a CR LF; it is a line end now.
                fresh = fresh or b"\n" in piece or b"\r" in piece or held.endswith(b"\r")
                held += piece
                n += len(piece)
                state.reached = not piece
            text = bytes(held)
            cut = len(text) if state.reached and state.failure is None else end(text)
            held = held[cut:]
            if len(held) > LINE_BYTES:
                raise long()
            fresh, without = False, 0 if cut else len(text)
            if cut:
                flushed = False
                yield text[:cut]
            if state.reached:
                return

    def _finished(self, raw: BinaryIO, text: bytes, end: Callable[[bytes], int], rows_done: Callable[[], int]) -> bytes:
        """Return the text without a last line that was still being written when the file was opened."""
        # A line without an end is whole if nothing follows it, or if its line end does.
        whole = len(text)
        more = raw.read(1)
        if more:
            whole = min(end(text + more), whole)
        unfinished = len(text) - whole
        if self._unfinished is None:
            self._unfinished = unfinished
        elif unfinished > self._unfinished:
            row = rows_done() + 1
            raise StreamError(
                f"{self.name}, from row {row}: the last line was still being written when the file was opened and was "
                "read as it stood; open the file again",
                row=row,
            )
        return text[:whole]

    def _once(self) -> StreamError:
        return StreamError(f"{self.name}: can be read only once")
