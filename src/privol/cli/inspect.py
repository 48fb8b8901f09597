"""``privol plan`` and ``privol info``: what is known without learning."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import closing, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from .._vocabulary import ADJACENCIES
from .encoding import spent_note
from .option_types import CrossType, TargetType
from .options import budget_in_epsilon, given_parameters, learner_name, learner_options
from .outputs import printing
from .streams import FILE_OPTIONS, file_options, flag_of, width_of_schema
from .topics import GroupedCommand, Topic

if TYPE_CHECKING:
    from ..ledger import Ledger

__all__ = ["info", "plan"]


@click.command()
@click.option("--n-features", type=int, help="Features of a row, without the intercept.  [needed without a schema]")
@click.option(
    "--n-columns", type=int, help="Columns to be learnt, without the target: shows the plan of their encoding instead."
)
@click.option("--schema", metavar="S.toml", help="The schema of the run: tells features, --x-bound, the cap of users.")
@click.option(
    "--n-classes",
    type=int,
    help="Classes, more than two for dpftrl and the offline ones.  [default: the schema's, else 2]",
)
@click.option("--horizon", type=int, required=True, help="Rows that the budget must last for.")
@learner_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
def plan(
    n_features: int | None,
    n_columns: int | None,
    schema: str | None,
    n_classes: int | None,
    horizon: int,
    learner: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Show the noise of a budget, before anything is spent.

    For some releases it shows how far one row can move the model (sensitivity), the noise in each coordinate, the
    length of the noise vector, and the noise in the score of a row of the largest norm next to the largest possible
    score. Then it gives a verdict and, if noise drowns the signal, what would help.

    With --n-columns it shows how many rows teach the encoding of a table (privol run FILE), with what noise, how
    frequent a category must be to be found, and what declarations, more rows or a larger epsilon would gain. With
    --rows-per-user the budget is for all rows of a user, those that teach and those that are learnt.

    \b
    Examples:
        privol plan --n-columns 14 --horizon 32561 --epsilon 1
        privol plan --n-columns 14 --horizon 32561 --rows-per-user 4
        privol plan --schema clinic.toml --horizon 100000
        privol plan --n-features 54 --horizon 500000
        privol plan --n-features 9 --horizon 20000 --learner output-perturbation
        privol plan --n-features 54 --n-classes 7 --loss softmax --horizon 500000
        privol plan --n-features 54 --horizon 500000 --learner pigd --release all
    """
    from ..planning import plan as make_plan
    from ..tables import plan_report, show

    given, users, span = given_parameters(options), None, None
    if n_columns is not None:
        others = {"--n-features": n_features, "--schema": schema, "--n-classes": n_classes, "--learner": learner}
        _show_outlook(n_columns, horizon, {**others, **{flag_of(word): given[word] for word in given}}, given, as_json)
        return
    if schema is not None:
        if n_features is not None:
            raise click.UsageError("--schema and --n-features exclude each other: a schema states the features")
        n_features, row_bound, found_schema = width_of_schema(schema)
        users, target = found_schema.user, found_schema.target
        if n_classes is None and found_schema.classes is not None:
            n_classes = len(found_schema.classes)
        span = None if target is None else target.range
        if row_bound is not None:
            given.setdefault("x_bound", row_bound)
    if n_features is None:
        raise click.UsageError("--n-features or --schema is needed: the number of features")
    kept = None
    if users is not None:
        kept = SimpleNamespace(
            rows_per_user=users.max_rows,
            user_separation=users.separation,
            users_fixed=users.surplus != "null",
            user=str(users.column),
            conditions=(),
        )
    given = budget_in_epsilon(learner, given)
    name = learner_name(learner, given)
    if n_classes is not None:
        given["n_classes"] = n_classes
    found = make_plan(name, n_features=n_features, horizon=horizon, users=kept, **given)
    with printing():
        if as_json:
            record = found.to_record()
            if span is not None:
                record |= {"target_range": list(span), "score_std_in_target_units": _in_units(found, span)}
            click.echo(json.dumps(record, allow_nan=False))
        else:
            show(plan_report(found, None if span is None else _in_units(found, span)))


def _in_units(found: Any, span: tuple[float, float]) -> float:
    """How far noise moves the prediction for the longest row, one standard deviation, in the target's own units."""
    half = span[1] / 2 - span[0] / 2
    return float(half * found.rows[-1].score_std)


#: The text about an encoding that is still to be learnt.
_OF_COLUMNS = ("--epsilon", "--delta", "--adjacency", "--loss", "--rows-per-user", "--user-separation")


def _show_outlook(
    n_columns: int, horizon: int, stated: Mapping[str, Any], given: Mapping[str, Any], as_json: bool
) -> None:
    from ..encoding import outlook_of
    from ..losses import get_loss
    from ..tables import outlook_report, show

    for flag, value in stated.items():
        if value is not None and flag not in _OF_COLUMNS:
            raise click.UsageError(f"{flag} and --n-columns exclude each other: {flag} applies to the model")
    words = ("epsilon", "delta", "adjacency", "rows_per_user", "user_separation")
    budget = {word: given[word] for word in words if word in given}
    real = "loss" in given and get_loss(given["loss"]).kind == "regression"
    found = outlook_of(horizon, n_columns, real=real, **budget)
    with printing():
        if as_json:
            click.echo(json.dumps(found.to_record(), allow_nan=False))
        else:
            show(outlook_report(found))


_PRIVATE = ("epsilon", "delta", "adjacency", "drop", "cross", "columns", "ledger", "out", "seed")


@click.command(
    cls=GroupedCommand,
    topics=(
        Topic("schema", "The schema of a table", f"target rows {FILE_OPTIONS}"),
        Topic("private", "Learning it privately", f"private {' '.join(_PRIVATE)}"),
    ),
)
@click.argument("file", required=False)
@click.option(
    "--target",
    type=TargetType(),
    metavar="COLUMN",
    help="Column of the target: its name, or its 0-based number.  [default: the last column]",
)
@click.option("--rows", type=int, help="Number of first rows to read.  [default: 100000]")
@file_options
@click.option("--private", is_flag=True, help="Learn the schema from all rows, under a budget of its own.")
@click.option("--epsilon", type=float, help="The budget.  [default: 1]")
@click.option("--delta", type=float, help="Delta of the stated epsilon.  [default: 1e-6]")
@click.option("--adjacency", type=click.Choice(ADJACENCIES), help="What a row is replaced by.  [default: replace]")
@click.option("--drop", metavar="A,B,...", help="Columns to leave out.")
@click.option(
    "--cross",
    type=CrossType(),
    multiple=True,
    metavar="A,B",
    help="Cross two columns, as privol run --cross does; may be given several times.",
)
@click.option("--columns", metavar="A,B,...", help="Names of the columns of a CSV without header.")
@click.option(
    "--ledger",
    metavar="L.jsonl",
    help="Journal that the cost is added to, within the limit that it has; made if there is none. privol account "
    "L.jsonl RUN adds it to what a run cost.",
)
@click.option("--out", metavar="DIR", help="Folder for the schema and what it claims, which privol verify DIR checks.")
@click.option("--seed", type=int, help="Reproducible noise, for tests: the schema says that it is NOT PRIVATE.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
def info(file: str | None, private: bool, as_json: bool, **options: Any) -> None:
    """Draft a schema for FILE; without FILE, show versions.

    The draft is TOML, with a guess for each column: numbers and their range, levels, columns to drop, columns that may
    name a person. It is derived from the rows, which are private. Replace or confirm each line by public knowledge (a
    code book, a form, a law), then remove the line derived_from_data. Until then every run with the draft says that its
    guarantee does not hold.

    With --private the schema is learnt under differential privacy, and may be shown and used as it is. It states what
    this cost, and so does the guarantee of every run with it. That cost is not part of the run's own figure: on the
    same rows both compose. (privol run FILE alone learns the schema from the first rows and the model from the others,
    which costs one budget.)

    \b
    Examples:
        privol info
        privol info clinic.csv --target readmitted > clinic.toml
        privol info parts/ --rows 1000
        privol info clinic.csv --target readmitted --private > clinic.toml
    """
    given = {name: value for name, value in options.items() if value not in (None, ())}
    if file is None:
        from ..config import show_config
        from ..tables import info_report, show

        if given:
            word = next(iter(given))
            raise click.UsageError(f"--{word} needs a FILE")
        if private:
            raise click.UsageError("--private needs a FILE")
        found = show_config()
        with printing():
            if as_json:
                click.echo(json.dumps(found))
            else:
                show(info_report(found))
        return
    if private:
        _learn_schema(file, as_json, given)
        return
    for word in _PRIVATE:
        if word in given:
            raise click.UsageError(f"--{word} goes with --private")
    from ..streams import draft_schema

    text = draft_schema(file, **given)
    with printing():
        click.echo(json.dumps({"private": False, "schema": text}) if as_json else text, nl=as_json)
    click.echo(
        "privol: warning: this draft was derived from the data, so it is NOT PRIVATE; replace or confirm every line by "
        "public knowledge before a run, then remove derived_from_data",
        err=True,
    )


def _learn_schema(file: str, as_json: bool, given: Mapping[str, Any]) -> None:
    from ..encoding import PrivateEncoder
    from ..ledger import as_json as finite
    from ..state import check_free, save_run
    from ..streams import learn_schema

    if "rows" in given:
        raise click.UsageError("--rows applies to a draft: with --private all rows teach, within the budget")
    budget = {word: given[word] for word in ("epsilon", "delta", "adjacency") if word in given}
    drop = [name.strip() for name in given.get("drop", "").split(",") if name.strip()]
    encoder = PrivateEncoder(**budget, drop=drop, crosses=given.get("cross", ()), random_state=given.get("seed"))
    columns = [name.strip() for name in given["columns"].split(",")] if "columns" in given else None
    words = {word: given[word] for word in ("target", "header", "sep", "encoding", "format") if word in given}
    journal = Path(given["ledger"]) if "ledger" in given else None
    folder = Path(given["out"]) if "out" in given else None
    if folder is not None:
        check_free(folder)
        folder.mkdir(exist_ok=True)  # before anything is spent
    try:
        with nullcontext() if journal is None else closing(_open_ledger(journal, encoder.adjacency)) as encoder.ledger:
            schema = learn_schema(file, encoder, columns=columns, **words)
            if folder is not None:
                save_run(encoder, folder)
    except BaseException as error:
        note = spent_note(encoder, "schema", journal)
        if note is not None:
            error.add_note(note)
        raise
    promise, rows = encoder.guarantee_, encoder.plan_.rows
    private = promise.private and not math.isinf(encoder.plan_.mu)
    text = "".join(f"# {line}\n" for line in _folded(promise.sentence())) + "\n" + schema.to_toml()
    for name, reason in encoder.dropped_.items():
        click.echo(f"privol: {name!r} is left out: {reason}", err=True)
    for name, reason in encoder.uncrossed_.items():
        click.echo(f"privol: the cross {name!r} is left out: {reason}", err=True)
    cost = {"rows": rows, "mu": finite(encoder.plan_.mu), "epsilon": finite(encoder.epsilon), "delta": encoder.delta}
    with printing():
        click.echo(json.dumps({"private": private, "schema": text, "cost": cost}) if as_json else text, nl=as_json)
    if private:
        from ..guarantees import format_up

        cost_of = f"epsilon {encoder.epsilon:g} at delta {encoder.delta:g} ({format_up(encoder.plan_.mu)}-GDP)"
        both = "" if journal is None else f" (privol account {journal} RUN)"
        click.echo(
            f"privol: the schema cost {cost_of} of {rows:,} rows; the figure of a run by it is without that, and on "
            f"the same rows both add up{both}",
            err=True,
        )
    else:
        click.echo("privol: warning: this schema is NOT PRIVATE: " + _why(encoder), err=True)


def _open_ledger(journal: Path, adjacency: str) -> Ledger:
    """Open a journal, which keeps its limit, or begin one without a limit."""
    from ..ledger import Ledger

    if not journal.exists() or not journal.stat().st_size:
        return Ledger(adjacency=adjacency, journal=journal)
    found = Ledger.read(journal)
    limit: dict[str, Any] = {"epsilon": found.epsilon, "delta": found.delta, "slack": found.slack}
    return Ledger(adjacency=found.adjacency, journal=journal, **limit)


def _why(encoder: Any) -> str:
    return "its noise came from a known seed" if not math.isinf(encoder.plan_.mu) else "it was learnt without noise"


def _folded(text: str) -> list[str]:
    import textwrap

    return textwrap.wrap(text, 116, break_long_words=False, break_on_hyphens=False)
