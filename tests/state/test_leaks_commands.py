"""A run of the command line prints and writes nothing secret, and marks what it computes from raw rows.

The search (``leaks.py``) looks for the raw cells, the rows as they are learnt, and the noise key in the output, in the
progress bar of a terminal, in every file of a run, and in errors. A file marked NOT PRIVATE makes no promise, but must
not contain copies of rows either.
"""

from __future__ import annotations

import itertools
import json
import os
import pickle
import subprocess
from pathlib import Path

import numpy as np
import pytest
from cli_tools import no_file_above, privol_cli, start, write
from leaks import Secrets, of_run, story, surface
from patience import WAIT

import privol
from privol.cli.app import DATA, IO, OK
from privol.cli.options import OFFLINE
from privol.evaluate import compare, progressive
from privol.plots import plot_comparison

pytestmark = pytest.mark.process

pytest.importorskip("click")

N = 500
CELL = "Zx81-Kantinenweg"  # the cell of a patient: not a level of the schema
SCHEMA = """others = "drop"

[file]
format = "csv"

[target]
column = "state"
negative = ["well"]
positive = ["sick"]

[columns.age]
range = [0, 100]

[columns.dose]
range = [-1, 1]

[columns.ward]
levels = ["surgery", "medicine"]
unknown = "indicator"
"""
RUN = ("run", "train.csv", "--schema", "clinic.toml", "--radius", "5", "--seed", "5")


@pytest.fixture
def ward(here):
    """A table with recognisable cells; returns what must not be seen of it."""
    rng = np.random.default_rng(8)
    age, dose = rng.uniform(0, 100, N), rng.uniform(-1, 1, N)
    state = np.where((age - 50) / 50 + dose > 0, "sick", "well")
    places = [CELL if k % 9 == 0 else ("surgery", "medicine")[k % 2] for k in range(N)]
    write(here / "train.csv", ["age", "dose", "ward", "name", "state"],
          [[repr(float(a)), repr(float(d)), p, f"{CELL}-{k}", s]
           for k, (a, d, p, s) in enumerate(zip(age, dose, places, state, strict=True))])  # fmt: skip
    (here / "clinic.toml").write_text(SCHEMA)
    secrets = Secrets()
    secrets.numbers("cells", [age, dose, age / 50 - 1], many=True)
    secrets.text("a cell", CELL)
    rows = np.vstack([block.X for block in table()])
    secrets.numbers("rows", rows, many=True)
    learner = privol.DPFTRL(random_state=5, horizon=N, radius=5.0)
    labels = np.array([0, 1] * (N // 2))
    learner.partial_fit(rows[:100], labels[:100], classes=[0, 1])
    of_run(secrets, learner._run.state)
    assert secrets.found_in(bytes(learner._run.state.secret_arrays()["key"]))
    return secrets


def table():
    return privol.open_stream("train.csv", schema="clinic.toml")


def files_of(folder):
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def check(secrets, *haystacks):
    assert len(secrets) > 1000
    found = {name for haystack in haystacks for name in secrets.found_in(haystack)}
    assert not found, sorted(found)[:10]


def test_the_search_finds_the_table(ward, here):
    assert len(ward.found_in((here / "train.csv").read_bytes())) > 900


WORDS = ((), ("--json",), ("--private-metrics", "0.1", "--json"), ("--private-metrics", "0.1"), ("--no-diagnostics",))


@pytest.mark.parametrize(
    ("words", "learner"),
    [*((words, "dpftrl") for words in WORDS), *itertools.product(((), WORDS[2]), ("pigd", "nogd"))],
    ids=lambda given: given if isinstance(given, str) else " ".join(given),
)
def test_a_run_prints_and_writes_nothing_secret(ward, here, words, learner):
    result = privol_cli(*RUN, "--learner", learner, "--release", "100", "--out", "R", *words)
    assert result.exit_code == OK, result.output
    check(ward, result.stdout, result.stderr, *files_of("R").values())
    predicted = privol_cli("predict", "R", "train.csv")
    info = privol_cli("info")
    check(ward, predicted.stdout, predicted.stderr, info.stdout)
    assert not [path for path in here.rglob("*") if "secret" in path.name or path.suffix == ".tmp"]


@pytest.mark.parametrize("learner", OFFLINE)
def test_a_fit_of_all_rows_prints_and_writes_nothing_secret(ward, here, learner):
    words = ("run", "train.csv", "--schema", "clinic.toml", "--seed", "5", "--learner", learner, "--out")
    for folder, more in (("R", ()), ("S", ("--json",))):
        result = privol_cli(*words, folder, *more)
        assert result.exit_code == OK, result.output
        check(ward, result.stdout, result.stderr, *files_of(folder).values())
    if learner != "pol":
        result = privol_cli(*words, "T", "--max-iter", "1")
        assert result.exit_code == DATA
        check(ward, result.stdout, result.stderr, *files_of("T").values())
    assert not [path for path in here.rglob("*") if "secret" in path.name or path.suffix == ".tmp"]


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="no terminals")
def test_the_progress_of_a_terminal_shows_nothing_secret(ward, here):
    ours, theirs = os.openpty()
    done = start(*RUN, "--release", "100", "--out", "R", stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    shown = []
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the end of a terminal
            break
        if not part:
            break
        shown.append(part)
    printed = done.communicate(timeout=WAIT)[0]
    os.close(ours)
    assert done.returncode == OK
    check(ward, b"".join(shown), printed, *files_of("R").values())


# ---- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trouble", ["number", "label", "cells", "disk", "target"])
def test_errors_name_the_row_and_not_what_is_in_the_others(ward, here, trouble):
    lines = (here / "train.csv").read_text().splitlines()
    cells = lines[300].split(",")
    if trouble == "number":
        cells[1] = "much"
    elif trouble == "label":
        cells[4] = "ill"
    elif trouble == "cells":
        cells = cells[:3]
    elif trouble == "target":
        cells[4] = ""
    lines[300] = ",".join(cells)
    (here / "train.csv").write_text("\n".join(lines) + "\n")
    if trouble == "disk":
        with no_file_above(40):
            done = privol_cli(*RUN, "--no-diagnostics", "--out", "R")
        assert done.exit_code == IO, done.stderr
        check(ward, done.stdout, done.stderr)
        return
    for words in ((), ("--json",)):
        result = privol_cli(*RUN, "--out", "R", *words)
        assert result.exit_code == DATA, result.output
        assert "300" in result.stderr
        check(ward, result.stdout, result.stderr)
    with pytest.raises(privol.errors.PrivolError) as caught:
        privol.DPFTRL(random_state=5).fit_stream(table())
    check(ward, story(caught.value))


# ---- figures without privacy are marked -----------------------------------------------------------------------------


def unmarked(record, marked=False):
    """Paths of figures that come from raw rows, in a record of JSON values, without a mark above them."""
    raw = {"progressive", "final_model", "curve", "regret", "majority_accuracy", "best_fixed", "price_of_noise", "auc"}
    raw |= {"rows_scaled_to_x_bound", "null_rows", "targets_clipped_to_y_bound", "cells", "dropped"}
    found = []
    if isinstance(record, dict):
        marked = marked or record.get("private") is False
        for name, value in record.items():
            own = isinstance(value, dict) and value.get("private") is False
            if name in raw and not (marked or own or value is None or isinstance(value, str)):
                found.append(name)
            elif name not in ("parameters", "inputs"):  # public: the options and the schema
                found += [f"{name}.{inner}" for inner in unmarked(value, marked)]
    return found


def test_an_unmarked_figure_is_found():
    assert unmarked({"a": {"regret": 1.0}, "private": True}) == ["a.regret"]
    assert unmarked({"a": {"private": False, "b": {"regret": 1.0}}}) == []


def test_files_with_figures_of_raw_rows_are_marked(ward, here, monkeypatch):
    titles = []
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    save = FigureCanvasAgg.print_png

    def spy(self, *given, **named):
        titles.extend(text.get_text() for text in self.figure.findobj(lambda it: hasattr(it, "get_text")))
        return save(self, *given, **named)

    monkeypatch.setattr(FigureCanvasAgg, "print_png", spy)
    result = privol_cli(*RUN, "--release", "100", "--private-metrics", "0.1", "--out", "R", "--json")
    files = files_of("R")
    for name, content in files.items():
        if name.endswith(".json"):
            assert unmarked(json.loads(content)) == [], name
    assert unmarked(json.loads(result.stdout)) == []
    assert json.loads(files["metrics.json"])["private"] is False
    assert json.loads(files["run.json"])["diagnostics"]["private"] is False
    assert "NOT PRIVATE" in json.loads(files["run.json"])["files"]["run.json"]
    assert any("NOT PRIVATE" in title or "not private" in title for title in titles), titles
    clear = privol_cli(*RUN, "--release", "100", "--out", "S", "--no-diagnostics", "--json")
    record = json.loads(clear.stdout)
    assert record["diagnostics"] is None
    assert set(files_of("S")) == {".ledger.jsonl.lock", "ledger.jsonl", "model.json", "model.npz", "run.json"}
    for name in ("model.json", "ledger.jsonl", "private_metrics.json"):  # publishable files have no such figures
        assert b"regret" not in files[name]
        assert b"majority" not in files[name]


def test_the_table_that_is_printed_is_marked(ward, here):
    brief = privol_cli(*RUN, "--release", "100", "--out", "S").stdout
    assert brief.index("How good it is (NOT PRIVATE") < brief.index("best fixed")
    assert "accuracy" not in brief[: brief.index("How good it is (NOT PRIVATE")]
    text = privol_cli(*RUN, "--release", "100", "--out", "R", "--verbose").stdout
    assert text.index("Diagnostics: NOT PRIVATE") < text.index("best fixed")
    before = text[: text.index("Diagnostics: NOT PRIVATE")]
    assert "regret" not in before
    shown = [line for line in before.splitlines() if "metrics.json" in line or "plot.png" in line]
    assert shown
    assert all("NOT PRIVATE" in line for line in shown)
    for words in ((), ("--json",)):
        drafted = privol_cli("info", "train.csv", *words)
        assert "NOT PRIVATE" in drafted.stderr
        assert "DERIVED FROM THE DATA" in drafted.stdout


def test_records_of_an_evaluation_are_marked(ward, here):
    learner = privol.PIGD(random_state=5, release=100, radius=5.0, horizon=N)
    record = compare(learner, table()).to_record()
    assert unmarked(record) == []
    assert record["notice"].startswith("NOT PRIVATE")
    check(ward, json.dumps(record), pickle.dumps(learner), surface(learner))
    found = progressive(privol.PIGD(random_state=5, release=100, radius=5.0, horizon=N), table())
    assert "not private" in type(found).__doc__.lower()
    assert found.private is None
    assert plot_comparison(record, title="t", releases=[100]).startswith(b"\x89PNG")
