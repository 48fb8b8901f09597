"""The output of ``privol account``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ..guarantees import format_up
from ..ledger import format_down

__all__ = ["account_report"]


def account_report(record: Mapping[str, Any]) -> list[RenderableType]:
    """Return the report of an account: who spent what of the same rows, and what it comes to.

    Parameters
    ----------
    record : mapping
        What ``privol account --json`` prints.
    """
    parts: list[RenderableType] = []
    for journal in record["journals"]:
        parts += [Text(journal["path"], style="bold"), Text(_limit(journal))]
        parts += [_accounts(journal, record["delta"]), Text()]
    together, several = record["together"], len(record["journals"]) > 1
    whole = "Together" if several else "In all"
    rest = "; the same rows may be in all of them, so they are composed" if several else ""
    parts.append(Text(f"{whole}, {_runs(together['runs'])}{rest}", style="bold"))
    parts.append(Text(together["sentence"], style="" if together["private"] else "bold red"))
    if together["if_fixed"] is not None:
        fixed = f"({format_up(together['if_fixed']['epsilon'])}, {format_up(record['delta'])})"
        said = f"{together['if_fixed']['condition']}: (epsilon, delta) = {fixed}, by their privacy loss distributions."
        parts += [Text(), Text(said[0].upper() + said[1:])]
    return parts


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count:,} runs"


def _limit(journal: Mapping[str, Any]) -> str:
    limit, left = journal["limit"], journal["remaining"]
    if limit is None:
        return f"{_runs(len(journal['runs']))}, no limit"
    slack = aside = ""
    if limit["slack"] > 0.0:
        slack = f", of that delta a slack of {format_up(limit['slack'])} for runs that are proved at one delta alone"
        aside = f", of the slack {format_down(left['slack'])}"
    return (
        f"{_runs(len(journal['runs']))}; limit: epsilon {format_up(limit['epsilon'])} at delta "
        f"{format_up(limit['delta'])} (mu {format_down(limit['mu'])}{slack}); left for a new run: mu "
        f"{format_down(left['mu'])}, or a pure epsilon of {format_down(left['pure_epsilon'])}{aside}"
    )


def _accounts(journal: Mapping[str, Any], delta: float) -> RenderableType:
    table = Table(padding=(0, 1))
    for name in ("run", "rows", "releases", "promised", "reserved", "spent", ""):
        table.add_column(name, justify="right" if name in ("rows", "releases") else "left")
    runs = {run["plan_id"]: run for run in journal["runs"]}
    groups = {plan_id: group for group in journal["groups"] for part in group["parts"] for plan_id in part}
    shown: set[str] = set()
    for plan_id, run in runs.items():
        group = groups.get(plan_id)
        if group is None:
            _add_account(table, run)
        elif group["plan_id"] not in shown:  # one line for the budget, followed by its parts
            shown.add(group["plan_id"])
            parts = [[runs[plan_id] for plan_id in part] for part in group["parts"]]
            count = sum(map(len, parts))
            table.add_section()
            table.add_row(
                f"{count} runs,\ndifferent rows", *[""] * 3, *map(_epsilon, (group["reserved"], group["spent"])), ""
            )
            for one in (one for part in parts for one in part):
                _add_account(table, one, of_group=True)
            table.add_section()
    if len(journal["runs"]) > 1:
        table.add_section()
        table.add_row("all", "", "", "", _epsilon(journal["together"]), "", "")
    once = "; runs on different rows of one stream count once: the most expensive" if groups else ""
    if any(group["unit"] == "user" for group in journal["groups"]):
        once += ", or by the figure of the later one where that is for all rows of a user, in both"
    table.caption = f"epsilon at delta {format_up(delta)}; all: what closed runs spent and open ones reserved{once}"
    table.caption_justify = "left"
    return table


def _add_account(table: Table, run: Mapping[str, Any], *, of_group: bool = False) -> None:
    promised = {
        "gdp": "{}-GDP",
        "pure": "pure epsilon {}",
        "approximate": "epsilon {} at delta " + format_up(run["delta"]),
        "none": "nothing",
    }[run["kind"]]
    rows = f"{run['rows']:,}"
    if of_group and run["rows"]:
        rows = f"{run['first_row']:,} - {run['first_row'] + run['rows'] - 1:,}"
    indent = "  " if of_group else ""
    table.add_row(
        f"{indent}{run['learner']}\n{indent}{run['plan_id'][:12]}",
        rows,
        f"{run['releases']:,}",
        promised.format(_up(run["parameter"])),
        "" if of_group else _epsilon(run["reserved"]),
        "" if of_group else _epsilon(run["spent"]),
        ("open" if run["open"] else "closed") + ("" if run["private"] else "\nNOT PRIVATE"),
        style=None if run["private"] else "red",
    )


def _epsilon(figures: Mapping[str, Any]) -> str:
    slack = figures["slack"]
    return f"epsilon {_up(figures['epsilon'])}\n" + (f"slack {_up(slack)}" if slack else f"mu {_up(figures['mu'])}")


def _up(figure: float | str) -> str:
    return "infinity" if isinstance(figure, str) else format_up(figure)
