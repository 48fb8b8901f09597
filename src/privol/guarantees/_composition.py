"""The sentence about what several runs on the same rows guarantee together."""

from __future__ import annotations

import math
from collections import Counter

from ._approximate import Bound, left_of_delta
from ._arithmetic import sum_up
from ._phrases import format_up

__all__ = ["describe_composition"]

#: The most runs, or groups of equal runs, that such a sentence names.
_LISTED = 20


def describe_composition(
    bounds: list[Bound],
    names: list[str],
    *,
    together: Bound,
    for_users: Bound | None,
    for_rows: Bound | None = None,
    grouped: bool = True,
    users: list[str | None],
    delta: float,
    adjacency: str,
    private: bool,
) -> str:
    """Say in one sentence what several runs on the same rows guarantee together, every figure rounded up.

    Parameters
    ----------
    bounds, names : list
        Of each run: what it guarantees, and what it is called.
    together : Bound
        The composition: the root of the sum of squared mu, the sum of the epsilons, the sum of the slacks.
    for_users : Bound or None
        The composition when all rows of one user change; None where that is unknown.
    for_rows : Bound or None
        Where the unit of every run is a user, known by the same column: the composition when one row changes.
        ``together`` is then about all rows of a user.
    grouped : bool
        Whether group privacy was used for the users of one of them.
    users : list of str or None
        Of each run: the column that tells its users apart. Where they differ nothing is said of users.
    delta : float
        Where epsilon is stated; of users what is left of it is added to their slack.
    adjacency : {"replace", "zero_out"}
    private : bool
        False if the noise of one of them came from a known seed.
    """
    if not bounds:
        return "Nothing was released and nothing is reserved."
    counts = Counter(f"{name}: {_part(bound)}" for name, bound in zip(names, bounds, strict=True))
    listed = [part if count == 1 else f"{count} of {part}" for part, count in counts.items()]
    more = len(bounds) - sum(list(counts.values())[:_LISTED])
    parts = ", ".join(listed[:_LISTED]) + (f", and {more} more" if more else "")
    runs = "1 run" if len(bounds) == 1 else f"{len(bounds)} runs together"
    every = "the run" if len(bounds) == 1 else f"all {len(bounds)} runs"
    if math.isinf(together.mu):
        return f"NO PRIVACY: of {runs} (mu by run: {parts}) at least one has no noise, and nothing is guaranteed."
    several = "several rows of one person are not protected as one"
    if for_users is not None and len(set(users)) > 1:
        several += " (the runs tell users apart by different columns)"
    elif for_users is not None:
        several = _for_users(for_users, users[0], left_of_delta(delta, together.slack), grouped=grouped)
    what = "one row"
    if for_rows is not None:
        what = f"all rows of {_whose(users[0])}, as many and as far apart as each run says"
        figures_of_row, _ = _pair(for_rows, delta)
        several = f"one row alone: {format_up(for_rows.mu)}-GDP, {figures_of_row}"
    figures, link = _pair(together, delta)
    if together.collision > 0.0:
        figures += (
            f" (a delta of {format_up(together.collision)} of it is that two users may have one keyed hash; mu holds "
            "beside it)"
        )
    add = "squares add up"
    if not math.isinf(together.pure):
        add += ", and so do pure epsilons"
    if together.slack > 0.0:
        add += ", and so do slacks, the deltas of runs that are proved at one delta alone"
        link = (
            f"of which a delta of {format_up(together.slack)} is slack (with a probability of up to that much nothing "
            f"is promised), {'and beside it' if link == 'and' else 'all else from'}"
        )
    body = (
        f"Differential privacy with {figures}, {link} {format_up(together.mu)}-GDP, for {what} "
        f'(adjacency "{adjacency}") that may have been in {every} (mu by run: {parts}; {add}), what was '
        f"released and what open runs have reserved, under the conditions of each; {several}."
    )
    if private:
        return body
    return f"NOT PRIVATE: noise of one run or more came from a known seed. What they would guarantee otherwise: {body}"


def _part(bound: Bound) -> str:
    text = format_up(bound.mu)
    if not math.isinf(bound.pure):
        text += f" by its pure epsilon of {format_up(bound.pure)}"
    return f"{text} beside a slack of {format_up(bound.slack)}" if bound.slack > 0.0 else text


def _whose(column: str | None) -> str:
    return "one user" if column is None else f"one user (column {column!r})"


def _for_users(bound: Bound, column: str | None, rest: float | None, *, grouped: bool) -> str:
    """The sentence for all rows of a user, at the delta that leaves as much beside their slack as for rows."""
    whom = _whose(column)
    delta = sum_up([bound.beside if bound.slack > 0.0 else 0.0, rest or 0.0])
    if delta >= 1.0 or math.isinf(bound.mu):
        return f"nothing is guaranteed for all rows of {whom}"
    figures, _ = _pair(bound, delta)
    beside = f" beside a slack of {format_up(bound.slack)}" if bound.slack > 0.0 else ""
    by = ", by group privacy" if grouped else ""
    return f"all rows of {whom} that are learnt: {format_up(bound.mu)}-GDP{beside}, {figures}{by}"


def _pair(bound: Bound, delta: float) -> tuple[str, str]:
    """Epsilon and delta (sums for pure runs and slacks, if these are smaller), and how mu accompanies them."""
    epsilon = bound.epsilon(delta)
    rest = left_of_delta(delta, bound.beside)
    if rest is not None and bound.pure <= epsilon:
        return f"(epsilon, delta) = ({format_up(bound.pure)}, {format_up(bound.beside)})", "and"
    return f"(epsilon, delta) = ({format_up(epsilon)}, {format_up(delta)})", "from"
