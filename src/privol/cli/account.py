"""``privol account``: the spending of each run, and the total."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import InvalidParameter, StateError
from .outputs import printing

if TYPE_CHECKING:
    from ..ledger import Account, Ledger, Share, Spent

__all__ = ["account", "describe_account"]

_LEDGER = "ledger.jsonl"
_NO_DELTA = 1e-6  # where no run has a delta


@click.command()
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@click.option(
    "--delta", type=float, help="Delta of the stated epsilon.  [default: the largest of the limits and the runs]"
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
def account(runs: tuple[str, ...], delta: float | None, as_json: bool) -> None:
    """Show how much privacy runs on the same rows have spent.

    RUN is the directory of a run, whose ledger.jsonl is read, or the journal of a ledger (Ledger(journal=...) in
    Python). All runs are composed as if they had the same rows. Runs that a journal states to be on different rows of
    one stream, such as a learnt encoding and its model, count once: the most expensive. A run in several journals
    counts once, by the larger figure. Open runs count with all that they reserved. Nothing is changed, and runs may go
    on meanwhile.

    In Python, a ledger with a limit can include what these runs spent, and refuses further runs beyond it:

    \b
        ledger = Ledger(epsilon=1, delta=1e-6, journal="budget.jsonl")
        ledger.include(Ledger.read("RUN/ledger.jsonl"))

    \b
    Examples:
        privol account RUN
        privol account monday tuesday budget.jsonl --delta 1e-8
    """
    from ..tables import show
    from .account_tables import account_report

    record = describe_account(runs, delta)
    with printing():
        if as_json:
            click.echo(json.dumps(record, allow_nan=False))
        else:
            show(account_report(record))


def describe_account(runs: Sequence[str], delta: float | None) -> dict[str, Any]:
    """Return the record of what runs spent, one by one and together.

    Raises
    ------
    InvalidParameter
        If ``delta`` is out of its range, or the runs have different adjacencies.
    StateError
        If a directory has no ledger, or a journal is damaged.
    OSError
        If a journal cannot be read.
    """
    from .._validate import number
    from ..ledger import IF_FIXED, compose, delta_of, describe, shares_of

    if delta is not None:
        delta = number(delta=delta, above=0.0, below=1.0)
    read = {path: _read(path) for path in dict.fromkeys(map(_journal, runs))}
    (first, one), *others = read.items()
    for path, ledger in others:
        if ledger.adjacency != one.adjacency:
            raise InvalidParameter(
                f"{first} has adjacency {one.adjacency!r} and {path} {ledger.adjacency!r}: guarantees for different "
                "relations do not compose; ask about the runs of one adjacency at a time"
            )
    deltas = [ledger.delta for ledger in read.values() if ledger.delta is not None]
    deltas += [known.guarantee.delta for ledger in read.values() for known in ledger.accounts]
    where = delta if delta is not None else max(deltas, default=_NO_DELTA)
    larger: dict[str, tuple[Account, Share]] = {}
    for ledger in read.values():
        for known in ledger.accounts:
            held = known, known.held()
            larger[known.plan_id] = max(larger.get(known.plan_id, held), held, key=_size)
    shares = shares_of(larger.values())
    together = compose(shares, adjacency=one.adjacency, delta=where)
    if delta is None and together.slack > 0.0 and math.isinf(together.epsilon()):
        where = delta_of(shares)  # the slacks of several runs together exceed each of their deltas
        together = compose(shares, adjacency=one.adjacency, delta=where)
    fixed = _if_fixed(together) if together.private else None
    return {
        "format": "privol.account",
        "version": 1,
        "delta": where,
        "adjacency": one.adjacency,
        "journals": [_describe_journal(path, ledger, where) for path, ledger in read.items()],
        "together": {
            "runs": len(larger),
            **_figures(together),
            "private": together.private,
            "sentence": describe(shares, adjacency=one.adjacency, delta=where, if_fixed=False),
            "if_fixed": None if fixed is None else {"epsilon": fixed, "condition": IF_FIXED},
        },
    }


def _size(held: tuple[Account, Share]) -> tuple[float, int, bool]:
    """A key that distinguishes two copies of a run; an old copy may not know its rows."""
    known, share = held
    return share.mu_squared, share.releases, known.group != known.plan_id


def _journal(run: str) -> Path:
    path = Path(run)
    if not path.is_dir():
        return path
    found = path / _LEDGER
    if not found.exists():
        raise StateError(
            f"{run}: no ledger is here ({_LEDGER}); a learner that was given a ledger is in that one's journal"
        )
    return found


def _read(path: Path) -> Ledger:
    from ..ledger import Ledger

    return Ledger.read(path)


def _if_fixed(together: Spent) -> float | None:
    """The tight figure, if it says more and can be computed here."""
    from ..guarantees import format_up

    try:
        found = together.epsilon_if_fixed()
    except StateError:  # dp-accounting is an extra
        return None
    return found if format_up(found) != format_up(together.epsilon()) else None


def _figures(spent: Spent) -> dict[str, Any]:
    from ..ledger import as_json

    figures = {
        "epsilon": spent.epsilon(),
        "mu": spent.mu,
        "rho": spent.rho,
        "pure_epsilon": spent.pure_epsilon,
        "slack": spent.slack,
        "collision": spent.collision,
    }
    return {name: as_json(figure) for name, figure in figures.items()}


def _describe_journal(path: Path, ledger: Ledger, delta: float) -> dict[str, Any]:
    from ..ledger import compose, groups_of, held_by

    together = compose(held_by(ledger.accounts), adjacency=ledger.adjacency, delta=delta)
    groups = groups_of(ledger.accounts)
    limit = None
    if ledger.mu is not None:
        limit = {"epsilon": ledger.epsilon, "delta": ledger.delta, "mu": ledger.mu, "slack": ledger.slack}
    return {
        "path": str(path),
        "limit": limit,
        "remaining": None
        if limit is None
        else {"mu": ledger.remaining, "pure_epsilon": ledger.remaining_pure, "slack": ledger.remaining_slack},
        "runs": [_describe_run(known, delta) for known in ledger.accounts],
        "groups": [_describe_group(parts, delta) for parts in groups if sum(map(len, parts)) > 1],
        "together": _figures(together),
    }


def _spent_and_reserved(known: Account) -> tuple[Share, Share]:
    entry, held = known.entry(), known.held()
    spent = held._replace(releases=entry.releases, mu_squared=entry.mu_squared)
    return spent, held._replace(mu_squared=known.reserved_mu_squared)


def _describe_group(parts: list[list[Account]], delta: float) -> dict[str, Any]:
    """The joint spending and reservation of runs on different rows of a stream; runs of one part share rows."""
    from ..ledger import compose, shares_of

    known = [account for part in parts for account in part]
    spent, reserved = zip(*map(_spent_and_reserved, known), strict=True)
    adjacency = known[0].guarantee.adjacency
    return {
        "plan_id": known[0].group,
        "unit": known[0].guarantee.unit,
        "parts": [[account.plan_id for account in part] for part in parts],
        "spent": _figures(compose(shares_of(zip(known, spent, strict=True)), adjacency=adjacency, delta=delta)),
        "reserved": _figures(compose(shares_of(zip(known, reserved, strict=True)), adjacency=adjacency, delta=delta)),
    }


def _describe_run(known: Account, delta: float) -> dict[str, Any]:
    from ..ledger import as_json, compose

    guarantee, entry = known.guarantee, known.entry()
    spent, reserved = _spent_and_reserved(known)
    return {
        "plan_id": entry.plan_id,
        "learner": entry.learner,
        "first_row": entry.first_row,
        "rows": entry.rows,
        "releases": entry.releases,
        "open": entry.open,
        "private": entry.private,
        "kind": guarantee.kind,
        "parameter": as_json(guarantee.parameter),
        "delta": guarantee.delta,
        "spent": _figures(compose([spent], adjacency=guarantee.adjacency, delta=delta)),
        "reserved": _figures(compose([reserved], adjacency=guarantee.adjacency, delta=delta)),
    }
