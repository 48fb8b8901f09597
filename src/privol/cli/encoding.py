"""The encoding of a table without a schema: learnt from its first rows, under the run's budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from ..readers.formats import by_name
from ..readers.source_urls import is_live, is_source

__all__ = [
    "encoder_for",
    "is_learnt",
    "learns_encoding",
    "short_of_rows",
    "spent_note",
    "unlabelled",
    "what_taught",
]

_STDIN = "-"
#: Options that describe the rows: with one of them no encoding is learnt, unless it is requested.
_DECLARING = ("schema", "ranges", "n_features", "zero_based", "x_bound")


def is_learnt(inputs: Mapping[str, Any] | None) -> bool:
    """Whether a schema that earlier rows taught encodes the rows of a kept run."""
    schema = (inputs or {}).get("schema")
    return schema is not None and schema.get("learnt") is not None and "first_row" in (inputs or {})


def learns_encoding(file: str | None, asked: bool | None, given: Mapping[str, Any]) -> bool:
    """Whether the first rows of a file are to teach the encoding of the others.

    Parameters
    ----------
    file : str or None
    asked : bool or None
        ``--learn-schema`` or ``--no-learn-schema``; None: neither.
    given : mapping
        Options by their names; None for those that are not given.
    """
    if asked is False:
        return False
    if asked:
        if given.get("ranges") is not None:
            raise click.UsageError("--learn-schema and --ranges exclude each other: a --schema may state some columns")
        return True
    # a pipe or a broker may be live, and its user would wait for the rows that teach
    if file == _STDIN or is_live(file) or any(given.get(name) is not None for name in _DECLARING):
        return False
    return file is None or is_source(file) or _has_columns(file, given.get("format"))


def _has_columns(file: str, format: str | None) -> bool:
    from ..readers.formats import FORMATS
    from ..streams import format_of

    if format is not None:
        return FORMATS[format].columns
    known = by_name(file)
    if known is not None:
        return known.columns
    return format_of(file).columns


def encoder_for(
    made: Any,
    *,
    declared: str | None,
    drop: str | None,
    crosses: Sequence[tuple[str, str]],
    horizon: int | None,
    ledger: Any,
    regression: bool | None,
    mu: float | None,
    shares: bool,
    sketch: int,
) -> Any:
    """Return what learns the encoding for a learner: with its budget, or from all rows with ``mu`` of its own.

    ``declared`` is the schema of columns of which nothing is to be learnt; ``shares``: where the first rows would be
    too few, all may teach for a share of the learner's budget.

    Raises
    ------
    InvalidParameter
        If the learner's guarantee is none that the encoding can be put beside.
    """
    from ..auto import defaults

    return defaults.encoder_for(
        made,
        horizon=horizon,
        ledger=ledger,
        regression=regression,
        mu=mu,
        reuse_rows=None if shares else False,
        declared=declared,
        drop=() if drop is None else [name.strip() for name in drop.split(",")],
        crosses=crosses,
        sketch=sketch,
    )


def what_taught(encoder: Any) -> dict[str, Any]:
    """Return the entry for a learnt encoding in a run's record. Public."""
    from ..encoding import encoding_record
    from ..encoding.crosses import cross_name

    plan = encoder.plan_
    return {
        "rows": plan.rows,
        "reused": encoder.reused_,
        "phases": dict(plan.phases),
        "visible_share": plan.visible_share,
        "visible_label_share": plan.visible_label_share,
        "mu": plan.mu if encoder.guarantee_.kind == "gdp" else "inf",
        "columns": len(encoder.schema_.columns) - len(encoder.dropped_),
        "frequent_features": None if encoder.schema_.rows is None else len(encoder.schema_.rows.kept),
        "sketch": None if encoder.schema_.rows is None else encoder.schema_.rows.sketch,
        "labelled": encoder.labelled_,
        "dropped": dict(encoder.dropped_),
        "crosses": [cross_name(pair) for pair in encoder.schema_.crosses],
        "uncrossed": dict(encoder.uncrossed_),
        "sentence": encoder.guarantee_.sentence(),
        "mechanism": encoding_record(encoder),
    }


def short_of_rows(taught: Mapping[str, Any]) -> str | None:
    """Say where few rows taught an encoding, by :func:`what_taught`; None if there were enough."""
    from ..encoding.outlook import too_short

    if taught["frequent_features"] is not None:
        return None
    return too_short(taught["rows"], taught["visible_share"], taught["reused"])


#: If fewer of the rows have learnt labels, there are so many null rows that the run should say so.
_MOST_LABELLED = 0.8


def unlabelled(taught: Mapping[str, Any]) -> str | None:
    """Say where many rows have none of the learnt labels, by :func:`what_taught`; None where there are few.

    Of released counts: the figure is public.
    """
    share = taught["labelled"]
    if share is None or share >= _MOST_LABELLED:
        return None
    return (
        f"only about {share:.0%} of the rows after those that showed the labels have one of them, and rows with "
        "another are learnt as null rows: shuffle FILE if it is sorted by something, declare the labels by --classes, "
        "or give more rows or a larger --epsilon"
    )


def spent_note(encoder: Any, what: str, journal: Path | None) -> str | None:
    """Say that the cost of an encoding stays spent, if nothing else says it; None if it cost nothing."""
    account = getattr(encoder, "account_", None)
    if account is None or not account.entry().mu_squared:
        return None
    kept = "" if journal is None else f": {journal} says so"
    return (
        f"no {what} was released, but what {encoder.plan_.rows:,} rows taught may have been seen, and the "
        f"budget counts as spent{kept}"
    )
