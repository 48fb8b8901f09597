"""Write the tables of docs/drift.md: sums that forget, on Forest Covertype in the order of its file, which drifts.

Run from the repository's root: python tools/drift_table.py covtype.data.gz [--quick]
The file is UCI's as published. ``--quick`` prints small tables of its first rows instead of writing the page. The noise
has fixed keys, so the figures are the same every time. All are computed from raw labels: they describe the experiment
and are not private.
"""

from __future__ import annotations

import math
import statistics
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pages import DOCS, parser_of, put
from sklearn.linear_model import LogisticRegression

from privol import DPFTRL, NOGD, open_stream
from privol.data import covtype_ranges
from privol.errors import PrivacyWarning
from privol.evaluate import progressive

PAGE = DOCS / "drift.md"
PUBLIC: dict[str, Any] = {"radius": 10.0, "x_bound": 2.0, "delta": 1e-6}
PARTS = 20
WEIGHTS = {1.0: (100.0, 200.0, 400.0, 800.0), 10.0: (30.0, 60.0, 100.0, 200.0), math.inf: (3.0, 10.0, 30.0, 100.0)}
MEMORIES: dict[str, dict[str, Any]] = {
    "all rows": {},
    "discount 0.99999": {"discount": 0.99999},
    "discount 0.9999": {"discount": 0.9999},
    "discount 0.999": {"discount": 0.999},
    "window 30,000": {"window": 30_000},
}
BATCHES = (1, 30, 100, 300)


@dataclass(frozen=True)
class Rows:
    """Rows in an order, the labels, and the number of noisy runs on them."""

    X: np.ndarray
    y: np.ndarray
    repeats: dict[float, int]

    def shuffled(self) -> Rows:
        order = np.random.default_rng(0).permutation(len(self.y))
        return Rows(self.X[order], self.y[order], self.repeats)


@dataclass(frozen=True)
class Figures:
    """Progressive accuracy in per cent and log-loss of repeated runs."""

    accuracy: list[float]
    loss: list[float]

    def __str__(self) -> str:
        if len(self.loss) == 1:
            return f"{self.accuracy[0]:.2f} | {self.loss[0]:.4f}"
        accuracy, loss = (f"{statistics.mean(v):.{d}f} ± {statistics.stdev(v):.{d}f}"
                          for v, d in ((self.accuracy, 2), (self.loss, 4)))  # fmt: skip
        return f"{accuracy} | {loss}"


def read(path: str) -> tuple[np.ndarray, np.ndarray]:
    ranges = dict(enumerate(covtype_ranges().values()))
    blocks = list(open_stream(path, target=-1, positive=2, header=False, sep=",", ranges=ranges))
    return np.vstack([block.X for block in blocks]), np.concatenate([block.y for block in blocks])


def measure(kind: Any, rows: Rows, epsilon: float, **words: Any) -> Figures:
    """Every row is predicted with the model released before it, and only then learnt."""
    accuracy, loss = [], []
    for seed in range(rows.repeats[epsilon]):
        stream = open_stream((rows.X, rows.y), classes=(0, 1))
        learner = kind(epsilon=epsilon, random_state=seed, **PUBLIC, **words)
        found = progressive(learner, stream, metrics=("accuracy",)).score
        accuracy.append(100.0 * (found.accuracy or 0.0))
        loss.append(found.loss)
    return Figures(accuracy, loss)


def drift(rows: Rows) -> Iterator[str]:
    """Accuracy in per cent of a model fitted to one part of the stream, on that part and on the next."""
    yield (
        "| order | class 2 in a twentieth: least, median, most | one model of all rows | a model of each twentieth "
        "| the same on the next one |"
    )
    yield "| --- | --- | --- | --- | --- |"
    for name, given in (("of the file", rows), ("shuffled", rows.shuffled())):
        X = given.X * np.minimum(1.0, PUBLIC["x_bound"] / np.maximum(np.linalg.norm(given.X, axis=1), 1e-9))[:, None]
        parts = list(zip(np.array_split(X, PARTS), np.array_split(given.y, PARTS), strict=True))
        share = sorted(100.0 * part[1].mean() for part in parts)
        fits = [LogisticRegression(C=10.0, solver="newton-cholesky").fit(*part) for part in parts]
        own = statistics.mean(100.0 * fit.score(*part) for fit, part in zip(fits, parts, strict=True))
        ahead = statistics.mean(100.0 * fit.score(*part) for fit, part in zip(fits[:-1], parts[1:], strict=True))
        whole = 100.0 * LogisticRegression(C=10.0, solver="newton-cholesky").fit(X, given.y).score(X, given.y)
        shares = f"{share[0]:.0f} %, {statistics.median(share):.0f} %, {share[-1]:.0f} %"
        yield f"| {name} | {shares} | {whole:.1f} | {own:.1f} | {ahead:.1f} |"


def least(kind: Any, rows: Rows, epsilon: float, name: str, values: tuple[Any, ...], **words: Any) -> Any:
    """The value of a parameter whose first run has the smallest loss."""
    once = replace(rows, repeats={epsilon: 1})
    return min(values, key=lambda value: measure(kind, once, epsilon, **words, **{name: value}).loss)


def learners(rows: Rows, epsilons: tuple[float, ...]) -> Iterator[str]:
    for epsilon in epsilons:
        yield from (
            f"epsilon = {epsilon:g}" if math.isfinite(epsilon) else "Without noise",
            "",
            "| DPFTRL's sums are of | default weight: accuracy | log-loss | best weight | accuracy | log-loss |",
            "| --- | --- | --- | --- | --- | --- |",
        )
        for name, words in MEMORIES.items():
            default = measure(DPFTRL, rows, epsilon, **words)
            best = least(DPFTRL, rows, epsilon, "regularization", WEIGHTS[epsilon], **words)
            chosen = measure(DPFTRL, rows, epsilon, regularization=best, **words)
            yield f"| {name} | {default} | {best:g} | {chosen} |"
            print(name, epsilon, file=sys.stderr, flush=True)
        batch = least(NOGD, rows, epsilon, "batch", BATCHES)
        yield f"| (NOGD, batch {batch}) | {measure(NOGD, rows, epsilon, batch=batch)} | | | |"
        yield ""


def control(rows: Rows) -> Iterator[str]:
    """The cost of forgetting without drift."""
    shuffled = rows.shuffled()
    yield "| DPFTRL's sums are of | epsilon = 1: accuracy | log-loss | without noise: accuracy | log-loss |"
    yield "| --- | --- | --- | --- | --- |"
    for name, words in MEMORIES.items():
        private, plain = (measure(DPFTRL, shuffled, epsilon, **words) for epsilon in (1.0, math.inf))
        yield f"| {name} | {private} | {plain} |"


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("file", help="covtype.data.gz")
    parser.add_argument("--quick", action="store_true", help="small tables of the first rows")
    given = parser.parse_args()
    if given.write and given.quick:
        parser.error("a sample is not for the documentation: --quick or --write")
    warnings.simplefilter("ignore", PrivacyWarning)
    X, y = read(given.file)
    if given.quick:
        X, y = X[:2000], y[:2000]
    rows = Rows(X, y, {1.0: 2, math.inf: 1} if given.quick else {1.0: 10, 10.0: 5, math.inf: 1})
    tables = {
        "drift": drift(rows),
        "learners": learners(rows, (1.0,) if given.quick else (1.0, 10.0, math.inf)),
        "control": control(rows),
    }
    for name, lines in tables.items():
        text = "\n".join(lines).strip()
        if given.write:
            PAGE.write_text(put(PAGE.read_text(encoding="utf-8"), name, "drift_table.py", text), encoding="utf-8")
        else:
            print(f"{text}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
