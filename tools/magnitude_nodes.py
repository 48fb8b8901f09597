"""Write src/privol/_core/c/betting/magnitude_nodes.inc.h: Gauss-Legendre rules on [0, 1] and a polynomial for exp.

Nodes are stored as (1 + x) / 2, computed with 50 digits and rounded once: next to 0 they keep all their digits, which
(1 + x) / 2 in doubles would not. Weights are those of [0, 1] and add up to 1.

Run from the repository's root: python tools/magnitude_nodes.py
"""

from __future__ import annotations

from pathlib import Path

import mpmath as mp

RULES = (8, 16, 24)
TERMS = 10  # of (e^r - 1 - r) / r^2 on |r| <= ln 2 / 2


def rule(n: int) -> list[tuple[mp.mpf, mp.mpf]]:
    """Node and weight pairs of the n-point rule on [0, 1], in ascending order; n even."""
    pairs = []
    for k in range(n):
        x = -mp.cos(mp.pi * (k + mp.mpf("0.75")) / (n + mp.mpf("0.5")))
        for _ in range(100):  # Newton's method on the Legendre polynomial
            before, value = mp.mpf(1), x
            for j in range(2, n + 1):
                before, value = value, ((2 * j - 1) * x * value - (j - 1) * before) / j
            slope = n * (before - x * value) / (1 - x * x)
            x, step = x - value / slope, value / slope
            if abs(step) < mp.mpf(10) ** -45:
                break
        pairs.append(((1 + x) / 2, 1 / ((1 - x * x) * slope * slope)))
    return pairs


def exponential() -> list[mp.mpf]:
    """Coefficients of a near-minimax polynomial for (e^r - 1 - r) / r^2, the constant first, and its error."""
    half = mp.log(2) / 2 * mp.mpf("1.000001")  # the reduction rounds
    coefficients = mp.chebyfit(lambda r: mp.fsum(r**k / mp.factorial(k + 2) for k in range(30)), [-half, half], TERMS)
    return list(reversed(coefficients))


def doubles(values: list[mp.mpf]) -> str:
    words = [repr(float(value)) for value in values]
    lines = [", ".join(words[k : k + 5]) for k in range(0, len(words), 5)]
    return "{\n    " + ",\n    ".join(lines) + "}"


def main() -> None:
    mp.mp.dps = 50
    text = "/* Written by tools/magnitude_nodes.py. */\n\n/* Gauss-Legendre on [0, 1]. */\n"
    for n in RULES:
        pairs = rule(n)
        text += f"static const double nodes{n}[{n}] = {doubles([node for node, _ in pairs])};\n"
        text += f"static const double weights{n}[{n}] = {doubles([weight for _, weight in pairs])};\n"
    text += "\n/* (e^r - 1 - r) / r^2 on |r| <= ln 2 / 2 within 2^-52; the constant first. */\n"
    text += f"static const double exp_terms[{TERMS}] = {doubles(exponential())};\n"
    Path("src/privol/_core/c/betting/magnitude_nodes.inc.h").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
