"""``privol resume``: after a crash, an error or Ctrl-C a run ends as if nothing had happened."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from cli_tools import RUN, N, entries_of, interrupted_at, listed, privol_cli, run_json, start, write
from patience import WAIT

from privol.cli.app import DATA, INTERRUPTED, IO, OK, USAGE
from privol.state import load_model

pytestmark = pytest.mark.process

posix = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX systems")

PIGD = (*RUN, "--learner", "pigd", "--release", "100", "--checkpoint", "60")
BIG = ("run", "big.csv", "--classes", "0,1", "--radius", "5", "--x-bound", "2", "--learner", "pigd", "--seed", "1",
       "--release", "5000", "--checkpoint", "2000")  # fmt: skip
METRICS = ("--private-metrics", "0.2", "--metric-windows", "4")


def same_run(a, b):
    """What two runs with the same noise have released and spent."""
    first, second = load_model(a), load_model(b)
    assert np.array_equal(first.coef_, second.coef_)
    assert np.array_equal(first.average_coef_, second.average_coef_)
    assert first.guarantee_ == second.guarantee_
    mine, theirs = entries_of(a), entries_of(b)
    for one, other in zip(mine, theirs, strict=True):
        assert (one.learner, one.last_row, one.releases) == (other.learner, other.last_row, other.releases)
        assert one.mu_squared == pytest.approx(other.mu_squared, rel=1e-8)
        assert (one.open, other.open) == (False, False)
    assert read_json(a)["budget"]["reserved"] == read_json(b)["budget"]["reserved"]


def read_json(run, name="run.json"):
    return json.loads((Path(run) / name).read_text())


def without_times(record):
    text = re.sub(r'"(seconds|rows_per_second|out|resumed)": [^,}]*', r'"\1": 0', json.dumps(record))
    return json.loads(text)


def rows_of(n):
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, size=(n, 3)).round(3)
    return [[*row, int(row[0] > row[1])] for row in x.tolist()]


@pytest.fixture
def blocks(monkeypatch):
    """Read few rows at a time, so that a small file has many blocks."""
    monkeypatch.setattr("privol.streams._base.BLOCK_BYTES", 1 << 10)


@pytest.mark.parametrize("words", [(), METRICS, ("--no-diagnostics",), ("--no-diagnostics", *METRICS)], ids=str)
def test_an_interrupted_run_ends_as_if_nothing_had_happened(here, clinic, monkeypatch, blocks, words):
    privol_cli(*PIGD, "--seed", "3", "--out", "whole", *words)
    for row in (150, 420):
        again = ("resume", "R") if Path("R").exists() else (*PIGD, "--seed", "3", "--out", "R", *words)
        with interrupted_at(monkeypatch, row):
            result = privol_cli(*again)
        assert result.exit_code == INTERRUPTED, result.output
        found = int(re.search(r"interrupted after row (\d+); what was released by then is in .*R; privol resume",
                              result.stderr)[1])  # fmt: skip
        assert row <= found < N
        assert load_model("R").n_releases_ == found // 100
        assert read_json("R")["status"] == "interrupted"
    record = run_json("resume", "R")
    assert (record["status"], record["resumed"], record["rows"], record["releases"]) == ("complete", True, N, 5)
    same_run("R", "whole")
    assert sorted(read_json("R")["files"]) == listed("R") == listed("whole")
    ours, theirs = (without_times(read_json(run)) for run in ("R", "whole"))
    assert ours["diagnostics"] == theirs["diagnostics"]
    assert ours["private_metrics"] == theirs["private_metrics"]
    if METRICS[0] in words:
        assert len(read_json("R", "private_metrics.json")["windows"]) == 4
    result = privol_cli("resume", "R")
    assert (result.exit_code, "R: the run is finished" in result.stderr) == (IO, True)


def test_released_metrics_reappear_after_resuming(here, clinic, monkeypatch, blocks):
    with interrupted_at(monkeypatch, 300):
        assert privol_cli(*PIGD, *METRICS, "--out", "R").exit_code == INTERRUPTED
    seen = read_json("R", "private_metrics.json")["windows"]
    assert [(w["first_row"], w["last_row"]) for w in seen] == [(1, 125), (126, 250)]
    run_json("resume", "R")
    assert read_json("R", "private_metrics.json")["windows"][:2] == seen


def test_diagnostics_can_be_left_out_on_resuming(here, clinic, monkeypatch, blocks):
    privol_cli(*PIGD, "--seed", "3", "--out", "whole", "--no-diagnostics")
    with interrupted_at(monkeypatch, 200):
        privol_cli(*PIGD, "--seed", "3", "--out", "R")
    assert run_json("resume", "R", "--no-diagnostics")["diagnostics"] is None
    same_run("R", "whole")


def test_a_run_resumes_after_an_error_in_the_data_is_corrected(here):
    rows = rows_of(150_000)
    rows[140_000][1] = "nan"  # found when its block is about to be learnt, after two others
    write(Path("big.csv"), ["a", "b", "c", "y"], rows)
    result = privol_cli(*BIG, "--no-diagnostics", "--horizon", "150000", "--out", "R")
    assert result.exit_code == DATA
    said = r"row 140001.*what was learnt until row [\d,]+ is kept: privol resume R continues it"
    assert re.search(said, result.stderr), result.stderr
    assert listed("R") == ["ledger.jsonl", "secret"]
    again = privol_cli(*BIG, "--out", "R")
    assert (again.exit_code, "privol resume continues it" in again.stderr) == (IO, True)
    rows[140_000][1] = 0.25
    write(Path("big.csv"), ["a", "b", "c", "y"], rows)
    assert run_json("resume", "R")["rows"] == 150_000
    privol_cli(*BIG, "--no-diagnostics", "--horizon", "150000", "--out", "whole")
    same_run("R", "whole")


def test_an_error_before_a_row_is_learnt_leaves_nothing(here, clinic):
    Path("train.csv").write_text(Path("train.csv").read_text().replace(",", ",oops", 4))
    before = sorted(here.iterdir())
    assert privol_cli(*PIGD, "--horizon", "500", "--out", "R").exit_code == DATA
    os.mkdir("R")
    assert privol_cli(*PIGD, "--horizon", "500", "--out", "R").exit_code == DATA
    assert listed("R") == []
    os.rmdir("R")
    assert sorted(here.iterdir()) == before


def test_rows_and_encoding_must_be_those_that_were_learnt(here, clinic, monkeypatch, blocks):
    with interrupted_at(monkeypatch, 300):
        privol_cli(*PIGD, "--out", "R")
    rows, ranges = Path("train.csv").read_text(), Path("ranges.json").read_text()
    kept = Path("R/ledger.jsonl").read_bytes()
    lines = rows.splitlines()
    lines[7], lines[8] = lines[8], lines[7]
    Path("train.csv").write_text("\n".join(lines) + "\n")
    for words in ((), ("--no-diagnostics",)):
        result = privol_cli("resume", "R", *words)
        refused = "rows of the stream are not those that the run has learnt"
        assert (result.exit_code, refused in result.stderr) == (IO, True)
    Path("train.csv").write_text(rows)
    found = json.loads(ranges)
    name = next(iter(found))
    Path("ranges.json").write_text(json.dumps({**found, name: [found[name][0], 2 * found[name][1]]}))
    result = privol_cli("resume", "R")
    assert (result.exit_code, "other inputs (ranges)" in result.stderr) == (IO, True), result.stderr
    Path("ranges.json").write_text(ranges)
    assert Path("R/ledger.jsonl").read_bytes() == kept
    run_json("resume", "R")


def test_a_run_resumes_from_another_folder_and_with_moved_rows(here, clinic, monkeypatch, blocks):
    with interrupted_at(monkeypatch, 300):
        privol_cli(*PIGD, "--seed", "3", "--out", "R")
    os.mkdir("elsewhere")
    shutil.move("train.csv", "elsewhere/rows.csv")
    os.chdir("elsewhere")
    result = privol_cli("resume", "../R")
    assert (result.exit_code, "train.csv" in result.stderr) == (DATA, True)
    shown = privol_cli("resume", "../R", "rows.csv").stdout
    assert "privol predict ../R NEW.csv" in shown  # as it was called here, not where the run began
    assert all(line == line.rstrip() for line in shown.splitlines())
    os.chdir("..")
    assert read_json("R")["rows"] == N
    privol_cli(*(word.replace("train.csv", "elsewhere/rows.csv") for word in PIGD), "--seed", "3", "--out", "whole")
    same_run("R", "whole")


@pytest.mark.parametrize("words", [(), ("--no-diagnostics", *METRICS)], ids=["models", "metrics"])
def test_a_run_can_be_ended_where_it_is(here, clinic, monkeypatch, blocks, words):
    with interrupted_at(monkeypatch, 300):
        privol_cli(*PIGD, *words, "--out", "R")
    before = load_model("R")
    spent = [entry.mu_squared for entry in entries_of("R")]
    os.remove("train.csv")  # no rows are needed
    record = run_json("resume", "R", "--end")
    assert (record["status"], record["releases"], record["rows"]) == ("ended", before.n_releases_, before.n_rows_)
    assert record == read_json("R")
    assert "secret" not in listed("R")
    assert np.array_equal(load_model("R").coef_, before.coef_)
    entries = entries_of("R")
    assert not any(entry.open for entry in entries)
    assert [entry.mu_squared for entry in entries] == pytest.approx(spent, rel=1e-8)
    assert privol_cli("predict", "R", "new.csv").exit_code == OK
    assert privol_cli("resume", "R").exit_code == IO


def test_nothing_is_kept_if_keeping_is_off(here, clinic, monkeypatch, blocks):
    words = (*RUN, "--learner", "pigd", "--release", "100", "--checkpoint", "0", "--no-diagnostics")
    assert privol_cli(*words, "--out", "A").exit_code == OK
    assert listed("A") == ["ledger.jsonl", "model.json", "model.npz", "run.json"]
    with interrupted_at(monkeypatch, 300):
        result = privol_cli(*words, "--out", "R")
    assert result.exit_code == INTERRUPTED
    assert "resume" not in result.stderr
    assert [entry.open for entry in entries_of("R")] == [False]
    assert listed("R") == ["ledger.jsonl", "model.json", "model.npz", "run.json"]
    assert privol_cli("resume", "R").exit_code == IO


def test_directories_without_a_run_are_refused(here, clinic):
    for name in ("nowhere", "train.csv"):
        result = privol_cli("resume", name)
        assert (result.exit_code, "there is no run to resume here" in result.stderr) == (IO, True), result.output
    os.mkdir("R")
    assert privol_cli("resume", "R").exit_code == IO
    assert privol_cli("resume").exit_code == USAGE


@posix
@pytest.mark.parametrize(
    ("words", "kills"), [(("--no-diagnostics",), (3, 30, 60)), ((), (45,))], ids=["plain", "diagnostics"]
)
def test_killed(here, words, kills):
    """kill -9, repeatedly, at various records of the journal: the same model, and the same spending."""
    write(Path("big.csv"), ["a", "b", "c", "y"], rows_of(150_000))
    assert privol_cli(*BIG, "--no-diagnostics", "--out", "whole").exit_code == OK
    killed, journal = 0, Path("R/ledger.jsonl")
    for records in kills:
        again = ("resume", "R") if Path("R/secret/run.json").exists() else (*BIG, *words, "--out", "R")
        if again[0] == "run":
            shutil.rmtree("R", ignore_errors=True)
        process = start(*again)
        while process.poll() is None:
            if journal.exists() and journal.read_bytes().count(b"\n") >= records:
                process.send_signal(signal.SIGKILL)
                killed += 1
                break
            time.sleep(0.001)
        process.communicate(timeout=WAIT)
    assert killed == len(kills)
    result = privol_cli("resume", "R")
    # the kill came between the end of a run and its report, or never: the model is complete
    assert result.exit_code == OK or "R: the run is finished" in result.stderr, result.stderr
    first, second = load_model("R"), load_model("whole")
    assert np.array_equal(first.coef_, second.coef_)
    assert [(e.last_row, e.releases, e.open) for e in entries_of("R")] == [(150_000, 30, False)]
    assert "secret" not in listed("R")


@posix
def test_two_processes_cannot_resume_one_run(here):
    """The second process is refused, and the first is not affected."""
    process = start("run", "-", "--classes", "0,1", "--horizon", "100000000", "--no-diagnostics", "--out", "R",
                    stdin=subprocess.PIPE, text=False)  # fmt: skip
    process.stdin.write(b"0.1,0.2,-0.3,1\n0.3,-0.1,0.2,0\n" * 300_000)
    process.stdin.flush()
    while not Path("R/secret/run.json").exists():
        assert process.poll() is None
        time.sleep(0.02)
    result = privol_cli("resume", "R", text="0.1,0.2,-0.3,1\n")
    assert (result.exit_code, "another" in result.stderr) == (IO, True), result.stderr
    process.stdin.close()
    assert process.wait(timeout=WAIT) == OK, process.stderr.read()
    assert load_model("R").n_rows_ == 600_000
