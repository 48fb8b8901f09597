"""A released offline model is written and read again: the same bits, the guarantee, and nothing secret."""

from __future__ import annotations

import copy
import json
import math
import pickle
import warnings

import numpy as np
import pytest
from conformance import OFFLINE, X, fingerprint, make, rows_for
from leaks import Secrets, files_in, surface
from sklearn.exceptions import NotFittedError

from privol import ObjectivePerturbation, OutputPerturbation, state
from privol.errors import PrivacyWarning
from privol.geometry import L1Ball
from privol.learners import averaged, offline
from privol.ledger import Ledger
from privol.losses import Huber
from privol.state import load_model, read_record, save_model

every = pytest.mark.parametrize("name", OFFLINE)


@every
def test_a_saved_model_is_the_same_model(name, tmp_path):
    x, y = rows_for(name)
    labels = np.array(["no", "perhaps", "yes"])[y]
    learner = make(name, random_state=None).fit(x, labels)
    save_model(learner, tmp_path / "m", inputs={"feature_names": list("abcd")})
    again = load_model(tmp_path / "m")
    assert type(again) is type(learner)
    assert fingerprint(again) == fingerprint(learner)
    assert again.predict(x).tolist() == learner.predict(x).tolist()
    assert again.decision_function(x).tobytes() == learner.decision_function(x).tobytes()
    assert again.predict_one(x[0]) == learner.predict_one(x[0])
    if hasattr(learner, "predict_proba"):
        assert again.predict_proba(x).tobytes() == learner.predict_proba(x).tobytes()
    assert again.classes_.tolist() == learner.classes_.tolist()
    assert again.guarantee_ == learner.guarantee_
    assert again.guarantee_.sentence() == learner.guarantee_.sentence()
    mine, theirs = again.get_params(), learner.get_params()
    mine.pop("loss"), theirs.pop("loss")
    assert mine == theirs
    record = read_record(tmp_path / "m")
    assert (record["private"], record["n_rows"], record["n_releases"]) == (True, len(x), 1)
    assert record["sentence"] == learner.guarantee_.sentence()
    assert record["inputs"] == {"feature_names": list("abcd")}


def test_regression_and_a_set_are_written(tmp_path):
    learner = make("POL", loss=Huber(width=0.5), domain=L1Ball(3.0), y_bound=2.0, fit_intercept=False)
    learner.fit(X, X[:, 0])
    save_model(learner, tmp_path / "m")
    again = load_model(tmp_path / "m")
    assert fingerprint(again) == fingerprint(learner)
    assert again.predict(X).tobytes() == learner.predict(X).tobytes()
    assert (again.loss.width, again.domain.radius, again.y_bound) == (0.5, 3.0, 2.0)


def test_a_loaded_learner_has_no_ledger_and_learns_anew(tmp_path):
    x, y = rows_for("ObjectivePerturbation")
    save_model(make("ObjectivePerturbation").fit(x, y), tmp_path / "m")
    again = load_model(tmp_path / "m")
    assert again.random_state is None
    with pytest.raises(NotFittedError):
        _ = again.ledger_
    with pytest.raises(NotFittedError, match="counts"):
        again._diagnostics()
    assert fingerprint(pickle.loads(pickle.dumps(again))) == fingerprint(again)
    again.set_params(epsilon=0.5, delta=0.0).fit(x, y)
    assert again.guarantee_.parameter == 0.5
    assert again.ledger_.spent.pure_epsilon == 0.5


def test_runs_without_privacy_are_marked(tmp_path):
    x, y = rows_for("OutputPerturbation")
    save_model(make("OutputPerturbation").fit(x, y), tmp_path / "seeded")
    save_model(OutputPerturbation(epsilon=math.inf).fit(x, y), tmp_path / "bare")
    with pytest.warns(PrivacyWarning, match="published"):
        published = ObjectivePerturbation(calibration="published", delta=0.0).fit(x, y)
    save_model(published, tmp_path / "published")
    found = {name: read_record(tmp_path / name) for name in ("seeded", "bare", "published")}
    assert [found[name]["private"] for name in found] == [False, False, True]
    assert found["bare"]["sentence"].startswith("NO PRIVACY")
    again = load_model(tmp_path / "published").guarantee_
    assert again.claim == published.guarantee_.claim
    assert again.parameter == published.guarantee_.parameter > again.claim.epsilon


def test_nothing_is_written_without_a_model(tmp_path):
    with pytest.raises(NotFittedError):
        save_model(OutputPerturbation(), tmp_path / "m")
    assert not (tmp_path / "m").exists()


@every
def test_nothing_secret_is_written(name, tmp_path, monkeypatch):
    """Rows, targets, the point without noise, the noise, the linear term and the key: in no file and no copy."""
    x, y = rows_for(name)
    secrets, points, seen = Secrets(), [], []
    for module in (offline, averaged):
        real = module.noisy

        def noisy(source, point, law, scale, real=real):
            points.append(np.array(point))
            released = real(source, point, law, scale)
            secrets.numbers("point", point)
            secrets.numbers("noise", released - point)
            return released

        monkeypatch.setattr(module, "noisy", noisy)
    solve = offline.minimise

    def minimise(objective, **words):
        if objective.linear is not None:
            secrets.numbers("linear term", objective.linear)
        return solve(objective, **words)

    monkeypatch.setattr(offline, "minimise", minimise)
    secrets.numbers("rows", x, many=True)
    key = np.random.PCG64(3).random_raw(8).astype(np.uint64) & np.uint64(0xFFFFFFFF)
    secrets.key("key", key.astype("<u4").tobytes())
    ledger = Ledger(journal=tmp_path / "ledger.jsonl")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        learner = make(name, ledger=ledger).fit(x, y)
    ledger.close()
    assert len(points) == 1
    assert secrets.found_in(points[0].tobytes())
    save_model(learner, tmp_path / "m")
    again = load_model(tmp_path / "m")
    seen += [*files_in(tmp_path), surface(learner, learner.ledger_), surface(again, private=True), pickle.dumps(again)]
    seen += [surface(copy.copy(learner), private=True), json.dumps(state.describe_parameters(learner))]
    seen += [str(w.message) for w in said]
    assert len(secrets) > 1000
    found = {what for haystack in seen for what in secrets.found_in(haystack)}
    assert not found, sorted(found)[:10]
