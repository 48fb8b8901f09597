"""Offline learners: the minimiser of a regularised sum of losses, with noise on it or in the objective.

A compiled Newton method minimises the sum and stops at a certified norm of the gradient; the calibration includes the
distance from the exact minimiser.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from .. import calibration as calibrate
from .._core._newton import minimise
from .._core._noise import Source, wipe
from .._core._objective import Objective
from .._core._row_sums import RowSums
from .._core._rows import squared_norms
from .._validate import choice, integer
from ..calibration import MIN_L2, OBJECTIVE_CALIBRATIONS, ObjectiveCalibration, OutputCalibration
from ..distributed import Crew, Part
from ..ledger import Ledger
from ..losses import Loss, get_loss
from ..noise import STREAM_OBJECTIVE, decide_lattice_point, decide_mixture_point
from ._model import Export
from ._offline import Found, OfflineLearner, Sealer, noisy, within
from ._part_sums import HeldRows, PartReader, PartsOfRows, RowsHere, RowsThere

__all__ = ["ObjectivePerturbation", "OutputPerturbation"]

FloatArray = NDArray[np.float64]


class _Minimiser(OfflineLearner):
    """Base of both learners: what is minimised, class by class, to the accuracy that the calibration requires."""

    l2: float | None
    max_iter: int
    warm_start: bool
    _many_classes: ClassVar[bool] = True

    def _sizes(self, n_features: int, n_rows: int, n_classes: int) -> tuple[int, int, int]:
        """Coordinates of a class's model, rows, and models that are minimised one after the other."""
        self._steps()
        width = integer(n_features=n_features, at_least=1) + bool(self.fit_intercept)
        n_classes = integer(n_classes=n_classes, at_least=2)
        return width, integer(n_rows=n_rows, at_least=1), n_classes if n_classes > 2 else 1

    def _steps(self) -> int:
        return integer(max_iter=self.max_iter, at_least=1, at_most=1 << 62)

    def _conditions(self) -> tuple[str, ...]:
        return ("that a solver failed, which ends a fit with an error, is not hidden",)

    def fit_parts(self, parts: Sequence[Part], crew: Crew, *, seal: Sealer | None = None) -> Self:
        """Learn the rows of several parts, which workers read and hold, and release one model. Every call pays again.

        Workers sum gradients and Hessians over their rows; this process, the curator, joins the sums in the order of
        the parts, decides on each step, and alone has the noise. What is released depends on the parts and their
        order, to the bit, and not on how many workers there are or which of them holds what. It differs from
        :meth:`fit` of all rows at once in the last digits before the noise, within the same certificate.

        Parameters
        ----------
        parts : sequence of Part
            As :func:`privol.distributed.file_parts` gives them: each a name and how a worker opens its stream.
        crew : privol.distributed.Crew
            ``LocalCrew`` (threads), ``DaskCrew``, or ``RankCrew`` (MPI: every rank calls this, and each gets the
            model). Workers and what connects them see raw rows and models without noise: they are trusted as the
            curator is, and the guarantee says so.
        seal : privol.state.SealedRelease, optional
            As of :meth:`fit_stream`; of the curator.

        Returns
        -------
        self
            On other ranks than the curator's with the model and its guarantee, without ledger and counts.

        Raises
        ------
        InvalidParameter, InvalidRow, StreamError, BudgetExceeded
            Before anything is spent or released; with the name of the part, and the number of the row in it.
        PartFailure, RankFailure
            If no worker can answer for a part any more. Nothing was released; the budget counts as spent if the rows of
            all parts had been read before.
        SolverFailure
            As of :meth:`fit`.

        Notes
        -----
        Cost: some tens of rounds of questions, in each of which every part gets a model and answers with two vectors of
        its size; a few with a matrix of its square (up to 512 coordinates; beyond, hundreds of rounds of vectors).
        Memory: of the rows each part's worker has its own; the curator none.
        """
        if not crew.curator:
            with self._as_before_if_it_fails():
                self.n_features_in_, export = crew.serve()
            shown: dict[str, Any] = {} if export.classes is None else {"classes_": export.classes}
            self.__dict__.update(shown, _export=export)
            for name in ("_account", "_counts"):
                self.__dict__.pop(name, None)
            return self
        with crew.session(PartReader(self, HeldRows), parts) as session, self._as_before_if_it_fails():
            stream = PartsOfRows(session)
            targets = self._targets_of(stream.classes)
            self.n_features_in_ = width = stream.n_features

            def find(fixed: Any, plan: Any, outputs: int, source: Source | None) -> Found:
                return fixed._find_in(RowsThere(fixed, session, width), plan, outputs, source)  # type: ignore[no-any-return]

            self._fit_found(find, stream.n_rows or 0, width, targets, stream, (), seal)
            session.leave((width, self.__dict__["_export"]))
        self._look_at_scaled(stream)
        return self

    def _find(self, X: Any, codes: FloatArray, plan: Any, outputs: int, source: Source | None) -> Found:
        return self._find_in(RowsHere(self, X, codes), plan, outputs, source)

    @abstractmethod
    def _find_in(self, rows: RowsHere | RowsThere, plan: Any, outputs: int, source: Source | None) -> Found:
        """Find the model and perturb it, wherever the rows are."""

    def _minimisers(
        self, rows: RowsHere | RowsThere, plan: Any, loss: Loss, outputs: int, linear: FloatArray | None
    ) -> FloatArray:
        """Certified minimisers of each output's objective, in turn; SECRET, and the caller must wipe them."""
        most, found = self._steps(), []
        try:
            for k in range(outputs):
                slope = None if linear is None else linear.reshape(outputs, -1)[k]
                own, sums = rows.objective(k, outputs, loss=loss, l2_sum=plan.l2_sum, linear=slope)
                starts = self._starts(outputs * own.dim)
                start = None if starts is None else _better_start(own, sums, starts[k * own.dim : (k + 1) * own.dim])
                try:
                    words = {"gradient_norm": plan.gradient_norm, "max_iterations": most}
                    found.append(minimise(own, rows=sums, start=start, **words).point)
                finally:
                    own.forget()
            return np.concatenate(found)
        finally:
            for point in found:
                wipe(point)

    def _starts(self, size: int) -> FloatArray | None:
        """The solver's start: what the last fit released, which is public, if it has the right size."""
        export: Export | None = self.__dict__.get("_export")
        if not self.warm_start or export is None or len(export.model) != size:
            return None
        return export.model


def _better_start(objective: Objective, sums: Any, start: FloatArray) -> FloatArray | None:
    """Return that start, or None for zeros if noise has thrown it far off. ``sums``: of rows elsewhere, or None."""
    rows, values = RowSums(objective) if sums is None else sums, []
    work = np.zeros((2, objective.dim))
    for point in (start, np.zeros(len(start))):
        point = np.array(point)
        value = rows.losses(point, work)
        value, slope = objective.finished(point, value, rows.n, work)
        wipe(slope)
        values.append(value)
    wipe(work)
    if sums is None:
        rows.wipe()
    return start if values[0] < values[1] else None


class OutputPerturbation(_Minimiser):
    """Regularised empirical risk, minimised to a certificate; noise on the minimiser.

    Released: one model. Secret: the minimiser, the noise. The sensitivity is ``(D + 2 gamma) / (n l2)``: D the
    diameter of a row's gradients over the ball that holds every minimiser, gamma the certified norm of the gradient.

    Parameters
    ----------
    loss : str or Loss, default="logistic"
        ``"logistic"``, ``"smooth_hinge"`` (classification; more than two classes each against the rest),
        ``"huber"``, ``"squared"`` (regression), or an object of :mod:`privol.losses`, such as a ``losses.Custom`` of
        finite ``smoothness``.
    epsilon : float, optional
        Budget of a fit, above 0 (default: 1, where ``mu`` is not given); ``inf``: no noise and no guarantee.
    delta : float, default=1e-6
        Additive term of approximate privacy, in [0, 1), well below one over the number of rows. 0: L2-Laplace noise,
        pure differential privacy. Above 0: Gaussian noise, less in all but a few dimensions.
    mu : float, optional
        The budget as mu of Gaussian differential privacy, above 0, in place of ``epsilon``. No more than that is spent;
        ``delta`` only says at which delta the guarantee states an epsilon (``docs/equal_privacy.md``).
    rows_per_user : int, optional
        The budget covers all rows of one user together, at most this many in a fit. ``epsilon`` and ``delta`` are then
        a person's, and the noise is scaled accordingly, by group privacy. Unless the stream states that it enforces
        this number, nobody checks it, and the guarantee says so. Default: it covers one row.
    adjacency : {"replace", "zero_out"}, default="replace"
        What may differ between neighbouring streams: any content of one row, or whether it is there.
    ledger : Ledger, optional
        Shared budget. Default: one of the learner's own, without a limit.
    l2 : float, optional
        Strong convexity: of the mean of the losses. ``l2 / 2 ||w||^2`` is added to it. Default: by the rule of
        ``docs/offline.md``, from the numbers of rows and features, the budget and the bounds: the noise moves the score
        of the longest row by a third of a unit, which is 1 for labels and a third of `y_bound` for targets.
        ``calibrate(...).l2`` is its value.
    x_bound : float, default=1.0
        Public bound of a row's L2 norm, above 0; longer rows are scaled to it.
    y_bound : float, default=1.0
        Public bound of a real target's magnitude; targets beyond are clipped to it.
    radius : float, optional
        Radius of the L2 ball of models, of all classes together: the minimiser is scaled to it before the noise, so
        that the sensitivity is at most twice the radius, and the release is projected onto it. Default: the release is
        projected onto a ball that contains every minimiser.
    fit_intercept : bool, default=True
        Append the constant 1 to every row; the calibration counts it, and it is regularised like the rest.
    max_iter : int, default=200
        Newton steps of a class, at most: beyond them the fit fails.
    warm_start : bool, default=False
        The solver begins at the model that this object released last, for a path of `l2` or a growing number of rows.
        That model is public; every fit draws fresh noise and pays, and its release is as close to the minimiser as
        without. It saves a step or two of about ten if noise is small.
    calibration : {"tight", "published"}, default="tight"
        "published": the source's noise (of the slides); the sentence states its claim and the proved figure.
    on_invalid : {"raise", "zero"}, default="raise"
        A row that is not finite, or a label outside the set: an error that names it, or a counted null row.
    random_state : None, int, BitGenerator or Generator, optional
        ``None``: noise that cannot be reproduced. Any other value is for tests, and marks every export as not private.

    Attributes
    ----------
    coef_, intercept_ : ndarray
        The released model.
    guarantee_ : Guarantee
    ledger_ : Ledger
    n_rows_, n_releases_ : int
    classes_ : ndarray of shape (n_classes,)

    Notes
    -----
    Error of the model: the noise has the mean length ``dim * sensitivity / epsilon`` ("pure"). Objective perturbation
    has less in most cases.

    Cost: some tens of passes over the rows; with a loss of your own three calls of its functions in each. Memory
    O(n + n_features^2) for up to 512 coordinates, otherwise O(n + n_features).

    References
    ----------
    Chaudhuri, Monteleoni and Sarwate, "Differentially private empirical risk minimization", 2011, Algorithm 1;
    ``docs/proofs/offline.md`` has the proof, the solver's error included.

    Examples
    --------
    >>> import numpy as np
    >>> from privol import OutputPerturbation
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20000, 3)) / 3
    >>> y = np.where(X @ [1.0, -2.0, 0.5] > 0, "yes", "no")
    >>> learner = OutputPerturbation(epsilon=1.0).fit(X, y)
    >>> bool(learner.score(X, y) > 0.9)
    True
    """

    def __init__(
        self,
        *,
        loss: str | Loss = "logistic",
        epsilon: float | None = None,
        delta: float = 1e-6,
        mu: float | None = None,
        rows_per_user: int | None = None,
        adjacency: str = "replace",
        ledger: Ledger | None = None,
        l2: float | None = None,
        x_bound: float = 1.0,
        y_bound: float = 1.0,
        radius: float | None = None,
        fit_intercept: bool = True,
        max_iter: int = 200,
        warm_start: bool = False,
        calibration: str = "tight",
        on_invalid: str = "raise",
        random_state: Any = None,
    ) -> None:
        self.loss = loss
        self.epsilon = epsilon
        self.delta = delta
        self.mu = mu
        self.rows_per_user = rows_per_user
        self.adjacency = adjacency
        self.ledger = ledger
        self.l2 = l2
        self.x_bound = x_bound
        self.y_bound = y_bound
        self.radius = radius
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.calibration = calibration
        self.on_invalid = on_invalid
        self.random_state = random_state

    def calibrate(self, n_features: int, n_rows: int, n_classes: int = 2) -> OutputCalibration:
        """Return the calibration of a fit before anything is spent.

        Parameters
        ----------
        n_features : int
            Features of a row, at least 1, the intercept not counted.
        n_rows : int
            At least 1.
        n_classes : int, default=2
            Labels; without effect for regression.

        Returns
        -------
        OutputCalibration
            Sensitivity and noise, the solver's certificate. All of it is public.
        """
        dim, n, outputs = self._sizes(n_features, n_rows, n_classes)
        budget = self._budget()
        return calibrate.calibrate_output(
            loss=get_loss(self.loss),
            dim=dim,
            n=n,
            outputs=outputs,
            intercept=bool(self.fit_intercept),
            x_bound=self.x_bound,
            y_bound=self.y_bound,
            adjacency=self._adjacency(),
            epsilon=budget.epsilon,
            delta=budget.delta,
            calibration=budget.calibration,
            l2=self.l2,
            radius=self.radius,
        )

    def _find_in(
        self, rows: RowsHere | RowsThere, plan: OutputCalibration, outputs: int, source: Source | None
    ) -> Found:
        point = self._minimisers(rows, plan, get_loss(self.loss), outputs, None)
        try:
            if plan.radius is not None:
                norm = math.sqrt(squared_norms(point[None])[0])  # as in the calibration's charge for rounding
                if norm > plan.radius:
                    point *= plan.radius / norm
            released = within(noisy(source, point, plan.law, plan.scale), plan.ball)
            return Found(released, rows.n_clipped, rows.n_null)
        finally:
            wipe(point)


class ObjectivePerturbation(_Minimiser):
    """Regularised empirical risk with a random linear term, minimised to a certificate.

    The random term b hides a row. The noise on the minimiser, for a hundredth of epsilon, hides the point at which the
    solver stopped. Released: one model. Secret: b, the minimiser, the noise.

    Parameters
    ----------
    loss : str or Loss, default="logistic"
        ``"logistic"``, ``"smooth_hinge"`` (classification; more than two classes each against the rest),
        ``"huber"``, ``"squared"`` (regression), or an object of :mod:`privol.losses`, such as a ``losses.Custom`` of
        finite ``smoothness``, on which epsilon then depends; with `delta` for two classes or a real target.
    epsilon : float, default=1.0
        Budget of a fit, above 0; ``inf``: no noise and no guarantee.
    delta : float, default=1e-6
        Additive term of approximate privacy, in [0, 1), well below one over the number of rows. 0: L2-Laplace noise,
        pure differential privacy. Above 0: Gaussian noise, less in all but a few dimensions; the guarantee is then
        epsilon at this delta alone, so that a ledger with a limit needs a ``slack`` for it.
    rows_per_user : int, optional
        The budget covers all rows of one user together, at most this many in a fit. ``epsilon`` and ``delta`` are then
        a person's, and the noise is scaled accordingly, by group privacy. Unless the stream states that it enforces
        this number, nobody checks it, and the guarantee says so. Default: it covers one row.
    adjacency : {"replace", "zero_out"}, default="replace"
        What may differ between neighbouring streams: any content of one row, or whether it is there.
    ledger : Ledger, optional
        Shared budget. Default: one of the learner's own, without a limit.
    l2 : float, optional
        Strong convexity: of the mean of the losses, at least. ``l2 / 2 ||w||^2`` is added to it. Default: by the rule
        of ``docs/offline.md``, from the numbers of rows and features, the budget and the bounds: the noise moves the
        score of the longest row by one unit, at most, which is 1 for labels and a third of `y_bound` for targets.
        ``calibrate(...).l2`` is its value.
    min_l2 : {"quarter", "full"}, default="quarter"
        If ``n l2`` is so small that the curvature of the losses would cost much of epsilon, it is increased until
        that costs at most half of epsilon, or nothing ("full", for the logistic loss and ``delta=0``).
    x_bound : float, default=1.0
        Public bound of a row's L2 norm, above 0; longer rows are scaled to it.
    y_bound : float, default=1.0
        Public bound of a real target's magnitude; targets beyond are clipped to it.
    radius : float, optional
        Radius of the L2 ball of models, of all classes together, onto which the release is projected. Default: of
        a ball that contains every minimiser without noise. The squared loss is replaced by Huber's: with a radius the
        two are equal for every model within it, without one for all errors up to `y_bound`.
    fit_intercept : bool, default=True
        Append the constant 1 to every row; the calibration counts it, and it is regularised like the rest.
    max_iter : int, default=200
        Newton steps of a class, at most: beyond them the fit fails.
    warm_start : bool, default=False
        The solver begins at the model that this object released last, for a path of `l2` or a growing number of rows.
        That model is public; every fit draws fresh noise and pays, and its release is as close to the minimiser as
        without. It saves a step or two of about ten if noise is small.
    calibration : {"tight", "published", "jmlr"}, default="tight"
        "published": the source's noise (of the slides), which omits the losses' curvature: the sentence states what it
        proves. "jmlr": Chaudhuri, Monteleoni and Sarwate's, which is proved and looser.
    on_invalid : {"raise", "zero"}, default="raise"
        A row that is not finite, or a label outside the set: an error that names it, or a counted null row.
    random_state : None, int, BitGenerator or Generator, optional
        ``None``: noise that cannot be reproduced. Any other value is for tests, and marks every export as not private.

    Attributes
    ----------
    coef_, intercept_ : ndarray
        The released model.
    guarantee_ : Guarantee
    ledger_ : Ledger
    n_rows_, n_releases_ : int
    classes_ : ndarray of shape (n_classes,)

    Notes
    -----
    L2-Laplace noise gives pure differential privacy. Gaussian noise gives (epsilon, delta)-differential privacy at
    that one pair, and no Gaussian differential privacy (kind "approximate"). For more than two classes one b covers
    all of them.

    Cost: some tens of passes over the rows; with a loss of your own three calls of its functions in each. Memory
    O(n + n_features^2) for up to 512 coordinates, otherwise O(n + n_features).

    References
    ----------
    Chaudhuri, Monteleoni and Sarwate, "Differentially private empirical risk minimization", 2011, Algorithm 2; Iyengar
    et al., "Towards practical differentially private convex optimization", 2019. ``docs/proofs/offline.md`` has the
    proof of the noise used here; ``docs/errata.md`` lists the errors of the slides' version.

    Examples
    --------
    >>> import numpy as np
    >>> from privol import ObjectivePerturbation
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20000, 3)) / 3
    >>> y = np.where(X @ [1.0, -2.0, 0.5] > 0, "yes", "no")
    >>> learner = ObjectivePerturbation(epsilon=1.0).fit(X, y)
    >>> bool(learner.score(X, y) > 0.9)
    True
    """

    _curve = False

    def __init__(
        self,
        *,
        loss: str | Loss = "logistic",
        epsilon: float = 1.0,
        delta: float = 1e-6,
        rows_per_user: int | None = None,
        adjacency: str = "replace",
        ledger: Ledger | None = None,
        l2: float | None = None,
        min_l2: str = "quarter",
        x_bound: float = 1.0,
        y_bound: float = 1.0,
        radius: float | None = None,
        fit_intercept: bool = True,
        max_iter: int = 200,
        warm_start: bool = False,
        calibration: str = "tight",
        on_invalid: str = "raise",
        random_state: Any = None,
    ) -> None:
        self.loss = loss
        self.epsilon = epsilon
        self.delta = delta
        self.rows_per_user = rows_per_user
        self.adjacency = adjacency
        self.ledger = ledger
        self.l2 = l2
        self.min_l2 = min_l2
        self.x_bound = x_bound
        self.y_bound = y_bound
        self.radius = radius
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.calibration = calibration
        self.on_invalid = on_invalid
        self.random_state = random_state

    def calibrate(self, n_features: int, n_rows: int, n_classes: int = 2) -> ObjectiveCalibration:
        """Return the calibration of a fit before anything is spent.

        Parameters
        ----------
        n_features : int
            Features of a row, at least 1, the intercept not counted.
        n_rows : int
            At least 1.
        n_classes : int, default=2
            Labels; without effect for regression.

        Returns
        -------
        ObjectiveCalibration
            Both noises, the regularisation, the solver's certificate. All of it is public.
        """
        dim, n, outputs = self._sizes(n_features, n_rows, n_classes)
        budget = self._budget(OBJECTIVE_CALIBRATIONS)
        return calibrate.calibrate_objective(
            loss=get_loss(self.loss),
            dim=dim,
            n=n,
            outputs=outputs,
            intercept=bool(self.fit_intercept),
            x_bound=self.x_bound,
            y_bound=self.y_bound,
            adjacency=self._adjacency(),
            epsilon=budget.epsilon,
            delta=budget.delta,
            calibration=budget.calibration,
            l2=self.l2,
            radius=self.radius,
            min_l2=choice(MIN_L2, min_l2=self.min_l2),
        )

    def _find_in(
        self, rows: RowsHere | RowsThere, plan: ObjectiveCalibration, outputs: int, source: Source | None
    ) -> Found:
        linear = None
        if plan.law != "none":
            assert source is not None
            linear = _linear_term(source, plan)
        try:
            point = self._minimisers(rows, plan, plan.loss, outputs, linear)
        finally:
            if linear is not None:
                wipe(linear)
        try:
            released = within(noisy(source, point, plan.law, plan.final_scale), plan.ball)
            return Found(released, rows.n_clipped, rows.n_null)
        finally:
            wipe(point)


def _linear_term(source: Source, plan: ObjectiveCalibration) -> FloatArray:
    """Draw b for all outputs on its own grid, far finer than that of a release; SECRET, and only once from a source."""
    out = np.zeros((1, plan.dim))
    try:
        if plan.law == "gaussian":
            source.add(
                np.zeros(plan.dim),
                plan.scale,
                step=plan.step,
                bound=0.0,
                stream=STREAM_OBJECTIVE,
                row=1,
                decide=decide_lattice_point,
                out=out[0],
            )
        else:
            source.add_mixture(
                None,
                plan.scale,
                plan.step,
                kind=plan.law,
                bound=0.0,
                stream=STREAM_OBJECTIVE,
                row=1,
                decide=decide_mixture_point,
                out=out,
            )
    except BaseException:
        wipe(out)
        raise
    return np.asarray(out[0])
