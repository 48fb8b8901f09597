"""Gaussian noise on a lattice."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._core._noise import lattice_step
from .._validate import number
from ..errors import InvalidParameter
from ._bits import STREAM_SAMPLES
from ._decide import decide_lattice_point
from ._unshared import Sampler

__all__ = ["ARITHMETIC", "Gaussian", "granularity"]

ARITHMETIC = (
    "the real-valued sum of the double-precision iterate and the Gaussian variable, correctly rounded to a power-of-"
    "two grid between 2^-11 and 2^-10 of the noise's standard deviation (error bounds of the evaluation verified "
    "numerically; undecided coordinates are re-evaluated with more random bits in multiple precision)"
)


def granularity(scale: float) -> float:
    """Return the grid h of a noise scale: the power of two with ``2**10 h <= scale < 2**11 h``."""
    return lattice_step(scale)


class Gaussian(Sampler):
    """Gaussian noise, correctly rounded to a lattice, from a cryptographic source.

    Parameters
    ----------
    scale : float
        Standard deviation, above 0 and between 1e-280 and 1e280.
    random_state : None, int, BitGenerator, ...
        See :func:`make_source`.

    Notes
    -----
    Every call draws fresh words. Thread-safe. About 5 ns a value on a 3 GHz processor, of which 1.5 ns are AES.
    """

    _ROW = 4096  # coordinates per address row: bounds the memory of a call

    def __init__(self, *, scale: float, random_state: Any = None) -> None:
        self.scale = number(scale=scale, at_least=1e-280, at_most=1e280)
        super().__init__(random_state)

    @property
    def granularity(self) -> float:
        """The grid h: the power of two with 2**10 h <= scale < 2**11 h."""
        return granularity(self.scale)

    def add(self, x: ArrayLike) -> NDArray[np.float64]:
        """Return ``round_h(x + scale Z)`` with an independent Z for every value of x.

        Parameters
        ----------
        x : array-like of float, any shape
            Finite, of magnitude below 2**50 h.
        """
        values = np.asarray(x, dtype=np.float64)
        if values.size and not np.all(np.abs(values) < 2.0**50 * self.granularity):
            raise InvalidParameter("x must be finite and of magnitude below 2**50 times the granularity")
        flat = np.ascontiguousarray(values).reshape(-1)
        rows = -(-flat.size // self._ROW)
        first = self._take_rows(rows)
        out = np.empty_like(flat)
        for i in range(rows):
            part = slice(i * self._ROW, (i + 1) * self._ROW)
            out[part] = self.source.gaussian(
                flat[part], self.scale, stream=STREAM_SAMPLES, row=first + i, decide=decide_lattice_point
            )
        return out.reshape(values.shape)

    def sample(self, size: int | tuple[int, ...]) -> NDArray[np.float64]:
        """Return values of ``round_h(scale Z)`` of the given shape."""
        return self.add(np.zeros(size))
