"""Least squares on YearPredictionMSD: PQFTL, DPFTRL, NOGD and PIGD at equal privacy, compared with ridge regression.

    python experiments/year_prediction.py FOLDER [--quick] [--runs 5]

FOLDER holds UCI's YearPredictionMSD.txt, possibly compressed (zip, gz, bz2, xz), or LIBSVM's pair YearPredictionMSD and
YearPredictionMSD.t. One pass over the training rows in order, tested on the others. Six minutes.
"""

from __future__ import annotations

from pathlib import Path

from common import arguments, write
from regression import Rows, measured

from privol.errors import StreamError
from privol.reproduce.sets import FEATURES, TRAINING, YEARS, scaled, year_prediction, years


def prepared(folder: Path, training: int, most: int | None = None) -> Rows:
    """Read and scale the rows, and set the public numbers for learning."""
    X, y, X_test, y_test = year_prediction(folder, training)
    return Rows(
        scaled(X[:most]), years(y[:most]), scaled(X_test[:most]), years(y_test[:most]),
        unit=(YEARS[1] - YEARS[0]) / 2, name="years, squared", x_bound=2.0, radius=2.0, l2=0.001, every=FEATURES,
    )  # fmt: skip


def main() -> None:
    given = arguments(__doc__, folder="YearPredictionMSD.txt, or LIBSVM's two files", runs=5)
    try:
        rows = prepared(given.folder, 900 if given.quick else TRAINING, 1_000 if given.quick else None)
    except StreamError as error:
        raise SystemExit(f"{error}: nothing was run") from None
    write("year_prediction", measured(rows, given.runs), given.page)


if __name__ == "__main__":
    main()
