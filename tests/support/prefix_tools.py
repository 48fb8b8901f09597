"""Prefix sums with a known key, next to their twin."""

from __future__ import annotations

import math

import numpy as np

from privol._core._prefix import PrefixRun
from privol.noise import Source, decide_lattice_point

KEY = bytes(range(32))


def series(n):
    found = [1.0]
    for k in range(1, n):
        found.append(found[-1] * (2 * k - 1) / (2 * k))
    return found


def parameters(design, steps):
    """The other parameters of a design, for the plan and for the twin."""
    if design == "smooth":
        length, ones = next((h, k) for h in range(2, 40) for k in range(1, h) if math.comb(h, k) > steps)
        return {"ones": ones}, {"length": length, "ones": ones}
    if design == "blt":
        found = {"theta": (0.9, 0.5), "omega": (0.2, 0.15)}
    else:
        kept = {"sqrt": steps, "banded": min(steps, 6)}
        found = {"coefficients": series(kept[design])} if design in kept else {}
    return found, found


def begin(plan, decide=decide_lattice_point, key=KEY, horizon=None):
    source = Source(key, private=False, description="test") if plan.std else None
    return PrefixRun(plan, horizon=horizon or plan.horizon, source=source, stream=0, decide=decide)


def data(n, width=3, seed=0):
    """Rows of which about half are longer than 1."""
    return np.random.default_rng(seed).normal(size=(n, width)) * 1.2 / math.sqrt(width)


def toeplitz(column):
    n = len(column)
    return np.array([[column[i - j] if i >= j else 0.0 for j in range(n)] for i in range(n)])


def workload(n, discount=1.0, window=None):
    return toeplitz([discount**k if window is None or k < window else 0.0 for k in range(n)])
