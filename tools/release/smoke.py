"""What an installed wheel must do: import, say what it is, and learn with every learner. Prints a JSON object.

It runs in an environment that has nothing of the source tree, on another processor perhaps, with the ``random_state``
given: the released bits must be those of every other environment.
"""

from __future__ import annotations

import hashlib
import json
import sys
import warnings

import numpy as np
import pyarrow

import privol
from privol.learners import TABLE

#: Releases that LAPACK computes from released sums may differ in their last digits from one processor to another.
BY_LAPACK = {"PQFTL"}


def rows() -> tuple[np.ndarray, np.ndarray]:
    """Return rows by integer arithmetic alone: the same whatever NumPy's generators become."""
    state, words = 20_26, []
    for _ in range(1500 * 6):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        words.append(state >> 56)
    x = (np.array(words, dtype=float).reshape(1500, 6) - 128) / 512
    return x, x[:, 0] - x[:, 1] + 2 * x[:, 5] > 0


def digest(values: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(values, dtype="<f8").tobytes()).hexdigest()[:16]


def main() -> None:
    warnings.simplefilter("ignore")  # budgets for so few rows, and the advice to declare a norm
    x, y = rows()
    released, rounded = {}, {}
    for entry in TABLE:
        learner = getattr(privol, entry.kind)(random_state=5).fit(x, y)
        weights = np.append(learner.coef_, learner.intercept_)
        if not np.isfinite(weights).all():
            sys.exit(f"{entry.kind} released {weights}")
        if entry.kind in BY_LAPACK:
            rounded[entry.kind] = [float(f"{weight:.6g}") for weight in weights]
        else:
            released[entry.kind] = digest(weights)
    own = privol.PrivateClassifier(epsilon=1.0, random_state=5).fit(x, y)
    released["PrivateClassifier"] = digest(own.decision_function(x[:50]))
    moments = np.arange(len(x)) * 7919 % 1_000_003 * 977  # in seconds, over thirty years
    table = pyarrow.table({"at": pyarrow.array(moments, pyarrow.timestamp("s")), "size": x[:, 0]})
    encoded = privol.PrivateClassifier(epsilon=1.0, random_state=5).fit(table, y).learner_
    released["PrivateClassifier of times"] = digest(np.append(encoded.coef_, encoded.intercept_))  # BLAS adds up scores
    secret = privol.PIGD(epsilon=1.0, delta=1e-6).fit(x, y)  # noise of the operating system's entropy
    again = privol.PIGD(epsilon=1.0, delta=1e-6).fit(x, y)
    if digest(secret.coef_) == digest(again.coef_):
        sys.exit("two runs with noise of their own released the same")
    info = privol.show_config()
    gil = sys._is_gil_enabled() if hasattr(sys, "_is_gil_enabled") else True
    json.dump(
        {"released": released, "rounded": rounded, "config": info, "lock": gil, "from": privol.__file__}, sys.stdout
    )


if __name__ == "__main__":
    main()
