"""Learners that perturb released iterates: private online convex programming with implicit or gradient steps.

The secret iterate is never perturbed itself; each *released* iterate is a Gaussian mechanism on all rows so far, and
the releases compose. So few releases need little noise, and releasing after every row needs much: learners with the
noise inside the loop are then better. These learners are for runs that release few models, and for fidelity to the
papers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from numpy.typing import NDArray

from .. import calibration as calibrate
from .._core._iterate import IterateRun
from .._core._noise import Source
from .._validate import choice
from ..calibration import L2_SCHEDULES, NOISE_SHAPES, IterateCalibration
from ..errors import InvalidParameter
from ..geometry import ConvexSet
from ..ledger import Ledger
from ..losses import Loss
from ._base import Run
from ._frame import RunFrame
from ._gaussian import GaussianLearner

__all__ = ["PGIGA", "PIGD"]


class _IterateLearner(GaussianLearner[IterateCalibration]):
    _update: ClassVar[str]

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
        l2: float = 0.01,
        l2_schedule: str = "constant",
        step_offset: float | None = None,
        release: Any = None,
        noise_shape: str = "lipschitz",
        fit_intercept: bool = True,
        calibration: str = "tight",
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
        self.l2_schedule = l2_schedule
        self.step_offset = step_offset
        self.release = release
        self.noise_shape = noise_shape
        self.fit_intercept = fit_intercept
        self.calibration = calibration
        self.on_invalid = on_invalid
        self.random_state = random_state

    def _default_release(self, whole: bool) -> Any:
        if self.release is None and not whole:
            raise InvalidParameter(
                "release must be given for partial_fit and learn_one: 'last' (one model at the horizon or at close()), "
                "an integer k (every k-th row), 'all' (every row: much noise), or a list of row numbers"
            )
        return "last" if self.release is None else self.release

    def calibrate(
        self, n_features: int, horizon: int, release: Any = None, *, n_classes: int = 2
    ) -> IterateCalibration:
        """Return the calibration of a run before anything is spent.

        Parameters
        ----------
        n_features : int
            Features of a row, at least 1, the intercept not counted.
        horizon : int
            Rows, at least 1.
        release : optional
            As the parameter ``release``; default: that parameter, else ``"last"``.

        Returns
        -------
        IterateCalibration
            Sensitivity and noise by row, the proven mu, the release schedule. All of it is public.
        """
        return calibrate.calibrate_iterates(
            self._problem(n_features, horizon, n_classes),
            self._budget(),
            update=self._update,
            release=self._default_release(whole=True) if release is None else release,
            l2=self.l2,
            l2_schedule=choice(L2_SCHEDULES, l2_schedule=self.l2_schedule),
            step_offset=self.step_offset,
            noise_shape=choice(NOISE_SHAPES, noise_shape=self.noise_shape),
        )

    def regret_bound(self, n_rows: int, n_features: int | None = None, *, n_classes: int = 2) -> float:
        """Return the proved bound of the expected regret of ``n_rows`` rows, which are the horizon too.

        Of the regularised losses of the rows, each at the model that was released last, against the best fixed point of
        the set, over the randomness of the noise, whatever the rows are within their bounds. The more models are
        released, the more noise each has; the fewer, the older they are. Default of ``n_features``: the last run's.
        Cost O(``n_rows``).

        Raises
        ------
        InvalidParameter
            If ``release`` is not given, nothing is proved for these settings, or the number of features is not known
            yet.
        """
        if self.release is None:
            raise InvalidParameter("release must be given: regret is that of the models that rows are played with")
        return self.calibrate(self._width(n_features), n_rows, n_classes=n_classes).regret_bound(n_rows)

    def build(self, plan: IterateCalibration, source: Source | None, classes: NDArray[Any] | None = None) -> IterateRun:
        """See :meth:`GaussianLearner.build`."""
        return IterateRun(
            RunFrame(plan.problem, plan.releases, source),
            magnitude=plan.problem.domain.norm_bound(plan.problem.dim) * 1.01,
            update=self._update,
            constrained=plan.constrained,
            schedule=plan.schedule,
            refresh=plan.refresh,
        )

    def _release_last(self, run: Run) -> None:
        plan, releases = self._plan_of(run), run.plan.releases
        row = run.state.n_rows
        assert isinstance(run.state, IterateRun)
        if releases.only_last and plan.claim is None and 0 < row < releases.last_row:
            run.state.release_last(plan.last_std(row), plan.sensitivity(row))


class PIGD(_IterateLearner):
    """Private implicit gradient descent: proximal steps on each row, noise on the released iterates only.

    Released: the iterates of the release schedule, each perturbed by Gaussian noise and projected. Secret: the
    un-noised iterate, the noise. Takes every loss, kinks included.

    Parameters
    ----------
    loss : str or Loss, default="logistic"
        ``"logistic"``, ``"hinge"``, ``"smooth_hinge"`` (classification, two classes), ``"squared"``, ``"absolute"``,
        ``"huber"`` (regression), or an object of :mod:`privol.losses`, such as ``losses.Custom``.
    epsilon : float, optional
        Budget of the whole run, above 0 (default: 1, where ``mu`` is not given); ``inf``: no noise and no guarantee.
        The usual reading of 1: no conclusion about a single row becomes more than 2.7 times as likely.
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
        noise, if models are released before the last rows come. Unless the stream says that it keeps both, nobody
        checks them, and the guarantee says so.
    adjacency : {"replace", "zero_out"}, default="replace"
        What may differ between neighbouring streams: any content of one row, or whether it is there.
    ledger : Ledger, optional
        Shared budget. Default: one of the learner's own, without a limit.
    horizon : int, optional
        Rows of the run, which the budget must last for. Default: ``fit`` and sized streams take their number of rows.
    radius : float, default=1.0
        Radius of the L2 ball of models. A unit ball with unit rows bounds every score by 1 (2 with an intercept).
    domain : ConvexSet, optional
        Another feasible set instead of the ball; the step is then prox, then project, and the noise is scaled to the
        loss's gradient diameter over all models (squared loss: refused).
    x_bound : float, default=1.0
        Public bound of a row's L2 norm, above 0; longer rows are scaled to it.
    y_bound : float, default=1.0
        Public bound of a real target's magnitude; targets beyond are clipped to it.
    l2 : float, default=0.01
        Strong convexity: every row's loss gets ``l2 / 2 ||w||^2``. The noise of the last of n releases is
        proportional to ``1 / (l2 n)``, so smaller values need longer streams.
    l2_schedule : {"constant", "inverse_sqrt"}, default="constant"
        ``"inverse_sqrt"``: row t gets ``2 l2 (sqrt(t) - sqrt(t - 1))``, about ``l2 / sqrt(t)``: for losses without
        strong convexity of their own, less bias, and noise that falls with the square root of t.
    step_offset : float, optional
        ``A_0 / l2``, in rows: the weight of the starting point. Default: 1 for PIGD, the least that makes a gradient
        step a contraction for PGIGA. Larger values damp the first steps and the noise of early releases.
    release : {"last", "all"}, int or list of int, optional
        Which iterates are published, by row number. Default: the last for ``fit`` and ``fit_stream``;
        ``partial_fit`` asks for a choice.
    noise_shape : {"lipschitz", "smooth", "paper"}, default="lipschitz"
        How the budget is spread over the releases: least total noise norm, least total squared norm, or 1/t.
    fit_intercept : bool, default=True
        Append the constant 1 to every row; the calibration counts it, and it is regularised like the rest.
    calibration : {"tight", "published"}, default="tight"
        "published": the source's noise, with ``epsilon`` and ``delta`` as its inputs; the guarantee then states the
        paper's claim and what the noise really gives.
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
    n_rows_, n_releases_ : int
    classes_ : ndarray of shape (2,)

    Notes
    -----
    Cost per row: two passes over its non-zeros, and for a release O(n_features) with as many noise words. Memory
    O(n_features). After row t a neighbouring stream moves the iterate by at most ``D / (l2 (step_offset + t))``, D the
    loss's gradient diameter.

    References
    ----------
    Jain, Kothari, Thakurta, "Differentially private online learning", 2012, Algorithm 2, eq. (13).

    Examples
    --------
    >>> import numpy as np
    >>> from privol import PIGD
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20000, 3)) / 3
    >>> y = np.where(X @ [1.0, -2.0, 0.5] > 0, "yes", "no")
    >>> learner = PIGD(epsilon=1.0, delta=1e-6, radius=5.0).fit(X, y)
    >>> bool(learner.score(X, y) > 0.9)
    True
    """

    _update = "implicit"
    # gradients of constant size, and a ball that the iterates do not leave: the sensitivity is attained
    worst: ClassVar[Mapping[str, Any]] = {"loss": "hinge", "l2": 1.0, "radius": 1e3}
    # the published noise grows with the radius, so the ball is as small as the noise of the last rows allows
    worst_published: ClassVar[Mapping[str, Any]] = {
        "l2": 0.001, "x_bound": 0.3, "radius": 40.0, "horizon": 200, "release": tuple(range(150, 200)),
    }  # fmt: skip


class PGIGA(_IterateLearner):
    """Private projected gradient descent (generalised infinitesimal gradient ascent), noise on released iterates only.

    As :class:`PIGD`, with explicit gradient steps of length ``1 / (l2 (step_offset + t))``. Needs a smooth loss:
    ``"logistic"``, ``"smooth_hinge"``, ``"squared"``, ``"huber"``, or a custom one with finite ``smoothness``. Takes
    every feasible set with every one of these.

    Parameters, attributes and costs are those of :class:`PIGD`.

    References
    ----------
    Jain, Kothari, Thakurta, "Differentially private online learning", 2012, Algorithm 3. By default the steps are
    shortened from the first row on instead of the paper's burn-in of ``2 (smoothness / l2)^2`` rows.
    """

    _update = "gradient"
    worst: ClassVar[Mapping[str, Any]] = {"loss": "smooth_hinge", "l2": 1.0, "radius": 1e3}
    worst_published: ClassVar[Mapping[str, Any]] = {
        "l2": 0.001, "x_bound": 0.03, "radius": 6.0, "horizon": 200, "release": tuple(range(100, 200, 10)),
    }  # fmt: skip
