"""Estimators on the disk: released and saved values, and runs of both phases that outlive their process."""

from __future__ import annotations

import json
import os
import signal
import sys

import numpy as np
import pytest
import scipy.sparse as sp
import warm
from auto_tools import labels_of, numbers_of, table
from cli_tools import privol_cli
from sklearn.exceptions import NotFittedError

from privol import PrivateClassifier, PrivateRegressor
from privol.auto import kept
from privol.errors import InvalidParameter, StateError
from privol.ledger import Ledger
from privol.state import State, load_model, read_record, save_model
from privol.state._checkpoints import Checkpoints

N = 1500
X = table(N)
LABELS, NUMBERS = labels_of(X), numbers_of(X)
WORDS = sp.csr_array((np.random.default_rng(0).random((N, 40)) < 0.1).astype(float))
FITS = {
    "labels": lambda: PrivateClassifier(epsilon=30.0, random_state=0).fit(X, LABELS),
    "three labels": lambda: PrivateClassifier(epsilon=30.0).fit(X, np.digitize(NUMBERS, [110.0, 130.0])),
    "reversed labels": lambda: PrivateClassifier(epsilon=30.0, classes=["well", "ill"]).fit(X, LABELS),
    "objects": lambda: PrivateClassifier(epsilon=np.inf, drop=["x1"]).fit(X.to_numpy(object), LABELS.astype(object)),
    "of a stream": lambda: PrivateClassifier(epsilon=1.5).fit_stream(X.assign(y=LABELS), target="y"),
    "sparse": lambda: PrivateClassifier(epsilon=30.0, classes=[0, 1]).fit(WORDS, WORDS[:, [0]].toarray()[:, 0] > 0),
    "numbers": lambda: PrivateRegressor(epsilon=30.0, target_range=(50, 200)).fit(X, NUMBERS),
    "one model": lambda: PrivateRegressor(epsilon=3.0, releases="last", ledger=Ledger()).fit(X, NUMBERS),
    "one model of few rows": lambda: PrivateClassifier(epsilon=0.6, random_state=0, releases="last").fit(X, LABELS),
}


@pytest.mark.parametrize("name", FITS)
def test_what_is_released_is_saved_and_loaded(name, tmp_path):
    model = FITS[name]()
    save_model(model, tmp_path / "M")
    again = load_model(tmp_path / "M")
    rows = {"sparse": WORDS, "objects": X.to_numpy(object)}.get(name, X)
    assert type(again) is type(model)
    assert np.array_equal(again.predict(rows), model.predict(rows))
    assert again.predict(rows).dtype == model.predict(rows).dtype
    for attribute in ("schema_", "guarantee_", "n_rows_", "n_releases_", "n_features_in_"):
        assert getattr(again, attribute) == getattr(model, attribute), attribute
    if isinstance(model, PrivateClassifier):
        assert again.classes_.tolist() == model.classes_.tolist()
        assert np.array_equal(again.predict_proba(rows), model.predict_proba(rows))
    own = {**model.get_params(), "ledger": None, "random_state": None}
    assert json.dumps(kept._plain(again.get_params())) == json.dumps(kept._plain(own))
    record = read_record(tmp_path / "M")
    assert not {"random_state", "ledger"} & {*record["parameters"], *record["inputs"]["estimator"]["parameters"]}
    assert "clipped_rows" not in json.dumps(record)
    with pytest.raises(NotFittedError, match="no ledger"):
        _ = again.ledger_
    with pytest.raises(StateError, match="is over or continues elsewhere"):
        again.set_params(horizon=N, releases="all").partial_fit(rows[:5], model.predict(rows)[:5])


def test_the_command_line_predicts_with_a_saved_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = FITS["labels"]()
    save_model(model, "M")
    X.to_csv("new.csv", index=False)
    found = privol_cli("predict", "M", "new.csv")
    assert found.exit_code == 0, found.output
    assert [line.split(",")[0] for line in found.stdout.splitlines()[1:]] == model.predict(X).tolist()


def test_saving_and_loading_nothing_is_refused(tmp_path):
    with pytest.raises(NotFittedError):
        save_model(PrivateClassifier(), tmp_path / "M")
    save_model(FITS["labels"](), tmp_path / "M")
    with pytest.raises(FileExistsError):
        save_model(FITS["labels"](), tmp_path / "M")


# ---- runs that outlive their process -----------------------------------------------------------------------


class Stop(Exception):
    pass


def stopping(blocks):
    """Stop after a number of blocks."""
    seen = []

    def told(model, stream):
        seen.append(stream)
        if len(seen) == blocks:
            raise Stop

    return told


@pytest.mark.parametrize(
    ("kind", "epsilon"), [(PrivateClassifier, 30.0), (PrivateRegressor, 30.0), (PrivateClassifier, 1.5)]
)
def test_a_resumed_run_has_the_same_bits(kind, epsilon, tmp_path):
    """For a file, with the first rows or all rows teaching."""
    y = LABELS if kind is PrivateClassifier else NUMBERS
    X.assign(goal=y).to_csv(tmp_path / "rows.csv", index=False, sep=";")
    words = {"target": "goal", "sep": ";", "block_rows": 150}
    made = {"epsilon": epsilon, "random_state": 0}
    whole = kind(**made).fit_stream(tmp_path / "rows.csv", **words)
    for blocks in (1, 4):
        part = kind(**made)
        with pytest.raises(Stop):
            part.fit_stream(
                tmp_path / "rows.csv", **words, progress=stopping(blocks), checkpoint=State(tmp_path / "R", every=90)
            )
    again = kind(**made).fit_stream(tmp_path / "rows.csv", **words, checkpoint=State(tmp_path / "R", every=90))
    assert again.encoder_.reused_ == (epsilon == 1.5)
    assert np.array_equal(again.learner_.coef_, whole.learner_.coef_)
    assert (again.schema_, again.guarantee_, again.n_rows_) == (whole.schema_, whole.guarantee_, whole.n_rows_)
    entries = again.ledger_.entries()
    assert [entry.learner for entry in entries] == ["PrivateEncoder", "AdaptiveFTRL"]
    assert not any(entry.open for entry in entries)
    assert again.ledger_.spent.mu == whole.ledger_.spent.mu
    assert np.array_equal(load_model(tmp_path / "R").predict(X), whole.predict(X))
    assert not (tmp_path / "R" / "secret").exists()
    with pytest.raises(StateError, match="is finished"):
        again.fit_stream(tmp_path / "rows.csv", **words, checkpoint=State(tmp_path / "R"))


def test_a_process_that_ends_beside_its_secrets_leaves_them_to_the_next_call(tmp_path, monkeypatch):
    """Found by kills: the model was there, so the next call said that the run is finished, and left the key behind."""
    data, made, clear = X.assign(goal=LABELS), {"epsilon": 30.0, "random_state": 0}, Checkpoints.clear

    def stops(files, **how):
        if (tmp_path / "R" / "model.json").exists():
            raise Stop
        clear(files, **how)

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "clear", stops)
        with pytest.raises(Stop):
            PrivateClassifier(**made).fit_stream(data, target="goal", checkpoint=State(tmp_path / "R"))
    assert (tmp_path / "R" / "model.json").exists()
    assert (tmp_path / "R" / "secret").exists()
    for _ in range(2):
        with pytest.raises(StateError, match="is finished"):
            PrivateClassifier(**made).fit_stream(data, target="goal", checkpoint=State(tmp_path / "R"))
        assert not (tmp_path / "R" / "secret").exists()
    assert len(Ledger.read(tmp_path / "R" / "ledger.jsonl").entries()) == 2


def test_a_damaged_encoding_is_refused_by_its_file(tmp_path, monkeypatch):
    data, made = X.assign(goal=LABELS), {"epsilon": 30.0, "random_state": 0}
    with monkeypatch.context() as patch:
        patch.setattr(PrivateClassifier, "_show_stream", lambda *_: (_ for _ in ()).throw(Stop))
        with pytest.raises(Stop):
            PrivateClassifier(**made).fit_stream(data, target="goal", checkpoint=State(tmp_path / "R"))
    file = tmp_path / "R" / "encoding.json"
    text = file.read_text()
    for damaged in (text.replace("word", "ward"), text.replace('"reused": false', '"reused": true'), text[:-9], "{}"):
        if damaged != text:
            file.write_text(damaged)
            with pytest.raises(StateError, match=r"encoding\.json: cannot be read"):
                PrivateClassifier(**made).fit_stream(data, target="goal", checkpoint=State(tmp_path / "R"))
    file.write_text(text)
    PrivateClassifier(**made).fit_stream(data, target="goal", checkpoint=State(tmp_path / "R"))


def test_an_encoding_that_was_paid_for_is_not_learnt_again(tmp_path, monkeypatch):
    """A process that ends between the two phases."""
    data, made = X.assign(goal=LABELS), {"epsilon": 30.0, "random_state": 0}
    whole = PrivateClassifier(**made).fit_stream(data, target="goal")
    with monkeypatch.context() as patch:
        patch.setattr(PrivateClassifier, "_show_stream", lambda *_: (_ for _ in ()).throw(Stop))
        with pytest.raises(Stop):
            PrivateClassifier(**made).fit_stream(data, target="goal", checkpoint=State(tmp_path / "R"))
    # rows that taught must not be learnt: both parts would be stated at the cost of one
    taught = whole.encoder_.plan_.rows
    swapped = data.iloc[[taught, *range(1, taught), 0, *range(taught + 1, N)]]
    for other in (swapped.reset_index(drop=True), data.iloc[::-1].reset_index(drop=True)):
        with pytest.raises(StateError, match="not those that taught the encoding"):
            PrivateClassifier(**made).fit_stream(other, target="goal", checkpoint=State(tmp_path / "R"))
    assert len(Ledger.read(tmp_path / "R" / "ledger.jsonl").entries()) == 1
    again = PrivateClassifier(**made).fit_stream(data, target="goal", checkpoint=State(tmp_path / "R"))
    assert np.array_equal(again.learner_.coef_, whole.learner_.coef_)
    entries = again.ledger_.entries()
    assert [entry.learner for entry in entries] == ["PrivateEncoder", "AdaptiveFTRL"]
    assert entries[1].beside == entries[0].plan_id
    assert not (tmp_path / "R" / "secret").exists()
    assert again.ledger_.spent.mu == whole.ledger_.spent.mu


KILLED = """
import os, signal, sys
from privol import PrivateClassifier
from privol.state import State

blocks = []

def told(model, stream):
    blocks.append(1)
    if len(blocks) == 4:
        os.kill(os.getpid(), signal.SIGKILL)

model = PrivateClassifier(epsilon=30.0)
model.fit_stream("rows.csv", target="goal", block_rows=150, checkpoint=State("R", every=90), progress=told)
"""


@pytest.mark.process
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="signals of Linux")
def test_a_killed_run_can_be_resumed(tmp_path):
    """Without a seed: what was released before the kill is the beginning of the run, and no row pays twice."""
    X.assign(goal=LABELS).to_csv(tmp_path / "rows.csv", index=False)
    done = warm.run(
        [sys.executable, "-c", KILLED], cwd=tmp_path, env={**os.environ}, capture_output=True, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    taught = json.loads((tmp_path / "R" / "encoding.json").read_text())["encoding"]
    before = Ledger.read(tmp_path / "R" / "ledger.jsonl").entries()
    assert [entry.open for entry in before] == [False, True]
    model = PrivateClassifier(epsilon=30.0)
    model.fit_stream(tmp_path / "rows.csv", target="goal", checkpoint=State(tmp_path / "R", every=90))
    assert model.schema_.to_record() == taught["schema"]
    assert model.score(X, LABELS) > 0.8
    after = model.ledger_.entries()
    assert [entry.plan_id for entry in after] == [entry.plan_id for entry in before]
    assert not any(entry.open for entry in after)
    assert model.n_rows_ == N


def test_what_a_kept_run_refuses_before_anything_is_spent(tmp_path):
    data = X.assign(goal=LABELS)

    def refused(match, error=InvalidParameter, **words):
        model = PrivateClassifier(**{"epsilon": 30.0, **words})
        with pytest.raises(error, match=match):
            model.fit_stream(data, target="goal", checkpoint=State(tmp_path / "R"))
        return model

    refused(r"a run with releases='last' cannot be continued", releases="last")
    assert refused(r"needs a ledger that does", ledger=Ledger()).ledger.accounts == ()
    with pytest.raises(Stop):
        PrivateClassifier(epsilon=30.0).fit_stream(
            data, target="goal", block_rows=100, progress=stopping(1), checkpoint=State(tmp_path / "R")
        )
    entries = len(Ledger.read(tmp_path / "R" / "ledger.jsonl").entries())
    refused(r"other parameters \(epsilon\)", StateError, epsilon=20.0)
    refused(r"other parameters \(drop\)", StateError, drop=["town"])
    refused(r"no account of the encoding", StateError, ledger=Ledger(journal=tmp_path / "other.jsonl"))
    assert len(Ledger.read(tmp_path / "R" / "ledger.jsonl").entries()) == entries
