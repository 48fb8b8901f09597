"""Forest Covertype, class 2 against the rest: private against non-private, by release schedule.

    python examples/covtype.py covtype.data.gz [--repeats 5]

The file is UCI's (581,012 rows, 54 features, label last). A tenth of the rows is held out by a public permutation; the
rest is learnt in one pass. Columns are mapped by the public ranges that ship with privol. Accuracies on the held-out
rows are computed from raw labels: they describe the experiment and are not private.
"""

from __future__ import annotations

import argparse
import math
import statistics

import numpy as np

from privol import PGIGA, PIGD, open_stream
from privol.data import covtype_ranges

PARAMETERS = {"radius": 20.0, "x_bound": 3.0, "l2": 1e-3, "delta": 1e-6}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--epsilon", type=float, default=1.0)
    arguments = parser.parse_args()

    ranges = dict(enumerate(covtype_ranges().values()))  # the file has no header: columns by number
    blocks = list(open_stream(arguments.file, target=-1, positive=2, header=False, ranges=ranges))
    X = np.concatenate([block.X for block in blocks])
    y = np.concatenate([block.y for block in blocks])
    order = np.random.default_rng(0).permutation(len(y))
    train, held_out = order[: len(y) * 9 // 10], order[len(y) * 9 // 10 :]
    X_train, y_train, X_test, y_test = X[train], y[train], X[held_out], y[held_out]

    print(f"{len(train)} rows learnt, {len(held_out)} held out; majority {max(y_test.mean(), 1 - y_test.mean()):.4f}")
    for learner in (PIGD, PGIGA):
        plain = learner(epsilon=math.inf, **PARAMETERS).fit(X_train, y_train).score(X_test, y_test)
        print(f"{learner.__name__} without noise: {plain:.4f}")
        for release in ("last", 10_000, "all"):
            scores, averages = [], []
            for _ in range(arguments.repeats):
                fitted = learner(epsilon=arguments.epsilon, release=release, **PARAMETERS).fit(X_train, y_train)
                scores.append(fitted.score(X_test, y_test))
                decision = X_test @ fitted.average_coef_.ravel() + float(fitted.average_intercept_[0])
                averages.append(float(np.mean((decision > 0) == y_test)))
            spread = statistics.stdev(scores) if len(scores) > 1 else 0.0
            print(
                f"{learner.__name__} epsilon={arguments.epsilon:g} release={release}: last released model "
                f"{statistics.mean(scores):.4f} +- {spread:.4f}, average of all {statistics.mean(averages):.4f}"
            )


if __name__ == "__main__":
    main()
