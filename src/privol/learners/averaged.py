"""Offline learning from an online run: one pass of implicit gradient steps, and one release of their average."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import calibration as calibrate
from .._core._iterate import IterateRun
from .._core._noise import Source, wipe
from .._validate import choice, integer, number
from ..calibration import AVERAGE_WEIGHTS, AverageCalibration, Problem, ReleaseSchedule
from ..errors import InvalidParameter
from ..geometry import ConvexSet, L2Ball
from ..ledger import Ledger
from ..losses import Loss, get_loss
from ._base import BLOCK_ROWS
from ._frame import RunFrame
from ._offline import Found, OfflineLearner, noisy

__all__ = ["POL"]

FloatArray = NDArray[np.float64]

_FROM_THE_FIRST = 3  # in the kernel's averages the point after row t has weight t + 1


class POL(OfflineLearner):
    """Private offline learning: one pass of implicit gradient descent, and noise once, on the average of its iterates.

    Released: one model, projected onto the set. Secret: all iterates, their average, the noise. One pass, so it is
    the fastest of the offline learners; it takes every loss, kinks included, and every set.

    Parameters
    ----------
    loss : str or Loss, default="logistic"
        ``"logistic"``, ``"hinge"``, ``"smooth_hinge"`` (classification, two classes), ``"squared"``, ``"absolute"``,
        ``"huber"`` (regression), or an object of :mod:`privol.losses`, such as ``losses.Custom``.
    epsilon : float, optional
        Budget of a fit, above 0 (default: 1, where ``mu`` is not given); ``inf``: no noise and no guarantee.
    delta : float, default=1e-6
        Additive term of approximate privacy, in [0, 1), well below one over the number of rows. 0: L2-Laplace noise,
        pure differential privacy. Above 0: Gaussian noise.
    mu : float, optional
        The budget as mu of Gaussian differential privacy, above 0, in place of ``epsilon``. No more than that is spent;
        ``delta`` only says at which delta the guarantee states an epsilon (``docs/equal_privacy.md``).
    rows_per_user : int, optional
        The budget covers all rows of one user together, at most this many in a fit. ``epsilon`` and ``delta`` are then
        a person's, and the noise is scaled to the change of the average by all these rows (``docs/proofs/offline.md``,
        section 3), or by group privacy with ``delta=0``. Unless the stream states that it enforces this number, nobody
        checks it, and the guarantee says so. Default: it covers one row.
    adjacency : {"replace", "zero_out"}, default="replace"
        What may differ between neighbouring streams: any content of one row, or whether it is there.
    ledger : Ledger, optional
        Shared budget. Default: one of the learner's own, without a limit.
    radius : float, optional
        Radius of the L2 ball of models. Default: of a ball that contains every minimiser; for the squared loss, whose
        noise grows with it, ``2 y_bound`` over the largest norm of a row.
    domain : ConvexSet, optional
        Another feasible set instead of the ball.
    x_bound : float, default=1.0
        Public bound of a row's L2 norm, above 0; longer rows are scaled to it.
    y_bound : float, default=1.0
        Public bound of a real target's magnitude; targets beyond are clipped to it.
    l2 : float, optional
        Strong convexity: every row's loss gets ``l2 / 2 ||w||^2``. The sensitivity is about ``2 D / (l2 n)``, D the
        diameter of a row's gradients. Default: by the rule of ``docs/offline.md``, from the numbers of rows and
        features, the budget and the bounds: noise moves the score of the longest row by a third of a unit, which is 1
        for labels and a third of `y_bound` for targets. ``calibrate(...).l2`` is its value.
    error : float, optional
        Instead: how much the regulariser may add to the risk of the best model; ``l2`` is then ``error`` over the
        squared norm bound of the set, as Theorem 12 requires. It needs a `radius` or a `domain`.
    weights : {"linear", "uniform", "last"}, default="linear"
        Iterate t counts t times in the average, or all count equally, or the last one is released.
    fit_intercept : bool, default=True
        Append the constant 1 to every row; the calibration counts it, and it is regularised like the rest.
    calibration : {"tight", "published"}, default="tight"
        "published": the source's noise (Algorithm 6; ``weights="uniform"`` and a delta); the sentence states its claim
        and the proved figure.
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
    classes_ : ndarray of shape (2,)

    Notes
    -----
    The order of rows matters to the model, not to the guarantee. How many rows suffice:
    :func:`privol.calibration.sample_size`.

    Cost per row: two passes over its non-zeros, O(n_features) for the average. Memory O(n_features).

    References
    ----------
    Jain, Kothari and Thakurta, "Differentially private online learning", 2012, Algorithm 6 and Theorems 10 to 12; what
    is wrong there is in ``docs/errata.md``, the proof of the noise in ``docs/proofs/offline.md``.

    Examples
    --------
    >>> import numpy as np
    >>> from privol import POL
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20000, 3)) / 3
    >>> y = np.where(X @ [1.0, -2.0, 0.5] > 0, "yes", "no")
    >>> learner = POL(epsilon=1.0).fit(X, y)
    >>> bool(learner.score(X, y) > 0.9)
    True
    """

    _perturbed = "average"

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
        radius: float | None = None,
        domain: ConvexSet | None = None,
        x_bound: float = 1.0,
        y_bound: float = 1.0,
        l2: float | None = None,
        error: float | None = None,
        weights: str = "linear",
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
        self.adjacency = adjacency
        self.ledger = ledger
        self.radius = radius
        self.domain = domain
        self.x_bound = x_bound
        self.y_bound = y_bound
        self.l2 = l2
        self.error = error
        self.weights = weights
        self.fit_intercept = fit_intercept
        self.calibration = calibration
        self.on_invalid = on_invalid
        self.random_state = random_state

    def calibrate(self, n_features: int, n_rows: int, n_classes: int = 2) -> AverageCalibration:
        """Return the calibration of a fit before anything is spent.

        Parameters
        ----------
        n_features : int
            Features of a row, at least 1, the intercept not counted.
        n_rows : int
            At least 1.
        n_classes : int, default=2
            Labels: two.

        Returns
        -------
        AverageCalibration
            Steps, sensitivity and noise. All of it is public.
        """
        loss = get_loss(self.loss)
        if loss.joint:
            raise InvalidParameter(f"POL learns with a single score, and the {loss.name} loss is of one for each class")
        if n_classes > 2:
            raise InvalidParameter(
                f"POL learns two classes, found {n_classes}: OutputPerturbation and ObjectivePerturbation learn more"
            )
        dim = integer(n_features=n_features, at_least=1) + bool(self.fit_intercept)
        n, budget = integer(n_rows=n_rows, at_least=1), self._budget()
        # with Gaussian noise, less than by group privacy: rows do not move points averaged before they came
        together = self.rows_per_user if budget.delta > 0.0 and not budget.noiseless else None
        weights = choice(AVERAGE_WEIGHTS, weights=self.weights)
        domain, l2 = self._domain(), self.l2
        if domain is not None:
            domain.check_dimension(dim)
        if self.error is not None:
            if domain is None:
                raise InvalidParameter("error= needs radius= or domain=: it is relative to the best model of a set")
            l2 = number(error=self.error, above=0.0) / domain.norm_bound(dim) ** 2
        derived = tuple(name for name, value in (("l2", l2), ("radius", domain)) if value is None)
        if domain is None or l2 is None:
            l2, reach = calibrate.average_rule(
                loss=loss,
                dim=dim,
                intercept=bool(self.fit_intercept),
                n=n,
                x_bound=self.x_bound,
                y_bound=self.y_bound,
                adjacency=self._adjacency(),
                budget=budget,
                weights=weights,
                l2=l2,
                norm_bound=None if domain is None else domain.norm_bound(dim),
            )
            domain = L2Ball(reach) if domain is None else domain
        return calibrate.calibrate_average(
            Problem(
                loss=loss,
                domain=domain,
                dim=dim,
                intercept=bool(self.fit_intercept),
                x_bound=self.x_bound,
                y_bound=self.y_bound,
                adjacency=self._adjacency(),
                horizon=n,
                rows_per_user=together or 1,
            ),
            budget if together is None else self._whole_budget(),
            l2=l2,
            weights=weights,
            derived=derived,
        )

    def regret_bound(self, n_rows: int, n_features: int | None = None, *, n_classes: int = 2) -> float:
        """Return the proved bound of the released model's expected excess risk, its regret on a row still to come.

        Of its mean regularised loss over new rows less that of the best point of the set, where all rows are drawn
        independently from one law; the mean is over the ``n_rows`` rows of the fit and the noise. Without the
        regulariser it is at most ``l2 / 2`` times the squared norm of that point more. Default of ``n_features``: the
        last fit's.

        Raises
        ------
        InvalidParameter
            If nothing is proved for these settings, or the number of features is not known yet.
        """
        return self.calibrate(self._width(n_features), n_rows, n_classes).regret_bound()

    def _domain(self) -> ConvexSet | None:
        """The set that was given, if any."""
        if self.domain is None:
            return None if self.radius is None else L2Ball(number(radius=self.radius, at_least=1e-30, at_most=1e30))
        if not isinstance(self.domain, ConvexSet):
            raise InvalidParameter(f"domain must be a set of privol.geometry or None, found {self.domain!r}")
        return self.domain

    def _find(self, X: Any, codes: FloatArray, plan: AverageCalibration, outputs: int, source: Source | None) -> Found:
        problem, n = plan.iterates.problem, X.shape[0]
        domain, dim = problem.domain, problem.dim
        run = IterateRun(
            RunFrame(problem, ReleaseSchedule.of("all", n), None),
            magnitude=domain.norm_bound(dim) * 1.01,
            update="implicit",
            constrained=plan.iterates.constrained,
            schedule=plan.schedule,
            refresh=plan.iterates.refresh,
            averaging=_FROM_THE_FIRST if plan.weights == "linear" else 0,
        )
        secret: list[FloatArray] = []
        try:
            if plan.weights == "last":
                self._learn(run, X, codes)
                secret.append(run.released_model())
            else:  # of the iterates 1 to n, the first is the start: row n moves none of them
                secret.append(np.array(domain.start(dim), dtype=np.float64))
                self._learn(run, X[: n - 1], codes[: n - 1])
                if n > 1:
                    linear = plan.weights == "linear"
                    whole, others = (0.5 * n * (n + 1.0), 0.5 * (n - 1.0) * (n + 2.0)) if linear else (n, n - 1.0)
                    secret.append(run.released_average())
                    secret[1] *= others
                    secret[0] += secret[1]
                    secret[0] /= whole
            counts = run.raw_counts()
            released = domain.project(noisy(source, secret[0], plan.law, plan.scale))
        finally:
            run.close()
            for vector in secret:
                wipe(vector)
        return Found(np.asarray(released), counts["clipped_rows"], counts["null_rows"])

    @staticmethod
    def _learn(run: IterateRun, X: Any, codes: FloatArray) -> None:
        for start in range(0, X.shape[0], BLOCK_ROWS):  # interrupts take effect between blocks
            run.learn(X[start : start + BLOCK_ROWS], codes[start : start + BLOCK_ROWS])
