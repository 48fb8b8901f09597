"""Lines that a web server sends once, through a pipe: real processes, killed and continued where the disk ends."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from patience import WAIT

from privol.errors import StateError
from privol.state import State, load_model

pytestmark = pytest.mark.process

N = 600
LINES = [json.dumps({"x": (-1) ** i * (i % 97) / 97, "y": i % 2}).encode() + b"\n" for i in range(N)]
SCHEMA = """
[file]
format = "jsonl"
names = ["x", "y"]
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


class Feed(BaseHTTPRequestHandler):
    """Sends the lines from a number on, in chunks, without a length; some of them late."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None: ...

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
    (tmp_path / "s.toml").write_text(SCHEMA)
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Feed)
    server.daemon_threads, server.pause = True, 0.0
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def command(feed, first, words):
    return f"{GET} 'http://127.0.0.1:{feed.server_port}/visits?from={first}' | exec {PRIVOL} {words} --quiet"


NEW = "run - --schema s.toml --seed 4 --horizon 600 --release 50 --checkpoint 20 --no-diagnostics --learner dpftrl"


def next_row(run):
    """The number of the row that comes next; 1 before there is a run."""
    try:
        return State(run).next_row()
    except (StateError, FileNotFoundError):
        return 1


def test_a_feed_goes_on_behind_what_the_disk_has(feed, tmp_path):
    def run(line):
        return subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, timeout=WAIT)

    found = run(command(feed, 1, f"{NEW} --out whole"))
    assert found.returncode == 0, found.stderr
    feed.pause, first = 0.02, 1
    for words in (f"{NEW} --out R", "resume R - --rest", "resume R - --rest"):
        process = subprocess.Popen(["bash", "-c", command(feed, first, words)], cwd=tmp_path, start_new_session=True)
        until = time.monotonic() + WAIT
        while next_row(tmp_path / "R") < first + 40:
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)  # the client is killed, too
        process.wait()
        before, first = first, next_row(tmp_path / "R")
        assert before + 40 <= first < N
    assert run(f"{PRIVOL} resume R --next-row").stdout == f"{first}\n"
    feed.pause = 0.0
    found = run(command(feed, first, "resume R - --rest"))
    assert found.returncode == 0, found.stderr
    whole, kept = load_model(tmp_path / "whole"), load_model(tmp_path / "R")
    assert np.any(whole.coef_ != 0.0)
    assert (kept.n_rows_, kept.coef_.tobytes()) == (N, whole.coef_.tobytes())


def test_the_error_about_a_feed_says_how_it_is_read(feed, tmp_path):
    words = ["run", f"http://127.0.0.1:{feed.server_port}/visits.jsonl", "--target", "y", "--out", "R"]
    found = subprocess.run(
        [sys.executable, "-m", "privol", *words], cwd=tmp_path, capture_output=True, text=True, timeout=WAIT
    )
    assert found.returncode != 0
    assert "curl -sfN URL | privol run -" in found.stderr
