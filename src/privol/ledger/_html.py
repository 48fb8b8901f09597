"""Ledgers in notebooks: what runs have spent, as short HTML."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

from ..guarantees import format_up

if TYPE_CHECKING:
    from ._ledger import Ledger

__all__ = ["ledger_html"]

_SHOWN = 20  # the last of the runs
_HEAD = ("run", "rows", "releases", "spent (mu)", "")


def ledger_html(ledger: Ledger) -> str:
    """Return a ledger as HTML without script and style: its limit, its last runs, and the sentence to unfold.

    Parameters
    ----------
    ledger : Ledger

    Returns
    -------
    str
        All text in it is escaped. Public numbers alone, as in :meth:`Ledger.to_records`.

    Raises
    ------
    StateError
        If the counters of a run are not valid.
    """
    entries, limit = ledger.entries(), "no limit"
    if ledger.epsilon is not None and ledger.delta is not None:
        limit = f"limit epsilon {ledger.epsilon:g} at delta {ledger.delta:g}"
    about = f"{len(entries)} run(s), {limit}, adjacency {ledger.adjacency}"
    head = f"<p><strong>Ledger:</strong> {escape(about)}</p>"
    if not entries:
        return head
    rows = []
    for entry in entries[-_SHOWN:]:
        mu = math.sqrt(entry.mu_squared)
        spent = "no GDP" if math.isinf(mu) else format_up(mu)
        state = ("open" if entry.open else "closed") + ("" if entry.private else ", NOT PRIVATE")
        cells = (entry.learner, f"{entry.rows:,}", f"{entry.releases:,}", spent, state)
        rows.append(_row("td", cells))
    if len(entries) > _SHOWN:
        rows.insert(0, _row("td", (f"{len(entries) - _SHOWN:,} earlier", "", "", "", "")))
    return (
        f"{head}<table><thead>{_row('th', _HEAD)}</thead><tbody>{''.join(rows)}</tbody></table>"
        f"<details><summary>What all of them guarantee together</summary><p>{escape(ledger.sentence())}</p></details>"
    )


def _row(kind: str, cells: tuple[str, ...]) -> str:
    return "<tr>" + "".join(f"<{kind}>{escape(cell)}</{kind}>" for cell in cells) + "</tr>"
