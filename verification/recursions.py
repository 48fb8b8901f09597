"""Derive the roundings of prefix sums in doubles, and compare the charges with what is derived.

A rounding is relative to its result, in norm. For the buffers: what the sources compute is followed from step to step;
rows have norm 1, and L is the sum of a buffer's powers, at most the number of steps and 1 / (1 - rate).
"""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

from verification.first_pass import DOUBLE, double, found

SOURCE = Path(__file__).parents[1] / "src" / "privol"
MOST_BUFFERS = 2**16
MOST_SERIES = 2**26  # steps of square roots, and of a band
EVALUATION = 1 - Fraction(1, 2**40)  # of a charge in doubles
#: What a step does, in the words of the sources.
SHAPE = (
    (
        "_core/c/rows/vectors.inc.h",
        "TO(x) = (((s + o0 * k) + o1 * l) + o2 * p) + o3 * r; TO(a) = t0 * k + v; TO(b) = t1 * l + v; "
        "TO(e) = t2 * p + v; TO(f) = t3 * r + v;) so_far = x;",
    ),
    (
        "_core/c/rows/vectors.inc.h",
        "PIECES(n, const V v = AT(w), s = AT(so_far), k = AT(b); TO(x) = s + o * k; TO(b) = t * k + v;) so_far = x;",
    ),
    (
        "_core/c/prefix/prefix.c",
        "const double r = series[k], *v = end - (k + 1) * d; for (int64_t c = 0; c < d; ++c) out[c] += r * v[c];",
    ),
    ("factorizations/_toeplitz.py", "factors = 1.0 - 0.5 / np.arange(1, self.steps)"),
    (
        "factorizations/_toeplitz.py",
        "np.cumprod(np.append(1.0, factors if self.decay == 1.0 else self.decay * factors))",
    ),
    ("factorizations/_blt.py", "if not larger - smaller >= _CLOSEST:"),
    ("calibration/_sums.py", "reach = [min(float(n - 1), 1.0 / (1.0 - t)) for t in theta]"),
    ("calibration/_sums.py", "gain = 1.0 + math.fsum(w * r for w, r in zip(omega, reach, strict=True))"),
    ("calibration/_sums.py", "drift = math.fsum(w * r * r for w, r in zip(omega, reach, strict=True))"),
    ("calibration/_sums.py", "gain = 1.0 + 2.0 * math.sqrt(n / math.pi)"),
    ("calibration/_sums.py", "gain = 1.0 + 2.0 * math.sqrt(factorization.bandwidth / math.pi)"),
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


def series(charged: Fraction, times: int, factor_roundings: int) -> bool:
    """Whether ``charged (times n + 1)`` units cover sums of n products in any order, whose coefficients have n factors.

    1 / 2k and the difference from 1 round a factor, at least 1/2, by two units of itself; what it is multiplied with
    adds one each.
    """
    for n in (1, MOST_SERIES):  # what is derived is convex in n, what is charged is linear
        derived = powers(factor_roundings * (n - 1) + n + 1)
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
    for path, line in SHAPE:
        found(r"\s+".join(re.escape(part) for part in line.split()), (SOURCE / path).read_text())
    charges = (SOURCE / "calibration" / "_sums.py").read_text()
    added, drifted = found(r"UNIT \* \(([\d.]+) \* \(len\(reach\) \+ 1\) \* gain \+ ([\d.]+) \* drift\)", charges)
    root, decayed, plain = found(
        r"UNIT \* ([\d.]+) \* \((\d+) \* n \+ 1 if factorization\.decay < 1\.0 else (\d+) \* n \+ 1\) \* gain", charges
    )
    wide, twice = found(r"UNIT \* ([\d.]+) \* ([\d.]+) \* \(factorization\.bandwidth - 1\) \* gain", charges)
    (closest,) = found(r"_CLOSEST = (\S+)", (SOURCE / "factorizations" / "_blt.py").read_text())
    found(r"(_MOST_WINDOW = 1 << 26)", charges)
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
    # controls: one rounding of a buffer's step, or of a coefficient, that is not counted
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
