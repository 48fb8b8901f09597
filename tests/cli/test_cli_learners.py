"""``privol run`` with every learner: with the defaults of its own, its diagnostics, and the embedded rows' settings."""

from __future__ import annotations

import pytest

pytest.importorskip("click")

from cli_tools import RUN, run_json

from privol.cli.prepare import EMBEDDED, EMBEDDED_CLASSES, EMBEDDED_FEW, EMBEDDED_OTHERS, FEW
from privol.learners import LEARNERS
from privol.state import load_model

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("learner", LEARNERS)
def test_every_learner_runs_with_diagnostics(here, clinic, learner):
    at = RUN.index("--radius")
    common = RUN if "radius" in LEARNERS[learner]().get_params() else RUN[:at] + RUN[at + 2 :]
    if learner == "pqftl":
        lines = (here / "train.csv").read_text().replace("sick", "1").replace("well", "0")
        (here / "train.csv").write_text(lines)
        common = ("run", "train.csv", "--target", "state", "--ranges", "ranges.json", "--loss", "squared")
    record = run_json(*common, "--out", "R", "--learner", learner)
    assert record["status"] == "complete"
    assert record["releases"] >= 1
    assert not any("no model was released" in words for words in record["warnings"])
    diagnostics = record["diagnostics"]
    price = diagnostics["run"]["regret"] - diagnostics["noiseless"]["regret"]
    assert diagnostics["price_of_noise"] == pytest.approx(price)
    assert load_model("R").get_params().keys() == LEARNERS[learner]().get_params().keys()


@pytest.mark.parametrize("learner", LEARNERS)
def test_the_settings_for_the_embedded_rows_are_parameters(learner):
    known = LEARNERS[learner]().get_params()
    assert known.keys() >= (EMBEDDED_FEW if learner in FEW else EMBEDDED.get(learner, EMBEDDED_OTHERS)).keys()
    if learner == "dpftrl":
        assert known.keys() >= EMBEDDED_CLASSES.keys()
