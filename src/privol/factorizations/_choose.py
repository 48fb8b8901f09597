"""Makes the factorization of a named design, with the stored parameters of BLTs."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from .._validate import choice, integer, number
from .._vocabulary import DESIGNS
from ..errors import InvalidParameter
from ._banded import Banded
from ._blt import BLT, OBJECTIVES, optimise_blt
from ._designs import MAX_STEPS, Factorization, Honaker, Smooth, Tree
from ._patterns import user_norm
from ._toeplitz import Independent, SquareRoot, Toeplitz

__all__ = ["DESIGNS", "DRIFT_DESIGNS", "Design", "factorization", "forgets", "step_workload"]

DRIFT_DESIGNS = ("sqrt", "blt", "banded", "independent")

_TABLE = Path(__file__).parents[1] / "data" / "blt.json"
_INTERVALS: dict[str, Callable[[int], Factorization]] = {"tree": Tree, "honaker": Honaker, "smooth": Smooth}
_OTHERS: dict[str, Callable[..., Toeplitz]] = {"sqrt": SquareRoot, "independent": Independent}

#: Candidate decays of C for sliding sums of the last W rows: 1, and 1 / (1 + c / W) for these c.
_PACES = {"blt": tuple(2.0**k for k in range(-5, 8)), "sqrt": (0.5, 1.0, 2.0), "banded": (0.5, 1.0, 2.0)}

_DERIVED = 4096  # longest band chosen by default: a step costs this many multiplications, twice


def factorization(
    design: str,
    steps: int,
    *,
    buffers: int = 4,
    bandwidth: int | None = None,
    objective: str = "max",
    theta: Sequence[float] | None = None,
    omega: Sequence[float] | None = None,
    discount: float = 1.0,
    window: int | None = None,
    rows_per_user: int = 1,
    user_separation: int = 1,
    leaf: int = 1,
) -> Factorization:
    """Make the factorisation of a design.

    Parameters
    ----------
    design : {"tree", "honaker", "smooth", "sqrt", "blt", "banded", "independent"}
    steps : int
        Rows after which a prefix sum is used; 1 to 2**48.
    buffers : int, default=4
        At most this many buffers for ``"blt"``, 1 to 8; the others do not use it. Fewer are taken where more would not
        help.
    bandwidth : int, optional
        Steps that C of ``"banded"`` reaches, 1 to 65,536 (see :class:`Banded`); the others do not use it. Default: of
        the powers of 4, 4096 and the steps that rows of a user are apart, none above 4096, the one of least error.
    objective : {"max", "mean"}
        Which error the stored parameters of ``"blt"``, or the bandwidth, minimise; the others do not use it.
    theta, omega : sequence of float, optional
        Parameters for ``"blt"`` (see :class:`BLT`) instead of the stored ones; not with ``window``.
    discount : float, default=1.0
        1e-100 to 1; below 1 for discounted sums: that of ``discount**(t - i) w_i`` over the rows up to t.
    window : int, optional
        For sliding sums: the number of last rows in a sum. Both are for "blt", "sqrt", "banded" and "independent", and
        only one.
    rows_per_user, user_separation, leaf : int, default=1
        The noise covers this many rows of a user, any two at least this many rows apart, with ``leaf`` rows per step.
        The error that parameters are chosen by is then that of such noise.

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
    For discounted and sliding sums, and where several rows of a user are covered, they are those of any tabulated
    number, and (sliding) of several decays of C, that have the least error.
    """
    design = choice(DESIGNS, design=design)
    discount = number(discount=discount, above=0.0, at_most=1.0)
    if (theta is None) != (omega is None) or (theta is not None and design != "blt"):
        raise InvalidParameter("theta and omega go together, and with design='blt' only")
    if bandwidth is not None and design != "banded":
        raise InvalidParameter(f"bandwidth is for design='banded', found bandwidth={bandwidth!r} with {design=}")
    if forgets(discount, window):
        if design not in DRIFT_DESIGNS:
            raise InvalidParameter(
                f"design={design!r} adds up intervals, whose rows all weigh the same for ever: discount and window are "
                f"for the designs {', '.join(DRIFT_DESIGNS)}"
            )
        if discount < 1.0 and window is not None:
            raise InvalidParameter("discount and window are two ways to forget: give one of them")
        if theta is not None and window is not None:
            raise InvalidParameter("theta and omega are chosen here where window is given")
    if design in _INTERVALS:
        return _INTERVALS[design](steps)
    if theta is not None and omega is not None:
        return BLT(steps, tuple(theta), tuple(omega), decay=discount)
    steps = integer(steps=steps, at_least=1, at_most=MAX_STEPS)
    choice(OBJECTIVES, objective=objective)
    if window is not None:
        window = integer(window=window, at_least=1, at_most=MAX_STEPS)
    if design == "blt":
        buffers = integer(buffers=buffers, at_least=1, at_most=8)
    users = _Users(rows_per_user, user_separation, leaf)
    bands: tuple[int, ...] = ()
    if design == "banded":
        bands = users.bands(steps) if bandwidth is None else (bandwidth,)
    if forgets(discount, window):
        return _forgetting(design, steps, buffers, bands, objective, discount, window, users)
    if design == "banded":
        made = [Banded(steps, band) for band in bands]
        return made[0] if len(made) == 1 else min(made, key=lambda f: users.error(f, objective))
    return _blt(steps, buffers, objective, users) if design == "blt" else _OTHERS[design](steps)


def forgets(discount: float, window: int | None) -> bool:
    """Whether sums are discounted or sliding, so that their noise has a bound however long they go on."""
    return number(discount=discount, above=0.0, at_most=1.0) < 1.0 or window is not None


@dataclass(frozen=True, kw_only=True)
class Design:
    """How running sums share their noise, whatever their length: public.

    Attributes
    ----------
    name : str
        One of :data:`DESIGNS`.
    leaf : int
        Rows of a step.
    discount, window
        Of single rows, as the learners' parameters.
    buffers, bandwidth, objective, theta, omega
        As for :func:`factorization`.
    rows_per_user, user_separation : int
        The noise covers this many rows of a user, any two at least this many rows apart.
    """

    name: str
    leaf: int = 1
    discount: float = 1.0
    window: int | None = None
    buffers: int = 4
    bandwidth: int | None = None
    objective: str = "max"
    theta: Sequence[float] | None = None
    omega: Sequence[float] | None = None
    rows_per_user: int = 1
    user_separation: int = 1

    def over(self, rows: int) -> Factorization:
        """Return the factorisation of the sums of a number of rows."""
        discount, window = step_workload(self.discount, self.window, self.leaf)
        return factorization(
            self.name,
            -(-rows // self.leaf),
            buffers=self.buffers,
            bandwidth=self.bandwidth,
            objective=self.objective,
            theta=self.theta,
            omega=self.omega,
            discount=discount,
            window=window,
            rows_per_user=self.rows_per_user,
            user_separation=self.user_separation,
            leaf=self.leaf,
        )


def step_workload(discount: float, window: int | None, leaf: int) -> tuple[float, int | None]:
    """``discount`` and ``window`` of steps of ``leaf`` rows, from those of single rows.

    Raises
    ------
    InvalidParameter
        If ``window`` is not a multiple of ``leaf``, or a row's weight is below 1e-100 after one step.
    """
    base = number(discount=discount, above=0.0, at_most=1.0)
    if window is not None:
        window = integer(window=window, at_least=1, at_most=MAX_STEPS)
        if window % leaf:
            raise InvalidParameter(f"window must be a multiple of the {leaf} rows of a step, found {window}")
        window //= leaf
    power, rest = 1.0, leaf
    while rest:  # by products alone, which are the same on every machine
        power, base, rest = (power * base if rest & 1 else power), base * base, rest >> 1
    if power < 1e-100:
        raise InvalidParameter(f"discount={discount:g} forgets all before a step of {leaf} rows: take fewer rows or 1")
    return power, window


class _Users(NamedTuple):
    """The users that the noise covers, and so the factor of an error."""

    rows: int
    separation: int
    leaf: int

    def error(self, made: Factorization, objective: str) -> float:
        """The error with noise that covers all rows of a user."""
        error = made.max_error() if objective == "max" else made.mean_error()
        if self.rows == 1:
            return error
        return error * user_norm(made, self.rows, separation=self.separation, leaf=self.leaf) / made.column_norm

    def bands(self, steps: int) -> tuple[int, ...]:
        """Bandwidths to choose from."""
        most = min(steps, _DERIVED)
        apart = max(self.separation // self.leaf, 1) if self.rows > 1 else most
        return tuple({min(band, most) for band in (1, 4, 16, 64, 256, 1024, 4096, apart)})


@functools.lru_cache(maxsize=64)
def _blt(steps: int, buffers: int, objective: str, users: _Users) -> BLT:
    """The stored parameters of the smallest tabulated number of steps that is not below ``steps``.

    For several rows of a user, the parameters are those of any tabulated number with the least error: the further rows
    are apart, the faster C may forget.
    """
    table = _stored()[objective]
    if users.rows > 1:
        entries = [numbers[min(buffers, len(numbers)) - 1] for numbers in table.values()]
        made = [_blt(steps, buffers, objective, _Users(1, 1, 1)), *(BLT(steps, *numbers) for numbers in entries)]
        return min(made, key=lambda f: users.error(f, objective))
    tabulated = min((n for n in table if n >= steps), default=None)
    if tabulated is None or buffers > max(len(rates) for entries in table.values() for rates, _ in entries):
        best = optimise_blt(max(steps, 2), buffers, objective)  # a single step leaves no choice
        return BLT(steps, best.theta, best.omega)
    rates, weights = table[tabulated][min(buffers, len(table[tabulated])) - 1]
    return BLT(steps, rates, weights)


@functools.lru_cache(maxsize=64)
def _forgetting(
    design: str,
    steps: int,
    buffers: int,
    bands: tuple[int, ...],
    objective: str,
    discount: float,
    window: int | None,
    users: _Users,
) -> Factorization:
    """Discounted or sliding sums: the decay of C, and the stored BLT parameters or the band, with the least error."""
    decays = [discount]
    if window is not None and window < steps and design != "independent":
        decays += [1.0 / (1.0 + pace / window) for pace in _PACES[design]]
    made: list[Factorization] = []
    for decay in decays:
        if design == "blt":
            stored = (entries[min(buffers, len(entries)) - 1] for entries in _stored()[objective].values())
            made += [BLT(steps, *numbers, decay=decay, window=window) for numbers in stored]
        elif design == "banded":
            made += [Banded(steps, band, decay=decay, window=window) for band in bands]
        else:
            made.append(_OTHERS[design](steps, decay=decay, window=window))
    return min(made, key=lambda f: users.error(f, objective))


@functools.cache
def _stored() -> dict[str, dict[int, list[tuple[tuple[float, ...], tuple[float, ...]]]]]:
    """Objective -> tabulated steps -> (theta, omega) for 1, 2, ... buffers."""
    found = json.loads(_TABLE.read_text(encoding="utf-8"))
    return {
        objective: {int(n): [(tuple(t), tuple(w)) for t, w in entries] for n, entries in found[objective].items()}
        for objective in OBJECTIVES
    }
