"""References without privacy: online linear models, and models fitted to all rows at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit, logsumexp
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier, SGDRegressor

from ..errors import InvalidParameter
from .central import Played
from .figures import figures_of, headline
from .raw_rows import Rows

__all__ = ["play_default_sgd", "play_river", "play_sgd", "play_trees", "play_whole"]

FloatArray = NDArray[np.float64]

_STEPS = 0.0003, 0.001, 0.003, 0.01, 0.03
_SCHEDULES = "constant", "invscaling"


def _blocks(n: int, block: int) -> Iterator[slice]:
    for start in range(0, n, block):
        yield slice(start, min(start + block, n))


def _log_odds(model: Any, X: Any, classes: int) -> FloatArray:
    """The input of the figures; for several classes, logarithms of the shares of one-against-all models."""
    found: FloatArray = model.decision_function(X)
    if classes == 2:
        return found
    known = log_expit(found)
    known -= logsumexp(known, axis=1, keepdims=True)
    whole: FloatArray = np.full((len(found), classes), -30.0)
    whole[:, np.asarray(model.classes_, dtype=np.int64)] = known
    return whole


def _one_pass(rows: Rows, block: int, model: Any, about: dict[str, Any]) -> Played:
    """Let a scikit-learn model learn in one pass, block by block, on standardised numbers and one-hot texts.

    Scales and levels come from all rows, which no online learner can know; so does the scale of real targets.
    """
    prepared, (X, held) = rows.prepared, rows.encoded
    classes, y = len(prepared.classes), rows.y
    mean, spread = (float(y.mean()), float(y.std()) or 1.0) if prepared.regression else (0.0, 1.0)
    known = {} if prepared.regression else {"classes": np.arange(classes)}

    def predict(part: Any) -> FloatArray:
        if prepared.regression:
            return np.asarray(mean + spread * model.predict(part))
        return _log_odds(model, part, classes)

    scores = np.zeros((prepared.rows, classes) if classes > 2 else prepared.rows) + mean
    start = time.perf_counter()
    for at in _blocks(prepared.rows, block):
        if at.start:
            scores[at] = predict(X[at])
        model.partial_fit(X[at], (y[at] - mean) / spread if prepared.regression else y[at], **known)
    seconds = time.perf_counter() - start
    return Played(scores, predict(held), seconds, prepared.rows, {"features": X.shape[1], **about})


def play_sgd(rows: Rows, block: int) -> Played:
    """Let scikit-learn's SGD learn, its step size and schedule chosen in hindsight.

    Chosen by the AUC (or R2) of the second half of the stream.
    """
    prepared = rows.prepared
    best: Played | None = None
    most = -np.inf
    for eta in _STEPS:
        for schedule in _SCHEDULES:
            words = {"learning_rate": schedule, "eta0": eta, "alpha": 1e-6, "fit_intercept": False, "random_state": 0}
            model: Any = SGDRegressor(**words) if prepared.regression else SGDClassifier(loss="log_loss", **words)
            found = _one_pass(rows, block, model, {"step": eta, "schedule": schedule})
            figure = figures_of(prepared, rows.y, found.scores, "second_half").get(headline(prepared.regression))
            if best is None or (figure is not None and figure > most):
                most = most if figure is None else figure
                best = found
    assert best is not None
    return best


def play_default_sgd(rows: Rows, block: int) -> Played:
    """Let scikit-learn's SGD learn with its defaults, except for the log-loss, which probabilities need."""
    if rows.prepared.regression:
        return _one_pass(rows, block, SGDRegressor(random_state=0), {})
    return _one_pass(rows, block, SGDClassifier(loss="log_loss", random_state=0), {})


def play_river(rows: Rows, block: int) -> Played:
    """Let River's scaler and linear model, with their defaults, learn row by row.

    Raises
    ------
    InvalidParameter
        If River is not installed.
    """
    try:
        from river import compose, linear_model, multiclass, preprocessing
    except ImportError as error:
        raise InvalidParameter("River is not installed: pip install 'privol[river]'") from error
    prepared = rows.prepared
    learnt, held = rows.dictionaries()
    numbers = [column.name for column in rows.columns if column.number]
    texts = [column.name for column in rows.columns if not column.number]
    parts = []
    if numbers:
        parts.append(compose.Select(*numbers) | preprocessing.StandardScaler())
    if texts:
        parts.append(compose.Select(*texts) | preprocessing.OneHotEncoder())
    features = parts[0] if len(parts) == 1 else parts[0] + parts[1]
    linear: Any
    if prepared.regression:
        linear = preprocessing.TargetStandardScaler(linear_model.LinearRegression())
    elif len(prepared.classes) == 2:
        linear = linear_model.LogisticRegression()
    else:
        linear = multiclass.OneVsRestClassifier(linear_model.LogisticRegression())
    model = features | linear
    targets: list[Any] = rows.y.tolist()
    if not prepared.regression:
        targets = [bool(y) if len(prepared.classes) == 2 else int(y) for y in targets]
    predict: Callable[[dict[str, Any]], Any] = partial(_of_row, model, len(prepared.classes))
    scores = []
    start = time.perf_counter()
    for at in _blocks(prepared.rows, block):
        scores += [predict(x) for x in learnt[at]]
        for x, y in zip(learnt[at], targets[at], strict=True):
            model.learn_one(x, y)
    seconds = time.perf_counter() - start
    late = np.array([predict(x) for x in held])
    return Played(np.array(scores), late, seconds, prepared.rows, {"features": None})


def _of_row(model: Any, classes: int, x: dict[str, Any]) -> Any:
    if not classes:
        return model.predict_one(x)
    shares = model.predict_proba_one(x)
    logs = [float(np.log(max(shares.get(bool(k) if classes == 2 else k, 0.0), 1e-13))) for k in range(classes)]
    if not shares:  # before the first row
        logs = [0.0] * classes
    return logs[1] - logs[0] if classes == 2 else logs


def play_whole(rows: Rows) -> Played:
    """Fit a linear model to the whole stream, for the held-out rows: logistic regression or ridge."""
    prepared, (X, held) = rows.prepared, rows.encoded
    start = time.perf_counter()
    if prepared.regression:
        model: Any = Ridge(alpha=1.0, fit_intercept=False).fit(X, rows.y)
        found = model.predict(held)
    else:
        model = LogisticRegression(max_iter=300).fit(X, rows.y)
        found = _whole(model.decision_function(held), model.classes_, len(prepared.classes))
    return Played(None, found, time.perf_counter() - start, prepared.rows, {"features": X.shape[1]})


def _whole(found: FloatArray, known: Any, classes: int) -> FloatArray:
    """Scores of all classes from a fit that may not have seen some of them."""
    if classes == 2:
        return found
    several = np.column_stack([np.zeros(len(found)), found]) if found.ndim == 1 else found
    whole: FloatArray = np.full((len(found), classes), -30.0)
    whole[:, np.asarray(known, dtype=np.int64)] = several
    return whole


def play_trees(rows: Rows) -> Played:
    """Fit scikit-learn's histogram gradient boosting to the whole stream, for the held-out rows."""
    prepared, (X, held, categories) = rows.prepared, rows.coded
    words: dict[str, Any] = {"categorical_features": categories, "random_state": 0}
    start = time.perf_counter()
    if prepared.regression:
        model: Any = HistGradientBoostingRegressor(**words).fit(X, rows.y)
        found = model.predict(held)
    else:
        model = HistGradientBoostingClassifier(**words).fit(X, rows.y)
        found = _whole(model.decision_function(held), model.classes_, len(prepared.classes))
    return Played(None, found, time.perf_counter() - start, prepared.rows, {"features": X.shape[1]})
