"""Learners that see only reports: gradients are randomized on users' devices, and everything after that is public."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, Self, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import calibration as calibrate
from .._core._local import LocalRun
from .._core._noise import Source
from .._validate import choice, number
from .._vocabulary import AVERAGINGS
from ..calibration import NO_LAST_ROW, RANDOMIZERS, BanditCalibration, LocalCalibration, Problem, ReportNoise
from ..errors import InvalidParameter, StateError
from ..guarantees import DELTA_TOO_LARGE, Guarantee, square_up
from ..losses import get_loss
from ..noise import STREAM_REPORTS
from ..randomizers import Randomizer, compiled, randomizer_of
from ._asking import AskingLearner
from ._base import Run
from ._frame import RunFrame

__all__ = ["GradientReportLearner", "LocalLearner"]

R = TypeVar("R", LocalCalibration, BanditCalibration)

_NO_NOISE = "double precision, no noise"
#: Nats per report by default: a guess among a million equally likely rows is then right at most once in 17 times
#: (Fano).
DEFAULT_LEAKAGE = 0.1


class LocalLearner(AskingLearner[R]):
    """Base of the learners that users need not trust: of a row, they know only the report that a device sends."""

    _perturbed = "gradient"
    _longest = (1 << 40) - 1

    # ---- the device, and the learner without it ------------------------------------------------------

    def device(self, n_features: int, *, random_state: Any = None) -> Randomizer:
        """Return what a user's device makes reports with: ``tell(report=...)`` takes what it returns.

        Parameters
        ----------
        n_features : int
            Features of a row, at least 1, the intercept not counted.
        random_state : None, int, BitGenerator or Generator
            ``None``: noise that cannot be reproduced. Any other value is for tests.

        Returns
        -------
        Randomizer
            For gradients of shape (n_features + 1,), or (n_features,) without intercept, at the point that ``ask``
            returns; of learners on values for one number, as published for the whole estimate.
        """
        run: Run | None = self.__dict__.get("_run")
        if run is None or run.closed:
            plan = self.calibrate(n_features, self._device_horizon(), "all")
            return randomizer_of(plan.report, random_state=random_state)
        if n_features != self.n_features_in_:  # as in the guarantee of the open run, whatever was set since
            raise InvalidParameter(f"n_features must be the open run's {self.n_features_in_}, found {n_features!r}")
        return randomizer_of(self._plan_of(run).report, random_state=random_state)

    def _device_horizon(self) -> int:
        """Rows that a report is calibrated for if no run is open: any number, if the noise does not depend on it."""
        return 1

    def _randomized(self, dim: int, bound: float) -> ReportNoise:
        """The implementation of ``_report`` for learners with a choice of randomizers."""
        name = choice(RANDOMIZERS, randomizer=self.randomizer)
        budget = self._budget()
        return calibrate.calibrate_report(
            name,
            dim=dim,
            bound=bound,
            adjacency=self._adjacency(),
            epsilon=budget.epsilon,
            delta=budget.delta if name == "gaussian" else None,
        )

    def _leaking(self, dim: int, bound: float) -> ReportNoise:
        """The implementation of ``_report`` for learners whose Gaussian noise is set by leakage, scale or epsilon."""
        epsilon, leakage, sigma = self.epsilon, self.leakage, self.sigma
        words = {"leakage": leakage, "sigma": sigma, "epsilon": epsilon}
        given = [word for word, value in words.items() if value is not None]
        if len(given) > 1:
            raise InvalidParameter(f"one of leakage, sigma and epsilon says how much noise: found {', '.join(given)}")
        if not given:
            leakage = DEFAULT_LEAKAGE
        if epsilon is not None:
            epsilon = number(epsilon=epsilon, above=0.0, infinite=True)
        elif sigma is not None:
            sigma = number(sigma=sigma, above=0.0)
        elif math.isinf(leakage := number(leakage=leakage, above=0.0, infinite=True)):
            epsilon, leakage = math.inf, None  # no noise
        return calibrate.calibrate_report(
            "gaussian",
            dim=dim,
            bound=bound,
            adjacency=self._adjacency(),
            epsilon=epsilon,
            delta=None if epsilon is None else self.delta,
            leakage=leakage,
            sigma=sigma,
        )

    # ---- for the base class -------------------------------------------------------------------------

    def _conditions(self) -> tuple[str, ...]:
        return (
            "every row is in one report",
            "a report that the learner is told was made by such a device as is described here, and no row has a second",
        )

    def guarantee_of(self, plan: R, *, private: bool, bit_source: str) -> Guarantee:
        """Return the guarantee of a run with the given calibration and noise bits."""
        loss, report = get_loss(self.loss), plan.report
        conditions = [
            "the bounds, the labels and all other parameters were chosen without looking at the rows",
            "whether a row was refused, by the learner or by the reader of a file, is not hidden (a device must take "
            'on_invalid="zero")',
            "whoever calls fit(), or tells gradients or values, plays the devices and sees the rows",
            *self._conditions(),
        ]
        if loss.vouched is not None:
            conditions.append(loss.vouched)
        if plan.releases.horizon >= calibrate.MOST_ROWS and self._endless():
            conditions.append(NO_LAST_ROW)
        elif self.delta * plan.releases.horizon >= 1.0 and not math.isinf(plan.mu):
            conditions.append(DELTA_TOO_LARGE)
        none = math.isinf(plan.mu)
        kind = "none" if none else "pure" if math.isfinite(report.epsilon) else "gdp"
        return Guarantee(
            kind=kind,
            parameter={"none": math.inf, "pure": report.epsilon, "gdp": report.mu}[kind],
            adjacency=self._adjacency(),
            horizon=plan.releases.horizon,
            releases=plan.releases.horizon,
            delta=number(delta=self.delta, above=0, below=1) if plan.claim is None else plan.claim.delta,
            claim=plan.claim,
            conditions=tuple(conditions),
            arithmetic=_NO_NOISE if none else report.arithmetic,
            bit_source="none" if none else bit_source,
            private=private,
            released="reports",
            leakage=report.leakage if kind == "gdp" else None,
        )


class GradientReportLearner(LocalLearner[LocalCalibration]):
    """Base of the learners whose reports are about gradients."""

    averaging: str

    # ---- to be given by the learner -----------------------------------------------------------------

    @abstractmethod
    def _report(self, dim: int, bound: float) -> ReportNoise:
        """How a device randomizes a gradient within the bound, with ``dim`` coordinates."""

    @abstractmethod
    def _steps(self, problem: Problem, report: ReportNoise, row_bound: float, release: Any) -> LocalCalibration:
        """The steps of the run on such reports."""

    def tell(self, *, gradient: ArrayLike | None = None, report: ArrayLike | None = None) -> Self:
        """Learn one row by its gradient at the point that ``ask`` returns, or by what a device made of it.

        Parameters
        ----------
        gradient : array-like of the shape that ``ask`` returns
            Of any convex loss, without the regulariser: secret. It is scaled to the gradients' bound where it is
            longer, and randomized here, as a device would do it.
        report : array-like of the same shape
            What the randomizer of a device returned: see :meth:`device`. Nothing is added to it.

        Returns
        -------
        self

        Raises
        ------
        InvalidParameter
            If not one of the two is given, the shape is wrong, or an entry is not finite (``on_invalid="zero"``: such a
            gradient is the null row's). Nothing was learnt or spent.
        BudgetExceeded
            If the horizon is used up.
        StateError
            If no run is open: ``ask`` begins it.
        """
        if (gradient is None) == (report is None):
            raise InvalidParameter("tell() takes a gradient or a report: one of the two")
        if gradient is not None:
            return super().tell(gradient=gradient)
        run = self._current_run()
        if run is None:
            raise StateError("ask() comes before tell(): a report is of a gradient at the point that it returns")
        vector = np.ascontiguousarray(report, dtype=np.float64)
        if vector.ndim != 1:
            raise InvalidParameter(f"report must have one dimension, found {vector.ndim}")
        cast(LocalRun, run.state).receive(vector)
        return self

    def _told_bound(self, run: Run | None) -> float | None:
        return math.inf if run is None else self._plan_of(run).gradient_bound

    # ---- for the base class -------------------------------------------------------------------------

    def _averaging(self) -> int:
        return AVERAGINGS.index(choice(AVERAGINGS, averaging=self.averaging))

    def calibrate(self, n_features: int, horizon: int, release: Any = None, *, n_classes: int = 2) -> LocalCalibration:
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
        LocalCalibration
            The reports' noise, the proven guarantee, step lengths. All of it is public.
        """
        problem = self._problem(n_features, horizon, n_classes)
        bound, row_bound = calibrate.bound_of_gradients(problem, self.gradient_bound)
        release = self._default_release(whole=True) if release is None else release
        return self._steps(problem, self._report(problem.dim, bound), row_bound, release)

    def build(self, plan: LocalCalibration, source: Source | None, classes: NDArray[Any] | None = None) -> LocalRun:
        """See :meth:`GaussianLearner.build`."""
        return LocalRun(
            RunFrame(plan.problem, plan.releases, source, STREAM_REPORTS),
            report=compiled(plan.report),
            magnitude=plan.gradient_bound * 1.01,
            cost=square_up(plan.mu),
            update=plan.update,
            pace=plan.pace,
            length=plan.length,
            base=plan.base,
            coin=plan.coin,
            experts=plan.experts,
            averaging=self._averaging(),
        )
