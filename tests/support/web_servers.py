"""Web servers of the test's own process, on loopback: a thread of its own for each connection."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Quiet(BaseHTTPRequestHandler):
    """Says nothing of what it is asked."""

    def log_message(self, *_: object) -> None: ...


class Web:
    """A server that answers until it is closed.

    Attributes
    ----------
    server : ThreadingHTTPServer
        Where handlers find as attributes what tests write there.
    port : int
        Where it listens.
    """

    def __init__(self, handler: type[BaseHTTPRequestHandler], port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self.server: Any = ThreadingHTTPServer(("127.0.0.1", port), handler)
        self.server.daemon_threads = True
        self.port = int(self.server.server_port)
        if tls is not None:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self._thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler], tls: ssl.SSLContext | None = None) -> Iterator[Any]:
    """A server while a test runs."""
    web = Web(handler, tls=tls)
    try:
        yield web.server
    finally:
        web.close()
