"""The commands of docs/own_rows.md for databases run against real ones; only the places are replaced."""

from __future__ import annotations

import re
import shlex
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from cli_tools import run_json
from places import ROOT
from postgres import PASSWORD, USER, Server

from privol.verifying import verdict, verify

pytestmark = pytest.mark.process

COMMANDS = {
    url.partition(":")[0]: shlex.split(line)[1:]
    for line, url in re.findall(
        r"^(privol run '((?:sqlite|duckdb|postgresql):.*)$)", (ROOT / "docs" / "own_rows.md").read_text("utf-8"), re.M
    )
}
N = 4000
CREATE = "CREATE TABLE visits (id BIGINT, year INTEGER, age DOUBLE PRECISION, town TEXT, outcome TEXT)"


def rows(of: str) -> list[str]:
    """Statements that make the table ``of``, a third of which the page's query leaves out."""
    cells = [(i, 2019 + i % 3, i * 31 % 97, f"town {i % 4}", ("kept", "missed")[i * 31 % 97 > 50]) for i in range(N)]
    return [CREATE, f"INSERT INTO {of} VALUES {', '.join(map(repr, cells))}"]


@pytest.fixture
def sqlite(here: Path) -> Callable[[str], str]:
    with sqlite3.connect("clinic.db") as connection:
        for statement in rows("visits"):
            connection.execute(statement)
    connection.close()
    return lambda url: url  # the page's own


@pytest.fixture
def duck(here: Path) -> Callable[[str], str]:
    with duckdb.connect("clinic.duckdb") as connection:
        for statement in rows("visits"):
            connection.execute(statement)
    return lambda url: url.replace("////data/", f"///{here}/")


@pytest.fixture
def server(here: Path, postgres: Server) -> Callable[[str], str]:
    postgres.execute(*rows("public.visits"))
    there = f"{USER}:{PASSWORD}@127.0.0.1:{postgres.port}/postgres"
    return lambda url: url.replace("reader@db.clinic.org/clinic", there)


@pytest.mark.parametrize(
    ("scheme", "fixture", "learnt"),
    [("sqlite", "sqlite", N), ("duckdb", "duck", N // 3), ("postgresql", "server", N)],
)
def test_commands(scheme: str, fixture: str, learnt: int, here: Path, request: pytest.FixtureRequest) -> None:
    at: Callable[[str], str] = request.getfixturevalue(fixture)
    command, url, *words = COMMANDS[scheme]
    assert (at(url) == url) == (scheme == "sqlite")
    found: dict[str, Any] = run_json(command, at(url), *words, "--out", "RUN")
    assert found["status"] == "complete"
    taught = found["encoding"]
    assert found["rows"] + (0 if taught["reused"] else taught["rows"]) == learnt
    assert verdict(verify("RUN")) == "holds"
    assert PASSWORD not in "".join(path.read_text("utf-8") for path in Path("RUN").rglob("*.json*"))


def test_every_command_of_the_page_is_run() -> None:
    assert set(COMMANDS) == {"sqlite", "duckdb", "postgresql"}
