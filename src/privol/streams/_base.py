"""The base of all streams: the pieces of a source, regrouped into numbered blocks."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from ..encoding.ranges import Ranges
from ..errors import StreamError
from ..readers.ahead import ReadAhead
from ..readers.base import BLOCK_BYTES, PAUSE, FloatArray, Piece, Rows, Source, told
from ._capped import CountedRows
from ._going import Seen, gone_on

__all__ = ["Block", "Stream"]


@dataclass(frozen=True, slots=True)
class Block:
    """Some consecutive rows of a stream.

    Attributes
    ----------
    X : ndarray or scipy CSR, shape (n, n_features)
        float64, C-contiguous (float32 where the input is a float32 array), or CSR
        with float32/float64 data and int32/int64 indices, not necessarily in
        canonical format. It may be a read-only view of the caller's own array:
        do not write into it.
    y : ndarray of float64, shape (n,), or None
        For classification the index (0.0, 1.0, ...) into :attr:`Stream.classes`, for
        regression the target itself, None for a stream without a target.
    first_row : int
        1-based number of the block's first row, counted over the whole stream.
    seen : ndarray, shape (n,), or None
        Whose row each is, by a keyed hash, for a run that is kept (:meth:`Stream.go_on`): **secret**.
    """

    X: Rows
    y: FloatArray | None
    first_row: int
    seen: npt.NDArray[np.void] | None = None


class _Step(NamedTuple):
    """A block (None at the end), and what was known about the iteration just after the block was made."""

    block: Block | None
    fraction: float
    counts: dict[str, int]
    cells: Mapping[str, Mapping[str, int]] | None = None
    cell_rows: int | None = None


class Stream:
    """Rows of a file, array or generator, iterated as :class:`Block` objects.

    Made by :func:`privol.open_stream`. Each iteration starts anew at row 1 where
    ``repeatable`` is true; a generator can be iterated once. Closing the iterator
    (or dropping it) closes the file and ends the thread that reads ahead. An iterator
    belongs to the process that made it.

    Attributes
    ----------
    n_features : int
        Columns of every block's X.
    n_rows : int or None
        Number of rows where it is known without reading the data; see also :meth:`count_rows`.
    classes : tuple or None
        Labels, of two (negative, positive); ``y`` holds their indices. None for regression.
    feature_names : tuple of str or None
        Names of the columns of X, where the input has a header.
    source : str
        Name of the input for display: a file's name (without its folder) or the kind of input.
    repeatable : bool
        Whether the stream can be iterated more than once.
    schema : Schema or None
        The schema that makes the rows, where one was given.
    row_bound : float or None
        The largest norm that a row can have by the schema or the ranges; None where they leave a feature unbounded.
    rows_per_user : int or None
        The most rows of one user that the stream yields; None where the schema caps nothing.
    user_separation : int
        Any two yielded rows of one user are at least so many yielded rows apart; 1 where the schema keeps none apart.
    users_fixed : bool
        Whether neighbouring streams have the same users, because it depends on them which rows are dropped. False where
        the schema makes null rows of those that are too many or too near.
    user : str or None
        Name of the column that says whose row it is, by which the cap counts; None without a cap.
    beside : str or None
        Account of what learnt from the rows before these, such as their encoding: together they cost as
        much as the more expensive one, as a row is in one of them only.
    first_row : int
        Number of the first row in the whole input: 1, or more where the rows before taught the encoding.
    positions : Positions or None
        Where a database is after each row, by which a run that is kept goes on there; None where rows wait for their
        labels, or users are counted over rows that taught too. **Not private.**
    conditions : tuple of str
        What the guarantee of a run on this stream takes for granted, one sentence each: those of the schema, of its
        cap and its delay, and what was inferred from the contents of the input (separator, header, ...), if anything.
    """

    def __init__(
        self,
        source: Source,
        *,
        classes: tuple[Any, ...] | None,
        ranges: Ranges | None,
        block_rows: int,
        schema: Any = None,
        read_ahead: bool = False,
    ):
        self._source = source
        self._ranges = ranges
        self._started = self._brings_rest = False
        self._fraction = 0.0
        self._counts = dict(source.counts)
        self._cells: Mapping[str, Mapping[str, int]] | None = None
        self._cell_rows: int | None = None
        self._read_ahead = read_ahead
        self._next: tuple[Source, int] = (source, 0)  # for the next iteration, and the rows before it
        self._named = source  # for the ones after that
        facts = self._facts = source.facts
        if not source.sparse and facts.merge:
            block_rows = max(1, min(block_rows, BLOCK_BYTES // (8 * source.n_features)))
        self._block_rows = block_rows
        self.n_features = source.n_features
        self.n_rows = facts.n_rows
        self.classes = classes
        self.feature_names = source.feature_names
        self.source = facts.name
        self.repeatable = facts.repeatable
        self.schema = schema
        bounded = ranges if schema is None else schema
        self.row_bound: float | None = None if bounded is None else bounded.row_bound
        self.rows_per_user = facts.rows_per_user
        self.user_separation = facts.user_separation
        self.users_fixed = facts.users_fixed
        self.user = facts.user
        self.beside = facts.beside
        self.first_row = facts.first_row
        self.positions = facts.positions
        self.conditions = (*facts.conditions, *told(facts.inferred))

    def __repr__(self) -> str:
        rows = "unknown" if self.n_rows is None else f"{self.n_rows:,}"
        return f"<Stream {self.source}: {rows} rows, {self.n_features} features, classes {self.classes}>"

    @property
    def fraction_read(self) -> float | None:
        """Fraction (0 to 1) of the input consumed for the blocks yielded so far, None if it cannot be known.

        It is that of the latest iteration. For files it is counted in bytes, compressed bytes for compressed files.
        """
        return self._fraction if self._facts.sized else None

    @property
    def counts(self) -> dict[str, int]:
        """How many rows the schema's rules have dropped so far in the latest iteration, by rule. **Not private.**"""
        return dict(self._counts)

    @property
    def set_aside(self) -> int | None:
        """How many messages were set aside as unreadable so far in the latest iteration; None where none ever are.

        In a run that goes on, those before it count too. The guarantee takes which messages these are for granted.
        """
        count = self._facts.set_aside
        return None if count is None else count()

    @property
    def away(self) -> bool:
        """Whether the broker cannot be reached for now, and is waited for."""
        away = self._facts.away
        return away is not None and away()

    @property
    def lag(self) -> int | None:
        """How many messages waited at the broker when it was read last; None where none has said. **Not private.**

        It changes when a message comes, and rows that a cap drops or that are set aside count.
        """
        lag = self._facts.lag
        return None if lag is None else lag()

    @property
    def cells(self) -> dict[str, dict[str, int]] | None:
        """How many cells the schema does not take as they are, by column and kind. **Not private**, a diagnostic.

        "unknown": a cell that is none of the declared levels; "missing": one that is empty or counts as missing;
        "clipped": a number beyond its declared range or its knots (of the target too), infinities aside; times beyond
        the knots are to be expected, and count nowhere. Only what is not 0 is there:
        ``{"ward": {"unknown": 12, "missing": 3}}``. Every row of the input counts that brings features, also those that
        a cap drops or that wait for their label in vain; labels do not count. Of a hashed column no cell is unknown,
        and a column that is dropped is not read.

        It is that of the latest iteration, and exact: None until that has come to its end, and where
        ``open_stream(..., count_cells=True)`` did not ask for it.
        """
        return None if self._cells is None else {name: dict(found) for name, found in self._cells.items()}

    @property
    def cell_rows(self) -> int | None:
        """Over how many rows :attr:`cells` counts. **Not private** where a delay drops rows; None as there."""
        return self._cell_rows

    def count_rows(self) -> int:
        """Return the number of rows, reading the whole input once if ``n_rows`` is None.

        The count of a private data set is treated as public everywhere in privol
        (it is the horizon). Files are counted at the speed of decompression.

        Raises
        ------
        StreamError
            If the stream is not repeatable, so that counting would use it up, or damaged.
        """
        if self.n_rows is None:
            if not self.repeatable:
                raise StreamError(f"{self.source}: the rows of a stream that can be read only once cannot be counted")
            self.n_rows = self._source.count()
        return self.n_rows

    def brings_rest(self) -> None:
        """Take an input that can be read only once for the rows from :attr:`first_row` on, or those that are left.

        Without it, it has the rows before :attr:`first_row`, too. Whoever calls it sees to it that no row comes twice.

        Raises
        ------
        StreamError
            If the rows before them are needed: their users are counted, or they wait for their labels.
        """
        if not self.repeatable and self.first_row > 1:
            self._source.brings_rest()
            self._brings_rest = True

    def go_on(self, key: bytes, *, rows: int = 0, seen: Seen = tuple) -> bool:
        """Let iterations say whose rows they yield, and the next one continue where another of the same rows stopped.

        Parameters
        ----------
        key : bytes of length 16
            Of the hash by which :attr:`Block.seen` names users: **secret**.
        rows : int, default=0
            Rows that were yielded before. A stream that can be read once has only the rows after them; others skip
            them, and read of them only what it takes to find the next.
        seen : callable, optional
            Returns an iterable of arrays: :attr:`Block.seen` of these rows, where the schema caps rows.

        Returns
        -------
        bool
            Whether the stream could go on by what its iterations say: not where rows that taught are counted too.

        Raises
        ------
        StreamError
            If rows wait for their labels, or those before the first row are left out of an input that is read once.
        """
        if rows and self.positions is not None and not self.positions.kept:
            raise StreamError(
                f"{self.source}: rows of a database are not left out by their number, which changes when rows are "
                "inserted or deleted before them, and the position of these is not known: the run goes on with all of "
                "its rows, which are compared"
            )
        if rows and not (self.repeatable or self._brings_rest) and self._facts.first_row > 1:
            raise StreamError(
                f"{self.source}: the rows that taught are at the beginning of an input that can be read only once, so "
                "it has to be brought from its beginning"
            )
        self._next = gone_on(self._source, key, rows, seen, skip=self.repeatable), rows
        self._named = gone_on(self._source, key, 0, tuple, skip=False)
        return not isinstance(self._source, CountedRows)

    def __iter__(self) -> Iterator[Block]:
        if self._started and not self.repeatable:
            raise StreamError(f"{self.source}: this stream can be iterated only once, open a new one")
        self._started = True
        (source, rows), self._next = self._next, (self._named, 0)
        steps = partial(self._steps, source, rows)
        return self._taken(ReadAhead(steps) if self._read_ahead else steps(lambda: None), os.getpid())

    def _taken(self, steps: ReadAhead[_Step] | Generator[_Step], pid: int) -> Iterator[Block]:
        """Hand out the blocks of an iteration and record its progress, in the consumer's thread."""
        self._fraction = 0.0
        self._cells = self._cell_rows = None
        with closing(steps):
            while True:
                # Both processes would share one position in the file, and the thread exists in only one of them.
                if os.getpid() != pid:
                    raise StreamError(
                        f"{self.source}: an iteration cannot go on in a forked process, open the stream there"
                    )
                step = next(steps)
                self._fraction, self._counts = step.fraction, step.counts
                if step.block is None:
                    self._cells, self._cell_rows = step.cells, step.cell_rows
                    return
                yield step.block
                del step  # otherwise the block would stay alive until the next one is there

    def _steps(self, source: Source, rows: int, alive: Callable[[], None]) -> Generator[_Step]:
        """Make the blocks after a number of rows; in a separate thread if the stream reads ahead."""
        fraction, row = 0.0, rows + 1

        def progress(now: float) -> None:
            nonlocal fraction
            fraction = now
            alive()

        pieces = source.pieces(self._block_rows, progress)
        for X, y, *_, seen in _regroup(pieces, self._block_rows, self._facts.merge):
            if self._ranges is not None:
                X = self._ranges.rows(X, self.source, row)
            block = Block(X, y, row, seen)
            row += X.shape[0]
            del X, y, seen
            yield _Step(block, fraction, dict(source.counts))
            del block
        if row == 1:
            raise StreamError(f"{self.source}: no rows, at least one is needed")
        yield _Step(None, 1.0, dict(source.counts), source.cells, source.cell_rows)


def _regroup(pieces: Iterator[Piece], limit: int, merge: bool) -> Iterator[Piece]:
    """Cut and, if ``merge``, join pieces to blocks of ``limit`` rows (fewer only at the end and before a pause)."""
    pending = _Pending(limit)
    for piece in pieces:
        if piece is PAUSE and pending.rows:
            yield pending.take()
        X = piece.X
        n, start = X.shape[0], 0
        while start < n:
            # A whole block inside one piece passes without a copy.
            if pending.rows == 0 and (n - start >= limit or not merge):
                stop = min(start + limit, n)
                whole = start == 0 and stop == n
                yield piece if whole else _part(piece, start, stop)
            else:
                stop = min(start + limit - pending.rows, n)
                pending.add(_part(piece, start, stop))
                if pending.rows == limit:
                    yield pending.take()
            start = stop
    if pending.rows:
        yield pending.take()


def _part(piece: Piece, start: int, stop: int) -> Piece:
    y = None if piece.y is None else piece.y[start:stop]
    return Piece(piece.X[start:stop], y, seen=None if piece.seen is None else piece.seen[start:stop])


class _Pending:
    """Rows waiting for their block to fill; dense rows go straight to their final place."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._dense: npt.NDArray[Any] | None = None
        self._sparse: list[Any] = []
        self._y: list[FloatArray] = []
        self._seen: list[npt.NDArray[np.void]] = []
        self.rows = 0

    def add(self, piece: Piece) -> None:
        X = piece.X
        if sp.issparse(X):
            self._sparse.append(X)
        else:
            if self._dense is None:
                self._dense = np.empty((self._limit, X.shape[1]), dtype=X.dtype)
            self._dense[self.rows : self.rows + X.shape[0]] = X
        if piece.y is not None:
            self._y.append(piece.y)
        if piece.seen is not None:
            self._seen.append(piece.seen)
        self.rows += X.shape[0]

    def take(self) -> Piece:
        X: Rows
        if self._dense is None:
            X = self._sparse[0] if len(self._sparse) == 1 else sp.vstack(self._sparse, format="csr")
        else:
            # A short last block is copied, so that it does not keep a full one alive.
            X = self._dense if self.rows == self._limit else self._dense[: self.rows].copy()
        y = np.concatenate(self._y) if self._y else None
        seen = np.concatenate(self._seen) if self._seen else None
        self._dense, self._sparse, self._y, self._seen, self.rows = None, [], [], [], 0
        return Piece(X, y, seen=seen)
