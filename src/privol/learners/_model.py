"""The released side of a learner: attributes and predictions, from released models only."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import ClassifierTags, RegressorTags, Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from .._core._rows import squared_norms
from .._sparse import sound_rows
from .._values import unmasked
from ..errors import InvalidParameter, StateError
from ..guarantees import Guarantee, ShowsGuarantee
from ..losses import Loss, class_probabilities, get_loss
from ._named import NamedFeatures

__all__ = ["Export", "Release", "ReleasedModel", "is_classifier"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Release:
    """A released model: public.

    Attributes
    ----------
    row : int
        Rows learnt when it was released.
    coef : ndarray of shape (n_features,), or (n_classes, n_features) of a model with a score for each class
    intercept : float, or ndarray of shape (n_classes,)
    """

    row: int
    coef: FloatArray
    intercept: float | FloatArray


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
    return bool(get_loss(learner.loss).log_odds)


class ReleasedModel(NamedFeatures, ShowsGuarantee, BaseEstimator):  # type: ignore[misc]
    """Base of the learners: what they have released, and predictions from it."""

    loss: str | Loss
    x_bound: float
    fit_intercept: bool

    #: Whether the learner takes more than two classes, with a score for each.
    _many_classes: ClassVar[bool] = False

    @abstractmethod
    def _public(self, attribute: str) -> Any:
        """Return a field of :class:`Export`, or raise NotFittedError."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        if is_classifier(self):
            tags.estimator_type = "classifier"
            tags.classifier_tags = ClassifierTags(multi_class=self._many_classes)
        else:
            tags.estimator_type = "regressor"
            tags.regressor_tags = RegressorTags()
        return tags

    def _outputs(self) -> int:
        """Scores of a row: one for each class if there are more than two, or if the loss covers all at once."""
        classes = self._public("classes")
        many = classes is not None and (len(classes) > 2 or get_loss(self.loss).joint)
        return len(classes) if many else 1

    def _parts(self, model: FloatArray, outputs: int) -> tuple[FloatArray, float | FloatArray]:
        """Weights and intercept of a model: a vector and a number or, for several scores, a matrix and a vector."""
        rows = model.reshape(outputs, -1) if outputs > 1 else model
        if not self.fit_intercept:
            return rows, np.zeros(outputs) if outputs > 1 else 0.0
        last = rows[..., -1]
        return rows[..., :-1], last.copy() if outputs > 1 else float(last)

    def _coef(self, model: FloatArray) -> FloatArray:
        coef, _ = self._parts(model, self._outputs())
        return np.atleast_2d(coef) if is_classifier(self) else coef

    def _intercept(self, model: FloatArray) -> FloatArray | float:
        _, intercept = self._parts(model, self._outputs())
        return np.atleast_1d(intercept) if is_classifier(self) else intercept

    @property
    def coef_(self) -> FloatArray:
        """Weights of the last released model: shape (n_features,) for regression.

        For classification (1, n_features), or (n_classes, n_features) where there is a score for each class. Before the
        first release: the starting point, which does not depend on the data.
        """
        return self._coef(self._public("model"))

    @property
    def intercept_(self) -> FloatArray | float:
        """Intercept of the last released model: a float for regression, else shape (1,) or (n_classes,)."""
        return self._intercept(self._public("model"))

    @property
    def average_coef_(self) -> FloatArray:
        """Mean of the weights of all released models, in the shape of ``coef_``."""
        return self._coef(self._public("average"))

    @property
    def average_intercept_(self) -> FloatArray | float:
        """Mean of the intercepts of all released models, in the shape of ``intercept_``."""
        return self._intercept(self._public("average"))

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
        """The guarantee of the whole run, whether or not all of it has happened yet."""
        guarantee: Guarantee = self._public("guarantee")
        return guarantee

    # ---- prediction: from released models only --------------------------------------------------------

    def _scores(self, rows: ArrayLike) -> FloatArray:
        """Scores of rows, shape (n,), or (n, n_classes) if there is one for each class."""
        coef, intercept = self._parts(self._public("model"), self._outputs())
        X: Any = validate_data(
            self,
            sound_rows(unmasked(rows)),
            reset=False,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            accept_large_sparse=True,
        )
        # rows beyond the bound are scaled to it, as in learning
        norms = np.sqrt(squared_norms(X, refuse=True))
        factor = self.x_bound / np.maximum(norms, self.x_bound)
        scores: FloatArray = np.asarray(X @ coef.T, dtype=np.float64)
        scores = scores * (factor[:, None] if scores.ndim == 2 else factor)
        return scores + intercept if self.fit_intercept else scores

    @available_if(is_classifier)  # type: ignore[untyped-decorator]
    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Scores of every row.

        Of two classes shape (n,), positive for ``classes_[1]``: where both have a score, the difference. Of more
        classes shape (n, n_classes).
        """
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if scores.ndim == 2 and scores.shape[1] == 2 else scores

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Probability of every class for every row, shape (n, n_classes); logistic loss and softmax only.

        Of each class against the rest, by the logistic loss: the sigmoids of the scores, divided by their sum.
        """
        return class_probabilities(get_loss(self.loss), self._scores(X))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Class label, or predicted target, of every row, shape (n,); of equal scores the first class's."""
        scores = self._scores(X)
        if not is_classifier(self):
            return scores
        best = scores.argmax(axis=1) if scores.ndim == 2 else (scores > 0).astype(int)
        labels: NDArray[Any] = self._labels()[best]
        return labels

    def _labels(self) -> NDArray[Any]:
        labels: NDArray[Any] | None = self._public("classes")
        if labels is None:
            raise StateError("the run was begun without labels: there is a model, but no classes to predict")
        return labels

    def predict_one(self, x: ArrayLike | dict[str, Any]) -> Any:
        """Class label, or predicted target, of one row of shape (n_features,), or a dict of features by name."""
        row: Any = self._named_row(x, None) if isinstance(x, dict) else x
        run = self.__dict__.get("_run")
        found = None if run is None else run.predict_one(row, self.x_bound)
        if found is not None:
            return found
        score = self._score_one(row)
        if not is_classifier(self):
            return float(score)
        return self._labels()[int(np.argmax(score)) if score.ndim else int(score > 0)]

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba_one(self, x: ArrayLike | dict[str, Any]) -> dict[Any, float]:
        """Probability of every class for one row, as ``predict_one`` takes it; logistic loss and softmax only."""
        row: Any = self._named_row(x, None) if isinstance(x, dict) else x
        scores = self._score_one(row)
        shares = class_probabilities(get_loss(self.loss), scores[None])[0]
        return dict(zip(self._labels().tolist(), shares.tolist(), strict=True))

    def _score_one(self, x: ArrayLike) -> Any:
        """Score of one row, a NumPy number, or an array of shape (n_classes,) if there is one for each class."""
        coef, intercept = self._parts(self._public("model"), self._outputs())
        row = np.asarray(unmasked(x), dtype=np.float64)
        d = coef.shape[-1]
        if row.shape != (d,):
            raise InvalidParameter(f"x must have shape ({d},), found {row.shape}")
        norm = math.sqrt(float(row @ row))
        score = coef @ row
        if not math.isfinite(norm):
            raise InvalidParameter("x must be finite (NaN and infinity are not)")
        if norm > self.x_bound:
            score = score * (self.x_bound / norm)
        return score + intercept

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Accuracy for classification, R squared for regression. Computed from raw rows: not private."""
        from sklearn.metrics import accuracy_score, r2_score  # takes longer to import than the rest of scikit-learn

        prediction = self.predict(X)
        return float(accuracy_score(y, prediction) if is_classifier(self) else r2_score(y, prediction))
