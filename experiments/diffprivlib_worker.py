"""diffprivlib's logistic regression, run by another interpreter, because its last version needs an old scikit-learn.

    PYTHON experiments/diffprivlib_worker.py ROWS.npz < settings.json > figures.json

PYTHON belongs to an environment with ``diffprivlib==0.6.6 'scikit-learn<1.6' 'numpy<2.3'``; nothing of privol is
imported. For each setting [epsilon, C, key] it returns the held-out accuracy, the seconds of the fit, and its
iterations.
"""

from __future__ import annotations

import json
import sys
import time
import warnings

import numpy as np
from diffprivlib.models import LogisticRegression


def main() -> None:
    warnings.simplefilter("ignore")
    rows = np.load(sys.argv[1])
    X, y = rows["X"], rows["y"].astype(int)
    figures = []
    for epsilon, C, key in json.load(sys.stdin):
        model = LogisticRegression(
            epsilon=epsilon, data_norm=float(rows["x_bound"]), C=C, max_iter=1_000, random_state=key
        )
        start = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - start
        accuracy = float(model.score(rows["X_test"], rows["y_test"].astype(int)))
        figures.append([accuracy, seconds, int(model.n_iter_[0])])
    json.dump(figures, sys.stdout)


if __name__ == "__main__":
    main()
