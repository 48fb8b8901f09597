"""Derive how far cosine and sine of a time in its cycle are off, and what rows of an encoding exceed their norms by.

A time's part of a turn has a known cosine and sine; the rest turns them. What the polynomials of the rest round is
followed operation by operation, as for the exponential; then come two products, their difference or sum, the known
value, and the factor that shrinks both.
"""

from __future__ import annotations

import ast
import math
import re
from fractions import Fraction
from pathlib import Path

from verification.elementary import Value, evaluated
from verification.first_pass import DOUBLE, double, found
from verification.sources import pinned

SOURCE = Path(__file__).parents[1] / "src" / "privol"
FILE = "_core/c/cells/cycles.c"
KNOWN = 2 * DOUBLE  # error of a known value, by the interface
COUNTED = Fraction(1, 2**50)  # of each value, in the proof
WHOLE = 2**31  # features of a row, at most
PINNED = {
    (FILE, "nearest"): "d8080ad3b85c7e6e",
    (FILE, "pv_cycles"): "70f35152a1d6a96c",
}
SHAPE = (
    ("encoding/frequent.py", "_ABOVE = 1.0 + 2.0**-21"),
    ("encoding/frequent.py", "values *= OF_KEPT"),
)
# bounds of pi: 355 / 113 is above it by less than 3e-7
PI_BELOW, PI_ABOVE = Fraction(31415926535897932, 10**16), Fraction(31415926535897933, 10**16)


def of_rest() -> tuple[Value, Value, Fraction, Fraction]:
    """Return sine and cosine - 1 of the rest, and how far their series are from both."""
    text = (SOURCE / FILE).read_text()
    (constant,) = map(double, found(r"#define TWO_PI ([\d.]+)", text))
    header = (SOURCE / "_core" / "c" / "cells" / "pv_cycles.h").read_text()
    (parts,) = map(int, found(r"#define PV_TURN (\d+)", header))
    # half a part; the nearest part is that of a product with three roundings, of less than two turns
    reach = PI_ABOVE / parts * (1 + 8 * parts * DOUBLE)
    # a quotient and a product round; the rest itself is exact
    off = max(abs(constant / (2 * PI_BELOW) - 1), abs(constant / (2 * PI_ABOVE) - 1))
    relative = (1 + off) * (1 + DOUBLE) ** 2 - 1
    x = Value((Fraction(0), Fraction(1)), relative * reach, reach)
    names = {"x": x, "y": x.times(x)}
    (sine,) = found(r"const double s = (.+);", text)
    (cosine,) = found(r"const double c = (.+); /\*", text)
    s, c = (evaluated(ast.parse(each, mode="eval").body, names, reach) for each in (sine, cosine))
    for value, first in ((s, 1), (c, 2)):
        series = [
            Fraction((-1) ** (k // 2), math.factorial(k)) if k % 2 == first % 2 else 0 for k in range(len(value.ideal))
        ]
        if first == 2:
            series[0] = 0
        if list(value.ideal) != series:
            raise SystemExit("cycles: a polynomial is not the series")
    # the first term left out bounds an alternating series
    degree = len(s.ideal) + 1
    return s, c, reach**degree / math.factorial(degree), reach ** (degree - 1) / math.factorial(degree - 1)


def value_error() -> Fraction:
    """Return a bound of the error of cosine and sine, without the factor that shrinks them."""
    u = DOUBLE
    s, c, beyond_s, beyond_c = of_rest()
    known = 1 + KNOWN
    errors, sizes = Fraction(0), Fraction(0)
    for value, beyond in ((s, beyond_s), (c, beyond_c)):
        size = value.size + value.error
        # a known value times the polynomial: both are off, and the product rounds
        errors += known * (value.error + beyond) + KNOWN * value.size + u * known * size
        sizes += known * size * (1 + u)
    together = errors + u * sizes
    longest = known + sizes * (1 + u)  # and its product with the factor
    return KNOWN + together + 2 * u * longest * (1 + u)


def short(shrunk: Fraction, counted: Fraction) -> list[str]:
    """Return what is too small: the error that is counted, or the factor, for squares that add up to 1 at most."""
    failed = []
    if value_error() > counted:
        failed.append("error")
    # both values at once: a vector of length 1 and one of at most sqrt(2) errors, sqrt(2) < 3 / 2
    if shrunk * (1 + Fraction(3, 2) * counted) > 1:
        failed.append("factor")
    return failed


def norms() -> tuple[Fraction, Fraction]:
    """Return the largest norms of a row that was divided by its own, and of both parts of one, squared: at most 1."""
    for path, line in SHAPE:
        found(f"({re.escape(line)})", (SOURCE / path).read_text())
    kept, sketch = found(r"OF_KEPT, OF_SKETCH = ([\d.]+), ([\d.]+)", (SOURCE / "encoding" / "sketch.py").read_text())
    u, above = DOUBLE, 1 + Fraction(1, 2**21)
    # a square and its sum, in any order; its root, the product with the factor, the quotient
    sums = WHOLE * u / (1 - WHOLE * u)
    least = (1 - sums / 2 - sums**2) * (1 - u) ** 2 * above
    one = (1 + u) / least
    shares = Fraction(float(kept)) ** 2 + Fraction(float(sketch)) ** 2
    return one, shares * (one * (1 + u)) ** 2


def report(shrunk: Fraction | None = None, counted: Fraction = COUNTED) -> list[str]:
    """Compare factor and error with what is derived; one that is too small ends the program."""
    pinned(PINNED)
    (power,) = found(r"#define SHRUNK \(1\.0 - 0x1p-(\d+)\)", (SOURCE / FILE).read_text())
    shrunk = 1 - Fraction(1, 2 ** int(power)) if shrunk is None else shrunk
    if failed := short(shrunk, counted):
        raise SystemExit(f"cycles: derived is more than is counted for the {failed[0]}")
    one, both = norms()
    if one * (1 + Fraction(1, 2**22)) > 1 or both > 1 or (1 - DOUBLE) * (1 + DOUBLE) >= 1:
        raise SystemExit("cycles: a row that was divided by its norm is too long")
    # control: known values and last sum alone, and no factor
    if short(Fraction(1), 3 * DOUBLE) != ["error", "factor"]:
        raise SystemExit("cycles: the control passes")
    return [
        f"cosine and sine of a cycle: within {float(value_error() / DOUBLE):.2f} units, of "
        f"{float(counted / DOUBLE):g} that are counted; their squares add up to 1 at most",
        f"a row divided by its norm: at most 1 - {float((1 - one) * 2**22):.2f} 2^-22 long, for up to 2^31 features",
    ]
