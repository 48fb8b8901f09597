"""Every command on every page has a name and options that exist."""

from __future__ import annotations

import re
import shlex

import pytest
from places import ROOT

click = pytest.importorskip("click")

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def commands() -> list[tuple[str, str]]:
    """The lines of all shell blocks, and of text between backticks, that call privol."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        name = str(page.relative_to(ROOT))
        lines = [
            line.strip()
            for block in re.findall(r"^```sh\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
            for line in block.replace("\\\n", " ").splitlines()
        ]
        lines += [called.replace("\n", " ") for called in re.findall(r"(?<!`)`(privol [a-z][^`]*)`(?!`)", text)]
        for line in lines:
            called = re.search(r"(?:^|\s|/)(privol [a-z].*)", line)
            if called and not line.startswith("#"):
                words = shlex.split(called[1], comments=True)
                ends = [k for k, word in enumerate(words) if word in ("|", ">", "&&", ";", "2>")]
                found.append((name, shlex.join(words[: min(ends, default=len(words))])))
    return sorted(set(found))


def test_pages_have_commands():
    assert len(commands()) > 100
    assert ("README.md", "privol run clinic.csv --target outcome --epsilon 1") in commands()


def parse(name: str, words: list[str]) -> None:
    """Raise click's error for unknown options and missing values; a placeholder may stand for the user's value."""
    from privol.cli.app import app

    command = app.commands[name]
    command.make_parser(click.Context(command)).parse_args(list(words))


@pytest.mark.parametrize(("page", "line"), commands())
def test_every_command_on_a_page_is_valid(page, line):
    name, *words = shlex.split(line)[1:]
    try:
        parse(name, words)
    except (KeyError, click.UsageError) as error:
        pytest.fail(f"{page}: {line}: {error}")


def test_unknown_options_are_detected():
    with pytest.raises(click.NoSuchOption):
        parse("run", ["rows.csv", "--tarjet", "y"])
    with pytest.raises(click.BadOptionUsage):
        parse("run", ["rows.csv", "--target"])
    with pytest.raises(KeyError):
        parse("rum", ["rows.csv"])
