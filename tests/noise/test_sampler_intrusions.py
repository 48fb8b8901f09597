"""Outside interference with a sampler's call: forks, other threads that change the data, second starts."""

from __future__ import annotations

import os
import signal
import sys
import threading

import numpy as np
import pytest
import warm
from ciphers import watch
from patience import WAIT
from sampler_tools import INTEGERS, LAWS, SEED, VECTORS, half_way, make
from twins_noise import AtRow, ideal_vector, nearest_all, to_boundary

from privol.errors import SourceFailure, StateError
from privol.noise import STREAM_SAMPLES, L2Laplace, _lattice, make_source

pytestmark = pytest.mark.process

# ---- forks -------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("name", [*LAWS, *VECTORS, *INTEGERS])
def test_a_handler_forks_while_a_call_waits(name, monkeypatch):
    """Another thread holds the lock; the handler waits until it is free and words remain, then forks."""
    watched, expected = watch(monkeypatch), make(name).sample(20)
    noise, held, go, children = make(name), threading.Event(), threading.Event(), []

    def hold(real, data, out):
        held.set()
        go.wait(WAIT)
        return real.update_into(data, out)

    def fork(*_):
        go.set()
        thread.join(WAIT)
        children.append(os.fork())

    watched.fail = hold
    thread = threading.Thread(target=noise.sample, args=(3,))
    thread.start()
    assert held.wait(WAIT)
    watched.fail = None
    before = signal.signal(signal.SIGALRM, fork)
    signal.setitimer(signal.ITIMER_REAL, 0.1)  # if it comes before the call waits, this test passes without a check
    try:
        refused, found = False, noise.sample(7)
    except SourceFailure as error:
        refused = "forked" in str(error)
    finally:
        if children == [0]:
            os._exit(refused)
        signal.signal(signal.SIGALRM, before)
    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 1, "the child drew words of its parent"
    assert not refused
    np.testing.assert_array_equal(found, expected[3:10])


# ---- data that change during the call ----------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 3, 1700, 40_000])
@pytest.mark.parametrize("name", [*LAWS, *VECTORS, *INTEGERS])
def test_the_checked_values_are_the_perturbed_ones(name, rows, monkeypatch):
    """The data change between the check and the rounding to values that would be refused, and would get no noise."""
    x = np.zeros((rows, 3), np.int64 if name in INTEGERS else float)
    expected = make(name).add(x)
    watched = watch(monkeypatch)

    def change(real, data, out):
        x[...] = 1 << 62
        return real.update_into(data, out)

    watched.fail = change
    np.testing.assert_array_equal(make(name).add(x), expected)
    assert (x == 1 << 62).all()


def test_open_coordinates_are_those_of_the_values_that_were_checked(monkeypatch):
    """The last resort receives the values of the call, although the rounded ones have replaced them in memory."""
    seen, real = [], _lattice.decide_lattice_point

    def decide(word, extra, x, *arguments, **named):
        seen.append(x)
        return real(word, extra, x, *arguments, **named)

    monkeypatch.setattr(_lattice, "decide_lattice_point", decide)
    x = np.zeros(5000)
    x[70:75] = half_way(make_source(SEED), 70)
    x[4500:4505] = half_way(make_source(SEED), 4500)
    kept = x.copy()
    make("gaussian").add(x)
    np.testing.assert_array_equal(x, kept)
    assert seen == [*x[70:75], *x[4500:4505]]


def test_open_coordinates_of_a_long_call_for_vectors(monkeypatch):
    """Vectors beyond those drawn ahead: one with undecided coordinates is not rounded twice."""
    dim, n, row, seen = 3, 3000, 2500, []
    real = L2Laplace._decide
    monkeypatch.setattr(L2Laplace, "_decide", lambda self, *asked: seen.append(asked[3]) or real(self, *asked))
    noise, x = make("l2_laplace"), np.zeros((n, dim))
    at = AtRow(make_source(SEED), STREAM_SAMPLES, row)
    ideals = ideal_vector("l2_laplace", dim, at.words(5), at)
    x[row] = [to_boundary(5.0, 1.0, z, noise.granularity, j) for j, z in enumerate(ideals)]
    expected = make("l2_laplace").sample(n)
    expected[row] = nearest_all(x[row], 1.0, ideals, noise.granularity)
    np.testing.assert_array_equal(noise.add(x), expected)
    assert seen == [0, 1, 2]


# ---- starts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*LAWS, *VECTORS, *INTEGERS])
def test_a_second_start_changes_nothing(name):
    noise, expected = make(name), make(name).sample(5000)
    found = [noise.sample(100)]
    with pytest.raises(StateError, match="twice"):
        noise.__init__(scale=3.0, **({"dim": 3} if name in VECTORS else {}))
    for core in type(noise).__mro__:
        if core.__module__.startswith("privol._core"):
            arguments = {
                "LatticeSampler": {"law": "laplace", "scale": 9.0, "stream": 1},
                "VectorSampler": {"kind": "sphere", "scale": 9.0, "step": 1.0, "dim": 2, "stream": 1},
                "IntegerSampler": {"law": make("gaussian 5")._law, "stream": 1},
            }
            with pytest.raises(StateError, match="twice"):
                core.__init__(noise, make_source(None), **arguments.get(core.__name__, {}))
    found.append(noise.sample(4900))
    np.testing.assert_array_equal(np.concatenate(found), expected)
    assert noise.scale == make(name).scale


@pytest.mark.parametrize(
    ("cls", "wrong", "right"),
    [
        ("Gaussian", '{"law": "x", "scale": 1.0, "stream": 1}', '{"law": "gaussian", "scale": 1.0, "stream": 1}'),
        ("DiscreteLaplace", '{"law": DiscreteLaplace(scale=3)._law, "stream": 1 << 16}', None),
        (
            "Sphere",
            '{"kind": "sphere", "scale": 1.0, "step": 2.0**-11, "dim": 0, "stream": 1}',
            '{"kind": "sphere", "scale": 1.0, "step": 2.0**-11, "dim": 5, "stream": 1}',
        ),
    ],
)
def test_samplers_that_failed_to_start_do_not_draw(cls, wrong, right):
    """In a child: a partly constructed sampler used to crash the process."""
    code = f"""
from privol.errors import SourceFailure, StateError
from privol.noise import *
noise = {cls}.__new__({cls})
core = {cls}.__mro__[2]
try:
    core.__init__(noise, make_source(None), **{wrong})
except Exception as error:
    print(type(error).__name__)
try:
    noise.sample(3)
except StateError as error:
    print(error)
if {right}:
    core.__init__(noise, make_source(None), **({right}))
    print(len(noise.sample(3)))
"""
    result = warm.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=WAIT)
    kind = {"Gaussian": "KeyError", "Sphere": "InvalidParameter", "DiscreteLaplace": "SourceFailure"}[cls]
    expected = f"{kind}\nthis sampler was never started\n" + ("3\n" if right else "")
    assert (result.stdout, result.stderr, result.returncode) == (expected, "", 0)
