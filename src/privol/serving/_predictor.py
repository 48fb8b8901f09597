"""A released model that answers for rows as a client has them: dicts, arrays, or tables of Arrow."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .._core._rows import squared_norms
from .._values import labels_of
from ..auto.course import Coders, blocks_of
from ..auto.inputs import columns_of, dict_columns
from ..encoding.ranges import Ranges
from ..encoding.schema import Schema
from ..encoding.schema_parts import Drop
from ..errors import InvalidParameter, StateError, StreamError
from ..explaining import cut_of, of_scores
from ..learners import OfflineLearner, OnlineLearner
from ..losses import class_probabilities, get_loss
from ..readers.columns import Columns

__all__ = ["Answer", "Predictor"]

Learner: TypeAlias = OnlineLearner | OfflineLearner
FloatArray = NDArray[np.float64]

_NAMED = 8  # columns that a message names
_NUMBERS = frozenset({float, int})
_MOST_ROWS = 65536  # of a block


@dataclass(frozen=True, eq=False)
class Answer:
    """Predictions for some rows.

    Attributes
    ----------
    predictions : ndarray of shape (n,)
        Labels, or targets in their own units.
    probabilities : ndarray of shape (n, n_classes), or None
        In the order of ``classes``; None where the loss gives none.
    classes : list or None
        None: the target is a real number.
    """

    predictions: NDArray[Any]
    probabilities: FloatArray | None
    classes: list[Any] | None


class Predictor:
    """A released model with the encoding of its rows. It never changes, and any number of threads may ask it.

    Its answers are those of ``privol predict`` and, for an estimator of tables, of its ``predict`` and
    ``predict_proba``, to the bit.

    Parameters
    ----------
    learner : OnlineLearner or OfflineLearner
        With a released model. It is the predictor's own from now on.
    inputs : mapping or None
        How rows become features, as a run's record has it.

    Attributes
    ----------
    learner : OnlineLearner or OfflineLearner
    columns : tuple of str or None
        Names of the columns that rows must have, in the order in which the cells of an array come; None where features
        have no names.
    width : int
        Cells of a row.

    Raises
    ------
    InvalidParameter
        If its rows are sparse, which have no form here.
    StateError
        If nothing was released, or the run had no labels.
    """

    def __init__(self, learner: Learner, inputs: Mapping[str, Any] | None) -> None:
        inputs = {} if inputs is None else inputs
        if learner.n_releases_ < 1:
            raise StateError("nothing was released yet, so there is no model to serve")
        self.learner = learner
        self._loss = get_loss(learner.loss)
        self._classified = self._loss.kind == "classification"
        if self._classified and getattr(learner, "classes_", None) is None:
            raise StateError("the run was begun without labels: there is a model, but no classes to predict")
        self._names(learner, inputs)
        self._coef, self._intercept = _numbers_of(learner, self._classified)
        self._cut, self._order, self._labels = self._outputs(learner, inputs)

    def _names(self, learner: Learner, inputs: Mapping[str, Any]) -> None:
        record, self._schema, self._ranges = inputs.get("schema"), None, None
        names = learner.__dict__.pop("feature_names_in_", None)  # checked here; scikit-learn would warn of bare arrays
        if record is not None:
            if "rows" in record:
                raise InvalidParameter(
                    "the model is of sparse rows, which privol serve does not take: privol predict does"
                )
            self._schema = replace(Schema.from_record(record), others="drop", name="the schema of the model")
            self._coders = Coders(target=False)
            listed = [name for name, column in self._schema.columns if not isinstance(column, Drop)]
            # which columns the encoding asks for is its own affair
            coder = self._coders.of(self._schema, dict_columns([dict.fromkeys(listed)], listed))
            if coder.n_features != learner.n_features_in_:
                raise StateError(
                    f"the schema makes {coder.n_features} features of a row, and the model has {learner.n_features_in_}"
                )
            self.columns: tuple[str, ...] | None = tuple(coder.kinds)
            self.width = len(self.columns)
            return
        self.width = int(learner.n_features_in_)
        known = inputs.get("feature_names") if names is None else names
        self.columns = None if known is None else tuple(map(str, known))
        if inputs.get("ranges") is not None:
            self._ranges = Ranges(inputs["ranges"], self.width, self.columns)

    def _outputs(
        self, learner: Learner, inputs: Mapping[str, Any]
    ) -> tuple[float, NDArray[np.intp], NDArray[Any] | None]:
        """The length of gradients, for the probabilities; the order of the classes; and the classes in that order."""
        if not self._classified:
            return math.inf, np.zeros(0, dtype=np.intp), None
        labels: NDArray[Any] = learner.classes_
        shown = inputs.get("estimator")
        if shown is not None:
            order = np.array(shown["order"], dtype=np.intp)
            classes = labels_of(shown["classes"]["values"], shown["classes"]["type"])
            if not len(classes) == len(labels) or sorted(order.tolist()) != list(range(len(labels))):
                raise StateError(f"the estimator has {len(classes)} classes in the order {order.tolist()}, and the "
                                 f"model has {len(labels)}")  # fmt: skip
            return float(shown["cut"]), order, classes
        cut = cut_of(learner, self._schema, int(learner.n_features_in_), len(labels))
        return cut, np.arange(len(labels)), labels

    @property
    def classes(self) -> list[Any] | None:
        """The labels, as JSON values; None for a real target."""
        return None if self._labels is None else self._labels.tolist()

    def of_release(self, learner: Learner) -> Predictor:
        """Return the predictor of another model of the same run: what it takes to encode rows is shared."""
        found = object.__new__(Predictor)
        vars(found).update(vars(self))
        learner.__dict__.pop("feature_names_in_", None)
        found.learner = learner
        found._coef, found._intercept = _numbers_of(learner, self._classified)
        return found

    # ---- rows ----------------------------------------------------------------------------------------------

    def of_rows(self, rows: Sequence[Any]) -> Answer:
        """Answer for JSON rows: all of them dicts by the names of the columns, or all of them arrays in their order.

        Raises
        ------
        StreamError
            If a row is of another kind, lacks a column, or has a cell that the model does not take.
        """
        kind = type(rows[0])
        if kind not in (dict, list):
            raise StreamError(f"row 1: found {_kind(rows[0])}, allowed are objects and arrays", row=1)
        for i, row in enumerate(rows, 1):
            if type(row) is not kind:
                raise StreamError(f"row {i}: found {_kind(row)}, and row 1 is {_kind(rows[0])}", row=i)
        if kind is dict:
            cells = self._of_dicts(rows)
        else:
            for i, row in enumerate(rows, 1):
                if len(row) != self.width:
                    what = f"row {i}: found {len(row)} cell(s), allowed are {self.width}{self._listed()}"
                    raise StreamError(what, row=i)
            cells = rows
        if self._schema is None:
            return self._answer(self._numbers(cells))
        assert self.columns is not None
        named = [dict(zip(self.columns, row, strict=True)) for row in cells] if kind is list else cells
        return self._encoded(dict_columns(named, self.columns))

    def _of_dicts(self, rows: Sequence[dict[str, Any]]) -> Sequence[Any]:
        """The cells that the model takes: dicts for a schema, else arrays. Other keys are left out."""
        names = self.columns
        if names is None:
            raise StreamError(f"row 1: found an object, and the model's features have no names: give {self.width} "
                              "cells in an array", row=1)  # fmt: skip
        found: list[Any] = []
        for i, row in enumerate(rows, 1):
            try:
                found.append([row[name] for name in names] if self._schema is None else {n: row[n] for n in names})
            except KeyError:
                lacks = ", ".join(repr(name) for name in names if name not in row)
                raise StreamError(f"row {i}: lacks {lacks} (null says that a cell is missing)", row=i) from None
        return found

    def _numbers(self, rows: Sequence[Any]) -> FloatArray:
        if not set(map(type, chain.from_iterable(rows))) <= _NUMBERS:
            for i, row in enumerate(rows, 1):
                for j, cell in enumerate(row):
                    if type(cell) not in _NUMBERS:
                        what = f"row {i}, {self._column(j)}: found {_kind(cell)}, allowed is a number"
                        raise StreamError(what, row=i)
        return np.array(rows, dtype=np.float64)

    def places(self, found: Sequence[str]) -> list[int]:
        """Return the places of the model's columns among these, in the order of the table.

        Raises
        ------
        StreamError
            If one is missing or there twice; where the model's have no names, if there are more or fewer.
        """
        if self.columns is None:
            if len(found) != self.width:
                raise StreamError(f"found {len(found)} column(s), allowed are {self.width}")
            return list(range(self.width))
        wanted = set(self.columns)
        places = [i for i, name in enumerate(found) if name in wanted]
        if len(places) != len(wanted):
            names = [found[i] for i in places]
            lacks = [name for name in self.columns if name not in names]
            if lacks:
                raise StreamError(f"the table lacks {', '.join(map(repr, lacks))}")
            twice = next(name for i, name in enumerate(names) if name in names[:i])
            raise StreamError(f"the table has two columns {twice!r}")
        return places

    def of_table(self, table: Any) -> Answer:
        """Answer for a table of pyarrow, whose columns are found by name where the model's have names.

        Raises
        ------
        StreamError
            As :meth:`of_rows`.
        """
        table = table.select(self.places(table.column_names))
        if self.columns is None:
            columns = columns_of(table, [f"x{j}" for j in range(self.width)])
        else:
            columns = columns_of(table.select(list(self.columns)))
        if self._schema is not None:
            return self._encoded(columns)
        kinds = dict.fromkeys(columns.names, "number")
        columns.check(kinds)  # type: ignore[arg-type]
        rows = [
            np.column_stack([column.to_numpy(zero_copy_only=False) for column in batch.columns])
            for batch in columns.batches(kinds, _MOST_ROWS, lambda _: None)  # type: ignore[arg-type]
        ]
        return self._answer(np.concatenate(rows).astype(np.float64, copy=False))

    def _encoded(self, columns: Columns) -> Answer:
        assert self._schema is not None
        found, row = [], 1
        coder = self._coders.of(self._schema, columns)
        for batch in columns.batches(coder.kinds, _MOST_ROWS, lambda _: None):
            for X, _ in blocks_of(coder, batch, row):
                found.append(self._answer(X, row))
                row += X.shape[0]
        if len(found) == 1:
            return found[0]
        shares = [each.probabilities for each in found if each.probabilities is not None]
        together = np.concatenate([each.predictions for each in found])
        return Answer(together, np.concatenate(shares) if shares else None, self.classes)

    # ---- the model -----------------------------------------------------------------------------------------

    def _answer(self, X: Any, first_row: int = 1) -> Answer:
        if self._ranges is not None:
            X = self._ranges.rows(X, "the request", first_row)
        squares = squared_norms(X)
        if not (squares >= 0.0).all():
            self._refuse(X, int(np.argmin(squares >= 0.0)), first_row)
        scores = self._scores(X, np.sqrt(squares))
        if not self._classified:
            schema = self._schema
            if schema is not None and schema.target is not None:
                scores = schema.unscale(scores)
            return Answer(_finite(scores, first_row), None, None)
        _finite(scores, first_row)
        # of two classes that both have a score, the difference
        one = scores[:, 1] - scores[:, 0] if scores.ndim == 2 and scores.shape[1] == 2 else scores
        return Answer(self._best(one), self._shares(scores, one), self.classes)

    def _scores(self, X: Any, norms: FloatArray) -> FloatArray:
        """What the learner's own methods compute, in the same order, without a second check of the rows."""
        bound = self.learner.x_bound
        factor = bound / np.maximum(norms, bound)  # rows beyond the bound are scaled to it, as in learning
        with np.errstate(over="ignore", invalid="ignore"):  # such scores are refused
            scores: FloatArray = np.asarray(X @ self._coef.T, dtype=np.float64)
        scores = scores * (factor[:, None] if scores.ndim == 2 else factor)
        return scores + self._intercept if self.learner.fit_intercept else scores

    def _best(self, scores: FloatArray) -> NDArray[Any]:
        assert self._labels is not None
        if scores.ndim == 2:
            best: NDArray[Any] = scores[:, self._order].argmax(axis=1)
        else:
            best = ((scores if self._order[0] == 0 else -scores) > 0.0).astype(int)
        labels: NDArray[Any] = self._labels[best]
        return labels

    def _shares(self, scores: FloatArray, one: FloatArray) -> FloatArray | None:
        loss = self._loss
        if not loss.log_odds:
            return None
        if math.isinf(self._cut):
            return class_probabilities(loss, scores)[:, self._order]
        return of_scores(self.learner, one, self._cut)[:, self._order]

    def _refuse(self, X: Any, i: int, first_row: int) -> NoReturn:
        """Refuse a row with NaN or an infinity that the schema has not replaced."""
        row = X[[i]].toarray()[0] if hasattr(X, "toarray") else np.asarray(X[i])
        wrong = np.flatnonzero(~np.isfinite(row))
        where = f"row {first_row + i}"
        if not len(wrong):
            raise StreamError(f"{where}: found numbers whose squares add up beyond the doubles", row=first_row + i)
        if self._schema is None:
            where += f", {self._column(int(wrong[0]))}"
        what = "found a number that is not finite, or a missing cell; allowed are finite numbers"
        raise StreamError(f"{where}: {what}", row=first_row + i)

    def _column(self, j: int) -> str:
        return f"cell {j + 1}" if self.columns is None else f"column {self.columns[j]!r}"

    def _listed(self) -> str:
        if self.columns is None:
            return ""
        more = ", ..." if len(self.columns) > _NAMED else ""
        return f" ({', '.join(map(repr, self.columns[:_NAMED]))}{more})"


def _numbers_of(learner: Learner, classified: bool) -> tuple[FloatArray, Any]:
    """Weights and intercepts of a released model: a vector and a number, or of several scores a matrix and a vector."""
    coef, intercept = learner.coef_, learner.intercept_
    if classified and len(coef) == 1:
        return coef[0], float(np.asarray(intercept)[0])
    return coef, intercept


def _finite(scores: FloatArray, first_row: int) -> FloatArray:
    """Refuse rows without an answer: a model that is no run's may hold any numbers."""
    wrong = ~np.isfinite(scores).reshape(len(scores), -1).all(axis=1)
    if wrong.any():
        row = first_row + int(np.argmax(wrong))
        raise StreamError(f"row {row}: the model's score of it is beyond the doubles", row=row)
    return scores


def _kind(value: Any) -> str:
    """What JSON calls a value."""
    if value is None:
        return "null"
    names = {bool: "true or false", str: "text", dict: "an object", list: "an array", int: "a number"}
    return names.get(type(value), "a number")
