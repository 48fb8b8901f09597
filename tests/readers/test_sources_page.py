"""The commands of docs/sources.md run against real brokers; only hosts, names and the number of rows are replaced."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from brokers import PASSWORD, ROWS, STATED_TOML, TOML, Kafka, Mosquitto, Redis, as_json
from cli_tools import run_json
from places import ROOT

from privol.verifying import verdict, verify

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the servers are those of a Linux distribution"),
]
COMMANDS = {
    line.split("'")[1].partition(":")[0]: shlex.split(line)[1:]
    for block in re.findall(r"^```sh\n(.*?)^```", (ROOT / "docs" / "sources.md").read_text("utf-8"), re.M | re.S)
    for line in block.splitlines()
    if not line.startswith("curl")  # tests/readers/test_lines_over_http.py
}


@pytest.fixture
def redis() -> Iterator[Callable[[str], str]]:
    server = Redis()
    server.add("visits", ROWS)
    yield lambda url: url.replace("//db.clinic.org:6379", f"//:{PASSWORD}@127.0.0.1:{server.port}")
    server.close()


@pytest.fixture
def kafka() -> Callable[[str], str]:
    cluster = Kafka()
    cluster.add("visits", as_json(ROWS))
    return lambda url: url.replace("b1:9092,b2:9092", cluster.address)


@pytest.fixture
def mqtt() -> Iterator[Callable[[str], str]]:
    server = Mosquitto()
    server.subscribe("ward/visits")
    server.add("ward/visits", as_json(ROWS), range(1, len(ROWS) + 1))
    yield lambda url: url.replace("//broker.clinic.org", f"//clinic:{PASSWORD}@127.0.0.1:{server.port}")
    server.close()


@pytest.mark.parametrize("broker", ["redis", "kafka", "mqtt"])
def test_commands(broker: str, here: Path, request: pytest.FixtureRequest) -> None:
    at: Callable[[str], str] = request.getfixturevalue(broker)
    Path("visits.toml").write_text(STATED_TOML if broker == "mqtt" else TOML)
    command, url, *words = COMMANDS[broker]
    horizon = words.index("--horizon") + 1
    assert words[horizon] in ("100000", "auto")
    words[horizon] = str(len(ROWS))  # what was sent: the page's run would wait for more
    assert at(url) != url
    found: dict[str, Any] = run_json(command, at(url), *words, "--out", "RUN")
    assert (found["rows"], found["status"]) == (len(ROWS), "complete")
    assert verdict(verify("RUN")) == "holds"
    kept = "".join(path.read_text("utf-8") for path in Path("RUN").rglob("*.json*"))
    assert json.loads(Path("RUN/run.json").read_text("utf-8"))["rows"] == len(ROWS)
    assert PASSWORD not in kept


def test_every_command_of_the_page_is_run() -> None:
    assert set(COMMANDS) == {"redis", "kafka", "mqtt"}
