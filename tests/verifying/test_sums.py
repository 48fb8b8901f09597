"""The independent check of prefix sums: real ones hold in every design, and planted errors are caught."""

from __future__ import annotations

import json

import numpy as np
import pytest
from forged import caught, change_run

from privol.prefix import PrefixSum, SymmetricSum
from privol.state import save_run
from privol.verifying import verdict, verify

pytestmark = pytest.mark.process

X = np.random.default_rng(0).normal(size=(300, 3))
DESIGNS = ("blt", "tree", "honaker", "smooth", "sqrt", "banded", "independent")
WORDS = {
    "plain": {},
    "zero_out, steps": {"adjacency": "zero_out", "leaf": 3},
    "users": {"rows_per_user": 3, "user_separation": 40},
    "epochs": {"horizon": None, "first_epoch": 64},
    "a bound": {"bound": 0.3},
}
OTHERS = {
    "matrices": (SymmetricSum, {}),
    "gram": (SymmetricSum, {"gram": True, "bound": 0.5}),
    "gram, zero_out": (SymmetricSum, {"gram": True, "adjacency": "zero_out", "design": "tree"}),
    "discount": (PrefixSum, {"discount": 0.99, "design": "sqrt", "leaf": 2}),
    "window": (PrefixSum, {"window": 50, "design": "sqrt"}),
    "published": (PrefixSum, {"calibration": "published", "design": "tree"}),
}


def made(kind, run, **words):
    words = {"dim": 3, "horizon": len(X), **words}
    sums = kind(**words)
    sums.add_block(X if kind is PrefixSum or words.get("gram") else np.einsum("ni,nj->nij", X, X))
    sums.close()
    save_run(sums, run)
    return run


def less(record):
    mechanism = record["mechanism"]
    noise = mechanism["noise"] if "noise" in mechanism else mechanism["epochs"][0]["noise"]
    noise["sigma"] *= 1 - 1e-5


def check(run, name):
    findings = verify(run)
    assert [each for each in findings if not each.holds] == []
    assert verdict(findings) == "holds"
    change_run(run, less)
    assert f"{name}: noise" in caught(run)


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize("design", DESIGNS)
def test_real_sums_hold_and_less_noise_does_not(tmp_path, design, words):
    band = {"bandwidth": 20} if design == "banded" else {}
    check(made(PrefixSum, tmp_path / "R", design=design, **band, **WORDS[words]), "PrefixSum")


@pytest.mark.parametrize("name", OTHERS)
def test_sums_of_matrices_and_sums_that_forget(tmp_path, name):
    kind, words = OTHERS[name]
    check(made(kind, tmp_path / "R", **words), kind.__name__)


PLANTED = {
    "a smaller bound": (lambda record: record["mechanism"].update(bound=0.5), "PrefixSum: parameters"),
    "a smaller bound in both": (
        lambda record: [record[key].update(bound=1.01) for key in ("mechanism", "parameters")],
        "PrefixSum: noise",
    ),
    "a product of rows": (lambda record: record["mechanism"].update(power=2), "PrefixSum: parameters"),
    "a power that there is not": (
        lambda record: [record[key].update(power=3) for key in ("mechanism", "parameters")],
        "PrefixSum",
    ),
    "a sentence": (
        lambda record: record.update(sentence=record["sentence"].replace("(1, 1e-6)", "(0.1, 1e-6)")),
        "sentence",
    ),
    "a printed epsilon": (
        lambda record: record.update(summary=record["summary"].replace("epsilon 1 ", "epsilon 0.9 ")),
        "summary",
    ),
}


@pytest.mark.parametrize("error", PLANTED)
def test_planted_errors_are_caught(tmp_path, error):
    run = made(PrefixSum, tmp_path / "R")
    change, where = PLANTED[error]
    change_run(run, change)
    assert where in caught(run)


def test_the_directory_has_no_model(tmp_path):
    run = made(PrefixSum, tmp_path / "R")
    assert not list(run.glob("model.*"))
    assert json.loads((run / "run.json").read_text())["mechanism"]["kind"] == "sums of vectors"
