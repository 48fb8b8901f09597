"""Dict rows that come one by one: none of them takes the way of whole blocks where it needs none.

A row that is to teach waits for others, and they teach together; a row that is to be learnt goes straight to the
learner, and one that is to be predicted to the model. Whatever is not plain (a cell of a rare type, a new label, what
may have to be refused) takes the way of blocks, which says what is wrong. What is learnt is the same to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._core._one_row import RowCode, plain_row
from .._values import PLAIN
from ..encoding.encode import SchemaEncoder
from ..encoding.ranges import Scale
from ..encoding.row_codes import one_row_code
from ..encoding.schema_parts import NumberColumn
from ..errors import BudgetExceeded
from ..learners import OnlineLearner
from ..learners.feeding import RowFeed, score_one
from ..readers.written import Written
from .course import Course, Learner

__all__ = ["AskingRows", "LearningRows", "WaitingRows", "number_of"]

# Rows that wait at most; a bound on memory, and on how long one call takes.
_MOST_WAITING = 1024
# Labels that are remembered of each type, so that their texts are read once.
_MOST_LABELS = 1 << 16
_PLAIN_LABELS = PLAIN | {str, np.str_}
_EXACT = 2**53


class _Labels:
    """What has been found of labels: by their types, as 1, 1.0 and True are one key, and may be three labels."""

    def __init__(self) -> None:
        self._found: dict[type, dict[Any, Any]] = {}

    def get(self, y: Any) -> Any:
        of_type = self._found.get(type(y))
        return None if of_type is None else of_type.get(y)

    def put(self, y: Any, found: Any) -> None:
        if type(y) not in _PLAIN_LABELS or y != y:
            return
        of_type = self._found.setdefault(type(y), {})
        if len(of_type) >= _MOST_LABELS:
            of_type.clear()
        of_type[y] = found


def number_of(coder: SchemaEncoder) -> Callable[[float], float]:
    """Return what makes of a finite real target what the encoder of its stream makes of it; NaN: others have to say."""
    target = coder.schema.target
    markers = {*coder.written.missing_numbers, *Written(coder.written.missing).missing_numbers}
    middle, half, limit = Scale([NumberColumn(range=None if target is None else target.range)]).linear(0)

    def number(y: float) -> float:
        scaled = (y - middle) / half
        return math.nan if y in markers else min(max(scaled, -limit), limit)

    return number


class WaitingRows:
    """Rows that are to teach, until there are enough of them to teach together, or a phase ends with the last of them.

    Each has been read as far as it can be refused, so none of them is refused later.

    Parameters
    ----------
    course : Course
        Before its model.
    names : sequence of str
        Of all columns.
    declared : RowCode or None
        Of columns that are declared, which may refuse a cell.
    real : bool
        Whether targets are numbers.
    """

    def __init__(self, course: Course, names: Sequence[str], declared: RowCode | None, *, real: bool) -> None:
        self.course = course
        self._names, self._declared, self._real = frozenset(names), declared, real
        self._numbers = tuple(name for name, kind in course.kinds_for(None).items() if kind == "number")
        self._labels = _Labels()
        self._rows: list[dict[str, Any]] = []
        self._targets: list[Any] = []
        self._room = 0

    def __len__(self) -> int:
        return len(self._rows)

    def accept(self, y: Any) -> None:
        """Remember a target that was not refused."""
        if not self._real:
            self._labels.put(y, True)

    def take(self, x: Any, y: Any) -> bool:
        """Let a row wait; False: it needs the way of blocks."""
        if self.course.learner is not None or self.course.closed:
            return False
        if self._real:
            if not (type(y) is float and math.isfinite(y)) and not (type(y) is int and -_EXACT <= y <= _EXACT):
                return False
        elif self._labels.get(y) is None:
            return False
        if not plain_row(x, self._names, self._numbers):
            return False
        if self._declared is not None and self._declared.row(x) is None:
            return False
        if not self._rows:
            self._room = min(self.course.rows_of_phase, _MOST_WAITING)
        self._rows.append(x.copy())
        self._targets.append(y)
        self.course.expect(len(self._rows))
        return True

    @property
    def full(self) -> bool:
        """Whether they have to teach now."""
        return len(self._rows) >= self._room

    def let_go(self) -> tuple[list[dict[str, Any]], list[Any]]:
        """Return the rows that have waited, and their targets."""
        rows, targets = self._rows, self._targets
        self._rows, self._targets = [], []
        return rows, targets


class LearningRows:
    """Rows that the model learns.

    Parameters
    ----------
    course : Course
        With its model.
    coder : SchemaEncoder
        Of its rows.
    code : RowCode
    read : callable
        Returns what a target is in the schema: an index, a number, or NaN; raises where it is refused.
    real : bool
        Whether targets are numbers.
    """

    def __init__(
        self, course: Course, learner: OnlineLearner, code: RowCode, read: Callable[[Any], float], *, real: bool
    ) -> None:
        self.course = course
        self._feed, self._row, self._read, self._real = RowFeed(learner), code.row, read, real
        self._labels = _Labels()

    def accept(self, y: Any) -> None:
        """Remember a target that was learnt."""
        if not self._real:
            self._labels.put(y, self._feed.code_of(self._read(y)))

    def take(self, x: Any, y: Any) -> bool:
        """Learn a row; False: nothing was done, and it needs the way of blocks."""
        if self._real:
            if type(y) is not float:
                if type(y) is not np.float64 and (type(y) is not int or abs(y) > _EXACT):
                    return False
                y = float(y)
            if not math.isfinite(y):
                return False
            code = self._feed.clipped(self._read(y))
            if code != code:
                return False
        else:
            code = self._labels.get(y)  # NaN of one that makes a null row
        if code is None or self.course.closed:
            return False
        row = self._row(x)
        if row is None:
            return False
        try:
            self._feed.learn(row, code)
        except BudgetExceeded:  # before anything was learnt: blocks say it of both phases
            return False
        except BaseException:
            self.course.abandon()  # as of a block
            raise
        return True


class AskingRows:
    """Rows that a model is asked about.

    Parameters
    ----------
    learner : Learner
        Whose released model is asked.
    encoder : SchemaEncoder
        Of features alone.
    names : sequence of str
    """

    def __init__(self, learner: Learner, encoder: SchemaEncoder, names: Sequence[str]) -> None:
        self.learner = learner
        self._code = one_row_code(encoder, names)

    def score(self, x: Any) -> Any:
        """Return the score of a row, a number or one for each class; None: it needs the way of blocks."""
        row = None if self._code is None else self._code.row(x)
        return None if row is None else score_one(self.learner, row)
