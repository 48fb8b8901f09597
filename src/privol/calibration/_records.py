"""A mechanism in public numbers: what a third party needs to recompute its guarantee.

``privol verify`` reads these records, and shares no code with the writer.
"""

from __future__ import annotations

import math
from typing import Any

from ..factorizations import BLT, Banded, Factorization, Independent, Smooth, SquareRoot
from ..losses import Loss
from ._averages import AverageCalibration
from ._bandit import BanditCalibration
from ._epochs import Epochs
from ._gradients import GradientCalibration
from ._iterates import IterateCalibration
from ._leaders import LeaderCalibration
from ._least_squares import LeastSquaresCalibration
from ._local import LocalCalibration
from ._network import NetworkCalibration
from ._objective import ObjectiveCalibration
from ._offline import OutputCalibration
from ._plans import RunPlan
from ._problem import Problem
from ._reports import ReportNoise
from ._sums import SumCalibration
from ._wrapped import WrappedCalibration

__all__ = ["mechanism_record", "offline_record", "sums_record", "wrapped_record"]


def mechanism_record(plan: RunPlan, ended: int | None = None) -> dict[str, Any] | None:
    """Return the public record of a run's mechanism.

    Parameters
    ----------
    plan : RunPlan
    ended : int, optional
        For a run whose single release came after this many rows instead of at the horizon.

    Returns
    -------
    dict or None
        JSON values: ``kind``, what rows and gradients are bounded by, the design of the sums, and the noise as it was
        drawn. None without noise, and for a plan whose mechanism has no record: a source's own noise.
    """
    if math.isinf(plan.mu):
        return None
    common = {**_of_problem(plan.problem), "rows": plan.releases.horizon}
    found: dict[str, Any]
    if isinstance(plan, LeaderCalibration):
        cut = plan.tuning is not None or plan.gradient_bound is not None
        found = {"kind": "sums of gradients", "rows_of_step": plan.batch, "gradient_bound": plan.bound, "cut": cut}
        found |= _epochs(plan.epochs)
    elif isinstance(plan, LeastSquaresCalibration):
        found = {"kind": "sums of moments", "rows_of_step": plan.batch, **_epochs(plan.epochs)}
    elif isinstance(plan, GradientCalibration):
        found = {"kind": "gradients", "rows_of_step": plan.batch, "gradient_bound": plan.bound}
        found |= {"cut": plan.gradient_bound is not None, "noise": {"sigma": plan.sigma}}
    elif isinstance(plan, IterateCalibration):
        found = {"kind": "iterates", **_steps(plan), "noise": _of_releases(plan, ended)}
    elif isinstance(plan, LocalCalibration | BanditCalibration):
        found = {"kind": "reports", **_report(plan.report), "report_bound": plan.report.bound}
    elif isinstance(plan, NetworkCalibration):
        found = {
            "kind": "messages",
            "rows_of_step": plan.batch,
            "nodes": plan.nodes,
            "uses": plan.uses,
            "position": plan.position,
            "gradient_bound": plan.gradient_bound,
            "last_step": plan.step_length(plan.rounds),
            **_report(plan.report),
        }
    else:
        return None
    return common | found | {"mu": plan.mu}


def offline_record(
    plan: AverageCalibration | OutputCalibration | ObjectiveCalibration,
    *,
    loss: Loss,
    rows: int,
    dim: int,
    intercept: bool,
    x_bound: float,
    y_bound: float,
    adjacency: str,
) -> dict[str, Any] | None:
    """Return the public record of a learner's one release, of all rows; None as for :func:`mechanism_record`.

    Parameters
    ----------
    plan : AverageCalibration, OutputCalibration or ObjectiveCalibration
    loss : Loss
        What was minimised.
    rows : int
    dim : int
        Coordinates of one output, the intercept's included.
    intercept, x_bound, y_bound, adjacency
        As of the learner.
    """
    if plan.law == "none":
        return None
    noise: dict[str, Any] = {"law": plan.law, "scale": plan.scale}
    if isinstance(plan, AverageCalibration):
        common = _of_problem(plan.iterates.problem)
        return (
            common
            | {"rows": rows, "kind": "average", **_steps(plan.iterates), "weights": plan.weights}
            | {"noise": noise}
        )
    common = {
        "adjacency": adjacency,
        "loss": _loss(loss),
        "outputs": plan.dim // dim,
        "weight": 1.0,
        "dimension": dim,
        "x_bound": x_bound,
        "y_bound": y_bound,
        "intercept": intercept,
        "rows": rows,
        "l2_sum": plan.l2_sum,
        "gradient_norm": plan.gradient_norm,
    }
    if isinstance(plan, OutputCalibration):
        return common | {"kind": "minimiser", "scaled_to": plan.radius, "noise": noise}
    noise |= {
        "step": plan.step,
        "final_scale": plan.final_scale,
        "epsilon": plan.epsilon_objective,
        "final_epsilon": plan.epsilon_final,
    }
    return common | {"kind": "objective", "noise": noise}


def sums_record(epochs: Epochs, *, gram: bool, bound: float, adjacency: str, leaf: int) -> dict[str, Any] | None:
    """Return the public record of prefix sums of vectors or matrices; None as for :func:`mechanism_record`.

    Parameters
    ----------
    epochs : Epochs
    gram : bool
        What is added up is ``v v^T`` of a row v.
    bound : float
        Of a row.
    adjacency, leaf
        As of the sums.
    """
    if math.isinf(epochs.mu):
        return None
    common = {"kind": "sums of vectors", "adjacency": adjacency, "dimension": epochs.sums[0].dim, "bound": bound}
    return common | {
        "power": 1 + gram,
        "rows": epochs.horizon,
        "rows_of_step": leaf,
        "mu": epochs.mu,
        **_epochs(epochs),
    }


def wrapped_record(plan: WrappedCalibration, *, dim: int, radius: float, adjacency: str) -> dict[str, Any] | None:
    """Return the public record of iterates of a user's own algorithm; None as for :func:`mechanism_record`.

    Parameters
    ----------
    plan : WrappedCalibration
    dim : int
    radius : float
        Of the ball into which iterates are scaled.
    adjacency : str
    """
    if math.isinf(plan.mu) or not len(plan.rows):
        return None
    noise = {"rows": plan.rows.tolist(), "declared": plan.declared.tolist(), "std": plan.stds.tolist()}
    common = {"kind": "declared iterates", "adjacency": adjacency, "dimension": dim, "radius": radius}
    return common | {"rows": plan.releases.horizon, "noise": noise, "mu": plan.mu}


def _of_problem(problem: Problem) -> dict[str, Any]:
    return {
        "adjacency": problem.adjacency,
        "loss": _loss(problem.loss),
        "outputs": problem.outputs,
        "weight": problem.weight,
        "dimension": problem.dim,
        "x_bound": problem.x_bound,
        "y_bound": problem.y_bound,
        "intercept": problem.intercept,
        "set": type(problem.domain).__name__,
        "radius": _finite(problem.radius),
        "diameter": _finite(problem.domain.diameter(problem.dim)),
    }


def _finite(x: float) -> float | None:
    return x if math.isfinite(x) else None


def _loss(loss: Loss) -> dict[str, Any]:
    found = loss.to_record()
    if loss.vouched is not None:  # what the user vouched for
        found |= {"lipschitz": loss.lipschitz(math.inf), "curvature": _finite(loss.curvature)}
    return found


def _steps(plan: IterateCalibration) -> dict[str, Any]:
    law = plan.law
    return {
        "update": law.update,
        "constrained": plan.constrained,
        "l2": law.l2,
        "l2_schedule": law.l2_schedule,
        "first_weight": law.first_weight,
        "refresh": plan.refresh,
    }


def _of_releases(plan: IterateCalibration, ended: int | None) -> dict[str, Any]:
    if ended is not None:
        return {"row": ended, "std": plan.last_std(ended)}
    releases, law = plan.releases, plan.law
    rows = [int(row) for row in releases.rows]
    first = releases.every or rows[0]
    last = rows[-1] if rows else releases.every * releases.count
    return {
        "every": releases.every,
        "rows": rows,
        "last_row": releases.last_row,
        "shape": law.noise_shape,
        "gain": plan.schedule.gain,
        "diameter": law.diameter,
        "rounding": list(law.rounding),
        "cap": law.cap,
        "first_std": plan.std(first),
        "last_std": plan.std(last),
    }


def _report(report: ReportNoise) -> dict[str, Any]:
    noise: dict[str, Any] = {"law": report.kind, "scale": report.scale}
    if report.cap is not None:
        noise["threshold"] = report.cap.threshold
    return {"report_dimension": report.dim, "leakage": report.leakage, "noise": noise}


def _epochs(epochs: Epochs) -> dict[str, Any]:
    """The noise of a run, or of each of its epochs; the last entry holds for all later ones."""
    if epochs.renewal == "none":
        return {"noise": _sums(epochs.sums[0])}
    return {"epochs": [{"rows": n, "noise": _sums(found)} for n, found in zip(epochs.rows, epochs.sums, strict=True)]}


def _sums(sums: SumCalibration) -> dict[str, Any]:
    return {
        "design": _design(sums.factorization),
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
    elif isinstance(design, Banded):
        found |= {"decay": design.decay, "bandwidth": design.bandwidth}
    elif isinstance(design, Smooth):
        found["height"], found["ones"] = design.shape
    else:
        assert isinstance(design, Independent) or design.design in ("tree", "honaker")
    return found
