"""Tables and queries of databases: the same rows as those of a file, in the order of a key."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import duckdb
import numpy as np
import pytest

from privol import open_stream
from privol.errors import InvalidParameter, StreamError
from privol.readers.source_urls import parsed, shown, to_keep

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


URL = "postgresql://ann:Tr0ub4d%2For@db:5432/clinic?table=v&order=id&sslmode=require"


def test_what_is_secret_in_a_url_is_not_shown() -> None:
    found = parsed(URL + "&sslpassword=0pen%20sesame&passfile=/home/ann/.pgpass")
    assert set(found.secrets) == {"Tr0ub4d%2For", "Tr0ub4d/or", "0pen%20sesame", "0pen sesame"}
    assert found.hidden("no Tr0ub4d/or, 0pen sesame") == "no ..., ..."
    assert "Tr0ub" not in repr(found)
    kept = "postgresql://ann@db:5432/clinic?table=v&order=id&sslmode=require"
    assert to_keep(URL + "&password=abc&PGPASSWORD=x&aws_secret=y&api_key=z") == kept
    for url in (kept, kept + "&passfile=/home/ann/.pgpass", "sqlite:////home/a@b:c/f.db?table=v&order=id"):
        assert to_keep(url) == url
        assert parsed(url).secrets == ()
    words = ["run", f"--file={URL}", "a"]
    assert shown(f"no such file: {URL} (Tr0ub4d/or)", words) == f"no such file: {kept} (...)"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:pass/word@db/clinic?table=v&order=id",
        "postgresql://ann:pass?word@db/clinic?table=v&order=id",
        "postgresql://ann:pass#word@db/clinic?table=v&order=id",
        "postgresql://ann:pass@word@db/clinic?table=v&order=id",
        "postgres://ann:pass?word=1@db/clinic?table=v&order=id",
    ],
)
def test_a_password_with_signs_of_a_url_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(InvalidParameter, match=r"the PostgreSQL URL is ambiguous: .* written %25, %2F") as caught:
        open_stream(url, target="y")
    assert "word" not in str(caught.value).replace("password", "")
    assert to_keep(url).endswith("://...")
    assert shown(f"Got {url}", [url]) == f"Got {to_keep(url)}"
