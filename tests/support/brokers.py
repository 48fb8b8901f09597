"""Brokers of messages on loopback, started and ended by the tests, and the visits that they hand out."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import warm
from certificates import Certificate
from patience import WAIT

from privol import DPFTRL, open_stream
from privol.state import State

PASSWORD = "Tr0ub4dor-s3cret"
ROWS = [{"x": (-1) ** i * (i % 97) / 97, "town": f"town {i % 3}", "y": i % 2} for i in range(500)]
SCHEMA: dict[str, Any] = {
    "others": "drop",
    "columns": {"x": {"range": [-1, 1]}},
    "target": {"column": "y", "negative": 0, "positive": 1},
}
#: The same for messages that do not say what they are: JSON.
STATED: dict[str, Any] = {**SCHEMA, "file": {"format": "jsonl", "names": ["x", "town", "y"]}}
#: Both as files of commands.
TOML = """
others = "drop"
[columns.x]
range = [-1, 1]
[target]
column = "y"
negative = 0
positive = 1
"""
STATED_TOML = f"""{TOML}[file]
format = "jsonl"
names = ["x", "town", "y"]
"""


def program(name: str) -> str:
    """Return the path of a broker's program; without it the test is skipped, or fails where CI installs it.

    ``CI=true`` requires it, unless ``.ci/run`` has set ``PRIVOL_BROKERS=none`` because it could not install any.
    """
    found = shutil.which(name, path=os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin")))
    if found is not None:
        return found
    if os.environ.get("CI") == "true" and os.environ.get("PRIVOL_BROKERS") != "none":
        pytest.fail(f"no {name}; with CI=true this test may not be skipped")
    pytest.skip(f"no {name} in PATH")


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class Broker(ABC):
    """A process of its own with files of its own, which :meth:`close` removes."""

    def __init__(self, name: str) -> None:
        self.program, self.port = program(name), free_port()
        self.folder, self.process = Path(tempfile.mkdtemp(prefix=f"privol-{name}-")), None
        try:
            self.command = [self.program, *self.words()]
            self.start()
        except BaseException:
            self.close()
            raise

    @abstractmethod
    def words(self) -> list[str]:
        """Return the arguments of the program."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether it serves."""

    def start(self) -> None:
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, cwd=self.folder)
        until = time.monotonic() + WAIT
        while not self.answers():
            said = (self.folder / "log").read_text()
            assert self.process.poll() is None, said
            assert time.monotonic() < until, said
            time.sleep(0.01)

    def kill(self) -> None:
        """End the process at once, as a crash does."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class Redis(Broker):
    """A Redis that has each entry on its disk before it answers, with a password; with a certificate it speaks TLS and
    wants one."""

    def __init__(self, certificate: Certificate | None = None) -> None:
        self.certificate = certificate
        super().__init__("redis-server")

    def words(self) -> list[str]:
        how = {"port": self.port, "bind": "127.0.0.1", "save": "", "appendonly": "yes", "appendfsync": "always"}
        how |= {"requirepass": PASSWORD, "dir": self.folder}
        if (tls := self.certificate) is not None:
            how |= {"port": 0, "tls-port": self.port, "tls-auth-clients": "yes"}
            how |= {"tls-cert-file": tls.chain, "tls-key-file": tls.key, "tls-ca-cert-file": tls.authority}
        return [word for name, value in how.items() for word in (f"--{name}", str(value))]

    @property
    def client(self) -> Any:
        import redis

        tls: dict[str, Any] = {}
        if self.certificate is not None:
            tls = {"ssl": True, "ssl_cert_reqs": "none", "ssl_check_hostname": False}
            tls |= {"ssl_certfile": self.certificate.chain, "ssl_keyfile": self.certificate.key}
        return redis.Redis(port=self.port, password=PASSWORD, **tls)

    def answers(self) -> bool:
        import redis

        try:
            return bool(self.client.ping())
        except redis.exceptions.RedisError:
            return False

    def add(self, stream: str, rows: Sequence[Any], field: str | None = None) -> list[str]:
        """Append entries: rows as fields of their own, or messages in one field."""
        with self.client.pipeline(transaction=False) as many:
            for row in rows:
                many.xadd(stream, row if field is None else {field: row})
            return [id.decode() for id in many.execute()]

    def url(self, stream: str = "visits", **options: Any) -> str:
        words = "&".join(f"{name}={value}" for name, value in {"stream": stream, **options}.items())
        scheme = "redis" if self.certificate is None else "rediss"
        return f"{scheme}://:{PASSWORD}@127.0.0.1:{self.port}/0?{words}"


class Kafka:
    """The mock cluster of librdkafka in this process: topics of four partitions, in memory."""

    def __init__(self) -> None:
        import confluent_kafka

        self.client = confluent_kafka
        self.producer = confluent_kafka.Producer({"test.mock.num.brokers": 1, "log_level": 0})
        brokers = self.producer.list_topics(timeout=WAIT).brokers.values()
        self.address = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)

    def add(self, topic: str, payloads: Sequence[bytes | None], partitions: int = 1) -> None:
        """Append messages to the partitions in turns."""
        for i, payload in enumerate(payloads):
            self.producer.produce(topic, payload, partition=i % partitions)
        assert self.producer.flush(WAIT) == 0

    def committed(self, topic: str, group: str) -> dict[int, int]:
        """Return the offsets that a group has committed."""
        asking = self.client.Consumer({"bootstrap.servers": self.address, "group.id": group})
        wanted = [self.client.TopicPartition(topic, each) for each in range(4)]
        found = {each.partition: each.offset for each in asking.committed(wanted, timeout=WAIT) if each.offset >= 0}
        asking.close()
        return found

    def url(self, topic: str, **options: Any) -> str:
        words = "&".join(f"{name}={value}" for name, value in options.items())
        return f"kafka://{self.address}/{topic}" + (f"?{words}" if words else "")


def as_json(rows: Sequence[Any]) -> list[bytes]:
    return [json.dumps(row).encode() for row in rows]


def learner(rows: int = len(ROWS)) -> DPFTRL:
    """Return a learner that releases five times, with noise that comes again."""
    return DPFTRL(epsilon=1.0, horizon=rows, x_bound=2.0, radius=1.0, release=rows // 5, random_state=1)


def fit(url: str, run: Path, progress: Any = None, rows: int = len(ROWS), **how: Any) -> DPFTRL:
    """Learn the rows of a URL in about twenty blocks, from where the run was left."""
    stream = open_stream(url, schema=how.pop("schema", SCHEMA), block_rows=rows // 20, **how)
    return learner(rows).fit_stream(stream, checkpoint=State(run, every=rows // 10), progress=progress)


_KILLED = """
import json, os, signal, sys
from pathlib import Path

from brokers import fit
from databases import stops

url, run, blocks, how = json.loads(sys.argv[1])
fit(url, Path(run), stops(blocks, lambda: os.kill(os.getpid(), signal.SIGKILL)), **how)
"""


def killed(url: str, run: Path, blocks: int, **how: Any) -> None:
    """Learn some blocks in another process that is killed then, in the middle of a checkpoint's rows.

    The process is not forked from this one, which has clients of brokers with threads.
    """
    paths = os.pathsep.join(path for path in (str(Path(__file__).parent), os.environ.get("PYTHONPATH")) if path)
    asked = json.dumps([url, str(run), blocks, how])
    command = [sys.executable, "-c", _KILLED, asked]
    made = warm.run(command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, timeout=WAIT)
    assert made.returncode == -signal.SIGKILL, (made.returncode, made.stderr)


class Mosquitto(Broker):
    """An MQTT broker with a user and a password, whose disk has all messages that :meth:`add` has sent.

    What is acknowledged later is lost when it is killed. With a certificate it speaks TLS and wants one.
    """

    def __init__(self, certificate: Certificate | None = None) -> None:
        self.certificate = certificate
        super().__init__("mosquitto")

    def words(self) -> list[str]:
        (self.folder / "users").touch(mode=0o600)
        made = [str(Path(self.program).with_name("mosquitto_passwd")), "-b", str(self.folder / "users")]
        if not Path(made[0]).exists():
            made[0] = "mosquitto_passwd"
        subprocess.run([*made, "clinic", PASSWORD], check=True, capture_output=True, timeout=WAIT)
        how = [
            f"listener {self.port} 127.0.0.1",
            "allow_anonymous false",
            f"password_file {self.folder / 'users'}",
            "persistence true",
            f"persistence_location {self.folder}/",
            "autosave_interval 0",
            "max_queued_messages 0",
            *(["user root"] if os.getuid() == 0 else []),
        ]
        if self.certificate is not None:
            authority, chain, key = self.certificate
            how += [f"cafile {authority}", f"certfile {chain}", f"keyfile {key}", "require_certificate true"]
        (self.folder / "settings").write_text("\n".join(how) + "\n")
        return ["-c", str(self.folder / "settings")]

    def answers(self) -> bool:
        with socket.socket() as asking:
            return asking.connect_ex(("127.0.0.1", self.port)) == 0

    def made(self, name: str) -> Any:
        import paho.mqtt.client as api

        made = api.Client(api.CallbackAPIVersion.VERSION2, client_id=name, protocol=api.MQTTv5)
        made.username_pw_set("clinic", PASSWORD)
        if self.certificate is not None:
            _, chain, key = self.certificate
            made.tls_set(certfile=str(chain), keyfile=str(key), cert_reqs=ssl.CERT_NONE)
            made.tls_insecure_set(True)
        return made

    def client(self, name: str) -> Any:
        made = self.made(name)
        made.connect("127.0.0.1", self.port)
        made.loop_start()
        return made

    def add(self, topic: str, payloads: Sequence[bytes], numbers: Sequence[int] | None = None) -> None:
        """Publish messages, with numbers as a user property where they are given."""
        from paho.mqtt.packettypes import PacketTypes
        from paho.mqtt.properties import Properties

        sending, sent = self.client("sender"), []
        for i, payload in enumerate(payloads):
            properties = Properties(PacketTypes.PUBLISH)
            if numbers is not None:
                properties.UserProperty = ("seq", str(numbers[i]))
            sent.append(sending.publish(topic, payload, qos=1, properties=properties))
        for each in sent:
            each.wait_for_publish(WAIT)
        sending.disconnect()
        sending.loop_stop()
        self.save()

    def save(self) -> None:
        """Let the broker write its messages and sessions to its disk."""
        kept, until = self.folder / "mosquitto.db", time.monotonic() + WAIT
        before = kept.stat().st_mtime_ns if kept.exists() else 0
        assert self.process is not None
        self.process.send_signal(signal.SIGUSR1)
        while not kept.exists() or kept.stat().st_mtime_ns == before:  # it is renamed into its place
            assert time.monotonic() < until, (self.folder / "log").read_text()
            time.sleep(0.005)

    def url(self, topic: str, **options: Any) -> str:
        given = {"client": "model", "sequence": "seq", **options}
        words = "&".join(f"{name}={value}" for name, value in given.items())
        scheme = "mqtt" if self.certificate is None else "mqtts"
        return f"{scheme}://clinic:{PASSWORD}@127.0.0.1:{self.port}/{topic}?{words}"

    def subscribe(self, topic: str, client: str = "model") -> None:
        """Let the broker keep messages for a client from now on, as the first call of a run does."""
        from paho.mqtt.packettypes import PacketTypes
        from paho.mqtt.properties import Properties

        made, ready = self.made(client), []
        session = Properties(PacketTypes.CONNECT)
        session.SessionExpiryInterval = 0xFFFFFFFF
        made.on_connect = lambda *_: made.subscribe(topic, qos=1)
        made.on_subscribe = lambda *_: ready.append(True)
        made.connect("127.0.0.1", self.port, clean_start=False, properties=session)
        made.loop_start()
        until = time.monotonic() + WAIT
        while not ready:
            assert time.monotonic() < until
            time.sleep(0.005)
        made.disconnect()
        made.loop_stop()
