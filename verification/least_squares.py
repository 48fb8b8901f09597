"""Derive how far rounding moves the moments of a row, and compare the charge of least squares with it.

A row v, in units of its bound, is a scaled row times two factors; its moments are products of its entries, times the
root of 2 off the diagonal, and with a target. Everything here is relative to the length of the moments, or to the root
of 2, which is the largest one.
"""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

from verification.first_pass import DOUBLE, double, found
from verification.lanes import charges, excess
from verification.sources import pinned

SOURCE = Path(__file__).parents[1] / "src" / "privol"
CALIBRATION = SOURCE / "calibration" / "_least_squares.py"
ROOT = "1.4142135623730951"
EVALUATION = 1 - 4 * DOUBLE  # of a charge in doubles
PINNED = {
    ("_core/c/runs/pv_run.h", "pv_scale_row"): "7c36d174a9385722",
    ("_core/c/runs/least_squares.c", "place"): "7f5fc24a0316e0d8",
    ("_core/c/prefix/moments.inc.h", "MOMENTS"): "8fc1ecaba98f49a8",
    ("_core/c/prefix/ridge.c", "pv_all_moments"): "895ea69f126629d6",
    ("calibration/_least_squares.py", "_joint_sensitivity"): "6ebf5a249176424c",
}
SHAPE = (
    ("calibration/_sums.py", "excess = rounding + 2 * scaled_excess(dim)"),
    ("calibration/_sums.py", "ideal = min(ball, (ideal + excess * bound * (2.0 if replace else 1.0)) * UP)"),
    ("calibration/_least_squares.py", "bound=rows * math.hypot(rows, targets) * UP,"),
)


def read() -> tuple[Fraction, int]:
    """Return what is charged in units beside the number of coordinates, and the most coordinates."""
    pinned(PINNED)
    for path, line in SHAPE:
        found(r"\s+".join(re.escape(part) for part in line.split()), (SOURCE / path).read_text())
    text = CALIBRATION.read_text()
    (units,) = found(r"rounding=\(2 if published else 1\) \* \(dim \+ (\d+)\) \* UNIT,", text)
    (most,) = found(r"_MOST_COORDINATES = ([\d_]+)", text)
    return double(units), int(most)


def row_excess(lanes: Fraction) -> Fraction:
    """Return how much longer than 1 a row in unit bounds may be.

    The reciprocal of the row's bound, its product with the factor and the product with an entry round, beside what a
    scaled row rounds. The constant of an intercept is that reciprocal. That bounds are enlarged is not used.
    """
    return (1 + excess(lanes)) * (1 + DOUBLE) ** 3 - 1


def products_error() -> Fraction:
    """Return the relative error of a moment, given the computed row and target: two products and the root of 2."""
    root = Fraction(float(ROOT))
    if root**2 < 2:
        raise SystemExit("least squares: the root of 2 is rounded down")
    off = (root**2 / 2 - 1) / 2  # as sqrt(1 + x) <= 1 + x / 2
    return (1 + off) * (1 + DOUBLE) ** 2 - 1


def moved(e: Fraction) -> tuple[Fraction, Fraction, Fraction]:
    """Return how much more than the ideal a change is, in units of the root of 2.

    For "replace" (3 / 2 times it ideally), "zero_out" (1), and relative to twice the bound, as printed.
    """
    error = products_error() * (1 + e) ** 2
    longer = (1 + e) ** 2 - 1  # moments are quadratic in row and target
    return Fraction(3, 2) * longer + 2 * error, longer + error, longer + error


def shares(units: Fraction, dim: int, lanes: Fraction) -> dict[str, Fraction]:
    """Return what is derived as a share of what is charged, in each case."""
    charged, e = (dim + units) * DOUBLE * EVALUATION, row_excess(lanes)
    if 1 + e < (1 + DOUBLE) ** 2:  # a target in unit bounds
        raise SystemExit(f"least squares: targets of {dim} coordinates exceed rows")
    replaced, zeroed, printed = moved(e)
    return {"replace": replaced / (2 * charged), "zero_out": zeroed / charged, "published": printed / (2 * charged)}


def report(units: Fraction | None = None) -> list[str]:
    """Compare the charge with what is derived; one that is smaller ends the program."""
    found_units, most = read()
    module, largest = charges(), Fraction(0)
    # what is derived is convex in the number of coordinates and what is charged is linear: the ends decide
    for dim in (1, most):
        lanes = Fraction(module.lanes(dim))
        if row_excess(lanes) > 4 * (Fraction(dim, 8) + 16) * DOUBLE:  # what the proof goes on with
            raise SystemExit(f"least squares: a row of {dim} columns is longer than the proof says")
        for name, share in shares(found_units if units is None else units, dim, lanes).items():
            if share > 1:
                raise SystemExit(
                    f"least squares, {name}: derived is {float(share):.2f} of the charge for {dim} columns"
                )
            largest = max(largest, share)
    if max(shares(Fraction(0), 1, Fraction(module.lanes(1))).values()) <= 1:  # control: a unit for each coordinate
        raise SystemExit("least squares: the control passes")
    return [
        f"moments of a row: derived is at most {float(largest):.2f} of what is charged, for up to {most} coordinates"
    ]
