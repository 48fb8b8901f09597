"""A leader that tunes itself: its steps, its strong convexity and its thresholds follow from public numbers alone.

The noise is that of :func:`calibrate_leaders`, with the same proof: every choice made here is public before the run,
and its effect on the private sums is post-processing (``docs/proofs/adaptive.md``).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from decimal import ROUND_CEILING, Context
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..factorizations import BLT
from ..geometry import L2Ball
from ..losses import Loss, class_slope_bound
from ._epochs import Epochs
from ._leaders import LeaderCalibration, Tuning, average_counts, calibrate_leaders
from ._problem import Budget, Problem
from ._sums import MOST_ROWS, SumCalibration

__all__ = ["LARGEST_SCORE", "calibrate_adaptive", "score_unit"]

LARGEST_SCORE = 100.0
"""Of the longest row: beyond it a probability is 0 or 1 in all but name. Of real targets, in units of a quarter of
their bound."""

# Slopes are clipped at this share of the largest one: most rows of a fair model are below it, and half of the noise
# disappears. For squared loss with noise it is half as much: residuals of a fair model are smaller relative to the
# range of the targets.
_SLOPES, _NOISY_SQUARES = 0.5, 0.25
# How far the noise of a sum may move the score of the longest row (one standard deviation), and how far one step may
# with rows that are all alike and wrong in the extreme; for real targets in units of a quarter of their bound.
_SCORE_NOISE, _SCORE_STEP = 1.25, 4.0
# A model becomes public at least every 100 rows; if rows are few, there are still many steps.
_STEPS, _MOST_ROWS = 1000, 100
# The model shown lies between averages of the last ninth of the points over at most 64 steps and over 8, and beyond the
# latter in a drift: if their difference exceeds one and a half times what noise explains, and a third of what
# independent rows, wrong in the extreme, may cause.
_POWER, _QUICKEST, _SLOWEST = 8.0, 8.0, 64.0
_SURE, _WALK = 1.5, 0.35
_SETTLED = 1024  # steps after which the noise of the difference is that of the last step
_PARTS_OF_OCTAVE = 16
_DIGITS = Context(prec=10, rounding=ROUND_CEILING)  # exponentials of processors differ in the last of sixteen digits


def score_unit(loss: Loss, y_bound: float) -> float:
    """Return the unit of scores: 1 for classes, a quarter of the bound for real targets."""
    return 1.0 if loss.kind == "classification" else y_bound / 4.0


def _cut_of_slopes(problem: Problem, *, noiseless: bool) -> float:
    """A share of the longest gradient; for real targets, at predictions within their range."""
    loss, row_bound = problem.loss, problem.row_bound
    if problem.outputs > 1:
        most = row_bound * class_slope_bound(loss, problem.outputs, LARGEST_SCORE)
    elif loss.kind == "classification":
        most = loss.gradient_bound(row_bound, LARGEST_SCORE / row_bound, problem.y_bound)
    else:
        most = loss.gradient_bound(row_bound, problem.y_bound / row_bound, problem.y_bound)
    share = _NOISY_SQUARES if loss.quadratic and not noiseless else _SLOPES
    return share * problem.weight * most


def calibrate_adaptive(
    problem: Problem,
    budget: Budget,
    *,
    release: Any,
    gradient_bound: float | None = None,
    renewal: str = "none",
) -> LeaderCalibration:
    """Calibrate AdaptiveFTRL: noise, rows of a step, strong convexity and thresholds.

    Parameters
    ----------
    problem : Problem
        Its domain is a ball around 0.
    budget : Budget
    release : optional
        As the learner's parameter.
    gradient_bound : float, optional
        L2 norm that gradients are scaled to. Default: half of the longest; of squared loss with noise a
        quarter.
    renewal : {"none", "repeat", "double"}
        Epochs after the horizon, as of :func:`calibrate_leaders`. Rows of a step are those of the first.

    Returns
    -------
    LeaderCalibration
        With its ``tuning``; ``regularization`` is that of the last step.

    Raises
    ------
    InvalidParameter
        If a parameter is out of its range; the message says which and why.
    """
    assert isinstance(problem.domain, L2Ball)
    batch = min(max(problem.horizon // _STEPS, 1), _MOST_ROWS)
    plan = calibrate_leaders(
        problem,
        budget,
        release=release,
        l2=0.0,
        regularization=1.0,  # the noise does not depend on it
        batch=batch,
        gradient_bound=_cut_of_slopes(problem, noiseless=budget.noiseless)
        if gradient_bound is None
        else gradient_bound,
        renewal=renewal,
    )
    longest = problem.row_bound / score_unit(problem.loss, problem.y_bound)
    walk = _lags(BLT(_SETTLED, (), ()))  # prefixes of the identity are a random walk
    held, threshold = [batch * plan.bound * longest / _SCORE_STEP], [0.0]
    parts = list(_parts_of_epochs(plan.epochs))
    for part in parts:  # running maxima: the analysis needs nondecreasing sequences
        held.append(max(held[-1], part.std * longest / _SCORE_NOISE))
        threshold.append(max(threshold[-1], problem.outputs * part.std**2))
    begun = np.minimum([part.until for part in parts], _SETTLED) - 1
    tuning = Tuning(
        until=tuple(part.until for part in parts),
        held=_alike(held[1:]),
        threshold=_alike(threshold[1:]),
        lag=_alike(part.lag for part in parts),
        walk=_alike(_WALK * batch * plan.bound**2 * walk[begun] ** 2),
        power=_POWER,
        quickest=_QUICKEST,
        slowest=_SLOWEST,
        sure=_SURE,
    )
    return replace(plan, regularization=tuning.held[-1], gradient_bound=gradient_bound, tuning=tuning)


def _alike(figures: Iterable[float]) -> tuple[float, ...]:
    """Round up to digits that all processors agree on: released models must not depend on the last bit of a library."""
    return tuple(float(_DIGITS.create_decimal(float(figure))) for figure in figures)


class _Part(NamedTuple):
    """Steps of a run that are treated alike: the last of them, and the noise after it."""

    until: int
    std: float  # for a coordinate of the sums
    lag: float  # variance of a coordinate of the difference between the two averages of the sums


def _parts_of_epochs(epochs: Epochs) -> Iterator[_Part]:
    """Yield the parts of a run. A later epoch has the noise of earlier ones, which no average of its sums removes."""
    before, settled = epochs.variances(), [_settled(found) for found in epochs.sums]
    first = 0
    for epoch, (found, variance) in enumerate(zip(epochs.sums, before, strict=True)):
        steps = found.factorization.steps
        if epoch == 0:
            assert isinstance(found.factorization, BLT)
            noise = _lags(found.factorization)
            for step in _parts(steps):
                lag = float(found.sigma**2 * noise[min(step, _SETTLED) - 1] ** 2)
                yield _Part(step, found.std(step), lag)
        else:
            # the share of the earlier epoch in the averages falls as that of this one grows
            lag = max(settled[epoch - 1 : epoch + 1])
            for step in sorted({-(-steps * k // _PARTS_OF_OCTAVE) for k in range(1, _PARTS_OF_OCTAVE + 1)}):
                yield _Part(first + step, math.sqrt(variance + found.std(step) ** 2), lag)
        first += steps
    if epochs.renewal == "none":
        return
    # epochs like the last one, as many as the rows may need: Epochs.variance_before, with what it sums computed once
    ended = epochs.end_variance(epochs.last)
    for more in _parts(-(-(MOST_ROWS - epochs.start(epochs.last + 1)) // epochs.rows[-1])):
        yield _Part(first + more * steps, math.sqrt(before[-1] + (1 + more) * ended), settled[-1])


def _settled(sums: SumCalibration) -> float:
    """Return the lag in an epoch after the first: of its own sums, or of a sequence of short epochs.

    The noise at the ends of epochs is independent, so sums over epochs of few steps are a random walk.
    """
    design = sums.factorization
    assert isinstance(design, BLT)
    within = sums.sigma * _lags(BLT(max(design.steps, _SETTLED), design.theta, design.omega))[-1]
    between = sums.std(design.steps) / math.sqrt(design.steps) * _lags(BLT(_SETTLED, (), ()))[-1]
    return float(max(within, between) ** 2)


@functools.lru_cache(maxsize=64)  # a run whose epochs double has some forty
def _lags(sums: BLT) -> NDArray[np.float64]:
    """Deviations of the difference between the two averages of such sums, in units of sigma, after each first step."""
    steps = np.arange(1, min(sums.steps, _SETTLED) + 1)
    return sums.lag_norms(*(average_counts(steps, _POWER, slowest) for slowest in (_QUICKEST, _SLOWEST)))


def _parts(steps: int) -> list[int]:
    """Return the last step of each part: single steps at first, then parts of an octave."""
    found, last = [], 0
    while last < steps:
        last = min(last + max(1, (last + 1) // _PARTS_OF_OCTAVE), steps)
        found.append(last)
    return found
