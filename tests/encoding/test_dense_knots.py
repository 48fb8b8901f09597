"""Columns in the cosine basis: the kernel for dense rows against the entries computed one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schema_tables import pa

from privol._core._text import DenseRows, Hats
from privol.encoding.cells import CellCounts
from privol.encoding.knots import KnotsColumn
from privol.encoding.schema_parts import Knots
from privol.errors import InvalidParameter
from privol.readers.written import Written

MISSING = ["?", "-9", "7.5"]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(["", "?", "x", "2020-02-29", "1e3"]) | st.floats(-70, 90, width=32).map(str), max_size=40),
    st.sampled_from([(17.0, 27.0, 34.0, 64.0), (-1.7e308, 0.0, 1.7e308), (0.0, 86400.0 * 20000)]),
    st.booleans(),
    st.booleans(),
    st.integers(1, 9),
)
def test_dense_rows_have_the_bits_of_the_entries(cells, points, coded, cycles, step):
    """The kernel writes what the entries say: any part of the rows, skipped ones included."""
    part = Knots(points, "cosine", "indicator", cycles, ("day", "week", "year") if cycles else ())
    column = KnotsColumn("a", part, 2, 0, Written(MISSING), pointed=True)
    given_cells = pa.array([*cells, None], pa.string())
    given_cells = given_cells.dictionary_encode() if coded else given_cells
    n, width = len(given_cells), len(column.feature_names) + 5
    means, written = np.where(np.arange(width) % 3, np.linspace(-0.5, 0.5, width), 0.0), []
    for dense in (True, False):
        found = column.points(given_cells, dense=dense)
        for _ in range(2):
            found.spare(np.arange(n) % 7 == 3)
        X, rows = np.full((n, width), np.nan), DenseRows(n, means)
        found.add(rows)
        for start in range(0, n, step):
            rows.write(start, X[start : start + step])
        counts = CellCounts()
        found.count("a", counts)
        written.append((X.tobytes(), found.missing.tolist(), counts.found(["a"]), found.places.tolist()))
    assert written[0] == written[1]


def int32(*values):
    return np.array(values, dtype=np.int32)


def test_parts_outside_the_rows_are_refused():
    rows, doubles, bytes_ = DenseRows(2, np.zeros(3)), np.zeros(2), np.zeros(2, np.uint8)
    hats = Hats(np.array([0.0, 1.0]), np.ones(1), np.zeros(1), np.ones(1), np.zeros((2, 2)))
    for add, says in (
        (lambda: rows.numbers(3, doubles), "row 1 has no such cell or feature"),
        (lambda: rows.numbers(-1, doubles), "row 1 has no such cell or feature"),
        (lambda: rows.numbers(2**63 - 1, doubles), "row 1 has no such cell or feature"),
        (lambda: rows.numbers(0, doubles[:1]), "row 2 has no such cell or feature"),
        (lambda: rows.numbers(0, doubles, int32(0, 2)), "row 2 has no such cell or feature"),
        (lambda: rows.numbers(0, doubles, int32(-1, 0)), "row 1 has no such cell or feature"),
        (lambda: rows.numbers(0, doubles, int32(0)), "found 1 cells, and there are 2 rows"),
        (lambda: rows.flag(3, bytes_, 1), "row 1 has no such cell or feature"),
        (lambda: rows.entries(int32(0, 3)[:, None]), "cell 2 has a place that is not in the rows"),
        (lambda: rows.entries(int32(0, 1)[:, None], np.zeros((1, 1))), "shapes of places and weights differ"),
        (lambda: rows.functions(2, hats, int32(0, 0), doubles), "row 1 has no such cell or feature"),
        (lambda: rows.functions(0, hats, int32(0, 1), doubles), "cell 2 has a place that is not in the rows"),
        (lambda: rows.functions(0, hats, int32(0, 0), doubles[:1]), "shapes of left and share differ"),
        (lambda: rows.write(1, np.zeros((2, 3))), "rows 1 to 3 of 3 features are not among them"),
        (lambda: rows.write(0, np.zeros((2, 2))), "rows 0 to 2 of 2 features are not among them"),
    ):
        with pytest.raises(InvalidParameter, match=says):
            add()
    X = np.full((2, 3), np.nan)
    rows.write(0, X)  # refused rows are not among the parts
    np.testing.assert_array_equal(X, 0.0)
