"""Bounds on the leakage of a report: the mutual information of channels, and its largest value."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from .._rounding import UNIT
from .._validate import integer, number
from .._values import array_of
from ..calibration import gaussian_leakage
from ..errors import InvalidParameter

__all__ = ["Capacity", "Information", "channel_capacity", "gaussian_information", "mutual_information"]

FloatArray = NDArray[np.float64]

_SUM = 1e-9  # how far a sum of probabilities may be from 1
_INPUTS, _CELLS, _REACH = 33, 1024, 9.0  # of a Gaussian channel: values, cells, standard deviations beyond the values
_CELL_ERROR = 1e-12  # relative, of the probability of a cell: a difference of two distribution functions


class Information(NamedTuple):
    """Bounds in nats (1 bit is log 2 = 0.693 nats)."""

    lower: float
    upper: float


class Capacity(NamedTuple):
    """Bounds of a capacity in nats, and the distribution of the inputs that attains the lower one."""

    lower: float
    upper: float
    prior: FloatArray


def mutual_information(prior: ArrayLike, channel: ArrayLike) -> Information:
    """Return the mutual information of the input and the output of a discrete channel.

    Parameters
    ----------
    prior : array-like of shape (inputs,)
        Probabilities of the inputs, which sum to 1 within 1e-9 and are divided by their sum.
    channel : array-like of shape (inputs, outputs)
        Probabilities of the outputs given each input; rows likewise.

    Returns
    -------
    Information
        The two bounds differ by the rounding of doubles, whatever that may have been.

    Raises
    ------
    InvalidParameter
        If a probability is negative or not finite, a sum is not 1, or the shapes do not fit.

    Examples
    --------
    A randomized response of epsilon = 1:

    >>> import math
    >>> from privol.randomizers import mutual_information
    >>> true = math.e / (1 + math.e)
    >>> found = mutual_information([0.5, 0.5], [[true, 1 - true], [1 - true, true]])
    >>> f"{found.lower:.6f} to {found.upper:.6f}"
    '0.110944 to 0.110944'
    """
    rows = _laws("channel", channel, 2)
    weights = _laws("prior", prior, 1)[0]
    if len(weights) != len(rows):
        raise InvalidParameter(f"prior must have one probability for each row of channel, found {len(weights)} and "
                               f"{len(rows)} rows")  # fmt: skip
    told, error = _told(rows, _mixture(weights, rows), UNIT * (len(rows) + rows.shape[1] + 32))
    value, slack = float(np.sum(weights * told)), float(np.sum(weights * error))
    return Information(max(value - slack, 0.0), max(value + slack, 0.0))


def channel_capacity(channel: ArrayLike, *, tolerance: float = 1e-9, iterations: int = 10_000) -> Capacity:
    """Return the most that the output of a discrete channel can tell of its input, whatever the input's law.

    Parameters
    ----------
    channel : array-like of shape (inputs, outputs)
        As of :func:`mutual_information`.
    tolerance : float, default=1e-9
        Nats between the bounds at which it ends; at least 1e-12.
    iterations : int, default=10_000
        At most. The bounds are true whenever it ends, and further apart where it ends by this.

    Returns
    -------
    Capacity

    Notes
    -----
    Blahut's and Arimoto's iteration. For any law of the inputs with output law q, its mutual information is below the
    capacity, and the largest divergence of a row from q above it; the errors of rounding are on the safe side of both.
    Cost O(inputs * outputs) an iteration.

    References
    ----------
    Blahut, "Computation of channel capacity and rate-distortion functions", 1972. Arimoto, "An algorithm for computing
    the capacity of arbitrary discrete memoryless channels", 1972.
    """
    rows = _laws("channel", channel, 2)
    tolerance = number(tolerance=tolerance, at_least=1e-12)
    return _capacity(rows, tolerance, integer(iterations=iterations, at_least=1), 0.0)


def gaussian_information(std: float, *, bound: float = 1.0, dim: int = 1) -> Information:
    """Return bounds of the most that a vector of limited length with Gaussian noise can tell of the vector.

    Parameters
    ----------
    std : float
        Standard deviation of a coordinate, above 0.
    bound : float, default=1.0
        L2 norm of the vector, at most.
    dim : int, default=1
        At least 1.

    Returns
    -------
    Information
        Above: :func:`gaussian_leakage`, which is what guarantees state. Below: what a law of independent coordinates
        within ``bound / sqrt(dim)`` tells through an output that is cut into cells, which can only lose by it. The
        capacity itself has no closed form: the length of inputs is limited, not their mean square.

    Examples
    --------
    The setting of Zhang and Venkitasubramaniam's Fig. 3, whose capacity is 0.33683 nats:

    >>> from privol.randomizers import gaussian_information
    >>> found = gaussian_information(1.0)
    >>> f"{found.lower:.4f} to {found.upper:.4f}"
    '0.3368 to 0.3466'
    """
    upper = gaussian_leakage(std, bound=bound, dim=dim)
    most = min(bound / (std * math.sqrt(dim)), 1e3)  # more noise cannot reveal more
    inputs = np.linspace(-most, most, _INPUTS)
    edges = np.linspace(-most - _REACH, most + _REACH, _CELLS - 1)
    gaps = edges - inputs[:, None]
    tail = np.concatenate([np.zeros((_INPUTS, 1)), ndtr(-np.abs(gaps)), np.zeros((_INPUTS, 1))], axis=1)
    right = np.concatenate([np.zeros((_INPUTS, 1), dtype=bool), gaps > 0.0, np.ones((_INPUTS, 1), dtype=bool)], axis=1)
    below, above = tail[:, :-1], tail[:, 1:]
    # from the nearer tail: cancellation only between neighbours; across 0 from both
    rows = np.where(right[:, :-1], below - above, np.where(right[:, 1:], 1.0 - below - above, above - below))
    rows = np.maximum(rows, 0.0)
    # for a weak signal the two ends alone are best, which the iteration takes long to find
    told, slack = _told(rows[[0, -1]], 0.5 * (rows[0] + rows[-1]), _CELL_ERROR)
    lower = max(float(np.mean(told - slack)), _capacity(rows, 1e-7, 500, _CELL_ERROR).lower)
    return Information(min(dim * lower, upper), upper)


def _mixture(weights: FloatArray, rows: FloatArray) -> FloatArray:
    """Return the weighted sum of rows, added up in their order."""
    found: FloatArray = np.add.reduce(weights[:, np.newaxis] * rows, axis=0)
    return found


def _capacity(rows: FloatArray, tolerance: float, iterations: int, error: float) -> Capacity:
    """Bounds for rows that sum to 1, whose entries may also have a relative error."""
    inputs = len(rows)
    error += UNIT * (inputs + rows.shape[1] + 32)
    prior = np.full(inputs, 1.0 / inputs)
    lower, upper, best = 0.0, math.log(min(rows.shape)) * (1.0 + 8 * UNIT), prior
    for _ in range(iterations):
        # a small share of every input, so that no row has an output that q lacks
        mixed = (1.0 - 1e-13) * prior + 1e-13 / inputs
        told, slack = _told(rows, _mixture(mixed, rows), error)
        value = float(np.sum(mixed * (told - slack)))
        if value > lower:
            lower, best = value, mixed
        upper = min(upper, float(np.max(told + slack)))
        if upper - lower <= tolerance:
            break
        prior = mixed * np.exp(told - np.max(told))
        prior /= prior.sum()
    return Capacity(max(lower, 0.0), max(upper, 0.0), best)


def _told(rows: FloatArray, outputs: FloatArray, error: float) -> tuple[FloatArray, FloatArray]:
    """Divergence of each row from the distribution of the outputs, and a bound of its error.

    The error of a logarithm of a quotient is twice the relative error of its parts plus its own rounding, and that of
    its weight is the error of one part; ``error`` covers them together with the rounding of the sums.
    """
    logs = np.log(np.divide(rows, outputs, out=np.ones_like(rows), where=rows > 0.0))
    return np.sum(rows * logs, axis=1), 4.0 * error * np.sum(rows * (np.abs(logs) + 2.0), axis=1)


def _laws(name: str, values: ArrayLike, axes: int) -> FloatArray:
    """Probabilities by rows, each divided by its sum."""
    found = np.asarray(array_of(values), dtype=np.float64)
    if found.ndim != axes or found.size == 0:
        shape = "(inputs,)" if axes == 1 else "(inputs, outputs)"
        raise InvalidParameter(f"{name} must have the shape {shape}, found {found.shape}")
    found = found.reshape(-1, found.shape[-1])
    if not np.all(found >= 0.0):
        raise InvalidParameter(f"{name} must have probabilities, at least 0, found {float(np.min(found))}")
    sums = found.sum(axis=1)
    wrong = np.flatnonzero(~(np.abs(sums - 1.0) <= _SUM))
    if wrong.size:
        raise InvalidParameter(f"{name} must sum to 1, found {float(sums[wrong[0]])!r} in row {int(wrong[0])}")
    laws: FloatArray = found / sums[:, None]
    return laws
