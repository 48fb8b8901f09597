"""What comes into a call of a sampler from outside: forks, other threads that change the data, second starts."""

from __future__ import annotations

import os
import signal
import threading

import numpy as np
import pytest
from ciphers import watch
from patience import WAIT
from test_drawing_ahead import INTEGERS, LAWS, VECTORS, make

from privol.errors import SourceFailure

# ---- forks -------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("name", [*LAWS, *VECTORS, *INTEGERS])
def test_a_handler_forks_while_a_call_waits(name, monkeypatch):
    """Another thread has the lock; the handler waits until it is free and has words left, then forks."""
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
    signal.setitimer(signal.ITIMER_REAL, 0.1)  # should it come before the call waits, this test passes without a word
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
