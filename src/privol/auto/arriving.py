"""Rows that come block by block: the course of a run of both phases, and the users of the rows."""

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
from ..encoding.row_codes import one_row_code
from ..errors import InvalidParameter, StateError
from ..learners import OnlineLearner
from ..learners.feeding import LiveUsers, live_users
from .course import Course, declared_coder
from .inputs import count_of, dict_columns
from .reading import ReadsTables
from .single import LearningRows, WaitingRows, number_of
from .sparse_table import SparseCourse

__all__ = ["LearnsLive", "one_at_a_time"]

Method = TypeVar("Method", bound=Callable[..., Any])


def one_at_a_time(method: Method) -> Method:
    """Make a second thread wait: two threads that count rows of one phase could end it twice, with the same noise."""

    @functools.wraps(method)
    def held(self: Any, *values: Any, **words: Any) -> Any:
        with self._alone():
            return method(self, *values, **words)

    return cast("Method", held)


class LearnsLive(ReadsTables):
    """How :class:`PrivateModel` learns rows that arrive over time."""

    horizon: int | None
    reuse_rows: bool | None
    rows_per_user: int | None
    user_separation: int
    releases: str
    _lock: Any = None
    _single: WaitingRows | LearningRows | None = None

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
        """Return the counter of users for a block, and which of its rows are surplus rows."""
        if users is not None and sp.issparse(X):
            raise InvalidParameter("users of sparse rows are not counted, and users was given")
        before, begun = None if course is None else course.users, course is not None
        refuse = self.on_invalid == "raise"
        counting = live_users(self.rows_per_user, self.user_separation, users, before, begun=begun, refuse=refuse)
        taken = 0 if course is None else course.taken
        return counting, None if counting is None else counting.admit(users, count_of(X), taken)

    @one_at_a_time
    def _partial_fit(self, X: Any, y: Any, users: Any = None, **stated: Any) -> Self:
        """Learn a block of rows; ``stated`` has attributes that the first block sets."""
        self._let_teach()
        course: Course | None = vars(self).get("_course")
        first = course is None
        if first:
            self._check_parameters()
            if "encoder_" in vars(self):
                raise StateError(
                    "this estimator only shows what a run has released, which is over or continues elsewhere; fit() or "
                    "a new estimator starts another, which pays again"
                )
            if self.releases == "last":
                raise InvalidParameter(
                    "releases='last' learns from all rows at once, by fit or fit_stream; partial_fit and learn_one "
                    "need releases='all'"
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
            # Too little exceeds the noise, the ledger cannot carry the model, or an interrupt came: some rows of the
            # block may have been counted, and learning them again would put them into the run twice.
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

        Returns
        -------
        self

        Notes
        -----
        A dict of plain cells (text, numbers, truth values, None) without a ``user`` takes a short path: learning it
        costs a few microseconds. Up to 1,024 rows that teach are read, copied and counted together, at the latest with
        the last row of their phase.
        """
        with self._alone():
            single = self._single
            if single is not None and user is None and single.take(x, y):
                if type(single) is WaitingRows and single.full:
                    self._let_teach()
                return self
            self._partial_fit([x], [y], None if user is None else [user])
            if type(x) is dict:
                self._expect_more(x, y)
        return self

    # ---- single rows ---------------------------------------------------------------------------------

    def _alone(self) -> Any:
        return self._lock or self.__dict__.setdefault("_lock", threading.RLock())

    def _waiting(self) -> int:
        """Number of rows that wait to teach together."""
        single = self._single
        return len(single) if type(single) is WaitingRows else 0

    def _let_teach(self) -> None:
        """Let the waiting rows teach, if there are any."""
        single = self._single
        if type(single) is WaitingRows and len(single):
            self._partial_fit(*single.let_go())

    def _expect_more(self, x: dict[Any, Any], y: Any) -> None:
        """After a dict that was learnt as a block: build the short path for the next ones, and remember its target."""
        course: Course | None = vars(self).get("_course")
        if course is None or course.closed or course.users is not None or isinstance(course, SparseCourse):
            self._single = None
            return
        single = self._single
        kind = WaitingRows if course.learner is None else LearningRows
        if type(single) is not kind or single.course is not course:
            single = self._single = (
                self._waiting_rows(course, x) if kind is WaitingRows else self._learning_rows(course, x, y)
            )
        if single is not None:
            single.accept(y)

    def _waiting_rows(self, course: Course, x: dict[Any, Any]) -> WaitingRows | None:
        names = self._column_names()
        coder = declared_coder(self.declared, dict_columns([x], names))
        code = None if coder is None else one_row_code(coder, names)
        if coder is not None and code is None:
            return None
        return WaitingRows(course, names, code, real=self._regression())

    def _learning_rows(self, course: Course, x: dict[Any, Any], y: Any) -> LearningRows | None:
        names = self._column_names()
        coder = course.coder_for(self._labelled(dict_columns([x], names), [y], None, 0))
        code = None if coder is None else one_row_code(coder, names)
        if coder is None or code is None or not isinstance(course.learner, OnlineLearner):
            return None

        def index(y: Any) -> float:
            """Return the code of a label in the schema, read as a row's label would be."""
            table = self._labelled(dict_columns([{}], names), [y], None, course.taken)
            name = table.names[-1]
            found = coder.targets(table.target_batch(coder.kinds[name]), 1)
            assert found is not None
            return float(found[0])

        real = self._regression()
        return LearningRows(course, course.learner, code, number_of(coder) if real else index, real=real)

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_") and not name.endswith("_") and "_single" in vars(self):
            # a parameter changed: waiting rows came before that, and later ones are read with the new one
            with self._alone():
                self._let_teach()
                self._single = None
        super().__setattr__(name, value)
