"""Joining columns into one table, by several threads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from .._core._text import rows_of
from .._threads import each, threads

__all__ = ["table_of"]

FloatArray = npt.NDArray[np.float64]


def table_of(columns: Sequence[FloatArray], rows: FloatArray) -> None:
    """Write columns, each of shape (n,), into rows of shape (n, columns); each thread writes some of the rows."""
    n = len(rows)
    step = max(-(-n // threads()), 1)

    def write(start: int) -> None:
        some = slice(start, min(start + step, n))
        rows_of([column[some] for column in columns], rows[some])

    each(write, range(0, n, step), cells=rows.size)
