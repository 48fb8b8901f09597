"""The progress bar: rows, rows per second, time left, budget spent; on stderr, for people only."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

__all__ = ["counting", "fitting", "watched"]

_EVERY = 0.1  # seconds


@contextmanager
def counting(source: str, *, wanted: bool) -> Iterator[None]:
    """Say that the rows are being counted, which takes as long as decompressing them, if stderr is a terminal."""
    with _saying(f"counting the rows of {source} (--horizon N does without)", wanted):
        yield


@contextmanager
def fitting(source: str, *, wanted: bool) -> Iterator[None]:
    """Say that all rows are read and fitted, if stderr is a terminal."""
    with _saying(f"reading all rows of {source}, and fitting them", wanted):
        yield


@contextmanager
def _saying(words: str, wanted: bool) -> Iterator[None]:
    if not wanted or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status(escape(words)):
        yield


@contextmanager
def watched(
    horizon: int | None, delta: float, *, counted: bool, wanted: bool
) -> Iterator[tuple[Callable[[Any, Any], None], Callable[[str], None]]]:
    """Give two callbacks, for ``fit_stream`` and for what follows, that draw a bar if stderr is a terminal.

    The bar ends at the horizon; where the rows were not ``counted``, they are shown as "up to" so many, and the time
    left is the longest there can be. None: rows of which nobody knows how many there are.
    """
    if not wanted or not sys.stderr.isatty():
        yield (lambda learner, stream: None), (lambda stage: None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    from ..guarantees import format_up, gdp_epsilon
    from ..learners.views import run_of

    most = "" if horizon is None else f" of {'' if counted else 'up to '}{horizon:,}"
    start = last = time.monotonic()
    # narrow enough for 80 columns
    columns = (BarColumn(bar_width=10), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(f"0{most} rows", total=horizon)

        def tick(learner: Any, stream: Any) -> None:
            nonlocal last
            run, now = run_of(learner), time.monotonic()
            rows = 0 if run is None else run.n_rows  # also of a run that is kept now and then only
            if now - last < _EVERY:
                return
            last = now
            mu, rate = learner.ledger_.spent.mu, rows / (now - start)
            spent = "no guarantee" if math.isinf(mu) else f"epsilon {format_up(gdp_epsilon(mu, delta), 3)}"
            left = "" if horizon is None else f"{timedelta(seconds=math.ceil((horizon - rows) / rate))} left, "
            said = f"{rows:,}{most} rows, {rate:,.0f}/s, {left}{spent}"
            bar.update(task, completed=rows, description=said)

        def stage(words: str) -> None:
            bar.update(task, description=f"comparing: {words}", completed=horizon)

        yield tick, stage
