"""The part of a guarantee's sentence about users: for all rows of a user, and for one of their rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ._approximate import left_of_delta
from ._phrases import format_up

if TYPE_CHECKING:
    from ._record import Guarantee

__all__ = [
    "COLLISION",
    "about_row",
    "about_users",
    "change_of_users",
    "delta_of_noise",
    "most_rows",
    "unchecked",
    "whose",
]

#: If it is hidden whose row each row is: the largest probability that two users share a keyed hash of 128 bits, with as
#: many users as such streams may have, 2^28 (docs/proofs/participation.md, "Collisions").
COLLISION = 2.0**-72


def delta_of_noise(delta: float, rows_per_user: int | None) -> float:
    """Return the delta that noise is made for: of a budget for users what leaves room for two with one hash.

    Where there is no such room, ``delta`` itself: a run that may need it is refused.
    """
    return delta if rows_per_user is None else left_of_delta(delta, COLLISION) or delta


def _whose_rows(found: Guarantee, dropped: str = "") -> str:
    """The facts about users that neighbouring streams share."""
    if found.users_fixed:
        return f"which rows are whose{dropped} is held fixed and is not hidden."
    found_so = ""
    if found.collision > 0.0:
        found_so = (
            f", but for a probability of at most {format_up(found.collision)} that two users have one keyed hash, "
            "which each delta for a user includes; the figures without a delta hold beside it"
        )
    return f"whose rows they are may change with them, to somebody's who has no others: that is hidden too{found_so}."


def most_rows(found: Guarantee) -> str:
    """The most rows of one user that are learnt, and their least distance."""
    most = "at most 1 row" if found.rows_per_user == 1 else f"at most {found.rows_per_user} rows"
    return most if found.user_separation == 1 else f"{most}, any two of them {found.user_separation} rows apart or more"


def whose(found: Guarantee, *, most: bool = False) -> str:
    """One user, and the column that tells users apart; ``most``: with the number of rows."""
    told = [] if found.user is None else [f"column {found.user!r}"]
    if most:
        told.append(most_rows(found))
    return f"one user ({', '.join(told)})" if told else "one user"


def _figures(found: Guarantee, parameter: float, epsilon: float, slack: float) -> str:
    if found.kind == "pure":
        return f"(epsilon, delta) = ({format_up(parameter)}, {format_up(slack) if slack else 0})"
    if found.kind == "approximate":
        return f"(epsilon, delta) = ({format_up(parameter)}, {format_up(slack)})"
    return f"{format_up(parameter)}-GDP, (epsilon, delta) = ({format_up(epsilon)}, {format_up(found.delta)})"


def about_users(found: Guarantee, parameter: float | None) -> str:
    """The meaning of the figures for one row for all rows of a user; ``parameter`` is theirs."""
    epsilon, bound = found.user_epsilon(), found.user_bound
    if parameter is None or epsilon is None or bound is None:
        return "several rows of one person are not protected as one."
    if math.isinf(parameter) or bound.beside >= 1.0:
        return "nothing is guaranteed for several rows of one user either."
    change = "replacing what they hold" if found.adjacency == "replace" else "replacing them by null rows"
    by = "by group privacy" if found.user_factor is None else f"{format_up(found.user_factor)} times the mu of one row"
    are = "is" if found.rows_per_user == 1 else "are"
    apart = "" if found.user_separation == 1 else f", any two of them {found.user_separation} rows apart or more"
    most = "1 row" if found.rows_per_user == 1 else f"{found.rows_per_user} rows"
    return (
        f"of {whose(found)} at most {most} {are} learnt{apart}, and {change}, all of them together, is covered by "
        f"{_figures(found, parameter, epsilon, bound.beside)}, {by}; "
        f"{_whose_rows(found, ', and so which of them are dropped,')}"
    )


def about_row(found: Guarantee) -> str:
    """The meaning of the figures for all rows of a user for one row."""
    row = found.row
    if math.isinf(row.parameter):
        return f"{most_rows(found)}."
    figures = _figures(row, row.parameter, row.epsilon(), row.slack)
    return f"{most_rows(found)}; one row alone is covered by {figures}; {_whose_rows(found)}"


def change_of_users(found: Guarantee) -> str:
    """The permitted differences of a neighbouring stream."""
    if found.adjacency == "replace":
        return "replace all rows of one user, where they are, by any other admissible rows"
    return "replace all rows of one user by null rows, which contribute nothing"


def unchecked(found: Guarantee) -> str:
    """The condition on users' rows that nothing enforces."""
    most, apart = found.rows_per_user, found.user_separation
    rows = "1 row" if most == 1 else f"{most} rows"
    near = f", and any two of them are {apart} rows apart or more" if apart > 1 else ""
    return f"no user has more than {rows} in the run{near}: nobody checks it"
