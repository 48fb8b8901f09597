"""Derive what integers lack in the tables of integer noise, and the sizes of its coins, and compare with the sources.

Numbers of at most 1 are kept in units of 2^-p and rounded down. A product of two of them lacks at most what both lack,
and one unit more; 2^p itself lacks nothing. What is lacking is a polynomial in the number of the block, so steps are
compared by coefficients.
"""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

from verification.first_pass import found
from verification.sources import pinned

SOURCE = Path(__file__).parents[1] / "src" / "privol"
BLOCKS = "noise/_blocks.py"
DISCRETE = "_core/c/noise/discrete.c"
TERMS = 2**62  # of an exponential's series, more than there can be
PINNED = {
    (BLOCKS, "limits"): "c7a2a3ad2d4ea0f3",
    (BLOCKS, "_sums"): "d35ecab3cf3fdd02",
    (BLOCKS, "_exp_below"): "a61e034d8318bfce",
    (DISCRETE, "accepted"): "767993561d92f965",
    (DISCRETE, "below"): "74338f4eed123d87",
    (DISCRETE, "exponential_coin"): "ab88e0df3f4188cc",
    (DISCRETE, "pv_discrete_add"): "c75b9adcb7ac47bb",
}
Polynomial = tuple[int, ...]  # coefficients of 1, j, j^2, ...


def plus(*terms: Polynomial) -> Polynomial:
    """Return the sum."""
    length = max(map(len, terms))
    return tuple(sum(term[k] for term in terms if k < len(term)) for k in range(length))


def times(a: Polynomial, b: Polynomial) -> Polynomial:
    """Return the product."""
    product = [0] * (len(a) + len(b) - 1)
    for i, x in enumerate(a):
        for k, y in enumerate(b):
            product[i + k] += x * y
    return tuple(product)


def later(a: Polynomial) -> Polynomial:
    """Return the polynomial at j + 1."""
    total: Polynomial = (0,)
    for coefficient in reversed(a):  # Horner's scheme
        total = plus(times(total, (1, 1)), (coefficient,))
    return total


def covers(a: Polynomial, b: Polynomial) -> bool:
    """Whether a is at least b at 0, 1, 2, ... by its coefficients."""
    return all(x >= 0 for x in plus(a, tuple(-x for x in b)))


def exponential_lacks(extra: int) -> Fraction:
    """Return a bound of what the exponential of a negative number lacks, in units; its series has so many bits more.

    A unit lost at a term of the series of exp(x) is at most exp(x) in all. The reciprocal is too large by at most 2 M
    2^-extra of itself for M terms, which must be below a unit; its floor less 1 lacks 2.
    """
    excess = 2 * TERMS * Fraction(1, 2**extra)
    if excess >= 1:
        raise SystemExit("blocks: an exponential may be above the exact one")
    return Fraction(2)


def lacking(ratio: Polynomial, weight: Polynomial, total: Polynomial, first: int) -> list[str]:
    """Return which of the bounds, of ratios, weights and their sums, are too small."""
    failed, one = [], (1,)
    # R_0 and G are exponentials; R_(j+1) = R_j G
    if ratio[0] < first or not covers(later(ratio), plus(ratio, (first,), one)):
        failed.append("ratios")
    # W_0 is exact, W_(j+1) = W_j R_j
    if weight[0] < 0 or not covers(later(weight), plus(weight, ratio, one)):
        failed.append("weights")
    if not covers(total, weight) or not covers(later(total), plus(total, later(weight))):
        failed.append("sums")
    return failed


def read() -> tuple[int, int, int, int, int]:
    """Return bits more in the series, the factors of weights and sums, the largest block and bits of numerators."""
    pinned(PINNED)
    text = (SOURCE / BLOCKS).read_text()
    (extra,) = found(r"q = p \+ (\d+)\n", text)
    (sums,) = found(r"most = min\(\(\(sums\[j\] \+ (\d+) \* \(j \+ 1\) \*\* 3\) << bits\) // low,", text)
    (rest,) = found(r"rest = (\d+) \* n\*\*2 \* \(2 \+ int\(1 / self\.first\)\)", text)
    found(re.escape(f"return sums, total, total + {sums} * n**3 + rest"), text)
    header = (SOURCE / "_core" / "c" / "noise" / "pv_discrete.h").read_text()
    (block,) = found(r"#define PV_DISCRETE_MAX_BLOCK (\d+)", header)
    (bits,) = found(r"#define PV_DISCRETE_MAX_NUMERATOR \(INT64_C\(1\) << (\d+)\)", header)
    return int(extra), int(rest), int(sums), int(block), int(bits)


def overflows(block: int, bits: int, shift: int = 36) -> list[str]:
    """Return which of the products may overflow, w b being at most a / 16, and the offset below w."""
    a = 1 << bits
    wide = a // 16  # w b, and more than u b
    second = 2 * block * wide + wide
    failed = []
    if second >= 1 << 64:
        failed.append("second factor")
    # remainders are doubled: they are at most the denominators, and numerators are compared with these
    if max(wide * second, 2 * 2 * a * a) >= 1 << 127:
        failed.append("wide product")
    if (block + 1) << shift >= 1 << 62:
        failed.append("magnitude")
    return failed


def far(block: int) -> int:
    """Return k such that the chance of a later block is below 2^-k, where blocks are at least 1 / 32 of the scale."""
    return int(Fraction(block + 1, 32) * Fraction(1442, 1000))  # 1 / log 2 is above 1.442


def report(weights: int | None = None, sums: int | None = None) -> list[str]:
    """Compare the bounds with what is derived; one that is too small ends the program."""
    extra, rest, cubes, block, bits = read()
    rest, cubes = rest if weights is None else weights, cubes if sums is None else sums
    first = int(exponential_lacks(extra))
    ratio: Polynomial = (first, first + 1)  # 2 + 3 j
    cube = times(times((1, 1), (1, 1)), (1, 1))
    if failed := lacking(ratio, (0, 0, rest), tuple(cubes * x for x in cube), first):
        raise SystemExit(f"blocks: derived is more than is allowed for {', '.join(failed)}")
    if failed := overflows(block, bits):
        raise SystemExit(f"blocks: a {failed[0]} may overflow")
    # controls: a smaller bound of each kind, products of the next size
    controls = (
        (lacking((first, first), (0, 0, 3), cube, first), ["ratios"]),
        (lacking(ratio, (0, 0, 1), cube, first), ["weights"]),
        (lacking(ratio, (0, 0, 3), (1, 3, 3), first), ["sums"]),
        (overflows(2 * block, bits), ["second factor"]),
        (overflows(block, bits + 10), ["second factor", "wide product"]),
    )
    if any(failed != must for failed, must in controls):
        raise SystemExit("blocks: the control passes")
    return [
        f"blocks: ratios lack at most 2 + 3 j units, weights {rest} j^2, sums {cubes} (j + 1)^3; no product "
        f"up to block {block} overflows, and later ones have a chance below 2^-{far(block)}"
    ]
