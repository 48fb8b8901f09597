"""The cost of all rows of a user, as a multiple of the cost of one row.

A budget for a user is met by multiplying the noise that one row needs by a factor (``docs/proofs/participation.md``):
for running sums the norm of the worst columns together, for noise on single steps the root of the number of rows, for a
single release the number of rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from .._rounding import UP
from .._validate import integer
from ..errors import InvalidParameter
from ..factorizations import (
    MAX_STEPS,
    MOST_TOGETHER,
    Factorization,
    Independent,
    best_of_parts,
    group_squares,
    rows_that_fit,
)
from ..guarantees import epsilon_within, gdp_mu, group_slack

__all__ = [
    "MOST_ROWS_PER_USER",
    "budget_of_rows",
    "check_user",
    "factor_of_reports",
    "factor_of_steps",
    "factor_of_sums",
    "less_than_all",
    "mu_with_taught",
    "users_of",
]

FloatArray = NDArray[np.float64]

MOST_ROWS_PER_USER = (1 << 31) - 1


def check_user(rows_per_user: int, user_separation: int) -> tuple[int, int]:
    """Return both as integers: at least 1, and at most 2**31 - 1 rows that are at most 2**48 rows apart."""
    return (
        integer(rows_per_user=rows_per_user, at_least=1, at_most=MOST_ROWS_PER_USER),
        integer(user_separation=user_separation, at_least=1, at_most=MAX_STEPS),
    )


def users_of(rows_per_user: int | None, user_separation: int) -> dict[str, int]:
    """Return both by name if the budget is for all rows of a user, and nothing if it is for one row."""
    if rows_per_user is None:
        if user_separation != 1:
            raise InvalidParameter(
                f"user_separation must be 1 where rows_per_user is not given, found {user_separation!r}: the budget is "
                "for one row"
            )
        return {}
    rows, apart = check_user(rows_per_user, user_separation)
    return {"rows_per_user": rows, "user_separation": apart}


def less_than_all(factor: float, rows_per_user: int) -> float | None:
    """Return the cost of all rows of a user as a multiple of one row's; None if it is their number."""
    return factor if factor < rows_per_user else None


def mu_with_taught(taught: Sequence[float], learnt: float, factor: Callable[[int], float], rows_per_user: int) -> float:
    """Return what all rows of a user cost of which some teach before the others are learnt, rounded up.

    Parameters
    ----------
    taught : sequence of float
        Squares of what 0, 1, ... rows cost where they teach; as many as may be there.
    learnt : float
        What all rows cost where they are learnt.
    factor : callable
        The cost of 1, 2, ... learnt rows, in multiples of the cost of one.
    rows_per_user : int

    Returns
    -------
    float
        At least ``learnt``, which it is where no row that teaches costs more than it would where it is learnt.

    Notes
    -----
    Both parts are mechanisms of their own, so the squares of what they cost add up, and the worst division of the rows
    is what counts: as of epochs.
    """
    if math.isinf(learnt):
        return learnt
    # the share that the encoding leaves unused exceeds these roundings (privol.encoding.users_taught)
    whole, most = factor(rows_per_user), learnt * learnt
    for teaching, square in enumerate(taught):
        if teaching:
            left = rows_per_user - teaching
            rest = factor(left) / whole * learnt if left else 0.0
            most = max(most, (square + rest * rest) * UP)
    return learnt if most == learnt * learnt else math.sqrt(most) * UP


def factor_of_sums(
    designs: Sequence[Factorization], *, leaf: int, renewed: bool, rows_per_user: int, user_separation: int
) -> float:
    """Return what all rows of a user cost in a run of prefix sums, in multiples of what one costs; rounded up.

    Parameters
    ----------
    designs : sequence of Factorization
        Of the epochs, each of which spends the same on one row.
    leaf : int
        Rows of a step.
    renewed : bool
        Whether epochs like the last one follow, as many as there are rows for. Else there is one.
    rows_per_user, user_separation : int
        A user has at most this many rows, any two at least this many rows apart.

    Returns
    -------
    float
        From 1 to ``rows_per_user``.

    Notes
    -----
    The rows of a user may be in several epochs, whose noise is independent: their squares add up, and the worst
    division of the rows is what counts. That rows of two epochs are apart too is left out, which is never too little.
    """
    rows, separation = check_user(rows_per_user, user_separation)
    if rows == 1:
        return 1.0
    groups, rest = divmod(rows, MOST_TOGETHER)
    if groups and (groups > 1 or rest):  # for rows that move together, norms at most add up
        one, more = (
            factor_of_sums(designs, leaf=leaf, renewed=renewed, rows_per_user=n, user_separation=separation)
            for n in (MOST_TOGETHER, max(rest, 1))
        )
        return min(float(rows), (groups * one + (more if rest else 0.0)) * UP)
    known = [_relative(design, rows, separation, leaf) for design in designs]
    if not renewed:
        return min(float(rows), math.sqrt(known[0][-1]) * UP)
    best = known[-1]
    epochs = 1
    while epochs < rows:  # the last one, repeated any number of times
        best, epochs = best_of_parts(best, best, rows), 2 * epochs
    for one_epoch in known[:-1]:
        best = best_of_parts(best, one_epoch, rows)
    return min(float(rows), math.sqrt(best[-1]) * UP)


def _relative(design: Factorization, rows: int, separation: int, leaf: int) -> FloatArray:
    """Squared shifts by 0, 1, ... rows, in units of the charge for one row."""
    squares = group_squares(design, rows, separation=separation, leaf=leaf) * (UP / design.column_norm**2)
    squares[1] = 1.0
    return np.maximum.accumulate(squares)


def factor_of_steps(*, batch: int, rows_per_user: int, user_separation: int, horizon: int | None = None) -> float:
    """Return the same factor where each step of ``batch`` rows has noise of its own: m rows in one step count ``m**2``.

    With one row a step: the root of their number. With a batch, the worst case has as many of the user's rows in each
    step as fit at that distance, in consecutive steps. ``horizon``: rows of the run; None: any number.
    """
    rows, separation = check_user(rows_per_user, user_separation)
    if horizon is not None:
        rows = min(rows, rows_that_fit(horizon, separation))
    most = -(-batch // separation)
    full, rest = divmod(rows, most)
    square = full * most**2 + rest**2
    root = math.isqrt(square)
    found = float(root) if root * root == square else min(float(rows), math.sqrt(square) * UP)
    if horizon is not None and separation < batch and batch % separation and rows <= MOST_TOGETHER:
        # adjacent steps cannot all have that many, and in a short run they are adjacent
        squares = group_squares(Independent(-(-horizon // batch)), rows, separation=separation, leaf=batch)
        found = min(found, math.sqrt(squares[-1]) * UP)
    return found


def factor_of_reports(*, pure: bool, rows_per_user: int, user_separation: int) -> float:
    """Return the factor for reports of single rows: the root of their number, or their number for pure ones."""
    rows, separation = check_user(rows_per_user, user_separation)
    return float(rows) if pure else factor_of_steps(batch=1, rows_per_user=rows, user_separation=separation)


def budget_of_rows(epsilon: float, delta: float, rows_per_user: int, *, curve: bool) -> tuple[float, float]:
    """Return epsilon and delta for one row with which all rows of a user, by group privacy, are within those given.

    Parameters
    ----------
    epsilon, delta : float
        ``delta = 0``: pure; ``epsilon`` may be infinite.
    rows_per_user : int
    curve : bool
        Whether a guarantee with a delta is one of Gaussian differential privacy, or is proved at that delta alone.
    """
    rows, _ = check_user(rows_per_user, 1)
    if rows == 1 or math.isinf(epsilon):
        return epsilon, delta
    if curve and delta > 0.0:
        found = epsilon_within(_part(gdp_mu(epsilon, delta), rows), delta)
        if found <= 0.0:
            raise InvalidParameter(
                f"delta must be smaller for a budget of {rows} rows of a user, found {delta:g}: it allows as much of "
                "one row by itself"
            )
        return found, delta
    row = _part(epsilon, rows)
    slack = delta * math.expm1(row) / math.expm1(epsilon) / UP**2 if epsilon < 700.0 else 0.0
    while slack > 0.0 and group_slack(row, slack, rows) > delta:
        slack = math.nextafter(slack, 0.0)
    if delta > 0.0 and slack == 0.0:
        raise InvalidParameter(f"epsilon must be smaller for a delta of {rows} rows of a user, found {epsilon:g}")
    return row, slack


def _part(x: float, parts: int) -> float:
    """The largest double such that ``parts`` of them add up to at most ``x``."""
    found = x / parts
    while Fraction(found) * parts > Fraction(x):
        found = math.nextafter(found, 0.0)
    return found
