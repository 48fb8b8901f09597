"""The magnitude and the potential of coin betting against precomputed tables with at least 34 digits.

The tables cover every case of the kernel and the limits of doubles; the number of nodes has a bound for all arguments.
"""

from __future__ import annotations

import csv
import math
import re

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial.legendre import leggauss
from places import ROOT

from privol._core.coin import at_every_level, log_magnitude, log_potential, magnitude
from privol.errors import InvalidParameter

pytestmark = pytest.mark.slow

TABLES = ROOT / "tests" / "support"
NODES = ROOT / "src" / "privol" / "_core" / "c" / "betting" / "magnitude_nodes.inc.h"
LARGEST = math.log(1.7976931348623157e308)
LEAST = math.log(2.0**-1022)
TOLERANCE = 1e-13


@pytest.fixture(scope="module")
def table():
    """The points of tools/magnitude_table.py: (x, y, a), log |m| and log psi with 23 digits."""
    with np.load(TABLES / "magnitude_reference.npz") as file, mp.workdps(34):
        points = file["x"], file["y"], file["a"]
        logs = [
            [mp.mpf(float(high)) + float(low) for high, low in zip(file[name], file[f"{name}_rest"], strict=True)]
            for name in ("log_m", "log_psi")
        ]
    assert len(points[0]) > 4000
    return points, *logs


def relative(value: float, log: mp.mpf) -> float:
    """Relative error of |m| for normal numbers; otherwise whether it has the required value."""
    if log == mp.ninf:
        return 0.0 if value == 0 else math.inf
    if log > LARGEST + 1e-9:
        return 0.0 if math.isinf(value) else math.inf
    exact = mp.exp(log)
    if log < LEAST:  # units of the last subnormal place
        return 0.0 if abs(abs(value) - exact) <= 2 * mp.mpf(2) ** -1074 else math.inf
    if abs(log - LARGEST) < 1e-9:
        return 0.0
    return float(abs(abs(mp.mpf(value)) / exact - 1))


def absolute(value: float, log: mp.mpf) -> float:
    if mp.isinf(log) or abs(log) > 1.7e308:
        return 0.0 if value == float(log) or abs(value / 1.7976931348623157e308) >= 0.9 else math.inf
    return float(abs(value - log) / max(1, abs(log)))


def test_the_table(table):
    (x, y, a), log_m, log_psi = table
    with mp.workdps(34):
        m = [relative(value, log) for value, log in zip(magnitude(x, y, a), log_m, strict=True)]
        of_m = [absolute(value, log) for value, log in zip(log_magnitude(x, y, a), log_m, strict=True)]
        of_psi = [absolute(value, log) for value, log in zip(log_potential(x, y, a), log_psi, strict=True)]
    for found in (m, of_m, of_psi):
        worst = int(np.argmax(found))
        assert found[worst] <= TOLERANCE, (x[worst], y[worst], a[worst], found[worst])
    # the accuracy attained: a growing error shows here long before the stated bound is exceeded
    assert max(*m, *of_m, *of_psi) < 1e-14
    np.testing.assert_array_equal(np.signbit(magnitude(x, y, a)), np.signbit(x))


def test_the_specification_s_table():
    rows = list(csv.DictReader((TABLES / "banco_reference.csv").open()))
    assert len(rows) == 96
    with mp.workdps(34):
        for row in rows:
            point = float(row["x"]), float(row["y"]), float(row["a"])
            m, sign = magnitude(*point), int(row["sign"])
            assert absolute(log_potential(*point), mp.mpf(row["log_psi"])) <= TOLERANCE
            if sign == 0:
                assert m == 0
                assert log_magnitude(*point) == -math.inf
                continue
            assert math.copysign(1, m) == sign
            assert absolute(log_magnitude(*point), mp.mpf(row["log_abs_m"])) <= TOLERANCE
            if row["m"] == "overflow":
                assert math.isinf(m)
            else:
                assert abs(mp.mpf(m) / mp.mpf(row["m"]) - 1) <= TOLERANCE


@pytest.mark.parametrize(
    ("point", "value"),
    [
        ((2.0, 0.0, 0.5), 0.18393972058572116),
        ((1.0, 1e-4, 0.25), 0.020963753939373972),
        ((0.01, 1.0, 0.25), 0.00020069255407213513),
        ((5.0, 100.0, 0.25), 0.0093646137486386179),
        ((200.0, 40.0, 0.25), 1153208697221205400.0),
        ((100.0, 1.0, 0.25), 326186144.22833162),
        ((30.0, 0.5, 0.25), 25.472562285453741),
    ],
)
def test_spot_values(point, value):
    assert magnitude(*point) == pytest.approx(value, rel=2e-15)


def numbers(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high, allow_nan=False)


ANY = numbers(5e-324, 1.7976931348623157e308)


@settings(max_examples=300)
@given(ANY, st.one_of(st.just(0.0), ANY), ANY)
def test_odd_in_x(x, y, a):
    assert magnitude(-x, y, a) == -magnitude(x, y, a)
    assert log_magnitude(-x, y, a) == log_magnitude(x, y, a)
    assert log_potential(-x, y, a) == log_potential(x, y, a)


@settings(max_examples=300)
@given(numbers(1e-12, 1e6), numbers(0, 1e8), numbers(1e-8, 1.0), numbers(1e-12, 1.0))
def test_increasing_in_x_and_between_its_bounds(x, y, a, factor):
    """Also across the boundaries between cases; |m| / psi is a mean of |beta|, so at most a."""
    low, high = log_magnitude(x, y, a), log_magnitude(x * (1 + factor), y, a)
    assert low < high or factor * (1 + abs(low)) < 1e-11
    assert low <= high + 2 * TOLERANCE * max(1, abs(low))
    assert low - log_potential(x, y, a) <= math.log(a) + 2 * TOLERANCE * max(1, abs(low))


def test_increasing_along_a_fine_line():
    """Neighbouring arguments in every case: no decrease by more than the error."""
    for a, y in ((0.25, 16 * 9.5), (0.25, 16 * 8.9), (1.0, 50.0), (0.1, 3e4), (1.0, 0.0), (1.0, 0.2)):
        x = np.geomspace(1e-3, 1e4, 20_001) / a
        logs = log_magnitude(x, y, a)
        assert np.all(np.diff(logs) > 0)
        assert np.all(np.diff(log_potential(x, y, a)) >= -1e-15 * np.maximum(1, np.abs(logs[1:])))


def test_linear_and_log_agree(table):
    (x, y, a), _, _ = table
    m, log_m = magnitude(x, y, a), log_magnitude(x, y, a)
    usual = np.abs(log_m) < 700
    assert np.all(np.abs(np.log(np.abs(m[usual])) - log_m[usual]) <= TOLERANCE * np.maximum(1, np.abs(log_m[usual])))
    assert np.count_nonzero(usual) > 2000


def test_every_level_and_shape_has_the_same_bits(table):
    (x, y, a), _, _ = table
    usual = magnitude(x, y, a), log_magnitude(x, y, a), log_potential(x, y, a)
    for level in at_every_level(x, y, a):
        for found, expected in zip(level, usual, strict=True):
            np.testing.assert_array_equal(found, expected)
    for k in range(0, len(x), 7):
        point = float(x[k]), float(y[k]), float(a[k])
        assert (magnitude(*point), log_magnitude(*point), log_potential(*point)) == tuple(v[k] for v in usual)


def test_broadcasting():
    x, y = np.array([1.0, -2.0, 0.0]), np.array([[0.0], [4.0]])
    table = magnitude(x, y, 0.5)
    assert table.shape == (2, 3)
    assert table.dtype == np.float64
    for i in range(2):
        for j in range(3):
            assert table[i, j] == magnitude(x[j], float(y[i, 0]), 0.5)
    np.testing.assert_array_equal(magnitude(np.asfortranarray(np.ones((3, 2)) * x[:, None]), y.T, 0.5), table.T)
    np.testing.assert_array_equal(magnitude(x[::-1], 4, np.array([0.5])), table[1, ::-1])
    assert isinstance(magnitude(1, 2, np.float64(0.5)), float)
    assert magnitude(np.float32(1), 2, 0.5) == magnitude(1.0, 2.0, 0.5)
    assert magnitude(np.zeros((0, 3)), y[:0], 1).shape == (0, 3)
    many = np.linspace(-50, 50, 200_001)  # several blocks
    np.testing.assert_array_equal(
        magnitude(many, 30.0, 0.3)[::50_000], [magnitude(v, 30.0, 0.3) for v in many[::50_000]]
    )


@pytest.mark.parametrize(
    ("point", "message"),
    [
        ((math.nan, 1.0, 1.0), "x must be finite numbers, found nan"),
        ((math.inf, 1.0, 1.0), "x must be finite numbers, found inf"),
        ((1.0, -1e-300, 1.0), "y must be finite numbers of at least 0, found -1e-300"),
        ((1.0, math.inf, 1.0), "y must be finite numbers of at least 0, found inf"),
        ((1.0, 1.0, 0.0), "a must be finite numbers above 0, found 0.0"),
        ((1.0, 1.0, -1.0), "a must be finite numbers above 0, found -1.0"),
        (([1, 2, -math.inf], 1, 1), "x must be finite numbers, found -inf at x[2]"),
        ((1, [[1, 2], [3, math.nan]], 1), "y must be finite numbers of at least 0, found nan at y[1, 1]"),
        (([1, 2], [1, 2, 3], 1), "x, y and a must broadcast against each other, found shapes (2,), (3,), ()"),
        (("1", 1, 1), "x must be finite numbers, found an array of dtype <U1"),
        ((1, True, 1), "y must be finite numbers of at least 0, found an array of dtype bool"),
        ((1, 1, 1j), "a must be finite numbers above 0, found an array of dtype complex128"),
    ],
)
def test_arguments_out_of_range(point, message):
    for function in (magnitude, log_magnitude, log_potential):
        with pytest.raises(InvalidParameter, match=f"^{re.escape(message)}$"):
            function(*point)


def test_the_stored_nodes():
    """Newton's method with 40 digits from NumPy's nodes; every stored digit is correct."""
    text = NODES.read_text()
    for n in (8, 16, 24):
        stored = [
            [float(v) for v in re.search(rf"{name}{n}\[{n}\] = {{([^}}]*)}}", text)[1].split(",")]
            for name in ("nodes", "weights")
        ]
        with mp.workdps(40):
            for x, node, weight in zip(leggauss(n)[0], *stored, strict=True):
                z = mp.findroot(lambda t, n=n: mp.legendre(n, t), mp.mpf(x))
                slope = n * (mp.legendre(n - 1, z) - z * mp.legendre(n, z)) / (1 - z * z)
                assert node == float((1 + z) / 2)
                assert weight == float(1 / ((1 - z * z) * slope * slope))


def case(p: float, q: float) -> tuple[int, int, float, bool] | None:
    """The kernel's choice: nodes, side, reach, whether e^{-2ps} counts; None where it is elementary."""
    r = p - 2 * q
    if r >= 0 or q < 9:
        nodes = 8 if p <= 0.5 and q <= 0.25 else 16 if p <= 16 and q <= 9 else 24
        return (nodes, 1, 80 / (r + math.sqrt(r * r + 160 * q)), False) if r + q > 40 else (nodes, 1, 1.0, True)
    if -r >= 13 * math.sqrt(q):
        return None
    gap = r * r / (4 * q)
    depth = 44 - gap
    return (
        (8 if gap >= 25 else 16 if gap >= 6.25 else 24),
        -1,
        2 * depth / (-r + math.sqrt(r * r + 4 * depth * q)),
        p < 20,
    )


def test_the_nodes_are_enough():
    """n Gauss-Legendre nodes on [0, 1] err by at most 32/15 M rho^(-2n) / (1 - rho^-2) (Trefethen 2013, Theorem 19.3).

    M bounds |f| on the ellipse with foci 0, 1 and half-axes of sum rho / 2; every f here is entire.
    """
    rho = np.array([1.6, 1.8, 2, 2.3, 2.6, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 10, 13, 17, 22, 30, 45, 70, 100, 200, 400])
    turn = np.exp(1j * np.linspace(0, np.pi, 361))
    ellipse = 0.5 + (rho[:, None] * turn + 1 / (rho[:, None] * turn)) / 4
    node, weight = leggauss(64)
    node, weight = (1 + node) / 2, weight / 2
    q_values = [
        0,
        *np.geomspace(1e-3, 0.25, 5),
        0.25001,
        1,
        3,
        6,
        8.99999,
        9.00001,
        12,
        20,
        30,
        40,
        *np.geomspace(45, 1e8, 9),
    ]
    worst, cases = 0.0, set()
    for q in q_values:
        p_values = [1e-8, *np.geomspace(1e-3, 2e8, 60), 0.5, 0.50001, 16, 16.0001, 20, q + 39.999, q + 40.001]
        p_values += [v for v in 2 * q - math.sqrt(q) * np.linspace(0, 12.99, 14) if v > 0]
        for p in p_values:
            chosen = case(p, q)
            if chosen is None:
                continue
            n, side, reach, both = chosen
            r = p - 2 * q
            for potential in (False, True):

                def f(v, p=p, q=q, r=r, chosen=chosen, potential=potential):
                    _, side, reach, both = chosen
                    u = reach * v
                    s = 1 - side * u
                    second = np.expm1(-2 * p * s) if both else -1.0
                    return (2 + second if potential else -s * second) * np.exp(-u * (side * r + q * u))

                total = reach * float(weight @ f(node))
                if side < 0:  # relative to the rest of the whole
                    whole = math.sqrt(math.pi / q) * (1 if potential else p / (2 * q))
                    total = whole * math.exp(r * r / (4 * q)) - total
                with np.errstate(over="ignore", invalid="ignore"):
                    largest = np.abs(f(ellipse)).max(axis=1)
                    bounds = reach * 32 / 15 * largest * rho ** (-2.0 * n) / (1 - rho**-2.0)
                worst = max(worst, float(np.nanmin(np.where(np.isfinite(bounds), bounds, np.inf))) / total)
                cases.add((n, side, both))
    assert worst < 2e-15
    assert {n for n, _, _ in cases} == {8, 16, 24}
    assert len(cases) >= 8
