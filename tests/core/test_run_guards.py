"""What a compiled run refuses and hides in the middle of its work: single guards, each by the state that needs it."""

from __future__ import annotations

import ctypes
import math
from dataclasses import replace

import numpy as np
import pytest
from ciphers import watch

from privol import DPFTRL, LDPSGD, NOGD, PIGD, PQFTL, BanditMIOGD
from privol._core._noise import Source
from privol.errors import InvalidParameter, StateError
from privol.geometry import L2Ball
from privol.losses import Custom
from privol.noise import granularity
from privol.noise.bits import make_source

RNG = np.random.default_rng(0)
X, Y = RNG.uniform(-0.5, 0.5, (12, 2)), RNG.uniform(-0.5, 0.5, 12)


def test_no_checkpoint_is_made_while_a_release_is_due(monkeypatch):
    """It would hold a row that was learnt and not released, and a resumed run would never release it."""
    expected = PIGD(loss="squared", horizon=12, release=1, random_state=1).partial_fit(X[:5], Y[:5])
    watched = watch(monkeypatch)
    learner = PIGD(loss="squared", horizon=12, release=1, random_state=1).partial_fit(X[:1], Y[:1])
    fresh = learner._open_run(2, 12, 1)[0]  # with no words ahead
    fresh.restore(learner._run.state.secret_arrays())

    def fail(real, rows, out):
        raise KeyboardInterrupt

    watched.fail = fail
    with pytest.raises(KeyboardInterrupt):
        fresh.learn(X[1:5], Y[1:5])
    assert fresh.n_rows == fresh.n_releases + 1
    with pytest.raises(StateError, match="a release is due"):
        fresh.secret_arrays()
    watched.fail = None
    fresh.finish()
    assert fresh.n_rows == fresh.n_releases
    fresh.learn(X[fresh.n_rows : 5], Y[fresh.n_rows : 5])
    np.testing.assert_array_equal(fresh.released_model(), expected._run.state.released_model())


@pytest.mark.parametrize("kind", [PIGD, NOGD, DPFTRL, PQFTL])
def test_an_interrupt_while_a_run_is_made_ends_nothing_else(monkeypatch, kind):
    """Found by kills: the process crashed, as the run wiped memory that it had and did not know yet."""
    real, calls, strikes = L2Ball.start, [], []

    def start(ball, dim):
        calls.append(dim)
        if len(calls) == (strikes or [0])[-1]:
            raise KeyboardInterrupt
        return real(ball, dim)

    monkeypatch.setattr(L2Ball, "start", start)
    words = {"loss": "squared", "x_bound": 1.0, "horizon": 12, "release": 12, "random_state": 1, "radius": 1.0}
    kind(**words).partial_fit(X[:5], Y[:5])
    for last in range(1, len(calls) + 1):  # the compiled run asks for it when it has its memory
        calls.clear()
        strikes.append(last)
        learner = kind(**words)
        with pytest.raises(KeyboardInterrupt):
            learner.partial_fit(X[:5], Y[:5])
        strikes.append(0)
        assert learner.partial_fit(X[:5], Y[:5]).n_rows_ == 5


def test_a_block_counts_when_it_is_done():
    """It may yet be undone, as its loss may fail on any row: until then nobody sees more rows than before it."""
    seen, running = [], []

    def gradient(p, y):
        for learner in running:
            (entry,) = learner.ledger_.entries()
            seen.append((entry.last_row, entry.releases, entry.mu_squared))
        return float(np.sign(p - y))

    loss = Custom(value=lambda p, y: abs(p - y), gradient=gradient, lipschitz=1.0, smoothness=math.inf,
                  kind="regression")  # fmt: skip
    learner = NOGD(loss=loss, horizon=12, release=1, random_state=1)
    learner.partial_fit(X[:1], Y[:1])
    running.append(learner)
    (before,) = learner.ledger_.entries()
    learner.partial_fit(X[1:], Y[1:])
    assert seen
    assert set(seen) == {(1, 1, before.mu_squared)}
    (after,) = learner.ledger_.entries()
    assert (after.last_row, after.releases) == (12, 12)


def test_a_run_without_noise_that_has_ended_learns_nothing():
    """A run with noise is also stopped by its source, which has no key any more."""
    state = PIGD(loss="squared", epsilon=math.inf, horizon=12, release=1).partial_fit(X[:3], Y[:3])._run.state
    state.close()
    for use in (lambda: state.learn(X[3:], Y[3:]), lambda: state.learn_one(X[3], 0.0)):
        with pytest.raises(StateError, match="closed"):
            use()
    assert state.n_rows == 3


def test_a_source_that_has_ended_keeps_no_key():
    """Its object may live on: a traceback, a debugger or a caller may hold it."""
    key = bytes(range(101, 133))
    source = Source(key, private=True, description="bits of this test")
    state = NOGD(horizon=12)._open_run(2, 12, 1, source=source)[0]
    assert key in ctypes.string_at(id(source), type(source).__basicsize__)
    state.close()
    assert key not in ctypes.string_at(id(source), type(source).__basicsize__)


def test_extra_words_are_those_of_the_coordinate():
    """Two coordinates with the same extra words would have dependent noise."""
    source, asked = Source(bytes(32), private=False, description="bits of this test"), []

    def decide(word, extra, x, scale, step):
        asked.append(extra(1))
        return 0.0

    far = 2.0**60 * granularity(1.0)  # no double decides it
    source.add(np.array([0.0, far, 0.0, far]), 1.0, stream=0, row=7, decide=decide)
    assert asked == [source.words(stream=0, level=1, block=block, row=7) for block in (1, 3)]


@pytest.mark.parametrize("kind", [PIGD, NOGD, DPFTRL, PQFTL, LDPSGD, BanditMIOGD])
def test_a_run_with_noise_needs_a_source_of_it(kind):
    learner = kind()
    with pytest.raises(InvalidParameter, match="a source"):
        learner.build(learner.calibrate(3, 100), None)


@pytest.mark.parametrize("kind", [LDPSGD, BanditMIOGD])
def test_a_report_is_as_long_as_what_it_reports(kind):
    plan, other = (LDPSGD(epsilon=4.0).calibrate(n_features, 100) for n_features in (3, 5))
    learner = kind(epsilon=4.0) if kind is LDPSGD else kind()
    wrong = replace(plan if kind is LDPSGD else learner.calibrate(3, 100), report=other.report)
    with pytest.raises(
        InvalidParameter, match=r"the report (has 6 coordinates, the model 4|must be of 1 numbers, found 6)"
    ):
        learner.build(wrong, make_source(1))
