"""Topics of MQTT: messages by a number that each of them carries, acknowledged one by one in their order."""

from __future__ import annotations

import hashlib
import json
import threading
import time
import warnings
import weakref
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from ..errors import InvalidParameter, StreamError
from .feeds import OWN, Away, Feed, Message, said
from .source_urls import SourceUrl

__all__ = ["MqttFeed"]

_OPTIONS = ("client", "sequence")
#: Options that go to the client.
_TLS = {"ca_certs": "ca_certs", "certfile": "certfile", "keyfile": "keyfile"}
# Seconds in which a broker must answer, and for which an acknowledgement may wait to be written.
_ANSWER = 10.0
_SILENT = 0.5  # seconds after which nothing more is to come again
# How many messages may be under way without an acknowledgement, and how long a session outlives its connection: always.
_UNDER_WAY, _ALWAYS = 65535, 0xFFFFFFFF
_TAKEN_OVER, _REFUSED = 0x8E, 0x80
# So many messages in a row whose numbers came before are worth a word.
_MANY = 1000


class _Come(NamedTuple):
    """A message as it came: its number, or why it has none; by ``mid`` it is acknowledged on its connection.

    ``gap``: whether another message would have its number, if it had one. ``dup``: whether the broker sends it again.
    """

    number: int | None
    fault: str | None
    payload: bytes
    mid: int
    qos: int
    gap: bool
    dup: bool


class _Inbox:
    """What the client's thread hands over; it refers to this alone, so that a dropped feed can be collected."""

    def __init__(self, sequence: str) -> None:
        self.changed = threading.Condition()
        self.come: deque[_Come] = deque()
        self.connected: Any = None  # the reason code of the broker's answer
        self.subscribed: Any = None
        self.left: Any = None  # the reason code of the end of the connection
        self.sequence = sequence

    def on_connect(self, client: Any, data: Any, flags: Any, code: Any, properties: Any) -> None:
        with self.changed:
            self.connected = code
            self.changed.notify_all()

    def on_subscribe(self, client: Any, data: Any, mid: int, codes: Any, properties: Any) -> None:
        with self.changed:
            self.subscribed = codes[0]
            self.changed.notify_all()

    def on_disconnect(self, client: Any, data: Any, flags: Any, code: Any, properties: Any) -> None:
        with self.changed:
            self.left = code
            self.changed.notify_all()

    def on_message(self, client: Any, data: Any, message: Any) -> None:
        number, fault = _number(message, self.sequence)
        gap, again = number is None and not message.retain, bool(message.dup)
        with self.changed:
            self.come.append(_Come(number, fault, bytes(message.payload), message.mid, message.qos, gap, again))
            self.changed.notify_all()


def _number(message: Any, name: str) -> tuple[int | None, str | None]:
    """Return the number of a message, or why it has none."""
    found: Any = dict(getattr(message.properties, "UserProperty", None) or ()).get(name)
    if found is not None:
        found = int(found) if found.isascii() and found.isdigit() and len(found) < 19 else found
    else:
        try:
            row = json.loads(message.payload)
            found = row.get(name) if isinstance(row, dict) else None
        except (ValueError, RecursionError):
            return None, f"is not JSON, and has no user property {name!r} either: its number is not known"
    if isinstance(found, int) and not isinstance(found, bool) and 0 <= found < 2**63:
        if message.retain:
            return None, "is retained: the broker hands out such a message again and again"
        if not message.qos:
            return found, "was published with QoS 0, and needs 1: the broker does not keep it until it is acknowledged"
        return found, None
    return None, f"has no number: the field or user property {name!r} must be a whole number from 0 on"


class MqttFeed(Feed):
    """The messages of a topic: ``mqtt://user:password@host:1883/topic?client=ID&sequence=FIELD``.

    MQTT promises with QoS 1 that a message comes at least once. It has no positions: a message that was not
    acknowledged comes again after a crash, and a broker drops what it cannot hold. So each message carries a number,
    one more than the message before it, as a field of its object or as a user property of MQTT 5. By it a message that
    comes again is known, and one that does not come is missed.

    The session of the client outlives the run. A position is the number of the last message.
    """

    package = "paho-mqtt"
    again = False
    eager = True

    def __init__(self, url: SourceUrl) -> None:
        super().__init__(url)
        own, others = url.own(*_OPTIONS, *OWN)
        self.refuse([pair for pair in others if pair[0] not in _TLS], (*_OPTIONS, *_TLS))
        if not url.path or not own.get("client"):
            raise InvalidParameter(
                "the MQTT URL needs a topic and client=ID, by which the broker knows the run again: "
                "mqtt://host/TOPIC?client=ID&sequence=FIELD"
            )
        if not own.get("sequence"):
            raise InvalidParameter(
                "the MQTT URL needs sequence=FIELD, the number of each message, one more than that of the message "
                "before: MQTT may deliver a message twice or drop it, and a row must not be learnt twice"
            )
        self._topic, self._id, self._sequence = url.path, own["client"], own["sequence"]
        self.name = f"{self._topic} (MQTT)"
        self.hidden = (self._sequence,)
        self.conditions = (
            f"messages are numbered one after the other, whatever they hold (by {self._sequence!r}), and their numbers "
            "are not hidden",
        )
        try:
            where = urlsplit(f"//{url.base.partition('://')[2]}")
            self._host, self._port = where.hostname or "", where.port or (8883 if url.scheme == "mqtts" else 1883)
        except ValueError as err:
            raise InvalidParameter(f"the MQTT URL cannot be read: {said(url, err)}") from None
        if not self._host:
            raise InvalidParameter("the MQTT URL needs a host: mqtt://HOST:1883/TOPIC?client=ID&sequence=FIELD")
        self._user = None if where.username is None else unquote(where.username)
        self._word = None if where.password is None else unquote(where.password)
        self._tls = {_TLS[name]: value for name, value in others} if url.scheme == "mqtts" else None
        self._lock = threading.Lock()
        self._inbox = _Inbox(self._sequence)
        self._end: Any = None
        self._last: int | None = None  # of the messages that were handed on
        self._unnumbered = 0  # messages without a number that were handed on since
        self._untold: deque[_Come] = deque()  # of this connection, in their order
        self._handed = 0  # of these, how many are handed on or known
        self._settled: int | None = None  # the last number that a checkpoint has
        self._passed = 0  # messages in a row whose numbers came before, and that the broker does not call repeated

    def load(self) -> Any:
        import paho.mqtt.client
        import paho.mqtt.enums
        import paho.mqtt.packettypes
        import paho.mqtt.properties
        import paho.mqtt.subscribeoptions

        return paho.mqtt

    def identity(self) -> dict[str, Any]:
        return {"topic": self._topic, "sequence": self._sequence}

    def start(self) -> Any:
        return {"number": None}

    # ---- the connection -------------------------------------------------------------------------------

    def _connect(self) -> None:
        """Connect anew, and subscribe: what is not acknowledged comes again."""
        self.close()
        api, inbox = self.client, _Inbox(self._sequence)
        made = api.client.Client(
            api.enums.CallbackAPIVersion.VERSION2,
            client_id=self._id,
            protocol=api.client.MQTTv5,
            manual_ack=True,
            reconnect_on_failure=False,
        )
        for word in ("on_connect", "on_subscribe", "on_disconnect", "on_message"):
            setattr(made, word, getattr(inbox, word))
        if self._user is not None:
            made.username_pw_set(self._user, self._word)
        session = api.properties.Properties(api.packettypes.PacketTypes.CONNECT)
        session.SessionExpiryInterval, session.ReceiveMaximum = _ALWAYS, _UNDER_WAY
        told = None
        try:
            if self._tls is not None:
                made.tls_set(**self._tls)
            made.connect(self._host, self._port, keepalive=30, clean_start=False, properties=session)
        except (OSError, ValueError) as err:
            told = said(self.url, err)
        if told is not None:
            raise Away(told)
        made.loop_start()
        self._end = weakref.finalize(self, _ended, made)
        self._waited(inbox, lambda: inbox.connected, "the connection")
        self._subscribe(made, inbox)
        with self._lock:
            self._made, self._inbox = made, inbox
            self._untold.clear()
            self._handed = 0

    def _subscribe(self, made: Any, inbox: _Inbox) -> None:
        """Subscribe to the topic; once more changes nothing."""
        with inbox.changed:
            inbox.subscribed = None
        # a retained message is a copy of one that was sent
        once = self.client.subscribeoptions.SubscribeOptions(qos=1, retainHandling=2)
        made.subscribe(self._topic, options=once)
        self._waited(inbox, lambda: inbox.subscribed, "the subscription")

    def _waited(self, inbox: _Inbox, answer: Any, what: str) -> None:
        """Wait for an answer of the broker, which must be yes."""
        with inbox.changed:
            inbox.changed.wait_for(lambda: answer() is not None or inbox.left is not None, _ANSWER)
            code = answer()
        if code is None:
            told = "no answer" if inbox.left is None else str(inbox.left)
            self.close()
            raise Away(f"{what} was not made: {told}")
        if code.value >= _REFUSED:
            self.close()
            raise StreamError(f"{self.name}: cannot be read: the broker refuses {what}: {code}")

    def close(self) -> None:
        """Leave the broker, which keeps the session."""
        if self._end is not None:
            self._end()
            self._end = None

    # ---- reading --------------------------------------------------------------------------------------

    def seek(self, position: Any) -> None:
        with self._inbox.changed:
            gone = self._inbox.left is not None
        if self._end is None or gone:
            self._connect()
        self._last, self._unnumbered = position["number"], 0
        with self._lock:
            self._handed = 0  # all that is not acknowledged is looked at once more

    def peek(self, wait: float) -> list[Message]:
        return []

    def read(self, most: int, wait: float) -> list[Message]:
        with self._inbox.changed:
            if len(self._untold) == self._handed:
                self._inbox.changed.wait_for(lambda: self._inbox.come or self._inbox.left is not None, wait)
            come = list(self._inbox.come)
            self._inbox.come.clear()
            left = self._inbox.left
        with self._lock:
            self._untold.extend(come)
            new = [self._untold[i] for i in range(self._handed, len(self._untold))]
        found: list[Message] = []
        for each in new:
            if len(found) == most:
                break
            try:
                message = self._next(each)
            except StreamError:
                if found:
                    break  # it comes again, as the first one
                raise
            with self._lock:
                self._handed += 1
            if message is not None:
                found.append(message)
        if not found and new:
            self._acknowledge_again()
        if not found and left is not None:
            if left.value == _TAKEN_OVER:
                raise StreamError(
                    f"{self.name}: another client with the id {self._id!r} has taken over the session: one run at "
                    "a time"
                )
            raise Away(f"the connection ended: {left}")
        if not found and not self.kept and len(self._untold) >= _UNDER_WAY:
            raise StreamError(
                f"{self.name}: the broker waits for acknowledgements, and only a run that is kept acknowledges what it "
                "has learnt: fit_stream(..., checkpoint=State(...)), privol run without --checkpoint 0"
            )
        return found

    def _acknowledge_again(self) -> None:
        """Acknowledge what has come once more although a checkpoint has it.

        The broker sends only so many messages before some are acknowledged, and no checkpoint comes of these.
        """
        with self._lock:
            settled, made = self._settled, self._made
            while settled is not None and self._handed:
                first = self._untold[0]
                if first.number is None or first.number > settled:
                    break
                self._acknowledged(made)

    def _acknowledged(self, made: Any) -> None:
        """Acknowledge the first message that waits for it; under the lock."""
        first = self._untold.popleft()
        self._handed -= 1
        if first.qos:
            made.ack(first.mid, 1)

    def _note_passed(self, come: _Come) -> None:
        """Tell of many messages with old numbers: a producer that begins its numbers anew would lose all of them."""
        self._passed += not come.dup
        if self._passed == _MANY:
            warnings.warn(
                f"{self.name}: {_MANY:,} messages in a row came with numbers that came before (the latest is "
                f"{come.number}, and {self._last} was the last new one): they are passed over as repetitions. If the "
                "producer has begun its numbers anew, its messages are lost until they are larger",
                RuntimeWarning,
                stacklevel=2,
            )

    def _next(self, come: _Come) -> Message | None:
        """Return what comes next; None for a message that was handed on before."""
        if come.number is None:
            self._unnumbered += come.gap
            name = f"message {hashlib.blake2b(come.payload, digest_size=8).hexdigest()} without a number"
            return Message(name, come.payload, None, come.fault)
        number, last = come.number, self._last
        if last is not None and number <= last:
            self._note_passed(come)
            return None
        missed = 0 if last is None else number - last - 1 - self._unnumbered
        if missed:
            between = f", and {self._unnumbered} without a number between them" if self._unnumbered else ""
            raise self.lost(
                f"message {number} came after message {last}{between}: {abs(missed):,} message(s) "
                f"{'did not come' if missed > 0 else 'too many came'}. The broker has dropped some (its queue, or its "
                "memory in a crash), or they are not numbered one after the other; the run does not go on without them"
            )
        self._last, self._unnumbered, self._passed = number, 0, 0
        return Message(f"message {number}", come.payload, number, come.fault)

    def after(self, position: Any, messages: Sequence[Message]) -> Any:
        numbers = [message.mark for message in messages if message.mark is not None]
        return {"number": numbers[-1]} if numbers else position

    def recall(self, position: Any) -> None:
        """Let what is not acknowledged come again: a connection acknowledges only what has come by it."""
        self.seek(position)
        before = -1
        while before < len(self._untold):
            before = len(self._untold)
            self.read(1, _SILENT)

    def acknowledge(self, position: Any) -> None:
        number = position["number"]
        if number is None:
            return
        self._settled = number
        if self._end is None:
            raise Away("there is no connection")
        with self._inbox.changed:
            if self._inbox.left is not None:
                raise Away(f"the connection ended: {self._inbox.left}")
        with self._lock:
            # what has no number lies between two that have one, and is acknowledged with the second
            known = [i for i, each in enumerate(self._untold) if each.number is not None and each.number <= number]
            done = min(known[-1] + 1 if known else 0, self._handed)
            made, inbox = self._made, self._inbox
            for _ in range(done):
                self._acknowledged(made)
        until = time.monotonic() + _ANSWER
        while done and made.want_write():
            if inbox.left is not None or time.monotonic() >= until:
                raise Away("the connection ended")
            time.sleep(0.001)

    def confirm(self) -> None:
        """Ask something that the broker answers after it has read what was acknowledged before.

        If the next client of the session came first, the broker would drop what it had not read.
        """
        if self._end is not None:
            self._subscribe(self._made, self._inbox)


def _ended(client: Any) -> None:
    """Close a connection without ending its session; this may run when the interpreter exits."""
    client.disconnect()  # first: it wakes the thread
    client.loop_stop()
