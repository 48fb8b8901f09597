"""A plain twin of coin betting in one direction and one magnitude: reports in, iterates out.

Order of operations, one report ``g`` (d numbers), state ``x = y = energy = 0``, ``q = w = 0`` (d zeros) at the start;
every dot product adds ``a[0] b[0]``, ``a[1] b[1]``, ... to 0.0 one after the other, every line is the IEEE 754
operations as written, left to right, without contraction:

1. ``s = <g, q>``; ``x = x + s``
2. y, by its rule:
   ``"weighted"``: ``n2 = <q, q>``, ``y = y + n2 * growth``, ``growth = 0.5 * proxy + lipschitz * lipschitz``
   ``"count"``: ``y = y + growth``
   ``"agnostic"``: ``y = y + k * (s * s)``
3. ``energy = energy + <g, g>``
4. if ``energy > 0``: ``f = step / sqrt(energy)``, ``q[j] = q[j] + f * g[j]``
5. ``n2 = <q, q>``; if ``n2 > 1``: ``h = 1 / sqrt(n2)``, ``q[j] = q[j] * h``
6. ``m = magnitude(x, y, a)``; ``c = wealth * m``; ``w[j] = c * q[j]``

Steps 1 and 2 use the direction at the request of the report, steps 4 and 5 make the next one. The sum of the requested
iterates (for the average) adds w before the report: ``total[j] = total[j] + w[j]``. An infinite m ends the run with an
error before any of the state changes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from privol._core import coin

RULES = ("weighted", "count", "agnostic")


def dot(a: Sequence[float], b: Sequence[float]) -> float:
    total = 0.0
    for u, v in zip(a, b, strict=True):
        total = total + u * v
    return total


@dataclass
class BettingTwin:
    """One run; ``growth`` is k for the agnostic rule."""

    dim: int
    a: float
    growth: float
    rule: str = "weighted"
    wealth: float = 1.0
    step: float = 1.0
    x: float = 0.0
    y: float = 0.0
    energy: float = 0.0
    m: float = 0.0
    rows: int = 0
    q: list[float] = field(default_factory=list)
    w: list[float] = field(default_factory=list)
    total: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        assert self.rule in RULES
        self.q, self.w, self.total = [0.0] * self.dim, [0.0] * self.dim, [0.0] * self.dim

    def tell(self, report: Sequence[float]) -> list[float]:
        """Take the report on the iterate ``w``; return the next iterate."""
        g = [float(v) for v in report]
        assert len(g) == self.dim
        s = dot(g, self.q)
        x = self.x + s
        if self.rule == "weighted":
            y = self.y + dot(self.q, self.q) * self.growth
        elif self.rule == "count":
            y = self.y + self.growth
        else:
            y = self.y + self.growth * (s * s)
        energy = self.energy + dot(g, g)
        q = list(self.q)
        if energy > 0.0:
            f = self.step / math.sqrt(energy)
            q = [v + f * u for v, u in zip(q, g, strict=True)]
        n2 = dot(q, q)
        if n2 > 1.0:
            h = 1.0 / math.sqrt(n2)
            q = [v * h for v in q]
        m = coin.magnitude(x, y, self.a)
        if not math.isfinite(m):
            raise OverflowError(f"the magnitude is infinite after report {self.rows + 1}")
        c = self.wealth * m
        self.total = [v + u for v, u in zip(self.total, self.w, strict=True)]
        self.rows += 1
        self.x, self.y, self.energy, self.q, self.m = x, y, energy, q, m
        self.w = [c * v for v in q]
        return self.w

    @property
    def average(self) -> list[float]:
        """The average of the iterates that were reported on."""
        return [v / self.rows for v in self.total]
