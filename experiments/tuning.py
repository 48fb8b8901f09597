"""Private tuning on Adult: the best of many candidates within one budget, compared with settings chosen in advance.

    python experiments/tuning.py FOLDER [--quick] [--runs 20]

FOLDER holds adult.data.gz and adult.test.gz. Half an hour.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np
from common import arguments, say, shown, table, write
from sklearn.base import clone
from tasks import TASKS, Split

from privol import DPFTRL, ObjectivePerturbation
from privol.tuning import PrivateSelection

VALIDATION = 0.2
DELTA = 1e-6  # for DPFTRL
FAMILIES: tuple[tuple[str, float, Sequence[Any]], ...] = (
    (
        "ObjectivePerturbation, l2 from 1e-5 to 1",
        0.0,
        tuple(ObjectivePerturbation(delta=0.0, l2=10.0**k) for k in range(-5, 1)),
    ),
    (
        "DPFTRL, radius from 0.05 to 5,000",
        DELTA,
        tuple(DPFTRL(radius=5.0 * 10.0**k, delta=DELTA, release="last") for k in range(-2, 4)),
    ),
)
EPSILONS = (0.3, 1.0, 3.0)


def fitted(candidate: Any, rows: Split, key: int, **given: Any) -> Any:
    """A fit on the training rows, with its own noise."""
    made = clone(candidate).set_params(x_bound=rows.x_bound, random_state=key, **given)
    return made.declare_classes([0, 1]).fit(rows.X, rows.y)


def accuracy(model: Any, rows: Split) -> float:
    return 100.0 * float(model.score(rows.X_test, rows.y_test))


def naive(candidates: Sequence[Any], rows: Split, key: int, epsilon: float) -> Any:
    """All candidates, each with the whole epsilon, and the one that predicts the last rows best."""
    kept = len(rows.y) - int(len(rows.y) * VALIDATION)
    part = Split(rows.name, rows.X[:kept], rows.y[:kept], rows.X[kept:], rows.y[kept:], rows.x_bound)
    fits = [fitted(each, part, 100 * key + k, epsilon=epsilon) for k, each in enumerate(candidates)]
    return max(fits, key=lambda fit: accuracy(fit, part))


def main() -> None:
    given = arguments(__doc__, files=("adult.data", "adult.test"), runs=20, page="offline.md")
    (adult,) = (task for task in TASKS if task.name == "adult")
    rows = adult.split(given.folder, 2_000 if given.quick else None)
    epsilons = EPSILONS[1:2] if given.quick else EPSILONS
    lines = []
    for name, delta, candidates in FAMILIES:
        tried = [clone(candidate).set_params(x_bound=rows.x_bound) for candidate in candidates]
        found: dict[str, list[list[float]]] = {}
        for epsilon in epsilons:
            keys = range(given.runs)
            alone = [[accuracy(fitted(each, rows, key, epsilon=epsilon), rows) for key in keys] for each in candidates]
            alone.sort(key=statistics.mean)
            words = {"epsilon": epsilon, "delta": delta, "validation": VALIDATION}
            chosen = [PrivateSelection(tried, random_state=key, **words).fit(rows.X, rows.y) for key in keys]
            for label, cells in (
                ("the best candidate, had it been known", alone[-1]),
                ("one at random, chosen beforehand", list(np.ravel(alone))),
                ("the worst candidate", alone[0]),
                ("PrivateSelection", [accuracy(each, rows) for each in chosen]),
                ("naive: no guarantee", [accuracy(naive(candidates, rows, key, epsilon), rows) for key in keys]),
            ):
                found.setdefault(label, []).append(cells)
                say(name, epsilon, label, shown(cells))
        lines += [[name, label, *map(shown, cells)] for label, cells in found.items()]
    head = ["candidates", "accuracy, %", *(f"epsilon = {epsilon:g}" for epsilon in epsilons)]
    write("tuning", table(head, lines), given.page)


if __name__ == "__main__":
    main()
