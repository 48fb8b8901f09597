"""Zhang and Venkitasubramaniam 2018: regret by horizon and by leakage, computed, measured and bounded.

The settings of figures 3 and 4: one dimension, with set, gradients and noise of size 1. The paper names neither data
nor stream, so a simple worst case is used: ``f_t(w) = |2 - w|`` on [-1, 1], whose gradient is -1 everywhere, so that
the regret is known exactly.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import ndtr

from ..learners import MIOGD
from .verdicts import Figure, Line, Measured, Panel, Setting, Table, against, shown, trend

__all__ = ["BITS", "FIGURES", "HORIZONS", "ROWS", "bound", "exact_regret", "measured_regret", "sigma_of"]

HORIZONS = (1, 4, 25, 100, 400, 1_600, 6_400, 25_600)
BITS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0)
ROWS = 25  # in figure 4
EXACT = 1e-9  # tolerance for computed values: only rounding


def clipped_mean(mean: float, std: float) -> float:
    """Return the mean of a normal variable clipped to [-1, 1]."""
    if std == 0.0:
        return min(max(mean, -1.0), 1.0)
    a, b = (-1.0 - mean) / std, (1.0 - mean) / std

    def density(x: float) -> float:
        return math.exp(-x * x / 2.0) / math.sqrt(2.0 * math.pi)

    inside = mean * (ndtr(b) - ndtr(a)) + std * (density(a) - density(b))
    return float(ndtr(-b) - ndtr(a) + inside)


def exact_regret(rows: int, sigma: float) -> float:
    """Return the expected regret on the stream, with the theorem's step for this horizon."""
    step = 1.0 / math.sqrt((1.0 + sigma**2) * rows)
    return sum(1.0 - clipped_mean(step * t, step * sigma * math.sqrt(t)) for t in range(rows))


def measured_regret(rows: int, sigma: float, key: int) -> float:
    """Return the regret of one run, whose points are 0 and all released points but the last."""
    learner = MIOGD(
        loss="absolute", sigma=sigma, radius=1.0, y_bound=2.0, step="horizon", fit_intercept=False, random_state=key
    ).fit(np.ones((rows, 1)), np.full(rows, 2.0))
    return float(rows - (rows * learner.average_coef_ - learner.coef_).item())


def bound(rows: int, sigma: float) -> float:
    """Return the theorem's bound as the learner states it."""
    noise: dict[str, Any] = {"sigma": sigma} if sigma > 0.0 else {"leakage": math.inf}
    return MIOGD(loss="absolute", step="horizon", fit_intercept=False, **noise).regret_bound(rows, 1)


def sigma_of(bits: float) -> float:
    """Return the noise scale for a leakage."""
    learner = MIOGD(loss="absolute", leakage=bits * math.log(2.0), fit_intercept=False)
    return learner.calibrate(1, ROWS).report.deviation


def _bounded(found: list[list[float]], bounds: list[float], by: list[str]) -> list[str]:
    """Return where a mean exceeds its bound by more than three standard errors."""
    above = []
    for values, most, name in zip(found, bounds, by, strict=True):
        error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
        if np.mean(values) - 3.0 * error > most:
            above.append(name)
    return above


def figure_3(setting: Setting) -> Measured:
    """Regret by horizon, with noise of half a bit a report, and without noise."""
    horizons = HORIZONS[:4] if setting.quick else HORIZONS
    found = [[measured_regret(rows, 1.0, key) for key in range(setting.runs)] for rows in horizons]
    plain = [exact_regret(rows, 0.0) for rows in horizons]
    bounds = [bound(rows, 1.0) for rows in horizons]
    exact = [exact_regret(rows, 1.0) for rows in horizons]
    rows = tuple(
        (f"{n:,}", f"{e:.6g}", shown(values), f"{b:.6g}", f"{p:.6g}", f"{bound(n, 0.0):.6g}")
        for n, e, values, b, p in zip(horizons, exact, found, bounds, plain, strict=True)
    )
    above = _bounded(found, bounds, [f"T = {n}" for n in horizons])
    power = math.log(np.mean(found[-1]) / np.mean(found[-2])) / math.log(horizons[-1] / horizons[-2])
    checks = (
        *(against(f"bound with noise, T = {n:,}", math.sqrt(2 * n), [b], EXACT * n)
          for n, b in zip(horizons, bounds, strict=True)),
        *(against(f"bound without noise, T = {n:,}", math.sqrt(n), [bound(n, 0.0)], EXACT * n) for n in horizons),
        against("leak of a report, nats", 0.5 * math.log(2.0), [_leak(1.0)], 1e-6),
        trend("the regret is within the bound", not above, ", ".join(above) or "at all T"),
        trend("regret below the number of rows in the long run: exponent of T below 1", power < 0.9,
              f"{power:.3f} at the last T"),
        trend("privacy costs regret from T = 4 on", all(np.mean(v) > p for v, p in
              zip(found[1:], plain[1:], strict=True)), f"{np.mean(found[-1]) / plain[-1]:.2f} times at the last T"),
    )  # fmt: skip
    lines = (
        Line.of("measured, sigma = 1", horizons, found),
        Line("exact, sigma = 1", horizons, tuple(exact), kind="bound"),
        Line("exact, no noise", horizons, tuple(plain), kind="bound"),
        Line("paper: bound, sigma = 1", horizons, tuple(math.sqrt(2 * n) for n in horizons), kind="source"),
        Line("paper: bound, no noise", horizons, tuple(math.sqrt(n) for n in horizons), kind="source"),
    )
    head = ("T", "exact", "measured", "bound", "exact, no noise", "its bound")
    return Measured((Table("", head, rows),), (Panel("regret by rows", "rows T", "regret", lines),), checks)


def _leak(sigma: float) -> float:
    """Return the leakage in nats that the learner states for its reports."""
    learner = MIOGD(loss="absolute", sigma=sigma, fit_intercept=False)
    leakage = learner.calibrate(1, ROWS).report.leakage
    assert leakage is not None
    return float(leakage)


def figure_4(setting: Setting) -> Measured:
    """Regret over 25 rows by the leakage of a report."""
    sigmas = [sigma_of(bits) for bits in BITS]
    found = [[measured_regret(ROWS, sigma, key) for key in range(setting.runs)] for sigma in sigmas]
    bounds = [bound(ROWS, sigma) for sigma in sigmas]
    printed = [5.0 / math.sqrt(-math.expm1(-2.0 * bits * math.log(2.0))) for bits in BITS]
    rows = tuple(
        (f"{bits:g}", f"{sigma**2:.6g}", f"{exact_regret(ROWS, sigma):.6g}", shown(values), f"{most:.6g}")
        for bits, sigma, values, most in zip(BITS, sigmas, found, bounds, strict=True)
    )
    above = _bounded(found, bounds, [f"{bits:g} bits" for bits in BITS])
    means = [float(np.mean(values)) for values in found]
    checks = (
        *(against(f"bound, {bits:g} bits", source, [most], 1e-6 * source)
          for bits, source, most in zip(BITS, printed, bounds, strict=True)),
        trend("the regret is within the bound", not above, ", ".join(above) or "at all leakages"),
        trend("the more may leak, the less regret", all(np.diff(means) < 0.0),
              f"from {means[0]:.3g} to {means[-1]:.3g}"),
    )  # fmt: skip
    fine = tuple(np.geomspace(BITS[0], BITS[-1], 40).tolist())
    lines = (
        Line.of("measured", BITS, found),
        Line("exact", fine, tuple(exact_regret(ROWS, sigma_of(bits)) for bits in fine), kind="bound"),
        Line("exact, no noise", (fine[0], fine[-1]), (exact_regret(ROWS, 0.0),) * 2, kind="bound"),
        Line("paper: bound", BITS, tuple(printed), kind="source"),
    )
    head = ("bits a report", "sigma squared", "exact", "measured", "bound")
    panel = Panel("regret of 25 rows by leakage", "leakage of a report, bits", "regret", lines, log_y=False)
    return Measured((Table("", head, rows),), (panel,), checks)


_CHOSEN = (
    "the stream, `|2 - w|` in each row on [-1, 1], which is the worst simple one. Only the curves of the bounds are "
    "the paper's, so the numbers that are compared are of these; the regret is compared in trend."
)

FIGURES = (
    Figure(
        "zhang2018", "fig. 3", "regret of MIOGD by rows, d = L = B = sigma = 1", "1 to 25,600 rows", 400, 0.3,
        figure_3, chosen=_CHOSEN,
        why="The bound is twice the regret of this stream for long runs. What leaks is per report, and no differential "
        "privacy: ZV-1 and ZV-2 in docs/errata.md.",
    ),
    Figure(
        "zhang2018", "fig. 4", "regret of MIOGD by leakage, d = B = 1, T = 25", "25 rows, 0.05 to 3 bits a report",
        400, 0.1, figure_4, chosen=_CHOSEN, why="L = 1 is taken, as in fig. 3.",
    ),
)  # fmt: skip
