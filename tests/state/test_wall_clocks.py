"""Wall clocks that jump, as when a machine learns the right time: what waits counts its seconds by another clock."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conformance import N, Stream, make
from patience import WAIT
from places import ROOT
from serving_tools import saved

from privol.serving._guards import Rate
from privol.serving._shelf import InRun, Shelf, Watch
from privol.state import State

DAYS = 9 * 86400.0


@pytest.fixture(params=[-DAYS, DAYS], ids=["back", "on"])
def jump(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """What lets the time of day jump, back or on."""
    of_day, jumps = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: of_day() + sum(jumps))
    monkeypatch.setattr(time, "time_ns", lambda: int(time.time() * 1e9))
    return lambda: jumps.append(request.param)


@pytest.mark.parametrize("seconds", [0.2, 3600.0])
def test_a_run_is_kept_by_time_that_has_passed(jump: Callable[[], None], seconds: float, tmp_path: Path) -> None:
    """Soon where that is asked, whatever the clock says, and not before an hour has passed."""
    run = tmp_path / "run"

    class Jumping(Stream):
        def __iter__(self) -> Iterator[Any]:
            rows = 0
            for block in super().__iter__():
                yield block
                rows += len(block.y)
                jump()
                until = time.monotonic() + (WAIT if seconds < 1.0 else 0.5)
                while kept_rows(run) != rows and time.monotonic() < until:
                    time.sleep(0.01)
                assert kept_rows(run) == (rows if seconds < 1.0 else 0)

    made = make("PIGD").fit_stream(Jumping(N // 3), checkpoint=State(run, every=10 * N, seconds=seconds))
    assert made.n_rows_ == N


def kept_rows(run: Path) -> int:
    """How many rows the journal says are kept."""
    lines = (run / "ledger.jsonl").read_text().split("\n")[:-1]
    return max((entry["rows"] for entry in map(json.loads, lines) if "rows" in entry), default=0)


def test_a_rate_is_of_time_that_has_passed(jump: Callable[[], None]) -> None:
    rate = Rate(0.01)
    assert rate.take() == 0.0
    jump()
    assert 50.0 < rate.take() <= 100.0


def test_a_model_with_an_older_date_is_served(jump: Callable[[], None], tmp_path: Path) -> None:
    """Its files are others, and that is all that counts."""
    shelf, run = Shelf(), tmp_path / "run"
    run.mkdir()
    watch = Watch(shelf, {"visits": InRun(run)})
    for rows in (100, 200):
        for path in saved(tmp_path / str(rows), rows).iterdir():
            os.utime(path, (1e9 - rows, 1e9 - rows))
            path.replace(run / path.name)
        jump()
        watch.look()
        assert (found := shelf.slots["visits"].served) is not None
        assert found.rows == rows


def test_nothing_that_waits_asks_for_the_time_of_day() -> None:
    """It may be shown, and that is all."""
    asks = re.compile(r"\btime\.(time|time_ns|localtime|gmtime)\b|\bdatetime\.(now|utcnow|today)\b|from time import")
    found = {path.name for path in (ROOT / "src" / "privol").rglob("*.py") if asks.search(path.read_text("utf-8"))}
    assert found == {"_versions.py", "_shelf.py"}  # when a version was published, and when a model was loaded
