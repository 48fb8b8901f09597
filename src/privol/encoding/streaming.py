"""Learns the encoding of an undescribed input from its first rows, under a guarantee."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

from .._validate import choice, integer, number
from ..errors import InvalidParameter, StateError, StreamError
from ..guarantees import ADJACENCIES, Guarantee, delta_of_noise, gdp_mu, split_budget
from ..ledger import Account, Ledger, LostLedger
from ..noise import ARITHMETIC, make_source
from ..readers.base import Facts, Reader, Source, told
from ..readers.columns import Batch, Columns, Kind, resolve_column
from ..readers.written import Written
from .crosses import check_crosses, feasible, stated_crosses
from .frequent import FrequentRun
from .labels import Labels
from .learning import MISSING_TEXTS, EncodingRun
from .lesson import Lesson
from .means import without_means_if_wide
from .phases import FIRST_TOO_FEW, SHARE_OF_ALL, EncodingPlan, plan_encoding, plan_features
from .rest import RestOfColumns, RestOfRows, after
from .schema import Schema
from .schema_parts import MOST_HASHED, WIDEST, Column, Drop, FrequentFeatures, Learnt, NumberColumn, Target
from .users_taught import check_users, of_users

__all__ = ["StreamEncoder"]

SHAPES = ("cosine", "spline", "linear", "bins")
_PUBLIC = (
    "the names, the types and the order of the columns, the number of rows and whether the input could be read are "
    "public",
)
_AGAIN = (
    "this is what the schema cost, and no more: all rows taught it, and whoever learns them again as it encodes them "
    "pays for that besides (the squares of both mu add up for each row)"
)
# What an earlier input taught; it is removed in case this one teaches nothing.
_FOUND = ("schema_", "dropped_", "uncrossed_", "labelled_", "counted_", "n_features_in_", "feature_names_in_")
_ARITHMETIC = ARITHMETIC.replace("double-precision iterate", "count")


class StreamEncoder:
    """What :class:`~privol.encoding.PrivateEncoder` does with streams; see there for parameters and attributes."""

    #: Whether null rows may be among those that teach.
    null_rows = False
    #: Rows that the model needs for a release that was asked for.
    least_left = 0

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        adjacency: str = "replace",
        numeric: str = "cosine",
        n_rows: int | None = None,
        drop: Sequence[str] = (),
        crosses: Sequence[tuple[str, str]] = (),
        declared: Any = None,
        regression: bool | None = None,
        reuse_rows: bool | None = False,
        random_state: Any = None,
        ledger: Ledger | None = None,
        rows_per_user: int | None = None,
        user_separation: int = 1,
        sketch: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.numeric = numeric
        self.n_rows = n_rows
        self.drop = drop
        self.crosses = crosses
        self.declared = declared
        self.regression = regression
        self.reuse_rows = reuse_rows
        self.random_state = random_state
        self.ledger = ledger
        self.rows_per_user = rows_per_user
        self.user_separation = user_separation
        self.sketch = sketch

    def plan(self, n_rows: int, n_columns: int, *, target: bool = True, whole: bool = False) -> EncodingPlan:
        """Return which rows would teach the encoding of this many columns, before any row is read."""
        words: dict[str, Any] = {"target": target, "real": self.regression is True}
        words["whole"] = whole or self.reuse_rows is True
        return plan_encoding(n_rows, n_columns, mu=self._mu(), **self._whom(), **words)

    def _whom(self) -> dict[str, Any]:
        """The adjacency, and whom the budget protects."""
        rows, apart = check_users(self.rows_per_user, self.user_separation)
        return {"adjacency": self.adjacency, "rows_per_user": rows, "user_separation": apart}

    # ---- learning ---------------------------------------------------------------------------------------

    def learn(
        self,
        columns: Columns,
        target: Any,
        labels: Labels,
        file_options: Mapping[str, Any] = MappingProxyType({}),
        *,
        whole: bool = False,
        limit: int = 65536,
    ) -> RestOfColumns:
        """Learn the encoding from the first rows of an input, or from all (``reuse_rows``); return the others.

        Parameters
        ----------
        columns : Columns
        target : str, int, False or None
            As for :func:`privol.open_stream`.
        labels : Labels
            The declared labels, if any.
        file_options : mapping
            How the input is written, for the schema's ``[file]``.
        whole : bool
            All rows teach; none is returned.
        limit : int
            Rows that are asked for at once, also of the others in the same reading.

        Raises
        ------
        StreamError, InvalidParameter
            If the rows cannot be read, or too little of them exceeds the noise. The budget counts as spent if rows
            were read before.
        BudgetExceeded
            If the ledger cannot carry it. Nothing was read.
        """
        lesson = self.prepare(columns, target, labels, file_options, whole=whole).begin()
        batches = columns.batches(lesson.kinds, limit, lambda _: None)
        left = self._learn(lesson, ((batch, batch) for batch in batches), _after, columns.name)
        known_rows = lesson.n_rows if self.n_rows is None else None
        if self.reused_:
            return RestOfColumns(columns, 0, None, known_rows)
        return RestOfColumns(columns, lesson.plan.rows, left, known_rows)

    def prepare(
        self,
        columns: Columns,
        target: Any,
        labels: Labels,
        file_options: Mapping[str, Any] = MappingProxyType({}),
        *,
        whole: bool = False,
    ) -> Lesson:
        """Return the lesson that takes the rows that teach, before anything is reserved or read.

        It is the first part of :meth:`learn`, with the same parameters and errors: ``columns`` state the names and
        types of the columns. The schema exists when the lesson is done.
        """
        choice(SHAPES, numeric=self.numeric)
        if integer(sketch=self.sketch, at_least=0, at_most=WIDEST):
            raise InvalidParameter(f"{columns.name}: sketch applies to sparse rows of numbered features, found columns")
        declared = Schema() if self.declared is None else Schema.load(self.declared, partial=True)
        known = self._known(declared, columns)
        goal = self._goal(declared, columns, target, labels)
        user = columns.facts.user
        if declared.user is not None and user is None:
            raise InvalidParameter(
                "declared must not have a user here: rows of a table are not counted by users; rows_per_user says how "
                "many there are at most, and open_stream, fit_stream and privol run count them"
            )
        names = [name for name in columns.names if name not in known and name not in (goal.column, user)]
        crosses = stated_crosses(self.crosses, columns.names, declared.crosses)
        special = {} if goal.column is None else {goal.column: "the target"}
        if user is not None:
            special[user] = "the column of the user"
        check_crosses(
            crosses, {name: known.get(name) for name in columns.names if name not in special}, special, columns.name
        )
        n_rows = self._count_of(columns)
        if not names and not goal.learnt:
            raise InvalidParameter(f"{columns.name}: all columns and the target are declared, nothing is to be learnt")
        words: dict[str, Any] = {"target": goal.learnt, "real": self.regression is True}
        words |= {"n_rows": n_rows, "n_columns": max(len(names), 1), **self._whom()}
        plan = self._planned(columns, partial(plan_encoding, **words), whole)
        self._check_left(plan, n_rows, columns.name)
        whole = whole or self.reused_
        written = Written(declared.file.get("missing", MISSING_TEXTS), declared.file.get("decimal", "."))
        kinds: dict[str, Kind] = {}
        for name in columns.names:
            column = known.get(name)
            if not isinstance(column, Drop) and name != user:
                to_learn = column is None and name != goal.column
                kinds[name] = "cells" if to_learn else "number" if isinstance(column, NumberColumn) else "text"
        if goal.target is not None and not goal.target.labelled and goal.target.rest != "null":
            kinds[str(goal.column)] = "number"
        columns.check(kinds)
        columns.written = written
        learnt = goal.column if goal.learnt else None
        shapes: dict[str, Any] = {"shape": self.numeric, "regression": self.regression}
        shapes["null_rows"] = self.null_rows or not columns.facts.users_fixed
        shapes["only_text"] = {name for name in kinds if columns.only_text(name)}
        order, options, reader = columns.names, {**file_options, **declared.file}, columns.facts

        def begin() -> tuple[EncodingRun, Account]:
            source, account = self._open(plan, reader, whole)
            return EncodingRun(names, learnt, plan, source, written, **shapes), account

        def conclude(run: EncodingRun, account: Account) -> None:
            found = dict(known) | run.found.columns
            self.dropped_, self.labelled_ = run.found.dropped, run.found.labelled
            self.counted_ = tuple(run.found.counted)
            kept, self.uncrossed_ = feasible(crosses, found, run.found.dropped)
            options["missing"] = tuple(sorted(written.missing - {""}))
            schema = Schema(
                columns=tuple((name, found[name]) for name in order if name in found),
                target=run.found.target if goal.learnt else goal.target,
                user=None if declared.user is None else replace(declared.user, column=str(user)),
                learnt=_learnt(plan, account.guarantee),
                file_options=tuple(options.items()),
                crosses=kept,
                name="the learnt schema",
            )
            self.schema_ = without_means_if_wide(schema)

        return Lesson(plan, n_rows, begin, conclude, kinds, written)

    def learn_rows(self, source: Source, *, whole: bool = False) -> RestOfRows:
        """Learn from the first rows which numbered features are frequent; return the other rows unchanged.

        Parameters
        ----------
        source : Source
            Of sparse rows.
        whole : bool
            All rows teach, and there are no others.

        Raises
        ------
        StreamError, InvalidParameter, BudgetExceeded
            As :meth:`learn`.
        """
        lesson = self.prepare_rows(source, whole=whole).begin()
        pieces = source.pieces(65536, lambda _: None)
        going = ((piece.X if piece.X.shape[0] else None, piece) for piece in pieces)
        left = self._learn(lesson, going, after, source.name)
        known_rows = lesson.n_rows if self.n_rows is None else None
        if self.reused_:
            return RestOfRows(source, 0, None, known_rows)
        return RestOfRows(source, lesson.plan.rows, left, known_rows)

    def prepare_rows(self, source: Source, *, whole: bool = False) -> Lesson:
        """Return the lesson that takes the sparse rows that teach, before anything is reserved or read.

        It is the first part of :meth:`learn_rows`, with the same parameters and errors. The schema exists when the
        lesson is done.
        """
        if not source.sparse:
            raise InvalidParameter(
                f"{source.name}: a PrivateEncoder learns the columns of a table (a file, a frame) or the frequent "
                "features of sparse rows, found dense rows without columns"
            )
        stated = {"drop": self.drop, "crosses": self.crosses, "declared": self.declared, "regression": self.regression}
        for name, value in stated.items():
            if value:
                raise InvalidParameter(f"{source.name}: {name} applies to columns, and sparse rows have none")
        sketch = integer(sketch=self.sketch, at_least=0, at_most=WIDEST)
        if sketch and source.n_features > MOST_HASHED:
            raise InvalidParameter(
                f"{source.name}: a sketch is of at most {MOST_HASHED:,} features, found {source.n_features:,}"
            )
        n_rows = self._count_of(source)
        plan = self._planned(source, partial(plan_features, n_rows=n_rows, **self._whom()), whole)
        self._check_left(plan, n_rows, source.name)
        whole = whole or self.reused_

        def begin() -> tuple[FrequentRun, Account]:
            noise, account = self._open(plan, source.facts, whole)
            return FrequentRun(source.n_features, plan, noise, sketch), account

        def conclude(run: FrequentRun, account: Account) -> None:
            part = FrequentFeatures(source.n_features, run.kept, sketch)
            self.dropped_, self.uncrossed_, self.labelled_, self.counted_ = {}, {}, None, ()
            self.schema_ = Schema(rows=part, learnt=_learnt(plan, account.guarantee), name="the learnt schema")

        return Lesson(plan, n_rows, begin, conclude)

    def _planned(self, reader: Reader, plan: Callable[..., EncodingPlan], whole: bool) -> EncodingPlan:
        """Decide from public numbers which rows teach and for what share of the budget."""
        if not isinstance(self.reuse_rows, bool | None):
            raise InvalidParameter(f"reuse_rows must be True, False or None, found {self.reuse_rows!r}")
        again, mu = reader.facts.repeatable, self._mu()
        if self.reuse_rows and not again:
            raise InvalidParameter(f"{reader.name}: reuse_rows reads the rows twice, and this input is gone once read")
        self.reused_, self.model_epsilon_ = bool(self.reuse_rows) and not whole, self.epsilon
        if self.reused_ or (whole and again):
            return plan(mu=mu, whole=True, **self._all_rows(reader))
        if whole or self.reuse_rows is not None or not again:
            return plan(mu=mu, whole=whole)
        try:
            first = plan(mu=mu)
            if first.visible_share <= FIRST_TOO_FEW:
                return first
        except InvalidParameter:  # a phase would have no rows
            pass
        split = split_budget(self.epsilon, self.delta, SHARE_OF_ALL)
        self.reused_, self.model_epsilon_ = True, split.epsilon
        return plan(mu=split.mu, whole=True, **self._all_rows(reader))

    def _all_rows(self, reader: Reader) -> dict[str, int]:
        """Return the number of rows that exist, if more may have been stated: a run need not fill its horizon."""
        return {} if self.n_rows is None else {"n_rows": min(reader.count(), self.n_rows)}

    def _count_of(self, reader: Reader) -> int:
        if self.n_rows is not None:
            return integer(n_rows=self.n_rows, at_least=1)
        if reader.facts.n_rows is None and not reader.facts.repeatable:
            raise StreamError(
                f"{reader.name}: can be read only once, so its rows cannot be counted before they teach: state their "
                "number, horizon=N (n_rows=N of the encoder)"
            )
        return reader.count()

    def _check_left(self, plan: EncodingPlan, n_rows: int, name: str) -> None:
        """Refuse a plan that leaves the model too few rows, before anything is spent."""
        left = n_rows if self.reused_ else n_rows - plan.rows
        if left < self.least_left:
            raise InvalidParameter(
                f"{name}: of {n_rows:,} rows {plan.rows:,} teach the encoding, so the model learns {left:,}, and its "
                f"release after {self.least_left:,} rows would not come"
            )

    def _mu(self) -> float:
        choice(ADJACENCIES, adjacency=self.adjacency)
        epsilon = number(epsilon=self.epsilon, above=0.0, infinite=True)
        delta = number(delta=self.delta, above=0.0, below=1.0)
        return math.inf if math.isinf(epsilon) else gdp_mu(epsilon, delta_of_noise(delta, self.rows_per_user))

    def _open(self, plan: EncodingPlan, facts: Facts, whole: bool) -> tuple[Any, Account]:
        """Reserve the cost of the plan, and return the source of its noise, with the account that pays for it."""
        if isinstance(self.ledger, LostLedger):
            raise StateError(
                "this encoder was pickled and its ledger stayed behind: set ledger= to learn (None: one of its own)"
            )
        if not isinstance(self.ledger, Ledger | None):
            raise InvalidParameter(f"ledger must be a privol.ledger.Ledger or None, found {self.ledger!r}")
        source = None if math.isinf(plan.mu) else make_source(self.random_state)
        for name in _FOUND:
            self.__dict__.pop(name, None)
        # names, types and order of the columns are public in any case
        conditions = (*_PUBLIC, *told(tuple(what for what in facts.inferred if what != "columns")))
        guarantee = self._guarantee(plan, source, (*conditions, _AGAIN) if whole else conditions, facts)
        ledger = self._own() if self.ledger is None else self.ledger
        account = ledger.open(learner=type(self).__name__, guarantee=guarantee)
        # another thread may teach the encoder, too: a lesson keeps what is its own
        self.plan_, self.guarantee_, self.ledger_, self.account_ = plan, guarantee, ledger, account
        return source, account

    def _own(self) -> Ledger:
        """The encoder's own ledger; learning again adds to it."""
        own: Ledger | None = self.__dict__.get("_own_ledger")
        if own is None or own.closed or own.adjacency != self.adjacency:
            own = self._own_ledger = Ledger(adjacency=self.adjacency)
        return own

    def _learn(
        self, lesson: Lesson, going: Iterator[tuple[Any, Any]], rest_of: Callable[[Any, int], Any], name: str
    ) -> Iterator[Any]:
        """Give the lesson its rows, all of them paid for before the first is read; return what is left.

        ``going`` yields pairs: what teaches (None where the input pauses), and what is passed on, from which
        ``rest_of`` leaves rows out.
        """
        try:
            for rows, whole in going:
                if rows is None:
                    continue
                used = lesson.take(rows)
                if lesson.done:
                    return _chained(rest_of(whole, used), (whole for _, whole in going))
            raise StreamError(
                f"{name}: ended after {lesson.taken:,} rows, before the encoding was learnt: n_rows must be the "
                "number of its rows"
            )
        finally:
            lesson.close()

    def _known(self, declared: Schema, columns: Columns) -> dict[str, Column]:
        """The columns that are declared and need not be learnt."""
        known: dict[str, Column] = {name.strip(): column for name, column in declared.columns}
        if declared.delay is not None:
            raise InvalidParameter("declared must not have a delay: rows that teach do not wait for their labels")
        drop = [self.drop] if isinstance(self.drop, str) else list(self.drop)
        for name in (*known, *drop):
            if name not in columns.names:
                has = ", ".join(map(repr, columns.names[:20]))
                raise StreamError(f"{columns.name}: no column {name!r}, the input has {has}")
        return known | {name: Drop() for name in drop}

    def _goal(self, declared: Schema, columns: Columns, target: Any, labels: Labels) -> _Goal:
        stated = declared.target
        if stated is not None:
            for word, given in (("target", target if target is not False else None), ("classes", labels.classes)):
                if given is not None:
                    raise InvalidParameter(f"{word} and a declared target exclude each other: the schema states it")
            target = stated.column
        at = resolve_column(target, columns.names if columns.named else None, len(columns.names), columns.name)
        if at is None:
            return _Goal(None, None, False)
        name = columns.names[at]
        if stated is not None:
            return _Goal(name, replace(stated, column=name), False)
        if labels.classes is not None:
            return _Goal(name, _target_of(name, labels), False)
        return _Goal(name, None, True)

    def _guarantee(self, plan: EncodingPlan, source: Any, conditions: tuple[str, ...], facts: Facts) -> Guarantee:
        none = source is None
        found = Guarantee(
            kind="none" if none else "gdp",
            parameter=math.inf if none else plan.mu,
            adjacency=self.adjacency,
            horizon=plan.rows,
            releases=len(plan.phases),
            delta=self.delta,
            conditions=conditions,
            arithmetic="double precision, no noise" if none else _ARITHMETIC,
            bit_source="none" if none else source.description,
            private=none or source.private,
            released="encoding",
        )
        return of_users(found, plan, facts)


class _Goal:
    """The target: where it is, what is declared about it, and whether it is learnt."""

    def __init__(self, column: str | None, target: Target | None, learnt: bool) -> None:
        self.column, self.target, self.learnt = column, target, learnt


def _target_of(name: str, labels: Labels) -> Target:
    """The target with the labels declared by ``classes`` and ``positive``."""
    return Target(name, **labels.groups())


def _after(batch: Batch, rows: int) -> Batch:
    return batch.slice(rows)


def _chained(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest


def _learnt(plan: EncodingPlan, guarantee: Guarantee) -> Learnt:
    """What a schema says of how it was learnt."""
    found = Learnt(plan.rows, plan.mu, guarantee.adjacency, guarantee.private)
    if guarantee.rows_per_user is None:
        return found
    users: dict[str, Any] = {name: getattr(guarantee, name) for name in ("rows_per_user", "user_separation")}
    return replace(found, phases=tuple(rows for _, rows in plan.phases), **users)
