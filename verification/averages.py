"""Derive how far the average of a run's points is rounded, and compare the charge of averaged learners with it.

The points of T rows, of norm at most 1 here, are added up with weights that are whole numbers: each product rounds, and
each sum by a unit of the weights so far. Then a quotient, a product, a sum and a quotient round all of them, and two
numbers that these are with. Both runs round.
"""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

from verification.first_pass import DOUBLE, double, found
from verification.sources import pinned

SOURCE = Path(__file__).parents[1] / "src" / "privol"
LAST = 6  # roundings of the whole sum
MOST = 2**40  # rows
LONGER = 1 + Fraction(
    1, 2**20
)  # than the bound, of points as computed: they exceed it by at most 16 sqrt(d) + 16 units
PINNED = {
    ("_core/c/rows/vectors.inc.h", "VECTOR(publish"): "26e3adee642aae2c",
    ("_core/c/runs/run.c", "pv_publish"): "8ea77daf3fbfdaf2",
    ("_core/c/runs/pv_run.h", "pv_average_weight"): "dcc792cac3e5785f",
    ("_core/c/runs/pv_run.h", "pv_average_total"): "bf4837b38a2eb540",
    ("_core/_learner_run.pyx", "released_average"): "0b98a28ad76f13c8",
    ("learners/averaged.py", "_find"): "98a298412e24ce7a",
}


def read() -> tuple[Fraction, Fraction]:
    """Return the charge: a factor, and what is added to the number of rows."""
    pinned(PINNED)
    text = (SOURCE / "calibration" / "_averages.py").read_text()
    line = "return np.asarray((moved / whole + {} * (rows + {}) * UNIT * radius) * UP)"
    factor, more = found(re.escape(line).replace(r"\{\}", r"([\d.]+)"), text)
    return double(factor), double(more)


def units(rows: int, linear: bool) -> Fraction:
    """Return the roundings of an average in one run, relative to the bound of a point: first order."""
    # sums so far, over all weights: t (t + 1) / 2 add up to T (T + 1) (T + 2) / 6, the numbers t to T (T + 1) / 2
    sums = Fraction(rows + 2, 3) if linear else Fraction(rows + 1, 2)
    return sums + 1 + LAST


def short(factor: Fraction, more: Fraction, rows: int) -> bool:
    """Whether the charge is less than what both runs round."""
    second = 1 / (1 - (2 * rows + LAST) * DOUBLE)  # each term has at most so many roundings
    derived = 2 * max(units(rows, True), units(rows, False)) * second * LONGER
    return factor * (rows + more) * (1 - 4 * DOUBLE) < derived


def report(factor: Fraction | None = None, more: Fraction | None = None) -> list[str]:
    """Compare the charge with what is derived; one that is smaller ends the program."""
    found_factor, found_more = read()
    factor, more = found_factor if factor is None else factor, found_more if more is None else more
    # what is derived is convex in the number of rows, and what is charged is linear: the ends decide
    for rows in (1, MOST):
        if short(factor, more, rows):
            raise SystemExit(f"averages: {float(factor):g} (T + {float(more):g}) units are too little for {rows} rows")
    if not short(Fraction(1, 2), more, MOST) or not short(factor, Fraction(0), 1):  # control
        raise SystemExit("averages: the control passes")
    return [
        f"average of points: derived are at most {float(2 * units(MOST, False) / MOST):.2f} T units, and "
        f"{float(2 * units(1, False)):g} for one row, of {float(factor):g} (T + {float(more):g})"
    ]
