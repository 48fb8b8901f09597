"""From the calibration of a private prefix sum to the plan of the compiled one."""

from __future__ import annotations

from typing import Any

from .._core._prefix import PrefixPlan
from ..calibration import SumCalibration
from ..factorizations import BLT, Smooth, SquareRoot

__all__ = ["prefix_plan"]


def prefix_plan(sums: SumCalibration, *, horizon: int) -> PrefixPlan:
    """Return the plan of the sums that a learner's kernel perturbs.

    Parameters
    ----------
    sums : SumCalibration
    horizon : int
        Rows of the run: the factorisation has a step for every ``sums.leaf`` of them.
    """
    design, numbers = sums.factorization, dict[str, Any]()
    if isinstance(design, Smooth):
        numbers["ones"] = design.shape[1]
    elif isinstance(design, BLT):
        numbers["theta"], numbers["omega"] = design.theta, design.omega
    elif isinstance(design, SquareRoot):
        numbers["coefficients"] = design.coefficients()
    return PrefixPlan(
        design=design.design,
        width=sums.dim,
        horizon=horizon,
        bound=sums.bound,
        std=sums.sigma,
        leaf=sums.leaf,
        grid=sums.grid,
        **numbers,
    )
