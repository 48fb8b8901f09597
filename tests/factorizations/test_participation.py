"""The effect of several rows of a user: against all possible patterns, closed forms, and the requirements."""

from __future__ import annotations

import math

import numpy as np
import pytest
from participation_tools import strategy, worst_squares

from privol.errors import InvalidParameter
from privol.factorizations import (
    BLT,
    DESIGNS,
    MOST_TOGETHER,
    Banded,
    SquareRoot,
    _intervals,
    error_bound,
    factorization,
    group_squares,
    optimise_blt,
    rows_that_fit,
    user_norm,
)
from privol.factorizations._intervals import squares_in_intervals

# steps, leaf, rows of a user, separations
SMALL = [
    (1, 1, 1, (1, 2)), (5, 1, 4, (1, 2, 3, 5)), (8, 1, 4, (1, 2, 3, 4)), (11, 1, 3, (1, 2, 3, 4, 5, 8)),
    (13, 1, 3, (2, 4, 6)), (6, 2, 4, (1, 2, 3, 4)), (5, 4, 4, (1, 2, 3, 4, 8)), (7, 3, 3, (1, 2, 3, 5, 6)),
    (8, 4, 5, (6, 7)), (5, 7, 4, (5, 6)), (9, 3, 5, (4, 5)), (4, 6, 6, (4,)), (21, 1, 5, (3,)), (23, 1, 4, (6,)),
]  # fmt: skip
#: By how much the bound may exceed the truth, for Toeplitz designs where rows and steps have no common measure.
LOOSE = 1.004


def is_exact(design: str, separation: int, leaf: int) -> bool:
    return design in ("independent", "tree", "honaker", "smooth") or separation % leaf == 0 or leaf % separation == 0


@pytest.mark.parametrize("design", [*DESIGNS, 1, 2, 5])  # numbers: bandwidths of banded designs
def test_no_pattern_moves_more_and_the_worst_attains_the_figure(design):
    """Never below the truth; equal to it where that is proved; two thirds of it is always refuted."""
    for steps, leaf, rows, separations in SMALL:
        made = Banded(steps, design) if isinstance(design, int) else factorization(design, steps)
        c = strategy(made)
        assert np.max(np.linalg.norm(c, axis=0)) == pytest.approx(made.column_norm, rel=1e-9)
        for separation in separations:
            found = group_squares(made, rows, separation=separation, leaf=leaf)
            most = min(rows, len(range(0, steps * leaf, separation)))
            truth, _ = worst_squares(c, most, separation, leaf)
            truth = np.maximum.accumulate(truth)
            assert len(found) == most + 1
            assert found[0] == 0.0
            assert np.all(found[1:] >= truth[1:])
            loose = 1.0 + 1e-8 if is_exact(design, separation, leaf) else LOOSE
            assert np.all(found[1:] <= loose**2 * truth[1:]), (steps, leaf, separation)
            assert np.all(truth[1:] > (2.0 / 3.0) ** 2 * found[1:])


@pytest.mark.parametrize("design", ["tree", "honaker", "smooth"])
def test_counting_free_rows_in_units_is_conservative(design):
    """What is too expensive to search exactly is bounded from above, and finer units give better bounds."""
    for steps, leaf, rows, separation in ((40, 1, 4, 7), (90, 1, 5, 13), (30, 6, 5, 35), (25, 10, 9, 7)):
        made = factorization(design, steps)
        exact = squares_in_intervals(made, rows, separation, leaf)
        c = strategy(made)
        for start in range(4):  # some positions, among them the first
            at = [(start + separation * j) // leaf for j in range(rows)]
            at = [step for step in at if step < steps]
            assert np.sum(c[:, at].sum(axis=1) ** 2) <= exact[len(at)] + 1e-9
        last = math.inf
        for finest in (1, 3, 6):
            blocks = _intervals._Blocks(rows, separation, leaf, _intervals._unit(separation, leaf, finest, words=True))
            found, _ = _intervals._look(made, blocks)
            assert np.all(found >= exact), (steps, finest)
            assert found[-1] <= last
            last = found[-1]
        assert np.sqrt(last / exact[-1]) < 1.06


@pytest.mark.parametrize("design", ["sqrt", "blt"])
def test_rows_between_steps_are_bounded_when_they_are_many(design):
    """Beyond the rows whose distances are distinguished: at least the effect of any pattern, and close to the best."""
    rng = np.random.default_rng(0)
    for steps, leaf, separation in ((60, 4, 7), (60, 5, 3), (60, 7, 12)):
        made = factorization(design, steps)
        rows = min(30, rows_that_fit(steps, separation, leaf))
        gram = strategy(made).T @ strategy(made)
        bound, best = group_squares(made, rows, separation=separation, leaf=leaf)[-1], 0.0
        for _ in range(300):
            gaps = separation + (rng.random(rows) < 0.1) * rng.integers(0, leaf, rows)
            at = np.cumsum(gaps) - gaps[0]
            at = at[at < steps * leaf] // leaf
            best = max(best, gram[np.ix_(at, at)].sum())
        assert best <= bound <= 1.02**2 * best


@pytest.mark.parametrize("options", [{"discount": 0.9}, {"window": 4}], ids=str)
@pytest.mark.parametrize("design", ["sqrt", "blt", "banded", "independent"])
def test_sums_that_forget_have_their_own_matrix(design, options):
    made = factorization(design, 12, **options)
    for separation, leaf in ((1, 1), (3, 1), (2, 2), (1, 3)):
        truth, _ = worst_squares(strategy(made), 3, separation, leaf)
        np.testing.assert_allclose(group_squares(made, 3, separation=separation, leaf=leaf), truth, rtol=1e-8)


def test_equal_directions_are_the_worst():
    """For unit vectors in any admissible positions, and the best ones against opposite signs."""
    rng = np.random.default_rng(0)
    for design in DESIGNS:
        made = factorization(design, 12)
        c, bound = strategy(made), user_norm(made, 3, separation=2)
        _, places = worst_squares(c, 3, 2, 1)
        for _ in range(200):
            moved = rng.normal(size=(3, 2))
            moved /= np.linalg.norm(moved, axis=1)[:, None]
            start = rng.integers(0, 4)
            steps = [start, start + rng.integers(2, 4), start + 7]
            assert np.linalg.norm(c[:, steps] @ moved) <= bound
        worst = c[:, list(places[3])]
        apart = np.linalg.norm(worst @ [1.0, -1.0, 1.0])
        assert apart < np.linalg.norm(worst @ [1.0, 1.0, 1.0]) or design == "independent"


def test_required_figures_are_met():
    """The square root at 65,536 steps, rows spread evenly; 13 times the noise for 32 rows, 2.4 times for 4."""
    n = 65536
    made = SquareRoot(n)
    for rows, factor in ((4, 2.31), (10, 4.60), (32, 12.76)):
        found = user_norm(made, rows, separation=n // rows) / made.column_norm
        assert found == pytest.approx(factor, abs=0.005)
        c, moved = made.coefficients(), np.zeros(n)
        for j in range(rows):
            moved[j * (n // rows) :] += c[: n - j * (n // rows)]
        assert np.linalg.norm(moved) <= user_norm(made, rows, separation=n // rows)
        assert np.linalg.norm(moved) == pytest.approx(user_norm(made, rows, separation=n // rows), rel=1e-7)
    blt = factorization("blt", n)
    assert user_norm(blt, 32, separation=n // 32) <= 13.0 * blt.column_norm
    assert user_norm(blt, 4, separation=n // 4) <= 2.4 * blt.column_norm


@pytest.mark.parametrize("design", DESIGNS)
def test_a_million_steps_take_no_time(design):
    """More rows, a smaller distance and more steps never cost less; 10^6 steps and more are feasible."""
    made = factorization(design, 10**6)
    near, far = (group_squares(made, 100, separation=b) for b in (1, 10_000))
    assert np.all(np.diff(near) > 0.0)
    assert np.all(near >= far)
    assert near[1] == pytest.approx(made.column_norm**2, rel=1e-6)
    assert np.all(near <= np.arange(101) ** 2 * made.column_norm**2 * (1 + 1e-6))
    assert user_norm(made, 10**6, separation=1) >= user_norm(made, MOST_TOGETHER, separation=1)
    # a second row does not fit
    assert user_norm(made, 5, separation=10**6) == pytest.approx(made.column_norm, rel=1e-6)
    if design not in ("sqrt",):
        assert user_norm(factorization(design, 2**30), 3, separation=2**20) > made.column_norm


def test_large_groups_of_rows_are_split():
    made = factorization("blt", 10**5)
    whole, rest = (user_norm(made, k, separation=10) for k in (MOST_TOGETHER, 100))
    assert user_norm(made, 2 * MOST_TOGETHER + 100, separation=10) == pytest.approx(2 * whole + rest)
    full = strategy(factorization("blt", 3000))[:, ::2].sum(axis=1)
    assert np.linalg.norm(full) <= user_norm(factorization("blt", 3000), 1500, separation=2)


def test_a_blt_is_chosen_by_the_rows_that_it_covers():
    """For distant rows almost the same as for one row, for close ones one that forgets faster; never a worse one."""
    n = 65536
    one = factorization("blt", n)

    def error(made, rows, separation):
        return user_norm(made, rows, separation=separation) * made.row_norm(n)

    for rows, separation, gain in ((4, n // 4, 0.98), (32, n // 32, 0.81), (100, 655, 0.73)):
        made = factorization("blt", n, rows_per_user=rows, user_separation=separation)
        assert error(made, rows, separation) <= gain * error(one, rows, separation)
        assert error(made, rows, separation) >= error_bound(n)
    assert factorization("blt", n, rows_per_user=1, user_separation=5) == one
    assert factorization("blt", 64, discount=0.9, rows_per_user=3).column_norm < math.inf


def test_a_blt_is_optimised_for_the_rows_that_it_covers():
    """Never worse than the choice from the table, and better for rows that may be close; unchanged for one row."""
    n, rows, separation = 4096, 16, 10

    def error(made):
        return user_norm(made, rows, separation=separation) * made.row_norm(n)

    best = optimise_blt(n, 2, rows_per_user=rows, user_separation=separation)
    chosen = factorization("blt", n, buffers=2, rows_per_user=rows, user_separation=separation)
    assert error(best) <= 0.97 * error(chosen)
    assert error(chosen) <= error(factorization("blt", n, buffers=2))
    nearby = [
        BLT(n, tuple(t * (1 - 1e-3) for t in best.theta), best.omega),
        BLT(n, best.theta, tuple(0.99 * w for w in best.omega)),
    ]
    assert all(error(best) <= error(other) * (1 + 1e-9) for other in nearby)
    assert optimise_blt(64, 2, rows_per_user=1, user_separation=5) == optimise_blt(64, 2)
    for words in ({"rows_per_user": 0}, {"rows_per_user": 1025}, {"user_separation": 0}):
        with pytest.raises(InvalidParameter):
            optimise_blt(64, 1, **words)


def test_what_is_not_allowed_is_refused():
    made = factorization("tree", 8)
    for rows, separation, leaf in ((0, 1, 1), (MOST_TOGETHER + 1, 1, 1), (2, 0, 1), (2, 1, 0), (2.0, 1, 1)):
        with pytest.raises(InvalidParameter):
            group_squares(made, rows, separation=separation, leaf=leaf)
    with pytest.raises(InvalidParameter, match="rows"):
        user_norm(made, 1 << 31)
