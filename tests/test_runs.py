"""What all compiled runs of learners share."""

from __future__ import annotations

import numpy as np
import pytest
from ciphers import watch

from privol import DPFTRL, NOGD, PIGD, PQFTL
from privol.errors import StateError


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
