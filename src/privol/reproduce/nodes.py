"""Rows for nodes that learn together: of norm at most 1, publicly permuted, and dealt to nodes in turn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from .. import topology
from ..evaluate import best_in_hindsight, progressive
from ..learners import DOLA
from ..streams import open_stream
from .sets import RCV1, TASKS, Split, found, has, rcv1_rows, rows_of, schema_of
from .verdicts import FloatArray

__all__ = [
    "BALL", "DELTA", "DIABETES", "FILES", "L2", "NODES", "RADIUS", "RCV1", "Along", "Rows", "along", "diabetes",
    "found_in", "learner_of", "rcv1",
]  # fmt: skip

NODES = 64  # the number of processors in the source
BALL = 10.0  # radius of the ball of models that regret compares with
#: Chosen on Adult (the first table of the page) and then fixed.
L2, RADIUS = 0.1, 10.0
DELTA = 1e-6
HASHED = ("diag_1", "diag_2", "diag_3", "payer_code", "medical_specialty")
DIABETES = "diabetic_data.csv"
#: Data sets of the regret figures.
FILES = (DIABETES, *(name for task in TASKS if task.name != "diabetic_data" for name in task.files))


@dataclass
class Rows:
    """Rows to learn, on which regret is measured, and held-out rows."""

    name: str
    X: Any
    y: FloatArray
    X_test: Any = None
    y_test: FloatArray = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def of(cls, split: Split) -> Rows:
        """Return a data set with its rows divided by their public bound."""
        return cls(split.name, split.X / split.x_bound, split.y, split.X_test / split.x_bound, split.y_test)

    @property
    def stream(self) -> Any:
        """A new stream of the rows."""
        return open_stream((self.X, self.y), classes=(0, 1))

    @cached_property
    def least(self) -> float:
        """The mean hinge loss of the best fixed model in the ball."""
        words: dict[str, Any] = {"loss": "hinge", "radius": BALL, "fit_intercept": False}
        return float(best_in_hindsight(self.stream, tolerance=1e-3, **words).score.loss)

    def regret(self, learner: DOLA) -> tuple[float, tuple[FloatArray, FloatArray]]:
        """Return the regret per row of nodes that predict their own rows, and its curve over the rows."""
        run = progressive(learner, self.stream, metrics=())
        rows = run.curve.rows.astype(np.float64)
        return run.score.loss - self.least, (rows, run.curve.loss / rows - self.least)

    def regrets(self, runs: int, **given: Any) -> list[float]:
        """Return the regrets of ``runs`` runs, each with its own noise."""
        return [self.regret(learner_of(key, **given))[0] for key in range(runs)]

    def curve(self, runs: int, **given: Any) -> tuple[FloatArray, FloatArray]:
        """Return the mean curve of ``runs`` runs."""
        curves = [self.regret(learner_of(key, **given))[1] for key in range(runs)]
        return curves[0][0], np.mean([curve for _, curve in curves], axis=0)

    def accuracy(self, model: FloatArray) -> float:
        """Return the accuracy of a model on the held-out rows, in percent."""
        return 100 * float(np.mean((self.X_test @ np.ravel(model) > 0) == (self.y_test > 0)))


def learner_of(key: int, **given: Any) -> DOLA:
    """Return a learner with the hinge loss and no intercept; by default its nodes form Topology 2."""
    if "nodes" not in given and "topology" not in given:
        given["topology"] = topology.preset("medium", NODES)
    if "radius" not in given:
        given["radius"] = RADIUS
    return DOLA(loss="hinge", fit_intercept=False, delta=DELTA, random_state=key, **given)


@dataclass(frozen=True)
class Along:
    """A run that is evaluated after every round: means over the rows so far."""

    rows: FloatArray
    own: FloatArray
    """Losses of nodes at rows of their own."""
    first: FloatArray
    """Losses of the first node at the rows of all, as the source measures."""
    distance: FloatArray
    """Root of the sum of squared distances of nodes' models from their mean."""


def along(learner: DOLA, rows: Rows) -> Along:
    """Let a learner learn all whole rounds, and evaluate every node's model before each."""
    nodes = learner.mixing().n_nodes
    n = len(rows.y) // nodes * nodes
    learner.set_params(horizon=n)
    models = np.zeros((nodes, rows.X.shape[1]))
    own, first, distance = [], [], []
    for start in range(0, n, nodes):
        X, y = rows.X[start : start + nodes], rows.y[start : start + nodes]
        X = X.toarray() if sparse.issparse(X) else X
        signs = 2.0 * y - 1.0
        own.append(np.maximum(0.0, 1.0 - signs * np.sum(X * models, axis=1)).mean())
        first.append(np.maximum(0.0, 1.0 - signs * (X @ models[0])).mean())
        learner.partial_fit(X, y, classes=[0, 1])
        models = learner.node_coef_
        distance.append(learner.consensus_distance_)
    counts = np.arange(1, len(own) + 1)

    def mean(losses: list[float]) -> FloatArray:
        return np.asarray(np.cumsum(losses) / counts, dtype=np.float64)

    return Along(
        np.asarray(nodes * counts, dtype=np.float64), mean(own), mean(first), np.array(distance, dtype=np.float64)
    )


def diabetes(folder: Path, most: int | None) -> Rows:
    """Read the source's main set: was there an emergency visit in the year before? One row of each patient.

    Without codes and specialties, whose many values are hashed elsewhere: the source has 55 columns.
    """
    schema = schema_of("diabetic_data")
    schema["target"] = {"column": "number_emergency", "negative": [0], "positive": list(range(1, 101))}
    del schema["columns"]["number_emergency"]
    schema["columns"]["readmitted"] = {"drop": True}
    schema["columns"].update({name: {"drop": True} for name in HASHED})
    X, y, bound = rows_of(found(folder, DIABETES), schema)
    order = np.random.default_rng(0).permutation(len(y))[:most]
    return Rows("diabetic_data", X[order] / bound, y[order])


def found_in(folder: Path, most: int | None) -> Iterator[Rows]:
    """Yield the three data sets of the regret figures, if their files exist."""
    if has(folder, DIABETES):
        yield diabetes(folder, most)
    for task in TASKS:
        if task.name != "diabetic_data" and all(has(folder, name) for name in task.files):
            yield Rows.of(task.split(folder, most))


def rcv1(folder: Path, most: int | None) -> Rows:
    """Read the articles; a quarter is held out, as in the source."""
    X, y = rcv1_rows(found(folder, RCV1), most)
    kept = len(y) * 3 // 4
    return Rows("rcv1", X[:kept], y[:kept], X[kept:], y[kept:])
