"""kill -9 where a run is reserved and where it ends: its record, its model and its ledger say the same afterwards."""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import warm
from cli_tools import entries_of, listed, privol_cli, write
from patience import WAIT

import privol
from privol.cli.app import INTERRUPTED, IO, OK
from privol.readers.base import told
from privol.state import State, load_model
from privol.state._unbegun import as_begun

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="signals of Linux"),
]

#: Ends the process for good at one point of privol run.
KILLED = """
import os, signal, sys
import privol.cli.offline, privol.cli.run, privol.cli.workers
from privol.learners import keeping
from privol.state import State
from privol.state._checkpoints import Checkpoints

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def after(owner, name, files=None):
    real = getattr(owner, name)
    def call(*given, **named):
        found = real(*given, **named)
        if files is None or str(given[1]).endswith(files):
            die()
        return found
    setattr(owner, name, call)

where = sys.argv.pop(1)
if where == "reserved":
    after(keeping, "begin_run")
if where == "planned":  # the plan is written, and no checkpoint
    after(Checkpoints, "write_plan")
if where == "unknown":  # the checkpoint is written, and the journal does not know of it
    after(Checkpoints, "write")
if where == "sealed":
    after(State, "seal")
if where == "closed":
    State.settled = die
if where == "between":
    after(os, "replace", "R/model.npz")
if where == "shown":
    after(Checkpoints, "show_model")
if where == "settled":
    after(State, "settled")
if where == "undescribed":
    for module in (privol.cli.offline, privol.cli.run, privol.cli.workers):
        module.write_run = die
from privol.cli import main
main()
"""

STREAM = ("run", "rows.csv", "--classes", "0,1", "--x-bound", "2", "--no-diagnostics", "--release", "100")
WHAT = {
    "stream": STREAM,
    # no window is complete when the run ends, so the live ledger has nothing of it yet
    "metrics": (*STREAM, "--private-metrics", "0.2", "--metric-windows", "1", "--horizon", "1500"),
    "workers": ("run", "parts", *STREAM[2:6], "--learner", "dpftrl", "--batch", "64", "--workers", "2"),
    "taught": ("run", "rows.csv", "--learn-schema", "--no-diagnostics", "--epsilon", "20"),
    "offline": ("run", "rows.csv", *STREAM[2:6], "--no-diagnostics", "--learner", "output-perturbation"),
}


@pytest.fixture
def rows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = [[f"{(k * 37 % 100) / 100 - 0.5}", f"{(k * 61 % 90) / 90 - 0.5}", str(int(k * 37 % 100 > 49))]
            for k in range(1200)]  # fmt: skip
    write(Path("rows.csv"), ["a", "b", "y"], made)
    Path("parts").mkdir()
    for part in range(2):
        write(Path(f"parts/{part}.csv"), ["a", "b", "y"], made[part::2])


def killed(where, *words):
    source = str(Path(privol.__file__).parent.parent)
    paths = os.pathsep.join(path for path in (source, os.environ.get("PYTHONPATH")) if path)
    command = [sys.executable, "-c", KILLED, where, *words, "--quiet", "--out", "R"]
    environment = {**os.environ, "PYTHONPATH": paths}
    done = warm.run(command, capture_output=True, text=True, timeout=WAIT, env=environment, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


def whole(n_rows):
    """The run in R is over: all its files are there, each account is closed, and a checker finds that all holds."""
    assert {"ledger.jsonl", "model.json", "model.npz", "run.json"} <= set(listed("R"))
    assert all(not entry.open for entry in entries_of("R"))
    record = json.loads(Path("R/run.json").read_text(encoding="utf-8"))
    assert (record["status"], record["rows"]) == ("complete", n_rows)
    assert load_model("R").n_rows_ == n_rows
    found = privol_cli("verify", "R")
    assert found.exit_code == OK, found.output
    return record


@pytest.mark.parametrize(
    ("where", "what"),
    [("closed", "stream"), ("between", "stream"), ("closed", "workers"), ("closed", "metrics"), ("shown", "metrics")],
)
def test_a_run_that_had_ended_is_completed_without_its_rows(rows, where, what):
    """Its account is closed and its process killed: nothing is learnt, and no row is needed."""
    killed(where, *WHAT[what])
    journal = Path("R/ledger.jsonl").read_bytes()
    Path("rows.csv").unlink()
    Path("parts/0.csv").unlink()
    result = privol_cli("resume", "R", "--json")
    assert result.exit_code == OK, result.output
    record = whole(1200)
    assert json.loads(result.stdout) == record
    assert Path("R/ledger.jsonl").read_bytes().startswith(journal)
    spent = sum(entry.mu_squared for entry in entries_of("R"))
    assert all(entry.mu_squared > 0.0 for entry in entries_of("R"))
    # a figure that is too small would be the worst: metrics that were not seen count as spent
    assert record["budget"]["spent"]["mu"] ** 2 >= spent * (1 - 1e-9)
    assert ("lost" in str(record["warnings"])) == (what == "metrics")
    again = privol_cli("resume", "R")
    assert (again.exit_code, "the run is finished" in again.stderr) == (IO, True), again.output


def test_the_record_of_a_killed_run_is_that_of_any_run(rows):
    seeded = (*STREAM, "--seed", "1")
    assert privol_cli(*seeded, "--out", "whole").exit_code == OK
    killed("settled", *seeded)
    records = [json.loads(Path(folder, "run.json").read_text(encoding="utf-8")) for folder in ("whole", "R")]
    for record in records:
        for name in ("seconds", "rows_per_second", "out"):
            del record[name]
    assert records[0] == records[1]
    assert listed("R") == listed("whole")
    assert Path("R/run.json").stat().st_mode == Path("whole/run.json").stat().st_mode


@pytest.mark.parametrize("what", ["stream", "taught", "metrics"])
def test_a_reservation_is_taken_by_the_run_that_resumes(rows, what):
    """Killed between its reservation and its first checkpoint: no second account, and all of it is checked."""
    killed("planned" if what != "stream" else "unknown", *WHAT[what])
    before = [entry.plan_id for entry in entries_of("R")]
    result = privol_cli("resume", "R", "--json")
    assert result.exit_code == OK, result.output
    record = whole(json.loads(result.stdout)["rows"])
    assert [entry.plan_id for entry in entries_of("R")] == before
    assert [entry.open for entry in entries_of("R")] == [False] * len(before)
    assert record["rows"] + (record["encoding"] or {"rows": 0})["rows"] == 1200
    assert "secret" not in listed("R")


def test_an_interrupt_before_the_first_checkpoint_keeps_the_reservation(rows, monkeypatch):
    """The directory stays because of what its encoding has spent; the run that resumes has no second account."""

    def struck(self, run):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(State, "commit", struck)
        assert privol_cli(*WHAT["taught"], "--out", "R").exit_code == INTERRUPTED
    before = [entry.plan_id for entry in entries_of("R")]
    result = privol_cli("resume", "R", "--json")
    assert result.exit_code == OK, result.output
    whole(json.loads(result.stdout)["rows"])
    assert [entry.plan_id for entry in entries_of("R")] == before


def test_what_was_inferred_need_not_be_inferred_again(rows):
    """The first call infers the header; the schema that was learnt names the columns of the resumed run."""
    killed("sealed", *WHAT["taught"])
    result = privol_cli("resume", "R", "--json")
    assert result.exit_code == OK, result.output
    guarantee = whole(json.loads(result.stdout)["rows"])["guarantee"]
    assert any(words.startswith("the separator and the header, inferred") for words in guarantee["conditions"])


def test_a_description_of_an_end_that_did_not_come_is_removed(rows):
    """The account is open, so the run goes on, here without anybody who describes it."""
    killed("sealed", *WHAT["stream"])
    assert "described.json" in listed("R/secret")
    state = State("R")
    stream = privol.open_stream("rows.csv", target="y", classes=("0", "1"))
    state.learner().fit_stream(stream, checkpoint=state)
    assert listed("R") == ["ledger.jsonl", "model.json", "model.npz"]


def test_a_run_that_was_only_reserved_says_so(rows):
    killed("reserved", *WHAT["taught"])
    result = privol_cli("resume", "R")
    assert result.exit_code == IO
    assert "nothing of it was kept: it learnt and released nothing" in result.stderr
    assert "what its encoding has spent" in result.stderr


def test_a_fit_that_was_not_described(rows):
    killed("undescribed", *WHAT["offline"])
    assert listed("R") == ["ledger.jsonl", "model.json", "model.npz"]
    result = privol_cli("resume", "R", "--json")
    assert result.exit_code == OK, result.output
    record = json.loads(Path("R/run.json").read_text(encoding="utf-8"))
    assert json.loads(result.stdout) == record
    (entry,) = entries_of("R")
    assert (record["status"], record["rows"], record["releases"]) == ("complete", 1200, 1)
    assert record["spent"]["mu"] ** 2 == pytest.approx(entry.mu_squared)
    assert record["sentence"] == load_model("R").guarantee_.sentence()
    assert privol_cli("resume", "R").exit_code == IO


def test_an_account_for_other_noise_is_not_taken(rows):
    """The program has changed: what was reserved is given back, and the run reserves what it needs."""
    killed("reserved", *WHAT["stream"])
    (old,) = entries_of("R")
    stream = privol.open_stream("rows.csv", target="y", classes=("0", "1"))
    learner = privol.AdaptiveFTRL(epsilon=0.25, horizon=1200, x_bound=2.0, release=100)
    learner.fit_stream(stream, checkpoint=State("R"))
    entries = entries_of("R")
    assert [entry.plan_id == old.plan_id for entry in entries] == [True, False]
    assert [(entry.open, entry.releases) for entry in entries] == [(False, 0), (False, 12)]
    assert entries[0].mu_squared == 0.0


def test_a_run_that_infers_more_than_it_did_is_another():
    """Fewer inferences than the kept run stated keep its promise; more of them would need a condition that it lacks."""
    learner = privol.PIGD(epsilon=0.5, horizon=10, release="last").fit([[0.1], [-0.1]] * 5, [0, 1] * 5)
    plain = learner.guarantee_

    def told_by(*inferred):
        return replace(plain, conditions=(*plain.conditions, *told(inferred)))

    two = told_by("separator", "header")
    assert as_begun(two, two)
    assert as_begun(told_by("separator"), two)
    assert as_begun(plain, two)
    assert not as_begun(two, told_by("separator"))
    assert not as_begun(told_by("format"), two)
    assert not as_begun(two, plain)
    assert not as_begun(replace(two, parameter=two.parameter / 2), two)
    assert not as_begun(replace(two, conditions=two.conditions[1:]), two)
