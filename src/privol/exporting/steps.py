"""Steps of exported pipelines: what privol does with rows and scores and scikit-learn has no step for."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.linear_model import LogisticRegression
from sklearn.utils.extmath import row_norms
from sklearn.utils.validation import check_is_fitted, validate_data

from .._validate import number
from ..losses import class_probabilities, get_loss

__all__ = ["ClippedLogisticRegression", "RowScaler"]


class RowScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Scales rows that are longer than a bound to that length, each by itself; other rows stay as they are.

    Learners of privol do this to every row, in learning and in prediction. The transformer has no state: ``fit`` notes
    only the number and the names of the features.

    Parameters
    ----------
    x_bound : float, default=1.0
        The largest L2 norm of a row, above 0.

    Attributes
    ----------
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        If the features have names.
    """

    def __init__(self, x_bound: float = 1.0) -> None:
        self.x_bound = x_bound

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the bound and note the features of rows of shape (n, n_features); ``y`` is not read.

        Raises
        ------
        InvalidParameter
            If the bound is not a positive number.
        """
        number(x_bound=self.x_bound, above=0.0)
        validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32])
        return self

    def transform(self, X: Any) -> Any:
        """Return rows of shape (n, n_features) with norms of at most the bound, dense or CSR as they were.

        Raises
        ------
        ValueError
            If a cell is not finite, or the number of features is wrong.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32])
        norms = row_norms(X.astype(np.float64, copy=False))
        if not (norms > self.x_bound).any():
            return X
        factors = self.x_bound / np.maximum(norms, self.x_bound)
        if sp.issparse(X):
            return (sp.diags_array(factors) @ X).tocsr()
        return X * factors[:, None]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_features_in_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.requires_fit = False
        return tags


class ClippedLogisticRegression(LogisticRegression):  # type: ignore[misc]
    """A logistic regression whose scores were learnt from clipped gradients, and whose probabilities allow for it.

    The sigmoid of such a score is overconfident. ``predict_proba`` inverts what clipping did to the best scores, as
    :meth:`privol.PrivateClassifier.predict_proba` does. Labels and scores are those of the base class.

    Parameters
    ----------
    loss : str, default="logistic"
        Name of the loss that was learnt with, one whose predictions are log-odds.
    cut : float, default=inf
        The norm to which gradients in the scores were cut, above 0; infinite: none was.
    """

    def __init__(self, *, loss: str = "logistic", cut: float = math.inf) -> None:
        super().__init__()
        self.loss = loss
        self.cut = cut

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of every class for rows of shape (n, n_features): shape (n, n_classes)."""
        scores = np.asarray(self.decision_function(X), dtype=np.float64)
        return class_probabilities(get_loss(self.loss), scores, float(self.cut))
