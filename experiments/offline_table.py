"""The slides' table of offline private logistic regression, run again with their noise and with what is proved.

    python experiments/offline_table.py [--quick] [--runs 20]

17,500 rows, uniform on the sphere, five folds; separable with a margin, or with noise in the labels near the plane.
Every run has rows, plane and noise of its own. A minute.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import Any

import numpy as np
from common import FloatArray, arguments, say, table, write

from privol import ObjectivePerturbation, OutputPerturbation

ROWS, FOLDS, DIM, L2 = 17_500, 5, 10, 0.01
EPSILONS = (0.017, 0.1)
NAMES: dict[type[Any], str] = {OutputPerturbation: "sensitivity method", ObjectivePerturbation: "new"}


@dataclass(frozen=True)
class Law:
    """How rows are drawn and labelled, and what the slides print: test error, mean and deviation."""

    name: str
    margin: float  # rows nearer to the plane are drawn again
    flipped: float  # share of labels that are turned, of rows nearer than the next
    near: float
    printed: dict[str, tuple[float, float]]

    def draw(self, rows: int, seed: int) -> tuple[FloatArray, FloatArray]:
        """Return rows and labels by a plane of its own."""
        rng = np.random.default_rng(seed)
        truth = sphere(rng, 1)[0]
        X = sphere(rng, rows)
        while (close := np.abs(X @ truth) < self.margin).any():
            X[close] = sphere(rng, int(close.sum()))
        y = np.where(X @ truth > 0, 1.0, -1.0)
        y[(np.abs(X @ truth) < self.near) & (rng.random(rows) < self.flipped)] *= -1
        return X, y


LAWS = (
    Law("margin 0.03", 0.03, 0.0, 0.0,
        {"sensitivity method": (0.2962, 0.0617), "new": (0.1426, 0.1284), "no noise": (0.0, 0.0016)}),
    Law("label noise 0.2 in margin 0.1", 0.0, 0.2, 0.1,
        {"sensitivity method": (0.3257, 0.0536), "new": (0.1903, 0.1105), "no noise": (0.0530, 0.1105)}),
)  # fmt: skip


def sphere(rng: np.random.Generator, rows: int) -> FloatArray:
    """Return uniform unit vectors."""
    X = rng.normal(size=(rows, DIM))
    X /= np.linalg.norm(X, axis=1)[:, None]
    return X


def errors(law: Law, kind: type[Any], epsilon: float, calibration: str, runs: int, rows: int = ROWS) -> list[float]:
    """Return the test errors of all folds of all runs."""
    found = []
    for run in range(runs):
        X, y = law.draw(rows, run)
        fold = np.arange(rows) % FOLDS  # rows are independent: their order says nothing
        for k in range(FOLDS):
            learner = kind(
                l2=L2,
                epsilon=epsilon,
                delta=0.0,
                calibration=calibration,
                fit_intercept=False,
                random_state=run * FOLDS + k,
            )
            learner.fit(X[fold != k], y[fold != k])
            found.append(1.0 - float(learner.score(X[fold == k], y[fold == k])))
    return found


def proved(kind: type[Any], epsilon: float, rows: int) -> float:
    """Return the epsilon that is proved of the slides' noise, of one fit."""
    plan = kind(l2=L2, epsilon=epsilon, delta=0.0, calibration="published", fit_intercept=False).calibrate(
        DIM, rows * (FOLDS - 1) // FOLDS
    )
    return float(plan.epsilon)


def four(mean: float, deviation: float) -> str:
    """Return both as the slides print them."""
    return f"{mean:.4f} ± {deviation:.4f}"


def main() -> None:
    given = arguments(__doc__, runs=20, page="offline.md")
    rows = 2_000 if given.quick else ROWS
    lines = []
    for law in LAWS:
        for epsilon in EPSILONS:
            for kind, name in NAMES.items():
                cells = []
                for calibration in ("published", "tight"):
                    found = errors(law, kind, epsilon, calibration, given.runs, rows)
                    cells.append(four(statistics.mean(found), statistics.stdev(found)))
                stated = four(*law.printed[name]) if epsilon == EPSILONS[0] else ""
                lines.append([law.name, f"{epsilon:g}", f"{kind.__name__} ({name})", stated, cells[0],
                              f"{proved(kind, epsilon, rows):.4g}", cells[1]])  # fmt: skip
                say(*lines[-1])
        plain = errors(law, OutputPerturbation, math.inf, "tight", given.runs, rows)
        found_without = four(statistics.mean(plain), statistics.stdev(plain))
        lines.append([law.name, "inf", "no noise", four(*law.printed["no noise"]), "", "", found_without])
    head = ["rows", "epsilon", "method", "printed", "slides' noise", "proved of it", "tight"]
    write("offline_table", table(head, lines), given.page)


if __name__ == "__main__":
    main()
