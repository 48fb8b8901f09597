"""The independent check of a run's guarantee: real runs pass, and every planted error is caught."""

from __future__ import annotations

import ast
import hashlib
import json
import shutil
import subprocess
import sys
import tokenize
from io import StringIO
from pathlib import Path

import numpy as np
import pandas
import pytest
from cli_tools import privol_cli, run_json
from forged import caught, change_ledger, change_run, planted

import privol.verifying
from privol.calibration import Budget, Problem, calibrate_leaders, mechanism_record
from privol.cli.app import IO, OK, REFUTED, UNCHECKED
from privol.geometry import L2Ball
from privol.losses import get_loss
from privol.verifying import Finding, Unreadable, verdict, verify
from privol.verifying.mechanisms import mechanism_of, upper

pytestmark = pytest.mark.process

FILES = [Path(privol.verifying.__file__).with_name(name) for name in ("checker.py", "mechanisms.py")]
N = 12_000


def lines_of_code(text):
    """Numbers of the lines that have code: without blank lines, comments and docstrings."""
    no_code = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    tokens = [token for token in tokenize.generate_tokens(StringIO(text).readline) if token.type not in no_code]
    found = {line for token in tokens for line in range(token.start[0], token.end[0] + 1)}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            found -= set(range(node.lineno, node.end_lineno + 1))
    return found


def test_it_shares_no_code_with_privol():
    imported, lines = set(), []
    for path in FILES:
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                if node.level:
                    assert (node.level, node.module) == (1, "mechanisms")
                    continue
                imported.add(str(node.module).split(".")[0])
        assert "import_module" not in text
        lines.append(len(lines_of_code(text)))
    assert imported - set(sys.stdlib_module_names) == {"mpmath"}
    assert sum(lines) <= 800  # read in an evening
    assert min(lines) > 300  # they were counted


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table, and runs on it that are made on request."""
    path = tmp_path_factory.mktemp("runs")
    rng = np.random.default_rng(0)
    age, town = rng.uniform(18, 90, N).round(1), rng.choice(["Oslo", "Bergen", "Narvik"], N)
    ill = (age - 54) / 12 + (town == "Oslo") + rng.logistic(size=N) > 0
    columns = {"age": age, "town": town, "outcome": np.where(ill, "ill", "well")}
    pandas.DataFrame(columns).to_csv(path / "rows.csv", index=False)
    return path


def made(folder, *words):
    """The folder of a run with these options, which is made once."""
    name = hashlib.sha256(" ".join(words).encode()).hexdigest()[:12]
    if not (folder / name).exists():
        target = () if "--target" in words else ("--target", "outcome")
        run_json("run", str(folder / "rows.csv"), *target, "--out", str(folder / name), "--no-diagnostics", *words)
    return folder / name


RUNS = {
    "default": (),
    "epsilon 0.3, zero_out": ("--epsilon", "0.3", "--adjacency", "zero_out"),
    "several classes": ("--target", "town"),
    "real target": ("--target", "age"),
    "all rows teach": ("--schema-share", "0.25"),
    **{
        f"dpftrl, {design}": ("--learner", "dpftrl", "--design", design, "--radius", "5", "--batch", batch)
        for design, batch in (
            ("blt", "3"),
            ("tree", "1"),
            ("honaker", "7"),
            ("smooth", "2"),
            ("sqrt", "4"),
            ("banded", "6"),
            ("independent", "5"),
        )
    },
    "dpftrl, zero_out, tree": ("--learner", "dpftrl", "--design", "tree", "--radius", "5", "--adjacency", "zero_out"),
    "dpftrl, small ball": ("--learner", "dpftrl", "--radius", "0.5"),
    "dpftrl, hinge": ("--learner", "dpftrl", "--loss", "hinge", "--radius", "5"),
    "nogd": ("--learner", "nogd", "--radius", "5"),
    "nogd, zero_out": ("--learner", "nogd", "--radius", "5", "--adjacency", "zero_out", "--batch", "64"),
}


def accounts(run):
    lines = (run / "ledger.jsonl").read_text().splitlines()
    return [entry["learner"] for entry in map(json.loads, lines) if entry["kind"] == "open"]


@pytest.mark.parametrize("name", RUNS)
def test_real_runs_hold(folder, name):
    run = made(folder, *RUNS[name])
    findings = verify(run)
    assert [each for each in findings if not each.holds] == []
    assert len([each for each in findings if each.what.endswith(": noise")]) == len(accounts(run))
    assert verdict(findings) == "holds"


@pytest.mark.parametrize(
    "name", ["default", "dpftrl, sqrt", "dpftrl, banded", "dpftrl, smooth", "nogd", "dpftrl, small ball"]
)
def test_the_noise_is_hardly_more_than_needed(folder, name):
    """The check leaves no slack for errors: 10^-6 less noise is caught."""
    with planted(made(folder, *RUNS[name]), folder) as run:
        change_run(
            run,
            lambda record: record["mechanism"]["noise"].update(
                sigma=record["mechanism"]["noise"]["sigma"] * (1 - 1e-6)
            ),
        )
        assert f"{json.loads((run / 'run.json').read_text())['learner']}: noise" in caught(run)


def test_the_charge_of_rounding_is_computed():
    """For a run of 2^26 steps, too long for a test: a seventh of the noise covers rounding (recursions.md, 3)."""
    problem = Problem(
        loss=get_loss("hinge"), domain=L2Ball(5.0), dim=10, intercept=False, x_bound=1.0, y_bound=1.0,
        adjacency="replace", horizon=1 << 26,
    )  # fmt: skip
    for design, least, band in (("blt", 1.1, None), ("banded", 1.000001, 1 << 14), ("independent", 1.0, None)):
        words = {"design": design, "bandwidth": band, "release": "last", "l2": 0.0}
        plan = calibrate_leaders(problem, Budget(epsilon=1.0, delta=1e-9), **words)
        record = mechanism_record(plan)
        assert plan.sums.charged > least * 2.0 * plan.sums.factorization.column_norm
        assert upper(mechanism_of(record).price(1, 1)) <= plan.mu
        record["noise"]["sigma"] *= 1 - 1e-6
        assert upper(mechanism_of(record).price(1, 1)) > plan.mu


def at(record, *path):
    for key in path[:-1]:
        record = record[key]
    return record, path[-1]


def set_to(*path, value):
    def change(record):
        inside, key = at(record, *path)
        inside[key] = value(inside[key]) if callable(value) else value

    return change


NOISE = "AdaptiveFTRL: noise"
PLANTED = {
    "two thirds of the noise": (set_to("mechanism", "noise", "sigma", value=lambda x: x * 2 / 3), NOISE),
    "the noise of the other relation": (set_to("mechanism", "noise", "sigma", value=lambda x: x / 2), NOISE),
    "the norm of another design": (set_to("mechanism", "noise", "design", "name", value="tree"), NOISE),
    "weights of another matrix": (
        set_to("mechanism", "noise", "design", "weights", value=lambda w: [2 * x for x in w]),
        NOISE,
    ),
    "a horizon that is one too low": (
        set_to("mechanism", "noise", "design", "steps", value=lambda n: n - 1),
        "AdaptiveFTRL: horizon",
    ),
    "gradients that were cut at twice as much": (set_to("mechanism", "gradient_bound", value=lambda x: 2 * x), NOISE),
    "noise for a smaller epsilon": (
        set_to("budget", "reserved", "epsilon", value=lambda x: x * 0.999),
        "composition",
    ),
    "a printed epsilon that is too small": (
        set_to("summary", value=lambda s: s.replace("epsilon 1 ", "epsilon 0.9 ")),
        "summary",
    ),
    "a printed delta that is left out": (
        set_to("summary", value=lambda s: s.replace(" at delta 1e-6", "")),
        "summary",
    ),
    "a printed mu that is rounded down": (
        set_to("summary", value=lambda s: s.replace("0.2368-GDP", "0.2367-GDP")),
        "summary",
    ),
    "a printed unit of the other relation": (
        set_to("summary", value=lambda s: s.replace("for one row", "for the presence of one row")),
        "summary",
    ),
    "a delta that is too small": (set_to("budget", "delta", value=1e-7), "delta"),
    "phases that share a row": (
        set_to("encoding", "mechanism", "phases", 1, "first_row", value=lambda n: n - 1),
        "PrivateEncoder: phase 'kinds'",
    ),
    "a histogram that is not counted": (
        set_to("encoding", "mechanism", "phases", 2, "histograms", value=lambda n: n + 1),
        "PrivateEncoder: noise",
    ),
    "a learner that reads a row that taught": (set_to("mechanism", "first_row", value=lambda n: n - 1), "composition"),
    "an encoding that the ledger does not know": (
        set_to("mechanism", "rows", value=lambda n: n - 1),
        "AdaptiveFTRL: ledger",
    ),
    "noise of a known seed": (set_to("guarantee", "private", value=False), "bits"),
    "noise of a negative scale": (set_to("mechanism", "noise", "sigma", value=lambda x: -x), "AdaptiveFTRL"),
    "noise of a negative scale, as text": (
        set_to("mechanism", "noise", "sigma", value=lambda x: f" {-x}"),
        "AdaptiveFTRL",
    ),
    "half a step": (set_to("mechanism", "noise", "design", "steps", value=0.5), "AdaptiveFTRL"),
    "rows of no length": (set_to("mechanism", "x_bound", value=False), "AdaptiveFTRL"),
    "another figure in the summary": (
        set_to("summary", value=lambda s: f"{s}; epsilon 0.01 for all rows of a user"),
        "summary",
    ),
    "rows of another bound than the learner's": (
        set_to("mechanism", "x_bound", value=lambda x: x / 2),
        "AdaptiveFTRL: parameters",
    ),
    "a constant that is left out": (set_to("mechanism", "intercept", value=False), "AdaptiveFTRL: parameters"),
    "a sentence with another epsilon": (
        set_to("sentence", value=lambda s: s.replace("= (1, 1e-6)", "= (0.1, 1e-6)")),
        "sentence",
    ),
    "a sentence with another delta": (
        set_to("sentence", value=lambda s: s.replace("= (1, 1e-6)", "= (1, 1e-9)")),
        "sentence",
    ),
    "a sentence with another mu": (set_to("sentence", value=lambda s: s.replace("0.2368-GDP", "0.2-GDP")), "sentence"),
    "a sentence with another rho": (set_to("sentence", value=lambda s: s.replace("0.02802", "0.02801")), "sentence"),
    "a sentence of another unit": (
        set_to("sentence", value=lambda s: s.replace("Unit: one row", "Unit: all rows of a user")),
        "sentence",
    ),
    "a sentence of another relation": (
        set_to("sentence", value=lambda s: s.replace('"replace": replace', '"zero_out": replace')),
        "sentence",
    ),
    "a sentence that leaves out a word": (
        set_to("sentence", value=lambda s: s.replace("are not protected", "are protected")),
        "sentence",
    ),
    "a sentence of a longer run": (
        set_to("sentence", value=lambda s: s.replace(f"at most {N - 2820} rows", "at most 1000000 rows")),
        "sentence",
    ),
    "a sentence of more releases": (
        set_to("sentence", value=lambda s: s.replace(f"at most {N - 2820} releases", "at most 100000 releases")),
        "sentence",
    ),
    "a sentence that goes on": (
        set_to("sentence", value=lambda s: s + " This holds for all rows of a user, too."),
        "sentence",
    ),
    "a sentence with a promise between its words": (
        set_to(
            "sentence", value=lambda s: s.replace("of the model out", "of the model, which protects everybody, out")
        ),
        "sentence",
    ),
    "a condition that promises": (
        set_to("sentence", value=lambda s: s.replace("Conditions: ", "Conditions: epsilon is 0.1 for other rows; ")),
        "sentence",
    ),
    "another epsilon of all together": (
        set_to("together", value=lambda s: s.replace("= (1, 1e-6)", "= (0.1, 1e-6)")),
        "together",
    ),
    "another mu by run": (set_to("together", value=lambda s: s.replace("): 0.2368", "): 0.1")), "together"),
    "another epsilon of the encoding": (
        set_to("encoding", "sentence", value=lambda s: s.replace("= (1, 1e-6)", "= (0.04, 1e-6)")),
        "sentence of the encoding",
    ),
    "another mu of the encoding": (set_to("encoding", "mu", value=0.01), "mu of the encoding"),
    "another mu of the schema": (set_to("inputs", "schema", "learnt", "mu", value=0.01), "mu of the encoding"),
    "another epsilon that was spent": (set_to("budget", "spent", "epsilon", value=0.1), "spent"),
    "another mu that was spent": (set_to("budget", "spent", "mu", value=0.1), "spent"),
    "another share of the encoding": (
        set_to("budget", "shares", "PrivateEncoder", "epsilon", value=0.1),
        "share of PrivateEncoder",
    ),
    "another share of the learner": (
        set_to("budget", "shares", "AdaptiveFTRL", "mu", value=0.1),
        "share of AdaptiveFTRL",
    ),
    "a summary that goes on": (set_to("summary", value=lambda s: s + "; also for all rows of a user"), "summary"),
    "another epsilon in the parameters": (set_to("parameters", "epsilon", value=0.1), "parameters"),
    "another delta in the parameters": (set_to("parameters", "delta", value=1e-5), "AdaptiveFTRL: parameters"),
    "a smaller delta in the parameters": (set_to("parameters", "delta", value=1e-7), "AdaptiveFTRL: parameters"),
    "another horizon in the parameters": (
        set_to("parameters", "horizon", value=lambda n: n - 1),
        "AdaptiveFTRL: parameters",
    ),
    "another horizon": (set_to("horizon", value=lambda n: n - 1), "horizon"),
    "another loss in the parameters": (
        set_to("parameters", "loss", value={"name": "hinge"}),
        "AdaptiveFTRL: parameters",
    ),
    "another relation in the parameters": (
        set_to("parameters", "adjacency", value="zero_out"),
        "AdaptiveFTRL: parameters",
    ),
    "a cap on rows of users in the parameters": (
        set_to("parameters", "rows_per_user", value=3),
        "AdaptiveFTRL: parameters",
    ),
    "another relation in the mechanism": (set_to("mechanism", "adjacency", value="zero_out"), "AdaptiveFTRL"),
}


@pytest.mark.parametrize("error", PLANTED)
def test_planted_errors_are_caught(folder, error):
    change, where = PLANTED[error]
    with planted(made(folder), folder) as run:
        change_run(run, change)
        assert where in caught(run)
        assert privol_cli("verify", str(run)).exit_code == REFUTED


def in_model(*path, value):
    """A change of what a stranger receives."""

    def change(run):
        record = json.loads((run / "model.json").read_text())
        set_to(*path, value=value)(record)
        (run / "model.json").write_text(json.dumps(record))

    return change


OF_A_MODEL = {
    "a guarantee of its own": (in_model("guarantee", "parameter", value=0.1), "model.json"),
    "parameters of its own": (in_model("parameters", "epsilon", value=0.1), "model.json"),
    "a sentence of its own": (
        in_model("sentence", value=lambda s: s.replace("= (1, 1e-6)", "= (0.1, 1e-6)")),
        "sentence of model.json",
    ),
    "a schema of its own": (in_model("inputs", "schema", "learnt", "mu", value=0.01), "mu of the encoding"),
}


@pytest.mark.parametrize("error", OF_A_MODEL)
def test_planted_errors_of_a_model_are_caught(folder, error):
    change, where = OF_A_MODEL[error]
    with planted(made(folder), folder) as run:
        change(run)
        assert where in caught(run)
        (run / "model.json").unlink()
        assert verdict(verify(run)) == "holds"


#: A parameter and its mechanism say the same.
OTHERWISE = {
    "radius": ("nogd", set_to("parameters", "radius", value=lambda x: 2 * x)),
    "batch": ("nogd, zero_out", set_to("parameters", "batch", value=lambda n: 2 * n)),
    "loss": ("dpftrl, hinge", set_to("parameters", "loss", value={"name": "logistic"})),
    "design": ("dpftrl, tree", set_to("parameters", "design", value="blt")),
    "bandwidth": ("dpftrl, banded", set_to("parameters", "bandwidth", value=1)),
    "discount": ("dpftrl, sqrt", set_to("parameters", "discount", value=0.9)),
    "epsilon": ("nogd", set_to("parameters", "epsilon", value=0.1)),
    "horizon": ("nogd", set_to("parameters", "horizon", value=lambda n: n - 1)),
    "delta": ("nogd", set_to("parameters", "delta", value=1e-5)),
    "adjacency": ("nogd", set_to("parameters", "adjacency", value="zero_out")),
    "gradient_bound": ("nogd", set_to("parameters", "gradient_bound", value=0.5)),
    "mu": ("nogd", set_to("parameters", "mu", value=0.1)),
}


@pytest.mark.parametrize("name", OTHERWISE)
def test_parameters_are_those_of_the_mechanism(folder, name):
    run, change = OTHERWISE[name]
    with planted(made(folder, *RUNS[run]), folder) as copy:
        change_run(copy, change)
        assert {"parameters", "NOGD: parameters", "DPFTRL: parameters"} & set(caught(copy))


def test_a_small_ball_is_caught(folder):
    """In a ball of a tenth the scores are small, and so are slopes."""

    def smaller(record):
        record["mechanism"] |= {"radius": 0.1, "diameter": 0.2}
        record["mechanism"]["noise"]["sigma"] *= 0.8

    with planted(made(folder, *RUNS["nogd"]), folder) as run:
        change_run(run, smaller)
        assert "NOGD: parameters" in caught(run)


def with_less_noise(noise, **facts):
    """Facts that would need less noise, and the noise for them."""

    def change(record):
        mechanism = record["mechanism"]
        mechanism["noise"]["sigma"] *= noise
        for name, value in facts.items():
            mechanism[name] = value(mechanism[name])

    return change


#: And the check of the mechanism that must find it, whatever else contradicts the record.
FORGED = {
    "short gradients, and none is cut": (with_less_noise(1 / 400, gradient_bound=lambda x: x / 1000), ""),
    "short rows": (with_less_noise(1 / 900, x_bound=lambda x: x / 1000, intercept=lambda _: False), ": parameters"),
    "a known loss with a slope of its own": (
        with_less_noise(1 / 700, loss=lambda loss: {**loss, "lipschitz": 1e-3, "curvature": 0.25}), ": noise",
    ),
}  # fmt: skip


@pytest.mark.parametrize("words", [RUNS["nogd"], ("--learner", "dpftrl", "--radius", "5")], ids=["nogd", "dpftrl"])
@pytest.mark.parametrize("error", FORGED)
def test_facts_that_contradict_each_other_are_caught(folder, words, error):
    change, check = FORGED[error]
    with planted(made(folder, *words), folder) as run:
        change_run(run, change)
        assert f"{words[1].upper()}{check}" in caught(run)


def test_mechanisms_have_no_rows_apart_that_the_ledger_adds_up(folder):
    """Both read all rows, and cost together what is stated; with rows of their own they would cost less."""
    with planted(made(folder, *RUNS["all rows teach"]), folder) as run:
        record = json.loads((run / "run.json").read_text())
        last = record["encoding"]["mechanism"]["rows"]

        def change(record):
            budget = record["budget"]
            record["mechanism"]["first_row"] = last + 1
            budget["reserved"] = max(budget["shares"].values(), key=lambda share: share["mu"])

        change_run(run, change)
        assert "composition" in caught(run)


def without_charge(entries):
    return [{**entry, "mu_squared": 0.0} if entry["kind"] == "closed" else entry for entry in entries]


def without_encoder(entries):
    own = [entry["plan_id"] for entry in entries if entry.get("learner") == "PrivateEncoder"]
    return [entry for entry in entries if entry.get("plan_id") not in own]


def test_planted_errors_of_a_ledger_are_caught(folder):
    with planted(made(folder), folder) as run:
        change_ledger(run, lambda entries: entries)
        assert verdict(verify(run)) == "holds"
        change_ledger(run, without_charge)
        assert "AdaptiveFTRL: ledger" in caught(run)
    with planted(made(folder), folder) as run:
        change_ledger(run, without_encoder)
        assert "PrivateEncoder" in caught(run)


def test_mechanisms_without_a_proof_here_do_not_pass(folder):
    with planted(made(folder, "--learner", "dola", "--batch", "4"), folder) as copy:
        change_run(copy, set_to("mechanism", "position", value="scaled_gradient"))  # proved for one row a step
        change_run(copy, set_to("parameters", "noise_position", value="scaled_gradient"))
        assert verdict(verify(copy)) == "not checked"
        found = privol_cli("verify", str(copy))
        assert found.exit_code == UNCHECKED
        assert "not checked    DOLA: noise at 'scaled_gradient' of the law 'gaussian'" in found.stdout
    with planted(made(folder), folder) as copy:
        change_run(copy, set_to("mechanism", value=None))
        assert Finding("AdaptiveFTRL", None, "its mechanism is not in the record") in verify(copy)
        assert verdict(verify(copy)) == "not checked"


def test_damaged_files_are_refused(folder, tmp_path):
    with pytest.raises(Unreadable, match=r"run\.json is missing"):
        verify(tmp_path)
    with planted(made(folder), folder) as run:
        (run / "ledger.jsonl").rename(run / "elsewhere")
        with pytest.raises(Unreadable, match=r"ledger\.jsonl is missing"):
            verify(run)
        (run / "elsewhere").rename(run / "ledger.jsonl")
        text = (run / "ledger.jsonl").read_text()
        (run / "ledger.jsonl").write_text(text.replace('"rows": 0', '"rows": 1', 1))
        with pytest.raises(Unreadable, match=r"ledger\.jsonl, line \d+: altered"):
            verify(run)
        (run / "ledger.jsonl").write_text(text[:-20])
        with pytest.raises(Unreadable, match="damaged"):
            verify(run)
        (run / "ledger.jsonl").write_text("")
        assert verdict(verify(run)) == "does not hold"
        (run / "ledger.jsonl").write_text(text)
        (run / "run.json").write_text('{"format": "privol.run", "version": 2}')
        with pytest.raises(Unreadable, match="not a record"):
            verify(run)
        (run / "run.json").write_text('{"format": "privol.run", "version": 1}')
        with pytest.raises(Unreadable, match=r"damaged .KeyError"):
            verify(run)
        (run / "run.json").write_text('{"format": "privol.run", "version": 2}')
        found = privol_cli("verify", str(run))
        assert (found.exit_code, "not a record of format" in found.stderr) == (IO, True)


def test_the_command(folder, tmp_path):
    run = str(made(folder))
    found = privol_cli("verify", run)
    assert found.exit_code == OK, found.stderr
    assert found.stdout.endswith(f"The guarantee of {run}: holds.\n")
    record = json.loads(privol_cli("verify", run, "--json").stdout)
    assert (record["format"], record["verdict"]) == ("privol.verdict", "holds")
    assert all(each["holds"] for each in record["findings"])
    (tmp_path / "apart").mkdir()
    for path in (*FILES, FILES[0].with_name("sentences.toml")):
        shutil.copy(path, tmp_path / "apart")
    script = "import sys, apart.checker as c; print(c.verdict(c.verify(sys.argv[1])), 'privol' in sys.modules)"
    words = [sys.executable, "-c", script, run]
    alone = subprocess.run(words, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert alone.stdout == "holds False\n"
