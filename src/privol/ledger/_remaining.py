"""The rest of a limit after sums, rounded so that no figure is understated."""

from __future__ import annotations

import math
from decimal import ROUND_FLOOR, Context
from fractions import Fraction

__all__ = ["difference_down", "format_down", "left", "root_up"]


def root_up(square: float) -> float:
    """Smallest double whose square is at least ``square``."""
    if math.isinf(square):
        return math.inf
    root = math.sqrt(square)
    if Fraction(root) ** 2 < Fraction(square):
        root = math.nextafter(root, math.inf)
    return root


def left(limit: float, committed: float) -> float:
    """Root of ``limit^2 - committed``, rounded down; 0 if nothing is left."""
    if math.isinf(committed):
        return 0.0
    rest = Fraction(limit) ** 2 - Fraction(committed)
    root = math.sqrt(max(rest, Fraction(0)))
    return math.nextafter(root, 0.0) if Fraction(root) ** 2 > rest > 0 else root


def difference_down(limit: float, terms: list[float]) -> float:
    """Largest double that is at most ``limit`` less the sum of ``terms``; 0 if nothing is left."""
    if math.inf in terms:
        return 0.0
    negative = [-term for term in terms]
    rest = math.fsum([limit, *negative])
    if math.fsum([limit, *negative, -rest]) < 0.0:
        rest = math.nextafter(rest, -math.inf)
    return max(rest, 0.0)


def format_down(x: float) -> str:
    """Write ``x >= 0`` with 6 significant digits, rounded down, so that a request for the printed figure succeeds."""
    decimal = Context(prec=6, rounding=ROUND_FLOOR).create_decimal(repr(x)).normalize()
    return f"{decimal:f}" if -4 <= decimal.adjusted() < 6 else f"{decimal:e}"
