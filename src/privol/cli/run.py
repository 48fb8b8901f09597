"""``privol run``: from a file to a private model."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import click

from .._threads import set_threads
from ..errors import BudgetExceeded
from ..learners import TABLE
from ..readers.source_urls import NOT_KEPT, to_keep
from .encoding import short_of_rows, unlabelled
from .learner_options import LEARNER_OPTIONS
from .option_types import CrossType, HorizonType, WorkersType
from .options import OFFLINE, learner_options
from .outputs import RunDirectory, naming_rows, printing, uninterrupted
from .prepare import Ready, prepare, say_spent
from .progress import watched
from .records import describe_cells, describe_run, sealed_record, write_run
from .streams import FILE_OPTIONS, stream_options, unread_pipe
from .topics import GroupedCommand, Topic

__all__ = ["Watcher", "command_of", "learn_rows", "run", "say_what_is_left"]

_PRIVACY = (
    "epsilon delta mu rows_per_user user_separation adjacency horizon renewal release private_metrics metric_windows "
    "drift_alarm calibration noise_shape"
)
_PARAMETERS = " ".join(o.parameter for o in LEARNER_OPTIONS if o.parameter not in ("loss", *_PRIVACY.split()))
_TOPICS = (
    Topic("columns", "What the columns mean (public)", "schema target classes positive ranges n_features columns"),
    Topic("learnt", "What is learnt of them (private)", "learn_schema drop cross sketch schema_share"),
    Topic("file", "How FILE is written", f"{FILE_OPTIONS} zero_based"),
    Topic("budget", "Budget and releases", _PRIVACY),
    Topic("learner", "Learner", f"learner loss huber_width smooth_hinge_width {_PARAMETERS}"),
    Topic(
        "output", "Output", "out checkpoint show_releases diagnostics delay threads workers as_json verbose quiet seed"
    ),
)
_BASICS = "target drop columns epsilon delta rows_per_user horizon release schema out diagnostics verbose as_json"
_DETAILS = """Rows are learnt in the order of FILE: shuffle a file that is sorted by something, unless the last rows are
what the model is for. Everything that the options and the schema say counts as public: choose bounds, labels, ranges
and releases without looking at the rows. Rows longer than --x-bound are scaled down to it.

Offline learners (objective-perturbation, output-perturbation, pol) take all rows into memory and release one model:
they need no --horizon, and have no schedule and no checkpoints. Diagnostics put it beside a constant.

Ctrl-C stops a run without another release and leaves RUN with what was released and spent by then; privol resume goes
on with it, as after a crash. If an error ends a run before it learns a row, no model was released and nothing is spent
or left, unless rows have taught what the columns mean: then the ledger stays. An offline learner cannot be resumed. Its
budget counts as soon as the ledger has it: Ctrl-C before that leaves and spends nothing; after that, Ctrl-C, an error
or a crash leaves RUN without a model and with its budget spent.

\b
More examples:
    privol run 'parts/*.parquet' --schema clinic.toml --private-metrics 0.1
    privol run covtype.data.gz --positive 2 --ranges ranges.json --x-bound 2 --radius 10 --release 100000
    privol run reviews.svm.bz2 --classes -1,1 --n-features 47236 --radius 10
    privol run prices.csv --sep tab --target price --loss huber --y-bound 5 --epsilon 0.5
    privol run clinic.csv --schema clinic.toml --learner objective-perturbation --l2 0.002
    privol run 'parts/*.csv' --schema clinic.toml --learner pqftl --loss squared --batch 1000 --workers 4
    zcat rows.csv.gz | privol run - --schema rows.toml --horizon 100000
"""
_COMMAND = "privol.cli.run.command"


class _RunCommand(GroupedCommand):
    """Remembers its words, for resuming the run, but for what is secret in them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = [to_keep(word) for word in args]
        ctx.meta[_COMMAND] = {"words": words, "withheld": words != args}
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Say at once what is read: the libraries that the run needs take a second to load."""
        if sys.stderr.isatty() and not (ctx.params["as_json"] or ctx.params["quiet"]):
            file = ctx.params["file"] or "the rows that come with privol"
            click.echo(f"Reading {to_keep(file)}", err=True)
        return super().invoke(ctx)


def command_of(ctx: click.Context) -> dict[str, Any]:
    """Return what is kept of a command that begins a run.

    ``withheld`` says whether a URL among its words had secrets, which are not.
    """
    return {**ctx.meta[_COMMAND], "folder": os.getcwd()}


@click.command(
    cls=_RunCommand,
    topics=_TOPICS,
    basics=_BASICS,
    details=_DETAILS,
    learners=tuple(entry.name for entry in TABLE),
    of_learners=frozenset(option.parameter for option in LEARNER_OPTIONS),
)
@click.argument("file", required=False)
@stream_options
@learner_options
@click.option(
    "--horizon",
    type=HorizonType(),
    metavar="ROWS|auto",
    help="Number of rows that the budget must last for; with --renewal, that of the first epoch. auto: any number of "
    "rows, without counting them, for somewhat more noise (adaptive, dpftrl, pqftl).  [default: the rows of FILE, "
    "which are counted first]",
)
@click.option(
    "--private-metrics",
    type=float,
    metavar="SHARE",
    help="Spend this share of the budget (of mu squared; such as 0.1) on progressive accuracy and loss that may be "
    "published with the models. Needs models along the way: --release K.",
)
@click.option("--metric-windows", type=int, help="With --private-metrics: figures along the run.  [default: 20]")
@click.option(
    "--drift-alarm",
    type=float,
    metavar="ALPHA",
    help="With --private-metrics: say whether, and where, the loss has got worse than in the first five windows. ALPHA "
    "is the probability of an alarm where it has not. Spends nothing.",
)
@click.option(
    "--learn-schema/--no-learn-schema",
    default=None,
    help="Learn from the first rows, within the budget, what the columns mean; the model learns the other rows. With "
    "--schema: learn what the schema does not name. Sparse rows: learn which features are frequent, and leave out the "
    "others (but see --sketch).  [default: for a FILE with columns, not -, unless --schema, --ranges or --x-bound is "
    "given]",
)
@click.option("--drop", metavar="A,B,...", help="Columns that a learnt encoding leaves out.")
@click.option(
    "--cross",
    type=CrossType(),
    multiple=True,
    metavar="A,B",
    help="Add features to a learnt encoding for what only both columns together say: one for each pair of their "
    "features. Costs no budget; may be given several times.",
)
@click.option(
    "--sketch",
    type=click.IntRange(min=0),
    default=0,
    metavar="WIDTH",
    help="Sparse rows whose frequent features are learnt: let all other features share this many, by a public hash. "
    "Costs no budget, and rarely gains anything.  [default: they are left out]",
)
@click.option(
    "--schema-share",
    type=float,
    metavar="SHARE",
    help="Learn the encoding from all rows for this share of the budget (of mu squared; such as 0.25), and the model "
    "from all rows for the rest. FILE is read twice.  [default: the encoding learns from the first rows and the model "
    "from the others, each with the whole budget; 0.25 where the first rows would be too few]",
)
@click.option("--seed", type=int, help="Reproducible noise, for tests: everything is then marked NOT PRIVATE.")
@click.option(
    "--out",
    metavar="RUN",
    help="Directory to write; must not exist or be empty.  [default: privol-run, numbered if taken]",
)
@click.option(
    "--checkpoint",
    type=click.IntRange(min=0),
    default=65536,
    show_default=True,
    metavar="ROWS",
    help="Rows between two saves, from which privol resume continues after a crash; the run is also saved every ten "
    "seconds if rows have come. Until it ends, RUN/secret holds its noise key: do not copy RUN. 0: save nothing.",
)
@click.option(
    "--show-releases",
    is_flag=True,
    help="Keep the newest released model in RUN/released while the run lasts, for privol serve RUN and privol publish. "
    "Needs --checkpoint.",
)
@click.option(
    "--diagnostics/--no-diagnostics",
    default=True,
    show_default=True,
    help="Evaluate the run on its own raw rows (NOT PRIVATE): progressive accuracy and loss, regret against the best "
    "fixed model and against the same learner without noise. Keeps the rows in an unnamed temporary file meanwhile.",
)
@click.option(
    "--delay",
    type=int,
    metavar="ROWS",
    help="Evaluate as if the label of a row came this many rows later. The models are the same.  [default: 0]",
)
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    metavar="N",
    help="Threads to read, encode and learn with; OMP_NUM_THREADS is obeyed too. No released bit depends on it.  "
    "[default: the processors that privol may use, at most 8]",
)
@click.option(
    "--workers",
    type=WorkersType(),
    metavar="N|mpi|URL",
    help="Let workers read the files of FILE, each its own, and learn from their sums: N threads; mpi: the processes "
    "of mpiexec privol run; the URL of a Dask scheduler. With --schema, --ranges or --x-bound, for the learners "
    "adaptive, dpftrl (--batch 64 or more), pqftl, objective-perturbation and output-perturbation; no diagnostics. No "
    "released bit depends on how many there are.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
@click.option("--verbose", is_flag=True, help="Print the whole report, with the guarantee in full.")
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
def run(out: str | None, threads: int | None, **options: Any) -> None:
    """Learn a private model from the rows of FILE, once, in order.

    FILE is CSV, JSON lines, libsvm (plain or gz, bz2, xz, zst), Parquet, Arrow, .npy or .npz; a directory or a quoted
    pattern of such files, in the order of their names; a table of a database, sqlite:///FILE?table=NAME&order=KEY,
    duckdb:///... or postgresql://...; messages of a broker, redis://HOST/0?stream=NAME&group=NAME, kafka://HOST/TOPIC
    or mqtt://HOST/TOPIC, or - for standard input, which need --horizon (auto: any number of rows).
    Without FILE: 120,000 real rows that come with the package (Forest Covertype, lodgepole pine against the rest).

    What the columns mean is learnt from the first rows, within the budget; the model learns the others. Whatever the
    options and a schema say counts as public: choose it without looking at the rows.

    \b
    Writes into RUN:
        model.npz, model.json   the last released model and its guarantee
        ledger.jsonl            what was spent, which privol account explains
        private_metrics.json    with --private-metrics: may be published
        released/               with --show-releases: the newest model, meanwhile
        metrics.json, plot.png  diagnostics, NOT PRIVATE (unless --no-diagnostics)
        run.json                what was run, and how it ended, as --json

    Ctrl-C stops a run and keeps it for privol resume. The fit of an offline learner cannot be resumed, and its budget
    may be spent.

    \b
    Examples:
        privol run
        privol run clinic.csv --target outcome --epsilon 1 --out RUN
        privol run visits.csv --target outcome --drop name,address
        privol run events.jsonl --target clicked --classes false,true
        privol run clinic.csv --schema clinic.toml
    """
    ctx = click.get_current_context()
    set_threads(threads)
    command = command_of(ctx)
    if options["workers"] is not None:
        from .workers import run_parts

        run_parts(ctx, out, command, **options)
        return
    del options["workers"]
    if options["learner"] in OFFLINE:
        from .offline import fit_rows

        fit_rows(ctx, out, **options)
        return
    with RunDirectory(out) as directory:
        learn_rows(directory, command, None, **options)


class Watcher(Protocol):
    """Who looks on while a run learns: told of its stream once, and after every block of the learner and its inputs."""

    def follow(self, stream: Any) -> None: ...

    def offer(self, learner: Any, inputs: dict[str, Any]) -> None: ...


def learn_rows(
    directory: RunDirectory,
    command: dict[str, Any],
    kept: dict[str, Any] | None,
    *,
    rest: bool = False,
    watch: Watcher | None = None,
    file: str | None,
    learner: str | None,
    horizon: int | Literal["auto"] | None,
    private_metrics: float | None,
    metric_windows: int | None,
    drift_alarm: float | None,
    learn_schema: bool | None,
    drop: str | None,
    cross: tuple[tuple[str, str], ...],
    sketch: int,
    schema_share: float | None,
    seed: int | None,
    checkpoint: int,
    show_releases: bool,
    diagnostics: bool,
    delay: int | None,
    as_json: bool,
    verbose: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Do what a command says, in a directory.

    Parameters
    ----------
    directory : RunDirectory
        Entered.
    command : dict
        What is kept of the command that began the run, to resume it; and of what taught the encoding, for the record.
    kept : dict or None
        What :meth:`privol.state.State.read` returns for a run that resumes; None: a new one.
    rest : bool
        Whether it resumes with the rows after the learnt ones.
    watch : Watcher, optional
        With one, an interrupt is KeyboardInterrupt, and the caller says what is left.
    **options
        As those of ``privol run``.
    """
    from ..learners.views import run_of
    from ..state import State

    if diagnostics:
        from .. import plots  # noqa: F401 (a missing package is detected before the run, not after it)
    with ExitStack() as stack:
        ready = prepare(
            directory, stack, file=file, learner=learner, horizon=horizon, options=options, kept=kept,
            learn_schema=learn_schema, drop=drop, crosses=cross, sketch=sketch, schema_share=schema_share,
            private_metrics=private_metrics, metric_windows=metric_windows, drift_alarm=drift_alarm, seed=seed,
            diagnostics=diagnostics, delay=delay, talking=not (as_json or quiet),
        )  # fmt: skip
        if kept is not None:  # the data that taught the encoding are gone; for older runs nothing is known
            ready = replace(ready, encoding=command.get("encoding"))
        command = {**command, "encoding": ready.encoding}
        made, stream = ready.made, ready.stream
        rows = stream.n_rows if ready.renewed else ready.horizon
        shown = watched(rows, made.delta, counted=stream.n_rows is not None, wanted=not (as_json or quiet))
        state: Any = None
        if checkpoint:
            words: dict[str, Any] = {"every": checkpoint, "show_releases": show_releases, "rest": rest or None}
            state = State(directory.path, inputs=ready.inputs, context=command, **words)
        elif show_releases:
            raise click.UsageError("--show-releases shows what is kept: leave --checkpoint 0 out")

        about: dict[str, Any] = {"resumed": kept is not None, "unread": file is None, "delay": delay or 0}

        def report(ended: _Ended) -> dict[str, Any]:
            return _report(directory, ready, ended, **about)

        begun = time.perf_counter()

        def sealed() -> tuple[dict[str, Any], int]:
            ended = _Ended(time.perf_counter() - begun, [])
            return sealed_record(directory.path, made, *_record(ready, ended, **about))

        if state is not None:
            state.described_by(sealed)
        try:
            if state is not None and ready.taught is not None:
                if kept is None:
                    state.keep_taught(ready.taught)
                elif state.knows_taught:  # not for a pipe
                    state.expect_taught(ready.taught)
            with _saying_what_helps(stream, ready.stated), shown as (tick, stage):
                if watch is not None:
                    watch.follow(stream)
                    tick = _both(tick, watch.offer, ready.inputs)
                ended = _learn(made, stream, state, diagnostics, delay or 0, ready.private, tick, stage, report)
        except BaseException as error:
            if state is not None and ready.taught is not None:
                state.forget_taught()
            say_what_is_left(error, made, directory, ready.encoder, file)
            raise
    directory.keep()
    try:
        record = report(ended)
    except OSError as error:
        say_what_is_left(error, made, directory, ready.encoder, file)
        raise
    with printing(f"; the run is in {directory.shown}"):
        if as_json:
            click.echo(json.dumps(record, allow_nan=False))
        elif not quiet:
            from .brief import show_run

            show_run({**record, "out": directory.shown}, verbose=verbose)
    if ended.interrupted is not None and watch is not None:
        raise KeyboardInterrupt
    if ended.interrupted is not None:
        from .app import INTERRUPTED

        left = "what was released by then is" if made.n_releases_ else "nothing was released by then; the account is"
        where, learnt = directory.shown, run_of(made)
        if learnt is not None and not learnt.account.closed:
            where += f"; {_continues(directory, file)}"
        click.echo(f"privol: error: interrupted after row {made.n_rows_:,}; {left} in {where}", err=True)
        raise click.exceptions.Exit(INTERRUPTED)


def _both(
    tick: Callable[[Any, Any], None], watch: Callable[[Any, dict[str, Any]], None], inputs: dict[str, Any]
) -> Callable[[Any, Any], None]:
    def both(learner: Any, stream: Any) -> None:
        tick(learner, stream)
        watch(learner, inputs)

    return both


def _report(directory: RunDirectory, ready: Ready, ended: _Ended, **about: Any) -> dict[str, Any]:
    """Write the whole report of the run; Ctrl-C waits."""
    with uninterrupted():
        record, released = _record(ready, ended, **about)
        metrics = None
        if ended.comparison is not None:
            metrics = {**ended.comparison.to_record(), "cells": describe_cells(ready.stream)}
        write_run(directory.path, ready.made, record, metrics, released)
        return record


def _record(
    ready: Ready, ended: _Ended, *, resumed: bool, unread: bool, delay: int
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The record of the run, and that of its private metrics."""
    from ..auto.defaults import behind_schema, with_schema

    made, stream = ready.made, ready.stream
    released, whole = None, made.guarantee_
    if ready.private is not None:
        found = _released(made, ready.private, ended.windows, ready.horizon, delay)
        released, whole = found.to_record(), found.guarantee
        if ready.drift_alarm is not None:
            from ..evaluate import DriftAlarm

            alarm = DriftAlarm(alpha=ready.drift_alarm)
            alarm.watch(found)
            released["drift_alarm"] = alarm.to_record()
    whole = (with_schema if ready.shared else behind_schema)(whole, stream.schema)
    how: dict[str, Any] = {"seconds": ended.seconds, "interrupted": ended.interrupted}
    how |= {"resumed": resumed, "shared": ready.shared, "unsized": ready.unsized}
    record = describe_run(made, stream, ready.inputs, whole=whole, **how)
    record["shared"] = ready.shared
    record["x_bound_from"] = ready.x_bound_from
    record["encoding"] = ready.encoding
    if ready.encoding is not None:
        said = (short_of_rows(ready.encoding), unlabelled(ready.encoding))
        record["warnings"] += [words for words in said if words is not None]
    if unread and unread_pipe():
        record["warnings"].append(
            "what comes through the pipe was not read: these are the rows that come with the package; privol run "
            "- --horizon N reads standard input"
        )
    return record, released


def say_what_is_left(error: BaseException, made: Any, directory: RunDirectory, encoder: Any, file: str | None) -> None:
    """Make sure that what was learnt before an error stays, and say so."""
    from ..learners.views import run_of

    run = run_of(made)
    if run is None or not run.kept or not made.n_rows_:
        say_spent(error, encoder, directory)
        return
    directory.keep()
    if not run.account.closed:
        rows = f"{made.n_rows_:,}"
        error.add_note(f"what was learnt until row {rows} is kept: {_continues(directory, file)}")
    elif made.n_releases_:
        error.add_note(f"the model and what it spent are in {directory.shown}")


def _continues(directory: RunDirectory, file: str | None) -> str:
    """Say how a run goes on, and what a pipe must bring then."""
    if file is not None and to_keep(file) != file:
        return f"privol resume {directory.shown} URL continues it: {NOT_KEPT}"
    rows = ", with all rows again, or with --rest those from its --next-row on" if file == "-" else ""
    return f"privol resume {directory.shown} continues it{rows}"


@contextmanager
def _saying_what_helps(stream: Any, stated: int | None) -> Iterator[None]:
    """Let an error about a stated horizon suggest a remedy; only reading showed that there are more rows."""
    try:
        yield
    except BudgetExceeded as error:
        if stated is None or "would exceed the horizon" not in str(error):
            raise
        helps = "give --horizon at least the rows of the input"
        if stream.repeatable:
            helps = "leave --horizon out (the rows are then counted first), or give at least their number"
        if stream.rows_per_user is not None:
            helps += "; rows beyond the cap of a user are not counted"
        raise BudgetExceeded(f"{error}; {helps}") from error


@dataclass
class _Ended:
    """The outcome of learning: ``interrupted`` names the signal, ``windows`` are the metrics released by then."""

    seconds: float
    windows: list[Any]
    comparison: Any = None
    interrupted: str | None = None


def _learn(
    made: Any,
    stream: Any,
    state: Any,
    diagnostics: bool,
    delay: int,
    private: Any,
    tick: Callable[[Any, Any], None],
    stage: Callable[[str], None],
    report: Callable[[_Ended], object],
) -> _Ended:
    """Learn the rows; if a comparison follows, the report of the run is written before it."""
    from ..learners.views import end_run, run_of

    ended = _Ended(0.0, [])
    doing, start = "learning", time.perf_counter()

    def enter(words: str) -> None:
        nonlocal doing
        if doing == "learning" and state is not None:
            ended.seconds = time.perf_counter() - start
            report(ended)
        doing = "comparing"
        stage(words)

    settings: dict[str, Any] = {"delay": delay, "private": private, "checkpoint": state}
    settings["on_window"] = ended.windows.append
    try:
        with naming_rows(stream):
            if diagnostics:
                from ..evaluate import compare

                with _keeping_rows():
                    ended.comparison = compare(made, stream, **settings, progress=tick, stage=enter)
                ended.seconds = ended.comparison.run.progressive.seconds
            elif private is not None:
                from ..evaluate import progressive

                progressive(made, stream, **settings, metrics=(), progress=tick)
            else:
                made.fit_stream(stream, progress=tick, checkpoint=state)
    except KeyboardInterrupt:
        if run_of(made) is None:
            raise  # before the first row
        end_run(made)  # without a release: the schedule, not the interrupt, decides when there is one
        ended.interrupted = doing
    ended.seconds = ended.seconds or time.perf_counter() - start
    return ended


@contextmanager
def _keeping_rows() -> Iterator[None]:
    """Name the file that cannot be written, and an alternative that works without it."""
    try:
        yield
    except OSError as error:
        what = "the temporary file of the diagnostics (--no-diagnostics does without; TMPDIR puts it elsewhere)"
        raise OSError(error.errno, error.strerror, what) from error


def _released(made: Any, private: Any, windows: list[Any], horizon: int, delay: int) -> Any:
    from ..evaluate import Task
    from ..learners.views import export_of

    windowed = "metrics_beyond_models"  # an encoding may have an account there, too
    guarantee = next(a.guarantee for a in made.ledger_.accounts if a.guarantee.released == windowed)
    return private.result(
        windows,
        task=Task.of(made, export_of(made).classes),
        y_bound=made.y_bound,
        horizon=horizon,
        guarantee=guarantee,
        models=made.guarantee_,
        delay=delay,
    )
