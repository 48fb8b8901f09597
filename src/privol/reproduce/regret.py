"""Regret of least squares, with the model that a learner had released before each row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..streams import open_stream
from .verdicts import FloatArray

__all__ = ["Ridge", "released_models"]


def released_models(learner: Any, X: FloatArray, y: FloatArray, classes: tuple[Any, Any] | None = None) -> FloatArray:
    """Let a learner learn all rows; return the model that was released by the time each row came, shape (n, d).

    The first is the starting point. Models are public, so nothing here is.
    """
    n, d = X.shape
    models = np.empty((n, d))
    models[0] = 0.0
    last = 0

    def keep(release: Any) -> None:
        nonlocal last
        models[last + 1 : release.row] = models[last]
        if release.row < n:
            models[release.row] = release.coef
        last = min(release.row, n - 1)

    learner.fit_stream(open_stream((X, y), classes=classes), on_release=keep)
    models[last + 1 :] = models[last]
    return models


@dataclass(frozen=True)
class Ridge:
    """Rows, targets and the losses ``1/2 (y - x.w)^2 + l2/2 ||w||^2`` that models are measured by."""

    X: FloatArray
    y: FloatArray
    l2: float

    @classmethod
    def synthetic(cls, rows: int, *, seed: int = 1, dim: int = 10, noise: float = 0.01, l2: float = 1.0) -> Ridge:
        """Return normal rows with a linear target and normal noise, as in the source's synthetic regression."""
        rng = np.random.default_rng(seed)
        truth = rng.normal(size=dim)
        truth /= np.linalg.norm(truth)
        X = rng.normal(size=(rows, dim))
        return cls(X, X @ truth + noise * rng.normal(size=rows), l2)

    def losses(self, models: FloatArray) -> FloatArray:
        """Return every row's loss; ``models`` is one model, or one for each row."""
        errors = self.y - np.sum(self.X * models, axis=1)
        found: FloatArray = errors**2 / 2 + self.l2 / 2 * np.sum(models**2, axis=-1)
        return found

    def best(self, rows: int | None = None) -> float:
        """Return the least sum of losses of a fixed model over the first ``rows`` rows (default: all)."""
        X, y = self.X[:rows], self.y[:rows]
        matrix = len(y) * self.l2 * np.eye(X.shape[1]) + X.T @ X
        model = np.asarray(np.linalg.solve(matrix, X.T @ y), dtype=np.float64)
        return float(np.sum(Ridge(X, y, self.l2).losses(model)))

    def regret(self, models: FloatArray) -> float:
        """Return the average regret of models, one for each row."""
        return (float(np.sum(self.losses(models))) - self.best()) / len(self.y)

    def regrets(self, models: FloatArray, rows: NDArray[np.int64]) -> FloatArray:
        """Return the average regret over the first ``rows[i]`` rows, each relative to the best model for them."""
        total = np.cumsum(self.losses(models))
        return np.array([(total[n - 1] - self.best(n)) / n for n in rows])
