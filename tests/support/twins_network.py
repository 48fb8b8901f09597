"""DOLA and SparseDOLA in plain NumPy: a loop over rounds and nodes, with given noise."""

from __future__ import annotations

import numpy as np


def soft(x, c):
    return np.sign(x) * np.maximum(np.abs(x) - c, 0.0)


def project(w, radius):
    norm = np.linalg.norm(w)
    return w if radius is None or norm <= radius else w * (radius / norm)


def network(gradients, randomize, matrix, *, nodes, batch, rounds, dim, length, radius=None, l2=0.0, implicit=False,
            position="gradient", threshold=None, l1=0.0, variance=0.0):  # fmt: skip
    """Run all rounds; returns what was sent in each, the points where gradients were taken, and the last points.

    gradients(t, i, w): the clipped gradients of node i's rows in round t (from 1 on) at w, shape (rows, dim).
    randomize(v): the report of the next message; matrix(t): the dense mixing matrix. threshold: None or
    (t, lengths so far, standard deviations) -> c for each node.
    """
    sent = np.zeros((nodes, dim))
    mixes, models = sent.copy(), sent.copy()
    spread = np.zeros((nodes, nodes))
    messages, points, lengths = [], [], length(1)
    for t in range(1, rounds + 1):
        alpha = length(t)
        points.append(models.copy())
        for i in range(nodes):
            g = gradients(t, i, models[i]).sum(axis=0)
            keep, of = 1.0 - alpha * l2, alpha / batch
            if implicit:
                keep = 1.0 / (1.0 + alpha * l2)
                of = of * keep
            if position == "output":
                w = project(keep * mixes[i] - of * g, radius)
                sent[i] = alpha / batch * randomize(w * batch / alpha)
                continue
            unit = alpha if position == "scaled_gradient" else 1.0
            sent[i] = project(keep * mixes[i] - of * unit * randomize(g / unit), radius)
        messages.append(sent.copy())
        a = matrix(t + 1)
        mixes = a @ sent
        spread = a @ (spread + (alpha / batch) ** 2 * variance * np.eye(nodes)) @ a.T
        lengths += length(t + 1)
        models = mixes
        if threshold is not None:
            models = soft(mixes, np.asarray(threshold(length(t + 1), lengths, np.sqrt(np.diag(spread))))[:, None])
    return np.array(messages), np.array(points), models, mixes
