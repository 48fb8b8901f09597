"""The module for rounding: its figures exceed what they bound, and no other module repeats them."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import ROOT

from privol._rounding import (
    UNIT,
    UP,
    bound_of_rows,
    ceil_double,
    gradients_excess,
    lanes,
    outward,
    scaled_excess,
    sqrt_up,
    sum_excess,
    vector_excess,
    vector_norm,
)

PACKAGE = ROOT / "src" / "privol"

# Margins of their own, each with its reason beside it.
OWN = {
    "calibration/_reports.py": "_UP = 1.0 + 1e-13",
    "calibration/_betting.py": "_UP = 1.0 + 2.0**-48",
    "guarantees/_shuffled.py": "(1.0 + 1e-12)) + 1.0",  # for a threshold, in both directions
}

positive = st.floats(1e-30, 1e30)


def test_the_unit_and_the_factor_are_written_once() -> None:
    pattern = re.compile(r"2\.0 ?\*\* ?-53|1\.0 \+ 1e-12|^_?UP = |^_UNIT = ")
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if pattern.search(line)]
        lines = [line for line in lines if not (name in OWN and OWN[name] in line)]
        if lines and name != "_rounding.py":
            found[name] = lines
    assert not found, found


def test_one_rounding_is_within_a_unit() -> None:
    assert 1.0 + UNIT == 1.0
    assert 1.0 + UNIT * (1 + 2.0**-20) > 1.0
    assert 9000 * UNIT < UP - 1.0 < 9010 * UNIT
    assert outward(0.0) > 0.0
    assert outward(1.0) > UP


@given(positive, st.booleans())
def test_rows_are_within_their_bound(x_bound: float, intercept: bool) -> None:
    found = bound_of_rows(x_bound, intercept)
    assert Fraction(found) ** 2 >= Fraction(x_bound) ** 2 + intercept
    assert Fraction(found) ** 2 <= (Fraction(x_bound) ** 2 + intercept) * Fraction(1 + 3e-12)
    assert intercept or found == x_bound


@given(st.integers(0, 10**40), st.integers(1, 10**40))
def test_rounding_up_gives_the_least_double_above(numerator: int, denominator: int) -> None:
    exact = Fraction(numerator, denominator)
    found = ceil_double(exact)
    assert Fraction(found) >= exact
    assert found == 0.0 or Fraction(math.nextafter(found, 0.0)) < exact
    root = sqrt_up(exact)
    assert Fraction(root) ** 2 >= exact
    assert root == 0.0 or Fraction(math.nextafter(root, 0.0)) ** 2 < exact


def test_beyond_all_doubles() -> None:
    largest = Fraction(np.finfo(np.float64).max)
    assert ceil_double(largest) == float(largest)
    assert ceil_double(largest + 1) == ceil_double(10 * largest) == math.inf


def in_lanes(values: list[float]) -> float:
    """The squared norm as the kernels sum it."""
    sums = [0.0] * 8
    for j, v in enumerate(values):
        sums[j % 8] += v * v
    a = sums
    return ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]))


@pytest.mark.parametrize("n", [1, 8, 9, 100, 1000])
def test_a_scaled_row_exceeds_its_bound_by_less(n: int) -> None:
    """Against rational arithmetic, on coordinates with the worst rounding: one large, others just lost beside it."""
    rng, worst = np.random.default_rng(n), Fraction(0)
    rows = [[1.0] + [math.sqrt(UNIT) * (1.0 - 2.0**-30)] * (n - 1), *(rng.normal(size=(20, n)) * 3.0).tolist()]
    for row in rows:
        square, exact = in_lanes(row), sum(Fraction(v) ** 2 for v in row)
        assert abs(Fraction(square) - exact) <= Fraction(lanes(n) * UNIT) * exact
        factor = 0.37 / math.sqrt(square)
        norm = sum(Fraction(v * factor) ** 2 for v in row)
        worst = max(worst, norm / Fraction(0.37) ** 2 - 1)
    assert worst <= Fraction(2 * scaled_excess(n)) * (1 + Fraction(1, 1000))
    if n > 1:
        assert worst > Fraction(UNIT)  # something was tested


@given(st.integers(1, 1 << 20), st.integers(1, 1 << 20))
def test_sums_are_charged_as_derived(n: int, batch: int) -> None:
    """In rational arithmetic: the rounding of each partial sum, in both streams, and that of the vectors."""
    unit, columns = Fraction(UNIT), Fraction(n, 8) + 8
    assert Fraction(lanes(n)) == columns
    assert Fraction(vector_excess(n)) == 2 * (columns + 32) * unit
    sums = 2 * unit * (1 + Fraction(1, 1 << 20)) * Fraction(batch * (batch + 1), 2)
    assert Fraction(gradients_excess(n, batch)) >= Fraction(vector_excess(n)) + sums
    assert Fraction(sum_excess(batch)) == (batch - 1) * unit


@given(st.lists(st.floats(-1e100, 1e100), max_size=40))
def test_norms_of_vectors_are_within_a_few_units(values: list[float]) -> None:
    exact = sum(Fraction(value) ** 2 for value in values)
    found = Fraction(vector_norm(np.array(values))) ** 2
    assert abs(found - exact) <= exact * 64 * Fraction(UNIT) + Fraction(10) ** -300  # squares may underflow
