"""The line of all doubles in cells: every double is in one, finer cells cover the same doubles, knots ascend."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from privol.encoding.lines import Cells, dyadic_cells, knots_of, refined

DOUBLES = st.floats(allow_nan=False)


@settings(max_examples=300)
@given(st.lists(DOUBLES, max_size=30))
def test_each_double_is_in_one_cell(values):
    cells, _ = dyadic_cells()
    counts = cells.counts(np.array([*values, math.nan]))
    assert counts.sum() == len(values)
    for value in values:
        (at,) = np.flatnonzero(cells.counts(np.array([value])))
        bounded = min(max(value, cells.low[0]), cells.high[-1])
        assert cells.low[at] <= bounded <= cells.high[at]
        assert (cells.low[at] == cells.high[at]) == (value == 0.0)


def test_cells_have_no_gaps():
    cells, believed = dyadic_cells()
    low, high = cells.low[1:], cells.high[:-1]
    apart = np.flatnonzero(low != high)  # next to 0 there is no double between the two
    assert all(np.nextafter(high[i], low[i]) == low[i] for i in apart)
    assert len(apart) == 2
    assert cells.high[-1] == -cells.low[0] == np.finfo(float).max
    assert len(cells) == len(believed) == 2 * 2098 + 1


@settings(max_examples=300)
@given(st.lists(DOUBLES.filter(math.isfinite), min_size=2, max_size=8, unique=True), st.integers(1, 64), st.data())
def test_finer_cells_cover_the_same(ends, n_cells, data):
    ends = sorted({end + 0.0 for end in ends})
    if len(ends) < 2:
        return
    cells = Cells(np.array(ends[:-1]), np.array(ends[1:]))
    counts = np.array([data.draw(st.floats(0, 1e6)) for _ in cells.low])
    finer = refined(cells, counts, n_cells)
    assert finer.low[0] == cells.low[0]
    assert finer.high[-1] == cells.high[-1]
    assert np.array_equal(finer.low[1:], finer.high[:-1])
    assert (finer.low < finer.high).all()
    assert len(finer) <= n_cells + 2 * len(cells)
    if counts.sum() > 0:
        knots = knots_of(cells, counts, 6)
        assert 2 <= len(knots) <= 7
        assert (knots[1:] > knots[:-1]).all()
        assert (knots[0], knots[-1]) == (ends[0], ends[-1])


def test_knots_are_quantiles():
    values = np.random.default_rng(0).exponential(size=100_000)
    cells = Cells(np.linspace(0, 12, 601)[:-1], np.linspace(0, 12, 601)[1:])
    knots = knots_of(cells, cells.counts(values).astype(float), 5)
    assert np.allclose(knots[1:-1], -np.log([0.75, 0.5, 0.25]), atol=0.02)
    heavy = knots_of(cells, np.where(np.arange(600) == 7, 1e6, 1.0), 5)  # nearly all in one cell
    assert len(heavy) in (3, 4)


def test_small_integers_leave_no_near_empty_cells_below_1():
    """Counts of 0, 1, 2, ... do not leave a near-empty cell for each of the thousand exponents between 0 and 1."""
    cells, _ = dyadic_cells()
    rng = np.random.default_rng(0)
    values = rng.choice([0.0, 1, 2, 3, 4, 5, 6], 3000, p=[0.46, 0.2, 0.12, 0.1, 0.06, 0.03, 0.03])
    counts = cells.counts(values).astype(float)
    first, last = np.flatnonzero(counts)[[0, -1]]
    finer = refined(cells.between(first, last), counts[first : last + 1], 15)
    assert len(finer) <= 15 + 4
    noisy = np.maximum(finer.counts(values) + rng.normal(0, 40, len(finer)), 0.0)
    knots = knots_of(finer, noisy, 6)
    assert len(knots) >= 5
    assert np.abs(knots - np.array([0, 1, 2, 3, 4, 6, 8])[:, None]).min(axis=0).max() < 0.6


def test_a_frequent_value_takes_one_knot():
    cells = Cells(np.arange(0.0, 10.0), np.arange(1.0, 11.0))
    knots = knots_of(cells, np.array([660.0, 200, 70, 30, 20, 8, 6, 3, 2, 1]), 6)
    assert len(knots) >= 5
    assert knots[2] <= 2.5  # a quantile of all rows would leave everything above 1 in one interval
    assert (knots[0], knots[-1]) == (0.0, 10.0)
