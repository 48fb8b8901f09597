"""The base of both estimators: scikit-learn's contract, the ways in which rows arrive, and the releases."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from .._validate import choice, integer, number
from .._vocabulary import ON_INVALID
from ..calibration import epsilon_of
from ..encoding import PrivateEncoder
from ..encoding.encode import SchemaEncoder
from ..encoding.frequent import FrequentSource
from ..encoding.labels import Labels
from ..encoding.lesson import Lesson
from ..encoding.phases import SHARE_OF_ALL
from ..encoding.schema import Schema
from ..encoding.schema_parts import Target
from ..errors import InvalidParameter, StateError, StreamError
from ..explaining import Explanation, cut_of, explain
from ..guarantees import ADJACENCIES, Guarantee, split_budget
from ..learners import ALL_LEARNERS, LEARNERS, OnlineLearner, default_name
from ..learners.views import end_run
from ..ledger import Ledger, LedgerSeat, LostLedger, note_clone, warn_of_clones
from ..readers.arrays import ArraySource
from ..streams import Stream, open_stream
from .arriving import LearnsLive, one_at_a_time
from .course import Coders, Course, EncodedRows, Learner, afford, blocks_of, check_declared, check_encoded, together
from .defaults import defaults_for, encoder_for, last_model_for, within_budget
from .inputs import Labelled, dict_columns
from .kept import Directory, describe_shown, encoding_of, ledger_beside
from .single import AskingRows
from .sparse_table import SparseCourse, SparseRows

__all__ = ["PrivateModel"]

RELEASES = "all", "last"
_OF_LEARNER = "epsilon", "delta", "adjacency", "release", "random_state", "rows_per_user", "user_separation"

FloatArray = NDArray[np.float64]


class PrivateModel(LearnsLive):
    """Base of :class:`PrivateClassifier` and :class:`PrivateRegressor`."""

    epsilon: float | None
    delta: float
    mu: float | None
    adjacency: str
    ledger: Ledger | LostLedger | None
    horizon: int | None
    drop: Sequence[str]
    crosses: Sequence[tuple[str, str]]
    #: Only classification takes sparse rows.
    sketch: int = 0
    reuse_rows: bool | None
    rows_per_user: int | None
    user_separation: int
    release: Any
    releases: str
    random_state: Any
    _asking: AskingRows | None = None

    # ---- to be given by each estimator -----------------------------------------------------------------

    @abstractmethod
    def _loss(self, n_classes: int) -> str:
        """Return the loss of the learner behind the encoding."""

    @abstractmethod
    def _declared_target(self, name: str | int) -> Target | None:
        """Return what is declared about the target, in a schema's form; None: nothing."""

    def _refused_labels(self) -> list[Any] | None:
        """Return the labels if a stream may have no others; None: any other label makes a null row."""
        return None

    @abstractmethod
    def _show(self, classes: tuple[Any, ...] | None) -> None:
        """Take over the labels of a new model from its schema."""

    # ---- learning --------------------------------------------------------------------------------------

    @one_at_a_time
    def fit(self, X: Any, y: Any, users: Any = None) -> Self:
        """Learn the encoding and the model from rows, as one new run, and end it.

        Parameters
        ----------
        X : frame or array of shape (n, columns)
            Rows in the order in which they are learnt: shuffle a sorted table. A frame of pandas,
            polars, pyarrow, ..., or an array of numbers, text or objects, whose columns are called x0, x1, ...
        y : array-like of shape (n,)
        users : array-like of shape (n,), optional
            Whose row each row is; see ``partial_fit``.

        Returns
        -------
        self
            Every call is a new run and pays again.

        Raises
        ------
        InvalidRow, InvalidParameter, StreamError, BudgetExceeded
            Before anything is spent: a row that cannot be read, a target that is missing or none
            (``on_invalid="raise"``), a parameter, more rows than ``horizon``, a ledger that cannot carry the run. After
            the rows that teach were counted: StreamError if the noise hides too much of them; the message says what
            would help.
        """
        self._check_parameters()
        counting, gone = self._counting(X, users, None)
        table = self._table(X, y, reset=True, least=2, gone=gone)
        if counting is not None:
            table.facts = counting.promised(table.facts)
        n = table.count()
        horizon = n if self.horizon is None else integer(horizon=self.horizon, at_least=1)
        course = self._prepared(table, horizon, reuse=self.reuse_rows)
        course.users = counting
        course.check_room(n)
        if n < course.teaches:
            raise StreamError(
                f"{table.name}: {n:,} rows are fewer than the {course.teaches:,} that teach the encoding with a "
                f"horizon of {horizon:,}: state the number of rows, or nothing"
            )
        reads = table.loose or self.declared is not None
        batches = self._read(course, table, None) if reads else []
        self._begin(course)
        try:
            if reads:
                course.take(table, batches)
            else:
                course.take_all(table)
            course.learn_kept()
            self._seen(course)
        except BaseException:
            course.abandon()  # a fit that failed releases nothing
            raise
        course.close()
        return self

    @one_at_a_time
    def fit_stream(
        self,
        data: Any,
        *,
        target: str | int | None = None,
        progress: Callable[[Self, Stream], object] | None = None,
        checkpoint: Directory | None = None,
        **how: Any,
    ) -> Self:
        """Learn the encoding and the model from a file, a frame or other input with its target, and end the run.

        Memory does not grow with the number of rows. It learns what ``privol run`` does: a row whose target is missing,
        or a label too rare to be learnt, is a null row.

        Parameters
        ----------
        data
            As for :func:`privol.open_stream`: a path, a pattern, a frame, ... Sparse rows (libsvm) need declared
            labels.
        target : str or int, optional
            Column of the target. Default: the last one.
        progress : callable, optional
            Called as ``progress(estimator, stream)`` after every block that is learnt.
        checkpoint : privol.state.State, optional
            Directory in which the run is kept, so that it outlives the process: the same call resumes it, to the
            same bits. It has the journal of both phases, unless the estimator has a ledger with one; once the encoding
            is learnt, ``encoding.json``, which is public; then the files of :class:`privol.state.State`. If the process
            ends while rows teach, their cost stays spent, and the next call pays for the encoding again. Later calls
            compare the rows that taught with those that they read: StateError if they differ, or can be read only once.
        **how
            How the input is written: other arguments of :func:`privol.open_stream`, such as ``sep``, ``header``,
            ``format``, ``columns``.

        Raises
        ------
        InvalidParameter, StreamError, BudgetExceeded
            As :func:`privol.open_stream` and :meth:`fit`. An error in a row after those that teach is found only when
            these have been paid for.
        """
        self._check_parameters()
        stated = sorted(how.keys() & {"schema", "classes", "positive", "ranges", "first_row"})
        if stated:
            raise InvalidParameter(f"{stated[0]} is not for fit_stream: declared= and classes= say what is public")
        horizon = None if self.horizon is None else integer(horizon=self.horizon, at_least=1)
        self._forget()
        words: dict[str, Any] = {"target": target, **how}
        goal, refused = self._declared_target(-1 if target is None else target), self._refused_labels()
        if refused is not None:
            words["classes"], goal = refused, None
        elif goal is not None:
            del words["target"]
        if checkpoint is not None:
            return self._fit_kept(data, words, goal, horizon, progress, checkpoint)
        encoder = self._encoder(horizon, self.reuse_rows, goal)
        self._afford()
        stream = open_stream(data, **words, schema=encoder)
        learner = self._show_stream(encoder, stream, horizon)
        try:
            if isinstance(learner, OnlineLearner):
                told = None if progress is None else lambda _, at: progress(self, at)
                learner.fit_stream(stream, progress=told)
            else:
                learner.fit_stream(stream)
        except BaseException:
            if isinstance(learner, OnlineLearner):
                end_run(learner)  # without another release
            raise
        return self

    def _fit_kept(
        self,
        data: Any,
        words: dict[str, Any],
        goal: Target | None,
        horizon: int | None,
        progress: Callable[[Self, Stream], object] | None,
        checkpoint: Directory,
    ) -> Self:
        """Fit a stream as a run that outlives its process."""
        if self.releases == "last":
            raise InvalidParameter("checkpoint is for releases='all': a run with releases='last' cannot be continued")
        ledger = ledger_beside(checkpoint.directory, self.ledger, self.adjacency)
        try:
            if self.ledger is None:
                self._own_ledger = ledger
            encoder = self._encoder(horizon, self.reuse_rows, goal)

            def learn() -> Stream:
                self._afford()
                return open_stream(data, **words, schema=encoder)

            found, stream = encoding_of(checkpoint, self, encoder, ledger, learn, data, words)
            learner = self._show_stream(encoder, stream, horizon)
            checkpoint.describe({"schema": found["schema"], "estimator": describe_shown(self, found)})
            told = None if progress is None else lambda _, at: progress(self, at)
            assert isinstance(learner, OnlineLearner)
            learner.fit_stream(stream, progress=told, checkpoint=checkpoint)
        finally:
            if self.ledger is None:
                ledger.close()  # another process may continue the run
        return self

    def _show_stream(self, encoder: PrivateEncoder, stream: Stream, horizon: int | None) -> Learner:
        """Return the learner for an encoded stream, and set the attributes of both."""
        rows = None if horizon is None else horizon - (0 if encoder.reused_ else encoder.plan_.rows)
        learner = self._learner(stream, encoder, stream.count_rows() if rows is None else rows)
        self.encoder_, self.learner_, self._streamed, self._coders = encoder, learner, True, Coders(target=False)
        self._cut = _cut_of(learner, encoder.schema_, stream.n_features, stream.classes)
        self._show(stream.classes)
        names = [name for name, _ in encoder.schema_.columns]
        if names:
            self.feature_names_in_, self.n_features_in_ = np.array(names, dtype=object), len(names)
        elif encoder.schema_.rows is not None:
            self.n_features_in_ = encoder.schema_.rows.features
        return learner

    @one_at_a_time
    def close(self) -> Self:
        """End the current run: make the last release if one is due. Closing twice is harmless."""
        course: Course | None = vars(self).get("_course")
        if course is not None and not course.closed:
            self._let_teach()
            course.close()
        return self

    # ---- its parts -------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        self._epsilon()
        number(delta=self.delta, above=0.0, below=1.0)
        choice(ADJACENCIES, adjacency=self.adjacency)
        choice(ON_INVALID, on_invalid=self.on_invalid)
        if choice(RELEASES, releases=self.releases) == "last":
            for name in ("release", "horizon"):
                if getattr(self, name) is not None:
                    raise InvalidParameter(
                        f"{name} must be None with releases='last': one model, of the rows there are"
                    )
        if not isinstance(self.reuse_rows, bool | None):
            raise InvalidParameter(f"reuse_rows must be True, False or None, found {self.reuse_rows!r}")
        self._ledger()

    def _ledger(self) -> Ledger:
        """The ledger that pays. By default the estimator has one of its own, to which every new run adds."""
        if isinstance(self.ledger, LostLedger):
            raise StateError(
                "this estimator was pickled and its ledger stayed behind: set ledger= to learn (None: one of its own)"
            )
        if self.ledger is not None:
            if not isinstance(self.ledger, Ledger):
                raise InvalidParameter(f"ledger must be a privol.ledger.Ledger or None, found {self.ledger!r}")
            return self.ledger
        own: Ledger | None = vars(self).get("_own_ledger")
        if own is None or own.closed or own.adjacency != self.adjacency:
            own = self._own_ledger = Ledger(adjacency=self.adjacency)
        return own

    def __sklearn_clone__(self) -> Self:
        copy: Self = super().__sklearn_clone__()
        note_clone(self, copy)
        return copy

    def _afford(self) -> None:
        """Refuse a run that the ledger cannot pay, before anything is spent; warn if clones share no ledger."""
        if self.ledger is None and self.random_state is None and not math.isinf(self._epsilon()):
            warn_of_clones(self)
        afford(self._ledger(), self._epsilon(), float(self.delta))

    def _encoder(self, horizon: int | None, reuse: bool | None, goal: Target | None) -> PrivateEncoder:
        """Return the encoder to learn from the rows; ``goal`` is what is declared about the target."""
        declared = None if self.declared is None else Schema.load(self.declared, partial=True)
        if goal is not None:
            if declared is not None and declared.target is not None:
                raise InvalidParameter("declared has a [target], which is stated twice")
            declared = replace(Schema() if declared is None else declared, target=goal)
        trial = self._trial(horizon, reuse)
        mu = None
        if reuse:
            mu = split_budget(self._epsilon(), float(self.delta), SHARE_OF_ALL).mu
        encoder = encoder_for(
            trial,
            horizon=horizon,
            ledger=self._ledger(),
            regression=self._regression(),
            mu=mu,
            reuse_rows=reuse,
            declared=declared,
            drop=self.drop,
            crosses=self.crosses,
            sketch=self.sketch,
        )
        encoder.null_rows = self.on_invalid == "zero"
        return encoder

    def _trial(self, horizon: int | None, reuse: bool | None) -> OnlineLearner:
        """Return the learner that would follow the encoding, with its budget."""
        epsilon = self._epsilon()
        if reuse:
            epsilon = split_budget(epsilon, float(self.delta), SHARE_OF_ALL).epsilon
        loss = self._loss(2)
        made: OnlineLearner = LEARNERS[default_name(loss)](
            loss=loss, **{**self._budget(), "epsilon": epsilon}, horizon=horizon or 1000
        )
        return made

    def _budget(self) -> dict[str, Any]:
        """Parameters of the learner that this estimator sets."""
        return {**{name: getattr(self, name) for name in _OF_LEARNER}, "epsilon": self._epsilon()}

    def _epsilon(self) -> float:
        """Epsilon of the budget, however the budget is stated."""
        return number(epsilon=epsilon_of(self), above=0, infinite=True)

    def _prepared(self, table: Labelled | SparseRows, horizon: int, *, reuse: bool | None) -> Course:
        """Return a run that is ready to begin: every possible refusal has been made, and nothing is reserved."""
        if isinstance(table, SparseRows):
            encoder = self._encoder(horizon, reuse, None)
            return self._checked(SparseCourse, encoder, encoder.prepare_rows(table.source), reuse)
        if self.declared is not None and Schema.load(self.declared, partial=True).target is not None:
            raise InvalidParameter("declared has a [target], and y is given: the parameters say what is public of it")
        goal = self._declared_target(table.names[-1])
        encoder = self._encoder(horizon, reuse, goal)
        lesson = encoder.prepare(table, table.names[-1] if goal is None else None, Labels(None, None))
        return self._checked(Course, encoder, lesson, reuse)

    def _checked(self, kind: type[Course], encoder: PrivateEncoder, lesson: Lesson, reuse: bool | None) -> Course:
        # both phases are as stated when the run began, even if parameters are set while rows come
        stated = object.__new__(type(self))
        stated.__dict__.update(self.__dict__)
        course = kind(encoder, lesson, lambda rows: stated._learner(rows, encoder, rows.n_rows or 0))
        rows = course.horizon - (0 if encoder.reused_ else course.teaches)
        # refuses parameters before any row is read
        self._trial(rows, reuse).calibrate(1, rows)
        return course

    def _learner(self, rows: EncodedRows | Stream, encoder: PrivateEncoder, horizon: int) -> Learner:
        """Return the learner behind an encoding: the default one, with settings from public numbers."""
        given = self._budget()
        if encoder.reused_ and not math.isinf(self._epsilon()):
            given["epsilon"] = split_budget(self._epsilon(), float(self.delta), SHARE_OF_ALL).epsilon
        loss = self._loss(0 if rows.classes is None else len(rows.classes))
        words: dict[str, Any] = {"ledger": self._ledger()}
        if self.releases == "last":
            del given["release"]
            name, settings = last_model_for(rows, horizon, {**given, "loss": loss})
        else:
            name, settings = default_name(loss), defaults_for(None, rows, horizon, {**given, "loss": loss})
        if name in LEARNERS:
            words["horizon"] = horizon
        else:
            del given["user_separation"]  # the distance between rows is irrelevant to a single release
        made: Any = ALL_LEARNERS[name](**{"loss": loss, **settings, **given}, **words)
        return cast("Learner", within_budget(made, rows, horizon))

    def _read(self, course: Course, table: Any, coder: SchemaEncoder | None) -> list[Any]:
        """Read all cells of a block before any row is counted."""
        if coder is None:
            course.read_as(table)
        kinds = course.kinds_for(coder)
        batches = [batch for batch in table.batches(kinds, 65536, lambda _: None) if batch.num_rows]
        if coder is None:
            check_declared(self.declared, table, batches, self.on_invalid == "raise")
            course.read_as(table)
        else:
            check_encoded(coder, self.declared, batches, self.on_invalid == "raise")
        return batches

    def _begin(self, course: Course) -> None:
        self._afford()
        course.begin()
        self._course, self.encoder_ = course, course.encoder

    def _seen(self, course: Course) -> None:
        """Set the attribute of the learner, once there is one."""
        if course.learner is not None and "learner_" not in vars(self):
            self.learner_, self._coders = course.learner, Coders(target=False)
            schema = course.encoder.schema_
            self._cut = _cut_of(course.learner, schema, course.n_features, course.classes)
            self._show(course.classes)

    # ---- what is released ------------------------------------------------------------------------------

    def _model(self) -> Learner:
        learner: Learner | None = vars(self).get("learner_")
        if learner is None:
            course: Course | None = vars(self).get("_course")
            if course is not None:
                raise NotFittedError(
                    f"This {type(self).__name__} instance has no model yet: the first {course.teaches:,} rows teach "
                    f"the encoding, and {course.taken + self._waiting():,} have come."
                )
            raise NotFittedError(f"This {type(self).__name__} instance is not fitted yet: call fit first.")
        return learner

    def __sklearn_is_fitted__(self) -> bool:
        return "learner_" in vars(self)

    @property
    def schema_(self) -> Schema:
        """The learnt encoding, public: it may be shown, kept and used again."""
        self._model()
        schema: Schema = self.encoder_.schema_
        return schema

    @property
    def guarantee_(self) -> Guarantee:
        """The joint guarantee of both phases, even while they run; without a model, that of the encoding."""
        if "learner_" not in vars(self) and "_course" in vars(self):
            found: Guarantee = self.encoder_.guarantee_
            return found
        return together(self.encoder_, self._model().guarantee_)

    @property
    def ledger_(self) -> Ledger:
        """The ledger that both phases are written into."""
        if "encoder_" not in vars(self) or not hasattr(self.encoder_, "ledger_"):
            raise NotFittedError(f"This {type(self).__name__} instance has no run and so no ledger.")
        ledger: Ledger = self.encoder_.ledger_
        return ledger

    @property
    def n_rows_(self) -> int:
        """Rows that taught, and rows that the model has learnt, in the current or last run."""
        course: Course | None = vars(self).get("_course")
        if course is not None:
            return course.taken + self._waiting()
        return self._model().n_rows_ + (0 if self.encoder_.reused_ else self.encoder_.plan_.rows)

    @property
    def n_releases_(self) -> int:
        """Models released in the current or last run."""
        return self._model().n_releases_

    def explain(self, *, names: Mapping[str, Sequence[str]] | None = None, coverage: float = 0.95) -> Explanation:
        """Return what the released model makes of each column, and how far the privacy noise moves that.

        Of public things alone, so it costs nothing: the model, the encoding, noise scales. No row is read.

        Parameters
        ----------
        names : mapping of str to sequence of str, optional
            Public names of categories, by column. A learnt encoding keeps hashes only; categories that it kept are
            shown under these names. Never take names from the rows.
        coverage : float, default=0.95
            Of the bands, point by point, above 0 and below 1.

        Returns
        -------
        Explanation
            ``print`` it; it has ``importance``, ``table``, ``plot()`` and ``text(column)``. Of two classes the score is
            for ``classes_[1]``.

        Raises
        ------
        NotFittedError, StateError
            Before a model was released.
        InvalidParameter
            If a column of ``names`` is none of hashed categories.
        """
        return explain(self._model(), self.schema_, names=names, coverage=coverage, reverse=self._reversed())

    # ---- prediction ------------------------------------------------------------------------------------

    def _reversed(self) -> bool:
        """Whether the learner has two classes in the other order than the estimator."""
        order = vars(self).get("_order")
        return order is not None and len(order) == 2 and bool(order[0] == 1)

    def _predicted(self, X: Any, ask: Callable[[Learner, Any], FloatArray]) -> FloatArray:
        """Return the released model's answer for rows, block by block."""
        learner, schema = self._model(), self.encoder_.schema_
        found: list[FloatArray]
        if schema.rows is not None:
            source = FrequentSource(ArraySource(X, None, Labels(None, None), "X"), schema.rows, ())
            found = [ask(learner, piece.X) for piece in source.pieces(65536, lambda _: None) if piece.X.shape[0]]
            return np.concatenate(found)
        columns, _ = self._columns(X, reset=False)
        coders: Coders = vars(self).get("_coders") or Coders(target=False)
        coder, found, row = coders.of(replace(schema, others="drop"), columns), [], 1
        for batch in columns.batches(coder.kinds, 65536, lambda _: None):
            found += [ask(learner, rows) for rows, _ in blocks_of(coder, batch, row)]
            row += batch.num_rows
        return np.concatenate(found)

    def _score_of(self, x: Any) -> Any:
        """Return the score of a dict, a number or one for each class; None if it must be read as a block."""
        learner: Learner | None = getattr(self, "learner_", None)
        if type(x) is not dict or learner is None:
            return None
        asking = self._asking
        if asking is None or asking.learner is not learner:
            schema, names = self.encoder_.schema_, self._column_names()
            if schema.rows is not None:
                return None
            columns = dict_columns([x], names)
            encoder = SchemaEncoder(replace(schema, others="drop"), columns, target=False).reading(None)
            asking = self._asking = AskingRows(learner, encoder, names)
        return asking.score(x)

    # ---- pickling: what is public ----------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        for name in ("_course", "_own_ledger", "_coders", "_lock", "_single", "_asking"):
            state.pop(name, None)
        if self.ledger is not None and "encoder_" in state:
            state["ledger"] = LedgerSeat(self.ledger)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        seat = state.get("ledger")
        super().__setstate__({**state, "ledger": seat.ledger} if isinstance(seat, LedgerSeat) else state)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.target_tags.required = True
        return tags


def _cut_of(learner: Learner, schema: Schema, n_features: int, classes: Sequence[Any] | None) -> float:
    return cut_of(learner, schema, n_features, 2 if classes is None else len(classes))
