"""Runs that read a live source: they go on behind the position that is kept, and acknowledge only what is kept."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from brokers import PASSWORD, ROWS, SCHEMA, Kafka, Redis, as_json, fit, killed, learner
from cli_tools import entries_of, interrupted_at, privol_cli
from databases import outcome, stops
from patience import WAIT

from privol import PrivateClassifier, open_stream
from privol.cli.app import DATA, INTERRUPTED, OK, USAGE
from privol.distributed import file_parts
from privol.errors import InvalidParameter, SourceAway, StreamError
from privol.readers import message_columns
from privol.readers.redis_streams import RedisFeed
from privol.readers.source_urls import parsed
from privol.state import State, load_model

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the servers are those of a Linux distribution"),
]
N = len(ROWS)


@pytest.fixture(scope="module")
def redis() -> Iterator[Redis]:
    server = Redis()
    yield server
    server.close()


@pytest.fixture(scope="module")
def kafka() -> Kafka:
    return Kafka()


@pytest.fixture
def visits(redis: Redis) -> str:
    """The URL of a stream with the rows, and the group that learns them."""
    redis.client.flushall()
    redis.add("visits", ROWS)
    return redis.url(group="model", rows=N)


@pytest.fixture(scope="module")
def whole(redis: Redis, tmp_path_factory) -> tuple[Any, ...]:
    """What a run without interruptions comes to."""
    redis.client.flushall()
    redis.add("visits", ROWS)
    run = tmp_path_factory.mktemp("whole") / "RUN"
    return outcome(fit(redis.url(rows=N), run), run)


def parsed_feed(url: str) -> RedisFeed:
    return RedisFeed(parsed(url))


def pending(redis: Redis, group: str = "model") -> tuple[int, str]:
    """Return how many entries are not acknowledged, and the id of the first of them."""
    found = redis.client.xpending("visits", group)
    return found["pending"], "" if found["min"] is None else found["min"].decode()


def test_a_run_that_is_left_again_and_again_comes_to_the_same_bits(redis, visits, whole, tmp_path):
    run, ids = tmp_path / "RUN", [id.decode() for id, _ in redis.client.xrange("visits")]
    learnt = 0
    for blocks in (3, 1, 4, 2):
        with pytest.raises(KeyboardInterrupt):
            fit(visits, run, stops(blocks))
        learnt += 25 * blocks
        assert State(run).next_row() == learnt + 1
        # what is kept is acknowledged, and nothing else; what is acknowledged may be trimmed
        left, first = pending(redis)
        assert not left or first == ids[learnt]
        redis.client.xtrim("visits", minid=ids[learnt], approximate=False)
    made = fit(visits, run)
    assert outcome(made, run)[:-1] == whole[:-1]
    assert [e[:2] for e in outcome(made, run)[-1] if e[0]] == [e[:2] for e in whole[-1] if e[0]]
    assert pending(redis) == (0, "")
    assert not (run / "secret").exists()


def test_a_run_goes_on_within_a_message(redis, whole, tmp_path):
    redis.client.flushall()
    sevens = [b"\n".join(as_json(ROWS[i : i + 7])) for i in range(0, N, 7)]
    ids = [id for seven, id in zip(sevens, redis.add("visits", sevens, "m"), strict=True) for _ in seven.splitlines()]
    url, run, learnt = redis.url(field="m", group="model", rows=N), tmp_path / "RUN", 0
    for blocks in (3, 5, 2):
        with pytest.raises(KeyboardInterrupt):
            fit(url, run, stops(blocks))
        learnt += 25 * blocks
        assert pending(redis)[1] == ids[learnt]  # a message of which some rows are learnt is not acknowledged
    made = fit(url, run)
    assert outcome(made, run)[:4] == whole[:4]
    assert pending(redis) == (0, "")


def test_a_cap_on_users_holds_where_a_run_goes_on(redis, visits, tmp_path):
    capped = {**SCHEMA, "user": {"column": "town", "max_rows": 120}}
    rows = sum(len(block.X) for block in open_stream(redis.url(rows=N), schema=capped))
    assert rows == 360
    url, runs = visits, (tmp_path / "WHOLE", tmp_path / "RUN")
    whole = fit(redis.url(rows=N), runs[0], rows=rows, schema=capped)
    for blocks in (3, 7, 4):
        with pytest.raises(KeyboardInterrupt):
            fit(url, runs[1], stops(blocks), rows=rows, schema=capped)
    made = fit(url, runs[1], rows=rows, schema=capped)
    assert outcome(made, runs[1])[:5] == outcome(whole, runs[0])[:5]


def test_nothing_is_acknowledged_before_its_checkpoint_is_on_the_disk(redis, visits, whole, tmp_path, monkeypatch):
    run, told = tmp_path / "RUN", []
    acknowledged = message_columns.MessageColumns._settled

    def settled(self: Any, position: Any, last: bool) -> None:
        commits = [e.rows for e in entries_of(run)]
        told.append((position["rows"], max(commits, default=0), pending(redis)[0] if told else 0))
        acknowledged(self, position, last)

    monkeypatch.setattr(message_columns.MessageColumns, "_settled", settled)
    made = fit(visits, run)
    assert outcome(made, run)[:-1] == whole[:-1]
    assert [rows for rows, *_ in told] == [0, *range(50, N + 1, 50), N]
    assert all(kept >= rows for rows, kept, _ in told)
    assert all(left >= 50 for _, _, left in told[2:-1])


def test_a_run_and_its_broker_are_killed(redis, visits, whole, tmp_path):
    run = tmp_path / "RUN"
    for blocks in (5, 3, 7):
        killed(visits, run, blocks)
        assert pending(redis)[0] >= 25  # read and not kept
        redis.kill()
        redis.start()
    made = fit(visits, run)
    assert outcome(made, run)[:-1] == whole[:-1]
    assert pending(redis) == (0, "")


def test_a_broker_that_goes_away_is_waited_for(redis, visits, whole, tmp_path, monkeypatch):
    monkeypatch.setattr(message_columns, "MOST", 50)
    monkeypatch.setattr(message_columns, "PAUSE", 0.01)
    run, left = tmp_path / "RUN", [6, 11]

    def progress(*_: Any) -> None:
        left[:] = [blocks - 1 for blocks in left]
        if left[0] == 0:
            redis.kill()
        if left[0] == -1:
            redis.start()

    made = fit(visits, run, progress)
    assert outcome(made, run)[:-1] == whole[:-1]
    assert pending(redis) == (0, "")


def test_the_last_rows_are_acknowledged_when_the_broker_is_back(redis, visits, whole, tmp_path, monkeypatch):
    run, left = tmp_path / "RUN", [5]
    settled, told = message_columns.MessageColumns._settled, []

    def noted(self: Any, position: Any, last: bool) -> None:
        if last:
            back = threading.Timer(0.2, redis.start)
            back.start()
            settled(self, position, last)
            back.join()
        else:
            settled(self, position, last)
        told.append(last)

    monkeypatch.setattr(message_columns.MessageColumns, "_settled", noted)

    def progress(*_: Any) -> None:
        left[0] -= 1
        if left[0] == 0:
            redis.kill()  # all rows are read by now

    made = fit(visits, run, progress)
    assert told[-1]
    assert outcome(made, run)[:-1] == whole[:-1]
    assert pending(redis) == (0, "")


def test_a_broker_that_stays_away_leaves_what_was_learnt(redis, visits, whole, tmp_path, monkeypatch):
    monkeypatch.setattr(message_columns, "MOST", 50)
    monkeypatch.setattr(message_columns, "PATIENCE", 0.0)
    run = tmp_path / "RUN"
    try:
        with pytest.raises(SourceAway, match=r"from row \d+: it was away for more than 0 seconds: .*") as caught:
            fit(visits, run, lambda *_: redis.kill())
        assert PASSWORD not in str(caught.value)
    finally:
        redis.start()
    assert outcome(fit(visits, run), run)[:-1] == whole[:-1]


def test_entries_that_a_run_needs_and_that_are_gone_are_an_error(redis, visits, tmp_path):
    run, ids = tmp_path / "RUN", [id.decode() for id, _ in redis.client.xrange("visits")]
    with pytest.raises(KeyboardInterrupt):
        fit(visits, run, stops(8))
    redis.client.xtrim("visits", minid=ids[210], approximate=False)
    with pytest.raises(StreamError, match=rf"10 entries behind {ids[199]} were trimmed or deleted before they were"):
        fit(visits, run)
    redis.client.delete("visits")
    redis.add("visits", ROWS[:3])
    redis.client.xadd("visits", ROWS[3])
    redis.client.delete("visits")
    for i in range(3):
        redis.client.xadd("visits", ROWS[i], id=f"{i + 1}-0")  # another stream, whose ids begin again
    feed = open_stream(redis.url(rows=3), schema=SCHEMA)._source._columns._feed
    feed.seek({"id": ids[199], "added": 200})
    with pytest.raises(StreamError, match=rf"its last entry was 3-0, and entry {ids[199]} was read"):
        feed.read(1, 0.0)
    with pytest.raises(StreamError, match=rf"its last entry was 3-0, and entry {ids[199]} was read"):
        fit(visits, run)
    assert State(run).next_row() == 201
    with pytest.raises(StreamError, match=r"visits .Redis.: 200 rows are learnt, and it ends after 150 \(rows= in the"):
        fit(redis.url(group="model", rows=150), run)
    assert State(run).next_row() == 201
    redis.add("others", ROWS)
    with pytest.raises(StreamError, match=r"begun with stream 'visits', field None, and finds stream 'others'"):
        fit(redis.url("others", group="model", rows=N), run)


def test_a_group_with_other_consumers_is_refused(redis, visits):
    redis.client.xgroup_create("visits", "model", "0")
    redis.client.xreadgroup("model", "somebody", {"visits": ">"}, count=3)
    with pytest.raises(StreamError, match=r"other consumers of the group 'model' have entries .*\(somebody\): a run"):
        open_stream(visits, schema=SCHEMA)


def test_a_new_run_of_a_group_begins_behind_what_is_acknowledged(redis, visits, tmp_path):
    rows = [*ROWS, *ROWS[::-1]]
    fit(visits, tmp_path / "FIRST")
    redis.add("visits", ROWS[::-1])
    fit(visits, tmp_path / "SECOND")
    stream = open_stream(redis.url(rows=2 * N), schema=SCHEMA, block_rows=25)
    blocks = [(block.X, block.y) for block in stream]
    alone = [learner(), learner()]
    for made, part in zip(alone, (blocks[:20], blocks[20:]), strict=True):
        for X, y in part:
            made.partial_fit(X, np.asarray([0, 1])[y.astype(int)], classes=[0, 1])
        made.close()
    assert len(rows) == 2 * N
    for made, run in zip(alone, ("FIRST", "SECOND"), strict=True):
        assert np.array_equal(load_model(tmp_path / run).average_coef_, made.average_coef_)


def test_messages_that_are_set_aside_are_none_of_the_rows_whatever_is_killed(redis, whole, tmp_path):
    redis.client.flushall()
    for i, row in enumerate(as_json(ROWS)):
        if i % 60 == 25:
            redis.add("visits", [b'{"x": ', b'{"x": 0.5, "town": "a", "y": 7}'], "m")
        redis.add("visits", [row], "m")
    url, run = redis.url(field="m", group="model", rows=N, quarantine=tmp_path / "aside"), tmp_path / "RUN"
    with pytest.raises(KeyboardInterrupt):
        fit(url, run, stops(3))
    killed(url, run, 6)
    seen = []
    made = fit(url, run, lambda _, stream: seen.append(stream.set_aside))
    assert 0 < seen[0] <= seen[-1] == 16  # those before the kill too
    assert outcome(made, run)[:4] == whole[:4]
    assert "set aside as unreadable" in made.guarantee_.sentence()
    assert len(list((tmp_path / "aside").glob("*.message"))) == 16
    assert pending(redis) == (0, "")


# ---- Kafka ------------------------------------------------------------------------------------------------


def test_kafka_goes_on_behind_its_offsets_which_are_committed_after_the_checkpoint(kafka, whole, tmp_path):
    kafka.add("one", as_json(ROWS))
    url, run = kafka.url("one", group="model", rows=N), tmp_path / "RUN"
    for blocks in (3, 4):
        with pytest.raises(KeyboardInterrupt):
            fit(url, run, stops(blocks))
        assert 0 < kafka.committed("one", "model")[0] == State(run).next_row() - 1
    killed(url, run, 5)
    assert kafka.committed("one", "model")[0] <= State(run).next_row() - 1 < N
    made = fit(url, run)
    assert outcome(made, run)[:-1] == whole[:-1]
    assert kafka.committed("one", "model")[0] == N


def test_each_partition_of_kafka_is_read_once_in_its_order(kafka, tmp_path):
    rows = [{"x": i / N, "town": "a", "y": i % 2} for i in range(N)]
    kafka.add("three", as_json(rows), partitions=3)
    url, run, seen = kafka.url("three", group="model", rows=N), tmp_path / "RUN", []

    def read(stop: int | None) -> None:
        stream = open_stream(url, schema=SCHEMA, block_rows=25)
        blocks, begun = stream._steps, []

        def steps(*given: Any) -> Any:
            for step in blocks(*given):
                if step.block is not None:
                    begun.append(step.block)
                yield step

        stream._steps = steps
        assert any("several partitions" in words for words in stream.conditions)
        progress = None if stop is None else stops(stop)
        try:
            learner().fit_stream(stream, checkpoint=State(run, every=50), progress=progress)
        finally:
            for block in begun[: stop or len(begun)]:
                seen.extend(np.rint((block.X[:, 0] + 0) * N).astype(int).tolist())

    for blocks in (4, 6):
        with pytest.raises(KeyboardInterrupt):
            read(blocks)
    read(None)
    assert sorted(seen) == list(range(N))
    for partition in range(3):
        assert [i for i in seen if i % 3 == partition] == list(range(partition, N, 3))
    assert kafka.committed("three", "model") == {0: 167, 1: 167, 2: 166, 3: 0}


def test_kafka_says_how_many_messages_wait(kafka, monkeypatch):
    monkeypatch.setattr(message_columns, "MOST", 10)
    kafka.add("waits", as_json(ROWS[:40]), partitions=2)
    stream = open_stream(kafka.url("waits", rows=40), schema=SCHEMA, block_rows=10, read_ahead=False)
    assert stream.lag is None
    read, known = 0, []
    for block in stream:
        read += len(block.X)
        if stream.lag is not None:  # before all partitions have answered
            known.append(stream.lag)
            assert 30 - read < stream.lag <= 40 - read
    assert known[0] > known[-1] == 0


def test_kafka_messages_that_are_gone_or_cannot_be_read(kafka, tmp_path):
    kafka.add("bad", [*as_json(ROWS[:3]), None, b"{", *as_json(ROWS[3:5])])
    with pytest.raises(StreamError, match=r"bad \(Kafka\), partition 0 offset 3: has no content"):
        list(open_stream(kafka.url("bad", rows=5), schema=SCHEMA))
    url = kafka.url("bad", rows=5, quarantine=tmp_path / "aside")
    assert sum(len(block.X) for block in open_stream(url, schema=SCHEMA)) == 5
    names = sorted(path.name for path in (tmp_path / "aside").glob("*.message"))
    assert names == ["partition-0-offset-3.message", "partition-0-offset-4.message"]
    with pytest.raises(StreamError, match=r"none .Kafka.: cannot be read: there is no such topic"):
        open_stream(kafka.url("none"), schema=SCHEMA)
    feed = open_stream(kafka.url("bad", rows=5), schema=SCHEMA)._source._columns._feed
    with pytest.raises(
        StreamError, match=r"partition 0 ends at offset 7, and the run has read up to 9: the broker has"
    ):
        feed.seek({"next": {"0": 9}})


def test_messages_of_kafka_behind_an_error_are_not_passed_over(kafka, monkeypatch):
    kafka.add("fails", as_json([{"x": i / N, "town": "a", "y": i % 2} for i in range(80)]))
    monkeypatch.setattr(message_columns, "PAUSE", 0.0)
    monkeypatch.setattr(message_columns, "MOST", 10)
    codes, stream = kafka.client.KafkaError, open_stream(kafka.url("fails", rows=40), schema=SCHEMA)
    feed, errors = stream._source._columns._feed, []

    class Consumer:
        """The client, with an error among the messages, as one of another partition comes."""

        made = feed._consumer

        def __getattr__(self, name: str) -> Any:
            return getattr(self.made, name)

        def consume(self, most: int, timeout: float) -> list[Any]:
            found = self.made.consume(most, timeout=WAIT)
            if not errors or len(found) < 9:
                return found
            error = errors.pop()
            return [*found[:6], SimpleNamespace(error=lambda: error), *found[6:]]

    feed._consumer = Consumer()
    errors.append(codes(codes._TRANSPORT, "the leader is gone"))  # for which it waits
    X = np.vstack([block.X for block in stream])
    assert np.rint(X[:, 0] * N).astype(int).tolist() == list(range(40))
    errors.append(codes(codes.TOPIC_AUTHORIZATION_FAILED, "not allowed"))
    found: list[Any] = []
    with pytest.raises(StreamError, match=r"fails \(Kafka\): cannot be read: not allowed"):
        found.extend(stream)
    X = np.vstack([block.X for block in found])  # what came before it
    assert 0 < len(X) < 9
    assert np.rint(X[:, 0] * N).astype(int).tolist() == list(range(len(X)))


def test_a_forked_child_leaves_the_clients_of_its_parent_alone(kafka):
    kafka.add("forked", as_json(ROWS[:3]))
    stream, told = open_stream(kafka.url("forked", rows=3), schema=SCHEMA), os.pipe()
    child = os.fork()
    if not child:
        try:
            signal.alarm(30)  # ending a client would wait for threads that the child does not have
            try:
                list(stream)
            except StreamError as err:
                os.write(told[1], str(err).encode())
            del stream
            gc.unfreeze()
            gc.collect()
            signal.alarm(0)
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert b"forked (Kafka): a forked child cannot read what its parent has opened" in os.read(told[0], 1000)
    assert sum(len(block.X) for block in stream) == 3
    for end in told:
        os.close(end)


# ---- the command line -------------------------------------------------------------------------------------


def test_the_command_line_keeps_no_password_and_goes_on(redis, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    redis.client.flushall()
    redis.add("visits", [{"x": i % 97 / 97, "y": i % 2} for i in range(4000)])
    (tmp_path / "ranges.json").write_text('{"x": [-1, 1]}')
    url = redis.url(group="model")
    words = ("--target", "y", "--classes", "0,1", "--ranges", "ranges.json", "--no-diagnostics", "--seed", 1)
    words += ("--checkpoint", 500, "--quiet")
    assert privol_cli("run", redis.url(), *words, "--horizon", 4000, "--out", "WHOLE").exit_code == OK
    with interrupted_at(monkeypatch, 1):
        assert privol_cli("run", url, *words, "--horizon", 4000, "--out", "RUN").exit_code == INTERRUPTED
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and PASSWORD.encode() in path.read_bytes()]
    refused = privol_cli("resume", "RUN")
    assert refused.exit_code == DATA
    assert "uthentication" in refused.stderr
    monkeypatch.setenv("REDISCLI_AUTH", PASSWORD)
    assert privol_cli("resume", "RUN").exit_code == OK
    assert np.array_equal(load_model("RUN").average_coef_, load_model("WHOLE").average_coef_)
    assert pending(redis) == (0, "")
    missing = privol_cli("run", url, *words, "--out", "NONE")
    assert missing.exit_code == USAGE
    assert "--horizon is needed: messages have no end" in missing.stderr


def test_what_needs_an_end_or_all_rows_refuses_a_source_without_one(redis, visits):
    endless = redis.url(group="model")
    words = ("--target", "y", "--classes", "0,1", "--x-bound", 1, "--out", "NONE")
    for more, says in (
        (("--learner", "pol"), "pol takes all rows at once, and messages have no end: rows=N in the URL"),
        (("--workers", 2, "--learner", "pqftl"), "or one stream of a broker: leave --workers out"),
    ):
        refused = privol_cli("run", endless, *words, *more)
        assert refused.exit_code == USAGE
        assert says in refused.stderr
    with pytest.raises(InvalidParameter, match=r"parts must be files or tables, .* found redis://@127") as caught:
        file_parts([visits], target="y")
    assert PASSWORD not in str(caught.value)
    assert redis.client.xinfo_groups("visits") == []


def test_an_encoding_is_learnt_of_the_first_messages_and_the_run_goes_on_behind_them(redis, tmp_path):
    redis.client.flushall()
    rng = np.random.default_rng(5)
    rows = [{"age": int(a), "ward": f"w{a % 3}", "late": int(a > 60)} for a in rng.integers(20, 90, 12_000)]
    redis.add("visits", rows)
    url = redis.url(group="model", rows=12_000)

    def go(run: str, url: str, progress: Any = None) -> PrivateClassifier:
        made = PrivateClassifier(epsilon=4.0, random_state=0, horizon=12_000)
        state = State(tmp_path / run, every=500)
        return made.fit_stream(url, target="late", checkpoint=state, progress=progress, block_rows=1000)

    whole = go("WHOLE", redis.url(rows=12_000))
    ids = [id.decode() for id, _ in redis.client.xrange("visits")]
    for blocks in (1, 3):
        with pytest.raises(KeyboardInterrupt):
            go("RUN", url, stops(blocks))
        # all that is read and not kept is pending, whoever has read it: another run of the group would begin with it
        begins = parsed_feed(url).start()["id"]
        assert ids.index(begins) + 1 == State(tmp_path / "RUN").next_row() - 1 > whole.n_rows_ - whole.learner_.n_rows_
    again = go("RUN", url)
    assert np.array_equal(again.learner_.average_coef_, whole.learner_.average_coef_)
    assert (again.schema_, again.n_rows_) == (whole.schema_, whole.n_rows_)
    assert pending(redis) == (0, "")


def test_messages_that_were_all_read_before_the_run_was_kept_are_acknowledged(redis, tmp_path):
    redis.client.flushall()
    rng = np.random.default_rng(5)
    rows = [{"age": int(a), "ward": f"w{a % 3}", "late": int(a > 60)} for a in rng.integers(20, 90, 4000)]
    last = redis.add("visits", rows)[-1]
    url = redis.url(group="model", rows=4000)
    made = PrivateClassifier(epsilon=4.0, random_state=0, horizon=4000)
    made.fit_stream(url, target="late", checkpoint=State(tmp_path / "RUN"), block_rows=1000)
    assert parsed_feed(url).start()["id"] == last  # no second run of the group learns them once more
    assert pending(redis) == (0, "")
