"""Derive the roundings of prefix sums in doubles, and compare the charges with what is derived.

A rounding is relative to its result, in norm. For the buffers: what the sources compute is followed from step to step;
rows have norm 1, and L is the sum of a buffer's powers, at most the number of steps and 1 / (1 - rate). From 1024 steps
on the square root has transforms of NumPy: their accuracy is assumed (``TRANSFORM``), not derived.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from pathlib import Path

from verification.first_pass import DOUBLE, double, found
from verification.sources import pinned

SOURCE = Path(__file__).parents[1] / "src" / "privol"
MOST_BUFFERS = 2**16
MOST_SERIES = 2**26  # steps of square roots, and of a band
FIRST_BLOCK = 2**10  # steps from which on square roots are computed in blocks
TRANSFORM = 10  # units for each halving that a transform may err by, in norm (Higham 2002, Theorem 24.2)
EVALUATION = 1 - Fraction(1, 2**40)  # of a charge in doubles
#: The functions whose operations are counted here, and lines around them.
PINNED = {
    ("_core/c/rows/vectors.inc.h", "VECTOR(mix"): "7746fc2bf8b5fd78",
    ("_core/c/prefix/prefix.c", "add_products"): "8a68c1be0b28ba95",
    ("_core/c/prefix/prefix.c", "convolve"): "2b71b5bdc0da96b9",
    ("_core/c/prefix/prefix.c", "reach_back"): "934a4d3a7bcfc88d",
    ("_core/c/prefix/prefix.c", "begin_step"): "80c7cc31c2080122",
    ("_core/_prefix_plan.pyx", "look_far"): "e4a816957bc66d35",
    ("_core/_prefix_plan.pyx", "convolve"): "193d0919f62aea76",
    ("factorizations/_toeplitz.py", "coefficients"): "eeb951ba733ee01b",
    ("calibration/_sums.py", "_recursion"): "43179a4f18d89c84",
}
SHAPE = (
    ("_core/_prefix_plan.pyx", "block = 0 if self.c.steps < 1024 else 8 << (int(self.c.steps).bit_length() // 2)"),
    ("factorizations/_blt.py", "if not larger - smaller >= _CLOSEST:"),
    ("calibration/_sums.py", "recursion = 2.0 * math.sqrt(steps) * error * leaf * radius"),
    ("calibration/_sums.py", "_MOST_WINDOW = 1 << 26  #"),
)


def powers(roundings: int) -> Fraction:
    """Return a bound of ``(1 + u)^roundings - 1``, for fewer than 1 / u."""
    return roundings * DOUBLE / (1 - roundings * DOUBLE)


def growth(closest: Fraction) -> Fraction:
    """Return how much larger a computed buffer may be than L rows.

    It follows ``b <- (rate b (1 + u) + w) (1 + u)``. Where L is 1 / (1 - rate), that is a geometric sum whose rate is
    larger by (1 + u)^2; where L is the number of steps, there are at most 1 / closest of them.
    """
    u, longest = DOUBLE, 1 / closest
    if 4 * u * longest >= 1:
        raise SystemExit("buffers: rates are so near to 1 that roundings of the rate could undo it")
    forgets = (1 + u) / (1 - (2 * u + u * u) * longest)
    return max(forgets, 1 + powers(2 * int(longest) + 3))


def buffers(added: Fraction, drifted: Fraction, closest: Fraction) -> bool:
    """Whether ``added (q + 1) (1 + sum w L) + drifted sum w L^2`` units cover the sum of q buffers, whatever they are.

    Each step of a buffer rounds its product and its sum, each by a unit of at most L rows: the errors add up like rows.
    A term of the sum has a product and at most q additions.
    """
    grown = growth(closest)
    drift = 2 * grown
    # ((1 + u)^(q + 1) - 1) / (q + 1) grows with q: the last one decides
    last = powers(MOST_BUFFERS + 1) / (MOST_BUFFERS + 1) / DOUBLE * grown
    return drift <= drifted * EVALUATION and last <= added * EVALUATION


def root(x: Fraction) -> Fraction:
    """Return a bound of the square root, from above and within 2^-40 of it."""
    return Fraction(math.isqrt(math.ceil(x * 2**80)) + 1, 2**40)


def transforms(steps: int, block: int) -> Fraction:
    """Return a bound of the errors of all blocks together, the root of their squares, in units of rows of norm 1.

    Before step m a transform of the m rows, one of the coefficients, their product and the transform back err in the
    2-norm: by ``TRANSFORM`` log2(length) units of sqrt(m) |r|_1 for the rows and the way back, of m |r|_2 for the
    coefficients, and three units of sqrt(m) |r|_1 for a complex product.
    """
    first = 1 + root(4 * Fraction(steps) / 3)  # of r in the 1-norm: 1 + 2 sqrt(n / pi)
    log = Fraction(7, 10) * steps.bit_length()  # log n, at most
    second = root(1 + (1 + log) / 3)  # r_k^2 <= 1 / (pi k)
    total = Fraction(0)
    for m in range(block, steps, block):
        units = TRANSFORM * (m + block - 1).bit_length()
        part = root(Fraction(m)) * first * (2 * units + 3) + m * second * units
        total += (part * (1 + 4 * units * DOUBLE)) ** 2
    return root(total)


def series(charged: Fraction, times: int, factor_roundings: int) -> bool:
    """Whether ``charged (times n + 1)`` units cover sums of n products whose coefficients have n factors each.

    1 / 2k and the difference from 1 round a factor, at least 1/2, by two units of itself; what it is multiplied with
    adds one each. Few steps are n products in any order. Many are those of a block on top of a transform, whose errors
    are known for all steps together: that is what the charge is about.
    """
    direct = range(1, FIRST_BLOCK)
    for n in (direct[0], direct[-1]):  # what is derived is convex in n, what is charged is linear
        if powers(factor_roundings * (n - 1) + n + 1) > charged * (times * n + 1) * DOUBLE * EVALUATION:
            return False
    for height in range(FIRST_BLOCK.bit_length(), MOST_SERIES.bit_length() + 1):
        n, block = 1 << (height - 1), 8 << (height // 2)  # the least and the most steps of so many bits
        gain = 1 + 2 * root(Fraction(n) * 7 / 22) * (1 - Fraction(1, 2**20))  # 22 / 7 is above pi
        far = transforms(min(2 * n - 1, MOST_SERIES), block) / (root(Fraction(n)) - Fraction(1, 2**39)) / gain
        derived = powers(factor_roundings * (n - 1) + block + 2) + far * DOUBLE
        if derived > charged * (times * n + 1) * DOUBLE * EVALUATION:
            return False
    return True


def band(charged: Fraction) -> bool:
    """Whether ``charged (b - 1)`` units cover b coefficients as they are: b - 1 products, and as many additions."""
    for width in (2, MOST_SERIES):
        # each rounds by a unit of at most all products together, which are larger by what has been rounded before
        derived = 2 * (width - 1) * DOUBLE * (1 + powers(width))
        if derived > charged * (width - 1) * DOUBLE * EVALUATION:
            return False
    return True


def read() -> tuple[Fraction, Fraction, Fraction, Fraction, int, int, Fraction]:
    """Return the charges: of buffers, their drift, of series, of a band; and the least distance of a rate from 1."""
    pinned(PINNED)
    for path, line in SHAPE:
        found(r"\s+".join(re.escape(part) for part in line.split()), (SOURCE / path).read_text())
    charges = (SOURCE / "calibration" / "_sums.py").read_text()
    added, drifted = found(r"UNIT \* \(([\d.]+) \* \(len\(reach\) \+ 1\) \* gain \+ ([\d.]+) \* drift\)", charges)
    root, decayed, plain = found(
        r"UNIT \* ([\d.]+) \* \((\d+) \* n \+ 1 if factorization\.decay < 1\.0 else (\d+) \* n \+ 1\) \* gain", charges
    )
    wide, twice = found(r"UNIT \* ([\d.]+) \* ([\d.]+) \* \(factorization\.bandwidth - 1\) \* gain", charges)
    (closest,) = found(r"_CLOSEST = (\S+)", (SOURCE / "factorizations" / "_blt.py").read_text())
    return (
        double(added), double(drifted), double(root), double(wide) * double(twice), int(plain), int(decayed),
        double(closest) * (1 - Fraction(1, 2**20)),  # as the difference of two doubles
    )  # fmt: skip


def report() -> list[str]:
    """Compare the charges with what is derived; one that is smaller ends the program."""
    added, drifted, root, wide, plain, decayed, closest = read()
    if not buffers(added, drifted, closest):
        raise SystemExit(f"buffers: {float(added):g} (q + 1) and {float(drifted):g} of the drift are too little")
    for times, rounds in ((plain, 3), (decayed, 4)):
        if not series(root, times, rounds):
            raise SystemExit(f"square root: {float(root):g} ({times} n + 1) units are too little")
    if not band(wide):
        raise SystemExit(f"band: {float(wide):g} units for each coefficient are too little")
    # controls: half of a charge for buffers, two factors' roundings of a coefficient
    if buffers(added, drifted / 2, closest) or buffers(added / 2, drifted, closest):
        raise SystemExit("buffers: the control passes")
    if series(root, plain - 2, 3) or series(root, decayed - 2, 4) or band(wide / 2):
        raise SystemExit("series: the control passes")
    grown = growth(closest)
    return [
        f"buffers: a step's errors are at most {float(2 * grown):.6f} units of L^2, of {float(drifted):g} that are "
        f"charged; a term of the sum has at most {float(grown):.6f} (q + 1), of {float(added):g}",
        f"square root: coefficients and sums have at most 4 n + 1 units, of {float(root):g} ({plain} n + 1), with a "
        f"decay 5 n + 1 of {float(root):g} ({decayed} n + 1); a band 2 (b - 1), of {float(wide):g} (b - 1)",
    ]
