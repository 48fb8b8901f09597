"""Predictions over HTTP beside a bare answer, at rest and while a run learns: ``python bench/serve.py``.

Three servers run in processes of their own, all of them uvicorn with the same settings: a bare ASGI application, which
reads the body and answers with as many bytes as privol does; a service of a model that rests; and one whose process
learns at full speed meanwhile, keeps every block on the disk and serves each release. One client asks them in turn,
``--rounds`` times for ``--seconds``, over ``--connections`` connections that each wait for their answer. Client and
servers share the processors. Figures are medians of rounds; ratios are taken within a round.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from figures import Row, figure, no_limit, show
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
DIM, BLOCK_ROWS = 54, 8192
HORIZON = 400_000_000  # out of reach: a run that ends stops its server
KINDS = ("bare", "at rest", "while it learns")


# ---- the servers: python bench/serve.py --serve KIND FOLDER -------------------------------------------------


@dataclass
class Block:
    """Rows of a stream."""

    X: FloatArray
    y: FloatArray
    first_row: int


class Endless:
    """The same sixteen blocks in turn, until standard input is closed; `learnt`: rows so far."""

    classes = (0, 1)
    n_rows = HORIZON

    def __init__(self, done: threading.Event) -> None:
        self.done, self.learnt = done, 0
        self.blocks = [rows(BLOCK_ROWS, seed) for seed in range(16)]

    def __iter__(self) -> Iterator[Block]:
        for k in range(HORIZON // BLOCK_ROWS):
            if self.done.is_set():
                return
            X, y = self.blocks[k % 16]
            yield Block(X, y, k * BLOCK_ROWS + 1)
            self.learnt += BLOCK_ROWS


def rows(n: int, seed: int) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, DIM))
    return X / np.linalg.norm(X, axis=1, keepdims=True), (X[:, 0] > 0).astype(np.float64)


def model(**words: Any) -> Any:
    from privol import DPFTRL

    return DPFTRL(epsilon=1.0, batch=64, **words)


def serve(kind: str, folder: Path) -> None:
    """Serve until standard input is closed; lines on standard output say the port, and the rows that are learnt."""
    from privol.serving import Limits, Service
    from privol.state import State, save_model

    warnings.simplefilter("ignore")
    done = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), done.set()), daemon=True).start()
    if kind == "bare":
        bare(done, int(folder.name))
        return
    if kind == "at rest":
        save_model(model().fit(*rows(20_000, 99)), folder)
    stream = Endless(done)
    limits = Limits(rate=1e9, connections=1000)
    with Service(folder, port=0, limits=limits, learns=kind != "at rest") as service:
        tell(service.port)
        if kind == "at rest":
            done.wait()
            return

        def count() -> None:
            while not done.wait(0.5):
                print(json.dumps([time.perf_counter(), stream.learnt]), flush=True)

        threading.Thread(target=count, daemon=True).start()
        state = State(folder, show_releases=True)
        model(horizon=HORIZON).fit_stream(
            stream, checkpoint=state, progress=lambda learner, _: service.offer(learner, None)
        )


def bare(done: threading.Event, size: int) -> None:
    """The least that an ASGI application does: read the body, answer bytes."""
    import socket

    import uvicorn

    content = b"x" * size
    head = [(b"content-type", b"application/json"), (b"content-length", str(size).encode())]

    async def app(scope: Any, receive: Callable[[], Any], send: Callable[[Any], Any]) -> None:
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": content})

    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
    )
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen(2048)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    tell(listener.getsockname()[1])
    done.wait()
    server.should_exit = True
    thread.join()


def tell(port: int) -> None:
    print(json.dumps({"port": port}), flush=True)


class Server:
    """A server in a process of its own."""

    def __init__(self, kind: str, folder: Path) -> None:
        command = [sys.executable, __file__, "--serve", kind, str(folder)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.port = int(json.loads(self.process.stdout.readline())["port"])
        self.counts: list[tuple[float, int]] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.counts.append(tuple(json.loads(line)))

    def rate(self, since: int) -> float:
        """Rows a second that it learnt, from one of its counts on."""
        (begun, before), (ended, after) = self.counts[since], self.counts[-1]
        return (after - before) / (ended - begun)

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


# ---- the client --------------------------------------------------------------------------------------------


@dataclass
class Load:
    """What the clients of a server saw."""

    requests: float  # a second
    p50: float  # milliseconds
    p99: float


async def one(port: int, request: bytes, until: float, times: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while time.perf_counter() < until:
        began = time.perf_counter()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(head.decode())
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(int(length.split(b":")[1]))
        times.append(time.perf_counter() - began)
    writer.close()


def load(server: Server, request: bytes, connections: int, seconds: float) -> Load:
    times: list[float] = []

    async def all_of_them() -> None:
        until = time.perf_counter() + seconds
        await asyncio.gather(*(one(server.port, request, until, times) for _ in range(connections)))

    asyncio.run(all_of_them())
    ranked = sorted(times)
    return Load(len(times) / seconds, 1e3 * ranked[len(ranked) // 2], 1e3 * ranked[int(0.99 * len(ranked))])


def request_of(n: int) -> bytes:
    body = json.dumps({"rows": rows(n, 7)[0].round(4).tolist()}).encode()
    head = "POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def answer_bytes(server: Server, request: bytes) -> int:
    async def ask() -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        writer.close()
        return int(head.split(b"content-length:")[1].split(b"\r\n")[0])

    return asyncio.run(ask())


def measure(n: int, options: argparse.Namespace, folder: Path) -> list[Row]:
    request = request_of(n)
    with contextlib.ExitStack() as stack:

        def started(kind: str, name: str) -> Server:
            server = Server(kind, folder / name)
            stack.callback(server.close)
            return server

        rest = started("at rest", f"rest-{n}")
        learning = started("while it learns", f"learning-{n}")
        servers = dict(zip(KINDS, (started("bare", str(answer_bytes(rest, request))), rest, learning), strict=True))
        while len(learning.counts) < 6:  # it has a model, and is warm
            time.sleep(0.1)
        alone = learning.rate(1)
        for server in servers.values():
            load(server, request, options.connections, 0.5)
        found: dict[str, list[Load]] = {kind: [] for kind in KINDS}
        rates = []
        for _ in range(options.rounds):
            for kind in KINDS:
                since = len(learning.counts)
                found[kind].append(load(servers[kind], request, options.connections, options.seconds))
                if kind == KINDS[2] and len(learning.counts) > since + 1:
                    rates.append(learning.rate(since))
    return told(n, found, alone, rates)


def told(n: int, found: dict[str, list[Load]], alone: float, rates: list[float]) -> list[Row]:
    shown, reason = [], no_limit("what HTTP takes in Python is in the peer")
    what = "1 row" if n == 1 else f"{n} rows"

    def middle(kind: str, field: str) -> float:
        return statistics.median(getattr(each, field) for each in found[kind])

    for kind in KINDS[1:]:
        pairs = list(zip(found[kind], found["bare"], strict=True))
        words: dict[str, Any] = {"limit": reason, "peer_name": "bare ASGI"}
        speeds = [each.requests / peer.requests for each, peer in pairs]
        shown.append(
            figure(f"requests of {what}, {kind}", "requests/s", middle(kind, "requests"),
                   peer=middle("bare", "requests"), ratios=speeds, aim="0.33x" if n == 1 else "none", **words)
        )  # fmt: skip
        slower = [peer.p99 / each.p99 for each, peer in pairs]
        shown.append(
            figure(
                f"p99 of {what}, {kind}", "ms", middle(kind, "p99"), peer=middle("bare", "p99"), ratios=slower, **words
            )
        )
    if rates:
        shown.append(
            figure(f"learning, while requests of {what} are asked", "rows/s", statistics.median(rates), peer=alone,
                   peer_name="the same, not asked", limit=no_limit("the two share the processors"))
        )  # fmt: skip
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each server in a round")
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--serve", nargs=2, metavar=("KIND", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        serve(options.serve[0], Path(options.serve[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        show([row for n in (1, 64) for row in measure(n, options, Path(folder))])


if __name__ == "__main__":
    main()
