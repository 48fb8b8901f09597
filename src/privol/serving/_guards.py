"""What stands before every request: the token, the rate, the host; and what limits it."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .._validate import integer, number
from ..errors import InvalidParameter

__all__ = ["TOKEN_VARIABLE", "Limits", "Rate", "Room", "Token", "host_of", "is_loopback"]

TOKEN_VARIABLE = "PRIVOL_TOKEN"
_SHORTEST = 16  # characters: what fewer could be is tried in an afternoon


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a service takes.

    Parameters
    ----------
    body : int, default=8388608
        Bytes of a request's body, at least 1. Those of all requests at once have eight times as many, beside 64 KiB
        each.
    rows : int, default=10000
        Rows of a request, at least 1.
    rate : float, default=1000.0
        Requests a second, over all clients, above 0; as many may come at once. Of health there may be any number.
    connections : int, default=256
        Connections at once, at least 1; requests on others get 503, and far more are closed.
    request_seconds : float, default=30.0
        Seconds from a connection's first moment, or the first byte of a later request, until the request is there as a
        whole, and as many until its answer is taken, above 0. Then the connection is closed: whoever sends or reads a
        byte now and then holds none.
    idle_seconds : int, default=5
        Seconds that a connection may wait for its next request, at least 1.
    stop_seconds : int, default=10
        Seconds that requests have to end when the service stops, at least 1.

    Raises
    ------
    InvalidParameter
        If one is out of its range.
    """

    body: int = 8 << 20
    rows: int = 10_000
    rate: float = 1000.0
    connections: int = 256
    request_seconds: float = 30.0
    idle_seconds: int = 5
    stop_seconds: int = 10

    def __post_init__(self) -> None:
        for name in ("body", "rows", "connections", "idle_seconds", "stop_seconds"):
            integer(**{name: getattr(self, name)}, at_least=1)
        for name in ("rate", "request_seconds"):
            number(**{name: getattr(self, name)}, above=0.0)


class Token:
    """The secret that clients must show, compared in constant time.

    Parameters
    ----------
    text : str
        At least 16 printable ASCII characters without blanks.

    Raises
    ------
    InvalidParameter
        If it is shorter or has others. It is not shown.
    """

    def __init__(self, text: str) -> None:
        if len(text) < _SHORTEST or not all("!" <= letter <= "~" for letter in text):
            raise InvalidParameter(
                f"the token must be at least {_SHORTEST} printable ASCII characters without blanks (found "
                f"{len(text)} character(s)); openssl rand -hex 32 makes one"
            )
        self._digest = hashlib.sha256(text.encode()).digest()

    def __repr__(self) -> str:
        return "<Token>"

    @classmethod
    def found(cls, file: str | os.PathLike[str] | None = None) -> Token | None:
        """Return the token of a file or, without one, of the variable PRIVOL_TOKEN; None: there is none.

        Raises
        ------
        InvalidParameter
            If the file cannot be read, or what it holds is no token.
        """
        if file is None:
            text = os.environ.get(TOKEN_VARIABLE)
            return None if text is None else cls(text)
        try:
            content = Path(file).read_text(encoding="ascii")
        except OSError as error:
            raise InvalidParameter(f"{os.fspath(file)}: the token cannot be read: {error.strerror}") from error
        except UnicodeDecodeError:
            raise InvalidParameter(f"{os.fspath(file)}: the token must be printable ASCII characters") from None
        return cls(content.rstrip("\r\n"))

    def admits(self, header: str | None) -> bool:
        """Whether the header Authorization of a request shows it."""
        kind, _, text = (header or "").partition(" ")
        given = hashlib.sha256(text.strip().encode("utf-8", "surrogateescape")).digest()
        # of digests: not even the length of the token can be timed
        return hmac.compare_digest(given, self._digest) and kind.lower() == "bearer"


class Rate:
    """Requests a second, over all clients; a second's worth may come at once.

    Parameters
    ----------
    per_second : float
    """

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._most = max(per_second, 1.0)
        self._left = self._most
        self._then = time.monotonic()

    def take(self) -> float:
        """Take one request; return 0, or the seconds until the next one may come."""
        now = time.monotonic()
        self._left = min(self._most, self._left + (now - self._then) * self._per_second)
        self._then = now
        if self._left >= 1.0:
            self._left -= 1.0
            return 0.0
        return (1.0 - self._left) / self._per_second


class Room:
    """Bytes that long bodies may have together, of all requests that are not answered yet.

    Parameters
    ----------
    most : int
    """

    def __init__(self, most: int) -> None:
        self._left = most

    @contextmanager
    def taker(self) -> Iterator[Callable[[int], bool]]:
        """Give a request the function that takes bytes for it, or says that there are not so many; then give back."""
        mine = 0

        def take(count: int) -> bool:
            nonlocal mine
            if count > self._left:
                return False
            self._left -= count
            mine += count
            return True

        try:
            yield take
        finally:
            self._left += mine


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_of(header: str | None) -> str:
    """The host that the header Host names, without its port."""
    text = header or ""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0]
