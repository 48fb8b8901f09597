"""The code in the documentation runs: the README's Python and commands, the examples, the docstrings' examples."""

from __future__ import annotations

import doctest
import gzip
import json
import math
import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import warm
from experiment_tools import covtype_text
from patience import WAIT
from places import ROOT

import privol
from privol.guarantees import format_up, gdp_epsilon

pytestmark = pytest.mark.process


def blocks(page: str, language: str) -> list[str]:
    text = ROOT.joinpath(page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


(TABLES,), (DEVICES,) = blocks("README.md", "python"), blocks("docs/devices.md", "python")
LOADING, LEARNING = blocks("docs/own_rows.md", "python")


def test_the_readme_is_short():
    lines = ROOT.joinpath("README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 150
    assert max(map(len, lines)) <= 120


def test_every_page_is_on_the_map():
    docs = ROOT / "docs"
    pages = {str(page.relative_to(docs)) for end in ("md", "ipynb") for page in docs.rglob(f"*.{end}")}
    pages = {page for page in pages if not page.startswith("site/")}  # pages of the site that show files outside docs/
    index = docs.joinpath("index.md").read_text(encoding="utf-8")
    linked = {target for target in re.findall(r"\]\(([^)#]+)\)", index) if not target.startswith(("../", "img/"))}
    assert pages - {"index.md"} | {"reference/index.rst"} == linked


def test_tables_of_the_readme(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    age, ward = rng.uniform(20, 90, 20_000).round(1), rng.choice(["A", "B"], 20_000)
    lines = [f"{a},{w},{'ill' if a + 20 * (w == 'B') > 65 else 'well'}" for a, w in zip(age, ward, strict=True)]
    (tmp_path / "clinic.csv").write_text("\n".join(["age,ward,outcome", *lines]))
    exec(compile(TABLES, "README.md", "exec"), {"__name__": "readme"})
    shares, summary = capsys.readouterr().out.split("} ")
    assert float(shares.split(",")[0].removeprefix("{'ill': ")) > 0.6
    assert summary.startswith("differential privacy with epsilon 1 at delta 1e-6 for one row")


def test_python_of_your_own_rows(capsys):
    exec(compile(LEARNING, "own_rows.md", "exec"), {"__name__": "page"})
    out = capsys.readouterr().out.splitlines()
    assert float(out[0]) > 0.9
    assert "(epsilon, delta) = (1, 1e-6)" in out[1]
    assert out[-1] == "4 (1, 20)"


def test_devices(capsys):
    exec(compile(DEVICES, "devices.md", "exec"), {"__name__": "page"})
    model, sentence = capsys.readouterr().out.strip().split("\n", 1)
    # Over 25 runs one minus the cosine with the true direction was 0.0056 on average, at most 0.02. It is about
    # exponential (two coordinates of noise): a false alarm has a probability of exp(-0.1 / 0.0056) = 2e-8. Without
    # learning it is 1.
    found, truth = [float(x) for x in model.strip("[]").split()], (1.0, -2.0, 0.5)
    cosine = sum(a * b for a, b in zip(found, truth, strict=True)) / math.hypot(*found) / math.hypot(*truth)
    assert cosine > 0.9
    assert "Pure differential privacy with epsilon = 2 (delta = 0)" in sentence


def run_commands(script: str) -> list[subprocess.CompletedProcess[str]]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    results = []
    for line in script.replace("\\\n", " ").splitlines():
        words, _, out = line.split("#")[0].partition(">")
        command = [sys.executable, *shlex.split(words)[1:]]
        if not words.startswith("python "):
            command = [sys.executable, "-m", *shlex.split(words)]
        done = warm.run(command, capture_output=True, text=True, env=environment, timeout=WAIT, check=False)
        assert done.returncode == 0, (line, done.stderr)
        if out:
            Path(out.strip()).write_text(done.stdout)
        results.append(done)
    return results


def test_commands_of_your_own_rows(tmp_path, monkeypatch, capsys):
    pytest.importorskip("click")
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    Path("examples").symlink_to(ROOT / "examples")
    drafting, running = (b for b in blocks("docs/own_rows.md", "sh") if "rows.csv" in b)
    drafted = run_commands(drafting)
    assert "NOT PRIVATE" in drafted[1].stderr
    from cli_tools import privol_cli

    (as_it_stands,) = (line for line in running.replace("\\\n", " ").splitlines() if line.startswith("privol run"))
    assert "WARNING" in privol_cli(*shlex.split(as_it_stands, comments=True)[1:]).stdout
    Path("first-run").rename("draft-run")
    (edited,) = (b for b in blocks("docs/own_rows.md", "toml") if "[target]" in b)
    Path("rows.toml").write_text(edited)
    plan, run, _ = run_commands(running)
    assert "SIGNAL" in plan.stdout
    assert "WARNING" not in run.stdout
    assert "for one user (column 'patient', at most 2 rows)" in " ".join(run.stdout.split())
    # Over 30 runs 0.8206 with a standard deviation of 0.0009 (Gaussian noise in the model): a false alarm has a
    # probability below 1e-9. Without learning: 0.52.
    accuracy = json.loads(Path("first-run/metrics.json").read_text())["run"]["final_model"]["accuracy"]
    assert accuracy > 0.80
    lines = Path("predictions.csv").read_text().splitlines()
    assert (len(lines), lines[0]) == (6, "prediction,probability of missed")
    capsys.readouterr()
    exec(compile(LOADING, "own_rows.md", "exec"), {"__name__": "page"})
    out = capsys.readouterr().out
    assert re.findall(r"kept|missed", out) == [line.split(",")[0] for line in lines[1:]]
    assert out.splitlines()[-1] == json.loads(Path("first-run/run.json").read_text())["summary"]


def test_links_of_the_documentation():
    for page in [ROOT / "README.md", ROOT / "SECURITY.md", *ROOT.joinpath("docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert page.parent.joinpath(target).exists(), f"{page.name}: {target}"


def test_sharp_edges_say_how_bad_and_what_is_done():
    _, _, edges = (ROOT / "docs" / "sharp_edges.md").read_text(encoding="utf-8").partition("\n## ")
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in edges.splitlines() if line[:1] == "|"]
    rows = [row for row in rows if row[0] not in ("edge", "---")]
    assert len(rows) > 40
    assert {len(row) for row in rows} == {5}
    assert all(all(row) for row in rows)
    assert {row[1].split(";")[0] for row in rows} == {"critical", "high", "medium", "low"}


def test_published_calibrations_of_offline_learners():
    """The page's table of what is proved for printed noise, computed again."""
    page = (ROOT / "docs" / "published.md").read_text(encoding="utf-8")
    table = re.search(r"<!-- offline: .*?<!-- end of offline -->", page, re.DOTALL)[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")][2:]
    assert len(rows) == 8
    for claimed, l2, *proved in rows:
        words = {"calibration": "published", "epsilon": float(claimed), "l2": float(l2), "fit_intercept": False}
        average = privol.POL(weights="uniform", delta=1e-6, radius=1.0, **words).calibrate(10, 1000)
        output = privol.OutputPerturbation(delta=0.0, **words).calibrate(10, 1000)
        objective = privol.ObjectivePerturbation(delta=0.0, **words).calibrate(10, 1000)
        found = [gdp_epsilon(average.mu, 1e-6), output.epsilon, objective.epsilon]
        assert [format_up(found[0], 3), format_up(found[1], 3), format_up(found[2])] == proved


def test_published_calibration_of_least_squares():
    page = (ROOT / "docs" / "published.md").read_text(encoding="utf-8")
    table = re.search(r"<!-- least squares: .*?<!-- end of least squares -->", page, re.DOTALL)[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")][2:]
    assert len(rows) == 12
    for claimed, bound, horizon, proved in rows:
        words = {"epsilon": float(claimed), "x_bound": float(bound), "y_bound": float(bound), "fit_intercept": False}
        plan = privol.PQFTL(calibration="published", **words).calibrate(10, int(horizon.replace(",", "")))
        assert format_up(gdp_epsilon(plan.mu, 1e-6)) == proved


def test_example_stream(capsys):
    runpy.run_path(str(ROOT / "examples" / "stream.py"), run_name="__main__")
    out = capsys.readouterr().out
    assert "50000 rows, 5 models released" in out
    assert "both together: epsilon" in out


def test_example_covtype(tmp_path, capsys, monkeypatch):
    pytest.importorskip("pyarrow")
    sample = tmp_path / "covtype.data"
    sample.write_text(covtype_text(4_000))
    monkeypatch.setattr(sys, "argv", ["covtype.py", str(sample), "--repeats", "1"])
    with pytest.raises(privol.errors.InvalidParameter, match="release=10000 would release nothing"):
        runpy.run_path(str(ROOT / "examples" / "covtype.py"), run_name="__main__")
    assert "3600 rows learnt, 400 held out" in capsys.readouterr().out


def test_example_published_table(tmp_path, capsys, monkeypatch):
    """With one of the sets, and few rows of it; the page shows a table of the same columns."""
    pytest.importorskip("matplotlib")
    with gzip.open(tmp_path / "covtype.data.gz", "wt") as file:
        file.write(covtype_text(4_000))
    plot = tmp_path / "table.png"
    words = ["published_table.py", str(tmp_path), "--repeats", "1", "--plot", str(plot)]
    monkeypatch.setattr(sys, "argv", words)
    runpy.run_path(str(ROOT / "examples" / "published_table.py"), run_name="__main__")
    table = capsys.readouterr().out
    page = (ROOT / "docs" / "published.md").read_text(encoding="utf-8")
    (head, *_) = [line for line in table.splitlines() if line.startswith("|")]
    assert head in page
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_example_multiclass(tmp_path, monkeypatch):
    """The table of a few rows; the page has the same lines, and the code on it runs."""
    page = (ROOT / "docs" / "multiclass.md").read_text(encoding="utf-8")
    copy = tmp_path / "multiclass.md"
    copy.write_text(page, encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["multiclass.py", "--repeats", "2", "--rows", "3000", "--page", str(copy)])
    runpy.run_path(str(ROOT / "examples" / "multiclass.py"), run_name="__main__")

    def names(text):
        return [row.split("|")[1:3] for row in re.findall(r"^\| .*", text, re.MULTILINE)]

    assert names(copy.read_text(encoding="utf-8")) == names(page)
    assert "3,000 rows learnt in one pass, 12,000 held out" in copy.read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    found = {"__name__": "page"}
    exec(compile(code, "multiclass.md", "exec"), found)
    assert found["learner"].coef_.shape == (7, 54)


@pytest.mark.parametrize(
    "name",
    [
        "privol.learners.iterate",
        "privol.learners.gradient",
        "privol.guarantees",
        "privol.ledger",
        "privol.streams",
        "privol.audit._audit",
        "privol.audit._canaries",
        "privol.audit._exact",
        "privol.audit._neighbours",
        "privol.audit._of_programs",
    ],
)
def test_docstrings(name):
    module = __import__(name, fromlist=["_"])
    result = doctest.testmod(module)
    assert result.failed == 0
