"""Count the roundings of a sum over columns in the lanes of the C source, and compare ``privol._rounding`` with them.

A term rounds as a product, with every addition into its lane but the first (to 0, exact), and in the additions that
join the lanes, whose depth is that of the expression in the source. ``scaled_excess`` follows in exact rationals.
"""

from __future__ import annotations

import importlib.util
import math
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from types import ModuleType

from verification.first_pass import DOUBLE, double, found

SOURCE = Path(__file__).parents[1] / "src" / "privol"
AROUND = 4  # scalar operations around a sum: docs/proofs/iterates.md, 4
MOST_COLUMNS = 2**29
SPARE = 50  # roundings of a vector before it is clipped, which the clip's charge has to cover too


def charges() -> ModuleType:
    """Return the module of charges, which needs nothing that is installed."""
    spec = importlib.util.spec_from_file_location("_charges", SOURCE / "_rounding.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read() -> tuple[int, int]:
    """Return the number of lanes and how many additions deep the expression is that joins them."""
    source = (SOURCE / "_core" / "c" / "rows" / "rows.c").read_text()
    (number,) = found(r"#define LANES (\d+)", source)
    (joined,) = found(r"double reduce\(const double a\[LANES\]\) \{\s+return (.+);", source)
    found(r"(for \(; j < n; \+\+j\) acc\[j % LANES\] \+= \(double\)a\[j\] \* \(double\)b\[j\];)", source)
    if sorted(map(int, re.findall(r"a\[(\d+)\]", joined))) != list(range(int(number))):
        raise SystemExit(f"not every lane is joined once: {joined}")
    depth = 0
    while joined != "x":
        joined, count = re.subn(r"\(x \+ x\)|^x \+ x$", "x", re.sub(r"a\[\d+\]", "x", joined))
        depth += 1
        if not count:
            raise SystemExit(f"lanes are joined by another expression than sums of two: {joined}")
    return int(number), depth


def roundings(n: int, number: int, depth: int) -> int:
    """Return how many roundings a term of a sum of ``n`` products has, at most, with those around it."""
    return 1 + (math.ceil(Fraction(n, number)) - 1) + depth + AROUND


def excess(units: Fraction) -> Fraction:
    """Return how far a row that is scaled by bound over its computed norm exceeds the bound, relative to it, at most.

    A computed square is at least ``(1 - u)^units`` of the real one. Root, quotient and product round once each.
    """
    u = DOUBLE
    least = (1 - u * units) * (1 - u) ** 2  # of the square; the root's own rounding, squared
    # at most its root, as sqrt(1 - e) >= 1 - e/2 - e^2 for 0 <= e <= 1; concave in e, and so in units
    root = 1 - (1 - least) / 2 - (1 - least) ** 2
    return (1 + u) ** 2 / root - 1  # convex, as root is concave and positive


def check_clip() -> float:
    """Compare ``clip_excess`` with what the clip of reports is derived to exceed; return the largest share."""
    source = (SOURCE / "_core" / "c" / "reports" / "report.c").read_text()
    found(r"(sum\[k\] \+= \(x\[j \+ k\] \* f\) \* \(x\[j \+ k\] \* f\);)", source)
    found(r"(double s = square > limit \* limit \? limit / sqrt\(square\) : 1\.0;)", source)
    found(r"(for \(int64_t j = 0; j < d; \+\+j\) v\[j\] = x\[j\] \* s;)", source)
    calibration = (SOURCE / "calibration" / "_reports.py").read_text()
    units, second_order = found(r"return \(dim \+ (\d+)\) \* UNIT \* \(1\.0 \+ ([\de-]+)\)", calibration)
    found(r"(dim = integer\(dim=dim, at_least=1, at_most=1 << 31\))", calibration)
    shares = []
    for dim in (1, 2**31):  # convex and linear, as above
        # a product and at most as many additions as there are terms, and of the limit's square
        derived = (1 + excess(Fraction(dim + 2))) * (1 + DOUBLE) - 1 + SPARE * DOUBLE
        charged = (dim + int(units)) * DOUBLE * (1 + double(second_order)) * (1 - 4 * DOUBLE)
        if charged < derived:
            raise SystemExit(f"clip_excess({dim}) is {float(charged):.4g}, derived is {float(derived):.4g}")
        shares.append(float(derived / charged))
    return max(shares)


def report(lanes: Callable[[int], float] | None = None) -> list[str]:
    """Compare the charges with what is derived for every size; one that is smaller ends the program."""
    module = charges()
    number, depth = read()
    lanes = lanes or module.lanes
    # both grow by one for as many columns as there are lanes more: a period decides for all sizes
    for n in range(1, 4 * number + 1):
        if Fraction(lanes(n + number)) - Fraction(lanes(n)) != 1:
            raise SystemExit(f"lanes({n}): is not linear")
        if Fraction(lanes(n)) < roundings(n, number, depth):
            raise SystemExit(f"lanes({n}) is {lanes(n)}, derived are {roundings(n, number, depth)}")
    # What is derived is convex in the roundings, which grow with n / 8, and what is charged is linear: the ends decide.
    rounding = (SOURCE / "_rounding.py").read_text()
    found(re.escape("return n / 8 + 8"), rounding)
    found(re.escape("return 2 * (lanes(n) + 8) * UNIT"), rounding)
    shares = []
    for n in (1, MOST_COLUMNS):
        derived, charged = excess(Fraction(lanes(n))), Fraction(module.scaled_excess(n))
        if charged < derived:
            raise SystemExit(f"scaled_excess({n}) is {float(charged):.4g}, derived is {float(derived):.4g}")
        if lanes(n) * DOUBLE / 2 >= derived:  # control: without root, quotient and product
            raise SystemExit("scaled_excess: the control passes")
        shares.append(float(derived / charged))
    return [
        f"lanes: {number} lanes joined {depth} deep; charged for 54 columns {lanes(54)}, "
        f"derived {roundings(54, number, depth)}",
        f"scaled_excess: derived is at most {max(shares):.2f} of what is charged, for all sizes up to 2^29",
        f"clip_excess: derived, with {SPARE} units to spare, is at most {check_clip():.2f} of what is charged",
    ]
