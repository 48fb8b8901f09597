"""The released side of a learner: attributes and predictions, from released models only."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import ClassifierTags, RegressorTags, Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from .._core._rows import squared_norms
from ..errors import InvalidParameter, StateError
from ..guarantees import Guarantee
from ..losses import Loss, get_loss

__all__ = ["Export", "Release", "ReleasedModel", "is_classifier"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Release:
    """A released model: public.

    Attributes
    ----------
    row : int
        Rows learnt when it was released.
    coef : ndarray of shape (n_features,)
    intercept : float
    """

    row: int
    coef: FloatArray
    intercept: float


@dataclass(frozen=True)
class Export:
    """The public part of a fitted learner: all that a pickle or a file may hold."""

    model: FloatArray
    average: FloatArray
    n_rows: int
    n_releases: int
    guarantee: Guarantee
    classes: NDArray[Any] | None


def is_classifier(learner: Any) -> bool:
    return bool(get_loss(learner.loss).kind == "classification")


def _has_probabilities(learner: Any) -> bool:
    return bool(get_loss(learner.loss).name == "logistic")


class ReleasedModel(BaseEstimator):  # type: ignore[misc]
    """Base of the learners: what they have released, and predictions from it."""

    loss: str | Loss
    x_bound: float
    fit_intercept: bool

    @abstractmethod
    def _public(self, attribute: str) -> Any:
        """Return a field of :class:`Export`, or raise NotFittedError."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        if is_classifier(self):
            tags.estimator_type = "classifier"
            tags.classifier_tags = ClassifierTags(multi_class=False)
        else:
            tags.estimator_type = "regressor"
            tags.regressor_tags = RegressorTags()
        return tags

    def _split(self, model: FloatArray) -> FloatArray:
        coef = model[:-1] if self.fit_intercept else model
        return coef[None, :] if is_classifier(self) else coef

    @property
    def coef_(self) -> FloatArray:
        """Weights of the last released model: shape (1, n_features) for classification, (n_features,) otherwise.

        Before the first release: the starting point, which does not depend on the data.
        """
        return self._split(self._public("model"))

    @property
    def intercept_(self) -> FloatArray | float:
        """Intercept of the last released model: shape (1,) for classification, a float otherwise."""
        value = float(self._public("model")[-1]) if self.fit_intercept else 0.0
        return np.array([value]) if is_classifier(self) else value

    @property
    def average_coef_(self) -> FloatArray:
        """Mean of the weights of all released models, in the shape of ``coef_``."""
        return self._split(self._public("average"))

    @property
    def average_intercept_(self) -> FloatArray | float:
        """Mean of the intercepts of all released models, in the shape of ``intercept_``."""
        value = float(self._public("average")[-1]) if self.fit_intercept else 0.0
        return np.array([value]) if is_classifier(self) else value

    @property
    def n_rows_(self) -> int:
        """Rows learnt in the current or last run."""
        return int(self._public("n_rows"))

    @property
    def n_releases_(self) -> int:
        """Models released in the current or last run."""
        return int(self._public("n_releases"))

    @property
    def guarantee_(self) -> Guarantee:
        """What the whole run guarantees, whether or not all of it has happened yet."""
        guarantee: Guarantee = self._public("guarantee")
        return guarantee

    # ---- prediction: from released models only --------------------------------------------------------

    def _scores(self, rows: ArrayLike) -> FloatArray:
        model: FloatArray = self._public("model")
        X: Any = validate_data(
            self, rows, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32], accept_large_sparse=True
        )
        d = X.shape[1]
        # rows beyond the bound are scaled to it, as they were when learnt
        norms = np.sqrt(squared_norms(X))
        factor = self.x_bound / np.maximum(norms, self.x_bound)
        scores: FloatArray = np.asarray(X @ model[:d], dtype=np.float64) * factor
        return scores + model[d] if self.fit_intercept else scores

    @available_if(is_classifier)  # type: ignore[untyped-decorator]
    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Signed score of every row, shape (n,): positive for ``classes_[1]``."""
        return self._scores(X)

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Probability of every class for every row, shape (n, 2); logistic loss only."""
        scores = self._scores(X)
        positive = np.where(scores >= 0, 1.0, np.exp(-np.abs(scores))) / (1.0 + np.exp(-np.abs(scores)))
        return np.column_stack([1.0 - positive, positive])

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Class label, or predicted target, of every row, shape (n,)."""
        scores = self._scores(X)
        if not is_classifier(self):
            return scores
        labels: NDArray[Any] = self._labels()[(scores > 0).astype(int)]
        return labels

    def _labels(self) -> NDArray[Any]:
        labels: NDArray[Any] | None = self._public("classes")
        if labels is None:
            raise StateError("the run was begun without labels: there is a model, but no classes to predict")
        return labels

    def predict_one(self, x: ArrayLike) -> Any:
        """Class label, or predicted target, of one row of shape (n_features,)."""
        model: FloatArray = self._public("model")
        row = np.asarray(x, dtype=np.float64)
        d = len(model) - bool(self.fit_intercept)
        if row.shape != (d,):
            raise InvalidParameter(f"x must have shape ({d},), found {row.shape}")
        norm = math.sqrt(float(row @ row))
        score = float(row @ model[:d])
        if not math.isfinite(norm):
            raise InvalidParameter("x must be finite (NaN and infinity are not)")
        if norm > self.x_bound:
            score *= self.x_bound / norm
        if self.fit_intercept:
            score += float(model[d])
        return self._labels()[int(score > 0)] if is_classifier(self) else score

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Accuracy for classification, R squared for regression. Computed from raw rows: not private."""
        prediction = self.predict(X)
        return float(accuracy_score(y, prediction) if is_classifier(self) else r2_score(y, prediction))
