"""Output perturbation: the minimiser of a regularised sum of losses over all rows, with noise added once.

Proofs, rounding included: ``docs/proofs/offline.md``. ``"published"`` is Algorithm 1 of Monteleoni and Chaudhuri
(2008).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from .._rounding import UNIT, UP, bound_of_rows, lanes, scaled_excess, vector_excess
from .._validate import choice, integer, number
from .._vocabulary import CALIBRATIONS
from ..errors import InvalidParameter
from ..guarantees import ADJACENCIES, Claim, gdp_mu, gdp_mu_of_pure
from ..losses import Loss
from ._rules import ON_MODEL, noise_of_unit, rule_l2, unit_of

__all__ = ["MOST_OUTPUTS", "OutputCalibration", "calibrate_output", "minimiser_bound"]

#: The most outputs, one for each class against the rest.
MOST_OUTPUTS = 1 << 10

_SMALL, _LARGE = 1e-30, 1e30
_MOST_ROWS = 1 << 53
_LEAST_SCALE, _LARGEST_SCALE = 1e-140, 1e140


@dataclass(frozen=True)
class OutputCalibration:
    """Everything that the noise of an output perturbation depends on; all of it public.

    Attributes
    ----------
    law : {"l2_laplace", "gaussian", "none"}
        Density proportional to ``exp(-||e|| / scale)``, independent Gaussians, or no noise (infinite epsilon).
    scale : float
        Of the noise: the Gaussian's standard deviation per coordinate. 0 without noise.
    dim : int
        Of the released vector: outputs times coordinates.
    l2 : float
        Strong convexity of the mean of the losses, given or by the rule of ``docs/offline.md``.
    l2_sum : float
        Lambda: what ``||w||^2 / 2`` is multiplied by in the sum of losses that is minimised; ``n l2``.
    gradient_norm : float
        Norm of the gradient of each output's sum, at most, where the solver may stop: its certificate.
    sensitivity : float
        L2 norm of the change of what the noise is added to when one row changes, solver and rounding charged.
    diameter : float
        Gradient diameter D of one output.
    minimiser_bound : float
        L2 bound of one output's minimiser, whatever the rows; infinite where D needs none.
    row_bound : float
        L2 bound of a row with the intercept's constant, as computed.
    radius : float or None
        L2 norm that the minimiser is scaled to where it exceeds it, before the noise is added, if one was given.
    ball : float or None
        Radius of the L2 ball that what is released is projected onto: ``radius``, or one that holds every minimiser of
        all outputs; None without noise, and of "published".
    derived : tuple of str
        Which of ``l2`` and ``ball`` come from public numbers by rule, because none was given.
    epsilon : float
        Of pure differential privacy, as proved; infinite for Gaussian noise and without noise.
    mu : float
        Parameter of Gaussian differential privacy, as proved; infinite without noise.
    claim : Claim or None
        The source's, for ``"published"``.
    """

    law: str
    scale: float
    dim: int
    l2: float
    l2_sum: float
    gradient_norm: float
    sensitivity: float
    diameter: float
    minimiser_bound: float
    row_bound: float
    radius: float | None
    ball: float | None
    derived: tuple[str, ...]
    epsilon: float
    mu: float
    claim: Claim | None


class Rows(NamedTuple):
    """The public bounds of an offline problem, checked."""

    dim: int
    outputs: int
    n: int
    row_bound: float  # as computed: rows are scaled by a rounded factor
    y_bound: float
    replace: bool


def check_rows(
    *,
    loss: Loss,
    dim: int,
    intercept: bool,
    n: int,
    adjacency: str,
    x_bound: float,
    y_bound: float,
    outputs: int,
) -> Rows:
    """Check what output and objective perturbation have in common.

    Raises
    ------
    InvalidParameter
        If the loss is not smooth or is of several scores at once, or a parameter is out of its range.
    """
    if loss.joint:
        raise InvalidParameter(
            f"loss={loss.name!r} is of several scores at once, and the offline learners need one of each: "
            "take a loss for two classes, which is then that of each class against the rest"
        )
    if math.isinf(loss.curvature):
        raise InvalidParameter(
            f"loss={loss.name!r} has a kink: no gradient certifies its minimiser, and noise in the objective leaves "
            "it at kinks with positive probability. Use a smooth loss ('smooth_hinge' for 'hinge', 'huber' for "
            "'absolute', a custom one of finite smoothness), or privol.POL, which takes kinks as they are"
        )
    dim, n = integer(dim=dim, at_least=1), integer(n=n, at_least=1, at_most=_MOST_ROWS)
    outputs = integer(outputs=outputs, at_least=1, at_most=MOST_OUTPUTS)
    if outputs > 1 and loss.kind != "classification":
        raise InvalidParameter(f"loss={loss.name!r} has one output; several are for classes against the rest")
    x_bound = number(x_bound=x_bound, at_least=_SMALL, at_most=_LARGE)
    y_bound = number(y_bound=y_bound, at_least=_SMALL, at_most=_LARGE)
    replace = choice(ADJACENCIES, adjacency=adjacency) == "replace"
    row_bound = bound_of_rows(x_bound, intercept)
    row_bound *= 1.0 + scaled_excess(dim)  # the computed norm of a scaled row
    return Rows(dim, outputs, n, row_bound * (1.0 + 4 * UNIT), y_bound, replace)


def check_l2(l2: float) -> float:
    """Return a given l2 if it is in its range."""
    return number(l2=l2, at_least=_SMALL, at_most=_LARGE)


def calibrate_output(
    *,
    loss: Loss,
    dim: int,
    intercept: bool,
    n: int,
    epsilon: float,
    delta: float,
    adjacency: str,
    x_bound: float,
    y_bound: float,
    l2: float | None = None,
    radius: float | None = None,
    outputs: int = 1,
    gradient_norm: float | None = None,
    calibration: str = "tight",
) -> OutputCalibration:
    """Calibrate output perturbation.

    Parameters
    ----------
    loss : Loss
        Of one score, of finite curvature.
    dim : int
        Coordinates of one output, the intercept's included.
    intercept : bool
        Whether the last coordinate is the intercept's, whose constant 1 is within the row's norm. It is regularised.
    n : int
        Rows: public, null rows included.
    epsilon, delta : float
        ``epsilon`` may be infinite: no noise. ``delta = 0``: L2-Laplace noise, which is pure; else Gaussian noise.
    adjacency, x_bound, y_bound
        As of the learners.
    l2 : float, optional
        Strong convexity of the mean of the losses: ``l2_sum`` is ``n l2``. Default: the l2 with which noise moves the
        score of a row of the largest norm by a third of a unit, computed from the other parameters here.
    radius : float, optional
        Norm that the minimiser (of all outputs, as one vector) is scaled to where it exceeds it, before noise is added.
        Then the sensitivity is at most ``2 radius``. What is released is projected onto that ball, too; without a
        radius, onto one that holds every minimiser.
    outputs : int, default=1
        Above 1: of a classification, one for each class against the rest, released together.
    gradient_norm : float, optional
        The solver's certificate. Default: ``1e-9 n`` largest gradients of a row, less where that would cost more than
        ``1e-4`` of the noise; but no less than double precision reaches.
    calibration : {"tight", "published"}, default="tight"

    Returns
    -------
    OutputCalibration

    Raises
    ------
    InvalidParameter
        If the loss or a parameter is not admitted; the message says which and why.

    Notes
    -----
    ``"published"`` has the scale ``2 x_bound / (n l2 epsilon)`` (with the intercept's constant in the bound) and the
    source's claim. What is proved for it is ``epsilon`` times the ratio of the sensitivity to ``2 x_bound / (n l2)``:
    the source's lemma is right for exact minimisers, so this is about the claim or below. It is the epsilon of
    ``exp(epsilon)``, not of ``1 + epsilon``, which the source's definition has.
    """
    rows = check_rows(
        loss=loss,
        dim=dim,
        intercept=intercept,
        n=n,
        adjacency=adjacency,
        x_bound=x_bound,
        y_bound=y_bound,
        outputs=outputs,
    )
    derived = tuple(name for name, value in (("l2", l2), ("radius", radius)) if value is None)
    l2 = _output_l2(loss, rows, epsilon, delta, adjacency) if l2 is None else check_l2(l2)
    l2_sum = rows.n * l2
    epsilon = number(epsilon=epsilon, above=0.0, infinite=True)
    delta = number(delta=delta, at_least=0.0, below=1.0)
    published = choice(CALIBRATIONS, calibration=calibration) == "published"
    if published and not (loss.log_odds and rows.outputs == 1 and delta == 0.0 and rows.replace and radius is None):
        raise InvalidParameter(
            "calibration='published' needs the logistic loss and one output, with delta=0, adjacency='replace' and no "
            "radius, as the source has it"
        )
    ball = minimiser_bound(loss, rows.row_bound, rows.y_bound, l2)
    diameter = loss.gradient_diameter(rows.row_bound, ball, rows.y_bound, adjacency)
    slope = loss.gradient_bound(rows.row_bound, ball, rows.y_bound)
    if gradient_norm is None:
        gradient_norm = certificate(
            max(min(1e-9 * n * slope, 4e-5 * diameter), reachable(loss, rows, l2_sum, slope, ball, 0.0)), loss, slope
        )
    gradient_norm = number(gradient_norm=gradient_norm, above=0.0, at_most=_LARGE)
    sensitivity = math.sqrt(rows.outputs) * (diameter + 2.0 * gradient_norm) / l2_sum * UP
    total = rows.outputs * rows.dim
    if radius is not None:
        radius = number(radius=radius, at_least=_SMALL, at_most=_LARGE)
        # scaled by a rounded factor: either may lie outside, and each coordinate is rounded
        excess = vector_excess(total)
        sensitivity = min(sensitivity + excess * radius, 2.0 * radius) * (1.0 + excess)
    claim = None
    if math.isinf(epsilon):
        law, scale, epsilon, mu = "none", 0.0, math.inf, math.inf
    elif published:
        bare = math.sqrt(x_bound * x_bound + 1.0) if intercept else x_bound
        law, scale = "l2_laplace", 2.0 * bare / l2_sum / epsilon
        claim = Claim(epsilon=epsilon, delta=0.0, source="Monteleoni and Chaudhuri 2008, Theorem 1")
        epsilon = sensitivity / scale * UP
        mu = gdp_mu_of_pure(epsilon)
    elif delta == 0.0:
        law, scale, mu = "l2_laplace", sensitivity / epsilon * UP, gdp_mu_of_pure(epsilon)
    else:
        mu = gdp_mu(epsilon, delta)
        law, scale, epsilon = "gaussian", sensitivity / mu * UP, math.inf
    check_scale(law, scale)
    return OutputCalibration(
        law=law,
        scale=scale,
        dim=total,
        l2=l2,
        l2_sum=l2_sum,
        gradient_norm=gradient_norm,
        sensitivity=sensitivity,
        diameter=diameter,
        minimiser_bound=ball,
        row_bound=rows.row_bound,
        radius=radius,
        ball=None if law == "none" or published else ball_of(radius, ball, rows.outputs),
        derived=derived,
        epsilon=epsilon,
        mu=mu,
        claim=claim,
    )


def _output_l2(loss: Loss, rows: Rows, epsilon: float, delta: float, adjacency: str) -> float:
    """The rule's l2, for the models that it admits if the loss's slope grows with the model."""

    def slope(l2: float) -> float:
        reach = math.inf
        if loss.steep:
            reach = rows.row_bound * minimiser_bound(loss, rows.row_bound, rows.y_bound, l2)
        return loss.lipschitz(reach, rows.y_bound)

    return rule_l2(
        slope=slope,
        unit=unit_of(loss, rows.y_bound),
        row_bound=rows.row_bound,
        n=rows.n,
        noise=noise_of_unit(epsilon, delta, rows.dim, rows.outputs),
        multiple=ON_MODEL,
        adjacency=adjacency,
    )


def ball_of(radius: float | None, minimisers: float, outputs: int) -> float | None:
    """Ball that a release is projected onto: with the given radius, or containing the minimisers of all outputs."""
    if radius is not None:
        return radius
    whole = math.sqrt(outputs) * minimisers * UP
    return whole if math.isfinite(whole) else None


def check_scale(law: str, scale: float) -> None:
    """Refuse noise whose scale is too far from 1 for double precision."""
    if law != "none" and not _LEAST_SCALE < scale < _LARGEST_SCALE:
        raise InvalidParameter(
            f"the noise would have the scale {scale:g}: epsilon, l2 and the bounds are too far apart for double "
            "precision"
        )


def certificate(gradient_norm: float, loss: Loss, slope: float) -> float:
    """A default of the solver's certificate, unless bounds make it one that no solver in double precision can have.

    Parameters
    ----------
    gradient_norm : float
    loss : Loss
    slope : float
        Bound of a row's gradient.

    Raises
    ------
    InvalidParameter
        It names the bounds that cause it, not the certificate, which the caller did not give.
    """
    if 0.0 < gradient_norm <= _LARGE:
        return gradient_norm
    bounds = "x_bound" if loss.kind == "classification" else "x_bound, y_bound, the radius"
    size = "small" if gradient_norm < 1.0 else "large"
    raise InvalidParameter(
        f"{bounds} and l2 are too {size} or too far apart for double precision: a row's gradient may be {slope:.3g} "
        "long. Scale rows and targets so that their bounds are about 1"
    )


def reachable(loss: Loss, rows: Rows, l2_sum: float, slope: float, point: float, linear: float) -> float:
    """Norm of a gradient that a solver in double precision can be expected to reach, and to certify.

    A default, on which no privacy rests: the certificate is the solver's.

    Parameters
    ----------
    loss : Loss
    rows : Rows
    l2_sum : float
        Lambda.
    slope : float
        Bound of a row's gradient.
    point, linear : float
        Norms of the minimiser and of the objective's linear term, about.
    """
    # rows are summed in blocks of 256; a prediction's error is the rounding of its sum over columns in eight lanes
    moved = min(slope, UNIT * (lanes(rows.dim) + 8) * loss.curvature * rows.row_bound * rows.row_bound * point)
    within = 1.0 + rows.row_bound * point + (rows.y_bound if loss.kind == "regression" else 1.0)
    moved += min(2.0 * slope, loss.ERROR * (slope + loss.curvature * rows.row_bound * within))
    return 4.0 * (rows.n * (320 * UNIT * slope + moved) + 8 * UNIT * (l2_sum * point + linear))


def minimiser_bound(loss: Loss, row_bound: float, y_bound: float, l2: float) -> float:
    """Return an L2 bound of the minimiser of ``mean of the losses + l2 ||w||^2 / 2``, whatever the rows; rounded up.

    It is attained, by rows that are all the same, for the built-in losses.

    Parameters
    ----------
    loss : Loss
    row_bound, y_bound : float
        Public bounds of rows (the intercept's constant included) and targets.
    l2 : float
        Above 0.

    Notes
    -----
    At the minimiser ``l2 ||w||^2`` is the mean of ``-phi'(m) m`` over the rows' predictions m, none of which exceeds
    ``row_bound ||w||``. So ``||w||`` is at most the largest solution r of ``l2 r^2 = sup of -phi'(m) m over |m| <=
    row_bound r``, and there is one, as the quotient of the sides increases with r.
    """

    def outside(r: float) -> bool:
        return l2 * r * r * (1.0 - 1e-13) > loss.pull(row_bound * r * UP, y_bound) * (1.0 + 1e-13)

    high = 1.0
    while not outside(high):
        high *= 16.0
        if high > 1e140:
            raise InvalidParameter("l2 and the bounds are too far apart for double precision")
    low = high
    while low > 1e-140 and outside(low):
        low /= 16.0
    while high > low * (1.0 + 1e-14):
        middle = math.sqrt(low) * math.sqrt(high)
        if not low < middle < high:
            break
        low, high = (low, middle) if outside(middle) else (middle, high)
    return high * UP
