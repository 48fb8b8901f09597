"""A released model as plain numbers: what every exported form of it is made of."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ..auto import PrivateClassifier, PrivateRegressor
from ..auto.kept import describe_encoding, describe_shown
from ..encoding.schema import Schema
from ..errors import InvalidParameter, StateError
from ..learners import OfflineLearner, OnlineLearner
from ..losses import Loss, get_loss

__all__ = ["Estimator", "LinearModel", "Model", "linear_model", "released", "shown_of"]

Learner: TypeAlias = OnlineLearner | OfflineLearner
Estimator: TypeAlias = PrivateClassifier | PrivateRegressor
Model: TypeAlias = Learner | Estimator
FloatArray = NDArray[np.float64]

_ALLOWED = "a learner of privol, a PrivateClassifier or a PrivateRegressor"


@dataclass(frozen=True, eq=False)
class LinearModel:
    """The last released model, for rows that are scaled to ``x_bound``: scores are ``X @ coef.T + intercept``.

    Attributes
    ----------
    coef : ndarray of shape (outputs, n_features)
        One output for two classes, whose score is positive for ``classes[1]``, and for a real target, in its own units;
        otherwise one for each class.
    intercept : ndarray of shape (outputs,)
    classes : ndarray of shape (n_classes,), or None
        None: the target is a real number.
    x_bound : float
    loss : Loss
        What was learnt with.
    cut : float
        Norm to which gradients in the scores were cut, for the probabilities; infinite if that does not matter.
    schema : Schema or None
        What makes rows of columns; None: rows come as numbers.
    names : tuple of str, or None
        Names of the features, or of the columns.
    """

    coef: FloatArray
    intercept: FloatArray
    classes: NDArray[Any] | None
    x_bound: float
    loss: Loss
    cut: float
    schema: Schema | None
    names: tuple[str, ...] | None


def released(model: Any) -> Model:
    """Return a model that has released something.

    Raises
    ------
    InvalidParameter
        If it is of another kind.
    NotFittedError, StateError
        If there is no run, or nothing was released.
    """
    if not isinstance(model, Learner | Estimator):
        raise InvalidParameter(f"model must be {_ALLOWED}, found {type(model).__name__}")
    check_is_fitted(model)
    if model.n_releases_ < 1:
        raise StateError("nothing was released yet, so there is no model to export")
    return model


def linear_model(model: Any) -> LinearModel:
    """Return the last released model as numbers; errors are those of :func:`released`."""
    model = released(model)
    if not isinstance(model, Estimator):
        return _of_learner(model)
    shown = shown_of(model)
    own = _of_learner(model.learner_)
    coef, intercept, cut, classes = own.coef, own.intercept, float(shown["cut"]), None
    if shown["classes"] is None:
        target = model.schema_.target
        if target is not None and target.range is not None:
            low, high = target.range
            half = high / 2 - low / 2
            coef, intercept = coef * half, (low / 2 + high / 2) + intercept * half
    else:
        classes, order = model.classes_, np.array(shown["order"])
        if len(coef) > 1:
            coef, intercept = coef[order], intercept[order]
        elif order[0] == 1:
            coef, intercept = -coef, -intercept
        if own.loss.joint and len(classes) == 2:
            cut /= math.sqrt(2.0)  # the gradient of the difference is shorter by this than that of both scores
    names = tuple(name for name, _ in model.schema_.columns) or None
    return LinearModel(coef, intercept, classes, own.x_bound, own.loss, cut, model.schema_, names)


def shown_of(model: Estimator) -> dict[str, Any]:
    """Return the public values of an estimator of tables, without those of its learner."""
    return describe_shown(model, describe_encoding(model.encoder_))


def _of_learner(learner: Learner) -> LinearModel:
    loss = get_loss(learner.loss)
    coef, intercept = np.atleast_2d(learner.coef_), np.atleast_1d(learner.intercept_)
    classes = None
    if loss.kind == "classification":
        classes = getattr(learner, "classes_", None)
        if classes is None:
            raise StateError("the run was begun without labels: there is a model, but no classes to predict")
        if len(coef) == 2:
            coef, intercept = coef[1:] - coef[:1], intercept[1:] - intercept[:1]
    names = getattr(learner, "feature_names_in_", None)
    named = None if names is None else tuple(map(str, names))
    return LinearModel(coef, intercept, classes, float(learner.x_bound), loss, math.inf, None, named)
