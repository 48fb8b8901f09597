"""docs/drift.md agrees with the output of tools/drift_table.py, and its text with the figures."""

from __future__ import annotations

import os
import re
import runpy
import sys

import pytest
import warm
from experiment_tools import covtype_text
from patience import WAIT
from places import ROOT

pytestmark = pytest.mark.process


def test_the_command_runs(tmp_path):
    sample = tmp_path / "covtype.data"
    sample.write_text(covtype_text(2_000))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, str(ROOT / "tools" / "drift_table.py"), str(sample), "--quick"]
    done = warm.run(command, capture_output=True, text=True, env=environment, timeout=WAIT, check=False)
    assert done.returncode == 0, done.stderr
    for line in ("| shuffled |", "epsilon = 1", "| discount 0.999 |", "| window 30,000 |", "| (NOGD, batch"):
        assert line in done.stdout


def test_the_text_of_the_page_agrees_with_its_tables():
    """Forgetting helps on the file's order, at the default weight and without noise, and costs without drift."""
    page = (ROOT / "docs" / "drift.md").read_text(encoding="utf-8")
    tables = dict(re.findall(r"<!-- (\w+): tools/drift_table.py -->(.*?)<!-- end", page, re.DOTALL))
    private, _, plain = re.split(r"epsilon = 10|Without noise", tables["learners"])

    def accuracy(table, name, column=1):
        (row,) = re.findall(rf"^\| {re.escape(name)} \|.*", table, re.MULTILINE)
        return float(row.split("|")[1 + column].split("±")[0])

    forgets = "discount 0.9999"
    assert accuracy(private, forgets) > accuracy(private, "all rows") + 3
    assert accuracy(plain, forgets) > accuracy(plain, "all rows") + 4
    assert accuracy(tables["control"], forgets) < accuracy(tables["control"], "all rows")
    own, ahead = (accuracy(tables["drift"], "of the file", column) for column in (3, 4))
    assert own > ahead + 8
    assert accuracy(tables["drift"], "shuffled", 3) < accuracy(tables["drift"], "shuffled", 4) + 1


def test_the_table_of_alarms_is_what_the_tool_measures(monkeypatch):
    """Of one budget, by fewer runs: to within a third."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    found = runpy.run_path(str(ROOT / "tools" / "drift_alarm.py"))["line"](0.2, 60)
    page = (ROOT / "docs" / "drift.md").read_text(encoding="utf-8")
    (shown,) = (line for line in page.splitlines() if line.startswith("| 0.2 |"))
    numbers = [[int(x) for x in re.findall(r"\d+", row.split("|", 3)[3])] for row in (found, shown)]
    assert [each[-2:] for each in numbers] == [[0, 60], [0, 200]]
    assert "| not seen |" in found
    assert "| not seen |" in shown
    for measured, stated in zip(*(each[:-2] for each in numbers), strict=True):
        assert abs(measured - stated) <= 1 + stated / 3
