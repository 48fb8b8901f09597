"""Logistic regression on real rows at equal privacy: DPFTRL, NOGD, and PIGD with tight and published noise.

    python experiments/classification.py FOLDER [--quick] [--runs 10]
    python experiments/classification.py --draw

FOLDER holds UCI's files as published: covtype.data.gz, adult.data.gz and adult.test.gz, diabetic_data.csv.gz; sets with
missing files are left out. All learners make one pass over the same rows in the same order. Four minutes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
from tasks import TASKS, Split, Task, found_in

from privol import DPFTRL, NOGD, PIGD, open_stream
from privol.evaluate import best_in_hindsight, progressive
from privol.guarantees import format_up

EPSILONS = (0.1, 1.0, 10.0)
DELTA = 1e-6
PLAIN = " without noise"


@dataclass
class Cell:
    """Results of one learner's runs at one budget."""

    proved: float = math.nan
    accuracy: list[float] = field(default_factory=list)  # of the last model on held-out rows, in percent
    progressive: list[float] = field(default_factory=list)  # in percent
    log_loss: list[float] = field(default_factory=list)
    regret: list[float] = field(default_factory=list)


def learners(task: Task, rows: Split, epsilon: float) -> dict[str, tuple[type[Any], dict[str, Any]]]:
    """Return the learners by name, with their parameters."""
    budget: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA}
    default = DPFTRL(radius=task.radius, x_bound=rows.x_bound, **budget).calibrate(rows.X.shape[1], len(rows.y))
    claiming = {"epsilon": epsilon / 3, "delta": DELTA / 2, "calibration": "published"}
    return {
        "DPFTRL": (DPFTRL, budget),
        "DPFTRL, a third of its regularization": (DPFTRL, {**budget, "regularization": default.regularization / 3}),
        "NOGD": (NOGD, budget),
        "NOGD, steps of 100 rows": (NOGD, {**budget, "batch": 100}),
        "PIGD, every row": (PIGD, {**budget, "l2": task.l2, "release": "all"}),
        "PIGD, published, every row": (PIGD, {**claiming, "l2": task.l2, "release": "all"}),
        "PIGD, last row only": (PIGD, {**budget, "l2": task.l2, "release": "last"}),
    }


def measure(rows: Split, task: Task, kind: type[Any], given: dict[str, Any], best: float, runs: int) -> Cell:
    """Learn ``runs`` times, each time with another key."""
    cell = Cell()
    for key in range(runs):
        learner = kind(loss="logistic", radius=task.radius, x_bound=rows.x_bound, random_state=key, **given)
        score = progressive(learner, open_stream((rows.X, rows.y), classes=(0, 1)), metrics=("accuracy",)).score
        assert score.accuracy is not None
        cell.accuracy.append(100 * learner.score(rows.X_test, rows.y_test))
        cell.progressive.append(100 * score.accuracy)
        cell.log_loss.append(score.loss)
        cell.regret.append(score.loss - best)
        if learner.epsilon != math.inf:
            cell.proved = learner.guarantee_.epsilon(DELTA)
    return cell


def line(epsilon: str, name: str, cell: Cell) -> list[str]:
    """Return a row of the table."""
    proved = "none" if math.isnan(cell.proved) else format_up(cell.proved, 3)
    return [epsilon, name, proved, *map(shown, (cell.accuracy, cell.progressive, cell.log_loss, cell.regret))]


def of_one_set(task: Task, rows: Split, runs: int) -> tuple[list[str], list[list[str]]]:
    """Measure one data set: what the page says of it, and its table."""
    best = best_in_hindsight(
        open_stream((rows.X, rows.y), classes=(0, 1)), radius=task.radius, x_bound=rows.x_bound
    ).score
    assert best.accuracy is not None
    lines = []
    for epsilon in EPSILONS:
        for name, (kind, given) in learners(task, rows, epsilon).items():
            cell = measure(rows, task, kind, given, best.loss, runs)
            lines.append(line(f"{epsilon:g}", name, cell))
            say(rows.name, *lines[-1])
    for name, (kind, given) in learners(task, rows, math.inf).items():
        if name in ("DPFTRL", "PIGD, every row"):
            cell = measure(rows, task, kind, given, best.loss, 1)
            lines.append(line("inf", f"{kind.__name__}{PLAIN}", cell))
    share = 100 * float(np.mean(rows.y))
    kept = [100 * best.accuracy], [best.loss], [0.0]
    lines.append(["inf", "best fixed model for the rows learnt", "none", "", *map(shown, kept)])
    head = ["epsilon", "learner", "proved", "last model, held out, %", "progressive, %", "log-loss", "average regret"]
    text = [
        f"**{rows.name}**: {len(rows.y):,} rows learnt, {len(rows.y_test):,} held out, {rows.X.shape[1]} features; "
        f"x_bound = {rows.x_bound:.4g}, radius = {task.radius:g}, l2 of PIGD = {task.l2:g}; the majority class: "
        f"{max(share, 100 - share):.1f} %.",
        "",
        *table(head, lines),
        "",
    ]
    return text, lines


def draw(found: Mapping[str, Sequence[Sequence[str]]], page: Path | None) -> None:
    """Draw means and deviations of the tables: a panel for each data set, the learners beside each other."""
    figure = Figure(figsize=(4.2 * len(found), 4.8), layout="constrained")
    for axis, (title, lines) in zip(figure.subplots(1, len(found), squeeze=False)[0], found.items(), strict=True):
        names = list(dict.fromkeys(name for epsilon, name, *_ in lines if epsilon != "inf"))
        for number, name in enumerate(names):
            own = [(float(epsilon), *figures(cell)) for epsilon, other, _, cell, *_ in lines if other == name]
            epsilons, means, spread = zip(*own, strict=True)
            beside = [epsilon * 1.12 ** (number - (len(names) - 1) / 2) for epsilon in epsilons]
            axis.errorbar(beside, means, yerr=spread, capsize=2, linewidth=1.0, elinewidth=1.0, label=name,
                          **LOOKS[number])  # fmt: skip
        for _, name, _, cell, *_ in lines:
            if name.endswith(PLAIN):
                dashes = ("--", "black") if name == f"DPFTRL{PLAIN}" else (":", "grey")
                axis.axhline(figures(cell)[0], linestyle=dashes[0], color=dashes[1], label=name)
        over_epsilon(axis, title, EPSILONS)
    figure.supylabel("accuracy of the last model on rows held out, %", fontsize=10)
    legend_below(figure)
    picture(figure, "classification.png", page)


def draw_again(page: Path) -> None:
    """Draw the picture from the page alone."""
    text = page.read_text(encoding="utf-8").partition("<!-- classification: ")[2].partition("<!-- end of class")[0]
    names = re.findall(r"^\*\*(\w+)\*\*: ", text, re.MULTILINE)
    draw(dict(zip(names, tables("classification", page), strict=True)), page)


def main() -> None:
    given = arguments(__doc__, files=[name for task in TASKS for name in task.files], runs=10, draws=True)
    if given.draw:
        draw_again(given.page)
        return
    lines, found = [], {}
    for task, rows in found_in(given.folder, 1_000 if given.quick else None):
        text, found[rows.name] = of_one_set(task, rows, given.runs)
        lines += text
    draw(found, given.page)
    write("classification", lines[:-1], given.page)


if __name__ == "__main__":
    main()
