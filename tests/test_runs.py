"""What all compiled runs of learners share."""

from __future__ import annotations

import numpy as np
import pytest
from ciphers import watch

from privol import DPFTRL, NOGD, PIGD, PQFTL
from privol.errors import BudgetExceeded, InvalidParameter, StateError


@pytest.mark.parametrize("kind", [PIGD, NOGD, DPFTRL, PQFTL])
def test_what_runs_while_noise_is_drawn_is_refused_not_deadlocked(monkeypatch, kind):
    """As a finaliser might that the garbage collector runs in the cipher, or a signal's handler."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3000, 3)), rng.normal(size=3000)
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


@pytest.mark.parametrize("design", ["blt", "tree", "sqrt"])
def test_a_close_that_was_interrupted_ends_the_run_all_the_same(monkeypatch, design):
    """No row is learnt after a batch was ended before its time: there would be more steps than are accounted for."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 2)), rng.normal(size=12)
    words = {"horizon": 12, "batch": 4, "release": 1, "design": design, "random_state": 1, "l2": 0.1}
    expected = PQFTL(**words).partial_fit(X[:6], y[:6]).close()
    watched = watch(monkeypatch)
    learner = PQFTL(**words).partial_fit(X[:6], y[:6])
    fresh = learner._open_run(2, 12, None)[0]  # with no words ahead
    fresh._restore(learner._run.state._secret_arrays())
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
def test_gradients_are_told_only_to_noise_that_was_scaled_to_them(kind):
    learner = kind(horizon=5, random_state=0)
    learner.ask(2)
    learner.set_params(gradient_bound=1.0)
    with pytest.raises(InvalidParameter, match="before the run begins"):
        learner.tell(gradient=[1.0, 0.0, 0.0])
    assert learner.n_rows_ == 0
    lenient = kind(horizon=5, random_state=0, gradient_bound=1.0, on_invalid="zero")
    lenient.ask(2)
    lenient.tell(gradient=[1e200, 0.0, 0.0])  # as of a row: the null row, and no error that depends on the data
    assert lenient._run.state._diagnostics()["null_rows"] == 1
