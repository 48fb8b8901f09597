"""Records of performance; none of them is private."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .._validate import choice
from ..errors import InvalidParameter
from ..learners.views import class_weights
from ..losses import Loss, class_gradients, class_losses, get_loss, log_probabilities, loss_at_zero

__all__ = ["NOTICE", "Curve", "Score", "Sums", "Task", "is_null"]

FloatArray = NDArray[np.float64]

NOTICE = "NOT PRIVATE: computed from the raw rows and covered by no guarantee; do not publish"


def is_null(scores: FloatArray) -> NDArray[np.bool_]:
    """Which rows have no scores, shape (n,)."""
    return np.isnan(scores if scores.ndim == 1 else scores[:, 0])


@dataclass(frozen=True)
class Task:
    """The subject of an evaluation: a loss, of one score or of one for each class, and the class weights.

    Attributes
    ----------
    loss : Loss
    outputs : int
        Scores of a row. Targets are -1/+1 or real for one, indices of the classes for several.
    weights : ndarray of float64 or None
        What a row's loss is multiplied with, by class (two for one score).
    """

    loss: Loss
    outputs: int = 1
    weights: FloatArray | None = None

    @classmethod
    def of(cls, learner: Any, classes: Any) -> Self:
        """The task of a learner on rows with these classes (None: real targets)."""
        loss = get_loss(learner.loss)
        labels = None if loss.kind == "regression" or classes is None else np.asarray(classes)
        many = labels is not None and (len(labels) > 2 or loss.joint)
        weights = None
        if labels is not None and getattr(learner, "class_weight", None) is not None:
            weights = np.array(class_weights(learner, labels), dtype=np.float64)
        return cls(loss, len(labels) if labels is not None and many else 1, weights)

    @property
    def classification(self) -> bool:
        return self.loss.kind == "classification"

    @property
    def omitted(self) -> tuple[str, ...]:
        """Metrics of two classes with a single score, which several scores have not."""
        return ("auc",) if self.outputs > 1 else ()

    @property
    def worst_at_zero(self) -> float:
        """Largest loss where all scores are 0, of targets within 1."""
        weight = 1.0 if self.weights is None else float(self.weights.max())
        return weight * loss_at_zero(self.loss, max(self.outputs, 2))

    def metrics(self, wanted: Iterable[str] | None = None) -> tuple[str, ...]:
        """Return the names of the metrics that apply, or the wanted ones of them, checked."""
        names: tuple[str, ...] = ("mean_absolute_error", "root_mean_squared_error")
        if self.classification:
            names = ("accuracy", "log_loss", "auc") if self.loss.log_odds else ("accuracy", "auc")
            names = tuple(name for name in names if name not in self.omitted)
        if wanted is None:
            return names
        if isinstance(wanted, str):
            raise InvalidParameter(f"metrics must be a sequence of names, found {wanted!r}")
        chosen = {choice(names, metrics=name) for name in wanted}
        return tuple(name for name in names if name in chosen)

    def weight(self, targets: FloatArray) -> FloatArray | float:
        """The factor of each row's loss."""
        if self.weights is None:
            return 1.0
        by_row: FloatArray = self.weights[(targets if self.outputs > 1 else targets > 0.0).astype(np.int64)]
        return by_row

    def values(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """Weighted losses of rows, shape (n,)."""
        found = self.loss.value(scores, targets) if self.outputs == 1 else class_losses(self.loss, scores, targets)
        return np.asarray(found) * self.weight(targets)

    def gradients(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """Derivatives of the losses in the scores, without the weights, in the shape of the scores."""
        if self.outputs > 1:
            return class_gradients(self.loss, scores, targets)
        return np.asarray(self.loss.gradient(scores, targets))

    def correct(self, scores: FloatArray, targets: FloatArray) -> NDArray[np.bool_]:
        """Whether the predicted class is the row's."""
        if self.outputs > 1:
            return np.asarray(scores.argmax(axis=1) == targets)
        return np.asarray((scores > 0.0) == (targets > 0.0))

    def log_losses(self, scores: FloatArray, losses: FloatArray, targets: FloatArray) -> FloatArray:
        """Negative logarithms of the true class's probability; ``losses`` are the rows' losses."""
        if self.weights is None and (self.outputs == 1 or self.loss.joint):
            return losses
        if self.outputs == 1:
            return np.asarray(self.loss.value(scores, targets))
        own = log_probabilities(self.loss, scores)[np.arange(len(targets)), targets.astype(np.int64)]
        return np.asarray(-own)


@dataclass
class Sums:
    """Sums over evaluated rows, added in the order of the rows, so that no division into blocks changes a bit."""

    rows: int = 0
    loss: float = 0.0
    log_loss: float = 0.0
    correct: int = 0
    absolute: float = 0.0
    squared: float = 0.0

    def add(
        self, task: Task, scores: FloatArray, losses: FloatArray, targets: FloatArray, metrics: tuple[str, ...]
    ) -> None:
        """Add rows, none of them null."""
        self.rows += len(scores)
        self.loss = _added(self.loss, losses)
        if task.classification:
            self.correct += int(np.count_nonzero(task.correct(scores, targets)))
            if "log_loss" in metrics:
                self.log_loss = _added(self.log_loss, task.log_losses(scores, losses, targets))
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
        Mean loss of the data, with the class weights and without the regulariser.
    accuracy : float or None
        For classification; a score of 0 counts as the negative class, and of equal scores the first class's is taken.
    log_loss : float or None
        Mean negative logarithm of the probability of the true class, in nats, without weights: for the logistic loss
        and the softmax.
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
        """Make a score of sums and an area under the curve with its error: the figures that ``metrics`` names."""
        n = max(sums.rows, 1)
        figures = {
            "accuracy": sums.correct / n,
            "log_loss": sums.log_loss / n,
            "auc": None if area is None else area[0],
            "mean_absolute_error": sums.absolute / n,
            "root_mean_squared_error": math.sqrt(sums.squared / n),
        }
        error = area[1] if area is not None and "auc" in metrics else None
        return cls(sums.rows, sums.loss / n, auc_error=error, **{name: figures[name] for name in metrics})

    def to_record(self) -> dict[str, Any]:
        """Return the figures that exist as JSON values."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class Curve:
    """Performance over the first ``rows[i]`` rows of a progressive evaluation, and since the point before. Not private.

    Attributes
    ----------
    rows : ndarray of int64
        Ascending numbers of rows evaluated (null rows are not counted).
    loss, log_loss, correct, absolute_error, squared_error : ndarray of float64
        Sums over the rows so far.
    auc, recent_auc : ndarray of float64
        Area under the ROC curve over the rows so far, and since the point before; NaN where only one class came.
    metrics : tuple of str
        Which of them were asked for.
    """

    rows: NDArray[np.int64]
    loss: FloatArray
    log_loss: FloatArray
    correct: FloatArray
    absolute_error: FloatArray
    squared_error: FloatArray
    auc: FloatArray
    recent_auc: FloatArray
    metrics: tuple[str, ...]

    def to_record(self) -> dict[str, list[float | None]]:
        """Return means over all rows so far, and over those since the last point (``recent_...``); None: undefined."""
        width = np.diff(self.rows, prepend=0)
        record: dict[str, list[float | None]] = {"row": self.rows.tolist()}
        sums = {
            "loss": self.loss,
            "accuracy": self.correct,
            "log_loss": self.log_loss,
            "mean_absolute_error": self.absolute_error,
            "root_mean_squared_error": self.squared_error,
        }
        for name in ("loss", *self.metrics):
            if name == "auc":
                both = (self.auc, self.recent_auc)
            else:
                # a sum of squares that is added in order never decreases
                both = (sums[name] / self.rows, np.diff(sums[name], prepend=0.0) / width)
                if name == "root_mean_squared_error":
                    both = (np.sqrt(both[0]), np.sqrt(both[1]))
            for prefix, values in zip(("", "recent_"), both, strict=True):
                record[prefix + name] = [None if math.isnan(v) else v for v in values.tolist()]
        return record
