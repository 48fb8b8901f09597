"""Derive the roundings of a gradient's certificate, and compare the C source with what is derived.

In units u = 2^-53: the slopes of the losses as computed for many rows at once, predictions, norms, the sums of a block,
and those of blocks in two doubles. `1 + 2^-20` covers what the certificate itself rounds. Underflow is not followed.
"""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

from verification.elementary import body_of, exponential_error
from verification.first_pass import DOUBLE, double, found
from verification.lanes import AROUND, MOST_COLUMNS, read, roundings
from verification.sources import pinned

CORE = Path(__file__).parents[1] / "src" / "privol" / "_core" / "c"
OBJECTIVE, ROWS, LOSS = "_core/c/offline/objective.c", "_core/c/losses/loss_rows.c", "_core/c/losses/loss.c"
MANY = "_core/c/losses/loss_rows.inc.h"
MOST_BLOCKS = 2**31
PINNED = {
    (OBJECTIVE, "predict"): "0f1c00809990ec90",
    (OBJECTIVE, "add_row"): "139ab5c77dffa656",
    (OBJECTIVE, "add_exactly"): "1d949aead3667024",
    (OBJECTIVE, "add_block"): "8f9201b12be6c147",
    (OBJECTIVE, "root_above"): "0eed2912a8e78716",
    (OBJECTIVE, "widen"): "6a8d7e12a14269e1",
    (OBJECTIVE, "pass"): "664af87817cc64a5",
    (OBJECTIVE, "pv_sums_join"): "ded5db1f631f0b7d",
    (OBJECTIVE, "pv_objective_finish"): "2acd427c11941145",
    (OBJECTIVE, "pv_objective_certify"): "8c187dc6dd8d6ab4",
    (ROWS, "exp_below"): "65d3e1430b929a46",
    (MANY, "NAME(logistic"): "a9b39b92b35167e1",
    (MANY, "NAME(smooth_hinge"): "5b90056afcbe4fe6",
    (MANY, "NAME(squared"): "78e997ba9b0c6849",
    (MANY, "NAME(huber"): "90a82532a4b87bcc",
    (LOSS, "off_by"): "adf345e2c009fcf4",
    (LOSS, "logistic_off"): "8387e03bd871a8e2",
    (LOSS, "smooth_hinge_off"): "2f53ef3cf2c518b9",
    (LOSS, "squared_off"): "0e9029fa41587635",
    (LOSS, "huber_off"): "0e1a9c600dda5c0b",
}


def powers(roundings: Fraction) -> Fraction:
    """Return a bound of ``(1 + u)^roundings - 1``, for fewer than 1 / u."""
    return roundings * DOUBLE / (1 - roundings * DOUBLE)


def constants() -> dict[str, Fraction]:
    """Return the constants of the source, whose functions are those that the derivation is about."""
    pinned(PINNED)
    text, header = (CORE / "offline" / "objective.c").read_text(), (CORE / "offline" / "pv_objective.h").read_text()
    losses = (CORE / "losses" / "pv_loss_rows.h").read_text()
    logistic = (CORE / "losses" / "loss.c").read_text()
    (block,) = found(r"#define PV_OBJECTIVE_BLOCK (\d+)", header)
    (slope,) = found(r"#define PV_SLOPE_ERROR (0x1p-\d+)", losses)
    (more,) = found(r"most = \(PV_OBJECTIVE_BLOCK \+ ([\d.]+)\) \* U \* margins->lengths", text)
    final, linear, square = found(
        r"second = \(([\d.]+) \+ ([\d.]+) \* blocks \+ ([\d.]+) \* blocks \* blocks\) \* \(U \* U\);", text
    )
    (last,) = found(r"\+ ([\d.]+) \* U \* norm \+", text)
    twice, lanes, root = found(
        r"square \* \(1\.0 \+ ([\d.]+) \* \(\(double\)n / 8\.0 \+ ([\d.]+)\) \* U\) \+ \(double\)n \* 0x1p-1020\) \* "
        r"\(1\.0 \+ ([\d.]+) \* U\);",
        text,
    )
    (predicted,) = found(r"\.lanes = \(double\)o->rows\.d / 8\.0 \+ ([\d.]+)\}", text)
    (far,) = found(r"error <= 0\.5 \? ([\d.]+) \* error", logistic)
    return {
        "block": double(block),
        "slope": double(slope),
        "rows": double(more),
        "final": double(final),
        "linear": double(linear),
        "square": double(square),
        "last": double(last),
        "twice": double(twice),
        "lanes": double(lanes),
        "root": double(root),
        "predicted": double(predicted),
        "far": double(far),
    }


def slope_errors() -> dict[str, Fraction]:
    """Return how far slopes are off, relative to the computed ones; of the smoothed hinge, absolutely."""
    body, u = (CORE / "losses" / "loss_rows.c").read_text(), DOUBLE
    for name in ("r", "a", "b", "c", "tail"):  # the exponential is that of which the error is known
        (line,) = re.findall(rf"double {name} = [^;]+;", body_of("pv_exp"))
        found(f"({re.escape(line)})", body)
    found(r"(return \(1\.0 \+ \(r \+ tail\)\) \* pv_from_bits)", body)
    e = exponential_error()
    # 1 / (1 + e), e <= 1: a relative error of e counts half; then e times that
    inverse = (1 + u) / ((1 - u) * (1 - e / 2)) - 1
    tail = (1 + e) * (1 + inverse) * (1 + u) - 1
    # t of three roundings, |t| <= 1 where it counts, and 1 - y p within 3 / 2 of the whole width; cut to [0, 1]
    hinge = (Fraction(3, 2) * u * (1 + u) + u) * (1 + u) + u
    return {"logistic": tail / (1 - tail), "smoothed hinge": hinge, "squared, Huber": u / (1 - u)}


def short(c: dict[str, Fraction]) -> list[str]:
    """Return which constants are too small. A constant as computed may be smaller by a few units: 2^-20 covers them."""
    u, failed = DOUBLE, []
    if max(slope_errors().values()) > c["slope"]:
        failed.append("slope")
    # exp(r) - 1 <= far r for r <= 1/2, which is convex: its end, by the series
    end = sum(
        (Fraction(1, 2**k * factorial) for k, factorial in ((1, 1), (2, 2), (3, 6), (4, 24), (5, 120))), Fraction(0)
    )
    if end + Fraction(1, 2**6 * 720) * 2 > c["far"] / 2:
        failed.append("far")
    number, depth = read()
    for n in (1, MOST_COLUMNS):
        # what is derived is convex in the number of columns; a lane more may have begun
        times = Fraction(roundings(n, number, depth) - AROUND)
        counted = Fraction(n, 8) + c["predicted"]
        if powers(times + 1) > counted * u:  # and the product with the row's factor
            failed.append("predicted")
        # a root: of the square, three roundings and twice that of the root and of the last product
        most = (1 + c["twice"] * (Fraction(n, 8) + c["lanes"]) * u) * (1 + c["root"] * u) ** 2
        if most * (1 - u) ** 7 * (1 - powers(times)) < 1:
            failed.append("root")
    # of a block: a product with the factor, one with the entry, and additions to what is 0 at first
    if powers(c["block"] - 1 + 2) > (c["block"] + c["rows"]) * u * (1 - 4 * u):
        failed.append("rows")
    for blocks in (1, MOST_BLOCKS):
        k = Fraction(blocks)
        # each block's sum is exact but for an error of u times at most all terms, grown; the errors are added up in k
        # sums, each of which rounds by u of all errors
        grown = (1 + powers(c["block"] + 1)) * (1 + k * u)
        errors = k * u * grown
        sums = k * u * errors * (1 + powers(k))
        # then two exact sums, whose errors and low parts round, each by u of what is itself u times the sizes
        ends = 4 * u * (errors + 4 * u) * (1 + powers(Fraction(8)))
        if sums + ends > (c["final"] + c["linear"] * k + c["square"] * k**2) * u**2 * (1 - 8 * u):
            failed.append("second order")
    if u / (1 - u) > c["last"] * u:  # the last addition, relative to the result
        failed.append("last")
    return failed


def report(changed: dict[str, Fraction] | None = None) -> list[str]:
    """Compare the constants with what is derived; one that is too small ends the program."""
    c = {**constants(), **(changed or {})}
    if failed := short(c):
        raise SystemExit(f"certificate: derived is more than is charged for {', '.join(dict.fromkeys(failed))}")
    zero = Fraction(0)
    for name, must in (  # controls: every constant matters
        ("slope", "slope"),
        ("far", "far"),
        ("predicted", "predicted"),
        ("rows", "rows"),
        ("twice", "root"),
        ("square", "second order"),
        ("last", "last"),
    ):
        if must not in short({**c, name: zero}):
            raise SystemExit(f"certificate: the control of {name} passes")
    errors = slope_errors()
    return [
        f"slopes for many rows: logistic within {float(errors['logistic'] / DOUBLE):.2f} units, smoothed hinge "
        f"{float(errors['smoothed hinge'] / DOUBLE):.2f}, of {float(c['slope'] / DOUBLE):g} that are charged",
        f"a block of {int(c['block'])} rows: {float(powers(c['block'] + 1) / DOUBLE):.2f} units, of "
        f"{float(c['block'] + c['rows']):g}; predictions, norms and sums in two doubles: what is derived is charged",
    ]
