"""The view of other rooms on a learner and its runs: public names for attributes behind underscores.

An estimator shows its user what was released. The rooms above need a little more: the progress of a run, the checked
parameters, rows as the learner reads them. All of it is public except :func:`raw_counts`. What a kept run needs,
including secrets, is in :mod:`privol.learners.keeping`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from .._core._noise import Source
from .._core._rows import squared_norms
from ..calibration import mechanism_record, offline_record
from ..guarantees import Guarantee
from ..ledger import Account, Ledger, forget_clone
from ..losses import get_loss
from ._base import OnlineLearner
from ._ledgered import LedgeredModel
from ._model import Export
from ._offline import OfflineLearner, derived_of
from ._run_protocols import Keeper, Observer, RowStream, Run, promised_by
from ._targets import Targets

__all__ = [
    "Export",
    "Keeper",
    "Observer",
    "RowStream",
    "Run",
    "RunView",
    "Targets",
    "TrainingRows",
    "account_of",
    "adjacency_of",
    "class_weights",
    "declared_classes",
    "declared_names",
    "derived_of",
    "end_run",
    "export_of",
    "fresh_copy",
    "horizon_of",
    "horizon_of_rows",
    "ledger_of",
    "mechanism_of",
    "most_rows",
    "perturbed_model",
    "promise_of",
    "raw_counts",
    "refuses_rows",
    "release_of_stream",
    "released_copy",
    "run_of",
    "training_rows",
]

FloatArray = NDArray[np.float64]
Learner = TypeVar("Learner", bound=LedgeredModel)


@dataclass(frozen=True)
class RunView:
    """The public side of a learner's current or last run, as it is now.

    Attributes
    ----------
    account : Account
        What the ledger knows of it.
    n_rows : int
        Rows learnt in this process, those among them that are not kept yet.
    kept : bool
        Whether it outlives the process.
    """

    account: Account
    n_rows: int
    kept: bool


@dataclass(frozen=True, repr=False)
class TrainingRows:
    """Rows and targets as a learner reads them: **secret**, as the rows are.

    Attributes
    ----------
    X : ndarray or CSR matrix of shape (n, n_features)
    labels : ndarray of shape (n,)
        As they were given.
    codes : ndarray of float64, shape (n,)
        As the kernels read them.
    targets : Targets
        How they were read, with the classes that were declared, or found.
    conditions : tuple of str
        What a guarantee says of that.
    """

    X: Any
    labels: NDArray[Any]
    codes: FloatArray
    targets: Targets
    conditions: tuple[str, ...]


# ---- of a run --------------------------------------------------------------------------------------------------


def _run(learner: Any) -> Run | None:
    run: Run | None = vars(learner).get("_run")
    return run


def run_of(learner: OnlineLearner) -> RunView | None:
    """Return the view of the current or last run; None if there is none."""
    run = _run(learner)
    if run is None:
        return None
    return RunView(run.account, run.state.n_rows, run.keeper is not None)


def account_of(learner: LedgeredModel) -> Account | None:
    """Return the account of the current or last run, or of the last fit; None if this process has none."""
    run = _run(learner)
    account: Account | None = vars(learner).get("_account") if run is None else run.account
    return account


def end_run(learner: OnlineLearner) -> None:
    """End the current run, if any, without another release: what it has not spent is given back."""
    run = _run(learner)
    if run is not None and not run.closed:
        learner._settle(run)


def export_of(learner: LedgeredModel) -> Export:
    """Return all that a learner has released, detached from it.

    Raises
    ------
    NotFittedError
        If it has released nothing.
    """
    return Export(**{field.name: learner._public(field.name) for field in fields(Export)})


def raw_counts(learner: LedgeredModel) -> dict[str, int]:
    """Return the counts of a run's null rows and of rows scaled to the bound: **not private**."""
    return learner._diagnostics()


# ---- the checked parameters ------------------------------------------------------------------------------------


def adjacency_of(learner: LedgeredModel) -> str:
    """Return the adjacency."""
    return learner._adjacency()


def ledger_of(learner: LedgeredModel) -> Ledger:
    """Return the ledger that the next run pays from; by default one of the learner's own."""
    return learner._ledger()


def refuses_rows(learner: LedgeredModel) -> bool:
    """Whether a row that is not finite is an error; otherwise it is a null row."""
    return learner._refuse()


def horizon_of(learner: OnlineLearner, stream: RowStream) -> int:
    """Return the horizon of a run on a stream."""
    return learner._stream_horizon(stream)


def horizon_of_rows(learner: OnlineLearner) -> int:
    """Return the horizon of a run whose rows come one by one.

    Raises
    ------
    InvalidParameter
        If it was not given, and the learner needs it.
    """
    return learner._needed_horizon()


def most_rows(learner: OnlineLearner, horizon: int) -> int:
    """Return how many rows a run with this horizon may learn; renewal allows more."""
    return learner._most_rows(horizon)


def release_of_stream(learner: OnlineLearner) -> Any:
    """Return the release schedule of a run that sees all of its rows in one call."""
    return learner._default_release(whole=True)


def class_weights(learner: Any, classes: NDArray[Any]) -> list[float] | None:
    """Return the factors of the loss of a row, by class; None: all are 1."""
    weights: list[float] | None = learner._weights(classes)
    return weights


def declared_classes(learner: Any) -> NDArray[Any] | None:
    """Return the labels that were declared by ``declare_classes``; None: none were."""
    found: NDArray[Any] | None = vars(learner).get("_declared")
    return found


def declared_names(learner: Any) -> tuple[str, ...] | None:
    """Return the names of features that were declared by ``declare_features``; None: none were."""
    found: tuple[str, ...] | None = vars(learner).get("_declared_names")
    return found


def promise_of(learner: LedgeredModel, n_features: int, n_rows: int, n_classes: int) -> Guarantee:
    """Return what a fit of this many rows would guarantee, before anything is spent."""
    return learner._promise(n_features, n_rows, n_classes)


def mechanism_of(learner: LedgeredModel, n_features: int, n_rows: int, n_classes: int) -> dict[str, Any] | None:
    """Return the record of the mechanism of a fit of this many rows; None where there is none.

    It follows from public numbers alone, before or after the fit: JSON values, which ``privol verify`` reads.
    """
    if isinstance(learner, OfflineLearner):
        offline = learner.calibrate(n_features, n_rows, n_classes)
        return offline_record(
            offline,
            loss=getattr(offline, "loss", None) or get_loss(learner.loss),
            rows=n_rows,
            dim=n_features + bool(learner.fit_intercept),
            intercept=bool(learner.fit_intercept),
            x_bound=float(learner.x_bound),
            y_bound=float(learner.y_bound),
            adjacency=learner.adjacency,
        )
    learnt = learner._uses() * n_rows
    horizon = learnt if learner.horizon is None else learner._needed_horizon()
    plan = learner.calibrate(n_features, horizon, learner._default_release(whole=True), n_classes=n_classes)
    early = plan.releases.only_last and learnt < plan.releases.last_row
    return mechanism_record(plan, learnt if early else None)


def promise_beside(learner: Learner, stream: Any, n_rows: int, n_classes: int) -> Guarantee:
    """Return what a fit of a stream would guarantee, including what its earlier rows taught, if it is about users."""
    found = learner._promise(stream.n_features, n_rows, n_classes)
    plan = learner.calibrate(stream.n_features, n_rows, n_classes=n_classes) if hasattr(learner, "renewal") else None
    return promised_by(stream, found, plan)


# ---- copies ------------------------------------------------------------------------------------------------------


def fresh_copy(learner: Learner) -> Learner:
    """Return scikit-learn's clone of a learner, with the labels and the number of features that were declared.

    Its maker is responsible for its spending: there is no warning.
    """
    copy: Learner = clone(learner)
    forget_clone(copy)
    for name in ("_declared", "_declared_features"):
        if name in vars(learner):
            setattr(copy, name, vars(learner)[name])
    return copy


def released_copy(learner: Learner, guarantee: Guarantee) -> Learner:
    """Return a copy that shows what a learner has released, under another guarantee and without a ledger."""
    state: Any = learner.__getstate__()
    copy: Learner = clone(learner)
    copy.__setstate__({**state, "ledger": None, "_export": replace(state["_export"], guarantee=guarantee)})
    return copy


# ---- rows --------------------------------------------------------------------------------------------------------


def training_rows(learner: LedgeredModel, X: ArrayLike, y: ArrayLike) -> TrainingRows:
    """Check rows and targets as ``fit`` does, before anything is spent.

    Raises
    ------
    InvalidParameter, InvalidRow
        As ``fit``.
    """
    rows, labels, found = learner._validate(X, y, reset=True)
    if learner._refuse():
        squared_norms(rows, learnt=0, refuse=True)
    classes, conditions = learner._classes_of_fit(labels)
    targets = learner._targets(classes)
    return TrainingRows(rows, labels, targets.encode(labels, 0), targets, (*found, *conditions))


def perturbed_model(learner: OfflineLearner, X: Any, codes: FloatArray, plan: Any, source: Source | None) -> FloatArray:
    """Return the model of a fit with one score by a plan: for audits of mechanisms, as no ledger knows of it.

    ``source``: of the noise; None where the plan has none.
    """
    return learner._find(X, codes, plan, 1, source).model
