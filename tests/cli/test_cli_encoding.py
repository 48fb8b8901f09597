"""Only a file and a target: ``privol run`` learns what the columns mean."""

from __future__ import annotations

import json
import os
import signal
import time
import tomllib
from pathlib import Path

import numpy as np
import pandas
import pytest
from cli_tools import entries_of, listed, piped, privol_cli, run_json, sparse_rows, start

from privol.cli.app import BUDGET, DATA, OK, USAGE
from privol.guarantees import gdp_mu
from privol.ledger import Ledger
from privol.state import load_model
from privol.streams import Schema
from privol.tables import facts_of

pytestmark = pytest.mark.process

N = 20_000
WAIT = 120


def table(n=N, seed=0):
    rng = np.random.default_rng(seed)
    age, town = rng.uniform(18, 90, n).round(1), rng.choice(["Oslo", "Bergen", "Narvik"], n, p=[0.5, 0.3, 0.2])
    score = (age - 54) / 12 + np.where(town == "Oslo", 1.5, -1.5) + rng.logistic(size=n)
    dose = 3.0 * np.exp(rng.normal(0, 1, n)).round(4)
    return pandas.DataFrame(
        {
            "id": np.arange(n) + 10_000,
            "age": age,
            "town": town,
            "dose": dose,
            "constant": "x",
            "name": [f"{k}-{seed}" for k in range(n)],
            "outcome": np.where(score > 0, "ill", "well"),
        }
    )


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table().to_csv("rows.csv", index=False)
    return tmp_path


WORDS = ("run", "rows.csv", "--target", "outcome", "--epsilon", "2")


def test_a_file_and_a_target(here):
    record = run_json(*WORDS, "--seed", "1", "--out", "R")
    taught = record["encoding"]["rows"]
    assert record["classes"] == ["ill", "well"]
    assert record["rows"] == N - taught
    assert set(record["encoding"]["dropped"]) == {"name"}
    assert record["diagnostics"]["run"]["progressive"]["auc"] > 0.82
    assert record["budget"]["reserved"]["epsilon"] == pytest.approx(2.0, rel=1e-6)
    assert Ledger.read("R/ledger.jsonl").spent.epsilon(1e-6) == pytest.approx(2.0, rel=1e-6)
    assert [entry.learner for entry in entries_of("R")] == ["PrivateEncoder", "AdaptiveFTRL"]
    shown = " ".join(privol_cli(*WORDS, "--seed", "1", "--out", "S", "--no-diagnostics", "--verbose").stdout.split())
    assert f"learnt from the first {taught:,} rows" in shown
    assert "name: no value is frequent" in shown
    assert np.array_equal(load_model("S").coef_, load_model("R").coef_)


def test_predictions_are_encoded_alike(here):
    # the number of a row grows over time, and new rows start again
    run_json(*WORDS, "--drop", "id", "--seed", "2", "--out", "R", "--no-diagnostics")
    new = table(500, seed=1)
    new.drop(columns="outcome").to_csv("new.csv", index=False)
    found = privol_cli("predict", "R", "new.csv")
    assert found.exit_code == OK, found.stderr
    said = [line.split(",")[0] for line in found.stdout.splitlines()[1:]]
    assert np.mean(np.array(said) == new["outcome"]) > 0.7


def test_predict_reports_cells_unknown_to_the_model(here):
    run_json(*WORDS, "--seed", "2", "--out", "R", "--no-diagnostics")
    new = table(500, seed=1)
    new.loc[:99, "age"] = 500.0
    new.loc[:49, "dose"] = np.nan
    new.drop(columns="outcome").to_csv("new.csv", index=False)
    found = privol_cli("predict", "R", "new.csv")
    assert found.exit_code == OK, found.stderr
    assert len(found.stdout.splitlines()) == 501
    said = " ".join(found.stderr.split())
    assert "Cells clipped, unknown or missing, of 500 in each column" in said
    assert "50 missing" in said
    counts = json.loads(privol_cli("predict", "R", "new.csv", "--out", "P", "--json").stdout)["cells"]
    assert counts["rows"] == 500
    assert counts["columns"]["age"]["clipped"] >= 100
    assert counts["columns"]["dose"]["missing"] == 50


@pytest.mark.parametrize(
    ("words", "learner", "loss"),
    [
        (("--target", "dose"), "AdaptiveFTRL", "squared"),
        (("--target", "dose", "--l2", "0.01"), "PQFTL", "squared"),
        (("--target", "town"), "AdaptiveFTRL", "softmax"),
        (("--target", "outcome", "--positive", "ill", "--drop", "id,dose"), "AdaptiveFTRL", "logistic"),
        (("--target", "outcome", "--learner", "nogd", "--radius", "20"), "NOGD", "logistic"),
        (("--target", "outcome", "--private-metrics", "0.2", "--release", "1000"), "AdaptiveFTRL", "logistic"),
    ],
    ids=["real", "moments", "classes", "drop", "nogd", "metrics"],
)
def test_targets_and_learners(here, words, learner, loss):
    record = run_json("run", "rows.csv", *words, "--epsilon", "2", "--out", "R", "--no-diagnostics")
    assert (record["learner"], record["parameters"]["loss"]["name"]) == (learner, loss)
    ledger = Ledger.read("R/ledger.jsonl")
    assert ledger.spent.epsilon(1e-6) <= 2.0 * (1 + 1e-6)
    if record["private_metrics"] is not None:  # for the windows and the models, not for what taught
        found = record["private_metrics"]["guarantee"]
        assert found["parameter"] == pytest.approx(ledger.spent.mu, rel=1e-6)
        assert (found["horizon"], found["releases"]) == (record["rows"], len(record["private_metrics"]["windows"]))
        assert "epsilon 2 at delta 1e-6" in record["summary"]


def test_a_header_may_be_named(here):
    table().to_csv("bare.csv", index=False, header=False)
    record = run_json(
        "run", "bare.csv", "--columns", "id,age,town,dose,constant,name,outcome", *WORDS[2:], "--out", "R"
    )
    assert record["classes"] == ["ill", "well"]
    first = Path("bare.csv").read_text().splitlines()[:50]
    Path("few.csv").write_text("\n".join(first) + "\n")
    found = privol_cli("predict", "R", "few.csv")
    assert found.stdout.count("\n") == 51, found.stderr


def test_refused(here):
    for words, code, said in (
        (("--learner", "ldpsgd", "--randomizer", "privunit"), USAGE, "of kind 'pure'"),
        (("--drop", "nobody"), DATA, "no column 'nobody'"),
        (("--no-learn-schema", "--drop", "age"), USAGE, "--drop applies to a learnt encoding"),
        (("--learn-schema", "--ranges", "r.json"), USAGE, "exclude each other"),
        (("--cross", "age"), USAGE, "'age' is not A,B: the names of two columns"),
        (("--cross", "age,town,dose"), USAGE, "is not A,B: the names of two columns"),
        (("--cross", "age,towns"), USAGE, "no column 'towns' (did you mean 'town'?)"),
        (("--cross", "age,outcome"), USAGE, "'outcome' is the target and has no features"),
        (("--cross", "age,town", "--cross", "town,age"), USAGE, "the cross of 'town' and 'age' is declared twice"),
        (("--cross", "age,town", "--drop", "town"), USAGE, "'town' is dropped, allowed are columns with"),
        (("--no-learn-schema", "--cross", "age,town"), USAGE, "--cross applies to a learnt encoding"),
        (("--no-learn-schema", "--sketch", "8"), USAGE, "--sketch goes with --learn-schema"),
        (("--sketch", "8"), USAGE, "sketch applies to sparse rows of numbered features, found columns"),
        (("--learner", "output-perturbation", "--cross", "age,town"), USAGE, "--cross is not an option of --learner"),
        (("--learner", "output-perturbation", "--drop", "age"), USAGE, "--drop is not an option of --learner"),
    ):
        found = privol_cli(*WORDS, *words, "--out", "R")
        assert (found.exit_code, said in found.stderr) == (code, True), found.stderr
        assert not Path("R").exists()


def test_a_cross_learns_what_only_both_columns_say(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    colour, size = rng.choice(["red", "blue"], N), rng.choice(["small", "large"], N)
    label = np.where((colour == "red") ^ (size == "small") ^ (rng.random(N) < 0.1), "yes", "no")
    rows = pandas.DataFrame(
        {
            "colour": colour,
            "size": size,
            "dose": rng.random(N).round(3),
            "empty": "",
            "label": label,
        }
    )
    rows.to_csv("rows.csv", index=False)
    words = ("run", "rows.csv", "--target", "label", "--epsilon", "4", "--seed", "1")
    crosses = ("--cross", "colour,size", "--cross", "dose,empty")
    plain, crossed = run_json(*words, "--out", "P"), run_json(*words, *crosses, "--out", "R")
    auc = [record["diagnostics"]["run"]["progressive"]["auc"] for record in (plain, crossed)]
    assert 0.45 < auc[0] < 0.55
    assert auc[1] > 0.85
    assert crossed["encoding"]["crosses"] == ["colour*size"]
    why = "'empty' is left out (nothing in it stood out of the noise)"
    assert crossed["encoding"]["uncrossed"] == {"dose*empty": why}
    assert crossed["budget"]["spent"] == plain["budget"]["spent"]
    shown = " ".join(privol_cli(*words, *crosses, "--no-diagnostics", "--out", "S", "--verbose").stdout.split())
    assert f"crossed are colour*size; the cross dose*empty is left out: {why}" in shown
    rows.drop(columns="label").to_csv("new.csv", index=False)
    found = privol_cli("predict", "R", "new.csv")
    said = [line.split(",")[0] for line in found.stdout.splitlines()[1:]]
    assert np.mean(np.array(said) == label) > 0.85
    written = privol_cli("info", *words[1:], "--private", *crosses)
    assert f"the cross 'dose*empty' is left out: {why}" in written.stderr
    Path("schema.toml").write_text(written.stdout)
    assert Schema.load("schema.toml").crosses == (("colour", "size"),)
    again = run_json("run", "rows.csv", "--schema", "schema.toml", "--epsilon", "4", "--no-diagnostics", "--out", "T")
    assert "colour" in again["inputs"]["feature_names"][-1]


@pytest.mark.parametrize("learner", ["miogd", "bandit"])
def test_the_encoding_costs_no_more_than_the_model(here, learner):
    """A learner whose noise is stated: its cost depends on the number of features that the encoding will have."""
    record = run_json(*WORDS[:4], "--learner", learner, "--out", "R", "--no-diagnostics")
    encoder, model = (account.guarantee.mu for account in Ledger.read("R/ledger.jsonl").accounts)
    assert 0.99 * model < encoder <= model == record["budget"]["reserved"]["mu"]
    assert Ledger.read("R/ledger.jsonl").spent.mu <= model * (1 + 1e-12)


def test_too_few_rows_are_paid_for_and_reported(here):
    table(60).to_csv("few.csv", index=False)
    found = privol_cli("run", "few.csv", "--target", "outcome", "--out", "R")
    assert found.exit_code == DATA
    assert "through the noise" in found.stderr or "stood out of the noise" in found.stderr
    assert "the budget counts as spent" in found.stderr
    assert listed("R") == ["ledger.jsonl"]
    assert Ledger.read("R/ledger.jsonl").spent.mu == pytest.approx(gdp_mu(1.0, 1e-6) / 2)  # all rows would have taught


def test_a_learnt_encoding_is_paid_for_if_the_first_block_fails(here):
    """An error in a later row reveals that columns exceeded the noise, which depends on the rows that taught."""
    Path("parts").mkdir()
    lines = Path("rows.csv").rename("parts/1.csv").read_text().splitlines()
    Path("parts/2.csv").write_text(f"{lines[0]}\n1,2\n")
    found = privol_cli("run", "parts", "--target", "outcome", "--horizon", f"{len(lines)}", "--out", "R")
    assert found.exit_code == DATA, found.stderr
    assert "2.csv, row 1 (row 20,001 of all): found 2 field(s)" in found.stderr
    assert "the budget counts as spent: R/ledger.jsonl says so" in found.stderr
    assert listed("R") == ["ledger.jsonl"]
    assert Ledger.read("R/ledger.jsonl").spent.epsilon(1e-6) == pytest.approx(1.0, rel=1e-6)


def killed_and_resumed(*words, lines=8, before=()):
    """Start a run in the folder R, kill it after some lines of its journal, and return the output of ``resume``.

    ``before`` is a file of other rows, with which it must not continue.
    """
    process = start(*words, "--out", "R")
    journal = Path("R/ledger.jsonl")
    while process.poll() is None:
        if journal.exists() and journal.read_bytes().count(b"\n") >= lines:
            process.send_signal(signal.SIGKILL)
            break
        time.sleep(0.001)
    process.communicate(timeout=WAIT)
    assert process.returncode == -signal.SIGKILL
    for file in before:
        result = privol_cli("resume", "R", file)
        assert result.exit_code != OK
        assert "not those that taught the encoding" in result.stderr
    result = privol_cli("resume", "R", "--json")
    assert result.exit_code == OK, result.stderr
    return json.loads(result.stdout)


@pytest.mark.skipif(os.name != "posix", reason="needs kill -9")
def test_a_killed_run_resumes_with_the_learnt_encoding(here):
    rows = table(100_000)
    rows.to_csv("rows.csv", index=False)
    # the first row taught; learnt as the last one, it would pay for one phase and be in both
    pandas.concat([rows[-1:], rows[1:-1], rows[:1]]).to_csv("others.csv", index=False)
    words = (*WORDS, "--cross", "age,town", "--seed", "3", "--checkpoint", "1000", "--no-diagnostics", "--quiet")
    assert privol_cli(*words, "--out", "whole").exit_code == OK
    result = killed_and_resumed(*words, before=["others.csv"])
    assert not Path("R/secret").exists()
    assert result["resumed"] is True
    assert result["encoding"] == json.loads(Path("whole/run.json").read_text())["encoding"]
    assert result["encoding"]["mechanism"]["phases"]
    assert np.array_equal(load_model("R").coef_, load_model("whole").coef_)
    spent = [Ledger.read(f"{name}/ledger.jsonl").spent.mu for name in ("R", "whole")]
    assert spent[0] == spent[1]
    assert len(entries_of("R")) == 2


@pytest.mark.skipif(os.name != "posix", reason="needs kill -9")
def test_a_resumed_run_can_be_checked(here):
    """``privol verify`` needs the record of what taught the encoding, which the killed process had."""
    table(100_000).to_csv("rows.csv", index=False)
    killed_and_resumed(*WORDS, "--checkpoint", "1000", "--no-diagnostics", "--quiet")
    found = privol_cli("verify", "R")
    assert (found.exit_code, found.stdout.splitlines()[-1]) == (OK, "The guarantee of R: holds.")


def test_a_share_of_the_budget_lets_all_rows_teach_and_learn(here):
    words = (*WORDS, "--schema-share", "0.25", "--no-diagnostics")
    record = run_json(*words, "--seed", "1", "--out", "R")
    mu = gdp_mu(2.0, 1e-6)
    assert record["rows"] == N
    assert N - 4 < record["encoding"]["rows"] <= N
    assert record["summary"].startswith("NOT PRIVATE")  # the seed is known
    assert "epsilon 2 at delta 1e-6" in record["summary"]
    shares = {name: found["mu"] for name, found in record["budget"]["shares"].items()}
    assert shares == {"PrivateEncoder": pytest.approx(mu / 2), "AdaptiveFTRL": pytest.approx(mu * 0.75**0.5)}
    found = Ledger.read("R/ledger.jsonl")
    assert found.epsilon == 2.0
    assert mu * (1 - 1e-9) < found.spent.mu <= mu
    assert "which is counted here" in record["sentence"]
    assert "another account pays" not in record["sentence"]
    shown = " ".join(privol_cli(*words, "--out", "S", "--verbose").stdout.split())
    assert "Guarantee of models and schema: differential privacy with epsilon 2 at delta 1e-6" in shown
    assert "and the model learns them too, by the rest of the budget" in shown
    assert len(privol_cli("predict", "R", "rows.csv").stdout.splitlines()) == N + 1


@pytest.mark.skipif(os.name != "posix", reason="needs kill -9")
def test_a_killed_run_with_a_schema_share_resumes(here):
    """With a share that the run chose by itself: the learner's epsilon is not the one that the command states."""
    table(100_000).to_csv("rows.csv", index=False)
    words = (*WORDS, "--epsilon", "0.01", "--seed", "3", "--checkpoint", "1000", "--no-diagnostics", "--quiet")
    assert privol_cli(*words, "--out", "whole").exit_code == OK
    result = killed_and_resumed(*words)
    assert "epsilon 0.01 at delta 1e-6" in result["summary"]
    assert np.array_equal(load_model("R").coef_, load_model("whole").coef_)
    assert Ledger.read("R/ledger.jsonl").spent.mu == Ledger.read("whole/ledger.jsonl").spent.mu


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs kill -9")
def test_a_killed_run_for_users_resumes(here):
    """With the rows that the cap leaves, after those that taught."""
    rows = table(24_000)
    rows["id"] = np.random.default_rng(0).integers(0, 2500, len(rows))
    rows.to_csv("rows.csv", index=False)
    Path("users.toml").write_text('[user]\ncolumn = "id"\nmax_rows = 12\nseparation = 200\n')
    words = (*WORDS, "--schema", "users.toml", "--learn-schema", "--rows-per-user", "12", "--user-separation", "200")
    words = (*words, "--seed", "3", "--checkpoint", "500", "--no-diagnostics", "--quiet", "--epsilon", "8")
    assert privol_cli(*words, "--out", "whole").exit_code == OK
    result = killed_and_resumed(*words)
    assert result["resumed"] is True
    assert np.array_equal(load_model("R").coef_, load_model("whole").coef_)
    assert Ledger.read("R/ledger.jsonl").spent.mu == Ledger.read("whole/ledger.jsonl").spent.mu


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--private-metrics", "0.1", "--release", "50"), "exclude each other"),
        (("--no-learn-schema",), "applies to a learnt encoding"),
        (("--ranges", "ranges.json"), "applies to a learnt encoding"),
        (("--schema-share", "1"), "--schema-share 1"),
        (("--schema-share", "0"), "--schema-share 0"),
        (("--learner", "miogd"), "give --epsilon"),
    ],
    ids=str,
)
def test_invalid_schema_shares_are_refused(here, words, said):
    result = privol_cli("run", "rows.csv", "--target", "outcome", "--schema-share", "0.2", *words, "--out", "R")
    assert result.exit_code == USAGE
    assert said in " ".join(result.stderr.split())
    assert not Path("R").exists()


def test_an_undeclared_pipe_names_the_option_that_learns_its_schema(here):
    """A pipe may be live, so nothing is learnt from it without a request."""
    text = Path("rows.csv").read_text()
    refused = piped(text, "run", "-", "--horizon", N, *WORDS[2:])
    assert refused.exit_code == USAGE
    assert "or --learn-schema, which learns them and the columns from the first rows" in refused.stderr
    assert piped(text, "run", "-", "--horizon", N, *WORDS[2:], "--learn-schema", "--quiet").exit_code == OK


@pytest.mark.skipif(os.name != "posix", reason="needs kill -9")
def test_a_killed_encoding_is_paid_for(here):
    """Whatever the killed process had shown: the whole reservation counts."""
    process = start("run", "-", "--learn-schema", "--horizon", N, *WORDS[2:], "--out", "R", stdin=-1)
    process.stdin.write("\n".join(Path("rows.csv").read_text().splitlines()[:600]) + "\n")
    process.stdin.flush()
    journal = Path("R/ledger.jsonl")
    while not (journal.exists() and journal.read_bytes().count(b"\n") >= 2):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=WAIT)
    assert Ledger.read(journal).spent.epsilon(1e-6) == pytest.approx(2.0, rel=1e-6)


def test_a_private_schema_may_be_shown_and_used(here):
    words = ("info", "rows.csv", "--target", "outcome", "--private", "--epsilon", "2", "--drop", "id")
    found = privol_cli(*words)
    assert found.exit_code == OK, found.stderr
    assert "NOT PRIVATE" not in found.stderr
    Path("schema.toml").write_text(found.stdout)
    schema = Schema.load("schema.toml")
    assert schema.learnt.private
    assert N - 3 <= schema.learnt.rows <= N
    assert gdp_mu(2.0, 1e-6) == pytest.approx(schema.learnt.mu)
    assert schema.classes == ("ill", "well")
    assert "(epsilon, delta) = (2, 1e-6)" in " ".join(found.stdout.replace("#", "").split())
    record = run_json("run", "rows.csv", "--schema", "schema.toml", "--out", "R", "--no-diagnostics")
    assert any("the schema was learnt from" in words for words in record["guarantee"]["conditions"])
    seeded = privol_cli(*words, "--seed", "1", "--json")
    assert json.loads(seeded.stdout)["private"] is False
    assert "NOT PRIVATE: its noise came from a known seed" in seeded.stderr
    assert "'name' is left out: no value is frequent" in seeded.stderr  # noise alone brings one for 1.4 % of all keys
    again = Schema.load(tomllib.loads(json.loads(seeded.stdout)["schema"]))
    assert again.learnt.private is False
    assert json.loads(privol_cli(*words, "--seed", "1", "--json").stdout) == json.loads(seeded.stdout)
    without = privol_cli(*words[:-4], "--epsilon", "inf")
    assert "NOT PRIVATE: it was learnt without noise" in without.stderr


def test_the_cost_of_a_schema_is_kept_and_adds_up(here):
    words = ("info", "rows.csv", "--target", "outcome", "--private", "--ledger", "L.jsonl", "--json")
    found = privol_cli(*words)
    assert found.exit_code == OK, found.stderr
    said = json.loads(found.stdout)
    mu = gdp_mu(1.0, 1e-6)
    assert said["cost"] == {"rows": said["cost"]["rows"], "mu": pytest.approx(mu), "epsilon": 1.0, "delta": 1e-6}
    assert "cost epsilon 1 at delta 1e-06" in found.stderr
    assert "on the same rows both add up (privol account L.jsonl RUN)" in found.stderr
    assert "whoever learns them again" in " ".join(said["schema"].replace("#", "").split())
    Path("schema.toml").write_text(said["schema"])
    record = run_json("run", "rows.csv", "--schema", "schema.toml", "--out", "R", "--no-diagnostics")
    assert record["budget"]["spent"]["mu"] == pytest.approx(mu)  # its own figure alone
    together = json.loads(privol_cli("account", "L.jsonl", "R", "--json").stdout)["together"]
    assert together["runs"] == 2
    assert together["mu"] == pytest.approx(mu * 2**0.5)
    failed = privol_cli("info", "rows.csv", "--target", "constant", "--private", "--ledger", "L.jsonl")
    assert failed.exit_code == DATA
    assert "no schema was released" in failed.stderr
    assert "the budget counts as spent: L.jsonl says so" in failed.stderr
    assert Ledger.read("L.jsonl").spent.mu == pytest.approx(mu * 2**0.5)  # two schemas from the same rows


def test_columns_in_a_schema_are_not_learnt(here):
    """Everything else is, column by column."""
    Path("part.toml").write_text("[columns]\nage = { range = [0, 120] }\nid = { drop = true }\n")
    words = ("--schema", "part.toml", "--learn-schema", "--seed", "1", "--no-diagnostics")
    record = run_json(*WORDS, *words, "--out", "R")
    columns = dict(Schema.from_record(record["inputs"]["schema"]).columns)
    assert columns["age"].range == (0.0, 120.0)
    assert type(columns["dose"]).__name__ == "Knots"
    target = Path("part.toml").read_text() + '[target]\ncolumn = "outcome"\nnegative = "well"\npositive = "ill"\n'
    Path("part.toml").write_text(target)
    both = privol_cli(*WORDS, *words, "--out", "S")
    assert both.exit_code == USAGE
    assert "exclude each other" in both.stderr
    record = run_json("run", "rows.csv", *words, "--out", "S")
    assert record["encoding"]["phases"].keys() == {"kinds", "coarse", "fine"}
    assert record["classes"] == ["well", "ill"]


def test_all_rows_teach_if_the_first_ones_are_too_few(here):
    table(6000).to_csv("rows.csv", index=False)
    words = ("run", "rows.csv", "--target", "outcome", "--epsilon", "0.5", "--no-diagnostics", "--seed", "1")
    record = run_json(*words, "--checkpoint", "500", "--out", "R")
    assert record["encoding"]["reused"]
    assert record["rows"] == 6000
    assert "epsilon 0.5 at delta 1e-6" in record["summary"]
    assert "which is counted here" in record["sentence"]
    mu = gdp_mu(0.5, 1e-6)
    assert mu * (1 - 1e-9) < Ledger.read("R/ledger.jsonl").spent.mu <= mu
    same = run_json(*words, "--schema-share", "0.25", "--out", "S")
    assert same["parameters"]["epsilon"] == record["parameters"]["epsilon"]
    assert np.array_equal(load_model("S").coef_, load_model("R").coef_)
    metrics = ("--private-metrics", "0.1", "--release", "100")
    assert not run_json(*words, *metrics, "--out", "T")["encoding"]["reused"]
    early = run_json(*words, "--horizon", "9000", "--out", "U")  # a stream may end before its horizon
    assert (early["rows"], early["encoding"]["reused"]) == (6000, True)
    assert early["encoding"]["rows"] <= 6000


def test_a_run_short_of_rows_says_so(here):
    table(1100).to_csv("rows.csv", index=False)
    words = (
        "run",
        "rows.csv",
        "--target",
        "outcome",
        "--epsilon",
        "1",
        "--no-diagnostics",
        "--seed",
        "1",
        "--out",
        "R",
    )
    record = run_json(*words)
    assert record["encoding"]["visible_share"] > 0.5
    assert any("few for this budget and so many columns" in warning for warning in record["warnings"])
    table().to_csv("rows.csv", index=False)
    record = run_json(*words[:-1], "S")
    assert not any("few for this budget" in warning for warning in record["warnings"])


@pytest.mark.parametrize(
    ("words", "loss"), [((), "softmax"), (("--learner", "pqftl"), "squared"), (("--loss", "huber"), "huber")]
)
def test_the_loss_decides_whether_numbers_are_labels(here, words, loss):
    rows = table()
    rows["outcome"] = np.digitize(rows["age"], [30, 50, 70])
    rows.to_csv("rows.csv", index=False)
    record = run_json(*WORDS, *words, "--seed", "1", "--no-diagnostics", "--out", "R")
    assert record["parameters"]["loss"]["name"] == loss
    assert record["classes"] == (["0", "1", "2", "3"] if loss == "softmax" else None)


def test_a_schema_is_learnt_within_the_limit_of_a_ledger(here):
    Ledger(epsilon=1.2, delta=1e-6, journal="L.jsonl").close()
    words = ("info", "rows.csv", "--target", "outcome", "--private", "--ledger", "L.jsonl")
    assert privol_cli(*words).exit_code == OK
    refused = privol_cli(*words)
    assert (refused.exit_code, refused.stdout) == (BUDGET, "")
    assert "counts as spent" not in refused.stderr
    found = Ledger.read("L.jsonl")
    assert (found.epsilon, len(found.entries())) == (1.2, 1)
    assert privol_cli(*words, "--adjacency", "zero_out").exit_code == USAGE
    before = Path("rows.csv").read_bytes()
    assert privol_cli(*words[:-1], "rows.csv").exit_code not in (OK, USAGE)
    assert Path("rows.csv").read_bytes() == before


@pytest.mark.parametrize("learner", [(), ("--learner", "objective-perturbation")])
def test_a_label_too_rare_to_be_learnt_does_not_end_the_run(here, learner):
    """With the schema that the same rows taught: a row without a known label is a null row, as in the learning run."""
    rows = table()
    rows.loc[5, "outcome"] = "unsure"
    rows.loc[9, "outcome"] = None
    rows.to_csv("rows.csv", index=False)
    found = privol_cli("info", "rows.csv", "--target", "outcome", "--private")
    Path("schema.toml").write_text(found.stdout)
    words = ("run", "rows.csv", "--schema", "schema.toml", "--out", "R", "--quiet", *learner)
    result = privol_cli(*words)
    assert result.exit_code == OK, result.stderr
    assert load_model("R").get_params()["on_invalid"] == "zero"


def test_a_real_target_needs_no_other_option(here):
    found = privol_cli("info", "rows.csv", "--target", "age", "--private", "--epsilon", "2")
    Path("schema.toml").write_text(found.stdout)
    record = run_json("run", "rows.csv", "--schema", "schema.toml", "--out", "R", "--no-diagnostics")
    assert record["parameters"]["loss"] == {"name": "squared"}
    assert record["rows"] == N


def test_a_decimal_comma_is_declared(here):
    """It is not guessed: the error about a target of such numbers says how to declare it."""
    table(6_000)[["dose", "town", "age"]].to_csv("comma.csv", index=False, sep=";", decimal=",")
    words = ("run", "comma.csv", "--target", "age", "--no-diagnostics", "--seed", "1")
    failed = privol_cli(*words, "--out", "R")
    assert failed.exit_code == DATA
    assert 'decimal = "," under [file] of a schema' in failed.stderr
    Path("comma.toml").write_text('[file]\ndecimal = ","\n')
    record = run_json(*words, "--schema", "comma.toml", "--learn-schema", "--out", "S")
    assert record["parameters"]["loss"] == {"name": "squared"}
    columns = dict(Schema.from_record(record["inputs"]["schema"]).columns)
    assert type(columns["dose"]).__name__ == "Knots"


@pytest.mark.skipif(os.name != "posix", reason="needs kill -9")
def test_a_killed_run_with_a_learnt_schema_resumes(here):
    table(100_000).to_csv("rows.csv", index=False)
    found = privol_cli("info", "rows.csv", "--target", "outcome", "--private")
    Path("schema.toml").write_text(found.stdout)
    words = ("run", "rows.csv", "--schema", "schema.toml", "--seed", "3", "--checkpoint", "1000", "--no-diagnostics")
    assert privol_cli(*words, "--quiet", "--out", "whole").exit_code == OK
    killed_and_resumed(*words, "--quiet", lines=6)
    assert np.array_equal(load_model("R").coef_, load_model("whole").coef_)


def test_what_info_refuses(here):
    for words, said in (
        (("info", "--private"), "--private needs a FILE"),
        (("info", "rows.csv", "--epsilon", "1"), "--epsilon goes with --private"),
        (("info", "rows.csv", "--ledger", "L.jsonl"), "--ledger goes with --private"),
        (("info", "rows.csv", "--cross", "age,town"), "--cross goes with --private"),
        (("info", "rows.csv", "--private", "--rows", "10"), "--rows applies to a draft"),
    ):
        found = privol_cli(*words)
        assert (found.exit_code, said in found.stderr) == (USAGE, True), found.stderr


@pytest.mark.skipif(os.name != "posix", reason="needs kill -9")
def test_frequent_features_of_sparse_rows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sparse_rows("rows.svm", 40_000)
    words = ("run", "rows.svm", "--positive", "1", "--n-features", "3000", "--one-based", "--learn-schema")
    words += ("--sketch", "40")
    record = run_json(*words, "--seed", "1", "--out", "whole")
    assert record["features"] == record["encoding"]["frequent_features"] + 40 < 600
    assert record["encoding"]["sketch"] == 40
    shown = dict(facts_of(record))["encoding"]
    assert shown.endswith("frequent features are used, and 40 that all others share")
    checked = [line for line in privol_cli("verify", "whole").stdout.splitlines() if line]
    assert any("phase 'votes'" in line for line in checked)
    fails = [line for line in checked if not line.startswith("holds")]
    assert ["bits: the noise is of a known seed" in line for line in fails] == [True, False]  # and that all in all
    assert "sketch 39" in privol_cli("explain", "whole", "--json").stdout
    assert record["rows"] == 40_000 - record["encoding"]["rows"]
    assert record["diagnostics"]["run"]["progressive"]["auc"] > 0.65
    assert record["budget"]["reserved"]["epsilon"] == pytest.approx(1.0, rel=1e-6)
    result = privol_cli("predict", "whole", "rows.svm", "--out", "predicted.csv")
    assert result.exit_code == OK, result.stderr
    assert len(Path("predicted.csv").read_text().splitlines()) == 40_001
    killed_and_resumed(*words, "--seed", "1", "--checkpoint", "500", "--no-diagnostics", "--quiet")
    assert np.array_equal(load_model("R").coef_, load_model("whole").coef_)
    assert Ledger.read("R/ledger.jsonl").spent.epsilon(1e-6) == pytest.approx(1.0, rel=1e-6)
