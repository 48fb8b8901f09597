"""At most so many rows of each user, and not too near to each other: what a guarantee for users rests on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from .._validate import integer
from ..encoding.cells import CountedSource
from ..encoding.encode import SchemaEncoder, UserEncoder
from ..encoding.frequent import FrequentSource
from ..encoding.labels import Labels
from ..encoding.rows import ColumnSource
from ..encoding.schema import Schema
from ..encoding.streaming import StreamEncoder
from ..errors import InvalidParameter, StreamError
from ..readers.base import PAUSE, Piece, Progress, Source
from ..readers.columns import Columns
from ._delays import DelayedSource, Wrapper

__all__ = ["CappedSource", "UserTable", "encoded_rows", "encoded_source", "schema_source"]

BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]

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

    With both, labels are joined first and the cap counts the rows that are learnt: a user whose rows never get their
    label does not use up the cap, and rows that only bring labels do not count.

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
        null = user.surplus == "null"
        if null and schema.delay is not None:
            raise InvalidParameter(
                f"{schema.name}: user.surplus must be 'drop' with [delay], found 'null': which rows find their label "
                "depends on the rows of others"
            )
        source = CappedSource(
            source,
            user.max_rows,
            separation=user.separation,
            null=null,
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

    Users are remembered as 128-bit digests in a table that is at most two thirds full and, once it has grown beyond
    the users of one batch, at least one third: 18 bytes a slot for caps below 256, so 27 to 54 bytes a user, with
    ``separation`` 26 and so 39 to 78, and half as much again for a moment whenever it grows. Two users with the same
    digest would share a cap, which only drops more.

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
        users: Source | None = None,
        user: str | None = None,
    ) -> None:
        self._max_rows = integer(max_rows=max_rows, at_least=1, at_most=(1 << 31) - 1)
        self._separation = integer(separation=separation, at_least=1, at_most=1 << 48)
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

    def pieces(self, limit: int, progress: Progress) -> Iterator[Piece]:
        table = UserTable(self._max_rows, self._separation, every=self._null)
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
        table = UserTable(self._max_rows, self._separation)
        return sum(int(keep.sum()) for _, keep in self._kept(source, table, 65536, lambda _: None))

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
            yield piece, table.keep(piece.users)
            row += n


class UserTable:
    """How many rows of each user have been kept, by the digest of the user's id; open addressing in numpy arrays.

    Attributes
    ----------
    near : int
        Rows that the cap would have kept, but not the distance from the last one kept of their user.
    """

    def __init__(self, max_rows: int, separation: int = 1, *, every: bool = False) -> None:
        self._max_rows, self._separation, self._every = max_rows, separation, every
        self._size = self._kept = self.near = 0
        self._make(1 << 10)

    def _make(self, slots: int) -> None:
        self._used = np.zeros(slots, dtype=bool)
        self._keys = np.zeros((slots, 2), dtype=np.uint64)
        self._counts = np.zeros(slots, dtype=np.min_scalar_type(self._max_rows))
        # the number of the last row kept, among all that were; long ago for those of whom none was
        self._last = np.full(slots if self._separation > 1 else 0, -self._separation, dtype=np.int64)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self._used.nbytes + self._keys.nbytes + self._counts.nbytes + self._last.nbytes

    def keep(self, users: Any) -> BoolArray:
        """Return which rows are kept, for a dictionary-coded pyarrow array without nulls, and remember them."""
        codes = users.indices.to_numpy()
        # A batch may be a slice of a longer one, with a dictionary of users that are not in it.
        present, codes = np.unique(codes, return_inverse=True)
        # One dictionary may hold the same text twice.
        distinct: dict[str, int] = {}
        texts = users.dictionary.take(_array(present)).to_pylist()
        which = np.array([distinct.setdefault(text, len(distinct)) for text in texts], dtype=np.int64)
        digests = b"".join(hashlib.blake2b(text.encode(), digest_size=16).digest() for text in distinct)
        who = self._slots(np.frombuffer(digests, dtype=np.uint64).reshape(-1, 2))[which[codes]]
        if self._separation > 1:
            return self._apart(who)
        rank = _ranks(who)
        counts = self._counts[who].astype(np.int64)
        keep: BoolArray = counts + rank < self._max_rows
        slots, rows = np.unique(who[keep], return_counts=True)
        self._counts[slots] += rows.astype(self._counts.dtype)
        return keep

    def _apart(self, who: IntArray) -> BoolArray:
        """The same row by row: whether one is kept depends on how many were before it."""
        slots, at = np.unique(who, return_inverse=True)
        counts, last = self._counts[slots].tolist(), self._last[slots].tolist()
        most, apart, number, near = self._max_rows, self._separation, self._kept, 0
        keep = []
        for user in at.tolist():
            kept = counts[user] < most
            if kept and number - last[user] < apart:
                kept = False
                near += 1
            if kept:
                counts[user] += 1
                last[user] = number
            number += kept or self._every  # what is counted: rows that are kept, or all
            keep.append(kept)
        self._counts[slots], self._last[slots] = counts, last
        self._kept, self.near = number, self.near + near
        return np.array(keep, dtype=bool)

    def _slots(self, keys: npt.NDArray[np.uint64]) -> IntArray:
        """Return the slot of each of some different keys, taking free ones for those that are new."""
        while 3 * (self._size + len(keys)) > 2 * len(self._used):
            self._grow()
        mask = len(self._used) - 1
        at = (keys[:, 0] & np.uint64(mask)).astype(np.int64)
        pending = np.arange(len(keys))
        while pending.size:
            # Of several keys at one free slot the first takes it.
            free = pending[~self._used[at[pending]]]
            _, first = np.unique(at[free], return_index=True)
            winners = free[first]
            self._used[at[winners]] = True
            self._keys[at[winners]] = keys[winners]
            self._size += len(winners)
            pending = pending[(self._keys[at[pending]] != keys[pending]).any(axis=1)]
            at[pending] = (at[pending] + 1) & mask
        return at

    def _grow(self) -> None:
        used, keys, counts, last = self._used, self._keys, self._counts, self._last
        self._make(2 * len(used))
        self._size = 0
        slots = self._slots(keys[used])
        self._counts[slots] = counts[used]
        if len(last):
            self._last[slots] = last[used]


def _ranks(groups: IntArray) -> IntArray:
    """Return how many earlier elements are equal to each."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])) if len(ordered) else np.empty(0, np.int64)
    sizes = np.diff(np.append(starts, len(ordered)))
    ranks = np.empty(len(groups), dtype=np.int64)
    ranks[order] = np.arange(len(ordered)) - np.repeat(starts, sizes)
    return ranks


def _array(values: npt.NDArray[Any]) -> Any:
    import pyarrow

    return pyarrow.array(values)
