"""The harness that audits programs of other libraries, on its own controls."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import warm

FOLDER = Path(__file__).parents[2] / "experiments" / "auditing"
CHOSEN = {"randomized response": False, "sensitivity of another adjacency": True}


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
    controls = {case["expected"]: case for case in listed["cases"].values() if case["expected"]}
    assert set(controls) == {"stands", "falls"}
    for case in controls.values():
        assert {**case, "source": "", "expected": ""} == {**controls["stands"], "source": "", "expected": ""}
        assert (case["epsilon"], case["mu"]) in {(1.0, None), (None, 1.0)}
    assert all(isinstance(listed[word], str | None) for word in ("version", "python"))


def test_controls_of_a_library(tmp_path):
    """Those of dp-accounting need numpy alone."""
    out, chosen = tmp_path / "records.json", ("control", "control, two thirds of the noise")
    command = [sys.executable, str(FOLDER / "run.py"), "--python", f"dp_accounting={sys.executable}", "--runs", "300"]
    command += [word for name in chosen for word in ("--case", name)]
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
