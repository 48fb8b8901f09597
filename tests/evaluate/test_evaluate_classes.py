"""Evaluated runs with a score for each class: metrics by their definitions, regret, private metrics, streams."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from class_tools import LABELS
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import logsumexp

from privol import DPFTRL, NOGD, open_stream
from privol.errors import InvalidParameter, StreamError
from privol.evaluate import PrivateMetrics, Task, best_in_hindsight, compare, progressive
from privol.losses import class_losses, get_loss, log_probabilities
from privol.streams import Schema

N, D = 600, 3
WEIGHTS = {"ash": 2.0, "oak": 0.5}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(N, D)) / 2
    index = (X @ rng.normal(size=(D, 4)) * 3 + rng.gumbel(size=(N, 4))).argmax(axis=1)
    return X, np.array(LABELS)[index]


def stream_of(rows, block_rows=97):
    X, labels = rows
    return open_stream((X, labels), classes=LABELS, block_rows=block_rows)


def learner_of(loss="softmax", **more):
    return DPFTRL(**{"loss": loss, "epsilon": 8.0, "radius": 6.0, "random_state": 1, "release": 20} | more)


def by_hand(rows, learner):
    """Scores of the model released before each row, row by row; labels as indices."""
    X, labels = rows
    y = np.searchsorted(LABELS, labels)
    model = DPFTRL(**learner.get_params() | {"horizon": N}).declare_classes(LABELS)
    model.ask(D)
    scores = np.empty((N, 4))
    for i in range(N):
        v = X[i] * min(1.0, 1.0 / np.linalg.norm(X[i]))
        scores[i] = model.coef_ @ v + model.intercept_
        model.learn_one(X[i], labels[i])
    return scores, y


@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("loss", ["softmax", "logistic", "hinge"])
def test_progressive_figures_by_their_definitions(loss, weights, rows):
    learner = learner_of(loss, class_weight=weights)
    found = progressive(learner, stream_of(rows), points=30)
    scores, y = by_hand(rows, learner)
    w = np.array([1.0 if weights is None else weights.get(label, 1.0) for label in LABELS])[y]
    values = w * class_losses(get_loss(loss), scores, y)
    assert found.score.rows == N
    assert found.score.loss == pytest.approx(values.mean(), rel=1e-10)
    assert found.score.accuracy == np.mean(scores.argmax(axis=1) == y)
    assert found.score.auc is None
    if loss == "hinge":
        assert found.score.log_loss is None
        metrics = ("accuracy",)
    else:
        p = np.exp(scores) if loss == "softmax" else 1 / (1 + np.exp(-scores))
        logs = -np.log(p[np.arange(N), y] / p.sum(axis=1))
        assert found.score.log_loss == pytest.approx(logs.mean(), rel=1e-10)
        assert found.curve.log_loss[-1] == pytest.approx(logs.sum(), rel=1e-10)
        metrics = ("accuracy", "log_loss")
    assert found.curve.metrics == metrics
    record = found.curve.to_record()
    assert record["row"] == list(range(20, N + 1, 20))
    assert record["accuracy"][9] == np.mean(scores.argmax(axis=1)[:200] == y[:200])
    assert record["recent_accuracy"][9] == pytest.approx(np.mean(scores.argmax(axis=1)[180:200] == y[180:200]))


def test_weights_of_two_classes_count_in_the_loss_not_in_the_log_loss(rows):
    X, labels = rows
    y = np.where(labels == "oak", "yes", "no")
    learner = DPFTRL(epsilon=8.0, class_weight={"yes": 4.0}, random_state=1, release=20, radius=6.0)
    found = progressive(learner, open_stream((X, y), classes=("no", "yes"))).score
    assert found.loss > 1.2 * found.log_loss
    assert found.auc is not None


def test_figures_do_not_depend_on_the_form_of_the_rows(rows):
    """The same figures for any blocks, any layout and a delay."""
    X, _ = rows
    expected = progressive(learner_of(), stream_of(rows))
    for stream in (stream_of(rows, 600), stream_of((sparse.csr_matrix(X), rows[1]), 50)):
        found = progressive(learner_of(), stream)
        assert found.score == expected.score
    late = progressive(learner_of(), stream_of(rows, 41), delay=50)
    model = learner_of(horizon=N).declare_classes(LABELS)
    model.ask(D)
    right = 0
    for i in range(N):
        if i >= 50:
            model.learn_one(X[i - 50], rows[1][i - 50])
        right += model.predict_one(X[i]) == rows[1][i]
    assert late.score.accuracy == right / N
    assert late.score.rows == N


def test_null_rows(rows):
    X, labels = rows[0].copy(), rows[1]
    X[5, 1] = np.nan
    found = progressive(learner_of(on_invalid="zero"), open_stream((X, labels), classes=LABELS), delay=3)
    assert found.score.rows == N - 1


def test_unknown_metrics_are_refused(rows):
    with pytest.raises(InvalidParameter, match="auc"):
        progressive(learner_of(), stream_of(rows), metrics=["auc"])
    assert Task.of(learner_of(), LABELS).omitted == ("auc",)
    assert Task.of(DPFTRL(), LABELS[:2]).omitted == ()
    assert progressive(learner_of(), stream_of(rows), metrics=["accuracy"]).score.log_loss is None


# ---- the best fixed model -----------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize(("loss", "radius"), [("softmax", 2.0), ("softmax", 50.0), ("logistic", 2.0), ("hinge", 2.0)])
def test_the_best_fixed_model(loss, radius, weights, rows):
    """Compared with a general optimiser: no model of the ball is better by more than the gap."""
    X, labels = rows
    v = np.column_stack([X * np.minimum(1.0, 1.0 / np.linalg.norm(X, axis=1))[:, None], np.ones(N)])
    y = np.searchsorted(LABELS, labels)
    w = np.array([1.0 if weights is None else weights.get(label, 1.0) for label in LABELS])[y]
    words = {"loss": loss, "radius": radius, "class_weight": weights}
    found = best_in_hindsight(stream_of(rows), **words, tolerance=1e-5)

    def value(flat):
        return float(np.mean(w * class_losses(get_loss(loss), v @ flat.reshape(4, -1).T, y)))

    assert np.linalg.norm(found.model) <= radius * (1 + 1e-9)
    assert found.score.loss == pytest.approx(value(found.model), rel=1e-9)
    ball = {"type": "ineq", "fun": lambda u: radius**2 - u @ u}
    general = minimize(value, found.model * 0.9, constraints=[ball], options={"maxiter": 400})
    assert found.score.loss <= general.fun + found.gap + 1e-6
    assert found.score.loss >= general.fun - 1e-3
    assert found.gap <= (0.02 if loss == "hinge" else 1e-4)
    if loss != "hinge":
        assert found.converged


def test_comparison(rows):
    stages = []
    found = compare(learner_of(class_weight=WEIGHTS), stream_of(rows), stage=stages.append)
    record = json.loads(json.dumps(found.to_record()))
    assert record["omitted_metrics"] == ["auc"]
    counts = np.unique(rows[1], return_counts=True)[1]
    assert record["majority_accuracy"] == counts.max() / N
    assert set(record["run"]["progressive"]) == {"rows", "loss", "accuracy", "log_loss"}
    regret = (found.run.progressive.score.loss - found.best.score.loss) * N
    assert found.run.regret == pytest.approx(regret)
    assert found.noiseless.regret < found.run.regret
    assert stages == ["best fixed model", "without noise"]
    two = compare(DPFTRL(loss="softmax", radius=3.0), open_stream((rows[0], rows[1] == "oak"), classes=(False, True)))
    assert two.to_record()["omitted_metrics"] == ["auc"]
    assert two.run.progressive.score.log_loss == two.run.progressive.score.loss


# ---- private metrics ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["softmax", "logistic"])
def test_private_metrics(loss, rows):
    """Without noise the windows are the figures themselves; the loss's bound is four times that of knowing nothing."""
    learner = learner_of(loss, class_weight=WEIGHTS)
    found = progressive(learner, stream_of(rows), private=PrivateMetrics(mu=math.inf, windows=4)).private
    nothing = 2.0 * (math.log(4) if loss == "softmax" else 4 * math.log(2))
    assert found.loss_bound == pytest.approx(4 * nothing)
    scores, y = by_hand(rows, learner)
    w = np.array([WEIGHTS.get(label, 1.0) for label in LABELS])[y]
    values = w * class_losses(get_loss(loss), scores, y)
    for window in found.windows:
        part = slice(window.first_row - 1, window.last_row)
        assert window.first == np.sum(scores[part].argmax(axis=1) == y[part])
        expected = np.minimum(values, found.loss_bound)[part].sum()
        assert window.loss * found.loss_bound == pytest.approx(expected, abs=1e-2)
    noisy = progressive(learner, stream_of(rows), private=PrivateMetrics(mu=0.5, windows=4)).private
    assert noisy.guarantee.mu > 0.5


# ---- streams of classes -----------------------------------------------------------------------------------------


def test_streams_of_classes(tmp_path):
    path = tmp_path / "trees.csv"
    path.write_text("height,kind\n1,oak\n2,ash\n3, birch\n4,oak\n")
    stream = open_stream(path, target="kind", classes=["oak", "ash", "birch"])
    assert stream.classes == ("oak", "ash", "birch")
    assert next(iter(stream)).y.tolist() == [0.0, 1.0, 2.0, 0.0]
    with pytest.raises(StreamError, match="row 3: found 'birch', allowed is one of 'oak', 'ash', 'larch'"):
        list(open_stream(path, target="kind", classes=["oak", "ash", "larch"]))
    one = open_stream(path, target="kind", classes=["oak", "ash", "birch"], positive="ash")
    assert one.classes == ("not ash", "ash")
    learner = DPFTRL(loss="softmax", horizon=4, random_state=0).fit_stream(stream)
    assert learner.classes_.tolist() == ["oak", "ash", "birch"]  # in the declared order
    with pytest.raises(InvalidParameter, match="two different labels"):
        NOGD(horizon=4).fit_stream(stream)
    numbers = open_stream((np.eye(3), [7, 8, 9]), classes=["9", 8, 7.0])
    assert next(iter(numbers)).y.tolist() == [2.0, 1.0, 0.0]


def test_a_schema_of_classes(tmp_path):
    path = tmp_path / "trees.csv"
    path.write_text("height,kind\n1,oak\n2,ash\n3,birch\n4,red oak\n")
    classes = [["oak", "red oak"], "ash", "birch"]
    schema = Schema.load({"columns": {"height": {"range": [0, 5]}}, "target": {"column": "kind", "classes": classes}})
    assert schema.classes == ("oak", "ash", "birch")
    assert Schema.from_record(json.loads(json.dumps(schema.to_record()))) == schema
    stream = open_stream(path, schema=schema)
    assert stream.classes == ("oak", "ash", "birch")
    assert next(iter(stream)).y.tolist() == [0.0, 1.0, 2.0, 0.0]
    path.write_text("height,kind\n1,larch\n")
    with pytest.raises(StreamError, match=r"'larch', allowed is one of 'oak', .*labels are stated by classes"):
        list(open_stream(path, schema=schema))
    for wrong, match in (
        ({"classes": ["a"]}, "at least two"), ({"classes": "ab"}, "at least two"),
        ({"classes": ["a", ["b", "a"]]}, "twice"),
        ({"classes": ["a", []]}, "label"), ({"classes": ["a", "b"], "positive": ["a"]}, "exclude"),
        ({"classes": ["a", "b"], "range": [0, 1]}, "exclude"), ({"classes": ["a", ""]}, "label"),
    ):  # fmt: skip
        with pytest.raises(InvalidParameter, match=match):
            Schema.load({"columns": {"x": {}}, "target": {"column": "kind", **wrong}})


def test_log_probabilities_far_out():
    """Even if all sigmoids underflow, the classes still have shares."""
    scores = np.array([[-800.0, -801.0, -900.0], [900.0, 800.0, -900.0]])
    for loss in ("softmax", "logistic"):
        logs = log_probabilities(get_loss(loss), scores)
        np.testing.assert_allclose(logsumexp(logs, axis=1), 0.0, atol=1e-12)
        np.testing.assert_allclose(logs[0], [-math.log1p(math.exp(-1)), -1 - math.log1p(math.exp(-1)), logs[0, 2]])
    assert log_probabilities(get_loss("logistic"), scores)[1].tolist()[:2] == [-math.log(2)] * 2
