"""Experts of many radii compared with gradient descent with the best step in hindsight, on the same reports.

    python experiments/multiscale.py FOLDER [--quick] [--runs 20]
    python experiments/multiscale.py --draw

Synthetic rows with the settings of the specification's tables and more norms of the best model, and real rows as in
``betting_data.py``, for which FOLDER holds adult.data.gz and adult.test.gz. Excess risks are in units of that of the
best constant step, averaged over all points. Half an hour on one thread, most of it for PrivUnit at epsilon = 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from betting import Regression
from betting_data import ROWS, SETTINGS, Logistic, found_in
from common import LOOKS, arguments, figures, picture, say, table, tables, write
from matplotlib.figure import Figure
from sweeps import descend, half_decades, run, spread, sweep

from privol import BANCO, MultiscaleSGD

NORMS = (0.01, 0.1, 1.0, 20.0, 100.0)
# Randomizer, dimension, rows, epsilon, norms.
SYNTHETIC: tuple[tuple[str, int, int, float, tuple[float, ...]], ...] = (
    ("l2laplace", 2, 20_000, 1.0, NORMS),
    ("l2laplace", 10, 50_000, 1.0, NORMS),
    ("l2laplace", 10, 50_000, 4.0, NORMS),
    ("l2laplace", 10, 20_000, 1.0, NORMS),
    ("l2laplace", 100, 20_000, 4.0, (20.0,)),
    ("privunit", 10, 20_000, 1.0, NORMS),
    ("privunit", 100, 20_000, 4.0, (20.0,)),
)
LEARNERS: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "MultiscaleSGD": (MultiscaleSGD, {}),
    "BANCO": (BANCO, {}),
    "BANCO, quadratic average": (BANCO, {"averaging": "quadratic"}),
}
BEST_QUADRATIC = "its step, quadratic average"
COLUMNS = ("model of zeros", *LEARNERS, BEST_QUADRATIC)
DRAWN = {"MultiscaleSGD": "-", "BANCO": ":"}
AIM = 1.5


def of_regression(
    randomizer: str, dim: int, n_rows: int, epsilon: float, norms: tuple[float, ...], runs: int
) -> dict[str, list[Any]]:
    """Return the ratios by learner, norm and run."""
    given: dict[str, Any] = {"epsilon": epsilon, "randomizer": randomizer}
    keys = range(runs)
    unit = Regression(dim, n_rows, 1.0)
    best = sweep(unit, half_decades(unit.eta0(**given), 1, 4), range(1000, 1005), **given).best
    least = float(np.mean([descend(unit, key, best, **given) / unit.null for key in keys]))
    better = [descend(unit, key, best, averaging="quadratic", **given) / unit.null / least for key in keys]
    found: dict[str, list[Any]] = {"null": [f"{1.0 / least:.3g}"] * len(norms)}
    for name, (kind, words) in LEARNERS.items():
        games = [Regression(dim, n_rows, norm) for norm in norms]
        found[name] = [[run(kind, game, key, **words, **given) / game.null / least for key in keys] for game in games]
    found[BEST_QUADRATIC] = [better] * len(norms)
    return found


def of_rows(game: Logistic, randomizer: str, epsilon: float, runs: int) -> dict[str, Any]:
    """Return the ratios by learner and run."""
    given: dict[str, Any] = {"epsilon": epsilon, "randomizer": randomizer}
    keys = range(runs)
    best = sweep(game, half_decades(game.eta0(**given), 1, 4), range(1000, 1008), **given).best
    least = float(np.mean([descend(game, key, best, **given) for key in keys]))
    found: dict[str, Any] = {"null": game.excess(np.zeros(game.X.shape[1] + 1)) / least}
    for name, (kind, words) in LEARNERS.items():
        found[name] = [run(kind, game, key, **words, **given) / least for key in keys]
    found[BEST_QUADRATIC] = [descend(game, key, best, averaging="quadratic", **given) / least for key in keys]
    return found


class Ratios:
    """The picture: a panel of synthetic rows by the norm of their best model, and one of real rows by epsilon."""

    def __init__(self) -> None:
        self.figure = Figure(figsize=(11.0, 6.4), layout="constrained")
        self.panels = self.figure.subplots(1, 2, sharey=True)
        words = (("synthetic rows", "norm of the best model"), ("real rows", "epsilon of a report"))
        self.figure.suptitle("MultiscaleSGD (solid), BANCO (dotted, hollow), the aim (grey line)", fontsize=11)
        for panel, (title, label) in zip(self.panels, words, strict=True):
            panel.set_xscale("log")
            panel.set_yscale("log")
            for axis in (panel.xaxis, panel.yaxis):
                axis.set_major_formatter("{x:g}")
                axis.set_minor_formatter("")
            panel.set_yticks([0.5, 1.0, AIM, 2.0, 4.0, 8.0])
            panel.axhline(AIM, color="grey", linewidth=0.8)
            panel.set_title(title, fontsize=10)
            panel.set_xlabel(label)
            panel.grid(alpha=0.2)
        self.panels[1].set_xticks(sorted({epsilon for _, epsilons in SETTINGS for epsilon in epsilons}))
        self.figure.supylabel("excess risk, that of the best constant step is 1", fontsize=10)

    def add(self, panel: int, number: int, label: str, x: Sequence[float], lines: Sequence[Sequence[str]]) -> None:
        """Draw a setting: the mean ratios in the last columns of the table's lines, at the positions x."""
        for name, style in DRAWN.items():
            words = {"label": label} if style == "-" else {"markerfacecolor": "white"}
            means = [figures(line[-len(COLUMNS) + COLUMNS.index(name)])[0] for line in lines]
            self.panels[panel].plot(x, means, style, linewidth=1.3, **LOOKS[number], **words)

    def save(self, page: Path | None) -> None:
        for panel in self.panels:
            panel.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2)
        picture(self.figure, "multiscale.svg", page)


def draw(lines: Sequence[Sequence[str]], real: Sequence[Sequence[str]], page: Path | None) -> None:
    """Draw the means of both tables."""
    ratios = Ratios()
    settings: dict[str, list[Sequence[str]]] = {}
    for line in lines:
        dim, rows, epsilon, _ = line[1].split(", ")
        settings.setdefault(f"{line[0]}, d = {dim}, {rows} rows, epsilon = {epsilon}", []).append(line)
    for number, (label, own) in enumerate(settings.items()):
        ratios.add(0, number, label, [float(line[1].split(", ")[-1]) for line in own], own)
    settings = {}
    for line in real:
        settings.setdefault(f"{line[0]}, {line[1]}", []).append(line)
    for number, (label, own) in enumerate(settings.items()):
        ratios.add(1, number, label, [float(line[2]) for line in own], own)
    ratios.save(page)


def main() -> None:
    given = arguments(
        __doc__, files=("adult.data", "adult.test"), embedded=True, runs=20, page="local.md", draws=True
    )  # fmt: skip
    if given.draw:
        draw(*tables("multiscale", given.page), given.page)
        return
    lines = []
    for randomizer, dim, n_rows, epsilon, norms in SYNTHETIC[:1] if given.quick else SYNTHETIC:
        found = of_regression(randomizer, dim, 300 if given.quick else n_rows, epsilon, norms, given.runs)
        for k, norm in enumerate(norms):
            cells = [found["null"][k], *(spread(found[name][k]) for name in COLUMNS[1:])]
            lines.append([randomizer, f"{dim}, {n_rows:,}, {epsilon:g}, {norm:g}", *cells])
            say(*lines[-1])
    real = []
    for game in found_in(given.folder, 400 if given.quick else ROWS):
        for randomizer, every in SETTINGS[1:] if given.quick else SETTINGS:
            for epsilon in every[1:2] if given.quick else every:
                own = of_rows(game, randomizer, epsilon, given.runs)
                cells = [f"{own['null']:.3g}", *(spread(own[name]) for name in COLUMNS[1:])]
                real.append([game.name, randomizer, f"{epsilon:g}", *cells])
                say(*real[-1])
    draw(lines, real, given.page)
    lines = [
        "Synthetic rows:", "",
        *table(["randomizer", "d, T, epsilon, norm", *COLUMNS], lines), "",
        f"Real rows, {ROWS:,} of each:", "",
        *table(["rows", "randomizer", "epsilon", *COLUMNS], real),
    ]  # fmt: skip
    write("multiscale", lines, given.page)


if __name__ == "__main__":
    main()
