"""Coin betting compared with gradient descent, with the best step in hindsight and with worse ones, on synthetic rows.

    python experiments/betting.py [--quick] [--runs 20]
    python experiments/betting.py --draw

Absolute-loss regression with noiseless targets: rows are uniform on the unit sphere, ``y = <x, w*>``. The risk of a
model w, ``||w - w*|| E|x_1|``, is computed exactly. Nine minutes on one thread.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common import LOOKS, arguments, figures, picture, say, table, tables, write
from matplotlib.figure import Figure
from sweeps import FACTORS, descend, half_decades, run, spread, sweep

from privol import BANCO, AgnosticBANCO
from privol.reproduce.jun2019 import Regression

LEARNERS = ("LDPSGD, best step for each norm", "LDPSGD, best step for norm 1", "BANCO", "AgnosticBANCO")
DIMS, EPSILONS, NORMS = (2, 10, 54), (0.5, 1.0, 4.0, 8.0), (0.01, 0.1, 1.0, 10.0, 100.0)
RANDOMIZERS = ("l2laplace", "privunit")
ROWS = 20_000
FEWER = {("privunit", 54, 8.0): 5_000}  # 300 trials a report

# The specification's table: dimension, rows, epsilon, norm of w*; then the excess risks of BANCO with the published
# constants and with the tight ones, of AgnosticBANCO, and of gradient descent with eta0 = epsilon / (d sqrt(T)) and
# with the best of six steps.
PRINTED = {
    (2, 20_000, 1.0, 1.0): (0.1327, 0.0480, 0.0624, 0.0085, 0.0085),
    (2, 20_000, 1.0, 20.0): (3.4557, 1.1983, 1.5689, 2.7477, 0.1433),
    (10, 50_000, 1.0, 1.0): (0.2575, 0.2060, 0.2443, 0.0541, 0.0541),
    (10, 50_000, 1.0, 20.0): (5.1494, 4.5504, 5.0707, 4.4712, 1.2671),
    (10, 50_000, 4.0, 20.0): (5.1376, 0.5238, 0.5106, 2.2872, 0.1129),
}


def reproduced(runs: int, quick: bool) -> list[list[str]]:
    """Return the specification's table, measured again; columns as in :data:`PRINTED`."""
    lines = []
    for (dim, rows, epsilon, norm), printed in PRINTED.items():
        game = Regression(dim, 500 if quick else rows, norm)
        given: dict[str, Any] = {"epsilon": epsilon, "randomizer": "l2laplace"}
        eta0 = epsilon / dim / math.sqrt(len(game.rows(0)[1]))  # the poster's choice for users who tune nothing
        keys = range(runs)
        swept = sweep(game, [eta0 * f for f in (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)], keys, **given)
        measured = [
            [run(BANCO, game, key, calibration="published", **given) for key in keys],
            [run(BANCO, game, key, theta=0.5, **given) for key in keys],
            [run(BANCO, game, key, **given) for key in keys],
            [run(AgnosticBANCO, game, key, **given) for key in keys],
            list(swept.excess[2]),
            list(swept.excess[swept.steps.index(swept.best)]),
        ]
        shown = [f"{value:.4g}" for value in printed]
        shown.insert(2, "")
        lines.append(
            [f"{dim}, {rows:,}, {epsilon:g}, {norm:g}", f"{game.null:.4g}"]
            + [f"{spread(found)} ({old})" if old else spread(found) for found, old in zip(measured, shown, strict=True)]
        )
        say(*lines[-1])
    return lines


def of_setting(randomizer: str, dim: int, epsilon: float, runs: int, n_rows: int) -> dict[str, list[list[float]]]:
    """Return the excess risk by learner, norm and run, in units of the zero model's risk.

    Descent on absolute losses is scale-free: multiplying w* and the step by a number multiplies all models by it. So
    one sweep, at norm 1, serves for all norms: the best step for norm 1 is 100 times the best for norm 0.01.
    """
    given: dict[str, Any] = {"epsilon": epsilon, "randomizer": randomizer}
    keys = range(runs)
    unit = Regression(dim, n_rows, 1.0)
    best = sweep(unit, half_decades(unit.eta0(**given), 2, 4), range(1000, 1003), **given).best
    by_factor = {f: [descend(unit, key, best * f, **given) / unit.null for key in keys] for f in FACTORS}
    found = {
        LEARNERS[0]: [by_factor[1.0]] * len(NORMS),
        LEARNERS[1]: [by_factor[1.0 / norm] for norm in NORMS],
    }
    learners: dict[str, type[Any]] = {"BANCO": BANCO}
    if randomizer == "l2laplace":
        learners["AgnosticBANCO"] = AgnosticBANCO
    for name, kind in learners.items():
        games = [Regression(dim, n_rows, norm) for norm in NORMS]
        found[name] = [[run(kind, game, key, **given) / game.null for key in keys] for game in games]
    return found


def draw(lines: Sequence[Sequence[str]], page: Path | None) -> None:
    """Draw the means of the table: a panel for each dimension and budget, the randomizers by their dashes."""
    dims, epsilons = (list(dict.fromkeys(line[column] for line in lines)) for column in (1, 2))
    figure = Figure(figsize=(11, 2.8 * len(dims)), layout="constrained")
    axes = figure.subplots(len(dims), len(epsilons), squeeze=False, sharex=True, sharey=True)
    for randomizer, dim, epsilon, name, *cells in lines:
        axes[dims.index(dim)][epsilons.index(epsilon)].plot(
            NORMS, [figures(cell)[0] for cell in cells], linestyle="-" if randomizer == "privunit" else "--",
            linewidth=1.2, label=f"{name}, {randomizer}", **LOOKS[LEARNERS.index(name)],
        )  # fmt: skip
    for dim, row in zip(dims, axes, strict=True):
        for epsilon, axis in zip(epsilons, row, strict=True):
            axis.set_title(f"d = {dim}, epsilon = {epsilon}", fontsize=9)
            axis.axhline(1.0, color="grey", linewidth=0.8, linestyle=":")
            axis.set_xscale("log")
            axis.set_yscale("log")
            axis.set_ylim(4e-4, 30)
            axis.tick_params(labelsize=8)
    for axis in axes[-1]:
        axis.set_xlabel("norm of the best model", fontsize=9)
    figure.supylabel("excess risk, the model of zeros = 1", fontsize=9)
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=8)
    picture(figure, "betting.svg", page)


def main() -> None:
    given = arguments(__doc__, runs=20, page="local.md", draws=True)
    if given.draw:
        draw(tables("betting", given.page)[1], given.page)
        return
    first = reproduced(given.runs, given.quick)
    dims, epsilons = (DIMS[:1], EPSILONS[1:2]) if given.quick else (DIMS, EPSILONS)
    lines = []
    for randomizer in RANDOMIZERS:
        for dim in dims:
            for epsilon in epsilons:
                n_rows = 300 if given.quick else FEWER.get((randomizer, dim, epsilon), ROWS)
                found = of_setting(randomizer, dim, epsilon, given.runs, n_rows)
                for name, cells in found.items():
                    lines.append([randomizer, str(dim), f"{epsilon:g}", name, *map(spread, cells)])
                    say(*lines[-1])
    draw(lines, given.page)
    printed = ["d, T, epsilon, norm", "model 0", "BANCO, published", "tight, theta 1/2", "tight, theta 1/4",
               "AgnosticBANCO", "LDPSGD, eta0", "LDPSGD, best of 6"]  # fmt: skip
    lines = [
        "Excess risk; in parentheses what the specification prints:", "",
        *table(printed, first), "",
        f"Excess risk in units of the model of zeros', {ROWS:,} rows "
        f"({', '.join(f'{n:,} for {a}, d = {b}, epsilon = {c:g}' for (a, b, c), n in FEWER.items())}):", "",
        *table(["randomizer", "d", "epsilon", "learner", *(f"norm {norm:g}" for norm in NORMS)], lines),
    ]  # fmt: skip
    write("betting", lines, given.page)


if __name__ == "__main__":
    main()
