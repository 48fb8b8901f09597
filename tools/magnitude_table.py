"""Write tests/support/magnitude_reference.npz: points (x, y, a) with log |m| and log psi to about 23 digits.

Two independent methods: composite Gauss-Legendre quadrature of the definitions with 34 digits, and the closed form with
erfc at a precision that is doubled until two results agree to 28 digits (it cancels hundreds of digits where a^2 y is
small, and begins with that many). They must agree to 20 digits wherever a |x| and a^2 y are ordinary numbers; beyond,
only the closed form is used. Each logarithm is stored as a double, and its remainder in single precision.

Run from the repository's root: python tools/magnitude_table.py
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import mpmath as mp
import numpy as np
from magnitude_nodes import rule

Point = tuple[float, float, float]
Logs = tuple[mp.mpf | None, mp.mpf]  # log |m|, None at x = 0, and log psi
PANELS = 3


def falling(x: mp.mpf) -> mp.mpf:
    """e^-x, x >= 0, and 0 far below the last digit of any sum that contains it."""
    return mp.exp(-x) if x < 20 * mp.mp.prec else mp.mpf(0)


def erfcx(x: mp.mpf) -> mp.mpf:
    """e^(x^2) erfc(x), x >= 0."""
    if x < 1e6:
        return mp.erfc(x) * mp.exp(x * x)
    total = term = 1 / (x * mp.sqrt(mp.pi))
    k = 1
    while abs(term) > mp.eps * total:
        term *= -(2 * k - 1) / (2 * x * x)
        total += term
        k += 1
    return total


def closed(x: mp.mpf, y: mp.mpf, a: mp.mpf) -> Logs:
    def log(value: mp.mpf) -> mp.mpf:
        return mp.log(value) if value > 0 else mp.nan  # all digits were lost

    p, q = a * abs(x), a * a * y
    if q == 0:  # exactly: y = 0
        if p == 0:
            return None, mp.mpf(0)
        return log((p * mp.cosh(p) - mp.sinh(p)) / p**2) + mp.log(a), log(mp.sinh(p) / p)
    c = mp.sqrt(q)
    z = p / (2 * c)
    if z > c:
        height = p - q
        psi = mp.sqrt(mp.pi) * (erfcx(z - c) - erfcx(z + c) * falling(2 * p))
        ends = -mp.expm1(-min(2 * p, mp.mpf(20 * mp.mp.prec)))
    else:
        height = z * z
        near, far = falling((c - z) ** 2), falling((c + z) ** 2)
        psi = mp.sqrt(mp.pi) * (2 - erfcx(c - z) * near - erfcx(c + z) * far)
        ends = 2 * mp.exp(-q - z * z) * mp.sinh(p) if p < 1 else near - far
    return (log((z * psi - ends) / (4 * q)) + height + mp.log(a) if p else None), log(psi / (4 * c)) + height


def by_closed_form(point: Point) -> Logs:
    before: Logs | None = None
    x, y, a = (abs(math.frexp(v)[1]) if v else 0 for v in point)
    digits = 40 + (2 * (a + x) + 2 * (2 * a + y)) // 3  # more than the digits of p^2 and q^2 before or after the point
    while digits < 40_000:
        with mp.workdps(digits):
            found = closed(*map(mp.mpf, point))
            if before and all(
                u is None or v is None or abs(u - v) <= mp.mpf(10) ** -28 * max(1, abs(u))
                for u, v in zip(found, before, strict=True)
            ):
                return found
        before, digits = found, 2 * digits
    raise ArithmeticError(f"no precision suffices at {point}")


def by_quadrature(point: Point, pairs: list[tuple[mp.mpf, mp.mpf]]) -> Logs:
    x, y, a = map(mp.mpf, point)
    p, q = a * abs(x), a * a * y
    mode = min(p / (2 * q), mp.mpf(1)) if q else mp.mpf(1)
    slope = p - 2 * q * mode
    height = p * mode - q * mode * mode
    width = mp.mpf(1)  # slope w + q w^2 = 85: the omitted part is below 1e-36
    if slope + q > 85:
        width = 170 / (slope + mp.sqrt(slope * slope + 340 * q))
    low, high = max(mode - width, mp.mpf(0)), min(mode + width, mp.mpf(1))
    m = psi = mp.mpf(0)
    step = (high - low) / PANELS
    for panel in range(PANELS):
        for node, weight in pairs:
            s = low + step * (panel + node)
            up = mp.exp(p * s - q * s * s - height)
            m -= weight * s * up * mp.expm1(-2 * p * s)
            psi += weight * up * (1 + mp.exp(-2 * p * s))
    return (mp.log(m * step * a / 2) + height if p else None), mp.log(psi * step / 2) + height


def points() -> Iterator[tuple[Point, bool]]:
    """Points, and whether quadrature can check them."""
    chance = random.Random(20261122)

    def up_to(low: float, high: float) -> float:
        return math.pow(10.0, chance.uniform(low, high))

    def of(p: float, q: float) -> Point:
        a = up_to(-8, 0)
        return chance.choice((-1, 1)) * p / a, q / a / a, a

    for _ in range(1500):
        yield (chance.choice((-1, 1)) * up_to(-12, 6), up_to(-12, 8), up_to(-8, 0)), True
    for _ in range(900):
        yield of(up_to(-3, 3), up_to(-3, 3.5)), True
    for _ in range(150):
        yield (up_to(-12, 6), 0.0, up_to(-8, 0)), True
        yield (0.0, up_to(-12, 8), up_to(-8, 0)), True
    for off in (0.0, 1e-15, -1e-15, 1e-12, -1e-12, 1e-8, -1e-8, 1e-4, -1e-4):
        for _ in range(35):  # the mode at the end
            q = up_to(-3, 8)
            yield of(2 * q * (1 + off), q), True
    # on both sides of every boundary between cases: as (p, q) of a parameter on a logarithmic scale
    edges: list[tuple[float, float, Callable[[float, float], tuple[float, float]]]] = [
        (1.65, 7, lambda q, e: (2 * q - 13 * math.sqrt(q) * e, q)),  # elementary
        (0.96, 7, lambda q, e: (2 * q - 10 * math.sqrt(q) * e, q)),  # 8 nodes for the part that is cut off
        (0.96, 7, lambda q, e: (2 * q - 5 * math.sqrt(q) * e, q)),  # 16
        (-3, 1.25, lambda p, e: (p, 9 * e)),  # the integral or the part that is cut off
        (-3, 1.6, lambda q, e: (40 * e + q, q)),  # shortened
        (0.96, 2, lambda q, e: (20 * e, q)),  # e^{-2ps} counts
        (-3, -0.6, lambda q, e: (0.5 * e, q)),
        (-3, -0.3, lambda p, e: (p, 0.25 * e)),
        (-3, 0.95, lambda q, e: (16 * e, q)),
    ]
    for low, high, edge in edges:
        for off in (1 - 1e-3, 1 - 1e-9, 1 + 1e-9, 1 + 1e-3):
            for _ in range(16):
                p, q = edge(up_to(low, high), off)
                if p > 0:
                    yield of(p, q), True
    tiny = [5e-324, 1e-310, 1e-300, 1e-200, 1e-154]
    large = [1e100, 1e154, 1e200, 1e300, 1.7976931348623157e308]
    for x in (*tiny, 1e-3, 1.0, 1e3, *large):
        for y in (0.0, *tiny[:3], 1.0, 40.0, 1e3, *large):
            for a in (5e-324, 1e-300, 1e-8, 0.25, 1.0, 1e300):
                if chance.random() < 0.6:
                    yield (chance.choice((-1, 1)) * x * chance.uniform(0.5, 1), y * chance.uniform(0.5, 1), a), False


def split(values: list[mp.mpf]) -> tuple[list[float], list[float]]:
    high = [float(value) for value in values]
    rests = [value - top if abs(top) < 1e15 else 0.0 for value, top in zip(values, high, strict=True)]
    return high, [float(rest) for rest in rests]


def main() -> None:
    mp.mp.dps = 50
    pairs = rule(40)
    mp.mp.dps = 34
    inputs: list[Point] = []
    logs: list[list[mp.mpf]] = [[], []]
    worst = mp.mpf(0)
    for point, ordinary in points():
        found = by_closed_form(point)
        if ordinary:
            for u, v in zip(found, by_quadrature(point, pairs), strict=True):
                if u is not None and v is not None:
                    worst = max(worst, abs(u - v) / max(1, abs(u)))
        inputs.append(point)
        for kept, value in zip(logs, found, strict=True):
            kept.append(mp.ninf if value is None else value)
    if worst > mp.mpf(10) ** -20:
        raise ArithmeticError(f"quadrature and the closed form differ by {mp.nstr(worst, 3)}")
    x, y, a = map(np.array, zip(*inputs, strict=True))
    (m, m_rest), (psi, psi_rest) = split(logs[0]), split(logs[1])
    path = Path("tests/support/magnitude_reference.npz")
    np.savez_compressed(
        path,
        x=x,
        y=y,
        a=a,
        log_m=m,
        log_m_rest=np.array(m_rest, dtype=np.float32),
        log_psi=psi,
        log_psi_rest=np.array(psi_rest, dtype=np.float32),
    )
    print(f"{len(inputs)} points; the two ways differ by at most {mp.nstr(worst, 3)}; {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
