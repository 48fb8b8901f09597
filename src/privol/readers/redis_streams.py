"""Redis Streams: entries in the order of their ids, acknowledged in a consumer group."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..errors import InvalidParameter, StreamError
from .feeds import OWN, Away, Feed, Message, said
from .source_urls import SourceUrl

__all__ = ["RedisFeed"]

_OPTIONS = ("stream", "group", "field")
#: Options that go to the client.
_TLS = ("ssl_ca_certs", "ssl_cert_reqs", "ssl_certfile", "ssl_keyfile")
_CONSUMER = "privol"
_ZERO = "0-0"
# Seconds for which a server may be silent; one attempt to reach it waits for it twice.
_SILENCE = 10.0
# Ids that are acknowledged by one command.
_PAGE = 1000


def _numbers(of: str) -> tuple[int, int]:
    """Return an id as numbers, by which ids are ordered."""
    at, _, nth = of.partition("-")
    return int(at), int(nth)


def _before(of: str) -> str:
    """Return the id before an id."""
    at, nth = _numbers(of)
    return f"{at}-{nth - 1}" if nth else f"{at - 1}-{2**64 - 1}" if at else _ZERO


class RedisFeed(Feed):
    """The entries of a stream: ``redis://user:password@host:6379/0?stream=NAME&group=NAME&field=NAME``.

    An entry's own fields are the columns; with ``field=`` one of them holds a message. Entries are read by their ids
    (XRANGE), whatever the group has delivered. While a run is kept, what it has read is pending in the group, under the
    consumer ``privol``, until a checkpoint has it (XACK).

    A position is the id of the last entry, how many entries were ever added up to it, where that is known, and the last
    entry that had been deleted when the run began: by these it is found out whether entries behind it are gone.
    """

    package = "redis"

    def __init__(self, url: SourceUrl) -> None:
        super().__init__(url)
        own, others = url.own(*_OPTIONS, *OWN)
        self.refuse([pair for pair in others if pair[0] not in _TLS], (*_OPTIONS, *_TLS))
        if not own.get("stream"):
            raise InvalidParameter("the Redis URL needs stream=NAME, and group=NAME where entries are acknowledged")
        self._stream, self._group, self._field = own["stream"], own.get("group"), own.get("field")
        self.by_name = self._field is None
        self.name = f"{self._stream} (Redis)"
        settings: dict[str, Any] = {
            "socket_connect_timeout": _SILENCE,
            "socket_timeout": _SILENCE,
            "health_check_interval": 15,
        }
        settings |= {name: value for name, value in others if url.scheme == "rediss"}
        if "REDISCLI_AUTH" in os.environ:  # as for redis-cli; one in the URL comes first
            settings["password"] = os.environ["REDISCLI_AUTH"]
        try:
            # its own repetitions would only hide for how long the server has been away
            retry = self.client.retry.Retry(self.client.backoff.NoBackoff(), 0)
            self._server = self.client.Redis.from_url(url.base, retry=retry, **settings)
        except ValueError as err:
            raise InvalidParameter(f"the Redis URL cannot be read: {said(url, err)}") from None
        self._at, self._added, self._deleted = _ZERO, None, None
        self._noted = self._told = _ZERO  # up to where the group knows that entries are read, and acknowledged
        self._telling = threading.Lock()  # what is acknowledged must not be noted as read after that

    def load(self) -> Any:
        import redis
        import redis.backoff
        import redis.retry

        return redis

    def identity(self) -> dict[str, Any]:
        return {"stream": self._stream, "field": self._field}

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Turn the client's errors into ours, without their causes: these may hold a password."""
        errors, away, told = self.client.exceptions, False, None
        try:
            yield
        except (errors.AuthenticationError, errors.AuthorizationError) as err:
            told = said(self.url, err)
        except (errors.ConnectionError, errors.TimeoutError, OSError) as err:
            away, told = True, said(self.url, err)
        except errors.RedisError as err:
            told = said(self.url, err)
            if "no such key" in told:
                told = "there is no such stream"
            away = told.startswith(("LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN"))
        if away:
            raise Away(told)
        if told is not None:
            raise StreamError(f"{self.name}: cannot be read: {told}")

    # ---- where it begins ------------------------------------------------------------------------------

    def start(self) -> Any:
        with self._asking():
            about = self._server.xinfo_stream(self._stream)
            at = self._acknowledged()
        first = self._first(about)
        if at is None:
            at = _ZERO if first is None else _before(first)
        added = about.get("entries-added")
        # a run begins with what is there: what was trimmed before is none of its rows
        whole = added is not None and (first is None or _numbers(at) < _numbers(first))
        deleted = about.get("max-deleted-entry-id")
        return {
            "id": at,
            "added": added - about["length"] if whole else None,
            "deleted": None if deleted is None else _text(deleted),
        }

    def _acknowledged(self) -> str | None:
        """Return the id behind which nothing is acknowledged in the group; None without such a group."""
        group = self._of_group()
        if group is None:
            return None
        pending = self._server.xpending(self._stream, self._group)
        others = {_text(each["name"]) for each in pending["consumers"]} - {_CONSUMER}
        if others:
            raise StreamError(
                f"{self.name}: other consumers of the group {self._group!r} have entries that are not acknowledged "
                f"({', '.join(sorted(others))}): a run needs a group of its own, as it reads all entries"
            )
        return _before(_text(pending["min"])) if pending["pending"] else _text(group["last-delivered-id"])

    def _of_group(self) -> Any:
        if self._group is None:
            return None
        groups = self._server.xinfo_groups(self._stream)
        return next((each for each in groups if _text(each["name"]) == self._group), None)

    @staticmethod
    def _first(about: Any) -> str | None:
        """Return the id of the first entry that is there."""
        entry = about["first-entry"]
        return _text(entry[0]) if entry else None

    def peek(self, wait: float) -> list[Message]:
        with self._asking():
            found = self._server.xrange(self._stream, min=f"({self._at}", count=16)
            found = found or self._server.xrevrange(self._stream, count=1)
            if not found and wait:
                self._server.xread({self._stream: self._at}, count=1, block=max(int(1000 * wait), 1))
        return [self._message(id, fields, None) for id, fields in found]

    # ---- reading --------------------------------------------------------------------------------------

    def seek(self, position: Any) -> None:
        self._at, self._added = position["id"], position["added"]
        self._deleted = position.get("deleted")
        self._noted = self._at

    def read(self, most: int, wait: float) -> list[Message]:
        found = self._read(most)
        if not found and wait:
            with self._asking():
                come = self._server.xread({self._stream: self._at}, count=1, block=max(int(1000 * wait), 1))
            found = self._read(most) if come else []
        return found

    def _read(self, most: int) -> list[Message]:
        """Return the entries behind the position, of one state of the stream that has lost none of them."""
        with self._asking():
            both = self._server.pipeline(transaction=True)
            both.xinfo_stream(self._stream)
            both.xrange(self._stream, min=f"({self._at}", count=most)
            about, entries = both.execute()
        self._check(about)
        ever = about.get("entries-added")
        if len(entries) < most and ever is not None and self._added is not None:  # then these are all behind it
            self._check_gone(ever - self._added - len(entries), _text(entries[0][0]) if entries else None)
        if not entries:
            self._added = ever
            self._note_lag(ever)
            return []
        found, added = [], self._added
        for id, fields in entries:
            added = None if added is None else added + 1
            found.append(self._message(id, fields, added))
        if len(entries) < most:  # then it is the last one
            found[-1] = found[-1]._replace(mark=(found[-1].mark[0], ever))
        before, (self._at, self._added) = self._at, found[-1].mark
        self._note_lag(ever)
        if self.kept and self._group is not None:
            self._deliver(before, [message.mark[0] for message in found])
        return found

    def _note_lag(self, ever: int | None) -> None:
        """Note how many entries there are behind the position; those that are deleted meanwhile count, too."""
        self.lag = None if ever is None or self._added is None else ever - self._added

    def _check(self, about: Any) -> None:
        """Raise StreamError if entries behind the position are gone, or the stream is another."""
        last, first, at = _text(about["last-generated-id"]), self._first(about), _numbers(self._at)
        if _numbers(last) < at:
            raise self.lost(
                f"its last entry was {last}, and entry {self._at} was read: the server has lost entries, or the stream "
                "is another, so that their ids could come again with other rows"
            )
        deleted = _text(about.get("max-deleted-entry-id", _ZERO))
        if self._deleted is not None and deleted != self._deleted and _numbers(deleted) > at:
            raise self.lost(f"entry {deleted} was deleted before it was read: the run does not go on without it")
        if first is not None and _numbers(first) <= at:
            return  # entries are trimmed from the first one on
        added, there = about.get("entries-added"), int(about["length"])
        if _numbers(last) == at and not there:
            return
        if added is None or self._added is None:
            if first is not None and _before(first) == self._at:
                return
            raise self.lost(
                f"entries up to {self._at} were read, it was trimmed up to {first or last}, and it is not known "
                "whether entries between them were there: trim only before the last entry that is acknowledged (XTRIM "
                "MINID)"
            )
        self._check_gone(added - self._added - there, first)

    def _check_gone(self, gone: int, left: str | None) -> None:
        if gone > 0:
            more = "" if left is None else f", the first that is left is {left}"
            raise self.lost(
                f"{gone:,} entries behind {self._at} were trimmed or deleted before they were read{more}: the run does "
                "not go on without them"
            )

    def _message(self, id: Any, fields: Any, added: int | None) -> Message:
        name = _text(id)
        payload = fields if self._field is None else fields.get(self._field.encode())
        return Message(f"entry {name}", payload, (name, added))

    def after(self, position: Any, messages: Sequence[Message]) -> Any:
        if not messages:
            return position
        id, added = messages[-1].mark
        return {**position, "id": id, "added": added}

    # ---- the consumer group ---------------------------------------------------------------------------

    def _begin_group(self, at: str) -> None:
        """Make the group, behind an entry, if there is none."""
        if self._of_group() is None:
            try:
                self._server.xgroup_create(self._stream, self._group, id=at)
            except self.client.exceptions.ResponseError as err:
                if not str(err).startswith("BUSYGROUP"):  # another was first
                    raise

    def _claimed(self, at: Any, ids: Sequence[str]) -> None:
        """Let entries be pending, and the group begin behind an entry, unless it is further already."""
        of = (self._stream, self._group, _CONSUMER, 0)
        at.execute_command("XCLAIM", *of, *ids, "FORCE", "JUSTID", "LASTID", ids[-1], parse_justid=True)

    def _deliver(self, before: str, ids: list[str]) -> None:
        """Note in the group that entries are read: they are pending until they are acknowledged.

        So are those before them that were read before the run was kept: they taught an encoding, or came beside those.
        """
        with self._telling, self._asking():
            first = max(self._noted, self._told, key=_numbers)
            self._begin_group(first)
            while _numbers(first) < _numbers(before):
                page = self._server.xrange(self._stream, f"({first}", before, count=_PAGE)
                if not page:
                    break  # trimmed meanwhile
                self._claimed(self._server, earlier := [_text(id) for id, _ in page])
                first = earlier[-1]
            self._claimed(self._server, ids)
            self._noted = self._at

    def acknowledge(self, position: Any) -> None:
        if self._group is None:
            return
        at = position["id"]
        with self._telling, self._asking():
            self._begin_group(at)
            while found := self._server.xpending_range(self._stream, self._group, "-", at, _PAGE, _CONSUMER):
                self._server.xack(self._stream, self._group, *(each["message_id"] for each in found))
            group = self._of_group()
            if group is not None and _numbers(_text(group["last-delivered-id"])) < _numbers(at):
                # what was read before the run was kept is pending nowhere
                both = self._server.pipeline(transaction=True)
                self._claimed(both, [at])
                both.xack(self._stream, self._group, at)
                both.execute()
            self._told = at


def _text(found: Any) -> str:
    return found.decode() if isinstance(found, bytes) else str(found)
