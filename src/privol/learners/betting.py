"""Parameter-free learners on reports by coin betting: no size of the best model and no step length is needed.

The learner bets on the gain of a direction; the direction learns by scale-free steps on the unit ball. Both see only
reports, and each row is in one report, so the run costs what a report costs.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from .. import calibration as calibrate
from .._validate import choice, integer, number
from .._vocabulary import PROXIES, WEIGHTINGS
from ..calibration import BETTING_CALIBRATIONS, Betting, Coin, LocalCalibration, Problem, ReleaseSchedule, ReportNoise
from ..errors import InvalidParameter
from ..geometry import ConvexSet, WholeSpace
from ..ledger import Ledger
from ..losses import Loss
from ._local import GradientReportLearner

__all__ = ["BANCO", "AgnosticBANCO"]


class _Betting(GradientReportLearner):
    """The base of both learners: every model is allowed, and points have no step length."""

    epsilon: float
    wealth: float
    direction_step: float
    magnitude_cap: float | None

    def _domain(self) -> ConvexSet:
        return WholeSpace()

    def _report(self, dim: int, bound: float) -> ReportNoise:
        return self._randomized(dim, bound)

    def _uncapped(self) -> None:
        if self.magnitude_cap is not None:
            raise InvalidParameter("no bound of the regret is proved where magnitude_cap is given")

    def _plan(
        self, problem: Problem, report: ReportNoise, row_bound: float, release: Any, coin: Coin
    ) -> LocalCalibration:
        cap = math.inf if self.magnitude_cap is None else number(magnitude_cap=self.magnitude_cap, above=0.0)
        return LocalCalibration(
            problem=problem,
            releases=ReleaseSchedule.of(release, problem.horizon),
            report=report,
            gradient_bound=report.bound,
            row_bound=row_bound,
            update="coin",
            pace="constant",
            length=number(direction_step=self.direction_step, above=0.0, at_most=1e3),
            coin=replace(coin, wealth=number(wealth=self.wealth, above=0.0, at_most=1e30), cap=cap),
        )


class BANCO(_Betting):
    """Coin betting with local differential privacy (BANCO): the device randomizes its gradient; nothing to tune.

    The point is ``wealth m(X, Y, a) q``, with a direction q, its gain X by the reports, a bound Y on the contribution
    of their noise, and the magnitude m of a bettor with a uniform prior over its bets. Released: every
    report, and everything computed from them. Secret, on the device: the row, its gradient, the noise.

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
    theta : float, default=0.25
        Above 0, at most 0.99: how near the bets come to the limit at which exponential moments of Laplace noise end.
    weighting : {"norm", "count"}, default="norm"
        Y grows by the noise along q, or, as published, by that along a unit vector.
    proxy : {"numerical", "hoeffding"}, default="numerical"
        The sub-Gaussian constant of "privunit" and "duchi".
    calibration : {"tight", "published"}, default="tight"
        "published": the source's noise, by constants of "l2laplace" that are up to thousands of times too large.
        Without effect on privacy.
    wealth : float, default=1.0
        Initial wealth: the regret against the model of zeros, and roughly the size of the first models. More wealth
        shortens the start.
    direction_step : float, default=1.0
        Step of the direction, as a multiple of one over the root of the sum of the reports' squared norms.
    magnitude_cap : float, optional
        The magnitude m is clipped to it: a safeguard without a proof.
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
        The last released model, noisy; ``average_coef_``, ``average_intercept_``: the mean of all released ones, to
        which the regret bound carries over if rows are drawn from one law (``docs/proofs/local.md``).
    guarantee_ : Guarantee
    ledger_ : Ledger
        The first report is charged with the whole run's cost; the others are then free.
    n_rows_, n_releases_ : int
    classes_ : ndarray of shape (2,)

    Notes
    -----
    For every model u the expected regret is at most ``wealth (1 + F*(||u|| / wealth)) + 3 ||u|| sqrt(n E
    ||report||^2)``: :meth:`regret_bound`. It bounds an expectation: a path of small probability can have a large
    magnitude. Gradient descent with the best step size in hindsight nearly always has less error (``docs/local.md``);
    the advantage of BANCO is that the step need not be known.

    Cost per row: two passes over its non-zeros, O(n_features) with as many noise words, one evaluation of the magnitude
    (some 100 ns). Memory O(n_features).

    References
    ----------
    Jun, Orabona, "Parameter-free locally differentially private stochastic subgradient descent", 2019; its errors are
    in ``docs/errata.md``.

    Examples
    --------
    >>> import numpy as np
    >>> from privol import BANCO
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20000, 3)) / 3
    >>> y = np.where(X @ [1.0, -2.0, 0.5] > 0, "yes", "no")
    >>> learner = BANCO(epsilon=2.0).fit(X, y)
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
        theta: float = 0.25,
        weighting: str = "norm",
        proxy: str = "numerical",
        calibration: str = "tight",
        wealth: float = 1.0,
        direction_step: float = 1.0,
        magnitude_cap: float | None = None,
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
        self.x_bound = x_bound
        self.y_bound = y_bound
        self.gradient_bound = gradient_bound
        self.theta = theta
        self.weighting = weighting
        self.proxy = proxy
        self.calibration = calibration
        self.wealth = wealth
        self.direction_step = direction_step
        self.magnitude_cap = magnitude_cap
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
            L2 norm of the model, its intercept included, at least 0.
        n_rows : int
            At least 1.
        n_features : int, optional
            At least 1; default: those of the last run.
        """
        report = self.calibrate(self._width(n_features), n_rows).report
        self._uncapped()
        wealth, step = number(wealth=self.wealth, above=0.0), number(direction_step=self.direction_step, above=0.0)
        return calibrate.betting_regret(self._betting(report), u_norm, n_rows, wealth=wealth, step=step)

    def _betting(self, report: ReportNoise) -> Betting:
        return calibrate.betting_of(
            report,
            theta=number(theta=self.theta, above=0.0, at_most=0.99),
            proxy=choice(PROXIES, proxy=self.proxy),
            calibration=choice(BETTING_CALIBRATIONS, calibration=self.calibration),
        )

    def _steps(self, problem: Problem, report: ReportNoise, row_bound: float, release: Any) -> LocalCalibration:
        counted = choice(WEIGHTINGS, weighting=self.weighting) == "count"
        betting = self._betting(report)
        coin = Coin(bets=betting.a, drift=betting.step, counted=counted)
        return self._plan(problem, report, row_bound, release, coin)


class AgnosticBANCO(_Betting):
    """Coin betting without knowledge of the noise, which may be any symmetric one and may differ between devices.

    As :class:`BANCO`, but Y grows by the squares of the observed gains. The learner knows neither epsilon nor the scale
    of the noise, only the gradients' bound. Not the noise-agnostic algorithm of the literature (van
    der Hoeven 2019), but one with a proof of its own (``docs/proofs/betting.md``).

    Parameters
    ----------
    loss : str or Loss, default="logistic"
        ``"logistic"``, ``"hinge"``, ``"smooth_hinge"`` (classification, two classes), ``"absolute"``, ``"huber"``
        (regression), or an object of :mod:`privol.losses`; ``"squared"`` with a ``gradient_bound``.
    epsilon : float, default=1.0
        Local differential privacy of every report, above 0; ``inf``: no noise and no guarantee.
    delta : float, default=1e-6
        Additive term of approximate privacy, in (0, 1): of the Gaussian randomizer, which is not pure.
    randomizer : {"l2laplace", "laplace", "gaussian"}, default="l2laplace"
        Of :mod:`privol.randomizers`: those whose noise is symmetric whatever the gradient.
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
    growth : float, default=1.0
        Above 1/2, at most 2: Y grows by ``growth`` times the squared gain; a small value makes bets smaller.
    wealth : float, default=1.0
        Initial wealth.
    direction_step : float, default=1.0
        Step of the direction, as a multiple of one over the root of the sum of the reports' squared norms.
    magnitude_cap : float, optional
        The magnitude m is clipped to it: a safeguard without a proof.
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
        The last released model, noisy; ``average_coef_``, ``average_intercept_``: the mean of all released ones, to
        which the regret bound carries over if rows are drawn from one law (``docs/proofs/local.md``).
    guarantee_ : Guarantee
    ledger_ : Ledger
        The first report is charged with the whole run's cost; the others are then free.
    n_rows_, n_releases_ : int
    classes_ : ndarray of shape (2,)

    Notes
    -----
    Cost as :class:`BANCO`'s.
    """

    def __init__(
        self,
        *,
        loss: str | Loss = "logistic",
        epsilon: float = 1.0,
        delta: float = 1e-6,
        randomizer: str = "l2laplace",
        adjacency: str = "replace",
        ledger: Ledger | None = None,
        horizon: int | None = None,
        x_bound: float = 1.0,
        y_bound: float = 1.0,
        gradient_bound: float | None = None,
        growth: float = 1.0,
        wealth: float = 1.0,
        direction_step: float = 1.0,
        magnitude_cap: float | None = None,
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
        self.x_bound = x_bound
        self.y_bound = y_bound
        self.gradient_bound = gradient_bound
        self.growth = growth
        self.wealth = wealth
        self.direction_step = direction_step
        self.magnitude_cap = magnitude_cap
        self.release = release
        self.averaging = averaging
        self.fit_intercept = fit_intercept
        self.on_invalid = on_invalid
        self.random_state = random_state

    def regret_bound(self, u_norm: float, n_rows: int, n_features: int | None = None) -> float:
        """Return the bound of :meth:`BANCO.regret_bound`, for the noise of this learner's own randomizer."""
        report = self.calibrate(self._width(n_features), n_rows).report
        self._uncapped()
        return calibrate.agnostic_regret(
            u_norm,
            integer(n_rows=n_rows, at_least=1),
            lipschitz=report.bound,
            variance=report.deviation**2,
            second_moment=report.power - report.bound**2,
            k=self.growth,
            wealth=number(wealth=self.wealth, above=0.0),
            step=number(direction_step=self.direction_step, above=0.0),
        )

    def _report(self, dim: int, bound: float) -> ReportNoise:
        choice(("l2laplace", "laplace", "gaussian"), randomizer=self.randomizer)
        return super()._report(dim, bound)

    def _steps(self, problem: Problem, report: ReportNoise, row_bound: float, release: Any) -> LocalCalibration:
        bets = calibrate.agnostic_bet(self.growth) / report.bound
        coin = Coin(bets=bets, drift=0.0, observed=float(self.growth))
        return self._plan(problem, report, row_bound, release, coin)
