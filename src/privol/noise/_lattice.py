"""Continuous noise on a lattice: Gaussian, Laplace, exponential."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from .._core._noise import lattice_step
from .._core._sampler import LatticeSampler
from .._validate import integer, number
from ._decide import decide_lattice_point
from .bits import STREAM_SAMPLES, make_source

__all__ = ["ARITHMETIC", "Exponential", "Gaussian", "Laplace", "granularity"]

ARITHMETIC = (
    "the real-valued sum of the double-precision iterate and the Gaussian variable, correctly rounded to a power-of-"
    "two grid between 2^-11 and 2^-10 of the noise's standard deviation (error bounds of the evaluation verified "
    "numerically; undecided coordinates are re-evaluated with more random bits in multiple precision)"
)

LEAST_SCALE, LARGEST_SCALE = 1e-280, 1e280


def shape_of(size: int | tuple[int, ...]) -> tuple[int, ...]:
    """Return a size as a shape, its entries checked."""
    entries = size if isinstance(size, tuple) else (size,)
    return tuple(integer(size=entry, at_least=0) for entry in entries)


def granularity(scale: float) -> float:
    """Return the grid h of a noise scale: the power of two with ``2**10 h <= scale < 2**11 h``."""
    return lattice_step(scale)


class _Lattice(LatticeSampler):
    """Independent values of one distribution."""

    _law: ClassVar[str]

    def __init__(self, *, scale: float, random_state: Any = None) -> None:
        scale = number(scale=scale, at_least=LEAST_SCALE, at_most=LARGEST_SCALE)
        super().__init__(make_source(random_state), law=self._law, scale=scale, stream=STREAM_SAMPLES)

    def _shape(self, size: int | tuple[int, ...]) -> tuple[int, ...]:
        return shape_of(size)

    def _decide(self, word: int, extra: Callable[[int], tuple[int, int]], x: float, scale: float, step: float) -> float:
        return decide_lattice_point(word, extra, x, scale, step, law=self._law)


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
