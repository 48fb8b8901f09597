"""``privol serve``: predictions of a run or a registry over HTTP, and a run that learns meanwhile."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from .._threads import set_threads
from ..errors import PrivolError, SourceAway, StateError, StreamError
from ..readers.source_urls import is_url, shown
from .options import OFFLINE
from .outputs import RunDirectory
from .resume import continue_run
from .run import command_of, learn_rows
from .run import run as run_command
from .topics import GroupedCommand, Topic

__all__ = ["serve"]

_TICK = 0.2
# Seconds between two attempts to go on with a run whose broker is away: the first, doubled up to the last.
_PAUSE, _LONGEST = 1.0, 60.0
_ENDED = "the server has ended by itself"
#: Options of ``privol run`` that may differ between the calls that learn one run: they do not change it.
_FREE = {"out", "threads", "as_json", "verbose", "quiet", "diagnostics", "checkpoint", "show_releases", "file", "delay"}
_TOPICS = (
    Topic("models", "What is served", "name number public_key poll"),
    Topic("learning", "Learning meanwhile", "source rest show_lag"),
    Topic("listening", "Who may ask", "host port token_file certificate key"),
    Topic("limits", "Limits", "max_body max_rows max_rate max_connections request_timeout stop_timeout"),
)


@click.command(cls=GroupedCommand, topics=_TOPICS)
@click.argument("run", metavar="RUN|REGISTRY")
@click.argument("words", nargs=-1, metavar="[-- OPTIONS OF PRIVOL RUN]")
@click.option("--source", metavar="FILE|URL", help="Learn these rows into RUN, as privol run does, while it is served.")
@click.option("--rest", is_flag=True, help="As for privol resume: the source brings the rows that are not learnt yet.")
@click.option(
    "--show-lag",
    is_flag=True,
    help="Show in /metrics how many messages wait at the broker. NOT PRIVATE: it changes when a message comes, and "
    "with the counts of rows it tells how many were left out.",
)
@click.option("--name", help="Of a registry: serve this model alone. Of a run: its name in paths.  [default: model]")
@click.option("--number", type=click.IntRange(min=1), help="Of a registry: this version of --name, not the current.")
@click.option("--public-key", metavar="PEM", help="Of a registry: serve only what this Ed25519 key has signed.")
@click.option(
    "--poll", type=float, default=1.0, show_default=True, metavar="SECONDS", help="Between two looks for newer models."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Any but this machine's own needs a token.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0: any that is free.")
@click.option(
    "--token-file",
    metavar="FILE",
    help="File of the token that clients show as Authorization: Bearer TOKEN.  [default: the variable PRIVOL_TOKEN; "
    "without it there is none]",
)
@click.option("--certificate", metavar="PEM", help="Certificate, with its chain, for TLS.")
@click.option("--key", metavar="PEM", help="Key of --certificate, not encrypted.")
@click.option(
    "--max-body", type=click.IntRange(min=1), default=8 << 20, show_default=True, help="Bytes of a request's body."
)
@click.option("--max-rows", type=click.IntRange(min=1), default=10_000, show_default=True, help="Rows of a request.")
@click.option("--max-rate", type=float, default=1000.0, show_default=True, help="Requests a second, of all clients.")
@click.option(
    "--max-connections", type=click.IntRange(min=1), default=256, show_default=True, help="Connections at once."
)
@click.option(
    "--request-timeout",
    type=float,
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="For a request to be there as a whole.",
)
@click.option(
    "--stop-timeout",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    metavar="SECONDS",
    help="For requests to end when the service stops.",
)
def serve(run: str, words: tuple[str, ...], source: str | None, rest: bool, **options: Any) -> None:
    """Serve predictions of a released model over HTTP.

    RUN is a directory that privol run, save_model or State has written: its model is served, and replaced when a newer
    one is there (of a run that lasts, with privol run --show-releases). A REGISTRY of privol publish is served by name.
    With --source RUN is learnt meanwhile, and each release is served as soon as it is on the disk; the options of
    privol run follow after --. The same command goes on with a run that was stopped.

    \b
    POST /v1/predict               {"rows": [{"age": 51, "ward": "B"}]}
    POST /v1/models/NAME/predict   the same, where there are several models
    GET  /v1/models, /v1/models/NAME, /metrics, /healthz, /readyz

    Rows and answers are JSON, or streams of Arrow. Requests are logged nowhere. SIGTERM or Ctrl-C lets requests end and
    keeps the run; a second one ends at once.

    \b
    Examples:
        privol serve RUN
        privol serve MODELS --public-key team.pem
        privol serve RUN --host 0.0.0.0 --token-file token
        privol serve RUN --source clinic.csv -- --target outcome --release 1000
    """
    if source is None and (words or rest or options["show_lag"]):
        what = words[0] if words else "--rest" if rest else "--show-lag"
        raise click.UsageError(f"{what} is about a source to learn: give --source")
    ctx = click.get_current_context()
    given = None if source is None else _parsed(ctx, source, words)
    service = _service(run, learns=source is not None, **options)
    _log_to_stderr()
    failed: list[Exception] = []
    try:
        with service:
            click.echo(f"privol serve: {service.url}", err=True)
            if given is not None and source is not None:
                _learn(ctx, service, run, source, given, rest, failed)
            while service.running:
                time.sleep(_TICK)
            raise OSError(_ENDED)
    except KeyboardInterrupt:
        click.echo("privol serve: stopped", err=True)
    if failed:
        raise failed[0]


def _log_to_stderr() -> None:
    log = logging.getLogger("privol.serving")
    if not log.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("privol serve: %(message)s"))
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        log.propagate = False


def _service(
    run: str,
    *,
    learns: bool,
    token_file: str | None,
    max_body: int,
    max_rows: int,
    max_rate: float,
    max_connections: int,
    request_timeout: float,
    stop_timeout: int,
    poll: float,
    **options: Any,
) -> Any:
    from ..serving import Limits, Service, Token

    limits = Limits(
        body=max_body,
        rows=max_rows,
        rate=max_rate,
        connections=max_connections,
        request_seconds=request_timeout,
        stop_seconds=stop_timeout,
    )
    return Service(run, learns=learns, token=Token.found(token_file), limits=limits, seconds=poll, **options)


# ---- learning meanwhile ------------------------------------------------------------------------------------


def _parsed(ctx: click.Context, source: str, words: tuple[str, ...]) -> click.Context:
    """Read the options of ``privol run``, and refuse those that have no place here."""
    inner: click.Context = run_command.make_context("run", [source, *words], parent=ctx.parent)
    given = inner.params
    if given["file"] != source:
        raise click.UsageError("--source names the rows: after -- there are only options")
    for name, why in (
        ("out", "RUN is the directory"),
        ("workers", "one process learns and serves: privol run --show-releases, and privol serve beside it"),
    ):
        if given[name] is not None:
            raise click.UsageError(f"--{name} is not for privol serve: {why}")
    if not given["checkpoint"]:
        raise click.UsageError("--checkpoint 0 is not for privol serve: what is served must be on the disk before")
    if given["learner"] in OFFLINE:
        raise click.UsageError(
            f"--learner {given['learner']} releases one model, at its end: serve the RUN that privol run leaves"
        )
    from click.core import ParameterSource

    if inner.get_parameter_source("diagnostics") is not ParameterSource.DEFAULT and given["diagnostics"]:
        raise click.UsageError("--diagnostics is not for privol serve, which shows nothing that is not private")
    return inner


def _learn(
    ctx: click.Context,
    service: Any,
    run: str,
    source: str,
    inner: click.Context,
    rest: bool,
    failed: list[Exception],
) -> None:
    """Learn until the rows end; an error that leaves a model to be served goes into ``failed``, for the end."""
    service.learning.enter("running")
    try:
        _learn_through_outages(ctx, service, run, source, inner, rest)
    except KeyboardInterrupt:
        service.learning.enter("stopped")
        path = Path(run)
        if _is_kept(path):
            click.echo(
                f"privol serve: the run is kept in {run}: the same command, or privol resume {run}, goes on with it",
                err=True,
            )
        elif (left := _left_without_checkpoint(path)) is not None:
            failed.append(left)
        raise
    except (PrivolError, OSError, click.ClickException) as error:
        # a command that is wrong ends; a source that is away, or a bad row, leaves what there is to serve
        comes_again = service.learning.offered or isinstance(error, (StreamError, OSError))
        if not comes_again or not any(slot.served for slot in service.shelf.slots.values()):
            raise
        failed.append(error)  # first: Ctrl-C may strike from here on
        click.echo(f"privol serve: learning has ended: {shown(_words(error), [source])}", err=True)
        service.settle("failed")
    else:
        service.settle("ended")


def _learn_through_outages(
    ctx: click.Context, service: Any, run: str, source: str, inner: click.Context, rest: bool
) -> None:
    """Learn until the rows end: a kept run that ends because its broker is away is resumed until that is back."""
    pause = 0.0
    while service.running:
        try:
            _learn_rows(ctx, service, run, source, inner, rest)
            return
        except SourceAway as error:
            if not _is_kept(Path(run)):
                raise  # nothing is lost with it, and the URL may be wrong
            told = shown(str(error), [source])
        if service.learning.wait():
            pause = 0.0
        pause = min(max(2.0 * pause, _PAUSE), _LONGEST)
        click.echo(f"privol serve: {told}; the run is kept, the next attempt is in {pause:g} s", err=True)
        time.sleep(pause)
    raise OSError(_ENDED)


def _words(error: BaseException) -> str:
    words = error.format_message() if isinstance(error, click.ClickException) else str(error)
    return "; ".join([words, *getattr(error, "__notes__", ())])


def _learn_rows(ctx: click.Context, service: Any, run: str, source: str, inner: click.Context, rest: bool) -> None:
    from ..state import State

    path = Path(run)
    given = dict(inner.params)
    kept = State(path).read() if path.is_dir() else None
    if kept is not None and State(path).finish():
        kept = None
    if kept is None and (path / "model.json").exists():
        click.echo(f"privol serve: the run in {run} is finished: nothing is learnt", err=True)
        return
    if kept is not None:
        _same_run(ctx, run, kept, given)
        file = source if source == "-" or is_url(source) else str(Path(source).absolute())
        how: dict[str, Any] = {"file": file, "plain": True, "rest": rest, "as_json": False, "quiet": True}
        continue_run(ctx.parent, run, kept, watch=service, **how)
        return
    if rest:
        raise StateError(f"{run}: there is no run to go on with, and --rest is for one")
    if kept is None and (left := _left_without_checkpoint(path)) is not None:
        raise left
    command = command_of(inner)
    set_threads(given.pop("threads"))
    for name in ("out", "workers"):
        del given[name]
    given |= {"diagnostics": False, "as_json": False, "verbose": False, "quiet": True, "show_releases": True}
    with RunDirectory(run) as directory:
        learn_rows(directory, command, None, watch=service, **given)


def _is_kept(path: Path) -> bool:
    from ..state import State

    return path.is_dir() and State(path).read() is not None


def _left_without_checkpoint(path: Path) -> StateError | None:
    """What is to be said of a run that ended while its rows taught what its columns mean."""
    ledger = path / "ledger.jsonl"
    if not ledger.exists() or (path / "model.json").exists():
        return None
    return StateError(
        f"{path}: this run ended before its first checkpoint, while rows taught what the columns mean: there is no "
        f"model, and nothing to go on with. What it spent is in {ledger}: keep that, and learn into another RUN, whose "
        "cost adds to it"
    )


def _same_run(ctx: click.Context, run: str, kept: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Refuse other options than those that the run was begun with."""
    if kept["context"] is None:
        return  # refused with its own words
    before = run_command.make_context("run", list(kept["context"]["words"]), parent=ctx.parent).params
    others = sorted(name for name in given if name not in _FREE and before.get(name) != given[name])
    if others:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in others)
        raise StateError(f"{run}: the run that is kept here was begun with other options ({flags})")
