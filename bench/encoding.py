"""Learning an encoding and using it, compared with reading alone: ``python bench/encoding.py``.

A synthetic table of 14 mixed columns (ages, skewed incomes, categories of 5 and of 5,000 values, dates, a key that
differs in every row, missing cells, labels) is written as CSV and as Parquet, and rows of words as libsvm. The figures
are rows per second, and the number of cells that a part reads: for Arrow's reader alone, with text cells as
dictionaries; for reading the batches that learning requests; for each phase of learning, with all rows and its noise;
for encoding later rows by the learnt schema (alone, and with reading by ``open_stream``). For sparse rows a cell is an
entry. Batches are in memory except where reading is measured. Figures are medians over ``--rounds``, ratios medians of
rows per second in the same round. ``--profile`` shows the profile of one part.

The limit of reading is that of the file's bytes, read from the system's cache; of a phase, and of encoding, that of the
batches' bytes, each read once from memory, and of encoding that of the rows that it writes; all cores share the work.
"""

from __future__ import annotations

import argparse
import cProfile
import math
import os
import pstats
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from figures import Limit, Row, figure, number, show
from limits import Work

from privol import open_stream
from privol.encoding import PrivateEncoder
from privol.encoding.encode import SchemaEncoder
from privol.encoding.frequent import FrequentRun, frequent_rows
from privol.encoding.labels import Labels
from privol.encoding.learning import MISSING_TEXTS, EncodingRun
from privol.encoding.phases import EncodingPlan
from privol.noise import make_source
from privol.readers.base import BLOCK_BYTES
from privol.readers.open import Options, open_reader
from privol.readers.written import Written

TARGET = "outcome"
WORDS, PER_ROW = 20_000, 40
MU = 0.5
NONE = {"labels": 0, "kinds": 0, "coarse": 0, "fine": 0}
PHASES = "labels", "kinds", "coarse", "fine"


def table(rows: int) -> pa.Table:
    rng = np.random.default_rng(0)

    def one_of(count: int, name: str, skew: float = 1.0) -> Any:
        names = pa.array([f"{name} {k}" for k in range(count)])
        return names.take(pa.array((count * rng.random(rows) ** skew).astype(np.int64)))

    def with_gaps(values: Any, share: float) -> Any:
        return pa.array(values, mask=rng.random(rows) < share)

    income = np.round(np.exp(rng.normal(10.0, 1.0, rows)), 2)
    return pa.table(
        {
            "age": rng.integers(17, 91, rows),
            "income": income,
            "dose": with_gaps(np.round(rng.gamma(2.0, 20.0, rows), 1), 0.1),
            "pressure": np.round(rng.normal(120.0, 15.0, rows), 6),
            "visits": rng.geometric(0.2, rows),
            "balance": np.round(rng.normal(0.0, 1e4, rows) * (rng.random(rows) < 0.4), 2),
            "ward": one_of(5, "ward"),
            "colour": with_gaps(rng.choice(["red", "green", "blue"], rows), 0.05),
            "drug": one_of(5_000, "drug", 3.0),
            "city": one_of(300, "city", 2.0),
            "born": pa.array(rng.integers(-18_000, 12_000, rows).astype("datetime64[D]")),
            "seen": pa.array(rng.integers(1_500_000_000, 1_700_000_000, rows).astype("datetime64[s]")),
            "key": pa.array([f"P{k:08d}" for k in rng.permutation(rows)]),
            TARGET: pa.array(np.where(rng.random(rows) < 1 / (1 + income / 2e4), "well", "ill")),
        }
    )


def write_words(path: Path, rows: int) -> None:
    rng = np.random.default_rng(1)
    with open(path, "w", encoding="ascii") as file:
        for label in rng.integers(0, 2, rows).tolist():
            words = np.unique((WORDS * rng.random(PER_ROW) ** 4).astype(np.int64)) + 1
            values = np.round(rng.exponential(1.0, len(words)) + 0.01, 3)
            file.write(f"{label} " + " ".join(f"{w}:{v:g}" for w, v in zip(words, values, strict=True)) + "\n")


def write_files(folder: Path, rows: int, kinds: list[str]) -> None:
    made = table(rows)
    if "csv" in kinds:
        pa.csv.write_csv(made, folder / "rows.csv", pa.csv.WriteOptions(quoting_style="none"))
    if "parquet" in kinds:
        pa.parquet.write_table(made, folder / "rows.parquet")
    if "svm" in kinds:
        write_words(folder / "rows.svm", rows)


def timed(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def _rate(rows: int, function: Callable[[], Any]) -> float:
    return rows / timed(function)


def seen(_: float) -> None:
    """Ignore how much was read."""


class Tables:
    """The stages of a table, each separately."""

    def __init__(self, path: Path, rows: int) -> None:
        self._path = path
        columns = self._columns()
        self._names = [name for name in columns.names if name != TARGET]
        self._kinds = {name: "text" if name == TARGET else "cells" for name in columns.names}
        self._only_text = {name for name in columns.names if columns.only_text(name)}
        self._batches = list(columns.batches(self._kinds, 65536, seen))
        self.rows = sum(batch.num_rows for batch in self._batches)
        self._columns_read = len(columns.names)
        encoder = PrivateEncoder(epsilon=1.0, random_state=0)
        self._schema = open_stream(path, target=TARGET, schema=encoder).schema
        self._encoder = SchemaEncoder(self._schema, columns)
        rows = min(65536, BLOCK_BYTES // (8 * self._encoder.n_features))  # of a block of a stream
        self._asked = list(columns.batches(self._encoder.kinds, rows, seen))

    def cells(self, part: str) -> float:
        """Return how many cells of a row a part reads."""
        if part.startswith("labels"):
            return 1
        return len(self._encoder.kinds) if part in ("encoding", "with reading") else self._columns_read

    def needed(self, part: str) -> Work:
        """Return what a row needs at least in a part that finds the batches in memory."""
        if part == "encoding":
            read = sum(batch.nbytes for batch in self._asked) / self.rows
            return Work(memory=read, written=8.0 * self._encoder.n_features)
        if part.startswith("labels"):
            column = "income" if part == "labels, real" else TARGET
            return Work(memory=sum(batch.column(column).nbytes for batch in self._batches) / self.rows)
        return Work(memory=sum(batch.nbytes for batch in self._batches) / self.rows)

    def _columns(self) -> Any:
        columns: Any = open_reader(self._path, Options(labels=Labels(None, None), target=TARGET, schema=True))
        columns.written = Written(MISSING_TEXTS)
        return columns

    def _bare(self) -> float:
        """Arrow alone, in pieces, with every text column as a dictionary."""
        if self._path.suffix == ".parquet":
            texts = sorted(self._only_text)
            file = pa.parquet.ParquetFile(self._path, read_dictionary=texts)
            return _rate(self.rows, lambda: [None for _ in file.iter_batches(65536)])
        types = dict.fromkeys(self._kinds, pa.dictionary(pa.int32(), pa.string()))
        reading = pa.csv.ReadOptions(block_size=1 << 20)
        converting = pa.csv.ConvertOptions(column_types=types)
        words: dict[str, Any] = {"read_options": reading, "convert_options": converting}
        return _rate(self.rows, lambda: pa.csv.read_csv(self._path, **words))

    def _read(self) -> float:
        return _rate(self.rows, lambda: [None for _ in self._columns().batches(self._kinds, 65536, seen)])

    def _encode(self) -> float:
        encoder = self._encoder_again()

        def run() -> None:
            row = 1
            for batch in self._asked:
                encoder.encode(batch, row)
                row += batch.num_rows

        return _rate(self.rows, run)

    def _encoder_again(self) -> SchemaEncoder:
        return SchemaEncoder(self._schema, self._columns())

    def _stream(self) -> float:
        return _rate(self.rows, lambda: [None for _ in open_stream(self._path, schema=self._schema)])

    def learning(self) -> dict[str, float]:
        shared = dict.fromkeys(PHASES, self.rows)
        plan = EncodingPlan(mu=MU, adjacency="replace", columns=len(self._names), target=True, **shared)
        words: dict[str, Any] = {"only_text": self._only_text}
        run = EncodingRun(self._names, TARGET, plan, make_source(0), Written(MISSING_TEXTS), **words)
        figures = {}
        for phase in PHASES:
            figures[phase] = _rate(self.rows, lambda: [run.take(batch) for batch in self._batches])
        assert run.done
        # the hardest input of the first phase: a target of numbers, nearly all of them different
        run = EncodingRun(
            [], "income", replace(plan, kinds=0, coarse=0, fine=0), make_source(0), Written(MISSING_TEXTS)
        )
        figures["labels, real"] = _rate(self.rows, lambda: [run.take(batch) for batch in self._batches])
        return figures

    def round(self) -> dict[str, float]:
        figures = {"bare reader": self._bare(), "reading": self._read()} | self.learning()
        return figures | {"encoding": self._encode(), "with reading": self._stream()}


class Words:
    """The same for sparse rows."""

    def __init__(self, path: Path, rows: int) -> None:
        self._path = path
        self._pieces = list(self._source().pieces(65536, seen))
        self.rows = sum(piece.X.shape[0] for piece in self._pieces)
        self._entries: float = sum(piece.X.nnz for piece in self._pieces) / self.rows
        encoder = PrivateEncoder(epsilon=1.0, random_state=0)
        self._schema = open_stream(path, positive=1, n_features=WORDS, schema=encoder).schema

    def cells(self, part: str) -> float:
        """Return how many entries a row has."""
        return self._entries

    def needed(self, part: str) -> Work:
        """Return what a row needs at least in a part that finds the rows in memory: 12 bytes an entry."""
        return Work(memory=12.0 * self._entries, written=12.0 * self._entries if part == "encoding" else 0.0)

    def _source(self) -> Any:
        labels = Labels(None, 1)
        return open_reader(self._path, Options(labels=labels, n_features=WORDS, zero_based=False))

    def _read(self) -> float:
        source = self._source()
        return _rate(self.rows, lambda: [None for _ in source.pieces(65536, seen)])

    def learning(self) -> dict[str, float]:
        shared = {"adjacency": "replace", "columns": 0, "target": False, "features": self.rows}
        run = FrequentRun(WORDS, EncodingPlan(mu=MU, **shared, **NONE), make_source(0))  # type: ignore[arg-type]
        return {"votes": _rate(self.rows, lambda: [run.take(piece.X) for piece in self._pieces])}

    def round(self) -> dict[str, float]:
        # no library reads it as fast, or it would be that reader
        figures = {"bare reader": math.nan, "reading": self._read()} | self.learning()
        figures["encoding"] = _rate(
            self.rows, lambda: [frequent_rows(piece.X, self._schema.rows) for piece in self._pieces]
        )
        stream = open_stream(self._path, positive=1, n_features=WORDS, schema=self._schema)
        return figures | {"with reading": _rate(self.rows, lambda: [None for _ in stream])}


def bytes_read(path: Path) -> float:
    """Seconds in which the file is read in pieces."""
    piece = bytearray(1 << 20)
    with open(path, "rb") as file:
        return timed(lambda: [None for _ in iter(lambda: file.readinto(piece), 0)])


def limited(path: Path, parts: Any, found: list[dict[str, float]]) -> list[Row]:
    """Return the parts beside Arrow's reader and their limits."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    reading = min(bytes_read(path) for _ in range(3)) / parts.rows * 1e9 / cores
    of_file = f"ns: a core's share of the file's bytes, read from the system's cache {number(reading)}"
    table = []
    for part in found[0]:
        if part == "bare reader":
            continue
        if part == "reading":
            limit = Limit(1e3 / reading, of_file)
        elif part == "with reading":
            encoding = parts.needed("encoding") * (1 / cores)
            limit = Limit(1e3 / max(reading, encoding.nanoseconds()), f"the larger of: {of_file}; encoding's own limit")
        else:
            limit = (parts.needed(part) * (1 / cores)).limit("million rows/s")
        own = statistics.median(figures[part] for figures in found)
        words: dict[str, Any] = {}
        ratios = [figures[part] / figures["bare reader"] for figures in found]
        if not math.isnan(ratios[0]):
            bare = statistics.median(figures["bare reader"] for figures in found)
            words = {"peer_name": "Arrow's reader", "peer": bare / 1e6, "ratios": ratios}
        aim = "none" if part == "reading" else "1.0x" if words else f"{1 / parts.cells(part):.3f}"
        table.append(figure(f"{path.suffix[1:]}: {part}", "million rows/s", own / 1e6, limit=limit, aim=aim, **words))
    return table


def compare(path: Path, rows: int, rounds: int) -> list[Row]:
    parts: Any = Words(path, rows) if path.suffix == ".svm" else Tables(path, rows)
    parts.round()
    found = [parts.round() for _ in range(rounds)]
    for name in found[0]:
        rate = statistics.median(figures[name] for figures in found)
        shown = f"{path.suffix[1:]:8} {name:14} {rate / 1e6:>14,.2f} {rate * parts.cells(name) / 1e6:>15,.1f}"
        for other in ("bare reader", "reading"):
            ratio = statistics.median(figures[name] / figures[other] for figures in found)
            shown += f" {ratio:>10.2f}" if ratio == ratio else " " * 11
        if rate == rate:
            print(shown, flush=True)
    return limited(path, parts, found)


def profile(path: Path, rows: int) -> None:
    parts: Any = Words(path, rows) if path.suffix == ".svm" else Tables(path, rows)
    with cProfile.Profile() as profiler:
        parts.round()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(30)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kinds", default="csv,parquet,svm")
    parser.add_argument("--profile", action="store_true", help="show where the time of one round goes")
    arguments = parser.parse_args()
    kinds = arguments.kinds.split(",")
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder), arguments.rows, kinds)
        if not arguments.profile:
            print(f"{arguments.rows:,} rows, median of {arguments.rounds} rounds")
            rates = f"{'million rows/s':>14} {'million cells/s':>15}"
            print(f"{'file':8} {'part':14} {rates} {'to bare':>10} {'to reading':>10}")
        table: list[Row] = []
        for kind in kinds:
            path = Path(folder) / f"rows.{kind}"
            if arguments.profile:
                profile(path, arguments.rows)
            else:
                table += compare(path, arguments.rows, arguments.rounds)
        if table:
            show(table)


if __name__ == "__main__":
    main()
