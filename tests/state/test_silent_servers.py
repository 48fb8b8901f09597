"""Servers that are connected and fall silent: a run notices, waits as for one that is away, and hears Ctrl-C."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import brokers
import pytest
from brokers import ROWS, Redis
from cli_tools import start
from databases import MANY, Table, fit, outcome
from patience import WAIT
from postgres import PASSWORD, USER, Server
from relay import Relay

from privol import open_stream
from privol.cli.app import INTERRUPTED
from privol.errors import StreamError
from privol.readers import ahead, message_columns, redis_streams, served, sql, sql_clients
from privol.readers.feeds import Away
from privol.readers.source_urls import parsed

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the server is that of a Linux distribution"),
]
LOCK = 7
QUERY = f"query=select id, x, y from visits where id < 3000 or pg_advisory_xact_lock_shared({LOCK}) is not null"
BY_INDEX = "&options=-c enable_seqscan=off -c enable_sort=off -c enable_bitmapscan=off -c jit=off"


@pytest.fixture(scope="module")
def whole(postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, ...]:
    """What a run comes to while the server speaks; it leaves the table of all tests."""
    folder = tmp_path_factory.mktemp("whole")
    table = Table(postgres, folder, MANY)
    table.execute("CREATE INDEX ON visits (id)")
    return outcome(fit(table.url(), folder / "RUN", rows=len(MANY)), folder / "RUN")


@pytest.fixture
def relay(postgres: Server) -> Iterator[Relay]:
    relay = Relay(postgres.port)
    yield relay
    relay.close()


@pytest.fixture
def url(postgres: Server, relay: Relay, whole: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of the rows by the relay: a quarter of them come, the others when nobody holds a lock any more."""

    def prepare(self: Any, cursor: Any) -> None:
        cursor.adbc_statement.set_options(**{"adbc.postgresql.batch_size_hint_bytes": "8192"})

    monkeypatch.setattr(sql_clients._PostgreSQL, "_prepare", prepare)
    monkeypatch.setattr(sql, "PAUSE", 0.01)
    monkeypatch.setattr(ahead, "PATIENCE", 0.1)  # for threads that are left behind
    return postgres.url(QUERY, more=BY_INDEX, port=relay.port)


def learnt(postgres: Server, url: str, run: Path, change: Any) -> Any:
    """Learn the rows, and call something when the first block is learnt, with what holds the lock."""
    held: list[Any] = []

    def progress(*_: Any) -> None:
        if held:
            change(held.pop())

    return fit(url, run, progress, len(MANY), before=lambda: held.append(postgres.hold(LOCK)))


def silent(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what lets the server fall silent, with the other rows on their way."""

    def change(holding: Any) -> None:
        relay.halt()
        monkeypatch.setattr(served, "SILENCE", 0.3)
        holding.close()

    return change


def test_a_silent_server_that_speaks_again_is_asked_for_the_rest(
    postgres: Server, relay: Relay, url: str, whole: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noticed: list[str] = []
    wait = sql.SqlColumns._wait_for_server

    def noted(self: Any, row: int, told: str, *given: Any) -> None:
        noticed.append(told)
        monkeypatch.setattr(served, "SILENCE", WAIT)
        relay.go_on()
        wait(self, row, told, *given)

    monkeypatch.setattr(sql.SqlColumns, "_wait_for_server", noted)
    made = learnt(postgres, url, tmp_path / "RUN", silent(relay, monkeypatch))
    assert noticed == ["the server does not answer"]
    assert outcome(made, tmp_path / "RUN") == whole


def test_a_server_that_stays_silent_leaves_what_was_learnt(
    postgres: Server, relay: Relay, url: str, whole: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "RUN"
    monkeypatch.setattr(sql, "PATIENCE", 0.5)
    with monkeypatch.context() as patch, pytest.raises(StreamError) as caught:
        learnt(postgres, url, run, silent(relay, patch))
    assert "the server was away for more than 0 seconds: the server does not answer" in str(caught.value)
    with monkeypatch.context() as patch:
        patch.setattr(served, "SILENCE", 0.3)
        with pytest.raises(StreamError, match=r"cannot be read: the server does not answer"):
            open_stream(url, target="y", positive=1)
    relay.go_on()
    assert outcome(fit(url, run, rows=len(MANY)), run) == whole


@pytest.mark.parametrize("refuses", [False, True], ids=["answers", "refuses"])
def test_a_server_that_computes_is_waited_for(
    postgres: Server, url: str, whole: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refuses: bool
) -> None:
    """Even where it does not let another connection in: that is an answer."""
    asked, begun = threading.Semaphore(0), []
    reach, batches = served.reach, sql.SqlColumns._batches

    def reached(*given: Any) -> None:
        try:
            reach(*given)
        finally:
            asked.release()

    def noted(*given: Any) -> Any:
        begun.append(given)
        return batches(*given)

    monkeypatch.setattr(served, "reach", reached)
    monkeypatch.setattr(sql.SqlColumns, "_batches", noted)

    def word(connection: Any, word: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER ROLE {USER} PASSWORD '{word}'")

    def change(holding: Any) -> None:
        monkeypatch.setattr(served, "SILENCE", 1.0)
        if refuses:
            word(holding, "another")
        threading.Thread(target=speaks, args=[holding]).start()

    def speaks(holding: Any) -> None:
        for _ in range(2):
            asked.acquire()
        word(holding, PASSWORD)
        holding.close()

    made = learnt(postgres, url, tmp_path / "RUN", change)
    assert len(begun) == 1
    assert outcome(made, tmp_path / "RUN") == whole


@pytest.mark.parametrize(
    ("number", "passes"), [(signal.SIGINT, 0), (signal.SIGINT, 20_000_000), (signal.SIGTERM, 20_000_000)]
)
def test_an_interrupt_is_heard_while_a_server_is_silent(
    postgres: Server, relay: Relay, tmp_path: Path, number: int, passes: int
) -> None:
    """Before it has said anything, and between two rows."""
    (tmp_path / "ranges.json").write_text('{"x": [-1, 1]}')
    url = postgres.url(
        "query=select i as id, sin(i) as x, i %25 2 as y from generate_series(1, 800000) i", port=relay.port
    )
    words = ("--target", "y", "--positive", 1, "--ranges", "ranges.json", "--horizon", 800_000, "--no-diagnostics")
    relay.left = passes
    process = start("run", url, *words, "--out", "RUN", cwd=tmp_path)
    try:
        until = time.monotonic() + WAIT
        while not relay.halted:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < until
            time.sleep(0.02)
        time.sleep(1.0)  # it waits
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == INTERRUPTED, said
    assert ("interrupted after row" if passes else "interrupted") in said
    assert "Traceback" not in said


def test_a_connection_that_is_cut_is_noticed_by_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client is told for how long to wait for the other side, unless the URL does."""
    database = sql_clients._PostgreSQL(parsed(f"postgresql://{USER}@h/d"), [("tcp_user_timeout", "5")])
    opened: list[str] = []

    def connect(url: str) -> Any:
        opened.append(url)
        raise OSError("seen")

    monkeypatch.setattr(database.client, "connect", connect)
    with pytest.raises(OSError, match="seen"):
        database.connect(None)  # type: ignore[arg-type]
    defaults = "connect_timeout=10&keepalives=1&keepalives_idle=10&keepalives_interval=5&keepalives_count=3"
    assert opened == [f"postgresql://{USER}@h/d?tcp_user_timeout=5&{defaults}"]
    assert sql_clients._PostgreSQL._DEFAULTS[-1] == ("tcp_user_timeout", "30000")


# ---- brokers -----------------------------------------------------------------------------------------------


@pytest.fixture
def redis(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Redis, Relay, str]]:
    """A stream with rows, read fifty at a time through a relay whose silence is noticed soon."""
    monkeypatch.setattr(message_columns, "MOST", 50)
    monkeypatch.setattr(redis_streams, "_SILENCE", 0.5)
    broker = Redis()
    broker.add("visits", ROWS)
    relay = Relay(broker.port)
    yield broker, relay, broker.url(rows=len(ROWS)).replace(f":{broker.port}/", f":{relay.port}/")
    relay.close()
    broker.close()


def test_a_silent_broker_is_waited_for_no_longer_than_one_that_is_away(
    redis: tuple[Redis, Relay, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From its last word on, not from the moment at which the silence is noticed; then the run goes on."""
    broker, relay, url = redis
    monkeypatch.setattr(message_columns, "PATIENCE", 0.1)
    noticed: list[Away] = []
    read = redis_streams.RedisFeed._read

    def counted(self: Any, most: int) -> Any:
        try:
            return read(self, most)
        except Away as err:
            noticed.append(err)
            raise

    monkeypatch.setattr(redis_streams.RedisFeed, "_read", counted)
    with pytest.raises(StreamError, match=r"it was away for more than 0 seconds: Timeout"):
        brokers.fit(url, tmp_path / "RUN", lambda *_: relay.halt())
    assert len(noticed) == 1  # that lasted for longer than the patience
    relay.go_on()
    made = brokers.fit(url, tmp_path / "RUN")
    alone = brokers.fit(broker.url(rows=len(ROWS)), tmp_path / "ALONE")
    assert outcome(made, tmp_path / "RUN")[:-1] == outcome(alone, tmp_path / "ALONE")[:-1]
