"""Continuous noise on a lattice: Gaussian, Laplace, exponential."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._core._noise import lattice_step
from .._validate import integer, number
from ..errors import InvalidParameter
from ._bits import STREAM_SAMPLES
from ._decide import decide_lattice_point
from ._unshared import Sampler

__all__ = ["ARITHMETIC", "Exponential", "Gaussian", "Laplace", "granularity"]

ARITHMETIC = (
    "the real-valued sum of the double-precision iterate and the Gaussian variable, correctly rounded to a power-of-"
    "two grid between 2^-11 and 2^-10 of the noise's standard deviation (error bounds of the evaluation verified "
    "numerically; undecided coordinates are re-evaluated with more random bits in multiple precision)"
)


def shape_of(size: int | tuple[int, ...]) -> tuple[int, ...]:
    """Return a size as a shape, its entries checked."""
    entries = size if isinstance(size, tuple) else (size,)
    return tuple(integer(size=entry, at_least=0) for entry in entries)


def granularity(scale: float) -> float:
    """Return the grid h of a noise scale: the power of two with ``2**10 h <= scale < 2**11 h``."""
    return lattice_step(scale)


class LatticeSampler(Sampler):
    """A sampler with a scale, and the grid that goes with it."""

    def __init__(self, *, scale: float, random_state: Any = None) -> None:
        self.scale = number(scale=scale, at_least=1e-280, at_most=1e280)
        super().__init__(random_state)

    @property
    def granularity(self) -> float:
        """The grid h: the power of two with 2**10 h <= scale < 2**11 h."""
        return granularity(self.scale)

    def _bound(self, x: NDArray[np.float64]) -> float:
        """Return the largest magnitude, where it is one that can be rounded."""
        bound = max(float(x.max()), -float(x.min())) if x.size else 0.0
        if not (bound == bound and bound < 2.0**50 * self.granularity):
            raise InvalidParameter("x must be finite and of magnitude below 2**50 times the granularity")
        return bound


class _Lattice(LatticeSampler):
    """Independent values of one law."""

    _law: str
    _ROW = 4096  # coordinates per address row: bounds the memory of a call, and stays in the cache

    def add(self, x: ArrayLike) -> NDArray[np.float64]:
        """Return ``round_h(x + scale Z)`` with an independent Z for every value of x.

        Parameters
        ----------
        x : array-like of float, any shape
            Finite, of magnitude below 2**50 h.

        Raises
        ------
        SourceFailure
            In a forked child process; if the cipher fails; after 2**64 rows of 4096 values.
        """
        values = np.asarray(x, dtype=np.float64)
        flat = np.ascontiguousarray(values).reshape(-1)
        return self._rounded(flat, flat.size, self._bound(flat)).reshape(values.shape)

    def sample(self, size: int | tuple[int, ...]) -> NDArray[np.float64]:
        """Return values of ``round_h(scale Z)`` of the given shape."""
        shape = shape_of(size)
        return self._rounded(None, math.prod(shape), 0.0).reshape(shape)

    def _rounded(self, x: NDArray[np.float64] | None, n: int, bound: float) -> NDArray[np.float64]:
        rows = -(-n // self._ROW)
        first = self._take_rows(rows)
        out, zeros = np.empty(n), np.zeros(min(n, self._ROW))
        for i in range(rows):
            start, stop = i * self._ROW, min((i + 1) * self._ROW, n)
            self.source.add(
                zeros[: stop - start] if x is None else x[start:stop],
                self.scale,
                bound=bound,
                stream=STREAM_SAMPLES,
                row=first + i,
                decide=partial(decide_lattice_point, law=self._law),
                law=self._law,
                out=out[start:stop],
            )
        return out


class Gaussian(_Lattice):
    """Gaussian noise on a lattice: Z is standard normal.

    Parameters
    ----------
    scale : float
        Standard deviation, between 1e-280 and 1e280.
    random_state : None, int, BitGenerator, ...
        See :func:`make_source`.

    Notes
    -----
    Every call draws fresh words. Thread-safe. Cannot be copied or pickled, and refuses in a forked child process.
    """

    _law = "gaussian"


class Laplace(_Lattice):
    """Laplace noise on a lattice: Z has the density exp(-abs(z)) / 2.

    Parameters
    ----------
    scale : float
        Mean magnitude, between 1e-280 and 1e280.
    random_state : None, int, BitGenerator, ...
        See :func:`make_source`.

    Notes
    -----
    Every call draws fresh words. Thread-safe. Cannot be copied or pickled, and refuses in a forked child process.
    """

    _law = "laplace"


class Exponential(_Lattice):
    """Exponential noise on a lattice: Z has the density exp(-z) for positive z.

    Parameters
    ----------
    scale : float
        Mean, between 1e-280 and 1e280.
    random_state : None, int, BitGenerator, ...
        See :func:`make_source`.

    Notes
    -----
    Every call draws fresh words. Thread-safe. Cannot be copied or pickled, and refuses in a forked child process.
    """

    _law = "exponential"
