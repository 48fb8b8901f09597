"""Rows that are not counted, or not yet, from files and pipes: ``privol run --horizon auto``, or no horizon."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from cli_tools import RUN, N, entries_of, piped, privol_cli, run_json, write

import privol.cli.run as command
from privol import AdaptiveFTRL
from privol.cli.app import DATA, INTERRUPTED, OK, USAGE
from privol.state import load_model

pytestmark = pytest.mark.process

LONG = 100 << 20
ROWS = 9000


@pytest.fixture
def table(here):
    """Enough rows to teach, and some more."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(ROWS, 2)).round(3)
    labels = np.where(X[:, 0] > X[:, 1], "up", "down")
    write(here / "t.csv", ["a", "b", "way"], [[*x, label] for x, label in zip(X.tolist(), labels, strict=True)])
    return X, labels


def uncounted(monkeypatch):
    monkeypatch.setattr("privol.readers.csv.CsvColumns.count", lambda _: pytest.fail("the rows were counted"))


def test_rows_of_a_file_are_not_counted(here, table, monkeypatch):
    uncounted(monkeypatch)
    record = run_json("run", "t.csv", "--target", "way", "--horizon", "auto", "--out", "R", "--no-diagnostics")
    taught = record["encoding"]["rows"]
    assert (record["rows"], record["learner"]) == (ROWS - taught, "AdaptiveFTRL")
    assert (record["parameters"]["horizon"], record["parameters"]["renewal"]) == (LONG, "double")
    assert record["horizon"] == 1 << 48
    assert not any("delta" in words for words in record["warnings"])
    stated = {name: record["parameters"][name] for name in ("horizon", "renewal", "x_bound", "fit_intercept")}
    made = AdaptiveFTRL(**stated).calibrate(record["features"], LONG)
    assert record["noise"]["std"] == pytest.approx(made.std(record["rows"]), rel=1e-9)
    encoding, model = entries_of("R")
    assert (encoding.last_row, model.last_row) == (taught, ROWS)
    mu = record["guarantee"]["parameter"]
    assert [entry.mu_squared for entry in (encoding, model)] == pytest.approx([mu**2] * 2, rel=1e-6)


def test_the_same_from_a_pipe(here, table):
    words = ("--learn-schema", "--target", "way", "--horizon", "auto", "--seed", "3", "--no-diagnostics")
    text = Path("t.csv").read_text()
    assert piped(text, "run", "-", *words, "--out", "P").exit_code == OK
    assert privol_cli("run", "t.csv", *words, "--out", "R").exit_code == OK
    assert np.array_equal(load_model("P").coef_, load_model("R").coef_)


def test_each_learner_has_its_first_epoch(here, clinic, monkeypatch):
    uncounted(monkeypatch)
    for words, horizon in (
        (("--learner", "dpftrl"), 10_000),
        (("--learner", "dpftrl", "--batch", "7"), 10_000),
        (("--learner", "dpftrl", "--renewal", "repeat"), 10_000),
    ):
        found = run_json(*RUN, *words, "--horizon", "auto", "--no-diagnostics")["parameters"]
        assert found["horizon"] == horizon
        assert found["renewal"] == ("repeat" if "repeat" in words else "double")
    dose = ("run", "train.csv", "--schema", "dose.toml", "--loss", "squared", "--no-diagnostics", "--no-learn-schema")
    Path("dose.toml").write_text(
        '[target]\ncolumn = "dose"\n[columns]\nage = {range = [0, 100]}\n'
        "size = {range = [-1, 1]}\nstate = {drop = true}\n"
    )
    record = run_json(*dose, "--learner", "pqftl", "--batch", "4", "--horizon", "auto")
    assert (record["rows"], record["parameters"]["horizon"]) == (N, 4 << 20)


def test_a_row_count_stated_in_a_file_is_the_horizon(here, table):
    X, labels = table
    pa.parquet.write_table(pa.table({"a": X[:, 0], "b": X[:, 1], "way": labels}), "t.parquet")
    for words in ((), ("--horizon", "auto")):
        out = f"R{len(words)}"
        run_json("run", "t.parquet", "--target", "way", *words, "--no-diagnostics", "--seed", "1", "--out", out)
    assert np.array_equal(load_model("R0").coef_, load_model("R2").coef_)
    assert load_model("R2").renewal == "none"
    # so are the rows that come with the package
    assert run_json("run", "--no-diagnostics", "--horizon", "auto")["horizon"] < 1 << 20


def test_refusals(here, table, clinic):
    def refused(*words):
        result = privol_cli("run", *words, "--horizon", "auto")
        assert result.exit_code == USAGE, result.output
        return result.stderr

    said = refused("t.csv", "--target", "way", "--learner", "pigd")
    assert "--horizon auto is for --learner adaptive, dpftrl and pqftl: how much noise pigd needs" in said
    assert "with --discount or --window" in refused("t.csv", "--target", "way", "--discount", "0.99")
    assert "--private-metrics needs a run that ends" in refused("t.csv", "--target", "way", "--private-metrics", "0.1")
    result = privol_cli("run", "t.csv", "--horizon", "soon")
    assert (result.exit_code, "'soon' is not auto or a number of rows" in result.stderr) == (USAGE, True)
    Path("few.csv").write_text("".join(Path("t.csv").read_text().splitlines(keepends=True)[:2000]))
    for horizon, more in (("auto", r" \(auto lets as many rows teach as of 100,000\)"), ("100000", "")):
        result = privol_cli("run", "few.csv", "--target", "way", "--horizon", horizon)
        assert result.exit_code == DATA
        expected = (
            rf"ended after 1,999 rows, before the encoding was learnt: state --horizon, the number of its rows{more}"
        )
        assert re.search(expected, result.stderr), result.stderr


def test_an_interrupted_run_resumes(here, table, monkeypatch):
    monkeypatch.setattr("privol.streams._base.BLOCK_BYTES", 1 << 14)
    words = (
        "run",
        "t.csv",
        "--target",
        "way",
        "--horizon",
        "auto",
        "--seed",
        "3",
        "--no-diagnostics",
        "--checkpoint",
        "60",
    )
    assert privol_cli(*words, "--out", "whole").exit_code == OK

    @contextmanager
    def watched(*_, **__):
        def tick(learner, stream):
            if learner._run.state.n_rows >= 1000:
                raise KeyboardInterrupt

        yield tick, lambda stage: None

    with monkeypatch.context() as patch:
        patch.setattr(command, "watched", watched)
        assert privol_cli(*words, "--out", "R").exit_code == INTERRUPTED
    record = run_json("resume", "R")
    assert record["resumed"]
    assert not any("delta" in words for words in record["warnings"])
    assert np.array_equal(load_model("R").coef_, load_model("whole").coef_)
    assert record["budget"] == json.loads(Path("whole/run.json").read_text())["budget"]


@pytest.mark.parametrize("release", ["5000", "2000,5000"])
def test_a_release_far_into_a_file_whose_rows_are_not_counted_yet(table, release):
    """The kind of the learner's guarantee is asked before they are; a release that would not come costs nothing."""
    words = ("run", "t.csv", "--target", "way", "--learn-schema", "--learner", "pigd", "--epsilon", "2", "--release")
    record = run_json(*words, release, "--seed", "1", "--out", "R")
    assert load_model("R").n_releases_ == len(release.split(","))
    taught = record["encoding"]["rows"]
    for rows in (ROWS - taught + 1, ROWS + 1):
        found = privol_cli(*words, rows, "--out", "S")
        assert found.exit_code == USAGE
        assert f"of 9,000 rows {taught:,} teach the encoding" in " ".join(found.stderr.split())
        assert not Path("S").exists()


def test_a_pipe_whose_rows_are_not_stated_is_left_unread(table):
    found = piped(Path("t.csv").read_text(), "run", "-", "--target", "way", "--learn-schema", "--out", "R")
    assert found.exit_code == DATA
    said = " ".join(found.stderr.split())
    assert "can be read only once, so its rows cannot be counted before they teach: state their number, " in said
    assert "--horizon N" in said
    assert not Path("R").exists()
