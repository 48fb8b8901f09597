"""``privol resume --rest``: the rows after those learnt, from a file or a pipe, with a cap on users."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from cli_tools import interrupted_at, piped, privol_cli

from privol.cli.app import DATA, INTERRUPTED, OK, USAGE
from privol.streams import open_stream

pytestmark = pytest.mark.process

SCHEMA = """
[file]
format = "csv"
sep = ","
[columns.x]
range = [-3, 3]
[target]
column = "y"
negative = ["0"]
positive = ["1"]
[user]
column = "who"
max_rows = 3
separation = 20
"""
USERS = "--rows-per-user 3 --user-separation 20"
WORDS = f"--schema s.toml --horizon 400 --learner dpftrl --release 50 --seed 3 --quiet {USERS}"


def model(folder):
    record = json.loads((Path(folder) / "model.json").read_text())
    with np.load(Path(folder) / "model.npz") as arrays:
        return record["n_rows"], {name: arrays[name].tolist() for name in arrays.files}


def test_the_rows_after_those_learnt(here, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.setitem(open_stream.__kwdefaults__, "block_rows", 30)  # otherwise nothing is learnt before the error
    rng = np.random.default_rng(4)
    lines = [f"{x:.3f},p{who},{y}\n" for x, who, y in zip(
        rng.normal(size=500), rng.integers(0, 80, 500), rng.integers(0, 2, 500), strict=True)]  # fmt: skip
    head, parts = "x,who,y\n", Path("parts")
    parts.mkdir()
    Path("s.toml").write_text(SCHEMA)
    (parts / "a.csv").write_text(head + "".join(lines[:300]))
    (parts / "b.csv").write_text(head + "".join(lines[300:]))
    run = ["run", "parts", *WORDS.split(), "--no-diagnostics", "--checkpoint", "40"]
    assert privol_cli(*run, "--out", "whole").exit_code == OK
    (parts / "b.csv").write_text(head + "no row\n")
    for out in ("one", "two", "three"):
        words = [word for word in run if out != "three" or word != "--no-diagnostics"]
        assert privol_cli(*words, "--out", out).exit_code == DATA
    assert privol_cli("resume", "three", "--rest").exit_code == USAGE
    assert privol_cli("resume", "one", "--rest", "--end").exit_code == USAGE
    (parts / "b.csv").write_text(head + "".join(lines[300:]))
    assert privol_cli("resume", "one", "--rest", "--quiet").exit_code == OK
    first = int(privol_cli("resume", "two", "--next-row").stdout)
    assert 250 < first <= 301
    result = piped(head + "".join(lines[first - 1 :]), "resume", "two", "-", "--rest", "--quiet")
    assert result.exit_code == OK, result.output
    assert privol_cli("resume", "three", "--rest", "--no-diagnostics", "--quiet").exit_code == OK
    assert model("one") == model("two") == model("three") == model("whole")


def test_what_a_pipe_has_to_bring_is_said(here, monkeypatch):
    """After an interrupt, and where it brings the wrong rows."""
    rows = "".join(f"{i / 100},{i % 2}\n" for i in range(100))
    words = ("run", "-", "--target", "y", "--classes", "0,1", "--x-bound", 2, "--no-diagnostics", "--out", "R")
    with interrupted_at(monkeypatch, 1):
        ended = piped(f"x,y\n{rows}", *words, "--horizon", 150)
    assert ended.exit_code == INTERRUPTED
    said = "privol resume R continues it, with all rows again, or with --rest those from its --next-row on"
    assert said in " ".join(ended.stderr.split())
    assert privol_cli("resume", "R", "--next-row").stdout == "101\n"
    later = "".join(f"{i / 100},{i % 3 % 2}\n" for i in range(100, 150))
    refused = piped(f"x,y\n{later}{later}", "resume", "R", "-")
    assert refused.exit_code != OK
    assert "privol resume --rest: only with the rows after them" in " ".join(refused.stderr.split())
    assert piped(f"x,y\n{later}", "resume", "R", "-", "--rest", "--quiet").exit_code == OK
    assert model("R")[0] == 150


def test_a_pipe_brings_the_rows_behind_those_that_taught(here, monkeypatch):
    """``--next-row`` counts them: whoever feeds the pipe knows rows of the input, not of the model."""
    rng = np.random.default_rng(8)
    lines = [f"{age},{'abc'[ward]},{'yes' if age > 50 else 'no'}\n" for age, ward in zip(
        rng.integers(20, 90, 4000), rng.integers(0, 3, 4000), strict=True)]  # fmt: skip
    words = ("run", "-", "--target", "ill", "--classes", "no,yes", "--learn-schema", "--horizon", 4000, "--seed", 3)
    words = (*words, "--no-diagnostics", "--quiet", "--out")
    monkeypatch.setitem(open_stream.__kwdefaults__, "block_rows", 500)
    head = "age,ward,ill\n"
    assert piped(head + "".join(lines), *words, "whole").exit_code == OK
    with interrupted_at(monkeypatch, 1):
        assert piped(head + "".join(lines), *words, "R").exit_code == INTERRUPTED
    taught = json.loads(Path("whole/run.json").read_text())["inputs"]["first_row"] - 1
    first = int(privol_cli("resume", "R", "--next-row").stdout)
    assert taught + 1 < first < 4000
    assert piped(head + "".join(lines[first - 1 :]), "resume", "R", "-", "--rest", "--quiet").exit_code == OK
    assert model("R") == model("whole")
