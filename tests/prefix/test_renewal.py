"""Runs that outlive their horizon: DPFTRL and PQFTL across the ends of epochs, against twins, bit for bit."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from ciphers import watch
from leader_tools import average_of, begin, check, encoder, fingerprint, model_of, single_rows
from learner_tools import data
from least_squares_tools import moments
from twins_leaders import leader_twin_of

from privol import DPFTRL, PQFTL
from privol._core._least_squares import solve_ridge
from privol._core._prefix import PrefixRun
from privol.calibration import MOST_ROWS
from privol.errors import BudgetExceeded, InvalidParameter, PrivacyWarning, StateError
from privol.evaluate import PrivateMetrics, progressive
from privol.factorizations import DESIGNS
from privol.geometry import L1Ball
from privol.guarantees import gdp_mu
from privol.losses import Custom
from privol.noise import STREAM_RELEASES, decide_lattice_point, make_source
from privol.prefix import plan_of_epochs
from privol.streams import open_stream

pytestmark = pytest.mark.slow

N, FIRST = 40, 5
RENEWALS = ("repeat", "double")
ENDS = {"repeat": tuple(range(FIRST, N + 1, FIRST)), "double": (5, 15, 35)}


def make(kind=DPFTRL, renewal="double", **more):
    own = {"bandwidth": 5} if more.get("design") == "banded" else {}
    return kind(**{"horizon": FIRST, "renewal": renewal, "epsilon": 9.0, "random_state": 3} | own | more)


def make_ridge(renewal="double", **more):
    return make(PQFTL, renewal, **{"l2": 0.01, "fit_intercept": False, "release": 1} | more)


# ---- the twin ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("renewal", RENEWALS)
@pytest.mark.parametrize("design", DESIGNS)
def test_twin(design, renewal, batch):
    """An epoch ends a partial leaf; noise, sums and the default weight are those of all epochs."""
    X, y = data("logistic", n=N, seed=3)
    twin = check(make(renewal=renewal, design=design, batch=batch, radius=2.0), X, y)
    lengths = [FIRST << e if renewal == "double" else FIRST for e in range(twin.sums.epoch + 1)]
    lengths[-1] = N - sum(lengths[:-1])
    assert twin.sums.epoch == len(ENDS[renewal]) - (renewal == "repeat")
    assert twin.sums.steps == sum(-(-n // batch) for n in lengths[:-1]) + len(twin.sums.now.leaves)
    used = [*twin.sums.used, *twin.sums.now.used]
    assert len(set(used)) == len(used), "a word of noise serves twice"


@pytest.mark.parametrize(
    "more",
    [{"l2": 0.4}, {"regularization": 3.0}, {"regularization": 3.0, "l2": 0.4},
     {"regularization": 0.0, "l2": 0.4}, {"epsilon": 300.0, "buffers": 1},
     {"loss": "squared", "y_bound": 0.8, "x_bound": 0.9}, {"release": 3, "batch": 100}],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("renewal", RENEWALS)
def test_more_twins(renewal, more):
    X, y = data(more.get("loss", "logistic"), n=N, seed=4)
    check(make(renewal=renewal, **{"batch": 2, **more}), X, y)


@pytest.mark.parametrize("renewal", RENEWALS)
def test_the_first_epoch_is_a_run_that_ends_there(renewal):
    X, y = data("hinge", n=FIRST)
    runs = [make(renewal=r, loss="hinge", batch=2).partial_fit(X, y, classes=[-1.0, 1.0]) for r in ("none", renewal)]
    assert np.array_equal(runs[0].ask(), runs[1].ask())
    assert np.array_equal(average_of(runs[0]), average_of(runs[1]))
    with pytest.raises(BudgetExceeded):
        runs[0].partial_fit(X, y)
    runs[1].partial_fit(X, y)
    assert runs[1].n_rows_ == 2 * FIRST


@pytest.mark.parametrize("renewal", RENEWALS)
def test_gradients_given_by_tell_are_learnt(renewal):
    learner = make(renewal=renewal, gradient_bound=0.5, batch=2, l2=0.1, radius=3.0)
    learner.ask(3)
    run = learner._run
    twin = leader_twin_of(learner, run.plan, bytes(run.state.secret_arrays()["key"]), 4)
    rng = np.random.default_rng(1)
    for _ in range(N):
        gradient = learner.ask() - rng.normal(size=4)
        learner.tell(gradient=gradient)
        twin.tell(gradient)
        assert np.array_equal(learner.ask(), twin.x)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("renewal", RENEWALS)
@pytest.mark.parametrize("design", DESIGNS)
def test_least_squares(design, renewal, batch):
    """Every sum is that of private prefix sums of the moments; every model is solved with the shift of all epochs."""
    rng = np.random.default_rng(2)
    X, y = rng.uniform(-0.5, 0.5, size=(N, 3)), rng.uniform(-0.9, 0.9, size=N)
    learner = make_ridge(renewal, design=design, batch=batch)
    plan = learner.calibrate(3, FIRST)
    twin = PrefixRun(
        plan_of_epochs(plan.epochs), horizon=N, source=make_source(3), stream=STREAM_RELEASES,
        decide=decide_lattice_point,
    )  # fmt: skip
    expected = twin.add_block(moments(X, y * plan.target_unit, plan.row_unit))
    for t in range(1, N + 1):
        learner.partial_fit(X[t - 1 : t], y[t - 1 : t])
        sums = learner._run.state.released_sums()
        np.testing.assert_array_equal(sums, expected[t - 1])
        before = [end for end in (0, *ENDS[renewal]) if end < t]
        epoch, within, end = len(before) - 1, t - before[-1], t in ENDS[renewal]
        step = -(-within // batch) if end else within // batch
        settled = t if end else before[-1] + step * batch
        if settled == 0:
            np.testing.assert_array_equal(learner.coef_, 0.0)
            continue
        ended = [plan.shifts[min(e, plan.epochs.last), _steps(renewal, e, batch).bit_length() - 1] ** 2
                 for e in range(epoch)]  # fmt: skip
        now = plan.shifts[min(epoch, plan.epochs.last), step.bit_length() - 1] if step else 0.0
        assert plan.shift(epoch, step) >= now
        # the last entry of an epoch is the worst of its last steps, so it is at least that of the last one
        assert plan.shift(epoch, step) ** 2 <= (sum(ended) + now**2) * (1 + 1e-12)
        ends = [plan.epochs.of(e).std(_steps(renewal, e, batch)) ** 2 for e in range(epoch)]
        assert plan.shift(epoch, step) ** 2 == pytest.approx(4.0 * 2.0 * 3 * sum(ends) + now**2, rel=1e-12)
        shift = settled * plan.l2 + plan.shift(epoch, step)
        model, _ = solve_ridge(sums, 3, most=float(settled), shift=shift, radius=plan.ball)
        model *= plan.row_unit / plan.target_unit
        np.testing.assert_allclose(learner.coef_, model / max(1.0, np.linalg.norm(model)), rtol=1e-13, atol=0.0)


def _steps(renewal, epoch, batch):
    return -(-(FIRST << epoch if renewal == "double" else FIRST) // batch)


# ---- in whatever form rows arrive -----------------------------------------------------------------------------


@pytest.mark.parametrize("renewal", RENEWALS)
@pytest.mark.parametrize("design", DESIGNS)
def test_cut_saved_and_restored_anywhere(design, renewal):
    X, y = single_rows(60)
    more = {"renewal": renewal, "design": design, "batch": 2, "radius": 0.5}
    whole = make(**more).partial_fit(X, y, classes=[-1, 1])
    expected = fingerprint(whole)
    for cuts in ([0, 5, 15, 60], [0, 4, 6, 16, 33, 36, 60], [*range(61)]):
        learner = make(**more)
        for start, stop in itertools.pairwise(cuts):
            learner.partial_fit(X[start:stop], y[start:stop], classes=[-1, 1])
        assert fingerprint(learner) == expected
    for at in (1, 5, 6, 15, 16, 35, 36, 59):
        first = make(**more).partial_fit(X[:at], y[:at], classes=[-1, 1])
        state, _, _ = make(**more)._open_run(13, FIRST, "all")
        arrays = first._run.state.secret_arrays()
        state.restore(arrays)
        np.testing.assert_array_equal(state.point(), first.ask())
        state.learn(X[at:], y[at:])
        found = state.secret_arrays()
        assert {name: value.tobytes() for name, value in found.items()} == expected[0]
        assert state.counters() == expected[1]
    for wrong in ([0, 0, 0, 0, 0, 1 << 54], [0, 0, 0, 0, 0, -99], [999, 0, 0, 0, 0, 0]):
        fresh, _, _ = make(**more)._open_run(13, FIRST, "all")
        with pytest.raises(StateError, match="damaged"):
            fresh.restore({**arrays, "sums_counts": arrays["sums_counts"] + wrong})


@pytest.mark.parametrize("renewal", RENEWALS)
@pytest.mark.parametrize("design", DESIGNS)
def test_least_squares_cut_saved_and_restored_anywhere(design, renewal):
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(60, 3)), rng.normal(size=60)
    more = {"renewal": renewal, "design": design, "batch": 2, "release": 3}
    whole = make_ridge(**more).partial_fit(X, y)
    expected = fingerprint(whole)
    for cuts in ([0, 5, 15, 60], [0, 4, 6, 16, 33, 36, 60], [*range(61)]):
        learner = make_ridge(**more)
        for start, stop in itertools.pairwise(cuts):
            learner.partial_fit(X[start:stop], y[start:stop])
        assert fingerprint(learner) == expected
    for at in (4, 5, 6, 16, 35, 59):
        first = make_ridge(**more).partial_fit(X[:at], y[:at])
        state, _, _ = make_ridge(**more)._open_run(3, FIRST, 3)
        state.restore(first._run.state.secret_arrays())
        state.learn(X[at:], y[at:])
        assert {name: value.tobytes() for name, value in state.secret_arrays().items()} == expected[0]
        assert state.counters() == expected[1]


def test_square_root_sums_of_many_rows():
    """Epochs beyond 4096 steps use Fourier transforms for distant steps, separately in each epoch."""
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(13_000, 2)), rng.choice([-1.0, 1.0], size=13_000)

    def fresh():
        words = {"regularization": 1e6, "radius": 1e9, "fit_intercept": False, "loss": "hinge", "horizon": 4200}
        return make(renewal="double", design="sqrt", **words)

    whole = fresh().partial_fit(X, y, classes=[-1.0, 1.0])
    cut = fresh()
    for start, stop in itertools.pairwise((0, 4200, 5000, 12_600, 12_601, 13_000)):
        cut.partial_fit(X[start:stop], y[start:stop], classes=[-1.0, 1.0])
    assert fingerprint(cut) == fingerprint(whole)
    rows = X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    noise = -1e6 * whole.ask() - rows.T @ -y  # points stay close to 0, where every slope is -y
    std = whole._run.plan.std(13_000) * 1e6
    assert np.all(np.abs(noise) < 6 * std)
    assert np.any(np.abs(noise) > 0.01 * std)


# ---- failures ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("renewal", RENEWALS)
@pytest.mark.parametrize("design", DESIGNS)
def test_a_failing_loss_undoes_the_block_across_epochs(design, renewal):
    X, y = data("absolute", n=N, seed=8)
    left = math.inf

    def gradient(p, target):
        nonlocal left
        left -= 1
        if left == 0:
            raise RuntimeError("no more")
        return float(np.sign(p - target))

    custom = Custom(
        value=lambda p, y: abs(p - y), gradient=gradient, lipschitz=1.0, smoothness=math.inf, kind="regression",
        name="mine",
    )  # fmt: skip
    more = {"renewal": renewal, "design": design, "batch": 2, "release": 6}
    for at in (4, 5, 20):
        left = math.inf
        learner = make(loss=custom, **more).partial_fit(X[:at], y[:at])
        before = fingerprint(learner)
        left = N - at - 1  # in a later epoch
        with pytest.raises(RuntimeError, match="no more"):
            learner.partial_fit(X[at:], y[at:])
        assert fingerprint(learner) == before
        learner.partial_fit(X[at:], y[at:])
        whole = make(loss="absolute", **more).partial_fit(X, y)
        assert np.array_equal(model_of(learner), model_of(whole))
        assert np.array_equal(learner.ask(), whole.ask())


@pytest.mark.parametrize("kind", [make, make_ridge])
@pytest.mark.parametrize("renewal", RENEWALS)
def test_interrupts_change_nothing(kind, renewal, monkeypatch):
    """Whichever request for noise is interrupted: the block is learnt, with equal bits, and no word used twice."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(N, 200 if kind is make_ridge else 24000))  # vectors so long that one is drawn at a time
    y, words = np.where(X[:, 0] > 0, 1.0, -1.0), {} if kind is make_ridge else {"classes": [-1.0, 1.0]}
    more = {"renewal": renewal, "batch": 2}
    expected = fingerprint(kind(**more).partial_fit(X, y, **words))
    for at in (1, 2, 6):
        with monkeypatch.context() as patch:
            watched = watch(patch)
            learner, count = kind(**more), itertools.count(1)
            learner.partial_fit(X[:3], y[:3], **words)
            asked = len(watched.outputs)

            def fail(real, given, out, count=count, at=at):
                if next(count) == at:
                    raise KeyboardInterrupt
                return real.update_into(given, out)

            watched.fail = fail
            with pytest.raises(KeyboardInterrupt):
                learner.partial_fit(X[3:], y[3:], **words)
            assert len(watched.outputs) > asked + 5, "the draws do not reach beyond an epoch"
        assert fingerprint(learner) == expected


# ---- the guarantee -------------------------------------------------------------------------------------------------


def increments(learner, gradients, epochs):
    """What a run perturbed, by epoch, regenerated from its public points: C times the increments of the sums."""
    learner.ask(gradients.shape[1])
    plan, points = learner._run.plan, [learner.ask()]
    for gradient in gradients:
        learner.tell(gradient=gradient)
        points.append(learner.ask())
    sums, found, start = -plan.regularization * np.array(points), [], 0
    for epoch in range(epochs):
        length = plan.epochs.rows[min(epoch, plan.epochs.last)]
        part = np.diff(sums[start : start + length + 1], axis=0)
        found.append(encoder(plan.epochs.of(epoch).factorization) @ part)
        start += length
    return found


@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
@pytest.mark.parametrize("renewal", RENEWALS)
@pytest.mark.parametrize("design", ["blt", "sqrt", "independent"])
def test_a_row_moves_its_own_epoch_alone(design, renewal, adjacency):
    """Two runs with the same noise and one different gradient: the change of what is perturbed, in standard deviations.

    It is that of the row's epoch, at most mu, and almost mu for the first row of an epoch: two thirds of the noise
    would exceed mu. All other epochs differ only in the values from which their sums begin.
    """
    epochs = 3
    length = sum(FIRST << e if renewal == "double" else FIRST for e in range(epochs))
    words = {
        "renewal": renewal, "design": design, "gradient_bound": 1.0, "regularization": 1.0, "radius": 1e12,
        "fit_intercept": False, "adjacency": adjacency, "epsilon": 1.0, "delta": 1e-6,
    }  # fmt: skip
    gradients = np.random.default_rng(0).normal(size=(length, 3)) / 3
    mu = gdp_mu(1.0, 1e-6)
    for tau in (0, 4, 5, 9, 10, length - 1):
        one, two = gradients.copy(), gradients.copy()
        one[tau] = [0.6, 0.8, 0.0]
        two[tau] = -one[tau] if adjacency == "replace" else 0.0
        learners = make(**words), make(**words)
        plan = learners[0].calibrate(3, FIRST)
        assert plan.mu == mu
        epoch, within = plan.epochs.locate(tau + 1)
        for e, (a, b) in enumerate(zip(*(increments(x, g, epochs) for x, g in zip(learners, (one, two), strict=True)),
                                       strict=True)):  # fmt: skip
            change = np.linalg.norm(a - b) / plan.epochs.of(e).sigma
            slack = 2e-3 * math.sqrt(a.size)  # numbers are rounded to a grid of 2**-10 of the noise
            if e != epoch:
                assert change < 1e-9
                continue
            assert change <= mu * (1.0 + 1e-9) + slack
            if within == 1:
                assert change >= mu - slack
                assert 1.5 * change > mu * (1.0 + 1e-9) + slack


@pytest.mark.parametrize("kind", [make, make_ridge])
@pytest.mark.parametrize("renewal", RENEWALS)
@pytest.mark.parametrize("design", DESIGNS)
def test_an_epoch_has_the_noise_of_a_run_of_its_length(design, renewal, kind):
    """It is for the whole budget, and the noise of a release is that of all epochs."""
    learner = kind(renewal=renewal, design=design, batch=3)
    plan, ridge = learner.calibrate(4, FIRST), kind is make_ridge
    ends = []
    for epoch in range(5):
        rows = FIRST << epoch if renewal == "double" else FIRST
        alone = learner.__class__(**{**learner.get_params(), "renewal": "none"}).calibrate(4, rows)
        assert plan.epochs.of(epoch) == alone.sums
        assert alone.sums.mu == plan.mu == gdp_mu(9.0, 1e-6)
        start = sum(FIRST << e if renewal == "double" else FIRST for e in range(epoch))
        for within in range(1, rows + 1):
            row = start + within
            step = -(-within // 3) if within == rows else within // 3
            now = alone.sums.std(step) if step else 0.0
            std = math.hypot(*ends, now)
            if row < 3 and FIRST > 2:
                assert plan.std(row) == 0.0
                continue
            if ridge:
                scale = plan._scale(row, epoch, step)
            else:
                settled = start + min(3 * step, within)
                scale = 1.0 / (plan.regularization_in(epoch) + plan.l2 * settled)
            assert plan.std(row) == pytest.approx(std * scale, rel=1e-12)
            assert plan.last_std(row) >= 0.0
        ends.append(alone.sums.std(-(-rows // 3)))


@pytest.mark.parametrize("batch", [1, 4, 10, 100, 1000])
def test_doubling_ends_where_rounding_would_outgrow_the_noise(batch):
    first = batch << 16
    plan = make(horizon=first, batch=batch).calibrate(3, first)
    longest = plan.epochs.rows[-1]
    assert longest / batch <= (1 << 25) / math.sqrt(batch) < 2 * longest / batch
    assert plan.epochs.sums[-1].charged < 1.2 * plan.epochs.sums[-1].factorization.column_norm * plan.sums.sensitivity


def test_longest_epochs_of_each_design():
    assert make(horizon=1 << 27).calibrate(3, 1 << 27).epochs.rows == (1 << 27,)
    assert make(design="sqrt").calibrate(3, 100).epochs.rows[-1] <= 1 << 18
    for design in ("tree", "honaker", "smooth", "independent"):
        epochs = make(design=design).calibrate(3, 100).epochs
        assert MOST_ROWS <= epochs.start(epochs.last + 1) < 4 * MOST_ROWS
    assert make(renewal="repeat").calibrate(3, 100).epochs.rows == (100,)


@pytest.mark.parametrize("renewal", RENEWALS)
def test_rows_and_epochs(renewal):
    """Closed forms against counting, also where the last epoch is repeated for ever."""
    epochs = make(design="sqrt", batch=3).calibrate(300_000, FIRST).epochs  # doubles once: 2**20 numbers to keep
    assert epochs.rows == (5,)
    epochs = make(design="sqrt", batch=3, renewal=renewal).calibrate(200_000, FIRST).epochs
    assert epochs.rows == ((5,) if renewal == "repeat" else (5, 10))
    row, variance = 0, 0.0
    for epoch in range(6):
        length = epochs.rows[min(epoch, epochs.last)]
        assert epochs.start(epoch) == row
        assert epochs.variance_before(epoch) == pytest.approx(variance, rel=1e-12)
        for within in range(1, length + 1):
            row += 1
            assert epochs.locate(row) == (epoch, within)
            assert epochs.step(row) == (epoch, -(-within // 3) if within == length else within // 3)
            assert epochs.step(row, ended=True) == (epoch, -(-within // 3))
        variance += epochs.of(epoch).std(-(-length // 3)) ** 2
    assert epochs.locate(MOST_ROWS)[0] > 1 << 44


@pytest.mark.parametrize("renewal", RENEWALS)
@pytest.mark.parametrize("kind", [make, make_ridge])
def test_the_guarantee(kind, renewal):
    X, y = data("squared", n=N)
    learner = kind(renewal=renewal, loss="squared")
    learner.partial_fit(X, y)
    sentence = learner.guarantee_.sentence()
    assert f"epochs of 5 rows{' each' if renewal == 'repeat' else ', twice as many and so on'}" in sentence
    assert "a row is in one epoch only" in sentence
    assert "delta has to stay below one over the number of rows" in sentence
    assert learner.guarantee_.horizon == MOST_ROWS
    assert learner.guarantee_.mu == kind(renewal="none", loss="squared").partial_fit(X[:5], y[:5]).guarantee_.mu
    learner.close()
    assert learner.ledger_.spent.mu == pytest.approx(learner.guarantee_.mu, rel=1e-9)
    assert learner.ledger_.spent.mu >= learner.guarantee_.mu
    with pytest.warns(PrivacyWarning, match="with 0.0009 and 2000 rows|with 0.0009 and 2,000 rows"):
        kind(renewal=renewal, loss="squared", delta=9e-4, horizon=2000).partial_fit(X, y)
    with pytest.raises(InvalidParameter, match="renewal"):
        kind(renewal="sometimes", loss="squared").partial_fit(X, y)
    with pytest.raises(InvalidParameter, match="horizon must be given"):
        kind(renewal=renewal, loss="squared", horizon=None).partial_fit(X, y)


@pytest.mark.parametrize("at", [3, 5, 9, 15, 16])
@pytest.mark.parametrize("renewal", RENEWALS)
def test_the_last_point_is_released_by_close(renewal, at):
    X, y = data("logistic", n=N)
    learner = make(renewal=renewal, release="last", batch=4)
    twin = begin(learner, X, y)
    learner.partial_fit(X[1:at], y[1:at])
    for i in range(1, at):
        twin.learn(X[i], y[i])
    assert learner.n_releases_ == 0
    plan = learner._run.plan
    learner.close()
    twin.end()
    assert learner.n_releases_ == 1
    assert np.array_equal(model_of(learner), twin.x)
    epoch, within = plan.epochs.locate(at)
    std = plan.epochs.std(epoch, -(-within // 4))
    assert plan.last_std(at) == pytest.approx(std / plan.regularization_in(epoch))


@pytest.mark.parametrize("renewal", RENEWALS)
def test_fit_takes_more_rows_than_the_horizon(renewal):
    X, y = data("logistic", n=N)
    for learner in (make(renewal=renewal), make(PQFTL, renewal, l2=0.1)):
        learner.fit(X, y)
        assert learner.n_rows_ == N
        with pytest.raises(StateError, match="closed"):
            learner.partial_fit(X, y)
    other = make(renewal=renewal, domain=L1Ball(0.3), regularization=20.0).fit(X, y)
    assert np.abs(model_of(other)).sum() <= 0.3 * (1 + 1e-12)


def test_least_squares_ends_with_a_model_of_all_rows():
    """Also for a leaf that has only begun, in an epoch of its own."""
    rng = np.random.default_rng(1)
    X, y = rng.uniform(-0.5, 0.5, size=(17, 3)), rng.uniform(-1.0, 1.0, size=17)
    learner = make_ridge(epsilon=math.inf, batch=4, release=7, radius=50.0).fit(X, y)
    np.testing.assert_allclose(learner.coef_, np.linalg.solve(X.T @ X + 17 * 0.01 * np.eye(3), X.T @ y), rtol=1e-9)


@pytest.mark.parametrize("renewal", RENEWALS)
def test_progressive_figures(renewal):
    """For all rows, at as many points as requested; private metrics have no epochs."""
    X, y = data("squared", n=400)
    learner = make_ridge(renewal=renewal)
    found = progressive(learner, open_stream((X, y)), points=10)
    assert (found.score.rows, learner.n_rows_) == (400, 400)
    with pytest.raises(InvalidParameter, match="renewal='none'"):
        progressive(make_ridge(renewal=renewal), open_stream((X, y)), private=PrivateMetrics(mu=0.1))
