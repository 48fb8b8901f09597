"""Offline logistic regression on real rows by epsilon: both learners, one-pass learners, diffprivlib, and no noise.

    python experiments/offline.py FOLDER [--diffprivlib PYTHON] [--quick] [--runs 20]
    python experiments/offline.py --draw

FOLDER holds covtype.data.gz, adult.data.gz and adult.test.gz, diabetic_data.csv.gz as UCI has published them, and
rcv1_subsets.binary.bz2 (svmlight text); sets with missing files are left out. PYTHON is the interpreter of an
environment with diffprivlib 0.6.6, which needs scikit-learn before 1.6; without it, its rows are left out. About twenty
minutes; rcv1 may take longer (exact rounding of noise in 47,237 dimensions).
"""

from __future__ import annotations

import json
import math
import re
import statistics
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from common import (
    LOOKS,
    arguments,
    figures,
    legend_below,
    over_epsilon,
    picture,
    say,
    shown,
    table,
    tables,
    write,
)
from matplotlib.figure import Figure
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from tasks import TASKS, Split, found_in

from privol import DPFTRL, PIGD, POL, ObjectivePerturbation, OutputPerturbation, open_stream
from privol.guarantees import gdp_mu
from privol.reproduce.sets import RCV1, WORDS, has, rcv1_rows
from privol.reproduce.sets import found as file_of

EPSILONS = (0.1, 1.0, 10.0)
DELTA = 1e-6  # for learners with a delta, as the tables say; the others have none
MULTIPLES = (0.1, 0.3, 1.0, 3.0, 10.0)
#: Chosen on rows of Adult (the first table of the page) and then fixed.
CHOSEN: dict[type[Any], float] = {OutputPerturbation: 3.0, ObjectivePerturbation: 1.0}
#: One l2 for all data sets and budgets.
FIXED: dict[type[Any], float] = {OutputPerturbation: 0.01, ObjectivePerturbation: 0.001}
PLAIN = "scikit-learn without noise"
WORKER = Path(__file__).parent / "diffprivlib_worker.py"
MOST_CELLS = 5e8  # of the dense rows that diffprivlib takes and copies
RADII = {"covtype": 20.0, "adult": 5.0, "diabetic_data": 5.0, "rcv1": 20.0}  # for the one-pass learners


def rule(multiple: float, rows: Split, epsilon: float, delta: float = 0.0) -> float:
    """Return the l2 at which noise moves a row's score by about ``1 / multiple``, from public numbers alone."""
    squared = rows.x_bound**2 + 1.0
    noise = math.sqrt(rows.X.shape[1] + 1) / epsilon if delta == 0.0 else 1.0 / gdp_mu(epsilon, delta)
    return multiple * 2.0 * squared * noise / len(rows.y)


def accuracies(kind: type[Any], rows: Split, runs: int, **given: Any) -> list[float]:
    """Return the held-out accuracies of ``runs`` fits, each with its own noise, in percent."""
    found = []
    for key in range(runs):
        learner = kind(loss="logistic", x_bound=rows.x_bound, random_state=key, **{"delta": 0.0, **given})
        learner.fit_stream(open_stream((rows.X, rows.y), classes=(0, 1)))
        found.append(100 * float(learner.score(rows.X_test, rows.y_test)))
    return found


def peer(python: str, rows: Split, settings: list[list[float]]) -> list[list[float]]:
    """Return accuracy, seconds and iterations of diffprivlib's fits with the settings [epsilon, C, key]."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.npz"
        X, X_test = (x.toarray() if sparse.issparse(x) else x for x in (rows.X, rows.X_test))
        np.savez(file, X=X, y=rows.y, X_test=X_test, y_test=rows.y_test, x_bound=rows.x_bound)
        done = subprocess.run(
            [python, str(WORKER), str(file)], input=json.dumps(settings), capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise SystemExit(f"{python} {WORKER.name} fails:\n{done.stderr}")
    found: list[list[float]] = json.loads(done.stdout)
    return found


def rcv1(folder: Path, most: int | None) -> Split:
    """Read the articles; a tenth is held out."""
    X, y = rcv1_rows(file_of(folder, RCV1), most)
    kept = len(y) * 9 // 10
    return Split("rcv1", X[:kept], y[:kept], X[kept:], y[kept:], 1.0)


def sets(folder: Path, most: int | None) -> Iterator[Split]:
    """Yield the data sets whose files exist."""
    for _, rows in found_in(folder, most):
        yield rows
    if has(folder, RCV1):
        yield rcv1(folder, most)
    else:
        say(f"rcv1 is left out: {folder} has no {RCV1}")


def choice_of_l2(adult: Split, runs: int) -> list[str]:
    """Tabulate multiples on a tenth of Adult's training rows; its test file is not used."""
    kept = len(adult.y) * 9 // 10
    rows = replace(adult, X=adult.X[:kept], y=adult.y[:kept], X_test=adult.X[kept:], y_test=adult.y[kept:])
    lines = []
    for kind in CHOSEN:
        for multiple in MULTIPLES:
            cells = [accuracies(kind, rows, runs, epsilon=epsilon, l2=rule(multiple, rows, epsilon))
                     for epsilon in EPSILONS]  # fmt: skip
            mean = statistics.mean(map(statistics.mean, cells))
            lines.append([kind.__name__, f"{multiple:g}", *map(shown, cells), f"{mean:.2f}"])
            say(*lines[-1])
    return table(["learner", "multiple", *(f"epsilon = {epsilon:g}" for epsilon in EPSILONS), "mean"], lines)


def of_one_set(rows: Split, given: Namespace) -> dict[str, list[list[float]]]:
    """Return accuracies by learner, for each epsilon."""
    runs = given.runs if rows.X.shape[1] < WORDS else min(given.runs, 5)
    found: dict[str, list[list[float]]] = {}
    for epsilon in EPSILONS:
        for kind, multiple in CHOSEN.items():
            l2 = rule(multiple, rows, epsilon)
            found.setdefault(kind.__name__, []).append(accuracies(kind, rows, runs, epsilon=epsilon, l2=l2))
            name = f"{kind.__name__}, l2 = {FIXED[kind]:g}"
            found.setdefault(name, []).append(accuracies(kind, rows, runs, epsilon=epsilon, l2=FIXED[kind]))
        l2 = rule(CHOSEN[OutputPerturbation], rows, epsilon, DELTA)
        ball = {"radius": RADII[rows.name]}
        batch = 1 if rows.X.shape[1] < WORDS else 100
        gaussian: tuple[tuple[type[Any], dict[str, Any]], ...] = (
            (OutputPerturbation, {"l2": l2}),
            (ObjectivePerturbation, {"l2": rule(CHOSEN[ObjectivePerturbation], rows, epsilon, DELTA)}),
            (POL, {"l2": l2, **ball}),
            (PIGD, {"l2": l2, "release": "last", **ball}),
            (DPFTRL, {"batch": batch, **ball}),
        )
        for kind, words in gaussian:
            cells = accuracies(kind, rows, runs, epsilon=epsilon, delta=DELTA, **words)
            found.setdefault(f"{kind.__name__}, delta = {DELTA:g}", []).append(cells)
        for name, cells in found.items():
            say(rows.name, epsilon, name, shown(cells[-1]))
    if given.diffprivlib is not None and len(rows.y) * rows.X.shape[1] <= MOST_CELLS:
        few = min(runs, 5) if len(rows.y) * rows.X.shape[1] > 1e7 else runs
        settings = [[epsilon, 1 / (len(rows.y) * rule(CHOSEN[ObjectivePerturbation], rows, epsilon)), key]
                    for epsilon in EPSILONS for key in range(few)]  # fmt: skip
        figures = peer(given.diffprivlib, rows, settings)
        name = "diffprivlib" if few == runs else f"diffprivlib, {few} runs"
        found[name] = [[100 * a for a, _, _ in figures[k * few : (k + 1) * few]] for k in range(len(EPSILONS))]
        say(rows.name, name, *map(shown, found[name]), f"{statistics.mean(s for _, s, _ in figures):.2f} s a fit")
    return found


def lines_of(found: dict[str, list[list[float]]], plain: float) -> list[list[str]]:
    """Return a data set's table."""
    lines = [[name, *map(shown, cells)] for name, cells in found.items()]
    return [*lines, [PLAIN, *[f"{plain:.1f}"] * len(EPSILONS)]]


def text_of(rows: Split, lines: list[list[str]]) -> list[str]:
    """Return a data set's part of the page."""
    share = 100 * float(np.mean(rows.y_test))
    l2s = ", ".join("/".join(f"{rule(multiple, rows, epsilon):.2g}" for epsilon in EPSILONS)
                    for multiple in CHOSEN.values())  # fmt: skip
    return [
        f"**{rows.name}**: {len(rows.y):,} rows learnt, {len(rows.y_test):,} held out, {rows.X.shape[1]:,} features, "
        f"x_bound = {rows.x_bound:.4g}; the majority class of those held out: {max(share, 100 - share):.1f} %; l2 by "
        f"the rule (output, objective): {l2s}.",
        "",
        *table(["accuracy, %", *(f"epsilon = {epsilon:g}" for epsilon in EPSILONS)], lines),
        "",
    ]


def draw(found: Mapping[str, Sequence[Sequence[str]]], page: Path | None) -> None:
    """Draw means and deviations of the tables: a panel for each data set, the learners beside each other."""
    figure = Figure(figsize=(3.4 * len(found), 4.6), layout="constrained")
    for axis, (title, lines) in zip(figure.subplots(1, len(found), squeeze=False)[0], found.items(), strict=True):
        drawn = [line for line in lines if "l2 = " not in line[0]]
        for number, (name, *cells) in enumerate(drawn):
            means, spread = zip(*map(figures, cells), strict=True)
            if name == PLAIN:
                axis.axhline(means[0], linestyle=":", color="black", label=name)
                continue
            beside = [epsilon * 1.12 ** (number - (len(drawn) - 2) / 2) for epsilon in EPSILONS]
            axis.errorbar(beside, means, yerr=spread, capsize=2, linewidth=0.9, elinewidth=0.9,
                          label=re.sub(r", \d+ runs", "", name), **LOOKS[number])  # fmt: skip
        over_epsilon(axis, title, EPSILONS)
    figure.supylabel("accuracy on rows held out, %", fontsize=10)
    legend_below(figure)
    picture(figure, "offline.svg", page)


def draw_again(page: Path) -> None:
    """Draw the picture from the page alone; its first table is that of the choice of l2."""
    text = page.read_text(encoding="utf-8").partition("<!-- offline: exp")[2].partition("<!-- end of offline")[0]
    names = re.findall(r"^\*\*(\w+)\*\*: ", text, re.MULTILINE)
    draw(dict(zip(names, tables("offline", page)[1:], strict=True)), page)


def main() -> None:
    parser = ArgumentParser(add_help=False)
    parser.add_argument("--diffprivlib", metavar="PYTHON")
    peers, sys.argv[1:] = parser.parse_known_args()
    given = arguments(__doc__, files=[*(name for task in TASKS for name in task.files), RCV1], runs=20,
                      page="offline.md", draws=True)  # fmt: skip
    if given.draw:
        draw_again(given.page)
        return
    given.diffprivlib = peers.diffprivlib
    start, first, lines, parts = time.monotonic(), [], [], {}
    for rows in sets(given.folder, 1_000 if given.quick else None):
        if rows.name == "adult":
            first = [*choice_of_l2(rows, given.runs), ""]
        found = of_one_set(rows, given)
        model = LogisticRegression(max_iter=10_000).fit(rows.X, rows.y)
        plain = 100 * float(model.score(rows.X_test, rows.y_test))
        parts[rows.name] = lines_of(found, plain)
        lines += text_of(rows, parts[rows.name])
        say(f"{time.monotonic() - start:.0f} s since the start")
    draw(parts, given.page)
    write("offline", [*first, *lines[:-1]], given.page)


if __name__ == "__main__":
    main()
