"""Released models as pipelines of scikit-learn: privol's scores, labels and probabilities."""

from __future__ import annotations

import io
import math
import pickle
import subprocess
import sys

import auto_tools
import numpy as np
import pandas
import pytest
import scipy.sparse as sp
from cli_tools import privol_cli
from conformance import LEARNERS, OFFLINE
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression, SGDClassifier
from sklearn.pipeline import Pipeline
from sklearn.svm import LinearSVC

import privol
from privol import PrivateClassifier, PrivateRegressor, open_stream
from privol.encoding.schema import Schema
from privol.errors import InvalidParameter, StateError
from privol.explaining import cut_of, probabilities
from privol.exporting import ClippedLogisticRegression, RowScaler, to_sklearn
from privol.ledger import Ledger
from privol.losses import SmoothHinge, get_loss
from privol.state import load_model, save_model

RNG = np.random.default_rng(8)
# about half of the rows are longer than the bound, and one is much longer
ROWS = RNG.normal(size=(600, 4)) / 1.8
ROWS[7] *= 1e6
TWO = np.where(ROWS @ [1.0, -2.0, 0.5, 0.0] > 0, "yes", "no")
SEVERAL = np.argmax(ROWS[:, :3], axis=1)
REAL = ROWS @ [0.3, -0.2, 0.0, 0.1]


def tolerance(model, pipeline, rows):
    """The largest difference of scores that rounding explains, shape (n,): what the docstring states."""
    rows, last, own = np.abs(pipeline["scale"].transform(rows)), pipeline[-1], getattr(model, "learner_", model)
    coef, intercept = np.abs(np.atleast_2d(last.coef_)), np.abs(last.intercept_)
    if len(own.coef_) == 2 and get_loss(own.loss).joint:
        coef, intercept = np.abs(own.coef_).sum(axis=0, keepdims=True), np.abs(own.intercept_).sum()
    most = rows @ coef.T + intercept
    return (rows.shape[1] + 8) * 2.0**-51 * np.asarray(most).max(axis=1)


def assert_same(model, pipeline, given, encoded):
    """Compare answers to the same rows, with differences that rounding explains."""
    near = tolerance(model, pipeline, encoded)
    if isinstance(pipeline[-1], LinearRegression):
        assert (np.abs(pipeline.predict(given) - model.predict(given)) <= near).all()
        return
    ours, theirs = model.decision_function(given), pipeline.decision_function(given)
    assert ours.shape == theirs.shape
    assert (np.abs(ours - theirs).reshape(len(near), -1).max(axis=1) <= near).all()
    best = np.sort(ours, axis=1)[:, -2:] if ours.ndim == 2 else np.column_stack([np.zeros(len(ours)), ours])
    clear = (np.abs(best[:, 1] - best[:, 0]) > 2 * near) | (near == 0.0)
    assert clear.mean() > 0.99
    assert (model.predict(given)[clear] == pipeline.predict(given)[clear]).all()
    assert pipeline.classes_.tolist() == model.classes_.tolist()
    assert hasattr(pipeline, "predict_proba") == hasattr(model, "predict_proba")
    if hasattr(model, "predict_proba"):
        apart = np.abs(pipeline.predict_proba(given) - model.predict_proba(given)).max(axis=1)
        assert (apart <= 2 * near + 1e-14).all()


@pytest.mark.parametrize("name", [*LEARNERS, *OFFLINE])
def test_every_learner(name):
    kind, words = {**LEARNERS, **OFFLINE}[name]
    learner = kind(**words)
    regression = get_loss(learner.loss).kind == "regression"
    labels = SEVERAL if "classes" in name else TWO
    learner.fit(ROWS, REAL if regression else labels)
    assert_same(learner, to_sklearn(learner), ROWS, ROWS)


@pytest.mark.parametrize(
    ("loss", "y", "kind"),
    [
        ("logistic", TWO, LogisticRegression),
        ("logistic", SEVERAL, SGDClassifier),
        ("softmax", TWO, LogisticRegression),
        ("softmax", SEVERAL, LogisticRegression),
        ("hinge", TWO, LinearSVC),
        (SmoothHinge(width=0.3), SEVERAL, LinearSVC),
        ("squared", REAL, LinearRegression),
        ("huber", REAL, LinearRegression),
    ],
)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_every_loss(loss, y, kind, fit_intercept, tmp_path):
    learner = privol.DPFTRL(loss=loss, epsilon=50.0, x_bound=1.5, fit_intercept=fit_intercept).fit(ROWS, y)
    save_model(learner, tmp_path / "model")
    for model in (learner, load_model(tmp_path / "model")):
        pipeline = to_sklearn(model)
        assert type(pipeline[-1]) is kind
        assert_same(model, pipeline, ROWS, ROWS)
        again = pickle.loads(pickle.dumps(pipeline))
        assert again.predict(ROWS).tolist() == pipeline.predict(ROWS).tolist()


def test_sparse_rows_and_names_of_features():
    frame = pandas.DataFrame(ROWS, columns=list("abcd"))
    pipeline = to_sklearn(learner := privol.AdaptiveFTRL(epsilon=9.0).fit(frame, TWO))
    assert pipeline.feature_names_in_.tolist() == list("abcd")
    assert_same(learner, pipeline, frame, frame)
    with pytest.raises(ValueError, match="feature names"):
        pipeline.predict(frame.rename(columns={"a": "z"}))
    learner = privol.AdaptiveFTRL(epsilon=9.0).fit(sp.csr_array(ROWS), TWO)
    assert_same(learner, to_sklearn(learner), sp.csr_array(ROWS), ROWS)


def encoded(pipeline, given):
    return pipeline["encode"].transform(given)


@pytest.fixture(scope="module")
def table():
    X = auto_tools.table(3000)
    X["when"] = pandas.to_datetime("2024-01-01") + pandas.to_timedelta(RNG.integers(0, 9000, len(X)), "h")
    X.loc[::11, "town"] = None
    X.loc[::13, "when"] = None
    return X


@pytest.mark.parametrize("order", ["sorted", "reversed", "declared"])
def test_a_table_with_two_classes(table, order):
    y = auto_tools.labels_of(table)
    classes = ["well", "ill"] if order == "declared" else None
    if order == "reversed":
        y = np.where(y == "well", "9", "10")  # learnt in the order of the numbers, shown in that of the texts
    model = PrivateClassifier(epsilon=20.0, crosses=[("town", "age")], classes=classes).fit(table, y)
    assert model._order.tolist() == ([1, 0] if order == "reversed" else [0, 1])
    pipeline = to_sklearn(model)
    assert [name for name, _ in pipeline.steps] == ["encode", "scale", "model"]
    assert_same(model, pipeline, table, encoded(pipeline, table))
    known = table.assign(further=1.0)[[*table.columns, "further"]]
    with pytest.raises(ValueError, match="further"):
        pipeline.predict(known)
    again = pickle.loads(pickle.dumps(pipeline))
    assert again.predict(table).tolist() == pipeline.predict(table).tolist()


@pytest.mark.parametrize("releases", ["all", "last"])
@pytest.mark.parametrize("epsilon", [0.3, 20.0])
def test_a_table_with_several_classes(table, releases, epsilon):
    score = auto_tools.score_of(table)
    y = np.where(score < -1, "9", np.where(score < 1, "10", "11"))  # learnt in another order than shown
    model = PrivateClassifier(epsilon=epsilon, releases=releases).fit(table, y)
    pipeline = to_sklearn(model)
    assert_same(model, pipeline, table, encoded(pipeline, table))


def test_clipped_probabilities_of_two_classes():
    """A small budget cuts gradients: the probabilities of the pipeline are not those of the sigmoid."""
    found = {}
    for n, epsilon in ((3000, 0.5), (20000, 1.0), (6000, 0.2)):
        X = auto_tools.table(n)
        model = PrivateClassifier(epsilon=epsilon, classes=["ill", "well"]).fit(X, auto_tools.labels_of(X))
        pipeline = to_sklearn(model)
        assert_same(model, pipeline, X, encoded(pipeline, X))
        found[type(pipeline[-1])] = pipeline, X
    pipeline, X = found[ClippedLogisticRegression]
    plain = 1.0 / (1.0 + np.exp(-pipeline.decision_function(X)))
    assert np.abs(pipeline.predict_proba(X)[:, 1] - plain).max() > 1e-3


def test_clipped_probabilities_of_two_scores(tmp_path):
    """By softmax, with the schema of a run: those that privol shows."""
    target = {"column": "y", "negative": ["no"], "positive": ["yes"]}
    schema = Schema.load({"columns": {f"x{j}": {"knots": [-1, 0, 1]} for j in range(4)}, "target": target})
    rows = pandas.DataFrame(np.clip(ROWS, -1, 1), columns=[f"x{j}" for j in range(4)])
    (block,) = open_stream(rows, schema=schema, target=False)
    learner = privol.AdaptiveFTRL(loss="softmax", epsilon=20.0, x_bound=schema.usual_norm).fit(block.X, TWO)
    save_model(learner, tmp_path / "model", inputs={"schema": schema.to_record()})
    cut = cut_of(learner, schema, block.X.shape[1], 2)
    assert cut < math.inf
    found = to_sklearn(tmp_path / "model").predict_proba(rows)
    np.testing.assert_allclose(found, probabilities(learner, block.X, cut), atol=1e-12)


@pytest.mark.parametrize("target_range", [None, (-100.0, 400.0)])
def test_a_table_with_a_real_target(table, target_range, tmp_path):
    y = auto_tools.numbers_of(table)
    model = PrivateRegressor(epsilon=20.0, target_range=target_range).fit(table, y)
    save_model(model, tmp_path / "model")
    pipeline = to_sklearn(load_model(tmp_path / "model"))
    near = tolerance(model, pipeline, encoded(pipeline, table)) + 4 * 2.0**-51 * 500
    assert (np.abs(pipeline.predict(table) - model.predict(table)) <= near).all()


def test_arrays_streams_and_sparse_rows(table, tmp_path):
    X = table[["age", "dose"]].to_numpy()
    y = auto_tools.labels_of(table)
    model = PrivateClassifier(epsilon=20.0).fit(X, y)
    assert_same(model, pipeline := to_sklearn(model), X, encoded(pipeline, X))
    table.assign(y=y).to_csv(tmp_path / "rows.csv", index=False)
    model = PrivateClassifier(epsilon=20.0).fit_stream(tmp_path / "rows.csv", target="y")
    assert_same(model, pipeline := to_sklearn(model), table, encoded(pipeline, table))
    mixed = table.assign(y=y)[["y", *reversed(table.columns)]]  # found by name, wherever they stand
    assert pipeline.predict(mixed).tolist() == pipeline.predict(table).tolist()
    many = sp.random_array((2000, 300), density=0.02, rng=3, format="csr")
    model = PrivateClassifier(epsilon=20.0, classes=[0, 1]).fit(many, np.arange(2000) % 2)
    assert_same(model, pipeline := to_sklearn(model), many, encoded(pipeline, many).toarray())


def test_the_directory_of_a_run(table, tmp_path):
    """A model of the command line: its record has the schema."""
    rows = table.assign(y=auto_tools.labels_of(table))
    rows.to_csv(tmp_path / "rows.csv", index=False)
    words = ["--target", "y", "--epsilon", "20", "--out", str(tmp_path / "run")]
    privol_cli("run", str(tmp_path / "rows.csv"), *words)
    out = privol_cli("predict", str(tmp_path / "run"), str(tmp_path / "rows.csv")).stdout
    shown = pandas.read_csv(io.StringIO(out))
    pipeline = to_sklearn(tmp_path / "run")
    assert pipeline.predict(table).tolist() == shown["prediction"].tolist()
    positive = pipeline.classes_[1]
    np.testing.assert_allclose(pipeline.predict_proba(table)[:, 1], shown[f"probability of {positive}"], atol=1e-12)
    plain = privol.DPFTRL().fit(ROWS, TWO)
    save_model(plain, tmp_path / "ranges", inputs={"ranges": {"a": [0, 1]}})
    with pytest.raises(InvalidParameter, match="scaled by ranges; only a schema"):
        to_sklearn(tmp_path / "ranges")
    with pytest.raises(StateError, match="no saved model here"):
        to_sklearn(tmp_path)


def test_nothing_but_what_was_released(table):
    """The pickle of a pipeline has no ledger, no seed and no run."""
    ledger = Ledger()
    model = PrivateClassifier(epsilon=5.0, random_state=987654321, ledger=ledger).fit(
        table, auto_tools.labels_of(table)
    )
    pipeline = to_sklearn(model)
    encoder = pipeline["encode"]
    assert (encoder.ledger, encoder.random_state) == (None, None)
    assert not vars(encoder).keys() & {"ledger_", "account_", "_own_ledger"}
    assert (987654321).to_bytes(4, "little") not in pickle.dumps(pipeline)
    assert model.encoder_.random_state == 987654321
    assert model.encoder_.ledger is ledger


def test_refusals():
    with pytest.raises(InvalidParameter, match=r"a learner of privol, a Priv.* found LogisticRegression"):
        to_sklearn(LogisticRegression())
    for model in (privol.PIGD(), PrivateClassifier()):
        with pytest.raises(NotFittedError):
            to_sklearn(model)
    learner = privol.PIGD(horizon=100, release=[50]).partial_fit(ROWS[:10], TWO[:10], classes=["no", "yes"])
    with pytest.raises(StateError, match="nothing was released"):
        to_sklearn(learner)
    learner = privol.DPFTRL(horizon=100)
    learner.partial_fit(ROWS[:10], TWO[:10], classes=["no", "yes"])
    before = to_sklearn(learner)["model"].coef_.copy()
    pipeline = to_sklearn(learner)
    learner.partial_fit(ROWS[10:20], TWO[10:20])  # a live run goes on, and what was exported stays
    assert pipeline["model"].coef_.tolist() == before.tolist() != learner.coef_.tolist()


def test_the_scaler():
    scaler = RowScaler(2.0).fit(ROWS)
    found = scaler.transform(ROWS)
    norms = np.linalg.norm(ROWS, axis=1)
    assert (found[norms <= 2.0] == ROWS[norms <= 2.0]).all()
    np.testing.assert_allclose(np.linalg.norm(found[norms > 2.0], axis=1), 2.0, rtol=1e-15)
    np.testing.assert_allclose(scaler.transform(sp.csr_array(ROWS)).toarray(), found, rtol=1e-15)
    with pytest.raises(InvalidParameter, match="x_bound must be"):
        RowScaler(0.0).fit(ROWS)
    with pytest.raises(ValueError, match="NaN"):
        scaler.transform([[np.nan, 0.0, 0.0, 0.0]])


@pytest.mark.process
def test_a_pickled_pipeline_needs_no_learner(tmp_path):
    pipeline = to_sklearn(privol.DPFTRL().fit(ROWS, TWO))
    (tmp_path / "model.pickle").write_bytes(pickle.dumps(pipeline))
    code = (
        "import pickle, sys, numpy; "
        f"model = pickle.load(open({str(tmp_path / 'model.pickle')!r}, 'rb')); "
        "print(model.predict(numpy.zeros((1, 4)))[0]); "
        "rooms = 'privol.learners.', 'privol.ledger', 'privol.state'; "
        "print([name for name in sys.modules if name.startswith(rooms)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == [pipeline.predict(np.zeros((1, 4)))[0], "[]"]
    assert isinstance(pipeline, Pipeline)
