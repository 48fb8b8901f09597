"""Measuring a figure; its data sets are looked for before anything is measured."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path

from .. import __version__
from ..errors import InvalidParameter, PrivacyWarning, ScaledRowsWarning, StreamError
from .sets import WHERE, has
from .verdicts import Figure, Result, Setting

__all__ = ["missing_files", "reproduce", "where_to_get"]


def missing_files(figures: Iterable[Figure], data: Path | None) -> dict[str, list[str]]:
    """Return the missing data sets, each with the names of the figures that need it."""
    missing: dict[str, list[str]] = {}
    for figure in figures:
        for name in figure.files:
            if data is None or not has(data, name):
                missing.setdefault(name, []).append(figure.name)
    return missing


def where_to_get(missing: dict[str, list[str]], data: Path | None) -> str:
    """Return a message that says which data sets are missing, which figures need them, and where to get them."""
    place = "no folder of data sets is given" if data is None else f"{data} does not hold all data sets"
    said = [f"{name} (for {', '.join(figures)}): {WHERE[name]}" for name, figures in missing.items()]
    return f"{place}: nothing was run. " + "; ".join(said)


def reproduce(
    figure: Figure,
    *,
    data: Path | None = None,
    runs: int | None = None,
    quick: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Result:
    """Measure a figure of a paper and compare it with what the paper says.

    Parameters
    ----------
    figure : Figure
    data : Path, optional
        Folder of the data sets, as they were downloaded.
    runs : int, optional
        At least 2: repetitions with noise of their own.  Default: the figure's.
    quick : bool, default=False
        A small size in seconds, which needs no data set and is compared with nothing.
    say : callable
        Takes lines about the progress.

    Returns
    -------
    Result
        Not private.

    Raises
    ------
    StreamError
        If a data set is not there; nothing was run.
    """
    if runs is None:
        runs = 2 if quick else figure.runs
    if runs < 2:
        raise InvalidParameter(f"runs: {runs} is below 2, and one run has no deviation")
    missing = {} if quick else missing_files([figure], data)
    if missing:
        raise StreamError(where_to_get(missing, data))
    start = time.perf_counter()
    with warnings.catch_warnings():
        # public rows and the papers' own noise: the tables state this
        warnings.simplefilter("ignore", PrivacyWarning)
        warnings.simplefilter("ignore", ScaledRowsWarning)
        measured = figure.measure(Setting(runs, quick, data, say))
    if quick:
        measured = measured.of_small_size()
    return Result(figure, measured, runs, quick, time.perf_counter() - start, __version__)
