"""The independent check of a selection's guarantee: real ones pass, planted errors are caught."""

from __future__ import annotations

import json

import numpy as np
import pytest
from forged import _pulls_are_remembered, caught, change_ledger, change_run, planted  # noqa: F401

from privol import DOLA, DPFTRL, LDPSGD, PIGD, POL, MultiscaleSGD, ObjectivePerturbation, OutputPerturbation
from privol.guarantees import selection_epsilon, selection_mu
from privol.ledger import Ledger
from privol.state import load_model, save_run
from privol.tuning import PrivateSelection, repetitions_of
from privol.verifying import verdict, verify
from privol.verifying.mechanisms import NotChecked, mechanism_of

N = 600
rng = np.random.default_rng(0)
X = rng.uniform(-0.5, 0.5, (N, 3))
SCORES = X @ [1.0, 2.0, -1.0]
Y = np.where(SCORES > 0, "ill", "well")

PURE = (OutputPerturbation(delta=0.0), ObjectivePerturbation(delta=0.0, l2=1.0), POL(delta=0.0), MultiscaleSGD())
GAUSSIAN = (
    DPFTRL(radius=5.0),
    PIGD(radius=5.0, release="last", horizon=2 * N),
    OutputPerturbation(delta=1e-5),
    LDPSGD(randomizer="gaussian"),
    ObjectivePerturbation(delta=0.0),
    DOLA(radius=2.0),
)
SELECTIONS = {
    "pure": (PURE, {}),
    "pure of users": (PURE, {"rows_per_user": 3, "epsilon": 3.0}),
    "pure zero_out": (PURE[:2], {"adjacency": "zero_out"}),
    "gaussian": (GAUSSIAN, {"delta": 1e-6}),
    "gaussian of users": (GAUSSIAN, {"delta": 1e-6, "rows_per_user": 3}),
    "gaussian zero_out": (GAUSSIAN[:2], {"delta": 1e-8, "adjacency": "zero_out", "repetitions": 40.0}),
    "regression": ((OutputPerturbation(delta=0.0, loss="huber"),), {"validation": 0.5, "error_bound": 2.0}),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("selections")


def made(folder, name):
    run = folder / name.replace(" ", "_")
    if not run.exists():
        candidates, words = SELECTIONS[name]
        of_targets = name == "regression"
        save_run(PrivateSelection(candidates, **words).fit(X, SCORES.clip(-1, 1) if of_targets else Y), run)
    return run


@pytest.mark.parametrize("name", SELECTIONS)
def test_selections_hold(folder, name):
    findings = verify(made(folder, name))
    assert [each for each in findings if not each.holds] == []
    assert verdict(findings) == "holds"


@pytest.mark.parametrize("name", SELECTIONS)
def test_less_noise_on_scores_is_caught(folder, name):
    """Also where a fit costs as much as a score: the dearer of the two counts."""
    with planted(made(folder, name), folder) as copy:
        change_run(copy, lambda record: less(record["mechanism"]["noise"]))
        assert "PrivateSelection: noise" in caught(copy)


@pytest.mark.parametrize("name", ["pure", "gaussian"])
def test_less_noise_of_any_fit_is_caught(folder, name):
    for fit in range(len(SELECTIONS[name][0])):
        with planted(made(folder, name), folder) as copy:
            change_run(copy, lambda record, fit=fit: less(record["mechanism"]["fits"][fit]["noise"]))
            assert "PrivateSelection: noise" in caught(copy), SELECTIONS[name][0][fit]


def less(noise, share=1 - 1e-5):
    if noise.get("law") == "cap":
        noise["threshold"] = 2**64 - int((2**64 - noise["threshold"]) * share)
    for key in {"sigma", "scale", "std", "gain", "first_std", "last_std", "final_scale"} & set(noise):
        noise[key] *= share


def of_fit(key, value):
    return lambda record: record["mechanism"]["fits"][0].update({key: value(record["mechanism"]["fits"][0][key])})


def of_all(key, value):
    return lambda record: record["mechanism"].update({key: value(record["mechanism"][key])})


def of_candidate(record):
    """The fit itself is sound, but not the one that the parameters ask for."""
    record["parameters"]["candidates"][1]["x_bound"] = 2.0


PLANTED = {
    "fewer fits than the law has": ("gaussian", of_all("m", lambda m: m - 1), "PrivateSelection: fits"),
    "another law than the parameters'": (
        "gaussian",
        of_all("repetitions", lambda x: x / 2),
        "PrivateSelection: parameters",
    ),
    "rows that are fitted and scored": ("pure", of_all("fitted_rows", lambda n: n + 1), "PrivateSelection: rows"),
    "a fit of fewer rows": ("pure", of_fit("rows", lambda n: n - 1), "PrivateSelection: rows"),
    "one fit alone": ("pure", of_all("m", lambda _: 1), "PrivateSelection: fits"),
    "one fit of a law that has more": ("gaussian", of_all("m", lambda _: 1), "PrivateSelection"),
    "scores that move further": ("pure", of_all("score_bound", lambda n: n + 20), "PrivateSelection: noise"),
    "a larger delta than is stated": ("gaussian", of_all("delta", lambda x: 1.001 * x), "PrivateSelection: noise"),
    "a smaller delta at this epsilon": ("gaussian", of_all("delta", lambda x: 0.999 * x), "PrivateSelection: noise"),
    "longer rows in a fit": ("gaussian", of_fit("x_bound", lambda x: 2 * x), "PrivateSelection"),
    "another relation in a fit": ("gaussian", of_fit("adjacency", lambda _: "zero_out"), "PrivateSelection"),
    "a stated epsilon that is smaller": ("pure", lambda r: r["guarantee"].update(parameter=0.999), "PrivateSelection"),
    "a delta that is dropped": ("gaussian", lambda r: r["guarantee"].update(slack=5e-7), "PrivateSelection"),
    "a candidate that is not recorded": ("pure", lambda r: r["mechanism"]["fits"].pop(), "PrivateSelection"),
    "longer rows than a candidate's": ("pure", of_candidate, "PrivateSelection: parameters"),
    "a printed epsilon": (
        "gaussian",
        lambda r: r.update(summary=r["summary"].replace("epsilon 1 ", "epsilon 0.99 ")),
        "summary",
    ),
}


@pytest.mark.parametrize("error", PLANTED)
def test_planted_errors_are_caught(folder, error):
    name, change, where = PLANTED[error]
    with planted(made(folder, name), folder) as copy:
        change_run(copy, change)
        assert where in caught(copy)


def test_a_gaussian_fit_in_a_pure_selection_is_caught(folder):
    """Its mu would pass for an epsilon."""
    fit = json.loads((made(folder, "gaussian") / "run.json").read_text())["mechanism"]["fits"][2]
    with planted(made(folder, "pure"), folder) as copy:
        change_run(copy, lambda record: record["mechanism"]["fits"].__setitem__(0, fit))
        assert "PrivateSelection" in caught(copy)


def test_a_charge_that_is_too_small_is_caught(folder):
    def cheaper(entries):
        return [{**e, "mu_squared": 0.5 * e["mu_squared"]} if "mu_squared" in e else e for e in entries]

    with planted(made(folder, "pure"), folder) as copy:
        change_ledger(copy, cheaper)
        assert "PrivateSelection: ledger" in caught(copy)


@pytest.mark.parametrize("delta", [1e-5, 1e-12])
@pytest.mark.parametrize("mean", [1.5, 20.0, 1e5])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0])
def test_the_price_is_that_of_the_proof(epsilon, mean, delta):
    """privol's own figure is in doubles, and is rounded up by at most its margin; the one here is in intervals."""
    m = repetitions_of(mean)
    mu = selection_mu(epsilon, delta, m)
    record = {
        "kind": "selection",
        "adjacency": "replace",
        "rows": 10,
        "fitted_rows": 8,
        "scored_rows": 2,
        "repetitions": mean,
        "m": m,
        "delta": delta,
        "score_bound": 1,
        "noise": {"law": "gaussian", "scale": 1 / mu},
        "fits": [],
    }
    fit = {"kind": "gradients", "adjacency": "replace", "rows": 8, "rows_of_step": 1, "dimension": 1, "cut": True}
    record["fits"] = [fit | {"gradient_bound": 1e-9, "noise": {"sigma": 1.0}}]
    found = mechanism_of(record)
    own = selection_epsilon(mu, delta, m)
    price = float(found.price(1, 1).b)
    assert own * (1 - 1e-6) <= price <= own * (1 + 1e-15)
    assert float(found.slack(1)) == float(found.slack(7)) == delta
    assert float(found.price(2, 1).b) == pytest.approx(selection_epsilon(2 * mu, delta, m), rel=1e-6)
    facts = {what: holds for what, holds, _ in found.facts}
    assert facts == {"rows": True, "fits": True}


def test_selections_of_a_shared_ledger_add_up(tmp_path):
    ledger = Ledger(epsilon=3.0, delta=1e-6, journal=tmp_path / "budget.jsonl")
    for name in ("A", "B"):
        words = {"epsilon": 1.0, "ledger": ledger}
        save_run(PrivateSelection([OutputPerturbation(delta=0.0)], **words).fit(X, Y), tmp_path / name)
    ledger.close()
    findings = verify(tmp_path / "A", tmp_path / "B", ledger=tmp_path / "budget.jsonl")
    assert verdict(findings) == "holds"
    assert "epsilon 2" in next(each.detail for each in findings if each.what == "all together")


def test_the_saved_model_is_the_chosen_one(folder, tmp_path):
    chosen = PrivateSelection(PURE, epsilon=8.0).fit(X, Y)
    save_run(chosen, tmp_path / "R")
    loaded = load_model(tmp_path / "R")
    np.testing.assert_array_equal(loaded.predict(X), chosen.predict(X))
    assert loaded.guarantee_ == chosen.guarantee_
    record = json.loads((tmp_path / "R" / "run.json").read_text())
    assert (record["learner"], record["rows"], record["releases"]) == ("PrivateSelection", N, 1)
    assert [each["learner"] for each in record["parameters"]["candidates"]] == [type(each).__name__ for each in PURE]
    # which candidates were fitted, and how many, is secret: the record has all of them, by public numbers
    assert record["mechanism"] == PrivateSelection(PURE, epsilon=8.0, random_state=1).fit(X[::-1], Y).mechanism_


def test_noise_of_another_law_is_not_checked_as_this_one():
    with pytest.raises(KeyError, match="laplace"):
        mechanism_of({"kind": "selection", "adjacency": "replace", "noise": {"law": "laplace"}, "m": 2, "fits": [],
                      "scored_rows": 1})  # fmt: skip
    with pytest.raises(NotChecked, match="a mechanism of kind 'choice'"):
        mechanism_of({"kind": "choice", "adjacency": "replace"})
