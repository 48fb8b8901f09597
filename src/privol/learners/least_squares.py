"""Private online least squares: perturbs running sums of the rows' moments and solves models from them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from .. import calibration as calibrate
from .._core._least_squares import LeastSquaresRun, moments_size
from .._core._noise import Source, wipe
from .._core._prefix_plan import ByEpoch
from .._validate import integer
from ..calibration import LeastSquaresCalibration
from ..distributed import Session
from ..errors import InvalidParameter, StateError
from ..factorizations import forgets
from ..guarantees import Guarantee, square_up
from ..ledger import Ledger
from ..losses import Loss
from ..prefix import plan_of_epochs
from ._base import Run
from ._frame import RunFrame
from ._gaussian import GaussianLearner
from ._part_runs import PartsLearner, learn_rest, part_failed
from ._part_sums import HeldLeaves

__all__ = ["PQFTL"]

FloatArray = NDArray[np.float64]

#: Roughly how many numbers of sums a part sends at once.
_AT_ONCE = 1 << 18


@cache
def _blas() -> Any:
    """Limits the threads of the linear algebra; finding them reads the process's memory map, once."""
    return ThreadpoolController().select(user_api="blas")


class PQFTL(PartsLearner, GaussianLearner[LeastSquaresCalibration]):
    """Private quadratic follow-the-leader: online ridge regression from private running sums of the rows' moments.

    Released: the noisy moments of all rows so far, at every step, and the models solved from them, which cost nothing
    more. Secret: the exact sums, the noise. Squared loss only.

    Parameters
    ----------
    loss : {"squared"}
        ``1/2 (y - v.x)^2 + l2/2 ||x||^2`` for every row.
    epsilon : float, optional
        Budget of the whole run, above 0 (default: 1, where ``mu`` is not given); ``inf``: no noise and no guarantee.
    delta : float, default=1e-6
        Additive term of approximate privacy, in (0, 1). Choose it well below one over the number of rows.
    mu : float, optional
        The budget as mu of Gaussian differential privacy, above 0, in place of ``epsilon``. No more than that is spent;
        ``delta`` only says at which delta the guarantee states an epsilon (``docs/equal_privacy.md``).
    rows_per_user : int, optional
        The budget covers all rows of one user together, at most this many in the run. ``epsilon`` and ``delta`` are
        then a person's, and the noise is scaled accordingly. Default: it covers one row.
    user_separation : int, default=1
        With ``rows_per_user``: any two rows of a user are at least this many rows apart. A larger distance needs less
        noise; a multiple of ``batch`` is best. Unless the stream states that it enforces both, nobody checks them, and
        the guarantee says so.
    adjacency : {"replace", "zero_out"}, default="replace"
        What may differ between neighbouring streams: any content of one row, or whether it is there.
    ledger : Ledger, optional
        Shared budget. Default: one of the learner's own, without a limit.
    horizon : int, optional
        Rows of the run, which the budget must last for, or with ``renewal`` of its first epoch. Default: ``fit`` and
        sized streams take their number of rows.
    radius : float, default=1.0
        Radius of the L2 ball of models, the intercept included.
    x_bound : float, default=1.0
        Public bound of a row's L2 norm, above 0; longer rows are scaled to it. The noise of a score is proportional to
        the bounds, however long the rows are.
    y_bound : float, default=1.0
        Public bound of a real target's magnitude; targets beyond are clipped to it.
    l2 : float, default=0.01
        Strong convexity, above 0: of every row's loss.
    release : {"last", "all"}, int or list of int, optional
        Rows after which a model is solved. Default: every ``n_features``-th row (a solution costs as much as
        ``n_features / 3`` rows or so), and the last.
    batch : int, optional
        Rows of a step, added up before noise is drawn: as many times fewer draws, less noise, and models of whole
        batches. Default: where ``release`` is a number or left out, the rows from one model to the next (at most
        2**20; no more than divide ``window``, and with ``renewal`` the horizon), for sums in between would be released
        for nobody; 1 with a list, "all" or "last", with ``discount``, whose rows then forget one by one, and with
        ``rows_per_user``, where rows of a user may meet in a step.
    discount : float, default=1.0
        Above 0 to 1. Below 1, for streams that drift: the sum of the moments forgets, and a row's weight is
        multiplied by it for every later row (of later batches). With ``design`` "blt", "sqrt", "banded" or
        "independent". The noise then stays bounded however long the run is, and ``horizon`` may be left out for
        ``partial_fit`` and streams of unknown length: the run has no last row (2**48).
    window : int, optional
        Instead of ``discount``: the number of most recent rows that the sum covers, a multiple of ``batch``. ``window /
        batch`` noisy moments are kept (at most 2**26 numbers).
    design : {"blt", "sqrt", "honaker", "smooth", "tree", "banded", "independent"}, default="blt"
        Factorisation of the running sums (:mod:`privol.factorizations`).
    buffers : int, default=4
        Of ``"blt"``, 1 to 8.
    bandwidth : int, optional
        Of ``"banded"``, 1 to 65,536: steps that share their noise, whose moments are kept (twice; at most 2**26
        numbers). Default: chosen by the error of the sums, at most 4096.
    objective : {"max", "mean"}, default="max"
        Which error of the sums the parameters of ``"blt"``, or the bandwidth, minimise.
    noise_shift : float, default=2.0
        Added to the matrix, in units of the operator norm of its noise: 0 trusts the noisy matrix, 1 shifts what noise
        may have made negative away, 2 did best in the specification's trials. Post-processing: it costs nothing.
    renewal : {"none", "repeat", "double"}, default="none"
        What happens at the horizon: the run ends and one more row raises ``BudgetExceeded`` ("none"), or another epoch
        begins, as long as the first ("repeat") or twice as long as the one before ("double") (with "blt" up to 2**25 /
        sqrt(batch) steps, with "banded" 2**48 / batch**2, with "sqrt" up to 2**20 numbers to keep). An epoch has noise
        of its own for the whole budget over rows of its own, so the guarantee is that of one epoch; sums are those of
        all epochs so far, and have the noise of all epochs.
    calibration : {"tight", "published"}, default="tight"
        "published": the source's noise, and its models: Algorithms 4 and 5 as printed, natural logarithms: a tree for
        the matrix and one for the vector, each with half of ``epsilon`` and ``delta``, noise in every entry of the
        matrix, whose inverse is taken whatever it is (0 where there is none). The guarantee then states the claim and
        what is proved of that noise. ``radius`` still holds; the source has no ball, so give a large one.
    fit_intercept : bool, default=True
        Append the constant 1 to every row; it is regularised like the rest.
    on_invalid : {"raise", "zero"}, default="raise"
        A row that is not finite, or such a target: an error that names it, or a counted null row.
    random_state : None, int, BitGenerator or Generator, optional
        ``None``: noise that cannot be reproduced. Any other value is for tests, and marks every export as not private.

    Attributes
    ----------
    coef_, intercept_ : ndarray, float
        The last released model; ``average_coef_``, ``average_intercept_``: the mean of all released ones.
    guarantee_ : Guarantee
    ledger_ : Ledger
    n_rows_, n_releases_ : int

    Notes
    -----
    Cost per row: ``(n_features + 1)(n_features + 4) / 2`` noise values, and for a model one Cholesky factorisation;
    eigenvalues only where the noisy, shifted matrix is not positive definite. Memory
    O(``buffers * n_features**2``), of ``"banded"`` with the bandwidth for the buffers, which a step's time grows with
    too. Models are solved by LAPACK and may differ in their last digits between machines.

    References
    ----------
    Jain, Kothari, Thakurta, "Differentially private online learning", 2012, Algorithm 4, eq. (21). Rows and targets are
    perturbed jointly here, and the matrix symmetrically.

    Examples
    --------
    >>> import numpy as np
    >>> from privol import PQFTL
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20000, 3)) / 3
    >>> y = X @ [0.5, -0.2, 0.1]
    >>> learner = PQFTL(epsilon=1.0, delta=1e-6, l2=1e-4, fit_intercept=False).fit(X, y)
    >>> bool(learner.score(X, y) > 0.9)
    True
    """

    _perturbed = "running sum of moments"
    _holder = HeldLeaves
    _longest = 1 << 48
    domain = None
    worst: ClassVar[Mapping[str, Any]] = {"batch": 24}
    worst_published: ClassVar[Mapping[str, Any]] = {"batch": 1}

    def __init__(
        self,
        *,
        loss: str | Loss = "squared",
        epsilon: float | None = None,
        delta: float = 1e-6,
        mu: float | None = None,
        rows_per_user: int | None = None,
        user_separation: int = 1,
        adjacency: str = "replace",
        ledger: Ledger | None = None,
        horizon: int | None = None,
        radius: float = 1.0,
        x_bound: float = 1.0,
        y_bound: float = 1.0,
        l2: float = 0.01,
        release: Any = None,
        batch: int | None = None,
        discount: float = 1.0,
        window: int | None = None,
        design: str = "blt",
        buffers: int = 4,
        bandwidth: int | None = None,
        objective: str = "max",
        noise_shift: float = 2.0,
        renewal: str = "none",
        calibration: str = "tight",
        fit_intercept: bool = True,
        on_invalid: str = "raise",
        random_state: Any = None,
    ) -> None:
        self.loss = loss
        self.epsilon = epsilon
        self.delta = delta
        self.mu = mu
        self.rows_per_user = rows_per_user
        self.user_separation = user_separation
        self.adjacency = adjacency
        self.ledger = ledger
        self.horizon = horizon
        self.radius = radius
        self.x_bound = x_bound
        self.y_bound = y_bound
        self.l2 = l2
        self.release = release
        self.batch = batch
        self.discount = discount
        self.window = window
        self.design = design
        self.buffers = buffers
        self.bandwidth = bandwidth
        self.objective = objective
        self.noise_shift = noise_shift
        self.renewal = renewal
        self.calibration = calibration
        self.fit_intercept = fit_intercept
        self.on_invalid = on_invalid
        self.random_state = random_state

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Return the private sums that the next model would be solved from: released like the models, at no cost.

        Returns
        -------
        gram : ndarray of shape (d, d)
            Noisy sum of ``v v^T`` over the rows, scaled to ``x_bound``; d counts the intercept, which comes last.
            Symmetric (but for ``calibration="published"``), perhaps not positive definite.
        cross : ndarray of shape (d,)
            Noisy sum of ``y v``.

        Raises
        ------
        StateError
            If there is no run that still learns, or it is kept on the disk: these are not kept with the models.
        """
        run: Run | None = self.__dict__.get("_run")
        if run is None or run.closed or run.keeper is not None:
            raise StateError("moments() needs a run that still learns and is not kept on the disk: there is none")
        state = cast(LeastSquaresRun, run.state)
        sums, plan, d = state.released_sums(), self._plan_of(run), len(run.public("model"))
        if plan.as_printed:
            printed: FloatArray = sums[:-d].reshape(d, d) / plan.row_unit**2
            return printed, sums[-d:] / (plan.row_unit * plan.target_unit)
        upper = np.triu_indices(d)
        gram = np.zeros((d, d))
        gram[upper] = sums[:-d] * np.where(upper[0] == upper[1], 1.0, math.sqrt(0.5)) / plan.row_unit**2
        gram = np.triu(gram) + np.triu(gram, 1).T
        return gram, sums[-d:] / (plan.row_unit * plan.target_unit)

    def _endless(self) -> bool:
        return forgets(self.discount, self.window)

    def _default_release(self, whole: bool) -> Any:
        return self.release

    def calibrate(
        self, n_features: int, horizon: int, release: Any = None, *, n_classes: int = 2
    ) -> LeastSquaresCalibration:
        """Return the calibration of a run before anything is spent.

        Parameters
        ----------
        n_features : int
            Features of a row, at least 1, the intercept not counted.
        horizon : int
            Rows, at least 1; with ``renewal`` those of the first epoch.
        release : optional
            As the parameter ``release``; default: that parameter.

        Returns
        -------
        LeastSquaresCalibration
            Noise of the sums, the proven mu, the rows of the models. All of it is public.
        """
        problem = self._problem(n_features, horizon, n_classes)
        if not problem.loss.quadratic:
            raise InvalidParameter(f"PQFTL solves least squares: loss must be 'squared', found {self.loss!r}")
        chosen = self.release if release is None else release
        if chosen is None:
            batch = 1 if self.batch is None else integer(batch=self.batch, at_least=1)
            chosen = min(-(-problem.dim // batch) * batch, self._most_rows(problem.horizon))
        return calibrate.calibrate_least_squares(
            problem,
            self._budget(),
            release=chosen,
            batch=self.batch,
            discount=self.discount,
            window=self.window,
            design=self.design,
            buffers=self.buffers,
            bandwidth=self.bandwidth,
            objective=self.objective,
            l2=self.l2,
            noise_shift=self.noise_shift,
            renewal=self.renewal,
        )

    def regret_bound(self, n_rows: int, n_features: int | None = None) -> float:
        """Return the proved bound of the expected regret of ``n_rows`` rows, which are the horizon too.

        Of the regularised losses of the rows, each at the model that was released last, against the best fixed point of
        the ball, over the randomness of the noise, whatever the rows are within their bounds. Default of
        ``n_features``: the last run's. Cost O(``n_rows``).

        Raises
        ------
        InvalidParameter
            If nothing is proved for these settings, or the number of features is not known yet.
        """
        return self.calibrate(self._width(n_features), n_rows).regret_bound(n_rows)

    def guarantee_of(self, plan: LeastSquaresCalibration, *, private: bool, bit_source: str) -> Guarantee:
        """Return the guarantee of a run with the given calibration and noise bits."""
        promise = super().guarantee_of(plan, private=private, bit_source=bit_source)
        return replace(promise, releases=plan.releases.horizon)  # sums after every step, so any number of models

    def build(
        self, plan: LeastSquaresCalibration, source: Source | None, classes: NDArray[Any] | None = None
    ) -> LeastSquaresRun:
        """See :meth:`GaussianLearner.build`."""
        return LeastSquaresRun(
            RunFrame(plan.problem, plan.releases, source),
            sums=plan_of_epochs(plan.epochs),
            row_unit=plan.row_unit,
            target_unit=plan.target_unit,
            l2=plan.l2,
            shifts=plan.shifts,
            ended=ByEpoch(plan.ended, plan.more),
            ball=plan.ball,
            cost=0.0 if source is None else square_up(plan.mu),
            as_printed=plan.as_printed,
        )

    def _check_parts(self) -> None:
        self._refuse_for_parts(self.design, self.renewal, self.calibration)

    def _learn_parts(self, run: Run, session: Session, sizes: tuple[int, ...]) -> None:
        """Learn all rows: leaves in turn, then the rest of every part."""
        state, plan = cast(LeastSquaresRun, run.state), self._plan_of(run)
        problem, leaf = plan.problem, plan.batch
        words = {
            "leaf": leaf,
            "dim": problem.dim,
            "intercept": problem.intercept,
            "x_bound": problem.x_bound,
            "y_bound": problem.y_bound,
            "row_unit": plan.row_unit,
            "target_unit": plan.target_unit,
        }
        at_once = max(1, _AT_ONCE // moments_size(problem.dim))  # from public numbers, because it is part of the order
        rows = 0
        with _blas().limit(limits=1):
            for first in range(0, max(sizes) // leaf, at_once):
                whole = [leaf * min(max(n // leaf - first, 0), at_once) for n in sizes]
                if rows + sum(whole) <= state.n_rows:  # learnt before the run was kept
                    rows += sum(whole)
                    continue
                for k, (sums, clipped, null) in enumerate(session.ask("leaves", first, at_once, words)):
                    if rows >= state.n_rows:
                        self._learn_leaves(run, session.parts[k].name, sums, leaf, whole[k])
                        state.count(clipped, null)
                        self._keep_sums(run, whole[k])
                    rows += whole[k]
                    if sums.flags.writeable:
                        wipe(sums)
        learn_rest(self, run, session.ask("rest", leaf), rows)

    @staticmethod
    def _learn_leaves(run: Run, name: str, sums: FloatArray, leaf: int, rows: int) -> None:
        state = cast(LeastSquaresRun, run.state)
        if len(sums) * leaf != rows:
            part_failed(name, f"a worker has sent the sums of {len(sums)} leaves, not of {rows // leaf}")
        for one in sums:
            try:
                state.learn_leaf(one, leaf)
            except InvalidParameter as error:
                part_failed(name, str(error))

    def _learn(self, run: Run, *args: Any, **kwargs: Any) -> None:
        with _blas().limit(limits=1):  # small systems: threads cost more than they gain
            super()._learn(run, *args, **kwargs)

    def _release_last(self, run: Run) -> None:
        # models cost nothing: the last one uses all rows, whatever the schedule
        state = cast(LeastSquaresRun, run.state)
        if state.n_rows > 0:
            state.release_last()
