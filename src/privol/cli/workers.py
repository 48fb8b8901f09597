"""``privol run --workers``: workers read rows in many files; one curator learns from their sums."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import click

from ..readers.source_urls import is_source
from .encoding import learns_encoding
from .options import OFFLINE, budget_in_epsilon, given_parameters, learner_name
from .outputs import RunDirectory, naming_rows, printing, uninterrupted
from .prepare import check_labels, weights_of
from .progress import fitting
from .records import describe_run, sealed_record, write_run
from .streams import open_for_run, parts_for_run

__all__ = ["MPI", "PartsOfFile", "learn_parts", "resume_parts", "run_parts"]

#: The value of ``--workers`` for the processes of an MPI job.
MPI = "mpi"
#: Options that need the rows here, or in one stream, with the values that request nothing.
_NOT_HERE: dict[str, Any] = {
    "private_metrics": None, "metric_windows": None, "drift_alarm": None, "delay": None, "drop": None, "cross": (),
    "schema_share": None,
}  # fmt: skip


class PartsOfFile:
    """The declarations for all files together: the stream that reads them in one process, of which no row is read."""

    def __init__(self, stream: Any, parts: list[Any]) -> None:
        self._stream, self.parts = stream, parts
        one = stream.rows_per_user
        self.rows_per_user = None if one is None else one * len(parts)
        self.user_separation = 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def run_parts(ctx: click.Context, out: str | None, command: dict[str, Any], *, workers: str, **options: Any) -> None:
    """Execute a command with ``--workers``, in this process and, with MPI, in the other ranks."""
    with _crew_of(workers) as crew:
        if not crew.curator:
            crew.serve()
            return
        _check(ctx, options)
        if options["learner"] in OFFLINE:
            from .offline import fit_rows

            fit_rows(ctx, out, crew=crew, **{**options, "diagnostics": False})
            return
        with RunDirectory(out) as directory:
            learn_parts(directory, command, None, crew, **options)


def resume_parts(directory: RunDirectory, command: dict[str, Any], kept: Mapping[str, Any], **options: Any) -> None:
    """Resume a run that was kept."""
    with _crew_of(options.pop("workers")) as crew:
        if crew.curator:
            learn_parts(directory, command, kept, crew, **options)
        else:
            crew.serve()


@contextmanager
def _crew_of(workers: str) -> Iterator[Any]:
    """The workers that an option names; those of MPI receive an error from here."""
    from ..distributed import DaskCrew, LocalCrew, RankCrew, Ranks

    if workers == MPI:
        ranks = Ranks()
        try:
            yield RankCrew(ranks)
        except BaseException as error:
            if not getattr(error, "on_all_ranks", False):
                ranks.fail(f"{type(error).__name__}; its own message says more")
            raise
    elif workers.isdecimal():
        yield LocalCrew(int(workers))
    else:
        with DaskCrew.at(workers) as crew:
            yield crew


def _check(ctx: click.Context, options: Mapping[str, Any]) -> None:
    """Refuse options that need the rows in this process."""
    from click.core import ParameterSource

    from ..learners import ALL_LEARNERS

    if options["learner"] is not None and not hasattr(ALL_LEARNERS[options["learner"]], "fit_parts"):
        able = ", ".join(sorted(name for name, kind in ALL_LEARNERS.items() if hasattr(kind, "fit_parts")))
        raise click.UsageError(f"--workers is for --learner {able}; found {options['learner']}")
    if options["file"] in (None, "-"):
        raise click.UsageError("--workers read files: give a FILE, a directory, or a quoted pattern of FILEs")
    if is_source(options["file"]):
        raise click.UsageError(
            "--workers read files, each its own, and FILE is one table or query of a database, or one stream of a "
            "broker: leave --workers out"
        )
    for name, nothing in _NOT_HERE.items():
        if options[name] != nothing:
            raise click.UsageError(
                f"--{name.replace('_', '-')} needs the rows in one process: --workers cannot have it"
            )
    if ctx.get_parameter_source("diagnostics") is not ParameterSource.DEFAULT and options["diagnostics"]:
        raise click.UsageError("--diagnostics needs the rows in one process: no --workers")
    if options["horizon"] == "auto":
        raise click.UsageError("--workers count their rows, so --horizon auto does not apply: leave it out")
    if learns_encoding(options["file"], options["learn_schema"], options):
        raise click.UsageError(
            "--workers need to be told what the columns mean: --schema, --ranges or --x-bound; an encoding that is "
            "learnt is of one stream (privol info FILE --private learns a schema, under a budget of its own)"
        )


def learn_parts(
    directory: RunDirectory,
    command: dict[str, Any],
    kept: Mapping[str, Any] | None,
    crew: Any,
    *,
    file: str,
    learner: str | None,
    horizon: int | None,
    seed: int | None,
    checkpoint: int,
    show_releases: bool,
    as_json: bool,
    verbose: bool,
    quiet: bool,
    diagnostics: bool,
    learn_schema: bool | None,
    **options: Any,
) -> None:
    """Learn the rows of all files in one run, of which this process is the curator.

    Parameters
    ----------
    directory : RunDirectory
        Entered.
    command : dict
        What is kept of the command that began the run, to resume it.
    kept : dict or None
        What :meth:`privol.state.State.read` returns for a run that resumes; None: a new one.
    crew : Crew
        Entered.
    **options
        As those of ``privol run``.
    """
    from ..auto.defaults import behind_schema
    from ..learners import LEARNERS
    from ..ledger import Ledger
    from ..state import State
    from .run import say_what_is_left

    del diagnostics, learn_schema  # nothing is said of the rows, and nothing is learnt about their columns
    options = {name: value for name, value in options.items() if name not in _NOT_HERE}
    given = budget_in_epsilon(learner, given_parameters(options))
    given |= {} if seed is None else {"random_state": seed}
    given |= {} if horizon is None else {"horizon": horizon}
    name, chosen = learner_name(learner, {k: v for k, v in given.items() if k != "random_state"}), None
    with ExitStack() as stack:
        directory.keep_out_of(file)
        parts = parts_for_run(file, options)
        opened, inputs = open_for_run(file, options, False)
        stream = PartsOfFile(opened, parts)
        if not stream.users_fixed:
            given.setdefault("on_invalid", "zero")  # surplus rows of users are null rows
        if "x_bound" not in given and stream.row_bound is not None:
            given["x_bound"] = stream.row_bound
            chosen = "schema" if stream.schema is not None else "ranges"
        if "class_weight" in given:
            given["class_weight"] = weights_of(given["class_weight"], stream.classes)
        made: Any = LEARNERS[name](**given)
        check_labels(made, stream, file)
        journal = directory.path / "ledger.jsonl"
        made.ledger = stack.enter_context(closing(Ledger(adjacency=made.adjacency, journal=journal)))
        state: Any = None
        if checkpoint:
            shows = {"show_releases": show_releases}
            state = State(directory.path, every=checkpoint, inputs=inputs, context=command, **shows)
        elif show_releases:
            raise click.UsageError("--show-releases shows what is kept: leave --checkpoint 0 out")
        start = time.perf_counter()

        def described() -> dict[str, Any]:
            whole = behind_schema(made.guarantee_, stream.schema)
            how: dict[str, Any] = {"seconds": time.perf_counter() - start, "interrupted": None}
            record = describe_run(made, stream, inputs, whole=whole, resumed=kept is not None, **how)
            return record | {"shared": False, "x_bound_from": chosen, "encoding": None, "parts": len(parts)}

        if state is not None:
            state.described_by(lambda: sealed_record(directory.path, made, described(), None))
        try:
            with naming_rows(stream), fitting(stream.source, wanted=not (as_json or quiet)):
                made.fit_parts(parts, crew, checkpoint=state)
        except BaseException as error:
            say_what_is_left(error, made, directory, None, None)
            raise
        directory.keep()
        with uninterrupted():
            record = described()
            write_run(directory.path, made, record, None, None)
    with printing(f"; the run is in {directory.shown}"):
        if as_json:
            click.echo(json.dumps(record, allow_nan=False))
        elif not quiet:
            from .brief import show_run

            show_run({**record, "out": directory.shown}, verbose=verbose)
