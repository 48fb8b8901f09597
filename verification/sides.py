"""Derive what the side of a cap must allow for roundings, and compare the C source with it.

Decided is the sign of <z, v> - gamma |z| |v| as computed, where it exceeds an allowance: that for the errors of z,
which is at least twice its part, and that for roundings. Both are compared for up to 2^31 coordinates, relative to
|z| |v|. Sums are taken in any order. Underflow is not followed.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from verification.first_pass import DOUBLE, double, found
from verification.sources import pinned

FILE = "_core/c/reports/report.c"
SOURCE = Path(__file__).parents[1] / "src" / "privol" / FILE
MOST = 2**31
PINNED = {
    (FILE, "pv_report_coins_of"): "3e67963ba8acf456",
    (FILE, "decided"): "362d44f6b513d16e",
    (FILE, "quick_side"): "5061b35cc8b08084",
    (FILE, "side_of"): "956912988bb842ca",
}


def read() -> tuple[Fraction, Fraction, Fraction]:
    """Return what is allowed: units for each coordinate, coordinates more, and the factor of the errors of z."""
    pinned(PINNED)
    text = SOURCE.read_text()
    more, unit = found(r"relative = \(\(double\)plan->d \+ ([\d.]+)\) \* (0x1p-\d+);", text)
    (factor,) = found(r"error = 2\.0 \* norm \* \(wrong \* \(1\.0 \+ (0x1p-\d+)\) \+ length \* relative\);", text)
    return double(unit), double(more), double(factor)


def powers(roundings: Fraction) -> Fraction:
    """Return a bound of ``(1 + u)^roundings - 1``, for fewer than 1 / u."""
    return roundings * DOUBLE / (1 - roundings * DOUBLE)


def derived(dim: int) -> tuple[Fraction, Fraction, Fraction]:
    """Return how far the difference is off, how much too short a length may be computed, and the same of its error.

    All are relative: the first to |z| |v|, of which product and lengths are at most that, and gamma at most 1.
    """
    u = DOUBLE
    sums = powers(Fraction(dim))  # a product and up to d - 1 additions
    # roots of sums, as sqrt(1 + x) <= 1 + x / 2 and sqrt(1 - x) >= 1 - x for 0 <= x <= 1
    long, brief = (1 + sums / 2) * (1 + u), (1 - u) * (1 - sums / 2 - sums**2)
    lengths = long**2 * (1 + u) ** 2  # gamma |z| |v|: two products
    difference = sums + (lengths - 1) + u * (1 + sums + lengths)
    # of the error: squares and their sum under a root; or a product and a root each, and their sum
    return difference, 1 - brief, max(1 - brief, 1 - (1 - sums / 2 - sums**2) * (1 - u) ** 3)


def short(unit: Fraction, more: Fraction, factor: Fraction, dim: int) -> list[str]:
    """Return which allowances are too small: both are products and sums that round, at most five times each."""
    difference, brief, wrong = derived(dim)
    kept, failed = (1 - DOUBLE) ** 5 * (1 - brief), []  # times |v| as computed
    if 2 * kept * (1 - brief) * (dim + more) * unit < difference:
        failed.append("roundings")
    if kept * (1 - wrong) * (1 + factor) < 1:
        failed.append("errors of z")
    return failed


def report(changed: tuple[Fraction, Fraction, Fraction] | None = None) -> list[str]:
    """Compare the allowances with what is derived; one that is too small ends the program."""
    unit, more, factor = changed or read()
    # what is derived is convex in the number of coordinates, what is allowed nearly linear
    for dim in (1, 2, MOST):
        if failed := short(unit, more, factor, dim):
            raise SystemExit(f"sides: derived is more than is allowed for {', '.join(failed)} in {dim} dimensions")
    # controls: a quarter of the units, and no factor
    if short(unit / 4, Fraction(0), Fraction(0), MOST) != ["roundings", "errors of z"]:
        raise SystemExit("sides: the control passes")
    shares = [derived(dim)[0] / (2 * (dim + more) * unit) for dim in (1, 2, MOST)]
    return [
        f"side of a cap: derived is at most {float(max(shares)):.2f} of what is allowed, for up to 2^31 coordinates"
    ]
