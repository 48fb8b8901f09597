"""Rows in every layout, and the kernels' form of them."""

from __future__ import annotations

import math

import numpy as np
from scipy import sparse


def scaled(X, x_bound, intercept):
    """The rows of the real objective."""
    norms = np.linalg.norm(X, axis=1)
    S = X * np.where(norms > x_bound, x_bound / np.maximum(norms, 1e-300), 1.0)[:, None]
    return np.c_[S, np.ones(len(X))] if intercept else S


def kernel_square(row):
    lanes = [0.0] * 8
    for j, v in enumerate(row.tolist()):
        lanes[j % 8] += v * v
    a = lanes
    return ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]))


def layouts(X):
    wide = sparse.csr_matrix(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    strided = np.zeros((len(X), 2 * X.shape[1]))
    strided[:, ::2] = X
    f32 = X.astype(np.float32)
    narrow = sparse.csr_matrix(X)
    return [X, np.asfortranarray(X), strided[:, ::2], f32, f32[::-1][::-1], narrow, sparse.csr_matrix(f32), wide]


def exact_delta(epsilon, sigma, l2_sum, loss, row, other, pull):
    """Delta of neighbours in one dimension, by integration over the model, and the density's mass.

    Rows are (s, y), or None; the other rows contribute a constant gradient.
    """
    reach = (12 * sigma + 4 + abs(pull)) / l2_sum
    w = np.linspace(-reach, reach, 100_001)
    logs = []
    for each in (row, other):
        g, h = l2_sum * w + pull, np.full_like(w, l2_sum)
        if each is not None:
            s, y = each
            m = s * w
            g = g + s * loss.gradient(m, y)
            h = h + s * s * (loss.gradient(m + 1e-6, y) - loss.gradient(m - 1e-6, y)) / 2e-6
        logs.append(-g * g / (2 * sigma**2) - math.log(sigma * math.sqrt(2 * math.pi)) + np.log(h))
    one, two = np.exp(logs[0]), np.exp(logs[1])
    width = w[1] - w[0]
    return float(np.maximum(one - math.exp(epsilon) * two, 0.0).sum() * width), float(one.sum() * width)
