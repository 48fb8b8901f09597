"""How the regret of PIGD grows with the horizon if losses have no strong convexity of their own: section 4.1.

    python experiments/decaying_regulariser.py [--quick] [--runs 5]

Jain, Kothari and Thakurta (2012) state ``T^(3/4)`` for a regulariser that decays as one over the root of the row
number. Every model is released. The adversary pushes in one direction: ``f_t(w) = |1 - <v, w>|`` with the same unit
vector v in every row, on the unit ball of three dimensions. Every horizon has its own runs, with ``l2`` constant or
growing as ``T^(1/4)``. A minute.
"""

from __future__ import annotations

import numpy as np
from common import arguments, released_models, say, shown, table, write
from scipy.stats import linregress

from privol import PIGD

DIM = 3
HORIZONS = (4_000, 16_000, 64_000, 256_000)
#: epsilon, and l2 at the shortest horizon: the ball limits the noise in the shortest runs in one setting, not in the
#: other.
SETTINGS = ((1.0, 20.0), (10.0, 5.0))
GROWTH = {"constant": 0.0, "as T^(1/4)": 0.25}


def regret(rows: int, epsilon: float, l2: float, key: int) -> float:
    """Return the regret of one run; the best point, v, has loss 0."""
    v = np.zeros(DIM)
    v[0] = 1.0
    learner = PIGD(
        loss="absolute", epsilon=epsilon, l2=l2, l2_schedule="inverse_sqrt", release="all", fit_intercept=False,
        random_state=key,
    )  # fmt: skip
    models = released_models(learner, np.tile(v, (rows, 1)), np.ones(rows))
    return float(np.sum(np.abs(1.0 - models[:, 0])))


def main() -> None:
    given = arguments(__doc__, runs=5, page="published.md")
    horizons = [rows // 20 for rows in HORIZONS[:3]] if given.quick else HORIZONS
    lines = []
    for epsilon, first in SETTINGS:
        for name, power in GROWTH.items():
            found = []
            for rows in horizons:
                l2 = first * (rows / horizons[0]) ** power
                found.append([regret(rows, epsilon, l2, key) for key in range(given.runs)])
            logs = np.log(np.array(found))
            steps = np.diff(logs.mean(axis=1)) / np.diff(np.log(horizons))
            whole = linregress(np.repeat(np.log(horizons), given.runs), logs.ravel())
            exponents = f"{whole.slope:.3f} ± {whole.stderr:.3f}", f"{steps[-1]:.3f}"
            say(epsilon, name, *exponents)
            lines.append([f"{epsilon:g}", f"{first:g}, {name}", *map(shown, found), *exponents])
    head = ["epsilon", "l2", *(f"T = {rows:,}" for rows in horizons), "exponent, all T", "last two T"]
    write("decaying_regulariser", table(head, lines), given.page)


if __name__ == "__main__":
    main()
