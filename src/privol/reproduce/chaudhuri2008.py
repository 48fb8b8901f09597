"""Monteleoni and Chaudhuri 2008 (slides): test error of output and objective perturbation, synthetic rows, five folds.

The slides state neither the dimension, lambda and epsilon, nor how rows are drawn. Here rows are uniform on the unit
sphere of ten dimensions, labelled by a plane through the origin: separable with a margin, or with label noise near the
plane.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..guarantees import format_up
from ..learners import ObjectivePerturbation, OutputPerturbation
from .verdicts import Check, Figure, FloatArray, Line, Measured, Panel, Setting, Table, against, trend

__all__ = ["EPSILONS", "FIGURES", "FOLDS", "LAWS", "NAMES", "ROWS", "Law", "errors", "four", "proved"]

ROWS, FOLDS, DIM, L2 = 17_500, 5, 10, 0.01
EPSILONS = (0.017, 0.1)
NAMES: dict[type[Any], str] = {OutputPerturbation: "sensitivity method", ObjectivePerturbation: "new"}
SIZES = (1_000, 2_500, 5_000, 10_000, 17_500)
BUDGETS = (0.005, 0.017, 0.05, 0.1, 0.3)


@dataclass(frozen=True)
class Law:
    """How rows are drawn and labelled, and the test error that the slides print, as mean and deviation."""

    name: str
    margin: float  # rows nearer to the plane are drawn again
    flipped: float  # share of labels that are flipped, among rows nearer than the next number
    near: float
    printed: dict[str, tuple[float, float]]

    def draw(self, rows: int, seed: int) -> tuple[FloatArray, FloatArray]:
        """Return rows and labels; the seed decides the plane."""
        rng = np.random.default_rng(seed)
        truth = _sphere(rng, 1)[0]
        X = _sphere(rng, rows)
        while (close := np.abs(X @ truth) < self.margin).any():
            X[close] = _sphere(rng, int(close.sum()))
        y = np.where(X @ truth > 0, 1.0, -1.0)
        y[(np.abs(X @ truth) < self.near) & (rng.random(rows) < self.flipped)] *= -1
        return X, y


LAWS = (
    Law("margin 0.03", 0.03, 0.0, 0.0,
        {"sensitivity method": (0.2962, 0.0617), "new": (0.1426, 0.1284), "no noise": (0.0, 0.0016)}),
    Law("label noise 0.2 in margin 0.1", 0.0, 0.2, 0.1,
        {"sensitivity method": (0.3257, 0.0536), "new": (0.1903, 0.1105), "no noise": (0.0530, 0.1105)}),
)  # fmt: skip
#: The printed deviation of the last entry repeats another entry, so it does not show how well the mean is known.
PLAIN_TOLERANCE = 0.005


def _sphere(rng: np.random.Generator, rows: int) -> FloatArray:
    """Return uniform unit vectors."""
    X = rng.normal(size=(rows, DIM))
    X /= np.linalg.norm(X, axis=1)[:, None]
    return X


def errors(law: Law, kind: type[Any], epsilon: float, calibration: str, runs: int, rows: int = ROWS) -> list[float]:
    """Return the test errors of all folds of all runs."""
    found = []
    for run in range(runs):
        X, y = law.draw(rows, run)
        fold = np.arange(rows) % FOLDS  # rows are independent, so their order carries no information
        for k in range(FOLDS):
            learner = kind(
                l2=L2,
                epsilon=epsilon,
                delta=0.0,
                calibration=calibration,
                fit_intercept=False,
                random_state=run * FOLDS + k,
            )
            learner.fit(X[fold != k], y[fold != k])
            found.append(1.0 - float(learner.score(X[fold == k], y[fold == k])))
    return found


def _by_run(found: list[float]) -> list[float]:
    """Return the mean over the folds of each run: the folds of a run share rows and plane."""
    return [statistics.mean(found[i : i + FOLDS]) for i in range(0, len(found), FOLDS)]


def proved(kind: type[Any], epsilon: float, rows: int) -> float:
    """Return the epsilon that is proved for the slides' noise, in one fit."""
    plan = kind(l2=L2, epsilon=epsilon, delta=0.0, calibration="published", fit_intercept=False).calibrate(
        DIM, rows * (FOLDS - 1) // FOLDS
    )
    return float(plan.epsilon)


def four(mean: float, deviation: float) -> str:
    """Return mean and deviation as the slides print them."""
    return f"{mean:.4f} ± {deviation:.4f}"


def _cell(found: list[float]) -> str:
    return four(statistics.mean(found), statistics.stdev(found))


def figure_1(setting: Setting) -> Measured:
    """The table of test errors, with the slides' noise and with proved noise; also at a larger epsilon."""
    rows = 1_000 if setting.quick else ROWS
    lines: list[tuple[str, ...]] = []
    checks, panels = [], []
    for law in LAWS:
        means: dict[str, list[float]] = {}
        for epsilon in EPSILONS:
            for kind, name in NAMES.items():
                published = errors(law, kind, epsilon, "published", setting.runs, rows)
                tight = errors(law, kind, epsilon, "tight", setting.runs, rows)
                what = f"{kind.__name__} ({name})"
                noise = format_up(proved(kind, epsilon, rows))
                lines.append((law.name, f"{epsilon:g}", what, _cell(published), noise, _cell(tight)))
                setting.say(f"{law.name}, epsilon = {epsilon:g}, {name}: test error {_cell(published)}")
                if epsilon == EPSILONS[0]:
                    means[name] = _by_run(published)
        plain = errors(law, OutputPerturbation, math.inf, "tight", setting.runs, rows)
        lines.append((law.name, "inf", "no noise", "", "", _cell(plain)))
        means["no noise"] = _by_run(plain)
        checks += [_check(law, name, found) for name, found in means.items()]
        panels.append(_beside(law, means))
    head = ("rows", "epsilon", "method", "slides' noise", "proved of it", "tight")
    return Measured((Table("Test error", head, tuple(lines)),), tuple(panels), tuple(checks))


def _check(law: Law, name: str, found: list[float]) -> Check:
    mean, deviation = law.printed[name]
    tolerance = 2.0 * deviation / math.sqrt(FOLDS) if name != "no noise" else PLAIN_TOLERANCE
    return against(f"{law.name}, {name}", mean, found, tolerance)


def _beside(law: Law, means: dict[str, list[float]]) -> Panel:
    """Draw the errors for one kind of rows, by run, beside the printed ones, by fold."""
    places = tuple(range(len(means)))
    printed, deviations = zip(*(law.printed[name] for name in means), strict=True)
    lines = (
        Line.of("measured, slides' noise", places, list(means.values())),
        Line("paper", places, printed, deviations, kind="source"),
    )
    return Panel(law.name, "", "test error", lines, log_x=False, log_y=False, names=tuple(means))


def _curves(setting: Setting, law: Law, points: tuple[float, ...], what: str) -> dict[str, list[list[float]]]:
    """Return the errors of both methods, and without noise, by rows or by epsilon."""
    found: dict[str, list[list[float]]] = {name: [] for name in (*NAMES.values(), "no noise")}
    for point in points:
        rows, epsilon = (int(point), EPSILONS[1]) if what == "rows" else (1_000 if setting.quick else ROWS, point)
        for kind, name in NAMES.items():
            found[name].append(_by_run(errors(law, kind, epsilon, "published", setting.runs, rows)))
        found["no noise"].append(_by_run(errors(law, OutputPerturbation, math.inf, "tight", setting.runs, rows)))
        setting.say(f"{law.name}, {what} {point:g}")
    return found


def _measured(setting: Setting, points: tuple[float, ...], what: str) -> Measured:
    lines: list[tuple[str, ...]] = []
    checks: list[Check] = []
    panels = []
    for law in LAWS:
        found = _curves(setting, law, points, what)
        for name, cells in found.items():
            lines.append((law.name, name, *map(_cell, cells)))
        means = {name: [statistics.mean(cell) for cell in cells] for name, cells in found.items()}
        for name in NAMES.values():
            falls = f"from {means[name][0]:.3f} to {means[name][-1]:.3f}"
            checks.append(
                trend(f"{law.name}, {name}: the error falls with {what}", means[name][-1] < means[name][0], falls)
            )
        behind = [
            f"{p:g}" for p, new, old in zip(points, means["new"], means["sensitivity method"], strict=True) if new > old
        ]
        checks.append(trend(f"{law.name}: the new method is ahead of the sensitivity method", not behind,
                            f"not at {', '.join(behind)}" if behind else "at all points"))  # fmt: skip
        panels.append(
            Panel(law.name, what, "test error", tuple(Line.of(name, points, cells) for name, cells in found.items()),
                  log_y=False)
        )  # fmt: skip
    head = ("rows", "method", *(f"{what} {point:g}" for point in points))
    return Measured((Table("Test error", head, tuple(lines)),), tuple(panels), tuple(checks))


def learning_curves(setting: Setting) -> Measured:
    """Test error by the number of rows."""
    points = SIZES[:2] if setting.quick else SIZES
    return _measured(setting, tuple(map(float, points)), "rows")


def epsilon_dependence(setting: Setting) -> Measured:
    """Test error by epsilon."""
    return _measured(setting, BUDGETS[1:4:2] if setting.quick else BUDGETS, "epsilon")


_CHOSEN = (
    "10 dimensions, lambda = 0.01 and epsilon = {epsilon}, uniform rows, no intercept. The first two and epsilon = "
    "0.017 were fitted to the printed errors of fig. 1."
)

FIGURES = (
    Figure(
        "chaudhuri2008", "fig. 1", "test error of both methods and without noise", "17,500 rows, five folds", 10, 0.1,
        figure_1, chosen=_CHOSEN.format(epsilon="0.017"),
        why="Three free numbers were fitted to these six: that they agree proves only that one setting has them all. "
        "Tolerance: two standard errors of the printed five folds, 0.005 without noise. The printed deviation 0.1105 "
        "without noise repeats the entry above it, and is probably a misprint. The claim for the new method's noise "
        "needs n lambda epsilon of at least 2 (CM-3 in docs/errata.md), which is 2.4 here.",
    ),
    Figure(
        "chaudhuri2008", "learning curves", "test error by the number of rows", "1,000 to 17,500 rows, five folds", 5,
        0.1, learning_curves, chosen=_CHOSEN.format(epsilon="0.1"),
        why="The slide has no numbers: trends are compared.",
    ),
    Figure(
        "chaudhuri2008", "dependence on epsilon", "test error by epsilon", "17,500 rows, five folds", 5, 0.1,
        epsilon_dependence, chosen=_CHOSEN.format(epsilon="0.005 to 0.3"),
        why="The slide has no numbers: trends are compared.",
    ),
)  # fmt: skip
