"""A PostgreSQL server of the distribution's packages, on loopback, with a password: started and ended by the tests."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from patience import WAIT

USER, PASSWORD = "clinic", "Tr0ub4dor-s3cret"
PLACES = ("/usr/lib/postgresql/*/bin", "/usr/local/pgsql/bin", "/opt/homebrew/bin")


def programs() -> Path:
    """Return the folder of initdb and postgres; without them the test is skipped, or fails where CI installs them.

    ``CI=true`` requires them, unless ``.ci/run`` has set ``PRIVOL_POSTGRESQL=none`` because it could not install any.
    """
    where = shutil.which("initdb")
    found = [Path(where).parent] if where else []
    for place in PLACES:
        root, _, pattern = place[1:].partition("/*")
        found += sorted(Path("/" + root).glob("*" + pattern)) if pattern else [Path(place)]
    for folder in reversed(found):
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    missing = f"no initdb and postgres in PATH or {', '.join(PLACES)}"
    if os.environ.get("CI") == "true" and os.environ.get("PRIVOL_POSTGRESQL") != "none":
        pytest.fail(f"{missing}; with CI=true this test may not be skipped")
    pytest.skip(missing)


class Server:
    """A server with one database, ``postgres``; its files are removed by :meth:`close`."""

    def __init__(self) -> None:
        folder = programs()
        self._folder, self._process = Path(tempfile.mkdtemp(prefix="privol-pg-")), None
        self._as: dict[str, Any] = {}
        try:
            if os.getuid() == 0:  # it refuses to run as root
                names = {entry.pw_name: entry for entry in pwd.getpwall()}
                owner = names.get("postgres") or names["nobody"]
                os.chown(self._folder, owner.pw_uid, owner.pw_gid)
                self._as = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
            word = self._folder / "word"
            word.write_text(PASSWORD + "\n")
            word.chmod(0o644)
            how = (
                "--no-sync",
                "--auth=scram-sha-256",
                f"--username={USER}",
                f"--pwfile={word}",
                "--locale=C",
                "-EUTF8",
            )
            command = [folder / "initdb", "-D", self._folder / "data", *how]
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=WAIT, cwd="/", check=False, **self._as
            )
            assert done.returncode == 0, done.stdout + done.stderr
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.port = free.getsockname()[1]
            self._command = [folder / "postgres", "-D", self._folder / "data", "-k", self._folder, "-p", str(self.port)]
            for setting in ("listen_addresses=127.0.0.1", "fsync=off", "max_connections=20", "shared_buffers=16MB"):
                self._command += ["-c", setting]
            self.start()
        except BaseException:
            self.close()
            raise

    def url(self, what: str, *, user: str = f"{USER}:{PASSWORD}", more: str = "", port: int = 0) -> str:
        """Return a URL of this server that reads ``what`` in the order of ``id``; ``port``: of a relay to it."""
        return f"postgresql://{user}@127.0.0.1:{port or self.port}/postgres?{what}&order=id{more}"

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        with open(self._folder / "log", "ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, cwd="/", **self._as)
        until = time.monotonic() + WAIT
        while True:
            try:
                self.execute("SELECT 1")
                return
            except Exception:
                said = (self._folder / "log").read_text()
                assert self._process.poll() is None, said
                assert time.monotonic() < until, said
            time.sleep(0.02)

    def stop(self) -> None:
        """End the server at once, with all connections: as a crash does."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait()
            self._process = None

    def cut_off(self) -> None:
        """End the connections that read visits, and wait until they are gone."""
        others = "pg_stat_activity WHERE query LIKE 'COPY%visits%' AND pid <> pg_backend_pid()"
        self.execute(f"SELECT pg_terminate_backend(pid) FROM {others}")
        while self.execute(f"SELECT 1 FROM {others}"):
            time.sleep(0.01)

    def execute(self, *statements: str) -> list[Any]:
        """Execute statements, each in a transaction of its own, and return the rows of the last one."""
        import adbc_driver_postgresql.dbapi as client

        url = f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{self.port}/postgres"
        found: list[Any] = []
        with client.connect(url, autocommit=True) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.adbc_statement.set_options(**{"adbc.postgresql.use_copy": "false"})
                cursor.execute(statement)
                found = cursor.fetchall()
        return found

    def hold(self, lock: int) -> Any:
        """Hold an advisory lock, for which others wait until what is returned is closed or the server ends."""
        import adbc_driver_postgresql.dbapi as client

        url = f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{self.port}/postgres"
        holding = client.connect(url, autocommit=True)
        with holding.cursor() as cursor:
            cursor.execute(f"SELECT pg_advisory_lock({lock})::text")
            cursor.fetchall()
        return holding

    def close(self) -> None:
        """End the server and remove its files."""
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)
