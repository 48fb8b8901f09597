"""Online linear regression on synthetic rows: average regret of follow-the-leader and of PQFTL with each design.

    python experiments/linear_regression.py [--quick] [--runs 4]

The synthetic experiment of Jain, Kothari and Thakurta (2012, Fig. 2a): d = 10, T = 100,000, l2 = 1, noise 0.01, a model
after every row. Then the specification's measurements of post-processing (``noise_shift``), repeated. Six minutes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from common import LOOKS, Ridge, arguments, picture, say, shown, table, write
from matplotlib.figure import Figure

from privol.reproduce.jain2012 import EPSILONS, ROWS, SCALINGS, Scaling, released

DESIGNS = ("tree", "honaker", "smooth", "sqrt", "blt", "independent")

# The specification's results for post-processing by epsilon and shift: 20,000 rows scaled to norm 1, l2 = 0.001, BLT.
SHIFTS = {
    (1.0, 0.0): 0.678, (1.0, 1.0): 0.0124, (1.0, 2.0): 0.0056, (1.0, 4.0): 0.0074,
    (10.0, 0.0): 0.074, (10.0, 1.0): 0.0024, (10.0, 2.0): 0.0010, (10.0, 4.0): 0.0017,
}  # fmt: skip


def by_design(scaling: Scaling, rows: Ridge, runs: int, axis: Any) -> list[str]:
    """Measure every design at every budget; draw the source's and the default."""
    points = np.unique(np.geomspace(100, len(rows.y), 60).astype(np.int64))
    exact = scaling.models(rows, math.inf, 0)
    axis.loglog(points, rows.regrets(exact, points), color="black", label="without noise")
    zero = np.zeros_like(rows.X)
    axis.loglog(points, rows.regrets(zero, points), color="grey", linestyle=":", label="always 0")
    cells = []
    for design in DESIGNS:
        line = [design]
        for epsilon, look in zip(EPSILONS, LOOKS, strict=False):
            found = []
            for key in range(1 if design == "sqrt" else runs):
                models = scaling.models(rows, epsilon, key, design=design)
                found.append(rows.regret(models))
                if key == 0 and design in ("tree", "blt"):
                    style = "--" if design == "tree" else "-"
                    label = f"{design}, epsilon = {epsilon:g}"
                    axis.loglog(points, rows.regrets(models, points), style, linewidth=1.2, markevery=8, label=label,
                                **look)  # fmt: skip
            line.append(shown(found))
            say(scaling.name, design, epsilon, line[-1])
        cells.append(line)
    head = ["design", *(f"epsilon = {epsilon:g}" for epsilon in EPSILONS)]
    cells.append(["follow-the-leader without noise", *[shown([rows.regret(exact)])] * len(EPSILONS)])
    cells.append(["always 0", *[shown([rows.regret(zero)])] * len(EPSILONS)])
    return [scaling.name, "", *table(head, cells), ""]


def by_shift(rows: int, runs: int) -> list[str]:
    """Measure post-processing as in the specification: the same rows, scaled by the longest of them."""
    drawn = Ridge.synthetic(rows, seed=3)
    size = max(float(np.max(np.linalg.norm(drawn.X, axis=1))), float(np.max(np.abs(drawn.y))))
    game = Ridge(drawn.X / size, drawn.y / size, 0.001)
    cells = []
    for (epsilon, shift), printed in SHIFTS.items():
        models = (released(game, epsilon, key, l2=game.l2, noise_shift=shift) for key in range(runs))
        cells.append([f"{epsilon:g}", f"{shift:g}", f"{printed:g}", shown([game.regret(m) for m in models])])
        say("shift", *cells[-1])
    zero = shown([game.regret(np.zeros_like(game.X))])
    return [
        f"Post-processing; the regret of always 0 is {zero}:",
        "",
        *table(["epsilon", "noise_shift", "printed", "measured"], cells),
    ]


def main() -> None:
    given = arguments(__doc__, runs=4)
    figure = Figure(figsize=(11, 5), layout="constrained")
    lines = []
    for scaling, axis in zip(SCALINGS, figure.subplots(1, 2), strict=True):
        lines += by_design(scaling, scaling.rows(1_000 if given.quick else ROWS), given.runs, axis)
        axis.set_title(scaling.name.rstrip(":"), fontsize=10)
        axis.set_xlabel("rows")
        axis.grid(alpha=0.2)
    figure.axes[0].set_ylabel("average regret so far (not private)")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=8)
    lines += by_shift(300 if given.quick else 20_000, given.runs)
    picture(figure, "linear_regression.png", given.page)
    write("linear_regression", lines, given.page)


if __name__ == "__main__":
    main()
