"""Coin betting compared with gradient descent, with the best step in hindsight and with worse ones, on real rows.

    python experiments/betting_data.py FOLDER [--quick] [--runs 20]
    python experiments/betting_data.py --draw

It uses 30,000 of the Covertype rows that come with privol, and UCI's Adult if FOLDER holds adult.data.gz and
adult.test.gz; logistic loss, one pass. Half an hour on one thread, most of it for PrivUnit at epsilon = 8.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from common import LOOKS, FloatArray, arguments, figures, picture, say, table, tables, write
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sweeps import FACTORS, descend, half_decades, run, spread, sweep
from tasks import TASKS

from privol import BANCO, LDPSGD, AgnosticBANCO
from privol.data import open_covtype
from privol.geometry import WholeSpace
from privol.reproduce.sets import has

SETTINGS = (("l2laplace", (0.5, 1.0, 4.0, 8.0)), ("privunit", (0.5, 1.0, 4.0, 8.0)))
ROWS = 30_000
COVTYPE_BOUND = 3.0
LEARNERS = (*(f"LDPSGD, {factor:g} of the best step" for factor in FACTORS), "BANCO", "AgnosticBANCO")
#: Learners in the picture.
DRAWN = (*LEARNERS[1:4], "BANCO", "AgnosticBANCO")


@dataclass(frozen=True)
class Logistic:
    """Real rows in one order."""

    name: str
    X: Any
    y: FloatArray
    x_bound: float

    @property
    def words(self) -> dict[str, Any]:
        """Arguments of all learners."""
        return {"loss": "logistic", "x_bound": self.x_bound}

    def rows(self, key: int) -> tuple[Any, FloatArray]:
        return self.X, self.y

    def risk(self, model: FloatArray) -> float:
        """Return the mean loss of a model on the rows, the intercept last."""
        scores = self.X @ model[:-1] + model[-1]
        return float(np.mean(np.logaddexp(0.0, -(2.0 * self.y - 1.0) * scores)))

    @cached_property
    def best(self) -> FloatArray:
        """The best model, up to a regulariser of half its squared norm for all rows together."""
        found = LogisticRegression(max_iter=5_000).fit(self.X, self.y)
        return np.append(found.coef_.ravel(), found.intercept_)

    @cached_property
    def least(self) -> float:
        """The best model's risk."""
        return self.risk(self.best)

    def excess(self, model: FloatArray) -> float:
        return self.risk(model) - self.least

    def eta0(self, **given: Any) -> float:
        """The constant step with the best regret bound for a model of norm 1."""
        plan = LDPSGD(domain=WholeSpace(), step_size=1.0, **self.words, **given).calibrate(self.X.shape[1], len(self.y))
        return 1.0 / float(np.sqrt(len(self.y) * plan.power))


def found_in(folder: Path, most: int) -> Iterator[Logistic]:
    """Yield the data sets, with rows scaled to the bound where they exceed it."""
    blocks = list(open_covtype())
    X, y = np.vstack([block.X for block in blocks]), np.concatenate([block.y for block in blocks])
    sets = [("covtype", sparse.csr_matrix(X[:most]), y[:most], COVTYPE_BOUND)]
    (adult,) = (task for task in TASKS if task.name == "adult")
    if all(has(folder, name) for name in adult.files):
        split = adult.split(folder, most)
        sets.append(("adult", sparse.csr_matrix(split.X), split.y, split.x_bound))
    else:
        say(f"adult is left out: {folder} has no {', '.join(adult.files)}")
    for name, rows, labels, bound in sets:
        lengths = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
        scaled = sparse.diags(bound / np.maximum(lengths, bound)) @ rows
        yield Logistic(name, sparse.csr_matrix(scaled), labels, bound)


def of_setting(game: Logistic, randomizer: str, epsilon: float, runs: int) -> dict[str, list[float]]:
    """Return the excess risk by learner and run."""
    given: dict[str, Any] = {"epsilon": epsilon, "randomizer": randomizer}
    keys = range(runs)
    best = sweep(game, half_decades(game.eta0(**given), 3, 5), range(1000, 1008), **given).best
    found = {}
    for factor in FACTORS:
        name = f"LDPSGD, {factor:g} of the best step"
        found[name] = [descend(game, key, best * factor, **given) for key in keys]
    found["BANCO"] = [run(BANCO, game, key, **given) for key in keys]
    if randomizer == "l2laplace":
        found["AgnosticBANCO"] = [run(AgnosticBANCO, game, key, **given) for key in keys]
    return found


def of_game(game: Logistic, runs: int, quick: bool) -> tuple[float, list[list[str]]]:
    """Return the excess risk of the model of zeros, and the table of one data set."""
    lines = []
    for randomizer, epsilons in SETTINGS:
        for epsilon in epsilons[1:2] if quick else epsilons:
            found = of_setting(game, randomizer, epsilon, runs)
            lines.append([randomizer, f"{epsilon:g}", *(spread(found[n]) if n in found else "" for n in LEARNERS)])
            say(game.name, *lines[-1])
    return game.excess(np.zeros(game.X.shape[1] + 1)), lines


def text_of(game: Logistic, null: float, lines: list[list[str]]) -> list[str]:
    """Return a data set's part of the page; :func:`draw_again` reads it."""
    return [
        f"**{game.name}**: {len(game.y):,} rows, {game.X.shape[1]} features and the intercept, x_bound = "
        f"{game.x_bound:.4g}; the best model has norm {np.linalg.norm(game.best):.3g} and risk {game.least:.3g}, "
        f"that of zeros an excess risk of {null:.3g}.",
        "",
        *table(["randomizer", "epsilon", *LEARNERS], lines),
        "",
    ]


def draw(found: Mapping[str, tuple[float, Sequence[Sequence[str]]]], page: Path | None) -> None:
    """Draw the means of the tables: a panel for each data set, the randomizers by their dashes."""
    figure = Figure(figsize=(5.4 * len(found), 5.2), layout="constrained")
    for axis, (title, (null, lines)) in zip(
        figure.subplots(1, len(found), squeeze=False)[0], found.items(), strict=True
    ):
        for randomizer in dict.fromkeys(line[0] for line in lines):
            own = [line for line in lines if line[0] == randomizer]
            for name, look in zip(DRAWN, LOOKS, strict=False):
                cells = [line[2 + LEARNERS.index(name)] for line in own]
                if all(cells):
                    axis.plot([float(line[1]) for line in own], [figures(cell)[0] for cell in cells],
                              linestyle="-" if randomizer == "privunit" else "--", linewidth=1.2,
                              label=f"{name}, {randomizer}", **look)  # fmt: skip
        axis.axhline(null, color="grey", linestyle=":", label="the model of zeros")
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xticks(sorted({float(line[1]) for line in lines}))
        axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.yaxis.set_major_formatter("{x:g}")
        for one in (axis.xaxis, axis.yaxis):
            one.set_minor_formatter("")
        axis.xaxis.set_major_formatter("{x:g}")
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("epsilon of a report")
        axis.grid(alpha=0.2)
    figure.supylabel("excess risk of the average model", fontsize=10)
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=8)
    picture(figure, "betting_data.svg", page)


def draw_again(page: Path) -> None:
    """Draw the picture from the page alone."""
    text = page.read_text(encoding="utf-8").partition("<!-- betting_data: ")[2].partition("<!-- end of betting_data")[0]
    heads = re.findall(r"^\*\*(\w+)\*\*: (?:.*\n)*?.*?excess risk\s+of ([\d.]+\d)", text, re.MULTILINE)
    parts = tables("betting_data", page)
    draw({name: (float(null), lines) for (name, null), lines in zip(heads, parts, strict=True)}, page)


def main() -> None:
    given = arguments(
        __doc__, files=("adult.data", "adult.test"), embedded=True, runs=20, page="local.md", draws=True
    )  # fmt: skip
    if given.draw:
        draw_again(given.page)
        return
    found, lines = {}, []
    for game in found_in(given.folder, 400 if given.quick else ROWS):
        null, own = of_game(game, given.runs, given.quick)
        found[game.name] = null, own
        lines += text_of(game, null, own)
    draw(found, given.page)
    write("betting_data", lines[:-1], given.page)


if __name__ == "__main__":
    main()
