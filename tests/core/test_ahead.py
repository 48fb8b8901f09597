"""A second thread that draws noise ahead: no bit depends on it, whatever happens to it."""

from __future__ import annotations

import _thread
import ctypes
import os
import signal
import threading
import time

import numpy as np
import pytest
from ciphers import watch

import privol
from privol import DPFTRL, NOGD, PGIGA, PIGD, PQFTL, _threads
from privol.errors import InvalidParameter, SourceFailure, StateError

ROWS, FEATURES = 12_000, 60
RNG = np.random.default_rng(0)
X = RNG.normal(size=(ROWS, FEATURES)) / 8
Y = np.where(X[:, 0] + RNG.normal(size=ROWS) / 8 > 0, 1, 0)

LEARNERS = {
    "pigd": lambda: PIGD(release="all", horizon=ROWS, random_state=1),
    "pgiga": lambda: PGIGA(release="all", horizon=ROWS, random_state=1, domain=privol.geometry.L1Ball(2.0)),
    "nogd": lambda: NOGD(horizon=ROWS, random_state=1),
    **{
        design: lambda design=design: DPFTRL(horizon=ROWS, design=design, random_state=1)
        for design in ("blt", "tree", "honaker", "smooth", "independent")
    },
    "renewed": lambda: DPFTRL(horizon=5000, renewal="double", random_state=1),
    "pqftl": lambda: PQFTL(batch=1, horizon=ROWS, random_state=1, y_bound=1.0),
}


@pytest.fixture
def two(monkeypatch):
    """Provide two threads on any machine; returns the list of the threads that were started."""
    monkeypatch.setattr(_threads, "_limit", 2)
    begun, real = [], _thread.start_new_thread

    def start(work, args):
        begun.append(work)
        return real(work, args)

    monkeypatch.setattr(_thread, "start_new_thread", start)
    return begun


def learn(make, *cuts):
    """The released models, with or without a second thread, for given blocks."""
    learner = make()
    n_features = 8 if isinstance(learner, PQFTL) else FEATURES
    for start, stop in zip((0, *cuts), (*cuts, ROWS), strict=True):
        classes = None if isinstance(learner, PQFTL) else [0, 1]
        learner.partial_fit(X[start:stop, :n_features], Y[start:stop], classes=classes)
    return np.hstack([learner.coef_.ravel(), learner.average_coef_.ravel()]).tobytes()


@pytest.mark.parametrize("name", LEARNERS)
def test_the_same_bits(two, monkeypatch, name):
    make = LEARNERS[name]
    found = learn(make), learn(make, 11_000), learn(make, 100, 150, 9000)
    assert len(two) >= 2, "no second thread has helped"
    monkeypatch.setattr(_threads, "_limit", 1)
    two.clear()
    assert set(found) == {learn(make)}
    assert not two


def test_learners_on_reports_and_short_calls_have_none(two):
    privol.LDPSGD(horizon=ROWS, randomizer="gaussian", random_state=1, release="all").partial_fit(X, Y, classes=[0, 1])
    DPFTRL(horizon=ROWS).partial_fit(X[:1000], Y[:1000], classes=[0, 1])
    DPFTRL(horizon=ROWS, batch=100).partial_fit(X, Y, classes=[0, 1])
    DPFTRL(horizon=ROWS, epsilon=float("inf")).partial_fit(X, Y, classes=[0, 1])
    assert not two


@pytest.mark.parametrize("late", [0.0, 0.001, 0.2])
def test_a_late_noise_thread_changes_no_bit(monkeypatch, late):
    """The thread does not start in time, so the learning thread draws all or part of the noise itself."""
    monkeypatch.setattr(_threads, "_limit", 1)
    make = LEARNERS["blt"]
    alone = learn(make)
    monkeypatch.setattr(_threads, "_limit", 2)
    real, begun = _thread.start_new_thread, []

    def start(work, args):
        def wait():
            time.sleep(late)
            begun.append(late)
            work(*args)

        return real(wait, ())

    monkeypatch.setattr(_thread, "start_new_thread", start)
    assert learn(make) == alone
    assert begun


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError()])
def test_runs_work_without_a_second_thread(monkeypatch, error):
    monkeypatch.setattr(_threads, "_limit", 1)
    alone = learn(LEARNERS["pigd"])
    monkeypatch.setattr(_threads, "_limit", 2)
    asked = []

    def start(work, args):
        asked.append(work)
        raise error

    monkeypatch.setattr(_thread, "start_new_thread", start)
    assert learn(LEARNERS["pigd"]) == alone
    assert asked


@pytest.mark.parametrize("after", [0, 1])
def test_a_cipher_that_fails_in_the_other_thread(two, monkeypatch, after):
    """The learning thread draws those words itself, and they are the same."""
    watched = watch(monkeypatch)
    here, failed = threading.get_ident(), []
    good = []

    def fail(real, data, out):
        if threading.get_ident() != here:
            if len(good) >= after:
                failed.append(bytes(data)[:16])
                raise SourceFailure("not in this thread")
            good.append(data)
        return real.update_into(data, out)

    watched.fail = fail
    found = {learn(LEARNERS["nogd"])}
    for _ in range(50):  # on a busy machine the other thread may not get that far
        if failed:
            break
        found.add(learn(LEARNERS["nogd"]))
    assert failed
    watched.fail = None
    assert found == {learn(LEARNERS["nogd"])}


def test_calls_from_the_noise_thread_are_refused_not_deadlocked(two, monkeypatch):
    """A finaliser that the garbage collector runs there might do this: the learning thread waits for that thread."""
    watched, found = watch(monkeypatch), []
    here = threading.get_ident()

    def again(real, data, out):
        if threading.get_ident() != here:
            for use in (lambda: learner.coef_, lambda: learner.learn_one(X[0], 0), learner.close):
                with pytest.raises(StateError, match="busy"):
                    use()
                found.append(True)
        return real.update_into(data, out)

    watched.fail = again
    for _ in range(50):  # on a busy machine the other thread may not get to draw
        learner = LEARNERS["nogd"]().partial_fit(X[:10], Y[:10], classes=[0, 1])
        learner.partial_fit(X[10:], Y[10:])
        assert learner.n_rows_ == ROWS
        if found:
            break
    assert found


def test_a_cipher_that_fails_everywhere(two, monkeypatch):
    """The call fails as it does without a second thread, and what was learnt before is kept."""
    watched = watch(monkeypatch)
    begun = []

    def fail(real, data, out):
        begun.append(data)
        if len(begun) > 6:
            raise SourceFailure("no more words")
        return real.update_into(data, out)

    watched.fail = fail
    learner = NOGD(horizon=ROWS)
    with pytest.raises(SourceFailure, match="no more words"):
        learner.partial_fit(X, Y, classes=[0, 1])
    assert two
    assert 0 < learner.n_rows_ < ROWS


@pytest.mark.parametrize("name", ["pigd", "blt"])
def test_no_used_word_outlives_the_call(two, monkeypatch, name):
    """Both buffers hold only words of later rows."""
    watched = watch(monkeypatch)
    vector = 8 * 62  # 61 words, rounded up to a whole block
    for _ in range(50):  # on a busy machine the other thread may not get to fill its buffer
        watched.outputs.clear()
        learner = LEARNERS[name]()
        learner.partial_fit(X[:11_000], Y[:11_000], classes=[0, 1])
        buffers: dict[int, int] = {}
        for at, length in watched.outputs:
            if length >= vector:  # otherwise it belongs to a coordinate that is still undecided
                buffers[at] = max(length, buffers.get(at, 0))
        if len(buffers) == 2:
            break
    assert len(buffers) == 2
    words = np.concatenate([np.frombuffer(ctypes.string_at(*buffer), np.uint64) for buffer in buffers.items()])
    left = np.count_nonzero(words.reshape(-1, vector // 8).any(axis=1))
    assert left <= ROWS - 11_000


def test_no_used_word_outlives_a_buffer_that_is_filled_again_in_part(two, monkeypatch):
    """The other thread fails before the last rows, so fewer vectors are drawn into a buffer that it had filled."""
    watched = watch(monkeypatch)
    here, vector, full = threading.get_ident(), 8 * 62, 264 * 8 * 62
    theirs: set[int] = set()  # buffers that the other thread has filled
    latest: set[int] = set()  # of these, the ones that this thread has not filled since
    happened: list[bool] = []  # of buffers that are filled in part: whether such words would be left in them

    def fail(real, data, out):
        at = np.frombuffer(out, np.uint8).ctypes.data
        if threading.get_ident() != here:
            if len(data) < full:
                raise SourceFailure("not in this thread")
            theirs.add(at)
            latest.add(at)
        else:
            if vector <= len(data) < full and at in theirs:
                happened.append(at in latest)
            latest.discard(at)
        return real.update_into(data, out)

    watched.fail = fail
    for _ in range(60):  # on a busy machine the other thread is given up as slow before the last buffer
        for record in (watched.outputs, theirs, latest):
            record.clear()
        learner = LEARNERS["pgiga"]()
        learner.partial_fit(X[:11_990], Y[:11_990], classes=[0, 1])
        buffers = {at: length for at, length in watched.outputs if length == full}
        words = np.concatenate([np.frombuffer(ctypes.string_at(*buffer), np.uint64) for buffer in buffers.items()])
        assert np.count_nonzero(words.reshape(-1, vector // 8).any(axis=1)) <= ROWS - 11_990
        if any(happened):
            break
    assert happened


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork_while_the_thread_draws(two):
    """The child has no such thread and does not wait for it: it ends, and cannot use the run."""
    learner = LEARNERS["blt"]()
    codes = []

    def fork():
        while not two:
            time.sleep(0.0005)
        pid = os.fork()
        if not pid:  # pragma: no cover
            failed = 1
            try:
                learner.partial_fit(X[:1], Y[:1])
            except BaseException:
                failed = 0
            finally:
                os._exit(failed)
        codes.append(os.waitpid(pid, 0)[1])

    other = threading.Thread(target=fork)
    other.start()
    learner.partial_fit(X, Y, classes=[0, 1])
    other.join()
    assert codes == [0]


@pytest.mark.process
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers here")
def test_interrupts_do_not_change_a_bit(two, monkeypatch):
    monkeypatch.setattr(_threads, "_limit", 1)
    alone = learn(LEARNERS["blt"])
    monkeypatch.setattr(_threads, "_limit", 2)
    calls = []
    before = signal.signal(signal.SIGALRM, lambda *_: calls.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        found = {learn(LEARNERS["blt"]) for _ in range(5)}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert found == {alone}
    assert calls


def test_many_learners_at_the_same_time(two):
    found = []
    workers = [threading.Thread(target=lambda: found.append(learn(LEARNERS["nogd"]))) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(found) == 4
    assert len(set(found)) == 1


def test_the_number_is_checked_and_obeyed(monkeypatch):
    monkeypatch.setattr(_threads, "_limit", None)
    monkeypatch.setenv("OMP_NUM_THREADS", "1,2")
    assert _threads.threads() == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "none")
    assert _threads.threads() >= 1
    try:
        privol.set_threads(3)
        assert _threads.threads() == 3
        for wrong in (0, -1, 1.5, "2", True):
            with pytest.raises(InvalidParameter, match="threads"):
                privol.set_threads(wrong)
        assert _threads.threads() == 3
    finally:
        privol.set_threads(None)
