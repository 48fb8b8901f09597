"""``privol run --workers``: files that workers read, and a record that ``privol verify`` reads."""

from __future__ import annotations

import json

import numpy as np
import pytest
from cli_tools import entries_of, privol_cli, run_json, write

from privol import DPFTRL
from privol.cli.app import DATA, IO, OK, USAGE
from privol.distributed import LocalCrew, file_parts
from privol.errors import PartFailure
from privol.learners._part_runs import PartsLearner
from privol.state import load_model

SIZES = (300, 20, 500)
STEPS = ("--learner", "dpftrl", "--batch", "100", "--release", "200")
#: Options of a learner, and whether targets are real.
LEARNERS = {
    "dpftrl": (STEPS, False),
    "pqftl": (("--learner", "pqftl", "--batch", "50"), True),
    "offline": (("--learner", "objective-perturbation"), False),
}


@pytest.fixture
def files(here):
    rng = np.random.default_rng(4)
    (here / "rows").mkdir()
    for k, n in enumerate(SIZES):
        X = rng.uniform(-1.0, 1.0, size=(n, 3))
        score = X @ [1.0, -1.0, 0.5]
        body = [
            [*map(repr, x.tolist()), "yes" if s > 0 else "no", repr(float(s) / 3), f"u{i % 90}"]
            for i, (x, s) in enumerate(zip(X, score, strict=True))
        ]
        write(here / "rows" / f"{k}.csv", ["a", "b", "c", "label", "value", "who"], body)
    columns = "".join(f"[columns.{name}]\nrange = [-1, 1]\n" for name in "abc")
    drop = '[columns.{}]\ndrop = true\n[target]\ncolumn = "{}"\n{}'
    labels = drop.format("value", "label", 'negative = "no"\npositive = "yes"\n')
    values = drop.format("label", "value", "range = [-1, 1]\n")
    free, capped = "[columns.who]\ndrop = true\n", '[user]\ncolumn = "who"\nmax_rows = 2\n'
    (here / "labels.toml").write_text(columns + free + labels)
    (here / "values.toml").write_text(columns + free + values)
    (here / "labels-capped.toml").write_text(columns + capped + labels)
    (here / "values-capped.toml").write_text(columns + capped + values)
    return here


def words_of(name, out, *more, capped=False):
    options, real = LEARNERS[name]
    schema = ("values" if real else "labels") + ("-capped" if capped else "")
    return ("run", "rows/*.csv", "--schema", f"{schema}.toml", *options, "--seed", "3", "--out", out, *more)


@pytest.mark.parametrize("name", LEARNERS)
def test_no_bit_depends_on_their_number(name, files):
    found = []
    for workers in ("1", "2", "4"):
        record = run_json(*words_of(name, f"R{workers}", "--workers", workers))
        found.append((record, load_model(files / f"R{workers}").coef_.tobytes()))
        assert json.loads((files / f"R{workers}" / "run.json").read_text()) == record
        assert (record["rows"], record["parts"]) == (sum(SIZES), len(SIZES))
        assert record["diagnostics"] is None
        assert "workers, which see raw rows" in record["sentence"] + str(record["guarantee"]["conditions"])
        (entry,) = entries_of(f"R{workers}")
        assert (entry.rows, entry.releases) == (sum(SIZES), record["releases"])
    assert found[0][1] == found[1][1] == found[2][1]
    assert not (files / "R1" / "secret").exists()
    checked = privol_cli("verify", "R2")
    assert "noise is of a known seed" in checked.output
    assert checked.output.count("DOES NOT HOLD") == 1, checked.output  # and no other complaint
    assert privol_cli("report", "R2").exit_code == OK


def test_what_is_run_is_what_python_runs(files):
    run_json(*words_of("dpftrl", "R", "--workers", "2"))
    model = load_model(files / "R")
    parts = file_parts("rows/*.csv", schema="labels.toml")
    here = DPFTRL(batch=100, release=200, random_state=3, x_bound=model.x_bound)
    here.fit_parts(parts, LocalCrew())
    assert here.coef_.tobytes() == model.coef_.tobytes()


@pytest.mark.parametrize("capped", [False, True], ids=["rows", "users"])
@pytest.mark.parametrize("name", LEARNERS)
def test_a_record_that_verify_finds_to_hold(name, capped, files):
    words = [word for word in words_of(name, "R", "--workers", "2", capped=capped) if word not in ("--seed", "3")]
    record = run_json(*words)
    checked = privol_cli("verify", "R")
    assert checked.exit_code == OK, checked.output
    assert record["guarantee"]["private"]
    assert record["guarantee"]["rows_per_user"] == (2 * len(SIZES) if capped else None)
    assert ("rows of users" in checked.output) == capped


@pytest.mark.parametrize("name", ["dpftrl", "pqftl"])
def test_a_run_that_is_cut_short_is_resumed(name, files, monkeypatch):
    more = ("--workers", "2", "--checkpoint", "100")
    whole = run_json(*words_of(name, "whole", *more))
    real, steps = PartsLearner._keep_sums, []

    def fails(learner, run, rows):
        real(learner, run, rows)
        steps.append(rows)
        if len(steps) == 2:
            raise OSError(5, "the disk is gone", "R")

    with monkeypatch.context() as patch:
        patch.setattr(PartsLearner, "_keep_sums", fails)
        result = privol_cli(*words_of(name, "R", *more))
    assert result.exit_code == IO
    assert "privol resume R continues it" in result.output
    record = json.loads((result := privol_cli("resume", "R", "--json")).stdout)
    assert result.exit_code == OK
    assert record["resumed"]
    assert load_model(files / "R").coef_.tobytes() == load_model(files / "whole").coef_.tobytes()
    for word in ("rows", "releases", "budget", "guarantee", "mechanism", "parts"):
        assert record[word] == whole[word]
    assert not (files / "R" / "secret").exists()


def test_refusals_leave_nothing(files):
    for more, found in (
        (("--workers", "0"), "is not a number of threads, mpi, or a URL"),
        (("--workers", "2", "--diagnostics"), "--diagnostics needs the rows in one process"),
        (("--workers", "2", "--private-metrics", "0.1"), "--private-metrics needs the rows in one process"),
        (("--workers", "2", "--horizon", "auto"), "count their rows, so --horizon auto does not apply"),
        (("--workers", "2", "--learner", "pigd"), "--workers is for --learner adaptive, dpftrl"),
        (("--workers", "2", "--batch", "10"), "at least 64"),
        (("--workers", "2", "--rows-per-user", "2", "--user-separation", "9"), "--user-separation must be 1 for parts"),
        (("--workers", "2", "--design", "tree"), "design must be one of blt, sqrt, banded, independent"),
    ):
        result = privol_cli(*words_of("dpftrl", "R", *more))
        assert result.exit_code in (USAGE, DATA), result.output
        assert found in " ".join(result.output.split()).replace("│ ", ""), result.output
        assert not (files / "R").exists()
    for words, found in (
        (("run", "--workers", "2"), "--workers read files"),
        (("run", "rows/*.csv", "--target", "label", "--workers", "2"), "need to be told what the columns mean"),
    ):
        result = privol_cli(*words)
        assert result.exit_code == USAGE
        assert found in " ".join(result.output.split())
    (files / "rows" / "1.csv").write_text("a,b,c,label,value,who\n0.5,?,0.1,yes,0.2,u1\n")
    result = privol_cli(*words_of("dpftrl", "R", "--workers", "2"))
    assert result.exit_code == DATA
    assert "1.csv" in result.output
    assert not (files / "R").exists()


def test_a_part_that_nobody_answers_for(files, monkeypatch):
    def gone(*words):
        raise PartFailure("no worker is left", part="rows/0.csv")

    monkeypatch.setattr("privol.distributed._crews._LocalSession._ask", gone)
    result = privol_cli(*words_of("dpftrl", "R", "--workers", "2"))
    assert result.exit_code not in (OK, 1)
    assert "no worker is left" in result.output
    assert not (files / "R").exists()
