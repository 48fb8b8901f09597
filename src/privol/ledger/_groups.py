"""Runs on different rows of one stream, which together cost what their most expensive part costs.

Each row is in only one part, and what earlier runs released is public to a later one. So if the changed row is in a
later part, everything before has the same distribution; if it is in an earlier part, everything after is computed from
that part's release and unchanged rows: docs/proofs/phases.md.

This does not hold for users, whose rows may be in all parts. If the unit is a user, the figure of the later run is for
all rows of a user, including those in the first part, and covers both.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from .._validate import integer
from ..errors import InvalidParameter
from ..guarantees import Guarantee, sum_up
from ._entries import Share
from ._journal import Record

if TYPE_CHECKING:
    from ._account import Account

__all__ = ["KINDS", "PLACE", "facts_beside", "groups_of", "held_by", "shares_of", "squares_against", "squares_of"]

#: Kinds whose parts of a stream are known to cost the largest of them.
KINDS = ("gdp", "none")
#: The facts that record a run's place in the journal.
PLACE = ("beside", "first_row")

Parts = list[list["Account"]]


def groups_of(accounts: Iterable[Account]) -> list[Parts]:
    """Return the groups of runs in the order of their first, and of each its parts in the order of their rows.

    Runs of two parts share no row; those of one part may. A run is refused if its rows overlap another
    part, but two ledgers, each of which knows one of two such runs, may be included in a third.
    """
    found: dict[str, list[Account]] = {}
    for account in accounts:
        found.setdefault(account.group, []).append(account)
    groups: list[Parts] = []
    for members in found.values():
        if len(members) == 1:
            groups.append([members])
        elif any(account.guarantee.kind not in KINDS for account in members):  # no journal of privol contains this
            groups += [[[account]] for account in members]
        else:
            groups.append(_parts(members))
    return groups


def _parts(members: list[Account]) -> Parts:
    parts: Parts = []
    end = 0
    for account in sorted(members, key=lambda account: account.rows):
        first, last = account.rows
        if first > end:
            parts.append([])
        parts[-1].append(account)
        end = max(end, last)
    return parts


def facts_beside(
    accounts: Iterable[Account], learner: str, guarantee: Guarantee, beside: str | Account, first_row: int
) -> Record:
    """Return what the journal keeps of a run on other rows than those of an account of the same ledger.

    Raises
    ------
    InvalidParameter
        If there is no such account, a run is of another kind or of other users, or the rows of the group are not apart.
    """
    first = integer(first_row=first_row, at_least=1)
    known = {other.plan_id: other for other in accounts}
    named = known.get(beside if isinstance(beside, str) else getattr(beside, "plan_id", ""))
    if named is None:
        raise InvalidParameter(
            f"beside must be an account of this ledger, found {beside!r}: runs of two ledgers add up"
        )
    others = [other for other in known.values() if other.group == named.group]
    if any(other.guarantee.unit != guarantee.unit for other in others):
        raise InvalidParameter(
            f"beside is for runs of one unit: that of {learner} is a {guarantee.unit}, and it adds up with that of "
            f"{named.learner}"
        )
    if guarantee.unit == "user" and len(others) > 1:  # a user's rows may be in all of them
        raise InvalidParameter(
            f"beside is for one run whose unit is a user, which is that of {others[1].learner}: {learner} adds up"
        )
    for who, kind in (*((other.learner, other.guarantee.kind) for other in others), (learner, guarantee.kind)):
        if kind not in KINDS:
            raise InvalidParameter(f"beside is for runs of kind 'gdp': {who} is of kind {kind!r}, and adds up")
    last = first + guarantee.horizon - 1
    for other in others:
        low, high = other.rows
        if first <= high and low <= last and (first != low or other is named):
            raise InvalidParameter(
                f"first_row must be beyond the rows of {other.learner}, {low:,} to {high:,}, found {first:,}"
            )
    if first <= named.rows[1]:
        raise InvalidParameter(
            f"first_row must be beyond the rows of {named.learner}, which end at {named.rows[1]:,}, found {first:,}"
        )
    cap, apart = guarantee.rows_per_user, guarantee.user_separation
    if guarantee.unit == "user" and named.guarantee.user_separation != apart:
        raise InvalidParameter(
            f"user_separation must be the same for all parts of a stream: of {named.learner} "
            f"{named.guarantee.user_separation}, found {apart}"
        )
    for other in others:
        found = other.guarantee.rows_per_user
        if None not in (cap, found) and (cap, guarantee.user) != (found, other.guarantee.user):
            raise InvalidParameter(
                f"rows_per_user and user must be the same for all parts of a stream, whose rows they count: of "
                f"{other.learner} {found} by {other.guarantee.user!r}, found {cap} by {guarantee.user!r}"
            )
    return {"beside": named.group, "first_row": first}


def held_by(accounts: Iterable[Account]) -> list[Share]:
    """Return the shares that runs hold: reservations of open ones, spending of closed ones."""
    return shares_of((account, account.held()) for account in accounts)


def shares_of(held: Iterable[tuple[Account, Share]]) -> list[Share]:
    """Return what composes of the shares of runs: of each group those of its most expensive part alone.

    Of the other parts they have the names, the releases, and whatever must be said of all that was released.
    """
    shares = dict(held)
    composing: list[Share] = []
    for parts in groups_of(shares):
        found = [[shares[account] for account in part] for part in parts]
        if len(found) > 1 and _of_users(parts):
            composing += _covering(parts, shares)
            continue
        composing += found[0] if len(found) == 1 else _dearest(found)
    return composing


def _dearest(parts: list[list[Share]]) -> list[Share]:
    paying = [paid for part in parts if (paid := [s for s in part if s.mu_squared > 0.0 or s.releases > 0])]
    if len(paying) <= 1:
        return paying[0] if paying else parts[0][:1]
    dearest = max(paying, key=lambda part: sum_up([share.mu_squared for share in part]))
    rest = [share for part in paying if part is not dearest for share in part]
    everyone = [share for part in paying for share in part]
    caps = {(share.guarantee.rows_per_user, share.guarantee.user) for share in everyone}
    cap, user = caps.pop() if len(caps) == 1 else (None, None)
    private = all(share.guarantee.private for share in everyone)
    fixed, tables = _tables(everyone)
    delta = max(share.guarantee.delta for share in everyone)
    first, *more = [
        # a user's rows may be in several parts, at any distance: only their number is known to cover them
        share._replace(
            guarantee=replace(
                share.guarantee,
                private=private,
                delta=delta,
                rows_per_user=cap,
                user=user,
                user_separation=1,
                user_factor=None,
                users_fixed=fixed,
            )
        )
        for share in dearest
    ]
    # parts in order, the first run of the most expensive one in its place
    named = [share.learner for part in paying for share in (part if part is not dearest else part[:1])]
    names = list(dict.fromkeys(named))
    name = " or ".join(names) if len(names) > 1 else f"{len(named)} of {names[0]}"
    releases = first.releases + sum(share.releases for share in rest)
    return [first._replace(learner=f"{name} (no row in two of them)", releases=releases, tables=tables), *more]


def _tables(shares: list[Share]) -> tuple[bool, int]:
    """Whether all runs hold their users fixed, and how many tables of users may confuse two users."""
    hidden = sum(share.tables for share in shares if share.guarantee.collision > 0.0)
    return not hidden, max(hidden, 1)


def _of_users(parts: Parts) -> bool:
    return any(account.guarantee.unit == "user" for part in parts for account in part)


def _covering(parts: Parts, shares: dict[Account, Share]) -> list[Share]:
    """Return what composes of runs whose unit is a user: the later one's figure covers the first, or both add up."""
    first, *later = [account for part in parts for account in part]
    found = [shares[account] for account in (first, *later)]
    paying = [share for share in found if share.mu_squared > 0.0 or share.releases > 0]
    if len(later) != 1 or len(paying) < 2:
        return paying or found[:1]
    whole = max(later[0].reserved_mu_squared, found[0].mu_squared)  # whoever opened it may have forgotten the first
    one, both = found[1], sum_up([share.mu_squared for share in found])
    if both < whole:
        return found
    fixed, tables = _tables(found)
    return [
        one._replace(
            learner=f"{found[0].learner} and {one.learner} (of a user, the rows of both)",
            releases=found[0].releases + one.releases,
            mu_squared=whole,
            guarantee=replace(
                one.guarantee, private=all(share.guarantee.private for share in found), users_fixed=fixed
            ),
            tables=tables,
        )
    ]


def _squares_of_users(parts: Parts, held: list[float]) -> list[float]:
    """The same of squares alone, by :func:`_covering`; ``held`` in the order of the accounts."""
    later = [account for part in parts for account in part][1:]
    if len(later) != 1 or not all(held):
        return held
    return min(held, [max(later[0].reserved_mu_squared, held[0])], key=sum_up)


def squares_of(accounts: Iterable[Account]) -> list[float]:
    """Return the squares of mu (of all but slack) that add up: for each group those of its most expensive part."""
    known = list(accounts)
    shared = {account.group for account in known if account.group != account.plan_id}
    # a journal may have 10^5 runs, and most stand alone
    squares = [account.held_square() for account in known if account.group not in shared]
    for parts in groups_of(account for account in known if account.group in shared):
        found = [[account.held_square() for account in part] for part in parts]
        if len(found) > 1 and _of_users(parts):
            squares += _squares_of_users(parts, [square for part in found for square in part])
            continue
        squares += max(found, key=lambda part: sum_up([*part])) if len(found) > 1 else found[0]
    return squares


def squares_against(accounts: Iterable[Account], account: Account) -> list[float]:
    """Return the squares that add up to an account's own: of other groups, and of its own what shares rows with it."""
    squares: list[float] = []
    for parts in groups_of([*accounts, account]):
        own = next((part for part in parts if account in part), None)
        if own is None:
            squares += squares_of([other for part in parts for other in part])
        else:
            squares += [other.held_square() for other in own if other is not account]
    return squares
