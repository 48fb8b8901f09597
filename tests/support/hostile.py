"""Values that rows and labels may hold, hostile ones included, and the containers in which they arrive."""

from __future__ import annotations

import math
from collections import UserList, deque
from datetime import date
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import strategies as st

pandas = pytest.importorskip("pandas")

BIG = 2**53  # doubles cannot distinguish two integers beyond it
KINDS = {"ints": (0, 1), "big": (BIG, BIG + 1), "floats": (0.5, 1.5), "bools": (False, True), "texts": ("a", "b")}
ROWS = [[0.25, 1.0], [-0.5, 0.125], [1.0, 1.0], [0.75, -1.0], [0.5, 0.0], [-0.125, 0.5], [0.0, 1.0]]
SIDES = [0, 1, 1, 0, 1, 0, 0]
N = len(ROWS)


class Raises:
    """Raises on any access by a reader."""

    def _raise(self, *_):
        raise RuntimeError("no value")

    __float__ = __len__ = __str__ = __repr__ = __eq__ = __bool__ = __iter__ = _raise
    __hash__ = None


UNREADABLE = st.one_of(
    st.sampled_from([
        "?", "", b"?", 1j, np.complex64(2), [], [1.0, 2.0], [[1]], (1, 2), {}, {1}, object(), Raises(), Raises,
        pandas.NA, pandas.NaT, date(2020, 1, 1), np.array([1.0, 2.0]), np.array(1j), np.ma.masked, None, math.nan,
        np.float32("nan"), np.float16("nan"), Decimal("nan"), Decimal("sNaN"), lambda: 1, slice(1),
    ]),
    st.text(alphabet="xyz?", max_size=4),
)  # fmt: skip
READABLE = st.one_of(
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    st.booleans(),
    st.decimals(allow_nan=False),
    st.fractions(),
    st.sampled_from(["7", " 1.5 ", "-inf", np.float16(2), np.float32(0.1), np.int8(3), np.uint64(2**63), 10**400,
                     np.longdouble("0.1"), Fraction(10**400), b"2", np.bool_(True), np.array(0.5)]),
)  # fmt: skip
ANY = UNREADABLE | READABLE
ODD_ROWS = st.sampled_from(
    [None, [], [1.0], [1.0, 2.0, 3.0], "ab", b"ab", 1.0, {}, {0: 1.0, 1: 2.0}, {1.0, 2.0}, [[1.0, 2.0]], Raises(),
     np.zeros(3), np.zeros((1, 2)), np.array(["?", "1"]), np.ma.array([1.0, 2.0], mask=[0, 1]), iter([1.0, 2.0])]
)  # fmt: skip
PLACES = st.integers(0, N - 1)


def objects(values):
    return np.fromiter(values, dtype=object, count=len(values))


def grid(rows):
    return np.stack([objects(row) for row in rows])


def frame(rows):
    return pandas.DataFrame({str(j): objects([row[j] for row in rows]) for j in range(2)})


TABLES = {
    "lists": list,
    "tuples": lambda rows: tuple(map(tuple, rows)),
    "deque": deque,
    "users": UserList,
    "arrays": lambda rows: [np.array(row) if all(type(c) is float for c in row) else objects(row) for row in rows],
    "objects": grid,
    "frame": frame,
}
COLUMNS = {
    "list": list,
    "tuple": tuple,
    "deque": deque,
    "users": UserList,
    "objects": objects,
    "series": lambda y: pandas.Series(objects(y), dtype=object),
}


def same(found, expected, without):
    """Whether both encodings are equal bit for bit except in one of the last N rows."""
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape
        kept = np.arange(len(a)) != len(a) - N + without
        assert a[kept].tobytes() == b[kept].tobytes()


def changed(values, at, value):
    """A copy with another value in one position."""
    return [*values[:at], value, *values[at + 1 :]]
