"""How far the noise of privacy moves the weights of a released model: a public number, so error bars cost nothing.

Everything here follows from the calibration of a run, from public numbers alone, and from the released model. The
derivations are in ``docs/explain.md``.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv

from ..calibration import (
    AverageCalibration,
    IterateCalibration,
    LeaderCalibration,
    OutputCalibration,
)
from ..errors import StateError
from ..geometry import L2Ball, WholeSpace
from ..learners import LedgeredModel, OfflineLearner, OnlineLearner
from ..learners.views import Export, export_of

__all__ = ["ModelNoise", "noise_of"]

FloatArray = NDArray[np.float64]

_ALONE = "they show the noise of privacy alone, neither sampling error nor the bias of clipping and strong convexity"
_AT_MOST = "they are wide rather than narrow: later gradients cancel some of the earlier noise, which is not counted"
_PROJECTED = (
    "no band: the noise made models so long that they are projected onto the set of models, which shortens it too"
)
_NEARLY = 0.99  # of the radius


@dataclass(frozen=True)
class ModelNoise:
    """The effect of the privacy noise on the weights of a released model. Public.

    Attributes
    ----------
    kind : {"exact", "bound", "none", "unknown"}
        What is known of it: the deviation between models of the same rows, a bound of that, that there is no noise, or
        nothing.
    words : str
        What it is and is not, or why there is none.
    across : ndarray of float64, shape (n_features,), or None
        Variance of each weight of a feature, the intercept left out; weights of different features are independent.
    along : ndarray of float64, shape (n_scores, n_features), or None
        A further part: these vectors over the scores, times one number of variance 1 for each feature.
    """

    kind: str
    words: str
    across: FloatArray | None = None
    along: FloatArray | None = None

    def variance(self, change: FloatArray) -> FloatArray | None:
        """Return the variances of combinations of the scores' weights, shape (m, n_features); None: not known.

        Parameters
        ----------
        change : ndarray of shape (m, n_scores)
        """
        if self.across is None:
            return None
        found: FloatArray = np.sum(change**2, axis=1)[:, None] * self.across
        return found if self.along is None else found + (change @ self.along) ** 2


def noise_of(learner: LedgeredModel) -> ModelNoise:
    """Return what noise there is in the weights of the model that a learner shows.

    Parameters
    ----------
    learner : LedgeredModel
        That has released a model: live, fitted, unpickled or loaded.

    Returns
    -------
    ModelNoise

    Raises
    ------
    StateError
        If nothing was released yet.

    Notes
    -----
    The calibration is computed again from the learner's parameters. Where it disagrees with the guarantee, or the noise
    is not in the model itself, there is no band rather than a wrong one. Cost O(n_features), and that of a calibration.
    """
    export = export_of(learner)
    if export.n_releases < 1:
        raise StateError("nothing was released yet, so there is no model to explain")
    outputs = _outputs(learner, export)
    weights = _weights(learner, export, outputs)
    if export.guarantee.kind == "none":
        words = "without noise: the model is exact, and nothing is guaranteed"
        return ModelNoise("none", words, np.zeros(weights.shape[1]))
    plan = _plan_of(learner, export, weights.shape[1])
    if isinstance(plan, str):
        return ModelNoise("unknown", f"no band: {plan}")
    if isinstance(learner, OfflineLearner):
        return _of_fit(plan, export.model, weights.shape[1])
    if not isinstance(plan, IterateCalibration | LeaderCalibration):
        return ModelNoise(
            "unknown",
            f"no band: {type(learner).__name__} has noise in every gradient, report or sum of moments, and the rows "
            "decide how much of it is left in the model",
        )
    row, ended = _last_release(plan, export)
    if not isinstance(plan.problem.domain, L2Ball | WholeSpace):
        return ModelNoise("unknown", f"no band: the model is projected onto {plan.problem.domain}, and its noise too")
    if isinstance(plan, IterateCalibration):
        variance = (plan.last_std(row) if ended else plan.std(row)) ** 2
        found, point = ModelNoise("exact", _ALONE, np.full(weights.shape[1], variance)), 0.0
    else:
        found, point = _of_leader(plan, row, ended, weights)
    # the points may be longer than their average, which cancels a part of them
    if math.hypot(float(np.linalg.norm(export.model)), point) >= _NEARLY * plan.problem.radius:
        return ModelNoise("unknown", _PROJECTED)
    return found


def _of_leader(plan: LeaderCalibration, row: int, ended: bool, weights: FloatArray) -> tuple[ModelNoise, float]:
    """The noise in a leader's released model, and its norm in the last point, if that is another."""
    variance = plan.shown_std(row, ended=ended) ** 2
    words, width = f"{_ALONE}; {_AT_MOST}", weights.shape[1]
    if plan.tuning is None:
        return ModelNoise("bound", words, np.full(width, variance)), 0.0
    epoch, step = plan.epochs.step(row, ended=ended)
    std = plan.epochs.std(epoch, step) / plan.tuning.held[plan.tuning.part(step)]
    shares, vectors = _shortened(weights / std)
    norm = std * math.sqrt(len(weights) * float(shares.sum()) + float(np.sum(vectors**2)))
    return ModelNoise("bound", words, variance * shares, math.sqrt(variance) * vectors), norm


def _outputs(learner: Any, export: Export) -> int:
    many = export.classes is not None and np.ndim(learner.coef_) == 2 and len(learner.coef_) > 1
    return len(learner.coef_) if many else 1


def _weights(learner: Any, export: Export, outputs: int) -> FloatArray:
    """Weights without intercepts, shape (n_scores, n_features)."""
    rows = export.model.reshape(outputs, -1)
    return rows[:, :-1] if learner.fit_intercept else rows


def _plan_of(learner: Any, export: Export, n_features: int) -> Any:
    """The calibration of the run, computed again; a text says why it is unavailable."""
    n_classes = 2 if export.classes is None else len(export.classes)
    promise = export.guarantee
    if isinstance(learner, OfflineLearner):
        return learner.calibrate(n_features, export.n_rows, n_classes)
    assert isinstance(learner, OnlineLearner)
    renewed = getattr(learner, "renewal", "none") != "none"
    horizon = learner.horizon if renewed else promise.horizon
    plan = learner.calibrate(n_features, horizon or promise.horizon, n_classes=n_classes)
    if promise.kind == "gdp" and not plan.mu <= promise.parameter * (1.0 + 1e-9):
        return "its parameters ask for other noise than its guarantee states"
    return plan


def _last_release(plan: Any, export: Export) -> tuple[int, bool]:
    """The row after which the shown model was released, and whether the run ended there early."""
    releases, made, n = plan.releases, export.n_releases, export.n_rows
    if releases.only_last and n < releases.last_row:
        return n, True
    if releases.every:
        return min(releases.every * made, n), False
    return int(releases.rows[min(made, len(releases.rows)) - 1]), False


def _of_fit(plan: Any, model: FloatArray, width: int) -> ModelNoise:
    """Noise in the release of an offline fit."""
    if not isinstance(plan, OutputCalibration | AverageCalibration):
        why = "no band: the noise is in what is minimised, and the rows decide how far it moves the minimiser"
        return ModelNoise("unknown", why)
    # the coordinates of L2-Laplace noise are dependent but uncorrelated: its length is Gamma distributed
    dim = plan.iterates.problem.dim if isinstance(plan, AverageCalibration) else plan.dim
    std = plan.scale * (math.sqrt(dim + 1.0) if plan.law == "l2_laplace" else 1.0)
    if plan.ball is not None and float(np.linalg.norm(model)) >= _NEARLY * plan.ball:
        return ModelNoise("unknown", _PROJECTED)
    return ModelNoise("exact", _ALONE, np.full(width, std**2))


# ---- sums that are shrunk as far as noise explains them -------------------------------------------------------


def _shortened(weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Variance of James and Stein's estimates of these lengths, in units of the noise of a sum.

    Parameters
    ----------
    weights : ndarray, shape (n_scores, n_features)
        The estimates, in units of the noise of a coordinate.

    Returns
    -------
    across : ndarray of shape (n_features,)
            For each coordinate, across the vector of a feature.
    along : ndarray of shape (n_scores, n_features)
            The excess along this vector, as a vector.
    """
    length, mean, along, across = _estimates(len(weights))
    norms = np.sqrt(np.sum(weights**2, axis=0))
    # the length of a sum whose estimate is that long on average; far out the two agree
    true = np.interp(norms, mean, length)
    radial, other = np.interp(true, length, along) ** 2, np.interp(true, length, across) ** 2
    if len(weights) == 1:
        return radial, np.zeros_like(weights)
    unit = np.divide(weights, norms, out=np.zeros_like(weights), where=norms > 0.0)
    return other, unit * np.sqrt(np.maximum(radial - other, 0.0))


@functools.lru_cache(maxsize=16)
def _estimates(n_scores: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Mean length and deviations, along and across, of the estimate of a vector of some lengths with unit noise.

    By quadrature over the normal distribution along the vector and the chi-squared distribution of the rest.
    """
    length = np.concatenate([np.linspace(0.0, 4.0, 41), np.geomspace(4.2, 400.0, 40)]) * math.sqrt(n_scores)
    z = np.linspace(-7.0, 7.0, 701 if n_scores > 1 else 7001)
    p = np.exp(-(z**2) / 2.0)
    p /= p.sum()
    rest = np.zeros(1)
    if n_scores > 1:
        rest = 2.0 * gammaincinv((n_scores - 1) / 2.0, (np.arange(50) + 0.5) / 50)
        rest *= (n_scores - 1) / rest.mean()
    found = []
    for size in length:
        first = size + z[:, None]
        kept = np.maximum(1.0 - n_scores / np.maximum(first**2 + rest, 1e-300), 0.0)
        mean = float(p @ (kept * first).mean(axis=1))
        along = float(p @ ((kept * first) ** 2).mean(axis=1)) - mean**2
        across = float(p @ (kept**2 * rest).mean(axis=1)) / max(n_scores - 1, 1)
        found.append((size, mean, math.sqrt(along), math.sqrt(across)))
    length, mean_, along_, across_ = np.array(found).T
    return length, np.maximum.accumulate(mean_), along_, across_
