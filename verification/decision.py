"""Derive what the decision in double precision must allow for roundings, and compare the C source with it.

Decided is what satisfies ``fabs(sum - nearest) <= 0.5 - error`` as computed. The ideal sum is then farther from
``nearest`` than it may be only if the error as computed is less than all that sum and comparison err by. All of these
are linear in the sizes of rest and noise and two parts of the error (that of z, and of the scale), each rounding at its
worst. So they are compared at every vertex of the polytope in which a decision could be wrong: where the sum, with its
error, reaches one half.

Near 0 the errors of z must be small against it, or absolutely; that is read off the tables of the source.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

from verification.first_pass import DOUBLE, HALF, MOST_UNCERTAINTY, double, found

NOISE = Path(__file__).parents[1] / "src" / "privol" / "_core" / "c" / "noise"
TINY = Fraction(1, 2**1000)  # more than all underflows lose
RELATIVE, ABSOLUTE = Fraction(1, 2**20), Fraction(1, 2**48)  # error of z <= RELATIVE |z| + ABSOLUTE
SHAPE = (
    "const double h = lattice->step, b = lattice->scale / h, place = x / h;",
    "const double whole = pv_round(place), rest = place - whole;",
    "const double noise = b * found.z, sum = rest + noise, nearest = pv_round(sum);",
    "const double wrong = b * found.error * (1.0 + lattice->uncertainty) + fabs(noise) * lattice->uncertainty;",
    "if (fabs(place) <= TWO50 && b <= WIDEST && fabs(sum - nearest) <= 0.5 - error) {",
    "*out = (whole + nearest) * h + 0.0;",
    "#define TWO50 1125899906842624.0",
)
Row = tuple[Fraction, ...]


def read() -> tuple[Fraction, Fraction]:
    """Return the allowance, as a share of the sizes of rest and noise, and the largest scale in units of the step."""
    source = (NOISE / "lattice.c").read_text()
    for line in SHAPE:
        found(re.escape(line), source)
    (allowed,) = found(r"const double error = wrong \+ \(fabs\(rest\) \+ fabs\(noise\)\) \* (0x1p-\d+);", source)
    (widest,) = found(r"#define WIDEST (0x1p\d+)", source)
    return double(allowed), double(widest)


def solved(rows: Sequence[Row]) -> list[Fraction] | None:
    """Return the solution of equations ``row[:-1] . x = row[-1]``, or nothing if there is not exactly one."""
    left, size = [list(row) for row in rows], len(rows)
    for i in range(size):
        pivot = next((k for k in range(i, size) if left[k][i]), None)
        if pivot is None:
            return None
        left[i], left[pivot] = left[pivot], left[i]
        left[i] = [value / left[i][i] for value in left[i]]
        for k in range(size):
            if k != i and left[k][i]:
                left[k] = [a - left[k][i] * b for a, b in zip(left[k], left[i], strict=True)]
    return [row[-1] for row in left]


def least(objective: Row, limits: Sequence[Row]) -> Fraction:
    """Return the least ``objective[:-1] . x + objective[-1]`` where ``limit[:-1] . x <= limit[-1]``: a polytope."""

    def dot(row: Row, x: Sequence[Fraction]) -> Fraction:
        return sum((a * b for a, b in zip(row[:-1], x, strict=True)), Fraction(0))

    values = []
    for rows in itertools.combinations(limits, len(objective) - 1):
        x = solved(rows)
        if x is not None and all(dot(limit, x) <= limit[-1] for limit in limits):
            values.append(dot(objective, x) + objective[-1])
    if not values:
        raise SystemExit("decision: no case is left to compare")
    return min(values)


def margin(allowed: Fraction, widest: Fraction) -> Fraction:
    """Return by how much the error as computed exceeds what it must cover, at least, where a decision could be wrong.

    Coordinates: sizes of rest and (computed) noise, the error of z and that of the scale, exactly. The last number of a
    row is a constant, of a limit the right side.
    """
    u, zero, one = DOUBLE, Fraction(0), Fraction(1)
    # as computed, at least: three roundings of a product, two of the other, one of their sum; their sum and the last
    kept = 1 - u
    computed: Row = (allowed * kept**2, allowed * kept**2, kept**5, kept**4, -TINY)
    # at most: the product's rounding, relative to the computed one, and that of the sum
    errs: Row = (u, u + u / kept, one, one, TINY)
    difference = tuple(a - b for a, b in zip(computed, errs, strict=True))
    # 0.5 - error is at most one half: it rounds by u / 4
    objective: Row = (*difference[:-1], difference[-1] - u / 4)
    signs: list[Row] = [(*(-one if i == j else zero for j in range(4)), zero) for i in range(4)]
    most = MOST_UNCERTAINTY
    limits: list[Row] = [
        *signs,
        (one, zero, zero, zero, HALF),
        (zero, -(1 + most) * RELATIVE / kept, one, zero, (1 + most) * widest * ABSOLUTE),
        (zero, -most / kept, zero, one, zero),
        (*computed[:-1], HALF - computed[-1]),  # else nothing is decided
        (*(-(1 + u if i < 2 else 0) - errs[i] for i in range(4)), errs[-1] - HALF),  # the sum reaches one half
    ]
    return least(objective, limits)


def exponential_of(x: Fraction) -> tuple[Fraction, Fraction]:
    """Return bounds of exp(x), 0 < x < 1, by its series."""
    term, total = Fraction(1), Fraction(1)
    for k in range(1, 20):
        term *= x / k
        total += term
    return total, total + term


def check_tables() -> None:
    """Check that every error of z is within ``RELATIVE |z| + ABSOLUTE``."""
    table = (NOISE / "gaussian_table.inc.h").read_text()
    (octaves,) = found(r"#define PV_GAUSS_OCTAVES (\d+)", table)
    (text,) = found(r"gauss_error\[\d+\] = \{([^}]*)\}", table)
    errors = [double(value) for value in text.split(",") if value.strip()]
    pieces = [[double(v) for v in row.split(",")] for row in re.findall(r"^\{([^}]+)\}", table, re.MULTILINE)]
    if len(errors) != int(octaves) or len(pieces) != 16 * len(errors) or {len(piece) for piece in pieces} != {8}:
        raise SystemExit("decision: the table has another shape")
    rounding = Fraction(1, 2**40)  # more than the roundings of a polynomial of such coefficients
    for i, piece in enumerate(pieces):
        smallest = piece[0] - sum(abs(c) / 2**k for k, c in enumerate(piece[1:], 1)) - rounding
        if errors[i // 16] > RELATIVE * max(smallest, Fraction(0)) + ABSOLUTE:
            raise SystemExit(f"decision: the error in segment {i} is too large for the argument")
    source = (NOISE / "lattice.c").read_text()
    (deepest,) = found(r"#define DEEPEST \(UINT64_C\(1\) << (\d+)\)", source)
    (shift,) = found(r"if \(a < DEEPEST >> (\d+)\) return \(pv_value\)\{HUGE_VAL, HUGE_VAL\};", source)
    (share,) = found(r"return \(pv_value\)\{z, 0\.5 / \(double\)a \+ \(1\.0 \+ z\) \* (0x1p-\d+)\};", source)
    low, high = Fraction(693, 1000), Fraction(694, 1000)  # of log 2
    if not exponential_of(low)[1] < 2 < exponential_of(high)[0]:
        raise SystemExit("decision: log 2 is elsewhere")
    for k in range(int(deepest) - int(shift), 52):  # 2^k <= a < 2^(k+1)
        smallest, largest = (51 - k) * low * (1 - rounding) - rounding, (52 - k) * high + rounding
        error = (Fraction(1, 2 ** (k + 1)) + (1 + largest) * double(share)) * (1 + 4 * DOUBLE)
        if error > RELATIVE * max(smallest, Fraction(0)) + ABSOLUTE:
            raise SystemExit(f"decision: the error of words from 2^{k} is too large for the argument")


def report(allowed: Fraction | None = None, widest: Fraction | None = None) -> list[str]:
    """Compare the allowance with what is derived; one that is too small ends the program."""
    found_allowed, found_widest = read()
    allowed, widest = allowed or found_allowed, widest or found_widest
    check_tables()
    if margin(allowed, widest) <= 0:
        raise SystemExit(f"decision: {float(allowed):.3g} of rest and noise is allowed, derived is more")
    needed = next(units for units in range(1, int(allowed / DOUBLE) + 1) if margin(units * DOUBLE, widest) > 0)
    if margin(2 * DOUBLE, widest) > 0:  # control: the roundings of product and sum alone
        raise SystemExit("decision: the control passes")
    return [
        f"decision in double precision: allows {float(allowed / DOUBLE):g} units of rest and noise, {needed} would do, "
        f"for scales of up to {float(widest):.3g} steps"
    ]
