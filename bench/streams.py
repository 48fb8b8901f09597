"""From files to learnt rows, end to end: ``python bench/streams.py``.

The embedded Covertype rows, repeated to ``--rows``, are written as CSV.gz, CSV, libsvm and Parquet. For each the table
has rows per second of the bare parser (pyarrow's, or scikit-learn's for libsvm), of ``open_stream`` alone, of learning
alone (PIGD, one release), of ``fit_stream`` with and without the parsing thread, and of River's and Vowpal Wabbit's
reading of the same file. What overlap hides is (parsing + learning - together) / min(parsing, learning), of the times
in the same round; cores busy is processor time by wall time of the run with the thread. Figures are medians over
``--rounds``. Short runs measure the system's scheduler, which takes some 0.3 s to move a thread to an idle core.
``--memory`` measures peak memory at 10^5, 10^6 and 10^7 rows.

The limit of reading is that of the file's bytes, in the system's cache, copied from there in pieces and, where they are
compressed by gzip, decompressed, and of the rows written to memory; Parquet's pages are decompressed by snappy, which
is not counted. Learning has the limit of a row; where one thread reads and learns, both add up.
"""

from __future__ import annotations

import argparse
import gzip
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from figures import Limit, Row, figure, number, show
from limits import Work, of_row

from privol import PIGD, open_stream
from privol.data import open_covtype

LABEL = "_label"  # the name by which Vowpal Wabbit recognises a label
CHUNK = 60_000


def rows_of(count: int) -> Iterator[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """Yield (X, y) pieces of the embedded rows, over and over, y in -1/+1."""
    blocks = [(block.X, 2 * block.y - 1) for block in open_covtype(block_rows=CHUNK)]
    left = count
    while left:
        for X, y in blocks:
            n = min(left, len(y))
            if n:
                yield X[:n], y[:n]
            left -= n


def tables(count: int) -> Iterator[pa.Table]:
    for X, y in rows_of(count):
        columns = {f"x{j}": np.round(X[:, j], 6) for j in range(X.shape[1])}
        yield pa.table({LABEL: y.astype(np.int64), **columns})


def write_files(folder: Path, count: int, kinds: set[str]) -> None:
    """Write the same rows in every format."""
    if kinds & {"csv", "csv.gz"}:
        with open(folder / "rows.csv", "wb") as file:
            for i, table in enumerate(tables(count)):
                options = pa.csv.WriteOptions(include_header=i == 0, quoting_style="none", quoting_header="none")
                pa.csv.write_csv(table, file, options)
    if "csv.gz" in kinds:
        with open(folder / "rows.csv", "rb") as plain, gzip.open(folder / "rows.csv.gz", "wb", compresslevel=6) as file:
            while piece := plain.read(1 << 24):
                file.write(piece)
    if "parquet" in kinds:
        writer = None
        for table in tables(count):
            writer = writer or pa.parquet.ParquetWriter(folder / "rows.parquet", table.schema)
            writer.write_table(table)
        if writer is not None:
            writer.close()
    if "svm" in kinds:
        with open(folder / "rows.svm", "w", encoding="ascii") as file:
            for X, y in rows_of(count):
                for x, label in zip(np.round(X, 6), y, strict=True):
                    at = np.flatnonzero(x)
                    file.write(f"{label:.0f} " + " ".join(f"{j + 1}:{x[j]:g}" for j in at) + "\n")


def bare(path: Path) -> None:
    """Parse the whole file with the library alone, in pieces, and discard the result."""
    if path.suffix == ".parquet":
        for _ in pa.parquet.ParquetFile(path).iter_batches(65536):
            pass
    elif path.suffix == ".svm":
        from sklearn.datasets import load_svmlight_file

        load_svmlight_file(str(path), n_features=54)
    else:
        for _ in pa.csv.open_csv(path, read_options=pa.csv.ReadOptions(block_size=8 << 20)):
            pass


def opened(path: Path, **options: Any) -> Any:
    target = {} if path.suffix == ".svm" else {"target": LABEL}
    features = {"n_features": 54} if path.suffix == ".svm" else {}
    return open_stream(path, classes=(-1, 1), **target, **features, **options)


def timed(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def parse(path: Path) -> None:
    for _ in opened(path, read_ahead=False):
        pass


def river_reading(path: Path, count: int) -> None:
    """Read the first rows as River does; no learning."""
    from river import stream

    if path.suffix == ".svm":
        rows = stream.iter_libsvm(str(path))
    else:
        converters = {LABEL: float, **{f"x{j}": float for j in range(54)}}
        source = gzip.open(path, "rt") if path.suffix == ".gz" else str(path)  # noqa: SIM115 (the loop below ends it)
        rows = stream.iter_csv(source, target=LABEL, converters=converters)
    for _, _ in zip(range(count), rows, strict=False):
        pass


def wabbit(path: Path) -> None:
    """Read and learn by Vowpal Wabbit: logistic loss, one pass."""
    from vowpalwabbit import pyvw

    learner = pyvw.Workspace(f"--csv -d {path} --loss_function logistic --quiet")
    learner.run_parser()
    learner.finish()


COLUMNS = (
    "bare parser",
    "open_stream",
    "learning",
    "fit_stream",
    "read ahead",
    "overlap hides",
    "cores busy",
    "River reads",
    "VW learns",
)


def round_of(path: Path, count: int, blocks: list[Any]) -> dict[str, float]:
    """Time everything once: rows per second, and in per cent what the overlap hides."""

    def fit(read_ahead: bool) -> None:
        stream = opened(path, read_ahead=read_ahead)
        PIGD(horizon=count, delta=1e-9, release="last", radius=10.0, x_bound=3.0).fit_stream(stream)

    def learn() -> None:
        learner = PIGD(horizon=count, delta=1e-9, release="last", radius=10.0, x_bound=3.0)
        for block in blocks:
            learner.partial_fit(block.X, block.y, classes=(0, 1))
        learner.close()

    def both() -> None:
        nonlocal busy
        start = time.perf_counter(), time.process_time()
        fit(True)
        busy = (time.process_time() - start[1]) / (time.perf_counter() - start[0])

    busy = math.nan
    seconds = {
        "bare parser": timed(lambda: bare(path)),
        "open_stream": timed(lambda: parse(path)),
        "learning": timed(learn),
        "fit_stream": timed(lambda: fit(False)),
        "read ahead": timed(both),
    }
    figures = {name: count / time_ for name, time_ in seconds.items()}
    parsing, learning = seconds["open_stream"], seconds["learning"]
    figures["overlap hides"] = 100 * (parsing + learning - seconds["read ahead"]) / min(parsing, learning)
    figures["cores busy"] = busy
    if path.suffix != ".parquet":
        few = min(count, 20_000)
        figures["River reads"] = few / timed(lambda: river_reading(path, few))
    if ".csv" in path.suffixes and find_spec("vowpalwabbit"):
        figures["VW learns"] = count / timed(lambda: wabbit(path))
    return figures


def bytes_read(path: Path) -> float:
    """Seconds in which the file is read in pieces, and decompressed if it is compressed as a whole."""
    piece = bytearray(1 << 20)
    with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
        return timed(lambda: [None for _ in iter(lambda: file.readinto(piece), 0)])


def limited(kind: str, path: Path, count: int, found: list[dict[str, float]]) -> list[Row]:
    """Return privol's speeds beside the peers' and the limits."""
    reading = min(bytes_read(path) for _ in range(3)) / count * 1e9  # ns a row
    rows, learning = Work(written=8.0 * 55).nanoseconds(), of_row(54).nanoseconds()
    what = "file's bytes decompressed" if path.suffix == ".gz" else "file's bytes read from the system's cache"
    parts = f"ns: {what} {number(reading)}, 55 numbers of a row written to memory {number(rows)}"
    single = f"{parts} and a row learnt {number(learning)}, one after the other"
    parallel = f"the larger of: {parts}; a row learnt {number(learning)}"
    table = []
    for column, nanoseconds, of, peer, aim in (
        ("open_stream", reading + rows, parts, "bare parser", "4,000" if kind == "parquet" else "none"),
        ("learning", learning, of_row(54).limit("ns").of, "", "none"),
        ("fit_stream", reading + rows + learning, single, "VW learns", "none"),
        ("read ahead", max(reading + rows, learning), parallel, "VW learns", "none"),
    ):
        own = statistics.median(figures[column] for figures in found) / 1e3
        words: dict[str, Any] = {"aim": aim}
        if peer in found[0]:
            theirs = [figures[peer] / 1e3 for figures in found]
            words |= {"peer_name": peer, "peer": statistics.median(theirs)}
            words["ratios"] = [figures[column] / figures[peer] for figures in found]
        limit = Limit(1e6 / nanoseconds, of)
        table.append(figure(f"{kind}: {column}", "1,000 rows/s", own, limit=limit, **words))
    return table


def compare(folder: Path, count: int, rounds: int, kinds: list[str]) -> None:
    table: list[Row] = []
    print(f"\n{count:,} rows, 54 features; 1,000 rows per second, median of {rounds} rounds; PIGD with one release")
    if not find_spec("vowpalwabbit"):
        print("VW is not measured: pip install vowpalwabbit")
    print(f"{'file':10} " + " ".join(f"{name:>13}" for name in COLUMNS))
    for kind in kinds:
        path = folder / f"rows.{kind}"
        blocks = list(opened(path, read_ahead=False))
        found = [round_of(path, count, blocks) for _ in range(rounds)]
        cells = []
        for name in COLUMNS:
            figures = [figures[name] for figures in found if name in figures]
            middle = statistics.median(figures) if figures else math.nan
            shown = f"{middle / 1e3:,.0f}"
            if name == "overlap hides":
                shown = f"{middle:,.0f} %"
            elif name == "cores busy":
                shown = f"{middle:.2f}"
            cells.append(shown if figures else "")
        table += limited(kind, path, count, found)
        print(f"{kind:10} " + " ".join(f"{cell:>13}" for cell in cells), flush=True)
    show(table)


MEMORY = """
import sys
from privol import PIGD, open_stream
path, rows = sys.argv[1], int(sys.argv[2])
given = {"n_features": 54} if path.endswith(".svm") else {"target": "_label"}
def peak():
    for line in open("/proc/self/status"):
        if line.startswith("VmHWM"):
            print(int(line.split()[1]) / 1024)
stream = open_stream(path, classes=(-1, 1), **given)
peak()
PIGD(horizon=rows, delta=1e-9, release="last").fit_stream(stream)
peak()
"""


def memory(kinds: list[str]) -> None:
    """Peak resident memory of reading and learning, in a separate process (Linux)."""
    table: list[Row] = []
    of = "MiB of the same process when it has opened the file, before it reads rows"
    for count in (100_000, 1_000_000, 10_000_000):
        for kind in kinds:
            with tempfile.TemporaryDirectory() as folder:
                write_files(Path(folder), count, {kind})
                command = [sys.executable, "-c", MEMORY, f"{folder}/rows.{kind}", str(count)]
                out = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ).stdout
                before, peak = map(float, out.split())
                name = f"{kind}: peak memory of fit_stream, {count:,} rows"
                table.append(figure(name, "MiB", peak, limit=Limit(before, of)))
                print(f"{name}: {peak:.0f} MiB", flush=True)
    show(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_200_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kinds", default="csv.gz,csv,svm,parquet")
    parser.add_argument("--memory", action="store_true", help="measure peak memory instead of speed")
    arguments = parser.parse_args()
    kinds = arguments.kinds.split(",")
    if arguments.memory:
        memory(kinds)
        return
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder), arguments.rows, set(kinds))
        compare(Path(folder), arguments.rows, arguments.rounds, kinds)


if __name__ == "__main__":
    main()
