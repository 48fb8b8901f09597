"""Write the tables of the noise kernels: the Gaussian quantile as a piecewise polynomial.

It is in double precision with error bounds (gaussian_table.inc.h), and in single precision for the first pass
(gaussian_segments.inc.h).

The kernel places U = (A + theta) / 2^53, 0 <= theta < 1, A a 52-bit integer, and needs |Z| = -F^-1(U).
Octave o holds A in [2^(51-o), 2^(52-o)); each octave has 16 segments of equal width, and on each segment a polynomial
of degree 7 in t = position - 1/2 interpolates -F^-1((A + 1/2) / 2^53) at eight Chebyshev points.

The error bound of an octave covers, for every segment: the interpolation error (the classical remainder bound, and as
a safeguard the largest deviation on a dense grid: the larger of the two, times 1.01), the rounding of the stored
coefficients and of the evaluation, and the half word |theta - 1/2| <= 1/2. docs/proofs/noise.md derives it.

The first pass places p = 2 U at an odd multiple of 2^-32 and needs |Z| = (1 - p) R(p). Each octave of p from 2^-12 to 1
has two segments of equal width, on each a polynomial of degree 5 in t, p = 2^e (1.25 + t) or 2^e (1.75 + t), that
interpolates R(p) 2^-32 at six Chebyshev points. tests/core/c/test_first_pass.c holds its bound for every p.

Run from the repository's root: python tools/gaussian_table.py
"""

from __future__ import annotations

import math
from pathlib import Path

import mpmath as mp

OCTAVES, SEGMENTS, DEGREE = 32, 16, 7
SHORT_OCTAVES, SHORT_DEGREE = 12, 5  # for the first pass, whose table has two segments for each of 16 octaves
CORE = Path(__file__).parent.parent / "src/privol/_core/c/noise"
mp.mp.prec = 200


def quantile(u: mp.mpf) -> mp.mpf:
    """-F^-1(u) for 0 < u <= 1/2 by Newton on ln of the tail."""
    z = mp.sqrt(-2 * mp.log(2 * u)) if u < mp.mpf("0.4") else mp.mpf("0.1")
    for _ in range(60):
        tail = mp.erfc(z / mp.sqrt(2)) / 2
        step = (tail - u) / density(z)
        if u < mp.mpf("0.4"):  # Newton's method on the logarithm converges from everywhere in the tail
            step = tail * mp.log(tail / u) / density(z)
        z += step
        if abs(step) < mp.mpf(2) ** -150:
            return z
    raise ArithmeticError(f"no convergence at {u}")


def density(z: mp.mpf) -> mp.mpf:
    return mp.exp(-z * z / 2) / mp.sqrt(2 * mp.pi)


def derivative(order: int) -> list[int]:
    """Coefficients in z of P with d^n z / du^n = P(z) (dz/du)^n, where dz/du = -1 / density.

    P_1 = 1 and P_(n+1) = P_n' + n z P_n, so none is negative: |d^n z / du^n| grows with z.
    """
    found = [1]
    for n in range(1, order):
        slope = [*(i * c for i, c in enumerate(found) if i), 0, 0]
        found = [a + b for a, b in zip(slope, [0, *(n * c for c in found)], strict=True)]
    return found


def segment(octave: int, j: int) -> tuple[list[float], mp.mpf]:
    """Coefficients and error bound of one segment."""
    low = mp.mpf(2) ** (51 - octave)

    def at(t: mp.mpf) -> mp.mpf:  # t in [-1/2, 1/2]
        return quantile((low * (1 + (j + t + mp.mpf(1) / 2) / SEGMENTS) + mp.mpf(1) / 2) / mp.mpf(2) ** 53)

    nodes = [mp.cos(mp.pi * (2 * i + 1) / (2 * (DEGREE + 1))) / 2 for i in range(DEGREE + 1)]
    matrix = mp.matrix([[x**p for p in range(DEGREE + 1)] for x in nodes])
    exact = mp.lu_solve(matrix, mp.matrix([at(x) for x in nodes]))
    stored = [float(c) for c in exact]
    # c0 + t (c1 + t c2 ...): the later terms are so small that eight roundings of 1 + z cover the whole evaluation
    assert sum(abs(c) / 2**k for k, c in enumerate(stored[1:], 1)) < 1 / 8
    grid = [mp.mpf(i) / 16 - mp.mpf(1) / 2 for i in range(17)]
    deviation = max(abs(sum(mp.mpf(c) * t**p for p, c in enumerate(stored)) - at(t)) for t in grid)
    # remainder |d^8 z / dt^8| / 8! * prod |t - node|, the product at most 2 (1/4)^8, the derivative largest at the
    # end nearest to the tail
    w = low / SEGMENTS / mp.mpf(2) ** 53
    z_end = quantile((low * (1 + mp.mpf(j) / SEGMENTS) + mp.mpf(1) / 2) / mp.mpf(2) ** 53)
    size = sum(c * z_end**i for i, c in enumerate(derivative(DEGREE + 1))) * (w / density(z_end)) ** (DEGREE + 1)
    remainder = size / mp.factorial(DEGREE + 1) * 2 / mp.mpf(4) ** (DEGREE + 1)
    rounding = 8 * mp.mpf(2) ** -53 * (z_end + 1)
    half_word = mp.mpf(2) ** -54 / density(quantile(mp.mpf(low * (1 + mp.mpf(j) / SEGMENTS)) / mp.mpf(2) ** 53))
    return stored, max(deviation, remainder) * mp.mpf("1.01") + rounding + half_word


def short_segment(place: int) -> list[float]:
    """Coefficients of a segment of the first pass, numbered by the last bits of an exponent and half an octave."""
    octave, half = 15 - place // 2, place % 2  # p in [2^-octave, 2^(1 - octave))
    if octave == 0:  # p that rounds to 1
        return [float(mp.sqrt(mp.pi / 2)) * 2.0**-32 * (1 - half)] + [0.0] * SHORT_DEGREE
    if octave > SHORT_OCTAVES:
        return [0.0] * (SHORT_DEGREE + 1)
    nodes = [mp.cos(mp.pi * (2 * i + 1) / (2 * (SHORT_DEGREE + 1))) / 4 for i in range(SHORT_DEGREE + 1)]
    matrix = mp.matrix([[x**p for p in range(SHORT_DEGREE + 1)] for x in nodes])

    def at(t: mp.mpf) -> mp.mpf:
        p = mp.mpf(2) ** -octave * (mp.mpf("1.25") + mp.mpf(half) / 2 + t)
        return quantile(p / 2) / (1 - p) / 2**32

    return [float(c) for c in mp.lu_solve(matrix, mp.matrix([at(x) for x in nodes]))]


def write_short() -> None:
    """Write each coefficient's 32 values one after another: two vectors of 16."""
    segments = [short_segment(place) for place in range(32)]
    text = [
        "/* Generated by tools/gaussian_table.py; do not edit. */",
        f"static const float gauss_segments[{SHORT_DEGREE + 1}][32] = {{",
    ]
    for k in range(SHORT_DEGREE + 1):
        values = [f"{segment[k]:.9g}f" if segment[k] else "0.0f" for segment in segments]
        text += ["{" + ",".join(values[:8]) + ",", *[",".join(values[i : i + 8]) + "," for i in (8, 16)]]
        text += [",".join(values[24:]) + "},"]
    target = CORE / "gaussian_segments.inc.h"
    target.write_text("\n".join([*text, "};"]) + "\n")


def main() -> None:
    write_short()
    rows, errors = [], []
    for octave in range(OCTAVES - 1, -1, -1):  # ascending in A, as the index counts
        worst = mp.mpf(0)
        for j in range(SEGMENTS):
            coefficients, error = segment(octave, j)
            worst = max(worst, error)
            rows.append("{" + ",".join(c.hex() for c in coefficients) + "}")
        errors.append(math.nextafter(float(worst), math.inf))
    text = [
        "/* Generated by tools/gaussian_table.py; do not edit. */",
        f"#define PV_GAUSS_OCTAVES {OCTAVES}",
        f"static const double gauss_error[{OCTAVES}] = {{",
        *[",".join(e.hex() for e in errors[i : i + 4]) + "," for i in range(0, OCTAVES, 4)],
        "};",
        f"static const double gauss_polynomial[{OCTAVES * SEGMENTS}][{DEGREE + 1}] = {{",
        *[row + "," for row in rows],
        "};",
    ]
    target = CORE / "gaussian_table.inc.h"
    target.write_text("\n".join(text) + "\n")
    print(f"{target.name}: {len(rows)} segments, errors {min(errors):.3e} to {max(errors):.3e}")


if __name__ == "__main__":
    main()
