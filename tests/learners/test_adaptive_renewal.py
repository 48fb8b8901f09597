"""AdaptiveFTRL in runs that outlive their horizon: twin, exact neighbours, choices from public numbers."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from leader_tools import average_of, check, encoder, fingerprint, single_rows
from learner_tools import data
from twins_leaders import leader_twin_of

from privol import AdaptiveFTRL
from privol.calibration import MOST_ROWS
from privol.calibration._tuned_leaders import _parts_of_epochs, _settled
from privol.errors import BudgetExceeded, InvalidParameter
from privol.guarantees import gdp_mu

RENEWALS = ("repeat", "double")
FIRST = 5


def make(renewal="double", **more):
    return AdaptiveFTRL(
        **{"horizon": FIRST, "renewal": renewal, "epsilon": 9.0, "delta": 1e-3, "random_state": 3} | more
    )


def lengths(renewal, epochs):
    return [FIRST << e if renewal == "double" else FIRST for e in range(epochs)]


@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize("renewal", RENEWALS)
def test_twin(renewal, loss):
    """Where almost every feature is within the noise, and where none is."""
    X, y = data(loss, n=50, seed=3)
    for epsilon in (9.0, 500.0):
        twin = check(make(renewal, loss=loss, epsilon=epsilon, y_bound=0.8), X, y)
        assert twin.sums.epoch == (9 if renewal == "repeat" else 3)


@pytest.mark.parametrize("renewal", RENEWALS)
def test_twin_of_steps_of_several_rows(renewal):
    """The last step of an epoch has fewer rows."""
    X, y = data("logistic", n=9001, seed=2)
    rows = 2999
    learner, twin = make(renewal, horizon=rows, delta=1e-6), None
    for start, stop in itertools.pairwise((0, 1, rows, rows + 1, 2 * rows + 1, len(X))):
        learner.partial_fit(X[start:stop], y[start:stop], classes=[-1.0, 1.0])
        if twin is None:
            twin = leader_twin_of(learner, learner.plan_, bytes(learner._run.state.secret_arrays()["key"]), 4)
        for row, target in zip(X[start:stop], y[start:stop], strict=True):
            twin.learn(row, target)
        np.testing.assert_array_equal(learner.ask(), twin.x)
    assert learner.plan_.batch == 2
    assert twin.sums.epoch == (3 if renewal == "repeat" else 2)


@pytest.mark.parametrize("renewal", RENEWALS)
def test_the_first_epoch_is_a_run_that_ends_there(renewal):
    X, y = data("hinge", n=40)
    runs = [make(r, loss="hinge", horizon=40).partial_fit(X, y, classes=[-1.0, 1.0]) for r in ("none", renewal)]
    assert np.array_equal(runs[0].ask(), runs[1].ask())
    assert np.array_equal(average_of(runs[0]), average_of(runs[1]))
    with pytest.raises(BudgetExceeded):
        runs[0].partial_fit(X, y)
    assert runs[1].partial_fit(X, y).n_rows_ == 80


@pytest.mark.parametrize("renewal", RENEWALS)
def test_cut_saved_and_restored_anywhere(renewal):
    X, y = single_rows(60)
    whole = make(renewal).partial_fit(X, y, classes=[-1, 1])
    expected = fingerprint(whole)
    for cuts in ([0, 5, 15, 60], [0, 4, 6, 16, 33, 36, 60], [*range(61)]):
        learner = make(renewal)
        for start, stop in itertools.pairwise(cuts):
            learner.partial_fit(X[start:stop], y[start:stop], classes=[-1, 1])
        assert fingerprint(learner) == expected
    for at in (1, 5, 6, 15, 36, 59):
        first = make(renewal).partial_fit(X[:at], y[:at], classes=[-1, 1])
        state, _, _ = make(renewal)._open_run(13, FIRST, "all")
        state.restore(first._run.state.secret_arrays())
        np.testing.assert_array_equal(state.point(), first.ask())
        state.learn(X[at:], y[at:])
        assert {name: value.tobytes() for name, value in state.secret_arrays().items()} == expected[0]


def sums_of(learner, gradients):
    """The released sums after each row; checks by the twin that the points of the run are made from them."""
    learner.declare_classes([-1, 1]).ask(gradients.shape[1])
    twin = leader_twin_of(learner, learner.plan_, bytes(learner._run.state.secret_arrays()["key"]), gradients.shape[1])
    found = [np.zeros(gradients.shape[1])]
    for gradient in gradients:
        learner.tell(gradient=gradient)
        twin.tell(gradient)
        np.testing.assert_array_equal(learner.ask(), twin.x)
        found.append(twin.sums.prefix)
    return np.array(found)


@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
@pytest.mark.parametrize("renewal", RENEWALS)
def test_a_row_moves_its_own_epoch_alone(renewal, adjacency):
    """Two runs with the same noise and one different gradient: the change of what is perturbed, in standard deviations.

    It is that of the row's epoch, at most mu, and almost mu for the first row of an epoch: two thirds of the noise
    would exceed mu. All other epochs differ only in the values from which their sums begin.
    """
    words = {"gradient_bound": 1.0, "fit_intercept": False, "adjacency": adjacency, "epsilon": 1.0, "delta": 1e-6}
    starts = [0, *itertools.accumulate(lengths(renewal, 3))]
    gradients = np.random.default_rng(0).normal(size=(starts[-1], 3)) / 3
    mu = gdp_mu(1.0, 1e-6)
    for tau in (0, 4, 5, 9, 10, starts[-1] - 1):
        one, two = gradients.copy(), gradients.copy()
        one[tau] = [0.6, 0.8, 0.0]
        two[tau] = -one[tau] if adjacency == "replace" else 0.0
        learners = make(renewal, **words), make(renewal, **words)
        apart = np.subtract(*(sums_of(x, g) for x, g in zip(learners, (one, two), strict=True)))
        plan = learners[0].plan_
        assert plan.mu == mu
        assert learners[0].ledger_.committed.mu == pytest.approx(mu, rel=1e-9)
        for epoch, (start, stop) in enumerate(itertools.pairwise(starts)):
            found = plan.epochs.of(epoch)
            moved = encoder(found.factorization) @ np.diff(apart[start : stop + 1], axis=0)
            change = np.linalg.norm(moved) / found.sigma
            slack = 2e-3 * math.sqrt(moved.size)  # numbers are rounded to a grid of 2**-10 of the noise
            if not start <= tau < stop:
                assert change < 1e-9
                continue
            assert change <= mu * (1.0 + 1e-9) + slack
            if tau == start:
                assert change >= mu - slack
                assert 1.5 * change > mu * (1.0 + 1e-9) + slack


@pytest.mark.parametrize("renewal", RENEWALS)
@pytest.mark.parametrize("horizon", [1, 3000, 100_000, 100 << 20])
def test_the_settings_of_each_step_are_as_derived(renewal, horizon):
    """Ascending parts up to the last row possible; convexity and thresholds that no step's noise exceeds."""
    plan, exact = (
        make(kind, horizon=horizon, delta=1e-9, fit_intercept=False).calibrate(3, horizon) for kind in (renewal, "none")
    )
    tuning, epochs = plan.tuning, plan.epochs
    assert all(a < b for a, b in itertools.pairwise(tuning.until))
    assert tuning.until[: len(exact.tuning.until)] == exact.tuning.until
    assert tuning.until[-1] * plan.batch >= MOST_ROWS - plan.batch
    assert len(tuning.until) < 1000
    for column in (tuning.held, tuning.threshold):
        assert all(a <= b for a, b in itertools.pairwise(column))
    # the way between the averages is taken to have at least the noise at the end of the first epoch in later ones
    later = [lag for until, lag in zip(tuning.until, tuning.lag, strict=True) if until > epochs.first_step(1)]
    assert min(later) >= exact.tuning.lag[-1] * (1 - 1e-9)
    rng = np.random.default_rng(1)
    for row in [*range(1, 400), *(2 ** (48 * rng.random(400))).astype(int).tolist()]:
        epoch, step = epochs.step(row)
        if not epoch + step:
            continue
        part = tuning.part(epochs.first_step(epoch) + step)
        std = epochs.std(epoch, step)
        assert tuning.threshold[part] >= std**2 * (1 - 1e-12)
        assert tuning.held[part] >= std / 1.25 * (1 - 1e-12)
        assert plan.std(row) == std / tuning.held[part] <= 1.25 * (1 + 1e-12)
        assert plan.shown_std(row) <= plan.std(row) * (1 + 1e-12) or epoch == 0
    assert plan.sums == exact.sums
    assert plan.mu == exact.mu == gdp_mu(9.0, 1e-9)


def test_averages_keep_the_noise_of_the_epoch_before():
    """The part of an epoch with more noise leaves the averages as the part of the next one enters them."""
    epochs = make("double", horizon=64).calibrate(3, 64).epochs
    first = replace(epochs.sums[0], sigma=3.0 * epochs.sums[0].sigma)
    parts = list(_parts_of_epochs(replace(epochs, sums=(first, *epochs.sums[1:]))))
    lags = {part.lag for part in parts if epochs.first_step(1) < part.until <= epochs.first_step(2)}
    assert lags == {_settled(first)}
    assert _settled(first) > _settled(epochs.sums[1])


def test_first_steps_are_counted():
    for renewal, horizon in itertools.product(RENEWALS, (3, 2999)):
        epochs = make(renewal, horizon=horizon).calibrate(3, horizon).epochs
        steps = 0
        for epoch in range(40):
            assert epochs.first_step(epoch) == steps
            steps += epochs.of(epoch).factorization.steps


def test_learning_continues_in_later_epochs():
    """In its fourth epoch it is as good as a run with a known number of rows, up to twice the noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(15_000, 3)) / 3
    y = np.where(X @ [1.0, -2.0, 0.5] > 0, 1, 0)
    learner = make(horizon=1000, epsilon=1.0, delta=1e-6).partial_fit(X, y, classes=[0, 1])
    assert learner.plan_.epochs.locate(learner.n_rows_)[0] == 3
    assert learner.score(X, y) > 0.9
    assert learner.get_params()["renewal"] == "double"


def test_refusals():
    with pytest.raises(InvalidParameter, match="renewal must be"):
        make("twice").calibrate(3, 100)
    with pytest.raises(InvalidParameter, match="no bound of the regret is proved"):
        make().regret_bound(5, 3)
