"""Figures of merit of predictions, the same for all entrants. Not private."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit, log_softmax
from sklearn.metrics import roc_auc_score

from .specs import Prepared

__all__ = ["PARTS", "figures_of", "headline", "measure"]

FloatArray = NDArray[np.float64]

#: Rows that figures cover: all rows that teach no encoding, the second half of the stream, rows after the stream.
PARTS = "all", "second_half", "held_out"
_LEAST = math.log(1e-6)  # smaller probabilities count as one in a million, for all entrants


def headline(regression: bool) -> str:
    """Return the name of the figure that shares are computed from."""
    return "r2" if regression else "auc"


def figures_of(prepared: Prepared, y: FloatArray, scores: FloatArray | None, part: str) -> dict[str, float | None]:
    """Return the figures of a part of the rows.

    Parameters
    ----------
    prepared : Prepared
    y : ndarray of float64
        Indices of the classes, or real targets: of the stream's rows, or of those held out.
    scores : ndarray of float64 of shape (n,) or (n, k), or None
        Log-odds of the second of two classes; logarithms of probabilities, up to a constant, of several; predictions
        of a real target. None: nothing was predicted.
    part : str
        Of :data:`PARTS`.
    """
    if scores is None:
        return {}
    start = {"all": prepared.teach, "second_half": prepared.half, "held_out": 0}[part]
    return measure(y[start:], scores[start:], len(prepared.classes))


def measure(y: FloatArray, scores: FloatArray, classes: int) -> dict[str, float | None]:
    """Return R2 and the root mean squared error, or accuracy, log-loss and the area under the ROC curve.

    Of several classes the area is the mean of each against the rest, of those that occur.
    """
    if not classes:
        errors = y - scores
        spread = float(np.sum((y - y.mean()) ** 2))
        squares = float(np.sum(errors**2))
        return {"r2": 1.0 - squares / spread if spread > 0.0 else None, "rmse": math.sqrt(squares / len(y))}
    labels = y.astype(np.int64)
    if classes == 2:
        right = np.mean((scores > 0.0) == (labels == 1))
        losses = log_expit(np.where(labels == 1, scores, -scores))
        areas = [_area(labels == 1, scores)]
    else:
        right = np.mean(scores.argmax(axis=1) == labels)
        losses = log_softmax(scores, axis=1)[np.arange(len(labels)), labels]
        areas = [_area(labels == k, scores[:, k]) for k in range(classes)]
    known = [area for area in areas if area is not None]
    return {
        "auc": float(np.mean(known)) if known else None,
        "accuracy": float(right),
        "log_loss": float(np.mean(-np.maximum(losses, _LEAST))),
    }


def _area(positive: Any, scores: FloatArray) -> float | None:
    if positive.all() or not positive.any():
        return None
    return float(roc_auc_score(positive, scores))
