"""``privol run`` with a budget for all rows of a user, after an encoding that some of them teach."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas
import pytest
from cli_tools import privol_cli, run_json

from privol.guarantees import gdp_mu
from privol.ledger import Ledger

USERS = """[user]
column = "id"
max_rows = 3
separation = 200
"""
WORDS = ("run", "rows.csv", "--target", "outcome", "--schema", "users.toml", "--learn-schema")
FOR_USERS = ("--rows-per-user", "3", "--user-separation", "200", "--epsilon", "8", "--no-diagnostics")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Rows of people, most of whom have several."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = pandas.DataFrame({"id": rng.integers(0, 2500, 6000), "age": rng.uniform(18, 90, 6000).round(1)})
    rows["town"] = rng.choice(["Oslo", "Bergen"], 6000)
    rows["outcome"] = np.where(rows["age"] > 54, "ill", "well")
    rows.to_csv("rows.csv", index=False)
    Path("users.toml").write_text(USERS)


@pytest.mark.usefixtures("here")
def test_a_budget_for_users():
    """For both phases and metrics: one figure, which the ledger has too; the cap counts the rows of both phases."""
    record = run_json(*WORDS, *FOR_USERS, "--seed", "1", "--out", "R")
    assert record["guarantee"]["unit"] == "user"
    assert "epsilon 8 at delta 1e-6 for one user (column 'id', at most 3 rows" in record["summary"]
    spent = Ledger.read("R/ledger.jsonl").spent
    assert spent.mu == pytest.approx(gdp_mu(8.0, 1e-6), rel=1e-9)
    assert record["users"] == {"most_rows": 3, "mu": pytest.approx(spent.mu), "epsilon": pytest.approx(8.0)}
    assert record["rows"] + record["encoding"]["rows"] < 6000
    words = ("--private-metrics", "0.2", "--release", "400")
    record = run_json(*WORDS, *FOR_USERS, *words, "--seed", "1", "--out", "S")
    found = Ledger.read("S/ledger.jsonl")
    assert found.spent.mu == pytest.approx(gdp_mu(8.0, 1e-6), rel=1e-6)
    assert found.spent.mu <= found.mu * (1 + 1e-12)
    assert "for one user (column 'id'" in record["summary"]
    result = privol_cli("account", "S/ledger.jsonl")
    assert "of a user, the rows of both" in " ".join(result.stdout.split())
    assert len(privol_cli("predict", "R", "rows.csv").stdout.splitlines()) == 6001


@pytest.mark.usefixtures("here")
def test_noise_for_more_rows_per_user_than_the_stream_keeps_is_reported():
    """The default is one row each, for which a budget for several has more noise than needed."""
    words = (*WORDS, "--epsilon", "8", "--no-diagnostics")
    assert not [said for said in run_json(*words, *FOR_USERS)["warnings"] if "less noise" in said]
    Path("users.toml").write_text('[user]\ncolumn = "id"\nmax_rows = 2\nseparation = 300\n')
    (said,) = [said for said in run_json(*words, *FOR_USERS)["warnings"] if "less noise" in said]
    assert said == (
        "the noise is for 3 rows of a user, 200 rows apart, and of the stream no more than 2, 300 rows apart, are "
        "learnt: --rows-per-user 2 --user-separation 300 takes less noise"
    )
    Path("users.toml").write_text('[user]\ncolumn = "id"\n')
    record = run_json(*words, "--rows-per-user", "3")
    assert record["rows"] + record["encoding"]["rows"] == pandas.read_csv("rows.csv")["id"].nunique()
    (said,) = [said for said in record["warnings"] if "less noise" in said]
    assert said.endswith("of the stream no more than 1 are learnt: --rows-per-user 1 takes less noise")
    record = run_json(*words)
    assert record["users"]["epsilon"] == pytest.approx(8.0)
    assert not [said for said in record["warnings"] if "less noise" in said]
