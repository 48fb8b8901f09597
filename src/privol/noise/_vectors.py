"""Random vectors on a lattice: L2-Laplace, and uniform on a sphere."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar

from .._core._vectors import VectorSampler
from .._validate import integer, number
from ._decide import decide_mixture_point
from ._lattice import LARGEST_SCALE, LEAST_SCALE, granularity, shape_of
from .bits import STREAM_SAMPLES, make_source

__all__ = ["L2Laplace", "Sphere"]


class _Vectors(VectorSampler):
    """Vectors F Z, Z standard normal in ``dim`` dimensions and F a positive random factor."""

    _kind: ClassVar[str]
    _least_dim: ClassVar[int] = 1

    def __init__(self, *, scale: float, dim: int, random_state: Any = None) -> None:
        scale = number(scale=scale, at_least=LEAST_SCALE, at_most=LARGEST_SCALE)
        dim = integer(dim=dim, at_least=self._least_dim, at_most=1 << 31)
        super().__init__(
            make_source(random_state),
            kind=self._kind,
            scale=scale,
            step=granularity(self._deviation(scale, dim)),
            dim=dim,
            stream=STREAM_SAMPLES,
        )

    @staticmethod
    @abstractmethod
    def _deviation(scale: float, dim: int) -> float:
        """Return the standard deviation of a coordinate."""

    def _shape(self, size: int | tuple[int, ...]) -> tuple[int, ...]:
        return shape_of(size)

    def _decide(self, *asked: Any) -> float:
        return decide_mixture_point(*asked)


class L2Laplace(_Vectors):
    """Multivariate Laplace noise on a lattice: V of density proportional to exp(-norm(v)), the norm L2.

    The noise of the K-norm mechanism: with ``scale`` = L2 sensitivity / epsilon the sum is epsilon-DP. Its norm has the
    Gamma law of shape ``dim``, its direction is uniform, and a coordinate has the variance (dim + 1) scale**2.

    Parameters
    ----------
    scale : float
        Of the norm, between 1e-280 and 1e280.
    dim : int
        Dimension of a vector, at least 1.
    random_state : None, int, BitGenerator, ...
        See :func:`make_source`.

    Notes
    -----
    Drawn as sqrt(2 G) Z, G of the Gamma law with shape (dim + 1) / 2. Every call draws fresh words, about 12 bytes a
    coordinate. Thread-safe. Cannot be copied or pickled, and refuses in a forked child process.
    """

    _kind = "l2_laplace"

    @staticmethod
    def _deviation(scale: float, dim: int) -> float:
        return scale * math.sqrt(dim + 1)


class Sphere(_Vectors):
    """Vectors of uniform direction and of length ``scale`` before they are rounded to the lattice.

    Parameters
    ----------
    scale : float
        Length, between 1e-280 and 1e280.
    dim : int
        Dimension of a vector, at least 2 (in one dimension there are two directions, and a sum may lie exactly
        between two points of the lattice).
    random_state : None, int, BitGenerator, ...
        See :func:`make_source`.

    Notes
    -----
    Drawn as Z / norm(Z). Every call draws fresh words, 8 bytes a coordinate. Thread-safe. Cannot be copied or pickled,
    and refuses in a forked child process.
    """

    _kind = "sphere"
    _least_dim = 2

    @staticmethod
    def _deviation(scale: float, dim: int) -> float:
        return scale / math.sqrt(dim)
