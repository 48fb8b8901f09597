"""A user's own algorithm made private: its noise, its cost, the effect of one row, and refuted declarations."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest

from privol import PIGD
from privol.errors import BudgetExceeded, InvalidParameter, StateError
from privol.guarantees import gdp_mu
from privol.ledger import Ledger
from privol.noise import STREAM_RELEASES, decide_lattice_point, make_source
from privol.wrapping import POCP, largest_ratio

N, DIM = 40, 3
RNG = np.random.default_rng(5)
ROWS = RNG.normal(size=(N, DIM))
ROWS /= np.linalg.norm(ROWS, axis=1, keepdims=True)


def mean(state, row):
    total, n = state
    return total + row, n + 1


def of_mean(state):
    return state[0] / max(state[1], 1)


START = (np.zeros(DIM), 0)


def wrapped(**given):
    words = {"sensitivity": 2.0, "horizon": N, "read": of_mean, "epsilon": 2.0, "random_state": 7, **given}
    return POCP(mean, START, **words)


@pytest.mark.parametrize("shape", ["lipschitz", "smooth", "paper"])
@pytest.mark.parametrize("release", ["all", 6, [2, 3, 30], "last"])
def test_released_is_the_projected_iterate_with_the_planned_noise(release, shape):
    """With the same key, bit for bit; and the noise adds up to the budget."""
    run = wrapped(release=release, noise_shape=shape)
    plan, source = run.plan_, make_source(7)
    seen = run.learn_many(ROWS)
    assert len(seen) == len(plan.rows) == run.n_releases_ == plan.releases.count
    for row, std, s, point in zip(plan.rows, plan.stds, plan.sensitivities, seen, strict=True):
        exact = np.sum(ROWS[:row], axis=0) / row
        x = source.add(
            np.cumsum(ROWS, axis=0)[row - 1] / row,
            std,
            stream=STREAM_RELEASES,
            row=int(row),
            decide=decide_lattice_point,
        )
        np.testing.assert_allclose(x, exact, atol=40 * std)
        np.testing.assert_allclose(point, x / max(1.0, np.linalg.norm(x)), rtol=1e-14)
        assert 2.0 / row <= s <= 2.0 / row * (1 + 1e-11)
    spent = math.fsum((plan.sensitivities / plan.stds) ** 2)
    assert spent == pytest.approx(gdp_mu(2.0, 1e-6) ** 2, rel=1e-9)
    assert spent <= gdp_mu(2.0, 1e-6) ** 2
    power = {"lipschitz": 2 / 3, "smooth": 0.5, "paper": 1.0}[shape]
    np.testing.assert_allclose(plan.stds / plan.stds[0], (plan.rows[0] / plan.rows) ** power, rtol=1e-9)
    assert run.ledger_.spent.mu == pytest.approx(gdp_mu(2.0, 1e-6), rel=1e-9)
    np.testing.assert_array_equal(run.point_, seen[-1])


def test_the_noise_is_that_of_pigd_for_the_same_sensitivities():
    plan = PIGD(epsilon=2.0, l2=0.5, release=5, fit_intercept=False).calibrate(DIM, N)
    run = wrapped(sensitivity=plan.sensitivity, release=5)
    np.testing.assert_allclose(run.plan_.stds, [plan.std(int(t)) for t in run.plan_.rows], rtol=1e-9)


def test_one_row_moves_all_releases_together_by_mu_at_most():
    """The mean attains its declared sensitivity: opposite rows, from the first one on."""
    one, other = wrapped(epsilon=math.inf), wrapped(epsilon=math.inf)
    plan = wrapped().plan_
    changed = ROWS.copy()
    changed[0] = -ROWS[0]
    apart = np.array(one.learn_many(ROWS)) - np.array(other.learn_many(changed))
    mu = math.sqrt(np.sum((np.linalg.norm(apart, axis=1) / plan.stds) ** 2))
    assert 0.999999 * plan.mu < mu <= plan.mu
    assert one.guarantee_.kind == "none"


def test_a_sensitivity_beyond_the_ball_costs_the_diameter_of_the_ball():
    assert wrapped(sensitivity=lambda t: 1e6, radius=0.5, release="last").plan_.sensitivities[0] == pytest.approx(1.0)
    run = POCP(lambda state, row: state + row, np.zeros(1), sensitivity=1.0, horizon=2, epsilon=math.inf)
    assert run.learn(np.array([5.0])) == pytest.approx(1.0)


def test_an_iterate_far_outside_is_projected_before_the_noise():
    """Its noise is scaled to the ball's diameter: around the iterate itself it would hide nothing of its direction.

    With noise of 5 radii each of 40 releases lies on the other side with a probability of at least 0.42.
    """

    def released(seed):
        words = {"sensitivity": 1e6, "horizon": 1, "release": "last", "epsilon": 0.5, "random_state": seed}
        run = POCP(lambda state, row: state + row, np.zeros(2), **words)
        assert run.plan_.stds[0] > 5.0
        return float(run.learn(np.array([1e6, 0.0]))[0])

    assert min(map(released, range(40))) < 0.0


def test_the_guarantee_says_whose_claim_the_sensitivity_is():
    words = wrapped(random_state=None).guarantee_.sentence()
    assert "is the user's claim: privol has not proved it" in words
    assert wrapped(random_state=None).guarantee_.mu == pytest.approx(gdp_mu(2.0, 1e-6))


def test_iterates_that_are_not_released_cost_nothing_and_a_ledger_pays_for_the_others():
    ledger = Ledger(epsilon=2.5, delta=1e-6)
    run = wrapped(release=[10, 20], ledger=ledger)
    assert run.learn_many(ROWS[:9]) == []
    assert ledger.spent.mu == 0.0
    run.learn(ROWS[9])
    part = ledger.spent.mu
    assert 0.0 < part < run.guarantee_.mu
    with pytest.raises(BudgetExceeded):
        wrapped(ledger=ledger)  # the first run is reserved in full
    run.close()
    assert ledger.spent.mu == pytest.approx(part)
    wrapped(ledger=ledger, epsilon=0.5)
    with pytest.raises(StateError, match="the run is closed"):
        run.learn(ROWS[0])


def test_a_row_beyond_the_horizon_is_refused_before_it_is_learnt():
    calls = []

    def update(state, row):
        calls.append(row)
        return state

    run = POCP(update, np.zeros(1), sensitivity=1.0, horizon=2, random_state=1)
    run.learn_many([1, 2])
    with pytest.raises(BudgetExceeded, match="horizon of 2 rows is used up"):
        run.learn(3)
    assert calls == [1, 2]


@pytest.mark.parametrize("bad", [np.array([math.nan]), np.zeros(2), "text"])
def test_a_run_whose_update_fails_has_ended(bad):
    run = POCP(lambda state, row: row, np.zeros(1), sensitivity=1.0, horizon=5, random_state=1)
    run.learn(np.array([0.5]))
    with pytest.raises(InvalidParameter, match="an iterate must be"):
        run.learn(bad)
    with pytest.raises(StateError, match="the update failed at a row"):
        run.learn(np.array([0.5]))


def test_secrets_are_not_copied():
    run = wrapped()
    with pytest.raises(StateError, match="cannot be copied or pickled"):
        pickle.dumps(run)
    with pytest.raises(StateError, match="cannot be copied or pickled"):
        copy.copy(run)


def test_a_wrong_declaration_is_refuted_and_a_right_one_is_not():
    words = {"read": of_mean, "rows": ROWS[:12], "others": -ROWS[:12]}
    right = largest_ratio(mean, START, sensitivity=2.0, **words)
    assert 1 - 1e-12 < right.ratio < 1 + 1e-12
    wrong = largest_ratio(mean, START, sensitivity=1.0, changed=[3, 5], **words)
    assert wrong.ratio == pytest.approx(2.0)
    assert wrong.changed in (3, 5)
    assert wrong.after >= wrong.changed
    # the memory of a sum does not fade as 1 / t would require
    total = largest_ratio(lambda s, row: s + row, np.zeros(DIM), ROWS[:12], -ROWS[:12], sensitivity=2.0)
    assert total.ratio == pytest.approx(12.0)
    assert total.after == 12


def test_an_update_that_is_not_deterministic_is_caught():
    rng = np.random.default_rng(0)
    with pytest.raises(InvalidParameter, match="update must be deterministic"):
        largest_ratio(lambda s, row: s + rng.normal(), np.zeros(1), [0.0], [1.0], sensitivity=1.0)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: POCP("no", np.zeros(1), sensitivity=1.0, horizon=2), "update must be a function"),
        (lambda: POCP(mean, START, sensitivity=1.0, horizon=2), "vector"),
        (lambda: wrapped(sensitivity=0.0), "sensitivity"),
        (lambda: wrapped(sensitivity=lambda t: math.nan), "sensitivity"),
        (lambda: wrapped(sensitivity=lambda t: -1.0), "sensitivity"),
        (lambda: wrapped(horizon=0), "horizon"),
        (lambda: wrapped(radius=0.0), "radius"),
        (lambda: wrapped(read=3), "read must be a function"),
        (lambda: wrapped(noise_shape="flat"), "noise_shape"),
        (lambda: wrapped(adjacency="add"), "adjacency"),
        (lambda: wrapped(ledger=3), "ledger must be"),
        (lambda: wrapped(release=N + 1), "release"),
        (lambda: largest_ratio(mean, START, [1], [], sensitivity=1.0), "rows and others must be equally many"),
        (lambda: largest_ratio(mean, START, ROWS, ROWS, sensitivity=1.0, read=of_mean, changed=[N + 1]), "changed"),
    ],
)
def test_refusals(call, match):
    with pytest.raises(InvalidParameter, match=match):
        call()
