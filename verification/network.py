"""Derive how far a node's message is rounded that is the end of a step, and compare the charge with what is derived.

In units u = 2^-53, of two sizes: R / a, the radius over the step's length, and h G, the bound of h gradients. Lines are
those of the table in docs/proofs/network.md, 3; the columns enter by `lanes`.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from verification.first_pass import DOUBLE, double, found
from verification.lanes import MOST_COLUMNS, charges
from verification.sources import pinned

SOURCE = Path(__file__).parents[1] / "src" / "privol"
PINNED = {
    ("_core/c/runs/network.c", "send"): "971f906ee09213d2",
    ("_core/c/runs/run.c", "pv_into_set"): "841acb03cf03bdfd",
    ("_core/c/runs/run.c", "pv_into_set_known"): "882d9d81c461ebf9",
}
SECOND = 1 + Fraction(1, 2**20)  # errors of errors, for up to 2^29 columns; and gradients that are so much longer
SUM = Fraction(101, 100)  # of gradients as computed, over h G


def read() -> tuple[Fraction, Fraction]:
    """Return the charge: units of R / a beside `lanes`, and of h G."""
    pinned(PINNED)
    text = (SOURCE / "calibration" / "_network.py").read_text()
    of_point, of_sum = found(
        r"rounding = \(\(lanes\(dim\) \+ (\d+)\) \* radius \* batch / last \+ (\d+) \* batch \* longest\) \* UNIT", text
    )
    found(r"(bound = \(bound \+ 2\.0 \* rounding\) \* UP)", text)
    return double(of_point), double(of_sum)


def table(lanes: Fraction) -> tuple[Fraction, Fraction]:
    """Return what one stream's message is off by, in units of R / a and of h G."""
    zero = Fraction(0)
    lines: dict[str, tuple[Fraction, Fraction]] = {
        "product of the sum with the step": (zero, SUM),
        "difference, then the projection, which shrinks what is far": (Fraction(1), zero),
        "squared norm, its root, the quotient, the comparison": (lanes / 2 + 3, zero),
        "product with the factor, division by the step": (Fraction(2), zero),
    }
    of_point, of_sum = (sum((line[k] for line in lines.values()), zero) for k in range(2))
    return of_point * SECOND, of_sum * SECOND


def short(of_point: Fraction, of_sum: Fraction, lanes: Fraction) -> bool:
    """Whether the charge, as computed, is less than what is derived."""
    point, total = table(lanes)
    kept = 1 - 8 * DOUBLE
    return (lanes + of_point) * kept < point or of_sum * kept < total


def report(of_point: Fraction | None = None, of_sum: Fraction | None = None) -> list[str]:
    """Compare the charge with what is derived; one that is smaller ends the program."""
    found_point, found_sum = read()
    of_point, of_sum = found_point if of_point is None else of_point, found_sum if of_sum is None else of_sum
    module = charges()
    ends = [Fraction(module.lanes(n)) for n in (1, MOST_COLUMNS)]  # both sides are linear in lanes
    if any(short(of_point, of_sum, lanes) for lanes in ends):
        raise SystemExit(f"network: lanes + {float(of_point):g} and {float(of_sum):g} units are too little")
    if not short(-ends[0] / 2, of_sum, ends[0]) or not short(of_point, Fraction(1), ends[0]):  # control: the norm alone
        raise SystemExit("network: the control passes")
    return [
        f"end of a step: derived are lanes / 2 + 6 units of the radius over the step, of lanes + {float(of_point):g} "
        f"that are charged, and {float(table(ends[0])[1]):.2f} of h G, of {float(of_sum):g}"
    ]
