"""Regret of mutual-information-private descent: by the horizon, and by the leakage; computed, measured and bounded.

    python experiments/local_regret.py [--quick] [--runs 400]

The settings of figures 3 and 4 of Zhang and Venkitasubramaniam: one dimension, set, gradients and noise of size 1. They
name neither data nor stream, so this is the worst simple one: ``f_t(w) = |2 - w|`` on [-1, 1], whose gradient is -1
everywhere, so that the regret is known exactly. A quarter of a minute.
"""

from __future__ import annotations

import math
import statistics

import numpy as np
from common import arguments, picture, say, shown, table, write
from matplotlib.figure import Figure
from scipy.stats import norm

from privol import MIOGD

HORIZONS = (1, 4, 25, 100, 400, 1_600, 6_400, 25_600)
BITS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0)
ROWS = 25  # of the trade-off


def clipped_mean(mean: float, std: float) -> float:
    """Return the mean of a normal number that is clipped to [-1, 1]."""
    if std == 0.0:
        return min(max(mean, -1.0), 1.0)
    a, b = (-1.0 - mean) / std, (1.0 - mean) / std
    inside = mean * (norm.cdf(b) - norm.cdf(a)) + std * (norm.pdf(a) - norm.pdf(b))
    return float(norm.cdf(-b) - norm.cdf(a) + inside)


def exact_regret(rows: int, sigma: float) -> float:
    """Return the expected regret of the stream, with the theorem's step for so many rows."""
    step = 1.0 / math.sqrt((1.0 + sigma**2) * rows)
    return sum(1.0 - clipped_mean(step * t, step * sigma * math.sqrt(t)) for t in range(rows))


def measured_regret(rows: int, sigma: float, key: int) -> float:
    """Return the regret of one run: the points played are 0 and all released ones but the last."""
    learner = MIOGD(
        loss="absolute", sigma=sigma, radius=1.0, y_bound=2.0, step="horizon", fit_intercept=False, random_state=key
    ).fit(np.ones((rows, 1)), np.full(rows, 2.0))
    return float(rows - (rows * learner.average_coef_ - learner.coef_).item())


def bound(rows: int, sigma: float) -> float:
    """Return the theorem's bound, by the learner that has it."""
    return MIOGD(loss="absolute", sigma=sigma, step="horizon", fit_intercept=False).regret_bound(rows, 1)


def sigma_of(bits: float) -> float:
    """Return the noise of a leakage."""
    learner = MIOGD(loss="absolute", leakage=bits * math.log(2.0), fit_intercept=False)
    return learner.calibrate(1, ROWS).report.deviation


def main() -> None:
    given = arguments(__doc__, runs=400, page="local.md")
    keys = range(given.runs)
    horizons = HORIZONS[:4] if given.quick else HORIZONS
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    by_horizon, by_leakage, means, spreads = [], [], [], []
    for rows in horizons:
        found = [measured_regret(rows, 1.0, key) for key in keys]
        means.append(statistics.mean(found))
        spreads.append(statistics.stdev(found))
        plain = exact_regret(rows, 0.0)
        by_horizon.append(
            [f"{rows:,}", f"{exact_regret(rows, 1.0):.6g}", shown(found), f"{bound(rows, 1.0):.6g}", f"{plain:.6g}",
             f"{math.sqrt(rows):.6g}"]
        )  # fmt: skip
        say(*by_horizon[-1])
    left.errorbar(horizons, means, yerr=spreads, fmt="o", capsize=3, label=f"measured, {given.runs} runs")
    left.plot(horizons, [exact_regret(rows, 1.0) for rows in horizons], label="exact")
    left.plot(horizons, [bound(rows, 1.0) for rows in horizons], "--", label="the theorem's bound")
    left.plot(horizons, [exact_regret(rows, 0.0) for rows in horizons], color="grey", label="exact, no noise")
    left.plot(horizons, np.sqrt(horizons), "--", color="grey", label="its bound")
    left.set_xscale("log")
    left.set_yscale("log")
    left.set_xlabel("rows T (sigma = 1: half a bit a report)")
    left.set_ylabel("regret")
    means, spreads = [], []
    for bits in BITS:
        sigma = sigma_of(bits)
        found = [measured_regret(ROWS, sigma, key) for key in keys]
        means.append(statistics.mean(found))
        spreads.append(statistics.stdev(found))
        by_leakage.append(
            [f"{bits:g}", f"{sigma**2:.6g}", f"{exact_regret(ROWS, sigma):.6g}", shown(found),
             f"{bound(ROWS, sigma):.6g}"]
        )  # fmt: skip
        say(*by_leakage[-1])
    fine = np.geomspace(BITS[0], BITS[-1], 60)
    right.errorbar(BITS, means, yerr=spreads, fmt="o", capsize=3, label=f"measured, {given.runs} runs")
    right.plot(fine, [exact_regret(ROWS, sigma_of(bits)) for bits in fine], label="exact")
    right.plot(fine, [bound(ROWS, sigma_of(bits)) for bits in fine], "--", label="the theorem's bound")
    right.axhline(exact_regret(ROWS, 0.0), color="grey", label="exact, no noise")
    right.set_xscale("log")
    right.set_xlabel(f"leakage of a report, bits ({ROWS} rows)")
    for axis in (left, right):
        axis.grid(alpha=0.2)
        axis.legend(fontsize=8)
    picture(figure, "local_regret.svg", given.page)
    lines = [
        "sigma = 1, by the rows T:", "",
        *table(["T", "exact", "measured", "bound", "exact, no noise", "its bound"], by_horizon), "",
        f"{ROWS} rows, by the leakage:", "",
        *table(["bits a report", "sigma squared", "exact", "measured", "bound"], by_leakage),
    ]  # fmt: skip
    write("local_regret", lines, given.page)


if __name__ == "__main__":
    main()
