"""A table of visits in each kind of database that privol reads, and a run that learns it."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import duckdb

from privol import DPFTRL, open_stream
from privol.ledger import Ledger
from privol.state import State

#: Keys grow by three, in another order than the rows are inserted in.
ROWS = [(3 * i + 1, (-1) ** i * i / 7, f"town {i % 3}", i % 2) for i in range(500)]
#: As many as a server does not send at once.
MANY = [(3 * i + 1, (-1) ** i * i / 60, f"town {i % 3}", i % 2) for i in range(4000)]
QUERY = "query=select id, x, y from visits"


class Table:
    """The table ``visits`` with the columns id, x, town and y; parameters: "sqlite", "duckdb" or a server."""

    def __init__(self, kind: Any, folder: Path, rows: list[tuple[Any, ...]] = ROWS) -> None:
        self.kind, self.path = kind, folder / "rows.db"
        self.execute(
            "DROP TABLE IF EXISTS visits",
            "CREATE TABLE visits (id BIGINT, x DOUBLE PRECISION, town TEXT, y INTEGER)",
            *(self.inserts(rows[::-1]) if rows else ()),
        )

    @staticmethod
    def inserts(rows: list[tuple[Any, ...]]) -> list[str]:
        """Return statements that insert rows."""
        cells = [", ".join("NULL" if cell is None else repr(cell) for cell in row) for row in rows]
        return [f"INSERT INTO visits VALUES {', '.join(f'({row})' for row in cells)}"]

    def execute(self, *statements: str) -> None:
        """Execute statements as somebody else who writes into the database."""
        if self.kind == "sqlite":
            with sqlite3.connect(self.path) as connection:
                for statement in statements:
                    connection.execute(statement)
            connection.close()
        elif self.kind == "duckdb":
            with duckdb.connect(str(self.path)) as other:
                for statement in statements:
                    other.execute(statement)
        else:
            self.kind.execute(*statements)

    def url(self, what: str = QUERY) -> str:
        """Return the URL of what is read, in the order of the key."""
        return f"{self.kind}:///{self.path}?{what}&order=id" if isinstance(self.kind, str) else self.kind.url(what)


def outcome(made: DPFTRL, run: Path) -> tuple[Any, ...]:
    """Return what is released, in every bit, and what the ledger says of it."""
    entries = [(e.rows, e.releases, e.mu_squared, e.open) for e in Ledger.read(run / "ledger.jsonl").entries()]
    bits = made.coef_.tobytes(), made.intercept_.tobytes(), made.average_coef_.tobytes()
    return *bits, made.n_releases_, made.n_rows_, entries


def learner(rows: int = len(ROWS)) -> DPFTRL:
    """Return a learner that releases five times, with noise that comes again."""
    return DPFTRL(epsilon=1.0, horizon=rows, x_bound=80.0, radius=1.0, release=rows // 5, random_state=1)


def fit(url: str, run: Path, progress: Any = None, rows: int = len(ROWS), before: Any = None, **how: Any) -> DPFTRL:
    """Learn the rows of a URL in twenty blocks, from where the run was left; ``before`` is called when it is open."""
    stream = open_stream(url, target="y", positive=1, block_rows=rows // 20)
    if not run.exists():
        stream.count_rows()  # as for the horizon of a run
    if before is not None:
        before()
    return learner(rows).fit_stream(stream, checkpoint=State(run, every=rows // 10, **how), progress=progress)


def stops(blocks: int, how: Any = None) -> Any:
    """Return a callback that ends a process's part of a run, by an interrupt or ``how``, after so many blocks."""
    left = [blocks]

    def progress(*_: Any) -> None:
        left[0] -= 1
        if not left[0]:
            if how is not None:
                how()
            raise KeyboardInterrupt

    return progress
