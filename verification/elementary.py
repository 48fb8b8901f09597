"""Derive the errors of the exponential and the logarithm of the C source, operation by operation.

Each value has a polynomial in the reduced argument as its ideal, a bound of the ideal and one of the error. The last
polynomial must be that of the function's series, so nothing but its remainder is left. Underflow is not followed: only
powers of an argument below 2^-200 underflow, and they are added to 1.
"""

from __future__ import annotations

import ast
import math
import re
import struct
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from verification.first_pass import DOUBLE, double, found

SOURCE = Path(__file__).parents[1] / "src" / "privol" / "_core" / "c" / "base" / "pv_math.h"
EXPONENTIAL = 2  # units of 2^-53 that the proofs count for pv_exp, one in the last place: docs/proofs/iterates.md, 4
LOGARITHM = 8  # times 1 + |log x|, for pv_log: docs/proofs/noise.md, 2, and mixtures.md
SHORT = Fraction(6, 25)  # where the reduced argument of the exponential is divided


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

    def negative(self) -> Value:
        """Return it with the other sign, which is exact."""
        return Value(tuple(-c for c in self.ideal), self.error, self.reach)

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
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -constant(node.operand)
    if not (isinstance(node, ast.Constant) and isinstance(node.value, int | float)):
        raise SystemExit(f"elementary: {ast.unparse(node)} is no constant")
    return float(node.value)


def evaluated(node: ast.expr, names: dict[str, Value], reach: Fraction) -> Value:
    """Follow an expression of C that is one of Python too: sums, differences, products, and quotients of constants."""
    if isinstance(node, ast.Name):
        return names[node.id]
    if isinstance(node, ast.Constant):
        return Value((Fraction(constant(node)),), Fraction(0), reach)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        above, below = constant(node.left), constant(node.right)
        quotient = Fraction(above) / Fraction(below)
        return Value((quotient,), abs(Fraction(above / below) - quotient), reach)
    if isinstance(node, ast.UnaryOp):
        return Value((Fraction(constant(node)),), Fraction(0), reach)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub | ast.Mult):
        left, right = evaluated(node.left, names, reach), evaluated(node.right, names, reach)
        if isinstance(node.op, ast.Mult):
            return left.times(right)
        return left.plus(right.negative() if isinstance(node.op, ast.Sub) else right)
    raise SystemExit(f"elementary: {ast.dump(node)} is followed nowhere")


def log_of_two() -> tuple[Fraction, Fraction]:
    """Return bounds of log 2, by the series of 1 / (k 2^k)."""
    total = sum((Fraction(1, k * 2**k) for k in range(1, 120)), Fraction(0))
    return total, total + Fraction(1, 2**119)


def body_of(name: str) -> str:
    """Return the lines of a function."""
    (body,) = found(rf"static inline double {name}\(double x\) \{{([^}}]*)\}}", SOURCE.read_text())
    return body


def exponential_error() -> Fraction:
    """Return a bound of the relative error of ``pv_exp`` for arguments from -708 to 709."""
    u = DOUBLE
    body = body_of("pv_exp")
    high, low = map(double, found(r"double r = \(x - k \* ([\d.e-]+)\) - k \* ([\d.e-]+);", body))
    (inverse,) = map(double, found(r"double k = pv_round\(x \* ([\d.]+)\);", body))
    found(r"(if \(!\(x <= 709\.0\)\) .*\s+if \(x < -708\.0\) return 0\.0;)", body)
    found(r"(return e \* pv_from_bits\(\(uint64_t\)\(\(int64_t\)k \+ 1023\) << 52\);)", body)
    least, most = log_of_two()
    numbers = Fraction(1023)  # of k
    # k is the nearest integer to x inverse as computed, so x is that near to k log 2
    off = Fraction(1, 2) + 709 * abs(inverse) * u + 709 * max(abs(inverse - 1 / least), abs(inverse - 1 / most))
    if (709 * inverse * (1 + u)) > numbers + Fraction(1, 2) or high.numerator.bit_length() + 10 > 53:
        raise SystemExit("elementary: k times the first part of log 2 is not exact")
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
            raise SystemExit("elementary: the exponential is not 1 and a rest")
        rest = evaluated(last.right, names, reach)
        if rest.ideal[:14] != tuple(Fraction(k > 0, math.factorial(k)) for k in range(14)) or any(rest.ideal[14:]):
            raise SystemExit("elementary: the polynomial of the exponential is not Taylor's")
        remainder = reach**14 / math.factorial(14) / (1 - reach)
        smallest = 1 - reach + reach**2 / 2 - reach**3 / 6 if below else 1 + start - wrong  # at most the exponential
        error = rest.error + remainder + half_unit(Fraction(1, 2) if below else Fraction(1))
        errors.append((1 + error / smallest) * (1 + wrong + wrong**2) - 1)
    return max(errors)


def near_error() -> Fraction:
    """Return a bound of the relative error of ``pv_exp_near`` for arguments up to ``PV_NEAR``."""
    (near,) = map(double, found(r"#define PV_NEAR ([\d.]+)", SOURCE.read_text()))
    body = body_of("pv_exp_near")
    (last,) = found(r"return 1\.0 \+ (.+);", body)
    names = {"x": Value((Fraction(0), Fraction(1)), Fraction(0), near)}
    lines = [("x2", "x * x"), ("x4", "x2 * x2"), *re.findall(r"double (a|b|tail) = ([^;]+);", body)]
    found(r"(double x2 = x \* x, x4 = x2 \* x2;)", body)
    for name, text in lines:
        names[name] = evaluated(ast.parse(text, mode="eval").body, names, near)
    rest = evaluated(ast.parse(last, mode="eval").body, names, near)
    if rest.ideal[:11] != tuple(Fraction(k > 0, math.factorial(k)) for k in range(11)) or any(rest.ideal[11:]):
        raise SystemExit("elementary: the polynomial of the exponential near 0 is not Taylor's")
    remainder = near**11 / math.factorial(11) / (1 - near)
    errors = []
    for below in (True, False):  # below 0 the last sum is at most 1, where doubles are denser
        rounding = half_unit(Fraction(1, 2) if below else Fraction(1))
        errors.append((rest.error + remainder + rounding) / (1 - near if below else Fraction(1)))
    return max(errors)


def logarithm_error() -> Fraction:
    """Return a bound of the error of ``pv_log`` for normal numbers, divided by ``1 + |log x|``."""
    u, body = DOUBLE, body_of("pv_log")
    (start,) = set(re.findall(r"UINT64_C\((0x3FE[0-9A-F]+)\)", body))
    found(r"(uint64_t bits = pv_to_bits\(x\) - UINT64_C\(\w+\);\s+int64_t k = \(int64_t\)bits >> 52;)", body)
    found(r"(double m = pv_from_bits\(\(bits & UINT64_C\(0x000FFFFFFFFFFFFF\)\) \+ UINT64_C\(\w+\)\);)", body)
    found(r"(double s = \(m - 1\.0\) / \(m \+ 1\.0\), s2 = s \* s, s4 = s2 \* s2;)", body)
    # m begins with these bits and ends before twice that number, so m - 1 is exact
    first = Fraction(struct.unpack("d", struct.pack("Q", int(start, 16)))[0])
    if not Fraction(1, 2) <= first <= 1:
        raise SystemExit("elementary: m is elsewhere")
    ends = ((1 - first) / (1 + first), (2 * first - 1) / (2 * first + 1))
    wrong = max(ends) * ((1 + u) / (1 - u) - 1)
    reach = max(ends) + wrong
    names = {"s": Value((Fraction(0), Fraction(1)), Fraction(0), reach)}
    lines = [("s2", "s * s"), ("s4", "s2 * s2"), *re.findall(r"double (even|odd|tail) = ([^;]+);", body)]
    for name, text in lines:
        names[name] = evaluated(ast.parse(text, mode="eval").body, names, reach)
    high, low = found(
        r"return \(double\)k \* ([\d.e-]+) \+ \(2\.0 \* s \+ \(tail \+ \(double\)k \* ([\d.e-]+)\)\);", body
    )
    numbers, least, most = Fraction(1024), *log_of_two()  # of k, at most
    if double(high).numerator.bit_length() + 11 > 53:
        raise SystemExit("elementary: k times the first part of log 2 is not exact")
    part = numbers * double(low) * (1 + u)
    missing = numbers * max(abs(double(high) + double(low) - end) for end in (least, most))
    tail, twice = names["tail"], Value((Fraction(0), Fraction(2)), Fraction(0), reach)
    series = twice.plus(tail).ideal
    if series != tuple(Fraction(2 * (k % 2), max(k, 1)) for k in range(len(series))):
        raise SystemExit("elementary: the series of the logarithm is another")
    remainder = 2 * reach ** (len(series) + 1) / (len(series) + 1) / (1 - reach**2)
    error = tail.error + u * part + half_unit(tail.size + tail.error + part)
    error += half_unit(twice.size + tail.size + part + error)
    error += remainder + missing + 2 * wrong / (1 - reach**2)
    return max(error * (1 + u), u)  # the last sum rounds by a unit of itself


def report(exponential: int = EXPONENTIAL, logarithm: int = LOGARITHM) -> list[str]:
    """Compare what the proofs count with what is derived; a number that is too small ends the program."""
    lines = []
    for name, counted, derived in (
        ("pv_exp", exponential, exponential_error()),
        ("pv_exp_near", exponential, near_error()),
        ("pv_log", logarithm, logarithm_error()),
    ):
        units = float(derived / DOUBLE)
        if derived > counted * DOUBLE:
            raise SystemExit(f"elementary: {counted} units are counted for {name}, derived are {units:.2f}")
        if derived <= DOUBLE / 2:  # control: the last operation alone rounds by more
            raise SystemExit(f"elementary: the control of {name} passes")
        lines.append(f"{name}: within {units:.2f} units, of {counted} that are counted")
    return lines
