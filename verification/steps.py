"""Derive the roundings of implicit steps, and compare the charge of iterates with what a step sums up to.

A slope as computed is within ``slope`` units of itself of the one at a prediction that is off by ``prediction`` units
of itself. The first counts as long as the step S, the second as the radius r: a step that starts elsewhere by that much
along its row ends no farther apart (``docs/proofs/iterates.md``, 4).
"""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from verification.elementary import exponential_error, near_error
from verification.first_pass import DOUBLE, double, found

SOURCE = Path(__file__).parents[1] / "src" / "privol"
SLOPE, PREDICTION = 24, 5  # units that the proof counts
LAST = Fraction(1, 2**24)  # a Newton step that ends a search
#: What rounds, in the words of the sources.
SHAPE = (
    ("runs/update.c", "*slope = plan->run.loss.implicit(&plan->run.loss, a1, a * b, q, y); *k = a1;"),
    ("losses/loss.c", "const double inverse = 1.0 / k, start = target * inverse, ratio = c * inverse;"),
    ("losses/loss.c", "if (!(ratio <= PV_NEAR && fabs(start) <= 300.0)) return -1.0;"),
    ("losses/loss.c", "q = e * pv_exp_near(d); p = 1.0 + q;"),
    ("losses/loss.c", "const double h = 1.0 / p, step = p * (ratio - d * p) / (p * p + ratio * q);"),
    ("losses/loss.c", "if (fabs(step) <= 5.9604644775390625e-08) return clamp(h - h * (1.0 - h) * step, 0.0, 1.0);"),
    ("losses/loss.c", "h = pv_sigmoid(-m); double dh = h * (1.0 - h); double f = (k * m - target) - c * h; "
     "double step = -f / (k + c * dh);"),
    ("losses/loss.c", "if (fabs(step) <= 5.9604644775390625e-08) { /* 2^-24 */ h -= dh * step; break; }"),
    ("losses/loss.c", "if (next <= lo || next >= hi) break;"),
    ("losses/loss.c", "return c == 0.0 ? 0.0 : -y * clamp((k - y * b) / c, 0.0, 1.0);"),
    ("losses/loss.c", "return -y * clamp(((1.0 + w) * k - y * b) / (2.0 * w * k + c), 0.0, 1.0);"),
    ("losses/loss.c", "return (b - k * y) / (k + c);"),
    ("losses/loss.c", "return c == 0.0 ? 0.0 : clamp((b - k * y) / c, -1.0, 1.0);"),
    ("losses/loss.c", "return clamp((b - k * y) / (k + c), -loss->width, loss->width);"),
    ("losses/loss.c", "if (!(m > lo && m < hi)) break;"),
    ("losses/loss.c", "return clamp((b - k * m) / c, -g, g);"),
)  # fmt: skip


class Row(NamedTuple):
    """A source of errors: units of the radius and of the step, and how often ``lanes`` counts in each."""

    what: str
    radius: Fraction
    step: Fraction
    lanes_of_radius: Fraction = Fraction(0)
    lanes_of_step: Fraction = Fraction(0)


def taylor() -> Fraction:
    """Return how far a slope is that is extrapolated along the last Newton step, in units of itself.

    At a root of k m = c h(m) + target, a distance e away, h differs from its tangent by h'' e^2 / 2, and the tangent's
    root from the root by the share w = c h' / (k + c h') of that, the other way: (1 - w) e^2 / 2 is left. And
    |h''| <= h in between, up to what h grows by along the step; e is the step but for as much again.
    """
    reach = LAST * (1 + LAST)
    return reach**2 / 2 * (1 + 2 * reach)


def logistic_near() -> tuple[Fraction, Fraction]:
    """Return the errors of slope and prediction where one exponential serves (``logistic_near``).

    p is used for the step and for the slope alike, so its error counts by 1 - w, and what the step alone has by w:
    two roundings of the ratio and one of its product. The last difference, 1 / p and the last correction round too.
    """
    u = DOUBLE
    exponential = (1 + exponential_error()) * (1 + near_error()) * (1 + u) - 1
    shared = (1 + exponential) * (1 + u) - 1  # of p
    alone = (1 + u) ** 3 - 1
    direct = (1 + u) ** 2 - 1 + 8 * u * LAST  # the correction is as small as the step, and rounds with it
    return max(shared + taylor(), alone) * (1 + 8 * u) + direct, (1 + u) ** 2 - 1


def logistic_newton() -> tuple[Fraction, Fraction]:
    """Return the same for Newton's method from the bracket, which may end between two neighbouring doubles.

    k m rounds as the prediction; the difference from the target, c h and the sigmoid's own error as parts of c h.
    """
    u = DOUBLE
    exponential = exponential_error()
    sigmoid = max((1 + exponential) * (1 + u) / (1 - u), (1 + u) / ((1 - u) * (1 - exponential / 2))) - 1
    alone = (1 + u) ** 2 - 1
    extrapolated = max(sigmoid + taylor(), alone) * (1 + 8 * u) + u + 8 * u * LAST
    # two neighbours: the sign is wrong by what f errs by, and h is of one of them
    enclosed = 2 * sigmoid + alone
    return max(extrapolated, enclosed), (1 + u) ** 3 - 1


def rational() -> dict[str, tuple[Fraction, Fraction]]:
    """Return the same for slopes that are quotients: (P - Q) / D, cut.

    Where it is not cut P - Q is the slope times D, so an error of P counts as one of Q, the prediction's, and one of
    the slope; if P holds the prediction, the other way round.
    """
    u = DOUBLE

    def quotient(first: int, below: int) -> tuple[Fraction, Fraction]:
        own = (1 + u) ** first - 1  # of P
        return (1 + own) * (1 + u) ** 2 / (1 - u) ** below - 1, own * (1 + u)

    return {
        "hinge": quotient(0, 0),
        # (1 + w) k is at most the prediction's part and the slope times 2 w k + c
        "smoothed hinge": quotient(2, 2),
        "squared, Huber": quotient(1, 1),
        "absolute": quotient(1, 0),
        # m is one of two neighbours, whose distance is at most two units, and f's sign is wrong by two of c slope; what
        # the user's own slope rounds is apart
        "any other": (quotient(3, 0)[0] + (1 + u) ** 2 - 1, quotient(3, 0)[1]),
    }


def slopes() -> dict[str, tuple[Fraction, Fraction]]:
    """Return the errors of slopes and predictions; ``a b`` rounds once more before each."""
    known = {"logistic": logistic_near(), "logistic, by Newton": logistic_newton(), **rational()}
    return {name: (slope, (1 + at) * (1 + DOUBLE) - 1) for name, (slope, at) in known.items()}


def table(slope: int, prediction: int) -> list[Row]:
    """Return the table of the proof for the ball; the drift of the norm is apart."""
    half = Fraction(1, 2)
    return [
        Row("a s / k", Fraction(2), Fraction(0)),
        Row("coefficient of the row, products, addition", Fraction(1), Fraction(6)),
        Row("refresh and release", Fraction(3), Fraction(0)),
        Row("product with the row", Fraction(0), Fraction(0), Fraction(1)),
        Row("square of the row", Fraction(0), Fraction(0), Fraction(0), Fraction(1)),
        Row("slope", Fraction(prediction), Fraction(slope)),
        Row("norm in k: own arithmetic", Fraction(18), Fraction(0)),
        Row("norm in k: its two sums", Fraction(0), Fraction(0), Fraction(4)),
        Row("refresh, end of the search", Fraction(4), Fraction(0), half),
    ]


def read() -> tuple[Fraction, Fraction, Fraction, Fraction]:
    """Return the charge: lanes and units of the radius, lanes and units of the step; sources may not change shape."""
    for path, line in SHAPE:
        pattern = r"\s+".join(re.escape(part) for part in line.split())
        if not re.search(pattern, (SOURCE / "_core" / "c" / path).read_text()):
            raise SystemExit(f"{path} has no {line!r} any more: derive the roundings of steps anew")
    text = (SOURCE / "calibration" / "_iterates.py").read_text()
    often, fixed, own, step = found(
        r"fixed, step = 1\.5 \* self\.refresh \+ (\d+) \* self\.lanes \+ (\d+), "
        r"self\.drift \+ (self\.lanes) \+ (\d+)\n",
        text,
    )
    return double(often), double(fixed), Fraction(own.count("lanes")), double(step)


def report(slope: int = SLOPE, prediction: int = PREDICTION) -> list[str]:
    """Compare what is counted with what is derived, and the charge with what is counted."""
    u, found_slopes = DOUBLE, slopes()
    for name, (own, at) in found_slopes.items():
        if own > slope * u:
            raise SystemExit(f"steps: {slope} units are counted for {name}, derived are {float(own / u):.2f}")
        if at > prediction * u:
            raise SystemExit(f"steps: {prediction} units of the prediction are counted for {name}, derived are "
                             f"{float(at / u):.2f}")  # fmt: skip
    rows = table(slope, prediction)
    charged = read()
    counted = (
        sum(row.lanes_of_radius for row in rows), sum(row.radius for row in rows),
        sum(row.lanes_of_step for row in rows), sum(row.step for row in rows),
    )  # fmt: skip
    for what, most, sum_of in zip(("lanes r", "r", "lanes S", "S"), charged, counted, strict=True):
        if sum_of > most:
            raise SystemExit(f"steps: {float(most):g} {what} are charged, the table has {float(sum_of):g}")
    if max(own for own, _ in found_slopes.values()) <= 16 * u:  # control: what the last Newton step has alone
        raise SystemExit("steps: the control passes")
    own, at = (max(each) for each in zip(*found_slopes.values(), strict=True))
    return [
        f"implicit slopes: within {float(own / u):.2f} units, of {slope} that are counted, at predictions within "
        f"{float(at / u):.2f}, of {prediction}",
        f"a step on the ball: the table has {float(counted[1]):g} r + {float(counted[3]):g} S, of "
        f"{float(charged[1]):g} r + {float(charged[3]):g} S that are charged, and {float(counted[0]):g} of "
        f"{float(charged[0]):g} lanes",
    ]
