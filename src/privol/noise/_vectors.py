"""Random vectors on a lattice: L2-Laplace, and uniform on a sphere."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._validate import integer, number
from ..errors import InvalidParameter
from ._bits import STREAM_SAMPLES
from ._decide import decide_mixture_point
from ._lattice import LARGEST_SCALE, LEAST_SCALE, granularity, shape_of
from ._unshared import Sampler

__all__ = ["L2Laplace", "Sphere"]


class _Vectors(Sampler):
    """Vectors F Z, Z standard normal in ``dim`` dimensions and F a positive random factor."""

    _kind: str
    _least_dim = 1

    def __init__(self, *, scale: float, dim: int, random_state: Any = None) -> None:
        self.scale = number(scale=scale, at_least=LEAST_SCALE, at_most=LARGEST_SCALE)
        super().__init__(random_state)
        self.dim = integer(dim=dim, at_least=self._least_dim, at_most=1 << 31)

    @abstractmethod
    def _coordinate(self) -> float:
        """Return the standard deviation of a coordinate."""

    @property
    def granularity(self) -> float:
        """The grid h: the power of two with 2**10 h <= s < 2**11 h, s the standard deviation of a coordinate."""
        return granularity(self._coordinate())

    def _bound(self, x: NDArray[np.float64]) -> float:
        """Return the largest magnitude, where it is one that can be rounded."""
        bound = max(float(x.max()), -float(x.min())) if x.size else 0.0
        if not (bound == bound and bound < 2.0**50 * self.granularity):
            raise InvalidParameter("x must be finite and of magnitude below 2**50 times the granularity")
        return bound

    def add(self, x: ArrayLike) -> NDArray[np.float64]:
        """Return ``round_h(x + scale V)`` with an independent random vector V for every vector of x.

        Parameters
        ----------
        x : array-like of float, shape (..., dim)
            Finite, of magnitude below 2**50 h.
        """
        values = np.asarray(x, dtype=np.float64)
        if values.ndim == 0 or values.shape[-1] != self.dim:
            raise InvalidParameter(f"x must have shape (..., {self.dim}), found {values.shape}")
        flat = np.ascontiguousarray(values).reshape(-1, self.dim)
        return self._rounded(flat, self._bound(flat)).reshape(values.shape)

    def sample(self, size: int | tuple[int, ...]) -> NDArray[np.float64]:
        """Return so many vectors ``round_h(scale V)``: an array of shape (*size, dim)."""
        shape = shape_of(size)
        return self._rounded(np.zeros((math.prod(shape), self.dim)), 0.0).reshape(*shape, self.dim)

    def _rounded(self, x: NDArray[np.float64], bound: float) -> NDArray[np.float64]:
        out = np.empty_like(x)
        self.source.add_mixture(
            x,
            self.scale,
            self.granularity,
            kind=self._kind,
            bound=bound,
            stream=STREAM_SAMPLES,
            row=self._take_rows(len(x)),
            decide=decide_mixture_point,
            out=out,
        )
        return out


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

    def _coordinate(self) -> float:
        return self.scale * math.sqrt(self.dim + 1)


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

    def _coordinate(self) -> float:
        return self.scale / math.sqrt(self.dim)
