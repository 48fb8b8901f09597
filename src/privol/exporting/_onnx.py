"""Released models as graphs of ONNX: encoding, scaling of rows, scores, labels and probabilities."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import InvalidParameter
from ._linear import LinearModel, linear_model, released
from ._onnx_columns import encoded_rows
from ._onnx_graph import Graph

__all__ = ["to_onnx"]

#: Rows are dense in the graph, so that wider ones would take too much memory.
_MOST_FEATURES = 1 << 14


def to_onnx(model: Any) -> Any:
    """Return the last released model, with its encoding, as one graph of ONNX.

    Parameters
    ----------
    model : OnlineLearner, OfflineLearner, PrivateClassifier, PrivateRegressor, or path
        As for :func:`to_sklearn`.

    Returns
    -------
    onnx.ModelProto
        Checked by onnx. Its inputs, all of n rows:

        * of a model of numbers: ``X``, float64, shape (n, n_features);
        * of a model with a schema: one input of shape (n, 1) for each column that is used, of its name. Columns of
          numbers are float64, with NaN for a missing cell; times are seconds since 1970 in UTC; columns of
          categories are text without surrounding blanks, empty where missing, numbers as they are written.

        Its outputs: ``label`` (n,), ``scores`` (n,) or (n, n_classes), as of ``decision_function``, and
        ``probabilities`` (n, n_classes) if the loss gives some; or ``prediction`` (n,) of a real target, in its units.
        An output is called ``label_`` if a column is called ``label``.

        The metadata have the guarantee: ``privol.guarantee``, its record as JSON, and ``privol.sentence``.

    Raises
    ------
    InvalidParameter
        If onnx is not installed, or the model is none of these, has rows of more than 16,384 features, or an encoding
        that ONNX cannot express: sparse rows, levels that are texts and numbers, ``others =
        "number"``, or ranges without a schema.
    NotFittedError, StateError
        As for :func:`to_sklearn`.

    Notes
    -----
    Arithmetic is that of double precision. Scores are those of privol but for rounding, by the bound of
    :func:`to_sklearn`; an encoding adds at most ``2^-49`` times the sum of the absolute weights. Labels are equal
    unless scores are as close to each other as that, and probabilities but for twice that plus 1e-14.

    A cell that privol refuses (NaN or infinity of a number without a rule for it, a text that is no level) makes the
    scores and probabilities of its row NaN, because ONNX has no errors; its label then means nothing.

    Hashed categories need the operator MurmurHash3 of onnxruntime (domain ``com.microsoft``); all others are standard.
    """
    given = released(model)
    found = linear_model(given)
    if found.coef.shape[1] > _MOST_FEATURES:
        raise InvalidParameter(
            f"rows in ONNX are dense: at most {_MOST_FEATURES:,} features, found {found.coef.shape[1]:,}"
        )
    names = ["X"] if given.schema is None else [name for name, _ in given.schema.columns]
    graph = Graph(names)
    rows = graph.input("X", found.coef.shape[1]) if given.schema is None else encoded_rows(graph, given.schema)
    _answers(graph, found, _scores(graph, found, rows))
    guarantee = given.model.guarantee_
    facts = {"privol.guarantee": guarantee.to_json(), "privol.sentence": guarantee.sentence()}
    return graph.model(f"A linear model learnt with privol. {guarantee.summary()}", facts)


def _scores(graph: Graph, found: LinearModel, rows: str) -> str:
    """Scores of shape (n, outputs), of rows scaled to the bound."""
    bound = graph.constant(found.x_bound)
    norms = graph.apply("Sqrt", graph.along("ReduceSum", graph.apply("Mul", rows, rows)))
    factors = graph.apply("Div", bound, graph.apply("Max", norms, bound))
    scores = graph.apply("MatMul", rows, graph.constant(found.coef.T))
    return graph.apply("Add", graph.apply("Mul", scores, factors), graph.constant(found.intercept[None]))


def _answers(graph: Graph, found: LinearModel, scores: str) -> None:
    """Add the outputs."""
    flat = graph.constant([-1], np.int64)
    real = np.empty(0)
    if found.classes is None:
        graph.output("prediction", graph.apply("Reshape", scores, flat), real)
        return
    several = len(found.coef) > 1
    if several:
        best = graph.apply("ArgMax", scores, axis=1, keepdims=0)
    else:
        positive = graph.apply("Greater", scores, graph.constant(0.0))
        best = graph.apply("Reshape", graph.cast(positive, np.int64), flat)
    classes = _plain_labels(found.classes)
    graph.output("label", graph.apply("Gather", graph.constant(classes, classes.dtype), best), classes)
    graph.output("scores", scores if several else graph.apply("Reshape", scores, flat), real,
                 len(classes) if several else None)  # fmt: skip
    if found.loss.log_odds:
        shares = _shares_of_several(graph, found, scores) if several else _shares_of_two(graph, found, scores)
        graph.output("probabilities", shares, real, len(classes))


def _plain_labels(classes: Any) -> Any:
    """Labels of a type that ONNX has."""
    if classes.dtype.kind == "O":
        classes = np.array(classes.tolist())
    if classes.dtype.kind not in "UbiufO":
        raise InvalidParameter(f"labels in ONNX are text, numbers or truth values, found {classes.dtype}")
    return classes.astype(np.float64) if classes.dtype.kind == "f" else classes


def _shares_of_two(graph: Graph, found: LinearModel, scores: str) -> str:
    one = graph.constant(1.0)
    tail = graph.apply("Exp", graph.apply("Neg", graph.apply("Abs", scores)))
    if math.isfinite(found.cut):
        longest = graph.apply("Div", one, graph.apply("Add", tail, one))
        tail = graph.apply("Mul", tail, graph.apply("Max", graph.scaled("Div", longest, found.cut), one))
    ahead = graph.apply("GreaterOrEqual", scores, graph.constant(0.0))
    share = graph.apply("Div", graph.apply("Where", ahead, one, tail), graph.apply("Add", tail, one))
    return graph.beside([graph.apply("Sub", one, share), share])


def _shares_of_several(graph: Graph, found: LinearModel, scores: str) -> str:
    one = graph.constant(1.0)
    logs = scores
    if not found.loss.joint:
        tail = graph.apply("Exp", graph.apply("Neg", graph.apply("Abs", scores)))
        logs = graph.apply("Min", scores, graph.constant(0.0))
        logs = graph.apply("Sub", logs, graph.apply("Log", graph.apply("Add", tail, one)))
    logs = _normalised(graph, logs)
    if math.isfinite(found.cut) and found.loss.joint:
        shares = graph.apply("Exp", logs)
        total = graph.along("ReduceSum", graph.apply("Mul", shares, shares))
        square = graph.apply("Sub", graph.apply("Add", total, one), graph.apply("Mul", shares, graph.constant(2.0)))
        length = graph.apply("Sqrt", graph.apply("Max", square, graph.constant(0.0)))
        longer = graph.apply("Max", graph.scaled("Div", length, found.cut), one)
        logs = _normalised(graph, graph.apply("Add", logs, graph.apply("Log", longer)))
    return graph.apply("Exp", logs)


def _normalised(graph: Graph, logs: str) -> str:
    logs = graph.apply("Sub", logs, graph.along("ReduceMax", logs))
    return graph.apply("Sub", logs, graph.apply("Log", graph.along("ReduceSum", graph.apply("Exp", logs))))
