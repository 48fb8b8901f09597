"""Derive the roundings of implicit steps, and compare the charge of iterates with what a step sums up to.

A slope as computed is within ``slope`` units of itself of the one at a prediction that is off by ``prediction`` units
of itself. The first counts as long as the step S, the second as the radius r: a step that starts elsewhere by that much
along its row ends no farther apart (``docs/proofs/iterates.md``, 4). Where the slope is read off a prediction that a
search has found, the step ends elsewhere by that much. Underflow is apart: a slope below 2^-1020 may become 0.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from verification.elementary import exponential_error, near_error
from verification.first_pass import DOUBLE, double, found
from verification.sources import pinned

SOURCE = Path(__file__).parents[1] / "src" / "privol"
SLOPE, PREDICTION = 24, 6  # units that the proof counts
LAST = Fraction(1, 2**24)  # a Newton step that ends a search
#: The functions whose operations are counted here.
PINNED = {
    ("_core/c/losses/loss.c", "clamp"): "cb0687d9c7ab8861",
    ("_core/c/losses/loss.c", "logistic_near"): "2f07ee941d550f2f",
    ("_core/c/losses/loss.c", "logistic_implicit"): "92a15a126e0820b8",
    ("_core/c/losses/loss.c", "hinge_implicit"): "367c3b09ac5564d2",
    ("_core/c/losses/loss.c", "smooth_hinge_implicit"): "ec32671402bf5afd",
    ("_core/c/losses/loss.c", "squared_implicit"): "f2c7f6519d02374c",
    ("_core/c/losses/loss.c", "absolute_implicit"): "de6a7cccbc8d60d1",
    ("_core/c/losses/loss.c", "huber_implicit"): "c939c678352300ed",
    ("_core/c/losses/loss.c", "pv_implicit_bracketed"): "491edb99163d985e",
    ("_core/c/base/pv_math.h", "pv_sigmoid"): "281e16fbf4d63fd0",
    ("_core/c/runs/update.c", "pv_update_implicit"): "d2c1f92599ef8a70",
    ("_core/c/runs/update.c", "moved"): "39722c6e36b298d3",
    ("_core/c/runs/update.c", "scaled_into_ball"): "f899194fef1bef72",
    ("calibration/_iterates.py", "coefficients"): "da90f452a893b0c8",
}


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
    root from the root by the share w = c |h'| / (k + c |h'|) of that, the other way: (1 - w) h'' e^2 / 2 is left. And
    |h''| <= h (1 - h) in between, up to what h grows by along the step; e is the step but for as much again, and for
    what roundings of the step add, 6 units of h / (1 - h) at most, which 1 - h takes back.
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
    direct = (1 + u) ** 2 - 1 + 64 * u * LAST  # the correction is as small as the step, and rounds with it
    return max(shared + taylor(), alone) * (1 + 8 * u) + direct, (1 + u) ** 2 - 1


def logistic_newton() -> tuple[Fraction, Fraction]:
    """Return the same for Newton's method from the bracket, which may end between two neighbouring doubles.

    As h falls, an error of f moves the slope by at most its c-th part, and by the share w of that: k m rounds as the
    prediction and as a part of c h; the difference from the target and c h as parts of c h.

    Between two neighbours a step is at most 3 u |m| for them and k m, and 6 u / (1 - h) for the rest. So a search ends
    there only where |m| is that large, and h or 1 - h is 0, or where 1 - h is small: then h hardly depends on m.
    """
    u = DOUBLE
    exponential = exponential_error()
    sigmoid = max((1 + exponential) * (1 + u) / (1 - u), (1 + u) / ((1 - u) * (1 - exponential / 2))) - 1
    alone = (1 + u) ** 3 - 1
    extrapolated = max(sigmoid + taylor(), alone) * (1 + 8 * u) + u + 64 * u * LAST
    if LAST / 2 / (3 * u) < 1000:  # exp(-1000) is 0
        raise SystemExit("steps: a search may end between neighbours whose slopes differ")
    flat = 6 * u / (LAST / 2)  # of 1 - h there, at most; (1 - h) |m| is below 3 sqrt(1 - h)
    root = Fraction(1, 2**12)
    if root**2 < flat:
        raise SystemExit("steps: a search may end between neighbours where the slope is not flat")
    enclosed = 2 * sigmoid + (1 + u) ** 5 - 1 + 2 * u * 3 * root
    return max(extrapolated, enclosed), (1 + u) ** 2 - 1


def rational() -> dict[str, tuple[Fraction, Fraction]]:
    """Return the same for slopes that are quotients: (P - Q) / D, cut.

    Where it is not cut P - Q is the slope times D, so an error of P counts as one of Q, the prediction's, and one of
    the slope; if P holds the prediction, the other way round. A shift of the prediction commutes with the cut.
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
        # m, at the end of the step, is one of two neighbours, at most two units apart; k m rounds in the sign of f at
        # the other and once more in P; f's sign is wrong by two units of c slope, too. What the user's own slope rounds
        # is apart.
        "any other": (quotient(4, 0)[0] + (1 + u) ** 2 - 1, quotient(4, 0)[1]),
    }


def slopes() -> dict[str, tuple[Fraction, Fraction]]:
    """Return the errors of slopes and predictions; ``a b`` rounds once more before each."""
    known = {"logistic": logistic_near(), "logistic, by Newton": logistic_newton(), **rational()}
    return {name: (slope, (1 + at) * (1 + DOUBLE) - 1) for name, (slope, at) in known.items()}


def table(slope: int, prediction: int, ball: bool) -> list[Row]:
    """Return the table of the proof; the drift of the norm, and projections, are apart."""
    rows = [
        Row("a s / k", Fraction(2), Fraction(0)),
        Row("coefficient of the row, products, addition", Fraction(1), Fraction(6)),
        Row("refresh and release", Fraction(3), Fraction(0)),
        Row("product with the row", Fraction(0), Fraction(0), Fraction(1)),
        Row("square of the row", Fraction(0), Fraction(0), Fraction(0), Fraction(1)),
        Row("slope", Fraction(prediction), Fraction(slope)),
    ]
    norms = [
        Row("norm in k: own arithmetic", Fraction(18), Fraction(0)),
        Row("norm in k: its two sums", Fraction(0), Fraction(0), Fraction(4)),
        Row("refresh, end of the search", Fraction(4), Fraction(0), Fraction(1, 2)),
    ]
    return rows + norms * ball


def read() -> dict[bool, list[Fraction]]:
    """Return the charges, on the ball and elsewhere: lanes and units of the radius, lanes and units of the step."""
    pinned(PINNED)
    text = (SOURCE / "calibration" / "_iterates.py").read_text()
    ball = found(
        r"fixed, step = 1\.5 \* self\.refresh \+ (\d+) \* self\.lanes \+ (\d+), "
        r"self\.drift \+ self\.lanes \+ (\d+)\n",
        text,
    )
    others = found(
        r"fixed, step = (\d+) \* self\.lanes \+ (\d+) \+ self\.sets, self\.lanes \+ (\d+) \+ self\.sets\n", text
    )
    charges = {True: ball, False: others}
    return {
        kind: [double(often), double(fixed), Fraction(1), double(step)]
        for kind, (often, fixed, step) in charges.items()
    }


def report(slope: int = SLOPE, prediction: int = PREDICTION) -> list[str]:
    """Compare what is counted with what is derived, and the charge with what is counted."""
    u, found_slopes, lines = DOUBLE, slopes(), list[str]()
    for name, (own, at) in found_slopes.items():
        if own > slope * u:
            raise SystemExit(f"steps: {slope} units are counted for {name}, derived are {float(own / u):.2f}")
        if at > prediction * u:
            raise SystemExit(f"steps: {prediction} units of the prediction are counted for {name}, derived are "
                             f"{float(at / u):.2f}")  # fmt: skip
    for ball, charged in read().items():
        rows = table(slope, prediction, ball)
        counted = [
            sum((getattr(row, name) for row in rows), Fraction(0))
            for name in ("lanes_of_radius", "radius", "lanes_of_step", "step")
        ]
        where = "on the ball" if ball else "on other sets"
        for what, most, sum_of in zip(("lanes r", "r", "lanes S", "S"), charged, counted, strict=True):
            if sum_of > most:
                raise SystemExit(f"steps {where}: {float(most):g} {what} are charged, the table has {float(sum_of):g}")
        lines.append(
            f"a step {where}: the table has {float(counted[1]):g} r + {float(counted[3]):g} S, of "
            f"{float(charged[1]):g} r + {float(charged[3]):g} S that are charged, and {float(counted[0]):g} of "
            f"{float(charged[0]):g} lanes"
        )
    if all(own <= (SLOPE - 1) * u for own, _ in found_slopes.values()):  # control: a unit less would not do
        raise SystemExit("steps: the control passes")
    own, at = (max(each) for each in zip(*found_slopes.values(), strict=True))
    return [
        f"implicit slopes: within {float(own / u):.2f} units, of {slope} that are counted, at predictions within "
        f"{float(at / u):.2f}, of {prediction}",
        *lines,
    ]
