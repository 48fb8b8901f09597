"""The points at which the shape of a column is shown, and their contributions to a score, from public numbers alone.

The cells here are synthetic: the knots, levels and buckets that a schema names. Rows are never read.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..encoding.crosses import cross_name
from ..encoding.hashes import hash_of
from ..encoding.schema import Schema
from ..encoding.schema_parts import LEAST_SQUARE, Column, Drop, Hashed, Knots, Levels, NumberColumn
from ..encoding.times import CYCLES, cycle_values, time_text
from ..errors import InvalidParameter
from ..streams import open_stream

__all__ = ["Points", "points_of_features", "points_of_schema"]

FloatArray = NDArray[np.float64]

MISSING = "(missing)"
#: Points between two knots, so that the band between them is shown too.
_BETWEEN = 4
_PER_RANGE = 16
_PER_CYCLE = {"day": 24, "week": 7 * 4, "year": 52}
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


@dataclass(frozen=True)
class Points:
    """Where one shape is shown.

    Attributes
    ----------
    name : str
        Of the column, of a part of it ("when (day)"), or of a cross.
    column : str
        The column that it belongs to; of a cross its name.
    kind : {"number", "time", "cycle", "category"}
        The first three are along an axis, ``places``.
    labels : tuple of str
        What the points are called.
    places : ndarray, shape (n,), or None
        In units of the column, of times in seconds since 1970, of cycles in seconds; NaN for a missing cell.
    shares : ndarray, shape (n,)
        Public weights of the points, which add up to 1: shapes are centred by them.
    features : slice
        The features of the model that they are about.
    values : sparse matrix of shape (n, features)
        What each point brings.
    """

    name: str
    column: str
    kind: str
    labels: tuple[str, ...]
    places: FloatArray | None
    shares: FloatArray
    features: slice
    values: Any


def points_of_schema(schema: Schema, names: Mapping[str, Sequence[str]] | None = None) -> tuple[list[Points], int]:
    """Return the points of all columns and crosses of a schema, and how many features it has.

    Parameters
    ----------
    schema : Schema
        As stored with a model, with the columns of the input written out.
    names : mapping of str to sequence of str, optional
        Public values that columns of categories may have, for the buckets that they fall into: a learnt schema keeps
        hashes alone.

    Raises
    ------
    InvalidParameter
        If ``names`` has a column that is none of categories.
    """
    names = {} if names is None else names
    found: list[Points] = []
    if schema.rows is not None:
        labels = [f"feature {number}" for number in schema.rows.kept]
        labels += [f"sketch {place}" for place in range(schema.rows.sketch)]
        return points_of_features(labels), len(labels)
    parts: dict[str, tuple[slice, list[str]]] = {}
    first = 0
    for name, column in schema.columns:
        if isinstance(column, Drop):
            continue
        made = _points_of(name, column, names.get(name, ()))
        width = max(points.features.stop for points in made)
        found += [replace(points, features=_moved(points.features, first)) for points in made]
        parts[name] = slice(first, first + width), _crossed_labels(column, names.get(name, ()))
        first += width
    for name in names:
        if not isinstance(dict(schema.columns).get(name), Hashed):
            raise InvalidParameter(f"names must be of columns of hashed categories, found {name!r}")
    for left, right in schema.crosses:
        labels = [f"{a}, {b}" for a in parts[left][1] for b in parts[right][1]]
        found.append(_categories(cross_name((left, right)), labels, first, len(labels)))
        first += len(labels)
    return found, first


def points_of_features(
    names: Sequence[str], ranges: Sequence[tuple[float, float] | None] | None = None
) -> list[Points]:
    """Return the points of features that no schema describes: the ends of their ranges, or 0 and 1.

    Parameters
    ----------
    names : sequence of str
    ranges : sequence of (low, high) or None, optional
        As the rows were scaled, to [-1, 1].
    """
    found = []
    for j, name in enumerate(names):
        pair = None if ranges is None else ranges[j]
        ends = (0.0, 1.0) if pair is None else pair
        values = sp.csr_array(np.array([[0.0], [1.0]] if pair is None else [[-1.0], [1.0]]))
        found.append(
            Points(
                name=name,
                column=name,
                kind="number",
                labels=tuple(f"{end:g}" for end in ends),
                places=np.array(ends),
                shares=np.full(2, 0.5),
                features=slice(j, j + 1),
                values=values,
            )
        )
    return found


def _moved(part: slice, by: int) -> slice:
    return slice(part.start + by, part.stop + by)


def _points_of(name: str, column: Column, names: Sequence[str]) -> list[Points]:
    if isinstance(column, Levels | Hashed):
        labels = _labels_of(column, names)
        found = _categories(name, labels, 0, len(labels), rest=_rest_of(column))
        if not isinstance(column, Hashed) or column.reference is None:
            return [found]
        usual = " or ".join(_known(column, names).get(column.reference, [f"#{column.reference}"]))
        return [_with_usual(found, usual, column.share)]
    if isinstance(column, Knots):
        return [_apart(name, column)] if column.shape == "apart" else list(_of_knots(name, column))
    assert isinstance(column, NumberColumn)
    return [_of_number(name, column)]


# ---- categories ---------------------------------------------------------------------------------------------


def _labels_of(column: Levels | Hashed, names: Sequence[str]) -> list[str]:
    """The labels of the features of a column of categories."""
    if isinstance(column, Levels):
        labels = [*column.levels, *(["(other)"] if column.unknown == "indicator" else [])]
    else:
        own = tuple(range(column.buckets)) if column.all_own else column.kept
        known = _known(column, names)
        labels = [" or ".join(known.get(bucket, [f"#{bucket}"])) for bucket in own]
        labels += [f"(other {i})" for i in range(_rest_of(column))]
    return [*labels, MISSING] if column.missing == "indicator" else labels


def _known(column: Hashed, names: Sequence[str]) -> dict[int, list[str]]:
    """Public values by their bucket."""
    known: dict[int, list[str]] = {}
    for text in names:
        known.setdefault(hash_of(text.strip()) % column.buckets, []).append(text.strip())
    return known


def _rest_of(column: Levels | Hashed) -> int:
    """How many features of a column belong to values without a feature of their own."""
    return column.rest if isinstance(column, Hashed) and not column.all_own else 0


def _categories(name: str, labels: Sequence[str], first: int, width: int, *, rest: int = 0) -> Points:
    """One point per feature, and one for all other values together; a missing cell has no share."""
    values = sp.eye_array(width, format="csr")
    shares = np.array([0.0 if label == MISSING else 1.0 for label in labels])
    if rest:
        start = width - rest - (labels[-1] == MISSING)
        mean = np.zeros((1, width))
        mean[0, start : start + rest] = 1.0 / rest
        values = sp.vstack([values[:start], sp.csr_array(mean), values[start + rest :]], format="csr")
        labels = [*labels[:start], "(other)", *labels[start + rest :]]
        shares = np.concatenate([shares[:start], [1.0], shares[start + rest :]])
    total = shares.sum()
    shares = shares / total if total else np.full(len(shares), 1.0 / len(shares))
    features = slice(first, first + width)
    return Points(name, name, "category", tuple(labels), None, shares, features, values)


def _with_usual(found: Points, label: str, share: float) -> Points:
    """The points, preceded by one for cells without a feature, which have the given share of the rows.

    The others count a little even if none of them was seen, as in the norm to which rows are scaled.
    """
    share = min(share, 1.0 - float(LEAST_SQUARE))
    blank = sp.csr_array((1, found.values.shape[1]))
    return replace(
        found,
        labels=(label, *found.labels),
        shares=np.append(share, (1.0 - share) * found.shares),
        values=sp.vstack([blank, found.values], format="csr"),
    )


def _crossed_labels(column: Column, names: Sequence[str]) -> list[str]:
    """The labels of the features that a column contributes to a cross."""
    if isinstance(column, Levels | Hashed):
        return _labels_of(column, names)
    if not isinstance(column, Knots):
        return []
    knots = [_shown(knot, column.timestamp) for knot in column.knots]
    labels = [f"{a} to {b}" for a, b in itertools.pairwise(knots)] if column.shape == "bins" else knots
    return [*labels, MISSING] if column.missing == "indicator" else labels


# ---- numbers and times ----------------------------------------------------------------------------------------


def _of_knots(name: str, column: Knots) -> Iterator[Points]:
    knots = np.array(column.knots, dtype=np.float64)
    cycles = column.cycles
    plain = replace(column, timestamp=False, cycles=(), means=())
    if column.shape == "bins":
        grid, shares = (knots[:-1] + knots[1:]) / 2.0, np.full(len(knots) - 1, 1.0 / (len(knots) - 1))
        labels = [
            f"{_shown(a, column.timestamp)} to {_shown(b, column.timestamp)}" for a, b in itertools.pairwise(knots)
        ]
    else:
        grid, shares = _grid(knots)
        grid = np.where(np.isin(grid, knots), grid, np.round(grid) if column.timestamp else grid)
        labels = [_shown(x, column.timestamp) for x in grid]
    values = _encoded(name, plain, [*grid.tolist(), None])
    functions = values.shape[1] - (column.missing == "indicator")
    # after the functions come the cycles, and then the indicator
    blank = sp.csr_array((values.shape[0], 2 * len(cycles)))
    values = sp.hstack([values[:, :functions], blank, values[:, functions:]], format="csr")
    whole = slice(0, values.shape[1])
    kind = "time" if column.timestamp else "number"
    places, labels, shares = np.append(grid, np.nan), [*labels, MISSING], np.append(shares, 0.0)
    yield Points(name, name, kind, tuple(labels), places, shares, whole, values)
    for number, cycle in enumerate(cycles):
        period, start = CYCLES[cycle]
        n = _PER_CYCLE[cycle]
        phase = np.arange(n, dtype=np.float64) * (period / n)
        both = np.stack(cycle_values(start + phase, cycle), axis=1)
        begin = functions + 2 * number
        labels = [_phase(cycle, seconds) for seconds in phase]
        share, part = np.full(n, 1.0 / n), slice(begin, begin + 2)
        yield Points(f"{name} ({cycle})", name, "cycle", tuple(labels), phase, share, part, sp.csr_array(both))


def _apart(name: str, column: Knots) -> Points:
    """Three points, below, usual and above, and a missing cell."""
    low, high = (_shown(knot, column.timestamp) for knot in column.knots)
    usual = low if low == high else f"{low} to {high}"
    labels = [f"below {low}", f"above {high}", *([MISSING] if column.missing == "indicator" else [])]
    return _with_usual(_categories(name, labels, 0, len(labels)), usual, column.share)


def _of_number(name: str, column: NumberColumn) -> Points:
    low, high = column.range if column.range is not None else (0.0, 1.0)
    ends = np.array([low, high], dtype=np.float64)
    grid = np.linspace(low, high, _PER_RANGE + 1) if column.scaling == "log" else ends
    shares = np.full(len(grid), 1.0 / len(grid))
    cells: list[Any] = grid.tolist()
    labels = [f"{x:.6g}" for x in grid]
    if column.missing in ("zero", "indicator"):
        cells, labels, shares = [*cells, None], [*labels, MISSING], np.append(shares, 0.0)
    values = _encoded(name, column, cells)
    places = np.array([np.nan if cell is None else cell for cell in cells])
    return Points(name, name, "number", tuple(labels), places, shares, slice(0, values.shape[1]), values)


def _grid(knots: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Points at the knots and between, and shares that give every interval between two knots equal weight."""
    steps = np.arange(_BETWEEN) / _BETWEEN
    inner = [a + (b - a) * steps if np.isfinite(b - a) else np.array([a]) for a, b in itertools.pairwise(knots)]
    grid = np.append(np.concatenate(inner), knots[-1])
    shares = np.zeros(len(grid))
    at = 0
    for part in inner:
        share = 1.0 / (len(inner) * len(part))
        shares[at : at + len(part)] += share / 2.0
        shares[at + 1 : at + len(part) + 1] += share / 2.0
        at += len(part)
    return grid, shares


def _encoded(name: str, column: Column, cells: Sequence[Any]) -> Any:
    """The features of synthetic cells of a column alone, by the encoder that rows go through."""
    schema = Schema(columns=((name, column),))
    stream = open_stream([{name: cell} for cell in cells], schema=schema, target=False)
    return sp.vstack([sp.csr_array(block.X) for block in stream], format="csr")


def _shown(x: float, timestamp: bool) -> str:
    return (time_text(float(x)) if timestamp else None) or f"{x:.6g}"


def _phase(cycle: str, seconds: float) -> str:
    """The position in a cycle."""
    if cycle == "week":
        return f"{_DAYS[int(seconds // 86400)]} {int(seconds % 86400 // 3600):02d}h"
    if cycle == "year":
        return f"day {int(seconds // 86400) + 1}"
    return f"{int(seconds // 3600):02d}h"
