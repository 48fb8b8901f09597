"""Columns as features, in ONNX: what an encoding makes of numbers between knots, of categories, and of crosses."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..encoding import cosines
from ..encoding.hashes import HASH_SEED
from ..encoding.schema import Schema
from ..encoding.schema_parts import Column, Drop, Hashed, Knots, Levels, NumberColumn
from ..encoding.times import CYCLES, TURN
from ..errors import InvalidParameter
from ..readers.written import Written
from ._onnx_graph import Graph

__all__ = ["encoded_rows"]

# Places of cells without a feature: refused ones make the whole row NaN.
_NONE, _REFUSED, _SHARED = -1, -2, -3
#: The narrowest logarithmic range: below it Log(1 + x) loses too many digits.
_NARROWEST = 1e-3
#: By this the kernel shortens positions in a cycle, so that they stay within the circle.
_SHRUNK = 1.0 - 2.0**-48


class _Part(NamedTuple):
    """A column: its features, shape (n, width), and what it contributes to crosses; None: it cannot be crossed."""

    features: str
    crossed: str | None


def encoded_rows(graph: Graph, schema: Schema) -> str:
    """Return the rows that a schema makes of one input for each column, shape (n, n_features).

    Raises
    ------
    InvalidParameter
        If it has a column that ONNX cannot express.
    """
    if schema.rows is not None:
        raise InvalidParameter("ONNX has no sparse rows: the encoding keeps frequent features of them")
    if schema.others == "number":
        raise InvalidParameter('others = "number" takes in columns that the schema does not name: name them')
    written = Written(schema.missing_cells, schema.file.get("decimal", "."))
    parts = {
        name: _column(graph, name, column, written) for name, column in schema.columns if not isinstance(column, Drop)
    }
    features = [part.features for part in parts.values()]
    for left, right in schema.crosses:
        features.append(_cross(graph, parts[left], parts[right]))
    return graph.beside(features)


def _column(graph: Graph, name: str, column: Column, written: Written) -> _Part:
    if isinstance(column, NumberColumn):
        return _Part(_number(graph, graph.input(name, 1), column, name, written), None)
    if isinstance(column, Knots):
        return _knots(graph, graph.input(name, 1), column, written)
    assert isinstance(column, Levels | Hashed)
    if isinstance(column, Levels) and not all(isinstance(cell, str) for cell, _ in column.cells):
        return _numbered_levels(graph, name, column, written)
    cells = graph.input(name, 1, text=True)
    if isinstance(column, Levels):
        return _indicators(graph, *_levels(graph, cells, column, written), ())
    return _indicators(graph, *_hashed(graph, cells, column, written), column.means)


def _missing(graph: Graph, cells: str, markers: tuple[float, ...]) -> str:
    """Where numbers count as missing: NaN, and numbers that stand for a missing cell."""
    return graph.either(graph.nan(cells), *([graph.equals(cells, *markers)] if markers else []))


def _flagged(graph: Graph, features: str, missing: str, column: NumberColumn | Knots) -> str:
    return graph.beside([features, graph.cast(missing)]) if column.missing == "indicator" else features


# ---- numbers -----------------------------------------------------------------------------------------------


def _number(graph: Graph, cells: str, column: NumberColumn, name: str, written: Written) -> str:
    missing = _missing(graph, cells, written.missing_numbers)
    filled = math.nan if isinstance(column.missing, str) else float(column.missing)
    value = graph.apply("Where", missing, graph.constant(filled), cells)
    if column.range is not None:
        low, high = column.range
        kept, plain = value, graph.apply("Abs", value)
        if column.scaling == "log":
            if high - low < _NARROWEST:
                raise InvalidParameter(
                    f"columns.{name}: ONNX needs a logarithmic range of at least {_NARROWEST:g}, found {high - low:g}"
                )
            moved = graph.apply("Sub", graph.clipped(value, low, high), graph.constant(low))
            logs = graph.apply("Log", graph.apply("Add", moved, graph.constant(1.0)))
            share = graph.scaled("Div", logs, math.log1p(high - low))
            value = graph.apply("Sub", graph.apply("Mul", share, graph.constant(2.0)), graph.constant(1.0))
        else:
            moved = graph.apply("Sub", value, graph.constant(low / 2 + high / 2))
            value = graph.scaled("Div", moved, high / 2 - low / 2)
        value = graph.clipped(value, -1.0, 1.0)
        if column.onto != (-1.0, 1.0):
            first, last = column.onto
            value = graph.scaled("Mul", value, last / 2 - first / 2)
            value = graph.clipped(graph.apply("Add", value, graph.constant(first / 2 + last / 2)), first, last)
        # what is not finite stays as it is, so that the row has no score
        odd = graph.either(graph.equals(plain, math.inf), graph.nan(kept))
        value = graph.apply("Where", odd, kept, value)
    if column.missing in ("zero", "indicator"):
        value = graph.apply("Where", missing, graph.constant(0.0), value)
    return _flagged(graph, value, missing, column)


def _knots(graph: Graph, cells: str, column: Knots, written: Written) -> _Part:
    knots = np.array(column.knots)
    if column.shape == "linear":
        knots = knots[[0, -1]]
    # of a time that stands for a missing cell the text decides, which whoever calls has
    missing = _missing(graph, cells, () if column.timestamp else written.missing_numbers)
    value = graph.apply("Where", missing, graph.constant(knots[0]), cells)
    none = graph.constant(0.0)
    cycles = [part for cycle in column.cycles for part in _cycle(graph, value, missing, *CYCLES[cycle])]

    def part(functions: str, crossed: str | None) -> _Part:
        features = _flagged(graph, graph.beside([functions, *cycles]), missing, column)
        if column.means:
            features = graph.apply("Sub", features, graph.constant([column.means]))
        return _Part(features, None if crossed is None else _flagged(graph, crossed, missing, column))

    if column.shape == "apart":
        below = graph.apply("Less", value, graph.constant(knots[0]))
        above = graph.apply("Greater", value, graph.constant(knots[-1]))
        functions = graph.beside([graph.cast(below), graph.cast(above)])
        return part(graph.apply("Where", missing, none, functions), None)
    value = graph.clipped(value, knots[0], knots[-1])
    # the last comparison is never true: with two knots there is no inner one, and a sum needs a term
    inner = np.append(knots[1:-1], math.inf)
    beyond = graph.apply("GreaterOrEqual", value, graph.constant(inner[None]))
    left = graph.along("ReduceSum", graph.cast(beyond, np.int64))
    if column.shape == "bins":
        functions = graph.apply("Where", missing, none, graph.indicators(left, len(knots) - 1))
        return part(functions, functions)
    with np.errstate(over="ignore"):
        factors = np.where(np.isinf(np.diff(knots)), 0.5, 1.0)
    lows = knots[:-1] * factors
    widths = knots[1:] * factors - lows
    scaled = graph.apply("Mul", value, graph.rows_of(factors[:, None], left))
    moved = graph.apply("Sub", scaled, graph.rows_of(lows[:, None], left))
    one = graph.constant(1.0)
    rest = graph.apply("Sub", one, graph.apply("Div", moved, graph.rows_of(widths[:, None], left)))
    share = graph.apply("Sub", one, rest)  # exactly the rest, as in the encoding
    if column.shape == "linear":
        functions = graph.apply("Where", missing, none, graph.apply("Sub", share, rest))
        return part(functions, None)
    right = graph.apply("Add", left, graph.constant(1, np.int64))
    hats = graph.apply(
        "Add",
        graph.apply("Mul", graph.indicators(left, len(knots)), rest),
        graph.apply("Mul", graph.indicators(right, len(knots)), share),
    )
    hats = functions = graph.apply("Where", missing, none, hats)
    if column.shape == "cosine":
        at = cosines.at_knots(len(knots))
        steps = graph.apply("Mul", graph.rows_of(np.diff(at, axis=0), left), share)
        functions = graph.apply("Add", graph.rows_of(at[:-1], left), steps)
        functions = graph.apply("Where", missing, none, functions)
    return part(functions, hats)


def _cycle(graph: Graph, seconds: str, missing: str, period: float, start: float) -> tuple[str, str]:
    """Return cosine and sine of times in a cycle, by the steps of the encoding's kernel: a table and a polynomial."""

    def times(value: str, factor: float | str) -> str:
        return graph.apply("Mul", value, factor) if isinstance(factor, str) else graph.scaled("Mul", value, factor)

    def polynomial(y: str, *coefficients: float) -> str:
        found = graph.constant(coefficients[-1])
        for coefficient in coefficients[-2::-1]:
            found = graph.apply("Add", graph.constant(coefficient), times(y, found))
        return found

    parts = len(TURN)
    far = graph.apply("Greater", graph.apply("Abs", seconds), graph.constant(2.0**52))
    none = graph.either(missing, far)
    moved = graph.apply("Sub", seconds, graph.constant(float(start)))
    moved = graph.apply("Where", none, graph.constant(0.0), moved)
    here = graph.apply("Sub", moved, times(graph.apply("Round", times(moved, 1.0 / period)), float(period)))
    nearest = graph.apply("Round", times(here, parts / period))
    x = times(graph.apply("Sub", here, times(nearest, period / parts)), 2.0 * math.pi / period)
    y = times(x, x)
    sine = graph.apply("Add", x, times(times(x, y), polynomial(y, -1.0 / 6.0, 1.0 / 120.0, -1.0 / 5040.0)))
    less = times(y, polynomial(y, -0.5, 1.0 / 24.0, -1.0 / 720.0))  # cosine - 1
    at = graph.apply("Mod", graph.cast(nearest, np.int64), graph.constant(parts, np.int64))
    cosine_at, sine_at = (graph.rows_of(TURN[:, k : k + 1], at) for k in (0, 1))
    moves = (
        graph.apply("Sub", times(cosine_at, less), times(sine_at, sine)),
        graph.apply("Add", times(sine_at, less), times(cosine_at, sine)),
    )
    both = [times(graph.apply("Add", at, move), _SHRUNK) for at, move in zip((cosine_at, sine_at), moves, strict=True)]
    first, second = (graph.apply("Where", none, graph.constant(0.0), value) for value in both)
    return first, second


# ---- categories --------------------------------------------------------------------------------------------


def _indicators(graph: Graph, places: str, width: int, means: tuple[float, ...]) -> _Part:
    """Return 0/1 features at places, NaN where a cell is refused."""
    found = graph.indicators(places, width)
    refused = graph.equals(places, _REFUSED, dtype=np.int64)
    found = graph.apply("Where", refused, graph.constant(math.nan), found)
    return _Part(graph.apply("Sub", found, graph.constant([means])) if means else found, found)


def _place(rule: str, feature: int) -> int:
    return {"refuse": _REFUSED, "zero": _NONE}.get(rule, feature)


def _levels(graph: Graph, cells: str, column: Levels, written: Written) -> tuple[str, int]:
    levels = column.levels
    unknown = _place(column.unknown, len(levels))
    width = len(levels) + (column.unknown == "indicator")
    missing = _place(column.missing, width)
    known = {str(cell): levels.index(level) for cell, level in column.cells} | dict.fromkeys(written.missing, missing)
    return _coded(graph, cells, known, unknown), width + (column.missing == "indicator")


def _coded(graph: Graph, cells: str, known: dict[str, int], other: int) -> str:
    return graph.apply(
        "LabelEncoder",
        cells,
        domain="ai.onnx.ml",
        keys_strings=list(known),
        values_int64s=list(known.values()),
        default_int64=other,
    )


def _numbered_levels(graph: Graph, name: str, column: Levels, written: Written) -> _Part:
    """Levels whose cells are all numbers: the input has numbers, too."""
    if any(isinstance(cell, str) for cell, _ in column.cells):
        raise InvalidParameter(f"columns.{name}: ONNX cannot compare a cell with numbers and with texts, found both")
    levels, cells = column.levels, graph.input(name, 1)
    unknown, width = _place(column.unknown, len(levels)), len(levels) + (column.unknown == "indicator")
    places = graph.constant(unknown, np.int64)
    for cell, level in column.cells:
        same = graph.equals(cells, float(cell))
        places = graph.apply("Where", same, graph.constant(levels.index(level), np.int64), places)
    missing = graph.constant(_place(column.missing, width), np.int64)
    places = graph.apply("Where", _missing(graph, cells, written.missing_numbers), missing, places)
    return _indicators(graph, places, width + (column.missing == "indicator"), ())


def _hashed(graph: Graph, cells: str, column: Hashed, written: Written) -> tuple[str, int]:
    hashes = graph.apply("MurmurHash3", cells, domain="com.microsoft", seed=HASH_SEED, positive=1)
    hashes = graph.cast(hashes, np.int64)
    places = graph.apply("Mod", hashes, graph.constant(column.buckets, np.int64))
    width = column.buckets
    if not column.all_own:
        own, width = len(column.kept), len(column.kept) + column.rest
        table = np.full((column.buckets, 1), _SHARED, dtype=np.int64)
        table[list(column.kept), 0] = np.arange(own)
        if column.reference is not None:
            table[column.reference] = _NONE
        places = graph.rows_of(table, places)
        shared = graph.equals(places, _SHARED, dtype=np.int64)
        others = graph.constant(_NONE, np.int64)
        if column.rest:
            others = graph.apply("Mod", hashes, graph.constant(column.rest, np.int64))
            others = graph.apply("Add", others, graph.constant(own, np.int64))
        places = graph.apply("Where", shared, others, places)
    missing = graph.equals(_coded(graph, cells, dict.fromkeys(written.missing, 1), 0), 1, dtype=np.int64)
    places = graph.apply("Where", missing, graph.constant(_place(column.missing, width), np.int64), places)
    return places, width + (column.missing == "indicator")


# ---- crosses -----------------------------------------------------------------------------------------------


def _cross(graph: Graph, left: _Part, right: _Part) -> str:
    """The products of the features of two columns, of which those of the second change fastest."""
    assert left.crossed is not None
    assert right.crossed is not None
    first = graph.apply("Unsqueeze", left.crossed, graph.constant([2], np.int64))
    second = graph.apply("Unsqueeze", right.crossed, graph.constant([1], np.int64))
    products = graph.apply("Mul", first, second)
    return graph.apply("Flatten", products, axis=1)
