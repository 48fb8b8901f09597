"""Which learner to try first."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from ..calibration import LARGEST_SCORE
from ..losses import Loss, get_loss
from ._base import OnlineLearner
from .adaptive import AdaptiveFTRL
from .leader import DPFTRL
from .least_squares import PQFTL

__all__ = ["default_learner", "default_name", "settings_without_look", "steps_without_look"]

# How far the noise moves the score of the longest row at the end of a run, as one standard deviation. A model of
# categories and knots has scores of a few units: with less regularization noise dominates them, with more the model
# learns too slowly. Between 0.1 and 0.4 progressive AUC moved by at most 0.02 on three tables (docs/encoding.md).
_SCORE_NOISE = 0.2
_STEPS, _BATCH = 1000, (1, 200)
# For the moments of functions between knots: R2 was nearly the same from 0.25 to 0.5, and half as large at 2 (one
# table).
_NOISE_SHIFT, _RIDGE = 0.3, 0.01
# For steps of noisy gradients: rows of a step times mu, the fewest steps, the largest score of the longest row. With
# half and with twice as many rows AUC was lower by at most 0.02 on the two tables that they were chosen on
# (docs/encoding.md).
_STEP_NOISE, _FEWEST_STEPS, _STEP_SCORE = 110.0, 50, 10.0


def default_learner(loss: str | Loss = "logistic") -> type[OnlineLearner]:
    """Return the learner class to try first for a loss.

    Parameters
    ----------
    loss : str or Loss

    Returns
    -------
    type
        :class:`AdaptiveFTRL`: its noise grows with the logarithm of the rows only, its releases cost nothing, and it
        has no setting that decides whether a model is any good.
    """
    get_loss(loss)
    return AdaptiveFTRL


def default_name(loss: str | Loss = "logistic", given: Iterable[str] = ()) -> str:
    """Return the name of :func:`default_learner` in :data:`LEARNERS`.

    Parameters
    ----------
    loss : str or Loss
    given : iterable of str
        Parameters that are stated. One that AdaptiveFTRL chooses itself (``radius``, ``batch``, ``discount``, ...)
        selects the learner that has it: :class:`PQFTL` for squared loss, :class:`DPFTRL` for the others.
    """
    other: Any = PQFTL() if get_loss(loss).quadratic else DPFTRL()
    chosen = other.get_params(deep=False).keys() - AdaptiveFTRL().get_params(deep=False).keys()
    if not chosen & set(given):
        return "adaptive"
    return "pqftl" if isinstance(other, PQFTL) else "dpftrl"


def settings_without_look(
    loss: str | Loss,
    *,
    n_features: int,
    n_rows: int,
    x_bound: float,
    learner: str | None = None,
    n_classes: int = 2,
    fit_intercept: bool = True,
    has_constant: bool = False,
    **budget: Any,
) -> dict[str, Any]:
    """Return settings of :func:`default_learner` from public numbers alone, without use of the rows.

    Parameters
    ----------
    loss : str or Loss
    n_features, n_rows : int
    x_bound : float
        Norm to which longer rows are scaled.
    learner : {"adaptive", "dpftrl", "pqftl"}, optional
        Default: :func:`default_name`.
    n_classes : int
    fit_intercept : bool
    has_constant : bool
        Whether the features of each row add up to a constant: these two learners then need no intercept, which costs
        noise.
    **budget
        ``epsilon``, ``delta``, ``adjacency``, where they differ from the learner's defaults.

    Returns
    -------
    dict
        For :class:`AdaptiveFTRL`, ``fit_intercept``: it chooses the rest itself. For :class:`DPFTRL`, ``batch`` (a
        thousand steps, at most 200 rows each and no more than keep the steps stable), ``radius`` (no score is limited
        by it) and ``regularization`` (the noise moves the score of the longest row by 0.2). For :class:`PQFTL`, ``l2``
        and ``noise_shift`` for features that add up to 1 in groups, and ``fit_intercept``.
    """
    learner = default_name(loss) if learner is None else learner
    if learner == "adaptive":
        return {"fit_intercept": fit_intercept and not has_constant}
    if learner == "pqftl":
        return {
            "noise_shift": _NOISE_SHIFT,
            "l2": _RIDGE,
            "radius": LARGEST_SCORE / math.hypot(x_bound, 1.0),
            "fit_intercept": fit_intercept and not has_constant,
        }
    longest = math.hypot(x_bound, float(fit_intercept))
    words: dict[str, Any] = {"loss": loss, "x_bound": x_bound, "fit_intercept": fit_intercept, **budget}
    words["radius"] = radius = LARGEST_SCORE / longest

    def needed(batch: int) -> float:
        plan = DPFTRL(**words, batch=batch, regularization=1.0).calibrate(n_features, n_rows, n_classes=n_classes)
        return plan.std(n_rows) * longest / _SCORE_NOISE  # the noise of the sum, if it were divided by 1

    batch = min(max(n_rows // _STEPS, _BATCH[0]), _BATCH[1])
    # a step of identical rows must not carry the model beyond the point where their gradients turn: it would oscillate
    batch = max(min(batch, math.floor(needed(batch) / longest**2)), 1)
    return {"batch": batch, "radius": radius, "regularization": max(needed(batch), batch * longest**2)}


def steps_without_look(*, n_rows: int, x_bound: float, mu: float, fit_intercept: bool = True) -> dict[str, Any]:
    """Return settings of :class:`NOGD` and :class:`DOLA`, which take noisy gradients, without use of the rows.

    Parameters
    ----------
    n_rows : int
        Rows of one node, if there are several.
    x_bound : float
        Norm to which longer rows are scaled.
    mu : float
        Parameter of Gaussian differential privacy; infinite: without noise.

    Returns
    -------
    dict
        ``batch``, as large as the noise requires but leaving at least 50 steps; ``radius``, at which scores are at most
        10.
    """
    batch = max(min(math.ceil(_STEP_NOISE / mu), n_rows // _FEWEST_STEPS), 1)
    return {"batch": batch, "radius": _STEP_SCORE / math.hypot(x_bound, float(fit_intercept))}
