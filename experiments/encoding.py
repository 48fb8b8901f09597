"""Undescribed tables: how much of non-private accuracy a learnt encoding with untuned settings keeps.

    python experiments/encoding.py FOLDER [--quick] [--runs 10] [--write]

FOLDER holds UCI's adult.data, covtype.data, diabetic_data.csv and CASP.csv, and rcv1_subsets.binary (documents of RCV1
in libsvm text), possibly compressed, as downloaded; the rows that come with privol are measured too. privol is given
only a file, its target and epsilon. "Nothing learnt" means cells as they are and the learner's own defaults. Figures
are progressive, over the second half of the stream: area under the ROC curve (for several classes, the mean over each
against the rest) or R2; 0.5 or 0 if a run ends because too little of its rows exceeds the noise. The reference is
scikit-learn's SGD on the same stream without privacy, on standardised numbers and one-hot texts; its scales, levels and
step size are chosen in hindsight by the figure shown. Three quarters of an hour.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import scipy.sparse as sp
from common import arguments, say, shown, write
from common import table as show
from numpy.typing import NDArray
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.metrics import r2_score, roc_auc_score

from privol import open_stream
from privol.data import covtype_path
from privol.encoding import PrivateEncoder
from privol.errors import StreamError
from privol.guarantees import epsilon_within, split_budget
from privol.learners import default_learner, settings_without_look
from privol.ledger import Ledger

FloatArray = NDArray[np.float64]
EPSILONS = (0.1, 1.0, 4.0)
DOCUMENTS, WORDS = "rcv1_subsets.binary", 47_236
HEAD_SPARSE = ("rows", "epsilon", "all features", "frequent features")
HEAD = ("table", "without privacy", "epsilon", "nothing learnt", "first rows teach", "kept", "all rows teach", "kept")
SHARE = 0.25  # of the budget, if all rows teach
BLOCK, DELTA = 500, 1e-6
LABELS = {"Adult": ("<=50K", ">50K"), "Diabetes": ("NO", "<30", ">30")}
COVTYPE = "the rows that come with privol"
ADULT = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship", "race",
    "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income",
)  # fmt: skip


@dataclass(frozen=True)
class Table:
    """A file as downloaded: its name, its target, and column names if it has no header."""

    name: str
    file: str
    target: Any
    columns: tuple[str, ...] | None = None

    def path(self, folder: Path) -> Path | None:
        """Return the file, compressed or not; None if it is missing."""
        if self.file == COVTYPE:
            return covtype_path()
        found = sorted(folder.glob(f"{self.file}*"))
        return found[0] if found else None


TABLES = (
    Table("Adult", "adult.data", "income", ADULT),
    Table("Covertype", "covtype.data", 54),
    Table("Diabetes", "diabetic_data.csv", "readmitted"),
    Table("CASP", "CASP.csv", "RMSD"),
    Table("Covertype, 120,000 rows", COVTYPE, "Cover_Type"),
)


def figure(y: FloatArray, scores: FloatArray, classes: int) -> float:
    """Return the figure over the second half: R2 if there are no classes."""
    half = len(y) // 2
    y, scores = y[half:], scores[half:]
    known = ~np.isnan(y)
    y, scores = y[known], scores[known]
    if not classes:
        return float(r2_score(y, scores))
    if classes == 2:
        return float(roc_auc_score(y, scores))
    return float(np.mean([roc_auc_score(y == k, scores[:, k]) for k in range(classes) if (y == k).any()]))


def private(path: Path, table: Table, epsilon: float, key: int, least: float, *, reuse: bool = False) -> float:
    """Return the figure of a run that is given only the file, the target and epsilon."""
    ledger, budget = Ledger(), epsilon
    if reuse:
        split = split_budget(epsilon, DELTA, SHARE)
        epsilon, budget = split.epsilon, epsilon_within(split.mu, DELTA)
    encoder = PrivateEncoder(epsilon=budget, reuse_rows=reuse, ledger=ledger, random_state=2 * key)
    try:
        stream = open_stream(path, target=table.target, columns=table.columns, schema=encoder, block_rows=BLOCK)
    except StreamError as error:
        say(table.name, error)
        return least
    classes, n = 0 if stream.classes is None else len(stream.classes), stream.count_rows()
    loss = "squared" if not classes else "logistic" if classes == 2 else "softmax"
    words: dict[str, Any] = {"epsilon": epsilon, "x_bound": stream.schema.usual_norm}
    known_facts = {"n_features": stream.n_features, "n_rows": n, "has_constant": stream.schema.has_constant}
    words |= settings_without_look(loss, n_classes=max(classes, 2), **known_facts, **words)
    words["loss"] = loss
    words |= {"horizon": n, "on_invalid": "zero", "ledger": ledger, "random_state": 2 * key + 1}
    return watched(stream, default_learner(loss)(**words), classes)


def plain(path: Path, table: Table, epsilon: float, key: int) -> float | None:
    """Return the figure of a run on the cells as they are; None if it is refused because cells are text."""
    real = table.name == "CASP"
    labels: dict[str, Any] = {} if real else {"classes": LABELS.get(table.name, tuple(range(1, 8)))}
    try:
        stream = open_stream(path, target=table.target, columns=table.columns, **labels, block_rows=BLOCK)
        n = stream.count_rows()
        loss = "squared" if real else "softmax" if len(stream.classes) > 2 else "logistic"
        learner = default_learner(loss)(loss=loss, epsilon=epsilon, horizon=n, random_state=key)
        return watched(stream, learner, 0 if real else len(stream.classes))
    except StreamError as error:
        say(table.name, error)
        return None


def watched(stream: Any, learner: Any, classes: int) -> float:
    """Let a learner learn a stream; return the figure of its predictions of each block before learning it."""
    scores: list[FloatArray] = []
    targets: list[FloatArray] = []
    empty = (classes,) if classes > 2 else ()

    def known(block: Any) -> FloatArray:
        if learner.__sklearn_is_fitted__() and learner.n_releases_:
            found: FloatArray = learner.decision_function(block.X) if classes else learner.predict(block.X)
            return found
        return np.zeros((block.X.shape[0], *empty))

    class Watched:
        """The stream; the model before a block predicts it."""

        n_rows, classes, beside, first_row = stream.count_rows(), stream.classes, stream.beside, stream.first_row
        conditions = stream.conditions

        def __iter__(self) -> Any:
            for block in stream:
                scores.append(known(block))
                targets.append(block.y.copy())
                yield block

    learner.fit_stream(Watched())
    return figure(np.concatenate(targets), np.concatenate(scores), classes)


def documents(path: Path) -> tuple[Any, FloatArray]:
    """Return the rows of the documents, with labels 0 and 1."""
    blocks = list(open_stream(path, format="libsvm", n_features=WORDS, classes=(-1, 1)))
    return sp.vstack([block.X for block in blocks]), np.concatenate([block.y for block in blocks])


def sparse(X: Any, y: FloatArray, epsilon: float, key: int, *, frequent: bool, sketch: int = 0) -> float:
    """Return the AUC over the second half of randomly ordered sparse rows, on all features or on the frequent ones.

    With a sketch, the infrequent features, or all of them, share ``sketch`` places.
    """
    order = np.random.default_rng(key).permutation(len(y))
    X, y, ledger = X[order], y[order], Ledger()
    schema: Any = None
    if frequent:
        schema = PrivateEncoder(epsilon=epsilon, ledger=ledger, random_state=2 * key, sketch=sketch)
    elif sketch:
        schema = {"rows": {"features": X.shape[1], "kept": [], "sketch": sketch}}
    try:
        stream: Any = open_stream((X, y), classes=(0, 1), schema=schema, block_rows=BLOCK)
    except StreamError as error:
        say("sparse rows", error)
        return 0.5
    n = stream.count_rows()
    words: dict[str, Any] = {"epsilon": epsilon, "x_bound": 1.0}
    words |= settings_without_look("logistic", n_features=stream.n_features, n_rows=n, **words)
    learner = default_learner("logistic")(loss="logistic", horizon=n, random_state=2 * key + 1, ledger=ledger, **words)
    scores: list[FloatArray] = []
    for block in stream:
        known = bool(scores) and learner.n_releases_
        scores.append(learner.decision_function(block.X) if known else np.zeros(block.X.shape[0]))
        learner.partial_fit(block.X, block.y, classes=[0, 1])
    second = len(y) - len(y) // 2
    return float(roc_auc_score(y[-second:], np.concatenate(scores)[-second:]))


def reference(path: Path, table: Table) -> float:
    """Return the figure of SGD without privacy, with scales, levels and step size chosen in hindsight."""
    words: dict[str, Any] = {"header": None, "names": table.columns} if table.columns else {}
    if isinstance(table.target, int):
        words = {"header": None}
    rows = pandas.read_csv(path, dtype=str, skipinitialspace=True, keep_default_na=False, **words)
    parts = []
    for name in rows.columns:
        numbers = pandas.to_numeric(rows[name], errors="coerce")
        if name == table.target:
            continue
        if numbers.notna().mean() > 0.5 and rows[name].nunique() > 2:
            x = numbers.fillna(numbers.mean()).to_numpy(float)
            parts.append(sp.csr_matrix(((x - x.mean()) / (x.std() or 1.0))[:, None]))
        elif rows[name].nunique() <= 2000:
            codes, levels = pandas.factorize(rows[name])
            shape = (len(rows), len(levels))
            parts.append(sp.csr_matrix((np.ones(len(rows)), (np.arange(len(rows)), codes)), shape=shape))
    X, target = sp.hstack(parts).tocsr(), rows[table.target]
    numbers = pandas.to_numeric(target, errors="coerce")
    real = bool(numbers.notna().all()) and target.nunique() > 100
    y = numbers.to_numpy(float) if real else pandas.factorize(target, sort=True)[0].astype(float)
    classes = 0 if real else int(y.max()) + 1
    if real:
        X = X.toarray()  # on sparse rows, scikit-learn learns the intercept a hundred times more slowly
    kind: Any = SGDRegressor if real else SGDClassifier
    best = -np.inf
    for eta in (0.0003, 0.001, 0.003, 0.01, 0.03):
        for schedule in ("constant", "invscaling"):
            settings = {"learning_rate": schedule, "eta0": eta, "alpha": 1e-6, "random_state": 0}
            model = kind(**settings, **({} if real else {"loss": "log_loss"}))
            scores = [np.zeros((BLOCK, classes) if classes > 2 else BLOCK)]
            for start in range(0, len(y), BLOCK):
                block, truth = X[start : start + BLOCK], y[start : start + BLOCK]
                if start:
                    scores.append(model.predict(block) if real else model.decision_function(block))
                model.partial_fit(block, truth, **({} if real else {"classes": np.arange(classes)}))
            best = max(best, figure(y, np.concatenate(scores)[: len(y)], classes))
    return best


def main() -> None:
    """Measure, print and, if asked, write the table."""
    given = arguments(__doc__, folder="the four tables", runs=10, page="encoding.md")
    absent = [table.file for table in TABLES if table.path(given.folder) is None]
    absent += [] if any(given.folder.glob(f"{DOCUMENTS}*")) else [DOCUMENTS]
    if absent and (given.write or len(absent) > len(TABLES)):
        raise SystemExit(f"{given.folder} has no {', '.join(absent)}")
    rows: list[list[str]] = []
    for table in TABLES[:1] if given.quick else TABLES:
        path = table.path(given.folder)
        if path is None:
            continue
        best, least = reference(path, table), 0.0 if table.name == "CASP" else 0.5
        for epsilon in EPSILONS:
            nothing = [plain(path, table, epsilon, key) for key in range(3)]
            row = [table.name, f"{best:.3f}", f"{epsilon:g}", "refused" if None in nothing else shown(nothing)]
            for reuse in (False, True):
                found = np.array([private(path, table, epsilon, key, least, reuse=reuse) for key in range(given.runs)])
                row += [shown(found), f"{100 * np.median((found - least) / (best - least)):.1f} %"]
            rows.append(row)
            say(*row)
    documents = [] if given.quick else sorted(given.folder.glob(f"{DOCUMENTS}*"))
    lines = list(show(HEAD, rows))
    if documents:
        lines += ["", *show(HEAD_SPARSE, [of_documents(documents[0], epsilon, given.runs) for epsilon in EPSILONS])]
    write("encoding", lines, given.page)


def of_documents(path: Path, epsilon: float, runs: int) -> list[str]:
    """Return a table row: with all features, and with the frequent ones."""
    X, y = documents(path)
    found = [
        shown([sparse(X, y, epsilon, key, frequent=frequent) for key in range(runs)]) for frequent in (False, True)
    ]
    row = ["RCV1, 47,236 words", f"{epsilon:g}", *found]
    say(*row)
    return row


if __name__ == "__main__":
    main()
