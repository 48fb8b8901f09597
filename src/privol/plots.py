"""Pictures of a run. Whatever they show about the rows' losses is not private, and they say so."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from .reproduce.verdicts import Panel

__all__ = ["plot_arena", "plot_comparison", "plot_panels", "plot_spending"]

#: Dashes distinguish the curves, and so do colours that colour-blind people can tell apart.
_LINES: tuple[tuple[str, str, str, Any], ...] = (
    ("run", "this run", "#D55E00", "-"),
    ("noiseless", "without noise, same releases", "#0072B2", (0, (6, 1.5))),
    ("noiseless_every_row", "without noise, released at every row", "#009E73", "-."),
)


def plot_comparison(record: Mapping[str, Any], *, title: str, releases: list[int]) -> bytes:
    """Draw progressive loss, accuracy and AUC (or absolute error) over the rows, beside the best fixed model.

    Parameters
    ----------
    record : mapping
        :meth:`privol.evaluate.Comparison.to_record`. Not private.
    title : str
    releases : list of int
        Rows to mark: where models were released. At most 50 are drawn.

    Returns
    -------
    bytes
        A PNG file. Drawn without a display.
    """
    panels = {"loss": "mean loss", "mean_absolute_error": "mean absolute error"}
    if record["classification"]:
        panels = {"loss": "mean loss", "accuracy": "accuracy", "auc": "area under the ROC curve"}
    panels = {name: label for name, label in panels.items() if name in record["best_fixed"]}
    figure = Figure(figsize=(5.5 * len(panels), 4.6), layout="constrained", dpi=110)
    canvas = FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(panels))
    for axis, (name, label) in zip(axes, panels.items(), strict=True):
        values: list[float] = []
        for key, legend, colour, style in _LINES:
            run = record[key]
            if run is None:
                continue
            rows = np.asarray(run["curve"]["row"])
            # None, while only rows of one class had come, becomes NaN: a gap in the line
            mean = np.asarray(run["curve"][name], dtype=np.float64)
            recent = _trailing(rows, np.asarray(run["curve"][f"recent_{name}"], dtype=np.float64))
            axis.plot(rows, recent, color=colour, alpha=0.3, linewidth=1)
            axis.plot(rows, mean, color=colour, linestyle=style, linewidth=2, label=legend)
            values += [*mean[len(mean) // 20 :], *recent[len(recent) // 20 :]]
            if key == "run":
                axis.plot(
                    rows[-1:],
                    [run["final_model"][name]],
                    "*",
                    color=colour,
                    markersize=14,
                    label="its last model, all rows",
                )
                values.append(run["final_model"][name])
        best = record["best_fixed"][name]
        axis.axhline(best, color="black", linestyle=(0, (2, 2)), linewidth=1.2, label="best fixed model in hindsight")
        values.append(best)
        for row in releases[:50]:
            axis.axvline(row, color="grey", linewidth=0.6, linestyle=":")
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
        if name == "loss":  # noise can make early losses huge: the rest is the interesting part
            high = min(high, best + 3 * max(record["run"]["progressive"]["loss"] - best, 0.1))
        margin = 0.05 * max(high - low, 1e-6)
        axis.set_ylim(low - margin, high + margin)
        axis.set_xlabel("rows")
        axis.set_ylabel(label)
        axis.grid(alpha=0.2)
    axes[0].legend(fontsize=8, loc="upper right")
    figure.suptitle(f"{title}\nprogressive, mean so far (thin: recent rows; dotted: releases)", fontsize=10)
    figure.text(0.995, 0.005, "NOT PRIVATE: do not publish", color="#c0392b", fontsize=8, ha="right", va="bottom")
    buffer = io.BytesIO()
    canvas.print_png(buffer)  # type: ignore[no-untyped-call]  # savefig would draw everything twice
    return buffer.getvalue()


def plot_spending(steps: Sequence[tuple[str, int, float]], *, delta: float) -> bytes:
    """Draw what runs had spent of a budget by the row where they were.

    Parameters
    ----------
    steps : sequence of (name, rows, epsilon)
        In the order of writing; a name is a line.
    delta : float

    Returns
    -------
    bytes
        A PNG file. Public. Drawn without a display.
    """
    figure = Figure(figsize=(7.0, 2.8), layout="constrained")
    FigureCanvasAgg(figure)
    axis = figure.subplots()
    for number, name in enumerate(dict.fromkeys(name for name, _, _ in steps)):
        rows, spent = zip(*((row, epsilon) for one, row, epsilon in steps if one == name), strict=True)
        axis.step(
            rows, spent, where="post", marker="o", markersize=4, linestyle=("-", "--", ":")[number % 3], label=name
        )
    axis.set_xlabel("rows")
    axis.set_ylabel(f"epsilon at delta {delta:.3g}")
    axis.set_ylim(bottom=0.0)
    axis.grid(alpha=0.2)
    axis.legend(fontsize=8)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()


def arena_figure(panels: Mapping[str, Mapping[str, Sequence[tuple[float, float]]]]) -> Figure:
    """Return the figure of :func:`plot_arena`, with its legend next to the panels."""
    places = sorted({epsilon for lines in panels.values() for line in lines.values() for epsilon, _ in line})
    # equally spaced, because infinity would have no place otherwise
    at = {epsilon: place for place, epsilon in enumerate(places)}
    names = dict.fromkeys(name for lines in panels.values() for name in lines)
    looks: dict[str, dict[str, Any]] = {}
    for number, name in enumerate(names):  # eight colours and seven markers: no two of 56 names look alike
        looks[name] = {"color": _COLOURS[number % 8], "marker": "osD^vPX"[number % 7], "markersize": 5}
        if number % 2:  # dashes and open markers above the others: an equal curve below them stays visible
            looks[name] |= {"linestyle": (0, (4, 3)), "markersize": 8, "markerfacecolor": "none", "zorder": 3}
    drawn: dict[str, Any] = {}
    figure = Figure(figsize=(5.0 * len(panels) + 2.0, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axis, (title, lines) in zip(axes, panels.items(), strict=True):
        for name, line in lines.items():
            shares = [100.0 * max(share, -0.25) for _, share in line]
            x = [at[epsilon] for epsilon, _ in line]
            (drawn[name],) = axis.plot(x, shares, label=name, **looks[name])
        axis.axhline(100.0, color="black", linestyle="--", linewidth=1.2)
        axis.axhline(0.0, color="grey", linewidth=0.8)
        axis.set_xticks(range(len(places)), [f"{epsilon:g}" for epsilon in places])
        axis.set_xlabel("epsilon")
        axis.set_title(title, fontsize=10)
        axis.grid(alpha=0.2)
    axes[0].set_ylabel("share kept (%), median over streams")
    if drawn:
        figure.legend([drawn[name] for name in names], list(names), loc="outside right upper", fontsize=8)
    figure.text(0.995, 0.005, "NOT PRIVATE: do not publish", color="#c0392b", fontsize=8, ha="right", va="bottom")
    return figure


def plot_arena(panels: Mapping[str, Mapping[str, Sequence[tuple[float, float]]]], *, kind: str = "png") -> bytes:
    """Draw what share of a reference without privacy learners keep, over epsilon.

    Parameters
    ----------
    panels : mapping of str to mapping of str to sequence of (epsilon, share)
        By the panel's title and the learner's name. An infinite epsilon is drawn at the right edge. Not private.
    kind : {"png", "svg"}

    Returns
    -------
    bytes
        A file of that kind, the same for the same figures. Drawn without a display.
    """
    buffer = io.BytesIO()
    words: dict[str, Any] = {"metadata": {"Date": None}} if kind == "svg" else {"dpi": 110}
    with matplotlib.rc_context({"svg.hashsalt": "arena"}):
        arena_figure(panels).savefig(buffer, format=kind, **words)
    return buffer.getvalue()


#: Colours that colour-blind people can tell apart (Okabe and Ito); every curve also has its own marker or dashes.
_COLOURS = "#0072B2", "#E69F00", "#CC79A7", "#56B4E9", "#D55E00", "#009E73", "#7F7F7F", "#5B3A8E"
_MARKERS = "osD^vP*h"
_DASHES = "--", "-.", ":", (0, (1, 3)), (0, (8, 3)), (0, (5, 1, 1, 1, 1, 1))
_ROOM = 45  # characters of a legend entry that fit side by side in half a figure


def panels_figure(panels: Sequence[Panel]) -> Figure:
    """Return the figure of :func:`plot_panels`, with two panels in a row and each legend below its panel."""
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    legend = max(len(panel.lines) for panel in panels)
    figure = Figure(figsize=(6.0 * columns, (3.8 + 0.12 * legend) * rows), layout="constrained")
    FigureCanvasAgg(figure)
    parts = figure.subfigures(rows, columns, squeeze=False).ravel()
    for part, panel in zip(parts, panels, strict=False):
        axis = part.subplots()
        axis.set_xscale("log" if panel.log_x else "linear")
        axis.set_yscale("log" if panel.log_y else "linear")
        counts = {"measured": 0, "bound": 0, "source": 0}
        for line in panel.lines:
            number = counts[line.kind]
            counts[line.kind] += 1
            words: dict[str, Any] = {"color": _COLOURS[number % len(_COLOURS)], "linewidth": 1.4}
            if line.kind == "measured":
                words |= {"marker": _MARKERS[number % len(_MARKERS)], "markersize": 4, "markevery": _every(line.x)}
                if number >= len(_COLOURS):  # colours and markers repeat, now hollow and dashed
                    words |= {"markerfacecolor": "white", "linestyle": _DASHES[number // len(_COLOURS) % len(_DASHES)]}
            elif line.kind == "bound":
                words |= {"color": "#555555", "linestyle": _DASHES[number % len(_DASHES)]}
            else:
                words |= {"color": "black", "marker": "x+1234"[number % 6], "markersize": 8, "linewidth": 0.8,
                          "linestyle": _DASHES[number % len(_DASHES)], "zorder": 5}  # fmt: skip
            x = line.x
            if panel.names:  # side by side and not joined: there is nothing between names
                x = tuple(place + 0.12 * (sum(counts.values()) - 1 - (len(panel.lines) - 1) / 2) for place in line.x)
                words["linestyle"] = "none"
            axis.errorbar(x, line.y, yerr=line.spread, capsize=3, label=line.label, **words)
        if panel.names:
            axis.set_xticks(range(len(panel.names)), panel.names)
            axis.set_xlim(-0.5, len(panel.names) - 0.5)
        axis.set_title(panel.title, fontsize=10)
        axis.set_xlabel(panel.x, fontsize=9)
        axis.set_ylabel(panel.y, fontsize=9)
        axis.grid(alpha=0.2)
        short = max((len(line.label) for line in panel.lines), default=0) <= _ROOM
        part.legend(loc="outside lower center", ncols=2 if short else 1, fontsize=8)
    return figure


def _every(x: Sequence[float]) -> int:
    return max(1, len(x) // 12)


def plot_panels(panels: Sequence[Panel]) -> bytes:
    """Draw what was measured of a paper's figure beside what the paper has, in black.

    Parameters
    ----------
    panels : sequence of Panel
        At least one. Not private.

    Returns
    -------
    bytes
        A PNG file, the same for the same figures. Drawn without a display.
    """
    buffer = io.BytesIO()
    panels_figure(panels).savefig(buffer, format="png", dpi=100)
    return buffer.getvalue()


def _trailing(rows: np.ndarray[Any, Any], recent: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Mean over the last twentieth of the points, weighted by their rows; NaN is ignored."""
    known = ~np.isnan(recent)
    width = np.where(known, np.diff(rows, prepend=0), 0).astype(np.float64)
    window = max(1, len(rows) // 20)
    all_sums, all_weights = np.cumsum(np.where(known, recent, 0.0) * width), np.cumsum(width)
    sums, weights = all_sums.copy(), all_weights.copy()
    sums[window:] -= all_sums[:-window]
    weights[window:] -= all_weights[:-window]
    return np.where(weights > 0.0, sums / np.maximum(weights, 1.0), np.nan)
