"""Runs that read MQTT: each message is learnt once by its number, and acknowledged when a checkpoint has it."""

from __future__ import annotations

import gc
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from brokers import PASSWORD, ROWS, SCHEMA, STATED, Mosquitto, as_json, fit, killed, learner
from databases import outcome, stops
from patience import WAIT

from privol import open_stream
from privol.errors import InvalidParameter, StreamError
from privol.evaluate import progressive
from privol.readers import message_columns, mqtt_topics
from privol.readers.source_urls import parsed
from privol.state import State

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the broker is that of a Linux distribution"),
]
N = len(ROWS)
NUMBERED = as_json([{**row, "seq": i + 1} for i, row in enumerate(ROWS)])


@pytest.fixture(scope="module")
def broker() -> Iterator[Mosquitto]:
    broker = Mosquitto()
    yield broker
    broker.close()


@pytest.fixture
def topic(broker: Mosquitto, request) -> str:
    """A topic of the test's own, kept for the client of that name."""
    name = request.node.name.replace("[", "-").replace("]", "")
    broker.subscribe(f"ward/{name}", name)
    return name


@pytest.fixture(scope="module")
def whole(broker, tmp_path_factory) -> tuple[Any, ...]:
    """What a run without interruptions comes to."""
    broker.subscribe("ward/whole", "whole")
    broker.add("ward/whole", NUMBERED)
    run = tmp_path_factory.mktemp("whole") / "RUN"
    return outcome(fit(url_of(broker, "whole"), run, schema=STATED), run)


def url_of(broker: Mosquitto, topic: str, rows: int = N, **more: Any) -> str:
    return broker.url(f"ward/{topic}", client=topic, rows=rows, **more)


def first_unacknowledged(broker: Mosquitto, topic: str) -> int:
    """Return the number of the first message that the broker still holds for a client."""
    feed = mqtt_topics.MqttFeed(parsed(url_of(broker, topic)))
    feed.seek({"number": None})
    until = time.monotonic() + WAIT
    while not (found := feed.read(1, 0.2)):
        assert time.monotonic() < until
    feed.close()
    return int(found[0].mark)


def rows_of(stream: Any) -> Any:
    return np.vstack([block.X for block in stream])


def test_a_run_that_is_left_and_killed_with_its_broker_comes_to_the_same_bits(broker, topic, whole, tmp_path):
    broker.add(f"ward/{topic}", [*NUMBERED, *as_json([{**ROWS[0], "seq": N + 1}])])  # one is no row of the run
    url, run = url_of(broker, topic), tmp_path / "RUN"
    for blocks in (3, 5):
        with pytest.raises(KeyboardInterrupt):
            fit(url, run, stops(blocks), schema=STATED)
        learnt = State(run).next_row() - 1
        assert 0 < learnt < N
        assert first_unacknowledged(broker, topic) <= learnt + 1
    for blocks in (2, 4):
        killed(url, run, blocks, schema=STATED)
        assert first_unacknowledged(broker, topic) <= State(run).next_row()
        broker.kill()
        broker.start()
    made = fit(url, run, schema=STATED)
    assert outcome(made, run)[:5] == whole[:5]
    gc.collect()  # the client has left, after its last acknowledgement
    assert first_unacknowledged(broker, topic) == N + 1


def test_a_broker_that_goes_away_is_waited_for(broker, topic, whole, tmp_path, monkeypatch):
    monkeypatch.setattr(message_columns, "PAUSE", 0.01)
    monkeypatch.setattr(message_columns, "MOST", 40)
    broker.add(f"ward/{topic}", NUMBERED)
    left = [4]

    def progress(*_: Any) -> None:
        left[0] -= 1
        if left[0] == 0:
            broker.kill()
            broker.start()

    run = tmp_path / "RUN"
    made = fit(url_of(broker, topic), run, progress, schema=STATED)
    assert left[0] < 0
    assert outcome(made, run)[:5] == whole[:5]


def test_the_last_rows_are_acknowledged_when_the_broker_is_back(broker, topic, whole, tmp_path, monkeypatch):
    broker.add(f"ward/{topic}", NUMBERED)
    run, settled = tmp_path / "RUN", message_columns.MessageColumns._settled

    def noted(self: Any, position: Any, last: bool) -> None:
        if last:
            broker.kill()  # what was acknowledged is not on its disk
            back = threading.Timer(0.3, broker.start)
            back.start()
            while self._feed._inbox.left is None:
                time.sleep(0.01)
            settled(self, position, last)
            back.join()
        else:
            settled(self, position, last)

    monkeypatch.setattr(message_columns.MessageColumns, "_settled", noted)
    made = fit(url_of(broker, topic), run, schema=STATED)
    assert outcome(made, run)[:5] == whole[:5]
    gc.collect()
    broker.add(f"ward/{topic}", as_json([{**ROWS[0], "seq": 9001}]))
    assert first_unacknowledged(broker, topic) == 9001


def test_a_run_ends_once_the_broker_has_read_its_last_acknowledgements(broker, topic, whole, tmp_path, monkeypatch):
    broker.add(f"ward/{topic}", NUMBERED)
    settled, reads = message_columns.MessageColumns._settled, threading.Event()

    def reads_again() -> None:
        reads.set()
        broker.process.send_signal(signal.SIGCONT)

    def noted(self: Any, position: Any, last: bool) -> None:
        if last:
            broker.process.send_signal(signal.SIGSTOP)
            threading.Timer(0.3, reads_again).start()
        settled(self, position, last)

    monkeypatch.setattr(message_columns.MessageColumns, "_settled", noted)
    made = fit(url_of(broker, topic), tmp_path / "RUN", schema=STATED)
    assert reads.is_set()
    assert outcome(made, tmp_path / "RUN")[:5] == whole[:5]


def test_messages_that_come_twice_are_learnt_once(broker, topic, whole, tmp_path):
    twice = [message for i in range(0, N, 50) for message in NUMBERED[max(i - 20, 0) : i + 50]]
    assert len(twice) > N
    broker.add(f"ward/{topic}", twice)
    run = tmp_path / "RUN"
    with pytest.raises(KeyboardInterrupt):
        fit(url_of(broker, topic), run, stops(3), schema=STATED)
    assert outcome(fit(url_of(broker, topic), run, schema=STATED), run)[:5] == whole[:5]


def test_repetitions_of_kept_messages_do_not_stop_the_broker(broker, topic, monkeypatch):
    monkeypatch.setattr(mqtt_topics, "_UNDER_WAY", 30)
    monkeypatch.setattr(mqtt_topics, "_MANY", 90)
    broker.add(f"ward/{topic}", [*NUMBERED[:80], *NUMBERED[:80], *NUMBERED[:80], *NUMBERED[80:100]])
    feed, found = mqtt_topics.MqttFeed(parsed(url_of(broker, topic))), []
    feed.kept = True
    feed.seek({"number": None})
    until = time.monotonic() + WAIT

    def read() -> None:
        while len(found) < 100 and time.monotonic() < until:
            if come := feed.read(50, 0.2):
                found.extend(message.mark for message in come)
                feed.acknowledge({"number": found[-1]})

    with pytest.warns(
        RuntimeWarning, match=r"90 messages in a row came with numbers that came before \(the latest is 1"
    ):
        read()
    assert found == list(range(1, 101))
    feed.close()


def publish(broker: Mosquitto, topic: str, rows: list[bytes], **how: Any) -> None:
    sending = broker.client("sender")
    for each in [sending.publish(f"ward/{topic}", row, **how) for row in rows]:
        each.wait_for_publish(WAIT)
    sending.disconnect()
    sending.loop_stop()


def test_a_message_that_is_retained_is_no_other_one_when_the_client_subscribes_again(broker, topic, tmp_path):
    publish(broker, topic, NUMBERED[:50], qos=1, retain=True)
    stream = open_stream(url_of(broker, topic, 100), schema=STATED, block_rows=25)
    publish(broker, topic, NUMBERED[50:100], qos=1, retain=True)
    made = learner(100).fit_stream(stream, checkpoint=State(tmp_path / "RUN", every=25))
    assert made.n_rows_ == 100


def test_messages_that_the_broker_does_not_keep_are_refused(broker, topic):
    feed, found = mqtt_topics.MqttFeed(parsed(url_of(broker, topic))), []
    feed.seek({"number": None})
    publish(broker, topic, NUMBERED[:3], qos=0)
    until = time.monotonic() + WAIT
    while len(found) < 3 and time.monotonic() < until:
        found += feed.read(50, 0.2)
    assert [message.mark for message in found] == [1, 2, 3]
    assert {message.fault for message in found} == {
        "was published with QoS 0, and needs 1: the broker does not keep it until it is acknowledged"
    }
    feed.acknowledge({"number": 3})
    publish(broker, topic, NUMBERED[3:4], qos=1)  # which comes by the same connection
    while len(found) < 4 and time.monotonic() < until:
        found += feed.read(50, 0.2)
    assert (found[3].mark, found[3].fault) == (4, None)
    feed.close()


def test_a_message_that_does_not_come_is_missed(broker, topic, tmp_path):
    broker.add(f"ward/{topic}", [*NUMBERED[:60], *NUMBERED[62:200]])
    run, url = tmp_path / "RUN", url_of(broker, topic, 198)
    for _ in range(2):  # neither is it forgotten
        with pytest.raises(StreamError, match=r"message 63 came after message 60: 2 message\(s\) did not come\. The"):
            fit(url, run, schema=STATED, rows=198)
        assert State(run).next_row() == 61


def test_numbers_may_be_a_property_of_the_message_and_unreadable_ones_are_set_aside(broker, topic, tmp_path):
    rows = as_json(ROWS[:30])
    bad = [*rows[:10], b'{"x": ', *rows[10:20], b'{"x": "much", "y": 1}', *rows[20:]]
    broker.add(f"ward/{topic}", bad, range(7, 7 + len(bad)))
    with pytest.raises(StreamError, match=r"message 17: is not JSON"):
        list(open_stream(url_of(broker, topic, 30), schema=STATED))
    stream = open_stream(url_of(broker, topic, 30, quarantine=tmp_path / "aside"), schema=STATED)
    assert any("are numbered one after the other, whatever they hold" in words for words in stream.conditions)
    wanted = rows_of(open_stream([{**row} for row in ROWS[:30]], schema=SCHEMA))
    assert np.array_equal(rows_of(stream), wanted)
    assert sorted(path.name for path in (tmp_path / "aside").glob("*.message")) == [
        "message-17.message",
        "message-28.message",
    ]


def test_messages_without_a_number_fill_the_gap_that_they_leave(broker, topic, tmp_path):
    some = [*NUMBERED[:10], b'{"x": 0.1, "se', *NUMBERED[11:20], b'{"x": 0.1, "y": 1, "seq": "a"}', *NUMBERED[21:30]]
    broker.add(f"ward/{topic}", some)
    with pytest.raises(StreamError, match=r"message [0-9a-f]{16} without a number: is not JSON, and has no user prop"):
        list(open_stream(url_of(broker, topic, 28), schema=STATED))
    url = url_of(broker, topic, 28, quarantine=tmp_path / "aside")
    assert len(rows_of(open_stream(url, schema=STATED))) == 28
    assert len(list((tmp_path / "aside").glob("*.message"))) == 2


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("client=model&", ""), "needs a topic and client=ID"),
        (("sequence=seq", "rows=5"), "needs sequence=FIELD, the number of each message"),
        (("/ward", ""), "needs a topic"),
        ((":1883/ward?", ":1883/?"), "needs a topic"),
        (("sequence=seq", "sequence=seq&qos=2"), "has the option 'qos', allowed are client, sequence"),
        (("127.0.0.1:1883", ""), "needs a host"),
    ],
)
def test_urls_that_are_refused(change, says):
    url = "mqtt://127.0.0.1:1883/ward?client=model&sequence=seq".replace(*change)
    with pytest.raises(InvalidParameter, match=says):
        open_stream(url, schema=STATED)


def test_what_mqtt_cannot_do_is_refused(broker, topic, tmp_path):
    url = url_of(broker, topic)
    with pytest.raises(InvalidParameter, match=r"messages come once, so none shows beforehand how they are written"):
        open_stream(url, schema=SCHEMA)
    with pytest.raises(StreamError, match=r"the broker refuses the connection: Not authorized") as caught:
        open_stream(url.replace(PASSWORD, f"{PASSWORD}wrong"), schema=STATED)
    assert PASSWORD not in str(caught.value)
    broker.add(f"ward/{topic}", NUMBERED)
    with pytest.raises(KeyboardInterrupt):
        fit(url, tmp_path / "RUN", stops(3), schema=STATED)
    stream = open_stream(url, schema=STATED, block_rows=25)
    with pytest.raises(StreamError, match=r"its messages come once, and the first ones are learnt: .*--no-diagnostics"):
        progressive(learner(), stream, checkpoint=State(tmp_path / "RUN", every=50))
