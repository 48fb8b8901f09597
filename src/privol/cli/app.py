"""The group of commands, and the form of errors."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import click

from .. import __version__
from ..errors import BudgetExceeded, InvalidParameter, InvalidRow, PrivolError, SolverFailure, StreamError
from ..readers.source_urls import shown
from .loading import load_libraries
from .options import in_options

__all__ = ["BUDGET", "DATA", "INTERRUPTED", "IO", "OK", "PIPE", "REFUTED", "UNCHECKED", "USAGE", "app", "exit_code"]

OK, USAGE, DATA, BUDGET, IO, REFUTED, UNCHECKED, INTERRUPTED, PIPE = 0, 2, 3, 4, 5, 6, 7, 130, 141

_EXIT_CODES = """\b
Exit codes: 0 done; 2 a wrong option or parameter; 3 the data cannot be read
or learnt (the message names the row); 4 the budget or the horizon is
exceeded; 5 a file cannot be written or a run cannot be read; 6 an audit or
privol verify refutes a claim; 7 privol verify leaves a claim unchecked;
130 interrupted; 141 the output is no longer read.
A failure before any row was used leaves and spends nothing. A later one, or
Ctrl-C (or SIGTERM), leaves a run with its releases so far: privol resume
continues it. Spent without a model: what the rows that teach an encoding
cost, and the budget of an offline fit that fails; messages say so."""


def exit_code(error: BaseException) -> int:
    """Return the exit code of an error that the user can correct."""
    if isinstance(error, (InvalidRow, StreamError, SolverFailure)):
        return DATA
    if isinstance(error, BudgetExceeded):
        return BUDGET
    if isinstance(error, (InvalidParameter, click.UsageError)):
        return USAGE
    return IO


def _words(error: BaseException) -> str:
    if isinstance(error, click.ClickException):
        return error.format_message()
    words = str(error)
    if isinstance(error, OSError) and error.strerror:
        words = error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    return "; ".join([words, *getattr(error, "__notes__", ())])


def _struck(error: BaseException | None) -> bool:
    """Whether an error came of Ctrl-C: what it left half done was refused on the way out."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return error is not None


class App(click.Group):
    """A group whose errors are one line on stderr and, with ``--json``, an object on stdout."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        words = list(sys.argv[1:] if args is None else args)

        def run() -> Any:
            return super(App, self).main(
                args=words,
                prog_name=prog_name or "privol",
                complete_var=complete_var,
                standalone_mode=False,
                windows_expand_args=windows_expand_args,
                **extra,
            )

        if not standalone_mode:
            return run()
        try:
            result = run()
            sys.exit(result if isinstance(result, int) else OK)
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message(), err=True)
            sys.exit(USAGE)
        except click.Abort:
            self._fail("interrupted", "Interrupted", INTERRUPTED, words, None)
        except (PrivolError, click.ClickException, OSError) as error:
            message = self._in_options(" ".join(shown(_words(error), words).split()), words)
            if isinstance(error, click.UsageError) and error.ctx is not None:
                message += f" (see: {error.ctx.command_path} --help)"
            if _struck(error):
                self._fail(f"interrupted: {message}", "Interrupted", INTERRUPTED, words, None)
            row = getattr(error, "row", None)
            self._fail(message, type(error).__name__, exit_code(error), words, row)

    def _in_options(self, message: str, words: list[str]) -> str:
        command = next((self.commands[word] for word in words if word in self.commands), None)
        if command is None:
            return message
        schema = any(word.partition("=")[0] == "--schema" for word in words)
        return in_options(message, command.params, schema=schema)

    # click answers a closed pipe with exit code 1, which says nothing
    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        try:
            return super().make_context(*args, **extra)
        except BrokenPipeError:
            raise click.exceptions.Exit(PIPE) from None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise click.exceptions.Exit(PIPE) from None

    @staticmethod
    def _fail(message: str, kind: str, code: int, words: list[str], row: int | None) -> None:
        # even if the message is lost, the code says what happened
        with suppress(BrokenPipeError):
            click.echo(f"privol: error: {message}", err=True)
        if "--json" in words:
            record = {"kind": kind, "message": message, "exit_code": code, "row": row}
            with suppress(OSError):
                click.echo(json.dumps({"error": record}))
        sys.exit(code)


@click.group(cls=App, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="privol")
def app() -> None:
    """Learn online from a sensitive stream, and release models under a stated privacy guarantee.

    \b
    Try it on real rows that come with the package:
        privol run
    On your own table: learn its columns and a model within epsilon, and predict:
        privol run clinic.csv --target readmitted --epsilon 1 --out RUN
        privol predict RUN new.csv
    State what is public about a table: draft it, check every line, and use it:
        privol info clinic.csv --target readmitted > clinic.toml
        privol run clinic.csv --schema clinic.toml --epsilon 1 --out RUN
    What does the model make of each column, and how much of that is noise?
        privol explain RUN
    Everything about a run, in one HTML file:
        privol report RUN
    What the model is and promises, as JSON, for whoever gets it?
        privol card RUN
    Predictions over HTTP, by the newest released model:
        privol serve RUN
    What would a budget mean, before anything is spent?
        privol plan --schema clinic.toml --horizon 100000 --epsilon 1
    How much privacy of the same rows have all runs spent?
        privol account RUN
    Does the guarantee follow from the record? An independent program checks:
        privol verify RUN
    Do learners leak more than they claim? Runs on neighbours try to show it:
        privol audit dpftrl
    What does privacy cost, learner by learner, on many streams?
        privol arena
    Can the figures of the source papers be reproduced?
        privol reproduce --list
    """


app.epilog = _EXIT_CODES


def _register() -> None:
    from .account import account
    from .arena import arena
    from .audit import audit
    from .card import card
    from .dola import dola
    from .explain import explain
    from .inspect import info, plan
    from .page import report
    from .predict import predict
    from .publish import publish, registry
    from .reproduce import reproduce
    from .resume import resume
    from .run import run
    from .serve import serve
    from .verify import verify

    for command in (
        run,
        resume,
        dola,
        predict,
        explain,
        report,
        card,
        serve,
        publish,
        registry,
        plan,
        account,
        verify,
        audit,
        arena,
        reproduce,
        info,
    ):
        if command is not verify:  # it reads two small files, and shares no code with the rest
            command.callback = _with_libraries(command.callback)
        app.add_command(command)


def _with_libraries(callback: Callable[..., Any] | None) -> Callable[..., Any]:
    """Let a command, but not its help, load pyarrow and scikit-learn before it begins."""
    assert callback is not None

    @functools.wraps(callback)
    def called(*args: Any, **given: Any) -> Any:
        load_libraries()
        return callback(*args, **given)

    return called


_register()
