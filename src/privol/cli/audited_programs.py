"""``privol audit --command`` and ``--callable``: claims of programs other than privol."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .._files import write_atomically
from .._vocabulary import PROGRAM_FAILURES, ROW_FORMATS
from ..errors import InvalidParameter, StreamError
from .outputs import printing

if TYPE_CHECKING:
    from ..audit import Domain

__all__ = ["audit_a_program", "program_options"]

_OPTIONS: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    (("--command",), {"help": "Audit this program, which reads rows and prints what it releases; in its words {seed} "
                              "becomes a fresh number.", "metavar": "COMMAND"}),
    (("--callable", "callable_"), {"help": "Audit this function of Python instead: it takes an array of rows and "
                                           "returns what it releases.", "metavar": "MODULE:FUNCTION"}),
    (("--mu",), {"type": float, "help": "Of a program: its claim in Gaussian differential privacy, instead of "
                                        "epsilon."}),
    (("--column", "columns"), {"multiple": True, "metavar": "LOW:HIGH or A/B/...",
                               "help": "Of a program: the range of a column of its rows, or the values that it may "
                                       "have; once for each column, LOW:HIGHx9 for nine."}),
    (("--norm",), {"type": float, "help": "Of a program: largest L2 norm of a row.  [default: the ranges alone]"}),
    (("--sizes",), {"metavar": "N1,N2,...", "help": "Of a program: rows of the tables that are tried, of the smaller "
                                                    "one with add_remove.  [default: 1,2,10; add_remove: 0,1,10]"}),
    (("--table", "tables"), {"multiple": True, "type": click.Path(exists=True, dir_okay=False, path_type=Path),
                             "help": "Of a program: a CSV file of numbers, whose neighbours are tried besides."}),
    (("--pairs",), {"type": int, "help": "Of a program: pairs of tables that are tried.  [default: 96]"}),
    (("--seconds",), {"type": float, "help": "Of a program: begin no new stage after this many seconds."}),
    (("--error",), {"type": float, "help": "Of a program: largest probability with which a true claim is refuted.  "
                                           "[default: 1e-06]"}),
    (("--low-bits",), {"is_flag": True, "help": "Of a program: look at the last bits of what it releases, too."}),
    (("--failures",), {"type": click.Choice(PROGRAM_FAILURES),
                       "help": "Of a program: where it fails, end with its error, leave the tables out, or take the "
                               "failure as something it may release.  [default: raise]"}),
    (("--rows", "row_format"), {"type": click.Choice(ROW_FORMATS),
                                "help": "Of a command: each row as a JSON list, or as numbers between commas.  "
                                        "[default: json]"}),
    (("--requests",), {"is_flag": True, "help": "Of a command: it stays and answers requests, each for many runs."}),
    (("--exact",), {"is_flag": True, "help": "Of a command with --requests: it states the distribution of what it "
                                             "releases, and is not run."}),
    (("--timeout",), {"type": float, "help": "Of a command: seconds for a run, or for a request.  [default: 60]"}),
    (("--canaries",), {"is_flag": True, "help": "Of a program: one run, with a row along each column that is in its "
                                                "table or not; it has to release a value for each column."}),
    (("--report",), {"type": click.Path(dir_okay=False, path_type=Path), "metavar": "FILE",
                     "help": "Of a program: if its claim is refuted, write all that its maintainers need to check it "
                             "to this Markdown file. Send it to them in private first."}),
    (("--source",), {"metavar": "TEXT", "help": "With --report: where the claim is stated."}),
)  # fmt: skip

_NAMES = {
    "command", "callable_", "mu", "columns", "norm", "sizes", "tables", "pairs", "seconds", "error", "low_bits",
    "failures", "row_format", "requests", "exact", "timeout", "canaries", "report", "source",
}  # fmt: skip
_SHARED = {"epsilons", "delta", "adjacency", "runs", "confidence", "seed", "as_json"}
_FLAGS = {"callable_": "--callable", "columns": "--column", "tables": "--table", "row_format": "--rows"}


def program_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command with the options of programs."""
    for flags, words in reversed(_OPTIONS):
        command = click.option(*flags, **words)(command)
    return command


def audit_a_program(learner: str | None, options: dict[str, Any]) -> bool | None:
    """Audit and print; return whether the claim is refuted, None if no program is named.

    Options of programs are taken out of the others.
    """
    own = {name: options.pop(name) for name in _NAMES}
    given = {name: value for name, value in own.items() if value not in (None, (), False)}
    if "command" not in given and "callable_" not in given:
        if given:
            raise click.UsageError(f"{_flag(min(given))} applies to --command or --callable")
        if learner is None:
            raise click.UsageError("name a learner, or a program with --command or --callable")
        return None
    if learner is not None or len({"command", "callable_"} & given.keys()) > 1:
        raise click.UsageError("name one learner, one --command or one --callable")
    foreign = sorted(name for name, value in options.items() if name not in _SHARED and value not in (None, (), False))
    if foreign:
        raise click.UsageError(f"{_flag(foreign[0])} does not apply to programs")
    return _audited(given, options)


def _flag(name: str) -> str:
    return _FLAGS.get(name, f"--{name.replace('_', '-')}")


def _audited(given: dict[str, Any], shared: dict[str, Any]) -> bool:
    from ..audit import audit_canaries, audit_program, disclosure

    if "source" in given and "report" not in given:
        raise click.UsageError("--source is for --report")
    if "report" in given and not given["report"].absolute().parent.is_dir():
        raise click.UsageError(f"--report: there is no folder {given['report'].parent}")
    epsilons = shared["epsilons"]
    if len(epsilons) > 1:
        raise click.UsageError("a program has one claim: give --epsilon once")
    if bool(epsilons) is ("mu" in given):
        raise click.UsageError("give the claim of the program: --epsilon (with --delta), or --mu")
    domain = _domain(given.get("columns", ()), given.get("norm"))
    program = _program(given, shared["seed"])
    claim = {name: shared[name] for name in ("delta", "adjacency", "confidence") if shared[name] is not None}
    claim |= {"random_state": shared["seed"], **({"error": given["error"]} if "error" in given else {})}
    if epsilons:
        claim["epsilon"] = epsilons[0]
    if "canaries" in given:
        found: Any = audit_canaries(program, _canaries(domain, given, shared, claim), **claim)
    else:
        words = {"pairs": "at_most_pairs", **{name: name for name in ("mu", "seconds", "low_bits", "failures")}}
        claim |= {word: given[name] for name, word in words.items() if name in given}
        if shared["runs"] is not None:
            claim["runs"] = shared["runs"]
        if "sizes" in given:
            claim["sizes"] = _numbers(given["sizes"], "--sizes", int)
        claim["tables"] = [_table(path) for path in given.get("tables", ())]
        found = audit_program(program, domain=domain, **claim)
    report: Path | None = given.get("report")
    if report is not None and found.refuted:
        write_atomically(report, disclosure(found, source=given.get("source", "")).encode())
    with printing():
        if shared["as_json"]:
            click.echo(json.dumps({"audits": [found.to_record()]}, allow_nan=False))
        else:
            click.echo(found.sentence())
            if report is not None:
                written = f"A report for its maintainers: {report}." if found.refuted else f"{report} is not written."
                click.echo(written)
    return bool(found.refuted)


def _numbers(text: str, flag: str, kind: Callable[[str], Any], between: str = ",") -> list[Any]:
    try:
        return [kind(word) for word in text.split(between)]
    except ValueError:
        raise click.UsageError(f"{flag} must be numbers with {between!r} between them, found {text!r}") from None


def _domain(columns: tuple[str, ...], norm: float | None) -> Domain:
    from ..audit import Domain

    if not columns:
        raise click.UsageError("give the range of each column of the rows: --column LOW:HIGH")
    low: list[float] = []
    high: list[float] = []
    levels: dict[int, list[float]] = {}
    for text in columns:
        range_, _, times = text.partition("x")
        if "/" in range_:
            values = _numbers(range_, "--column", float, "/")
        else:
            values = _numbers(range_, "--column", float, ":")
            if len(values) != 2:
                raise click.UsageError(f"--column must be LOW:HIGH or A/B/..., found {text!r}")
        for _ in range(_numbers(times, "--column", int)[0] if times else 1):
            if "/" in range_:
                levels[len(low)] = values
            elif values[0] > values[1]:
                raise click.UsageError(f"--column must have LOW <= HIGH, found {text!r}")
            low.append(min(values))
            high.append(max(values))
    return Domain(low, high, norm, levels)


def _canaries(domain: Domain, given: dict[str, Any], shared: dict[str, Any], claim: dict[str, Any]) -> Any:
    """A row along each column, as long as the domain allows."""
    import numpy as np

    for name in ("mu", "sizes", "tables", "pairs", "seconds", "low_bits", "failures"):
        if name in given:
            raise click.UsageError(f"{_flag(name)} does not apply to --canaries")
    if shared["runs"] is not None:
        raise click.UsageError("--runs does not apply to --canaries, which are one run")
    rows = np.array([domain.within(row) for row in np.diag(np.asarray(domain.high, dtype=np.float64))])
    if claim.get("adjacency") == "replace":
        claim["alternatives"] = [domain.within(row) for row in np.diag(np.asarray(domain.low, dtype=np.float64))]
    return rows


def _table(path: Path) -> Any:
    import numpy as np

    try:
        rows = np.loadtxt(path, delimiter=",", ndmin=2)
    except ValueError as error:
        raise StreamError(f"{path}: not a table of numbers between commas: {error}") from None
    return rows


def _program(given: dict[str, Any], seed: int | None) -> Any:
    from ..audit import Command

    words = {"row_format": "rows", "requests": "requests", "exact": "exact", "timeout": "timeout"}
    of_command = {word: given[name] for name, word in words.items() if name in given}
    if "command" in given:
        return Command(given["command"], random_state=seed, **of_command)
    if of_command:
        raise click.UsageError(f"{_flag(min(words.keys() & given.keys()))} applies to --command")
    name, _, path = given["callable_"].partition(":")
    if not path:
        raise click.UsageError(f"--callable must be MODULE:FUNCTION, found {given['callable_']!r}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(name)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise InvalidParameter(f"--callable {given['callable_']!r} cannot be imported: {error}") from error
    return found
