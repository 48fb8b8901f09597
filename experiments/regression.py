"""Least squares on a real data set at equal privacy: what the experiments with real targets share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from common import FloatArray, say, shown, table
from sklearn.linear_model import Ridge as RidgeRegression
from sklearn.metrics import mean_squared_error

from privol import DPFTRL, NOGD, PIGD, PQFTL, open_stream
from privol.evaluate import best_in_hindsight, progressive

EPSILONS = (0.1, 1.0, 10.0)


@dataclass(frozen=True)
class Rows:
    """Rows to learn and held-out rows, targets in [-1, 1], and the public numbers of the runs."""

    X: FloatArray
    y: FloatArray
    X_test: FloatArray
    y_test: FloatArray
    unit: float  # of the target: errors are multiplied by it
    name: str  # name of that unit
    x_bound: float
    radius: float
    l2: float  # for PQFTL; PIGD, whose noise is proportional to 1 / l2, keeps its default
    every: int  # rows between two models of PQFTL

    def squared(self, error: float) -> float:
        """Return a mean squared error in the target's units."""
        return self.unit**2 * error


def learners(rows: Rows, epsilon: float) -> dict[str, tuple[type[Any], dict[str, Any]]]:
    """Return the learners by name, with their parameters."""
    common = {"epsilon": epsilon, "loss": "squared"}
    return {
        "PQFTL": (PQFTL, {**common, "l2": rows.l2, "release": rows.every}),
        "DPFTRL": (DPFTRL, common),
        "NOGD": (NOGD, common),
        "NOGD, steps of 100 rows": (NOGD, {**common, "batch": 100}),
        "PIGD, every row": (PIGD, {**common, "release": "all"}),
        "PIGD, last row only": (PIGD, {**common, "release": "last"}),
    }


def measure(rows: Rows, kind: type[Any], given: dict[str, Any], best: float, runs: int) -> list[str]:
    """Learn ``runs`` times; return progressive and held-out squared error and average regret as texts."""
    before, after, regret = [], [], []
    for key in range(runs):
        learner = kind(radius=rows.radius, x_bound=rows.x_bound, random_state=key, **given)
        score = progressive(learner, open_stream((rows.X, rows.y)), metrics=()).score
        before.append(rows.squared(2 * score.loss))
        after.append(rows.squared(mean_squared_error(rows.y_test, learner.predict(rows.X_test))))
        regret.append(rows.squared(2 * (score.loss - best)))
    return [shown(before), shown(after), shown(regret)]


def measured(rows: Rows, runs: int) -> list[str]:
    """Return the table of all learners and budgets, with the results without privacy."""
    best = best_in_hindsight(
        open_stream((rows.X, rows.y)), loss="squared", radius=rows.radius, x_bound=rows.x_bound
    ).score.loss
    lines = []
    for epsilon in EPSILONS:
        for name, (kind, given) in learners(rows, epsilon).items():
            lines.append([f"{epsilon:g}", name, *measure(rows, kind, given, best, runs)])
            say(*lines[-1])
    for name, (kind, given) in learners(rows, math.inf).items():
        if name in ("PQFTL", "DPFTRL", "NOGD"):
            words = "online ridge regression (PQFTL without noise)" if kind is PQFTL else f"{name} without noise"
            lines.append(["inf", words, *measure(rows, kind, given, best, 1)])
    lines.append(["inf", "best fixed model of the set for the rows learnt", shown([rows.squared(2 * best)]), "", "0"])
    ridge = RidgeRegression(alpha=1.0).fit(rows.X, rows.y)
    found = mean_squared_error(rows.y_test, ridge.predict(rows.X_test))
    lines.append(["inf", "ridge regression of all rows learnt, no bounds", "", shown([rows.squared(found)]), ""])
    mean = float(np.mean((rows.y_test - rows.y.mean()) ** 2))
    lines.append(["inf", "always their mean target", "", shown([rows.squared(mean)]), ""])
    share = 100 * float(np.mean(np.linalg.norm(rows.X, axis=1) > rows.x_bound))
    models = "row" if rows.every == 1 else f"{rows.every}th row"
    head = ["epsilon", "learner", "progressive squared error", "squared error, held out", "average regret"]
    return [
        f"{len(rows.y):,} rows learnt, {len(rows.y_test):,} held out, {rows.X.shape[1]} features; x_bound = "
        f"{rows.x_bound:g} (which {share:.0f} % of the rows exceed and are scaled to), radius = {rows.radius:g}, "
        f"l2 = {rows.l2:g} for PQFTL and {PIGD().l2:g} for PIGD, PQFTL's models after every {models}. "
        f"Errors in {rows.name}:",
        "",
        *table(head, lines),
    ]
