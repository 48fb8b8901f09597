"""Parts of the rows: what they are, and what a worker answers who holds one."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Protocol

from ..errors import InvalidCell, InvalidParameter, InvalidRow, PartFailure, StreamError
from ..streams import open_stream

__all__ = ["FilePart", "Held", "Part", "Reading", "Refusal", "check_parts", "file_parts", "result_of"]


class Part(Protocol):
    """Some of the rows, in order, that one worker reads by itself; it is pickled where workers are elsewhere."""

    @property
    def name(self) -> str:
        """What errors call it."""

    def open(self) -> Any:
        """Return a stream of its rows, as ``fit_stream`` takes it; called by the worker."""


class Reading(Protocol):
    """Makes what a worker holds of a part, with a method for each question; pickled likewise."""

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
        their order. The released bits depend on what files there are and on their order, and on nothing else.
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
    """Refuse no parts, and two of one name: their rows would count twice."""
    names = [part.name for part in parts]
    if not names:
        raise InvalidParameter("parts must be at least one, found none")
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise InvalidParameter(f"parts must have different names, found {twice[0]!r} more than once")


# ---- the worker's side -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Refusal:
    """An error of a worker, as text that can be sent."""

    kind: str
    text: str
    row: int | None = None
    column: int | None = None


class Held:
    """What one worker holds of one part: made by the first question, and again where another worker held it before."""

    def __init__(self, reading: Reading, part: Part) -> None:
        self._reading, self._part, self._lock = reading, part, Lock()
        self._holder: Any = None

    def answer(self, question: str, arguments: tuple[Any, ...]) -> Any:
        """Return what the holder's method of that name returns, or a :class:`Refusal`."""
        with self._lock:
            try:
                if self._holder is None:
                    self._holder = self._reading(self._part)
                return getattr(self._holder, question)(*arguments)
            except Exception as error:
                return Refusal(
                    type(error).__name__, str(error), getattr(error, "row", None), getattr(error, "column", None)
                )

    def wipe(self) -> None:
        """Let the holder overwrite what it has, and forget it."""
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


def result_of(found: Any, part: Part) -> Any:
    """Return what a worker has answered, or raise what it refused with: with the part's name, and its row there."""
    if not isinstance(found, Refusal):
        return found
    text = found.text if found.text.startswith(part.name) else f"part {part.name!r}: {found.text}"
    if found.kind in _KINDS:
        raise _KINDS[found.kind](text, found)
    raise PartFailure(f"part {part.name!r}: {found.kind}: {found.text}", part=part.name)
