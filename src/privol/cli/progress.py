"""The progress bar: rows, rows per second, time left, budget spent; on stderr, for people only."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["watched"]

_EVERY = 0.1  # seconds


@contextmanager
def watched(
    horizon: int, delta: float, *, wanted: bool
) -> Iterator[tuple[Callable[[Any, Any], None], Callable[[str], None]]]:
    """Give two callbacks, for ``fit_stream`` and for what follows, that draw a bar if stderr is a terminal."""
    if not wanted or not sys.stderr.isatty():
        yield (lambda learner, stream: None), (lambda stage: None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from ..guarantees import format_up, gdp_epsilon

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} rows, {task.fields[rate]}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[budget]}"),
    )
    start = last = time.monotonic()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("learning", total=horizon, rate="", budget="")

        def tick(learner: Any, stream: Any) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last < _EVERY:
                return
            last = now
            mu = learner.ledger_.spent.mu
            spent = "no guarantee" if math.isinf(mu) else f"epsilon {format_up(gdp_epsilon(mu, delta), 3)} spent"
            rate = learner.n_rows_ / (now - start)
            bar.update(task, completed=learner.n_rows_, rate=f"{rate:,.0f} rows/s", budget=spent)

        def stage(words: str) -> None:
            bar.update(task, description=f"comparing: {words}", completed=horizon)

        yield tick, stage
