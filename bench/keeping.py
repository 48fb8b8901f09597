"""The cost of keeping runs on the disk, and of resuming one: ``python bench/keeping.py``.

Each learner learns the same blocks with ``checkpoint=State(...)`` and without, alternating in one process; the figures
are medians of ``--rounds``. Then a run is interrupted near its end, and the times of the next call are measured until
it is ready for its first row, and until it has passed the known rows. Last, dicts are given one by one. The limit of a
run that is kept is the same run that is not; known rows must be hashed as fast as XXH3 reads them from memory.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from figures import Limit, Row, figure, no_limit, show
from numpy.typing import NDArray

from privol import DPFTRL, NOGD, PIGD, PQFTL
from privol.learners import OnlineLearner
from privol.live import LiveRun
from privol.state import State

FloatArray = NDArray[np.float64]
BLOCK_ROWS = 65536

LEARNERS: dict[str, Callable[[], OnlineLearner]] = {
    "PIGD, last model": lambda: PIGD(release="last"),
    "PIGD, all models": lambda: PIGD(release="all"),
    "NOGD": NOGD,
    "DPFTRL, BLT": DPFTRL,
    "DPFTRL, tree": lambda: DPFTRL(design="tree"),
    "PQFTL": lambda: PQFTL(batch=1),
}


@dataclass
class Block:
    """Rows of a stream."""

    X: FloatArray
    y: FloatArray
    first_row: int


class Cut(Exception):
    """The stream breaks off."""


class Rows:
    """Sixteen blocks of rows in turn, more than fit into a cache; ``asked``: when each was requested."""

    classes = (0, 1)

    def __init__(self, blocks: int, dim: int, cut: int | None = None) -> None:
        rng = np.random.default_rng(0)
        self.X, self.y = [], []
        for _ in range(min(blocks, 16)):
            X = rng.normal(size=(BLOCK_ROWS, dim))
            self.X.append(X / np.linalg.norm(X, axis=1, keepdims=True))
            self.y.append((X[:, 0] > 0).astype(np.float64))
        self.n_rows, self.blocks, self.cut = blocks * BLOCK_ROWS, blocks, cut
        self.asked: list[float] = []

    def __iter__(self) -> Iterator[Block]:
        for k in range(self.blocks):
            self.asked.append(time.perf_counter())
            if k == self.cut:
                raise Cut
            yield Block(self.X[k % 16], self.y[k % 16], k * BLOCK_ROWS)


def seconds(make: Callable[[], OnlineLearner], rows: Rows, folder: Path | None) -> float:
    """Seconds of a whole run, kept in the folder or not."""
    learner = make()
    start = time.perf_counter()
    learner.fit_stream(rows, checkpoint=None if folder is None else State(folder))
    return time.perf_counter() - start


def going_on(make: Callable[[], OnlineLearner], rows: Rows, folder: Path) -> tuple[float, float]:
    """Seconds from the call to the first row read, and from there to the first row learnt."""
    rows.cut = rows.blocks - 1
    with suppress(Cut):
        make().fit_stream(rows, checkpoint=State(folder))
    rows.cut, rows.asked = None, []
    start = time.perf_counter()
    make().fit_stream(rows, checkpoint=State(folder))
    return rows.asked[0] - start, rows.asked[-1] - rows.asked[0]


def hashed(dim: int) -> float:
    """Rows a second whose bytes XXH3 reads from memory."""
    block = np.ones((BLOCK_ROWS, dim + 1))
    times = []
    for _ in range(7):
        start = time.perf_counter()
        xxhash.xxh3_128_digest(block.data)
        times.append(time.perf_counter() - start)
    return BLOCK_ROWS / min(times)


def one_by_one(rows: int, dim: int, rounds: int) -> Row:
    """Dicts that are given one by one to a run on the disk, beside the same calls of a learner that nobody keeps."""
    rng = np.random.default_rng(1)
    names = [f"feature {j}" for j in range(dim)]
    X = rng.normal(size=(rows, dim)) / dim**0.5
    given = [dict(zip(names, x, strict=True)) for x in X.tolist()]
    labels = (X[:, 0] > 0).tolist()

    def alone() -> None:
        learn = PIGD(horizon=rows, release="last").declare_features(names).declare_classes([False, True]).learn_one
        for x, y in zip(given, labels, strict=True):
            learn(x, y)

    def kept(folder: Path) -> None:
        with LiveRun(PIGD(horizon=rows, release="last"), State(folder, rest=True)) as run:
            for x, y in zip(given, labels, strict=True):
                run.learn_one(x, y)

    pairs = []
    with tempfile.TemporaryDirectory() as folder:
        for k in range(rounds):
            start = time.perf_counter()
            alone()
            middle = time.perf_counter()
            kept(Path(folder, str(k)))
            pairs.append((middle - start, time.perf_counter() - middle))
    plain, whole = (rows / statistics.median(times) for times in zip(*pairs, strict=True))
    limit = Limit(plain, "rows a second of learn_one, which keeps nothing")
    return figure("PIGD, dicts one by one, kept", "rows/s", whole, limit=limit)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--blocks", type=int, default=200, help="of 65,536 rows")
    parser.add_argument("--dim", type=int, default=54)
    parser.add_argument("--only", help="learners whose name has this in it")
    given: Any = parser.parse_args()
    warnings.simplefilter("ignore")
    table: list[Row] = []
    reading = Limit(hashed(given.dim), "XXH3 over the bytes of rows and labels, from memory")
    print(f"{'':<18}{'rows/s':>12}{'kept/not':>10}{'began on in':>13}{'skipped':>18}")
    for name, make in LEARNERS.items():
        if given.only is not None and given.only not in name:
            continue
        # PQFTL takes thirty times as long per row if it draws noise for each
        rows = Rows(given.blocks if name != "PQFTL" else max(2, given.blocks // 20), given.dim)
        plain, kept = [], []
        with tempfile.TemporaryDirectory() as folder:
            seconds(make, rows, None)
            for k in range(given.rounds):
                plain.append(seconds(make, rows, None))
                kept.append(seconds(make, rows, Path(folder, str(k))))
            ready, skipped = going_on(make, rows, Path(folder, "cut"))
        ratio = statistics.median(kept) / statistics.median(plain)
        known = (rows.blocks - 1) * BLOCK_ROWS
        print(
            f"{name:<18}{rows.n_rows / statistics.median(plain):>12,.0f}{ratio:>10.3f}{1000 * ready:>10.0f} ms"
            f"{known / skipped:>11,.0f} rows/s",
            flush=True,
        )
        rows_per_second = {
            "plain": rows.n_rows / statistics.median(plain),
            "kept": rows.n_rows / statistics.median(kept),
        }
        alone = Limit(rows_per_second["plain"], "rows a second of the same run that nobody keeps")
        start_up = no_limit("start-up: files are opened and read")
        table += [
            figure(f"{name}, kept", "rows/s", rows_per_second["kept"], limit=alone, aim=f"{alone.value / 1.05:,.0f}"),
            figure(f"{name}, ready for the first row", "ms", 1000 * ready, limit=start_up),
            figure(f"{name}, known rows passed", "rows/s", known / skipped, limit=reading),
        ]
    if given.only is None or given.only in "LiveRun":
        table.append(one_by_one(given.blocks * 250, given.dim, given.rounds))
    show(table)


if __name__ == "__main__":
    main()
