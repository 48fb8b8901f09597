"""Reads schemas: checks the structure of a TOML file and names the place of an error."""

from __future__ import annotations

import codecs
import difflib
import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any, NoReturn, TypeVar

from .._validate import as_float, choice, integer, number
from ..errors import InvalidParameter
from ..readers.formats import FORMATS
from .labels import label_key
from .schema_parts import (
    MISSING,
    MOST_HASHED,
    MOST_HIDDEN_USERS,
    MOST_USERS,
    UNKNOWN,
    WIDEST,
    Cell,
    Column,
    Delay,
    Drop,
    FrequentFeatures,
    Hashed,
    Knots,
    Learnt,
    Levels,
    NumberColumn,
    Pair,
    Target,
    User,
)  # fmt: skip
from .times import CYCLES, seconds_of
from .users_taught import MOST_ROWS

__all__ = ["SchemaReader", "nearest"]

MAX_BUCKETS = 1 << 24
_Mapped = TypeVar("_Mapped", Hashed, Knots)
_TABLES = ("file", "learnt", "target", "user", "delay", "columns", "rows")
_LISTS = ("cross",)
_SHAPES = ("cosine", "spline", "linear", "bins", "apart")
_FLAGS = ("others", "derived_from_data")
_COLUMN_KEYS = (
    "drop", "range", "onto", "scaling", "levels", "hash", "kept", "rest", "reference", "knots", "shape",
    "timestamp", "cycles", "share", "means", "missing", "unknown",
)  # fmt: skip
_FILE_KEYS = ("format", "header", "names", "sep", "comment", "missing", "encoding", "decimal", "newlines_in_values")
# How similar two words must be for one to be taken for a misspelling of the other.
_CLOSE = 0.8
_FORMATS = tuple(name for name, format in FORMATS.items() if format.columns)


def nearest(word: str, allowed: Collection[str], taken: Collection[str] = ()) -> str:
    """Return " (did you mean 'x'?)" for the allowed word that is closest to a wrong one, or nothing.

    Words that are ``taken``, because they are used with their own meaning, are not suggested; nor is a word with other
    digits, such as ``x12`` for ``x11``.
    """
    ours, letters = _letters(word), {a: _letters(a) for a in allowed if a not in taken}
    # Few typing errors concern the first letter: weight is not a misspelling of height.
    alike = {a: plain for a, plain in letters.items() if plain[:1] == ours[:1] and _digits(plain) == _digits(ours)}
    found = [a for a, plain in alike.items() if plain == ours] if ours else []
    if ours and not found:
        close = difflib.get_close_matches(ours, list(alike.values()), n=1, cutoff=_CLOSE)
        found = [a for a, plain in alike.items() if plain in close]
    return f" (did you mean {found[0]!r}?)" if found else ""


def _letters(word: str) -> str:
    return "".join(c for c in word.casefold() if c.isalnum())


def _digits(word: str) -> str:
    return "".join(c for c in word if c.isdigit())


class SchemaReader:
    """Checks a mapping of the structure of the TOML file; every error names its place in it."""

    def __init__(self, name: str, partial: bool = False) -> None:
        self._name, self._partial = name, partial

    def read(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """Return the attributes of the schema by name."""
        self._known(found, "", (*_TABLES, *_LISTS, *_FLAGS))
        for table in _TABLES:
            if table in found and not isinstance(found[table], Mapping):
                self._fail(table, f"must be a table, found {found[table]!r}")
        derived = found.get("derived_from_data", False)
        if not isinstance(derived, bool):
            self._fail("derived_from_data", f"must be true or false, found {derived!r}")
        columns = tuple((str(n).strip(), self._column(str(n).strip(), c)) for n, c in found.get("columns", {}).items())
        names = [name for name, _ in columns]
        if twice := [name for name in names if names.count(name) > 1]:
            self._fail(f"columns.{twice[0]}", "stands there twice")
        parts: dict[str, Any] = {
            "columns": columns,
            "target": self._target(found["target"]) if "target" in found else None,
            "user": self._user(found["user"]) if "user" in found else None,
            "delay": self._delay(found["delay"]) if "delay" in found else None,
            "learnt": self._learnt(found["learnt"]) if "learnt" in found else None,
            "others": self._choice("others", found.get("others", "refuse"), ("refuse", "drop", "number")),
            "derived_from_data": derived,
            "file_options": self._file(found.get("file", {})),
            "rows": self._rows(found) if "rows" in found else None,
            "crosses": self._crosses(found.get("cross", [])),
            "name": self._name,
        }
        if parts["rows"] is not None:
            return parts
        self._together(**{key: parts[key] for key in ("columns", "target", "user", "delay", "others", "file_options")})
        return parts

    def _together(
        self,
        columns: tuple[tuple[str, Column], ...],
        target: Target | None,
        user: User | None,
        delay: Delay | None,
        others: str,
        file_options: tuple[tuple[str, Any], ...],
    ) -> None:
        """Check that the tables agree with each other."""
        names = dict(file_options).get("names")
        kinds = dict(columns)
        special: dict[str, str | int] = {}
        if target is not None:
            special["target.column"] = target.column
        if user is not None:
            special["user.column"] = user.column
        if delay is not None:
            special["delay.key"] = delay.key
            if target is None:
                self._fail("delay", "needs a [target]: it is the target that comes later")
        for place, column in special.items():
            if names is not None and isinstance(column, int):
                if not -len(names) <= column < len(names):
                    self._fail(place, f"must be a name or from {-len(names)} to {len(names) - 1}, found {column}")
                special[place] = names[column]
            elif names is None and isinstance(column, int) and column >= 0:
                special[place] = str(column)
        for place, at in special.items():
            found = kinds.get(str(at))
            if found is not None and (place == "target.column" or not isinstance(found, Drop)):
                self._fail(f"columns.{at}", f"is the column of {place} and cannot be a feature as well, take it out")
            if place != "target.column" and at == special.get("target.column"):
                self._fail(place, f"must be another column than the target {at!r}")
        features = {name: f"columns.{name}" for name, column in columns if not isinstance(column, Drop)}
        if names is not None:
            wanted = [(place, name) for name, place in features.items()] + list(special.items())
            used = [str(name) for _, name in wanted]
            for place, name in wanted:
                if name not in names:
                    self._fail(place, f"is {name!r}, which is not among file.names{nearest(str(name), names, used)}")
        if not features and others != "number" and not self._partial:
            self._fail("columns", 'names no feature, at least one is needed (or others = "number")')

    # --- tables ------------------------------------------------------------------------------

    def _column(self, name: str, found: Any) -> Column:
        place = f"columns.{name}"
        if not isinstance(found, Mapping):
            self._fail(place, f"must be a table, found {found!r}")
        self._known(found, place, _COLUMN_KEYS)
        kinds = [key for key in ("drop", "range", "levels", "hash", "knots") if key in found]
        if len(kinds) > 1:
            self._fail(place, f"must have one of drop, range, levels, hash, knots, found {' and '.join(kinds)}")
        kind = kinds[0] if kinds else "range"
        allowed = {
            "drop": ("drop",),
            "levels": ("levels", "missing", "unknown"),
            "hash": ("hash", "kept", "rest", "reference", "share", "means", "missing"),
            "knots": ("knots", "shape", "timestamp", "cycles", "share", "means", "missing"),
            "range": ("range", "onto", "scaling", "missing"),
        }[kind]
        for key in found:
            if key not in allowed:
                what = "a column of numbers" if kind == "range" else f"a column with {kind}"
                self._fail(f"{place}.{key}", f"has no meaning for {what}, allowed are {', '.join(allowed)}")
        if kind == "drop":
            if found["drop"] is not True:
                self._fail(f"{place}.drop", f"must be true or left out, found {found['drop']!r}")
            return Drop()
        if kind == "range":
            return self._number_column(place, found)
        if kind == "knots":
            return self._knots_column(place, found)
        policies = ("refuse", "zero", "indicator")
        missing = self._choice(f"{place}.missing", found.get("missing", "indicator"), policies)
        if kind == "hash":
            buckets = integer(at_least=2, at_most=MAX_BUCKETS, **{f"{self._name}: {place}.hash": found["hash"]})
            kept, rest, reference = self._kept(place, found, buckets)
            share = self._share(place, found, "reference", given=reference is not None)
            return self._around(place, found, Hashed(buckets, missing, kept, rest, reference, share), 0.0)
        unknown = self._choice(f"{place}.unknown", found.get("unknown", "indicator"), policies)
        return Levels(self._cells(f"{place}.levels", found["levels"]), missing, unknown)

    def _knots_column(self, place: str, found: Mapping[str, Any]) -> Knots:
        given = found["knots"]
        if not isinstance(given, (list, tuple)) or len(given) < 2:
            self._fail(f"{place}.knots", f"must be a list of at least two numbers, found {given!r}")
        times = found.get("timestamp", False)
        if not isinstance(times, bool):
            self._fail(f"{place}.timestamp", f"must be true or false, found {times!r}")
        if times:
            given = [seconds_of(knot) if isinstance(knot, date) else knot for knot in given]
        knots = tuple(number(**{f"{self._name}: {place}.knots": knot}) for knot in given)
        shape = self._choice(f"{place}.shape", found.get("shape", "spline"), _SHAPES)
        apart = shape == "apart"
        if apart and len(knots) != 2:
            self._fail(f"{place}.knots", f'must be low and high with shape = "apart", found {list(knots)}')
        if any(low > high or (low == high and not apart) for low, high in itertools.pairwise(knots)):
            self._fail(f"{place}.knots", f"must ascend, found {list(knots)}")
        missing = self._choice(f"{place}.missing", found.get("missing", "indicator"), ("indicator", "zero"))
        cycles = self._cycles(f"{place}.cycles", found.get("cycles", ()), times)
        if apart and cycles:
            self._fail(f"{place}.cycles", 'has no meaning with shape = "apart"')
        share = self._share(place, found, 'shape = "apart"', given=apart)
        return self._around(place, found, Knots(knots, shape, missing, times, cycles, share), -1.0)

    def _around(self, place: str, found: Mapping[str, Any], column: _Mapped, least: float) -> _Mapped:
        """Return a column with the stated means of its features, if any."""
        given = found.get("means", ())
        if not isinstance(given, (list, tuple)) or (given and len(given) != column.n_features):
            self._fail(
                f"{place}.means",
                f"must be a list of {column.n_features} numbers, one for each feature, found {given!r}",
            )
        bounds: dict[str, Any] = {"at_least": least, "at_most": 1.0}
        means = tuple(number(**bounds, **{f"{self._name}: {place}.means": mean}) for mean in given)
        return replace(column, means=means)

    def _share(self, place: str, found: Mapping[str, Any], of: str, *, given: bool) -> float:
        if "share" in found and not given:
            self._fail(f"{place}.share", f"is for {of}, which is not given")
        named: dict[str, Any] = {f"{self._name}: {place}.share": found.get("share", 0.0)}
        return number(at_least=0.0, at_most=1.0, **named)

    def _cycles(self, place: str, given: Any, times: bool) -> tuple[str, ...]:
        if not isinstance(given, (list, tuple)):
            self._fail(place, f"must be a list of {', '.join(map(repr, CYCLES))}, found {given!r}")
        cycles = tuple(self._choice(place, cycle, tuple(CYCLES)) for cycle in given)
        if len(set(cycles)) < len(cycles):
            self._fail(place, f"holds a cycle twice, found {list(cycles)}")
        if cycles and not times:
            self._fail(place, "are of times, and needs timestamp = true")
        return cycles

    def _kept(self, place: str, found: Mapping[str, Any], buckets: int) -> tuple[tuple[int, ...], int, int | None]:
        """Return the buckets with a feature, the number of features of all others, and the bucket that has none."""
        words = {"at_least": 0, "at_most": buckets - 1}
        reference = None
        if "reference" in found:
            reference = integer(**words, **{f"{self._name}: {place}.reference": found["reference"]})
        if "kept" not in found and reference is None:
            if "rest" in found:
                self._fail(
                    f"{place}.rest", "is for the buckets that are not kept, and neither kept nor reference is given"
                )
            return (), 0, None
        given = found.get("kept", ())
        if not isinstance(given, (list, tuple)) or not (given or reference is not None):
            self._fail(f"{place}.kept", f"must be a list of buckets, found {given!r}")
        kept = tuple(integer(**words, **{f"{self._name}: {place}.kept": bucket}) for bucket in given)
        if len(set(kept)) < len(kept):
            twice = next(bucket for bucket in kept if kept.count(bucket) > 1)
            self._fail(f"{place}.kept", f"holds the bucket {twice} twice")
        if reference in kept:
            self._fail(f"{place}.kept", f"holds the bucket {reference}, which is the reference and has no feature")
        rest = integer(at_least=0, at_most=MAX_BUCKETS, **{f"{self._name}: {place}.rest": found.get("rest", 0)})
        if not (kept or rest or found.get("missing", "indicator") == "indicator"):
            self._fail(place, "has no feature: reference needs kept, rest or missing beside it")
        return kept, rest, reference

    def _number_column(self, place: str, found: Mapping[str, Any]) -> NumberColumn:
        bounds = self._pair(f"{place}.range", found["range"]) if "range" in found else None
        for key in ("onto", "scaling"):
            if key in found and bounds is None:
                self._fail(f"{place}.{key}", "needs a range")
        missing = found.get("missing", "refuse")
        policies = ("refuse", "zero", "indicator", "nan")
        if isinstance(missing, bool) or not isinstance(missing, (int, float)):
            if missing not in policies:
                words = ", ".join(map(repr, policies))
                self._fail(f"{place}.missing", f"must be one of {words} or a number, found {missing!r}")
        else:
            named: dict[str, Any] = {f"{self._name}: {place}.missing": missing}
            missing = number(**named)
            if bounds is not None and not bounds[0] <= missing <= bounds[1]:
                self._fail(f"{place}.missing", f"must be within the range {list(bounds)}, found {missing!r}")
        scaling = self._choice(f"{place}.scaling", found.get("scaling", "linear"), ("linear", "log"))
        if scaling == "log" and bounds is not None and math.isinf(bounds[1] - bounds[0]):
            self._fail(f"{place}.range", f"is too wide for a logarithm, found {list(bounds)}")
        return NumberColumn(
            range=bounds,
            onto=self._pair(f"{place}.onto", found.get("onto", (-1.0, 1.0))),
            scaling=scaling,
            missing=missing,
        )

    def _cells(self, place: str, found: Any) -> tuple[tuple[Cell, str], ...]:
        pairs: list[tuple[Any, Any]]
        if isinstance(found, Mapping):
            pairs = list(found.items())
        elif isinstance(found, list | tuple):
            # Records hold pairs, in which groups keep their order.
            pairs = [(c[0], c[1]) if isinstance(c, list | tuple) and len(c) == 2 else (c, c) for c in found]
        else:
            self._fail(place, f"must be a list of levels or a table of cell = level, found {found!r}")
        if not pairs:
            self._fail(place, "must not be empty")
        cells: dict[Cell, tuple[Cell, str]] = {}
        values: dict[bool, set[Any]] = {True: set(), False: set()}
        for cell, level in pairs:
            shown = _cell(level)
            cell = _cell(cell)
            if cell is None or shown is None:
                wrong = level if shown is None else cell
                self._fail(place, f"must hold non-empty texts or finite numbers, found {wrong!r} (quote it?)")
            if str(shown) in (MISSING, UNKNOWN):
                self._fail(place, f"must not hold {shown!r}, which is the name of another feature")
            # Texts are compared as texts, numbers by value; a text and a number that may be the same cell are refused.
            text, value = isinstance(cell, str), label_key(cell)
            if (cell in cells if text else value in values[False]) or value in values[not text]:
                self._fail(place, f"holds {cell!r} twice")
            values[text].add(value)
            cells[cell] = (cell, str(shown))
        return tuple(cells.values())

    def _target(self, found: Mapping[str, Any]) -> Target:
        self._known(found, "target", ("column", "negative", "positive", "rest", "range", "classes"))
        column = self._place("target.column", found)
        negative, positive = (self._labels(f"target.{key}", found.get(key)) for key in ("negative", "positive"))
        rest = self._choice("target.rest", found.get("rest", "refuse"), ("refuse", "negative", "null"))
        bounds = self._pair("target.range", found["range"]) if "range" in found else None
        if "classes" in found:
            others = [key for key in ("negative", "positive", "range") if key in found]
            if rest == "negative":
                others.append("rest")
            if others:
                self._fail(f"target.{others[0]}", "and target.classes exclude each other")
            return Target(column, classes=self._classes(found["classes"]), rest=rest)
        if not positive:
            if negative:
                self._fail("target", "has negative labels and no positive ones")
            if rest == "negative":
                self._fail("target.rest", "is for labels, and there is no target.positive")
            return Target(column, range=bounds, rest=rest)
        if bounds is not None:
            self._fail("target.range", "is for real numbers, found labels in target.positive as well")
        if not negative and rest != "negative":
            self._fail("target", 'needs negative labels, or rest = "negative" if every other label is negative')
        self._differ((*negative, *positive))
        return Target(column, negative, positive, rest)

    def _classes(self, found: Any) -> tuple[tuple[Cell, ...], ...]:
        place = "target.classes"
        if not isinstance(found, (list, tuple)) or len(found) < 2:
            self._fail(place, f"must be a list of at least two labels, or lists of labels, found {found!r}")
        groups = tuple(self._labels(place, list(g) if isinstance(g, (list, tuple)) else [g]) for g in found)
        if not all(groups):
            self._fail(place, "has a class without labels")
        self._differ(tuple(label for group in groups for label in group))
        return groups

    def _differ(self, labels: tuple[Cell, ...]) -> None:
        keys = [label_key(label) for label in labels]
        for key, label in zip(keys, labels, strict=True):
            if keys.count(key) > 1:
                self._fail("target", f"has the label {label!r} twice")

    def _user(self, found: Mapping[str, Any]) -> User:
        self._known(found, "user", ("column", "max_rows", "separation", "surplus", "max_users"))
        column = self._place("user.column", found)
        # one row needs the same noise as rows of unknown users, whatever the stream is
        rows = integer(at_least=1, at_most=(1 << 31) - 1, **{f"{self._name}: user.max_rows": found.get("max_rows", 1)})
        apart = found.get("separation", 1)
        apart = integer(at_least=1, at_most=1 << 48, **{f"{self._name}: user.separation": apart})
        surplus = found.get("surplus", "drop")
        if surplus not in ("drop", "null"):
            self._fail("user.surplus", f'must be "drop" or "null", found {surplus!r}')
        most = found.get("max_users", MOST_USERS)
        limit = MOST_HIDDEN_USERS if surplus == "null" else 1 << 40
        most = integer(at_least=1, at_most=limit, **{f"{self._name}: user.max_users": most})
        return User(column, rows, apart, str(surplus), most)

    def _rows(self, schema: Mapping[str, Any]) -> FrequentFeatures:
        for other in ("file", "target", "user", "delay", "columns", "cross"):
            if schema.get(other):
                self._fail("rows", f"is for sparse rows, which have no columns, and {other} applies to columns")
        found = schema["rows"]
        self._known(found, "rows", ("features", "kept", "sketch"))
        sketch = integer(at_least=0, at_most=WIDEST, **{f"{self._name}: rows.sketch": found.get("sketch", 0)})
        most = {"at_most": MOST_HASHED} if sketch else {}
        features = integer(at_least=1, **most, **{f"{self._name}: rows.features": found.get("features")})
        given = found.get("kept")
        if not isinstance(given, (list, tuple)) or not (given or sketch):
            least = "numbers of features" if sketch else "at least one number of a feature, where there is no sketch"
            self._fail("rows.kept", f"must be a list of {least}, found {given!r}")
        kept = tuple(
            integer(at_least=0, at_most=features - 1, **{f"{self._name}: rows.kept": feature}) for feature in given
        )
        if any(low >= high for low, high in itertools.pairwise(kept)):
            self._fail("rows.kept", "must ascend")
        return FrequentFeatures(features, kept, sketch)

    def _crosses(self, found: Any) -> tuple[tuple[str, str], ...]:
        """Return the pairs; the schema decides whether these columns can be crossed."""
        if not isinstance(found, (list, tuple)) or not all(isinstance(cross, Mapping) for cross in found):
            self._fail("cross", f'must be tables in a list, [[cross]] above columns = ["A", "B"], found {found!r}')
        pairs: list[tuple[str, str]] = []
        for cross in found:
            self._known(cross, "cross", ("columns",))
            names = cross.get("columns")
            listed = list(names) if isinstance(names, (list, tuple)) else []
            if len(listed) != 2 or not all(isinstance(name, str) for name in listed):
                self._fail("cross.columns", f"must be a list of two names of columns, found {names!r}")
            pairs.append((listed[0].strip(), listed[1].strip()))
        return tuple(pairs)

    def _learnt(self, found: Mapping[str, Any]) -> Learnt:
        self._known(
            found, "learnt", ("rows", "mu", "adjacency", "private", "phases", "rows_per_user", "user_separation")
        )
        named: dict[str, Any] = {f"{self._name}: learnt.mu": math.inf if found.get("mu") == "inf" else found.get("mu")}
        rows = integer(at_least=1, **{f"{self._name}: learnt.rows": found.get("rows")})
        private = found.get("private", True)
        if not isinstance(private, bool):
            self._fail("learnt.private", f"must be true or false, found {private!r}")
        adjacency = self._choice("learnt.adjacency", found.get("adjacency"), ("replace", "zero_out"))
        mu = number(at_least=0.0, infinite=True, **named)
        return Learnt(rows, mu, adjacency, private, **self._users_taught(found, rows))

    def _users_taught(self, found: Mapping[str, Any], rows: int) -> dict[str, Any]:
        """The statements about users of the rows that taught: none, or both the phases and the rows per user."""
        if not found.keys() & {"phases", "rows_per_user", "user_separation"}:
            return {}
        given = found.get("phases")
        phases = tuple(given) if isinstance(given, (list, tuple)) else ()
        if not all(type(n) is int and n > 0 for n in phases) or sum(phases) != rows:
            self._fail("learnt.phases", f"must be the rows of each phase, {rows} in all, found {given!r}")
        most, apart = found.get("rows_per_user"), found.get("user_separation", 1)
        words: dict[str, Any] = {f"{self._name}: learnt.rows_per_user": most}
        near: dict[str, Any] = {f"{self._name}: learnt.user_separation": apart}
        return {
            "phases": phases,
            "rows_per_user": integer(at_least=1, at_most=MOST_ROWS, **words),
            "user_separation": integer(at_least=1, at_most=1 << 48, **near),
        }

    def _delay(self, found: Mapping[str, Any]) -> Delay:
        self._known(found, "delay", ("key", "window"))
        key = self._place("delay.key", found)
        if "window" not in found:
            self._fail("delay.window", "must be given: how many rows wait for their label at most")
        return Delay(key, integer(at_least=1, **{f"{self._name}: delay.window": found["window"]}))

    def _file(self, found: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
        self._known(found, "file", _FILE_KEYS)
        options: dict[str, Any] = {}
        for key in _FILE_KEYS:
            if key not in found:
                continue
            value, place = found[key], f"file.{key}"
            if key == "format":
                value = self._choice(place, value, _FORMATS)
            elif key in ("header", "newlines_in_values"):
                if not isinstance(value, bool):
                    self._fail(place, f"must be true or false, found {value!r}")
            elif key in ("names", "missing"):
                if not isinstance(value, list | tuple) or not all(isinstance(text, str) for text in value):
                    self._fail(place, f"must be a list of texts, found {value!r}")
                value = tuple(text.strip() for text in value) if key == "names" else tuple(value)
                if key == "names" and (not value or "" in value or len(set(value)) != len(value)):
                    self._fail(place, "must be different, non-empty names")
            elif not isinstance(value, str) or not value:
                self._fail(place, f"must be a text, found {value!r}")
            elif key == "sep" and (len(value) != 1 or value in '"\r\n' or not value.isascii()):
                self._fail(place, f"must be one ASCII character, no quote and no line end, found {value!r}")
            elif key == "decimal" and value not in (".", ","):
                self._fail(place, f"must be '.' or ',', found {value!r}")
            elif key == "encoding":
                try:
                    codecs.lookup(value)
                except LookupError:
                    self._fail(place, f"must be the name of an encoding such as utf-8 or latin-1, found {value!r}")
            options[key] = value
        if "names" in options and options.get("header"):
            self._fail("file.names", "is for files without a header line, found header = true as well")
        return tuple(options.items())

    # --- values ------------------------------------------------------------------------------

    def _fail(self, place: str, what: str) -> NoReturn:
        raise InvalidParameter(f"{self._name}: {place} {what}")

    def _known(self, found: Mapping[str, Any], place: str, allowed: Sequence[str]) -> None:
        for key in found:
            if key not in allowed:
                what = f"{place}.{key} is not a key" if place else f"{key} is not a table or key"
                hint = _elsewhere(str(key), place) or nearest(str(key), allowed, list(found))
                raise InvalidParameter(f"{self._name}: {what} of a schema{hint}, allowed are {', '.join(allowed)}")

    def _choice(self, place: str, value: Any, allowed: Sequence[str]) -> str:
        return choice(allowed, **{f"{self._name}: {place}": value})

    def _pair(self, place: str, value: Any) -> Pair:
        ends = list(value) if isinstance(value, list | tuple) else []
        if len(ends) != 2 or any(isinstance(end, bool) or not isinstance(end, int | float) for end in ends):
            self._fail(place, f"must be two numbers [low, high], found {value!r}")
        low, high = as_float(ends[0]), as_float(ends[1])
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            self._fail(place, f"must be finite with low < high, found {value!r}")
        return low, high

    def _place(self, place: str, found: Mapping[str, Any]) -> str | int:
        value = found.get(place.split(".")[1])
        text = value.strip() if isinstance(value, str) else value
        if text == "" or isinstance(text, bool) or not isinstance(text, (str, int)):
            self._fail(place, f"must be the name of a column or its position, found {value!r}")
        return text

    def _labels(self, place: str, value: Any) -> tuple[Cell, ...]:
        if value is None:
            return ()
        listed = list(value) if isinstance(value, list | tuple) else [value]
        labels = [label if isinstance(label, bool) else _cell(label) for label in listed]
        kept = tuple(label for label in labels if label is not None)
        if not kept or len(kept) != len(labels):
            self._fail(place, f"must be a label or a list of labels (texts or finite numbers), found {value!r}")
        return kept


def _elsewhere(key: str, place: str) -> str:
    """Return where a misplaced key belongs, for example one below a table's head that was meant for the top level."""
    if key in _FLAGS and place:
        return " (it belongs to the top of the schema, above the first table)"
    tables = [("file", "[file]", _FILE_KEYS), ("columns", "[columns.NAME]", _COLUMN_KEYS)]
    found = [shown for table, shown, keys in tables if key in keys and not place.startswith(table)]
    return f" (it belongs under {' or '.join(found)})" if found else ""


def _cell(value: Any) -> Cell | None:
    """Return a declared cell or label without surrounding blanks; None if it cannot be one."""
    if isinstance(value, str):
        return value.strip() or None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(as_float(value)):
        return None
    return value
