"""The accuracy table of Jain, Kothari and Thakurta (2012, Fig. 2c) again: all budgets, calibrations and releases.

    python examples/published_table.py FOLDER [--repeats 10] [--plot table.png] > table.md

FOLDER holds UCI's files as published: covtype.data.gz, adult.data.gz and adult.test.gz, diabetic_data.csv.gz; those
that are missing are left out. ``privol reproduce "jain2012 fig. 2c"`` compares the first of these sets with the paper;
here are more settings and sets. Rows are encoded by public schemas, shuffled by a public permutation, and
learnt in one pass by PIGD with the logistic loss at delta = 0.01. The accuracies are those of the released model on
rows that were held out. They are computed from raw labels: they describe the experiment and are not private.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from privol import PIGD
from privol.guarantees import format_up
from privol.reproduce.jain2012 import BUDGETS as EPSILONS
from privol.reproduce.jain2012 import DELTA, PARAMETERS, PRINTED
from privol.reproduce.sets import TASKS, Split, Task, has

RELEASES: tuple[Any, ...] = ("last", 1000, "all")
CALIBRATIONS = ("tight", "published")
#: Colour and marker of a release schedule in the picture.
LOOKS = (("#0072B2", "o"), ("#E69F00", "s"), ("#CC79A7", "D"))


@dataclass(frozen=True)
class Setting:
    """A data set and the public parameters of its runs."""

    task: Task
    parameters: dict[str, float]
    why: str

    @property
    def name(self) -> str:
        return self.task.name


COVTYPE, ADULT, DIABETES = TASKS
SETTINGS = (
    Setting(COVTYPE, PARAMETERS[0], "close to unregularised, as a user of the data would choose"),
    Setting(COVTYPE, PARAMETERS[1], "regularised until the run without noise is near the source's 68.1 %"),
    Setting(ADULT, {"radius": ADULT.radius, "l2": ADULT.l2}, "official split; fewer rows, so more regularisation"),
    Setting(
        DIABETES,
        {"radius": DIABETES.radius, "l2": DIABETES.l2},
        "one row of each patient; readmitted at any time, since within 30 days is too rare",
    ),
)


@dataclass(frozen=True)
class Cell:
    """Held-out accuracy in per cent over the repeated runs, and the real guarantee of the noise."""

    last: list[float]
    average: list[float]
    epsilon: float
    delta: float


def measure(rows: Split, repeats: int, **parameters: Any) -> Cell:
    """Learn ``repeats`` times."""
    last, average = [], []
    for _ in range(repeats):
        learner = PIGD(delta=DELTA, **parameters).fit(rows.X, rows.y)
        last.append(100 * learner.score(rows.X_test, rows.y_test))
        decision = rows.X_test @ learner.average_coef_.ravel() + float(learner.average_intercept_[0])
        average.append(100 * float(np.mean((decision > 0) == rows.y_test)))
    guarantee = learner.guarantee_
    return Cell(last, average, guarantee.epsilon(), guarantee.delta)


def grid(task: Setting, folder: Path, repeats: int) -> Iterator[tuple[float, str, Any, Cell]]:
    """Measure every cell of a task's table."""
    rows = task.task.split(folder)
    parameters = {"x_bound": rows.x_bound, **task.parameters}
    share = float(np.mean(rows.y_test))
    print(f"\n### {task.name}: {len(rows.y):,} rows learnt, {len(rows.y_test):,} held out")
    settings = ", ".join(f"{k} = {v:.4g}" for k, v in parameters.items())
    print(f"\n{settings}: {task.why}. The majority class: {100 * max(share, 1 - share):.1f} %.")
    for epsilon in EPSILONS:
        for calibration in CALIBRATIONS:
            for release in RELEASES:
                if math.isinf(epsilon) and calibration == "published":
                    continue  # without noise the two differ only in the last row
                runs = 1 if math.isinf(epsilon) else repeats
                run = {"epsilon": epsilon, "calibration": calibration, "release": release, **parameters}
                yield epsilon, calibration, release, measure(rows, runs, **run)


def shown(values: list[float]) -> str:
    if len(values) == 1:
        return f"{values[0]:.1f}"
    return f"{statistics.mean(values):.1f} ± {statistics.stdev(values):.1f}"


def table(task: Setting, cells: dict[tuple[float, str, Any], Cell]) -> None:
    """Print one task's table in Markdown."""
    print("\n| epsilon | calibration | proved | last | every 1,000 | all | their average | average of all | source |")
    print("| --- " * 9 + "|")
    for epsilon in EPSILONS:
        for calibration in CALIBRATIONS:
            row = [cells.get((epsilon, calibration, release)) for release in RELEASES]
            if row[0] is None:
                continue
            one, some, every = row
            proved = "none" if math.isinf(epsilon) else " / ".join(format_up(cell.epsilon, 3) for cell in row)
            source = f"{PRINTED[epsilon]:.1f}" if task.name == "covtype" else ""
            print(
                f"| {epsilon:g} | {calibration} | {proved} | {shown(one.last)} | {shown(some.last)} "
                f"| {shown(every.last)} | {shown(some.average)} | {shown(every.average)} | {source} |"
            )


def draw(measured: list[tuple[Setting, dict[Any, Cell]]], path: str) -> None:
    """Draw accuracy by budget: one panel a task, one line a release schedule, tight calibration."""
    figure = Figure(figsize=(4.2 * len(measured), 4.0), layout="constrained")
    budgets = [epsilon for epsilon in EPSILONS if not math.isinf(epsilon)][::-1]
    for axis, (task, cells) in zip(figure.subplots(1, len(measured), squeeze=False)[0], measured, strict=True):
        for release, (colour, marker) in zip(RELEASES, LOOKS, strict=True):
            runs = [cells[epsilon, "tight", release] for epsilon in budgets]
            mean = [statistics.mean(cell.last) for cell in runs]
            spread = [statistics.stdev(cell.last) if len(cell.last) > 1 else 0.0 for cell in runs]
            word = f"every {release:,}" if isinstance(release, int) else release
            axis.errorbar(budgets, mean, yerr=spread, color=colour, marker=marker, markersize=5, capsize=3,
                          label=f"released: {word}")  # fmt: skip
            if release != "last":
                average = [statistics.mean(cell.average) for cell in runs]
                axis.plot(budgets, average, color=colour, marker=marker, markersize=5, markerfacecolor="white",
                          linestyle=":", label=f"average of {word}")  # fmt: skip
        noiseless = statistics.mean(cells[math.inf, "tight", "last"].last)
        axis.axhline(noiseless, color="black", linestyle="--", linewidth=1, label="without noise")
        if task.name == "covtype":
            axis.plot(budgets, [PRINTED[epsilon] for epsilon in budgets], "kx", label="the source, every row")
        axis.set_xscale("log")
        axis.set_xlabel("epsilon at delta = 0.01")
        axis.set_title(f"{task.name}, l2 = {task.parameters['l2']:g}", fontsize=10)
        axis.grid(alpha=0.2)
    handles = {
        label: handle for axis in figure.axes for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=len(handles), fontsize=8)
    figure.supylabel("held-out accuracy, %", fontsize=10)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--plot", help="file to write a picture to")
    arguments = parser.parse_args()
    measured = []
    for task in SETTINGS:
        if all(has(arguments.folder, name) for name in task.task.files):
            found = {tuple(key): cell for *key, cell in grid(task, arguments.folder, arguments.repeats)}
            table(task, found)
            measured.append((task, found))
    if arguments.plot:
        draw(measured, arguments.plot)


if __name__ == "__main__":
    main()
