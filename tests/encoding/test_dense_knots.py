"""Columns in the cosine basis: the kernel of dense rows and the entries by themselves."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from schema_tables import pa

from privol.encoding.cells import CellCounts
from privol.encoding.knots import KnotsColumn
from privol.encoding.schema_parts import Knots
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
    """What the kernel writes is what the entries by themselves say: any part of the rows, spared ones too."""
    part = Knots(points, "cosine", "indicator", cycles, ("day", "week", "year") if cycles else ())
    column = KnotsColumn("a", part, 2, 0, Written(MISSING), pointed=True)
    given_cells = pa.array([*cells, None], pa.string())
    given_cells = given_cells.dictionary_encode() if coded else given_cells
    n, width = len(given_cells), len(column.feature_names) + 5
    written = []
    for dense in (True, False):
        found = column.points(given_cells, dense=dense)
        for _ in range(2):
            found.spare(np.arange(n) % 7 == 3)
        X = np.zeros((n, width))
        for start in range(0, n, step):
            rows = slice(start, min(start + step, n))
            found.write(X[rows].reshape(-1), np.arange(rows.stop - start) * width, rows)
        counts = CellCounts()
        found.count("a", counts)
        written.append((X.tobytes(), found.missing.tolist(), counts.found(["a"]), found.places.tolist()))
    assert written[0] == written[1]
