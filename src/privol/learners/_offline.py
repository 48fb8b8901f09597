"""The base of the offline learners: all rows in one fit, one release, one charge."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import NotFittedError

from .._core._noise import Source, wipe
from .._live_users import counting_for
from .._validate import choice, number
from ..calibration import CALIBRATIONS, AverageCalibration, Budget, budget_of_rows, less_than_all
from ..errors import InvalidParameter, PrivacyWarning, SolverFailure
from ..geometry import L2Ball
from ..guarantees import (
    ADJACENCIES,
    DELTA_TOO_LARGE,
    Claim,
    Guarantee,
    delta_of_noise,
    group_slack,
    square_up,
    times_up,
    weaknesses,
)
from ..ledger import Account, Ledger, LedgerSeat
from ..losses import get_loss
from ..noise import STREAM_RELEASES, decide_lattice_point, decide_mixture_point, granularity, make_source
from ._ledgered import LedgeredModel
from ._model import Export
from ._run_protocols import RowStream, place_of, promised_by
from ._scaled import warn_of_scaled
from ._targets import Targets

__all__ = ["Found", "OfflineLearner", "OfflinePlan", "Sealer", "noisy", "within"]

FloatArray = NDArray[np.float64]

#: Further deltas at which epsilon is stated, if the guarantee holds without a delta.
STATED_DELTA = 1e-6


class OfflinePlan(Protocol):
    """The calibration of one release. All of it is public."""

    @property
    def law(self) -> str: ...
    @property
    def epsilon(self) -> float: ...
    @property
    def claim(self) -> Claim | None: ...
    @property
    def l2(self) -> float: ...
    @property
    def ball(self) -> float | None: ...
    @property
    def derived(self) -> tuple[str, ...]: ...


class Sealer(Protocol):
    """Keeps the only release on the disk from before it is paid for; :class:`privol.state.SealedRelease` is one."""

    def begin(self, learner: Any, classes: NDArray[Any] | None) -> None:
        """Refuse what could not be written, before anything is spent."""

    def seal(self, learner: Any, export: Export, account: Account) -> None:
        """Write the release where it is hidden until the account is closed."""

    def holds(self, account: Account) -> bool:
        """Whether a whole release of this account is sealed, which will be shown even if :meth:`seal` failed."""

    def settled(self) -> None:
        """Show what was sealed: the account is closed for good."""


def derived_of(plan: OfflinePlan) -> dict[str, float]:
    """Parameters that were not given, with their values from public numbers. Absent for a ball that does not exist."""
    values = {"l2": plan.l2, "radius": plan.ball}
    return {name: value for name in plan.derived if (value := values[name]) is not None}


@dataclass(frozen=True)
class Found:
    """The result of a fit: the model to release, and private counts of rows."""

    model: FloatArray  # including its noise
    clipped: int
    null: int


#: Finds a model and perturbs it: ``find(learner, plan, outputs, source)``; the learner's parameters do not change.
Finding: TypeAlias = Callable[[Any, Any, int, Source | None], Found]


def noisy(source: Source | None, x: FloatArray, law: str, scale: float) -> FloatArray:
    """Return a vector with the noise of a release on its grid; a source serves only one such call."""
    out = np.array(x, dtype=np.float64, ndmin=2)
    if law == "none" or scale == 0.0:
        return np.asarray(out[0] + 0.0)
    assert source is not None
    bound = float(np.max(np.abs(out), initial=0.0))
    try:
        if law == "gaussian":
            return np.asarray(
                source.add(out[0], scale, stream=STREAM_RELEASES, row=1, decide=decide_lattice_point, bound=bound)
            )
        step = granularity(scale * math.sqrt(out.shape[1] + 1))
        words: dict[str, Any] = {"kind": law, "bound": bound, "stream": STREAM_RELEASES, "row": 1}
        made = np.empty_like(out)
        source.add_mixture(out, scale, step, decide=decide_mixture_point, out=made, **words)
        return np.asarray(made[0])
    finally:
        wipe(out)


def within(released: FloatArray, ball: float | None) -> FloatArray:
    """Project a release onto a public ball: as a function of the release alone, this costs no privacy."""
    return released if ball is None else np.asarray(L2Ball(ball).project(released))


class OfflineLearner(LedgeredModel):
    """Base of the learners that see all rows at once and release one model."""

    epsilon: float | None
    delta: float
    adjacency: str
    x_bound: float
    calibration: str
    random_state: Any
    rows_per_user: int | None

    #: What the noise is added to, in the words of the guarantee.
    _perturbed: str = "minimiser"
    #: Whether the guarantee is Gaussian differential privacy if there is a delta.
    _curve: bool = True

    # ---- to be given by the learner -------------------------------------------------------------

    @abstractmethod
    def calibrate(self, n_features: int, n_rows: int, n_classes: int = 2) -> Any:
        """Return the calibration of a fit before anything is spent."""

    @abstractmethod
    def _find(self, X: Any, codes: FloatArray, plan: Any, outputs: int, source: Source | None) -> Found:
        """Compute the model and perturb it."""

    def _conditions(self) -> tuple[str, ...]:
        """Further statements of the guarantee about this learner."""
        return ()

    # ---- learning ----------------------------------------------------------------------------------

    def fit(self, X: ArrayLike, y: ArrayLike, users: ArrayLike | None = None) -> Self:
        """Learn all rows and release one model. Every call pays again.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
            float32 and float64 are read in place, the values of CSR too: another thread may not change them meanwhile.
            The structure of a sparse matrix is copied and then checked. In lists, objects and texts each value is read
            by itself; masked values are missing. The number of features is public: the one stated by
            ``declare_features`` or, in a list of rows, that of more than half of them, and the guarantee says so.
        y : array-like of shape (n,)
            Labels or real targets. Unless ``declare_classes`` has stated the labels, those found count as public, and
            the guarantee says so.
        users : array-like of shape (n,), optional
            Whose row each row is, texts or numbers, if the budget is for users (``rows_per_user``): a row beyond it
            is a null row with ``on_invalid="zero"``, otherwise nothing is learnt. Without it the guarantee says that
            nobody checks.

        Returns
        -------
        self

        Raises
        ------
        InvalidParameter, InvalidRow, BudgetExceeded
            Before anything is spent or released.
        SolverFailure
            If the minimiser could not be certified. Nothing was released. The budget counts as spent, because the
            failure is visible and may depend on the rows. The same holds for any other end of the fit once the budget
            is reserved: Ctrl-C, or a loss of your own that raises or returns a number that is not finite, which ends it
            with an ``InvalidParameter`` that discloses nothing about the row.
        """
        with self._as_before_if_it_fails():
            rows, labels, found = self._validate(X, y, reset=True)
            classes, conditions = self._classes_of_fit(labels)
            targets = self._targets(classes)
            codes = targets.encode(labels, 0)
            counting = counting_for(self, users, None, refuse=targets.refuse)
            if counting is not None:
                codes = np.where(counting.admit(users, rows.shape[0], 0), np.nan, codes)
            find = self._finding(rows, codes, targets)
            self._fit_found(find, rows.shape[0], rows.shape[1], targets, counting, (*found, *conditions))
        self._look_at_scaled(X=rows)
        return self

    def fit_stream(self, stream: RowStream, *, seal: Sealer | None = None) -> Self:
        """Read a whole stream into memory and fit it.

        Parameters
        ----------
        stream : RowStream
            Such as :func:`privol.open_stream` returns.
        seal : privol.state.SealedRelease, optional
            Directory that keeps the released model: on the disk before the ledger closes the account of the fit, and
            shown after that. Where it cannot be written nothing is released, and the budget counts as spent.

        Raises
        ------
        InvalidParameter
            If the stream has no rows or targets, or the loss needs classes and the stream has none.
        InvalidRow, BudgetExceeded, SolverFailure
            As :meth:`fit`.
        """
        rows, codes, targets = self._read(stream)
        with self._as_before_if_it_fails():
            self.n_features_in_ = rows.shape[1]
            find = self._finding(rows, codes, targets)
            self._fit_found(find, rows.shape[0], rows.shape[1], targets, stream, (), seal)
        self._look_at_scaled(stream)
        return self

    @contextmanager
    def _as_before_if_it_fails(self) -> Iterator[None]:
        """Keep the previous model and its features if a fit fails."""
        names = ("n_features_in_", "feature_names_in_")
        before = {name: self.__dict__[name] for name in names if name in self.__dict__}
        try:
            yield
        except BaseException:
            for name in names:
                self.__dict__.pop(name, None)
            self.__dict__.update(before)
            raise

    def _finding(self, X: Any, codes: FloatArray, targets: Targets) -> Finding:
        """Return the function that finds the model of rows in this process."""
        self._check_rows(X, targets, 0)
        return lambda fixed, plan, outputs, source: fixed._find(X, codes, plan, outputs, source)

    def _fit_found(
        self,
        find: Finding,
        n: int,
        width: int,
        targets: Targets,
        stream: Any,
        conditions: tuple[str, ...],
        seal: Sealer | None = None,
    ) -> Self:
        """Pay for one release of this many rows and features, and make it."""
        outputs = 1
        if targets.classes is not None and len(targets.classes) > 2:
            outputs = len(targets.classes)
        # the fit uses exactly what was calibrated, even if another thread or a warnings hook sets parameters meanwhile
        fixed = object.__new__(type(self))
        fixed.__dict__.update(self.__dict__)
        plan = fixed.calibrate(width, n, 2 if targets.classes is None else len(targets.classes))
        source = None if plan.law == "none" else make_source(fixed.random_state)
        # for other learners, k rows cost k times what one row does
        cost = plan if isinstance(plan, AverageCalibration) else None
        guarantee = promised_by(stream, fixed.guarantee_of(plan, n, source), cost)
        guarantee = replace(guarantee, conditions=(*guarantee.conditions, *conditions))
        for words in weaknesses(guarantee, rows=n):
            warnings.warn(words, PrivacyWarning, stacklevel=3)
        self._warn_of_clones(guarantee)
        if seal is not None:
            seal.begin(fixed, targets.classes)
        ledger = self._ledger()
        account = ledger.open(learner=type(self).__name__, guarantee=guarantee, **place_of(stream, ledger, guarantee))
        self._account = account
        released, failure = [0], None
        # any ending may depend on the rows: an error, a time limit; and a traceback may hold a model
        # an error of the disk, or Ctrl-C, may come when the release is sealed and can be shown
        account.attach(
            lambda: (n, released[0] or int(seal is not None and seal.holds(account)), square_up(guarantee.mu))
        )
        try:
            found = find(fixed, plan, outputs, source)
            export = Export(found.model, found.model, n, 1, guarantee, targets.classes)
            if seal is not None:
                seal.seal(fixed, export, account)
            released[0] = 1
            account.ask()
        except SolverFailure as error:
            failure = error.asked
        finally:
            account.close()
        if failure is not None:  # raised here, with no link to the solver's own error, which tells how far it came
            raise SolverFailure(
                f"the gradient of a minimiser could not be certified to be within {failure:.3g}: nothing was released, "
                "but the budget counts as spent, because the failure is visible. More steps (max_iter) or a larger l2 "
                "may help",
                iterations=0,
                reached=math.inf,
                asked=failure,
            )
        if seal is not None:
            seal.settled()
        shown: dict[str, Any] = {} if targets.classes is None else {"classes_": targets.classes}
        counts = {"clipped_rows": found.clipped, "null_rows": found.null}
        self.__dict__.update(shown, _counts=counts, _export=export)  # all of it or nothing
        return self

    def _look_at_scaled(self, stream: RowStream | None = None, X: Any = None) -> None:
        export: Export = self.__dict__["_export"]
        warn_of_scaled(self.n_scaled_rows_, export.n_rows, float(self.x_bound), stream=stream, X=X, stacklevel=4)

    # ---- the guarantee -----------------------------------------------------------------------------

    def _promise(self, n_features: int, n_rows: int, n_classes: int) -> Guarantee:
        return self.guarantee_of(self.calibrate(n_features, n_rows, n_classes), n_rows)

    def _adjacency(self) -> str:
        return choice(ADJACENCIES, adjacency=self.adjacency)

    def _whole_budget(self, calibrations: tuple[str, ...] = CALIBRATIONS) -> Budget:
        """Return the budget, for one row or for all rows of a user."""
        return Budget(
            epsilon=self._stated_epsilon(),
            delta=delta_of_noise(number(delta=self.delta, at_least=0, below=1), self.rows_per_user),
            calibration=choice(calibrations, calibration=self.calibration),
        )

    def _budget(self, calibrations: tuple[str, ...] = CALIBRATIONS) -> Budget:
        """Return the budget of one row; a user's budget is divided by group privacy."""
        found = self._whole_budget(calibrations)
        if self.rows_per_user is None:
            return found
        if found.published:
            raise InvalidParameter(
                f"rows_per_user must be None with calibration='published', found {self.rows_per_user!r}: its noise is "
                "for one row"
            )
        epsilon, delta = budget_of_rows(found.epsilon, found.delta, self.rows_per_user, curve=self._curve)
        return replace(found, epsilon=epsilon, delta=delta)

    def _for_users(self, row: Guarantee, plan: OfflinePlan) -> Guarantee:
        """Turn a guarantee for a row into one for all rows of a user, if the budget is for users."""
        rows = self.rows_per_user
        if rows is None:
            return row
        if isinstance(plan, AverageCalibration) and plan.rows_per_user > 1:  # it already covers all rows of a user
            return replace(row, unit="user", rows_per_user=rows, user_factor=less_than_all(plan.factor, rows))
        slack = group_slack(row.parameter, row.slack, rows) if row.slack > 0.0 else 0.0
        return replace(
            row,
            unit="user",
            rows_per_user=rows,
            parameter=times_up(row.parameter, rows),
            slack=slack,
            delta=max(row.delta, slack),
        )

    def guarantee_of(self, plan: OfflinePlan, n_rows: int, source: Source | None = None) -> Guarantee:
        """Return the guarantee of a fit with the given calibration and noise bits.

        Parameters
        ----------
        plan : OfflinePlan
            As :meth:`calibrate` returns.
        n_rows : int
        source : Source, optional
            Of the noise. Default: without noise, or not yet known; then it is not marked private.
        """
        delta = self.delta if plan.claim is None else plan.claim.delta
        stated = delta if delta > 0.0 else STATED_DELTA
        conditions = [
            "the bounds, the labels and all other parameters, but for the number of rows, which is public, were chosen "
            "without looking at the rows",
            "whether a row was refused, by the learner or by the reader of a file, is not hidden",
            *self._conditions(),
        ]
        chosen = derived_of(plan)
        if chosen:
            figures = " and ".join(f"{name} = {value:.6g}" for name, value in chosen.items())
            conditions.append(
                f"{figures}: from the numbers of rows, features and classes, the budget and the bounds alone, which "
                "are public"
            )
        vouched = get_loss(self.loss).vouched
        if vouched is not None:
            conditions.append(vouched)
        slack = float(getattr(plan, "delta", 0.0)) if plan.law == "gaussian" and not hasattr(plan, "mu") else 0.0
        if plan.law == "none":
            kind, parameter = "none", math.inf
        elif plan.law == "l2_laplace":
            kind, parameter = "pure", plan.epsilon
        elif hasattr(plan, "mu"):
            kind, parameter = "gdp", float(plan.mu)
            if stated * n_rows >= 1.0:
                conditions.append(DELTA_TOO_LARGE)
        elif slack > 0.0:  # only epsilon at this one delta is proved, not a curve
            kind, parameter, stated = "approximate", plan.epsilon, max(stated, slack)
            if stated * n_rows >= 1.0:
                conditions.append(DELTA_TOO_LARGE)
        else:
            raise InvalidParameter(f"{type(self).__name__} has no guarantee for noise of the law {plan.law!r}")
        noise = "L2-Laplace vector" if kind == "pure" else "Gaussian variable"
        row = Guarantee(
            kind=kind,
            parameter=parameter,
            adjacency=self._adjacency(),
            horizon=n_rows,
            releases=1,
            delta=stated,
            claim=plan.claim,
            conditions=tuple(conditions),
            arithmetic="double precision, no noise"
            if kind == "none"
            else f"the real-valued sum of the double-precision {self._perturbed} and the {noise}, correctly rounded to "
            "a power-of-two grid between 2^-11 and 2^-10 of the noise's standard deviation; what the minimiser is off "
            "by is charged",
            bit_source="none" if source is None or kind == "none" else source.description,
            private=source is not None and source.private,
            slack=slack,
        )
        return self._for_users(row, plan)

    # ---- what is released ----------------------------------------------------------------------------

    def _public(self, attribute: str) -> Any:
        export: Export | None = self.__dict__.get("_export")
        if export is None:
            raise NotFittedError(f"This {type(self).__name__} instance is not fitted yet: call fit first.")
        value = getattr(export, attribute)
        return value.copy() if attribute in ("model", "average") else value  # callers may write into their own copy

    @property
    def ledger_(self) -> Ledger:
        """The ledger that the fits of this learner are written into, those that failed among them."""
        account: Account | None = self.__dict__.get("_account")
        if account is None:
            raise NotFittedError(f"This {type(self).__name__} instance has no fit and so no ledger.")
        return account.ledger

    def __sklearn_is_fitted__(self) -> bool:
        return "_export" in self.__dict__

    def _diagnostics(self) -> dict[str, int]:
        """Counts of null rows and of rows scaled to the bound: NOT private."""
        counts: dict[str, int] | None = self.__dict__.get("_counts")
        if counts is None:
            raise NotFittedError("there are no counts of rows: they stay in the process that fitted the model")
        return counts

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        for name in ("_own_ledger", "_account", "_counts"):
            state.pop(name, None)
        if "_export" in state and self.ledger is not None:
            state["ledger"] = LedgerSeat(self.ledger)
        return state
