"""Derive the roundings of slopes, single gradients and sums of them, and compare the charges with what is derived.

The slopes follow by their formulas, which are those of the source or the program ends, from the error of the
exponential.
"""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

from verification.elementary import exponential_error
from verification.first_pass import DOUBLE, double, found
from verification.lanes import MOST_COLUMNS, charges

SOURCE = Path(__file__).parents[1] / "src" / "privol"
SLOPE = 28  # units that the proofs count for the slope: docs/proofs/leaders.md and gradients.md, 4
AFTER = 3  # weight, factor of the row, product with the row
MOST_BATCH = 2**20
SHAPE = (
    ("base/pv_math.h", "if (x >= 0.0) return 1.0 / (1.0 + pv_exp(-x)); double e = pv_exp(x); return e / (1.0 + e);"),
    ("losses/loss.c", "return -y * pv_sigmoid(-y * p);"),
    ("losses/loss.c", "return y * p < 1.0 ? -y : 0.0;"),
    ("losses/loss.c", "return -y * clamp((1.0 - y * p + loss->width) / (2.0 * loss->width), 0.0, 1.0);"),
    (
        "losses/loss.c",
        "static double squared_slope(const pv_loss *loss, double p, double y) { (void)loss; return p - y;",
    ),
    ("losses/loss.c", "return p > y ? 1.0 : (p < y ? -1.0 : 0.0);"),
    ("losses/loss.c", "{ return clamp(p - y, -loss->width, loss->width); }"),
    ("runs/leader.c", "const double g = weight * run->loss.slope(&run->loss, pv_predict(point, run, rows, i, f), y);"),
    ("runs/leader.c", "slopes[0] = g > most ? most : (g < -most ? -most : g);"),
    ("runs/leader.c", "rows->ops->scaled(rows, i, slopes[k] * f, w);"),
    ("runs/gradient.c", "double g = run->loss.slope(&run->loss, pv_predict(it->point, run, rows, i, f), y);"),
    ("runs/gradient.c", "rows->ops->axpy(rows, i, g * f, it->sum);"),
    ("runs/pv_run.h", "{ return square > 1e-290 ? bound / sqrt(square) : 0.0; }"),
)
MODULE_SHAPE = (
    ("_rounding.py", "return n / 8 + 8"),
    ("_rounding.py", "return 2 * (lanes(n) + 32) * UNIT"),
    ("_rounding.py", "return vector_excess(n) + 1.01 * batch * (batch + 1) * UNIT"),
    ("_rounding.py", "return (terms - 1) * UNIT"),
)


def slope_errors(exponential: Fraction) -> dict[str, Fraction]:
    """Return how far slopes are from those at the computed prediction, relative to the loss's largest, at most.

    Largest slopes are at least one half where they are absolute: at the prediction 0.
    """
    u = DOUBLE
    logistic = max(
        (1 + u) / ((1 - u) * (1 - exponential / 2)),  # 1 / (1 + e), e <= 1
        (1 + exponential) * (1 + u) / (1 - u),  # e / (1 + e)
    )
    # The smoothed hinge of width w: 1 - y p, beyond 2 w only cut, is within 2 w; then 3 w / 2 w, twice
    hinge = 2 * (u + Fraction(3, 2) * u * (1 + u) + Fraction(3, 2) * u * (1 + u) ** 2)
    return {"logistic": logistic - 1, "smoothed hinge": hinge, "squared, Huber": u, "hinge, absolute": Fraction(0)}


def gradient_error(slope: Fraction, lanes: Fraction) -> Fraction:
    """Return how far a gradient as computed is from the exact one, relative to the bound of its norm, at most.

    It is cut where it exceeds the bound over the computed norm, whose square is off by ``lanes`` units: root and
    quotient round too. Cut, it is as near to the exact one as the cut or the slope.
    """
    u = DOUBLE
    cut = 1 - (1 - u) / ((1 + u) * (1 + lanes * u / 2))  # sqrt(1 + x) <= 1 + x / 2
    weighted = (1 + slope) * (1 + u) - 1
    return (1 + max(weighted, cut)) * (1 + u) ** 2 - 1


def read() -> Fraction:
    """Return the charge of learners that follow a leader, in units; the sources may not have changed their shape."""
    texts = [(SOURCE / "_core" / "c" / path, line) for path, line in SHAPE]
    for path, line in [*texts, *((SOURCE / path, line) for path, line in MODULE_SHAPE)]:
        found(r"\s+".join(re.escape(part) for part in line.split()), path.read_text())
    leaders = (SOURCE / "calibration" / "_leaders.py").read_text()
    (units,) = found(r"rounding=\(([\d.]+) \+ 4 \* \(problem\.outputs - 1\)\) \* UNIT,", leaders)
    return double(units)


def report(leaders: Fraction | None = None, slope: int = SLOPE) -> list[str]:
    """Compare the charges with what is derived; one that is smaller ends the program."""
    u, module = DOUBLE, charges()
    found_leaders = read()
    exponential = exponential_error()
    slopes = slope_errors(exponential)
    for name, error in slopes.items():
        if error > slope * u:
            raise SystemExit(f"slopes: {slope} units are counted for {name}, derived are {float(error / u):.2f}")
    counted = (1 + slope * u) * (1 + u) ** AFTER - 1
    if counted > (leaders or found_leaders) * u:
        raise SystemExit(f"slopes: with their products they are {float(counted / u):.2f} units, more than is charged")
    # Of the number of roundings of a norm one side is a convex function and the other a linear one: the ends decide.
    for n in (1, MOST_COLUMNS):
        derived = 2 * gradient_error(slope * u, Fraction(module.lanes(n))) * (1 + 4 * u)
        if Fraction(module.vector_excess(n)) < derived:
            raise SystemExit(f"vector_excess({n}) is {module.vector_excess(n):.4g}, derived is {float(derived):.4g}")
    # Partial sum i of batch gradients, each up to 1 + 2^-20 bounds long, rounds by a unit of itself; in both streams.
    longest = 1 + gradient_error(slope * u, Fraction(module.lanes(MOST_COLUMNS)))
    power = 1 + MOST_BATCH * u + (MOST_BATCH * u) ** 2  # at least (1 + u)^batch
    if longest * power > double("1.01") * (1 - 4 * u):
        raise SystemExit("gradients_excess: 1.01 is too little")
    if max(slopes.values()) <= 3 * u:  # control: what two operations after the exponential round alone
        raise SystemExit("slopes: the control passes")
    return [
        f"logistic slope: within {float(slopes['logistic'] / u):.2f} units, "
        f"smoothed hinge: {float(slopes['smoothed hinge'] / u):.2f}, of {slope} that are counted",
        "vector_excess, gradients_excess: what is derived is charged, for up to 2^29 columns and 2^20 rows of a step",
    ]
