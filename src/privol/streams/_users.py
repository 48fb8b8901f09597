"""A cap on the rows of each user, and a distance between them: the basis of a guarantee for users."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core._seen import UserTable
from .._validate import integer
from ..encoding.schema_parts import MOST_HIDDEN_USERS, MOST_USERS
from ..errors import StreamError
from ..readers.base import PAUSE, SEEN, Piece, Progress, Source
from ._delays import Wrapper

__all__ = ["CappedSource", "condition_of", "kept_rows"]

BoolArray = npt.NDArray[np.bool_]
SeenArray = npt.NDArray[np.void]
#: Returns an iterable of arrays of :data:`privol.readers.base.SEEN`.
Seen = Callable[[], Iterable[SeenArray]]


CAP_CONDITION = (
    "whose row each row is, by the text of the cell, and hence which rows the cap on rows per user drops and how many "
    "are learnt, is the same in neighbouring streams and is not hidden"
)
APART_CONDITION = CAP_CONDITION.replace(
    "the cap on rows per user drops", "the cap on rows per user and their distance drop"
)
NULL_CONDITION = (
    "rows of a user, known by the cell's text, that are beyond the cap or too near to the last one learnt are null "
    "rows, which depends on the rows of the same user alone: neighbouring streams differ in rows of one user, who is "
    "the same in both or has no other rows in either"
)


def condition_of(separation: int, *, null: bool) -> str:
    """The assumptions of a cap."""
    return NULL_CONDITION if null else CAP_CONDITION if separation == 1 else APART_CONDITION


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
        Any two kept rows of a user are at least this many kept rows apart.
    null : bool, default=False
        Whether the others become null rows instead of being dropped.
    max_users : int, default=2**24
        One more is an error, before its row is yielded: the table stays below 33 bytes times that. At most 2**40,
        with ``null`` 2**28, for which the guarantee knows how likely two users have one hash.
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
        limit = MOST_HIDDEN_USERS if null else 1 << 40
        self._max_users = integer(max_users=max_users, at_least=1, at_most=limit)
        self._null = null
        super().__init__(source, condition_of(separation, null=null))
        self.facts = replace(
            self.facts,
            n_rows=source.facts.n_rows if null else None,
            rows_per_user=self._max_rows,
            user_separation=self._separation,
            users_fixed=not null,
            user=user,
        )
        self._users = users
        self._key: bytes | None = None
        self._rows, self._place = 0, 0  # rows delivered before, and the position of the last of them in the input
        self._seen: Seen = tuple
        self._whole = self
        self._note(0, 0)

    def _note(self, over: int, near: int) -> None:
        """Count what was dropped, beyond the cap and too near."""
        self.counts = {**self._source.counts, "over_user_cap": over}
        if self._separation > 1:
            self.counts = {**self.counts, "too_near": near}

    def gone_on(self, key: bytes, rows: int, seen: Seen, rest: Callable[[Source, int], Source]) -> CappedSource:
        """Return a source that resumes after a number of delivered rows, by the record of their users.

        ``rest`` returns a source without its first rows; all else as of ``Stream.go_on``.
        """
        other = copy(self)
        other._key, other._rows, other._seen, other._whole = key, rows, seen, self
        other._place = rows
        if rows and not self._null:
            for found in seen():
                other._place = int(found["row"][-1])
        other._source = rest(self._source, other._place)
        return other

    def _table(self) -> UserTable:
        """The users seen so far."""
        words: dict[str, Any] = {"every": self._null, "max_users": self._max_users, "key": self._key}
        table = UserTable(self._max_rows, self._separation, **words)
        at = 0
        for found in self._seen():
            kept = np.flatnonzero(found["user"].any(axis=1))
            table.enter(np.ascontiguousarray(found["user"][kept]), at + kept)
            at += len(found)
        if at != self._rows:
            raise StreamError(f"{self.name}: the users are known of {at:,} of {self._rows:,} rows")
        table.go_on(at)
        return table

    def pieces(self, limit: int, progress: Progress) -> Iterator[Piece]:
        table = self._table()
        dropped = 0
        for piece, keep, seen in self._kept(self._source, table, limit, progress):
            kept = int(keep.sum())
            dropped += len(keep) - kept
            self._note(dropped - table.near, table.near)
            if piece is PAUSE:
                yield piece
            elif kept == len(keep):
                yield Piece(piece.X, piece.y, seen=seen)
            elif self._null:
                if piece.y is None:
                    raise StreamError(f"{self.name}: rows without targets cannot be made null rows")
                yield Piece(piece.X, np.where(keep, piece.y, np.nan), seen=seen)
            elif kept:
                y = None if piece.y is None else piece.y[keep]
                yield Piece(piece.X[keep], y, seen=None if seen is None else seen[keep])
        self._note(dropped - table.near, table.near)
        self._note_cells()

    def count(self) -> int:
        if self._whole is not self:
            return self._whole.count()
        source = self._source if self._users is None else self._users
        if self._null:
            return source.count()
        return sum(int(keep.sum()) for _, keep, _ in self._kept(source, self._table(), 65536, lambda _: None))

    def _kept(
        self, source: Source, table: UserTable, limit: int, progress: Progress
    ) -> Iterator[tuple[Piece, BoolArray, SeenArray | None]]:
        row = self._place + 1
        for piece in source.pieces(limit, progress):
            if piece is PAUSE:
                yield piece, np.empty(0, dtype=bool), None
                continue
            n = int(piece.X.shape[0])
            if piece.users is None or len(piece.users) != n:
                raise StreamError(f"{self.name}, from row {row}: the rows do not name their users", row=row)
            if piece.users.null_count:
                row += int(np.argmax(piece.users.is_null().to_numpy(zero_copy_only=False)))
                raise StreamError(f"{self.name}, row {row}: found no user, every row needs one", row=row)
            keep, digests = kept_rows(table, piece.users, self.name, row, named=self._key is not None)
            seen = None
            if digests is not None:
                seen = np.empty(n, dtype=SEEN)
                seen["user"], seen["row"] = digests, np.arange(row, row + n)
            yield piece, keep, seen
            row += n


def kept_rows(
    table: UserTable, users: Any, name: str, row: int, *, named: bool = False
) -> tuple[BoolArray, npt.NDArray[np.uint64] | None]:
    """Return which rows of users a table keeps, from the row with this number on; ``name``: of the input.

    ``named``: and their hashes, zeros for rows that are not kept.

    Raises
    ------
    StreamError
        If there are more users than it may know.
    """
    try:
        return table.keep(*coded_texts(users), undoable=named)
    except OverflowError as error:
        row += int(error.args[0])
        raise StreamError(
            f"{name}, row {row}: found one more user than max_users = {len(table):,} of [user] allows, by which the "
            "memory for them is bounded",
            row=row,
        ) from None


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
