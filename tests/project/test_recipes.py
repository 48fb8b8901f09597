"""The recipes of CONTRIBUTING.md name all files that their example touches, and only files that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from places import ROOT

SOURCE = ROOT / "src" / "privol"
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
# The name of a recipe's example in the sources; a file that contains it is one that the next example would touch too.
TRACES = {
    "A loss": r"(?i)smooth_?hinge",
    "A learner": r"\bNOGD\b|\bnogd\b|\bGradientRun\b|\bpv_gradient_plan\b|\bcalibrate_gradients\b",
    "A format of files": r"(?i)libsvm",
}
# Files that name an example but that the next one would not touch, each with a reason.
BESIDE: dict[str, dict[str, str]] = {
    "A loss": {
        "src/privol/audit/_cases.py": "the loss that shows most of what PGIGA releases",
        "src/privol/audit/_offline.py": "likewise of offline learners",
        "src/privol/calibration/_iterates.py": "advice to who has a hinge",
        "src/privol/calibration/_offline.py": "likewise",
        "src/privol/_core/_objective.pyx": "likewise, in a docstring",
        "src/privol/cli/run.py": "where the option of its width stands in the help",
        "src/privol/learners/iterate.py": "losses that PGIGA takes, in its docstring",
    },
    "A learner": {
        "src/privol/cli/audit.py": "help of an option that few learners have",
        "src/privol/cli/learner_options.py": "likewise",
        "src/privol/auto/defaults.py": "settings for encoded rows; a learner without any has its defaults",
    },
    "A format of files": {
        "src/privol/reproduce/sets.py": "an address on the web",
        "src/privol/cli/streams.py": "options and advice for libsvm alone: indices from 0 or 1",
    },
}


def recipe(title: str) -> str:
    (text,) = re.findall(rf"^### {re.escape(title)}\n(.*?)(?=^##)", PAGE, re.DOTALL | re.MULTILINE)
    return text


def listed(title: str) -> set[str]:
    """Files of a recipe's list; a file in parentheses belongs to the previous one."""
    found: set[str] = set()
    for line in re.findall(r"^- (.*)$", recipe(title), re.MULTILINE):
        (first,) = re.findall(r"^`([^`]+)`", line)
        found.add(first)
        for other in re.findall(r"\((?:with|or) `([^`]+)`\)", line):
            found.add(str(Path(first).parent / other))
    return found


def naming(pattern: str) -> set[str]:
    """Sources in which the pattern occurs outside of documentation: code and help that a next example would extend."""
    found = set()
    for path in SOURCE.rglob("*"):
        translated = path.suffix == ".c" and path.with_suffix(".pyx").exists()
        if path.suffix in (".py", ".pyx", ".pyi", ".pxd", ".c", ".h") and not translated:
            text = path.read_text(encoding="utf-8")
            if path.suffix == ".py":
                text = re.sub(r'"""(?:[^"\\]|\\.|"(?!""))*"""', "", text)
            if re.search(pattern, re.sub(r"(#|/\*).*", "", text)):
                found.add(str(path.relative_to(ROOT)))
    return found


def titles() -> list[str]:
    return re.findall(r"^### (.*)$", PAGE.split("## Recipes")[1], re.MULTILINE)


def test_there_are_recipes() -> None:
    assert titles() == ["A loss", "A learner", "A format of files", "A subcommand"]
    assert all(len(listed(title)) >= 2 for title in titles())


@pytest.mark.parametrize("title", titles())
def test_files_of_a_recipe_exist(title: str) -> None:
    paths = listed(title) | set(re.findall(r"`((?:docs|tests|src)/[\w./]*)`", recipe(title)))
    missing = {path for path in paths if not (ROOT / path).exists()}
    assert not missing, missing


@pytest.mark.parametrize("title", TRACES)
def test_a_list_is_complete(title: str) -> None:
    found = naming(TRACES[title]) - BESIDE.get(title, {}).keys()
    assert len(found) > 2, "the example is called otherwise"
    assert found <= listed(title), f"not in the recipe: {sorted(found - listed(title))}"


def test_a_learner_costs_five_files() -> None:
    """Learner, calibration and kernel, with proof and test; the table's row, stubs and headers go with them."""
    own = {path for path in listed("A learner") if Path(path).name != "__init__.py"}
    assert {re.sub(r"^(pv)?_|s$", "", Path(path).stem) for path in own} == {"gradient"}


def test_subcommands_come_from_their_modules() -> None:
    from privol.cli.app import app

    text = (SOURCE / "cli" / "app.py").read_text(encoding="utf-8")
    for name, command in app.commands.items():
        module = command.callback.__module__.rpartition(".")[2]
        assert f"from .{module} import" in text or module == "app", f"{name} is not brought by cli/app.py"
