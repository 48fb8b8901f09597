"""``privol verify``: guarantees of runs and of ledgers, recomputed by independent code."""

from __future__ import annotations

import json

import click

from .app import REFUTED, UNCHECKED
from .outputs import printing

__all__ = ["verify"]

_WORDS = {True: "holds", False: "DOES NOT HOLD", None: "not checked"}


@click.command()
@click.argument("runs", metavar="RUN...", nargs=-1)
@click.option(
    "--ledger", metavar="FILE", help="Check the runs against the journal of a ledger that counts all of them."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
def verify(runs: tuple[str, ...], ledger: str | None, as_json: bool) -> None:
    """Check the guarantee of RUNs again, from public records.

    From run.json and ledger.jsonl an independent program recomputes the sensitivity to one row and to all rows of a
    user, the noise that this needs, the cost of all mechanisms together, and the resulting epsilon. It consists of two
    files that import nothing from privol, work in exact and interval arithmetic, and can be read in an evening. RUN is
    the directory of privol run or of privol dola.

    Several runs are composed as if they had the same rows. With --ledger they are checked against that journal
    (Ledger(journal=...) in Python), whose accounts must be theirs: each with the noise and the rows that its run
    recorded, charged in full, and all together within the ledger's limit.

    It trusts the record on the noise that was drawn and on the clipping of gradients; privol audit tests the program
    itself. Parts without a proof are "not checked", and then the run does not pass.

    \b
    Exit codes: 0 all holds; 6 something does not; 7 something was not checked.

    \b
    Examples:
        privol verify RUN
        privol verify monday tuesday --ledger budget.jsonl
        privol verify RUN --json
    """
    from ..verifying import Unreadable, verdict
    from ..verifying import verify as check

    if not runs and ledger is None:
        raise click.UsageError("give the directory of a run, or --ledger FILE")
    try:
        findings = check(*runs, ledger=ledger)
    except Unreadable as error:
        raise OSError(str(error)) from error
    found = verdict(findings)
    with printing():
        if as_json:
            rows = [{"what": each.what, "holds": each.holds, "detail": each.detail} for each in findings]
            click.echo(json.dumps({"format": "privol.verdict", "version": 1, "verdict": found, "findings": rows}))
        else:
            for each in findings:
                click.echo(f"{_WORDS[each.holds]:13}  {each.what}: {each.detail}")
            whose = " and ".join(runs) + (f" in {ledger}" if ledger is not None and runs else "")
            click.echo(f"\nThe guarantee of {whose or ledger}: {found}.")
    if found != "holds":
        raise click.exceptions.Exit(REFUTED if found == "does not hold" else UNCHECKED)
