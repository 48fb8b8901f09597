"""Learners that perturb gradients inside the loop: noisy online gradient descent.

The gradient of each step is taken at a public point and perturbed before any other use. So a row enters only one
Gaussian mechanism, and the whole transcript costs what a single step costs, whatever its length.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from numpy.typing import NDArray

from .. import calibration as calibrate
from .._core._gradient import GradientRun
from .._core._noise import Source
from ..calibration import GradientCalibration
from ..geometry import ConvexSet
from ..ledger import Ledger
from ..losses import Loss
from ._asking import AskingLearner
from ._frame import RunFrame

__all__ = ["NOGD"]


class NOGD(AskingLearner[GradientCalibration]):
    """Noisy online gradient descent: one pass, noise on the gradient of every step, every point public.

    Step j takes the gradients of ``batch`` rows at the current point w, and moves to
    ``Proj(w - eta_j (mean gradient + l2 w + noise / batch))``. The noise does not grow with the number of rows.
    Released: every point. Secret: the gradients of the rows since the last step, and the noise. So a run that crashed
    may go on from its last point.

    Parameters
    ----------
    loss : str or Loss, default="logistic"
        ``"logistic"``, ``"hinge"``, ``"smooth_hinge"`` (classification, two classes), ``"squared"``, ``"absolute"``,
        ``"huber"`` (regression), or an object of :mod:`privol.losses`, such as ``losses.Custom``.
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
        With ``rows_per_user``: any two rows of a user are at least this many rows apart. Counts where ``batch`` is
        above 1: the fewer of them are in one step, the less noise. Unless the stream says that it keeps both, nobody
        checks them, and the guarantee says so.
    adjacency : {"replace", "zero_out"}, default="replace"
        What may differ between neighbouring streams: any content of one row, or whether it is there.
    ledger : Ledger, optional
        Shared budget. Default: one of the learner's own, without a limit.
    horizon : int, optional
        Rows of the run; it does not change the noise. Default: ``fit`` and sized streams take their number of rows.
    radius : float, default=1.0
        Radius of the L2 ball of models.
    domain : ConvexSet, optional
        Another feasible set instead of the ball.
    x_bound : float, default=1.0
        Public bound of a row's L2 norm, above 0; longer rows are scaled to it.
    y_bound : float, default=1.0
        Public bound of a real target's magnitude; targets beyond are clipped to it.
    l2 : float, default=0.0
        Strong convexity: every row's loss gets ``l2 / 2 ||w||^2``, and step j has length ``1 / (l2 j)``. 0: it has
        length ``diam / (sqrt(G^2 + dim (sigma / batch)^2) sqrt(j))``, with G the gradients' bound and diam the set's
        diameter, which needs nothing of the losses but convexity.
    batch : int, default=1
        Rows of a step, 1 to 2**20. The noise is on the sum of their gradients; the horizon ends a last, smaller step.
        Rows of a step that a run leaves unfinished are not learnt.
    gradient_bound : float, optional
        Public bound of a row's gradient in L2 norm, 1e-30 to 1e30; longer ones are scaled to it. Required for ``tell``.
        The noise is then scaled to it (twice that for ``"replace"``) instead of to the loss's own gradients.
    release : {"all", "last"}, int or list of int, optional
        Which points ``coef_`` and ``average_coef_`` show, by row number. Default: all. Without effect on the noise.
    fit_intercept : bool, default=True
        Append the constant 1 to every row; the calibration counts it, and it is regularised like the rest.
    on_invalid : {"raise", "zero"}, default="raise"
        A row that is not finite, or a label outside the set: an error that names it, or a counted null row.
    random_state : None, int, BitGenerator or Generator, optional
        ``None``: noise that cannot be reproduced. Any other value is for tests, and marks every export as not private.

    Attributes
    ----------
    coef_, intercept_ : ndarray
        The last released model; ``average_coef_``, ``average_intercept_``: the mean of all released ones, which the
        regret bound is about.
    guarantee_ : Guarantee
    ledger_ : Ledger
        The first step is charged with the whole run's cost; the others are then free.
    n_rows_, n_releases_ : int
    classes_ : ndarray of shape (2,)

    Notes
    -----
    With sigma the noise of one step (``calibrate(...).sigma``), G as above and n rows, the expected regret is at most
    ``(G^2 + dim sigma^2) (1 + ln n) / (2 l2)`` for ``l2 > 0`` and ``1.5 diam sqrt((G^2 + dim sigma^2) n)`` for
    ``l2 = 0`` (``batch=1``).

    Cost per row: two passes over its non-zeros; per step O(n_features) with as many noise words. Memory O(n_features).

    References
    ----------
    Song, Chaudhuri, Sarwate, "Stochastic gradient descent with differentially private updates", 2013; the guarantee
    is ``docs/proofs/gradients.md``.

    Examples
    --------
    >>> import numpy as np
    >>> from privol import NOGD
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20000, 3)) / 3
    >>> y = np.where(X @ [1.0, -2.0, 0.5] > 0, "yes", "no")
    >>> learner = NOGD(epsilon=1.0, delta=1e-6, radius=5.0, batch=100).fit(X, y)
    >>> bool(learner.score(X, y) > 0.8)
    True
    """

    _perturbed = "sum of a step's gradients"
    # gradients of constant size, and a ball that the iterates do not leave: the sensitivity is attained
    worst: ClassVar[Mapping[str, Any]] = {"loss": "hinge", "l2": 1.0, "radius": 1e3, "batch": 128}
    worst_of_users: ClassVar[Mapping[str, Any]] = {"l2": 1e4}

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
        batch: int = 1,
        gradient_bound: float | None = None,
        release: Any = None,
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
        self.domain = domain
        self.x_bound = x_bound
        self.y_bound = y_bound
        self.l2 = l2
        self.batch = batch
        self.gradient_bound = gradient_bound
        self.release = release
        self.fit_intercept = fit_intercept
        self.on_invalid = on_invalid
        self.random_state = random_state

    # ---- for the base class -------------------------------------------------------------------------

    def calibrate(
        self, n_features: int, horizon: int, release: Any = None, *, n_classes: int = 2
    ) -> GradientCalibration:
        """Return the calibration of a run before anything is spent.

        Parameters
        ----------
        n_features : int
            Features of a row, at least 1, the intercept not counted.
        horizon : int
            Rows, at least 1.
        release : optional
            As the parameter ``release``; default: that parameter.

        Returns
        -------
        GradientCalibration
            Sensitivity and noise of a step, the proven mu, step lengths. All of it is public.
        """
        return calibrate.calibrate_gradients(
            self._problem(n_features, horizon, n_classes),
            self._budget(),
            release=self._default_release(whole=True) if release is None else release,
            l2=self.l2,
            batch=self.batch,
            gradient_bound=self.gradient_bound,
        )

    def regret_bound(self, n_rows: int, n_features: int | None = None, *, n_classes: int = 2) -> float:
        """Return the theorem's bound of the expected regret of ``n_rows`` rows, which are the horizon too.

        Against the best fixed point of the set, over the randomness of the noise; for convex losses whose gradients are
        within the calibration's ``bound``, chosen without looking at the noise; with ``l2`` above 0 of the regularised
        losses. Default of ``n_features``: the last run's.

        Raises
        ------
        InvalidParameter
            If nothing is proved for these settings, or the number of features is not known yet.
        """
        return self.calibrate(self._width(n_features), n_rows, n_classes=n_classes).regret_bound(n_rows)

    def build(
        self, plan: GradientCalibration, source: Source | None, classes: NDArray[Any] | None = None
    ) -> GradientRun:
        """See :meth:`GaussianLearner.build`."""
        return GradientRun(
            RunFrame(plan.problem, plan.releases, source),
            magnitude=plan.batch * plan.bound * 1.01,
            std=plan.sigma,
            sensitivity=plan.factor * plan.sum_sensitivity,  # the charge is what the budget covers
            bound=plan.bound,
            batch=plan.batch,
            l2=plan.l2,
            length=plan.length,
        )
