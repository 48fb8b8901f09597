"""Runs that read a PostgreSQL server: its outages, other writers, and passwords that are kept nowhere."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_tools import interrupted_at, privol_cli
from databases import MANY, ROWS, Table, fit, outcome, stops
from postgres import PASSWORD, USER, Server

from privol import open_stream
from privol.cli.app import DATA, INTERRUPTED, OK
from privol.errors import StreamError
from privol.readers import sql, sql_clients
from privol.state import load_model

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the server is that of a Linux distribution"),
]


@pytest.fixture(scope="module")
def whole(postgres, tmp_path_factory) -> tuple[Any, ...]:
    folder = tmp_path_factory.mktemp("whole")
    return outcome(fit(Table(postgres, folder).url(), folder / "RUN"), folder / "RUN")


@pytest.fixture
def table(postgres, tmp_path) -> Table:
    return Table(postgres, tmp_path)


def test_the_rows_are_those_of_a_file(postgres, table, tmp_path):
    postgres.execute(
        "ALTER TABLE visits ADD COLUMN paid numeric(10, 3), ADD COLUMN day date, ADD COLUMN ok boolean",
        "UPDATE visits SET paid = id / 8.0, day = date '2024-01-01' + id::int % 28, ok = id % 2 = 0",
        "UPDATE visits SET x = NULL WHERE id = 4",
    )
    columns = sql.open_sql(table.url("table=public.visits"))
    texts = ("town", "day")
    kinds: dict[str, Any] = {n: "text" if n in texts else "number" for n in ("x", "paid", "town", "day", "ok", "y")}
    (batch,) = columns.batches(kinds, 1000, lambda _: None)
    wanted = [
        (None if i == 4 else x, round(i / 8, 3), town, f"2024-01-{i % 28 + 1:02}", float(i % 2 == 0), float(y))
        for i, x, town, y in ROWS
    ]
    assert list(zip(*(column.to_pylist() for column in batch.columns), strict=True)) == wanted


def test_a_run_that_is_left_comes_to_the_same_bits(whole, table, tmp_path):
    run = tmp_path / "RUN"
    for blocks in (3, 8):
        with pytest.raises(KeyboardInterrupt):
            fit(table.url(), run, stops(blocks))
        table.execute("UPDATE visits SET x = -x WHERE id < 100")  # known by their keys, and not read again
    assert outcome(fit(table.url(), run), run) == whole


@pytest.fixture(scope="module")
def many(postgres, tmp_path_factory) -> tuple[Any, ...]:
    """What a run over many rows comes to."""
    folder = tmp_path_factory.mktemp("many")
    return outcome(fit(Table(postgres, folder, MANY).url(), folder / "RUN", rows=len(MANY)), folder / "RUN")


LOCK = 7


@pytest.fixture
def halting(postgres, tmp_path, monkeypatch) -> str:
    """The URL of these rows, three quarters of which do not come while somebody holds a lock."""

    def prepare(self: Any, cursor: Any) -> None:
        cursor.adbc_statement.set_options(**{"adbc.postgresql.batch_size_hint_bytes": "1024"})

    monkeypatch.setattr(sql_clients._PostgreSQL, "_prepare", prepare)
    monkeypatch.setattr(sql, "PAUSE", 0.01)
    Table(postgres, tmp_path, MANY).execute("CREATE INDEX ON visits (id)")
    query = f"query=select id, x, y from visits where id < 3000 or pg_advisory_xact_lock_shared({LOCK}) is not null"
    return postgres.url(
        query, more="&options=-c enable_seqscan=off -c enable_sort=off -c enable_bitmapscan=off -c jit=off"
    )


def learnt(postgres: Server, url: str, run: Path, change: Any) -> Any:
    """Learn the rows, and change something when the first block is learnt: then the others may come."""
    held, changes = [], [change]

    def progress(*_: Any) -> None:
        if changes:
            changes.pop()()
            held.pop().close()

    return fit(url, run, progress, len(MANY), before=lambda: held.append(postgres.hold(LOCK)))


def restarted(postgres: Server) -> None:
    postgres.stop()
    postgres.start()


@pytest.mark.parametrize("change", [restarted, Server.cut_off])
def test_a_server_that_goes_away_is_asked_for_the_rest(many, postgres, halting, tmp_path, monkeypatch, change):
    begun: list[Any] = []
    batches = sql.SqlColumns._batches

    def noted(self, connection, stack, names, last, row):
        begun.append(last)
        return batches(self, connection, stack, names, last, row)

    monkeypatch.setattr(sql.SqlColumns, "_batches", noted)
    compared, fails = sql.SqlColumns._compared, [OSError("server closed the connection unexpectedly")] * 2

    def failing(*given):
        if fails:
            raise fails.pop()
        return compared(*given)

    monkeypatch.setattr(sql.SqlColumns, "_compared", failing)  # it may fail again before it has sent anything
    made = learnt(postgres, halting, tmp_path / "RUN", lambda: change(postgres))
    assert outcome(made, tmp_path / "RUN") == many
    assert begun[0] is None
    assert len(begun) == 2
    assert 598 <= begun[1] < 3000


def test_rows_that_come_in_before_the_position_meanwhile_are_an_error(many, postgres, halting, tmp_path):
    run = tmp_path / "RUN"

    def change() -> None:
        postgres.execute("INSERT INTO visits VALUES (2, 1.0, 'a', 1)")
        postgres.cut_off()

    with pytest.raises(StreamError, match=r"rows were read up to the last one by 'id', and now there are \d"):
        learnt(postgres, halting, run, change)
    postgres.execute("DELETE FROM visits WHERE id = 2")
    assert outcome(fit(halting, run, rows=len(MANY)), run) == many


def test_an_iteration_sees_the_table_as_it_was_when_it_began(many, postgres, halting, tmp_path):
    change = ("INSERT INTO visits VALUES (2, 1.0, 'a', 1), (11999, 1.0, 'a', 1)", "DELETE FROM visits WHERE id = 11998")
    made = learnt(postgres, halting, tmp_path / "RUN", lambda: postgres.execute(*change))
    assert outcome(made, tmp_path / "RUN") == many


def test_a_server_that_stays_away_leaves_what_was_learnt(many, postgres, halting, tmp_path, monkeypatch):
    run = tmp_path / "RUN"
    monkeypatch.setattr(sql, "PATIENCE", 0.0)
    try:
        with pytest.raises(StreamError, match=r"from row .* the server was away for more than 0 seconds") as caught:
            learnt(postgres, halting, run, postgres.stop)
        assert PASSWORD not in str(caught.value)
    finally:
        postgres.start()
    assert outcome(fit(halting, run, rows=len(MANY)), run) == many


def test_an_error_of_the_query_is_no_outage(postgres, table):
    with pytest.raises(StreamError, match=r"query \(PostgreSQL\), from row 1: cannot be read: .*division by zero"):
        list(open_stream(table.url("query=select id, 1 / (id - 1) as x, y from visits"), target="y", positive=1))


@pytest.mark.parametrize(
    "what",
    [
        {"user": f"{USER}:{PASSWORD}wrong"},
        {"user": f"nobody:{PASSWORD}"},
        {"more": f"&password={PASSWORD}&nonsense=1"},
        {"more": f"&sslpassword={PASSWORD}&sslmode=nonsense"},
        {"more": f"&sslmode={PASSWORD}"},
        {"user": f"{USER}:{PASSWORD}/x"},
    ],
)
def test_no_message_has_the_password(postgres, what):
    url = postgres.url("table=visits", **what)
    for words in (["run", url, "--target", "y"], ["run", url, url], ["run", url, "--epsilon", url], ["info", url]):
        for more in ([], ["--json"]):
            if words[0] == "run" or not more:
                result = privol_cli(*words, *more)
                assert result.exit_code != 0
                assert PASSWORD not in result.output + result.stderr


def test_a_password_is_kept_nowhere_and_given_again(postgres, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    postgres.execute(
        "DROP TABLE IF EXISTS many",
        "CREATE TABLE many AS SELECT i::bigint AS id, sin(i) AS x, i % 2 AS y FROM generate_series(1, 140000) i",
    )
    url, run = postgres.url("table=many"), tmp_path / "RUN"
    (tmp_path / "ranges.json").write_text('{"x": [-1, 1]}')
    words = ("--target", "y", "--positive", 1, "--ranges", "ranges.json", "--no-diagnostics", "--seed", 1)
    assert privol_cli("run", url, *words, "--out", "WHOLE").exit_code == OK

    def holding(word: str) -> list[Path]:
        return [path for path in tmp_path.rglob("*") if path.is_file() and word.encode() in path.read_bytes()]

    with interrupted_at(monkeypatch, 60_000):
        assert privol_cli("run", url, *words, "--out", run).exit_code == INTERRUPTED
    assert holding(f"{USER}@127.0.0.1")
    assert not holding(PASSWORD)
    refused = privol_cli("resume", run)
    assert refused.exit_code == DATA
    assert "no password supplied" in refused.stderr
    assert privol_cli("resume", run, url).exit_code == OK
    assert not holding(PASSWORD)
    assert np.array_equal(load_model(run).average_coef_, load_model(tmp_path / "WHOLE").average_coef_)
