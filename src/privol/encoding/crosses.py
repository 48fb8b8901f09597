"""Crosses: pairs of columns whose features are the products of the features of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from .._core._text import DenseRows
from ..errors import InvalidParameter
from .schema_parts import Column, Drop, Hashed, Knots, Levels, NumberColumn
from .schema_reader import nearest

__all__ = [
    "MOST_FEATURES",
    "Cross",
    "Products",
    "Side",
    "check_crosses",
    "cross_name",
    "feasible",
    "stated_crosses",
    "usual_square",
    "width_of",
]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int32]
Names = tuple[str, str]

MOST_FEATURES = 4096
"""Features of one cross, at most."""

_ALLOWED = 'allowed are columns with levels, hash, or knots (shape = "cosine", "spline" or "bins")'


# --- what may be crossed -------------------------------------------------------------------------


def cross_name(pair: Names) -> str:
    """Return the name of a cross: as those of its features, without what follows the names of the columns."""
    return "*".join(pair)


def stated_crosses(given: Any, names: Sequence[str], declared: Sequence[Names] = ()) -> tuple[Names, ...]:
    """Return the pairs that a schema and a parameter state, with blanks around names as the columns have them."""
    listed: list[Any] = [*declared, *(given if isinstance(given, Sequence) and not isinstance(given, str) else [given])]
    own = {name.strip(): name for name in names} | {name: name for name in names}
    pairs: list[Names] = []
    for pair in listed:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not all(isinstance(name, str) for name in pair):
            raise InvalidParameter(f"crosses must be pairs of names of columns, found {pair!r}")
        left, right = (own[name] if name in own else str(name) for name in pair)
        pairs.append((left, right))
    return tuple(pairs)


def check_crosses(
    pairs: Sequence[Names], columns: Mapping[str, Column | None], special: Mapping[str, str], where: str
) -> None:
    """Refuse pairs that cannot be crossed; the message names the first of them.

    Parameters
    ----------
    pairs : sequence of pairs of str
    columns : mapping of str to Column or None
        The columns whose features may be crossed; None: what the column is will be learnt.
    special : mapping of str to str
        Other columns and their roles, such as "the target".
    where : str
        What declares the pairs, for the message.

    Raises
    ------
    InvalidParameter
    """
    seen: set[frozenset[str]] = set()
    for pair in pairs:
        place = f"{where}: the cross of {pair[0]!r} and {pair[1]!r}"
        if pair[0] == pair[1]:
            raise InvalidParameter(f"{place} is of one column, needed are two")
        if frozenset(pair) in seen:
            raise InvalidParameter(f"{place} is declared twice")
        seen.add(frozenset(pair))
        for name in pair:
            if name in special:
                raise InvalidParameter(f"{place}: {name!r} is {special[name]} and has no features")
            if name not in columns:
                has = ", ".join(map(repr, list(columns)[:20])) + (", ..." if len(columns) > 20 else "")
                raise InvalidParameter(f"{place}: no column {name!r}{nearest(name, columns)}, there are {has}")
        if why := _obstacle(pair, columns):
            raise InvalidParameter(f"{place}: {why}")


def feasible(
    pairs: Sequence[Names], columns: Mapping[str, Column], dropped: Mapping[str, str]
) -> tuple[tuple[Names, ...], dict[str, str]]:
    """Return the pairs that can be crossed once columns are learnt, and why others are left out, by name.

    ``dropped`` says why a column was left out.
    """
    kept: list[Names] = []
    left_out: dict[str, str] = {}
    for pair in pairs:
        why = next((f"{name!r} is left out ({dropped[name]})" for name in pair if name in dropped), None)
        why = why or _obstacle(pair, columns)
        if why is None:
            kept.append(pair)
        else:
            left_out[cross_name(pair)] = why
    return tuple(kept), left_out


def _obstacle(pair: Names, columns: Mapping[str, Column | None]) -> str | None:
    """Say why two columns cannot be crossed, as far as their kinds are known."""
    widths = []
    for name in pair:
        column = columns[name]
        if column is None:
            continue
        width = width_of(column)
        if width is None:
            return f"{name!r} {_said(column)}, {_ALLOWED}"
        widths.append(width)
    if len(widths) == 2 and widths[0] * widths[1] > MOST_FEATURES:
        found = f"{widths[0]:,} times {widths[1]:,} features, {widths[0] * widths[1]:,} in all"
        return f"found {found}, allowed are at most {MOST_FEATURES:,}"
    return None


def width_of(column: Column) -> int | None:
    """Return how many features a column contributes to a cross; None if it cannot be crossed."""
    if isinstance(column, Levels):
        return len(column.levels) + (column.unknown == "indicator") + (column.missing == "indicator")
    if isinstance(column, Hashed):
        return column.n_features
    if isinstance(column, Knots) and column.shape not in ("linear", "apart"):
        return len(column.knots) - (column.shape == "bins") + (column.missing == "indicator")
    return None


def _said(column: Column) -> str:
    if isinstance(column, Drop):
        return "is dropped"
    return f'has shape = "{column.shape}"' if isinstance(column, Knots) else "is a number as it stands"


def usual_square(column: Column) -> Fraction:
    """Return the squared norm of what a column contributes to a cross, averaged over numbers between two knots.

    The average of a cross is the product of those of its columns.
    """
    if isinstance(column, NumberColumn | Drop):
        raise InvalidParameter(f"a column that {_said(column)} has no cross, {_ALLOWED}")
    if isinstance(column, Hashed):
        return column.usual_square
    return column.crossed_square if isinstance(column, Knots) else Fraction(1)


# --- features --------------------------------------------------------------------------------------


class Side(Protocol):
    """A column whose features are at least 0 and add up to at most 1: hat functions, or indicators.

    A column in the cosine basis contributes the hat functions of its knots.

    Attributes
    ----------
    crossed_names : list of str
        Of the features that enter the products.
    crossed_entries : int
        How many of these features can differ from 0 in one row.
    """

    crossed_names: list[str]
    crossed_entries: int

    def crossed(self, found: Any) -> tuple[IntArray, FloatArray]:
        """Return which of these features the rows have, each once a row and ascending, and their values.

        Both have shape (n, crossed_entries); ``found`` is what the column made of its cells.
        """


class Products:
    """The entries of a cross in several rows.

    Attributes
    ----------
    places : ndarray of int32, shape (n, entries)
        Features, ascending.
    weights : ndarray of float64, of the same shape
    """

    def __init__(self, places: IntArray, weights: FloatArray) -> None:
        self.places, self.weights = places, weights

    def add(self, rows: DenseRows) -> None:
        """Add the entries to dense rows."""
        rows.entries(self.places, self.weights)


class Cross:
    """The products of the features of two columns; the feature of the second column varies fastest.

    The features of each column are at least 0 and add up to at most 1. The same holds for the products, so the sum of
    their squares is at most 1, rounding included: see ``docs/proofs/encoding.md``.

    Parameters
    ----------
    left, right : Side
    The first feature of the cross, and its first entry in a CSR row.
        Its first feature, and its first entry in a CSR row.
    """

    def __init__(self, left: Side, right: Side, feature: int, entry: int) -> None:
        self.feature = feature
        self.entry = entry
        self.entries = left.crossed_entries * right.crossed_entries
        self.feature_names = [f"{a}*{b}" for a in left.crossed_names for b in right.crossed_names]
        self.width = len(right.crossed_names)

    def products(self, left: tuple[IntArray, FloatArray], right: tuple[IntArray, FloatArray]) -> Products:
        """Return the entries of the cross in rows that have these features."""
        n = len(left[0])
        first = left[0] * np.int32(self.width) + np.int32(self.feature)
        places = (first[:, :, None] + right[0][:, None, :]).reshape(n, self.entries)
        weights = (left[1][:, :, None] * right[1][:, None, :]).reshape(n, self.entries)
        return Products(places, weights)
