"""Reports in a secret random order: against every transcript of small mechanisms, the published form, quadrature."""

from __future__ import annotations

import functools
import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import beta, binom

from privol.errors import InvalidParameter
from privol.guarantees import _shuffled as shuffled
from privol.guarantees import (
    gdp_delta,
    gdp_epsilon,
    pure_delta,
    pure_epsilon,
    shuffled_delta,
    shuffled_epsilon,
    shuffled_epsilon_of_gdp,
)

pytestmark = pytest.mark.slow

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)


# -- every transcript --


def transcripts(kernel, rows):
    """Distribution of the whole transcript when ``rows`` answer in random order: ``kernel(history, row)``."""
    law: dict[tuple[int, ...], float] = {}
    orders = list(itertools.permutations(rows))
    for order in orders:
        partial = {(): 1.0 / len(orders)}
        for row in order:
            grown: dict[tuple[int, ...], float] = {}
            for history, chance in partial.items():
                for answer, part in enumerate(kernel(history, row)):
                    grown[(*history, answer)] = grown.get((*history, answer), 0.0) + chance * part
            partial = grown
        for history, chance in partial.items():
            law[history] = law.get(history, 0.0) + chance
    return law


def divergence(first, second, epsilon):
    return math.fsum(max(first[key] - math.exp(epsilon) * second[key], 0.0) for key in first)


def response(epsilon0, answers):
    """Randomised response: the row itself, or any other answer."""

    def kernel(_history, row):
        law = np.ones(answers)
        law[row] = math.exp(epsilon0)
        return law / law.sum()

    return kernel


def adaptive(epsilon0):
    """Rows of two bits: earlier answers decide which bit is requested, which is true, and with which epsilon."""

    def kernel(history, row):
        bit = row >> (sum(history) % 2) & 1
        own = epsilon0 if history[-1:] != (1,) else 0.7 * epsilon0
        true = float(expit(own))
        return (1.0 - true, true) if bit ^ (len(history) % 2) else (true, 1.0 - true)

    return kernel


def staircase(epsilon0):
    """Each answer has one of two probabilities for each row, and none separates all rows, like PrivUnit's caps."""

    def kernel(_history, row):
        law = np.array([math.exp(epsilon0) if row in pair else 1.0 for pair in itertools.combinations(range(4), 2)])
        return law / law.sum()

    return kernel


MECHANISMS = {
    "2 answers": (lambda epsilon0: response(epsilon0, 2), 2, (2, 3, 4)),
    "3 answers": (lambda epsilon0: response(epsilon0, 3), 3, (2, 3, 4)),
    "4 answers": (lambda epsilon0: response(epsilon0, 4), 4, (2, 3)),
    "adaptive": (adaptive, 4, (2, 3, 4)),
    "two levels": (staircase, 4, (2, 3)),
}


def ratios(name, bound):
    """The true delta over the bound, for data sets, epsilons and numbers of users; equal transcripts are left out."""
    make, rows, numbers = MECHANISMS[name]
    for epsilon0 in (0.5, 1.0, 3.0):
        for n in numbers:
            bounds = {share: bound(epsilon0, n, share * epsilon0) for share in (0.0, 0.2, 0.5, 0.9)}
            for others in itertools.combinations_with_replacement(range(rows), n - 1):
                laws = [transcripts(make(epsilon0), (row, *others)) for row in range(rows)]
                for first, second in itertools.permutations(laws, 2):
                    for share, most in bounds.items():
                        yield divergence(first, second, share * epsilon0) / most


@pytest.mark.parametrize("name", MECHANISMS)
def test_no_mechanism_exceeds_the_bound(name):
    found = list(ratios(name, shuffled_delta))
    assert 0.5 < max(found) <= 1.0


@pytest.mark.parametrize("name", ["2 answers", "adaptive"])
def test_mechanisms_exceed_wrong_bounds(name):
    """Bounds computed as if local epsilons were smaller, or as if more users sent the same answer."""
    assert max(ratios(name, lambda epsilon0, n, epsilon: shuffled_delta(0.8 * epsilon0, n, epsilon) or 1.0)) > 1.0

    def crowded(epsilon0, n, epsilon):
        return shuffled._Crowd(n - 1, math.exp(-0.1 * epsilon0)).delta(epsilon, epsilon0, 0.0)

    assert max(ratios(name, crowded)) > 1.0


def told(epsilon0, null):
    """The most that the proof allows: others send a clone, which may look like the user in question, or "own"."""
    likely, clone = float(expit(epsilon0)), math.exp(-epsilon0)
    laws = {"row": (likely, 1.0 - likely, 0.0), "other row": (1.0 - likely, likely, 0.0)}
    even = 1.0 - likely if null else 0.5
    laws["others"] = (clone * even, clone * (1.0 - even), 1.0 - clone)
    return lambda _history, row: laws[row]


@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
@pytest.mark.parametrize("epsilon0", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("n", [2, 3, 5])
def test_the_bound_is_what_its_proof_gives(adjacency, epsilon0, n):
    """Exactly, from both sides: any other constant is wrong."""
    kernel = told(epsilon0, adjacency == "zero_out")
    present, other = (transcripts(kernel, (row, *["others"] * (n - 1))) for row in ("row", "other row"))
    for share in (0.0, 0.1, 0.5, 0.9):
        epsilon = share * epsilon0
        true = max(divergence(present, other, epsilon), divergence(other, present, epsilon))
        found = shuffled_delta(epsilon0, n, epsilon, adjacency=adjacency)
        assert true <= found <= true * (1.0 + 1e-6)


def test_zero_out_against_the_null_row():
    """Local epsilons that hold against the null row alone: two rows are further apart."""
    epsilon0, n = 1.0, 3
    null = np.array([0.4, 0.3, 0.3])
    laws = [null, np.array([0.27, 0.604, 0.126]), np.array([0.27, 0.126, 0.604])]
    apart = max(float(np.abs(np.log(law / null)).max()) for law in laws)
    assert apart <= epsilon0 < float(np.log(laws[1] / laws[2]).max())
    for others in itertools.combinations_with_replacement(range(3), n - 1):
        first, second = (transcripts(lambda _history, row: laws[row], (row, *others)) for row in (0, 1))
        for epsilon in (0.0, 0.2, 0.5, 0.9):
            most = shuffled_delta(epsilon0, n, epsilon, adjacency="zero_out")
            assert max(divergence(first, second, epsilon), divergence(second, first, epsilon)) <= most


# -- numbers --


@functools.cache
def answers_of(clones, tilt):
    """The law of the number of ones among clones, with another one and without."""
    return tuple(binom.pmf(np.arange(clones + 2) - add, clones, float(expit(tilt))) for add in (1, 0))


def summed(epsilon0, n, epsilon, tilt=0.0):
    """The divergence of the pair by its definition, without use of its shape."""
    true, total = float(expit(epsilon0)), 0.0
    for clones, chance in enumerate(binom.pmf(np.arange(n), n - 1, math.exp(-epsilon0))):
        one, none = answers_of(clones, tilt)
        first, second = true * one + (1 - true) * none, (1 - true) * one + true * none
        excess = np.maximum(first - math.exp(epsilon) * second, 0.0).sum()
        total += chance * excess
    return total


@pytest.mark.parametrize("n", [2, 7, 60, 300])
@pytest.mark.parametrize("epsilon0", [0.1, 1.0, 4.0])
def test_against_the_definition(n, epsilon0):
    for epsilon in np.array([0.0, 0.01, 0.1, 0.3, 0.7, 0.99]) * epsilon0:
        for adjacency, tilts in (("replace", (0.0,)), ("zero_out", (-epsilon0, epsilon0))):
            expected = max(summed(epsilon0, n, epsilon, tilt) for tilt in tilts)
            found = shuffled_delta(epsilon0, n, epsilon, adjacency=adjacency)
            assert found >= expected * (1.0 - 1e-9)
            if expected > 1e-13:  # below, subtraction leaves the definition few digits
                assert found <= expected * (1.0 + 1e-4)


def exact(k, trials, p, step):
    """Probability of k, and of k and all that is beyond it in the direction of ``step``, in mpmath."""
    odds = mp.mpf(p) / (1 - mp.mpf(p))
    term = (
        mp.binomial(trials, k)
        if trials < 10**4
        else mp.exp(mp.loggamma(trials + 1) - mp.loggamma(k + 1) - mp.loggamma(trials - k + 1))
    )
    term *= mp.mpf(p) ** k * (1 - mp.mpf(p)) ** (trials - k)
    # the mass beyond by the ratios of its terms: some ten thousand factors, each with its own rounding
    ratio, at, total, last = np.longdouble(mp.nstr(odds, 25)), k, np.longdouble(0), np.longdouble(1)
    while 0 <= at <= trials and last > total * 1e-18:
        ks = at + step * np.arange(10_000, dtype=np.longdouble)
        rates = ratio * (trials - ks) / (ks + 1) if step > 0 else ks / ratio / (trials - ks + 1)
        terms = last * np.cumprod(np.concatenate([[1], np.maximum(rates, 0)]))
        total, last, at = total + terms[:-1].sum(), terms[-1], at + step * 10_000
    return term, term * float(total)


def test_probabilities_are_within_their_margin():
    """SciPy's against mpmath, in the tails that are summed; the bounds allow ten times more."""
    generator, count = np.random.default_rng(11), 0
    with mp.workdps(35):
        for trials in (5, 1000, 10**6, 10**9):
            for p in (0.5, math.exp(-generator.uniform(1, 15)), -math.expm1(-generator.uniform(1, 5))):
                deviation = math.sqrt(trials * p * (1 - p))
                for z in (9.0, 25.0) if trials > 10**6 else (3.0, 9.0, 25.0):
                    for step in (1, -1):
                        k = math.ceil(trials * p + step * z * deviation)
                        if not 0 <= k <= trials:
                            continue
                        law = binom(trials, p)
                        one, tail = exact(k, trials, p, step)
                        assert one > 1e-290
                        count += 1
                        assert abs(law.pmf(k) / one - 1) < shuffled._RELATIVE / 10
                        assert abs((law.sf(k - 1) if step > 0 else law.cdf(k)) / tail - 1) < shuffled._RELATIVE / 10
    assert count > 30


def published(epsilon0, n, delta):
    """Feldman, McMillan and Talwar 2021, Theorem 3.1."""
    assert epsilon0 <= math.log(n / (16 * math.log(2 / delta)))
    lead = math.tanh(epsilon0 / 2)
    growth = math.exp(epsilon0)
    return math.log1p(lead * (8 * math.sqrt(growth * math.log(4 / delta) / n) + 8 * growth / n))


@pytest.mark.parametrize("epsilon0", [0.1, 0.5, 1.0, 3.0, 5.0])
@pytest.mark.parametrize("n", [10**5, 10**6, 10**8])
@pytest.mark.parametrize("delta", [1e-5, 1e-10])
def test_below_the_published_form(epsilon0, n, delta):
    found = shuffled_epsilon(epsilon0, n, delta)
    assert found < published(epsilon0, n, delta)


@settings(max_examples=25, deadline=None)
@given(st.floats(0.01, 12), st.integers(1, 10**8), st.floats(1e-12, 0.3))
def test_epsilon_meets_delta_and_is_the_least(epsilon0, n, delta):
    for adjacency in ("replace", "zero_out"):
        found = shuffled_epsilon(epsilon0, n, delta, adjacency=adjacency)
        assert 0.0 <= found <= pure_epsilon(epsilon0, delta)
        assert shuffled_delta(epsilon0, n, found, adjacency=adjacency) <= delta
        if found > 1e-6:
            assert shuffled_delta(epsilon0, n, found * (1 - 1e-7), adjacency=adjacency) >= delta * (1 - 1e-6)


@settings(max_examples=25, deadline=None)
@given(st.floats(0.05, 8), st.integers(2, 10**7), st.floats(1e-10, 0.1))
def test_monotone(epsilon0, n, delta):
    """More users, a smaller local epsilon, a larger delta: a smaller epsilon. Numbers of clones are taken in steps."""
    found = shuffled_epsilon(epsilon0, n, delta)
    for more in (
        shuffled_epsilon(epsilon0, 2 * n, delta),
        shuffled_epsilon(0.9 * epsilon0, n, delta),
        shuffled_epsilon(epsilon0, n, 2 * delta),
    ):
        assert more <= found * (1.0 + 1e-3)


@pytest.mark.parametrize("epsilon0", EPSILONS)
def test_falls_as_the_root_of_the_users(epsilon0):
    growth = 1.0 / math.tanh(epsilon0 / 2.0)
    found = [shuffled_epsilon(epsilon0, n, 1.0 / n) * growth for n in (10**6, 10**8)]
    for epsilon, n in zip(found, (10**6, 10**8), strict=True):
        assert 0.4 < epsilon / math.sqrt(math.exp(epsilon0) * math.log(n) / n) < 3.0
    assert 6.0 < found[0] / found[1] < 14.0


def test_ends_of_the_ranges():
    assert shuffled_epsilon(1.0, 1, 1e-6) == pure_epsilon(1.0, 1e-6)
    assert shuffled_delta(1.0, 1, 0.5) == pure_delta(0.5, 1.0)
    assert shuffled_epsilon(1.0, 10**6, 0.0) == 1.0
    assert shuffled_epsilon(0.0, 10, 1e-6) == shuffled_delta(0.0, 10, 0.0) == shuffled_delta(1.0, 10, 1.0) == 0.0
    assert shuffled_epsilon(math.inf, 10, 1e-6) == math.inf
    assert shuffled_delta(math.inf, 10, 3.0) == 1.0
    assert shuffled_epsilon(1e-300, 10, 1e-6) == 0.0
    assert 0.0 < shuffled_delta(1e-300, 10, 0.0) <= pure_delta(0.0, 1e-300)
    assert shuffled_epsilon(299.0, 10**9, 1e-6) <= 299.0
    for epsilon in (0.0, 298.9):
        assert shuffled_delta(299.0, 10**9, epsilon, adjacency="zero_out") <= pure_delta(epsilon, 299.0)
    assert shuffled_epsilon(1.0, 10**9, 1e-6) == shuffled_epsilon(1.0, 2**48, 1e-6)
    assert shuffled_epsilon_of_gdp(0.3, 10**9, 1e-6) == shuffled_epsilon_of_gdp(0.3, 2**48, 1e-6)
    assert shuffled_epsilon_of_gdp(1.0, 1, 1e-6) == gdp_epsilon(1.0, 1e-6)
    assert shuffled_epsilon_of_gdp(0.0, 9, 1e-6) == shuffled_epsilon_of_gdp(1e-9, 9, 1e-6) == 0.0
    assert shuffled_epsilon_of_gdp(math.inf, 9, 1e-6) == math.inf
    assert shuffled_epsilon_of_gdp(500.0, 10**9, 1e-6) == gdp_epsilon(500.0, 1e-6)


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda: shuffled_epsilon(-1.0, 2, 0.1), "epsilon0"),
        (lambda: shuffled_epsilon(1.0, 0, 0.1), "n must be"),
        (lambda: shuffled_epsilon(1.0, 2.0, 0.1), "n must be"),
        (lambda: shuffled_epsilon(1.0, 2, 1.0), "delta"),
        (lambda: shuffled_delta(1.0, 2, math.inf), "epsilon"),
        (lambda: shuffled_delta(1.0, 2, 0.5, adjacency="add"), "adjacency"),
        (lambda: shuffled_epsilon_of_gdp(1.0, 2, 0.0), "delta"),
        (lambda: shuffled_epsilon_of_gdp(math.nan, 2, 0.1), "mu"),
    ],
)
def test_refusals(call, what):
    with pytest.raises(InvalidParameter, match=what):
        call()


# -- Gaussian reports --


WIDTHS = {2: 0.05, 3: 0.25}


@functools.lru_cache(maxsize=4)
def grid_law(mu, data, adaptive_scale):
    """Density of the transcript of Gaussian reports at the midpoints of a wide grid.

    ``adaptive_scale``: after a positive answer the next one has twice the noise.
    """
    width = WIDTHS[len(data)]
    axis = np.arange(-12.0, 12.0, width) + width / 2
    answers = np.meshgrid(*[axis] * len(data), indexing="ij")
    law = 0.0
    orders = list(itertools.permutations(data))
    for order in orders:
        part = (2.0 * math.pi) ** (-len(data) / 2.0) / len(orders)
        for turn, row in enumerate(order):
            scale = np.where(answers[turn - 1] > 0.0, 2.0, 1.0) if adaptive_scale and turn else 1.0
            part = part * np.exp(-(((answers[turn] - mu * row) / scale) ** 2) / 2.0) / scale
        law = law + part
    return law


def grid_delta(mu, rows, epsilon, adaptive_scale):
    """The true delta of Gaussian reports, by the midpoint rule (halving the grid changes the fifth digit)."""
    first, second = (grid_law(mu, data, adaptive_scale) for data in rows)
    return float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum()) * WIDTHS[len(rows[0])] ** len(rows[0])


@pytest.mark.parametrize("adaptive_scale", [False, True])
@pytest.mark.parametrize("others", [(0.5,), (1.0,), (0.0, 1.0), (0.5, 0.5)])
def test_gaussian_reports_of_few_users(others, adaptive_scale):
    n = len(others) + 1
    for mu, delta in ((0.3, 0.05), (1.0, 0.1)):
        found = shuffled_epsilon_of_gdp(mu, n, delta)
        for rows in (((0.0, *others), (1.0, *others)), ((1.0, *others), (0.0, *others))):
            assert grid_delta(mu, rows, found, adaptive_scale) <= delta * (1.0 + 1e-4)
    alone = grid_delta(1.0, ((0.0, 0.5), (1.0, 0.5)), 0.0, False)
    assert alone > 0.5 * gdp_delta(0.0, 1.0)  # the quadrature resolves the density


def random_law(generator, size):
    law = generator.dirichlet(np.full(size, 0.6)) + 1e-9
    return law / law.sum()


def test_decompositions_of_the_proof():
    """Section 5 on random distributions: the components of both mixtures, and how far others are from a clone."""
    generator = np.random.default_rng(5)
    for _ in range(300):
        p, q, other = (random_law(generator, 6) for _ in range(3))
        epsilon, bound = generator.uniform(0.05, 2.0), generator.uniform(0.05, 3.0)
        growth = math.exp(epsilon)

        def excess(a, b, by):
            return float(np.maximum(a - math.exp(by) * b, 0.0).sum())

        known = max(excess(p, q, epsilon), excess(q, p, epsilon))
        if known >= 0.99:
            continue
        # both clipped to each other; then the heavier lowered, in between, to the mass of the lighter; then both scaled
        first, second = np.minimum(p, growth * q), np.minimum(q, growth * p)
        if first.sum() > second.sum():
            low = second / growth
            first = low + (first - low) * (second.sum() - low.sum()) / (first.sum() - low.sum())
        else:
            low = first / growth
            second = low + (second - low) * (first.sum() - low.sum()) / (second.sum() - low.sum())
        first, second = (law * (1.0 - known) / law.sum() for law in (first, second))
        parts = [(growth * a - b) / (growth - 1.0) / (1.0 - known) for a, b in ((first, second), (second, first))]
        for part in parts:
            assert part.min() > -1e-12
            assert part.sum() == pytest.approx(1.0, abs=1e-11)
        for law, (likely, rare) in ((p, parts), (q, parts[::-1])):
            assert ((1.0 - known) * (growth * likely + rare) / (1.0 + growth) <= law + 1e-12).all()
        missing = max(excess(p, other, bound), excess(q, other, bound)) * math.exp(-bound)
        for clone in ((parts[0] + parts[1]) / 2.0, (parts[0] + growth * parts[1]) / (1.0 + growth)):
            mass = math.exp(-bound) * (1.0 - known)
            lacking = np.maximum(mass * clone - other, 0.0).sum()
            assert lacking <= missing + 1e-12
            made = mass * clone + np.maximum(other - mass * clone, 0.0) * (1.0 - mass) / (1.0 - mass + lacking)
            assert made.sum() == pytest.approx(1.0)
            assert np.abs(made - other).sum() / 2.0 <= missing + 1e-12


def least_gaussian_delta(mu, n, epsilon, runs, generator):
    """A lower bound on the true delta where all others hold the middle row; 10^-7 for each of three proportions.

    Both are sampled with the same noise: how often a test accepts only one of them is a small proportion.
    """
    others = np.empty((2, runs))
    for start in range(0, runs, 10_000):
        answers = generator.standard_normal((min(10_000, runs - start), n - 1)) * (mu / 2.0)
        others[0, start : start + len(answers)] = np.exp(answers).sum(1)
        others[1, start : start + len(answers)] = np.exp(-answers).sum(1)
    noise = generator.standard_normal(runs)
    accepted = []
    for center in (mu / 2.0, -mu / 2.0):
        own = (center + noise) * (mu / 2.0)
        accepted.append(np.log((others[0] + np.exp(own)) / (others[1] + np.exp(-own))) > epsilon)
    first, other = accepted
    gained, lost, second = (int(which.sum()) for which in (first & ~other, other & ~first, other))
    least = beta.ppf(1e-7, gained, runs - gained + 1) if gained else 0.0
    return (
        least
        - beta.ppf(1.0 - 1e-7, lost + 1, runs - lost)
        - math.expm1(epsilon) * beta.ppf(1.0 - 1e-7, second + 1, runs - second)
    )


def test_gaussian_reports_of_many_users():
    """False alarms: 3e-7. A bound for a thousand times the users would be detected."""
    generator = np.random.default_rng(3)
    mu, n, delta = 0.5, 300, 0.003
    found = shuffled_epsilon_of_gdp(mu, n, delta)
    assert 0.0 < found < 0.5 * gdp_epsilon(mu, delta)
    assert least_gaussian_delta(mu, n, found, 100_000, generator) <= delta
    wrong = shuffled_epsilon_of_gdp(mu, 1000 * n, delta)
    assert least_gaussian_delta(mu, n, wrong, 100_000, generator) > delta


def test_a_point_spends_what_its_proof_adds_up(monkeypatch):
    """Section 5: revealing reports, clones that are none, each (1 + e^epsilon) times, the rest by pairs."""
    bounds = []

    def noted(mu, target, true=shuffled._clones_at):
        bounds.append(true(mu, target))
        return bounds[-1]

    monkeypatch.setattr(shuffled, "_clones_at", noted)
    mu, n, delta = 0.5, 200, 0.003
    for own, others in ((0.02, 0.1), (0.1, 0.4), (0.4, 0.5)):
        most = 0.9 * gdp_epsilon(mu, delta)
        found = shuffled._gaussian_point(mu, n, delta, own * delta, others * delta, most, "replace")
        assert found < most
        parameter = gdp_epsilon(mu, own * delta)
        known, missing = gdp_delta(parameter, mu), math.exp(-bounds[-1]) * gdp_delta(bounds[-1], mu)
        crowd = shuffled._Crowd(n - 1, math.exp(-bounds[-1]) * (1.0 - known))
        spent = known + (1.0 + math.exp(found)) * (n - 1) * missing
        assert spent + crowd.delta(found, parameter, 0.0) <= delta


@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
@pytest.mark.parametrize("n", [2, 10**4, 10**8])
def test_gaussian_figures_are_within_the_local_one(adjacency, n):
    for mu in (0.3, 1.0) if n == 2 else (0.5,):
        found = [shuffled_epsilon_of_gdp(mu, n, delta, adjacency=adjacency) for delta in (1e-4, 1e-8)]
        local = [gdp_epsilon(mu, delta) for delta in (1e-4, 1e-8)]
        assert all(0.0 <= one <= other for one, other in zip(found, local, strict=True))
        assert found[0] <= found[1]
        if n == 10**8:
            assert found[1] < 0.15 * local[1]
