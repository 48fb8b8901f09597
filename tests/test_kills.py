"""Kept runs that are killed, starved and damaged: a small part of ``tools/kill_campaign.py``, and that it can fail.

The campaign itself, and its figures, are in ``docs/reliability.md``.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from patience import WAIT

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks, signals and /proc of Linux")


def campaign(*words, fails=False):
    """A process of its own, which forks: pytest has threads."""
    paths = os.pathsep.join(filter(None, sys.path))
    command = [sys.executable, str(ROOT / "tools" / "kill_campaign.py"), "--json", *words]
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT, env=environment, check=False)
    assert done.returncode == fails, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", ["kill", "interrupt", "torn", "lost", "failing", "room", "damaged", "forked", "rivals"])
def test_nothing_is_violated(name):
    found = campaign("--only", name, "--share", "0.015")["classes"][0]
    assert found["violations"] == []
    assert found["struck"] > 0
    assert found["cases"] > 0


@pytest.mark.parametrize("mutant", ["files", "folders", "journal"])
def test_a_missing_sync_is_found(mutant):
    """The layer that loses what was not synced finds that it is."""
    (found,) = campaign("--only", "mutants", "--mutant", mutant, "--share", "0.03")["mutants"]
    assert found["violations"]


def test_a_ledger_that_forgets_is_found():
    """The checks see an entry that is lost, other bits, and a directory that is not clean."""
    found = campaign("--only", "kill", "--share", "0.02", "--break-ledger", fails=True)["classes"][0]
    assert any("ledger" in what for what in found["violations"])


def test_the_page_has_the_campaigns_figures():
    text = ROOT.joinpath("docs", "reliability.md").read_text(encoding="utf-8")
    table = re.search(r"<!-- kills: tools/kill_campaign.py -->\n(.*?)<!-- end of kills -->", text, re.DOTALL)[1]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line.startswith("| ")]
    figures = {row[0]: row[1:] for row in rows if "trouble" not in row and "---" not in row[0] and len(row) == 6}
    assert len(figures) == 9
    assert all(row[-1] == "0" for row in figures.values()), "a violation is to be mended, not published"
    assert int(figures["kill -9 at a random instant"][1].replace(",", "")) >= 1000
    mutants = [row for row in rows if row[0].startswith("without the sync of")]
    assert len(mutants) == 3
    assert all(int(row[2].replace(",", "")) > 0 for row in mutants)
