"""``privol run`` with offline learners: one fit, one release, paid for before it is visible, however it ends."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import warm
from cli_tools import N, entries_of, listed, piped, privol_cli, run_json, write
from patience import WAIT

import privol
import privol.cli.offline as command
from privol.cli import brief
from privol.cli.app import DATA, INTERRUPTED, IO, OK, USAGE
from privol.cli.options import OFFLINE
from privol.data import open_covtype
from privol.learners import OFFLINE_LEARNERS, averaged, offline
from privol.ledger import Ledger
from privol.state import SealedRelease, _sealed, load_model

pytestmark = pytest.mark.process

posix = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX systems")
each = pytest.mark.parametrize("name", OFFLINE)
RUN = ("run", "train.csv", "--classes", "well,sick", "--ranges", "ranges.json", "--x-bound", "2")
WRITTEN = ["ledger.jsonl", "model.json", "model.npz", "run.json"]


def run_of(name, *words, out="R"):
    """Pure noise, unless a delta is given."""
    words = words if "--delta" in words else (*words, "--delta", "0")
    return (*RUN, "--learner", name, "--out", out, *words)


def whole_of(folder):
    """The reservation of a run's account, and its entry."""
    (account,) = Ledger.read(Path(folder) / "ledger.jsonl").accounts
    return account.reserved_mu_squared, account.entry()


# ---- what a run does ------------------------------------------------------------------------------------------------


@each
def test_a_run_is_what_the_library_does(here, clinic, name):
    record = run_json(*run_of(name, "--seed", "5", "--epsilon", "2"))
    assert listed("R") == WRITTEN == sorted(record["files"])
    stream = privol.open_stream("train.csv", classes=["well", "sick"], ranges="ranges.json")
    twin = OFFLINE_LEARNERS[name](x_bound=2.0, epsilon=2.0, delta=0.0, random_state=5).fit_stream(stream)
    model = load_model("R")
    assert np.array_equal(model.coef_, twin.coef_)
    assert np.array_equal(model.intercept_, twin.intercept_)
    assert model.guarantee_ == twin.guarantee_
    assert json.loads(Path("R/run.json").read_text()) == record
    assert (record["status"], record["rows"], record["releases"], record["release_rows"]) == ("complete", N, 1, [N])
    assert record["budget"]["spent"]["mu"] == pytest.approx(record["budget"]["reserved"]["mu"], rel=1e-8)
    assert record["guarantee"]["kind"] == "pure"
    reserved, entry = whole_of("R")
    assert (entry.last_row, entry.releases, entry.open, entry.pure_epsilon) == (N, 1, False, 2.0)
    assert entry.mu_squared == pytest.approx(reserved, rel=1e-8)
    result = privol_cli("predict", "R", "new.csv")
    lines = list(csv.reader(io.StringIO(result.stdout)))
    assert lines[0] == ["prediction", "probability of sick"]
    assert {line[0] for line in lines[1:]} <= {"well", "sick"}
    assert len(lines) == 21


@each
def test_the_report(here, clinic, name):
    words = ("--delta", "1e-5") if name == "pol" else ()
    text = " ".join(privol_cli(*run_of(name, *words), "--verbose").stdout.split())
    noise = "std at most" if name == "objective-perturbation" else "std"
    for words in ("Guarantee: ", f"its noise {noise} ", "1, after row 500", "spent all of it", "500; 3 features"):
        assert words in text
    public, _, own = text.partition("Diagnostics: NOT PRIVATE: ")
    assert public.count("NOT PRIVATE") == 1  # in run.json, which has them
    assert "a constant" in own
    shown = privol_cli("account", "R").stdout
    assert "closed" in shown
    assert OFFLINE_LEARNERS[name].__name__ in shown
    assert privol_cli("resume", "R").exit_code == IO


def test_noise_that_hides_the_model_is_reported(here, clinic):
    record = run_json(*run_of("output-perturbation", "--l2", "0.01"))
    assert record["noise"]["score_std"] > record["noise"]["largest_score"] / 10
    assert any(words.startswith("NOISE: ") for words in record["warnings"])
    plan = privol.OutputPerturbation(x_bound=2.0, delta=0.0, l2=0.01).calibrate(3, N)
    assert record["noise"]["std"] == pytest.approx(plan.scale * np.sqrt(5.0), rel=1e-12)
    assert run_json(*run_of("output-perturbation", "--epsilon", "inf", out="S"))["noise"] is None


def test_options_reach_the_learner(here, clinic):
    """Those of each, and a model of three classes."""
    words = "--loss smooth_hinge --smooth-hinge-width 0.25 --min-l2 quarter --l2 0.1 --max-iter 90 --adjacency zero_out"
    found = run_json(*run_of("objective-perturbation", *words.split(), "--no-fit-intercept"))["parameters"]
    expected = {"min_l2": "quarter", "l2": 0.1, "max_iter": 90, "adjacency": "zero_out", "fit_intercept": False}
    assert expected.items() <= found.items()
    assert found["loss"] == {"name": "smooth_hinge", "width": 0.25}
    words = "--error 0.1 --weights uniform --delta 1e-5 --domain l1:3 --on-invalid zero --no-diagnostics --checkpoint 0"
    found = run_json(*run_of("pol", *words.split(), out="S"))["parameters"]
    assert (found["error"], found["weights"], found["delta"], found["domain"]["radius"]) == (0.1, "uniform", 1e-5, 3.0)
    found = run_json(*run_of("output-perturbation", "--radius", "3", "--calibration", "tight", out="T"))["parameters"]
    assert (found["radius"], found["delta"]) == (3.0, 0.0)
    lines = Path("train.csv").read_text().splitlines()
    lines[1:] = [line.replace("well", "fair" if k % 2 else "well") for k, line in enumerate(lines[1:])]
    Path("three.csv").write_text("\n".join(lines) + "\n")
    words = ("run", "three.csv", "--classes", "well,fair,sick", "--ranges", "ranges.json", "--out", "U")
    record = run_json(*words, "--learner", "objective-perturbation")
    assert record["classes"] == ["well", "fair", "sick"]
    assert load_model("U").coef_.shape == (3, 3)
    header = privol_cli("predict", "U", "new.csv").stdout.splitlines()[0]
    assert header == "prediction,probability of well,probability of fair,probability of sick"


def test_published_noise_says_what_is_proved(here, clinic):
    record = run_json(*run_of("objective-perturbation", "--calibration", "published"))
    assert record["guarantee"]["claim"]["epsilon"] == 1.0
    assert record["guarantee"]["parameter"] > 1.0
    assert any("published" in words for words in record["warnings"])
    assert run_json(*run_of("objective-perturbation", "--calibration", "jmlr", out="S"))["guarantee"]["claim"] is None


def test_gaussian_noise_in_the_objective(here, clinic):
    """Proved at one epsilon and delta, so no mu is shown, and the whole is spent."""
    record = run_json(*run_of("objective-perturbation", "--delta", "1e-6"))
    assert (record["guarantee"]["kind"], record["guarantee"]["slack"]) == ("approximate", 1e-6)
    assert record["budget"]["spent"] == {"mu": "inf", "epsilon": 1.0}
    assert load_model("R").guarantee_.epsilon() == 1.0
    words = run_of("objective-perturbation", "--delta", "1e-6", "--verbose", out="S")
    text = " ".join(privol_cli(*words).stdout.split())
    assert "budget spent all of it" in text
    assert "closed" in privol_cli("account", "S").stdout


def test_regression_and_standard_input(here):
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, size=(300, 2))
    body = [[*map(repr, x.tolist()), repr(float(x @ [0.5, -0.2]))] for x in X]
    write(here / "r.csv", ["a", "b", "t"], body)
    words = ("--loss", "huber", "--target", "t", "--learner", "output-perturbation", "--seed", "1")
    run_json("run", "r.csv", *words, "--out", "R")
    text = privol_cli("predict", "R", "r.csv").stdout.splitlines()
    assert [float(v) for v in text[1:]] == load_model("R").predict(X).tolist()
    result = piped(Path("r.csv").read_text(), "run", "-", *words, "--out", "S", "--json")  # needs no horizon
    assert result.exit_code == OK, result.output
    assert np.array_equal(load_model("S").coef_, load_model("R").coef_)


@pytest.mark.parametrize("name", ["objective-perturbation", "pol"])
def test_the_embedded_rows(here, name):
    """At epsilon 1: 72 % and 63 %; the majority class has 51 %, and the limits are far from both."""
    record = run_json("run", "--learner", name, "--seed", "1", "--out", "R")
    assert (record["rows"], record["x_bound_from"]) == (120_000, None)
    model, right = load_model("R"), 0
    for block in open_covtype():
        right += int((model.predict(block.X) == model.classes_[block.y.astype(int)]).sum())
    assert right / 120_000 > 0.6


# ---- compared with a constant, and in the target's own units ------------------------------------------------


@each
def test_a_model_is_compared_with_a_constant(here, clinic, name):
    """On its own rows, which are not moved; without diagnostics nothing is said about them."""
    record = run_json(*run_of(name))
    found = record["diagnostics"]
    assert (found["private"], found["classification"], found["final_model"]["rows"]) == (False, True, N)
    predicted = [line[0] for line in csv.reader(io.StringIO(privol_cli("predict", "R", "train.csv").stdout))][1:]
    truth = [line.rsplit(",", 1)[1] for line in (here / "train.csv").read_text().splitlines()[1:]]
    shares = [sum(a == b for a, b in zip(each, truth, strict=True)) / N for each in (predicted, ["sick"] * N)]
    assert found["final_model"]["accuracy"] == pytest.approx(shares[0])
    assert found["majority_accuracy"] == pytest.approx(max(shares[1], 1 - shares[1]))
    assert stat.S_IMODE((here / "R" / "run.json").stat().st_mode) == 0o600
    drowned = run_json(*run_of(name, "--epsilon", "1e-3", "--seed", "5", out="D"))
    said = [words for words in drowned["warnings"] if "does not beat a constant" in words]
    worse = drowned["diagnostics"]["final_model"]["accuracy"] <= found["majority_accuracy"]
    assert len(said) == worse
    assert all(words.startswith("NOT PRIVATE: ") for words in said)
    without = run_json(*run_of(name, "--no-diagnostics", out="W"))
    assert without["diagnostics"] is None
    assert "NOT PRIVATE" not in json.dumps(without)


@pytest.mark.parametrize("learner", ["objective-perturbation", "pqftl"])
def test_errors_in_the_targets_own_units(here, learner):
    rng = np.random.default_rng(0)
    a, b = rng.uniform(0, 10, N), rng.uniform(0, 4, N)
    y = 100.0 + 3.0 * a - 2.0 * b + rng.normal(size=N)
    rows = [f"{u!r},{v!r},{t!r}" for u, v, t in zip(a.tolist(), b.tolist(), y.tolist(), strict=True)]
    (here / "rows.csv").write_text("\n".join(["a,b,goal", *rows]) + "\n")
    ranges = "[columns.a]\nrange = [0, 10]\n[columns.b]\nrange = [0, 4]\n[target]\ncolumn = 'goal'\nrange = [80, 140]\n"
    (here / "s.toml").write_text(ranges)
    words = ("--schema", "s.toml", "--learner", learner, "--loss", "squared")
    record = run_json("run", "rows.csv", *words, "--epsilon", "5", "--seed", "1", "--out", "R")
    found = record["diagnostics"]
    last = found["final_model"] if learner == "objective-perturbation" else found["run"]["final_model"]
    lines = privol_cli("predict", "R", "rows.csv").stdout.splitlines()[1:]
    errors = y - np.array([float(line.split(",")[0]) for line in lines])
    assert found["target_range"] == [80, 140]
    assert last["in_target_units"]["root_mean_squared_error"] == pytest.approx(math.sqrt(np.mean(errors**2)))
    assert last["in_target_units"]["mean_absolute_error"] == pytest.approx(np.mean(np.abs(errors)))
    assert last["r_squared"] == pytest.approx(1.0 - np.mean(errors**2) / np.var(y))
    assert record["noise"]["score_std_in_target_units"] == pytest.approx(30.0 * record["noise"]["score_std"])
    again = ("run", "--verbose", "rows.csv", *words, "--epsilon", "5", "--seed", "1", "--out", "T")
    text = " ".join(privol_cli(*again).stdout.split())
    assert "RMSE in target's units" in text
    assert f"{last['in_target_units']['root_mean_squared_error']:.5g}" in text
    short = privol_cli("run", "rows.csv", *again[3:-1], "U").stdout.splitlines()
    (cells,) = (line.split() for line in short if line.startswith("last model RMSE"))
    assert cells[3] == f"{last['in_target_units']['root_mean_squared_error']:.5g}"
    assert cells[-1] == f"{np.std(y):.5g}"  # the mean's, in the same units
    plan = json.loads(privol_cli("plan", *words, "--horizon", N, "--json").stdout)
    assert plan["score_std_in_target_units"] == pytest.approx(30.0 * plan["releases"][-1]["score_std"])
    assert "In the target's own units" in privol_cli("plan", *words, "--horizon", N).stdout


# ---- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "words"),
    [
        *(("pol", words) for words in ("--horizon 500", "--private-metrics 0.1", "--metric-windows 3", "--delay 1",
                                       "--checkpoint 100", "--learn-schema", "--schema-share 0.25",
                                       "--release last", "--renewal double",
                                       "--max-iter 9", "--min-l2 full", "--noise-shape paper")),
        *(("output-perturbation", words) for words in ("--domain l1:1", "--weights last", "--error 0.1", "--batch 4")),
        *(("objective-perturbation", words) for words in ("--horizon 500", "--class-weight sick=2", "--design tree")),
    ],
    ids=lambda value: value.replace(" ", "="),
)  # fmt: skip
def test_options_that_do_not_apply_are_refused_by_name(here, clinic, name, words):
    before = sorted(here.iterdir())
    result = privol_cli(*run_of(name, *words.split()))
    assert result.exit_code == USAGE
    assert f"{words.split()[0]} is not an option of --learner {name}" in result.stderr
    assert sorted(here.iterdir()) == before


@pytest.mark.parametrize(
    ("name", "words", "said"),
    [
        ("objective-perturbation", "--loss hinge", "smooth_hinge"),
        ("output-perturbation", "--loss softmax", "several scores"),
        ("pol", "--calibration jmlr", "calibration must be one of"),
        ("pol", "--weights uniform --calibration published", "delta"),
        ("output-perturbation", "--l2 0", "l2 must be"),
        ("objective-perturbation", "--loss squared", "real targets"),
        ("pol", "--classes well,sick,fair", "two classes"),
    ],
)
def test_parameters_are_refused_before_a_row_is_read(here, clinic, monkeypatch, name, words, said):
    def read(*_, **__):
        raise AssertionError

    monkeypatch.setattr(privol.learners.OfflineLearner, "fit_stream", read)
    before = sorted(here.iterdir())
    result = privol_cli(*run_of(name, *words.split()))
    assert (result.exit_code, said in result.stderr) == (USAGE, True), result.stderr
    assert sorted(here.iterdir()) == before


@each
def test_a_bad_row_leaves_nothing(here, clinic, name):
    lines = Path("train.csv").read_text().splitlines()
    lines[400] = lines[400].replace(",", ",oops", 1)
    Path("train.csv").write_text("\n".join(lines) + "\n")
    before = sorted(here.iterdir())
    result = privol_cli(*run_of(name))
    assert (result.exit_code, "row 400" in result.stderr) == (DATA, True), result.stderr
    assert sorted(here.iterdir()) == before


def test_the_command_knows_the_learners():
    assert tuple(OFFLINE_LEARNERS) == OFFLINE
    shown = " ".join(privol_cli("run", "--help-on", "learner").stdout.split())
    assert all(name in shown for name in OFFLINE)
    assert "all rows in memory and one release" in shown
    for name in OFFLINE:
        result = privol_cli("plan", "--learner", name, "--n-features", "3", "--horizon", "500")
        assert (result.exit_code, "By rule, from rows" in result.stdout) == (OK, True)


# ---- what ends a fit ------------------------------------------------------------------------------------------------


def test_a_fit_that_fails_is_paid_for(here, clinic):
    """The failure is visible and may depend on the rows: the ledger keeps the charge, and says so."""
    result = privol_cli(*run_of("objective-perturbation", "--max-iter", "1"))
    assert result.exit_code == DATA
    assert "nothing was released" in result.stderr
    assert "the budget counts as spent: R/ledger.jsonl says so" in result.stderr
    assert listed("R") == ["ledger.jsonl", "run.json"]
    reserved, entry = whole_of("R")
    assert (entry.releases, entry.open, entry.pure_epsilon) == (0, False, 1.0)
    assert entry.mu_squared == pytest.approx(reserved, rel=1e-8)
    assert json.loads(Path("R/run.json").read_text())["status"] == "failed"
    assert "because its fit failed" in privol_cli("predict", "R", "new.csv").stderr
    assert privol_cli(*run_of("objective-perturbation")).exit_code == IO  # it is not overwritten
    assert "epsilon 1" in privol_cli("account", "R").stdout
    kept = Path("R/ledger.jsonl").read_bytes()
    assert "counts as spent" in privol_cli("resume", "R").stderr
    assert Path("R/ledger.jsonl").read_bytes() == kept


@each
def test_ctrl_c_within_a_fit_is_paid_for(here, clinic, monkeypatch, name):
    def strike(*_, **__):
        assert whole_of("R")[1].open  # the whole budget is reserved by then
        raise KeyboardInterrupt

    for module in (offline, averaged):
        monkeypatch.setattr(module, "noisy", strike)
    result = privol_cli(*run_of(name))
    assert result.exit_code == INTERRUPTED
    assert listed("R") == ["ledger.jsonl", "run.json"]
    reserved, entry = whole_of("R")
    assert (entry.releases, entry.open) == (0, False)
    assert entry.mu_squared == pytest.approx(reserved, rel=1e-8)
    ended = json.loads(Path("R/run.json").read_text())
    assert (ended["status"], ended["spent"]["mu"]) == ("failed", pytest.approx(math.sqrt(reserved), rel=1e-6))


@pytest.mark.parametrize("at", ["describe_fit", "write_run"])
def test_an_interrupt_while_writing_waits(here, clinic, monkeypatch, at):
    real = getattr(command, at)

    def struck(*given, **named):
        os.kill(os.getpid(), signal.SIGINT)
        return real(*given, **named)

    monkeypatch.setattr(command, at, struck)
    assert privol_cli(*run_of("pol")).exit_code == INTERRUPTED
    assert listed("R") == WRITTEN
    assert json.loads(Path("R/run.json").read_text())["status"] == "complete"
    assert load_model("R").n_rows_ == N


def test_nothing_is_printed_before_it_is_paid_for_and_written(here, clinic, monkeypatch):

    def look(_, **__):
        assert listed("R") == WRITTEN
        assert not entries_of("R")[0].open
        raise BlockingIOError(11, "full")

    monkeypatch.setattr(brief, "show", look)
    result = privol_cli(*run_of("output-perturbation"))
    assert (result.exit_code, "full; the run is in R" in result.stderr) == (IO, True)


@pytest.mark.parametrize("where", ["seal", "settled"])
def test_a_full_disk(here, clinic, monkeypatch, where):
    """Before the account is closed there is no model, and it counts as spent; afterwards there is one to be shown."""

    def full(*_, **__):
        raise OSError(28, "No space left on device", "R/model.npz")

    with monkeypatch.context() as patch:
        if where == "seal":
            patch.setattr(_sealed, "write_export", full)
        else:
            patch.setattr(SealedRelease, "settled", full)
        result = privol_cli(*run_of("pol", "--seed", "4"))
    assert (result.exit_code, "counts as spent" in result.stderr) == (IO, True), result.stderr
    assert "model.json" not in listed("R")
    reserved, entry = whole_of("R")
    assert (entry.open, entry.releases) == (False, int(where == "settled"))
    assert entry.mu_squared == pytest.approx(reserved, rel=1e-8)
    result = privol_cli("resume", "R")
    if where == "seal":
        assert (result.exit_code, "nothing to resume" in result.stderr) == (IO, True)
        assert json.loads(privol_cli("resume", "R", "--end", "--json").stdout)["status"] == "ended"
    else:
        assert result.exit_code == OK, result.output
        run_json(*run_of("pol", "--seed", "4", out="whole"))
        assert np.array_equal(load_model("R").coef_, load_model("whole").coef_)
        assert listed("R") == WRITTEN


# ---- kill -9 --------------------------------------------------------------------------------------------------------

KILLED = """
import os, signal, sys, time
from privol.learners import averaged, offline
from privol.ledger import Account
from privol.state import SealedRelease
def struck(owner, name, before):
    real = getattr(owner, name)
    def call(*given, **named):
        found = None if before else real(*given, **named)
        os.kill(os.getpid(), signal.SIGKILL)
        return found
    setattr(owner, name, call)
where = sys.argv.pop(1)
for module in (averaged, offline):
    if where in ("fit", "noise"):
        struck(module, "noisy", where == "fit")
if where == "sealed":
    struck(SealedRelease, "seal", False)
if where == "closed":
    struck(Account, "close", False)
if where == "shown":
    struck(SealedRelease, "settled", False)
if where == "between":  # the two files of a model that comes out
    real = os.replace
    def replace(*given):
        real(*given)
        if str(given[1]) == "R/model.npz":
            os.kill(os.getpid(), signal.SIGKILL)
    os.replace = replace
from privol.cli import main
main()
"""


def killed(where, *words):
    source = str(Path(privol.__file__).parent.parent)
    path = os.pathsep.join(p for p in (source, os.environ.get("PYTHONPATH")) if p)
    done = warm.run(
        [sys.executable, "-c", KILLED, where, *words],
        capture_output=True, text=True, timeout=WAIT, env={**os.environ, "PYTHONPATH": path}, check=False,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert done.stdout == ""


@posix
@pytest.mark.parametrize("where", ["fit", "noise"])
def test_killed_before_the_release(here, clinic, where):
    """Nothing was released; the reservation counts until it is closed as spent; nothing is fitted again."""
    name = "objective-perturbation" if where == "fit" else "pol"
    killed(where, *run_of(name))
    assert listed("R") == ["ledger.jsonl"]
    reserved, entry = whole_of("R")
    assert (entry.open, entry.releases, entry.mu_squared) == (True, 0, reserved)
    account = json.loads(privol_cli("account", "R", "--json").stdout)
    assert account["together"]["pure_epsilon"] == 1.0
    before = Path("R/ledger.jsonl").read_bytes()
    result = privol_cli("resume", "R")
    assert result.exit_code == IO
    assert "nothing to resume. Nothing was released, but its budget counts as spent" in result.stderr
    assert privol_cli("resume", "R", "train.csv").exit_code == USAGE
    assert privol_cli(*run_of(name)).exit_code == IO
    assert Path("R/ledger.jsonl").read_bytes() == before
    record = json.loads(privol_cli("resume", "R", "--end", "--json").stdout)
    assert (record["status"], record["releases"], record["sentence"]) == ("ended", 0, None)
    reserved, entry = whole_of("R")
    assert (entry.open, entry.releases, entry.pure_epsilon) == (False, 0, 1.0)
    assert entry.mu_squared == pytest.approx(reserved, rel=1e-8)
    assert "no model" in privol_cli("predict", "R", "new.csv").stderr


@posix
@pytest.mark.parametrize(("where", "words"), [("sealed", ()), ("closed", ("--end",)), ("between", ()), ("shown", ())])
def test_killed_when_the_release_was_ready(here, clinic, where, words):
    """It is what the complete run releases, paid for once."""
    run_json(*run_of("output-perturbation", "--seed", "7", out="whole"))
    killed(where, *run_of("output-perturbation", "--seed", "7"))
    assert ("model.json" in listed("R")) == (where == "shown")
    result = privol_cli("resume", "R", *words)
    assert result.exit_code == OK, result.output
    assert json.loads(Path("R/run.json").read_text())["status"] == "complete"
    assert listed("R") == WRITTEN
    assert np.array_equal(load_model("R").coef_, load_model("whole").coef_)
    assert load_model("R").guarantee_ == load_model("whole").guarantee_
    reserved, entry = whole_of("R")
    assert (entry.open, entry.releases, entry.last_row, entry.pure_epsilon) == (False, 1, N, 1.0)
    assert entry.mu_squared == pytest.approx(reserved, rel=1e-8)
    assert privol_cli("predict", "R", "new.csv").exit_code == OK
    assert privol_cli("resume", "R").exit_code == IO


@posix
def test_a_fit_in_progress_is_left_alone(here, clinic):
    # the journal's second line is not enough: a fit that is stopped while that is written has reserved nothing
    slow = (
        "import pathlib, time\nfrom privol.learners import averaged\n"
        "averaged.noisy = lambda *a: (pathlib.Path('drawing').touch(), time.sleep(600))\n"
    )
    source = str(Path(privol.__file__).parent.parent)
    process = warm.Popen(
        [sys.executable, "-c", f"{slow}from privol.cli import main\nmain()", *run_of("pol")],
        stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": source},
    )  # fmt: skip
    while not Path("drawing").exists():
        assert process.poll() is None
        time.sleep(0.02)
    assert Path("R/ledger.jsonl").read_bytes().count(b"\n") == 2
    result = privol_cli("resume", "R", "--end")
    assert (result.exit_code, "open" in result.stderr) == (IO, True), result.stderr
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=WAIT)
    assert process.returncode == INTERRUPTED
    assert listed("R") == ["ledger.jsonl", "run.json"]


# ---- sealed releases in Python --------------------------------------------------------------------------------------
