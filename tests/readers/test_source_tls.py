"""Sources over TLS: rows come from a server with a certificate of the authority that is given, and from no other."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from brokers import PASSWORD, ROWS, SCHEMA, STATED, STATED_TOML, Kafka, Mosquitto, Redis, as_json
from certificates import Authority, Certificate, KafkaDoor
from cli_tools import privol_cli
from web_servers import Quiet, serving

from privol import open_stream
from privol.cli.app import DATA
from privol.readers import kafka_topics

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the servers are those of a Linux distribution"),
]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture(params=["127.0.0.1", "elsewhere.example"])
def certificate(authority: Authority, request: pytest.FixtureRequest) -> Certificate:
    """One for the server's address, and one for another server."""
    return authority.signed(request.param)


def rows_of(url: str, schema: Any = SCHEMA) -> int:
    return sum(len(block.X) for block in open_stream(url, schema=schema))


def refused(url: str, here: Path, why: str = "certificate") -> None:
    """Try to learn from a server that is not trusted."""
    (here / "visits.toml").write_text(STATED_TOML)
    words = ("--schema", "visits.toml", "--no-diagnostics", "--horizon", len(ROWS), "--out", "RUN")
    found = privol_cli("run", url, *words)
    assert found.exit_code == DATA
    assert "cannot be read" in found.stderr
    assert why in found.stderr
    assert found.stderr.count("\n") == 1
    assert PASSWORD not in found.output
    assert not (here / "RUN").exists()


def only(certificate: Certificate) -> bool:
    """Whether this is the certificate of the server that is asked."""
    return certificate.chain.name == "127.0.0.1.pem"


def test_redis(here: Path, authority: Authority, certificate: Certificate) -> None:
    server = Redis(certificate)
    try:
        server.add("visits", ROWS)
        own = {"ssl_certfile": certificate.chain, "ssl_keyfile": certificate.key}
        url = server.url(rows=len(ROWS), **own)
        if only(certificate):
            assert rows_of(f"{url}&ssl_ca_certs={authority.file}") == len(ROWS)
            refused(f"{url}&ssl_ca_certs={Authority(here, 'other').file}", here)
            refused(url, here)
            refused(server.url(rows=len(ROWS), ssl_ca_certs=authority.file), here, why="")  # shows no certificate
        else:
            refused(f"{url}&ssl_ca_certs={authority.file}", here)
    finally:
        server.close()


def test_mqtt(here: Path, authority: Authority, certificate: Certificate) -> None:
    server = Mosquitto(certificate)
    try:
        server.subscribe("visits")
        server.add("visits", as_json(ROWS), range(1, len(ROWS) + 1))
        own = {"certfile": certificate.chain, "keyfile": certificate.key}
        url = server.url("visits", rows=len(ROWS), **own)
        if only(certificate):
            refused(f"{url}&ca_certs={Authority(here, 'other').file}", here)
            refused(url, here)
            refused(server.url("visits", rows=len(ROWS), ca_certs=authority.file), here, why="")  # shows no certificate
            assert rows_of(f"{url}&ca_certs={authority.file}", STATED) == len(ROWS)
        else:
            refused(f"{url}&ca_certs={authority.file}", here)
    finally:
        server.close()


def test_kafka(here: Path, authority: Authority, certificate: Certificate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_topics, "_ANSWER", 3.0)  # the client tries again for so long
    cluster = Kafka()
    cluster.add("visits", as_json(ROWS))
    host, _, port = cluster.address.rpartition(":")
    door = KafkaDoor(certificate, host, int(port))
    try:
        url = f"kafka://127.0.0.1:{door.port}/visits?rows={len(ROWS)}&security.protocol=SSL&ssl.ca.location="
        if only(certificate):
            assert rows_of(f"{url}{authority.file}") == len(ROWS)
            refused(f"{url}{Authority(here, 'other').file}", here)
        else:
            refused(f"{url}{authority.file}", here)
    finally:
        door.close()


@pytest.fixture
def web(certificate: Certificate) -> Iterator[Any]:
    class Handler(Quiet):
        def do_GET(self) -> None:
            body = b"\n".join(as_json(ROWS))
            first, _, last = self.headers["Range"].removeprefix("bytes=").partition("-")
            end = int(last or len(body) - 1)
            self.send_response(206)
            self.send_header("ETag", '"rows"')
            self.send_header("Content-Range", f"bytes {first}-{end}/{len(body)}")
            self.send_header("Content-Length", str(end + 1 - int(first)))
            self.end_headers()
            self.wfile.write(body[int(first) : end + 1])

    with serving(Handler, certificate.context()) as server:
        yield server


def test_web(here: Path, web: Any, authority: Authority, certificate: Certificate, monkeypatch: Any) -> None:
    url = f"https://127.0.0.1:{web.server_port}/rows.jsonl?key={PASSWORD}"
    refused(url, here)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    if only(certificate):
        assert rows_of(url) == len(ROWS)
    else:
        refused(url, here)
