"""The independent check of runs without a model, and of learners that devices have answered."""

from __future__ import annotations

import math

import numpy as np
import pandas
import pytest
from cli_tools import privol_cli
from forged import caught, change_run

from privol import BANCO, LDPSGD, MIOGD, AgnosticBANCO, MultiscaleSGD
from privol.cli.app import IO, OK, USAGE
from privol.encoding import PrivateEncoder
from privol.prefix import PrefixSum
from privol.rounds import Collector, Device
from privol.state import load_model, save_run
from privol.verifying import verdict, verify
from privol.wrapping import POCP

pytestmark = pytest.mark.process

N = 60


def check(run, name, place):
    """It holds, and a part in 100,000 less noise is caught."""
    findings = verify(run)
    assert [each for each in findings if not each.holds] == []
    assert verdict(findings) == "holds"

    def less(record):
        noise = record["mechanism"]
        for key in place[:-1]:
            noise = noise[key]
        old = noise[place[-1]]
        if place[-1] == "threshold":  # of 2^64: how probable the gradient's own side is
            noise["threshold"] += 2**64 // 10**5
        else:
            noise[place[-1]] = [x * (1 - 1e-5) for x in old] if isinstance(old, list) else old * (1 - 1e-5)

    change_run(run, less)
    assert f"{name}: noise" in caught(run)


# ---- a user's own algorithm ------------------------------------------------------------------------------------------

WRAPPED = {
    "a few": {"sensitivity": lambda t: 0.2, "release": 10},
    "all": {"sensitivity": 1.0},
    "as printed": {"sensitivity": 1.0, "noise_shape": "paper"},
    "far": {"sensitivity": 500.0, "release": [3, 7, 55], "radius": 2.0},  # no further than the ball is wide
    "last": {"sensitivity": 0.2, "release": "last", "adjacency": "zero_out", "noise_shape": "smooth"},
}


def mean_that_forgets(run, rows=N, **words):
    mean = POCP(lambda point, row: point + 0.1 * (row - point), np.zeros(2), horizon=N, epsilon=4.0, **words)
    mean.learn_many(np.random.default_rng(0).uniform(-0.5, 0.5, size=(rows, 2)))
    mean.close()
    save_run(mean, run)
    return run


@pytest.mark.parametrize("name", WRAPPED)
def test_iterates_of_a_users_own_algorithm(tmp_path, name):
    check(mean_that_forgets(tmp_path / "R", **WRAPPED[name]), "POCP", ("noise", "std"))


def test_iterates_of_a_run_that_ends_early(tmp_path):
    check(mean_that_forgets(tmp_path / "R", rows=25, **WRAPPED["a few"]), "POCP", ("noise", "std"))


PLANTED = {
    "a larger declaration": (lambda noise: noise.update(declared=[0.21] * 6), "POCP: noise"),
    "a release more": (lambda noise: [noise[key].append(noise[key][-1]) for key in noise], "POCP: rows of releases"),
    "a release beyond the horizon": (lambda noise: noise["rows"].__setitem__(-1, 61), "POCP: rows of releases"),
    "a release without noise": (lambda noise: noise["std"].pop(), "POCP"),
    "a negative declaration": (lambda noise: noise["declared"].__setitem__(0, -0.2), "POCP"),
}


@pytest.mark.parametrize("error", PLANTED)
def test_planted_errors_in_declared_iterates_are_caught(tmp_path, error):
    run, (change, where) = mean_that_forgets(tmp_path / "R", **WRAPPED["a few"]), PLANTED[error]
    change_run(run, lambda record: change(record["mechanism"]["noise"]))
    assert where in caught(run)


def test_a_wider_ball_is_caught(tmp_path):
    run = mean_that_forgets(tmp_path / "R", **WRAPPED["far"])
    change_run(run, lambda record: record["mechanism"].update(radius=2.1))
    assert {"POCP: noise", "POCP: parameters"} <= set(caught(run))


def test_without_noise_nothing_holds(tmp_path):
    sums = PrefixSum(dim=2, horizon=N, epsilon=math.inf)
    sums.add_block(np.zeros((N, 2)))
    sums.close()
    mean = POCP(lambda point, row: point, np.zeros(2), sensitivity=0.1, horizon=N, epsilon=math.inf)
    mean.learn_many(np.zeros((N, 2)))
    mean.close()
    for name, each in ("sums", sums), ("mean", mean):
        assert each.mechanism_ is None
        save_run(each, tmp_path / name)
        assert "bits" in caught(tmp_path / name)


# ---- an encoding alone -----------------------------------------------------------------------------------------------


def table(n=3000):
    rng = np.random.default_rng(0)
    return pandas.DataFrame({"a": rng.normal(size=n), "b": rng.choice(["x", "y"], n), "t": rng.choice(["u", "v"], n)})


@pytest.mark.parametrize("words", [{}, {"adjacency": "zero_out"}, {"epsilon": 0.3, "delta": 1e-8}], ids=str)
def test_an_encoding_alone(tmp_path, words):
    save_run(PrivateEncoder(**words).fit(table()), tmp_path / "R")
    assert sorted(path.name for path in (tmp_path / "R").glob("[a-z]*")) == ["ledger.jsonl", "run.json", "schema.toml"]
    check(tmp_path / "R", "PrivateEncoder", ("phases", 0, "std"))


def test_an_encoding_whose_schema_says_less_is_caught(tmp_path):
    save_run(PrivateEncoder().fit(table()), tmp_path / "R")
    path = tmp_path / "R" / "schema.toml"
    path.write_text(path.read_text().replace("\nmu = 0.2367", "\nmu = 0.1367"))
    assert list(caught(tmp_path / "R")) == ["mu of the encoding"]


def test_the_command_keeps_what_an_encoding_claims(tmp_path):
    table().to_csv(tmp_path / "rows.csv", index=False)
    words = ("info", str(tmp_path / "rows.csv"), "--target", "t", "--private", "--out", str(tmp_path / "R"))
    found = privol_cli(*words)
    assert found.exit_code == OK, found.stderr
    assert found.stdout.endswith((tmp_path / "R" / "schema.toml").read_text())
    found = privol_cli("verify", str(tmp_path / "R"))
    assert found.exit_code == OK, found.stdout


def test_the_command_looks_at_the_folder_before_anything_is_spent(tmp_path):
    table().to_csv(tmp_path / "rows.csv", index=False)
    (tmp_path / "R").mkdir()
    (tmp_path / "R" / "schema.toml").write_text("mine")
    journal = tmp_path / "ledger.jsonl"
    words = ("info", str(tmp_path / "rows.csv"), "--target", "t", "--private", "--ledger", str(journal), "--out")
    for folder, exit_code, text in (("R", IO, "exists"), ("none/R", IO, "is not a folder")):
        found = privol_cli(*words, str(tmp_path / folder))
        assert (found.exit_code, text in found.stderr) == (exit_code, True), found.stderr
    assert not journal.exists()
    assert (tmp_path / "R" / "schema.toml").read_text() == "mine"
    assert privol_cli(*words[:4], "--out", str(tmp_path / "S")).exit_code == USAGE


# ---- reports of devices ----------------------------------------------------------------------------------------------

REPORTS = {
    "LDPSGD": (LDPSGD, {"epsilon": 2.0}, {"epsilon": 2.0}),
    "LDPSGD, gaussian": (
        LDPSGD,
        {"epsilon": 2.0, "delta": 1e-6, "randomizer": "gaussian"},
        {"epsilon": 2.0, "delta": 1e-6},
    ),
    "MIOGD": (MIOGD, {"leakage": 0.1}, {"leakage": 0.1}),
    "BANCO": (BANCO, {"epsilon": 1.0, "randomizer": "laplace"}, {"epsilon": 1.0}),
    "AgnosticBANCO": (AgnosticBANCO, {"epsilon": 2.0}, {"epsilon": 2.0}),
    "MultiscaleSGD": (MultiscaleSGD, {"epsilon": 2.0}, {"epsilon": 2.0}),
}


@pytest.mark.parametrize("name", REPORTS)
def test_learners_that_devices_have_answered(tmp_path, name):
    kind, words, limits = REPORTS[name]
    learner = kind(horizon=N, **words).declare_classes([0, 1])
    collector, device = Collector(learner, 3), Device(n_features=3, reports=N, **limits)
    rng = np.random.default_rng(0)
    while not collector.done:
        collector.tell(device.answer(collector.ask(), rng.uniform(-0.5, 0.5, 3), 1))
    learner.close()
    save_run(learner, tmp_path / "R")
    assert load_model(tmp_path / "R").coef_.tobytes() == learner.coef_.tobytes()
    check(tmp_path / "R", kind.__name__, ("noise", "scale" if learner.plan_.report.cap is None else "threshold"))
