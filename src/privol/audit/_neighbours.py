"""Pairs of neighbouring tables to try: extreme rows among constant, spread and doubled ones, and empty tables."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._validate import integer, number
from ..errors import InvalidParameter
from ._bounds import FloatArray

__all__ = ["Domain", "Pair", "given_pair", "mutated", "pairs_to_try", "table_of"]

_COORDINATES = 6  # at most this many columns get extreme rows of their own
_DIFFERENCES = 12  # ways in which a row may differ, at most


@dataclass(frozen=True)
class Domain:
    """The rows that a claim covers: the range of each column, and a bound on their length.

    Parameters
    ----------
    low, high : sequence of float
        Range of each column, both ends included; finite, ``low <= high``.
    norm : float, optional
        Largest L2 norm of a row, above 0. Default: the ranges alone.
    levels : mapping of int to sequence of float, optional
        Of columns (from 0) that hold one of a few values only: these values.

    Raises
    ------
    InvalidParameter
        If there is no column, or a parameter is out of its range; the message names the column.

    Examples
    --------
    >>> from privol.audit import Domain
    >>> ages_and_labels = Domain([0.0, 0.0], [120.0, 1.0], levels={1: (0.0, 1.0)})
    >>> ages_and_labels.columns
    2
    """

    low: Sequence[float]
    high: Sequence[float]
    norm: float | None = None
    levels: Mapping[int, Sequence[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.low) != len(self.high) or not len(self.low):
            raise InvalidParameter(
                f"low and high must have one value for each column, found {len(self.low)} and {len(self.high)}"
            )
        for k, (low, high) in enumerate(zip(self.low, self.high, strict=True)):
            least: dict[str, Any] = {f"low[{k}]": low}
            most: dict[str, Any] = {f"high[{k}]": high}
            number(**least)
            number(**most, at_least=float(low))
        if self.norm is not None:
            number(norm=self.norm, above=0.0)
        for column, values in self.levels.items():
            named: dict[str, Any] = {"column of levels": column}
            integer(**named, at_least=0, at_most=self.columns - 1)
            if not len(values):
                raise InvalidParameter(f"levels of column {column} must have at least one value")
            for value in values:
                level: dict[str, Any] = {f"levels of column {column}": value}
                number(**level, at_least=float(self.low[column]), at_most=float(self.high[column]))

        least_norm = float(np.linalg.norm(self._shortest()))
        if self.norm is not None and least_norm > self.norm:
            raise InvalidParameter(
                f"norm must be at least that of the shortest row, {least_norm:g}, found {self.norm:g}"
            )

    @property
    def columns(self) -> int:
        """Number of columns."""
        return len(self.low)

    def within(self, row: FloatArray) -> FloatArray:
        """Return the row of the domain nearest to this one.

        It is clipped to ranges and levels, then moved towards the shortest row until it has the norm.
        """
        row = np.clip(row, self.low, self.high)
        for column, values in self.levels.items():
            allowed = np.asarray(values, dtype=np.float64)
            row[column] = allowed[np.argmin(np.abs(allowed - row[column]))]
        if self.norm is None or np.linalg.norm(row) <= self.norm:
            return np.asarray(row)
        shortest = self._shortest()
        for column in self.levels:  # values with levels are not scaled
            kept = shortest.copy()
            kept[column] = row[column]
            if np.linalg.norm(kept) <= self.norm:
                shortest = kept
            row[column] = shortest[column]
        share, over = 0.0, 1.0  # of the way from the shortest row to this one
        for _ in range(60):
            middle = (share + over) / 2
            if np.linalg.norm(shortest + middle * (row - shortest)) <= self.norm:
                share = middle
            else:
                over = middle
        return np.clip(shortest + share * (row - shortest), self.low, self.high)

    def _shortest(self) -> FloatArray:
        row: FloatArray = np.clip(np.zeros(self.columns), self.low, self.high)
        for column, values in self.levels.items():
            row[column] = min(values, key=abs)
        return row

    def has(self, row: FloatArray) -> bool:
        """Return whether the row is within ranges, levels and norm."""
        inside = bool(((row >= self.low) & (row <= self.high)).all())
        inside &= all(row[column] in values for column, values in self.levels.items())
        return inside and (self.norm is None or float(np.linalg.norm(row)) <= self.norm)


@dataclass(frozen=True)
class Pair:
    """Two neighbouring tables, and the number (from 1) of the row in which they differ."""

    first: FloatArray
    second: FloatArray
    at: int
    kind: str

    def sentence(self) -> str:
        """Return the pair as plain text."""
        sizes = " and ".join(f"{len(table):,}" for table in (self.first, self.second))
        one, other = (_shown(table, self.at) for table in (self.first, self.second))
        if len(self.first) == len(self.second):
            rows = "1 row" if len(self.first) == 1 else f"{len(self.first):,} rows"
            return f"tables of {rows} ({self.kind}), of which row {self.at} is {one} or {other}"
        return f"tables of {sizes} rows ({self.kind}): the second has row {self.at} more, {other}"


def _shown(table: FloatArray, at: int) -> str:
    if at > len(table):
        return "missing"
    values = [f"{value:.6g}" for value in table[at - 1][:6]]
    return f"[{', '.join(values)}{', ...' if table.shape[1] > 6 else ''}]"


def table_of(rows: Any, columns: int, what: str) -> FloatArray:
    """A given table; InvalidParameter names its first invalid row."""
    try:
        table = np.array(rows, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidParameter(f"{what} must have rows of {columns} numbers each") from None
    if table.ndim == 1 and (columns == 1 or not len(table)):
        table = table.reshape(-1, columns)
    if table.ndim != 2 or table.shape[1] != columns:
        raise InvalidParameter(f"{what} must have rows of {columns} numbers each, found shape {table.shape}")
    bad = np.flatnonzero(~np.isfinite(table).all(axis=1))
    if len(bad):
        raise InvalidParameter(f"row {bad[0] + 1} of {what} is not finite: {table[bad[0]].tolist()}")
    return table


def given_pair(first: Any, second: Any, columns: int, adjacency: str) -> Pair:
    """A given pair; InvalidParameter if the two tables are not neighbours."""
    one, other = table_of(first, columns, "the first table"), table_of(second, columns, "the second table")
    if adjacency == "add_remove":
        shorter, longer = sorted((one, other), key=len)
        if len(longer) == len(shorter) + 1:
            for at in range(len(longer)):
                if np.array_equal(np.delete(longer, at, axis=0), shorter):
                    return Pair(one, other, at + 1, "given") if len(one) < len(other) else Pair(
                        other, one, at + 1, "given")  # fmt: skip
        raise InvalidParameter("tables of a pair must be equal, but for one row that only one of them has")
    if len(one) != len(other):
        raise InvalidParameter(f"tables of a pair must have equally many rows, found {len(one)} and {len(other)}")
    differ = np.flatnonzero((one != other).any(axis=1))
    if len(differ) != 1:
        raise InvalidParameter(f"tables of a pair must differ in one row, found {len(differ)} that differ")
    at = int(differ[0])
    if adjacency == "zero_out" and one[at].any() and other[at].any():
        raise InvalidParameter(f"in one table of a pair row {at + 1} must be zeros, where adjacency is 'zero_out'")
    return Pair(one, other, at + 1, "given")


def _extremes(domain: Domain, rng: np.random.Generator) -> list[FloatArray]:
    """Rows at the boundary of the domain, farthest first, without repetitions."""
    low, high = np.asarray(domain.low, dtype=np.float64), np.asarray(domain.high, dtype=np.float64)
    middle = low + (high - low) / 2
    origin = np.clip(np.zeros(len(low)), low, high)
    found = [high, low]
    for k in range(min(domain.columns, _COORDINATES)):
        for base in (origin, middle):
            for value in (high[k], low[k]):
                row = base.copy()
                row[k] = value
                found.append(row)
    found += [np.where(rng.random(len(low)) < 0.5, low, high) for _ in range(2)]
    found += [np.where(np.arange(len(low)) % 2 == 0, low, high), origin, middle]
    # a value of each level, for columns with levels
    for column, values in domain.levels.items():
        for value in values:
            for base in (low, high):
                row = base.copy()
                row[column] = value
                found.append(row)
    unique: dict[bytes, FloatArray] = {}
    for row in found:
        row = domain.within(row) + 0.0  # no negative zeros
        unique.setdefault(row.tobytes(), row)
    return list(unique.values())


def _differences(
    rows: list[FloatArray], adjacency: str, rng: np.random.Generator
) -> Sequence[tuple[FloatArray | None, FloatArray]]:
    """The differing row in the two tables: the farthest pairs first, and some others."""
    if adjacency == "add_remove":
        return [(None, row) for row in rows[:_DIFFERENCES]]
    if adjacency == "zero_out":
        zero: FloatArray = np.zeros(len(rows[0]))
        return [(zero, row) for row in rows if row.any()][:_DIFFERENCES]
    both = sorted(itertools.combinations(range(len(rows)), 2), key=lambda p: -np.linalg.norm(rows[p[0]] - rows[p[1]]))
    far, others = both[: _DIFFERENCES // 2], both[_DIFFERENCES // 2 :]
    if others:
        chosen = rng.choice(len(others), min(len(others), _DIFFERENCES // 2), replace=False)
        far += [others[k] for k in sorted(chosen)]
    return [(rows[i], rows[j]) for i, j in far]


def _others(domain: Domain, n: int, rows: list[FloatArray], one: FloatArray, other: FloatArray,
            rng: np.random.Generator) -> Iterator[tuple[str, FloatArray]]:  # fmt: skip
    """Tables of ``n`` other rows."""
    if not n:
        yield "alone", np.empty((0, domain.columns))
        return
    yield "all others low", np.tile(rows[1 % len(rows)], (n, 1))
    yield "all others high", np.tile(rows[0], (n, 1))
    yield "all others like it", np.tile(other, (n, 1))
    if domain.has(one):  # rows of zeros may be outside the domain
        yield "all others as it was", np.tile(one, (n, 1))
    steps = np.linspace(np.asarray(domain.low, dtype=np.float64), np.asarray(domain.high, dtype=np.float64), n)
    yield "others spread", np.array([domain.within(row) for row in steps])
    yield "half low, half high", np.array([rows[k % 2 if len(rows) > 1 else 0] for k in range(n)])
    spread = rng.uniform(domain.low, domain.high, size=(n, domain.columns))
    yield "others at random", np.array([domain.within(row) for row in spread])


def _pair(one: FloatArray | None, other: FloatArray, rest: FloatArray, at: int, kind: str) -> Pair:
    """Tables with the differing row as number ``at`` (from 0); None: the first table lacks it."""
    first = rest.copy() if one is None else np.insert(rest, at, one, axis=0)
    return Pair(first, np.insert(rest, at, other, axis=0), at + 1, kind)


def pairs_to_try(
    domain: Domain, *, adjacency: str, sizes: Sequence[int], tables: Sequence[FloatArray], at_most: int,
    rng: np.random.Generator,
) -> list[Pair]:  # fmt: skip
    """Neighbouring tables, up to a number: of each size those that differ most, and others by chance.

    Parameters
    ----------
    domain : Domain
    adjacency : {"replace", "add_remove", "zero_out"}
    sizes : sequence of int
        Rows of the first table of a pair; the second has one more where ``adjacency`` is "add_remove".
    tables : sequence of ndarray
        Further tables whose neighbours are used.
    at_most : int
    rng : numpy.random.Generator
        Decides which of many are tried.
    """
    rows = _extremes(domain, rng)
    groups: list[list[Pair]] = []
    for size in sizes:
        rest = size if adjacency == "add_remove" else size - 1
        group: list[Pair] = []
        for one, other in _differences(rows, adjacency, rng):
            before = rows[0] if one is None else one
            for kind, others in _others(domain, rest, rows, before, other, rng):
                group += [_pair(one, other, others, at, kind) for at in sorted({0, rest})]
        groups.append(group)
    for table in tables:
        group = []
        for one, other in _differences(rows, adjacency, rng):
            for at in sorted({0, len(table) // 2, len(table) - (adjacency != "add_remove")}):
                rest_rows = table if adjacency == "add_remove" else np.delete(table, at, axis=0)
                group.append(_pair(one, other, rest_rows, at, "of a table given"))
            if adjacency == "replace":  # an existing row becomes an extreme one
                at = int(rng.integers(len(table)))
                group.append(_pair(table[at], other, np.delete(table, at, axis=0), at, "of a table given"))
        groups.append(group)
    groups = [_each_once(group) for group in groups]
    chosen: list[Pair] = []
    for k, group in enumerate(sorted(groups, key=len)):  # the larger groups may use what a small group leaves
        share = (at_most - len(chosen)) // (len(groups) - k)
        first = group[: (share + 1) // 2]
        rest_of = group[len(first) :]
        picks = rng.permutation(len(rest_of))[: share - len(first)]
        chosen += [*first, *(rest_of[i] for i in sorted(picks.tolist()))]
    return chosen


def _each_once(pairs: Sequence[Pair]) -> list[Pair]:
    found: dict[tuple[bytes, bytes], Pair] = {}
    for pair in pairs:
        if len(pair.first) != len(pair.second) or not np.array_equal(pair.first, pair.second):
            found.setdefault((pair.first.tobytes(), pair.second.tobytes()), pair)
    return list(found.values())


def mutated(pair: Pair, domain: Domain, adjacency: str, rng: np.random.Generator) -> Pair:
    """A pair like this one, with another differing row, or with some of the other rows replaced."""
    rows = _extremes(domain, rng)
    at = pair.at - 1
    rest = np.delete(pair.second, at, axis=0)
    one = None if adjacency == "add_remove" else pair.first[at]
    other = pair.second[at]
    if not len(rest) or rng.random() < 0.3:
        other = rows[rng.integers(len(rows))]
    else:
        some = rng.random(len(rest)) < max(1.0 / len(rest), rng.random() / 2)
        rest[some] = rows[rng.integers(len(rows))]
    if one is not None and np.array_equal(one, other):
        return pair
    return _pair(one, other, rest, at, "found by search")
