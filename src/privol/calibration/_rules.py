"""Defaults of the offline learners from public numbers alone: the strength of regularization, and the ball.

No privacy rests on them: the result is calibrated as a value given by the user would be. ``docs/offline.md`` derives
the rule and says on which rows its constants were chosen.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from .._rounding import up_to_digits
from .._validate import choice, number
from ..errors import InvalidParameter
from ..guarantees import ADJACENCIES, gdp_mu
from ..losses import Loss

__all__ = ["IN_OBJECTIVE", "ON_MODEL", "noise_of_unit", "rule_l2", "unit_of"]

#: The reciprocal of the deviation, in units of a score, that noise may have in the score of the longest row. Noise in
#: the objective is damped by the losses' own curvature, which the rule ignores; noise on the model is not damped.
IN_OBJECTIVE, ON_MODEL = 1.0, 3.0
#: A typical deviation of targets, as a share of their bound.
_TARGETS = 1.0 / 3.0
_DIGITS = 3
_LEAST, _MOST = 1e-30, 1e30


def unit_of(loss: Loss, y_bound: float) -> float:
    """Size of a meaningful score: 1 for a margin, a third of the bound for a real target."""
    return 1.0 if loss.kind == "classification" else _TARGETS * y_bound


def noise_of_unit(epsilon: float, delta: float, dim: int, outputs: int) -> float:
    """Deviation of a coordinate's noise where one output's sensitivity is 1; 0 without noise.

    Parameters
    ----------
    epsilon, delta : float
        ``delta = 0``: L2-Laplace noise, whose length grows with the dimension; else Gaussian noise.
    dim, outputs : int
        Coordinates of an output; outputs, which are released together.
    """
    epsilon = number(epsilon=epsilon, above=0.0, infinite=True)
    delta = number(delta=delta, at_least=0.0, below=1.0)
    if math.isinf(epsilon):
        return 0.0
    root = math.sqrt(outputs)
    return root * math.sqrt(outputs * dim + 1.0) / epsilon if delta == 0.0 else root / gdp_mu(epsilon, delta)


def rule_l2(
    *,
    slope: Callable[[float], float],
    unit: float,
    row_bound: float,
    n: float,
    noise: float,
    multiple: float,
    adjacency: str,
) -> float:
    """Return the l2 with which the noise of a model moves a score by ``unit / multiple``, rounded up to three digits.

    Parameters
    ----------
    slope : callable
        L, by l2: bound of the loss's slope at the models that there are with it. Two rows' gradients differ by ``2 R
        L``, at most; a row's and none by ``R L``. It does not increase.
    unit : float
        Of :func:`unit_of`.
    row_bound : float
        R: a row's largest norm, the intercept's constant included.
    n : float
        Rows.
    noise : float
        Of :func:`noise_of_unit`.
    multiple : float
        ``IN_OBJECTIVE`` or ``ON_MODEL``.
    adjacency : {"replace", "zero_out"}

    Notes
    -----
    ``multiple R D noise / (n unit)``, D the largest difference of two gradients; but no less than ``R^2 L / (4 n
    unit)``, of the logistic loss the curvature of one row: a model without noise is regularised by this much, too.
    """
    gradients = 2.0 if choice(ADJACENCIES, adjacency=adjacency) == "replace" else 1.0
    factor = row_bound / unit * row_bound * max(multiple * gradients * noise, 0.25) / n
    low = high = factor * slope(_MOST)
    while _LEAST <= high <= _MOST and factor * slope(high) > high:
        low, high = high, 2.0 * high
    while high > low * 1.0001:
        middle = math.sqrt(low) * math.sqrt(high)
        low, high = (middle, high) if factor * slope(middle) > middle else (low, middle)
    l2 = high
    if not _LEAST <= l2 <= _MOST:
        raise InvalidParameter(
            f"no l2 was given, and by the rule it would be {l2:.3g}: epsilon and the bounds are too far apart for "
            "double precision. Scale rows and targets so that their bounds are about 1"
        )
    return min(up_to_digits(l2, _DIGITS), _MOST)
