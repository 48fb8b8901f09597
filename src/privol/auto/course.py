"""One run of both phases: first rows that teach the encoding, then rows that the model learns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from .._core._rows import squared_norms
from ..encoding import PrivateEncoder
from ..encoding.encode import SchemaEncoder
from ..encoding.learning import MISSING_TEXTS
from ..encoding.lesson import Lesson
from ..encoding.rest import RestOfColumns
from ..encoding.schema import Schema
from ..encoding.schema_parts import Drop, Target
from ..errors import BudgetExceeded
from ..guarantees import Guarantee, gdp_mu
from ..learners import OfflineLearner, OnlineLearner
from ..learners.feeding import LiveUsers, begin_rows, learn_rows
from ..learners.views import end_run
from ..ledger import Ledger
from ..readers.base import BLOCK_BYTES, Rows
from ..readers.columns import Batch, Columns
from .defaults import of_user, with_schema

__all__ = [
    "Coders",
    "Course",
    "EncodedRows",
    "Learner",
    "afford",
    "blocks_of",
    "check_declared",
    "check_encoded",
    "declared_coder",
    "declared_target",
    "together",
]

Learner = OnlineLearner | OfflineLearner


@dataclass
class RowBlock:
    """Encoded rows, with indices of their labels or with real targets."""

    X: Rows
    y: Any


@dataclass
class EncodedRows:
    """The promises about rows that a learnt schema encodes: a stream whose rows arrive while it runs.

    ``blocks`` are rows for a learner that takes all of them at once.
    """

    schema: Schema
    n_features: int
    classes: tuple[Any, ...] | None
    n_rows: int | None
    beside: str | None
    first_row: int
    conditions: tuple[str, ...]
    rows_per_user: int | None = None
    user_separation: int = 1
    users_fixed: bool = True
    user: None = None
    blocks: list[RowBlock] = field(default_factory=list)

    def __iter__(self) -> Iterator[RowBlock]:
        self.blocks.reverse()
        while self.blocks:  # each block is dropped once it is read
            yield self.blocks.pop()


class Course:
    """One run of both phases; its result does not depend on how its rows are cut into blocks.

    Parameters
    ----------
    encoder : PrivateEncoder
    lesson : Lesson
        Prepared by the encoder.
    make : callable
        Returns the learner for :class:`EncodedRows`, before its run begins.
    """

    def __init__(self, encoder: PrivateEncoder, lesson: Lesson, make: Callable[[EncodedRows], Learner]) -> None:
        self.encoder, self._lesson, self._make = encoder, lesson, make
        self._model_rows = lesson.n_rows - (0 if encoder.reused_ else lesson.plan.rows)
        self._coders = Coders()
        self.learner: Learner | None = None
        self._rows: EncodedRows
        self._kept: list[RowBlock] | None = None  # rows for a learner that takes all of them at once
        self.classes: tuple[Any, ...] | None = None
        self.n_features = 0  # of the encoded rows, once there is a learner
        self.closed = False
        self.users: LiveUsers | None = None  # counts the rows of users in both phases

    @property
    def taken(self) -> int:
        """Rows that have taught plus rows that have been learnt."""
        again = self.encoder.reused_ and self.learner is not None
        return (0 if again else self._lesson.taken) + (0 if self.learner is None else self.learner.n_rows_)

    @property
    def rows_of_phase(self) -> int:
        """Rows that the current phase still needs before it ends."""
        return self._lesson.rows_of_phase

    def expect(self, rows: int) -> None:
        """State how many rows have come and wait to teach."""
        self._lesson.expect(rows)

    def coder_for(self, columns: Columns) -> SchemaEncoder | None:
        """Return the encoder for an input; None until all rows that teach have come."""
        return None if self.learner is None else self._coder(columns)

    def _coder(self, columns: Any) -> Any:
        return self._coders.of(self.encoder.schema_, columns)

    def _teach(self, batch: Any) -> int:
        return self._lesson.take(batch)

    def _rest(self, columns: Any) -> Any:
        """The columns after the rows that taught."""
        return columns if self.encoder.reused_ else RestOfColumns(columns, self.encoder.plan_.rows)

    def kinds_for(self, coder: SchemaEncoder | None) -> dict[str, Any]:
        """Columns that batches must have, in this order."""
        return self._lesson.kinds if coder is None else dict(coder.kinds)

    @property
    def teaches(self) -> int:
        """How many rows teach."""
        return self._lesson.plan.rows

    @property
    def horizon(self) -> int:
        """Rows of both phases."""
        return self._lesson.n_rows

    def begin(self) -> None:
        """Reserve the cost of the encoding."""
        self._lesson.begin()

    def read_as(self, columns: Columns) -> None:
        """Read another input as the first one was read."""
        self._lesson.read_as(columns)

    def check_room(self, n: int) -> None:
        """Refuse more rows than the horizon has left, before any of them is read."""
        if self.taken + n > self.horizon:
            raise BudgetExceeded(
                f"the next {n} rows would exceed the horizon: {self.taken} of {self.horizon} are used; nothing of them "
                "was learnt"
            )

    def take(self, columns: Columns, batches: Iterable[Batch], coder: SchemaEncoder | None = None) -> None:
        """Let the next rows teach, or the model learn them; if rows are reused, it waits until all have taught."""
        again = self.encoder.reused_
        row = 1
        for batch in batches:
            used = 0 if self._lesson.done else self._teach(batch)
            if self._lesson.done and self.learner is None:
                coder = self._begin_model(columns)
            rest = batch.slice(used)
            if rest.num_rows and coder is not None and not again:
                self._learn(coder, rest, row + used)
            row += batch.num_rows
        if again and coder is not None:
            self._learn_all(coder, batches)

    def take_all(self, columns: Columns) -> None:
        """Take a whole input without cells that could be refused, batch by batch as it is read."""
        for batch in columns.batches(self._lesson.kinds, 65536, lambda _: None):
            self._teach(batch)
            if self._lesson.done:
                break
        coder, rest = self._begin_model(columns), self._rest(columns)
        self._learn_all(coder, rest.batches(coder.kinds, 65536, lambda _: None))

    def _learn_all(self, coder: SchemaEncoder, batches: Iterable[Batch]) -> None:
        row = 1
        for batch in batches:
            self._learn(coder, batch, row)
            row += batch.num_rows

    def _begin_model(self, columns: Columns) -> SchemaEncoder:
        encoder = self.encoder
        coder: SchemaEncoder = self._coder(columns)
        first = 1 if encoder.reused_ else encoder.plan_.rows + 1
        rows = EncodedRows(
            schema=coder.schema,
            n_features=coder.n_features,
            classes=coder.classes,
            n_rows=self._model_rows,
            beside=None if encoder.reused_ else encoder.account_.plan_id,
            first_row=first,
            conditions=coder.schema.conditions_from(first),
        )
        if self.users is not None:
            rows = replace(
                rows,
                rows_per_user=self.users.rows_per_user,
                user_separation=self.users.user_separation,
                users_fixed=False,
                conditions=(*rows.conditions, *self.users.conditions),
            )
        self.classes = rows.classes
        learner = self._make(rows)
        if isinstance(learner, OfflineLearner):
            self._kept = rows.blocks
        else:
            begin_rows(learner, rows.n_features, rows)
        self.n_features = rows.n_features
        self.learner, self._rows = learner, rows
        return coder

    def _learn(self, coder: SchemaEncoder, batch: Batch, row: int) -> None:
        learner = self.learner
        for X, y in blocks_of(coder, batch, row):
            if isinstance(learner, OnlineLearner):
                learn_rows(learner, X, y)
            elif self._kept is not None:
                self._kept.append(RowBlock(X, y))

    def learn_kept(self) -> None:
        """Give a learner that takes all rows at once its rows; any other learner has learnt them already."""
        if isinstance(self.learner, OfflineLearner):
            self._kept = None
            self.learner.fit_stream(self._rows)

    def close(self) -> None:
        """End the run: make the learner's last release if one is due."""
        self.closed = True
        self._lesson.close()
        if isinstance(self.learner, OnlineLearner):
            self.learner.close()

    def abandon(self) -> None:
        """End the run without another release."""
        self.closed = True
        self._lesson.close()
        self._kept = None
        if isinstance(self.learner, OnlineLearner):
            end_run(self.learner)


class Coders:
    """Keeps the encoder of the last input for the next one of the same types: making it took most of a row's time.

    Parameters
    ----------
    target : bool
        Whether targets are encoded.
    """

    def __init__(self, *, target: bool = True) -> None:
        self._target = target
        self._last: tuple[Any, SchemaEncoder] | None = None  # one assignment: models predict in several threads

    def of(self, schema: Schema, columns: Columns) -> SchemaEncoder:
        """Return the encoder of an input under the run's only schema."""
        types = columns.named, tuple((name, columns.floats(name), columns.only_text(name)) for name in columns.names)
        last = self._last
        if last is None or last[0] != types:
            last = self._last = types, SchemaEncoder(schema, columns, target=self._target).reading(None)
        return last[1].reading(columns)


def blocks_of(coder: SchemaEncoder, batch: Batch, row: int) -> Iterator[tuple[Rows, Any]]:
    """Yield encoded rows and targets of a batch, in pieces of limited size."""
    step = max(1, BLOCK_BYTES // (8 * coder.n_features))
    for start in range(0, batch.num_rows, step):
        piece = coder.encode(batch.slice(start, step), row + start)
        yield piece.X, piece.y


def check_declared(declared: Any, columns: Columns, batches: Iterable[Batch], refuse: bool) -> None:
    """Refuse cells that a declared schema refuses, and rows that it leaves without a number, before any row is counted.

    A learnt encoding of a column refuses no cell, so none of these rows is refused later.
    """
    coder = declared_coder(declared, columns)
    if coder is None:
        return
    row = 1
    for batch in batches:
        X = coder.encode(batch, row).X
        if refuse:
            squared_norms(X, learnt=row - 1, refuse=True)
        row += batch.num_rows


def declared_coder(declared: Any, columns: Columns) -> SchemaEncoder | None:
    """Return the encoder of the declared columns, which may refuse a cell; None: no column is declared."""
    if declared is None:
        return None
    schema = Schema.load(declared, partial=True)
    if all(isinstance(column, Drop) for _, column in schema.columns):
        return None
    options = tuple({"missing": MISSING_TEXTS, **schema.file}.items())
    return SchemaEncoder(
        replace(schema, target=None, crosses=(), others="drop", file_options=options), columns, target=False
    )


def check_encoded(coder: SchemaEncoder, declared: Any, batches: Iterable[Batch], refuse: bool) -> None:
    """Refuse rows as :func:`check_declared` does, where none of them teaches."""
    if declared is None:
        return
    row = 1
    for batch in batches:
        for X, _ in blocks_of(coder, batch, row):
            if refuse:
                squared_norms(X, learnt=row - 1, refuse=True)
            row += X.shape[0]


def afford(ledger: Ledger, epsilon: float, delta: float) -> None:
    """Refuse a run that a ledger certainly cannot pay, before its encoding is paid for."""
    left, mu = ledger.remaining, math.inf if math.isinf(epsilon) else gdp_mu(epsilon, delta)
    # if the run fits to the last digit, the ledger itself decides
    if left is not None and mu > left * (1.0 + 1e-9):
        raise BudgetExceeded(
            f"epsilon={epsilon:g} at delta={delta:g}, for the encoding and the model together, is more than is left of "
            f"the ledger's limit (mu {left:.6g}); nothing was reserved"
        )


def together(encoder: PrivateEncoder, model: Guarantee) -> Guarantee:
    """Return the guarantee of an encoding and the model behind it together.

    Rows that teach and rows that are learnt differ, so the larger cost counts; costs of reused rows add up
    (docs/proofs/phases.md).
    """
    schema, taught = encoder.schema_, encoder.guarantee_
    if encoder.reused_:
        return with_schema(model, schema)
    first = encoder.plan_.rows + 1
    one = " for one row" if model.unit == "user" else ""
    own = (
        f"row 1 to {first - 1:,} taught the schema by {schema.taught_by}, under the Gaussian mechanism with "
        f"mu = {encoder.plan_.mu:.6g}{one}, and the model learnt row {first:,} and later ones alone: a row is in one "
        "part only, so together they cost as much as the more expensive of them (parallel composition)",
    )
    others = [words for words in model.conditions if words not in schema.conditions_from(first)]
    others += [words for words in taught.conditions if words not in others]
    both = replace(
        model,
        kind="none" if math.isinf(taught.mu) else model.kind,
        horizon=encoder.plan_.rows + model.horizon,
        conditions=(*others, *own),
        private=model.private and taught.private,
    )
    if model.unit == "user":  # the model's figure for users includes the rows that taught, and so does the row's
        return replace(both, parameter=max(model.mu, taught.mu))
    row = replace(both, parameter=max(model.mu, taught.mu), user_factor=None)
    if model.rows_per_user is None or math.isinf(row.parameter) or taught.mu > model.mu:
        return row  # by group privacy from the more expensive of the two
    return of_user(row, model.user_mu or 0.0, "row")


def declared_target(name: str | int, classes: Any, span: tuple[float, float] | None) -> Target | None:
    """Return the target of declared labels or of a declared range; any other value makes a null row."""
    if span is not None:
        return Target(name, range=span, rest="null")
    if classes is None:
        return None
    labels = list(classes)
    if len(labels) == 2:
        return Target(name, negative=(labels[0],), positive=(labels[1],), rest="null")
    return Target(name, classes=tuple((label,) for label in labels), rest="null")
