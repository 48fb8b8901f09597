"""A SuperLink and SuperNodes of Flower as processes on loopback, with everything that they start, and its end."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

import flower_tools  # noqa: F401 (without Flower it skips the tests)
from patience import WAIT

MARK = "PRIVOL_TEST_FEDERATION"


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as door:
        return door.connect_ex(("127.0.0.1", port)) == 0


class Processes:
    """Processes of Flower, all of which end with it: each carries a mark in its environment, as do their children.

    Children of Flower's processes have sessions of their own, and some outlive a parent that is killed, so no group of
    processes has them all.
    """

    def __init__(self, home: Path) -> None:
        self.home, self.token = home, secrets.token_hex(16)
        self._begun: list[subprocess.Popen[bytes]] = []
        self.environment = {
            **os.environ,
            MARK: self.token,
            "FLWR_HOME": str(home / "flwr"),
            # Flower starts its own programs by name
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "OMP_NUM_THREADS": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
        }
        (home / "flwr").mkdir(parents=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, *command: str) -> None:
        """Run a command to its end, which is to be a good one."""
        done = subprocess.run(
            command,
            env=self.environment,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=WAIT,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def marked(self) -> list[int]:
        """The processes that carry the mark, from ``/proc``."""
        found = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdigit() and f"{MARK}={self.token}".encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
        return found

    def close(self) -> None:
        """End all of it. What is started meanwhile carries the mark too, so this goes on until nothing is left."""
        while left := self.marked():
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for begun in self._begun:
                begun.poll()
            time.sleep(0.02)
        for begun in self._begun:
            begun.wait()


class Federation(Processes):
    """A SuperLink on loopback, to which SuperNodes are added: nowhere else is plain text allowed."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        port = _free_port()
        self.link = f"127.0.0.1:{port}"
        connection = f'[superlink]\ndefault = "loop"\n[superlink.loop]\naddress = "{self.link}"\ninsecure = true\n'
        (home / "flwr" / "config.toml").write_text(connection)
        try:
            where = ("--host", "127.0.0.1", "--port", str(port))
            self.start("flower-superlink", "--insecure", *where, "--disable-runtime-dependency-installation")
            self._until(lambda: _listens(port), "the SuperLink listens")
        except BaseException:
            self.close()
            raise

    def start(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        with (self.home / f"{name}-{len(self._begun)}.log").open("wb") as log:
            begun = subprocess.Popen(
                [name, *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment,
                cwd=self.home,
            )
        self._begun.append(begun)
        return begun

    def add_node(self, **config: object) -> None:
        """Start a SuperNode with a configuration."""
        port = _free_port()
        words = " ".join(f"{name}={json.dumps(value)}" for name, value in config.items())
        where = ("--host", "127.0.0.1", "--port", str(port), "--superlink", self.link)
        self.start("flower-supernode", "--insecure", *where, "--node-config", words)

    def run_app(self, app: Path) -> None:
        """Hand a run over to the SuperLink, which begins it."""
        self.run("flwr", "run", str(app), "loop")

    def wait_for(self, path: Path) -> None:
        self._until(path.exists, f"{path.name} is there")

    def _until(self, true, what) -> None:
        end = time.monotonic() + WAIT
        while not true():
            died = [begun.args[0] for begun in self._begun if begun.poll() is not None]
            if died or time.monotonic() > end:
                raise AssertionError(f"not so: {what}; ended: {died}\n{self.logs()}")
            time.sleep(0.1)

    def logs(self) -> str:
        """What all processes have written, apps included."""
        return "\n".join(f"== {log.name}\n{log.read_text(errors='replace')}" for log in sorted(self.home.glob("*.log")))
