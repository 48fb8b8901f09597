"""MPI ranks that begin with privol imported: a launcher starts doors (``rank_door.py``), which have ranks forked.

An interpreter that imports privol and its readers takes longer than most ranks under test work.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import sys
import tempfile
import threading
from pathlib import Path
from types import TracebackType

import zygote
from warm import Popen

DOOR = Path(__file__).with_name("rank_door.py")


class Doors:
    """While it is open, processes of ``command`` and a program are forked by ``warm.Popen``; on Linux."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="doors-")  # a socket's path has to be short
        self._path = os.path.join(self._folder.name, "s")
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(self._path)
        self._listening.listen(64)
        self._forking = threading.Lock()
        self._threads = [threading.Thread(target=self._welcome)]

    @property
    def command(self) -> list[str]:
        """The words before the program and its arguments."""
        return [sys.executable, "-I", "-S", str(DOOR), self._path]

    def __enter__(self) -> Doors:
        self._threads[0].start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits for the next one
        self._threads[0].join()
        for thread in self._threads[1:]:
            thread.join()
        self._listening.close()
        self._folder.cleanup()

    def _welcome(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self._threads.append(threading.Thread(target=self._serve, args=(connection,)))
            self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        """One rank, from its fork to its end, which the door learns; it is killed when the door is gone."""
        with connection:
            found = zygote.request(connection)
            if found is None:
                return
            asked, streams = found
            # the path of the launcher's own libraries: a loader reads it only when a program starts
            asked["environment"].pop("LD_LIBRARY_PATH", None)
            if "LD_LIBRARY_PATH" in os.environ:
                asked["environment"]["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
            names = dict(zip(("stdin", "stdout", "stderr"), streams, strict=True))
            try:
                with self._forking:  # one socket to the zygote
                    child = Popen(
                        [sys.executable, *asked["words"]], env=asked["environment"], cwd=asked["folder"], **names
                    )
            finally:
                for stream in streams:
                    os.close(stream)
            with child, contextlib.ExitStack() as stack:
                ended = os.pidfd_open(child.pid)
                stack.callback(os.close, ended)
                if ended not in select.select([ended, connection], [], [])[0]:
                    child.kill()
            with contextlib.suppress(OSError):  # the door is gone
                connection.sendall(child.returncode.to_bytes(8, "little", signed=True))
