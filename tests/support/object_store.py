"""Object stores on loopback: the part of S3 that reading needs, served by this process, and moto's server."""

from __future__ import annotations

import os
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from abc import ABC, abstractmethod
from email.utils import formatdate

import pytest
from brokers import free_port
from patience import WAIT
from web_servers import Quiet, Web

KEY = "ABSOLUTELYSECRET"


class _Handler(Quiet):
    """Sizes, ranges of objects, and listings of a folder, for whoever shows a key."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # otherwise the data after the headers wait 40 ms for the other side

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        key = urllib.parse.unquote(url.path).removeprefix("/bucket").lstrip("/")
        objects = self.server.objects  # type: ignore[attr-defined]
        if not (self.server.public or "Credential=me/" in self.headers.get("Authorization", "")):  # type: ignore[attr-defined]
            self.answer(403)
        elif "list-type" in query:
            prefix = query.get("prefix", "")
            found = [name for name in objects if name.startswith(prefix)]
            listed = "".join(
                f"<Contents><Key>{name}</Key><Size>{len(objects[name][0])}</Size>"
                "<LastModified>2020-01-01T00:00:00.000Z</LastModified></Contents>"
                for name in found
            )
            body = f"<ListBucketResult><KeyCount>{len(found)}</KeyCount>{listed}</ListBucketResult>"
            self.answer(200, body.encode(), Content_Type="application/xml")
        elif not key:
            self.answer(200)
        elif key not in objects:
            self.answer(404)
        else:
            data, changed = objects[key]
            headers = {"Last_Modified": formatdate(changed, usegmt=True), "ETag": f'"{changed}"'}
            first, _, last = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")
            part = data[int(first) : int(last) + 1 if last else None]
            if "Range" in self.headers:
                headers["Content_Range"] = f"bytes {first}-{int(first) + len(part) - 1}/{len(data)}"
            self.answer(206 if "Range" in self.headers else 200, part, **headers)


class Store(ABC):
    """Objects by key, and a way to make a URL of one."""

    port: int

    @abstractmethod
    def put(self, key: str, content: bytes) -> None:
        """Write an object, or another version of it."""

    @abstractmethod
    def clear(self) -> None:
        """Remove all objects."""

    @abstractmethod
    def close(self) -> None:
        """End the server."""

    def url(self, key: str, port: int | None = None) -> str:
        where = f"endpoint_override=127.0.0.1:{port or self.port}&scheme=http&region=us-east-1"
        return f"s3://me:{KEY}@bucket/{key}?{where}"


class LocalStore(Store):
    """A store of this process; ``public``: as a web server has files, without a key."""

    def __init__(self, port: int = 0, *, public: bool = False) -> None:
        self._web = Web(_Handler, port)
        self.server, self.port = self._web.server, self._web.port
        self.server.public = public
        self.clear()

    def clear(self) -> None:
        self.server.objects = {}

    def put(self, key: str, content: bytes) -> None:
        objects = self.server.objects
        objects[key] = content, objects.get(key, (b"", 0))[1] + 1

    def close(self) -> None:
        self._web.close()


class MotoStore(Store):
    """moto's server, a process of an environment of its own: ``PRIVOL_MOTO`` is the path of its program.

    ``CI=true`` requires it. Its packages do not go together with those of the tests.
    """

    def __init__(self) -> None:
        program = os.environ.get("PRIVOL_MOTO")
        if program is None:
            if os.environ.get("CI") == "true":
                pytest.fail("PRIVOL_MOTO is not set; with CI=true this test may not be skipped")
            pytest.skip("PRIVOL_MOTO is not set: python -m venv S3; S3/bin/pip install 'moto[server]'")
        self.port = free_port()
        words = [program, "-H", "127.0.0.1", "-p", str(self.port)]
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + WAIT
        while True:
            assert self.process.poll() is None, "moto's server has ended"
            assert time.monotonic() < until
            try:
                self.clear()
                return
            except urllib.error.URLError:
                time.sleep(0.05)

    def _ask(self, path: str, method: str, content: bytes = b"") -> None:
        # a form, which Content-Type would be by default, is no object
        signed = "AWS4-HMAC-SHA256 Credential=me/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
        headers = {"Content-Type": "application/octet-stream", "Authorization": signed}
        address = f"http://127.0.0.1:{self.port}/{path}"
        with urllib.request.urlopen(urllib.request.Request(address, content, headers, method=method), timeout=WAIT):
            pass

    def clear(self) -> None:
        self._written: dict[str, int] = {}
        self._ask("moto-api/reset", "POST")
        self._ask("bucket", "PUT")

    def put(self, key: str, content: bytes) -> None:
        while int(time.time()) == self._written.get(key):
            time.sleep(0.01)  # the time of an object is one of whole seconds
        self._ask(f"bucket/{key}", "PUT", content)
        self._written[key] = int(time.time())

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
