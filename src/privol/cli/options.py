"""Options that several commands share, and their help, which describes the learners' parameters in the same words."""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import click

from .._vocabulary import WIDTHS
from ..errors import InvalidParameter
from ..learners import GROUPS, TABLE
from .learner_options import LEARNER_OPTIONS
from .option_types import TAB

__all__ = ["OFFLINE", "budget_in_epsilon", "given_parameters", "in_options", "learner_name", "learner_options"]

#: Offline learners.
OFFLINE = tuple(entry.name for entry in TABLE if entry.group == "rest")


def learner_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command with ``--learner`` and all parameters of the learners."""
    for option in reversed(LEARNER_OPTIONS):
        word = option.parameter.replace("_", "-")
        flags = f"--{word}/--no-{word}" if option.kind is bool else f"--{word}"
        command = click.option(
            flags,
            option.parameter,
            type=None if option.kind is bool else option.kind,
            default=None,
            metavar=option.metavar,
            help=f"{option.help}  [default: {option.default}]",
        )(command)
    for name, about in WIDTHS.items():  # parameters of the loss, not of the learners
        flag = f"--{name.replace('_', '-')}-width"
        command = click.option(flag, type=float, help=f"With --loss {name}: {about}")(command)
    return click.option(
        "--learner",
        type=click.Choice([entry.name for entry in TABLE]),
        metavar="NAME",
        help=f"{_about_learners()}  [default: adaptive; with a setting of theirs, dpftrl, or pqftl for squared loss]",
    )(command)


def _about_learners() -> str:
    """A description of every learner, group by group."""
    told = []
    for group, words in GROUPS.items():
        names = (f"{entry.name} ({entry.about})" for entry in TABLE if entry.group == group)
        told.append(f"{words}: {', '.join(names)}.")
    return " ".join(told)


def given_parameters(options: dict[str, Any]) -> dict[str, Any]:
    """Remove the learner's parameters from a command's options, and return those that were given."""
    found = {option.parameter: options.pop(option.parameter) for option in LEARNER_OPTIONS}
    given = {name: value for name, value in found.items() if value is not None}
    for name in WIDTHS:
        width = options.pop(f"{name}_width")
        if width is None:
            continue
        word = f"--{name.replace('_', '-')}-width"
        if given.get("loss") != name:
            raise click.UsageError(f"{word} applies to --loss {name}, found the loss {given.get('loss', 'logistic')}")
        from ..losses import from_record

        try:
            given["loss"] = from_record({"name": name, "width": width})
        except InvalidParameter as error:
            raise InvalidParameter(f"{word}: {error}") from error
    return given


def learner_name(name: str | None, given: Mapping[str, Any]) -> str:
    """Return the name of the learner, by default the one for the loss; it must have the given parameters."""
    from ..learners import ALL_LEARNERS, default_name

    found = default_name(given.get("loss", "logistic"), given) if name is None else name
    kind: Any = ALL_LEARNERS[found]
    known = kind().get_params(deep=False)
    for parameter in given:
        if parameter not in known:
            why = " (the default for this loss; others: see --learner)" if name is None else ""
            raise click.UsageError(f"--{parameter.replace('_', '-')} is not an option of --learner {found}{why}")
    return found


def budget_in_epsilon(name: str | None, given: dict[str, Any]) -> dict[str, Any]:
    """Return parameters of a learner with the epsilon that corresponds to ``--mu``, which can be divided."""
    if "mu" not in given or given.get("calibration") == "published":  # the learner refuses it
        return given
    if "epsilon" in given:
        raise click.UsageError("--epsilon and --mu exclude each other: two ways to state one budget")
    from ..calibration import stated_epsilon
    from ..learners import ALL_LEARNERS

    kind: Any = ALL_LEARNERS[learner_name(name, given)]
    delta = given.get("delta", kind().delta)
    settled = {**given, "epsilon": stated_epsilon(None, delta, given["mu"])}
    del settled["mu"]
    return settled


# ---- messages of the library, in the words of the command line ------------------------------------------------

# Not a part of a path, of a quoted cell, of an option or of a longer word.
_BEFORE, _AFTER = r"""(?<![\w./\\'"-])""", r"""(?![\w/\\'"]|[.-]\w)"""
_VALUE = r"""'[^']*'|"[^"]*"|\([^)]*\)|\[[^\]]*\]|[\w+-]+(?:\.\w+)*"""
_OTHER_NAMES = {"random_state": "seed", "allow_not_private": "not_private"}
_OF_FILE = ("header", "sep", "encoding")
_ONLY_OF_FILE = ("comment", "decimal", "missing", "names")


def in_options(message: str, parameters: Iterable[click.Parameter], *, schema: bool) -> str:
    """Return a message of the library with its parameters as options: ``sep=';'`` as ``--sep ';'``.

    What is translated is ``name=``, with a value or without, and names with an underscore, if an option sets the
    parameter of that name. With ``schema``, how a file is written is said there, not by options: ``sep = ";" under
    [file] of the schema``; what has no option is said there alone.
    """
    options = {o.name: o for o in parameters if isinstance(o, click.Option) and o.name is not None}
    options |= {name: options[other] for name, other in _OTHER_NAMES.items() if other in options}
    if not options:
        return message
    in_schema = (*_ONLY_OF_FILE, *(_OF_FILE if schema else ()))
    where = f"under [file] of {'the' if schema else 'a'} schema"
    names = "|".join(map(re.escape, (*options, *_ONLY_OF_FILE)))

    def assigned(found: re.Match[str]) -> str:
        name, text = found["name"], found["value"]
        if text is None:
            return f"{name} {where}" if name in in_schema else options[name].opts[0]
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            value = text
        if name in in_schema:
            return f"{name} = {json.dumps(value)} {where}"
        option = options[name]
        if isinstance(value, bool):
            if not option.secondary_opts:
                return found[0]
            return (option.opts if value else option.secondary_opts)[0]
        if isinstance(value, (tuple, list)):
            value = ",".join(map(str, value))
        return f"{option.opts[0]} {'tab' if value == TAB else shlex.quote(str(value))}"

    message = re.sub(rf"{_BEFORE}(?P<name>{names})=(?P<value>{_VALUE})?{_AFTER}", assigned, message)
    long = "|".join(re.escape(name) for name in options if "_" in name)
    if not long:
        return message
    return re.sub(rf"{_BEFORE}({long}){_AFTER}(?!=)", lambda found: options[found[0]].opts[0], message)
