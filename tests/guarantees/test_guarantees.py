"""The arithmetic of budgets against published digits, mpmath and dp-accounting."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction

import dp_accounting
import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from privol.errors import InvalidParameter
from privol.guarantees import (
    compose_gdp,
    gdp_delta,
    gdp_epsilon,
    gdp_mu,
    left_of_delta,
    square_up,
    zcdp_epsilon,
    zcdp_rho_of_gdp,
)

# (epsilon, delta, mu, 1/mu), computed with 50 digits.
MU = [
    (1, 1e-6, 0.2367043806634357, 4.224678889326835),
    (1, 1e-5, 0.2680511232112942, 3.730631634815942),
    (0.1, 1e-6, 0.02754465024382762, 36.30469042619578),
    (0.5, 1e-5, 0.1422105586692612, 7.031826675582491),
    (2, 1e-6, 0.4483347403951928, 2.230476271186417),
    (3, 2e-6, 0.6671020205905685, 1.499021092927773),
    (10, 1e-6, 1.848132205767084, 0.5410868318183660),
    (0.01, 1e-6, 0.003264236240068799, 306.3503761538177),
    (1, 0.01, 0.5325166485029508, 1.877875560907386),
    (0.1, 1e-5, 0.0325207840562039, 30.7495661319774),
    (2, 1e-5, 0.501551689169657, 1.99381244564354),
    (4, 1e-5, 0.924930897666936, 1.08116184952024),
    (8, 1e-5, 1.66603059784572, 0.600229072198952),
]
# (epsilon, mu, delta), likewise.
DELTA = [
    (0, 1, 0.3829249225480262),
    (1, 1, 0.1269367375066439),
    (1, 0.5, 0.006829594983114575),
    (3, 1, 0.001537185369400955),
    (0.1, 0.05, 0.0004461918648847143),
    (10, 2, 9.940202816118153e-6),
]


def exact_log_delta(epsilon: float, mu: float) -> mpmath.mpf:
    """The curve by its definition; the precision covers the cancellation."""
    y = mu / 2 + epsilon / mu
    with mpmath.workdps(int(60 + 4 * abs(math.log10(mu)) + math.log10(1 + y))):
        e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
        tail = lambda z: mpmath.erfc(z / mpmath.sqrt(2)) / 2  # noqa: E731
        return mpmath.log(tail(e / m - m / 2) - mpmath.exp(e) * tail(e / m + m / 2))


# -- digits --


@pytest.mark.parametrize(("epsilon", "delta", "mu", "sigma"), MU)
def test_mu_has_the_published_digits_and_errs_towards_noise(epsilon, delta, mu, sigma):
    found = gdp_mu(epsilon, delta)
    # 1e-12 of margin plus the last printed digit; a margin on the wrong side is 2e-12 away.
    assert found == pytest.approx(mu, rel=1.5e-12, abs=0)
    assert found < mu
    assert 1 / found == pytest.approx(sigma, rel=1.5e-12, abs=0)


@pytest.mark.parametrize(("epsilon", "mu", "delta"), DELTA)
def test_delta_has_the_published_digits(epsilon, mu, delta):
    assert gdp_delta(epsilon, mu) == pytest.approx(delta, rel=1e-13, abs=0)


@pytest.mark.parametrize(("epsilon", "delta", "mu", "_sigma"), MU)
def test_epsilon_inverts_the_published_pairs(epsilon, delta, mu, _sigma):
    assert gdp_epsilon(mu, delta) == pytest.approx(epsilon, rel=1e-12, abs=0)


@pytest.mark.parametrize(
    ("mu", "delta", "epsilon"), [(0.1030499897224436, 0.02, 0.0545), (0.4608153220372320, 0.02, 0.676)]
)
def test_true_epsilon_of_the_published_noise(mu, delta, epsilon):
    assert float(f"{gdp_epsilon(mu, delta):.3g}") == epsilon


def test_true_delta_of_the_published_noise_at_small_epsilon():
    mu = math.sqrt(999) / 17339.90075014779
    assert gdp_delta(0.003, mu) == pytest.approx(3.8051510e-5, rel=1e-7)


@pytest.mark.parametrize(
    ("epsilon", "mu"),
    [
        (0.0, 1e-8),  # 2 Phi(mu/2) - 1 by subtraction keeps 8 digits
        (0.0, 1e-3),
        (1e-6, 1e-7),  # a difference of two log_ndtr loses 8 digits
        (9.2e-6, 2.6e-6),
        (1e-4, 5.8e-5),
        (0.0077, 2.1e-4),
        (1.0, 0.2),
        (1.0, 0.027),  # delta about 1e-300
        (50.0, 6.0),
        (60.0, 0.05 + 10.0),
        (500.0, 31.0),
        (5000.0, 100.0),  # a = 0
        (5100.0, 100.0),
        (4900.0, 100.0),
        (0.0, 40.0),
        (0.25, 0.7),
        (0.125, 0.5),  # a = 0
    ],
)
def test_delta_agrees_with_mpmath_and_is_never_below(epsilon, mu):
    exact = exact_log_delta(epsilon, mu)
    with mpmath.workdps(40):
        gap = float(mpmath.log(mpmath.mpf(gdp_delta(epsilon, mu))) - exact)
    # The conditioning of exp(-a^2/2) in a remains: a few units of |a| y.
    a, y = abs(mu / 2 - epsilon / mu), mu / 2 + epsilon / mu
    assert 0 <= gap <= 2e-15 * (10 + a * y + y + abs(float(exact)))


@settings(max_examples=60, deadline=None)
@given(st.floats(-7, 2), st.floats(-2, 30))
def test_delta_is_an_upper_bound_everywhere(log_mu, z):
    mu = 10.0**log_mu
    epsilon = max(0.0, mu * mu / 2 + z * mu)
    if mu / 2 + epsilon / mu > 150:
        return
    with mpmath.workdps(40):
        gap = float(mpmath.log(mpmath.mpf(gdp_delta(epsilon, mu))) - exact_log_delta(epsilon, mu))
    assert 0 <= gap <= 1e-13 * (1 + (1 + abs(z)) * (mu + abs(z)))


# -- extremes --


def test_limits_of_the_curve():
    assert gdp_delta(0, 0) == 0
    assert gdp_delta(3, math.inf) == 1
    assert gdp_epsilon(0, 1e-6) == 0
    assert gdp_epsilon(math.inf, 1e-6) == math.inf
    assert gdp_epsilon(1e200, 1e-6) == math.inf  # mu^2/2 is beyond the range of doubles
    assert 0 < gdp_delta(1000, 0.01) == math.ulp(0.0)  # underflows, yet is not claimed to be 0
    assert gdp_delta(0, 80) == 1


@pytest.mark.parametrize("mu", [1e-9, 1e-3, 0.5, 1.0, 3.0])
def test_epsilon_is_zero_from_total_variation_on(mu):
    delta = gdp_delta(0, mu)  # 2 Phi(mu/2) - 1
    assert gdp_epsilon(mu, delta) == 0
    assert gdp_epsilon(mu, delta * (1 + 1e-9)) == 0
    assert gdp_epsilon(mu, delta * (1 - 1e-9)) > 0


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [
        (0, 0.5),
        (0, 1e-300),
        (0, 5e-324),
        (1, 1e-300),
        (1, 5e-324),
        (50, 1e-6),
        (500, 1e-10),
        (1e4, 1e-300),
        (1e6, 0.5),
        (1e300, 1e-6),
        (1e-9, 1e-6),
        (1e-12, 1e-12),
        (1e-300, 1e-10),
        (1, 1 - 2**-53),
        (1e-4, 1e-6),
    ],
)
def test_extremes_calibrate_without_a_warning_and_within_the_budget(epsilon, delta):
    with warnings.catch_warnings(), np.errstate(all="raise", under="ignore"):
        warnings.simplefilter("error")
        mu = gdp_mu(epsilon, delta)
        assert 0 < mu < math.inf
        assert gdp_epsilon(mu, delta) <= epsilon
        assert gdp_delta(epsilon, mu) <= delta


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-4, 1e-6), (1e-6, 1e-8), (9e-6, 3e-8), (1e-5, 1e-12)])
def test_calibration_of_tiny_budgets_holds_in_exact_arithmetic(epsilon, delta):
    """Here the margin of 1e-12 does not cover a delta computed as a difference of two log_ndtr values."""
    mu = gdp_mu(epsilon, delta)
    with mpmath.workdps(40):
        target = mpmath.log(mpmath.mpf(delta))
        assert exact_log_delta(epsilon, mu) <= target
        assert exact_log_delta(epsilon, mu * (1 + 1.1e-12)) > target


@settings(max_examples=150, deadline=None)
@given(st.floats(1e-8, 200), st.floats(-300, -0.01))
def test_round_trip(epsilon, log_delta):
    delta = 10.0**log_delta
    mu = gdp_mu(epsilon, delta)
    back = gdp_epsilon(mu, delta)
    assert back <= epsilon
    # d epsilon / d ln mu is mu / M(y) with Mills' ratio M, at most mu (1 + y) = mu + epsilon + mu^2/2.
    assert epsilon - back <= 2e-12 * (mu + epsilon + mu * mu)


@settings(max_examples=100, deadline=None)
@given(st.floats(1e-6, 40), st.floats(-100, -1))
def test_epsilon_is_sufficient_and_tight(mu, log_delta):
    delta = 10.0**log_delta
    epsilon = gdp_epsilon(mu, delta)
    assert gdp_delta(epsilon, mu) <= delta
    if epsilon > 0:
        assert gdp_delta(max(0.0, epsilon - 1e-12 * (mu + epsilon)), mu) > delta


@settings(max_examples=60, deadline=None)
@given(st.floats(0, 20), st.floats(1e-3, 10), st.floats(1.001, 3))
def test_delta_is_monotone(epsilon, mu, factor):
    assert gdp_delta(epsilon, mu * factor) >= gdp_delta(epsilon, mu)
    assert gdp_delta(epsilon * factor, mu) <= gdp_delta(epsilon, mu)


# -- composition and conversion --


def test_composition_is_the_root_of_the_sum_of_squares():
    assert compose_gdp([]) == 0
    assert compose_gdp([0.0, 0.0]) == 0
    assert compose_gdp([3, 4]) == 5
    assert compose_gdp([0.1]) == 0.1
    assert compose_gdp([1e-200]) == 1e-200
    assert compose_gdp([3e200, 4e200]) == pytest.approx(5e200)
    assert compose_gdp([1e308, 1e308, 1e308, 1e308]) == math.inf
    assert compose_gdp(np.array([1.0, math.inf])) == math.inf
    # A plain sum (basic composition) or the largest would be far off.
    assert compose_gdp(0.1 for _ in range(100)) == pytest.approx(1.0)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0, 1e6), max_size=20))
def test_composition_is_the_next_double_above(mus):
    root = compose_gdp(mus)
    total = sum((Fraction(mu) ** 2 for mu in mus), Fraction(0))
    assert Fraction(root) ** 2 >= total
    assert root == 0 or Fraction(math.nextafter(root, 0)) ** 2 < total


@settings(max_examples=100, deadline=None)
@given(st.floats(0, 1e200))
def test_squares_are_rounded_up(x):
    up = square_up(x)
    assert math.isinf(up) or Fraction(up) >= Fraction(x) ** 2
    assert up == 0 or math.isinf(up) or Fraction(math.nextafter(up, 0)) < Fraction(x) ** 2
    assert Fraction(zcdp_rho_of_gdp(min(x, 1e150))) >= Fraction(min(x, 1e150)) ** 2 / 2


def test_rho():
    assert zcdp_rho_of_gdp(0) == 0
    assert zcdp_rho_of_gdp(2) == 2
    assert zcdp_rho_of_gdp(math.inf) == math.inf


@settings(max_examples=200, deadline=None)
@given(st.floats(0, 1), st.floats(0, 1))
@example(1.0, 2.0**-60)
@example(0.1, 1e-20)
@example(3e-6, 1e-25)
def test_the_remaining_delta_is_the_largest_double_below(delta, slack):
    """In the examples the nearest double to the difference is delta itself, which is above it."""
    left, exact = left_of_delta(delta, slack), Fraction(delta) - Fraction(slack)
    if exact < 0:
        assert left is None
    else:
        assert Fraction(left) <= exact < Fraction(math.nextafter(left, math.inf))


def minimal_zcdp_epsilon(rho: float, delta: float) -> float:
    u = np.exp(np.linspace(-40, 60, 400_001))  # alpha - 1
    values = (1 + u) * rho - np.log1p(1 / u) - (math.log(delta) + np.log1p(u)) / u
    return max(0.0, float(values.min()))


@pytest.mark.parametrize("rho", [1e-6, 0.01, 0.5, 3.0, 100.0])
@pytest.mark.parametrize("delta", [1e-300, 1e-10, 1e-5, 0.01, 0.9])
def test_zcdp_conversion_is_the_minimum_over_alpha(rho, delta):
    epsilon = zcdp_epsilon(rho, delta)
    grid = minimal_zcdp_epsilon(rho, delta)
    assert epsilon <= grid * (1 + 1e-12) + 1e-15
    assert epsilon == pytest.approx(grid, rel=1e-6, abs=1e-12)
    assert epsilon < rho + 2 * math.sqrt(rho * math.log(1 / delta))
    # A known Gaussian has a smaller epsilon than anything that follows from its rho alone.
    assert gdp_epsilon(math.sqrt(2 * rho), delta) <= epsilon


@pytest.mark.parametrize("rho", [1e-6, 0.01, 0.37, 3.0, 100.0])
@pytest.mark.parametrize("delta", [1e-300, 1e-10, 1e-5, 0.01, 0.9])
def test_zcdp_conversion_is_never_below_the_exact_minimum(rho, delta):
    with mpmath.workdps(50):
        r, log_inverse = mpmath.mpf(rho), -mpmath.log(mpmath.mpf(delta))
        low, high = mpmath.mpf(0), mpmath.sqrt(log_inverse / r)
        for _ in range(200):  # the derivative vanishes at alpha = 1 + u
            u = (low + high) / 2
            low, high = (low, u) if r * u**2 + mpmath.log1p(u) > log_inverse else (u, high)
        exact = (1 + u) * r + mpmath.log(u / (1 + u)) + (log_inverse - mpmath.log1p(u)) / u
        assert mpmath.mpf(zcdp_epsilon(rho, delta)) >= max(exact, 0)


def test_zcdp_extremes():
    assert zcdp_epsilon(0, 1e-6) == 0
    assert zcdp_epsilon(math.inf, 1e-6) == math.inf
    assert zcdp_epsilon(1e-320, 1e-6) == 0
    assert zcdp_epsilon(1e308, 1e-6) == pytest.approx(1e308)
    assert zcdp_epsilon(1e-3, 5e-324) < 1e-3 + 2 * math.sqrt(1e-3 * 745)


# -- dp-accounting --


@pytest.mark.parametrize(("epsilon", "delta", "_mu", "_sigma"), MU)
def test_dp_accounting_gives_the_same_noise_and_epsilon(epsilon, delta, _mu, _sigma):
    sigma = 1 / gdp_mu(epsilon, delta)
    assert sigma == pytest.approx(dp_accounting.get_sigma_gaussian(epsilon, delta), rel=1e-8)
    assert dp_accounting.get_epsilon_gaussian(sigma, delta) == pytest.approx(gdp_epsilon(1 / sigma, delta), abs=1e-9)


@pytest.mark.parametrize("sigmas", [[2.0], [3.0, 4.0], [5.0] * 16, [1.5, 10.0, 7.0, 7.0]])
def test_composition_agrees_with_privacy_loss_distributions(sigmas):
    from dp_accounting import pld

    interval = 1e-4
    accountant = pld.PLDAccountant(value_discretization_interval=interval)
    for sigma in sigmas:
        accountant.compose(dp_accounting.GaussianDpEvent(sigma))
    mu = compose_gdp(1 / sigma for sigma in sigmas)
    for delta in (1e-3, 1e-6):
        ours, theirs = gdp_epsilon(mu, delta), accountant.get_epsilon(delta)
        # Its result is pessimistic by at most the discretisation of each event (half of it each, on average).
        assert -1e-6 <= theirs - ours <= interval * len(sigmas)
    for epsilon in (0.1, 1.0):
        ours, theirs = gdp_delta(epsilon, mu), accountant.get_delta(epsilon)
        # -d delta / d epsilon is below 1/2.
        assert -1e-9 <= theirs - ours <= interval * len(sigmas) / 2


def test_zcdp_agrees_with_renyi_accounting():
    from dp_accounting import rdp

    orders = list(1 + np.exp(np.linspace(-4, 7, 3000)))
    for rho in (0.01, 0.5):
        accountant = rdp.RdpAccountant(orders)
        accountant.compose(dp_accounting.GaussianDpEvent(1 / math.sqrt(2 * rho)))
        assert zcdp_epsilon(rho, 1e-6) == pytest.approx(accountant.get_epsilon(1e-6), rel=1e-4)


# -- bad parameters --


@pytest.mark.parametrize(
    ("function", "arguments", "name"),
    [
        (gdp_delta, (-1, 1), "epsilon"),
        (gdp_delta, (math.inf, 1), "epsilon"),
        (gdp_delta, (1, -1), "mu"),
        (gdp_delta, (1, math.nan), "mu"),
        (gdp_delta, (True, 1), "epsilon"),
        (gdp_epsilon, (1, 0), "delta"),
        (gdp_epsilon, (1, 1), "delta"),
        (gdp_epsilon, (-1, 0.1), "mu"),
        (gdp_epsilon, ("1", 0.1), "mu"),
        (gdp_mu, (1, 0), "delta"),
        (gdp_mu, (1, 1.0), "delta"),
        (gdp_mu, (-0.1, 0.1), "epsilon"),
        (gdp_mu, (math.inf, 0.1), "epsilon"),
        (gdp_mu, (None, 0.1), "epsilon"),
        (zcdp_epsilon, (-1, 0.1), "rho"),
        (zcdp_epsilon, (1, 0), "delta"),
        (zcdp_rho_of_gdp, (-1,), "mu"),
        (compose_gdp, ([0.1, -1],), "mu"),
        (compose_gdp, ([0.1, math.nan],), "mu"),
    ],
)
def test_parameters_out_of_range_are_named(function, arguments, name):
    with pytest.raises(InvalidParameter, match=rf"^{name} must be"):
        function(*arguments)
