"""diffprivlib's logistic regression, run by an interpreter that may lack privol.

    PYTHON diffprivlib_worker.py [GIVEN.npz ANSWER.npz]

Without arguments it only checks that diffprivlib can be imported.
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np


def main() -> None:
    """Fit the given rows and write the scores of the held-out rows."""
    warnings.simplefilter("ignore")
    from diffprivlib.models import LogisticRegression

    if len(sys.argv) == 1:
        return
    with np.load(sys.argv[1]) as given:
        seed, words = int(given["seed"]), {name: float(given[name]) for name in ("epsilon", "bound")}
        X, y, held = given["X"], given["y"].astype(int), given["held"]
    model = LogisticRegression(epsilon=words["epsilon"], data_norm=words["bound"], max_iter=1000, random_state=seed)
    start = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - start
    np.savez(sys.argv[2], scores=model.decision_function(held), seconds=seconds)


if __name__ == "__main__":
    main()
