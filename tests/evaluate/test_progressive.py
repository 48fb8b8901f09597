"""Progressive validation: scores of the kernel, delay, ranks, curves; observing a run changes nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from ciphers import deepen
from scipy import sparse
from sklearn.metrics import accuracy_score, log_loss, mean_absolute_error, roc_auc_score, root_mean_squared_error

import privol
from privol import losses
from privol._core._learner_run import Progress
from privol.errors import BudgetExceeded, InvalidParameter
from privol.evaluate import compare, progressive
from privol.evaluate._ranks import RecentScores, ScoreHistogram
from privol.evaluate._watch import Watch

pytestmark = pytest.mark.slow

N, D = 700, 4
SETTINGS = {"release": 70, "radius": 3.0, "x_bound": 1.5, "l2": 0.05, "epsilon": 3.0, "random_state": 4}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(N, D)) * [1.0, 0.5, 2.0, 0.1]
    target = 0.4 * (X @ [1.0, -1.0, 0.5, 3.0] + rng.normal(size=N))
    return X, (target > 0.2).astype(float), target


def stream_of(data, kind="classification", block_rows=97, csr=False):
    X, labels, targets = data
    X = sparse.csr_array(X) if csr else X
    if kind == "classification":
        return privol.open_stream((X, labels), classes=(0, 1), block_rows=block_rows)
    return privol.open_stream((X, targets), block_rows=block_rows)


class Recorder:
    """A sink that keeps what it is given."""

    def __init__(self):
        self.parts = []

    def take(self, scores, losses, targets):
        self.parts.append((scores.copy(), losses.copy(), targets.copy()))

    def columns(self):
        return [np.concatenate(column) for column in zip(*self.parts, strict=True)]


def watched(learner, stream):
    recorder = Recorder()
    learner.fit_stream(stream, observer=Watch([recorder]))
    return recorder.columns()


def answers(n, delay):
    """Questions and answers in order of arrival: (row, whether its label is now known).

    The label of row i arrives at moment i + delay; at each moment the labels that are due come before the row.
    """
    waiting = []
    for i in range(n):
        while waiting and waiting[0][1] <= i:
            yield waiting.pop(0)[0], True
        waiting.append((i, i + delay))
        yield i, False
    for i, _ in waiting:
        yield i, True


def twin_scores(data, loss, delay, settings=SETTINGS):
    """Scores of the released models in plain NumPy, row by row."""
    X, labels, targets = data
    kind = losses.get_loss(loss).kind
    learner = privol.PIGD(loss=loss, horizon=N, **settings)
    y = labels if kind == "classification" else targets
    if kind == "classification":
        learner.declare_classes([0, 1])
    scores, started = np.zeros(N), False
    for i, known in answers(N, delay):
        if known:
            learner.learn_one(X[i], y[i])
            started = True
            continue
        row = X[i] * min(1.0, settings["x_bound"] / np.linalg.norm(X[i]))
        scores[i] = row @ np.ravel(learner.coef_) + np.ravel(learner.intercept_)[0] if started else 0.0
    return scores, learner


# ---- the kernel ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared", "absolute"])
def test_scores_are_those_of_the_released_models(data, loss):
    kind = losses.get_loss(loss).kind
    scores, values, targets = watched(privol.PIGD(loss=loss, **SETTINGS), stream_of(data, kind))
    expected, _ = twin_scores(data, loss, 0)
    np.testing.assert_allclose(scores, expected, rtol=1e-12, atol=1e-13)
    y = 2 * data[1] - 1 if kind == "classification" else np.clip(data[2], -1, 1)
    assert np.array_equal(targets, y)
    np.testing.assert_allclose(values, losses.get_loss(loss).value(scores, y), rtol=1e-12)


@pytest.mark.parametrize("csr", [False, True])
@pytest.mark.parametrize("block_rows", [1, 33, 700])
def test_scores_do_not_depend_on_the_blocks(data, block_rows, csr):
    whole = watched(privol.PIGD(**SETTINGS), stream_of(data))
    cut = watched(privol.PIGD(**SETTINGS), stream_of(data, block_rows=block_rows, csr=csr))
    assert all(np.array_equal(a, b) for a, b in zip(whole, cut, strict=True))


def test_null_rows_have_no_score(data):
    X = data[0].copy()
    X[[3, 77], 1] = np.nan
    scores, values, _ = watched(privol.PIGD(on_invalid="zero", **SETTINGS), stream_of((X, *data[1:])))
    assert np.flatnonzero(np.isnan(scores)).tolist() == [3, 77]
    assert np.array_equal(np.isnan(values), np.isnan(scores))


def fresh_run(horizon=N, loss="logistic"):
    learner = privol.PIGD(loss=loss, horizon=horizon, **SETTINGS).declare_classes([0, 1])
    learner.learn_one(np.zeros(D), 1)
    return learner._run.state


def test_the_call_checks_what_it_is_given(data):
    X, y = data[0][:5], 2 * data[1][:5] - 1
    state = fresh_run()
    with pytest.raises(InvalidParameter, match="room for 4 rows, found 5"):
        state.learn(X, y, progress=Progress(4))
    with pytest.raises(InvalidParameter, match="evaluate must have 5 rows, as many as X, found 4"):
        state.learn(X, y, progress=Progress(5), evaluate=(X[:4], y[:4]))
    with pytest.raises(InvalidParameter, match="X must have 4 features, found 3"):
        state.learn(X, y, progress=Progress(5), evaluate=(X[:, :3], y))
    with pytest.raises(InvalidParameter, match="evaluate needs progress"):
        state.learn(X, y, evaluate=(X, y))
    with pytest.raises(InvalidParameter, match="room"):
        state.evaluate(X, y, Progress(4))
    assert state.n_rows == 1
    progress = Progress(5)
    with pytest.raises(ValueError, match="read-only"):
        progress.scores[0] = 1.0


def test_evaluate_learns_nothing(data):
    X, y = data[0], 2 * data[1] - 1
    one, other = fresh_run(2 * N), fresh_run(2 * N)
    progress = Progress(N)
    one.evaluate(X, y, progress)
    before = one.released_model()
    expected = X * np.minimum(1, 1.5 / np.linalg.norm(X, axis=1))[:, None] @ before[:-1] + before[-1]
    np.testing.assert_allclose(progress.scores, expected, rtol=1e-12, atol=1e-15)
    one.learn(X, y, progress=progress, evaluate=(X[::-1].copy(), y[::-1].copy()))
    other.learn(X, y)
    assert np.array_equal(one._secret_iterate(), other._secret_iterate())
    assert np.array_equal(one.released_model(), other.released_model())
    assert one.counters() == other.counters()


def own_loss(fail_at=math.inf):
    calls = [-math.inf]  # the constructor calls it too

    def value(p, y):
        calls[0] += 1
        if calls[0] > fail_at:
            raise ZeroDivisionError
        return math.log1p(math.exp(-abs(y * p))) + max(0.0, -y * p)

    loss = losses.Custom(
        value=value, gradient=lambda p, y: -y / (1.0 + math.exp(min(y * p, 700.0))), lipschitz=1.0, smoothness=0.25,
        name="own",
    )  # fmt: skip
    calls[0] = 0
    return loss


def test_a_failing_loss_leaves_nothing_behind(data):
    """The block is undone, and none of its rows is passed on; earlier blocks stay."""
    recorder = Recorder()
    learner = privol.PIGD(loss=own_loss(150), **SETTINGS)
    with pytest.raises(ZeroDivisionError):
        learner.fit_stream(stream_of(data), observer=Watch([recorder]))
    assert learner.n_rows_ == 97
    found = recorder.columns()[0]
    assert np.array_equal(found, watched(privol.PIGD(loss=own_loss(), **SETTINGS), stream_of(data))[0][:97])
    with pytest.raises(ZeroDivisionError):
        progressive(privol.PIGD(loss=own_loss(5), **SETTINGS), stream_of(data), delay=20)


def test_an_interrupt_passes_on_every_learnt_row(data, monkeypatch):
    """An exception while noise is drawn is raised after the block, whose scores are all there, once."""
    import privol.learners._frame as module

    calls = [0]
    decide = module.decide_lattice_point

    def interrupting(*arguments):
        calls[0] += 1
        if calls[0] == 1:
            raise KeyboardInterrupt
        return decide(*arguments)

    monkeypatch.setattr(module, "decide_lattice_point", interrupting)
    deepen(monkeypatch)
    rng = np.random.default_rng(0)
    X = sparse.random_array((200, 600), density=1e-2, rng=rng, format="csr")
    y = rng.integers(0, 2, 200).astype(float)
    settings = {**SETTINGS, "release": "all", "fit_intercept": False}

    def stream():
        return privol.open_stream((X, y), classes=(0, 1), block_rows=100)

    recorder = Recorder()
    learner = privol.PIGD(**settings)
    with pytest.raises(KeyboardInterrupt):
        learner.fit_stream(stream(), observer=Watch([recorder]))
    assert calls[0] >= 2, "the exception never came"
    scores = recorder.columns()[0]
    assert len(scores) == learner.n_rows_
    assert np.array_equal(scores, watched(privol.PIGD(**settings), stream())[0][: len(scores)])


# ---- delay ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize("delay", [0, 1, 2, 50, 97, 98, 300, 699, 5000])
def test_delay(data, loss, delay):
    """Each row is scored by the model of the rows whose labels have arrived; the run itself is unchanged."""
    kind = losses.get_loss(loss).kind
    learner = privol.PIGD(loss=loss, **SETTINGS)
    found = progressive(learner, stream_of(data, kind), delay=delay)
    scores, twin = twin_scores(data, loss, delay)
    y = 2 * data[1] - 1 if kind == "classification" else np.clip(data[2], -1, 1)
    assert found.delay == delay
    assert found.score.rows == N
    assert found.score.loss == pytest.approx(np.mean(losses.get_loss(loss).value(scores, y)), rel=1e-11)
    if kind == "classification":
        assert found.score.accuracy == accuracy_score(y > 0, scores > 0)
    else:
        assert found.score.mean_absolute_error == pytest.approx(mean_absolute_error(y, scores), rel=1e-11)
    assert np.array_equal(learner.coef_, twin.coef_)
    assert np.array_equal(learner.average_coef_, twin.average_coef_)
    assert learner.ledger_.entries()[0].mu_squared == twin.ledger_.entries()[0].mu_squared


@pytest.mark.parametrize("delay", [0, 1, 3, 10])
def test_predictions_and_labels_come_in_the_order_of_river(delay):
    river = pytest.importorskip("river.stream")
    theirs = [(i, y is not None) for i, _, y in river.simulate_qa([({}, 1)] * 30, moment=None, delay=delay)]
    assert list(answers(30, delay)) == theirs


@pytest.mark.parametrize("csr", [False, True])
@pytest.mark.parametrize("block_rows", [1, 7, 64, 1000])
def test_delay_does_not_depend_on_the_blocks(data, block_rows, csr):
    a = progressive(privol.PIGD(**SETTINGS), stream_of(data), delay=40, points=9)
    b = progressive(privol.PIGD(**SETTINGS), stream_of(data, block_rows=block_rows, csr=csr), delay=40, points=9)
    assert a.score == b.score
    assert a.curve.to_record() == b.curve.to_record()


def test_delay_with_rows_that_are_null_or_refused(data):
    X = data[0].copy()
    X[[0, 450], 1] = np.nan
    found = progressive(privol.PIGD(on_invalid="zero", **SETTINGS), stream_of((X, *data[1:])), delay=30)
    assert found.score.rows == N - 2
    learner = privol.PIGD(**SETTINGS)
    with pytest.raises(privol.errors.InvalidRow, match="row 1,"):
        progressive(learner, stream_of((X, *data[1:])), delay=30)


def test_delay_beyond_the_horizon_is_refused_as_without(data):
    for delay in (0, 30):
        with pytest.raises(BudgetExceeded, match="horizon"):
            progressive(privol.PIGD(horizon=N - 1, **SETTINGS), stream_of(data), delay=delay)


def test_delay_keeps_only_the_rows_that_wait(data):
    from privol.evaluate._watch import Ahead

    ahead = Ahead(stream_of(data, block_rows=10), 25)
    seen = 0
    for block in ahead:
        held = sum(part[0].shape[0] for part in ahead._arrived)
        assert held <= 25 + 3 * 10
        seen += block.X.shape[0]
        ahead.take(10)
    assert seen == N


# ---- metrics -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1.0, 300.0, 1e9])
@pytest.mark.parametrize("ties", [False, True])
def test_area_under_the_curve(scale, ties):
    rng = np.random.default_rng(5)
    positive = rng.random(4000) < 0.3
    scores = scale * (rng.normal(size=4000) + positive)
    if ties:
        scores = np.where(rng.random(4000) < 0.5, 0.0, np.round(scores / scale) * scale)
    histogram, recent = ScoreHistogram(), RecentScores()
    for part in np.array_split(np.arange(4000), 7):
        alone = ScoreHistogram()
        for rows in np.array_split(part, 3):
            recent.add(scores[rows], positive[rows])
        alone.add(scores[part], positive[part])
        assert recent.hand_to(histogram) == alone.area()
    assert recent.hand_to(histogram) is None
    area, error = histogram.area()
    assert abs(area - roc_auc_score(positive, scores)) <= error + 1e-14
    if 1e-3 <= scale <= 1.0 and not ties:
        assert error < 3e-4


def test_the_area_under_the_curve_is_within_its_stated_error():
    """Scores that share a bin, in the worst order and in the best."""
    for order in (1, -1):
        scores = np.repeat([1.0, 1.0 + 1e-5], 50)[::order]
        positive = np.repeat([False, True], 50)
        histogram = ScoreHistogram()
        histogram.add(scores, positive)
        area, error = histogram.area()
        assert (area, error) == (0.5, 0.5)
        assert abs(area - roc_auc_score(positive, scores)) == error
    zeros = ScoreHistogram()
    zeros.add(np.array([0.0, -0.0, 0.0]), np.array([True, False, False]))
    assert zeros.area() == (0.5, 0.0)


def test_the_area_of_more_pairs_than_an_integer_can_count():
    scores, positive = np.array([-1.0, 0.0, 0.0, 0.5, 0.5, 2.0]), np.array([False, False, True, False, True, True])
    histogram = ScoreHistogram()
    histogram.add(scores, positive)
    few = histogram.area()
    histogram.counts *= 10**9
    assert histogram.area() == pytest.approx(few, rel=1e-15)


def test_bins_are_monotone():
    grid = np.concatenate([-np.logspace(30, -30, 3001), [0.0], np.logspace(-30, 30, 3001)])
    histogram = ScoreHistogram()
    bins = []
    for score in grid[::25]:
        histogram.counts[:] = 0
        histogram.add(np.array([score]), np.array([False]))
        bins.append(int(np.flatnonzero(histogram.counts[0])[0]))
    assert bins == sorted(bins)
    assert min(bins) == 0
    assert max(bins) == histogram.counts.shape[1] - 1
    histogram.add(np.array([np.inf, -np.inf]), np.array([False, True]))


def test_area_of_one_class_is_unknown(data):
    histogram = ScoreHistogram()
    assert histogram.area() is None
    histogram.add(np.ones(3), np.ones(3, dtype=bool))
    assert histogram.area() is None
    found = progressive(privol.PIGD(**SETTINGS), stream_of((data[0], np.ones(N), data[2])), points=5)
    assert found.score.auc is None
    assert found.score.auc_error is None
    assert "auc" not in found.score.to_record()
    assert found.curve.to_record()["auc"] == [None] * 5


def test_metrics_of_classification(data):
    learner = privol.PIGD(**SETTINGS)
    scores = watched(privol.PIGD(**SETTINGS), stream_of(data))[0]
    score = progressive(learner, stream_of(data)).score
    truth = data[1] > 0
    assert score.accuracy == accuracy_score(truth, scores > 0)
    assert score.log_loss == score.loss == pytest.approx(log_loss(truth, 1 / (1 + np.exp(-scores))), rel=1e-10)
    assert abs(score.auc - roc_auc_score(truth, scores)) <= score.auc_error < 0.01
    assert score.mean_absolute_error is score.root_mean_squared_error is None
    hinge = progressive(privol.PIGD(loss="hinge", **SETTINGS), stream_of(data)).score
    assert hinge.log_loss is None
    assert hinge.auc is not None


def test_metrics_of_regression(data):
    scores, _, y = watched(privol.PIGD(loss="huber", **SETTINGS), stream_of(data, "regression"))
    score = progressive(privol.PIGD(loss="huber", **SETTINGS), stream_of(data, "regression")).score
    assert score.mean_absolute_error == pytest.approx(mean_absolute_error(y, scores), rel=1e-12)
    assert score.root_mean_squared_error == pytest.approx(root_mean_squared_error(y, scores), rel=1e-12)
    assert score.accuracy is score.auc is score.log_loss is None


def test_metrics_are_those_asked_for(data):
    score = progressive(privol.PIGD(**SETTINGS), stream_of(data), metrics=["auc"]).score
    assert set(score.to_record()) == {"rows", "loss", "auc", "auc_error"}
    found = progressive(privol.PIGD(**SETTINGS), stream_of(data), metrics=())
    assert set(found.score.to_record()) == {"rows", "loss"}
    assert set(found.curve.to_record()) == {"row", "loss", "recent_loss"}
    for loss, name in (("hinge", "log_loss"), ("logistic", "mean_absolute_error")):
        with pytest.raises(InvalidParameter, match="metrics must be one of"):
            progressive(privol.PIGD(loss=loss, **SETTINGS), stream_of(data), metrics=[name])
    with pytest.raises(InvalidParameter, match="metrics must be a sequence"):
        progressive(privol.PIGD(**SETTINGS), stream_of(data), metrics="auc")
    with pytest.raises(InvalidParameter, match="delay"):
        progressive(privol.PIGD(**SETTINGS), stream_of(data), delay=-1)


@pytest.mark.parametrize("kind", ["classification", "regression"])
def test_curve(data, kind):
    """Points at fixed rows: means so far, and means and areas of the rows since the point before."""
    loss = "logistic" if kind == "classification" else "squared"
    scores, values, y = watched(privol.PIGD(loss=loss, **SETTINGS), stream_of(data, kind))
    record = progressive(privol.PIGD(loss=loss, **SETTINGS), stream_of(data, kind), points=6).curve.to_record()
    ends = [117, 234, 351, 468, 585, 700]  # every ceil(700 / 6) rows, and the last
    assert record["row"] == ends
    direct = {
        "loss": lambda at: np.mean(values[at]),
        "accuracy": lambda at: np.mean((scores[at] > 0) == (y[at] > 0)),
        "log_loss": lambda at: np.mean(values[at]),
        "auc": lambda at: roc_auc_score(y[at] > 0, scores[at]),
        "mean_absolute_error": lambda at: np.mean(np.abs(scores[at] - y[at])),
        "root_mean_squared_error": lambda at: np.sqrt(np.mean((scores[at] - y[at]) ** 2)),
    }
    names = [name for name in record if name != "row" and not name.startswith("recent_")]
    assert len(names) == (4 if kind == "classification" else 3)
    for name in names:
        tolerance = 0.02 if name == "auc" else 1e-10
        for i, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):
            assert record[name][i] == pytest.approx(direct[name](slice(0, end)), abs=tolerance)
            assert record[f"recent_{name}"][i] == pytest.approx(direct[name](slice(begin, end)), abs=tolerance)


def test_comparison_carries_the_metrics_and_the_delay(data):
    record = compare(privol.PIGD(**SETTINGS), stream_of(data), delay=25).to_record()
    assert record["delay"] == 25
    for run in ("run", "noiseless", "noiseless_every_row"):
        assert {"accuracy", "log_loss", "auc", "auc_error"} <= set(record[run]["progressive"])
        assert {"accuracy", "log_loss", "auc"} <= set(record[run]["final_model"])
    assert record["best_fixed"]["auc"] > 0.5
    own = progressive(privol.PIGD(**SETTINGS), stream_of(data), delay=25).score
    assert record["run"]["progressive"]["loss"] == own.loss
    regression = compare(privol.PIGD(loss="squared", **SETTINGS), stream_of(data, "regression")).to_record()
    assert {"mean_absolute_error", "root_mean_squared_error"} <= set(regression["best_fixed"])
