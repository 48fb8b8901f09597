"""Persons with several rows: how much accuracy caps and distances keep, with exact figures and with k mu.

    python experiments/persons.py FOLDER [--quick] [--runs 5] [--write]

FOLDER holds UCI's diabetic_data.csv as downloaded, possibly compressed: 101,766 stays of 71,518 patients, of whom
16,773 have several. ``PrivateClassifier`` is given only the user column and the target, whether a patient comes back.
All rows of a patient, whether they teach the encoding or are learnt, are within epsilon = 1, delta = 1e-6. A fifth of
the patients, others in each run, are held out: the figures are those of the last model on all their rows, the same for
all settings. "k mu" is a budget for one row of mu / k, which group privacy needs wherever the rows are; a learnt
encoding used to have no alternative. Nothing was tuned on this data set. Five minutes.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from common import arguments, say, shown, write
from common import table as show
from sklearn.metrics import roc_auc_score

from privol import PrivateClassifier
from privol.errors import PrivacyWarning, ScaledRowsWarning
from privol.guarantees import epsilon_within, gdp_mu

FILE, USER, TARGET = "diabetic_data.csv", "patient_nbr", "readmitted"
EPSILON, DELTA = 1.0, 1e-6
CAPS, DISTANCES = (1, 2, 4, 8), (1, 1000, 5000, 10_000)
HELD_OUT = 0.2
HEAD = (
    "rows of a patient", "apart", "rows teach", "rows learnt", "noise of a sum", "AUC", "against 1 row", "accuracy",
    "AUC with k mu", "against 1 row", "accuracy",
)  # fmt: skip


def rows_of(folder: Path) -> pandas.DataFrame:
    """Return the file, with the target whether a patient comes back."""
    path = sorted(folder.glob(f"{FILE}*"))[0]
    rows = pandas.read_csv(path, dtype=str, keep_default_na=False)
    rows[TARGET] = np.where(rows[TARGET] == "NO", "no", "yes")
    return rows


def split(rows: pandas.DataFrame, key: int) -> tuple[pandas.DataFrame, pandas.DataFrame]:
    """Return the rows of most patients, in the order of the file, and those of the others."""
    patients = np.sort(rows[USER].unique())
    held = np.random.default_rng(key).random(len(patients)) < HELD_OUT
    out = rows[USER].isin(set(patients[held])).to_numpy()
    return rows[~out], rows[out]


def learnt(train: pandas.DataFrame, test: pandas.DataFrame, key: int, cap: int, apart: int, *, group: bool) -> Any:
    """Return the rows that taught, those learnt, AUC and accuracy; ``group``: with a budget for a row."""
    users: dict[str, Any] = {"rows_per_user": cap, "user_separation": apart}
    epsilon = EPSILON
    if group:
        users, epsilon = {}, epsilon_within(gdp_mu(EPSILON, DELTA) / cap, DELTA)
    declared = {"user": {"column": USER, "max_rows": cap, "separation": apart}}
    model = PrivateClassifier(epsilon=epsilon, delta=DELTA, declared=declared, random_state=key, **users)
    model.fit_stream(train, target=TARGET)
    assert group or model.guarantee_.mu <= gdp_mu(EPSILON, DELTA) * (1 + 1e-9)
    scores, truth = model.decision_function(test), test[TARGET].to_numpy()
    learner: Any = model.learner_
    plan = learner.calibrate(learner.n_features_in_, learner.n_rows_)
    factor = float(cap) if group else plan.user_factor(cap, apart)
    accuracy = float((model.predict(test) == truth).mean())
    return model.encoder_.plan_.rows, learner.n_rows_, factor, float(roc_auc_score(truth == "yes", scores)), accuracy


def figures(runs: list[Any], one: list[float]) -> list[str]:
    """Return AUC, its gain over one row a patient in the same runs, and accuracy; "" without a gain."""
    if not runs:
        return ["", "", ""]
    auc, accuracy = [run[3] for run in runs], [run[4] for run in runs]
    change = np.subtract(auc, one)
    more = f"{change.mean():+.3f} ± {change.std(ddof=1):.3f}" if change.any() else ""
    return [shown(auc), more, shown(accuracy)]


def main() -> None:
    """Measure, print and, if asked, write the table."""
    args = arguments(__doc__, folder=FILE, runs=5, page="guarantee.md")
    warnings.simplefilter("ignore", PrivacyWarning)
    warnings.simplefilter("ignore", ScaledRowsWarning)
    rows = rows_of(args.folder)
    caps, distances = (CAPS[:2], DISTANCES[:2]) if args.quick else (CAPS, DISTANCES)
    settings = [(cap, apart) for cap in caps for apart in (distances[:1] if cap == 1 else distances)]
    found: dict[Any, list[Any]] = {}
    for key in range(args.runs):
        train, test = split(rows, key)
        for cap, apart in settings:
            found.setdefault((cap, apart), []).append(learnt(train, test, key, cap, apart, group=False))
            if apart == 1 and cap > 1:
                found.setdefault((cap, "group"), []).append(learnt(train, test, key, cap, apart, group=True))
        say("run", key + 1, "of", args.runs)
    lines, one = [], [run[3] for run in found[1, 1]]
    for cap, apart in settings:
        taught, rows_learnt, factor, *_ = zip(*found[cap, apart], strict=True)
        line = [str(cap), "" if cap == 1 else f"{apart:,}", f"{np.mean(taught):,.0f}", f"{np.mean(rows_learnt):,.0f}"]
        line.append(f"{np.mean(factor):.2f}")
        line += [*figures(found[cap, apart], one), *figures(found.get((cap, "group"), []) if apart == 1 else [], one)]
        lines.append(line)
    write("persons", show(HEAD, lines), args.page)


if __name__ == "__main__":
    main()
