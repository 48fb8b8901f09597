"""``privol run`` with an offline learner: all rows in memory, one release, nothing to resume from."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import click

from ..errors import StateError
from ..readers.source_urls import is_live, states_rows
from .options import budget_in_epsilon, given_parameters, learner_name
from .outputs import RunDirectory, naming_rows, printing, uninterrupted
from .prepare import check_labels
from .progress import fitting
from .records import describe_dropped, doubts_of_fit, figures_of, noise_record, write_run
from .streams import open_for_run, parts_for_run, unread_pipe

__all__ = ["fit_rows", "resume_fit"]

LEDGER = "ledger.jsonl"
#: Options for runs of rows in order, with the values that request nothing.
_NOT_OFFLINE: dict[str, Any] = {
    "horizon": None, "private_metrics": None, "metric_windows": None, "drift_alarm": None, "checkpoint": 0,
    "show_releases": False, "delay": None, "drop": None, "cross": (), "sketch": 0, "learn_schema": False,
    "schema_share": None,
}  # fmt: skip

_LEARNS = ": privol info FILE --private learns a schema for it, under a budget of its own"
_HELPS = dict.fromkeys(("drop", "cross", "sketch", "learn_schema", "schema_share"), _LEARNS)


def fit_rows(
    ctx: click.Context,
    out: str | None,
    *,
    file: str | None,
    learner: str,
    seed: int | None,
    diagnostics: bool,
    as_json: bool,
    verbose: bool,
    quiet: bool,
    crew: Any = None,
    **options: Any,
) -> None:
    """Do what a command says: fit all rows, and leave the run in a directory.

    ``crew``: of workers that read the files; this process is their curator.

    The budget is reserved in the journal before the fit, and the model is on the disk before it is paid for; nothing is
    printed before both are there for good. What ends a fit after its reservation, Ctrl-C among it, may be the rows'
    doing: the budget then counts as spent, and the directory stays to say so.
    """
    from ..evaluate import Tape
    from ..learners import OFFLINE_LEARNERS
    from ..ledger import Ledger
    from ..state import SealedRelease

    _refuse_others(ctx, learner, {name: options.pop(name) for name in _NOT_OFFLINE})
    given = budget_in_epsilon(learner, given_parameters(options))
    if seed is not None:
        given["random_state"] = seed
    name = learner_name(learner, given)
    with ExitStack() as stack, RunDirectory(out) as directory:
        directory.keep_out_of(file)
        if file is not None and is_live(file) and not states_rows(file):
            raise click.UsageError(f"{learner} takes all rows at once, and messages have no end: rows=N in the URL")
        parts = None if crew is None or file is None else parts_for_run(file, options)
        stream, inputs = open_for_run(file, options, False)
        tape = stack.enter_context(Tape(stream)) if diagnostics else None
        chosen = None
        if stream.schema is not None and stream.schema.learnt is not None:
            given.setdefault("on_invalid", "zero")  # a label that was too rare to be learnt makes a null row
        if not stream.users_fixed:
            given.setdefault("on_invalid", "zero")  # surplus rows of users are null rows
        implied = "x_bound" not in given and stream.row_bound is not None
        if implied:
            given["x_bound"] = stream.row_bound
            chosen = "schema" if stream.schema is not None else "ranges"
        made: Any = OFFLINE_LEARNERS[name](**given)
        check_labels(made, stream, file)
        n_classes = 2 if stream.classes is None else len(stream.classes)
        made.calibrate(stream.n_features, stream.n_rows or 1, n_classes)  # refuses parameters before a row is read
        talking, start = not (as_json or quiet), time.perf_counter()
        directory.keep()  # until it is known that nothing was spent
        try:
            with closing(Ledger(adjacency=made.adjacency, journal=directory.path / LEDGER)) as made.ledger:
                seal = SealedRelease(directory.path, inputs=inputs)
                with naming_rows(stream), fitting(stream.source, wanted=talking):
                    if parts is None:
                        made.fit_stream(stream if tape is None else tape, seal=seal)
                    else:
                        made.fit_parts(parts, crew, seal=seal)
            seconds = time.perf_counter() - start
            with uninterrupted():
                record = describe_fit(made, stream, inputs, seconds=seconds, x_bound_from=chosen)
                if parts is not None:
                    record["parts"] = len(parts)
                if tape is not None:
                    _evaluate(record, made, tape, stream)
                if file is None and unread_pipe():
                    record["warnings"].append(
                        "what comes through the pipe was not read: these are the rows that come with the package; "
                        "privol run - reads standard input"
                    )
                write_run(directory.path, made, record, None, None)
        except BaseException as error:
            _say_what_is_left(error, made, directory)
            raise
    with printing(f"; the run is in {record['out']}"):
        if as_json:
            click.echo(json.dumps(record, allow_nan=False))
        elif not quiet:
            from .brief import show_run

            show_run(record, verbose=verbose)


def _evaluate(record: dict[str, Any], made: Any, tape: Any, stream: Any) -> None:
    """Compare the model with a constant on the rows from which it was learnt. Not private."""
    from ..evaluate import beside_constant

    found = record["diagnostics"] = beside_constant(made, tape, stream)
    record["warnings"] += doubts_of_fit(found)


def _refuse_others(ctx: click.Context, learner: str, given: Mapping[str, Any]) -> None:
    """Refuse options for runs of rows in order."""
    from click.core import ParameterSource

    for name, value in given.items():
        stated = ctx.get_parameter_source(name) not in (ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP)
        if stated and value != _NOT_OFFLINE[name]:
            raise click.UsageError(
                f"--{name.replace('_', '-')} is not an option of --learner {learner}, which takes all rows at once and "
                f"makes one release{_HELPS.get(name, '')}"
            )


def _say_what_is_left(error: BaseException, made: Any, directory: RunDirectory) -> None:
    """Leave nothing if nothing was spent; otherwise say what was, in the directory too."""
    with uninterrupted():
        ledger = made.ledger
        entries = [] if ledger is None else ledger.entries()
        if not any(entry.open or entry.mu_squared for entry in entries):
            directory.drop()
            return
        if (directory.path / "model.json").exists():
            error.add_note(f"the model and what it spent are in {directory.path}")
            return
        (entry,) = entries
        sealed = (directory.path / "secret").exists()
        error.add_note(
            f"no model is shown, but the budget counts as spent: {directory.path}/{LEDGER} says so"
            + (f"; privol resume {directory.path} ends the run" if sealed else "")
        )
        with suppress(OSError):
            if not sealed:
                held = ledger.accounts[0].reserved_mu_squared if entry.open else entry.mu_squared
                _write_ended(directory.path, _ended("failed", entry.rows, 0, held, None))


def describe_fit(
    made: Any, stream: Any, inputs: dict[str, Any], *, seconds: float, x_bound_from: str | None
) -> dict[str, Any]:
    """Return the record of a fit, in the words of :func:`privol.cli.records.describe_run`."""
    from .. import __version__
    from ..guarantees import weaknesses
    from ..learners.views import derived_of
    from ..state import claims_of, describe_parameters, fit_record

    guarantee, ledger, n = made.guarantee_, made.ledger_, made.n_rows_
    (account,), spent, delta = ledger.accounts, ledger.spent, guarantee.delta
    reserved, users = claims_of(guarantee, [account])
    plan = made.calibrate(stream.n_features, n, 2 if stream.classes is None else len(stream.classes))
    noise, drowned = (None, None) if guarantee.kind == "none" else _noise_of(made, plan, stream)
    warnings = list(weaknesses(guarantee, rows=n))
    if drowned is not None:
        helps = "More rows or a larger --epsilon help" + ("" if made.l2 is None else ", and so may no --l2")
        warnings.append(f"{drowned}. {helps}; privol plan with the same options says how much")
    if stream.schema is not None and stream.schema.derived_from_data:
        warnings.insert(
            0,
            f"{stream.schema.name} was derived from the data (derived_from_data = true): the guarantee does not hold "
            "until each range, level and label in it is replaced or confirmed by public knowledge",
        )
    return {
        "format": "privol.run",
        "version": 1,
        "privol": __version__,
        "status": "complete",
        "interrupted_while": None,
        "resumed": False,
        "source": stream.source,
        "learner": type(made).__name__,
        "parameters": describe_parameters(made),
        "derived": derived_of(plan),
        "inputs": inputs,
        "rows": n,
        "horizon": None,
        "features": stream.n_features,
        "classes": None if stream.classes is None else [str(label) for label in stream.classes],
        "model_private": guarantee.private and guarantee.kind != "none",
        "summary": guarantee.summary(),
        "warnings": warnings,
        "guarantee": guarantee.to_record(),
        "mechanism": fit_record(made),
        "sentence": guarantee.sentence(),
        "together": None,
        "users": users,
        "budget": {
            "delta": delta,
            "reserved": reserved,
            "spent": figures_of(spent.mu, spent.epsilon(delta)),
            "shares": {account.learner: reserved},
        },
        "releases": made.n_releases_,
        "release_rows": [n],
        "noise": noise,
        "dropped": describe_dropped(stream),
        "set_aside": stream.set_aside,
        "seconds": seconds,
        "rows_per_second": n / max(seconds, 1e-9),
        "x_bound_from": x_bound_from,
        "out": None,
        "files": {},
        "private_metrics": None,
        "diagnostics": None,
    }


def _noise_of(made: Any, plan: Any, stream: Any) -> tuple[dict[str, Any], str | None]:
    """Public figures of the noise, for all scores as one vector, and a warning."""
    from ..planning import drowned_fit, in_objective, noise_of_fit

    row = noise_of_fit(plan, n=made.n_rows_, x_bound=made.x_bound, intercept=bool(made.fit_intercept))
    inside = in_objective(plan)
    figures = noise_record(row, stream, bound=inside)
    if inside:
        figures["sensitivity"] = None  # no released vector has one: b hides the rows within the objective
    return figures, drowned_fit(plan, row)


# ---- after a crash ------------------------------------------------------------------------------------------


def resume_fit(directory: str, path: Path, *, end: bool, others: bool, as_json: bool, quiet: bool) -> bool:
    """End a fit that was killed; False where there is none.

    A model that was sealed is paid for and shown, and one that is shown but was not described has its record written.
    Without a model nothing was released; the budget counts as spent, and no other fit is begun here, because it would
    pay again.
    """
    from ..learners import TABLE
    from ..ledger import Ledger
    from ..state import SealedRelease

    if not (path / LEDGER).exists() or ((path / "model.json").exists() and (path / "run.json").exists()):
        return False
    found = Ledger.read(path / LEDGER)
    accounts = found.accounts
    if len(accounts) != 1 or accounts[0].learner not in {entry.kind for entry in TABLE if entry.group == "rest"}:
        return False
    if others:
        raise click.UsageError("this run can only be ended: it takes no FILE and has no diagnostics")
    seal = SealedRelease(path)
    shown = (path / "model.json").exists()  # it was killed before it had described itself
    if seal.read() is None and not end and not shown:
        raise StateError(
            f"{directory}: the fit was interrupted before its only release, so there is nothing to resume. Nothing was "
            "released, but its budget counts as spent, as what ended it may depend on the rows; another privol run "
            f"pays again. privol resume {directory} --end closes its account"
        )
    with closing(Ledger(adjacency=found.adjacency, journal=path / LEDGER)) as ledger:
        account, sentence = ledger.accounts[0], None
        record = seal.read()
        if (path / "run.json").exists() and (path / "model.json").exists():
            return False  # finished by its own process in the meantime
        if record is not None or (path / "model.json").exists():
            record = seal.complete(ledger)
            sentence = record["sentence"]
        elif not account.closed:
            account.close_at(account.entry().rows, 0, account.reserved_mu_squared)
        entry = account.entry()
    rows = entry.rows if record is None else int(record["n_rows"])
    said = _ended("ended" if record is None else "complete", rows, entry.releases, entry.mu_squared, sentence)
    _write_ended(path, said)
    with printing(f"; the run is in {directory}"):
        if as_json:
            click.echo(json.dumps(said, allow_nan=False))
        elif not quiet:
            what = "nothing was released, and its budget counts as spent"
            if record is not None:
                what = f"the model that was ready is in {directory}, and paid for"
            click.echo(f"{directory}: ended; {what}")
    return True


def _ended(status: str, rows: int, releases: int, mu_squared: float, sentence: str | None) -> dict[str, Any]:
    mu = math.sqrt(mu_squared)
    return {
        "format": "privol.ended-run",
        "version": 1,
        "status": status,
        "rows": rows,
        "releases": releases,
        "spent": {"mu": "inf" if math.isinf(mu) else mu},
        "sentence": sentence,
    }


def _write_ended(path: Path, record: dict[str, Any]) -> None:
    from .._files import write_atomically

    write_atomically(path / "run.json", json.dumps(record, indent=1, allow_nan=False).encode() + b"\n")
