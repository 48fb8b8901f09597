"""From the name of a design to its factorisation, with the stored parameters of BLTs."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from .._validate import choice, integer
from ..errors import InvalidParameter
from ._blt import BLT, OBJECTIVES, optimise_blt
from ._designs import MAX_STEPS, Factorization, Honaker, Independent, Smooth, SquareRoot, Tree

__all__ = ["DESIGNS", "factorization"]

DESIGNS = ("tree", "honaker", "smooth", "sqrt", "blt", "independent")

_TABLE = Path(__file__).parents[1] / "data" / "blt.json"
_CLASSES: dict[str, Callable[[int], Factorization]] = {
    "tree": Tree,
    "honaker": Honaker,
    "smooth": Smooth,
    "sqrt": SquareRoot,
    "independent": Independent,
}


def factorization(
    design: str,
    steps: int,
    *,
    buffers: int = 4,
    objective: str = "max",
    theta: Sequence[float] | None = None,
    omega: Sequence[float] | None = None,
) -> Factorization:
    """Make the factorisation of a design.

    Parameters
    ----------
    design : {"tree", "honaker", "smooth", "sqrt", "blt", "independent"}
    steps : int
        Rows after which a prefix sum is used; 1 to 2**48.
    buffers : int, default=4
        At most so many buffers for ``"blt"``, 1 to 8; the others do not use it. Fewer are taken where more would not
        help.
    objective : {"max", "mean"}
        Which error the stored parameters of ``"blt"`` minimise; the others do not use it.
    theta, omega : sequence of float, optional
        Parameters for ``"blt"`` (see :class:`BLT`) instead of the stored ones.

    Returns
    -------
    Factorization

    Raises
    ------
    InvalidParameter
        If a parameter is out of its range.

    Notes
    -----
    The stored parameters are those of the smallest tabulated number of steps that is not below ``steps``, optimised by
    :func:`optimise_blt` (``tools/blt_table.py``); beyond the table (2**30 steps, 6 buffers) they are optimised now.
    """
    design = choice(DESIGNS, design=design)
    if (theta is None) != (omega is None) or (theta is not None and design != "blt"):
        raise InvalidParameter("theta and omega go together, and with design='blt' only")
    if design != "blt":
        return _CLASSES[design](steps)
    if theta is not None and omega is not None:
        return BLT(steps, tuple(theta), tuple(omega))
    steps = integer(steps=steps, at_least=1, at_most=MAX_STEPS)
    buffers = integer(buffers=buffers, at_least=1, at_most=8)
    table = _stored()[choice(OBJECTIVES, objective=objective)]
    tabulated = min((n for n in table if n >= steps), default=None)
    if tabulated is None or buffers > max(len(rates) for entries in table.values() for rates, _ in entries):
        best = optimise_blt(steps, buffers, objective)
        return BLT(steps, best.theta, best.omega)
    rates, weights = table[tabulated][min(buffers, len(table[tabulated])) - 1]
    return BLT(steps, rates, weights)


@functools.cache
def _stored() -> dict[str, dict[int, list[tuple[tuple[float, ...], tuple[float, ...]]]]]:
    """Objective -> tabulated steps -> (theta, omega) for 1, 2, ... buffers."""
    found = json.loads(_TABLE.read_text(encoding="utf-8"))
    return {
        objective: {int(n): [(tuple(t), tuple(w)) for t, w in entries] for n, entries in found[objective].items()}
        for objective in OBJECTIVES
    }
