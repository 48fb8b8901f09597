"""What the parsing thread hides: ``python bench/overlap.py FILE --target COLUMN``.

:func:`overlap` times, in the same round, parsing alone, learning alone (PIGD, one release, from blocks in memory),
and both together with and without the thread that reads ahead. What overlap hides is
(without - with) / min(parsing, learning): 100 % would be a perfect overlap. Two cores, nothing else on them.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from privol import PIGD, open_stream

__all__ = ["Overlap", "overlap"]


class Overlap(NamedTuple):
    """Medians over the rounds: seconds, and the share of the smaller of parsing and learning that was hidden."""

    rows: int
    parsing: float
    learning: float
    alone: float
    together: float
    hidden: float

    def __str__(self) -> str:
        speeds = ", ".join(
            f"{name} {self.rows / getattr(self, name) / 1e6:.2f}"
            for name in ("parsing", "learning", "alone", "together")
        )
        return f"{self.rows:,} rows; M rows/s: {speeds}; overlap hides {100 * self.hidden:.0f} %"


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def overlap(path: str | Path, *, rounds: int = 5, limit: int = 40, **options: Any) -> Overlap:
    """Measure one file.

    Parameters
    ----------
    path : path
    rounds : int, default 5
    limit : int, default 40
        Blocks that are held in memory to measure learning alone; its time is scaled to all rows.
    **options
        Of :func:`privol.open_stream`: at least the target and its classes.
    """
    rows = open_stream(path, **options).count_rows()

    def parse() -> None:
        for _ in open_stream(path, read_ahead=False, **options):
            pass

    held = []
    blocks = iter(open_stream(path, read_ahead=False, **options))
    for block, _ in zip(blocks, range(limit), strict=False):
        held.append(block)
    del blocks
    known = sum(block.X.shape[0] for block in held)

    def learner(horizon: int) -> PIGD:
        return PIGD(horizon=horizon, release="last", radius=10.0, x_bound=3.0)

    def learn() -> None:
        model = learner(known)
        for block in held:
            model.partial_fit(block.X, block.y, classes=(0, 1))
        model.close()

    def fit(read_ahead: bool) -> None:
        learner(rows).fit_stream(open_stream(path, read_ahead=read_ahead, **options))

    found = []
    for _ in range(rounds):
        parsing, learning = _seconds(parse), _seconds(learn) * rows / known
        alone, together = _seconds(lambda: fit(False)), _seconds(lambda: fit(True))
        found.append((parsing, learning, alone, together, (alone - together) / min(parsing, learning)))
    return Overlap(rows, *(statistics.median(column) for column in zip(*found, strict=True)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--target", default=None)
    parser.add_argument("--positive", default="1")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    options = {"target": arguments.target, "positive": arguments.positive}
    print(overlap(arguments.file, rounds=arguments.rounds, **options))


if __name__ == "__main__":
    main()
