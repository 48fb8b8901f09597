"""Kill runs that read from a server at random instants, and the server, and compare what they come to.

Run from the checkout: ``python tools/kill_sources.py redis kafka mqtt http s3 --kills 300``. Redis and mosquitto are
started on loopback, and killed now and then (-9); each has its messages on the disk. Kafka is librdkafka's mock
cluster, whose messages are in memory: its process is stopped for a while instead. A web server has the rows as a file,
and an object store as an object; they are killed, and come back. The seed is fixed; the moment of a kill also depends
on the speed of the machine.

Some messages cannot be read and are set aside; of MQTT's some are sent twice. After each kill the next process goes on.
Whatever happened:

* the released models have the bits of a run without kills, and the ledger says the same of it;
* each message was acknowledged when the run had ended, and, as long as it lasted, none that no checkpoint had.

Exit code 1: something else was found. The process forks its children after everything is imported.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

import confluent_kafka
import paho.mqtt.client
import redis
from brokers import SCHEMA, Kafka, Mosquitto, Redis, free_port
from kill_forks import code_of, drive, forked
from object_store import KEY, LocalStore

from privol import DPFTRL, PIGD, PQFTL, open_stream
from privol.ledger import Ledger
from privol.state import State, load_model

N = 3000
ROWS = [{"x": (-1) ** i * (i % 97) / 97, "town": f"user {i * i % 301}", "y": i % 2} for i in range(N)]
BAD = {700: b'{"x": 0.5, "to', 1500: b'{"x": "much", "y": 1}', 2300: b"[]"}
#: Seconds for which a run may be under way when it is struck, and a broker away.
LONGEST, AWAY = 1.2, 0.6
STATED: dict[str, Any] = {**SCHEMA, "file": {"format": "jsonl", "names": ["x", "town", "y"]}}
ONE = {"epsilon": 1.0, "radius": 1.0, "x_bound": 2.0, "random_state": 1}
JOBS: dict[str, Callable[[], Any]] = {
    "dpftrl": lambda: DPFTRL(horizon=N, release=97, **ONE),
    "pqftl": lambda: PQFTL(loss="squared", horizon=N, release=500, **ONE),
    "pigd": lambda: PIGD(horizon=N, release=211, **ONE),
}


def payloads() -> list[bytes]:
    """All messages in their order, those that cannot be read among them."""
    found = []
    for i, row in enumerate(ROWS):
        if i in BAD:
            found.append(BAD[i])
        found.append(json.dumps(row).encode())
    return found


@dataclass
class Tally:
    """What was done to the runs of a kind of broker."""

    kind: str
    runs: int = 0
    kills: int = 0
    outages: int = 0
    again: int = 0


class Source(ABC):
    """A server with the messages, for one run after the other, each under a name of its own."""

    bad = len(BAD)

    def __init__(self) -> None:
        self.messages = payloads()

    def ready(self, name: str) -> None:  # noqa: B027  most brokers have them from the beginning
        """Have the messages ready for a run."""

    @abstractmethod
    def url(self, name: str, aside: Path) -> str:
        """Return the URL of a run."""

    @abstractmethod
    def strike(self, seconds: float) -> None:
        """Let the broker be away for a while."""

    @abstractmethod
    def acknowledged(self, name: str) -> int | None:
        """Return how many messages are acknowledged, where the broker says it."""

    @abstractmethod
    def close(self) -> None:
        """Stop the broker."""


class RedisSource(Source):
    def __init__(self) -> None:
        super().__init__()
        self.server = Redis()
        self.ids = self.server.add("visits", self.messages, "m")

    def url(self, name: str, aside: Path) -> str:
        return self.server.url(field="m", group=name, rows=N, quarantine=aside)

    def strike(self, seconds: float) -> None:
        self.server.kill()
        time.sleep(seconds)
        self.server.start()

    def acknowledged(self, name: str) -> int | None:
        groups = {group["name"].decode(): group for group in self.server.client.xinfo_groups("visits")}
        if name not in groups:
            return 0
        pending = self.server.client.xpending("visits", name)
        if pending["pending"]:
            return self.ids.index(pending["min"].decode())
        last = groups[name]["last-delivered-id"].decode()
        return self.ids.index(last) + 1 if last in self.ids else 0

    def close(self) -> None:
        self.server.close()


class KafkaSource(Source):
    """The mock cluster, in a process of its own."""

    def __init__(self) -> None:
        super().__init__()
        reading, writing = os.pipe()
        self.process = os.fork()
        if not self.process:
            cluster = Kafka()
            cluster.add("visits", self.messages)
            os.write(writing, cluster.address.encode())
            while True:
                time.sleep(60)
        self.address = os.read(reading, 1000).decode()

    def url(self, name: str, aside: Path) -> str:
        return f"kafka://{self.address}/visits?group={name}&rows={N}&quarantine={aside}"

    def strike(self, seconds: float) -> None:
        os.kill(self.process, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(self.process, signal.SIGCONT)

    def acknowledged(self, name: str) -> int | None:
        asking = confluent_kafka.Consumer({"bootstrap.servers": self.address, "group.id": name})
        (found,) = asking.committed([confluent_kafka.TopicPartition("visits", 0)], timeout=60)
        asking.close()
        return max(int(found.offset), 0)

    def close(self) -> None:
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)


class MqttSource(Source):
    def __init__(self) -> None:
        super().__init__()
        self.server, self.rng = Mosquitto(), random.Random(7)
        self.again = 0

    def ready(self, name: str) -> None:
        self.server.subscribe(name, name)
        sent = []
        for i in range(len(self.messages)):
            sent.append(i)
            if self.rng.random() < 0.01:
                sent += range(max(i - 5, 0), i + 1)
        self.again += len(sent) - len(self.messages)
        self.server.add(name, [self.messages[i] for i in sent], [i + 1 for i in sent])

    def url(self, name: str, aside: Path) -> str:
        return self.server.url(name, client=name, rows=N, quarantine=aside)

    def strike(self, seconds: float) -> None:
        self.server.kill()
        time.sleep(seconds)
        self.server.start()

    def acknowledged(self, name: str) -> int | None:
        return None  # only its client can ask, and that would be another session

    def close(self) -> None:
        self.server.close()


class FileSource(Source):
    """A file of a web server, which tells a client that comes back whether it is still the same one."""

    bad = 0
    scheme = "http"

    def __init__(self) -> None:
        super().__init__()
        lines = [json.dumps(row).encode() for row in ROWS]
        self.content = b"".join(line[:-1] + b" " * 2000 + b"}\n" for line in lines)  # many ranges
        self.port = free_port()
        self.start()

    def start(self) -> None:
        """Serve the file from a process of its own."""
        reading, writing = os.pipe()
        self.process = os.fork()
        if not self.process:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # clients that are killed are no news
            store = LocalStore(self.port, public=self.scheme == "http")
            store.put("rows.jsonl", self.content)
            os.write(writing, b"!")
            while True:
                time.sleep(60)
        os.read(reading, 1)
        os.close(reading)
        os.close(writing)

    def url(self, name: str, aside: Path) -> str:
        if self.scheme == "http":
            return f"http://127.0.0.1:{self.port}/bucket/rows.jsonl"
        return f"s3://me:{KEY}@bucket/rows.jsonl?endpoint_override=127.0.0.1:{self.port}&scheme=http&region=us-east-1"

    def strike(self, seconds: float) -> None:
        self.close()
        time.sleep(seconds)
        self.start()

    def acknowledged(self, name: str) -> int | None:
        return None

    def close(self) -> None:
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)


class ObjectSource(FileSource):
    """An object of a store that speaks S3."""

    scheme = "s3"


SOURCES: dict[str, type[Source]] = {
    "redis": RedisSource,
    "kafka": KafkaSource,
    "mqtt": MqttSource,
    "http": FileSource,
    "s3": ObjectSource,
}


class Campaign:
    """One kind of broker, with what its runs come to when nobody disturbs them."""

    def __init__(self, kind: str, folder: Path, rng: random.Random) -> None:
        self.folder, self.rng, self.tally = folder, rng, Tally(kind)
        self.source = SOURCES[kind]()
        self.wanted: dict[str, Any] = {}
        self.seconds: dict[str, float] = {}
        try:
            for job in JOBS:
                run, name, began = folder / f"whole-{job}", f"whole-{job}", time.monotonic()
                self.source.ready(name)
                code = code_of(forked(folder, lambda run=run, name=name, job=job: self.learn(job, run, name)))
                assert code == 0, (folder / "log").read_text()[-3000:]
                self.seconds[job], self.wanted[job] = time.monotonic() - began, self.found(run)
        except BaseException:
            self.source.close()
            raise

    def learn(self, job: str, run: Path, name: str) -> None:
        """Learn the rows, from where the run was left; not too fast to be struck."""
        state = State(run, every=100)
        stream = open_stream(self.source.url(name, self.folder / f"aside-{name}"), schema=STATED, block_rows=64)
        JOBS[job]().fit_stream(stream, checkpoint=state, progress=lambda *_: time.sleep(0.002))

    @staticmethod
    def found(run: Path) -> Any:
        """What a run has released, in every bit, and what its ledger says, without what was reserved and given back."""
        model, ledger = load_model(run), Ledger.read(run / "ledger.jsonl")
        entries = [(e.rows, e.releases, e.mu_squared, e.open) for e in ledger.entries() if e.rows or e.open]
        return model.coef_.tobytes(), model.average_coef_.tobytes(), entries

    def check_acknowledged(self, name: str, run: Path) -> None:
        """Nothing may be acknowledged that no checkpoint has."""
        told = self.source.acknowledged(name)
        if told is None or not (run / "secret" / "run.json").exists():
            return
        kept = State(run).next_row() - 1
        assert told <= kept + sum(at <= kept for at in BAD), (told, kept)

    def run(self) -> None:
        """Let one run come to its end, over any number of kills."""
        job, run = self.rng.choice(list(JOBS)), self.folder / "RUN"
        name = f"run-{self.tally.runs}"
        shutil.rmtree(run, ignore_errors=True)
        self.source.ready(name)
        while not (run / "model.json").exists() or (run / "secret").exists():
            child = forked(self.folder, lambda: self.learn(job, run, name))
            time.sleep(self.rng.uniform(0.02, min(self.seconds[job] * 1.1, LONGEST)))
            if self.rng.random() < 0.15:
                self.source.strike(self.rng.uniform(0.0, AWAY))
                self.tally.outages += 1
                if self.rng.random() < 0.5:  # it goes on when the broker is back
                    time.sleep(self.rng.uniform(0.1, LONGEST))
            os.kill(child, signal.SIGKILL)
            code = code_of(child)
            self.tally.kills += code == -signal.SIGKILL
            said = self.folder / "log"
            log = said.read_text()[-3000:] if said.exists() else ""
            # opened while the broker was away; or it had ended just before it was killed
            away = "cannot be read: " in log and "StreamError" in log and "lost" not in log
            assert code in (0, -signal.SIGKILL) or away or "is finished" in log, (code, job, log)
            said.unlink(missing_ok=True)
            self.check_acknowledged(name, run)
        assert self.found(run) == self.wanted[job], (job, self.found(run)[2], self.wanted[job][2])
        aside = sorted(path.name for path in (self.folder / f"aside-{name}").glob("*.message"))
        assert len(aside) == self.source.bad, aside
        told = self.source.acknowledged(name)
        assert told in (None, N + len(BAD)), told
        shutil.rmtree(self.folder / f"aside-{name}", ignore_errors=True)
        self.tally.runs += 1

    def close(self) -> None:
        self.source.close()

    def cells(self) -> tuple[object, ...]:
        return self.tally.kind, self.tally.runs, self.tally.kills, self.tally.outages, getattr(self.source, "again", 0)


HEADINGS = "| broker | runs | processes killed | outages of the broker | messages sent twice |"

if __name__ == "__main__":
    assert paho.mqtt.client, redis  # imported before the processes are forked
    drive(__doc__, tuple(SOURCES), 300, HEADINGS, Campaign)
