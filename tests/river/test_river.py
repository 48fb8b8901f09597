"""Learners and estimators in River: River's own checks of estimators, its pipelines, its evaluation."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone

from privol import PrivateClassifier, PrivateRegressor
from privol.errors import BudgetExceeded, InvalidParameter, StateError
from privol.learners import LEARNERS, OFFLINE_LEARNERS
from privol.ledger import Ledger
from privol.river import as_river
from privol.state import State

river = pytest.importorskip("river")

from river import base, checks, compose, datasets, drift, evaluate, metrics, preprocessing  # noqa: E402

ROWS = 5000
# for learners whose own defaults are for other losses, for a last release alone, or for a number of nodes
WORDS = {"pigd": {"release": "all"}, "pgiga": {"release": "all"}, "pqftl": {"loss": "squared"}}


def made(name, **words):
    return LEARNERS[name](**{"horizon": ROWS, "random_state": 3, **WORDS.get(name, {}), **words})


def check(model, without=()):
    """All of River's checks but for those that are named."""
    assert model._unit_test_skips() == set(without)
    tried = set()
    for one in checks.yield_checks(model):
        name = getattr(one, "__name__", None) or one.func.__name__
        tried.add(name)
        if name not in without:
            one(model.clone())
    assert tried > set(without)


# Without stated labels they are learnt from the first rows, and there are no probabilities before.
OF_STATED_LABELS = {"check_predict_proba_one", "check_classifier_tracks_seen_labels"}


@pytest.mark.parametrize("name", LEARNERS)
def test_checks_of_river_pass_for_learners(name):
    model = as_river(made(name))
    assert isinstance(model, base.Regressor if name == "pqftl" else base.Classifier)
    check(model)


@pytest.mark.parametrize("loss", ["squared", "hinge", "softmax"])
def test_checks_of_river_pass_for_losses(loss):
    check(as_river(made("dpftrl", loss=loss)))


def test_several_classes():
    """River's checks have streams with other labels: here is one with seven."""
    classes = ["brickface", "cement", "foliage", "grass", "path", "sky", "window"]
    model = as_river(made("dpftrl", loss="softmax", epsilon=1000.0, x_bound=600.0, horizon=2310), classes=classes)
    assert model._multiclass
    assert evaluate.progressive_val_score(datasets.ImageSegments(), model, metrics.Accuracy()).get() > 0.5
    assert list(model.predict_proba_one(next(iter(datasets.ImageSegments()))[0])) == classes


@pytest.mark.parametrize(
    ("model", "without"),
    [
        (PrivateClassifier(horizon=ROWS, random_state=3, classes=[False, True]), set()),
        (PrivateClassifier(horizon=ROWS, random_state=3), OF_STATED_LABELS),
        (PrivateRegressor(horizon=ROWS, random_state=3, target_range=(0.0, 100.0)), set()),
    ],
    ids=["classifier", "labels learnt", "regressor"],
)
def test_checks_of_river_pass_for_estimators(model, without):
    check(as_river(model), without)


def test_the_learner_is_the_same():
    """Rows from River are learnt as if they came without River."""
    rows = list(datasets.Phishing().take(300))
    model, plain = as_river(made("dpftrl")), made("dpftrl").declare_classes([False, True])
    for x, y in rows:
        model.learn_one(x, y)
        plain.learn_one(x, y)
    np.testing.assert_array_equal(model.learner.coef_, plain.coef_)
    assert model.guarantee_ == plain.guarantee_
    assert [model.predict_one(x) for x, _ in rows[:20]] == [plain.predict_one(x) for x, _ in rows[:20]]
    assert model.predict_proba_one(rows[0][0]) == plain.predict_proba_one(rows[0][0])
    model.close()
    with pytest.raises(StateError, match="closed"):
        model.learn_one(*rows[0])


def test_pipelines_and_progressive_evaluation():
    """By River's figures, with a selection before the learner and a drift detector next to it."""
    model = as_river(made("adaptive", epsilon=100.0))
    pipeline = compose.Discard("age_of_domain") | model
    found = evaluate.progressive_val_score(datasets.Phishing(), pipeline, metrics.Accuracy())
    assert found.get() > 0.8
    assert model.learner.n_rows_ == 1250
    detector, found = drift.ADWIN(), {False: 0, True: 0}
    for turned in found:  # every label becomes the other one
        for x, y in datasets.Phishing():
            detector.update(float(pipeline.predict_one(x) != (y ^ turned)))
            found[turned] += detector.drift_detected
    assert found[False] == 0
    assert found[True] > 0


def test_one_hot_features_come_and_go():
    """A missing feature is 0 and an undeclared one is ignored: the run has the declared features."""
    encode = compose.Select("town") | preprocessing.OneHotEncoder()
    pipeline = encode | as_river(made("dpftrl"), features=["town_Oslo", "town_Bergen"])
    for k in range(60):
        pipeline.learn_one({"town": ["Oslo", "Bergen", "Rome"][k % 3]}, k % 3 == 0)
    assert pipeline["RiverClassifier"].learner.feature_names_in_.tolist() == ["town_Oslo", "town_Bergen"]
    assert pipeline.predict_one({"town": "Paris"}) in (False, True)


def test_clones_share_the_ledger_and_nothing_else():
    ledger = Ledger()
    model = as_river(made("dpftrl", ledger=ledger))
    other = model.clone()
    assert other.learner is not model.learner
    assert other.learner.ledger is ledger
    for one in (model, other):
        one.learn_one({"a": 1.0}, True)
    assert len(ledger.accounts) == 2
    assert model.clone({"features": ("a", "b")}).features == ("a", "b")
    with pytest.raises(StateError, match="noise again"):
        model.clone(include_attributes=True)


@pytest.mark.parametrize("learner", [made("adaptive"), PrivateClassifier(horizon=ROWS, classes=[False, True])])
def test_a_run_on_the_disk_goes_on_in_another_object(learner, tmp_path):
    """With the released values of one that nothing interrupts; its metric is of rows that were predicted before."""

    def model(folder):
        return as_river(clone(learner).set_params(random_state=3), checkpoint=State(tmp_path / folder, rest=True))

    rows = list(datasets.Phishing())
    whole = model("whole")
    for x, y in rows:
        whole.learn_one(x, y)
    whole.close()
    begun = model("run")
    assert begun.predict_one(rows[0][0]) is None
    evaluate.progressive_val_score(iter(rows[:1100]), begun, metrics.Accuracy())
    begun.live.stop()
    assert begun.predict_one(rows[0][0]) in (False, True)
    again = model("run")
    assert again.live.first_row == 1101
    without = dict(list(rows[1100][0].items())[1:])  # a feature that a row lacks is 0, or a missing cell
    assert again._row(without).keys() == rows[0][0].keys()
    for x, y in rows[1100:]:
        again.learn_one(x, y)
    again.close()
    for released in ("coef_", "average_coef_", "n_rows_", "n_releases_"):
        found, expected = (getattr(getattr(m.learner, "learner_", m.learner), released) for m in (again, whole))
        assert np.array_equal(found, expected)
    with pytest.raises(StateError, match="a clone cannot be kept in the same directory"):
        again.clone()
    assert again.clone({"checkpoint": State(tmp_path / "other", rest=True)}).live.first_row == 1


def test_a_pickle_holds_what_is_public():
    model = as_river(made("dpftrl"))
    rows = list(datasets.Phishing().take(50))
    for x, y in rows:
        model.learn_one(x, y)
    other = pickle.loads(pickle.dumps(model))
    assert [other.predict_one(x) for x, _ in rows] == [model.predict_one(x) for x, _ in rows]
    with pytest.raises(StateError):
        other.learn_one(*rows[0])


def test_an_exhausted_budget_ends_learning():
    model = as_river(made("dpftrl", horizon=20))
    with pytest.raises(BudgetExceeded, match="20 of 20"):
        evaluate.progressive_val_score(datasets.Phishing().take(30), model, metrics.Accuracy())
    assert model.learner.n_rows_ == 20


def test_learners_that_cannot_learn_single_rows_are_refused():
    for name in OFFLINE_LEARNERS:
        with pytest.raises(InvalidParameter, match="all rows at once"):
            as_river(OFFLINE_LEARNERS[name]())
    with pytest.raises(InvalidParameter, match="classes are those of a classifier"):
        as_river(made("pqftl"), classes=[0, 1])
    with pytest.raises(InvalidParameter, match="classes must be those of the learner"):
        as_river(PrivateClassifier(horizon=99), classes=[0, 1])


def test_without_river_the_error_names_it(monkeypatch):
    import sys

    import privol.river as module

    for name in ("RiverClassifier", "RiverRegressor"):
        monkeypatch.delitem(vars(module), name, raising=False)
    monkeypatch.setitem(sys.modules, "river", None)
    with pytest.raises(InvalidParameter, match=r"pip install 'privol\[river\]'"):
        as_river(made("dpftrl"))
