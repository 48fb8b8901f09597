"""Makes rows of numbers from columns by a schema: each row by itself, never as a function of other rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from .._core._text import DenseRows
from .._threads import each
from ..errors import StreamError
from ..readers.base import Piece
from ..readers.columns import Batch, Columns, Kind, resolve_column
from ..readers.written import Written
from .cells import CellCounts
from .columns_to_rows import table_of
from .crosses import Cross, Products, Side
from .ids import WRITTEN, id_of
from .knots import Entries, KnotsColumn, numbers_in
from .labels import coded
from .ranges import Scale
from .refusals import Refusals
from .schema import Schema
from .schema_parts import Column, Drop, Hashed, Knots, NumberColumn
from .schema_reader import nearest
from .texts import BARE, HASH_SEED, TextColumn
from .told import compact

__all__ = ["HASH_SEED", "SPARSE_SHARE", "SchemaEncoder", "UserEncoder", "ids_of"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int32]

SPARSE_SHARE = 0.1
"""Rows are CSR where at most this share of their features can differ from 0, else dense.

Learning from 0/1 features took the same time in both forms at a share of 0.11 (120 features), half the time in CSR at
0.04 (1,146 features) and half as long again in CSR at 0.4. The values are the same in both forms.
"""

# How many cells of dense rows are written together.
NEAR_CELLS = 1 << 18
_OWNED = " (leave rows out that lack it, or do without its table in the schema, [user] or [delay])"
_LATE = " (leave rows without a target out; [delay] in the schema is for targets that come later)"


class SchemaEncoder:
    """Makes rows of record batches by a :class:`~privol.streams.Schema`.

    Every row is encoded by itself, from its own cells and the schema. It does not depend on other rows, on how the
    stream is cut or on how the batch codes its texts. So replacing one row of the table replaces one encoded row, which
    is what the guarantee rests on.

    Parameters
    ----------
    schema : Schema
    columns : Columns
    target : bool, default True
        False encodes only features, as for prediction: the columns of target, user and key may be absent.

    Attributes
    ----------
    schema : Schema
        The schema with everything that the input decided written out: names for positions, and the columns that
        ``others`` took in. Store this one with a model.
    n_features : int
    feature_names : tuple of str
        In the order of the schema: "age", "age=missing", "work=Private", "work=(unknown)", "work=(missing)", "code#17",
        "size~10". Crosses follow all columns: "size~10*work=Private".
    sparse : bool
        Whether rows are CSR; see :data:`SPARSE_SHARE`. Both forms hold the same values.
    classes : tuple or None
        The two labels, (negative, positive).
    """

    def __init__(self, schema: Schema, columns: Columns, *, target: bool = True) -> None:
        self._source = columns
        self.schema = _resolved(schema, columns, target)
        self.classes = schema.classes
        self._markers = schema.missing_cells
        self._written = Written(self._markers, schema.file.get("decimal", "."))
        self._target = self.schema.target if target else None
        # columns whose rows were already counted by users are not requested again
        counts = target and self.schema.user is not None and columns.facts.user is None
        self._user = str(self.schema.user.column) if counts and self.schema.user else None
        self._key = str(self.schema.delay.key) if target and self.schema.delay else None
        self._labels = None if self._target is None else self._target.labels
        self.rows_alone = self._user is None and self._key is None

        kinds: dict[str, Kind] = {}
        names: list[str] = []
        self._numbers: list[_Number] = []
        self._knots: list[KnotsColumn] = []
        self._texts: list[TextColumn] = []
        self._entries = 0
        for name, column in self.schema.columns:
            if isinstance(column, Drop):
                continue
            if isinstance(column, NumberColumn):
                kinds[name] = "number"
                part = _Number(name, column, len(names), self._entries)
                self._numbers.append(part)
                names += [name] if part.flag is None else [name, f"{name}=missing"]
                self._entries += 1 if part.flag is None else 2
            elif isinstance(column, Knots):
                kinds[name] = "number" if columns.floats(name) and not column.timestamp else "cells"
                pointed = not columns.only_text(name)
                knots = KnotsColumn(name, column, len(names), self._entries, self._written, pointed=pointed)
                self._knots.append(knots)
                names += knots.feature_names
                self._entries += knots.entries
            else:
                kinds[name] = "cells" if isinstance(column, Hashed) else "text"
                text = TextColumn(name, column, len(names), self._entries, self._written)
                self._texts.append(text)
                names += text.feature_names
                self._entries += 1
        sides: dict[str, Side] = {text.name: text for text in self._texts}
        sides |= {knots.name: knots for knots in self._knots}
        self._crosses: list[tuple[str, str, Cross]] = []
        for left, right in self.schema.crosses:
            cross = Cross(sides[left], sides[right], len(names), self._entries)
            self._crosses.append((left, right, cross))
            names += cross.feature_names
            self._entries += cross.entries
        if not names:
            raise StreamError(f"{columns.name}: {schema.name} leaves no feature, at least one is needed")
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise StreamError(f"{columns.name}: by {schema.name} two features are named {twice!r}, rename a column")
        if self._target is not None:
            self._lenient = self._target.rest == "null"
            kinds[str(self._target.column)] = "text" if self._target.labelled or self._lenient else "number"
        for special in (self._user, self._key):
            if special is not None:
                kinds[special] = "text"
        self.kinds: Mapping[str, Kind] = kinds
        hints = dict.fromkeys(
            (part.name for part in self._numbers),
            f"in {schema.name}, texts need levels or hash, and what stands for a missing cell belongs to missing under "
            "[file]",
        )
        if self._target is not None and not self._target.labelled:
            stated = f"in {schema.name}, labels are stated by negative and positive, or classes, under [target]"
            hints[str(self._target.column)] = stated
        self._hints: Mapping[str, str] = hints
        columns.hints = hints
        columns.written = self._written
        self.n_features = len(names)
        self.feature_names: tuple[str, ...] | None = tuple(names)
        self._means = self._means_of_features(names)
        self._means_or_zeros = np.zeros(self.n_features) if self._means is None else self._means
        self.sparse = self._means is None and self._entries <= SPARSE_SHARE * self.n_features
        self._by_work: list[TextColumn | KnotsColumn] = [*self._knots, *self._texts]
        self._by_work.sort(key=lambda part: -part.work)
        self._scale = Scale([part.column for part in self._numbers])
        self._number_names = [part.name for part in self._numbers]
        # dense rows that have only columns of numbers
        self._as_they_are = not self.sparse and len(self._numbers) == self.n_features
        self._number_entries = _runs([part.entry for part in self._numbers])
        # What every CSR row has; the entries of text columns are overwritten.
        self._pattern = np.zeros(self._entries, dtype=np.int32)
        for part in self._numbers:
            self._pattern[part.entry] = part.feature
            if part.flag is not None:
                self._pattern[part.entry + 1] = part.flag

    def reading(self, columns: Columns | None) -> SchemaEncoder:
        """Return this encoder for another input of the same columns and types; None: for no input, holding no rows."""
        found = copy(self)
        found._source = cast("Columns", columns)
        if columns is not None:
            columns.check(self.kinds)
            columns.hints, columns.written = self._hints, self._written
        return found

    @property
    def parts(self) -> tuple[list[_Number], list[TextColumn], list[KnotsColumn], list[tuple[str, str, Cross]]]:
        """Columns of numbers, of text and with knots, and crosses with the names of their two columns."""
        return self._numbers, self._texts, self._knots, self._crosses

    @property
    def means(self) -> FloatArray:
        """What is subtracted from the features of every row, shape (n_features,): 0 in most encodings."""
        return self._means_or_zeros

    @property
    def written(self) -> Written:
        """How cells of text are written."""
        return self._written

    def encode(
        self, batch: Batch, first_row: int, into: FloatArray | None = None, counts: CellCounts | None = None
    ) -> Piece:
        """Return the rows of a batch whose first row has the given 1-based number.

        Dense rows are written to ``into``, of shape (rows, n_features), if it is given. If ``counts`` is given, the
        cells that the schema does not take as they are are added to it.

        Raises
        ------
        StreamError
            At the first row with a cell that the schema refuses; the message names row and column.
        """
        y = self.targets(batch, first_row, counts)
        bare = None
        refusals = Refusals(self._source, first_row)
        places, points = self._told(batch)
        numbers = self._table(batch, into)
        if self._key is not None:
            bare = self._bare(numbers, places, points, y, batch.num_rows)
            numbers[bare] = 0.0
            for found in points:
                found.spare(bare)
            for place in places:
                place[bare] = BARE
        flags = self._missing_numbers(numbers, refusals)
        for text, place in zip(self._texts, places, strict=True):
            text.check(place, batch.column(text.name), refusals, self.schema.name)
        # A row that only brings a label belongs to the user of the row that waits for this label.
        users = self._ids(batch, self._user, refusals, bare)
        keys = self._ids(batch, self._key, refusals)
        refusals.report()
        if counts is not None:
            self._count(counts, numbers, flags, places, bare)
            for part, found in zip(self._knots, points, strict=True):
                found.count(part.name, counts, later=part.times)
        self._scale.apply(numbers, numbers)
        for j in flags:
            column = self._numbers[j].column
            if isinstance(column.missing, str) and column.missing != "nan":
                numbers[flags[j], j] = 0.0
        products = self._products(places, points)
        if self.sparse:
            X = self._csr(numbers, flags, places, points, products)
        else:
            X = self._dense(numbers, flags, places, points, products, into)
        if self._means is not None and bare is not None:
            X[bare] = 0.0
        return Piece(X, y, users, keys, bare)

    # --- parts of a row ------------------------------------------------------------------------

    def _means_of_features(self, names: Sequence[str]) -> FloatArray | None:
        """Return what is subtracted from the features of every row; None: nothing."""
        parts: list[KnotsColumn | TextColumn] = [*self._knots, *self._texts]
        if not any(part.means for part in parts):
            return None
        found: FloatArray = np.zeros(len(names))
        for part in parts:
            found[part.feature : part.feature + len(part.means)] = part.means
        return found

    def _told(self, batch: Batch) -> tuple[list[IntArray], list[Entries]]:
        """Return what the cells of text columns and of columns with knots hold; each column by itself."""

        def told(part: TextColumn | KnotsColumn) -> IntArray | Entries:
            column = batch.column(part.name)
            if isinstance(part, TextColumn):
                return part.places(column)
            return part.points(column, dense=not self.sparse)

        parts = self._by_work
        said = each(told, parts, cells=batch.num_rows * len(parts))
        found = {part.name: what for part, what in zip(parts, said, strict=True)}
        places = [cast("IntArray", found[text.name]) for text in self._texts]
        return places, [cast("Entries", found[part.name]) for part in self._knots]

    def _table(self, batch: Batch, into: FloatArray | None) -> FloatArray:
        """Return the numbers of the batch, shape (n, numbers), NaN where missing; the caller may change them.

        Where the rows consist of these numbers alone, they are in ``into``.
        """
        if not self._numbers:
            return np.empty((batch.num_rows, 0))
        into = into if self._as_they_are else None
        numbers: FloatArray = np.empty((batch.num_rows, len(self._numbers))) if into is None else into
        table_of([batch.column(name).to_numpy(zero_copy_only=False) for name in self._number_names], numbers)
        for marker in self._written.missing_numbers:
            numbers[numbers == marker] = np.nan
        return numbers

    def _filled(self, name: str) -> str:
        """Return what replaces a missing number, for messages."""
        says = '"indicator", "zero", "nan" or a number in its place'
        return f" (missing = under [columns.{name}] of {self.schema.name} says what else to do: {says})"

    def _count(
        self,
        counts: CellCounts,
        numbers: FloatArray,
        flags: Mapping[int, npt.NDArray[np.bool_]],
        places: Sequence[IntArray],
        bare: npt.NDArray[np.bool_] | None,
    ) -> None:
        """Count the cells that are not taken as they are, before the numbers are scaled."""
        counts.rows += len(numbers) - (0 if bare is None else int(np.count_nonzero(bare)))
        for j, missing in flags.items():
            counts.add(self._numbers[j].name, "missing", np.count_nonzero(missing))
        for part, beyond in zip(self._numbers, self._scale.beyond(numbers, bare), strict=True):
            counts.add(part.name, "clipped", beyond)
        for text, place in zip(self._texts, places, strict=True):
            counts.add(text.name, "missing", np.count_nonzero(place == text.missing))
            counts.add(text.name, "unknown", np.count_nonzero(place == text.unknown))

    def _missing_numbers(self, numbers: FloatArray, refusals: Refusals) -> dict[int, npt.NDArray[np.bool_]]:
        """Return which cells are missing, by column, for columns with any; fill in the stated replacements."""
        flags: dict[int, npt.NDArray[np.bool_]] = {}
        # A sum is NaN where a term is NaN (or infinities meet), and needs no array of the size of the numbers.
        with np.errstate(invalid="ignore", over="ignore"):
            suspect = np.flatnonzero(np.isnan(numbers.sum(axis=0))) if numbers.size else ()
        for j in map(int, suspect):
            missing = np.isnan(numbers[:, j])
            if not missing.any():
                continue
            flags[j] = missing
            part = self._numbers[j]
            if part.column.missing == "refuse":
                refusals.add(missing, part.name, f"found nothing, allowed is a number{self._filled(part.name)}")
            elif not isinstance(part.column.missing, str):
                numbers[missing, j] = part.column.missing
        return flags

    def _products(self, places: Sequence[IntArray], points: Sequence[Entries]) -> list[Products]:
        crossed = {name for pair in self.schema.crosses for name in pair}
        sides = {
            part.name: part.crossed(place)
            for part, place in zip(self._texts, places, strict=True)
            if part.name in crossed
        }
        sides |= {
            part.name: part.crossed(found)
            for part, found in zip(self._knots, points, strict=True)
            if part.name in crossed
        }
        return [cross.products(sides[left], sides[right]) for left, right, cross in self._crosses]

    def _dense(
        self,
        numbers: FloatArray,
        flags: Mapping[int, Any],
        places: Sequence[IntArray],
        points: Sequence[Entries],
        products: Sequence[Products],
        into: FloatArray | None,
    ) -> FloatArray:
        if self._as_they_are:
            return numbers
        n, parts = len(numbers), DenseRows(len(numbers), self._means_or_zeros)
        for j, part in enumerate(self._numbers):
            parts.numbers(part.feature, numbers[:, j])
            if part.flag is not None and j in flags:
                parts.flag(part.flag, flags[j].view(np.uint8), 1)
        for place in places:
            parts.entries(place.reshape(-1, 1))  # a cell without a feature has a negative place
        for found in (*points, *products):
            found.add(parts)
        X = np.empty((n, self.n_features)) if into is None else into
        step = max(NEAR_CELLS // self.n_features, 1)
        each(lambda at: parts.write(at, X[at : at + step]), range(0, n, step), cells=X.size)
        return X

    def _csr(
        self,
        numbers: FloatArray,
        flags: Mapping[int, Any],
        places: Sequence[IntArray],
        points: Sequence[Entries],
        products: Sequence[Products],
    ) -> Any:
        n, k = len(numbers), self._entries
        data = np.zeros((n, k))
        indices = np.empty((n, k), dtype=np.int32)
        indices[:] = self._pattern
        for mine, first, last in self._number_entries:
            data[:, first:last] = numbers[:, mine : mine + last - first]
        for j, missing in flags.items():
            part = self._numbers[j]
            if part.flag is not None:
                data[:, part.entry + 1] = missing
        for text, place in zip(self._texts, places, strict=True):
            # A cell without a feature is stored as a zero at the column's first feature.
            indices[:, text.entry] = place if place.min(initial=0) >= 0 else np.maximum(place, text.feature)
            data[:, text.entry] = place >= 0
        for knots, found in zip(self._knots, points, strict=True):
            indices[:, knots.entry : knots.entry + knots.entries] = found.places
            data[:, knots.entry : knots.entry + knots.entries] = found.weights
        for (_, _, cross), product in zip(self._crosses, products, strict=True):
            indices[:, cross.entry : cross.entry + cross.entries] = product.places
            data[:, cross.entry : cross.entry + cross.entries] = product.weights
        wide = n * k > np.iinfo(np.int32).max
        starts = np.arange(n + 1, dtype=np.int64 if wide else np.int32) * k
        return sp.csr_array((data.reshape(-1), indices.reshape(-1), starts), shape=(n, self.n_features))

    def _bare(
        self,
        numbers: FloatArray,
        places: Sequence[IntArray],
        points: Sequence[Entries],
        y: FloatArray | None,
        n: int,
    ) -> npt.NDArray[np.bool_]:
        """Return which rows bring a label but no cell of a feature."""
        bare = np.ones(n, dtype=bool) if y is None else ~np.isnan(y)
        for text, place in zip(self._texts, places, strict=True):
            bare &= place == text.missing
        for found in points:
            bare &= found.missing
        if bare.any():
            bare &= np.isnan(numbers).all(axis=1)
        return bare

    def targets(self, batch: Batch, first_row: int, counts: CellCounts | None = None) -> FloatArray | None:
        """Return the targets of a batch as :meth:`encode` does; it needs no other column. None: there are none."""
        if self._target is None or self._labels is None:
            return None
        name = str(self._target.column)
        where = f"{self._source.name}, column {self._source.column(name)}"
        optional = self._key is not None
        column = batch.column(name)
        if not self._labels.numeric:
            indices, texts = coded(compact(column))
            known = [None if text is None else self._written.pointed(text) for text in texts]
            words = "classes" if self._target.classes else "negative, positive and rest"
            stated = f" (labels are stated by {words} under [target] of {self.schema.name})"
            return self._labels.encode_coded(indices, known, first_row, where, optional, (_LATE, stated))
        y = self._real(column, name)
        for marker in self._written.missing_numbers:
            y[y == marker] = np.nan
        missing = np.isnan(y)
        if missing.any() and not (optional or self._lenient):
            row = first_row + int(np.argmax(missing))
            raise StreamError(f"{where}, row {row}: found nothing, allowed is a number{_LATE}", row=row)
        if self._target.range is not None:
            scale = Scale([NumberColumn(range=self._target.range)])
            if counts is not None:
                counts.add(name, "clipped", scale.beyond(y[:, None])[0])
            scale.apply(y[:, None], y[:, None])
        return y

    def _real(self, column: Any, name: str) -> FloatArray:
        if self._lenient:
            return numbers_in(column, self._written, pointed=not self._source.only_text(name))
        return np.array(column.to_numpy(zero_copy_only=False), dtype=np.float64)

    def _ids(self, batch: Batch, name: str | None, refusals: Refusals, spared: Any = None) -> Any:
        return None if name is None else ids_of(batch.column(name), name, self._markers, refusals, spared)


class UserEncoder:
    """Reads the user of each row and nothing else (X has no columns): enough to count what a cap keeps."""

    sparse = rows_alone = False
    n_features = 0
    feature_names: tuple[str, ...] | None = None

    def __init__(self, encoder: SchemaEncoder, columns: Columns) -> None:
        user = encoder.schema.user
        if user is None:
            raise StreamError(f"{columns.name}: {encoder.schema.name} names no user column")
        self._source = columns
        self._name = str(user.column)
        self._markers = encoder.schema.missing_cells
        self.kinds: Mapping[str, Kind] = {self._name: "text"}

    def encode(self, batch: Batch, first_row: int, into: FloatArray | None = None) -> Piece:
        """Return rows without features."""
        refusals = Refusals(self._source, first_row)
        users = ids_of(batch.column(self._name), self._name, self._markers, refusals)
        refusals.report()
        return Piece(np.empty((batch.num_rows, 0)), None, users)


def ids_of(column: Any, name: str, markers: frozenset[str], refusals: Refusals, spared: Any = None) -> Any:
    """Return the column of a user or key as a dictionary of texts without surrounding blanks, as :func:`id_of` says.

    Missing cells are refused, except in spared rows.
    """
    import pyarrow
    import pyarrow.compute as pc

    column = compact(column)
    texts = pc.utf8_trim_whitespace(column.dictionary)
    none = pc.is_in(texts, value_set=pyarrow.array(["", *markers], texts.type))
    written = pc.and_(pc.match_substring_regex(texts, WRITTEN), pc.invert(pc.match_substring_regex(texts, "^[0-9]*$")))
    missing = np.append(pc.or_(none, texts.is_null()).to_numpy(zero_copy_only=False), True)
    places = np.flatnonzero(written.fill_null(False).to_numpy(zero_copy_only=False))
    if len(places):
        known = texts.to_pylist()
        for i in places:
            known[i] = id_of(known[i])
        texts = pyarrow.array(known, texts.type)
    if missing[:-1].any() or column.null_count:
        indices = column.indices.fill_null(len(missing) - 1) if column.null_count else column.indices
        rows = missing[indices.to_numpy()]
        refusals.add(rows if spared is None else rows & ~spared, name, f"found nothing, every row needs one{_OWNED}")
        # Rows that need no id are null, whatever stood for a missing cell.
        codes = pyarrow.array(indices.to_numpy(), mask=rows)
        return pyarrow.DictionaryArray.from_arrays(codes, texts)
    return pyarrow.DictionaryArray.from_arrays(column.indices, texts)


class _Number:
    """Where the features of a column of numbers are."""

    def __init__(self, name: str, column: NumberColumn, feature: int, entry: int) -> None:
        self.name = name
        self.column = column
        self.feature = feature
        self.entry = entry
        self.flag = feature + 1 if column.missing == "indicator" else None


def _runs(positions: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return (first number, first position, end) of each run of consecutive positions: slices beat indices."""
    runs: list[tuple[int, int, int]] = []
    for i, position in enumerate(positions):
        if runs and runs[-1][2] == position:
            runs[-1] = (runs[-1][0], runs[-1][1], position + 1)
        else:
            runs.append((i, position, position + 1))
    return runs


def _resolved(schema: Schema, columns: Columns, target: bool) -> Schema:
    """Return the schema with names in place of positions and with the columns that ``others`` takes in."""
    names = columns.names if columns.named else None
    # A schema's names have no surrounding blanks; those of some inputs have.
    own = {name.strip(): name for name in columns.names} | {name: name for name in columns.names}
    schema = schema.renamed(own)
    known: dict[str, Column] = dict(schema.columns)
    parts: dict[str, Any] = {}
    special: list[str] = []
    for part, attribute, place in (
        (schema.target, "column", "target.column"),
        (schema.user, "column", "user.column"),
        (schema.delay, "key", "delay.key"),
    ):
        if part is None:
            continue
        wanted = getattr(part, attribute)
        if isinstance(wanted, str):
            wanted = own.get(wanted, wanted)
            if target and wanted not in columns.names:
                _absent(wanted, place, schema, columns)
        else:
            wanted = columns.names[resolve_column(wanted, names, len(columns.names), columns.name) or 0]
        found = known.get(str(wanted))
        if found is not None and (place == "target.column" or not isinstance(found, Drop)):
            raise StreamError(f"{columns.name}: {schema.name}: columns.{wanted} is the column of {place} as well")
        special.append(str(wanted))
        named: dict[str, Any] = {attribute: wanted}
        parts[place.split(".")[0]] = replace(part, **named)
    if target and schema.target is not None and special[0] in special[1:]:
        raise StreamError(f"{columns.name}: {schema.name}: the target {special[0]!r} is the user or key column as well")
    for name, column in schema.columns:
        if name not in columns.names and not isinstance(column, Drop):
            _absent(name, f"columns.{name}", schema, columns)
    others = [name for name in columns.names if name not in known and name not in special]
    if others and schema.others == "refuse":
        shown = ", ".join(map(repr, others[:5])) + (" and others" if len(others) > 5 else "")
        raise StreamError(
            f"{columns.name}: {schema.name} does not name the column(s) {shown}; "
            'name them there, or say what to do: others = "drop" or "number" at its top, above the first table'
        )
    if schema.others == "number":
        parts["columns"] = (*schema.columns, *((name, NumberColumn()) for name in others))
        parts["others"] = "drop"
    return replace(schema, **parts)


def _absent(name: str, place: str, schema: Schema, columns: Columns) -> None:
    has = ", ".join(map(repr, columns.names[:20])) + (", ..." if len(columns.names) > 20 else "")
    near = nearest(name, columns.names, {str(used) for used in (*dict(schema.columns), *schema.special)})
    raise StreamError(f"{columns.name}: no column {name!r} ({place} of {schema.name}){near}, the input has {has}")
