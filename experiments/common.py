"""What the experiments share: their command line, released models row by row, figures with deviations, the page.

Every experiment is a script of this folder. It measures on public or synthetic data with noise of fixed keys, so that
the figures are the same every time. It prints its table; with ``--write`` it puts the table between the two comments
that name it, in ``docs/experiments.md``, ``docs/local.md``, ``docs/offline.md`` or ``docs/network.md``.
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
from matplotlib.figure import Figure
from numpy.typing import NDArray

from privol.errors import PrivacyWarning
from privol.reproduce.regret import Ridge, released_models
from privol.reproduce.sets import path_of
from privol.reproduce.verdicts import shown

__all__ = [
    "FloatArray", "Ridge", "arguments", "picture", "released_models", "say", "shown", "table", "write",
]  # fmt: skip

FloatArray = NDArray[np.float64]
DOCS = Path(__file__).parent.parent / "docs"


def arguments(
    description: str | None,
    *,
    folder: str | None = None,
    files: Sequence[str] = (),
    embedded: bool = False,
    runs: int,
    page: str = "experiments.md",
) -> argparse.Namespace:
    """Parse the command line of an experiment; refuse what lacks its data before anything is measured or written.

    Parameters
    ----------
    description : str or None
        The script's docstring.
    folder : str, optional
        What the folder of data holds, for experiments that read one and look for its files themselves.
    files : sequence of str
        Names of the files that the folder holds, perhaps compressed. Sets whose files are missing are left out of what
        is shown; a page is written from all of them or not at all, but by a sample.
    embedded : bool, default=False
        Whether there are rows to show without any file.
    runs : int
        Repetitions by default.
    page : str, default="experiments.md"
        Of the documentation, where the experiment has its place.
    """
    parser = argparse.ArgumentParser(description=(description or "").split("\n")[0])
    if files or folder is not None:
        parser.add_argument("folder", type=Path, help=folder or ", ".join(files))
    parser.add_argument("--quick", action="store_true", help="a small sample: does it work?")
    target = parser.add_mutually_exclusive_group()
    target.add_argument("--write", action="store_true", help=f"write into docs/{page}, figures into docs/img")
    target.add_argument("--page", type=Path, help="write into this page, figures into img beside it")
    parser.add_argument("--runs", type=int, help=f"repetitions with noise of their own (default: {runs})")
    given = parser.parse_args()
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
    warnings.simplefilter("ignore", PrivacyWarning)  # fixed keys: said on the page
    return given


def say(*words: object) -> None:
    """Tell whoever waits how far it has come."""
    print(f"[{time.process_time():7.1f} s]", *words, file=sys.stderr, flush=True)


def write(name: str, lines: Sequence[str], page: Path | None) -> None:
    """Put an experiment's text into its place on the page; no page: show it."""
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


def picture(figure: Figure, name: str, page: Path | None) -> None:
    """Save a figure in ``img`` beside the page; no page: draw it and throw it away."""
    kind = name.rpartition(".")[2]
    words: dict[str, Any] = {"metadata": {"Date": None}} if kind == "svg" else {"dpi": 110}
    target: io.BytesIO | Path = io.BytesIO()
    if page is not None:
        target = page.parent / "img" / name
        target.parent.mkdir(exist_ok=True)
    with matplotlib.rc_context({"svg.hashsalt": name}):  # the same figures, the same file
        figure.savefig(target, format=kind, **words)
