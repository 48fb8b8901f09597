"""Help by topics: a command with many options shows the most common ones, and the others on request."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import cleandoc
from typing import Any

import click

__all__ = ["GroupedCommand", "Topic"]

#: The topic of all options.
ALL = "all"


@dataclass(frozen=True)
class Topic:
    """Options that belong together.

    Attributes
    ----------
    name : str
        What ``--help-on`` takes.
    title : str
        The heading.
    parameters : str
        Names of the options' parameters, between blanks.
    """

    name: str
    title: str
    parameters: str


class GroupedCommand(click.Command):
    """A command whose help shows its options by topics.

    Parameters
    ----------
    topics : tuple of Topic
    basics : str
        Names of the parameters that ``--help`` shows: the others are there for ``--help-on TOPIC``. Empty: all are.
    details : str
        Further text of ``--help-on all``.
    learners : tuple of str
        Learners that are topics too: what each of them takes of the options of ``of_learners``.
    of_learners : frozenset of str
    """

    def __init__(
        self,
        *args: Any,
        topics: tuple[Topic, ...] = (),
        basics: str = "",
        details: str = "",
        learners: tuple[str, ...] = (),
        of_learners: frozenset[str] = frozenset(),
        **settings: Any,
    ) -> None:
        super().__init__(*args, **settings)
        self.topics, self.basics, self.details = topics, basics, details
        self.learners, self.of_learners = learners, of_learners
        if basics:
            option = click.Option(
                ["--help-on"],
                type=click.Choice([*(topic.name for topic in topics), *learners, ALL]),
                metavar="TOPIC",
                help="Show the options of a topic, or of a learner, and exit.",
                is_eager=True,
                expose_value=False,
                callback=self._show,
            )
            self.params.append(option)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        records = self._records(ctx)
        if not self.basics:
            self._write(formatter, records)
            return
        _section(formatter, "The options to begin with", records, self.basics)
        with formatter.section(f"All options, by topics ({ctx.command_path} --help-on TOPIC)"):
            topics = [(topic.name, topic.title) for topic in self.topics]
            learners = ("LEARNER", f"What a learner takes: {', '.join(self.learners)}")
            formatter.write_dl([*topics, learners, (ALL, "All of these, with further notes")])

    def _records(self, ctx: click.Context) -> dict[str, tuple[str, str]]:
        """Return the help text of each option, by its parameter."""
        found: dict[str, tuple[str, str]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if isinstance(parameter, click.Option) and parameter.name is not None and record is not None:
                found[parameter.name] = record
        return found

    def _write(self, formatter: click.HelpFormatter, records: dict[str, tuple[str, str]]) -> None:
        left = dict(records)
        for topic in self.topics:
            _section(formatter, topic.title, left, topic.parameters)
            for name in topic.parameters.split():
                del left[name]
        if left:
            _section(formatter, "Other options" if self.topics else "Options", left, " ".join(left))

    def _show(self, ctx: click.Context, param: click.Parameter, value: str | None) -> None:
        """Answer ``--help-on``."""
        if value is None or ctx.resilient_parsing:
            return
        formatter, records = ctx.make_formatter(), self._records(ctx)
        if value == ALL:
            self.format_usage(ctx, formatter)
            click.Command(self.name, help=f"{cleandoc(self.help or '')}\n\n{self.details}").format_help_text(
                ctx, formatter
            )
            self._write(formatter, records)
        elif value in self.learners:
            from ..learners import ALL_LEARNERS

            taken = ALL_LEARNERS[value]().get_params()
            names = [name for name in records if name in self.of_learners and name in taken]
            _section(formatter, f"What --learner {value} takes", records, " ".join(names))
        else:
            (topic,) = (topic for topic in self.topics if topic.name == value)
            _section(formatter, topic.title, records, topic.parameters)
        click.echo(formatter.getvalue().rstrip("\n"), color=ctx.color)
        ctx.exit()


def _section(formatter: click.HelpFormatter, title: str, records: dict[str, tuple[str, str]], names: str) -> None:
    with formatter.section(title):
        formatter.write_dl([records[name] for name in names.split()])
