"""Where the bytes of a file are: on disk, on a web server, or behind a URL that pyarrow's file systems know."""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, BinaryIO, NamedTuple, cast

from ..errors import StreamError
from .base import arrow, plainly
from .http_files import HttpFile
from .place_base import Place, State
from .source_urls import shown, to_keep

__all__ = ["Folder", "LocalFile", "Place", "State", "place_of"]

# At least two characters before the colon: a single one is a drive.
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_WEB = ("http://", "https://")
# Google's client would otherwise try for a quarter of an hour to reach an unreachable host.
_GOOGLE, _PATIENCE = ("gs://", "gcs://"), "retry_limit_seconds=30"
# Files that programs leave beside the data: hidden ones, and _SUCCESS, _metadata and the like.
_IGNORED = (".", "_")


class Folder(NamedTuple):
    """The name of a folder or pattern for messages, and its files, sorted by name."""

    name: str
    places: list[Place]


class LocalFile(Place):
    """A file or folder on disk."""

    far = False

    def __init__(self, path: Path) -> None:
        self._path = path
        self.name = path.name or str(path)

    def state(self) -> State:
        try:
            status = self._path.stat()
        except OSError as err:
            raise self.unreadable(err) from err
        if stat.S_ISDIR(status.st_mode):
            raise StreamError(f"{self.name}: is a directory, a file is needed")
        if not stat.S_ISREG(status.st_mode):
            raise StreamError(f"{self.name}: is not a regular file (a pipe is read as standard input: '-')")
        return _state(status)

    def state_of(self, opened: BinaryIO) -> State:
        return _state(os.fstat(opened.fileno()))

    def open(self) -> BinaryIO:
        return self._path.open("rb")

    def native(self) -> Any:
        return arrow("files").OSFile(str(self._path))

    def path(self, what: str) -> Path:
        return self._path

    def key(self) -> PurePath:
        return self._path

    def is_folder(self) -> bool:
        return self._path.is_dir()

    def listed(self) -> list[Place]:
        return [LocalFile(path) for path in self._path.iterdir()]


def _state(status: os.stat_result) -> State:
    return State((status.st_dev, status.st_ino), status.st_size, status.st_mtime_ns)


@contextmanager
def _asking(url: str) -> Iterator[None]:
    """Turn whatever a file system raises into an OSError without the secrets of the URL, which clients quote."""
    try:
        yield
    except (arrow("URLs").ArrowException, OSError) as err:
        raise _told(err, url) from None


def _told(err: BaseException, url: str) -> OSError:
    return OSError(shown(getattr(err, "strerror", None) or str(err), [url]))


class _Opened:
    """An open file of a file system, and how far it has been read from its beginning."""

    def __init__(self, file: Any, url: str) -> None:
        self._file, self._url = file, url

    def read(self, size: int) -> bytes:
        with _asking(self._url):
            return cast(bytes, self._file.read(size))

    read1 = read

    def __enter__(self) -> _Opened:
        return self

    def __exit__(self, *args: Any) -> None:
        self._file.close()


class RemoteFile(Place):
    """A file or folder of one of pyarrow's file systems, for example an object store.

    Parameters
    ----------
    system : pyarrow.fs.FileSystem
    path : str
        The path as the file system writes it.
    url : str
        From which the file system was made: **secret** where it has a key.
    info : pyarrow.fs.FileInfo, optional
        What listing its folder has shown about it.
    """

    far = True

    def __init__(self, system: Any, path: str, url: str, info: Any = None) -> None:
        self._system, self._at, self._url, self._info = system, path, url, info
        self.name = PurePosixPath(path).name or path

    def _type(self) -> tuple[str, Any]:
        try:
            with _asking(self._url):
                found = self._system.get_file_info(self._at)
        except OSError as err:
            raise self.unreadable(err) from err
        return found.type.name, found

    def state(self) -> State:
        kind, found = self._type()
        if kind == "Directory":
            raise StreamError(f"{self.name}: is a directory, a file is needed")
        if kind != "File":
            raise StreamError(f"{self.name}: cannot be read: there is no such file")
        return State((), int(found.size), found.mtime_ns)

    def open(self) -> BinaryIO:
        return cast(BinaryIO, _Opened(self.native(), self._url))

    def native(self) -> Any:
        with _asking(self._url):
            return self._system.open_input_file(self._at)

    def told(self, err: BaseException) -> BaseException:
        return _told(err, self._url)

    def path(self, what: str) -> Path:
        raise StreamError(f"{self.name}: {what} cannot be read from a URL, copy it to a disk first")

    def key(self) -> PurePath:
        return PurePosixPath(self._at)

    def is_folder(self) -> bool:
        return (self._type()[0] if self._info is None else self._info.type.name) == "Directory"

    def listed(self) -> list[Place]:
        from pyarrow.fs import FileSelector

        with _asking(self._url):
            found = self._system.get_file_info(FileSelector(self._at))
        return [RemoteFile(self._system, info.path, self._url, info) for info in found]


def place_of(data: str | os.PathLike[str]) -> Place | Folder:
    """Return the place of a path or URL, which need not exist, or the files of a folder or of a pattern on disk.

    A ``file://`` URL is on disk.
    """
    url = isinstance(data, str) and _URL.match(data)
    # A file name may look like a pattern.
    if isinstance(data, str) and not url and glob.has_magic(data) and not Path(data).exists():
        found: list[Place] = [LocalFile(Path(path)) for path in glob.glob(data, recursive=True)]
        return _folder(Path(data).name, found, "no file has such a name")
    if url and str(data).lower().startswith(_WEB):
        return HttpFile(str(data))
    place = _of_url(str(data)) if url else LocalFile(Path(data))
    if not place.is_folder():
        return place
    try:
        inside = [one for one in place.listed() if not one.name.startswith(_IGNORED)]
    except OSError as err:
        raise place.unreadable(err) from err
    return _folder(place.name, inside, "the directory holds no files (names that begin with . or _ do not count)")


def _of_url(url: str) -> Place:
    # Messages show only the last name of a URL, which may hold keys.
    name = PurePosixPath(to_keep(url).split("?")[0]).name
    arrow(f"URLs such as {url.partition(':')[0]}://")
    import pyarrow.fs

    if url.startswith(_GOOGLE) and "retry_limit_seconds=" not in url:
        url += ("&" if "?" in url else "?") + _PATIENCE
    try:
        with _asking(url):
            system, path = pyarrow.fs.FileSystem.from_uri(url)
    except OSError as err:
        raise StreamError(f"{name}: the URL cannot be opened by pyarrow's file systems: {plainly(err)}") from None
    return LocalFile(Path(path)) if system.type_name == "local" else RemoteFile(system, path, url)


def _folder(name: str, found: list[Place], missing: str) -> Folder:
    """Return files sorted by name; raise StreamError if there are none (``missing`` says what), or for a folder."""
    if not found:
        raise StreamError(f"{name}: {missing}, at least one is needed")
    folder = next((place for place in found if place.is_folder()), None)
    if folder is not None:
        raise StreamError(f"{name}: found the directory {folder.name!r}, allowed are files; name them by a pattern")
    return Folder(name, sorted(found, key=lambda place: place.key()))
