"""``privol run`` with every learner: with its own defaults, its diagnostics, and on the embedded rows."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("click")

from cli_tools import RUN, privol_cli, run_json

from privol.cli.app import USAGE
from privol.guarantees import gdp_mu
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


def test_the_embedded_rows_need_no_settings(here):
    """NOGD's last model: 0.735, where the majority class has 0.512; for pure learners the ranges are given."""
    record = run_json("run", "--learner", "nogd", "--seed", "1", "--out", "R")
    assert record["diagnostics"]["run"]["final_model"]["accuracy"] > 0.7
    pure = run_json("run", "--learner", "ldpsgd", "--seed", "1", "--no-diagnostics", "--out", "S")
    assert (pure["encoding"], pure["features"], pure["rows"]) == (None, 54, 120_000)


def test_an_invalid_target_is_refused_before_anything_is_learnt(here):
    result = privol_cli("run", "--learner", "pqftl", "--out", "R")
    assert result.exit_code == USAGE
    assert "the embedded rows have labels" in result.stderr
    assert not (here / "R").exists()


def test_budgets_by_mu():
    words = ("plan", "--n-features", "3", "--horizon", "500", "--json")
    planned = json.loads(privol_cli(*words, "--mu", "0.5").stdout)
    epsilon = planned["parameters"]["epsilon"]
    assert planned == json.loads(privol_cli(*words, "--epsilon", repr(epsilon)).stdout)
    assert 0.5 * (1 - 1e-9) <= gdp_mu(epsilon, 1e-6) <= 0.5
    for more, message in [
        (("--epsilon", "1"), "--epsilon and --mu exclude each other"),
        (("--learner", "ldpsgd"), "--mu is not an option of --learner ldpsgd"),
        (("--learner", "pigd", "--calibration", "published"), "--calibration published"),
    ]:
        result = privol_cli(*words, "--mu", "0.5", *more)
        assert (result.exit_code, message in result.output) == (USAGE, True), result.output
