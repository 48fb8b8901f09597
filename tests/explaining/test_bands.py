"""The noise in a released model: by hand, from many runs, and none where it is unknown."""

from __future__ import annotations

import numpy as np
import pytest
from alpha import rate
from scipy.linalg import solve_triangular, toeplitz
from scipy.stats import chi2

import privol
from privol import DPFTRL, PIGD, POL, AdaptiveFTRL, ObjectivePerturbation, OutputPerturbation
from privol.explaining import noise_of
from privol.factorizations import factorization


def test_norm_of_a_weighted_sum_of_prefixes():
    """Compared with the explicit matrices."""
    made, steps = factorization("blt", 40), 40
    theta, omega = made.recursion
    first = [1.0] + [sum(w * t**k for t, w in zip(theta, omega, strict=True)) for k in range(steps - 1)]
    decoder = solve_triangular(toeplitz(first, np.zeros(steps)), np.tri(steps), lower=True)  # A C^-1, as both commute
    for last, n in ((40, 40), (40, 7), (23, 5), (1, 1)):
        weights = np.linspace(-0.3, 1.0, n)
        expected = np.linalg.norm(weights @ decoder[last - n : last])
        assert made.average_norm(weights, last) == pytest.approx(expected, rel=1e-9)
    assert made.average_norm([1.0], 17) == pytest.approx(made.row_norm(17), rel=1e-12)
    with pytest.raises(privol.errors.InvalidParameter, match="at most 3"):
        made.average_norm(np.ones(4), 3)


def test_norms_of_the_difference_of_two_averages():
    """Compared with their explicit weights; for the identity they are those of a random walk."""
    quick, slow = np.array([1.0, 0.9, 0.4, 0.5, 0.3]), np.array([1.0, 0.9, 0.2, 0.1, 0.3])
    walk = factorization("blt", 5, theta=(), omega=())
    for made in (factorization("blt", 40), walk):
        found = made.lag_norms(quick, slow)
        one, other = np.zeros(5), np.zeros(5)
        for step in range(5):
            for mean, counts in ((one, quick), (other, slow)):
                mean *= 1.0 - counts[step]
                mean[step] = counts[step]
            expected = made.average_norm((one - other)[: step + 1], step + 1)
            assert found[step] == pytest.approx(expected, rel=1e-9, abs=1e-15)
    assert found[2] == pytest.approx(0.2 * np.hypot(1.0, 0.1))  # the third step, and a tenth of the second
    with pytest.raises(privol.errors.InvalidParameter, match="at most 5"):
        walk.lag_norms(np.ones(6), np.ones(6))


def test_weights_of_the_slow_average():
    """Compared with the recursion of the kernel."""
    tuning = AdaptiveFTRL(horizon=30_000).calibrate(3, 30_000).tuning
    for step in (1, 2, 90, 2500):
        mean = np.zeros(step)
        for s in range(1, step + 1):
            counts = max(9.0 / (8.0 + s), 1.0 / 64.0)
            mean *= 1.0 - counts
            mean[s - 1] = counts
        found = tuning.weights(step)
        assert found == pytest.approx(mean[-len(found) :], abs=1e-14)
        assert found.sum() == pytest.approx(1.0, abs=1e-12)


def within(n, alpha):
    """The interval that contains the mean of n squares of unit Gaussians, but for that probability at each end."""
    return chi2.ppf(alpha, n) / n, chi2.ppf(1.0 - alpha, n) / n


def learnt(n_scores, seed, n=1000, features=240):
    """A run whose gradients depend on no data, and by how much their sums exceed the noise, by feature."""
    made = AdaptiveFTRL(
        loss="logistic" if n_scores == 1 else "softmax",
        horizon=n,
        gradient_bound=1.0,
        fit_intercept=False,
        random_state=seed,
    )
    made.declare_classes(list(range(max(n_scores, 2))))
    plan = made.calibrate(features, n, n_classes=max(n_scores, 2))
    far = np.resize([0.0, 2.0, 12.0, 30.0], features)
    gradient = np.zeros((n_scores, features))
    gradient[0] = far * plan.sums.std(plan.sums.factorization.steps) / n
    made.ask(n_features=features)
    for _ in range(n):
        made.tell(gradient=gradient[0] if n_scores == 1 else gradient)
    return made.close(), far


@pytest.mark.statistical
@pytest.mark.parametrize("n_scores", [1, 3])
def test_the_band_is_the_deviation_of_runs_with_fixed_gradients(n_scores):
    """Sums far above the noise have the stated deviation; others have at most that, and at least half.

    The stated deviation is computed from noisy models, hence the tenth. The squares of n deviations over it have a
    chi-squared distribution; a deviation that is wrong by a half in either direction is detected.
    """
    runs = [learnt(n_scores, seed) for seed in range(4)]
    far = runs[0][1]
    models = np.array([made.coef_ for made, _ in runs])
    stated = np.array([noise_of(made).variance(np.eye(n_scores)) for made, _ in runs])
    for k in range(n_scores):
        for size in np.unique(far):
            own = models[:, k, far == size]
            squares = (own - own.mean()) ** 2
            ratio = squares.sum() / stated[:, k, far == size].sum()
            low, high = within(own.size - 1, rate("explaining.scale", 24))
            assert ratio < 1.1 * high
            assert ratio > 0.9 * low if size > 10.0 and k == 0 else ratio > low / 4.0


@pytest.mark.statistical
def test_the_band_holds_the_mean_of_runs_on_the_same_rows():
    """In real runs, gradients cancel some of the noise: at least 95 % of the bands hold, and none is twice too wide.

    40 features of 12 runs: the share of bands that hold the mean has a deviation of 0.01 at 0.95.
    """
    rng = np.random.default_rng(3)
    X = rng.normal(size=(4000, 40)) / np.sqrt(40)
    y = (X[:, :3].sum(axis=1) + rng.logistic(size=4000) / 8 > 0).astype(int)
    runs = [AdaptiveFTRL(epsilon=2.0, x_bound=1.5, random_state=seed).fit(X, y) for seed in range(12)]
    models = np.array([made.coef_[0] for made in runs])
    std = np.sqrt([noise_of(made).variance(np.eye(1))[0] for made in runs])
    beyond = np.abs(models - models.mean(axis=0)) > 1.96 * std
    assert beyond.mean() < 0.05 + 5 * 0.01
    wide = np.sqrt((std**2).mean() / models.var(axis=0, ddof=1).mean())
    assert 1 / 1.15 < wide < 2.0


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (PIGD, {"radius": 500.0}),
        (PIGD, {"radius": 500.0, "horizon": 1000, "release": "last"}),  # closed after half of its rows
        (OutputPerturbation, {}),
        (OutputPerturbation, {"delta": 0.0}),
        (POL, {"radius": 500.0}),
    ],
)
def test_bands_of_perturbed_releases_are_exact(kind, words):
    rng = np.random.default_rng(0)
    X, n_runs = rng.normal(size=(500, 60)) / 12, 5
    y = (X[:, 0] > 0).astype(int)
    runs = [kind(epsilon=4.0, random_state=seed, fit_intercept=False, **words) for seed in range(n_runs)]
    for made in runs:
        if "horizon" in words:
            made.partial_fit(X, y, classes=[0, 1]).close()
        else:
            made.fit(X, y)
    found = noise_of(runs[0])
    assert found.kind == "exact"
    models = np.array([made.coef_[0] for made in runs])
    ratio = ((models - models.mean(axis=0)) ** 2).sum() / found.across.sum()
    low, high = within(60 * (n_runs - 1), rate("explaining.exact", 10))
    assert low < ratio / (n_runs - 1) < high


def test_the_band_is_that_of_the_release_that_is_shown():
    made = PIGD(epsilon=4.0, horizon=1000, radius=500.0, release=[100, 400], fit_intercept=False, random_state=0)
    made.partial_fit(np.eye(60)[np.arange(200) % 60], np.arange(200) % 2, classes=[0, 1])
    plan = made.calibrate(60, 1000)
    assert noise_of(made).across == pytest.approx(np.full(60, plan.std(100) ** 2), rel=1e-12)
    assert plan.std(100) > 2.0 * plan.std(400)


def test_without_a_proof_there_is_no_band():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 8)) / 3
    y = (X[:, 0] > 0).astype(int)
    for made, why in (
        (privol.NOGD(), "NOGD has noise in every gradient"),
        (ObjectivePerturbation(), "in what is minimised"),
        (PIGD(), "projected onto the set"),
        (OutputPerturbation(radius=0.1), "projected onto the set"),
        (DPFTRL(domain=privol.geometry.L1Ball(5.0)), "projected onto"),
    ):
        found = noise_of(made.set_params(random_state=0).fit(X, y))
        assert (found.kind, found.variance(np.eye(1))) == ("unknown", None)
        assert why in found.words
    exact = noise_of(AdaptiveFTRL(epsilon=np.inf).fit(X, y))
    assert exact.kind == "none"
    assert not exact.across.any()
    other = AdaptiveFTRL(epsilon=1.0, random_state=0).fit(X, y).set_params(epsilon=9.0)
    assert "than its guarantee states" in noise_of(other).words
