"""A disk that is full where messages are set aside: nothing is lost, and nothing is acknowledged."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from brokers import ROWS, SCHEMA, TOML, Redis, as_json, fit
from cli_tools import privol_cli
from databases import outcome

from privol.cli.app import IO, OK
from privol.readers import aside, message_columns
from privol.state import State

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the server is that of a Linux distribution"),
]
N, GOOD = len(ROWS), 250
BAD = [b'{"x": ', b'{"x": 0.5, "town": "a", "y": 7}', b'{"y": "']


@pytest.fixture
def redis(monkeypatch: pytest.MonkeyPatch) -> Iterator[Redis]:
    """Half of the rows, then three messages that cannot be read, then the others; fifty are read at a time."""
    monkeypatch.setattr(message_columns, "MOST", 50)
    server = Redis()
    for rows in (as_json(ROWS[:GOOD]), BAD, as_json(ROWS[GOOD:])):
        server.add("visits", rows, "m")
    yield server
    server.close()


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """A disk with room for three files: the second message is there, and why it was set aside is not."""
    write, left = aside.write_atomically, [3]

    def to_a_full_disk(path: Path, content: bytes, **how: Any) -> None:
        if not left[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        left[0] -= 1
        write(path, content, **how)

    with monkeypatch.context() as patch:
        patch.setattr(aside, "write_atomically", to_a_full_disk)
        yield patch


def in_folder(folder: Path) -> list[bytes]:
    """The messages that are set aside, each of which has a reason."""
    for path in folder.glob("*.message"):
        assert path.with_suffix(".reason").read_text()
    return sorted(path.read_bytes() for path in folder.glob("*.message"))


def acknowledged(redis: Redis) -> list[int]:
    """Which entries are acknowledged, by their place in the stream."""
    ids = [id for id, _ in redis.client.xrange("visits")]
    (group,) = redis.client.xinfo_groups("visits")
    left = {each["message_id"] for each in redis.client.xpending_range("visits", "model", "-", "+", len(ids))}
    delivered = ids.index(group["last-delivered-id"]) + 1 if group["last-delivered-id"] in ids else 0
    return [i for i, id in enumerate(ids[:delivered]) if id not in left]


def test_a_run_ends_and_goes_on_when_there_is_room(redis: Redis, full: pytest.MonkeyPatch, tmp_path: Path) -> None:
    url = redis.url(field="m", group="model", rows=N, quarantine=tmp_path / "aside")
    with pytest.raises(OSError, match="No space left on device"):
        fit(url, tmp_path / "RUN", schema=SCHEMA)
    kept = State(tmp_path / "RUN").next_row() - 1
    assert 0 < kept <= GOOD
    assert acknowledged(redis) == list(range(kept))
    full.undo()
    made = fit(url, tmp_path / "RUN", schema=SCHEMA)
    assert made.n_rows_ == N
    assert in_folder(tmp_path / "aside") == sorted(BAD)
    assert acknowledged(redis) == list(range(N + len(BAD)))
    alone = fit(redis.url(field="m", rows=N, quarantine=tmp_path / "other"), tmp_path / "ALONE", schema=SCHEMA)
    assert outcome(made, tmp_path / "RUN")[:4] == outcome(alone, tmp_path / "ALONE")[:4]


def test_the_error_is_plain(redis: Redis, full: pytest.MonkeyPatch, here: Path) -> None:
    Path("visits.toml").write_text(TOML)
    url = redis.url(field="m", group="model", quarantine=here / "aside")
    words = ("--schema", "visits.toml", "--horizon", N, "--no-diagnostics", "--out", "RUN")
    result = privol_cli("run", url, *words)
    assert result.exit_code == IO
    assert "No space left on device" in result.stderr
    assert "aside" in result.stderr
    full.undo()
    assert privol_cli("run", url, *words).exit_code == OK  # it had not begun
    assert in_folder(here / "aside") == sorted(BAD)
