"""Offline learners with their defaults: the rule for l2 and radius compared with fixed values, on seen and unseen sets.

    python experiments/offline_defaults.py FOLDER [--quick] [--runs 5]

FOLDER holds covtype.data.gz, adult.data.gz and adult.test.gz, diabetic_data.csv.gz, rcv1_subsets.binary.bz2 and
CASP.csv.gz; sets with missing files are left out. Some minutes, most of them for rcv1 without delta.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import casp
import numpy as np
from common import FloatArray, arguments, say, table, write
from offline import RCV1, rcv1
from scipy import sparse
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import r2_score, roc_auc_score
from tasks import TASKS, Split, found_in

from privol import POL, ObjectivePerturbation, OutputPerturbation, open_stream
from privol.reproduce.sets import has

EPSILONS = (0.1, 1.0, 4.0)
MOST = 20_000  # rows of Covertype; with all rows the settings hardly matter
#: One l2 and one radius for all: the learners' defaults before they had the rule, without delta.
FIXED: dict[type[Any], dict[str, float]] = {
    ObjectivePerturbation: {"l2": 0.001, "delta": 0.0},
    OutputPerturbation: {"l2": 0.01, "delta": 0.0},
    POL: {"l2": 0.01, "radius": 1.0, "delta": 0.0},
}


@dataclass(frozen=True)
class Problem:
    """Rows under a public schema, the task, and whether the rule was made with this data set in view."""

    rows: Split
    real: bool
    in_view: bool


def number_of(rows: Split, name: str, column: int) -> Problem:
    """Return the regression of one public number, scaled to [-1, 1], on the other features."""

    def without(X: Any) -> tuple[FloatArray, FloatArray]:
        dense = X.toarray() if sparse.issparse(X) else np.asarray(X)
        return np.delete(dense, column, axis=1), dense[:, column].copy()

    (X, y), (X_test, y_test) = without(rows.X), without(rows.X_test)
    return Problem(Split(name, X, y, X_test, y_test, rows.x_bound), real=True, in_view=True)


def problems(folder: Path, most: int | None) -> Iterator[Problem]:
    """Yield the problems whose files exist: first those in view, then those that were held back."""
    held = []
    for task, rows in found_in(folder, most):
        if task == TASKS[0]:
            kept = replace(rows, X=rows.X[:MOST], y=rows.y[:MOST])
            yield Problem(kept, real=False, in_view=True)
            yield number_of(kept, "covtype, elevation", 0)
        elif task.name == "adult":
            yield Problem(rows, real=False, in_view=True)
            yield number_of(rows, "adult, age", 0)
        else:
            held.append(Problem(rows, real=False, in_view=False))
    yield from held
    if has(folder, RCV1):
        yield Problem(rcv1(folder, most), real=False, in_view=False)
    if sorted(folder.glob("CASP.csv*")):
        found = casp.read(folder, most)
        rows = Split("CASP", found.X, found.y, found.X_test, found.y_test, 3.0)  # nine features in [-1, 1]
        yield Problem(rows, real=True, in_view=False)


def scores(problem: Problem, kind: type[Any], runs: int, **given: Any) -> float:
    """Return the mean area under the ROC curve, or R squared, on held-out rows, in percent."""
    rows, found = problem.rows, []
    for key in range(runs):
        loss = "squared" if problem.real else "logistic"
        learner = kind(loss=loss, x_bound=rows.x_bound, random_state=key, **given)
        learner.fit_stream(open_stream((rows.X, rows.y), classes=None if problem.real else (0, 1)))
        found.append(score(problem, learner))
    return statistics.mean(found)


def score(problem: Problem, model: Any) -> float:
    """Return a model's figure on held-out rows, scaled to their bound as learners scale them."""
    rows = problem.rows
    if problem.real:
        return 100 * float(r2_score(rows.y_test, model.predict(rows.X_test)))
    return 100 * float(roc_auc_score(rows.y_test, model.decision_function(rows.X_test)))


def lines_of(problem: Problem, runs: int) -> list[list[str]]:
    """Tabulate each learner with its defaults and with fixed values, and a model without noise."""
    rows = problem.rows
    name = f"{rows.name}{'' if problem.in_view else ' (held back)'}: {'R²' if problem.real else 'AUC'}"
    lines = []
    for kind, fixed in FIXED.items():
        cells = []
        for words in ({}, fixed):
            words = dict(words)
            if words and problem.real and kind is ObjectivePerturbation:
                words["radius"] = 1.0
            cells += [f"{scores(problem, kind, runs, epsilon=epsilon, **words):.1f}" for epsilon in EPSILONS]
        lines.append([name, kind.__name__, *cells])
        say(*lines[-1])
    plain = (Ridge(alpha=1.0) if problem.real else LogisticRegression(max_iter=10_000)).fit(rows.X, rows.y)
    lines.append([name, "no noise", f"{score(problem, plain):.1f}", *[""] * 5])
    return lines


def main() -> None:
    files = [*(name for task in TASKS for name in task.files), RCV1, "CASP.csv"]
    given = arguments(__doc__, files=files, runs=5, page="offline.md")
    lines = []
    for problem in problems(given.folder, 1_000 if given.quick else None):
        few = given.runs if problem.rows.X.shape[1] < 10_000 else min(given.runs, 2)
        lines += lines_of(problem, few)
    head = ["set", "learner", *(f"{how}, epsilon = {e:g}" for how in ("default", "fixed") for e in EPSILONS)]
    write("offline_defaults", table(head, lines), given.page)


if __name__ == "__main__":
    main()
