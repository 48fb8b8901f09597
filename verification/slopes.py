"""Derive the roundings of slopes, single gradients and sums of them, and compare the charges with what is derived.

The exponential is followed operation by operation: each value has a polynomial in the reduced argument as its ideal, a
bound of the ideal and one of the error. The last polynomial must be Taylor's, so nothing but its remainder is left. The
slopes of the losses follow by their formulas, which are those of the source or the program ends.
"""

from __future__ import annotations

import ast
import math
import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from verification.first_pass import DOUBLE, double, found
from verification.lanes import MOST_COLUMNS, charges

SOURCE = Path(__file__).parents[1] / "src" / "privol"
SLOPE = 28  # units that the proofs count for the slope: docs/proofs/leaders.md and gradients.md, 4
AFTER = 3  # weight, factor of the row, product with the row
MOST_BATCH = 2**20
EXPONENTIAL = 2  # units that the proofs count for pv_exp, one in the last place: docs/proofs/iterates.md, 4
SHORT = Fraction(6, 25)  # where the reduced argument of the exponential is divided
SHAPE = (
    ("base/pv_math.h", "if (x >= 0.0) return 1.0 / (1.0 + pv_exp(-x)); double e = pv_exp(x); return e / (1.0 + e);"),
    ("losses/loss.c", "return -y * pv_sigmoid(-y * p);"),
    ("losses/loss.c", "return y * p < 1.0 ? -y : 0.0;"),
    ("losses/loss.c", "return -y * clamp((1.0 - y * p + loss->width) / (2.0 * loss->width), 0.0, 1.0);"),
    (
        "losses/loss.c",
        "static double squared_slope(const pv_loss *loss, double p, double y) { (void)loss; return p - y;",
    ),
    ("losses/loss.c", "return p > y ? 1.0 : (p < y ? -1.0 : 0.0);"),
    ("losses/loss.c", "{ return clamp(p - y, -loss->width, loss->width); }"),
    ("runs/leader.c", "const double g = weight * run->loss.slope(&run->loss, pv_predict(point, run, rows, i, f), y);"),
    ("runs/leader.c", "slopes[0] = g > most ? most : (g < -most ? -most : g);"),
    ("runs/leader.c", "rows->ops->scaled(rows, i, slopes[k] * f, w);"),
    ("runs/gradient.c", "double g = run->loss.slope(&run->loss, pv_predict(it->point, run, rows, i, f), y);"),
    ("runs/gradient.c", "rows->ops->axpy(rows, i, g * f, it->sum);"),
    ("runs/pv_run.h", "{ return square > 1e-290 ? bound / sqrt(square) : 0.0; }"),
)
MODULE_SHAPE = (
    ("_rounding.py", "return n / 8 + 8"),
    ("_rounding.py", "return 2 * (lanes(n) + 32) * UNIT"),
    ("_rounding.py", "return vector_excess(n) + 1.01 * batch * (batch + 1) * UNIT"),
    ("_rounding.py", "return (terms - 1) * UNIT"),
)


def half_unit(size: Fraction) -> Fraction:
    """Return how far a number of at most that size, which is above 0, is from the nearest double, underflow aside."""
    unit = DOUBLE  # of [1, 2)
    while unit > size * DOUBLE:
        unit /= 2
    while 2 * unit <= size * DOUBLE:
        unit *= 2
    return unit


@dataclass(frozen=True)
class Value:
    """A computed number: the coefficients of its ideal, a polynomial, and how far it is from it."""

    ideal: tuple[Fraction, ...]
    error: Fraction
    reach: Fraction  # of the polynomial's argument

    @property
    def size(self) -> Fraction:
        """Bound of the ideal's size."""
        return sum((abs(c) * self.reach**k for k, c in enumerate(self.ideal)), Fraction(0))

    def rounded(self) -> Value:
        """Return it after one more rounding."""
        return Value(self.ideal, self.error + half_unit(self.size + self.error), self.reach)

    def plus(self, other: Value) -> Value:
        """Return the sum as computed."""
        length = max(len(self.ideal), len(other.ideal))
        first, second = ((*v.ideal, *[Fraction(0)] * (length - len(v.ideal))) for v in (self, other))
        ideal = tuple(a + b for a, b in zip(first, second, strict=True))
        return Value(ideal, self.error + other.error, self.reach).rounded()

    def times(self, other: Value) -> Value:
        """Return the product as computed."""
        ideal = [Fraction(0)] * (len(self.ideal) + len(other.ideal) - 1)
        for i, a in enumerate(self.ideal):
            for j, b in enumerate(other.ideal):
                ideal[i + j] += a * b
        error = self.size * other.error + other.size * self.error + self.error * other.error
        return Value(tuple(ideal), error, self.reach).rounded()


def constant(node: ast.expr) -> float:
    """Return the value of a literal."""
    if not (isinstance(node, ast.Constant) and isinstance(node.value, int | float)):
        raise SystemExit(f"slopes: {ast.unparse(node)} is no constant")
    return float(node.value)


def evaluated(node: ast.expr, names: dict[str, Value], reach: Fraction) -> Value:
    """Follow an expression of C that is one of Python too: sums, products, and quotients of constants."""
    if isinstance(node, ast.Name):
        return names[node.id]
    if isinstance(node, ast.Constant):
        return Value((Fraction(constant(node)),), Fraction(0), reach)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        above, below = constant(node.left), constant(node.right)
        quotient = Fraction(above) / Fraction(below)
        return Value((quotient,), abs(Fraction(above / below) - quotient), reach)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mult):
        left, right = evaluated(node.left, names, reach), evaluated(node.right, names, reach)
        return left.plus(right) if isinstance(node.op, ast.Add) else left.times(right)
    raise SystemExit(f"slopes: {ast.dump(node)} is followed nowhere")


def log_of_two() -> tuple[Fraction, Fraction]:
    """Return bounds of log 2, by the series of 1 / (k 2^k)."""
    total = sum((Fraction(1, k * 2**k) for k in range(1, 120)), Fraction(0))
    return total, total + Fraction(1, 2**119)


def exponential_error() -> Fraction:
    """Return a bound of the relative error of ``pv_exp`` for arguments from -708 to 709."""
    u = DOUBLE
    source = (SOURCE / "_core" / "c" / "base" / "pv_math.h").read_text()
    (body,) = found(r"static inline double pv_exp\(double x\) \{([^}]*)\}", source)
    high, low = map(double, found(r"double r = \(x - k \* ([\d.e-]+)\) - k \* ([\d.e-]+);", body))
    (inverse,) = map(double, found(r"double k = pv_round\(x \* ([\d.]+)\);", body))
    found(r"(if \(!\(x <= 709\.0\)\) .*\s+if \(x < -708\.0\) return 0\.0;)", body)
    found(r"(return e \* pv_from_bits\(\(uint64_t\)\(\(int64_t\)k \+ 1023\) << 52\);)", body)
    least, most = log_of_two()
    numbers = Fraction(1023)  # of k
    # k is the nearest integer to x inverse as computed, so x is that near to k log 2
    off = Fraction(1, 2) + 709 * abs(inverse) * u + 709 * max(abs(inverse - 1 / least), abs(inverse - 1 / most))
    if (709 * inverse * (1 + u)) > numbers + Fraction(1, 2) or high.numerator.bit_length() + 10 > 53:
        raise SystemExit("slopes: k times the first part of log 2 is not exact")
    whole, part = off * most * (1 + u), numbers * low * (1 + u)
    reduction = u * part + numbers * max(abs(high + low - least), abs(high + low - most))
    lines = [(name, text) for name, text in re.findall(r"double (\w+) = ([^;]+);", body) if name not in ("k", "r")]
    errors = []
    # r (as computed) above 0, short and long, and below: there the last sum is at most 1, where doubles are denser
    for start, end, below in ((Fraction(0), SHORT, False), (SHORT, whole, False), (Fraction(0), whole, True)):
        wrong = half_unit(end + part) + reduction
        wrong += half_unit(end + wrong)
        reach = end + wrong
        names = {"r": Value((Fraction(0), Fraction(1)), Fraction(0), reach)}
        for name, text in lines[:-1]:
            names[name] = evaluated(ast.parse(text, mode="eval").body, names, reach)
        last = ast.parse(lines[-1][1], mode="eval").body
        if lines[-1][0] != "e" or not (isinstance(last, ast.BinOp) and ast.unparse(last.left) == "1.0"):
            raise SystemExit("slopes: the exponential is not 1 and a rest")
        rest = evaluated(last.right, names, reach)
        if rest.ideal[:14] != tuple(Fraction(k > 0, math.factorial(k)) for k in range(14)) or any(rest.ideal[14:]):
            raise SystemExit("slopes: the polynomial of the exponential is not Taylor's")
        remainder = reach**14 / math.factorial(14) / (1 - reach)
        smallest = 1 - reach + reach**2 / 2 - reach**3 / 6 if below else 1 + start - wrong  # at most the exponential
        error = rest.error + remainder + half_unit(Fraction(1, 2) if below else Fraction(1))
        errors.append((1 + error / smallest) * (1 + wrong + wrong**2) - 1)
    return max(errors)


def slope_errors(exponential: Fraction) -> dict[str, Fraction]:
    """Return how far slopes are from those at the computed prediction, relative to the loss's largest, at most.

    Largest slopes are at least one half where they are absolute: at the prediction 0.
    """
    u = DOUBLE
    logistic = max(
        (1 + u) / ((1 - u) * (1 - exponential / 2)),  # 1 / (1 + e), e <= 1
        (1 + exponential) * (1 + u) / (1 - u),  # e / (1 + e)
    )
    # The smoothed hinge of width w: 1 - y p, beyond 2 w only cut, is within 2 w; then 3 w / 2 w, twice
    hinge = 2 * (u + Fraction(3, 2) * u * (1 + u) + Fraction(3, 2) * u * (1 + u) ** 2)
    return {"logistic": logistic - 1, "smoothed hinge": hinge, "squared, Huber": u, "hinge, absolute": Fraction(0)}


def gradient_error(slope: Fraction, lanes: Fraction) -> Fraction:
    """Return how far a gradient as computed is from the exact one, relative to the bound of its norm, at most.

    It is cut where it exceeds the bound over the computed norm, whose square is off by ``lanes`` units: root and
    quotient round too. Cut, it is as near to the exact one as the cut or the slope.
    """
    u = DOUBLE
    cut = 1 - (1 - u) / ((1 + u) * (1 + lanes * u / 2))  # sqrt(1 + x) <= 1 + x / 2
    weighted = (1 + slope) * (1 + u) - 1
    return (1 + max(weighted, cut)) * (1 + u) ** 2 - 1


def read() -> Fraction:
    """Return the charge of learners that follow a leader, in units; the sources may not have changed their shape."""
    texts = [(SOURCE / "_core" / "c" / path, line) for path, line in SHAPE]
    for path, line in [*texts, *((SOURCE / path, line) for path, line in MODULE_SHAPE)]:
        found(r"\s+".join(re.escape(part) for part in line.split()), path.read_text())
    leaders = (SOURCE / "calibration" / "_leaders.py").read_text()
    (units,) = found(r"rounding=\(([\d.]+) \+ 4 \* \(problem\.outputs - 1\)\) \* UNIT,", leaders)
    return double(units)


def report(leaders: Fraction | None = None, slope: int = SLOPE) -> list[str]:
    """Compare the charges with what is derived; one that is smaller ends the program."""
    u, module = DOUBLE, charges()
    found_leaders = read()
    exponential = exponential_error()
    if exponential > EXPONENTIAL * u:
        raise SystemExit(
            f"slopes: {EXPONENTIAL} units are counted for pv_exp, derived are {float(exponential / u):.2f}"
        )
    slopes = slope_errors(exponential)
    for name, error in slopes.items():
        if error > slope * u:
            raise SystemExit(f"slopes: {slope} units are counted for {name}, derived are {float(error / u):.2f}")
    counted = (1 + slope * u) * (1 + u) ** AFTER - 1
    if counted > (leaders or found_leaders) * u:
        raise SystemExit(f"slopes: with their products they are {float(counted / u):.2f} units, more than is charged")
    # Of the number of roundings of a norm one side is a convex function and the other a linear one: the ends decide.
    for n in (1, MOST_COLUMNS):
        derived = 2 * gradient_error(slope * u, Fraction(module.lanes(n))) * (1 + 4 * u)
        if Fraction(module.vector_excess(n)) < derived:
            raise SystemExit(f"vector_excess({n}) is {module.vector_excess(n):.4g}, derived is {float(derived):.4g}")
    # Partial sum i of batch gradients, each up to 1 + 2^-20 bounds long, rounds by a unit of itself; in both streams.
    longest = 1 + gradient_error(slope * u, Fraction(module.lanes(MOST_COLUMNS)))
    power = 1 + MOST_BATCH * u + (MOST_BATCH * u) ** 2  # at least (1 + u)^batch
    if longest * power > double("1.01") * (1 - 4 * u):
        raise SystemExit("gradients_excess: 1.01 is too little")
    if max(slopes.values()) <= 3 * u:  # control: what two operations after the exponential round alone
        raise SystemExit("slopes: the control passes")
    return [
        f"pv_exp: within {float(exponential / u):.2f} units; logistic slope: {float(slopes['logistic'] / u):.2f}, "
        f"smoothed hinge: {float(slopes['smoothed hinge'] / u):.2f}, of {slope} that are counted",
        "vector_excess, gradients_excess: what is derived is charged, for up to 2^29 columns and 2^20 rows of a step",
    ]
