"""Runs on different rows of one stream, which together cost what the dearest of them costs.

A row is in one of them only, and a later run takes what earlier ones released as public. So if the row that changes is
a later run's, all before has the same law, and if it is an earlier one's, all that follows is computed from its release
and rows that are the same: docs/proofs/phases.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from .._validate import integer
from ..errors import InvalidParameter
from ._entries import Share
from ._journal import Record

if TYPE_CHECKING:
    from ._account import Account

__all__ = ["facts_beside", "merged", "squares_of"]

#: Kinds whose parts of a stream are known to cost the largest of them.
_KINDS = ("gdp", "none")


def _rows(account: Account) -> tuple[int, int]:
    """First and last row that a run may learn, in its stream."""
    first = int(account.facts.get("first_row", 1))
    return first, first + account.guarantee.horizon - 1


def facts_beside(accounts: Iterable[Account], account: Account, beside: str, first_row: int) -> Record:
    """Return what the journal keeps of a run on other rows than those of an account of the same ledger.

    Raises
    ------
    InvalidParameter
        If there is no such account, a run is of another kind, or the rows of the group are not apart.
    """
    first = integer(first_row=first_row, at_least=1)
    known = {other.plan_id: other for other in accounts}
    if beside not in known:
        raise InvalidParameter(
            f"beside must be an account of this ledger, found {beside!r}: runs of two ledgers add up"
        )
    group = known[beside].group
    others = [other for other in known.values() if other.group == group]
    for other in (*others, account):
        if other.guarantee.kind not in _KINDS:
            raise InvalidParameter(
                f"beside is for runs of kind 'gdp': {other.learner} is of kind {other.guarantee.kind!r}, and adds up"
            )
    last = first + account.guarantee.horizon - 1
    for other in others:
        low, high = _rows(other)
        if first <= high and low <= last:
            raise InvalidParameter(
                f"first_row must be beyond the rows of {other.learner}, {low:,} to {high:,}, found {first:,}"
            )
    return {"beside": group, "first_row": first}


def merged(held: Iterable[tuple[str, Share]]) -> list[Share]:
    """Return one share for each group of runs: the largest, with what must be said of all of them."""
    groups: dict[str, list[Share]] = {}
    for group, share in held:
        groups.setdefault(group, []).append(share)
    return [shares[0] if len(shares) == 1 else _largest(shares) for shares in groups.values()]


def _largest(shares: list[Share]) -> Share:
    largest = max(shares, key=lambda share: share.mu_squared)
    paying = [share for share in shares if share.mu_squared > 0.0 or share.releases > 0]
    caps = [share.guarantee.rows_per_user for share in paying]
    cap = None if None in caps or not caps else max(c for c in caps if c is not None)
    users = {share.guarantee.user for share in paying}
    guarantee = replace(
        largest.guarantee,
        private=all(share.guarantee.private for share in paying),
        rows_per_user=cap,
        user=None if cap is None or len(users) > 1 else largest.guarantee.user,
    )
    return largest._replace(
        learner=" and ".join(dict.fromkeys(share.learner for share in paying)) or largest.learner,
        guarantee=guarantee,
        releases=sum(share.releases for share in shares),
    )


def squares_of(accounts: Iterable[Account]) -> list[float]:
    """Return the square of the mu that each group holds, of all but slack."""
    found: dict[str, float] = {}
    for account in accounts:
        found[account.group] = max(found.get(account.group, 0.0), account.held_square())
    return list(found.values())
