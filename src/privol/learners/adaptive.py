"""A regularised leader on private sums that tunes itself: only the budget must be chosen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from .. import calibration as calibrate
from .._rounding import bound_of_rows
from .._validate import number
from ..calibration import LARGEST_SCORE, LeaderCalibration, score_unit
from ..geometry import ConvexSet, L2Ball
from ..ledger import Ledger
from ..losses import Loss, get_loss
from .leader import DPFTRL

__all__ = ["AdaptiveFTRL"]


class AdaptiveFTRL(DPFTRL):
    """DPFTRL that tunes itself by public numbers and its own releases: the learner to try first for classification.

    Like :class:`DPFTRL` it follows private prefix sums of gradients, by one Gaussian mechanism for the whole run. The
    rows of a step, the clipping of gradients, strong convexity and radius follow from the number of rows, the budget
    and the bounds. Each feature of the model uses its sum as far as that stands out from the noise, whose size is
    public. The released model is the average of the latest points, and of fewer of them if they have moved by more than
    the noise, so it follows a drift. Every point is released, and with it all of this. Secret: the exact sums and the
    noise.

    Parameters
    ----------
    loss : str or Loss, default="logistic"
        ``"logistic"``, ``"hinge"``, ``"smooth_hinge"``, ``"softmax"`` (classification), ``"squared"``, ``"absolute"``,
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
        With ``rows_per_user``: any two rows of a user are at least this many rows apart. A larger distance needs less
        noise. Unless the stream states that it enforces both, nobody checks them, and the guarantee says so.
    adjacency : {"replace", "zero_out"}, default="replace"
        What may differ between neighbouring streams: any content of one row, or whether it is there.
    ledger : Ledger, optional
        Shared budget. Default: one of the learner's own, without a limit.
    horizon : int, optional
        Rows of the run, at most 2**48, or with ``renewal`` of its first epoch. Default: ``fit`` and sized streams take
        their number of rows.
    x_bound : float, default=1.0
        Public bound of a row's L2 norm, above 0; longer rows are scaled to it.
    y_bound : float, default=1.0
        Public bound of a real target's magnitude; targets beyond are clipped to it.
    gradient_bound : float, optional
        Public bound of a row's gradient in L2 norm, 1e-30 to 1e30; longer ones are scaled to it, and the noise too.
        Needed for ``tell``. Default: half of the longest gradient, of real targets for predictions in their range;
        a quarter of it for squared loss, unless ``epsilon`` is infinite.
    renewal : {"none", "repeat", "double"}, default="none"
        What happens at the horizon: the run ends and one more row raises ``BudgetExceeded`` ("none"), or another epoch
        begins, as long as the first ("repeat") or twice as long as the one before ("double") (up to 3.3 million
        steps). An epoch has noise of its own for the whole budget over rows of its own, so the guarantee is that of
        one epoch; sums are those of all epochs so far, and have the noise of them all.
    release : {"all", "last"}, int or list of int, optional
        Which models ``coef_`` and ``average_coef_`` show, by row number. Default: all. Without effect on the noise.
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
    A step has a thousandth of the rows, 1 to 100. With S the private sum of the gradients after a step, s the standard
    deviation of its noise in one coordinate, ``q_j`` the sum of the squares of its coordinates of feature j over the k
    scores (one, or one for each class), the point has the coordinates ``-S_j max(1 - k s^2 / q_j, 0) / held``: James
    and Stein's estimate, feature by feature. ``held`` is such that the noise moves the score of the longest row by
    1.25, one standard deviation, and a step by at most 4. Scores of the longest row are kept below 100. For real
    targets these numbers are in units of a quarter of ``y_bound``.

    The point after step t counts ``9 / (t + 8)`` in two averages, at least 1 / 64 in the slow one and 1 / 8 in the
    quick one. With ``q`` the square of their difference, ``n`` what it is expected to be of noise, and ``r`` the most
    that gradients in balance may make of it, the slow one and ``max(1 - n / q, 0) + max(1 - (1.5 n + 0.35 r) / q, 0)``
    times the way to the quick one are shown: without a drift hardly more than the slow one, in a drift up to twice the
    way.

    A gradient is cut at half of the longest, and the noise with it: few rows of a fair model are beyond it. For
    logistic loss the model is then that of a loss which grows linearly for margins below 0, so it reacts less to rows
    that are predicted very wrongly. Squared loss with noise is cut at a quarter: it is Huber's then, linear beyond half
    of ``y_bound``.

    These constants were chosen on four streams; ``docs/adaptive.md`` names them, says what else was tried, and has
    figures of streams that had no part in it.

    Cost per row: two passes over its non-zeros; per step O(n_features) for every one of four buffers, with n_features
    noise words. Memory O(n_features) for every buffer.

    References
    ----------
    As :class:`DPFTRL`. The estimate: James and Stein, "Estimation with quadratic loss", 1961; its positive part:
    Baranchik, 1964. Guarantee and regret are ``docs/proofs/adaptive.md``.

    Examples
    --------
    >>> import numpy as np
    >>> from privol import AdaptiveFTRL
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20000, 3)) / 3
    >>> y = np.where(X @ [1.0, -2.0, 0.5] > 0, "yes", "no")
    >>> learner = AdaptiveFTRL(epsilon=1.0, delta=1e-6).fit(X, y)
    >>> bool(learner.score(X, y) > 0.9)
    True
    """

    #: Its mechanism is audited as DPFTRL's: what it computes from the sums has no inverse.
    worst: ClassVar[Mapping[str, Any]] = {}

    # what DPFTRL leaves to its user
    radius: float
    domain: ConvexSet | None = None
    l2, regularization, design, buffers, bandwidth, objective = 0.0, None, "blt", 4, None, "max"
    discount, window = 1.0, None

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
        x_bound: float = 1.0,
        y_bound: float = 1.0,
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
        self.x_bound = x_bound
        self.y_bound = y_bound
        self.gradient_bound = gradient_bound
        self.renewal = renewal
        self.release = release
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.on_invalid = on_invalid
        self.random_state = random_state

    def _domain(self) -> ConvexSet:
        x_bound = number(x_bound=self.x_bound, at_least=1e-30, at_most=1e30)
        unit = score_unit(get_loss(self.loss), number(y_bound=self.y_bound, at_least=1e-30, at_most=1e30))
        return L2Ball(LARGEST_SCORE * unit / bound_of_rows(x_bound, bool(self.fit_intercept)))

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
            Sensitivity and noise of the sums and of the points, the proven mu, rows of a step, strong convexity and
            thresholds of each. All of it is public.
        """
        return calibrate.calibrate_adaptive(
            self._problem(n_features, horizon, n_classes, self._largest_weight(n_classes)),
            self._budget(),
            release=self._default_release(whole=True) if release is None else release,
            gradient_bound=self.gradient_bound,
            renewal=self.renewal,
        )
