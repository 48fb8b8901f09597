"""Private prefix sums: a run is one Gaussian mechanism, which one row moves by its own change times the column norm.

The charge for rounding is derived in ``docs/proofs/recursions.md``: rows truncated to the grid of the integer sums, and
the rounding of recursions in doubles. ``"published"`` is Algorithm 5 of Jain, Kothari & Thakurta (2012).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

from .._core._noise import lattice_step
from .._rounding import UNIT, UP, scaled_excess, sum_excess
from .._validate import choice, integer, number
from ..errors import InvalidParameter
from ..factorizations import BLT, Banded, Factorization, SquareRoot
from ..guarantees import ADJACENCIES, Claim, gdp_mu
from ._iterates import CALIBRATIONS

__all__ = ["INTEGER_DESIGNS", "MOST_ROWS", "NO_LAST_ROW", "PrintedNoise", "SumCalibration", "calibrate_sums"]

#: Rows of a run whose number of rows is not stated, and what its guarantee says about that.
MOST_ROWS = 1 << 48
NO_LAST_ROW = (
    f"the run has no last row: it is one mechanism of up to {MOST_ROWS:,} rows, whose sums forget the older ones; "
    "delta has to stay below one over the number of rows"
)

INTEGER_DESIGNS = ("tree", "honaker", "smooth")  # their sums of rows are integers, and so exact

_SMALL, _LARGE = 1e-30, 1e30
_MOST_SUM, _MOST_SHIFT = 61, 40  # bits of a run's sum on the grid, and of the lattice on that grid
_MOST_WINDOW = 1 << 26  # numbers that "sqrt", "banded" and sliding sums keep
_MOST_ROUNDING = 0.1  # largest charge for rounding in discounted and sliding sums, relative to the rest


@dataclass(frozen=True)
class PrintedNoise:
    """The arguments with which the source calls Algorithm 5, which set its noise whatever one row really changes.

    Attributes
    ----------
    bound : float
        The R that it states for the rows of the sum.
    parts : int
        In how many equal parts it has split epsilon and delta.
    theorem : str
        Where it claims epsilon and delta for all of them together.
    """

    bound: float
    parts: int
    theorem: str


@dataclass(frozen=True)
class SumCalibration:
    """Everything that the noise of a private prefix sum depends on; all of it public.

    Attributes
    ----------
    factorization : Factorization
    dim : int
        Coordinates of a row.
    leaf : int
        Rows that are added up to one step of the factorisation.
    bound : float
        L2 bound of a row as declared; rows beyond are scaled to it.
    sensitivity : float
        L2 norm of the change of a leaf when one row changes, its own rounding and truncation charged.
    charged : float
        L2 norm of the change of all that is perturbed over the run when one row changes, all rounding charged.
    sigma : float
        Standard deviation of the noise per coordinate of everything that is perturbed; 0 without noise.
    lattice : float
        h, the power of two of whose multiples the noisy numbers are: 2**-11 to 2**-10 of sigma; 0 without noise.
    grid : float
        g, the power of two of whose multiples the rows are made: at most h. 0 for designs that sum in doubles.
    magnitude : float
        Bound of the coordinates of what is perturbed (for integer sums: of what the noise meets, less than h).
    mu : float
        Parameter of Gaussian differential privacy that the noise gives, rounded up (infinite without noise).
    claim : Claim or None
        The source's claim, for ``"published"``.
    factor : float
        What the budget covers, in multiples of what one row costs: ``mu`` is that of ``factor`` times ``charged``.
    """

    factorization: Factorization
    dim: int
    leaf: int
    bound: float
    sensitivity: float
    charged: float
    sigma: float
    lattice: float
    grid: float
    magnitude: float
    mu: float
    claim: Claim | None
    factor: float = 1.0

    def std(self, step: int) -> float:
        """Standard deviation per coordinate of the noise of the prefix after ``step`` leaves."""
        return self.sigma * self.factorization.row_norm(step)

    def weight(self, rows: int) -> float:
        """Sum of the weights of ``rows`` rows in their sum: their number, unless the sum forgets.

        A last leaf of fewer rows counts as ended.
        """
        if not rows:
            return 0.0
        step = -(-rows // self.leaf)
        return self.leaf * (self.factorization.weight(step) - 1.0) + (rows - (step - 1) * self.leaf)


def calibrate_sums(
    *,
    factorization: Factorization,
    dim: int,
    bound: float,
    epsilon: float,
    delta: float,
    leaf: int = 1,
    adjacency: str = "replace",
    sensitivity: float | None = None,
    rounding: float = 0.0,
    calibration: str = "tight",
    printed: PrintedNoise | None = None,
    factor: float = 1.0,
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
    leaf : int, default=1
        Rows that are added up to one step of the factorisation; 1 to 2**32.
    adjacency : {"replace", "zero_out"}
    sensitivity : float, optional
        Largest L2 change of an ideal row, where it is below the ball's: ``2 * bound`` for ``"replace"``, ``bound`` for
        ``"zero_out"``, which no larger value exceeds.
    rounding : float, default=0
        How far a row as computed by the caller is from the ideal one, in L2 norm and relative to ``bound``; the scaling
        to the bound is charged here. 0 to 0.01.
    calibration : {"tight", "published"}
    printed : PrintedNoise, optional
        With ``"published"``. Default: Algorithm 5 by itself, for rows of norm ``bound``.
    factor : float, default=1
        Of several rows that the budget is to cover together: of :func:`factor_of_sums`, at least 1.

    Returns
    -------
    SumCalibration

    Raises
    ------
    InvalidParameter
        If a parameter is out of its range, or the integer sums or the noise would not fit; the message says which.
    """
    dim = integer(dim=dim, at_least=1)
    leaf = integer(leaf=leaf, at_least=1, at_most=1 << 32)
    bound = number(bound=bound, at_least=_SMALL, at_most=_LARGE)
    rounding = number(rounding=rounding, at_least=0.0, at_most=0.01)
    factor = number(factor=factor, at_least=1.0, at_most=_LARGE)
    steps, replace = factorization.steps, choice(ADJACENCIES, adjacency=adjacency) == "replace"
    published = choice(CALIBRATIONS, calibration=calibration) == "published"
    if isinstance(factorization, SquareRoot) and steps * dim > _MOST_WINDOW:
        raise InvalidParameter(
            f"design='sqrt' keeps every row, and horizon * dim is at most {_MOST_WINDOW:,} for it, found "
            f"{steps:,} * {dim:,}: use design='blt'"
        )
    if isinstance(factorization, Banded) and factorization.bandwidth * dim > _MOST_WINDOW:
        raise InvalidParameter(
            f"design='banded' keeps bandwidth steps, and bandwidth * dim is at most {_MOST_WINDOW:,} for it, found "
            f"{factorization.bandwidth:,} * {dim:,}: lower bandwidth, or use design='blt'"
        )
    if factorization.window is not None and factorization.window < steps and factorization.window * dim > _MOST_WINDOW:
        raise InvalidParameter(
            f"sliding sums keep a window's noisy increments, and window / leaf * dim is at most {_MOST_WINDOW:,} for "
            f"them, found {factorization.window:,} * {dim:,}: use discount"
        )
    # Rows are scaled to the bound by a computed factor; twice for a matrix v v^T, which is quadratic in v's norm.
    excess = rounding + 2 * scaled_excess(dim)
    radius = bound * (1.0 + excess) * UP
    ball = radius * (2.0 if replace else 1.0)
    ideal = ball
    if sensitivity is not None:
        ideal = number(sensitivity=sensitivity, at_least=_SMALL, at_most=_LARGE)
        ideal = min(ball, (ideal + excess * bound * (2.0 if replace else 1.0)) * UP)
    sums = factorization.design in INTEGER_DESIGNS
    gain, error = _recursion(factorization)
    # Rounding when doubles are added up to a leaf, in both of two runs.
    addition = 0.0 if sums else 2.1 * sum_excess(leaf) * leaf * radius
    recursion = 2.0 * math.sqrt(steps) * error * leaf * radius

    forgetting = factorization.discount < 1.0 or factorization.window is not None
    if forgetting and (share := recursion / (factorization.column_norm * ideal)) > _MOST_ROUNDING:
        raise InvalidParameter(
            f"the rounding of {steps:,} steps would add {share:.0%} to the noise: give a horizon, steps of more rows, "
            "or forget faster"
        )

    def charge(grid: float) -> tuple[float, float]:
        # Truncation towards zero does not enlarge the ball, nor the change from a row to nothing.
        one = min(ball, (ideal + math.sqrt(dim) * grid) * UP) if replace else ideal
        one = (one + addition) * UP
        return one, (factorization.column_norm * one + recursion) * UP

    def result(sigma: float, lattice: float, grid: float, mu: float, claim: Claim | None) -> SumCalibration:
        one, charged = charge(grid)
        magnitude = lattice if sums else gain * leaf * radius
        return SumCalibration(
            factorization, dim, leaf, bound, one, charged, sigma, lattice, grid, magnitude, mu, claim, factor
        )

    grid = _power_of_two(steps * leaf * radius, -_MOST_SUM) if sums else 0.0
    if math.isinf(number(epsilon=epsilon, at_least=0.0, infinite=True)):
        return result(0.0, 0.0, grid, math.inf, None)
    mu, claim = math.nan, None
    if published:
        stated = PrintedNoise(bound, 1, "Theorem 9") if printed is None else printed
        sigma = _published_sigma(factorization, stated, adjacency, epsilon, delta)
        claim = Claim(epsilon=epsilon, delta=delta, source=f"Jain, Kothari and Thakurta 2012, {stated.theorem}")
    else:
        mu = _mu_of(epsilon, delta)
        sigma = factor * charge(grid)[1] / mu * UP
    if not 1e-280 < sigma < 1e280:
        raise InvalidParameter(
            f"the noise would have standard deviation {sigma:g}: epsilon, delta and bound are too far apart for double "
            "precision"
        )
    # A coarser grid needs more noise, whose lattice may need a coarser grid: at most once more.
    while sums and lattice_step(sigma) * 2.0**-_MOST_SHIFT > grid:
        grid = lattice_step(sigma) * 2.0**-_MOST_SHIFT
        sigma = sigma if published else factor * charge(grid)[1] / mu * UP
    lattice = lattice_step(sigma)
    if grid > lattice:
        raise InvalidParameter(
            f"the sum of {steps * leaf:,} rows of norm {bound:g} does not fit 64-bit integers on a grid as fine as the "
            f"noise of standard deviation {sigma:g}: decrease horizon, bound or epsilon, or use design='blt'"
        )
    return result(sigma, lattice, grid, factor * charge(grid)[1] / sigma * UP if published else mu, claim)


_mu_of = functools.lru_cache(maxsize=64)(gdp_mu)  # the same for all epochs of a run


def _power_of_two(value: float, shift: int) -> float:
    """Least power of two that is at least ``value * 2**shift``."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(1.0, exponent + shift - (mantissa == 0.5))


def _recursion(factorization: Factorization) -> tuple[float, float]:
    """Bounds of ``|(C w)_t|`` and of its rounding error, for rows of norm 1; docs/proofs/recursions.md."""
    n = factorization.steps
    if isinstance(factorization, BLT):
        theta, omega = factorization.recursion
        reach = [min(float(n - 1), 1.0 / (1.0 - t)) for t in theta]
        gain = 1.0 + math.fsum(w * r for w, r in zip(omega, reach, strict=True))
        drift = math.fsum(w * r * r for w, r in zip(omega, reach, strict=True))
        return 1.01 * gain, UNIT * (1.05 * (len(reach) + 1) * gain + 2.1 * drift)
    if isinstance(factorization, SquareRoot):
        # every coefficient has a relative error of at most 4 n units (with a decay 5 n), a sum of n products one of n +
        # 1
        gain = 1.0 + 2.0 * math.sqrt(n / math.pi)
        return 1.01 * gain, UNIT * 1.05 * (6 * n + 1 if factorization.decay < 1.0 else 5 * n + 1) * gain
    if isinstance(factorization, Banded):
        # a product and an addition for each coefficient but the first, which is 1; the coefficients are exact doubles
        gain = 1.0 + 2.0 * math.sqrt(factorization.bandwidth / math.pi)
        return 1.01 * gain, UNIT * 1.05 * 2.0 * (factorization.bandwidth - 1) * gain
    return 1.01, 0.0


def _published_sigma(
    factorization: Factorization, stated: PrintedNoise, adjacency: str, epsilon: float, delta: float
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
    epsilon = number(epsilon=epsilon, above=0.0) / stated.parts
    delta = number(delta=delta, above=0.0, below=1.0) / stated.parts
    if factorization.steps < 2:
        raise InvalidParameter("calibration='published' adds no noise at all for a horizon of 1: it must be at least 2")
    log_steps = math.log(factorization.steps)
    if not log_steps > delta:
        raise InvalidParameter(
            f"calibration='published' needs delta below {stated.parts} ln(horizon) = {stated.parts * log_steps:.4g}, "
            f"found {stated.parts * delta:g}"
        )
    return stated.bound * log_steps * math.sqrt(math.log(log_steps / delta) / epsilon)
