"""Rows that come block by block: the life of a run of both phases, and whose rows they are."""

from __future__ import annotations

import functools
import threading
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Self, TypeVar, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._validate import integer
from ..encoding.encode import SchemaEncoder
from ..errors import InvalidParameter, StateError
from ..learners.feeding import LiveUsers, live_users
from .course import Course
from .inputs import count_of
from .reading import ReadsTables

__all__ = ["LearnsLive", "one_at_a_time"]

Method = TypeVar("Method", bound=Callable[..., Any])


def one_at_a_time(method: Method) -> Method:
    """Let a second thread wait: two that count rows of one phase could end it twice, with the same noise."""

    @functools.wraps(method)
    def held(self: Any, *values: Any, **words: Any) -> Any:
        with self.__dict__.setdefault("_lock", threading.RLock()):
            return method(self, *values, **words)

    return cast("Method", held)


class LearnsLive(ReadsTables):
    """What :class:`PrivateModel` does with rows that are not all there at once."""

    horizon: int | None
    reuse_rows: bool | None
    rows_per_user: int | None
    user_separation: int
    releases: str

    @abstractmethod
    def _check_parameters(self) -> None: ...

    @abstractmethod
    def _prepared(self, table: Any, horizon: int, *, reuse: bool | None) -> Course: ...

    @abstractmethod
    def _read(self, course: Course, table: Any, coder: SchemaEncoder | None) -> list[Any]: ...

    @abstractmethod
    def _begin(self, course: Course) -> None: ...

    @abstractmethod
    def _seen(self, course: Course) -> None: ...

    def _counting(self, X: Any, users: Any, course: Course | None) -> tuple[LiveUsers | None, NDArray[np.bool_] | None]:
        """Return who counts the users of a block, and which of its rows are surplus rows."""
        if users is not None and sp.issparse(X):
            raise InvalidParameter("users of sparse rows are not counted, and users was given")
        before, begun = None if course is None else course.users, course is not None
        refuse = self.on_invalid == "raise"
        counting = live_users(self.rows_per_user, self.user_separation, users, before, begun=begun, refuse=refuse)
        taken = 0 if course is None else course.taken
        return counting, None if counting is None else counting.admit(users, count_of(X), taken)

    @one_at_a_time
    def _partial_fit(self, X: Any, y: Any, users: Any = None, **stated: Any) -> Self:
        """Learn a block of rows; ``stated``: attributes that the first one brings."""
        course: Course | None = vars(self).get("_course")
        first = course is None
        if first:
            self._check_parameters()
            if "encoder_" in vars(self):
                raise StateError(
                    "this estimator shows what a run has released, which is over or goes on elsewhere; fit() or a new "
                    "estimator starts another, which pays again"
                )
            if self.releases == "last":
                raise InvalidParameter(
                    "releases='last' takes a learner of all rows at once, which fit and fit_stream have; partial_fit "
                    "and learn_one learn them as they come: releases='all'"
                )
            if self.horizon is None:
                raise InvalidParameter(
                    "horizon must be given for partial_fit and learn_one: the number of rows that the budget must last "
                    "for, of which the first teach the encoding"
                )
            if self.reuse_rows:
                raise InvalidParameter("reuse_rows=True reads rows twice, which fit does; rows of partial_fit are gone")
        elif course is not None and course.closed:
            raise StateError("the run is closed; fit() or a new estimator starts another, which pays again")
        taken = 0 if course is None else course.taken
        counting, gone = self._counting(X, users, course)
        try:
            table = self._table(X, y, reset=first, learnt=taken, stated=stated, gone=gone)
            if course is None:
                if counting is not None:
                    table.facts = counting.promised(table.facts)
                course = self._prepared(table, integer(horizon=self.horizon, at_least=1), reuse=False)
                course.users = counting
            course.check_room(table.count())
            coder = course.coder_for(table)
            batches = self._read(course, table, coder)
            if first:
                self._begin(course)
        except BaseException:
            if counting is not None:
                counting.settle(0)
            raise
        try:
            course.take(table, batches, coder)
        except BaseException:
            # Too little was seen, the ledger cannot carry the model, or an interrupt: some rows of the block may have
            # been counted, and the same ones again would be in the run twice.
            course.abandon()
            raise
        finally:
            self._seen(course)
        return self

    def learn_one(self, x: Any, y: Any, user: Any = None) -> Self:
        """Learn one row: the same result as ``partial_fit`` with one row.

        Parameters
        ----------
        x : dict, or array-like of shape (columns,)
            Cells by the names of the columns. The first row has all keys; a key that is missing later is a missing
            cell.
        y : label or number
        user : text or number, optional
            Whose row it is; see ``partial_fit``.
        """
        return self._partial_fit([x], [y], None if user is None else [user])
