"""At most so many rows of each user, and not too near to each other: what a guarantee for users rests on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core._seen import UserTable
from .._validate import integer
from ..encoding.cells import CountedSource
from ..encoding.encode import SchemaEncoder, UserEncoder
from ..encoding.frequent import FrequentSource
from ..encoding.labels import Labels
from ..encoding.rows import ColumnSource
from ..encoding.schema import Schema
from ..encoding.schema_parts import MOST_USERS
from ..encoding.streaming import StreamEncoder
from ..errors import StreamError
from ..readers.base import PAUSE, Piece, Progress, Source
from ..readers.columns import Columns
from ._delays import DelayedSource, Wrapper

__all__ = ["CappedSource", "encoded_rows", "encoded_source", "schema_source"]

BoolArray = npt.NDArray[np.bool_]


CAP_CONDITION = (
    "whose row each row is, by the text of the cell, and hence which rows the cap on rows per user drops and how many "
    "are learnt, is the same in neighbouring streams and is not hidden"
)
APART_CONDITION = CAP_CONDITION.replace(
    "the cap on rows per user drops", "the cap on rows per user and their distance drop"
)
NULL_CONDITION = (
    "rows of a user, told by the text of the cell, that are beyond the cap or too near to the last one learnt are null "
    "rows, which depends on the rows of the same user alone: neighbouring streams differ in rows of one user, who is "
    "the same in both or has no other rows in either"
)


def schema_source(
    schema: Schema, columns: Columns, *, target: bool = True, count_cells: bool = False
) -> tuple[Source, SchemaEncoder]:
    """Return the rows of a table as a schema says, with its delay and its cap, and their encoder.

    With both, labels are joined first and the cap counts the rows that are learnt, or become null rows: a user whose
    rows never get their label does not use up the cap, and rows that only bring labels do not count.

    Parameters
    ----------
    schema : Schema
    columns : Columns
    target : bool, default True
        False gives every row without target, cap and delay, as for prediction.
    count_cells : bool, default False
        Whether iterations fill :attr:`Source.cells`.
    """
    encoder = SchemaEncoder(schema, columns, target=target)
    source: Source = (CountedSource if count_cells else ColumnSource)(columns, encoder)
    inferred = columns.facts.inferred
    if not (schema.others == "number" or any(not isinstance(place, str) for place in schema.special)):
        # What is asked for by name is found wherever it stands.
        inferred = tuple(what for what in inferred if what != "columns")
    schema = encoder.schema
    source.facts = replace(columns.facts, inferred=inferred, conditions=schema.conditions_from(columns.facts.first_row))
    if target and schema.delay is not None:
        source = DelayedSource(source, schema.delay.window, key=str(schema.delay.key))
    if target and schema.user is not None:
        users = None if schema.delay is not None else ColumnSource(columns, UserEncoder(encoder, columns))
        user = schema.user
        source = CappedSource(
            source,
            user.max_rows,
            separation=user.separation,
            null=user.surplus == "null",
            max_users=user.max_users,
            users=users,
            user=str(schema.user.column),
        )
    return source, encoder


def encoded_source(
    encoder: StreamEncoder,
    columns: Columns,
    target: Any,
    labels: Labels,
    file_options: Mapping[str, Any],
    *,
    count_cells: bool = False,
) -> tuple[Source, SchemaEncoder]:
    """Learn the schema of a table from its first rows; return the others as it says, and what encodes them.

    They stand beside the encoding in its ledger; where the encoder uses all rows, and they are all, both add up.
    """
    rest = encoder.learn(columns, target, labels, file_options)
    source, coder = schema_source(encoder.schema_, rest, target=target is not False, count_cells=count_cells)
    if not encoder.reused_:
        source.facts = replace(source.facts, beside=encoder.account_.plan_id)
    return source, coder


def encoded_rows(encoder: StreamEncoder, source: Source) -> Source:
    """Learn from the first rows which features are frequent; return these features of the others."""
    rest = encoder.learn_rows(source)
    assert encoder.schema_.rows is not None
    found = FrequentSource(rest, encoder.schema_.rows, encoder.schema_.conditions_from(rest.facts.first_row))
    if not encoder.reused_:
        found.facts = replace(found.facts, beside=encoder.account_.plan_id)
    return found


class CappedSource(Wrapper):
    """The first ``max_rows`` rows of each user in the order of the stream; the others are dropped and counted.

    With ``separation``, rows that come too early after the last one that is kept of their user are dropped too. How far
    apart rows are is counted in the rows that are kept.

    With ``null`` these rows are not dropped: they keep their place and lose their target, which makes them null rows
    for learners with ``on_invalid="zero"``. How far apart rows are is then counted in all rows, so what becomes of a
    row depends on rows of its own user alone, and whose rows they are need not be the same in neighbouring streams.

    Dropped rows are no steps of the learner: they neither cost nor change anything. Two streams that differ in the
    contents of one user's rows, but not in whose row each is, keep the same rows and differ in at most ``max_rows`` of
    them; ``docs/guarantee.md`` has the argument, and why the users themselves must be held fixed.

    Users are remembered by a keyed hash, in 21 to 33 bytes each (:class:`privol._core._seen.UserTable`).

    Parameters
    ----------
    source : Source
        Its pieces name their users.
    max_rows : int
        At least 1.
    separation : int, default=1
        Any two rows of a user that are kept are at least so many kept rows apart.
    null : bool, default=False
        Whether the others become null rows instead of being dropped.
    max_users : int, default=2**24
        One more is an error, before its row is handed out: the table stays below 33 bytes times that.
    users : Source, optional
        The same rows with their users and nothing else, for :meth:`count`; without it counting reads everything.
    user : str, optional
        Name of the column that says whose row it is.

    Attributes
    ----------
    counts : dict of str to int
        Rows that the latest iteration dropped, or made null: "over_user_cap", with ``separation`` "too_near" of those
        within the cap, and what ``source`` counts. Not private.
    """

    def __init__(
        self,
        source: Source,
        max_rows: int,
        *,
        separation: int = 1,
        null: bool = False,
        max_users: int = MOST_USERS,
        users: Source | None = None,
        user: str | None = None,
    ) -> None:
        self._max_rows = integer(max_rows=max_rows, at_least=1, at_most=(1 << 31) - 1)
        self._separation = integer(separation=separation, at_least=1, at_most=1 << 48)
        self._max_users = integer(max_users=max_users, at_least=1, at_most=1 << 40)
        self._null = null
        super().__init__(source, NULL_CONDITION if null else CAP_CONDITION if separation == 1 else APART_CONDITION)
        self.facts = replace(
            self.facts,
            n_rows=source.facts.n_rows if null else None,
            rows_per_user=self._max_rows,
            user_separation=self._separation,
            users_fixed=not null,
            user=user,
        )
        self._users = users
        self._note(0, 0)

    def _note(self, over: int, near: int) -> None:
        """Count what was dropped, beyond the cap and too near."""
        self.counts = {**self._source.counts, "over_user_cap": over}
        if self._separation > 1:
            self.counts = {**self.counts, "too_near": near}

    def _table(self) -> UserTable:
        return UserTable(self._max_rows, self._separation, every=self._null, max_users=self._max_users)

    def pieces(self, limit: int, progress: Progress) -> Iterator[Piece]:
        table = self._table()
        dropped = 0
        for piece, keep in self._kept(self._source, table, limit, progress):
            kept = int(keep.sum())
            dropped += len(keep) - kept
            self._note(dropped - table.near, table.near)
            if piece is PAUSE:
                yield piece
            elif kept == len(keep):
                yield Piece(piece.X, piece.y)
            elif self._null:
                if piece.y is None:
                    raise StreamError(f"{self.name}: rows without targets cannot be made null rows")
                yield Piece(piece.X, np.where(keep, piece.y, np.nan))
            elif kept:
                yield Piece(piece.X[keep], None if piece.y is None else piece.y[keep])
        self._note(dropped - table.near, table.near)
        self._note_cells()

    def count(self) -> int:
        source = self._source if self._users is None else self._users
        if self._null:
            return source.count()
        return sum(int(keep.sum()) for _, keep in self._kept(source, self._table(), 65536, lambda _: None))

    def _kept(
        self, source: Source, table: UserTable, limit: int, progress: Progress
    ) -> Iterator[tuple[Piece, BoolArray]]:
        row = 1
        for piece in source.pieces(limit, progress):
            if piece is PAUSE:
                yield piece, np.empty(0, dtype=bool)
                continue
            n = int(piece.X.shape[0])
            if piece.users is None or len(piece.users) != n:
                raise StreamError(f"{self.name}, from row {row}: the rows do not name their users", row=row)
            if piece.users.null_count:
                row += int(np.argmax(piece.users.is_null().to_numpy(zero_copy_only=False)))
                raise StreamError(f"{self.name}, row {row}: found no user, every row needs one", row=row)
            try:
                keep, _ = table.keep(*coded_texts(piece.users))
            except OverflowError as error:
                row += int(error.args[0])
                raise StreamError(
                    f"{self.name}, row {row}: found one more user than max_users = {self._max_users:,} of [user] "
                    "allows, by which the memory for them is bounded",
                    row=row,
                ) from None
            yield piece, keep
            row += n


def coded_texts(column: Any) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Return a dictionary-coded pyarrow column of texts without nulls as :meth:`UserTable.keep` takes it."""
    texts = column.dictionary
    _, bounds, data = texts.buffers()
    wide = np.int64 if str(texts.type).startswith("large") else np.int32
    offsets = np.frombuffer(bounds, wide)[texts.offset : texts.offset + len(texts) + 1] if len(texts) else np.zeros(1)
    return (
        np.ascontiguousarray(column.indices.to_numpy(), dtype=np.int32),
        np.ascontiguousarray(offsets, dtype=np.int64),
        np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8),
    )
