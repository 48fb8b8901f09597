"""The arithmetic of audits: confidence is kept, statistics are optimal, covariances are correct."""

from __future__ import annotations

import math

import numpy as np
import pytest
from alpha import rate
from scipy.stats import binom, binomtest

from privol.audit._bounds import bounds, fit_direction, gaussian_mu_lower, rate_bounds
from privol.audit._covariance import noise_covariance
from privol.factorizations import DESIGNS, factorization
from privol.guarantees import gdp_epsilon
from privol.prefix import PrefixSum

pytestmark = pytest.mark.statistical


@pytest.mark.parametrize(("k", "n"), [(0, 10), (3, 10), (10, 10), (0, 100_000), (17, 100_000)])
def test_rates_are_those_of_clopper_and_pearson(k, n):
    low, high = rate_bounds(np.array([k]), n, 0.01)
    expected = binomtest(k, n).proportion_ci(0.98, method="exact")
    assert low[0] == pytest.approx(expected.low, rel=1e-9)
    assert high[0] == pytest.approx(expected.high, rel=1e-9)


def pairs(mu, n, repeats, seed):
    rng = np.random.default_rng(seed)
    for _ in range(repeats):
        yield rng.normal(size=2 * n), rng.normal(size=2 * n) + mu


def test_confidence_is_kept():
    """At confidence 0.8, of 100 audits of one Gaussian no more exceed the truth than a binomial tail allows."""
    mu, n, repeats, delta = 1.0, 400, 100, 0.01
    truth, above = gdp_epsilon(mu, delta), np.zeros(3)
    for a, b in pairs(mu, n, repeats, 3):
        found = bounds((a[:n], b[:n]), (a[n:], b[n:]), delta=delta, confidence=0.8)
        above += (found.epsilon > truth, found.mu > mu, gaussian_mu_lower(a, b, confidence=0.8) > mu)
        assert found.mu > 0.4
    assert (above <= binom.isf(rate("audit.coverage", 3), repeats, 0.2)).all()


def test_bounds_are_judged_on_samples_that_did_not_choose_them():
    """The samples that choose an event differ, and those that judge it have one distribution."""
    rng = np.random.default_rng(0)
    low, high, noise = rng.normal(size=500), rng.normal(size=500) + 9.0, rng.normal(size=(2, 500))
    found = bounds((low, high), (noise[0], noise[1]), delta=0.0, confidence=0.99)
    assert found.epsilon < 0.1
    assert found.mu < 0.1
    assert bounds((low, high), (low, high), delta=0.0, confidence=0.99).epsilon > 3.0


def test_bounds_come_close_with_many_samples():
    mu, n, delta = 0.9, 400_000, 0.05
    ((a, b),) = pairs(mu, n, 1, 4)
    found = bounds((a[:n], b[:n]), (a[n:], b[n:]), delta=delta, confidence=0.99)
    assert 0.97 * mu < found.mu < mu
    assert 0.95 * gdp_epsilon(mu, delta) < found.epsilon < gdp_epsilon(mu, delta)
    assert 0.99 * mu < gaussian_mu_lower(a, b, confidence=0.99) < mu


def test_either_order_of_the_streams_counts():
    """An output with probability 0 only on the second stream: only the complement of an event shows it."""
    first = np.repeat([0.0, 1.0], [1000, 9000])
    second = np.ones(10_000)
    found = bounds((first, second), (first, second), delta=0.0, confidence=0.99)
    assert found.epsilon > 4.0


def test_nothing_is_proved_by_equal_samples():
    same = np.random.default_rng(5).normal(size=2000)
    found = bounds((same, same), (same, same), delta=0.0, confidence=0.99)
    assert (found.epsilon, found.mu) == (0.0, 0.0)
    assert gaussian_mu_lower(same, same, confidence=0.99) == 0.0
    assert gaussian_mu_lower(np.zeros(9), np.ones(9), confidence=0.99) == math.inf


def test_delta_is_subtracted():
    """A mechanism that reveals everything with probability 0.1 is (0, 0.1)-DP."""
    rng = np.random.default_rng(6)
    first, second = np.zeros(100_000), (rng.random(100_000) < 0.1) * 1.0
    halves = [((first[:50_000], second[:50_000]), (first[50_000:], second[50_000:]))][0]
    assert bounds(*halves, delta=0.0, confidence=0.99).epsilon > 6.0
    assert bounds(*halves, delta=0.11, confidence=0.99).epsilon < 0.01


def test_fitted_direction_is_fishers():
    rng = np.random.default_rng(7)
    mix = rng.normal(size=(3, 3))
    gap = np.array([1.0, -2.0, 0.5])
    first = rng.normal(size=(200_000, 3)) @ mix
    second = rng.normal(size=(200_000, 3)) @ mix + gap
    found, best = fit_direction(first, second), np.linalg.solve(mix.T @ mix, gap)
    assert np.allclose(found / np.linalg.norm(found), best / np.linalg.norm(best), atol=0.03)


def test_fitted_direction_uses_coordinates_without_noise():
    rng = np.random.default_rng(8)
    first = np.stack([rng.normal(size=1000), np.zeros(1000)], axis=1)
    second = np.stack([rng.normal(size=1000) + 1.0, np.full(1000, 0.01)], axis=1)
    weights = fit_direction(first, second)
    assert (second @ weights).min() > (first @ weights).max()
    assert np.isfinite(fit_direction(np.zeros((5, 2)), np.zeros((5, 2)))).all()


@pytest.mark.parametrize("steps", [1, 2, 3, 8, 13, 40])
@pytest.mark.parametrize("design", DESIGNS)
def test_covariance_has_the_variances_of_the_design(design, steps):
    chosen = factorization(design, steps)
    found = noise_covariance(chosen)
    assert np.allclose(np.sqrt(np.diag(found)), [chosen.row_norm(t) for t in range(1, steps + 1)], rtol=1e-9)


@pytest.mark.parametrize("design", DESIGNS)
def test_covariance_is_that_of_the_code(design):
    """The chi-square of whitened prefix sums of zeros: six steps, 4,000 coordinates, and no remaining correlation."""
    sums = PrefixSum(dim=4000, horizon=6, design=design, random_state=9)
    found = sums.add_block(np.zeros((6, 4000)))
    factor = np.linalg.cholesky(noise_covariance(factorization(design, 6)))
    sigma = sums.std(1) / factorization(design, 6).row_norm(1)
    white = np.linalg.solve(factor, found) / sigma
    # entries of the mean square have standard deviation 0.016, on the diagonal 0.022
    assert np.abs(white @ white.T / 4000 - np.eye(6)).max() < 0.16


@pytest.mark.parametrize(
    ("design", "steps", "expected"),
    [("tree", 8, 1.0), ("blt", 8, 1.0), ("sqrt", 8, 1.0), ("banded", 8, 1.0), ("independent", 8, 1.0),
     ("honaker", 2, math.sqrt(0.9)), ("smooth", 4, math.sqrt(2 / 3))],
)  # fmt: skip
def test_prefix_sums_reveal_the_first_row_as_predicted(design, steps, expected):
    """For a design whose prefix sums determine all perturbed values: everything."""
    chosen = factorization(design, steps)
    shown = math.sqrt(np.ones(steps) @ np.linalg.solve(noise_covariance(chosen), np.ones(steps)))
    assert shown / chosen.column_norm == pytest.approx(expected, rel=1e-9)
