"""Rows longer than their bound: a count for the owner's eyes, and a warning if it is most of them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from .._core._rows import squared_norms
from ..errors import ScaledRowsWarning

__all__ = ["FIRST_ROWS", "warn_of_scaled"]

#: A run that learns block by block checks after this many rows how many were scaled.
FIRST_ROWS = 100
#: Rows that are longer by at most this factor keep their information. Those of a learnt encoding are at most the root
#: of 1.5 times their usual norm.
_A_LITTLE = 1.25


def warn_of_scaled(
    scaled: int, rows: int, x_bound: float, *, stream: Any = None, X: Any = None, stacklevel: int = 3
) -> None:
    """Warn if more than half of the rows were longer than the bound.

    Parameters
    ----------
    scaled, rows : int
        How many rows were scaled, and of how many. **Not private.**
    x_bound : float
    stream : optional
        The origin of the rows. Behind a learnt encoding the bound is the usual norm of a row, which many exceed a
        little: there is no warning then.
    X : array or CSR matrix, optional
        The rows, or the last of them, if they did not come from a stream. There is no warning either if most exceed the
        bound only a little, as behind a :class:`~privol.encoding.PrivateEncoder` in a pipeline.
    stacklevel : int, default=3
        As for :func:`warnings.warn`, counted from here.
    """
    schema = getattr(stream, "schema", None)
    if 2 * scaled <= rows or getattr(schema, "learnt", None) is not None:
        return
    if X is not None and _median(squared_norms(X)) <= (_A_LITTLE * x_bound) ** 2:
        return
    warnings.warn(
        f"NOT PRIVATE: {scaled:,} of {rows:,} rows ({scaled / rows:.0%}) were longer than x_bound={x_bound:g} and were "
        "scaled to it, the intercept's constant not: large features are all that is left of them. Public ranges or a "
        "schema (open_stream(ranges=) or schema=) map numbers to -1 ... 1, and imply a bound; "
        "privol.encoding.PrivateEncoder learns such a map privately, and behind one x_bound is its schema_.usual_norm; "
        "x_bound= sets a larger bound, with more noise. A "
        "StandardScaler learns from the rows, and no guarantee covers it. This figure was counted on the raw rows: no "
        "guarantee covers it either, and it is no part of what is released",
        ScaledRowsWarning,
        stacklevel=stacklevel + 1,
    )


def _median(squares: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    """Median over the rows that are not null."""
    return float(np.median(squares[np.isfinite(squares)]))
