"""Runs that read a database: they go on behind the last key that is kept, to the bits of an uninterrupted run."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import warm
from cli_tools import entries_of, interrupted_at, privol_cli
from databases import ROWS, Table, fit, learner, outcome, stops
from patience import WAIT

from privol import PrivateClassifier, open_stream
from privol.cli.app import DATA, INTERRUPTED, IO, OK, USAGE
from privol.errors import StateError, StreamError
from privol.readers import sql, sql_clients
from privol.readers.positions import Positions
from privol.state import State, load_model

KINDS = ("sqlite", "duckdb")
N = len(ROWS)


@pytest.fixture(scope="module", params=KINDS)
def whole(request, tmp_path_factory) -> tuple[str, tuple[Any, ...]]:
    """What a run without interruptions comes to."""
    folder = tmp_path_factory.mktemp("whole")
    made = fit(Table(request.param, folder).url(), folder / "RUN")
    return request.param, outcome(made, folder / "RUN")


def left(table: Table, run: Path, rows: int = 200) -> None:
    """Go on with a run and leave it after so many more rows."""
    with pytest.raises(KeyboardInterrupt):
        fit(table.url(), run, stops(rows // 25))


@pytest.fixture
def reads(monkeypatch) -> list[int | None]:
    """The keys behind which the statements began that read rows."""
    found: list[int | None] = []
    batches = sql.SqlColumns._batches

    def noted(self, connection, stack, names, last, row):
        found.append(last)
        return batches(self, connection, stack, names, last, row)

    monkeypatch.setattr(sql.SqlColumns, "_batches", noted)
    return found


def test_a_run_that_is_left_again_and_again_comes_to_the_same_bits(whole, tmp_path, reads):
    table, run = Table(whole[0], tmp_path), tmp_path / "RUN"
    parts = (25, 50, 25, 75, 125, 25, 150)
    for rows in parts:
        left(table, run, rows)
    assert outcome(fit(table.url(), run), run) == whole[1]
    # the last row that is kept: whoever is interrupted keeps what was learnt
    assert reads == [None, *(ROWS[at - 1][0] for at in np.cumsum(parts))]
    assert not (run / "secret").exists()


def test_other_cells_of_learnt_rows_may_change_and_are_not_read(whole, tmp_path):
    table, run = Table(whole[0], tmp_path), tmp_path / "RUN"
    left(table, run)
    table.execute(f"UPDATE visits SET x = -x, y = 1 - y WHERE id <= {ROWS[199][0]}")
    with pytest.raises(StateError, match="are not those that the run has learnt"):
        fit(table.url(), run, rest=False)
    assert outcome(fit(table.url(), run), run) == whole[1]


@pytest.mark.parametrize(
    ("change", "undo", "says"),
    [
        ("INSERT INTO visits VALUES (5, 1.0, 'a', 1)", "DELETE FROM visits WHERE id = 5", "now there are 201"),
        ("DELETE FROM visits WHERE id = 4", "INSERT INTO visits VALUES (4, 0, 'a', 1)", "now there are 199"),
        ("UPDATE visits SET id = 5 WHERE id = 4", "UPDATE visits SET id = 4 WHERE id = 5", "now some have other keys"),
        # it would come again
        ("UPDATE visits SET id = 1400 WHERE id = 4", "UPDATE visits SET id = 4 WHERE id = 1400", "now there are 199"),
        # as many rows as before, and one of them learnt twice
        (
            "UPDATE visits SET id = CASE id WHEN 4 THEN 1400 ELSE 5 END WHERE id IN (4, 1000)",
            "UPDATE visits SET id = CASE id WHEN 1400 THEN 4 ELSE 1000 END WHERE id IN (5, 1400)",
            "now some have other keys",
        ),
        ("INSERT INTO visits VALUES (598, 1.0, 'a', 1)", None, "now there are 201"),  # the last key, a second time
        ("INSERT INTO visits VALUES (NULL, 1.0, 'a', 1)", "DELETE FROM visits WHERE id IS NULL", "found NULL"),
    ],
)  # fmt: skip
def test_rows_inserted_deleted_or_moved_before_the_position_are_an_error(whole, tmp_path, change, undo, says):
    if whole[0] == "duckdb" and "now there are 201" not in says:
        return  # the comparison is the same code
    table, run = Table(whole[0], tmp_path), tmp_path / "RUN"
    left(table, run)
    table.execute(change)
    for rest in (None, True):
        with pytest.raises(StreamError, match=says):
            fit(table.url(), run, rest=rest)
    if undo is not None:  # nothing was learnt or spent
        table.execute(undo)
        assert outcome(fit(table.url(), run), run) == whole[1]


def test_what_is_behind_the_end_is_not_of_the_run_and_one_row_more_before_it_is_an_error(whole, tmp_path):
    table, run = Table(whole[0], tmp_path), tmp_path / "RUN"
    left(table, run)
    table.execute(*table.inserts([(9000 + i, 0.5, "a", 1) for i in range(50)]))
    left(table, run, 100)
    table.execute("INSERT INTO visits VALUES (1400, 0.5, 'a', 1)")
    with pytest.raises(StreamError, match=r"500 rows were counted .* there are now 501: rows were inserted"):
        fit(table.url(), run)
    table.execute("DELETE FROM visits WHERE id = 1400")
    assert outcome(fit(table.url(), run), run) == whole[1]


def test_rows_inserted_before_anything_was_kept_are_an_error_too(whole, tmp_path):
    table, run = Table(whole[0], tmp_path), tmp_path / "RUN"

    def dies(*_: Any) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(State, "learning", dies)
        with pytest.raises(KeyboardInterrupt):
            fit(table.url(), run)
    table.execute("INSERT INTO visits VALUES (1400, 0.5, 'a', 1)")
    with pytest.raises(StreamError, match=r"500 rows were counted .* there are now 501: rows were inserted"):
        fit(table.url(), run)
    table.execute("DELETE FROM visits WHERE id = 1400")
    assert outcome(fit(table.url(), run), run) == whole[1]


def test_a_run_goes_on_only_with_the_same_table_query_order_and_types(tmp_path):
    table, run = Table("sqlite", tmp_path), tmp_path / "RUN"
    left(table, run)
    with pytest.raises(StreamError, match="begun with another table, query or order"):
        fit(table.url("query=select id, x, y from visits where 1"), run)
    table.execute("UPDATE visits SET y = 'no' WHERE id = 1")
    with pytest.raises(StreamError, match="column 'y': found the type string, and it was int64 when the run began"):
        fit(table.url(), run)


def test_rows_of_a_file_are_not_gone_on_with_by_their_number_in_a_database(tmp_path):
    table, run = Table("sqlite", tmp_path), tmp_path / "RUN"
    (tmp_path / "rows.csv").write_text("\n".join(["x,y", *(f"{x!r},{y}" for _, x, _, y in ROWS)]) + "\n")
    left_as_file = open_stream(tmp_path / "rows.csv", target="y", positive="1", block_rows=25)
    with pytest.raises(KeyboardInterrupt):
        learner().fit_stream(left_as_file, checkpoint=State(run, every=50), progress=stops(8))
    with pytest.raises(StreamError, match="not left out by their number"):
        fit(table.url(), run, rest=True)


def users(kind: str, folder: Path) -> tuple[Table, Any]:
    """Rows of 40 users, of which a cap leaves out many, and how they are opened."""
    table = Table(kind, folder, [(i, x, f"user {i * i % 40}", y) for i, x, _, y in ROWS])
    schema = {
        "columns": {"x": {"range": [-80, 80]}},
        "target": {"column": "y", "negative": 0, "positive": 1},
        "user": {"column": "town", "max_rows": 30},
    }
    return table, lambda: open_stream(table.url("table=visits"), schema=schema, block_rows=16)


@pytest.mark.parametrize("kind", KINDS)
def test_a_cap_of_users_holds(kind, tmp_path):
    table, opened = users(kind, tmp_path)
    rows = opened().count_rows()
    assert 100 < rows < 400

    def go(run: Path, blocks: int = 0) -> Any:
        made = learner(rows)
        made.fit_stream(opened(), checkpoint=State(run, every=20), progress=stops(blocks))
        return outcome(made, run)

    wanted = go(tmp_path / "WHOLE")
    for blocks in (1, 2, 1, 2, 3):
        with pytest.raises(KeyboardInterrupt):
            go(tmp_path / "RUN", blocks)
        table.execute("UPDATE visits SET x = -x WHERE id < 49")  # not read again
    assert go(tmp_path / "RUN") == wanted


def test_a_position_is_kept_where_the_secrets_are_and_nowhere_else(tmp_path):
    far = 7_777_000_000
    table, run = Table("sqlite", tmp_path, [(far + i, *row) for i, *row in ROWS]), tmp_path / "RUN"
    left(table, run)
    holding = [path for path in run.rglob("*") if path.is_file() and b"7777000" in path.read_bytes()]
    assert [path.parent.name for path in holding] == ["secret"]
    assert [path.stat().st_mode & 0o777 for path in holding] == [0o600]
    commits = [json.loads(line) for line in (run / "ledger.jsonl").read_text().splitlines()]
    places = [line["facts"]["place"] for line in commits if "place" in line.get("facts", ())]
    assert places
    assert all(len(place) == 64 for place in places)
    content = holding[0].read_bytes()
    at = content.rindex(b"7777000")
    holding[0].write_bytes(content[: at + 8] + b"1" + content[at + 9 :])
    with pytest.raises(StateError, match="no checkpoint that the ledger knows of is here and whole"):
        fit(table.url(), run)
    holding[0].write_bytes(content)
    fit(table.url(), run)
    assert not [path for path in run.rglob("*") if path.is_file() and b"7777000" in path.read_bytes()]


def test_cells_of_sqlite_are_read_the_same_wherever_a_run_begins(tmp_path, monkeypatch):
    # types are those of the first rows, and of each batch: here of 64
    monkeypatch.setattr(sql_clients, "ROWS", 64)
    mixed = [3, 0.1, 2**53 + 1, "a", None, 1e300, 7]
    rows = [
        (i, j if j % 3 else j / 8, mixed[j % 7] if j < 30 or 300 < j < 400 else j % 9, y)
        for j, (i, _, _, y) in enumerate(ROWS)
    ]
    rows = [(i, x, town, y if j % 150 else 1) for j, (i, x, town, y) in enumerate(rows)]
    table = Table("sqlite", tmp_path, [])
    table.execute("DROP TABLE visits", "CREATE TABLE visits (id, x, town, y)", *table.inserts(rows))

    kinds: dict[str, Any] = {"x": "number", "town": "text", "y": "number"}

    def position(rows: int) -> Any:
        columns, seen = sql.open_sql(table.url("table=visits")), 0
        columns.facts.positions.follow()
        batches = columns.batches(kinds, 64, lambda _: None)
        while seen < rows:
            seen += next(batches).num_rows
        return json.loads(json.dumps(columns.facts.positions.after(rows)))

    def found(rows: int, position: Any = None) -> list[tuple[Any, ...]]:
        columns = sql.open_sql(table.url("table=visits"))
        columns.facts.positions.follow(position)
        batches = columns.batches_after(rows, kinds, 64, lambda _: None, "learnt")
        return [cells for batch in batches for cells in zip(*(c.to_pylist() for c in batch.columns), strict=True)]

    all_rows = found(0)
    assert {type(town) for _, town, _ in all_rows} == {str, type(None)}
    for at in (1, 29, 64, 65, 250, 301, 333, 401, 499):
        assert found(at, position(at)) == all_rows[at:]
    where = position(380)
    table.execute("UPDATE visits SET x = 'seven' WHERE id = 1150")
    what = r"visits \(SQLite\), row 381, column 'x': found the type string from this row on, and before it was double"
    with pytest.raises(StreamError, match=what):
        found(380, where)


def test_an_iteration_that_was_left_changes_no_position_of_another(tmp_path, monkeypatch):
    monkeypatch.setattr(sql_clients, "ROWS", 20)
    table = Table("sqlite", tmp_path)
    stream = open_stream(table.url(), target="y", positive=1, block_rows=10)
    stream.positions.follow()
    older, newer = iter(stream), iter(stream)
    for _ in range(20):
        next(older)
    for _ in range(10):
        next(newer)
    for _ in range(5):
        next(older)
    assert stream.positions.after(95)["after"] == ROWS[94][0]
    with pytest.raises(LookupError):
        stream.positions.after(79)


def test_positions_before_anybody_follows_are_forgotten_beyond_a_bound():
    positions = Positions(lambda _: None)
    with pytest.raises(LookupError):
        positions.after(0)
    trail = positions.begin(0, "start")
    assert positions.after(0) == "start"
    for block in range(70):
        trail.add(1 << 15, lambda k, block=block: (block, k))
    with pytest.raises(LookupError):
        positions.after(1 << 15)
    assert positions.after(6 << 15) == (5, 1 << 15)
    positions.follow()
    for block in range(70, 200):
        trail.add(1 << 15, lambda k, block=block: (block, k))
    assert positions.after((6 << 15) + 5) == (6, 5)
    positions.forget(100 << 15)
    with pytest.raises(LookupError):
        positions.after(7 << 15)
    assert positions.after((199 << 15) + 1) == (199, 1)


PROGRAM = """
import os, signal, sys
from functools import partial
from pathlib import Path
from databases import fit, stops
fit(sys.argv[1], Path(sys.argv[2]), stops(int(sys.argv[3]), partial(os.kill, os.getpid(), signal.SIGKILL)))
"""


@pytest.mark.process
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kill -9")
def test_a_run_that_is_killed_comes_to_the_same_bits(whole, tmp_path):
    table, run, killed = Table(whole[0], tmp_path), tmp_path / "RUN", 0
    paths = os.pathsep.join(filter(None, sys.path))
    for blocks in (3, 4, 6, 5):  # what was learnt since the last checkpoint is lost
        words = [sys.executable, "-c", PROGRAM, table.url(), str(run), str(blocks)]
        done = warm.run(words, capture_output=True, text=True, timeout=WAIT, env={**os.environ, "PYTHONPATH": paths})
        assert done.returncode == -signal.SIGKILL, done.stderr
        killed += 1
    assert killed == 4
    assert outcome(fit(table.url(), run), run) == whole[1]


@pytest.fixture
def big(tmp_path, monkeypatch) -> str:
    """The URL of a table of 100,000 rows with a column of text."""
    monkeypatch.chdir(tmp_path)
    with sqlite3.connect("big.db") as connection:
        connection.execute("CREATE TABLE visits (id INTEGER PRIMARY KEY, age REAL, ward TEXT, late INTEGER)")
        connection.execute(
            "INSERT INTO visits WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) "
            "SELECT 2 * i, i * 7919 % 90, 'ward ' || i * 31 % 5, (i * 7919 % 90 > 45) = (i % 3 > 0) FROM n"
        )
    connection.close()
    return "sqlite:///big.db?table=visits&order=id"


def same(a: str, b: str) -> None:
    """Two runs have released the same and spent the same."""
    first, second = load_model(a), load_model(b)
    assert np.array_equal(first.coef_, second.coef_)
    assert np.array_equal(first.average_coef_, second.average_coef_)
    assert [(e.rows, e.releases, e.mu_squared) for e in entries_of(a)] == [
        (e.rows, e.releases, e.mu_squared) for e in entries_of(b)
    ]


def test_a_run_whose_encoding_is_learnt_goes_on_behind_the_rows_that_taught(big, tmp_path, monkeypatch, reads):
    words = ("run", big, "--target", "late", "--epsilon", 2, "--seed", 1, "--no-diagnostics", "--checkpoint", 20_000)
    assert privol_cli(*words, "--out", "WHOLE").exit_code == OK
    with interrupted_at(monkeypatch, 60_000):
        assert privol_cli(*words, "--out", "RUN").exit_code == INTERRUPTED
    del reads[:]
    with sqlite3.connect("big.db") as connection:
        connection.execute("INSERT INTO visits VALUES (7, 1.0, 'ward 1', 1)")
    moved = privol_cli("resume", "RUN")
    assert moved.exit_code == DATA
    assert "rows that are inserted before it would be left out" in moved.stderr
    with sqlite3.connect("big.db") as connection:
        connection.execute("DELETE FROM visits WHERE id = 7")
        connection.execute("UPDATE visits SET age = 0, ward = 'other' WHERE id < 2000")  # some taught: not read again
        connection.execute("INSERT INTO visits VALUES (900000, 1.0, 'ward 1', 1)")
    connection.close()
    done = privol_cli("resume", "RUN", "--json")
    assert done.exit_code == OK, done.stderr
    assert [last for last in reads if last is None] == []
    same("WHOLE", "RUN")
    record = json.loads(done.stdout)
    assert record["rows"] + record["encoding"]["rows"] == 100_000


def test_a_run_with_diagnostics_reads_all_rows_again_or_goes_on_without_them(big, tmp_path, monkeypatch):
    words = ("run", big, "--target", "late", "--epsilon", 2, "--seed", 1, "--checkpoint", 20_000)
    assert privol_cli(*words, "--no-diagnostics", "--out", "WHOLE").exit_code == OK
    with interrupted_at(monkeypatch, 60_000):
        for out in ("RUN", "PLAIN"):
            assert privol_cli(*words, "--out", out).exit_code == INTERRUPTED
    with sqlite3.connect("big.db") as connection:
        connection.execute("INSERT INTO visits VALUES (900000, 1.0, 'ward 1', 1)")
    assert privol_cli("resume", "RUN").exit_code == OK
    same("WHOLE", "RUN")
    with sqlite3.connect("big.db") as connection:
        connection.execute("UPDATE visits SET age = 0 WHERE id = 100000")
    connection.close()
    refused = privol_cli("resume", "PLAIN")
    assert refused.exit_code == IO
    assert "are not those that the run has learnt" in refused.stderr
    assert privol_cli("resume", "PLAIN", "--no-diagnostics").exit_code == OK
    same("WHOLE", "PLAIN")


def test_an_estimator_that_learns_its_encoding_goes_on_behind_the_rows_that_taught(big, tmp_path, reads):
    url = big.replace("table=visits", "query=SELECT * FROM visits WHERE id < 24000")

    def go(run: str, progress: Any = None) -> PrivateClassifier:
        made = PrivateClassifier(epsilon=4.0, random_state=0, horizon=11_999)
        state = State(tmp_path / run, every=500)
        return made.fit_stream(url, target="late", checkpoint=state, progress=progress, block_rows=1000)

    def change(*statements: str) -> None:
        with sqlite3.connect("big.db") as connection:
            for statement in statements:
                connection.execute(statement)
        connection.close()

    whole = go("WHOLE")
    for blocks in (1, 3):
        with pytest.raises(KeyboardInterrupt):
            go("RUN", stops(blocks))
    change("UPDATE visits SET id = 23999 WHERE id = 4")  # taught, and would be learnt
    with pytest.raises(StreamError, match="one that was read and gets another key could come again"):
        go("RUN")
    del reads[:]
    change("UPDATE visits SET id = 4 WHERE id = 23999", "UPDATE visits SET age = 0, ward = 'other' WHERE id < 200")
    again = go("RUN")
    assert None not in reads
    assert not whole.encoder_.reused_
    assert np.array_equal(again.learner_.average_coef_, whole.learner_.average_coef_)
    assert (again.schema_, again.guarantee_, again.n_rows_) == (whole.schema_, whole.guarantee_, whole.n_rows_)


def test_workers_read_files_and_no_database(big):
    refused = privol_cli("run", big, "--workers", 2, "--x-bound", 1, "--learner", "pqftl")
    assert refused.exit_code == USAGE
    assert "--workers read files, each its own, and FILE is one table or query of a database" in refused.stderr
