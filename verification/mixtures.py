"""Derive what the factor of a vector on a lattice must allow for roundings, and compare the C source with it.

In units u = 2^-53. A sum of n exponential variables has the logarithms of products of up to 16 of them, in blocks of up
to 16 logarithms, whose sums are added in two doubles. What is derived and what is allowed are both linear in n, in the
sum and a constant, so their coefficients are compared: each of the three is at least 0.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from verification.elementary import LOGARITHM
from verification.first_pass import DOUBLE, double, found
from verification.sources import pinned

FILE = "_core/c/noise/mixture.c"
SOURCE = Path(__file__).parents[1] / "src" / "privol" / FILE
MOST = 2**31  # numbers in a vector, and more than there are variables
PINNED = {
    (FILE, "add"): "201d86d32bf43b74",
    (FILE, "sum_exponential"): "dee086dcad535b2d",
    (FILE, "pv_mixture_factor"): "0874021af3e71bdf",
    (FILE, "pv_mixture_round"): "4c4307a1e081560c",
}
Linear = tuple[Fraction, Fraction, Fraction]  # of n, of the sum, and a constant


def read() -> dict[str, Fraction]:
    """Return the constants of the source, whose functions are those that the derivation is about."""
    pinned(PINNED)
    text = SOURCE.read_text()
    (factors,), (block,) = found(r"#define FACTORS (\d+)", text), found(r"#define BLOCK (\d+)", text)
    each, constant, share = found(
        r"const double roundings = \(double\)n \* (0x1p-\d+) \+ (0x1p-\d+) \+ found \* (0x1\.8p-\d+);", text
    )
    (middles,) = found(r"\(pv_value\)\{found, middles \* \(1\.0 \+ (0x1p-\d+)\) \+ roundings\}", text)
    more, square, least = found(
        r"const double relative = square\.error / square\.z \* \(1\.0 \+ 0x1p-20\) \+ \(BLOCK \+ (\d+)\) \* (0x1p-\d+);"
        r"\s+if \(!\(relative < (0x1p-\d+)\)\) return none;",
        text,
    )
    half, root = found(r"root, (0\.\d+) \* relative \+ (0x1p-\d+)\}", text)
    (scaled,) = found(r"own\.uncertainty = factor->error \+ (0x1p-\d+);", text)
    return {
        "factors": double(factors),
        "block": double(block),
        "n": double(each),
        "constant": double(constant),
        "sum": double(share),
        "middles": double(middles),
        "squares": (double(block) + double(more)) * double(square),
        "limit": double(least),
        "half": double(half),
        "root": double(root),
        "scaled": double(scaled),
    }


def two_doubles(terms: int) -> Fraction:
    """Return a bound of the relative error of positive terms that `add` has added: Sum2 of Ogita, Rump and Oishi."""
    growth = terms * DOUBLE / (1 - terms * DOUBLE)
    return DOUBLE + growth**2


def of_logarithms(c: dict[str, Fraction]) -> Linear:
    """Return how far a sum of logarithms is off, beside the middles: coefficients of n, the sum, and a constant."""
    u = DOUBLE
    # of a product, whose factors are exact: relative, so absolute in the logarithm
    product = (c["factors"] - 1) * u / (1 - c["factors"] * u)
    # for each variable; of k < 16 factors in the last product k - 1 round, which is at most 15 k / 16
    each = product / (1 - product) / c["factors"]
    logarithm = LOGARITHM * u  # of each, times 1 + log
    # what is added is the logarithms as computed: their sum exceeds the exact one by what they err by
    additions = (c["block"] - 1) * u / (1 - c["block"] * u)
    sums = additions + (1 + additions) * two_doubles(MOST // int(c["factors"] * c["block"]) + 1)
    grown = 1 + sums
    of_n = (each + logarithm / c["factors"]) * grown
    of_sum = logarithm * grown + sums
    return of_n, of_sum, logarithm * grown


def of_squares(c: dict[str, Fraction]) -> Fraction:
    """Return the relative error of a sum of squares: each, a block, and all of them in two doubles."""
    u = DOUBLE
    one = (1 + u) * (1 + (c["block"] - 1) * u / (1 - c["block"] * u))
    return one * (1 + two_doubles(MOST // int(c["block"]) + 1)) - 1


def own_roundings(terms: int, operations: int) -> Fraction:
    """Return how much smaller a computed sum of nonnegative terms may be, relatively."""
    return 1 - (1 - (terms + operations) * DOUBLE)


def short(c: dict[str, Fraction]) -> list[str]:
    """Return the allowances that are too small."""
    u, failed = DOUBLE, []
    kept = 1 - 4 * u  # of what the allowance is, as computed: product, two sums, the last sum
    # the middles are summed in order, and each has three roundings
    if (1 + c["middles"]) * kept * (1 - own_roundings(MOST // int(c["factors"]) + 1, 3)) < 1:
        failed.append("middles")
    derived = of_logarithms(c)
    for name, need in zip(("n", "sum", "constant"), derived, strict=True):
        # the sum in the allowance is the computed one
        smaller = kept * (1 - of_logarithms(c)[1]) if name == "sum" else kept
        if c[name] * smaller < need:
            failed.append(name)
    # what a square's error is relative to is computed too
    squares = of_squares(c)
    if c["squares"] * kept * (1 - squares) < squares / (1 - squares):
        failed.append("squares")
    most = c["limit"]
    # (1 + half r)^2 (1 - r) >= 1, as (F / f)^2 or its inverse is at least 1 - r: a cubic over r, which falls
    if (1 + c["half"] * most) ** 2 * (1 - most) < 1 or 2 * c["half"] <= 1:
        failed.append("half")
    # root and inverse round, each the other's error too; so do both terms of the allowance
    if c["root"] * kept - 3 * u * c["half"] * most < (1 + u) ** 2 * (1 + c["half"] * most) - (1 + c["half"] * most):
        failed.append("root")
    if c["scaled"] * kept - u * most < u * (1 + most):  # the sum rounds too
        failed.append("scaled")
    return failed


def report(changed: dict[str, Fraction] | None = None) -> list[str]:
    """Compare the allowances with what is derived; one that is too small ends the program."""
    constants = {**read(), **(changed or {})}
    if failed := short(constants):
        raise SystemExit(f"mixtures: derived is more than is allowed for {', '.join(failed)}")
    u, zero = DOUBLE, Fraction(0)
    # control: every allowance matters
    for name in ("middles", "n", "sum", "constant", "squares", "root", "scaled"):
        if short({**constants, name: zero}) != [name]:
            raise SystemExit(f"mixtures: the control of {name} passes")
    of_n, of_sum, constant = of_logarithms(constants)
    return [
        f"a sum of exponential variables: derived are {float(of_n / u):.2f} n + {float(of_sum / u):.2f} sum + "
        f"{float(constant / u):.2f} units, allowed {float(constants['n'] / u):g} n + "
        f"{float(constants['sum'] / u):g} sum + {float(constants['constant'] / u):g}",
        f"a sum of squares: {float(of_squares(constants) / u):.2f} of {float(constants['squares'] / u):g} units",
    ]
