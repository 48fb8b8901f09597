"""Model cards: what a reader needs, from public values alone."""

from __future__ import annotations

import json
import math

import auto_tools
import numpy as np
import pytest
from cli_tools import privol_cli
from conformance import LEARNERS, OFFLINE, X, Y
from jsonschema import Draft202012Validator

import privol
from privol import PrivateClassifier, PrivateRegressor
from privol.encoding.schema import Schema
from privol.errors import InvalidParameter, StateError
from privol.exporting import guarantee_schema, model_card
from privol.guarantees import Guarantee
from privol.ledger import Ledger
from privol.losses import get_loss
from privol.state import load_model, save_model

KEYS = {
    "format", "version", "description", "model", "guarantee", "warnings", "not_covered", "parameters", "encoding",
    "rows", "releases", "versions",
}  # fmt: skip


def checked(model):
    """The card, as its reader gets it."""
    card = json.loads(json.dumps(model_card(model), allow_nan=False))
    assert card.keys() == KEYS
    Draft202012Validator(guarantee_schema()).validate(card["guarantee"]["record"])
    assert card["guarantee"]["schema"] == guarantee_schema()["$id"]
    return card


@pytest.mark.parametrize("name", [*LEARNERS, *OFFLINE])
def test_every_learner(name, tmp_path):
    kind, words = {**LEARNERS, **OFFLINE}[name]
    learner = kind(**words)
    learner.fit(X, Y / 2.0 if get_loss(learner.loss).kind == "regression" else Y)
    card = checked(learner)
    assert card["model"]["learner"] == kind.__name__
    assert card["model"]["classes"] == (None if card["model"]["task"] == "regression" else [0, 1])
    assert card["guarantee"]["sentence"] == learner.guarantee_.sentence()
    for name, figure in (("epsilon", learner.guarantee_.epsilon()), ("mu", learner.guarantee_.mu)):
        assert float(card["guarantee"][name]) == figure  # no digit is lost
    assert card["guarantee"]["delta"] == learner.guarantee_.delta
    assert Guarantee.from_record(card["guarantee"]["record"]) == learner.guarantee_
    assert (card["rows"], card["releases"]) == (learner.n_rows_, learner.n_releases_)
    assert card["encoding"] is None
    assert card["model"]["n_features"] == 4
    save_model(learner, tmp_path / "model")
    assert model_card(tmp_path / "model") == model_card(load_model(tmp_path / "model")) == model_card(learner)


@pytest.mark.parametrize("regression", [False, True])
def test_estimators(regression):
    table = auto_tools.table(3000)
    model = PrivateRegressor(epsilon=20.0, target_range=(0.0, 300.0)) if regression else PrivateClassifier(epsilon=20.0)
    model.fit(table, auto_tools.numbers_of(table) if regression else auto_tools.labels_of(table))
    card = checked(model)
    assert card["model"]["estimator"] == type(model).__name__
    assert card["model"]["columns"] == ["age", "town", "dose"]
    assert Schema.from_record(card["encoding"]) == model.schema_
    assert card["guarantee"]["epsilon"] <= 20.0
    assert card["rows"] == 3000
    assert card["parameters"]["estimator"]["epsilon"] == 20.0
    said = "predicts a real number" if regression else "2 classes apart (ill, well)"
    assert said in card["description"]
    assert any("above 10" in words for words in card["warnings"])


def keys_in(value):
    if isinstance(value, dict):
        for key, own in value.items():
            yield key
            yield from keys_in(own)
    elif isinstance(value, list):
        for own in value:
            yield from keys_in(own)


def test_nothing_that_is_not_private():
    """A null row, a row beyond the bound and a seed leave no trace on the card."""
    rows, seed = X.copy(), 987654321
    words = {"ledger": Ledger(), "random_state": seed, "on_invalid": "zero"}
    plain = privol.DPFTRL(**words).fit(rows, Y)
    rows[3], rows[5] = np.nan, 1e9
    card, other = checked(privol.DPFTRL(**words).fit(rows, Y)), checked(plain)
    assert card == other
    assert str(seed) not in json.dumps(card)
    table = auto_tools.table(3000)
    found = checked(PrivateClassifier(epsilon=20.0, random_state=seed).fit(table, auto_tools.labels_of(table)))
    assert str(seed) not in json.dumps(found)
    unwanted = {"ledger", "random_state", "diagnostics", "metrics", "accuracy", "null_rows", "scaled_rows", "dropped"}
    assert not unwanted & {*keys_in(card), *keys_in(found)}


def test_what_is_not_covered():
    def first(model):
        return checked(model)["not_covered"][0]

    assert "without noise" in first(privol.PIGD(epsilon=math.inf).fit(X, Y))
    assert "a seed that somebody may know" in first(privol.PIGD(random_state=1).fit(X, Y))
    assert first(privol.PIGD().fit(X, Y)).startswith("Several rows of one person")
    with_users = privol.DPFTRL(rows_per_user=2).fit(X, Y)
    assert first(with_users) == "Whose row each row is."
    replaced = privol.DPFTRL(rows_per_user=2, on_invalid="zero").fit(X, Y, users=np.arange(len(X)))
    assert first(replaced) == "How many rows there are."
    always = checked(replaced)["not_covered"]
    assert len(always) == 6
    assert always[1].startswith("What other runs on the same rows release")
    assert checked(privol.PIGD(random_state=1).fit(X, Y))["guarantee"]["private"] is False
    assert checked(privol.PIGD(epsilon=math.inf).fit(X, Y))["guarantee"]["private"] is False
    assert checked(privol.PIGD(epsilon=math.inf).fit(X, Y))["guarantee"]["epsilon"] == "inf"


def test_the_command(tmp_path):
    table = auto_tools.table(3000)
    table.assign(y=auto_tools.labels_of(table)).to_csv(tmp_path / "rows.csv", index=False)
    run = str(tmp_path / "run")
    privol_cli("run", str(tmp_path / "rows.csv"), "--target", "y", "--epsilon", "20", "--out", run)
    card = json.loads(privol_cli("card", run).stdout)
    assert card == checked(run)
    assert card["model"]["columns"] == ["age", "town", "dose"]
    failed = privol_cli("card", tmp_path)
    assert failed.exit_code != 0
    assert "privol: error:" in failed.stderr


def test_refusals(tmp_path):
    with pytest.raises(InvalidParameter, match="found dict"):
        model_card({})
    with pytest.raises(StateError, match="no saved model"):
        model_card(tmp_path)
