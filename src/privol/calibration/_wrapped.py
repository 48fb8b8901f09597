"""Noise for the iterates of an algorithm written by the user, for the sensitivity that the user declares."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .._rounding import UNIT, UP, scaled_excess
from .._validate import choice, number
from .._vocabulary import NOISE_SHAPES
from ..errors import InvalidParameter
from ._iterates import ReleaseSchedule
from ._problem import Budget

__all__ = ["WrappedCalibration", "calibrate_wrapped"]

_SMALL, _LARGE = 1e-30, 1e30
_MOST_RELEASES = 1 << 22


@dataclass(frozen=True)
class WrappedCalibration:
    """Everything that the noise of released iterates depends on; all of it public.

    Attributes
    ----------
    releases : ReleaseSchedule
    rows : ndarray of int64
        Rows after which an iterate is released.
    declared : ndarray of float64
        The sensitivity that is declared for each of them.
    sensitivities : ndarray of float64
        What is charged for each of them: as declared, but no more than the ball is wide, with what projecting rounds.
    stds : ndarray of float64
        Of the noise per coordinate; zeros without noise.
    mu : float
        Parameter of Gaussian differential privacy of all of them together; infinite without noise.
    """

    releases: ReleaseSchedule
    rows: NDArray[np.int64]
    declared: NDArray[np.float64]
    sensitivities: NDArray[np.float64]
    stds: NDArray[np.float64]
    mu: float


def calibrate_wrapped(
    budget: Budget,
    releases: ReleaseSchedule,
    declared: Callable[[int], float],
    *,
    dim: int,
    radius: float,
    noise_shape: str = "lipschitz",
) -> WrappedCalibration:
    """Calibrate the noise of iterates in a ball: ``mu^2 = sum (s_t / sigma_t)^2`` over the releases.

    Parameters
    ----------
    budget : Budget
    releases : ReleaseSchedule
    declared : callable
        Of a row's number: how far one earlier row, or that one, moves the iterate after it in L2 norm, at most.
    dim : int
    radius : float
    noise_shape : {"lipschitz", "smooth", "paper"}
        The standard deviation is in proportion to the sensitivity to the power of 2/3 or 1/2, or to one over the row's
        number.

    Raises
    ------
    InvalidParameter
        If a declared sensitivity is not a positive number, or there are too many releases.
    """
    shape = choice(NOISE_SHAPES, noise_shape=noise_shape)
    if releases.count > _MOST_RELEASES:
        raise InvalidParameter(f"release must plan at most {_MOST_RELEASES:,} iterates, found {releases.count:,}")
    rows = np.concatenate([np.empty(0, dtype=np.int64), *releases.chunks()])
    widest = 2.0 * radius
    # both runs are scaled into the ball in double precision
    projected = 2.0 * (scaled_excess(dim) + 4 * UNIT) * radius
    said = np.array([number(sensitivity=declared(int(row)), at_least=_SMALL, at_most=_LARGE) for row in rows])
    charged = np.minimum(said, widest) * UP + projected
    if budget.noiseless or not len(rows):
        return WrappedCalibration(
            releases, rows, said, charged, np.zeros(len(rows)), math.inf if budget.noiseless else 0.0
        )
    weights = 1.0 / rows if shape == "paper" else charged ** (2.0 / 3.0 if shape == "lipschitz" else 0.5)
    gain = math.sqrt(math.fsum((charged / weights) ** 2)) / budget.mu * UP
    return WrappedCalibration(releases, rows, said, charged, gain * weights * UP, budget.mu)
