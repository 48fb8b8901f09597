"""DOLA and SparseDOLA: the specification's reference values, a twin in NumPy, and invariances."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from conformance import Block
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import calibrated
from scipy import sparse
from twins_network import network, soft

from privol import DOLA, LDPSGD, SparseDOLA, topology
from privol.calibration import calibrate_network, calibrate_report
from privol.errors import BudgetExceeded, InvalidParameter, InvalidRow, StateError
from privol.evaluate import progressive
from privol.geometry import L1Ball, L2Ball, WholeSpace
from privol.guarantees import DELTA_TOO_LARGE
from privol.losses import Custom
from privol.noise import STREAM_REPORTS, make_source
from privol.randomizers import compiled
from privol.state import State, _checkpoints
from privol.topology import LinkFailures, MatchingCycle, RandomMatching, StaticMixing, grid, ring, star

pytestmark = pytest.mark.slow

REFERENCE = StaticMixing(np.array([[0.75, 0.25], [0.25, 0.75]]))
ROWS = np.array([[(0.6, 0.8), (0, 1), (-0.6, 0.8)], [(1, 0), (0.8, -0.6), (0, -1)]])  # node, round
LABELS = np.array([[1, 1, -1], [-1, 1, 1]])
NOISE = np.array([[(0.5, -0.25), (2, 1), (-0.75, 0.5)], [(-1, 0.75), (0.25, -0.5), (1.5, -1.25)]])


def hinge(t, i, w):
    x, y = ROWS[i, t - 1], LABELS[i, t - 1]
    return np.array([-y * x if y * (w @ x) < 1.0 else np.zeros(2)])


def given_noise(scale=lambda k: 1.0):
    """Add the reference noise, message by message; ``scale``: of the noise in message k."""
    count = iter(range(100))

    def randomize(v):
        k = next(count)
        return v + scale(k) * NOISE[k % 2, k // 2]

    return randomize


WORDS = {"nodes": 2, "batch": 1, "rounds": 3, "dim": 2, "length": lambda t: 0.5 / math.sqrt(t)}


class TestReference:
    """The specification's three rounds of two nodes (its section 10), to 1e-12: for the twin and the library."""

    def test_gradient(self):
        sent, *_ = network(hinge, given_noise(), lambda t: REFERENCE.matrix(t).to_dense(), radius=0.5, **WORDS)
        expected = [
            [(0.0474045463139977, 0.497747736296976), (0, -0.375)],
            [(-0.461600203312611, 0.192159444997524), (0.2063055014048, -0.192168404985083)],
            [(0.0950876545697394, -0.279200192471385), (-0.393683626666772, -0.0239176588407282)],
        ]
        np.testing.assert_allclose(sent, expected, rtol=0, atol=1e-12)

    def test_output(self):
        sent, points, *_ = network(
            hinge, given_noise(), lambda t: REFERENCE.matrix(t).to_dense(), radius=0.5, position="output", **WORDS
        )
        last = [(0.225391043647423, 0.378274936376072), (0.45899943297259, -0.469005742305491)]
        mixed = [(0.560498072995238, 0.619357390903715), (0.0259867310803708, 0.180513310532838)]
        np.testing.assert_allclose(sent[-1], last, rtol=0, atol=1e-12)
        np.testing.assert_allclose(points[-1], mixed, rtol=0, atol=1e-12)

    def test_sparse(self):
        def minus(v):  # the reference adds the noise, the library subtracts a noisy gradient
            return v - next(noises)

        noises = iter([NOISE[i, t] for t in range(3) for i in range(2)])
        sent, points, *_ = network(
            hinge, minus, lambda t: REFERENCE.matrix(t).to_dense(), threshold=lambda a, s, sd: [0.5 * a] * 2, **WORDS
        )
        np.testing.assert_allclose(
            points[1:],
            [
                [(0, 0.123223304703363), (-0.435723304703363, 0.173223304703363)],
                [(0.447550283623239, 0.601265336179354), (0, 0.0782575807597796)],
            ],
            rtol=0,
            atol=1e-12,
        )
        np.testing.assert_allclose(
            sent[-1],
            [(0.548586580731423, 0.659000363098316), (0.469462692281059, -0.426923904781143)],
            rtol=0,
            atol=1e-12,
        )

    @pytest.mark.parametrize("implicit", [False, True], ids=["explicit", "implicit"])
    def test_batch(self, implicit):
        mix = np.array([0.3, -0.2])
        # one step from b: the twin from 0 with the regulariser's part of b in the gradient
        keep = 1.0 / 1.05 if implicit else 0.95
        expected = (-0.0476190476190476, -0.380952380952381) if implicit else (-0.065, -0.39)
        step = 0.5 * (keep if implicit else 1.0)
        np.testing.assert_allclose(keep * mix - step * np.array([0.7, 0.4]), expected, atol=1e-15)

    def test_a_noiseless_run_fed_noisy_gradients_is_the_noisy_run(self):
        learner = DOLA(
            loss="hinge", epsilon=math.inf, topology=REFERENCE, radius=0.5, gradient_bound=100.0, step_size=0.5,
            horizon=6, fit_intercept=False,
        )  # fmt: skip
        points = []
        for t in range(3):
            for i in range(2):
                w = learner.ask(2)
                points.append(w)
                learner.tell(gradient=hinge(t + 1, i, w)[0] + NOISE[i, t])
        np.testing.assert_allclose(points[2], 0.75 * np.array([0.0474045463139977, 0.497747736296976])
                                   + 0.25 * np.array([0, -0.375]), rtol=0, atol=1e-12)  # fmt: skip
        sent = np.array([(0.0950876545697394, -0.279200192471385), (-0.393683626666772, -0.0239176588407282)])
        np.testing.assert_allclose(learner.close().node_coef_, REFERENCE.matrix(1).to_dense() @ sent, atol=1e-12)
        np.testing.assert_allclose(learner.coef_[0], sent.mean(axis=0), atol=1e-12)


# ---- the library against its twin, with the library's noise ---------------------------------------------------------

RNG = np.random.default_rng(11)
N, D = 330, 5
X = RNG.normal(size=(N, D)) / 3
Y = np.where(X @ [1.0, -2.0, 0.5, 0.0, 1.0] + 0.3 * RNG.normal(size=N) > 0, 1, -1)
CASES = {
    "default": (DOLA, {"nodes": 6, "topology": "grid"}),
    "random": (DOLA, {"nodes": 5, "topology": RandomMatching(ring(5), seed=3), "step_size": 0.5}),
    "failures": (DOLA, {"topology": LinkFailures(StaticMixing(star(4)), 0.3, seed=1), "randomizer": "laplace"}),
    "cycle": (DOLA, {"topology": MatchingCycle(grid(2, 3)), "batch": 4, "randomizer": "l2laplace", "epsilon": 20.0}),
    "l2": (DOLA, {"nodes": 3, "l2": 0.1}),
    "implicit": (DOLA, {"nodes": 3, "l2": 0.1, "regularizer": "implicit", "batch": 2}),
    "privunit": (DOLA, {"nodes": 4, "randomizer": "privunit", "topology": "complete"}),
    "algorithm 1": (DOLA, {"nodes": 4, "noise_position": "output", "randomizer": "laplace", "step_size": 0.5,
                           "calibration": "published", "epsilon": 8.0}),
    "algorithm 2": (DOLA, {"nodes": 4, "calibration": "published", "epsilon": 50.0, "step_size": 0.5}),
    "algorithm 4": (DOLA, {"nodes": 3, "noise_position": "output", "batch": 7, "l2": 0.05, "epsilon": 9.0}),
    "sparse noise": (SparseDOLA, {"nodes": 6, "topology": "grid", "l1": 0.5, "epsilon": 20.0}),
    "sparse rda": (SparseDOLA, {"nodes": 4, "threshold": "rda", "l1": 0.02, "epsilon": 20.0, "batch": 3}),
    "sparse published": (SparseDOLA, {"nodes": 4, "threshold": "published", "l1": 0.5, "epsilon": 20.0}),
}  # fmt: skip


def sampler_of(plan, seed):
    """Reports of vectors in the order of messages, with the noise that the learner draws from the same seed."""
    from privol._core._report import ReportSampler

    bound = plan.magnitude if plan.report.cap is None else plan.report.bound
    return ReportSampler(make_source(seed), report=compiled(plan.report, bound=bound), stream=STREAM_REPORTS)


def twin_of(learner, plan, n):
    schedule = learner.mixing()
    m, h, dim = plan.nodes, plan.batch, D + 1
    reports = sampler_of(plan, learner.random_state)

    def gradients(t, i, w):
        rows = [r for k in range(h) if (r := (t - 1) * m * h + k * m + i) < n]
        found = [np.zeros(dim)]
        for r in rows:
            x = np.append(X[r] * min(1.0, 1.0 / np.linalg.norm(X[r])), 1.0)
            g = -Y[r] * x / (1.0 + math.exp(Y[r] * (w @ x)))
            found.append(g * min(1.0, plan.gradient_bound / np.linalg.norm(g)))
        return np.array(found)

    thresholds = {
        "none": None,
        "noise": lambda a, s, sd: plan.l1 * sd,
        "rda": lambda a, s, sd: [plan.l1 * s] * m,
        "published": lambda a, s, sd: [plan.l1 * a] * m,
    }
    return network(
        gradients,
        lambda v: reports.privatize(np.ascontiguousarray(v[None]))[0],
        lambda t: schedule.matrix(t).to_dense(),
        nodes=m,
        batch=h,
        rounds=plan.rounds,
        dim=dim,
        length=plan.step_length,
        radius=None if isinstance(learner, SparseDOLA) else learner.radius,
        l2=learner.l2 if isinstance(learner, DOLA) else 0.0,
        implicit=plan.implicit,
        position=plan.position,
        threshold=thresholds[plan.threshold],
        l1=plan.l1,
        variance=plan.report.deviation**2,
    )


@pytest.mark.parametrize("name", CASES)
def test_twin(name):
    kind, words = CASES[name]
    learner = kind(random_state=7, **{"epsilon": 4.0, **words}).fit(X, Y)
    sent, points, models, _ = twin_of(learner, learner._run.plan, N)
    scale = 1e-9 * max(1.0, float(np.abs(sent).max()))
    found = np.column_stack([learner.node_coef_, learner.node_intercept_])
    np.testing.assert_allclose(found, models, rtol=0, atol=scale)
    if kind is DOLA:
        mean = np.append(learner.coef_, learner.intercept_)
        np.testing.assert_allclose(mean, sent[-1].mean(axis=0), rtol=0, atol=scale)
        average = np.append(learner.average_coef_, learner.average_intercept_)
        after = np.concatenate([points[1:], models[None]])
        np.testing.assert_allclose(average, after.mean(axis=(0, 1)), rtol=0, atol=scale)
        distance = np.linalg.norm(models - models.mean(axis=0))
        assert learner.consensus_distance_ == pytest.approx(distance, abs=1e-6)
    else:
        assert np.mean(models[:, :-1] == 0.0, axis=1) == pytest.approx(learner.node_sparsity_, abs=1e-12)
    assert learner.n_releases_ == learner._run.plan.rounds == len(sent)


def test_the_mean_of_sparse_nodes_is_thresholded_by_its_own_noise():
    learner = SparseDOLA(nodes=6, topology="grid", l1=0.5, epsilon=20.0, random_state=7, horizon=300)
    learner.partial_fit(X[:300], Y[:300], classes=[-1, 1])
    plan = learner._run.plan
    sent, *_ = twin_of(learner, plan, 300)
    # mixing is doubly stochastic, so the mean's noise is that of all messages, whoever received them
    variance = sum(plan.step_length(t) ** 2 for t in range(1, 51)) * plan.report.deviation**2 / 6
    expected = soft(sent[-1].mean(axis=0), 0.5 * math.sqrt(variance))
    np.testing.assert_allclose(np.append(learner.coef_, learner.intercept_), expected, atol=1e-9)
    assert learner.sparsity_ == np.mean(expected[:-1] == 0.0)


def fingerprint(learner):
    return (learner.coef_.tobytes(), learner.average_coef_.tobytes(), learner.node_coef_.tobytes(), learner.n_rows_)


@pytest.mark.parametrize("randomizer", ["gaussian", "l2laplace", "privunit"])
@pytest.mark.parametrize("mixing", ["ring", RandomMatching(ring(1), seed=0)], ids=["graph", "schedule"])
def test_one_node_is_the_single_learner(randomizer, mixing):
    words = {"randomizer": randomizer, "epsilon": 3.0, "random_state": 5, "radius": 2.0}
    alone = LDPSGD(**words).fit(X, Y)
    node = DOLA(nodes=1, topology=mixing, **words).fit(X, Y)
    assert np.array_equal(alone.coef_, node.coef_)
    assert np.array_equal(alone.average_coef_, node.average_coef_)
    assert node.regret_bound(N) == alone.regret_bound(N)


@given(cuts=st.lists(st.integers(1, 60), min_size=1, max_size=12), one=st.booleans())
@settings(max_examples=25, deadline=None)
def test_results_do_not_depend_on_the_form_of_the_rows(cuts, one):
    for name in ("cycle", "sparse noise"):
        kind, words = CASES[name]
        whole = kind(random_state=7, **{**words, "epsilon": 4.0}).fit(X, Y)
        learner = kind(random_state=7, horizon=N, **{**words, "epsilon": 4.0}).declare_classes([-1, 1])
        start = 0
        for k in [*cuts, N]:
            stop = min(start + k, N)
            if one and stop == start + 1:
                learner.learn_one(X[start], Y[start])
            elif stop > start:
                rows = sparse.csr_matrix(X[start:stop]) if k % 2 else X[start:stop]
                learner.partial_fit(rows, Y[start:stop])
            start = stop
        assert fingerprint(learner.close()) == fingerprint(whole)


def test_float32_rows_of_the_same_values():
    rows = X.astype(np.float32)
    words = {"nodes": 6, "random_state": 2}
    assert fingerprint(DOLA(**words).fit(rows, Y)) == fingerprint(DOLA(**words).fit(rows.astype(np.float64), Y))


def test_without_gradients_nodes_agree_on_what_was_sent():
    """Null rows: no noise, no gradients; mixing alone reconciles nodes that given gradients have set apart."""
    learner = DOLA(epsilon=math.inf, nodes=8, topology="ring", horizon=8 * 400, gradient_bound=1.0, step_size=1.0,
                   radius=10.0, loss="absolute", fit_intercept=False)  # fmt: skip
    for i in range(8):
        learner.ask(2)
        learner.tell(gradient=np.array([math.cos(i), math.sin(i)]))
    apart, mean = learner.consensus_distance_, learner.coef_.copy()
    for _ in range(8 * 399):
        learner.tell(gradient=np.zeros(2))
    assert apart > 0.5
    assert learner.consensus_distance_ < 1e-12
    np.testing.assert_allclose(learner.coef_, mean, atol=1e-14)
    rate = topology.second_singular_value(learner.mixing().matrix(1))
    assert rate**399 * apart < 1e-12


# ---- rounds ------------------------------------------------------------------------------------------------------


def test_the_horizon_ends_a_round_that_is_not_full():
    whole = DOLA(nodes=7, batch=3, random_state=1).fit(X, Y)
    plan = whole._run.plan
    assert (plan.rounds, plan.nodes * plan.batch * plan.rounds) == (16, 336)
    rows, labels = np.concatenate([X, np.zeros((6, D))]), np.concatenate([Y, np.ones(6)])
    padded = DOLA(nodes=7, batch=3, random_state=1, horizon=336, step_size=plan.length, fit_intercept=False)
    cut = DOLA(nodes=7, batch=3, random_state=1, step_size=plan.length, fit_intercept=False)
    assert np.array_equal(cut.fit(X, Y).coef_, padded.fit(rows, labels).coef_)


def test_a_run_that_is_closed_within_a_round_shows_whole_rounds():
    learner = DOLA(nodes=5, random_state=1, horizon=100).partial_fit(X[:23], Y[:23], classes=[-1, 1])
    other = DOLA(nodes=5, random_state=1, horizon=100).partial_fit(X[:20], Y[:20], classes=[-1, 1])
    assert learner.n_releases_ == other.n_releases_ == 4
    assert np.array_equal(learner.coef_, other.coef_)
    assert np.array_equal(learner.close().node_coef_, other.close().node_coef_)


@pytest.mark.parametrize(("release", "rounds"), [("all", 16), ("last", 1), (5, 3), ([2, 16], 2)], ids=str)
def test_releases_count_rounds(release, rounds):
    learner = DOLA(nodes=7, batch=3, random_state=1, release=release).fit(X, Y)
    same = DOLA(nodes=7, batch=3, random_state=1).fit(X, Y)
    assert learner.n_releases_ == rounds
    assert np.array_equal(learner.coef_, same.coef_) == (release != 5)
    assert np.array_equal(learner.node_coef_, same.node_coef_)
    assert learner.guarantee_ == same.guarantee_


def test_a_run_that_ends_early_releases_only_its_last_round():
    learner = DOLA(nodes=5, random_state=1, horizon=100, release="last")
    learner.partial_fit(X[:23], Y[:23], classes=[-1, 1]).close()
    other = DOLA(nodes=5, random_state=1, horizon=100).partial_fit(X[:23], Y[:23], classes=[-1, 1]).close()
    assert learner.n_releases_ == 1
    assert np.array_equal(learner.coef_, other.coef_)


@pytest.mark.parametrize("delta", [9e-4, 2.0**-10])
def test_the_guarantee_says_what_a_large_delta_is_worth(delta):
    """One over the rows, or more: a random row in the clear would meet it too."""
    words = {"nodes": 2, "epsilon": 1.0, "randomizer": "gaussian", "random_state": 0}
    X, y = np.zeros((1024, 2)), np.zeros(1024)
    found = DOLA(delta=delta, **words).declare_classes([0, 1]).fit(X, y).guarantee_
    assert (DELTA_TOO_LARGE in found.conditions) == (delta * 1024 >= 1.0)


def test_several_epochs():
    words = {"nodes": 6, "topology": "grid", "random_state": 4}
    twice = DOLA(epochs=2, **words).fit(X, Y)
    once = DOLA(horizon=2 * N, **words).fit(np.concatenate([X, X]), np.concatenate([Y, Y]))
    assert twice.n_rows_ == 2 * N
    assert twice.guarantee_.mu == once.guarantee_.mu
    plans = twice._run.plan, once._run.plan
    assert plans[0].report.scale == pytest.approx(math.sqrt(2.0) * plans[1].report.scale, rel=1e-9)
    assert plans[0].report.scale >= math.sqrt(2.0) * plans[1].report.scale
    pure = calibrated(
        calibrate_network,
        randomizer="laplace", epsilon=1.0, delta=1e-6, adjacency="replace", domain=L2Ball(1.0), dim=6,
        gradient_bound=1.0, nodes=2, batch=1, horizon=30, release="all", epochs=3,
    )  # fmt: skip
    assert pure.epsilon == 1.0
    assert pure.report.scale >= 3 * 2 * math.sqrt(6)
    assert "in 2 rounds at most" in twice.guarantee_.sentence()
    with pytest.raises(InvalidParameter, match="no multiple of the 6 nodes"):
        DOLA(epochs=2, **words).fit(X[:100], Y[:100])
    with pytest.raises(BudgetExceeded):
        DOLA(epochs=2, horizon=N, **words).fit(X, Y)


def test_no_row_enters_one_message_twice():
    """An epoch at least as long as a round: by then another message is being made."""
    words = {"epochs": 3, "nodes": 4, "batch": 5}
    assert plan_of(horizon=60, **words).uses == 3
    for horizon in (59, 40, 20):
        with pytest.raises(InvalidParameter, match="would have a row twice in one message: a round takes 20 rows"):
            plan_of(horizon=horizon, **words)


@pytest.mark.parametrize("kind", [DOLA, SparseDOLA])
def test_the_first_message_spends_all(kind):
    """The ledger shows the cost of the message after the first row, even if no other row follows."""
    learner = kind(nodes=4, topology="ring", horizon=8, random_state=0)
    learner.partial_fit(X[:1], Y[:1], classes=[-1, 1])
    assert learner.ledger_.spent.mu == learner.guarantee_.mu > 0.0


def test_epochs_of_a_stream():
    class Rows:
        n_rows, classes = N, (-1, 1)

        def __init__(self, once=False):
            self.left = iter([1]) if once else None

        def __iter__(self):
            if self.left is None or next(self.left, None):
                for start in range(0, N, 100):
                    yield Block(X[start : start + 100], Y[start : start + 100] > 0, start)

    words = {"nodes": 6, "topology": "grid", "random_state": 4, "epochs": 2}
    assert fingerprint(DOLA(**words).fit_stream(Rows())) == fingerprint(DOLA(**words).fit(X, Y))
    with pytest.raises(InvalidParameter, match="once only"):
        DOLA(**words).fit_stream(Rows(once=True))


def test_every_row_is_evaluated_by_the_model_of_its_node():
    learner = DOLA(nodes=6, topology="grid", random_state=7)
    scores = []

    class Rows:
        n_rows, classes = N, (-1, 1)

        def __iter__(self):
            yield Block(X, Y > 0, 0)

    found = progressive(learner, Rows())
    _, points, *_ = twin_of(learner, learner._run.plan, N)
    for r in range(N):
        w, x = points[r // 6, r % 6], X[r] * min(1.0, 1.0 / np.linalg.norm(X[r]))
        scores.append(math.log1p(math.exp(-Y[r] * (x @ w[:-1] + w[-1]))))
    assert found.score.loss == pytest.approx(sum(scores) / N, rel=1e-9)


# ---- refusals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"topology": "moebius"}, "topology must be one of"),
        ({"topology": 3}, "topology must be 'ring'"),
        ({"topology": ring(3), "nodes": 4}, "nodes must be None or the topology's 3, found 4"),
        ({"nodes": 0}, "nodes must be"),
        ({"batch": 0}, "batch must be"),
        ({"epochs": 0}, "epochs must be"),
        ({"epsilon": 0.0}, "epsilon must be"),
        ({"noise_position": "input"}, "noise_position must be"),
        ({"noise_position": "output", "domain": L1Ball(1.0)}, "needs the L2 ball"),
        ({"randomizer": "privunit", "batch": 2}, "randomizes single gradients"),
        ({"randomizer": "privunit", "noise_position": "output"}, "randomizes single gradients"),
        ({"domain": WholeSpace()}, "step_size must be given"),
        ({"step_size": 1.0, "l2": 1.0}, "step_size must be None"),
        ({"calibration": "published", "randomizer": "l2laplace"}, "calibration='published' needs"),
        ({"calibration": "published", "batch": 2}, "needs batch=1"),
        ({"averaging": "cubic"}, "averaging must be"),
        ({"release": 400}, "would release nothing"),
    ],
    ids=str,
)
def test_bad_parameters(words, message):
    learner = DOLA(**words)
    with pytest.raises(InvalidParameter, match=message):
        learner.fit(X, Y)
    assert "_run" not in vars(learner)


def test_bad_sparse_parameters():
    for words, message in (({"threshold": "rda"}, "l1 must be given"), ({"threshold": "hard"}, "threshold must be"),
                           ({"loss": "squared"}, "gradient_bound must be given")):  # fmt: skip
        with pytest.raises(InvalidParameter, match=message):
            SparseDOLA(**words).fit(X, Y)


def test_bad_rows_and_too_many():
    learner = DOLA(nodes=4, horizon=20, random_state=1).partial_fit(X[:10], Y[:10], classes=[-1, 1])
    before = fingerprint(learner)
    rows = X[:5].copy()
    rows[3, 2] = math.nan
    with pytest.raises(InvalidRow, match="row 14"):
        learner.partial_fit(rows, Y[:5])
    with pytest.raises(BudgetExceeded):
        learner.partial_fit(X[:11], Y[:11])
    assert fingerprint(learner) == before


def test_node_models_are_not_in_a_pickle():
    learner = DOLA(nodes=4, random_state=1).fit(X, Y)
    copied = pickle.loads(pickle.dumps(learner))
    assert np.array_equal(copied.coef_, learner.coef_)
    with pytest.raises(Exception, match="not in an export"):
        _ = copied.node_coef_
    with pytest.raises(StateError):
        learner._run.state.release_last()


def test_a_failing_user_loss_is_undone():
    calls, failing = [], []

    def gradient(score, y):
        calls.append(1)
        return math.nan if len(calls) in failing else (-y if y * score < 1.0 else 0.0)

    loss = Custom(value=lambda s, y: max(0.0, 1.0 - y * s), gradient=gradient, lipschitz=1.0, smoothness=math.inf)
    learner = DOLA(loss=loss, nodes=4, topology=RandomMatching(ring(4), seed=1), random_state=1, horizon=N)
    learner.partial_fit(X[:101], Y[:101], classes=[-1, 1])
    before = fingerprint(learner)
    failing.append(len(calls) + 50)
    with pytest.raises(InvalidParameter, match="NaN"):
        learner.partial_fit(X[101:], Y[101:])
    assert fingerprint(learner) == before
    learner.partial_fit(X[101:], Y[101:])
    whole = DOLA(loss="hinge", nodes=4, topology=RandomMatching(ring(4), seed=1), random_state=1).fit(X, Y)
    assert fingerprint(learner) == fingerprint(whole)


# ---- calibration -------------------------------------------------------------------------------------------------


def plan_of(**words):
    common = {
        "randomizer": "gaussian", "epsilon": 1.0, "delta": 1e-5, "adjacency": "replace", "domain": L2Ball(1.0),
        "dim": 55, "gradient_bound": 1.0, "nodes": 1, "batch": 1, "horizon": 1000, "release": "all",
    }  # fmt: skip
    return calibrated(calibrate_network, **{**common, **words})


def test_noise_energies_of_the_specification():
    """Section 3.6: squared noise over the squared bound at n = 55; never below, and above only by rounding."""
    for epsilon, laplace, l2, gaussian in ((0.1, 2.42e6, 1.232e6, 208018), (1, 24200, 12320, 3061.87),
                                           (4, 1512.5, 770, 257.16)):  # fmt: skip
        for name, expected in (("laplace", laplace), ("l2laplace", l2), ("gaussian", gaussian)):
            found = plan_of(randomizer=name, epsilon=epsilon).report.variance(0.0)
            assert found == pytest.approx(expected, rel=3e-5)
    assert plan_of(randomizer="laplace").report.scale == pytest.approx(14.8323969741913, rel=1e-9)
    batch = plan_of(randomizer="laplace", batch=10)
    assert batch.report.scale / 10 == pytest.approx(1.48323969741913, rel=1e-9)
    assert batch.report.scale >= 14.8323969741913


@pytest.mark.parametrize(
    ("words", "last", "epsilon"),
    [
        ({"step_size": 0.5}, 108.0, 0.0539),
        ({"l2": 1.0}, 6.831, 1.102),
        ({"l2": 10.0}, 0.6831, 16.16),
        ({"l2": 10.0, "horizon": 100000}, 0.0764, 453.7),
    ],
    ids=str,
)
def test_what_the_published_noise_proves(words, last, epsilon):
    """Section 3.5: J of the last round in units of L, and the true epsilon at delta = 1e-5."""
    from privol.guarantees import gdp_epsilon

    plan = plan_of(calibration="published", **words)
    assert plan.gradient_noise(plan.rounds) == pytest.approx(last, rel=1e-3)
    assert plan.mu * last == pytest.approx(2.0, rel=1e-3)
    assert gdp_epsilon(plan.mu, 1e-5) == pytest.approx(epsilon, rel=2e-3)
    assert (plan.claim.epsilon, plan.claim.delta) == (1.0, 1e-5)


def test_output_noise_charges_its_roundings():
    plan = plan_of(noise_position="output", randomizer="laplace", step_size=0.5)
    tight = calibrate_report("laplace", dim=55, bound=1.0, epsilon=1.0)
    assert tight.scale < plan.report.scale < tight.scale * (1.0 + 1e-10)
    assert plan.magnitude > 2.0 * math.sqrt(1000)
    short = plan_of(noise_position="output", randomizer="laplace", step_size=1e-7, batch=3)
    unit, last = Fraction(1, 1 << 53), Fraction(short.step_length(short.rounds))
    rounding = ((Fraction(55, 8) + 30) * 3 / last + 7 * 3) * unit  # docs/proofs/network.md, section 3
    assert 1 + 2 * rounding <= Fraction(short.report.bound) <= (1 + 2 * rounding) * (1 + Fraction(1, 10**11))
    published = plan_of(noise_position="output", randomizer="laplace", step_size=0.5, calibration="published")
    assert published.report == plan.report
    assert published.claim.epsilon == 1000.0


def test_regret_bounds_of_the_specification():
    """Section 3.9: with the default step at most sqrt(2) m R H sqrt(T)."""
    plan = plan_of(nodes=16, dim=10, horizon=16 * 500)
    h = math.sqrt(1.0 + 10 * plan.report.scale**2)
    assert plan.regret_bound(500) <= math.sqrt(2.0) * 16 * 2.0 * h * math.sqrt(500)
    assert plan.regret_bound(500) == pytest.approx(math.sqrt(2.0) * 16 * 2.0 * h * math.sqrt(500), rel=0.02)
    strong = plan_of(nodes=16, dim=10, horizon=16 * 500, l2=0.5)
    expected = 16 * ((1.0 + 0.5) ** 2 + 10 * plan.report.scale**2) * (1 + math.log(500)) / (2 * 0.5)
    assert strong.regret_bound(500) == pytest.approx(expected, rel=1e-9)
    for words in ({"noise_position": "output"}, {"l2": 1.0, "regularizer": "implicit"}, {"calibration": "published"}):
        with pytest.raises(InvalidParameter, match="no bound of the regret"):
            plan_of(**words).regret_bound(10)


def test_nodes_of_a_kept_run_that_failed_are_not_shown(tmp_path, monkeypatch):
    """Rounds not on the disk may be learnt again from other rows with the same noise: they must stay hidden."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 3)) / 3, rng.integers(0, 2, 400)
    write, names = _checkpoints.write_atomically, []

    def failing(path, content, **words):
        names.append(path.name)
        if sum(name.startswith("checkpoint") for name in names) > 1:
            raise OSError(28, "No space left on device")
        write(path, content, **words)

    class Rows:
        n_rows, classes = 400, (0, 1)

        def __iter__(self):
            for start in range(0, 400, 100):
                yield Block(X[start : start + 100], y[start : start + 100], start)

    monkeypatch.setattr(_checkpoints, "write_atomically", failing)
    learner = DOLA(nodes=4, epsilon=1.0)
    with pytest.raises(OSError, match="No space"):
        learner.fit_stream(Rows(), checkpoint=State(tmp_path / "R", every=100))
    assert learner.n_rows_ == 0
    for name in ("node_coef_", "node_intercept_", "node_average_coef_", "node_average_intercept_"):
        with pytest.raises(StateError, match="can be seen when it has ended"):
            getattr(learner, name)
    with pytest.raises(StateError, match="can be seen when it has ended"):
        _ = learner.consensus_distance_
    monkeypatch.undo()
    learner.fit_stream(Rows(), checkpoint=State(tmp_path / "R", every=100))
    assert learner.node_coef_.shape == (4, 3)
