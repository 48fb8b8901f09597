"""Properties shared by all compiled runs of learners."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from ciphers import watch
from conformance import X, Y

from privol import DOLA, DPFTRL, LDPSGD, NOGD, PIGD, PQFTL
from privol.errors import BudgetExceeded, InvalidParameter, StateError


@pytest.mark.parametrize("kind", [PIGD, NOGD, DPFTRL, PQFTL])
def test_calls_while_noise_is_drawn_are_refused_not_deadlocked(monkeypatch, kind):
    """A finaliser that the garbage collector runs in the cipher, or a signal handler, might make such calls."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(6000, 3)), rng.normal(size=6000)
    watched, found = watch(monkeypatch), []
    learner = kind(loss="squared", horizon=len(X), release=1, epsilon=1.0, l2=0.1).partial_fit(X[:1], y[:1])

    def again(real, rows, out):
        for use in (lambda: learner.coef_, lambda: learner.learn_one(X[0], 0.0), learner.close):
            with pytest.raises(StateError, match="busy"):
                use()
            found.append(True)
        return real.update_into(rows, out)

    learner._run.state.learn_one(X[1], 0.0)
    watched.fail = again
    learner.partial_fit(X[2:], y[2:])
    assert found
    assert learner.n_rows_ == len(X)


@pytest.mark.parametrize("kind", [PIGD, NOGD, DPFTRL, PQFTL, LDPSGD, DOLA])
def test_a_run_refuses_one_row_too_many_before_it_learns(kind):
    """The run checks this itself: another thread may have learnt rows since the caller counted."""
    X, y = np.full((8, 2), 0.5), np.linspace(-1.0, 1.0, 8)
    loss = "squared" if kind is PQFTL else "huber"
    state = kind(loss=loss, horizon=7, release=1).partial_fit(X[:4], y[:4])._run.state
    before = {name: array.tobytes() for name, array in state.secret_arrays().items()}
    with pytest.raises(BudgetExceeded, match="the next 4 rows would exceed the horizon: 4 of 7 are used; nothing"):
        state.learn(X[4:], y[4:])
    assert {name: array.tobytes() for name, array in state.secret_arrays().items()} == before
    state.learn(X[4:7], y[4:7])
    with pytest.raises(BudgetExceeded, match="7 of 7 are used"):
        state.learn_one(X[7], 0.0)


@pytest.mark.parametrize("design", ["blt", "tree", "sqrt"])
def test_a_close_that_was_interrupted_ends_the_run_all_the_same(monkeypatch, design):
    """No row is learnt after a batch was ended early: otherwise there would be more steps than are accounted for."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 2)), rng.normal(size=12)
    words = {"horizon": 12, "batch": 4, "release": 1, "design": design, "random_state": 1, "l2": 0.1}
    expected = PQFTL(**words).partial_fit(X[:6], y[:6]).close()
    watched = watch(monkeypatch)
    learner = PQFTL(**words).partial_fit(X[:6], y[:6])
    fresh = learner._open_run(2, 12, None)[0]  # with no words ahead
    fresh.restore(learner._run.state.secret_arrays())
    learner._run.state = fresh

    def fail(real, rows, out):
        raise KeyboardInterrupt

    watched.fail = fail
    with pytest.raises(KeyboardInterrupt):
        learner.close()
    with pytest.raises((BudgetExceeded, StateError)):
        learner.partial_fit(X[6:], y[6:])
    watched.fail = None
    learner.close()
    assert learner.n_rows_ == 6
    np.testing.assert_array_equal(learner.coef_, expected.coef_)
    np.testing.assert_array_equal(learner.average_coef_, expected.average_coef_)


@pytest.mark.parametrize("kind", [NOGD, DPFTRL])
def test_given_gradients_need_noise_scaled_to_their_bound(kind):
    learner = kind(horizon=5, random_state=0)
    learner.ask(2)
    learner.set_params(gradient_bound=1.0)
    with pytest.raises(InvalidParameter, match="before the run begins"):
        learner.tell(gradient=[1.0, 0.0, 0.0])
    assert learner.n_rows_ == 0
    lenient = kind(horizon=5, random_state=0, gradient_bound=1.0, on_invalid="zero")
    lenient.ask(2)
    lenient.tell(gradient=[1e200, 0.0, 0.0])  # treated as a row: the null row, and no error that depends on the data
    assert lenient._run.state.raw_counts()["null_rows"] == 1


def test_an_exception_of_a_signal_handler_is_not_a_difference_of_classes():
    """At any point while the classes of a call are compared with the run's: it is raised, or nothing happens."""

    class Alarm(Exception):
        pass

    learner = NOGD(horizon=100_000).partial_fit(X[:10], Y[:10], classes=[0, 1])
    events, k = [-1], 0
    while events[0] < 0:  # until the call has no such point left
        events = [k]

        def handler(frame, event, arg, events=events):
            while frame is not None and frame.f_code.co_name != "_run_targets":
                frame = frame.f_back
            if frame is not None:
                events[0] -= 1
                if events[0] == -1:
                    raise Alarm

        sys.setprofile(handler)
        try:
            learner.partial_fit(X[:10], Y[:10], classes=[0, 1])
        except Alarm:
            pass
        finally:
            sys.setprofile(None)
        k += 1
    assert k > 60
