"""Learners that follow a leader computed from private sums: the regularised leader on sums of gradients.

Gradients are taken at public points. Their running sums are perturbed by a matrix mechanism, so a run is one Gaussian
mechanism, the noise of a sum grows only with the logarithm of its length, and every point is a function of what was
released.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from .. import calibration as calibrate
from .._core._leader import LeaderRun
from .._core._noise import Source, wipe
from .._core._prefix_plan import ByEpoch
from .._rounding import vector_norm
from .._validate import number
from ..calibration import LeaderCalibration
from ..distributed import Session
from ..errors import InvalidParameter
from ..factorizations import forgets
from ..geometry import ConvexSet
from ..guarantees import square_up
from ..ledger import Ledger
from ..losses import Loss, get_loss
from ..prefix import plan_of_epochs
from ._asking import AskingLearner
from ._base import Run
from ._frame import RunFrame
from ._part_runs import PartsLearner, learn_rest, part_failed, shares_of_steps
from ._part_sums import HeldSteps, Steps

__all__ = ["DPFTRL"]

#: Rows of a step over parts, at least: each is a question to all workers.
_FEWEST = 64
#: The factor by which rounding may make a sum of gradients longer than the sum of their norms.
_LONGER = 1.0 + 1e-6


class DPFTRL(PartsLearner, AskingLearner[LeaderCalibration]):
    """Follow the regularised leader on private prefix sums of gradients: one pass, every point public.

    The gradient g_t of row t is taken at the point x_t, and S_t is the private sum of the gradients so far. Then
    ``x_{t+1} = Proj((regularization x_1 - S_t) / (regularization + l2 t))``, which minimises
    ``<S_t, x> + regularization/2 ||x - x_1||^2 + l2 t/2 ||x||^2`` over the set. (With ``discount`` or ``window``, t is
    the weight of the gradients in the sum.) It needs no strong convexity, and the noise of S_t grows only with the
    logarithm of t: the learner to try first for losses other than the squared one.
    Released: every point. Secret: the exact sums, and the noise.

    Parameters
    ----------
    loss : str or Loss, default="logistic"
        ``"logistic"``, ``"hinge"``, ``"smooth_hinge"``, ``"softmax"`` (classification), ``"squared"``, ``"absolute"``,
        ``"huber"`` (regression), or an object of :mod:`privol.losses`, such as ``losses.Custom``. See the notes on
        more than two classes.
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
        Rows of the run, at most 2**48, or with ``renewal`` of its first epoch. Default: ``fit`` and sized streams take
        their number of rows.
    radius : float, default=1.0
        Radius of the L2 ball of models.
    domain : ConvexSet, optional
        Another feasible set instead of the ball.
    x_bound : float, default=1.0
        Public bound of a row's L2 norm, above 0; longer rows are scaled to it.
    y_bound : float, default=1.0
        Public bound of a real target's magnitude; targets beyond are clipped to it.
    l2 : float, default=0.0
        Strong convexity: every row's loss gets ``l2 / 2 ||w||^2``. 0 is allowed; the regret bound is for 0.
    regularization : float, optional
        Strong convexity of the objective at the beginning, around the starting point: larger values move the point less
        for every row, and so let less noise through. Public: tune it on public data only. Default:
        ``sqrt(2 n G (batch G + sqrt(dim) s)) / r`` with n rows (the weight of those in the last sum), G the bound of a
        gradient, s the standard deviation of the noise of the last sum, and r the largest distance from the starting
        point, which minimises the regret bound.
        May be 0 where ``l2`` is above 0.
    design : {"blt", "tree", "honaker", "smooth", "sqrt", "banded", "independent"}, default="blt"
        Factorisation of the running sums (:mod:`privol.factorizations`). ``"blt"``: least noise for its memory.
        ``"smooth"``: exact integer sums, for more than 2**26 steps.
    buffers : int, default=4
        Of ``"blt"``, 1 to 8: more means less noise and more memory.
    bandwidth : int, optional
        Of ``"banded"``, 1 to 65,536: steps that share their noise, whose gradients are kept (twice; at most 2**26
        numbers, as wide as the model). Default: chosen by the error of the sums, at most 4096.
    objective : {"max", "mean"}, default="max"
        Which error of the sums the parameters of ``"blt"``, or the bandwidth, minimise.
    batch : int, default=1
        Rows of a step, 1 to 2**20: their gradients are taken at one point and added up to one leaf. The horizon ends a
        last, smaller step. ``release=k, batch=k`` makes one leaf for every model. Rows of a step that a run leaves
        unfinished are not learnt, unless its only release is still to come.
    discount : float, default=1.0
        Above 0 to 1. Below 1, for streams that drift: the sum of the gradients forgets, and a row's weight is
        multiplied by it for every later row (of later batches). With ``design`` "blt", "sqrt", "banded" or
        "independent". The noise then stays bounded however long the run is, and ``horizon`` may be left out for
        ``partial_fit`` and streams of unknown length: the run has no last row (2**48).
    window : int, optional
        Instead of ``discount``: the number of most recent rows that the sum covers, a multiple of ``batch``. ``window /
        batch`` noisy gradients are kept (at most 2**26 numbers).
    gradient_bound : float, optional
        Public bound of a row's gradient in L2 norm, 1e-30 to 1e30; longer ones are scaled to it. Required for ``tell``.
        The noise is then scaled to it (twice that for ``"replace"``) instead of to the loss's own gradients.
    renewal : {"none", "repeat", "double"}, default="none"
        What happens at the horizon: the run ends and one more row raises ``BudgetExceeded`` ("none"), or another epoch
        begins, as long as the first ("repeat") or twice as long as the one before ("double") (with "blt" up to 2**25 /
        sqrt(batch) steps, with "banded" 2**48 / batch**2, with "sqrt" up to 2**20 numbers to keep). An epoch has noise
        of its own for the whole budget over rows of its own, so the guarantee is that of one epoch; sums are those of
        all epochs so far, and have the noise of all epochs. The default of ``regularization`` is recomputed at the
        beginning of an epoch, for all rows to its end.
    release : {"all", "last"}, int or list of int, optional
        Which points ``coef_`` and ``average_coef_`` show, by row number. Default: all. Without effect on the noise.
    fit_intercept : bool, default=True
        Append the constant 1 to every row; the calibration counts it, and it is regularised like the rest.
    class_weight : mapping, optional
        Label to weight, above 0: a row's loss is multiplied by the weight of its class, 1 for labels not named. Public
        constants, not computed from the rows. The noise grows with the largest.
    on_invalid : {"raise", "zero"}, default="raise"
        A row that is not finite, or a label outside the set: an error that names it, or a counted null row.
    random_state : None, int, BitGenerator or Generator, optional
        ``None``: noise that cannot be reproduced. Any other value is for tests, and marks every export as not private.

    Attributes
    ----------
    coef_, intercept_ : ndarray
        The last released model; ``average_coef_``, ``average_intercept_``: the mean of all released ones.
    guarantee_ : Guarantee
    ledger_ : Ledger
        The first row is charged with the whole run's cost; the others are then free.
    n_rows_, n_releases_ : int
    classes_ : ndarray of shape (n_classes,)

    Notes
    -----
    The loss ``"softmax"``, of two classes or more, and the others for more than two have a weight vector and an
    intercept for each class. The set holds all of them, the matrix of weights and intercepts flattened row by row, and
    so does what is released: the gradient of a row is one vector of ``n_classes (n_features + 1)`` coordinates, of
    norm at most ``sqrt(2)`` that of the row for the softmax, whatever the number of classes. One class against the
    rest, for the other losses, has gradients ``sqrt(n_classes)`` times those of one class, and as many times the noise.

    With G, r, s and n as above, ``l2 = 0``, ``batch=1``, ``discount=1``, no window and no renewal, the expected regret
    is at most ``regularization r^2 / 2 + n (G^2 + G sqrt(dim) s) / regularization``, by
    default ``r sqrt(2 n (G^2 + G sqrt(dim) s))``.

    Cost per row: two passes over its non-zeros; per step O(n_features) for every buffer, of ``"banded"`` for every step
    that shares noise, with n_features noise words. Memory O(n_features) for every buffer or such step. There is no
    published calibration to reproduce.

    References
    ----------
    Smith, Thakurta, "(Nearly) optimal algorithms for private online learning in full-information and bandit settings",
    2013; Kairouz et al., "Practical and private (deep) learning without sampling or shuffling", 2021. BLT: Dvijotham et
    al., "Efficient and near-optimal noise generation for streaming differential privacy", 2024. The guarantee is
    ``docs/proofs/leaders.md``, for several classes ``docs/proofs/classes.md``.

    Examples
    --------
    >>> import numpy as np
    >>> from privol import DPFTRL
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20000, 3)) / 3
    >>> y = np.where(X @ [1.0, -2.0, 0.5] > 0, "yes", "no")
    >>> learner = DPFTRL(epsilon=1.0, delta=1e-6, radius=5.0).fit(X, y)
    >>> bool(learner.score(X, y) > 0.9)
    True
    """

    _perturbed = "running sum of gradients"
    _holder = HeldSteps
    _longest = 1 << 48
    _many_classes = True
    worst: ClassVar[Mapping[str, Any]] = {"loss": "hinge", "regularization": 1.0, "radius": 1e3, "batch": 128}
    worst_of_users: ClassVar[Mapping[str, Any]] = {"regularization": 1e4}

    def __init__(
        self,
        *,
        loss: str | Loss = "logistic",
        epsilon: float | None = None,
        delta: float = 1e-6,
        mu: float | None = None,
        rows_per_user: int | None = None,
        user_separation: int = 1,
        adjacency: str = "replace",
        ledger: Ledger | None = None,
        horizon: int | None = None,
        radius: float = 1.0,
        domain: ConvexSet | None = None,
        x_bound: float = 1.0,
        y_bound: float = 1.0,
        l2: float = 0.0,
        regularization: float | None = None,
        design: str = "blt",
        buffers: int = 4,
        bandwidth: int | None = None,
        objective: str = "max",
        batch: int = 1,
        discount: float = 1.0,
        window: int | None = None,
        gradient_bound: float | None = None,
        renewal: str = "none",
        release: Any = None,
        fit_intercept: bool = True,
        class_weight: Mapping[Any, float] | None = None,
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
        self.domain = domain
        self.x_bound = x_bound
        self.y_bound = y_bound
        self.l2 = l2
        self.regularization = regularization
        self.design = design
        self.buffers = buffers
        self.bandwidth = bandwidth
        self.objective = objective
        self.batch = batch
        self.discount = discount
        self.window = window
        self.gradient_bound = gradient_bound
        self.renewal = renewal
        self.release = release
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.on_invalid = on_invalid
        self.random_state = random_state

    # ---- for the base class -------------------------------------------------------------------------

    def regret_bound(self, n_rows: int, n_features: int | None = None, *, n_classes: int = 2) -> float:
        """Return the theorem's bound of the expected regret of ``n_rows`` rows, which are the horizon too.

        Against the best fixed point of the set, over the randomness of the noise; for convex losses whose gradients are
        within the calibration's ``bound``, chosen without looking at the noise. Default of ``n_features``: the last
        run's.

        Raises
        ------
        InvalidParameter
            If nothing is proved for these settings, or the number of features is not known yet.
        """
        return self.calibrate(self._width(n_features), n_rows, n_classes=n_classes).regret_bound(n_rows)

    def _endless(self) -> bool:
        return forgets(self.discount, self.window)

    def calibrate(self, n_features: int, horizon: int, release: Any = None, *, n_classes: int = 2) -> LeaderCalibration:
        """Return the calibration of a run before anything is spent.

        Parameters
        ----------
        n_features : int
            Features of a row, at least 1, the intercept not counted.
        horizon : int
            Rows, 1 to 2**48; with ``renewal`` those of the first epoch.
        release : optional
            As the parameter ``release``; default: that parameter.
        n_classes : int, default=2
            Classes, at least 2; without effect on regression.

        Returns
        -------
        LeaderCalibration
            Sensitivity and noise of the sums and of the points, the proven mu, the regularization. All of it is public.
        """
        return calibrate.calibrate_leaders(
            self._problem(n_features, horizon, n_classes, self._largest_weight(n_classes)),
            self._budget(),
            release=self._default_release(whole=True) if release is None else release,
            l2=self.l2,
            regularization=self.regularization,
            design=self.design,
            buffers=self.buffers,
            bandwidth=self.bandwidth,
            objective=self.objective,
            batch=self.batch,
            discount=self.discount,
            window=self.window,
            gradient_bound=self.gradient_bound,
            renewal=self.renewal,
        )

    def _largest_weight(self, n_classes: int) -> float:
        """The largest weight, checked even if the labels are not known yet."""
        weights = self.class_weight
        if weights is None:
            return 1.0
        if get_loss(self.loss).kind == "regression":
            raise InvalidParameter(f"class_weight is for classes, and the {get_loss(self.loss).name} loss has none")
        if not isinstance(weights, Mapping):
            why = "; 'balanced' would be computed from the rows, which are private" if weights == "balanced" else ""
            raise InvalidParameter(f"class_weight must map labels to numbers, or be None, found {weights!r}{why}")
        for label, weight in weights.items():
            named: dict[str, Any] = {f"class_weight of {label!r}": weight}
            number(**named, at_least=1e-30, at_most=1e30)
        if len(weights) > n_classes:
            raise InvalidParameter(f"class_weight must name labels only, found {len(weights)} for {n_classes} classes")
        others = [1.0] if len(weights) < n_classes else []
        return max([*map(float, weights.values()), *others])

    def _weights(self, classes: NDArray[Any] | None) -> list[float] | None:
        """Weights by class; None if all are 1."""
        weights = self.class_weight
        if weights is None:
            return None
        labels = [] if classes is None else classes.tolist()
        unknown = [label for label in weights if label not in labels]
        if unknown:
            raise InvalidParameter(f"class_weight must name the labels {labels}, found {unknown[0]!r}")
        return [float(weights.get(label, 1.0)) for label in labels]

    def build(self, plan: LeaderCalibration, source: Source | None, classes: NDArray[Any] | None = None) -> LeaderRun:
        """See :meth:`GaussianLearner.build`."""
        epochs = plan.epochs
        return LeaderRun(
            RunFrame(plan.problem, plan.releases, source),
            sums=plan_of_epochs(epochs),
            bound=plan.bound,
            regularization=plan.regularization,
            l2=plan.l2,
            cost=0.0 if source is None else square_up(plan.mu),
            weights=self._weights(classes),
            reach=plan.reach,
            rows=ByEpoch(epochs.starts(), epochs.rows[-1]),
            variance=ByEpoch(epochs.variances(), epochs.end_variance(epochs.last)),
            tuning=plan.tuning,
        )

    # ---- rows in parts ------------------------------------------------------------------------------

    def _check_parts(self) -> None:
        self._refuse_for_parts(self.design, self.renewal, "tight")
        self._check_step(int(getattr(self, "batch", _FEWEST)))

    def _check_run_of_parts(self, n_features: int, horizon: int, n_classes: int) -> None:
        self._check_step(self.calibrate(n_features, horizon, n_classes=n_classes).batch)

    def _check_step(self, batch: int) -> None:
        if batch < _FEWEST:
            raise InvalidParameter(
                f"batch must be at least {_FEWEST} for parts, as every step is a question to all workers: the steps of "
                f"this {type(self).__name__} have {batch} row(s)"
            )

    def _learn_parts(self, run: Run, session: Session, sizes: tuple[int, ...]) -> None:
        """All rows, step by step: the sums of a step are joined in the order of the parts."""
        state, plan = cast(LeaderRun, run.state), self._plan_of(run)
        weights = self._weights(run.targets.classes)
        steps = Steps(uuid.uuid4().hex, plan.problem, plan.bound, None if weights is None else tuple(weights))
        names, learnt = [part.name for part in session.parts], 0
        for shares in shares_of_steps(sizes, plan.batch):
            rows = sum(n for _, n in shares)
            own = {name: share for name, share in zip(names, shares, strict=True) if share[1]}
            if rows < plan.batch and learnt + rows < plan.releases.horizon:  # no step, unless the run ends with it
                learn_rest(self, run, session.ask("rows", own), learnt)
            elif learnt >= state.n_rows:
                total = np.zeros(plan.problem.dim)
                try:
                    answers = session.ask("gradients", steps, state.point(), own)
                    counts = self._add_up(total, session, answers, own, plan.bound)
                    state.learn_step(total, rows)
                finally:
                    wipe(total)
                state.count(*counts)
                self._keep_sums(run, rows)
            learnt += rows

    @staticmethod
    def _add_up(
        total: NDArray[np.float64], session: Session, answers: Any, own: dict[str, tuple[int, int]], bound: float
    ) -> tuple[int, int]:
        """Add the parts' sums, in their order: each no longer than its rows allow, or the worker was wrong."""
        clipped = null = 0
        for part, answer in zip(session.parts, answers, strict=True):
            if answer is None:
                continue
            found, scaled, nothing = answer
            n = own[part.name][1]
            if found.shape != total.shape or not vector_norm(found) <= n * bound * _LONGER:
                part_failed(part.name, f"a worker has sent what is no sum of {n} gradients of norm at most {bound:g}")
            total += found
            if found.flags.writeable:
                wipe(found)
            clipped, null = clipped + scaled, null + nothing
        return clipped, null
