"""Objective perturbation: a random linear term in the minimised sum, and a little noise on the solver's result.

Proofs, the solver's error and all rounding included: ``docs/proofs/offline.md``. ``"published"`` is Algorithm 2 of
Monteleoni and Chaudhuri (2008), ``"jmlr"`` that of Chaudhuri, Monteleoni and Sarwate (2011).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from .._rounding import UNIT, UP
from .._validate import choice, number
from .._vocabulary import MIN_L2, OBJECTIVE_CALIBRATIONS
from ..errors import InvalidParameter
from ..guarantees import Claim, gdp_delta, gdp_mu
from ..losses import Loss
from ..noise import granularity
from ._offline import Rows, ball_of, certificate, check_l2, check_rows, check_scale, minimiser_bound, reachable
from ._rules import IN_OBJECTIVE, noise_of_unit, rule_l2, unit_of

__all__ = ["MIN_L2", "OBJECTIVE_CALIBRATIONS", "ObjectiveCalibration", "calibrate_objective"]


_LARGE = 1e30
_FINAL = 0.01  # share of epsilon and delta for the noise that covers the solver's error
_FINER = 2.0**-20  # the linear term's grid, relative to that of a release
_CELLS = 64


@dataclass(frozen=True)
class ObjectiveCalibration:
    """Everything that the noise of an objective perturbation depends on; all of it public.

    With b drawn by ``law`` and ``scale`` and rounded to the grid ``step`` (for several outputs one vector, cut into
    theirs), each output's sum of losses ``+ l2_sum ||w||^2 / 2 + b . w`` is minimised until its gradient's norm is
    certified to be at most ``gradient_norm``. What is released is that point (all outputs' together) with noise of
    ``law`` and ``final_scale``.

    Attributes
    ----------
    loss : Loss
        What is minimised: the loss asked for, except for the squared one, in whose place there is Huber's: the same for
        all models within the radius, or for all errors up to ``y_bound`` where none was given.
    law : {"l2_laplace", "gaussian", "none"}
        Density proportional to ``exp(-||b|| / scale)``, independent Gaussians, or no noise (infinite epsilon).
    scale : float
        Of b: the Gaussian's standard deviation per coordinate. 0 without noise.
    step : float
        Grid of b, a power of two, at most: far finer than that of a release, as what it is off by is charged to
        ``final_scale``. 0 without noise.
    final_scale : float
        Of the final noise, as ``scale``; rounded to the grid of a release of its law.
    dim : int
        Of b and of the released vector: outputs times coordinates.
    l2 : float
        Strong convexity of the mean of the losses, given or by the rule of ``docs/offline.md``.
    l2_sum : float
        Lambda: ``n l2``, and the extra regularisation.
    l2_extra : float
        How much of it was added to ``n l2``.
    ball : float or None
        Radius of the L2 ball that what is released is projected onto: the one that was given, or of a ball that holds
        every minimiser without noise; None where there is no noise, and of "published".
    derived : tuple of str
        Which of ``l2`` and the radius come from public numbers by rule, because none was given.
    gradient_norm : float
        The solver's certificate, for each output.
    error : float
        L2 norm of the released vector's distance from the ideal minimiser before the final noise, at most.
    row_bound : float
        L2 bound of a row with the intercept's constant, as computed.
    lipschitz : float
        Bound of the loss's slope.
    epsilon, delta : float
        Of the release, as proved: pure if delta is 0. Infinite and 0 without noise.
    epsilon_objective, delta_objective : float
        The part of them that is b's.
    epsilon_final, delta_final : float
        The part of them that is the final noise's.
    claim : Claim or None
        The source's, for ``"published"``.
    """

    loss: Loss
    law: str
    scale: float
    step: float
    final_scale: float
    dim: int
    l2: float
    l2_sum: float
    l2_extra: float
    ball: float | None
    derived: tuple[str, ...]
    gradient_norm: float
    error: float
    row_bound: float
    lipschitz: float
    epsilon: float
    delta: float
    epsilon_objective: float
    delta_objective: float
    epsilon_final: float
    delta_final: float
    claim: Claim | None


class Law(NamedTuple):
    """The row facts that calibration needs: ``slope`` L and ``curve`` c bound the loss's derivatives, R the row."""

    slope: float  # R L
    curve: float  # R^2 c; for the logistic loss R^2, as phi'' = p (1 - p) at |phi'| = p
    outputs: int
    replace: bool
    logistic: bool
    signed: bool  # phi' has the same sign for all predictions


def calibrate_objective(
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
    min_l2: str = "quarter",
    gradient_norm: float | None = None,
    calibration: str = "tight",
) -> ObjectiveCalibration:
    """Calibrate objective perturbation.

    Parameters
    ----------
    loss : Loss
        Of one score, of finite curvature. The squared loss, whose gradients are not bounded, is taken as Huber's with
        the threshold ``row_bound radius + y_bound``: the same for every model within the radius. Without a radius the
        threshold is ``y_bound``, the largest error of the zero model.
    dim : int
        Coordinates of one output, the intercept's included.
    intercept : bool
        Whether the last coordinate is the intercept's, whose constant 1 is within the row's norm. It is regularised.
    n : int
        Rows: public, null rows included.
    epsilon, delta : float
        ``epsilon`` may be infinite: no noise. ``delta = 0``: L2-Laplace noise, which is pure; else Gaussian noise.
        ``0.01`` of both is for the final noise.
    adjacency, x_bound, y_bound
        As of the learners.
    l2 : float, optional
        Strong convexity of the mean of the losses, at least. Default: the l2 with which b moves the score of a row of
        the largest norm by one unit, at most, computed from the other parameters here.
    radius : float, optional
        Of the L2 ball that what is released is projected onto; what is minimised is not constrained. Default: of one
        that holds every minimiser without noise.
    outputs : int, default=1
        Above 1: of a classification, one for each class against the rest, released together.
    min_l2 : {"quarter", "full"}, default="quarter"
        Where ``n l2`` is so small that the determinant would cost more than half of epsilon ("quarter": b's ``1 /
        scale`` would be below ``epsilon / (4 R)`` for one output and "replace"), it is increased until it does not.
        "full", of the logistic loss and pure noise: until the determinant costs nothing.
    gradient_norm : float, optional
        The solver's certificate. Default: ``1e-9 n`` largest gradients of a row, or ``1e-7`` of them where that is
        less; but no less than double precision reaches.
    calibration : {"tight", "published", "jmlr"}, default="tight"

    Returns
    -------
    ObjectiveCalibration

    Raises
    ------
    InvalidParameter
        If the loss or a parameter is not admitted; the message says which and why.

    Notes
    -----
    ``"published"`` draws b as the slides do, for all of epsilon. The claim is theirs. ``epsilon_objective`` is what is
    proved for that b: of the logistic loss it is epsilon if and only if ``n l2 epsilon >= 2 R^2``, and more below,
    where it is attained for some rows. The slides have no final noise, without which nothing is proved of a solver that
    stops early: it is added here, and its ``0.01 epsilon`` too.

    ``"jmlr"`` is right, with more noise than needed; the final noise is within epsilon.
    """
    epsilon = number(epsilon=epsilon, above=0.0, infinite=True)
    delta = number(delta=delta, at_least=0.0, below=1.0)
    choice(OBJECTIVE_CALIBRATIONS, calibration=calibration)
    choice(MIN_L2, min_l2=min_l2)
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
    if radius is not None:
        radius = number(radius=radius, above=0.0, at_most=_LARGE)
    loss = _lipschitz_loss(loss, rows, radius)
    lipschitz = loss.lipschitz(math.inf, rows.y_bound)
    law = _law(loss, rows, lipschitz)
    if calibration != "tight" and (rows.outputs > 1 or delta > 0.0 or not rows.replace or min_l2 != "quarter"):
        raise InvalidParameter(
            f"calibration={calibration!r} needs one output, delta=0 and adjacency='replace', and has no min_l2"
        )
    if min_l2 == "full" and (delta > 0.0 or not law.logistic):
        raise InvalidParameter(
            "min_l2='full' needs the logistic loss and delta=0: elsewhere the determinant always costs something"
        )
    if l2 is None:
        l2 = rule_l2(
            slope=lambda _: lipschitz,
            unit=unit_of(loss, rows.y_bound),
            row_bound=rows.row_bound,
            n=rows.n,
            noise=noise_of_unit(epsilon, delta, rows.dim, rows.outputs),
            multiple=IN_OBJECTIVE,
            adjacency=adjacency,
        )
    l2 = check_l2(l2)
    least_sum = rows.n * l2
    epsilon_final, delta_final = _FINAL * epsilon, _FINAL * delta
    epsilon_b, delta_b = epsilon - epsilon_final, delta - delta_final
    claim = None
    if math.isinf(epsilon):
        return _without_noise(loss, rows, law, lipschitz, l2, derived, gradient_norm)
    if calibration == "published":
        l2_sum, scale = least_sum, 2.0 * law.slope / epsilon * UP
        claim = Claim(epsilon=epsilon, delta=0.0, source="Monteleoni and Chaudhuri 2008, Theorems 2 and 3")
        epsilon_b = max(epsilon, pure_cost(law, law.slope / scale, l2_sum))
        epsilon = math.nextafter(epsilon_b + epsilon_final, math.inf)
    elif calibration == "jmlr":
        share, l2_sum = jmlr_share(law, epsilon_b, least_sum)
        scale = 2.0 * law.slope / share * UP
    elif delta == 0.0:
        share, l2_sum = pure_share(law, epsilon_b, least_sum, min_l2)
        scale = law.slope / share * UP
    else:
        scale, l2_sum = gaussian_scale(law, epsilon_b, delta_b, least_sum)
    name = "gaussian" if delta > 0.0 else "l2_laplace"
    check_scale(name, scale)
    total = rows.outputs * rows.dim
    deviation = scale if delta > 0.0 else scale * math.sqrt(total + 1.0)
    step = granularity(deviation) * _FINER
    if gradient_norm is None:
        gradient_norm = _gradient_norm(loss, rows, law, l2_sum, deviation)
    gradient_norm = number(gradient_norm=gradient_norm, above=0.0, at_most=_LARGE)
    # b has an error of at most half a step a coordinate, and so has every output's gradient
    error = math.sqrt(rows.outputs) * (gradient_norm + 0.5 * step * math.sqrt(rows.dim)) / l2_sum * UP
    budget = gdp_mu(epsilon_final, delta_final) if delta > 0.0 else epsilon_final
    final_scale = 2.0 * error / budget * UP
    check_scale(name, final_scale)
    minimisers = minimiser_bound(loss, rows.row_bound, rows.y_bound, l2_sum / rows.n)
    return ObjectiveCalibration(
        loss=loss,
        law=name,
        scale=scale,
        step=step,
        final_scale=final_scale,
        dim=total,
        l2=l2,
        l2_sum=l2_sum,
        l2_extra=max(0.0, l2_sum - least_sum),
        ball=None if calibration == "published" else ball_of(radius, minimisers, rows.outputs),
        derived=derived,
        gradient_norm=gradient_norm,
        error=error,
        row_bound=rows.row_bound,
        lipschitz=lipschitz,
        epsilon=epsilon,
        delta=delta,
        epsilon_objective=epsilon_b,
        delta_objective=delta_b,
        epsilon_final=epsilon_final,
        delta_final=delta_final,
        claim=claim,
    )


def _lipschitz_loss(loss: Loss, rows: Rows, radius: float | None) -> Loss:
    """The loss itself, or one with a bounded slope that is identical for all models within the radius."""
    if not loss.steep:
        return loss
    return loss.bounded(0.0 if radius is None else rows.row_bound * radius, rows.y_bound)


def _law(loss: Loss, rows: Rows, lipschitz: float) -> Law:
    square = rows.row_bound * rows.row_bound * UP
    return Law(
        slope=rows.row_bound * lipschitz * UP,
        curve=square if loss.log_odds else square * loss.curvature * UP,
        outputs=rows.outputs,
        replace=rows.replace,
        logistic=loss.log_odds,
        signed=loss.one_sided,
    )


def _gradient_norm(loss: Loss, rows: Rows, law: Law, l2_sum: float, deviation: float) -> float:
    linear = 2.0 * deviation * math.sqrt(rows.dim)
    point = minimiser_bound(loss, rows.row_bound, rows.y_bound, l2_sum / rows.n) + linear / l2_sum
    wanted = max(min(1e-9 * rows.n, 1e-7) * law.slope, reachable(loss, rows, l2_sum, law.slope, point, linear))
    return certificate(wanted, loss, law.slope)


def _without_noise(
    loss: Loss,
    rows: Rows,
    law: Law,
    lipschitz: float,
    l2: float,
    derived: tuple[str, ...],
    gradient_norm: float | None,
) -> ObjectiveCalibration:
    l2_sum = rows.n * l2
    if gradient_norm is None:
        gradient_norm = _gradient_norm(loss, rows, law, l2_sum, 0.0)
    gradient_norm = number(gradient_norm=gradient_norm, above=0.0, at_most=_LARGE)
    return ObjectiveCalibration(
        loss=loss,
        law="none",
        scale=0.0,
        step=0.0,
        final_scale=0.0,
        dim=rows.outputs * rows.dim,
        l2=l2,
        l2_sum=l2_sum,
        l2_extra=0.0,
        ball=None,
        derived=derived,
        gradient_norm=gradient_norm,
        error=math.sqrt(rows.outputs) * gradient_norm / l2_sum * UP,
        row_bound=rows.row_bound,
        lipschitz=lipschitz,
        epsilon=math.inf,
        delta=0.0,
        epsilon_objective=math.inf,
        delta_objective=0.0,
        epsilon_final=math.inf,
        delta_final=0.0,
        claim=None,
    )


# --- L2-Laplace noise ---------------------------------------------------------------------------------------------


def pure_cost(law: Law, share: float, l2_sum: float) -> float:
    """Bound of the log-ratio of two neighbours' densities, rounded up.

    Parameters
    ----------
    law : Law
    share : float
        ``R L / scale``: what one row's largest gradient costs of epsilon, by the noise alone.
    l2_sum : float

    Notes
    -----
    With ``t = share sqrt(k)`` and ``a`` 1 for "replace", 0 for "zero_out", the bound is, for the logistic loss, the
    largest ``t (a + p) + k ln(1 + (R^2 / Lambda) p (1 - p))`` over p in [0, 1], which is concave in p; for others ``t
    (a + 1) + k ln(1 + c R^2 / Lambda)``. A concave function is below its tangents: one next to the maximum bounds it.
    """
    k, a = law.outputs, 1.0 if law.replace else 0.0
    t, ratio = share * math.sqrt(k), law.curve / l2_sum * (1.0 + 4 * UNIT)
    if not law.logistic:
        return (t * (a + 1.0) + k * math.log1p(ratio)) * (1.0 + 1e-14)
    p = 1.0
    if t < k * ratio:  # the root of t (1 + ratio p (1 - p)) + k ratio (1 - 2 p), without cancellation
        half, rest = (k - 0.5 * t) * ratio, t + k * ratio
        root = math.sqrt(half * half + t * ratio * rest)
        p = min(1.0, rest / (root + half) if half > 0.0 else (root - half) / (t * ratio))
    value = t * (a + p) + k * math.log1p(ratio * p * (1.0 - p))
    pull = k * ratio * (1.0 - 2.0 * p) / (1.0 + ratio * p * (1.0 - p))
    slope = t + pull
    tangent = max(slope * (1.0 - p), -slope * p, 0.0)
    off = 1e-14 * (t + k * ratio / (1.0 + ratio * p * (1.0 - p)))  # the slope's own rounding
    return (value + tangent + off) * (1.0 + 1e-14)


def pure_share(law: Law, epsilon: float, l2_sum: float, min_l2: str) -> tuple[float, float]:
    """Return the largest share whose :func:`pure_cost` is within epsilon, and Lambda, increased where it is too small.

    Parameters
    ----------
    law : Law
    epsilon : float
    l2_sum : float
    min_l2 : {"quarter", "full"}
    """
    full = epsilon / ((2.0 if law.replace else 1.0) * math.sqrt(law.outputs))
    if min_l2 == "full":
        # t = share sqrt(k) is at least k R^2 / Lambda, and the maximum is at p = 1
        l2_sum = max(l2_sum, math.sqrt(law.outputs) * law.curve / full * UP)
    else:
        least = 0.5 * full
        if pure_cost(law, least, l2_sum) > epsilon:
            # at Lambda = k (curve / 4, curve) / (epsilon / 4) the determinant costs at most epsilon / 4
            low, high = l2_sum, max(l2_sum, 4.0 * law.outputs * law.curve / epsilon * UP)
            while high > low * (1.0 + 1e-14):
                middle = math.sqrt(low) * math.sqrt(high)
                if not low < middle < high:
                    break
                low, high = (low, middle) if pure_cost(law, least, middle) <= epsilon else (middle, high)
            l2_sum = high
    low, high = 0.0, full
    while high > low * (1.0 + 1e-15):
        middle = low + 0.5 * (high - low)
        if not low < middle < high:
            break
        low, high = (middle, high) if pure_cost(law, middle, l2_sum) <= epsilon else (low, middle)
    if low <= 0.0:
        raise InvalidParameter("epsilon, l2 and the bounds are too far apart for double precision")
    return low, l2_sum


def jmlr_share(law: Law, epsilon: float, l2_sum: float) -> tuple[float, float]:
    """Return the epsilon that is left for the noise, and Lambda, as Chaudhuri, Monteleoni and Sarwate (2011) have them.

    ``epsilon - 2 ln(1 + c R^2 / Lambda)``; where that is not positive, half of epsilon, with Lambda increased to
    ``c R^2 / (exp(epsilon / 4) - 1)``.
    """
    curve = 0.25 * law.curve if law.logistic else law.curve
    left = (epsilon - 2.0 * math.log1p(curve / l2_sum) * UP) * (1.0 - 1e-15)
    return (left, l2_sum) if left > 0.0 else (0.5 * epsilon, curve / math.expm1(0.25 * epsilon) * UP)


# --- Gaussian noise -----------------------------------------------------------------------------------------------


def gaussian_scale(law: Law, epsilon: float, delta: float, l2_sum: float) -> tuple[float, float]:
    """Return the least standard deviation of b that is proved to be enough, and Lambda.

    Lambda is increased where the determinant would cost more than half of epsilon.
    """
    curve = 0.25 * law.curve if law.logistic else law.curve
    if law.outputs > 1 and not law.signed:
        raise InvalidParameter(
            "several outputs with delta above 0 need the logistic loss or the smoothed hinge, whose slopes do not "
            "change their sign; take delta=0, or one of these"
        )
    l2_sum = max(l2_sum, curve / math.expm1(min(0.5 * epsilon / law.outputs, 700.0)) * UP)
    left = (epsilon - law.outputs * math.log1p(curve / l2_sum) * (1.0 + 1e-14)) * (1.0 - 1e-14)
    shifts = gaussian_shifts(law)

    def enough(scale: float) -> bool:
        return gaussian_cost(shifts, left, law.slope / scale) <= delta

    low = high = law.slope / gdp_mu(left, delta)
    while not enough(high):
        low, high = high, 2.0 * high
    while enough(low):
        low, high = 0.5 * low, low
    precision = 1e-13 if law.outputs == 1 and len(shifts) == 1 else 1e-6
    while high > low * (1.0 + precision):
        middle = math.sqrt(low) * math.sqrt(high)
        if not low < middle < high:
            break
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high * UP, l2_sum


def gaussian_shifts(law: Law) -> list[list[tuple[float, float]]]:
    """Shifts of b that the log-ratio's maximum over the rows' slopes runs over, in units of R L, with their numbers.

    A list of alternatives: the bound is the largest of their sums.
    """
    k = law.outputs
    if law.signed:
        if not law.replace:
            return [[(math.sqrt(i) * UP, float(math.comb(k, i))) for i in range(1, k + 1)]]
        both = []
        # number of outputs in which both rows have their largest slope, and in which one of them has
        for i in range(k + 1):
            for j in range(k - i + 1):
                if i + j:
                    number_of = math.comb(k, i) * math.comb(k - i, j) * 2**j
                    both.append((math.sqrt(4 * i + j) * UP, float(number_of)))
        return [both]
    if not law.replace:
        return [[(1.0, 2.0)]]
    # the diagonals a, b of the parallelogram have a^2 + b^2 <= 4: a^2 in one of the cells of [2, 4], the worst of both
    edges = [2.0 + 2.0 * i / _CELLS for i in range(_CELLS + 1)]
    return [[(math.sqrt(edges[i + 1]) * UP, 2.0), (math.sqrt(4.0 - edges[i]) * UP, 2.0)] for i in range(_CELLS)]


def gaussian_cost(shifts: list[list[tuple[float, float]]], epsilon: float, unit: float) -> float:
    """Return the bound of delta, rounded up, for the epsilon that the determinant leaves and ``unit = R L / scale``."""
    return max(
        math.fsum(number_of * gdp_delta(epsilon, shift * unit * UP) for shift, number_of in alternative) * UP
        for alternative in shifts
    )
