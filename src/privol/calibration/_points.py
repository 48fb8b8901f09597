"""Gradients at public points: their length, and how far one row's can be from another's, as computed.

The rounding charged here (rows scaled, points projected, slopes taken at computed predictions) is derived in
``docs/proofs/gradients.md`` and ``leaders.md``; for several classes in ``classes.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .._rounding import UNIT, UP, lanes, scaled_excess
from .._validate import integer, number
from ..errors import InvalidParameter
from ..losses import class_slope_bound
from ._problem import Problem

__all__ = ["PointGradients", "check_steps", "gradients_at_points"]

_SMALL, _LARGE = 1e-30, 1e30
_MOST_BATCH = 1 << 20


@dataclass(frozen=True)
class PointGradients:
    """Public bounds of the gradients of single rows, taken at points of a set.

    Attributes
    ----------
    bound : float
        L2 norm that they are scaled to where they exceed it.
    change : float
        How far the gradients of two rows are from each other at one point ("replace"), or from 0 ("zero_out"), before
        they are rounded.
    row_bound : float
        L2 bound of a row with the intercept's constant.
    radius : float
        L2 bound of the points.
    """

    bound: float
    change: float
    row_bound: float
    radius: float


def check_steps(l2: float, batch: int) -> tuple[float, int]:
    """The strong convexity of every row, and the rows of a step, within their ranges."""
    l2 = number(l2=l2, at_least=0.0, at_most=_LARGE)
    if 0.0 < l2 < _SMALL:
        raise InvalidParameter(f"l2 must be 0 or at least {_SMALL:g}, found {l2:g}")
    return l2, integer(batch=batch, at_least=1, at_most=_MOST_BATCH)


def gradients_at_points(problem: Problem, gradient_bound: float | None) -> PointGradients:
    """Bound the gradients of a loss over a set, or take the caller's bound.

    Raises
    ------
    InvalidParameter
        If a parameter is out of its range.
    """
    loss, dim, y_bound = problem.loss, problem.dim, problem.y_bound
    outputs, weight = problem.outputs, problem.weight
    radius = number(norm_of_domain=problem.domain.norm_bound(dim), at_least=_SMALL, at_most=_LARGE)
    ball = 2.0 if problem.replaces else 1.0
    row_bound = problem.row_bound
    if gradient_bound is not None:
        bound = number(gradient_bound=gradient_bound, at_least=_SMALL, at_most=_LARGE)
        return PointGradients(bound, bound * ball, row_bound, radius)
    slack = 1.0 + 2 * scaled_excess(dim)  # no diameter grows faster than the square of the row's norm
    point = radius * (1.0 + 2 * (lanes(dim) + 16 * math.sqrt(dim) + 24) * UNIT)
    if outputs == 1:
        bound = slack * weight * loss.gradient_bound(row_bound, point, y_bound)
        change = slack * weight * loss.gradient_diameter(row_bound, point, y_bound, problem.adjacency)
    else:
        bound = slack * weight * row_bound * class_slope_bound(loss, outputs, row_bound * point * UP)
        change = bound * ball
    if math.isfinite(loss.curvature):  # a slope is taken at the prediction as computed
        change += 2 * weight * loss.curvature * row_bound * (2 * lanes(dim) * UNIT * row_bound * point)
    return PointGradients(bound, change, row_bound, radius)
