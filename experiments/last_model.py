"""One model at the end: the estimators with defaults and with releases="last", and objective perturbation.

    python experiments/last_model.py FOLDER [--quick] [--runs 5] [--write]

FOLDER holds UCI's adult.data, covtype.data, diabetic_data.csv and CASP.csv, possibly compressed, as downloaded. Each
run holds back another quarter of a table's rows and learns the others in random order. The table shows the accuracy (R2
for CASP) on the held-out rows, in percent: of a constant, of the last model of ``PrivateClassifier()``, of
``PrivateClassifier(releases="last")``, and of Gaussian objective perturbation on the latter's encoding with the epsilon
and delta that the encoding leaves. For Covertype 120,000 rows are drawn. Some minutes.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from common import FloatArray, arguments, say, write
from common import table as show
from encoding import TABLES, Table
from scipy import sparse
from sklearn.metrics import r2_score

from privol import ObjectivePerturbation, PrivateClassifier, PrivateRegressor, open_stream
from privol.errors import StreamError
from privol.guarantees import gdp_epsilon

EPSILONS, DELTA = (0.1, 1.0, 4.0), 1e-6
MOST, HELD = 120_000, 0.25
HEAD = ("table", "epsilon", "a constant", "default, its last model", 'releases="last"', "objective perturbation")


def read(path: Path, table: Table) -> pandas.DataFrame:
    """Return the cells of a table as text, except for a real target."""
    words: dict[str, Any] = {"header": None, "names": table.columns} if table.columns else {}
    if isinstance(table.target, int):
        words = {"header": None}
    rows = pandas.read_csv(path, dtype=str, skipinitialspace=True, keep_default_na=False, **words)
    rows.columns = [str(name) for name in rows.columns]
    return rows


def encoded(rows: pandas.DataFrame, target: str, model: Any) -> tuple[Any, FloatArray]:
    """Return all rows as an estimator's schema encodes them, with label indices or scaled targets."""
    blocks, targets = [], []
    for block in open_stream(rows.rename(columns={target: model.schema_.target.column}), schema=model.schema_):
        blocks.append(block.X.copy())
        targets.append(block.y.copy())
    joined = sparse.vstack(blocks, format="csr") if sparse.issparse(blocks[0]) else np.vstack(blocks)
    return joined, np.concatenate(targets)


def by_objective(model: Any, rest: pandas.DataFrame, held: pandas.DataFrame, target: str, epsilon: float) -> Any:
    """Return objective perturbation's predictions of held-out rows, from the rows an estimator has learnt."""
    encoder, schema, delta = model.encoder_, model.schema_, DELTA
    X, y = encoded(rest, target, model)
    if encoder.reused_:  # its guarantee is proved at only one delta, so epsilons and deltas add up
        delta = DELTA / 2
        epsilon -= gdp_epsilon(encoder.guarantee_.mu, delta)
    else:
        X, y = X[encoder.plan_.rows :], y[encoder.plan_.rows :]
    words: dict[str, Any] = {"x_bound": schema.usual_norm, "on_invalid": "zero"}
    words |= {"fit_intercept": not schema.has_constant, "epsilon": epsilon, "delta": delta}
    real = schema.classes is None
    learner = ObjectivePerturbation(loss="squared" if real else "logistic", random_state=0, **words)
    if not real:
        learner.declare_classes(np.arange(len(schema.classes)))
        y[np.isnan(y)] = len(schema.classes)  # no label: a null row
    learner.fit(X, y)
    predicted = learner.predict(encoded(held, target, model)[0])
    if real:
        return schema.unscale(predicted)
    return np.array([str(label) for label in schema.classes])[predicted.astype(int)]


def figures(rows: pandas.DataFrame, target: str, epsilon: float, key: int, *, real: bool) -> list[float]:
    """Return the figures of a constant and of each model, in percent."""
    order = np.random.default_rng(key).permutation(len(rows))
    cut = int(len(order) * HELD)
    held, rest = rows.iloc[order[:cut]], rows.iloc[order[cut:]]
    truth = held[target].to_numpy(dtype=float if real else object)
    targets = rest[target].astype(float) if real else rest[target]

    def score(predicted: Any) -> float:
        found = r2_score(truth, predicted) if real else np.mean(np.asarray(predicted, dtype=str) == truth.astype(str))
        return 100 * float(found)

    kind: Any = PrivateRegressor if real else PrivateClassifier
    found = [0.0 if real else score(np.full(cut, rest[target].mode()[0]))]
    for releases in ("all", "last"):
        model = kind(epsilon=epsilon, delta=DELTA, releases=releases, random_state=key)
        try:
            model.fit(rest.drop(columns=target), targets)
        except StreamError as error:  # too little exceeds the noise: the prediction is a constant
            say(error)
            return found[:1] * 4
        found.append(score(model.predict(held.drop(columns=target))))
    found.append(score(by_objective(model, rest, held, target, epsilon)))
    say(epsilon, key, type(model.learner_).__name__, model.encoder_.reused_, *(f"{figure:.2f}" for figure in found))
    return found


def main() -> None:
    """Measure, print and, if asked, write the table."""
    given = arguments(__doc__, folder="the four tables", runs=5, page="offline.md")
    absent = [table.file for table in TABLES[:4] if table.path(given.folder) is None]
    if absent and (given.write or len(absent) == 4):
        raise SystemExit(f"{given.folder} has no {', '.join(absent)}")
    lines = []
    for table in TABLES[:4]:
        path = table.path(given.folder)
        if path is None:
            continue
        whole = read(path, table)
        most = 20_000 if given.quick else MOST
        sizes = [len(whole)] if len(whole) <= most else [most]
        if table.name == "Adult" and not given.quick:
            sizes.append(10_000)
        for size in sizes:
            rows = whole if size == len(whole) else whole.sample(size, random_state=0)
            name = table.name if size == len(whole) else f"{table.name}, {size:,} rows"
            for epsilon in EPSILONS:
                found = [
                    figures(rows, str(table.target), epsilon, key, real=table.name == "CASP")
                    for key in range(given.runs)
                ]
                cells = [f"{statistics.mean(column):.1f}" for column in zip(*found, strict=True)]
                lines.append([f"{name}: {'R²' if table.name == 'CASP' else 'accuracy'}", f"{epsilon:g}", *cells])
                say(*lines[-1])
    write("last_model", show(HEAD, lines), given.page)


if __name__ == "__main__":
    main()
