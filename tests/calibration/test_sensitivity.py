"""How far one row can move the secret iterate: adversarial neighbouring streams, found by search.

Above the bound, the noise is too small. Far below it everywhere, the test is blind. So each family is limited from
above by the calibration's sensitivity and from below by the share of it that the search must find; where the proof says
that the bound is attained, that is nearly all of it, and a diameter 5 % too small is detected.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

from privol import PGIGA, PIGD
from privol.geometry import Box, L1Ball, Simplex
from privol.losses import Huber, SmoothHinge, get_loss
from privol.noise import make_source

pytestmark = pytest.mark.slow

CAUGHT = 0.96  # of the bound: an instance this bad violates one that is 5 % smaller


@cache
def plan_of(learner, d, n):
    """The calibration of a run on n rows, from public numbers alone, and its bounds after every row."""
    _, plan, _ = learner._open_run(d, n, "last")
    return plan, np.array([plan.sensitivity(t) for t in range(1, n + 1)])


def run_of(learner, d, n):
    """A fresh run of the learner, and its public calibration."""
    plan, _ = plan_of(learner, d, n)
    return learner.build(plan, None if math.isinf(plan.mu) else make_source(learner.random_state)), plan


def path(learner, X, y, null=None):
    """Secret iterates after every row; ``null``: 0-based index of a row learnt as the null row."""
    n, d = X.shape
    state, plan = run_of(learner, d, n)
    out = []
    for t in range(n):
        target = np.array([np.nan]) if t == null else y[t : t + 1]
        state.learn(X[t : t + 1], target)
        out.append(state._secret_iterate())
    return np.array(out), plan


def ratios(learner, X, y, tau, row, target, null=False):
    """Distance of the two paths over the bound, after rows tau, tau + 1, ... (0-based tau)."""
    one, _ = path(learner, X, y)
    if null:
        two, _ = path(learner, X, y, null=tau)
    else:
        other, targets = X.copy(), y.copy()
        other[tau], targets[tau] = row, target
        two, _ = path(learner, other, targets)
    _, bounds = plan_of(learner, X.shape[1], len(X))
    distances = np.linalg.norm(one - two, axis=1)
    assert not distances[:tau].any(), "a row must not act on earlier iterates"
    return distances[tau:] / bounds[tau:]


def admissible(learner, rng, d):
    """A random row on, within or beyond the bound, and a target at the bounds or between them."""
    v = rng.normal(size=d)
    v *= learner.x_bound * rng.choice([1.0, 1.0, 1.0, rng.random(), 3.0]) / np.linalg.norm(v)
    if get_loss(learner.loss).kind == "classification":
        return v, float(rng.choice([-1.0, 1.0]))
    return v, float(learner.y_bound * rng.choice([-1.0, 1.0, rng.uniform(-1, 1)]))


def search(learner, d, n, seed, starts=10, climbs=40, null=False):
    """Largest ratio found by random starts and hill climbing over all rows, targets and the position of the change."""
    rng = np.random.default_rng(seed)
    best = 0.0
    for start in range(starts):
        tau = start % n
        pairs = [admissible(learner, rng, d) for _ in range(n + 1)]
        if start % 3 == 0:  # one row after another drives the iterate in one direction: the constraint becomes active
            pairs[:tau] = [pairs[0]] * tau
        X, y = np.array([v for v, _ in pairs]), np.array([t for _, t in pairs])
        if start % 2 == 0:
            X[n], y[n] = (X[tau], -y[tau]) if start % 4 else (-X[tau], y[tau])

        def worst(X, y, tau=tau):
            return float(np.max(ratios(learner, X[:n], y[:n], tau, X[n], y[n], null)))

        score, size = worst(X, y), 0.5
        for _ in range(climbs):
            X2, y2 = X.copy(), y.copy()
            which = rng.integers(n + 1)
            X2[which] += size * learner.x_bound * rng.normal(size=d)
            if rng.random() < 0.3:
                y2[which] = admissible(learner, rng, d)[1]
            new = worst(X2, y2)
            if new >= score:
                score, X, y = new, X2, y2
            else:
                size *= 0.95
        best = max(best, score)
    return best


# ---- never above the bound -------------------------------------------------------------------------

SMALL = {"x_bound": 0.1, "fit_intercept": False, "epsilon": math.inf}
FAMILIES = {
    # attained: gradients of constant size, opposite rows
    "hinge": (PIGD, {"loss": "hinge", "l2": 0.02, "radius": 50.0, **SMALL}, 0.999),
    "hinge-strong": (PIGD, {"loss": "hinge", "l2": 1.0, "radius": 50.0, "fit_intercept": False}, 0.999),
    "absolute": (PIGD, {"loss": "absolute", "l2": 0.02, "radius": 50.0, **SMALL}, 0.999),
    "hinge-intercept": (PIGD, {"loss": "hinge", "l2": 4.0, "x_bound": 1.0, "radius": 20.0}, 0.69),
    "huber-steep": (PGIGA, {"loss": Huber(width=0.5), "l2": 0.02, "radius": 50.0, "y_bound": 1.0, **SMALL}, 0.999),
    "smooth-hinge-steep": (PGIGA, {"loss": SmoothHinge(width=0.2), "l2": 0.02, "radius": 50.0, **SMALL}, 0.999),
    # nearly attained: the iterate stays where the gradients are largest
    "logistic": (PGIGA, {"loss": "logistic", "l2": 0.5, "radius": 0.5, **SMALL}, CAUGHT),
    "logistic-implicit": (PIGD, {"loss": "logistic", "l2": 0.5, "radius": 0.5, **SMALL}, CAUGHT),
    "squared": (PGIGA, {"loss": "squared", "l2": 0.5, "radius": 0.1, **SMALL}, CAUGHT),
    "squared-implicit": (PIGD, {"loss": "squared", "l2": 0.5, "radius": 0.1, **SMALL}, CAUGHT),
    # the ball is active; steep losses; other sets
    "hinge-active": (PIGD, {"loss": "hinge", "l2": 0.05, "radius": 0.8, "fit_intercept": False}, 0.3),
    "logistic-active": (PIGD, {"loss": "logistic", "l2": 0.01, "radius": 4.0, "x_bound": 2.0}, 0.1),
    "squared-active": (PIGD, {"loss": "squared", "l2": 0.05, "radius": 0.6, "x_bound": 1.5}, 0.1),
    "logistic-gradient": (PGIGA, {"loss": "logistic", "l2": 0.05, "radius": 3.0, "x_bound": 2.0}, 0.1),
    "squared-gradient": (PGIGA, {"loss": "squared", "l2": 0.05, "radius": 1.0}, 0.1),
    "least-offset": (
        PGIGA,
        {"loss": "squared", "l2": 0.01, "radius": 2.0, "y_bound": 3.0, "fit_intercept": False},
        0.1,
    ),
    "box": (PIGD, {"loss": "hinge", "l2": 0.1, "domain": Box(-0.2, 0.3)}, 0.1),
    "l1": (PIGD, {"loss": "logistic", "l2": 0.3, "domain": L1Ball(0.7)}, 0.1),
    "simplex": (PGIGA, {"loss": "logistic", "l2": 0.3, "domain": Simplex(1.0)}, 0.1),
    "inverse-sqrt": (
        PIGD,
        {"loss": "hinge", "l2": 0.02, "l2_schedule": "inverse_sqrt", "radius": 50.0, **SMALL},
        0.999,
    ),
    "inverse-sqrt-gradient": (
        PGIGA,
        {"loss": Huber(width=0.5), "l2": 0.02, "l2_schedule": "inverse_sqrt", "radius": 50.0, **SMALL},
        0.999,
    ),
    "offset": (PIGD, {"loss": "hinge", "l2": 0.02, "step_offset": 5.0, "radius": 50.0, **SMALL}, 0.999),
    "short-offset": (PIGD, {"loss": "absolute", "l2": 0.05, "step_offset": 0.5, "radius": 50.0, **SMALL}, 0.999),
}


def learner_of(family, **more):
    cls, parameters, _ = FAMILIES[family]
    return cls(**{"epsilon": math.inf, **parameters, **more})


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("family", list(FAMILIES))
def test_search_stays_within_the_bound(family, d):
    found = search(learner_of(family), d, 5, seed=hash_of(family, d), starts=10 if d == 2 else 5)
    assert found <= 1.0
    if d == 2:
        assert found >= FAMILIES[family][2], "the search is too weak to prove anything"


def hash_of(family, d):
    return sum(family.encode()) * 7 + d


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize(
    "family", ["hinge", "hinge-active", "absolute", "logistic", "squared-active", "l1", "huber-steep"]
)
def test_search_with_the_null_row_as_neighbour(family, d):
    found = search(learner_of(family, adjacency="zero_out"), d, 4, seed=3 + d, null=True)
    assert found <= 1.0
    if family in ("hinge", "absolute", "huber-steep") and d == 2:
        assert found >= 0.999
    if family == "logistic" and d == 2:
        assert found >= CAUGHT


# ---- attained, at every row and for every weight of the regulariser -----------------------------------


@pytest.mark.parametrize("loss", ["hinge", "absolute"])
@pytest.mark.parametrize("l2", [1e-2, 1e-1, 1.0])
@pytest.mark.parametrize("tau", [0, 1, 4, 19])
def test_attained_by_opposite_rows(loss, l2, tau):
    """Linear losses: the shift is D / A_t at the changed row and at every later one."""
    n, x_bound = 30, 0.05
    learner = PIGD(loss=loss, l2=l2, x_bound=x_bound, radius=30.0, fit_intercept=False, epsilon=math.inf)
    X, y = np.zeros((n, 2)), np.ones(n)
    X[tau] = [0.0, x_bound]
    found = ratios(learner, X, y, tau, -X[tau], 1.0)
    assert found.max() <= 1.0
    assert found.min() >= 1 - 1e-5


@pytest.mark.parametrize("l2", [1e-2, 1.0])
@pytest.mark.parametrize("tau", [0, 7])
def test_attained_by_gradient_steps(l2, tau):
    loss = SmoothHinge(width=0.3)
    learner = PGIGA(loss=loss, l2=l2, x_bound=0.05, radius=30.0, fit_intercept=False, epsilon=math.inf)
    X, y = np.zeros((20, 2)), np.ones(20)
    X[tau] = [0.05, 0.0]
    found = ratios(learner, X, y, tau, -X[tau], 1.0)
    assert found.max() <= 1.0
    assert found.min() >= 1 - 1e-5


def test_attained_with_intercept():
    """Rows (v, 1) and (v, 1) with opposite labels: gradients differ by twice the row, constant included."""
    learner = PIGD(loss="hinge", l2=8.0, radius=30.0, epsilon=math.inf)
    X, y = np.zeros((6, 3)), np.ones(6)
    X[:, 0] = 1.0
    found = ratios(learner, X[:1], y[:1], 0, X[0], -1.0)
    assert found.max() <= 1.0
    assert found.max() >= 1 - 1e-5


def test_attained_with_zero_out():
    learner = PIGD(
        loss="hinge", l2=0.02, x_bound=0.1, radius=30.0, fit_intercept=False, adjacency="zero_out", epsilon=math.inf
    )
    X, y = np.zeros((10, 2)), np.ones(10)
    X[3] = [0.1, 0.0]
    found = ratios(learner, X, y, 3, None, None, null=True)
    assert found.max() <= 1.0
    assert found.min() >= 1 - 1e-5


def test_rows_beyond_the_bound_move_no_more():
    learner = PIGD(loss="hinge", l2=0.02, x_bound=0.1, radius=30.0, fit_intercept=False, epsilon=math.inf)
    for size in (1.0, 1e6, 1e100):
        X, y = np.zeros((4, 2)), np.ones(4)
        X[1] = [size, 0.0]
        found = ratios(learner, X, y, 1, -X[1], 1.0)
        assert found.max() <= 1.0
        assert found.max() >= 1 - 1e-5


def test_invalid_rows_are_neighbours_too():
    """on_invalid="zero": a null row against any row, within the bound for replacements."""
    for family in ("hinge", "hinge-active", "logistic-active", "squared-active", "least-offset"):
        assert search(learner_of(family), 2, 4, seed=5, starts=6, climbs=30, null=True) <= 1.0


# ---- the published gradient step ---------------------------------------------------------------------


@pytest.mark.parametrize("tau", [5, 6, 11, 30])
def test_published_gradient_profile(tau):
    """2 D / (alpha tau) at once, then 2 D (tau - 1) / (alpha t (t - 1)): the profile behind its true mu is attained."""
    n, l2, x_bound = 40, 0.5, 0.2
    learner = PGIGA(
        loss=SmoothHinge(width=0.25),
        l2=l2,
        x_bound=x_bound,
        radius=30.0,
        fit_intercept=False,
        calibration="published",
        epsilon=1.0,
        random_state=0,
    )
    X, y = np.zeros((n, 2)), np.ones(n)
    X[tau - 1] = [x_bound, 0.0]
    one, plan = path(learner, X, y)
    two, _ = path(learner, np.where(X != 0, -X, 0.0), y)
    assert 2 <= plan.schedule.first <= 5
    shift = np.linalg.norm(one - two, axis=1)
    for t in range(tau, n + 1):
        profile = 2 * plan.diameter / (l2 * tau)
        if t > tau:
            profile = 2 * plan.diameter * (tau - 1) / (l2 * t * (t - 1))
        assert shift[t - 1] == pytest.approx(profile, rel=1e-6)
        assert shift[t - 1] <= plan.sensitivity(t)


@pytest.mark.parametrize("seed", range(6))
def test_published_gradient_search(seed):
    """Random streams stay within the profile, with and without the ball."""
    rng = np.random.default_rng(seed)
    n, l2 = 25, 0.5
    learner = PGIGA(
        loss=("logistic", "squared")[seed % 2],
        l2=l2,
        x_bound=0.7,
        radius=(0.3, 20.0)[seed // 3],
        fit_intercept=False,
        calibration="published",
        epsilon=1.0,
        random_state=0,
    )
    for _ in range(12):
        pairs = [admissible(learner, rng, 2) for _ in range(n + 1)]
        X, y = np.array([v for v, _ in pairs]), np.array([t for _, t in pairs])
        tau = int(rng.integers(1, n + 1))
        other, targets = X[:n].copy(), y[:n].copy()
        other[tau - 1], targets[tau - 1] = X[n], y[n]
        one, plan = path(learner, X[:n], y[:n])
        two, _ = path(learner, other, targets)
        first = plan.schedule.first
        for t in range(1, n + 1):
            shift = float(np.linalg.norm(one[t - 1] - two[t - 1]))
            if t < tau or tau < first:
                assert shift == 0.0
                continue
            profile = 2 * plan.diameter / (l2 * tau)
            if t > tau:
                profile = 2 * plan.diameter * (tau - 1) / (l2 * t * (t - 1))
            assert shift <= profile * (1 + 1e-9) + plan.schedule.rounding(t)
