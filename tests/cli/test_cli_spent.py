"""The record of a fit that failed says what it has spent."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from cli_tools import entries_of, privol_cli, write

from privol.cli.app import DATA


def test_a_fit_that_failed_has_a_record_of_what_it_spent(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "t.csv", ["a", "label"], [[(i % 7) / 7, "yes" if i % 3 else "no"] for i in range(300)])
    (tmp_path / "r.json").write_text('{"a": [0, 1]}')
    words = ("run", "t.csv", "--ranges", "r.json", "--classes", "no,yes", "--learner", "objective-perturbation")
    assert privol_cli(*words, "--max-iter", "1", "--delta", "1e-6", "--out", "R").exit_code == DATA
    record = json.loads(Path("R/run.json").read_text())
    (entry,) = entries_of("R")
    assert (record["status"], record["releases"], record["rows"]) == ("failed", 0, entry.rows)
    assert entry.mu_squared > 0.0
    assert float(record["spent"]["mu"]) == pytest.approx(math.sqrt(entry.mu_squared))
