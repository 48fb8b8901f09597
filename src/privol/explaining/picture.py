"""Pictures of shapes: a band around each line, distinguished by style as well as by colour."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .explanation import Explanation, Shape

__all__ = ["draw"]

# Okabe and Ito's colours, which colour-blind readers can distinguish.
_COLOURS = "#0072B2", "#E69F00", "#CC79A7", "#56B4E9", "#000000", "#D55E00", "#009E73", "#F0E442"
_STYLES, _MARKS = ("-", "--", "-.", ":"), "osD^v*Xp"
_MOST_LABELS, _LONGEST, _ACROSS = 9, 18, 3


def draw(found: Explanation, shapes: Sequence[Shape], *, summary: bool) -> Any:
    """Return a figure of shapes; ``summary``: with the importance of all columns before them."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels = len(shapes) + summary
    across = min(_ACROSS, panels)
    down = math.ceil(panels / across)
    figure = Figure(figsize=(4.2 * across, 2.9 * down + 0.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = list(figure.subplots(down, across, squeeze=False).flat)
    for axis in axes[panels:]:
        axis.set_visible(False)
    if summary:
        _importance(axes[0], found)
    lines: list[Any] = []
    for axis, shape in zip(axes[summary:], shapes, strict=False):
        lines = (_bars if shape.places is None else _curve)(axis, found, shape)
        axis.set_title(_cut(shape.name, 40), fontsize=9)
        axis.tick_params(labelsize=7)
        axis.grid(alpha=0.2)
    if len(found.scores) > 1 and lines:
        figure.legend(lines, [_cut(score, 24) for score in found.scores], loc="outside right upper", fontsize=8)
    band = (
        f"{100 * found.coverage:g} % bands of the noise of privacy" if found.kind in ("exact", "bound") else "no band"
    )
    figure.suptitle(f"contribution to the score, {found.unit}; {band}", fontsize=9)
    return figure


def _importance(axis: Any, found: Explanation) -> None:
    records = found.importance[: 2 * _MOST_LABELS]
    places = np.arange(len(records))
    heights = [record["importance"] for record in records]
    axis.barh(places, heights, color=[_faint(record) for record in records], height=0.7)
    for place, record in zip(places, records, strict=True):
        if record["noise"] is not None:
            axis.plot([record["noise"]] * 2, [place - 0.45, place + 0.45], color="black", linewidth=1.5)
    axis.set_yticks(places, [_cut(record["column"], _LONGEST) for record in records])
    axis.invert_yaxis()
    axis.tick_params(labelsize=7)
    axis.set_title("importance (black line: of noise; pale: within it)", fontsize=8)


def _faint(record: Any) -> str:
    return "#BBBBBB" if record["within_noise"] else _COLOURS[0]


def _curve(axis: Any, found: Explanation, shape: Shape) -> list[Any]:
    assert shape.places is not None
    inside = ~np.isnan(shape.places)
    x: Any = shape.places[inside]
    if shape.kind == "time":
        x = x.astype("datetime64[s]")
    drawn = []
    for k in range(len(found.scores)):
        colour, style = _COLOURS[k % len(_COLOURS)], _STYLES[k % len(_STYLES)]
        y = shape.contribution[k]
        (line,) = axis.plot(x, y[inside], color=colour, linestyle=style, linewidth=1.6)
        drawn.append(line)
        half = np.zeros(len(y)) if shape.std is None else found.width * shape.std[k]
        axis.fill_between(x, (y - half)[inside], (y + half)[inside], color=colour, alpha=0.2, linewidth=0)
        # next to the axis, one after another
        words: dict[str, Any] = {"transform": axis.get_yaxis_transform(), "clip_on": False}
        for i in np.flatnonzero(~inside):
            axis.plot([1.03 + 0.025 * k], [y[i]], _MARKS[k % 8], color=colour, markersize=3, **words)
            axis.plot([1.03 + 0.025 * k] * 2, [y[i] - half[i], y[i] + half[i]], color=colour, linewidth=1.0, **words)
    if not inside.all():
        axis.annotate("missing", (1.02, 1.01), xycoords="axes fraction", fontsize=6, annotation_clip=False)
    axis.axhline(0.0, color="grey", linewidth=0.7)
    _ticks(axis, shape)
    return drawn


def _ticks(axis: Any, shape: Shape) -> None:
    from matplotlib import dates, ticker

    if shape.kind == "time":
        kinds: Any = dates  # without type annotations
        locator = kinds.AutoDateLocator(maxticks=5)
        axis.xaxis.set_major_locator(locator)
        axis.xaxis.set_major_formatter(kinds.ConciseDateFormatter(locator))
    elif shape.kind == "cycle":
        assert shape.places is not None
        step = max(1, len(shape.labels) // 6)
        axis.set_xticks(shape.places[::step], list(shape.labels[::step]))
    else:
        axis.xaxis.set_major_locator(ticker.MaxNLocator(5))


def _bars(axis: Any, found: Explanation, shape: Shape) -> list[Any]:
    size = np.abs(shape.contribution).max(axis=0)
    shown = np.argsort(-size, kind="stable")[:_MOST_LABELS]
    drawn = []
    for k in range(len(found.scores)):
        colour = _COLOURS[k % len(_COLOURS)]
        places = np.arange(len(shown)) + 0.6 * ((k + 0.5) / len(found.scores) - 0.5)
        half = None if shape.std is None else found.width * shape.std[k][shown]
        drawn.append(
            axis.errorbar(
                shape.contribution[k][shown], places, xerr=half, fmt=_MARKS[k % 8], color=colour, markersize=4
            )
        )
    axis.axvline(0.0, color="grey", linewidth=0.7)
    axis.set_yticks(np.arange(len(shown)), [_cut(shape.labels[i], _LONGEST) for i in shown])
    axis.invert_yaxis()
    if len(shown) < len(shape.labels):
        axis.set_xlabel(f"the {len(shown)} farthest from 0 of {len(shape.labels)}", fontsize=7)
    return drawn


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."
