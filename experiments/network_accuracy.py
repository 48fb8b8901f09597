"""Held-out accuracy of nodes that learn together: by nodes, epsilon and batch size; sparse models; averages.

    python experiments/network_accuracy.py FOLDER [--quick] [--runs 20]

FOLDER holds rcv1_subsets.binary.bz2 (svmlight text, in place of LIBSVM's rcv1_train.binary), covtype.data.gz,
adult.data.gz and adult.test.gz; sets with missing files are left out. The settings are those of table 3 and figures 5
and 6 (a) of Li et al. 2018, as far as the paper states them. A quarter of an hour.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from common import LOOKS, FloatArray, arguments, picture, say, shown, table, write
from matplotlib.figure import Figure
from scipy.stats import norm

from privol import SparseDOLA, topology
from privol.guarantees import gdp_mu
from privol.reproduce.li2018 import (
    CURVES,
    OF_TABLE_3,
    POINTS,
    PRINTED,
    accuracies,
    accuracy_along,
    graph_of,
    sparse,
)
from privol.reproduce.nodes import DELTA, FILES, NODES, RCV1, Rows, found_in, learner_of, rcv1
from privol.reproduce.sets import has

WORDS_RADIUS = 20.0  # as in experiments/offline.py
FEW = 5  # runs of batch 1 on 47,236 features
L1 = {"noise": (0.0, 1.0, 2.0, 3.0, None), "rda": (1e-4, 1e-3, 1e-2), "published": (1e-4, 1e-3, 1e-2)}
PLAIN_L1 = {"rda": (1e-5, 1e-4, 1e-3, 1e-2), "published": (1e-3, 1e-2, 0.1, 1.0)}
SPARSE_NODES = 4
EPOCH_BATCHES = (20, 100, 500)


def name_of(epsilon: float) -> str:
    return "none" if math.isinf(epsilon) else f"{epsilon:g}"


def limit(rows: Rows, epsilon: float) -> float:
    """Return the accuracy, in percent, that Algorithm 1's noise allows for any data, by a normal approximation.

    For a regularised run with steps ``1 / (lambda t)`` and an inactive projection, the noise of a margin has standard
    deviation ``sqrt(2) 2 sqrt(d) / epsilon / sqrt(n) / lambda``, and the margin is at most ``1 / lambda``.
    """
    if math.isinf(epsilon):
        return 100.0
    noise = math.sqrt(2.0) * 2.0 * math.sqrt(rows.X.shape[1]) / epsilon / math.sqrt(len(rows.y))
    return 100 * float(norm.cdf(1.0 / noise))


def rule(features: int, epsilon: float, most: int) -> int:
    """Return the batch size with the least bound of the regret per row: ``2 sqrt(features) / mu`` for Gaussian noise.

    That is the norm of the noise of one row's gradient over its bound. The batch has at most the rows of a node.
    """
    return max(1, min(most, math.ceil(2.0 * math.sqrt(features) / gdp_mu(epsilon, DELTA))))


def table_3(rows: Rows, runs: int) -> list[str]:
    """Nodes by epsilon."""
    lines = []
    few = min(runs, FEW)
    for (nodes, epsilon), printed in PRINTED.items():
        words: dict[str, Any] = {"topology": graph_of(nodes), "epsilon": epsilon}
        whole = -(-len(rows.y) // nodes)  # one round
        once = 1 if math.isinf(epsilon) else few
        often = 1 if math.isinf(epsilon) else runs
        batch = 1 if math.isinf(epsilon) else rule(rows.X.shape[1], epsilon, whole)
        ball = {**words, "radius": WORDS_RADIUS}
        cells = [
            accuracies(rows, once, **words, **OF_TABLE_3),
            accuracies(rows, often, **words, **{**OF_TABLE_3, "batch": whole}),
            accuracies(rows, once, **ball),
            accuracies(rows, often, **ball, batch=batch),
            accuracies(rows, often, **ball, batch=whole),
        ]
        lines.append([name_of(epsilon), str(nodes), f"{printed:.2f}", f"{limit(rows, epsilon):.2f}",
                      *map(shown, cells[:4]), f"{batch:,}", shown(cells[4]), f"{whole:,}"])  # fmt: skip
        say(*lines[-1])
    head = ["epsilon", "nodes", "printed", "at most", "Algorithm 1", "Algorithm 4, one round", "Gaussian, batch 1",
            "Gaussian, batch by the rule", "batch", "Gaussian, one round", "batch"]  # fmt: skip
    return table(head, lines)


def thresholds(rows: Rows, runs: int, axis: Any) -> list[str]:
    """Figure 5: accuracy by the share of zeros, with and without noise."""
    lines, looks = [], iter(LOOKS)
    for density in topology.PRESETS:
        graph = topology.preset(density, NODES)
        for threshold, values in PLAIN_L1.items():
            if threshold == "published" and density != "medium":
                continue
            found = [sparse(rows, 0, epsilon=math.inf, topology=graph, threshold=threshold, l1=l1) for l1 in values]
            scores, zeros = [rows.accuracy(learner.coef_) for learner in found], [x.sparsity_ for x in found]
            # the graphs hardly differ: hollow markers, the first ones larger, leave all in sight
            look = {**next(looks), "markersize": 9 - 2 * len(axis.lines), "markerfacecolor": "none"}
            axis.plot(zeros, scores, linewidth=1.0, label=f"no noise, {density}, {threshold}", **look)
            for l1, score, zero in zip(values, scores, zeros, strict=True):
                lines.append(["none", f"{NODES}, {density}", "1", threshold, f"{l1:g}", f"{score:.2f}", f"{zero:.4f}"])
                say(*lines[-1])
    batch = -(-len(rows.y) // (SPARSE_NODES * 4))
    words: dict[str, Any] = {"topology": graph_of(SPARSE_NODES), "batch": batch}
    of_threshold = dict(zip(L1, looks, strict=False))
    for epsilon in (1.0, 10.0):
        for threshold, values_ in L1.items():
            means = []
            for l1 in values_:
                runs_ = [sparse(rows, key, epsilon=epsilon, threshold=threshold, l1=l1, **words) for key in range(runs)]
                scores, zeros = [rows.accuracy(learner.coef_) for learner in runs_], [x.sparsity_ for x in runs_]
                means.append((np.mean(zeros), np.mean(scores)))
                lines.append([f"{epsilon:g}", f"{SPARSE_NODES}, complete", str(batch), threshold,
                              "default" if l1 is None else f"{l1:g}", shown(scores), shown(zeros)])  # fmt: skip
                say(*lines[-1])
            axis.plot(*zip(*means, strict=True), "--" if epsilon == 1.0 else ":", linewidth=1.2,
                      label=f"epsilon = {epsilon:g}, {threshold}", **of_threshold[threshold])  # fmt: skip
    axis.set_xlabel("share of coordinates that are 0")
    axis.set_title(f"sparsity: {rows.name}", fontsize=9)
    head = ["epsilon", "nodes", "batch", "threshold", "l1", "accuracy", "zeros"]
    return [*table(head, lines), "", zeros_of_a_round(rows)]


def zeros_of_a_round(rows: Rows) -> str:
    """Return the share of coordinates zeroed after one row of one node, as published, and the expected one."""
    learner = SparseDOLA(
        loss="hinge", fit_intercept=False, randomizer="laplace", epsilon=1.0, threshold="published", l1=1.0, nodes=1,
        step_size=0.5, horizon=len(rows.y), random_state=0,
    )  # fmt: skip
    learner.partial_fit(rows.X[:1], rows.y[:1], classes=[0, 1])
    n = rows.X.shape[1]
    # the threshold belongs to the second round, the noise to the first
    expected = -math.expm1(-1.0 / math.sqrt(2.0) / (2.0 * math.sqrt(n)))
    return (
        f"After the first row of one node at epsilon = 1, rho = l1 = 1, Laplace noise and the published threshold: "
        f"{100 * learner.sparsity_:.3f} % zeros; expected of noise alone {100 * expected:.3f} %."
    )


def conversion(rows: Rows, runs: int, axis: Any) -> list[str]:
    """Figure 6 (a): the average model, online to batch."""
    lines = []
    n = len(rows.y)
    for style, batch in (("--", 1), ("-", 100)):
        round_ = NODES * batch
        counts = sorted({min(n, round_ * math.ceil(x / round_)) for x in np.geomspace(round_, n, POINTS)})
        for look, epsilon in zip(LOOKS, CURVES, strict=False):
            words = {"epsilon": epsilon, "batch": batch}
            keys = range(1 if math.isinf(epsilon) else runs)
            found = np.array([accuracy_along(rows, learner_of(key, **words), counts) for key in keys])
            ends: FloatArray = found[:, :, -1]
            lines.append([rows.name, str(batch), name_of(epsilon), shown(list(ends[:, 0])), shown(list(ends[:, 1]))])
            say(*lines[-1])
            label = f"{'no noise' if math.isinf(epsilon) else f'epsilon = {epsilon:g}'}, batch {batch}"
            axis.plot(counts, found[:, 0].mean(axis=0), style, linewidth=1.2, label=label, **look)
    axis.set_xscale("log")
    axis.set_xlabel("rows")
    axis.set_title(f"average model: {rows.name}", fontsize=9)
    return lines


def epochs(rows: Rows, runs: int) -> list[str]:
    """Tabulate several passes over the rows, by epsilon; every batch size gives whole rounds."""
    batches = [batch for batch in EPOCH_BATCHES if NODES * batch <= len(rows.y)] or [1]
    n = len(rows.y) // (NODES * batches[-1]) * NODES * batches[-1]
    part = Rows(rows.name, rows.X[:n], rows.y[:n], rows.X_test, rows.y_test)
    lines = []
    for batch in batches:
        for uses in (1, 4, 16):
            cells = [accuracies(part, runs, epsilon=epsilon, batch=batch, epochs=uses) for epsilon in CURVES[:0:-1]]
            lines.append([rows.name, f"{n:,}", str(batch), str(uses), *map(shown, cells)])
            say(*lines[-1])
    return lines


def main() -> None:
    given = arguments(__doc__, files=[RCV1, *FILES[1:]], runs=20, page="network.md")
    folder: Path = given.folder
    most = 640 if given.quick else None
    sets = [rows for rows in found_in(folder, most) if len(rows.y_test)]
    figure = Figure(figsize=(4.6 * (len(sets) + 1), 5.2), layout="constrained")
    panels = figure.subplots(1, len(sets) + 1, squeeze=False)[0]
    lines: list[str] = []
    if has(folder, RCV1):
        words = rcv1(folder, most)
        lines += [f"{words.name}: {len(words.y):,} rows learnt, {len(words.y_test):,} held out.", ""]
        lines += [*table_3(words, given.runs), "", "Sparsity:", "", *thresholds(words, given.runs, panels[0]), ""]
    else:
        say(f"rcv1 is left out: {folder} has no {RCV1}")
    parts = [line for rows, axis in zip(sets, panels[1:], strict=True) for line in conversion(rows, given.runs, axis)]
    lines += ["Averages:", "", *table(["set", "batch", "epsilon", "average model", "last model"], parts)]
    parts = [line for rows in sets if rows.name == "adult" for line in epochs(rows, given.runs)]
    if parts:
        head = ["set", "rows", "batch", "epochs", *(f"epsilon = {epsilon:g}" for epsilon in CURVES[:0:-1])]
        lines += ["", "Epochs:", "", *table(head, parts)]
    for axis in panels:
        axis.grid(alpha=0.2)
        if axis.lines:
            axis.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2)
    figure.supylabel("accuracy on rows held out, %", fontsize=9)
    picture(figure, "network_accuracy.svg", given.page)
    write("network_accuracy", lines, given.page)


if __name__ == "__main__":
    main()
