"""Live sources of messages: the contract that each broker's feed keeps.

A feed gives messages in an order, from a position on. The position is kept with a run's checkpoint; only when that is
on the disk, what comes before the position is acknowledged to the broker. A run that was killed goes on behind its own
position, whatever the broker believes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import InvalidParameter, StreamError
from .source_urls import SourceUrl

__all__ = ["OWN", "Away", "Feed", "Message", "said"]

#: Options of the URL of any live source.
OWN = ("rows", "quarantine")


class Away(Exception):
    """The broker cannot be reached for now: it is waited for. The text says why, without secrets."""


class Message(NamedTuple):
    """A message of a feed.

    ``name`` is what errors call it. ``payload`` is its content: bytes, or texts by the names of fields; None where it
    has none. ``mark`` is what :meth:`Feed.after` makes a position of. ``fault`` says why it cannot be a row, whatever
    it holds.
    """

    name: str
    payload: bytes | Mapping[bytes, bytes] | None
    mark: Any
    fault: str | None = None


class Feed(ABC):
    """Messages of a broker, in an order.

    One thread reads. Any other may call :meth:`acknowledge` at the same time. A position is a JSON value that only the
    feed understands.

    Attributes
    ----------
    name : str
        Of what is read, for messages.
    package : str
        What pip installs for it.
    again : bool
        Whether a message can be read again after it was acknowledged, while the broker holds it.
    eager : bool
        Whether the broker sends only so many messages before some are acknowledged.
    hidden : tuple of str
        Fields of messages that are no columns.
    by_name : bool
        Whether payloads are texts by the names of fields, and not bytes.
    conditions : tuple of str
        What a guarantee takes for granted of the order of messages.
    kept : bool
        Whether somebody keeps the run, so that messages will be acknowledged.
    lag : int or None
        How many messages were behind those that were read last; None where the broker does not say it cheaply.
    """

    name: str
    package: str
    again = True
    eager = False
    by_name = False
    hidden: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    kept = False
    lag: int | None = None

    def __init__(self, url: SourceUrl) -> None:
        self.url = url
        try:
            self.client = self.load()
        except ImportError as err:
            raise StreamError(f"reading {url.title} needs {self.package}: pip install 'privol[sources]'") from err

    @abstractmethod
    def load(self) -> Any:
        """Return the module of the client; an ImportError where it is not installed."""

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """Return what must be the same wherever a run goes on, as JSON values without secrets."""

    @abstractmethod
    def start(self) -> Any:
        """Return the position at which a new run begins: behind what is acknowledged, or at the first message.

        Raises
        ------
        StreamError
            If there is no such stream, or the broker cannot be reached.
        """

    @abstractmethod
    def peek(self, wait: float) -> list[Message]:
        """Return some messages that show how all of them are written, without passing them; none if there are none."""

    @abstractmethod
    def seek(self, position: Any) -> None:
        """Let :meth:`read` go on behind a position.

        Raises
        ------
        StreamError
            If the broker no longer has a message behind it, or is not the one of that position.
        Away
        """

    @abstractmethod
    def read(self, most: int, wait: float) -> list[Message]:
        """Return the next messages; none if none comes within ``wait`` seconds. Errors as for :meth:`seek`."""

    @abstractmethod
    def after(self, position: Any, messages: Sequence[Message]) -> Any:
        """Return the position after some messages, the first of which comes after ``position``."""

    @abstractmethod
    def acknowledge(self, position: Any) -> None:
        """Tell the broker that what comes before a position is kept for good: it may be told again.

        Raises
        ------
        Away, StreamError
            If the broker does not take it.
        """

    def confirm(self) -> None:  # noqa: B027  most brokers answer each acknowledgement
        """Wait until the broker has taken what was acknowledged last: nothing comes after it."""

    def recall(self, position: Any) -> None:
        """Make ready to acknowledge a position where a connection has ended and nobody reads any more."""
        del position  # most brokers are told by whatever connection there is

    def lost(self, what: str) -> StreamError:
        """Return the error that the broker no longer has what the run needs."""
        return StreamError(f"{self.name}: {what}")

    def refuse(self, others: Sequence[tuple[str, str]], allowed: Sequence[str]) -> None:
        """Raise InvalidParameter for an option that nobody knows."""
        if others:
            listed = ", ".join((*allowed, *OWN))
            raise InvalidParameter(f"the {self.url.title} URL has the option {others[0][0]!r}, allowed are {listed}")


def said(url: SourceUrl, err: BaseException) -> str:
    """Return what a client says, in one line and without the secrets of the URL."""
    text = url.hidden(str(err)).strip()  # before it is cut: a part of a secret is not found any more
    return (text.splitlines() or [type(err).__name__])[0][:200]
