"""What all online learners share: scikit-learn's contract, labels, the life of a run, the public export.

A learner's life is a sequence of runs. A run has a plan (public), a secret compiled state, an account in a ledger, and
released models. ``fit`` and ``fit_stream`` are a whole run; ``partial_fit`` and ``learn_one`` continue the current one
until ``close``.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import ClassifierTags, RegressorTags, Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from .._core._iterate import IterateRun, Progress
from .._core._rows import squared_norms
from .._validate import choice
from ..errors import BudgetExceeded, InvalidParameter, InvalidRow, StateError
from ..guarantees import Guarantee
from ..ledger import Account, Ledger
from ..losses import Loss, get_loss

__all__ = ["OnlineLearner", "Release", "RowStream"]

FloatArray = NDArray[np.float64]

#: Rows per call of the kernel: interrupts, progress and other threads are served between blocks.
BLOCK_ROWS = 65536


class RowBlock(Protocol):
    """Rows in order: features, and targets as real numbers or as indices into the stream's classes."""

    X: Any
    y: Any
    first_row: int


class RowStream(Protocol):
    """What ``fit_stream`` reads: any object with these names, such as :func:`privol.open_stream` returns."""

    n_rows: int | None
    classes: tuple[Any, Any] | None

    def __iter__(self) -> Any: ...


@dataclass(frozen=True)
class Release:
    """A released model: public.

    Attributes
    ----------
    row : int
        Rows learnt when it was released.
    coef : ndarray of shape (n_features,)
    intercept : float
    """

    row: int
    coef: FloatArray
    intercept: float


@dataclass
class Run:
    """One run of a learner: the opaque secret state and what is public about it."""

    state: IterateRun
    plan: Any
    guarantee: Guarantee
    account: Account
    classes: NDArray[Any] | None
    closed: bool = False

    @cached_property
    def codes(self) -> dict[Any, float] | None:
        """-1 and +1 by label."""
        return None if self.classes is None else dict(zip(self.classes.tolist(), (-1.0, 1.0), strict=True))


@dataclass(frozen=True)
class Export:
    """The public part of a fitted learner: all that a pickle or a file may hold."""

    model: FloatArray
    average: FloatArray
    n_rows: int
    n_releases: int
    guarantee: Guarantee
    classes: NDArray[Any] | None


def _is_classifier(learner: Any) -> bool:
    return bool(get_loss(learner.loss).kind == "classification")


def _has_probabilities(learner: Any) -> bool:
    return bool(get_loss(learner.loss).name == "logistic")


class OnlineLearner(BaseEstimator):  # type: ignore[misc]
    """Base of the online learners. Subclasses give ``_open_run``, ``_prepare`` and ``_release_last``."""

    loss: str | Loss
    horizon: int | None
    x_bound: float
    y_bound: float
    fit_intercept: bool
    on_invalid: str
    ledger: Ledger | None
    random_state: Any

    # ---- to be given by the learner -------------------------------------------------------------

    @abstractmethod
    def _open_run(self, n_features: int, horizon: int, release: Any) -> tuple[IterateRun, Any, Guarantee]:
        """Validate all parameters and build the secret state, the plan and the guarantee of a new run."""

    @abstractmethod
    def _default_release(self, whole: bool) -> Any:
        """Return the release schedule; ``whole`` runs see all their rows in one call."""

    @abstractmethod
    def _release_last(self, run: Run) -> None:
        """Make the last release of a run that ends before its horizon, if one is due."""

    # ---- scikit-learn ------------------------------------------------------------------------------

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        if _is_classifier(self):
            tags.estimator_type = "classifier"
            tags.classifier_tags = ClassifierTags(multi_class=False)
        else:
            tags.estimator_type = "regressor"
            tags.regressor_tags = RegressorTags()
        return tags

    # ---- learning ----------------------------------------------------------------------------------

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn all rows as one new run, release, and end the run.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
            Rows, in the order of the stream. float32 and float64 are read in place, CSR too.
        y : array-like of shape (n,)
            Two classes (the set of labels found is taken as public), or real targets.

        Returns
        -------
        self
            Every call is a new run and pays again.

        Raises
        ------
        BudgetExceeded
            If there are more rows than ``horizon``, or the ledger cannot carry the run.
        InvalidRow
            If a row or a target is not finite (``on_invalid="raise"``). Nothing was learnt, spent or released.
        """
        X, y = self._validate(X, y, reset=True)
        classes = self._classes_of(y)
        n = X.shape[0]
        if self.horizon is not None and n > self.horizon:
            raise BudgetExceeded(f"{n} rows exceed the horizon of {self.horizon}; nothing was learnt")
        targets = self._targets(y, classes, 0)
        norms = self._norms(X, targets, 0)
        run = self._start(X.shape[1], self.horizon or n, self._default_release(whole=True), classes)
        try:
            self._learn(run, X, targets, norms)
        except BaseException:
            self._settle(run)  # a fit that failed releases nothing
            raise
        return self.close()

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Learn a block of rows; how the stream is cut into blocks never changes the result.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
        y : array-like of shape (n,)
        classes : array-like of two labels, optional
            The public set of labels. Needed in the first call for classification.

        Raises
        ------
        InvalidRow, BudgetExceeded, InvalidParameter, StateError
            Before anything of the block is learnt, spent or released.
        """
        run = self._current_run()
        X, y = self._validate(X, y, reset=run is None)
        labels = self._declared_classes(classes, run)
        learnt = 0 if run is None else run.state.n_rows
        targets = self._targets(y, labels, learnt)
        norms = self._norms(X, targets, learnt)
        if run is None:
            run = self._start(X.shape[1], self._needed_horizon(), self._default_release(whole=False), labels)
        self._learn(run, X, targets, norms)
        return self

    def learn_one(self, x: ArrayLike, y: Any) -> Self:
        """Learn one row: the same result as ``partial_fit`` with one row, at a fraction of its cost.

        Parameters
        ----------
        x : array-like of shape (n_features,)
        y : label or number
            For classification the labels must be known: call ``partial_fit`` with ``classes`` on the first row, or
            give the learner its classes by ``declare_classes``.
        """
        run: Run | None = self.__dict__.get("_run")
        if run is None or run.closed:
            return self.partial_fit(np.asarray(x)[None, :], np.asarray(y)[None], classes=self.__dict__.get("_declared"))
        if run.codes is None:
            target = self._clip_target(y, run.state.n_rows)
        else:
            target = run.codes.get(y)
            if target is None:
                target = self._unknown_label(y, run.state.n_rows + 1, run.classes)
        run.state.learn_one(x, target, self.on_invalid == "zero")
        return self

    def declare_classes(self, classes: ArrayLike) -> Self:
        """Declare the two labels before the first row, for ``learn_one`` and streams without declared classes."""
        self._declared = self._two_classes(classes)
        return self

    def fit_stream(
        self,
        stream: RowStream,
        *,
        progress: Callable[[Self, RowStream], object] | None = None,
        on_release: Callable[[Release], object] | None = None,
        diagnostics: Progress | None = None,
    ) -> Self:
        """Learn a whole stream in blocks as one new run, release, and end the run. Memory is flat.

        Parameters
        ----------
        stream : RowStream
            Such as :func:`privol.open_stream` returns.
        progress : callable, optional
            Called as ``progress(learner, stream)`` after every block.
        on_release : callable, optional
            Called with every :class:`Release`. One Python call a release: slow where every row releases.
        diagnostics : Progress, optional
            Receives the progressive evaluation of the released model on each row before it is learnt. It is computed
            from raw data and **not private**.

        Raises
        ------
        InvalidParameter
            If the stream does not know its number of rows and ``horizon`` is not given, or the loss needs classes and
            the stream has none.
        BudgetExceeded, InvalidRow
            As ``partial_fit``: blocks before the failing one stay learnt, and the run goes on where it was.
        """
        horizon = self.horizon if self.horizon is not None else stream.n_rows
        if horizon is None:
            raise InvalidParameter(
                "horizon must be given for a stream that does not know its number of rows: the budget must last for it"
            )
        classes = None
        if _is_classifier(self):
            declared = stream.classes if stream.classes is not None else self.__dict__.get("_declared")
            if declared is None:
                raise InvalidParameter(f"loss={get_loss(self.loss).name!r} needs a stream with declared classes")
            classes = self._two_classes(declared, ordered=True)
        run: Run | None = None
        for block in stream:
            if block.y is None:
                raise InvalidParameter("the stream has no targets")
            learnt = 0 if run is None else run.state.n_rows
            targets = np.asarray(block.y, dtype=np.float64)
            targets = self._targets(targets, None, learnt) if classes is None else 2.0 * targets - 1.0
            norms = self._norms(block.X, targets, learnt)
            if run is None:
                run = self._start(block.X.shape[1], horizon, self._default_release(whole=True), classes)
                self.n_features_in_ = block.X.shape[1]
            self._learn(run, block.X, targets, norms, on_release, diagnostics)
            if progress is not None:
                progress(self, stream)
        if run is None:
            raise InvalidParameter("the stream has no rows")
        before = run.state.n_releases
        self.close()
        if on_release is not None and run.state.n_releases > before:
            on_release(self._release(run))
        return self

    def close(self) -> Self:
        """End the current run: make its last release if one is due, wipe the secret state, settle the account.

        A run whose only release was planned for its horizon releases after its true last row instead, with noise
        calibrated for that row. Closing twice is harmless.
        """
        run: Run | None = self.__dict__.get("_run")
        if run is not None and not run.closed:
            self._release_last(run)
            self._settle(run)
        return self

    @staticmethod
    def _settle(run: Run) -> None:
        run.closed = True
        run.state.close()
        run.account.close()

    # ---- the run ---------------------------------------------------------------------------------------

    def _start(self, n_features: int, horizon: int, release: Any, classes: NDArray[Any] | None) -> Run:
        """Open a run: parameters first, then the reservation of its whole budget."""
        state, plan, guarantee = self._open_run(n_features, horizon, release)
        account = self._ledger().open(learner=type(self).__name__, guarantee=guarantee)
        account.attach(state.counters)
        before: Run | None = self.__dict__.get("_run")
        if before is not None and not before.closed:
            self._settle(before)  # a run that was cut short by a new one releases nothing more
        self._run = Run(state, plan, guarantee, account, classes)
        self.__dict__.pop("_export", None)
        if classes is not None:
            self.classes_ = classes
        return self._run

    def _ledger(self) -> Ledger:
        if self.ledger is not None:
            if not isinstance(self.ledger, Ledger):
                raise InvalidParameter(f"ledger must be a privol.ledger.Ledger or None, found {self.ledger!r}")
            return self.ledger
        own: Ledger | None = self.__dict__.get("_own_ledger")
        if own is None:
            own = self._own_ledger = Ledger(adjacency=self._adjacency())
        return own

    @abstractmethod
    def _adjacency(self) -> str: ...

    def _current_run(self) -> Run | None:
        run: Run | None = self.__dict__.get("_run")
        if run is not None and run.closed:
            raise StateError("the run is closed; fit() or a new learner starts another, which pays again")
        return run

    def _needed_horizon(self) -> int:
        if self.horizon is None:
            raise InvalidParameter(
                "horizon must be given for partial_fit and learn_one: the number of rows that the budget must last for"
            )
        return self.horizon

    def _learn(
        self,
        run: Run,
        X: Any,
        targets: FloatArray,
        norms: FloatArray,
        on_release: Callable[[Release], object] | None = None,
        diagnostics: Progress | None = None,
    ) -> None:
        n, start = X.shape[0], 0
        if run.state.n_rows + n > run.guarantee.horizon:
            raise BudgetExceeded(
                f"{n} more rows would exceed the horizon: {run.state.n_rows} of {run.guarantee.horizon} are used; "
                "nothing of them was learnt"
            )
        while start < n:
            stop = min(start + BLOCK_ROWS, n)
            if on_release is not None:
                stop = min(stop, start + max(1, run.state.next_release - run.state.n_rows))
            releases = run.state.n_releases
            run.state.learn(X[start:stop], targets[start:stop], norms[start:stop], progress=diagnostics)
            if on_release is not None and run.state.n_releases > releases:
                on_release(self._release(run))
            start = stop

    def _norms(self, X: Any, targets: FloatArray, learnt: int) -> FloatArray:
        """Squared norms of the rows, -1 for those to be learnt as the null row; the check that a block can be learnt."""
        zero = choice(("raise", "zero"), on_invalid=self.on_invalid) == "zero"
        norms: FloatArray = squared_norms(X, learnt=learnt, refuse=not zero)
        if zero:
            norms[np.isnan(targets)] = -1.0
        return norms

    # ---- labels and targets ---------------------------------------------------------------------------

    def _validate(self, X: ArrayLike, y: ArrayLike, reset: bool) -> tuple[Any, Any]:
        X, y = validate_data(
            self,
            X,
            y,
            reset=reset,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_all_finite=False,
            accept_large_sparse=True,
            y_numeric=False,
        )
        return X, y

    def _classes_of(self, y: NDArray[Any]) -> NDArray[Any] | None:
        if not _is_classifier(self):
            return None
        check_classification_targets(y)
        labels = np.unique(y)
        if len(labels) == 1:
            raise InvalidParameter(f"y must hold two classes, found one: {labels[0]!r}")
        if len(labels) > 2:
            # scikit-learn's checks read this sentence
            raise InvalidParameter(f"Only binary classification is supported. Found {len(labels)} classes in y")
        return labels

    def _two_classes(self, classes: Any, ordered: bool = False) -> NDArray[Any]:
        labels = np.asarray(classes) if ordered else np.unique(np.asarray(classes))
        if labels.shape != (2,) or labels[0] == labels[1]:
            raise InvalidParameter(f"classes must be two different labels, found {classes!r}")
        return labels

    def _declared_classes(self, classes: Any, run: Run | None) -> NDArray[Any] | None:
        if not _is_classifier(self):
            return None
        if classes is None:
            if run is not None:
                return run.classes
            declared: NDArray[Any] | None = self.__dict__.get("_declared")
            if declared is None:
                raise InvalidParameter("classes must be given in the first call to partial_fit: the public set of labels")
            return declared
        labels = self._two_classes(classes)
        if run is not None and not np.array_equal(labels, run.classes):
            raise InvalidParameter(f"classes must stay {run.classes!r} within a run, found {labels!r}")
        return labels

    def _targets(self, y: Any, classes: NDArray[Any] | None, learnt: int) -> FloatArray:
        """-1/+1, or the real target scaled to its bound; NaN for a null row under ``on_invalid="zero"``."""
        choice(("raise", "zero"), on_invalid=self.on_invalid)
        if classes is not None:
            positive, negative = y == classes[1], y == classes[0]
            unknown = np.flatnonzero(~(positive | negative))
            targets = np.where(positive, 1.0, -1.0)
            if unknown.size:
                self._unknown_label(y[unknown[0]], learnt + int(unknown[0]) + 1, classes)
                targets[unknown] = np.nan
            return targets
        try:
            targets = np.asarray(y, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidParameter(f"y must hold numbers for loss={get_loss(self.loss).name!r}: {error}") from None
        bad = np.flatnonzero(~np.isfinite(targets))
        if bad.size and self.on_invalid == "raise":
            i = int(bad[0])
            raise InvalidRow(
                f"row {learnt + i + 1}, target: found {targets[i]}, allowed are finite numbers (NaN and infinity are "
                "not); nothing of its block was learnt",
                row=learnt + i + 1,
            )
        targets = np.clip(targets, -self.y_bound, self.y_bound)
        targets[bad] = np.nan
        return np.ascontiguousarray(targets)

    def _clip_target(self, y: Any, learnt: int) -> float:
        try:
            target = float(y)
        except (TypeError, ValueError):
            raise InvalidParameter(f"y must be a number for loss={get_loss(self.loss).name!r}, found {y!r}") from None
        if not math.isfinite(target):
            return float(self._targets([target], None, learnt)[0])
        return min(max(target, -self.y_bound), self.y_bound)

    def _unknown_label(self, label: Any, row: int, classes: NDArray[Any]) -> float:
        if self.on_invalid == "raise":
            raise InvalidRow(
                f"row {row}, target: found label {label!r}, allowed are {classes.tolist()}; "
                "nothing of its block was learnt",
                row=row,
            )
        return math.nan

    # ---- what is released ------------------------------------------------------------------------------

    def _release(self, run: Run) -> Release:
        model = run.state.released_model()
        d = len(model) - bool(self.fit_intercept)
        return Release(run.state.n_rows, model[:d].copy(), float(model[d]) if self.fit_intercept else 0.0)

    def _public(self, attribute: str) -> Any:
        """A public quantity, from the live run or from the export that a pickle holds."""
        run: Run | None = self.__dict__.get("_run")
        if run is not None:
            if attribute == "model":
                return run.state.released_model()
            if attribute == "average":
                return run.state.released_average()
            return getattr(run.state if attribute in ("n_rows", "n_releases") else run, attribute)
        export: Export | None = self.__dict__.get("_export")
        if export is None:
            raise NotFittedError(f"This {type(self).__name__} instance is not fitted yet: call fit first.")
        return getattr(export, attribute)

    def _split(self, model: FloatArray) -> FloatArray:
        coef = model[:-1] if self.fit_intercept else model
        return coef[None, :] if _is_classifier(self) else coef

    @property
    def coef_(self) -> FloatArray:
        """Weights of the last released model: shape (1, n_features) for classification, (n_features,) otherwise.

        Before the first release: the starting point, which does not depend on the data.
        """
        return self._split(self._public("model"))

    @property
    def intercept_(self) -> FloatArray | float:
        """Intercept of the last released model: shape (1,) for classification, a float otherwise."""
        value = float(self._public("model")[-1]) if self.fit_intercept else 0.0
        return np.array([value]) if _is_classifier(self) else value

    @property
    def average_coef_(self) -> FloatArray:
        """Mean of the weights of all released models, in the shape of ``coef_``."""
        return self._split(self._public("average"))

    @property
    def average_intercept_(self) -> FloatArray | float:
        """Mean of the intercepts of all released models, in the shape of ``intercept_``."""
        value = float(self._public("average")[-1]) if self.fit_intercept else 0.0
        return np.array([value]) if _is_classifier(self) else value

    @property
    def n_rows_(self) -> int:
        """Rows learnt in the current or last run."""
        return int(self._public("n_rows"))

    @property
    def n_releases_(self) -> int:
        """Models released in the current or last run."""
        return int(self._public("n_releases"))

    @property
    def guarantee_(self) -> Guarantee:
        """What the whole run guarantees, whether or not all of it has happened yet."""
        guarantee: Guarantee = self._public("guarantee")
        return guarantee

    @property
    def ledger_(self) -> Ledger:
        """The ledger that the runs of this learner are written into."""
        if "_run" not in self.__dict__:
            raise NotFittedError(f"This {type(self).__name__} instance has no run and so no ledger.")
        return self._ledger()

    def __sklearn_is_fitted__(self) -> bool:
        return "_run" in self.__dict__ or "_export" in self.__dict__

    # ---- prediction: from released models only --------------------------------------------------------

    def _scores(self, X: ArrayLike) -> FloatArray:
        model: FloatArray = self._public("model")
        X = validate_data(
            self, X, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32], accept_large_sparse=True
        )
        d = X.shape[1]
        # rows beyond the bound are scaled to it, as they were when learnt
        norms = np.sqrt(squared_norms(X))
        factor = np.minimum(1.0, self.x_bound / np.maximum(norms, np.finfo(float).tiny))
        scores: FloatArray = np.asarray(X @ model[:d], dtype=np.float64) * factor
        return scores + model[d] if self.fit_intercept else scores

    @available_if(_is_classifier)
    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Signed score of every row, shape (n,): positive for ``classes_[1]``."""
        return self._scores(X)

    @available_if(_has_probabilities)
    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Probability of every class for every row, shape (n, 2); logistic loss only."""
        scores = self._scores(X)
        positive = np.where(scores >= 0, 1.0, np.exp(-np.abs(scores))) / (1.0 + np.exp(-np.abs(scores)))
        return np.column_stack([1.0 - positive, positive])

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Class label, or predicted target, of every row, shape (n,)."""
        scores = self._scores(X)
        if not _is_classifier(self):
            return scores
        labels: NDArray[Any] = self._public("classes")[(scores > 0).astype(int)]
        return labels

    def predict_one(self, x: ArrayLike) -> Any:
        """Class label, or predicted target, of one row of shape (n_features,)."""
        model: FloatArray = self._public("model")
        row = np.asarray(x, dtype=np.float64)
        d = len(model) - bool(self.fit_intercept)
        if row.shape != (d,):
            raise InvalidParameter(f"x must have shape ({d},), found {row.shape}")
        norm = math.sqrt(float(row @ row))
        score = float(row @ model[:d])
        if not math.isfinite(norm):
            raise InvalidParameter("x must be finite (NaN and infinity are not)")
        if norm > self.x_bound:
            score *= self.x_bound / norm
        if self.fit_intercept:
            score += float(model[d])
        return self._public("classes")[int(score > 0)] if _is_classifier(self) else score

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Accuracy for classification, R squared for regression. Computed from raw rows: not private."""
        prediction = self.predict(X)
        return float(accuracy_score(y, prediction) if _is_classifier(self) else r2_score(y, prediction))

    # ---- pickling: the public export -------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        run = state.pop("_run", None)
        state.pop("_own_ledger", None)
        if run is not None:
            state["_export"] = Export(
                run.state.released_model(),
                run.state.released_average(),
                run.state.n_rows,
                run.state.n_releases,
                run.guarantee,
                run.classes,
            )
            state["ledger"] = None  # a fitted learner's pickle is its model: it can no longer spend from the ledger
        return state
