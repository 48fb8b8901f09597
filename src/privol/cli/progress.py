"""The progress of a run: rows, rows per second, time left, budget spent; on stderr."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import click

__all__ = ["counting", "fitting", "watched"]

_EVERY = 0.1  # seconds
_EVERY_OF_A_LOG = 60.0  # seconds, where stderr is no terminal


@contextmanager
def counting(source: str, *, wanted: bool) -> Iterator[None]:
    """Say on a terminal that the rows are being counted, which takes as long as decompressing them."""
    with _saying(f"counting the rows of {source} (--horizon N does without)", wanted):
        yield


@contextmanager
def fitting(source: str, *, wanted: bool) -> Iterator[None]:
    """Say on a terminal that all rows are read and fitted."""
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
    """Give two callbacks, for ``fit_stream`` and for what follows, that show the progress on stderr.

    A terminal gets a bar, anything else a plain line every minute. The bar ends at the horizon; where the rows were not
    ``counted``, it is shown as "up to", and the time left is the longest possible. None: the number of rows is
    unknown.
    """
    if not wanted:
        yield (lambda learner, stream: None), (lambda stage: None)
        return
    now = time.monotonic
    most = "" if horizon is None else f" of {'' if counted else 'up to '}{horizon:,}"
    start = now()

    def told(learner: Any) -> tuple[int, str]:
        """The rows so far, and the text of the progress."""
        from ..guarantees import format_up, gdp_epsilon
        from ..learners.views import run_of

        run = run_of(learner)
        rows = 0 if run is None else run.n_rows  # also for a run that is only kept now and then
        mu, rate = learner.ledger_.spent.mu, rows / max(now() - start, 1e-9)
        spent = "no guarantee" if math.isinf(mu) else f"epsilon {format_up(gdp_epsilon(mu, delta), 3)}"
        left = ""
        if horizon is not None and rows:
            left = f"{timedelta(seconds=math.ceil((horizon - rows) / rate))} left, "
        return rows, f"{rows:,}{most} rows, {rate:,.0f}/s, {left}{spent}"

    if sys.stderr.isatty():
        with _bar(horizon, most, told) as (tick, stage):
            yield tick, stage
        return
    last = start

    def due() -> bool:
        nonlocal last
        if now() - last < _EVERY_OF_A_LOG:
            return False
        last = now()
        return True

    def log(words: str) -> None:
        with suppress(OSError):  # the reader of the log may be gone: no reason to end a run
            click.echo(words, err=True)

    def line(learner: Any, stream: Any) -> None:
        if due():
            log(told(learner)[1])

    def next_stage(words: str) -> None:
        if now() - start >= _EVERY_OF_A_LOG:  # a long run
            log(f"comparing: {words}")

    yield line, next_stage


@contextmanager
def _bar(
    horizon: int | None, most: str, told: Callable[[Any], tuple[int, str]]
) -> Iterator[tuple[Callable[[Any, Any], None], Callable[[str], None]]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    last = time.monotonic()
    # narrow enough for 80 columns
    columns = (BarColumn(bar_width=10), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(f"0{most} rows", total=horizon)

        def tick(learner: Any, stream: Any) -> None:
            nonlocal last
            if time.monotonic() - last < _EVERY:
                return
            last = time.monotonic()
            rows, words = told(learner)
            bar.update(task, completed=rows, description=words)

        def stage(words: str) -> None:
            bar.update(task, description=f"comparing: {words}", completed=horizon)

        yield tick, stage
