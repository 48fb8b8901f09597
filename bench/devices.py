"""Users per second when every user is a round trip: ``python bench/devices.py``.

A learner in one process, all devices in another, one TCP connection over loopback, both processes on one core. Each
user has a row of 54 features and makes one report. Figures are medians over ``--repeats`` of users per second of wall
clock, and of users per second of the two processes' own time, which other processes affect less. The following lines
split the time: the two sides alone, without a socket; the same bytes back and forth without privol; a new ``Device``
for every user, as if each were a separate machine. The limit of users per second is that of the same bytes without
privol; of answers and questions, calls, words and arithmetic.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import socket
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from figures import Limit, Row, figure, show
from limits import Work, of_noise, of_release, of_row

from privol import BANCO, LDPSGD, MIOGD
from privol.rounds import Collector, Device, receive_answer, receive_question

DIM = 54
CASES: dict[str, tuple[type[Any], dict[str, Any], dict[str, Any]]] = {
    "LDPSGD, privunit, epsilon 1": (LDPSGD, {"epsilon": 1.0}, {"epsilon": 1.0}),
    "LDPSGD, l2laplace, epsilon 1": (LDPSGD, {"epsilon": 1.0, "randomizer": "l2laplace"}, {"epsilon": 1.0}),
    "MIOGD, 0.1 nats": (MIOGD, {"leakage": 0.1}, {"leakage": 0.1}),
    "BANCO, privunit, epsilon 1": (BANCO, {"epsilon": 1.0}, {"epsilon": 1.0}),
}


def collector_of(name: str, users: int) -> Collector:
    kind, words, _ = CASES[name]
    learner = kind(horizon=users, **words)
    learner.declare_classes([0, 1])
    return Collector(learner, DIM)


def learn(name: str, users: int, pipe: Connection) -> None:
    """Act as the learner's process."""
    collector = collector_of(name, users)
    with socket.create_server(("127.0.0.1", 0)) as server:
        pipe.send(server.getsockname()[1])
        connection, _ = server.accept()
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            begun = time.process_time()
            while not collector.done:
                connection.sendall(collector.ask())
                answer = receive_answer(connection, collector.dim)
                assert answer is not None
                collector.tell(answer)
            pipe.send(time.process_time() - begun)


def echo(users: int, question: int, answer: int, pipe: Connection) -> None:
    """Act as the other side for the same number of bytes, and nothing else."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        pipe.send(server.getsockname()[1])
        connection, _ = server.accept()
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            begun, message = time.process_time(), bytes(question)
            for _ in range(users):
                connection.sendall(message)
                connection.recv(answer)
            pipe.send(time.process_time() - begun)


def beside(target: Callable[..., None], *arguments: Any, play: Callable[[socket.socket], None]) -> tuple[float, float]:
    """Play against another process; return wall clock and the processor time of both."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=target, args=(*arguments, theirs))
    process.start()
    with socket.create_connection(("127.0.0.1", ours.recv())) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        wall, own = time.perf_counter(), time.process_time()
        play(connection)
        wall, own = time.perf_counter() - wall, time.process_time() - own
        other = ours.recv()
    process.join()
    return wall, own + other


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=10_000, help="of a repeat")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--core", type=int, help="which core (default: the last that is allowed)")
    options = parser.parse_args()
    core = max(os.sched_getaffinity(0)) if options.core is None else options.core
    os.sched_setaffinity(0, {core})  # children too
    n = options.users
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, DIM)) / DIM**0.5
    targets = (X[:, 0] > 0.0).astype(float).tolist()

    print(f"{n} users of {DIM} features, both processes on core {core}; a million a minute is 16,667 users/s")
    print(f"{'users/s':32s}{'median':>10s}{'best':>10s}{'of own time':>14s}{'best':>10s}")
    speeds: dict[str, tuple[float, float]] = {}
    for name, (_, _, limits) in CASES.items():
        walls, times = [], []
        for _ in range(options.repeats):
            device = Device(n_features=DIM, reports=n, **limits)

            def play(connection: socket.socket, device: Device = device) -> None:
                for x, y in zip(X, targets, strict=True):
                    question = receive_question(connection, device.dim)
                    assert question is not None
                    connection.sendall(device.answer(question, x, y))

            wall, own = beside(learn, name, n, play=play)
            walls.append(n / wall)
            times.append(n / own)
        speeds[name] = statistics.median(walls), statistics.median(times)
        print(
            f"{name:32s}{statistics.median(walls):10,.0f}{max(walls):10,.0f}{statistics.median(times):14,.0f}"
            f"{max(times):10,.0f}"
        )

    print("\nmicroseconds a user, of own time")
    table: list[Row] = []
    for name, (_, _, limits) in CASES.items():
        collector, device = collector_of(name, n), Device(n_features=DIM, reports=n, **limits)
        asked = answered = told = 0.0
        for x, y in zip(X, targets, strict=True):
            a = time.perf_counter()
            question = collector.ask()
            b = time.perf_counter()
            answer = device.answer(question, x, y)
            c = time.perf_counter()
            collector.tell(answer)
            asked, answered, told = asked + b - a, answered + c - b, told + time.perf_counter() - c
        print(f"{name:32s}asks {asked / n * 1e6:.1f}, answers {answered / n * 1e6:.1f}, learns {told / n * 1e6:.1f}")
        answer_needs = Work(calls=1) + replace(of_row(DIM, DIM), memory=0.0) + Work(blocks=0.5 * DIM)
        if name.startswith("MIOGD"):
            answer_needs = Work(calls=1) + replace(of_row(DIM, DIM), memory=0.0) + of_noise(DIM)
        message = Work(calls=1, near=8.0 * DIM)
        for what, own, work in (
            ("asks", asked, message),
            ("answers", answered, answer_needs),
            ("learns", told, message + of_release(DIM)),
        ):
            title = f"{name}: {what}"
            table.append(figure(title, "us/user", own / n * 1e6, limit=work.limit("us/user")))
    name = next(iter(CASES))
    question = collector_of(name, 1).ask()
    size = len(Device(n_features=DIM, epsilon=1.0).answer(question, X[0], targets[0]))

    def bare(connection: socket.socket) -> None:
        message = bytes(size)
        for _ in range(n):
            connection.recv(len(question))
            connection.sendall(message)

    _, own = beside(echo, n, len(question), size, play=bare)
    print(f"{'the same bytes, without privol':32s}{own / n * 1e6:.1f} ({len(question)} bytes there, {size} back)")
    alone = Limit(n / own, "the same bytes there and back between two processes on this core, without privol")
    for case, (wall_speed, own_speed) in speeds.items():
        for what, speed in (("wall clock", wall_speed), ("own time", own_speed)):
            table.append(figure(f"{case}, of {what}", "users/s", speed, limit=alone, aim="16,667"))
    few = min(n, 5000)
    begun = time.process_time()
    for x, y in zip(X[:few], targets, strict=False):
        Device(n_features=DIM, epsilon=1.0).answer(question, x, y)
    print(f"{'a new Device for every user':32s}{(time.process_time() - begun) / few * 1e6:.1f} (of the first case)")
    show(table)


if __name__ == "__main__":
    main()
