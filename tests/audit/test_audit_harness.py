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


def test_controls_have_the_expected_results(records):
    """Noise is not seeded: a run refutes the correct control with a probability of at most a millionth."""
    assert {record["program"].removeprefix("controls: "): record["refuted"] for record in records} == CHOSEN
    for record in records:
        assert record["expected"] == ("falls" if record["refuted"] else "stands")
        assert record["release"].count(".") == 2
