"""What a secret order of users adds to their reports, computed again: by exact sums, and against privol's figures."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import comb

import numpy as np
import pytest
from forged import caught, change_run
from mpmath import mp, mpf

from privol import BANCO, LDPSGD
from privol.guarantees import gdp_delta, shuffled_delta, shuffled_epsilon, shuffled_epsilon_of_gdp
from privol.state import save_run
from privol.verifying import verdict, verify
from privol.verifying.mechanisms import _told_in_crowd, delta_in_order

DELTA = mpf("1e-6")


def binomial(n, k, p):
    return comb(n, k) * p**k * (1 - p) ** (n - k) if 0 <= k <= n else Fraction(0)


def exact(users, epsilon, odds, tilt):
    """The divergence of section 2 of shuffling.md, where e, exp(epsilon) and the odds of clones are rational."""
    clone, likelier, q = 1 / odds, tilt / (1 + tilt), odds / (1 + odds)
    total = Fraction(0)
    for clones in range(users):
        chances = [binomial(clones, a, likelier) for a in range(-1, clones + 2)]
        ones = [q * b + (1 - q) * a for b, a in pairwise(chances)]
        others = [(1 - q) * b + q * a for b, a in pairwise(chances)]
        apart = sum(max(p - epsilon * r, Fraction(0)) for p, r in zip(ones, others, strict=True))
        total += binomial(users - 1, clones, clone) * apart
    return total


@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize("users", [1, 2, 7, 40])
@pytest.mark.parametrize(("odds", "limit"), [(3, Fraction(6, 5)), (8, 2), (8, 1), (2, Fraction(199, 100))])
def test_pure_reports_cost_what_exact_sums_say(users, odds, limit, both):
    odds, limit = Fraction(odds), Fraction(limit)
    tilts = [Fraction(1)] if both else [odds, 1 / odds]
    least = max(exact(users, limit, odds, tilt) for tilt in tilts)
    found = delta_in_order(users, mp.log(mpf(limit.numerator) / limit.denominator), DELTA, mp.log(odds), True, both)
    assert least <= Fraction(*map(int, (found * 2**300, mpf(2) ** 300))) <= least * Fraction(1_000_001, 1_000_000)


@pytest.mark.parametrize("step", [1, 10, 100])
def test_blocks_of_numbers_of_clones_only_add(step):
    """Where the divergence falls in the number of clones, its first value stands for a block."""
    odds, limit, users = Fraction(2), Fraction(6, 5), 120
    least = exact(users, limit, odds, Fraction(1))
    found = _told_in_crowd(users - 1, mpf(1) / 2, mp.log(mpf(6) / 5), mp.log(2), mpf(1), step)
    assert least <= Fraction(*map(int, (found * 2**300, mpf(2) ** 300))) <= least * (1 + Fraction(step, 20))


@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
@pytest.mark.parametrize("users", [30, 3000])
@pytest.mark.parametrize("local", [0.3, 2.0])
def test_figures_of_pure_reports_are_reached_and_no_less(local, users, adjacency):
    epsilon = shuffled_epsilon(local, users, 1e-6, adjacency=adjacency)

    def told(factor):
        return delta_in_order(users, mpf(epsilon) * factor, DELTA, mpf(local), True, adjacency == "replace")

    assert told(mpf("1.0001")) <= DELTA < told(mpf("0.999"))
    assert float(told(1)) == pytest.approx(shuffled_delta(local, users, epsilon, adjacency=adjacency), rel=1e-3)


@pytest.mark.parametrize(("mu", "users", "adjacency"), [(0.1, 300, "zero_out"), (1.0, 1_000_000, "replace")])
def test_figures_of_gaussian_reports_are_reached_and_not_a_tenth_less(mu, users, adjacency):
    epsilon = shuffled_epsilon_of_gdp(mu, users, 1e-6, adjacency=adjacency)
    assert gdp_delta(epsilon, mu) > 2e-6  # the order hides something

    def told(factor):
        return delta_in_order(users, mpf(epsilon) * factor, DELTA, mpf(mu), False, adjacency == "replace")

    assert told(mpf("1.0001")) <= DELTA < told(mpf("0.9"))
    assert told(1) > DELTA * mpf("0.985")  # nothing of what privol charges is left out


@pytest.fixture(scope="module", params=["LDPSGD", "BANCO"])
def run(request, tmp_path_factory):
    """A run of Gaussian reports, and one of pure ones."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, size=(2000, 3))
    folder = tmp_path_factory.mktemp("run") / request.param
    learner = LDPSGD(epsilon=1.0) if request.param == "LDPSGD" else BANCO(epsilon=1.0)
    save_run(learner.fit(X, (X[:, 0] > 0).astype(int)), folder)
    for name in ("model.json", "model.npz"):
        (folder / name).unlink(missing_ok=True)
    assert verdict(verify(folder)) == "holds"
    return folder


SMALLER = {
    "epsilon": lambda epsilon, delta: (f"({float(epsilon) * 0.9:.6g}, {delta})", 2000),
    "delta": lambda epsilon, delta: (f"({epsilon}, {float(delta) * 0.8:.6g})", 2000),
    "nothing": lambda epsilon, delta: ("(0, 0)", 2000),
    "more users": lambda epsilon, delta: (f"({epsilon}, {delta})", 4000),
}


@pytest.mark.parametrize("error", SMALLER)
def test_a_secret_order_that_is_said_to_hide_more_is_caught(run, tmp_path, error):
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in run.glob("[a-z]*"):
        (copy / path.name).write_bytes(path.read_bytes())

    def change(record):
        before, _, behind = record["sentence"].partition("\nIf, before the first report, a trusted shuffler puts 2000 ")
        start, figures = behind.split(" are (", 1)
        pair, end = figures.split(")", 1)
        other, users = SMALLER[error](*pair.split(", "))
        order = f"\nIf, before the first report, a trusted shuffler puts {users} "
        record["sentence"] = f"{before}{order}{start} are {other}{end}"

    change_run(copy, change)
    assert set(caught(copy)) == {"sentence"}
