"""Reports of refuted claims for a program's maintainers: all that they need to check one, as Markdown."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from ..errors import InvalidParameter
from ..guarantees import format_up
from ._canaries import CanaryAudit
from ._of_programs import ProgramAudit

__all__ = ["disclosure"]

_NEIGHBOURS = {
    "replace": "one row is another one",
    "add_remove": "one of them has a row more",
    "zero_out": "one row is zeros in one of them",
}


def disclosure(
    found: ProgramAudit | CanaryAudit, *, source: str = "", versions: Mapping[str, str] | None = None
) -> str:
    """Return a report of a refuted claim for the program's maintainers, to be sent in private first.

    Parameters
    ----------
    found : ProgramAudit or CanaryAudit
        An audit that refutes its claim.
    source : str, optional
        Where the claim is stated: a page, a docstring, an object that returns it.
    versions : mapping of str to str, optional
        Of everything that took part, by name.

    Returns
    -------
    str
        Markdown: the claim, what contradicts it and how certain that is, both tables in full, how to repeat it, and
        what it does not say.

    Raises
    ------
    InvalidParameter
        If the claim is not refuted: there is nothing to report.

    Examples
    --------
    >>> from scipy.stats import laplace
    >>> from privol.audit import Domain, audit_program, disclosure
    >>> def total(rows): ...
    >>> total.distribution = lambda rows: laplace(rows.sum(), 1.0)
    >>> found = audit_program(total, domain=Domain([-1.0], [1.0]), epsilon=1.0, random_state=1)
    >>> print(disclosure(found, source="its docstring").splitlines()[0])
    # total: a privacy claim that does not hold
    """
    if not isinstance(found, (ProgramAudit, CanaryAudit)):
        raise InvalidParameter(f"found must be an audit of a program, found {type(found).__name__}")
    if not found.refuted:
        raise InvalidParameter("found must be an audit that refutes its claim: there is nothing to report")
    mu = None if isinstance(found, CanaryAudit) else found.mu
    if mu is not None:
        claimed = f"{format_up(mu)}-GDP (Gaussian differential privacy)"
    else:
        claimed = f"(epsilon, delta) = ({format_up(found.epsilon)}, {format_up(found.delta)})"
    parts = [
        f"# {found.program}: a privacy claim that does not hold",
        "Please treat this as the report of a vulnerability: it is meant for the maintainers alone.",
        "## The claim",
        f"{claimed}, for any two tables of which {_NEIGHBOURS[found.adjacency]}.",
        *([f"It is stated here: {source}."] if source else []),
        *(["Versions: " + ", ".join(f"{name} {version}" for name, version in versions.items()) + "."]
          if versions else []),
        "## What contradicts it",
        *(_by_guesses(found) if isinstance(found, CanaryAudit) else _by_tables(found)),
        "## What this does not say",
        "Where the cause is: in the proof, in how noise is scaled, in code, or in how the claim is put into words. "
        "Nor whether the claim holds for other parameters or other tables.",
    ]  # fmt: skip
    return "\n\n".join(parts) + "\n"


def _by_guesses(found: CanaryAudit) -> list[str]:
    return [
        f"One run on a table in which each of {found.canaries:,} rows was or was not, by a fair coin of its own. What "
        f"was released then told of {found.correct:,} of {found.guesses:,} guesses rightly whether the row was in. If "
        f"the claim holds, that many are right with a probability of at most {max(found.p_value, 1e-300):.2g} "
        "(Steinke, Nasr and Jagielski 2023, Theorem 5.2, for each of four numbers of guesses).",
        f"With confidence {found.confidence:.10g}, epsilon is at least {_down(found.epsilon_lower)} at delta = "
        f"{format_up(found.delta)}.",
        "## How to repeat it",
        "Choose by coins which rows are in, run the program once, and guess that the rows are in whose inner product "
        "with what is released is largest, and out where it is smallest. `privol.audit.audit_canaries` does that.",
    ]


def _by_tables(found: ProgramAudit) -> list[str]:
    assert found.pair is not None
    tables = [
        f"{name} table, of shape {table.shape}:\n\n```json\n{json.dumps(table.tolist())}\n```"
        for name, table in (("First", found.pair.first), ("Second", found.pair.second))
    ]
    how = [
        f"The tables differ in row {found.pair.at}. `privol.audit.audit_program` repeats the audit on them with "
        "`pair=(first, second)`."
    ]
    if found.exact is not None:
        return [
            "The distributions that the program states for what it releases on the two tables below: at epsilon = "
            f"{format_up(found.epsilon)} they need delta = {found.exact:.6g}, where {format_up(found.delta)} is "
            "claimed. This is computed, not sampled.",
            "## How to repeat it", *tables, *how,
        ]  # fmt: skip
    likelier, other, runs = found.counts
    parts = [
        f"Consider the event that {found.event}. In the last stage of the audit, whose event and tables were chosen "
        f"before it began, it happened in {likelier:,} of {runs:,} runs on the {found.likelier} table below, and in "
        f"{other:,} of {runs:,} on the other.",
        f"The evidence of all stages is 10^{found.log_evidence / math.log(10.0):.1f}. If the claim holds, it ever "
        f"reaches 10^{-math.log10(found.error):.3g} with a probability of at most {found.error:g}, however many "
        "tables and events are tried (Ville's inequality). That assumes independent runs: noise that is drawn anew "
        "for each.",
    ]
    if found.mu_refuted:
        parts.append(f"The same evidence refutes {_down(found.mu_refuted)}-GDP.")
    elif found.epsilon_refuted > found.epsilon:
        parts.append(
            f"The same evidence refutes epsilon = {_down(found.epsilon_refuted)} at delta = {format_up(found.delta)}."
        )
    if "last bit" in found.event:
        parts.append(
            "The event is about the last bits of a number: it concerns the program as it runs in floating point. The "
            "mechanism on real numbers may well satisfy the claim."
        )
    repeat = (
        f"Run the program {max(10_000, runs):,} times on each table, and count how often {found.event}. Value 1 is the "
        "first number that a run releases."
    )
    return [*parts, "## How to repeat it", repeat, *tables, *how]


def _down(x: float) -> str:
    return f"{math.floor(x * 1e4) / 1e4:g}"
