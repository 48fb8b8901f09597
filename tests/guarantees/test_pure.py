"""Pure differential privacy converted to other notions: never below the exact figure, and close to it."""

from __future__ import annotations

import math
from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privol.errors import InvalidParameter
from privol.guarantees import (
    Claim,
    Guarantee,
    compose_pure,
    gdp_epsilon,
    gdp_mu_of_pure,
    pure_delta,
    pure_epsilon,
    pure_within_gdp,
    sum_up,
    weaknesses,
    zcdp_rho_of_gdp,
    zcdp_rho_of_pure,
)

pytestmark = pytest.mark.slow

TINY, LARGE = [1e-300, 1e-160, 1e-20, 1e-8, 9.9e-8, 1.01e-7], [30.0, 36.7, 100.0, 700.0, 745.2, 5e3, 1e5, 1e8]
EPSILONS = [*TINY, *np.geomspace(1e-6, 20.0, 60).tolist(), 1.0, math.nextafter(1.0, 0.0), *LARGE]


@pytest.fixture(autouse=True)
def _digits():
    with mp.workdps(60):
        yield


def exact_mu(epsilon: float) -> mp.mpf:
    """The root of ``log Phi(-mu/2) = -log(1 + e^epsilon)``, by Newton's method."""
    e = mp.mpf(epsilon)
    if epsilon < 1.5:
        return mp.sqrt(8) * mp.erfinv(mp.tanh(e / 2))
    target = -e - mp.log1p(mp.exp(-e))

    def log_tail(x: mp.mpf) -> mp.mpf:
        if x < 30:
            return mp.log(mp.erfc(x / mp.sqrt(2)) / 2)
        term, total = mp.mpf(1), mp.mpf(0)  # asymptotic: the terms fall to below 1e-60 of the first at x = 30
        for k in range(100):
            total, term = total + term, -term * (2 * k + 1) / x**2
        return -x * x / 2 - mp.log(x * mp.sqrt(2 * mp.pi)) + mp.log(total)

    x = mp.sqrt(2 * e)
    for _ in range(60):
        slope = -mp.exp(-x * x / 2 - log_tail(x)) / mp.sqrt(2 * mp.pi)
        x -= (log_tail(x) - target) / slope
    assert abs(log_tail(x) - target) < mp.mpf(10) ** -30 * e
    return 2 * x


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_mu_is_the_exact_one_rounded_up(epsilon):
    found, exact = gdp_mu_of_pure(epsilon), exact_mu(epsilon)
    assert exact <= found <= exact * (1 + mp.mpf("3e-12"))


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 4.0, 30.0])
def test_mu_is_tight_and_enough(epsilon):
    """The trade-off function of mu-GDP lies below that of epsilon-DP, and touches it at its corner."""
    e, mu = mp.mpf(epsilon), exact_mu(epsilon)

    def quantile(p: mp.mpf) -> mp.mpf:
        return mp.sqrt(2) * mp.erfinv(2 * p - 1)

    corner = 1 / (1 + mp.exp(e))
    for a in [corner * k / 8 for k in range(1, 9)] + [corner + (1 - 2 * corner) * k / 8 for k in range(1, 8)]:
        pure = max(0, 1 - mp.exp(e) * a, mp.exp(-e) * (1 - a))
        gaussian = mp.ncdf(-quantile(a) - mu)
        assert gaussian <= pure + mp.mpf(10) ** -40
    assert abs(mp.ncdf(-quantile(corner) - mu) - corner) < mp.mpf(10) ** -30


def test_extremes_of_mu():
    assert (gdp_mu_of_pure(0.0), gdp_mu_of_pure(math.inf)) == (0.0, math.inf)
    assert gdp_mu_of_pure(5e-324) > 5e-324
    assert gdp_mu_of_pure(1.7e308) == pytest.approx(math.sqrt(8) * math.sqrt(1.7e308))
    for wrong in (-1.0, math.nan, "1"):
        with pytest.raises(InvalidParameter):
            gdp_mu_of_pure(wrong)


@pytest.mark.parametrize("epsilon", [e for e in EPSILONS if e > 1e-150])
def test_rho_is_the_exact_one_rounded_up(epsilon):
    exact = mp.mpf(epsilon) * mp.tanh(mp.mpf(epsilon) / 2)
    found = zcdp_rho_of_pure(epsilon)
    assert exact <= found <= exact * (1 + mp.mpf("1e-14"))
    assert found <= epsilon**2 / 2 * (1 + 1e-14)
    assert found < zcdp_rho_of_gdp(gdp_mu_of_pure(epsilon))


def test_rho_is_enough_at_every_order():
    """Divergences of randomised response, of every order above 1; the smallest one near order 1 is tight."""
    for epsilon in (0.01, 0.5, 2.0, 10.0):
        e, rho = mp.mpf(epsilon), mp.mpf(epsilon) * mp.tanh(mp.mpf(epsilon) / 2)
        ratios = []
        for alpha in ("1.000001", "1.01", "1.5", "2", "5", "40", "1000"):
            a = mp.mpf(alpha)
            divergence = mp.log(mp.cosh((a - mp.mpf("0.5")) * e) / mp.cosh(e / 2)) / (a - 1)
            ratios.append(divergence / (a * rho))
        assert max(ratios) <= 1
        assert ratios[0] > mp.mpf("0.9999")


@pytest.mark.parametrize("parameter", EPSILONS)
@pytest.mark.parametrize("delta", [1e-300, 1e-12, 1e-6, 0.1, 0.4621171572600, 0.7, 1 - 1e-9, 1 - 2**-53])
def test_epsilon_at_delta_is_the_exact_one_rounded_up(parameter, delta):
    e, d = mp.mpf(parameter), mp.mpf(delta)
    with mp.workdps(400):
        inside = mp.exp(e) - d * (1 + mp.exp(e))
        exact = max(mp.log(inside), mp.mpf(0)) if inside > 0 else mp.mpf(0)
    found = pure_epsilon(parameter, delta)
    assert exact <= found <= parameter
    # where delta is close to tanh(parameter / 2), a difference of two numbers of the size of the parameter remains
    assert found <= exact + mp.mpf(4e-15) * max(e, mp.mpf("1e-308")) + (mp.mpf("2e-15") if parameter >= 1 else 0)


@settings(max_examples=300, deadline=None)
@given(st.floats(0, 800), st.floats(0, 800))
def test_delta_at_epsilon_is_the_exact_one_rounded_up(parameter, epsilon):
    found = pure_delta(epsilon, parameter)
    if epsilon >= parameter:
        assert found == 0.0
        return
    with mp.workdps(400):
        exact = (mp.exp(parameter) - mp.exp(epsilon)) / (1 + mp.exp(parameter))
        assert exact <= found <= exact * (1 + mp.mpf("1e-14")) + mp.mpf("1e-320")
    # and back
    if 0.0 < found < 1.0:
        assert pure_epsilon(parameter, found) <= epsilon * (1 + 1e-9) + 1e-9


def test_extremes_of_delta_and_epsilon():
    assert pure_epsilon(0.5, 0.0) == 0.5
    assert pure_epsilon(math.inf, 0.1) == math.inf
    assert pure_delta(3.0, math.inf) == 1.0
    assert pure_epsilon(0.0, 0.1) == pure_delta(0.0, 0.0) == 0.0
    for call in (lambda: pure_epsilon(1.0, 1.0), lambda: pure_epsilon(-1.0, 0.1), lambda: pure_delta(math.inf, 1.0)):
        with pytest.raises(InvalidParameter):
            call()


@pytest.mark.parametrize("mu", [1e-300, 1e-9, 0.1, 0.5, math.nextafter(1.0, 0.0), 1.0, 3.0, 40.0, 1e5, 1e160])
def test_the_epsilon_that_fits_into_mu_is_rounded_down(mu):
    epsilon = pure_within_gdp(mu)
    assert gdp_mu_of_pure(epsilon) <= mu
    assert epsilon == 1.7e308 or gdp_mu_of_pure(epsilon * (1 + 1e-11)) > mu


def test_zero_and_infinite_budgets_are_handled():
    assert (pure_within_gdp(0.0), pure_within_gdp(math.inf)) == (0.0, math.inf)
    assert gdp_mu_of_pure(pure_within_gdp(5e-324)) <= 5e-324


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(0, 1e300), max_size=30))
def test_sums_are_the_smallest_double_above(terms):
    total, exact = sum_up(terms), sum(map(mp.mpf, terms), mp.mpf(0))
    with mp.workprec(3000):
        exact = sum(map(mp.mpf, terms), mp.mpf(0))
        assert exact <= total
        assert total == 0.0 or exact > math.nextafter(total, 0.0)
    assert compose_pure(terms) == total


def test_sums_that_are_exact_are_not_rounded():
    assert sum_up([0.25] * 4) == 1.0
    assert sum_up([0.1] * 10) == math.nextafter(1.0, 2.0)  # the double 0.1 is slightly more than a tenth
    assert sum_up([1e308] * 2) == sum_up([1.0, math.inf]) == math.inf
    with pytest.raises(InvalidParameter):
        compose_pure([0.1, -0.1])


# -- the record --


def make(**changes):
    values = {
        "kind": "pure", "parameter": 0.5, "adjacency": "replace", "horizon": 100, "releases": 1, "delta": 1e-6,
        "arithmetic": "a", "bit_source": "b",
    }  # fmt: skip
    return Guarantee(**(values | changes))


def test_figures_of_a_pure_guarantee():
    g = make()
    assert (g.mu, g.rho) == (gdp_mu_of_pure(0.5), zcdp_rho_of_pure(0.5))
    assert g.epsilon() == pure_epsilon(0.5, 1e-6) < 0.5
    assert g.epsilon(0.0) == 0.5
    assert (g.delta_at(0.2), g.delta_at(0.5)) == (pure_delta(0.2, 0.5), 0.0)
    assert g.epsilon() < gdp_epsilon(g.mu, 1e-6)
    assert make(parameter=0.0).mu == 0.0


def test_a_group_of_rows_has_so_many_times_the_epsilon():
    g = make(rows_per_user=3)
    assert g.user_mu == gdp_mu_of_pure(1.5) < 3 * g.mu
    assert g.user_epsilon() == pure_epsilon(1.5, 1e-6)
    assert g.user_epsilon(0.0) == 1.5
    assert make().user_mu is make().user_epsilon() is None
    assert make(rows_per_user=3, parameter=0.1).user_epsilon(0.0) == math.nextafter(0.3, 1.0)  # rounded up
    assert make(rows_per_user=2**70, parameter=1e300).user_mu == math.inf


def test_sentence_and_summary_of_a_pure_guarantee():
    g = make(rows_per_user=3, user="id", claim=Claim(epsilon=0.4, delta=0.0, source="s"))
    said = g.sentence()
    assert said.startswith("Pure differential privacy with epsilon = 0.5 (delta = 0), which implies (epsilon, delta)")
    assert "0.6239-GDP (Gaussian differential privacy) and 0.1225-zCDP." in said
    assert "what is proved for this noise is (0.5, 0), more than was claimed" in said
    assert "is covered by (epsilon, delta) = (1.5, 0), by group privacy" in said
    assert "within the claim" in make(claim=Claim(epsilon=0.5, delta=0.0, source="s")).sentence()
    assert g.summary() == (
        "pure differential privacy with epsilon 0.5 (delta 0) for one row (0.6239-GDP); epsilon 1.5 for one user "
        "(column 'id', at most 3 rows); the source claims epsilon 0.4 at delta 0"
    )
    present = make(adjacency="zero_out").sentence()
    assert "(to replace it by another row is covered by epsilon = 1, twice as much)" in present
    assert make(private=False).sentence().startswith("NOT PRIVATE: ")


def test_json_of_a_pure_guarantee():
    g = make(rows_per_user=2)
    assert Guarantee.from_json(g.to_json()) == g
    assert g.to_record()["kind"] == "pure"
    assert g.to_record()["version"] == 1
    with pytest.raises(InvalidParameter, match="parameter must be finite"):
        replace(g, parameter=math.inf)


def test_a_pure_guarantee_is_not_judged_by_a_delta():
    assert weaknesses(make(delta=0.5), rows=10) == []
    (weak,) = weaknesses(make(parameter=11.0, delta=0.9999))
    assert weak.startswith("epsilon is 11, above 10")
    (weak,) = weaknesses(make(parameter=6.0, rows_per_user=2))
    assert weak.startswith("epsilon for users is 12")
