"""Runs of MLflow: what is public of a model, read back from a store of files, and nothing that is not private."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import auto_tools
import mlflow
import numpy as np
import pandas
import pytest
from cli_tools import privol_cli
from conformance import X, Y
from mlflow import MlflowClient
from sklearn.exceptions import NotFittedError

import privol
from privol import PrivateClassifier
from privol.errors import InvalidParameter, StateError
from privol.exporting import log_run, model_card
from privol.guarantees import Guarantee
from privol.ledger import Ledger
from privol.state import load_model

FILES = {"guarantee.json", "model_card.json", "model/model.json", "model/model.npz"}


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A store of files of its own, and no run that is active."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # MLflow prefers databases, which its small library lacks
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri((tmp_path / "store").as_uri())
    yield tmp_path / "store"
    mlflow.end_run()
    mlflow.set_tracking_uri(before)


def logged(model):
    with mlflow.start_run() as run:
        assert log_run(model) == run.info.run_id
    data = MlflowClient().get_run(run.info.run_id).data
    folder = Path(mlflow.artifacts.download_artifacts(run_id=run.info.run_id))
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert files == FILES
    assert data.metrics == {}
    return data, folder


def everything(store):
    return b"\n".join(path.read_bytes() for path in store.rglob("*") if path.is_file())


def test_a_learner(store):
    learner = privol.DPFTRL(epsilon=2.0, ledger=Ledger()).fit(X, Y)
    data, folder = logged(learner)
    again = load_model(folder / "model")
    assert again.predict(X).tolist() == learner.predict(X).tolist()
    assert Guarantee.from_json((folder / "guarantee.json").read_text("utf-8")) == learner.guarantee_
    assert json.loads((folder / "model_card.json").read_text("utf-8")) == json.loads(json.dumps(model_card(learner)))
    promise = learner.guarantee_
    figures = {f"guarantee.{name}": getattr(promise, name) for name in ("delta", "mu", "adjacency", "unit", "kind")}
    figures["guarantee.epsilon"] = promise.epsilon()
    assert {name: data.params[name] for name in figures} == {name: str(value) for name, value in figures.items()}
    assert data.params["learner.epsilon"] == "2.0"
    assert data.tags["privol.guarantee"] == learner.guarantee_.summary()
    assert data.tags["privol.private"] == "true"
    assert not any("ledger" in name or "random_state" in name for name in data.params)


def test_an_estimator(store):
    table, seed = auto_tools.table(3000), 987654321
    model = PrivateClassifier(epsilon=20.0, random_state=seed).fit(table, auto_tools.labels_of(table))
    data, folder = logged(model)
    assert load_model(folder / "model").predict(table).tolist() == model.predict(table).tolist()
    assert (data.params["model.estimator"], data.params["estimator.epsilon"]) == ("PrivateClassifier", "20.0")
    assert data.tags["privol.private"] == "false"
    assert str(seed).encode() not in everything(store)


def test_the_directory_of_a_run_leaves_without_its_diagnostics(store, tmp_path):
    table = auto_tools.table(3000)
    table.assign(y=auto_tools.labels_of(table)).to_csv(tmp_path / "rows.csv", index=False)
    words = ["--target", "y", "--epsilon", "20", "--out", str(tmp_path / "run")]
    privol_cli("run", str(tmp_path / "rows.csv"), *words)
    unwanted = [b"accuracy", b"diagnostics", b"log_loss"]
    assert all(word in (tmp_path / "run" / "run.json").read_bytes() + (tmp_path / "run" / "metrics.json").read_bytes()
               for word in unwanted[:2])  # fmt: skip
    _, folder = logged(tmp_path / "run")
    for name in ("model.json", "model.npz"):
        assert (folder / "model" / name).read_bytes() == (tmp_path / "run" / name).read_bytes()
    found = everything(store)
    # the guarantee itself says that they are not covered
    found = found.replace(b"progressive accuracy or any other diagnostic", b"").replace(
        b"Metrics, diagnostics and", b""
    )
    assert not [word for word in unwanted if word in found]


def test_null_rows_and_long_rows_leave_no_trace(store):
    """What is logged is the same whether rows were null or scaled, but for noise: with a fixed one all of it."""
    rows = X.copy()
    rows[3], rows[5] = np.nan, 1e9
    words = {"random_state": 3, "on_invalid": "zero"}
    first, _ = logged(privol.DPFTRL(**words).fit(X, Y))
    second, _ = logged(privol.DPFTRL(**words).fit(rows, Y))
    assert first.params == second.params
    ours = [{name: value for name, value in data.tags.items() if name.startswith("privol")} for data in (first, second)]
    assert ours[0] == ours[1]


def test_values_that_are_too_long_are_on_the_card_alone(store):
    wide = pandas.DataFrame(np.tile(X, 10) / 10, columns=[f"number {j}" for j in range(10 * X.shape[1])])
    data, folder = logged(privol.PIGD().fit(wide, Y))
    assert "model.columns" not in data.params
    assert json.loads((folder / "model_card.json").read_text("utf-8"))["model"]["columns"] == list(wide)


def test_without_an_active_run_one_is_started(store):
    learner = privol.PIGD().fit(X, Y)
    run_id = log_run(learner)
    assert mlflow.active_run().info.run_id == run_id
    mlflow.end_run()


def test_refusals(store, tmp_path, monkeypatch):
    with pytest.raises(InvalidParameter, match="found int"):
        log_run(3)
    with pytest.raises(NotFittedError):
        log_run(privol.PIGD())
    with pytest.raises(StateError, match="no saved model"):
        log_run(tmp_path)
    assert mlflow.active_run() is None  # nothing was begun
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(InvalidParameter, match=r"pip install 'privol\[mlflow\]'"):
        log_run(privol.PIGD().fit(X, Y))
