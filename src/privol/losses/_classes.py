"""Losses of several scores, one for each class: the softmax's cross-entropy, and one class against the rest each.

The scores of a row v are ``s = W v`` for a matrix W with a row of weights for each of K classes. A loss's gradient in
W is ``g v^T`` with g its gradient in s, of Frobenius norm ``||g|| ||v||``; and ``||s|| <= ||W||_F ||v||``. So what
calibration needs is the supremum of ``||g||`` over the scores of norm at most S, :func:`class_slope_bound`. The proofs
are in ``docs/proofs/classes.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._rounding import outward
from .._validate import integer
from ..errors import InvalidParameter
from ._loss import Loss, _extended

__all__ = [
    "Softmax",
    "class_gradients",
    "class_losses",
    "class_probabilities",
    "class_slope_bound",
    "log_probabilities",
    "loss_at_zero",
]

FloatArray = NDArray[np.float64]

_CELLS = 1 << 14  # of the search for a supremum, whose result exceeds it by at most one of them


@dataclass(frozen=True)
class Softmax(Loss):
    """Cross-entropy of the softmax of the scores, ``ln sum_k exp(s_k - s_y)``: multinomial logistic regression.

    ``y`` is the index of the row's class, from 0. Predictions have one axis more than ``y``, the last: a score for
    each of at least two classes. Where the other losses have a slope there is a vector of slopes, and bounds are of
    its L2 norm, over any number of classes.
    """

    name: str = field(init=False, repr=False, default="softmax")
    code: int = field(init=False, repr=False, default=0)  # for a single score, which it never has
    curvature: float = field(init=False, repr=False, default=0.5)
    joint: bool = field(init=False, repr=False, default=True)
    log_odds: ClassVar[bool] = True

    def value(self, prediction: ArrayLike, y: ArrayLike) -> Any:
        scores, true = self._at(prediction, y)
        top = scores.max(axis=-1)
        return np.log(np.sum(np.exp(scores - top[..., None]), axis=-1)) + (top - true)

    def gradient(self, prediction: ArrayLike, y: ArrayLike) -> Any:
        scores, _ = self._at(prediction, y)
        p = np.exp(scores - scores.max(axis=-1, keepdims=True))
        p /= p.sum(axis=-1, keepdims=True)
        return p - np.eye(scores.shape[-1])[np.asarray(y, dtype=np.int64)]

    @staticmethod
    def _at(prediction: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
        scores = np.asarray(prediction, dtype=np.float64)
        true = np.take_along_axis(scores, np.asarray(y, dtype=np.int64)[..., None], axis=-1)[..., 0]
        return scores, true

    def _slope(self, prediction_bound: float, y_bound: float) -> float:
        return outward(math.sqrt(2.0))


def class_losses(loss: Loss, scores: FloatArray, y: NDArray[Any]) -> FloatArray:
    """Return the losses of rows with several scores.

    Parameters
    ----------
    loss : Loss
        :class:`Softmax`, or one for two classes: then the sum over the classes, each against the rest.
    scores : ndarray of shape (n, K)
    y : ndarray of shape (n,)
        Indices of the classes, from 0.

    Returns
    -------
    ndarray of shape (n,)
    """
    if loss.joint:
        return np.asarray(loss.value(scores, y))
    total: FloatArray = np.asarray(loss.value(scores, _signs(scores, y))).sum(axis=1)
    return total


def class_gradients(loss: Loss, scores: FloatArray, y: NDArray[Any]) -> FloatArray:
    """Return the gradients of :func:`class_losses` in the scores, shape (n, K)."""
    return np.asarray(loss.gradient(scores, y if loss.joint else _signs(scores, y)))


def _signs(scores: FloatArray, y: NDArray[Any]) -> FloatArray:
    signs = np.full(scores.shape, -1.0)
    signs[np.arange(len(y)), y.astype(np.int64)] = 1.0
    return signs


def log_probabilities(loss: Loss, scores: FloatArray) -> FloatArray:
    """Return the logarithms of the classes' probabilities, shape (n, K).

    Parameters
    ----------
    loss : Loss
        One whose predictions are log-odds: :class:`Softmax`, or the logistic loss of one class against the rest: the
        sigmoids, divided by their sum.
    scores : ndarray of shape (n, K)

    Raises
    ------
    InvalidParameter
        If the loss's predictions are no log-odds.
    """
    _check_odds(loss)
    # for sigmoids that are all tiny the logarithms still differ
    logs = scores if loss.joint else np.minimum(scores, 0.0) - np.log1p(np.exp(-np.abs(scores)))
    logs = logs - logs.max(axis=1, keepdims=True)
    logs -= np.log(np.exp(logs).sum(axis=1, keepdims=True))
    return np.asarray(logs)


def class_probabilities(loss: Loss, scores: FloatArray, cut: float = math.inf) -> FloatArray:
    """Return the classes' probabilities, shape (n, K), of scores of shape (n, K), or (n,) for two classes.

    Parameters
    ----------
    loss : Loss
        One whose predictions are log-odds.
    scores : ndarray
    cut : float, default=inf
        Of one score or a softmax: norm of the gradient in the scores to which longer ones were scaled when the scores
        were learnt; at least half of the longest. Probabilities are then those with which the mean of the scaled
        gradients is 0, as it is at the best scores: of class y that of the loss itself times
        ``max(1, ||g_y|| / cut)``, divided by their sum, with g_y the gradient for the label y.

    Raises
    ------
    InvalidParameter
        If the loss's predictions are no log-odds.

    Notes
    -----
    The order of the classes stays that of the scores (``docs/proofs/classes.md``, section 6).
    """
    if scores.ndim == 2:
        logs = log_probabilities(loss, scores)
        if math.isfinite(cut) and loss.joint:
            shares = np.exp(logs)
            square = np.sum(shares**2, axis=1, keepdims=True) + (1.0 - 2.0 * shares)
            logs = logs + np.log(np.maximum(np.sqrt(np.maximum(square, 0.0)) / cut, 1.0))
            logs -= logs.max(axis=1, keepdims=True)
            logs -= np.log(np.exp(logs).sum(axis=1, keepdims=True))
        return np.asarray(np.exp(logs))
    _check_odds(loss)
    tail = np.exp(-np.abs(scores))
    if math.isfinite(cut):
        # the less probable class has the longer gradient, 1 / (1 + tail), and the other's is not clipped
        tail = tail * np.maximum(1.0 / (1.0 + tail) / cut, 1.0)
    positive = np.where(scores >= 0, 1.0, tail) / (1.0 + tail)
    return np.column_stack([1.0 - positive, positive])


def _check_odds(loss: Loss) -> None:
    if not loss.log_odds:
        raise InvalidParameter(f"the {loss.name} loss gives no probabilities: its predictions are no log-odds")


def loss_at_zero(loss: Loss, n_classes: int = 2, y_bound: float = 1.0) -> float:
    """Return the largest loss of a row of which nothing is known: all scores 0.

    ``n_classes`` is without effect on regression, and ``y_bound`` on classification.
    """
    if loss.joint:
        return math.log(n_classes)
    if loss.kind == "regression":
        return max(float(loss.value(0.0, y)) for y in (-y_bound, y_bound))
    one, other = float(loss.value(0.0, 1.0)), float(loss.value(0.0, -1.0))
    return max(one, other) if n_classes == 2 else one + (n_classes - 1) * other


def class_slope_bound(loss: Loss, n_classes: int, score_bound: float) -> float:
    """Return a bound of the L2 norm of a row's gradient in its scores.

    Parameters
    ----------
    loss : Loss
        :class:`Softmax`, or one for two classes: then each class against the rest.
    n_classes : int
        K, at least 2.
    score_bound : float
        S, bound of the L2 norm of the row's scores; at least 0, may be infinite.

    Returns
    -------
    float
        Rounded up. Against the rest it is the supremum, ``sqrt(K) L(S / sqrt(K))`` with L the loss's own bound. Of the
        softmax it is above it by at most a tenth, exact for two classes, and for ``S = 0`` and in the limit of large S
        for any number.

    Raises
    ------
    InvalidParameter
        If a bound is out of range.
    """
    n_classes = integer(n_classes=n_classes, at_least=2)
    score_bound = _extended(score_bound=score_bound)
    if not loss.joint:
        return outward(math.sqrt(n_classes) * loss.lipschitz(outward(score_bound / math.sqrt(n_classes))))
    most = outward(math.sqrt(2.0))
    return most if math.isinf(score_bound) else min(most, outward(_softmax_slope(n_classes, score_bound)))


def _softmax_slope(n_classes: int, score_bound: float) -> float:
    """Bound ``q sqrt(1 + a)`` of ``||p - e_y||``, with q the total share of the other classes.

    Here a is the sum of squares of their shares, and ``ln(q / (1 - q)) <= S sqrt(1 + a) + H``, with H the largest
    entropy of shares with that sum of squares.
    """
    others = n_classes - 1
    if others == 1:
        return math.sqrt(2.0) / (1.0 + math.exp(-math.sqrt(2.0) * score_bound))
    x = np.linspace(1.0 / others, 1.0, _CELLS + 1)  # the one share that is larger than the rest
    squares = x * x + (1.0 - x) ** 2 / (others - 1)
    rest = 1.0 - x[:-1]
    entropy = -x[:-1] * np.log(x[:-1]) - rest * np.log(rest / (others - 1))
    largest = 1.0 / (1.0 + (others - 1) * math.exp(-score_bound * math.sqrt(others / (others - 1))))
    most = outward(largest**2 + (1.0 - largest) * min(largest, 1.0 - largest))
    # within a cell: the squares of its upper end, which rise, and the entropy of its lower end, which falls
    upper = np.minimum(squares[1:], most)
    odds = score_bound * np.sqrt(1.0 + upper) + entropy
    bound = np.sqrt(1.0 + upper) / (1.0 + np.exp(-odds))
    return float(np.max(bound[squares[:-1] <= most]))
