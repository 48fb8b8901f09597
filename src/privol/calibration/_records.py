"""What a mechanism did, in public numbers: what a stranger needs to compute its guarantee again.

``privol verify`` reads these records, and shares no code with what writes them.
"""

from __future__ import annotations

import math
from typing import Any

from ..factorizations import BLT, Factorization, Independent, Smooth, SquareRoot
from ._gradients import GradientCalibration
from ._leaders import LeaderCalibration
from ._plans import RunPlan
from ._sums import SumCalibration

__all__ = ["mechanism_record"]


def mechanism_record(plan: RunPlan) -> dict[str, Any] | None:
    """Return the public record of a run's mechanism.

    Parameters
    ----------
    plan : RunPlan

    Returns
    -------
    dict or None
        JSON values: ``kind``, what rows and gradients are bounded by, the design of the sums, and the noise as it was
        drawn. None without noise, and for a plan whose mechanism has no record yet.
    """
    problem = plan.problem
    if math.isinf(plan.mu) or (plan.epochs is not None and plan.epochs.renewal != "none"):
        return None
    if isinstance(plan, LeaderCalibration) and plan.sums.claim is None:
        cut = plan.tuning is not None or plan.gradient_bound is not None
        kind, noise = "sums of gradients", _sums(plan.sums)
    elif isinstance(plan, GradientCalibration):
        cut = plan.gradient_bound is not None
        kind, noise = "gradients", {"sigma": plan.sigma, "sensitivity": plan.sum_sensitivity}
    else:
        return None
    return {
        "kind": kind,
        "adjacency": problem.adjacency,
        "rows": plan.releases.horizon,
        "rows_of_step": plan.batch,
        "loss": problem.loss.name,
        "outputs": problem.outputs,
        "weight": problem.weight,
        "dimension": problem.dim,
        "x_bound": problem.x_bound,
        "y_bound": problem.y_bound,
        "intercept": problem.intercept,
        "radius": problem.radius,
        "gradient_bound": plan.bound,
        "cut": cut,
        "rows_per_user": problem.rows_per_user,
        "user_separation": problem.user_separation,
        "noise": noise,
        "mu": plan.mu,
    }


def _sums(sums: SumCalibration) -> dict[str, Any]:
    return {
        "design": _design(sums.factorization),
        "sensitivity": sums.sensitivity,
        "charged": sums.charged,
        "factor": sums.factor,
        "sigma": sums.sigma,
        "lattice": sums.lattice,
        "grid": sums.grid,
    }


def _design(design: Factorization) -> dict[str, Any]:
    found: dict[str, Any] = {"name": design.design, "steps": design.steps}
    if isinstance(design, BLT):
        rates, weights = design.recursion
        found |= {"rates": list(rates), "weights": list(weights)}
    elif isinstance(design, SquareRoot):
        found["decay"] = design.decay
    elif isinstance(design, Smooth):
        found["height"], found["ones"] = design.shape
    else:
        assert isinstance(design, Independent) or design.design in ("tree", "honaker")
    return found
