"""A learner and its users' devices as two processes: rows stay with the devices, and only noisy gradients are sent.

    python examples/devices.py                                                # both, on the rows that come with privol
    python examples/devices.py rows.csv --target outcome --classes no,yes --ranges ranges.json --learner banco
    python examples/devices.py rows.csv --schema rows.toml --radius 5

    python examples/devices.py --listen 127.0.0.1:7000 --features 54 --users 100000 --out model
    python examples/devices.py rows.csv --target outcome --classes no,yes --connect 127.0.0.1:7000 --epsilon 1

Without --listen or --connect this process plays the devices and starts the learner as another process, which receives
public numbers alone. Every row is a user, who answers once. --epsilon (with --delta, or --leakage) is what the learner
requests, and the most that devices accept: with --connect that is their owner's choice, and a learner that requests
less noise gets no report. The traffic is public except for the identity of the participants; put TLS around it if it
leaves a machine. With --seed the devices' noise is reproducible, so NOT PRIVATE, and the model is compared with that of
the estimator, which has rows and learner in one process: the same bits.
"""

from __future__ import annotations

import argparse
import math
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from privol import BANCO, LDPSGD, MIOGD, MultiscaleSGD, open_stream
from privol.data import open_covtype
from privol.errors import InvalidMessage, PrivolError
from privol.losses import get_loss
from privol.rounds import Collector, Device, receive_answer, receive_question
from privol.state import load_model, save_model

LEARNERS = {"ldpsgd": LDPSGD, "multiscale": MultiscaleSGD, "banco": BANCO, "miogd": MIOGD}
PATIENCE = 30.0  # seconds for an answer; then the next device gets the round


# ---- the learner: it never sees a row -----------------------------------------------------------------------------


def make_learner(options: argparse.Namespace, horizon: int) -> Any:
    """Return the learner that the options say."""
    words: dict[str, Any] = {"loss": options.loss, "x_bound": options.x_bound, "y_bound": options.y_bound}
    words |= {"delta": options.delta or 1e-6, "horizon": horizon, "random_state": options.seed, "on_invalid": "zero"}
    if options.learner == "miogd" and options.leakage is not None:
        words["leakage"] = options.leakage
    else:
        words["epsilon"] = options.epsilon
    if options.learner != "miogd":
        words["randomizer"] = options.randomizer
    if options.learner in ("ldpsgd", "miogd"):
        words["radius"] = options.radius
    return LEARNERS[options.learner](**words)


def play_learner(options: argparse.Namespace) -> None:
    """Ask the devices that connect, one after another, until the horizon is used up."""
    learner = make_learner(options, options.users)
    if get_loss(options.loss).kind == "classification":
        learner.declare_classes([0, 1])  # positions in --classes, which devices know: those of learners are sorted
    collector = Collector(learner, options.features)
    refused = 0
    with socket.create_server(address(options.listen)) as server:
        print(f"listening on port {server.getsockname()[1]}", flush=True)
        while not collector.done:
            connection, _ = server.accept()
            with connection:
                try:
                    ask_devices(collector, connection)
                except (InvalidMessage, OSError) as error:  # nothing was learnt from it: the round is asked again
                    refused += 1
                    print(f"round {collector.round}, a device was dropped: {error}", flush=True)
    learner.close()
    save_model(learner, options.out)
    print(f"{learner.n_rows_} reports learnt, {refused} devices dropped; model in {options.out}")
    print(learner.guarantee_.sentence())


def ask_devices(collector: Collector, connection: socket.socket) -> None:
    """Play rounds with the other side, one device or many one after another, until it leaves."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.settimeout(PATIENCE)
    while not collector.done:
        connection.sendall(collector.ask())
        answer = receive_answer(connection, collector.dim, seconds=PATIENCE)
        if answer is None:
            return
        collector.tell(answer)


# ---- the devices: they see rows ------------------------------------------------------------------------------------


def open_rows(options: argparse.Namespace) -> Any:
    """Open the table, or the embedded one."""
    if options.file is None:
        return open_covtype()
    words = {"target": options.target, "classes": options.classes, "ranges": options.ranges, "schema": options.schema}
    return open_stream(options.file, **{word: value for word, value in words.items() if value is not None})


def users(stream: Any, most: int) -> Iterator[tuple[np.ndarray, float]]:
    """Yield every user's row and target, up to a number of users."""
    left = most
    for block in stream:
        X = block.X if isinstance(block.X, np.ndarray) else block.X.toarray()
        yield from zip(X[:left], block.y.tolist(), strict=False)
        left -= len(X[:left])
        if not left:
            return


def play_devices(options: argparse.Namespace, stream: Any, most: int, host: tuple[str, int]) -> int:
    """Answer for one user after another, and return how many answered."""
    limits = {"epsilon": options.epsilon, "delta": options.delta, "leakage": options.leakage}
    if options.leakage is not None:
        limits |= {"epsilon": None, "delta": None}
    device = Device(  # one for all users, each with separate words of its noise; a real device makes one report
        n_features=stream.n_features, loss=options.loss, reports=most, random_state=options.seed, **limits
    )
    with socket.create_connection(host) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for x, y in users(stream, most):
            question = receive_question(connection, device.dim)
            if question is None:
                break
            connection.sendall(device.answer(question, x, y))
        else:
            connection.shutdown(socket.SHUT_WR)
            # another question, until the learner has read the last report and sees the end
            while connection.recv(4096):
                pass
    return device.n_reports


# ---- both ----------------------------------------------------------------------------------------------------------


def play_both(options: argparse.Namespace) -> None:
    """Start the learner as another process, play the devices, and inspect the model."""
    stream = open_rows(options)
    most = min(options.users or math.inf, stream.n_rows or stream.count_rows())
    with tempfile.TemporaryDirectory() as folder:
        out = Path(options.out or Path(folder) / "model")
        command = [sys.executable, __file__, "--listen", "127.0.0.1:0", f"--features={stream.n_features}"]
        command += [f"--users={most}", f"--out={out}"]
        for word in (
            "learner",
            "loss",
            "epsilon",
            "delta",
            "leakage",
            "randomizer",
            "radius",
            "x_bound",
            "y_bound",
            "seed",
        ):
            value = getattr(options, word)
            if value is not None:
                command.append(f"--{word.replace('_', '-')}={value}")
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as learner:
            assert learner.stdout is not None
            first = learner.stdout.readline()
            if not first.startswith("listening"):
                raise SystemExit(first + learner.stdout.read())
            try:
                answered = play_devices(options, stream, most, ("127.0.0.1", int(first.split()[-1])))
            except BaseException:
                learner.terminate()
                raise
            print(f"the devices have made {answered} reports. The learner, in its own process, says:")
            print(learner.stdout.read(), end="")
        if learner.returncode:
            raise SystemExit(learner.returncode)
        model: Any = load_model(out)
    X, y = (np.array(part) for part in zip(*users(open_rows(options), most), strict=True))
    score = model.score(X, y)
    print(f"score on the rows themselves (NOT PRIVATE): {score:.4f}")
    if options.seed is not None:
        joined = make_learner(options, most)
        joined.fit(X, y)
        same = bool(np.array_equal(joined.coef_, model.coef_) and np.array_equal(joined.intercept_, model.intercept_))
        print(f"the estimator that joins both has the same bits: {'yes' if same else 'NO'}")
        if not same:
            raise SystemExit(1)


def address(text: str) -> tuple[str, int]:
    """Read HOST:PORT."""
    host, _, port = text.rpartition(":")
    return host or "127.0.0.1", int(port)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", help="table of rows (default: the embedded Covertype rows)")
    parser.add_argument("--target", help="its column of labels or targets")
    parser.add_argument("--classes", type=lambda text: text.split(","), help="NEGATIVE,POSITIVE: the public labels")
    parser.add_argument("--ranges", help="JSON file of public ranges by column")
    parser.add_argument("--schema", help="TOML file of what is public of the columns, instead of these three")
    parser.add_argument("--learner", choices=LEARNERS, default="ldpsgd")
    parser.add_argument("--loss", default="logistic")
    parser.add_argument("--epsilon", type=float, default=4.0, help="of a report (default: 4; 1 takes many users)")
    parser.add_argument("--delta", type=float, help="of Gaussian reports; without it devices make none by --epsilon")
    parser.add_argument("--leakage", type=float, help="of a report of miogd, in nats, instead of --epsilon")
    parser.add_argument("--randomizer", default="privunit", help="privunit, duchi, l2laplace, laplace or gaussian")
    parser.add_argument("--radius", type=float, default=5.0, help="of the models' ball (default: 5): ldpsgd, miogd")
    parser.add_argument("--x-bound", type=float, default=1.0, help="rows are scaled to this norm (default: 1)")
    parser.add_argument("--y-bound", type=float, default=1.0, help="real targets are clipped to it (default: 1)")
    parser.add_argument("--users", type=int, help="how many answer (default: all rows); with --listen the horizon")
    parser.add_argument("--seed", type=int, help="reproducible noise, for tests: NOT PRIVATE")
    parser.add_argument("--out", help="new folder for the model")
    parser.add_argument("--listen", metavar="HOST:PORT", help="play the learner alone")
    parser.add_argument("--features", type=int, help="with --listen: features of a row")
    parser.add_argument("--connect", metavar="HOST:PORT", help="play the devices alone")
    options = parser.parse_args()
    try:
        play(options, parser)
    except PrivolError as error:
        raise SystemExit(f"{type(error).__name__}: {error}") from None


def play(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Play the role that the options select."""
    if options.listen:
        if not (options.features and options.users and options.out):
            parser.error("--listen needs --features, --users and --out")
        if options.file is not None:
            parser.error("the learner takes no rows")
        play_learner(options)
    elif options.connect:
        stream = open_rows(options)
        most = options.users or stream.n_rows or stream.count_rows()
        print(f"{play_devices(options, stream, most, address(options.connect))} reports made")
    else:
        play_both(options)


if __name__ == "__main__":
    main()
