"""A child forked while a thread of its parent learns reads what is public or is refused."""

from __future__ import annotations

import math
import os
import pickle
import signal
import threading
import time
import warnings

import numpy as np
import pytest
from conformance import X, Y, make
from threadpoolctl import threadpool_limits

from privol import MIOGD, PIGD
from privol.errors import SourceFailure, StateError
from privol.losses import Custom
from privol.noise import _decide
from privol.prefix import PrefixSum
from privol.rounds import Collector, Device

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]

ROWS, LABELS = np.tile(X, (200, 1)), np.tile(Y, 200)
WAIT = 60  # seconds until a child that waits for a lock is killed


@pytest.fixture(autouse=True, scope="module")
def _threads_of_blas():
    """As many as a user has, whatever conftest.py sets for the other tests: a fork may happen while they work."""
    with threadpool_limits(limits=os.cpu_count(), user_api="blas"):
        yield


def in_a_child(actions):
    """The outcome of each action in a forked child: "read", "refused" or "else"; a child that hangs is killed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(WAIT)
        said = []
        for action in actions:
            try:
                found = action()
                said.append("read" if found is None or np.all(np.isfinite(found)) else "else")
            except (StateError, SourceFailure):
                said.append("refused")
            except BaseException as error:
                said.append(f"else: {error!r}")
        os.write(writing, " ".join(said).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode().split(" ")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "the child waits for a lock that nobody gives back"
    return said


class Learning:
    """A thread that repeats an action until the block ends."""

    def __init__(self, action):
        self._action, self._stop, self.failed = action, threading.Event(), None
        self._thread = threading.Thread(target=self._run)

    def _run(self):
        try:
            while not self._stop.is_set():
                self._action()
        except BaseException as error:
            self.failed = error

    def __enter__(self):
        self._thread.start()
        time.sleep(0.05)
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()
        assert self.failed is None, self.failed


@pytest.mark.parametrize(
    ("name", "epsilon"),
    [*((name, 1.0) for name in ("PIGD", "DPFTRL blt", "PQFTL", "DOLA")), ("PIGD", math.inf), ("PQFTL", math.inf)],
)
def test_a_child_reads_or_is_refused_while_a_thread_learns(name, epsilon):
    learner = make(name, epsilon=epsilon, horizon=1 << 27, release=1)
    learner.partial_fit(X[:50], Y[:50], classes=[0, 1])
    reads = [
        lambda: learner.coef_,
        lambda: learner.average_coef_,
        lambda: learner.decision_function(X[:3]) if hasattr(learner, "decision_function") else learner.predict(X[:3]),
        lambda: len(pickle.dumps(learner)),
    ]
    writes = [
        lambda: learner.partial_fit(X, Y) and None,
        lambda: learner.learn_one(X[0], Y[0]) and None,
        lambda: learner.close() and None,
        lambda: learner.ledger_.accounts[0].close(),
    ]
    # it sets the threads of BLAS, on whose own lock a child may wait for ever
    racing = writes[1:] if name == "PQFTL" else writes
    found = []
    with Learning(lambda: learner.partial_fit(ROWS, LABELS)):
        for _ in range(12):
            found += in_a_child(reads + racing)
            time.sleep(0.003)
    assert set(found) <= {"read", "refused"}
    assert "refused" in found
    # nobody is learning: the child reads the public model
    assert in_a_child(reads) == ["read"] * 4
    if epsilon == 1.0:  # otherwise there is no noise that could be drawn twice
        assert in_a_child(writes[:3]) == ["refused"] * 3
    learner.close()


def test_a_child_forked_while_a_thread_sums():
    sums = PrefixSum(dim=4, horizon=None, design="tree", random_state=1)
    with Learning(lambda: sums.add_block(ROWS[:, :4], every=False)):
        found = [said for _ in range(12) for said in in_a_child([lambda: sums.prefix_, sums.close, sums.secret_state])]
    assert set(found) <= {"read", "refused"}
    assert in_a_child([lambda: sums.prefix_]) == ["read"]


def test_a_loss_that_forks():
    """Its child runs within a row of the thread that learns, and releases the lock as it leaves."""
    children = []

    def gradient(p, y):
        if armed:
            armed.clear()
            children.append(os.fork())
            if children[-1] == 0:
                signal.alarm(WAIT)
                try:
                    learner.coef_  # noqa: B018
                    os._exit(1)
                except StateError:
                    pass
        return float(np.tanh(p - y))

    armed = []
    loss = Custom(value=lambda p, y: np.log(np.cosh(p - y)), gradient=gradient, lipschitz=1.0, smoothness=1.0)
    learner = PIGD(loss=loss, horizon=100, release=10, random_state=1, epsilon=float("inf"))
    learner.partial_fit(X[:20], Y[:20], classes=[0, 1])
    armed.append(True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learner.partial_fit(X[20:40], Y[20:40])
    if children[-1] == 0:
        os._exit(0 if np.isfinite(learner.coef_).all() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(children[-1], 0)[1]) == 0


def test_rounds_in_a_child():
    learner = MIOGD(leakage=0.5, horizon=1000, random_state=1).declare_classes([0, 1])
    collector = Collector(learner, 4)
    question = collector.ask()
    device = Device(loss="logistic", n_features=4, leakage=0.5, reports=5)
    answer = device.answer(question, X[0], 1.0)
    for lock in (collector._lock, device._lock):
        assert lock.acquire(timeout=WAIT)  # held as by a thread that answers
    actions = [collector.ask, lambda: collector.tell(answer), lambda: device.answer(question, X[0], 1.0)]
    assert in_a_child(actions) == ["refused"] * 3
    for lock in (collector._lock, device._lock):
        lock.release()
    collector.tell(answer)


def test_a_child_rounds_what_is_undecided():
    """The child may draw new noise of its own, and its last resort has a lock."""
    held, go = threading.Event(), threading.Event()

    def hold():
        with _decide._MP_LOCK:
            held.set()
            go.wait(WAIT)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        assert in_a_child([lambda: _decide._evaluate(60, lambda: 1.0)]) == ["read"]
    finally:
        go.set()
        thread.join()
