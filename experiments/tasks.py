"""The real classification sets: read by the schemas in ``examples/``, shuffled by a public permutation, split."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import FloatArray, say
from scipy import sparse

from privol import open_stream

SCHEMAS = Path(__file__).parent.parent / "examples"


@dataclass(frozen=True)
class Split:
    """Rows to learn, rows held out, and the public bound of a row's norm."""

    name: str
    X: Any
    y: FloatArray
    X_test: Any
    y_test: FloatArray
    x_bound: float


@dataclass(frozen=True)
class Task:
    """A data set and the public parameters of its runs."""

    name: str
    files: tuple[str, ...]  # the second, if any, is what is held out; else a tenth of the first
    radius: float
    l2: float  # of the learners that need strong convexity
    x_bound: float | None = None  # None: what the schema allows
    target: tuple[tuple[str, Any], ...] = ()  # instead of what the schema says

    def split(self, folder: Path, most: int | None = None) -> Split:
        """Read the files; ``most``: rows that are kept of each."""
        schema = tomllib.loads((SCHEMAS / f"{self.name}.toml").read_text(encoding="utf-8"))
        schema["target"].update(self.target)
        (X, y, bound), *others = (rows_of(folder / name, schema) for name in self.files)
        order = np.random.default_rng(0).permutation(len(y))[:most]
        kept = len(order) if others else len(order) * 9 // 10
        learnt, held = order[:kept], order[kept:]
        X_test, y_test = (others[0][0][:most], others[0][1][:most]) if others else (X[held], y[held])
        bound = bound if self.x_bound is None else self.x_bound
        return Split(self.name, X[learnt], y[learnt], X_test, y_test, bound)


TASKS = (
    Task("covtype", ("covtype.data.gz",), radius=20.0, l2=0.001, x_bound=3.0),
    Task("adult", ("adult.data.gz", "adult.test.gz"), radius=5.0, l2=0.01),
    Task(
        "diabetic_data",
        ("diabetic_data.csv.gz",),
        radius=5.0,
        l2=0.01,
        target=(("positive", ["<30", ">30"]), ("negative", ["NO"])),
    ),
)


def rows_of(path: Path, schema: dict[str, Any]) -> tuple[Any, FloatArray, float]:
    """Return rows, labels as 0 and 1, and the public bound of a row's norm."""
    stream = open_stream(path, schema=schema)
    blocks = list(stream)
    rows = [block.X for block in blocks]
    X = sparse.vstack(rows, format="csr") if sparse.issparse(rows[0]) else np.vstack(rows)
    assert stream.row_bound is not None
    return X, np.concatenate([block.y for block in blocks if block.y is not None]), stream.row_bound


def found_in(folder: Path, most: int | None = None) -> Iterator[tuple[Task, Split]]:
    """Yield the sets whose files are there."""
    for task in TASKS:
        missing = [name for name in task.files if not (folder / name).exists()]
        if missing:
            say(f"{task.name} is left out: {folder} has no {', '.join(missing)}")
            continue
        yield task, task.split(folder, most)
