"""The best fixed model in hindsight, with a proved bound of its distance from the optimum. Not private."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from .._core._rows import squared_norms
from .._roots import falling_root
from .._validate import integer, number
from ..errors import InvalidParameter
from ..geometry import Box, ConvexSet, L1Ball, L2Ball, Simplex
from ..learners import DPFTRL
from ..losses import Loss, get_loss
from ._ranks import ScoreHistogram
from ._scores import Score, Sums, Task
from ._tape import Tape

__all__ = ["BestFixed", "Objective", "best_in_hindsight"]

FloatArray = NDArray[np.float64]

_PROGRESS = 1e-15  # of a mean loss: less is rounding
_NEWTON_DIM = 512  # above it a Hessian costs more than many gradients
# Newton's method first gets near the optimum on one in this many pieces of rows; then a few steps over all rows remain.
_PART, _PART_ROWS, _NEAR = 8, 1024, 0.05
_THIRD = 3
_CACHED_ROWS = 4096  # rows in a pass: what is computed from them stays in the cache


@dataclass(frozen=True)
class BestFixed:
    """The fixed model of least mean loss over all rows, found with all of them at hand. Not private.

    Attributes
    ----------
    model : ndarray of shape (n_features,) or (n_features + 1,)
        The intercept last. Of several scores: those of the first class, of the second, and so on.
    score : Score
    gap : float
        Proved bound of how far ``score.loss`` is above the least mean loss over the set (by convex duality).
    converged : bool
        Whether the gap is within the tolerance that was asked for.
    passes : int
        Passes over the rows.
    """

    model: FloatArray
    score: Score
    gap: float
    converged: bool
    passes: int

    def to_record(self) -> dict[str, Any]:
        """Return the figures as JSON values, without the model."""
        norm = float(np.linalg.norm(self.model))
        return {
            **self.score.to_record(),
            "loss_above_optimum_at_most": self.gap,
            "converged": self.converged,
            "passes": self.passes,
            "model_norm": norm,
            "private": False,
        }


@dataclass(frozen=True)
class _Surrogate:
    """A smooth stand-in for a loss, ``scale * loss``; the loss itself where it is smooth."""

    loss: Loss
    scale: float = 1.0

    def curvature(self, p: FloatArray, y: FloatArray) -> FloatArray:
        found: FloatArray = self.scale * np.asarray(self.loss.second_derivative(p, y))
        return found


class Objective:
    """Mean loss over the rows of a tape; keeps the best model seen and the best lower bound of the optimum."""

    every = 1  # one in this many pieces of rows is used
    curvature_every = 1  # one in this many used pieces gives its curvature, which is most of the work

    def __init__(self, tape: Tape, task: Task, domain: ConvexSet, x_bound: float, y_bound: float, intercept: bool):
        self.tape, self.task, self.loss, self.domain = tape, task, task.loss, domain
        self.x_bound, self.y_bound, self.intercept = x_bound, y_bound, intercept
        self.passes = 0
        self.best, self.lower = math.inf, -math.inf
        self.model: FloatArray = np.empty(0)

    @property
    def gap(self) -> float:
        return max(0.0, self.best - self.lower)

    def rows(self) -> Iterator[tuple[Any, FloatArray, FloatArray]]:
        """Rows without null rows, factors that scale them to the bound, and targets (-1/+1, indices, or clipped)."""
        self.passes += 1
        for block in self.tape.replay(_CACHED_ROWS if self.every == 1 else _PART_ROWS, self.every):
            if block.y is None:
                raise InvalidParameter("the stream has no targets")
            X, y = block.X, block.y
            squares = squared_norms(X)
            usable = (squares >= 0.0) & np.isfinite(y)
            if not usable.all():
                X, y, squares = X[usable], y[usable], squares[usable]
            bound = self.x_bound
            factor = np.where(squares > bound * bound, bound / np.sqrt(np.maximum(squares, 1e-300)), 1.0)
            if self.loss.kind == "regression":
                y = np.clip(y, -self.y_bound, self.y_bound)
            elif self.task.outputs == 1:
                y = 2.0 * y - 1.0
            yield X, factor, y

    def predict(self, X: Any, factor: FloatArray, w: FloatArray) -> FloatArray:
        n = self.task.outputs
        if n > 1:
            rows = w.reshape(n, -1)
            scores: FloatArray = np.asarray(X @ (rows[:, :-1] if self.intercept else rows).T) * factor[:, None]
            return scores + rows[:, -1] if self.intercept else scores
        p: FloatArray = np.asarray(X @ (w[:-1] if self.intercept else w)) * factor
        return p + w[-1] if self.intercept else p

    def score(self, w: FloatArray) -> Score:
        return self.scores([w])[0]

    def scores(self, models: Sequence[FloatArray], also: Callable[[FloatArray], object] | None = None) -> list[Score]:
        """Scores of fixed models, all in one pass over the rows, whose targets are handed to ``also``."""
        metrics = self.task.metrics()
        found = [(w, Sums(), ScoreHistogram()) for w in models]
        for X, factor, y in self.rows():
            for w, sums, ranks in found:
                p = self.predict(X, factor, w)
                sums.add(self.task, p, self.task.values(p, y), y, metrics)
                if "auc" in metrics:
                    ranks.add(p, y > 0.0)
            if also is not None:
                also(y)
        return [Score.of(sums, ranks.area() if "auc" in metrics else None, metrics) for _, sums, ranks in found]

    def look(self, w: FloatArray, surrogate: _Surrogate, hessian: bool) -> tuple[float, FloatArray, FloatArray]:
        """Mean value, gradient and Hessian of the surrogate; updates the best model and the lower bound.

        The surrogate's slopes are subgradients, at some point, of each row's true loss. So each row's loss is at least
        ``floor + slope * prediction`` everywhere, and the least value of the sum over the set bounds the optimum.
        """
        dim, task = len(w), self.task
        d = dim - self.intercept
        smooth = replace(task, loss=surrogate.loss)
        gradient, H = np.zeros(dim), np.zeros((dim, dim) if hessian else (0, 0))
        n, bent, true, value, floor = 0, 0, 0.0, 0.0, 0.0
        for piece, (X, factor, y) in enumerate(self.rows()):
            p, weight = self.predict(X, factor, w), task.weight(y)
            by_score = weight[:, None] if isinstance(weight, np.ndarray) and p.ndim == 2 else weight
            slope = surrogate.scale * smooth.gradients(p, y) * by_score
            values = task.values(p, y)
            n += len(y)
            true += float(np.sum(values))
            line = self.loss.line(slope, y)
            if line is None:
                line = values - (slope * p if p.ndim == 1 else np.sum(slope * p, axis=1))
            floor += float(np.sum(line))
            value += float(np.sum(smooth.values(p, y))) * surrogate.scale
            if p.ndim == 2:
                parts = gradient.reshape(task.outputs, -1)
                scaled = slope * factor[:, None]
                parts[:, : parts.shape[1] - self.intercept] += np.asarray(X.T @ scaled).T
                if self.intercept:
                    parts[:, -1] += slope.sum(axis=0)
                continue
            gradient[:d] += X.T @ (slope * factor)
            if self.intercept:
                gradient[d] += np.sum(slope)
            if hessian and piece % self.curvature_every == 0:
                bent += len(y)
                c = surrogate.curvature(p, y) * weight
                Z = X * (factor * np.sqrt(c))[:, None]
                H[:d, :d] += Z.T @ Z
                if self.intercept:
                    H[:d, d] += X.T @ (factor * c)
                    H[d, d] += np.sum(c)
        if n == 0:
            raise InvalidParameter("the stream has no usable rows")
        if hessian and self.intercept:
            H[d, :d] = H[:d, d]
        if true / n < self.best:
            self.best, self.model = true / n, w.copy()
        self.lower = max(self.lower, floor / n + _least(self.domain, gradient / n))
        return value / n, gradient / n, H / max(bent, 1)


def _least(domain: ConvexSet, g: FloatArray) -> float:
    """Least value of ``g . w`` over the set."""
    if isinstance(domain, L2Ball):
        return -domain.radius * float(np.linalg.norm(g))
    if isinstance(domain, L1Ball):
        return -domain.radius * float(np.max(np.abs(g)))
    if isinstance(domain, Simplex):
        return domain.total * float(np.min(g))
    if isinstance(domain, Box):
        low, high = domain.bounds(len(g))
        return float(np.sum(np.minimum(low * g, high * g)))
    raise InvalidParameter(f"no best fixed model is known for the set {domain!r}")


def _ball_step(H: FloatArray, b: FloatArray, radius: float) -> FloatArray:
    """Minimiser of ``v.H v / 2 + b.v`` over the ball, H positive semidefinite."""
    values, vectors = np.linalg.eigh(H)
    # Flat directions get a little curvature: enough to keep the step finite, too little to matter within the ball.
    values = np.maximum(values, 1e-10 * max(float(values[-1]), float(np.linalg.norm(b)) / radius, 1e-300))
    c = vectors.T @ b

    def excess(shift: float) -> float:
        return float(np.linalg.norm(c / (values + shift))) - radius

    shift = 0.0
    if excess(0.0) > 0.0:
        shift = falling_root(excess, float(np.linalg.norm(b)) / radius + 1e-300)
    v: FloatArray = -vectors @ (c / (values + shift))
    return v * min(1.0, radius / max(float(np.linalg.norm(v)), 1e-300))


def _newton(
    f: Objective, w: FloatArray, surrogate: _Surrogate, radius: float, tolerance: float, most: int
) -> FloatArray:
    """Newton steps whose quadratic model is minimised over the L2 ball itself, so that every iterate is feasible."""
    value, g, H = f.look(w, surrogate, True)
    while f.gap > tolerance and f.passes < most:
        before, moved = f.gap, False
        step = _ball_step(H, g - H @ w, radius) - w
        slope, t = float(g @ step), 1.0
        while not moved and f.passes < most and slope <= -_PROGRESS * abs(value):  # otherwise nothing is left to gain
            new, g_new, H_new = f.look(w + t * step, surrogate, True)
            if new <= value + 1e-4 * t * slope + _PROGRESS * abs(value):
                w, value, g, H, moved = w + t * step, new, g_new, H_new, True
            t /= 2.0
        if f.curvature_every > 1 and (not moved or f.gap > before / 2.0):
            f.curvature_every = 1
            value, g, H = f.look(w, surrogate, True)
        elif not moved:
            break
    return w


def _projected(f: Objective, w: FloatArray, surrogate: _Surrogate, tolerance: float, most: int) -> FloatArray:
    """Spectral projected gradient with a non-monotone line search: any set, any dimension, sparse rows."""
    value, g, _ = f.look(w, surrogate, False)
    recent, length = [value], 1.0 / max(float(np.linalg.norm(g)), 1e-12)
    while f.gap > tolerance and f.passes < most:
        step = f.domain.project(w - length * g) - w
        slope, t = float(g @ step), 1.0
        if slope > -_PROGRESS * abs(value):
            break
        while f.passes < most:
            new, g_new, _ = f.look(w + t * step, surrogate, False)
            if new <= max(recent) + 1e-4 * t * slope + _PROGRESS * abs(value):
                break
            t /= 2.0
        else:
            break
        s, change = t * step, g_new - g
        bend = float(s @ change)
        length = min(max(float(s @ s) / bend, 1e-10), 1e10) if bend > 0.0 else 1e10
        w, value, g = w + s, new, g_new
        recent = [*recent[-9:], value]
    return w


def best_in_hindsight(
    stream: Any,
    *,
    loss: str | Loss = "logistic",
    domain: ConvexSet | None = None,
    radius: float = 1.0,
    x_bound: float = 1.0,
    y_bound: float = 1.0,
    fit_intercept: bool = True,
    class_weight: Mapping[Any, float] | None = None,
    tolerance: float = 1e-6,
    max_passes: int = 300,
) -> BestFixed:
    """Find the fixed model of least mean loss over all rows, in the feasible set, without a regulariser.

    Parameters
    ----------
    stream : Stream or Tape
        Read once; its rows are recorded on a :class:`Tape`. A complete tape is used as it is.
    loss, domain, radius, x_bound, y_bound, fit_intercept, class_weight
        As for the learners: rows and targets are scaled to their bounds as there. Of more than two classes, and for the
        softmax, as :class:`privol.DPFTRL` has them: the set holds the flattened matrix.
    tolerance : float, default=1e-6
        In mean loss per row.
    max_passes : int, default=300
        Passes over the rows; the gap says what they came to.

    Returns
    -------
    BestFixed
        With a proved bound of its distance from the optimum, also for losses with kinks. Not private.

    Notes
    -----
    Memory flat in the number of rows. On an L2 ball with up to 512 coordinates and a single score: Newton steps with
    the ball's own constraint, O(n d^2) a pass; where there are enough rows, the first passes see an eighth of them, and
    the others take the curvature, but neither values nor gradients, from a third of them until that slows them down.
    Else: spectral projected gradient. Losses with kinks are approached by smooth ones.
    """
    loss = get_loss(loss)
    tolerance = number(tolerance=tolerance, above=0)
    most = integer(max_passes=max_passes, at_least=1)
    x_bound, y_bound = number(x_bound=x_bound, above=0), number(y_bound=y_bound, above=0)
    feasible = L2Ball(number(radius=radius, above=0)) if domain is None else domain
    own = not isinstance(stream, Tape)
    tape = Tape(stream) if own else stream
    try:
        if not tape.complete:
            for _ in tape:
                pass
        learner = DPFTRL(loss=loss, class_weight=class_weight)
        task = Task.of(learner, tape.classes)
        f = Objective(tape, task, feasible, x_bound, y_bound, bool(fit_intercept))
        dim = task.outputs * (tape._n_features + bool(fit_intercept))
        w = feasible.start(dim)
        single = task.outputs == 1 and loss.vouched is None  # no second derivative of a user's loss is known
        dense_ball = isinstance(feasible, L2Ball) and dim <= _NEWTON_DIM and not tape._sparse and single
        # One thread: on blocks that fit into the cache more threads gain little, and waiting for them on a busy machine
        # costs much.
        with threadpool_limits(limits=1, user_api="blas"):
            for surrogate in (_Surrogate(stand_in, scale) for stand_in, scale in loss.stand_ins()):
                if dense_ball and isinstance(feasible, L2Ball):
                    if tape._rows > _PART * _PART_ROWS and tape._rows > _PART * 20 * dim:
                        part = Objective(tape, task, feasible, x_bound, y_bound, bool(fit_intercept))
                        part.every = _PART
                        with suppress(InvalidParameter):  # no usable row in this part
                            w = _newton(part, w, surrogate, feasible.radius, max(tolerance, _NEAR), most)
                        f.curvature_every = _THIRD
                    w = _newton(f, w, surrogate, feasible.radius, tolerance, most)
                else:
                    w = _projected(f, w, surrogate, tolerance, most)
                if f.gap <= tolerance or f.passes >= most:
                    break
            score = f.score(f.model)
        return BestFixed(f.model, score, f.gap, f.gap <= tolerance, f.passes)
    finally:
        if own:
            tape.close()
