"""Where in its input a reader is after each row: what is kept with a checkpoint, so that a run goes on from there.

A live source (:mod:`.message_columns`) is told besides when a checkpoint is on the disk: only then it acknowledges to
its broker what that checkpoint has.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["Positions", "Trail"]

# Blocks may be read before anybody follows: those that teach an encoding, and those read ahead. So many of their rows
# and blocks are remembered.
_UNFOLLOWED_ROWS, _UNFOLLOWED_BLOCKS = 1 << 20, 64


class _Mark(NamedTuple):
    """A block of rows: how many there were before, how many it has, and what gives the position after some of them."""

    before: int
    rows: int
    at: Callable[[int], Any]


class Trail:
    """The positions of one iteration. An iteration that was left, but still reads ahead, adds only to its own.

    Parameters
    ----------
    positions : Positions
    rows : int
        Rows of the input before the first one of this iteration.
    first : JSON value
        The position after these.
    """

    def __init__(self, positions: Positions, rows: int, first: Any) -> None:
        self._positions = positions
        self._lock = threading.Lock()
        self._marks: deque[_Mark] = deque()
        self._first: tuple[int, Any] = (rows, first)
        self._last = rows

    def add(self, rows: int, at: Callable[[int], Any]) -> None:
        """A block of rows is about to be yielded; ``at(k)`` is the position after its first k >= 1 rows."""
        with self._lock:
            self._marks.append(_Mark(self._last, rows, at))
            self._last += rows
            while not self._positions.followed and len(self._marks) > _UNFOLLOWED_BLOCKS:
                if self._last - self._marks[0].before <= _UNFOLLOWED_ROWS:
                    return
                self._forget()

    def _forget(self) -> None:
        gone = self._marks.popleft()
        self._first = (gone.before + gone.rows, gone.at(gone.rows))

    def forget(self, row: int) -> None:
        """Forget the rows before this one: nobody will ask for them."""
        with self._lock:
            while self._marks and self._marks[0].before + self._marks[0].rows < row:
                self._forget()

    def after(self, row: int) -> Any:
        """Return the position after a row of the input; those before it are forgotten.

        Raises
        ------
        LookupError
            If that row was not read, or is forgotten.
        """
        self.forget(row)
        with self._lock:
            if row == self._first[0]:
                return self._first[1]
            if not self._marks or row < self._marks[0].before:
                raise LookupError(f"the position after row {row} is not known")
            return self._marks[0].at(row - self._marks[0].before)


class Positions:
    """The positions of a reader whose input has them, such as the key of a row in a table.

    A position is a JSON value that only its reader understands. It depends on the data and is released nowhere: it is
    kept where the secret state is. One thread may read while another asks.

    The reader calls :meth:`begin` for each iteration. Whoever keeps a run calls :meth:`follow` before it reads,
    :meth:`after` for each checkpoint, and :meth:`settled` when the disk has it.

    Parameters
    ----------
    restore : callable
        Takes a position that was kept: afterwards the reader can go on from it, and knows it again when it passes it.
        Raises StreamError where the input cannot be the one of that position.
    settled : callable, optional
        Takes a position that is kept for good, and whether it is the last one of its run: the reader acknowledges what
        comes before it. Called from any thread; it raises nothing that the run could go on without.
    eager : bool, default=False
        Whether the input gives only so many rows before a checkpoint has them: each block is then kept.

    Attributes
    ----------
    followed : bool
        Whether somebody keeps the run.
    kept : bool
        Whether it goes on from a position.
    live : bool
        Whether the reader is to be told what is kept.
    """

    def __init__(
        self,
        restore: Callable[[Any], None],
        settled: Callable[[Any, bool], None] | None = None,
        *,
        eager: bool = False,
    ) -> None:
        self._restore = restore
        self._settled = settled
        self.live, self.eager = settled is not None, eager
        self._trail: Trail | None = None
        self.followed = False
        self.kept = False

    def follow(self, position: Any = None) -> None:
        """Remember positions from now on, and continue from one that was kept.

        Parameters
        ----------
        position : JSON value, optional
            What :meth:`after` returned in an earlier process.
        """
        if position is not None:
            self._restore(position)
        self.followed, self.kept = True, position is not None

    def settled(self, position: Any, *, last: bool = False) -> None:
        """Tell the reader that a checkpoint with this position is on the disk, perhaps the last one of its run."""
        if self._settled is not None:
            self._settled(position, last)

    def begin(self, rows: int, first: Any) -> Trail:
        """Begin an iteration after so many rows, at this position; the reader adds its blocks to the trail returned."""
        self._trail = Trail(self, rows, first)
        return self._trail

    def forget(self, row: int) -> None:
        """Forget the positions of rows before this one: nobody will ask for them."""
        if self._trail is not None:
            self._trail.forget(row)

    def after(self, row: int) -> Any:
        """Return the position after a row of the latest iteration, not before one that was asked for earlier.

        Raises
        ------
        LookupError
            If that row was not read, or is forgotten.
        """
        if self._trail is None:
            raise LookupError("nothing was read yet")
        return self._trail.after(row)
