"""Derive how far the computed projection onto a simplex or an L1 ball is from the exact one, and compare the charge.

In units of u = 2^-53 times the total c, for d columns. The gaps from the largest entry round by one each, which moves
the projection, a contraction, by sqrt(d). On the rounded gaps tau is a sum of at most 2^29 positive p, compensated:

- Above the exact tau it is by the roundings of one step at most: p, their sum and the quotient and the new tau are one
  each for every p, and the roundings of the low parts add up to (d + 1)(d + 2) u / 6 for every p. This counts sqrt(d)
  times. A step from above adds no more: there the exact sum is below the total by the distance times their number.
- Below, what the p sum to beyond the total is nowhere computed to be above 0, or it is too little to move tau to the
  next double. Between two doubles no p becomes 0. So it is the half of a unit for every p, sqrt(d) times, or at most
  twice the error of the sum near the total, 2 + d (d + 1) u, whatever coordinates it falls on.

The last difference rounds p, which sum to at most 2 c. An L1 ball decides by a sum of the same error.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from pathlib import Path

from verification.first_pass import DOUBLE, double, found

SOURCE = Path(__file__).parents[1] / "src" / "privol"
MOST_COLUMNS = 2**29
SHAPE = (
    "double t = a->sum + x;",
    "a->low += fabs(a->sum) >= fabs(x) ? (a->sum - t) + x : (x - t) + a->sum;",
    "a->sum = t;",
    "if (w[j] - top > -total) work[n++] = w[j] - top;",
    """double tau = -total;
    for (;;) {
        exact s = {-total, 0.0};
        int64_t kept = 0;
        for (int64_t j = 0; j < n; ++j) {
            const double p = work[j] - tau;
            if (!(p > 0.0)) continue;
            add(&s, p);
            work[kept++] = work[j];
        }
        n = kept;
        const double next = tau + (s.sum + s.low) / (double)n;
        if (!(next > tau)) break;
        tau = next;
    }
    for (int64_t j = 0; j < d; ++j) {
        double p = (w[j] - top) - tau;
        w[j] = p > 0 ? p : 0.0;
    }""",
    """for (int64_t j = 0; j < d; ++j) add(&s, fabs(x[j]));
    if (!(s.sum + s.low > set->size)) return;""",
)


def read() -> list[tuple[Fraction, Fraction]]:
    """Return the charges of the calibrations: times sqrt(d), and constant."""
    source = (SOURCE / "_core" / "c" / "rows" / "geometry.c").read_text()
    for lines in SHAPE:
        found(r"\s+".join(re.escape(part) for part in lines.split()), source)
    calibration = SOURCE / "calibration"
    iterates = found(r"([\d.]+) \* math\.sqrt\(dim\) \+ ([\d.]+)\)", (calibration / "_iterates.py").read_text())
    points = found(
        r"\(lanes\(dim\) \+ ([\d.]+) \* math\.sqrt\(dim\) \+ ([\d.]+)\) \* UNIT",
        (calibration / "_points.py").read_text(),
    )
    return [(double(root), double(fixed)) for root, fixed in (iterates, points)]


def derived(d: int) -> tuple[Fraction, Fraction]:
    """Return the error's part that counts sqrt(d) times, and the other, in units of u c."""
    u = DOUBLE
    second_order = 1 + 4 * d * u  # of all partial sums: (1 + u)^d and the like
    gap, step = Fraction(1), 3 + (d + 1) * (d + 2) * u / 6
    difference, sums = Fraction(2), 2 + d * (d + 1) * u
    return (gap + step) * second_order, (difference + 3 * sums) * second_order


def enough(root: Fraction, fixed: Fraction) -> bool:
    """Whether ``root sqrt(d) + fixed`` is at least the error for every d."""
    most_root, most_fixed = derived(MOST_COLUMNS)
    _, least_fixed = derived(1)
    # What the constant grows by is a polynomial without negative coefficients, less its value at 1: faster than
    # sqrt(d), so the last d decides.
    grown = most_fixed - least_fixed
    return root >= most_root and fixed >= least_fixed and (root - most_root) * math.isqrt(MOST_COLUMNS) >= grown


def report(charges: list[tuple[Fraction, Fraction]] | None = None) -> list[str]:
    """Compare the charges with what is derived; one that is smaller ends the program."""
    for root, fixed in charges or read():
        if not enough(root, fixed):
            raise SystemExit(f"projections: {float(root):g} sqrt(d) + {float(fixed):g} is charged, derived is more")
    few, most = derived(2**20), derived(MOST_COLUMNS)
    if enough(few[0], few[1]):  # control: what a million columns need is too little for all
        raise SystemExit("projections: the control passes")
    return [
        "projections onto simplex and L1 ball: derived are "
        f"{float(few[0]):.1f} sqrt(d) + {float(few[1]):.0f} units for up to 2^20 columns, "
        f"{float(most[0]):.1f} sqrt(d) + {float(most[1]):.0f} for 2^29"
    ]
