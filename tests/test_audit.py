"""A small audit of PIGD: two worst streams, many runs, the best linear distinguisher, a lower bound on what it proves.

For linear losses the releases are Gaussian vectors whose means differ between the two streams by a known vector, so
the best test is linear in them and its two error rates give mu. A correct learner stays below its claim and close to
it; one with two thirds of the noise is caught.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from alpha import rate
from scipy.stats import beta, norm

from privol import PIGD
from privol._core._iterate import IterateRun
from privol.geometry import L2Ball
from privol.guarantees import gdp_epsilon
from privol.losses import get_loss
from privol.noise import STREAM_RELEASES, Source, decide_lattice_point

RUNS, ROWS = 6000, 12
DELTA = 1e-5


def learner():
    # a loss with constant slopes on a huge ball: nothing is clipped by the projection of the released point
    return PIGD(
        loss="hinge", epsilon=4.0, delta=DELTA, l2=1.0, radius=40.0, fit_intercept=False, horizon=ROWS,
        noise_shape="lipschitz",
    )


def releases(plan, schedule, X, rng):
    """Every model that one run publishes."""
    state = IterateRun(
        dim=1, intercept=False, loss=get_loss("hinge"), domain=L2Ball(40.0), update="implicit",
        constrained=plan.constrained, schedule=schedule, every=plan.releases.every, releases=plan.releases.rows,
        horizon=ROWS, last_row=plan.releases.last_row, refresh=plan.refresh, x_bound=1.0, y_bound=1.0, signs=True,
        magnitude=41.0,
        source=Source(rng.bytes(32), private=False, description="audit"), stream=STREAM_RELEASES,
        decide=decide_lattice_point,
    )
    out, y = [], np.ones(1)
    for row in X:
        state.learn(row[None, :], y)
        if state.n_releases > len(out):
            out.append(state.released_model()[0])
    return out


def lower_bound(name, release, factor=1.0):
    """A confidence bound on mu, and on epsilon at DELTA, of runs with the noise times ``factor``."""
    plan = learner().calibrate(1, ROWS, release)
    schedule = plan.schedule.with_gain(plan.schedule.gain * factor)
    rng = np.random.default_rng(20)
    worlds = []
    for sign in (1.0, -1.0):
        X = np.zeros((ROWS, 1))
        X[0] = sign
        worlds.append(np.array([releases(plan, schedule, X, rng) for _ in range(RUNS)]))
    rows = np.concatenate(list(plan.releases.chunks()))
    assert worlds[0].shape == (RUNS, len(rows))
    # means differ by the sensitivity; weight each release by shift / variance
    weights = np.array([plan.sensitivity(int(t)) / plan.std(int(t)) ** 2 for t in rows])
    scores = [world @ weights for world in worlds]  # the first world is the higher one
    false = int(np.sum(scores[1] > 0.0))  # the midpoint: the streams are mirror images
    missed = int(np.sum(scores[0] <= 0.0))
    confidence = rate(name) / 2
    high = [float(beta.ppf(1 - confidence, k + 1, RUNS - k)) for k in (false, missed)]  # Clopper-Pearson
    mu = -float(norm.ppf(high[0])) - float(norm.ppf(high[1]))
    epsilon = math.log((1 - high[1] - DELTA) / high[0])
    return plan.mu, mu, epsilon


@pytest.mark.parametrize(("name", "release"), [("audit.last", "last"), ("audit.every", 4), ("audit.all", "all")])
def test_audit(name, release):
    """With confidence 1 - rate the runs' true mu is above the bound, so the bound must be below the claim."""
    claim, mu, epsilon = lower_bound(name, release)
    assert mu <= claim
    assert mu >= 0.7 * claim, "the audit is too weak to prove anything"
    assert 0 < epsilon <= gdp_epsilon(claim, DELTA)


@pytest.mark.parametrize(("name", "release"), [("audit.last", "last"), ("audit.every", 4)])
def test_audit_catches_two_thirds_of_the_noise(name, release):
    claim, mu, _ = lower_bound(name, release, factor=2 / 3)
    assert mu > claim
