"""Short paths for dicts that come one by one: they avoid building a block where none is needed.

A row that will teach waits for others, and they teach together. A row that will be learnt goes straight to the learner,
and a row to predict goes straight to the model. Anything unusual (a cell of a rare type, a new label, a value that may
be refused) is handled as a block, which reports what is wrong. The result is the same to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._core._one_row import RowCode
from .._core._rows import plain_row
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

# The most rows that wait; this bounds memory and the duration of one call.
_MOST_WAITING = 1024
# How many labels of each type are remembered, so that their texts are read once.
_MOST_LABELS = 1 << 16
_PLAIN_LABELS = PLAIN | {str, np.str_}
_EXACT = 2**53


class _Labels:
    """Codes of labels, stored by type, because 1, 1.0 and True are one key but may be three labels."""

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
    """Return a function that encodes a finite real target as its stream would; NaN: the block path must decide."""
    target = coder.schema.target
    markers = {*coder.written.missing_numbers, *Written(coder.written.missing).missing_numbers}
    middle, half, limit = Scale([NumberColumn(range=None if target is None else target.range)]).linear(0)

    def number(y: float) -> float:
        scaled = (y - middle) / half
        return math.nan if y in markers else min(max(scaled, -limit), limit)

    return number


class WaitingRows:
    """Rows that will teach, collected until there are enough, or until the last of them ends a phase.

    Each has been read far enough that it cannot be refused later.

    Parameters
    ----------
    course : Course
        Its model has not begun.
    names : sequence of str
        Names of all columns.
    declared : RowCode or None
        Code for declared columns, which may refuse a cell.
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
        """Remember a target that was accepted."""
        if not self._real:
            self._labels.put(y, True)

    def take(self, x: Any, y: Any) -> bool:
        """Add a row that waits; False: it must be handled as a block."""
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
        """Whether the rows must teach now."""
        return len(self._rows) >= self._room

    def let_go(self) -> tuple[list[dict[str, Any]], list[Any]]:
        """Return the waiting rows and their targets, and forget them."""
        rows, targets = self._rows, self._targets
        self._rows, self._targets = [], []
        return rows, targets


class LearningRows:
    """Rows that the model learns.

    Parameters
    ----------
    course : Course
        Its model has begun.
    coder : SchemaEncoder
        The encoder of its rows.
    code : RowCode
    read : callable
        Returns the code of a target in the schema: an index, a number or NaN; raises if the target is refused.
    real : bool
        Whether targets are numbers.
    """

    def __init__(
        self, course: Course, learner: OnlineLearner, code: RowCode, read: Callable[[Any], float], *, real: bool
    ) -> None:
        self.course = course
        self._feed, self._row, self._read, self._real = RowFeed(learner), code.row, read, real
        self._learn = self._feed.learn
        self._labels = _Labels()

    def accept(self, y: Any) -> None:
        """Remember a target that was learnt."""
        if not self._real:
            self._labels.put(y, self._feed.code_of(self._read(y)))

    def take(self, x: Any, y: Any) -> bool:
        """Learn a row; False: nothing was done, and it must be handled as a block."""
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
            code = self._labels.get(y)  # NaN for a label that makes a null row
        if code is None or self.course.closed:
            return False
        row = self._row(x)
        if row is None:
            return False
        try:
            self._learn(row, code)
        except BudgetExceeded:  # nothing was learnt: the block path reports it for both phases
            return False
        except BaseException:
            self.course.abandon()  # as for a block
            raise
        return True


class AskingRows:
    """Rows for which a model is asked to predict.

    Parameters
    ----------
    learner : Learner
        Its released model answers.
    encoder : SchemaEncoder
        Encodes only features.
    names : sequence of str

    Attributes
    ----------
    answers : tuple of (zero, positive, negative), or None
        With two classes: the label for a score of zero, a positive and a negative one, once the estimator has set them.
    """

    def __init__(self, learner: Learner, encoder: SchemaEncoder, names: Sequence[str]) -> None:
        self.learner = learner
        self.answers: tuple[Any, Any, Any] | None = None
        code = one_row_code(encoder, names)
        self._row = None if code is None else code.row

    def score(self, x: Any) -> Any:
        """Return the score of a row, a number or one for each class; None: it must be handled as a block."""
        row = None if self._row is None else self._row(x)
        return None if row is None else score_one(self.learner, row)
