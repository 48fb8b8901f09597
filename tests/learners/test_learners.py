"""The life of a run: bad input changes nothing, releases come as planned, nothing secret is revealed."""

from __future__ import annotations

import copy
import io
import math
import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from run_tools import D, N, data, everything, started
from scipy import sparse
from sklearn.exceptions import NotFittedError

from privol import PGIGA, PIGD
from privol.errors import BudgetExceeded, InvalidParameter, InvalidRow, StateError
from privol.geometry import Simplex
from privol.ledger import Ledger


def single(X):
    with np.errstate(over="ignore"):
        return X.astype(np.float32)


# ---- bad rows ------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e151])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, single])
def test_a_bad_row_is_named_and_nothing_of_its_block_happens(bad, form):
    X, y = data(seed=1)
    X[7, 2] = bad
    learner = started()
    before = everything(learner)
    with pytest.raises(InvalidRow, match=r"row 18, feature 2: found .*nothing of its block was learnt") as caught:
        learner.partial_fit(form(X[:12]), y[:12])
    assert (caught.value.row, caught.value.column) == (18, 2)
    assert everything(learner) == before
    learner.partial_fit(X[:7], y[:7])  # the run continues
    assert learner.n_rows_ == 17


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e200])
def test_a_bad_row_alone(bad):
    learner = started()
    before = everything(learner)
    with pytest.raises(InvalidRow, match="row 11, feature 1") as caught:
        learner.learn_one([0.0, bad, 0.0], "yes")
    assert (caught.value.row, caught.value.column) == (11, 1)
    assert everything(learner) == before


@pytest.mark.parametrize("method", ["predict", "decision_function", "predict_proba"])
def test_a_row_whose_norm_is_no_double_has_no_score(method):
    learner = started()
    with pytest.raises(InvalidRow, match=r"row 2, feature 1: found 1e\+200"):
        getattr(learner, method)([[0.0, 1.0, 0.0], [0.0, 1e200, 0.0]])


@pytest.mark.parametrize("method", ["partial_fit", "learn_one"])
@pytest.mark.parametrize("label", ["maybe", "", 1.0, None])
def test_a_label_outside_the_set(method, label):
    X, y = data(seed=1)
    learner = started()
    before = everything(learner)
    labels = y.astype(object)
    labels[5] = label
    given = {"partial_fit": (X[:8], labels[:8]), "learn_one": (X[5], label)}
    with pytest.raises(ValueError, match=r"label|target"):
        getattr(learner, method)(*given[method])
    assert everything(learner) == before


def test_the_row_of_an_unknown_label_is_named():
    X, y = data(seed=1)
    y = y.astype(object)
    y[5] = "maybe"
    learner = started()
    with pytest.raises(InvalidRow, match=r"row 16, target: found label 'maybe', allowed are \['no', 'yes'\]") as caught:
        learner.partial_fit(X[:8], y[:8])
    assert (caught.value.row, caught.value.column) == (16, None)
    for label in ("maybe", ["yes"]):
        with pytest.raises(InvalidRow, match="row 11, target"):
            learner.learn_one(X[5], label)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_target_that_is_not_finite(bad):
    X, y = data(seed=1, regression=True)
    learner = started(regression=True)
    before = everything(learner)
    y[3] = bad
    with pytest.raises(ValueError, match=r"row 14, target|NaN|infinity"):
        learner.partial_fit(X[:8], y[:8])
    with pytest.raises(InvalidRow, match="row 11, target") as caught:
        learner.learn_one(X[0], bad)
    assert caught.value.row == 11
    with pytest.raises(InvalidRow, match="row 11, target: found 'much', allowed are finite numbers"):
        learner.learn_one(X[0], "much")
    assert everything(learner) == before


@pytest.mark.parametrize(
    ("X", "y"),
    [
        *((np.zeros((2, width)), ["no", "yes"]) for width in (D + 1, D - 1)),
        (sparse.csr_array((2, D + 1)), ["no", "yes"]),
        (np.zeros((0, D)), []),
        (np.zeros((2, D)), ["no"]),
        (np.zeros(D), ["no"]),
        (np.zeros((2, D, 1)), ["no", "yes"]),
        ([["a"] * D] * 2, ["no", "yes"]),
        (np.zeros((2, D)) * 1j, ["no", "yes"]),
    ],
)
def test_blocks_of_a_wrong_shape_or_type(X, y):
    learner = started()
    before = everything(learner)
    with pytest.raises((ValueError, TypeError)):
        learner.partial_fit(X, y)
    assert everything(learner) == before


@pytest.mark.parametrize("x", [np.zeros(D + 1), np.zeros(0), np.zeros((1, D)), 3.0, "abc", ["a", "b", "c"]])
def test_one_row_of_a_wrong_shape_or_type(x):
    learner = started()
    before = everything(learner)
    with pytest.raises((ValueError, TypeError)):
        learner.learn_one(x, "yes")
    assert everything(learner) == before


def test_fit_refuses_before_it_opens_a_run():
    X, y = data()
    ledger = Ledger()
    learner = PIGD(ledger=ledger)
    for rows, labels, error in (
        (np.where(np.arange(N)[:, None] == 30, math.nan, X), y, InvalidRow),
        (X, ["same"] * N, InvalidParameter),
        (X, np.arange(N) % 3, InvalidParameter),
        (X[:0], y[:0], ValueError),
        (X, y[:-1], ValueError),
    ):
        with pytest.raises(error):
            learner.fit(rows, labels)
    with pytest.raises(BudgetExceeded, match="horizon"):
        PIGD(ledger=ledger, horizon=N - 1).fit(X, y)
    assert not ledger.accounts
    with pytest.raises(NotFittedError):
        _ = learner.coef_
    with pytest.raises(NotFittedError):
        learner.predict(X)


def test_the_first_block_may_be_bad_too():
    X, y = data()
    X[2, 0] = math.nan
    ledger = Ledger()
    learner = PIGD(horizon=50, release=5, ledger=ledger)
    with pytest.raises(InvalidRow, match="row 3, feature 0"):
        learner.partial_fit(X, y, classes=["no", "yes"])
    assert not ledger.accounts
    with pytest.raises(InvalidParameter, match="classes"):
        learner.partial_fit(X[3:], y[3:])
    with pytest.raises(InvalidParameter, match="classes"):
        learner.partial_fit(X[3:], y[3:], classes=["no", "yes", "maybe"])
    with pytest.raises(InvalidParameter, match="classes"):
        learner.learn_one(X[3], y[3])
    with pytest.raises(InvalidParameter, match="horizon"):
        PIGD(release=5).partial_fit(X[3:], y[3:], classes=["no", "yes"])
    with pytest.raises(InvalidParameter, match="release"):
        PIGD(horizon=50).partial_fit(X[3:], y[3:], classes=["no", "yes"])
    assert not ledger.accounts
    learner.partial_fit(X[3:], y[3:], classes=["yes", "no"])
    with pytest.raises(InvalidParameter, match="classes must stay"):
        learner.partial_fit(X[3:9], y[3:9], classes=["yes", "now"])


@pytest.mark.parametrize(
    "parameters",
    [
        {"on_invalid": "skip"},
        {"y_bound": "wide"},
        {"x_bound": None},
        {"horizon": "long"},
        {"horizon": 2.5},
        {"ledger": 3},
        {"random_state": "x"},
        {"epsilon": "much"},
        {"loss": 3},
        {"radius": -1.0},
        {"l2": "x"},
    ],
)
def test_bad_parameters(parameters):
    X, y = data()
    ledger = Ledger()
    with pytest.raises(InvalidParameter):
        PIGD(**{"ledger": ledger, **parameters}).fit(X, y)
    assert not ledger.accounts


# ---- horizon and budget ----------------------------------------------------------------------------


def test_rows_beyond_the_horizon_are_refused_whole():
    X, y = data()
    learner = started(rows=28)
    before = everything(learner)
    with pytest.raises(BudgetExceeded, match="28 of 30"):
        learner.partial_fit(X[:3], y[:3])
    assert everything(learner) == before
    learner.partial_fit(X[:2], y[:2])
    with pytest.raises(BudgetExceeded):
        learner.learn_one(X[0], "yes")
    assert learner.n_rows_ == 30


def test_a_limited_ledger_refuses_before_anything_is_learnt():
    X, y = data()
    ledger = Ledger(epsilon=1.0, delta=1e-6)
    first = PIGD(epsilon=0.8, delta=1e-6, ledger=ledger).fit(X, y)
    second = PGIGA(epsilon=0.8, delta=1e-6, ledger=ledger, horizon=N, release=10)
    with pytest.raises(BudgetExceeded):
        second.fit(X, y)
    with pytest.raises(BudgetExceeded):
        second.partial_fit(X, y, classes=["no", "yes"])
    with pytest.raises(NotFittedError):
        _ = second.coef_
    assert len(ledger.accounts) == 1
    assert ledger.spent.mu == pytest.approx(first.guarantee_.mu, rel=1e-8)
    # a refused call leaves a finished learner unchanged
    coef = first.coef_
    with pytest.raises(BudgetExceeded):
        first.fit(X, y)
    np.testing.assert_array_equal(first.coef_, coef)
    third = PIGD(epsilon=0.5, delta=1e-6, ledger=ledger).fit(X, y)
    assert ledger.spent.mu == pytest.approx(math.hypot(first.guarantee_.mu, third.guarantee_.mu), rel=1e-8)
    assert ledger.spent.epsilon(1e-6) <= 1.0
    with pytest.raises(BudgetExceeded):
        PIGD(epsilon=math.inf, ledger=ledger).fit(X, y)
    with pytest.raises(InvalidParameter, match="adjacency"):
        PIGD(epsilon=0.01, adjacency="zero_out", ledger=ledger).fit(X, y)


def test_closing_early_gives_back_what_was_not_spent():
    X, y = data()
    ledger = Ledger(epsilon=1.0, delta=1e-6)
    learner = PIGD(epsilon=1.0, delta=1e-6, ledger=ledger, horizon=N, release=10, noise_shape="paper")
    learner.partial_fit(X[:25], y[:25], classes=["no", "yes"])
    assert ledger.remaining == 0.0
    plan = learner._run.plan
    expected = math.hypot(*(plan.sensitivity(t) / plan.std(t) for t in (10, 20)))
    assert ledger.spent.mu == pytest.approx(expected, rel=1e-8)
    learner.close()
    assert ledger.remaining == pytest.approx(math.sqrt(ledger.mu**2 - expected**2), rel=1e-6)
    (entry,) = ledger.entries()
    assert (entry.last_row, entry.releases, entry.open, entry.learner) == (25, 2, False, "PIGD")


@pytest.mark.parametrize("cls", [PIGD, PGIGA])
@pytest.mark.parametrize("release", ["all", 7, "last", [3, 30]])
@pytest.mark.parametrize("calibration", ["tight", "published"])
def test_what_the_ledger_reads_is_within_the_guarantee(cls, release, calibration):
    """At every moment of a run; at its end it equals the whole guarantee."""
    X, y = data()
    learner = cls(calibration=calibration, l2=0.5, horizon=N, release=release)
    learner.declare_classes(["no", "yes"])
    spent = 0.0
    for row, label in zip(X, y, strict=True):
        learner.learn_one(row, label)
        now = learner.ledger_.spent.mu
        assert spent <= now <= learner.guarantee_.mu * (1 + 1e-15)
        spent = now
    learner.close()
    if spent:  # a schedule may end before its first step
        assert spent >= learner.guarantee_.mu * (1 - 1e-8)
    assert learner.n_releases_ == learner.guarantee_.releases
    assert learner.ledger_.spent.releases == learner.n_releases_


# ---- releases --------------------------------------------------------------------------------------


def test_before_the_first_release_the_model_is_the_starting_point():
    X, y = data()
    learner = PIGD(horizon=20, release=[15], domain=Simplex(1.0)).partial_fit(X[:14], y[:14], classes=["no", "yes"])
    assert learner.n_releases_ == 0
    np.testing.assert_allclose(learner.coef_, 0.25)
    np.testing.assert_allclose(learner.intercept_, 0.25)
    np.testing.assert_allclose(learner.average_coef_, 0.25)
    learner.learn_one(X[14], y[14])
    assert learner.n_releases_ == 1
    assert not np.allclose(learner.coef_, 0.25)


def test_rows_between_releases_change_nothing_that_can_be_seen():
    X, y = data()
    learner = started(rows=8)
    seen = learner.coef_.tobytes(), learner.intercept_.tobytes(), learner.predict_proba(X).tobytes(), repr(learner)
    for i in range(8, 11):
        learner.learn_one(X[i], y[i])
        assert seen == (
            learner.coef_.tobytes(),
            learner.intercept_.tobytes(),
            learner.predict_proba(X).tobytes(),
            repr(learner),
        )
    learner.learn_one(X[11], y[11])
    assert learner.coef_.tobytes() != seen[0]


def test_a_closed_learner_takes_no_more_rows():
    X, y = data()
    learner = started().close()
    coef = learner.coef_
    learner.close()
    for action in (lambda: learner.partial_fit(X, y), lambda: learner.learn_one(X[0], "yes")):
        with pytest.raises(StateError, match="closed"):
            action()
    np.testing.assert_array_equal(learner.coef_, coef)
    with pytest.raises(StateError):
        learner._run.state.secret_arrays()
    assert not learner._run.state._secret_iterate().any(), "the secret iterate is wiped"
    fitted = PIGD().fit(X, y)
    with pytest.raises(StateError, match="closed"):
        fitted.learn_one(X[0], "yes")
    assert PIGD().close().get_params()["loss"] == "logistic"


def test_guarantee_texts():
    X, y = data()
    tight = PIGD(epsilon=1.0, delta=1e-6).fit(X, y).guarantee_
    text = tight.sentence()
    assert text.startswith("Differential privacy with (epsilon, delta) = (1, 1e-6)")
    assert "at most 1 release of the model out of 40 rows" in text
    assert "OpenSSL" in text
    assert tight.private
    published = PIGD(calibration="published", release=3).fit(X, y).guarantee_
    assert "claims" in published.sentence()
    assert published.releases == 13
    seeded = PIGD(random_state=3).fit(X, y)
    assert seeded.guarantee_.sentence().startswith("NOT PRIVATE")
    assert not seeded.ledger_.spent.private
    none = PIGD(epsilon=math.inf).fit(X, y)
    assert none.guarantee_.sentence().startswith("NO PRIVACY")
    assert none.ledger_.spent.mu == math.inf
    zero_out = PIGD(adjacency="zero_out", on_invalid="zero").fit(X, y).guarantee_
    assert "null row" in zero_out.sentence()
    assert "refused, by the learner or by the reader" in text
    assert "delta is not below" not in text
    assert "delta is not below one over the number of rows" in PIGD(delta=0.05).fit(X, y).guarantee_.sentence()


def test_predictions():
    X, y = data()
    X[0] *= 50  # beyond the bound: scaled as in learning
    for learner in (PIGD(random_state=1).fit(X, y), PIGD(random_state=1, fit_intercept=False).fit(X, y)):
        assert [learner.predict_one(row) for row in X] == learner.predict(X).tolist()
        np.testing.assert_array_equal(learner.predict(sparse.csr_array(X)), learner.predict(X))
        np.testing.assert_allclose(learner.predict_proba(X)[:, 1], 1 / (1 + np.exp(-learner.decision_function(X))))
        np.testing.assert_allclose(learner.predict_proba(X).sum(axis=1), 1.0)
        clipped = X / np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))
        expected = clipped @ learner.coef_[0] + learner.intercept_
        np.testing.assert_allclose(learner.decision_function(X), expected, rtol=1e-12, atol=1e-12)
        assert learner.score(X, y) == np.mean(learner.predict(X) == y)
        with pytest.raises(ValueError, match=r"shape|features"):
            learner.predict_one(X[0, :2])
        with pytest.raises(InvalidParameter, match="finite"):
            learner.predict_one([math.nan] * D)
    X, y = data(regression=True)
    learner = PIGD(loss="huber", random_state=1).fit(X, y)
    assert [learner.predict_one(row) for row in X] == pytest.approx(learner.predict(X).tolist(), rel=1e-12, abs=1e-15)
    assert not hasattr(learner, "decision_function")
    assert not hasattr(PIGD(loss="hinge").fit(*data()), "predict_proba")
    assert (type(learner.intercept_), learner.coef_.shape) == (float, (D,))


# ---- nothing secret is revealed ------------------------------------------------------------------


def secrets_of(learner):
    """Byte strings that no export may contain: the key, and every coordinate of the iterate without noise."""
    state = learner._run.state
    parts = [bytes(state.secret_arrays()["key"]), state.secret_arrays()["iterate"].tobytes()]
    parts += [np.float64(v).tobytes() for v in state._secret_iterate() if v != 0]
    parts += [np.float64(v).tobytes()[::-1] for v in state._secret_iterate() if v != 0]
    return parts + [repr(float(v)).encode() for v in state._secret_iterate() if v != 0]


@pytest.mark.parametrize("random_state", [None, 5])
def test_a_pickle_is_the_public_export(random_state):
    X, _ = data()
    learner = started(random_state=random_state)
    secrets = secrets_of(learner)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        raw = pickle.dumps(learner, protocol=protocol)
        assert not any(secret in raw for secret in secrets)
    text = repr(learner) + str(learner.get_params()) + str(vars(learner)) + repr(learner._run.state)
    assert not any(secret.decode("latin1") in text for secret in secrets)
    for exported in (pickle.loads(raw), copy.deepcopy(learner), copy.copy(learner)):
        for name in ("coef_", "intercept_", "average_coef_", "n_rows_", "n_releases_", "classes_"):
            np.testing.assert_array_equal(getattr(exported, name), getattr(learner, name))
        assert exported.guarantee_ == learner.guarantee_
        np.testing.assert_array_equal(exported.predict(X), learner.predict(X))
        assert exported.predict_one(X[0]) == learner.predict_one(X[0])
        assert "_run" not in vars(exported)
        with pytest.raises(NotFittedError):
            _ = exported.ledger_
        buffer = io.BytesIO()
        pickle.dump(exported, buffer)  # a second time
        assert not any(secret in buffer.getvalue() for secret in secrets)


def test_arrays_handed_out_are_copies():
    learner = PIGD(random_state=1).fit(*data())
    for name in ("coef_", "average_coef_", "intercept_"):
        before = getattr(learner, name).copy()
        getattr(learner, name)[:] = 7.0
        np.testing.assert_array_equal(getattr(learner, name), before)


# ---- streams --------------------------------------------------------------------------------------------


@dataclass
class Block:
    X: object
    y: object
    first_row: int = 1


@dataclass
class Blocks:
    blocks: list
    classes: tuple | None = ("no", "yes")
    n_rows: int | None = None

    def __iter__(self):
        return iter(self.blocks)


def codes(y):
    return (y == "yes").astype(float)


def test_fit_stream_learns_blocks_and_ends_the_run():
    X, y = data()
    calls = []
    stream = Blocks([Block(X[:25], codes(y[:25])), Block(X[25:], codes(y[25:]), 26)])
    learner = PIGD(horizon=N, release=16, random_state=1)
    learner.fit_stream(stream, progress=lambda who, stream: calls.append((who.n_rows_, who.n_releases_)))
    assert calls == [(25, 1), (N, 2)]
    assert learner.classes_.tolist() == ["no", "yes"]
    np.testing.assert_array_equal(learner.coef_, PIGD(horizon=N, release=16, random_state=1).fit(X, y).coef_)
    with pytest.raises(StateError, match="closed"):
        learner.learn_one(X[0], "yes")


@pytest.mark.parametrize("bad", ["nan", "width", "too many", "label nan", "label 0.5", "label 5"])
def test_fit_stream_refuses_a_bad_block_whole(bad):
    X, y = data()
    second, targets = X[10:30].copy(), codes(y[10:30])
    error, match = InvalidRow, "row 16"
    if bad == "nan":
        second[5, 1] = math.nan
    elif bad == "width":
        second, error, match = second[:, :2], ValueError, "features"
    elif bad == "too many":
        error, match = BudgetExceeded, "horizon"
    else:
        targets[5] = {"label nan": math.nan, "label 0.5": 0.5, "label 5": 5.0}[bad]
    learner = PIGD(horizon=20 if bad == "too many" else N, release=5, random_state=1)
    with pytest.raises(error, match=match):
        learner.fit_stream(Blocks([Block(X[:10], codes(y[:10])), Block(second, targets, 11)]))
    assert learner.n_rows_ == 10
    assert learner.n_releases_ == 2
    alone = PIGD(horizon=learner.horizon, release=5, random_state=1).partial_fit(X[:10], y[:10], classes=["no", "yes"])
    assert everything(learner)[0] == everything(alone)[0]


def test_fit_stream_refuses_what_it_cannot_plan():
    X, y = data()
    block = Block(X, codes(y))
    for stream, match in (
        (Blocks([block]), "horizon"),
        (Blocks([block], classes=None, n_rows=N), "classes"),
        (Blocks([Block(X, None)], n_rows=N), "targets"),
        (Blocks([], n_rows=N), "no rows"),
    ):
        learner = PIGD()
        with pytest.raises(InvalidParameter, match=match):
            learner.fit_stream(stream)
        with pytest.raises(NotFittedError):
            _ = learner.coef_
