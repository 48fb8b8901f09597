"""The base of all learners: the ledger that pays, checks of rows, labels as the kernels read them."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils.validation import check_consistent_length, column_or_1d, validate_data

from .._core._rows import squared_norms
from .._sparse import sound_rows
from .._threads import each, threads
from .._validate import number
from .._values import column_of, frame_of_numbers, listed, numbers_of, refusal
from ..calibration import epsilon_of
from ..errors import InvalidParameter, StateError
from ..guarantees import Guarantee
from ..ledger import Ledger, LedgerSeat, LostLedger, note_clone, warn_of_clones
from ..losses import get_loss
from ._model import ReleasedModel, is_classifier
from ._named import FirstRow
from ._run_protocols import check_null_rows
from ._targets import MOST_CLASSES, Targets, declared_labels, labels_in

FloatArray = NDArray[np.float64]

__all__ = ["FOUND_FEATURES", "FOUND_LABELS", "LedgeredModel"]

FOUND_FEATURES = (
    "the number of features, which was found in rows that came as a list, is public (declare_features says it before)"
)
FOUND_LABELS = "the set of labels, which fit found in the rows, is public (declare_classes says it before)"


class LedgeredModel(ReleasedModel):
    """Base of all learners: the ledger they pay from, and how they read rows and targets."""

    y_bound: float
    ledger: Ledger | LostLedger | None
    epsilon: float | None
    delta: float
    #: The budget stated in another way: a parameter of learners with Gaussian noise.
    mu: float | None = None
    calibration: str = "tight"

    def _stated_epsilon(self) -> float:
        """Epsilon of the budget, however the budget is stated."""
        return number(epsilon=epsilon_of(self), above=0, infinite=True)

    def __sklearn_clone__(self) -> Self:
        copy: Self = super().__sklearn_clone__()
        note_clone(self, copy)
        return copy

    def _warn_of_clones(self, guarantee: Guarantee) -> None:
        """Warn if clones share no ledger; called before the ledger reserves the cost of a run."""
        if self.ledger is None and guarantee.private and guarantee.kind != "none":
            warn_of_clones(self)

    def _width(self, n_features: int | None) -> int:
        """Return the number of features, by default that of the last run."""
        known: int | None = getattr(self, "n_features_in_", None) if n_features is None else n_features
        if known is None:
            raise InvalidParameter("n_features must be given: the number of features is not known yet")
        return known

    def _ledger(self) -> Ledger:
        if self.ledger is not None:
            if isinstance(self.ledger, LostLedger):
                raise StateError(
                    "this learner was pickled and its ledger stayed behind: set ledger= to learn (None: one of its own)"
                )
            if not isinstance(self.ledger, Ledger):
                raise InvalidParameter(f"ledger must be a privol.ledger.Ledger or None, found {self.ledger!r}")
            return self.ledger
        own: Ledger | None = self.__dict__.get("_own_ledger")
        if own is None or own.closed:
            own = self._own_ledger = Ledger(adjacency=self._adjacency())
        return own

    @abstractmethod
    def _adjacency(self) -> str: ...

    @abstractmethod
    def _diagnostics(self) -> dict[str, int]:
        """Counts of the run's null rows and of rows scaled to the bound: NOT private."""

    @property
    def n_scaled_rows_(self) -> int:
        """Rows of the run, or of the fit, that were longer than ``x_bound`` and were scaled to it: **not private**.

        Counted on the raw rows, covered by no guarantee, and in no export, pickle or notebook: it stays in the process
        that learnt them. Where it is more than half of them, a :class:`privol.errors.ScaledRowsWarning` says so.
        """
        return self._diagnostics()["clipped_rows"]

    @property
    def n_null_rows_(self) -> int:
        """Rows of the run, or of the fit, that were learnt as null rows (``on_invalid="zero"``): **not private**.

        Rows that are not finite or not of the declared shape, and surplus rows of users. Counted as ``n_scaled_rows_``.
        """
        return self._diagnostics()["null_rows"]

    @abstractmethod
    def _promise(self, n_features: int, n_rows: int, n_classes: int) -> Guarantee:
        """The guarantee of a fit of this many rows, before anything is spent."""

    def declare_classes(self, classes: ArrayLike) -> Self:
        """Declare the public labels before the first row: it can come by ``learn_one``, and ``fit`` looks for none."""
        self._declared = declared_labels(classes, most=self._most_classes())
        return self

    @staticmethod
    def _check_rows(X: Any, targets: Targets, learnt: int) -> None:
        """Refuse a row that is not finite before anything of its block is learnt; null rows are left to the kernel."""
        if not targets.refuse:
            return
        if not isinstance(X, np.ndarray):
            squared_norms(X, learnt=learnt, refuse=True)
            return
        step = max(-(-len(X) // threads()), 1)
        each(
            lambda at: squared_norms(X[at : at + step], learnt=learnt + at, refuse=True),
            range(0, len(X), step),
            cells=X.size,
        )

    def _numbers(self, X: Any, learnt: int, width: int | None = None) -> Any:
        """Rows as numbers, each value read by itself. A value that is not a number is refused, or NaN in a null row."""
        refuse = self._refuse()
        rows, unread = numbers_of(sound_rows(X, null=not refuse), width)
        if unread is not None and refuse:
            raise refusal(unread, learnt)
        return rows

    def _validate(self, X: ArrayLike, y: ArrayLike, reset: bool, learnt: int = 0) -> tuple[Any, Any, tuple[str, ...]]:
        """Return rows and targets after scikit-learn's checks of shapes and types; values are checked later, by row.

        The third result is what the guarantee says about a number of features that was not declared.
        """
        if y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None.")
        first = X if isinstance(X, FirstRow) else None
        given = frame_of_numbers(X) if first is None else [first.values]
        declared: int | None = self.__dict__.get("_declared_features")
        # whether this is stated must not depend on the rows: some lists happen to have rows of one length
        found = (FOUND_FEATURES,) if reset and declared is None and listed(given) is not None else ()
        width = self.n_features_in_ if not reset else declared if first is None else len(first.names)
        rows = validate_data(
            self,
            self._numbers(given, learnt, width),
            reset=reset,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_all_finite=False,
            accept_large_sparse=True,
        )
        if reset and declared is not None and rows.shape[1] != declared:
            raise InvalidParameter(f"X must have {declared} features, as were declared, found {rows.shape[1]}")
        if reset:
            self._take_names(first)
        targets = column_or_1d(column_of(y), warn=True)
        check_consistent_length(rows, targets)
        return rows, targets, found if first is None else first.conditions

    def _classes_of_fit(self, labels: NDArray[Any]) -> tuple[NDArray[Any] | None, tuple[str, ...]]:
        """The labels, declared or found, and what the guarantee says if they were found."""
        if not is_classifier(self):
            return None, ()
        declared: NDArray[Any] | None = self.__dict__.get("_declared")
        if declared is not None:
            return declared, ()
        return labels_in(labels, self._refuse(), self._most_classes()), (FOUND_LABELS,)

    def _targets(self, classes: NDArray[Any] | None) -> Targets:
        indexed = classes is not None and (len(classes) > 2 or get_loss(self.loss).joint)
        return Targets(classes, number(y_bound=self.y_bound, above=0), self._refuse(), indexed)

    def _read(self, stream: Any) -> tuple[Any, FloatArray, Targets]:
        """All rows of a stream, checked, and their targets as codes."""
        check_null_rows(stream, self.on_invalid)
        targets = self._targets_of(stream.classes)
        blocks, codes, seen = [], [], 0
        for block in stream:
            if block.y is None:
                raise InvalidParameter("the stream has no targets")
            codes.append((targets.encode if targets.classes is None else targets.encode_indices)(block.y, seen))
            rows = self._numbers(block.X, seen)
            self._check_rows(rows, targets, seen)
            blocks.append(rows.copy())  # streams may reuse their memory
            seen += block.X.shape[0]
        if not seen:
            raise InvalidParameter("the stream has no rows")
        joined = sparse.vstack(blocks, format="csr") if sparse.issparse(blocks[0]) else np.vstack(blocks)
        return joined, np.concatenate(codes), targets

    def _targets_of(self, classes: tuple[Any, ...] | None) -> Targets:
        """The targets of a stream with these classes."""
        if not is_classifier(self):
            return self._targets(None)
        if classes is None:
            raise InvalidParameter(
                f"loss={get_loss(self.loss).name!r} needs a stream with classes: open_stream(..., classes=)"
            )
        return self._targets(declared_labels(classes, most=self._most_classes(), ordered=True))

    def _most_classes(self) -> int:
        return MOST_CLASSES if self._many_classes else 2

    # ---- pickling, without the ledger --------------------------------------------------------------------

    def __setstate__(self, state: dict[str, Any]) -> None:
        seat = state.get("ledger")
        if isinstance(seat, LedgerSeat):
            state = {**state, "ledger": seat.ledger}
        super().__setstate__(state)
