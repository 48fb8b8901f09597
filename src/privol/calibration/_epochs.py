"""Runs that outlive their horizon: one mechanism after another, each with the whole budget.

A row is in only one epoch, and what other epochs release depends on it only through earlier releases. So a run of any
number of epochs is as private as one epoch (docs/proofs/prefix.md, section 6). Its sums are the sums over the epochs,
and so are the variances of their noise.
"""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass
from itertools import accumulate

from .._validate import choice
from .._vocabulary import RENEWALS
from ..errors import InvalidParameter
from ..factorizations import DESIGNS, Design, Factorization, forgets
from ._participation import factor_of_sums
from ._problem import Budget
from ._sums import MOST_ROWS, PrintedNoise, SumCalibration, calibrate_sums

__all__ = ["RENEWALS", "Epochs", "make_epochs"]

# The most steps of "blt" if a step is one row. The charge for rounding grows with the square of the steps and with the
# rows of a step. A limit that falls with the square root of those rows keeps the charge below a fifth of the noise.
_MOST_STEPS = 1 << 25
_MOST_NUMBERS = 1 << 20  # numbers that "sqrt" keeps
# The charge for "banded" grows with the root of the steps: it stays below a tenth of the noise for the longest band.
_MOST_BANDED = MOST_ROWS  # divided by the squared rows of a step


@dataclass(frozen=True)
class Epochs:
    """The mechanisms of a run, one after the other; all of it public.

    Attributes
    ----------
    renewal : {"none", "repeat", "double"}
    rows : tuple of int
        Rows of epochs 0, 1, ...; where there is renewal, the last of them is that of all that follow.
    sums : tuple of SumCalibration
        Their calibrations, as many.
    """

    renewal: str
    rows: tuple[int, ...]
    sums: tuple[SumCalibration, ...]

    @property
    def horizon(self) -> int:
        """Rows of all epochs together."""
        return self.rows[0] if self.renewal == "none" else MOST_ROWS

    @property
    def mu(self) -> float:
        """Parameter of Gaussian differential privacy of the whole run: the largest over its epochs."""
        return max(found.mu for found in self.sums)

    def user_factor(self, rows_per_user: int, user_separation: int) -> float:
        """Cost of all rows of a user, as a multiple of the cost of one: see :class:`RunPlan`."""
        designs = [found.factorization for found in self.sums]
        return _factor(designs, self.sums[0].leaf, self.renewal, rows_per_user, user_separation)

    @property
    def last(self) -> int:
        """Number of the epoch that all later ones repeat."""
        return len(self.rows) - 1

    def of(self, epoch: int) -> SumCalibration:
        """The calibration of an epoch."""
        return self.sums[min(epoch, self.last)]

    def end_variance(self, epoch: int) -> float:
        """Variance per coordinate of the noise of an epoch's last sum, without earlier epochs."""
        found = self.of(epoch)
        return found.std(found.factorization.steps) ** 2

    def variances(self) -> list[float]:
        """Variance that the epochs before each listed one leave in the sums."""
        return list(accumulate((self.end_variance(k) for k in range(self.last)), initial=0.0))

    def starts(self) -> list[int]:
        """Rows before each of the epochs listed."""
        return list(accumulate(self.rows[:-1], initial=0))

    def start(self, epoch: int) -> int:
        """Rows before an epoch."""
        return self.starts()[min(epoch, self.last)] + max(epoch - self.last, 0) * self.rows[-1]

    def first_step(self, epoch: int) -> int:
        """Steps before an epoch."""
        steps = [found.factorization.steps for found in self.sums]
        return sum(steps[: min(epoch, self.last)]) + max(epoch - self.last, 0) * steps[-1]

    def variance_before(self, epoch: int) -> float:
        """Variance that earlier epochs leave in the sums."""
        return self.variances()[min(epoch, self.last)] + max(epoch - self.last, 0) * self.end_variance(self.last)

    def locate(self, row: int) -> tuple[int, int]:
        """The epoch of a row, from 0, and its number within that epoch, from 1."""
        starts = self.starts()
        epoch = max(bisect.bisect_left(starts, row) - 1, 0)
        within = row - starts[epoch]
        if within > self.rows[epoch]:
            more, within = divmod(within - 1, self.rows[-1])
            epoch, within = epoch + more, within + 1
        return epoch, within

    def step(self, row: int, *, ended: bool = False) -> tuple[int, int]:
        """The epoch of a row, and the step of it whose sum is there after that row, 0 for none.

        ``ended``: in a run that ends there, whose last leaf may have fewer rows.
        """
        epoch, within = self.locate(row)
        leaf = self.sums[0].leaf
        whole = ended or within >= self.rows[min(epoch, self.last)]
        return epoch, -(-within // leaf) if whole else within // leaf

    def std(self, epoch: int, step: int) -> float:
        """Standard deviation per coordinate of the noise after a step of an epoch, earlier epochs included."""
        if epoch == 0:
            return self.sums[0].std(step) if step else 0.0
        return math.sqrt(self.variance_before(epoch) + (self.of(epoch).std(step) ** 2 if step else 0.0))

    def condition(self) -> str:
        """The statements of a run's guarantee about its epochs."""
        lengths = f"{self.rows[0]:,} rows each"
        if self.last > 0:
            lengths = f"{self.rows[0]:,} rows, twice as many and so on"
            if self.start(self.last) < MOST_ROWS - self.rows[-1]:
                lengths += f" up to {self.rows[-1]:,}"
        return (
            f"the number of rows is not limited by a horizon: epochs of {lengths} are mechanisms of their own with the "
            "whole budget each, which add up to no more than one of them because a row is in one epoch only; delta has "
            "to stay below one over the number of rows"
        )


def make_epochs(
    renewal: str,
    budget: Budget,
    *,
    rows: int,
    design: Design,
    dim: int,
    bound: float,
    adjacency: str,
    sensitivity: float | None = None,
    rounding: float = 0.0,
    printed: PrintedNoise | None = None,
) -> Epochs:
    """Calibrate the epochs of a run: each spends the whole budget.

    Parameters
    ----------
    renewal : {"none", "repeat", "double"}
        None but the first epoch; epochs of the same length; each twice as long as the one before, up to
        ``2**25 / sqrt(leaf)`` steps with ``"blt"``, ``2**48 / leaf**2`` with ``"banded"`` and up to 2**20 numbers to
        keep with ``"sqrt"`` (or the first epoch, where that is longer).
    budget : Budget
    rows : int
        Of the first epoch.
    design : Design
        With the rows of a user that the budget covers.
    dim, bound, adjacency, sensitivity, rounding, printed
        As for :func:`calibrate_sums`.

    Returns
    -------
    Epochs

    Raises
    ------
    InvalidParameter
        If a parameter is out of its range, or sums that forget are to be renewed.
    """
    if choice(RENEWALS, renewal=renewal) != "none" and forgets(design.discount, design.window):
        raise InvalidParameter(
            f"renewal must be 'none' where sums forget their older rows, found {renewal!r}: with discount or window "
            "a run needs no horizon"
        )
    limits = {
        "blt": math.isqrt(_MOST_STEPS**2 // design.leaf),
        "sqrt": _MOST_NUMBERS // dim,
        "banded": _MOST_BANDED // design.leaf**2,
    }
    most = limits.get(choice(DESIGNS, design=design.name), MOST_ROWS)
    lengths = [rows]
    if renewal == "double":
        while sum(lengths) < MOST_ROWS and -(-2 * lengths[-1] // design.leaf) <= most:
            lengths.append(2 * lengths[-1])
    designs = [design.over(length) for length in lengths]
    factor = _factor(designs, design.leaf, renewal, design.rows_per_user, design.user_separation)
    sums = tuple(
        calibrate_sums(
            factorization=chosen,
            dim=dim,
            bound=bound,
            epsilon=budget.epsilon,
            delta=budget.delta,
            leaf=design.leaf,
            adjacency=adjacency,
            sensitivity=sensitivity,
            rounding=rounding,
            calibration=budget.calibration,
            printed=printed,
            factor=factor,
        )
        for chosen in designs
    )
    return Epochs(renewal, tuple(lengths), sums)


def _factor(designs: list[Factorization], leaf: int, renewal: str, rows_per_user: int, user_separation: int) -> float:
    return factor_of_sums(
        designs,
        leaf=leaf,
        renewed=renewal != "none",
        rows_per_user=rows_per_user,
        user_separation=user_separation,
    )
