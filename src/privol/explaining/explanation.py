"""A released model as shapes of its columns, with bands, for readers."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import gammaincinv, ndtri

from .._validate import integer, number
from ..encoding.schema import Schema
from ..errors import InvalidParameter
from ..learners import LedgeredModel
from ..learners.views import export_of
from ..losses import get_loss
from .bands import noise_of
from .picture import draw
from .shapes import Points, points_of_features, points_of_schema

__all__ = ["Explanation", "Shape", "explain"]

FloatArray = NDArray[np.float64]

_WITHIN = 0.95  # of the columns in which the model has noise alone, this share is marked
_COLUMNS = 60  # in a text table; the records have all
_NAME, _LABEL, _BAR = 30, 26, 24


@dataclass(frozen=True, eq=False)
class Shape:
    """The contribution of one column, a part of it, or a cross to the scores. Public.

    Attributes
    ----------
    name, column : str
        The name of the shape, and the column or cross that it belongs to.
    kind : {"number", "time", "cycle", "category"}
        The first three are along an axis.
    labels : tuple of str
        The points: numbers and times in units of the column, categories, "(missing)".
    places : ndarray, shape (n,), or None
        Their places on the axis, NaN for a missing cell; None for categories.
    shares : ndarray, shape (n,)
        Public weights of the points: the mean of the contributions by them is 0.
    contribution : ndarray, shape (n_scores, n)
        In log-odds, or units of the target.
    std : ndarray, shape (n_scores, n), or None
        Standard deviation of the noise of privacy in it.
    """

    name: str
    column: str
    kind: str
    labels: tuple[str, ...]
    places: FloatArray | None
    shares: FloatArray
    contribution: FloatArray
    std: FloatArray | None


@dataclass(frozen=True, eq=False)
class Explanation:
    """The effect of each column in a released model. Public: it costs no budget, and no row was read for it.

    ``print`` it, or use its parts; ``docs/explain.md`` explains their meaning and limits.

    Attributes
    ----------
    unit : str
        Of the contributions.
    scores : tuple of str
        The meaning of each score: the positive label, each class, or the target.
    band : str
        The meaning and limits of the bands, or why there are none.
    kind : {"exact", "bound", "none", "unknown"}
        Of the bands.
    coverage : float
        Of the bands, such as 0.95.
    shapes : tuple of Shape
        By falling importance of their columns.
    importance : list of dict
        By column, falling: ``column``, ``importance`` (root of the mean square of its contributions by the public
        shares of its points, over all scores), ``noise`` (its average if there were only noise) and
        ``within_noise`` (whether noise alone would exceed it in more than one of twenty columns); the latter None
        without a band.
    """

    unit: str
    scores: tuple[str, ...]
    band: str
    kind: str
    coverage: float
    shapes: tuple[Shape, ...]
    importance: list[dict[str, Any]]

    @property
    def width(self) -> float:
        """Half of a band, in standard deviations."""
        return float(ndtri(0.5 + self.coverage / 2.0))

    @property
    def table(self) -> list[dict[str, Any]]:
        """All points of all shapes: a list of records for ``pandas.DataFrame``.

        Each has ``column``, ``shape``, ``kind``, ``at`` (the label), ``place`` (a number, None for categories and
        missing cells), ``score`` (of :attr:`scores`), ``contribution``, ``std``, ``low`` and ``high``; the last three
        None without a band.
        """
        found = []
        for shape in self.shapes:
            for k, score in enumerate(self.scores):
                for i, label in enumerate(shape.labels):
                    value = float(shape.contribution[k, i])
                    std = None if shape.std is None else float(shape.std[k, i])
                    place = None if shape.places is None or math.isnan(shape.places[i]) else float(shape.places[i])
                    found.append(
                        {
                            "column": shape.column,
                            "shape": shape.name,
                            "kind": shape.kind,
                            "at": label,
                            "place": place,
                            "score": score,
                            "contribution": value,
                            "std": std,
                            "low": None if std is None else value - self.width * std,
                            "high": None if std is None else value + self.width * std,
                        }
                    )
        return found

    def of(self, column: str) -> tuple[Shape, ...]:
        """Return the shapes of a column, or of a cross.

        Raises
        ------
        InvalidParameter
            If the model has none of that name.
        """
        found = tuple(shape for shape in self.shapes if shape.column == column)
        if not found:
            has = ", ".join(repr(record["column"]) for record in self.importance[:20])
            raise InvalidParameter(f"column must be one of the model's, found {column!r}; it has {has}")
        return found

    def to_record(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "format": "privol.explanation",
            "version": 1,
            "unit": self.unit,
            "scores": list(self.scores),
            "band": self.band,
            "kind": self.kind,
            "coverage": self.coverage,
            "importance": self.importance,
            "table": self.table,
        }

    def to_json(self) -> str:
        """Return it as JSON text."""
        return json.dumps(self.to_record(), allow_nan=False)

    def plot(self, column: str | None = None, *, most: int = 12) -> Any:
        """Draw the shapes with their bands.

        Parameters
        ----------
        column : str, optional
            One column or cross. Default: the most important ones, and the importance of all.
        most : int, default=12
            Largest number of shapes drawn.

        Returns
        -------
        matplotlib.figure.Figure
            Drawn without a display; ``savefig`` writes it.
        """
        most = integer(most=most, at_least=1)
        return draw(self, self.shapes[:most] if column is None else self.of(column)[:most], summary=column is None)

    def text(self, column: str | None = None) -> str:
        """Return the importance of all columns, or the shape of one, as plain text of at most 80 columns."""
        return "\n".join(self._summary() if column is None else self._shape(column))

    def __str__(self) -> str:
        return self.text()

    # ---- as text ---------------------------------------------------------------------------------------

    def _head(self, what: str) -> list[str]:
        found = [*_folded(f"{what} Public: made of the released model alone, at no cost.")]
        band = self.band[0].upper() + self.band[1:]
        if self.kind in ("exact", "bound"):
            band = f"Bands of {100 * self.coverage:g} %: {self.band}"
        return [*found, *_folded(f"{band}.")]

    def _summary(self) -> list[str]:
        top = max((record["importance"] for record in self.importance), default=0.0) or 1.0
        lines = self._head(f"What the columns bring into the score, in {self.unit}, root mean square.")
        lines += ["", f"{'column':<{_NAME}} {'importance':>10} {'noise':>8}"]
        for record in self.importance[:_COLUMNS]:
            noise = "" if record["noise"] is None else f"{record['noise']:8.3f}"
            # the bar is between the figures and the mark, so that neither moves
            bar = "#" * round(18 * record["importance"] / top)
            mark = "within noise" if record["within_noise"] else bar
            lines.append(
                f"{_cut(record['column'], _NAME):<{_NAME}} {record['importance']:10.3f} {noise:>8} {mark}".rstrip()
            )
        if rest := self.importance[_COLUMNS:]:
            within = sum(bool(record["within_noise"]) for record in rest)
            lines.append(f"and {len(rest):,} more columns, {within:,} of them within noise")
        return lines

    def _shape(self, column: str) -> list[str]:
        shapes = self.of(column)
        lines = self._head(f"What {column!r} brings into the score, in {self.unit}, 0 on average over its points.")
        for shape in shapes:
            for k, score in enumerate(self.scores):
                title = shape.name if len(self.scores) == 1 else f"{shape.name}, {score}"
                lines += ["", _cut(title, 80)]
                lines += self._lines(shape, k)
        return lines

    def _lines(self, shape: Shape, k: int) -> list[str]:
        values = shape.contribution[k]
        half = np.zeros(len(values)) if shape.std is None else self.width * shape.std[k]
        reach = float(np.max(np.abs(values) + half)) or 1.0
        lines = []
        for i in _rows_of(shape):
            band = "" if shape.std is None else f" +- {half[i]:<7.3f}"
            label = _cut(shape.labels[i], _LABEL)
            lines.append(f"{label:<{_LABEL}} {values[i]:8.3f}{band} {_drawn(values[i], half[i], reach)}".rstrip())
        return lines


def _rows_of(shape: Shape) -> list[int]:
    """The points in a text table: for an axis fewer than in a picture; categories ordered by size."""
    n = len(shape.labels)
    if shape.kind == "category":
        return sorted(range(n), key=lambda i: -float(np.abs(shape.contribution[:, i]).max()))
    step = max(1, n // 12)
    return [i for i in range(n) if i % step == 0 or i == n - 1 or shape.labels[i] == "(missing)"]


def _drawn(value: float, half: float, reach: float) -> str:
    """A line of characters from -reach to reach: the band, the value in it, and 0."""
    line = [" "] * (_BAR + 1)

    def at(x: float) -> int:
        return round((x / reach + 1.0) / 2.0 * _BAR)

    for place in range(at(value - half), at(value + half) + 1):
        line[place] = "-"
    line[_BAR // 2] = "|"
    line[at(value)] = "o"
    return "".join(line).rstrip()


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."


def _folded(text: str) -> list[str]:
    import textwrap

    return textwrap.wrap(text, 80)


# ---- making it ------------------------------------------------------------------------------------------------


def explain(
    learner: LedgeredModel,
    schema: Schema | None = None,
    *,
    names: Mapping[str, Sequence[str]] | None = None,
    features: Sequence[str] | None = None,
    ranges: Sequence[tuple[float, float] | None] | None = None,
    coverage: float = 0.95,
    reverse: bool = False,
) -> Explanation:
    """Explain the effect of each column in a released model, and how far the noise of privacy moves it.

    It uses only releases: the model, the schema, and noise scales, which are public. Nothing is charged.

    Parameters
    ----------
    learner : LedgeredModel
        That has released a model: live, fitted, or from :func:`privol.state.load_model`.
    schema : Schema, optional
        That encoded its rows, as stored with the model.
    names : mapping of str to sequence of str, optional
        Public values of columns of categories: a learnt schema has only hashes of its categories, and kept categories
        among these names are shown by name. Never take them from the rows.
    features : sequence of str, optional
        Without a schema: the names of the features. Default: x0, x1, ...
    ranges : sequence of (low, high) or None, optional
        Without a schema: the public ranges that were mapped to [-1, 1].
    coverage : float, default=0.95
        Of the bands, point by point, above 0 and below 1.
    reverse : bool, default=False
        With two classes: score for the first.

    Returns
    -------
    Explanation

    Raises
    ------
    InvalidParameter
        If the schema is not that of the model, or a parameter is out of its range.
    NotFittedError, StateError
        If nothing was learnt, or released yet.

    Notes
    -----
    The contribution of a cell is the effect of its features on the score, minus the mean over the column's points by
    public shares: equal for every interval between two knots and for every category, with all rare categories as one;
    a missing cell has none. Rows longer than ``x_bound`` are scaled to it, and all their contributions with them.
    """
    coverage = number(coverage=coverage, above=0.0, below=1.0)
    export = export_of(learner)
    coef = np.atleast_2d(np.asarray(learner.coef_, dtype=np.float64))
    loss = get_loss(learner.loss)
    if schema is not None:
        points, width = points_of_schema(schema, names)
    else:
        features = [f"x{j}" for j in range(coef.shape[1])] if features is None else features
        points, width = points_of_features(features, ranges), len(features)
    if width != coef.shape[1]:
        raise InvalidParameter(f"schema has {width} features, the model {coef.shape[1]}: it is not that of its rows")
    noise = noise_of(learner)
    change, scores = _scores_of(loss.kind, bool(loss.joint), export.classes, len(coef), reverse)
    unit, scale = _unit_of(loss, schema)
    weights = scale * (change @ coef)
    variance = noise.variance(scale * change)
    made = [_shape_of(point, weights, variance) for point in points]
    ranked = sorted(_importance(made, points, variance), key=lambda record: -record["importance"])
    order = {record["column"]: at for at, record in enumerate(ranked)}
    if schema is not None and schema.target is not None and loss.kind == "regression":
        scores = (str(schema.target.column),)
    return Explanation(
        unit=unit,
        scores=scores,
        band=noise.words,
        kind=noise.kind,
        coverage=coverage,
        shapes=tuple(sorted(made, key=lambda shape: order[shape.column])),
        importance=ranked,
    )


def _scores_of(
    kind: str, joint: bool, classes: NDArray[Any] | None, n_scores: int, reverse: bool
) -> tuple[FloatArray, tuple[str, ...]]:
    """The scores to show, as a matrix, and the meaning of each."""
    if kind == "regression" or classes is None:
        return np.eye(1), ("target",)
    labels = [str(label) for label in classes.tolist()]
    if n_scores == 1:
        return np.array([[-1.0 if reverse else 1.0]]), (labels[0] if reverse else labels[-1],)
    if n_scores == 2:
        both = np.array([[-1.0, 1.0]])
        return -both if reverse else both, (labels[0] if reverse else labels[1],)
    # adding a number to all scores of a softmax changes none of its probabilities
    return np.eye(n_scores) - (1.0 / n_scores if joint else 0.0), tuple(labels)


def _unit_of(loss: Any, schema: Schema | None) -> tuple[str, float]:
    if loss.kind == "regression":
        target = None if schema is None else schema.target
        if target is None or target.range is None:
            return "units of the target", 1.0
        low, high = target.range
        return "units of the target", high / 2.0 - low / 2.0
    return ("log-odds" if loss.log_odds else "units of the score"), 1.0


def _shape_of(points: Points, weights: FloatArray, variance: FloatArray | None) -> Shape:
    values, own = points.values, weights[:, points.features]
    mean: FloatArray = np.asarray(points.shares @ values, dtype=np.float64)
    contribution = np.asarray((values @ own.T).T) - (own @ mean)[:, None]
    std = None
    if variance is not None:
        noise = variance[:, points.features]
        squares = np.asarray((values.multiply(values) @ noise.T).T)
        crossed = np.asarray((values @ (noise * mean).T).T)
        std = np.sqrt(np.maximum(squares - 2.0 * crossed + (noise @ mean**2)[:, None], 0.0))
    return Shape(
        name=points.name,
        column=points.column,
        kind=points.kind,
        labels=points.labels,
        places=points.places,
        shares=points.shares,
        contribution=contribution,
        std=std,
    )


def _importance(shapes: Sequence[Shape], points: Sequence[Points], variance: FloatArray | None) -> list[dict[str, Any]]:
    """The columns with their importance, and the importance that noise alone would have."""
    square: dict[str, float] = {}
    traces: dict[str, FloatArray] = {}
    for shape, point in zip(shapes, points, strict=True):
        n_scores = len(shape.contribution)
        square[shape.column] = square.get(shape.column, 0.0) + float(
            np.sum(shape.contribution**2 @ shape.shares) / n_scores
        )
        if variance is not None:
            found = _traces(point, variance[:, point.features]) / [n_scores, n_scores**2]
            traces[shape.column] = traces.get(shape.column, np.zeros(2)) + found
    records = []
    for column, value in square.items():
        noise, within = None, None
        if column in traces:
            first, second = traces[column]
            noise, within = math.sqrt(first), bool(first > 0.0 and value <= _quantile(first, second))
        records.append({"column": column, "importance": math.sqrt(value), "noise": noise, "within_noise": within})
    return records


def _traces(points: Points, variance: FloatArray) -> FloatArray:
    """Mean of the square of a shape of pure noise, and half of its variance, summed over the scores."""
    values, mean = points.values, np.asarray(points.shares @ points.values)
    moments = sp.csr_array(values.T @ (values * points.shares[:, None]))
    first = second = 0.0
    for noise in variance:
        first += float(moments.diagonal() @ noise - mean**2 @ noise)
        square = float(noise @ (moments.multiply(moments) @ noise))
        second += square - 2.0 * float((noise * mean) @ (moments @ (noise * mean))) + float(mean**2 @ noise) ** 2
    return np.array([first, second])


def _quantile(first: float, second: float) -> float:
    """The quantile of a form of Gaussians with these traces, by the chi-squared distribution with equal moments."""
    return float(2.0 * gammaincinv(first**2 / second / 2.0, _WITHIN) * second / first)
