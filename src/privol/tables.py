"""Records as text for people: tables in the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from .encoding.outlook import Outlook
from .guarantees import format_up
from .planning import Plan, describe_derived, describe_remedy

if TYPE_CHECKING:
    from .audit import Audit

__all__ = [
    "audit_report",
    "cells_note",
    "dropped_note",
    "facts_of",
    "headline_of",
    "info_report",
    "plan_report",
    "private_metrics_report",
    "private_total",
    "run_report",
    "set_aside_note",
    "show",
    "spent_note",
    "warnings_of",
]


_METRICS = {"accuracy": "accuracy", "mean_absolute_error": "MAE", "loss": "mean loss"}


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise  # called where the error is handled; the code that printed knows what a closed pipe means


def show(parts: Iterable[RenderableType], width: int = 110) -> None:
    """Print the parts of a report at the terminal's width, up to ``width`` columns (``width`` without a terminal)."""
    console = _Console(file=sys.stdout, highlight=False)
    console.width = min(console.width, width) if console.is_terminal else width
    for part in parts:
        if console.is_terminal:
            console.print(part)
            continue
        with console.capture() as captured:
            console.print(part)
        # the blanks that fill a column would be copied with the text
        sys.stdout.write("\n".join(line.rstrip() for line in captured.get().split("\n")))


def _table(title: str | None = None) -> Table:
    table = Table(title=title, title_justify="left", box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    return table


def run_report(record: Mapping[str, Any]) -> list[RenderableType]:
    """Return the report of a run.

    Parameters
    ----------
    record : mapping
        What ``privol run --json`` prints.
    """
    found, metrics = record["diagnostics"], record["private_metrics"]
    parts: list[RenderableType] = [*headline_of(record), Text(), _facts(record)]
    if metrics is not None:
        parts += [Text(), *_metrics(metrics)]
    sentence = record["sentence"] if metrics is None else metrics["sentence"]
    parts += [Text(), *_full(sentence, record["model_private"]), Text(), _files(record)]
    # what is not private comes last, so that all of it can be cut off
    if record["dropped"] is not None:
        parts += [Text(), dropped_note(record)]
    if found is not None:
        parts += [
            Text(),
            *warnings_of(record, private=False),
            *(_diagnostics(found) if "run" in found else _fit_diagnostics(found)),
        ]
        if "run" in found and (not record["release_rows"] or record["release_rows"][0] >= record["rows"]):
            parts.append(
                Text(
                    "No model was released before the last row, so the progressive figures of this run, and its curve "
                    "in the plot, are those of the starting point; --release K releases models along the way."
                )
            )
    return parts


_NOT_PRIVATE = "NOT PRIVATE"


def headline_of(record: Mapping[str, Any]) -> list[RenderableType]:
    """Return a run's guarantee, how it ended if it was cut short, and the public warnings."""
    parts: list[RenderableType] = [_headline(record["summary"], record["model_private"], _whose(record))]
    if record["status"] == "interrupted":
        doing = "while it was learning" if record["interrupted_while"] == "learning" else "after learning"
        parts.append(
            Text(f"INTERRUPTED {doing}, after row {record['rows']:,}: no further model was released", style="bold red")
        )
    return parts + warnings_of(record, private=True)


def warnings_of(record: Mapping[str, Any], *, private: bool) -> list[RenderableType]:
    """Return the warnings of a run that rest on public figures or, with ``private``, those that its rows show."""
    return _warnings(words for words in record["warnings"] if words.startswith(_NOT_PRIVATE) is not private)


def _headline(summary: str, private: bool, whose: str = "") -> Text:
    return Text(f"Guarantee{whose}: {summary}" if private else summary, style="bold" if private else "bold red")


def _warnings(found: Iterable[str]) -> list[RenderableType]:
    return [Text(f"WARNING: {words}", style="bold red") for words in found]


def _full(sentence: str, private: bool) -> list[RenderableType]:
    return [Text("The guarantee in full", style="bold"), Text(sentence, style="" if private else "red")]


def _facts(record: Mapping[str, Any]) -> RenderableType:
    table = _table()
    for name, text in facts_of(record):
        table.add_row(name, text)
    return table


def facts_of(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what was learnt, from which rows, and what was released: names and texts."""
    facts: list[tuple[str, str]] = []

    def add(name: str, text: str) -> None:
        facts.append((name, text))

    classes = record["classes"]
    labels = "" if classes is None else f"; {_classes(classes)}"
    add("learner", f"{record['learner']}, {record['parameters']['loss']['name']} loss, on {record['source']}")
    parameters = record["parameters"]
    most = "" if record["horizon"] is None else f" of a horizon of {record['horizon']:,}"
    if parameters.get("renewal", "none") != "none":
        more = " each" if parameters["renewal"] == "repeat" else ", twice as many and so on"
        most = f" in epochs of {parameters['horizon']:,}{more}"
    add("rows learnt", f"{record['rows']:,}{most}; {record['features']:,} features{labels}")
    if record.get("set_aside"):
        add("set aside", set_aside_note(record))
    if record.get("encoding") is not None:
        add("encoding", _encoding(record["encoding"]))
    evaluated = " (read, learnt and evaluated" if record["diagnostics"] else " (read and learnt"
    add("throughput", f"{record['rows_per_second']:,.0f} rows/s{evaluated} in {record['seconds']:.2f} s)")
    if record["x_bound_from"] in ("schema", "ranges"):
        bound, by = f"{record['parameters']['x_bound']:.6g}", record["x_bound_from"]
        add("x-bound", f"{bound}, the largest norm a row can have by the {by}; --x-bound sets another")
    if record.get("derived"):
        figures = ", ".join(f"{name} {value:.6g}" for name, value in record["derived"].items())
        add("by default", f"{figures}, from the numbers of rows and features, the budget and the bounds")
    budget = record["budget"]
    if budget["reserved"]["mu"] != "inf":
        add("budget spent", spent_note(budget))
        if record["private_metrics"] is not None:
            own = budget["shares"]
            models, metrics = own[record["learner"]], own["PrivateMetrics"]
            add(
                "its shares",
                f"the models alone epsilon {format_up(models['epsilon'])} (mu {format_up(models['mu'])}); the metrics "
                f"add mu {format_up(metrics['mu'])} (squares of mu add up)",
            )
    elif record["guarantee"]["kind"] == "approximate":  # of one release, without parts
        add("budget spent", "all of it")
    add("models released", _releases(record))
    if record["noise"] is not None:
        noise, reach = record["noise"], record["noise"]["largest_score"]
        most = "at most " if noise.get("bound") else ""  # for noise that the losses' curvature damps
        add(
            "noise of the last" if record["horizon"] is not None else "its noise",
            f"std {most}{noise['std']:.4g} per coordinate, norm about {noise['noise_norm']:.4g}; "
            f"std {noise['score_std']:.3g} in the score of the longest row"
            + (
                ""
                if noise.get("score_std_in_target_units") is None
                else f", {noise['score_std_in_target_units']:.3g} in the target's own units"
            )
            + ("" if reach is None else f" (scores up to {reach:.3g})"),
        )
    return facts


#: Labels that are listed.
_SHOWN_CLASSES = 12


def _classes(labels: list[str]) -> str:
    if len(labels) == 2:
        return f"classes {labels[0]} / {labels[1]}"
    more = ", ..." if len(labels) > _SHOWN_CLASSES else ""
    return f"{len(labels):,} classes: {', '.join(labels[:_SHOWN_CLASSES])}{more}"


def spent_note(budget: Mapping[str, Any]) -> str:
    """Return a note on how much of a budget was spent."""
    reserved, spent = budget["reserved"]["mu"], budget["spent"]["mu"]
    if spent >= (1.0 - 1e-6) * reserved:
        return "all of it"
    figures = f"epsilon {format_up(budget['spent']['epsilon'])} at delta {format_up(budget['delta'])}"
    return (
        f"{figures} ({format_up(spent)}-GDP), if what ended the run did not depend on the rows; the rest was reserved "
        "but not spent"
    )


_DROPPED = {
    "over_user_cap": "{:,} over the cap of a user",
    "too_near": "{:,} too close to another of their user",
    "waited_too_long": "{:,} that waited too long for their label",
    "unmatched_labels": "{:,} labels without a row",
    "still_waiting": "{:,} still without a label at the end",
}


def set_aside_note(record: Mapping[str, Any]) -> str:
    """Return how many messages are no rows, because they cannot be read."""
    found = record["set_aside"]
    return f"{found:,} message{'s' if found > 1 else ''} that cannot be read, in the quarantine"


def dropped_note(record: Mapping[str, Any]) -> Text:
    """Return a note on rows that were left out or made null. Not private."""
    what = "dropped" if record["guarantee"].get("users_fixed", True) else "made null rows"
    counts = "; ".join(_DROPPED[reason].format(number) for reason, number in record["dropped"]["rows"].items())
    return Text(f"Rows {what}: {counts} ({_NOT_PRIVATE})", style="red")


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


#: Runs of a comparison, with the names of their columns.
_RUNS = {
    "run": "this run",
    "noiseless": "no noise,\nsame releases",
    "noiseless_every_row": "no noise,\nevery row released",
}


def _diagnostics(found: Mapping[str, Any]) -> list[RenderableType]:
    # names in the records and column headings; the loss itself, which may be the log-loss, comes first
    own = found["run"]["progressive"]
    words = {"loss": "log-loss" if own.get("log_loss") == own["loss"] else "loss"}
    if found["classification"]:
        words |= {"log_loss": "log-loss"} if "log_loss" in own and words["loss"] == "loss" else {}
        words |= {"accuracy": "accuracy", "auc": "AUC"}
        words = {name: shown for name, shown in words.items() if name not in found["omitted_metrics"]}
    else:
        words |= {"mean_absolute_error": "MAE", "root_mean_squared_error": "RMSE"}
        words |= {"r_squared": "R²"} if found["deviation_of_targets"] else {}
    table = Table(
        title=f"Diagnostics: {found['notice']}",
        title_style="bold red",
        title_justify="left",
        padding=(0, 1),
    )
    best, runs = found["best_fixed"], {}
    for key, head in _RUNS.items():
        if found[key] is not None:
            runs[head] = found[key]
    table.add_column("")
    heads, always = [*runs, "best fixed\nin hindsight"], {}
    if found["classification"]:
        heads.append("majority\nclass")
        always = {"accuracy": f"{found['majority_accuracy']:.4f}", "auc": "0.5000"}
    elif found["deviation_of_targets"]:
        heads.append("mean of\nthe targets")
        always = {"root_mean_squared_error": f"{found['deviation_of_targets']:.4f}", "r_squared": "0.0000"}
    for head in heads:
        table.add_column(head, justify="right")
    span, units = found.get("target_range"), list(best.get("in_target_units", ()))
    constant = 0.0 if span is None else (span[1] / 2 - span[0] / 2) * (found["deviation_of_targets"] or 0.0)
    for when, name in (("progressive", "progressive"), ("final_model", "last model")):
        for word, shown in words.items():
            scores = [*(run[when] for run in runs.values()), best]
            figures = [_figure(score, word) for score in scores] + ([always.get(word, "")] if always else [])
            table.add_row(f"{name} {shown}", *figures, end_section=word == list(words)[-1] and span is None)
        for word in units:
            figures = [f"{score['in_target_units'][word]:.5g}" for score in scores]
            figures += [f"{constant:.5g}" if word == "root_mean_squared_error" else ""] if always else []
            table.add_row(f"{words[word]} in target's units", *figures, end_section=word == units[-1])
    table.add_row("regret", *(f"{run['regret']:,.1f}" for run in runs.values()), "0")
    table.add_row("regret per row", *(f"{run['regret_per_row']:.4f}" for run in runs.values()), "0")
    later = "only then learnt"
    if found["delay"] > 1:
        later = f"learnt when {found['delay']:,} more have arrived, as its label is known only then"
    price, clipped = found["price_of_noise"], found["targets_clipped_to_y_bound"]
    notes = [
        f"Progressive: each row is predicted with the model released by then, and {later} (before the first "
        "release by the starting point, which has learnt nothing). Last model: on the rows it was learnt from. Regret: "
        "sum of the progressive losses above those of the best fixed model, itself within "
        f"{best['loss_above_optimum_at_most']:.1e} per row of the optimum."
        # without noise there is no price, and a run may be lucky
        + (f" The noise costs {price:,.1f} of this run's regret." if price > 0 else ""),
        f"Rows scaled to the x-bound: {found['rows_scaled_to_x_bound']:,}; rows learnt as null: {found['null_rows']:,}"
        + ("" if clipped is None else f"; targets clipped to the y-bound: {clipped:,}")
        + ".",
    ]
    if span is not None:
        notes.append(
            f"Targets are clipped to {span[0]:.6g} ... {span[1]:.6g} and mapped to -1 ... 1, in these figures too."
        )
    if found["omitted_metrics"]:
        notes.append("The area under the ROC curve is left out: it needs two classes with one score.")
    if found["cells"] is not None:
        notes.append(cells_note(found["cells"], "run.json"))
    return [table, *(Text(note) for note in notes)]


def _fit_diagnostics(found: Mapping[str, Any]) -> list[RenderableType]:
    """Return an offline model's figures on the rows that it was learnt from, beside those of a constant."""
    own, span, deviation = found["final_model"], found["target_range"], found["deviation_of_targets"]
    words = {"accuracy": "accuracy", "log_loss": "log-loss", "auc": "AUC"}
    always = {"accuracy": found["majority_accuracy"]}
    if not found["classification"]:
        words = {"mean_absolute_error": "MAE", "root_mean_squared_error": "RMSE", "r_squared": "R²"}
        always = {"root_mean_squared_error": deviation, "r_squared": 0.0} if deviation else {}
    table = Table(title=f"Diagnostics: {found['notice']}", title_style="bold red", title_justify="left", padding=(0, 1))
    for head in ("on its own rows", "this model", "a constant"):
        table.add_column(head, justify="left" if head == "on its own rows" else "right")
    for word in (word for word in words if word in own):
        table.add_row(words[word], _figure(own, word), _figure(always, word))
    for word, value in own.get("in_target_units", {}).items():
        constant = f"{(span[1] / 2 - span[0] / 2) * always[word]:.5g}" if word in always else ""
        table.add_row(f"{words[word]} in target's units", f"{value:.5g}", constant)
    scaled, null = found["rows_scaled_to_x_bound"], found["null_rows"]
    return [table, Text(f"Rows scaled to the x-bound: {scaled:,}; rows learnt as null: {null:,}.")]


def _whose(record: Mapping[str, Any]) -> str:
    if record["private_metrics"] is not None:
        return " of models and metrics"
    return " of models and schema" if record.get("shared") else ""


#: Columns of a schema that are listed with their counts.
_SHOWN_COLUMNS = 8


def _encoding(found: Mapping[str, Any]) -> str:
    """Return a note on what the first rows taught, and what was left out."""
    said = f"learnt from the first {found['rows']:,} rows, which the model does not learn; "
    if found["reused"]:
        said = f"learnt from {found['rows']:,} rows, and the model learns them too, by the rest of the budget; "
    if found["frequent_features"] is not None:
        others = f", and {found['sketch']:,} that all others share" if found.get("sketch") else ""
        return f"{said}{found['frequent_features']:,} frequent features are used{others}"
    rare = f"values in fewer than {found['visible_share']:.1%} of the rows are not seen"
    said += f"{found['columns']:,} columns are used; {rare}"
    label = found.get("visible_label_share")  # not in the records of older runs
    if label is not None and found["labelled"] is not None:
        said += f", and a label that fewer than {label:.1%} have may be missing"
    dropped = found["dropped"]
    if dropped:
        reasons: dict[str, list[str]] = {}
        for name, reason in dropped.items():
            reasons.setdefault(reason, []).append(name)
        parts = [f"{_some(names)}: {reason}" for reason, names in reasons.items()]
        said += f", left out are {'; '.join(parts)} (a schema can declare them)"
    if found["crosses"]:
        said += f"; crossed are {_some(found['crosses'])}"
    for name, reason in found["uncrossed"].items():
        said += f"; the cross {name} is left out: {reason}"
    return said


def _some(names: list[str]) -> str:
    more = len(names) - _SHOWN_COLUMNS
    return ", ".join(names[:_SHOWN_COLUMNS]) + (f" and {more:,} more" if more > 0 else "")


def cells_note(found: Mapping[str, Any], written: str | None = None) -> str:
    """Return a note on cells that a schema does not take as they are, and where the full list is. Not private."""
    columns = sorted(found["columns"].items(), key=lambda item: -sum(item[1].values()))  # equal ones keep their order
    listed = [
        f"{name} {', '.join(f'{n:,} {kind}' for kind, n in counts.items())}"
        for name, counts in columns[:_SHOWN_COLUMNS]
    ]
    if len(columns) > _SHOWN_COLUMNS:
        more = f"{len(columns) - _SHOWN_COLUMNS} more columns"
        listed.append(more if written is None else f"{more} (in {written})")
    return f"Cells clipped, unknown or missing, of {found['rows']:,} in each column: {'; '.join(listed)}."


def _figure(score: Mapping[str, Any], word: str) -> str:
    # an area under the curve needs rows of both classes
    return f"{score[word]:.4f}" if word in score else ""


def private_metrics_report(record: Mapping[str, Any]) -> list[RenderableType]:
    """Return the report of privately released metrics.

    Parameters
    ----------
    record : mapping
        :meth:`privol.evaluate.MetricsResult.to_record`.
    """
    return [*_metrics(record), Text(record["sentence"], style="" if record["private"] else "bold red")]


def private_total(record: Mapping[str, Any]) -> list[RenderableType]:
    """Return privately released metrics; if there are some for all rows, only those."""
    return _metrics(record if record["total"] is None else {**record, "windows": []})


def _metrics(record: Mapping[str, Any]) -> list[RenderableType]:
    notice = "released with noise" if record["private"] else "NOT PRIVATE"
    table = Table(
        title=f"Progressive metrics: {notice}",
        title_style="bold" if record["private"] else "bold red",
        title_justify="left",
        padding=(0, 1),
    )
    table.add_column("rows", justify="right")
    for name in record["metrics"]:
        bound = record["bounds"][name]
        table.add_column(_METRICS[name] if bound == 1.0 else f"{_METRICS[name]}\n(up to {bound:.4g})", justify="right")
        table.add_column("noise\n(std)", justify="right")
    for window in record["windows"]:
        rows = f"{window['first_row']:,} - {window['last_row']:,}"
        table.add_row(rows, *_noisy(window, record["metrics"]), end_section=window is record["windows"][-1])
    if record["total"] is not None:
        table.add_row(f"all {record['total']['rows']:,}", *_noisy(record["total"], record["metrics"]))
    parts: list[RenderableType] = [table]
    if record["delay"]:
        parts.append(Text(f"Each row is evaluated as if its label came {record['delay']:,} rows later."))
    if record.get("drift_alarm") is not None:
        parts.append(_drift(record["drift_alarm"]))
    return parts


def _drift(record: Mapping[str, Any]) -> Text:
    said = f"(false alarms: probability {record['alpha']:g} at most)"
    if (alarm := record["alarm"]) is not None:
        what = f"{_METRICS[record['metric']]} worse than {alarm['level']:.4g}"
        return Text(f"Drift alarm by row {alarm['last_row']:,}: {what} {said}", style="bold")
    behind = f" behind the {record['reference']} that they are compared with" if record["reference"] else ""
    return Text(f"No drift alarm in {record['watched']:,} windows{behind} {said}")


def _noisy(figures: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    return [f"{figures[name + suffix]:.4f}" for name in names for suffix in ("", "_std")]


def plan_report(plan: Plan, in_target_units: float | None = None) -> list[RenderableType]:
    """Return the report of a plan: guarantee, noise by release, verdict, remedies.

    ``in_target_units``: the noise of the last release's score, where targets are mapped from a range.
    """
    private = plan.guarantee.private and plan.guarantee.kind != "none"
    table = Table(title=plan.extent, title_justify="left")
    for name in ("after row", "sensitivity", "noise std", "noise norm", "noise in score", "largest score"):
        table.add_column(name, justify="right")
    for r in plan.rows:
        figures = (r.sensitivity, r.std, r.noise_norm, r.score_std, r.largest_score)
        table.add_row(f"{r.row:,}", *(f"{x:.4g}" for x in figures))
    parts: list[RenderableType] = [
        _headline(plan.guarantee.summary(), private),
        *_warnings(plan.warnings),
        Text(),
        table,
        Text(plan.verdict, style="bold"),
    ]
    if in_target_units is not None:
        parts.append(
            Text(f"In the target's own units noise moves the score of the longest row by {in_target_units:.4g}.")
        )
    if plan.derived:
        parts.append(Text(describe_derived(plan.derived)))
    if plan.remedies:
        parts.append(Text("Any one of these changes alone, made before the run:"))
        parts += [Text(f"  {describe_remedy(remedy, option=True)}") for remedy in plan.remedies]
    if plan.users:
        parts += [Text(), Text(plan.about_users), *(Text(f"  {plan.describe_user(trade)}") for trade in plan.users)]
    return [*parts, Text(), *_full(plan.guarantee.sentence(), private)]


#: For a table that may have many rows.
_MOST_LINES = 8


def outlook_report(found: Outlook) -> list[RenderableType]:
    """Return the report on what the first rows of a table can teach: phases, verdict, remedies."""
    plan, rest = found.plan, found.n_rows - found.plan.rows
    of = f"{plan.columns:,} columns" + (" and the target" if plan.target else "")
    mu = "without noise" if plan.mu == float("inf") else f"{format_up(plan.mu)}-GDP"
    table = Table(title=f"What the first {plan.rows:,} rows teach of {of}", title_justify="left")
    for name in ("phase", "rows", "noise std of a count"):
        table.add_column(name, justify="left" if name == "phase" else "right")
    for name, rows, std in found.counts:
        table.add_row(name, f"{rows:,}", f"{std:.4g}")
    others = Table(title="Any one of these changes alone, made before the run", title_justify="left")
    for name in ("", "rows that teach", "seen if this share has it"):
        others.add_column(name, justify="right" if name else "left")
    for what, rows, share in found.remedies:
        others.add_row(what, f"{rows:,}", "" if share is None else f"{share:.2g}")
    whom = "one row"
    if plan.rows_per_user is not None:
        mu = "without noise" if found.mu == float("inf") else f"{format_up(found.mu)}-GDP"
        most = "1 row" if plan.rows_per_user == 1 else f"{plan.rows_per_user:,} rows"
        apart = "" if plan.user_separation == 1 else f", any two of them {plan.user_separation:,} rows apart or more"
        whom = f"all rows of one user (at most {most}{apart})"
    budget = f"epsilon {format_up(found.epsilon)} at delta {format_up(found.delta)} ({mu}) for {whom}"
    return [
        Text(f"{budget}, together with a model of the other {rest:,} rows"),
        Text(),
        table,
        *_about_users(found),
        Text(found.verdict, style="bold"),
        Text(),
        others,
    ]


def _about_users(found: Outlook) -> list[RenderableType]:
    """Return how much of a user's budget the rows that teach cost, and the effect of more or fewer rows per user."""
    parts: list[RenderableType] = []
    if found.teaching:
        table = Table(title="What a user's rows that teach cost, where they cost most", title_justify="left")
        for name in ("rows that teach", "mu", "share of the user's mu squared", "allowed"):
            table.add_column(name, justify="right")
        shown = found.teaching if len(found.teaching) <= _MOST_LINES else (*found.teaching[:7], found.teaching[-1])
        for teaching in shown:
            figures = (f"{format_up(teaching.mu)}", f"{teaching.share:.1%}", f"{teaching.allowed:.1%}")
            table.add_row(f"{teaching.rows:,}", *figures)
        parts += [table, Text("The model has the rest, for the rows of the user that are learnt."), Text()]
    if found.users:
        trade = Table(title="By how many rows of a user there may be, as far apart", title_justify="left")
        for name in ("rows of a user", "mu of one that teaches", "rows that teach", "seen if this share has it"):
            trade.add_column(name, justify="right")
        for one in found.users:
            mu = "inf" if one.mu == float("inf") else format_up(one.mu)
            trade.add_row(f"{one.rows_per_user:,}", mu, f"{one.rows_that_teach:,}", f"{one.visible_share:.2g}")
        parts += [trade]
    return parts


def audit_report(audits: Sequence[Audit]) -> list[RenderableType]:
    """Return the report of audits: claims, and what was proved against them."""
    table = Table(title="Lower bounds by runs on two neighbouring streams, beside the claims", title_justify="left")
    for name in ("epsilon", "delta", "mu", "epsilon at least", "mu at least", "mu if Gaussian", "ratio"):
        table.add_column(name, justify="right")
    for found in audits:
        gaussian = found.gaussian_mu_lower
        table.add_row(
            format_up(found.epsilon),
            format_up(found.delta),
            "" if found.mu is None else format_up(found.mu),
            f"{found.epsilon_lower:.4f}",
            f"{found.mu_lower:.4f}",
            "" if gaussian is None else f"{gaussian:.4f}",
            f"{found.ratio:.2f}",
            style="bold red" if found.exceeded_by else None,
        )
    return [table, Text(), *(Text(found.sentence()) for found in audits)]


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
