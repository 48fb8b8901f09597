"""The randomizers, each by its own budget."""

from __future__ import annotations

from typing import Any

from .._validate import integer
from ..calibration import calibrate_report
from ._device import Randomizer

__all__ = ["DuchiL2", "Gaussian", "L2Laplace", "Laplace", "PrivUnit", "TwoPoint"]


class Gaussian(Randomizer):
    """Gaussian noise on every coordinate.

    The report is ``v + N(0, sigma^2 I)``. How much noise is said by one of `epsilon` (with `delta`), `mu`, `leakage`
    and `sigma`; the guarantee has all figures.

    Parameters
    ----------
    dim : int
        Coordinates of a vector.
    bound : float, default=1.0
        L2 norm G that vectors are scaled to where they exceed it.
    epsilon : float, optional
        With `delta`: (epsilon, delta)-differential privacy of a report, by the exact curve.
    delta : float, default=1e-6
        In (0, 1).
    mu : float, optional
        Gaussian differential privacy: ``sigma = 2 G / mu``, or ``G / mu`` for "zero_out".
    leakage : float, optional
        Mutual information of vector and report in nats, at most, whatever law the vector has:
        ``sigma = G / sqrt(dim (exp(2 leakage / dim) - 1))``. On average over the noise, and no differential privacy by
        itself: the same sigma gives ``mu = 2 G / sigma``, which is large for a leakage of 0.1 and more.
    sigma : float, optional
        Standard deviation of a coordinate's noise.
    adjacency : {"replace", "zero_out"}, default="replace"
        A vector is replaced by any other within the bound, or by the zero vector.
    random_state : None, int, BitGenerator, ...
        ``None``: noise that cannot be reproduced. Any other value is for tests: see :func:`privol.noise.make_source`.

    References
    ----------
    Balle and Wang 2018; Dong, Roth and Su 2022; Zhang and Venkitasubramaniam (leakage).
    """

    def __init__(
        self,
        *,
        dim: int,
        bound: float = 1.0,
        epsilon: float | None = None,
        delta: float = 1e-6,
        mu: float | None = None,
        leakage: float | None = None,
        sigma: float | None = None,
        adjacency: str = "replace",
        random_state: Any = None,
    ) -> None:
        noise = calibrate_report(
            "gaussian",
            dim=dim,
            bound=bound,
            adjacency=adjacency,
            epsilon=epsilon,
            delta=None if epsilon is None else delta,
            mu=mu,
            leakage=leakage,
            sigma=sigma,
        )
        super().__init__(noise, delta=delta, random_state=random_state)


class _Pure(Randomizer):
    """Randomizers whose only budget is epsilon."""

    _name: str

    def __init__(
        self, *, dim: int, epsilon: float, bound: float = 1.0, adjacency: str = "replace", random_state: Any = None
    ) -> None:
        noise = calibrate_report(self._name, dim=dim, bound=bound, adjacency=adjacency, epsilon=epsilon)
        super().__init__(noise, random_state=random_state)


class Laplace(_Pure):
    """Independent Laplace noise on every coordinate: pure epsilon.

    The scale is ``2 sqrt(dim) G / epsilon``: vectors of L2 norm G are up to ``2 sqrt(dim) G`` apart in the L1 norm. In
    more than one dimension :class:`L2Laplace` and :class:`PrivUnit` have less variance.

    Parameters
    ----------
    dim : int
        Coordinates of a vector.
    epsilon : float
        Of pure differential privacy, at least 1e-9; ``inf``: no noise and no guarantee.
    bound : float, default=1.0
        L2 norm G that vectors are scaled to where they exceed it.
    adjacency : {"replace", "zero_out"}, default="replace"
        A vector is replaced by any other within the bound, or by the zero vector (half the noise).
    random_state : None, int, BitGenerator, ...
        See :class:`Gaussian`.
    """

    _name = "laplace"


class L2Laplace(_Pure):
    """Noise of density proportional to ``exp(-norm / scale)``, the norm L2: pure epsilon.

    The scale is ``2 G / epsilon``.

    Parameters
    ----------
    dim, epsilon, bound, adjacency, random_state
        As for :class:`Laplace`.
    """

    _name = "l2laplace"


class PrivUnit(_Pure):
    """A direction, uniform on the sphere but for a cap around the vector's: pure epsilon with the least variance.

    A report has the same length whatever the vector; its direction has e^epsilon times the density in the cap
    ``<x, v> >= gamma ||v||`` that it has elsewhere. A vector v shorter than the bound G counts, with probability
    ``(1 - ||v|| / G) / 2``, as -v, which makes reports unbiased. In one dimension it is :class:`TwoPoint`.

    Parameters
    ----------
    dim, bound, random_state
        As for :class:`Laplace`; dim at most 2**20.
    epsilon : float
        At least 1e-9. At most about 14 (20 in three dimensions): a report takes up to e^epsilon trials. Its figure is
        exact and is attained.
    adjacency : {"replace", "zero_out"}, default="replace"
        Both have the same epsilon: the report of the zero vector is that of a random sign, which may be told apart from
        the report of another vector as well as any.

    Notes
    -----
    Trials are drawn without a look at the vector, and accepted or not by a coin and by the side of the cap they are on.
    How many it takes is independent of the vector and of the report, so the time tells nothing of them but for the time
    of single steps.

    References
    ----------
    Bhowmick, Duchi, Freudiger, Kapoor and Rogers: Protection against reconstruction and its applications in private
    federated learning, 2018. Asi, Feldman and Talwar 2022, who prove that it is optimal.
    """

    _name = "privunit"


class DuchiL2(_Pure):
    """A direction, uniform on the half sphere around the vector's or on the other one: pure epsilon.

    The L2-ball mechanism of Duchi, Jordan and Wainwright: :class:`PrivUnit` with a cap that is always half the sphere.
    For small epsilon there is no difference; for large ones its variance does not fall below that of ``pi dim / 2``.

    Parameters
    ----------
    dim, bound, adjacency, random_state
        As for :class:`PrivUnit`.
    epsilon : float
        At least 1e-9; no largest one.

    References
    ----------
    Duchi, Jordan and Wainwright: Minimax optimal procedures for locally private estimation, 2018.
    """

    _name = "duchi"


class TwoPoint(_Pure):
    """One number, reported as one of two: pure epsilon with the least variance.

    ``+ B`` with probability ``1/2 + v / (2 B)``, else ``- B``, with ``B = G (e^epsilon + 1) / (e^epsilon - 1)``.

    Parameters
    ----------
    epsilon, bound, adjacency, random_state
        As for :class:`DuchiL2`, with numbers from -bound to bound.
    dim : int, default=1
        1.
    """

    _name = "duchi"

    def __init__(
        self, *, epsilon: float, bound: float = 1.0, dim: int = 1, adjacency: str = "replace", random_state: Any = None
    ) -> None:
        dim = integer(dim=dim, at_least=1, at_most=1)
        super().__init__(dim=dim, epsilon=epsilon, bound=bound, adjacency=adjacency, random_state=random_state)
