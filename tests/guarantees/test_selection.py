"""The cost of the best of a random number of Gaussian runs: closed form, worst orders, insufficient figures."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from scipy.stats import norm

from privol.errors import InvalidParameter
from privol.guarantees import gdp_epsilon, gdp_mu, selection_epsilon, selection_mu

CASES = [(0.5, 1e-3, 20), (0.1377, 1e-6, 90), (1.0, 1e-2, 3), (1.0, 1e-5, 1000)]
POINTS = np.linspace(-12.0, 13.5, 200_001)
STEP = POINTS[1] - POINTS[0]


def divergence(mu, epsilon, m, keys):
    """The larger hockey-stick divergence of the best of K runs of N(0, 1) and N(mu, 1), ordered by keys of outputs."""
    order = np.argsort(-keys(POINTS), kind="stable")

    def best(masses):
        above = np.empty_like(masses)
        above[order] = np.cumsum(masses[order]) - 0.5 * masses[order]
        found = masses * (1.0 - 1.0 / m) / math.log(m) / (1.0 / m + (1.0 - 1.0 / m) * above)
        assert found.sum() == pytest.approx(1.0, abs=1e-6)
        return found

    one, two = best(norm.pdf(POINTS) * STEP), best(norm.pdf(POINTS - mu) * STEP)
    return max(np.maximum(a - math.exp(epsilon) * b, 0.0).sum() for a, b in ((one, two), (two, one)))


def orders(m):
    """Rank by the output, by its negative, and by an order that puts the highest outputs where they reveal least."""
    yield lambda y: y
    yield lambda y: -y
    for k in (0.1, 0.3, 1.0, 3.0):
        edge = float(norm.isf(k / m))
        yield lambda y, edge=edge: np.where(y > edge, 100.0 + y, -y)


@pytest.mark.parametrize(("mu", "delta", "m"), CASES)
def test_no_order_of_outputs_exceeds_it(mu, delta, m):
    epsilon = selection_epsilon(mu, delta, m)
    assert max(divergence(mu, epsilon, m, keys) for keys in orders(m)) <= delta


@pytest.mark.parametrize(("mu", "delta", "m"), CASES)
def test_the_figure_of_one_run_is_not_enough(mu, delta, m):
    assert max(divergence(mu, gdp_epsilon(mu, delta), m, keys) for keys in orders(m)) > 3.0 * delta


SMALL = [(mu, delta, m) for mu in (1e-8, 1e-3, 0.1) for delta in (1e-6, 1e-2) for m in (2, 90, 1000, 10**7)]


@pytest.mark.parametrize(("mu", "delta", "m"), CASES + SMALL)
def test_the_closed_form(mu, delta, m):
    with mp.workdps(60):
        mean = (m - 1) / mp.log(m)
        point = -mp.sqrt(2) * mp.erfinv(1 - mp.mpf(2) / m)
        more = mp.log(m * mp.ncdf(point + mp.mpf(mu)))
        curve = lambda e: mp.ncdf(-e / mu + mp.mpf(mu) / 2) - mp.exp(e) * mp.ncdf(-e / mu - mp.mpf(mu) / 2)  # noqa: E731
        allowed, one, above = delta / mean, mp.mpf(0), mp.mpf(2 * gdp_epsilon(mu, float(delta / mean)))
        while curve(one) > allowed and above - one > above * mp.mpf(10) ** -20:
            middle = (one + above) / 2
            one, above = (middle, above) if curve(middle) > allowed else (one, middle)
        exact = float(one + more)
    assert exact <= selection_epsilon(mu, delta, m) <= exact * (1 + 1e-9) + 3e-10


@pytest.mark.parametrize("delta", [1e-3, 1e-10])
@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 30.0])
def test_the_conversion_round_trips(epsilon, delta):
    for m in (2, 90, 10**6):
        mu = selection_mu(epsilon, delta, m)
        assert 0.0 < mu < gdp_mu(epsilon, delta)
        assert selection_epsilon(mu, delta, m) <= epsilon < selection_epsilon(mu * (1 + 1e-8), delta, m)


def test_ends_and_refusals():
    assert selection_epsilon(0.0, 1e-6, 5) == 0.0
    assert selection_epsilon(math.inf, 1e-6, 5) == math.inf
    for mu, delta, m in ((-1.0, 1e-6, 5), (1.0, 0.0, 5), (1.0, 1.0, 5), (1.0, 1e-6, 1)):
        with pytest.raises(InvalidParameter):
            selection_epsilon(mu, delta, m)
    with pytest.raises(InvalidParameter):
        selection_mu(0.0, 1e-6, 5)
