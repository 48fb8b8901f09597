"""Released models as estimators of scikit-learn."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression, SGDClassifier
from sklearn.pipeline import Pipeline
from sklearn.svm import LinearSVC

from ..encoding import PrivateEncoder
from ..encoding.schema import Schema
from ._linear import Estimator, LinearModel, Model, linear_model, released, shown_of
from .steps import ClippedLogisticRegression, RowScaler

__all__ = ["to_sklearn"]


def to_sklearn(model: Any) -> Pipeline:
    """Return the last released model as a fitted pipeline of scikit-learn.

    Parameters
    ----------
    model : OnlineLearner, OfflineLearner, PrivateClassifier, PrivateRegressor, or path
        With at least one release; a live run goes on. Or a directory with a saved model: that of ``privol run``, of
        :func:`privol.state.save_model`, ...

    Returns
    -------
    Pipeline
        Its steps are "encode", where a schema makes rows of columns: a fitted :class:`~privol.encoding.PrivateEncoder`;
        "scale": a :class:`RowScaler`; and "model", a linear model with ``coef_`` and ``intercept_``:

        * ``LogisticRegression``: two classes by the logistic loss, or softmax; :class:`ClippedLogisticRegression` where
          the probabilities of a PrivateClassifier allow for clipped gradients;
        * ``SGDClassifier(loss="log_loss")``: each of several classes against the rest, by the logistic loss;
        * ``LinearSVC``: any other loss for classes, which gives no probabilities;
        * ``LinearRegression``: a real target, in its own units.

        It holds no ledger, seed or live run.

    Raises
    ------
    InvalidParameter
        If ``model`` is none of these, or its rows were scaled by ranges, which are no schema.
    NotFittedError, StateError
        If there is no run, nothing was released, the run has no labels, or a file is missing or damaged.

    Notes
    -----
    Scores are those of ``model`` but for rounding: for a row x, scaled to its bound, and weights w with intercept b
    they differ by at most ``(n_features + 8) 2^-51 (|x| |w| + |b|)``, with all absolute values (of two classes by
    softmax: of the weights of both). So labels are equal unless two scores (or a score and 0) are as close to each
    other as that. Probabilities differ by at most twice that plus 1e-14; of
    ``SGDClassifier`` unless all sigmoids of a row underflow, which it then takes for equal.

    **Fitting the pipeline again learns without privacy**, as ``cross_val_score`` and searches do: only the released
    numbers are private. ``sklearn.frozen.FrozenEstimator`` keeps it as it is.
    """
    given = released(model)
    found = linear_model(given)
    scaler, last = RowScaler(found.x_bound), _last_step(found)
    scaler.n_features_in_ = last.n_features_in_ = found.coef.shape[1]
    steps: list[tuple[str, Any]] = [("scale", scaler), ("model", last)]
    if given.schema is not None:
        steps.insert(0, ("encode", _encode_step(given.model, given.schema)))
    elif found.names is not None:
        scaler.feature_names_in_ = np.array(found.names, dtype=object)
    return Pipeline(steps)


def _last_step(found: LinearModel) -> Any:
    if found.classes is None:
        regressor = LinearRegression()
        regressor.coef_, regressor.intercept_ = found.coef[0].copy(), float(found.intercept[0])
        return regressor
    classifier: Any
    if not found.loss.log_odds:
        classifier = LinearSVC()
    elif len(found.coef) > 1 and not found.loss.joint:
        classifier = SGDClassifier(loss="log_loss")
    elif math.isfinite(found.cut):
        classifier = ClippedLogisticRegression(loss=found.loss.name, cut=found.cut)
    else:
        classifier = LogisticRegression()
    classifier.coef_, classifier.intercept_ = found.coef.copy(), found.intercept.copy()
    classifier.classes_ = found.classes.copy()
    return classifier


def _encode_step(model: Model, schema: Schema) -> PrivateEncoder:
    """Return an encoder that shows what was learnt or declared, without a ledger and a seed."""
    encoder = copy.copy(model.encoder_) if isinstance(model, Estimator) else PrivateEncoder()
    encoder.ledger = encoder.random_state = None
    # further columns are left out, as in an estimator's own predictions
    encoder.schema_ = replace(schema, others="drop" if schema.others == "refuse" else schema.others)
    if not isinstance(model, Estimator):
        return encoder
    if schema.rows is not None:
        encoder.n_features_in_ = model.n_features_in_
    elif not shown_of(model)["of_stream"]:  # columns of a stream are found by name, wherever they stand
        encoder.n_features_in_ = model.n_features_in_
        if hasattr(model, "feature_names_in_"):
            encoder.feature_names_in_ = model.feature_names_in_
    return encoder
