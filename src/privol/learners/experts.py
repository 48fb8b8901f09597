"""A parameter-free learner on reports by experts: magnitudes of many scales along one direction are aggregated.

All experts see the same reports, made at the mean of their points: post-processing of reports costs nothing.
"""

from __future__ import annotations

from typing import Any

from .. import calibration as calibrate
from .._validate import choice, number
from .._vocabulary import PROXIES
from ..calibration import Betting, LocalCalibration, Problem, ReleaseSchedule, ReportNoise
from ..geometry import ConvexSet, WholeSpace
from ..ledger import Ledger
from ..losses import Loss
from ._local import GradientReportLearner

__all__ = ["MultiscaleSGD"]


class MultiscaleSGD(GradientReportLearner):
    """Projected descents on balls of many radii, aggregated, with local differential privacy and nothing to tune.

    A direction q moves by scale-free steps in the unit ball; expert k proposes ``R_k q``, which is projected descent on
    the ball of radius R_k, with radii from a thousandth to a thousand over the gradients' bound. The learner plays
    their weighted mean. The weights follow the regularised leader on the linearised losses, which are corrected for the
    noise of each expert, at a rate proportional to ``1 / R_k``. So the learner needs neither the size of the best model
    nor a step size. Released: every report, and everything computed from them. Secret, on the device: the row, its
    gradient, the noise.

    Parameters
    ----------
    loss : str or Loss, default="logistic"
        ``"logistic"``, ``"hinge"``, ``"smooth_hinge"`` (classification, two classes), ``"absolute"``, ``"huber"``
        (regression), or an object of :mod:`privol.losses`; ``"squared"`` with a ``gradient_bound``.
    epsilon : float, default=1.0
        Local differential privacy of every report, above 0; ``inf``: no noise and no guarantee.
    delta : float, default=1e-6
        Additive term of approximate privacy, in (0, 1): of the Gaussian randomizer, which is not pure.
    randomizer : {"privunit", "duchi", "l2laplace", "laplace", "gaussian"}, default="privunit"
        Of :mod:`privol.randomizers`. "privunit" and "duchi" have a sub-Gaussian constant that is the supremum of a
        grid, so the regret bound is numerical there unless ``proxy="hoeffding"``; privacy is proved for all.
    adjacency : {"replace", "zero_out"}, default="replace"
        What may differ between neighbouring streams: any content of one row, or whether it is there.
    ledger : Ledger, optional
        Shared budget. Default: one of the learner's own, without a limit.
    horizon : int, optional
        Rows of the run; it changes nothing else. Default: ``fit`` and sized streams take their number of rows.
    x_bound : float, default=1.0
        Public bound of a row's L2 norm, above 0; longer rows are scaled to it.
    y_bound : float, default=1.0
        Public bound of a real target's magnitude; targets beyond are clipped to it.
    gradient_bound : float, optional
        Public bound of a row's gradient in L2 norm; longer ones are scaled to it. Default: the loss's own.
    smallest_radius, largest_radius : float, default=1e-3 and 1e3
        Radii of the experts, in units of one over the gradients' bound: roughly of scores, for rows as long as
        ``x_bound``.
    radii_per_decade : int, default=2
        At most 64 radii in all.
    prior_decay : float, default=0.15
        0 to 2: an expert's weight at the start is proportional to ``R_k ** -prior_decay``. A larger value starts more
        carefully, and takes longer to reach large models.
    theta : float, default=0.25
        Above 0, at most 0.99: how near rates come to the limit at which exponential moments of Laplace noise end.
    proxy : {"numerical", "hoeffding"}, default="numerical"
        The sub-Gaussian constant of "privunit" and "duchi".
    direction_step : float, default=1.4
        Step of the direction, as a multiple of one over the root of the sum of the reports' squared norms.
    release : {"all", "last"}, int or list of int, optional
        Which points ``coef_`` and ``average_coef_`` show, by row number. Default: all. Without effect on the noise.
    averaging : {"uniform", "linear", "quadratic"}, default="quadratic"
        ``average_coef_`` weights released models equally, or the k-th in proportion to k or to k (k + 1).
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
        The last released model, noisy; ``average_coef_``, ``average_intercept_``: the weighted mean of all released
        ones. Use these: single points are large at the start, while the weights find the radius.
    guarantee_ : Guarantee
    ledger_ : Ledger
        The first report is charged with the whole run's cost; the others are then free.
    n_rows_, n_releases_ : int
    classes_ : ndarray of shape (2,)

    Notes
    -----
    For every model u within the largest radius the expected regret is at most the sum of three terms,
    :meth:`regret_bound`: of the direction, about ``2.83 ||u|| sqrt(n E ||report||^2)``; of the weights, about ``2 ||u||
    sqrt(2 n V ln(1 / prior))``, with V the noise's proxy over 2 and the square of the gradients' bound; and of the
    start, some times ``sqrt(n V)`` times the prior's mean radius, the largest term for small models. For rows from one
    law, with all points released and weighted k (k + 1), the average has an excess risk of at most three times this
    bound per row.

    With the same reports it was within 1.5 times the excess risk of gradient descent with the best constant step in
    hindsight, averaged over all its points, in all settings of ``docs/local.md`` except one, Covertype and Adult
    included. With the quadratic average that step is ahead by a factor of up to 2 in two dimensions.

    Cost per row: two passes over its non-zeros, O(n_features) with as many noise words, some rounds of one exponential
    for each radius. Memory O(n_features).

    References
    ----------
    The bound is ``docs/proofs/experts.md``. Rates of each expert's own: Bubeck, Devanur, Huang, Niazadeh, "Multi-scale
    online learning", 2019; Chen, Luo, Wei, "Impossible tuning made possible", 2021. The correction: Jun, Orabona,
    "Parameter-free locally differentially private stochastic subgradient descent", 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from privol import MultiscaleSGD
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20000, 3)) / 3
    >>> y = np.where(X @ [1.0, -2.0, 0.5] > 0, "yes", "no")
    >>> learner = MultiscaleSGD(epsilon=2.0).fit(X, y)
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
        x_bound: float = 1.0,
        y_bound: float = 1.0,
        gradient_bound: float | None = None,
        smallest_radius: float = 1e-3,
        largest_radius: float = 1e3,
        radii_per_decade: int = 2,
        prior_decay: float = 0.15,
        theta: float = 0.25,
        proxy: str = "numerical",
        direction_step: float = 1.4,
        release: Any = None,
        averaging: str = "quadratic",
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
        self.x_bound = x_bound
        self.y_bound = y_bound
        self.gradient_bound = gradient_bound
        self.smallest_radius = smallest_radius
        self.largest_radius = largest_radius
        self.radii_per_decade = radii_per_decade
        self.prior_decay = prior_decay
        self.theta = theta
        self.proxy = proxy
        self.direction_step = direction_step
        self.release = release
        self.averaging = averaging
        self.fit_intercept = fit_intercept
        self.on_invalid = on_invalid
        self.random_state = random_state

    def regret_bound(self, u_norm: float, n_rows: int, n_features: int | None = None) -> float:
        """Return the bound of the expected regret against every model of one norm, after ``n_rows`` rows.

        Parameters
        ----------
        u_norm : float
            L2 norm of the model, its intercept included, at least 0; beyond the largest radius the bound is infinite.
        n_rows : int
            At least 1.
        n_features : int, optional
            At least 1; default: those of the last run.
        """
        plan = self.calibrate(self._width(n_features), n_rows)
        assert plan.experts is not None
        return calibrate.experts_regret(self._betting(plan.report), plan.experts, u_norm, n_rows, step=plan.length)

    def _domain(self) -> ConvexSet:
        return WholeSpace()

    def _report(self, dim: int, bound: float) -> ReportNoise:
        return self._randomized(dim, bound)

    def _betting(self, report: ReportNoise) -> Betting:
        return calibrate.betting_of(
            report,
            theta=number(theta=self.theta, above=0.0, at_most=0.99),
            proxy=choice(PROXIES, proxy=self.proxy),
            calibration="tight",
        )

    def _steps(self, problem: Problem, report: ReportNoise, row_bound: float, release: Any) -> LocalCalibration:
        experts = calibrate.experts_of(
            self._betting(report),
            smallest=self.smallest_radius,
            largest=self.largest_radius,
            per_decade=self.radii_per_decade,
            prior_decay=self.prior_decay,
        )
        return LocalCalibration(
            problem=problem,
            releases=ReleaseSchedule.of(release, problem.horizon),
            report=report,
            gradient_bound=report.bound,
            row_bound=row_bound,
            update="experts",
            pace="constant",
            length=number(direction_step=self.direction_step, above=0.0, at_most=1e3),
            experts=experts,
        )
