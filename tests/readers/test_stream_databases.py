"""Tables and queries of SQLite and DuckDB: the same rows as those of a file, in the order of a key."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import duckdb
import numpy as np
import pytest

from privol import DPFTRL, open_stream
from privol.errors import InvalidParameter, StateError, StreamError
from privol.state import State

ROWS = [(3 * i + 1, (-1) ** i * i / 7, None if i % 5 == 0 else f"town {i % 3}", i % 2) for i in range(500)]


def sqlite(path: Path, rows: list[tuple[object, ...]] = ROWS) -> Path:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE visits (id INTEGER, x REAL, town TEXT, y INTEGER)")
        connection.executemany("INSERT INTO visits VALUES (?, ?, ?, ?)", rows[::-1])  # the key decides, not the place
    connection.close()
    return path


def duck(path: Path) -> Path:
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE visits (id BIGINT, x DOUBLE, town VARCHAR, y INTEGER)")
        connection.executemany("INSERT INTO visits VALUES (?, ?, ?, ?)", ROWS[::-1])
    return path


@pytest.mark.parametrize("made", [sqlite, duck])
@pytest.mark.parametrize("what", ["table=visits", 'query=SELECT * FROM "visits" WHERE x * 7 < 1e9;'])
def test_a_database_gives_the_rows_of_a_file(tmp_path: Path, made: object, what: str) -> None:
    path = made(tmp_path / "a b.db")
    kind = "sqlite" if made is sqlite else "duckdb"
    schema = {
        "columns": {"x": {"range": [-80, 80]}, "town": {"levels": ["town 0", "town 1", "town 2"]}},
        "target": {"column": "y", "negative": 0, "positive": 1},
    }
    lines = ["x,town,y", *(f"{x!r},{town or ''},{y}" for _, x, town, y in ROWS)]
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    stream = open_stream(f"{kind}:///{path}?{what}&order=id", schema=schema, block_rows=64)
    assert stream.count_rows() == len(ROWS)
    found, wanted = list(stream), list(open_stream(tmp_path / "rows.csv", schema=schema, block_rows=64))
    assert len(found) == len(wanted) == 8
    for a, b in zip(found, wanted, strict=True):
        assert a.first_row == b.first_row
        assert np.array_equal(a.X, b.X)
        assert np.array_equal(a.y, b.y)


def test_an_order_is_needed_and_its_keys_are_whole_numbers_of_which_each_occurs_once(tmp_path: Path) -> None:
    path = sqlite(tmp_path / "rows.db")
    with pytest.raises(InvalidParameter, match="needs order=COLUMN, a key of the rows: without an order"):
        open_stream(f"sqlite:///{path}?table=visits", target="y")
    with pytest.raises(StreamError, match="column 'town': found the type string, allowed for an order are whole"):
        open_stream(f"sqlite:///{path}?table=visits&order=town", target="y")
    with pytest.raises(StreamError, match="no column 'nope' to order by, allowed are id, x, town, y"):
        open_stream(f"sqlite:///{path}?table=visits&order=nope", target="y")
    with pytest.raises(StreamError, match="row 2, column 'y': found 0 after 0"):
        list(open_stream(f"sqlite:///{path}?query=select x, id, y from visits&order=y", target="x"))
    more = sqlite(tmp_path / "null.db", [*ROWS, (None, 1.0, "a", 1)])
    with pytest.raises(StreamError, match="column 'id': found NULL"):
        open_stream(f"sqlite:///{more}?table=visits&order=id", target="y")


def test_what_a_url_may_say(tmp_path: Path) -> None:
    path = sqlite(tmp_path / "rows.db")
    with pytest.raises(InvalidParameter, match="either table=NAME or query=SELECT"):
        open_stream(f"sqlite:///{path}?order=id", target="y")
    with pytest.raises(InvalidParameter, match="the option 'tabel', allowed are table, query, order"):
        open_stream(f"sqlite:///{path}?table=visits&order=id&tabel=x", target="y")
    with pytest.raises(InvalidParameter, match="has table= twice"):
        open_stream(f"sqlite:///{path}?table=visits&table=visits&order=id", target="y")
    with pytest.raises(StreamError, match="there is no such SQLite file"):
        open_stream(f"sqlite:///{tmp_path}/other.db?table=visits&order=id", target="y")
    with pytest.raises(StreamError, match=r"query \(SQLite\): cannot be read"):
        open_stream(f"sqlite:///{path}?query=DROP TABLE visits&order=id", target="y")


def test_keys_that_change_between_two_readings_are_an_error(tmp_path: Path) -> None:
    path = sqlite(tmp_path / "rows.db")
    stream = open_stream(f"sqlite:///{path}?query=select id, x, y from visits&order=id", target="y", positive=1)
    first = [block.X for block in stream]
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO visits VALUES (99999, 0.5, 'a', 1)")  # behind the end: not of this stream
    connection.close()
    assert np.array_equal(np.vstack(first), np.vstack([block.X for block in stream]))
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM visits WHERE id = 4")
        connection.execute("INSERT INTO visits VALUES (5, 0.5, 'a', 1)")
    connection.close()
    with pytest.raises(StreamError, match="the first 500 rows are not those that were read before"):
        list(stream)


def test_rows_of_a_database_are_not_left_out_by_their_number(tmp_path: Path) -> None:
    path = sqlite(tmp_path / "rows.db")
    stream = open_stream(f"sqlite:///{path}?query=select id, x, y from visits&order=id", target="y", positive=1)
    with pytest.raises(StreamError, match="rows of a database are not left out by their number"):
        stream.go_on(bytes(16), rows=100)


def fit(path: Path, progress: object = None, **how: object) -> DPFTRL:
    """Learn the rows, from where the run was left."""
    made = DPFTRL(epsilon=1.0, horizon=len(ROWS), x_bound=80.0, radius=1.0, release=100, random_state=1)
    url = f"sqlite:///{path}?query=select id, x, y from visits&order=id"
    stream = open_stream(url, target="y", positive=1, block_rows=50)
    return made.fit_stream(stream, checkpoint=State(path.parent / "RUN", every=100, **how), progress=progress)


def dies(made: DPFTRL, stream: object) -> None:
    if made.n_rows_ >= 200:
        raise KeyboardInterrupt


def test_a_run_goes_on_to_the_same_model(tmp_path: Path) -> None:
    path = sqlite(tmp_path / "rows.db")
    (tmp_path / "whole").mkdir()
    whole = fit(sqlite(tmp_path / "whole" / "rows.db"))
    with pytest.raises(KeyboardInterrupt):
        fit(path, dies)
    with pytest.raises(StreamError, match="not left out by their number"):
        fit(path, rest=True)
    gone_on = fit(path)
    assert np.array_equal(whole.coef_, gone_on.coef_)
    assert whole.n_releases_ == gone_on.n_releases_ == 5


def test_a_run_refuses_a_table_whose_learnt_rows_are_others(tmp_path: Path) -> None:
    path = sqlite(tmp_path / "rows.db")
    with pytest.raises(KeyboardInterrupt):
        fit(path, dies)
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM visits WHERE id = 4")
    connection.close()
    with pytest.raises(StateError, match="are not those that the run has learnt"):
        fit(path)
