"""The cost of noise on the whole estimate, as the paper adds it, compared with noise on the one secret number.

    python experiments/bandit_vector.py [--quick] [--runs 10]

Algorithm 2 of Zhang and Venkitasubramaniam as published (``BanditMIOGD(calibration="published")``): the device plays
``w + distance e``, which may leave the set, takes ``(d / distance) f e`` for a gradient and adds noise to all d
coordinates, with the distance ``T^(-1/4)``. The default perturbs one number. Both leak half a nat a report, against the
adversary of ``bandit_regret.py`` in three and thirty dimensions. Every horizon has its own runs. Two minutes.
"""

from __future__ import annotations

import numpy as np
from common import arguments, say, shown, table, write
from scipy.stats import linregress

from privol import BanditMIOGD

DIMS, LEAKAGE = (3, 30), 0.5
HORIZONS = (1_000, 4_000, 16_000, 64_000)


def as_published(rows: int, dim: int, key: int) -> float:
    """Return the regret of the points played by Algorithm 2."""
    learner = BanditMIOGD(
        loss="absolute", leakage=LEAKAGE, calibration="published", value_bounds=(0.0, 2.0), gradient_bound=1.0,
        step="horizon", horizon=rows, fit_intercept=False, random_state=key,
    )  # fmt: skip
    total = 0.0
    point = learner.ask(n_features=dim)
    for _ in range(rows):
        loss = abs(1.0 - float(point[0]))  # v is the first axis
        total += loss
        learner.tell(value=loss)
        point = learner.ask() if learner.n_rows_ < rows else point
    return total


def of_one_number(rows: int, dim: int, key: int) -> float:
    """Return the regret of the points played by BanditMIOGD, as in ``bandit_regret.py``."""
    learner = BanditMIOGD(
        loss="absolute", leakage=LEAKAGE, value_bounds=(0.0, 2.0), gradient_bound=1.0, step="horizon",
        fit_intercept=False, random_state=key,
    )  # fmt: skip
    v = np.zeros(dim)
    v[0] = 1.0
    learner.fit(np.tile(v, (rows, 1)), np.ones(rows))
    distance = learner.calibrate(dim, rows).distance
    return float(rows - (1.0 - distance) * (rows * learner.average_coef_ - learner.coef_).ravel()[0])


def main() -> None:
    given = arguments(__doc__, runs=10, page="local.md")
    horizons = [200, 400] if given.quick else list(HORIZONS)
    lines = []
    for dim in DIMS:
        found = {
            "as published": [[as_published(rows, dim, key) for key in range(given.runs)] for rows in horizons],
            "one number": [[of_one_number(rows, dim, key) for key in range(given.runs)] for rows in horizons],
        }
        for name, regrets in found.items():
            slope = linregress(np.repeat(np.log(horizons), given.runs), np.log(np.array(regrets)).ravel()).slope
            say(dim, name, slope)
            lines.append([str(dim), name, *map(shown, regrets), f"{slope:.3f}"])
    head = ["d", "noise", *(f"T = {rows:,}" for rows in horizons), "exponent"]
    write("bandit_vector", table(head, lines), given.page)


if __name__ == "__main__":
    main()
