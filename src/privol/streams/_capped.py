"""A cap on the rows of a user that counts before rows are made: some rows teach, and others are learnt.

Both parts of the stream belong to the same users, so rows of both count: :class:`privol.streams._users.CappedSource`
would see only those that are learnt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core._seen import UserTable, user_digests
from ..encoding.encode import ids_of
from ..encoding.learning import MISSING_TEXTS
from ..encoding.refusals import Refusals
from ..encoding.schema import Schema
from ..encoding.schema_parts import User
from ..errors import InvalidParameter, StreamError
from ..readers.base import PAUSE, SEEN, Piece, Progress, Source, arrow
from ..readers.columns import Batch, Columns, ColumnsAround, Kind, blanked, resolve_column
from ._delays import Wrapper
from ._users import coded_texts, condition_of, kept_rows

__all__ = ["CappedColumns", "CountedRows", "capped_by", "counted"]


def capped_by(schema: Schema | None, columns: Columns) -> Columns:
    """Return columns with the cap of a schema's user, where it has one; the rest of the schema is learnt from them.

    Raises
    ------
    StreamError
        If there is no such column.
    InvalidParameter
        If surplus rows are to be null rows, and the schema refuses rows without cells.
    """
    if schema is None or schema.user is None:
        return columns
    if schema.user.surplus == "null":
        _check_takes_null_rows(schema)
    user, names = schema.user, columns.names
    place = user.column
    if isinstance(place, str):
        place = {name.strip(): name for name in names}.get(place.strip(), place)
        if place not in names:
            has = ", ".join(map(repr, names[:20]))
            raise StreamError(
                f"{columns.name}: no column {place!r} (user.column of {schema.name}), the input has {has}"
            )
    else:
        place = names[resolve_column(place, names if columns.named else None, len(names), columns.name) or 0]
    missing = schema.file.get("missing", MISSING_TEXTS)
    return CappedColumns(columns, replace(user, column=place), frozenset(text.strip() for text in missing))


def _check_takes_null_rows(schema: Schema) -> None:
    """Refuse a schema that refuses rows without cells, as surplus rows are, before the first such row comes."""
    why = f"where rows teach and user.surplus of {schema.name} is 'null': a null row has no cells"
    for name, column in schema.columns:
        if getattr(column, "missing", None) == "refuse":
            raise InvalidParameter(f"columns.{name}.missing must be stated, and not 'refuse', {why}")
    if schema.target is not None and schema.target.rest != "null":
        raise InvalidParameter(f"target.rest must be 'null' {why}, found {schema.target.rest!r}")


class CappedColumns(ColumnsAround):
    """The rows of columns that are within the cap of their user; the others are dropped, or have no cells.

    Parameters
    ----------
    columns : Columns
    user : User
        By the name of its column.
    missing : frozenset of str
        Texts other than the empty one that stand for a missing cell: no user.

    Attributes
    ----------
    counts : dict of str to int
        As of :class:`CappedSource`, of the latest iteration. Not private.
    """

    def __init__(self, columns: Columns, user: User, missing: frozenset[str]) -> None:
        super().__init__(columns)
        self._input = columns
        self._user, self._missing, self._null = user, missing, user.surplus == "null"
        self._column = str(user.column)
        self.facts = replace(
            columns.facts,
            n_rows=columns.facts.n_rows if self._null else None,
            conditions=(*columns.facts.conditions, condition_of(user.separation, null=self._null)),
            rows_per_user=user.max_rows,
            user_separation=user.separation,
            users_fixed=not self._null,
            positions=None,  # rows are left out, and whose they were is kept nowhere: nobody goes on behind them
            user=self._column,
        )
        # for the latest batch: number of its first kept row, and the places of its kept rows
        self._latest: tuple[int, Any] = (1, np.arange(0))
        # for each batch: number of its first kept row, and the users of its rows
        self._whose: list[tuple[int, Any]] = []
        self.asked = False  # whether users are asked for; otherwise they are dropped with the next batch
        self._note(0, 0)

    @property
    def ahead(self) -> bool:
        """False: the users of rows, and the dropped rows, are asked of the latest batch."""
        return False

    def _note(self, over: int, near: int) -> None:
        self.counts = {"over_user_cap": over} | ({"too_near": near} if self._user.separation > 1 else {})

    def check(self, kinds: Mapping[str, Kind]) -> None:
        self._input.check(self._with_user(kinds))

    def _with_user(self, kinds: Mapping[str, Kind]) -> dict[str, Kind]:
        return {**kinds, self._column: "text"}

    def batches(self, kinds: Mapping[str, Kind], limit: int, progress: Progress) -> Iterator[Batch]:
        pa = arrow("users")
        user = self._user
        table = UserTable(user.max_rows, user.separation, every=self._null, max_users=user.max_users)
        row = kept_before = self.first_row
        dropped = 0
        self._whose = []
        for batch in self._input.batches(self._with_user(kinds), limit, progress):
            if batch is None or not batch.num_rows:
                yield batch if batch is None else batch.select(list(kinds))
                continue
            refusals = Refusals(self._input, row)
            users = ids_of(batch.column(self._column), self._column, self._missing, refusals)
            try:
                refusals.report()
            except StreamError as error:
                raise self._input.located(error) from None
            keep, _ = kept_rows(table, users, self.name, row)
            kept = int(keep.sum())
            dropped += len(keep) - kept
            self._note(dropped - table.near, table.near)
            found = batch.select(list(kinds))
            if kept < len(keep):
                users = blanked(users, ~keep) if self._null else users.filter(pa.array(keep))
                if self._null:
                    columns = [
                        column if name == self._column else blanked(column, ~keep)
                        for name, column in zip(found.schema.names, found.columns, strict=True)
                    ]
                    found = pa.RecordBatch.from_arrays(columns, names=found.schema.names)
                else:
                    found = found.filter(pa.array(keep))
            self._latest = kept_before, row + (np.arange(len(keep)) if self._null else np.flatnonzero(keep))
            if found.num_rows:
                self._whose = [*(self._whose if self.asked else ()), (kept_before, users)]
            row += len(keep)
            kept_before += found.num_rows
            if found.num_rows:
                yield found

    def whose(self, first: int, rows: int, key: bytes) -> npt.NDArray[np.void]:
        """Return the users of ``rows`` kept rows from ``first`` on; each is asked for once, in order."""
        seen = np.zeros(rows, dtype=SEEN)
        seen["row"] = np.arange(first, first + rows)
        done = 0
        while done < rows:
            if not self._whose or self._whose[0][0] > first + done:
                raise StreamError(f"{self.name}: row {first + done} has no known user")
            start, users = self._whose[0]
            part = users.slice(first + done - start, rows - done)
            here = done + np.flatnonzero(part.is_valid().to_numpy(zero_copy_only=False))
            if len(here):
                codes, offsets, texts = coded_texts(part.drop_null())
                seen["user"][here] = user_digests(key, offsets, texts)[codes]
            done += len(part)
            if first + done >= start + len(users):
                del self._whose[0]
        return seen

    def located(self, error: StreamError) -> StreamError:
        """Return the error with the row's number in the input, counting dropped rows."""
        first, places = self._latest
        at = None if error.row is None else error.row - first
        if at is not None and 0 <= at < len(places) and places[at] != error.row:
            row = int(places[at])
            error = StreamError(str(error).replace(f"row {error.row}", f"row {row}", 1), row=row)
        return self._input.located(error)

    def count(self) -> int:
        if self._null:
            return self._input.count()
        return sum(batch.num_rows for batch in self.batches({self._column: "text"}, 65536, lambda _: None) if batch)


def counted(source: Source, columns: Columns) -> Source:
    """Return rows that state how many a cap on their columns dropped, if there is a cap."""
    return CountedRows(source, columns) if isinstance(columns, CappedColumns) else source


class CountedRows(Wrapper):
    """Rows of capped columns that state how many the cap dropped and, on request, their users."""

    def __init__(self, source: Source, columns: CappedColumns) -> None:
        self._source, self._capped = source, columns
        self.facts, self.n_features = source.facts, source.n_features
        self.feature_names, self.sparse = source.feature_names, source.sparse
        self.counts = {**source.counts, **columns.counts}
        self._key: bytes | None = None

    def named(self, key: bytes) -> CountedRows:
        """Return the same rows, which state their users as hashes with this key."""
        other = copy(self)
        other._key = key
        return other

    def pieces(self, limit: int, progress: Progress) -> Iterator[Piece]:
        row = self.facts.first_row
        self._capped.asked = self._key is not None
        try:
            for piece in self._source.pieces(limit, progress):
                self.counts = {**self._source.counts, **self._capped.counts}
                if self._key is not None and piece is not PAUSE:
                    n = int(piece.X.shape[0])
                    piece = piece._replace(seen=self._capped.whose(row, n, self._key))
                    row += n
                yield piece
        finally:
            self._capped.asked = False
        self.counts = {**self._source.counts, **self._capped.counts}
        self._note_cells()

    def count(self) -> int:
        return self._source.count()
