"""A relay of TCP on loopback that can stop to forward: the server behind it is connected and silent."""

from __future__ import annotations

import math
import socket
import threading
from contextlib import suppress


class Relay:
    """Forwards connections to a port of loopback, in both directions.

    Attributes
    ----------
    port : int
        Where it listens.
    left : float
        How many bytes may still pass before it stops.
    """

    def __init__(self, to: int) -> None:
        self._to, self._flows = to, threading.Event()
        self._flows.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = [self._listener]
        self.left = math.inf
        self.port = int(self._listener.getsockname()[1])
        self._start(self._accept)

    def halt(self) -> None:
        """Let nothing pass from now on; connections are still made, as a stopped process's kernel makes them."""
        self._flows.clear()

    @property
    def halted(self) -> bool:
        return not self._flows.is_set()

    def go_on(self) -> None:
        """Let everything pass again, what has come meanwhile included."""
        self.left = math.inf
        self._flows.set()

    def close(self) -> None:
        """End all connections."""
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        self._flows.set()

    @staticmethod
    def _start(what: object, *given: object) -> None:
        threading.Thread(target=what, args=given, daemon=True).start()  # type: ignore[arg-type]

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._to))
                self._open += [near, far]
                self._start(self._pump, near, far)
                self._start(self._pump, far, near)

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while found := source.recv(1 << 16):
                self.left -= len(found)
                if self.left < 0:
                    self.halt()
                self._flows.wait()
                sink.sendall(found)
        self._flows.wait()
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
