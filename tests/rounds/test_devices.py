"""Devices and learner as two processes, as in the example: the traffic, failures, and the model."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import struct
import subprocess
import sys

import numpy as np
import pytest
import warm
from leaks import Secrets
from patience import WAIT
from places import ROOT

from privol import BANCO, LDPSGD, MIOGD, MultiscaleSGD
from privol._core._local import PointGradients
from privol.losses import get_loss
from privol.noise.bits import new_key
from privol.rounds import Device, receive_question
from privol.rounds._messages import ANSWER, QUESTION, parse_question, read_place, size_of
from privol.rounds._terms import Terms
from privol.state import load_model

pytestmark = pytest.mark.process

EXAMPLE = ROOT / "examples" / "devices.py"
FEATURES = 6
SEED = 4

# The learner's options, the device's limits, and the equivalent estimator.
CASES = {
    "miogd": (["--learner=miogd", "--leakage=0.2"], {"leakage": 0.2}, MIOGD(leakage=0.2, radius=5.0)),
    "privunit": (["--epsilon=1"], {"epsilon": 1.0}, LDPSGD(epsilon=1.0, radius=5.0)),
    "banco": (
        ["--learner=banco", "--epsilon=2", "--randomizer=l2laplace"],
        {"epsilon": 2.0},
        BANCO(epsilon=2.0, randomizer="l2laplace"),
    ),
    "multiscale": (["--learner=multiscale", "--epsilon=2"], {"epsilon": 2.0}, MultiscaleSGD(epsilon=2.0)),
}


def environment():
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONUNBUFFERED": "1"}


def rows(n):
    rng = np.random.default_rng(7)
    X = rng.normal(size=(n, FEATURES))
    return X, (X @ np.arange(1.0, FEATURES + 1) + rng.normal(size=n) > 0).astype(float)


def estimator(name, X, y):
    return CASES[name][2].set_params(random_state=SEED).fit(X, y)


class Learner:
    """The learner of the example, as a separate process."""

    def __init__(self, name, users, out):
        self.out = out
        options = [
            f"--features={FEATURES}",
            f"--users={users}",
            f"--out={out}",
            f"--seed={SEED}",
            "--listen=127.0.0.1:0",
        ]
        self.process = warm.Popen(
            [sys.executable, str(EXAMPLE), *CASES[name][0], *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment(),
        )
        first = self.process.stdout.readline()
        assert first.startswith("listening on port "), first + self.process.stdout.read()
        self.port = int(first.split()[-1])

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def connect(self):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=WAIT)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def end(self):
        """Wait for its end; return its output and the model."""
        said, _ = self.process.communicate(timeout=WAIT)
        assert self.process.returncode == 0, said
        return said, load_model(self.out)


def answer_with(device, X, y, connection, wire):
    """Answer for these users, and record all traffic."""
    for x, target in zip(X, y, strict=True):
        question = receive_question(connection, device.dim)
        answer = device.answer(question, x, target)
        connection.sendall(answer)
        wire += [question, answer]
    leave(connection)


def round_of(question):
    return read_place(parse_question(question, FEATURES + 1)[0])[1]


def leave(connection):
    """End a connection like a device with no further answer: another question may have arrived."""
    connection.shutdown(socket.SHUT_WR)
    while connection.recv(4096):
        pass


@pytest.mark.parametrize("name", CASES)
def test_two_processes_are_the_estimator_and_no_secret_crosses_the_wire(name, tmp_path):
    X, y = rows(200)
    device = Device(n_features=FEATURES, reports=len(X), random_state=SEED, **CASES[name][1])
    wire = []
    with Learner(name, len(X), tmp_path / "model") as learner:
        for part in (slice(0, 1), slice(1, 120), slice(120, 200)):  # devices connect and disconnect
            with learner.connect() as connection:
                answer_with(device, X[part], y[part], connection, wire)
        said, model = learner.end()
    fitted = estimator(name, X, y)
    assert model.coef_.tobytes() == fitted.coef_.tobytes()
    assert model.average_coef_.tobytes() == fitted.average_coef_.tobytes()
    assert "200 reports learnt, 0 devices dropped" in said
    assert "NOT PRIVATE" in said  # the seed

    secrets, gradients = Secrets(), []
    for question, x, target in zip(wire[::2], X, y, strict=True):
        _, content, point = parse_question(question, device.dim)
        stated = Terms.unpack(content)
        at = PointGradients(
            dim=device.dim,
            intercept=True,
            loss=get_loss("logistic"),
            x_bound=1.0,
            y_bound=1.0,
            signs=True,
            bound=stated.bound,
        )
        gradients.append(at.at(point, x, target))
    scaled = X / np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    for called, numbers in (("row", X), ("scaled row", scaled), ("gradient", np.array(gradients))):
        secrets.numbers(called, numbers, many=True)
    secrets.numbers(
        "noise", np.array([np.frombuffer(a, "<f8", device.dim, 40) for a in wire[1::2]]) - gradients, many=True
    )
    secrets.key("key of the noise", new_key(SEED))
    assert len(secrets) > 5000
    assert secrets.found_in(b"".join(wire)) == []
    assert secrets.found_in(said) == []
    # the sizes are fixed, so they reveal nothing either
    assert {len(m) for m in wire[::2]} == {size_of(QUESTION, 7)}
    assert {len(m) for m in wire[1::2]} == {size_of(ANSWER, 7)}
    # the check would detect these
    for leak in (X[150, 3].tobytes(), gradients[60][2].tobytes(), np.float32(X[9]).tobytes(), new_key(SEED)[5:13]):
        assert secrets.found_in(b"".join(wire[:100]) + leak + b"".join(wire[100:]))


def spoilt(answer, other_run):
    """Invalid messages, and what the learner says of them."""

    def changed(at, content):
        return answer[:at] + content + answer[at + len(content) :]

    return [
        (b"\xff" * len(answer), "a message begins with"),
        (b"GET / HTTP/1.1\r\nHost: learner.example\r\nAccept: */*\r\n\r\n", "a message begins with"),
        (changed(4, b"\7"), "found version 7"),
        (changed(6, b"\1"), r"expected the kind 2"),
        (changed(8, struct.pack("<I", 1 << 31)) + bytes(5000), "this one states 2147483648"),
        (changed(12, struct.pack("<I", 9)), "must have 7 coordinates, found 9"),
        (changed(16, other_run), "is to the run"),
        (changed(32, struct.pack("<Q", 99)), "of round 99, which was not asked"),
        (changed(40, struct.pack("<d", float("nan"))), "coordinate 0 is nan"),
        (changed(32, struct.pack("<Qd", 11, 1e9)), "a norm of at most"),
        (answer[:20], "the connection ended after 20 of 96 bytes"),
        (answer[:-1], "the connection ended after 95 of 96 bytes"),
    ]


def test_invalid_messages_are_refused_and_the_run_continues(tmp_path):
    X, y = rows(60)
    device = Device(n_features=FEATURES, reports=len(X), random_state=SEED, epsilon=1.0)
    expected, wire = [], []
    with Learner("privunit", len(X), tmp_path / "model") as learner:
        with learner.connect() as connection:
            answer_with(device, X[:10], y[:10], connection, wire)
        for message, words in [
            (wire[1], "of round 1, which has its report"),  # replayed
            (wire[-1], "of round 10, which has its report"),
            *spoilt(wire[-1], bytes(16)),
        ]:
            with learner.connect() as connection:
                assert round_of(receive_question(connection, device.dim)) == 11
                with contextlib.suppress(OSError):  # a reset, because not all was read
                    connection.sendall(message)
                    connection.shutdown(socket.SHUT_WR)
                    assert connection.recv(1) == b""  # dropped without a reason
            expected.append((11, words))

        # one round at one point, two devices: the second is late
        with learner.connect() as connection:
            question = receive_question(connection, device.dim)
            late = Device(n_features=FEATURES, epsilon=1.0).answer(question, X[0], y[0])
            leave(connection)
        with learner.connect() as connection:
            connection.sendall(device.answer(receive_question(connection, device.dim), X[10], y[10]))
            assert round_of(receive_question(connection, device.dim)) == 12
            connection.sendall(late)
            connection.recv(1)
        expected.append((12, "of round 11, which has its report"))

        # an answer followed by extra bytes: it counts, and the rest is invalid
        with learner.connect() as connection:
            question = receive_question(connection, device.dim)
            connection.sendall(device.answer(question, X[11], y[11]) + b"more" * 30)
            with contextlib.suppress(OSError):
                while connection.recv(4096):
                    pass
        expected.append((13, "a message begins with"))

        # a device that is killed in the middle of its answer
        code = (
            "import os, signal, socket, sys\n"
            "from privol.rounds import Device, receive_question\n"
            f"connection = socket.create_connection(('127.0.0.1', {learner.port}))\n"
            f"device = Device(n_features={FEATURES}, epsilon=1.0)\n"
            f"answer = device.answer(receive_question(connection, device.dim), [0.5] * {FEATURES}, 1.0)\n"
            "connection.sendall(answer[:50])\n"
            "os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        done = warm.run([sys.executable, "-c", code], env=environment(), timeout=WAIT, check=False)
        assert done.returncode == -signal.SIGKILL
        expected.append((13, "the connection ended after 50 of 96 bytes|reset"))

        with learner.connect() as connection:
            answer_with(device, X[12:], y[12:], connection, wire)
        said, model = learner.end()
    assert model.coef_.tobytes() == estimator("privunit", X, y).coef_.tobytes()
    dropped = re.findall(r"^round (\d+), a device was dropped: (.*)$", said, flags=re.MULTILINE)
    assert len(dropped) == len(expected)
    for (found, why), (number, words) in zip(dropped, expected, strict=True):
        assert int(found) == number
        assert re.search(words, why), (words, why)
    assert f"60 reports learnt, {len(expected)} devices dropped" in said


def table(path, X, y):
    np.savetxt(path, np.column_stack([X, y]), delimiter=",", header="a,b,c,d,e,f,label", comments="", fmt="%.6g")
    return str(path)


def run_devices(*options):
    return warm.run(
        [sys.executable, str(EXAMPLE), *options],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=WAIT,
        check=False,
    )


def test_devices_refuse_a_learner_that_asks_for_too_little_noise(tmp_path):
    X, y = rows(30)
    file = table(tmp_path / "rows.csv", X, y)
    with Learner("banco", 30, tmp_path / "model") as learner:
        options = [file, "--target=label", "--classes=0,1", f"--connect=127.0.0.1:{learner.port}", f"--seed={SEED}"]
        refused = run_devices(*options, "--epsilon=1.9")
        assert refused.returncode == 1
        assert "BudgetExceeded: this device makes reports of epsilon at most 1.9, asked is 2" in refused.stderr
        done = run_devices(*options, "--epsilon=2")
        assert (done.returncode, done.stdout) == (0, "30 reports made\n"), done.stderr
        said, model = learner.end()
    assert "30 reports learnt" in said
    read = np.genfromtxt(file, delimiter=",", skip_header=1)
    assert model.coef_.tobytes() == estimator("banco", read[:, :-1], read[:, -1]).coef_.tobytes()


def test_example_devices_on_the_embedded_rows():
    pytest.importorskip("pyarrow")
    done = run_devices("--users=400", "--seed=1")
    assert done.returncode == 0, done.stderr
    assert "the devices have made 400 reports" in done.stdout
    assert "Pure differential privacy with epsilon = 4" in done.stdout
    assert "the estimator that joins both has the same bits: yes" in done.stdout


def test_example_devices_on_a_table_of_real_targets(tmp_path):
    X, _ = rows(100)
    file = table(tmp_path / "rows.csv", X, np.clip(X[:, 0] / 3, -1, 1))
    options = ["--target=label", "--loss=absolute", "--learner=miogd", "--epsilon=2", "--delta=1e-5"]
    done = run_devices(file, *options, f"--out={tmp_path / 'kept'}")
    assert done.returncode == 0, done.stderr
    assert "NOT PRIVATE: the noise" not in done.stdout
    assert "learner itself, which is trusted with nothing" in done.stdout
    assert load_model(tmp_path / "kept").n_rows_ == 100
