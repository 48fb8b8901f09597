"""``privol arena``: from files and names to tables marked as not private."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from cli_tools import privol_cli, run_json

from privol.arena import NOTICE
from privol.cli.app import DATA, OK, USAGE

FEW = ("--learners", "dpftrl", "--others", "sgd", "--epsilons", "8,inf", "--seeds", "1")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1500, 2))
    label = np.where(x[:, 0] - x[:, 1] > 0, "up", "down")
    rows = [f"{a:.5f},{label},{1e4 * b:.2f}" for (a, b), label in zip(x, label, strict=True)]
    Path("t.csv").write_text("\n".join(["a,label,b", *rows]) + "\n")
    Path("bare.csv").write_text("\n".join(rows) + "\n")
    return tmp_path


@pytest.mark.slow
def test_a_table_of_the_users(here):
    result = privol_cli("arena", "t.csv", "--target", "label", *FEW)
    assert result.exit_code == OK, result.output
    assert "| second half | inf |" in result.stdout
    assert result.stdout.rstrip().endswith(NOTICE)
    out = Path("privol-arena")
    text = (out / "arena.md").read_text()
    assert f"**{NOTICE}.**" in text
    assert "| t.csv | 1,250 | 250 | nothing | AUC |" in text
    assert (out / "arena.png").read_bytes().startswith(b"\x89PNG")
    assert len((out / "results.jsonl").read_text().splitlines()) == 3
    # continues with what is there: nothing is left to do
    record = run_json("arena", "t.csv", "--target", "label", *FEW)
    assert (record["private"], record["notice"], record["failed"]) == (False, NOTICE, 0)
    (kept,) = (one for one in record["kept"] if one["epsilon"] == "inf" and one["part"] == "second_half")
    assert kept["median_share"] > 0.6


def test_streams_from_a_toml_file_and_from_generators(here):
    Path("lists").mkdir()
    Path("lists/a.toml").write_text(
        "[[stream]]\nname = 'bare'\nfile = 'bare.csv'\ncolumns = ['a', 'y', 'b']\ntarget = 'y'\norder = 'shuffled'\n"
    )
    few = ("--rows", "600", "--learners", "pqftl", "--others", "linear", "--seeds", "1", "--epsilons", "inf")
    record = run_json("arena", "lists/a.toml", "--folder", ".", "--generators", "prices", *few)
    assert record["streams"] == ["bare", "prices"]
    lines = [json.loads(line) for line in Path("privol-arena/results.jsonl").read_text().splitlines()]
    status = {(line["stream"], line["entrant"]): line["status"] for line in lines}
    assert status == {
        ("bare", "linear"): "done",
        ("bare", "pqftl"): "left out",
        ("prices", "linear"): "done",
        ("prices", "pqftl"): "done",
    }


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--target", "y"), USAGE, "--target applies to FILES that are tables"),
        (("t.csv", "--folder", "."), USAGE, "--folder applies to files that a TOML file names"),
        (("--generators", "sea,c"), USAGE, "--generators: 'c' is none of clicks"),
        (("--generators", "none"), USAGE, "there is no stream"),
        (("t.csv", "--learners", "banco"), USAGE, "--learners: of pigd"),
        (("t.csv", "--others", "svm"), USAGE, "others must be one of 'sgd'"),
        (("t.csv", "--epsilons", "1,x"), USAGE, "epsilons must be numbers separated by commas, inf among them"),
        (("t.csv", "--epsilons", "0"), USAGE, "epsilons must be"),
        (("t.csv", "--target", "nosuch"), DATA, "no column 'nosuch', the file has 'a', 'label', 'b'"),
        (("no.csv",), DATA, "no.csv"),
    ],
)
def test_errors_are_reported_before_anything_runs(here, words, code, said):
    result = privol_cli("arena", *words)
    assert result.exit_code == code, result.output
    assert said in result.stderr


def test_a_failed_run_is_reported(here, monkeypatch):
    def broken(*_):
        raise MemoryError("too large")

    monkeypatch.setattr("privol.arena.contest.play_sgd", broken)
    result = privol_cli("arena", "t.csv", "--target", "label", *FEW, "--quiet")
    assert result.exit_code == DATA
    assert "1 runs failed" in result.stderr
    assert "MemoryError: too large" in Path("privol-arena/arena.md").read_text()
