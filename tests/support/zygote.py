"""Imports privol once, and forks the processes that ``warm.py`` requests: ``python zygote.py SOCKET``."""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import runpy
import site
import socket
import sys
import tempfile
import types
import warnings
from typing import Any

#: The modules, other than privol, that processes under test import sooner or later.
MODULES = ("matplotlib.backends.backend_agg", "matplotlib.backends.backend_svg", "matplotlib.figure", "pyarrow.csv")
MODULES += ("hypothesis", "pytest", "rich.console", "rich.progress", "rich.table", "sklearn.base")
ENTRANCE = ("privol.__main__",)


def warm() -> None:
    """Import all that a process under test may need. Nothing is called: there must be no thread before a fork."""
    import privol

    names = [found.name for found in pkgutil.walk_packages(privol.__path__, "privol.", onerror=lambda name: None)]
    for name in [*MODULES, *(name for name in names if name not in ENTRANCE)]:
        with contextlib.suppress(ImportError):  # an extra that is not installed
            importlib.import_module(name)


def request(connection: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Wait for the next request; None: no process is left to make one."""
    size, streams, _, _ = socket.recv_fds(connection, 8, 3)
    if not size:
        return None
    content = b""
    while len(content) < int.from_bytes(size, "little"):
        content += connection.recv(1 << 20)
    return json.loads(content), streams


def serve(connection: socket.socket) -> dict[str, Any]:
    """Return the request, in a new process; the first process never returns from here."""
    while True:
        found = request(connection)
        if found is None:
            os._exit(0)
        asked, streams = found
        reader, writer = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # about threads: those of OpenBLAS, which handles forks
            between = os.fork()
        if between == 0:
            child = os.fork()
            if child:  # ends at once, so that the child is handed to the process that requested it
                os.write(writer, child.to_bytes(8, "little"))
                os._exit(0)
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
            for each in (*streams, reader, writer):
                if each > 2:
                    os.close(each)
            connection.close()
            return asked
        os.close(writer)
        for stream in streams:
            os.close(stream)
        os.waitpid(between, 0)
        number = os.read(reader, 8)
        if len(number) < 8:  # nothing could be forked: the requesting process sees the end of the socket
            os._exit(1)
        connection.sendall(number)
        os.close(reader)


def take(asked: dict[str, Any]) -> list[str]:
    """Take over the environment, the folder, the standard streams and the arguments; return the command's words."""
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    tempfile.tempdir = None
    bare = bool(os.environ.get("PYTHONUNBUFFERED"))
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, name)
        kept = {"encoding": old.encoding, "errors": old.errors, "newline": "\n", "closefd": False}
        stream = open(number, "w" if number else "r", **kept)  # noqa: SIM115 (for the life of the process)
        if number:
            stream.reconfigure(line_buffering=number == 2 or stream.isatty(), write_through=bare)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    kind, *words = asked["words"]
    head = {"-c": "", "-m": asked["folder"]}.get(kind, os.path.dirname(os.path.realpath(kind)))
    given = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = [head, *given, *(path for path in BASE if path not in given)]
    if kind == "-c":
        sys.argv[:] = ["-c", *words[1:]]
    elif kind == "-m":
        sys.argv[:] = words
    else:
        sys.argv[:] = [kind, *words]
    return [kind, *words]


def begin(words: list[str]) -> None:
    """Run the command as ``python`` does: with ``-c``, with ``-m``, or a file."""
    if words[0] == "-c":
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(words[1], "<string>", "exec"), vars(main))
    elif words[0] == "-m":
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    GIVEN = [path for path in os.environ["PYTHONPATH"].split(os.pathsep) if path]
    OWN = site.getsitepackages()  # where privol may be installed, so that these were given too
    BASE = [path for path in sys.path[1:] if path in OWN or path not in GIVEN]  # the interpreter's own
    warm()
    gc.collect()
    gc.freeze()  # children that do not touch inherited memory start sooner
    begin(take(serve(socket.socket(fileno=int(sys.argv[1])))))
