"""A model's statements about itself: its bands compared with runs with other noise, and errors of its probabilities.

    python experiments/explain.py FOLDER [--quick] [--runs 12] [--write]

FOLDER holds UCI's adult.data and diabetic_data.csv, possibly compressed, as downloaded. Bands: every run learns the
same rows with the same encoding (learnt at epsilon 1) but other noise. Probabilities: each of a quarter as many runs
holds back a quarter of the rows, at most 20,000, and learns the others in random order. "Sigmoid" is the learner's own
probability, "now" that of ``PrivateClassifier.predict_proba``, "best" the best multiple of its log-odds in hindsight. A
few minutes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from common import FloatArray, arguments, say, write
from common import table as show
from encoding import TABLES
from last_model import read
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import softmax

from privol import AdaptiveFTRL, PrivateClassifier
from privol.data import covtype_path
from privol.explaining import noise_of

EPSILONS = (0.1, 0.5, 1.0, 4.0)
BINS, HELD, MOST_HELD = 15, 0.25, 20_000
DEVIATIONS = 1.96  # half the width of a 95 % band
BANDS = (
    "rows",
    "epsilon",
    "deviation that is stated over that between runs",
    "bands of 95 % that hold the mean of the runs",
)
OFF = ("rows", "epsilon", "calibration error: sigmoid, now", "log-loss: sigmoid, now, best", "slope: sigmoid, now")
Rows = tuple[str, pandas.DataFrame, NDArray[Any]]


def tables(folder: Path) -> Iterator[Rows]:
    """Yield name, features and labels of each data set that exists."""
    rows = pandas.read_csv(covtype_path())
    y = rows.pop("Cover_Type").to_numpy()
    yield "rows that come with privol", rows, np.where(y == 2, "two", "another")
    for table in (TABLES[0], TABLES[2]):
        path = table.path(folder)
        if path is None:
            continue
        rows = read(path, table)
        y = rows.pop(str(table.target)).to_numpy()
        if table.name == "Adult":
            yield table.name, rows, y
            continue
        yield "Diabetes, readmitted within 30 days", rows, np.where(y == "<30", "yes", "no")
        yield "Diabetes, three classes", rows, y


def bands(rows: Rows, epsilons: Sequence[float], runs: int) -> Iterator[list[str]]:
    """Yield, for each epsilon, how the stated deviation compares with that between runs."""
    name, X, y = rows
    model = PrivateClassifier(epsilon=1.0, random_state=5, reuse_rows=False).fit(X, y)
    encoded, learner = model.encoder_.transform(X), model.learner_
    words: dict[str, Any] = {"x_bound": learner.x_bound, "fit_intercept": learner.fit_intercept}
    for epsilon in epsilons:
        fits = [AdaptiveFTRL(epsilon=epsilon, random_state=key, **words).fit(encoded, y) for key in range(runs)]
        weights = np.array([fit.coef_.ravel() for fit in fits])
        stated = np.sqrt([noise_of(fit).variance(np.eye(1))[0] for fit in fits])
        ratio = np.sqrt((stated**2).sum() / runs / weights.var(axis=0, ddof=1).sum())
        held = np.mean(np.abs(weights - weights.mean(axis=0)) < DEVIATIONS * stated)
        yield [f"{name}, {len(X):,}", f"{epsilon:g}", f"{ratio:.2f}", f"{held:.1%}"]
        say(name, epsilon, f"{ratio:.2f} {held:.3f}")


def calibration_error(P: FloatArray, y: NDArray[np.intp]) -> float:
    """Return the mean gap between probability and share in equal bins; for several classes, of the likeliest class."""
    stated = P[:, 1] if P.shape[1] == 2 else P.max(axis=1)
    true = y == 1 if P.shape[1] == 2 else P.argmax(axis=1) == y
    parts = np.array_split(np.argsort(stated, kind="stable"), BINS)
    return float(sum(abs(stated[part].mean() - true[part].mean()) * len(part) for part in parts) / len(y))


def log_loss(P: FloatArray, y: NDArray[np.intp]) -> float:
    """Return the mean log-loss in nats."""
    return float(-np.log(np.clip(P[np.arange(len(y)), y], 1e-12, 1.0)).mean())


def best_slope(P: FloatArray, y: NDArray[np.intp]) -> tuple[float, float]:
    """Return the multiple of the log-odds with the least log-loss, and that loss."""
    scores = np.log(np.clip(P, 1e-300, 1.0))

    def loss(slope: float) -> float:
        return log_loss(softmax(slope * scores, axis=1), y)

    found = minimize_scalar(loss, bounds=(0.05, 5.0), method="bounded")
    return float(found.x), float(found.fun)


def how_far_off(rows: Rows, epsilon: float, key: int) -> list[float]:
    """Return calibration error, log-loss and slope of the sigmoid and of the estimator, and the best log-loss."""
    _, X, y = rows
    order = np.random.default_rng(key).permutation(len(X))
    held, rest = np.split(order, [min(MOST_HELD, int(HELD * len(X)))])
    model = PrivateClassifier(epsilon=epsilon, random_state=key).fit(X.iloc[rest], y[rest])
    classes = list(model.classes_)
    X, y = X.iloc[held], y[held]
    known = np.isin(y, classes)
    at = np.array([classes.index(label) for label in y[known]])
    now = model.predict_proba(X)[known]
    learner: Any = model.learner_
    plain = learner.predict_proba(model.encoder_.transform(X))[known]
    assert (plain.argmax(axis=1) == now.argmax(axis=1)).mean() > 0.999  # the same classes in the same order
    (slope, _), (slope_now, best) = best_slope(plain, at), best_slope(now, at)
    errors = [measure(P, at) for measure in (calibration_error, log_loss) for P in (plain, now)]
    return [*errors, best, slope, slope_now]


def probabilities(rows: Rows, epsilons: Sequence[float], runs: int) -> Iterator[list[str]]:
    """Yield, for each epsilon, the errors of the probabilities."""
    for epsilon in epsilons:
        found = np.mean([how_far_off(rows, epsilon, key) for key in range(runs)], axis=0)
        cells = [f"{found[0]:.3f}, {found[1]:.3f}", f"{found[2]:.4f}, {found[3]:.4f}, {found[4]:.4f}"]
        yield [rows[0], f"{epsilon:g}", *cells, f"{found[5]:.2f}, {found[6]:.2f}"]
        say(rows[0], epsilon, *(f"{figure:.4f}" for figure in found))


def main() -> None:
    """Measure, print and, if asked, write both tables."""
    given = arguments(__doc__, files=("adult.data", "diabetic_data.csv"), embedded=True, runs=12, page="explain.md")
    wide: list[list[str]] = []
    off: list[list[str]] = []
    for name, X, y in tables(given.folder):
        rows, epsilons = (name, X, y), (1.0,) if given.quick else EPSILONS
        if len(np.unique(y)) == 2:
            wide += bands(rows, epsilons, given.runs)
        off += probabilities(rows, epsilons if given.quick else (*epsilons, math.inf), max(given.runs // 4, 1))
    write("explain", [*show(BANDS, wide), "", *show(OFF, off)], given.page)


if __name__ == "__main__":
    main()
