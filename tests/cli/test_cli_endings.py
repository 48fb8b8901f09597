"""Early endings: Ctrl-C keeps what was released and spent, closed pipes are quiet, full disks leave no half files."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest
import warm
from cli_tools import RUN as DEFAULT
from cli_tools import N, entries_of, interrupted_at, listed, no_file_above, privol_cli, run_json, start
from patience import WAIT

import privol.cli.run as command
from privol import PIGD
from privol._files import AppendOnly
from privol.cli import brief, prepare
from privol.cli.app import DATA, INTERRUPTED, IO, OK, PIPE
from privol.ledger import Ledger
from privol.state import load_model

pytestmark = pytest.mark.process

posix = pytest.mark.skipif(os.name != "posix", reason="signals and limits of POSIX systems")


# ---- Ctrl-C -------------------------------------------------------------------------------------------------


RUN = (*DEFAULT, "--learner", "pigd")  # its releases are paid for one by one


@pytest.mark.parametrize("diagnostics", ["--diagnostics", "--no-diagnostics"])
def test_an_interrupted_run_keeps_what_was_released(here, clinic, monkeypatch, diagnostics):
    whole = run_json(*RUN, "--horizon", "1000", "--release", "200", "--seed", "3", "--out", "whole", "--no-diagnostics")
    words = ("--horizon", "1000", "--release", "200", "--seed", "3", "--out", "R", "--json", diagnostics)
    with interrupted_at(monkeypatch, 1):
        result = privol_cli(*RUN, *words)
    assert result.exit_code == INTERRUPTED
    assert "interrupted after row 500; what was released by then is in R; privol resume R continues it" in result.stderr
    record = json.loads(result.stdout)
    assert json.loads(Path("R/run.json").read_text()) == record
    assert (record["status"], record["interrupted_while"], record["rows"]) == ("interrupted", "learning", N)
    assert (record["releases"], record["release_rows"], record["diagnostics"]) == (2, [200, 400], None)
    assert record["parameters"]["horizon"] == 1000
    assert record["inputs"]["feature_names"] == ["age", "dose", "size"]
    assert 0 < record["budget"]["spent"]["mu"] < record["budget"]["reserved"]["mu"]
    assert record["budget"] == whole["budget"]
    (entry,) = entries_of("R")
    assert (entry.last_row, entry.releases, entry.open) == (N, 2, True)
    assert sorted([*record["files"], "secret"]) == listed("R")
    assert np.array_equal(load_model("R").coef_, load_model("whole").coef_)
    assert privol_cli("predict", "R", "new.csv").exit_code == OK


def test_an_interrupt_adds_no_release(here, clinic, monkeypatch):
    with interrupted_at(monkeypatch, 1):
        result = privol_cli(*RUN, "--horizon", "1000", "--out", "R", "--no-diagnostics")
    assert result.exit_code == INTERRUPTED
    assert "INTERRUPTED while it was learning, after row 500" in result.stdout
    assert listed("R") == ["ledger.jsonl", "run.json", "secret"]
    assert json.loads(Path("R/run.json").read_text())["budget"]["spent"] == {"mu": 0.0, "epsilon": 0.0}
    result = privol_cli("predict", "R", "new.csv")
    assert result.exit_code == IO
    assert "the run has no model, because it was interrupted after row 500, before its first release" in result.stderr


def test_an_interrupt_while_comparing_keeps_the_whole_run(here, clinic, monkeypatch):
    @contextmanager
    def struck(*_, **__):
        def stage(words):
            raise KeyboardInterrupt

        yield (lambda learner, stream: None), stage

    monkeypatch.setattr(command, "watched", struck)
    words = ("--release", "100", "--private-metrics", "0.2", "--metric-windows", "5", "--out", "R", "--json")
    result = privol_cli(*RUN, *words)
    assert result.exit_code == INTERRUPTED
    record = json.loads(result.stdout)
    assert (record["status"], record["interrupted_while"], record["releases"]) == ("interrupted", "comparing", 5)
    assert record["diagnostics"] is None
    assert len(json.loads(Path("R/private_metrics.json").read_text())["windows"]) == 5
    assert record["budget"]["spent"]["epsilon"] == pytest.approx(1.0, rel=1e-6)


def test_released_metrics_survive_an_interrupt(here, clinic, monkeypatch):
    words = ("--horizon", "1000", "--release", "100", "--private-metrics", "0.2", "--metric-windows", "4")
    with interrupted_at(monkeypatch, 1):
        result = privol_cli(*RUN, *words, "--out", "R", "--no-diagnostics", "--json")
    assert result.exit_code == INTERRUPTED
    metrics = json.loads(Path("R/private_metrics.json").read_text())
    assert [(w["first_row"], w["last_row"]) for w in metrics["windows"]] == [(1, 250), (251, 500)]
    entries = [(entry.learner, entry.releases, entry.open) for entry in entries_of("R")]
    assert entries == [("PrivateMetrics", 2, True), ("PIGD", 5, True)]


def test_an_interrupt_before_the_first_row_leaves_nothing(here, clinic, monkeypatch):
    def counting(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(prepare, "_horizon", counting)
    before = sorted(here.iterdir())
    result = privol_cli(*RUN, "--out", "R")
    assert result.exit_code == INTERRUPTED
    assert sorted(here.iterdir()) == before


@pytest.mark.parametrize("at", ["describe_run", "write_run"])
def test_an_interrupt_while_writing_waits(here, clinic, monkeypatch, at):
    """The model is written by then, and its report is, too."""
    real, calls = getattr(command, at), []

    def struck(*given, **named):
        calls.append(at)
        if calls != ["describe_run"]:  # the first description is sealed beside the model; the run can still go on then
            os.kill(os.getpid(), signal.SIGINT)
        return real(*given, **named)

    monkeypatch.setattr(command, at, struck)
    before = sorted(here.iterdir())
    result = privol_cli(*RUN, "--out", "R", "--no-diagnostics")
    assert result.exit_code == INTERRUPTED
    record = json.loads(Path("R/run.json").read_text())
    assert sorted(record["files"]) == listed("R")
    assert load_model("R").n_rows_ == N
    assert sorted(here.iterdir()) == sorted([*before, here / "R"])


def fed(*words):
    """A run that has learnt from its standard input and waits for more."""
    process = start("run", "-", "--classes", "0,1", "--horizon", "100000000", *words, stdin=subprocess.PIPE, text=False)
    # Far more than is read ahead of the learner: when the last byte is taken, most rows have been learnt.
    for _ in range(40):
        process.stdin.write(b"0.1,0.2,-0.3,1\n0.3,-0.1,0.2,0\n" * 33_000)
    process.stdin.flush()
    return process


@posix
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt(here, number):
    process = fed("--release", "60000", "--no-diagnostics", "--out", "R")
    process.send_signal(number)
    out, err = process.communicate(timeout=WAIT)
    assert process.returncode == INTERRUPTED, (out, err)
    assert b"Traceback" not in err
    record = json.loads(Path("R/run.json").read_text())
    assert record["status"] == "interrupted"
    assert record["rows"] >= 60_000
    assert record["releases"] == record["rows"] // 60_000 == load_model("R").n_releases_
    assert [p.name for p in here.iterdir()] == ["R"]


def test_an_interrupt_in_the_report_names_the_run(here, clinic, monkeypatch):

    def strike(_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(brief, "show", strike)
    result = privol_cli(*RUN, "--out", "R", "--no-diagnostics")
    assert (result.exit_code, result.stderr) == (INTERRUPTED, "privol: error: interrupted; the run is in R\n")
    assert json.loads(Path("R/run.json").read_text())["status"] == "complete"


IN_A_FINALIZER = """
import os, signal, time
import privol.cli.app

class Unlucky:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0)

def app():
    Unlucky()
    while True:
        time.sleep(0.01)

privol.cli.app.app = app
privol.cli.main()
"""


@posix
def test_an_interrupt_in_a_finalizer_is_not_lost():
    """Python prints a traceback there and goes on."""
    process = warm.Popen(
        [sys.executable, "-c", IN_A_FINALIZER], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(Path(command.__file__).parents[2])},
    )  # fmt: skip
    out, err = process.communicate(timeout=WAIT)
    assert (process.returncode, out, err) == (INTERRUPTED, "", "privol: error: interrupted\n")


def test_an_interrupt_within_a_record_is_an_interrupt(here, clinic, monkeypatch):
    """The journal refuses whatever is written on the way out: it does not know what is on the disk."""
    real, records = AppendOnly.append, []

    def append(self, line):
        records.append(line)
        if b'"closed"' in line:
            raise KeyboardInterrupt
        real(self, line)

    monkeypatch.setattr(AppendOnly, "append", append)
    metrics = ("--private-metrics", "0.2", "--metric-windows", "4")  # they commit on the way out
    result = privol_cli(*RUN, "--out", "R", "--no-diagnostics", "--release", "100", "--checkpoint", "60", *metrics)
    assert records
    assert result.exit_code == INTERRUPTED, result.output
    assert "Traceback" not in result.stderr
    monkeypatch.undo()
    assert not Path("R").exists() or privol_cli("resume", "R").exit_code == OK


@posix
def test_interrupted_twice(here):
    process = fed("--release", "60000", "--no-diagnostics", "--out", "R")
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=WAIT)
    assert process.returncode == INTERRUPTED, err
    assert b"Traceback" not in err
    assert [p.name for p in here.iterdir()] == ["R"]
    # it can be resumed; the second interrupt may have come before run.json
    assert {"ledger.jsonl", "secret"} <= set(listed("R"))


# ---- closed pipes -------------------------------------------------------------------------------------------


@posix
@pytest.mark.parametrize("words", [("--help",), ("run", "--help"), ("info",)], ids=str)
def test_a_closed_output_pipe_is_handled(words):
    reader, writer = os.pipe()
    os.close(reader)
    process = start(*words, stdout=writer, imported=words == ("info",))
    os.close(writer)
    _, err = process.communicate(timeout=WAIT)
    assert (process.returncode, err) == (PIPE, "")


@posix
def test_a_run_completes_even_if_nobody_reads_its_report(here, clinic):
    reader, writer = os.pipe()
    os.close(reader)
    process = start(*RUN, "--json", "--out", "R", "--no-diagnostics", stdout=writer)
    os.close(writer)
    _, err = process.communicate(timeout=WAIT)
    assert (process.returncode, err) == (PIPE, "")
    assert load_model("R").n_rows_ == N


@posix
def test_predictions_for_head(here, clinic):
    run_json(*RUN, "--out", "R", "--no-diagnostics")
    lines = Path("new.csv").read_text().splitlines()
    Path("many.csv").write_text("\n".join([lines[0], *(lines[1:] * 10_000)]) + "\n")
    process = start("predict", "R", "many.csv")
    assert process.stdout.readline() == "prediction,probability of sick\n"
    process.stdout.close()
    assert process.wait(timeout=WAIT) == PIPE
    assert process.stderr.read() == ""


@posix
def test_a_closed_error_pipe_is_handled(here):
    reader, writer = os.pipe()
    os.close(reader)
    process = start("run", "nowhere.csv", "--json", stderr=writer)
    os.close(writer)
    out, _ = process.communicate(timeout=WAIT)
    assert process.returncode == DATA
    assert json.loads(out)["error"]["exit_code"] == DATA


# ---- disks --------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_full_standard_output(here, clinic):
    with open("/dev/full", "w") as full:
        process = start(*RUN, "--out", "R", "--no-diagnostics", "--json", stdout=full)
        _, err = process.communicate(timeout=WAIT)
    assert process.returncode == IO
    assert err == "privol: error: standard output: No space left on device; the run is in R\n"
    assert load_model("R").n_rows_ == N


@posix
@pytest.mark.parametrize(
    ("limit", "words"),
    [(200, ()), (3500, ()), (30_000, ("--release", "1")), (1000, ("--no-diagnostics",))],
    ids=["journal", "rows", "plot", "state"],
)
def test_full_disk(here, clinic, limit, words):
    before = sorted(here.iterdir())
    with no_file_above(limit):
        result = privol_cli(*RUN, *words, "--out", "R")
    assert result.exit_code == IO, result.stderr
    where = "the temporary file of the diagnostics" if limit == 3500 else "R/"
    assert result.stderr.startswith(f"privol: error: {where}")
    assert ": File too large" in result.stderr
    assert ".tmp" not in result.stderr
    if limit == 30_000:  # the run itself has ended by then
        assert result.stderr.endswith("; the model and what it spent are in R\n")
        assert load_model("R").n_releases_ == N
        assert not entries_of("R")[0].open
        assert "secret" not in listed("R")
    else:
        assert sorted(here.iterdir()) == before


@posix
def test_full_disk_for_predictions(here, clinic):
    run_json(*RUN, "--out", "R", "--no-diagnostics")
    before = sorted(here.iterdir())
    with no_file_above(100):
        result = privol_cli("predict", "R", "new.csv", "--out", "p.csv")
    assert (result.exit_code, result.stderr) == (IO, "privol: error: p.csv: File too large\n")
    assert sorted(here.iterdir()) == before


# ---- the bar ------------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("words", [(), ("--horizon", "1000")], ids=["counted", "stated"])
def test_the_progress_bar_estimates_the_remaining_time(here, clinic, monkeypatch, words):
    """Rows so far, the most there are, and the remaining time on a terminal, whether or not rows were counted."""
    from privol.cli import progress
    from privol.cli.run import run

    terminal = Terminal()
    monkeypatch.setattr(progress, "_EVERY", 0.0)
    monkeypatch.setattr("sys.stderr", terminal)
    for name, value in (("TERM", "xterm"), ("COLUMNS", "100")):
        monkeypatch.setenv(name, value)
    run.main([*RUN[1:], *words, "--no-diagnostics"], standalone_mode=False)
    most = "up to 1,000" if words else "500"
    assert f"0 of {most} rows" in terminal.getvalue()
    assert re.search(rf"500 of {most} rows, [\d,]+/s, \d+:\d\d:\d\d left, epsilon [01]", terminal.getvalue())
    assert ("counting the rows of train.csv" in terminal.getvalue()) == (not words)


def test_progress_is_shown_in_logs_too(here, clinic, monkeypatch):
    """If stderr is not a terminal, occasional lines, and none for a short run."""
    from privol.cli import progress

    assert privol_cli(*DEFAULT, "--seed", "3", "--out", "short").stderr == ""
    monkeypatch.setattr(progress, "_EVERY_OF_A_LOG", 0.0)
    found = privol_cli(*DEFAULT, "--seed", "3", "--out", "R")
    lines = found.stderr.splitlines()
    assert re.fullmatch(r"500 of 500 rows, [\d,]+/s, 0:00:00 left, epsilon 1", lines[0])
    assert "comparing: without noise" in lines
    assert "left, epsilon" not in found.stdout


# ---- killed before the first row ----------------------------------------------------------------------------


@contextmanager
def about_to_begin(folder):
    """Another process that has taken the directory and not begun; it ends by SIGKILL."""
    program = (
        "import sys; from privol import PIGD; from privol.state import State\n"
        "state = State(sys.argv[1]); state.open(PIGD(horizon=10)); print('open', flush=True); sys.stdin.read()"
    )
    with warm.Popen(
        [sys.executable, "-c", program, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        try:
            assert other.stdout.readline() == "open\n"
            yield
        finally:
            other.kill()


def test_a_run_that_was_killed_before_it_began_is_begun_in_its_directory(here, clinic):
    """Found with a broker: neither `run` nor `resume` took the directory, and nothing said that it may go."""
    words = (*RUN, "--no-diagnostics", "--seed", 3, "--out")
    with about_to_begin("R"):
        before = sorted(path.name for path in Path("R").rglob("*"))
        assert {"ledger.jsonl", "secret", "lock"} <= set(before)
        refused = privol_cli(*words, "R")
        assert refused.exit_code not in (OK, INTERRUPTED)
        assert "another process" in refused.stderr
        assert sorted(path.name for path in Path("R").rglob("*")) == before
    resumed = privol_cli("resume", "R")
    assert resumed.exit_code == IO
    assert "no run has begun here, and nothing was learnt, released or spent: privol run --out" in resumed.stderr
    for folder in ("R", "NEW"):
        assert privol_cli(*words, folder).exit_code == OK
    assert np.array_equal(load_model("R").coef_, load_model("NEW").coef_)
    assert "exists and is not empty" in privol_cli(*words, "R").stderr


@pytest.mark.parametrize("left", ["secret/key", "rows.csv", "ledger.jsonl"])
def test_a_directory_with_anything_else_is_not_taken(here, clinic, left):
    with about_to_begin("R"):
        pass
    if left == "ledger.jsonl":
        with closing(Ledger(journal="R/ledger.jsonl")) as ledger:
            PIGD(ledger=ledger).fit(np.eye(2), [0, 1])
    else:
        Path("R", left).write_text("mine")
    before = Path("R", left).read_bytes()
    refused = privol_cli(*RUN, "--out", "R")
    assert refused.exit_code == IO
    assert "exists and is not empty" in refused.stderr
    assert Path("R", left).read_bytes() == before
