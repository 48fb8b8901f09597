"""Private prefix sums compared with the formulas of dp-accounting and JAX Privacy, at equal privacy.

Run: ``python bench/peers_sums.py``.

Needs privol's requirements, and dp-accounting and jax-privacy if they are to be compared (missing ones are named and
skipped). Prints the tables of docs/prefix_sums.md:

* dp-accounting: the noise that its accountant requires for a tree (``SingleEpochTreeAggregationDpEvent``), and for the
  single Gaussian mechanism that the tree is;
* JAX Privacy: column norm and error of its square root and its optimised BLTs, and the time of the optimisation.

Then every figure beside its limit: of the noise of a tree, the one Gaussian mechanism that it is, by dp-accounting's
PLD; of the largest error, the mean of the singular values of the matrix of running sums, below which no factorization
can be.
"""

from __future__ import annotations

import importlib.util
import math
import time
from collections.abc import Callable
from typing import Any

from figures import NONE, Limit, Row, figure, no_limit, show

from privol.calibration import calibrate_sums
from privol.factorizations import SquareRoot, Tree, error_bound, factorization, optimise_blt

EPSILON, DELTA = 1.0, 1e-6
STEPS = (2**10, 2**16, 2**20)


def least(fits: Callable[[float], bool], low: float, high: float) -> float:
    """Smallest argument that fits, by bisection."""
    while high / low > 1 + 1e-9:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def tree_noise(steps: int) -> float:
    """The noise of privol's tree."""
    return calibrate_sums(
        factorization=Tree(steps), dim=1, bound=1.0, epsilon=EPSILON, delta=DELTA, adjacency="zero_out"
    ).sigma


def own_figures(peers: dict[str, dict[int, float]]) -> list[Row]:
    """Noise and errors that need no peer, beside the peers' that there are."""
    table = []
    exact, event = peers.get("one Gaussian", {}), peers.get("the tree's event", {})
    for steps in STEPS:
        known = "noise of one Gaussian mechanism with the tree's sensitivity (PLD)"
        limit = Limit(exact[steps], known) if steps in exact else no_limit(f"{known}: dp-accounting is not installed")
        peer = {"peer_name": "dp-accounting, the tree's event", "peer": event[steps]} if steps in event else {}
        table.append(figure(f"noise of a tree, {steps:,} steps", "std", tree_noise(steps), limit=limit, **peer))
    bound = "mean singular value of the matrix of running sums"
    for steps in STEPS:
        errors = {"sqrt": SquareRoot(steps).max_error()}
        errors |= {f"blt, {k}": factorization("blt", steps, buffers=k).max_error() for k in (2, 3, 4)}
        for design, error in errors.items():
            theirs = peers.get(design, {}).get(steps, math.nan)
            peer_name = NONE if math.isnan(theirs) else "JAX Privacy"
            name, limit = f"largest error, {design}, {steps:,} steps", Limit(error_bound(steps), bound)
            table.append(figure(name, "std of a sum", error, limit=limit, peer_name=peer_name, peer=theirs))
    return table


def dp_accounting_table(peers: dict[str, dict[int, float]]) -> list[str]:
    from dp_accounting import GaussianDpEvent, NeighboringRelation, SingleEpochTreeAggregationDpEvent
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.rdp import RdpAccountant

    def tree(steps: int) -> Callable[[float], bool]:
        def fits(noise: float) -> bool:
            accountant = RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_SPECIAL)
            accountant.compose(SingleEpochTreeAggregationDpEvent(noise, steps))
            return bool(accountant.get_epsilon(DELTA) <= EPSILON)

        return fits

    def gaussian(noise: float) -> bool:
        accountant: Any = PLDAccountant()
        return bool(accountant.compose(GaussianDpEvent(noise)).get_epsilon(DELTA) <= EPSILON)

    one = least(gaussian, 1.0, 20.0)
    rows = [
        "| steps | privol | dp-accounting, the tree's event (RDP) | its noise / privol's "
        "| dp-accounting, one Gaussian (PLD) |",
        "| --- | --- | --- | --- | --- |",
    ]
    for steps in STEPS:
        ours = tree_noise(steps)
        theirs = least(tree(steps), 1.0, 100.0)
        exact = one * math.sqrt(steps.bit_length())
        peers.setdefault("the tree's event", {})[steps] = theirs
        peers.setdefault("one Gaussian", {})[steps] = exact
        rows.append(f"| {steps:,} | {ours:.4f} | {theirs:.4f} | {theirs / ours:.4f} | {exact:.4f} |")
    return rows


def jax_privacy_table(peers: dict[str, dict[int, float]]) -> list[str]:
    import jax

    jax.config.update("jax_enable_x64", True)
    from jax_privacy.matrix_factorization import buffered_toeplitz, toeplitz

    rows = [
        "| steps | design | privol: column norm | JAX Privacy: column norm | privol: max error "
        "| JAX Privacy: max error | privol optimises in | JAX Privacy in |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for steps in STEPS:
        ours = SquareRoot(steps)
        square = float(toeplitz.sensitivity_squared(toeplitz.optimal_max_error_strategy_coefs(steps)))
        peers.setdefault("sqrt", {})[steps] = square
        # B = C: the largest error is the square of the column norm
        rows.append(
            f"| {steps:,} | sqrt | {ours.column_norm:.6f} | {math.sqrt(square):.6f} | {ours.max_error():.6f} "
            f"| {square:.6f} | - | - |"
        )
        for buffers in (2, 3, 4):
            began = time.perf_counter()
            mine = optimise_blt(steps, buffers)
            middle = time.perf_counter()
            made = buffered_toeplitz.optimize(n=steps, error="max", min_buffers=buffers, max_buffers=buffers)
            ended = time.perf_counter()
            norm = math.sqrt(float(buffered_toeplitz.sensitivity_squared(made, steps)))
            loss = buffered_toeplitz.LossFn.build_closed_form_single_participation(n=steps)
            worst = math.sqrt(float(loss.loss(made)))
            peers.setdefault(f"blt, {buffers}", {})[steps] = worst
            rows.append(
                f"| {steps:,} | blt, {buffers} | {mine.column_norm:.6f} | {norm:.6f} | {mine.max_error():.6f} "
                f"| {worst:.6f} | {middle - began:.1f} s | {ended - middle:.1f} s |"
            )
            assert mine.max_error() <= factorization("blt", steps, buffers=buffers).max_error() * (1 + 1e-9)
    return rows


def main() -> None:
    peers: dict[str, dict[int, float]] = {}
    for module, table in (("dp_accounting", dp_accounting_table), ("jax_privacy", jax_privacy_table)):
        print(f"\n{module}\n")
        if importlib.util.find_spec(module) is None:
            print("is not installed: left out")
        else:
            print("\n".join(table(peers)), flush=True)
    show(own_figures(peers))


if __name__ == "__main__":
    main()
