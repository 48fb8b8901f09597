"""scikit-learn's own conformance checks on configured learners, and its tools with them."""

from __future__ import annotations

import numpy as np
import pandas
from sklearn import config_context
from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from privol import (
    BANCO,
    DOLA,
    DPFTRL,
    LDPSGD,
    MIOGD,
    NOGD,
    PGIGA,
    PIGD,
    PQFTL,
    AdaptiveFTRL,
    AgnosticBANCO,
    BanditMIOGD,
    MultiscaleSGD,
    ObjectivePerturbation,
    OutputPerturbation,
    PrivateClassifier,
    PrivateRegressor,
    SparseDOLA,
)
from privol.encoding import PrivateEncoder
from privol.guarantees import ShowsGuarantee
from privol.learners import LEARNERS as KINDS
from privol.ledger import Ledger
from privol.tuning import PrivateSelection

# Seeded, with so large a budget that the noise does not decide the checks' small problems.
# Horizon and release, because partial_fit requires both.
EASY = {
    "epsilon": 1e6,
    "delta": 1e-3,
    "random_state": 0,
    "l2": 1e-3,
    "radius": 50.0,
    "x_bound": 20.0,
    "horizon": 10_000,
    "release": "last",
}

# A class weight of 1000 shows in one pass over 50 noisy rows where the intercept counts as well.
SHORT = EASY | {"x_bound": 1.0}

# For learners of all rows at once: without horizon, schedule, and a delta where there is none.
AT_REST = {"epsilon": 1e6, "random_state": 0, "l2": 1e-3, "x_bound": 20.0}


def without(*names):
    return {name: value for name, value in EASY.items() if name not in names}


LEARNERS = [
    PIGD(loss="logistic", **EASY),
    PIGD(loss="hinge", **EASY),
    PGIGA(loss="logistic", **EASY),
    PIGD(loss="squared", **EASY, y_bound=500.0),
    PGIGA(loss="huber", **EASY, y_bound=500.0),
    NOGD(loss="logistic", **EASY),
    # with steps for so few rows: those for the loss's own gradients are made for millions
    NOGD(loss="squared", **(EASY | {"l2": 0.1}), gradient_bound=1.0, y_bound=500.0),
    DPFTRL(loss="logistic", **SHORT),
    DPFTRL(loss="hinge", design="tree", **SHORT),
    DPFTRL(loss="softmax", **SHORT),
    DPFTRL(loss="huber", **EASY, y_bound=500.0),
    AdaptiveFTRL(**(without("l2", "radius") | {"x_bound": 1.0})),
    AdaptiveFTRL(loss="squared", **(without("l2", "radius") | {"horizon": 200, "x_bound": 5.0}), y_bound=5.0),
    PQFTL(**EASY, y_bound=20.0),  # its noise is proportional to the bound, and targets are scaled to variance 1
    MIOGD(sigma=1e-4, **without("epsilon", "l2")),
    LDPSGD(randomizer="gaussian", step_size=3.0, **without("l2")),
    *(kind(randomizer="gaussian", **without("l2", "radius")) for kind in (BANCO, AgnosticBANCO, MultiscaleSGD)),
    *(kind(nodes=2, step_size=3.0, **without("l2")) for kind in (DOLA, SparseDOLA)),
    OutputPerturbation(loss="logistic", **AT_REST),
    OutputPerturbation(loss="squared", delta=1e-3, radius=50.0, **AT_REST, y_bound=500.0),
    ObjectivePerturbation(loss="logistic", **AT_REST),
    ObjectivePerturbation(loss="smooth_hinge", delta=1e-3, **AT_REST),
    ObjectivePerturbation(loss="huber", **AT_REST, y_bound=500.0),
]

LEARNERS += [  # the learners not configured above, with defaults
    kind(**{name: value for name, value in EASY.items() if name in kind().get_params()})
    for kind in KINDS.values()
    if kind not in map(type, LEARNERS) and kind is not BanditMIOGD  # its rows are values of losses
]


def expected_failures(learner):
    """Checks that contradict what a private learner must do; each with its reason."""
    if isinstance(learner, (ObjectivePerturbation, OutputPerturbation)):
        return {
            "check_non_transformer_estimators_n_iter": "it asks for n_iter_, since there is max_iter; how many steps "
            "the solver took depends on the rows and is not released",
        }
    return {
        "check_fit_score_takes_y": "it calls partial_fit after fit; fit has ended its run and settled its budget, and "
        "more rows would silently be paid for again",
    }


@parametrize_with_checks(LEARNERS, expected_failed_checks=expected_failures)
def test_checks(estimator, check):
    check(estimator)


def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    return X, np.where(X @ [1, -1, 0.5, 0] > 0, "b", "a")


def test_kinds():
    assert is_classifier(PIGD())
    assert is_classifier(PIGD(loss="hinge"))
    assert is_regressor(PIGD(loss="squared"))
    assert is_regressor(PGIGA(loss="huber"))


def test_clone_keeps_parameters_and_shares_the_ledger():
    ledger = Ledger(epsilon=3.0, delta=1e-6)
    learner = PIGD(epsilon=0.5, ledger=ledger, release=7).fit(*data())
    copied = clone(learner)
    assert copied.ledger is ledger
    assert copied.get_params() == learner.get_params()
    assert "_run" not in vars(copied)


def test_every_fit_of_a_search_pays():
    """One ledger through a pipeline and a grid search: each fit is a run of its own, the budget is not duplicated."""
    X, y = data()
    ledger = Ledger()
    search = GridSearchCV(
        make_pipeline(StandardScaler(), PIGD(epsilon=50.0, delta=1e-3, ledger=ledger)), {"pigd__l2": [0.01, 0.1]}, cv=3
    )
    search.fit(X, y)
    assert len(ledger.accounts) == 2 * 3 + 1
    assert cross_val_score(PIGD(epsilon=1e4, delta=1e-3, radius=10.0, l2=0.001, x_bound=4.0), X, y, cv=3).mean() > 0.8


def test_notebooks_show_the_guarantee_below_the_diagram():
    """scikit-learn's contract: a diagram where the configuration asks for one, otherwise no HTML at all."""
    learner = PIGD(epsilon=0.5)
    assert "Guarantee:" not in learner._repr_html_()  # no run, no guarantee
    learner.fit(*data())
    for shown in (learner._repr_html_(), learner._repr_mimebundle_()["text/html"]):
        assert shown.endswith(learner.guarantee_._repr_html_())
        assert "sk-container" in shown
    assert learner.n_releases_ == 1
    with config_context(display="text"):
        assert not hasattr(learner, "_repr_html_")
        assert learner._repr_mimebundle_() == {"text/plain": repr(learner)}


def test_notebooks_show_hostile_names_as_text():
    X = pandas.DataFrame(data()[0])
    X.columns = [f"<script>alert({j})</script></table>" for j in range(X.shape[1])]
    labels = np.where(np.arange(len(X)) % 2 == 0, "<img src=x onerror=alert(1)>", "</pre><script>alert(2)</script>")
    shown = NOGD(epsilon=0.5).fit(X, labels)._repr_html_()
    assert "alert(0)" in shown  # the names are there
    assert "<script>alert" not in shown
    assert "<img" not in shown


def test_notebooks_show_nothing_that_is_counted_on_the_raw_rows():
    """Neither the learner alone nor a step of a pipeline lists such fitted attributes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    X[5] = np.nan
    y = np.sign(X[:, 1])
    learner = DPFTRL(epsilon=1.0, horizon=300, on_invalid="zero").declare_classes([-1, 1]).partial_fit(X, y)
    assert (learner.n_null_rows_, learner.n_scaled_rows_ > 0) == (1, True)
    steps = make_pipeline(DPFTRL(epsilon=1.0)).fit(X[6:], y[6:])
    for shown in (learner, steps):
        html = shown._repr_mimebundle_()["text/html"]
        assert "n_null_rows_" not in html
        assert "n_scaled_rows_" not in html


def test_every_estimator_shows_its_guarantee():
    kinds = {type(learner) for learner in LEARNERS}
    for kind in kinds | {PrivateClassifier, PrivateRegressor, PrivateEncoder, PrivateSelection}:
        order = kind.__mro__
        assert order.index(ShowsGuarantee) < order.index(BaseEstimator), kind
