"""A user's own loss that fails inside a block: the block is undone, and the error names the loss."""

from __future__ import annotations

import math
import pickle
import threading

import numpy as np
import pytest
from run_tools import N, data, everything

import privol.learners._base as base
from privol import PIGD
from privol.errors import InvalidParameter, StateError
from privol.ledger import Ledger
from privol.losses import Custom


class Fragile:
    """|p - y|, until its n-th call does something else."""

    def __init__(self):
        self.calls, self.at, self.action = 0, None, None

    def value(self, p, y):
        return abs(p - y)

    def gradient(self, p, y):
        self.calls += 1
        if self.at is not None and self.calls >= self.at:
            self.at = None
            result = self.action()
            if result is not None:
                return result
        return float(np.sign(p - y))

    def arm(self, after, action):
        self.at, self.action = self.calls + after, action

    def loss(self):
        return Custom(value=self.value, gradient=self.gradient, lipschitz=1.0, smoothness=math.inf, kind="regression")


def fail(error):
    def action():
        raise error

    return action


def running_with(loss, **parameters):
    X, y = data(regression=True)
    given = {"epsilon": 2.0, "horizon": N, "release": 3, "random_state": 3, "radius": 0.2, **parameters}
    return PIGD(loss=loss, **given).partial_fit(X[:10], y[:10])


@pytest.mark.parametrize("error", [KeyError("no"), KeyboardInterrupt(), SystemExit(3), MemoryError()])
@pytest.mark.parametrize("after", [1, 60, 300])
def test_a_loss_that_fails_inside_a_block_undoes_the_block(error, after):
    X, y = data(regression=True)
    fragile = Fragile()
    learner = running_with(fragile.loss())
    before = everything(learner)
    fragile.arm(after, fail(error))
    with pytest.raises(type(error)):
        learner.partial_fit(X[10:], y[10:])
    assert everything(learner) == before
    fragile.arm(1, fail(error))
    with pytest.raises(type(error)):
        learner.learn_one(X[10], y[10])
    assert everything(learner) == before
    learner.partial_fit(X[10:], y[10:])  # the same rows again: as if nothing had happened
    unbroken = running_with(Fragile().loss()).partial_fit(X[10:], y[10:])
    assert everything(learner)[0] == everything(unbroken)[0]


def test_a_block_of_many_kernel_calls_is_undone_too(monkeypatch):
    monkeypatch.setattr(base, "BLOCK_ROWS", 4)
    X, y = data(regression=True)
    fragile = Fragile()
    learner = running_with(fragile.loss())
    before = everything(learner)
    fragile.arm(600, fail(KeyError("late")))
    with pytest.raises(KeyError):
        learner.partial_fit(X[10:], y[10:])
    assert everything(learner) == before


@pytest.mark.parametrize("wrong", [math.nan, "text", None])
def test_a_loss_that_returns_nan_is_refused(wrong):
    X, y = data(regression=True)
    fragile = Fragile()
    learner = running_with(fragile.loss())
    before = everything(learner)
    fragile.arm(40, (lambda: wrong) if wrong is not None else fail(TypeError("no number")))
    with pytest.raises((InvalidParameter, TypeError, ValueError)):
        learner.partial_fit(X[10:], y[10:])
    assert everything(learner) == before


def test_a_loss_that_uses_its_learner_is_refused_not_deadlocked():
    X, y = data(regression=True)
    uses = [
        lambda learner: learner.learn_one(X[0], 0.0),
        lambda learner: learner.partial_fit(X[:2], y[:2]),
        lambda learner: learner.coef_,
        lambda learner: learner.average_coef_,
        lambda learner: learner.close(),
        lambda learner: learner._run.state.secret_arrays(),
        pickle.dumps,
    ]
    refused = []

    def refuse():
        for use in uses:
            fragile = Fragile()
            learner = running_with(fragile.loss())
            before = everything(learner)
            fragile.arm(5, lambda use=use, learner=learner: use(learner) and None)
            with pytest.raises(StateError, match="busy"):
                learner.partial_fit(X[10:], y[10:])
            assert everything(learner) == before
            refused.append(use)

    thread = threading.Thread(target=refuse, daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive(), "deadlock"
    assert refused == uses


def test_a_fit_that_fails_releases_and_spends_nothing():
    X, y = data(regression=True)
    fragile, ledger = Fragile(), Ledger()
    learner = PIGD(loss=fragile.loss(), epsilon=2.0, release="last", radius=0.2, random_state=3, ledger=ledger)
    fragile.arm(60, fail(KeyError("no")))
    with pytest.raises(KeyError):
        learner.fit(X, y)
    (account,) = ledger.accounts
    assert account.closed
    assert (ledger.spent.mu, account.entry().releases) == (0.0, 0)
    learner.close()
    assert learner.n_releases_ == 0
