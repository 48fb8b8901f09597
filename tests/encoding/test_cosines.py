"""The cosine basis: orthogonal, smooth functions first, and the sums of squares that bound rows."""

from __future__ import annotations

import numpy as np
import pytest

from privol.encoding import cosines
from privol.encoding.schema import Schema


@pytest.mark.parametrize("n", [2, 3, 6, 11])
def test_functions_are_orthogonal_and_fall(n):
    values = cosines.at_knots(n)
    assert values.shape == (n, n - 1)
    assert values.T @ values == pytest.approx(np.diag(1.0 / np.arange(1, n)), abs=1e-11)
    assert values.sum(axis=0) == pytest.approx(np.zeros(n - 1), abs=1e-11)
    assert (np.diff(values[:, 0]) < 0.0).all()
    for k, function in enumerate(values.T, start=1):  # each changes its sign once more often than the previous one
        assert np.count_nonzero(np.diff(np.sign(function[function != 0.0]))) == k
    assert (values * 2.0**40 % 1.0 == 0.0).all()  # the same on every machine


@pytest.mark.parametrize("n", [2, 3, 6, 11])
def test_sums_of_squares(n):
    values, part = cosines.at_knots(n), (np.arange(4000)[:, None, None] + 0.5) / 4000
    between = (1.0 - part) * values[:-1] + part * values[1:]
    squares = (between**2).sum(axis=2)
    assert float(cosines.usual_square(n)) == pytest.approx(squares.mean(), rel=1e-6)
    at_ends = (values**2).sum(axis=1).max()
    assert squares.max() <= at_ends <= float(cosines.largest_square(n)) <= at_ends * (1.0 + 1e-11)


def test_a_schema_counts_them():
    columns = {f"x{j}": {"knots": list(range(6)), "shape": "cosine", "missing": "zero"} for j in range(4)}
    schema = Schema.load({"columns": columns})
    assert schema.row_bound == pytest.approx(2.0 * float(cosines.largest_square(6)) ** 0.5, rel=1e-12)
    assert schema.usual_norm == pytest.approx(2.0 * float(cosines.usual_square(6)) ** 0.5, rel=1e-12)
    columns["x0"]["missing"] = "indicator"  # a row of the indicator is longer
    longer = Schema.load({"columns": columns}).row_bound
    assert longer == pytest.approx((1.0 + 3.0 * float(cosines.largest_square(6))) ** 0.5, rel=1e-12)
