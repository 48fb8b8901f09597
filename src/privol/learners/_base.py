"""The base of all online learners: scikit-learn's contract, labels, the life of a run, the public export.

A learner goes through a sequence of runs. A run has a public plan, a secret compiled state, an account in a ledger, and
released models. ``fit`` and ``fit_stream`` are whole runs; ``partial_fit`` and ``learn_one`` continue the current run
until ``close``.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import NotFittedError

from .._core._learner_run import LearnerRun
from .._core._noise import Source
from .._live_users import LiveUsers, counting_for
from .._validate import integer
from .._values import single_row
from ..calibration import MOST_ROWS, RunPlan
from ..errors import BudgetExceeded, InvalidParameter, PrivacyWarning, StateError
from ..guarantees import Guarantee, weaknesses
from ..ledger import Ledger, LedgerSeat
from ..losses import get_loss
from ._ledgered import LedgeredModel
from ._model import Export, Release, is_classifier
from ._named import FirstRow
from ._run_protocols import Keeper, Observer, RowStream, Run, Take, check_null_rows, place_of, promised_by
from ._scaled import FIRST_ROWS, warn_of_scaled
from ._targets import Targets, declared_labels

__all__ = ["Keeper", "Observer", "OnlineLearner", "RowStream", "Run"]

FloatArray = NDArray[np.float64]

#: Rows per call of the kernel: interrupts, progress and other threads get their turn between blocks.
BLOCK_ROWS = 65536


class OnlineLearner(LedgeredModel):
    """Base of the online learners: subclasses define the abstract methods and share the rest."""

    horizon: int | None
    random_state: Any
    _run: Run | None = None

    # ---- to be given by the learner -------------------------------------------------------------

    @abstractmethod
    def calibrate(self, n_features: int, horizon: int, release: Any = None, *, n_classes: int = 2) -> RunPlan:
        """Return the plan of a run, from public numbers alone, before anything is spent."""

    @abstractmethod
    def _open_run(
        self,
        n_features: int,
        horizon: int,
        release: Any,
        classes: NDArray[Any] | None = None,
        *,
        source: Source | None = None,
    ) -> tuple[LearnerRun, RunPlan, Guarantee]:
        """Validate all parameters; return the secret state, the plan and the guarantee of a new run.

        ``source`` has the noise of a run to be continued; None: the run is new.
        """

    @abstractmethod
    def _default_release(self, whole: bool) -> Any:
        """Return the release schedule; ``whole`` runs see all their rows in one call."""

    @abstractmethod
    def _release_last(self, run: Run) -> None:
        """Make the last release of a run that ends before its horizon, if one is due."""

    def _endless(self) -> bool:
        """Whether a run may have no last row."""
        return False

    def _averaging(self) -> int:
        """The kernels' number for the weights of releases in ``average_coef_``: here all are equal."""
        return 0

    def _most_rows(self, horizon: int) -> int:
        """The most rows that a run with this horizon may learn."""
        return horizon

    def _uses(self) -> int:
        """How many times a whole run learns each row."""
        return 1

    def _check_pass(self, n_rows: int) -> None:
        """Refuse this number of rows if they cannot be learnt several times."""

    # ---- learning ----------------------------------------------------------------------------------

    def fit(self, X: ArrayLike, y: ArrayLike, users: ArrayLike | None = None) -> Self:
        """Learn all rows as one new run, release, and end the run.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
            Rows, in the order of the stream. float32 and float64 are read in place, the values of CSR too: another
            thread may not change them meanwhile, here and in all calls that learn, because rows are checked before they
            are learnt. The structure of a sparse matrix is copied and then checked, so that it cannot be changed; with
            ``on_invalid="zero"`` a CSR row that has a column beyond the features is a null row, and any other fault of
            the structure is an error. In lists, objects and texts each value is read by itself; masked values are
            missing. The number of features is public: the one stated by ``declare_features`` or, in a list of rows,
            that of more than half of them, and the guarantee says so.
        y : array-like of shape (n,)
            Labels, of two classes or as many as the learner takes, or real targets. Unless ``declare_classes`` has
            stated the labels, those found count as public, and the guarantee says so.
        users : array-like of shape (n,), optional
            Whose row each row is; see ``partial_fit``.

        Returns
        -------
        self
            Every call is a new run and pays again.

        Raises
        ------
        BudgetExceeded
            If there are more rows than ``horizon``, or the ledger cannot carry the run.
        InvalidRow
            If a row or a target is not finite, no number, or of another length (``on_invalid="raise"``). Nothing was
            learnt, spent or released.
        """
        rows, labels, found = self._validate(X, y, reset=True)
        uses = self._uses()
        self._check_pass(rows.shape[0])
        horizon = uses * rows.shape[0] if self.horizon is None else self._needed_horizon()
        self._check_horizon(uses * rows.shape[0], 0, self._most_rows(horizon))
        classes, conditions = self._classes_of_fit(labels)
        targets = self._targets(classes)
        encoded = targets.encode(labels, 0)
        self._check_rows(rows, targets, 0)
        release = self._default_release(whole=True)
        counting = counting_for(self, users, None, refuse=targets.refuse)
        if counting is not None:
            encoded = np.where(counting.admit(users, rows.shape[0], 0), np.nan, encoded)
        run = self._start(rows.shape[1], horizon, release, targets, counting, (*found, *conditions))
        try:
            for _ in range(uses):
                self._learn(run, rows, encoded)
        except BaseException:
            self._settle(run)  # a fit that failed releases nothing
            raise
        self.close()
        self._look_at_scaled(run, X=rows)
        return self

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None, users: ArrayLike | None = None
    ) -> Self:
        """Learn a block of rows; how the stream is cut into blocks never changes the result.

        An interrupt (Ctrl-C) takes effect between two pieces of at most 65,536 rows; ``n_rows_`` says how many rows
        were learnt by then.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
        y : array-like of shape (n,)
        classes : array-like of labels, optional
            Two, or as many as the learner takes: the public set of labels. Needed in the first call for classification.
        users : array-like of shape (n,), optional
            Whose row each row is, texts or numbers, with every block of a run or with none; for learners with
            ``rows_per_user``. The learner then counts: a row beyond ``rows_per_user``, or less than ``user_separation``
            rows after the last learnt row of its user, is a null row with ``on_invalid="zero"`` (``n_null_rows_``);
            otherwise its block is refused. Without it the guarantee says that nobody checks. Users are stored by a
            keyed hash, in 21 to 33 bytes each, as long as the run lasts; at most 16,777,216 of them.

        Raises
        ------
        InvalidRow, BudgetExceeded, InvalidParameter, StateError
            Before anything of the block is learnt, spent or released.
        """
        run = self._current_run()
        learnt = 0 if run is None else run.state.n_rows
        rows, labels, found = self._validate(X, y, reset=run is None, learnt=learnt)
        targets = self._run_targets(classes, run)
        encoded = targets.encode(labels, learnt)
        self._check_rows(rows, targets, learnt)
        most = self._most_rows(self._needed_horizon()) if run is None else run.guarantee.horizon
        self._check_horizon(rows.shape[0], learnt, most)
        counting = counting_for(self, users, run, refuse=targets.refuse)
        with (
            nullcontext()
            if counting is None
            else counting.counted(users, rows.shape[0], lambda: 0 if run is None else run.state.n_rows) as surplus
        ):
            encoded = encoded if surplus is None else np.where(surplus, np.nan, encoded)
            if run is None:
                release = self._default_release(whole=False)
                run = self._start(rows.shape[1], self._needed_horizon(), release, targets, counting, found)
            if not run.looked_at and learnt >= FIRST_ROWS:
                self._look_at_scaled(run, X=rows)  # of earlier blocks: if warnings are errors, this one is not learnt
            self._learn(run, rows, encoded)
        return self

    def learn_one(self, x: ArrayLike | dict[str, Any], y: Any, user: Any = None) -> Self:
        """Learn one row: the same result as ``partial_fit`` with one row, at a fraction of its cost.

        Parameters
        ----------
        x : array-like of shape (n_features,), one sparse row, or a dict of features by name (``declare_features``)
        y : label or number
            Labels must be known: by ``classes`` of a first ``partial_fit``, or by ``declare_classes``.
        user : text or number, optional
            Whose row it is; see ``partial_fit``.
        """
        run = self._run
        if run is not None and user is None and run.learn_one(x, y):
            return self
        if isinstance(x, dict):
            return self._learn_named(x, y, user)
        whose = None if user is None else [user]
        if type(x) is not np.ndarray and sp.issparse(x):
            one: Any = x
            return self.partial_fit(sp.csr_array(one.reshape(1, -1)), [[y]], users=whose)
        other = run is None or run.closed or run.of_stream or run.unlabelled or run.keeper
        if run is None or other or (run.users is None) != (user is None):
            block: Any = x[None, ...] if isinstance(x, np.ndarray) else x if isinstance(x, FirstRow) else [x]
            return self.partial_fit(block, [[y]], users=whose)
        if type(x) is not np.ndarray or x.dtype.char not in "df":
            x = single_row(x, self.n_features_in_, learnt=run.state.n_rows, refuse=run.targets.refuse)
        target = run.targets.encode_one(y, run.state.n_rows)
        if run.users is None:
            run.state.learn_one(x, target)
        else:
            run.users.learn_one(run.state, x, target, user)
        return self

    def fit_stream(
        self,
        stream: RowStream,
        *,
        progress: Callable[[Self, RowStream], object] | None = None,
        on_release: Callable[[Release], object] | None = None,
        observer: Observer | None = None,
        checkpoint: Keeper | None = None,
    ) -> Self:
        """Learn a whole stream in blocks as one new run, release, and end the run. Memory does not grow with the rows.

        Parameters
        ----------
        stream : RowStream
            Such as :func:`privol.open_stream` returns.
        progress : callable, optional
            Called as ``progress(learner, stream)`` after every block.
        on_release : callable, optional
            Called with every :class:`Release`. One Python call per release: slow if every row releases.
        observer : Observer, optional
            Stands between the learner and its secret state, and may evaluate the released model on each row before it
            is learnt, as :func:`privol.evaluate.progressive` does. What it computes is **not private**.
        checkpoint : privol.state.State, optional
            Directory of the run, so that it outlives the process: begun there, or resumed. The learner then shows its
            last checkpoint.

        Raises
        ------
        InvalidParameter
            If the stream does not know its number of rows and ``horizon`` is not given, or the loss needs classes and
            the stream has none.
        BudgetExceeded, InvalidRow
            As ``partial_fit``: blocks before the failing one stay learnt, and the run continues from there (by
            ``partial_fit``, unless the stream has a cap on rows per user or conditions of its own).
        """
        horizon = self._stream_horizon(stream)
        classes = None
        if is_classifier(self):
            if stream.classes is None:
                raise InvalidParameter(
                    f"loss={get_loss(self.loss).name!r} needs a stream with classes: open_stream(..., classes=)"
                )
            classes = declared_labels(stream.classes, most=self._most_classes(), ordered=True)
        targets = self._targets(classes)
        if checkpoint is not None:
            checkpoint.open(self, replay=observer is not None)
        before: Run | None = self.__dict__.get("_run")
        try:
            run = self._fit_blocks(stream, targets, horizon, progress, on_release, observer, checkpoint)
            releases = run.state.n_releases
            self.close()
        except BaseException:
            begun: Run | None = self.__dict__.get("_run")
            if checkpoint is not None:
                checkpoint.leave(self, None if begun is before else begun)
            raise
        if on_release is not None and run.state.n_releases > releases:
            on_release(self._release(run))
        self._look_at_scaled(run, stream)
        return self

    def _fit_blocks(
        self,
        stream: RowStream,
        targets: Targets,
        horizon: int,
        progress: Callable[[Self, RowStream], object] | None,
        on_release: Callable[[Release], object] | None,
        observer: Observer | None,
        keeper: Keeper | None,
    ) -> Run:
        run: Run | None = None
        seen, blocks = 0, self._passes(stream)
        begin = self._start if keeper is None else partial(keeper.begin, self)
        if keeper is not None:
            seen, blocks = keeper.attend(stream, once=self._uses() == 1), keeper.between(blocks)
        for block in blocks:
            if block.y is None:
                raise InvalidParameter("the stream has no targets")
            X, n = self._numbers(block.X, seen), block.X.shape[0]
            encoded = (targets.encode if targets.classes is None else targets.encode_indices)(block.y, seen)
            self._check_rows(X, targets, seen)
            self._check_horizon(n, seen, self._most_rows(horizon))
            if run is None:
                run = begin(X.shape[1], horizon, self._default_release(whole=True), targets, stream)
                self.n_features_in_ = X.shape[1]
            if keeper is not None:
                keeper.named(getattr(block, "seen", None))
                skipped = keeper.skip(X, encoded)
                X, encoded = X[skipped:], encoded[skipped:]
            self._learn(run, X, encoded, on_release, observer)
            seen += n
            if progress is not None:
                progress(self, stream)
        if run is None and seen:  # a run whose last row was kept before it could end
            width = int(getattr(stream, "n_features", 0))
            run = begin(width, horizon, self._default_release(whole=True), targets, stream)
            self.n_features_in_ = width
        if run is None:
            raise InvalidParameter("the stream has no rows")
        return run

    def _passes(self, stream: RowStream) -> Iterator[Any]:
        """The blocks of a stream, repeated as often as its rows are used."""
        rows = 0
        for block in stream:
            rows += block.X.shape[0]
            yield block
        self._check_pass(rows)
        for _ in range(self._uses() - 1):
            blocks = 0
            for block in stream:
                blocks += 1
                yield block
            if not blocks:
                raise InvalidParameter("the stream gives its rows once only: epochs must be 1")

    def close(self) -> Self:
        """End the current run: make its last release if one is due, wipe the secret state, settle the account.

        A run whose only release was planned for its horizon releases after its true last row instead, with noise
        calibrated for that row. Closing twice is harmless.

        Raises
        ------
        StateError
            If a release is due and the run's account is closed: the run ends without it.
        """
        run: Run | None = self.__dict__.get("_run")
        if run is not None and not run.closed:
            try:
                if run.keeper is not None:
                    run.keeper.ends()
                run.state.finish()
                self._release_last(run)
                if run.keeper is not None:
                    run.keeper.seal(self, run)
            except BaseException:
                if run.state.ended:  # it ended on a number that is not finite: trying again is useless
                    self._settle(run)
                raise
            self._settle(run)
            if run.keeper is not None:
                run.keeper.settled()
        return self

    @staticmethod
    def _settle(run: Run) -> None:
        run.closed = True
        run.state.close()
        run.account.close()

    def _look_at_scaled(self, run: Run, stream: Any = None, X: Any = None) -> None:
        """Warn once in a run if most of its rows were longer than their bound."""
        run.looked_at = True
        scaled = run.state.raw_counts()["clipped_rows"]
        warn_of_scaled(scaled, run.state.n_rows, run.plan.problem.x_bound, stream=stream, X=X, stacklevel=4)

    def _diagnostics(self) -> dict[str, int]:
        """Counts of null rows and of rows scaled to the bound: NOT private."""
        run: Run | None = self.__dict__.get("_run")
        if run is None:
            raise NotFittedError(
                f"This {type(self).__name__} instance has no run: counts of rows stay in the process that learnt them."
            )
        return run.state.raw_counts()

    # ---- the run ---------------------------------------------------------------------------------------

    def _start(
        self,
        n_features: int,
        horizon: int,
        release: Any,
        targets: Targets,
        stream: Any = None,
        conditions: tuple[str, ...] = (),
        take: Take | None = None,
    ) -> Run:
        """Open a run: check all parameters first, then reserve its whole budget, unless it is reserved already."""
        state, plan, guarantee = self._open_run(n_features, horizon, release, targets.classes)
        guarantee = promised_by(stream, guarantee, plan)
        guarantee = replace(guarantee, conditions=(*guarantee.conditions, *conditions))
        endless = horizon == MOST_ROWS and self._endless()  # the rows that delta should stay below are unknown
        for words in weaknesses(guarantee, rows=1 if endless else horizon):
            warnings.warn(words, PrivacyWarning, stacklevel=3)
        self._warn_of_clones(guarantee)
        name, ledger, facts = type(self).__name__, self._ledger(), take and {"kept": True}
        if take is None or (account := take(name, guarantee, stream, ledger)) is None:
            account = ledger.open(learner=name, guarantee=guarantee, facts=facts, **place_of(stream, ledger, guarantee))
        return self._adopt(Run(state, plan, account.guarantee, account, targets, horizon), stream)

    def _adopt(self, run: Run, stream: Any) -> Run:
        """Make a run the learner's current one."""
        before: Run | None = self.__dict__.get("_run")
        if before is not None and not before.closed:
            self._settle(before)  # a new run cuts this one short, so it releases nothing more
        run.users = stream if isinstance(stream, LiveUsers) else None
        kept = getattr(stream, "rows_per_user", None) is not None or bool(getattr(stream, "conditions", ()))
        run.of_stream = kept and run.users is None
        self._run = run
        self.__dict__.pop("_export", None)
        if run.targets.classes is not None:
            self.classes_ = run.targets.classes
        return run

    def _current_run(self) -> Run | None:
        run: Run | None = self.__dict__.get("_run")
        if run is not None and run.keeper is not None and not run.account.closed:
            raise StateError("the run is kept on the disk, and learns only through fit_stream")
        if run is not None and not run.closed:
            run.account.ask()
        if run is not None and run.closed:
            raise StateError("the run is closed; fit() or a new learner starts another, which pays again")
        if run is None and "_export" in self.__dict__:
            raise StateError(
                "this learner is a copy of what another has released, and only that one can continue the run; fit() or "
                "a new learner starts another, which pays again"
            )
        if run is not None and run.of_stream:
            raise StateError(
                "the run was begun by fit_stream, and only that stream enforces what its guarantee says of users or "
                "rows: close() ends it, and another run pays again"
            )
        return run

    def _needed_horizon(self) -> int:
        if self.horizon is None and self._endless():
            return MOST_ROWS
        if self.horizon is None:
            raise InvalidParameter(
                "horizon must be given for partial_fit and learn_one: the number of rows that the budget must last for"
            )
        return integer(horizon=self.horizon, at_least=1)

    def _stream_horizon(self, stream: RowStream) -> int:
        check_null_rows(stream, self.on_invalid)
        if stream.n_rows is not None:
            self._check_pass(stream.n_rows)
        horizon = stream.n_rows if self.horizon is None else self._needed_horizon()
        if horizon is not None and self.horizon is None:
            horizon *= self._uses()
        if horizon is None and self._endless():
            return MOST_ROWS
        if horizon is None:
            raise InvalidParameter(
                "horizon must be given for a stream that does not know its number of rows, such as "
                "stream.count_rows() of a file: the budget must last for it"
            )
        return horizon

    @staticmethod
    def _check_horizon(n: int, learnt: int, horizon: int) -> None:
        if learnt + n > horizon:
            raise BudgetExceeded(
                f"the next {n} rows would exceed the horizon: {learnt} of {horizon} are used; nothing of them was "
                "learnt"
            )

    def _learn(
        self,
        run: Run,
        X: Any,
        targets: FloatArray,
        on_release: Callable[[Release], object] | None = None,
        observer: Observer | None = None,
    ) -> None:
        n, start = X.shape[0], 0
        # the user's loss may fail on any row: one call of the kernel, so that all of it can be undone
        longest = n if get_loss(self.loss).vouched is not None else BLOCK_ROWS
        while start < n:
            stop = min(start + longest, n)
            if on_release is not None:
                stop = min(stop, start + max(1, run.state.next_release - run.state.n_rows))
            if run.keeper is not None:
                stop = min(stop, start + run.keeper.room())
            releases = run.state.n_releases
            if run.keeper is not None:
                run.keeper.learning(X[start:stop], targets[start:stop])
            if observer is None:
                run.state.learn(X[start:stop], targets[start:stop])
            else:
                observer.learn(run, X[start:stop], targets[start:stop])
            released = on_release is not None and run.state.n_releases > releases
            if run.keeper is not None:
                kept = run.keeper.learnt(run, released=released)
                released = released and kept
            if on_release is not None and released:
                on_release(self._release(run))
            start = stop

    def _run_targets(self, classes: Any, run: Run | None) -> Targets:
        """The targets of the current run, or of the run that the first block opens."""
        if not is_classifier(self):
            return self._targets(None) if run is None else run.targets
        declared = None if classes is None else declared_labels(classes, most=self._most_classes())
        if run is not None and run.unlabelled:
            raise StateError("the run was begun without labels and takes no rows: declare_classes() comes before it")
        if run is not None:
            labels = run.targets.classes
            assert labels is not None
            # not np.array_equal, which would take any exception for a difference, even one from a signal handler
            if declared is not None and (declared.shape != labels.shape or not bool((declared == labels).all())):
                raise InvalidParameter(f"classes must stay {labels.tolist()} within a run, found {classes!r}")
            return run.targets
        declared = self.__dict__.get("_declared") if declared is None else declared
        if declared is None:
            raise InvalidParameter(
                "classes must be given in the first call to partial_fit, or by declare_classes(): the public labels"
            )
        return self._targets(declared)

    # ---- what is released ------------------------------------------------------------------------------

    def _release(self, run: Run) -> Release:
        coef, intercept = self._parts(run.state.released_model(), run.state.outputs)
        return Release(run.state.n_rows, coef.copy(), intercept)

    def _public(self, attribute: str) -> Any:
        """A public quantity, from the open run or from the export that a pickle holds."""
        run: Run | None = self.__dict__.get("_run")
        if run is not None:
            return run.public(attribute)
        export: Export | None = self.__dict__.get("_export")
        if export is None:
            raise NotFittedError(f"This {type(self).__name__} instance is not fitted yet: call fit first.")
        return getattr(export, attribute)

    @property
    def plan_(self) -> RunPlan:
        """Plan of the current or last run: public, and the basis of its guarantee, whatever was set since."""
        run: Run | None = self.__dict__.get("_run")
        if run is None:
            raise NotFittedError(f"This {type(self).__name__} instance has no run: ask() or a first row begins it.")
        return run.plan

    @property
    def ledger_(self) -> Ledger:
        """The ledger that the runs of this learner are written into."""
        run: Run | None = self.__dict__.get("_run")
        if run is None:
            raise NotFittedError(f"This {type(self).__name__} instance has no run and so no ledger.")
        return run.account.ledger

    def __sklearn_is_fitted__(self) -> bool:
        return "_run" in self.__dict__ or "_export" in self.__dict__

    # ---- pickling: the public export -------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        run = state.pop("_run", None)
        state.pop("_own_ledger", None)
        if run is not None:
            state["_export"] = run.export() if run.handed is None else run.handed
        if "_export" in state and self.ledger is not None:
            state["ledger"] = LedgerSeat(self.ledger)
        return state
