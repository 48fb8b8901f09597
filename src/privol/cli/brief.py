"""A run on one screen of 80 columns; :func:`privol.tables.run_report` has everything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ..tables import dropped_note, headline_of, private_total, run_report, set_aside_note, show, spent_note, warnings_of

__all__ = ["brief_report", "show_run"]

_WIDTH = 80

_METRICS = {
    "accuracy": "accuracy", "auc": "AUC", "log_loss": "log-loss", "r_squared": "R²",
    "root_mean_squared_error": "RMSE", "mean_absolute_error": "MAE", "loss": "loss",
}  # fmt: skip
_SHOWN = 3  # metrics of a model
_NAMED = 4  # omitted columns
_ALL = "all of it"


def show_run(record: Mapping[str, Any], *, verbose: bool) -> None:
    """Print a run: on one screen, or in full."""
    if verbose:
        show(run_report(record))
    else:
        show(brief_report(record), width=_WIDTH)


def brief_report(record: Mapping[str, Any]) -> list[RenderableType]:
    """Return the most important facts about a run: its guarantee, what was learnt, how good it is, what comes next.

    Parameters
    ----------
    record : mapping
        What ``privol run --json`` prints.
    """
    parts: list[RenderableType] = [*headline_of(record), Text(), _learnt(record)]
    if record["private_metrics"] is not None:
        parts += [Text(), *private_total(record["private_metrics"])]
    found = record["diagnostics"]
    if found is not None:
        doubts = warnings_of(record, private=False)
        parts += [Text(), *doubts, *([Text()] if doubts else []), *_how_good(found)]
        if "run" in found and (not record["release_rows"] or record["release_rows"][0] >= record["rows"]):
            parts.append(Text("No model was released before the last row: --release K releases models along the way."))
    if record["dropped"] is not None:
        parts.append(dropped_note(record))
    if record["out"] is not None:
        parts += [Text(), _next(record)]
    return parts


def _grid() -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="bold")
    table.add_column()
    return table


def _learnt(record: Mapping[str, Any]) -> RenderableType:
    table = _grid()
    table.add_row("learner", f"{record['learner']}, {record['parameters']['loss']['name']} loss, on {record['source']}")
    labels = record["classes"]
    classes = "" if labels is None else f", {len(labels):,} classes"
    if labels is not None and len(labels) == 2:
        classes = f", classes {labels[0]} / {labels[1]}"
    learnt = f"{record['rows']:,} rows in {_pace(record)}, {record['features']:,} features{classes}"
    table.add_row("learnt", learnt)
    if record.get("set_aside"):
        table.add_row("set aside", set_aside_note(record))
    encoding = record.get("encoding")
    if encoding is not None:
        used = "frequent features" if encoding["frequent_features"] is not None else "columns"
        count = encoding["frequent_features"] if encoding["frequent_features"] is not None else encoding["columns"]
        used += f" and {encoding['sketch']:,} that all others share" if encoding.get("sketch") else ""
        others = "which the model learns too" if encoding["reused"] else "which the model does not learn"
        left_out = _left_out(list(encoding["dropped"]))
        table.add_row("encoding", f"{count:,} {used}, learnt from {encoding['rows']:,} rows, {others}{left_out}")
    noise = record["noise"]
    table.add_row("released", "1 model" if record["releases"] == 1 else f"{record['releases']:,} models")
    budget = record["budget"]
    if budget["reserved"]["mu"] != "inf" and spent_note(budget) != _ALL:
        table.add_row("spent", spent_note(budget))
    if noise is not None:
        most = "at most " if noise.get("bound") else ""
        scores = "" if noise["largest_score"] is None else f" (scores up to {noise['largest_score']:.3g})"
        table.add_row("noise", f"std {most}{noise['score_std']:.3g} in the score of the longest row{scores}")
    return table


def _left_out(names: Sequence[str]) -> str:
    if not names:
        return ""
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"; left out: {', '.join(names[:_NAMED])}{more}"


def _pace(record: Mapping[str, Any]) -> str:
    return f"{record['seconds']:.1f} s ({record['rows_per_second']:,.0f}/s)"


def _next(record: Mapping[str, Any]) -> RenderableType:
    run, table = record["out"], _grid()
    if record["releases"]:
        table.add_row(f"privol predict {run} NEW.csv", "predict new rows")
        if (record["inputs"] or {}).get("schema") is not None:
            table.add_row(f"privol explain {run}", "what the model makes of each column")
    table.add_row(f"{run}/run.json", "all else; --verbose prints it")
    return table


def _half(span: tuple[float, float]) -> float:
    return span[1] / 2 - span[0] / 2


def _figure(score: Mapping[str, Any], word: str) -> str:
    value = score.get("in_target_units", {}).get(word)
    if value is not None:
        return f"{value:.5g}"
    return f"{score[word]:.4f}" if word in score else ""


def _how_good(found: Mapping[str, Any]) -> list[RenderableType]:
    """Return the figures of the run with the best that it could reach and what it must beat."""
    last_only = "run" not in found
    own = found["final_model"] if last_only else found["run"]["progressive"]
    hidden = set(found.get("omitted_metrics", ()))
    constant = {"accuracy": found["majority_accuracy"], "auc": 0.5}
    if not found["classification"]:
        constant, deviation = dict[str, Any](), found["deviation_of_targets"]
        if deviation:
            constant = {"r_squared": 0.0, "root_mean_squared_error": deviation}
            if "in_target_units" in own:
                constant["in_target_units"] = {"root_mean_squared_error": deviation * _half(found["target_range"])}
        else:
            hidden.add("r_squared")
    words = [name for name in _METRICS if name in own and name not in hidden][:_SHOWN]
    heads: dict[str, tuple[Any, Any]] = {}  # progressive and of the last model
    if last_only:
        heads["this model"] = (None, own)
    else:
        heads["this run"] = (own, found["run"]["final_model"])
        if found["noiseless"] is not None:
            heads["no noise"] = (found["noiseless"]["progressive"], found["noiseless"]["final_model"])
        heads["best fixed"] = (found["best_fixed"], found["best_fixed"])
    if constant:
        heads["majority" if found["classification"] else "mean"] = (constant, constant)
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("")
    for head in heads:
        table.add_column(head, justify="right")
    for place, when in enumerate(("progressive", "last model")):
        if place == 0 and last_only:
            continue
        for word in words:
            figures = [_figure(scores[place], word) for scores in heads.values()]
            table.add_row(f"{when} {_METRICS[word]}", *figures)
    parts: list[RenderableType] = [
        Text("How good it is (NOT PRIVATE: computed from the raw rows; do not publish)", style="bold red"),
        table,
    ]
    if not last_only:
        parts.append(Text("Progressive: each row is predicted before it is learnt.", style="dim"))
    return parts
