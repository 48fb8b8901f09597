"""Lines that a web server sends once, by the commands of docs/sources.md: killed, and continued where the disk ends."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from patience import WAIT
from places import ROOT
from web_servers import Quiet, serving

from privol.errors import StateError
from privol.state import State, load_model

pytestmark = pytest.mark.process

N = 600
LINES = [json.dumps({"x": (-1) ** i * (i % 97) / 97, "y": i % 2}).encode() + b"\n" for i in range(N)]
SCHEMA = """
[target]
column = "y"
negative = [0]
positive = [1]
[columns.x]
range = [-1, 1]
"""
PRIVOL = shlex.join([sys.executable, "-m", "privol"])
#: What the page has curl for, which is not everywhere.
READ = "import shutil, sys, urllib.request as u; shutil.copyfileobj(u.urlopen(sys.argv[1]), sys.stdout.buffer, 1)"
GET = shlex.join([sys.executable, "-c", READ])


class Feed(Quiet):
    """Sends the lines from a number on, in chunks, without a length; some of them late."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        server: Any = self.server
        first = int(parse_qs(urlsplit(self.path).query).get("from", ["1"])[0])
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for number in range(first, N + 1):
                line = LINES[number - 1]
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                time.sleep(server.pause)
            self.wfile.write(b"0\r\n\r\n")
        except OSError:  # the client was killed
            self.close_connection = True


@pytest.fixture
def feed(tmp_path):
    (tmp_path / "visits.toml").write_text(SCHEMA)
    with serving(Feed) as server:
        server.pause = 0.0
        yield server


#: The page's two commands: the first of a run, and how it goes on.
BEGIN, GO_ON = re.findall(r"^curl -sfN .*visits\.ndjson.*$", (ROOT / "docs" / "sources.md").read_text("utf-8"), re.M)
MORE = "--seed 4 --release 50 --checkpoint 20 --learner dpftrl --quiet"


def here(line, feed, more=""):
    """A command of the page for this server, without the rows that it does not have, and with further options."""
    line = line.replace("curl -sfN", GET).replace("https://host/visits.ndjson", f"http://127.0.0.1:{feed.server_port}/")
    return (
        re.sub(r"\bprivol (?=run|resume)", f"{PRIVOL} ", line.replace("--horizon 100000", f"--horizon {N}"))
        + f" {more}"
    )


def next_row(run):
    """The number of the row that comes next; 1 before there is a run."""
    try:
        return State(run).next_row()
    except (StateError, FileNotFoundError):
        return 1


def test_a_feed_goes_on_behind_what_the_disk_has(feed, tmp_path):
    def run(line):
        return subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, timeout=WAIT)

    found = run(here(BEGIN, feed, MORE))
    assert found.returncode == 0, found.stderr
    whole = load_model((tmp_path / "RUN").rename(tmp_path / "whole"))
    feed.pause, first = 0.01, 1
    for line in (here(BEGIN, feed, MORE), here(GO_ON, feed)):
        process = subprocess.Popen(["bash", "-c", line], cwd=tmp_path, start_new_session=True)
        until = time.monotonic() + WAIT
        while next_row(tmp_path / "RUN") < first + 40:
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)  # the client is killed, too
        process.wait()
        before, first = first, next_row(tmp_path / "RUN")
        assert before + 40 <= first < N
    feed.pause = 0.0
    found = run(here(GO_ON, feed))
    assert found.returncode == 0, found.stderr
    kept = load_model(tmp_path / "RUN")
    assert np.any(whole.coef_ != 0.0)
    assert (kept.n_rows_, kept.coef_.tobytes()) == (N, whole.coef_.tobytes())


def test_the_error_about_a_feed_says_how_it_is_read(feed, tmp_path):
    words = ["run", f"http://127.0.0.1:{feed.server_port}/visits.jsonl", "--target", "y", "--out", "R"]
    found = subprocess.run(
        [sys.executable, "-m", "privol", *words], cwd=tmp_path, capture_output=True, text=True, timeout=WAIT
    )
    assert found.returncode != 0
    assert "curl -sfN URL | privol run -" in found.stderr
