"""``privol resume``: continue a run that a crash, an error or Ctrl-C interrupted."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import chdir, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .._threads import set_threads
from ..errors import InvalidParameter, StateError, StreamError
from ..readers.source_urls import NOT_KEPT, is_url
from .outputs import RunDirectory, never_began, printing
from .records import fields_of, read_run

if TYPE_CHECKING:
    from .run import Watcher

__all__ = ["continue_run", "resume"]


@click.command()
@click.argument("directory", metavar="RUN")
@click.argument("file", required=False)
@click.option(
    "--end",
    is_flag=True,
    help="End the run without its rows and without another release: its unspent budget is freed, and its noise key is "
    "removed.",
)
@click.option(
    "--no-diagnostics",
    "plain",
    is_flag=True,
    help="Leave out the diagnostics of the run, and resume from its last checkpoint.",
)
@click.option(
    "--rest",
    is_flag=True,
    help="Resume with the rows after the learnt ones, and compare none: FILE is read from there; a pipe must bring "
    "only these rows. The users seen are on the disk, so a cap holds. Needs --no-diagnostics if the run has "
    "diagnostics.",
)
@click.option("--next-row", is_flag=True, help="Print the number of the first row that is not learnt, for --rest.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
@click.pass_context
def resume(
    ctx: click.Context,
    directory: str,
    file: str | None,
    end: bool,
    plain: bool,
    rest: bool,
    next_row: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Resume an interrupted run: it ends as if nothing had happened.

    privol reads the rows again from the first, with the options of the run. They must be the rows that taught the
    encoding (in a pipe these are not compared) and then those that were learnt. FILE says where they are now, if they
    have moved. Rows that are learnt already are compared and skipped. To evaluate them (diagnostics, private metrics)
    they are learnt once more, with the same noise: this costs time but no budget, and releases the same models.

    A database is read on behind the last row that is kept, by its key, unless the run is evaluated; rows inserted or
    deleted before it are an error. So are the messages of a broker, of which none may be gone. What of a URL may be
    secret is not kept (passwords, keys, all that follows the ? for a web server): give the URL once more as FILE,
    unless the client finds a password or key itself.

    The fit of an offline learner is one step and cannot resume. If its model was ready when it was killed, the model is
    paid for and shown. Otherwise nothing was released, the budget counts as spent, and only --end is left.

    \b
    Examples:
        privol resume RUN
        privol resume RUN moved/clinic.csv --no-diagnostics
        zcat rows.csv.gz | privol resume RUN
        privol resume RUN --rest --no-diagnostics
        privol resume RUN --end
    """
    from ..state import State
    from .offline import resume_fit

    if (end or next_row) and (file is not None or plain or rest or (end and next_row)):
        raise click.UsageError(f"{'--end' if end else '--next-row'} reads no rows: give no FILE and no option about it")
    path = Path(directory).absolute()
    kept = State(path).read() if path.is_dir() else None
    if kept is None:
        others = file is not None or plain
        if path.is_dir() and resume_fit(directory, path, end=end, others=others, as_json=as_json, quiet=quiet):
            return
        where = (
            "the run is finished: privol predict and privol report use it"
            if (path / "model.json").exists()
            else _nothing_to_resume(path)
        )
        raise StateError(f"{directory}: {where}")
    if next_row:
        click.echo(State(path).next_row())
        return
    if State(path).finish():
        _show_finished(directory, path, as_json, quiet)
        return
    if end:
        _end(directory, path, as_json, quiet)
        return
    continue_run(ctx.parent, directory, kept, file=file, plain=plain, rest=rest, as_json=as_json, quiet=quiet)


def continue_run(
    parent: click.Context | None,
    directory: str,
    kept: dict[str, Any],
    *,
    file: str | None,
    plain: bool,
    rest: bool,
    as_json: bool,
    quiet: bool,
    watch: Watcher | None = None,
) -> None:
    """Let a kept run go on, by the options that it was begun with.

    Parameters
    ----------
    parent : click.Context or None
    directory : str
    kept : dict
        What :meth:`privol.state.State.read` returns.
    file, plain, rest, as_json, quiet
        As those of ``privol resume``; ``plain``: no diagnostics.
    watch : Watcher, optional
        As for :func:`learn_rows`.
    """
    from .run import learn_rows, run

    path = Path(directory).absolute()
    command = kept["context"]
    if command is None:
        raise StateError(
            f"{directory}: this run was not begun by privol run; in Python, learner.fit_stream(stream, "
            f"checkpoint=State({directory!r})) resumes it"
        )
    given: dict[str, Any] = run.make_context("run", list(command["words"]), parent=parent).params
    del given["out"]
    set_threads(given.pop("threads"))
    if file is not None:
        given["file"] = file if file == "-" or is_url(file) else str(Path(file).absolute())
    if watch is not None:
        given["show_releases"] = True  # each is to be seen at once
    if plain:
        given |= {"diagnostics": False} | ({} if given["private_metrics"] is not None else {"delay": None})
    if rest and (given["diagnostics"] or given["private_metrics"] is not None):
        raise click.UsageError(
            "--rest leaves rows out, and to evaluate a run takes all of them: --no-diagnostics (a run with "
            "--private-metrics can be resumed only with all of its rows)"
        )
    with RunDirectory(str(path), gone_on=True, shown=directory) as whole:
        if not Path(command["folder"]).is_dir():
            raise StateError(f"{directory}: the run was begun in {command['folder']}, which does not exist any more")
        withheld = file is None and command.get("withheld", False) and is_url(given["file"])
        with chdir(command["folder"]), _without_secrets(directory, given["file"], withheld):
            if given["workers"] is not None:
                from .workers import resume_parts

                resume_parts(whole, command, kept, **{**given, "as_json": as_json, "quiet": quiet})
                return
            del given["workers"]
            learn_rows(whole, command, kept, rest=rest, watch=watch, **{**given, "as_json": as_json, "quiet": quiet})


@contextmanager
def _without_secrets(directory: str, file: str, withheld: bool) -> Iterator[None]:
    """Let errors ask for the URL where the one that was kept lacks what was secret in it."""
    if withheld and file.lower().startswith(("http://", "https://")):  # no client finds that elsewhere
        raise StateError(f"{directory}: {NOT_KEPT}: give the URL once more, privol resume {directory} URL")
    try:
        yield
    except (InvalidParameter, StreamError) as error:
        if withheld:
            error.add_note(
                f"{NOT_KEPT}: give the URL once more, privol resume {directory} URL, unless its client finds them in "
                "the environment or in a file of its own"
            )
        raise


def _nothing_to_resume(path: Path) -> str:
    """Say why there is nothing: a run may have been killed after it had reserved its budget."""
    from ..ledger import Ledger

    journal = path / "ledger.jsonl"
    if journal.exists():
        accounts = Ledger.read(journal).accounts
        open_ = [account for account in accounts if account.facts.get("kept") and not account.closed]
        if open_ and not any(account.commits for account in open_):
            return (
                "the run was killed when its budget was reserved and nothing of it was kept: it learnt and released "
                "nothing, so begin it again in another directory"
                + ("" if len(open_) == len(accounts) else f"; {journal} says what its encoding has spent")
            )
    if never_began(path):
        return "no run has begun here, and nothing was learnt, released or spent: privol run --out begins one here"
    return "there is no run to resume here"


def _show_finished(directory: str, path: Path, as_json: bool, quiet: bool) -> None:
    """Show a run that had ended when its process was killed: its record had been sealed with its model."""
    from .brief import show_run

    if not (path / "run.json").exists():
        raise StateError(f"{directory}: the run is finished, and was killed before it was described")
    record = read_run(path)
    with printing(f"; the run is in {directory}"), fields_of(path):
        if as_json:
            click.echo(json.dumps(record, allow_nan=False))
        elif not quiet:
            show_run({**record, "out": directory}, verbose=False)


def _end(directory: str, path: Path, as_json: bool, quiet: bool) -> None:
    """End a run at its last checkpoint."""
    from .._files import write_atomically
    from ..ledger import Ledger
    from ..state import State

    found = Ledger.read(path / "ledger.jsonl")
    limit: dict[str, Any] = {"epsilon": found.epsilon, "delta": found.delta, "slack": found.slack}
    with closing(Ledger(adjacency=found.adjacency, journal=path / "ledger.jsonl", **limit)) as ledger:
        learner = State(path).end(ledger=ledger)
        spent = ledger.spent
        rows = max(entry.rows for entry in ledger.entries())
    shown = learner.__sklearn_is_fitted__()
    record = {
        "format": "privol.ended-run",
        "version": 1,
        "status": "ended",
        "rows": rows,
        "releases": learner.n_releases_ if shown else 0,
        "spent": {"mu": "inf" if math.isinf(spent.mu) else spent.mu},
        "sentence": learner.guarantee_.sentence() if shown else None,
    }
    # the remains of Ctrl-C concern an earlier row
    write_atomically(path / "run.json", json.dumps(record, indent=1, allow_nan=False).encode() + b"\n")
    with printing(f"; the run is in {directory}"):
        if as_json:
            click.echo(json.dumps(record, allow_nan=False))
        elif not quiet:
            model = f"the model released last is in {directory}"
            if not shown:
                model = "no model was released, but messages or metrics were" if spent.mu else "nothing was released"
            click.echo(f"{directory}: ended after row {rows:,}; {model}, and what was not spent is given back")
