"""Records as text for people: tables on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from .guarantees import format_up
from .planning import Plan, describe_remedy

__all__ = ["info_report", "plan_report", "run_report", "show"]

_WIDTH = 110


def show(parts: Iterable[RenderableType]) -> None:
    """Print the parts of a report, at the terminal's width up to 110 columns (110 where there is no terminal)."""
    console = Console(file=sys.stdout, highlight=False)
    console.width = min(console.width, _WIDTH) if console.is_terminal else _WIDTH
    for part in parts:
        console.print(part)


def _table(title: str | None = None) -> Table:
    table = Table(title=title, title_justify="left", box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    return table


def _infinite(value: Any) -> str:
    return "infinite" if value == "inf" else format_up(float(value))


def _budget(share: Mapping[str, Any], delta: float) -> str:
    return f"epsilon {_infinite(share['epsilon'])} at delta {format_up(delta)} (mu {_infinite(share['mu'])})"


def run_report(record: Mapping[str, Any]) -> list[RenderableType]:
    """Return the report of a run.

    Parameters
    ----------
    record : mapping
        What ``privol run --json`` prints.
    """
    private = record["private"]
    parts: list[RenderableType] = [
        Text("Guarantee", style="bold"),
        Text(record["sentence"], style="" if private else "bold red"),
        Text(),
    ]
    table = _table()
    classes = record["classes"]
    labels = "" if classes is None else f"; classes {classes[0]} / {classes[1]}"
    table.add_row("learner", f"{record['learner']}, {record['parameters']['loss']['name']} loss, on {record['source']}")
    table.add_row(
        "rows learnt",
        f"{record['rows']:,} of a horizon of {record['horizon']:,}; {record['features']:,} features{labels}",
    )
    evaluated = " (read, learnt and evaluated" if record["diagnostics"] else " (read and learnt"
    table.add_row("throughput", f"{record['rows_per_second']:,.0f} rows/s{evaluated} in {record['seconds']:.2f} s)")
    delta = record["budget"]["delta"]
    table.add_row("budget reserved", _budget(record["budget"]["reserved"], delta))
    table.add_row("budget spent", _budget(record["budget"]["spent"], delta))
    table.add_row("models released", _releases(record))
    if record["noise"] is not None:
        noise = record["noise"]
        table.add_row(
            "noise of the last",
            f"std {noise['std']:.4g} per coordinate, norm about {noise['noise_norm']:.4g}; "
            f"std {noise['score_std']:.3g} in the score of the longest row (scores reach {noise['largest_score']:.3g})",
        )
    parts.append(table)
    if record["diagnostics"] is not None:
        parts += [Text(), *_diagnostics(record["diagnostics"])]
    parts += [Text(), _files(record)]
    return parts


def _releases(record: Mapping[str, Any]) -> str:
    rows = record["release_rows"]
    shown = ", ".join(f"{row:,}" for row in rows)
    if record["releases"] == len(rows):
        return f"{record['releases']:,}, after row {shown}" if rows else "0"
    return f"{record['releases']:,}, the first after row {rows[0]:,}, the last after row {rows[-1]:,}"


def _files(record: Mapping[str, Any]) -> RenderableType:
    table = _table()
    table.add_row("written to", record["out"])
    for name, what in record["files"].items():
        table.add_row(f"  {name}", what)
    return table


def _diagnostics(found: Mapping[str, Any]) -> list[RenderableType]:
    word = "accuracy" if found["classification"] else "mean_absolute_error"
    shown = "accuracy" if found["classification"] else "MAE"
    table = Table(
        title=f"Diagnostics: {found['notice']}",
        title_style="bold red",
        title_justify="left",
        padding=(0, 1),
    )
    table.add_column("")
    for name in (
        "progressive\nloss",
        f"progressive\n{shown}",
        "last model\nloss",
        f"last model\n{shown}",
        "regret",
        "per row",
    ):
        table.add_column(name, justify="right")
    names = {
        "run": "this run",
        "noiseless": "no noise, same releases",
        "noiseless_every_row": "no noise, released every row",
    }
    for key, name in names.items():
        run = found[key]
        if run is not None:
            figures = [run["progressive"]["loss"], run["progressive"][word]]
            figures += [run["final_model"]["loss"], run["final_model"][word]]
            table.add_row(name, *(f"{x:.4f}" for x in figures), f"{run['regret']:,.1f}", f"{run['regret_per_row']:.4f}")
    best = found["best_fixed"]
    fixed = (f"{best['loss']:.4f}", f"{best[word]:.4f}")
    table.add_row("best fixed model in hindsight", *fixed, *fixed, "0", "0")
    if found["majority_accuracy"] is not None:
        share = f"{found['majority_accuracy']:.4f}"
        table.add_row("always the commoner class", "", share, "", share, "", "")
    notes = [
        "Progressive: each row is predicted with the model released by then, and only then learnt (before the first "
        "release with the starting point, which knows nothing). Last model: on the rows it was learnt from. Regret: "
        "sum of the progressive losses above those of the best fixed model, itself within "
        f"{best['loss_above_optimum_at_most']:.1e} per row of the optimum. "
        f"The noise costs {found['price_of_noise']:,.1f} of this run's regret.",
        f"Rows scaled to x_bound: {found['rows_scaled_to_x_bound']:,}; rows learnt as null: {found['null_rows']:,}.",
    ]
    return [table, *(Text(note) for note in notes)]


def plan_report(plan: Plan) -> list[RenderableType]:
    """Return the report of a plan: guarantee, noise by release, verdict, remedies."""
    table = Table(
        title=f"{plan.guarantee.releases:,} release(s) over {plan.horizon:,} rows, {plan.dim} coordinates",
        title_justify="left",
    )
    for name in ("after row", "sensitivity", "noise std", "noise norm", "noise in score", "largest score"):
        table.add_column(name, justify="right")
    for r in plan.rows:
        figures = (r.sensitivity, r.std, r.noise_norm, r.score_std, r.largest_score)
        table.add_row(f"{r.row:,}", *(f"{x:.4g}" for x in figures))
    parts: list[RenderableType] = [
        Text("Guarantee", style="bold"),
        Text(plan.guarantee.sentence()),
        Text(),
        table,
        Text(plan.verdict, style="bold"),
    ]
    if plan.remedies:
        parts.append(Text("Any one of these changes alone, made before the run:"))
        parts += [Text(f"  {describe_remedy(remedy)}") for remedy in plan.remedies]
    return parts


def info_report(config: Mapping[str, Any]) -> list[RenderableType]:
    """Return the report of an installation."""
    table = _table()
    for name, value in config.items():
        if isinstance(value, Mapping):
            for inner, version in value.items():
                table.add_row(f"{name}: {inner}", str(version) if version is not None else "not installed")
        else:
            table.add_row(name, str(value))
    return [table]
