"""One model at the end: which learner makes it, which rows teach and which are learnt, and what both cost."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from auto_tools import labels_of, numbers_of, table
from sklearn.exceptions import NotFittedError

from privol import PQFTL, AdaptiveFTRL, OutputPerturbation, PrivateClassifier, PrivateRegressor
from privol.auto import course
from privol.auto.defaults import last_model_for
from privol.encoding import streaming
from privol.errors import BudgetExceeded, InvalidParameter, SolverFailure
from privol.guarantees import compose_gdp, gdp_mu
from privol.learners import LEARNERS
from privol.ledger import Ledger

N = 1500
X = table(N)
LABELS, NUMBERS = labels_of(X), numbers_of(X)
THREE = np.digitize(NUMBERS, [110.0, 130.0])
#: The loss, the budget, whether all rows teach, and the learner.
CASES = {
    "few rows": (PrivateClassifier, LABELS, 0.6, True, OutputPerturbation),
    "two classes": (PrivateClassifier, LABELS, 30.0, False, AdaptiveFTRL),
    "two classes, all teach": (PrivateClassifier, LABELS, 2.0, True, AdaptiveFTRL),
    "three classes": (PrivateClassifier, THREE, 30.0, False, AdaptiveFTRL),
    "numbers": (PrivateRegressor, NUMBERS, 30.0, False, PQFTL),
    "numbers, all teach": (PrivateRegressor, NUMBERS, 2.0, True, PQFTL),
    "without noise": (PrivateRegressor, NUMBERS, math.inf, False, PQFTL),
}


def made(name, **words):
    kind, _, epsilon, reuse, _ = CASES[name]
    return kind(epsilon=epsilon, reuse_rows=reuse, releases="last", **{"random_state": 0, **words})


@pytest.mark.parametrize("name", CASES)
def test_public_numbers_choose_the_learner(name):
    _, y, epsilon, reuse, learner = CASES[name]
    model = made(name).fit(X, y)
    assert type(model.learner_) is learner
    assert model.n_releases_ == 1
    assert model.n_rows_ == N
    other = made(name).fit(X, y[::-1])  # other rows under the same encoding
    assert type(other.learner_) is learner
    entries = model.ledger_.entries()
    assert [entry.learner for entry in entries] == ["PrivateEncoder", learner.__name__]
    assert not any(entry.open for entry in entries)
    assert (entries[1].beside is None) == reuse
    assert (model.guarantee_.kind == "none") == math.isinf(epsilon)
    if not math.isinf(epsilon):
        parts = [entry.mu_squared**0.5 for entry in entries]
        whole = compose_gdp(parts) if reuse else max(parts)
        assert model.guarantee_.mu == pytest.approx(whole, rel=1e-12)
        assert model.ledger_.spent.mu == pytest.approx(whole, rel=1e-12)
        assert whole <= gdp_mu(epsilon, 1e-6) * (1 + 1e-12)
        assert whole == pytest.approx(gdp_mu(epsilon, 1e-6), rel=1e-6)


@pytest.mark.parametrize("name", ["few rows", "two classes", "numbers"])
def test_a_stream_and_a_pickle_have_the_same_model(name):
    _, y, *_ = CASES[name]
    model = made(name).fit(X, y)
    streamed = made(name).fit_stream(X.assign(goal=y), target="goal")
    assert np.array_equal(streamed.predict(X), model.predict(X))
    assert streamed.guarantee_ == model.guarantee_
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))


def test_a_single_model_is_more_accurate_for_real_targets():
    scores = [
        PrivateRegressor(epsilon=3.0, random_state=0, releases=releases).fit(X, NUMBERS).score(X, NUMBERS)
        for releases in ("all", "last")
    ]
    assert scores[1] > scores[0] + 0.03


# ---- exact neighbours --------------------------------------------------------------------------------------


class Heard:
    """A noise source that records the values to be perturbed, and answers as it did the first time."""

    private, description = False, "none: a test"

    def __init__(self, answers=None):
        self.counts, self.answers = [], [] if answers is None else answers
        self._again = answers is not None

    def add(self, x, std, **_):
        self.counts.append(x.copy())
        if not self._again:
            self.answers.append(x + np.random.default_rng(len(self.counts)).normal(size=len(x)) * std)
        return self.answers[len(self.counts) - 1].copy()

    def words(self, **_):
        return 0, 0


def seen(name, rows, y, answers=None):
    """Fit; return the values that each phase passes to be perturbed, and the rows and targets that the model learns."""
    source, learnt = Heard(answers), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streaming, "make_source", lambda _: source)
        feed, keep = course.learn_rows, course.RowBlock

        def fed(learner, X, y):
            learnt.append((X.copy(), y.copy()))
            feed(learner, X, y)

        def kept(X, y):
            learnt.append((X.copy(), y.copy()))
            return keep(X, y)

        patch.setattr(course, "learn_rows", fed)
        patch.setattr(course, "RowBlock", kept)
        model = made(name).fit(rows, y)
    blocks, targets = zip(*learnt, strict=True)
    return model, source, np.column_stack([np.concatenate(blocks), np.concatenate(targets)])


@pytest.mark.parametrize("name", [name for name in CASES if name != "without noise"])
def test_a_row_pays_once_unless_it_both_teaches_and_is_learnt(name):
    """The rows beside the cut are replaced: each affects only its own side, or both if all rows teach."""
    _, y, _, reuse, _ = CASES[name]
    model, base, known = seen(name, X, y)
    plan = model.encoder_.plan_
    cut = plan.rows  # if all rows teach, two may be in no phase, because phases have whole numbers of rows
    assert len(known) == (N if reuse else N - cut)
    for at in (cut - 1,) if cut == N else (cut - 1, cut):
        rows, targets = X.copy(), y.copy()
        rows.loc[at, ["age", "town"]] = [1e9, "a town of its own"]
        others = np.flatnonzero(y != y[at])
        targets[at] = y[others[0]]
        _, source, learnt = seen(name, rows, targets, base.answers)
        moved = [float(np.linalg.norm(one - two)) for one, two in zip(source.counts, base.counts, strict=True)]
        changed = np.flatnonzero((learnt != known).any(axis=1)).tolist()
        teaches, learns = at < cut, reuse or at >= cut
        assert [distance > 0.0 for distance in moved] == [False] * (len(moved) - 1) + [teaches]
        histograms = len(X.columns) + 1  # in the last phase, including those of a real target
        assert moved[-1] <= math.sqrt(2.0 * histograms)
        assert changed == ([at if reuse else at - cut] if learns else [])


# ---- what is refused ---------------------------------------------------------------------------------------


def test_incompatible_parameters_are_refused():
    model = PrivateClassifier(releases="last", horizon=N)
    with pytest.raises(InvalidParameter, match=r"horizon must be None with releases='last'"):
        model.fit(X, LABELS)
    with pytest.raises(InvalidParameter, match=r"release must be None with releases='last'"):
        PrivateClassifier(releases="last", release="all").fit(X, LABELS)
    with pytest.raises(InvalidParameter, match="releases"):
        PrivateRegressor(releases="first").fit(X, NUMBERS)
    for call in (lambda m: m.partial_fit(X, LABELS), lambda m: m.learn_one(X.iloc[0].to_dict(), "ill")):
        model = PrivateClassifier(releases="last")
        with pytest.raises(InvalidParameter, match=r"by fit or fit_stream.*releases='all'"):
            call(model)
        assert model._ledger().accounts == ()
    with pytest.raises(BudgetExceeded):
        PrivateClassifier(releases="last", epsilon=2.0, ledger=Ledger(epsilon=1.0, delta=1e-6)).fit(X, LABELS)


def test_a_fit_that_fails_shows_no_model_and_stays_spent(monkeypatch):
    def fails(*_):
        raise SolverFailure("", iterations=1, reached=1.0, asked=1e-9)

    monkeypatch.setattr(OutputPerturbation, "_find", fails)
    model = made("few rows")
    with pytest.raises(SolverFailure):
        model.fit(X, LABELS)
    with pytest.raises(NotFittedError):
        model.predict(X)
    assert [entry.mu_squared > 0.0 for entry in model.ledger_.entries()] == [True, True]


def test_more_rows_than_fit_one_step_make_several_steps():
    """It was once an error after the encoding had been paid for."""
    horizon = (1 << 20) + 5
    given = {"loss": "squared", "epsilon": 1.0, "delta": 1e-6, "adjacency": "replace"}
    schema = PrivateRegressor(epsilon=math.inf).fit(X, NUMBERS).schema_
    rows = course.EncodedRows(schema, 3, None, horizon, None, 1, ())
    name, words = last_model_for(rows, horizon, given)
    plan = LEARNERS[name](**{**words, **given}, horizon=horizon).calibrate(3, horizon)
    assert (name, plan.sums.factorization.steps) == ("pqftl", 2)
