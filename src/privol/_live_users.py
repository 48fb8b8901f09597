"""Counts the users of rows that arrive block by block, so that the learner itself keeps the cap per user."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._core._learner_run import LearnerRun
from ._core._seen import UserTable
from ._values import column_of, shown, single
from .calibration import check_user
from .encoding.ids import id_text
from .errors import InvalidParameter, InvalidRow, StateError
from .readers.base import Facts

__all__ = ["LiveUsers", "counting_for", "live_users"]

FloatArray = NDArray[np.float64]

_CONDITION = (
    "the run is told whose row each row is, and counts the rows of every user: {fate}, which depends on the rows "
    "of the same user alone; neighbouring streams differ in rows of one user, who is the same in both or has no other "
    "rows in either"
)
_FATES = {
    False: "those that are beyond the cap or too near to the last one learnt are null rows",
    True: "a block with one that is beyond the cap or too near to the last one learnt is refused",
}


class LiveUsers:
    """What :func:`privol.open_stream` is for a file: it keeps ``rows_per_user`` and ``user_separation``.

    How far apart rows are is counted in all rows of the run, null rows too.

    Parameters
    ----------
    rows_per_user, user_separation : int
    refuse : bool
        Whether surplus rows are refused, or made null rows.
    """

    n_rows = None
    classes = None
    users_fixed = False
    user = None

    def __init__(self, rows_per_user: int, user_separation: int, *, refuse: bool) -> None:
        self.rows_per_user = rows_per_user
        self.user_separation = user_separation
        self.conditions = (_CONDITION.format(fate=_FATES[refuse]),)
        self._refuse = refuse
        self._table = UserTable(rows_per_user, user_separation, every=True)
        self._alone = threading.RLock()

    def promised(self, facts: Facts) -> Facts:
        """Return the facts of an input whose rows are counted here."""
        users: dict[str, Any] = {"rows_per_user": self.rows_per_user, "user_separation": self.user_separation}
        return replace(facts, users_fixed=False, conditions=(*facts.conditions, *self.conditions), **users)

    def admit(self, users: Any, n: int, learnt: int) -> NDArray[np.bool_]:
        """Count the rows of a block, and return which of them are surplus rows.

        Parameters
        ----------
        users : array-like of shape (n,)
        n : int
        learnt : int
            Rows of the run so far.

        Raises
        ------
        InvalidRow
            If a row has no user, or is a surplus row that is refused. None of the rows counts then.
        InvalidParameter
            If there are not as many users as rows, or too many of them in the run.
        """
        given = np.asarray(column_of(users))
        if given.ndim != 1 or len(given) != n:
            raise InvalidParameter(f"users must have shape ({n},), one for each row, found {given.shape}")
        values = given.tolist()
        texts = [id_text(single(value)) for value in values]
        if None in texts:
            row = texts.index(None)
            raise InvalidRow(
                f"row {learnt + row + 1}: found {shown(values[row])} for its user, allowed are numbers and texts that "
                "are not empty; nothing of its block was learnt",
                row=learnt + row + 1,
            )
        cells = [text.encode() for text in texts if text is not None]
        offsets = np.zeros(len(cells) + 1, dtype=np.int64)
        np.cumsum(np.fromiter(map(len, cells), dtype=np.int64, count=len(cells)), out=offsets[1:])
        which = np.arange(len(cells), dtype=np.int32)
        try:
            keep, _ = self._table.keep(which, offsets, np.frombuffer(b"".join(cells), np.uint8), undoable=True)
        except OverflowError as error:
            row = learnt + int(error.args[0]) + 1
            most = f"{len(self._table):,}"
            raise InvalidParameter(f"row {row}: found one more user than a run may have ({most})") from None
        surplus = np.flatnonzero(~keep)
        if surplus.size and self._refuse:
            self.settle(0)
            row = learnt + int(surplus[0]) + 1
            raise InvalidRow(
                f"row {row}: its user has {self.rows_per_user} rows already, or one less than {self.user_separation} "
                "rows ago, and the budget is for no more (on_invalid='zero' makes null rows of such rows); nothing of "
                "its block was learnt",
                row=row,
            )
        return ~keep

    def learn_one(self, state: LearnerRun, x: Any, target: float, user: Any) -> None:
        """Let a run learn one row of a user, or a null row."""
        with self.counted([user], 1, lambda: state.n_rows) as surplus:
            state.learn_one(x, math.nan if surplus[0] else target)

    @contextmanager
    def counted(self, users: Any, n: int, rows: Callable[[], int]) -> Iterator[NDArray[np.bool_]]:
        """Count the rows of a block while it is learnt, and give those that are surplus rows; errors as :meth:`admit`.

        A second thread waits: its rows would be learnt before those that are counted before, or be taken back for them.
        ``rows`` says how many the run has learnt.
        """
        with self._alone:
            before = rows()
            surplus = self.admit(users, n, before)
            try:
                yield surplus
            finally:
                self.settle(rows() - before)

    def settle(self, learnt: int) -> None:
        """State how many rows of the block were learnt; the others do not count."""
        self._table.undo(learnt)

    def secret_arrays(self) -> dict[str, NDArray[Any]]:
        """The record of users, as named arrays: SECRET, including the key of the hash."""
        return {f"users_{name}": array for name, array in self._table.secret_arrays().items()}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on from :meth:`secret_arrays` of one with the same parameters.

        Raises
        ------
        StateError
            If they are of other parameters, or of a run that counted no users.
        """
        if "users_key" not in arrays:
            raise StateError("the state is of a run that did not count users")
        names = [name for name in arrays if name.startswith("users_")]
        self._table.restore({name.removeprefix("users_"): arrays[name] for name in names})


def live_users(
    rows_per_user: int | None, user_separation: int, users: Any, before: LiveUsers | None, *, begun: bool, refuse: bool
) -> LiveUsers | None:
    """Return the counter of a block's users: that of the run, a new one for a run that will begin, or None.

    Raises
    ------
    InvalidParameter
        If some blocks of a run have users and others have none, or the budget is not for users.
    """
    if begun and (before is None) != (users is None):
        raise InvalidParameter(
            "users must be given with every block of a run or with none: the guarantee states who counts a user's "
            "rows from the first row on"
        )
    if users is None or before is not None:
        return before
    if rows_per_user is None:
        raise InvalidParameter("users need a budget for users: rows_per_user must be the most rows of each, found None")
    return LiveUsers(*check_user(rows_per_user, user_separation), refuse=refuse)


def counting_for(learner: Any, users: Any, run: Any, *, refuse: bool) -> LiveUsers | None:
    """Return who counts the users of a block of a learner: of its run, or of one that is to begin (None).

    Parameters and errors as for :func:`live_users`.
    """
    words = getattr(learner, "rows_per_user", None), getattr(learner, "user_separation", 1)
    before = None if run is None else run.users
    return live_users(*words, users, before, begun=run is not None, refuse=refuse)
