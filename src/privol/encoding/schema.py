"""What is publicly known about a table, written in TOML: how its columns become rows of numbers."""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InvalidParameter, StreamError
from .crosses import check_crosses, usual_square
from .schema_parts import (
    Column,
    Delay,
    Drop,
    FrequentFeatures,
    Hashed,
    Knots,
    Learnt,
    Levels,
    NumberColumn,
    Target,
    User,
)
from .schema_reader import SchemaReader
from .toml import toml_table

__all__ = ["Schema"]

_FORMAT = "privol.schema"
_VERSION = 1
_DERIVED = (
    "WARNING: the ranges and levels of the schema were derived from the data (derived_from_data = true), so the "
    "guarantee does not hold until each of them has been replaced or confirmed from public knowledge"
)


@dataclass(frozen=True)
class Schema:
    """The public facts about a table: the meaning of its columns.

    Everything in a schema is public knowledge and must have been known without the rows: ranges, levels, labels,
    numbers of buckets, caps. privol cannot check that; ranges or levels taken from the private rows void the guarantee.

    Made by :meth:`load`; ``docs/schemas.md`` has every key. Frozen; equal schemas encode equally.

    Attributes
    ----------
    columns : tuple of (name, column)
        In the order of the features.
    target : Target or None
    user : User or None
    delay : Delay or None
    others : {"refuse", "drop", "number"}
        Columns of the file that are not named here.
    derived_from_data : bool
        Whether this is a draft whose values were read off the data; :attr:`conditions` says so.
    learnt : Learnt or None
        That it was learnt from rows under a guarantee, and what that cost; :attr:`conditions` says so.
    rows : FrequentFeatures or None
        Instead of columns: which features of sparse rows are kept. Labels are declared where the rows are opened.
    crosses : tuple of (name, name)
        Pairs of columns whose features are multiplied, each of one with each of the other.
    name : str
        For messages; not compared.
    """

    columns: tuple[tuple[str, Column], ...] = ()
    target: Target | None = None
    user: User | None = None
    delay: Delay | None = None
    others: str = "refuse"
    derived_from_data: bool = False
    learnt: Learnt | None = None
    file_options: tuple[tuple[str, Any], ...] = ()
    rows: FrequentFeatures | None = None
    crosses: tuple[tuple[str, str], ...] = ()
    name: str = field(default="schema", compare=False)

    def __post_init__(self) -> None:
        parts = (("target", self.target), ("user", self.user))
        special = {str(part.column): f"the column of {what}" for what, part in parts if part is not None}
        if self.delay is not None:
            special[str(self.delay.key)] = "the column of delay.key"
        check_crosses(self.crosses, dict(self.columns), special, self.name)

    @classmethod
    def load(cls, source: Schema | Mapping[str, Any] | str | os.PathLike[str], *, partial: bool = False) -> Schema:
        """Return a schema from a TOML file, a mapping of the same structure, or a record.

        A ``partial`` one, of which the rest is to be learnt, need not name any feature.

        Raises
        ------
        StreamError
            If the file cannot be read or is not TOML.
        InvalidParameter
            If a table or key is unknown or a value wrong; the message names the place.
        """
        if isinstance(source, Schema):
            return source
        if isinstance(source, Mapping):
            if source.get("format") == _FORMAT:
                return cls.from_record(source)
            return cls(**SchemaReader("schema", partial).read(source))
        if not isinstance(source, (str, os.PathLike)):
            raise InvalidParameter(
                f"schema must be a path of a TOML file, a mapping or a Schema, found {type(source).__name__}"
            )
        path = Path(source)
        try:
            found = tomllib.loads(path.read_bytes().decode("utf-8-sig"))
        except OSError as err:
            raise StreamError(f"schema: {path.name or path} cannot be read: {err.strerror or err}") from err
        except UnicodeDecodeError as err:
            raise StreamError(f"schema: {path.name} is not text in UTF-8") from err
        except (ValueError, RecursionError) as err:  # as text of TOML, or a number of too many digits
            raise StreamError(f"schema: {path.name} is not TOML: {err}") from err
        return cls(**SchemaReader(path.name, partial).read(found))

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Schema:
        """Return the schema that :meth:`to_record` wrote; anything else raises InvalidParameter."""
        if not isinstance(record, Mapping) or record.get("format") != _FORMAT:
            raise InvalidParameter(f'schema record must be a mapping with "format": "{_FORMAT}"')
        if record.get("version") != _VERSION:
            raise InvalidParameter(f"schema record has the version {record.get('version')!r}, known is {_VERSION}")
        found = {key: value for key, value in record.items() if key not in ("format", "version")}
        columns = found.get("columns", [])
        if not isinstance(columns, list) or not all(isinstance(c, dict) and "name" in c for c in columns):
            raise InvalidParameter("schema record: columns must be a list of mappings with a name")
        found["columns"] = {c["name"]: {k: v for k, v in c.items() if k != "name"} for c in columns}
        if len(found["columns"]) != len(columns):
            raise InvalidParameter("schema record: two columns have the same name")
        return cls(**SchemaReader("schema record").read(found))

    def to_record(self) -> dict[str, Any]:
        """Return the schema as a JSON-able dict; :meth:`from_record` of it is equal to the schema."""
        # Orders matter (of features, of levels), so columns and groups are lists: some JSON writers sort keys.
        record: dict[str, Any] = {
            "format": _FORMAT,
            "version": _VERSION,
            "columns": [{"name": name, **_column_record(column)} for name, column in self.columns],
            "others": self.others,
            "derived_from_data": self.derived_from_data,
            "file": {key: list(v) if isinstance(v, tuple) else v for key, v in self.file_options},
        }
        if self.learnt is not None:
            learnt, mu = asdict(self.learnt), self.learnt.mu
            if self.learnt.rows_per_user is None:  # a newer field: it is left out when it holds nothing
                for key in ("phases", "rows_per_user", "user_separation"):
                    del learnt[key]
            record["learnt"] = {key: _listed(v) for key, v in learnt.items()} | {"mu": "inf" if math.isinf(mu) else mu}
        if self.crosses:
            record["cross"] = [{"columns": list(pair)} for pair in self.crosses]
        if self.rows is not None:
            record["rows"] = {"features": self.rows.features, "kept": list(self.rows.kept)}
            if self.rows.sketch:  # a newer field: it is left out when it holds nothing
                record["rows"]["sketch"] = self.rows.sketch
        for key, part in (("target", self.target), ("user", self.user), ("delay", self.delay)):
            if part is not None:
                record[key] = _changed(part)
        return record

    def to_toml(self) -> str:
        """Return the schema as the text of a TOML file; :meth:`load` of it is equal to the schema."""
        record = self.to_record()
        for key in ("format", "version"):
            del record[key]
        columns, crosses = record.pop("columns"), record.pop("cross", [])
        parts = [toml_table((), {key: v for key, v in record.items() if not isinstance(v, dict)})]
        parts += [toml_table((key,), value) for key, value in record.items() if isinstance(value, dict) and value]
        parts += [
            toml_table(("columns", column["name"]), {key: value for key, value in column.items() if key != "name"})
            for column in columns
        ]
        parts += [toml_table(("cross",), cross, listed=True) for cross in crosses]
        return "\n".join(parts)

    def renamed(self, names: Mapping[str, str]) -> Schema:
        """Return the schema with other names of columns, where ``names`` has one."""
        return replace(
            self,
            columns=tuple((names.get(name, name), column) for name, column in self.columns),
            crosses=tuple((names.get(left, left), names.get(right, right)) for left, right in self.crosses),
        )

    @property
    def file(self) -> dict[str, Any]:
        """The content of ``[file]``: the format, and fields of ``CsvOptions`` (lists as tuples)."""
        return dict(self.file_options)

    @property
    def special(self) -> tuple[str | int, ...]:
        """Names or positions of the columns of target, user and key, if they exist."""
        found = [part.column for part in (self.target, self.user) if part is not None]
        return tuple(found if self.delay is None else [*found, self.delay.key])

    @property
    def missing_cells(self) -> frozenset[str]:
        """Texts that stand for a missing cell, besides the empty one."""
        return frozenset(text.strip() for text in self.file.get("missing", ()))

    @property
    def taught_by(self) -> str:
        """The contribution of each row that taught the schema: counts in histograms, or votes."""
        return "histograms" if self.rows is None else "votes of rows for their features"

    @property
    def conditions(self) -> tuple[str, ...]:
        """What a guarantee rests on because of this schema: a warning if it is a draft, its cost if it was learnt."""
        return self.conditions_from(1)

    def conditions_from(self, first_row: int) -> tuple[str, ...]:
        """:attr:`conditions` of rows from this one on, of the stream whose first rows taught the schema."""
        found = (_DERIVED,) if self.derived_from_data else ()
        if self.learnt is None:
            return found
        learnt, beyond = self.learnt, first_row > self.learnt.rows
        noise = "without noise, which reveals them" if math.isinf(learnt.mu) else f"with mu = {learnt.mu:.6g}"
        seeded = "" if learnt.private else " from a seed that is known"
        taught = f"the schema was learnt from {'the first ' if beyond else ''}{learnt.rows:,} rows"
        pays = "and a row that was among them and is learnt here too is in both (the squares of both mu add up)"
        if beyond:
            pays = (
                f"and of the same stream only row {first_row:,} and later ones are learnt here (parallel composition)"
            )
        if learnt.rows_per_user is not None:  # the learner states what both cost a user
            noise += " for one row"
            pays = pays.replace("(parallel composition)", "(parallel composition, for one row)")
        if self.user is not None and learnt.rows_per_user is None:
            pays += ", of a user any number of rows, each of which costs that mu beside all that is said here of users"
        return (
            *found,
            f"{taught} by {self.taught_by}, under the Gaussian mechanism {noise}{seeded}: another account pays for "
            f"that, {pays}; names, types and order of the columns and the number of rows are public",
        )

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """The labels as shown, of two (negative, positive); None for a real target or none at all."""
        return None if self.target is None else self.target.labels.classes

    @property
    def row_bound(self) -> float | None:
        """Largest L2 norm that a row of finite features can have, rounded up.

        None if a number has no range, or ``others = "number"`` may take in some that have none.
        """
        return self._norm_by(_largest_square, lambda _: Fraction(1))

    @property
    def usual_norm(self) -> float | None:
        """L2 norm of a row whose numbers are anywhere between their knots, on average: half the rows have more.

        Of columns with a most frequent value the share of it that was stated or learnt counts.

        As ``x_bound`` of a learner, which scales longer rows to it, it needs less noise than :attr:`row_bound`. None
        where that is None.
        """
        return self._norm_by(
            lambda column: column.usual_square if isinstance(column, Knots | Hashed) else _largest_square(column),
            usual_square,
        )

    def _norm_by(
        self, square_of: Callable[[Column], Fraction | None], crossed: Callable[[Column], Fraction]
    ) -> float | None:
        """Return the norm of a row, rounded up, from the squares of its columns and those that crosses use."""
        if self.rows is not None:
            return 1.0
        total = Fraction(0)
        for _, column in self.columns:
            if isinstance(column, Drop):
                continue
            square = square_of(column)
            if square is None:
                return None
            total += square
        if self.others == "number":
            return None
        columns = dict(self.columns)
        total += sum(crossed(columns[left]) * crossed(columns[right]) for left, right in self.crosses)
        root = math.sqrt(total)
        while Fraction(root) ** 2 < total:
            root = math.nextafter(root, math.inf)
        return root

    @property
    def has_constant(self) -> bool:
        """Whether the features of some column add up to 1 in all rows without missing cells, as an intercept does."""
        return any(
            (isinstance(column, Knots) and column.shape in ("spline", "bins") and not column.means)
            or (isinstance(column, Hashed) and not column.means and _always_one(column))
            or (isinstance(column, Levels) and column.unknown != "zero")
            for _, column in self.columns
        )

    def unscale(self, predictions: Any) -> npt.NDArray[np.float64]:
        """Return predictions of a real target in its own units (from [-1, 1] to ``target.range``, if it has one).

        Values beyond [-1, 1] are not clipped.
        """
        if self.target is None or self.target.labelled:
            raise InvalidParameter(f"{self.name}: unscale is for a real target, the schema has none")
        p = np.array(predictions, dtype=np.float64)
        if self.target.range is None:
            return p
        low, high = self.target.range
        return (low / 2 + high / 2) + p * (high / 2 - low / 2)


def _largest_square(column: Column) -> Fraction | None:
    return column.largest_square if isinstance(column, NumberColumn | Knots | Hashed) else Fraction(1)


def _always_one(column: Hashed) -> bool:
    return column.all_own or (column.reference is None and column.rest > 0)


def _changed(part: Any) -> dict[str, Any]:
    """Return the fields that differ from their defaults, tuples as lists."""
    found = {f.name: getattr(part, f.name) for f in fields(part) if getattr(part, f.name) != f.default}
    return {key: _listed(v) for key, v in found.items()}


def _listed(value: Any) -> Any:
    return [_listed(v) for v in value] if isinstance(value, tuple) else value


def _column_record(column: Column) -> dict[str, Any]:
    if isinstance(column, Drop):
        return {"drop": True}
    record = _changed(column)
    if isinstance(column, Levels):
        cells = record.pop("cells")
        record["levels"] = [list(pair) for pair in cells]
    elif isinstance(column, Knots):
        record["knots"] = list(column.knots)
    elif isinstance(column, Hashed):
        record["hash"] = record.pop("buckets")
    return record
