"""Regret of nodes that learn together: by privacy, noise, batch size, topology and data set; distance of the nodes.

    python experiments/network.py FOLDER [--quick] [--runs 20]

FOLDER holds diabetic_data.csv.gz, covtype.data.gz, adult.data.gz and adult.test.gz as UCI has published them; sets with
missing files are left out. The settings are those of figures 3, 4 and 6 (b, c) of Li et al. 2018, as far as the paper
states them. Ten minutes.
"""

from __future__ import annotations

import math
import statistics
from typing import Any

import numpy as np
from common import LOOKS, FloatArray, arguments, picture, say, shown, table, write
from matplotlib.figure import Figure

from privol import topology as graphs
from privol.reproduce.li2018 import (
    ALGORITHM_1,
    ALGORITHM_2,
    BATCHES,
    EPSILONS,
    GRAPHS,
    INVERSE,
    name_of,
    proved,
    roughness,
)
from privol.reproduce.nodes import BALL, FILES, RADIUS, Along, Rows, along, found_in, learner_of

SHORT = (0.1, 1.0, 10.0)
STEPS: dict[str, dict[str, Any]] = {
    **{f"1 / ({l2:g} t)": {"l2": l2} for l2 in (0.01, 0.03, 0.1, 0.3, 1.0)},
    **{f"root, radius {radius:g}": {"radius": radius} for radius in (1.0, 3.0, 10.0, 30.0)},
}
ROOT: dict[str, Any] = {"radius": RADIUS}
NOISES: dict[str, dict[str, Any]] = {
    "laplace on the output, published (Algorithm 1)": ALGORITHM_1,
    "gaussian, published (Algorithm 2)": ALGORITHM_2,
    "laplace": {"randomizer": "laplace", **INVERSE},
    "l2laplace": {"randomizer": "l2laplace", **INVERSE},
    "privunit": {"randomizer": "privunit", **INVERSE},
    "gaussian": INVERSE,
    "gaussian, root steps": ROOT,
}


def by_steps(adult: Rows, runs: int) -> list[str]:
    """Tabulate step rules; the other tables use the rule chosen here."""
    lines = []
    for name, words in STEPS.items():
        cells = [adult.regrets(runs, epsilon=epsilon, **words) for epsilon in SHORT]
        cells.append(adult.regrets(1, epsilon=math.inf, **words))
        lines.append([name, *map(shown, cells), f"{statistics.mean(map(statistics.mean, cells)):.3f}"])
        say(*lines[-1])
    return table(["steps", *map(name_of, SHORT), "no noise", "mean"], lines)


def by_privacy(rows: Rows, runs: int, axes: list[Any]) -> list[str]:
    """Figures 3 (a) and (b)."""
    lines = []
    for name, words in NOISES.items():
        few = [epsilon for epsilon in EPSILONS if epsilon <= 1.0 or name != "privunit"]  # its rejections are slow
        cells = [shown(rows.regrets(runs, epsilon=epsilon, **words)) for epsilon in few]
        cells += ["too slow"] * (len(EPSILONS) - len(few))
        plain = rows.regrets(1, epsilon=math.inf, **words)
        lines.append([name, proved(rows, epsilon=1.0, **words), *cells, shown(plain)])
        say(*lines[-1])
    for axis, name, what in zip(axes, ("laplace on the output, published (Algorithm 1)", "gaussian"),
                                ("Algorithm 1", "Gaussian noise, tight"), strict=True):  # fmt: skip
        for number, epsilon in enumerate((*EPSILONS, math.inf)):
            counts, curve = rows.curve(1 if math.isinf(epsilon) else runs, epsilon=epsilon, **NOISES[name])
            axis.plot(counts, curve, label=name_of(epsilon), **look_of(number))
        axis.set_title(f"privacy: {what}, {rows.name}", fontsize=9)
    return table(["noise", "proved of 1", *map(name_of, EPSILONS), "no noise"], lines)


def by_batch(rows: Rows, runs: int, axis: Any) -> list[str]:
    """Figure 6 (b)."""
    lines = []
    for name in ("laplace on the output, published (Algorithm 1)", "gaussian", "gaussian, root steps"):
        for batch in BATCHES:
            words = {**NOISES[name], "batch": batch}
            cells = [rows.regrets(runs, epsilon=epsilon, **words) for epsilon in EPSILONS]
            plain = rows.regrets(1, epsilon=math.inf, **words)
            curves = [rows.regret(learner_of(key, epsilon=1.0, **words))[1][1] for key in range(runs)]
            rough = roughness(np.array(curves))
            lines.append([name, str(batch), *map(shown, cells), shown(plain), f"{rough:.2g}"])
            say(*lines[-1])
            if name == "gaussian, root steps":
                for epsilon, style in ((0.1, "--"), (1.0, "-")):
                    counts, curve = rows.curve(1, epsilon=epsilon, **words)
                    label = f"batch {batch}, {name_of(epsilon)}"
                    axis.plot(counts, curve, style, label=label, **look_of(BATCHES.index(batch)))
    axis.set_title(f"batches: Gaussian noise, root steps, {rows.name}", fontsize=9)
    return table(["noise", "batch", *map(name_of, EPSILONS), "no noise", "roughness"], lines)


def by_topology(rows: Rows, runs: int, regret: Any, distance: Any) -> list[str]:
    """Figures 3 (c), 3 (d) and 6 (c)."""
    lines = []
    for noise in ("laplace on the output, published (Algorithm 1)", "gaussian"):
        for number, (name, graph) in enumerate(GRAPHS.items()):
            words = {"topology": graph(), "epsilon": 1.0, **NOISES[noise]}
            found = [along(learner_of(key, **words), rows) for key in range(runs)]
            own = [float(run.own[-1]) - rows.least for run in found]
            first = [float(run.first[-1]) - rows.least for run in found]
            apart = [round(float(run.distance[-1]), 9) for run in found]  # in a complete graph this is rounding
            peak = [round(float(run.distance.max()), 9) for run in found]
            speed = graphs.contraction(learner_of(0, **words).mixing(), 1)
            lines.append([noise, name, f"{speed:.4f}", *map(shown, (own, first, peak, apart))])
            say(*lines[-1])
            if noise == "gaussian":
                draw(regret, distance, name, look_of(number), found, rows.least)
        plain = along(learner_of(0, **{**NOISES[noise], "epsilon": math.inf}), rows)
    distance.plot(plain.rows, plain.distance, ":", color="black", label="medium, no noise")
    lines.append(["no noise", "medium (Topology 2)", "", f"{plain.own[-1] - rows.least:.4f}",
                  f"{plain.first[-1] - rows.least:.4f}", f"{plain.distance.max():.3g}",
                  f"{plain.distance[-1]:.3g}"])  # fmt: skip
    regret.set_title(f"topology: first node, epsilon = 1, {rows.name}", fontsize=9)
    distance.set_title("distance of nodes from their mean, epsilon = 1", fontsize=9)
    return table(["noise", "topology", "rho", "regret", "of the first node", "distance, at most", "at the end"], lines)


def look_of(number: int) -> dict[str, Any]:
    """Return a curve's look: a colour, and a marker in ten places, which begin further on for each curve."""
    return {**LOOKS[number], "markevery": (0.02 * number + 0.02, 0.1), "linewidth": 1.2}


def draw(regret: Any, distance: Any, name: str, look: dict[str, Any], found: list[Along], least: float) -> None:
    def mean(curves: list[FloatArray]) -> FloatArray:
        return np.asarray(np.mean(curves, axis=0))

    regret.plot(found[0].rows, mean([run.first for run in found]) - least, label=name, **look)
    if max(run.distance.max() for run in found) > 1e-6:  # not in a complete graph
        distance.plot(found[0].rows, mean([run.distance for run in found]), label=name, **look)


def by_set(sets: list[Rows], runs: int, axis: Any) -> list[str]:
    """Figure 4."""
    lines = []
    for rows in sets:
        for name in ("laplace on the output, published (Algorithm 1)", "gaussian", "gaussian, root steps"):
            words = NOISES[name]
            cells = [rows.regrets(runs, epsilon=epsilon, **words) for epsilon in SHORT]
            plain = rows.regrets(1, epsilon=math.inf, **words)
            lines.append([rows.name, f"{len(rows.y):,}", str(rows.X.shape[1]), f"{rows.least:.3f}",
                          f"{1 - rows.least:.3f}", name, *map(shown, cells), shown(plain)])  # fmt: skip
            say(*lines[-1])
            if name == "gaussian":
                counts, curve = rows.curve(runs, epsilon=1.0, **words)
                look = look_of(sets.index(rows))
                axis.plot(counts / counts[-1], curve, label=f"{rows.name}, {len(rows.y):,} rows", **look)
    axis.set_title("data set: Gaussian noise, epsilon = 1", fontsize=9)
    head = ["set", "rows", "features", "least loss", "regret of zeros", "noise", *map(name_of, SHORT), "no noise"]
    return table(head, lines)


def main() -> None:
    given = arguments(__doc__, files=FILES, runs=20, page="network.md")
    sets = list(found_in(given.folder, 640 if given.quick else None))
    first, lines = sets[0], []  # the source's main data set, if it exists
    figure = Figure(figsize=(12.5, 9.4), layout="constrained")
    panels = figure.subplots(2, 3).ravel()
    for rows in sets:
        if rows.name == "adult":
            lines += ["Steps, on Adult:", "", *by_steps(rows, given.runs), ""]
    lines += [f"Privacy, on {first.name}:", "", *by_privacy(first, given.runs, panels[:2]), ""]
    lines += [f"Batches, on {first.name}:", "", *by_batch(first, given.runs, panels[4]), ""]
    lines += [f"Topology, on {first.name}, epsilon = 1:", "",
              *by_topology(first, given.runs, panels[2], panels[5]), ""]  # fmt: skip
    lines += ["Data sets:", "", *by_set(sets, given.runs, panels[3])]
    for axis in panels:
        axis.set_yscale("log")
        axis.grid(alpha=0.2)
        axis.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2)
        axis.set_xlabel("rows, thousands", fontsize=8)
        axis.tick_params(which="both", labelsize=7)
        axis.xaxis.set_major_formatter(lambda x, _: f"{x / 1000:g}")
    panels[3].set_xlabel("share of the rows", fontsize=8)
    panels[3].xaxis.set_major_formatter("{x:g}")
    figure.supylabel(f"regret a row, against the best model of norm {BALL:g}", fontsize=9)
    picture(figure, "network.svg", given.page)
    write("network", lines, given.page)


if __name__ == "__main__":
    main()
