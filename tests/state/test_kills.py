"""Kept runs that are killed, starved and damaged: a small part of ``tools/kill_campaign.py``, which must detect errors.

The whole campaign and its figures are in ``docs/reliability.md``.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
import warm
from patience import WAIT
from places import ROOT

from privol.learners import LEARNERS, OFFLINE_LEARNERS

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks, signals and /proc of Linux"),
]


def campaign(*words):
    """A separate process that forks, because pytest has threads."""
    paths = os.pathsep.join(filter(None, sys.path))
    command = [sys.executable, str(ROOT / "tools" / "kill_campaign.py"), "--json", *words]
    environment = {**os.environ, "PYTHONPATH": paths}
    done = warm.run(command, capture_output=True, text=True, timeout=WAIT, env=environment, check=False)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


THINGS = ("device", "node", "registry", "fit")
ERRORS = tuple(f"{name}-disk" for name in THINGS)
CLASSES = ("kill", "interrupt", "torn", "lost", "failing", "room", "damaged", "forked", "rivals")


@pytest.mark.parametrize("runs", [("PIGD, *", "DPFTRL [btu]*"), ("*",)], ids=["two kinds", "four kinds"])
def test_the_kill_campaign_finds_no_violation(runs):
    words = [word for name in CLASSES for word in ("--only", name)]
    words += [word for names in runs for word in ("--runs", names)]
    found = campaign(*words, "--share", "0.012")["classes"]
    assert len(found) == len(CLASSES)
    for each in found:
        assert each["violations"] == [], each["name"]
        assert each["struck"] + each["refused"] > 0, each["name"]


def test_what_is_kept_besides_runs_is_killed_without_a_violation():
    words = [word for name in THINGS for word in ("--only", name)]
    found = campaign(*words, "--share", "0.004")["classes"]
    assert len(found) == len(THINGS)
    for each in found:
        assert each["violations"] == [], each["name"]
        assert each["struck"] > 0, each["name"]


def test_what_is_kept_besides_runs_meets_errors_of_the_disk_without_a_violation():
    words = [word for name in ERRORS for word in ("--only", name)]
    found = campaign(*words, "--share", "0.004")["classes"]
    assert len(found) == len(ERRORS)
    for each in found:
        assert each["violations"] == [], each["name"]
        assert each["struck"] > 0, each["name"]


def test_every_learner_is_struck(monkeypatch):
    """Each kind of learner is in a run of the campaign, or in a fit."""
    monkeypatch.syspath_prepend(ROOT / "tools")
    import kill_kept
    import kill_runs

    found = {job.kind for job in kill_runs.JOBS.values()} | {fit.learner for fit in kill_kept.KEPT_THINGS["fit"]}
    assert found >= {*LEARNERS.values(), *OFFLINE_LEARNERS.values()}


def test_the_campaign_detects_broken_code():
    """Without the sync of files, folders or the journal, and with a ledger that forgets."""
    mutants = ("files", "folders", "journal", "ledger")
    words = [word for name in mutants for word in ("--mutant", name)]
    found = campaign("--only", "mutants", *words, "--share", "0.008")["mutants"]
    assert len(found) == len(mutants)
    for each in found:
        assert each["violations"], each["name"]


def rows_of(text):
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    return [row for row in cells if "---" not in row[0]]


def number(cell):
    return int(cell.replace(",", "").replace("*", ""))


def test_the_page_has_the_campaigns_figures():
    text = ROOT.joinpath("docs", "reliability.md").read_text(encoding="utf-8")
    table = re.search(r"<!-- kills: tools/kill_campaign.py -->\n(.*?)<!-- end of kills -->", text, re.DOTALL)[1]
    figures = [row for row in rows_of(table) if len(row) == 7 and row[0] != "trouble"]
    assert len({row[0] for row in figures}) == len(CLASSES) + len(THINGS) + len(ERRORS) + 1
    assert all(row[-1] == "0" for row in figures), "a violation is to be mended, not published"
    *each, whole = figures
    kills = [row for row in each if re.match("kill|power|three processes", row[0]) or "all kills" in row[0]]
    assert number(whole[3]) == sum(number(row[3]) for row in kills) >= 8000
    mutants = [row for row in rows_of(table) if row[0].startswith("without the sync of")]
    assert len(mutants) == 3
    assert all(number(row[2]) > 0 for row in mutants)


def test_the_page_says_how_many_processes_were_killed():
    """Over all its tables: killed, or without power."""
    text = ROOT.joinpath("docs", "reliability.md").read_text(encoding="utf-8")
    total = 0
    for table in re.findall(r"(?m)(?:^\|.*\n)+", text):
        heading, *rows = rows_of(table)
        struck = [
            k for k, name in enumerate(heading) if re.search("processes killed|launchers killed|launchers struck", name)
        ]
        total += sum(number(row[k]) for row in rows for k in struck)
        total += sum(number(row[3]) for row in rows if row[0].startswith("**killed"))
    assert f"In all, {total:,} processes were killed or lost power" in text
    assert total >= 10_000


@pytest.mark.mpi
def test_killed_ranks_come_to_the_same_end():
    """A few kills of ``tools/kill_ranks.py``: a network, and rows in parts."""
    done = of_ranks("--kills", "2", "--strikes", "3", "--only", "network", "--only", "parts")
    assert done.returncode == 0, done.stderr
    rows = struck_ranks(done)
    assert set(rows) == {"network", "parts"}
    assert sum(rows.values()) >= 2


@pytest.mark.mpi
@pytest.mark.thorough
@pytest.mark.parametrize("calls", ["torn", "lost", "failing"])
def test_ranks_that_are_struck_at_a_call_come_to_the_same_end(calls):
    done = of_ranks("--calls", calls, "--apart", "40", "--only", "network", "--only", "parts of least squares")
    assert done.returncode == 0, done.stderr
    rows = struck_ranks(done)
    assert rows["network"] >= 3
    assert rows["parts of least squares"] >= 1


@pytest.mark.mpi
@pytest.mark.thorough
def test_ranks_that_sync_nothing_are_found():
    done = of_ranks("--calls", "lost", "--apart", "9", "--only", "network", "--mutant", "files")
    assert done.returncode == 1
    assert "network" in done.stderr


def of_ranks(*words):
    pytest.importorskip("mpi4py", exc_type=ImportError)
    command = [sys.executable, str(ROOT / "tools" / "kill_ranks.py"), *words]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run(command, capture_output=True, text=True, timeout=WAIT, env=environment, check=False)


def struck_ranks(done):
    """The number of strikes by kind of run."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines()[2:]]
    return {row[0]: int(row[2]) for row in rows}
