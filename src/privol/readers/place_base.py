"""The base of all places of files: see :mod:`.places`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, BinaryIO, NamedTuple

from ..errors import StreamError
from .base import plainly

__all__ = ["Place", "State"]


class State(NamedTuple):
    """The values that show whether a file has changed."""

    identity: tuple[int, ...]
    size: int
    changed: int | None


class Place(ABC):
    """Where the bytes of a file are, or a folder of them.

    Attributes
    ----------
    name : str
        For messages: without folders, and without anything else that a URL may hold.
    far : bool
        Whether each read is a request.
    """

    name: str
    far: bool

    @property
    def suffix(self) -> str:
        """The suffix of the name, in lower case."""
        return PurePosixPath(self.name).suffix.lower()

    def file(self) -> State:
        """Return the state of a non-empty file, or raise StreamError."""
        state = self.state()
        if not state.size:
            raise StreamError(f"{self.name}: the file is empty")
        return state

    @abstractmethod
    def state(self) -> State:
        """Return the state of a file, or raise StreamError where there is none."""

    @abstractmethod
    def open(self) -> BinaryIO:
        """Return the opened file; raise OSError where it cannot be opened."""

    @abstractmethod
    def native(self) -> Any:
        """Return the file opened by pyarrow."""

    @abstractmethod
    def path(self, what: str) -> Path:
        """Return the path of a file that can be mapped into memory; messages name ``what`` needs it."""

    @abstractmethod
    def key(self) -> PurePath:
        """Return the key by which files are sorted."""

    @abstractmethod
    def is_folder(self) -> bool:
        """Whether this is a folder."""

    @abstractmethod
    def listed(self) -> list[Place]:
        """Return the contents of a folder, in no order; raise OSError where it cannot be read."""

    def state_of(self, opened: BinaryIO) -> State:
        """Return the state of what :meth:`open` returned."""
        return self.state()

    def told(self, err: BaseException) -> BaseException:
        """Return an error of a library that reads what :meth:`native` has opened, without what must not be shown."""
        return err

    def unreadable(self, err: BaseException) -> StreamError:
        """Return the error for a file that cannot be read."""
        return StreamError(f"{self.name}: cannot be read: {getattr(err, 'strerror', None) or plainly(err)}")
