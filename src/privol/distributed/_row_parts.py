"""Parts of the rows, and how a worker that holds one answers."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from ..errors import InvalidCell, InvalidParameter, InvalidRow, PartFailure, StreamError
from ..readers.source_urls import is_live, is_source, parsed, to_keep
from ..streams import open_stream

__all__ = ["FilePart", "Held", "Part", "Reading", "Refusal", "check_parts", "file_parts", "result_of"]


class Part(Protocol):
    """Consecutive rows that one worker reads by itself; it is pickled for workers in other processes."""

    @property
    def name(self) -> str:
        """The name of the part in errors."""

    def open(self) -> Any:
        """Return a stream of the rows, as ``fit_stream`` takes it; the worker calls this."""


class Reading(Protocol):
    """Makes a worker's object for a part, with a method for each question; pickled likewise.

    ``digest()`` of that is a function of the part's rows in their order: the curator compares it.
    """

    def __call__(self, part: Part) -> Any: ...


@dataclass(frozen=True)
class FilePart:
    """A part that :func:`privol.open_stream` opens.

    Attributes
    ----------
    name : str
        Path of the file, as the worker finds it.
    options : dict
        Of :func:`privol.open_stream`.
    """

    name: str
    options: dict[str, Any] = field(default_factory=dict)

    def open(self) -> Any:
        return open_stream(self.name, **self.options)


def file_parts(files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], **options: Any) -> list[FilePart]:
    """Return files as parts, each with the options of :func:`privol.open_stream`.

    Parameters
    ----------
    files : str, path, or iterable of them
        A pattern (``"rows/*.parquet"``), whose files are taken in the order of their names, or the paths themselves, in
        their order. The released bits depend only on the files and on their order.
    **options
        As of :func:`privol.open_stream`: ``target=``, ``classes=``, ``schema=``, and so on. They must be public.

    Returns
    -------
    list of FilePart

    Raises
    ------
    InvalidParameter
        If there is no such file, or one is named twice.
    """
    if isinstance(files, str | os.PathLike):
        found = sorted(glob.glob(os.fspath(files)))
        if not found:
            raise InvalidParameter(f"files must be a pattern with files or a list of paths, found {os.fspath(files)!r}")
    else:
        found = [os.fspath(path) for path in files]
    parts = [FilePart(path, dict(options)) for path in found]
    check_parts(parts)
    return parts


def check_parts(parts: list[Any]) -> None:
    """Refuse an empty list, and two parts with the same name, whose rows would count twice."""
    names = [part.name for part in parts]
    if not names:
        raise InvalidParameter("parts must be at least one, found none")
    for name in names:
        if is_live(name):
            raise InvalidParameter(
                f"parts must be files or tables, whose rows can be counted, found {to_keep(name)}: one process "
                "learns the messages of a broker, in their order"
            )
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise InvalidParameter(f"parts must have different names, found {to_keep(twice[0])!r} more than once")
    known: dict[Any, str] = {}
    for part in (part for part in parts if isinstance(part, FilePart)):
        for place in _places(part.name):
            same = known.setdefault(place, part.name)
            if same != part.name:
                what = "one table" if is_source(part.name) else "one file"
                first, second = to_keep(same), to_keep(part.name)
                raise InvalidParameter(f"parts must be different files, found {first!r} and {second!r}: {what}")


def _places(name: str) -> list[Any]:
    """Where a part's rows are, as far as this machine can tell: names of one place have one in common."""
    if is_source(name):
        url = parsed(name)
        options = {key: value for key, value in url.options if key in ("table", "query")}
        table = options.get("table", "").casefold()
        what = table.removeprefix("main.").removeprefix("public."), " ".join(options.get("query", "").split())
        if os.path.exists(url.path):
            return [(url.scheme, _file(url.path), what)]
        host, _, path = url.base.partition("://")[2].rpartition("@")[2].partition("/")
        return [(url.title, host.lower(), path, what)]
    if name[:7].lower() == "file://":
        name = unquote(urlsplit(name).path)
    if os.path.isdir(name):
        files = [entry.path for entry in os.scandir(name)]
    else:  # a file's name may look like a pattern
        files = glob.glob(name, recursive=True) if glob.has_magic(name) and not os.path.exists(name) else [name]
    return [_file(path) if os.path.exists(path) else path for path in files]


def _file(path: str) -> tuple[int, int]:
    about = os.stat(path)
    return about.st_dev, about.st_ino


# ---- the worker's side -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Refusal:
    """An error of a worker, as text that can be sent."""

    kind: str
    text: str
    row: int | None = None
    column: int | None = None


@dataclass(frozen=True)
class Answer:
    """An answer, and a digest of the rows it is about."""

    digest: bytes
    value: Any


class Held:
    """A worker's data of a part: made by the first question, or again after another worker held it."""

    def __init__(self, reading: Reading, part: Part) -> None:
        self._reading, self._part, self._lock = reading, part, Lock()
        self._holder: Any = None
        self._digest = b""

    def answer(self, question: str, arguments: tuple[Any, ...]) -> Any:
        """Return the result of the holder's method of that name as an :class:`Answer`, or a :class:`Refusal`."""
        with self._lock:
            try:
                if self._holder is None:
                    self._holder = self._reading(self._part)
                    self._digest = self._holder.digest()
                return Answer(self._digest, getattr(self._holder, question)(*arguments))
            except Exception as error:
                return Refusal(
                    type(error).__name__, str(error), getattr(error, "row", None), getattr(error, "column", None)
                )

    def wipe(self) -> None:
        """Let the holder overwrite its data, and drop it."""
        with self._lock:
            if self._holder is not None:
                self._holder.wipe()
            self._holder = None


# ---- the curator's side ----------------------------------------------------------------------------------------------

_KINDS: dict[str, Callable[[str, Refusal], Exception]] = {
    "InvalidRow": lambda text, why: InvalidRow(text, row=why.row or 0, column=why.column),
    "InvalidCell": lambda text, why: InvalidCell(text, row=why.row or 0, column=why.column),
    "StreamError": lambda text, why: StreamError(text, row=why.row),
    "InvalidParameter": lambda text, why: InvalidParameter(text),
}


def result_of(found: Any, part: Part, digests: dict[str, bytes]) -> Any:
    """Return what a worker has answered, or raise what it refused with: with the part's name, and its row there.

    ``digests``: of the parts as they were first read. A part that reads otherwise now would mix rows of two tables, and
    of an online run a row that has moved would count twice.
    """
    if isinstance(found, Answer):
        if digests.setdefault(part.name, found.digest) != found.digest:
            raise PartFailure(
                f"part {part.name!r}: another worker has read other rows of it, or in another order, than were read "
                "first: parts may not change during a fit; nothing more is released",
                part=part.name,
            )
        return found.value
    text = found.text if found.text.startswith(part.name) else f"part {part.name!r}: {found.text}"
    if found.kind in _KINDS:
        raise _KINDS[found.kind](text, found)
    raise PartFailure(f"part {part.name!r}: {found.kind}: {found.text}", part=part.name)
