"""``privol resume --rest``: the rows after those learnt, from a file or a pipe, with a cap on users."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from cli_tools import piped, privol_cli

from privol.cli.app import DATA, OK, USAGE
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
