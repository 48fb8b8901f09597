"""What is said of a run: on one screen, in a log, of a budget that is left, by its card and on its public page."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from cli_tools import privol_cli, write

from privol.cli import progress
from privol.cli.account_tables import account_report
from privol.cli.app import IO, OK, USAGE

WORDS = ("run", "t.csv", "--ranges", "r.json", "--classes", "no,yes", "--learner", "dpftrl", "--no-learn-schema")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "t.csv", ["a", "label"], [[(i % 7) / 7, "yes" if i % 3 else "no"] for i in range(300)])
    (tmp_path / "r.json").write_text('{"a": [0, 1]}')
    return tmp_path


def test_one_screen(here):
    """A budget that is left is shown, and figures of the raw rows are marked."""
    half = privol_cli(*WORDS, "--learner", "pigd", "--horizon", "600", "--release", "100", "--out", "R")
    assert half.exit_code == OK
    assert "\nspent" in half.stdout
    assert "NOT PRIVATE: computed from the raw rows; do not publish" in " ".join(half.stdout.split())
    whole = privol_cli(*WORDS, "--learner", "pigd", "--release", "100", "--out", "S", "--no-diagnostics")
    assert "\nspent" not in whole.stdout
    assert "computed from the raw rows" not in whole.stdout


def test_no_warning_about_the_raw_rows_on_a_public_page(here):
    assert privol_cli(*WORDS, "--out", "R", "--no-diagnostics").exit_code == OK
    record = json.loads(Path("R/run.json").read_text())
    record["warnings"] = ["NOT PRIVATE: 3 of 300 rows were longer than the bound", "the figure is weak"]
    Path("R/run.json").write_text(json.dumps(record))
    for words, shown in ((("--out", "own.html"), True), (("--public", "--out", "public.html"), False)):
        assert privol_cli("report", "R", *words).exit_code == OK
        text = Path(words[-1]).read_text()
        assert "the figure is weak" in text
        assert ("3 of 300 rows" in text) is shown


def test_a_run_without_a_model_has_no_card(here):
    Path("R").mkdir()
    Path("R/run.json").write_text(json.dumps({"status": "interrupted", "rows": 7}))
    result = privol_cli("card", "R")
    assert result.exit_code == IO
    assert "R: the run has no model, because it was interrupted after row 7, before its first release" in result.stderr


def test_a_model_that_is_not_private_is_not_published_unasked(here):
    Path("s.toml").write_text(
        '[columns.a]\nrange = [0, 1]\n[target]\ncolumn = "label"\nnegative = "no"\npositive = "yes"\n'
    )
    words = ("run", "t.csv", "--schema", "s.toml", "--learner", "dpftrl", "--seed", "1", "--out", "R")
    assert privol_cli(*words, "--no-diagnostics").exit_code == OK
    words = ("publish", "R", "MODELS", "--name", "a")
    refused = privol_cli(*words)
    assert refused.exit_code == USAGE
    assert "published only if that is allowed explicitly (--not-private)" in refused.stderr
    assert not list(Path("MODELS").rglob("model.json"))
    assert privol_cli(*words, "--not-private").exit_code == OK
    assert list(Path("MODELS").rglob("model.json"))


def test_a_log_that_nobody_reads_any_more_ends_no_run(monkeypatch):
    def gone(words, **_):
        said.append(words)
        raise BrokenPipeError

    said = []
    monkeypatch.setattr(progress, "_EVERY_OF_A_LOG", 0.0)
    monkeypatch.setattr(progress.click, "echo", gone)
    with progress.watched(10, 1e-6, counted=True, wanted=True) as (_, stage):
        stage("the best fixed model")
    assert said == ["comparing: the best fixed model"]


def test_names_of_categories_need_a_schema(here):
    assert privol_cli(*WORDS, "--out", "R", "--no-diagnostics").exit_code == OK
    result = privol_cli("explain", "R", "--names", "a=x,y")
    assert result.exit_code == USAGE
    assert "--names applies to columns of categories, and the run has no schema" in result.stderr


def test_what_is_left_of_a_budget_is_rounded_down():
    limit = {"epsilon": 1.0, "delta": 1e-6, "mu": 0.25, "slack": 0.0}
    left = {"mu": math.nextafter(0.2, 0.0), "pure_epsilon": math.nextafter(0.5, 0.0), "slack": 0.0}
    nothing = {"epsilon": 0.0, "mu": 0.0, "slack": 0.0}
    journal = {"path": "b.jsonl", "limit": limit, "remaining": left, "runs": [], "groups": [], "together": nothing}
    together = {"runs": 0, "sentence": "nothing", "private": True, "if_fixed": None}
    report = account_report({"journals": [journal], "together": together, "delta": 1e-6})
    assert "left for a new run: mu 0.199999, or a pure epsilon of 0.499999" in str(report[1])
