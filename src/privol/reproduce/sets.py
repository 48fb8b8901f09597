"""The papers' data sets: file names, where to get them, and how they are read."""

from __future__ import annotations

import tomllib
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from ..data import schema_path
from ..errors import StreamError
from ..readers.arrays import UNREADABLE
from ..streams import open_stream
from .verdicts import FloatArray

__all__ = [
    "FEATURES",
    "PAIR",
    "RANGES",
    "RCV1",
    "TASKS",
    "TRAINING",
    "WHERE",
    "WORDS",
    "YEAR",
    "YEARS",
    "Split",
    "Task",
    "found",
    "has",
    "path_of",
    "rcv1_rows",
    "real_sim",
    "rows_of",
    "scaled",
    "schema_of",
    "year_prediction",
    "years",
]

YEAR = "YearPredictionMSD.txt"
PAIR = "YearPredictionMSD", "YearPredictionMSD.t"  # the same rows in LIBSVM's form, already split
RCV1 = "rcv1_subsets.binary"
WORDS = 47_236  # features of RCV1
_UCI = "https://archive.ics.uci.edu/dataset/"
_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/"
#: Files by name, possibly compressed (.gz, .bz2, .xz, .zip), and where to get them.
WHERE = {
    "covtype.data": f"{_UCI}31/covertype",
    "adult.data": f"{_UCI}2/adult",
    "adult.test": f"{_UCI}2/adult",
    "diabetic_data.csv": f"{_UCI}296/diabetes+130-us+hospitals+for+years+1999-2008",
    YEAR: f"{_UCI}203/yearpredictionmsd (515,345 rows, 448 MB of text), or LIBSVM's pair {' and '.join(PAIR)} from "
    f"{_LIBSVM}regression.html",
    "real-sim": f"{_LIBSVM}binary.html",
    RCV1: f"{_LIBSVM}multilabel.html, rcv1v2 (topics; subsets), the five subsets joined: distinct articles, 1 for CCAT "
    "or ECAT, -1 for GCAT or M11 to M14, without those of both",
}


def path_of(folder: Path, name: str) -> Path | None:
    """Return the file of this name in a folder, plain or compressed; None if there is none."""
    return next((p for end in ("", ".gz", ".bz2", ".xz", ".zip") if (p := folder / f"{name}{end}").is_file()), None)


def has(folder: Path, name: str) -> bool:
    """Whether a folder has a data set, in either of its forms."""
    return path_of(folder, name) is not None or (
        name == YEAR and all(path_of(folder, part) is not None for part in PAIR)
    )


def found(folder: Path, name: str) -> Path:
    """Return the file of this name in a folder, plain or compressed.

    Raises
    ------
    StreamError
        If there is none; it says where to get it.
    """
    path = path_of(folder, name)
    if path is None:
        raise StreamError(f"{folder} has no {name}: {WHERE[name]}")
    return path


def schema_of(name: str) -> dict[str, Any]:
    """Return the public schema of a data set."""
    return tomllib.loads(schema_path(name).read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Split:
    """Rows to learn, held-out rows, and the public bound of a row's norm."""

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
    files: tuple[str, ...]  # a second file holds the held-out rows; otherwise they are a tenth of the first
    radius: float
    l2: float  # for learners that need strong convexity
    x_bound: float | None = None  # None: the bound that the schema gives
    target: tuple[tuple[str, Any], ...] = ()  # replaces the schema's description

    def split(self, folder: Path, most: int | None = None) -> Split:
        """Read the files, keeping at most ``most`` rows of each."""
        schema = schema_of(self.name)
        schema["target"].update(self.target)
        (X, y, bound), *others = (rows_of(found(folder, name), schema) for name in self.files)
        order = np.random.default_rng(0).permutation(len(y))[:most]
        kept = len(order) if others else len(order) * 9 // 10
        learnt, held = order[:kept], order[kept:]
        X_test, y_test = (others[0][0][:most], others[0][1][:most]) if others else (X[held], y[held])
        bound = bound if self.x_bound is None else self.x_bound
        return Split(self.name, X[learnt], y[learnt], X_test, y_test, bound)


TASKS = (
    Task("covtype", ("covtype.data",), radius=20.0, l2=0.001, x_bound=3.0),
    Task("adult", ("adult.data", "adult.test"), radius=5.0, l2=0.01),
    Task(
        "diabetic_data",
        ("diabetic_data.csv",),
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


def real_sim(folder: Path) -> tuple[Any, FloatArray]:
    """Return LIBSVM's real-sim in a publicly permuted order, with labels 0 and 1."""
    (block,) = open_stream(found(folder, "real-sim"), format="libsvm", n_features=20_958)
    assert block.y is not None
    order = np.random.default_rng(0).permutation(len(block.y))
    return block.X[order], (block.y[order] > 0).astype(np.float64)


def rcv1_rows(path: Path, most: int | None = None) -> tuple[Any, FloatArray]:
    """Return articles in a publicly permuted order, with labels 0 and 1; ``most`` limits the rows kept."""
    (block,) = open_stream(path, n_features=WORDS)
    assert block.y is not None
    order = np.random.default_rng(0).permutation(len(block.y))[:most]
    return block.X[order], (block.y[order] > 0).astype(np.float64)


# ---- YearPredictionMSD ------------------------------------------------------------------------------------------

FEATURES = 90
# The first rows, up to this number, are for training; 51,630 test rows follow. UCI asks for this split, which separates
# artists.
TRAINING = 463_715
YEARS = (1922.0, 2011.0)  # from UCI's description
# Averages and covariances of twelve timbres. The description gives no ranges; the timbres' own documentation calls them
# unbounded and centred at 0, the first one being a loudness. These ranges are a judgement.
RANGES = [(0.0, 60.0), *[(-100.0, 100.0)] * 11, *[(0.0, 5000.0)] * 12, *[(-1000.0, 1000.0)] * 66]


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open what :func:`privol.open_stream` reads: the path, or the only file of a zip archive."""
    if path.suffix != ".zip":
        yield path
        return
    with ExitStack() as opened:
        try:
            archive = opened.enter_context(zipfile.ZipFile(path))
            (name,) = (name for name in archive.namelist() if not name.endswith("/"))
            file = opened.enter_context(archive.open(name))
        except UNREADABLE as error:
            raise StreamError(f"{path}: is not a readable .zip file of one file: {error}") from error
        yield file


def _rows(path: Path, **given: Any) -> tuple[FloatArray, FloatArray]:
    """Read a whole file; the targets are years."""
    with _opened(path) as source:
        blocks = list(open_stream(source, **given))
    parts = [block.X.toarray() if sparse.issparse(block.X) else block.X for block in blocks]
    X = np.vstack(parts)
    if X.shape[1] != FEATURES:
        raise StreamError(f"{path.name} has {X.shape[1]} features; YearPredictionMSD has {FEATURES}")
    return X, np.concatenate([block.y for block in blocks if block.y is not None])


def year_prediction(folder: Path, training: int = TRAINING) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return training rows and years of YearPredictionMSD, then test rows and years, as they are in the files.

    Parameters
    ----------
    folder : Path
    training : int
        Rows of UCI's one file that come before the test rows. LIBSVM's two files are split already.

    Raises
    ------
    StreamError
        If the folder has neither form of the data set, or a file another shape.
    """
    text = path_of(folder, YEAR)
    if text is not None:
        X, y = _rows(text, target=0, header=False, format="csv", sep=",")
        if len(y) <= training:
            raise StreamError(f"{text.name} has {len(y):,} rows: {training:,} for training, and none left for the test")
        return X[:training], y[:training], X[training:], y[training:]
    if not has(folder, YEAR):
        raise StreamError(f"{folder} has no {YEAR}: {WHERE[YEAR]}")
    first, second = (found(folder, name) for name in PAIR)
    X, y = _rows(first, format="libsvm", n_features=FEATURES, zero_based=False)
    X_test, y_test = _rows(second, format="libsvm", n_features=FEATURES, zero_based=False)
    return X, y, X_test, y_test


def scaled(X: FloatArray) -> FloatArray:
    """Map the features from their public ranges to [-1, 1], with clipping."""
    low, high = np.array(RANGES).T
    clipped: FloatArray = np.clip((X - low) / (high - low) * 2 - 1, -1.0, 1.0)
    return clipped


def years(y: FloatArray) -> FloatArray:
    """Map the years to [-1, 1]."""
    return np.clip((y - YEARS[0]) / (YEARS[1] - YEARS[0]) * 2 - 1, -1.0, 1.0)
