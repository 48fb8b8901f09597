"""Records of performance; none of them is private."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._validate import choice
from ..errors import InvalidParameter
from ..losses import Loss

__all__ = ["NOTICE", "Curve", "Score", "Sums", "metrics_of"]

FloatArray = NDArray[np.float64]

NOTICE = "NOT PRIVATE: computed from the raw rows and covered by no guarantee; do not publish"


def metrics_of(loss: Loss, wanted: Iterable[str] | None = None) -> tuple[str, ...]:
    """Return the names of the metrics of a loss, or the wanted ones of them, checked."""
    names: tuple[str, ...] = ("mean_absolute_error", "root_mean_squared_error")
    if loss.kind == "classification":
        names = ("accuracy", "log_loss", "auc") if loss.name == "logistic" else ("accuracy", "auc")
    if wanted is None:
        return names
    if isinstance(wanted, str):
        raise InvalidParameter(f"metrics must be a sequence of names, found {wanted!r}")
    chosen = {choice(names, metrics=name) for name in wanted}
    return tuple(name for name in names if name in chosen)


@dataclass
class Sums:
    """Sums over evaluated rows; added up in the order of the rows, so that no cut of them changes a bit."""

    rows: int = 0
    loss: float = 0.0
    correct: int = 0
    absolute: float = 0.0
    squared: float = 0.0

    def add(self, scores: FloatArray, losses: FloatArray, targets: FloatArray, classification: bool) -> None:
        """Add rows, none of them null."""
        self.rows += len(scores)
        self.loss = _added(self.loss, losses)
        if classification:
            self.correct += int(np.count_nonzero((scores > 0.0) == (targets > 0.0)))
        else:
            errors = np.abs(scores - targets)
            self.absolute = _added(self.absolute, errors)
            self.squared = _added(self.squared, errors * errors)


def _added(total: float, values: FloatArray) -> float:
    # accumulate adds strictly from left to right, which sum() does not
    return float(np.add.accumulate(np.concatenate([[total], values]))[-1])


@dataclass(frozen=True)
class Score:
    """Mean performance over rows. Not private. What does not apply, or was not asked for, is ``None``.

    Attributes
    ----------
    rows : int
        Rows counted (null rows are not).
    loss : float
        Mean loss of the data, without the regulariser.
    accuracy : float or None
        For classification; a score of 0 counts as the negative class.
    log_loss : float or None
        Mean negative logarithm of the probability of the true class, in nats: for the logistic loss, whose scores are
        log-odds.
    auc : float or None
        Area under the ROC curve of the scores; ``None`` also if only one class came.
    auc_error : float or None
        Proved bound of the error of ``auc``, which is counted in bins.
    mean_absolute_error, root_mean_squared_error : float or None
        For regression, in the target's units.
    """

    rows: int
    loss: float
    accuracy: float | None = None
    log_loss: float | None = None
    auc: float | None = None
    auc_error: float | None = None
    mean_absolute_error: float | None = None
    root_mean_squared_error: float | None = None

    @classmethod
    def of(cls, sums: Sums, area: tuple[float, float] | None, metrics: tuple[str, ...]) -> Score:
        """From sums and an area under the curve with its error: the figures that ``metrics`` names."""
        n = max(sums.rows, 1)
        figures = {
            "accuracy": sums.correct / n,
            "log_loss": sums.loss / n,
            "auc": None if area is None else area[0],
            "mean_absolute_error": sums.absolute / n,
            "root_mean_squared_error": math.sqrt(sums.squared / n),
        }
        error = area[1] if area is not None and "auc" in metrics else None
        return cls(sums.rows, sums.loss / n, auc_error=error, **{name: figures[name] for name in metrics})

    def to_record(self) -> dict[str, Any]:
        """Return the figures that there are as JSON values."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class Curve:
    """Performance over the first ``rows[i]`` rows of a progressive evaluation, and since the point before. Not private.

    Attributes
    ----------
    rows : ndarray of int64
        Ascending numbers of rows evaluated (null rows are not counted).
    loss, correct, absolute_error, squared_error : ndarray of float64
        Sums over the rows so far.
    auc, recent_auc : ndarray of float64
        Area under the ROC curve over the rows so far, and since the point before; NaN where only one class came.
    metrics : tuple of str
        Which of them were asked for.
    """

    rows: NDArray[np.int64]
    loss: FloatArray
    correct: FloatArray
    absolute_error: FloatArray
    squared_error: FloatArray
    auc: FloatArray
    recent_auc: FloatArray
    metrics: tuple[str, ...]

    def to_record(self) -> dict[str, list[float | None]]:
        """Return the means of all rows so far and of those since the point before (``recent_...``); None: undefined."""
        width = np.diff(self.rows, prepend=0)
        record: dict[str, list[float | None]] = {"row": self.rows.tolist()}
        sums = {
            "loss": self.loss,
            "accuracy": self.correct,
            "log_loss": self.loss,
            "mean_absolute_error": self.absolute_error,
            "root_mean_squared_error": self.squared_error,
        }
        for name in ("loss", *self.metrics):
            if name == "auc":
                both = (self.auc, self.recent_auc)
            else:
                # a sum of squares that is added up in order never falls
                both = (sums[name] / self.rows, np.diff(sums[name], prepend=0.0) / width)
                if name == "root_mean_squared_error":
                    both = (np.sqrt(both[0]), np.sqrt(both[1]))
            for prefix, values in zip(("", "recent_"), both, strict=True):
                record[prefix + name] = [None if math.isnan(v) else v for v in values.tolist()]
        return record
