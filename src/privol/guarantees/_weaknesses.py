"""What a reader should know about a guarantee before relying on its figures."""

from __future__ import annotations

import math

from ._phrases import format_up
from ._record import Guarantee

__all__ = ["DELTA_TOO_LARGE", "WEAK_EPSILON", "weaknesses"]

#: Budgets above these promise next to nothing; docs/guarantee.md, "Budgets that promise little", has the sources.
WEAK_EPSILON, WEAK_DELTA = 10.0, 1e-3

#: The condition of a guarantee whose delta is not below one over the number of rows.
DELTA_TOO_LARGE = (
    "delta is not below one over the number of rows, where publishing a random row in the clear would also meet it: "
    "choose a smaller one"
)


def weaknesses(guarantee: Guarantee, *, rows: int | None = None) -> list[str]:
    """Say, one sentence each, where the figures of a guarantee promise next to nothing, or not what a source claims.

    Parameters
    ----------
    guarantee : Guarantee
        One of kind "none" has no figures to be judged: its sentence says that nothing is guaranteed.
    rows : int, optional
        Number of rows that delta is judged by. Default: the horizon. For a run without one: the rows known of so far.

    Returns
    -------
    list of str
        On the claim of a published calibration; on delta, if it is not below one over the number of rows, or not below
        1e-3 (for users too, where theirs is another); on epsilon, for rows or else for users, if it is above 10. Empty
        where none of these holds.

    Notes
    -----
    Dwork and Roth 2014, section 2.3 (delta); Ponomareva et al. 2023 (epsilon). What is judged is the
    figure that is proved: of a published calibration, not the one that its source claims.
    """
    if guarantee.kind == "none":
        return []
    found = []
    if guarantee.claim is not None:
        found.append(f"the calibration is a published one, with the noise of its source.{guarantee._claim()[:-1]}")
    # the delta of pure differential privacy only covers shared hashes: it is judged by its epsilon
    pure = guarantee.kind == "pure"
    delta = guarantee.bound.beside if pure else guarantee.delta
    epsilon, users, user_delta = guarantee.epsilon(delta), guarantee.user_epsilon(delta), delta
    bound = guarantee.user_bound
    if (pure or guarantee.kind == "approximate") and bound is not None:
        # for users another point is proved, and nothing beyond it
        users, user_delta = bound.pure, bound.beside
    rows = guarantee.horizon if rows is None else rows
    if delta * rows >= 1.0:
        found.append(
            f"delta is not below one over the number of rows: with {format_up(delta)} and {rows:,} rows, "
            "publishing a random row in the clear would also meet it; choose a much smaller one"
        )
    elif delta >= WEAK_DELTA:
        found.append(
            f"delta is {format_up(delta)}: publishing each row in the clear with that probability would also meet it; "
            "choose a much smaller one"
        )
    if user_delta >= WEAK_DELTA > delta:
        found.append(
            f"delta for users is {format_up(user_delta)}: publishing all rows of each in the clear with that "
            "probability would also meet it; lower their number of rows, delta or epsilon"
        )
    whom, what = "", "a row as with another in its place"
    if guarantee.unit == "user":
        whom, what = " for users", "a user's rows as with others in their place"
    elif epsilon <= WEAK_EPSILON and users is not None and users > WEAK_EPSILON:
        whom, what, epsilon = " for users", "a user's rows as with others in their place", users
    if epsilon > WEAK_EPSILON:
        times = f"{math.exp(epsilon):,.0f}" if epsilon < 20.0 else f"e^{epsilon:.3g}"
        found.append(
            f"epsilon{whom} is {format_up(epsilon)}, above {WEAK_EPSILON:g}: what is released may be {times} times as "
            f"likely with {what}, which promises next to nothing (1 is a strong promise)"
        )
    return found
