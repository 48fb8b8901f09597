"""Never two identical streams: through fork, pickle, copy, clone, joblib, processes and threads.

The tests compare vectors of eight lattice values or 32 bytes: two of a thousand are equal by chance with probability
below 1e-17.
"""

from __future__ import annotations

import copy
import ctypes
import multiprocessing
import os
import pickle
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from draws import actions_of, count_refusals, draw, fit, fresh, refusals, running
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from privol import PGIGA, PIGD
from privol.errors import StateError
from privol.noise import BitGenerator, Gaussian, make_source

pytestmark = pytest.mark.process

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
forks_with_threads = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
X, Y = np.ones((4, 2)), np.array([0, 1, 0, 1])


def holders():
    """Everything that holds a key of its own, by name."""
    learner, noise, bits = running(), Gaussian(scale=1.0), BitGenerator()
    return {
        "source": make_source(None),
        "seeded source": make_source(3),
        "noise": noise,
        "noise in use": (noise.sample(3), noise)[1],
        "bits": bits,
        "seeded bits": BitGenerator(3),
        "lock of bits": bits.lock,
        "generator": np.random.Generator(bits),
        "legacy generator": np.random.RandomState(bits),
        "run": learner._run.state,
        "learner's run": learner._run,
    }


# ---- copies -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", holders())
def test_holders_of_keys_are_not_pickled_or_copied(name):
    holder = holders()[name]
    attempts = [copy.deepcopy]
    attempts += [lambda x, protocol=p: pickle.dumps(x, protocol=protocol) for p in range(pickle.HIGHEST_PROTOCOL + 1)]
    for attempt in attempts:
        for nested in (holder, [holder], {"a": (holder,)}):
            with pytest.raises(StateError):
                attempt(nested)
    if name not in ("generator", "legacy generator", "learner's run"):  # their shallow copies share their contents
        with pytest.raises(StateError):
            copy.copy(holder)


def test_a_shallow_copy_of_a_generator_shares_its_stream():
    one = np.random.Generator(BitGenerator())
    two = copy.copy(one)
    assert two.bit_generator is one.bit_generator
    assert len({draw(rng) for rng in [one, two] * 50}) == 100


@pytest.mark.parametrize("cls", [PIGD, PGIGA])
@pytest.mark.parametrize(
    "duplicate",
    [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x)), clone],
    ids=["copy", "deepcopy", "pickle", "clone"],
)
@pytest.mark.parametrize(
    "wrap", [lambda x: x, lambda x: make_pipeline(StandardScaler(), x).set_output()], ids=["bare", "piped"]
)
def test_duplicates_of_a_running_learner_do_not_continue_it(cls, duplicate, wrap):
    """A copy is the public export and a clone is unfitted: neither holds the key, and a new run has its own."""
    learner = cls(epsilon=1.0, horizon=1000, release="all").partial_fit(X, Y, classes=[0, 1])
    wrapped = duplicate(wrap(learner))
    other = wrapped if isinstance(wrapped, cls) else wrapped[-1]
    if duplicate is copy.copy and other is learner:
        return  # a shallow copy of a pipeline holds the very same learner
    assert "_run" not in vars(other)
    if duplicate is not clone:
        with pytest.raises(StateError, match="copy of what another has released"):
            other.partial_fit(X, Y, classes=[0, 1])
    fits = {fit(other, X, Y), fit(duplicate(learner), X, Y), fit(duplicate(learner), X, Y)}
    assert len(fits | {learner.partial_fit(X, Y).coef_.tobytes()}) == 4


def test_a_learner_given_keyed_bits_is_not_cloned():
    """clone would copy a NumPy generator, and both would draw the same key."""
    learner = PIGD(random_state=BitGenerator())
    with pytest.raises(StateError, match="copied"):
        clone(learner)
    assert len({fit(learner, X, Y) for _ in range(3)}) == 3


# ---- processes --------------------------------------------------------------------------------------------


def forked(actions):
    """How many actions a forked child refuses; it is killed after 20 s if it hangs on a lock."""
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        os._exit(refusals(actions))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@needs_fork
@forks_with_threads
def test_a_forked_child_draws_nothing_and_its_parent_continues():
    learner, noise, bits = running(), Gaussian(scale=1.0), BitGenerator()
    bits.random_raw()  # the rest of a block is in memory
    actions = actions_of(learner, noise, bits)
    assert forked(actions) == len(actions)
    assert refusals(actions) == 0
    assert len({draw(noise) for _ in range(9)}) == 9


@needs_fork
@forks_with_threads
def test_a_fork_within_a_fork():
    actions = actions_of(running(), Gaussian(scale=1.0), BitGenerator())
    child = os.fork()
    if child == 0:
        own = Gaussian(scale=1.0)
        own.sample(3)
        ok = forked([lambda: own.sample(3), *actions]) == len(actions) + 1 and refusals([lambda: own.sample(3)]) == 0
        os._exit(0 if ok else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@needs_fork
def test_a_fork_unknown_to_the_interpreter_is_detected():
    """A fork by the C library, as in a C extension: Python's own handlers do not run."""
    noise, bits = Gaussian(scale=1.0), BitGenerator()
    bits.random_raw()
    child = ctypes.PyDLL(None).fork()
    if child == 0:
        os._exit(refusals([lambda: noise.sample(3), lambda: bits.random_raw()]))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2


@needs_fork
@forks_with_threads
def test_a_fork_in_a_thread_while_others_draw():
    """The child has none of the other threads but all their locks: it is refused, and does not hang."""
    learner, noise, bits = running(horizon=2_000_000), Gaussian(scale=1.0), BitGenerator()
    rows, labels, stop = np.ones((50_000, 2)), np.ones(50_000), threading.Event()
    actions = actions_of(learner, noise, bits)

    def work(step):
        while not stop.is_set():
            step()

    def learn():
        if learner.n_rows_ < 1_900_000:
            learner.partial_fit(rows, labels)

    steps = [lambda: bits.random_raw(100_000, False), lambda: noise.sample(20_000), learn]
    threads = [threading.Thread(target=work, args=(step,)) for step in steps]
    found = []
    forker = threading.Thread(target=lambda: found.extend(forked(actions) for _ in range(10)))
    try:
        for thread in [*threads, forker]:
            thread.start()
        forker.join(240)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert found == [len(actions)] * 10


@needs_fork
@forks_with_threads
def test_multiprocessing_by_fork_inherits_no_noise():
    context = multiprocessing.get_context("fork")
    objects = running(), Gaussian(scale=1.0), BitGenerator()
    here, there = context.Pipe()
    process = context.Process(target=count_refusals, args=(there, *objects))
    process.start()
    try:
        assert here.poll(60)
        assert here.recv() == len(actions_of(*objects))
    finally:
        process.join(60)
    assert process.exitcode == 0


METHODS = [m for m in ("fork", "forkserver", "spawn") if m in multiprocessing.get_all_start_methods()]


@forks_with_threads
@pytest.mark.parametrize("method", METHODS)
def test_worker_processes_have_their_own_noise(method):
    """They are sent none: the parent's noise cannot be pickled."""
    Gaussian(scale=1.0).sample(3)
    with multiprocessing.get_context(method).Pool(2) as pool:
        drawn = [value for pair in pool.map(fresh, range(8), chunksize=1) for value in pair]
        for noise in (Gaussian(scale=1.0), np.random.Generator(BitGenerator())):
            with pytest.raises(StateError):
                pool.apply(draw, (noise,))
        learner = running()
        fits = [pool.apply(fit, (learner, X, Y)) for _ in range(4)]  # the public export is sent
    assert len(set(drawn)) == 16
    assert len(set(fits)) == 4


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_joblib(backend):
    noise, rng, learner = Gaussian(scale=1.0), np.random.Generator(BitGenerator()), running()
    with Parallel(n_jobs=2, backend=backend) as parallel:
        drawn = [value for pair in parallel(delayed(fresh)(k) for k in range(8)) for value in pair]
        assert len(set(drawn)) == 16
        fits = parallel(delayed(fit)(clone(learner), X, Y) for _ in range(6))
        assert len(set(fits)) == 6
        if backend == "threading":  # one object, shared
            assert len(set(parallel(delayed(draw)(source) for source in [noise, rng] * 50))) == 100
        else:
            assert len(set(parallel(delayed(fit)(learner, X, Y) for _ in range(4)))) == 4
            for source in (noise, rng):
                with pytest.raises((StateError, pickle.PicklingError)):
                    parallel(delayed(draw)(source) for _ in range(2))


def test_cross_validation_of_the_same_rows():
    """Six fits of one learner on the same rows have six different noises."""
    rows, labels = np.ones((40, 2)), np.arange(40) % 2
    every = np.arange(40)
    found = cross_validate(PIGD(), rows, labels, cv=[(every, every)] * 6, return_estimator=True)
    assert len({learner.coef_.tobytes() for learner in found["estimator"]}) == 6


# ---- threads ----------------------------------------------------------------------------------------------


def test_threads_on_one_gaussian():
    """Every call gets its own rows: together they equal what one thread draws, and nothing is drawn twice."""
    noise, alone = Gaussian(scale=1.0, random_state=4), Gaussian(scale=1.0, random_state=4)
    with ThreadPoolExecutor(8) as pool:
        drawn = list(pool.map(lambda _: draw(noise), range(4000)))
    assert len(set(drawn)) == 4000
    assert set(drawn) == {draw(alone) for _ in range(4000)}


def test_threads_on_one_bit_generator():
    """Two Generators and the bit generator itself share one lock: no word is drawn twice, and none is skipped."""
    bits = BitGenerator(4)
    rngs = [np.random.Generator(bits), np.random.Generator(bits)]

    def work(k):
        if k % 3 == 2:
            return bits.random_raw(500)
        return rngs[k % 3].integers(0, 1 << 64, 500, dtype=np.uint64)

    with ThreadPoolExecutor(8) as pool:
        drawn = np.concatenate(list(pool.map(work, range(600))))
    np.testing.assert_array_equal(np.sort(drawn), np.sort(BitGenerator(4).random_raw(300_000)))
    assert len(np.unique(drawn)) == 300_000
