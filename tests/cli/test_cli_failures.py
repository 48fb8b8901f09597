"""The command line from outside: exit codes, one-line errors, and nothing left behind after failures."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from cli_tools import RUN, N, piped, privol_cli, run_json, start
from patience import WAIT

import privol
from privol.cli.app import BUDGET, DATA, IO, OK, USAGE, app
from privol.cli.options import in_options

pytestmark = pytest.mark.process


def spoiled(row, *, line=250, header="age,dose,size,state"):
    """The text of a good file with one bad row."""
    good = [f"{i % 100},0.5,-0.{i % 10},{'sick' if i % 3 else 'well'}" for i in range(N)]
    good[line - 1] = row
    return "\n".join([header, *good]) + "\n"


BAD_DATA = {
    "missing file": (None, "cannot be read", None),
    "empty file": ("", "empty", None),
    "no rows": ("age,dose,size,state\n", "no rows", None),
    "too few fields": (spoiled("1,0.5,sick"), "row 250: found 3 field(s)", 250),
    "too many fields": (spoiled("1,0.5,1,1,sick"), "row 250: found 5 field(s)", 250),
    "text for a number": (spoiled("1,lots,1,sick"), "row 250, column 'dose': found 'lots'", 250),
    "NaN": (spoiled("1,nan,1,sick"), "train.csv, row 250, column 'dose': found NaN", 250),
    "missing cell": (spoiled("1,,1,sick"), "train.csv, row 250, column 'dose': found NaN or an empty cell", 250),
    "infinity": (spoiled("1,0.5,inf,sick"), "train.csv, row 250, column 'size': found infinity", 250),
    "unknown label": (spoiled("1,0.5,1,dead"), "row 250: found 'dead'", 250),
    "no label": (spoiled("1,0.5,1,"), "row 250: found nothing", 250),
    "no such range": (spoiled("1,0.5,1,sick", header="years,dose,size,state"), "no feature 'age'", None),
}


def test_an_empty_cell_has_remedies(here, clinic):
    (here / "train.csv").write_text(spoiled("1,,1,sick"))
    error = privol_cli(*RUN).stderr
    assert "privol info FILE drafts one" in error
    assert "--on-invalid zero" in error
    assert privol_cli(*RUN, "--on-invalid", "zero", "--no-diagnostics").exit_code == OK


@pytest.mark.parametrize("diagnostics", ["--diagnostics", "--no-diagnostics"])
@pytest.mark.parametrize("case", BAD_DATA)
def test_bad_data(here, case, diagnostics):
    content, words, row = BAD_DATA[case]
    if content is not None:
        (here / "train.csv").write_text(content)
    (here / "ranges.json").write_text('{"age": [0, 100]}')
    before = sorted(here.iterdir())
    result = privol_cli(*RUN, "--release", "10", diagnostics, "--json")
    assert result.exit_code == DATA, result.output
    error = json.loads(result.stdout)["error"]
    assert words in error["message"]
    assert error["row"] == row
    assert error["exit_code"] == DATA
    assert result.stderr == f"privol: error: {error['message']}\n"
    assert sorted(here.iterdir()) == before


BAD_USE = {
    "epsilon of 0": (("--epsilon", "0"), "epsilon"),
    "epsilon not a number": (("--epsilon", "much"), "epsilon"),
    "delta of 1": (("--delta", "1"), "delta"),
    "negative l2": (("--l2", "-1"), "l2"),
    "radius of 0": (("--radius", "0"), "radius"),
    "x_bound of 0": (("--x-bound", "0"), "error: --x-bound must"),
    "release beyond the rows": (("--release", "501"), "error: --release 501 would"),
    "release not a schedule": (("--release", "often"), "release"),
    "release not ascending": (("--release", "9,3"), "release"),
    "horizon of 0": (("--horizon", "0"), "horizon"),
    "kink for pgiga": (("--learner", "pgiga", "--loss", "hinge"), "kink"),
    "unknown loss": (("--loss", "quadratic"), "loss"),
    "unknown option": (("--epsilom", "1"), "epsilom"),
    "one class": (("--classes", "sick"), "at least two labels (negative, positive), found"),
    "positive is no class": (("--positive", "sicc"), "positive must be one of classes ('well', 'sick'), found 'sicc'"),
    "real targets for labels": (("--loss", "squared"), "real targets"),
    "width of another loss": (("--huber-width", "1"), "--loss huber"),
    "width of 0": (("--loss", "smooth_hinge", "--smooth-hinge-width", "0"), "--smooth-hinge-width"),
    "share of 1": (("--private-metrics", "1", "--release", "9"), "--private-metrics"),
    "no windows": (("--private-metrics", "0.1", "--metric-windows", "0", "--release", "9"), "windows"),
    "windows of nothing": (("--metric-windows", "3"), "--private-metrics"),
    "metrics of no model": (("--private-metrics", "0.1", "--release", "last"), "--release"),
    "metrics of a claim": (
        ("--learner", "pigd", "--private-metrics", "0.1", "--calibration", "published", "--release", "9"),
        "published",
    ),
    "negative delay": (("--delay", "-1"), "delay"),
    "delay of nothing": (("--delay", "3", "--no-diagnostics"), "--delay"),
    "two ways to say it": (("--schema", "rows.toml"), "exclude each other: with --schema the labels"),
    "unknown codec": (("--encoding", "klingon"), "encoding"),
    "unknown set": (("--domain", "sphere:2"), "sphere"),
    "negative seed": (("--seed", "-4"), "error: --seed must"),
}


@pytest.mark.parametrize("case", BAD_USE)
def test_bad_use(here, clinic, case):
    words, mentioned = BAD_USE[case]
    before = sorted(here.iterdir())
    result = privol_cli(*RUN, *words)
    assert result.exit_code == USAGE, result.output
    assert mentioned in result.stderr
    assert result.stderr.startswith("privol: error: ")
    assert result.stderr.count("\n") == 1
    assert sorted(here.iterdir()) == before


@pytest.mark.parametrize("rows", [(), ("--horizon", "500")])
def test_options_that_a_source_excludes_cost_no_encoding(here, clinic, rows):
    words = ("--learner", "dola", "--calibration", "published", "--batch", "4", *rows, "--out", "run")
    found = privol_cli("run", "train.csv", "--learn-schema", "--target", "state", *words)
    assert found.exit_code == USAGE
    assert "needs --batch 1" in found.stderr
    assert "spent" not in found.stderr
    assert not (here / "run").exists()


def test_labels_must_be_declared(here, clinic):
    result = privol_cli("run", "train.csv", "--no-learn-schema")
    assert result.exit_code == USAGE
    assert "--classes" in result.stderr


@pytest.mark.parametrize("words", [("--target", "x"), ("--positive", "2"), ("--no-header",)], ids=str)
def test_file_options_need_a_file(here, words):
    result = privol_cli("run", *words)
    assert result.exit_code == USAGE
    assert list(here.iterdir()) == []


def test_horizon_exceeded(here, clinic):
    before = sorted(here.iterdir())
    result = privol_cli(*RUN, "--horizon", "300", "--json")
    assert result.exit_code == BUDGET
    assert json.loads(result.stdout)["error"]["kind"] == "BudgetExceeded"
    assert sorted(here.iterdir()) == before


def test_horizon_beyond_the_rows(here, clinic):
    record = run_json(*RUN, "--horizon", "1000", "--release", "last", "--out", "R")
    assert (record["rows"], record["horizon"], record["releases"]) == (N, 1000, 1)
    assert record["release_rows"] == [N]
    calibration = privol.DPFTRL(radius=5.0, x_bound=2.0).calibrate(3, 1000)
    assert record["noise"]["std"] == calibration.last_std(N)
    late = run_json(*RUN, "--learner", "pigd", "--horizon", "1000", "--release", "900", "--out", "late")
    assert late["releases"] == 0
    assert late["budget"]["spent"]["mu"] == 0.0
    result = privol_cli("predict", "late", "new.csv")
    assert result.exit_code == IO
    assert "no model, because its rows ended after row 500, before its first release" in result.stderr
    assert sorted(late["files"]) == ["ledger.jsonl", "metrics.json", "plot.png", "run.json"]


def test_an_existing_run_is_refused_before_anything_is_read(here):
    (here / "R").mkdir()
    (here / "R" / "notes.txt").write_text("mine")
    result = privol_cli("run", "no-such-file.csv", "--out", "R")
    assert result.exit_code == IO
    assert "not empty" in result.stderr
    assert "choose another --out" in result.stderr
    assert [p.name for p in (here / "R").iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("out", ["file.txt", "file.txt/R", "nowhere/R"])
def test_unusable_output(here, clinic, out):
    (here / "file.txt").write_text("mine")
    before = sorted(here.iterdir())
    result = privol_cli(*RUN, "--out", out)
    assert result.exit_code == IO
    assert result.stderr.count("\n") == 1
    assert sorted(here.iterdir()) == before


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may write anywhere")
def test_read_only_directory(here, clinic):
    (here / "locked").mkdir(mode=0o555)
    result = privol_cli(*RUN, "--out", "locked/R")
    assert result.exit_code == IO
    assert "Permission denied" in result.stderr


def test_failing_write_leaves_nothing(here, clinic, monkeypatch):
    import privol.state._models

    def full(path, content, **_):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(privol.state._models, "write_atomically", full)
    before = sorted(here.iterdir())
    result = privol_cli(*RUN, "--no-diagnostics")
    assert result.exit_code == IO
    assert "No space left" in result.stderr
    assert sorted(here.iterdir()) == before


def test_errors_have_no_traceback(here):
    process = start("run", "nothing.csv", "--classes", "0,1", imported=False)
    out, err = process.communicate(timeout=WAIT)
    assert (process.returncode, out) == (DATA, "")
    assert err == "privol: error: nothing.csv: cannot be read: No such file or directory\n"


def test_a_row_beyond_the_horizon_is_named(here, clinic):
    result = privol_cli(*RUN, "--horizon", "300", "--no-diagnostics")
    assert result.exit_code == BUDGET
    assert "train.csv: the next 500 rows would exceed the horizon" in result.stderr
    assert "leave --horizon out" in result.stderr
    assert "cap of a user" not in result.stderr
    result = piped("1,2,0\n3,4,1\n", "run", "-", "--positive", "1", "--horizon", "1", "--no-diagnostics")
    assert result.exit_code == BUDGET
    assert result.stderr.endswith("; give --horizon at least the rows of the input\n")


def test_a_known_length_is_refused_before_a_row_is_read(here):
    np.savez("long.npz", X=np.full((20, 2), np.nan), y=np.zeros(20))
    result = privol_cli("run", "long.npz", "--classes", "0,1", "--horizon", "19")
    assert result.exit_code == BUDGET
    assert "long.npz has 20 rows, more than the horizon of 19: leave --horizon out" in result.stderr


def test_errors_about_text_columns_suggest_a_schema(here):
    (here / "t.csv").write_text("age,job,outcome\n41,nurse,yes\n50,clerk,no\n")
    result = privol_cli("run", "t.csv", "--no-learn-schema", "--positive", "yes")
    assert result.exit_code == DATA
    assert "column 'job': found 'nurse'" in result.stderr
    assert "privol info FILE drafts one" in result.stderr


def test_an_output_directory_inside_the_input_is_refused(here, clinic):
    before = sorted(here.iterdir())
    for words in (("run", "."), ("run", str(here), "--out", "R")):
        result = privol_cli(*words, "--positive", "sick")
        assert result.exit_code == USAGE
        assert "inside the directory of rows" in result.stderr
    assert sorted(here.iterdir()) == before


def test_a_file_is_refused_as_output_directory(here, clinic):
    result = privol_cli(*RUN, "--out", "new.csv")
    assert result.exit_code == IO
    assert result.stderr == "privol: error: new.csv: exists and is no directory\n"


def test_standard_input_needs_a_horizon(here):
    result = piped("1,2,0\n3,4,1\n", "run", "-", "--positive", "1")
    assert result.exit_code == USAGE
    assert "--horizon is needed" in result.stderr
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    ("loss", "words", "warning"),
    [
        ("logistic", ("--x-bound", "101", "--positive", "siick"), "all rows that were learnt have the same label"),
        ("logistic", ("--x-bound", "101", "--positive", "sick"), None),
        ("logistic", ("--x-bound", "60", "--positive", "sick"), None),  # fewer than half are longer
        ("logistic", ("--x-bound", "40", "--positive", "sick"), "LONGER of 500 rows were longer than the bound"),
        ("huber", ("--x-bound", "2", "--target", "age"), "most targets lie beyond the bound"),
        ("huber", ("--x-bound", "2", "--target", "age", "--y-bound", "100"), None),
    ],
)
def test_doubts_about_the_rows_are_shown_as_not_private(here, clinic, loss, words, warning):
    lines = (here / "train.csv").read_text().splitlines()
    names = ["age", "dose", "size", "state"] if loss == "logistic" else ["age", "dose", "size"]
    body = [",".join(line.split(",")[: len(names)]) for line in lines[1:]]
    (here / "t.csv").write_text("\n".join([",".join(names), *body]) + "\n")
    words = (*words, "--epsilon", "inf")  # noise would give another warning
    record = run_json("run", "t.csv", "--loss", loss, *words)
    if warning is not None:
        warning = warning.replace("LONGER", str(int(sum(np.linalg.norm(clinic[0], axis=1) > 40))))
    found, said = record["diagnostics"], [w for w in record["warnings"] if "does not beat a constant" in w]
    if loss == "logistic":
        worse = found["run"]["final_model"]["accuracy"] <= found["majority_accuracy"] < 1.0
    else:
        worse = found["run"]["final_model"]["r_squared"] <= 0.0
    assert len(said) == worse
    others = [w for w in record["warnings"] if w not in said]
    if warning is None:
        assert others == []
    else:
        assert [w.startswith(f"NOT PRIVATE: {warning}") for w in others] == [True]
        assert warning in " ".join(privol_cli("run", "t.csv", "--loss", loss, *words).stdout.split())
    clipped = record["diagnostics"]["targets_clipped_to_y_bound"]
    assert clipped == (None if loss == "logistic" else 0 if warning is None else sum(X > 1 for X in clinic[0][:, 0]))
    assert run_json("run", "t.csv", "--loss", loss, *words, "--no-diagnostics")["warnings"] == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--epsilon", "10"), []),
        (("--epsilon", "10.01"), ["epsilon is 10.01, above 10: what is released may be 22,248 times as likely"]),
        (("--epsilon", "100"), ["epsilon is 100, above 10: what is released may be e^100 times"]),
        (("--epsilon", "0.1"), ["NOISE: "]),
        (
            ("--epsilon", "10", "--delta", "0.002"),
            ["delta is not below one over the number of rows: with 0.002 and 500 rows"],
        ),
        (("--epsilon", "10", "--delta", "0.0019"), ["delta is 0.0019: publishing each row in the clear"]),
        (("--epsilon", "10", "--delta", "0.001"), ["delta is 0.001: "]),
        (("--epsilon", "10", "--delta", "0.00099"), []),
        (("--epsilon", "inf", "--delta", "0.5"), []),  # nothing is promised, and the first line says so
        (
            ("--epsilon", "10", "--release", "900", "--horizon", "1000"),
            ["no model was released: the first was due after row 900, and 500 were learnt"],
        ),
        (
            ("--epsilon", "10", "--release", "400"),
            ["100 rows are in no released model: the last release came after row 400 of 500"],
        ),
        (("--epsilon", "10", "--release", "499"), ["1 row is in no released model"]),
        # the proved guarantee is judged, not the source's claim of three times the epsilon
        (
            ("--epsilon", "500", "--release", "499", "--calibration", "published"),
            ["the calibration is a published one, with the noise of its source."],
        ),
        (("--epsilon", "10", "--horizon", "1000"), []),  # the only release came when the rows ended
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_warnings_are_public(here, clinic, words, expected):
    run = (*RUN, "--learner", "pigd", "--l2", "0.1", *words, "--no-diagnostics")
    found = run_json(*run)["warnings"]
    assert len(found) == len(expected), found
    for text, start_of_text in zip(found, expected, strict=True):
        assert text.startswith(start_of_text)
        shown = privol_cli(*run)
        assert shown.exit_code == OK
        assert f"WARNING: {start_of_text.strip()}" in " ".join(shown.stdout.split("\n\n")[0].split())  # at the figure
    if expected == ["NOISE: "]:
        planned = privol_cli("plan", "--n-features", "3", "--horizon", N, *RUN[-4:], *run[len(RUN) : -1], "--json")
        helps = "; privol plan with the same options says what would help"
        assert found == [json.loads(planned.stdout)["verdict"] + helps]


@pytest.mark.parametrize("as_json", [False, True])
def test_plans_warn_of_budgets_that_promise_little(here, as_json):
    words = ("plan", "--n-features", "3", "--horizon", "100000", "--epsilon", "100", "--delta", "0.1")
    result = privol_cli(*words, *(["--json"] if as_json else []))
    assert result.exit_code == OK
    starts = ["delta is not below one over the number of rows: with 0.1 and 100,000 rows", "epsilon is 100, above 10"]
    if as_json:
        found = json.loads(result.stdout)["warnings"]
        assert [text.startswith(start) for text, start in zip(found, starts, strict=True)] == [True, True]
    else:
        top = " ".join(result.stdout.split("\n\n")[0].split())
        assert top.startswith("Guarantee: differential privacy with epsilon 100 at delta 0.1 for one row")
        assert all(f"WARNING: {start}" in top for start in starts)
        assert str(privol.plan(n_features=3, horizon=100_000, epsilon=100.0, delta=0.1)).count("WARNING: ") == 2
    assert "WARNING" not in privol_cli(*words[:-4]).stdout


def test_users_are_warned_of_weak_figures(here, clinic):
    (here / "rows.toml").write_text(
        '[target]\ncolumn = "state"\nnegative = ["well"]\npositive = ["sick"]\n[user]\ncolumn = "dose"\nmax_rows = 30\n'
        "[columns.age]\nrange = [0, 100]\n[columns.size]\nrange = [-1, 1]\n"
    )
    words = ("run", "train.csv", "--schema", "rows.toml", "--l2", "1", "--no-diagnostics")
    record = run_json(*words)
    assert record["users"]["epsilon"] > 10 > record["budget"]["reserved"]["epsilon"]
    assert [text for text in record["warnings"] if "epsilon for users is " in text and "above 10" in text]
    assert not [text for text in run_json(*words, "--epsilon", "0.1")["warnings"] if text.startswith("epsilon")]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("run", "t.csv", "--sep", ";", "--positive", "yes"), "columns may be separated by ',': --sep ,"),
        (("run", "t.csv", "--schema", "s.toml"), "separated by ',': sep = \",\" under [file] of the schema"),
        (("run", "t.csv", "--no-learn-schema"), "the logistic loss needs the public labels: --classes"),
        (("run", "t.csv", "--no-learn-schema", "--loss", "huber"), "(declare labels with --classes or --positive)"),
        (("run", "t.svm", "--positive", "1", "--n-features", "1"), "(counted from 1; --zero-based counts from 0)"),
        (("run", "t.svm", "--positive", "1", "--release", "9"), "--release 9 would release nothing within 2 rows"),
        (("run", "t.svm", "--positive", "1", "--learner", "pgiga", "--loss", "hinge"), "--loss hinge has a kink"),
        (("plan", "--learner=pigd", "--horizon", "9", "--n-features", "1", "--calibration", "published", "--delta=.5"),
         "--calibration published needs delta below"),
        (("plan", "--horizon", "9", "--n-features", "0"), "--n-features must"),
        (("run", "x_bound.csv"), "error: x_bound.csv: cannot be read"),
    ],
    ids=str,
)  # fmt: skip
def test_errors_name_options(here, words, expected):
    (here / "t.csv").write_text("a,b,y\n1,2,yes\n3,4,no\n")
    (here / "t.svm").write_text("1 1:2 2:3\n-1 2:3\n")
    (here / "s.toml").write_text(
        '[file]\nsep = ";"\n[target]\ncolumn = "y"\npositive = ["yes"]\nnegative = ["no"]\n[columns.a]\nrange=[0, 9]\n'
    )
    result = privol_cli(*words, "--json")
    assert result.exit_code != OK
    assert expected in result.stderr
    assert f"privol: error: {json.loads(result.stdout)['error']['message']}\n" == result.stderr


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("header=False, header=True, sep='\\t'", "--no-header, --header, --sep tab"),
        ("classes=('no', 'un known')", "--classes 'no,un known'"),
        ("random_state and x_bound. y_bound=", "--seed and --x-bound. --y-bound"),
        ("target=False, zero_based=False", "target=False, --one-based"),  # a target is not a flag
        ("n_features=9 (header= says", "--n-features 9 (--header says"),
        ("epsilon must be above 0", "epsilon must be above 0"),
        ("is a decimal one: decimal=','", 'is a decimal one: decimal = "," under [file] of a schema'),  # not an option
    ],
)
def test_parameters_as_options(message, expected):
    assert in_options(message, app.commands["run"].params, schema=False) == expected


@pytest.mark.parametrize("word", ["my_x_bound", "'x_bound'", "a/x_bound", "x_bound.csv", "x_bound_", "release=1/a.csv"])
def test_paths_and_cells_are_not_mistaken_for_parameters(word):
    assert in_options(f"found {word}: no", app.commands["run"].params, schema=False) == f"found {word}: no"


def test_impossible_labels_are_refused_if_that_is_public(here):
    np.savez("t.npz", X=np.ones((4, 1)), y=[0.0, 1.0, 0.0, 1.0])
    (here / "t.svm").write_text("1 1:2\n-1 1:3\n")
    for name in ("t.npz", "t.svm"):
        result = privol_cli("run", name, "--no-learn-schema", "--positive", "yes")
        assert (result.exit_code, "the labels are numbers, so 'yes' cannot occur" in result.stderr) == (DATA, True)
        # for a number it is known only from the rows, which are private
        assert privol_cli("run", name, "--no-learn-schema", "--positive", "7").exit_code == OK


def test_noise_has_a_price_only_where_there_is_noise(here, clinic):
    noiseless = privol_cli(*RUN, "--epsilon", "inf", "--release", "50", "--verbose").stdout
    assert "The noise costs" not in " ".join(noiseless.split())
    noisy = privol_cli(*RUN, "--epsilon", "0.01", "--release", "50", "--seed", "1", "--verbose").stdout
    assert "The noise costs" in " ".join(noisy.split())
