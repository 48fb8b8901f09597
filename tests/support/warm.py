"""Python processes that begin with privol imported, for tests that are not about starting a process.

``Popen`` and ``run`` are those of ``subprocess``. A command of this interpreter is not started but forked from a
process that has made the imports once (``zygote.py``): the child has the arguments, environment, folder and standard
streams that it was given, is a child of the caller, and ends like any interpreter. Everything else (another program, an
option of the interpreter, an environment that imports may have read), and all processes on systems other than Linux,
are started by ``subprocess``.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import inspect
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import privol

ZYGOTE = Path(__file__).with_name("zygote.py")
SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of linux/prctl.h: adopts the children of children that end
#: Variables that no import reads, or that the zygote gives its children; the last one polars sets when it is imported.
ANY = {"COLUMNS", "PWD", "OLDPWD", "PYTEST_CURRENT_TEST", "PYTHONPATH", "PYTHONUNBUFFERED", "TMPDIR"}
ANY |= {"_RJEM_MALLOC_CONF"}
#: Prefixes of names that an MPI launcher sets and only MPI reads when it starts: no import under test does that.
OF_MPI = ("OMPI_", "OPAL_", "ORTE_", "PMIX_", "PRTE_", "HWLOC_")


def _fixed(environment: Any) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name not in ANY and not name.startswith(OF_MPI)}


class _Zygote:
    """The process that forks; it ends when its socket is closed, hence with its maker."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.environment = _fixed(os.environ)
        self.socket, theirs = socket.socketpair()
        source = str(Path(privol.__file__).parent.parent)
        paths = os.pathsep.join(path for path in (source, os.environ.get("PYTHONPATH")) if path)
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, str(ZYGOTE), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": paths},
                pass_fds=[theirs.fileno()],
            )
        atexit.register(self.end)
        self.prctl = ctypes.CDLL(None, use_errno=True).prctl

    def end(self) -> None:
        """End the process; a forked copy of this process has nothing to end."""
        if os.getpid() == self.owner:
            self.socket.close()
            self.process.wait()

    def fork(self, request: dict[str, Any], streams: list[int]) -> int:
        """Have a child forked with these standard streams; return its number."""
        content = json.dumps(request).encode()
        assert self.prctl(SUBREAPER, 1, 0, 0, 0) == 0
        try:
            socket.send_fds(self.socket, [len(content).to_bytes(8, "little")], streams)
            self.socket.sendall(content)
            answer = self.socket.recv(8)
        finally:
            self.prctl(SUBREAPER, 0, 0, 0, 0)
        assert len(answer) == 8, "the zygote has ended"
        return int.from_bytes(answer, "little")


@functools.cache
def _zygote(owner: int) -> _Zygote:
    return _Zygote()


class Popen(subprocess.Popen):
    """A process that is forked where possible, and started otherwise."""

    def _execute_child(self, *given: Any, **named: Any) -> None:
        start = super()._execute_child
        words = inspect.signature(start).bind(*given, **named).arguments
        if not _may_be_forked(words):
            start(*given, **named)
            return
        pipes = [words[name] for name in ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")]
        streams = [own if pipe == -1 else pipe for own, pipe in enumerate((pipes[0], pipes[3], pipes[5]))]
        request = {
            "words": [os.fsdecode(word) for word in words["args"][1:]],
            "environment": dict(os.environ if words["env"] is None else words["env"]),
            "folder": os.fsdecode(words["cwd"] or os.getcwd()),
        }
        try:
            self.pid = _zygote(os.getpid()).fork(request, streams)
            self._child_created = True
        finally:
            self._close_pipe_fds(*pipes)


def _may_be_forked(words: dict[str, Any]) -> bool:
    args = words["args"]
    if not sys.platform.startswith("linux") or isinstance(args, (str, bytes)) or args[0] != sys.executable:
        return False
    first = os.fsdecode(args[1])
    if first not in ("-c", "-m") and not first.endswith(".py"):
        return False
    if words["preexec_fn"] or words["pass_fds"] or words["shell"] or words["start_new_session"]:
        return False
    return words["env"] is None or _fixed(words["env"]) == _fixed(os.environ) == _zygote(os.getpid()).environment


def run(
    command: list[Any],
    *,
    capture_output: bool = False,
    timeout: float | None = None,
    check: bool = False,
    **settings: Any,
) -> subprocess.CompletedProcess[Any]:
    """``subprocess.run`` with such a process."""
    if capture_output:
        settings |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Popen(command, **settings) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    if check and process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, out, err)
    return subprocess.CompletedProcess(command, process.returncode, out, err)
