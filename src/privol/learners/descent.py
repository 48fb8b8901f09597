"""Gradient descent on reports: mutual-information-private descent and locally private stochastic gradient descent.

A local randomizer makes each report at a public point, and each row is in one report: the run costs what a report
costs.
"""

from __future__ import annotations

import math
from typing import Any

from .. import calibration as calibrate
from ..calibration import LocalCalibration, Problem, ReportNoise
from ..errors import InvalidParameter
from ..geometry import ConvexSet
from ..ledger import Ledger
from ..losses import Loss
from ._local import GradientReportLearner

__all__ = ["LDPSGD", "MIOGD"]


class MIOGD(GradientReportLearner):
    """Online gradient descent with mutual-information privacy: the device adds Gaussian noise to its gradient.

    The learner keeps theta, minus the sum of all reports, and plays ``w = Proj(step theta)``: the projection is lazy,
    theta itself is never projected. Released: every report, and everything computed from them. Secret, on the device:
    the row, its gradient, the noise.

    Parameters
    ----------
    loss : str or Loss, default="logistic"
        ``"logistic"``, ``"hinge"``, ``"smooth_hinge"`` (classification, two classes), ``"squared"``, ``"absolute"``,
        ``"huber"`` (regression), or an object of :mod:`privol.losses`, such as ``losses.Custom``.
    leakage : float, optional
        Mutual information of a row and its report, in nats (1 nat = 1.4427 bits), above 0. Default, if none of
        ``leakage``, ``sigma`` and ``epsilon`` is given: 0.1. ``inf``: no noise and no guarantee.
    sigma : float, optional
        Instead: standard deviation of the noise per coordinate, above 0.
    epsilon : float, optional
        Instead: local differential privacy at ``delta``; ``inf``: no noise and no guarantee.
    delta : float, default=1e-6
        Additive term of approximate privacy, in (0, 1): epsilon is stated at it.
    adjacency : {"replace", "zero_out"}, default="replace"
        What may differ between neighbouring streams: any content of one row, or whether it is there. It concerns
        epsilon, not the leakage.
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
    gradient_bound : float, optional
        Public bound of a row's gradient in L2 norm; longer ones are scaled to it. Default: the loss's own over the set.
    step : {"anytime", "horizon", "adaptive"}, default="anytime"
        ``B / sqrt(2 V t)``; ``B / sqrt(V T)``, the theorem's, for T the horizon; or by the norms of the reports so far,
        for which no bound is proved. B is the norm bound of the set, V bounds a report's mean squared norm.
    lazy : bool, default=True
        False: project the last point minus the step, with the same bounds of the regret for the diameter instead of B.
    release : {"all", "last"}, int or list of int, optional
        Which points ``coef_`` and ``average_coef_`` show, by row number. Default: all. Without effect on the noise.
    averaging : {"uniform", "linear", "quadratic"}, default="uniform"
        ``average_coef_`` weights released models equally, or the k-th in proportion to k or to k (k + 1). For rows from
        one law the bounds of the mean risk are then 2 or 3 times as large, and the risk itself is nearly always smaller
        (``docs/local.md``).
    fit_intercept : bool, default=True
        Append the constant 1 to every row; the calibration counts it.
    on_invalid : {"raise", "zero"}, default="raise"
        A row that is not finite, or a label outside the set: an error that names it, or a counted null row, as a
        device must do.
    random_state : None, int, BitGenerator or Generator, optional
        ``None``: noise that cannot be reproduced. Any other value is for tests, and marks every export as not private.

    Attributes
    ----------
    coef_, intercept_ : ndarray
        The last released model; ``average_coef_``, ``average_intercept_``: the mean of all released ones.
    guarantee_ : Guarantee
        ``leakage``: nats per report; it also states the same noise's local differential privacy.
    ledger_ : Ledger
        The first report is charged with the whole run's cost; the others are then free.
    n_rows_, n_releases_ : int
    classes_ : ndarray of shape (2,)

    Notes
    -----
    A report reveals at most ``leakage`` nats about its row given the reports before it, on average over the noise.
    Unlike differential privacy, this does not bound what a single outcome reveals. A guess among M equally likely
    rows is right with probability at most ``(leakage + log 2) / log M``. k reports of one user reveal at most k times
    as much. The bound holds for any point that the learner asks for: the learner need not be trusted.

    The expected regret is at most ``sqrt(2) B sqrt(V T)`` ("anytime") and ``B sqrt(V T)`` ("horizon"), with
    ``V = G^2 + dim sigma^2``: :meth:`regret_bound`.

    Cost per row: two passes over its non-zeros, O(n_features) with as many noise words. Memory O(n_features).

    References
    ----------
    Zhang, Venkitasubramaniam, "Mutual-information-private online gradient descent algorithm", ICASSP 2018, Theorems 1
    and 2; its errors are in ``docs/errata.md``.

    Examples
    --------
    >>> import numpy as np
    >>> from privol import MIOGD
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20000, 3)) / 3
    >>> y = np.where(X @ [1.0, -2.0, 0.5] > 0, "yes", "no")
    >>> learner = MIOGD(leakage=0.5, radius=5.0).fit(X, y)
    >>> bool(learner.score(X, y) > 0.7)
    True
    """

    def __init__(
        self,
        *,
        loss: str | Loss = "logistic",
        leakage: float | None = None,
        sigma: float | None = None,
        epsilon: float | None = None,
        delta: float = 1e-6,
        adjacency: str = "replace",
        ledger: Ledger | None = None,
        horizon: int | None = None,
        radius: float = 1.0,
        domain: ConvexSet | None = None,
        x_bound: float = 1.0,
        y_bound: float = 1.0,
        gradient_bound: float | None = None,
        step: str = "anytime",
        lazy: bool = True,
        release: Any = None,
        averaging: str = "uniform",
        fit_intercept: bool = True,
        on_invalid: str = "raise",
        random_state: Any = None,
    ) -> None:
        self.loss = loss
        self.leakage = leakage
        self.sigma = sigma
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.ledger = ledger
        self.horizon = horizon
        self.radius = radius
        self.domain = domain
        self.x_bound = x_bound
        self.y_bound = y_bound
        self.gradient_bound = gradient_bound
        self.step = step
        self.lazy = lazy
        self.release = release
        self.averaging = averaging
        self.fit_intercept = fit_intercept
        self.on_invalid = on_invalid
        self.random_state = random_state

    def regret_bound(self, n_rows: int, n_features: int | None = None) -> float:
        """Return the theorem's bound of the expected regret of ``n_rows`` rows, which are the horizon too.

        Against the best fixed point of the set, over the randomness of the noise; for convex losses whose gradients are
        within ``gradient_bound``, chosen without looking at the noise. Default of ``n_features``: the last run's.

        Raises
        ------
        InvalidParameter
            If nothing is proved for these steps, or the number of features is not known yet.
        """
        return self.calibrate(self._width(n_features), n_rows).regret_bound(n_rows)

    def _report(self, dim: int, bound: float) -> ReportNoise:
        return self._leaking(dim, bound)

    def _steps(self, problem: Problem, report: ReportNoise, row_bound: float, release: Any) -> LocalCalibration:
        if math.isinf(problem.domain.norm_bound(problem.dim)):
            raise InvalidParameter("MIOGD needs a set with a bound, which its steps are measured by")
        return calibrate.calibrate_steps(
            problem,
            report,
            row_bound=row_bound,
            release=release,
            step=self.step,
            lazy=bool(self.lazy),
        )


class LDPSGD(GradientReportLearner):
    """Stochastic gradient descent with local differential privacy: the device randomizes its gradient.

    ``w <- Proj(w - step (report + l2 w))``. Released: every report, and all that follows from them. Secret, on the
    device: the row, its gradient, the noise. The baseline of parameter-free learners such as :class:`privol.BANCO`.

    Parameters
    ----------
    loss : str or Loss, default="logistic"
        ``"logistic"``, ``"hinge"``, ``"smooth_hinge"`` (classification, two classes), ``"squared"``, ``"absolute"``,
        ``"huber"`` (regression), or an object of :mod:`privol.losses`, such as ``losses.Custom``.
    epsilon : float, default=1.0
        Local differential privacy of every report, above 0; ``inf``: no noise and no guarantee.
    delta : float, default=1e-6
        Additive term of approximate privacy, in (0, 1): of the Gaussian randomizer, which is not pure.
    randomizer : {"privunit", "duchi", "l2laplace", "laplace", "gaussian"}, default="privunit"
        Of :mod:`privol.randomizers`. The default has by far the least variance of the pure ones, and costs more time
        the larger epsilon is: of 1,000 coordinates 12 trials a report at epsilon 4, 295 at 8.
    adjacency : {"replace", "zero_out"}, default="replace"
        What may differ between neighbouring streams: any content of one row, or whether it is there.
    ledger : Ledger, optional
        Shared budget. Default: one of the learner's own, without a limit.
    horizon : int, optional
        Rows of the run; it does not change the noise. Default: ``fit`` and sized streams take their number of rows.
    radius : float, default=1.0
        Radius of the L2 ball of models.
    domain : ConvexSet, optional
        Another feasible set instead of the ball; ``geometry.WholeSpace()``: no projection, and ``step_size`` is needed.
    x_bound : float, default=1.0
        Public bound of a row's L2 norm, above 0; longer rows are scaled to it.
    y_bound : float, default=1.0
        Public bound of a real target's magnitude; targets beyond are clipped to it.
    l2 : float, default=0.0
        Strong convexity: every row's loss gets ``l2 / 2 ||w||^2``, and step t has length ``1 / (l2 t)``.
    gradient_bound : float, optional
        Public bound of a row's gradient in L2 norm; longer ones are scaled to it. Default: the loss's own over the set.
    step : {"anytime", "horizon", "adaptive"}, default="anytime"
        ``c / sqrt(t)``, ``c / sqrt(horizon)``, or ``c`` over the root of the sum of the squared norms of the reports so
        far.
    step_size : float, optional
        c, above 0. Default: the value that minimises the regret bound, proportional to the size of the set. Trying
        several values on the same rows costs the privacy of as many runs.
    release : {"all", "last"}, int or list of int, optional
        Which points ``coef_`` and ``average_coef_`` show, by row number. Default: all. Without effect on the noise.
    averaging : {"uniform", "linear", "quadratic"}, default="uniform"
        ``average_coef_`` weights released models equally, or the k-th in proportion to k or to k (k + 1). For rows from
        one law the bounds of the mean risk are then 2 or 3 times as large, and the risk itself is nearly always smaller
        (``docs/local.md``).
    fit_intercept : bool, default=True
        Append the constant 1 to every row; the calibration counts it, and it is regularised like the rest.
    on_invalid : {"raise", "zero"}, default="raise"
        A row that is not finite, or a label outside the set: an error that names it, or a counted null row, as a
        device must do.
    random_state : None, int, BitGenerator or Generator, optional
        ``None``: noise that cannot be reproduced. Any other value is for tests, and marks every export as not private.

    Attributes
    ----------
    coef_, intercept_ : ndarray
        The last released model, noisy; ``average_coef_``, ``average_intercept_``: the mean of all released ones, to
        which the regret bound carries over if rows are drawn from one law (``docs/proofs/local.md``).
    guarantee_ : Guarantee
    ledger_ : Ledger
        The first report is charged with the whole run's cost; the others are then free.
    n_rows_, n_releases_ : int
    classes_ : ndarray of shape (2,)

    Notes
    -----
    Cost per row: two passes over its non-zeros, O(n_features) with as many noise words ("privunit": of several trials).
    Memory O(n_features).

    References
    ----------
    Song, Chaudhuri, Sarwate, "Stochastic gradient descent with differentially private updates", 2013; PrivUnit:
    Bhowmick et al., "Protection against reconstruction and its applications in private federated learning", 2018, with
    the parameters of Asi, Feldman, Talwar, "Optimal algorithms for mean estimation under local differential privacy",
    2022.

    Examples
    --------
    >>> import numpy as np
    >>> from privol import LDPSGD
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20000, 3)) / 3
    >>> y = np.where(X @ [1.0, -2.0, 0.5] > 0, "yes", "no")
    >>> learner = LDPSGD(epsilon=2.0, radius=5.0).fit(X, y)
    >>> bool(learner.score(X, y) > 0.8)
    True
    """

    def __init__(
        self,
        *,
        loss: str | Loss = "logistic",
        epsilon: float = 1.0,
        delta: float = 1e-6,
        randomizer: str = "privunit",
        adjacency: str = "replace",
        ledger: Ledger | None = None,
        horizon: int | None = None,
        radius: float = 1.0,
        domain: ConvexSet | None = None,
        x_bound: float = 1.0,
        y_bound: float = 1.0,
        l2: float = 0.0,
        gradient_bound: float | None = None,
        step: str = "anytime",
        step_size: float | None = None,
        release: Any = None,
        averaging: str = "uniform",
        fit_intercept: bool = True,
        on_invalid: str = "raise",
        random_state: Any = None,
    ) -> None:
        self.loss = loss
        self.epsilon = epsilon
        self.delta = delta
        self.randomizer = randomizer
        self.adjacency = adjacency
        self.ledger = ledger
        self.horizon = horizon
        self.radius = radius
        self.domain = domain
        self.x_bound = x_bound
        self.y_bound = y_bound
        self.l2 = l2
        self.gradient_bound = gradient_bound
        self.step = step
        self.step_size = step_size
        self.release = release
        self.averaging = averaging
        self.fit_intercept = fit_intercept
        self.on_invalid = on_invalid
        self.random_state = random_state

    def regret_bound(self, n_rows: int, n_features: int | None = None) -> float:
        """Return the bound of :meth:`MIOGD.regret_bound`, for the regularised losses if ``l2`` is above 0."""
        return self.calibrate(self._width(n_features), n_rows).regret_bound(n_rows)

    def _report(self, dim: int, bound: float) -> ReportNoise:
        return self._randomized(dim, bound)

    def _steps(self, problem: Problem, report: ReportNoise, row_bound: float, release: Any) -> LocalCalibration:
        return calibrate.calibrate_steps(
            problem,
            report,
            row_bound=row_bound,
            release=release,
            step=self.step,
            lazy=False,
            l2=self.l2,
            step_size=self.step_size,
        )
