"""No image is built here, which docker/check does: what its recipe names exists, and it installs as the README does."""

from __future__ import annotations

import ast
import io
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from dockerfile_parse import DockerfileParser
from patience import WAIT
from places import ROOT
from serving_tools import saved, serving

from privol import DPFTRL
from privol.cli.app import app
from privol.state import save_model

FILE = ROOT / "docker" / "Dockerfile"


@pytest.fixture(scope="module")
def steps() -> list[tuple[str, str]]:
    """The instructions, with their continued lines, in order."""
    parser = DockerfileParser(fileobj=io.BytesIO(FILE.read_bytes()))
    return [(step["instruction"], step["value"]) for step in parser.structure if step["instruction"] != "COMMENT"]


def values(steps: list[tuple[str, str]], kind: str) -> list[str]:
    return [value for name, value in steps if name == kind]


def test_it_is_a_recipe(steps: list[tuple[str, str]]) -> None:
    known = {
        "FROM", "RUN", "WORKDIR", "COPY", "ENV", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT",
        "CMD",
    }  # fmt: skip
    assert {name for name, _ in steps} == known
    bases = [value.split()[0] for value in values(steps, "FROM")]
    assert bases == ["python:3.11-slim-bookworm"] * 2  # a release, and the same in both stages


def test_it_installs_as_the_readme_does(steps: list[tuple[str, str]]) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (line,) = set(re.findall(r"python3 -m venv \.venv && \.venv/bin/pip install '\.\[cli\]'", readme))
    assert line.replace("cli", "serve,sources") in values(steps, "RUN")
    with open(ROOT / "pyproject.toml", "rb") as file:
        project = tomllib.load(file)["project"]
    assert {"serve", "sources"} <= project["optional-dependencies"].keys()
    assert json.loads(values(steps, "ENTRYPOINT")[0])[0] in project["scripts"]
    place = values(steps, "WORKDIR")[0]
    assert values(steps, "COPY") == [". .", f"--from=build {place}/.venv {place}/.venv"]
    assert f"PATH={place}/.venv/bin:$PATH" in values(steps, "ENV")[0]
    assert (ROOT / ".dockerignore").read_text().splitlines()[:2] == [".git", ".venv"]


def test_its_user_has_no_rights_and_a_volume(steps: list[tuple[str, str]]) -> None:
    (user,), (volume,) = values(steps, "USER"), values(steps, "VOLUME")
    assert int(user) > 0
    make = values(steps, "RUN")[-1]
    assert f"--uid {user} " in make
    assert "-m 0700 /data" in make
    assert json.loads(volume) == ["/data"] == [values(steps, "WORKDIR")[-1]]
    kinds = [name for name, _ in steps]
    assert max(i for i, name in enumerate(kinds) if name == "RUN") < kinds.index("USER")


def test_its_command_is_one_of_privol(steps: list[tuple[str, str]]) -> None:
    words = json.loads(values(steps, "ENTRYPOINT")[0]) + json.loads(values(steps, "CMD")[-1])
    command = app.commands[words[1]]
    given = command.make_context("serve", words[2:], parent=None).params  # type: ignore[union-attr]
    assert (given["host"], given["run"]) == ("0.0.0.0", "/data/RUN")
    assert given["token_file"]  # or it would refuse to listen
    assert values(steps, "EXPOSE") == [str(given["port"])]


def test_its_health_check_asks_the_service(steps: list[tuple[str, str]], tmp_path) -> None:  # type: ignore[no-untyped-def]
    (check,) = values(steps, "HEALTHCHECK")
    words = json.loads(check.partition("CMD ")[2])
    assert words[:2] == ["python3", "-c"]
    ast.parse(words[2])
    with serving(saved(tmp_path / "run"), token="a-token-that-the-check-has-not") as service:
        exec(words[2].replace("8080", str(service.port)), {})
    with pytest.raises(OSError, match="refused"):
        exec(words[2].replace("8080", str(service.port)), {})


def test_the_check_of_an_image_asks_what_the_service_answers(tmp_path: Path) -> None:
    """Its program, against a service without a container."""
    lines = (ROOT / "docker" / "check").read_text(encoding="utf-8")
    assert subprocess.run(["bash", "-n", str(ROOT / "docker" / "check")], check=False).returncode == 0
    (program,) = re.findall(r"<<'PYTHON'\n(.*?)^PYTHON$", lines, flags=re.MULTILINE | re.DOTALL)
    X = np.random.default_rng(0).uniform(-1, 1, size=(400, 54))  # as many columns as the embedded rows have
    save_model(DPFTRL(horizon=400).fit(X, np.where(X[:, 0] > 0, "2", "not 2")), tmp_path / "run")
    (tmp_path / "token").write_text("a-token-of-this-test-alone\n")
    with serving(tmp_path / "run", token="a-token-of-this-test-alone") as service:
        words = [sys.executable, "-c", program.replace(":8080", f":{service.port}"), str(tmp_path / "token")]
        found = subprocess.run(words, capture_output=True, text=True, timeout=WAIT, check=False)
        assert (found.returncode, found.stdout[:10]) == (0, "health: ok"), found.stderr
        (tmp_path / "token").write_text("another-token-of-this-test\n")
        assert subprocess.run(words, capture_output=True, timeout=WAIT, check=False).returncode != 0
