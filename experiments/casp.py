"""Least squares on CASP.csv: PQFTL, DPFTRL, NOGD and PIGD at equal privacy, compared with ridge regression.

    python experiments/casp.py FOLDER [--quick] [--runs 10]

FOLDER holds UCI's CASP.csv, possibly compressed. One pass over the same shuffled rows; a tenth is held out. A quarter
of a minute.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from common import arguments, write
from regression import Rows, measured

from privol import open_stream

SCHEMA = Path(__file__).parent / "casp.toml"


def read(folder: Path, most: int | None = None) -> Rows:
    """Read the file by its schema, permute the rows publicly and hold a tenth out."""
    files = sorted(folder.glob("CASP.csv*"))
    if not files:
        raise SystemExit(f"{folder} has no CASP.csv: UCI Machine Learning Repository, data set 265")
    blocks = list(open_stream(files[0], schema=SCHEMA))
    X = np.vstack([block.X for block in blocks])
    y = np.concatenate([block.y for block in blocks if block.y is not None])
    order = np.random.default_rng(0).permutation(len(y))[:most]
    kept = len(order) * 9 // 10
    learnt, held = order[:kept], order[kept:]
    return Rows(
        X[learnt], y[learnt], X[held], y[held], unit=10.5, name="angstrom, squared", x_bound=1.5, radius=2.0, l2=0.001,
        every=1,
    )  # fmt: skip


def main() -> None:
    given = arguments(__doc__, folder="CASP.csv or CASP.csv.gz", runs=10)
    rows = read(given.folder, 2_000 if given.quick else None)
    write("casp", measured(rows, given.runs), given.page)


if __name__ == "__main__":
    main()
