"""Forest Covertype's seven classes: DPFTRL with the softmax and with one class against the rest, by budget.

    python examples/multiclass.py [covtype.data.gz] [--repeats 10] [--rows N] [--page docs/multiclass.md]

The file is UCI's (581,012 rows, 54 features, label last); without it, the 120,000 of its rows that ship with privol. A
tenth of the rows is held out by a public permutation; the rest, or the first N of it, is learnt in one pass. Columns
are mapped by the public ranges that ship with privol. Without --page the table is printed. Figures on the held-out
rows are computed from raw labels: they describe the experiment and are not private.
"""

from __future__ import annotations

import argparse
import math
import re
import statistics
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import SGDClassifier

from privol import DPFTRL, open_stream
from privol.data import covtype_ranges, open_covtype

CLASSES = range(1, 8)
EPSILONS = (math.inf, 10.0, 1.0, 0.1)
LOSSES = {"softmax": "softmax", "logistic": "one against the rest"}
# Public, and the same for all: a wide ball, as scores must differ much where one of seven classes is rare.
PARAMETERS: dict[str, Any] = {"radius": 80.0, "x_bound": 3.0, "batch": 100, "delta": 1e-6}
# The two common classes count once, the five others four times: a constant, chosen because two are known to be common.
WEIGHTS = {label: 1.0 if label <= 2 else 4.0 for label in CLASSES}

Figures = dict[str, list[float]]


def read(file: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Return encoded rows and labels, shuffled by a public permutation."""
    if file is None:
        stream = open_covtype(classes=CLASSES)
    else:
        ranges = dict(enumerate(covtype_ranges().values()))  # the file has no header: columns by number
        stream = open_stream(file, target=-1, classes=CLASSES, header=False, ranges=ranges)
    blocks = list(stream)
    X, y = np.concatenate([block.X for block in blocks]), np.concatenate([block.y for block in blocks]).astype(int) + 1
    order = np.random.default_rng(0).permutation(len(y))
    return X[order], y[order]


def figures(scores: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Accuracy, and the mean over the classes of the share of their rows that is found."""
    right = scores.argmax(axis=1) + 1 == y
    return float(right.mean()), statistics.mean(float(right[y == k].mean()) for k in CLASSES if (y == k).any())


def line(name: str, epsilon: str, found: Figures) -> str:
    cells = []
    for values in found.values():
        spread = f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else ""
        cells.append(f"{statistics.mean(values):.4f}{spread}")
    return f"| {name} | {epsilon} | {' | '.join(cells)} |"


def table(X: np.ndarray, y: np.ndarray, rows: int | None, repeats: int) -> list[str]:
    n = len(y) * 9 // 10
    X_test, y_test, X, y = X[n:], y[n:], X[: min(rows or n, n)], y[: min(rows or n, n)]
    commonest = np.bincount(y).argmax()
    lines = [
        f"{len(y):,} rows learnt in one pass, {len(y_test):,} held out; the majority class has "
        f"{np.mean(y_test == commonest):.4f} of them. {repeats} runs: mean and standard deviation.",
        "",
        "| learner | epsilon | accuracy, last model | mean recall | accuracy, average model | mean recall |",
        "| --- | --- | --- | --- | --- | --- |",
    ]

    def tried(seeds: int, fit: Any) -> Figures:
        found: Figures = {name: [] for name in ("last", "last recall", "average", "average recall")}
        for seed in range(seeds):
            for name, (coef, intercept) in fit(seed).items():
                accuracy, recall = figures(X_test @ coef.T + intercept, y_test)
                found[name].append(accuracy)
                found[f"{name} recall"].append(recall)
        return found

    def private(loss: str, epsilon: float, weights: dict[int, float] | None = None) -> Any:
        def fit(_: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
            made = DPFTRL(loss=loss, epsilon=epsilon, class_weight=weights, **PARAMETERS).fit(X, y)
            return {
                "last": (made.coef_, made.intercept_),
                "average": (made.average_coef_, made.average_intercept_),
            }

        return fit

    def plain(seed: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        found = {}
        for name, average in (("last", False), ("average", True)):
            made = SGDClassifier(loss="log_loss", average=average, random_state=seed)
            order = np.random.default_rng(seed).permutation(len(y))
            made.partial_fit(X[order], y[order], classes=np.array(CLASSES))
            found[name] = (made.coef_, made.intercept_)
        return found

    lines.append(line("scikit-learn's SGDClassifier, not private", "", tried(repeats, plain)))
    for loss, shown in LOSSES.items():
        for epsilon in EPSILONS:
            seeds = 1 if math.isinf(epsilon) else repeats
            lines.append(line(f"DPFTRL, {shown}", f"{epsilon:g}", tried(seeds, private(loss, epsilon))))
    lines.append(line("DPFTRL, softmax, class weights", "1", tried(repeats, private("softmax", 1.0, WEIGHTS))))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--page", type=Path)
    given = parser.parse_args()
    lines = "\n".join(table(*read(given.file), given.rows, given.repeats))
    if given.page is None:
        print(lines)
        return
    page = given.page.read_text(encoding="utf-8")
    parts = re.split(r"(?<=<!-- table -->\n).*?(?=<!-- end of table -->)", page, flags=re.DOTALL)
    if len(parts) != 2:
        parser.error(f"{given.page} has no place for the table")
    given.page.write_text(f"\n{lines}\n\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
