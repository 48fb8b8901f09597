"""Kill runs that read a database at random instants, let others write meanwhile, and compare what they come to.

Run from the checkout: ``python tools/kill_databases.py sqlite duckdb postgresql --kills 500``. A server of PostgreSQL
is started, and killed now and then as well. The seed is fixed; the moment of a kill also depends on the speed of the
machine.

After each kill the next process goes on. Between them, now and then, another writer

* changes cells of rows that are learnt, or appends rows: the run must come to the same end;
* inserts a row among those that are learnt: the next process must refuse it, and the one after it, without the row,
  must go on.

Whatever happened, the released models have the bits of a run without kills, and the ledger says the same of it. Exit
code 1: something else was found. The process forks its children after everything is imported.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

import adbc_driver_postgresql.dbapi
import adbc_driver_sqlite.dbapi
from databases import Table
from kill_forks import code_of, drive, forked

from privol import DPFTRL, PIGD, PQFTL, open_stream
from privol.errors import StreamError
from privol.ledger import Ledger
from privol.state import State, load_model

ROWS = [(5 * i + 2, (-1) ** i * (i % 97) / 97, f"user {i * i % 301}", i % 2) for i in range(6000)]
LAST = ROWS[-1][0]
SCHEMA: dict[str, Any] = {
    "others": "drop",
    "columns": {"x": {"range": [-1, 1]}},
    "target": {"column": "y", "negative": 0, "positive": 1},
}
CAPPED = {**SCHEMA, "user": {"column": "town", "max_rows": 15}}
ONE = {"epsilon": 1.0, "radius": 1.0, "x_bound": 2.0, "random_state": 1}
JOBS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "dpftrl": (lambda n: DPFTRL(horizon=n, release=97, **ONE), SCHEMA),
    "pqftl": (lambda n: PQFTL(loss="squared", horizon=n, release=500, **ONE), SCHEMA),
    "pigd": (lambda n: PIGD(horizon=n, release=211, **ONE), SCHEMA),
    "capped": (lambda n: DPFTRL(horizon=n, release=50, **ONE), CAPPED),
}
REFUSED, FAILED = 3, 1


def code_after(error: BaseException) -> int:
    """The exit code of a process that an error has ended."""
    return REFUSED if isinstance(error, StreamError) and "would be left out" in str(error) else FAILED


@dataclass
class Tally:
    """What was done to the runs of a kind of database."""

    kind: str
    runs: int = 0
    kills: int = 0
    restarts: int = 0
    changed: int = 0
    refused: int = 0


class Campaign:
    """One kind of database, with what its runs come to when nobody disturbs them."""

    def __init__(self, kind: str, folder: Path, rng: random.Random) -> None:
        self.folder, self.rng, self.tally = folder, rng, Tally(kind)
        self.server: Any = None
        if kind == "postgresql":
            from postgres import Server

            self.server = Server()
        self.made: Any = kind if self.server is None else self.server
        self.table = Table.__new__(Table)
        self.table.kind, self.table.path = self.made, folder / "rows.db"
        self.fill()
        self.rows: dict[str, int] = {}
        self.wanted: dict[str, Any] = {}
        self.seconds: dict[str, float] = {}
        for job, (_, schema) in JOBS.items():
            self.must(lambda job=job, schema=schema: self.count(job, schema))
            self.rows[job], run = int((folder / job).read_text()), folder / f"whole-{job}"
            began = time.monotonic()
            self.must(lambda job=job, run=run: self.learn(job, run))
            self.seconds[job], self.wanted[job] = time.monotonic() - began, self.found(run)

    def must(self, work: Callable[[], object]) -> None:
        """Have work done by a child, which must succeed."""
        code = code_of(forked(self.folder, work, code_after))
        assert code == 0, (code, (self.folder / "log").read_text()[-3000:])

    def fill(self) -> None:
        """Make the table anew."""
        self.must(lambda: Table(self.made, self.folder, ROWS))

    def opened(self, schema: dict[str, Any]) -> Any:
        return open_stream(self.table.url("table=visits"), schema=schema, block_rows=64)

    def count(self, job: str, schema: dict[str, Any]) -> None:
        (self.folder / job).write_text(str(self.opened(schema).count_rows()))

    def learn(self, job: str, run: Path) -> None:
        """Learn the rows, from where the run was left; not too fast to be struck."""
        make, schema = JOBS[job]
        state = State(run, every=100)
        make(self.rows[job]).fit_stream(self.opened(schema), checkpoint=state, progress=lambda *_: time.sleep(0.0005))

    @staticmethod
    def found(run: Path) -> Any:
        """What a run has released, in every bit, and what its ledger says, without what was reserved and given back."""
        model, ledger = load_model(run), Ledger.read(run / "ledger.jsonl")
        entries = [(e.rows, e.releases, e.mu_squared, e.open) for e in ledger.entries() if e.rows or e.open]
        return model.coef_.tobytes(), model.average_coef_.tobytes(), entries

    def meddle(self, job: str, run: Path) -> None:
        """Let another writer change something behind, or among, the rows that are learnt."""
        learnt = State(run).next_row() - 1 if State(run).read() is not None else 0
        lot = self.rng.random()
        if lot < 0.2 and learnt:
            change = f"UPDATE visits SET x = -x, y = 1 - y WHERE id <= {ROWS[learnt - 1][0]}"
            self.must(lambda: self.table.execute(change))
            self.tally.changed += 1
        elif lot < 0.3 and learnt:
            self.must(lambda: self.table.execute(*Table.inserts([(LAST + 7, 0.5, "user 1", 1)])))
            self.tally.changed += 1
        elif lot < 0.4 and learnt:
            key = ROWS[self.rng.randrange(learnt)][0] - 1
            self.must(lambda: self.table.execute(*Table.inserts([(key, 0.5, "user 1", 1)])))
            code = code_of(forked(self.folder, lambda: self.learn(job, run), code_after))
            log = (self.folder / "log").read_text()[-3000:]
            # or it was killed when its account was closed: then it needs no row
            assert code == REFUSED or "is finished" in log, (code, job, log)
            self.must(lambda: self.table.execute(f"DELETE FROM visits WHERE id = {key}"))
            self.tally.refused += code == REFUSED

    def run(self) -> None:
        """Let one run come to its end, over any number of kills."""
        job, run = self.rng.choice(list(JOBS)), self.folder / "RUN"
        shutil.rmtree(run, ignore_errors=True)
        changed = self.tally.changed
        while not (run / "model.json").exists() or (run / "secret").exists():
            child = forked(self.folder, lambda: self.learn(job, run), code_after)
            time.sleep(self.rng.uniform(0.02, self.seconds[job] * 1.1))
            if self.server is not None and self.rng.random() < 0.1:
                self.server.stop()
                self.server.start()
                self.tally.restarts += 1
            os.kill(child, signal.SIGKILL)
            code = code_of(child)
            self.tally.kills += code == -signal.SIGKILL
            log = (self.folder / "log").read_text()[-3000:] if code else ""
            # opened while the server was away; or it had ended just before it was killed
            away = self.server is not None and ("cannot be read: IO" in log or "libpq" in log)
            assert code in (0, -signal.SIGKILL) or away or "is finished" in log, (code, job, log)
            if not (run / "model.json").exists() and run.exists():
                self.meddle(job, run)
        assert self.found(run) == self.wanted[job], (job, self.found(run)[2], self.wanted[job][2])
        self.tally.runs += 1
        if self.tally.changed > changed:
            self.fill()

    def close(self) -> None:
        if self.server is not None:
            self.server.close()

    def cells(self) -> tuple[object, ...]:
        tally = self.tally
        return tally.kind, tally.runs, tally.kills, tally.restarts, tally.changed, tally.refused


HEADINGS = "| database | runs | processes killed | restarts of the server | changes | insertions refused |"

if __name__ == "__main__":
    assert adbc_driver_postgresql.dbapi, adbc_driver_sqlite.dbapi  # imported before the processes are forked
    drive(__doc__, ("sqlite", "duckdb", "postgresql"), 500, HEADINGS, Campaign)
