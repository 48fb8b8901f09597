"""Why a run does not fit into a ledger, in words: what it needs, what is spent or reserved, and what is left."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..guarantees import format_up, gdp_epsilon, sum_up
from ._groups import held_by, squares_against, squares_of
from ._remaining import format_down, left, root_up

if TYPE_CHECKING:
    from ._account import Account

__all__ = ["refusal"]


def refusal(
    account: Account,
    accounts: list[Account],
    *,
    limit: tuple[float, float, float],
    rest_of_delta: float,
    slack: float,
    remaining_pure: float,
) -> str:
    """Return why an account cannot be opened beside others, under a limit of epsilon, delta and mu."""
    (epsilon, delta, mu), held = limit, held_by(accounts)
    learner, guarantee = account.learner, account.guarantee
    committed = sum_up(squares_of(accounts))
    pures = sum_up([share.bound_pure for share in held])
    slacks = [share.slack for share in held]
    if sum_up(slacks) > slack:  # through included runs, which were not admitted here
        return (
            f"{learner} asks for more than is left, which is nothing: earlier runs that are proved at one delta "
            f"alone hold {format_up(sum_up(slacks))} of delta, and the ledger sets a slack of {slack:g} "
            "aside for such runs"
        )
    if sum_up([*slacks, guarantee.slack]) > slack:
        return (
            f"{learner} asks for a delta of {format_up(guarantee.slack)} of its own, as it is proved at that delta "
            f"alone; of the ledger's delta = {delta:g} its slack of {slack:g} is set aside for such runs "
            f"(Ledger(slack=)), of which {format_up(sum_up(slacks))} is spent or reserved by earlier runs"
        )
    rest = left(mu, sum_up(squares_against(accounts, account)))
    asks = f"mu = {guarantee.mu:.6g} (epsilon = {format_up(guarantee.epsilon(delta))} at delta = {delta:g})"
    at_rest = gdp_epsilon(rest, rest_of_delta) if rest_of_delta > 0.0 else 0.0
    what, why = f"mu = {format_down(rest)} (epsilon = {format_down(at_rest)})", ""
    if guarantee.kind in ("pure", "approximate"):
        asks = f"a pure epsilon of {format_up(guarantee.parameter)} (mu = {guarantee.bound.mu:.6g})"
        what = f"a pure epsilon of {format_down(remaining_pure)}"
        why = ", and the epsilons of runs that are all pure"
    if account.group != account.plan_id:
        why = ", but of runs on different rows of one stream only the most expensive"
    taken = f"mu = {root_up(committed):.6g} is"
    if 0.0 < pures < math.inf:
        taken = f"mu = {root_up(committed):.6g} (by pure epsilons of {format_up(pures)} in all) is"
    return (
        f"{learner} asks for {asks}; of the ledger's limit mu = {mu:.6g} (epsilon = {epsilon:g}, "
        f"delta = {delta:g}), {taken} spent or reserved by {len(accounts)} earlier runs, and {what} is left, because "
        f"the squares of mu add up{why}"
    )
