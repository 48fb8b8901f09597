"""Conditions and figures of learners that few parameters bring about."""

from __future__ import annotations

import math

import numpy as np
import pytest

from privol import DOLA, DPFTRL, NOGD, PIGD, AdaptiveFTRL, OutputPerturbation, SparseDOLA
from privol.encoding.users_taught import factor_of_all
from privol.guarantees import DELTA_TOO_LARGE
from privol.learners import PGIGA, PQFTL, AgnosticBANCO, ObjectivePerturbation
from privol.ledger import Ledger
from privol.prefix import PrefixSum


@pytest.fixture
def rows():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(100, 3)) / 4
    return X, (X[:, 0] > 0).astype(float)


@pytest.mark.parametrize("learner", [OutputPerturbation, ObjectivePerturbation])
def test_a_delta_that_a_published_row_would_meet_is_a_condition(learner, rows):
    large = learner(delta=0.05, random_state=1).fit(*rows).guarantee_
    small = learner(delta=1e-6, random_state=1).fit(*rows).guarantee_
    assert DELTA_TOO_LARGE in large.conditions
    assert DELTA_TOO_LARGE not in small.conditions


@pytest.mark.parametrize("learner", [PIGD, NOGD, DPFTRL, AdaptiveFTRL, PQFTL])
def test_so_it_is_of_a_run(learner):
    def conditions(delta):
        made = learner(delta=delta)
        return made.guarantee_of(made.calibrate(3, 100), private=True, bit_source="a test").conditions

    assert DELTA_TOO_LARGE in conditions(0.01)
    assert DELTA_TOO_LARGE not in conditions(0.0099)


def test_a_leader_of_sums_promises_a_release_after_every_row():
    """Sums are released at every step, whatever models are made of them."""
    made = PQFTL(horizon=100, release=50)
    plan = made.calibrate(3, 100)
    found = made.guarantee_of(plan, private=True, bit_source="a test")
    assert (plan.releases.count, found.releases) == (2, 100)


def test_so_it_is_of_a_prefix_sum():
    assert DELTA_TOO_LARGE in PrefixSum(dim=2, horizon=100, delta=0.05).guarantee_.conditions
    assert DELTA_TOO_LARGE not in PrefixSum(dim=2, horizon=100, delta=1e-6).guarantee_.conditions


def test_moments_as_printed_are_not_symmetric(rows):
    X, y = rows
    printed = PQFTL(calibration="published", horizon=200, random_state=1).partial_fit(X, y)
    gram, cross = printed.moments()
    assert gram.shape == (4, 4)
    assert cross.shape == (4,)
    assert not np.array_equal(gram, gram.T)
    gram, _ = PQFTL(horizon=200, random_state=1).partial_fit(X, y).moments()
    assert np.array_equal(gram, gram.T)


def test_regret_of_agnostic_bets_grows_with_the_distance():
    learner = AgnosticBANCO(horizon=1000, gradient_bound=1.0)
    bounds = [learner.regret_bound(norm, 1000, 3) for norm in (0.0, 1.0, 10.0)]
    assert 0.0 < bounds[0] < bounds[1] < bounds[2] < math.inf


def test_all_rows_of_a_user_cost_a_little_more_than_their_number():
    assert 3.0 < factor_of_all(3) < 3.0 + 1e-6


def test_a_gradient_is_scaled_to_its_bound_and_one_that_is_no_number_is_the_null_row():
    def told(*gradients):
        learner = DOLA(
            nodes=2, horizon=8, gradient_bound=1.0, radius=10.0, loss="absolute", fit_intercept=False, random_state=3,
            on_invalid="zero",
        )  # fmt: skip
        for gradient in gradients:
            learner.ask(2)
            learner.tell(gradient=np.array(gradient))
        return learner

    far, near = told([30.0, 40.0], [0.0, 0.5]), told([0.6, 0.8], [0.0, 0.5])
    np.testing.assert_allclose(far.coef_, near.coef_, atol=1e-12)
    missing, null = told([math.nan, 1.0], [0.0, 0.5]), told([0.0, 0.0], [0.0, 0.5])
    assert np.array_equal(missing.coef_, null.coef_)
    assert (missing.n_null_rows_, null.n_null_rows_) == (1, 0)


def test_steps_of_sparse_nodes_are_measured_by_their_radius():
    """As those of nodes in a ball are by its diameter."""
    words = {"nodes": 4, "epsilon": 2.0, "gradient_bound": 1.0, "randomizer": "gaussian", "batch": 5}
    sparse = SparseDOLA(radius=3.0, **words).calibrate(3, 1000)
    assert sparse.length == DOLA(radius=1.5, **words).calibrate(3, 1000).length


@pytest.mark.parametrize("learner", [PIGD, PGIGA])
def test_a_single_release_that_comes_early_is_charged_in_full(learner, rows):
    """Its noise and its sensitivity are those of its own row: their ratio is the whole budget, as at the horizon."""
    X, y = rows
    run = learner(horizon=1000, release="last", random_state=1).partial_fit(X[:20], y[:20], classes=[0, 1]).close()
    (account,) = run.ledger_.accounts
    assert account.counts()[:2] == (20, 1)
    assert account.counts()[2] == pytest.approx(run.guarantee_.mu**2, rel=1e-9)


def test_the_published_noise_has_no_early_release(rows):
    """It is calibrated for one row, and a run that ends before has none for its model."""
    X, y = rows
    words = {"calibration": "published", "horizon": 1000, "release": "last", "l2": 0.1, "random_state": 1}
    run = PIGD(**words).partial_fit(X[:20], y[:20], classes=[0, 1]).close()
    assert run.ledger_.accounts[0].counts() == (20, 0, 0.0)


@pytest.mark.parametrize(
    ("words", "said"), [({"random_state": 1}, "NOT PRIVATE"), ({"epsilon": math.inf}, "NO PRIVACY")]
)
def test_one_run_without_secret_noise_says_so_of_all(words, said, rows):
    ledger = Ledger()
    PIGD(ledger=ledger).fit(*rows)
    assert ledger.sentence().startswith("Differential privacy")
    PIGD(ledger=ledger, **words).fit(*rows)
    assert ledger.sentence().startswith(said)
