"""Help: few options at first, all of them by topic."""

from __future__ import annotations

import re

import pytest
from cli_tools import privol_cli

from privol.cli.app import OK, USAGE, app
from privol.cli.learner_options import LEARNER_OPTIONS
from privol.learners import LEARNERS, OFFLINE_LEARNERS


@pytest.mark.parametrize("command", [(), ("run",), ("predict",), ("plan",), ("info",)], ids=str)
def test_help_points_to_commands_or_examples(command):
    result = privol_cli(*command, "--help")
    assert result.exit_code == OK
    if command != ("info",):
        assert "privol run" in result.output or "Examples:" in result.output


def _flags(text):
    """The options that a help text lists: those at the beginning of a line."""
    return set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", text, re.MULTILINE))


def test_help_shows_few_options_and_topics_show_all():
    command = app.commands["run"]
    plain, everything = (privol_cli("run", word, *more).stdout for word, *more in (["--help"], ["--help-on", "all"]))
    own = {"--help-on", "--help"}
    assert _flags(everything) == {parameter.opts[0] for parameter in command.params if parameter.name != "file"} | own
    assert len(_flags(plain)) == len(command.basics.split()) < 20
    assert len(plain.splitlines()) < 100
    by_topic = [_flags(privol_cli("run", "--help-on", topic.name).stdout) for topic in command.topics]
    assert sum(map(len, by_topic)) == len(set().union(*by_topic))  # each option in one of them
    assert set().union(*by_topic) == _flags(everything) - own
    assert all(topic.title in plain for topic in command.topics)


@pytest.mark.parametrize("learner", ["adaptive", "nogd", "objective-perturbation"])
def test_help_on_a_learner_shows_what_it_takes(learner):
    shown = _flags(privol_cli("run", "--help-on", learner).stdout)
    taken = {**LEARNERS, **OFFLINE_LEARNERS}[learner]().get_params()
    known = {option.parameter for option in LEARNER_OPTIONS}
    assert shown == {f"--{name.replace('_', '-')}" for name in taken if name in known}
    assert ("--radius" in shown) is (learner != "adaptive")


def test_help_on_an_unknown_topic_is_refused():
    result = privol_cli("run", "--help-on", "wheather")
    assert (result.exit_code, "'budget'" in result.stderr) == (USAGE, True)


@pytest.mark.parametrize("command", [(), *((name,) for name in sorted(app.commands))], ids=str)
def test_help_fits_80_columns(command):
    lines = privol_cli(*command, "--help").stdout.splitlines()
    assert not [line for line in lines if len(line) > 80]
    if command == ():  # no short help is cut
        assert not [line for line in lines[1:] if line.endswith("...")]
