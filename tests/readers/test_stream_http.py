"""Files of a web server: the same rows as from disk, over connections that break and servers that go away."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cli_tools import interrupted_at, privol_cli
from format_files import WRITERS
from web_servers import Quiet, serving

import privol.cli.run as run_command
from privol import open_stream
from privol.cli.app import INTERRUPTED, IO, OK
from privol.errors import InvalidParameter, StreamError
from privol.readers import http_files

ROWS = b"x,y\n" + b"".join(b"%d,%d\n" % (i, i % 2) for i in range(200_000))
WORD = "Tr0ub4dor-s3cret"


class Handler(Quiet):
    """Serves files by ranges; what ``server.how`` says goes wrong."""

    def do_GET(self) -> None:
        server: Any = self.server
        how, path = server.how, self.path.partition("?")[0]
        server.asked.append((path, self.headers.get("Range")))
        server.words.append((self.headers["Host"].partition(":")[0], self.headers.get("Authorization")))
        if path in server.moved:
            self.send_response(302)
            self.send_header("Location", server.moved[path])
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        wanted = "Basic " + base64.b64encode(f"clinic:{WORD}".encode()).decode()
        if path not in server.files or ("user" in how and self.headers.get("Authorization") != wanted):
            self.send_error(404 if path not in server.files else 401)
            return
        if how.get("away", 0) > 0:
            how["away"] -= 1
            self.send_error(503)
            return
        body = server.files[path]
        first, _, last = (self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").partition("-")
        first, last = int(first), int(last or len(body) - 1)
        part = body[first : last + 1]
        ranges = "ranges" not in how
        self.send_response(206 if ranges else 200)
        if "marks" not in how:
            self.send_header("ETag", f'"{hashlib.sha256(body).hexdigest()}"')
        if "coding" in how:
            self.send_header("Content-Encoding", "gzip")
        if ranges:
            begins = first + ("shifted" in how and first > 0)
            self.send_header("Content-Range", f"bytes {begins}-{last}/{len(body)}")
        self.send_header("Content-Length", str(len(part if ranges else body)))
        self.end_headers()
        if "empty" in how and len(part) > 1:
            part = b""
            self.close_connection = True
        if "breaks" in how and len(part) > how["breaks"]:
            part = part[: how["breaks"]]
            self.close_connection = True
        if first < last and "then" in how:
            how.pop("then")()
        self.wfile.write(part if ranges else body)


@pytest.fixture
def server() -> Iterator[Any]:
    with serving(Handler) as server:
        server.files, server.how, server.asked = {"/a/rows.csv": ROWS}, {}, []
        server.words, server.moved = [], {}
        server.url = lambda path: f"http://127.0.0.1:{server.server_port}{path}"
        yield server


def together(stream: Any) -> Any:
    blocks = [(block.X, block.y) for block in stream]
    return np.vstack([X for X, _ in blocks]), np.concatenate([y for _, y in blocks])


@pytest.mark.parametrize("name", ["csv", "jsonl", "libsvm", "parquet", "arrow"])
def test_the_rows_are_those_of_a_file(server, tmp_path, name):
    WRITERS[name](tmp_path / f"rows.{name}")
    server.files[f"/rows.{name}"] = (tmp_path / f"rows.{name}").read_bytes()
    found = open_stream(server.url(f"/rows.{name}"), classes=(0, 1), format=name)
    wanted = open_stream(tmp_path / f"rows.{name}", classes=(0, 1), format=name)
    assert found.source == f"rows.{name}"
    for a, b in zip(found, wanted, strict=True):
        assert np.array_equal(np.asarray(a.X.todense() if found._source.sparse else a.X),
                              np.asarray(b.X.todense() if found._source.sparse else b.X))  # fmt: skip
        assert np.array_equal(a.y, b.y)


def test_a_connection_that_breaks_is_taken_up_where_it_broke(server, monkeypatch):
    monkeypatch.setattr(http_files, "PAUSE", 0.001)
    server.how |= {"breaks": 300_001, "away": 0}
    stream = open_stream(server.url("/a/rows.csv"), target="y")
    server.asked.clear()
    server.how["away"] = 2
    X, _ = together(stream)
    assert X.ravel().tolist() == list(range(200_000))
    starts = [int(asked.removeprefix("bytes=").rstrip("-")) for _, asked in server.asked if asked.endswith("-")]
    assert sorted(set(starts)) == [i * 300_001 for i in range(len(ROWS) // 300_001 + 1)]
    assert together(stream)[0].size == 200_000  # and once more


def test_a_server_that_stays_away_ends_the_stream(server, monkeypatch):
    monkeypatch.setattr(http_files, "PAUSE", 0.001)
    monkeypatch.setattr(http_files, "PATIENCE", 0.01)
    stream = open_stream(server.url("/a/rows.csv"), target="y", block_rows=1000)
    server.how["breaks"] = 300_000
    blocks = iter(stream)
    next(blocks)
    server.how["away"] = 10**9
    with pytest.raises(StreamError, match=r"rows\.csv.*: cannot be read: the server (was away|answers)"):
        list(blocks)


def test_a_file_that_changes_is_no_longer_read(server, monkeypatch):
    monkeypatch.setattr(http_files, "PAUSE", 0.001)
    stream = open_stream(server.url("/a/rows.csv"), target="y", block_rows=1000)
    server.how["breaks"] = 300_000
    # while the first part is sent, so that others come from the new file
    server.how["then"] = lambda: server.files.update({"/a/rows.csv": ROWS.replace(b"\n50000,", b"\n50001,")})
    found: list[Any] = []
    with pytest.raises(StreamError, match=r"row \d+: .*the file (has changed|was replaced)"):
        found.extend(block.X for block in stream)
    read = [x for X in found for x in X.ravel().tolist()]
    assert read == list(range(len(read)))  # no row of the new file
    with pytest.raises(StreamError, match="the file was replaced by another file since it was opened"):
        list(stream)


@pytest.mark.parametrize(
    ("how", "path", "says"),
    [
        ({}, "/none.csv", "none.csv: cannot be read: the server answers 404"),
        ({"ranges": 0}, "/a/rows.csv", "the server does not serve ranges"),
        ({"marks": 0}, "/a/rows.csv", "states neither ETag nor Last-Modified"),
        ({"coding": 0}, "/a/rows.csv", "the server sends the file as gzip"),
        ({"away": 9}, "/a/rows.csv", "the server answers 503"),
        ({"user": 1}, "/a/rows.csv", "the server answers 401"),
    ],
)
def test_servers_that_are_refused(server, how, path, says):
    server.how |= how
    with pytest.raises(StreamError, match=says):
        open_stream(f"{server.url(path)}?key={WORD}", target="y")


@pytest.mark.parametrize("length", ["\xb2", "9" * 5000, "-1", "1_0", ""])
def test_lengths_that_are_no_numbers_are_refused(length):
    """Two of them ended in an error of Python."""
    answer = SimpleNamespace(status=200, headers={"ETag": "x", "Content-Length": length})
    with pytest.raises(PermissionError, match="or no length"):
        http_files.HttpFile("http://host/rows.csv").known(answer)


def test_passwords_are_those_of_netrc(server, tmp_path, monkeypatch):
    server.how["user"] = 1
    (tmp_path / "netrc").write_text(f"machine 127.0.0.1 login clinic password {WORD}\n")
    (tmp_path / "netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    assert open_stream(server.url("/a/rows.csv"), target="y").count_rows() == 200_000
    with pytest.raises(InvalidParameter, match=r"a user and a password do not belong into the URL") as caught:
        open_stream(server.url("/a/rows.csv").replace("//", f"//clinic:{WORD}@"), target="y")
    assert WORD not in str(caught.value)


def test_a_password_goes_to_no_other_host(server, tmp_path, monkeypatch):
    (tmp_path / "netrc").write_text(f"machine 127.0.0.1 login clinic password {WORD}\n")
    (tmp_path / "netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    server.moved |= {
        "/far.csv": server.url("/a/rows.csv").replace("127.0.0.1", "localhost"),
        "/near.csv": "/a/rows.csv",
    }
    assert open_stream(server.url("/far.csv"), target="y").n_features == 1
    assert {host: word is not None for host, word in server.words} == {"127.0.0.1": True, "localhost": False}
    server.how["user"] = 1
    assert open_stream(server.url("/near.csv"), target="y").n_features == 1
    server.moved["/out.csv"] = "ftp://127.0.0.1/rows.csv"
    with pytest.raises(StreamError, match="sends the reader to something else than a web server"):
        open_stream(server.url("/out.csv"), target="y")


def test_an_error_about_a_url_does_not_quote_its_key(server):
    for sign in (" ", "\u00e9", "\n"):
        with pytest.raises(InvalidParameter, match=r"rows\.csv: found a blank or a sign beyond ASCII in") as caught:
            open_stream(server.url(f"/a/rows.csv?sig={WORD}{sign}"), target="y")
        assert WORD not in str(caught.value)


def test_a_server_that_sends_other_bytes_than_those_asked_for_ends_the_stream(server, tmp_path, monkeypatch):
    monkeypatch.setattr(http_files, "PAUSE", 0.001)
    monkeypatch.setattr(http_files, "PATIENCE", 0.01)
    stream = open_stream(server.url("/a/rows.csv"), target="y")
    server.how |= {"breaks": 300_001, "shifted": 1}
    with pytest.raises(StreamError, match="the server sends another range than the one that was asked for"):
        list(stream)
    WRITERS["parquet"](tmp_path / "rows.parquet")
    server.files["/rows.parquet"] = (tmp_path / "rows.parquet").read_bytes()
    server.how = {"empty": 1}
    with pytest.raises(StreamError, match="the server was away for more than"):  # and it is not asked for ever
        list(open_stream(server.url("/rows.parquet"), classes=(0, 1)))


def test_a_run_learns_the_rows_and_keeps_no_signature(server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    url = f"{server.url('/a/rows.csv')}?part=1&X-Amz-Signature={WORD}"
    words = ("--classes", "0,1", "--x-bound", 1, "--no-diagnostics", "--quiet")
    assert privol_cli("run", url, *words, "--out", "RUN").exit_code == OK
    monkeypatch.setattr(run_command, "learn_rows", lambda *given, **how: words_kept.extend(given[1]["words"]))
    words_kept: list[str] = []
    privol_cli("run", url, *words, "--out", "OTHER")
    assert words_kept[0] == server.url("/a/rows.csv")  # any option may be a key
    kept = [path.read_bytes() for path in (tmp_path / "RUN").rglob("*") if path.is_file()]
    assert kept
    assert not any(WORD.encode() in content for content in kept)


def test_an_interrupted_run_needs_the_url_again(server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    url = f"{server.url('/a/rows.csv')}?code={WORD}"
    words = ("--classes", "0,1", "--x-bound", 1, "--no-diagnostics", "--quiet", "--checkpoint", 1000)
    with interrupted_at(monkeypatch, 60_000):
        stopped = privol_cli("run", url, *words, "--out", "RUN")
    assert stopped.exit_code == INTERRUPTED
    why = "passwords, keys and whatever else of a URL may be secret are not kept with a run"
    assert f"privol resume RUN URL continues it: {why}" in stopped.stderr
    server.asked.clear()
    refused = privol_cli("resume", "RUN")
    assert refused.exit_code == IO
    assert f"RUN: {why}: give the URL once more, privol resume RUN URL" in refused.stderr
    assert not server.asked  # that would be for another file
    kept = [path.read_bytes() for path in (tmp_path / "RUN").rglob("*") if path.is_file()]
    assert not any(WORD.encode() in content for content in kept)
    assert privol_cli("resume", "RUN", url, "--quiet").exit_code == OK
