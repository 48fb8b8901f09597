"""The banded square root: limits, norms from all coefficients, the default bandwidth, the charge."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.signal import lfilter

from privol.calibration import Budget, calibrate_sums, make_epochs
from privol.calibration._sums import _recursion
from privol.errors import InvalidParameter
from privol.factorizations import (
    MOST_BANDWIDTH,
    Banded,
    Design,
    Independent,
    SquareRoot,
    factorization,
    group_squares,
    user_norm,
)
from privol.guarantees import gdp_delta
from privol.prefix import PrefixSum


def errors(f):
    return [f.column_norm, f.mean_error(), f.max_error(), *(f.row_norm(t) for t in (1, f.steps // 2 + 1, f.steps))]


@pytest.mark.parametrize("words", [{}, {"decay": 0.98}, {"window": 30}, {"decay": 0.9, "window": 7}], ids=str)
def test_bandwidths_1_and_n_give_independent_and_square_root_designs(words):
    """One coefficient: independent noise for every step. All of them, or more: the square root."""
    n = 100
    alone = Independent(n, **words)
    if "window" not in words:  # with a window, the decay is that of C, which is the identity
        np.testing.assert_allclose(errors(Banded(n, 1, **words)), errors(alone), rtol=1e-11)
    for whole in (Banded(n, n, **words), Banded(n, MOST_BANDWIDTH, **words)):
        assert whole.bandwidth == n
        np.testing.assert_allclose(errors(whole), errors(SquareRoot(n, **words)), rtol=1e-11)
        for rows, separation, leaf in ((5, 7, 1), (3, 2, 6), (4, 10, 4)):
            np.testing.assert_allclose(
                group_squares(whole, rows, separation=separation, leaf=leaf),
                group_squares(SquareRoot(n, **words), rows, separation=separation, leaf=leaf),
                rtol=1e-11,
            )
    assert Banded(n, 1).memory == 0
    assert Banded(n, 9, window=30).memory == 16 + 30


@pytest.mark.parametrize(("n", "band"), [(3000, 2), (3000, 10), (3000, 93), (3000, 94), (3000, 2000), (9000, 256)])
@pytest.mark.parametrize("words", [{}, {"decay": 0.999}, {"window": 100}], ids=str)
def test_norms_of_long_runs_are_those_of_all_coefficients(n, band, words):
    """Also where only the first coefficients of B are computed, and the others are at their limit."""
    f = Banded(n, band, **words)
    impulse = np.eye(1, n)[0]
    if "window" in words:
        sums = lfilter([1.0, *np.zeros(words["window"] - 1), -1.0], [1.0, -1.0], impulse)
    else:
        sums = words.get("decay", 1.0) ** np.arange(n)
    squares = lfilter([1.0], f.coefficients(), sums) ** 2
    for t in (1, 2, band, min(32 * band, n), n // 2, n - 1, n):
        assert f.row_norm(t) == pytest.approx(math.sqrt(squares[:t].sum()), rel=1e-10)
    mean = math.sqrt(float(squares @ (1.0 - np.arange(n) / n)))
    assert f.mean_error() / f.column_norm == pytest.approx(mean, rel=1e-10)


@pytest.mark.parametrize("band", [*range(2, 20), 100])
def test_coefficients_of_the_decoder_settle(band):
    """The polynomial of C has no zero so close to the unit circle that 32 bandwidths would not suffice."""
    zeros = np.roots(Banded(1000, band).coefficients()[::-1])
    assert np.abs(zeros).min() ** band > 4.0 * (1 - 1e-9)


@pytest.mark.parametrize(("band", "decay"), [(1, 1.0), (2, 1.0), (1000, 1.0), (MOST_BANDWIDTH, 1.0), (1000, 0.99)])
def test_coefficients_do_not_increase_and_norms_are_rounded_up(band, decay):
    """For exactly the doubles that the kernel has, rows of a user included."""
    f = Banded(3 * band, band, decay=decay)
    c = f.coefficients()
    assert c[0] == 1.0
    assert np.all(np.diff(c) <= 0.0)
    assert np.all(c >= 0.0)
    exact = sum(Fraction(x) ** 2 for x in c.tolist())
    assert exact <= Fraction(f.column_norm) ** 2 <= exact * (1 + Fraction(1, 10**11))
    lag = band // 3
    pairs = zip(c.tolist(), c[lag:].tolist(), strict=False)
    both = 2 * exact + 2 * sum(Fraction(a) * Fraction(b) for a, b in pairs)
    found = Fraction(user_norm(f, 2, separation=max(lag, 1))) ** 2
    assert (both if lag else 2 * exact) <= found * (1 + Fraction(1, 10**16)) <= both * (1 + Fraction(1, 10**10))


def test_rows_a_bandwidth_apart_cost_the_root_of_their_number():
    """Closer rows do not, nor do rows a bandwidth apart that fall within fewer steps."""
    n = 4096
    for band, rows, leaf in ((64, 32, 1), (1024, 4, 1), (16, 10, 5)):
        f = Banded(n, band)
        apart = user_norm(f, rows, separation=band * leaf, leaf=leaf)
        assert apart == pytest.approx(math.sqrt(rows) * f.column_norm, rel=1e-10)
        assert user_norm(f, rows, separation=(band - 1) * leaf, leaf=leaf) > apart * (1 + 1e-6)
        assert user_norm(f, rows, separation=band, leaf=2) > apart
    # the square root, in contrast, costs more: 4 and 32 rows spread over all steps
    assert user_norm(SquareRoot(n), 4, separation=1024) > 2.2 * SquareRoot(n).column_norm


def test_the_default_bandwidth_has_the_least_error():
    """The smallest error of all candidates; the steps between rows of a user are among them."""
    for n, rows, separation, leaf in ((50, 1, 1, 1), (3000, 5, 300, 1), (3000, 5, 300, 7), (3000, 100, 20, 1)):
        for objective in ("max", "mean"):
            words = {"objective": objective, "rows_per_user": rows, "user_separation": separation, "leaf": leaf}
            found = factorization("banded", n, **words)
            assert isinstance(found, Banded)

            def error(f, rows=rows, separation=separation, leaf=leaf, objective=objective):
                cost = user_norm(f, rows, separation=separation, leaf=leaf) / f.column_norm
                return cost * (f.max_error() if objective == "max" else f.mean_error())

            others = (1, 4, 16, 64, 256, 1024, 4096, separation // leaf)
            assert error(found) == pytest.approx(min(error(Banded(n, band)) for band in others), rel=1e-9)
    assert factorization("banded", 10**6) == Banded(10**6, 4096)
    assert factorization("banded", 3000, rows_per_user=8, user_separation=375, objective="mean").bandwidth == 375
    assert factorization("banded", 10, bandwidth=3) == Banded(10, 3)
    assert factorization("banded", 10, bandwidth=3, discount=0.5) == Banded(10, 3, decay=0.5)


@pytest.mark.parametrize(("given", "words"), [(0, "bandwidth"), (MOST_BANDWIDTH + 1, "65536"), (2.5, "bandwidth")])
def test_invalid_bandwidths_are_refused(given, words):
    with pytest.raises(InvalidParameter, match=words):
        factorization("banded", 10**6, bandwidth=given)
    with pytest.raises(InvalidParameter, match="found bandwidth=7 with design='sqrt'"):
        factorization("sqrt", 100, bandwidth=7)


def test_the_memory_of_a_band_is_limited():
    with pytest.raises(InvalidParameter, match=r"bandwidth \* dim is at most 67,108,864 for it, found 4,096 \* 16,385"):
        calibrate_sums(factorization=Banded(10**6, 4096), dim=16385, bound=1.0, epsilon=1.0, delta=1e-6)
    assert calibrate_sums(factorization=Banded(10**6, 4096), dim=16384, bound=1.0, epsilon=1.0, delta=1e-6).sigma > 0.0


@pytest.mark.parametrize(("rows", "separation"), [(1, 1), (4, 250), (4, 30), (3, 1)])
def test_the_budget_holds_and_two_thirds_of_the_noise_would_break_it(rows, separation):
    n, epsilon, delta = 1000, 1.0, 1e-6
    sums = PrefixSum(dim=2, horizon=n, design="banded", bandwidth=100, epsilon=epsilon, delta=delta,
                     rows_per_user=rows, user_separation=separation)  # fmt: skip
    found, c = sums._epochs.sums[0], np.append(Banded(n, 100).coefficients(), np.zeros(900))
    moved = sum(np.append(np.zeros(j * separation), c)[:n] for j in range(rows))
    change = 2.0 * float(np.linalg.norm(moved))
    assert gdp_delta(epsilon, change / found.sigma) <= delta
    assert gdp_delta(epsilon, change / found.sigma * 1.001) > delta
    assert gdp_delta(epsilon, change / (found.sigma * 2 / 3)) > 10 * delta


@pytest.mark.parametrize("band", [2, 50, 1000])
def test_each_step_of_a_band_rounds_by_less_than_charged(band):
    """In the kernel's order of summation, against exact fractions; the noise covers the charge for all steps."""
    f, worst = Banded(4 * band, band), 0.0
    c = f.coefficients().tolist()
    rng = np.random.default_rng(1)
    for _ in range(10):
        rows = rng.uniform(0.5, 1.0, band).tolist()
        x = 0.0
        for each, w in zip(c, rows, strict=True):
            x += each * w
        exact = sum(Fraction(each) * Fraction(w) for each, w in zip(c, rows, strict=True))
        worst = max(worst, abs(float(Fraction(x) - exact)))
    error = _recursion(f)[1]
    assert 0.0 < worst <= error
    found = calibrate_sums(factorization=f, dim=1, bound=1.0, epsilon=1.0, delta=1e-6, leaf=1000)
    plain = f.column_norm * found.sensitivity
    assert found.charged >= plain + 2.0 * math.sqrt(f.steps) * 1000 * error
    assert _recursion(Banded(9, 1))[1] == 0.0


@pytest.mark.parametrize(("leaf", "band"), [(1, MOST_BANDWIDTH), (100, 4096), (1 << 20, 16)])
def test_epochs_double_while_the_charge_for_rounding_is_small(leaf, band):
    design = Design(name="banded", leaf=leaf, bandwidth=band)
    epochs = make_epochs("double", Budget(epsilon=1.0, delta=1e-15), rows=1024 * leaf, design=design, dim=3, bound=1.0,
                         adjacency="zero_out")  # fmt: skip
    assert epochs.rows[-1] // leaf == max(1024, (1 << 48) // (1 << (leaf**2 - 1).bit_length()))
    for found in epochs.sums:
        plain = found.factorization.column_norm * found.sensitivity
        assert plain < found.charged < plain * 1.1
