"""Descent on loss values alone (bandit feedback): a device answers with one randomized number."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import calibration as calibrate
from .._core._bandit import BanditRun
from .._core._noise import Source
from .._core._vectors import VectorSampler
from .._validate import choice, integer, number
from .._values import array_of
from .._vocabulary import CALIBRATIONS
from ..calibration import BanditCalibration, Problem, ReportNoise
from ..errors import InvalidParameter, StateError
from ..geometry import ConvexSet
from ..guarantees import square_up
from ..ledger import Ledger
from ..losses import Loss
from ..noise import STREAM_REPORTS, STREAM_SAMPLES, granularity, make_source
from ..randomizers import compiled
from ._frame import RunFrame
from ._local import LocalLearner

__all__ = ["BanditMIOGD"]

FloatArray = NDArray[np.float64]


def _directions(source: Source, dim: int, first: int, n: int) -> FloatArray:
    """Directions of the rounds from ``first`` on, each uniform, public and a function of its number alone."""
    if dim == 1:
        words = [source.words(stream=STREAM_SAMPLES, level=0, block=0, row=first + k)[0] for k in range(n)]
        return np.array([[1.0 if word & 1 else -1.0] for word in words])
    step = granularity(1.0 / math.sqrt(dim))
    sampler = VectorSampler(source, kind="sphere", scale=1.0, step=step, dim=dim, stream=STREAM_SAMPLES, row=first)
    found: FloatArray = sampler.sample(n)
    return found


class BanditMIOGD(LocalLearner[BanditCalibration]):
    """Online gradient descent with mutual-information privacy and bandit feedback: devices send one noisy value.

    Each round the learner draws a public direction e and asks for the loss at ``x = (1 - distance / r) w + distance
    e``, which is in the set. The device sends the value, clipped and randomized, and the learner steps along e.
    Released: every report, the points, and everything computed from them. Secret, on the device: the row, its loss,
    the noise.

    Parameters
    ----------
    loss : str or Loss, default="logistic"
        ``"logistic"``, ``"hinge"``, ``"smooth_hinge"`` (classification, two classes), ``"squared"``, ``"absolute"``,
        ``"huber"`` (regression), or an object of :mod:`privol.losses`. ``tell`` takes values of any loss.
    leakage : float, optional
        Mutual information of a row and its report, in nats (1 nat = 1.4427 bits), above 0. Default, if none of
        ``leakage``, ``sigma`` and ``epsilon`` is given: 0.1. ``inf``: no noise and no guarantee.
    sigma : float, optional
        Instead: standard deviation of the noise, above 0.
    epsilon : float, optional
        Instead: local differential privacy, at ``delta`` for "gaussian"; ``inf``: no noise and no guarantee.
    delta : float, default=1e-6
        Additive term of approximate privacy, in (0, 1): epsilon is stated at it.
    randomizer : {"gaussian", "laplace", "privunit"}, default="gaussian"
        The last two with ``epsilon``; "privunit" is the two-point mechanism here, which has the least variance.
    adjacency : {"replace", "zero_out"}, default="replace"
        What may differ between neighbouring streams: any content of one row, or whether it is there. It concerns
        epsilon, not the leakage.
    ledger : Ledger, optional
        Shared budget. Default: one of the learner's own, without a limit.
    horizon : int, optional
        Rows of the run; it does not change the noise, except with ``calibration="published"``. Default: ``fit`` and
        sized streams take their number of rows.
    radius : float, default=1.0
        Radius of the L2 ball of models.
    domain : ConvexSet, optional
        Another feasible set instead of the ball, with 0 inside.
    x_bound : float, default=1.0
        Public bound of a row's L2 norm, above 0; longer rows are scaled to it.
    y_bound : float, default=1.0
        Public bound of a real target's magnitude; targets beyond are clipped to it.
    value_bounds : (float, float), optional
        Public interval that losses are clipped to. Default: from 0 to the largest loss of a row over the set. With
        ``calibration="published"`` it bounds losses over the set, and losses at points outside are clipped to an
        interval wider by ``L distance``.
    gradient_bound : float, optional
        Public bound of a row's gradient in L2 norm, the Lipschitz constant of the losses. It determines the distances;
        for a pair, half the difference divided by the distance is clipped to it. Default: the loss's own over the set.
    values : {1, 2}, default=1
        2: losses at both sides of the point; the device sends half their difference, divided by the distance. Its noise
        does not grow as the distance shrinks: the regret is at most that of gradients, times the dimension.
    shrink : bool, default=True
        False: points are not shrunk towards 0, and may leave the set by the distance: ``value_bounds`` and
        ``gradient_bound`` have to be given, and hold there too. Without effect with ``calibration="published"``.
    step : {"anytime", "horizon"}, default="anytime"
        Distances and steps by the round, or the best constant ones for the horizon.
    calibration : {"tight", "published"}, default="tight"
        "published": the source's noise (Algorithm 2), with ``step="horizon"`` and one value. The points asked for are
        ``B T^(-1/4)`` away from w, possibly outside of the set (T: the horizon, B: the largest norm in the set).
        Reports have all d coordinates of ``(d / distance) f e``, for losses f within F over the set, with noise
        for vectors of length ``d (F / distance + L)``, L the ``gradient_bound``. ``sigma`` is per coordinate.
    release : {"all", "last"}, int or list of int, optional
        Which points w ``coef_`` and ``average_coef_`` show, by row number. Default: all. Without effect on the noise.
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
        The last released point w, noisy; ``average_coef_``, ``average_intercept_``: the mean of all released ones.
    guarantee_ : Guarantee
    ledger_ : Ledger
        The first report is charged with the whole run's cost; the others are then free.
    n_rows_, n_releases_ : int
    classes_ : ndarray of shape (2,)

    Notes
    -----
    The expected regret of the points asked for grows as ``n^(3/4)``, with two values as ``sqrt(n)``:
    :meth:`regret_bound`. The published algorithm adds noise to the whole estimate, with a variance that has to grow
    with the number of rounds for a fixed leakage. Here only the scalar has noise, as the direction is public.
    The guarantee of ``calibration="published"`` is for any vector within the bound, so ``leakage`` is that of the
    paper's formula. As the direction is public, a report reveals at most ``ln(1 + (bound / sigma)^2) / 2``
    nats, which is less; and with a stated ``sigma`` the leakage grows with the horizon (ZV-7, ZV-8 in
    ``docs/errata.md``).

    Cost per row: one or two passes over its non-zeros, O(n_features). Memory O(n_features).

    References
    ----------
    Zhang, Venkitasubramaniam, "Mutual-information-private online gradient descent algorithm", ICASSP 2018, Theorems 3
    and 4; its errors are in ``docs/errata.md``. Flaxman, Kalai, McMahan, "Online convex optimization in the bandit
    setting", 2005.

    Examples
    --------
    A black box, asked for its value at one point per round:

    >>> import numpy as np
    >>> from privol import BanditMIOGD
    >>> words = {"value_bounds": (0.0, 2.0), "gradient_bound": 1.0, "horizon": 20000, "fit_intercept": False}
    >>> learner = BanditMIOGD(leakage=1.0, **words)
    >>> point = learner.ask(n_features=2)
    >>> for _ in range(20000):
    ...     learner = learner.tell(value=float(np.hypot(*(point - [0.5, -0.25]))))
    ...     point = learner.ask()
    >>> bool(np.hypot(*(learner.average_coef_.ravel() - [0.5, -0.25])) < 0.4)
    True
    """

    _perturbed = "value of a loss"

    def __init__(
        self,
        *,
        loss: str | Loss = "logistic",
        leakage: float | None = None,
        sigma: float | None = None,
        epsilon: float | None = None,
        delta: float = 1e-6,
        randomizer: str = "gaussian",
        adjacency: str = "replace",
        ledger: Ledger | None = None,
        horizon: int | None = None,
        radius: float = 1.0,
        domain: ConvexSet | None = None,
        x_bound: float = 1.0,
        y_bound: float = 1.0,
        value_bounds: tuple[float, float] | None = None,
        gradient_bound: float | None = None,
        values: int = 1,
        shrink: bool = True,
        step: str = "anytime",
        calibration: str = "tight",
        release: Any = None,
        fit_intercept: bool = True,
        on_invalid: str = "raise",
        random_state: Any = None,
    ) -> None:
        self.loss = loss
        self.leakage = leakage
        self.sigma = sigma
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
        self.value_bounds = value_bounds
        self.gradient_bound = gradient_bound
        self.values = values
        self.shrink = shrink
        self.step = step
        self.calibration = calibration
        self.release = release
        self.fit_intercept = fit_intercept
        self.on_invalid = on_invalid
        self.random_state = random_state

    def regret_bound(self, n_rows: int, n_features: int | None = None) -> float:
        """Return the bound of the expected regret of ``n_rows`` rows, which are the horizon too.

        The regret of the points asked for (for a pair the mean of both) against the best fixed point of the set, for
        convex losses within ``value_bounds`` and with ``gradient_bound`` as their Lipschitz constant. ``n_features``:
        by default those of the last run.
        """
        return self.calibrate(self._width(n_features), n_rows).regret_bound(n_rows)

    def tell(self, *, value: ArrayLike | None = None, report: ArrayLike | None = None) -> Self:  # type: ignore[override]
        """Learn one row by the loss at the points that ``ask`` returns, or by a device's report of it.

        Parameters
        ----------
        value : float, or array-like of shape (2,) where ``values`` is 2
            Values of any loss: secret. They are clipped to their interval and randomized here, as a device would do it.
        report : float or array-like
            The result of a device's randomizer (:meth:`device`): for a value v of ``v - (low + high) / 2``, v clipped
            to ``value_bounds``; for two values of half their difference divided by the round's distance
            (``calibrate(...).distance_at(round)``). With ``calibration="published"`` an array of the shape of the
            point: of ``d v / distance`` times the round's direction. No noise is added to it.

        Returns
        -------
        self

        Raises
        ------
        InvalidParameter
            If not one of the two is given, the shape is wrong, or a number is NaN (``on_invalid="zero"``: such a value
            is the null row's). Nothing was learnt or spent.
        BudgetExceeded
            If the horizon is used up.
        StateError
            If no run is open: ``ask`` begins it.
        """
        if (value is None) == (report is None):
            raise InvalidParameter("tell() takes a value or a report: one of the two")
        run = self._current_run()
        if run is None:
            raise StateError("ask() comes before tell(): a value is taken at the point that it returns")
        state = cast(BanditRun, run.state)
        numbers = np.ascontiguousarray(array_of(report if value is None else value)).reshape(-1)
        if value is None:
            state.receive(numbers)
            return self
        skipped = not run.targets.refuse and bool(np.isnan(numbers).any())
        state.tell(None if skipped else numbers)
        return self

    # ---- for the base class -------------------------------------------------------------------------

    def calibrate(self, n_features: int, horizon: int, release: Any = None, *, n_classes: int = 2) -> BanditCalibration:
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
        BanditCalibration
            The reports' noise, the proven guarantee, distances and steps. All of it is public.
        """
        problem = self._problem(n_features, horizon, n_classes)
        published = self._published()
        if self.gradient_bound is None and not self.shrink and not published:
            raise InvalidParameter("gradient_bound must be given where shrink is false: points leave the set")
        slope, row_bound = calibrate.bound_of_gradients(problem, self.gradient_bound)
        pair = integer(values=self.values, at_least=1, at_most=2) == 2
        low, high = self._interval(problem, row_bound)
        if published:
            distance, (low, high), bound = calibrate.published_values(problem, (low, high), slope)
            report = self._report(problem.dim, bound)
        else:
            distance, report = None, self._report(1, slope if pair else 0.5 * (high - low))
        return calibrate.calibrate_bandit(
            problem,
            report,
            row_bound=row_bound,
            release=self._default_release(whole=True) if release is None else release,
            interval=(low, high),
            slope=slope,
            pair=pair,
            shrink=bool(self.shrink) and not published,
            step=self.step,
            published=distance,
        )

    def _published(self) -> bool:
        """Whether the run is Algorithm 2 as published, which fixes the kind of noise, the steps and the values."""
        if choice(CALIBRATIONS, calibration=self.calibration) == "tight":
            return False
        only = {"randomizer": "gaussian", "step": "horizon", "values": 1}
        for name, value in only.items():
            if (found := getattr(self, name)) != value:
                raise InvalidParameter(f'calibration="published" needs {name}={value!r}, found {found!r}')
        return True

    def _device_horizon(self) -> int:
        # as published, the horizon determines the noise, so a device must know the run's
        return integer(horizon=self.horizon, at_least=1) if self._published() else 1

    def _interval(self, problem: Problem, row_bound: float) -> tuple[float, float]:
        if self.value_bounds is None:
            if problem.loss.vouched is not None:
                raise InvalidParameter("value_bounds must be given: the values of the user's own loss are not known")
            if not self.shrink and not self._published():
                raise InvalidParameter("value_bounds must be given where shrink is false: points leave the set")
            most = row_bound * problem.domain.norm_bound(problem.dim)
            return calibrate.bounds_of_values(problem.loss, most=most, y_bound=problem.y_bound)
        try:
            low, high = (number(value_bounds=value, at_least=-1e30, at_most=1e30) for value in self.value_bounds)
        except TypeError:
            raise InvalidParameter(f"value_bounds must be two numbers, found {self.value_bounds!r}") from None
        if not high - low >= 1e-30:
            raise InvalidParameter(f"value_bounds must ascend, found {self.value_bounds!r}")
        return low, high

    def _report(self, dim: int, bound: float) -> ReportNoise:
        name = choice(("gaussian", "laplace", "privunit"), randomizer=self.randomizer)
        if name == "gaussian":
            return self._leaking(dim, bound)
        if self.epsilon is None:
            raise InvalidParameter(f"epsilon must be given for randomizer={name!r}")
        return self._randomized(dim, bound)

    def build(self, plan: BanditCalibration, source: Source | None, classes: NDArray[Any] | None = None) -> BanditRun:
        """See :meth:`GaussianLearner.build`."""
        ahead = make_source(self.random_state) if source is None else source
        directions: Callable[[int, int], FloatArray] = partial(_directions, ahead, plan.dim)
        return BanditRun(
            RunFrame(plan.problem, plan.releases, source, STREAM_REPORTS),
            report=compiled(plan.report),
            magnitude=plan.report.bound * 1.01,
            cost=square_up(plan.mu),
            directions=directions,
            pair=plan.pair,
            low=plan.low,
            high=plan.high,
            inner=plan.inner,
            distance=plan.distance,
            most=plan.most,
            length=plan.length,
            fixed=plan.fixed,
            whole=plan.whole,
        )
