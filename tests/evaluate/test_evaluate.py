"""Evaluation against direct computations: progressive scores, the best fixed model, regret."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy import optimize, sparse

import privol
from privol import evaluate, geometry, losses
from privol.errors import InvalidParameter, StateError
from privol.evaluate import Tape, best_in_hindsight, compare, progressive


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(11)
    X = rng.normal(size=(600, 4)) * [1.0, 0.5, 2.0, 0.1]
    score = X @ [1.0, -1.0, 0.5, 3.0] + rng.normal(size=600)
    return X, np.where(score > 0.3, "up", "down"), 0.3 * score


def stream_of(data, kind="classification", dtype=np.float64, csr=False, rows=None):
    X, labels, targets = (part[:rows] for part in data)
    X = X.astype(dtype)
    X = sparse.csr_array(X) if csr else X
    if kind == "classification":
        return privol.open_stream((X, labels), classes=("down", "up"), block_rows=97)
    return privol.open_stream((X, targets), block_rows=97)


def clipped(X, x_bound):
    return X * np.minimum(1.0, x_bound / np.linalg.norm(X, axis=1))[:, None]


# ---- tape ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("csr", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("cut", [1, 50, 97, 1000])
def test_a_tape_replays_the_same_rows(data, csr, dtype, cut):
    with Tape(stream_of(data, dtype=dtype, csr=csr), cut=cut) as tape:
        assert not tape.complete
        passes = [list(tape), list(tape), list(tape.replay(123))]
        assert tape.complete
        assert tape.n_rows == 600
        for blocks in passes:
            rows = [b.X.toarray() if csr else b.X for b in blocks]
            assert np.array_equal(np.vstack(rows), data[0].astype(dtype))
            assert rows[0].dtype == dtype
            assert np.array_equal(np.concatenate([b.y for b in blocks]), data[1] == "up")
            assert [b.first_row for b in blocks] == np.cumsum([1, *(r.shape[0] for r in rows[:-1])]).tolist()
        assert max(b.X.shape[0] for b in passes[0]) <= cut


def test_a_tape_refuses_an_incomplete_pass(data):
    tape = Tape(stream_of(data))
    next(iter(tape))
    with pytest.raises(StateError, match="first pass"):
        iter(tape)
    with pytest.raises(StateError, match="not complete"):
        next(tape.replay(10))


# ---- progressive ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared", "absolute"])
def test_progressive_is_predict_then_learn(data, loss):
    kind = losses.get_loss(loss).kind
    X, labels, targets = data
    y = labels if kind == "classification" else targets
    settings = {"loss": loss, "release": 60, "random_state": 5, "horizon": 600, "radius": 2.0, "x_bound": 1.5}
    found = progressive(privol.PIGD(**settings), stream_of(data, kind), points=4)
    twin = privol.PIGD(**settings)
    if kind == "classification":
        twin.declare_classes(["down", "up"])
    total, correct, absolute = 0.0, 0, 0.0
    for i, (row, target) in enumerate(zip(clipped(X, 1.5), y, strict=True)):
        score = 0.0 if i == 0 else float(row @ np.ravel(twin.coef_) + np.ravel(twin.intercept_)[0])
        coded = (1.0 if target == "up" else -1.0) if kind == "classification" else float(np.clip(target, -1, 1))
        total += float(losses.get_loss(loss).value(score, coded))
        correct += (score > 0) == (coded > 0)
        absolute += abs(score - coded)
        twin.learn_one(row, target)
    assert found.score.rows == 600
    assert found.score.loss == pytest.approx(total / 600, rel=1e-9)
    if kind == "classification":
        assert found.score.accuracy == correct / 600
    else:
        assert found.score.mean_absolute_error == pytest.approx(absolute / 600, rel=1e-9)
    assert len(found.curve.rows) <= 4
    assert found.curve.rows[-1] == 600
    assert found.curve.loss[-1] == pytest.approx(total, rel=1e-9)


# ---- the best fixed model -------------------------------------------------------------------------------------


def mean_loss(data, loss, w, x_bound):
    X, labels, targets = data
    p = clipped(X, x_bound) @ w[:-1] + w[-1]
    y = np.where(labels == "up", 1.0, -1.0) if loss.kind == "classification" else np.clip(targets, -1, 1)
    return float(np.mean(loss.value(p, y)))


@pytest.mark.parametrize("radius", [0.3, 2.0, 50.0])
@pytest.mark.parametrize("loss", ["logistic", "smooth_hinge", "squared", "huber"])
def test_best_fixed_smooth(data, loss, radius):
    loss = losses.get_loss(loss)
    found = best_in_hindsight(stream_of(data, loss.kind), loss=loss, radius=radius, x_bound=1.5)
    assert found.converged
    assert found.gap <= 1e-6
    assert np.linalg.norm(found.model) <= radius * (1 + 1e-12)
    assert found.score.loss == pytest.approx(mean_loss(data, loss, found.model, 1.5), rel=1e-12)
    # an independent solver
    other = optimize.minimize(
        lambda w: mean_loss(data, loss, w, 1.5),
        np.zeros(5),
        method="SLSQP",
        constraints={"type": "ineq", "fun": lambda w: radius**2 - w @ w},
        options={"ftol": 1e-12, "maxiter": 500},
    )
    assert abs(found.score.loss - other.fun) < 2e-6


@pytest.mark.parametrize("loss", ["hinge", "absolute"])
def test_best_fixed_with_kinks_is_the_linear_programme(data, loss):
    X, labels, targets = data
    Z = np.column_stack([clipped(X, 1.5), np.ones(600)])
    y = np.where(labels == "up", 1.0, -1.0) if loss == "hinge" else np.clip(targets, -1, 1)
    eye = np.eye(600)
    if loss == "hinge":  # u >= 1 - y z.w
        A, b, low = np.hstack([-(y[:, None] * Z), -eye]), -np.ones(600), 0.0
    else:
        A, b, low = np.vstack([np.hstack([Z, -eye]), np.hstack([-Z, -eye])]), np.concatenate([y, -y]), None
    cost = np.concatenate([np.zeros(5), np.full(600, 1 / 600)])
    exact = optimize.linprog(cost, A_ub=A, b_ub=b, bounds=[(-1, 1)] * 5 + [(low, None)] * 600)
    kind = losses.get_loss(loss).kind
    box = best_in_hindsight(
        stream_of(data, kind), loss=loss, domain=geometry.Box(-1.0, 1.0), x_bound=1.5, max_passes=2000, tolerance=1e-4
    )
    assert exact.fun - 1e-9 <= box.score.loss <= exact.fun + box.gap + 1e-9
    assert box.gap < 5e-3
    ball = best_in_hindsight(stream_of(data, kind), loss=loss, radius=50.0, x_bound=1.5, tolerance=1e-5)
    free = optimize.linprog(cost, A_ub=A, b_ub=b, bounds=[(None, None)] * 5 + [(low, None)] * 600)
    assert ball.converged
    assert free.fun - 1e-9 <= ball.score.loss <= free.fun + 1e-5


@pytest.mark.parametrize("domain", [geometry.L1Ball(1.0), geometry.Box(-0.5, 0.4), geometry.Simplex(2.0)], ids=str)
@pytest.mark.parametrize("csr", [False, True])
def test_best_fixed_on_other_sets(data, domain, csr):
    found = best_in_hindsight(stream_of(data, csr=csr), domain=domain, x_bound=1.5)
    assert domain.contains(found.model, rtol=1e-9)
    assert found.gap < 1e-5
    loss = losses.get_loss("logistic")
    rng = np.random.default_rng(1)
    others = [domain.project(found.model + 0.1 * rng.normal(size=5)) for _ in range(200)]
    best = min(mean_loss(data, loss, w, 1.5) for w in others)
    assert best >= found.score.loss - found.gap - 1e-12


def test_best_fixed_says_when_it_stopped_early(data):
    found = best_in_hindsight(stream_of(data), radius=50.0, x_bound=1.5, max_passes=1)
    best = best_in_hindsight(stream_of(data), radius=50.0, x_bound=1.5)
    assert not found.converged
    assert best.score.loss >= found.score.loss - found.gap
    assert found.score.loss > best.score.loss + 0.01


def test_best_fixed_of_a_custom_loss(data):
    own = losses.Custom(
        value=lambda p, y: math.log1p(math.exp(-abs(y * p))) + max(0.0, -y * p),
        gradient=lambda p, y: -y / (1.0 + math.exp(min(y * p, 700.0))),
        lipschitz=1.0,
        smoothness=0.25,
        name="mine",
    )
    found = best_in_hindsight(stream_of(data), loss=own, radius=2.0, x_bound=1.5)
    same = best_in_hindsight(stream_of(data), loss="logistic", radius=2.0, x_bound=1.5)
    assert found.score.loss == pytest.approx(same.score.loss, abs=3e-6)


# ---- comparison ----------------------------------------------------------------------------------------------


SETTINGS = {"release": 150, "radius": 3.0, "x_bound": 1.5, "l2": 0.05, "epsilon": 2.0}


@pytest.mark.parametrize("learner", [privol.PIGD, privol.PGIGA])
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_comparison(data, learner, loss):
    kind = losses.get_loss(loss).kind
    made = learner(loss=loss, random_state=9, **SETTINGS)
    found = compare(made, stream_of(data, kind))
    twin = learner(loss=loss, random_state=9, **SETTINGS).fit_stream(stream_of(data, kind))
    assert np.array_equal(made.coef_, twin.coef_)  # evaluating changes nothing
    free = learner(loss=loss, **{**SETTINGS, "epsilon": math.inf})
    score = progressive(free, stream_of(data, kind)).score
    assert found.noiseless.progressive.score == score
    every = learner(loss=loss, **{**SETTINGS, "epsilon": math.inf, "release": "all"})
    assert found.every_row.progressive.score == progressive(every, stream_of(data, kind)).score
    best = best_in_hindsight(stream_of(data, kind), loss=loss, radius=3.0, x_bound=1.5)
    assert found.best.converged
    assert found.best.gap <= 1e-4
    assert -best.gap <= found.best.score.loss - best.score.loss <= found.best.gap
    for run in (found.run, found.noiseless, found.every_row):
        assert run.regret == pytest.approx(600 * (run.progressive.score.loss - found.best.score.loss), abs=1e-9)
        assert run.final.loss >= best.score.loss - best.gap - 1e-12
    model = np.append(np.ravel(made.coef_), np.ravel(made.intercept_))
    assert found.run.final.loss == pytest.approx(mean_loss(data, losses.get_loss(loss), model, 1.5), rel=1e-12)
    record = found.to_record()
    assert record["price_of_noise"] == pytest.approx(found.run.regret - found.noiseless.regret)
    assert record["rows_scaled_to_x_bound"] == int(np.sum(np.linalg.norm(data[0], axis=1) > 1.5))
    if kind == "classification":
        share = np.mean(data[1] == "up")
        assert record["majority_accuracy"] == pytest.approx(max(share, 1 - share))
        assert record["deviation_of_targets"] is None
    else:
        targets = np.concatenate([block.y for block in stream_of(data, kind)])
        spread = np.std(np.clip(targets, -1.0, 1.0))
        assert record["deviation_of_targets"] == pytest.approx(spread)
        errors = record["run"]["final_model"]["root_mean_squared_error"]
        assert record["run"]["final_model"]["r_squared"] == pytest.approx(1.0 - (errors / spread) ** 2)


def test_comparators_spend_nothing(data):
    ledger = privol.ledger.Ledger(epsilon=2.0, delta=1e-6)
    made = privol.PIGD(ledger=ledger, **SETTINGS)
    compare(made, stream_of(data))
    assert len(ledger.accounts) == 1
    assert ledger.entries()[0].releases == 4
    assert made.guarantee_.private


def test_every_figure_is_marked_as_not_private(data):
    record = compare(privol.PIGD(**SETTINGS), stream_of(data)).to_record()
    assert record["private"] is False
    assert record["notice"] == evaluate.NOTICE
    assert record["notice"].startswith("NOT PRIVATE")
    assert record["best_fixed"]["private"] is False
    json.dumps(record, allow_nan=False)


def test_curves_end_in_the_scores(data):
    found = compare(privol.PIGD(random_state=2, **SETTINGS), stream_of(data), points=10)
    record = found.to_record()["run"]
    assert record["curve"]["row"][-1] == 600
    assert record["curve"]["loss"][-1] == pytest.approx(record["progressive"]["loss"])
    assert record["curve"]["accuracy"][-1] == pytest.approx(record["progressive"]["accuracy"])
    rows = np.diff(record["curve"]["row"], prepend=0)
    assert np.average(record["curve"]["recent_loss"], weights=rows) == pytest.approx(record["progressive"]["loss"])


def test_release_all_has_no_third_run(data):
    found = compare(privol.PIGD(**{**SETTINGS, "release": "all"}), stream_of(data, rows=100))
    assert found.every_row is None
    assert found.to_record()["noiseless_every_row"] is None


def test_null_rows_count_nowhere(data):
    X, labels, _ = data
    broken = X.copy()
    broken[[3, 77], 1] = np.nan
    kept = np.setdiff1d(np.arange(600), [3, 77])
    stream = privol.open_stream((broken, labels), classes=("down", "up"))
    found = compare(privol.PIGD(on_invalid="zero", random_state=1, **SETTINGS), stream)
    assert found.rows_null == 2
    assert found.run.progressive.score.rows == 598
    assert found.run.final.rows == 598
    settings = {"radius": 3.0, "x_bound": 1.5, "tolerance": 1e-4}  # as in the comparison
    alone = best_in_hindsight(stream_of((X[kept], labels[kept], X[kept, 0])), **settings)
    assert found.best.score.loss == pytest.approx(alone.score.loss, abs=1e-9)


def test_parameters_are_checked(data):
    with pytest.raises(InvalidParameter, match="tolerance"):
        best_in_hindsight(stream_of(data), tolerance=0.0)
    with pytest.raises(InvalidParameter, match="cut"):
        Tape(stream_of(data), cut=0)
    with pytest.raises(InvalidParameter, match="no targets"):
        best_in_hindsight(privol.open_stream(data[0], target=False), loss="squared")
