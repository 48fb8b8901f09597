"""Private prefix sums: a run is one Gaussian mechanism, which one row moves by its own change times the column norm.

What arithmetic adds is charged as derived in ``docs/proofs/recursions.md``: rows truncated to the grid of the integer
sums, and the rounding of the recursions in doubles. ``"published"`` is Algorithm 5 of Jain, Kothari & Thakurta (2012).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .._core._noise import lattice_step
from .._validate import choice, integer, number
from ..errors import InvalidParameter
from ..factorizations import BLT, Factorization, SquareRoot
from ..guarantees import ADJACENCIES, Claim, gdp_mu
from ._iterates import CALIBRATIONS

__all__ = ["INTEGER_DESIGNS", "SumCalibration", "calibrate_sums"]

INTEGER_DESIGNS = ("tree", "honaker", "smooth")  # their sums of rows are integers, hence exact

_SMALL, _LARGE = 1e-30, 1e30
_UNIT = 2.0**-53
_UP = 1.0 + 1e-12
_MOST_SUM, _MOST_SHIFT = 61, 40  # bits of a run's sum on the grid, and of the lattice on it
_MOST_WINDOW = 1 << 26  # numbers kept by "sqrt"


@dataclass(frozen=True)
class SumCalibration:
    """Everything that the noise of a private prefix sum depends on; all of it public.

    Attributes
    ----------
    factorization : Factorization
    dim : int
        Coordinates of a row.
    bound : float
        L2 bound of a row as declared; rows beyond are scaled to it.
    sensitivity : float
        L2 norm of the change of one row, its own rounding and truncation charged.
    charged : float
        L2 norm of the change of all that is perturbed over the run when one row changes, all rounding charged.
    sigma : float
        Standard deviation of the noise per coordinate of everything that is perturbed; 0 without noise.
    lattice : float
        h, the power of two of whose multiples the noisy numbers are: 2**-11 to 2**-10 of sigma; 0 without noise.
    grid : float
        g, the power of two of whose multiples the rows are made: at most h. 0 for designs that sum in doubles.
    mu : float
        Parameter of Gaussian differential privacy that the noise gives, rounded up (infinite without noise).
    claim : Claim or None
        The source's claim, for ``"published"``.
    """

    factorization: Factorization
    dim: int
    bound: float
    sensitivity: float
    charged: float
    sigma: float
    lattice: float
    grid: float
    mu: float
    claim: Claim | None

    def std(self, step: int) -> float:
        """Standard deviation per coordinate of the noise of the prefix after ``step`` rows."""
        return self.sigma * self.factorization.row_norm(step)


def calibrate_sums(
    *,
    factorization: Factorization,
    dim: int,
    bound: float,
    epsilon: float,
    delta: float,
    adjacency: str = "replace",
    sensitivity: float | None = None,
    rounding: float = 0.0,
    calibration: str = "tight",
) -> SumCalibration:
    """Calibrate a private prefix sum.

    Parameters
    ----------
    factorization : Factorization
    dim : int
        Coordinates of a row.
    bound : float
        L2 bound that rows are scaled to; 1e-30 to 1e30.
    epsilon, delta : float
        Budget of the whole run; ``epsilon=inf``: no noise.
    adjacency : {"replace", "zero_out"}
    sensitivity : float, optional
        Largest L2 change of an ideal row, where it is below the ball's: ``2 * bound`` for ``"replace"``, ``bound`` for
        ``"zero_out"``, which no larger value exceeds.
    rounding : float, default=0
        How far a row as computed by the caller is from the ideal one, in L2 norm and relative to ``bound``; the scaling
        to the bound is charged here. 0 to 0.01.
    calibration : {"tight", "published"}

    Returns
    -------
    SumCalibration

    Raises
    ------
    InvalidParameter
        If a parameter is out of its range, or the integer sums or the noise would not fit; the message says which.
    """
    dim = integer(dim=dim, at_least=1)
    bound = number(bound=bound, at_least=_SMALL, at_most=_LARGE)
    rounding = number(rounding=rounding, at_least=0.0, at_most=0.01)
    steps, replace = factorization.steps, choice(ADJACENCIES, adjacency=adjacency) == "replace"
    published = choice(CALIBRATIONS, calibration=calibration) == "published"
    if isinstance(factorization, SquareRoot) and steps * dim > _MOST_WINDOW:
        raise InvalidParameter(
            f"design='sqrt' keeps every row, and horizon * dim is at most {_MOST_WINDOW:,} for it, found "
            f"{steps:,} * {dim:,}: use design='blt'"
        )
    # Rows are scaled to the bound by a computed factor (docs/proofs/iterates.md, "Bounds themselves").
    excess = rounding + 4 * (dim / 8 + 16) * _UNIT
    radius = bound * (1.0 + excess) * _UP
    ball = radius * (2.0 if replace else 1.0)
    ideal = ball
    if sensitivity is not None:
        ideal = number(sensitivity=sensitivity, at_least=_SMALL, at_most=_LARGE)
        ideal = min(ball, (ideal + excess * bound * (2.0 if replace else 1.0)) * _UP)
    recursion = _recursion_error(factorization, radius)

    def charge(grid: float) -> tuple[float, float]:
        # Truncation towards zero leaves the ball, and the change from a row to nothing, no larger than they were.
        one = min(ball, (ideal + math.sqrt(dim) * grid) * _UP) if replace else ideal
        return one, (factorization.column_norm * one + recursion) * _UP

    sums = factorization.design in INTEGER_DESIGNS
    grid = _power_of_two(steps * radius, -_MOST_SUM) if sums else 0.0
    claim = None
    if math.isinf(number(epsilon=epsilon, at_least=0.0, infinite=True)):
        one, charged = charge(grid)
        return SumCalibration(factorization, dim, bound, one, charged, 0.0, 0.0, grid, math.inf, None)
    if published:
        sigma = _published_sigma(factorization, bound, adjacency, epsilon, delta)
        claim = Claim(epsilon=epsilon, delta=delta, source="Jain, Kothari and Thakurta 2012, Theorem 9")
    else:
        mu = gdp_mu(epsilon, delta)
        while True:  # a coarser grid asks for more noise, whose lattice may ask for a coarser grid: once more at most
            sigma = charge(grid)[1] / mu * _UP
            coarser = max(grid, lattice_step(sigma) * 2.0**-_MOST_SHIFT) if sums else grid
            if coarser == grid:
                break
            grid = coarser
    if not 1e-280 < sigma < 1e280:
        raise InvalidParameter(
            f"the noise would have standard deviation {sigma:g}: epsilon, delta and bound are too far apart for double "
            "precision"
        )
    lattice = lattice_step(sigma)
    if published and sums:
        grid = max(grid, lattice * 2.0**-_MOST_SHIFT)
    if grid > lattice:
        raise InvalidParameter(
            f"{steps:,} rows of norm {bound:g} do not fit 64-bit integers on a grid that is as fine as the noise of "
            f"standard deviation {sigma:g}: decrease horizon, bound or epsilon, or use design='blt'"
        )
    one, charged = charge(grid)
    if published:
        mu = charged / sigma * _UP
    return SumCalibration(factorization, dim, bound, one, charged, sigma, lattice, grid, mu, claim)


def _power_of_two(value: float, shift: int) -> float:
    """Least power of two of at least ``value * 2**shift``."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(1.0, exponent + shift - (mantissa == 0.5))


def _recursion_error(factorization: Factorization, radius: float) -> float:
    """Most that rounding adds to the change of all of ``C w`` over the run; docs/proofs/recursions.md."""
    n = factorization.steps
    if isinstance(factorization, BLT):
        # lengths of the buffers' memories; log1p and expm1 would be exact where this is above them
        reach = [min(float(n - 1), 1.0 / (1.0 - t)) for t in factorization.theta]
        sizes = math.fsum(w * r for w, r in zip(factorization.omega, reach, strict=True))
        drifts = math.fsum(w * r * r for w, r in zip(factorization.omega, reach, strict=True))
        step = 1.05 * (len(reach) + 1) * (1.0 + sizes) + 2.1 * drifts
    elif isinstance(factorization, SquareRoot):
        # every coefficient is off by a relative 4 n units at most, and a sum of n products by n + 1 units
        step = 1.05 * (5 * n + 1) * (1.0 + 2.0 * math.sqrt(n / math.pi))
    else:
        return 0.0
    return 2.0 * math.sqrt(n) * _UNIT * radius * step


def _published_sigma(
    factorization: Factorization, bound: float, adjacency: str, epsilon: float, delta: float
) -> float:
    """Sigma of Algorithm 5 with natural logarithms."""
    wrong = [
        name
        for name, found, allowed in (("design", factorization.design, "tree"), ("adjacency", adjacency, "replace"))
        if found != allowed
    ]
    if wrong:
        raise InvalidParameter(
            f"calibration='published' fixes {', '.join(wrong)} as the source does: design='tree', adjacency='replace'"
        )
    epsilon = number(epsilon=epsilon, above=0.0)
    delta = number(delta=delta, above=0.0, below=1.0)
    if factorization.steps < 2:
        raise InvalidParameter("calibration='published' adds no noise at all for a horizon of 1: it must be at least 2")
    log_steps = math.log(factorization.steps)
    if not log_steps > delta:
        raise InvalidParameter(
            f"calibration='published' needs delta below ln(horizon) = {log_steps:.4g}, found {delta:g}"
        )
    return bound * log_steps * math.sqrt(math.log(log_steps / delta) / epsilon)
