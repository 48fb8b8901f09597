"""Offline learners: small problems, and the releases of their fits."""

from __future__ import annotations

import math
import warnings

import numpy as np

from privol import OutputPerturbation
from privol.errors import PrivacyWarning
from privol.noise import (
    decide_lattice_point,
    decide_mixture_point,
)


def curvature(loss, m, y):
    """Second derivative by the prediction; at a kink of the slope, that of one side."""
    if loss.name == "logistic":
        p = np.exp(-np.logaddexp(0.0, m))
        return p * (1.0 - p)
    if loss.name == "smooth_hinge":
        return np.where(np.abs(1.0 - y * m) <= loss.width, 0.5 / loss.width, 0.0)
    return np.where(np.abs(m - y) <= (loss.width or math.inf), 1.0, 0.0)  # for squared loss the width is 0


def slope(loss, m, y):
    if loss.name == "logistic":
        return -y * np.exp(-np.logaddexp(0.0, y * m))
    if loss.name == "smooth_hinge":
        return -y * np.clip((1.0 + loss.width - y * m) / (2.0 * loss.width), 0.0, 1.0)
    width = loss.width or math.inf
    return np.clip(m - y, -width, width)


def seen(X, x_bound=1.0, intercept=True):
    """Rows in the form of the objective."""
    X = np.asarray(X, dtype=float)
    X = X * np.minimum(1.0, x_bound / np.maximum(np.linalg.norm(X, axis=1), 1e-300))[:, None]
    return np.column_stack([X, np.ones(len(X))]) if intercept else X


def gradient(loss, S, y, l2_sum, b, w):
    return S.T @ slope(loss, S @ w, y) + l2_sum * w + b


def minimiser(loss, S, y, l2_sum, b=0.0):
    """Newton's method, with the step halved until the gradient is shorter or the objective lower."""
    w, b = np.zeros(S.shape[1]), np.broadcast_to(b, S.shape[1:])

    def value(v):
        return float(np.sum(loss.value(S @ v, y))) + 0.5 * l2_sum * float(v @ v) + float(b @ v)

    for _ in range(500):
        g = gradient(loss, S, y, l2_sum, b, w)
        if np.linalg.norm(g) <= 1e-13 * (len(S) + np.linalg.norm(b)):
            return w
        step = np.linalg.solve((S.T * curvature(loss, S @ w, y)) @ S + l2_sum * np.eye(len(w)), -g)
        a = 1.0
        while (
            a > 1e-9
            and np.linalg.norm(gradient(loss, S, y, l2_sum, b, w + a * step)) >= (1 - 1e-6 * a) * (np.linalg.norm(g))
            and value(w + a * step) >= value(w) + 1e-4 * a * float(g @ step)
        ):
            a *= 0.5
        w = w + a * step
    raise AssertionError(f"the reference did not converge: {np.linalg.norm(g)}")


def vector(source, dim, scale, step, stream, law="l2_laplace"):
    """A vector from a source, drawn as a learner draws it."""
    if law == "gaussian":
        return source.add(np.zeros(dim), scale, step=step, stream=stream, row=1, decide=decide_lattice_point)
    out = np.zeros((1, dim))
    source.add_mixture(
        None, scale, step, kind="l2_laplace", bound=0.0, stream=stream, row=1, decide=decide_mixture_point, out=out
    )
    return out[0]


def released(learner):
    """The released vector, with the parts of the classes one after another."""
    coef, intercept = np.atleast_2d(learner.coef_), np.atleast_1d(learner.intercept_)
    return (np.column_stack([coef, intercept]) if learner.fit_intercept else coef).ravel()


#: A ball so large that noise never leaves it: the release is then as it was drawn.
FAR = 1e9


def fitted(kind, X, y, *, labels=None, **parameters):
    """A learner with pure noise, unless a delta is given, and its fit."""
    learner = kind(**{"delta": 0.0, **parameters})
    if labels is not None:
        learner.declare_classes(labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        return learner.fit(X, y)


def problem(n, d, seed, outputs=1, real=False):
    """Rows, a third of them beyond the unit ball, and labels or real targets."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) / math.sqrt(d)
    if real:
        return X, rng.normal(size=n)
    return X, rng.integers(0, max(2, outputs), size=n)


def signs(y, outputs):
    return [np.where(y == 1, 1.0, -1.0)] if outputs == 1 else [np.where(y == k, 1.0, -1.0) for k in range(outputs)]


def scale_is(total, law, alpha):
    """Whether a sum of lengths, or of squares, agrees with its distribution."""
    low, high = law.ppf(alpha / 2), law.isf(alpha / 2)
    return low <= total <= high


def point(X, y, labels, **parameters):
    """The learner's result without noise; a target that is neither label nor number marks a null row."""
    parameters = {"on_invalid": "zero", **parameters, "epsilon": math.inf}
    return released(fitted(OutputPerturbation, X, y, labels=labels, **parameters))
