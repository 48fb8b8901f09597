"""The joint cost of all rows of a user that teach, in any phases, in the worst case.

A phase is a Gaussian mechanism on sums. Replacing m rows moves these at most m times as far as one does, so m rows in a
phase cost m times the mu of one; the squares of phases add up (``docs/proofs/participation.md``, section 8).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .._rounding import UP
from .._validate import integer
from ..errors import InvalidParameter
from ..guarantees import Guarantee, times_up, unchecked
from ..readers.base import Facts

__all__ = [
    "MOST_ROWS",
    "check_users",
    "factor_of_all",
    "factor_of_phases",
    "of_users",
    "squares_of_phases",
    "taught_squares",
]

#: Up to this many rows of a user, more than one phase is considered.
MOST_ROWS = 1024
# The margin of mu that the encoding leaves to the model, so that rounding does not push the total over the budget.
_LEFT = 1.0 + 1e-8


def check_users(rows_per_user: int | None, user_separation: int) -> tuple[int | None, int]:
    """Return both as integers.

    Raises
    ------
    InvalidParameter
        If one is out of its range, or if there is a separation without a number of rows.
    """
    apart = integer(user_separation=user_separation, at_least=1, at_most=1 << 48)
    if rows_per_user is not None:
        return integer(rows_per_user=rows_per_user, at_least=1, at_most=MOST_ROWS), apart
    if apart != 1:
        raise InvalidParameter(
            f"user_separation must be 1 where rows_per_user is not given, found {user_separation!r}: the budget is "
            "for one row"
        )
    return None, apart


def squares_of_phases(phases: Sequence[int], rows_per_user: int, user_separation: int) -> tuple[int, ...]:
    """Return the largest sum of squared numbers of rows in each phase, for 0, 1, ... rows of a user.

    Parameters
    ----------
    phases : sequence of int
        Rows of each phase, in order.
    rows_per_user : int
        From 1 to 1024.
    user_separation : int
        Any two rows of a user are at least this many rows apart.

    Returns
    -------
    tuple of int
        With an entry for every possible number of rows in the phases; entries never decrease.

    Notes
    -----
    Exact. Placing the rows of a phase as early as the rows before them allow leaves most room to the next phase. Of all
    numbers of rows per phase that fit so, those with the largest sum of squares are taken. Cost O(k^2) a phase.
    """
    most = integer(rows_per_user=rows_per_user, at_least=1, at_most=MOST_ROWS)
    apart = integer(user_separation=user_separation, at_least=1)
    # largest sums by how many rows of the next phase are too near to the last row; -1: impossible
    sums = np.full(most + 1, -1, dtype=np.int64)
    sums[0] = 0
    states: dict[int, NDArray[np.int64]] = {0: sums}
    for n in phases:
        after: dict[int, NDArray[np.int64]] = {}
        for near, known in states.items():
            fit = 0 if near >= n else (n - 1 - near) // apart + 1
            for count in range(min(fit, most) + 1):
                left = max(near + count * apart - n, 0)
                found = after.setdefault(left, np.full(most + 1, -1, dtype=np.int64))
                before = known[: most + 1 - count]
                np.maximum(found[count:], np.where(before < 0, -1, before + count * count), out=found[count:])
        states = after
    best = np.max(list(states.values()), axis=0)
    return tuple(best[: int(np.flatnonzero(best >= 0)[-1]) + 1].tolist())


def factor_of_phases(phases: Sequence[int], rows_per_user: int, user_separation: int, *, whole: bool) -> float:
    """Return by what factor the mu of one row must be below that of a user, rounded up.

    ``whole``: nothing else uses these rows. Otherwise m of a user's k rows may cost at most the share m / k of mu
    squared, and the model after them has the rest for the user's other rows.
    """
    squares = squares_of_phases(phases, rows_per_user, user_separation)
    if whole:
        return math.sqrt(squares[-1]) * _LEFT
    shares = (square * rows_per_user / rows for rows, square in enumerate(squares) if rows)
    return math.sqrt(max(shares)) * _LEFT


def factor_of_all(rows_per_user: int) -> float:
    """Return the factor that suffices wherever the rows of a user are: their number."""
    return rows_per_user * _LEFT


def taught_squares(phases: Sequence[int], mu: float, rows_per_user: int, user_separation: int) -> tuple[float, ...]:
    """Return the squared costs of 0, 1, ... rows of a user that teach, rounded up; one row costs ``mu``."""
    return tuple(
        square * mu * mu * UP if square else 0.0 for square in squares_of_phases(phases, rows_per_user, user_separation)
    )


class _Plan(Protocol):
    @property
    def rows_per_user(self) -> int | None: ...

    @property
    def user_separation(self) -> int: ...

    def user_factor(self, rows_per_user: int, user_separation: int) -> float: ...


def of_users(row: Guarantee, plan: _Plan, facts: Facts) -> Guarantee:
    """Return the guarantee of an encoding for one row, or for a user, as its plan and its input's promises have it.

    Raises
    ------
    InvalidParameter
        If the input allows users more rows than the budget is for, or rows nearer to each other.
    """
    most, least = plan.rows_per_user, plan.user_separation
    rows, apart = facts.rows_per_user, facts.user_separation
    users: dict[str, Any] = {}
    if rows is not None:
        if rows > MOST_ROWS:
            raise InvalidParameter(
                f"user.max_rows must be at most {MOST_ROWS:,} where rows teach what the columns mean, found {rows:,}"
            )
        if most is not None and (rows > most or (apart < least and rows > 1)):
            raise InvalidParameter(
                f"rows_per_user and user_separation must be what the stream keeps or weaker: it keeps {rows} and "
                f"{apart}, found {most} and {least}"
            )
        users = {"user": facts.user, "users_fixed": facts.users_fixed}
        users["conditions"] = (*row.conditions, *facts.conditions)
    if most is None:
        if rows is None:
            return row
        most, least = rows, apart
    users |= {"rows_per_user": most, "user_separation": least}
    factor = plan.user_factor(most, least)
    users["user_factor"] = factor if factor < most else None
    if plan.rows_per_user is None:
        return replace(row, **users)
    users |= {"unit": "user", "parameter": row.parameter}
    if not math.isinf(row.parameter):
        users["parameter"] = times_up(row.parameter, factor)
    found = replace(row, **users)
    return found if rows is not None else replace(found, conditions=(*found.conditions, unchecked(found)))
