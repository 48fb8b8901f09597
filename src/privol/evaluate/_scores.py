"""Records of performance; none of them is private."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["NOTICE", "Curve", "Score"]

FloatArray = NDArray[np.float64]

NOTICE = "NOT PRIVATE: computed from the raw rows and covered by no guarantee; do not publish"


@dataclass(frozen=True)
class Score:
    """Mean performance over rows. Not private.

    Attributes
    ----------
    rows : int
        Rows counted (null rows are not).
    loss : float
        Mean loss of the data, without the regulariser.
    accuracy : float or None
        For classification.
    mean_absolute_error, root_mean_squared_error : float or None
        For regression, in the target's units.
    """

    rows: int
    loss: float
    accuracy: float | None
    mean_absolute_error: float | None
    root_mean_squared_error: float | None

    @classmethod
    def of(cls, classification: bool, sums: tuple[int, float, int, float, float]) -> Score:
        """From (rows, loss, correct, absolute error, squared error) summed."""
        rows, loss, correct, absolute, squared = sums
        n = max(rows, 1)
        if classification:
            return cls(rows, loss / n, correct / n, None, None)
        return cls(rows, loss / n, None, absolute / n, math.sqrt(squared / n))

    def to_record(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        record: dict[str, Any] = {"rows": self.rows, "loss": self.loss}
        if self.accuracy is not None:
            return {**record, "accuracy": self.accuracy}
        return {
            **record,
            "mean_absolute_error": self.mean_absolute_error,
            "root_mean_squared_error": self.root_mean_squared_error,
        }


@dataclass(frozen=True)
class Curve:
    """Sums over the first ``rows[i]`` rows of a progressive evaluation. Not private.

    Attributes
    ----------
    rows : ndarray of int64
        Ascending row numbers.
    loss, correct, absolute_error : ndarray of float64
        Sums over the rows so far.
    """

    rows: NDArray[np.int64]
    loss: FloatArray
    correct: FloatArray
    absolute_error: FloatArray

    def to_record(self, classification: bool) -> dict[str, list[float]]:
        """Return mean loss, and mean accuracy or absolute error, of all rows so far and since the point before."""
        word, errors = ("accuracy", self.correct) if classification else ("mean_absolute_error", self.absolute_error)
        width = np.diff(self.rows, prepend=0)
        record: dict[str, list[float]] = {"row": self.rows.tolist()}
        for name, sums in (("loss", self.loss), (word, errors)):
            record[name] = (sums / self.rows).tolist()
            record[f"recent_{name}"] = (np.diff(sums, prepend=0.0) / width).tolist()
        return record
