"""Sparse rows: what a sketch of the infrequent features gains, beside the frequent ones and alone.

    python experiments/sketch.py FOLDER [--quick] [--runs 10] [--write]

FOLDER holds rcv1_subsets.binary (documents of RCV1 in libsvm text), UCI's adult.data and diabetic_data.csv, and
movieReviewSnippets_GroundTruth.txt and nytEditorialSnippets_GroundTruth.txt of Hutto and Gilbert (2014), which come
with the source distribution of vaderSentiment; possibly compressed. Tables are read as dictionaries of their cells,
texts as words and pairs of words, all hashed to 2^18 features by scikit-learn. Epsilon is 1, the row order is random,
and the figure is the area under the ROC curve over the second half of the rows, where the last model before each block
of 500 predicts it. Columns share the order and the noise key of each run. Half an hour.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from common import FloatArray, arguments, say, shown, write
from common import table as show
from encoding import ADULT, documents, sparse
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer

from privol.reproduce.sets import path_of

FEATURES = 1 << 18
WIDTHS = 0, 16, 64, 256, 4096
ALONE = 256, 4096
HEAD = (
    "rows", "frequent features alone", *(f"and a sketch of {width:,}" for width in WIDTHS[1:]),
    *(f"a sketch of {width:,} alone" for width in ALONE),
)  # fmt: skip
FILES = (
    "rcv1_subsets.binary", "movieReviewSnippets_GroundTruth.txt", "nytEditorialSnippets_GroundTruth.txt", "adult.data",
    "diabetic_data.csv",
)  # fmt: skip
Rows = tuple[Any, FloatArray]


def lines_of(path: Path) -> list[str]:
    """Return the lines of a text, compressed or not."""
    opened: Any = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", errors="replace", newline="") as file:
        return [line for line in file.read().splitlines() if line.strip()]


def of_words(texts: list[str]) -> Any:
    """Return counts of words and pairs of words in a text, with the signs of their hashes."""
    made = HashingVectorizer(n_features=FEATURES, ngram_range=(1, 2), norm=None)
    return sp.csr_array(made.transform(texts)).astype(np.float64)


def snippets(path: Path) -> tuple[list[str], FloatArray]:
    """Return texts, and whether people rated them positive."""
    cells = [line.split("\t") for line in lines_of(path)]
    return [row[2] for row in cells], np.array([float(row[1]) > 0 for row in cells], dtype=float)


def of_cells(rows: list[dict[str, str]]) -> Any:
    """Return the rows of a table, hashed as dictionaries."""
    return sp.csr_array(FeatureHasher(FEATURES, input_type="dict").transform(rows))


def tables(folder: Path) -> dict[str, Callable[[], Rows]]:
    """Return functions that make the rows of each collection, by name."""
    rcv1, movies, news, adult, diabetes = (path_of(folder, name) for name in FILES)

    def of_movies() -> Rows:
        texts, good = snippets(Path(str(movies)))
        return of_words(texts), good

    def of_sources() -> Rows:
        texts, others = snippets(Path(str(movies)))[0], snippets(Path(str(news)))[0]
        return of_words(texts + others), np.repeat([1.0, 0.0], [len(texts), len(others)])

    def of_adult() -> Rows:
        cells = [[cell.strip() for cell in line.split(",")] for line in lines_of(Path(str(adult)))]
        rows = [dict(zip(ADULT[:-1], row, strict=False)) for row in cells]
        return of_cells(rows), np.array([row[-1] == ">50K" for row in cells], dtype=float)

    def of_diabetes() -> Rows:
        rows = list(csv.DictReader(lines_of(Path(str(diabetes)))))
        y = np.array([row.pop("readmitted") != "NO" for row in rows], dtype=float)
        numbers = ("encounter_id", "patient_nbr")
        return of_cells([{name: cell for name, cell in row.items() if name not in numbers} for row in rows]), y

    makers = (
        ((rcv1,), "RCV1", lambda: documents(Path(str(rcv1)))),
        ((movies,), "film reviews, good or bad", of_movies),
        ((movies, news), "film review or editorial", of_sources),
        ((adult,), "Adult", of_adult),
        ((diabetes,), "Diabetes, readmitted", of_diabetes),
    )
    return {name: make for files, name, make in makers if None not in files}


def main() -> None:
    """Measure, print and, if asked, write the table."""
    given = arguments(__doc__, files=FILES, runs=10, page="encoding.md")
    found: list[list[str]] = []
    for name, make in tables(given.folder).items():
        X, y = make()
        if given.quick:
            some = np.random.default_rng(0).permutation(len(y))[:6000]
            X, y = X[some], y[some]
        kinds = [(True, width) for width in WIDTHS] + [(False, width) for width in ALONE]
        cells = []
        for frequent, width in kinds:
            runs = [sparse(X, y, 1.0, key, frequent=frequent, sketch=width) for key in range(given.runs)]
            cells.append(shown(runs))
            say(name, frequent, width, cells[-1])
        found.append([f"{name}: {X.shape[0]:,} rows, {len(np.unique(X.indices)):,} features", *cells])
    write("sketch", show(HEAD, found), given.page)


if __name__ == "__main__":
    main()
