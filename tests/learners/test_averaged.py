"""POL: its average against the iterates of PIGD, its noise, the effect of one row, and what it refuses."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from alpha import rate
from scipy import sparse
from scipy.stats import chi2

from privol import PIGD, POL
from privol.errors import BudgetExceeded, InvalidParameter, InvalidRow, PrivacyWarning
from privol.geometry import Box, L1Ball, Simplex
from privol.ledger import Ledger

pytestmark = pytest.mark.statistical

N, D = 120, 4
RNG = np.random.default_rng(3)
X = RNG.normal(size=(N, D)) / 2
Y = np.where(X @ [1.0, -2.0, 0.5, 0.0] + 0.3 * RNG.normal(size=N) > 0, 1, 0)
R = np.clip(X @ [1.0, -2.0, 0.5, 0.0], -1, 1)
FREE = {"epsilon": math.inf, "l2": 0.1}
SETS = {"ball": {"radius": 1.0}, "l1": {"fit_intercept": False, "domain": L1Ball(0.6)},
        "simplex": {"domain": Simplex(0.8)}, "box": {"domain": Box(0.05, 0.4), "x_bound": 0.5}}  # fmt: skip


def targets(loss):
    return R if loss in ("squared", "absolute", "huber") else Y


def model_of(learner):
    return np.append(learner.coef_, learner.intercept_ if learner.fit_intercept else [])


def iterates(loss, rows, **words):
    """The points that PIGD releases without noise, starting point first."""
    learner = PIGD(loss=loss, horizon=N, release=1, **FREE, **words)
    if loss not in ("squared", "absolute", "huber"):
        learner.declare_classes([0, 1])
    points = []
    for i in range(rows):
        learner.partial_fit(X[i : i + 1], targets(loss)[i : i + 1])
        points.append(model_of(learner))
    start = learner._domain().start(len(points[0]))
    return np.array([start, *points])


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared", "absolute", "huber", "smooth_hinge"])
@pytest.mark.parametrize("words", SETS.values(), ids=SETS)
def test_the_average_of_the_iterates(loss, words):
    if loss == "squared" and "radius" not in words:
        with pytest.raises(InvalidParameter, match="squared"):
            POL(loss=loss, **FREE, **words).fit(X, R)
        return
    points = iterates(loss, N, **words)
    for weights, expected in (
        ("uniform", points[:N].mean(axis=0)),
        ("linear", np.arange(1.0, N + 1) @ points[:N] / (N * (N + 1) / 2)),
        ("last", points[N]),
    ):
        learner = POL(loss=loss, weights=weights, **FREE, **words)
        if loss not in ("squared", "absolute", "huber"):
            learner.declare_classes([0, 1])
        found = model_of(learner.fit(X, targets(loss)))
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("weights", ["linear", "uniform", "last"])
def test_layouts_and_blocks_give_the_same_model(weights):
    words = {"epsilon": 2.0, "weights": weights, "random_state": 1}
    dense = POL(**words).fit(X.astype(np.float32), Y)
    for rows in (X.astype(np.float32).astype(np.float64), sparse.csr_array(X.astype(np.float32))):
        np.testing.assert_array_equal(model_of(POL(**words).fit(rows, Y)), model_of(dense))

    class Stream:
        n_rows, classes = N, (0, 1)

        def __iter__(self):
            for start in range(0, N, 17):
                yield Block(start)

    class Block:
        def __init__(self, start):
            self.X, self.y = X[start : start + 17].astype(np.float32), Y[start : start + 17].astype(float)

    np.testing.assert_array_equal(model_of(POL(**words).fit_stream(Stream())), model_of(dense))


@pytest.mark.parametrize("delta", [0.0, 1e-4])
def test_the_noise_has_its_scale(delta):
    """Sums of squares over 400 fits, at the rate of ``alpha``: 2/3 or 3/2 of the noise is 20 deviations off."""
    runs, words = 400, {"epsilon": 3.0, "delta": delta, "radius": 1e6, "l2": 1.0, "fit_intercept": False}
    clear = model_of(POL(loss="absolute", **(words | {"epsilon": math.inf})).fit(X, R))
    plan = POL(loss="absolute", **words).calibrate(D, N)
    noise = np.array([model_of(POL(loss="absolute", random_state=k, **words).fit(X, R)) - clear for k in range(runs)])
    if delta:
        found = (noise**2).sum() / plan.scale**2
        low, high = chi2.ppf([rate("offline.pol") / 4, 1 - rate("offline.pol") / 4], runs * D)
    else:  # lengths have the Gamma distribution of shape D
        found = 2.0 * np.linalg.norm(noise, axis=1).sum() / plan.scale
        low, high = chi2.ppf([rate("offline.pol") / 4, 1 - rate("offline.pol") / 4], 2 * runs * D)
    assert low < found < high
    assert not low < found * (4 / 9 if delta else 2 / 3) < high
    assert not low < found * (9 / 4 if delta else 3 / 2) < high


@pytest.mark.parametrize("weights", ["linear", "uniform", "last"])
@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
def test_one_row_moves_the_average_by_the_sensitivity_at_most(weights, adjacency):
    """Absolute losses with full slope: attained where the first row changes (with "last": any row), never exceeded."""
    words = {"loss": "absolute", "epsilon": 1.0, "weights": weights, "adjacency": adjacency, "l2": 1.0, "radius": 1e3,
             "fit_intercept": False, "y_bound": 1e3, "on_invalid": "zero"}  # fmt: skip
    plan = POL(**words).calibrate(1, N)
    free = words | {"epsilon": math.inf}
    rows, y = np.ones((N, 1)), np.full(N, 1e3)
    base = POL(**free).fit(rows, y).coef_
    largest = 0.0
    for row in (0, 1, N // 2, N - 1):
        other = y.copy()
        other[row] = math.nan if adjacency == "zero_out" else -1e3
        largest = max(largest, float(np.abs(POL(**free).fit(rows, other).coef_ - base).max()))
    assert largest <= plan.sensitivity
    assert largest >= 0.99 * plan.sensitivity


def test_the_guarantee_and_the_ledger():
    ledger = Ledger(epsilon=8.0, delta=1e-5)
    pure = POL(epsilon=1.0, delta=0.0, ledger=ledger).fit(X, Y)
    assert (pure.guarantee_.kind, pure.guarantee_.parameter, pure.guarantee_.releases) == ("pure", 1.0, 1)
    gauss = POL(epsilon=1.0, delta=1e-6, ledger=ledger).fit(X, Y)
    assert gauss.guarantee_.kind == "gdp"
    assert gauss.guarantee_.epsilon(1e-6) == pytest.approx(1.0, rel=1e-6)
    assert [account.learner for account in ledger.accounts] == ["POL", "POL"]
    with pytest.raises(BudgetExceeded):
        POL(epsilon=7.5, delta=0.0, ledger=ledger).fit(X, Y)
    copied = pickle.loads(pickle.dumps(gauss))
    np.testing.assert_array_equal(copied.predict(X), gauss.predict(X))
    assert "average" in pure.guarantee_.arithmetic


def test_the_published_noise_says_what_it_proves():
    with pytest.warns(PrivacyWarning, match="published"):
        learner = POL(calibration="published", weights="uniform", epsilon=1.0, delta=1e-4, l2=0.001).fit(X, Y)
    assert "Jain, Kothari and Thakurta" in learner.guarantee_.sentence()
    assert learner.guarantee_.epsilon(1e-4) > 1.0  # more than claimed


def test_the_error_target_sets_the_regularisation():
    one, two = POL(error=0.1, radius=5.0).calibrate(D, N), POL(l2=0.1 / 25.0, radius=5.0).calibrate(D, N)
    assert one.sensitivity == two.sensitivity


def test_an_average_over_one_row_is_refused():
    learner = POL(epsilon=1.0).declare_classes([0, 1]).fit(X[:1], Y[:1])
    assert not learner.coef_.any()
    assert POL(epsilon=1.0, weights="last", random_state=0).declare_classes([0, 1]).fit(X[:1], Y[:1]).coef_.any()


def test_what_is_refused():
    for words, said in (
        ({"weights": "squared"}, "weights must be"), ({"l2": 0.0}, "l2"),
        ({"error": 0.0, "radius": 1.0}, "error must be"),
        ({"error": 0.1}, "needs radius="),
        ({"loss": "softmax"}, "score"), ({"epsilon": 0.0}, "epsilon must be"), ({"delta": 1.0}, "delta must be"),
        ({"calibration": "published"}, "published"), ({"radius": 0.0}, "radius must be"),
    ):  # fmt: skip
        with pytest.raises(InvalidParameter, match=said):
            POL(**words).fit(X, Y)
    with pytest.raises(InvalidParameter, match="two different labels"):
        POL().declare_classes([0, 1, 2]).fit(X, Y)
    bad = X.copy()
    bad[7, 1] = math.nan
    ledger = Ledger()
    with pytest.raises(InvalidRow, match="row 8"):
        POL(ledger=ledger).fit(bad, Y)
    assert not ledger.accounts
    assert POL(on_invalid="zero").fit(bad, Y)._diagnostics()["null_rows"] == 1
