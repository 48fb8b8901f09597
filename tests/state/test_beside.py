"""The thread that keeps a run, and its files: Ctrl-C at any instruction leaves nobody waiting, and the run goes on."""

from __future__ import annotations

import dis
import json
import signal
import sys
import threading
from contextlib import closing, suppress
from types import SimpleNamespace

import numpy as np
import pytest

from privol import PIGD
from privol.errors import StateError
from privol.ledger import Ledger
from privol.state import State, load_model
from privol.state._beside import Beside
from privol.state._endings import Finished
from privol.state._joined import Joined

OWN = "_beside.py", "_silence.py", "privol/_files.py", "threading.py", "futures/thread.py", "futures/_base.py"
N = 120
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 2)) / 3
Y = (X[:, 0] > 0).astype(float)


class Stream:
    classes, n_rows = (0, 1), N

    def __iter__(self):
        for k in range(0, N, 40):
            yield SimpleNamespace(X=X[k : k + 40], y=Y[k : k + 40], first_row=k + 1)


def learn(folder):
    learner = PIGD(epsilon=1.0, x_bound=1.0, release=40, random_state=1)
    return learner.fit_stream(Stream(), checkpoint=State(folder, every=20))


class Strike:
    """Raise KeyboardInterrupt where a signal may: behind a call, a jump back or a beginning, in the thread's own code.

    Also in what that calls of the standard library.
    """

    def __init__(self, at):
        self.left, self.before = at, {}

    def __call__(self, frame, event, _):
        code = frame.f_code
        if event == "call":
            if not code.co_filename.endswith(OWN):
                return None
            frame.f_trace_opcodes = True
        if event == "opcode":
            last, self.before[frame] = self.before.get(frame), frame.f_lasti
            if last is not None and dis.opname[code.co_code[last]].startswith(("CALL", "JUMP_BACKWARD", "RESUME")):
                self.left -= 1
                if self.left == 0:
                    raise KeyboardInterrupt
        return self


class Hangs(BaseException):
    """Nothing catches it."""


def hangs(*_):
    raise Hangs


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of finalizers that were struck
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="timers of POSIX")
def test_an_interrupt_at_any_instruction_leaves_nobody_waiting(tmp_path):
    """Found by kills: Ctrl-C behind the lock of a condition left it taken, and the next write waited for ever."""
    whole, threads = learn(tmp_path / "whole").coef_, threading.active_count()
    before = signal.signal(signal.SIGALRM, hangs)
    at, struck = 1, 0
    try:
        while True:
            strike, folder = Strike(at), tmp_path / str(at)
            signal.setitimer(signal.ITIMER_REAL, 20.0, 1.0)
            sys.settrace(strike)
            try:
                learn(folder)
            except KeyboardInterrupt:
                struck += 1
            finally:
                sys.settrace(None)
            if strike.left > 0:
                break
            if not (folder / "model.json").exists():
                with suppress(Finished):  # struck where it ends: its model is shown now
                    learn(folder)
            assert np.array_equal(load_model(folder).coef_, whole), at
            at += 2
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert struck > 50
    assert threading.active_count() <= threads + 1


def test_jobs_are_done_in_their_order_and_errors_reach_the_caller():
    beside, done = Beside(), []

    def fails():
        raise OSError("no room")

    beside.write(lambda: done.append(1))
    assert beside.call(lambda: done.append(2) or 7).result() == 7
    assert done == [1, 2]
    beside.write(fails)
    with pytest.raises(OSError, match="no room"):
        beside.wait()
    beside.wait()  # it was said
    with pytest.raises(OSError, match="no room"):
        beside.call(fails).result()
    beside.stop()


@pytest.mark.parametrize("key", ["", "00" * 31, "00" * 33, "zz" * 32, 7])
def test_a_key_beside_a_run_has_its_length(key, tmp_path):
    """A shorter one would be a noise that others can guess."""
    (tmp_path / "metrics.key").write_text(json.dumps({"key": key, "plan_id": "a", "settings": {}}))
    with closing(Ledger(epsilon=1.0, delta=1e-6)) as ledger, pytest.raises(StateError, match=r"metrics\.key cannot be"):
        Joined(tmp_path).known(ledger)
    (tmp_path / "metrics.key").write_text(json.dumps({"key": "00" * 32, "plan_id": "a", "settings": {}}))
    assert Joined(tmp_path).known(Ledger(epsilon=1.0, delta=1e-6)) == []
