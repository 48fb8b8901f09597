"""How the regret of descent on noisy values grows with the horizon: with one value a row, and with two.

    python experiments/bandit_regret.py [--quick] [--runs 20]

The adversary pushes in one direction: ``f_t(w) = |1 - <v, w>|`` with the same unit vector v in every row, on the unit
ball of three dimensions. The losses are linear there, and the best point, v, is on the boundary, which the points must
keep away from. A report leaks half a nat. Every horizon has its own runs, with the constants for that horizon. Half a
minute.
"""

from __future__ import annotations

import math
import statistics

import numpy as np
from common import LOOKS, FloatArray, arguments, picture, say, shown, table, write
from matplotlib.figure import Figure
from scipy.stats import linregress

from privol import BanditMIOGD

DIM, LEAKAGE = 3, 0.5
HORIZONS = tuple(round(10 ** (k / 2)) for k in range(5, 13))
EXPONENTS = {1: 0.75, 2: 0.5}  # exponents of the theorem, by the number of values a row


def learner(values: int, key: int | None = None) -> BanditMIOGD:
    """Return the learner of an experiment."""
    return BanditMIOGD(
        loss="absolute", leakage=LEAKAGE, values=values, value_bounds=(0.0, 2.0), gradient_bound=1.0, step="horizon",
        fit_intercept=False, random_state=key,
    )  # fmt: skip


def regret(rows: int, values: int, key: int) -> float:
    """Return the regret of one run, averaged over the direction of each row's last query.

    The losses are linear, so the sum of the points suffices. The points are 0 and all released points but the last,
    shrunk towards 0 by the share of the radius that the distance takes.
    """
    run = learner(values, key)
    v = np.zeros(DIM)
    v[0] = 1.0
    run.fit(np.tile(v, (rows, 1)), np.ones(rows))
    distance = run.calibrate(DIM, rows).distance
    played = (rows * run.average_coef_ - run.coef_).ravel()
    return float(rows - (1.0 - distance) * played[0])


def slope(rows: FloatArray, regrets: FloatArray) -> tuple[float, float]:
    """Return the exponent of the best power law in the horizon and its standard error, by regression of logarithms.

    ``regrets`` has a row for each horizon and a column for each run.
    """
    x = np.repeat(np.log(rows), regrets.shape[1])
    found = linregress(x, np.log(regrets).ravel())
    return float(found.slope), float(found.stderr)


def main() -> None:
    given = arguments(__doc__, runs=20, page="local.md")
    horizons = HORIZONS[:3] if given.quick else HORIZONS
    figure = Figure(figsize=(6.5, 4.6), layout="constrained")
    axis = figure.subplots()
    measured, fitted = [], []
    for look, (values, exponent) in zip(LOOKS, EXPONENTS.items(), strict=False):
        name = f"{values} value{'s' if values > 1 else ''} a row"
        found = np.array([[regret(rows, values, key) for key in range(given.runs)] for rows in horizons])
        bounds = [learner(values).regret_bound(rows, DIM) for rows in horizons]
        say(name, found.mean(axis=1))
        power, error = slope(np.array(horizons, dtype=np.float64), found)
        last = np.array(horizons) >= horizons[-1] / 1000
        last_power, last_error = slope(np.array(horizons, dtype=np.float64)[last], found[last])
        fitted.append([name, f"{exponent:g}", f"{power:.4f} ± {error:.4f}", f"{last_power:.4f} ± {last_error:.4f}"])
        for rows, regrets, most in zip(horizons, found, bounds, strict=True):
            measured.append([name, f"{rows:,}", shown(list(regrets)), f"{most:.4g}"])
        colour = look["color"]
        axis.plot(horizons, bounds, "--", color=colour, marker=look["marker"], markerfacecolor="white", markersize=4,
                  label=f"{name}: the theorem's bound")  # fmt: skip
        means, spreads = found.mean(axis=1), [statistics.stdev(regrets) for regrets in found]
        axis.errorbar(horizons, means, yerr=spreads, linestyle="none", capsize=3, label=f"{name}: measured",
                      **{**look, "markersize": 6})  # fmt: skip
        shape = np.array(horizons) ** exponent
        through = shape * math.exp(float(np.mean(np.log(means / shape))))
        axis.plot(horizons, through, ":", color=colour, label=f"{name}: T to the power of {exponent:g}")
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("rows T")
    axis.set_ylabel("regret of the points asked for")
    axis.grid(alpha=0.2)
    axis.legend(fontsize=8)
    picture(figure, "bandit_regret.svg", given.page)
    head = ["feedback", "exponent of the theorem", "measured, all T", "measured, last three decades"]
    lines = [
        *table(["feedback", "T", "regret", "bound"], measured), "",
        "Slopes of the regression of log(regret) on log(T), with their standard errors:", "",
        *table(head, fitted),
    ]  # fmt: skip
    write("bandit_regret", lines, given.page)


if __name__ == "__main__":
    main()
