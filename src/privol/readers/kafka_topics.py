"""Topics of Kafka: messages by partitions, each in the order of its offsets, which a consumer group is told."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn
from weakref import WeakSet

from ..errors import InvalidParameter, StreamError
from .feeds import OWN, Away, Feed, Message, said
from .pipe import BEAT
from .source_urls import SourceUrl

__all__ = ["KafkaFeed"]

# Seconds that a broker may take to answer a question.
_ANSWER = 10.0
#: Settings of the client on which the contract rests.
_OURS = {
    "bootstrap.servers": "the brokers stand after kafka://",
    "group.id": "group=NAME states it",
    "enable.auto.commit": "offsets are committed after a checkpoint, and never before",
    "enable.auto.offset.store": "offsets are committed after a checkpoint, and never before",
    "auto.offset.reset": "messages that are gone end the run",
    "enable.partition.eof": "it is set",
}
_SEVERAL = (
    "the order in which messages of several partitions come is the same in neighbouring streams, whatever they hold"
)


class KafkaFeed(Feed):
    """The messages of a topic: ``kafka://host:9092,host:9092/topic?group=NAME``, and options of librdkafka.

    All partitions are read, each from an offset on, without joining the group: nothing is handed over to other members.
    The order over partitions is that in which their messages come. A position is the next offset of each partition;
    a run that goes on reads each behind its own.
    """

    package = "confluent-kafka"

    def __init__(self, url: SourceUrl) -> None:
        super().__init__(url)
        own, others = url.own("group", *OWN)
        self._topic, self._group = url.path, own.get("group")
        if not self._topic or "/" in self._topic:
            raise InvalidParameter("the Kafka URL needs a topic: kafka://host:9092/TOPIC?group=NAME")
        self.name = f"{self._topic} (Kafka)"
        brokers = url.base.partition("://")[2].partition("/")[0]
        if not brokers or "@" in brokers:
            raise InvalidParameter(
                "the Kafka URL needs brokers, HOST:PORT,...; a user is stated by sasl.username= and sasl.password="
            )
        for option, _ in others:
            if option in _OURS:
                raise InvalidParameter(f"the Kafka URL has the option {option!r}, which is not free: {_OURS[option]}")
        self._settings: dict[str, Any] = {
            **dict(others),
            "bootstrap.servers": brokers,
            "group.id": self._group or f"privol-{uuid.uuid4().hex}",  # the client needs one
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "error_cb": self._noted,
            "log_level": 0,
        }
        self._down: str | None = None
        # what is asked and committed has a client of its own: a broker answers no question before the fetch ahead of it
        self._consumer, self._asker = self._made(), self._made()
        self._next: dict[int, int] = {}
        self._failed: Any = None  # an error that came behind messages which were passed on
        _FEEDS.add(self)

    def load(self) -> Any:
        import confluent_kafka

        return confluent_kafka

    def _made(self) -> Any:
        try:
            return self.client.Consumer(self._settings, logger=None)
        except (self.client.KafkaException, ValueError, TypeError) as err:
            raise InvalidParameter(f"the Kafka URL is refused by its client: {said(self.url, err)}") from None

    def _noted(self, error: Any) -> None:
        """Note what the client says of its connections; it tries again by itself."""
        codes = self.client.KafkaError
        if error.code() in (codes._TRANSPORT, codes._SSL, codes._AUTHENTICATION, codes._RESOLVE):
            self._down = self.url.hidden(error.str())

    def identity(self) -> dict[str, Any]:
        return {"topic": self._topic}

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Turn the client's errors into ours."""
        away, told = False, None
        try:
            yield
        except self.client.KafkaException as err:
            error = err.args[0]
            away, told = self._is_away(error), self.url.hidden(error.str())
        if away:
            self._asker.poll(0)  # it calls _noted, here alone
            raise Away(f"{told}{f' ({self._down})' if self._down and self._down != told else ''}")
        if told is not None:
            raise StreamError(f"{self.name}: cannot be read: {told}")

    def _is_away(self, error: Any) -> bool:
        codes = self.client.KafkaError
        return bool(error.retriable()) or error.code() in (
            codes._TRANSPORT,
            codes._ALL_BROKERS_DOWN,
            codes._TIMED_OUT,
            codes._TIMED_OUT_QUEUE,
            codes._WAIT_COORD,
            codes.REQUEST_TIMED_OUT,
            codes.LEADER_NOT_AVAILABLE,
            codes.NOT_LEADER_FOR_PARTITION,
            codes.COORDINATOR_NOT_AVAILABLE,
            codes.COORDINATOR_LOAD_IN_PROGRESS,
            codes.NOT_COORDINATOR,
        )

    # ---- where it begins ------------------------------------------------------------------------------

    def _partitions(self) -> list[int]:
        with self._asking():
            found = self._asker.list_topics(self._topic, timeout=_ANSWER).topics[self._topic]
        if found.error is not None or not found.partitions:
            raise StreamError(f"{self.name}: cannot be read: there is no such topic")
        return sorted(found.partitions)

    def _ends(self, partition: int) -> tuple[int, int]:
        """Return the first offset that is there, and the next one to be written."""
        with self._asking():
            low, high = self._asker.get_watermark_offsets(self._of(partition), timeout=_ANSWER)
        return low, high

    def _of(self, partition: int, offset: int | None = None) -> Any:
        at = () if offset is None else (offset,)
        return self.client.TopicPartition(self._topic, partition, *at)

    def start(self) -> Any:
        partitions, known = self._partitions(), {}
        if self._group is not None:
            with self._asking():
                told = self._asker.committed([self._of(each) for each in partitions], timeout=_ANSWER)
            known = {each.partition: each.offset for each in told if each.offset >= 0}
        if len(partitions) > 1:
            self.conditions = (_SEVERAL,)
        # a run begins with what is there: what was removed before is none of its rows
        return {"next": {str(each): max(known.get(each, 0), self._ends(each)[0]) for each in partitions}}

    def peek(self, wait: float) -> list[Message]:
        for each, at in sorted(self._next.items()):
            low, high = self._ends(each)
            if high > low:
                # any message shows how they are written
                self._consumer.assign([self._of(each, at if low <= at < high else high - 1)])
                until = time.monotonic() + _ANSWER
                while time.monotonic() < until:
                    if found := self._polled(16, BEAT):
                        return found
        time.sleep(wait)
        return []

    # ---- reading --------------------------------------------------------------------------------------

    def seek(self, position: Any) -> None:
        wanted = {int(each): at for each, at in position["next"].items()}
        for each in self._partitions():
            low, high = self._ends(each)
            at = wanted.setdefault(each, 0)  # added since: none of it was read
            if at < low:
                raise self.lost(
                    f"partition {each} begins at offset {low} now, and the run has read up to {at}: {low - at:,} "
                    "messages were removed before they were read, and it does not go on without them"
                )
            if at > high:
                raise self.lost(
                    f"partition {each} ends at offset {high}, and the run has read up to {at}: the broker has lost "
                    "messages, whose offsets could come again with other rows"
                )
        self._next = wanted
        self._consumer.assign([self._of(each, at) for each, at in sorted(wanted.items())])
        self._down = self._failed = None

    def read(self, most: int, wait: float) -> list[Message]:
        found = self._polled(most, wait)
        self.lag = self._behind()
        if not found and self._down is not None:
            told, self._down = self._down, None
            try:
                self._partitions()
            except Away as err:
                raise Away(f"{told}; {err}") from None
        return found

    def _behind(self) -> int | None:
        """Return how many messages are behind those that were read, by what the brokers have said so far."""
        messages = 0
        for each in self._consumer.position([self._of(partition) for partition in self._next]):
            _, high = self._consumer.get_watermark_offsets(each, cached=True)
            if high < 0:
                return None
            messages += max(high - (each.offset if each.offset >= 0 else self._next[each.partition]), 0)
        return messages

    def _polled(self, most: int, wait: float) -> list[Message]:
        if self._failed is not None:
            error, self._failed = self._failed, None
            raise self._of_error(error)
        with self._asking():
            first = self._consumer.poll(wait)
            come = [] if first is None else [first]
            if first is not None and most > 1:
                come += self._consumer.consume(most - 1, timeout=0)
        found: list[Message] = []
        for message in come:
            error = message.error()
            if error is None:
                partition, offset = message.partition(), message.offset()
                name = f"partition {partition} offset {offset}"
                found.append(Message(name, message.value(), (partition, offset + 1)))
            elif error.code() != self.client.KafkaError._PARTITION_EOF:
                if not found:
                    raise self._of_error(error)
                # the client does not give again what comes behind it: reading goes on from the position or not at all
                self._failed = error
                break
        return found

    def _of_error(self, error: Any) -> Away | StreamError:
        """Return what an error among the messages means."""
        told = self.url.hidden(error.str())
        if error.code() == self.client.KafkaError._AUTO_OFFSET_RESET:
            return self.lost(
                f"messages behind the position were removed before they were read, or the broker has lost some "
                f"({told}): the run does not go on without them"
            )
        return Away(told) if self._is_away(error) else StreamError(f"{self.name}: cannot be read: {told}")

    def after(self, position: Any, messages: Sequence[Message]) -> Any:
        found = dict(position["next"])
        for message in messages:
            partition, after = message.mark
            found[str(partition)] = after
        return {"next": found}

    def acknowledge(self, position: Any) -> None:
        if self._group is None:
            return
        offsets = [self._of(int(each), at) for each, at in position["next"].items()]
        with self._asking():
            told = self._asker.commit(offsets=offsets, asynchronous=False)
            for each in told:
                if each.error is not None:
                    raise self.client.KafkaException(each.error)


class _Forked:
    """What a forked child has in place of a client."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, _: str) -> NoReturn:
        raise StreamError(f"{self._name}: a forked child cannot read what its parent has opened: open it in the child")


_FEEDS: WeakSet[KafkaFeed] = WeakSet()
_CLIENTS: list[Any] = []


def _leave_clients() -> None:
    """Leave the clients of the parent alone: to end one waits for its threads, and a forked child has none of them."""
    for feed in _FEEDS:
        _CLIENTS.extend((feed._consumer, feed._asker))
        feed._consumer = feed._asker = _Forked(feed.name)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_clients)
