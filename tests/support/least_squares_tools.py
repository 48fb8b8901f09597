"""Rows and moments for the tests of PQFTL."""

from __future__ import annotations

import math

import numpy as np

N = 60


def rows(n=N, d=4, seed=0):
    """Rows and targets, some beyond their bounds of 1."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) / math.sqrt(d)
    y = X @ rng.normal(size=d) * 0.7
    y[3] = 2.5
    X[5] = 0.0
    return X, y


def moments(X, y, row_unit=1.0, intercept=False):
    """svec(v v^T) and y v for rows within their bounds, in the kernel's order of operations."""
    found = []
    for x, c in zip(X, y, strict=True):
        v = np.append(x * row_unit, row_unit) if intercept else x * row_unit
        upper = [v[i] * v[i] if i == j else (1.4142135623730951 * v[i]) * v[j] for i in range(len(v))
                 for j in range(i, len(v))]  # fmt: skip
        found.append(np.append(upper, c * v))
    return np.array(found)
