"""Derive the allowances of the first pass of the noise, and compare those of the C source with them.

Decided is what satisfies ``off < limit - relative product`` as computed. That must imply that the ideal sum is within
one half of the integer that is released. The gap between both is multilinear in the scale, its uncertainty and the
product (or z), so over a box it is least at a corner: every corner is computed in exact rationals, with every rounding
at its worst. The bound of z itself (most, error, floor) comes from the exhaustive check of the 2^31 digits and is read.
"""

from __future__ import annotations

import itertools
import re
import struct
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

NOISE = Path(__file__).parents[1] / "src" / "privol" / "_core" / "c" / "noise"
SINGLE, DOUBLE = Fraction(1, 2**24), Fraction(1, 2**53)
HALF, NONE = Fraction(1, 2), Fraction(0)
LEAST_SCALE = Fraction(2**10)  # of the lattice: 2^10 h <= scale
MOST_UNCERTAINTY = Fraction(1, 2**10)


@dataclass(frozen=True)
class Bound:
    """What is known of z, and of the law it belongs to."""

    name: str
    most: Fraction
    error: Fraction
    floor: Fraction


@dataclass(frozen=True)
class Allowances:
    """Numbers of the source: factor of error and floor, and what is added for roundings."""

    relative_factor: Fraction
    relative_added: Fraction
    limit_factor: Fraction
    limit_added: Fraction


def single(text: str) -> Fraction:
    """Return the value of a float literal without its suffix."""
    value = float.fromhex(text) if "x" in text else float(text)
    return Fraction(struct.unpack("f", struct.pack("f", value))[0])


def double(text: str) -> Fraction:
    """Return the value of a double literal."""
    return Fraction(float.fromhex(text) if "x" in text else float(text))


def found(pattern: str, text: str) -> tuple[str, ...]:
    """Return the groups of the one place that matches; the source may not have changed its shape."""
    places = re.findall(pattern, text)
    if len(places) != 1:
        raise SystemExit(f"{len(places)} places in the source match {pattern!r}: derive the allowances anew")
    return places[0] if isinstance(places[0], tuple) else (places[0],)


def read() -> tuple[list[Bound], list[Bound], Allowances, Allowances, Fraction]:
    """Return bounds and allowances of the single-precision levels and of x86-64-v4, and the largest scale."""
    source = (NOISE / "first_pass.c").read_text()
    number = r"([0-9a-fx.p+-]+?)f"
    law = rf"\{{{number}, {number}, {number}, UINT32_C"
    gaussian = Bound("Gaussian", *map(single, found(r"bounds\[PV_LAWS\] = \{" + law, source)))
    wide = Bound("Gaussian, v4", *map(single, found(r"bounds_v4\[PV_LAWS\] = \{" + law, source)))
    others = Bound("Laplace, exponential", *map(single, found("EXPONENTIALS " + law, source)))
    narrow = (NOISE / "first_pass.inc.h").read_text()
    relative = found(rf"relative = \(bound->error \+ \(float\)uncertainty\) \* {number} \+ {number};", narrow)
    limit = found(rf"limit = 0\.5f - \(scale \* \(bound->floor \* {number}\) \+ {number}\);", narrow)
    found(r"const float scale = \(float\)b, most = scale \* \(bound->most \* 0\.999f\);", narrow)
    v4 = (NOISE / "first_pass_v4.inc.h").read_text()
    (factor,) = found(r"_mm512_set1_pd\(b \* \(\(double\)bound->error \+ uncertainty\) \* ([0-9.]+)\);", v4)
    limit_v4 = found(r"0\.5 - \(b \* \(\(double\)bound->floor \* ([0-9.]+)\) \+ (0x1p-\d+)\)", v4)
    (widest,) = found(r"#define PV_FIRST_PASS_WIDEST ([0-9.]+)", (NOISE / "pv_first_pass.h").read_text())
    return (
        [gaussian, others],
        [wide, others],
        Allowances(*map(single, relative), *map(single, limit)),
        Allowances(double(factor), Fraction(0), *map(double, limit_v4)),
        double(widest),
    )


def single_margin(bound: Bound, a: Allowances, widest: Fraction) -> Fraction:
    """Return the least of ``1/2 - (largest distance decided) - (largest error)``, in single precision."""
    u = SINGLE
    # what the comparison of ranges lets through: z <= most, and sums that the magic number rounds
    assert single("0.999") * (1 + u) ** 2 / (1 - u) ** 2 <= 1
    most_product = widest * bound.most * single("0.999") * (1 + u) ** 4
    assert most_product + HALF <= 2**22
    margins = []
    for b, delta, product in itertools.product((LEAST_SCALE, widest), (NONE, MOST_UNCERTAINTY), (NONE, most_product)):
        relative = ((bound.error + delta * (1 - u)) * (1 - u) * a.relative_factor * (1 - u) + a.relative_added) * (
            1 - u
        )
        charged = (b * (1 - u) * bound.floor * a.limit_factor * (1 - u) ** 2 + a.limit_added) * (1 - u)
        # a computed difference of at least 0 is at most 1/2: subtractions round by u / 2; below 0 nothing is decided
        decided = HALF - charged + u / 2 - relative * product * (1 - u) + u / 2
        ideal = product / (1 - u) ** 2  # b z
        error = (ideal - product) + ideal * (bound.error + delta + bound.error * delta) + b * bound.floor * (1 + delta)
        error += u / 2 + u * (product + HALF)  # of the rest and of the sum
        margins.append(HALF - decided - error)
    return min(margins)


def double_margin(bound: Bound, a: Allowances, widest: Fraction) -> Fraction:
    """Return the same of x86-64-v4, whose sums are those of double precision, by fused operations."""
    u = DOUBLE
    margins = []
    for b, delta, z in itertools.product((LEAST_SCALE, widest), (NONE, MOST_UNCERTAINTY), (NONE, bound.most)):
        relative = b * (bound.error + delta) * a.relative_factor * (1 - u) ** 3
        charged = (b * bound.floor * a.limit_factor * (1 - u) ** 2 + a.limit_added) * (1 - u)
        decided = HALF - charged + u / 2 - relative * z + u / 2
        error = b * z * (bound.error + delta + bound.error * delta) + b * bound.floor * (1 + delta)
        error += u * (b * z + HALF)
        margins.append(HALF - decided - error)
    return min(margins)


def report() -> list[str]:
    """Return a line for each law and level; an allowance below what is derived ends the program."""
    single_bounds, double_bounds, narrow, v4, widest = read()
    lines = []
    for bounds, a, margin_of in ((single_bounds, narrow, single_margin), (double_bounds, v4, double_margin)):
        for bound in bounds:
            margin = margin_of(bound, a, widest)
            level = "single precision" if a is narrow else "x86-64-v4"
            if margin <= 0:
                raise SystemExit(f"first pass, {level}, {bound.name}: allows {float(-margin):.3g} too little")
            lines.append(
                f"{bound.name}, {level}: adds {float(a.limit_added):.3g} to the limit, "
                f"needed are {max(0.0, float(a.limit_added - margin)):.3g}"
            )
    return lines


if __name__ == "__main__":
    print(*report(), sep="\n")
