"""``privol audit`` of commands and callables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_tools import privol_cli

from privol.cli.app import IO, OK, REFUTED, USAGE

MECHANISM = """
import random
import numpy as np
draw = random.Random(3).expovariate

def release(rows):
    return rows.sum() + draw(1) - draw(1)

def sums(rows):
    return rows.sum(axis=0) + np.random.default_rng(4).laplace(scale=0.1, size=rows.shape[1])
"""
CLAIM = ("--column", "0:1", "--epsilon", 1, "--runs", 3_000, "--seed", 1)


@pytest.fixture
def mechanism(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = f"mechanism_{tmp_path.name}"  # a different module for each test
    Path(f"{name}.py").write_text(MECHANISM)
    return name


def test_callables(mechanism):
    words = ("audit", "--callable", f"{mechanism}:release")
    stands = privol_cli(*words, *CLAIM)
    assert stands.exit_code == OK, stands.output
    assert "Nothing here contradicts the claim" in stands.stdout
    Path("rows.csv").write_text("0.5\n0.25\n")
    falls = privol_cli(*words, *CLAIM, "--column", "0/3", "--table", "rows.csv", "--json")
    assert falls.exit_code == USAGE  # rows of two columns now
    assert "rows of 2 numbers each" in falls.stderr
    falls = privol_cli(*words, "--column", "0/3", *CLAIM[2:], "--sizes", "2", "--table", "rows.csv", "--json")
    assert falls.exit_code == REFUTED
    (record,) = json.loads(falls.stdout)["audits"]
    assert (record["format"], record["refuted"], record["epsilon"]) == ("privol.audit.program", True, 1.0)
    assert {len(record["pair"]["first"])} == {2}
    one_run = privol_cli("audit", "--callable", f"{mechanism}:sums", "--column", "0:1x300", "--epsilon", 1,
                         "--canaries", "--seed", 2, "--adjacency", "add_remove")  # fmt: skip
    assert one_run.exit_code == REFUTED
    assert "300 canaries" in one_run.stdout


@pytest.mark.process
def test_commands():
    words = ("--column", "0:1", "--epsilon", 1, "--runs", 200, "--pairs", 1, "--sizes", "1", "--seconds", 1e-9)
    found = privol_cli("audit", "--command", "cat", "--rows", "csv", *words)  # releases the row
    assert found.exit_code in (OK, REFUTED), found.output
    assert "does the program draw noise anew" in found.stdout
    fails = privol_cli("audit", "--command", "false", "--column", "0:1", "--epsilon", 1)
    assert fails.exit_code == IO
    assert "'false', given 1 row, ended with code 1" in fails.stderr
    assert "--failures skip" in fails.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "name a learner, or a program"),
        (("nogd", "--command", "x"), "name one learner, one --command or one --callable"),
        (("--command", "x", "--callable", "y:z"), "name one learner, one --command"),
        (("nogd", "--low-bits"), "--low-bits applies to --command or --callable"),
        (("nogd", "--column", "0:1"), "--column applies to --command or --callable"),
        (("--command", "x", "--column", "0:1", "--epsilon", 1, "--design", "tree"), "--design does not apply"),
        (("--command", "x", "--column", "0:1"), "give the claim of the program"),
        (("--command", "x", "--column", "0:1", "--epsilon", 1, "--mu", 1), "give the claim of the program"),
        (("--command", "x", "--column", "0:1", "--epsilon", 1, "--epsilon", 2), "give --epsilon once"),
        (("--command", "x", "--epsilon", 1), "give the range of each column"),
        (("--command", "x", "--epsilon", 1, "--column", "1"), "must be LOW:HIGH or A/B/..., found '1'"),
        (("--command", "x", "--epsilon", 1, "--column", "a:b"), "must be numbers with ':' between them"),
        (("--command", "x", "--epsilon", 1, "--column", "2:1"), "must have LOW <= HIGH"),
        (("--command", "x", "--epsilon", 1, "--column", "0:1", "--sizes", "a"), "--sizes must be numbers"),
        (("--command", "x", "--epsilon", 1, "--column", "0:1", "--canaries", "--runs", 9), "--runs does not apply"),
        (("--command", "x", "--epsilon", 1, "--column", "0:1", "--canaries", "--sizes", 9), "--sizes does not apply"),
        (("--callable", "json:dumps", "--epsilon", 1, "--column", "0:1", "--requests"), "--requests applies to"),
        (("--callable", "json", "--epsilon", 1, "--column", "0:1"), "must be MODULE:FUNCTION"),
        (("--callable", "json:dump_it", "--epsilon", 1, "--column", "0:1"), "cannot be imported"),
    ],
)
def test_incompatible_options_are_refused(words, message):
    found = privol_cli("audit", *words)
    assert found.exit_code == USAGE
    assert message in found.stderr
