"""What Python's runs claim, saved for ``privol verify``: every learner holds, and with less noise does not."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import privol
from privol import DPFTRL, NOGD, PGIGA, PIGD, PrivateClassifier, PrivateRegressor
from privol.errors import StateError
from privol.geometry import Box, L1Ball, Simplex
from privol.ledger import Ledger
from privol.state import load_model, save_model, save_run
from privol.verifying import verdict, verify

N = 3000
RNG = np.random.default_rng(5)
X = RNG.uniform(-1.0, 1.0, size=(N, 3)) / 2
SCORE = X @ [2.0, -1.0, 0.5]
LABELS, NUMBERS = (SCORE > 0).astype(int), np.clip(SCORE, -1.0, 1.0)
TABLE = pd.DataFrame(X, columns=["a", "b", "c"]).assign(town=RNG.choice(["Oslo", "Bergen"], N))
MODELS = {
    "AdaptiveFTRL": ({}, "sigma"),
    "DPFTRL": ({"design": "tree"}, "sigma"),
    "NOGD": ({"rows_per_user": 3}, "sigma"),
    "PQFTL": ({"release": 100}, "sigma"),
    "PIGD": ({"release": 100}, "gain"),
    "PGIGA": ({"release": "last", "adjacency": "zero_out"}, "gain"),
    "MIOGD": ({}, "scale"),
    "BanditMIOGD": ({}, "scale"),
    "LDPSGD": ({}, "threshold"),
    "BANCO": ({}, "threshold"),
    "AgnosticBANCO": ({}, "scale"),
    "MultiscaleSGD": ({}, "threshold"),
    "DOLA": ({"nodes": 3}, "scale"),
    "SparseDOLA": ({"nodes": 3}, "scale"),
    "POL": ({}, "scale"),
    "OutputPerturbation": ({"rows_per_user": 2}, "scale"),
    "ObjectivePerturbation": ({"delta": 0.0}, "scale"),
}


def learnt(name, **words):
    own, _ = MODELS[name]
    model = getattr(privol, name)(epsilon=1.0, x_bound=1.0, **own, **words)
    return model.fit(X, NUMBERS if model.loss == "squared" else LABELS)


def scaled(record, key, factor):
    """Scale the noise, wherever it is in a record."""
    if isinstance(record, dict):
        for name, value in record.items():
            if name == key:
                record[name] = value * factor
            else:
                scaled(value, key, factor)
    elif isinstance(record, list):
        for each in record:
            scaled(each, key, factor)


@pytest.mark.parametrize("name", MODELS)
def test_every_learner_holds_and_two_thirds_of_its_noise_do_not(name, tmp_path):
    save_run(learnt(name), tmp_path / "R")
    assert verdict(verify(tmp_path / "R")) == "holds"
    assert load_model(tmp_path / "R").n_rows_ == N
    path = tmp_path / "R" / "run.json"
    record = json.loads(path.read_text())
    _, key = MODELS[name]
    scaled(record["mechanism"]["noise"], key, 1.5 if key == "threshold" else 2 / 3)  # of the report that is kept
    path.write_text(json.dumps(record))
    assert verdict(verify(tmp_path / "R")) == "does not hold"


SETS = {"l1": L1Ball(1.5), "simplex": Simplex(2.0), "box": Box(-0.5, [1.0, 0.25, 2.0, 1.0])}


@pytest.mark.parametrize("release", ["last", 1])
@pytest.mark.parametrize("kind", [PIGD, PGIGA])
@pytest.mark.parametrize("name", SETS)
def test_sets_other_than_the_ball(name, kind, release, tmp_path):
    """Also models after the first rows, which the width of the set bounds."""
    model = kind(epsilon=1.0, x_bound=1.0, domain=SETS[name], release=release, l2=1e-4).fit(X, LABELS)
    save_run(model, tmp_path / "R")
    assert verdict(verify(tmp_path / "R")) == "holds"
    path = tmp_path / "R" / "run.json"
    record = json.loads(path.read_text())
    for change in ("gain", "first_std", "last_std"):
        scaled(record["mechanism"]["noise"], change, 1 - 1e-5)
    path.write_text(json.dumps(record))
    assert verdict(verify(tmp_path / "R")) == "does not hold"


@pytest.mark.parametrize("words", [{}, {"epsilon": 12.0, "reuse_rows": True}, {"rows_per_user": 3, "epsilon": 40.0}])
@pytest.mark.parametrize(("kind", "y"), [(PrivateClassifier, LABELS), (PrivateRegressor, NUMBERS)])
def test_estimators_with_their_encoding(kind, y, words, tmp_path):
    model = kind(**{"epsilon": 20.0, **words}).fit(TABLE, y)
    save_run(model, tmp_path / "R")
    assert verdict(verify(tmp_path / "R")) == "holds"
    record = json.loads((tmp_path / "R" / "run.json").read_text())
    assert record["sentence"] == model.guarantee_.sentence()
    scaled(record["encoding"]["mechanism"], "std", 2 / 3)
    (tmp_path / "R" / "run.json").write_text(json.dumps(record))
    assert verdict(verify(tmp_path / "R")) == "does not hold"


def test_a_shared_ledger_gives_the_accounts_of_the_run_alone(tmp_path):
    ledger = Ledger(epsilon=3.0, delta=1e-5)
    first, second = (DPFTRL(epsilon=e, radius=1.0, x_bound=1.0, ledger=ledger).fit(X, LABELS) for e in (1.0, 0.5))
    for name, model in (("A", first), ("B", second)):
        save_run(model, tmp_path / name)
        (entry,) = Ledger.read(tmp_path / name / "ledger.jsonl").entries()
        assert entry.plan_id == model._run.account.plan_id
        assert verdict(verify(tmp_path / name)) == "holds"
    assert verdict(verify(tmp_path / "A", tmp_path / "B")) == "holds"


def test_what_has_no_run_or_goes_on_is_refused(tmp_path):
    model = NOGD(epsilon=1.0, x_bound=1.0, horizon=N, release=10)
    model.partial_fit(X[:100], LABELS[:100], classes=[0, 1])
    with pytest.raises(StateError, match="the run goes on"):
        save_run(model, tmp_path / "R")
    assert not (tmp_path / "R").exists()
    save_run(model.close(), tmp_path / "R")
    assert verdict(verify(tmp_path / "R")) == "holds"
    with pytest.raises(FileExistsError, match=r"run\.json"):
        save_run(model, tmp_path / "R")
    with pytest.raises(StateError, match="no run of this process"):
        save_run(load_model(tmp_path / "R"), tmp_path / "again")
    seeded = PIGD(epsilon=1.0, x_bound=1.0, random_state=1).fit(X, LABELS)
    save_model(seeded, tmp_path / "S")
    with pytest.raises(FileExistsError):
        save_run(seeded, tmp_path / "S")
    save_run(seeded, tmp_path / "T")
    assert verdict(verify(tmp_path / "T")) == "does not hold"  # whoever has the seed can take off the noise
