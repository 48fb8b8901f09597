"""What the experiments share: the command line, released models row by row, numbers with deviations, the page.

Every experiment is a script in this folder. It measures on public or synthetic data with noise from fixed keys, so the
results are the same every time. It prints its table; with ``--write`` it puts the table between the two comments that
name it, in ``docs/experiments.md``, ``docs/local.md``, ``docs/offline.md`` or ``docs/network.md``. Where a picture
shows what is in the tables, ``--draw`` makes it again from the page, and nothing is measured.
"""

from __future__ import annotations

import argparse
import io
import re
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from privol.errors import PrivacyWarning
from privol.reproduce.regret import Ridge, released_models
from privol.reproduce.sets import path_of
from privol.reproduce.verdicts import shown

__all__ = [
    "LOOKS", "FloatArray", "Ridge", "arguments", "figures", "legend_below", "over_epsilon", "picture",
    "released_models", "say", "shown", "table", "tables", "write",
]  # fmt: skip

FloatArray = NDArray[np.float64]
DOCS = Path(__file__).parent.parent / "docs"

#: Series differ by their markers, not by colours alone (those of Okabe and Ito, which the colour-blind can tell apart).
LOOKS: tuple[dict[str, Any], ...] = tuple(
    {"color": colour, "marker": marker, "markersize": 4}
    for colour, marker in zip(
        ("#0072B2", "#E69F00", "#CC79A7", "#56B4E9", "#D55E00", "#009E73", "#7F7F7F", "#5B3A8E"),
        "osD^vP*X",
        strict=True,
    )
)


def arguments(
    description: str | None,
    *,
    folder: str | None = None,
    files: Sequence[str] = (),
    embedded: bool = False,
    runs: int,
    page: str = "experiments.md",
    draws: bool = False,
) -> argparse.Namespace:
    """Parse the command line of an experiment; missing data are refused before anything is measured or written.

    Parameters
    ----------
    description : str or None
        The script's docstring.
    folder : str, optional
        What the data folder holds, for experiments that look for its files themselves.
    files : sequence of str
        Names of the files in the folder, possibly compressed. Sets with missing files are left out of the output; a
        page is written only from all of them, except by a sample.
    embedded : bool, default=False
        Whether some rows are available without any file.
    runs : int
        Default number of repetitions.
    page : str, default="experiments.md"
        The page of the documentation with the experiment's results.
    draws : bool, default=False
        Whether the script can draw its picture from the tables of the page alone.
    """
    parser = argparse.ArgumentParser(description=(description or "").split("\n")[0])
    needs_folder = bool(files) or folder is not None
    if needs_folder:
        parser.add_argument("folder", type=Path, nargs="?" if draws else None, help=folder or ", ".join(files))
    parser.add_argument("--quick", action="store_true", help="a small sample: does it work?")
    target = parser.add_mutually_exclusive_group()
    target.add_argument("--write", action="store_true", help=f"write into docs/{page}, figures into docs/img")
    target.add_argument("--page", type=Path, help="write into this page, figures into img beside it")
    if draws:
        target.add_argument("--draw", action="store_true", help="draw the figure again from the page, measure nothing")
    parser.add_argument("--runs", type=int, help=f"repetitions with noise of their own (default: {runs})")
    given = parser.parse_args()
    if draws and given.draw:
        if given.quick:
            parser.error("a sample is not for the documentation: --quick or --draw")
        given.page = DOCS / page
        return given
    if needs_folder and given.folder is None:
        parser.error("the following arguments are required: folder")
    if given.quick and given.write:
        parser.error("a sample is not for the documentation: --quick or --write")
    missing = [name for name in files if path_of(given.folder, name) is None]
    writes = given.write or (given.page is not None and not given.quick)
    if missing and (writes or (len(missing) == len(files) and not embedded)):
        parser.error(f"{given.folder} has no {', '.join(missing)}")
    if given.runs is None:
        given.runs = 2 if given.quick else runs
    if given.write:
        given.page = DOCS / page
    warnings.simplefilter("ignore", PrivacyWarning)  # fixed keys: the page says so
    return given


def say(*words: object) -> None:
    """Show the progress."""
    print(f"[{time.process_time():7.1f} s]", *words, file=sys.stderr, flush=True)


def write(name: str, lines: Sequence[str], page: Path | None) -> None:
    """Put an experiment's text into its place on the page; without a page, print it."""
    if page is None:
        print("\n".join(lines))
        return
    text = page.read_text(encoding="utf-8")
    begin, end = f"<!-- {name}: experiments/{name}.py -->", f"<!-- end of {name} -->"
    parts = re.split(f"{re.escape(begin)}.*?{re.escape(end)}", text, flags=re.DOTALL)
    if len(parts) != 2:
        raise SystemExit(f"{page.name} has no place for {name!r}: {begin} ... {end}")
    page.write_text("\n".join([parts[0] + begin, "", *lines, "", end + parts[1]]), encoding="utf-8")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table in Markdown."""
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]


def tables(name: str, page: Path) -> list[list[list[str]]]:
    """Return what an experiment wrote into a page: its tables, as rows of cells, without their heads."""
    text = page.read_text(encoding="utf-8")
    found = re.search(f"<!-- {name}: experiments/{name}.py -->(.*?)<!-- end of {name} -->", text, re.DOTALL)
    if found is None:
        raise SystemExit(f"{page.name} has no results of {name!r}")
    parts: list[list[list[str]]] = [[]]
    for line in found[1].splitlines():
        if line.startswith("| "):
            parts[-1].append(line[2:].removesuffix(" |").split(" | "))
        elif parts[-1]:
            parts.append([])
    return [part[2:] for part in parts if part]


def figures(cell: str) -> tuple[float, float]:
    """Return mean and deviation in a cell such as ``0.012 ± 0.003``; a single run has the deviation 0."""
    mean, _, deviation = cell.partition(" ± ")
    return float(mean), float(deviation or 0.0)


def over_epsilon(axis: Axes, title: str, epsilons: Sequence[float]) -> None:
    """Give a panel its title and an axis of budgets, on a logarithmic scale."""
    axis.set_xscale("log")
    axis.set_xticks(epsilons)
    axis.xaxis.set_minor_formatter("")
    axis.xaxis.set_major_formatter("{x:g}")
    axis.set_title(title, fontsize=10)
    axis.set_xlabel("epsilon")
    axis.grid(alpha=0.2)


def legend_below(figure: Figure) -> None:
    """Explain the first panel's lines, which all panels share, below the panels."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=8)


def picture(figure: Figure, name: str, page: Path | None) -> None:
    """Save a figure in ``img`` beside the page; without a page, draw it and discard it."""
    kind = name.rpartition(".")[2]
    words: dict[str, Any] = {"metadata": {"Date": None}} if kind == "svg" else {"dpi": 110}
    target: io.BytesIO | Path = io.BytesIO()
    if page is not None:
        target = page.parent / "img" / name
        target.parent.mkdir(exist_ok=True)
    with matplotlib.rc_context({"svg.hashsalt": name}):  # the same results give the same file
        figure.savefig(target, format=kind, **words)
