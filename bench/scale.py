"""Long streams and wide rows: ``python bench/scale.py dense`` and ``python bench/scale.py sparse``.

``dense`` writes a synthetic Parquet file of ``--rows`` rows with 54 numbers of sixteen levels and a label (float32,
half a byte per cell), once, and lets the default learner read it three times, each time in a separate process: without
checkpoints, with them, and with them in a process that is killed at six tenths and another one that resumes. The table
has rows per second and resident memory by tenth of the stream. All three must end with the same model, bit for bit (the
noise is seeded to allow this comparison), and each ledger must state the cost of one run.

``sparse`` learns synthetic rows of 40 of d hashed features by DPFTRL with a model every 10,000 rows: the cost of a
step, of its rows, and of the passes over all coordinates and their noise.

The limit of a dense row is that of a step's share and a row's bytes, of a sparse step that of its entries and of all
coordinates' noise and sums, in memory.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import scipy.sparse as sp
from figures import Row, figure, no_limit, show
from limits import Work, of_noise, of_release, of_row, of_sums
from numpy.typing import NDArray

from privol import DPFTRL, AdaptiveFTRL, open_stream
from privol.noise import Gaussian
from privol.state import State

FEATURES, LEVELS = 54, 16
PIECE = 1 << 20
KILLED = 0.6
TENTHS = 10
WORDS, STEP = 40, 10_000


def status(what: str) -> float:
    """The present memory of the process in MiB ("VmRSS"), or its peak ("VmHWM")."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(what):
            return int(line.split()[1]) / 1024
    return math.nan


# ---- dense ---------------------------------------------------------------------------------------------


def write(path: Path, rows: int) -> None:
    """Write rows with labels from a logistic model, drawn one by one from a million others."""
    rng = np.random.default_rng(0)
    levels = ((np.arange(LEVELS) - (LEVELS - 1) / 2) / (LEVELS / 2) / math.sqrt(FEATURES)).astype(np.float32)
    weights = rng.normal(size=FEATURES).astype(np.float32)
    weights *= 4 / np.linalg.norm(weights)
    names = [f"x{j}" for j in range(FEATURES)]
    schema = pa.schema([*((name, pa.float32()) for name in names), ("label", pa.int8())])
    with pa.parquet.ParquetWriter(path, schema, compression="none") as writer:
        for start in range(0, rows, PIECE):
            n = min(PIECE, rows - start)
            cells = np.frombuffer(rng.bytes(n * FEATURES // 2 + 1), np.uint8)
            cells = np.stack([cells & 15, cells >> 4], axis=1).reshape(-1)[: n * FEATURES].reshape(FEATURES, n)
            columns = levels[cells]
            labels = rng.random(n, np.float32) < 1 / (1 + np.exp(-8 * (weights @ columns)))
            writer.write_table(pa.table([*columns, labels.astype(np.int8)], schema=schema), row_group_size=PIECE)


def learn(path: Path, folder: str, killed: bool) -> None:
    """Learn the file in this process; print a line of JSON for each tenth and one for the end."""
    warnings.simplefilter("ignore")
    stream = open_stream(path, target="label", classes=(0, 1))
    rows = stream.n_rows
    assert rows is not None
    start = began = time.perf_counter()
    first: int | None = None  # rows at the first call: for a resumed run, those that another process learnt
    before, tenth = 0, 1

    def progress(learner: Any, _: Any) -> None:
        nonlocal began, tenth, before, first
        n, now = learner.n_rows_, time.perf_counter()
        if first is None:
            # with checkpoints a model is shown once it is kept, which is after the next block
            first = before = n
            tenth = n * TENTHS // rows + 1
        if n == first:
            began = now
            return
        if before == first > rows // TENTHS:
            print(json.dumps({"known": first, "seconds": began - start}), flush=True)
        first = 0
        if n < tenth * rows // TENTHS:
            return
        print(json.dumps({"tenth": tenth, "rows/s": (n - before) / (now - began), "MiB": status("VmRSS")}), flush=True)
        began, before, tenth = now, n, n * TENTHS // rows + 1
        if killed and n >= KILLED * rows:
            os._exit(9)

    learner = AdaptiveFTRL(epsilon=1.0, delta=1e-10, random_state=0, release=max(rows // 1000, 1))
    learner.fit_stream(stream, progress=progress, checkpoint=State(folder) if folder else None)
    seconds = time.perf_counter() - start
    if tenth == TENTHS:
        progress(learner, stream)
    spent = learner.ledger_.spent
    mu = learner.calibrate(FEATURES, rows).mu
    told = {
        "seconds": seconds,
        "rows": learner.n_rows_,
        "releases": learner.n_releases_,
        "runs": len(learner.ledger_.accounts),
        "mu": spent.mu,
        "exact": spent.mu == mu,
        "peak MiB": status("VmHWM"),
        "model": learner.coef_.tobytes().hex(),
    }
    print(json.dumps(told), flush=True)


def child(path: Path, folder: str, killed: bool = False) -> list[dict[str, Any]]:
    command = [sys.executable, __file__, "dense", "--learn", str(path), "--state", folder]
    done = subprocess.run([*command, *(["--killed"] if killed else [])], stdout=subprocess.PIPE, text=True)
    if done.returncode != (9 if killed else 0):
        raise SystemExit(f"the process ended with {done.returncode}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def dense(rows: int, where: str | None, file: str | None) -> None:
    with tempfile.TemporaryDirectory(dir=where) as name:
        folder = Path(name)
        path = Path(file) if file else folder / "rows.parquet"
        start = time.perf_counter()
        if not path.exists():
            write(path, rows)
        seconds = time.perf_counter() - start
        path_bytes = path.stat().st_size
        print(f"{rows:,} rows, {FEATURES} features, {path_bytes / 1e9:.2f} GB, written in {seconds:.0f} s")
        passes = {"without checkpoints": child(path, ""), "with checkpoints": child(path, str(folder / "kept"))}
        state = str(folder / "killed")
        first = child(path, state, killed=True)
        passes["killed at six tenths"] = first
        passes["gone on"] = child(path, state)
    known = next(line for line in passes["gone on"] if "known" in line)
    print(f"gone on: {known['known']:,} known rows passed {known['seconds']:.0f} s after the beginning")
    print(f"{'thousands of rows/s, by tenth':<30}" + "".join(f"{k:>7}" for k in range(1, TENTHS + 1)))
    for title, lines in passes.items():
        cells = {line["tenth"]: line["rows/s"] for line in lines if "tenth" in line}
        print(f"{title:<30}" + "".join(f"{_thousands(cells.get(k)):>7}" for k in range(1, TENTHS + 1)))
    print("MiB in memory, by tenth")
    for title, lines in passes.items():
        held = {line["tenth"]: f"{line['MiB']:.0f}" for line in lines if "tenth" in line}
        print(f"{title:<30}" + "".join(f"{held.get(k, ''):>7}" for k in range(1, TENTHS + 1)))
    ends = {title: lines[-1] for title, lines in passes.items() if "model" in lines[-1]}
    for title, end in ends.items():
        print(
            f"{title}: {end['rows']:,} rows, {end['releases']:,} releases, {end['seconds']:.0f} s, peak "
            f"{end['peak MiB']:.0f} MiB; ledger: {end['runs']} run, mu {end['mu']!r}, as calibrated: {end['exact']}"
        )
    print("the same model, bit for bit:", len({end["model"] for end in ends.values()}) == 1)
    d = FEATURES + 1
    step = of_noise(d) + of_sums(d) + of_release(d)
    row = of_row(FEATURES, d) + step * (1 / AdaptiveFTRL(epsilon=1.0, delta=1e-10).calibrate(FEATURES, rows).batch)
    work = row + Work(written=8.0 * d, memory=path_bytes / rows)  # what is read from the file is written as rows
    table = []
    for title in ("without checkpoints", "with checkpoints"):
        end = ends[title]
        table.append(figure(title, "rows/s", end["rows"] / end["seconds"], limit=work.limit("rows/s")))
    parts = no_limit("not derived: it is the readers' batches and the allocator's")
    for title, end in ends.items():
        table.append(figure(f"{title}: peak memory", "MiB", end["peak MiB"], limit=parts))
    show(table)


def _thousands(speed: float | None) -> str:
    return "" if speed is None else f"{speed / 1e3:,.0f}"


# ---- sparse --------------------------------------------------------------------------------------------


@dataclass
class Block:
    X: Any
    y: NDArray[np.float64]
    first_row: int


class Hashed:
    """Rows of 40 of d features, frequent ones more often; eight blocks of 10,000 rows in turn."""

    classes = (0, 1)

    def __init__(self, d: int, rows: int) -> None:
        rng = np.random.default_rng(1)
        self.n_rows, self.n_features, self._blocks = rows, d, []
        for k in range(min(8, -(-rows // STEP))):
            at = (d * rng.random((STEP, WORDS)) ** 3).astype(np.int64)
            at.sort(axis=1)
            at += np.arange(WORDS)  # different, and ascending
            at = np.minimum(at, d - WORDS + np.arange(WORDS)).astype(np.int32)
            values = np.full(at.size, 1 / math.sqrt(WORDS))
            starts = np.arange(0, at.size + 1, WORDS, dtype=np.int32)
            X = sp.csr_array((values, at.reshape(-1), starts), shape=(STEP, d))
            self._blocks.append(Block(X, (at[:, 0] % 2).astype(np.float64), k * STEP + 1))

    def __iter__(self) -> Iterator[Block]:
        for start in range(0, self.n_rows, STEP):
            yield self._blocks[start // STEP % len(self._blocks)]


def learnt(d: int, rows: int, epsilon: float, batch: int) -> float:
    """Seconds of a run."""
    learner = DPFTRL(
        epsilon=epsilon, delta=1e-9, radius=10.0, batch=batch, horizon=rows, release=batch, fit_intercept=False
    )
    stream = Hashed(d, rows)
    start = time.perf_counter()
    learner.fit_stream(stream)
    return time.perf_counter() - start


def sparse(dims: list[int], steps: int, rounds: int) -> None:
    warnings.simplefilter("ignore")
    print(f"{steps} steps of {STEP:,} rows, {WORDS} features in a row, a model after each; least of {rounds} rounds")
    print("ms a step; in brackets ns a coordinate, and of the rows ns an entry")
    names = ("features", "rows/s", "a step", "its rows", "all coordinates", "noise alone", "peak MiB")
    print("".join(f"{name:>18}" for name in names))
    table: list[Row] = []
    for d in dims:
        noise, most = Gaussian(scale=1.0), steps * STEP
        # from differences, which exclude the fixed cost of a run; one step of all rows has one pass over coordinates
        runs = [(most + 2 * STEP, 1.0, STEP), (2 * STEP, 1.0, STEP), (most, math.inf, most), (STEP, math.inf, STEP)]
        times = []
        for _ in range(rounds):
            times.append([learnt(d, *run) for run in runs])
            start = time.perf_counter()
            noise.sample(d)
            times[-1].append(time.perf_counter() - start)
        long, short, together, one, alone = np.min(times, axis=0).tolist()
        step, rows = (long - short) / steps, (together - one) / (steps - 1)
        passes = step - rows
        cells = [
            f"{d:,}",
            f"{STEP / step:,.0f}",
            _per(step, d),
            _per(rows, STEP * WORDS),
            _per(passes, d),
            _per(alone, d),
        ]
        print("".join(f"{cell:>18}" for cell in [*cells, f"{status('VmHWM'):.0f}"]), flush=True)
        # buffers, sums and models do not fit into a cache: what is written there is read from memory here
        sums, release = of_sums(d), of_release(d)
        coordinates = of_noise(d) + Work(
            multiply_adds=sums.multiply_adds + release.multiply_adds, memory=sums.near + release.near
        )
        entries = Work(memory=12.0, multiply_adds=3.0) * (STEP * WORDS) + Work(exponentials=float(STEP))
        for what, seconds, work in (
            ("a step", step, coordinates + entries),
            ("its rows", rows, entries),
            ("all coordinates", passes, coordinates),
            ("noise alone", alone, of_noise(d) + Work(written=8.0 * d)),
        ):
            table.append(figure(f"{d:,} features: {what}", "ms", 1e3 * seconds, limit=work.limit("ms")))
    show(table)


def _per(seconds: float, d: int) -> str:
    return f"{1e3 * seconds:,.1f} ({1e9 * seconds / d:.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("dense", "sparse"))
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--folder", help="where the file goes (default: the folder for temporary files)")
    parser.add_argument("--file", help="a file to write, or to read where it is there already; it stays")
    parser.add_argument("--dims", default="1000000,10000000")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--learn", help=argparse.SUPPRESS)
    parser.add_argument("--state", default="", help=argparse.SUPPRESS)
    parser.add_argument("--killed", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.learn:
        learn(Path(given.learn), given.state, given.killed)
    elif given.what == "dense":
        dense(given.rows, given.folder, given.file)
    else:
        sparse([int(d) for d in given.dims.split(",")], given.steps, given.rounds)


if __name__ == "__main__":
    main()
