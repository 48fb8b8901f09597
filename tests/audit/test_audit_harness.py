"""The harness that audits programs of other libraries, on its own controls."""

from __future__ import annotations

import importlib.util
import itertools
import json
import shutil
import sys
from pathlib import Path

import pytest
import warm

FOLDER = Path(__file__).parents[2] / "experiments" / "auditing"
CHOSEN = {
    "randomized response": False,
    "sensitivity of another adjacency": True,
    "canaries, gaussian": False,
    "canaries, an eighth of the noise, gaussian": True,
    "exact, control": False,
    "exact, control, two thirds of the noise": True,
    "exact, geometric": False,
    "exact, two thirds of the noise, geometric": True,
    "exact, randomized response": False,
    "exact, randomized response, 0.76 for 0.75": True,
}
KINDS = ("runs", "canaries", "exact")
WRONG = """
from serve import Case, main, normal

WORDS = {"kind": "exact", "epsilon": None, "mu": 1.0, "adjacency": "add_remove", "sizes": (0,)}
main("wrong", {
    "a sum": Case(lambda: lambda rows: normal(rows.sum(), 0.5), "its page", **WORDS),
    "a control": Case(lambda: lambda rows: normal(rows.sum(), 0.5), "its page", expected="falls", **WORDS),
    "a right sum": Case(lambda: lambda rows: normal(rows.sum(), 1.0), "its page", **WORDS),
    "a library that is missing": Case(lambda: __import__("missing"), "its page", **WORDS),
    "a claim that is not computed": Case(
        lambda: lambda rows: normal(rows.sum(), 1.0), "its page", **{**WORDS, "mu": None, "epsilon": lambda: 1 / 0}
    ),
    "a claim that is computed": Case(
        lambda: lambda rows: normal(rows.sum(), 1.0), "its page", **{**WORDS, "mu": None, "epsilon": lambda: 9.0},
        delta=1e-6,
    ),
})
"""


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    out = tmp_path_factory.mktemp("audits") / "records.json"
    chosen = [word for name in CHOSEN for word in ("--case", name)]
    warm.run([sys.executable, str(FOLDER / "run.py"), *chosen, "--out", str(out)], check=True, timeout=300)
    return json.loads(out.read_text())["audits"]


@pytest.mark.parametrize("program", sorted(FOLDER.glob("of_*.py")), ids=lambda path: path.stem)
def test_every_library_has_a_right_and_a_wrong_control(program):
    """Cases are listed without the library; the claims of the controls are not what the library computes."""
    listed = json.loads(warm.run([sys.executable, str(program)], check=True, capture_output=True, text=True).stdout)
    controls = {(case["kind"], case["expected"]): case for case in listed["cases"].values() if case["expected"]}
    assert set(controls) == set(itertools.product(KINDS, ("stands", "falls")))
    for (kind, _), case in controls.items():
        assert {**case, "source": "", "expected": ""} == {**controls[kind, "stands"], "source": "", "expected": ""}
        assert (case["epsilon"], case["mu"]) in {(1.0, None), (None, 1.0)}
    assert all(isinstance(listed[word], str | None) for word in ("version", "python"))


def test_controls_of_a_library(tmp_path):
    """Those of dp-accounting need numpy alone."""
    out, chosen = tmp_path / "records.json", ("control", "control, two thirds of the noise")
    command = [sys.executable, str(FOLDER / "run.py"), "--python", f"dp_accounting={sys.executable}", "--runs", "300"]
    command += ["--kind", "runs", *(word for name in chosen for word in ("--case", name))]
    ended = warm.run([*command, "--out", str(out)], check=True, capture_output=True, text=True)
    records = json.loads(out.read_text())["audits"]
    assert [record["refuted"] for record in records] == [False, True]
    assert all(record["runs"] > 300 and record["processor_seconds"] > 0.0 for record in records)
    summary = ended.stderr.splitlines()[-1]
    assert "0 of 0 cases audited" in summary
    assert summary.endswith("right controls not refuted: 1 of 1; wrong controls refuted: 1 of 1")


def test_controls_have_the_expected_results(records):
    """Noise is not seeded: a run refutes the correct control with a probability of at most a millionth."""
    assert {record["program"].removeprefix("controls: "): record["refuted"] for record in records} == CHOSEN
    for record in records:
        assert record["expected"] == ("falls" if record["refuted"] else "stands")
        assert record["release"].count(".") == 2
        kind = record["program"].removeprefix("controls: ").split(",")[0]
        assert record["kind"] == (kind if kind in KINDS else "runs")
    canaries, exact = ([record for record in records if record["kind"] == kind] for kind in ("canaries", "exact"))
    assert {record["format"] for record in canaries} == {"privol.audit.canaries"}
    assert all(record["exact"] is not None and record["runs"] == 0 for record in exact)


def test_claims_that_fall_are_written_down_for_maintainers(tmp_path, monkeypatch, capsys):
    """Controls are not: they are wrong on purpose."""
    spec = importlib.util.spec_from_file_location("harness", FOLDER / "run.py")
    harness = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(harness)
    shutil.copy(FOLDER / "serve.py", tmp_path)
    (tmp_path / "of_wrong.py").write_text(WRONG)
    monkeypatch.setattr(harness, "FOLDER", tmp_path)
    command = ["run.py", "--python", f"wrong={sys.executable}", "--kind", "exact", "--kind", "canaries"]
    monkeypatch.setattr(sys, "argv", [*command, "--report", str(tmp_path / "reports")])
    assert harness.main() == 0
    assert [path.name for path in (tmp_path / "reports").iterdir()] == ["wrong-a-sum.md"]
    text = (tmp_path / "reports" / "wrong-a-sum.md").read_text()
    assert "its page (the program: of_wrong.py of privol's auditing, case 'a sum')" in text
    assert "wrong of unknown version" in text
    printed = capsys.readouterr()
    assert "reports, which belong to the maintainers first: 1" in printed.err
    assert "3 of 5 cases audited (0 by many runs, 0 by canaries in one run, 3 exactly)" in printed.err
    records = json.loads(printed.out)["audits"]
    assert [record.get("refuted") for record in records] == [True, True, False, None, None, False]
    assert records[4]["failed"] == "the claim was not computed: ZeroDivisionError: division by zero"
    assert records[5]["epsilon"] == 9.0
