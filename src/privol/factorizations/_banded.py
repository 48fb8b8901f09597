"""The banded square root: with the least memory, rows of a user far enough apart cost only the root of their number."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .._rounding import UP
from .._validate import integer
from ._toeplitz import Independent, SquareRoot, Toeplitz

__all__ = ["MOST_BANDWIDTH", "Banded"]

MOST_BANDWIDTH = 1 << 16
"""Steps that C of a banded design reaches, at most."""

# From this many bandwidths on, the coefficients of B differ from their limit by less than 1e-19: the zeros of the
# polynomial of C are outside a circle whose radius to the power of the bandwidth is at least 4.
_SETTLED = 32


@dataclass(frozen=True)
class Banded(Toeplitz):
    """The square root of A without its coefficients from ``bandwidth`` on (Kalinin and Lampert 2024).

    Rows of a user that are at least ``bandwidth`` steps apart move different numbers, so k of them cost the root of k
    times what one costs. The coefficients of C are doubles as :meth:`SquareRoot.coefficients` computes them, and C is
    what these say.

    Parameters
    ----------
    steps : int
    bandwidth : int
        Coefficients of C that are not 0: 1 (noise of its own for every step) to 65,536; no more than ``steps`` are
        taken, which are all of the square root's.
    decay, window : optional
        Of discounted or sliding sums, see :class:`Toeplitz`.

    Notes
    -----
    Norms and errors take O(bandwidth log(bandwidth)), for sliding sums with ``window`` added to the bandwidth.
    """

    design = "banded"
    bandwidth: int

    def __post_init__(self) -> None:
        super().__post_init__()
        found = integer(bandwidth=self.bandwidth, at_least=1, at_most=MOST_BANDWIDTH)
        object.__setattr__(self, "bandwidth", min(found, self.steps))

    def coefficients(self) -> NDArray[np.float64]:
        """The first ``bandwidth`` coefficients of C, which do not increase; all others are 0."""
        return SquareRoot(self.bandwidth, decay=self.decay).coefficients()

    @property
    def column_norm(self) -> float:
        """Root of the sum of the squared coefficients."""
        return math.sqrt(self._square) * UP

    @property
    def memory(self) -> int:
        """The last ``bandwidth - 1`` steps and their noisy increments; for sliding sums also those of a window."""
        return 2 * (self.bandwidth - 1) + self._kept

    @functools.cached_property
    def _square(self) -> float:
        return math.fsum(self.coefficients() ** 2)

    @functools.cached_property
    def _decoder(self) -> tuple[NDArray[np.float64], float]:
        """The first coefficients of B; each later one is the second result times ``discount**k``."""
        count = min(self.steps, _SETTLED * self.bandwidth + self._kept)
        found, limit = _decoder_of_sums(self.bandwidth, 1.0 if self.window is None else self.decay, count)
        if kept := self._kept:
            return found - np.append(np.zeros(kept), found)[:count], 0.0
        return found * self.discount ** np.arange(count), limit

    @functools.cached_property
    def _row_squares(self) -> NDArray[np.float64]:
        return np.cumsum(self._decoder[0] ** 2)

    def _row_square(self, step: int) -> float:
        squares, (_, limit) = self._row_squares, self._decoder
        if step <= len(squares):
            return float(squares[step - 1])
        begun = (limit * self.discount ** len(squares)) ** 2
        return float(squares[-1]) + begun * self._rest(step)._row_square(step - len(squares))

    def _mean_row_square(self) -> float:
        n, (first, limit) = self.steps, self._decoder
        total = float(np.sum(first**2 * (1.0 - np.arange(len(first)) / n)))  # coefficient k is in n - k rows
        if n <= len(first):
            return total
        begun = (limit * self.discount ** len(first)) ** 2
        return total + begun * (1.0 - len(first) / n) * self._rest(n)._mean_row_square()

    def _rest(self, step: int) -> Independent:
        """The later coefficients of B, up to ``step``, in units of the first of them."""
        return Independent(step - len(self._decoder[0]), decay=self.discount)


@functools.lru_cache(maxsize=16)
def _decoder_of_sums(bandwidth: int, decay: float, count: int) -> tuple[NDArray[np.float64], float]:
    """The first coefficients of B for running sums, and their limit: those of ``1 / ((1 - z) C(z))``."""
    series = np.append(SquareRoot(bandwidth, decay=decay).coefficients(), 0.0)
    limit = 1.0 / math.fsum(series)
    series[1:] -= series[:-1].copy()
    return _inverse(series, count), limit


def _inverse(series: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """The first coefficients of 1 over a power series that begins with 1, by Newton's method."""
    found = np.ones(1)
    while len(found) < count:
        n = min(2 * len(found), count)
        size = 1 << (2 * n - 1).bit_length()
        transform = np.fft.rfft(found, size)
        rest = -np.fft.irfft(transform * np.fft.rfft(series[:n], size), size)[:n]
        rest[0] += 2.0
        found = np.fft.irfft(transform * np.fft.rfft(rest, size), size)[:n]
    return found
