"""``privol resume``: go on with a run that a crash, an error or Ctrl-C cut short."""

from __future__ import annotations

from contextlib import chdir
from pathlib import Path
from typing import Any

import click

from ..errors import StateError
from .outputs import RunDirectory

__all__ = ["resume"]


@click.command()
@click.argument("directory", metavar="RUN")
@click.argument("file", required=False)
@click.option(
    "--end",
    is_flag=True,
    help="End the run without its rows and without another release: what it has not spent is given back, and its noise "
    "key is removed.",
)
@click.option(
    "--no-diagnostics",
    "plain",
    is_flag=True,
    help="Leave out the diagnostics that the run was begun with, and go on from where it was kept last.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
@click.pass_context
def resume(
    ctx: click.Context, directory: str, file: str | None, end: bool, plain: bool, as_json: bool, quiet: bool
) -> None:
    """Go on with a run that a crash, an error or Ctrl-C cut short: it ends as if nothing had happened.

    The rows are read again from the first, by the options that the run was begun with, and must be those that were
    learnt; FILE says where they are now, if that has changed. Rows that are learnt already are compared and skipped. To
    evaluate them (diagnostics, private metrics) they are learnt once more, with the same noise, which costs time and no
    budget: the same models are released.

    \b
    Examples:
        privol resume RUN
        privol resume RUN moved/clinic.csv --no-diagnostics
        zcat rows.csv.gz | privol resume RUN
        privol resume RUN --end
    """
    from ..state import State
    from .run import learn_rows, run

    path = Path(directory).absolute()
    kept = State(path).read() if path.is_dir() else None
    if kept is None:
        where = "the run is finished" if (path / "model.json").exists() else "no run to go on with is here"
        raise StateError(f"{directory}: {where}")
    command = kept["context"]
    if command is None:
        raise StateError(
            f"{directory}: this run was not begun by privol run; in Python, learner.fit_stream(stream, "
            f"checkpoint=State({directory!r})) goes on with it"
        )
    given: dict[str, Any] = run.make_context("run", list(command["words"]), parent=ctx.parent).params
    del given["out"]
    if file is not None:
        given["file"] = file if file == "-" else str(Path(file).absolute())
    if plain or end:
        given |= {"diagnostics": False} | ({} if given["private_metrics"] is not None else {"delay": None})
    shown = {"as_json": as_json, "quiet": quiet, "end": end}
    with RunDirectory(str(path), gone_on=True) as whole:
        if not Path(command["folder"]).is_dir():
            raise StateError(f"{directory}: the run was begun in {command['folder']}, which does not exist any more")
        with chdir(command["folder"]):
            learn_rows(whole, command, kept, **{**given, **shown})
