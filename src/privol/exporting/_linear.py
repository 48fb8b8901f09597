"""A released model as plain numbers: what every exported form of it is made of."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ..auto import PrivateClassifier, PrivateRegressor
from ..auto.kept import describe_encoding, describe_shown
from ..encoding.schema import Schema
from ..errors import InvalidParameter, StateError
from ..explaining import cut_of
from ..learners import OfflineLearner, OnlineLearner
from ..losses import Loss, get_loss
from ..state import load_model, read_record

__all__ = ["Estimator", "Learner", "LinearModel", "Model", "Released", "linear_model", "released", "shown_of"]

Learner: TypeAlias = OnlineLearner | OfflineLearner
Estimator: TypeAlias = PrivateClassifier | PrivateRegressor
Model: TypeAlias = Learner | Estimator
FloatArray = NDArray[np.float64]

_ALLOWED = "a learner of privol, a PrivateClassifier, a PrivateRegressor or the path of a saved model"


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


class Released(NamedTuple):
    """A model that has released something, and the schema of its columns where there is one."""

    model: Model
    schema: Schema | None


def released(model: Any) -> Released:
    """Return a model, or that of a directory.

    Parameters
    ----------
    model : OnlineLearner, OfflineLearner, PrivateClassifier, PrivateRegressor, or path
        A path is of a directory that ``privol run``, :func:`privol.state.save_model` or another function of privol has
        written a model into.

    Raises
    ------
    InvalidParameter
        If it is of another kind, or its rows were scaled by ranges, which are no schema.
    NotFittedError, StateError
        If there is no run, nothing was released, or a file is missing or damaged.
    """
    schema = None
    if isinstance(model, str | os.PathLike):
        inputs = read_record(model)["inputs"] or {}
        if inputs.get("ranges") is not None:
            raise InvalidParameter(f"{os.fspath(model)}: its rows are scaled by ranges; only a schema can be exported")
        if inputs.get("schema") is not None:
            schema = Schema.from_record(inputs["schema"])
        model = load_model(model)
    if not isinstance(model, Learner | Estimator):
        raise InvalidParameter(f"model must be {_ALLOWED}, found {type(model).__name__}")
    check_is_fitted(model)
    if model.n_releases_ < 1:
        raise StateError("nothing was released yet, so there is no model to export")
    return Released(model, model.schema_ if isinstance(model, Estimator) else schema)


def linear_model(given: Released) -> LinearModel:
    """Return the last released model as numbers.

    Raises
    ------
    StateError
        If the run has no labels.
    """
    model, schema = given
    learner: Learner = model.learner_ if isinstance(model, Estimator) else model
    coef, intercept, classes = _numbers_of(learner)
    loss, cut = get_loss(learner.loss), math.inf
    columns = getattr(learner, "feature_names_in_", None)
    if schema is not None:
        columns = [name for name, _ in schema.columns] or None
        if classes is None and schema.target is not None and schema.target.range is not None:
            low, high = schema.target.range
            half = high / 2 - low / 2
            coef, intercept = coef * half, (low / 2 + high / 2) + intercept * half
    if isinstance(model, Estimator) and classes is not None:
        shown = shown_of(model)
        cut, order, classes = float(shown["cut"]), np.array(shown["order"]), model.classes_
        if len(coef) > 1:
            coef, intercept = coef[order], intercept[order]
        elif order[0] == 1:
            coef, intercept = -coef, -intercept
    elif schema is not None and classes is not None:
        cut = cut_of(learner, schema, learner.n_features_in_, len(classes))
    if loss.joint and len(coef) == 1:
        cut /= math.sqrt(2.0)  # the gradient of the difference is shorter by this than that of both scores
    names = None if columns is None else tuple(map(str, columns))
    return LinearModel(coef, intercept, classes, float(learner.x_bound), loss, cut, schema, names)


def shown_of(model: Estimator) -> dict[str, Any]:
    """Return the public values of an estimator of tables, without those of its learner."""
    return describe_shown(model, describe_encoding(model.encoder_))


def _numbers_of(learner: Learner) -> tuple[FloatArray, FloatArray, NDArray[Any] | None]:
    """Weights and intercepts, one output for two classes, and the classes in the learner's order."""
    coef, intercept = np.atleast_2d(learner.coef_), np.atleast_1d(learner.intercept_)
    if get_loss(learner.loss).kind != "classification":
        return coef, intercept, None
    classes = getattr(learner, "classes_", None)
    if classes is None:
        raise StateError("the run was begun without labels: there is a model, but no classes to predict")
    if len(coef) == 2:
        coef, intercept = coef[1:] - coef[:1], intercept[1:] - intercept[:1]
    return coef, intercept, classes
