"""Randomizers for comparisons, which are never drawn."""

from __future__ import annotations

from .._validate import integer, number
from ..calibration import gaussian_cap_of

__all__ = ["PrivUnitG"]


class PrivUnitG:
    """PrivUnit with Gaussian vectors instead of uniform directions: for analysis alone.

    It has no ``privatize``: its reports have more variance than :class:`PrivUnit`'s, and no use here but to compare.

    Parameters
    ----------
    dim : int
        At least 2.
    epsilon : float
        Of pure differential privacy, above 0.
    bound : float, default=1.0
        L2 norm of the vectors.

    Attributes
    ----------
    gamma, probability, length : float
        See :class:`privol.calibration._caps.GaussianCap`.

    References
    ----------
    Asi, Feldman and Talwar: Optimal algorithms for mean estimation under local differential privacy, 2022.
    """

    def __init__(self, *, dim: int, epsilon: float, bound: float = 1.0) -> None:
        self.dim = integer(dim=dim, at_least=2)
        self.epsilon = number(epsilon=epsilon, at_least=1e-6, at_most=500.0)
        self.bound = number(bound=bound, at_least=1e-100, at_most=1e100)
        found = gaussian_cap_of(self.epsilon, self.dim)
        self.gamma, self.probability, self.length = found.gamma, found.probability, found.length
        self._power = found.power

    def variance(self, norm: float) -> float:
        """Return ``E ||report - v||^2`` for a vector v of that L2 norm, from 0 to the bound."""
        norm = number(norm=norm, at_least=0.0, at_most=self.bound)
        return self._power * self.bound * self.bound - norm * norm
