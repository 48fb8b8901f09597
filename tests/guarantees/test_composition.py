"""Ledgers with mixed kinds: each rule of the filter, both together, and the composition of runs fixed beforehand."""

from __future__ import annotations

import functools
import json
import math
import sys
import threading
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from privol.errors import BudgetExceeded, InvalidParameter, StateError
from privol.guarantees import (
    Guarantee,
    compose_fixed,
    compose_gdp,
    format_up,
    gdp_delta,
    gdp_epsilon,
    gdp_mu_of_pure,
    pure_epsilon,
    zcdp_rho_of_pure,
)
from privol.guarantees import _mixed as mixed
from privol.ledger import Ledger
from privol.ledger._entries import Share, pure_epsilon_of
from privol.ledger._remaining import difference_down, left

pytestmark = pytest.mark.slow


def plan(kind="pure", parameter=0.1, **words):
    values = {"adjacency": "replace", "horizon": 100, "releases": 10, "delta": 1e-6, "arithmetic": "a"}
    return Guarantee(kind=kind, parameter=parameter, bit_source="b", **(values | words))


def ledger_of(*runs, epsilon=1.0, delta=1e-6):
    ledger = Ledger(epsilon=epsilon, delta=delta)
    for kind, parameter in runs:
        ledger.open(learner=kind, guarantee=plan(kind, parameter))
    return ledger


def released(account, rows=5, releases=1, square=None):
    account.attach(lambda: (rows, releases, account.reserved_mu_squared if square is None else square))
    account.close()


# -- the filter --


def test_pure_runs_fit_by_the_sum_of_their_epsilons():
    """Exactly: eighths add up without rounding, tenths sum to slightly more than the whole."""
    ledger = ledger_of(*[("pure", 0.125)] * 8)
    assert ledger.remaining == 0.0  # three would fit by squares
    assert ledger.remaining_pure == 0.0
    with pytest.raises(BudgetExceeded):
        ledger.open(learner="E", guarantee=plan(parameter=1e-6))
    ledger = ledger_of(*[("pure", 0.1)] * 9)
    with pytest.raises(BudgetExceeded):
        ledger.open(learner="E", guarantee=plan(parameter=0.1))
    left = ledger.remaining_pure
    assert Fraction(left) <= 1 - 9 * Fraction(0.1) < Fraction(math.nextafter(left, 1.0))
    ledger.open(learner="E", guarantee=plan(parameter=left))
    ledger_of(*[("pure", 0.1)] * 10, epsilon=math.nextafter(1.0, 2.0))
    with pytest.raises(BudgetExceeded):
        ledger_of(("pure", math.nextafter(1.0, 2.0)))


@settings(max_examples=200, deadline=None)
@given(st.floats(0, 10), st.lists(st.floats(0, 10), max_size=8))
def test_the_remainder_is_the_largest_double_that_fits(limit, terms):
    left, exact = difference_down(limit, terms), Fraction(limit) - sum(map(Fraction, terms))
    assert left == 0.0 if exact <= 0 else Fraction(left) <= exact < Fraction(math.nextafter(left, math.inf))
    assert difference_down(limit, [*terms, math.inf]) == 0.0


@settings(max_examples=200, deadline=None)
@given(st.floats(1e-3, 10), st.floats(0, 1))
@example(1.0, 2.0**-60)
@example(0.1, 1e-25)
def test_the_remaining_mu_is_rounded_down(limit, share):
    committed = share * limit**2
    rest = Fraction(limit) ** 2 - Fraction(committed)
    found = left(limit, committed)
    assert found == 0.0 if rest <= 0 else 0 <= Fraction(found) ** 2 <= rest
    assert Fraction(found) ** 2 >= rest * (1 - Fraction(1, 2**50))
    assert left(limit, math.inf) == 0.0


def test_many_small_pure_runs_fit_by_squares():
    ledger = ledger_of(*[("pure", 0.004)] * 1000)
    assert ledger.committed.pure_epsilon == pytest.approx(4.0)
    ledger.open(learner="E", guarantee=plan(parameter=ledger.remaining_pure))
    with pytest.raises(BudgetExceeded):
        ledger.open(learner="E", guarantee=plan(parameter=0.01))


def test_a_run_of_another_kind_needs_the_squares_of_all():
    ledger = ledger_of(("pure", 0.1), ("gdp", 0.1))
    with pytest.raises(BudgetExceeded):
        ledger.open(learner="E", guarantee=plan(parameter=0.5))
    left = math.sqrt(ledger.mu**2 - 0.01 - gdp_mu_of_pure(0.1) ** 2)
    assert ledger.remaining == pytest.approx(left)
    assert gdp_mu_of_pure(ledger.remaining_pure) == pytest.approx(left)
    ledger.open(learner="E", guarantee=plan(parameter=ledger.remaining_pure))
    # beyond the squares nothing of another kind fits, however small, unless it costs nothing
    ledger = ledger_of(("pure", 0.5))
    with pytest.raises(BudgetExceeded):
        ledger.open(learner="E", guarantee=plan("gdp", 1e-9))
    ledger.open(learner="E", guarantee=plan("gdp", 0.0))
    ledger.open(learner="E", guarantee=plan("pure", 0.0))
    ledger.open(learner="E", guarantee=plan("pure", 0.5))
    assert not ledger.accounts[0].closed


def test_runs_that_spent_nothing_cost_nothing():
    ledger = Ledger(epsilon=1.0, delta=1e-6)
    gaussian = ledger.open(learner="G", guarantee=plan("gdp", 0.2))
    with pytest.raises(BudgetExceeded):
        ledger.open(learner="E", guarantee=plan(parameter=0.9))
    released(gaussian, releases=0, square=0.0)
    pure = ledger.open(learner="E", guarantee=plan(parameter=0.9))
    released(pure, releases=0, square=0.0)
    assert pure.entry().pure_epsilon == pure.entry().mu_squared == 0.0
    ledger.open(learner="G", guarantee=plan("gdp", ledger.remaining))


@pytest.mark.parametrize(
    ("releases", "square", "expected"),
    [(0, 0.0, (0.0, 0.0)), (1, 0.0, (0.4, 1.0)), (1, 0.25, (0.4, 0.25)), (0, 0.25, (0.4, 0.25)), (3, 1.0, (0.4, 1.0))],
)
def test_a_pure_run_spends_its_epsilon_whole(releases, square, expected):
    """The run may state a part of its square, but never of its epsilon."""
    ledger = Ledger(epsilon=1.0, delta=1e-6)
    account = ledger.open(learner="E", guarantee=plan(parameter=0.4))
    whole = account.reserved_mu_squared
    account.attach(lambda: (7, releases, square * whole))
    for _ in range(2):
        entry = account.entry()
        assert entry.pure_epsilon == expected[0]
        assert expected[1] * whole <= entry.mu_squared <= expected[1] * whole * (1 + 1e-8)
        assert ledger.committed.pure_epsilon == (expected[0] if account.closed else 0.4)
        account.close()
    assert account.reserved_pure_epsilon == 0.4
    assert Ledger().open(learner="G", guarantee=plan("gdp", 0.1)).reserved_pure_epsilon == math.inf


def test_figures_of_the_smallest_squares_are_rounded_up():
    """Half of the smallest double is 0; and a pure run has spent its epsilon however small the square is."""
    assert Share("id", "G", plan("gdp", 0.1), 1, 5e-324).rho == 5e-324
    for square in (0.0, 5e-324):
        assert pure_epsilon_of(plan(parameter=0.4), 1, square) == 0.4
        assert pure_epsilon_of(plan("gdp", 0.4), 1, square) == (math.inf if square else 0.0)
    assert pure_epsilon_of(plan(parameter=0.4), 0, 0.0) == 0.0


def test_a_pure_run_closed_without_counters_counts_as_spent():
    ledger = ledger_of(("pure", 0.6))
    ledger.accounts[0].close()
    assert ledger.spent.pure_epsilon == 0.6
    with pytest.raises(BudgetExceeded):
        ledger.open(learner="E", guarantee=plan(parameter=0.5))


def test_the_refusal_of_a_pure_run_says_what_is_left():
    ledger = ledger_of(("pure", 0.5), ("pure", 0.25))
    with pytest.raises(BudgetExceeded) as caught:
        ledger.open(learner="OutputPerturbation", guarantee=plan(parameter=0.4))
    message = str(caught.value)
    assert message.startswith("OutputPerturbation asks for a pure epsilon of 0.4 (mu = 0.499")
    assert "(by pure epsilons of 0.75 in all) is spent or reserved by 2 earlier runs" in message
    assert "a pure epsilon of 0.25 is left, because the squares of mu add up, and the epsilons of runs" in message
    ledger.open(learner="OutputPerturbation", guarantee=plan(parameter=0.25))
    with pytest.raises(BudgetExceeded, match=r"asks for mu = 0.1 .*and mu = 0 \(epsilon = 0\) is left"):
        ledger.open(learner="PIGD", guarantee=plan("gdp", 0.1))
    assert Ledger().remaining_pure is None


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_some_rule_bounds_all_runs_together(data):
    ledger = Ledger(epsilon=1.0, delta=1e-3)
    for _ in range(data.draw(st.integers(1, 15))):
        kind = data.draw(st.sampled_from(["pure", "pure", "gdp"]))
        parameter = data.draw(st.sampled_from([0.01, 0.1, 0.3, ledger.remaining_pure or 0.2]))
        try:
            account = ledger.open(learner="E", guarantee=plan(kind, parameter))
        except BudgetExceeded:
            continue
        act = data.draw(st.sampled_from(["leave", "release", "nothing", "part"]))
        if act != "leave":
            share = {"release": 1.0, "nothing": 0.0, "part": 0.5}[act]
            released(account, releases=int(share > 0), square=share * account.reserved_mu_squared)
        # by exact arithmetic, from the guarantees alone
        held = [(a, Fraction(a._last[2] if a.closed else a.reserved_mu_squared)) for a in ledger.accounts]
        held = [(a, square) for a, square in held if square]
        squares = gdp_delta(1.0, math.sqrt(sum(square for _, square in held)) * (1 + 1e-15)) <= 1e-3 * (1 + 1e-9)
        pure = all(a.guarantee.kind == "pure" for a, _ in held)
        assert squares or (pure and sum(Fraction(a.guarantee.parameter) for a, _ in held) <= 1)
        assert ledger.committed.epsilon() <= 1.0 + 1e-12


def worst_delta(admits, epsilon, choices, depth):
    """Largest delta, over all adaptive choices of runs, of randomised responses that a rule admits.

    The runs so far are a multiset; on a path with likelihood ratio e^loss stopping is worth ``(1 - e^(epsilon -
    loss))+``, and continuing is worth the mean over the answer of a further run.
    """

    @functools.cache
    def value(loss: float, runs: tuple) -> float:
        best = max(0.0, -math.expm1(epsilon - loss)) if loss > epsilon else 0.0
        for run in choices if len(runs) < depth else ():
            more = tuple(sorted([*runs, run]))
            if admits(more):
                p = 1.0 / (1.0 + math.exp(-run[1]))
                ends = (round(loss + run[1], 9), round(loss - run[1], 9))
                best = max(best, p * value(ends[0], more) + (1.0 - p) * value(ends[1], more))
        return best

    return value(0.0, ())


def test_no_adaptive_choice_of_runs_beats_the_limit():
    """Every strategy on randomised responses, those of kind "gdp" charged by their mu: exact, by dynamic programming.

    The same search refutes a rule that counts pure runs by their epsilons and only the others by squares.
    """
    epsilon, delta = 0.5, 0.03
    choices = (("gdp", 0.2), ("pure", 0.05), ("pure", 0.1), ("pure", 0.25))

    @functools.cache
    def ours(runs):
        free, ledger = Ledger(), Ledger(epsilon=epsilon, delta=delta)
        for kind, strength in runs:
            parameter = gdp_mu_of_pure(strength) if kind == "gdp" else strength
            free.open(learner="E", guarantee=plan(kind, parameter))
        *known, last = free.accounts
        ledger._accounts.extend(known)
        try:
            ledger._admit(last)
        except BudgetExceeded:
            return False
        return True

    @functools.cache
    def apart(runs):
        mu = compose_gdp([gdp_mu_of_pure(strength) for kind, strength in runs if kind == "gdp"])
        return gdp_delta(epsilon, mu) <= delta and sum(s for kind, s in runs if kind == "pure") <= epsilon

    found = worst_delta(ours, epsilon, choices, 9)
    assert 0.2 * delta < found <= delta
    assert worst_delta(apart, epsilon, choices, 9) > delta


# -- the odometer --


def test_figures_of_mixed_runs():
    ledger = Ledger()
    for kind, parameter in (("pure", 0.3), ("gdp", 0.2)):
        released(ledger.open(learner="E", guarantee=plan(kind, parameter)))
    spent = ledger.spent
    assert spent.mu == pytest.approx(math.hypot(gdp_mu_of_pure(0.3), 0.2), rel=1e-12)
    assert spent.rho == pytest.approx(zcdp_rho_of_pure(0.3) + 0.02, rel=1e-12)  # the sum of the smaller ones
    assert spent.rho >= zcdp_rho_of_pure(0.3) + 0.02
    assert spent.rho < spent.mu**2 / 2
    assert spent.pure_epsilon == math.inf
    assert spent.epsilon(1e-6) == gdp_epsilon(spent.mu, 1e-6)
    assert spent.parts == (0.2, (0.3,))
    with pytest.raises(InvalidParameter, match="delta must be given"):
        spent.epsilon_if_fixed()


def test_figures_of_pure_runs():
    ledger = ledger_of(("pure", 0.25), ("pure", 0.5))
    assert ledger.spent.epsilon() == ledger.spent.mu == 0.0
    held = ledger.committed
    assert held.epsilon() == held.pure_epsilon == 0.75 < gdp_epsilon(held.mu, 1e-6)
    assert held.delta_at(0.75) == 0.0 < held.delta_at(0.74) == gdp_delta(0.74, held.mu)
    assert held.epsilon(0.3) == gdp_epsilon(held.mu, 0.3) < 0.75  # where the squares give less


def test_sentences_of_pure_and_mixed_runs():
    ledger = ledger_of(("pure", 0.25), ("pure", 0.5))
    said = ledger.sentence()
    assert said.startswith("Differential privacy with (epsilon, delta) = (0.75, 0), and 0.698-GDP, for one row")
    assert f"pure: {format_up(gdp_mu_of_pure(0.25))} by its pure epsilon of 0.25, pure: 0.6239 by its pure" in said
    assert "squares add up, and so do pure epsilons" in said
    assert "fixed" not in said
    ledger = ledger_of(("pure", 0.1), ("gdp", 0.1))
    fixed = ledger.committed.epsilon_if_fixed()
    assert fixed < ledger.committed.epsilon()
    said = ledger.sentence(if_fixed=True)
    assert ", from 0.1604-GDP, for one row" in said
    assert "If the number of runs, the kind and parameter of each and where it ends were fixed before the first" in said
    assert float(said.split("be): (epsilon, delta) = (")[1].split(",")[0]) >= fixed
    many = ledger_of(*[("pure", 0.01)] * 50)
    assert "50 of pure: 0.01254 by its pure epsilon of 0.01;" in many.sentence()
    assert "and 10 more" in ledger_of(*[("pure", 0.001 * k) for k in range(1, 31)]).sentence()


def test_users_of_pure_and_mixed_runs():
    ledger = Ledger(epsilon=8.0, delta=1e-6)
    ledger.open(learner="E", guarantee=plan(parameter=0.5, rows_per_user=2, user="id"))
    assert "column 'id') that are learnt: 1.233-GDP, (epsilon, delta) = (1, 0), by group privacy" in ledger.sentence()
    ledger.open(learner="G", guarantee=plan("gdp", 0.1, rows_per_user=2, user="id"))
    mu = math.hypot(gdp_mu_of_pure(1.0), 0.2)
    figure = float(ledger.sentence().split("that are learnt: ")[1].split("-GDP")[0])
    assert mu <= figure <= mu * 1.001


# -- runs that were fixed beforehand --


def exact_epsilon(mu, groups, delta):
    """By sums of binomial probabilities, in 40 digits: at the ratios of the pure runs, the Gaussian part."""
    with mp.workdps(40):
        losses = {mp.mpf(0): mp.mpf(1)}
        for epsilon, count in groups:
            e = mp.mpf(epsilon)
            p = 1 / (1 + mp.exp(-e))
            spread = {}
            for loss, chance in losses.items():
                for j in range(count + 1):
                    end = loss + (2 * j - count) * e
                    spread[end] = spread.get(end, 0) + chance * mp.binomial(count, j) * p**j * (1 - p) ** (count - j)
            losses = spread

        def at(epsilon):
            total = mp.mpf(0)
            for loss, chance in losses.items():
                rest = epsilon - loss
                if mu == 0.0:
                    total += chance * max(0, 1 - mp.exp(rest))
                else:
                    m = mp.mpf(mu)
                    total += chance * (mp.ncdf(m / 2 - rest / m) - mp.exp(rest) * mp.ncdf(-m / 2 - rest / m))
            return total

        low, high = mp.mpf(0), mp.mpf(gdp_epsilon(mu, delta)) + sum(mp.mpf(e) * n for e, n in groups)
        if at(low) <= delta:
            return 0.0
        for _ in range(45):
            middle = (low + high) / 2
            low, high = (low, middle) if at(middle) <= delta else (middle, high)
        return float(low)


CASES = [
    (0.5, [(0.3, 4)], 1e-6, 1e-4),
    (0.0, [(0.1, 20)], 1e-6, 1e-7),
    (0.0, [(0.1, 200)], 1e-8, 1e-7),
    (1.0, [(1.0, 1)], 1e-6, 1e-4),
    (0.2, [(0.05, 10), (0.7, 2)], 1e-5, 1e-3),
    (3.0, [(5.0, 1)], 1e-6, 1e-4),
    (0.01, [(2.0, 3)], 1e-9, 1e-3),
    (0.0, [(0.5, 3), (0.2, 5)], 1e-3, 1e-3),
    (0.1, [(30.0, 1)], 1e-6, 1e-6),
    (2.0, [(1e-5, 5)], 1e-6, 1e-6),
    (1.0, [(0.5, 2)], 0.5, 1e-2),
]


@pytest.mark.parametrize(("mu", "groups", "delta", "close"), CASES)
def test_runs_fixed_in_advance_have_the_exact_figure_rounded_up(mu, groups, delta, close):
    pytest.importorskip("dp_accounting")
    exact = exact_epsilon(mu, groups, delta)
    found = compose_fixed(mu, [epsilon for epsilon, count in groups for _ in range(count)], delta)
    assert exact <= found <= exact * (1 + close) + 1e-9


@settings(max_examples=8, deadline=None)
@given(
    st.sampled_from([0.0, 0.05, 0.4, 1.5]),
    st.lists(st.tuples(st.floats(1e-4, 3.0), st.integers(1, 4)), min_size=1, max_size=3, unique_by=lambda g: g[0]),
    st.sampled_from([1e-8, 1e-6, 1e-3, 0.1]),
)
def test_never_below_the_exact_figure(mu, groups, delta):
    pytest.importorskip("dp_accounting")
    found = compose_fixed(mu, [epsilon for epsilon, count in groups for _ in range(count)], delta)
    assert found >= exact_epsilon(mu, groups, delta)


def test_the_same_as_the_library_alone():
    """Its own discretisations of the two kinds, composed one by one on a fine grid."""
    pytest.importorskip("dp_accounting")
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    step = 2.0**-13
    whole = pld.from_gaussian_mechanism(1 / 0.5, value_discretization_interval=step)
    for epsilon in (0.25, 0.75, 0.75):
        whole = whole.compose(pld.from_privacy_parameters(common.DifferentialPrivacyParameters(epsilon, 0.0), step))
    assert compose_fixed(0.5, [0.75, 0.25, 0.75], 1e-6) == pytest.approx(whole.get_epsilon_for_delta(1e-6), rel=1e-3)


def test_one_kind_alone_has_its_closed_form(monkeypatch):
    for name in ("dp_accounting", "dp_accounting.pld", "dp_accounting.pld.privacy_loss_distribution"):
        monkeypatch.setitem(sys.modules, name, None)
    assert compose_fixed(0.3, [], 1e-6) == compose_fixed(0.3, [0.0], 1e-6) == gdp_epsilon(0.3, 1e-6)
    assert compose_fixed(0.0, [0.3], 1e-2) == pure_epsilon(0.3, 1e-2)
    assert compose_fixed(0.0, [], 1e-6) == 0.0
    assert compose_fixed(math.inf, [0.1], 0.1) == compose_fixed(0.1, [math.inf], 0.1) == math.inf
    ledger = ledger_of(("gdp", 0.1), ("gdp", 0.1))
    assert ledger.committed.epsilon_if_fixed() == ledger.committed.epsilon()
    with pytest.raises(StateError, match=r"needs dp-accounting: pip install 'privol\[accounting\]'"):
        compose_fixed(0.1, [0.1], 1e-6)


@pytest.mark.parametrize("mu", [0.05, 1.0, 7.0])
def test_no_gaussian_loss_is_left_out(mu):
    """Losses beyond the grid count as infinite: the mass beyond every point is at least the true one."""
    least, probabilities, beyond = mixed._gaussian(mu, mu / 40)
    assert 0.0 < beyond < 1e-20
    above = beyond + np.append(np.cumsum(probabilities[::-1])[::-1], 0.0)  # from each point on, and beyond all of them
    for k in (1, 100, 400, 700, len(probabilities) - 1, len(probabilities)):
        with mp.workdps(30):
            edge = (mp.mpf(least + k - 1) * mp.mpf(mu / 40) - mp.mpf(mu) ** 2 / 2) / mp.mpf(mu)
            true = mp.ncdf(-edge)
            assert true * (1 - mp.mpf(10) ** -11) <= above[k] <= true * (1 + mp.mpf(10) ** -9)


def test_what_transforms_may_round_away_is_charged(monkeypatch):
    """A divergence is within delta only if it is so after the rounding of all sums and transforms is added."""
    module = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    divergence, parts = 0.0, []

    class Fake:
        @staticmethod
        def create_from_rounded_probability(chances, beyond, step):
            parts.append(np.array(list(chances.values())))
            return Fake()

        def compose(self, other):
            return self

        def get_delta_for_epsilon(self, epsilon):
            return divergence

    monkeypatch.setattr(module, "PrivacyLossDistribution", Fake)
    delta = 1e-6
    runs = 0.5, [0.3] * 4 + [0.2]
    best = compose_fixed(*runs, delta)
    assert best == 0.0  # no divergence was found
    # a product of transforms: each has its own rounding error, relative and in the Euclidean norm, and errors add up
    points, charge, norm = len(parts[0]) + 1, 0.0, float(np.linalg.norm(parts[0]))
    for part in parts[1:]:
        points, own = points + len(part), float(np.linalg.norm(part))
        charge += math.sqrt(points) * 7 * 2.0**-53 * math.log2(2 * points) * (norm + own)
        norm = min(norm, own)
    assert len(parts) == 3
    assert 1e-13 < charge < 1e-8
    divergence = delta - charge
    assert compose_fixed(*runs, delta) > 0.0
    divergence = delta * (1.0 - 1e-9)
    assert compose_fixed(*runs, delta) > 0.0
    divergence = delta * (1.0 - 1.1e-9) - 3 * charge
    assert compose_fixed(*runs, delta) == 0.0


def test_a_delta_below_what_transforms_round_has_the_best_closed_form():
    pytest.importorskip("dp_accounting")
    found = compose_fixed(0.5, [0.3] * 4, 1e-14)
    assert found >= exact_epsilon(0.5, [(0.3, 4)], 1e-14)
    assert found <= gdp_epsilon(compose_gdp([0.5, *[gdp_mu_of_pure(0.3)] * 4]), 1e-14)


@pytest.mark.parametrize("low", [0.01, 1e-7])
def test_many_different_runs_are_rounded_up_to_few(low, monkeypatch):
    pytest.importorskip("dp_accounting")
    epsilons = np.random.default_rng(3).uniform(low, 0.1, 150).tolist()
    grouped = compose_fixed(0.3, epsilons, 1e-6)
    monkeypatch.setattr(mixed, "_GROUPS", 1000)
    each = compose_fixed(0.3, epsilons, 1e-6)
    assert each <= grouped <= 1.03 * each
    assert grouped < 0.9 * gdp_epsilon(compose_gdp([0.3, *map(gdp_mu_of_pure, epsilons)]), 1e-6)


def test_extreme_runs_fixed_in_advance():
    pytest.importorskip("dp_accounting")
    assert compose_fixed(0.3, [700.0] * 5, 1e-6) <= 3500.0 + gdp_epsilon(0.3, 1e-6) + 1e-9
    assert compose_fixed(0.3, [1e-300] * 3, 1e-6) == pytest.approx(gdp_epsilon(0.3, 1e-6))
    assert compose_fixed(0.0, [1e308] * 2, 1e-6) == math.inf
    for wrong in ((-1.0, [0.1], 0.1), (0.1, [-0.1], 0.1), (0.1, [0.1], 0.0), (0.1, [0.1], 1.0)):
        with pytest.raises(InvalidParameter):
            compose_fixed(*wrong)
    # a run that spent a part of its square counts by it, like a Gaussian one
    ledger = Ledger()
    released(account := ledger.open(learner="E", guarantee=plan(parameter=0.4)), square=1e-4)
    assert account.entry().pure_epsilon == 0.4
    assert ledger.spent.parts == (pytest.approx(0.01), ())


# -- threads --


def test_the_odometer_never_runs_backwards():
    """Runs of both kinds begin, spend and end in threads; no reader sees less than another reader saw before."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    ledger, stop, wrong = Ledger(), threading.Event(), []
    highest, lock = [0.0, 0.0, 0.0], threading.Lock()

    def spend(kind):
        for _ in range(15):
            account = ledger.open(learner=kind, guarantee=plan(kind, 0.1))
            now = [0, 0, 0.0]
            account.attach(lambda now=now: tuple(now))
            for k in range(1, 6):
                now[:] = [k, k, account.reserved_mu_squared * (k / 5 if kind == "gdp" else 1.0)]
            account.close()

    def read():
        while not stop.is_set():
            with lock:
                before = list(highest)
            spent = ledger.spent
            found = [spent.mu, spent.rho, spent.epsilon(1e-6)]
            if any(new < old for new, old in zip(found, before, strict=True)):
                wrong.append((before, found))
            with lock:
                highest[:] = map(max, highest, found)

    readers = [threading.Thread(target=read) for _ in range(3)]
    spenders = [threading.Thread(target=spend, args=(kind,)) for kind in ("pure", "gdp", "pure")]
    try:
        for thread in [*readers, *spenders]:
            thread.start()
        for thread in spenders:
            thread.join()
    finally:
        stop.set()
        for thread in readers:
            thread.join()
        sys.setswitchinterval(interval)
    assert not wrong
    assert ledger.spent.mu == pytest.approx(math.sqrt(15 * 0.01 + 30 * gdp_mu_of_pure(0.1) ** 2))


# -- journals --


def test_pure_runs_outlive_their_process(tmp_path):
    path = tmp_path / "budget.jsonl"
    ledger = Ledger(epsilon=1.0, delta=1e-6, journal=path)
    accounts = [ledger.open(learner="E", guarantee=plan(parameter=0.25)) for _ in range(4)]
    released(accounts[0])
    released(accounts[1], releases=0, square=0.0)
    accounts[2].attach(lambda: (3, 1, 0.0))
    accounts[2].commit()
    figures = ledger.committed, ledger.spent, ledger.remaining, ledger.remaining_pure
    assert (figures[0].pure_epsilon, figures[1].pure_epsilon) == (0.75, 0.5)
    entries = ledger.entries()
    ledger.close()
    again = Ledger(epsilon=1.0, delta=1e-6, journal=path)
    assert (again.committed, again.remaining, again.remaining_pure) == (figures[0], *figures[2:])
    assert again.spent.pure_epsilon == 0.75  # nobody knows any more that the fourth run spent nothing
    assert again.entries()[:3] == entries[:3]
    again.open(learner="E", guarantee=plan(parameter=0.25))
    with pytest.raises(BudgetExceeded):
        again.open(learner="E", guarantee=plan(parameter=0.25))
    again.close()
    mine = Ledger()
    mine.include(Ledger.read(path))
    assert mine.committed.pure_epsilon == 1.0
    assert json.loads(json.dumps(mine.to_records(), allow_nan=False))[0]["pure_epsilon"] == 0.25


OLD = """\
{"number": 1, "format": "privol.ledger", "version": 1, "kind": "ledger", "adjacency": "replace", "epsilon": 1.0, "delta": 1e-06, "sha256": "b3a72c51e364d32b3efebd0a5d9cef81ac540434f86fe101a179df7ccb9829be"}
{"number": 2, "kind": "open", "plan_id": "f81cc67a3fbb470da474727e3be43353", "learner": "A", "reserved_mu_squared": 0.010000000000000002, "guarantee": {"format": "privol.guarantee", "version": 1, "kind": "gdp", "parameter": 0.1, "adjacency": "replace", "unit": "row", "horizon": 10, "releases": 1, "delta": 1e-06, "claim": null, "conditions": [], "arithmetic": "a", "bit_source": "b", "private": true, "released": "models", "rows_per_user": null, "user": null}, "rows": 0, "releases": 0, "mu_squared": 0.0, "sha256": "fae3ff80d0508ab9853c26ce0d2ed0ff57877ed99c8c368df9b8e8fc70da261e"}
{"number": 3, "kind": "spent", "plan_id": "f81cc67a3fbb470da474727e3be43353", "rows": 5, "releases": 1, "mu_squared": 0.004000000004, "facts": {}, "sha256": "931ba4b6b1d2dcc1f118221c2933861a667efe41115d0f7ccbd029f99f5497c4"}
{"number": 4, "kind": "closed", "plan_id": "f81cc67a3fbb470da474727e3be43353", "rows": 5, "releases": 1, "mu_squared": 0.004000000004, "sha256": "eb273437c73198b795b2227c237e0d6addf63777a5c3f38810b2258af85f0e3b"}
"""  # noqa: E501


def test_a_journal_older_than_pure_runs_is_read(tmp_path):
    path = tmp_path / "budget.jsonl"
    path.write_text(OLD)
    ledger = Ledger(epsilon=1.0, delta=1e-6, journal=path)
    assert ledger.spent.mu == pytest.approx(math.sqrt(0.004))
    ledger.open(learner="E", guarantee=plan(parameter=0.1))
    ledger.close()
    assert [a.guarantee.kind for a in Ledger.read(path).accounts] == ["gdp", "pure"]
    # an unknown kind is refused rather than mistaken for another
    from privol.ledger._journal import read_journal

    records = read_journal(path).records
    records[1]["guarantee"]["kind"] = "renyi"
    with pytest.raises(StateError, match="kind must be one of"):
        Ledger()._replay(path, records)
