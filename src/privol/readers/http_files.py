"""Files behind http:// and https://: read by ranges, so that a connection that breaks is taken up where it broke."""

from __future__ import annotations

import hashlib
import http.client
import io
import netrc
import os
import re
import ssl
import time
import urllib.error
import urllib.request
from base64 import b64encode
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, BinaryIO, NamedTuple, cast
from urllib.parse import unquote, urlsplit

from ..errors import InvalidParameter, StreamError
from .base import arrow
from .place_base import Place, State

__all__ = ["HttpFile"]

# Seconds for which a server that is away is waited for, between two attempts, and in which it must answer.
PATIENCE, PAUSE, _ANSWER = 60.0, 0.25, 30.0
_PIPED = ". What a server sends only once may be piped: curl -sfN URL | privol run - --format jsonl"
_BROKEN = (OSError, http.client.HTTPException, ssl.SSLError)


class _Known(NamedTuple):
    """What a server says of a file: its length, and by what it is known again."""

    size: int
    mark: str


class HttpFile(Place):
    """A file of a web server that serves ranges, and states by ETag or Last-Modified whether a file is the same.

    A user and a password are taken from ``~/.netrc``, where other clients find them too.

    Parameters
    ----------
    url : str
    """

    far = True

    def __init__(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname, parts.port
        except ValueError:
            raise InvalidParameter("the URL of a web server cannot be read: https://host/path/rows.csv") from None
        self.name = PurePosixPath(unquote(parts.path)).name or (host or "")
        if not host or parts.username is not None:
            raise InvalidParameter(
                f"{self.name}: a user and a password do not belong into the URL, where others see them: the file "
                "~/.netrc has them (machine HOST login USER password WORD)"
            )
        if not re.fullmatch("[!-~]*", url):  # the client's own error would quote all of it
            raise InvalidParameter(
                f"{self.name}: found a blank or a sign beyond ASCII in the URL, these are written as %20 and the like"
            )
        self._url, self._path = url, parts.path
        self._headers = {"Accept-Encoding": "identity", "User-Agent": "privol"}
        self._headers |= _authorization(host)
        self._known: _Known | None = None
        self._opener = urllib.request.build_opener(_Redirections)

    def ask(self, method: str, first: int | None = None, last: int | None = None) -> Any:
        """Return the open answer to a request, for a range of bytes if that is given; raise OSError where it fails."""
        headers = dict(self._headers)
        if first is not None:
            headers["Range"] = f"bytes={first}-{'' if last is None else last}"
        try:
            return self._opener.open(urllib.request.Request(self._url, headers=headers, method=method), timeout=_ANSWER)
        except urllib.error.HTTPError as err:
            err.close()
            code = err.code
        except urllib.error.URLError as err:
            # without the URL, which may hold keys
            raise OSError(str(err.reason)) from None
        if code >= 500 or code == 429:
            raise ConnectionError(f"the server answers {code}")
        raise PermissionError(f"the server answers {code}")

    def known(self, answer: Any) -> _Known:
        """Return what an answer says of the whole file."""
        headers = answer.headers
        if (coding := headers.get("Content-Encoding", "identity")) != "identity":
            raise PermissionError(f"the server sends the file as {coding}, allowed is its content as it is")
        mark = headers.get("ETag") or headers.get("Last-Modified")
        size = headers.get("Content-Length", "")
        if answer.status == 206:
            size = headers.get("Content-Range", "").rpartition("/")[2]
        if mark is None or not re.fullmatch("[0-9]{1,18}", size):
            raise PermissionError(
                "the server states neither ETag nor Last-Modified, or no length: whether the file has changed cannot "
                f"be known{_PIPED}"
            )
        return _Known(int(size), mark)

    def _asked(self) -> _Known:
        with self.ask("GET", 0, 0) as answer:
            if answer.status not in (200, 206):
                raise PermissionError(f"the server answers {answer.status}")
            found = self.known(answer)
            if answer.status == 200 and found.size > 1:
                raise PermissionError(
                    f"the server does not serve ranges, by which a broken connection is taken up{_PIPED}"
                )
            return found

    def state(self) -> State:
        until = 0.0 if self._known is None else time.monotonic() + PATIENCE  # one that was there may come back
        while True:
            try:
                found = self._asked()
                break
            except _BROKEN as err:
                if isinstance(err, PermissionError) or time.monotonic() >= until:
                    raise self.unreadable(err) from None
            time.sleep(PAUSE)
        identity = int.from_bytes(hashlib.blake2b(found.mark.encode(), digest_size=8).digest(), "big")
        self._known = self._known or found
        return State((identity,), found.size, None)

    def open(self) -> BinaryIO:
        if self._known is None:
            self._known = self._asked()
        return cast(BinaryIO, _Ranges(self, self._known, ahead=True))

    def native(self) -> Any:
        known = self._known or self._asked()
        return arrow("files").PythonFile(_Ranges(self, known, ahead=False), mode="r")

    def path(self, what: str) -> Path:
        raise StreamError(f"{self.name}: {what} cannot be read from a URL, copy it to a disk first")

    def key(self) -> PurePath:
        return PurePosixPath(self._path)

    def is_folder(self) -> bool:
        return False

    def listed(self) -> list[Place]:
        raise NotADirectoryError(self.name)


class _Ranges(io.RawIOBase):
    """The bytes of a file, from one answer as long as that lasts, then from the next one.

    Parameters
    ----------
    file : HttpFile
    known : _Known
        What the file was when it was opened: it must stay that.
    ahead : bool
        Whether it is read from its beginning to its end, and not here and there.
    """

    def __init__(self, file: HttpFile, known: _Known, *, ahead: bool) -> None:
        self._file, self._known, self._ahead = file, known, ahead
        self._at = 0
        self._answer: Any = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = 0, /) -> int:
        base = (0, self._at, self._known.size)[whence]
        if base + offset != self._at:
            self._leave()
        self._at = base + offset
        return self._at

    def size(self) -> int:
        return self._known.size

    def close(self) -> None:
        self._leave()
        super().close()

    def _leave(self) -> None:
        if self._answer is not None:
            self._answer.close()
            self._answer = None

    def read(self, size: int = -1, /) -> bytes:
        left = self._known.size - self._at
        size = left if size is None or size < 0 else min(size, left)
        found = []
        while size > 0:
            piece = self.read1(size)
            found.append(piece)
            size -= len(piece)
        return b"".join(found)

    def read1(self, size: int = -1, /) -> bytes:
        """Return some bytes, none only at the end of the file."""
        left = self._known.size - self._at
        size = left if size < 0 else min(size, left)
        if size <= 0:
            return b""
        until = 0.0
        while True:
            try:
                old = self._answer is not None
                if self._answer is None:
                    self._answer = self._asked(size)
                piece = cast(bytes, self._answer.read1(size))
                if piece:
                    self._at += len(piece)
                    return piece
                self._leave()
                if old and not self._ahead:
                    continue  # the end of a range
                raise ConnectionError("the connection ended too early")
            except PermissionError:
                raise
            except _BROKEN as err:
                self._leave()
                until = until or time.monotonic() + PATIENCE
                if time.monotonic() >= until:
                    raise OSError(f"the server was away for more than {PATIENCE:.0f} seconds: {err}") from None
                time.sleep(PAUSE)

    def _asked(self, size: int) -> Any:
        """Return the answer that begins here, of the file that was opened."""
        answer = self._file.ask("GET", self._at, None if self._ahead else self._at + size - 1)
        try:
            now = self._file.known(answer)
            if now != self._known:
                raise PermissionError("the file has changed since it was opened")
            if answer.status != 206 and self._at:
                raise PermissionError("the server does not serve ranges, by which a broken connection is taken up")
            if answer.status == 206 and not answer.headers["Content-Range"].startswith(f"bytes {self._at}-"):
                raise PermissionError("the server sends another range than the one that was asked for")
        except BaseException:
            answer.close()
            raise
        return answer


class _Redirections(urllib.request.HTTPRedirectHandler):
    """Follows redirections to other web servers: each gets the password that the user's file has for it alone."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        made = super().redirect_request(req, fp, code, msg, headers, newurl)
        if made is None:
            return None
        if made.type not in ("http", "https"):
            raise PermissionError("the server sends the reader to something else than a web server")
        made.remove_header("Authorization")
        if (req.type, made.type) != ("https", "http"):  # what was secret on its way stays it
            for name, value in _authorization(urlsplit(newurl).hostname or "").items():
                made.add_header(name, value)
        return made


def _authorization(host: str) -> dict[str, str]:
    """Return the header that a user's file of passwords has for a host."""
    place = os.environ.get("NETRC")
    try:
        found = netrc.netrc(place).authenticators(host)
    except FileNotFoundError:
        return {}
    except (OSError, netrc.NetrcParseError) as err:
        raise InvalidParameter(f"the file of passwords, ~/.netrc, cannot be read: {type(err).__name__}") from None
    if found is None:
        return {}
    login, _, word = found
    return {"Authorization": f"Basic {b64encode(f'{login}:{word}'.encode()).decode()}"}
